/* SPDX-License-Identifier: MIT */
/* ulp: measures the errors of the maths functions. Inputs: every f32, or every stride-th; random f64; special values.
 *
 *   ulp [-s stride] [-n f64 inputs] [-j processes] [-e every] [-32|-64] [name...]
 *
 * Each input is computed by the function that the evaluator and constant folding call (-e: only every e-th input) and by a
 * compiled kernel; both results must have the same bits. They are compared with libm in a wider type. MPFR decides where
 * the error is larger than all before or than a bound, and for special values. Samples of every block compare libm with MPFR. */
#include "ir/ir.h"
#include "lower/target.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 15, CHECKS = 4, MAX_PROCESSES = 64 };
#define WRONG 1e9 /* error of a wrong special value, in ulps */

/* ---- the functions ---- */
typedef int mp_fn(mpfr_t r, const mpfr_t x, mpfr_rnd_t d);

static int mp_sigmoid(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_neg(r, x, d);
	mpfr_exp(r, r, d);
	mpfr_add_ui(r, r, 1, d);
	return mpfr_ui_div(r, 1, r, d);
}
static int mp_reciprocal(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return mpfr_ui_div(r, 1, x, d); }
static int mp_rsqrt(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) /* of -0 it is -inf, as in IEEE 754 */
{
	return mpfr_zero_p(x) ? mpfr_ui_div(r, 1, x, d) : mpfr_rec_sqrt(r, x, d);
}
static int mp_floor(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return mpfr_rint_floor(r, x, d); }
static int mp_ceil(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return mpfr_rint_ceil(r, x, d); }
static int mp_round(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return mpfr_rint_roundeven(r, x, d); }
static int mp_trunc(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return mpfr_rint_trunc(r, x, d); }

static int mp_sinc(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_t turn, sine;
	if (!mpfr_number_p(x)) return mpfr_set_nan(r), 0;
	if (mpfr_zero_p(x)) return mpfr_set_ui(r, 1, d);
	if (mpfr_integer_p(x)) return mpfr_set_ui(r, 0, d);
	mpfr_inits2(mpfr_get_prec(r) + 60, sine, (mpfr_ptr)0);
	mpfr_init2(turn, mpfr_get_prec(r) + 1100);
	mpfr_const_pi(turn, d);
	mpfr_mul(turn, turn, x, d);
	mpfr_sin(sine, turn, d);
	mpfr_div(r, sine, turn, d);
	mpfr_clears(turn, sine, (mpfr_ptr)0);
	return 0;
}

/* ---- functions that MPFR lacks ---- */
static int mp_erfcx(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_t e, u;
	if (!mpfr_number_p(x)) return mpfr_inf_p(x) && mpfr_sgn(x) < 0 ? mpfr_set_inf(r, 1), 0 : mpfr_ui_div(r, 1, x, d);
	mpfr_inits2(400, e, u, (mpfr_ptr)0);
	if (mpfr_cmp_d(x, 1e4) > 0) { /* (1 - u + 3 u^2 - 15 u^3) / (sqrt(pi) x), u = 1 / (2 x^2) */
		mpfr_sqr(u, x, d);
		mpfr_ui_div(u, 1, u, d);
		mpfr_div_ui(u, u, 2, d);
		mpfr_mul_si(e, u, -15, d);
		mpfr_add_ui(e, e, 3, d);
		mpfr_mul(e, e, u, d);
		mpfr_sub_ui(e, e, 1, d);
		mpfr_mul(e, e, u, d);
		mpfr_add_ui(e, e, 1, d);
		mpfr_const_pi(u, d);
		mpfr_sqrt(u, u, d);
		mpfr_mul(u, u, x, d);
		mpfr_div(r, e, u, d);
	} else {
		mpfr_sqr(e, x, d);
		mpfr_exp(e, e, d);
		mpfr_erfc(u, x, d);
		mpfr_mul(r, u, e, d);
	}
	mpfr_clears(e, u, (mpfr_ptr)0);
	return 0;
}

/* erfc(-x / sqrt(2)) / 2 */
static int mp_ndtr(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_t y, root;
	mpfr_inits2(400, y, root, (mpfr_ptr)0);
	mpfr_sqrt_ui(root, 2, d);
	mpfr_div(y, x, root, d);
	mpfr_neg(y, y, d);
	mpfr_erfc(r, y, d);
	mpfr_div_ui(r, r, 2, d);
	mpfr_clears(y, root, (mpfr_ptr)0);
	return 0;
}

