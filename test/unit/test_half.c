/* SPDX-License-Identifier: MIT */
/* f16 and bf16: a conversion rounds once; every op computes in f32 and rounds once; accumulators are f32. */
#include "ir/ir.h"
#include "lower/target.h"
#include "runtime/half.h"
#include "test/kit.h"

#include <math.h>

enum { ALL = 1 << 16 }; /* values of 16 bits */
static const tj_dtype halves[] = { TJ_F16, TJ_BF16 };
static const char *const widths[] = { "512", "256", "128" };

static uint16_t bits_of(tj_dtype t, double v) { return t == TJ_F16 ? tj_to_f16(v).bits : tj_to_bf16(v).bits; }
static double value_of(tj_dtype t, uint16_t bits)
{
	return t == TJ_F16 ? (double)tj_from_f16((tj_f16){ bits }) : (double)tj_from_bf16((tj_bf16){ bits });
}
static uint16_t infinity_of(tj_dtype t) { return t == TJ_F16 ? 0x7c00 : 0x7f80; }

/* The value by the definition of the format: the library must read the bits so. */
static double by_definition(tj_dtype t, uint16_t bits)
{
	int stored = t == TJ_F16 ? 10 : 7, bias = t == TJ_F16 ? 15 : 127, e = (bits & 0x7fff) >> stored, m = bits & ((1 << stored) - 1);
	double size = e ? ldexp((1 << stored) + m, e - bias - stored) : ldexp(m, 1 - bias - stored);
	if (e == 2 * bias + 1) size = m ? NAN : INFINITY;
	return bits >> 15 ? -size : size;
}

static bool alike(double a, double b) { return (a != a && b != b) || (a == b && !signbit(a) == !signbit(b)); }
static bool alike_bits(tj_dtype t, uint16_t a, uint16_t b) { return alike(value_of(t, a), value_of(t, b)); }

/* ---- a graph of one op, run ---- */
static void run(const ir_graph *g, const char *width, const void *in, void *out)
{
	const char *why = NULL;
	rt_err err = { 0 };
	rt_exec *x = NULL;
	rt_pool *pool = rt_pool_new();
	lo_opts o = { .name = "half", .target = width && lo_backend_find("llvm", &why) ? &lo_cpu : NULL };
	if (width) setenv("TJ_CPU", width, 1);
	if (lo_build(g, &o, &x, &err) != TJ_OK) fail_msg("%s", err.message);
	rt_run r = { .pool = pool, .ext = &in, .out = &out, .err = &err };
	if (x->run(x, &r) != TJ_OK) fail_msg("%s", err.message);
	rt_exec_unref(x);
	rt_pool_free(pool);
	unsetenv("TJ_CPU");
}

static bool has_llvm(void)
{
	const char *why = NULL;
	return lo_backend_find("llvm", &why) != NULL;
}

static ir_ref input(ir_graph *g, tj_dtype t, int64_t n)
{
	ir_graph_init(g);
	return ir_input(g, 0, &(ir_meta){ .dtype = (uint8_t)t, .rank = 1, .dim = { n } }, NULL, NULL);
}

/* ---- conversions ---- */
typedef struct points { /* of a source dtype, and what they round to */
	tj_dtype from, to;
	int64_t n;
	char *in;
	uint16_t *want;
} points;

/* v is exact in the source dtype. */
static void add_float(points *p, double v, uint16_t want)
{
	if (p->from == TJ_F32) ((float *)(void *)p->in)[p->n] = (float)v;
	else ((double *)(void *)p->in)[p->n] = v;
	p->want[p->n++] = want;
}

static void add_integer(points *p, int64_t v, uint16_t want)
{
	if (p->from != TJ_BOOL && (v < rt_dtype_min(p->from) || v > rt_dtype_max(p->from))) return;
	if (p->from == TJ_BOOL && (v < 0 || v > 1)) return;
	memcpy(p->in + p->n * (int64_t)tj_dtype_size(p->from), &v, tj_dtype_size(p->from));
	p->want[p->n++] = want;
}

