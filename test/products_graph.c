/* SPDX-License-Identifier: MIT */
/* products_graph: draws a case, makes its graph, makes cases simpler. */
#include "test/products.h"

#include <stdlib.h>

const char *const prod_kind_name[PROD_KINDS] = { "one product", "several of one operand", "products of products", "heads" };

#define SITE "products.c:1"

static int64_t between(gen *G, int64_t lo, int64_t hi) { return lo + gen_below(G, hi - lo + 1); }
#define PICK(G, table) (table)[gen_below(G, RT_COUNT(table))]

/* Ops on a product. */
/* clang-format off */
#define AFTER(X) \
	X(BIAS, "bias") X(COLUMN, "bias by row") X(RESIDUAL, "residual") X(SCALE, "scale") X(NUMBER, "number") X(GATE, "gate") \
	X(ACT, "activation") \
	X(ACT2, "activation") X(CAST, "cast") X(WHERE, "where") X(CLAMP, "clamp") X(COMPARE, "compare") X(POINT, "square, neg") \
	X(TRANSPOSE, "transpose") \
	X(PERMUTE, "permute") X(RESHAPE, "reshape") X(FLIP, "flip") X(SLICE, "slice") X(SUM, "sum") X(MAX, "max") X(MEAN, "mean") \
	X(SOFTMAX, "softmax") \
	X(NORM, "norm") X(CAT, "cat") X(ARGMAX, "argmax")
/* clang-format on */
enum {
#define X(name, text) AFTER_##name,
	AFTER(X)
#undef X
	AFTERS
};

/* ---- drawing a case ---- */
/* Edges of tiles (8, 12, 16, 32), of chunks of k (256), of blocks (192 x 256), small sizes, and a few large ones. */
static int64_t any_size(gen *G, bool is_k, bool small)
{
	static const int64_t tile[] = { 8, 12, 16, 32 }, chunk[] = { 255, 256, 257, 511, 512, 513 };
	static const int64_t block[] = { 191, 192, 193, 255, 256, 257, 385, 511, 512, 513 };
	int64_t roll = gen_below(G, 100);
	if (roll < 1) return 0;
	if (roll < (small ? 20 : 6)) return 1;
	if (roll < (small ? 75 : 16)) return between(G, 2, 9);
	if (roll < (small ? 82 : 62)) return PICK(G, tile) * between(G, 1, 6) + between(G, -1, 1);
	if (roll < (is_k ? 94 : small ? 84 : 76)) return is_k ? PICK(G, chunk) : PICK(G, block);
	return roll < 98 ? gen_below(G, 301) : between(G, 301, 2000);
}

static int64_t total(const prod_case *c)
{
	int64_t n = c->m * c->n * c->k;
	for (int i = 0; i < c->nbatch; i++) n *= c->batch[i];
	if (c->kind == PROD_SHARED) n *= 2;
	if (c->kind == PROD_CHAIN) n += n * c->n2 / (c->k ? c->k : 1);
	if (c->kind == PROD_HEADS) n = 3 * n + 2 * c->m * n / (c->k ? c->k : 1);
	return n;
}

/* Halves sizes, seldom k, until the case takes no more multiplications than most. */
static void limit(gen *G, prod_case *c, int64_t most)
{
	while (total(c) > most) {
		int64_t *d = gen_chance(G, 8) ? &c->k : gen_chance(G, 50) ? &c->m : gen_chance(G, 50) ? &c->n : c->kind == PROD_CHAIN ? &c->n2 : &c->m;
		if (c->nbatch && gen_chance(G, 30)) d = &c->batch[gen_below(G, c->nbatch)];
		if (*d > 1) *d = (*d + gen_below(G, 2)) / 2;
	}
}

/* Rows lie 2 or 4 KiB apart (f32), there are some tiles of them and some panels of columns: tiles copy what they read. */
static void draw_apart(gen *G, prod_case *c)
{
	c->k = 512 * between(G, 1, 2);
	c->m = between(G, 13, 60);
	c->n = between(G, 97, 200);
	c->nbatch = 0;
}

static void draw_sizes(gen *G, prod_case *c)
{
	int64_t roll = gen_below(G, 1000), most = roll < 250 ? 30000 : roll < 550 ? 400000 : roll < 880 ? 4000000 : 20000000;
	const bool small = gen_chance(G, 25);
	c->m = any_size(G, false, small);
	c->n = any_size(G, false, small);
	c->k = any_size(G, true, small);
	c->n2 = any_size(G, false, small);
	if (c->m == 1 && gen_chance(G, 15)) c->n = between(G, 2000, 5000); /* several strips */
	c->nbatch = gen_chance(G, 65) ? 0 : (int)between(G, 1, PROD_BATCH);
	for (int i = 0; i < c->nbatch; i++) c->batch[i] = gen_chance(G, 2) ? 0 : gen_chance(G, 10) ? between(G, 5, 17) : between(G, 1, 4);
	c->heads = (int)between(G, 1, 4);
	limit(G, c, most);
	if (gen_chance(G, 5)) draw_apart(G, c);
}

static tj_dtype any_dtype(gen *G)
{
	static const struct { tj_dtype t; int share; } mix[] = { { TJ_F32, 38 }, { TJ_F64, 14 }, { TJ_F16, 10 }, { TJ_BF16, 10 }, { TJ_I8, 6 },
		                                                     { TJ_U8, 6 },   { TJ_I16, 5 },  { TJ_I32, 6 },  { TJ_I64, 5 } };
	int64_t roll = gen_below(G, 100);
	for (size_t i = 0; i < RT_COUNT(mix); roll -= mix[i++].share)
		if (roll < mix[i].share) return mix[i].t;
	return TJ_F32;
}

