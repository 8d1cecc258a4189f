/* SPDX-License-Identifier: MIT */
/* product: matrix products, in tiles.
 *
 *   loop    %0 = load [0 + 64*d1 + 1*r]           rows of the result: the dimensions that the first operand alone depends on, numbered
 *           through
 *           %1 = load [0 + 1*d2 + 30*r ..]        columns: those that the second one alone depends on. Others are batch axes
 *           %2 = reduce dot chain %0 %1
 *   point   store [0 + 30*d1 + 1*d2] ..
 *
 *                 columns                         A block takes a tile of the result. In each step it reads DEPTH indices of r of both
 *            . . . . . . . . .                    operands into shared memory, one after the other: while it multiplies one half of
 *     r      . . x x x x . . .                    that memory, the elements for the other half are on their way.
 *            . . . . . . . . .
 *     r                                           A thread has down x across sums in registers, of adjacent rows and columns. Every
 *   . . . .  . . . . . . . . .                    IR_CHAIN steps of r they are added to its totals, which is the order of a chain.
 *   . x . .  . . o o o o . . .
 *   . x . .  . . o o o o . . .  rows              At the end the totals go through shared memory, so that neighbouring threads have
 *   . . . .  . . . . . . . . .                    neighbouring columns in the sections that follow the product.
 *
 * An operand is what its loads and plain ops make of it, at any index: transposed, strided, repeated, or windows of an image where they
 * lie (lo_index.jump), which are never stored. The part of an index that r does not change is computed once for a tile. Behind the last
 * index of r, operands are -0 and +0: fma(-0, +0, sum) is the sum, also if that is -0. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

enum { DEPTH = 16, PAD = 16 }; /* indices of r in a step; bytes between rows of a tile, so that banks differ and rows stay aligned */
_Static_assert(IR_CHAIN % DEPTH == 0, "a chunk of the chain ends with a step");

/* ---- tiles ---- */
typedef struct tile { int rows, columns, threads; } tile; /* threads: those side by side in a row of the tile */
/* of sums of 4 bytes */
static const tile small[] = { { 128, 64, 16 }, { 64, 64, 16 },  { 32, 32, 16 }, { 16, 64, 32 },
	                      { 64, 16, 8 },   { 16, 256, 64 }, { 256, 16, 4 } };
/* of 8 bytes */
static const tile wide[] = { { 64, 64, 16 }, { 32, 32, 16 }, { 16, 64, 32 }, { 64, 16, 8 }, { 16, 128, 64 }, { 128, 16, 4 } };

static int down(const tile *t) { return t->rows * t->threads / CU_THREADS; }
static int across(const tile *t) { return t->columns / t->threads; }

/* Time of a product in tiles, in elements: each needs a multiply-add, and its part of what a thread reads from shared memory. */
static double cost(const tile *t, int64_t rows, int64_t columns, int64_t batch)
{
	enum { SMS = 132 };
	const double n = (double)((rows - 1) / t->rows + 1) * (double)((columns - 1) / t->columns + 1) * (double)batch;
	const double each = t->rows * t->columns * (1 + (double)(down(t) + across(t)) / (down(t) * across(t)));
	return (n < SMS ? 1 : n / SMS) * each;
}

void cu_tile_units(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	lo_tiles x;
	(void)t;
	s->rows = s->block = small[1].rows;
	s->unit_ns = 1;
	if (!lo_tiles_of(k, &x)) return; /* the verifier tells */
	const bool is_wide = tj_dtype_size((tj_dtype)k->ins.v[x.dot].dtype) == 8;
	const tile *all = is_wide ? wide : small, *best = all;
	const int64_t rows = lo_extent(k, x.rows), columns = lo_extent(k, x.columns), batch = lo_extent(k, ~(x.rows | x.columns));
	for (size_t i = 1; i < (is_wide ? RT_COUNT(wide) : RT_COUNT(small)); i++)
		if (cost(&all[i], rows, columns, batch) < cost(best, rows, columns, batch)) best = &all[i];
	s->rows = best->rows;
	s->block = best->columns;
}

