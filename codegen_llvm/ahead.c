/* SPDX-License-Identifier: MIT */
/* ahead: prefetches, where the hardware prefetcher does not suffice.
 *
 * A kernel with several loops over a row reads it from memory in the first loop only; in the others memory would be idle. So the
 * second loop prefetches the next row. Of three loops the second is a better place than the last, which waits for its stores.
 *
 *   row 0:  sum  .  squares, prefetch row 1  .  write        row 1:  sum  .  squares, prefetch row 2  .  write
 *
 * Layer norm of 4096 x 2048: 1.13 -> 0.71 ms, of 4096 x 4096 3.0 -> 2.5; softmax of 4096 x 4096 5.6 -> 4.2 (Zen 4). Rows of 64 KiB
 * lose 8 %; rows that are in the third-level cache gain nothing.
 *
 * A kernel with one loop over a row prefetches one page ahead: the hardware sees eight loads an iteration as eight streams, and
 * follows eight less well than one. Row sums of 4096 x 4096: 2 % less time on two threads, 5 to 8 % on one.
 *
 * Without these prefetches, on Zen 4: layer norm of 4096 x 4096 takes 1.10 to 1.25 of the time, with 256 bits 1.11 to 1.18; softmax of
 * 4096 x 8192 1.25, with 256 bits 1.22. */
#include "codegen_llvm/cg.h"

enum { LINE = 64, LONGEST = 32 << 10, PAGE = 4096, MANY_PAGES = 16 };

static bool once(const cg_recipe *h) { return h->asks == h->asked; } /* one loop prefetches what it reads itself */

/* The load walks along a row of an input. */
static bool walks(const cg_recipe *h, const lo_ins *in)
{
	return in->op == LO_LOAD && h->k->buf.v[in->buf].role == LO_IN && in->dyn == LO_NOREF && h->k->index.v[in->index].rcoef == 1;
}

/* The load walks along a row, and the next unit reads the next row. */
static bool moves_on(const cg_recipe *h, const lo_ins *in)
{
	return walks(h, in) && h->k->index.v[in->index].coef[h->k->ndim - 1];
}

/* One page ahead there is still data of this load: rows are adjacent or long, or there is only one row. */
static bool goes_on(const cg_recipe *h, const lo_ins *in)
{
	const lo_kernel *k = h->k;
	int64_t next = k->index.v[in->index].coef[k->ndim - 1], size = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	if (!walks(h, in)) return false;
	if (lo_size(k, k->dim[k->ndim - 1]) == 1 || next == k->red) return true;
	return next && lo_size(k, k->red) * size >= MANY_PAGES * PAGE;
}

/* Bytes that the section loads of a row. */
static int64_t row_bytes(const cg_recipe *h, const lo_section *s)
{
	int64_t n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (moves_on(h, in)) n += lo_size(h->k, h->k->red) * (int64_t)tj_dtype_size((tj_dtype)in->dtype);
	}
	return n;
}

void cg_find_ahead(cg_recipe *h)
{
	int loop[2] = { -1, -1 }, n = 0;
	if (!cg_rows(h) || !cg_is_far(h)) return;
	for (uint32_t i = 0; i < h->k->section.n && n < 2; i++)
		if (h->k->section.v[i].loop) loop[n++] = (int)i;
	h->asked = loop[0];
	h->asks = n < 2 ? loop[0] : row_bytes(h, &h->k->section.v[loop[0]]) > LONGEST ? -1 : loop[1];
}

/* The address to prefetch: one page ahead, or in the next row. */
static cg_str later(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cg_str p = cg_tmp(c), here = cg_address(c, i);
	if (once(c->how)) rt_putf(c->out, "  %s = getelementptr i8, ptr %s, i64 %d\n", p.s, here.s, PAGE);
	else
		rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", p.s, cg_mem_type((tj_dtype)in->dtype, 1).s, here.s,
		        cg_int(c->k->index.v[in->index].coef[c->k->ndim - 1]).s);
	return p;
}

void cg_ask_ahead(cg *c, const lo_section *s)
{
	const cg_recipe *h = c->how;
	if (s - h->k->section.v != h->asks) return;
	const lo_section *asked = &h->k->section.v[h->asked];
	for (uint32_t i = asked->first; i < asked->first + asked->count; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (!(once(h) ? goes_on(h, in) : moves_on(h, in))) continue;
		cg_str p = later(c, i);
		for (int at = 0; at < c->lanes * (int)tj_dtype_size((tj_dtype)in->dtype); at += LINE) cg_prefetch(c, p, at);
	}
}
