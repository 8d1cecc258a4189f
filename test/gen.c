/* SPDX-License-Identifier: MIT */
/* gen: random operands and ops, executors, comparison. */
#include "test/gen.h"
#include "codegen_cuda/cuda.h"
#include "runtime/settings.h"
#include "test/mock.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

const char *const gen_layout_name[GEN_LAYOUTS] = { "row-major", "transposed", "step2", "negative", "offset1", "expanded", "odd1" };

enum { PAGE = 4096, MARGIN = 64 };
#define MARGIN_BYTE 0xA5

/* ---- random numbers: splitmix64 ---- */
uint64_t gen_next(gen *G)
{
	uint64_t z = (G->rng += 0x9E3779B97F4A7C15u);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

int64_t gen_below(gen *G, int64_t n) { return n > 0 ? (int64_t)(gen_next(G) % (uint64_t)n) : 0; }
bool gen_chance(gen *G, int percent) { return gen_below(G, 100) < percent; }
static int64_t between(gen *G, int64_t lo, int64_t hi) { return lo + gen_below(G, hi - lo + 1); }

tj_dtype gen_dtype(gen *G)
{
	if (G->rare != TJ_BOOL && gen_chance(G, 80)) return G->rare;
	return (tj_dtype)gen_below(G, TJ_DTYPE_COUNT);
}

void gen_init(gen *G, ir_graph *g, uint64_t seed)
{
	*G = (gen){ .g = g, .rare = TJ_BOOL, .rng = seed, .layout = -1, .content = -1, .lib_f32 = true, .numbers = true };
	ir_graph_init(g);
	ir_graph_init(&G->raw);
	G->raw.raw = true;
}

void gen_free(gen *G)
{
	for (uint32_t i = 0; i < G->slot.n; i++) munmap(G->slot.v[i].map, G->slot.v[i].mapped);
	rt_vec_free(&G->slot);
	rt_vec_free(&G->num);
	rt_vec_free(&G->num_of);
	rt_vec_free(&G->step);
	rt_vec_free(&G->value);
	rt_vec_free(&G->raw_of);
	ir_graph_free(&G->raw);
	ir_graph_free(G->g);
}

/* ---- the raw graph, without simplification ---- */
static ir_ref pair(gen *G, ir_ref r, ir_ref raw)
{
	while (G->raw_of.n <= r)
		if (!rt_push(&G->raw_of, IR_NONE)) abort();
	G->raw_of.v[r] = raw;
	return r;
}

static ir_ref raw_emit(gen *G, ir_op op, int nsrc, const ir_ref *src, int nattr, const int64_t *attr)
{
	ir_ref in[8];
	ir_meta m[8], out;
	uint8_t want[8];
	for (int k = 0; k < nsrc; k++) {
		in[k] = G->raw_of.v[src[k]];
		m[k] = ir_meta_of(&G->raw, in[k]);
	}
	if (ir_infer(op, nsrc, m, nattr, attr, &out, NULL, NULL, want, &G->raw.err) != TJ_OK) abort();
	for (int k = 0; k < nsrc; k++)
		if (want[k] != m[k].dtype) in[k] = ir_operand(&G->raw, op, in[k], (tj_dtype)want[k], NULL);
	return ir_emit(&G->raw, op, nsrc, in, nattr, attr, NULL);
}

bool gen_is_tuple(const gen *G, const gen_step *s) { return ir_is_tuple(ir_at(G->g, s->result)); }

static ir_ref get(gen *G, const gen_step *tuple, int i)
{
	gen_step s = { .op = IR_get, .nsrc = 1, .src = { tuple->result }, .nattr = 1, .attr = { i } };
	s.result = ir_get(G->g, tuple->result, i, "gen.c:6");
	s.raw = ir_get(&G->raw, tuple->raw, i, NULL);
	if (s.result == IR_NONE || s.raw == IR_NONE || !rt_push(&G->step, s)) abort();
	return pair(G, s.result, s.raw);
}

/* The results that are used: G->want, or random ones. */
static ir_ref get_some(gen *G, ir_op op)
{
	uint32_t at = G->step.n - 1, all = (1u << ir_ops[op].nresult) - 1;
	uint32_t want = G->want ? G->want & all : gen_chance(G, 60) ? all : 1u << gen_below(G, ir_ops[op].nresult);
	ir_ref r = IR_NONE;
	G->step.v[at].want = want;
	for (int i = 0; i < ir_ops[op].nresult; i++) {
		if (!(want >> i & 1)) continue;
		const gen_step tuple = G->step.v[at];
		if (r != IR_NONE) G->also[G->nalso++] = r;
		r = get(G, &tuple, i);
	}
	for (int k = 0; G->value.n && k < G->nalso; k++)
		if (!rt_push(&G->value, G->also[k])) abort();
	return r;
}

static ir_ref emit(gen *G, ir_op op, int nsrc, const ir_ref *src, int nattr, const int64_t *attr)
{
	G->nalso = 0;
	gen_step s = { .op = op, .nsrc = nsrc, .nattr = nattr };
	memcpy(s.src, src, sizeof *src * (size_t)nsrc);
	if (nattr) memcpy(s.attr, attr, sizeof *attr * (size_t)nattr);
	s.result = ir_emit(G->g, op, nsrc, src, nattr, attr, "gen.c:5");
	s.raw = raw_emit(G, op, nsrc, src, nattr, attr);
	if (s.result == IR_NONE || s.raw == IR_NONE || !rt_push(&G->step, s)) abort();
	pair(G, s.result, s.raw);
	return ir_ops[op].nresult > 1 ? get_some(G, op) : s.result;
}

static ir_ref constant(gen *G, tj_dtype t, double v)
{
	return pair(G, ir_const_f(G->g, t, 0, NULL, v), ir_const_f(&G->raw, t, 0, NULL, v));
}

static ir_ref number(gen *G, tj_dtype t, uint32_t slot)
{
	return pair(G, ir_num_(G->g, t, (int)slot, "gen.c:2"), ir_num_(&G->raw, t, (int)slot, NULL));
}

/* ---- elements ---- */
static const double specials[] = {
	NAN,
	INFINITY,
	-INFINITY,
	0.0,
	-0.0,
	0x1p-149,
	-0x1p-149,
	0x1p-1074,
	0x1.fffffcp-127,
	-0x1p-1060,
	FLT_MIN,
	-FLT_MIN,
	DBL_MIN,
	FLT_MAX,
	-FLT_MAX,
	DBL_MAX,
	-DBL_MAX,
	1,
	-1,
	0.5,
	-0.5,
	1.5,
	2.5,
	-2.5,
	3,
	-3,
	255,
	256,
	300,
	-1.5,
	0x1p31,
	-0x1p31,
	0x1p31 - 1,
	0x1p32,
	0x1p63,
	-0x1p63,
	0x1p64,
	1e30,
	-1e30,
	88.8,
	-87.5,
	-104,
	709.9,
	-745.2,
	1e-30,
	0x1p24,
	0x1p53,
	3.14159265358979,
	1.57079632679490,
	0x1.921fb6p+0,
	1e5,
	1e10,
	-7,
	7,
	65504,
	65519,
	-65520,
	0x1p-14,
	0x1.ff8p-15,
	0x1p-24,
	-0x1p-25,
	0x1.8p-24,
	2049,
	2051,
	257,
	259,
	0x1.fep127,
	0x1.ffp127,
	0x1p-133 /* ends and ties of f16 and bf16 */
};
static const int64_t int_specials[] = {
	0, 1, -1, 2, -2, 3, -3, 7, -7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, -128, INT32_MAX, INT32_MIN,
	INT32_MAX - 1, INT32_MIN + 1, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 1 << 16, 46341, 0x100000000
};

static double plain_float(gen *G)
{
	double u = (double)(gen_next(G) >> 11) * 0x1p-53 * 2 - 1;
	return gen_chance(G, 20) ? ldexp(u, (int)between(G, -30, 30)) : u * 4;
}

/* Integers are little endian: a narrow one is the low bytes. */
static void put(void *data, tj_dtype t, int64_t at, double f, int64_t i)
{
	size_t size = tj_dtype_size(t);
	char *p = (char *)data + (size_t)at * size;
	if (t == TJ_BOOL) i = i != 0;
	if (rt_is_float(t)) ir_store(t, p, ir_cast_scalar((ir_scalar){ .d = f }, TJ_F64, t));
	else memcpy(p, &i, size);
}

/* Element number n of count; the walk over specials differs between operands, so that all pairs meet. */
static void put_content(gen *G, const gen_slot *s, uint64_t phase, int64_t at, int64_t n, int64_t count)
{
	gen_content c = s->content;
	tj_dtype t = (tj_dtype)s->meta.dtype;
	uint64_t nf = RT_COUNT(specials), ni = RT_COUNT(int_specials), k = phase & 1 ? (uint64_t)n : (uint64_t)n / nf + (phase >> 1);
	if (c == GEN_SPARSE && gen_chance(G, 1) && gen_chance(G, 34)) c = GEN_SPECIAL, k = gen_next(G), count = 64;
	bool here = c == GEN_SPECIAL ? count >= 64 || gen_chance(G, 50) : (c == GEN_FIRST && n == 0) || (c == GEN_LAST && n == count - 1);
	int64_t i = t == TJ_BOOL ? gen_below(G, 2) : between(G, -20, 100);
	double f = plain_float(G);
	if (here) {
		f = specials[(k + (c == GEN_SPECIAL ? 0 : phase)) % nf];
		i = int_specials[(k + (c == GEN_SPECIAL ? 0 : phase)) % ni];
	}
	if (c == GEN_TINY) f = ldexp(f, t == TJ_F64 ? -536 : t == TJ_F16 ? -10 : -73);
	if (c == GEN_NEGZERO) f = gen_chance(G, 90) ? -0.0 : 0.0, i = 0;
	if (c == GEN_INTS) f = (double)(i = between(G, -4, 4));
	if (c == GEN_INDEX) f = (double)(i = between(G, s->lo, s->hi));
	if (c == GEN_NONZERO) {
		static const int64_t d[] = { 3, -3, 1, -1, 7, -7, 2, 5, 100, INT32_MAX, INT64_MAX, INT32_MIN, INT64_MIN };
		i = t == TJ_BOOL ? 1 : d[gen_below(G, count == 1 ? 9 : t == TJ_I64 ? 13 : t == TJ_I32 ? 10 : 9)];
		if (t == TJ_I32 && i > INT32_MAX) i = INT32_MIN;
		if (f == 0) f = 1;
	}
	put(s->data, t, at, f, i);
}

/* ---- layouts ---- */
static void strides_of(gen *G, gen_layout l, int rank, const int64_t *dim, int64_t *stride)
{
	int64_t step = l == GEN_STEP2 ? 2 : 1;
	int zero = rank ? (int)gen_below(G, rank) : 0;
	for (int k = 0; k < rank; k++) {
		int i = l == GEN_TRANSPOSED ? k : rank - 1 - k;
		stride[i] = step;
		step *= dim[i] > 0 ? dim[i] : 1;
		if (l == GEN_STEP2) step += 3;
		if (l == GEN_ODD1) step += 5;
	}
	for (int i = 0; i < rank; i++) {
		if (l == GEN_NEGATIVE && (i == rank - 1 || gen_chance(G, 50))) stride[i] = -stride[i];
		if (l == GEN_EXPANDED && (i == zero || gen_chance(G, 30))) stride[i] = 0;
		if (l == GEN_ODD1 && dim[i] == 1) stride[i] = 12345 * (i + 1) + 7;
	}
}

/* The number of bytes that the strides reach before and after element 0. */
static void extent(const gen_slot *s, int64_t size, int64_t *before, int64_t *behind)
{
	*before = 0;
	*behind = size;
	for (int i = 0; i < s->meta.rank; i++) {
		int64_t reach = s->meta.dim[i] > 0 ? (s->meta.dim[i] - 1) * s->stride[i] * size : 0;
		*(reach < 0 ? before : behind) += reach < 0 ? -reach : reach;
	}
}

static bool map_slot(gen *G, gen_slot *s, gen_layout l)
{
	int64_t size = (int64_t)tj_dtype_size((tj_dtype)s->meta.dtype), before, behind;
	extent(s, size, &before, &behind);
	size_t need = (size_t)(before + behind) + 128;
	s->mapped = (need + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
	s->map = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->map == MAP_FAILED) return false;
	memset(s->map, 0xFF, s->mapped); /* what an operand does not show is NaN */
	char *end = (char *)s->map + s->mapped - PAGE, *at = end - behind; /* ends at the forbidden page, or begins aligned */
	if (G->place == GEN_AT_START) at = (char *)s->map + PAGE + before;
	else if (G->place == GEN_ANYWHERE) {
		if (gen_chance(G, 50) || l == GEN_OFFSET1) at = (char *)((uintptr_t)at & ~(uintptr_t)63);
		if (l == GEN_OFFSET1) at = at - 64 + size;
	}
	s->data = at;
	return true;
}

void gen_refill(gen *G, gen_slot *s)
{
	int64_t at[TJ_MAX_RANK] = { 0 }, count = 0, n = 0, o = 0;
	uint64_t phase = gen_next(G) >> 8;
	rt_numel(s->meta.rank, s->meta.dim, &count);
	for (; n < count; n++) {
		put_content(G, s, phase, o, n, count);
		for (int i = s->meta.rank - 1; i >= 0; i--) {
			o += s->stride[i];
			if (++at[i] < s->meta.dim[i]) break;
			o -= at[i] * s->stride[i];
			at[i] = 0;
		}
	}
}

/* Memory for the values of the slot in this layout, filled, between two forbidden pages. */
static void make_slot(gen *G, gen_slot *s, gen_layout l)
{
	strides_of(G, l, s->meta.rank, s->meta.dim, s->stride);
	if (!map_slot(G, s, l)) abort();
	gen_refill(G, s);
	mprotect(s->map, PAGE, PROT_NONE);
	mprotect((char *)s->map + s->mapped - PAGE, PAGE, PROT_NONE);
}

ir_ref gen_input(gen *G, tj_dtype t, int rank, const int64_t *dim, gen_content content, int64_t lo, int64_t hi)
{
	gen_slot s = { .meta = { .dtype = (uint8_t)t, .rank = (uint8_t)rank }, .content = content, .lo = lo, .hi = hi };
	gen_layout l = G->layout >= 0 ? (gen_layout)G->layout : gen_chance(G, 40) ? GEN_ROW : (gen_layout)gen_below(G, GEN_LAYOUTS);
	if (rank) memcpy(s.meta.dim, dim, sizeof *dim * (size_t)rank);
	make_slot(G, &s, l);
	if (!rt_push(&G->slot, s)) abort();
	ir_ref raw = ir_input(&G->raw, (int)G->slot.n - 1, &s.meta, s.stride, NULL);
	return pair(G, ir_input(G->g, (int)G->slot.n - 1, &s.meta, s.stride, "gen.c:1"), raw);
}

void gen_resize(gen *G, gen_slot *s, const int64_t *dim)
{
	munmap(s->map, s->mapped);
	if (s->meta.rank) memcpy(s->meta.dim, dim, sizeof *dim * s->meta.rank);
	make_slot(G, s, GEN_ROW);
}

static gen_content any_content(gen *G)
{
	if (G->content >= 0) return (gen_content)G->content;
	return gen_chance(G, 55) ? GEN_PLAIN : (gen_content)gen_below(G, GEN_CONTENTS);
}

/* ---- numbers ---- */
static uint64_t draw(gen *G, const gen_num *k)
{
	static const int64_t ints[] = { 0, 1, -1, 2, 3, -7, 31, 100, 1 << 20 };
	uint64_t bits;
	switch (k->kind) {
	case GEN_INTEGER: return (uint64_t)ints[gen_below(G, RT_COUNT(ints))];
	case GEN_DIVISOR: return (uint64_t)ints[1 + gen_below(G, RT_COUNT(ints) - 2)];
	case GEN_PLACE: return (uint64_t)between(G, 0, k->hi);
	default: break;
	}
	double f = gen_chance(G, 40) ? specials[gen_below(G, RT_COUNT(specials))] : plain_float(G);
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static uint32_t add_number(gen *G, gen_num kind, uint64_t bits)
{
	if (!rt_push(&G->num, bits) || !rt_push(&G->num_of, kind)) abort();
	return G->num.n - 1;
}

static ir_ref new_number(gen *G, gen_num kind)
{
	return number(G, kind.kind == GEN_FLOAT ? TJ_F64 : TJ_I64, add_number(G, kind, draw(G, &kind)));
}

ir_ref gen_number(gen *G, bool integer, bool nonzero)
{
	return new_number(G, (gen_num){ !integer ? GEN_FLOAT : nonzero ? GEN_DIVISOR : GEN_INTEGER, 0 });
}

void gen_redraw(gen *G, uint32_t slot)
{
	const gen_num *k = &G->num_of.v[slot];
	if (k->kind != GEN_FIXED) G->num.v[slot] = draw(G, k);
}

/* A number expanded to this shape, in place of an input; IR_NONE: not this time, or the dtype has no numbers. */
static ir_ref spread(gen *G, tj_dtype t, int rank, const int64_t *dim, gen_num_kind kind, int64_t hi)
{
	if (!G->numbers || (t != TJ_I64 && t != TJ_F32) || !gen_chance(G, G->spread)) return IR_NONE;
	ir_ref x = new_number(G, (gen_num){ t == TJ_F32 ? GEN_FLOAT : kind, hi });
	return emit(G, IR_expand, 1, &x, rank, dim);
}

ir_ref gen_input_any(gen *G, tj_dtype t, int rank, const int64_t *dim)
{
	ir_ref r = spread(G, t, rank, dim, GEN_INTEGER, 0);
	return r != IR_NONE ? r : gen_input(G, t, rank, dim, any_content(G), 0, 0);
}

void *gen_flat(const gen_slot *s)
{
	int64_t at[TJ_MAX_RANK] = { 0 }, n = 0, o = 0;
	size_t size = tj_dtype_size((tj_dtype)s->meta.dtype);
	rt_numel(s->meta.rank, s->meta.dim, &n);
	char *p = calloc((size_t)n + 1, size);
	for (int64_t k = 0; p && k < n; k++) {
		memcpy(p + k * (int64_t)size, (const char *)s->data + o * (int64_t)size, size);
		for (int i = s->meta.rank - 1; i >= 0; i--) {
			o += s->stride[i];
			if (++at[i] < s->meta.dim[i]) break;
			o -= at[i] * s->stride[i];
			at[i] = 0;
		}
	}
	return p;
}

ir_ref gen_data(gen *G, tj_dtype t, int rank, const int64_t *dim)
{
	gen_input(G, t, rank, dim, any_content(G), 0, 0);
	const gen_slot *s = &G->slot.v[G->slot.n - 1];
	void *bytes = gen_flat(s);
	if (!bytes) abort();
	ir_ref raw = ir_data_(&G->raw, &s->meta, bytes, NULL), r = ir_data_(G->g, &s->meta, bytes, "gen.c:3");
	free(bytes);
	return pair(G, r, raw);
}

/* ---- operands ---- */
/* Does b broadcast with a? */
static bool fits(const ir_meta *a, const ir_meta *b)
{
	for (int i = 1; i <= a->rank && i <= b->rank; i++) {
		int64_t x = a->dim[a->rank - i], y = b->dim[b->rank - i];
		if (x != y && x != 1 && y != 1) return false;
	}
	return true;
}

static ir_ref pick(gen *G, bool (*ok)(const ir_meta *, const ir_meta *), const ir_meta *m)
{
	for (int tries = 0; G->value.n && tries < 8; tries++) {
		ir_ref r = G->value.v[gen_below(G, G->value.n)];
		ir_meta have = ir_meta_of(G->g, r);
		if (ok(m, &have)) return r;
	}
	return IR_NONE;
}

/* Sizes that broadcast with m's. */
static int related(gen *G, const ir_meta *m, int64_t *dim)
{
	int drop = gen_chance(G, 70) ? 0 : (int)gen_below(G, m->rank + 1), rank = m->rank - drop;
	for (int i = 0; i < rank; i++) {
		dim[i] = m->dim[i + drop];
		if (gen_chance(G, 15)) dim[i] = 1;
		else if (dim[i] == 1 && gen_chance(G, 25)) dim[i] = between(G, 1, 5);
	}
	return rank;
}

/* A second operand for an element-wise op on x. */
static ir_ref beside(gen *G, ir_ref x, bool nonzero)
{
	ir_meta m = ir_meta_of(G->g, x);
	int64_t dim[TJ_MAX_RANK];
	ir_ref r = !nonzero && gen_chance(G, 60) ? pick(G, fits, &m) : IR_NONE;
	if (r != IR_NONE) return r;
	int roll = (int)gen_below(G, 100);
	if (G->numbers && roll < 18) return gen_number(G, gen_chance(G, 50), nonzero);
	tj_dtype t = gen_chance(G, 75) ? (tj_dtype)m.dtype : gen_dtype(G);
	static const double consts[] = { 1, 1, 0, -0.0, -0.0, -1, 2, 0.5 };
	if (G->numbers && roll < 26) return constant(G, t, nonzero ? 3 : consts[gen_below(G, RT_COUNT(consts))]);
	int rank = roll < 32 ? 0 : related(G, &m, dim);
	if (nonzero) return gen_input(G, t, rank, dim, GEN_NONZERO, 0, 0);
	return rank && gen_chance(G, 8) ? gen_data(G, t, rank, dim) : gen_input_any(G, t, rank, dim);
}

static bool same_shape(const ir_meta *a, const ir_meta *b)
{
	return a->dtype == b->dtype && a->rank == b->rank && !b->weak && !memcmp(a->dim, b->dim, sizeof *a->dim * a->rank);
}

/* A tensor of exactly this shape. */
static ir_ref of_shape(gen *G, tj_dtype t, int rank, const int64_t *dim)
{
	ir_meta m = { .dtype = (uint8_t)t, .rank = (uint8_t)rank };
	if (rank) memcpy(m.dim, dim, sizeof *dim * (size_t)rank);
	ir_ref r = gen_chance(G, 50) ? pick(G, same_shape, &m) : IR_NONE;
	return r != IR_NONE ? r : gen_input_any(G, t, rank, dim);
}

/* Integers in 0..size-1: an input or a computed value. There are none for size 0: then dim must contain a 0. */
static ir_ref index_of(gen *G, int rank, const int64_t *dim, int64_t size)
{
	int layout = G->layout;
	static const tj_dtype any[] = { TJ_I64, TJ_I64, TJ_I32, TJ_I32, TJ_I16, TJ_I8, TJ_U8 };
	tj_dtype t = any[gen_below(G, 7)];
	if (size < 1) size = 1;
	if (size > INT8_MAX && tj_dtype_size(t) == 1) t = TJ_I32;
	if (G->value.n && gen_chance(G, 30)) {
		ir_ref src[] = { gen_input(G, t, rank, dim, GEN_PLAIN, 0, 0), constant(G, t, (double)size) };
		return emit(G, IR_remainder, 2, src, 0, NULL);
	}
	ir_ref r = spread(G, t, rank, dim, GEN_PLACE, size - 1);
	if (r == IR_NONE) r = gen_input(G, t, rank, dim, GEN_INDEX, 0, size - 1);
	G->layout = layout;
	return r;
}

/* ---- applying an op ---- */
typedef struct call { int nsrc, nattr; ir_ref src[8]; int64_t attr[3 * TJ_MAX_RANK]; } call;

static void add_src(call *c, ir_ref r) { c->src[c->nsrc++] = r; }
static void add_attr(call *c, int64_t v) { c->attr[c->nattr++] = v; }

static int64_t any_axis(gen *G, int rank)
{
	int n = rank ? rank : 1;
	return between(G, -n, n - 1);
}

static void some_axes(gen *G, call *c, int rank, bool all_allowed)
{
	if (rank == 0 || (all_allowed && gen_chance(G, 25))) return;
	int n = 0;
	for (int i = 0; i < rank; i++)
		if (gen_chance(G, 45)) add_attr(c, gen_chance(G, 30) ? i - rank : i), n++;
	if (!n) add_attr(c, gen_below(G, rank));
}

static void reshape_to(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK + 2], n = 0;
	int rank = 0;
	for (int i = 0; i < m->rank; i++) {
		if (rank && gen_chance(G, 40)) dim[rank - 1] *= m->dim[i];
		else dim[rank++] = m->dim[i];
	}
	for (int i = 0; i < rank && rank < 7; i++) {
		int64_t d = between(G, 2, 5);
		if (dim[i] > 0 && dim[i] % d == 0 && gen_chance(G, 40)) {
			memmove(dim + i + 1, dim + i, sizeof *dim * (size_t)(rank++ - i));
			dim[i] = d;
			dim[i + 1] /= d;
		}
	}
	if (rank < 6 && gen_chance(G, 30)) dim[rank++] = 1;
	rt_numel(m->rank, m->dim, &n);
	for (int i = 0; i < rank; i++) add_attr(c, dim[i]);
	if (rank && n && gen_chance(G, 20)) c->attr[gen_below(G, rank)] = -1;
}

static void shape_attrs(gen *G, ir_op op, call *c, const ir_meta *m)
{
	if (op == IR_reshape) {
		reshape_to(G, c, m);
		return;
	}
	if (op == IR_tile) {
		for (int i = (int)between(G, 0, m->rank < 4 ? m->rank + 1 : 1); i > 0; i--) add_attr(c, between(G, gen_chance(G, 5) ? 0 : 1, 3));
		return;
	}
	int lead = m->rank < 6 && gen_chance(G, 40) ? (int)between(G, 1, 2) : 0;
	for (int i = 0; i < lead; i++) add_attr(c, between(G, gen_chance(G, 5) ? 0 : 1, 4));
	for (int i = 0; i < m->rank; i++)
		add_attr(c, m->dim[i] == 1 && gen_chance(G, 70) ? between(G, 1, 9) : gen_chance(G, 30) ? -1 : m->dim[i]);
}

static void axes_attrs(gen *G, ir_op op, call *c, const ir_meta *m)
{
	if (op == IR_permute) {
		for (int i = 0; i < m->rank; i++) add_attr(c, i);
		for (int i = m->rank - 1; i > 0; i--) {
			int64_t j = gen_below(G, i + 1), t = c->attr[i];
			c->attr[i] = c->attr[j];
			c->attr[j] = t;
		}
	} else if (op == IR_squeeze) {
		if (gen_chance(G, 30)) return;
		for (int i = 0; i < m->rank; i++)
			if (m->dim[i] == 1 && gen_chance(G, 70)) add_attr(c, gen_chance(G, 30) ? i - m->rank : i);
	} else some_axes(G, c, m->rank, true);
}

static void slice_attrs(gen *G, call *c, const ir_meta *m)
{
	int64_t axis = any_axis(G, m->rank), n = m->dim[axis < 0 ? axis + m->rank : axis];
	int64_t step = gen_chance(G, 50) ? 1 : between(G, 1, 3);
	if (gen_chance(G, 30)) step = -step;
	add_attr(c, axis);
	add_attr(c, gen_chance(G, 40) ? TJ_END_DIM : between(G, -n - 1, n + 1));
	add_attr(c, gen_chance(G, 40) ? TJ_END_DIM : between(G, -n - 1, n + 1));
	add_attr(c, step);
}

static void list_operands(gen *G, ir_op op, call *c, ir_ref x)
{
	ir_meta m = ir_meta_of(G->g, x);
	int more = (int)gen_below(G, 4);
	int64_t axis = op == IR_stack ? between(G, -m.rank - 1, m.rank) : any_axis(G, m.rank);
	int64_t *size = m.rank && op == IR_cat ? &m.dim[axis < 0 ? axis + m.rank : axis] : NULL;
	for (int k = 0; k < more; k++) {
		if (size && gen_chance(G, 50)) *size = between(G, gen_chance(G, 10) ? 0 : 1, 7);
		add_src(c, of_shape(G, gen_chance(G, 85) ? (tj_dtype)m.dtype : gen_dtype(G), m.rank, m.dim));
	}
	if (more && gen_chance(G, 20)) c->src[more] = x; /* the same twice */
	add_attr(c, axis);
}

/* An index with sizes up to those of x, and any size along the axis. */
static int index_shape(gen *G, const ir_meta *m, int64_t axis, int64_t *dim)
{
	for (int i = 0; i < m->rank; i++) dim[i] = gen_chance(G, 70) ? m->dim[i] : gen_below(G, m->dim[i] + 1);
	if (m->rank) {
		axis = axis < 0 ? axis + m->rank : axis;
		dim[axis] = m->dim[axis] ? between(G, 0, 9) : 0;
	}
	return m->rank;
}

static bool index_operands(gen *G, ir_op op, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK], axis = any_axis(G, m->rank);
	int64_t size = m->rank ? m->dim[axis < 0 ? axis + m->rank : axis] : 1;
	int rank = index_shape(G, m, axis, dim);
	add_attr(c, axis);
	if (op == IR_index_select) {
		int64_t n = size ? between(G, 0, 9) : 0;
		add_src(c, index_of(G, size && gen_chance(G, 15) ? 0 : 1, &n, size));
		return true;
	}
	if (rank <= 1 && size && gen_chance(G, 15)) rank = !rank; /* without axes, or with one, beside x with one or none */
	if (rank > m->rank) dim[0] = between(G, 0, 9);
	add_src(c, index_of(G, rank, dim, size));
	if (op == IR_gather) return true;
	for (int i = 0; i < rank; i++) dim[i] += gen_chance(G, 20);
	add_src(c, of_shape(G, (tj_dtype)m->dtype, rank, dim));
	return true;
}