static gen_content any_content(gen *G)
{
	static const gen_content c[] = { GEN_INTS, GEN_INTS, GEN_FIRST, GEN_LAST, GEN_SPARSE, GEN_SPARSE, GEN_TINY, GEN_NEGZERO, GEN_SPECIAL };
	return gen_chance(G, 65) ? GEN_PLAIN : PICK(G, c);
}

/* Operands of a product are stored in its dtype, or widened by casts, or promoted to the dtype of the other one. */
static void draw_dtypes(gen *G, prod_case *c)
{
	static const tj_dtype pair[][3] = { /* stored left, stored right, read as */
		                            { TJ_I8, TJ_I8, TJ_I32 },    { TJ_I8, TJ_I8, TJ_I32 },   { TJ_U8, TJ_I8, TJ_I32 },
		                            { TJ_I8, TJ_F32, TJ_F32 },   { TJ_F32, TJ_I8, TJ_F32 },  { TJ_BF16, TJ_BF16, TJ_F32 },
		                            { TJ_BF16, TJ_F32, TJ_F32 }, { TJ_F16, TJ_F16, TJ_F32 }, { TJ_F32, TJ_F32, TJ_F64 },
		                            { TJ_F32, TJ_F32, TJ_BF16 }, { TJ_I16, TJ_I16, TJ_I64 }, { TJ_BOOL, TJ_F32, TJ_F32 },
		                            { TJ_I8, TJ_F16, TJ_F16 }
	};
	tj_dtype t = any_dtype(G);
	for (int i = 0; i < PROD_OPERANDS; i++) c->in[i].dtype = c->in[i].cast = t;
	if (gen_chance(G, 14)) {
		const tj_dtype *p = PICK(G, pair);
		for (int i = 0; i < PROD_OPERANDS; i++) {
			c->in[i].dtype = p[i > 0];
			c->in[i].cast = p[2];
		}
	} else if (gen_chance(G, 6)) c->in[1].dtype = c->in[1].cast = any_dtype(G);
}

static void draw_operand(gen *G, prod_operand *o, const prod_case *c)
{
	o->seed = gen_next(G);
	o->source = gen_chance(G, 12) ? PROD_DATA : gen_chance(G, 3) ? PROD_FULL : PROD_INPUT;
	o->shown = gen_chance(G, 30);
	o->layout = gen_chance(G, 45) ? GEN_ROW : gen_chance(G, 30) ? GEN_TRANSPOSED : (int)gen_below(G, GEN_LAYOUTS);
	o->content = any_content(G);
	o->views = gen_chance(G, 60) ? 0 : (int)between(G, 1, 3);
	o->ops = gen_chance(G, 70) ? 0 : (int)between(G, 1, 3);
	o->vector = gen_chance(G, 7);
	for (int i = 0; i < c->nbatch; i++) o->ones |= gen_chance(G, 15) ? 1u << i : 0;
	o->missing = gen_chance(G, 30) ? (int)between(G, 1, PROD_BATCH) : 0;
}

/* Bytes of few rows, mostly loaded and widened only; k may pass the end of a chunk of theirs. */
static void draw_bytes(gen *G, prod_case *c)
{
	c->kind = PROD_ONE;
	c->fast = false;
	c->nbatch = gen_chance(G, 80) ? 0 : 1;
	c->m = gen_chance(G, 60) ? 1 : between(G, 2, 13);
	c->k = gen_chance(G, 15) ? between(G, 24000, 25000) : gen_chance(G, 25) ? between(G, 0, 70) : between(G, 0, 2100);
	c->n = gen_chance(G, 30) ? between(G, 1, 20) : between(G, 1, 600);
	for (int i = 0; i < PROD_OPERANDS; i++) {
		c->in[i].dtype = TJ_I8;
		c->in[i].cast = TJ_I32;
		c->in[i].content = GEN_PLAIN;
		c->in[i].vector = false;
		if (gen_chance(G, 85)) c->in[i].ops = 0;
		if (gen_chance(G, 80)) c->in[i].views = 0;
	}
	c->in[1].layout = gen_chance(G, 50) ? GEN_TRANSPOSED : gen_chance(G, 80) ? GEN_ROW : (int)gen_below(G, GEN_LAYOUTS);
	limit(G, c, 4000000);
}

/* A batch that varies: few rows are computed by other kernels than many, most of all if B is stored [n,k]. */
static void draw_moving(gen *G, prod_case *c)
{
	c->again = c->rows_move = true;
	if (gen_chance(G, 60)) c->in[1].layout = GEN_TRANSPOSED;
	if (gen_chance(G, 60)) c->m = between(G, 2, 9);
	if (gen_chance(G, 60)) c->n = between(G, 17, 100);
	if (gen_chance(G, 50)) c->nbatch = 0;
	limit(G, c, 1000000);
}

