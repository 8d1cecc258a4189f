/* SPDX-License-Identifier: MIT */
/* pairs: products of bf16, two steps of r at a time. Two steps of one item lie in a word of 32 bits; vdpbf16ps multiplies both by those of
 * another word, and adds the two products to a sum of f32. The CPU has it with vectors of 512 bits, or the product is computed like one of
 * f32.
 *
 *   rows      as they lie in memory, if that is in words; else packed as words: [words][most]
 *   columns   packed as words: [words][width]; those of a constant are stored so (LO_WORDS)
 *             few rows: as they lie in memory, two steps of r interleaved as they are read
 *
 * The second step of the last word is 0 where r is odd.
 *
 * In the order FAST the first step is the lower half of a word, as in memory. The instruction adds the upper half first, and takes a
 * subnormal number for 0. So in strict order (`ordered`) words are packed the other way round, and a chunk whose packed numbers are too
 * small is multiplied apart: each half of the words as f32. */
#include "codegen_llvm/product.h"

enum {
	ROWS_AHEAD = 8, /* rows; distance of prefetches */
	CACHED = 128,   /* steps of r whose packed items stay in the first cache */
	WORDS = 16,     /* of a vector */
	BIAS = 127,
	LEAST = -126,
	LAST = 14 /* exponents: what f32 and bf16 add to them; the least one of f32 that is normal; LAST bits below its first one a product
	             ends */
};

bool cg_pairs(const cg_recipe *h) { return h->product->x.pairs && h->bits == 512 && rt_bf16_pairs(); }

/* Rows a multiple of a page apart would share a set of the first cache. */
bool cg_row_words(const cg_recipe *h)
{
	const int64_t red = h->k->red, row = cg_item_step(h, 0);
	return cg_r_step(h, 0) == 1 && !lo_is_sym(red) && red % 2 == 0 && !lo_is_sym(row) && (row == 0 || row * 2 % CG_PAGE);
}

cg_str cg_row_word(cg *c, int row)
{
	cg_str x = cg_tmp(c), at = cg_elem(c, TJ_BF16, cg_fmt("%%xa"), cg_int(row * cg_item_step(c->how, 0)));
	rt_putf(c->out, "  %s = load float, ptr %s, align 2\n", x.s, at.s);
	return x;
}

cg_str cg_multiply_pairs(cg *c, cg_str x, cg_str y, cg_str sum) { return cg_x86_dot_bf16(c, sum, x, y); }

cg_str cg_half_of(cg *c, cg_str words, bool upper)
{
	const int n = cg_product_of(c)->w;
	const cg_str r = cg_tmp(c), type = cg_type(TJ_F32, n);
	rt_putf(c->out, "  %s.i = bitcast %s %s to <%d x i32>\n", r.s, type.s, words.s, n);
	rt_putf(c->out, "  %s.h = %s <%d x i32> %s.i, %s\n", r.s, upper ? "and" : "shl", n, r.s,
	        cg_splat(c, "i32", cg_int(upper ? -65536 : 16), n).s);
	rt_putf(c->out, "  %s = bitcast <%d x i32> %s.h to %s\n", r.s, n, r.s, type.s);
	return r;
}

/* ---- how small packed numbers are ---- */
/* %fit: the least magnitude of a number that is not 0, less one in the last place of its 16 bits; so 0 counts as the largest. */
#define NO_FIT "splat (i16 -1)"
void cg_open_fit(cg *c)
{
	if (!cg_product_of(c)->ordered) return;
	rt_puts(c->out, "  %least = alloca <32 x i16>, align 64\n  store <32 x i16> " NO_FIT ", ptr %least, align 64\n");
}

static cg_str lesser(cg *c, cg_str x, cg_str y)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = call <32 x i16> @llvm.umin.v32i16(<32 x i16> %s, <32 x i16> %s)\n", r.s, x.s, y.s);
	return r;
}

/* The lesser of `least` and the magnitudes in n vectors of words. */
static cg_str fit_of(cg *c, cg_str least, int n, const cg_str *words)
{
	for (int i = 0; i < n; i++) {
		const cg_str r = cg_tmp(c);
		rt_putf(c->out,
		        "  %s.h = bitcast <16 x float> %s to <32 x i16>\n  %s.m = and <32 x i16> %s.h, splat (i16 32767)\n"
		        "  %s = sub <32 x i16> %s.m, splat (i16 1)\n",
		        r.s, words[i].s, r.s, r.s, r.s, r.s);
		least = lesser(c, least, r);
	}
	return least;
}

