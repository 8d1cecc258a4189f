/* SPDX-License-Identifier: MIT */
/* lanes: how many lanes a section has.
 *
 *   one register       long bodies, and element-wise ones
 *   several registers  short bodies of reductions, whose accumulators then stay in registers; one long chain of operations
 *   fewer lanes        dimensions shorter than a register
 *
 * And which loops a row of a unit needs: one over whole vectors, one for the tail. */
#include "codegen_llvm/recipe.h"
#include "ir/tree.h"

static int64_t round_pow2(int64_t n)
{
	int64_t p = 1;
	while (p < n) p *= 2;
	return p;
}

static int64_t round_down_pow2(int64_t n)
{
	const int64_t p = round_pow2(n);
	return p > n ? p / 2 : p;
}

static int smaller(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Bytes of the vectors' elements that decide how many lanes there are; 1 if nothing is wider. What nobody reads does not count, nor what a
 * sum of bytes replaces. */
static size_t widest(const cg_recipe *h)
{
	size_t most = 1;
	uint8_t *wanted = rt_calloc(h->k->ins.n + 1u);
	for (uint32_t i = h->k->ins.n; wanted && i-- > 0;) {
		const lo_ins *in = &h->k->ins.v[i];
		const bool sums = cg_sums_bytes(h, in), effect = in->op == LO_STORE || in->op == LO_FAULT || in->op == LO_REDUCE || in->op == LO_PART;
		if (!wanted[i] && !effect) continue;
		if (sums) wanted[h->k->ins.v[in->src[0]].src[0]] = 1;
		for (int s = 0; s < in->nsrc && !sums; s++) wanted[in->src[s]] = 1;
		if (in->dyn != LO_NOREF) wanted[cg_table_size(h, in) ? cg_index_of(h->k, in) : in->dyn] = 1;
		const size_t bytes = sums ? 1 : tj_dtype_size((tj_dtype)in->dtype);
		if ((h->of[i].varies || effect) && bytes > most) most = bytes;
	}
	rt_free(wanted);
	return wanted ? most : sizeof(float);
}

/* Lanes of one register: as many of 32 bits as it holds; where all vectors are narrower, of 8 or 16. The largest of three i16 takes 0.78 of
 * the time with 256 bits, and the same with 512 (Zen 4, in the second cache). */
static int register_lanes(const cg_recipe *h)
{
	const size_t most = widest(h);
	return h->bits / 8 / (int)(most < sizeof(float) ? most : sizeof(float));
}

static bool has_doubles(const lo_kernel *k)
{
	bool any = false;
	for (uint32_t i = 0; i < k->ins.n; i++) any |= k->ins.v[i].dtype == TJ_F64;
	return any;
}

static int registers_of(const lo_ins *in) { return tj_dtype_size((tj_dtype)in->dtype) == 8 ? 2 : 1; }

static int access_cost(const cg_recipe *h, const lo_ins *in)
{
	enum { FAR = 16 };
	const lo_index *x = &h->k->index.v[in->index];
	int64_t step = h->of[in - h->k->ins.v].aside ? 1 : cg_rows(h) ? x->rcoef : x->coef[h->k->ndim - 1];
	if (in->dyn != LO_NOREF) return FAR;
	if (step == 0 || step == 1) return registers_of(in);
	if (in->op == LO_STORE || step > CG_NEAR_STEP || step < -CG_NEAR_STEP) return FAR;
	return 2 * registers_of(in) * (int)(step < 0 ? -step : step);
}

/* Work of a section's body, in vector instructions. */
static int cost(const cg_recipe *h, const lo_section *s)
{
	int n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (h->of[i].place != CG_BODY && in->op != LO_REDUCE) continue;
		n += in->op == LO_LOAD || in->op == LO_STORE ? access_cost(h, in) : registers_of(in);
	}
	return n;
}

/* Few elements, most of them far apart, as at the edges of a grid: vectors of them would be gathered and scattered, which saves no time and
 * takes LLVM three times as long. */
static bool is_sparse(const cg_recipe *h, int64_t elements)
{
	enum { FEW = 1 << 17 };
	int far = 0, near = 0;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if ((in->op != LO_LOAD && in->op != LO_STORE) || h->of[i].place != CG_BODY) continue;
		*(access_cost(h, in) > 8 ? &far : &near) += 1;
	}
	return far > near && elements * h->k->ins.n < FEW;
}

static int reductions(const cg_recipe *h, const lo_section *s, int64_t *widest)
{
	int n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if ((in->op != LO_REDUCE && in->op != LO_PART) || cg_same_search(h->k, s->first, i)) continue;
		n++;
		if (in->tree == LO_TREE_NONE || !rt_is_float((tj_dtype)in->dtype)) continue;
		int64_t lanes = ir_tree_lanes((tj_dtype)in->dtype);
		if (lanes > *widest) *widest = lanes;
	}
	return n;
}

enum { SHORT = 8 }; /* longest short body of a loop over r */

