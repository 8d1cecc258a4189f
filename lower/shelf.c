/* SPDX-License-Identifier: MIT */
/* shelf: copies of constants in panels, and values that were computed from constants, by what they were made of. The plans of a function
 * share them; a copy lives as long as a plan that reads it, the shelf drops the others when it gets a new one. */
#include "lower/shelf.h"
#include "runtime/alloc.h"

#include <pthread.h>

typedef struct copy {
	rt_shared shared;
	lo_label label; /* its parts are the copy's own */
	void *data;
	uint64_t id;
} copy;

struct lo_shelf {
	pthread_mutex_t lock;
	rt_vec(copy *) copy;
};

lo_shelf *lo_shelf_new(void)
{
	lo_shelf *s = rt_calloc(sizeof *s);
	if (s) pthread_mutex_init(&s->lock, NULL);
	return s;
}

void lo_shelf_free(lo_shelf *s)
{
	if (!s) return;
	for (uint32_t i = 0; i < s->copy.n; i++) rt_shared_unref(&s->copy.v[i]->shared);
	rt_vec_free(&s->copy);
	pthread_mutex_destroy(&s->lock);
	rt_free(s);
}

static bool same_form(const lo_label *a, const lo_label *b)
{
	return a->bytes == b->bytes && a->ncontent == b->ncontent && !memcmp(a->form, b->form, a->bytes);
}

static bool same_content(const lo_label *a, const lo_label *b)
{
	return !memcmp(a->content, b->content, a->ncontent * sizeof *a->content);
}

static copy *find(const lo_shelf *s, const lo_label *k)
{
	for (uint32_t i = 0; i < s->copy.n; i++)
		if (same_form(&s->copy.v[i]->label, k) && same_content(&s->copy.v[i]->label, k)) return s->copy.v[i];
	return NULL;
}

rt_shared *lo_shelf_find(lo_shelf *s, const lo_label *k)
{
	if (!s) return NULL;
	rt_lock(&s->lock);
	copy *x = find(s, k);
	if (x) rt_shared_ref(&x->shared);
	rt_unlock(&s->lock);
	return x ? &x->shared : NULL;
}

bool lo_shelf_has(lo_shelf *s, const lo_label *k)
{
	if (!s) return false;
	rt_lock(&s->lock);
	const bool has = find(s, k) != NULL;
	rt_unlock(&s->lock);
	return has;
}

bool lo_shelf_takes(lo_shelf *s, const lo_label *k)
{
	enum { CONTENTS = 8 }; /* of one place, with a copy each */
	uint32_t n = 0;
	if (!s) return false;
	rt_lock(&s->lock);
	for (uint32_t i = 0; i < s->copy.n; i++) {
		const lo_label *x = &s->copy.v[i]->label;
		n += x->place == k->place && same_form(x, k) && !same_content(x, k);
	}
	rt_unlock(&s->lock);
	return n < CONTENTS;
}

void lo_shelf_keep(lo_shelf *s, rt_shared *x)
{
	uint32_t n = 0;
	rt_lock(&s->lock);
	for (uint32_t i = 0; i < s->copy.n; i++)
		if (__atomic_load_n(&s->copy.v[i]->shared.refs, __ATOMIC_ACQUIRE) > 1) s->copy.v[n++] = s->copy.v[i];
		else rt_shared_unref(&s->copy.v[i]->shared);
	s->copy.n = n;
	if (rt_push(&s->copy, (copy *)x)) rt_shared_ref(x);
	rt_unlock(&s->lock);
}

static void destroy(rt_shared *x)
{
	rt_free(((copy *)x)->data);
	rt_free(x);
}

#define OURS (UINT64_C(1) << 63) /* ids of contents are small */

rt_shared *lo_copy_new(const lo_label *k, size_t bytes)
{
	const size_t ids = k->ncontent * sizeof *k->content;
	copy *x = rt_calloc(sizeof *x + ids + k->bytes);
	if (!x) return NULL;
	uint64_t *content = (uint64_t *)(void *)(x + 1);
	memcpy(content, k->content, ids);
	memcpy((char *)content + ids, k->form, k->bytes);
	*x = (copy){ { .refs = 1, .bytes = bytes, .destroy = destroy }, *k, rt_alloc_data(bytes), OURS | rt_plan_serial() };
	x->label.content = content;
	x->label.form = (char *)content + ids;
	if (x->data) return &x->shared;
	rt_free(x);
	return NULL;
}

void *lo_copy_data(rt_shared *x) { return ((copy *)x)->data; }
uint64_t lo_copy_id(const rt_shared *x) { return ((const copy *)x)->id; }
