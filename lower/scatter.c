/* SPDX-License-Identifier: MIT */
/* scatter_add and its like: loops of ours, bit for bit the evaluator's. What happens to one element follows the order of the index; rows
 * whose index does not change along the last axis are joined as vectors. Threads share the work in one of two ways:
 *
 *   parts of another axis    each part writes elements of its own
 *   parts of the index       the largest, the least, sums of integers: each part has a copy of the result, and the copies are joined in
 *                            order
 *
 * A sum of floats along the only axis runs on one thread. An index of another dtype than i64 is widened a few elements at a time, except
 * in narrow rows. */
#include "lower/library.h"
#include "runtime/bytes.h"

#include <math.h>

typedef struct walk { /* rows of the index: all axes but the last by an odometer, the last in a loop */
	int rank, axis;
	bool narrow;                     /* an index of i32, all neighbours: rows read it as it is */
	int64_t n;                       /* of the last axis */
	int64_t dim[TJ_MAX_RANK], at[TJ_MAX_RANK];
	int64_t index, src, out;         /* offsets of the row; out without the scattered axis */
	const int64_t *istride, *sstride;
	int64_t ostride[TJ_MAX_RANK];    /* 0 along the scattered axis */
} walk;

static bool next_row(walk *w)
{
	for (int d = w->rank - 2; d >= 0; d--) {
		w->index += w->istride[d];
		w->src += w->sstride[d];
		w->out += w->ostride[d];
		if (++w->at[d] < w->dim[d]) return true;
		w->index -= w->istride[d] * w->dim[d];
		w->src -= w->sstride[d] * w->dim[d];
		w->out -= w->ostride[d] * w->dim[d];
		w->at[d] = 0;
	}
	return false;
}

#define OUT(i, size) ((uint64_t)(i) >= (uint64_t)(size))
#define PUT(T, ONE, at, x)                                   \
	{                                                        \
		T *const p = at;                                     \
		const T was = *p, with = x;                          \
		*p = ONE(T, was, with);                              \
	}

/* Joins n elements that each have an index of type I. The last four are strides. */
#define EACH_INDEX(I, T, ONE, is, ss, os, step)                                                             \
	{                                                                                                       \
		const I *ix = (const I *)index + w->index;                                                          \
		int64_t k = 0;                                                                                      \
		for (; k + 4 <= w->n; k += 4, o += 4 * os) { /* reads four of each, then writes */                  \
			const int64_t i = ix[k * is], i1 = ix[(k + 1) * is], i2 = ix[(k + 2) * is], i3 = ix[(k + 3) * is]; \
			const T x = s[k * ss], x1 = s[(k + 1) * ss], x2 = s[(k + 2) * ss], x3 = s[(k + 3) * ss];        \
			if (OUT(i, size) | OUT(i1, size) | OUT(i2, size) | OUT(i3, size)) return false;                 \
			PUT(T, ONE, o + i * step, x)                                                                    \
			PUT(T, ONE, o + os + i1 * step, x1)                                                             \
			PUT(T, ONE, o + 2 * os + i2 * step, x2)                                                         \
			PUT(T, ONE, o + 3 * os + i3 * step, x3)                                                         \
		}                                                                                                   \
		for (; k < w->n; k++, o += os) {                                                                    \
			const int64_t i = ix[k * is];                                                                   \
			if (OUT(i, size)) return false;                                                                 \
			PUT(T, ONE, o + i * step, s[k * ss])                                                            \
		}                                                                                                   \
	}

/* Joins a row to the elements, with ONE where each has an index; false when one is out of range. bool adds as or, integers wrap as
 * unsigned. The index is of i32 if the row is narrow, else of i64. */