static double after(const points *p, double v, double to)
{
	return p->from == TJ_F32 ? (double)nextafterf((float)v, (float)to) : nextafter(v, to);
}

/* Each value, the middle between it and the next one, and the nearest numbers of the source on either side of the middle. */
static void add_points(points *p, uint16_t bits, uint16_t sign)
{
	const double s = sign ? -1 : 1, v = by_definition(p->to, bits),
		     mid = bits + 1 == infinity_of(p->to) ? (p->to == TJ_F16 ? 65520 : 0x1.ffp127)
	                                                  : (v + by_definition(p->to, bits + 1)) / 2;
	const uint16_t at = bits | sign, up = (uint16_t)(bits + 1) | sign, even = bits & 1 ? up : at;
	if (rt_is_float(p->from)) {
		add_float(p, s * v, at);
		add_float(p, s * mid, even);
		add_float(p, s * after(p, mid, 0), at);
		add_float(p, s * after(p, mid, INFINITY), up);
		return;
	}
	if (v < 0x1p63 && v == floor(v) && (v || !sign)) add_integer(p, (int64_t)(s * v), at);
	if (!(mid < 0x1p63) || mid != floor(mid)) return;
	const int64_t m = (int64_t)mid, one = sign ? -1 : 1;
	add_integer(p, sign ? -m : m, even);
	add_integer(p, (sign ? -m : m) - one, at);
	add_integer(p, (sign ? -m : m) + one, up);
}

static void check_conversion(tj_dtype from, tj_dtype to)
{
	enum { MOST = 4 * ALL };
	points p = { from, to, 0, calloc(MOST, 8), calloc(MOST, 2) };
	uint16_t *got = calloc(MOST, 2);
	for (int b = 0; b < infinity_of(to); b++)
		for (int s = 0; s < 2; s++) add_points(&p, (uint16_t)b, (uint16_t)(s << 15));
	if (rt_is_float(from)) {
		add_float(&p, INFINITY, infinity_of(to));
		add_float(&p, -INFINITY, infinity_of(to) | 0x8000);
		add_float(&p, NAN, infinity_of(to) + 1);
		add_float(&p, from == TJ_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023, infinity_of(to));
		add_float(&p, from == TJ_F32 ? -0x1p-149 : -0x1p-1074, 0x8000);
	} else {
		add_integer(&p, INT64_MAX, to == TJ_F16 ? 0x7c00 : 0x5f00);
		add_integer(&p, INT64_MIN, to == TJ_F16 ? 0xfc00 : 0xdf00);
	}
	for (size_t w = 0; w <= RT_COUNT(widths); w++) {
		const char *width = w ? widths[w - 1] : NULL;
		if (width && !has_llvm()) continue;
		ir_graph g;
		ir_ret(&g, ir_cast(&g, input(&g, from, p.n), to, NULL));
		run(&g, width, p.in, got);
		ir_graph_free(&g);
		for (int64_t i = 0; i < p.n; i++)
			if (!alike_bits(to, got[i], p.want[i]))
				fail_msg("%s -> %s, %s: element %lld is %a, not %a", tj_dtype_name(from), tj_dtype_name(to), width ? width : "eval", (long long)i,
				         value_of(to, got[i]), value_of(to, p.want[i]));
	}
	free(p.in);
	free(p.want);
	free(got);
}

static void conversions_round_once(void **state)
{
	static const tj_dtype from[] = { TJ_BOOL, TJ_U8, TJ_I8, TJ_I16, TJ_I32, TJ_I64, TJ_F32, TJ_F64 };
	(void)state;
	for (size_t h = 0; h < RT_COUNT(halves); h++)
		for (size_t f = 0; f < RT_COUNT(from); f++) check_conversion(from[f], halves[h]);
}

