/* SPDX-License-Identifier: MIT */
/* memory: of the device, and of the host where the device can read it. */
#include "test/fake/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALLEST = 256 };                 /* the alignment that cuMemAlloc promises */
static const size_t SPACE = (size_t)16 << 30;

typedef struct block { size_t at, bytes; bool used; } block;
typedef struct pinned { char *p; size_t bytes; struct pinned *next; } pinned;

/* owner: of each 256 bytes, the number of its block + 1. A block ends with at least one unit that has no owner. */
static struct { char *host, *there; size_t end, used, most; uint32_t *owner; block *block; uint32_t n, cap; pinned *pinned; } memory;

static void *map(size_t bytes, int rights, int fd)
{
	void *p = mmap(NULL, bytes, rights, (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE, fd, 0);
	if (p == MAP_FAILED) fake_die("no addresses");
	return p;
}

void fake_memory_open(void)
{
	const char *most = getenv("FAKE_CUDA_MEMORY");
	const int fd = memfd_create("fake-cuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)SPACE)) fake_die("no memory");
	memory.host = map(SPACE, PROT_NONE, fd);
	memory.there = map(SPACE, PROT_READ | PROT_WRITE, fd);
	memory.owner = map(SPACE / SMALLEST * sizeof *memory.owner, PROT_READ | PROT_WRITE, -1);
	memory.end = SMALLEST; /* so that an access before the first block is inside of the range, too */
	memory.most = most ? strtoull(most, NULL, 0) : (size_t)8 << 30;
	fake_race_open(SPACE);
}

/* ---- of the device ---- */
static size_t units(size_t bytes) { return (bytes + SMALLEST - 1) / SMALLEST; }

/* No address is given twice, unless all are used up. */
static bool place_for(size_t bytes, block *b)
{
	const size_t room = (units(bytes) + 1) * SMALLEST;
	*b = (block){ memory.end, bytes, true };
	if (memory.end + room <= SPACE) {
		memory.end += room;
		return true;
	}
	for (uint32_t i = 0; i < memory.n; i++)
		if (!memory.block[i].used && units(memory.block[i].bytes) == units(bytes)) {
			b->at = memory.block[i].at;
			memory.block[i].bytes = 0;
			return true;
		}
	return false;
}

int fake_alloc(address *p, size_t bytes)
{
	block b;
	if (!bytes) return INVALID_VALUE;
	if (memory.used + bytes > memory.most || bytes > SPACE || !place_for(bytes, &b)) return OUT_OF_MEMORY;
	if (memory.n == memory.cap) {
		memory.cap = memory.cap ? 2 * memory.cap : 256;
		memory.block = realloc(memory.block, memory.cap * sizeof *memory.block);
	}
	memory.block[memory.n++] = b;
	for (size_t u = 0; u < units(bytes); u++) memory.owner[b.at / SMALLEST + u] = memory.n;
	memset(memory.there + b.at, 0xAB, bytes);
	memory.used += bytes;
	*p = (uintptr_t)memory.host + b.at;
	return SUCCESS;
}

static block *block_at(size_t at)
{
	const uint32_t n = at < SPACE ? memory.owner[at / SMALLEST] : 0;
	return n ? &memory.block[n - 1] : NULL;
}

/* The pages go back to the system. */
static void discard(size_t at, size_t bytes)
{
	const size_t page = 4096, from = (at + page - 1) / page * page, to = (at + bytes) / page * page;
	memset(memory.there + at, 0xFF, bytes);
	if (to > from) madvise(memory.there + from, to - from, MADV_REMOVE);
	fake_race_forget(at, bytes);
}

int fake_free(address p)
{
	const size_t at = (size_t)(p - (uintptr_t)memory.host);
	block *b = fake_is_there(p) ? block_at(at) : NULL;
	if (!p) return SUCCESS;
	if (!b || b->at != at || !b->used) return INVALID_VALUE;
	const char *user = fake_user_of((uintptr_t)p, (uintptr_t)p + b->bytes);
	if (user && fake_failed_waits()) fake_streams_all(); /* the real one waits, too; a program must not count on it */
	else if (user) fake_die("memory at %#llx is freed, but %s uses it, and the host does not know that it is done", p, user);
	discard(at, b->bytes);
	b->used = false;
	memory.used -= b->bytes;
	return SUCCESS;
}

bool fake_is_there(address p) { return p >= (uintptr_t)memory.host && p < (uintptr_t)memory.host + SPACE; }

void fake_check(size_t at, size_t bytes, const char *what)
{
	const block *b = block_at(at);
	if (!b || at < b->at || at + bytes > b->at + b->bytes)
		fake_die("%s uses %zu bytes at %#zx, which are not inside of one allocation%s", what, bytes, at,
		         b ? ": its end is passed" : "");
	if (!b->used) fake_die("%s uses %zu bytes at %#zx, which were freed", what, bytes, at);
}

char *fake_there(address p, size_t bytes)
{
	if (!fake_is_there(p)) fake_die("work uses %#llx, an address of the host", p);
	const size_t at = (size_t)(p - (uintptr_t)memory.host);
	fake_check(at, bytes, "a copy or an argument");
	return memory.there + at;
}

bool fake_find(const void *there, size_t bytes, size_t *at)
{
	*at = (size_t)((const char *)there - memory.there);
	return *at < SPACE && bytes <= SPACE - *at;
}

/* ---- of the host ---- */
int fake_host_alloc(void **p, size_t bytes)
{
	pinned *x = malloc(sizeof *x);
	*x = (pinned){ calloc(1, bytes + 8), bytes, memory.pinned };
	memory.pinned = x;
	*p = x->p;
	return SUCCESS;
}

int fake_host_free(void *p)
{
	for (pinned **at = &memory.pinned; *at; at = &(*at)->next) {
		pinned *x = *at;
		if (x->p != p) continue;
		const char *user = fake_user_of((uintptr_t)x->p, (uintptr_t)x->p + x->bytes);
		if (user) fake_die("pinned memory is freed, but %s uses it", user);
		*at = x->next;
		free(x->p);
		free(x);
		return SUCCESS;
	}
	return INVALID_VALUE;
}

bool fake_is_pinned(const void *p, size_t bytes)
{
	for (const pinned *x = memory.pinned; x; x = x->next)
		if ((const char *)p >= x->p && (const char *)p + bytes <= x->p + x->bytes) return true;
	return false;
}

int fake_memory_info(size_t *unused, size_t *all)
{
	*all = memory.most;
	*unused = memory.most - memory.used;
	return SUCCESS;
}

void fake_memory_count(int *device, int *host)
{
	*device = *host = 0;
	for (uint32_t i = 0; i < memory.n; i++) *device += memory.block[i].used;
	for (const pinned *x = memory.pinned; x; x = x->next) ++*host;
}
