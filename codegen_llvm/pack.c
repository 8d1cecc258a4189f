/* SPDX-License-Identifier: MIT */
/* pack: copies of rows or columns, in the order in which tiles read them.
 *
 *   items adjacent in memory       pack_along     row by row of r: all panels of a row are read in sequence
 *   steps of r adjacent            pack_across    a few items at a time, transposed in registers
 *   neither                        pack_singly
 *   rows that lie as rows do       cg_pack_apart
 *
 * Packed items that are absent repeat the last one, or are 0; their sums are never stored. */
#include "codegen_llvm/product.h"

enum {
	ROWS_AHEAD = 8, /* pack_along: rows; distance of prefetches */
	CACHED = 64,    /* pack_across: steps of r whose packed items stay in the first cache */
	MOST_ITEMS = CG_MOST_LANES /* pack_across: at a time */
};

static tj_dtype packed_dtype(const cg *c, int o) { return o ? cg_product_of(c)->yt : cg_product_of(c)->t; }

/* What is packed; columns that tiles compute are copied as they are. */
static cg_str packed(cg *c, int o, const cg_at *at)
{
	return o && !cg_product_of(c)->columns_computed ? at->loaded : cg_computed(c, o, at);
}

/* vecs vectors of adjacent items from `item` on, one step of r, to p; q: their address. step: see cg_at. mask: the items that there are, by
 * vector; NULL: all. */
static void copy_vectors(cg *c, int o, int vecs, cg_str q, cg_str item, cg_str k, cg_str step, cg_str to, const cg_str *mask)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, o), t = packed_dtype(c, o);
	for (int v = 0; v < vecs; v++) {
		cg_str from_here = cg_elem(c, from, q, cg_int((int64_t)v * p->w)),
		       x = cg_is_grouped(c->how, o) ? cg_fmt("poison")
		           : mask              ? cg_read_some(c, from, p->w, from_here, mask[v])
		                               : cg_read(c, from, p->w, from_here);
		const cg_at at = { .lanes = p->w,
			           .item = cg_product_of(c)->operand[o].other.n ? cg_op(c, "add", item, cg_int((int64_t)v * p->w)) : item,
			           .k = k,
			           .loaded = x,
			           .mask = mask ? &mask[v] : NULL,
			           .step = &step };
		cg_write(c, t, p->w, packed(c, o, &at), cg_elem(c, t, to, cg_int((int64_t)v * p->w)));
	}
}

/* Prefetches what copy_vectors() will read some rows later; of windows, whose rows lie far from one another, what the next panel reads. */
static void ask_rows(cg *c, int vecs, cg_str q, cg_str k)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, 1);
	const int bytes = vecs * p->w * (int)tj_dtype_size(from);
	if (cg_is_grouped(c->how, 1)) {
		if (p->each) cg_prefetch(c, cg_main_row(c, 1, k), bytes);
		return;
	}
	cg_str far = cg_elem(c, from, q, cg_op(c, "mul", cg_fmt("%%sk"), cg_int(ROWS_AHEAD)));
	for (int b = 0; b < bytes; b += RT_LINE) cg_prefetch(c, far, b);
}

/* Panels of items that are adjacent in memory, row by row of r. In a panel that is no multiple of a vector, the last vector of a step
 * writes into the next step, which comes later. */
