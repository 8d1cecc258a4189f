/* SPDX-License-Identifier: MIT */
/* shape: how many threads share a unit of a kernel, and what each of them takes. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

int64_t cu_chunk_of(const lo_kernel *k, const lo_ins *in)
{
	const tj_dtype t = (tj_dtype)k->ins.v[in->src[0]].dtype;
	if (!rt_is_float(t) || in->imm >= LO_RED_ARGMAX) return 0;
	switch ((lo_tree)in->tree) {
	case LO_TREE_ROW: return ir_tree_lanes(t) * IR_TREE_ROWS;
	case LO_TREE_PARTS: return ir_tree_lanes(t);
	case LO_TREE_COLUMN: return IR_TREE_COLUMN_ROWS;
	case LO_TREE_PAIRS: return 1;
	case LO_TREE_NONE: case LO_TREE_CHAIN: case LO_TREE_FAST: break;
	}
	return 0;
}

static bool reduces(const lo_ins *in) { return in->op == LO_REDUCE || in->op == LO_PART; }

/* ---- the rows of a warp ---- */
/* A warp reads as many elements at a time as the narrowest tree of the kernel has lanes. */
static void lanes(const lo_kernel *k, cu_shape *x)
{
	int64_t lanes = IR_TREE_LANES(sizeof(float)), chunk = 0;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (!reduces(in)) continue;
		const int64_t each = cu_chunk_of(k, in), n = ir_tree_lanes((tj_dtype)k->ins.v[in->src[0]].dtype);
		if (each && n < lanes) lanes = n;
		if (each > chunk) chunk = each;
	}
	x->step = lanes;
	x->elems = (int)(lanes / CU_WARP);
	x->chunk = chunk ? chunk : lanes * IR_TREE_ROWS;
}

/* Chunks for each warp: a power of two, so that a warp's chunks are a subtree. */
static void share_chunks(cu_shape *x, int64_t red)
{
	const int64_t chunks = (red - 1) / x->chunk + 1;
	while (x->warps < CU_MOST_WARPS * CU_WARP / x->span && x->warps < chunks) x->warps *= 2;
	for (x->per = 1; (int64_t)x->per * x->warps < chunks && x->per < CU_MOST_PER;) x->per *= 2;
	if ((int64_t)x->per * x->warps < chunks) x->per = 0;
}

/* A row that is shorter than a row of lanes takes some threads of a warp; each has `elems` lanes, and the halving needs at least so many.
 */
static void share_warp(cu_shape *x, int64_t red)
{
	while (x->span > x->elems && red * 2 <= (int64_t)x->span * x->elems) x->span /= 2;
}

/* ---- rows that several loops read ---- */
static bool same_row(const lo_kernel *k, const lo_ins *a, const lo_ins *b)
{
	return a->op == LO_LOAD && b->op == LO_LOAD && a->buf == b->buf && a->dyn == LO_NOREF && b->dyn == LO_NOREF &&
	       !memcmp(&k->index.v[a->index], &k->index.v[b->index], sizeof(lo_index));
}

const cu_held *cu_held_at(const lo_kernel *k, const cu_shape *x, const lo_ins *in)
{
	for (int h = 0; h < x->nheld; h++)
		if (same_row(k, &k->ins.v[x->held[h].ins], in)) return &x->held[h];
	return NULL;
}

/* The last loop that reads the row of load i; 0: no later one than i's own. Loops are numbered from 1. */
static uint32_t read_again(const lo_kernel *k, uint32_t i)
{
	uint32_t own = 0, last = 0;
	for (uint32_t s = 0; s < k->section.n; s++) {
		const lo_section *x = &k->section.v[s];
		for (uint32_t n = x->first; x->loop && n < x->first + x->count; n++) {
			if (n == i) own = s + 1;
			if (same_row(k, &k->ins.v[n], &k->ins.v[i])) last = s + 1;
		}
	}
	return own && last > own ? last : 0;
}

/* A KEPT buffer that gets its row in the loop that reads the held row last, in elements of the same size: both can have one place. */
static uint32_t place_of(const lo_kernel *k, const cu_shape *x, uint32_t i, uint32_t last)
{
	const lo_section *s = &k->section.v[last - 1];
	for (uint32_t n = s->first; n < s->first + s->count; n++) {
		const lo_ins *in = &k->ins.v[n];
		bool taken = in->op != LO_STORE || k->buf.v[in->buf].role != LO_KEPT ||
		             tj_dtype_size((tj_dtype)in->dtype) != tj_dtype_size((tj_dtype)k->ins.v[i].dtype);
		for (int h = 0; h < x->nheld; h++) taken |= x->held[h].kept == in->buf;
		if (!taken) return in->buf;
	}
	return LO_NOREF;
}

