/* SPDX-License-Identifier: MIT */
/* All allocations of the library. Tests count them and make the k-th fail. */
#include "runtime/base.h"
#include "runtime/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Calls that hit do not allocate; elsewhere the cost of these two atomics is too small to measure. */
static atomic_llong count;
static atomic_llong fail_at = -1;

long long rt_alloc_count(void) { return atomic_load_explicit(&count, memory_order_relaxed); }
void rt_alloc_fail_at(long long k)
{
	atomic_store(&count, 0);
	atomic_store(&fail_at, k);
}

static bool refused(void)
{
	long long k = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	return k == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *rt_alloc(size_t bytes) { return refused() ? NULL : malloc(bytes ? bytes : 1); }
void *rt_calloc(size_t bytes) { return refused() ? NULL : calloc(1, bytes ? bytes : 1); }
void *rt_realloc(void *p, size_t bytes) { return refused() ? NULL : realloc(p, bytes ? bytes : 1); }
void rt_free(void *p) { free(p); }

bool rt_has_room(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p != MAP_FAILED && !munmap(p, bytes);
}

char *rt_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = rt_alloc(n);
	return p ? memcpy(p, s, n) : NULL;
}

void *rt_alloc_aligned(size_t align, size_t bytes)
{
	void *p = NULL;
	if (refused()) return NULL;
	return posix_memalign(&p, align, bytes ? bytes : 1) ? NULL : p;
}

void *rt_alloc_data(size_t bytes)
{
	const bool huge = bytes >= HUGE_PAGE;
	void *p = rt_alloc_aligned(huge ? HUGE_PAGE : RT_LINE, bytes);
	if (p && huge) madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

bool rt_grow(void **v, uint32_t *cap, uint32_t need, size_t elem)
{
	uint32_t n = *cap ? *cap : 8;
	while (n < need) {
		if (n > UINT32_MAX / 2) return false;
		n *= 2;
	}
	void *p = rt_realloc(*v, (size_t)n * elem);
	if (!p) return false;
	*v = p;
	*cap = n;
	return true;
}

/* ---- arena ---- */
struct rt_chunk {
	struct rt_chunk *below;
	size_t size;
	_Alignas(16) unsigned char bytes[];
};

static bool add_chunk(rt_arena *a, size_t size)
{
	struct rt_chunk *c = rt_calloc(sizeof *c + size);
	if (!c) return false;
	c->below = a->top;
	c->size = size;
	a->top = c;
	a->used = 0;
	a->total += size;
	return true;
}

void rt_arena_room(rt_arena *a, size_t bytes)
{
	if (!a->top && bytes) add_chunk(a, (bytes + 15) & ~(size_t)15); /* without memory, the first allocation will say so */
}

void *rt_arena_alloc(rt_arena *a, size_t bytes)
{
	const size_t more = a->total < 1024 ? 1024 : a->total < (1 << 20) ? a->total : (1 << 20);
	bytes = (bytes + 15) & ~(size_t)15;
	if ((!a->top || a->top->size - a->used < bytes) && !add_chunk(a, more < bytes ? bytes : more)) return NULL;
	void *p = a->top->bytes + a->used;
	a->used += bytes;
	return p;
}

size_t rt_arena_used(const rt_arena *a) { return a->top ? a->total - (a->top->size - a->used) : 0; }

char *rt_arena_strdup(rt_arena *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = rt_arena_alloc(a, n);
	return p ? memcpy(p, s, n) : NULL;
}

void rt_arena_reset(rt_arena *a)
{
	struct rt_chunk *keep = a->top;
	if (!keep) return;
	rt_arena below = { .top = keep->below };
	rt_arena_free(&below);
	memset(keep->bytes, 0, a->used);
	keep->below = NULL;
	a->used = 0;
	a->total = keep->size;
}

void rt_arena_free(rt_arena *a)
{
	for (struct rt_chunk *c = a->top, *below; c; c = below) {
		below = c->below;
		rt_free(c);
	}
	*a = (rt_arena){ 0 };
}
