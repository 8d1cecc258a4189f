/* SPDX-License-Identifier: MIT */
/* pointwise: ops element by element, casts and activations. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)
#define UNARY(fn, call) \
	tj_tensor *fn(ox_call *o, const char *site) { return call; }
#define BINARY(fn, op) \
	tj_tensor *fn(ox_call *o, const char *site) { return op(ox_t(o, 0), ox_t(o, 1)); }
#define F(name, preset) ox_float(o, name, preset)

UNARY(ox_abs, tj_abs(X))
UNARY(ox_acos, tj_acos(X))
UNARY(ox_acosh, tj_acosh(X))
UNARY(ox_asin, tj_asin(X))
UNARY(ox_asinh, tj_asinh(X))
UNARY(ox_atan, tj_atan(X))
UNARY(ox_atanh, tj_atanh(X))
UNARY(ox_bitwise_not, tj_bitwise_not(X))
UNARY(ox_ceil, tj_ceil(X))
UNARY(ox_cos, tj_cos(X))
UNARY(ox_cosh, tj_cosh(X))
UNARY(ox_elu, tj_elu(X, F("alpha", 1)))
UNARY(ox_erf, tj_erf(X))
UNARY(ox_exp, tj_exp(X))
UNARY(ox_floor, tj_floor(X))
UNARY(ox_hard_swish, tj_hardswish(X))
UNARY(ox_is_nan, tj_isnan(X))
UNARY(ox_leaky_relu, tj_leaky_relu(X, F("alpha", 0.01)))
UNARY(ox_log, tj_log(X))
UNARY(ox_mish, tj_mish(X))
UNARY(ox_neg, tj_neg(X))
UNARY(ox_not, tj_logical_not(X))
UNARY(ox_reciprocal, tj_reciprocal(X))
UNARY(ox_relu, tj_relu(X))
UNARY(ox_round, tj_round(X))
UNARY(ox_sigmoid, tj_sigmoid(X))
UNARY(ox_sign, tj_sign(X))
UNARY(ox_sin, tj_sin(X))
UNARY(ox_sinh, tj_sinh(X))
UNARY(ox_softplus, tj_softplus(X, 1, 20))
UNARY(ox_softsign, tj_softsign(X))
UNARY(ox_sqrt, tj_sqrt(X))
UNARY(ox_tan, tj_tan(X))
UNARY(ox_tanh, tj_tanh(X))

BINARY(ox_add, tj_add)
BINARY(ox_sub, tj_sub)
BINARY(ox_mul, tj_mul)
BINARY(ox_and, tj_logical_and)
BINARY(ox_or, tj_logical_or)
BINARY(ox_xor, tj_logical_xor)
BINARY(ox_equal, tj_eq)
BINARY(ox_less, tj_lt)
BINARY(ox_greater, tj_gt)
BINARY(ox_less_or_equal, tj_le)
BINARY(ox_greater_or_equal, tj_ge)
BINARY(ox_bitwise_and, tj_bitwise_and)
BINARY(ox_bitwise_or, tj_bitwise_or)
BINARY(ox_bitwise_xor, tj_bitwise_xor)

tj_tensor *ox_where(ox_call *o, const char *site) { return tj_where(ox_t(o, 0), ox_t(o, 1), ox_t(o, 2)); }

tj_tensor *ox_div(ox_call *o, const char *site)
{
	tj_tensor *a = ox_t(o, 0), *b = ox_t(o, 1);
	return ox_is_float(a) ? tj_div(a, b) : tj_trunc_divide(a, b);
}

tj_tensor *ox_mod(ox_call *o, const char *site)
{
	tj_tensor *a = ox_t(o, 0), *b = ox_t(o, 1);
	return ox_int(o, "fmod", 0) ? tj_fmod(a, b) : tj_remainder(a, b);
}

/* The result has the dtype of the base. */
tj_tensor *ox_pow(ox_call *o, const char *site)
{
	tj_tensor *a = ox_t(o, 0), *b = ox_t(o, 1);
	const tj_dtype t = tj_dtype_of(a);
	if (tj_dtype_of(b) == t || ox_is_float(a)) return tj_pow(a, tj_cast(b, t));
	if (ox_is_float(b)) return tj_cast(tj_pow(tj_cast(a, TJ_F64), tj_cast(b, TJ_F64)), t);
	return tj_cast(tj_pow(tj_cast(a, TJ_I64), tj_cast(b, TJ_I64)), t);
}

