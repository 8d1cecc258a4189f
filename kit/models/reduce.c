/* SPDX-License-Identifier: MIT */
/* reduce: ops that join the elements along axes, norms and softmax. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)

typedef struct over {
	tj_tensor *x;
	int64_t axes[TJ_MAX_RANK + 1];
	bool all, keep, none;
} over;

/* The axes of a reduction; false: reported. */
static bool axes_of(ox_call *o, over *r)
{
	int64_t n;
	const int64_t *v = ox_ints(o, "axes", &n);
	const ox_host *h = ox_has(o, 1) ? ox_h(o, 1) : NULL;
	if (o->r->failed) return false;
	*r = (over){ .x = X, .keep = ox_int(o, "keepdims", 1) };
	if (h && h->i) v = h->i, n = h->n;
	if (!v || !n) {
		r->none = ox_int(o, "noop_with_empty_axes", 0);
		r->all = true;
		return true;
	}
	if (n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_LIMIT, NULL, "%lld axes", (long long)n), false;
	for (int64_t i = 0; i < n; i++)
		if ((r->axes[i] = ox_axis(v[i], tj_rank(r->x))) < 0)
			return ox_fail(o, TJ_ERR_ARG, NULL, "axis %lld is not there: the tensor has %d axes", (long long)v[i],
			               tj_rank(r->x)),
			       false;
	r->axes[n] = TJ_END_DIM;
	return true;
}

#define AXES(r) ((r).all ? TJ_ALL : (tj_dims)(r).axes)
/* Before it the operand r.x may be changed, behind it the result y has its dtype again. */
#define REDUCE(fn, of, empty) \
	tj_tensor *fn(ox_call *o, const char *site) \
	{ \
		over r; \
		if (!axes_of(o, &r)) return NULL; \
		tj_tensor *x = r.x; \
		if (r.none) return empty; \
		return ox_like(site, of, x); \
	}

static tj_tensor *mean(const char *site, tj_tensor *x, const over *r)
{
	if (ox_is_float(x)) return tj_mean(x, AXES(*r), r->keep);
	tj_tensor *s = tj_sum(x, AXES(*r), r->keep);
	const int64_t n = tj_numel(s) ? tj_numel(x) / tj_numel(s) : 1;
	return tj_trunc_divide(s, tj_i(n));
}

static tj_tensor *extreme(const char *site, tj_tensor *x, const over *r, bool largest)
{
	if (tj_dtype_of(x) == TJ_BOOL) return largest ? tj_any(x, AXES(*r), r->keep) : tj_all(x, AXES(*r), r->keep);
	if (tj_numel(x)) return largest ? tj_amax(x, AXES(*r), r->keep) : tj_amin(x, AXES(*r), r->keep);
	const double v = largest ? -INFINITY : INFINITY; /* over no elements */
	tj_tensor *s = tj_sum(tj_cast(x, TJ_F64), AXES(*r), r->keep);
	return tj_cast(tj_add(s, tj_f(v)), tj_dtype_of(x));
}

static tj_tensor *norm(const char *site, tj_tensor *x, const over *r)
{
	tj_tensor *wide = tj_dtype_of(x) == TJ_F64 ? x : tj_cast(x, TJ_F32);
	return tj_sqrt(tj_sum(tj_square(wide), AXES(*r), r->keep));
}

REDUCE(ox_reduce_sum, tj_sum(x, AXES(r), r.keep), x)
REDUCE(ox_reduce_prod, tj_prod(x, AXES(r), r.keep), x)
REDUCE(ox_reduce_mean, mean(site, x, &r), x)
REDUCE(ox_reduce_max, extreme(site, x, &r, true), x)
REDUCE(ox_reduce_min, extreme(site, x, &r, false), x)
REDUCE(ox_reduce_l1, tj_sum(tj_abs(x), AXES(r), r.keep), tj_abs(x))
REDUCE(ox_reduce_l2, norm(site, x, &r), tj_abs(x))
REDUCE(ox_reduce_sum_square, tj_sum(tj_square(x), AXES(r), r.keep), tj_square(x))
REDUCE(ox_reduce_log_sum, tj_log(tj_sum(x, AXES(r), r.keep)), tj_log(x))
REDUCE(ox_reduce_log_sum_exp, tj_logsumexp(ox_is_float(x) ? x : tj_cast(x, TJ_F32), AXES(r), r.keep), x)

