/* SPDX-License-Identifier: MIT */
/* chain: matrix products have the order of summation that docs/NUMERICS.md states. The plain product, with and without vectors, the
 * evaluator and the interpreter of kernels are compared, bit for bit, with loops that are written here. */
#include "runtime/chain.h"
#include "test/skip.h"
#include "test/unit/interp.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The product as it is on a CPU without AVX2. */
void plain_run(const rt_chain *x, const void *a, const void *b, void *c);
#define rt_chain_run plain_run
#define __builtin_cpu_supports(feature) 0
#include "runtime/chain.c"
#undef rt_chain_run
#undef __builtin_cpu_supports

typedef void product_fn(const rt_chain *x, const void *a, const void *b, void *c);
static product_fn *const run_of[] = { rt_chain_run, plain_run };
static const tj_dtype dtypes[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_U8, TJ_I8, TJ_I16, TJ_I32, TJ_I64 };

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}
static int64_t below(int64_t n) { return (int64_t)(rnd() >> 8) % n; }

/* ---- the order ---- */
/* One element: n indices of k. */
static ir_scalar dot(tj_dtype t, const char *a, int64_t a_step, const char *b, int64_t b_step, int64_t n)
{
	const rt_class c = rt_dtype_class(t);
	const int64_t size = (int64_t)tj_dtype_size(t);
	float f = 0, chunk_f = 0;
	double d = 0, chunk_d = 0;
	uint64_t u = 0;
	for (int64_t k = 0; k < n; k++) {
		const ir_scalar x = ir_load(t, a + k * a_step * size), y = ir_load(t, b + k * b_step * size);
		if (k % 256 == 0) chunk_f = 0, chunk_d = 0;
		if (c == RT_F) chunk_f = fmaf(x.f, y.f, chunk_f);
		else if (c == RT_D) chunk_d = fma(x.d, y.d, chunk_d);
		else u += (uint64_t)x.i * (uint64_t)y.i;
		if (k % 256 < 255 && k < n - 1) continue;
		f = k < 256 ? chunk_f : f + chunk_f;
		d = k < 256 ? chunk_d : d + chunk_d;
	}
	return c == RT_F ? (ir_scalar){ .f = f } : c == RT_D ? (ir_scalar){ .d = d } : (ir_scalar){ .i = (int64_t)u };
}

static void reference(const rt_chain *x, const char *a, const char *b, char *c)
{
	const int64_t size = (int64_t)tj_dtype_size(x->dtype);
	for (int64_t i = 0; i < x->m; i++)
		for (int64_t j = 0; j < x->n; j++)
			ir_store(x->dtype, c + (i * x->c_row + j * x->c_col) * size,
			         dot(x->dtype, a + i * x->a_row * size, x->a_col, b + j * x->b_col * size, x->b_row, x->k));
}

/* ---- values ---- */
typedef enum values { USUAL, SMALL, ODD, VALUES } values; /* SMALL: products are subnormal, or round to 0 */

static double number(tj_dtype t, values v)
{
	static const double odd[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-40, -1e-42, 3e38, -3e38, 1e-320, 1e308, 6e-8, 65504 };
	const double x = (double)(int64_t)(rnd() >> 11) * 0x1p-52 - 1;
	if (v == ODD && !below(40)) return odd[below(RT_COUNT(odd))];
	if (v != SMALL) return ldexp(x, (int)below(6));
	return below(8) ? ldexp(x, t == TJ_F64 ? -525 : t == TJ_F16 ? -13 : -68) : below(2) ? 0 : -0.0;
}

static void fill(tj_dtype t, char *p, int64_t n, values v)
{
	for (int64_t i = 0; i < n; i++, p += tj_dtype_size(t)) {
		if (rt_is_float(t)) ir_store(t, p, ir_cast_scalar((ir_scalar){ .d = number(t, v) }, TJ_F64, t));
		else ir_store(t, p, (ir_scalar){ .i = (int64_t)rnd() });
	}
}

static bool same(tj_dtype t, const char *a, const char *b)
{
	const ir_scalar x = ir_load(t, a), y = ir_load(t, b);
	if (rt_dtype_class(t) == RT_F && x.f != x.f && y.f != y.f) return true;
	if (rt_dtype_class(t) == RT_D && x.d != x.d && y.d != y.d) return true;
	return !memcmp(a, b, tj_dtype_size(t));
}

/* ---- matrices of any strides ---- */
typedef struct matrix { int64_t row, col, first, elems; } matrix;

