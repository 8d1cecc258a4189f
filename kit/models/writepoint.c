/* SPDX-License-Identifier: MIT */
/* writepoint: ops that work element by element, as nodes. What ONNX has no op for is a formula; docs/MODELS.md says which of them round
 * otherwise than tjit. */
#include "kit/models/write.h"

#include <math.h>

/* ---- dtypes ---- */
static int bit_of(tj_dtype t)
{
	switch (t) {
	case TJ_F32: return OW_F32;
	case TJ_F64: return OW_F64;
	case TJ_I32: return OW_I32;
	case TJ_I64: return OW_I64;
	case TJ_U8:
	case TJ_I8: return OW_I8;
	case TJ_I16: return OW_I16;
	case TJ_BOOL: return OW_BOOL;
	default: return 0;
	}
}

/* Narrow floats are computed in f32 and narrow integers in i32, as tjit does; each result is rounded, or wraps, once. */
ow_v ow_work(ow *w, const ow_row *r, ow_v v)
{
	const tj_dtype t = ow_dtype(w, v);
	if (r->types & bit_of(t) || !r->types) return v;
	if (ow_is_float(t)) return ow_cast(w, v, r->types & OW_F32 || t == TJ_F64 ? TJ_F32 : TJ_F64);
	if (r->types & OW_I32 && t != TJ_I64) return ow_cast(w, v, TJ_I32);
	return r->types & OW_I64 ? ow_cast(w, v, TJ_I64) : v;
}

/* An op of ONNX with the same operands. */
ow_v ow_same(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	ow_v in[3] = { 0 };
	const int k = tj_node_inputs(n) < 3 ? tj_node_inputs(n) : 3;
	for (int i = 0; i < k; i++) in[i] = ow_work(w, r, x[i]);
	return ow_back(w, n, ow_op(w, r->becomes, ow_dtype(w, in[0]), k, in));
}

ow_v ow_no(ow *w, tj_node *n, const ow_v *x)
{
	(void)x;
	const char *op = tj_node_op(n);
	const bool random = !strcmp(op, "uniform") || !strcmp(op, "normal");
	ow_refuse(w, n, "%s",
	          random                     ? "draws random numbers, which an ONNX file would draw in another way: pass them as an input"
	          : !strcmp(op, "host_call") ? "runs code of this program"
	                                     : "is nothing that ONNX can express: compute it outside");
	return 0;
}

static ow_v two(ow *w, tj_node *n, const ow_v *x, const char *of_bool)
{
	if (tj_node_dtype(n) == TJ_BOOL) return ow_op2(w, of_bool, x[0], x[1]);
	return ow_same(w, n, x);
}
ow_v ow_add(ow *w, tj_node *n, const ow_v *x) { return two(w, n, x, "Or"); }
ow_v ow_mul(ow *w, tj_node *n, const ow_v *x) { return two(w, n, x, "And"); }
ow_v ow_minimum(ow *w, tj_node *n, const ow_v *x) { return two(w, n, x, "And"); }
ow_v ow_maximum(ow *w, tj_node *n, const ow_v *x) { return two(w, n, x, "Or"); }

/* ---- division ---- */
static ow_v constant(ow *w, ow_v like, double v) { return ow_const(w, ow_dtype(w, like), v); }

/* b in front of a division of integers: a runtime stops the process where b is 0, or -1 below MIN. */
static ow_v divisor(ow *w, ow_v b, ow_v *zero, ow_v *minus)
{
	*zero = ow_op2(w, "Equal", b, constant(w, b, 0));
	*minus = ow_op2(w, "Equal", b, constant(w, b, -1));
	return ow_where(w, ow_op2(w, "Or", *zero, *minus), constant(w, b, 1), b);
}

/* The integer quotient rounded toward zero; 0 where b is 0. rest: a - quotient * b, may be NULL. */
static ow_v quotient(ow *w, ow_v a, ow_v b, ow_v *rest)
{
	ow_v zero, minus;
	const ow_v d = divisor(w, b, &zero, &minus), q = ow_op2(w, "Div", a, d);
	const ow_v q1 = ow_where(w, minus, ow_op1(w, "Neg", a), q), q0 = ow_where(w, zero, constant(w, a, 0), q1);
	if (rest) *rest = ow_op2(w, "Sub", a, ow_op2(w, "Mul", q0, b));
	return q0;
}

