/* SPDX-License-Identifier: MIT */
/* sums: the functions that compute sums of a product: a tile, whose sums are in registers, and a strip, whose sums are in a near cache. */
#include "codegen_llvm/product.h"

enum {
	MOST_STEPS = 16,              /* strips: of r */
	AHEAD = 256,                  /* strips: elements; distance of prefetches */
	MOST_ROWS = 2 * LO_TILE_ROWS, /* of a tile of one vector of columns */
	NEAR = 48,
	NEAR_STORED = 96,
	NEAR_VECS =
		3 /* tiles: steps of r; distance of prefetches. Wider tiles read long pieces, which a processor fetches ahead by itself */
};

static bool from_memory(const cg *c)
{
	const int64_t row = cg_r_step(c->how, 1);
	return !lo_is_sym(row) && !lo_is_sym(c->k->red) && row * c->k->red * (int64_t)tj_dtype_size(cg_item_dtype(c->how, 1)) > RT_THIRD_CACHE;
}

/* The address of column number `column` of a tile, at the current r. */
static cg_str column_at(cg *c, int column)
{
	const cg_product *p = cg_product_of(c);
	if (!p->x.panels) return cg_elem(c, p->yt, cg_fmt("%%ya"), cg_int(column));
	cg_str panel = column < p->panel ? cg_fmt("%%ya")
	                                 : cg_elem(c, p->yt, cg_fmt("%%ya"), cg_op(c, "mul", cg_fmt("%%step"), cg_int(column / p->panel)));
	return cg_elem(c, p->yt, panel, cg_int(column % p->panel));
}

static cg_str multiply(cg *c, cg_str x, cg_str y, cg_str sum)
{
	const cg_product *p = cg_product_of(c);
	if (p->pairs) return cg_multiply_pairs(c, x, y, sum);
	return p->steps > 1 ? cg_multiply_words(c, y, x, sum) : cg_multiply_add(c, p->t, p->w, x, y, sum);
}

bool cg_row_is_argument(const cg_product *p) { return p->rows_in_place && !p->pairs; }

/* The addresses of rows at this step of r. */
static void put_row_addresses(cg *c, int rows, const cg_str *stride, cg_str *x)
{
	const cg_product *p = cg_product_of(c);
	cg_str base = cg_fmt("%%xa");
	if (cg_row_is_argument(p)) rt_putf(c->out, "  %s = call ptr asm sideeffect \"\", \"=r,0\"(ptr %%xa)\n", (base = cg_tmp(c)).s);
	for (int i = 0; i < rows; i++) {
		if (!cg_row_is_argument(p)) {
			x[i] = cg_elem(c, p->t, base, cg_int(p->rows_apart ? i * LO_ROW_ROOM : i));
			continue;
		}
		if (i && i % CG_MULTIPLES == 0) base = cg_elem(c, TJ_I8, base, cg_op(c, "shl", stride[0], cg_int(3)));
		x[i] = cg_multiple(c, base, stride, i % CG_MULTIPLES);
	}
}

/* Sums of a later chunk are added to those of the tile, which may lie elsewhere (%before). The first chunk's are added to -0.0, which
 * changes none of them: a choice for each vector would take LLVM several times as long. */
static void open_sums(cg *c, int vecs)
{
	const cg_product *p = cg_product_of(c);
	if (p->one_chunk) return;
	rt_putf(c->out, "  %%none = alloca [%d x %s], align %d\n", vecs * p->w, cg_type(p->t, 1).s, RT_LINE);
	for (int v = 0; v < vecs; v++)
		cg_write(c, p->t, p->w, cg_literal(p->t, lo_identity(LO_RED_ADD, p->t), p->w),
		         cg_elem(c, p->t, cg_fmt("%%none"), cg_int((int64_t)v * p->w)));
	const char *const before = p->late ? "%before" : "%sums", *const pitch = p->late ? "%before.pitch" : "%pitch";
	rt_putf(c->out, "  %%old = select i1 %%first, ptr %%none, ptr %s\n  %%old.pitch = select i1 %%first, i64 0, i64 %s\n", before, pitch);
}

