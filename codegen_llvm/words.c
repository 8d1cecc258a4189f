/* SPDX-License-Identifier: MIT */
/* words: products of i8 with sums of i32. Several steps of r of one item lie in a word of 32 bits, which one instruction multiplies:
 *
 *   VNNI, 512 bits   4 bytes, of columns 128 more, so that they are unsigned       sum + u0 b0 + u1 b1 + u2 b2 + u3 b3
 *   else             2 numbers of 16 bits                                         sum + (a0 b0 + a1 b1)
 *
 * Packed rows and columns are words then: [words][most], or rows as they lie; [words][width]. With bytes -128 times the sum of each row
 * lies behind its words: the sums of a tile begin from it. Integers wrap, so the order of the sums does not matter. Steps of r that are
 * absent are 0 in the rows. Few rows read columns that are not packed: dots.c. */
#include "codegen_llvm/product.h"

int cg_word_steps(const cg_recipe *h)
{
	if (h->product->pairs) return 2;
	if (!h->product->x.bytes) return 1;
	return h->bits == 512 && rt_byte_words() ? 4 : 2;
}

cg_str cg_words(cg *c, cg_str nk)
{
	const int steps = cg_product_of(c)->steps;
	return steps == 1 ? nk : cg_op(c, "udiv", cg_op(c, "add", nk, cg_int(steps - 1)), cg_int(steps));
}

cg_str cg_multiply_words(cg *c, cg_str columns, cg_str rows, cg_str sum)
{
	const cg_product *p = cg_product_of(c);
	return p->steps == 4 ? cg_x86_dot_bytes(c, sum, columns, rows) : cg_x86_dot_i16(c, p->w, sum, columns, rows);
}

/* ---- packing ---- */
cg_str cg_widen(cg *c, int lanes, cg_str bytes, bool columns)
{
	const int steps = cg_product_of(c)->steps;
	cg_str word = cg_tmp(c), type = cg_type(TJ_I32, lanes);
	if (steps == 2) {
		rt_putf(c->out, "  %s.w = sext <%d x i8> %s to <%d x i16>\n  %s = bitcast <%d x i16> %s.w to %s\n", word.s, 2 * lanes,
		        bytes.s, 2 * lanes, word.s, 2 * lanes, word.s, type.s);
		return word;
	}
	rt_putf(c->out, "  %s.w = bitcast <%d x i8> %s to %s\n", word.s, 4 * lanes, bytes.s, type.s);
	rt_putf(c->out, "  %s = xor %s %s.w, %s\n", word.s, type.s, word.s, cg_literal(TJ_I32, columns ? (int32_t)0x80808080 : 0, lanes).s);
	return word;
}

/* The steps from k on of the item at `from`; those that are not there are 0. */
static cg_str word_of(cg *c, int o, cg_str from, cg_str k, bool whole)
{
	const int steps = cg_product_of(c)->steps;
	cg_str bytes = cg_tmp(c);
	if (whole && cg_r_step(c->how, o) == 1) {
		rt_putf(c->out, "  %s = load <%d x i8>, ptr %s, align 1\n", bytes.s, steps, cg_elem(c, TJ_I8, from, k).s);
		return cg_widen(c, 1, bytes, o);
	}
	cg_str all = cg_fmt("zeroinitializer"), last = cg_op(c, "sub", cg_fmt("%%nk"), cg_int(1));
	for (int s = 0; s < steps; s++) {
		cg_str at = cg_op(c, "add", k, cg_int(s)), there = cg_cmp(c, "sle", at, last), next = cg_tmp(c);
		cg_str v = cg_read(c, TJ_I8, 1, cg_elem(c, TJ_I8, from, cg_op(c, "mul", cg_least(c, at, last), cg_fmt("%%sk"))));
		cg_str byte = cg_choose(c, there, "i8", v, cg_int(0));
		rt_putf(c->out, "  %s = insertelement <%d x i8> %s, i8 %s, i32 %d\n", next.s, steps, all.s, byte.s, s);
		all = next;
	}
	return cg_widen(c, 1, all, o);
}

