/* SPDX-License-Identifier: MIT */
/* race: finds two uses of a byte by different threads that nothing orders, at least one of them a write.
 *
 * Blocks run one after the other, and a block's time is cut by its barriers. Each piece is an interval; their numbers only grow. So
 * a use is known by its interval and its thread: uses of one launch are ordered when they are in one block but in different intervals,
 * by one thread, or by threads of one warp that met in between (__syncwarp). A shuffle orders no memory, as the programming guide says.
 *
 *   launch:  block 0            block 1
 *            | 7 | 8 | 9 |      | 10 | 11 |        first_of_launch = 7, first_of_block = 10 while block 1 runs */
#include "test/fake/driver.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { MANY = 1 << 15, OTHERS = 1 << 14, THREAD = MOST_THREADS - 1 };

/* The last uses of a byte. who: a thread; MANY: threads of several warps. Of reads by several threads of one warp, who is one of them
 * and `same` is false. OTHERS: another block of the launch read the byte, too. */
typedef struct use { uint32_t interval; uint16_t who, met; } use; /* met: how often its warp met before; the highest bit: several threads */
typedef struct cell { use write, read; } cell;
enum { SEVERAL = 1 << 15 };

static cell *global, shared[228 << 10];
static uint32_t interval, first_of_launch, first_of_block;
static uint16_t met[MOST_THREADS / WARP];
static bool off;

void fake_race_open(size_t bytes)
{
	const char *s = getenv("FAKE_CUDA_RACE");
	off = s && *s == '0';
	if (off) return;
	global = mmap(NULL, bytes * sizeof *global, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (global == MAP_FAILED) fake_die("no addresses for the search for races");
}

void fake_race_launch(void) { first_of_launch = interval + 1; }
void fake_race_block(void)
{
	first_of_block = ++interval;
	for (int w = 0; w < MOST_THREADS / WARP; w++) met[w] = 0;
}
void fake_race_barrier(void) { interval++; }
void fake_race_warp(int thread) { met[thread / WARP]++; }

void fake_race_forget(size_t at, size_t bytes)
{
	const size_t page = 4096, from = (at * sizeof(cell) + page - 1) / page * page, to = (at + bytes) * sizeof(cell) / page * page;
	if (!off && to > from) madvise((char *)global + from, to - from, MADV_DONTNEED);
}

/* Blocks share no shared memory: there the interval says nothing but whether the use is of now. */
static bool in_other_block(const use *u, bool is_shared)
{
	return !is_shared && u->interval >= first_of_launch && u->interval < first_of_block;
}

/* An earlier use and one of `thread` now are in one interval, and nothing orders them. */
static bool meets(const use *u, int thread)
{
	if (u->interval != interval) return false;
	if (u->who & MANY) return true;
	const int who = u->who & THREAD;
	if (who / WARP != thread / WARP) return true;
	if ((u->met & ~SEVERAL) != met[thread / WARP]) return false;
	return who != thread || (u->met & SEVERAL);
}

_Noreturn static void found(bool is_shared, size_t at, int thread, bool writes, const use *u, bool wrote)
{
	fake_die("a race: thread %d %s %s memory at %#zx, which thread %d of %s %s, and nothing orders them", thread,
	         writes ? "writes" : "reads", is_shared ? "shared" : "global", at, u->who & THREAD,
	         in_other_block(u, is_shared) ? "another block" : "the block", wrote ? "writes" : "reads");
}

static void note_read(use *r, int thread)
{
	const uint16_t now = met[thread / WARP];
	if (r->interval != interval) {
		const bool others = in_other_block(r, false) || (r->interval >= first_of_launch && (r->who & OTHERS));
		*r = (use){ interval, (uint16_t)(thread | (others ? OTHERS : 0)), now };
		return;
	}
	const int who = r->who & THREAD;
	if (r->who & MANY) return;
	if (who / WARP != thread / WARP) r->who |= MANY;
	else if ((r->met & ~SEVERAL) != now)
		r->met = now, r->who = (uint16_t)(thread | (r->who & OTHERS)); /* earlier reads of the warp come before what follows */
	else if (who != thread) r->met |= SEVERAL;
}

void fake_race_use(bool is_shared, size_t at, size_t bytes, int thread, bool writes)
{
	if (off) return;
	for (cell *c = (is_shared ? shared : global) + at, *end = c + bytes; c < end; c++, at++) {
		if (in_other_block(&c->write, is_shared) || meets(&c->write, thread)) found(is_shared, at, thread, writes, &c->write, true);
		if (writes && (in_other_block(&c->read, is_shared) || meets(&c->read, thread))) found(is_shared, at, thread, writes, &c->read, false);
		if (writes && !is_shared && c->read.interval >= first_of_launch && c->read.who & OTHERS)
			fake_die("a race: thread %d writes global memory at %#zx, which another block reads", thread, at);
		if (writes) c->write = (use){ interval, (uint16_t)thread, met[thread / WARP] };
		else note_read(&c->read, thread);
	}
}
