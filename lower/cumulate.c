/* SPDX-License-Identifier: MIT */
/* cumulate: cumsum, cumprod, cummax, cummin, linear_recurrence: loops of ours, bit for bit the evaluator's.
 *
 * Operands are row-major: [outer, axis, inner]. A line is a chunk along the axis: IR_RUNNING elements for sums and products, else all of
 * them. A step of a line waits for the one before, so many lines go side by side. Then each chunk of a sum or product gets what the chunks
 * before it gave. */
#include "ir/tree.h"
#include "lower/extremes.h"
#include "lower/library.h"

#include <math.h>

enum {
	BESIDE = 64, /* lines of a vector body */
	TILE = 1024, /* adjacent lines that go together. Parts of rows narrower than a page are read at half the speed */
	SIDE = 8,    /* lines that go side by side, if they are not adjacent */
	STEPS = 16 /* of each of them in turn: a cache line of f32. Lines may be 4096 bytes apart, and the first cache keeps few such lines
	            */
};

typedef void join_fn(const void *before, void *y, int64_t n, int64_t step); /* adds what comes before to the n elements of a line */
typedef struct kind {
	lo_beside_fn *beside;
	lo_side_fn *side;
	join_fn *join; /* NULL: there are no chunks */
	size_t size, result; /* bytes of an element */
} kind;

/* One step of a line: s is its value so far, w the index of that; v and c the elements of x and a at i. */
#define PLUS(T, s, w, v, c, i) s = (T)(s + v)
#define TIMES(T, s, w, v, c, i) s = (T)(s * v)
#define FUSED_F(T, s, w, v, c, i) s = __builtin_fmaf(c, s, v)
#define FUSED_D(T, s, w, v, c, i) s = __builtin_fma(c, s, v)
#define WRAPPED(T, s, w, v, c, i) s = (T)((uint64_t)c * (uint64_t)s + (uint64_t)v)
#define BEST(s, w, v, i, reaches) (w = v != v || (reaches) ? i : w, s = v != v || (reaches) ? v : s)
#define MOST(T, s, w, v, c, i) BEST(s, w, v, i, v >= s)
#define LEAST(T, s, w, v, c, i) BEST(s, w, v, i, v <= s)

#define SIDE_LINES(name, T, R, NEXT, GIVE)                                                                                       \
	static void name(const void *x0, const void *a0, void *y0, const int64_t *at, int lines, int64_t n, int64_t step)             \
	{                                                                                                                            \
		T s[SIDE];                                                                                                               \
		int64_t w[SIDE];                                                                                                         \
		for (int64_t begin = 0; begin < n; begin += STEPS)                                                                       \
			for (int l = 0; l < lines; l++) {                                                                                    \
				const T *restrict x = (const T *)x0 + at[l], *restrict a = (const T *)a0 + at[l];                                 \
				R *restrict y = (R *)y0 + at[l];                                                                                 \
				T sl = begin ? s[l] : x[0];                                                                                      \
				int64_t wl = begin ? w[l] : 0, i = begin, end = n - begin < STEPS ? n : begin + STEPS;                           \
				if (!i) y[0] = (R)GIVE##l, i = 1;                                                                                \
				for (; i < end; i++) {                                                                                           \
					const T v = x[i * step], c = a[i * step];                                                                    \
					(void)c, (void)wl;                                                                                           \
					NEXT(T, sl, wl, v, c, i);                                                                                    \
					y[i * step] = (R)GIVE##l;                                                                                    \
				}                                                                                                                \
				s[l] = sl;                                                                                                       \
				w[l] = wl;                                                                                                       \
			}                                                                                                                    \
	}
#define LINES_BESIDE(name, T, R, NEXT, GIVE, JOINED)                                                                             \
	static void name(const void *x0, const void *a0, const void *before, void *y0, int lines, int64_t n, int64_t step)            \
	{                                                                                                                            \
		const T *restrict x = x0, *restrict a = a0, *restrict b = before;                                                        \
		R *restrict y = y0;                                                                                                      \
		T s[TILE];                                                                                                        \
		int64_t w[TILE];                                                                                                  \
		for (int l = 0; l < lines; l++) s[l] = x[l], w[l] = 0, y[l] = (R)(b ? JOINED(b[l], GIVE[l]) : GIVE[l]);                  \
		for (int64_t i = 1; i < n; i++) {                                                                                        \
			x += step, a += step, y += step;                                                                                     \
			for (int l0 = 0; l0 < lines; l0 += BESIDE)                                                                           \
				for (int l = l0; l < l0 + BESIDE; l++) {                                                                         \
					const T v = x[l], c = a[l];                                                                                  \
					(void)c, (void)w;                                                                                            \
					NEXT(T, s[l], w[l], v, c, i);                                                                                \
					y[l] = (R)(b ? JOINED(b[l], GIVE[l]) : GIVE[l]);                                                             \
				}                                                                                                                \
		}                                                                                                                        \
	}