/* From every value of one to f32, f64 and the other one. */
static void widening_is_exact(void **state)
{
	static uint16_t in[ALL], half[ALL];
	static float single[ALL];
	static double wide[ALL];
	(void)state;
	for (int i = 0; i < ALL; i++) in[i] = (uint16_t)i;
	for (size_t h = 0; h < RT_COUNT(halves); h++)
		for (size_t w = 0; w <= RT_COUNT(widths); w++) {
			const char *width = w ? widths[w - 1] : NULL;
			const tj_dtype t = halves[h], other = halves[!h];
			void *out[3] = { single, wide, half };
			if (width && !has_llvm()) continue;
			for (int k = 0; k < 3; k++) {
				ir_graph g;
				ir_ret(&g, ir_cast(&g, input(&g, t, ALL), k == 0 ? TJ_F32 : k == 1 ? TJ_F64 : other, NULL));
				run(&g, width, in, out[k]);
				ir_graph_free(&g);
			}
			for (int i = 0; i < ALL; i++) {
				const double v = by_definition(t, (uint16_t)i);
				assert_true(alike(value_of(t, (uint16_t)i), v));
				assert_true(alike((double)single[i], v));
				assert_true(alike(wide[i], v));
				assert_true(alike_bits(other, half[i], bits_of(other, v)));
			}
		}
}

/* ---- every value through every unary function ---- */
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double reciprocal(double x) { return 1 / x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double square(double x) { return x * x; }
static double frac(double x) { return x - trunc(x); }
static const struct near { ir_op op; double ulps; double (*f)(double);
} near[] = {
	/* ulps: of f32, docs/NUMERICS.md */
	{ IR_exp, 1, exp },         { IR_log, 1, log },     { IR_sigmoid, 2, sigmoid }, { IR_tanh, 2, tanh },
	{ IR_erf, 2, erf },         { IR_expm1, 2, expm1 }, { IR_log1p, 1, log1p },     { IR_sin, 2, sin },
	{ IR_cos, 2, cos },         { IR_rsqrt, 2, rsqrt }, { IR_sqrt, 0.5, sqrt },     { IR_reciprocal, 0.5, reciprocal },
	{ IR_square, 0.5, square }, { IR_floor, 0, floor }, { IR_ceil, 0, ceil },       { IR_round, 0, rint },
	{ IR_trunc, 0, trunc },     { IR_abs, 0, fabs },    { IR_frac, 0, frac },       { IR_exp2, 1, exp2 },
	{ IR_log2, 2, log2 },       { IR_log10, 2, log10 }, { IR_cbrt, 1, cbrt },       { IR_tan, 2, tan },
	{ IR_asin, 2, asin },       { IR_acos, 2, acos },   { IR_atan, 2, atan },       { IR_sinh, 2, sinh },
	{ IR_cosh, 2, cosh },       { IR_asinh, 2, asinh }, { IR_acosh, 2, acosh },     { IR_atanh, 2, atanh },
};

/* As far from the exact value as half an ulp of t and the ulps of f32 allow. */
static void check_near(const struct near *n, tj_dtype t, uint16_t in, uint16_t got)
{
	const double x = value_of(t, in), want = n->f(x), is = value_of(t, got);
	if (want != want || isinf(is) || isinf(want)) {
		uint16_t near_want = bits_of(t, want);
		if (!alike_bits(t, got, near_want))
			fail_msg("%s %s of %a is %a, not %a", ir_ops[n->op].name, tj_dtype_name(t), x, is, value_of(t, near_want));
		return;
	}
	int e;
	frexp(want, &e);
	const int stored = rt_dtype_bits(t) - 1, least = t == TJ_F16 ? -24 : -133;
	const double ulp = ldexp(1, e - 1 - stored < least ? least : e - 1 - stored), single = ldexp(1, e - 24 < -149 ? -149 : e - 24);
	if (fabs(is - want) > 0.5 * ulp + (n->ulps + 0.001) * single)
		fail_msg("%s %s of %a is %a, not %a", ir_ops[n->op].name, tj_dtype_name(t), x, is, want);
}

/* The evaluator is the function in f32, rounded once; code has the evaluator's bits. */
static void check_unary(ir_op op, tj_dtype t)
{
	static uint16_t in[ALL], got[ALL], want[ALL], code[ALL];
	ir_graph g;
	for (int i = 0; i < ALL; i++) in[i] = (uint16_t)i;
	ir_ref r = ir_op1(&g, op, input(&g, t, ALL), NULL);
	const tj_dtype out = (tj_dtype)ir_at(&g, r)->dtype;
	const size_t size = tj_dtype_size(out);
	ir_ret(&g, r);
	run(&g, NULL, in, got);
	for (size_t w = 0; w < RT_COUNT(widths); w++) {
		if (!has_llvm() || (w + (size_t)op) % 3) continue; /* each op at one width of a dtype */
		run(&g, widths[(w + (size_t)t) % 3], in, code);
		for (int i = 0; i < ALL; i++)
			if (out == t ? !alike_bits(t, code[i], got[i]) : memcmp((char *)code + (size_t)i * size, (char *)got + (size_t)i * size, size) != 0)
				fail_msg("%s %s of %a is %a in code, %a in the evaluator", ir_ops[op].name, tj_dtype_name(t),
				         value_of(t, (uint16_t)i), value_of(t, code[i]), value_of(t, got[i]));
	}
	ir_graph_free(&g);
	ir_ref wide = ir_op1(&g, op, ir_cast(&g, input(&g, t, ALL), TJ_F32, NULL), NULL);
	ir_ret(&g, out == t ? ir_cast(&g, wide, t, NULL) : wide);
	run(&g, NULL, in, want);
	ir_graph_free(&g);
	for (int i = 0; i < ALL; i++)
		if (out == t ? !alike_bits(t, got[i], want[i]) : memcmp((char *)got + (size_t)i * size, (char *)want + (size_t)i * size, size) != 0)
			fail_msg("%s %s of %a is not that of f32, rounded once", ir_ops[op].name, tj_dtype_name(t), value_of(t, (uint16_t)i));
	for (size_t k = 0; k < RT_COUNT(near); k++)
		for (int i = 0; near[k].op == op && i < ALL; i++) check_near(&near[k], t, in[i], got[i]);
}

static void all_values_of_unary_functions(void **state)
{
	int ops = 0;
	(void)state;
	for (int op = 0; op < IR_OPS; op++) {
		rt_err err = { 0 };
		ir_meta m = { .dtype = TJ_F16, .rank = 1, .dim = { 1 } }, out;
		if (ir_ops[op].opclass != IR_UNARY || ir_infer((ir_op)op, 1, &m, 0, NULL, &out, NULL, NULL, NULL, &err) != TJ_OK) continue;
		for (size_t h = 0; h < RT_COUNT(halves); h++) check_unary((ir_op)op, halves[h]);
		ops++;
	}
	assert_true(ops >= 28);
}

/* ---- at the API ---- */
typedef tj_tensor *expression(tj_tensor *const *in);
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	expression *const *e = self;
	out[0] = (*e)(in);
}