void prod_draw(prod_case *c, uint64_t seed)
{
	gen draw = { .rng = seed * 0x2545F4914F6CDD1Du + 7 }, *G = &draw;
	*c = (prod_case){ .seed = seed };
	const int64_t roll = gen_below(G, 100);
	c->kind = roll < 64 ? PROD_ONE : roll < 78 ? PROD_SHARED : roll < 92 ? PROD_CHAIN : PROD_HEADS;
	draw_sizes(G, c);
	draw_dtypes(G, c);
	for (int i = 0; i < PROD_OPERANDS; i++) draw_operand(G, &c->in[i], c);
	c->nafter = gen_chance(G, 25) ? 0 : (int)between(G, 1, PROD_AFTER - 1);
	for (int i = 0; i < PROD_AFTER; i++) c->after[i] = (prod_after){ gen_next(G), (int)gen_below(G, prod_after_ops(NULL)), gen_chance(G, 12) };
	c->between = gen_chance(G, 50) ? (int)gen_below(G, 3) : 0;
	c->kept = gen_chance(G, 20);
	c->place = gen_chance(G, 60) ? (gen_chance(G, 50) ? GEN_AT_END : GEN_AT_START) : GEN_ANYWHERE;
	c->team_first = gen_chance(G, 50);
	c->in_place = gen_chance(G, 30);
	if (c->in_place && gen_chance(G, 70)) { /* a sum that may overwrite its other operand */
		c->after[0].op = AFTER_RESIDUAL;
		c->nafter = (int)between(G, 1, 2);
	}
	if (c->in_place && gen_chance(G, 20)) { /* the columns of one row are computed from an operand of the result's shape */
		c->kind = PROD_ONE;
		c->m = 1;
		c->nbatch = c->nafter = 0;
		c->k = between(G, IR_CHAIN / 2, 3 * IR_CHAIN);
		c->in[1].row = true;
		c->in[1].vector = false;
		limit(G, c, 400000);
	}
	c->unfused = gen_chance(G, 6);
	c->again = gen_chance(G, 12);
	c->symbols = gen_chance(G, 6);
	c->fast = gen_chance(G, 20);
	for (int i = 0; c->fast && c->seed % 4 && i < PROD_OPERANDS; i++) { /* the dtype whose fast products have instructions of their own */
		c->in[i].dtype = TJ_BF16;
		c->in[i].cast = c->seed % 4 == 1 ? TJ_F32 : TJ_BF16;
	}
	if (seed % 12 == 7) draw_bytes(G, c);
	c->wider = gen_below(G, 4);
	for (int i = 0; i < PROD_OPERANDS; i++) c->in[i].apart = c->again && gen_chance(G, 40);
	if (gen_chance(G, 15)) draw_moving(G, c);
}

void prod_other_sizes(prod_case *c)
{
	gen draw = { .rng = c->seed + (uint64_t)++c->resized }, *G = &draw;
	int64_t was = total(c);
	if (c->rows_move) {
		c->m = any_size(G, false, gen_chance(G, 70));
		limit(G, c, was > 30000 ? was : 30000);
		return;
	}
	if (gen_chance(G, 60)) c->wider = gen_chance(G, 30) ? 0 : gen_chance(G, 30) ? 1024 - c->k % 1024 : gen_below(G, 200);
	if (gen_chance(G, 40)) return; /* only distances change */
	int64_t *const d[] = { &c->m, &c->n, &c->k };
	*d[gen_below(G, 3)] = any_size(G, true, false);
	if (gen_chance(G, 50)) c->m = any_size(G, false, false);
	if (c->nbatch && gen_chance(G, 50)) c->batch[0] = between(G, 1, 4);
	limit(G, c, was > 30000 ? was : 30000);
}

/* ---- emitting ---- */
/* The op, if these operands allow it; else IR_NONE. */
static ir_ref try_op(gen *G, ir_op op, int nsrc, const ir_ref *src, int nattr, const int64_t *attr)
{
	ir_meta m[4], out;
	rt_err err = { 0 };
	int64_t n;
	for (int i = 0; i < nsrc; i++) {
		if (src[i] == IR_NONE) return IR_NONE;
		m[i] = ir_meta_of(G->g, src[i]);
	}
	if (ir_infer(op, nsrc, m, nattr, attr, &out, NULL, NULL, NULL, &err) != TJ_OK || !rt_numel(out.rank, out.dim, &n)) return IR_NONE;
	return ir_emit(G->g, op, nsrc, src, nattr, attr, SITE);
}

static ir_ref op1(gen *G, ir_op op, ir_ref a) { return try_op(G, op, 1, &a, 0, NULL); }
static ir_ref op2(gen *G, ir_op op, ir_ref a, ir_ref b) { return try_op(G, op, 2, (ir_ref[]){ a, b }, 0, NULL); }
static ir_ref with_attrs(gen *G, ir_op op, ir_ref a, int n, const int64_t *attr) { return try_op(G, op, 1, &a, n, attr); }

static ir_ref constant(gen *G, tj_dtype t, int rank, const int64_t *dim, double v)
{
	return rt_is_float(t) ? ir_const_f(G->g, t, rank, dim, v) : ir_const_i(G->g, t, rank, dim, t == TJ_BOOL ? v != 0 : (int64_t)v);
}

/* ---- views: each is drawn for the shape that it must give, and gives the shape that it is applied to ---- */
typedef struct view { ir_op op; int nattr; int64_t attr[TJ_MAX_RANK]; } view;

static view attrs_of(ir_op op, int n, const int64_t *attr)
{
	view v = { .op = op, .nattr = n };
	memcpy(v.attr, attr, sizeof *attr * (size_t)n);
	return v;
}

static view before_permute(gen *G, int rank, int64_t *dim)
{
	int64_t axes[TJ_MAX_RANK], from[TJ_MAX_RANK];
	for (int i = 0; i < rank; i++) axes[i] = i;
	for (int i = rank - 1; i > 0; i--) {
		int64_t j = gen_below(G, i + 1), t = axes[i];
		axes[i] = axes[j];
		axes[j] = t;
	}
	for (int i = 0; i < rank; i++) from[axes[i]] = dim[i];
	memcpy(dim, from, sizeof *dim * (size_t)rank);
	return attrs_of(IR_permute, rank, axes);
}

static view before_slice(gen *G, int axis, int64_t *dim)
{
	static const int64_t steps[] = { 1, 1, 1, 2, 2, 3, -1, -2 };
	int64_t step = PICK(G, steps), n = dim[axis], front = gen_below(G, 4);
	if (!n && step < 0) step = -step;
	const int64_t reach = n ? (n - 1) * (step < 0 ? -step : step) + 1 : 0;
	int64_t start = step < 0 ? front + reach - 1 : front, stop = step < 0 ? front - 1 : front + reach;
	dim[axis] = front + reach + gen_below(G, 4);
	return attrs_of(IR_slice, 4, (int64_t[]){ axis, start, step < 0 && stop < 0 ? TJ_END_DIM : stop, step });
}

