/* SPDX-License-Identifier: MIT */
/* across: tiles of few rows against columns whose steps of r are adjacent in memory (B stored [n,k]).
 *
 * Lanes must be columns, because each sum is a chain along r. For few rows it takes longer to store transposed columns than to multiply
 * them, so a tile transposes them in registers, w columns x w steps at a time, and multiplies each vector at once:
 *
 *   column 0   r r r r        step 0   c c c c
 *   column 1   r r r r   =>   step 1   c c c c        sum of row i += x[i][step] * c c c c
 *
 * All of r is walked before the next panel, because memory is read fastest so: chunk by chunk, with 1 KiB of each column at a time,
 * 1 x 4096 x 4096 takes 1.5 times as long. From memory a panel has 16 columns, as many as the processor follows as streams. From the caches
 * it has more where rows are few, because the chain of multiply-adds of one vector takes at least twice as long as its shuffles.
 *
 * A last panel that lacks columns begins further left; the sums of its first columns are then not stored. If all columns are fewer than a
 * panel has, the last one stands for those that are absent. */
#include "codegen_llvm/product.h"

enum { MOST_COLUMNS = 4 * CG_MULTIPLES };

typedef struct tile {
	int rows, vecs, sums;   /* sums: vectors of them */
	int steps;              /* of r in a square of the main loop: as many as columns, or half as many */
	int squares;            /* of each vector of columns in a step of the main loop */
	int64_t x_row, x_step;  /* elements from row to row, and from r to r */
	tj_dtype from;          /* of the columns in memory */
	cg_str base[MOST_COLUMNS / CG_MULTIPLES], stride[CG_STRIDES];
	cg_str stored[CG_MOST_VECS]; /* masks of the lanes that are stored */
} tile;

/* LLVM would find all addresses to be multiples of one number, and keep each of them in a register, of which there are too few. */
static void hide_strides(cg *c, tile *t)
{
	for (int i = 0; i < CG_STRIDES; i++) t->stride[i] = cg_hide(c, t->stride[i]);
}

/* The column that stands in a lane of the panel. */
static int column_of(const cg *c, int lane) { return lane < cg_product_of(c)->lanes ? lane : cg_product_of(c)->lanes - 1; }

/* The addresses of the columns in n lanes from `first` on, at step k. */
static void addresses(cg *c, const tile *t, int first, int n, cg_str k, cg_str *at)
{
	cg_str base;
	for (int i = 0, before = -1; i < n; i++) {
		const int column = column_of(c, first + i), group = column / CG_MULTIPLES;
		if (group != before) base = cg_elem(c, t->from, t->base[group], k);
		at[i] = cg_multiple(c, base, t->stride, column % CG_MULTIPLES);
		before = group;
	}
}

/* Vector number v of columns, w steps from k + more on: step[i] is what lies at step i. mask: the steps that there are; NULL: all. */
static void square(cg *c, tile *t, int v, cg_str k, int more, const cg_str *mask, cg_str *step)
{
	const int w = cg_product_of(c)->w;
	cg_str at[MOST_COLUMNS];
	hide_strides(c, t); /* again for each square: LLVM does not move loads across, so few registers hold loaded vectors */
	addresses(c, t, v * w, w, k, at);
	for (int i = 0; i < w; i++)
		step[i] = cg_columns(c, cg_elem(c, t->from, at[i], cg_int(more)),
		                     (cg_at){ .along_r = true,
		                              .item = cg_int(column_of(c, v * w + i)),
		                              .k = more ? cg_op(c, "add", k, cg_int(more)) : k,
		                              .mask = mask });
	cg_turn_square(c, cg_product_of(c)->t, w, step);
}

/* A vector of the n elements at each of two addresses. */
static cg_str join(cg *c, tj_dtype t, int n, cg_str low, cg_str high)
{
	const cg_str r = cg_tmp(c), half = cg_type(t, n), a = cg_read(c, t, n, low), b = cg_read(c, t, n, high);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> ", r.s, half.s, a.s, half.s, b.s, 2 * n);
	cg_iota(c->out, "i32", 1, 2 * n);
	rt_puts(c->out, "\n");
	return r;
}

/* As square(), with half as many steps as columns, for floats and 256 bits. Columns join as they are loaded, which takes no shuffle, and
 * half as many vectors need registers:
 *
 *   columns 0, 4    r r r r | r r r r       step 0    c c c c | c c c c
 *   columns 1, 5    r r r r | r r r r   =>  step 1    c c c c | c c c c */