static bool matmul_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK];
	int rank = 0, batch = m->rank > 2 ? m->rank - 2 : 0;
	const int class = rt_dtype_class((tj_dtype)m->dtype);
	if (!m->rank || (!G->lib_f32 && (class == RT_F || (gen_on_gpu && !gen_own && class == RT_D)))) return false;
	if (gen_chance(G, 80)) {
		if (batch && gen_chance(G, 60))
			for (int i = 0; i < batch; i++) dim[rank++] = gen_chance(G, 20) ? 1 : m->dim[i];
		dim[rank++] = m->dim[m->rank - 1];
		dim[rank++] = between(G, gen_chance(G, 5) ? 0 : 1, 20);
	} else dim[rank++] = m->dim[m->rank - 1];
	add_src(c, of_shape(G, (tj_dtype)m->dtype, rank, dim));
	return true;
}

static bool embedding_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[3];
	int rank = (int)gen_below(G, 4);
	if (m->rank != 2) return false;
	for (int i = 0; i < rank; i++) dim[i] = m->dim[0] ? between(G, 0, 6) : 0;
	if (!m->dim[0] && !rank) dim[rank++] = 0;
	add_src(c, index_of(G, rank, dim, m->dim[0]));
	return true;
}

/* x * 1, x / 1, x - 0 and x + -0.0, which ir/fold.c simplifies, and similar ones that it must not. */
static bool neutral_operand(gen *G, ir_op op, call *c, const ir_meta *m)
{
	bool sum = op == IR_add || op == IR_sub;
	if (!G->numbers || !(sum || op == IR_mul || op == IR_div) || !gen_chance(G, op == IR_add ? 50 : 40)) return false;
	add_src(c, constant(G, (tj_dtype)m->dtype, !sum ? 1 : gen_chance(G, op == IR_add ? 75 : 25) ? -0.0 : 0.0));
	return true;
}