/* Merges two axes of the operand, or splits one. */
static view before_reshape(gen *G, int axis, int *rank, int64_t *dim)
{
	view v = attrs_of(IR_reshape, *rank, dim);
	const int rest = *rank - axis - 1;
	int64_t factor = between(G, 1, 4);
	if (rest && gen_chance(G, 50)) {
		dim[axis] *= dim[axis + 1];
		memmove(dim + axis + 1, dim + axis + 2, sizeof *dim * (size_t)(rest - 1));
		--*rank;
	} else {
		while (dim[axis] % factor) factor--;
		memmove(dim + axis + 2, dim + axis + 1, sizeof *dim * (size_t)rest);
		dim[axis + 1] = dim[axis] / factor;
		dim[axis] = factor;
		++*rank;
	}
	return v;
}

static view before_squeeze(gen *G, int *rank, int64_t *dim)
{
	int64_t axis = gen_below(G, *rank + 1);
	memmove(dim + axis + 1, dim + axis, sizeof *dim * (size_t)(*rank - axis));
	dim[axis] = 1;
	++*rank;
	return attrs_of(IR_squeeze, 1, &axis);
}

static view any_view(gen *G, int *rank, int64_t *dim)
{
	static const int roll[] = { 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 6 };
	int64_t axis = gen_below(G, *rank);
	const int two = *rank > 1 ? PICK(G, roll) : (int)between(G, 2, 6);
	view v;
	switch (two) {
	case 0: {
		int64_t t = dim[*rank - 1];
		dim[*rank - 1] = dim[*rank - 2];
		dim[*rank - 2] = t;
		return attrs_of(IR_transpose, 2, (int64_t[]){ -1, -2 });
	}
	case 1: return before_permute(G, *rank, dim);
	case 2: return before_slice(G, (int)axis, dim);
	case 3: return attrs_of(IR_flip, 1, &axis);
	case 4: return before_reshape(G, (int)axis, rank, dim);
	case 5: return before_squeeze(G, rank, dim);
	default:
		v = attrs_of(IR_expand, *rank, dim);
		dim[axis] = 1;
		return v;
	}
}

/* ---- operands ---- */
static ir_ref beside(gen *G, tj_dtype t, int rank, const int64_t *dim)
{
	if (gen_chance(G, 20)) return gen_data(G, t, rank, dim);
	G->layout = gen_chance(G, 60) ? GEN_ROW : -1;
	return gen_input(G, t, rank, dim, any_content(G), 0, 0);
}

static ir_ref plain_op(gen *G, ir_ref r)
{
	static const ir_op ops[] = { IR_relu, IR_neg, IR_abs, IR_square };
	ir_meta m = ir_meta_of(G->g, r);
	if (gen_chance(G, 60)) return op1(G, PICK(G, ops), r);
	return op2(G, gen_chance(G, 50) ? IR_mul : IR_add, r, constant(G, (tj_dtype)m.dtype, 0, NULL, gen_chance(G, 50) ? 3 : 0.5));
}

/* With another tensor, which broadcasts along some axes. */
static ir_ref scaled(gen *G, ir_ref r)
{
	static const ir_op ops[] = { IR_mul, IR_mul, IR_sub, IR_add, IR_maximum, IR_div };
	const ir_meta m = ir_meta_of(G->g, r);
	const ir_op op = PICK(G, ops);
	int64_t dim[TJ_MAX_RANK];
	for (int i = 0; i < m.rank; i++) dim[i] = gen_chance(G, 50) ? 1 : m.dim[i];
	ir_ref x = beside(G, gen_chance(G, 15) && rt_is_float((tj_dtype)m.dtype) ? TJ_F16 : (tj_dtype)m.dtype, m.rank, dim);
	if (gen_chance(G, 15))
		return try_op(G, IR_where, 3, (ir_ref[]){ beside(G, TJ_BOOL, m.rank, dim), r, constant(G, (tj_dtype)m.dtype, 0, NULL, 1) },
		              0, NULL);
	if (ir_at(G->g, x)->dtype != m.dtype) x = ir_cast(G->g, x, (tj_dtype)m.dtype, SITE);
	return op == IR_div && !rt_is_float((tj_dtype)m.dtype) ? IR_NONE : op2(G, op, r, x);
}

/* With a number for each group of an axis, as weights of few bits have scales. */
static ir_ref by_groups(gen *G, ir_ref r)
{
	const ir_meta m = ir_meta_of(G->g, r);
	const int axis = m.rank ? (int)gen_below(G, m.rank) : -1;
	int64_t dim[TJ_MAX_RANK], size = 0;
	if (axis < 0 || m.rank == TJ_MAX_RANK) return IR_NONE;
	for (int64_t d = 2; d <= 64 && d <= m.dim[axis]; d++)
		if (m.dim[axis] % d == 0 && (!size || gen_chance(G, 50))) size = d;
	if (!size) return IR_NONE;
	for (int i = 0; i <= m.rank; i++) dim[i] = i <= axis ? m.dim[i] : m.dim[i - 1];
	dim[axis] /= size;
	dim[axis + 1] = size;
	r = with_attrs(G, IR_reshape, r, m.rank + 1, dim);
	dim[axis + 1] = 1;
	for (int i = 0; i <= m.rank; i++)
		if (i != axis && gen_chance(G, 30)) dim[i] = 1;
	r = op2(G, gen_chance(G, 70) ? IR_mul : IR_sub, r, beside(G, (tj_dtype)m.dtype, m.rank + 1, dim));
	return with_attrs(G, IR_reshape, r, m.rank, m.dim);
}

