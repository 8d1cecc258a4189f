/* SPDX-License-Identifier: MIT */
/* The incomplete gamma functions. Each element is computed in one of three ways: where a is large and x near it, by Temme's uniform
 * expansion; else below a, by the power series; else by the continued fraction. The series and the fraction are loops that run until all of
 * their elements have settled. In f64. */
#include "functions/functions.h"

#include <math.h>

enum { TERMS = 9, LARGE = 60, MOST_TURNS = 500 };
#define EPS 0x1p-53

/* C[k], a power series in eta; Temme's expansion is the sum of C[k] / a^k. Their lengths are in `lengths`. */
static const int lengths[TERMS] = { 19, 17, 15, 13, 11, 9, 7, 4, 1 };
static const double temme[] = {
	-0x1.5555555555555p-2,  0x1.5555555555555p-4,   -0x1.e573ac901e574p-7,  0x1.2f684bda12f68p-10,  0x1.71de3a556c734p-12,
	-0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15,  -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20, 0x1.bd6d21e4b4109p-21,
	-0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,  0x1.6097d55c37c1cp-27,  -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,
	-0x1.c0d9b6edf2b0bp-36, -0x1.0070a87340428p-34, 0x1.ac9475c463659p-36,  -0x1.61ca701fd754ap-38, -0x1.e573ac901e574p-10,
	-0x1.c71c71c71c71cp-9,  0x1.5ac056b015ac0p-9,   -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13,  -0x1.af83440e53dbcp-22,
	-0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17,  -0x1.b0bdfcc629cbap-20, 0x1.3f59230a8357cp-28,  0x1.280f2cde3f847p-23,
	-0x1.ee23d0cba8aeep-25, 0x1.9aa7a30de114cp-27,  -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30, 0x1.c9b434bf3c34ep-32,
	-0x1.78a5056f8ce45p-34, 0x1.0ee643b990ee6p-8,   -0x1.5f7268edab4c8p-9,  0x1.948b0fcd6e9e0p-11,  0x1.0db20a88f4696p-19,
	-0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,  -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,  0x1.7058929663937p-20,
	-0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23,  -0x1.c24bd0e740a6cp-33, -0x1.e437343a46f5dp-27, 0x1.ac0d455e25360p-28,
	-0x1.77c5829460139p-30, 0x1.547d93b34e2b6p-11,  0x1.e13ce465fa859p-13,  -0x1.ebfb188b7ca00p-12, 0x1.18b9b5bf2d984p-12,
	-0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17,  -0x1.7cd6f27b3f020p-18, 0x1.7e0201539310ep-20,
	-0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23, 0x1.5bde8ef4c4dc7p-24,  -0x1.4853ced169327p-26, -0x1.c3e0b02da7bf9p-11,
	0x1.9b0ff6874f2c4p-11,  -0x1.3999a85a4237ap-12, -0x1.88f2ae1def9d0p-20, 0x1.16908b48ce058p-14,  -0x1.4ce3fd902bcadp-15,
	0x1.7db4c02846e81p-17,  0x1.13b3c5b7cb45ep-32,  -0x1.c71c074985d3fp-20, 0x1.de37d9f09164cp-21,  -0x1.ec676cf33153cp-23,
	-0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12,  -0x1.a2042c5148e27p-13, 0x1.1d1e9cb24760bp-14,
	0x1.30bdcf208080ep-23,  -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17,  -0x1.338eb19652fd9p-19, 0x1.168ef1b0931c8p-11,
	-0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,  0x1.a8411da6cab49p-21,  -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15,
	-0x1.3382f4cf48618p-16, 0x1.691879c01efb4p-12,  0x1.b1d75d3346711p-15,  -0x1.5f3385098cebfp-12, 0x1.26eeb5ece1d9fp-12,
	-0x1.5629b3187b744p-11
};