static bool binary_operand(gen *G, ir_op op, call *c, ir_ref x, const ir_meta *m)
{
	if (neutral_operand(G, op, c, m)) return true;
	switch (op) {
	case IR_matmul: return matmul_operand(G, c, m);
	case IR_embedding: return embedding_operand(G, c, m);
	case IR_optimization_barrier: return add_src(c, beside(G, x, false)), true;
	case IR_cross_entropy:
		if (m->rank != 2 || !m->dim[1]) return false;
		add_src(c, index_of(G, 1, m->dim, m->dim[1]));
		return true;
	default: break;
	}
	if (op == IR_prelu)
		return add_src(c, of_shape(G, (tj_dtype)m->dtype, gen_chance(G, 30) ? 0 : 1,
		                           (int64_t[]){ m->rank > 1 && gen_chance(G, 70) ? m->dim[1] : 1 })),
		       true;
	if (!(ir_ops[op].flags & (IR_POINT | IR_COMPOSITE))) return false;
	add_src(c, beside(G, x, (ir_ops[op].flags & IR_FAULT) && !G->zeros));
	if (!(ir_ops[op].flags & IR_FAULT) && gen_chance(G, 30)) { /* x on the right */
		c->src[0] = c->src[1];
		c->src[1] = x;
	}
	return true;
}

