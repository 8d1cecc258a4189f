/* SPDX-License-Identifier: MIT */
/* ir/math.inc: pow against MPFR; known values; kernels against the evaluator, bit for bit. */
#include "ir/ir.h"
#include "lower/target.h"
#include "test/skip.h"

#include <math.h>
#include <mpfr.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t random_state = 0x9e3779b97f4a7c15;
static uint64_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static const double special[] = {
	0, -0.0, 1, -1, 0.5, -0.5, 2, -2, INFINITY, -INFINITY, NAN, 1e30, -1e30, 3.4e38, 1e300, -1e300,
	0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffcp-127, 0x1p-1074, 0x1p-1022, 88.72, 88.73, -87.34, -103.97,
	-104.1, 709.78, 709.79, -708.4, -745.13, -745.14, 0x1p24, 0x1p31, -0x1p31, 0x1p53, 0x1p63, 255, 256,
	-0.99, 1.5, 2.5, -2.5, 0.7853981633974483, 1.5707963267948966, 3.1415926535897931,
	6381956970095103.0 * 0x1p797, 16367173.0 * 0x1p72, -0x1p-60, 0x1p-30, 0.35, 3.93, 4.1, 6.0, 9.02 };

static float f32_of(uint32_t bits) { float f; memcpy(&f, &bits, sizeof f); return f; }
static double f64_of(uint64_t bits) { double d; memcpy(&d, &bits, sizeof d); return d; }

/* Special values, then any bits, then values of everyday size. */
static double sample(uint64_t i, bool wide)
{
	uint64_t b = random_bits();
	double v = ldexp((double)(int64_t)b, -63 + (int)(b % 13) - 5);
	if (i < RT_COUNT(special)) v = special[i];
	else if (i % 3 == 0) v = wide ? f64_of(b) : (double)f32_of((uint32_t)(b >> 16));
	return wide ? v : (double)(float)v;
}