/* One item after the other; what would stand for those that are absent is not written. */
static void put_items(cg *c, int o, cg_str j, cg_str to, int width, cg_str from_word, cg_str to_word, bool whole)
{
	cg_loop i = cg_open(c, "i", cg_int(0), cg_least(c, cg_op(c, "sub", cg_fmt("%%n"), j), cg_int(width)), cg_int(1), false);
	const cg_str item = cg_elem(c, TJ_I8, cg_fmt("%%from"), cg_op(c, "mul", cg_op(c, "add", j, i.i), cg_fmt("%%si")));
	cg_loop k = cg_open(c, "k", from_word, to_word, cg_int(1), true);
	const cg_str word = word_of(c, o, item, cg_op(c, "mul", k.i, cg_int(cg_product_of(c)->steps)), whole);
	cg_write(c, TJ_I32, 1, word, cg_elem(c, TJ_I32, to, cg_op(c, "add", cg_op(c, "mul", k.i, cg_int(width)), i.i)));
	cg_close(c, &k);
	cg_close(c, &i);
}

/* Word k of a panel of adjacent items, from item j on, w of them at a time. mask: the items that there are, by vector; NULL: all. */
static void put_panel(cg *c, int o, int width, cg_str j, cg_str k, const cg_str *mask)
{
	const cg_product *p = cg_product_of(c);
	const cg_str to = cg_elem(c, TJ_I32, cg_fmt("%%to"), cg_op(c, "mul", j, cg_int(LO_TILE_PANEL)));
	for (int v = 0; v < width / p->w; v++) {
		cg_str row[4], at = cg_op(c, "add", j, cg_int((int64_t)v * p->w));
		for (int s = 0; s < p->steps; s++) {
			const cg_str r = cg_op(c, "add", cg_op(c, "mul", k, cg_int(p->steps)), cg_int(s)),
				     from = cg_elem(c, TJ_I8, cg_fmt("%%from"), cg_op(c, "add", at, cg_op(c, "mul", r, cg_fmt("%%sk"))));
			row[s] = mask ? cg_read_some(c, TJ_I8, p->w, from, mask[v]) : cg_read(c, TJ_I8, p->w, from);
		}
		int lanes = p->w;
		for (int n = p->steps; n > 1; n /= 2, lanes *= 2) /* neighbours first become longer vectors, one behind the other */
			for (int s = 0; s < n / 2; s++) {
				cg_str both = cg_tmp(c);
				rt_putf(c->out, "  %s = shufflevector <%d x i8> %s, <%d x i8> %s, <%d x i32> ", both.s, lanes, row[2 * s].s,
				        lanes, row[2 * s + 1].s, 2 * lanes);
				cg_iota(c->out, "i32", 1, 2 * lanes);
				rt_puts(c->out, "\n");
				row[s] = both;
			}
		cg_str bytes = cg_tmp(c);
		rt_putf(c->out, "  %s = shufflevector <%d x i8> %s, <%d x i8> poison, <%d x i32> <", bytes.s, lanes, row[0].s, lanes, lanes);
		for (int l = 0; l < lanes; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", l % p->steps * p->w + l / p->steps);
		rt_puts(c->out, ">\n");
		cg_write(c, TJ_I32, p->w, cg_widen(c, p->w, bytes, o),
		         cg_elem(c, TJ_I32, to, cg_op(c, "add", cg_op(c, "mul", k, cg_int(width)), cg_int((int64_t)v * p->w))));
	}
}

/* Panels of adjacent items: the steps of a word are read from end to end, since memory is read fastest so. Returns how many items are done:
 * all of them, or those of whole panels where there are no masks for bytes. */
static cg_str put_vectors(cg *c, int o, int width, cg_str words)
{
	const cg_product *p = cg_product_of(c);
	const cg_str n = cg_fmt("%%n"), rest = cg_op(c, "urem", n, cg_int(width)), whole = cg_op(c, "sub", n, rest);
	cg_str mask[CG_MOST_VECS];
	for (int v = 0; v < width / p->w; v++) mask[v] = cg_first_lanes(c, cg_op(c, "sub", rest, cg_int((int64_t)v * p->w)), p->w);
	cg_loop k = cg_open(c, "k", cg_int(0), words, cg_int(1), true);
	cg_loop j = cg_open(c, "j", cg_int(0), whole, cg_int(width), true);
	put_panel(c, o, width, j.i, k.i, NULL);
	cg_close(c, &j);
	if (c->bits == 512) {
		rt_putf(c->out, "  br i1 %s, label %%some, label %%none\n", cg_cmp(c, "sgt", rest, cg_int(0)).s);
		cg_label(c, cg_fmt("some"));
		put_panel(c, o, width, whole, k.i, mask);
		cg_jump(c, cg_fmt("none"));
	}
	cg_close(c, &k);
	return c->bits == 512 ? n : whole;
}

/* Whole vectors of words of a few items at a time, from the last items of a panel down: where `width` is no multiple of their number, they
 * write into the next word of the first ones, which comes later. */
static void put_squares(cg *c, int o, cg_str j, cg_str to, int width, cg_str words)
{
	const cg_product *p = cg_product_of(c);
	const int n = width % p->w ? 16 / (int)tj_dtype_size(TJ_I32) : p->w, groups = (width + n - 1) / n;
	cg_str item[CG_MOST_LANES], number[CG_MOST_LANES], v[CG_MOST_LANES], last = cg_op(c, "sub", cg_fmt("%%n"), cg_int(1));
	cg_loop g = cg_open(c, "g", cg_int(0), cg_int(groups), cg_int(1), false);
	cg_str first = cg_op(c, "mul", cg_op(c, "sub", cg_int(groups - 1), g.i), cg_int(n));
	cg_put_items(c, o, cg_op(c, "add", j, first), n, last, number, item);
	cg_loop k = cg_open(c, "k", cg_int(0), words, cg_int(p->w), true);
	cg_str step = cg_op(c, "mul", k.i, cg_int(p->steps));
	for (int i = 0; i < n; i++) v[i] = cg_widen(c, p->w, cg_read(c, TJ_I8, p->steps * p->w, cg_elem(c, TJ_I8, item[i], step)), o);
	cg_put_square(c, TJ_I32, p->w, n, v, cg_elem(c, TJ_I32, to, cg_op(c, "add", cg_op(c, "mul", k.i, cg_int(width)), first)), width);
	cg_close(c, &k);
	cg_close(c, &g);
}

/* The last row of a panel, in its place after the words. */
static void put_item_sums(cg *c, cg_str to, int width, cg_str words)
{
	const cg_product *p = cg_product_of(c);
	const int vecs = (width + p->w - 1) / p->w;
	cg_str type = cg_type(TJ_I32, p->w), ones = cg_literal(TJ_I32, 0x01010101, p->w),
	       end = cg_elem(c, TJ_I32, to, cg_op(c, "mul", words, cg_int(width)));
	cg_str sum[CG_MOST_VECS], next[CG_MOST_VECS], before = c->block_label;
	cg_loop k = cg_open(c, "k", cg_int(0), words, cg_int(1), true);
	for (int v = 0; v < vecs; v++) {
		sum[v] = cg_tmp(c);
		rt_putf(c->out, "  %s = phi %s [ zeroinitializer, %%%s ], [ %s.next, %%%s ]\n", sum[v].s, type.s, before.s, sum[v].s, k.latch.s);
	}
	cg_str row = cg_elem(c, TJ_I32, to, cg_op(c, "mul", k.i, cg_int(width)));
	for (int v = 0; v < vecs; v++) {
		next[v] = cg_multiply_words(c, ones, cg_read(c, TJ_I32, p->w, cg_elem(c, TJ_I32, row, cg_int((int64_t)v * p->w))), sum[v]);
		rt_putf(c->out, "  %s.next = bitcast %s %s to %s\n", sum[v].s, type.s, next[v].s, type.s);
	}
	cg_close(c, &k);
	for (int v = 0; v < vecs; v++)
		rt_putf(c->out, "  %s.all = phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]\n", sum[v].s, type.s, before.s, next[v].s, k.latch.s);
	for (int v = 0; v < vecs; v++) {
		cg_str less = cg_tmp(c);
		rt_putf(c->out, "  %s = mul %s %s.all, %s\n", less.s, type.s, sum[v].s, cg_literal(TJ_I32, -128, p->w).s);
		cg_write(c, TJ_I32, p->w, less, cg_elem(c, TJ_I32, end, cg_int((int64_t)v * p->w)));
	}
}

/* Rows as they lie, and behind the words of each -128 times its sum. */
static void put_summed_rows(cg *c, cg_str words)
{
	const cg_product *p = cg_product_of(c);
	const int bytes = p->steps * p->w;
	const cg_str type = cg_type(TJ_I32, p->w), ones = cg_literal(TJ_I32, 0x01010101, p->w);
	cg_loop i = cg_open(c, "i", cg_int(0), cg_fmt("%%n"), cg_int(1), false);
	const cg_str item = cg_elem(c, TJ_I8, cg_fmt("%%from"), cg_op(c, "mul", i.i, cg_fmt("%%si"))),
		     to = cg_elem(c, TJ_I32, cg_fmt("%%to"), cg_op(c, "mul", i.i, cg_int(LO_ROW_ROOM))), before = c->block_label,
		     sum = cg_tmp(c);
	cg_loop k = cg_open(c, "k", cg_int(0), cg_fmt("%%nk"), cg_int(bytes), true);
	rt_putf(c->out, "  %s = phi %s [ zeroinitializer, %%%s ], [ %s.next, %%%s ]\n", sum.s, type.s, before.s, sum.s, k.latch.s);
	const cg_str mask = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%nk"), k.i), bytes);
	const cg_str row = cg_widen(c, p->w, cg_read_some(c, TJ_I8, bytes, cg_elem(c, TJ_I8, item, k.i), mask), false);
	const cg_str next = cg_multiply_words(c, ones, row, sum);
	rt_putf(c->out, "  %s.next = bitcast %s %s to %s\n", sum.s, type.s, next.s, type.s);
	cg_write(c, TJ_I32, p->w, row, cg_elem(c, TJ_I32, to, cg_op(c, "udiv", k.i, cg_int(p->steps))));
	cg_close(c, &k);
	rt_putf(c->out, "  %s.all = phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]\n", sum.s, type.s, before.s, next.s, k.latch.s);
	rt_putf(c->out, "  %s.one = call i32 @llvm.vector.reduce.add.v%di32(%s %s.all)\n  %s.less = mul i32 %s.one, -128\n", sum.s, p->w,
	        type.s, sum.s, sum.s, sum.s);
	cg_write(c, TJ_I32, 1, cg_fmt("%s.less", sum.s), cg_elem(c, TJ_I32, to, words));
	cg_close(c, &i);
}

void cg_pack_words(cg *c, int o, int width)
{
	const cg_product *p = cg_product_of(c);
	const bool vectors = cg_item_step(c->how, o) == 1 && width % p->w == 0;
	cg_str words = cg_words(c, cg_fmt("%%nk"));
	if (!o && p->rows_apart) {
		put_summed_rows(c, words);
		return;
	}
	const cg_str whole = cg_op(c, "udiv", cg_fmt("%%nk"), cg_int(p->steps)), done = vectors ? put_vectors(c, o, width, whole) : cg_int(0);
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(width), false);
	cg_str to = cg_elem(c, TJ_I32, cg_fmt("%%to"), cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL))), from = cg_int(0);
	if (vectors) from = cg_choose(c, cg_cmp(c, "slt", j.i, done), "i64", whole, cg_int(0));
	else if (cg_r_step(c->how, o) == 1) {
		cg_str squares = cg_op(c, "and", whole, cg_int(-p->w));
		from = whole;
		put_squares(c, o, j.i, to, width, squares);
		put_items(c, o, j.i, to, width, squares, whole, true);
	}
	put_items(c, o, j.i, to, width, from, words, false);
	if (!o && p->steps == 4) put_item_sums(c, to, width, words);
	cg_close(c, &j);
}