static void creation(gen *G, ir_op op, call *c)
{
	int64_t step = between(G, 1, 3) * (gen_chance(G, 50) ? 1 : -1), start = between(G, -9, 9);
	c->nsrc = 0;
	if (op == IR_one_hot) {
		int64_t n = between(G, 1, 9), dim[3] = { between(G, 0, 5), between(G, 1, 4), 2 };
		add_src(c, index_of(G, (int)gen_below(G, 4), dim, n));
		add_attr(c, n);
		return;
	}
	add_attr(c, gen_dtype(G));
	switch (op) {
	case IR_arange:
		add_attr(c, start);
		add_attr(c, start + step * gen_below(G, 40));
		add_attr(c, step);
		break;
	case IR_eye:
		add_attr(c, gen_below(G, 9));
		add_attr(c, gen_below(G, 9));
		break;
	default:
		for (int i = (int)gen_below(G, 4); i > 0; i--) add_attr(c, between(G, gen_chance(G, 5) ? 0 : 1, 9));
		if (op == IR_full && gen_chance(G, 50)) {
			bool integer = gen_chance(G, 50);
			if (gen_chance(G, 80)) c->attr[0] = integer ? TJ_I64 : TJ_F64; /* other dtypes may not hold its values */
			add_src(c, gen_number(G, integer, false));
		}
		else if (op == IR_full) add_src(c, gen_input(G, gen_dtype(G), 0, NULL, any_content(G), 0, 0));
		else
			for (int k = 0; k < 2; k++) add_src(c, gen_number(G, true, false));
	}
}

/* The numbers of an op. A body passes them as doubles, so they never change. */
static void number_operands(gen *G, ir_op op, call *c)
{
	static const double eps[] = { 1e-5 }, limits[] = { -0.75, 1.25 }, tempered[] = { 1.5, 20 }, plain[] = { 0.5, 1.5, -2, 3 };
	const double *v = op == IR_hardtanh                                                                        ? limits
	                  : op == IR_softplus                                                                      ? tempered
	                  : ir_ops[op].opclass == IR_NORM2 || ir_ops[op].opclass == IR_NORM3 || op == IR_normalize ? eps
	                                                                                                           : plain;
	for (int k = 0; k < ir_classes[ir_ops[op].opclass].numbers; k++) {
		uint64_t bits;
		memcpy(&bits, &v[k], sizeof bits);
		add_src(c, number(G, TJ_F64, add_number(G, (gen_num){ GEN_FIXED, 0 }, bits)));
	}
}

/* Weight, perhaps bias, eps. */
static bool norm_operands(gen *G, ir_op op, call *c, const ir_meta *m)
{
	if (!m->rank) return false;
	for (int k = 2; k < ir_ops[op].nsrc; k++) add_src(c, of_shape(G, (tj_dtype)m->dtype, 1, &m->dim[m->rank - 1]));
	number_operands(G, op, c);
	return true;
}

static bool different_axes(const call *c, int rank) { return (c->attr[1] + rank) % rank != (c->attr[2] + rank) % rank; }