/* ---- cumulative ---- */
static tj_tensor *cumulative(ox_call *o, bool product)
{
	const char *site = o->site;
	tj_tensor *x = X;
	const ox_host *h = ox_h(o, 1);
	const int rank = tj_rank(x), axis = h && h->i && h->n == 1 ? ox_axis(h->i[0], rank) : -1;
	const bool reverse = ox_int(o, "reverse", 0), exclusive = ox_int(o, "exclusive", 0);
	if (axis < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there");
	const int64_t n = tj_dim(x, axis);
	if (reverse) x = tj_flip(x, TJ_AXES(axis));
	if (exclusive && n) {
		int64_t pads[2 * TJ_MAX_RANK + 1] = { 0 };
		pads[2 * axis] = 1, pads[2 * axis + 1] = -1;
		pads[2 * rank] = TJ_END_DIM;
		x = tj_pad(x, pads, TJ_PAD_CONSTANT, tj_i(product));
	}
	tj_tensor *y = ox_like(site, product ? tj_cumprod(x, axis) : tj_cumsum(x, axis), x);
	return reverse ? tj_flip(y, TJ_AXES(axis)) : y;
}

tj_tensor *ox_cum_sum(ox_call *o, const char *site) { return (void)site, cumulative(o, false); }
tj_tensor *ox_cum_prod(ox_call *o, const char *site) { return (void)site, cumulative(o, true); }

/* ---- softmax ---- */
/* Before opset 13 over all axes from `axis` on, as one. */
static tj_tensor *softmax(ox_call *o, tj_tensor *(*of)(const char *, tj_tensor *, int))
{
	const char *site = o->site;
	tj_tensor *x = X;
	int64_t dim[TJ_MAX_RANK + 1], rows = 1;
	const bool flat = o->n->opset < 13;
	const int rank = (int)ox_dims_of(x, dim), axis = ox_axis(ox_int(o, "axis", flat ? 1 : -1), rank);
	if (axis < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there: the tensor has %d axes", rank);
	if (!flat || axis == rank - 1) return of(site, x, axis);
	for (int i = 0; i < axis; i++) rows *= dim[i];
	return tj_reshape(of(site, tj_reshape(x, TJ_SHAPE(rows, -1)), 1), dim);
}

tj_tensor *ox_softmax(ox_call *o, const char *site) { return (void)site, softmax(o, tj_softmax_at); }
tj_tensor *ox_log_softmax(ox_call *o, const char *site) { return (void)site, softmax(o, tj_log_softmax_at); }

/* ---- norms ---- */
/* Narrow floats are computed in f32 and rounded once. */
static tj_tensor *wide(const char *site, tj_tensor *x)
{
	return x && (tj_dtype_of(x) == TJ_F16 || tj_dtype_of(x) == TJ_BF16) ? tj_cast(x, TJ_F32) : x;
}

/* (x - mean) / sqrt(var + eps) over axes. */
static tj_tensor *standardized(const char *site, tj_tensor *x, tj_dims axes, double eps)
{
	tj_tensor *d = tj_sub(x, tj_mean(x, axes, true));
	return tj_div(d, tj_sqrt(tj_add(tj_mean(tj_square(d), axes, true), tj_f(eps))));
}

/* A number that never changes: what is computed of it and of weights is folded. */
static tj_tensor *fixed(ox_call *o, const char *site, tj_dtype t, double value)
{
	const float f = (float)value;
	return tj_constant_at(site, o->r->c, t == TJ_F64 ? TJ_F64 : TJ_F32, (const int64_t[]){ TJ_END_DIM },
	                      t == TJ_F64 ? (const void *)&value : &f);
}

tj_tensor *ox_batch_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X, *v[4];
	int64_t axes[TJ_MAX_RANK + 1];
	const int rank = tj_rank(x);
	const double eps = ox_float(o, "epsilon", (double)1e-5f), momentum = ox_float(o, "momentum", (double)0.9f);
	for (int k = 0; k < 4; k++) v[k] = ox_t(o, k + 1); /* scale, bias, mean, variance */
	if (rank < 1) return ox_fail(o, TJ_ERR_SHAPE, NULL, "x has no channels");
	const int axis = rank > 1;
	if (ox_int(o, "training_mode", 0)) {
		int n = 0;
		for (int i = 0; i < rank; i++)
			if (i != axis) axes[n++] = i;
		axes[n] = TJ_END_DIM;
		tj_tensor *m = tj_mean(x, axes, false), *s = tj_var(x, axes, 0, false);
		ox_put(o, 1, ox_like(site, tj_add(tj_mul(v[2], tj_f(momentum)), tj_mul(m, tj_f(1 - momentum))), v[2]));
		ox_put(o, 2, ox_like(site, tj_add(tj_mul(v[3], tj_f(momentum)), tj_mul(s, tj_f(1 - momentum))), v[3]));
		v[2] = m, v[3] = s;
	}
	/* y = x * f + (bias - mean * f): of constants f and the sum are folded. */
	tj_tensor *var = wide(site, v[3]), *f = tj_div(wide(site, v[0]), tj_sqrt(tj_add(var, fixed(o, site, tj_dtype_of(var), eps))));
	tj_tensor *shift = tj_sub(wide(site, v[1]), tj_mul(wide(site, v[2]), f));
	return ox_like(site, tj_add(tj_mul(wide(site, x), ox_along(site, f, axis, rank)), ox_along(site, shift, axis, rank)), x);
}

tj_tensor *ox_instance_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t axes[TJ_MAX_RANK + 1];
	const int rank = tj_rank(x);
	if (rank < 3) return ox_fail(o, TJ_ERR_SHAPE, NULL, "x is not [N,C,...]");
	for (int i = 2; i < rank; i++) axes[i - 2] = i;
	axes[rank - 2] = TJ_END_DIM;
	tj_tensor *y = standardized(site, wide(site, x), axes, ox_float(o, "epsilon", (double)1e-5f));
	return ox_like(site, tj_add(tj_mul(y, ox_along(site, ox_t(o, 1), 1, rank)), ox_along(site, ox_t(o, 2), 1, rank)), x);
}