static void half_square(cg *c, tile *t, int v, cg_str k, int more, cg_str *step)
{
	const int n = t->steps;
	cg_str at[MOST_COLUMNS];
	hide_strides(c, t);
	addresses(c, t, v * 2 * n, 2 * n, k, at);
	for (int i = 0; i < n; i++)
		step[i] = join(c, t->from, n, cg_elem(c, t->from, at[i], cg_int(more)), cg_elem(c, t->from, at[n + i], cg_int(more)));
	cg_turn_groups(c, t->from, 2 * n, n, step);
}

/* Adds step k + more of r, with the columns y, to the sums of vector number v of columns. */
static void multiply(cg *c, const tile *t, int v, cg_str k, int more, cg_str y, cg_str *sum)
{
	const cg_product *p = cg_product_of(c);
	cg_str x = cg_elem(c, p->t, cg_fmt("%%x"), cg_op(c, "mul", k, cg_int(t->x_step)));
	for (int i = 0; i < t->rows; i++) {
		cg_str a = cg_read(c, p->t, 1, cg_elem(c, p->t, x, cg_int(more * t->x_step + i * t->x_row)));
		sum[i * t->vecs + v] = cg_multiply_add(c, p->t, p->w, cg_splat(c, cg_type(p->t, 1).s, a, p->w), y, sum[i * t->vecs + v]);
	}
}

/* Phis of all sums at the head of a loop. */
static void join_sums(cg *c, const tile *t, rt_text *to, const char *name, const cg_str *from, cg_str from_label, const cg_str *next,
                      cg_str next_label)
{
	for (int i = 0; i < t->sums; i++)
		rt_putf(to, "  %%%s%d = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", name, i, cg_type(cg_product_of(c)->t, cg_product_of(c)->w).s, from[i].s,
		        from_label.s, next[i].s, next_label.s);
}

static void name_sums(const tile *t, const char *name, cg_str *sum)
{
	for (int i = 0; i < t->sums; i++) sum[i] = cg_fmt("%%%s%d", name, i);
}

/* Prefetches the columns of the next panel, a line for each that is read: both are read from end to end. */
static void ask_panel(cg *c, const tile *t, cg_str k)
{
	const cg_product *p = cg_product_of(c);
	cg_str next = cg_elem(c, t->from, cg_fmt("%%next"), cg_op(c, "mul", k, cg_int(p->width)));
	for (int b = 0; b < p->width * t->steps * t->squares * (int)tj_dtype_size(t->from); b += RT_LINE) cg_prefetch(c, next, b);
}

/* The main loop: whole squares of steps [from, to), which may be none. Text continues at %rest, with the sums %r0 .. */
static void put_squares(cg *c, tile *t, cg_str from, cg_str to)
{
	const cg_product *p = cg_product_of(c);
	cg_str sum[LO_TILE_ROWS * CG_MOST_VECS], zero[LO_TILE_ROWS * CG_MOST_VECS], first[CG_STRIDES], step[CG_MOST_LANES];
	const cg_str before = c->block_label, some = cg_cmp(c, "slt", from, to), k = cg_fmt("%%k");
	rt_text body = { 0 }, *text = c->out;
	for (int i = 0; i < t->sums; i++) zero[i] = cg_fmt("zeroinitializer");
	name_sums(t, "s", sum);
	rt_putf(text, "  br i1 %s, label %%squares, label %%rest\nsquares:\n", some.s);
	rt_putf(text, "  %%k = phi i64 [ %s, %%%s ], [ %%k.next, %%squares ]\n", from.s, before.s);
	memcpy(first, t->stride, sizeof first);
	for (int i = 0; i < CG_STRIDES; i++) t->stride[i] = cg_fmt("%%stride%d", i);
	c->out = &body;
	if (cg_product_of(c)->asks_columns) ask_panel(c, t, k);
	for (int q = 0; q < t->squares; q++)
		for (int v = 0; v < t->vecs; v++) {
			if (t->steps < p->w) half_square(c, t, v, k, q * t->steps, step);
			else square(c, t, v, k, q * t->steps, NULL, step);
			for (int i = 0; i < t->steps; i++) multiply(c, t, v, k, q * t->steps + i, step[i], sum);
		}
	c->out = text;
	for (int i = 0; i < CG_STRIDES; i++)
		rt_putf(text, "  %%stride%d = phi i64 [ %s, %%%s ], [ %s, %%squares ]\n", i, first[i].s, before.s, t->stride[i].s);
	join_sums(c, t, text, "s", zero, before, sum, cg_fmt("squares"));
	rt_puts(text, rt_str(&body));
	c->oom |= body.oom;
	rt_text_free(&body);
	memcpy(t->stride, first, sizeof first);
	rt_putf(text,
	        "  %%k.next = add i64 %%k, %d\n  %%more = icmp slt i64 %%k.next, %s\n  br i1 %%more, label %%squares, label %%rest\nrest:\n",
	        t->squares * t->steps, to.s);
	join_sums(c, t, text, "r", zero, before, sum, cg_fmt("squares"));
	c->block_label = cg_fmt("rest");
}