static ow_v negative(ow *w, ow_v a) { return ow_op2(w, "Less", a, constant(w, a, 0)); }

/* There is a rest, and its sign is not the divisor's. */
static ow_v other_side(ow *w, ow_v rest, ow_v b)
{
	const ow_v some = ow_op1(w, "Not", ow_op2(w, "Equal", rest, constant(w, rest, 0)));
	return ow_op2(w, "And", some, ow_op2(w, "Xor", negative(w, rest), negative(w, b)));
}

ow_v ow_floor_quotient(ow *w, ow_v a, ow_v b)
{
	ow_v rest;
	const ow_v q = quotient(w, a, b, &rest);
	ow_v zero = ow_op2(w, "Equal", b, constant(w, b, 0));
	ow_v below = ow_where(w, other_side(w, rest, b), ow_op2(w, "Sub", q, constant(w, q, 1)), q);
	return ow_where(w, zero, q, below);
}

static ow_v signed_zero(ow *w, ow_v like) /* the element is below 0, or -0.0 */
{
	const ow_v zero = ow_op2(w, "Equal", like, constant(w, like, 0)), inverse = ow_op1(w, "Reciprocal", like);
	return ow_where(w, zero, negative(w, inverse), negative(w, like));
}

static ow_v with_sign(ow *w, ow_v a, ow_v sign) /* |a|, or -|a| where the bool is true */
{
	const ow_v m = ow_op1(w, "Abs", a);
	return ow_where(w, sign, ow_op1(w, "Neg", m), m);
}

static ow_v float_mod(ow *w, ow_v a, ow_v b)
{
	ow_attr_int(w, "fmod", 1);
	return ow_op2(w, "Mod", a, b);
}

/* Python's rules, as in tjit. */
static ow_v float_floor(ow *w, ow_v a, ow_v b)
{
	const ow_v r = float_mod(w, a, b), plain = ow_op2(w, "Div", a, b), one = constant(w, a, 1);
	ow_v q = ow_op2(w, "Div", ow_op2(w, "Sub", a, r), b);
	q = ow_where(w, other_side(w, r, b), ow_op2(w, "Sub", q, one), q);
	const ow_v f = ow_op1(w, "Floor", q), up = ow_op2(w, "Greater", ow_op2(w, "Sub", q, f), constant(w, a, 0.5));
	const ow_v g = ow_where(w, up, ow_op2(w, "Add", f, one), f);
	const ow_v z = with_sign(w, constant(w, a, 0), signed_zero(w, plain));
	const ow_v h = ow_where(w, ow_op2(w, "Equal", q, constant(w, q, 0)), z, g);
	return ow_where(w, ow_op2(w, "Equal", b, constant(w, b, 0)), plain, h);
}

ow_v ow_floor_divide(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	return ow_back(w, n, ow_is_float(ow_dtype(w, a)) ? float_floor(w, a, b) : ow_floor_quotient(w, a, b));
}

ow_v ow_trunc_divide(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	if (!ow_is_float(ow_dtype(w, a))) return ow_back(w, n, quotient(w, a, b, NULL));
	const ow_v q = ow_op2(w, "Div", a, b);
	return ow_back(w, n, ow_where(w, negative(w, q), ow_op1(w, "Ceil", q), ow_op1(w, "Floor", q)));
}

ow_v ow_remainder(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	ow_v r;
	if (ow_is_float(ow_dtype(w, a))) {
		r = float_mod(w, a, b);
		const ow_v z = with_sign(w, constant(w, a, 0), signed_zero(w, b));
		const ow_v of_b = ow_where(w, ow_op2(w, "Equal", r, constant(w, r, 0)), z, r);
		return ow_back(w, n, ow_where(w, other_side(w, r, b), ow_op2(w, "Add", r, b), of_b));
	}
	quotient(w, a, b, &r);
	return ow_back(w, n, ow_where(w, other_side(w, r, b), ow_op2(w, "Add", r, b), r));
}

ow_v ow_fmod(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	ow_v r;
	if (ow_is_float(ow_dtype(w, a)))
		r = float_mod(w, a, b);
	else
		quotient(w, a, b, &r);
	return ow_back(w, n, r);
}

