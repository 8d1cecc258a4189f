/* SPDX-License-Identifier: MIT */
/* products: matrix products, also of quantised numbers, and quantisation. */
#include "kit/models/models.h"

#define X ox_t(o, 0)

tj_tensor *ox_matmul(ox_call *o, const char *site)
{
	const tj_weight *w = o->n->weight[0];
	return w && tj_rank(X) > 1 ? tj_weight_matmul(X, w) : tj_matmul(X, ox_t(o, 1));
}

static tj_tensor *scaled(const char *site, tj_tensor *x, double by) { return by == 1 ? x : tj_mul(x, ox_scalar(site, tj_dtype_of(x), by)); }

tj_tensor *ox_gemm(ox_call *o, const char *site)
{
	tj_tensor *a = X, *b = ox_t(o, 1), *c = ox_t(o, 2);
	const double alpha = ox_float(o, "alpha", 1), beta = ox_float(o, "beta", 1);
	if (ox_int(o, "transA", 0)) a = ox_transposed(site, a);
	if (ox_int(o, "transB", 0)) b = ox_transposed(site, b);
	tj_tensor *y = scaled(site, o->n->weight[0] ? tj_weight_matmul(a, o->n->weight[0]) : tj_matmul(a, b), alpha);
	return c && beta != 0 ? tj_add(y, scaled(site, c, beta)) : y;
}

tj_tensor *ox_einsum(ox_call *o, const char *site)
{
	const char *s = ox_string(o, "equation", "");
	tj_tensor **v = ox_room(o, ((size_t)o->n->nin + 1) * sizeof(tj_tensor *));
	if (!v) return NULL;
	for (int k = 0; k < o->n->nin; k++) v[k] = ox_t(o, k);
	v[o->n->nin] = TJ_END;
	return tj_einsum(s, v, NULL);
}

/* By elimination without pivots for 2 x 2 and 3 x 3 in closed form; larger ones by Laplace's expansion along the first row. */
static tj_tensor *determinant(const char *site, tj_tensor *x, int n)
{
	tj_tensor *y = NULL;
	const int last = tj_rank(x) - 1;
	if (n == 1) return tj_select(tj_select(x, last, 0), last - 1, 0);
	tj_tensor *rest = tj_slice(x, last - 1, 1, TJ_END_DIM, 1), *row = tj_select(x, last - 1, 0);
	for (int k = 0; k < n; k++) {
		tj_tensor *minor =
			k == 0       ? tj_slice(rest, last, 1, TJ_END_DIM, 1)
			: k == n - 1 ? tj_slice(rest, last, 0, n - 1, 1)
				     : tj_cat(TJ_LIST(tj_slice(rest, last, 0, k, 1), tj_slice(rest, last, k + 1, TJ_END_DIM, 1)), last);
		tj_tensor *part = tj_mul(tj_select(row, last - 1, k), determinant(site, minor, n - 1));
		y = !y ? part : k % 2 ? tj_sub(y, part) : tj_add(y, part);
	}
	return y;
}

tj_tensor *ox_det(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	enum { MOST = 6 };
	if (tj_rank(x) < 2 || tj_dim(x, -1) != tj_dim(x, -2) || tj_dim(x, -1) > MOST || tj_dim(x, -1) < 1)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "square matrices of up to %d rows are needed", MOST);
	return determinant(site, x, (int)tj_dim(x, -1));
}

/* ---- integers ---- */
/* x - zero as i32. A zero of several numbers goes along `axis`. */
static tj_tensor *centred(const char *site, tj_tensor *x, tj_tensor *zero, int axis)
{
	tj_tensor *y = tj_cast(x, TJ_I32);
	if (!zero) return y;
	zero = tj_cast(zero, TJ_I32);
	if (tj_rank(zero) == 1 && tj_dim(zero, 0) == 1) zero = tj_reshape(zero, TJ_0D);
	if (tj_rank(zero) == 1) zero = ox_along(site, zero, ox_axis(axis, tj_rank(x)), tj_rank(x));
	return tj_sub(y, zero);
}

tj_tensor *ox_matmul_integer(ox_call *o, const char *site)
{
	return tj_matmul(centred(site, X, ox_t(o, 2), -2), centred(site, ox_t(o, 1), ox_t(o, 3), -1));
}

tj_tensor *ox_conv_integer(ox_call *o, const char *site)
{
	return ox_convolve(o, site, centred(site, X, ox_t(o, 2), 1), centred(site, ox_t(o, 1), ox_t(o, 3), 0));
}

/* Rounds x to the nearest, ties to even, moves it by zero, and limits it to the dtype of zero. */
static tj_tensor *requantized(const char *site, tj_tensor *x, tj_tensor *zero, tj_dtype to)
{
	tj_tensor *y = tj_round(x);
	if (zero) y = tj_add(y, tj_cast(zero, tj_dtype_of(y)));
	return tj_cast(y, to);
}

