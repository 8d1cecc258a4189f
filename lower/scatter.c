/* scatter_add and its like: loops of ours, bit for bit the evaluator's. What happens to one element follows the order of the index,
 * so it runs on one thread; rows whose index does not change along the last axis are joined as vectors. */
#include "lower/library.h"
#include "runtime/bytes.h"

typedef struct walk { /* rows of the index: all axes but the last by an odometer, the last in a loop */
	int rank, axis;
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

/* Joins a row to the elements; false when an index is out of range. bool adds as or, integers wrap as unsigned. */
#define ROW(name, T, JOIN)                                                                                       \
	static bool name(const walk *w, const int64_t *index, const void *from, void *to, int64_t size, int64_t step)   \
	{                                                                                                            \
		const int64_t is = w->istride[w->rank - 1], ss = w->sstride[w->rank - 1], os = w->ostride[w->rank - 1];     \
		const int64_t *ix = index + w->index;                                                                    \
		const T *s = (const T *)from + w->src;                                                                   \
		T *o = (T *)to + w->out;                                                                                 \
		if (is == 0) {                                                                                           \
			if (*ix < 0 || *ix >= size) return false;                                                            \
			o += *ix * step;                                                                                     \
			if (ss == 1 && os == 1) for (int64_t k = 0; k < w->n; k++) o[k] = JOIN(T, o[k], s[k]);                  \
			else for (int64_t k = 0; k < w->n; k++) o[k * os] = JOIN(T, o[k * os], s[k * ss]);                      \
			return true;                                                                                         \
		}                                                                                                        \
		for (int64_t k = 0; k < w->n; k++) {                                                                     \
			int64_t i = ix[k * is];                                                                              \
			if (i < 0 || i >= size) return false;                                                                \
			T *p = o + k * os + i * step;                                                                        \
			*p = JOIN(T, *p, s[k * ss]);                                                                          \
		}                                                                                                        \
		return true;                                                                                             \
	}
#define PLUS(T, a, b) (T)(a + b)
#define TIMES(T, a, b) (T)(a * b)
#define TIMES16(T, a, b) (T)((uint32_t)a * b) /* the promoted product could overflow an int */
#define MOST(T, a, b) ((b > a) | (b != b) ? b : a) /* without a branch, so that rows become vectors */
#define LEAST(T, a, b) ((b < a) | (b != b) ? b : a)
#define EITHER(T, a, b) (T)(a != 0 || b != 0)
#define BOTH(T, a, b) (T)(a != 0 && b != 0)
#define SECOND(T, a, b) ((void)a, b)
#define TRUTH(T, a, b) ((void)a, (T)(b != 0))
#define UNSIGNED(name, JOIN, JOIN16) ROW(name##_u8, uint8_t, JOIN) ROW(name##_u16, uint16_t, JOIN16) ROW(name##_u32, uint32_t, JOIN) ROW(name##_u64, uint64_t, JOIN)
#define SIGNED(name, JOIN) ROW(name##_u8, uint8_t, JOIN) ROW(name##_i8, int8_t, JOIN) ROW(name##_i16, int16_t, JOIN) ROW(name##_i32, int32_t, JOIN) ROW(name##_i64, int64_t, JOIN)
#define FLOATS(name, JOIN) ROW(name##_f32, float, JOIN) ROW(name##_f64, double, JOIN)
ROW(add_bool, uint8_t, EITHER)
UNSIGNED(add, PLUS, PLUS)
FLOATS(add, PLUS)
ROW(mul_bool, uint8_t, BOTH)
UNSIGNED(mul, TIMES, TIMES16)
FLOATS(mul, TIMES)
SIGNED(max, MOST)
FLOATS(max, MOST)
SIGNED(min, LEAST)
FLOATS(min, LEAST)
ROW(put_bool, uint8_t, TRUTH)
UNSIGNED(put, SECOND, SECOND)

typedef bool row_fn(const walk *w, const int64_t *index, const void *from, void *to, int64_t size, int64_t step);
static row_fn *of_size(size_t size, row_fn *a, row_fn *b, row_fn *c, row_fn *d) { return size == 1 ? a : size == 2 ? b : size == 4 ? c : d; }

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

/* base, index (i64), src -> out, row-major. */
static tj_status scatter(ir_op op, int64_t axis, const ir_value *src, void *out, const char *site, rt_err *err)
{
	const ir_value *base = &src[0], *index = &src[1], *add = &src[2];
	int64_t stride[TJ_MAX_RANK + 1] = { 1 }, numel;
	walk w = { .rank = index->meta.rank, .istride = index->stride, .sstride = add->stride, .n = 1 };
	rt_pack(base->meta.rank, base->meta.dim, tj_dtype_size((tj_dtype)base->meta.dtype), base->data, base->stride, out);
	if (!rt_numel(w.rank, index->meta.dim, &numel) || !numel) return TJ_OK;
	static const int64_t one[1] = { 0 };
	ir_contiguous(base->meta.rank, base->meta.dim, stride);
	memcpy(w.dim, index->meta.dim, sizeof w.dim);
	memcpy(w.ostride, stride, sizeof w.ostride);
	int64_t size = w.rank ? base->meta.dim[axis] : 1, step = w.rank ? stride[axis] : 1;
	if (w.rank) {
		w.ostride[axis] = 0;
		w.n = w.dim[w.rank - 1];
	} else { /* one element */
		w.rank = 1;
		w.istride = w.sstride = one;
		w.ostride[0] = 0;
	}
	row_fn *row = row_of(op, (tj_dtype)base->meta.dtype);
	do {
		if (row(&w, index->data, add->data, out, size, step)) continue;
		return rt_fault_fail(&(rt_fault){ site, ir_ops[op].name, TJ_ERR_INDEX, size }, err);
	} while (next_row(&w));
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
	return scatter(e->op, e->attr[0], src, buf[3], e->site, r->err);
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it follows the order of the index, so the result is always the same";
}

#define SCATTER(name) { .op = IR_##name, .make = make, .code = { run, NULL }, .why = why }
const lo_routine lo_scatter[LO_SCATTERS] = { SCATTER(scatter_add), SCATTER(scatter), SCATTER(scatter_prod), SCATTER(scatter_amax), SCATTER(scatter_amin) };