/* ---- powers ---- */
/* Integers: by the bits of the exponent, since runtimes compute in f64. Negative exponents: 1, -1 or 0. */
static ow_v int_pow(ow *w, ow_v a, ow_v b)
{
	const tj_dtype t = ow_dtype(w, a);
	const int bits = t == TJ_I64 ? 63 : 31;
	const ow_v one = constant(w, a, 1), two_ = constant(w, a, 2), minus = negative(w, b), zero = constant(w, a, 0);
	ow_v rest = ow_op2(w, "Max", b, zero), square = a, y = one;
	for (int i = 0; i < bits; i++) {
		const ow_v half = ow_op2(w, "Div", rest, two_), odd = ow_op2(w, "Sub", rest, ow_op2(w, "Mul", half, two_));
		y = ow_op2(w, "Mul", y, ow_where(w, ow_op2(w, "Equal", odd, one), square, one));
		if (i + 1 < bits) square = ow_op2(w, "Mul", square, square);
		rest = half;
	}
	ow_attr_int(w, "fmod", 0);
	const ow_v parity = ow_op2(w, "Mod", b, two_), less = constant(w, a, -1);
	const ow_v of_minus_one = ow_where(w, ow_op2(w, "Equal", parity, zero), one, less);
	const ow_v below = ow_where(w, ow_op2(w, "Equal", a, one), one, ow_where(w, ow_op2(w, "Equal", a, less), of_minus_one, zero));
	return ow_where(w, minus, below, y);
}

ow_v ow_pow(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	return ow_back(w, n, ow_is_float(ow_dtype(w, a)) ? ow_op2(w, "Pow", a, b) : int_pow(w, a, b));
}

ow_v ow_exp2(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	return ow_back(w, n, ow_op2(w, "Pow", constant(w, a, 2), a));
}

ow_v ow_ldexp(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_cast(w, x[0], TJ_F64), two_ = constant(w, a, 2);
	const ow_v in[] = { ow_cast(w, x[1], TJ_F64), constant(w, a, -2200), constant(w, a, 2200) }; /* beyond, all is 0 or inf */
	const ow_v b = ow_op(w, "Clip", TJ_F64, 3, in), half = ow_op1(w, "Floor", ow_op2(w, "Div", b, constant(w, a, 3)));
	const ow_v step = ow_op2(w, "Pow", two_, half), rest = ow_op2(w, "Sub", ow_op2(w, "Sub", b, half), half);
	const ow_v y = ow_op2(w, "Mul", ow_op2(w, "Mul", a, step), step);
	return ow_back(w, n, ow_op2(w, "Mul", y, ow_op2(w, "Pow", two_, rest)));
}

ow_v ow_cbrt(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_cast(w, x[0], TJ_F64), m = ow_op1(w, "Abs", a);
	ow_v r = ow_op2(w, "Pow", m, constant(w, a, 1.0 / 3));
	if (tj_node_dtype(n) == TJ_F64) { /* one step of Newton's method */
		const ow_v sq = ow_op2(w, "Mul", r, r),
			   d = ow_op2(w, "Div", ow_op2(w, "Sub", ow_op2(w, "Mul", sq, r), m), ow_op2(w, "Mul", sq, constant(w, a, 3)));
		const ow_v far = ow_op2(w, "Or", ow_op1(w, "IsInf", m), ow_op2(w, "Equal", sq, constant(w, a, 0)));
		r = ow_where(w, far, r, ow_op2(w, "Sub", r, d));
	}
	return ow_back(w, n, ow_where(w, negative(w, a), ow_op1(w, "Neg", r), ow_where(w, ow_op2(w, "Equal", a, constant(w, a, 0)), a, r)));
}

/* ---- extremes, signs ---- */
ow_v ow_fmin(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_work(w, r, x[0]), b = ow_work(w, r, x[1]);
	const bool most = !strcmp(r->becomes, "Max");
	if (tj_node_dtype(n) == TJ_BOOL) return ow_op2(w, most ? "Or" : "And", x[0], x[1]);
	const ow_v m = ow_op2(w, r->becomes, a, b);
	if (!ow_is_float(ow_dtype(w, a))) return ow_back(w, n, m);
	return ow_back(w, n, ow_where(w, ow_op1(w, "IsNaN", a), b, ow_where(w, ow_op1(w, "IsNaN", b), a, m)));
}