#define ROW(name, T, JOIN, ONE)                                                                                     \
	static bool name(const walk *w, const void *index, const void *from, void *to, int64_t size, int64_t step)      \
	{                                                                                                            \
		const int64_t is = w->istride[w->rank - 1], ss = w->sstride[w->rank - 1], os = w->ostride[w->rank - 1];     \
		const T *s = (const T *)from + w->src;                                                                   \
		T *o = (T *)to + w->out;                                                                                 \
		if (w->narrow) EACH_INDEX(int32_t, T, ONE, 1, 1, 0, 1)                                                   \
		else if (is == 0) {                                                                                      \
			const int64_t i = ((const int64_t *)index)[w->index];                                                \
			if (OUT(i, size)) return false;                                                                      \
			o += i * step;                                                                                       \
			if (ss == 1 && os == 1) for (int64_t k = 0; k < w->n; k++) o[k] = JOIN(T, o[k], s[k]);                  \
			else for (int64_t k = 0; k < w->n; k++) o[k * os] = JOIN(T, o[k * os], s[k * ss]);                      \
		} else if (is == 1 && ss == 1 && !os && step == 1) EACH_INDEX(int64_t, T, ONE, 1, 1, 0, 1)               \
		else EACH_INDEX(int64_t, T, ONE, is, ss, os, step)                                                       \
		return true;                                                                                             \
	}
