/* SPDX-License-Identifier: MIT */
/* stride: loads of every second, third or fourth element, also backwards: whole vectors, shuffled. A gather takes three to six times as
 * long.
 *
 *   step 2, vectors of 4      a  .  b  .  c  .  d       position in memory
 *                            [a  .  b  .]               one vector
 *                                     [.  c  .  d]      the last one ends at the last element that is needed: nothing behind it is read
 *   masked, d is absent      [1  1  1  1][1  0  0]      an element is read if the lanes on both sides of it are present */
#include "codegen_llvm/cg.h"

#include <stdlib.h>

typedef struct run { /* n lanes from `first` on, whose elements are spread over k * n places */
	int n, k, first;
	bool back;
} run;

/* Where vector j begins: places after the lowest element. */
static int start(const run *x, int j) { return j < x->k - 1 ? j * x->n : (x->k - 1) * (x->n - 1); }

/* The mask of vector j. */
static cg_str mask_of(cg *c, const run *x, int j)
{
	const cg_str m = cg_tmp(c);
	rt_putf(c->out, "  %s = shufflevector <%d x i1> %s, <%d x i1> poison, <%d x i32> <", m.s, c->lanes, c->mask.s, c->lanes, x->n);
	for (int e = 0; e < x->n; e++) {
		const int place = start(x, j) + e, lane = x->back ? x->n - 1 - place / x->k : (place + x->k - 1) / x->k;
		rt_putf(c->out, "%si32 %d", e ? ", " : "", x->first + lane);
	}
	rt_puts(c->out, ">\n");
	return m;
}

/* v with the lanes whose elements are in vector j, `from`; j 0: v is that vector. */
static cg_str merged(cg *c, tj_dtype t, const run *x, int j, cg_str v, cg_str from)
{
	const cg_str type = cg_type(t, x->n), to = cg_tmp(c);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", to.s, type.s, v.s, type.s, from.s, x->n);
	for (int l = 0; l < x->n; l++) {
		const int place = (x->back ? x->n - 1 - l : l) * x->k, in = place < (x->k - 1) * x->n ? place / x->n : x->k - 1;
		rt_putf(c->out, "%si32 %d", l ? ", " : "", in == j ? (j ? x->n : 0) + place - start(x, j) : j < 2 ? place % x->n : l);
	}
	rt_puts(c->out, ">\n");
	return to;
}

static cg_str put_run(cg *c, cg_str p, tj_dtype t, const run *x)
{
	const int low = x->back ? -x->k * (x->first + x->n - 1) : x->k * x->first;
	cg_str v = { "" };
	for (int j = 0; j < x->k; j++) {
		const cg_str at = cg_elem(c, t, p, cg_int(low + start(x, j)));
		const cg_str from = c->masked && !c->laps ? cg_read_some(c, t, x->n, at, mask_of(c, x, j)) : cg_read(c, t, x->n, at);
		v = j ? merged(c, t, x, j, v, from) : from;
	}
	return x->k == 1 ? merged(c, t, x, 0, v, v) : v;
}

void cg_load_along(cg *c, cg_str name, tj_dtype t, cg_str p, int64_t step)
{
	const int n = cg_lanes_in_register(c->bits, c->lanes, t);
	run x = { n, (int)llabs(step), 0, step < 0 };
	cg_str all = cg_fmt("poison"), type = cg_type(t, c->lanes);
	for (; x.first < c->lanes; x.first += n) {
		const cg_str part = put_run(c, p, t, &x), next = x.first + n == c->lanes ? name : cg_tmp(c);
		rt_putf(c->out, "  %s = call %s @llvm.vector.insert.%s.%s(%s %s, %s %s, i64 %d)\n", next.s, type.s,
		        cg_mangle(t, c->lanes).s, cg_mangle(t, n).s, type.s, all.s, cg_type(t, n).s, part.s, x.first);
		all = next;
	}
}