static const tile *tile_of(const lo_schedule *s)
{
	for (size_t i = 0; i < RT_COUNT(small); i++)
		if (small[i].rows == s->rows && small[i].columns == s->block) return &small[i];
	for (size_t i = 0; i < RT_COUNT(wide); i++)
		if (wide[i].rows == s->rows && wide[i].columns == s->block) return &wide[i];
	return &small[1]; /* a schedule that was written by hand: any tile computes the same */
}

typedef struct operand {     /* in shared memory */
	int extent, pitch;       /* rows or columns of the tile; elements between two indices of r */
	int each;                /* elements that a thread reads in a step */
	bool along;              /* neighbouring threads read neighbouring indices of r, not of the rows or columns */
	int places;              /* rows or columns that a thread reads from, and whose indices it keeps */
	int evenly; /* along: the dimension of the rows or columns, if there is but one: a thread keeps one index, and others are steps from
	               there; else -1 */
	uint64_t dims;
} operand;

typedef struct product {
	lo_tiles x;
	const tile *tile;
	tj_dtype t;
	operand side[2];
} product;

static bool steps_along_r(const lo_kernel *k, const lo_tiles *x, int of)
{
	const lo_index *i = &k->index.v[k->ins.v[x->load[of]].index];
	bool other = false;
	for (int d = 0; d < k->ndim; d++) other |= ((of ? x->columns : x->rows) >> d & 1) && i->coef[d] == 1;
	return i->rcoef == 1 && !i->group && !other;
}

static int only_one(uint64_t dims) { return dims && !(dims & (dims - 1)) ? __builtin_ctzll(dims) : -1; }

static product product_of(const lo_kernel *k, const lo_schedule *s)
{
	product p = { .tile = tile_of(s) };
	if (!lo_tiles_of(k, &p.x)) return p; /* the verifier has told */
	p.t = (tj_dtype)k->ins.v[p.x.dot].dtype;
	for (int i = 0; i < 2; i++) {
		operand *o = &p.side[i];
		o->extent = i ? p.tile->columns : p.tile->rows;
		o->pitch = o->extent + PAD / (int)tj_dtype_size(p.t);
		o->each = o->extent * DEPTH / CU_THREADS;
		o->along = steps_along_r(k, &p.x, i);
		o->dims = i ? p.x.columns : p.x.rows;
		o->evenly = o->along ? only_one(o->dims) : -1;
		o->places = o->along && o->evenly < 0 ? o->each : 1;
	}
	return p;
}

size_t cu_product_bytes(const lo_kernel *k, const lo_schedule *s)
{
	const product p = product_of(k, s);
	const size_t operands = 2 * DEPTH * (size_t)(p.side[0].pitch + p.side[1].pitch), totals = (size_t)(p.tile->rows * p.tile->columns);
	return (operands > totals ? operands : totals) * tj_dtype_size(p.t);
}

/* Sums of integers wrap. */
static const char *type_of(tj_dtype t) { return t == TJ_I32 ? "unsigned" : t == TJ_I64 ? "unsigned long long" : cu_type(t); }

/* ---- indices ---- */
static bool of(uint64_t dims, int d) { return dims >> d & 1; }

static void put_extent(cu *c, const char *name, uint64_t dims)
{
	cu_line(c, "const ix %s = (ix)1", name);
	for (int d = 0; d < c->k->ndim; d++)
		if (of(dims, d)) rt_putf(c->out, " * dim%d", d);
	rt_puts(c->out, ";\n");
}

/* The dimensions out of w, which is left behind. */
static void put_dims(cu *c, uint64_t dims)
{
	for (int d = c->k->ndim - 1; d >= 0; d--)
		if (of(dims, d)) cu_line(c, "const ix d%d = w %% dim%d; w /= dim%d;\n", d, d, d);
}

