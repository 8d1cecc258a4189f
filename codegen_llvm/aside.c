/* SPDX-License-Identifier: MIT */
/* aside: elements a few places apart that every row reads again, as the positions of all others in a sum over pairs, are copied side by
 * side first, in the entry of the kernel.
 *
 *   x0 y0 z0 x1 y1 z1 x2 y2 z2 ..       in memory: for a vector of each field three loads and two shuffles, in each row
 *   x0 x1 x2 ..  y0 y1 y2 ..  z0 ..     on the stack: a load
 *
 * A call of the kernel computes some rows, and copies for them: as many as MOST_BYTES that each thread has in its first cache beside what
 * else the rows need. The largest distance of 1,000 points, 138 to 81 us (Zen 5, one thread). */
#include "codegen_llvm/cg.h"

enum {
	LEAST_ROWS = 128,       /* that read the same elements: a call may have only some of them */
	MOST_BYTES = 24 << 10,  /* of all copies */
	MOST_STEP = 16
};

static int64_t length(const cg_recipe *h) { return cg_rows(h) ? h->k->red : h->k->dim[h->k->ndim - 1]; }

/* How many rows there are, all sizes being known; else 0. */
static int64_t rows(const cg_recipe *h)
{
	int64_t n = 1;
	for (int d = 0; d < h->k->ndim - !cg_rows(h); d++) {
		if (lo_is_sym(h->k->dim[d])) return 0;
		n = n < LEAST_ROWS ? n * h->k->dim[d] : n;
	}
	return n;
}

static bool may_copy(const cg_recipe *h, uint32_t i)
{
	const lo_ins *in = &h->k->ins.v[i];
	if (in->op != LO_LOAD || in->dyn != LO_NOREF || h->of[i].place != CG_BODY || h->k->buf.v[in->buf].role != LO_IN) return false;
	const lo_index *x = &h->k->index.v[in->index];
	const int last = h->k->ndim - 1;
	const int64_t step = cg_rows(h) ? x->rcoef : x->coef[last];
	for (int d = 0; d < h->k->ndim; d++)
		if (x->coef[d] && (cg_rows(h) || d < last)) return false;
	return !lo_is_sym(step) && step > 1 && step <= MOST_STEP && !lo_is_sym(x->offset) && (cg_rows(h) || !x->rcoef);
}

/* The first load of the same elements: its copy serves both. */
static uint32_t first_of(const cg_recipe *h, uint32_t i)
{
	const lo_ins *in = &h->k->ins.v[i];
	uint32_t k = 0;
	for (; k < i; k++) {
		const lo_ins *x = &h->k->ins.v[k];
		if (h->of[k].aside && x->buf == in->buf && x->dtype == in->dtype && x->index == in->index) break;
	}
	return k;
}

void cg_find_aside(cg_recipe *h)
{
	int64_t bytes = 0;
	if (h->product || (h->k->reduces && !cg_rows(h)) || lo_is_sym(length(h)) || length(h) < h->bits / 32 || h->s->part) return;
	if (rows(h) < LEAST_ROWS) return;
	for (uint32_t i = 0; i < h->k->ins.n; i++)
		if (may_copy(h, i)) bytes += length(h) * (int64_t)tj_dtype_size((tj_dtype)h->k->ins.v[i].dtype);
	for (uint32_t i = 0; i < h->k->ins.n && bytes <= MOST_BYTES; i++) h->of[i].aside = may_copy(h, i);
}

/* ---- text ---- */
/* copies n elements, `step` apart from %from on, to %to */
static cg_str copies(cg *c, tj_dtype t, int64_t step)
{
	rt_text parameters = { 0 };
	const int lanes = c->lanes;
	rt_puts(&parameters, "ptr %from, ptr %to, i64 %n");
	cg_begin_own(c, &parameters);
	c->lanes = c->bits / 8 / (int)tj_dtype_size(t);
	cg_str whole = cg_int(0);
	if (step <= CG_NEAR_STEP) {
		whole = cg_op(c, "sub", cg_fmt("%%n"), cg_op(c, "urem", cg_fmt("%%n"), cg_int(c->lanes)));
		const cg_loop l = cg_open(c, "v", cg_int(0), whole, cg_int(c->lanes), true);
		const cg_str x = cg_tmp(c);
		cg_load_along(c, x, t, cg_elem(c, t, cg_fmt("%%from"), cg_op(c, "mul", l.i, cg_int(step))), step);
		cg_write(c, t, c->lanes, x, cg_elem(c, t, cg_fmt("%%to"), l.i));
		cg_close(c, &l);
	}
	const cg_loop l = cg_open(c, "one", whole, cg_fmt("%%n"), cg_int(1), true);
	const cg_str x = cg_read(c, t, 1, cg_elem(c, t, cg_fmt("%%from"), cg_op(c, "mul", l.i, cg_int(step))));
	cg_write(c, t, 1, x, cg_elem(c, t, cg_fmt("%%to"), l.i));
	cg_close(c, &l);
	c->lanes = lanes;
	return cg_end_own(c);
}

void cg_put_aside(cg *c)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!c->how->of[i].aside || first_of(c->how, i) != i) continue;
		const lo_index *x = &c->k->index.v[in->index];
		const tj_dtype t = in->dtype == TJ_BOOL ? TJ_U8 : (tj_dtype)in->dtype;
		const cg_str type = cg_type(t, 1), n = cg_int(length(c->how));
		const cg_str own = copies(c, t, cg_rows(c->how) ? x->rcoef : x->coef[c->k->ndim - 1]);
		rt_putf(&c->entry, "  %%aside%u = alloca %s, i64 %s, align %d\n", i, type.s, n.s, c->bits / 8);
		rt_putf(&c->entry, "  %%from%u = getelementptr %s, ptr %%b%u, i64 %s\n", i, type.s, in->buf, cg_int(x->offset).s);
		rt_putf(&c->entry, "  call void %s(ptr %%from%u, ptr %%aside%u, i64 %s)\n", own.s, i, i, n.s);
	}
}

cg_str cg_aside(const cg *c, uint32_t load) { return cg_fmt("%%aside%u", first_of(c->how, load)); }