static void note_fit(cg *c, cg_str least)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = load <32 x i16>, ptr %%least, align 64\n", r.s);
	rt_putf(c->out, "  store <32 x i16> %s, ptr %%least, align 64\n", lesser(c, r, least).s);
}

void cg_close_fit(cg *c)
{
	if (!cg_product_of(c)->ordered) return;
	rt_puts(c->out, "  %all = load <32 x i16>, ptr %least, align 64\n  %one = call i16 @llvm.vector.reduce.umin.v32i16(<32 x i16> %all)\n");
	rt_puts(c->out,
	        "  %before = load i16, ptr %fit, align 2\n  %both = call i16 @llvm.umin.i16(i16 %before, i16 %one)\n"
	        "  store i16 %both, ptr %fit, align 2\n");
}

/* The exponent, with its bias, of the number that %fit tells. */
static cg_str exponent(cg *c, cg_str fit)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out,
	        "  %s.l = load i16, ptr %s, align 2\n  %s.w = zext i16 %s.l to i64\n  %s.m = add i64 %s.w, 1\n  %s = lshr i64 %s.m, 7\n",
	        r.s, fit.s, r.s, r.s, r.s, r.s, r.s, r.s);
	return r;
}

/* All sums are multiples of the last bit of the least product; if that is normal, no sum but 0 is below it. A number is normal if its
 * exponent is not 0. */
cg_str cg_fits(cg *c, cg_str rows, cg_str columns)
{
	const cg_str a = exponent(c, rows), b = exponent(c, columns), normal = cg_op(c, "mul", a, b), r = cg_tmp(c);
	rt_putf(c->out, "  %s.n = icmp ne i64 %s, 0\n", r.s, normal.s);
	rt_putf(c->out, "  %s = and i1 %s.n, %s\n", r.s, r.s, cg_cmp(c, "sge", cg_op(c, "add", a, b), cg_int(2 * BIAS + LEAST + LAST)).s);
	return r;
}

/* What stands for the second step of the last word of a row or a column: their product, -0, changes no sum. */
static cg_str absent(const cg *c, int o) { return cg_fmt(cg_product_of(c)->ordered && !o ? "splat (i16 -32768)" : "zeroinitializer"); }

/* ---- words ---- */
/* Words of the items from `first` on, of x and y with n numbers each. apart: from the first step of an item to its second one. One
 * instruction. */
static cg_str words_of(cg *c, int n, cg_str x, cg_str y, int first, int apart)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s.w = shufflevector <%d x i16> %s, <%d x i16> %s, <32 x i32> <", r.s, n, x.s, n, y.s);
	for (int i = 0; i < 2 * WORDS; i++)
		rt_putf(c->out, "%si32 %d", i ? ", " : "", first + i / 2 + (i % 2 ^ (int)cg_product_of(c)->ordered) * apart);
	rt_putf(c->out, ">\n  %s = bitcast <32 x i16> %s.w to <16 x float>\n", r.s, r.s);
	return r;
}

/* Vectors of words of adjacent items of operand o: those at row, and those of the next step at `next`; NULL: there is none. mask: the items
 * that there are, by vector; NULL: all. */
static void interleave(cg *c, int o, int vecs, cg_str row, const cg_str *next, const cg_str *mask, cg_str *words)
{
	for (int v = 0; v < vecs;) {
		const int n = !mask && v + 1 < vecs ? 2 * WORDS : WORDS; /* whole registers where all items are there */
		cg_str half[2] = { cg_fmt("poison"), absent(c, o) };
		for (int s = 0; s < (next ? 2 : 1); s++) {
			cg_str at = cg_elem(c, TJ_BF16, s ? *next : row, cg_int((int64_t)v * WORDS));
			half[s] = mask ? cg_read_some(c, TJ_I16, n, at, mask[v]) : cg_read(c, TJ_I16, n, at);
		}
		for (int i = 0; i < n; i += WORDS) words[v++] = words_of(c, n, half[0], half[1], i, n);
	}
}

