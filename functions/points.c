/* SPDX-License-Identifier: MIT */
/* Functions of math.h, NumPy and PyTorch that work element by element, made of a few ops. Their values are exact unless it says otherwise.
 */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *floats(const char *site, tj_tensor *x) { return fn_is_float(tj_dtype_of(x)) ? x : tj_cast(x, TJ_F32); }
static tj_tensor *as_was(const char *site, tj_tensor *y, tj_dtype t) { return tj_is_poison(y) || tj_dtype_of(y) == t ? y : tj_cast(y, t); }

static tj_tensor *bad_pair(const char *site, const char *op, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad = fn_bad(site, op, "a", a);
	return bad ? bad : fn_bad(site, op, "b", b);
}

/* NULL, or poison after an error; then it is the second result as well. */
static tj_tensor *bad_second(const char *site, const char *op, const char *name, tj_tensor *bad, tj_tensor **second)
{
	if (!second) return tj_fail(TJ_ERR_ARG, op, "the address of a variable", "%s is NULL", name);
	return *second = bad;
}

tj_tensor *tj_fdim_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad = bad_pair(site, "fdim", a, b);
	return bad ? bad : tj_where(tj_le(a, b), tj_i(0), tj_sub(a, b));
}

tj_tensor *tj_divmod_at(const char *site, tj_tensor *a, tj_tensor *b, tj_tensor **remainder)
{
	tj_tensor *bad = bad_second(site, "divmod", "remainder", bad_pair(site, "divmod", a, b), remainder);
	if (bad) return bad;
	*remainder = tj_remainder(a, b);
	return tj_floor_divide(a, b);
}

/* r = |a| mod 2 |b| is less |b| at most twice. y - r is exact where it is near r, so the comparisons are those of r and y / 2. */
tj_tensor *tj_remainder_ieee_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad = bad_pair(site, "remainder_ieee", a, b);
	if (bad) return bad;
	if (!fn_is_float(tj_dtype_of(b))) a = floats(site, a);
	tj_tensor *below = tj_signbit(a), *x = tj_where(below, tj_neg(a), a), *y = tj_where(tj_signbit(b), tj_neg(b), b), *twice = tj_add(y, y);
	tj_tensor *r = tj_where(tj_isinf(twice), x, tj_fmod(x, twice));
	tj_tensor *half = tj_gt(r, tj_sub(y, r)), *once = tj_sub(r, y),
		  *more = tj_ge(once, tj_sub(y, once)); /* more than y / 2; 3 y / 2 or more */
	r = tj_where(half, tj_where(more, tj_sub(once, y), once), r);
	return tj_where(tj_isinf(a), tj_f(NAN), tj_where(below, tj_neg(r), r));
}

/* ---- the parts of a number ---- */
/* The sign of a zero stays: 0 - 0 is 0, whose sign then is changed. */
tj_tensor *tj_modf_at(const char *site, tj_tensor *x, tj_tensor **whole)
{
	tj_tensor *bad = bad_second(site, "modf", "whole", fn_bad(site, "modf", "x", x), whole);
	if (bad) return bad;
	x = floats(site, x);
	tj_tensor *t = *whole = tj_trunc(x), *up = tj_where(tj_isinf(x), tj_f(0), tj_sub(x, t)),
		  *down = tj_where(tj_isinf(x), tj_f(-0.0), tj_neg(tj_sub(t, x)));
	return tj_where(tj_signbit(x), down, up);
}

/* What is neither 0 nor infinite nor NaN, else 1. */
static tj_tensor *usual(const char *site, tj_tensor *x, tj_tensor **is)
{
	*is = tj_logical_and(tj_isfinite(x), tj_ne(x, tj_i(0)));
	return tj_where(*is, x, tj_i(1));
}

/* e with |x| = m 2^e, 1 <= m < 2: a logarithm may be rounded to the next whole number, m shows it. */
static tj_tensor *exponent(const char *site, tj_tensor *x)
{
	tj_tensor *a = tj_stop_gradient(tj_abs(x)), *e = tj_floor(tj_log2(a)), *m = tj_ldexp(a, tj_neg(e));
	return tj_add(e, tj_where(tj_lt(m, tj_i(1)), tj_f(-1), tj_where(tj_ge(m, tj_i(2)), tj_f(1), tj_f(0))));
}