/* Stores the first n lanes, in pieces of 1, 2, 4 and so on. */
static void write_first(cg *c, int n, cg_str v, cg_str to)
{
	const cg_product *p = cg_product_of(c);
	for (int done = 0, size = p->w; done < n; size /= 2) {
		if (size > n - done) continue;
		const cg_str part = cg_tmp(c), type = cg_type(p->t, p->w);
		if (size == 1) rt_putf(c->out, "  %s = extractelement %s %s, i32 %d\n", part.s, type.s, v.s, done);
		else {
			rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", part.s, type.s, v.s, type.s, size);
			for (int i = 0; i < size; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", done + i);
			rt_puts(c->out, ">\n");
		}
		cg_write(c, p->t, size, part, cg_elem(c, p->t, to, cg_int(done)));
		done += size;
	}
}

/* The sums %e0 .. of the chunk. mask: the columns that there are, by vector; NULL: all, or `columns` of them. */
static void put_sums(cg *c, int rows, int vecs, const cg_str *mask, int columns)
{
	const cg_product *p = cg_product_of(c);
	for (int i = 0; i < rows; i++)
		for (int v = 0; v < vecs; v++) {
			const cg_str column = cg_int((int64_t)v * p->w);
			const cg_str to = cg_elem(c, p->t, cg_elem(c, p->t, cg_fmt("%%sums"), cg_op(c, "mul", cg_fmt("%%pitch"), cg_int(i))), column);
			cg_str e = cg_fmt("%%e%d", i * vecs + v);
			if (!p->one_chunk) {
				const cg_str old = cg_elem(c, p->t, cg_elem(c, p->t, cg_fmt("%%old"), cg_op(c, "mul", cg_fmt("%%old.pitch"), cg_int(i))), column);
				e = cg_sum(c, p->t, p->w, mask ? cg_read_some(c, p->t, p->w, old, mask[v]) : cg_read(c, p->t, p->w, old), e);
			}
			if (mask) cg_write_some(c, p->t, p->w, e, to, mask[v]);
			else if (columns - v * p->w >= p->w) cg_write(c, p->t, p->w, e, to);
			else write_first(c, columns - v * p->w, e, to);
		}
}

/* ---- a tile ---- */
typedef struct tile {
	int rows, vecs;
	cg_tile how;
	cg_str sum[LO_TILE_ROWS * CG_MOST_VECS], next[LO_TILE_ROWS * CG_MOST_VECS]; /* before and after a step */
	cg_str mask[CG_MOST_VECS];     /* CG_EDGE_TILE, masked: the columns that there are */
	cg_str y[CG_MOST_VECS], lower[CG_MOST_VECS]; /* columns of the step; CG_APART_TILE: the first steps of their words, and the second ones */
} tile;

/* copies_rows: the vector of row r, from step k on, goes to its place among the packed rows. */
static void copy_vector(cg *c, cg_str r, cg_str k)
{
	const cg_product *p = cg_product_of(c);
	const cg_str from = cg_elem(c, p->t, cg_elem(c, p->t, cg_fmt("%%from"), cg_op(c, "mul", r, cg_fmt("%%row"))), k);
	cg_write(c, p->t, p->w, cg_read(c, p->t, p->w, from),
	         cg_elem(c, p->t, cg_elem(c, p->t, cg_fmt("%%x"), cg_op(c, "mul", r, cg_int(LO_ROW_ROOM))), k));
}

/* What follows, up to end_copy(), is done if the tile copies: %from, or %copy, is not NULL. */
static void begin_copy(cg *c, const char *pointer, const char *label)
{
	const cg_str some = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp ne ptr %s, null\n  br i1 %s, label %%%s, label %%%s.done\n", some.s, pointer, some.s, label, label);
	cg_label(c, cg_fmt("%s", label));
}

static void end_copy(cg *c, const char *label) { cg_jump(c, cg_fmt("%s.done", label)); }

static void copy_first(cg *c, int rows)
{
	begin_copy(c, "%from", "begin");
	for (int i = 0; i < rows; i++) copy_vector(c, cg_int(i), cg_int(0));
	end_copy(c, "begin");
}

/* While w steps are multiplied, the vectors of the next w steps are copied, one row or two at a step; and the same steps of the next tile's
 * rows are prefetched. So rows that come from memory are waited for while the tile multiplies. */
static void copy_next(cg *c, int rows)
{
	const cg_product *p = cg_product_of(c);
	begin_copy(c, "%from", "next");
	const cg_str within = cg_op(c, "and", cg_fmt("%%k"), cg_int(p->w - 1)), here = cg_op(c, "sub", cg_fmt("%%k"), within);
	const cg_str next = cg_least(c, cg_op(c, "add", here, cg_int(p->w)), cg_op(c, "sub", cg_fmt("%%nk"), cg_int(p->w)));
	for (int i = 0; i < rows; i += p->w) {
		const cg_str r = cg_least(c, cg_op(c, "add", within, cg_int(i)), cg_int(rows - 1));
		copy_vector(c, r, next);
		cg_prefetch(c,
		            cg_elem(c, p->t,
		                    cg_elem(c, p->t, cg_fmt("%%from"), cg_op(c, "mul", cg_op(c, "add", r, cg_int(rows)), cg_fmt("%%row"))),
		                    here),
		            0);
	}
	end_copy(c, "next");
}

/* Columns that are not packed, two steps at a time. */
static bool reads_pairs(const cg_product *p) { return p->pairs && p->lone && !p->x.panels; }

static bool has_masks(const cg_product *p, cg_tile how) { return how == CG_EDGE_TILE && p->masked; }

static bool may_copy(const cg_product *p, cg_tile how) { return how == CG_COPY_TILE || p->one_tile; }

/* Columns that are packed, or that the first tile has copied. */
static bool reads_copy(const cg_product *p, cg_tile how)
{
	return how == CG_PLAIN_TILE && (p->copies ? !p->one_tile : !p->in_place);
}

static void copy_columns(cg *c, const tile *t)
{
	const cg_product *p = cg_product_of(c);
	if (p->one_tile) begin_copy(c, "%copy", "columns");
	const cg_str to = cg_elem(c, p->t, cg_fmt("%%copy"), cg_op(c, "mul", cg_fmt("%%k"), cg_int((int64_t)t->vecs * p->w)));
	for (int v = 0; v < t->vecs; v++) cg_write(c, p->t, p->w, t->y[v], cg_elem(c, p->t, to, cg_int((int64_t)v * p->w)));
	if (p->one_tile) end_copy(c, "columns");
}

static void put_columns(cg *c, tile *t)
{
	const cg_product *p = cg_product_of(c);
	const bool some = has_masks(p, t->how) && p->unpacked && !p->x.panels; /* else they are packed, with what is absent */
	if (reads_pairs(p)) cg_pair_columns(c, t->vecs, column_at, t->y);
	else
		for (int v = 0; v < t->vecs; v++)
			t->y[v] = cg_columns(
				c, column_at(c, v * p->w),
				(cg_at){ .item = cg_int((int64_t)v * p->w), .k = cg_fmt("%%k"), .mask = some ? &t->mask[v] : NULL });
	for (int b = 0; t->vecs <= NEAR_VECS && b < t->vecs * p->w; b += RT_LINE / (int)tj_dtype_size(p->x.panels ? p->t : p->yt))
		cg_prefetch(c, cg_elem(c, p->yt, column_at(c, b), cg_fmt("%%near")), 0);
	if (may_copy(p, t->how)) copy_columns(c, t);
	for (int v = 0; t->how == CG_APART_TILE && v < t->vecs; v++) {
		t->lower[v] = cg_half_of(c, t->y[v], false);
		t->y[v] = cg_half_of(c, t->y[v], true);
	}
}

static void put_multiplies(cg *c, tile *t, const cg_str *stride)
{
	const cg_product *p = cg_product_of(c);
	cg_str x[MOST_ROWS];
	put_row_addresses(c, t->rows, stride, x);
	for (int i = 0; i < t->rows; i++) {
		const cg_str one = p->pairs && p->rows_in_place ? cg_row_word(c, i) : cg_read(c, p->t, 1, x[i]),
			     all = cg_splat(c, cg_type(p->t, 1).s, one, p->w);
		const cg_str *sum = t->sum + i * t->vecs;
		cg_str *next = t->next + i * t->vecs;
		for (int v = 0; t->how != CG_APART_TILE && v < t->vecs; v++) next[v] = multiply(c, all, t->y[v], sum[v]);
		if (t->how != CG_APART_TILE) continue;
		const cg_str upper = cg_half_of(c, all, true), lower = cg_half_of(c, all, false);
		for (int v = 0; v < t->vecs; v++)
			next[v] =
				cg_multiply_add(c, p->t, p->w, lower, t->lower[v], cg_multiply_add(c, p->t, p->w, upper, t->y[v], sum[v]));
	}
}

/* Prefetches where the tile stores its sums, a row every few steps of r. There are often more rows in that time than the tile has: those of
 * the next tile. */
static void ask_sums(cg *c, int rows, int vecs)
{
	const cg_product *p = cg_product_of(c);
	const int size = (int)tj_dtype_size(p->t);
	int steps = 0; /* for a row: 1 << steps */
	while (rows << (steps + 1) <= p->chunk / p->steps) steps++;
	const cg_str row = cg_op(c, "mul", cg_fmt("%%pitch"), cg_op(c, "lshr", cg_fmt("%%k"), cg_int(steps))),
		     to = cg_elem(c, p->t, cg_fmt("%%sums"), row);
	for (int b = 0; b < vecs * p->w * size; b += RT_LINE) cg_prefetch_near(c, to, b);
}

/* From what the sums of each row begin. */
static void put_begin(cg *c, int rows, cg_str words, cg_str *from)
{
	const cg_product *p = cg_product_of(c);
	for (int i = 0; i < rows; i++) from[i] = cg_fmt("zeroinitializer");
	if (p->steps != 4) return; /* else words.c */
	const cg_str behind = cg_elem(c, p->t, cg_fmt("%%x"), cg_op(c, "mul", words, cg_int(p->rows_apart ? 1 : p->most)));
	for (int i = 0; i < rows; i++)
		from[i] = cg_splat(c, "i32", cg_read(c, p->t, 1, cg_elem(c, p->t, behind, cg_int(p->rows_apart ? i * LO_ROW_ROOM : i))),
		                   p->w);
}

/* The loop over words of r, and the sums %e0 .. that it leaves. to_next: elements from word to word of the columns. */
static void put_steps(cg *c, tile *t, cg_str words, cg_str to_next, const cg_str *stride, const cg_str *from)
{
	const cg_product *p = cg_product_of(c);
	const int n = t->rows * t->vecs;
	const cg_str type = cg_type(p->t, p->w), one = cg_type(p->t, 1);
	const int64_t step = p->rows_in_place ? cg_r_step(c->how, 0) : p->rows_apart ? 1 : p->most; /* a literal; of words, if rows are */
	rt_text body = { 0 }, *text = c->out;
	if (p->copies_rows) copy_first(c, t->rows);
	const cg_str before = c->block_label;
	rt_putf(text, "  %%any = icmp sgt i64 %s, 0\n  br i1 %%any, label %%loop, label %%out\nloop:\n", words.s);
	for (int i = 0; i < n; i++) t->sum[i] = cg_fmt("%%s%d", i);
	c->out = &body;
	cg_str latch = c->block_label = cg_fmt("loop");
	if (p->copies_rows) copy_next(c, t->rows);
	put_columns(c, t);
	if (p->asks_sums && t->how != CG_COPY_TILE && t->how != CG_WIDE_TILE) ask_sums(c, t->rows, t->vecs);
	put_multiplies(c, t, stride);
	latch = c->block_label;
	c->out = text;
	rt_putf(text, "  %%k = phi i64 [ 0, %%%s ], [ %%k.next, %%%s ]\n", before.s, latch.s);
	rt_putf(text, "  %%xa = phi ptr [ %%x, %%%s ], [ %%xb, %%%s ]\n  %%ya = phi ptr [ %%y, %%%s ], [ %%yb, %%%s ]\n", before.s, latch.s,
	        before.s, latch.s);
	for (int i = 0; i < n; i++)
		rt_putf(text, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", t->sum[i].s, type.s, from[i / t->vecs].s, before.s,
		        t->next[i].s, latch.s);
	rt_puts(text, rt_str(&body));
	c->oom |= body.oom;
	rt_text_free(&body);
	rt_putf(text, "  %%xb = getelementptr %s, ptr %%xa, i64 %s\n  %%yb = getelementptr %s, ptr %%ya, i64 %s\n", one.s, cg_int(step).s,
	        cg_mem_type(p->yt, 1).s, to_next.s);
	rt_putf(text,
	        "  %%k.next = add i64 %%k, 1\n  %%more = icmp slt i64 %%k.next, %s\n  br i1 %%more, label %%loop, label %%out\nout:\n",
	        words.s);
	for (int i = 0; i < n; i++)
		rt_putf(text, "  %%e%d = phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]\n", i, type.s, before.s, t->next[i].s, latch.s);
}

cg_str cg_put_tile(cg *c, int rows, int vecs, cg_tile how)
{
	const cg_product *p = cg_product_of(c);
	tile t = { .rows = rows, .vecs = vecs, .how = how };
	cg_str from[MOST_ROWS], stride[CG_STRIDES];
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %x, ptr %y, i64 %step, i64 %nk, ptr %sums, i64 %pitch, i1 %first");
	if (cg_row_is_argument(p)) rt_puts(&parameters, ", i64 %row");
	if (p->late) rt_puts(&parameters, ", ptr %before, i64 %before.pitch");
	if (p->copies_rows) rt_puts(&parameters, ", i64 %row, ptr %from");
	if (may_copy(p, how)) rt_puts(&parameters, ", ptr %copy");
	if (how == CG_COPY_TILE) cg_read_as_it_lies(c, true);
	if (!p->columns_computed) cg_put_parameters(c, 1, &parameters);
	if (has_masks(p, how)) rt_puts(&parameters, ", i64 %have");
	cg_begin_own(c, &parameters);
	for (int v = 0; v < vecs && has_masks(p, how); v++)
		t.mask[v] = cg_first_lanes(c, cg_op(c, "sub", cg_fmt("%%have"), cg_int((int64_t)v * p->w)), p->w);
	const cg_str words = cg_words(c, cg_fmt("%%nk")), each = p->x.panels          ? cg_int(p->panel)
	                                                         : reads_copy(p, how) ? cg_int(p->width)
	                                                                              : cg_fmt("%%step");
	const cg_str to_next = reads_pairs(p) ? cg_op(c, "shl", each, cg_int(1)) : each;
	if (reads_pairs(p)) cg_open_pairs(c, vecs);
	rt_putf(c->out, "  %%near = mul i64 %s, %d\n", to_next.s, p->x.panels ? NEAR_STORED : NEAR);
	open_sums(c, vecs);
	if (cg_row_is_argument(p)) cg_strides(c, cg_op(c, "mul", cg_fmt("%%row"), cg_int((int64_t)tj_dtype_size(p->t))), stride);
	put_begin(c, rows, words, from);
	put_steps(c, &t, words, to_next, stride, from);
	if (how == CG_COPY_TILE) cg_read_as_it_lies(c, false);
	put_sums(c, rows, vecs, has_masks(p, how) ? t.mask : NULL, how == CG_EDGE_TILE && p->rest ? p->rest : vecs * p->w);
	return cg_end_own(c);
}

/* ---- a strip ---- */
/* Lanes first, first + apart .. of two vectors. */
static cg_str lanes_of(cg *c, cg_str a, cg_str b, int first, int apart)
{
	const int n = cg_product_of(c)->w;
	const cg_str r = cg_tmp(c), type = cg_type(TJ_F32, n);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, a.s, type.s, b.s, n);
	for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", apart == 2 ? first + 2 * i : first + i / 2 + i % 2 * n);
	rt_puts(c->out, ">\n");
	return r;
}

