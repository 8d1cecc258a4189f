/* SPDX-License-Identifier: MIT */
/* csrloops: products with sparse matrices: loops of ours, bit for bit the evaluator's. Each element of a result is added in the order of
 * the matrix's elements, in a register where rows are added up. Threads take rows; of a transposed product, columns of the result. */
#include "ir/csr.h"
#include "lower/library.h"

#include <stdatomic.h>

enum { LANES = IR_CSR_SUMS };

typedef struct matrix { /* an example, row-major */
	const int64_t *offsets, *columns;
	const void *a, *b;
	void *y;
	int64_t m, n, k, size;
} matrix;

/* Vectors without an alignment of their own. Their sums and products are those of single elements: -ffp-contract=off. */
#define VECTORS(T)                                                                                       \
	typedef T T##_lanes __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
VECTORS(float)
VECTORS(double)

#define AT(V, x) (*(const V *)(const void *)(x))

/* Row of the result: the elements from e to end, from column j of b and y on. */
#define PRODUCT(name, T, V, ISA)                                                                                                 \
	ISA static void name##_row(const matrix *x, int64_t i, int64_t from, int64_t to)                                             \
	{                                                                                                                            \
		const T *a = x->a, *b = x->b;                                                                                            \
		const int64_t k = x->k, *c = x->columns;                                                                                 \
		T *y = (T *)x->y + i * k;                                                                                                \
		int64_t j = 0;                                                                                                           \
		for (; j + 4 * LANES <= k; j += 4 * LANES) {                                                                             \
			V s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };                                                                    \
			for (int64_t e = from; e < to; e++) {                                                                                \
				const T v = a[e], *r = b + c[e] * k + j;                                                                         \
				s0 += v * AT(V, r);                                                                                                 \
				s1 += v * AT(V, r + LANES);                                                                                         \
				s2 += v * AT(V, r + 2 * LANES);                                                                                     \
				s3 += v * AT(V, r + 3 * LANES);                                                                                     \
			}                                                                                                                    \
			*(V *)(void *)(y + j) = s0;                                                                                          \
			*(V *)(void *)(y + j + LANES) = s1;                                                                                  \
			*(V *)(void *)(y + j + 2 * LANES) = s2;                                                                              \
			*(V *)(void *)(y + j + 3 * LANES) = s3;                                                                              \
		}                                                                                                                        \
		for (; j + LANES <= k; j += LANES) {                                                                                     \
			V s = { 0 };                                                                                                         \
			for (int64_t e = from; e < to; e++) s += a[e] * AT(V, b + c[e] * k + j);                                                \
			*(V *)(void *)(y + j) = s;                                                                                           \
		}                                                                                                                        \
		for (; j < k; j++) {                                                                                                     \
			T s = 0;                                                                                                             \
			for (int64_t e = from; e < to; e++) s += a[e] * b[c[e] * k + j];                                                     \
			y[j] = s;                                                                                                            \
		}                                                                                                                        \
	}                                                                                                                            \
	/* Row i of b, times each element, to the rows of y: columns from j to end. */                                               \
	ISA static void name##_spread(const matrix *x, int64_t i, int64_t from, int64_t to, int64_t j0, int64_t end)                 \
	{                                                                                                                            \
		const T *a = x->a, *b = (const T *)x->b + i * x->k;                                                                      \
		for (int64_t e = from; e < to; e++) {                                                                                    \
			const T v = a[e];                                                                                                    \
			T *y = (T *)x->y + x->columns[e] * x->k;                                                                             \
			int64_t j = j0;                                                                                                      \
			for (; j + LANES <= end; j += LANES) *(V *)(void *)(y + j) += v * AT(V, b + j);                                         \
			for (; j < end; j++) y[j] += v * b[j];                                                                               \
		}                                                                                                                        \
	}                                                                                                                            \
	ISA static void name##_dots(const matrix *x, int64_t i, int64_t from, int64_t to)                                            \
	{                                                                                                                            \
		const T *a = (const T *)x->a + i * x->k;                                                                                 \
		for (int64_t e = from; e < to; e++) {                                                                                    \
			const T *b = (const T *)x->b + x->columns[e] * x->k;                                                                 \
			V sums = { 0 };                                                                                                      \
			T s[LANES];                                                                                                          \
			int64_t k = 0;                                                                                                       \
			for (; k + LANES <= x->k; k += LANES) sums += AT(V, a + k) * AT(V, b + k);                                                 \
			memcpy(s, &sums, sizeof s);                                                                                          \
			for (int l = 0; k + l < x->k; l++) s[l] += a[k + l] * b[k + l];                                                      \
			for (int h = LANES / 2; h; h /= 2)                                                                                   \
				for (int l = 0; l < h; l++) s[l] += s[l + h];                                                                    \
			((T *)x->y)[e] = s[0];                                                                                               \
		}                                                                                                                        \
	}