/* log(gamma(1 + a)) / a for 0 <= a <= 1.1 */
static const double lgamma1p[] = {
	-0x1.2788cfc6fb619p-1, 0x1.a51a66253069bp-1, -0x1.9a4d55be96bd4p-2, 0x1.151322a83746bp-2, -0x1.a8b9c0870274cp-3, 0x1.5b40ba5d33d9fp-3,
	-0x1.2702dd0b502d6p-3, 0x1.0104c3f6fd7a2p-3, -0x1.c7b64ca008afep-4, 0x1.9885ca6cd1d8bp-4, -0x1.6f0cc3873661bp-4, 0x1.453c452a4f18ep-4,
	-0x1.14ac29320628cp-4, 0x1.b39e2d6aaf9b5p-5, -0x1.303a0d99bc041p-5, 0x1.68b2a9ec75115p-6, -0x1.5aaa22c75235fp-7, 0x1.00215c8d2c1ccp-8,
	-0x1.0eb22d960eb0fp-10, 0x1.6a2f3875b64aep-13, -0x1.cb2264b5b0886p-17
};

typedef tj_tensor T;

static T *horner(const char *site, T *x, const double *c, int n)
{
	T *y = tj_f(c[n - 1]);
	for (int i = n - 2; i >= 0; i--) y = tj_fma(y, x, tj_f(c[i]));
	return y;
}

/* ---- the parts that all share ---- */
/* mu - log(x / a), mu = (x - a) / a; near 0 by its series. */
static T *phi(const char *site, T *a, T *x, T *mu)
{
	double c[18];
	for (int i = 0; i < 18; i++) c[i] = (i % 2 ? -1.0 : 1.0) / (i + 2);
	T *near = tj_lt(tj_abs(mu), tj_f(0.125)), *m = tj_where(near, mu, tj_f(0));
	return tj_where(near, tj_mul(tj_square(m), horner(site, m, c, 18)), tj_sub(mu, tj_log(tj_div(x, a))));
}

/* 1 / (sqrt(2 pi a) gamma*(a)) of a >= 20, gamma* = exp(1 / (12 a) - ...): then x^a e^-x / gamma(a + 1) = that times exp(-a phi) */
static T *of_stirling(const char *site, T *a)
{
	static const double c[] = { 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360 };
	T *u = tj_reciprocal(a), *tail = tj_mul(u, horner(site, tj_square(u), c, 6));
	return tj_div(tj_exp(tj_neg(tail)), tj_sqrt(tj_mul(a, tj_f(6.28318530717958647693))));
}

/* x^a e^-x / gamma(a + 1). e^-x is taken in two halves, lest it underflow alone. */
static T *front(const char *site, T *a, T *x)
{
	T *large = tj_ge(a, tj_f(20)), *b = tj_where(large, tj_f(1), a), *y = tj_minimum(x, tj_f(1e4)), *half = tj_exp(tj_mul(y, tj_f(-0.5)));
	T *low = tj_div(tj_mul(tj_mul(tj_pow(y, b), half), half), tj_tgamma(tj_add(b, tj_f(1))));
	T *c = tj_where(large, a, tj_f(20)), *z = tj_where(large, x, tj_f(20)), *mu = tj_div(tj_sub(z, c), c);
	return tj_where(large, tj_mul(of_stirling(site, c), tj_exp(tj_neg(tj_mul(c, phi(site, c, z, mu))))), low);
}

/* ---- below a: 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ... ---- */
static void goes_on(T **out, T *const *in, void *self) { (void)self, out[0] = in[0]; }
static void next_power(T **out, T *const *in, void *self)
{
	const char *site = self;
	T *r = tj_add(in[1], tj_f(1)), *term = tj_mul(in[2], tj_div(in[4], r)), *sum = tj_add(in[3], term);
	out[1] = r, out[2] = term, out[3] = sum, out[4] = in[4], out[5] = tj_add(in[5], tj_i(1));
	out[0] = tj_logical_and(tj_any(tj_gt(term, tj_mul(sum, tj_f(EPS / 2))), TJ_ALL, false), tj_lt(out[5], tj_i(MOST_TURNS)));
}

static T *series(const char *site, T *a, T *x)
{
	T *one = tj_add(tj_mul(x, tj_f(0)), tj_f(1)), *out[6];
	T *init[] = { tj_full(TJ_BOOL, TJ_0D, tj_i(1)), a, one, one, x, tj_full(TJ_I64, TJ_0D, tj_i(0)), TJ_END };
	init[0] = tj_to(init[0], tj_device_of(x)), init[5] = tj_to(init[5], tj_device_of(x));
	return tj_while(out, goes_on, next_power, init, (void *)site, NULL) == TJ_OK ? out[3] : out[0];
}