ow_v ow_clamp(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_work(w, r, x[0]), lo = ow_work(w, r, x[1]), hi = ow_work(w, r, x[2]);
	return ow_back(w, n, ow_op2(w, "Min", ow_op2(w, "Max", a, lo), hi));
}

ow_v ow_copysign(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]);
	return ow_back(w, n, with_sign(w, a, signed_zero(w, b)));
}

ow_v ow_signbit(ow *w, tj_node *n, const ow_v *x)
{
	const tj_dtype t = ow_dtype(w, x[0]);
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	(void)t;
	return ow_is_float(ow_dtype(w, a)) ? signed_zero(w, a) : negative(w, a);
}

ow_v ow_sign(ow *w, tj_node *n, const ow_v *x)
{
	if (tj_node_dtype(n) == TJ_BOOL) return x[0];
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), s = ow_op1(w, "Sign", a);
	if (!ow_is_float(ow_dtype(w, a))) return ow_back(w, n, s);
	const ow_v plain = ow_op2(w, "Or", ow_op2(w, "Equal", a, constant(w, a, 0)), ow_op1(w, "IsNaN", a));
	return ow_back(w, n, ow_where(w, plain, a, s));
}

ow_v ow_heaviside(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]), zero = constant(w, a, 0);
	const ow_v below = ow_where(w, ow_op2(w, "Less", a, zero), zero, a), one = constant(w, a, 1);
	const ow_v above = ow_where(w, ow_op2(w, "Greater", a, zero), one, below);
	return ow_back(w, n, ow_where(w, ow_op2(w, "Equal", a, zero), b, above));
}

ow_v ow_square(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	return ow_back(w, n, ow_op2(w, "Mul", a, a));
}

/* In f64, which holds the product of two f32. */
ow_v ow_fma(ow *w, tj_node *n, const ow_v *x)
{
	const tj_dtype t = tj_node_dtype(n), as = t == TJ_F16 || t == TJ_BF16 ? TJ_F32 : TJ_F64;
	const ow_v a = ow_cast(w, x[0], TJ_F64), b = ow_cast(w, x[1], TJ_F64), c = ow_cast(w, x[2], TJ_F64);
	return ow_back(w, n, ow_cast(w, ow_op2(w, "Add", ow_op2(w, "Mul", a, b), c), as));
}

/* In f64, where the squares of f32 do not overflow; those of f64 are scaled. */
ow_v ow_hypot(ow *w, tj_node *n, const ow_v *x)
{
	ow_v a = ow_cast(w, x[0], TJ_F64), b = ow_cast(w, x[1], TJ_F64), by = 0;
	if (tj_node_dtype(n) == TJ_F64) {
		const ow_v m = ow_op2(w, "Max", ow_op1(w, "Abs", a), ow_op1(w, "Abs", b)), none = ow_op2(w, "Equal", m, constant(w, a, 0));
		by = ow_where(w, ow_op2(w, "Or", none, ow_op1(w, "IsInf", m)), constant(w, a, 1), m);
		a = ow_op2(w, "Div", a, by), b = ow_op2(w, "Div", b, by);
	}
	const ow_v s = ow_op2(w, "Add", ow_op2(w, "Mul", a, a), ow_op2(w, "Mul", b, b));
	const ow_v far = ow_op2(w, "Or", ow_op1(w, "IsInf", a), ow_op1(w, "IsInf", b));
	const ow_v r = ow_op1(w, "Sqrt", s), y = by ? ow_op2(w, "Mul", r, by) : r;
	return ow_back(w, n, ow_where(w, far, constant(w, a, INFINITY), y));
}

/* ---- rounding ---- */
static ow_v truncated(ow *w, ow_v a) { return ow_where(w, negative(w, a), ow_op1(w, "Ceil", a), ow_op1(w, "Floor", a)); }

ow_v ow_round(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	if (!ow_is_float(tj_node_dtype(n))) return x[0];
	const ow_v a = ow_work(w, r, x[0]);
	return ow_back(w, n, strcmp(r->name, "trunc") ? ow_op1(w, r->becomes, a) : truncated(w, a));
}

ow_v ow_frac(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	return ow_back(w, n, ow_op2(w, "Sub", a, truncated(w, a)));
}