#define SUM(a, b) (a) + (b)
#define PRODUCT(a, b) (a) * (b)
#define ALONE(a, b) b
#define KIND(name, target, T, R, NEXT, GIVE, JOINED)                \
	target LINES_BESIDE(name##_beside, T, R, NEXT, GIVE, JOINED)    \
	target SIDE_LINES(name##_side, T, R, NEXT, GIVE)
#define CHUNKED(name, T, NEXT, JOINED)                                                         \
	KIND(name, , T, T, NEXT, s, JOINED)                                                        \
	static void name##_join(const void *before, void *to, int64_t n, int64_t step)             \
	{                                                                                          \
		const T b = *(const T *)before;                                                        \
		T *y = to;                                                                             \
		if (step == 1)                                                                         \
			for (int64_t i = 0; i < n; i++) y[i] = (T)(JOINED(b, y[i]));                       \
		else                                                                                   \
			for (int64_t i = 0; i < n; i++, y += step) *y = (T)(JOINED(b, *y));                \
	}
#define WIDE __attribute__((target("avx2,fma")))
#define EXTREME(name, T)                             \
	KIND(most_##name, , T, T, MOST, s, ALONE)               \
	KIND(least_##name, , T, T, LEAST, s, ALONE)             \
	KIND(most_at_##name, , T, int64_t, MOST, w, ALONE)      \
	KIND(least_at_##name, , T, int64_t, LEAST, w, ALONE)

CHUNKED(sum_f, float, PLUS, SUM)
CHUNKED(sum_d, double, PLUS, SUM)
CHUNKED(sum_i, uint64_t, PLUS, SUM)
CHUNKED(prod_f, float, TIMES, PRODUCT)
CHUNKED(prod_d, double, TIMES, PRODUCT)
CHUNKED(prod_i, uint64_t, TIMES, PRODUCT)
KIND(fused_f, , float, float, FUSED_F, s, ALONE)
KIND(fused_d, , double, double, FUSED_D, s, ALONE)
KIND(wide_f, WIDE, float, float, FUSED_F, s, ALONE)
KIND(wide_d, WIDE, double, double, FUSED_D, s, ALONE)
KIND(wrapped_8, , uint8_t, uint8_t, WRAPPED, s, ALONE)
KIND(wrapped_16, , uint16_t, uint16_t, WRAPPED, s, ALONE)
KIND(wrapped_32, , uint32_t, uint32_t, WRAPPED, s, ALONE)
KIND(wrapped_64, , uint64_t, uint64_t, WRAPPED, s, ALONE)
EXTREME(u8, uint8_t)
EXTREME(i8, int8_t)
EXTREME(i16, int16_t)
EXTREME(i32, int32_t)
EXTREME(i64, int64_t)
EXTREME(f, float)
EXTREME(d, double)

#define OF(name, join, T, R) { name##_beside, name##_side, join, sizeof(T), sizeof(R) }
static const kind sums[] = { [RT_I] = OF(sum_i, sum_i_join, int64_t, int64_t),
	                     [RT_F] = OF(sum_f, sum_f_join, float, float),
	                     [RT_D] = OF(sum_d, sum_d_join, double, double) };
static const kind prods[] = { [RT_I] = OF(prod_i, prod_i_join, int64_t, int64_t),
	                      [RT_F] = OF(prod_f, prod_f_join, float, float),
	                      [RT_D] = OF(prod_d, prod_d_join, double, double) };
static const kind wrapped[] = { [1] = OF(wrapped_8, NULL, int8_t, int8_t),
	                        [2] = OF(wrapped_16, NULL, int16_t, int16_t),
	                        [4] = OF(wrapped_32, NULL, int32_t, int32_t),
	                        [8] = OF(wrapped_64, NULL, int64_t, int64_t) };
static const kind fused[][2] = { { OF(fused_f, NULL, float, float), OF(fused_d, NULL, double, double) },
	                         { OF(wide_f, NULL, float, float), OF(wide_d, NULL, double, double) } };
#define EXTREMES(dtype, name, T)                                                                          \
	[dtype] = { { OF(most_##name, NULL, T, T), OF(most_at_##name, NULL, T, int64_t) },                    \
		        { OF(least_##name, NULL, T, T), OF(least_at_##name, NULL, T, int64_t) } }
static const kind extremes[][2][2] = { EXTREMES(TJ_BOOL, u8, uint8_t), EXTREMES(TJ_U8, u8, uint8_t),   EXTREMES(TJ_I8, i8, int8_t),
	                               EXTREMES(TJ_I16, i16, int16_t), EXTREMES(TJ_I32, i32, int32_t), EXTREMES(TJ_I64, i64, int64_t),
	                               EXTREMES(TJ_F32, f, float),     EXTREMES(TJ_F64, d, double) };

static const kind *kind_of(ir_op op, int which, tj_dtype t)
{
	const rt_class cls = rt_dtype_class(t);
	if (op == IR_cumsum) return &sums[cls];
	if (op == IR_cumprod) return &prods[cls];
	if (op == IR_cummax || op == IR_cummin) return &extremes[t][op == IR_cummin][which];
	if (cls == RT_I) return &wrapped[tj_dtype_size(t)];
	return &fused[__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")][cls == RT_D];
}

/* ---- the walk ---- */
typedef struct walk {
	const kind *kind;
	const char *x, *a;
	char *y;
	int64_t n, inner, chunk;
} walk;

typedef struct group {               /* of lines that go side by side */
	int have;
	int64_t len, at[SIDE];
	bool later[SIDE];                /* not the first chunk of its row */
} group;

static const char *operand(const walk *w, const char *x, int64_t at) { return x + at * (int64_t)w->kind->size; }
static char *result(const walk *w, int64_t at) { return w->y + at * (int64_t)w->kind->result; }

static void run_group(const walk *w, group *g)
{
	w->kind->side(w->x, w->a, w->y, g->at, g->have, g->len, w->inner);
	for (int l = 0; l < g->have; l++)
		if (g->later[l]) w->kind->join(result(w, g->at[l] - w->inner), result(w, g->at[l]), g->len, w->inner);
	g->have = 0;
}

/* Lines of `len` elements: those of chunks first..last - 1 of outer indices o0..o1 - 1 at inner indices j0..j1 - 1. */
static void run_lines(const walk *w, int64_t o0, int64_t o1, int64_t first, int64_t last, int64_t len, int64_t j0, int64_t j1)
{
	group g = { .len = len };
	const int beside = (int)((j1 - j0) / BESIDE * BESIDE);
	for (int64_t o = o0; o < o1; o++)
		for (int64_t c = first; c < last; c++) {
			const int64_t at = (o * w->n + c * w->chunk) * w->inner + j0;
			if (beside)
				w->kind->beside(operand(w, w->x, at), operand(w, w->a, at), c ? result(w, at - w->inner) : NULL, result(w, at), beside, len, w->inner);
			for (int64_t j = beside; j < j1 - j0; j++) {
				g.later[g.have] = c > 0;
				g.at[g.have++] = at + j;
				if (g.have == SIDE) run_group(w, &g);
			}
		}
	if (g.have) run_group(w, &g);
}

static void run_part(const walk *w, int64_t o0, int64_t o1, int64_t j0, int64_t j1)
{
	const int64_t whole = w->n / w->chunk, rest = w->n % w->chunk;
	run_lines(w, o0, o1, 0, whole, w->chunk, j0, j1);
	if (rest) run_lines(w, o0, o1, whole, whole + 1, rest, j0, j1);
}

static int64_t tiles(const walk *w) { return (w->inner + TILE - 1) / TILE; }

/* Units: outer indices; if there are several tiles, these of each. */
static void run_units(void *env, int thread, int64_t begin, int64_t end)
{
	const walk *w = env;
	const int64_t n = tiles(w);
	(void)thread;
	if (n == 1) {
		run_part(w, begin, end, 0, w->inner);
		return;
	}
	for (int64_t u = begin; u < end; u++) {
		const int64_t o = u / n, j = u % n * TILE;
		run_part(w, o, o + 1, j, j + TILE < w->inner ? j + TILE : w->inner);
	}
}

/* ---- the step ---- */
static bool make(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	t->name = ir_ops[lo_node(L, s->ref)->op].name;
	return lo_put_operands(L, p, s, t);
}

/* Values of cummax and cummin of floats; own: room for them. */
static const kind *faster(const lo_call *e, tj_dtype t, int64_t inner, const kind *plain, kind *own)
{
	const lo_extremes *x = (e->op == IR_cummax || e->op == IR_cummin) && !e->which ? lo_extremes_of(t, e->op == IR_cummin) : NULL;
	if (!x) return plain;
	*own = *plain;
	own->beside = x->beside;
	if (inner == 1) own->side = x->side;
	return own;
}

static tj_status run(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	const ir_meta *m = &e->src[0].meta;
	const int axis = (int)e->attr[0], last = e->nsrc - 1; /* a is the first operand, if there are two */
	const tj_dtype t = (tj_dtype)m->dtype;
	int64_t outer = 1, all = 1;
	walk w = { .kind = kind_of(e->op, e->which, t), .x = buf[last], .a = buf[0], .y = buf[e->nsrc], .n = 1, .inner = 1 };
	kind own;
	for (int i = 0; i < m->rank; i++) {
		int64_t *to = i < axis ? &outer : i > axis ? &w.inner : &w.n;
		*to *= m->dim[i];
		all *= m->dim[i];
	}
	if (!all) return TJ_OK;
	w.chunk = w.kind->join && w.n > IR_RUNNING ? IR_RUNNING : w.n;
	w.kind = faster(e, t, w.inner, w.kind, &own);
	const double ns = (double)w.n * (double)w.inner * 0.5 / (double)tiles(&w); /* of a unit */
	rt_team_run(r, outer * tiles(&w), ns < 1e3 ? (int64_t)(1e3 / ns) + 1 : 1, ns * (double)(outer * tiles(&w)), run_units, &w);
	return TJ_OK;
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "each element needs the one before it";
}

#define ROUTINE(of) { .op = of, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why }
const lo_routine lo_cumulate[LO_CUMULATES] = { ROUTINE(IR_cumsum), ROUTINE(IR_cumprod), ROUTINE(IR_cummax), ROUTINE(IR_cummin),
	                                       ROUTINE(IR_linear_recurrence) };