static ir_ref some_op(gen *G, ir_ref r)
{
	const ir_meta m = ir_meta_of(G->g, r);
	const int64_t last[] = { m.rank - 2, m.rank - 1 };
	const bool turned = m.rank > 1 && gen_chance(G, 40);
	if (turned) r = with_attrs(G, IR_transpose, r, 2, last);
	const int64_t roll = gen_below(G, 10);
	ir_ref x = roll < 4 ? plain_op(G, r) : roll < 8 ? scaled(G, r) : by_groups(G, r);
	if (x == IR_NONE) x = r;
	return turned ? with_attrs(G, IR_transpose, x, 2, last) : x;
}

static ir_ref stored(gen *G, const prod_operand *o, int rank, const int64_t *dim)
{
	G->layout = o->layout;
	G->content = o->content;
	if (o->source == PROD_FULL) return constant(G, o->dtype, rank, dim, (double)between(G, -2, 3));
	if (o->source == PROD_DATA) {
		ir_ref r = gen_data(G, o->dtype, rank, dim);
		if (o->shown && r != IR_NONE) ir_ret(G->g, ir_cast(G->g, r, o->dtype == TJ_F64 ? TJ_F32 : TJ_F64, SITE));
		return r;
	}
	return gen_input(G, o->dtype, rank, dim, o->content, 0, 0);
}

static ir_ref operand(gen *G, const prod_operand *o, int64_t wider, int rank, const int64_t *want)
{
	view v[8];
	int64_t dim[TJ_MAX_RANK];
	int n = 0;
	memcpy(dim, want, sizeof *dim * (size_t)rank);
	G->rng = o->seed;
	while (n < o->views) v[n++] = any_view(G, &rank, dim);
	if (o->apart && rank) {
		v[n++] = attrs_of(IR_slice, 4, (int64_t[]){ rank - 1, 0, dim[rank - 1], 1 });
		dim[rank - 1] += wider;
	}
	G->rng = ~o->seed;
	ir_ref r = stored(G, o, rank, dim);
	while (n-- > 0) r = ir_emit(G->g, v[n].op, 1, &r, v[n].nattr, v[n].attr, SITE);
	if (o->cast != o->dtype) r = ir_cast(G->g, r, o->cast, SITE);
	for (int i = 0; i < o->ops && r != IR_NONE; i++) {
		ir_ref x = some_op(G, r);
		if (x != IR_NONE) r = x;
	}
	if (!o->row || r == IR_NONE) return r;
	const ir_meta m = ir_meta_of(G->g, r);
	G->layout = GEN_ROW;
	return op2(G, IR_add, r, gen_input(G, o->cast, 2, (int64_t[]){ 1, m.dim[m.rank - 1] }, GEN_PLAIN, 0, 0));
}

/* A matrix, or a vector, with the batch axes of the case that this operand has. */
static ir_ref matrix(gen *G, const prod_case *c, int which, int64_t rows, int64_t columns)
{
	const prod_operand *o = &c->in[which];
	int64_t dim[TJ_MAX_RANK];
	int rank = 0;
	for (int i = o->missing; i < c->nbatch; i++) dim[rank++] = o->ones >> i & 1 ? 1 : c->batch[i];
	if (o->vector && !which) return operand(G, o, c->wider, 1, &columns);
	if (o->vector) return operand(G, o, c->wider, 1, &rows);
	dim[rank++] = rows;
	dim[rank++] = columns;
	return operand(G, o, c->wider, rank, dim);
}

/* ---- ops on a product ---- */
int prod_after_ops(const char *const **names)
{
	static const char *const name[] = {
#define X(name, text) text,
		AFTER(X)
#undef X
	};
	if (names) *names = name;
	return AFTERS;
}

static ir_ref by_row(gen *G, ir_ref y, const ir_meta *m)
{
	int64_t dim[2] = { m->rank > 1 ? m->dim[m->rank - 2] : 1, 1 };
	return op2(G, IR_add, y, beside(G, (tj_dtype)m->dtype, 2, dim));
}

static ir_ref select_some(gen *G, ir_ref y, const ir_meta *m)
{
	int skip = gen_chance(G, 50) ? 0 : (int)gen_below(G, m->rank + 1);
	ir_ref mask = gen_input(G, TJ_BOOL, m->rank - skip, m->dim + skip, GEN_PLAIN, 0, 0);
	ir_ref other = gen_chance(G, 50) ? constant(G, (tj_dtype)m->dtype, 0, NULL, -1) : beside(G, (tj_dtype)m->dtype, m->rank, m->dim);
	return try_op(G, IR_where, 3, gen_chance(G, 70) ? (ir_ref[]){ mask, y, other } : (ir_ref[]){ mask, other, y }, 0, NULL);
}

static ir_ref reshaped(gen *G, ir_ref y, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK], t;
	int rank = m->rank;
	memcpy(dim, m->dim, sizeof dim);
	if (!rank || rank > 6) return IR_NONE;
	before_reshape(G, (int)gen_below(G, rank), &rank, dim);
	ir_ref r = with_attrs(G, IR_reshape, y, rank, dim);
	if (r == IR_NONE || rank < 3 || gen_chance(G, 40)) return r;
	t = rank - 3; /* as heads are: the axis in front of the last two, or of the last one */
	return with_attrs(G, IR_transpose, r, 2, (int64_t[]){ t, t + 1 });
}

static ir_ref reduced(gen *G, ir_op op, ir_ref y, const ir_meta *m)
{
	uint32_t axes = m->rank && gen_chance(G, 80) ? 1u << (gen_chance(G, 50) ? m->rank - 1 : (int)gen_below(G, m->rank)) : (1u << m->rank) - 1;
	int64_t attr[TJ_MAX_RANK + 1] = { gen_below(G, 2) };
	int n = 1;
	for (int i = 0; i < m->rank; i++)
		if (axes >> i & 1) attr[n++] = i;
	return with_attrs(G, op, y, n, attr);
}