/* ---- accuracy; of the functions of one operand: test/ulp.c; of others on samples, too: test/ulp_more.c ---- */
static bool alike(double a, double b)
{
	return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

static int exponent_of(double v, bool wide)
{
	int e = wide ? -1021 : -125;
	if (v != 0) {
		int x;
		frexp(v, &x);
		if (x > e) e = x;
	}
	return e;
}

/* How far got is from the exact value, in units of got's format; 1e9 when a special value is wrong. */
static double ulps_exact(double got, const mpfr_t exact, bool wide)
{
	double r = wide ? mpfr_get_d(exact, MPFR_RNDN) : (double)mpfr_get_flt(exact, MPFR_RNDN);
	if (got != got || r != r || isinf(got) || isinf(r) || mpfr_zero_p(exact)) return alike(got, r) ? 0 : 1e9;
	mpfr_t d;
	mpfr_init2(d, 300);
	mpfr_set_d(d, got, MPFR_RNDN);
	mpfr_sub(d, d, exact, MPFR_RNDN);
	mpfr_mul_2si(d, d, (wide ? 53 : 24) - exponent_of(r, wide), MPFR_RNDN);
	double u = fabs(mpfr_get_d(d, MPFR_RNDN));
	mpfr_clear(d);
	return u;
}

typedef struct worst { double ulps, at; } worst;
static void note(worst *w, double ulps, double at)
{
	if (ulps > w->ulps) *w = (worst){ ulps, at };
}

/* Bases near and far from 1, exponents that reach all results, whole exponents; all pairs of special values. */
static void pow_sample(uint64_t i, bool wide, double *a, double *b)
{
	size_t n = RT_COUNT(special);
	double u = ldexp((double)(int64_t)random_bits(), -63), v = ldexp((double)(int64_t)random_bits(), -63);
	double most = wide ? 745 : 104;
	*a = exp(u * (i & 1 ? 3 : most * 0.9));
	*b = v * most / fabs(log(*a));
	if (i % 5 == 0) *b = (double)((int64_t)random_bits() >> 57), *a = i % 2 ? *a : -*a;
	if (i < n * n) *a = special[i / n], *b = special[i % n];
	if (wide) return;
	*a = (double)(float)*a;
	*b = (double)(float)*b;
}

static void test_pow(void **state)
{
	(void)state;
	mpfr_t x, y, z;
	mpfr_init2(x, 53);
	mpfr_init2(y, 53);
	mpfr_init2(z, 300);
	for (int wide = 0; wide < 2; wide++) {
		worst w = { 0, 0 };
		ir_point_fn *f = ir_point_get(IR_pow, wide ? RT_D : RT_F);
		for (uint64_t i = 0; i < 100000; i++) {
			double a, b;
			pow_sample(i, wide, &a, &b);
			ir_scalar s[2];
			for (int k = 0; k < 2; k++) {
				if (wide) s[k].d = k ? b : a;
				else s[k].f = (float)(k ? b : a);
			}
			ir_scalar r = f(s, wide ? TJ_F64 : TJ_F32);
			mpfr_set_d(x, a, MPFR_RNDN);
			mpfr_set_d(y, b, MPFR_RNDN);
			mpfr_pow(z, x, y, MPFR_RNDN);
			double u = ulps_exact(wide ? r.d : (double)r.f, z, wide);
			note(&w, u, a);
			if (u > 2) fail_msg("pow(%a, %a) is %g ulp off", a, b, u);
		}
		print_message("  %s pow        %.3f ulp at %a\n", wide ? "f64" : "f32", w.ulps, w.at);
	}
	mpfr_clears(x, y, z, (mpfr_ptr)0);
}

/* fmod is exact; the quotient and the remainder with the divisor's sign follow from it as in Python. */
static double python_mod(double b, double r) { return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r; }

static void test_fmod(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 300000; i++) {
		double a = sample(i % 7 ? i : i % RT_COUNT(special), true), b = sample(i % 5
			? i + 1 : random_bits() % RT_COUNT(special), true);
		ir_scalar s[2] = { { .d = a }, { .d = b } };
		double got = ir_point_get(IR_fmod, RT_D)(s, TJ_F64).d, mod = ir_point_get(IR_remainder, RT_D)(s,
			TJ_F64).d;
		if (!alike(got, fmod(a, b))) fail_msg("fmod(%a, %a) is %a, not %a", a, b, got, fmod(a, b));
		if (!alike(mod, python_mod(b, fmod(a, b)))) fail_msg("remainder(%a, %a) is %a", a, b, mod);
		float fa = (float)a, fb = (float)b;
		s[0].f = fa, s[1].f = fb;
		float f = ir_point_get(IR_fmod, RT_F)(s, TJ_F32).f;
		if (!alike((double)f, (double)fmodf(fa, fb))) fail_msg("fmodf(%a, %a) is %a", (double)fa, (double)fb,
			(double)f);
	}
	const double q[][3] = {
		{ 7, 3, 2 }, { -7, 3, -3 }, { 7, -3, -3 }, { -7, -3, 2 }, { 1, 0.1, 9 }, { 1, 0, INFINITY },
		{ -1, 0, -INFINITY }, { 0, 0, NAN }, { 0, -3, -0.0 }, { INFINITY, 2, NAN }, { -1, INFINITY, -1 },
		{ 5, INFINITY, 0 }, { 6, 0.5, 12 }
	};
	for (size_t i = 0; i < RT_COUNT(q); i++) {
		ir_scalar s[2] = { { .d = q[i][0] }, { .d = q[i][1] } };
		double got = ir_point_get(IR_floor_divide, RT_D)(s, TJ_F64).d;
		if (!alike(got, q[i][2])) fail_msg("%g // %g is %g, not %g", q[i][0], q[i][1], got, q[i][2]);
	}
}