/* ---- several operands ---- */
static tj_tensor *fold_over(ox_call *o, const char *site, tj_tensor *(*op)(const char *, tj_tensor *, tj_tensor *))
{
	tj_tensor *y = ox_t(o, 0);
	for (int k = 1; k < o->n->nin; k++) y = op(site, y, ox_t(o, k));
	return y;
}

tj_tensor *ox_max(ox_call *o, const char *site) { return fold_over(o, site, tj_maximum_at); }
tj_tensor *ox_min(ox_call *o, const char *site) { return fold_over(o, site, tj_minimum_at); }
tj_tensor *ox_sum(ox_call *o, const char *site) { return fold_over(o, site, tj_add_at); }
tj_tensor *ox_mean(ox_call *o, const char *site)
{
	tj_tensor *y = fold_over(o, site, tj_add_at);
	return tj_div(y, ox_scalar(site, tj_dtype_of(y), o->n->nin));
}

/* ---- limits and steps ---- */
tj_tensor *ox_clip(ox_call *o, const char *site)
{
	tj_tensor *y = ox_t(o, 0), *low = ox_t(o, 1), *high = ox_t(o, 2);
	if (o->n->opset < 11) {
		if (ox_attribute(o, "min")) low = tj_f(F("min", 0));
		if (ox_attribute(o, "max")) high = tj_f(F("max", 0));
	}
	if (low) y = tj_maximum(y, low);
	return high ? tj_minimum(y, high) : y;
}

tj_tensor *ox_hard_sigmoid(ox_call *o, const char *site)
{
	tj_tensor *y = tj_add(tj_mul(X, tj_f(F("alpha", (double)0.2f))), tj_f(F("beta", 0.5)));
	return tj_minimum(tj_maximum(y, tj_f(0)), tj_f(1));
}

tj_tensor *ox_thresholded_relu(ox_call *o, const char *site) /* of NaN it is 0 */
{
	tj_tensor *x = X;
	return tj_where(tj_gt(x, tj_f(F("alpha", 1))), x, ox_scalar(site, tj_dtype_of(x), 0));
}

tj_tensor *ox_shrink(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const double lambda = F("lambd", 0.5), bias = F("bias", 0);
	tj_tensor *zero = ox_scalar(site, tj_dtype_of(x), 0);
	tj_tensor *below = tj_where(tj_lt(x, tj_f(-lambda)), tj_add(x, ox_scalar(site, tj_dtype_of(x), bias)), zero);
	return tj_where(tj_gt(x, tj_f(lambda)), tj_sub(x, ox_scalar(site, tj_dtype_of(x), bias)), below);
}

/* ---- activations with numbers of their own ---- */
tj_tensor *ox_celu(ox_call *o, const char *site) { return tj_celu(X, F("alpha", 1)); }

tj_tensor *ox_selu(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	return tj_mul(tj_elu(x, F("alpha", (double)1.67326319217681884765625f)), tj_f(F("gamma", (double)1.05070102214813232421875f)));
}

tj_tensor *ox_gelu(ox_call *o, const char *site) { return ox_is(o, "approximate", "none", "tanh") ? tj_gelu_tanh(X) : tj_gelu(X); }

tj_tensor *ox_swish(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	return tj_mul(x, tj_sigmoid(tj_mul(x, tj_f(F("alpha", 1)))));
}

tj_tensor *ox_prelu(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	return tj_where(tj_lt(x, ox_scalar(site, tj_dtype_of(x), 0)), tj_mul(x, ox_t(o, 1)), x);
}

tj_tensor *ox_is_inf(ox_call *o, const char *site)
{
	const bool up = ox_int(o, "detect_positive", 1), down = ox_int(o, "detect_negative", 1);
	tj_tensor *x = X;
	if (up && down) return tj_isinf(x);
	if (up) return tj_isposinf(x);
	return down ? tj_isneginf(x) : tj_logical_and(tj_isinf(x), tj_isnan(x));
}