static bool unfold_attrs(gen *G, call *c, const ir_meta *m)
{
	const int64_t axis = any_axis(G, m->rank), n = m->dim[axis < 0 ? axis + m->rank : axis], size = between(G, 1, n < 5 ? n : 5);
	add_attr(c, axis);
	add_attr(c, size);
	add_attr(c, between(G, 1, 3));
	add_attr(c, size > 1 && (size - 1) * 2 < n && gen_chance(G, 30) ? 2 : 1);
	return n > 0;
}

static bool pad_operands(gen *G, call *c, const ir_meta *m)
{
	const int mode = (int)gen_below(G, 4), n = (int)gen_below(G, (m->rank < 4 ? m->rank : 4) + 1);
	add_src(c, gen_number(G, gen_chance(G, 50), false));
	add_attr(c, mode);
	for (int i = 0; i < 2 * n; i++) {
		const int64_t size = m->dim[m->rank - n + i / 2];
		add_attr(c, between(G, size > 2 && gen_chance(G, 30) ? -1 : 0, mode == TJ_PAD_CONSTANT ? 3 : size > 4 ? 2 : 0));
	}
	return true;
}

/* Strides, dilations and pads; behind the sizes of the windows, if these are attributes too. */
static void window_attrs(gen *G, call *c, ir_op op, int n, const int64_t *size)
{
	const bool pool = ir_ops[op].opclass != IR_CONV;
	for (int i = 0; pool && i < n; i++) add_attr(c, size[i]);
	for (int i = 0; i < n; i++) add_attr(c, between(G, 1, 3));
	for (int i = 0; i < n; i++) add_attr(c, gen_chance(G, 25) ? 2 : 1);
	for (int i = 0; i < 2 * n; i++)
		add_attr(c,
		         pool ? between(G, 0, size[i / 2] / 2)
		              : between(G, gen_chance(G, 10) ? -1 : 0, op == IR_conv_transpose && size[i / 2] < 3 ? size[i / 2] - 1 : 2));
}

static int64_t window_size(gen *G, int64_t size) { return between(G, 1, size < 1 ? 1 : size > 3 ? 3 : size); }

static bool conv_operands(gen *G, ir_op op, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK], groups = 1;
	if (m->rank < 3 || m->rank > 5 || m->dim[1] > 64) return false;
	for (int64_t k = 2; k <= m->dim[1]; k++)
		if (m->dim[1] % k == 0 && gen_chance(G, 30)) groups = k;
	const int64_t in = m->dim[1] / groups, out = between(G, 1, 3);
	dim[0] = op == IR_conv ? out * groups : m->dim[1];
	dim[1] = op == IR_conv ? in : out;
	for (int i = 2; i < m->rank; i++) dim[i] = window_size(G, m->dim[i]);
	add_src(c, of_shape(G, (tj_dtype)m->dtype, m->rank, dim));
	add_attr(c, groups);
	window_attrs(G, c, op, m->rank - 2, dim + 2);
	return true;
}

static bool pool_attrs(gen *G, ir_op op, call *c, const ir_meta *m)
{
	int64_t size[3];
	const int n = (int)between(G, 1, m->rank < 3 ? m->rank : 3);
	if (!m->rank) return false;
	for (int i = 0; i < n; i++) size[i] = window_size(G, m->dim[m->rank - n + i]);
	add_attr(c, gen_below(G, 2));
	if (op == IR_avg_pool) add_attr(c, between(G, -1, 2));
	window_attrs(G, c, op, n, size);
	return true;
}

static void topk_attrs(gen *G, call *c, const ir_meta *m)
{
	const int64_t axis = any_axis(G, m->rank), n = m->rank ? m->dim[axis < 0 ? axis + m->rank : axis] : 1;
	add_attr(c, axis);
	add_attr(c, between(G, m->rank == 0, n));
	add_attr(c, gen_below(G, 2));
}

/* As many axes as x has, and sizes like those of an index. */
static void place_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK];
	const int64_t axis = any_axis(G, m->rank), n = m->rank ? m->dim[axis < 0 ? axis + m->rank : axis] : 1;
	const int rank = index_shape(G, m, axis, dim);
	add_attr(c, axis);
	add_src(c, index_of(G, rank, dim, n));
}

/* x is what is looked for. */
static void search_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK];
	const bool one = !m->rank || gen_chance(G, 50);
	memcpy(dim, m->dim, sizeof dim);
	dim[one ? 0 : m->rank - 1] = between(G, 0, 9);
	add_src(c, c->src[0]);
	c->src[0] = of_shape(G, (tj_dtype)m->dtype, one ? 1 : m->rank, dim);
	add_attr(c, gen_below(G, 2));
}

/* x is b, or a of csr_sampled_product: a sparse matrix whose rows have equally many elements, and some that are in no row. */
static bool csr_operands(gen *G, ir_op op, call *c, const ir_meta *m)
{
	if (m->rank < 2 || m->rank > 4) return false;
	const int batch = m->rank - 2;
	const bool by_row = op == IR_csr_product; /* x has a row for each column, else for each row */
	const int64_t m_or_n = m->dim[batch], other = between(G, 0, 6), rows = by_row ? other : m_or_n, columns = by_row ? m_or_n : other;
	const int64_t each = columns ? between(G, 0, 4) : 0, numbers[] = { TJ_I64, 0, rows + 1, 1 };
	int64_t dim[TJ_MAX_RANK];
	ir_ref offsets = emit(G, IR_mul, 2, (ir_ref[]){ emit(G, IR_arange, 0, NULL, 4, numbers), constant(G, TJ_I64, (double)each) }, 0, NULL);
	memcpy(dim, m->dim, sizeof dim);
	dim[batch] = rows + 1;
	offsets = emit(G, IR_expand, 1, &offsets, batch + 1, dim);
	dim[batch] = rows * each + (columns ? gen_below(G, 3) : 0);
	const ir_ref index = index_of(G, batch + 1, dim, columns), x = c->src[0];
	ir_ref a = x, b = x;
	if (op != IR_csr_sampled_product) a = of_shape(G, (tj_dtype)m->dtype, batch + 1, dim);
	else {
		memcpy(dim, m->dim, sizeof dim);
		dim[batch] = columns;
		b = of_shape(G, (tj_dtype)m->dtype, m->rank, dim);
	}
	c->src[0] = offsets;
	add_src(c, index);
	add_src(c, a);
	add_src(c, b);
	if (op == IR_csr_product_transposed) add_attr(c, columns);
	return true;
}

/* Pairs of x and a tensor like it. */
static bool transform_operand(gen *G, ir_op op, call *c, ir_ref x, const ir_meta *m)
{
	if (!m->rank || m->rank > 5) return false;
	const ir_ref pair[] = { x, of_shape(G, (tj_dtype)m->dtype, m->rank, m->dim) };
	const int64_t last = -1, axis = any_axis(G, m->rank);
	c->src[0] = emit(G, IR_stack, 2, pair, 1, &last);
	add_attr(c, axis);
	if (op == IR_inverse_rdft) add_attr(c, 2 * m->dim[axis < 0 ? axis + m->rank : axis] - between(G, 1, 2));
	return true;
}

/* z z' + 8 with as many rows as x, z between -1 and 1: it is positive definite, also rounded to bf16. */
static bool definite_operand(gen *G, call *c, const ir_meta *m)
{
	if (m->rank < 2 || !rt_is_float((tj_dtype)m->dtype) || m->dim[m->rank - 2] > 9) return false;
	const int64_t last[] = { -2, -1 }, sizes[] = { m->dtype, m->dim[m->rank - 2], m->dim[m->rank - 2] };
	const ir_ref any = gen_input(G, (tj_dtype)m->dtype, m->rank, m->dim, GEN_PLAIN, 0, 0), z = emit(G, IR_tanh, 1, &any, 0, NULL);
	const ir_ref pair[] = { z, emit(G, IR_transpose, 1, &z, 2, last) };
	const ir_ref square = emit(G, IR_matmul, 2, pair, 0, NULL), one = emit(G, IR_eye, 0, NULL, 3, sizes);
	const ir_ref scaled[] = { one, constant(G, (tj_dtype)m->dtype, 8) };
	const ir_ref sum[] = { square, emit(G, IR_mul, 2, scaled, 0, NULL) };
	c->src[0] = emit(G, IR_add, 2, sum, 0, NULL);
	return true;
}

/* Of a matrix that is not square L U has no gradient. */
static bool square_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK];
	if (m->rank < 2) return false;
	if (m->dim[m->rank - 2] == m->dim[m->rank - 1]) return true;
	memcpy(dim, m->dim, sizeof dim);
	dim[m->rank - 1] = dim[m->rank - 2];
	c->src[0] = of_shape(G, (tj_dtype)m->dtype, m->rank, dim);
	return true;
}

static void solve_operand(gen *G, call *c, const ir_meta *m)
{
	int64_t dim[TJ_MAX_RANK];
	memcpy(dim, m->dim, sizeof dim);
	dim[m->rank - 1] = dim[m->rank - 2];
	add_src(c, c->src[0]);
	c->src[0] = of_shape(G, (tj_dtype)m->dtype, m->rank, dim);
	add_attr(c, gen_below(G, 2));
}