/* repeats: rows or columns may be one and the same. */
static matrix layout(int64_t rows, int64_t cols, bool repeats)
{
	const int64_t step = 1 + below(3), pad = below(2) * below(9);
	matrix m = { .row = cols * step + pad, .col = step };
	if (below(2)) m = (matrix){ .row = step, .col = rows * step + pad };
	if (repeats && !below(4)) *(below(2) ? &m.row : &m.col) = 0;
	m.elems = rows && cols ? (rows - 1) * m.row + (cols - 1) * m.col + 1 : 0;
	if (!below(4)) m.first += rows ? (rows - 1) * m.row : 0, m.row = -m.row;
	if (!below(4)) m.first += cols ? (cols - 1) * m.col : 0, m.col = -m.col;
	return m;
}

static char *elements(tj_dtype t, int64_t n, values v)
{
	char *p = malloc((size_t)n * tj_dtype_size(t) + 1);
	if (p) fill(t, p, n, v);
	return p;
}

/* The whole memory of C is compared: what is between its elements stays as it was. Returns what is wrong. */
static const char *wrong(tj_dtype t, int64_t m, int64_t n, int64_t k, values v, product_fn *run)
{
	static _Thread_local char text[200];
	const matrix a = layout(m, k, true), b = layout(k, n, true), c = layout(m, n, false);
	const int64_t size = (int64_t)tj_dtype_size(t);
	const rt_chain x = { t, m, n, k, a.row, a.col, b.row, b.col, c.row, c.col };
	char *p = elements(t, a.elems, v), *q = elements(t, b.elems, v), *got = elements(t, c.elems, USUAL),
	     *want = malloc((size_t)(c.elems * size) + 1);
	if (!p || !q || !got || !want) return "out of memory";
	memcpy(want, got, (size_t)(c.elems * size));
	reference(&x, p + a.first * size, q + b.first * size, want + c.first * size);
	run(&x, p + a.first * size, q + b.first * size, got + c.first * size);
	text[0] = 0;
	for (int64_t i = 0; i < c.elems && !text[0]; i++)
		if (!same(t, got + i * size, want + i * size))
			snprintf(text, sizeof text, "%s [%lld,%lld]x[%lld,%lld], values %d: element %lld of the memory of C",
			         tj_dtype_name(t), (long long)m, (long long)k, (long long)k, (long long)n, v, (long long)i);
	free(p), free(q), free(got), free(want);
	return text[0] ? text : NULL;
}

static void check(tj_dtype t, int64_t m, int64_t n, int64_t k)
{
	for (values v = 0; v < (rt_is_float(t) ? VALUES : SMALL); v++)
		for (size_t i = 0; i < RT_COUNT(run_of); i++) {
			const char *why = wrong(t, m, n, k, v, run_of[i]);
			if (why) fail_msg("%s%s", why, i ? ", without vectors" : "");
		}
}

/* Random sizes: a product may have no row, no column or no k. */
static void small_sizes(void **state)
{
	(void)state;
	for (size_t t = 0; t < RT_COUNT(dtypes); t++)
		for (int i = 0; i < 150; i++) check(dtypes[t], below(41), below(41), below(41));
}

/* Around the ends of chunks of k, and of the blocks of C. */
static void chunks(void **state)
{
	static const int64_t ks[] = { 255, 256, 257, 511, 512, 513, 1000 }, ns[] = { 1, 2, 7, 8, 9, 15, 16, 17, 33 };
	(void)state;
	for (size_t t = 0; t < RT_COUNT(dtypes); t++)
		for (size_t k = 0; k < RT_COUNT(ks); k++) {
			check(dtypes[t], below(8), ns[below(RT_COUNT(ns))], ks[k]);
			check(dtypes[t], 31 + below(35), 1 + below(3), ks[k]);
		}
}

/* What tells this order from others: a chain without chunks, rounded products, chunks that begin with the first product. */
static void the_order(void **state)
{
	enum { K = 600 };
	static float a[K], b[K];
	float c;
	const rt_chain x = { TJ_F32, 1, 1, K, K, 1, 1, 1, 1, 1 };
	(void)state;
	for (int i = 0; i < K; i++) b[i] = 1;
	a[0] = 1;
	a[255] = 0x1p-24f; /* half an ulp of the sum so far: lost */
	a[256] = a[257] = 0x1p-24f; /* together, in a chunk of their own: kept */
	rt_chain_run(&x, a, b, &c);
	assert_true(c == 1 + 0x1p-23f);
	memset(a, 0, sizeof a);
	a[0] = -1;
	a[1] = b[1] = 1 + 0x1p-12f; /* its square is 1 + 2^-11 + 2^-24 */
	rt_chain_run(&x, a, b, &c);
	assert_true(c == 0x1p-11f + 0x1p-24f);
	for (int i = 0; i < K; i++) a[i] = -0.0f;
	b[1] = 1;
	rt_chain_run(&x, a, b, &c);
	assert_true(c == 0 && !signbit(c));
	rt_chain_run(&(rt_chain){ TJ_F32, 1, 1, 0, 0, 1, 1, 1, 1, 1 }, a, b, &c);
	assert_true(c == 0 && !signbit(c));
}