/* Up to opset 20 scale and bias are those of groups. */
tj_tensor *ox_group_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X, *scale = ox_t(o, 1), *bias = ox_t(o, 2);
	int64_t dim[TJ_MAX_RANK + 1];
	const int rank = (int)ox_dims_of(x, dim);
	const int64_t groups = ox_int(o, "num_groups", 0);
	if (groups < 1 || rank < 2 || dim[1] % groups)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "%lld groups do not divide the channels", (long long)groups);
	tj_tensor *y = standardized(site, tj_reshape(wide(site, x), TJ_SHAPE(dim[0], groups, -1)), TJ_AXES(2),
	                            ox_float(o, "epsilon", (double)1e-5f));
	if (o->n->opset < 21) {
		y = tj_add(tj_mul(y, tj_reshape(scale, TJ_SHAPE(1, groups, 1))), tj_reshape(bias, TJ_SHAPE(1, groups, 1)));
		return ox_like(site, tj_reshape(y, dim), x);
	}
	y = tj_reshape(y, dim);
	return ox_like(site, tj_add(tj_mul(y, ox_along(site, scale, 1, rank)), ox_along(site, bias, 1, rank)), x);
}

static int last_axes(ox_call *o, tj_tensor *x, int64_t axes[TJ_MAX_RANK + 1])
{
	const int rank = tj_rank(x), axis = ox_axis(ox_int(o, "axis", -1), rank);
	if (axis < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there: the tensor has %d axes", rank), -1;
	for (int i = axis; i < rank; i++) axes[i - axis] = i;
	axes[rank - axis] = TJ_END_DIM;
	return axis;
}

tj_tensor *ox_layer_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X, *scale = ox_t(o, 1), *bias = ox_t(o, 2);
	int64_t axes[TJ_MAX_RANK + 1];
	const double eps = ox_float(o, "epsilon", (double)1e-5f);
	if (last_axes(o, x, axes) < 0) return NULL;
	tj_tensor *w = wide(site, x), *m = tj_mean(w, axes, true), *d = tj_sub(w, m);
	tj_tensor *inverse = tj_reciprocal(tj_sqrt(tj_add(tj_mean(tj_square(d), axes, true), tj_f(eps))));
	ox_put(o, 1, m);
	ox_put(o, 2, inverse);
	tj_tensor *y = tj_mul(tj_mul(d, inverse), scale);
	return ox_like(site, bias ? tj_add(y, bias) : y, x);
}

tj_tensor *ox_rms_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X, *w = wide(site, x);
	int64_t axes[TJ_MAX_RANK + 1];
	if (last_axes(o, x, axes) < 0) return NULL;
	tj_tensor *y = tj_div(w, tj_sqrt(tj_add(tj_mean(tj_square(w), axes, true), tj_f(ox_float(o, "epsilon", (double)1e-5f)))));
	return ox_like(site, tj_mul(y, ox_t(o, 1)), x);
}

tj_tensor *ox_lrn(ox_call *o, const char *site)
{
	return tj_local_response_norm(X, ox_int(o, "size", 1), ox_float(o, "alpha", (double)1e-4f), ox_float(o, "beta", 0.75),
	                              ox_float(o, "bias", 1));
}

tj_tensor *ox_lp_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	const int axis = ox_axis(ox_int(o, "axis", -1), tj_rank(x));
	if (axis < 0) return ox_fail(o, TJ_ERR_ARG, NULL, "its axis is not there");
	tj_tensor *n = ox_int(o, "p", 2) == 1 ? tj_sum(tj_abs(x), TJ_AXES(axis), true) : tj_sqrt(tj_sum(tj_square(x), TJ_AXES(axis), true));
	return tj_where(tj_eq(n, tj_f(0)), ox_scalar(site, tj_dtype_of(x), 0), tj_div(x, n));
}

tj_tensor *ox_mean_variance_normalization(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	int64_t n, axes[TJ_MAX_RANK + 1] = { 0, 2, 3, TJ_END_DIM };
	const int64_t *v = ox_ints(o, "axes", &n);
	if (n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_LIMIT, NULL, "%lld axes", (long long)n);
	for (int64_t i = 0; v && i < n; i++) axes[i] = v[i], axes[i + 1] = TJ_END_DIM;
	tj_tensor *d = tj_sub(x, tj_mean(x, axes, true));
	return tj_div(d, tj_add(tj_sqrt(tj_mean(tj_square(d), axes, true)), tj_f(1e-9)));
}
