/* pool: what a context lends to the plans it runs. */
#include "runtime/alloc.h"
#include "runtime/exec.h"

#include <sys/mman.h>

#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20) /* larger blocks are aligned so that the kernel can use huge pages */

typedef struct block {
	void *p;
	size_t bytes;
} block;

struct rt_pool {
	block arena, scratch;
};

rt_pool *rt_pool_new(void)
{
	return rt_calloc(sizeof(rt_pool));
}

void rt_pool_free(rt_pool *p)
{
	if (!p) return;
	rt_free(p->arena.p);
	rt_free(p->scratch.p);
	rt_free(p);
}

/* At least that many bytes; grows by half so that a slowly growing shape does not allocate on every call. */
static void *need(block *b, size_t bytes)
{
	if (bytes <= b->bytes && b->p) return b->p;
	size_t want = bytes < b->bytes + b->bytes / 2 ? b->bytes + b->bytes / 2 : bytes;
	size_t align = want >= HUGE_PAGE ? HUGE_PAGE : LINE;
	want = (want + align - 1) / align * align;
	void *p = rt_alloc_aligned(align, want ? want : LINE);
	if (!p) return NULL;
	if (want >= HUGE_PAGE) madvise(p, want, MADV_HUGEPAGE);
	rt_free(b->p);
	b->p = p;
	b->bytes = want;
	return p;
}

void *rt_pool_arena(rt_pool *p, size_t bytes)
{
	return need(&p->arena, bytes);
}

void *rt_pool_scratch(rt_pool *p, int threads, size_t bytes)
{
	return need(&p->scratch, (size_t)threads * ((bytes + LINE - 1) / LINE * LINE));
}