tj_tensor *tj_frexp_at(const char *site, tj_tensor *x, tj_tensor **exponent_)
{
	tj_tensor *bad = bad_second(site, "frexp", "exponent", fn_bad(site, "frexp", "x", x), exponent_), *is;
	if (bad) return bad;
	x = floats(site, x);
	tj_tensor *wide = fn_widened(site, x), *e = tj_add(exponent(site, usual(site, wide, &is)), tj_f(1));
	e = tj_where(is, e, tj_f(0));
	*exponent_ = tj_cast(e, TJ_I32);
	return as_was(site, tj_ldexp(wide, tj_neg(e)), tj_dtype_of(x));
}

tj_tensor *tj_logb_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "logb", "x", x), *is;
	if (bad) return bad;
	x = floats(site, x);
	tj_tensor *wide = fn_widened(site, x), *e = exponent(site, usual(site, wide, &is));
	e = tj_where(is, e, tj_where(tj_eq(wide, tj_i(0)), tj_f(-INFINITY), tj_abs(wide)));
	return as_was(site, tj_stop_gradient(e), tj_dtype_of(x));
}

tj_tensor *tj_ilogb_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "ilogb", "x", x);
	if (bad) return bad;
	tj_tensor *e = tj_logb(fn_widened(site, floats(site, x)));
	return tj_where(tj_isnan(e), tj_i(INT32_MIN), tj_cast(e, TJ_I32)); /* infinities are limited to the range */
}

/* ---- neighbours, classes, digits ---- */
tj_tensor *tj_spacing_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "spacing", "x", x);
	if (bad) return bad;
	x = tj_stop_gradient(floats(site, x));
	return tj_sub(tj_nextafter(x, tj_cast(tj_where(tj_lt(x, tj_i(0)), tj_f(-INFINITY), tj_f(INFINITY)), tj_dtype_of(x))), x);
}

tj_tensor *tj_isposinf_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "isposinf", "x", x);
	return bad ? bad : tj_eq(x, tj_f(INFINITY));
}

tj_tensor *tj_isneginf_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "isneginf", "x", x);
	return bad ? bad : tj_eq(x, tj_f(-INFINITY));
}

/* Integers: the multiple of 10^n at or below x, or the next one; the even one of two that are as near. */
static tj_tensor *round_integer(const char *site, tj_tensor *x, int n)
{
	int64_t unit = 1;
	for (int i = 0; i < n; i++) unit *= 10;
	tj_tensor *wide = tj_cast(x, TJ_I64), *q = tj_floor_divide(wide, tj_i(unit)), *rest = tj_remainder(wide, tj_i(unit)),
		  *left = tj_sub(tj_i(unit), rest);
	tj_tensor *up = tj_logical_or(tj_gt(rest, left), tj_logical_and(tj_eq(rest, left), tj_remainder(q, tj_i(2))));
	return tj_cast(tj_mul(tj_add(q, tj_cast(up, TJ_I64)), tj_i(unit)), tj_dtype_of(x));
}

tj_tensor *tj_round_decimals_at(const char *site, tj_tensor *x, int decimals)
{
	tj_tensor *bad = fn_bad(site, "round_decimals", "x", x);
	if (bad) return bad;
	const tj_dtype t = tj_dtype_of(x);
	if (!fn_is_float(t)) {
		if (decimals < -15) return tj_fail(TJ_ERR_ARG, "round_decimals", "at least -15 for integers", "decimals is %d", decimals);
		return decimals >= 0 || t == TJ_BOOL ? tj_round(x) : round_integer(site, x, -decimals);
	}
	const double unit = pow(10, decimals < 0 ? -(double)decimals : decimals);
	tj_tensor *wide = fn_widened(site, x), *scaled = decimals < 0 ? tj_div(wide, tj_f(unit)) : tj_mul(wide, tj_f(unit)),
		  *whole = tj_round(scaled);
	tj_tensor *y = tj_where(tj_eq(whole, tj_i(0)), whole, decimals < 0 ? tj_mul(whole, tj_f(unit)) : tj_div(whole, tj_f(unit)));
	return tj_stop_gradient(as_was(site, tj_where(tj_isfinite(scaled), y, wide), t));
}