/* ---- known values ---- */
#define MIN32 INT32_MIN
#define MAX32 INT32_MAX
#define MIN64 INT64_MIN
#define MAX64 INT64_MAX
static const struct known { ir_op op; tj_dtype t; int64_t a, b, want; } known[] = {
	{ IR_add, TJ_I32, MAX32, 1, MIN32 }, { IR_sub, TJ_I32, MIN32, 1, MAX32 },
	{ IR_mul, TJ_I32, MIN32, -1, MIN32 }, { IR_add, TJ_I64, MAX64, 1, MIN64 },
	{ IR_add, TJ_U8, 255, 1, 0 }, { IR_sub, TJ_U8, 0, 1, 255 }, { IR_mul, TJ_U8, 16, 17, 16 },
	{ IR_add, TJ_BOOL, 1, 1, 1 }, { IR_mul, TJ_BOOL, 1, 0, 0 }, { IR_maximum, TJ_BOOL, 0, 1, 1 },
	{ IR_minimum, TJ_BOOL, 0, 1, 0 }, { IR_floor_divide, TJ_I32, 7, 3, 2 },
	{ IR_floor_divide, TJ_I32, -7, 3, -3 }, { IR_floor_divide, TJ_I32, 7, -3, -3 },
	{ IR_floor_divide, TJ_I32, -7, -3, 2 }, { IR_floor_divide, TJ_I32, MIN32, -1, MIN32 },
	{ IR_floor_divide, TJ_I32, MIN32, 3, -715827883 }, { IR_floor_divide, TJ_I32, 7, MAX32, 0 },
	{ IR_floor_divide, TJ_I32, -7, MAX32, -1 }, { IR_floor_divide, TJ_I32, MIN32, MIN32, 1 },
	{ IR_floor_divide, TJ_I64, MIN64, -1, MIN64 }, { IR_floor_divide, TJ_U8, 255, 2, 127 },
	{ IR_floor_divide, TJ_U8, 7, 255, 0 }, { IR_remainder, TJ_I32, 7, 3, 1 },
	{ IR_remainder, TJ_I32, -7, 3, 2 }, { IR_remainder, TJ_I32, 7, -3, -2 },
	{ IR_remainder, TJ_I32, -7, -3, -1 }, { IR_remainder, TJ_I32, MIN32, -1, 0 },
	{ IR_remainder, TJ_I32, MIN32, 3, 1 }, { IR_remainder, TJ_I32, 7, MIN32, -2147483641 },
	{ IR_remainder, TJ_U8, 200, 7, 4 }, { IR_remainder, TJ_I64, MIN64, MAX64, MAX64 - 1 },
	{ IR_trunc_divide, TJ_I32, -7, 3, -2 }, { IR_trunc_divide, TJ_I32, MIN32, -1, MIN32 },
	{ IR_fmod, TJ_I32, -7, 3, -1 }, { IR_fmod, TJ_I32, 7, -3, 1 }, { IR_fmod, TJ_I32, MIN32, -1, 0 },
	{ IR_fmod, TJ_I64, MIN64, -1, 0 }, { IR_pow, TJ_I32, 3, 4, 81 }, { IR_pow, TJ_I32, -2, 31, MIN32 },
	{ IR_pow, TJ_I32, 2, 32, 0 }, { IR_pow, TJ_I32, 5, 0, 1 }, { IR_pow, TJ_I32, 0, 0, 1 },
	{ IR_pow, TJ_I32, 2, -1, 0 }, { IR_pow, TJ_I32, 1, -5, 1 }, { IR_pow, TJ_I32, -1, -5, -1 },
	{ IR_pow, TJ_I32, -1, -4, 1 }, { IR_pow, TJ_I32, -1, MIN32, 1 }, { IR_pow, TJ_U8, 3, 255, 171 },
	{ IR_pow, TJ_I64, 3, 39, 4052555153018976267 }, { IR_shift_left, TJ_I32, 1, 31, MIN32 },
	{ IR_shift_left, TJ_I32, 1, 32, 0 }, { IR_shift_left, TJ_I32, 1, 33, 0 },
	{ IR_shift_left, TJ_I32, 1, -1, 0 }, { IR_shift_left, TJ_I32, 5, 0, 5 },
	{ IR_shift_left, TJ_U8, 3, 7, 128 }, { IR_shift_left, TJ_U8, 3, 8, 0 },
	{ IR_shift_left, TJ_I64, 1, 63, MIN64 }, { IR_shift_left, TJ_I64, 1, 64, 0 },
	{ IR_shift_right, TJ_I32, -8, 1, -4 }, { IR_shift_right, TJ_I32, -8, 32, -1 },
	{ IR_shift_right, TJ_I32, 8, 33, 0 }, { IR_shift_right, TJ_I32, -8, -1, -1 },
	{ IR_shift_right, TJ_U8, 200, 3, 25 }, { IR_shift_right, TJ_U8, 200, 8, 0 },
	{ IR_shift_right, TJ_I64, MIN64, 63, -1 }, { IR_abs, TJ_I32, MIN32, 0, MIN32 },
	{ IR_abs, TJ_I32, -5, 0, 5 }, { IR_abs, TJ_U8, 200, 0, 200 }, { IR_neg, TJ_I32, MIN32, 0, MIN32 },
	{ IR_neg, TJ_U8, 1, 0, 255 }, { IR_sign, TJ_I32, -9, 0, -1 }, { IR_sign, TJ_U8, 200, 0, 1 },
	{ IR_bitwise_not, TJ_I32, 0, 0, -1 }, { IR_bitwise_not, TJ_BOOL, 1, 0, 0 },
	{ IR_bitwise_not, TJ_U8, 1, 0, 254 }, { IR_lt, TJ_I32, -1, 1, 1 }, { IR_lt, TJ_U8, 255, 1, 0 },
	{ IR_gt, TJ_BOOL, 1, 0, 1 }, { IR_eq, TJ_BOOL, 0, 0, 1 }, { IR_logical_and, TJ_I32, 4, 2, 1 },
	{ IR_logical_xor, TJ_I32, 4, 2, 0 }, { IR_relu, TJ_I32, -3, 0, 0 }, { IR_relu, TJ_U8, 200, 0, 200 },
};