/* Chooses the other operands and the attributes. */
static bool complete(gen *G, ir_op op, call *c, ir_ref x)
{
	ir_meta m = { 0 };
	if (!gen_creates(op)) m = ir_meta_of(G->g, x);
	if (op == IR_lu_packed) return square_operand(G, c, &m);
	if (op == IR_cholesky) return definite_operand(G, c, &m);
	if (op == IR_eigh_packed) return add_attr(c, gen_below(G, 2)), definite_operand(G, c, &m);
	if (op == IR_dft || op == IR_inverse_dft || op == IR_inverse_rdft) return transform_operand(G, op, c, x, &m);
	switch ((ir_opclass)ir_ops[op].opclass) {
	case IR_UNARY: return true;
	case IR_BINARY: return binary_operand(G, op, c, x, &m);
	case IR_TERNARY:
		add_src(c, beside(G, x, false));
		add_src(c, beside(G, x, false));
		if (op == IR_where && gen_chance(G, 50)) c->src[0] = of_shape(G, G->rare, m.rank, m.dim), c->src[1] = x;
		return true;
	case IR_CAST: return add_attr(c, gen_dtype(G)), true;
	case IR_TO: return add_attr(c, gen_chance(G, 50) ? G->device : RT_CPU), true;
	case IR_SHAPE: return shape_attrs(G, op, c, &m), true;
	case IR_AXES: return axes_attrs(G, op, c, &m), true;
	case IR_AXIS: return add_attr(c, op == IR_unsqueeze ? between(G, -m.rank - 1, m.rank) : any_axis(G, m.rank)), true;
	case IR_PAIR_AXIS: return add_src(c, of_shape(G, (tj_dtype)m.dtype, m.rank, m.dim)), add_attr(c, any_axis(G, m.rank)), true;
	case IR_SORT: return add_attr(c, any_axis(G, m.rank)), add_attr(c, gen_below(G, 2)), true;
	case IR_TOPK: return topk_attrs(G, c, &m), true;
	case IR_PLACES: return place_operand(G, c, &m), true;
	case IR_SEARCH: return search_operand(G, c, &m), true;
	case IR_SPECTRAL: return add_attr(c, gen_below(G, 2)), m.rank >= 2;
	case IR_CSR: case IR_CSR_N: return csr_operands(G, op, c, &m);
	case IR_SOLVE: return m.rank >= 2 ? (solve_operand(G, c, &m), true) : false;
	case IR_AXIS2: return add_attr(c, any_axis(G, m.rank)), add_attr(c, any_axis(G, m.rank)), true;
	case IR_SLICE: return m.rank ? (slice_attrs(G, c, &m), true) : false;
	case IR_LIST: return list_operands(G, op, c, x), true;
	case IR_VAR: number_operands(G, op, c); /* fall through */
	case IR_REDUCE_: return add_attr(c, gen_below(G, 2)), some_axes(G, c, m.rank, true), true;
	case IR_ARG: return add_attr(c, gen_below(G, 2)), add_attr(c, gen_chance(G, 25) ? TJ_END_DIM : any_axis(G, m.rank)), true;
	case IR_INDEX: case IR_SCATTER: return index_operands(G, op, c, &m);
	case IR_COUNT: case IR_FULL: case IR_ARANGE: case IR_EYE: case IR_RANDOM: return creation(G, op, c), true;
	case IR_UNFOLD: return m.rank && m.rank < 6 ? unfold_attrs(G, c, &m) : false;
	case IR_OFFSET: return add_attr(c, between(G, -4, 4)), m.rank > (op != IR_diag_embed) && m.rank < 5;
	case IR_DIAG:
		return add_attr(c, between(G, -3, 3)), add_attr(c, any_axis(G, m.rank)), add_attr(c, any_axis(G, m.rank)),
		       m.rank > 1 && different_axes(c, m.rank);
	case IR_ALONG: return add_attr(c, any_axis(G, m.rank)), add_attr(c, op == IR_roll ? between(G, -9, 9) : between(G, 0, 3)), m.rank < 5;
	case IR_ORDER: return add_attr(c, gen_below(G, 5)), true;
	case IR_PAD: return pad_operands(G, c, &m);
	case IR_CONV: return conv_operands(G, op, c, &m);
	case IR_POOL: case IR_AVG: return pool_attrs(G, op, c, &m);
	case IR_NORM3:
	case IR_NORM2: return norm_operands(G, op, c, &m);
	case IR_CLOSE:
	case IR_TERNARY1:
		for (int k = ir_ops[op].nsrc - ir_classes[ir_ops[op].opclass].numbers; k > 1; k--) add_src(c, beside(G, x, false));
		if (op == IR_isclose) add_attr(c, gen_below(G, 2));
		return number_operands(G, op, c), true;
	case IR_AXIS_EPS: add_attr(c, any_axis(G, m.rank)); /* fall through */
	case IR_WITH1: case IR_WITH2: case IR_WITH3: return number_operands(G, op, c), true;
	case IR_HOST: case IR_LEAF: case IR_FLOW: case IR_GET: return false;
	}
	return false;
}

bool gen_creates(ir_op op)
{
	switch ((ir_opclass)ir_ops[op].opclass) {
	case IR_COUNT: case IR_FULL: case IR_ARANGE: case IR_EYE: case IR_RANDOM: return true;
	default: return false;
	}
}

/* A number expanded to a 0-d tensor stays as it is: ops that are not element-wise read it from memory. */
static void bare(gen *G, call *c)
{
	for (uint32_t i = 0; G->spread && i < G->step.n; i++) {
		const gen_step *s = &G->step.v[i];
		if (s->op != IR_expand || s->nattr || !ir_at(G->g, s->src[0])->weak) continue;
		for (int k = 0; k < c->nsrc; k++)
			if (c->src[k] == s->result && gen_chance(G, 70)) c->src[k] = s->src[0];
	}
}

ir_ref gen_op(gen *G, ir_op op, ir_ref x)
{
	call c = { .nsrc = 1, .src = { x } };
	ir_meta src[8], out;
	int64_t n;
	rt_err err = { 0 };
	if (!complete(G, op, &c, x)) return IR_NONE;
	if (!(ir_ops[op].flags & IR_POINT)) bare(G, &c);
	for (int k = 0; k < c.nsrc; k++) src[k] = ir_meta_of(G->g, c.src[k]);
	if (ir_infer(op, c.nsrc, src, c.nattr, c.attr, &out, NULL, NULL, NULL, &err) != TJ_OK) return IR_NONE;
	if (ir_ops[op].nresult > 1 && ir_infer_result(op, 0, c.nsrc, src, c.nattr, c.attr, &out, &err) != TJ_OK) return IR_NONE;
	if (!rt_numel(out.rank, out.dim, &n) || (G->most && n > G->most)) return IR_NONE;
	return emit(G, op, c.nsrc, c.src, c.nattr, c.attr);
}

ir_ref gen_join(gen *G, ir_op op, ir_ref a, ir_ref b)
{
	return emit(G, op, 2, (ir_ref[]){ a, b }, 0, NULL);
}

/* ---- destinations ---- */
bool gen_out_new(gen_out *o, const ir_graph *g)
{
	*o = (gen_out){ .n = g->out.n, .data = calloc(g->out.n + 1, sizeof *o->data), .bytes = calloc(g->out.n + 1, sizeof *o->bytes) };
	for (uint32_t i = 0; i < o->n; i++) {
		o->bytes[i] = ir_numel(g, g->out.v[i]) * (int64_t)tj_dtype_size((tj_dtype)ir_at(g, g->out.v[i])->dtype);
		size_t all = ((size_t)o->bytes[i] + 3 * MARGIN) / MARGIN * MARGIN;
		char *p = aligned_alloc(MARGIN, all);
		if (!p) return false;
		memset(p, MARGIN_BYTE, all);
		o->data[i] = p + MARGIN;
	}
	return true;
}