static void pack_along(cg *c, int o, int width)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, o), t = packed_dtype(c, o);
	const int vecs = (width + p->w - 1) / p->w;
	const bool even = width % p->w == 0; /* else there is one panel */
	cg_str mask[CG_MOST_VECS], n = cg_fmt("%%n"), rest = even ? cg_op(c, "urem", n, cg_int(width)) : n,
				   whole = cg_op(c, "sub", n, rest), some = cg_cmp(c, "sgt", rest, cg_int(0));
	for (int v = 0; v < vecs; v++) mask[v] = cg_first_lanes(c, cg_op(c, "sub", rest, cg_int((int64_t)v * p->w)), p->w);
	cg_loop k = cg_open(c, "k", cg_int(0), cg_fmt("%%nk"), cg_int(1), true);
	cg_str row = cg_elem(c, from, cg_fmt("%%from"), cg_op(c, "mul", k.i, cg_fmt("%%sk"))),
	       to = cg_elem(c, t, cg_fmt("%%to"), cg_op(c, "mul", k.i, cg_int(width)));
	const cg_str step = cg_main_step(c, o, k.i);
	if (even) {
		cg_loop j = cg_open(c, "j", cg_int(0), whole, cg_int(width), true);
		cg_str q = cg_elem(c, from, row, j.i);
		if (o) ask_rows(c, vecs, q, k.i);
		copy_vectors(c, o, vecs, q, j.i, k.i, step, cg_elem(c, t, to, cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL))), NULL);
		cg_close(c, &j);
	}
	rt_putf(c->out, "  br i1 %s, label %%some, label %%none\n", some.s);
	cg_label(c, cg_fmt("some"));
	copy_vectors(c, o, vecs, cg_elem(c, from, row, whole), whole, k.i, step,
	             cg_elem(c, t, to, cg_op(c, "mul", whole, cg_int(LO_TILE_PANEL))), mask);
	cg_jump(c, cg_fmt("none"));
	cg_close(c, &k);
}

/* The 16 bytes of lane group `group` of v. */
static void store_group(cg *c, tj_dtype t, int lanes, int n, cg_str v, int group, cg_str p)
{
	cg_str part = cg_tmp(c);
	if (n == lanes) part = v;
	else {
		rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", part.s, cg_type(t, lanes).s, v.s, cg_type(t, lanes).s, n);
		for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", group * n + i);
		rt_puts(c->out, ">\n");
	}
	cg_write(c, t, n, part, p);
}

/* In each group of n lanes, takes the lanes low.. of x and of y in turn, `size` at a time. One instruction. */
static cg_str interleave(cg *c, tj_dtype t, int lanes, int n, cg_str x, cg_str y, int low, int size)
{
	cg_str r = cg_tmp(c), type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, x.s, type.s, y.s, lanes);
	for (int l = 0; l < lanes; l++) {
		const int in = l % n, from = l - in + low + in / (2 * size) * size + in % size;
		rt_putf(c->out, "%si32 %d", l ? ", " : "", in / size % 2 ? lanes + from : from);
	}
	rt_puts(c->out, ">\n");
	return r;
}

void cg_turn_groups(cg *c, tj_dtype t, int w, int n, cg_str *v)
{
	cg_str low[2], high[2];
	if (n == 2) {
		low[0] = interleave(c, t, w, n, v[0], v[1], 0, 1);
		v[1] = interleave(c, t, w, n, v[0], v[1], 1, 1);
		v[0] = low[0];
		return;
	}
	for (int i = 0; i < 2; i++) {
		low[i] = interleave(c, t, w, n, v[2 * i], v[2 * i + 1], 0, 1);
		high[i] = interleave(c, t, w, n, v[2 * i], v[2 * i + 1], 2, 1);
	}
	for (int i = 0; i < 2; i++) {
		v[i] = interleave(c, t, w, n, low[0], low[1], 2 * i, 2);
		v[2 + i] = interleave(c, t, w, n, high[0], high[1], 2 * i, 2);
	}
}

/* Lane groups first, first + step and so on of x, then of y. One instruction. */
static cg_str pick_groups(cg *c, tj_dtype t, int w, int n, cg_str x, cg_str y, int first, int step)
{
	cg_str r = cg_tmp(c), type = cg_type(t, w);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, x.s, type.s, y.s, w);
	for (int l = 0; l < w; l++) {
		const int g = l / n % (w / n / 2);
		rt_putf(c->out, "%si32 %d", l ? ", " : "", (l < w / 2 ? 0 : w) + (first + g * step) * n + l % n);
	}
	rt_puts(c->out, ">\n");
	return r;
}