static int64_t stored(tj_dtype t, int64_t v) /* what a store keeps */
{
	return t == TJ_BOOL ? v & 1 : t == TJ_U8 ? (uint8_t)v : t == TJ_I32 ? (int32_t)v : v;
}

static bool gives_bool(ir_op op)
{
	return (op >= IR_eq && op <= IR_ge) || (op >= IR_logical_and && op <= IR_signbit);
}

static void test_integers(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(known); i++) {
		const struct known *k = &known[i];
		ir_scalar s[2] = { { .i = k->a }, { .i = k->b } };
		int64_t got = stored(gives_bool(k->op) ? TJ_BOOL : k->t, ir_point_get(k->op, RT_I)(s, k->t).i);
		if (got != k->want)
			fail_msg("%s %s %lld %lld is %lld, not %lld", ir_ops[k->op].name, tj_dtype_name(k->t),
				(long long)k->a, (long long)k->b, (long long)got, (long long)k->want);
	}
}

static const struct cast { double v; tj_dtype to; int64_t want; } casts[] = {
	{ NAN, TJ_I32, 0 }, { INFINITY, TJ_I32, MAX32 }, { -INFINITY, TJ_I32, MIN32 },
	{ 0x1p31, TJ_I32, MAX32 }, { -0x1p31, TJ_I32, MIN32 }, { -0x1.8p31, TJ_I32, MIN32 },
	{ 2147483520.0, TJ_I32, 2147483520 }, { 0x1p63, TJ_I64, MAX64 }, { -0x1p63, TJ_I64, MIN64 },
	{ -0x1p64, TJ_I64, MIN64 }, { NAN, TJ_I64, 0 }, { -1.5, TJ_U8, 0 }, { -0.5, TJ_U8, 0 },
	{ 300, TJ_U8, 255 }, { 255.5, TJ_U8, 255 }, { 254.75, TJ_U8, 254 }, { NAN, TJ_U8, 0 },
	{ INFINITY, TJ_U8, 255 }, { -1.5, TJ_I32, -1 }, { 1.99, TJ_I64, 1 }, { NAN, TJ_BOOL, 1 },
	{ 0, TJ_BOOL, 0 }, { -0.0, TJ_BOOL, 0 }, { 0.25, TJ_BOOL, 1 }, { 256, TJ_BOOL, 1 },
	{ 0x1p62, TJ_I64, (int64_t)1 << 62 },
};

