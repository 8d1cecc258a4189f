/* SPDX-License-Identifier: MIT */
/* layout: {dtype, device, sizes, strides}, interned: equal pointer <=> equal layout. Keys hold its id. No id is used twice, so
 * a key that outlives its layout matches nothing. */
#ifndef TJ_RUNTIME_LAYOUT_H
#define TJ_RUNTIME_LAYOUT_H

#include "runtime/device.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct rt_layout {
	uint32_t id;
	uint8_t dtype, rank, device;
	bool contiguous;      /* row-major without gaps */
	atomic_int refs;      /* references from tensors, traces, entries; 0: may be swept */
	uint64_t hash;
	int64_t numel, bytes; /* bytes = numel * size of an element */
	int64_t dim[];        /* rank sizes, then rank strides in elements */
} rt_layout;

static inline const int64_t *rt_strides(const rt_layout *l) { return l->dim + l->rank; }

typedef struct rt_layouts {
	pthread_mutex_t lock;
	rt_layout **bucket;   /* open-addressed */
	uint32_t n, cap;      /* cap a power of two */
	uint32_t next_id;
	uint32_t sweep_at;    /* a sweep starts when n reaches this */
} rt_layouts;

void rt_layouts_init(rt_layouts *t);
void rt_layouts_free(rt_layouts *t);
/* A new reference to the layout; NULL when out of memory or when the sizes overflow. stride NULL: row-major. */
const rt_layout *rt_layout_get(rt_layouts *t, tj_dtype dtype, int device, int rank, const int64_t *dim, const int64_t *stride);
static inline const rt_layout *rt_layout_ref(const rt_layout *l)
{
	atomic_fetch_add_explicit(&((rt_layout *)(uintptr_t)l)->refs, 1, memory_order_relaxed);
	return l;
}
static inline void rt_layout_unref(const rt_layout *l)
{
	if (l) atomic_fetch_sub_explicit(&((rt_layout *)(uintptr_t)l)->refs, 1, memory_order_release);
}
bool rt_is_row_major(int rank, const int64_t *dim, const int64_t *stride); /* strides in elements; NULL: row-major */
/* The least and the greatest offset of an element, in elements; no size is 0. */
void rt_extent(int rank, const int64_t *dim, const int64_t *stride, int64_t *low, int64_t *high);
/* A matrix with these strides as a library reads it: rows (or, if *transposed, columns) of adjacent elements, *ld elements apart, which do
 * not overlap. Strides of axes of size 1 do not matter. false: it has no such form. */
bool rt_leading(int64_t rows, int64_t cols, int64_t row, int64_t col, bool *transposed, int64_t *ld);
/* "f32[4,8]", "f32[4,8]@cuda:0"; a layout that is not row-major is followed by its strides */
void rt_put_layout(rt_text *t, const rt_layout *l);

#endif