/* The value of an expression, compiled; outside of a function it must be the same. */
static tj_tensor *computed(tj_ctx *c, expression *e, int nin, tj_list in)
{
	tj_fn *f = kit_fn(c, "half", body, &e, nin, 1);
	tj_tensor *r = tj_call1(f, in), *alone = e(in);
	kit_ok(c);
	assert_int_equal(tj_dtype_of(r), tj_dtype_of(alone));
	assert_int_equal(tj_numel(r), tj_numel(alone));
	assert_memory_equal(tj_data(r), tj_data(alone), (size_t)tj_numel(r) * tj_dtype_size(tj_dtype_of(r)));
	return r;
}

static tj_tensor *sum(tj_tensor *const *in) { return tj_sum(in[0], TJ_ALL, false); }
static tj_tensor *sum_columns(tj_tensor *const *in) { return tj_sum(in[0], TJ_AXES(0), false); }
static tj_tensor *sum_ends(tj_tensor *const *in) { return tj_sum(in[0], TJ_AXES(0, 2), false); }
static tj_tensor *mean(tj_tensor *const *in) { return tj_mean(in[0], TJ_ALL, false); }

/* bf16 counts ones up to 256, f16 up to 2048: a sum that is kept in them stays there. */
static void accumulators_are_f32(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		const tj_dtype t = halves[h];
		tj_tensor *ones = tj_full(t, TJ_SHAPE(60000), tj_f(1)), *r = computed(c, sum, 1, TJ_LIST(ones));
		assert_int_equal(tj_dtype_of(r), t);
		assert_true(tj_item(r) == value_of(t, bits_of(t, 60000)));
		assert_true(tj_item(computed(c, mean, 1, TJ_LIST(ones))) == 1);
		r = computed(c, sum_columns, 1, TJ_LIST(tj_full(t, TJ_SHAPE(5000, 3), tj_f(1))));
		assert_true(tj_item(tj_slice(r, 0, 2, 3, 1)) == value_of(t, bits_of(t, 5000)));
		/* Seven sums of 100.78125 in f32, one rounding: were each of the seven rounded, the result would be another one. */
		r = computed(c, sum_ends, 1, TJ_LIST(tj_full(t, TJ_SHAPE(7, 2, 100), tj_f(1.0078125))));
		assert_true(tj_item(tj_slice(r, 0, 1, 2, 1)) == value_of(t, bits_of(t, 705.46875)));
	}
	tj_close(c);
}