bool gen_out_at(gen_out *o, const ir_graph *g, gen_place place)
{
	if (place == GEN_ANYWHERE) return gen_out_new(o, g);
	*o = (gen_out){ .n = g->out.n,
		        .data = calloc(g->out.n + 1, sizeof *o->data),
		        .bytes = calloc(g->out.n + 1, sizeof *o->bytes),
		        .place = place,
		        .map = calloc(g->out.n + 1, sizeof *o->map),
		        .mapped = calloc(g->out.n + 1, sizeof *o->mapped) };
	for (uint32_t i = 0; i < o->n; i++) {
		o->bytes[i] = ir_numel(g, g->out.v[i]) * (int64_t)tj_dtype_size((tj_dtype)ir_at(g, g->out.v[i])->dtype);
		size_t inside = ((size_t)o->bytes[i] + MARGIN + PAGE - 1) / PAGE * PAGE;
		o->mapped[i] = inside + 2 * PAGE;
		char *p = mmap(NULL, o->mapped[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED) return false;
		o->map[i] = p;
		memset(p + PAGE, MARGIN_BYTE, inside);
		o->data[i] = place == GEN_AT_START ? p + PAGE : p + PAGE + inside - o->bytes[i];
		mprotect(p, PAGE, PROT_NONE);
		mprotect(p + PAGE + inside, PAGE, PROT_NONE);
	}
	return true;
}

void gen_out_free(gen_out *o)
{
	for (uint32_t i = 0; i < o->n; i++) {
		if (o->map && o->map[i]) munmap(o->map[i], o->mapped[i]);
		else if (o->data[i] && !o->map) free((char *)o->data[i] - MARGIN);
	}
	free(o->data);
	free(o->bytes);
	free(o->map);
	free(o->mapped);
	*o = (gen_out){ 0 };
}

bool gen_margins_ok(const gen_out *o, uint32_t *which)
{
	for (uint32_t i = 0; i < o->n; i++) {
		const unsigned char *p = o->data[i];
		for (int k = 1; k <= MARGIN; k++) {
			if (o->place != GEN_AT_START && p[-k] != MARGIN_BYTE) return *which = i, false;
			if (o->place != GEN_AT_END && k < MARGIN && p[o->bytes[i] + k - 1] != MARGIN_BYTE) return *which = i, false;
		}
	}
	return true;
}

/* ---- executors ---- */
static const void **externals(const gen *G)
{
	const void **ext = calloc(G->slot.n + 1, sizeof *ext);
	for (uint32_t i = 0; ext && i < G->slot.n; i++) ext[i] = G->slot.v[i].data;
	return ext;
}

/* An output that is a view of an external. */
static void copy_seen(const gen *G, const rt_out *u, void *dst)
{
	const gen_slot *s = &G->slot.v[u->same_ext];
	size_t size = tj_dtype_size((tj_dtype)s->meta.dtype);
	int64_t at[TJ_MAX_RANK] = { 0 }, n = 0, o = u->offset;
	rt_numel(u->rank, u->dim, &n);
	for (int64_t k = 0; k < n; k++) {
		memcpy((char *)dst + k * (int64_t)size, (const char *)s->data + o * (int64_t)size, size);
		for (int i = u->rank - 1; i >= 0; i--) {
			o += u->stride[i];
			if (++at[i] < u->dim[i]) break;
			o -= at[i] * u->stride[i];
			at[i] = 0;
		}
	}
}

/* Makes the team run even the smallest kernels. */
static void share_out(rt_exec *x)
{
	rt_plan *p = (rt_plan *)x;
	for (uint32_t i = 0; x->run == rt_plan_run && i < p->nstep; i++) p->step[i].unit_ns = 1e6;
}

/* Copies externals that outputs may overwrite, and lets the outputs overwrite the copies. */
typedef struct places { void **out; char **copy; } places;

static bool row_major(const gen_slot *s)
{
	int64_t want[TJ_MAX_RANK];
	ir_contiguous(s->meta.rank, s->meta.dim, want);
	for (int i = 0; i < s->meta.rank; i++)
		if (s->meta.dim[i] > 1 && want[i] != s->stride[i]) return false;
	return true;
}

static tj_status put_in_place(gen *G, const rt_exec *x, const gen_out *o, const void **ext, places *p, rt_err *err)
{
	p->out = calloc(o->n + 1, sizeof *p->out);
	p->copy = calloc(G->slot.n + 1, sizeof *p->copy);
	if (!p->out || !p->copy) abort();
	memcpy(p->out, o->data, sizeof *p->out * o->n);
	for (uint32_t i = 0; i < o->n; i++) {
		int e = x->out[i].alias_ext;
		if (e < 0 || x->out[i].same_ext >= 0 || p->copy[e]) continue;
		const gen_slot *s = &G->slot.v[e];
		int64_t n = 0;
		rt_numel(s->meta.rank, s->meta.dim, &n);
		if (!row_major(s) || n * (int64_t)tj_dtype_size((tj_dtype)s->meta.dtype) != o->bytes[i])
			return rt_fail(err, TJ_ERR_STATE, "alias", "output %u does not fit over external %d", i, e);
		if (!(p->copy[e] = malloc((size_t)o->bytes[i] + 1))) abort();
		memcpy(p->copy[e], s->data, (size_t)o->bytes[i]);
		ext[e] = p->out[i] = p->copy[e];
	}
	return TJ_OK;
}

static void take_back(const gen *G, const gen_out *o, places *p)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (p->out[i] != o->data[i]) memcpy(o->data[i], p->out[i], (size_t)o->bytes[i]);
	for (uint32_t e = 0; e < G->slot.n; e++) free(p->copy[e]);
	free(p->copy);
	free(p->out);
}

bool gen_on_gpu, gen_own;

int gen_device(const char *name)
{
	rt_device_on_demand(cu_open);
	const int n = !strncmp(name, "mock", 4) ? mock_device() : rt_device_parse(name, strlen(name));
	if (n > RT_CPU) return n;
	fprintf(stderr, "there is no device %s\n", name);
	exit(2);
}

/* The same graph on a device. */
static tj_status bring(const ir_graph *from, ir_graph *to, int device, rt_err *err)
{
	rt_arena mem = { 0 };
	ir_ref *map = rt_arena_alloc(&mem, (from->node.n + 1) * sizeof *map), *src = rt_arena_alloc(&mem, (from->refs.n + 1) * sizeof *src);
	bool ok = map && src;
	for (ir_ref r = 0; ok && r < from->node.n; r++) {
		const ir_node *n = ir_at(from, r);
		for (int k = 0; k < n->nsrc; k++) src[k] = map[ir_src(from, n, k)];
		map[r] = ir_copy(to, from, r, src);
		if (map[r] != IR_NONE && !ir_at(to, map[r])->weak && !ir_is_tuple(n) && n->op != IR_to) map[r] = ir_to(to, map[r], device, n->site);
		ok = map[r] != IR_NONE;
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) {
		ir_ref r = map[from->out.v[i]];
		ok = ir_ret(to, ir_at(to, r)->weak ? r : ir_to(to, r, RT_CPU, NULL));
	}
	rt_arena_free(&mem);
	if (!ok) *err = to->err;
	return ok ? TJ_OK : err->code;
}

tj_status gen_run(gen *G, const gen_how *how, gen_out *o, rt_err *err)
{
	ir_graph there;
	places p = { 0 };
	rt_exec *x = NULL;
	ir_graph_init(&there);
	if (how->device != RT_CPU && bring(G->g, &there, how->device, err) != TJ_OK) {
		ir_graph_free(&there);
		return err->code;
	}
	lo_opts opts = { .name = "t", .target = how->target, .off = how->off, .int_div_zero = how->int_div_zero, .family = how->family,
	                 .moving = how->moving, .settings = gen_own ? RT_PRODUCTS_OWN : 0 };
	opts.moving.all |= how->symbols;
	tj_status st = lo_build(how->device == RT_CPU ? G->g : &there, &opts, &x, err);
	ir_graph_free(&there);
	if (st != TJ_OK) return st;
	const void **ext = externals(G);
	rt_pool *pool = rt_pool_new();
	if (!ext || !pool) abort();
	if (how->team) share_out(x);
	rt_run r = { .team = how->team ? rt_team_get(how->threads ? how->threads : 3) : NULL,
		     .pool = pool,
		     .ext = ext,
		     .num = G->num.v,
		     .out = o->data,
		     .err = err };
	if (how->in_place) {
		st = put_in_place(G, x, o, ext, &p, err);
		r.out = p.out;
	}
	if (st == TJ_OK) st = x->run(x, &r);
	if (st == TJ_OK) st = rt_pool_settle_all(pool, err);
	if (p.out) take_back(G, o, &p);
	if (err->site) {
		snprintf(G->site, sizeof G->site, "%s", err->site);
		err->site = G->site;
	}
	for (uint32_t i = 0; st == TJ_OK && i < o->n; i++)
		if (x->out[i].same_ext >= 0) copy_seen(G, &x->out[i], o->data[i]);
	rt_exec_unref(x);
	rt_pool_free(pool);
	free(ext);
	return st;
}

/* The operand is bf16, or made from bf16 by views and casts. */
static bool is_bf16(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	while (n->dtype != TJ_BF16 && (n->op == IR_cast || ir_ops[n->op].flags & IR_VIEW)) n = ir_at(g, ir_src(g, n, 0));
	return n->dtype == TJ_BF16;
}

/* A product that instructions for bf16 may compute, in their own order, without subnormal numbers. */
static bool is_fast(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	return n->op == IR_matmul && n->mode & IR_FAST && is_bf16(g, ir_src(g, n, 0)) && is_bf16(g, ir_src(g, n, 1));
}

/* A library computes it, whose result is near the evaluator's. A GPU is opened by children only, so it is not asked. */
static bool bounded(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	if (is_fast(g, r)) return true;
	if (lo_becomes_product((ir_op)n->op) && gen_on_gpu && !gen_own && rt_dtype_cat((tj_dtype)n->dtype) == RT_FLOAT) return true;
	return n->op < IR_OPS && lo_bounded((ir_op)n->op, (tj_dtype)n->dtype, n->device, 0);
}