tj_tensor *ox_qlinear_matmul(ox_call *o, const char *site)
{
	tj_tensor *a = centred(site, X, ox_t(o, 2), -2), *b = centred(site, ox_t(o, 3), ox_t(o, 5), -1), *zero = ox_t(o, 7);
	tj_tensor *sa = tj_cast(ox_t(o, 1), TJ_F32), *sb = tj_cast(ox_t(o, 4), TJ_F32), *sy = tj_cast(ox_t(o, 6), TJ_F32);
	if (tj_rank(sa) == 1 && tj_dim(sa, 0) > 1) sa = tj_unsqueeze(sa, 1);
	tj_tensor *y = tj_cast(tj_matmul(a, b), TJ_F32);
	return requantized(site, tj_mul(y, tj_div(tj_mul(sa, sb), sy)), zero, tj_dtype_of(zero));
}

tj_tensor *ox_qlinear_conv(ox_call *o, const char *site)
{
	tj_tensor *x = centred(site, X, ox_t(o, 2), 1), *w = centred(site, ox_t(o, 3), ox_t(o, 5), 0), *zero = ox_t(o, 7),
		  *bias = ox_t(o, 8);
	tj_tensor *sw = ox_t(o, 4), *y = ox_convolve(o, site, x, w);
	const int rank = tj_rank(x);
	if (!y) return NULL;
	if (bias) y = tj_add(y, ox_along(site, tj_cast(bias, TJ_I32), 1, rank));
	sw = tj_numel(sw) == 1 ? tj_reshape(sw, TJ_0D) : ox_along(site, sw, 1, rank);
	tj_tensor *scale = tj_div(tj_mul(tj_reshape(ox_t(o, 1), TJ_0D), sw), tj_reshape(ox_t(o, 6), TJ_0D));
	return requantized(site, tj_mul(tj_cast(y, TJ_F32), scale), tj_reshape(zero, TJ_0D), tj_dtype_of(zero));
}

/* ---- quantisation ---- */
/* A scale or zero of one number, of an axis, or of blocks along an axis, so that it broadcasts to x. */
static tj_tensor *spread(ox_call *o, const char *site, tj_tensor *x, tj_tensor *s)
{
	const int rank = tj_rank(x), axis = ox_axis(ox_int(o, "axis", 1), rank);
	const int64_t block = ox_int(o, "block_size", 0);
	if (!s || tj_rank(s) == 0) return s;
	if (tj_numel(s) == 1) return tj_reshape(s, TJ_0D);
	if (tj_rank(s) == 1 && !block)
		return axis < 0 ? ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there") : ox_along(site, s, axis, rank);
	if (tj_rank(s) != rank || axis < 0) return ox_fail(o, TJ_ERR_SHAPE, NULL, "the scale has %d axes, x has %d", tj_rank(s), rank);
	if (!block) return s;
	const int64_t n = tj_dim(x, axis); /* one block may be longer than the axis */
	return tj_slice(tj_repeat_interleave(s, n && block > n ? n : block, axis), axis, 0, n, 1);
}

tj_tensor *ox_quantize_linear(ox_call *o, const char *site)
{
	tj_tensor *x = X, *scale = ox_t(o, 1), *zero = ox_t(o, 2);
	tj_dtype to = zero ? tj_dtype_of(zero) : TJ_U8;
	const int64_t type = ox_int(o, "output_dtype", 0);
	if (type && !zero && !ox_dtype(type, &to)) return ox_fail(o, TJ_ERR_DTYPE, NULL, "its result is no dtype of tjit");
	x = ox_is_float(x) ? x : tj_cast(x, TJ_F32);
	if (tj_dtype_of(x) == TJ_F16 || tj_dtype_of(x) == TJ_BF16) x = tj_cast(x, TJ_F32);
	return requantized(site, tj_div(x, tj_cast(spread(o, site, x, scale), tj_dtype_of(x))), spread(o, site, x, zero), to);
}

tj_tensor *ox_dequantize_linear(ox_call *o, const char *site)
{
	tj_tensor *x = X, *scale = ox_t(o, 1), *zero = ox_t(o, 2);
	tj_dtype to = tj_dtype_of(scale);
	const int64_t type = ox_int(o, "output_dtype", 0);
	if (type && !ox_dtype(type, &to)) return ox_fail(o, TJ_ERR_DTYPE, NULL, "its result is no dtype of tjit");
	tj_tensor *y = tj_cast(x, TJ_I32);
	if (zero) y = tj_sub(y, tj_cast(spread(o, site, x, zero), TJ_I32));
	return tj_cast(tj_mul(tj_cast(y, TJ_F32), tj_cast(spread(o, site, x, scale), TJ_F32)), to);
}

tj_tensor *ox_dynamic_quantize_linear(ox_call *o, const char *site)
{
	tj_tensor *x = X, *zero = tj_f(0);
	tj_tensor *low = tj_minimum(tj_amin(x, TJ_ALL, false), zero), *high = tj_maximum(tj_amax(x, TJ_ALL, false), zero);
	tj_tensor *scale = tj_div(tj_sub(high, low), tj_f(255));
	tj_tensor *safe = tj_where(tj_eq(scale, zero), tj_f(1), scale);
	tj_tensor *point = tj_cast(tj_round(tj_clamp(tj_neg(tj_div(low, safe)), tj_f(0), tj_f(255))), TJ_U8);
	ox_put(o, 1, scale);
	ox_put(o, 2, point);
	return requantized(site, tj_div(x, safe), point, TJ_U8);
}