/* Far below 0: -x^2 / 2 - log(-x sqrt(2 pi)) - 1 / x^2. */
static int mp_log_ndtr(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_t y, z;
	mpfr_inits2(400, y, z, (mpfr_ptr)0);
	if (mpfr_number_p(x) && mpfr_cmp_d(x, -1e4) < 0) {
		mpfr_const_pi(y, d);
		mpfr_mul_ui(y, y, 2, d);
		mpfr_sqr(z, x, d);
		mpfr_mul(y, y, z, d);
		mpfr_log(y, y, d);
		mpfr_add(y, y, z, d);
		mpfr_div_si(y, y, -2, d);
		mpfr_ui_div(z, 1, z, d);
		mpfr_sub(r, y, z, d);
	} else {
		mp_ndtr(y, x, d);
		if (!mpfr_nan_p(x) && mpfr_cmp_ui(x, 0) > 0) { /* of what is missing to 1 */
			mpfr_neg(z, x, d);
			mp_ndtr(y, z, d);
			mpfr_neg(y, y, d);
			mpfr_log1p(r, y, d);
		} else mpfr_log(r, y, d);
	}
	mpfr_clears(y, z, (mpfr_ptr)0);
	return 0;
}

/* y where erfc(y) = c, 0 < c <= 1, by Newton's rule for log(erfc(y)). */
static void inverse(mpfr_t y, const mpfr_t c)
{
	mpfr_t e, slope, t;
	mpfr_inits2(400, e, slope, t, (mpfr_ptr)0);
	mpfr_log(t, c, MPFR_RNDN);
	const double w = -mpfr_get_d(t, MPFR_RNDN);
	mpfr_set_d(y, w > 2 ? sqrt(w - 0.5 * log(3.14159 * w)) : 0.5 * w, MPFR_RNDN);
	for (int i = 0; i < 14; i++) { /* y -= log(erfc(y) / c) erfc(y) / erfc'(y) */
		mpfr_erfc(e, y, MPFR_RNDN);
		mpfr_sqr(slope, y, MPFR_RNDN);
		mpfr_exp(slope, slope, MPFR_RNDN);
		mpfr_mul(slope, slope, e, MPFR_RNDN);
		mpfr_const_pi(t, MPFR_RNDN);
		mpfr_sqrt(t, t, MPFR_RNDN);
		mpfr_mul(slope, slope, t, MPFR_RNDN);
		mpfr_div_ui(slope, slope, 2, MPFR_RNDN);
		mpfr_div(e, e, c, MPFR_RNDN);
		mpfr_log(e, e, MPFR_RNDN);
		mpfr_mul(e, e, slope, MPFR_RNDN);
		mpfr_add(y, y, e, MPFR_RNDN);
	}
	mpfr_clears(e, slope, t, (mpfr_ptr)0);
}

static int mp_erfinv(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	mpfr_t c, y;
	if (mpfr_zero_p(x)) return mpfr_set(r, x, d);
	if (mpfr_nan_p(x) || mpfr_cmpabs_ui(x, 1) > 0) return mpfr_set_nan(r), 0;
	if (!mpfr_cmpabs_ui(x, 1)) return mpfr_set_inf(r, mpfr_sgn(x)), 0;
	mpfr_inits2(1500, c, y, (mpfr_ptr)0);
	if (mpfr_get_exp(x) < -60) { /* x sqrt(pi) / 2 */
		mpfr_const_pi(c, d);
		mpfr_sqrt(c, c, d);
		mpfr_div_ui(c, c, 2, d);
		mpfr_mul(r, c, x, d);
	} else {
		mpfr_abs(c, x, d);
		mpfr_ui_sub(c, 1, c, d);
		inverse(y, c);
		mpfr_setsign(r, y, mpfr_sgn(x) < 0, d);
	}
	mpfr_clears(c, y, (mpfr_ptr)0);
	return 0;
}