tj_status gen_oracle(gen *G, bool int_div_zero, const gen_out *lib, gen_out *o, rt_err *err)
{
	const void **ext = externals(G), **given = calloc(G->g->node.n + 1, sizeof *given);
	ir_eval_opts opts = { .int_div_zero = int_div_zero };
	if (!ext || !given) abort();
	for (uint32_t i = 0; lib && i < lib->n; i++)
		if (bounded(G->g, G->g->out.v[i])) given[G->g->out.v[i]] = lib->data[i];
	tj_status st = ir_eval(G->g, ext, G->num.v, given, o->data, &opts, err);
	free(ext);
	free(given);
	return st;
}

/* ---- library nodes ---- */
void gen_keep_lib(gen *G)
{
	for (ir_ref r = 0; r < G->g->node.n; r++)
		if (bounded(G->g, r)) ir_ret(G->g, r);
}

/* The node r with other operands. */
static ir_ref again(ir_graph *g, ir_ref r, const ir_ref *src)
{
	const ir_node n = *ir_at(g, r);
	int64_t attr[64];
	if (n.op == IR_matmul) return ir_op2(g, IR_matmul, src[0], src[1], NULL);
	if (n.nsrc != 2 || n.nattr > 64) abort();
	memcpy(attr, ir_attr(g, &n), n.nattr * sizeof *attr);
	return ir_emit(g, (ir_op)n.op, 2, src, n.nattr, attr, NULL);
}

/* How many products an element of the node adds up. */
static double terms(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	const ir_ref of = ir_src(g, n, n->op != IR_matmul); /* a row of the left operand, or the weight [O,C,...] or [C,O,...] */
	const ir_meta m = ir_meta_of(g, of);
	if (n->op == IR_matmul) return (double)m.dim[m.rank - 1];
	return (double)ir_numel(g, of) / (double)(m.dim[n->op == IR_conv_transpose] ? m.dim[n->op == IR_conv_transpose] : 1);
}

/* Computes in f64 the product, and the product of the absolute values, on the operands that the executor had. What a fast product may flush
 * to 0 is below 2^-126, or is multiplied by that: 2 (1 + |a|) (1 + |b|) times it is more than enough. */
static bool lib_node_ok(gen *G, ir_ref r, const gen_out *got, const void *data, char *why, size_t size)
{
	const tj_dtype t = (tj_dtype)ir_at(G->g, r)->dtype;
	const bool wide_sums = t == TJ_F64; /* `exact` is not then, so its own error counts, too */
	const double most = t == TJ_F16 ? 6e4
	                    : wide_sums ? 1e300
	                                : 1e37,
		     half_ulp = ldexp(1, -rt_dtype_bits(t)),
		     least = t == TJ_F16    ? 0x1p-24
	                     : t == TJ_BF16 ? 0x1p-133
	                                    : 0x1p-149;
	const double of_sums = wide_sums ? 0x1p-52 : 0x1p-24, of_small = wide_sums ? 0x1p-1073 : 0x1p-149;
	ir_graph *g = G->g;
	uint32_t nout = g->out.n;
	ir_ref src[2], wide[2], mag[2];
	for (int k = 0; k < 2; k++) src[k] = ir_src(g, ir_at(g, r), k);
	for (int k = 0; k < 2; k++) {
		wide[k] = ir_cast(g, src[k], TJ_F64, NULL);
		mag[k] = ir_op1(g, IR_abs, wide[k], NULL);
	}
	ir_ret(g, again(g, r, wide));
	ir_ret(g, again(g, r, mag));
	for (int i = 0; i < 2; i++) mag[i] = ir_op2(g, IR_add, mag[i], ir_const_f(g, TJ_F64, 0, NULL, 1), NULL);
	ir_ret(g, again(g, r, mag));
	if (g->err.code != TJ_OK) abort();
	gen_out o, others = *got;
	rt_err err = { 0 };
	if (!gen_out_new(&o, g) || !(others.data = calloc(got->n + 1, sizeof *others.data))) abort();
	for (uint32_t i = 0; i < got->n; i++) /* a product of f64 is r itself: the evaluator must compute it */
		if (g->out.v[i] != r) others.data[i] = got->data[i];
	bool ok = gen_oracle(G, G->zeros, &others, &o, &err) == TJ_OK;
	free(others.data);
	const double *exact = o.data[nout], *sum = o.data[nout + 1], *flushed = o.data[nout + 2];
	const double k = terms(g, r);
	for (int64_t i = 0; ok && i < ir_numel(g, r); i++) {
		const ir_scalar v = ir_load(t, (const char *)data + (size_t)i * tj_dtype_size(t));
		const double c = wide_sums ? v.d : (double)v.f;
		if (!(sum[i] < most)) continue; /* overflow and NaN depend on the order */
		ok = fabs(c - exact[i]) <= (k + 2) * of_sums * sum[i] + (k + 2) * of_small + (is_fast(g, r) ? 0x1p-125 * flushed[i] : 0) +
		                                   (rt_is_narrow(t) ? 1.01 * half_ulp * fabs(exact[i]) + least : 0);
		if (!ok) snprintf(why, size, "element %lld of the library node is %a, not %a", (long long)i, c, exact[i]);
	}
	gen_out_free(&o);
	g->out.n = nout;
	return ok;
}

bool gen_lib_ok(gen *G, const gen_out *got, char *why, size_t size)
{
	for (uint32_t i = 0; i < got->n; i++)
		if (bounded(G->g, G->g->out.v[i]) && !lib_node_ok(G, G->g->out.v[i], got, got->data[i], why, size)) return false;
	return true;
}

/* ---- comparison ---- */
bool gen_same(tj_dtype t, const void *a, const void *b, int64_t n, int64_t *at)
{
	size_t size = tj_dtype_size(t);
	if (!n || !memcmp(a, b, (size_t)n * size)) return true;
	for (int64_t i = 0; i < n; i++) {
		*at = i;
		if (!memcmp((const char *)a + i * (int64_t)size, (const char *)b + i * (int64_t)size, size)) continue;
		ir_scalar x = ir_load(t, (const char *)a + i * (int64_t)size), y = ir_load(t, (const char *)b + i * (int64_t)size);
		if (rt_dtype_class(t) == RT_F ? isnan(x.f) && isnan(y.f) : t == TJ_F64 && isnan(x.d) && isnan(y.d)) continue;
		return false;
	}
	return true;
}

/* All steps as outputs of g, or of raw. */
static tj_status every_step(gen *G, ir_graph *g, gen_out *o, rt_err *err)
{
	rt_vec(ir_ref) out = { 0 };
	const void **ext = externals(G);
	for (uint32_t i = 0; i < G->step.n; i++)
		if (!gen_is_tuple(G, &G->step.v[i]) && !rt_push(&out, g == G->g ? G->step.v[i].result : G->step.v[i].raw)) abort();
	ir_graph view = *g; /* with other outputs */
	view.out.v = out.v;
	view.out.n = out.n;
	if (!ext || !gen_out_new(o, &view)) abort();
	tj_status st = ir_eval(&view, ext, G->num.v, NULL, o->data, &(ir_eval_opts){ .int_div_zero = G->zeros }, err);
	rt_vec_free(&out);
	free(ext);
	return st;
}

bool gen_folds_ok(gen *G, rt_text *why)
{
	gen_out a, b;
	rt_err ea = { 0 }, eb = { 0 };
	tj_status st = every_step(G, G->g, &a, &ea), su = every_step(G, &G->raw, &b, &eb);
	bool ok = st == su;
	if (!ok) rt_putf(why, "simplified: %s %s; as written: %s %s", tj_strerror(st), ea.message, tj_strerror(su), eb.message);
	for (uint32_t i = 0, k = 0; ok && st == TJ_OK && k < G->step.n; k++) {
		const gen_step *s = &G->step.v[k];
		if (gen_is_tuple(G, s)) continue;
		tj_dtype t = (tj_dtype)ir_at(G->g, s->result)->dtype;
		int64_t at = 0;
		ok = a.bytes[i] == b.bytes[i] && gen_same(t, a.data[i], b.data[i], ir_numel(G->g, s->result), &at);
		i += ok;
		if (ok) continue;
		rt_putf(why, "simplified: step %u, %s, element %lld is ", k, ir_ops[s->op].name, (long long)at);
		gen_put_element(why, t, a.data[i], at);
		rt_puts(why, ", as written ");
		gen_put_element(why, t, b.data[i], at);
	}
	gen_out_free(&a);
	gen_out_free(&b);
	return ok;
}

void gen_put_element(rt_text *t, tj_dtype dtype, const void *data, int64_t at)
{
	size_t size = tj_dtype_size(dtype);
	const char *p = (const char *)data + (size_t)at * size;
	uint64_t i = 0;
	if (rt_is_float(dtype)) rt_putf(t, "%a", ir_cast_scalar(ir_load(dtype, p), dtype, TJ_F64).d);
	else {
		memcpy(&i, p, size);
		rt_putf(t, "%lld", (long long)rt_wrap(dtype, i));
	}
}
