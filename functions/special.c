/* SPDX-License-Identifier: MIT */
/* Functions of statistics and analysis that are made of a few ops, and windows of signals. */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *floats(const char *site, tj_tensor *x) { return fn_is_float(tj_dtype_of(x)) ? x : tj_cast(x, TJ_F32); }

/* -x log(x); 0 at 0, -inf below. */
tj_tensor *tj_entr_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "entr", "x", x);
	if (bad) return bad;
	x = floats(site, x);
	tj_tensor *above = tj_gt(x, tj_f(0)), *y = tj_neg(tj_mul(x, tj_log(tj_where(above, x, tj_f(1)))));
	return tj_where(above, y, tj_where(tj_eq(x, tj_f(0)), tj_f(0), tj_where(tj_isnan(x), x, tj_f(-1.0 / 0.0))));
}

tj_tensor *tj_logit_at(const char *site, tj_tensor *x, double eps)
{
	tj_tensor *bad = fn_bad(site, "logit", "x", x);
	if (bad) return bad;
	if (eps != eps) return tj_fail(TJ_ERR_ARG, "logit", "a small number, or one below 0 for none", "eps is NaN");
	x = floats(site, x);
	if (eps >= 0) x = tj_where(tj_lt(x, tj_f(eps)), tj_f(eps), tj_where(tj_gt(x, tj_f(1 - eps)), tj_f(1 - eps), x));
	return tj_log(tj_div(x, tj_sub(tj_f(1), x)));
}

/* The logarithm of the gamma function of p x p matrices: p (p - 1) / 4 log(pi) + the sum of lgamma(x - i / 2), i < p. */
tj_tensor *tj_multigammaln_at(const char *site, tj_tensor *x, int p)
{
	tj_tensor *bad = fn_bad(site, "multigammaln", "x", x);
	if (bad) return bad;
	if (p < 1) return tj_fail(TJ_ERR_ARG, "multigammaln", "the size of a matrix", "p is %d", p);
	const tj_dtype t = fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32, wide = t == TJ_F64 ? TJ_F64 : TJ_F32;
	tj_tensor *shift = tj_mul(tj_cast(fn_arange(site, x, p), wide), tj_f(-0.5)),
		  *all = tj_lgamma(tj_add(tj_unsqueeze(tj_cast(x, wide), -1), shift));
	return tj_cast(tj_add(tj_sum(all, TJ_AXES(-1), false), tj_f(p * (p - 1) * 0.25 * 1.14472988584940017414)), t);
}

/* The sum of (q + k)^-s: the first ones, then Euler and Maclaurin's series for the others. It is not used where it is below any number. In
 * f64. */
tj_tensor *tj_zeta_at(const char *site, tj_tensor *s, tj_tensor *q)
{
	enum { FIRST = 20, TERMS = 10 };
	static const double bernoulli[TERMS] = { 1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
		                                 -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330 };
	tj_tensor *bad = fn_bad(site, "zeta", "s", s);
	if (!bad) bad = fn_bad(site, "zeta", "q", q);
	if (bad) return bad;
	tj_tensor *both = tj_add(fn_is_float(tj_dtype_of(q)) ? s : floats(site, s), q);
	const tj_dtype t = tj_dtype_of(both);
	s = tj_cast(s, TJ_F64), q = tj_cast(q, TJ_F64);
	tj_tensor *none = tj_logical_or(tj_logical_not(tj_ge(s, tj_f(1))), tj_isnan(q)),
		  *pole = tj_logical_or(tj_eq(s, tj_f(1)), tj_logical_and(tj_le(q, tj_f(0)), tj_eq(tj_floor(q), q)));
	tj_tensor *odd = tj_logical_and(tj_lt(q, tj_f(0)), tj_logical_or(tj_ne(tj_floor(s), s), tj_lt(q, tj_f(-12))));
	tj_tensor *left_out = tj_logical_or(tj_logical_or(pole, none), odd), *y = tj_f(0), *huge = tj_gt(s, tj_f(1100));
	tj_tensor *b = tj_where(left_out, tj_f(1), q), *e = tj_neg(tj_where(left_out, tj_f(2), s));
	for (int k = 0; k < FIRST; k++) y = tj_add(y, tj_pow(tj_add(b, tj_f(k)), e));
	tj_tensor *w = tj_add(b, tj_f(FIRST)), *u = tj_reciprocal(w), *u2 = tj_square(u),
		  *n = tj_where(tj_logical_or(left_out, huge), tj_f(2), s), *part = tj_mul(tj_mul(n, u), tj_f(0.5)), *tail = tj_f(0.5);
	for (int k = 1; k <= TERMS; k++) { /* s (s + 1) ... (s + 2 k - 2) u^(2 k - 1) / (2 k)! */
		tail = tj_add(tail, tj_mul(part, tj_f(bernoulli[k - 1])));
		part = tj_mul(tj_mul(part, u2),
		              tj_mul(tj_mul(tj_add(n, tj_f(2 * k - 1)), tj_add(n, tj_f(2 * k))), tj_f(1.0 / ((2 * k + 1) * (2 * k + 2)))));
	}
	tail = tj_add(tj_mul(tail, tj_pow(w, tj_neg(n))), tj_div(tj_pow(w, tj_sub(tj_f(1), n)), tj_sub(n, tj_f(1))));
	y = tj_add(y, tj_where(huge, tj_f(0), tail));
	y = tj_where(none, tj_f(NAN), tj_where(pole, tj_f(INFINITY), tj_where(odd, tj_f(NAN), y)));
	return tj_is_poison(y) || t == TJ_F64 ? y : tj_cast(y, t);
}