/* Two vectors of sums from j on, over columns of bf16. Even columns are multiplied apart from odd ones: a shift or a mask makes f32 of
 * them, which takes fewer instructions than to widen each half of a register. Prefetches do not pay here. */
static void strip_pair(cg *c, int steps, const cg_str *x, const cg_str *row, cg_str j)
{
	const cg_product *p = cg_product_of(c);
	const cg_str type = cg_type(p->t, p->w), to[2] = { cg_elem(c, p->t, cg_fmt("%%sums"), j),
		                                           cg_elem(c, p->t, cg_fmt("%%sums"), cg_op(c, "add", j, cg_int(p->w))) };
	cg_str old[2], sum[2];
	for (int i = 0; i < 2; i++) old[i] = cg_choose(c, cg_fmt("%%first"), type.s, cg_fmt("zeroinitializer"), cg_read(c, p->t, p->w, to[i]));
	for (int i = 0; i < 2; i++) sum[i] = lanes_of(c, old[0], old[1], i, 2);
	for (int s = 0; s < steps; s++) {
		const cg_str words = cg_tmp(c);
		rt_putf(c->out, "  %s = load %s, ptr %s, align 2\n", words.s, type.s, cg_elem(c, TJ_BF16, row[s], j).s);
		for (int i = 0; i < 2; i++) sum[i] = cg_multiply_add(c, p->t, p->w, x[s], cg_half_of(c, words, i), sum[i]);
	}
	for (int i = 0; i < 2; i++) cg_write(c, p->t, p->w, lanes_of(c, sum[0], sum[1], i * p->w / 2, 1), to[i]);
}