static int mp_ndtri(mpfr_t r, const mpfr_t p, mpfr_rnd_t d)
{
	mpfr_t c, y;
	if (mpfr_nan_p(p) || mpfr_cmp_ui(p, 0) < 0 || mpfr_cmp_ui(p, 1) > 0) return mpfr_set_nan(r), 0;
	if (mpfr_zero_p(p) || !mpfr_cmp_ui(p, 1)) return mpfr_set_inf(r, mpfr_zero_p(p) ? -1 : 1), 0;
	if (!mpfr_cmp_d(p, 0.5)) return mpfr_set_ui(r, 0, d);
	mpfr_inits2(1500, c, y, (mpfr_ptr)0);
	const bool low = mpfr_cmp_d(p, 0.5) < 0;
	mpfr_ui_sub(c, 1, p, d);
	mpfr_mul_ui(c, low ? p : c, 2, d);
	inverse(y, c);
	mpfr_sqrt_ui(c, 2, d);
	mpfr_mul(y, y, c, d);
	mpfr_setsign(r, y, low, d);
	mpfr_clears(c, y, (mpfr_ptr)0);
	return 0;
}

static int mp_lgamma(mpfr_t r, const mpfr_t x, mpfr_rnd_t d)
{
	int sign;
	return mpfr_lgamma(r, &sign, x, d);
}

/* The power series; for |x| above 400 the series in 1 / |x|. */
static int bessel(mpfr_t r, const mpfr_t x, int order, bool scaled, mpfr_rnd_t d)
{
	mpfr_t a, t, u, sum;
	if (mpfr_nan_p(x)) return mpfr_set_nan(r), 0;
	if (mpfr_inf_p(x)) return scaled ? mpfr_set_zero(r, 1) : mpfr_set_inf(r, 1), order && mpfr_sgn(x) < 0 ? mpfr_neg(r, r, d) : 0;
	mpfr_inits2(600, a, t, u, sum, (mpfr_ptr)0);
	mpfr_abs(a, x, d);
	mpfr_set_ui(t, 1, d);
	if (mpfr_cmp_ui(a, 400) > 0) {
		mpfr_set_ui(sum, 1, d);
		for (int k = 1; k < 60; k++) { /* -(4 order^2 - (2 k - 1)^2) / (8 k x) */
			mpfr_mul_si(t, t, (2 * k - 1) * (2 * k - 1) - 4 * order, d);
			mpfr_div_si(t, t, 8 * k, d);
			mpfr_div(t, t, a, d);
			mpfr_add(sum, sum, t, d);
		}
		mpfr_const_pi(u, d);
		mpfr_mul(u, u, a, d);
		mpfr_mul_ui(u, u, 2, d);
		mpfr_sqrt(u, u, d);
		mpfr_div(sum, sum, u, d);
		mpfr_exp(u, a, d);
		if (!scaled) mpfr_mul(sum, sum, u, d);
	} else {
		mpfr_div_ui(u, a, 2, d);
		if (order) mpfr_set(t, u, d);
		mpfr_sqr(u, u, d);
		mpfr_set(sum, t, d);
		for (int k = 1; k < 1200 && !mpfr_zero_p(t); k++) {
			mpfr_mul(t, t, u, d);
			mpfr_div_ui(t, t, (unsigned long)(k * (k + order)), d);
			mpfr_add(sum, sum, t, d);
			if (!mpfr_zero_p(t) && mpfr_get_exp(t) < mpfr_get_exp(sum) - 400) break;
		}
		mpfr_neg(u, a, d);
		mpfr_exp(u, u, d);
		if (scaled) mpfr_mul(sum, sum, u, d);
	}
	mpfr_setsign(r, sum, order && mpfr_signbit(x), d);
	mpfr_clears(a, t, u, sum, (mpfr_ptr)0);
	return 0;
}
static int mp_i0(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return bessel(r, x, 0, false, d); }
static int mp_i0e(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return bessel(r, x, 0, true, d); }
static int mp_i1(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return bessel(r, x, 1, false, d); }
static int mp_i1e(mpfr_t r, const mpfr_t x, mpfr_rnd_t d) { return bessel(r, x, 1, true, d); }