/* ---- columns that are not packed ---- */
void cg_open_pairs(cg *c, int vecs)
{
	rt_putf(c->out, "  %%zeros = alloca <%d x i16>, align 64\n  store <%d x i16> zeroinitializer, ptr %%zeros, align 64\n",
	        vecs * WORDS, vecs * WORDS);
}

void cg_pair_columns(cg *c, int vecs, cg_str (*at)(cg *c, int column), cg_str *y)
{
	cg_str second = cg_op(c, "or", cg_op(c, "shl", cg_fmt("%%k"), cg_int(1)), cg_int(1));
	cg_str next = cg_choose(c, cg_cmp(c, "slt", second, cg_fmt("%%nk")), "ptr", cg_elem(c, TJ_BF16, at(c, 0), cg_fmt("%%step")),
	                        cg_fmt("%%zeros"));
	interleave(c, 1, vecs, at(c, 0), &next, NULL, y);
}

/* ---- packing ---- */
static void put_words(cg *c, int vecs, const cg_str *words, cg_str to)
{
	for (int v = 0; v < vecs; v++) cg_write(c, TJ_F32, WORDS, words[v], cg_elem(c, TJ_F32, to, cg_int((int64_t)v * WORDS)));
}

/* The word of each adjacent item: of panels that are whole, then of the last one. odd: there is no second step. */
static void put_row(cg *c, int o, int width, cg_str word, bool odd, const cg_str *mask, cg_str whole, cg_str rest)
{
	const int vecs = (width + WORDS - 1) / WORDS;
	const cg_str step = cg_op(c, "shl", word, cg_int(1)), row = cg_main_row(c, o, step),
		     next = odd ? row : cg_main_row(c, o, cg_op(c, "or", step, cg_int(1)));
	const cg_str to = cg_elem(c, TJ_F32, cg_fmt("%%to"), cg_op(c, "mul", word, cg_int(width)));
	const bool ordered = cg_product_of(c)->ordered, ahead = o && !cg_is_grouped(c->how, o);
	cg_str words[CG_MOST_VECS];
	const cg_str before = c->block_label, least = cg_tmp(c);
	cg_loop j = cg_open(c, "j", cg_int(0), whole, cg_int(width), true);
	if (ordered) rt_putf(c->out, "  %s = phi <32 x i16> [ " NO_FIT ", %%%s ], [ %s.next, %%%s ]\n", least.s, before.s, least.s, j.latch.s);
	cg_str q = cg_elem(c, TJ_BF16, row, j.i), below = cg_elem(c, TJ_BF16, next, j.i);
	for (int b = 0; ahead && b < 2 * width; b += RT_LINE) /* bytes */
		for (int s = 0; s < 2; s++) cg_prefetch(c, cg_elem(c, TJ_BF16, s ? below : q, cg_op(c, "mul", cg_fmt("%%sk"), cg_int(ROWS_AHEAD))), b);
	interleave(c, o, vecs, q, odd ? NULL : &below, NULL, words);
	if (ordered) rt_putf(c->out, "  %s.next = bitcast <32 x i16> %s to <32 x i16>\n", least.s, fit_of(c, least, vecs, words).s);
	put_words(c, vecs, words, cg_elem(c, TJ_F32, to, cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL))));
	cg_close(c, &j);
	if (ordered) {
		rt_putf(c->out, "  %s.all = phi <32 x i16> [ " NO_FIT ", %%%s ], [ %s.next, %%%s ]\n", least.s, before.s, least.s, j.latch.s);
		note_fit(c, cg_fmt("%s.all", least.s));
	}
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%some%u, label %%none%u\n", cg_cmp(c, "sgt", rest, cg_int(0)).s, id, id);
	cg_label(c, cg_fmt("some%u", id));
	cg_str last = cg_elem(c, TJ_BF16, next, whole);
	interleave(c, o, vecs, cg_elem(c, TJ_BF16, row, whole), odd ? NULL : &last, mask, words);
	if (ordered) note_fit(c, fit_of(c, cg_fmt(NO_FIT), vecs, words));
	put_words(c, vecs, words, cg_elem(c, TJ_F32, to, cg_op(c, "mul", whole, cg_int(LO_TILE_PANEL))));
	cg_jump(c, cg_fmt("none%u", id));
}