/* ---- above: 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method ---- */
static T *no_zero(const char *site, T *x) { return tj_where(tj_lt(tj_abs(x), tj_f(1e-300)), tj_f(1e-300), x); }

static void next_fraction(T **out, T *const *in, void *self)
{
	const char *site = self;
	T *i = tj_add(in[6], tj_i(1)), *k = tj_cast(i, TJ_F64), *top = tj_mul(k, tj_sub(in[5], k)), *b = tj_add(in[1], tj_f(2));
	T *d = tj_reciprocal(no_zero(site, tj_fma(top, in[3], b))), *c = no_zero(site, tj_add(b, tj_div(top, in[2]))), *step = tj_mul(c, d);
	out[1] = b, out[2] = c, out[3] = d, out[4] = tj_mul(in[4], step), out[5] = in[5], out[6] = i;
	out[0] = tj_logical_and(tj_any(tj_gt(tj_abs(tj_sub(step, tj_f(1))), tj_f(2 * EPS)), TJ_ALL, false), tj_lt(i, tj_i(MOST_TURNS)));
}

static T *fraction(const char *site, T *a, T *x)
{
	T *b = tj_add(tj_sub(x, a), tj_f(1)), *d = tj_reciprocal(b), *c = tj_add(tj_mul(b, tj_f(0)), tj_f(1e300)), *out[7];
	T *init[] = { tj_full(TJ_BOOL, TJ_0D, tj_i(1)), b, c, d, d, a, tj_full(TJ_I64, TJ_0D, tj_i(0)), TJ_END };
	init[0] = tj_to(init[0], tj_device_of(x)), init[6] = tj_to(init[6], tj_device_of(x));
	return tj_while(out, goes_on, next_fraction, init, (void *)site, NULL) == TJ_OK ? out[4] : out[0];
}

/* ---- near a large a ---- */
static T *uniform(const char *site, T *a, T *x, bool upper)
{
	T *mu = tj_div(tj_sub(x, a), a), *p = phi(site, a, x, mu), *eta = tj_mul(tj_sign(mu), tj_sqrt(tj_mul(p, tj_f(2)))),
	  *u = tj_reciprocal(a), *sum = NULL;
	int from = (int)(sizeof temme / sizeof *temme);
	for (int k = TERMS - 1; k >= 0; k--) {
		from -= lengths[k];
		T *c = horner(site, eta, temme + from, lengths[k]);
		sum = sum ? tj_fma(sum, u, c) : c;
	}
	T *rest = tj_mul(tj_div(tj_exp(tj_neg(tj_mul(a, p))), tj_sqrt(tj_mul(a, tj_f(6.28318530717958647693)))), sum),
	  *z = tj_mul(eta, tj_sqrt(tj_mul(a, tj_f(0.5))));
	return upper ? tj_add(tj_mul(tj_erfc(z), tj_f(0.5)), rest) : tj_sub(tj_mul(tj_erfc(tj_neg(z)), tj_f(0.5)), rest);
}

/* 1 - x^a / gamma(a + 1) (1 + a times the sum of (-x)^n / (n! (a + n))), a and x below 1.1, without cancellation for small a */
static T *upper_of_small(const char *site, T *a, T *x)
{
	T *l = tj_mul(a, tj_log(x)), *g = tj_mul(a, horner(site, a, lgamma1p, (int)(sizeof lgamma1p / sizeof *lgamma1p))), *sum = tj_f(0);
	double factorial = 1;
	T *power = tj_f(1);
	for (int n = 1; n <= 20; n++) {
		power = tj_mul(power, tj_neg(x));
		factorial *= n;
		sum = tj_add(sum, tj_div(tj_mul(power, tj_f(1 / factorial)), tj_add(a, tj_f(n))));
	}
	T *e = tj_sub(l, g);
	return tj_neg(tj_add(tj_expm1(e), tj_mul(tj_mul(tj_exp(e), a), sum)));
}