static tj_tensor *there_and_back(tj_tensor *const *in) { return tj_sub(tj_add(in[0], in[1]), in[1]); }
static tj_tensor *through(tj_tensor *const *in) { return tj_cast(tj_cast(in[0], TJ_BF16), TJ_F32); }
static tj_tensor *by_f16(tj_tensor *const *in) { return tj_cast(tj_cast(in[0], TJ_F16), TJ_F32); }
static tj_tensor *halved(tj_tensor *const *in) { return tj_mul(in[0], tj_f(0.5)); }

/* Values of a fused kernel are those of one op after the other. */
static void each_op_rounds(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		const tj_dtype t = halves[h];
		tj_tensor *small = tj_full(t, TJ_SHAPE(100), tj_f(0.125)), *large = tj_full(t, TJ_SHAPE(100), tj_f(2048));
		assert_true(tj_item(tj_slice(computed(c, there_and_back, 2, TJ_LIST(small, large)), 0, 99, 100, 1)) == 0);
		assert_int_equal(tj_dtype_of(computed(c, halved, 1, TJ_LIST(small))), t);
	}
	assert_true(tj_item(tj_slice(computed(c, through, 1, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(3), tj_f(1.001)))), 0, 0, 1, 1)) == 1);
	assert_true(isinf(tj_item(
		computed(c, by_f16, 1, TJ_LIST(tj_full(TJ_BF16, TJ_SHAPE(1), tj_f(1e30))))))); /* f16 has more bits, and less range */
	tj_close(c);
}

static tj_tensor *normed(tj_tensor *const *in) { return tj_rms_norm(in[0], in[1], 1e-8); }
static tj_tensor *soft(tj_tensor *const *in) { return tj_softmax(in[0], -1); }

/* Composites compute in f32 and round once: eps is not 0, the sum of 4,096 exponentials is not stuck at 256. */
static void composites_round_once(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		const tj_dtype t = halves[h];
		tj_tensor *zero = tj_full(t, TJ_SHAPE(2, 8), tj_f(0)), *one = tj_full(t, TJ_SHAPE(8), tj_f(1));
		assert_true(tj_item(tj_sum(computed(c, normed, 2, TJ_LIST(zero, one)), TJ_ALL, false)) == 0);
		tj_tensor *p = computed(c, soft, 1, TJ_LIST(tj_full(t, TJ_SHAPE(1, 4096), tj_f(1))));
		assert_true(tj_item(tj_slice(tj_reshape(p, TJ_SHAPE(4096)), 0, 7, 8, 1)) == 0x1p-12);
	}
	tj_close(c);
}

static tj_tensor *product(tj_tensor *const *in) { return tj_matmul(in[0], in[1]); }