static double near_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double near_reciprocal(double x) { return 1 / x; }
static double near_rsqrt(double x) { return 1 / sqrt(x); }
static double near_square(double x) { return x * x; }
/* sin(pi x) / (pi x); multiples of 1/2 are taken off exactly. */
static long double near_sincl(long double x)
{
	const long double pi = 3.14159265358979323846264338327950288L, n = rintl(2 * x), r = (x - n / 2) * pi, q = fmodl(n, 4),
			  k = q < 0 ? q + 4 : q;
	return x == 0 ? 1 : isinf(x) ? NAN : (k == 0 ? sinl(r) : k == 1 ? cosl(r) : k == 2 ? -sinl(r) : -cosl(r)) / (pi * x) + 0;
}
static double near_sinc(double x) { return (double)near_sincl((long double)x); }
static long double near_sigmoidl(long double x) { return 1 / (1 + expl(-x)); }
static long double near_reciprocall(long double x) { return 1 / x; }
static long double near_rsqrtl(long double x) { return 1 / sqrtl(x); }
static long double near_squarel(long double x) { return x * x; }

typedef struct function {
	ir_op op;
	double bound;                       /* ulps */
	mp_fn *exact;
	double (*near)(double);             /* of f32: within 2^-45 of its size */
	long double (*nearl)(long double);  /* of f64: within 2^-58. Without them MPFR computes one input in 61 */
	double least;                       /* below 0 errors are measured in ulps of numbers of this size at least: there are zeros */
} function;

static const function functions[] = {
	{ IR_exp, 1, mpfr_exp, exp, expl, 0 },
	{ IR_log, 1, mpfr_log, log, logl, 0 },
	{ IR_tanh, 2, mpfr_tanh, tanh, tanhl, 0 },
	{ IR_sigmoid, 2, mp_sigmoid, near_sigmoid, near_sigmoidl, 0 },
	{ IR_erf, 2, mpfr_erf, erf, erfl, 0 },
	{ IR_sin, 2, mpfr_sin, sin, sinl, 0 },
	{ IR_cos, 2, mpfr_cos, cos, cosl, 0 },
	{ IR_expm1, 2, mpfr_expm1, expm1, expm1l, 0 },
	{ IR_log1p, 2, mpfr_log1p, log1p, log1pl, 0 },
	{ IR_exp2, 1, mpfr_exp2, exp2, exp2l, 0 },
	{ IR_log2, 2, mpfr_log2, log2, log2l, 0 },
	{ IR_log10, 2, mpfr_log10, log10, log10l, 0 },
	{ IR_cbrt, 1, mpfr_cbrt, cbrt, cbrtl, 0 },
	{ IR_tan, 2.25, mpfr_tan, tan, tanl, 0 },
	{ IR_asin, 2, mpfr_asin, asin, asinl, 0 },
	{ IR_acos, 2, mpfr_acos, acos, acosl, 0 },
	{ IR_atan, 2, mpfr_atan, atan, atanl, 0 },
	{ IR_sinh, 2, mpfr_sinh, sinh, sinhl, 0 },
	{ IR_cosh, 2, mpfr_cosh, cosh, coshl, 0 },
	{ IR_asinh, 2, mpfr_asinh, asinh, asinhl, 0 },
	{ IR_acosh, 2, mpfr_acosh, acosh, acoshl, 0 },
	{ IR_atanh, 2, mpfr_atanh, atanh, atanhl, 0 },
	{ IR_sinc, 2, mp_sinc, near_sinc, near_sincl, 0 },
	{ IR_erfc, 4, mpfr_erfc, erfc, erfcl, 0 },
	{ IR_erfcx, 4, mp_erfcx, NULL, NULL, 0 },
	{ IR_erfinv, 4, mp_erfinv, NULL, NULL, 0 },
	{ IR_ndtr, 4, mp_ndtr, NULL, NULL, 0 },
	{ IR_log_ndtr, 4, mp_log_ndtr, NULL, NULL, 0 },
	{ IR_ndtri, 4, mp_ndtri, NULL, NULL, 0 },
	{ IR_lgamma, 4, mp_lgamma, NULL, NULL, 32 },
	{ IR_tgamma, 5, mpfr_gamma, NULL, NULL, 0 },
	{ IR_digamma, 4, mpfr_digamma, NULL, NULL, 32 },
	{ IR_i0, 5, mp_i0, NULL, NULL, 0 },
	{ IR_i0e, 5, mp_i0e, NULL, NULL, 0 },
	{ IR_i1, 5, mp_i1, NULL, NULL, 0 },
	{ IR_i1e, 5, mp_i1e, NULL, NULL, 0 },
	{ IR_rsqrt, 2, mp_rsqrt, near_rsqrt, near_rsqrtl, 0 },
	{ IR_sqrt, 0.5, mpfr_sqrt, sqrt, sqrtl, 0 },
	{ IR_reciprocal, 0.5, mp_reciprocal, near_reciprocal, near_reciprocall, 0 },
	{ IR_square, 0.5, mpfr_sqr, near_square, near_squarel, 0 },
	{ IR_floor, 0, mp_floor, floor, floorl, 0 },
	{ IR_ceil, 0, mp_ceil, ceil, ceill, 0 },
	{ IR_round, 0, mp_round, rint, rintl, 0 },
	{ IR_trunc, 0, mp_trunc, trunc, truncl, 0 },
};