#define WIDTHS(T, V)                                                  \
	PRODUCT(plain_##T, T, V, )                                        \
	PRODUCT(avx2_##T, T, V, __attribute__((target("avx2"))))          \
	PRODUCT(avx512_##T, T, V, __attribute__((target("avx512f"))))
WIDTHS(float, float_lanes)
WIDTHS(double, double_lanes)

/* Integers wrap as unsigned ones; bool: or of ands. */
#define TIMES(T, a, b) (T)((uint64_t)(a) * (uint64_t)(b))
#define PLUS(T, a, b) (T)((uint64_t)(a) + (uint64_t)(b))
#define BOTH(T, a, b) (T)((a) != 0 && (b) != 0)
#define EITHER(T, a, b) (T)((a) != 0 || (b) != 0)
#define INTEGERS(name, T, MUL, ADD)                                                                                               \
	static void name##_spread(const matrix *x, int64_t i, int64_t from, int64_t to, int64_t j0, int64_t end)                      \
	{                                                                                                                             \
		const T *b = (const T *)x->b + i * x->k;                                                                                  \
		for (int64_t e = from; e < to; e++) {                                                                                     \
			const T v = ((const T *)x->a)[e];                                                                                     \
			T *y = (T *)x->y + x->columns[e] * x->k;                                                                              \
			for (int64_t j = j0; j < end; j++) y[j] = ADD(T, y[j], MUL(T, v, b[j]));                                              \
		}                                                                                                                         \
	}                                                                                                                             \
	static void name##_row(const matrix *x, int64_t i, int64_t from, int64_t to)                                                  \
	{                                                                                                                             \
		T *y = (T *)x->y + i * x->k;                                                                                              \
		memset(y, 0, (size_t)x->k * sizeof *y);                                                                                   \
		for (int64_t e = from; e < to; e++) {                                                                                     \
			const T v = ((const T *)x->a)[e], *b = (const T *)x->b + x->columns[e] * x->k;                                        \
			for (int64_t j = 0; j < x->k; j++) y[j] = ADD(T, y[j], MUL(T, v, b[j]));                                              \
		}                                                                                                                         \
	}                                                                                                                             \
	static void name##_dots(const matrix *x, int64_t i, int64_t from, int64_t to)                                                 \
	{                                                                                                                             \
		const T *a = (const T *)x->a + i * x->k;                                                                                  \
		for (int64_t e = from; e < to; e++) {                                                                                     \
			const T *b = (const T *)x->b + x->columns[e] * x->k;                                                                  \
			T s = 0;                                                                                                              \
			for (int64_t k = 0; k < x->k; k++) s = ADD(T, s, MUL(T, a[k], b[k]));                                                 \
			((T *)x->y)[e] = s;                                                                                                   \
		}                                                                                                                         \
	}
INTEGERS(truth, uint8_t, BOTH, EITHER)
INTEGERS(u8, uint8_t, TIMES, PLUS)
INTEGERS(u16, uint16_t, TIMES, PLUS)
INTEGERS(u32, uint32_t, TIMES, PLUS)
INTEGERS(u64, uint64_t, TIMES, PLUS)

typedef struct loops {
	void (*row)(const matrix *x, int64_t i, int64_t from, int64_t to);
	void (*spread)(const matrix *x, int64_t i, int64_t from, int64_t to, int64_t j0, int64_t end);
	void (*dots)(const matrix *x, int64_t i, int64_t from, int64_t to);
} loops;

static const loops *loops_of(tj_dtype t)
{
#define LOOPS(name) { name##_row, name##_spread, name##_dots }
	static const loops plain[] = { LOOPS(plain_float), LOOPS(plain_double) }, avx2[] = { LOOPS(avx2_float), LOOPS(avx2_double) },
			   avx512[] = { LOOPS(avx512_float), LOOPS(avx512_double) };
	static const loops truth = LOOPS(truth), integers[] = { LOOPS(u8), LOOPS(u16), LOOPS(u32), LOOPS(u64) };
	const size_t size = tj_dtype_size(t);
	if (t == TJ_BOOL) return &truth;
	if (!rt_is_float(t)) return &integers[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
	return &(__builtin_cpu_supports("avx512f") ? avx512 : __builtin_cpu_supports("avx2") ? avx2 : plain)[t == TJ_F64];
}

/* ---- threads ---- */
typedef struct work {
	ir_op op;
	const loops *loops;
	matrix x;                  /* the first example */
	size_t item;               /* bytes of an element */
	int64_t a_step, b_step, y_step; /* elements from one example to the next */
	int64_t parts;             /* of a transposed product: of its columns */
	atomic_bool bad;
} work;

static matrix example(const work *w, int64_t i)
{
	matrix x = w->x;
	x.offsets += i * (x.m + 1);
	x.columns += i * x.size;
	x.a = (const char *)x.a + (size_t)(i * w->a_step) * w->item;
	x.b = (const char *)x.b + (size_t)(i * w->b_step) * w->item;
	x.y = (char *)x.y + (size_t)(i * w->y_step) * w->item;
	return x;
}

static bool right(const matrix *x, int64_t from, int64_t to)
{
	bool fits = from >= 0 && from <= to && to <= x->size;
	for (int64_t e = from; fits && e < to; e++) fits = (uint64_t)x->columns[e] < (uint64_t)x->n;
	return fits;
}

/* Rows of all examples. */
static void run_rows(void *env, int thread, int64_t begin, int64_t end)
{
	work *w = env;
	(void)thread;
	for (int64_t u = begin; u < end; u++) {
		const matrix x = example(w, u / w->x.m);
		const int64_t i = u % w->x.m, from = x.offsets[i], to = x.offsets[i + 1];
		if (!right(&x, from, to)) atomic_store_explicit(&w->bad, true, memory_order_relaxed);
		else (w->op == IR_csr_product ? w->loops->row : w->loops->dots)(&x, i, from, to);
	}
}

/* Columns of a transposed product, of all examples. */
static void run_columns(void *env, int thread, int64_t begin, int64_t end)
{
	work *w = env;
	(void)thread;
	for (int64_t u = begin; u < end; u++) {
		const matrix x = example(w, u / w->parts);
		const int64_t each = (x.k + w->parts - 1) / w->parts, part = u % w->parts * each, last = part + each < x.k ? part + each : x.k;
		for (int64_t i = 0; i < x.m; i++) {
			const int64_t from = x.offsets[i], to = x.offsets[i + 1];
			if (!right(&x, from, to)) {
				atomic_store_explicit(&w->bad, true, memory_order_relaxed);
				break;
			}
			w->loops->spread(&x, i, from, to, part, last);
		}
	}
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
	const ir_meta *o = &e->src[0].meta, *c = &e->src[1].meta, *a = &e->src[2].meta, *b = &e->src[3].meta;
	const bool turned = e->op == IR_csr_product_transposed, sampled = e->op == IR_csr_sampled_product;
	work w = { .op = e->op, .loops = loops_of((tj_dtype)b->dtype), .item = tj_dtype_size((tj_dtype)b->dtype) };
	int64_t examples = 1;
	for (int i = 0; i < o->rank - 1; i++) examples *= o->dim[i];
	w.x = (matrix){ .offsets = buf[0], .columns = buf[1], .a = buf[2], .b = buf[3], .y = buf[4], .m = o->dim[o->rank - 1] - 1,
		        .n = turned ? e->attr[0] : b->dim[b->rank - 2], .k = b->dim[b->rank - 1], .size = c->dim[c->rank - 1] };
	w.a_step = sampled ? a->dim[a->rank - 2] * w.x.k : w.x.size;
	w.b_step = b->dim[b->rank - 2] * w.x.k;
	w.y_step = sampled ? w.x.size : (turned ? w.x.n : w.x.m) * w.x.k;
	const double ns = (double)(examples * w.x.size) * (2 + 0.1 * (double)w.x.k);
	if (turned || sampled) memset(w.x.y, 0, (size_t)(examples * w.y_step) * w.item);
	if (turned) {
		const int64_t most = (w.x.k + LANES - 1) / LANES, threads = r->team ? rt_team_size(r->team) : 1;
		w.parts = most < 1 ? 1 : most < threads ? most : threads;
		rt_team_run(r, examples * w.parts, 1, ns, run_columns, &w);
	} else if (examples && w.x.m) rt_team_run(r, examples * w.x.m, 4, ns, run_rows, &w);
	if (!atomic_load_explicit(&w.bad, memory_order_relaxed)) return TJ_OK;
	return rt_fault_fail(&(rt_fault){ e->site, ir_ops[e->op].name, TJ_ERR_INDEX, w.x.n }, r->err);
}

static void why(const rt_step *t, lo_note *n)
{
	(void)t;
	n->other = "own loops";
	n->why = "it follows the rows of the sparse matrix";
}

#define CSR(name) { .op = IR_##name, .takes = lo_takes_row_major, .make = make, .code = { run, NULL }, .why = why }
const lo_routine lo_csr[LO_CSRS] = { CSR(csr_product), CSR(csr_product_transposed), CSR(csr_sampled_product) };