/* Lanes along r. A short body with one or two sums takes all lanes of the tree, so that they stay in registers. */
static int section_lanes(const cg_recipe *h, const lo_section *s)
{
	int base = register_lanes(h);
	bool known = !lo_is_sym(h->k->red);
	int64_t tree = 0, r = round_pow2(known ? h->k->red : IR_TREE_LANES(sizeof(float)));
	int n = reductions(h, s, &tree);
	if (known && r <= base) return (int)r;
	if (n > 2 || cost(h, s) > SHORT) return base;
	if (!tree) return n == 1 ? smaller(4 * base, r) : base; /* no order: several independent accumulators */
	int wide = smaller(smaller(tree, r), 8 * base);
	return wide > base ? wide : base;
}

/* ---- chains ---- */
typedef struct chain {
	int work, depth, live;
} chain; /* vector instructions, the longest path, values alive at once */

/* Only for kernels without loops. last: by instruction, its last user. */
static chain measure(const cg_recipe *h, int *depth, uint32_t *last)
{
	const lo_kernel *k = h->k;
	chain r = { 0, 0, 0 };
	int alive = 0;
	for (uint32_t i = 0; i < k->ins.n; i++)
		for (int s = 0; s < k->ins.v[i].nsrc; s++) last[k->ins.v[i].src[s]] = i;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (h->of[i].place != CG_BODY) continue;
		r.work++;
		depth[i] = 1;
		alive += in->op != LO_STORE;
		for (int s = 0; s < in->nsrc; s++) {
			uint32_t src = in->src[s];
			if (h->of[src].place != CG_BODY) continue;
			if (depth[src] >= depth[i]) depth[i] = depth[src] + 1;
			if (last[src] == i && (s == 0 || in->src[s - 1] != src)) alive--;
		}
		if (depth[i] > r.depth) r.depth = depth[i];
		if (alive > r.live) r.live = alive;
	}
	return r;
}

/* The only dimension is a symbol, so the code may later run on many elements. With several dimensions the last one may always be short. */
static bool any_size(const lo_kernel *k) { return k->ndim == 1 && lo_is_sym(k->dim[0]); }

static int64_t elements(const lo_kernel *k)
{
	int64_t n = 1;
	for (int d = 0; d < k->ndim; d++) n *= lo_size(k, k->dim[d]);
	return n;
}

/* In a long dependency chain each operation waits for the one before it, and execution units idle. Several vectors side by side, as many
 * as registers allow, fill the gaps. Measured: four vectors take 0.87 of the time of one for exp, gelu and tanh, 0.75 for 70 ops in a row.
 * With 32 registers of 512 bits and few live values, eight take 0.87 of the time of four, and 0.75 for 1,024 elements of 43 ops. With 16
 * registers of 256 bits eight take 1.2 times as long as four (chain30 of 1M). Kernels with few elements gain less than the larger code
 * costs to compile.
 *
 * An iteration of gelu has more ops in a row than the CPU looks ahead, so the next one starts late. In f32 twice as many vectors as
 * registers hold take 0.7 (gelu of gelu, softplus) to 0.9 of the time, though some values go to the stack; f64 takes 1.1 to 1.2 of it
 * (gelu, log), and so does log1p, which is no single chain. */
static int side_by_side(const cg_recipe *h)
{
	enum { LONG = 20, REGISTERS = 36, MOST = 8, FEW = 4, MOST_256 = 4, MOST_WORK = 400, ENOUGH = 40000, MANY = 4 << 20 };
	uint32_t n = h->k->ins.n + 1;
	int *depth = rt_calloc(n * sizeof *depth), factor = 1;
	uint32_t *last = rt_calloc(n * sizeof *last);
	if (depth && last) {
		chain x = measure(h, depth, last);
		const bool waits = x.work >= LONG && x.work <= 2 * x.depth && (any_size(h->k) || elements(h->k) >= ENOUGH / x.work);
		const bool many = h->bits == 512 && !has_doubles(h->k) && elements(h->k) >= MANY / (x.work + 1), one_chain = 3 * x.work <= 5 * x.depth;
		while (waits && factor < (h->bits < 512 ? MOST_256 : MOST)) {
			const int twice = many && (factor < FEW || one_chain) ? 2 : 1;
			if (2 * factor * x.live > twice * REGISTERS || 2 * factor * x.work > twice * MOST_WORK) break;
			factor *= 2;
		}
	}
	rt_free(depth);
	rt_free(last);
	return factor;
}

/* Lanes along d. Short bodies of column sums take a strip of several registers. Where several loops go down a strip and keep values
 * between them, a strip of two cache lines pays from strip_elems on: a softmax of columns takes 0.65 of the time with one register of
 * 512 bits, and 0.4 of the time with one of 256 bits. Such code takes twice as long to compile. */