static void test_casts(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(casts); i++) {
		int64_t d = ir_cast_scalar((ir_scalar){ .d = casts[i].v }, TJ_F64, casts[i].to).i;
		int64_t f = ir_cast_scalar((ir_scalar){ .f = (float)casts[i].v }, TJ_F32, casts[i].to).i;
		if (d != casts[i].want || f != d)
			fail_msg("%g to %s is %lld, %lld, not %lld", casts[i].v, tj_dtype_name(casts[i].to), (long long)d,
				(long long)f, (long long)casts[i].want);
	}
	assert_int_equal(ir_cast_scalar((ir_scalar){ .i = 300 }, TJ_I32, TJ_U8).i, 44);
	assert_int_equal(ir_cast_scalar((ir_scalar){ .i = -1 }, TJ_I64, TJ_U8).i, 255);
	assert_int_equal(ir_cast_scalar((ir_scalar){ .i = (int64_t)1 << 32 }, TJ_I64, TJ_I32).i, 0);
	assert_int_equal(ir_cast_scalar((ir_scalar){ .i = 256 }, TJ_I32, TJ_BOOL).i, 1);
	assert_true(ir_cast_scalar((ir_scalar){ .i = 16777217 }, TJ_I32, TJ_F32).f == 16777216.0f);
	assert_true(ir_cast_scalar((ir_scalar){ .i = MAX64 }, TJ_I64, TJ_F64).d == 0x1p63);
	assert_true(isinf(ir_cast_scalar((ir_scalar){ .d = 1e300 }, TJ_F64, TJ_F32).f));
	assert_true(ir_cast_scalar((ir_scalar){ .d = 0x1p-149 }, TJ_F64, TJ_F32).f == 0x1p-149f);
}

/* A limit that is NaN is the result, the upper one first; so is an element that is NaN. */
static void test_clamp(void **state)
{
	(void)state;
	static const float v[][4] = { { 3, 1, 2, 2 },     { 0, 1, 2, 1 },     { 1.5f, 1, 2, 1.5f }, { 3, 2, 1, 1 },
		                      { 3, NAN, 2, NAN }, { 3, 1, NAN, NAN }, { NAN, 1, 2, NAN },   { 3, NAN, NAN, NAN } };
	for (size_t i = 0; i < RT_COUNT(v); i++) {
		const ir_scalar f[3] = { { .f = v[i][0] }, { .f = v[i][1] }, { .f = v[i][2] } };
		const float got = ir_point_get(IR_clamp, RT_F)(f, TJ_F32).f;
		if (got != v[i][3] && (got == got || v[i][3] == v[i][3])) fail_msg("clamp %zu is %g", i, (double)got);
	}
}

/* The vectors of the Random123 distribution; f64 shows 53 of the first 64 bits. */
static void test_philox(void **state)
{
	(void)state;
	static const struct { uint64_t key, ordinal, index; uint32_t w0, w1; } v[] = {
		{ 0, 0, 0, 0x6627e8d5, 0xe169c58d },
		{ UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x408f276d, 0x41c83b0e },
		{ 0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, 0xd16cfe09, 0x94fdcceb },
	};
	for (size_t i = 0; i < RT_COUNT(v); i++) {
		double d = ir_random(IR_uniform, TJ_F64, v[i].key, v[i].ordinal, v[i].index).d;
		float f = ir_random(IR_uniform, TJ_F32, v[i].key, v[i].ordinal, v[i].index).f;
		assert_true(d == ldexp((double)(((uint64_t)v[i].w0 << 32 | v[i].w1) >> 11), -53));
		assert_true(f == ldexpf((float)(v[i].w0 >> 8), -24));
	}
}