/* ---- bits ---- */
ow_v ow_bits(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	if (tj_node_dtype(n) != TJ_BOOL) return ow_same(w, n, x);
	return tj_node_inputs(n) == 1 ? ow_op1(w, "Not", x[0]) : ow_op2(w, r->becomes + strlen("Bitwise"), x[0], x[1]);
}

/* 2^b of a table, b in 0..width - 1; the last one wraps to MIN. */
static ow_v power_of_two(ow *w, ow_v b)
{
	const tj_dtype t = ow_dtype(w, b);
	int64_t p[64];
	int32_t q[32];
	for (int i = 0; i < 64; i++) p[i] = (int64_t)(1ull << i);
	for (int i = 0; i < 32; i++) q[i] = (int32_t)(1u << i);
	const ow_v table = t == TJ_I64 ? ow_i64s(w, p, 64) : ow_initializer_of(w, TJ_I32, 1, (int64_t[]){ 32 }, q, sizeof q);
	ow_attr_int(w, "axis", 0);
	return ow_op(w, "Gather", t, 2, (ow_v[]){ table, b });
}

/* ONNX shifts unsigned integers only. */
ow_v ow_shift(ow *w, tj_node *n, const ow_v *x)
{
	const int width = 8 * (int)tj_dtype_size(tj_node_dtype(n));
	const ow_v a = ow_work(w, ow_row_of(n), x[0]), b = ow_work(w, ow_row_of(n), x[1]), zero = constant(w, b, 0),
		   top = constant(w, b, width - 1);
	const ow_v outside = ow_op2(w, "Or", ow_op2(w, "Less", b, zero), ow_op2(w, "Greater", b, top));
	const ow_v by = ow_where(w, outside, top, b);
	if (!strcmp(tj_node_op(n), "shift_left"))
		return ow_back(w, n, ow_where(w, outside, constant(w, a, 0), ow_op2(w, "Mul", a, power_of_two(w, by))));
	const ow_v half = ow_op2(w, "Div", by, constant(w, b, 2)),
		   rest = ow_op2(w, "Sub", by, half); /* two steps: 2^(width - 1) is negative */
	const ow_v y = ow_floor_quotient(w, ow_floor_quotient(w, a, power_of_two(w, half)), power_of_two(w, rest));
	return ow_back(w, n, ow_where(w, outside, ow_where(w, negative(w, a), constant(w, a, -1), constant(w, a, 0)), y));
}

ow_v ow_count_bits(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v wide = ow_cast(w, x[0], TJ_I64);
	int64_t p[64], last = tj_node_rank(n);
	const int width = 8 * (int)tj_dtype_size(tj_node_dtype(n));
	for (int i = 0; i < 64; i++) p[i] = (int64_t)(1ull << i);
	const ow_v a = ow_unsqueeze(w, ow_op1(w, "Abs", wide), &last, 1), q = ow_op2(w, "Div", a, ow_i64s(w, p, width));
	const ow_v even = ow_op2(w, "Mul", ow_op2(w, "Div", q, ow_const_int(w, TJ_I64, 2)), ow_const_int(w, TJ_I64, 2));
	const ow_v bit = ow_op1(w, "Abs", ow_op2(w, "Sub", q, even));
	return ow_back(w, n, ow_reduce(w, "ReduceSum", bit, &last, 1, false));
}