static void *on_small_stack(void *from)
{
	(void)from;
	return (void *)(uintptr_t)wrong(TJ_F64, 40, 40, 600, USUAL, rt_chain_run) ? "wrong" : NULL;
}

static void small_stack(void **state)
{
	pthread_attr_t a;
	pthread_t t;
	void *bad;
	(void)state;
	if (SANITIZED) SKIP("frames are several times as large under a sanitizer");
	pthread_attr_init(&a);
	assert_int_equal(pthread_attr_setstacksize(&a, 64 << 10), 0);
	assert_int_equal(pthread_create(&t, &a, on_small_stack, NULL), 0);
	pthread_join(t, &bad);
	pthread_attr_destroy(&a);
	assert_null(bad);
}

/* ---- the evaluator ---- */
typedef struct operand { int rank; int64_t dim[4], stride[4]; } operand;

static ir_value value_of(tj_dtype t, const operand *o, char *data)
{
	ir_value v = { .meta = { .dtype = (uint8_t)t, .rank = (uint8_t)o->rank }, .data = data };
	for (int i = 0; i < o->rank; i++) v.meta.dim[i] = o->dim[i], v.stride[i] = o->stride[i];
	return v;
}

/* Vectors, batches that broadcast, strides of 0, transposes. The products are m x n x k; step_a, step_b: elements from batch to batch of
 * the result to the operand's, along its two leading axes. */
static const struct eval_case {
	operand a, b;
	int rank;
	int64_t batch[2], step_a[2], step_b[2], m, n, k, a_row, a_col, b_row, b_col;
} eval_cases[] = {
	{ { 1, { 300 }, { 1 } }, { 1, { 300 }, { 2 } }, 0, { 1, 1 }, { 0 }, { 0 }, 1, 1, 300, 0, 1, 2, 0 },
	{ { 1, { 300 }, { 1 } }, { 2, { 300, 9 }, { 1, 300 } }, 1, { 1, 1 }, { 0 }, { 0 }, 1, 9, 300, 0, 1, 1, 300 },
	{ { 2, { 7, 20 }, { 20, 1 } }, { 1, { 20 }, { 0 } }, 1, { 1, 1 }, { 0 }, { 0 }, 7, 1, 20, 20, 1, 0, 0 },
	{ { 4, { 2, 1, 5, 270 }, { 1350, 1350, 1, 5 } },
	  { 3, { 3, 270, 4 }, { 1080, 4, 1 } },
	  4,
	  { 2, 3 },
	  { 1350, 0 },
	  { 0, 1080 },
	  5,
	  4,
	  270,
	  1,
	  5,
	  4,
	  1 },
	{ { 2, { 5, 6 }, { 6, 1 } }, { 4, { 2, 3, 6, 18 }, { 0, 108, 18, 1 } }, 4, { 2, 3 }, { 0, 0 }, { 0, 108 }, 5, 18, 6, 6, 1, 18, 1 },
	{ { 3, { 3, 4, 0 }, { 0, 0, 1 } }, { 2, { 0, 5 }, { 5, 1 } }, 3, { 1, 3 }, { 0, 0 }, { 0, 0 }, 4, 5, 0, 0, 1, 5, 1 },
	{ { 3, { 0, 4, 3 }, { 12, 3, 1 } }, { 2, { 3, 5 }, { 5, 1 } }, 3, { 1, 0 }, { 0, 0 }, { 0, 0 }, 4, 5, 3, 3, 1, 5, 1 },
};

static void evaluated(const struct eval_case *e, tj_dtype t)
{
	enum { MOST = 3300 }; /* elements of the largest operand or result */
	const int64_t size = (int64_t)tj_dtype_size(t), each = e->m * e->n;
	const rt_chain x = { t, e->m, e->n, e->k, e->a_row, e->a_col, e->b_row, e->b_col, e->n, 1 };
	char *a = elements(t, MOST, ODD), *b = elements(t, MOST, ODD), *got = elements(t, MOST, USUAL), *want = elements(t, MOST, USUAL);
	ir_value src[] = { value_of(t, &e->a, a), value_of(t, &e->b, b) }, out = { .data = got };
	rt_err err = { 0 };
	assert_true(a && b && got && want);
	for (int64_t i = 0; i < e->batch[0]; i++)
		for (int64_t j = 0; j < e->batch[1]; j++)
			reference(&x, a + (i * e->step_a[0] + j * e->step_a[1]) * size, b + (i * e->step_b[0] + j * e->step_b[1]) * size,
			          want + (i * e->batch[1] + j) * each * size);
	if (ir_eval_op(IR_matmul, 0, NULL, 0, 2, src, &out, NULL, NULL, &err) != TJ_OK) fail_msg("%s", err.message);
	assert_int_equal(out.meta.rank, e->rank);
	assert_int_equal(out.meta.dtype, t);
	for (int64_t i = 0; i < e->batch[0] * e->batch[1] * each; i++)
		if (!same(t, got + i * size, want + i * size))
			fail_msg("%s, case %d, element %lld", tj_dtype_name(t), (int)(e - eval_cases), (long long)i);
	free(a), free(b), free(got), free(want);
}