static void test_normal(void **state)
{
	(void)state;
	enum { MANY = 200000 };
	for (int wide = 0; wide < 2; wide++) {
		double m1 = 0, m2 = 0, m4 = 0;
		for (uint64_t i = 0; i < MANY; i++) {
			ir_scalar s = ir_random(IR_normal, wide ? TJ_F64 : TJ_F32, 42, 7, i);
			double v = wide ? s.d : (double)s.f;
			assert_true(isfinite(v));
			m1 += v, m2 += v * v, m4 += v * v * v * v;
		}
		assert_true(fabs(m1 / MANY) < 0.01 && fabs(m2 / MANY - 1) < 0.02 && fabs(m4 / MANY - 3) < 0.12);
	}
}

/* ---- kernels against the evaluator ---- */
enum { N = 4099 }; /* many vectors, and a tail */

static const int64_t special_int[] = { 0, 1, -1, 2, 3, -3, 7, -7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 255,
	256, MAX32, MIN32, MAX64, MIN64, 16777217 };

static void fill(void *p, tj_dtype t, int seed)
{
	random_state = 0x9e3779b97f4a7c15u + (uint64_t)seed;
	for (int i = 0; i < N; i++) {
		uint64_t b = random_bits();
		size_t k = seed
			? (size_t)(b % 64) : (size_t)i; /* the second operand's special values meet all of the first's */
		int64_t v = k < RT_COUNT(special_int) ? special_int[k] : b % 3 ? (int64_t)(b >> 40) : (int64_t)b;
		double d = k < RT_COUNT(special) ? special[k] : sample(RT_COUNT(special) + (uint64_t)i, t == TJ_F64);
		ir_scalar x = rt_is_float(t) ? ir_cast_scalar((ir_scalar){ .d = d }, TJ_F64, t) : (ir_scalar){ .i = v };
		if (t == TJ_BOOL) ((uint8_t *)p)[i] = (uint8_t)v; /* any byte is a bool */
		else ir_store(t, (char *)p + (size_t)i * tj_dtype_size(t), x);
	}
}

static ir_scalar read_at(const void *p, tj_dtype t, int i) { return ir_load(t, (const char *)p + (size_t)i * tj_dtype_size(t)); }

static bool same_bits(ir_scalar a, ir_scalar b, tj_dtype t)
{
	if (rt_dtype_class(t) == RT_F) return (a.f != a.f && b.f != b.f) || !memcmp(&a.f, &b.f, sizeof a.f);
	if (t == TJ_F64) return (a.d != a.d && b.d != b.d) || !memcmp(&a.d, &b.d, sizeof a.d);
	return stored(t, a.i) == stored(t, b.i);
}

/* A kernel out = f(in...) over N elements. */
typedef struct one { lo_kernel k; lo_schedule s; char name[64]; uint32_t src[3]; } one;

static uint32_t push(lo_kernel *k, lo_ins in)
{
	if (in.op != LO_LOAD && in.op != LO_STORE) in.dyn = LO_NOREF;
	assert_true(rt_push(&k->ins, in));
	return k->ins.n - 1;
}

static void begin(one *o, const char *what, const tj_dtype *in, int nin)
{
	memset(o, 0, sizeof *o);
	snprintf(o->name, sizeof o->name, "tj_%s", what);
	o->k = (lo_kernel){ .name = o->name, .ndim = 1, .dim = { N } };
	o->s = (lo_schedule){ .target = &lo_cpu, .vec = LO_VEC_D, .block = 1024, .grain = 1, .unit_ns = 1 };
	lo_index x = { .coef = { 1 } };
	assert_true(rt_push(&o->k.index, x));
	for (int i = 0; i < nin; i++) {
		lo_buf b = { .dtype = (uint8_t)in[i], .role = LO_IN };
		assert_true(rt_push(&o->k.buf, b));
		o->src[i] = push(&o->k, (lo_ins){ .op = LO_LOAD, .dtype = (uint8_t)in[i], .buf = (uint32_t)i,
			.dyn = LO_NOREF });
	}
}