static ir_ref normed(gen *G, ir_ref y, const ir_meta *m)
{
	const double eps = 1e-5;
	const ir_meta one = { .rank = 1, .dim = { m->rank ? m->dim[m->rank - 1] : 0 } };
	if (!m->rank || !rt_is_float((tj_dtype)m->dtype)) return IR_NONE;
	ir_ref number = gen_number(G, false, false), weight = beside(G, (tj_dtype)m->dtype, 1, one.dim);
	memcpy(&G->num.v[G->num.n - 1], &eps, sizeof eps);
	G->num_of.v[G->num.n - 1].kind = GEN_FIXED;
	if (gen_chance(G, 50)) return try_op(G, IR_rms_norm, 3, (ir_ref[]){ y, weight, number }, 0, NULL);
	return try_op(G, IR_layer_norm, 4, (ir_ref[]){ y, weight, beside(G, (tj_dtype)m->dtype, 1, one.dim), number }, 0, NULL);
}

static ir_ref joined(gen *G, ir_ref y, const ir_meta *m)
{
	int64_t axis = m->rank ? gen_below(G, m->rank) : 0;
	ir_meta o = *m;
	if (!m->rank) return IR_NONE;
	o.dim[axis] = between(G, 1, 9);
	ir_ref other = beside(G, (tj_dtype)m->dtype, o.rank, o.dim);
	return try_op(G, IR_cat, 2, gen_chance(G, 50) ? (ir_ref[]){ y, other } : (ir_ref[]){ other, y }, 1, &axis);
}

static ir_ref sliced(gen *G, ir_ref y, const ir_meta *m)
{
	static const int64_t steps[] = { 1, 1, 2, -1 };
	if (!m->rank) return IR_NONE;
	int64_t axis = gen_below(G, m->rank), n = m->dim[axis];
	return with_attrs(G, IR_slice, y, 4,
	                  (int64_t[]){ axis, gen_chance(G, 50) ? TJ_END_DIM : gen_below(G, n / 2 + 1), TJ_END_DIM, PICK(G, steps) });
}

static ir_ref apply(gen *G, int op, ir_ref y)
{
	static const ir_op act[] = { IR_relu, IR_relu, IR_gelu, IR_gelu_tanh, IR_tanh, IR_silu, IR_sigmoid },
			   point[] = { IR_square, IR_neg, IR_abs };
	const ir_meta m = ir_meta_of(G->g, y);
	const tj_dtype t = (tj_dtype)m.dtype;
	const int last = m.rank - 1;
	int64_t dim[TJ_MAX_RANK];
	memcpy(dim, m.dim, sizeof dim);
	switch (op) {
	case AFTER_BIAS: return op2(G, IR_add, y, beside(G, t, m.rank ? 1 : 0, m.rank ? &m.dim[last] : m.dim));
	case AFTER_COLUMN: return by_row(G, y, &m);
	case AFTER_RESIDUAL: return op2(G, gen_chance(G, 80) ? IR_add : IR_sub, y, beside(G, t, m.rank, m.dim));
	case AFTER_SCALE: return op2(G, IR_mul, y, constant(G, t, 0, NULL, rt_is_float(t) ? 0.125 : 3));
	case AFTER_NUMBER: return op2(G, gen_chance(G, 50) ? IR_mul : IR_add, y, gen_number(G, !rt_is_float(t), false));
	case AFTER_GATE: return op2(G, IR_mul, y, beside(G, t, m.rank, m.dim));
	case AFTER_ACT:
	case AFTER_ACT2: return op1(G, PICK(G, act), y);
	case AFTER_CAST: return with_attrs(G, IR_cast, y, 1, (int64_t[]){ gen_below(G, TJ_DTYPE_COUNT) });
	case AFTER_WHERE: return select_some(G, y, &m);
	case AFTER_CLAMP: return try_op(G, IR_clamp, 3, (ir_ref[]){ y, constant(G, t, 0, NULL, 0), constant(G, t, 0, NULL, 6) }, 0, NULL);
	case AFTER_COMPARE:
		return op2(G, gen_chance(G, 50) ? IR_gt : IR_le, y,
		           gen_chance(G, 50) ? constant(G, t, 0, NULL, 0) : beside(G, t, m.rank, m.dim));
	case AFTER_POINT: return op1(G, PICK(G, point), y);
	case AFTER_TRANSPOSE: return m.rank > 1 ? with_attrs(G, IR_transpose, y, 2, (int64_t[]){ -1, -2 }) : IR_NONE;
	case AFTER_PERMUTE: return m.rank > 1 ? with_attrs(G, IR_permute, y, m.rank, before_permute(G, m.rank, dim).attr) : IR_NONE;
	case AFTER_RESHAPE: return reshaped(G, y, &m);
	case AFTER_FLIP: return m.rank ? with_attrs(G, IR_flip, y, 1, (int64_t[]){ gen_below(G, m.rank) }) : IR_NONE;
	case AFTER_SLICE: return sliced(G, y, &m);
	case AFTER_SUM: return reduced(G, IR_sum, y, &m);
	case AFTER_MAX: return reduced(G, gen_chance(G, 50) ? IR_amax : IR_amin, y, &m);
	case AFTER_MEAN: return reduced(G, IR_mean, y, &m);
	case AFTER_SOFTMAX:
		dim[0] = gen_chance(G, 80) ? last : 0;
		return m.rank ? with_attrs(G, gen_chance(G, 70) ? IR_softmax : IR_log_softmax, y, 1, dim) : IR_NONE;
	case AFTER_NORM: return normed(G, y, &m);
	case AFTER_CAT: return joined(G, y, &m);
	case AFTER_ARGMAX: return m.rank ? with_attrs(G, IR_argmax, y, 2, (int64_t[]){ 0, gen_below(G, m.rank) }) : IR_NONE;
	default: return IR_NONE;
	}
}