static const double special[] = {
	0, -0.0, 1, -1, 0.5, -0.5, 2, -2, INFINITY, -INFINITY, NAN, 1e30, -1e30, 3.4e38, 1e300, -1e300, 0x1p-149, -0x1p-149,
	0x1p-126, 0x1.fffffcp-127, 0x1p-1074, -0x1p-1074, 0x1p-1022, 0x1.ffffffffffffep-1023, 88.72, 88.73, -87.34, -103.97,
	-104.1, 709.78, 709.79, -708.4, -745.13, -745.14, 0x1p24, 0x1p31, -0x1p31, 0x1p53, 0x1p63, 0x1.fffffep127,
	0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, -0.99, 1.5, 2.5, -2.5, 0.7853981633974483, 1.5707963267948966,
	3.1415926535897931, 6381956970095103.0 * 0x1p797, 16367173.0 * 0x1p72, -0x1p-60, 0x1p-30, 0.35, 3.93, 4.1, 6.0, 9.02, 0x1.fffffffffffffp-1
};

/* ---- options, and what the processes share ---- */
static struct options {
	uint64_t stride, wide_n;
	int processes, every;
	bool f32, f64;
} opt = { 1, 100000000, 2, 1, true, true };

typedef struct result {
	double ulps, at;
	uint64_t inputs, beyond, differ; /* beyond the bound; kernel and evaluator differ */
	double differs_at, bad_near;     /* bad_near: libm was too far off there, or 0 */
} result;
typedef struct shared { uint64_t next, done; result of[MAX_PROCESSES]; } shared;

/* ---- distances ---- */
static bool alike(double a, double b) { return (a != a && b != b) || (a == b && signbit(a) == signbit(b)); }

/* An ulp at v, of f32 or f64: a power of two. */
static double ulp_at(double v, bool wide)
{
	uint64_t b;
	memcpy(&b, &v, sizeof b);
	int e = (int)(b >> 52 & 2047) - 1023, least = wide ? -1022 : -126;
	return ldexp(1, (e < least ? least : e) - (wide ? 52 : 23));
}

/* 1 ulp in an array, as ldexp is slow: for f32 only. */
static double ulp32[256];
static double ulp_of(float r)
{
	uint32_t b;
	memcpy(&b, &r, sizeof b);
	return ulp32[b >> 23 & 255];
}

typedef struct measure { const function *f; bool wide; int skip; mpfr_t x, y, d; result *r; } measure;

static double exact_ulps(measure *m, double x, double got)
{
	mpfr_set_d(m->x, x, MPFR_RNDN);
	m->f->exact(m->y, m->x, MPFR_RNDN);
	double r = m->wide ? mpfr_get_d(m->y, MPFR_RNDN) : (double)mpfr_get_flt(m->y, MPFR_RNDN);
	if (got != got || r != r || isinf(got) || isinf(r) || mpfr_zero_p(m->y)) return alike(got, r) ? 0 : WRONG;
	if (r == 0 && got == 0 && signbit(got) != signbit(r)) return WRONG;
	mpfr_set_d(m->d, got, MPFR_RNDN);
	mpfr_sub(m->d, m->d, m->y, MPFR_RNDN);
	mpfr_div_d(m->d, m->d, ulp_at(x < 0 && fabs(r) < m->f->least ? m->f->least : r, m->wide), MPFR_RNDN);
	return fabs(mpfr_get_d(m->d, MPFR_RNDN));
}

