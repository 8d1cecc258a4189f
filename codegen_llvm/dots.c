/* SPDX-License-Identifier: MIT */
/* dots: products of i8 with sums of i32 that read columns as they lie, because A has few rows.
 *
 *   B stored [n,k]   a tile of a few columns; lanes are steps of r, and are added when a chunk ends
 *   B stored [k,n]   one row of A: a strip, STRIP_WORDS words of r at a time, from end to end; the bytes of a word meet in registers
 *
 * Words are those of words.c. Rows are packed: a vector with which sums begin (its lanes add up to -128 times the row's steps), the words,
 * and zeros up to a vector or more. Integers wrap, so the order of the sums does not matter: a chunk of r is as long as the room for
 * packed rows. */
#include "codegen_llvm/product.h"

enum {
	STRIP_WORDS = 2,
	COLUMNS = 4,                   /* of a tile, if registers allow: more are read less fast where they do not fit the second cache */
	MOST_SUMS = 24, FEW_SUMS = 12, /* vectors of sums of a tile: with 512 bits, and with fewer, which have half as many registers */
	BLOCK = 4                      /* words of 128 bits, within which bytes are interleaved */
};

static int vector_steps(const cg_product *p) { return p->steps * p->w; }

/* Words from packed row to packed row: the room of two tiles is shared by all rows. */
static int row_words(const cg_recipe *h) { return 2 * LO_TILE_ROWS * IR_CHAIN / (int)h->s->rows & -h->product->w; }

int cg_byte_chunk(const cg_recipe *h) { return (row_words(h) - 2 * h->product->w) * h->product->steps; }

int cg_byte_columns(const cg_recipe *h)
{
	int n = COLUMNS;
	while (n > 1 && n * (int)h->s->rows > (h->bits == 512 ? MOST_SUMS : FEW_SUMS)) n /= 2;
	return n;
}

static cg_str word_at(cg *c, cg_str row, cg_str k) /* where step k of a packed row begins a word */
{
	return cg_elem(c, TJ_I32, row, cg_op(c, "add", cg_op(c, "udiv", k, cg_int(cg_product_of(c)->steps)), cg_int(cg_product_of(c)->w)));
}

/* A vector of words of adjacent steps. */
static cg_str read_words(cg *c, cg_str from, const cg_str *mask, bool columns)
{
	const int n = vector_steps(cg_product_of(c));
	return cg_widen(c, cg_product_of(c)->w, mask ? cg_read_some(c, TJ_I8, n, from, *mask) : cg_read(c, TJ_I8, n, from), columns);
}

/* ---- a loop over r with vectors of sums ---- */
/* sum: in the loop; then what it leaves */
typedef struct walk { cg_loop k; cg_str before; int n; cg_str from[MOST_SUMS], sum[MOST_SUMS]; } walk;

static void open_walk(cg *c, walk *x, cg_str to, int step)
{
	x->before = c->block_label;
	x->k = cg_open(c, "k", cg_int(0), to, cg_int(step), true);
	for (int i = 0; i < x->n; i++) {
		x->from[i] = x->sum[i];
		x->sum[i] = cg_tmp(c);
		rt_putf(c->out, "  %s = phi %s [ %s, %%%s ], [ %s.next, %%%s ]\n", x->sum[i].s, cg_type(TJ_I32, cg_product_of(c)->w).s,
		        x->from[i].s, x->before.s, x->sum[i].s, x->k.latch.s);
	}
}