static void hold_rows(const lo_kernel *k, const lo_schedule *s, cu_shape *x, size_t room)
{
	for (uint32_t i = 0; i < k->ins.n && x->nheld < CU_HELD; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_LOAD || k->buf.v[in->buf].role == LO_KEPT || k->index.v[in->index].rcoef != 1 || cu_held_at(k, x, in)) continue;
		const uint32_t last = read_again(k, i), kept = last ? place_of(k, x, i, last) : LO_NOREF;
		const size_t bytes = (size_t)((k->red - 1) / x->step + 1) * (size_t)x->step * tj_dtype_size((tj_dtype)in->dtype);
		const bool fits = x->in_registers || kept != LO_NOREF || x->own + bytes + s->shared <= room;
		if (!last || !fits) continue;
		x->held[x->nheld++] = (cu_held){ i, kept, x->own };
		if (!x->in_registers && kept == LO_NOREF) x->own += (bytes + 15) / 16 * 16;
	}
}

/* ---- shared memory ---- */
size_t cu_join_bytes(const cu_shape *x)
{
	if (x->warps < 2) return 0;
	return x->walk == CU_ROWS ? (size_t)x->warps * IR_TREE_BYTES : (size_t)x->warps * 2 * sizeof(double);
}

size_t cu_stack_bytes(const cu_shape *x) { return x->walk == CU_ROWS ? (size_t)CU_LEVELS * IR_TREE_BYTES : CU_LEVELS * sizeof(double); }

static int most_stacks(const lo_kernel *k)
{
	int most = 0;
	for (uint32_t s = 0; s < k->section.n; s++) {
		int n = 0;
		for (uint32_t i = k->section.v[s].first; i < k->section.v[s].first + k->section.v[s].count; i++) n += reduces(&k->ins.v[i]);
		if (n > most) most = n;
	}
	return most;
}

/* ---- tiles ---- */
/* The dimension along which the load is contiguous, if it is not the last one; -1: none, or the load goes along the last. */
static int side_of(const lo_kernel *k, const lo_ins *in)
{
	const int64_t *coef = k->index.v[in->index].coef;
	const int last = k->ndim - 1;
	if (in->op != LO_LOAD || in->dyn != LO_NOREF || coef[last] == 0 || coef[last] == 1 || lo_size(k, k->dim[last]) < CU_SIDE / 2) return -1;
	for (int d = 0; d < last; d++)
		if (coef[d] == 1 && lo_size(k, k->dim[d]) >= CU_SIDE / 2) return d;
	return -1;
}

size_t cu_tile_bytes(const lo_ins *in) { return (CU_PITCH * CU_SIDE * tj_dtype_size((tj_dtype)in->dtype) + 15) / 16 * 16; }
bool cu_is_tiled(const cu *c, const lo_ins *in) { return c->shape.walk == CU_TILES && side_of(c->k, in) == c->shape.side; }

/* A kernel without reductions: tiles, if its stores go along the last dimension and few of its loads along another one. */
static void tiles(const lo_kernel *k, cu_shape *x)
{
	enum { MOST = 40 << 10 };
	size_t bytes = 0;
	int side = -1;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op == LO_STORE && (in->dyn != LO_NOREF || k->index.v[in->index].coef[k->ndim - 1] != 1)) return;
		if (side < 0) side = side_of(k, in);
		if (side >= 0 && side_of(k, in) == side) bytes += cu_tile_bytes(in);
	}
	if (side < 0 || bytes > MOST) return;
	x->walk = CU_TILES;
	x->side = side;
	x->own = (bytes - 1) / CU_THREADS + 1; /* a block takes a tile, about as many units as it has threads */
}

/* ---- shapes ---- */
/* Elements of the longest row that can be kept in registers; 0: none is kept there. */
static int64_t most_kept_here(const lo_kernel *k, const lo_schedule *s)
{
	int64_t most = 0;
	for (uint32_t i = 0; i < s->kept.n; i++) {
		const int64_t n = CU_REGISTER_BYTES / (int64_t)tj_dtype_size((tj_dtype)k->buf.v[s->kept.v[i].buf].dtype);
		if (s->kept.v[i].where == LO_REGISTERS && (!most || n < most)) most = n;
	}
	return most;
}