/* The vectors of sums from j on, plus `steps` steps of r. mask: the columns that there are; NULL: all. */
static void strip_vector(cg *c, int steps, const cg_str *x, const cg_str *row, cg_str j, const cg_str *mask)
{
	const int rows = cg_strip_rows(c->how);
	cg_str to[LO_TILE_ROWS], sums[LO_TILE_ROWS];
	const cg_product *p = cg_product_of(c);
	const tj_dtype yt = cg_item_dtype(c->how, 1);
	cg_str next = mask ? j
	                   : cg_choose(c, cg_cmp(c, "slt", cg_op(c, "add", j, cg_int(AHEAD)), cg_fmt("%%n")), "i64", cg_int(AHEAD),
	                               cg_op(c, "add", cg_op(c, "sub", cg_op(c, "mul", cg_fmt("%%sy"), cg_int(steps)), cg_fmt("%%n")),
	                                     cg_int(AHEAD)));
	for (int i = 0; i < rows; i++) {
		to[i] = cg_elem(c, p->t, cg_fmt("%%sums"), cg_op(c, "add", j, cg_op(c, "mul", cg_fmt("%%pitch"), cg_int(i))));
		sums[i] = cg_choose(c, cg_fmt("%%first"), cg_type(p->t, p->w).s, cg_fmt("zeroinitializer"), cg_read(c, p->t, p->w, to[i]));
	}
	for (int s = 0; s < steps; s++) {
		const cg_str at = cg_elem(c, yt, row[s], j);
		if (!mask && from_memory(c)) cg_prefetch(c, cg_elem(c, yt, at, next), 0);
		const cg_str y = cg_columns(c, at, (cg_at){ .item = j, .k = cg_int(s), .mask = mask });
		for (int i = 0; i < rows; i++) sums[i] = cg_multiply_add(c, p->t, p->w, x[s * rows + i], y, sums[i]);
	}
	for (int i = 0; i < rows; i++) cg_write(c, p->t, p->w, sums[i], to[i]);
}