static void products(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		const tj_dtype t = halves[h];
		tj_tensor *a = tj_full(t, TJ_SHAPE(70, 3000), tj_f(1)), *b = tj_full(t, TJ_SHAPE(3000, 90), tj_f(1)),
			  *r = computed(c, product, 2, TJ_LIST(a, b));
		assert_int_equal(tj_dtype_of(r), t);
		assert_true(tj_item(tj_amax(r, TJ_ALL, false)) == value_of(t, bits_of(t, 3000)));
		assert_true(tj_item(tj_amin(r, TJ_ALL, false)) == value_of(t, bits_of(t, 3000)));
	}
	const int8_t x[] = { 100, 100, -128, 127 };
	tj_tensor *i = tj_from_data(c, TJ_I8, TJ_SHAPE(2, 2), x), *r = computed(c, product, 2, TJ_LIST(i, i));
	const int8_t want[] = { (int8_t)(100 * 100 - 100 * 128), (int8_t)(100 * 100 + 100 * 127), (int8_t)(-128 * 100 - 127 * 128),
		                (int8_t)(-128 * 100 + 127 * 127) };
	assert_int_equal(tj_dtype_of(r), TJ_I8);
	assert_memory_equal(tj_data(r), want, sizeof want);
	tj_close(c);
}

/* Whole numbers: every order of the sum is exact in f32, so that the bits are known. */
static tj_tensor *wholes(tj_ctx *c, tj_dtype t, int64_t rows, int64_t cols, bool transposed, int seed, double *v)
{
	uint16_t *x = malloc((size_t)(rows * cols + 1) * sizeof *x);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++) {
			v[i * cols + j] = (double)((i * 7 + j * 13 + seed + i * j % 5) % 7 - 2);
			x[transposed ? j * rows + i : i * cols + j] = bits_of(t, v[i * cols + j]);
		}
	tj_tensor *r = transposed ? tj_transpose(tj_from_data(c, t, TJ_SHAPE(cols, rows), x), 0, 1) : tj_from_data(c, t, TJ_SHAPE(rows, cols), x);
	free(x);
	return r;
}

static void check_product(tj_ctx *c, tj_dtype t, int64_t m, int64_t n, int64_t k, int order)
{
	double *a = malloc((size_t)(m * k + 1) * sizeof *a), *b = malloc((size_t)(k * n + 1) * sizeof *b);
	tj_scope *s = tj_push(c);
	tj_tensor *x = wholes(c, t, m, k, order & 1, 0, a), *y = wholes(c, t, k, n, order & 2, 3, b), *r = tj_matmul(x, y);
	const uint16_t *got = tj_data(r);
	kit_ok(c);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			double sum = 0;
			for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
			if (got[i * n + j] != bits_of(t, sum))
				fail_msg("%s %lld x %lld x %lld, %d: [%lld,%lld] is %g, not %g", tj_dtype_name(t), (long long)m,
				         (long long)n, (long long)k, order, (long long)i, (long long)j, value_of(t, got[i * n + j]), sum);
		}
	tj_pop(s);
	free(a);
	free(b);
}

/* Few rows and many, ends of tiles and panels, each order of each operand. */
static void products_by_tiles(void **state)
{
	static const int64_t size[][3] = { { 1, 1, 1 },     { 1, 600, 43 },  { 3, 17, 9 },   { 16, 513, 40 },
		                           { 17, 300, 70 }, { 300, 70, 33 }, { 5, 8, 1000 }, { 2, 40, 0 } };
	(void)state;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (size_t h = 0; h < RT_COUNT(halves); h++)
		for (size_t i = 0; i < RT_COUNT(size); i++)
			for (int order = 0; order < 4; order++) check_product(c, halves[h], size[i][0], size[i][1], size[i][2], order);
	tj_close(c);
}

/* Where the library is preferred, a note says once why it does not compute a product of bf16. */
static void the_note_of_a_product(void **state)
{
	(void)state;
	for (int library = 0; library < 2; library++) {
		tj_ctx *c = kit_open();
		expression *e = product;
		tj_fn *f = kit_fn(c, "half", body, &e, 2, 1);
		tj_tensor *a = tj_full(TJ_BF16, TJ_SHAPE(8, 8), tj_f(1));
		tj_set_settings(c, TJ_OPTS(tj_settings, .products = library ? TJ_PRODUCTS_LIBRARY : TJ_PRODUCTS_AUTO));
		tj_call1(f, TJ_LIST(a, a));
		tj_call1(f, TJ_LIST(a, a));
		kit_ok(c);
		char *s = kit_explain(f), *told = strstr(s, "products of f32 only");
		if (!strcmp(kit_backend, "llvm") && (library ? !told || strstr(told + 1, "products of f32 only") : told != NULL)) fail_msg("%s", s);
		free(s);
		tj_close(c);
	}
}

