/* SPDX-License-Identifier: MIT */
/* batch: the memory of batches. Tensors borrow it, and the last of them gives it back to the pool, from which the loader takes it again. */
#include "kit/data/data.h"

#include <stdlib.h>

enum { ALIGN = 64 };

bool kit_field_set(kit_field *f, tj_dtype dtype, tj_dims shape, kit_why *w)
{
	*f = (kit_field){ .put = true, .dtype = dtype };
	if (!tj_dtype_size(dtype)) return kit_no(w, TJ_ERR_ARG, "there is no dtype %d", (int)dtype);
	if (!shape) return kit_no(w, TJ_ERR_ARG, "the shape is NULL");
	for (; shape[f->rank] != TJ_END_DIM; f->rank++) {
		if (f->rank == TJ_MAX_RANK - 1) return kit_no(w, TJ_ERR_LIMIT, "an item has at most %d axes", TJ_MAX_RANK - 1);
		f->dim[f->rank] = shape[f->rank];
	}
	f->dim[f->rank] = TJ_END_DIM;
	return kit_bytes_of(dtype, f->rank, f->dim, &f->bytes) || kit_no(w, TJ_ERR_SHAPE, "a size is below 0, or there are too many elements");
}

bool kit_field_same(const kit_field *a, const kit_field *b)
{
	return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

kit_type kit_type_of(const kit_field *f)
{
	kit_type t;
	size_t n = (size_t)snprintf(t.text, sizeof t.text, "%s[", tj_dtype_name(f->dtype));
	for (int i = 0; i < f->rank && n < sizeof t.text - 24; i++)
		n += (size_t)snprintf(t.text + n, sizeof t.text - n, i ? ",%lld" : "%lld", (long long)f->dim[i]);
	snprintf(t.text + n, sizeof t.text - n, "]");
	return t;
}

/* ---- the pool ---- */
struct kit_pool {
	pthread_mutex_t lock;
	kit_batch *free;
	int holders; /* the loader, and all batches that are not free */
	int kept, keep;
};

kit_pool *kit_pool_open(int keep)
{
	kit_pool *p = calloc(1, sizeof *p);
	if (!p) return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->holders = 1;
	p->keep = keep;
	return p;
}

static void free_batch(kit_batch *b)
{
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) free(b->field[f].data);
	free(b);
}

/* With the lock, which it gives back. */
static void leave(kit_pool *p)
{
	const bool last = --p->holders == 0;
	pthread_mutex_unlock(&p->lock);
	if (!last) return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void kit_pool_close(kit_pool *p)
{
	if (!p) return;
	pthread_mutex_lock(&p->lock);
	p->keep = 0;
	while (p->free) {
		kit_batch *b = p->free;
		p->free = b->next;
		free_batch(b);
	}
	leave(p);
}

/* Its memory stays. */
static void empty(kit_batch *b, int64_t n)
{
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) b->field[f] = (kit_field){ .data = b->field[f].data };
	b->n = n;
	atomic_store(&b->holders, 1);
}

kit_batch *kit_batch_take(kit_pool *p, int64_t n)
{
	pthread_mutex_lock(&p->lock);
	kit_batch *b = p->free;
	if (b) p->free = b->next, p->kept--;
	else b = calloc(1, sizeof *b);
	if (b) p->holders++;
	pthread_mutex_unlock(&p->lock);
	if (!b) return NULL;
	b->pool = p;
	empty(b, n);
	return b;
}

void kit_batch_drop(void *batch)
{
	kit_batch *b = batch;
	if (!b || atomic_fetch_sub(&b->holders, 1) > 1) return;
	kit_pool *p = b->pool;
	pthread_mutex_lock(&p->lock);
	if (p->kept < p->keep) b->next = p->free, p->free = b, p->kept++;
	else free_batch(b);
	leave(p);
}

bool kit_batch_room(kit_batch *b, int field, kit_why *w)
{
	kit_field *f = &b->field[field];
	size_t bytes;
	if (__builtin_mul_overflow(f->bytes, (size_t)b->n, &bytes) || bytes > (size_t)INT64_MAX - ALIGN)
		return kit_no(w, TJ_ERR_LIMIT, "a batch of %lld items is too large", (long long)b->n);
	if (f->data && b->room[field] >= bytes) return true;
	free(f->data);
	b->room[field] = (bytes + ALIGN) / ALIGN * ALIGN; /* one byte more at least: never none */
	f->data = aligned_alloc(ALIGN, b->room[field]);
	return f->data || (b->room[field] = 0, kit_no_memory(w));
}