/* An op that does not take y is left out. */
static ir_ref after(gen *G, const prod_case *c, int from, int to, ir_ref y)
{
	for (int i = from; i < to && i < c->nafter && y != IR_NONE; i++) {
		G->rng = c->after[i].seed;
		ir_ref r = apply(G, c->after[i].op, y);
		if (r == IR_NONE) continue;
		if (c->after[i].kept) ir_ret(G->g, y);
		y = r;
	}
	return y;
}

/* ---- kinds ---- */
static ir_ref product(gen *G, const prod_case *c, ir_ref a, ir_ref b)
{
	G->g->mode = c->fast ? IR_FAST : 0;
	ir_ref r = op2(G, IR_matmul, a, b);
	G->g->mode = 0;
	return r;
}

/* Products with one operand a. */
static ir_ref shared(gen *G, const prod_case *c, ir_ref a, ir_ref first)
{
	ir_ref y = first;
	const int more = c->seed % 3 ? 1 : 2;
	for (int i = 0; i < more; i++) {
		ir_ref z = product(G, c, a, matrix(G, c, 2 + i, c->k, c->n)), both = c->seed % 5 < 2 ? op2(G, IR_mul, y, op1(G, IR_silu, z)) : IR_NONE;
		if (both == IR_NONE && z != IR_NONE) ir_ret(G->g, z);
		if (both != IR_NONE) y = both;
	}
	return y;
}

static ir_ref chain(gen *G, const prod_case *c, ir_ref y)
{
	y = after(G, c, 0, c->between, y);
	ir_meta m = ir_meta_of(G->g, y);
	prod_case other = *c;
	if (!m.rank || m.rank > 8) return y;
	other.nbatch = 0;
	const bool left = m.rank > 1 && c->seed & 1;
	const int64_t k = left ? m.dim[m.rank - 2] : m.dim[m.rank - 1];
	ir_ref w = left ? matrix(G, &other, 2, c->n2, k) : matrix(G, &other, 2, k, c->n2), r;
	if (left && ir_meta_of(G->g, w).rank == 1) return y;
	r = left ? product(G, c, w, y) : product(G, c, y, w);
	return r == IR_NONE ? y : r;
}

/* [.., m, heads * e] as [.., heads, m, e]; the operand k of scores as [.., heads, e, m]. */
static ir_ref to_heads(gen *G, const prod_case *c, ir_ref y, bool columns)
{
	ir_meta m = ir_meta_of(G->g, y);
	if (m.rank < 2 || m.rank > 8 || m.dim[m.rank - 1] % c->heads) return IR_NONE;
	int64_t axes[TJ_MAX_RANK], at = m.rank - 1;
	m.dim[m.rank++] = m.dim[at] / c->heads;
	m.dim[at] = c->heads;
	for (int i = 0; i < m.rank; i++) axes[i] = i;
	axes[at - 1] = at;
	axes[at] = columns ? at + 1 : at - 1;
	axes[at + 1] = columns ? at - 1 : at + 1;
	return with_attrs(G, IR_permute, with_attrs(G, IR_reshape, y, m.rank, m.dim), m.rank, axes);
}

static ir_ref heads(gen *G, const prod_case *c, ir_ref a, ir_ref q)
{
	ir_ref k = product(G, c, a, matrix(G, c, 2, c->k, c->n)), v = product(G, c, a, matrix(G, c, 3, c->k, c->n));
	if (k == IR_NONE || v == IR_NONE) return q;
	ir_ref score = product(G, c, to_heads(G, c, q, false), to_heads(G, c, k, true));
	if (score == IR_NONE) return q;
	score = op2(G, IR_mul, score, constant(G, (tj_dtype)ir_meta_of(G->g, score).dtype, 0, NULL, 0.25));
	ir_ref y = product(G, c, with_attrs(G, IR_softmax, score, 1, (int64_t[]){ -1 }), to_heads(G, c, v, false));
	if (y == IR_NONE) return q;
	ir_meta m = ir_meta_of(G->g, y);
	y = with_attrs(G, IR_transpose, y, 2, (int64_t[]){ -2, -3 });
	int64_t dim[TJ_MAX_RANK];
	memcpy(dim, m.dim, sizeof dim);
	dim[m.rank - 3] = m.dim[m.rank - 2];
	dim[m.rank - 2] = m.dim[m.rank - 1] * m.dim[m.rank - 3];
	return with_attrs(G, IR_reshape, y, m.rank - 1, dim);
}

void prod_graph(gen *G, const prod_case *c)
{
	const int64_t n = c->kind == PROD_HEADS ? c->n - c->n % c->heads : c->n;
	prod_case d = *c;
	d.n = n;
	G->place = c->place;
	ir_ref a = matrix(G, &d, 0, d.m, d.k), y = product(G, c, a, matrix(G, &d, 1, d.k, d.n));
	if (y == IR_NONE) return;
	if (c->kept) ir_ret(G->g, y);
	if (c->kind == PROD_SHARED) y = shared(G, &d, a, y);
	if (c->kind == PROD_CHAIN) y = chain(G, &d, y);
	if (c->kind == PROD_HEADS) y = heads(G, &d, a, y);
	y = after(G, &d, c->kind == PROD_CHAIN ? c->between : 0, PROD_AFTER, y);
	if (y != IR_NONE) ir_ret(G->g, y);
}

/* ---- simpler cases ---- */
static bool set(int64_t *v, int64_t to)
{
	if (*v == to || *v < to) return false;
	*v = to;
	return true;
}