/* ---- bits ---- */
tj_tensor *ox_bit_shift(ox_call *o, const char *site)
{
	return ox_is(o, "direction", "", "RIGHT") ? tj_shift_right(X, ox_t(o, 1)) : tj_shift_left(X, ox_t(o, 1));
}

/* The bits of one dtype as those of another. Only where the host knows the values, or the dtypes are integers of one width. */
tj_tensor *ox_bit_cast(ox_call *o, const char *site)
{
	tj_dtype to;
	tj_tensor *x = X;
	const tj_dtype from = tj_dtype_of(x);
	int64_t dim[TJ_MAX_RANK + 1];
	if (!ox_dtype(ox_int(o, "to", 0), &to)) return ox_fail(o, TJ_ERR_DTYPE, NULL, "its result is no dtype of tjit");
	if (from == to) return x;
	if (tj_dtype_size(from) != tj_dtype_size(to))
		return ox_fail(o, TJ_ERR_DTYPE, NULL, "%s and %s have elements of different sizes", tj_dtype_name(from), tj_dtype_name(to));
	if (!ox_is_float(x) && to <= TJ_I64 && from != TJ_BOOL && to != TJ_BOOL) return tj_cast(x, to);
	const size_t bytes = (size_t)tj_numel(x) * tj_dtype_size(from);
	void *data = ox_room(o, bytes);
	ox_dims_of(x, dim);
	if (!data || tj_read(x, data, bytes) != TJ_OK) return o->r->failed = true, NULL;
	return tj_constant(o->r->c, to, dim, data);
}

/* ---- casts ---- */
static tj_tensor *cast_to(const char *site, tj_tensor *x, tj_dtype to)
{
	return to == TJ_BOOL && tj_dtype_of(x) != TJ_BOOL ? tj_ne(x, tj_i(0)) : tj_cast(x, to);
}

tj_tensor *ox_cast(ox_call *o, const char *site)
{
	tj_dtype to;
	if (!ox_dtype(ox_int(o, "to", 0), &to)) return ox_fail(o, TJ_ERR_DTYPE, NULL, "its result is no dtype of tjit");
	return cast_to(site, X, to);
}

tj_tensor *ox_cast_like(ox_call *o, const char *site) { return cast_to(site, X, tj_dtype_of(ox_t(o, 1))); }

/* silu(alpha * gate) * up: the last axis holds gate, then up. */
tj_tensor *ox_swiglu(ox_call *o, const char *site)
{
	tj_tensor *a = ox_t(o, 0), *b = ox_t(o, 1);
	const double alpha = F("alpha", 1);
	if (!b) {
		const int axis = tj_rank(a) - 1;
		const int64_t half = tj_dim(a, axis) / 2;
		b = tj_slice(a, axis, half, TJ_END_DIM, 1);
		a = tj_slice(a, axis, 0, half, 1);
	}
	return tj_mul(tj_mul(a, tj_sigmoid(tj_mul(a, tj_f(alpha)))), b);
}

tj_tensor *ox_dropout(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t dim[TJ_MAX_RANK + 1];
	const ox_host *train = o->n->opset >= 12 && ox_has(o, 2) ? ox_h(o, 2) : NULL,
		      *ratio = o->n->opset >= 12 && ox_has(o, 1) ? ox_h(o, 1) : NULL;
	const double p = ratio && ratio->f ? ratio->f[0] : 0.5;
	ox_dims_of(x, dim);
	if (!train || !train->i || !train->i[0] || p <= 0) {
		if (ox_wants(o, 1)) ox_put(o, 1, tj_full(o->n->opset < 10 ? tj_dtype_of(x) : TJ_BOOL, dim, tj_i(1)));
		return x;
	}
	tj_tensor *keep = tj_bernoulli(TJ_BOOL, dim, tj_f(1 - p));
	if (ox_wants(o, 1)) ox_put(o, 1, keep);
	return tj_where(keep, tj_mul(x, tj_f(1 / (1 - p))), ox_scalar(site, tj_dtype_of(x), 0));
}