static void integers_of_8_bits(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const int8_t x[] = { 127, -128, -1, 5 };
	const uint8_t y[] = { 1, 255, 128, 5 };
	tj_tensor *a = tj_from_data(c, TJ_I8, TJ_SHAPE(4), x), *b = tj_from_data(c, TJ_U8, TJ_SHAPE(4), y);
	const int8_t twice[] = { -2, 0, -2, 10 };
	const int16_t both[] = { 128, 127, 127, 10 };
	tj_tensor *r = tj_add(a, a);
	assert_int_equal(tj_dtype_of(r), TJ_I8);
	assert_memory_equal(tj_data(r), twice, sizeof twice);
	r = tj_add(a, b);
	assert_int_equal(tj_dtype_of(r), TJ_I16);
	assert_memory_equal(tj_data(r), both, sizeof both);
	r = computed(c, sum, 1, TJ_LIST(tj_full(TJ_I8, TJ_SHAPE(1000), tj_i(100))));
	assert_int_equal(tj_dtype_of(r), TJ_I64);
	assert_int_equal(tj_item_i(r), 100000);
	tj_full(TJ_I8, TJ_SHAPE(1), tj_i(128));
	kit_error(c, TJ_ERR_ARG, "i8 cannot hold 128");
	tj_full(TJ_F16, TJ_SHAPE(1), tj_f(65520));
	kit_error(c, TJ_ERR_ARG, "f16 cannot hold 65520");
	tj_full(TJ_F16, TJ_SHAPE(1), tj_f(65519));
	tj_full(TJ_BF16, TJ_SHAPE(1), tj_f(1e38));
	kit_ok(c);
	tj_close(c);
}

/* Uniform numbers of a narrow dtype have its bits: none is rounded up to 1. */
static void random_numbers(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		tj_tensor *u = tj_uniform(halves[h], TJ_SHAPE(100000)), *n = tj_normal(halves[h], TJ_SHAPE(100000));
		assert_int_equal(tj_dtype_of(u), halves[h]);
		const double top = tj_item(tj_amax(u, TJ_ALL, false)), m = tj_item(tj_mean(tj_cast(u, TJ_F32), TJ_ALL, false));
		assert_true(top < 1 && top >= 0.99 && tj_item(tj_amin(u, TJ_ALL, false)) == 0);
		assert_true(m > 0.49 && m < 0.51);
		assert_true(fabs(tj_item(tj_mean(tj_cast(n, TJ_F32), TJ_ALL, false))) < 0.02);
		assert_true(fabs(tj_item(tj_var(tj_cast(n, TJ_F32), TJ_ALL, 0, false)) - 1) < 0.02);
	}
	kit_ok(c);
	tj_close(c);
}

static tj_tensor *next(tj_tensor *const *in) { return tj_nextafter(in[0], in[1]); }

/* Without its sign, the bits of a number count the numbers. */
static uint16_t neighbour(tj_dtype t, uint16_t a, uint16_t b)
{
	const double x = value_of(t, a), y = value_of(t, b);
	if (x != x || y != y) return infinity_of(t) + 1;
	if (x == y) return b;
	if (x == 0) return (uint16_t)(y < 0 ? 0x8001 : 1);
	return (uint16_t)((y > x) == (x > 0) ? a + 1 : a - 1);
}