static void put_head(cu *c, const product *p)
{
	const lo_kernel *k = c->k;
	const char *type = type_of(p->t);
	cu_line(c, "%s *const tile0 = (%s *)tj_shared, *const tile1 = tile0 + %d;\n", type, type, 2 * DEPTH * p->side[0].pitch);
	cu_line(c, "const int tx = threadIdx.x %% %d, ty = threadIdx.x / %d;\n", p->tile->threads, p->tile->threads);
	for (int d = 0; d < k->ndim; d++) cu_line(c, "const ix dim%d = ", d), cu_size(c, k->dim[d]), rt_puts(c->out, ";\n");
	cu_line(c, "const ix red = "), cu_size(c, k->reduces ? k->red : 1), rt_puts(c->out, ";\n");
	put_extent(c, "rows", p->x.rows);
	put_extent(c, "columns", p->x.columns);
	cu_line(c, "const ix down = (rows - 1) / %d + 1, across = (columns - 1) / %d + 1;\n", p->tile->rows, p->tile->columns);
}

/* Which tile it is. Neighbouring blocks have the same columns, so that one of them reads these from memory. */
static void put_place(cu *c, const product *p)
{
	cu_line(c, "ix w = u;\n");
	cu_line(c, "const ix row0 = w %% down * %d; w /= down;\n", p->tile->rows);
	cu_line(c, "const ix column0 = w %% across * %d; w /= across;\n", p->tile->columns);
	put_dims(c, ~(p->x.rows | p->x.columns));
}

static bool is_load(const cu *c, const product *p, int side, uint32_t i)
{
	return lo_needed(&p->x.needs[side], i) && c->k->ins.v[i].op == LO_LOAD;
}

/* p<side>_<i>: the index of load i without its part in r, at each place of the thread. Places beyond the end are those of the last one, or
 * are not read (evenly). */
static void put_bases(cu *c, const product *p, int side)
{
	const operand *o = &p->side[side];
	for (uint32_t i = 0; i < p->x.dot; i++)
		if (is_load(c, p, side, i)) cu_line(c, "ix p%d_%u[%d];\n", side, i, o->places);
	if (o->along) cu_line(c, "const ix at%d = %s0 + threadIdx.x / %d;\n", side, side ? "column" : "row", DEPTH);
	else cu_line(c, "const ix at%d = %s0 + threadIdx.x %% %d;\n", side, side ? "column" : "row", o->extent);
	cu_line(c, "TJ_UNROLL for (int q = 0; q < %d; q++) {\n", o->places);
	cu_line(c, "const ix at = at%d + q * %d;\n", side, CU_THREADS / DEPTH);
	cu_line(c, "ix w = at < %s ? at : %s - 1;\n", side ? "columns" : "rows", side ? "columns" : "rows");
	put_dims(c, o->dims);
	for (uint32_t i = 0; i < p->x.dot; i++) {
		if (!is_load(c, p, side, i)) continue;
		const lo_index *x = &c->k->index.v[c->k->ins.v[i].index];
		cu_line(c, "p%d_%u[q] = ", side, i), cu_size(c, x->offset);
		for (int d = 0; d < c->k->ndim; d++)
			if (x->coef[d] && (c->k->dim[d] != 1)) rt_puts(c->out, " + (ix)"), cu_size(c, x->coef[d]), rt_putf(c->out, " * d%d", d);
		rt_puts(c->out, ";\n");
	}
	cu_line(c, "}\n");
}

/* The part of the index in r: windows jump every few steps of it. */
static void put_in_r(cu *c, const lo_index *x)
{
	rt_puts(c->out, "(ix)"), cu_size(c, x->rcoef);
	if (x->group) rt_putf(c->out, " * (r / %lld)", (long long)x->group);
	else rt_puts(c->out, " * r");
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) {
		rt_puts(c->out, " + (ix)"), cu_size(c, x->jump[j].by);
		rt_putf(c->out, " * (r / %lld)", (long long)x->jump[j].every);
	}
}