static void evaluator(void **state)
{
	(void)state;
	for (size_t t = 0; t < RT_COUNT(dtypes); t++)
		for (size_t i = 0; i < RT_COUNT(eval_cases); i++) evaluated(&eval_cases[i], dtypes[t]);
}

/* ---- the interpreter ---- */
/* C[batch,m,n] = A[batch,m,k] B[k,n], by a kernel in tiles of 4 x 16; run in three pieces of its units. */
static void interpreted_one(tj_dtype t, int64_t batch, int64_t m, int64_t n, int64_t k)
{
	char text[1200], *a = elements(t, batch * m * k, ODD), *b = elements(t, k * n, ODD), *got = elements(t, batch * m * n, USUAL),
			 *want = elements(t, batch * m * n, USUAL);
	const bool narrow = rt_is_narrow(t);
	const char *name = tj_dtype_name(t), *sum = narrow ? "f32" : name;
	const int64_t size = (int64_t)tj_dtype_size(t);
	const long long M = m, N = n, K = k;
	lo_kernel kernel;
	lo_schedule s;
	rt_arena names = { 0 };
	rt_err err = { 0 };
	int at = snprintf(
		text, sizeof text,
		"kernel k\n  schedule cpu vec=tile block=16 rows=4\n  buf b0 %s in\n  buf b1 %s in\n  buf b2 %s out\n  dim %lld\n  dim %lld\n"
		"  dim %lld\n  red %lld\n",
		name, name, name, (long long)batch, M, N, K);
	at += snprintf(text + at, sizeof text - (size_t)at,
	               " loop\n  %%0 = load %s b0 [0 + %lld*d0 + %lld*d1 + 1*r]\n  %%1 = load %s b1 [0 + 1*d2 + %lld*r]\n", name, M * K, K,
	               name, N);
	if (narrow) at += snprintf(text + at, sizeof text - (size_t)at, "  %%2 = convert f32 %%0\n  %%3 = convert f32 %%1\n");
	at += snprintf(text + at, sizeof text - (size_t)at,
	               narrow ? "  %%4 = reduce f32 dot chain %%2 %%3\n point\n  %%5 = convert %s %%4\n"
	                      : "  %%2 = reduce %s dot chain %%0 %%1\n point\n",
	               narrow ? name : sum);
	snprintf(text + at, sizeof text - (size_t)at, "  store b2 [0 + %lld*d0 + %lld*d1 + 1*d2] %%%d\n", M * N, N, narrow ? 5 : 2);
	if (lo_parse(&kernel, &s, &lo_cpu, text, &names, &err) != TJ_OK || lo_verify(&kernel, &s, &err) != TJ_OK)
		fail_msg("%s\n%s", text, err.message);
	const rt_chain x = { t, m, n, k, k, 1, n, 1, n, 1 };
	for (int64_t i = 0; i < batch; i++) reference(&x, a + i * m * k * size, b, want + i * m * n * size);
	const rt_kargs args = { .buf = (void *[]){ a, b, got } };
	const int64_t units = lo_units(&kernel, &s);
	interp_units(&kernel, &s, &args, 0, units / 3);
	interp_units(&kernel, &s, &args, units / 2, units);
	interp_units(&kernel, &s, &args, units / 3, units / 2);
	for (int64_t i = 0; i < batch * m * n; i++)
		if (!same(t, got + i * size, want + i * size)) fail_msg("%s, element %lld", text, (long long)i);
	lo_kernel_free(&kernel);
	lo_schedule_free(&s);
	rt_arena_free(&names);
	free(a), free(b), free(got), free(want);
}

static void interpreter(void **state)
{
	(void)state;
	for (size_t t = 0; t < RT_COUNT(dtypes); t++) {
		interpreted_one(dtypes[t], 1, 3, 7, 300);
		interpreted_one(dtypes[t], 2, 9, 33, 5);
		interpreted_one(dtypes[t], 3, 1, 17, 513);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_sizes), cmocka_unit_test(chunks),    cmocka_unit_test(the_order),
		cmocka_unit_test(small_stack), cmocka_unit_test(evaluator), cmocka_unit_test(interpreter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