static void neighbours_of_all_values(void **state)
{
	(void)state;
	static const double towards[] = { INFINITY, -INFINITY, 0, -0.0, NAN, 1.5, -1000 };
	uint16_t *all = malloc(ALL * sizeof *all);
	for (int i = 0; i < ALL; i++) all[i] = (uint16_t)i;
	for (size_t h = 0; h < RT_COUNT(halves); h++) {
		tj_ctx *c = kit_open();
		const tj_dtype t = halves[h];
		expression *e = next;
		tj_fn *f = kit_fn(c, "next", body, &e, 2, 1);
		tj_tensor *x = tj_from_data(c, t, TJ_SHAPE(ALL), all);
		for (size_t k = 0; k < 2 * RT_COUNT(towards); k++) {
			tj_tensor *to = tj_full(t, TJ_0D, tj_f(towards[k / 2]));
			const uint16_t *got = tj_data(k % 2 ? tj_call1(f, TJ_LIST(x, to)) : tj_nextafter(x, to));
			for (int i = 0; i < ALL; i++)
				if (!alike_bits(t, got[i], neighbour(t, all[i], bits_of(t, towards[k / 2]))))
					fail_msg("the neighbour of %s %a towards %g is not %a", tj_dtype_name(t), value_of(t, all[i]), towards[k / 2], value_of(t, got[i]));
		}
		tj_tensor *wide = tj_nextafter(x, tj_full(TJ_F32, TJ_SHAPE(ALL), tj_f(0)));
		assert_int_equal(tj_dtype_of(wide), TJ_F32);
		kit_ok(c);
		tj_close(c);
	}
	free(all);
}

/* bf16 in place of f32 is another signature, and the explanation names both dtypes. */
static void another_dtype_recompiles(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	expression *e = halved;
	tj_fn *f = kit_fn(c, "half", body, &e, 1, 1);
	tj_tensor *x = F32(c, 1, 2, 3);
	tj_call1(f, TJ_LIST(x));
	tj_call1(f, TJ_LIST(tj_cast(x, TJ_BF16)));
	kit_ok(c);
	char *s = kit_explain(f), *was = strstr(s, "f32"), *is = was ? strstr(was, "bf16") : NULL;
	if (!is) fail_msg("%s", s);
	free(s);
	tj_close(c);
}

/* ---- rounding behind a long chain, where vectors are wide ---- */
enum { CHAIN = 30, FROM = 1 << 16, EACH = 8 };
static void chained(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	for (int i = 0; i < CHAIN; i++) x = tj_mul(x, in[1]);
	out[0] = tj_cast(x, *(const tj_dtype *)self);
}

/* Around each value of 16 bits, subnormal ones, infinities and NaN included: those halfway to the next one, and their neighbours. */
static void a_chain_rounds_once(void **state)
{
	static const int32_t from[EACH] = { 0, 1, -1, 0x7fff, 0x8000, 0x8001, 0x1234, 0x1000 };
	static float v[FROM * EACH];
	(void)state;
	for (uint32_t i = 0; i < FROM * EACH; i++) {
		const uint32_t bits = (i % FROM << 16) + (uint32_t)from[i / FROM];
		memcpy(&v[i], &bits, sizeof bits);
	}
	for (int h = 0; h < 2; h++) {
		tj_ctx *c = kit_open();
		tj_dtype t = halves[h];
		const uint16_t *got = tj_data(tj_call1(kit_fn(c, "chained", chained, &t, 2, 1),
		                                       TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(FROM * EACH), v), tj_ones(TJ_F32, TJ_0D))));
		for (int i = 0; i < FROM * EACH; i++)
			if (!alike_bits(t, got[i], bits_of(t, (double)v[i]))) fail_msg("%a as %s: %04x", (double)v[i], tj_dtype_name(t), got[i]);
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest once[] = { cmocka_unit_test(conversions_round_once), cmocka_unit_test(widening_is_exact),
		                           cmocka_unit_test(all_values_of_unary_functions) };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accumulators_are_f32),     cmocka_unit_test(each_op_rounds),
		cmocka_unit_test(composites_round_once),    cmocka_unit_test(products),
		cmocka_unit_test(products_by_tiles),        cmocka_unit_test(a_chain_rounds_once),
		cmocka_unit_test(the_note_of_a_product),    cmocka_unit_test(integers_of_8_bits),
		cmocka_unit_test(random_numbers),           cmocka_unit_test(neighbours_of_all_values),
		cmocka_unit_test(another_dtype_recompiles),
	};
	if (cmocka_run_group_tests(once, NULL, NULL)) return 1;
	KIT_RUN(tests);
}