/* The groups of 2 or 4 vectors that are `apart` vectors apart, as a matrix, transposed. */
static void turn_vectors(cg *c, tj_dtype t, int w, int n, cg_str *v, int apart)
{
	const int groups = w / n;
	cg_str half[4];
	if (groups == 1) return;
	if (groups == 2) {
		half[0] = pick_groups(c, t, w, n, v[0], v[apart], 0, 1);
		v[apart] = pick_groups(c, t, w, n, v[0], v[apart], 1, 1);
		v[0] = half[0];
		return;
	}
	for (int i = 0; i < 4; i++) half[i] = pick_groups(c, t, w, n, v[i / 2 * 2 * apart], v[(i / 2 * 2 + 1) * apart], i % 2 * 2, 1);
	for (int i = 0; i < 4; i++) v[i * apart] = pick_groups(c, t, w, n, half[i / 2], half[2 + i / 2], i % 2, 2);
}

void cg_turn_square(cg *c, tj_dtype t, int w, cg_str *v)
{
	const int n = 16 / (int)tj_dtype_size(t);
	for (int i = 0; i < n; i++) turn_vectors(c, t, w, n, v + i, n);
	for (int i = 0; i < w; i += n) cg_turn_groups(c, t, w, n, v + i);
}

void cg_put_square(cg *c, tj_dtype t, int w, int items, cg_str *v, cg_str p, int width)
{
	const int n = 16 / (int)tj_dtype_size(t);
	if (items == n) {
		cg_turn_groups(c, t, w, n, v);
		for (int k = 0; k < w; k++) store_group(c, t, w, n, v[k % n], k / n, cg_elem(c, t, p, cg_int((int64_t)k * width)));
		return;
	}
	cg_turn_square(c, t, w, v);
	for (int k = 0; k < w; k++) cg_write(c, t, w, v[k], cg_elem(c, t, p, cg_int((int64_t)k * width)));
}

/* w steps of r of a few items, from k on; stop: the first step that is not there, NULL: it is behind
 * them. ahead: elements; distance of prefetches. */
static void pack_square(cg *c, int o, int width, int n, const cg_str *item, const cg_str *number, cg_str to, cg_str k, const cg_str *stop,
                        cg_str ahead)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, o);
	cg_str v[MOST_ITEMS], mask;
	if (stop) mask = cg_first_lanes(c, cg_op(c, "sub", *stop, k), p->w);
	for (int i = 0; i < n; i++) {
		cg_str q = cg_elem(c, from, item[i], k);
		if (o) cg_prefetch(c, cg_elem(c, from, q, ahead), 0);
		const cg_at at = { .lanes = p->w,
			           .along_r = true,
			           .item = number[i],
			           .k = k,
			           .loaded = stop ? cg_read_some(c, from, p->w, q, mask) : cg_read(c, from, p->w, q),
			           .mask = stop ? &mask : NULL };
		v[i] = cg_computed(c, o, &at);
	}
	cg_put_square(c, p->t, p->w, n, v, cg_elem(c, p->t, to, cg_op(c, "mul", k, cg_int(width))), width);
}

/* Panels of items whose steps of r are adjacent. A few items at a time, from the last ones of a panel down: where `width` is no multiple of
 * their number, they write into the next step of the first ones. */
static void pack_across(cg *c, int o, int width)
{
	const cg_product *p = cg_product_of(c);
	const int n = width % p->w ? 16 / (int)tj_dtype_size(p->t) : p->w, groups = (width + n - 1) / n;
	cg_str item[MOST_ITEMS], number[MOST_ITEMS], last = cg_op(c, "sub", cg_fmt("%%n"), cg_int(1));
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(width), false);
	cg_str panel = cg_elem(c, p->t, cg_fmt("%%to"), cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL)));
	cg_loop b = cg_open(c, "b", cg_int(0), cg_fmt("%%nk"), cg_int(CACHED), true);
	cg_str stop = cg_least(c, cg_op(c, "add", b.i, cg_int(CACHED)), cg_fmt("%%nk")), whole = stop;
	/* Prefetches what comes next: further steps of these items, or the first steps of the next panel. */
	cg_str further = cg_cmp(c, "slt", stop, cg_fmt("%%nk")),
	       ahead = cg_choose(c, further, "i64", cg_int(CACHED), cg_op(c, "sub", cg_op(c, "mul", cg_fmt("%%si"), cg_int(width)), b.i));
	cg_loop g = cg_open(c, "g", cg_int(0), cg_int(groups), cg_int(1), false);
	cg_str first = cg_op(c, "mul", cg_op(c, "sub", cg_int(groups - 1), g.i), cg_int(n)), to = cg_elem(c, p->t, panel, first);
	cg_put_items(c, o, cg_op(c, "add", j.i, first), n, last, number, item);
	const bool masked = !cg_computes(c->how, o); /* a masked load costs no more, but for dtypes that are converted */
	if (!masked) whole = cg_op(c, "add", b.i, cg_op(c, "and", cg_op(c, "sub", stop, b.i), cg_int(-p->w)));
	cg_loop k = cg_open(c, "k", b.i, whole, cg_int(p->w), true);
	pack_square(c, o, width, n, item, number, to, k.i, masked ? &stop : NULL, ahead);
	cg_close(c, &k);
	if (!masked) {
		rt_putf(c->out, "  br i1 %s, label %%left, label %%even\n", cg_cmp(c, "slt", whole, stop).s);
		cg_label(c, cg_fmt("left"));
		pack_square(c, o, width, n, item, number, to, whole, &stop, ahead);
		cg_jump(c, cg_fmt("even"));
	}
	cg_close(c, &g);
	cg_close(c, &b);
	cg_close(c, &j);
}