static bool set_int(int *v, int to)
{
	const bool changes = *v != to;
	*v = to;
	return changes;
}

static bool clear(bool *v)
{
	const bool was = *v;
	*v = false;
	return was;
}

static bool simpler_operand(prod_operand *o, int way)
{
	switch (way) {
	case 0: return o->ops && (o->ops--, true);
	case 1: return set_int(&o->views, 0);
	case 2: return o->views > 1 && (o->views--, true);
	case 3: return set_int(&o->layout, GEN_ROW);
	case 4: return o->source != PROD_INPUT && (o->source = PROD_INPUT, true);
	case 5: return clear(&o->vector);
	case 6: return o->ones && (o->ones = 0, true);
	case 7: return set_int(&o->missing, 0);
	case 8: return o->content != GEN_INTS && (o->content = GEN_INTS, true);
	case 9: return o->content != GEN_INTS && o->content != GEN_PLAIN && (o->content = GEN_PLAIN, true);
	case 10: return o->dtype != o->cast && (o->dtype = o->cast, true);
	case 11: return clear(&o->shown);
	case 12: return clear(&o->row);
	case 13: return clear(&o->apart);
	default: return false;
	}
}

static bool drop_after(prod_case *c, int i)
{
	if (i >= c->nafter) return false;
	memmove(c->after + i, c->after + i + 1, sizeof *c->after * (size_t)(c->nafter - i - 1));
	c->nafter--;
	if (i < c->between) c->between--;
	return true;
}

static bool simpler_size(int64_t *d, int way)
{
	const int64_t to[] = { 1, *d / 2, *d - *d % 16, *d - 16, *d - 1 };
	return *d > 1 && to[way] > 0 && set(d, to[way]);
}

static bool one_dtype(prod_case *c)
{
	bool changes = false;
	for (int i = 0; i < PROD_OPERANDS; i++) {
		changes |= c->in[i].dtype != TJ_F32 || c->in[i].cast != TJ_F32;
		c->in[i].dtype = c->in[i].cast = TJ_F32;
	}
	return changes;
}

bool prod_simplify(prod_case *c, int way)
{
	switch (way) {
	case 0: return c->kind != PROD_ONE && (c->kind = PROD_ONE, true);
	case 1: return set_int(&c->nafter, 0);
	case 2: return set_int(&c->nbatch, 0);
	case 3: return c->nbatch > 1 && (c->nbatch--, true);
	case 4: return clear(&c->again) || clear(&c->rows_move);
	case 5: return clear(&c->symbols);
	case 6: return clear(&c->in_place);
	case 7: return clear(&c->kept);
	case 8: return c->place != GEN_ANYWHERE && (c->place = GEN_ANYWHERE, true);
	case 9: return clear(&c->unfused);
	case 10: return one_dtype(c);
	case 11: return clear(&c->team_first);
	case 12: return c->nbatch && simpler_size(&c->batch[0], 0);
	case 13: return c->nbatch > 1 && simpler_size(&c->batch[1], 0);
	case 15: return clear(&c->fast);
	case 14: return c->kind == PROD_HEADS && set_int(&c->heads, 1);
	default: break;
	}
	if (way < 20) return false;
	if (way < 20 + PROD_AFTER) return drop_after(c, way - 20);
	if (way < 26 + PROD_AFTER) return clear(&c->after[way - 26].kept);
	if (way >= 40 && way < 60) return simpler_size((int64_t *[]){ &c->m, &c->n, &c->k, &c->n2 }[(way - 40) / 5], (way - 40) % 5);
	if (way >= 60 && way < 60 + 14 * 2) return simpler_operand(&c->in[(way - 60) / 14], (way - 60) % 14);
	return false;
}
_Static_assert(PROD_AFTER == 6, "the numbers of ways above");

/* ---- counts ---- */
/* What runs in the region of another kernel. */
static void count_bundles(const gen *G, prod_mix *m)
{
	rt_text t = { 0 };
	rt_err err = { 0 };
	if (lo_print_steps(G->g, &lo_cpu, &t, &err) == TJ_OK) {
		m->beside += strstr(rt_str(&t), "\n  beside") != NULL;
		m->follow += strstr(rt_str(&t), "\n    follows") != NULL;
	}
	rt_text_free(&t);
}

void prod_count(const prod_case *c, const gen *G, prod_mix *m)
{
	m->cases++;
	m->kind[c->kind]++;
	m->dtype[c->in[0].cast]++;
	m->chunks += c->k > 256;
	m->large += total(c) > 1000000;
	m->batches += c->nbatch > 0;
	m->vectors += c->in[0].vector || c->in[1].vector;
	m->guarded += c->place != GEN_ANYWHERE;
	m->sizes += c->again || c->symbols;
	m->fast += c->fast;
	m->kept += G->g->out.n > 1;
	bool views = false, ahead = false, odd = false, data = false, cast = false, special = false;
	for (int i = 0; i < 2; i++) {
		const prod_operand *o = &c->in[i];
		views |= o->views > 0;
		ahead |= o->ops > 0;
		odd |= o->layout != GEN_ROW;
		data |= o->source != PROD_INPUT;
		cast |= o->dtype != o->cast || o->cast != c->in[!i].cast;
		special |= o->content != GEN_PLAIN && o->content != GEN_INTS;
	}
	m->views += views;
	m->ahead += ahead;
	m->odd += odd;
	m->constants += data;
	m->casts += cast;
	m->special += special;
	for (int i = 0; i < c->nafter; i++) m->after[c->after[i].op]++;
	for (ir_ref r = 0; r < G->g->node.n; r++) m->products += ir_at(G->g, r)->op == IR_matmul;
	m->empty += total(c) == 0;
	count_bundles(G, m);
}