/* Adjacent items. Where a panel is no multiple of a vector there is one panel, and the last vector of a word writes into the next one,
 * which comes later. */
static void pack_along(cg *c, int o, int width)
{
	const bool even = width % WORDS == 0;
	cg_str mask[CG_MOST_VECS], n = cg_fmt("%%n"), rest = even ? cg_op(c, "urem", n, cg_int(width)) : n, whole = cg_op(c, "sub", n, rest);
	for (int v = 0; v * WORDS < width; v++) mask[v] = cg_first_lanes(c, cg_op(c, "sub", rest, cg_int((int64_t)v * WORDS)), WORDS);
	cg_str pairs = cg_op(c, "lshr", cg_fmt("%%nk"), cg_int(1)), odd = cg_op(c, "and", cg_fmt("%%nk"), cg_int(1));
	cg_loop k = cg_open(c, "k", cg_int(0), pairs, cg_int(1), true);
	put_row(c, o, width, k.i, false, mask, whole, rest);
	cg_close(c, &k);
	rt_putf(c->out, "  br i1 %s, label %%odd, label %%even\n", cg_cmp(c, "ne", odd, cg_int(0)).s);
	cg_label(c, cg_fmt("odd"));
	put_row(c, o, width, pairs, true, mask, whole, rest);
	cg_jump(c, cg_fmt("even"));
}

/* A vector of words of each of n items, from step k on. stop: the first step that is not there; NULL: it is behind them. */
static void pack_square(cg *c, int o, int width, int n, const cg_str *item, cg_str to, cg_str k, const cg_str *stop)
{
	cg_str v[WORDS], mask;
	if (stop) mask = cg_first_lanes(c, cg_op(c, "sub", *stop, k), 2 * WORDS);
	for (int i = 0; i < n; i++) {
		cg_str q = cg_elem(c, TJ_BF16, item[i], k), x = cg_tmp(c);
		if (o) cg_prefetch(c, q, 2 * CACHED);
		cg_str steps = stop ? cg_read_some(c, TJ_I16, 2 * WORDS, q, mask) : cg_read(c, TJ_I16, 2 * WORDS, q);
		if (stop)
			rt_putf(c->out, "  %s.s = select <32 x i1> %s, <32 x i16> %s, <32 x i16> %s\n", x.s, mask.s, steps.s,
			        absent(c, o).s),
				steps = cg_fmt("%s.s", x.s);
		if (cg_product_of(c)->ordered) {
			rt_putf(c->out,
			        "  %s.i = bitcast <32 x i16> %s to <16 x i32>\n  %s.r = call <16 x i32> @llvm.fshl.v16i32(<16 x i32> %s.i, <16 x i32> %s.i, "
			        "<16 x i32> splat (i32 16))\n",
			        x.s, steps.s, x.s, x.s, x.s);
			rt_putf(c->out, "  %s = bitcast <16 x i32> %s.r to <16 x float>\n", x.s, x.s);
		} else rt_putf(c->out, "  %s = bitcast <32 x i16> %s to <16 x float>\n", x.s, steps.s);
		v[i] = x;
	}
	if (cg_product_of(c)->ordered) note_fit(c, fit_of(c, cg_fmt(NO_FIT), n, v));
	cg_put_square(c, TJ_F32, WORDS, n, v, cg_elem(c, TJ_F32, to, cg_op(c, "mul", cg_op(c, "lshr", k, cg_int(1)), cg_int(width))), width);
}

