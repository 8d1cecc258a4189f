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

static int64_t bytes_of(const cg *c, const lo_ins *in)
{
	const lo_kernel *k = c->k;
	const lo_index *x = &k->index.v[in->index];
	int64_t n = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	for (int d = 0; d < k->ndim; d++)
		if (x->coef[d]) n *= lo_size(k, k->dim[d]);
	return x->rcoef ? n * lo_size(k, k->red) : n;
}

/* Bytes of the buffers that the kernel reads and writes; equal accesses count once. */
static int64_t touched(const cg *c)
{
	int64_t n = 0;
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if ((in->op != LO_LOAD && in->op != LO_STORE) || c->k->buf.v[in->buf].role == LO_KEPT) continue;
		bool again = false;
		for (uint32_t j = 0; j < i; j++) {
			const lo_ins *b = &c->k->ins.v[j];
			again |= (b->op == LO_LOAD || b->op == LO_STORE) && b->buf == in->buf &&
			         !memcmp(&c->k->index.v[b->index], &c->k->index.v[in->index], sizeof(lo_index));
		}
		if (!again) n += bytes_of(c, in);
	}
	return n;
}

/* The size, in bytes, is a multiple of the cache line. Checked here for a literal; a symbol is or-ed into c->stray for run time. */
static bool by_lines(cg *c, int64_t elems, int64_t size)
{
	if (!lo_is_sym(elems)) return elems * size % LINE == 0;
	cg_num bytes = cg_mul(c, cg_size(elems), cg_lit(size));
	cg_str sum = cg_tmp(c);
	rt_putf(&c->entry, "  %s = or i64 %s, %s\n", sum.s, c->stray.s, bytes.s.s);
	c->stray = sum;
	return true;
}

/* Every vector of the store begins at a cache line if the buffer does. */
static bool in_lines(cg *c, const lo_ins *in)
{
	const lo_kernel *k = c->k;
	const lo_index *x = &k->index.v[in->index];
	int64_t size = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	int lanes_dim = c->rows ? -1 : k->ndim - 1;
	if (!by_lines(c, x->offset, size) || (c->rows ? x->rcoef : x->coef[lanes_dim]) != 1) return false;
	bool cut = !c->rows && (lo_is_sym(c->s->block) || lo_is_sym(k->dim[lanes_dim]) || c->s->block < k->dim[lanes_dim]);
	if (cut && !by_lines(c, c->s->block, size)) return false;
	if (!c->rows && !by_lines(c, x->rcoef, size)) return false;
	for (int d = 0; d < k->ndim; d++)
		if (d != lanes_dim && k->dim[d] != 1 && !by_lines(c, x->coef[d], size)) return false;
	return true;
}

void cg_find_streams(cg *c)
{
	const lo_kernel *k = c->k;
	/* With streamed stores the sum of two arrays takes 1.15 of the time at 6 MiB in all, and 0.70 of it from 24 MiB on. */
	c->far = touched(c) >= c->s->target->far_bytes;
	if (!c->far) return;
	c->stray = cg_fmt("0");
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_STORE || k->buf.v[in->buf].role != LO_OUT || in->dyn != LO_NOREF) continue;
		c->stream[i] = bytes_of(c, in) >= STORED && in_lines(c, in);
		c->streams |= c->stream[i];
	}
	if (!c->streams) return;
	rt_putf(&c->entry, "  %%nt.0 = add i64 0, %s\n", c->stray.s);
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		if (!c->stream[i]) continue;
		rt_putf(&c->entry, "  %%nt.p%u = ptrtoint ptr %%b%u to i64\n  %%nt.%u = or i64 %%nt.%u, %%nt.p%u\n", n, k->ins.v[i].buf,
		        n + 1, n, n);
		n++;
	}
	rt_putf(&c->entry, "  %%nt.low = and i64 %%nt.%u, %d\n  %%nt = icmp eq i64 %%nt.low, 0\n", n, LINE - 1);
}

bool cg_streams_in(const cg *c, const lo_section *s)
{
	for (uint32_t i = s->first; i < s->first + s->count; i++)
		if (c->stream[i]) return true;
	return false;
}

bool cg_streaming(const cg *c, uint32_t i)
{
	int64_t bytes = c->lanes * (int64_t)tj_dtype_size((tj_dtype)c->k->ins.v[i].dtype);
	return c->stream_copy && c->stream[i] && bytes % (c->bits / 8) == 0;
}