static int base_lanes(const cg_recipe *h)
{
	int64_t last = h->k->dim[h->k->ndim - 1], size = lo_size(h->k, last), block = lo_size(h->k, h->s->block), tree = 0;
	int base = register_lanes(h), work = 0, lanes;
	if (!h->k->reduces && !any_size(h->k) && is_sparse(h, elements(h->k))) return 1;
	bool any = false, strips = h->s->scratch && elements(h->k) * lo_size(h->k, h->k->red) >= h->s->target->strip_elems;
	for (uint32_t s = 0; s < h->k->section.n; s++) {
		any |= h->k->section.v[s].loop;
		reductions(h, &h->k->section.v[s], &tree);
		if (h->k->section.v[s].loop) work += cost(h, &h->k->section.v[s]); /* point sections are not counted: they have few values */
	}
	if (any) lanes = work <= 8 ? 8 * base : strips ? 4 * base : work <= 16 ? 2 * base : base;
	else lanes = (any_size(h->k) || size >= 64 * base) && block >= 8 * base ? base * side_by_side(h) : base;
	const int64_t row = h->overlaps ? round_down_pow2(size) : round_pow2(size);
	const int64_t part = h->overlaps ? round_down_pow2(block) : round_pow2(block);
	if (!lo_is_sym(h->s->block)) lanes = smaller(lanes, part);
	lanes = smaller(lanes, h->s->scratch ? h->s->target->kept_rows : 128);
	return lo_is_sym(last) ? lanes : smaller(lanes, row);
}

/* Where vectors have several registers, the tail takes one register at a time: it is half of the text, and LLVM splits each wide vector.
 * With 256 bits such a kernel of 15 ops then compiles in 0.6 of the time. With 512 bits the tail stays wide: a mask of several
 * registers is cheap there, and code generation is fast enough. */
static int tail_lanes(const cg_recipe *h)
{
	int base = register_lanes(h);
	return h->form == CG_ALONG_D && h->bits < 512 && !h->k->reduces && h->lanes > base ? base : h->lanes;
}

void cg_find_lanes(cg_recipe *h)
{
	h->lanes = cg_rows(h) ? 1 : h->form == CG_PRODUCT ? h->bits / 32 : base_lanes(h);
	for (uint32_t s = 0; cg_rows(h) && s < h->k->section.n; s++)
		h->loop_lanes[s] = h->k->section.v[s].loop ? section_lanes(h, &h->k->section.v[s]) : 1;
}

/* ---- the loops of a row ---- */
/* With unknown sizes all of them, each with a check for an empty range. */
static cg_span span_of_block(const cg_recipe *h)
{
	const int64_t n = h->lanes, last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	if (lo_is_sym(last) || lo_is_sym(block)) return (cg_span){ true, n > 1, true, true };
	const int64_t rest = last % block;
	cg_span s = { .main = block >= n && last >= n, .tail = block % n || last % n, .guard_main = rest && rest < n };
	s.guard_tail = s.main && (block < last || last % n == 0);
	return s;
}

/* A row of a tile begins anywhere. */
static cg_span span_of_tile(const cg_recipe *h)
{
	const int64_t n = h->lanes, last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	if (lo_is_sym(last) || lo_is_sym(block)) return (cg_span){ true, true, true, true };
	const bool main = last >= n && block >= n;
	return (cg_span){ .main = main, .tail = last % n || (block < last && block % n), .guard_main = true, .guard_tail = main };
}

/* Tables and sums of bytes have the lanes of the loop. */
static bool narrows(const cg_recipe *h)
{
	bool is_long = false;
	if (widest(h) == 1 || lo_is_sym(h->k->red)) return false;
	for (uint32_t i = 0; i < h->k->ins.n; i++)
		if (cg_sums_bytes(h, &h->k->ins.v[i])) return false;
	for (uint32_t s = 0; s < h->k->section.n; s++) is_long |= h->k->section.v[s].loop && cost(h, &h->k->section.v[s]) > SHORT;
	return is_long;
}

/* Behind loops over r, one of them with a long body: as many lanes as there are elements left, rounded up to 2^k, since half a register
 * takes half the time. Rows of 20: softmax and sums of exp take 0.8 of the time. Short bodies gain nothing. All loops do it, because a
 * vector cannot be loaded at once from where half of one was stored. */
static void find_loop_tails(cg_recipe *h)
{
	enum { LEAST = 4 };
	const bool narrow = narrows(h);
	for (uint32_t s = 0; s < h->k->section.n; s++) {
		const int lanes = h->loop_lanes[s];
		const int64_t rest = narrow && h->k->section.v[s].loop ? h->k->red % lanes : 0, few = round_pow2(rest > LEAST ? rest : LEAST);
		h->loop_tails[s] = rest ? smaller(few, lanes) : lanes;
	}
}

/* Rows of known length that leave 2^k elements take those, without absent lanes: of pixels of three bytes two and one. */
static void find_exact(cg_recipe *h)
{
	const int64_t last = h->k->dim[h->k->ndim - 1];
	if (!h->overlaps || h->form != CG_ALONG_D || lo_is_sym(last) || lo_is_sym(h->s->block) || h->s->block < last) return;
	const int64_t rest = last % h->lanes;
	if (!rest || (rest & (rest - 1))) return;
	h->tail_lanes = (int)rest;
	h->overlaps = false;
	h->exact = true;
}

void cg_find_tail(cg_recipe *h)
{
	h->tail_lanes = tail_lanes(h);
	if (cg_rows(h)) find_loop_tails(h);
	find_exact(h);
	if (!cg_rows(h)) h->span = h->form == CG_TILES ? span_of_tile(h) : span_of_block(h);
}