/* The steps [from, to) that are left, one by one: a step that is absent must not be added, since -0.0 + 0.0 * 0.0 is 0.0. */
static void put_rest(cg *c, tile *t, cg_str from, cg_str to)
{
	const cg_product *p = cg_product_of(c);
	const cg_str k = cg_fmt("%%left.k"), i = cg_fmt("%%single.i");
	cg_str sum[LO_TILE_ROWS * CG_MOST_VECS], next[LO_TILE_ROWS * CG_MOST_VECS], step[CG_MOST_LANES];
	name_sums(t, "r", sum);
	name_sums(t, "d", next);
	rt_putf(c->out, "  br label %%left\nleft:\n  %s = phi i64 [ %s, %%rest ], [ %s.next, %%left.next ]\n", k.s, from.s, k.s);
	join_sums(c, t, c->out, "l", sum, cg_fmt("rest"), next, cg_fmt("left.next"));
	const cg_str there = cg_op(c, "sub", to, k), mask = cg_first_lanes(c, there, p->w);
	rt_putf(c->out, "  br i1 %s, label %%part, label %%over\npart:\n", cg_cmp(c, "sgt", there, cg_int(0)).s);
	for (int v = 0; v < t->vecs; v++) {
		square(c, t, v, k, 0, &mask, step);
		for (int s = 0; s < p->w; s++)
			cg_write(c, p->t, p->w, step[s], cg_elem(c, p->t, cg_fmt("%%steps"), cg_int((int64_t)(s * t->vecs + v) * p->w)));
	}
	const cg_str n = cg_least(c, there, cg_int(p->w));
	name_sums(t, "l", sum);
	rt_putf(c->out, "  br label %%single\nsingle:\n  %s = phi i64 [ 0, %%part ], [ %s.next, %%single ]\n", i.s, i.s);
	join_sums(c, t, c->out, "e", sum, cg_fmt("part"), next, cg_fmt("single"));
	name_sums(t, "e", sum);
	for (int v = 0; v < t->vecs; v++) {
		cg_str at = cg_elem(c, p->t, cg_fmt("%%steps"),
		                    cg_op(c, "mul", cg_op(c, "add", cg_op(c, "mul", i, cg_int(t->vecs)), cg_int(v)), cg_int(p->w)));
		multiply(c, t, v, cg_op(c, "add", k, i), 0, cg_read(c, p->t, p->w, at), sum);
	}
	for (int s = 0; s < t->sums; s++)
		rt_putf(c->out, "  %s = bitcast %s %s to %s\n", next[s].s, cg_type(p->t, p->w).s, sum[s].s, cg_type(p->t, p->w).s);
	rt_putf(c->out,
	        "  %s.next = add i64 %s, 1\n  %s.more = icmp slt i64 %s.next, %s\n  br i1 %s.more, label %%single, label %%left.next\n",
	        i.s, i.s, i.s, i.s, n.s, i.s);
	rt_putf(c->out, "left.next:\n  %s.next = add i64 %s, %d\n  br label %%left\nover:\n", k.s, k.s, p->w);
	c->block_label = cg_fmt("over");
}

