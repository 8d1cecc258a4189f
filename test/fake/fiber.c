/* SPDX-License-Identifier: MIT */
/* fiber: the threads of a block. One runs until it is done, or waits at a barrier or a shuffle; then another one does, in an order that
 * changes from step to step. Every access to memory passes here. */
#include "test/fake/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = FAKE_STACK, PAGE = 4096 };
typedef enum state { READY, AT_BARRIER, AT_WARP, AT_SHUFFLE, DONE } state;
typedef struct fiber { void *sp; state state; int site, lane; unsigned long long value; } fiber;

static fiber fibers[MOST_THREADS];
static char *stacks;                        /* of all fibers; each begins with a page that cannot be used */
static void *scheduler;
static int running, nthread;
static short order[MOST_THREADS];
static const task *now;

void fake_switch(void **save, void *to);
__asm__(".text\n.globl fake_switch\n.hidden fake_switch\nfake_switch:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\nret\n");

/* ---- what kernels call ---- */
static void back(state s, int site)
{
	fibers[running].state = s;
	fibers[running].site = site;
	fake_switch(&fibers[running].sp, scheduler);
}

static void barrier(int site) { back(AT_BARRIER, site); }

static void need_all(unsigned mask, const char *what)
{
	if (mask != ~0u) fake_die("%s: %s with the mask %#x; only whole warps are known", now->name, what, mask);
}

static void sync_warp(unsigned mask, int site)
{
	need_all(mask, "a __syncwarp");
	back(AT_WARP, site);
}

static unsigned long long shuffle(unsigned mask, unsigned long long value, int lane, int site)
{
	fiber *f = &fibers[running];
	need_all(mask, "a shuffle");
	f->value = value;
	f->lane = lane;
	back(AT_SHUFFLE, site);
	return f->value;
}

static bool inside(const void *p, size_t bytes, const void *from, size_t room)
{
	return (uintptr_t)p >= (uintptr_t)from && (uintptr_t)p + bytes <= (uintptr_t)from + room;
}

static void use(const void *p, size_t bytes, int writes, bool atomic)
{
	size_t at;
	const size_t align = bytes > 16 ? 16 : bytes;
	if (inside(p, bytes, now->image, (size_t)(now->image_end - now->image)) && !inside(p, 1, now->memory, (228 << 10) + GUARD)) {
		if (!writes) return;
		fake_die("%s writes a constant", now->name);
	}
	if (bytes & (bytes - 1) ? bytes % 16 == 0 && (uintptr_t)p % 16 : (uintptr_t)p % align)
		fake_die("%s: thread %d of block %u uses %zu bytes at %p, which is not a multiple of that", now->name, running,
		         now->place->block.x, bytes, p);
	if (fake_find(p, bytes, &at)) {
		fake_check(at, bytes, now->name);
		if (!atomic) fake_race_use(false, at, bytes, running, writes);
	} else if (inside(p, bytes, now->memory, now->shared)) {
		if (!atomic) fake_race_use(true, (size_t)((const char *)p - now->memory), bytes, running, writes);
	} else if (inside(p, bytes, now->arguments, now->bytes)) {
		if (writes) fake_die("%s writes its arguments", now->name);
	} else if (!fake_is_pinned(p, bytes)) {
		fake_die("%s: thread %d of block %u uses %zu bytes at %p, %s", now->name, running, now->place->block.x, bytes, p,
		         inside(p, 1, now->memory, 228 << 10)                 ? "beyond the shared memory of the launch"
		         : inside(p, 1, stacks, (size_t)MOST_THREADS * STACK) ? "local memory of another thread"
		                                                              : "an address of the host");
	}
}

static void access_(const void *p, size_t bytes, int writes) { use(p, bytes, writes, false); }

static unsigned long long swap(unsigned long long *p, unsigned long long was, unsigned long long value)
{
	use(p, sizeof *p, true, true);
	const unsigned long long v = *p;
	if (v == was) *p = value;
	return v;
}

static void undefined(const char *what, unsigned line) { fake_die("%s, line %u of the program: %s", now->name, line, what); }

const struct fake_hooks fake_hooks_of_fibers = { barrier, sync_warp, shuffle, access_, swap, undefined };