static void rows(const lo_kernel *k, const lo_schedule *s, cu_shape *x)
{
	const int64_t red = s->part ? s->part : k->red;
	const bool known = !lo_is_sym(red);
	const int64_t most = most_kept_here(k, s);
	const bool kept_here = most > 0;
	lanes(k, x);
	if (kept_here) x->per = 1; /* its row is less than a chunk */
	else if (known) share_chunks(x, red);
	else x->warps = CU_UNKNOWN_WARPS;
	x->rows = (int)(x->chunk / x->step);
	if (known && red < x->chunk) x->rows = (int)((red - 1) / x->step) + 1;
	if (!known && kept_here) x->rows = (int)((most - 1) / x->step) + 1;
	if (known && x->rows == 1) share_warp(x, red);
	x->whole = !lo_is_sym(k->red) && k->red % x->elems == 0;
	x->in_registers = kept_here || (known && x->rows <= CU_REGISTER_ROWS && !s->kept.n);
}

/* A thread stores 16 bytes of the widest element. Sizes must not decide it: kernels that differ in sizes share code. */
int cu_elems(const lo_kernel *k)
{
	int64_t size = 1;
	if (k->reduces || lo_size(k, k->dim[k->ndim - 1]) <= 1) return 1;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		const int64_t s = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		if ((in->op == LO_STORE || in->op == LO_LOAD) && s > size) size = s;
	}
	return (int)(16 / size < 8 ? 16 / size : 8);
}

int64_t cu_least_load(const lo_kernel *k)
{
	int64_t size = sizeof(double);
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_LOAD && (int64_t)tj_dtype_size((tj_dtype)k->ins.v[i].dtype) < size)
			size = (int64_t)tj_dtype_size((tj_dtype)k->ins.v[i].dtype);
	return size;
}

/* Few columns of many rows: a warp reads a sector of memory of each of several rows, so there are more blocks and more threads to a column.
 */
static void narrow(const lo_kernel *k, const lo_schedule *s, int64_t red, cu_shape *x)
{
	enum { BLOCKS = 264 };
	const int64_t all = lo_units(k, s), size = cu_least_load(k);
	while (x->span * size > CU_SECTOR && all / x->span < BLOCKS && red > CU_MOST_WARPS * x->chunk * (CU_WARP / x->span)) x->span /= 2;
}

/* What parts have left is little, and each element is a chunk: warps take fewer rows at a time. */
static bool joins_parts(const lo_kernel *k)
{
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (reduces(&k->ins.v[i]) && k->ins.v[i].tree == LO_TREE_PAIRS) return true;
	return false;
}

static void columns(const lo_kernel *k, const lo_schedule *s, cu_shape *x)
{
	enum { FEW_ROWS = 8 };
	const int64_t red = s->part ? s->part : k->red;
	x->rows = joins_parts(k) ? FEW_ROWS : IR_TREE_COLUMN_ROWS;
	x->chunk = x->rows;
	x->elems = 1;
	x->step = 1;
	if (lo_is_sym(red)) x->warps = CU_UNKNOWN_WARPS;
	else {
		narrow(k, s, red, x);
		share_chunks(x, red);
	}
}

/* As many units as 256 threads take, or as shared memory has room for. */
static void fill_block(const lo_schedule *s, cu_shape *x, size_t room)
{
	const int each = x->walk == CU_ROWS ? x->warps * x->span : x->warps;
	x->units = x->warps > 1 ? (x->walk == CU_ROWS ? 1 : x->span) : CU_THREADS / each;
	while (x->units > CU_WARP / x->span && x->walk == CU_ROWS && (size_t)x->units * (x->own + s->shared) > room) x->units /= 2;
	x->threads = x->units * each;
}

cu_shape cu_shape_of(const lo_kernel *k, const lo_schedule *s)
{
	cu_shape x = { .walk = s->vec == LO_VEC_R ? CU_ROWS : CU_COLUMNS, .warps = 1, .span = CU_WARP };
	const size_t room = (size_t)s->target->shared_bytes + CU_RESERVED;
	if (s->vec == LO_VEC_TILE) {
		x.walk = CU_PRODUCT;
		x.elems = x.units = 1;
		x.threads = CU_THREADS;
		x.own = cu_product_bytes(k, s);
		return x;
	}
	if (!k->reduces) {
		x.walk = CU_POINTS;
		x.elems = cu_elems(k);
		x.units = x.threads = CU_THREADS;
		tiles(k, &x);
		return x;
	}
	if (x.walk == CU_ROWS) rows(k, s, &x);
	else columns(k, s, &x);
	x.own = cu_join_bytes(&x);
	if (!x.per) x.own += cu_stack_bytes(&x) * (size_t)most_stacks(k);
	if (x.walk == CU_ROWS && !s->part && !lo_is_sym(k->red)) hold_rows(k, s, &x, room);
	fill_block(s, &x, room);
	return x;
}