/* Euclid's algorithm, by a Loop that runs until all remainders are 0. */
ow_v ow_gcd(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v x0 = ow_cast(w, x[0], TJ_I64), y0 = ow_cast(w, x[1], TJ_I64);
	const ow_v zero = ow_const_int(w, TJ_I64, 0), sum = ow_op2(w, "Mul", ow_op2(w, "Add", x0, y0), zero); /* of the common shape */
	const ow_v a0 = ow_op2(w, "Add", ow_op1(w, "Abs", x0), sum), b0 = ow_op2(w, "Add", ow_op1(w, "Abs", y0), sum);
	ow_v out[2] = { ow_new_value(w, NULL, TJ_I64), ow_new_value(w, NULL, TJ_I64) };
	const ow_v turn = ow_new_value(w, NULL, TJ_I64), go = ow_new_value(w, NULL, TJ_BOOL), a = ow_new_value(w, NULL, TJ_I64),
		   b = ow_new_value(w, NULL, TJ_I64);
	ow_bytes graph = { 0 }, *outer = w->body;
	w->body = &graph;
	const ow_v done = ow_op2(w, "Equal", b, zero), d = ow_where(w, done, ow_const_int(w, TJ_I64, 1), b);
	ow_attr_int(w, "fmod", 1);
	const ow_v rest = ow_op2(w, "Mod", a, d), next_a = ow_where(w, done, a, b), next_b = ow_where(w, done, zero, rest);
	const ow_v left =
		ow_op(w, "ReduceSum", TJ_I64, 1, (ow_v[]){ ow_cast(w, ow_op1(w, "Not", ow_op2(w, "Equal", next_b, zero)), TJ_I64) });
	const ow_v some = ow_op2(w, "Greater", left, zero), more = ow_reshape(w, some, (int64_t[]){ 0 }, 0);
	ow_put_text(&graph, 2, "gcd");
	const ow_v in[4] = { turn, go, a, b }, res[3] = { more, next_a, next_b };
	for (int i = 0; i < 7; i++) {
		const ow_info info = ow_open_info(w, &graph, i < 4 ? 11 : 12, i < 4 ? in[i] : res[i - 4]);
		if (i == 0 || i == 1 || i == 4) ow_close(&graph, ow_open(&graph, 2)); /* 0-d; the shape of the others is not told */
		ow_close_info(&graph, info);
	}
	w->body = outer;
	ow_attr_graph(w, "body", &graph);
	free(graph.v);
	ow_emit(w, "Loop", 4, (ow_v[]){ 0, ow_const_int(w, TJ_BOOL, 1), a0, b0 }, 2, out);
	const ow_v g = ow_op1(w, "Abs", out[0]);
	if (!strcmp(tj_node_op(n), "gcd")) return ow_back(w, n, g);
	return ow_back(w, n, ow_op2(w, "Mul", quotient(w, ow_op1(w, "Abs", x0), g, NULL), ow_op1(w, "Abs", y0)));
}

/* ---- comparison, logic ---- */
ow_v ow_compare(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v y = ow_op2(w, r->becomes, ow_work(w, r, x[0]), ow_work(w, r, x[1]));
	return strcmp(r->name, "ne") ? y : ow_op1(w, "Not", y);
}

ow_v ow_logic(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_convert(w, x[0], TJ_BOOL);
	return tj_node_inputs(n) == 1 ? ow_op1(w, "Not", a) : ow_op2(w, r->becomes, a, ow_convert(w, x[1], TJ_BOOL));
}

ow_v ow_is(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_is_float(ow_dtype(w, x[0])) ? ow_work(w, r, x[0]) : ow_cast(w, x[0], TJ_F32), y = ow_op1(w, r->becomes, a);
	return strcmp(r->name, "isfinite") ? y : ow_op1(w, "Not", ow_op2(w, "Or", y, ow_op1(w, "IsNaN", a)));
}

ow_v ow_select(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v c = ow_convert(w, x[0], TJ_BOOL);
	(void)n;
	return ow_where(w, c, x[1], x[2]);
}

ow_v ow_cast_row(ow *w, tj_node *n, const ow_v *x) { return ow_convert(w, x[0], tj_node_dtype(n)); }

/* ---- maths ---- */
ow_v ow_rsqrt(ow *w, tj_node *n, const ow_v *x)
{
	return ow_back(w, n, ow_op1(w, "Reciprocal", ow_op1(w, "Sqrt", ow_work(w, ow_row_of(n), x[0]))));
}

/* Kahan's: with u = exp(a) rounded, (u - 1) * a / log(u) is exact to a few units. In f64. */
static ow_v exp_minus_one(ow *w, ow_v a)
{
	const ow_v one = constant(w, a, 1), u = ow_op1(w, "Exp", a), v = ow_op2(w, "Sub", u, one);
	const ow_v l = ow_op1(w, "Log", u), exact = ow_op2(w, "Div", ow_op2(w, "Mul", v, a), l);
	const ow_v y = ow_where(w, ow_op2(w, "Less", ow_op1(w, "Abs", a), one), exact, v);
	return ow_where(w, ow_op2(w, "Equal", u, one), a, y);
}

ow_v ow_expm1(ow *w, tj_node *n, const ow_v *x) { return ow_back(w, n, exp_minus_one(w, ow_cast(w, x[0], TJ_F64))); }