/* ---- steps ---- */
/* x<side>[q]: what the thread reads of the step that begins at `next`. */
static void put_reads(cu *c, const product *p, int side, void (*instruction)(cu *c, uint32_t i))
{
	const operand *o = &p->side[side];
	cu_line(c, "TJ_UNROLL for (int q = 0; q < %d; q++) {\n", o->each);
	if (o->along) cu_line(c, "const ix r = next + threadIdx.x %% %d;\n", DEPTH);
	else cu_line(c, "const ix r = next + threadIdx.x / %d + q * %d;\n", o->extent, CU_THREADS / o->extent);
	cu_line(c, "x%d[q] = %s;\n", side, rt_is_float(p->t) && side == 0 ? "-0.0" : "0");
	if (o->evenly < 0) cu_line(c, "if (r < red) {\n");
	else cu_line(c, "if (r < red && at%d + q * %d < %s) {\n", side, CU_THREADS / DEPTH, side ? "columns" : "rows");
	for (uint32_t i = 0; i < p->x.dot; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!lo_needed(&p->x.needs[side], i)) continue;
		if (in->op != LO_LOAD) {
			instruction(c, i);
			continue;
		}
		const lo_index *x = &c->k->index.v[in->index];
		cu_line(c, "const %s v%u = b%u[p%d_%u[%s] + ", cu_type((tj_dtype)in->dtype), i, in->buf, side, i, o->places > 1 ? "q" : "0");
		if (o->evenly >= 0) rt_putf(c->out, "q * %d * (ix)", CU_THREADS / DEPTH), cu_size(c, x->coef[o->evenly]), rt_puts(c->out, " + ");
		put_in_r(c, x);
		rt_puts(c->out, in->dtype == TJ_BOOL ? "] != 0;\n" : "];\n");
	}
	cu_line(c, "x%d[q] = v%u;\n", side, p->x.value[side]);
	cu_line(c, "}\n");
	cu_line(c, "}\n");
}

/* Stores them to the half of the tile that the next step multiplies. */
static void put_writes(cu *c, const product *p, int side)
{
	const operand *o = &p->side[side];
	cu_line(c, "TJ_UNROLL for (int q = 0; q < %d; q++) tile%d[(half * %d + ", o->each, side, DEPTH);
	if (o->along) rt_putf(c->out, "threadIdx.x %% %d) * %d + threadIdx.x / %d + q * %d]", DEPTH, o->pitch, DEPTH, CU_THREADS / DEPTH);
	else rt_putf(c->out, "threadIdx.x / %d + q * %d) * %d + threadIdx.x %% %d]", o->extent, CU_THREADS / o->extent, o->pitch, o->extent);
	rt_putf(c->out, " = x%d[q];\n", side);
}

static void put_products(cu *c, const product *p)
{
	const int rows = down(p->tile), columns = across(p->tile);
	const char *type = type_of(p->t);
	cu_line(c, "TJ_UNROLL for (int k = 0; k < %d; k++) {\n", DEPTH);
	cu_line(c, "%s x[%d], y[%d];\n", type, rows, columns);
	cu_line(c, "tj_load<true>(x, tile0 + ((half ^ 1) * %d + k) * %d + ty * %d, %d);\n", DEPTH, p->side[0].pitch, rows, rows);
	cu_line(c, "tj_load<true>(y, tile1 + ((half ^ 1) * %d + k) * %d + tx * %d, %d);\n", DEPTH, p->side[1].pitch, columns, columns);
	cu_line(c, "TJ_UNROLL for (int i = 0; i < %d; i++) {\n", rows);
	cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) {\n", columns);
	if (rt_is_float(p->t)) cu_line(c, "sum[i][j] = %s(x[i], y[j], sum[i][j]);\n", p->t == TJ_F32 ? "fmaf" : "fma");
	else cu_line(c, "sum[i][j] += x[i] * y[j];\n");
	cu_line(c, "}\n");
	cu_line(c, "}\n");
	cu_line(c, "}\n");
}

/* A loop over the sums of a thread. */
static void put_sums(cu *c, const product *p, const char *statement)
{
	cu_line(c, "TJ_UNROLL for (int i = 0; i < %d; i++) {\n", down(p->tile));
	cu_line(c, "TJ_UNROLL for (int j = 0; j < %d; j++) %s\n", across(p->tile), statement);
	cu_line(c, "}\n");
}