/* ---- running ---- */
static void fiber_main(void)
{
	now->run(now->arguments);
	back(DONE, 0);
	fake_die("a fiber that is done runs");
}

static void open_stacks(void)
{
	stacks = mmap(NULL, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED) fake_die("no stacks");
	for (int t = 0; t < MOST_THREADS; t++) mprotect(stacks + (size_t)t * STACK, PAGE, PROT_NONE);
}

static void prepare(int t)
{
	void **sp = (void **)(stacks + (size_t)(t + 1) * STACK - 64);
	*--sp = NULL;               /* alignment, as after a call */
	*--sp = (void *)(uintptr_t)fiber_main;
	sp -= 6;
	memset(sp, 0, 6 * sizeof *sp);
	fibers[t] = (fiber){ .sp = sp, .state = READY };
}

static void resume(int t)
{
	const struct fake_xyz n = now->threads;
	running = t;
	now->place->stack = stacks + (size_t)t * STACK;
	now->place->thread = (struct fake_xyz){ (unsigned)t % n.x, (unsigned)t / n.x % n.y, (unsigned)t / n.x / n.y };
	fake_switch(&scheduler, fibers[t].sp);
}

/* Threads that wait for each other are at one place of the text. */
static void same_site(int t, int of, const char *what)
{
	if (fibers[t].site != fibers[of].site || fibers[t].state != fibers[of].state)
		fake_die("%s: threads %d and %d are not at the same %s", now->name, of, t, what);
}

/* All threads of a warp wait at a shuffle or a __syncwarp. */
static void meet_warp(int first)
{
	const bool shuffles = fibers[first].state == AT_SHUFFLE;
	unsigned long long value[WARP];
	for (int l = 0; l < WARP; l++) {
		same_site(first + l, first, shuffles ? "shuffle" : "__syncwarp");
		value[l] = fibers[first + l].value;
	}
	for (int l = 0; l < WARP; l++) {
		fiber *f = &fibers[first + l];
		if (shuffles) f->value = value[f->lane >= 0 && f->lane < WARP ? f->lane : l]; /* a lane that is not there: its own value */
		f->state = READY;
	}
	if (!shuffles) fake_race_warp(first);
}

static bool meet_warps(void)
{
	bool any = false;
	for (int w = 0; w < nthread; w += WARP) {
		int at = 0, n = nthread - w < WARP ? nthread - w : WARP, stuck = 0;
		for (int l = 0; l < n; l++) {
			const state s = fibers[w + l].state;
			at += s == AT_SHUFFLE || s == AT_WARP;
			stuck += s == AT_BARRIER || s == DONE;
		}
		if (at && (stuck || n < WARP)) fake_die("%s: only %d threads of a warp reach a shuffle or a __syncwarp", now->name, at);
		if (at) meet_warp(w), any = true;
	}
	return any;
}

/* The order of the threads: warp by warp, or the lanes of all warps in turn, from any start. */
static void shuffle_order(void)
{
	const bool by_lane = nthread > WARP && nthread % WARP == 0 && fake_random() & 1;
	const int start = (int)(fake_random() % (unsigned)nthread);
	for (int i = 0; i < nthread; i++) {
		const int k = (i + start) % nthread;
		order[i] = (short)(by_lane ? k % (nthread / WARP) * WARP + k / (nthread / WARP) : k);
	}
}

/* Returns how many threads are not done. */
static int run_ready(void)
{
	int left = 0;
	for (int i = 0; i < nthread; i++) {
		fiber *f = &fibers[order[i]];
		if (f->state == READY) resume(order[i]);
		left += f->state != DONE;
	}
	return left;
}

static void meet_block(void)
{
	for (int t = 0; t < nthread; t++) {
		if (fibers[t].state != AT_BARRIER) fake_die("%s: thread %d does not reach a barrier that others reach", now->name, t);
		same_site(t, 0, "barrier");
	}
	for (int t = 0; t < nthread; t++) fibers[t].state = READY;
	fake_race_barrier();
}

void fake_run_block(const task *t)
{
	now = t;
	nthread = (int)(t->threads.x * t->threads.y * t->threads.z);
	if (!stacks) open_stacks();
	fake_race_block();
	for (int i = 0; i < nthread; i++) prepare(i);
	shuffle_order();
	while (run_ready())
		if (!meet_warps()) meet_block();
}