/* in: a and x, f64, of one shape. What is no usual number takes part as a = x = 1. */
static T *computed(const char *site, T *a0, T *x0, bool upper)
{
	T *usual = tj_logical_and(tj_logical_and(tj_gt(a0, tj_f(0)), tj_gt(x0, tj_f(0))), tj_logical_and(tj_isfinite(a0), tj_isfinite(x0)));
	T *a = tj_where(usual, a0, tj_f(1)), *x = tj_where(usual, x0, tj_f(1));
	T *near = tj_logical_and(tj_ge(a, tj_f(LARGE)), tj_lt(tj_abs(tj_sub(x, a)), tj_mul(a, tj_f(0.4))));
	T *above = tj_logical_and(tj_logical_not(near), tj_logical_and(tj_ge(x, tj_f(1.1)), tj_gt(x, a))),
	  *below = tj_logical_not(tj_logical_or(near, above));
	T *p = front(site, a, x), *small = tj_logical_and(below, tj_logical_and(tj_lt(a, tj_f(1.1)), tj_lt(x, tj_f(1.1))));
	T *lower = tj_mul(p, series(site, a, tj_where(below, x, tj_f(0))));
	T *over = tj_mul(tj_mul(p, a), fraction(site, tj_where(above, a, tj_f(1)), tj_where(above, x, tj_f(2))));
	T *middle = uniform(site, tj_where(near, a, tj_f(LARGE)), tj_where(near, x, tj_f(LARGE)), upper), *one = tj_f(1);
	T *rest = upper ? tj_where(small, upper_of_small(site, tj_where(small, a, tj_f(0.5)), tj_where(small, x, one)), tj_sub(one, lower))
	                : lower;
	T *y = tj_where(near, middle, tj_where(above, upper ? over : tj_sub(one, over), rest));
	/* 0 at x = 0 and at infinite a, 1 at a = 0 and at infinite x; NaN where both, or below 0 */
	T *zero = tj_logical_or(tj_eq(x0, tj_f(0)), tj_eq(a0, tj_f(INFINITY))),
	  *full = tj_logical_or(tj_eq(a0, tj_f(0)), tj_eq(x0, tj_f(INFINITY)));
	T *good = tj_logical_and(tj_logical_xor(zero, full), tj_logical_and(tj_ge(a0, tj_f(0)), tj_ge(x0, tj_f(0))));
	return tj_where(usual, y, tj_where(good, tj_cast(upper ? zero : full, TJ_F64), tj_f(NAN)));
}

/* ---- with the gradient by x; that by a is NaN ---- */
typedef struct request { const char *site; bool upper; } request;
static void forward(T **out, T *const *in, void *self)
{
	const request *q = self;
	out[0] = computed(q->site, in[0], in[1], q->upper);
}

/* x^(a - 1) e^-x / gamma(a) */
static void backward(T **out, T *const *in, void *self)
{
	const request *q = self;
	const char *site = q->site;
	T *a = in[0], *x = in[1], *dy = in[3], *slope = tj_exp(tj_sub(tj_sub(tj_xlogy(tj_sub(a, tj_f(1)), x), x), tj_lgamma(a)));
	out[0] = tj_mul(dy, tj_f(NAN));
	out[1] = tj_mul(dy, q->upper ? tj_neg(slope) : slope);
}

static T *incomplete(const char *site, const char *op, T *a, T *x, bool upper)
{
	T *bad = fn_bad(site, op, "a", a), *y;
	if (!bad) bad = fn_bad(site, op, "x", x);
	if (bad) return bad;
	T *sum = tj_add(fn_is_float(tj_dtype_of(a)) || fn_is_float(tj_dtype_of(x)) ? a : tj_cast(a, TJ_F32),
	                x); /* its dtype and shape are those of the result */
	if (tj_is_poison(sum)) return sum;
	const fn_dims s = fn_shape_of(sum);
	request q = { site, upper };
	T *in[] = { tj_cast(fn_expand(site, tj_rank(a) ? a : tj_reshape(a, TJ_0D), &s), TJ_F64),
		    tj_cast(fn_expand(site, tj_rank(x) ? x : tj_reshape(x, TJ_0D), &s), TJ_F64), TJ_END };
	if (tj_numel(sum) == 0) return sum;
	return tj_custom_grad(&y, 1, forward, backward, in, &q) == TJ_OK ? tj_cast(y, tj_dtype_of(sum)) : y;
}

tj_tensor *tj_igamma_at(const char *site, tj_tensor *a, tj_tensor *x) { return incomplete(site, "igamma", a, x, false); }
tj_tensor *tj_igammac_at(const char *site, tj_tensor *a, tj_tensor *x) { return incomplete(site, "igammac", a, x, true); }