static void put_steps(cu *c, const product *p, void (*instruction)(cu *c, uint32_t i))
{
	const bool chunks = rt_is_float(p->t);
	const char *type = type_of(p->t);
	cu_line(c, "%s sum[%d][%d]", type, down(p->tile), across(p->tile));
	if (chunks) rt_putf(c->out, ", total[%d][%d]", down(p->tile), across(p->tile));
	rt_puts(c->out, ";\n");
	put_sums(c, p, chunks ? "sum[i][j] = 0, total[i][j] = red > 0 ? -0.0 : 0.0; /* -0 + sum is the sum */" : "sum[i][j] = 0;");
	cu_line(c, "TJ_ROLLED for (ix k0 = -%d; k0 < red; k0 += %d) {\n", DEPTH, DEPTH);
	cu_line(c, "const ix next = k0 + %d;\n", DEPTH);
	cu_line(c, "const int half = (int)(next / %d & 1);\n", DEPTH);
	cu_line(c, "%s x0[%d], x1[%d];\n", type, p->side[0].each, p->side[1].each);
	cu_line(c, "if (next < red) {\n");
	for (int i = 0; i < 2; i++) put_reads(c, p, i, instruction);
	cu_line(c, "}\n");
	cu_line(c, "if (k0 >= 0) {\n");
	put_products(c, p);
	if (chunks) {
		cu_line(c, "if (next %% %d == 0 || next >= red) {\n", IR_CHAIN);
		put_sums(c, p, "total[i][j] += sum[i][j], sum[i][j] = 0;");
		cu_line(c, "}\n");
	}
	cu_line(c, "}\n");
	cu_line(c, "if (next < red) {\n");
	for (int i = 0; i < 2; i++) put_writes(c, p, i);
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "}\n");
}

/* ---- what follows the product ---- */
/* The sections without loop, for each element of the tile. */
static void put_results(cu *c, const product *p, void (*instruction)(cu *c, uint32_t i))
{
	const tile *t = p->tile;
	const char *type = type_of(p->t);
	cu_line(c, "%s *const all = (%s *)tj_shared;\n", type, type);
	cu_line(c, "TJ_UNROLL for (int i = 0; i < %d; i++) tj_store<true>(all + (ty * %d + i) * %d + tx * %d, %s[i], %d);\n", down(t),
	        down(t), t->columns, across(t), rt_is_float(p->t) ? "total" : "sum", across(t));
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "const ix column = column0 + threadIdx.x %% %d;\n", t->columns);
	cu_line(c, "if (column < columns) {\n");
	cu_line(c, "ix w = column;\n");
	put_dims(c, p->x.columns);
	cu_line(c, "TJ_ROLLED for (int i = threadIdx.x / %d; i < %d && row0 + i < rows; i += %d) {\n", t->columns, t->rows,
	        CU_THREADS / t->columns);
	cu_line(c, "ix w = row0 + i;\n");
	put_dims(c, p->x.rows);
	cu_line(c, "const %s v%u = all[i * %d + threadIdx.x %% %d];\n", cu_type(p->t), p->x.dot, t->columns, t->columns);
	for (uint32_t s = 0; s < c->k->section.n; s++) {
		c->at = &c->k->section.v[s];
		for (uint32_t i = c->at->first; !c->at->loop && i < c->at->first + c->at->count; i++) instruction(c, i);
	}
	cu_line(c, "}\n");
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
}

void cu_product(cu *c, void (*instruction)(cu *c, uint32_t i))
{
	const product p = product_of(c->k, c->s);
	put_head(c, &p);
	cu_line(c, "TJ_ROLLED for (ix u = blockIdx.x; u < (ix)a.units; u += gridDim.x) {\n");
	put_place(c, &p);
	for (int i = 0; i < 2; i++) put_bases(c, &p, i);
	put_steps(c, &p, instruction);
	put_results(c, &p, instruction);
	cu_line(c, "}\n");
}
