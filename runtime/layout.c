/* SPDX-License-Identifier: MIT */
/* The intern table of layouts: one lock, swept when it has doubled since the last sweep. */
#include "runtime/layout.h"

enum { FIRST_SWEEP = 4096 };

void rt_layouts_init(rt_layouts *t)
{
	*t = (rt_layouts){ .next_id = 1, .sweep_at = FIRST_SWEEP };
	pthread_mutex_init(&t->lock, NULL);
}

void rt_layouts_free(rt_layouts *t)
{
	for (uint32_t i = 0; i < t->cap; i++) rt_free(t->bucket[i]);
	rt_free(t->bucket);
	pthread_mutex_destroy(&t->lock);
}

void rt_extent(int rank, const int64_t *dim, const int64_t *stride, int64_t *low, int64_t *high)
{
	*low = *high = 0;
	for (int d = 0; d < rank; d++) {
		const int64_t way = (dim[d] - 1) * stride[d];
		*(way < 0 ? low : high) += way;
	}
}

bool rt_is_row_major(int rank, const int64_t *dim, const int64_t *stride)
{
	int64_t want = 1;
	for (int i = rank - 1; stride && i >= 0; i--) {
		if (dim[i] != 1 && stride[i] != want) return false;
		want *= dim[i];
	}
	return true;
}

/* Row-major strides. In an empty tensor, a size of 0 counts as 1. */
static void default_strides(int rank, const int64_t *dim, int64_t *stride)
{
	int64_t s = 1;
	for (int i = rank - 1; i >= 0; i--) {
		stride[i] = s;
		s *= dim[i] > 1 ? dim[i] : 1;
	}
}

static bool place(rt_layout **bucket, uint32_t cap, rt_layout *l)
{
	for (uint32_t i = (uint32_t)l->hash;; i++)
		if (!bucket[i & (cap - 1)]) return bucket[i & (cap - 1)] = l, true;
}

/* Moves the layouts to a table of `cap` slots; with `sweep`, layouts without references are freed. */
static bool rehash(rt_layouts *t, uint32_t cap, bool sweep)
{
	rt_layout **bucket = rt_calloc(cap * sizeof *bucket);
	if (!bucket) return false;
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->cap; i++) {
		rt_layout *l = t->bucket[i];
		if (!l) continue;
		if (sweep && atomic_load_explicit(&l->refs, memory_order_acquire) == 0) rt_free(l);
		else n += place(bucket, cap, l);
	}
	rt_free(t->bucket);
	t->bucket = bucket;
	t->cap = cap;
	t->n = n;
	return true;
}

static bool make_room(rt_layouts *t)
{
	if (t->n >= t->sweep_at) {
		if (!rehash(t, t->cap, true)) return false;
		t->sweep_at = t->n * 2 > FIRST_SWEEP ? t->n * 2 : FIRST_SWEEP;
	}
	return t->n * 2 < t->cap || rehash(t, t->cap ? t->cap * 2 : 256, false);
}

static rt_layout *make(rt_layouts *t, tj_dtype dtype, int device, int rank, const int64_t *body, uint64_t hash, int64_t numel)
{
	rt_layout *l = rt_alloc(sizeof *l + 2 * (size_t)rank * sizeof(int64_t));
	if (!l) return NULL;
	*l = (rt_layout){ .id = t->next_id++,
		          .dtype = (uint8_t)dtype,
		          .rank = (uint8_t)rank,
		          .device = (uint8_t)device,
		          .hash = hash,
		          .numel = numel,
		          .bytes = numel * (int64_t)tj_dtype_size(dtype),
		          .contiguous = rt_is_row_major(rank, body, body + rank) || numel == 0 };
	memcpy(l->dim, body, 2 * (size_t)rank * sizeof(int64_t));
	atomic_init(&l->refs, 0);
	place(t->bucket, t->cap, l);
	t->n++;
	return l;
}

static rt_layout *find(rt_layouts *t, tj_dtype dtype, int device, int rank, const int64_t *body, uint64_t hash)
{
	if (!t->cap) return NULL;
	for (uint32_t i = (uint32_t)hash;; i++) {
		rt_layout *l = t->bucket[i & (t->cap - 1)];
		if (!l) return NULL;
		if (l->hash == hash && l->dtype == dtype && l->device == device && l->rank == rank &&
		    !memcmp(l->dim, body, 2 * (size_t)rank * sizeof *body))
			return l;
	}
}

const rt_layout *rt_layout_get(rt_layouts *t, tj_dtype dtype, int device, int rank, const int64_t *dim, const int64_t *stride)
{
	int64_t body[2 * TJ_MAX_RANK], numel, bytes;
	if (rank < 0 || rank > TJ_MAX_RANK || !rt_numel(rank, dim, &numel)) return NULL;
	if (__builtin_mul_overflow(numel, (int64_t)tj_dtype_size(dtype), &bytes)) return NULL;
	for (int i = 0; i < rank; i++) body[i] = dim[i];
	if (stride) memcpy(body + rank, stride, (size_t)rank * sizeof *stride);
	else default_strides(rank, dim, body + rank);
	uint64_t hash = rt_hash(body, 2 * (size_t)rank * sizeof *body, (uint64_t)device << 16 | (uint64_t)dtype << 8 | (uint64_t)rank);

	rt_lock(&t->lock);
	rt_layout *l = find(t, dtype, device, rank, body, hash);
	if (!l && make_room(t)) l = make(t, dtype, device, rank, body, hash, numel);
	if (l) rt_layout_ref(l);
	rt_unlock(&t->lock);
	return l;
}

static void put_list(rt_text *t, const int64_t *v, int n)
{
	rt_puts(t, "[");
	for (int i = 0; i < n; i++) rt_putf(t, i ? ",%lld" : "%lld", (long long)v[i]);
	rt_puts(t, "]");
}

bool rt_leading(int64_t rows, int64_t cols, int64_t row, int64_t col, bool *transposed, int64_t *ld)
{
	*transposed = false;
	*ld = rows == 1 ? cols : row;
	if ((col == 1 || cols == 1) && *ld >= cols) return true;
	*transposed = true;
	*ld = cols == 1 ? rows : col;
	return (row == 1 || rows == 1) && *ld >= rows;
}

void rt_put_layout(rt_text *t, const rt_layout *l)
{
	rt_puts(t, tj_dtype_name((tj_dtype)l->dtype));
	put_list(t, l->dim, l->rank);
	if (l->device != RT_CPU) rt_putf(t, "@%s", rt_device_name(l->device));
	if (l->contiguous) return;
	rt_puts(t, " strides ");
	put_list(t, rt_strides(l), l->rank);
}