static void close_walk(cg *c, walk *x, const cg_str *next)
{
	const cg_str type = cg_type(TJ_I32, cg_product_of(c)->w);
	for (int i = 0; i < x->n; i++) rt_putf(c->out, "  %s.next = bitcast %s %s to %s\n", x->sum[i].s, type.s, next[i].s, type.s);
	cg_close(c, &x->k);
	for (int i = 0; i < x->n; i++) {
		cg_str all = cg_tmp(c);
		rt_putf(c->out, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", all.s, type.s, x->from[i].s, x->before.s, next[i].s, x->k.latch.s);
		x->sum[i] = all;
	}
}

/* ---- rows ---- */
/* One step after the other. */
static void pack_steps(cg *c, cg_str from, cg_str to)
{
	const tj_dtype t = cg_product_of(c)->steps == 4 ? TJ_I8 : TJ_I16;
	cg_loop k = cg_open(c, "k", cg_int(0), cg_fmt("%%nk"), cg_int(1), true);
	cg_str v = cg_read(c, TJ_I8, 1, cg_elem(c, TJ_I8, from, cg_op(c, "mul", k.i, cg_fmt("%%sk")))), wide = cg_tmp(c);
	if (t == TJ_I16) rt_putf(c->out, "  %s = sext i8 %s to i16\n", wide.s, v.s);
	cg_write(c, t, 1, t == TJ_I16 ? wide : v, cg_elem(c, t, to, k.i));
	cg_close(c, &k);
}

static void pack_vectors(cg *c, cg_str from, cg_str row, cg_str whole)
{
	const cg_product *p = cg_product_of(c);
	cg_loop k = cg_open(c, "k", cg_int(0), whole, cg_int(vector_steps(p)), true);
	cg_write(c, TJ_I32, p->w, read_words(c, cg_elem(c, TJ_I8, from, k.i), NULL, false), word_at(c, row, k.i));
	cg_close(c, &k);
	cg_str mask = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%nk"), whole), vector_steps(p));
	cg_write(c, TJ_I32, p->w, read_words(c, cg_elem(c, TJ_I8, from, whole), &mask, false), word_at(c, row, whole));
}

/* The vector with which the sums of the row begin. */
static void put_head(cg *c, cg_str row, cg_str whole)
{
	const cg_product *p = cg_product_of(c);
	walk x = { .n = 1, .sum = { cg_fmt("zeroinitializer") } };
	if (p->steps == 4) {
		open_walk(c, &x, cg_op(c, "add", whole, cg_int(1)), vector_steps(p));
		cg_str words = cg_read(c, TJ_I32, p->w, word_at(c, row, x.k.i)),
		       next = cg_multiply_words(c, cg_literal(TJ_I32, 0x01010101, p->w), words, x.sum[0]);
		close_walk(c, &x, &next);
	}
	cg_str less = cg_tmp(c);
	rt_putf(c->out, "  %s = mul %s %s, %s\n", less.s, cg_type(TJ_I32, p->w).s, x.sum[0].s, cg_literal(TJ_I32, -128, p->w).s);
	cg_write(c, TJ_I32, p->w, less, row);
}

void cg_pack_bytes(cg *c)
{
	const cg_product *p = cg_product_of(c);
	cg_str whole = cg_op(c, "and", cg_fmt("%%nk"), cg_int(-vector_steps(p)));
	cg_loop i = cg_open(c, "i", cg_int(0), cg_fmt("%%n"), cg_int(1), false);
	cg_str from = cg_elem(c, TJ_I8, cg_fmt("%%from"), cg_op(c, "mul", i.i, cg_fmt("%%si")));
	cg_str row = cg_elem(c, TJ_I32, cg_fmt("%%to"), cg_op(c, "mul", i.i, cg_int(row_words(c->how))));
	if (cg_r_step(c->how, 0) == 1) pack_vectors(c, from, row, whole);
	else {
		cg_write(c, TJ_I32, p->w, cg_fmt("zeroinitializer"), word_at(c, row, whole));
		pack_steps(c, from, word_at(c, row, cg_int(0)));
	}
	put_head(c, row, whole);
	cg_close(c, &i);
}

/* ---- tiles ---- */
/* w vectors become one, whose lane i is the sum of the lanes of v[i]. */
static cg_str add_lanes(cg *c, cg_str *v)
{
	const int w = cg_product_of(c)->w;
	for (int n = w / 2, parts = 1; n; n /= 2, parts *= 2) /* each vector has sums in `parts` parts; the two halves of a part are added */
		for (int i = 0; i < n; i++) {
			cg_str half[2];
			for (int h = 0; h < 2; h++) {
				half[h] = cg_tmp(c);
				rt_putf(c->out, "  %s = shufflevector <%d x i32> %s, <%d x i32> %s, <%d x i32> <", half[h].s, w, v[i].s, w, v[i + n].s, w);
				for (int l = 0; l < w; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", l / n % 2 * w + l / (2 * n) * 2 * n + h * n + l % n);
				rt_puts(c->out, ">\n");
			}
			v[i] = cg_sum(c, TJ_I32, w, half[0], half[1]);
		}
	return v[0];
}

/* Columns of a row, which lie in lanes of v from `first` on, are the sums of the chunk, or are added to those of the tile. */
static void store_lanes(cg *c, cg_str v, int first, int columns, int row)
{
	cg_str now = cg_tmp(c), to = cg_elem(c, TJ_I32, cg_fmt("%%sums"), cg_op(c, "mul", cg_fmt("%%pitch"), cg_int(row)));
	if (columns == 1) rt_putf(c->out, "  %s = extractelement <%d x i32> %s, i32 %d\n", now.s, cg_product_of(c)->w, v.s, first);
	else {
		const int w = cg_product_of(c)->w;
		rt_putf(c->out, "  %s = shufflevector <%d x i32> %s, <%d x i32> poison, <%d x i32> <", now.s, w, v.s, w, columns);
		for (int i = 0; i < columns; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", first + i);
		rt_puts(c->out, ">\n");
	}
	if (!cg_product_of(c)->one_chunk)
		now = cg_choose(c, cg_fmt("%%first"), cg_type(TJ_I32, columns).s, now, cg_sum(c, TJ_I32, columns, cg_read(c, TJ_I32, columns, to), now));
	cg_write(c, TJ_I32, columns, now, to);
}

/* Adds the steps of r from k on, a vector of each row and column, to the sums. */
static void add_vectors(cg *c, int rows, int columns, cg_str k, const cg_str *mask, const cg_str *sum, cg_str *next)
{
	cg_str y[COLUMNS], x = word_at(c, cg_fmt("%%x"), k), base = cg_elem(c, TJ_I8, cg_fmt("%%y"), k);
	for (int j = 0; j < columns; j++) y[j] = read_words(c, cg_elem(c, TJ_I8, base, cg_op(c, "mul", cg_fmt("%%step"), cg_int(j))), mask, true);
	for (int i = 0; i < rows; i++) {
		cg_str a = cg_read(c, TJ_I32, cg_product_of(c)->w, cg_elem(c, TJ_I32, x, cg_int(i * row_words(c->how))));
		for (int j = 0; j < columns; j++) next[i * columns + j] = cg_multiply_words(c, y[j], a, sum[i * columns + j]);
	}
}

cg_str cg_put_byte_tile(cg *c, int columns, bool ask)
{
	const cg_product *p = cg_product_of(c);
	const int rows = (int)c->s->rows;
	walk x = { .n = rows * columns };
	cg_str sum[MOST_SUMS + CG_MOST_LANES];
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %x, ptr %y, i64 %step, i64 %nk, ptr %sums, i64 %pitch, i1 %first");
	cg_begin_own(c, &parameters);
	cg_str whole = cg_op(c, "and", cg_fmt("%%nk"), cg_int(-vector_steps(p)));
	for (int i = 0; i < x.n; i++)
		x.sum[i] = cg_read(c, TJ_I32, p->w, cg_elem(c, TJ_I32, cg_fmt("%%x"), cg_int(i / columns * row_words(c->how))));
	cg_str beyond = cg_elem(c, TJ_I8, cg_fmt("%%y"), cg_op(c, "mul", cg_fmt("%%step"), cg_int(columns)));
	open_walk(c, &x, whole, vector_steps(p));
	for (int j = 0; ask && j < columns; j++)
		cg_prefetch(c, cg_elem(c, TJ_I8, cg_elem(c, TJ_I8, beyond, x.k.i), cg_op(c, "mul", cg_fmt("%%step"), cg_int(j))), 0);
	add_vectors(c, rows, columns, x.k.i, NULL, x.sum, sum);
	close_walk(c, &x, sum);
	if (!lo_is_sym(c->k->red) && c->k->red % vector_steps(p) == 0) memcpy(sum, x.sum, sizeof x.sum);
	else {
		cg_str mask = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%nk"), whole), vector_steps(p));
		add_vectors(c, rows, columns, whole, &mask, x.sum, sum);
	}
	for (int i = x.n; i % p->w; i++) sum[i] = cg_fmt("zeroinitializer");
	for (int i = 0; i < x.n; i += p->w) {
		cg_str all = add_lanes(c, sum + i);
		for (int l = 0; l < p->w && i + l < x.n; l += columns) store_lanes(c, all, l, columns, (i + l) / columns);
	}
	return cg_end_own(c);
}

/* ---- strips ---- */
/* Elements of two vectors of words in turn, from the lower or the upper half of each block. */
static cg_str interleave(cg *c, int bits, cg_str a, cg_str b, int upper)
{
	const int n = 32 * cg_product_of(c)->w / bits, block = 32 * BLOCK / bits;
	cg_str r = cg_tmp(c), words = cg_type(TJ_I32, cg_product_of(c)->w);
	rt_putf(c->out, "  %s.a = bitcast %s %s to <%d x i%d>\n  %s.b = bitcast %s %s to <%d x i%d>\n", r.s, words.s, a.s, n, bits, r.s,
	        words.s, b.s, n, bits);
	rt_putf(c->out, "  %s.m = shufflevector <%d x i%d> %s.a, <%d x i%d> %s.b, <%d x i32> <", r.s, n, bits, r.s, n, bits, r.s, n);
	for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", i % 2 * n + i / block * block + upper * block / 2 + i % block / 2);
	rt_putf(c->out, ">\n  %s = bitcast <%d x i%d> %s.m to %s\n", r.s, n, bits, r.s, words.s);
	return r;
}

/* Adds a word of r, for a vector of bytes of each row: sum v has the columns BLOCK * v .. of each block of BLOCK * steps columns. */
static void add_word(cg *c, cg_str word, const cg_str *row, cg_str *sum)
{
	const int steps = cg_product_of(c)->steps;
	cg_str y[4];
	for (int v = 0; v < steps; v++) {
		cg_str a = row[0], b = row[1];
		if (steps == 4) a = interleave(c, 8, row[0], row[1], v / 2), b = interleave(c, 8, row[2], row[3], v / 2);
		y[v] = interleave(c, 16, a, b, v % 2);
	}
	for (int v = 0; v < steps; v++) sum[v] = cg_multiply_words(c, y[v], word, sum[v]);
}

/* Adds `words` words to the sums of the columns from j on. mask: the columns that there are; NULL: all. */
static void strip_vectors(cg *c, int words, const cg_str *word, const cg_str *row, cg_str j, const cg_str *mask)
{
	const cg_product *p = cg_product_of(c);
	cg_str sum[4], y[4];
	for (int v = 0; v < p->steps; v++)
		sum[v] = cg_read(c, TJ_I32, p->w, cg_elem(c, TJ_I32, cg_fmt("%%sums"), cg_op(c, "add", j, cg_int((int64_t)v * p->w))));
	for (int i = 0; i < words; i++) {
		for (int s = 0; s < p->steps; s++) y[s] = read_words(c, cg_elem(c, TJ_I8, row[i * p->steps + s], j), mask, true);
		add_word(c, word[i], y, sum);
	}
	for (int v = 0; v < p->steps; v++)
		cg_write(c, TJ_I32, p->w, sum[v], cg_elem(c, TJ_I32, cg_fmt("%%sums"), cg_op(c, "add", j, cg_int((int64_t)v * p->w))));
}

/* Adds the steps [from, to) of r, `words` words at a time. Rows from nk on are the last one: their words have zeros there. */
static void strip_words(cg *c, int words, cg_str from, cg_str to)
{
	const cg_product *p = cg_product_of(c);
	cg_str word[STRIP_WORDS], row[4 * STRIP_WORDS], last = cg_op(c, "sub", cg_fmt("%%nk"), cg_int(1));
	cg_str whole = cg_op(c, "and", cg_fmt("%%n"), cg_int(-vector_steps(p))), left = cg_op(c, "sub", cg_fmt("%%n"), whole);
	cg_loop k = cg_open(c, "k", from, to, cg_int(words * p->steps), true);
	for (int i = 0; i < words; i++)
		word[i] = cg_splat(c, "i32", cg_read(c, TJ_I32, 1, cg_elem(c, TJ_I32, word_at(c, cg_fmt("%%x"), k.i), cg_int(i))), p->w);
	for (int s = 0; s < words * p->steps; s++) {
		cg_str step = cg_op(c, "add", k.i, cg_int(s));
		row[s] = cg_elem(c, TJ_I8, cg_fmt("%%y"), cg_op(c, "mul", words > 1 ? step : cg_least(c, step, last), cg_fmt("%%sy")));
	}
	cg_loop j = cg_open(c, "j", cg_int(0), whole, cg_int(vector_steps(p)), true);
	strip_vectors(c, words, word, row, j.i, NULL);
	cg_close(c, &j);
	const unsigned id = ++c->tmp;
	rt_putf(c->out, "  br i1 %s, label %%left%u, label %%over%u\n", cg_cmp(c, "sgt", left, cg_int(0)).s, id, id);
	cg_label(c, cg_fmt("left%u", id));
	cg_str mask = cg_first_lanes(c, left, vector_steps(p));
	strip_vectors(c, words, word, row, whole, &mask);
	cg_jump(c, cg_fmt("over%u", id));
	cg_close(c, &k);
}

cg_str cg_put_byte_strip(cg *c)
{
	const cg_product *p = cg_product_of(c);
	const cg_str type = cg_type(TJ_I32, p->w);
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %x, ptr %y, i64 %sy, i64 %nk, ptr %sums, i64 %n, i1 %first");
	cg_begin_own(c, &parameters);
	const cg_str head = cg_tmp(c);
	rt_putf(c->out, "  %s = call i32 @llvm.vector.reduce.add.%s(%s %s)\n", head.s, cg_mangle(TJ_I32, p->w).s, type.s,
	        cg_read(c, TJ_I32, p->w, cg_fmt("%%x")).s);
	const cg_str begin = cg_splat(c, "i32", head, p->w), whole = cg_op(c, "and", cg_fmt("%%nk"), cg_int(-STRIP_WORDS * p->steps));
	cg_loop j = cg_open(c, "j", cg_int(0),
	                    cg_op(c, "and", cg_op(c, "add", cg_fmt("%%n"), cg_int(vector_steps(p) - 1)), cg_int(-vector_steps(p))),
	                    cg_int(p->w), false);
	cg_str to = cg_elem(c, TJ_I32, cg_fmt("%%sums"), j.i);
	cg_write(c, TJ_I32, p->w,
	         cg_choose(c, cg_fmt("%%first"), type.s, begin, cg_sum(c, TJ_I32, p->w, cg_read(c, TJ_I32, p->w, to), begin)), to);
	cg_close(c, &j);
	strip_words(c, STRIP_WORDS, cg_int(0), whole);
	strip_words(c, 1, whole, cg_fmt("%%nk"));
	return cg_end_own(c);
}

cg_str cg_put_byte_order(cg *c)
{
	const cg_product *p = cg_product_of(c);
	const int n = vector_steps(p) / BLOCK;
	cg_str block[CG_MOST_LANES];
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %sums, i64 %n");
	cg_begin_own(c, &parameters);
	cg_loop j = cg_open(c, "j", cg_int(0), cg_fmt("%%n"), cg_int(vector_steps(p)), false);
	cg_str at = cg_elem(c, TJ_I32, cg_fmt("%%sums"), j.i);
	for (int i = 0; i < n; i++)
		block[i] = cg_read(c, TJ_I32, BLOCK, cg_elem(c, TJ_I32, at, cg_int((int64_t)(i % p->steps * p->w + i / p->steps * BLOCK))));
	for (int i = 0; i < n; i++) cg_write(c, TJ_I32, BLOCK, block[i], cg_elem(c, TJ_I32, at, cg_int((int64_t)i * BLOCK)));
	cg_close(c, &j);
	return cg_end_own(c);
}