cg_str cg_put_strip(cg *c, int steps)
{
	const cg_product *p = cg_product_of(c);
	const tj_dtype from = cg_item_dtype(c->how, 0);
	const int rows = cg_strip_rows(c->how);
	cg_str x[MOST_STEPS * LO_TILE_ROWS], row[MOST_STEPS], some;
	rt_text parameters = { 0 };
	rt_puts(&parameters, "ptr %x, i64 %sx, ptr %y, i64 %sy, ptr %sums, i64 %n, i1 %first, i64 %pitch, i64 %row");
	for (int o = 0; o < 2; o++) cg_put_parameters(c, o, &parameters);
	cg_begin_own(c, &parameters);
	for (int s = 0; s < steps; s++) {
		for (int i = 0; i < rows; i++) {
			const cg_str place = cg_op(c, "add", cg_op(c, "mul", cg_fmt("%%sx"), cg_int(s)), cg_op(c, "mul", cg_fmt("%%row"), cg_int(i)));
			const cg_at at = { .lanes = 1,
				           .item = cg_int(i),
				           .k = cg_int(s),
				           .loaded = cg_read(c, from, 1, cg_elem(c, from, cg_fmt("%%x"), place)) };
			x[s * rows + i] = cg_splat(c, cg_type(p->t, 1).s, cg_computed(c, 0, &at), p->w);
		}
		row[s] = cg_elem(c, cg_item_dtype(c->how, 1), cg_fmt("%%y"), cg_op(c, "mul", cg_fmt("%%sy"), cg_int(s)));
	}
	some = cg_tmp(c);
	cg_str whole = cg_op(c, "and", cg_fmt("%%n"), cg_int(-p->w)), left = cg_op(c, "sub", cg_fmt("%%n"), whole);
	cg_str pairs = cg_int(0);
	if (lo_widens_bf16(c->k, p->x.value[1])) {
		pairs = cg_op(c, "and", cg_fmt("%%n"), cg_int(-2 * p->w));
		cg_loop j = cg_open(c, "j", cg_int(0), pairs, cg_int(2 * p->w), true);
		strip_pair(c, steps, x, row, j.i);
		cg_close(c, &j);
	}
	cg_loop j = cg_open(c, "j", pairs, whole, cg_int(p->w), true);
	strip_vector(c, steps, x, row, j.i, NULL);
	cg_close(c, &j);
	rt_putf(c->out, "  %s = icmp sgt i64 %s, 0\n  br i1 %s, label %%left, label %%over\n", some.s, left.s, some.s);
	cg_label(c, cg_fmt("left"));
	cg_str mask = cg_first_lanes(c, left, p->w);
	strip_vector(c, steps, x, row, whole, &mask);
	cg_jump(c, cg_fmt("over"));
	return cg_end_own(c);
}