/* The sums of the chunk are those of the tile, or are added to them. */
static void put_sums(cg *c, const tile *t, const cg_str *sum, cg_str first)
{
	const cg_product *p = cg_product_of(c);
	cg_str type = cg_type(p->t, p->w);
	for (int i = 0; i < t->rows; i++) {
		cg_str to = cg_elem(c, p->t, cg_fmt("%%sums"), cg_op(c, "mul", cg_fmt("%%pitch"), cg_int(i)));
		for (int v = 0; v < t->vecs; v++) {
			cg_str q = cg_elem(c, p->t, to, cg_int((int64_t)v * p->w)), now = sum[i * t->vecs + v];
			const cg_str *mask = p->ragged || p->lanes < p->width ? &t->stored[v] : NULL;
			if (!p->one_chunk) {
				cg_str old = mask ? cg_read_some(c, p->t, p->w, q, *mask) : cg_read(c, p->t, p->w, q);
				now = cg_choose(c, first, type.s, now, cg_sum(c, p->t, p->w, old, now));
			}
			if (mask) cg_write_some(c, p->t, p->w, now, q, *mask);
			else cg_write(c, p->t, p->w, now, q);
		}
	}
}

/* What does not change: the addresses of columns at step 0, their distance, masks. */
static void put_entry(cg *c, tile *t, bool even)
{
	const cg_product *p = cg_product_of(c);
	const cg_str bytes = cg_op(c, "mul", cg_fmt("%%step"), cg_int((int64_t)tj_dtype_size(t->from)));
	cg_strides(c, bytes, t->stride);
	for (int i = 0; i * CG_MULTIPLES < p->width; i++)
		t->base[i] = i ? cg_elem(c, TJ_I8, cg_fmt("%%y"), cg_op(c, "mul", bytes, cg_int(CG_MULTIPLES * i))) : cg_fmt("%%y");
	rt_putf(c->out, "  %%next = getelementptr i8, ptr %%y, i64 %s\n", cg_op(c, "mul", bytes, cg_int(p->width)).s);
	for (int v = 0; v < t->vecs && p->lanes < p->width; v++) t->stored[v] = cg_first_lanes(c, cg_int(p->lanes - v * p->w), p->w);
	for (int v = 0; v < t->vecs && p->ragged; v++) {
		cg_str not = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%skip"), cg_int((int64_t)v * p->w)), p->w);
		t->stored[v] = cg_tmp(c);
		rt_putf(c->out, "  %s = xor <%d x i1> %s, splat (i1 true)\n", t->stored[v].s, p->w, not.s);
	}
	if (!even) rt_putf(c->out, "  %%steps = alloca [%d x %s], align %d\n", p->w * t->vecs, cg_type(p->t, p->w).s, RT_LINE);
}

cg_str cg_put_across(cg *c, int rows)
{
	const cg_product *p = cg_product_of(c);
	tile t = { .rows = rows, .vecs = p->vecs, .sums = rows * p->vecs, .from = cg_item_dtype(c->how, 1), .x_row = 1, .x_step = p->most };
	const int bytes = p->w * (int)tj_dtype_size(t.from);
	t.steps = p->w == 8 && p->t == TJ_F32 && !cg_computes(c->how, 1) ? 4 : p->w;
	t.squares = bytes < RT_LINE && t.steps == p->w
	                    ? 2
	                    : 1; /* they fill a cache line, but for half squares: one is as fast, and more take long to compile */
	if (p->rows_in_place) t.x_row = 0, t.x_step = cg_r_step(c->how, 0); /* one row */
	const int steps = t.squares * t.steps;
	const bool even = c->k->red % steps == 0;
	cg_str sum[LO_TILE_ROWS * CG_MOST_VECS];
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %x, ptr %y, i64 %step, i64 %nk, ptr %sums, i64 %pitch, i64 %skip");
	cg_put_parameters(c, 1, &parameters);
	cg_begin_own(c, &parameters);
	put_entry(c, &t, even);
	cg_loop chunk = cg_open(c, "chunk", cg_int(0), cg_fmt("%%nk"), cg_int(IR_CHAIN), false);
	cg_str stop = cg_least(c, cg_op(c, "add", chunk.i, cg_int(IR_CHAIN)), cg_fmt("%%nk"));
	cg_str whole = even ? stop : cg_op(c, "add", chunk.i, cg_op(c, "and", cg_op(c, "sub", stop, chunk.i), cg_int(-steps)));
	cg_str first = cg_cmp(c, "eq", chunk.i, cg_int(0));
	put_squares(c, &t, chunk.i, whole);
	if (!even) put_rest(c, &t, whole, stop);
	name_sums(&t, even ? "r" : "l", sum);
	put_sums(c, &t, sum, first);
	cg_close(c, &chunk);
	return cg_end_own(c);
}