static void finish(one *o, uint32_t value)
{
	assert_int_not_equal(value, LO_NOREF);
	tj_dtype t = (tj_dtype)o->k.ins.v[value].dtype;
	lo_buf b = { .dtype = (uint8_t)t, .role = LO_OUT };
	assert_true(rt_push(&o->k.buf, b));
	push(&o->k, (lo_ins){ .op = LO_STORE, .dtype = (uint8_t)t, .nsrc = 1, .src = { value },
		.buf = o->k.buf.n - 1, .dyn = LO_NOREF });
	lo_section s = { .first = 0, .count = o->k.ins.n };
	assert_true(rt_push(&o->k.section, s));
	rt_err err = { 0 };
	if (lo_verify(&o->k, &o->s, &err) != TJ_OK) fail_msg("%s", err.message);
}

static double total_ms;
static int total_kernels;

static void run_kernel(const one *o, void *const *buf)
{
	const char *why = NULL;
	const lo_backend *llvm = lo_backend_find("llvm", &why);
	assert_non_null(llvm);
	rt_entry fn = NULL;
	const lo_kernel *k = &o->k;
	const lo_schedule *s = &o->s;
	rt_err err = { 0 };
	lo_compile job = { .kernel = &k, .schedule = &s, .nkernel = 1, .name = o->name, .fn = &fn };
	if (llvm->compile(&job, &err) != TJ_OK) fail_msg("%s: %s", o->name, err.message);
	total_ms += job.codegen_ms;
	total_kernels++;
	int32_t fault = 0;
	rt_kargs a = { .buf = buf, .num = NULL, .fault = &fault, .scratch = NULL };
	((rt_kernel_fn *)fn)(&a, 0, lo_units(k, s));
	assert_int_equal(fault, 0);
	rt_shared_unref(job.code);
}

static void *in_data[TJ_DTYPE_COUNT][3], *out_data;

static void show(ir_scalar v, tj_dtype t)
{
	if (rt_is_float(t)) print_message("%a\n", rt_dtype_class(t) == RT_F ? (double)v.f : v.d);
	else print_message("%lld\n", (long long)v.i);
}

static void check_op(ir_op op, tj_dtype t)
{
	one o;
	int nsrc = ir_ops[op].nsrc;
	tj_dtype in[3] = { op == IR_where ? TJ_BOOL : t, t, t };
	begin(&o, ir_ops[op].name, in, nsrc);
	tj_dtype result = gives_bool(op) ? TJ_BOOL : t;
	finish(&o, lo_point(&o.k, op, t, result, o.src));
	void *buf[4] = { in_data[in[0]][0], in_data[in[1]][1], in_data[in[2]][2] };
	buf[nsrc] = out_data;
	memset(out_data, 0, N * 8);
	run_kernel(&o, buf);
	ir_point_fn *f = ir_point_get(op, rt_dtype_class(t));
	for (int i = 0; i < N; i++) {
		ir_scalar s[3];
		for (int k = 0; k < nsrc; k++) s[k] = read_at(buf[k], in[k], i);
		ir_scalar want = f(s, t), got = read_at(out_data, result, i);
		if (rt_is_narrow(result)) want = ir_cast_scalar(want, TJ_F32, result); /* as storing it does */
		if (same_bits(got, want, result)) continue;
		for (int k = 0; k < nsrc; k++) print_message("  operand %d: ", k), show(s[k], in[k]);
		print_message("  got "), show(got, result), print_message("  want "), show(want, result);
		fail_msg("%s %s, element %d", ir_ops[op].name, tj_dtype_name(t), i);
	}
	lo_kernel_free(&o.k);
}

static bool bool_has(ir_op op) /* ops that ir_infer admits for bool */
{
	switch (op) {
	case IR_add: case IR_mul: case IR_minimum: case IR_maximum: case IR_bitwise_and: case IR_bitwise_or: case IR_bitwise_xor:
	case IR_bitwise_not: case IR_where: return true;
	default: return gives_bool(op);
	}
}

