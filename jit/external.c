/* SPDX-License-Identifier: MIT */
/* Externals and numbers of the running segment: bound to slots, and found again by handle. */
#include "jit/call.h"

/* ---- externals ---- */
enum { FEW = 8 }; /* up to so many externals are searched in order, more through a hash table */

static bool hinted(const jit_act *a, const tj_tensor *h) { return h->kind == RT_VALUE && !(h->flags & RT_HEAP) && a->hints; }

static uint32_t hash_handle(const tj_tensor *h) { return (uint32_t)(((uintptr_t)h >> 6) * 0x9E3779B1u); }

/* Slot of an external of this segment; -1: it is none. */
int jit_find_ext(const jit_act *a, const tj_tensor *h)
{
	if (hinted(a, h)) return h->seq < a->ext.n && a->ext.v[h->seq].h == h ? (int)h->seq : -1;
	if (a->ext.n <= FEW || !a->indexed) {
		for (uint32_t i = 0; i < a->ext.n; i++)
			if (a->ext.v[i].h == h) return (int)i;
		return -1;
	}
	uint32_t mask = a->index.cap - 1;
	for (uint32_t i = hash_handle(h);; i++) {
		uint32_t s = a->index.v[i & mask];
		if (!s) return -1;
		if (a->ext.v[s - 1].h == h) return (int)s - 1;
	}
}

static void enter(jit_act *a, uint32_t slot)
{
	uint32_t mask = a->index.cap - 1, i = hash_handle(a->ext.v[slot].h);
	while (a->index.v[i & mask]) i++;
	a->index.v[i & mask] = slot + 1;
}

void jit_index_ext(jit_act *a, uint32_t from)
{
	if (a->ext.n <= FEW || !a->unhinted) return;
	if (!a->indexed || 2 * a->ext.n > a->index.cap) {
		uint32_t cap = 32;
		while (cap < 4 * a->ext.n) cap *= 2;
		if (cap > a->index.cap) {
			uint32_t *v = rt_realloc(a->index.v, cap * sizeof *v);
			if (!v) {
				a->indexed = false; /* searched in order from now on */
				return;
			}
			a->index.v = v;
			a->index.cap = cap;
		}
		memset(a->index.v, 0, a->index.cap * sizeof *a->index.v);
		a->indexed = true;
		from = 0;
	}
	for (uint32_t i = from; i < a->ext.n; i++)
		if (!hinted(a, a->ext.v[i].h)) enter(a, i);
}

/* Written in place, field by field: copying a struct whose fields were just stored would stall on those stores. */
bool jit_bind_ext(jit_act *a, tj_tensor *h, jit_ext *met)
{
	if (!rt_reserve(&a->ext, 1)) return false;
	jit_bound *b = &a->ext.v[a->ext.n];
	b->h = h;
	b->layout = h->layout;
	b->pending = b->owned = b->taken = false;
	b->cell = h->kind == RT_CELL;
	b->heap = h->flags & RT_HEAP;
	if (h->kind != RT_CELL) { /* of a cell, jit_bind_cell() does it: other contexts may commit */
		b->data = h->data;
		b->buf = h->buf;
	}
	if (h->kind == RT_PENDING) {
		void *data;
		b->pending = true;
		b->seg = h->seg;
		b->seq = h->seq;
		b->data = jit_find_value(a, h, &b->layout, &b->buf, &data) ? data : NULL;
	} else if (h->kind == RT_CELL) jit_bind_cell(a, b);
	if (hinted(a, h)) h->seq = a->ext.n;
	else a->unhinted++;
	if (met) *met = (jit_ext){ b->layout, jit_content_id(a->ctx, h), h->kind == RT_CELL, false };
	a->ext.n++;
	return true;
}

/* Unbinds all externals but the first n. */
void jit_unbind_ext(jit_act *a, uint32_t n)
{
	while (a->ext.n > n) {
		jit_bound *b = &a->ext.v[--a->ext.n];
		a->unhinted -= !hinted(a, b->h);
		if (b->owned) rt_buffer_unref(b->buf, a->ctx->rt.allocator);
	}
}

void jit_rename_ext(jit_act *a, const tj_tensor *was, tj_tensor *h)
{
	for (uint32_t i = 0; i < a->done.n; i++)
		for (uint32_t k = 0; k < a->done.v[i].next; k++)
			if (a->done.v[i].ext[k].h == was) a->done.v[i].ext[k].h = h;
	const int slot = jit_find_ext(a, was);
	if (slot < 0) return;
	a->unhinted += hinted(a, was);
	a->unhinted -= hinted(a, h);
	a->ext.v[slot].h = h;
	a->ext.v[slot].heap = h->flags & RT_HEAP;
	if (hinted(a, h)) h->seq = (uint32_t)slot;
	a->indexed = false;
}

/* ---- numbers ---- */
static uint32_t number_from(const jit_act *a, int k) { return (uint32_t)k < a->learn->src.n ? a->learn->src.v[k] : JIT_FROM(JIT_CONST, 0); }

/* Gives the number that is operand k of an event a new slot. */
bool jit_bind_number(jit_act *a, int k, tj_tensor *h)
{
	if (RT_UNLIKELY(a->learn != NULL)) jit_learn_number(a, a->num.n, number_from(a, k));
	return rt_push(&a->num, rt_number_bits(h));
}

/* A guard: operand k was equal to the number of slot i when it was recorded, and the trace uses that slot for both. */
bool jit_same_number(const jit_act *a, uint32_t i, int k, const tj_tensor *h)
{
	if (a->num.v[i] != rt_number_bits(h)) return false;
	return RT_LIKELY(!a->learn) || a->learn->from.v[i] == number_from(a, k);
}