static ow_v log_above_one(ow *w, ow_v a) /* log(1 + a) in f64 */
{
	const ow_v one = constant(w, a, 1), u = ow_op2(w, "Add", one, a), l = ow_op1(w, "Log", u);
	const ow_v exact = ow_op2(w, "Mul", l, ow_op2(w, "Div", a, ow_op2(w, "Sub", u, one)));
	const ow_v y = ow_where(w, ow_op1(w, "IsInf", u), l, exact);
	return ow_where(w, ow_op2(w, "Equal", u, one), a, y);
}

ow_v ow_log1p(ow *w, tj_node *n, const ow_v *x) { return ow_back(w, n, log_above_one(w, ow_cast(w, x[0], TJ_F64))); }

ow_v ow_log_base(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_cast(w, x[0], TJ_F64);
	return ow_back(w, n, ow_op2(w, "Div", ow_op1(w, "Log", a), constant(w, a, strcmp(tj_node_op(n), "log2") ? log(10) : log(2))));
}

ow_v ow_tan(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	return ow_back(w, n, ow_dtype(w, a) == TJ_F32 ? ow_op1(w, "Tan", a) : ow_op2(w, "Div", ow_op1(w, "Sin", a), ow_op1(w, "Cos", a)));
}

/* log(2 a), where 2 a could overflow */
static ow_v far_log(ow *w, ow_v a, ow_v near)
{
	const ow_v y = ow_op2(w, "Add", ow_op1(w, "Log", a), constant(w, a, M_LN2));
	return ow_where(w, ow_op2(w, "Greater", a, constant(w, a, 0x1p300)), y, near);
}

static ow_v hyperbolic_f64(ow *w, const char *op, ow_v a)
{
	const ow_v one = constant(w, a, 1), half = constant(w, a, 0.5), m = ow_op1(w, "Abs", a);
	ow_v y;
	const ow_v root = ow_op1(w, "Exp", ow_op2(w, "Mul", half, m)),
		   e = ow_op2(w, "Mul", ow_op2(w, "Mul", half, root), root); /* exp(m) / 2 */
	if (!strcmp(op, "cosh")) return ow_op2(w, "Add", e, ow_op2(w, "Div", ow_op2(w, "Div", half, root), root));
	if (!strcmp(op, "acosh")) {
		const ow_v t = ow_op2(w, "Sub", a, one),
			   b = ow_op2(w, "Mul", ow_op1(w, "Sqrt", t), ow_op1(w, "Sqrt", ow_op2(w, "Add", a, one)));
		return far_log(w, a, log_above_one(w, ow_op2(w, "Add", t, b)));
	}
	if (!strcmp(op, "sinh")) {
		const ow_v d = exp_minus_one(w, m), sum = ow_op2(w, "Add", d, ow_op2(w, "Div", d, ow_op2(w, "Add", d, one)));
		y = ow_where(w, ow_op2(w, "Greater", m, constant(w, a, 30)), e, ow_op2(w, "Mul", half, sum));
	} else if (!strcmp(op, "asinh")) {
		const ow_v i = ow_op1(w, "Reciprocal", m), s = ow_op1(w, "Sqrt", ow_op2(w, "Add", ow_op2(w, "Mul", i, i), one));
		y = far_log(w, m, log_above_one(w, ow_op2(w, "Add", m, ow_op2(w, "Div", m, ow_op2(w, "Add", i, s)))));
	} else {
		const ow_v b = ow_op2(w, "Div", ow_op2(w, "Mul", m, constant(w, a, 2)), ow_op2(w, "Sub", one, m));
		y = ow_op2(w, "Mul", half, log_above_one(w, b));
	}
	return ow_where(w, negative(w, a), ow_op1(w, "Neg", y), y);
}

/* Runtimes have these in f32 only. */
ow_v ow_hyperbolic(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_work(w, ow_row_of(n), x[0]);
	return ow_back(w, n, ow_dtype(w, a) == TJ_F32 ? ow_op1(w, ow_row_of(n)->becomes, a) : hyperbolic_f64(w, tj_node_op(n), a));
}