static void pack_singly(cg *c, int o, int width)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, o);
	cg_str last = cg_op(c, "sub", cg_fmt("%%n"), cg_int(1));
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(width), false);
	cg_loop k = cg_open(c, "k", cg_int(0), cg_fmt("%%nk"), cg_int(1), true);
	cg_str row = cg_elem(c, from, cg_fmt("%%from"), cg_op(c, "mul", k.i, cg_fmt("%%sk")));
	cg_str to = cg_elem(c, p->t, cg_fmt("%%to"),
	                    cg_op(c, "add", cg_op(c, "mul", k.i, cg_int(width)), cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL))));
	cg_loop i = cg_open(c, "i", cg_int(0), cg_int(width), cg_int(1), false);
	cg_str item = cg_least(c, cg_op(c, "add", i.i, j.i), last), x = cg_fmt("poison");
	if (!cg_is_grouped(c->how, o)) x = cg_read(c, from, 1, cg_elem(c, from, row, cg_op(c, "mul", item, cg_fmt("%%si"))));
	const cg_at at = { .lanes = 1, .item = item, .k = k.i, .loaded = x };
	cg_write(c, p->t, 1, cg_computed(c, o, &at), cg_elem(c, p->t, to, i.i));
	cg_close(c, &i);
	cg_close(c, &k);
	cg_close(c, &j);
}

void cg_pack_apart(cg *c)
{
	enum { AHEAD = 4 }; /* rows; distance of prefetches */
	const cg_product *p = cg_product_of(c);
	cg_loop i = cg_open(c, "i", cg_int(0), cg_int(p->most), cg_int(1), false);
	const cg_str row = cg_least(c, i.i, cg_op(c, "sub", cg_fmt("%%n"), cg_int(1)));
	const cg_str from = cg_elem(c, p->t, cg_fmt("%%from"), cg_op(c, "mul", row, cg_fmt("%%si"))),
		     to = cg_elem(c, p->t, cg_fmt("%%to"), cg_op(c, "mul", i.i, cg_int(LO_ROW_ROOM)));
	const cg_str far = cg_elem(c, p->t, from, cg_op(c, "mul", cg_fmt("%%si"), cg_int(AHEAD)));
	cg_loop k = cg_open(c, "k", cg_int(0), cg_fmt("%%nk"), cg_int(p->w), false);
	const cg_str mask = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%nk"), k.i), p->w);
	cg_prefetch(c, cg_elem(c, p->t, far, k.i), 0);
	cg_write(c, p->t, p->w, cg_read_some(c, p->t, p->w, cg_elem(c, p->t, from, k.i), mask), cg_elem(c, p->t, to, k.i));
	cg_close(c, &k);
	cg_close(c, &i);
}

void cg_pack(cg *c, int o, int width)
{
	if (cg_items_adjacent(c->how, o)) pack_along(c, o, width);
	else if (cg_steps_adjacent(c->how, o)) pack_across(c, o, width);
	else pack_singly(c, o, width);
}
