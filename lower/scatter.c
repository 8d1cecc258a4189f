/* scatter_add: loops of ours, bit for bit the evaluator's. Additions into one element follow the order of the index,
 * so it runs on one thread; rows whose index does not change along the last axis add as vectors. */
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

/* Adds a row; false when an index is out of range. bool adds as or, integers wrap as unsigned. */
#define ROW(name, T, SUM)                                                                                        \
	static bool name(const walk *w, const int64_t *index, const void *from, void *to, int64_t size, int64_t step)   \
	{                                                                                                            \
		const int64_t is = w->istride[w->rank - 1], ss = w->sstride[w->rank - 1], os = w->ostride[w->rank - 1];     \
		const int64_t *ix = index + w->index;                                                                    \
		const T *s = (const T *)from + w->src;                                                                   \
		T *o = (T *)to + w->out;                                                                                 \
		if (is == 0) {                                                                                           \
			if (*ix < 0 || *ix >= size) return false;                                                            \
			o += *ix * step;                                                                                     \
			if (ss == 1 && os == 1) for (int64_t k = 0; k < w->n; k++) o[k] = SUM(T, o[k], s[k]);                  \
			else for (int64_t k = 0; k < w->n; k++) o[k * os] = SUM(T, o[k * os], s[k * ss]);                      \
			return true;                                                                                         \
		}                                                                                                        \
		for (int64_t k = 0; k < w->n; k++) {                                                                     \
			int64_t i = ix[k * is];                                                                              \
			if (i < 0 || i >= size) return false;                                                                \
			T *p = o + k * os + i * step;                                                                        \
			*p = SUM(T, *p, s[k * ss]);                                                                          \
		}                                                                                                        \
		return true;                                                                                             \
	}
#define PLUS(T, a, b) (T)(a + b)
#define EITHER(T, a, b) (T)(a != 0 || b != 0)
ROW(row_bool, uint8_t, EITHER)
ROW(row_u8, uint8_t, PLUS)
ROW(row_u16, uint16_t, PLUS)
ROW(row_u32, uint32_t, PLUS)
ROW(row_u64, uint64_t, PLUS)
ROW(row_f32, float, PLUS)
ROW(row_f64, double, PLUS)

typedef bool row_fn(const walk *w, const int64_t *index, const void *from, void *to, int64_t size, int64_t step);
static row_fn *row_of(tj_dtype t)
{
	if (t == TJ_BOOL) return row_bool;
	if (rt_dtype_class(t) == RT_F) return row_f32;
	if (rt_dtype_class(t) == RT_D) return row_f64;
	switch (tj_dtype_size(t)) {
	case 1: return row_u8;
	case 2: return row_u16;
	case 4: return row_u32;
	default: return row_u64;
	}
}

/* base, index (i64), src -> out, row-major. */
static tj_status scatter_add(int64_t axis, const ir_value *src, void *out, const char *site, rt_err *err)
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
	row_fn *row = row_of((tj_dtype)base->meta.dtype);
	do {
		if (row(&w, index->data, add->data, out, size, step)) continue;
		return rt_fault_fail(&(rt_fault){ site, "scatter_add", TJ_ERR_INDEX, size }, err);
	} while (next_row(&w));
	return TJ_OK;
}

/* ---- the step ---- */
static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = "scatter_add";
	return lo_put_operands(L, p, s, t);
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	ir_value src[3];
	lo_call_bind(e, buf, src);
	return scatter_add(e->attr[0], src, buf[3], e->site, r->err);
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it adds in the order of the index, so the result is always the same";
}

const lo_routine lo_scatter_add = { .op = IR_scatter_add, .make = make, .code = { run, NULL }, .why = why };