ow_v ow_atan2(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v y = ow_work(w, ow_row_of(n), x[0]), a = ow_work(w, ow_row_of(n), x[1]), pi = constant(w, y, M_PI);
	const ow_v both = ow_op2(w, "And", ow_op1(w, "IsInf", y), ow_op1(w, "IsInf", a));
	const ow_v p = ow_where(w, both, ow_op1(w, "Sign", y), y), q = ow_where(w, both, ow_op1(w, "Sign", a), a);
	const ow_v zero = constant(w, y, 0), none = ow_op2(w, "And", ow_op2(w, "Equal", y, zero), ow_op2(w, "Equal", a, zero));
	const ow_v r = ow_op1(w, "Atan", ow_where(w, none, y, ow_op2(w, "Div", p, q)));
	const ow_v turn = ow_where(w, signed_zero(w, y), ow_op1(w, "Neg", pi), pi);
	return ow_back(w, n, ow_where(w, signed_zero(w, a), ow_op2(w, "Add", ow_where(w, none, zero, r), turn), r));
}

ow_v ow_sinc(ow *w, tj_node *n, const ow_v *x)
{
	const ow_v a = ow_cast(w, x[0], TJ_F64), p = ow_op2(w, "Mul", a, constant(w, a, M_PI)), none = constant(w, a, 0);
	const ow_v zero = ow_op2(w, "Equal", a, none), flat = ow_op2(w, "Equal", ow_op1(w, "Floor", a), a);
	const ow_v whole = ow_op2(w, "And", flat, ow_op1(w, "Not", ow_op1(w, "IsInf", a)));
	const ow_v half = ow_op2(w, "Mul", a, constant(w, a, 0.5)), turns = ow_op2(w, "Mul", ow_op1(w, "Round", half), constant(w, a, 2));
	const ow_v sine = ow_op1(w, "Sin", ow_op2(w, "Mul", ow_op2(w, "Sub", a, turns), constant(w, a, M_PI)));
	const ow_v y = ow_where(w, whole, none, ow_op2(w, "Div", sine, p));
	return ow_back(w, n, ow_where(w, zero, constant(w, a, 1), y));
}

/* erfc(a) = t exp(-a^2 + p(t)), t = 1 / (1 + a / 2): Numerical Recipes, erfcc(); good to 1.2e-7 of the value at all a. */
ow_v ow_erfc(ow *w, tj_node *n, const ow_v *x)
{
	static const double p[] = { 0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
		                    -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223 };
	if (tj_node_dtype(n) == TJ_F64) return ow_no(w, n, x);
	ow_v a = ow_cast(w, x[0], TJ_F64);
	const bool normal = !strcmp(tj_node_op(n), "ndtr");
	if (normal) a = ow_op2(w, "Mul", a, constant(w, a, -M_SQRT1_2));
	const ow_v m = ow_op1(w, "Abs", a), one = constant(w, a, 1), half = constant(w, a, 0.5);
	const ow_v t = ow_op2(w, "Div", one, ow_op2(w, "Add", one, ow_op2(w, "Mul", half, m)));
	ow_v y = constant(w, a, p[0]);
	for (size_t i = 1; i < sizeof p / sizeof *p; i++) y = ow_op2(w, "Add", ow_op2(w, "Mul", y, t), constant(w, a, p[i]));
	const ow_v e = ow_op2(w, "Mul", t, ow_op1(w, "Exp", ow_op2(w, "Sub", y, ow_op2(w, "Mul", m, m))));
	const ow_v c = ow_where(w, negative(w, a), ow_op2(w, "Sub", constant(w, a, 2), e), e);
	return ow_back(w, n, normal ? ow_op2(w, "Mul", half, c) : c);
}

/* ---- activations ---- */
static double number(tj_node *n) /* a 0-d constant */
{
	const void *p = tj_node_data(n);
	switch (p ? tj_node_dtype(n) : TJ_BOOL) {
	case TJ_F32: {
		float f;
		memcpy(&f, p, sizeof f);
		return (double)f;
	}
	case TJ_F64: {
		double d;
		memcpy(&d, p, sizeof d);
		return d;
	}
	case TJ_I64: {
		int64_t i;
		memcpy(&i, p, sizeof i);
		return (double)i;
	}
	default: return NAN;
	}
}

ow_v ow_activation(ow *w, tj_node *n, const ow_v *x)
{
	const ow_row *r = ow_row_of(n);
	const ow_v a = ow_work(w, r, x[0]);
	if (tj_node_inputs(n) == 2) ow_attr_float(w, "alpha", number(tj_node_input(n, 1)));
	return ow_back(w, n, ow_op1(w, r->becomes, a));
}