#define PLUS(T, a, b) (T)(a + b)
#define TIMES(T, a, b) (T)(a * b)
#define TIMES16(T, a, b) (T)((uint32_t)a * b) /* the promoted product could overflow an int */
#define MOST(T, a, b) (((b > a) | (b != b)) ? b : a) /* without a branch, so that rows become vectors */
#define LEAST(T, a, b) (((b < a) | (b != b)) ? b : a)
#define MOST_ONE(T, a, b) (RT_UNLIKELY(b != b) ? b : b > a ? b : a) /* only NaN branches: b > a would be guessed wrong */
#define LEAST_ONE(T, a, b) (RT_UNLIKELY(b != b) ? b : b < a ? b : a)
#define EITHER(T, a, b) (T)(a != 0 || b != 0)
#define BOTH(T, a, b) (T)(a != 0 && b != 0)
#define SECOND(T, a, b) ((void)a, b)
#define TRUTH(T, a, b) ((void)a, (T)(b != 0))
#define UNSIGNED(name, JOIN, JOIN16) \
	ROW(name##_u8, uint8_t, JOIN, JOIN) \
	ROW(name##_u16, uint16_t, JOIN16, JOIN16) ROW(name##_u32, uint32_t, JOIN, JOIN) ROW(name##_u64, uint64_t, JOIN, JOIN)
#define SIGNED(name, JOIN) \
	ROW(name##_u8, uint8_t, JOIN, JOIN) \
	ROW(name##_i8, int8_t, JOIN, JOIN) ROW(name##_i16, int16_t, JOIN, JOIN) ROW(name##_i32, int32_t, JOIN, JOIN) \
		ROW(name##_i64, int64_t, JOIN, JOIN)
#define FLOATS(name, JOIN, ONE) ROW(name##_f32, float, JOIN, ONE) ROW(name##_f64, double, JOIN, ONE)
ROW(add_bool, uint8_t, EITHER, EITHER)
UNSIGNED(add, PLUS, PLUS)
FLOATS(add, PLUS, PLUS)
ROW(mul_bool, uint8_t, BOTH, BOTH)
UNSIGNED(mul, TIMES, TIMES16)
FLOATS(mul, TIMES, TIMES)
SIGNED(max, MOST)
FLOATS(max, MOST, MOST_ONE)
SIGNED(min, LEAST)
FLOATS(min, LEAST, LEAST_ONE)
ROW(put_bool, uint8_t, TRUTH, TRUTH)
UNSIGNED(put, SECOND, SECOND)

typedef bool row_fn(const walk *w, const void *index, const void *from, void *to, int64_t size, int64_t step);
static row_fn *of_size(size_t size, row_fn *a, row_fn *b, row_fn *c, row_fn *d)
{
	return size == 1 ? a : size == 2 ? b : size == 4 ? c : d;
}

static row_fn *row_of(ir_op op, tj_dtype t)
{
	const size_t size = tj_dtype_size(t);
	const bool f32 = rt_dtype_class(t) == RT_F, f64 = rt_dtype_class(t) == RT_D;
	switch (op) {
	case IR_scatter_add:
		if (f32 || f64) return f32 ? add_f32 : add_f64;
		return t == TJ_BOOL ? add_bool : of_size(size, add_u8, add_u16, add_u32, add_u64);
	case IR_scatter_prod:
		if (f32 || f64) return f32 ? mul_f32 : mul_f64;
		return t == TJ_BOOL ? mul_bool : of_size(size, mul_u8, mul_u16, mul_u32, mul_u64);
	case IR_scatter_amax:
		if (f32 || f64) return f32 ? max_f32 : max_f64;
		return t == TJ_BOOL ? add_bool : t == TJ_U8 ? max_u8 : of_size(size, max_i8, max_i16, max_i32, max_i64);
	case IR_scatter_amin:
		if (f32 || f64) return f32 ? min_f32 : min_f64;
		return t == TJ_BOOL ? mul_bool : t == TJ_U8 ? min_u8 : of_size(size, min_i8, min_i16, min_i32, min_i64);
	default: return t == TJ_BOOL ? put_bool : of_size(size, put_u8, put_u16, put_u32, put_u64);
	}
}

/* ---- parts, one for a thread ---- */
enum { MOST_PARTS = 64, ENOUGH = 1 << 14, LINE = 16 }; /* ENOUGH: indices that pay for threads. LINE: elements of a cache line */

typedef struct parts {
	ir_op op;
	tj_dtype dtype, index_dtype;
	walk w;              /* of all */
	row_fn *row;
	const void *index, *from;
	char *out, *copy;    /* copy: the results of all parts but the first, one after the other; NULL: all parts write out */
	int64_t numel;       /* of the result */
	int64_t size, step;  /* of the scattered axis */
	int n, axis;         /* axis: of the index, cut into n parts */
	bool bad[MOST_PARTS]; /* by part: an index is out of range */
} parts;

/* Part i of the walk: some indices of an axis. */
static walk part_of(const parts *p, int64_t i)
{
	walk w = p->w;
	const int64_t n = w.dim[p->axis], first = n * i / p->n;
	w.dim[p->axis] = n * (i + 1) / p->n - first;
	if (p->axis == w.rank - 1) w.n = w.dim[p->axis];
	w.index += first * w.istride[p->axis];
	w.src += first * w.sstride[p->axis];
	w.out += first * w.ostride[p->axis];
	return w;
}

/* Sets n elements to what changes none when it is joined. */
static void fill_neutral(ir_op op, tj_dtype t, int64_t n, char *to)
{
	const double most = op == IR_scatter_amax ? -INFINITY : INFINITY, one = op == IR_scatter_add ? 0 : op == IR_scatter_prod ? 1 : most;
	const size_t size = tj_dtype_size(t), bytes = (size_t)n * size;
	ir_store(t, to, ir_cast_scalar((ir_scalar){ .d = one }, TJ_F64, t));
	for (size_t done = size; done < bytes; done *= 2) memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

/* Joins may be grouped in any way. The bytes of a bool that nothing is joined to stay as they are. */
static bool any_groups(ir_op op, tj_dtype t)
{
	if (t == TJ_BOOL || op == IR_scatter) return false;
	return !rt_is_float(t) || op == IR_scatter_amax || op == IR_scatter_amin;
}

/* n elements of an index, from x on, in steps. */
static void widen(tj_dtype t, int64_t *to, const void *x, int64_t at, int64_t step, int64_t n)
{
#define EACH(T, value) \
	do { \
		const T *v = (const T *)x + at; \
		if (step == 1) for (int64_t i = 0; i < n; i++) to[i] = value(v[i]); \
		else for (int64_t i = 0; i < n; i++) to[i] = value(v[i * step]); \
	} while (0)
#define TRUE(b) ((b) != 0)
	switch (t) {
	case TJ_BOOL: EACH(uint8_t, TRUE); break;
	case TJ_U8: EACH(uint8_t, ); break;
	case TJ_I8: EACH(int8_t, ); break;
	case TJ_I16: EACH(int16_t, ); break;
	case TJ_I32: EACH(int32_t, ); break;
	default: EACH(int64_t, );
	}
#undef EACH
#undef TRUE
}

/* ---- counting: equal integers are added to few elements ---- */
enum { MOST_COUNTS = 1024, TABLES = 4 };
static bool counts(const parts *p, const walk *w)
{
	const int last = w->rank - 1;
	return p->op == IR_scatter_add && !rt_is_float(p->dtype) && p->dtype != TJ_BOOL && !w->sstride[last] && !w->ostride[last] &&
	       w->istride[last] && p->size <= MOST_COUNTS && w->n >= p->size && w->n <= UINT32_MAX;
}

/* Neighbours count in tables of their own: an element that is read just after it was written waits for that. */
static bool count_some(uint32_t (*table)[MOST_COUNTS], const int64_t *index, int64_t n, int64_t size)
{
	int64_t i = 0;
	for (; i + TABLES <= n; i += TABLES) {
		const uint64_t a = (uint64_t)index[i], b = (uint64_t)index[i + 1], c = (uint64_t)index[i + 2], d = (uint64_t)index[i + 3];
		if ((a >= (uint64_t)size) | (b >= (uint64_t)size) | (c >= (uint64_t)size) | (d >= (uint64_t)size)) return false;
		table[0][a]++, table[1][b]++, table[2][c]++, table[3][d]++;
	}
	for (; i < n; i++) {
		if (OUT(index[i], size)) return false;
		table[0][index[i]]++;
	}
	return true;
}

/* The element, times its count, is added to each element of the result. */
static void add_counts(const parts *p, const walk *w, uint32_t (*table)[MOST_COUNTS], char *to)
{
	const size_t size = tj_dtype_size(p->dtype);
	const char *x = (const char *)p->from + w->src * (int64_t)size;
	for (int64_t i = 0; i < p->size; i++) {
		const uint64_t n = (uint64_t)table[0][i] + table[1][i] + table[2][i] + table[3][i];
		char *o = to + (w->out + i * p->step) * (int64_t)size;
		const ir_scalar was = ir_load(p->dtype, o), one = ir_load(p->dtype, x);
		if (n) ir_store(p->dtype, o, (ir_scalar){ .i = (int64_t)((uint64_t)was.i + n * (uint64_t)one.i) });
	}
}

/* A row of the walk. */
static bool put_row(const parts *p, const walk *w, char *to)
{
	enum { SOME = 512 };
	int64_t index[SOME], istride[TJ_MAX_RANK + 1] = { 0 };
	uint32_t table[TABLES][MOST_COUNTS];
	const int last = w->rank - 1;
	const bool count = counts(p, w);
	if ((p->index_dtype == TJ_I64 || w->narrow) && !count) return p->row(w, p->index, p->from, to, p->size, p->step);
	for (int i = 0; count && i < TABLES; i++) memset(table[i], 0, sizeof **table * (size_t)p->size);
	walk some = *w;
	some.istride = istride;
	some.index = 0;
	some.narrow = false;
	istride[last] = w->istride[last] != 0;
	for (int64_t at = 0; at < w->n; at += SOME) {
		some.n = w->n - at < SOME ? w->n - at : SOME;
		widen(p->index_dtype, index, p->index, w->index + at * w->istride[last], w->istride[last], istride[last] ? some.n : 1);
		if (!(count ? count_some(table, index, some.n, p->size) : p->row(&some, index, p->from, to, p->size, p->step))) return false;
		some.src += some.n * w->sstride[last];
		some.out += some.n * w->ostride[last];
	}
	if (count) add_counts(p, w, table, to);
	return true;
}

static void run_parts(void *env, int thread, int64_t begin, int64_t end)
{
	parts *p = env;
	(void)thread;
	for (int64_t i = begin; i < end; i++) {
		walk w = part_of(p, i);
		char *to = p->out;
		if (i && p->copy) fill_neutral(p->op, p->dtype, p->numel, to = p->copy + (i - 1) * p->numel * (int64_t)tj_dtype_size(p->dtype));
		if (!w.dim[p->axis]) continue;
		do p->bad[i] = !put_row(p, &w, to);
		while (!p->bad[i] && next_row(&w));
	}
}

/* An axis whose parts write different elements, or -1. */
static int apart(const walk *w, int64_t axis, int n)
{
	for (int d = 0; d < w->rank; d++)
		if (d != axis && w->dim[d] >= (d == w->rank - 1 ? LINE : 1) * n) return d;
	return -1;
}
/* Sets n, axis and copy. count: of the index. */
static bool cut(parts *p, int64_t axis, int64_t count, rt_run *r)
{
	const int threads = r->team ? rt_team_size(r->team) : 1, n = threads < MOST_PARTS ? threads : MOST_PARTS;
	const int other = apart(&p->w, axis, n);
	p->n = 1;
	if (count < ENOUGH || (other < 0 && (!any_groups(p->op, p->dtype) || p->numel > count / n))) return true;
	p->n = n;
	p->axis = other < 0 ? (int)axis : other;
	if (other >= 0 || n == 1) return true;
	return (p->copy = rt_pool_scratch(r->pool, 1, (size_t)(n - 1) * (size_t)p->numel * tj_dtype_size(p->dtype))) != NULL;
}

/* Joins the copies to the result. */
static void join(parts *p)
{
	static const int64_t none = 0, flat = 1;
	const walk w = { .rank = 1, .n = p->numel, .dim = { p->numel }, .istride = &none, .sstride = &flat, .ostride = { 1 } };
	for (int i = 1; i < p->n && p->copy; i++)
		(void)p->row(&w, &none, p->copy + (i - 1) * p->numel * (int64_t)tj_dtype_size(p->dtype), p->out, 1, 0);
}

/* Rows of neighbours, along the scattered axis. */
static bool narrow(const parts *p)
{
	const int last = p->w.rank - 1;
	return p->w.istride[last] == 1 && p->w.sstride[last] == 1 && !p->w.ostride[last] && p->step == 1;
}

/* base, index, src -> out, row-major. */
static tj_status scatter(ir_op op, int64_t axis, const ir_value *src, void *out, const char *site, rt_run *r)
{
	static const int64_t one[1] = { 0 };
	const ir_value *base = &src[0], *index = &src[1], *add = &src[2];
	const tj_dtype t = (tj_dtype)base->meta.dtype;
	int64_t stride[TJ_MAX_RANK + 1] = { 1 }, count;
	parts p = { .op = op, .dtype = t, .index_dtype = (tj_dtype)index->meta.dtype, .row = row_of(op, t), .index = index->data,
	            .from = add->data, .out = out, .size = 1, .step = 1 };
	p.w = (walk){ .rank = index->meta.rank, .istride = index->stride, .sstride = add->stride, .n = 1 };
	rt_pack(base->meta.rank, base->meta.dim, tj_dtype_size(t), base->data, base->stride, out);
	if (!rt_numel(p.w.rank, index->meta.dim, &count) || !count || !rt_numel(base->meta.rank, base->meta.dim, &p.numel)) return TJ_OK;
	ir_contiguous(base->meta.rank, base->meta.dim, stride);
	memcpy(p.w.dim, index->meta.dim, sizeof p.w.dim);
	memcpy(p.w.ostride, stride, sizeof p.w.ostride);
	if (p.w.rank) {
		p.size = base->meta.dim[axis], p.step = stride[axis];
		p.w.ostride[axis] = 0;
		p.w.n = p.w.dim[p.w.rank - 1];
		p.w.narrow = p.index_dtype == TJ_I32 && narrow(&p);
	} else { /* one element */
		p.w.rank = 1;
		p.w.dim[0] = 1;
		p.w.istride = p.w.sstride = one;
		p.w.ostride[0] = 0;
	}
	if (!cut(&p, axis, count, r)) return rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[op].name, "out of memory");
	if (p.n == 1) run_parts(&p, 0, 0, 1);
	else rt_team_run(r, p.n, 1, (double)count, run_parts, &p);
	for (int i = 0; i < p.n; i++)
		if (p.bad[i]) return rt_fault_fail(&(rt_fault){ site, ir_ops[op].name, TJ_ERR_INDEX, p.size }, r->err);
	join(&p);
	return TJ_OK;
}

/* ---- the step ---- */
static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = ir_ops[lo_node(L, s->ref)->op].name;
	return lo_put_operands(L, p, s, t);
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	ir_value src[3];
	lo_call_bind(e, buf, src);
	return scatter(e->op, e->attr[0], src, buf[3], e->site, r);
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it follows the order of the index, so the result is always the same";
}

#define SCATTER(name) { .op = IR_##name, .make = make, .code = { run, NULL }, .why = why }
const lo_routine lo_scatter[LO_SCATTERS] = { SCATTER(scatter_add), SCATTER(scatter), SCATTER(scatter_prod), SCATTER(scatter_amax),
	                                     SCATTER(scatter_amin) };