/* An error that looks larger than all before is measured exactly. */
static void suspect(measure *m, double x, double got)
{
	double u = exact_ulps(m, x, got);
	m->r->beyond += u > m->f->bound;
	if (u <= m->r->ulps) return;
	m->r->ulps = u;
	m->r->at = x;
}

/* Needs no MPFR for two NaNs, the same infinity, the same zero, or an error no larger than one before. */
static inline void judge32(measure *m, float x, float got)
{
	if (!m->f->near) {
		if (!m->skip--) m->skip = 60, suspect(m, (double)x, (double)got);
		return;
	}
	double want = m->f->near((double)x);
	float r = (float)want;
	double u = fabs((double)got - want);
	bool sign = !signbit(got) == !signbit(want); /* signbit() gives any number */
	if (u <= m->r->ulps * ulp_of(r) && sign && (want != 0 || got == 0)) return;
	if ((got != got && want != want) || (isinf(r) && got == r && fabs(want) > 0x1.fffffffp127)) return;
	if (got == 0 && want == 0 && sign) return;
	suspect(m, (double)x, (double)got);
}

static inline void judge64(measure *m, double x, double got)
{
	if (!m->f->near) {
		if (!m->skip--) m->skip = 60, suspect(m, x, got);
		return;
	}
	long double want = m->f->nearl((long double)x), u = fabsl((long double)got - want);
	double r = (double)want;
	bool sign = !signbit(got) == !signbit(r);
	if (r - r == 0 && r != 0 && sign && u <= ((long double)m->r->ulps - 0.01L) * (long double)ulp_at(r, true)) return;
	if ((got != got && r != r) || (got == 0 && want == 0 && sign)) return;
	suspect(m, x, got);
}

/* libm against MPFR. */
static void hold_near(measure *m, double x)
{
	if (!m->f->near) return;
	mpfr_set_d(m->x, x, MPFR_RNDN);
	m->f->exact(m->y, m->x, MPFR_RNDN);
	long double near = m->wide ? m->f->nearl((long double)x) : (long double)m->f->near(x), exact = mpfr_get_ld(m->y, MPFR_RNDN);
	if (near != near || exact != exact || isinf(exact) || isinf(near) || fabsl(exact) < 0x1p-1000L) return;
	if (fabsl(near - exact) > ldexpl(fabsl(exact), m->wide ? -58 : -45)) m->r->bad_near = x;
}

/* ---- kernels ---- */
typedef struct kernel { rt_exec *exec; rt_pool *pool; } kernel;

static kernel compile(const lo_target *llvm, ir_op op, bool wide)
{
	ir_graph g;
	rt_err err = { 0 };
	kernel k = { .pool = rt_pool_new() };
	lo_opts o = { .name = ir_ops[op].name, .target = llvm };
	ir_graph_init(&g);
	ir_ret(&g, ir_op1(&g, op, ir_input(&g, 0, &(ir_meta){ .dtype = wide ? TJ_F64 : TJ_F32, .rank = 1, .dim = { BLOCK } }, NULL, NULL), NULL));
	if (!k.pool || lo_build(&g, &o, &k.exec, &err) != TJ_OK) {
		fprintf(stderr, "ulp: %s\n", err.message);
		exit(2);
	}
	ir_graph_free(&g);
	return k;
}

static void run_kernel(const kernel *k, const void *in, void *out)
{
	rt_err err = { 0 };
	rt_run r = { .pool = k->pool, .ext = &in, .out = &out, .err = &err };
	if (k->exec->run(k->exec, &r) == TJ_OK) return;
	fprintf(stderr, "ulp: %s\n", err.message);
	exit(2);
}

