/* SPDX-License-Identifier: MIT */
/* stream: stores that bypass the caches (non-temporal stores).
 *
 * If a kernel touches more than the caches hold, its results have left the caches before they are read. A plain store first
 * fetches its line, which then wastes a third to a half of the memory bandwidth. Such a loop is written twice: with streamed
 * stores, for buffers and offsets that are aligned to cache lines, and with plain ones.
 *
 * Without it, on Zen 4: chain30 of 16M takes 1.33 of the time, a transposed sum of 2048 x 2048 1.22 to 1.33, silu * x of 10M 1.03 to 1.14.
 * With 256 bits chain30 is bound by computing and gains nothing; the transposed sum gains as much. */
#include "codegen_llvm/cg.h"

enum { LINE = 64, STORED = 2 << 20 };

static int64_t bytes_of(const cg_recipe *h, const lo_ins *in)
{
	const lo_kernel *k = h->k;
	const lo_index *x = &k->index.v[in->index];
	int64_t n = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	for (int d = 0; d < k->ndim; d++)
		if (x->coef[d]) n *= lo_size(k, k->dim[d]);
	return x->rcoef ? n * lo_size(k, k->red) : n;
}

/* Bytes of the buffers that the kernel reads and writes; equal accesses count once. */
static int64_t touched(const cg_recipe *h)
{
	int64_t n = 0;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if ((in->op != LO_LOAD && in->op != LO_STORE) || h->k->buf.v[in->buf].role == LO_KEPT) continue;
		bool again = false;
		for (uint32_t j = 0; j < i; j++) {
			const lo_ins *b = &h->k->ins.v[j];
			again |= (b->op == LO_LOAD || b->op == LO_STORE) && b->buf == in->buf &&
			         !memcmp(&h->k->index.v[b->index], &h->k->index.v[in->index], sizeof(lo_index));
		}
		if (!again) n += bytes_of(h, in);
	}
	return n;
}

bool cg_is_far(const cg_recipe *h) { return touched(h) >= h->s->target->far_bytes; }

/* The distances, in elements, that must be whole cache lines if each vector of the store shall begin at one as its buffer does. */
static int distances(const cg_recipe *h, const lo_ins *in, int64_t *n)
{
	const lo_kernel *k = h->k;
	const lo_index *x = &k->index.v[in->index];
	const int along = cg_rows(h) ? -1 : k->ndim - 1;
	int all = 0;
	n[all++] = x->offset;
	if (along >= 0 && (lo_is_sym(h->s->block) || lo_is_sym(k->dim[along]) || h->s->block < k->dim[along])) n[all++] = h->s->block;
	if (along >= 0) n[all++] = x->rcoef;
	for (int d = 0; d < k->ndim; d++)
		if (d != along && k->dim[d] != 1) n[all++] = x->coef[d];
	return all;
}

/* Known distances are whole lines; symbols are checked at run time. */
static bool in_lines(const cg_recipe *h, const lo_ins *in)
{
	const lo_index *x = &h->k->index.v[in->index];
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	int64_t n[LO_MAXDIM + 3];
	if ((cg_rows(h) ? x->rcoef : x->coef[h->k->ndim - 1]) != 1) return false;
	for (int i = distances(h, in, n); i-- > 0;)
		if (!lo_is_sym(n[i]) && n[i] * size % LINE) return false;
	return true;
}

/* The lanes of the store's vectors fill registers. */
static bool fills_registers(const cg_recipe *h, const lo_section *s, const lo_ins *in)
{
	return cg_lanes_of(h, s) * (int)tj_dtype_size((tj_dtype)in->dtype) % (h->bits / 8) == 0;
}

void cg_find_streams(cg_recipe *h)
{
	const lo_kernel *k = h->k;
	/* With streamed stores the sum of two arrays takes 1.15 of the time at 6 MiB in all, and 0.70 of it from 24 MiB on. */
	if (h->form == CG_WIDE || h->form == CG_PRODUCT || !cg_is_far(h)) return;
	for (const lo_section *s = k->section.v; s < k->section.v + k->section.n; s++)
		for (uint32_t i = s->first; i < s->first + s->count; i++) {
			const lo_ins *in = &k->ins.v[i];
			if (in->op != LO_STORE || k->buf.v[in->buf].role != LO_OUT || in->dyn != LO_NOREF) continue;
			h->of[i].streamed = bytes_of(h, in) >= STORED && in_lines(h, in) && fills_registers(h, s, in);
		}
}

/* ---- text ---- */
/* The OR of the store's buffer and of its distances in bytes that are symbols: a bit below 64 set means that it is not aligned. */
static cg_str put_stray(cg *c, uint32_t i, cg_str stray)
{
	const lo_ins *in = &c->k->ins.v[i];
	int64_t n[LO_MAXDIM + 3];
	const int all = distances(c->how, in, n);
	for (int k = 0; k < all; k++)
		if (lo_is_sym(n[k])) stray = cg_op(c, "or", stray, cg_mul(c, cg_size(n[k]), cg_lit((int64_t)tj_dtype_size((tj_dtype)in->dtype))).s);
	const cg_str p = cg_tmp(c);
	rt_putf(c->out, "  %s = ptrtoint ptr %%b%u to i64\n", p.s, in->buf);
	return cg_op(c, "or", stray, p);
}

void cg_put_streams(cg *c)
{
	if (!c->how->streams) return;
	rt_text *now = c->out;
	cg_str stray = cg_int(0);
	c->out = &c->entry;
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (c->how->of[i].streamed) stray = put_stray(c, i, stray);
	rt_putf(c->out, "  %%nt.low = and i64 %s, %d\n  %%nt = icmp eq i64 %%nt.low, 0\n", stray.s, LINE - 1);
	c->out = now;
}