/* Items whose steps of r are adjacent: a few at a time, as pack_across() of pack.c does it. */
static void pack_across(cg *c, int o, int width)
{
	const int n = width % WORDS ? 4 : WORDS, groups = (width + n - 1) / n;
	cg_str item[WORDS], number[WORDS], last = cg_op(c, "sub", cg_fmt("%%n"), cg_int(1));
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(width), false);
	cg_str panel = cg_elem(c, TJ_F32, cg_fmt("%%to"), cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL)));
	cg_loop b = cg_open(c, "b", cg_int(0), cg_fmt("%%nk"), cg_int(CACHED), true);
	cg_str stop = cg_least(c, cg_op(c, "add", b.i, cg_int(CACHED)), cg_fmt("%%nk")), whole = cg_op(c, "and", stop, cg_int(-2 * WORDS));
	cg_loop g = cg_open(c, "g", cg_int(0), cg_int(groups), cg_int(1), false);
	cg_str first = cg_op(c, "mul", cg_op(c, "sub", cg_int(groups - 1), g.i), cg_int(n)), to = cg_elem(c, TJ_F32, panel, first);
	cg_put_items(c, o, cg_op(c, "add", j.i, first), n, last, number, item);
	cg_loop k = cg_open(c, "k", b.i, whole, cg_int(2 * WORDS), true);
	pack_square(c, o, width, n, item, to, k.i, NULL);
	cg_close(c, &k);
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%left%u, label %%even%u\n", cg_cmp(c, "slt", whole, stop).s, id, id);
	cg_label(c, cg_fmt("left%u", id));
	pack_square(c, o, width, n, item, to, whole, &stop);
	cg_jump(c, cg_fmt("even%u", id));
	cg_close(c, &g);
	cg_close(c, &b);
	cg_close(c, &j);
}

/* Step k of the item at `from`, as 32 bits. */
static cg_str step_of(cg *c, int o, cg_str from, cg_str k)
{
	cg_str last = cg_op(c, "sub", cg_fmt("%%nk"), cg_int(1)), wide = cg_tmp(c);
	cg_str x = cg_read(c, TJ_I16, 1, cg_elem(c, TJ_BF16, from, cg_op(c, "mul", cg_least(c, k, last), cg_fmt("%%sk"))));
	rt_putf(c->out, "  %s = zext i16 %s to i32\n", wide.s,
	        cg_choose(c, cg_cmp(c, "sle", k, last), "i16", x, cg_int(cg_product_of(c)->ordered && !o ? -32768 : 0)).s);
	return wide;
}

static void pack_singly(cg *c, int o, int width)
{
	cg_str last = cg_op(c, "sub", cg_fmt("%%n"), cg_int(1)), words = cg_op(c, "lshr", cg_op(c, "add", cg_fmt("%%nk"), cg_int(1)), cg_int(1));
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(width), false);
	cg_loop i = cg_open(c, "i", cg_int(0), cg_int(width), cg_int(1), false);
	cg_str item = cg_elem(c, TJ_BF16, cg_fmt("%%from"), cg_op(c, "mul", cg_least(c, cg_op(c, "add", i.i, j.i), last), cg_fmt("%%si")));
	cg_str to = cg_elem(c, TJ_I32, cg_fmt("%%to"), cg_op(c, "add", i.i, cg_op(c, "mul", j.i, cg_int(LO_TILE_PANEL))));
	cg_loop k = cg_open(c, "k", cg_int(0), words, cg_int(1), true);
	cg_str step = cg_op(c, "shl", k.i, cg_int(1)),
	       half[2] = { step_of(c, o, item, step), step_of(c, o, item, cg_op(c, "add", step, cg_int(1))) }, word = cg_tmp(c);
	rt_putf(c->out, "  %s.h = shl i32 %s, 16\n  %s = or i32 %s.h, %s\n", word.s, half[!cg_product_of(c)->ordered].s, word.s, word.s,
	        half[cg_product_of(c)->ordered].s);
	if (cg_product_of(c)->ordered) {
		rt_putf(c->out, "  %s.f = bitcast i32 %s to float\n", word.s, word.s);
		const cg_str all = cg_splat(c, "float", cg_fmt("%s.f", word.s), WORDS);
		note_fit(c, fit_of(c, cg_fmt(NO_FIT), 1, &all));
	}
	cg_write(c, TJ_I32, 1, word, cg_elem(c, TJ_I32, to, cg_op(c, "mul", k.i, cg_int(width))));
	cg_close(c, &k);
	cg_close(c, &i);
	cg_close(c, &j);
}

void cg_pack_pairs(cg *c, int o, int width)
{
	if (cg_item_step(c->how, o) == 1) pack_along(c, o, width);
	else if (cg_r_step(c->how, o) == 1) pack_across(c, o, width);
	else pack_singly(c, o, width);
}