/* ---- blocks of inputs ---- */
static uint64_t mix(uint64_t z)
{
	z = (z + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* Random bits, and values of usual size. */
static double random_wide(uint64_t i)
{
	uint64_t b = mix(i);
	double d;
	if (b % 4 == 0) b = mix(b), memcpy(&d, &b, sizeof d);
	else d = ldexp((double)(int64_t)mix(b), -63 + (int)(b >> 8 & 15) - 6);
	return d;
}

/* Element i of a block, 0-based over all blocks. */
static double input(uint64_t i, bool wide)
{
	uint32_t b = (uint32_t)i;
	if (opt.stride > 1) b = (uint32_t)(i * opt.stride + mix(i) % opt.stride); /* so that not all values end in zeros */
	float f;
	if (wide) return i < RT_COUNT(special) ? special[i] : random_wide(i);
	memcpy(&f, &b, sizeof f);
	return (double)f;
}

static uint64_t blocks(bool wide)
{
	uint64_t n = wide ? opt.wide_n : ((uint64_t)1 << 32) / opt.stride;
	return (n + BLOCK - 1) / BLOCK;
}

static double evaluate(ir_point_fn *f, double x, bool wide)
{
	ir_scalar s = { 0 };
	if (wide) s.d = x;
	else s.f = (float)x;
	s = f(&s, wide ? TJ_F64 : TJ_F32);
	return wide ? s.d : (double)s.f;
}

static void note_differ(result *r, double x)
{
	if (!r->differ++) r->differs_at = x;
}

static void block32(measure *m, ir_point_fn *f, const kernel *k, uint64_t first)
{
	static float in[BLOCK], out[BLOCK];
	for (int i = 0; i < BLOCK; i++) in[i] = (float)input(first + (uint64_t)i, false);
	if (k) run_kernel(k, in, out);
	for (int i = 0; i < BLOCK; i++) {
		if (k && i % opt.every) {
			judge32(m, in[i], out[i]);
			continue;
		}
		float got = (float)evaluate(f, (double)in[i], false);
		if (k && !alike((double)got, (double)out[i])) note_differ(m->r, (double)in[i]);
		judge32(m, in[i], got);
	}
	for (int i = 0; i < CHECKS; i++) hold_near(m, (double)in[mix(first + (uint64_t)i) % BLOCK]);
}

static void block64(measure *m, ir_point_fn *f, const kernel *k, uint64_t first)
{
	static double in[BLOCK], out[BLOCK];
	for (int i = 0; i < BLOCK; i++) in[i] = input(first + (uint64_t)i, true);
	if (k) run_kernel(k, in, out);
	for (int i = 0; i < BLOCK; i++) {
		double got = evaluate(f, in[i], true);
		if (k && !alike(got, out[i])) note_differ(m->r, in[i]);
		judge64(m, in[i], got);
	}
	for (int i = 0; i < CHECKS; i++) hold_near(m, in[mix(first + (uint64_t)i) % BLOCK]);
}

/* ---- a function, on several processes ---- */
static void work(const function *f, bool wide, const kernel *k, shared *s, result *r)
{
	measure m = { .f = f, .wide = wide, .r = r };
	ir_point_fn *p = ir_point_get(f->op, wide ? RT_D : RT_F);
	mpfr_init2(m.x, 53);
	mpfr_init2(m.y, 200);
	mpfr_init2(m.d, 300);
	for (size_t i = 0; i < RT_COUNT(special); i++) {
		double x = wide ? special[i] : (double)(float)special[i];
		suspect(&m, x, evaluate(p, x, wide));
	}
	for (;;) {
		uint64_t b = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
		if (b >= blocks(wide)) break;
		wide ? block64(&m, p, k, b * BLOCK) : block32(&m, p, k, b * BLOCK);
		r->inputs += BLOCK;
		__atomic_fetch_add(&s->done, 1, __ATOMIC_RELAXED);
	}
	mpfr_clears(m.x, m.y, m.d, (mpfr_ptr)0);
	mpfr_free_cache();
}

static void progress(const function *f, bool wide, const shared *s)
{
	if (!isatty(2)) return;
	fprintf(stderr, "\r%s %s %.1f %% ", wide ? "f64" : "f32", ir_ops[f->op].name,
	        100 * (double)__atomic_load_n(&s->done, __ATOMIC_RELAXED) / (double)blocks(wide));
}

static result join(const shared *s)
{
	result r = { 0 };
	for (int i = 0; i < opt.processes; i++) {
		const result *p = &s->of[i];
		if (p->ulps > r.ulps) r.ulps = p->ulps, r.at = p->at;
		if (p->differ) r.differs_at = p->differs_at;
		if (p->bad_near != 0) r.bad_near = p->bad_near;
		r.inputs += p->inputs;
		r.beyond += p->beyond;
		r.differ += p->differ;
	}
	return r;
}

/* True when the function holds its bound. */
static bool report(const function *f, bool wide, const result *r)
{
	bool ok = !r->beyond && !r->differ && r->bad_near == 0 && r->inputs;
	if (isatty(2)) fprintf(stderr, "\r%40s\r", "");
	printf("%-4s %s %-10s %.4f ulp at %a, %llu inputs, bound %g\n", ok ? "ok" : "FAIL", wide ? "f64" : "f32", ir_ops[f->op].name, r->ulps,
	       r->at, (unsigned long long)r->inputs, f->bound);
	if (r->beyond) printf("     at least %llu inputs are beyond the bound\n", (unsigned long long)r->beyond);
	if (r->differ) printf("     kernel and evaluator differ on %llu inputs, at %a\n", (unsigned long long)r->differ, r->differs_at);
	if (r->bad_near != 0) printf("     libm is no reference at %a\n", r->bad_near);
	fflush(stdout);
	return ok;
}

static bool run(const function *f, bool wide, const lo_target *llvm)
{
	shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[MAX_PROCESSES];
	int left = opt.processes, status;
	bool died = false;
	kernel k = { NULL, NULL };
	if (s == MAP_FAILED) abort();
	if (llvm) k = compile(llvm, f->op, wide);
	fflush(stdout);
	for (int i = 0; i < opt.processes; i++) {
		if ((pid[i] = fork())) continue;
		work(f, wide, llvm ? &k : NULL, s, &s->of[i]);
		_exit(0);
	}
	while (left) {
		pid_t p = waitpid(-1, &status, WNOHANG);
		if (p > 0) left--, died |= status != 0;
		else usleep(50000), progress(f, wide, s);
	}
	result r = join(s);
	if (died) r.inputs = 0;
	if (llvm) rt_exec_unref(k.exec), rt_pool_free(k.pool);
	munmap(s, sizeof *s);
	return report(f, wide, &r);
}

/* ---- the whole ---- */
static bool wanted(const char *name, char **names, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name)) return true;
	return !n;
}