/* ---- windows ---- */
/* In f64, rounded once. i: 0 to n - 1. last: what i / last is 1 for; one more if the window is periodic. NULL: there is no more to do. */
typedef struct taper { tj_tensor *i; double last; } taper;
static tj_tensor *begin(const char *site, const char *op, tj_dtype dtype, int64_t n, bool periodic, taper *t)
{
	if (!fn_is_float(dtype)) return tj_fail(TJ_ERR_DTYPE, op, "TJ_F32", "a window is a float, not %s", tj_dtype_name(dtype));
	if (n < 0) return tj_fail(TJ_ERR_ARG, op, "pass the number of elements", "%lld elements", (long long)n);
	if (n < 2) return tj_full(dtype, TJ_SHAPE(n), tj_f(1));
	*t = (taper){ tj_cast(tj_arange(TJ_I64, 0, n, 1), TJ_F64), (double)(periodic ? n : n - 1) };
	return NULL;
}

/* a[0] - a[1] cos(x) + a[2] cos(2 x) - ..., x = 2 pi i / last */
static tj_tensor *cosines(const char *site, const char *op, tj_dtype dtype, int64_t n, bool periodic, int count, const double *a)
{
	taper t;
	tj_tensor *y = begin(site, op, dtype, n, periodic, &t);
	if (y) return y;
	y = tj_full(TJ_F64, TJ_SHAPE(n), tj_f(a[0]));
	for (int k = 1; k < count; k++)
		y = tj_add(y, tj_mul(tj_cos(tj_mul(t.i, tj_f(6.28318530717958647692 * k / t.last))), tj_f(k % 2 ? -a[k] : a[k])));
	return tj_cast(y, dtype);
}

tj_tensor *tj_hann_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic)
{
	return cosines(site, "hann_window", dtype, n, periodic, 2, (const double[]){ 0.5, 0.5 });
}
tj_tensor *tj_hamming_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double alpha, double beta)
{
	return cosines(site, "hamming_window", dtype, n, periodic, 2, (const double[]){ alpha, beta });
}
tj_tensor *tj_blackman_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic)
{
	return cosines(site, "blackman_window", dtype, n, periodic, 3, (const double[]){ 0.42, 0.5, 0.08 });
}
tj_tensor *tj_nuttall_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic)
{
	return cosines(site, "nuttall_window", dtype, n, periodic, 4, (const double[]){ 0.3635819, 0.4891775, 0.1365995, 0.0106411 });
}

tj_tensor *tj_general_cosine_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, const double *a, int count)
{
	if (!a || count < 1)
		return tj_fail(TJ_ERR_ARG, "general_cosine_window", "as in (double[]){ 0.5, 0.5 }, 2",
		               a ? "%d coefficients" : "the coefficients are NULL", count);
	return cosines(site, "general_cosine_window", dtype, n, periodic, count, a);
}

/* 1 in the middle, 0 at the ends. */
tj_tensor *tj_bartlett_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic)
{
	taper t;
	tj_tensor *y = begin(site, "bartlett_window", dtype, n, periodic, &t);
	return y ? y : tj_cast(tj_sub(tj_f(1), tj_abs(tj_sub(tj_mul(t.i, tj_f(2 / t.last)), tj_f(1)))), dtype);
}

tj_tensor *tj_kaiser_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double beta)
{
	taper t;
	tj_tensor *y = begin(site, "kaiser_window", dtype, n, periodic, &t);
	if (y) return y;
	tj_tensor *x = tj_sub(tj_mul(t.i, tj_f(2 / t.last)), tj_f(1)), *root = tj_sqrt(tj_maximum(tj_sub(tj_f(1), tj_square(x)), tj_f(0)));
	tj_tensor *whole = tj_full(TJ_F64, TJ_0D, tj_f(beta));
	return tj_cast(tj_div(tj_i0(tj_mul(root, whole)), tj_i0(whole)), dtype);
}

/* exp(-x^2 / (2 std^2)), x: the distance from the middle */
tj_tensor *tj_gaussian_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double std)
{
	taper t;
	tj_tensor *y = begin(site, "gaussian_window", dtype, n, periodic, &t);
	if (y) return y;
	if (!(std > 0)) return tj_fail(TJ_ERR_ARG, "gaussian_window", "the distance at which it has fallen to 0.6", "the deviation is %g", std);
	tj_tensor *x = tj_mul(tj_sub(t.i, tj_f(t.last / 2)), tj_f(1 / std));
	return tj_cast(tj_exp(tj_mul(tj_square(x), tj_f(-0.5))), dtype);
}

tj_tensor *tj_exponential_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic, double tau)
{
	taper t;
	tj_tensor *y = begin(site, "exponential_window", dtype, n, periodic, &t);
	if (y) return y;
	if (!(tau > 0)) return tj_fail(TJ_ERR_ARG, "exponential_window", "the distance at which it has fallen to 1 / e", "tau is %g", tau);
	return tj_cast(tj_exp(tj_mul(tj_abs(tj_sub(t.i, tj_f(t.last / 2))), tj_f(-1 / tau))), dtype);
}

/* Half a wave: sin(pi (i + 1/2) / (last + 1)). */
tj_tensor *tj_cosine_window_at(const char *site, tj_dtype dtype, int64_t n, bool periodic)
{
	taper t;
	tj_tensor *y = begin(site, "cosine_window", dtype, n, periodic, &t);
	return y ? y : tj_cast(tj_sin(tj_mul(tj_add(t.i, tj_f(0.5)), tj_f(3.14159265358979323846 / (t.last + 1)))), dtype);
}