static void check_cast(tj_dtype from, tj_dtype to)
{
	one o;
	char name[32];
	snprintf(name, sizeof name, "cast_%s_%s", tj_dtype_name(from), tj_dtype_name(to));
	begin(&o, name, &from, 1);
	finish(&o, lo_cast(&o.k, o.src[0], to));
	void *buf[2] = { in_data[from][0], out_data };
	run_kernel(&o, buf);
	for (int i = 0; i < N; i++) {
		ir_scalar s = read_at(buf[0], from, i), want = ir_cast_scalar(s, from, to), got = read_at(out_data,
			to, i);
		if (!same_bits(got, want, to)) fail_msg("%s, element %d: %lld, not %lld", name, i, (long long)got.i,
			(long long)want.i);
	}
	lo_kernel_free(&o.k);
}

static void check_random(ir_op op, tj_dtype t)
{
	one o;
	uint64_t key = 0x0123456789abcdef, ordinal = 0xfedcba9876543210;
	begin(&o, ir_ops[op].name, NULL, 0);
	uint32_t k = push(&o.k, (lo_ins){ .op = LO_CONST, .dtype = TJ_I64, .imm = (int64_t)key });
	uint32_t ord = push(&o.k, (lo_ins){ .op = LO_CONST, .dtype = TJ_I64, .imm = (int64_t)ordinal });
	uint32_t i = push(&o.k, (lo_ins){ .op = LO_INDEX, .dtype = TJ_I64, .imm = 0 });
	finish(&o, lo_random(&o.k, op, t, k, ord, i));
	void *buf[1] = { out_data };
	run_kernel(&o, buf);
	for (int e = 0; e < N; e++)
		if (!same_bits(read_at(out_data, t, e), ir_random(op, t, key, ordinal, (uint64_t)e),
			t)) fail_msg("%s %s, element %d", ir_ops[op].name, tj_dtype_name(t), e);
	lo_kernel_free(&o.k);
}

/* Dtypes that are computed like another one: one width of each is enough. */
static bool sampled(int t) { return t == TJ_I8 || rt_is_narrow((tj_dtype)t); }

static void check_all(int width)
{
	for (int op = 0; op < IR_OPS; op++)
		for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
			if (!(ir_ops[op].flags & IR_POINT) || !ir_point_get((ir_op)op,
				rt_dtype_class((tj_dtype)t))) continue;
			if (sampled(t) && (op + t) % 3 != width) continue;
			if (t != TJ_BOOL || bool_has((ir_op)op)) check_op((ir_op)op, (tj_dtype)t);
		}
	for (int a = 0; a < TJ_DTYPE_COUNT; a++)
		for (int b = 0; b < TJ_DTYPE_COUNT; b++)
			if ((!sampled(a) && !sampled(b)) || (a + b) % 3 == width) check_cast((tj_dtype)a, (tj_dtype)b);
	for (int t = TJ_F16; t <= TJ_F64; t++) {
		check_random(IR_uniform, (tj_dtype)t);
		check_random(IR_normal, (tj_dtype)t);
	}
}

static void test_kernels(void **state)
{
	static const char *const width[] = { "512", "256", "128" };
	const char *why = NULL;
	(void)state;
	if (!lo_backend_find("llvm", &why)) {
		SKIP(why);
	}
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (int i = 0; i < 3; i++) {
			assert_non_null(in_data[t][i] = malloc(N * 8));
			fill(in_data[t][i], (tj_dtype)t, i);
		}
	assert_non_null(out_data = malloc(N * 8));
	for (size_t w = 0; w < RT_COUNT(width); w++) {
		setenv("TJ_CPU", width[w], 1);
		total_ms = total_kernels = 0;
		check_all((int)w);
		print_message("  %s bits: %d kernels, %.2f ms each\n", width[w], total_kernels,
			total_ms / total_kernels);
	}
	unsetenv("TJ_CPU");
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (int i = 0; i < 3; i++) free(in_data[t][i]);
	free(out_data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pow), cmocka_unit_test(test_fmod),
		cmocka_unit_test(test_integers), cmocka_unit_test(test_casts), cmocka_unit_test(test_clamp), cmocka_unit_test(test_philox),
			cmocka_unit_test(test_normal),
		cmocka_unit_test(test_kernels),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	mpfr_free_cache();
	return failed;
}