/* Every function of the table that may round is here, or in ulp_more.c if it has two operands. */
static bool complete(void)
{
	static const ir_op two[] = { IR_pow, IR_hypot, IR_atan2 };
	bool ok = true;
	for (int op = 0; op < IR_OPS; op++) {
		const bool rounds = ir_ops[op].flags & IR_MATH && ir_ops[op].math >> RT_F & 1;
		bool here = false;
		for (size_t i = 0; i < RT_COUNT(functions); i++) here |= functions[i].op == (ir_op)op;
		for (size_t i = 0; i < RT_COUNT(two); i++) here |= two[i] == (ir_op)op;
		if (here || !rounds || (ir_ops[op].opclass != IR_UNARY && ir_ops[op].opclass != IR_BINARY)) continue;
		printf("FAIL %s is not measured\n", ir_ops[op].name);
		ok = false;
	}
	return ok;
}

static int usage(void)
{
	fprintf(stderr, "usage: ulp [-s stride] [-n f64 inputs] [-j processes] [-e every] [-32|-64] [name...]\n");
	return 2;
}

static int options(int argc, char **argv)
{
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		bool more = i + 1 < argc;
		if (!strcmp(argv[i], "-s") && more) opt.stride = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "-n") && more) opt.wide_n = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "-j") && more) opt.processes = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-e") && more) opt.every = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-32")) opt.f64 = false;
		else if (!strcmp(argv[i], "-64")) opt.f32 = false;
		else return -1;
	}
	bool ok = opt.stride > 0 && opt.every > 0 && opt.processes > 0 && opt.processes <= MAX_PROCESSES;
	return ok ? i : -1;
}

int main(int argc, char **argv)
{
	const char *why = "";
	const lo_target *llvm = lo_backend_find("llvm", &why) ? &lo_cpu : NULL;
	int first = options(argc, argv), passed = 0, failed = !complete();
	if (first < 0) return usage();
	if (!llvm) printf("SKIP kernels: %s\n", why);
	for (int i = 0; i < 256; i++) ulp32[i] = ldexp(1, (i ? i : 1) - 150);
	for (int wide = 0; wide < 2; wide++)
		for (size_t i = 0; i < RT_COUNT(functions); i++) {
			if (!(wide ? opt.f64 : opt.f32) || !wanted(ir_ops[functions[i].op].name, argv + first, argc - first)) continue;
			if (run(&functions[i], wide, llvm)) passed++;
			else failed++;
		}
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed || !passed;
}
