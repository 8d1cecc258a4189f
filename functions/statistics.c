/* SPDX-License-Identifier: MIT */
/* Statistics over axes: spreads, what leaves out NaN, covariance. Narrow floats are computed in f32 and rounded once. */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *as_was(const char *site, tj_tensor *y, tj_dtype t) { return tj_is_poison(y) || tj_dtype_of(y) == t ? y : tj_cast(y, t); }

static tj_tensor *bad_float(const char *site, const char *op, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || fn_is_float(tj_dtype_of(x))) return bad;
	return tj_fail(TJ_ERR_DTYPE, op, "cast it first: tj_cast(x, TJ_F32)", "x is %s, a float is needed", tj_dtype_name(tj_dtype_of(x)));
}

/* sqrt(v), whose gradient at 0 is 0. */
static tj_tensor *root(const char *site, tj_tensor *v)
{
	tj_tensor *zero = tj_eq(v, tj_f(0));
	return tj_where(zero, tj_f(0), tj_sqrt(tj_where(zero, tj_f(1), v)));
}

/* ---- spread ---- */
tj_tensor *tj_std_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim)
{
	tj_tensor *bad = bad_float(site, "std", x);
	return bad ? bad : as_was(site, root(site, tj_var(fn_widened(site, x), axes, correction, keepdim)), tj_dtype_of(x));
}

tj_tensor *tj_var_mean_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim, tj_tensor **mean)
{
	tj_tensor *bad = bad_float(site, "var_mean", x);
	if (mean) *mean = bad ? bad : tj_mean(x, axes, keepdim);
	return bad ? bad : tj_var(x, axes, correction, keepdim);
}

tj_tensor *tj_std_mean_at(const char *site, tj_tensor *x, tj_dims axes, double correction, bool keepdim, tj_tensor **mean)
{
	tj_tensor *bad = bad_float(site, "std_mean", x);
	if (mean) *mean = bad ? bad : tj_mean(x, axes, keepdim);
	return bad ? bad : tj_std_at(site, x, axes, correction, keepdim);
}

tj_tensor *tj_aminmax_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim, tj_tensor **most)
{
	if (most) *most = tj_amax(x, axes, keepdim);
	return tj_amin(x, axes, keepdim);
}

/* ---- without NaN ---- */
tj_tensor *tj_nansum_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim)
{
	tj_tensor *bad = fn_bad(site, "nansum", "x", x);
	if (bad) return bad;
	return tj_sum(fn_is_float(tj_dtype_of(x)) ? tj_where(tj_isnan(x), tj_f(0), x) : x, axes, keepdim);
}

tj_tensor *tj_nanmean_at(const char *site, tj_tensor *x, tj_dims axes, bool keepdim)
{
	tj_tensor *bad = bad_float(site, "nanmean", x);
	if (bad) return bad;
	tj_tensor *w = fn_widened(site, x), *nan = tj_isnan(w), *count = tj_sum(tj_logical_not(nan), axes, keepdim);
	return as_was(site, tj_div(tj_sum(tj_where(nan, tj_f(0), w), axes, keepdim), count), tj_dtype_of(x));
}

tj_tensor *tj_count_nonzero_at(const char *site, tj_tensor *x, tj_dims axes)
{
	return tj_sum(!tj_is_poison(x) && tj_dtype_of(x) == TJ_BOOL ? x : tj_ne(x, tj_i(0)), axes, false);
}

/* ---- covariance ---- */
static int64_t observations(tj_tensor *x) { return tj_rank(x) ? tj_dim(x, -1) : 1; }

/* w: weights of the observations, NULL: 1 each; by: what the sum of products is divided by. */
static tj_tensor *covariance(const char *site, tj_tensor *x, tj_tensor *w, tj_tensor *by)
{
	x = tj_reshape(x, TJ_SHAPE(tj_rank(x) == 2 ? tj_dim(x, 0) : 1, observations(x)));
	tj_tensor *mean = w ? tj_div(tj_sum(tj_mul(x, w), TJ_AXES(1), true), tj_sum(w, TJ_ALL, false)) : tj_mean(x, TJ_AXES(1), true),
		  *d = tj_sub(x, mean);
	return tj_div(tj_matmul(w ? tj_mul(d, w) : d, tj_transpose(d, 0, 1)), by);
}

static tj_tensor *bad_weights(const char *site, const char *what, tj_tensor *w, tj_tensor *x)
{
	tj_tensor *bad = w ? fn_bad(site, "cov", what, w) : NULL;
	if (bad || !w) return bad;
	if (what[0] == 'f' && fn_is_float(tj_dtype_of(w)))
		return tj_fail(TJ_ERR_DTYPE, "cov", "weights with a fraction are aweights", "%s are %s, integers are needed", what,
		               tj_dtype_name(tj_dtype_of(w)));
	if (tj_rank(w) == 1 && tj_dim(w, 0) == observations(x)) return NULL;
	return tj_fail(TJ_ERR_SHAPE, "cov", "one for each observation", "%s have %d axes and %lld elements, there are %lld observations",
	               what, tj_rank(w), (long long)tj_numel(w), (long long)observations(x));
}

/* The weights; one below 0 is a fault, also in a compiled function. */
static tj_tensor *not_below_zero(const char *site, tj_tensor *w)
{
	const char *named = tj_site_for(site, "cov", "a weight is below 0", "fweights and aweights are 0 or more");
	return tj_index_select_at(named, w, 0, tj_where(tj_lt(w, tj_i(0)), tj_i(-1), fn_arange(site, w, tj_numel(w))));
}

/* The sum of the weights, less the correction: of an observation that counts a times it takes a part in proportion to a. */
static tj_tensor *freedom(const char *site, tj_tensor *w, tj_tensor *a, double correction)
{
	tj_tensor *sum = tj_sum(w, TJ_ALL, false),
		  *less = a ? tj_mul(tj_div(tj_sum(tj_mul(w, a), TJ_ALL, false), sum), tj_f(correction)) : tj_f(correction);
	return tj_maximum(tj_sub(sum, less), tj_i(0));
}

/* The dtype of the covariance: weights that are floats promote. */
static tj_dtype joint(tj_dtype x, tj_tensor *w)
{
	const tj_dtype t = w && fn_is_float(tj_dtype_of(w)) ? tj_dtype_of(w) : x;
	return t != x && fn_is_narrow(t) && fn_is_narrow(x) ? TJ_F32 : t > x ? t : x;
}

tj_tensor *tj_cov_at(const char *site, tj_tensor *x, double correction, tj_tensor *fweights, tj_tensor *aweights)
{
	tj_tensor *bad = fn_bad(site, "cov", "x", x), *w = NULL, *a = NULL;
	if (bad) return bad;
	if (!fn_is_float(tj_dtype_of(x))) x = tj_cast(x, TJ_F32);
	if (tj_rank(x) > 2)
		return tj_fail(TJ_ERR_SHAPE, "cov", "a row for each variable, a column for each observation",
		               "x has %d axes, at most 2 are possible", tj_rank(x));
	if ((bad = bad_weights(site, "fweights", fweights, x)) || (bad = bad_weights(site, "aweights", aweights, x))) return bad;
	const tj_dtype t = joint(tj_dtype_of(x), aweights), wide = fn_is_narrow(t) ? TJ_F32 : t;
	if (aweights) w = a = tj_cast(not_below_zero(site, aweights), wide);
	if (fweights) w = tj_cast(not_below_zero(site, fweights), wide), w = a ? tj_mul(w, a) : w;
	tj_tensor *c = covariance(site, tj_cast(x, wide), w,
	                          w ? freedom(site, w, a, correction) : tj_f(fmax((double)observations(x) - correction, 0)));
	c = as_was(site, c, t);
	return tj_is_poison(c) || tj_numel(c) != 1 ? c : tj_reshape(c, TJ_0D);
}

tj_tensor *tj_corrcoef_at(const char *site, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, "corrcoef", "x", x);
	if (bad) return bad;
	if (!fn_is_float(tj_dtype_of(x))) x = tj_cast(x, TJ_F32);
	if (tj_rank(x) > 2)
		return tj_fail(TJ_ERR_SHAPE, "corrcoef", "a row for each variable, a column for each observation",
		               "x has %d axes, at most 2 are possible", tj_rank(x));
	tj_tensor *c = covariance(site, fn_widened(site, x), NULL, tj_f(fmax((double)observations(x) - 1, 0))),
		  *d = tj_sqrt(tj_diagonal(c, 0, 0, 1));
	c = tj_clamp(tj_div(tj_div(c, tj_unsqueeze(d, 1)), d), tj_i(-1), tj_i(1));
	c = as_was(site, c, tj_dtype_of(x));
	return tj_is_poison(c) || tj_numel(c) != 1 ? c : tj_reshape(c, TJ_0D);
}

/* ---- norms and distances ---- */
/* The norm of x, a float that is not narrow. At 0 its gradient is 0. */
static tj_tensor *norm(const char *site, tj_tensor *x, double p, tj_dims axes, bool keepdim)
{
	tj_tensor *a = tj_abs(x);
	if (isinf(p)) return p > 0 ? tj_amax(a, axes, keepdim) : tj_amin(a, axes, keepdim);
	if (p == 0) return tj_sum(tj_cast(tj_ne(x, tj_f(0)), tj_dtype_of(x)), axes, keepdim);
	if (p == 1) return tj_sum(a, axes, keepdim);
	if (p == 2) return root(site, tj_sum(tj_square(x), axes, keepdim));
	tj_tensor *zero = tj_eq(a, tj_f(0)), *y = tj_where(zero, tj_f(p < 0 ? INFINITY : 0), tj_pow(tj_where(zero, tj_f(1), a), tj_f(p))),
		  *sum = tj_sum(y, axes, keepdim);
	zero = tj_eq(sum, tj_f(0));
	return tj_where(zero, tj_f(p < 0 ? INFINITY : 0), tj_pow(tj_where(zero, tj_f(1), sum), tj_f(1 / p)));
}

/* Integers are f32, as in all functions of floats. */
static tj_tensor *float_of(const char *site, tj_tensor *x)
{
	return fn_is_float(tj_dtype_of(x)) ? fn_widened(site, x) : tj_cast(x, TJ_F32);
}
static tj_dtype float_dtype(tj_tensor *x) { return fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32; }

tj_tensor *tj_norm_at(const char *site, tj_tensor *x, double p, tj_dims axes, bool keepdim)
{
	tj_tensor *bad = fn_bad(site, "norm", "x", x);
	if (bad) return bad;
	if (isnan(p)) return tj_fail(TJ_ERR_ARG, "norm", "1, 2, INFINITY or another number", "the order is NaN");
	x = fn_high(site, x);
	return as_was(site, norm(site, float_of(site, x), p, axes, keepdim), float_dtype(x));
}

static tj_tensor *difference(const char *site, tj_tensor *a, tj_tensor *b) { return tj_sub(fn_high(site, a), fn_high(site, b)); }

tj_tensor *tj_dist_at(const char *site, tj_tensor *a, tj_tensor *b, double p)
{
	return tj_norm_at(site, difference(site, a, b), p, TJ_ALL, false);
}

tj_tensor *tj_pairwise_distance_at(const char *site, tj_tensor *a, tj_tensor *b, double p, double eps, bool keepdim)
{
	return tj_norm_at(site, tj_add(difference(site, a, b), tj_f(eps)), p, TJ_AXES(-1), keepdim);
}

/* Each slice along the axis whose norm is larger is scaled to that norm. */
tj_tensor *tj_renorm_at(const char *site, tj_tensor *x, double p, int axis, double most)
{
	int a;
	int64_t others[TJ_MAX_RANK + 1];
	tj_tensor *bad;
	int n = 0;
	if ((bad = fn_bad_axis(site, "renorm", x, axis, &a)) || (bad = bad_float(site, "renorm", x))) return bad;
	for (int i = 0; i < tj_rank(x); i++)
		if (i != a) others[n++] = i;
	others[n] = TJ_END_DIM;
	if (tj_rank(x) < 2) return tj_fail(TJ_ERR_SHAPE, "renorm", "tj_unsqueeze() gives it an axis", "x has %d axes, 2 are needed", tj_rank(x));
	x = fn_high(site, x);
	tj_tensor *w = fn_widened(site, x), *size = norm(site, w, p, others, true), *far = tj_gt(size, tj_f(most));
	return as_was(site, tj_mul(w, tj_where(far, tj_div(tj_f(most), tj_add(size, tj_f(1e-7))), tj_f(1))), tj_dtype_of(x));
}

/* sqrt(|a|^2 + |b|^2 - 2 ab): one product. What rounding makes negative is 0. */
static tj_tensor *by_product(const char *site, tj_tensor *a, tj_tensor *b)
{
	const tj_dtype x = float_dtype(a), y = float_dtype(b), t = x == y ? x : fn_is_narrow(x) && fn_is_narrow(y) ? TJ_F32 : x > y ? x : y;
	a = float_of(site, a), b = float_of(site, b);
	tj_tensor *sizes = tj_add(tj_sum(tj_square(a), TJ_AXES(-1), true), tj_unsqueeze(tj_sum(tj_square(b), TJ_AXES(-1), false), -2));
	tj_tensor *square = tj_sub(sizes, tj_mul(tj_matmul(a, tj_transpose(b, -1, -2)), tj_f(2)));
	return as_was(site, root(site, tj_maximum(square, tj_f(0))), t);
}

/* Differences are summed as they are made: nothing of the size of all of them is stored. */
tj_tensor *tj_cdist_at(const char *site, tj_tensor *a, tj_tensor *b, double p, tj_cdist_mode mode)
{
	enum { FEW_ROWS = 25 }; /* as in PyTorch */
	tj_tensor *bad;
	if ((bad = fn_bad(site, "cdist", "a", a)) || (bad = fn_bad(site, "cdist", "b", b))) return bad;
	if (tj_rank(a) < 2 || tj_rank(b) < 2 || tj_dim(a, -1) != tj_dim(b, -1))
		return tj_fail(TJ_ERR_SHAPE, "cdist", "a is [...,M,K], b is [...,N,K]", "%d and %d axes, points of %lld and %lld numbers",
		               tj_rank(a), tj_rank(b), (long long)tj_dim(a, -1), (long long)tj_dim(b, -1));
	if ((unsigned)mode > TJ_CDIST_AUTO) return tj_fail(TJ_ERR_ARG, "cdist", "TJ_CDIST_EXACT, for example", "there is no mode %d", (int)mode);
	if (!tj_dim(a, -1)) p = 1; /* points without numbers lie in one place, whatever p is */
	const bool many = mode == TJ_CDIST_AUTO && (tj_dim(a, -2) > FEW_ROWS || tj_dim(b, -2) > FEW_ROWS);
	if (p == 2 && (mode == TJ_CDIST_PRODUCT || many) && tj_autocast_dtype() == TJ_F32)
		return by_product(site, a, b); /* .autocast would round the product */
	return tj_norm_at(site, difference(site, tj_unsqueeze(a, -2), tj_unsqueeze(b, -3)), p, TJ_AXES(-1), false);
}

tj_tensor *tj_pdist_at(const char *site, tj_tensor *x, double p)
{
	tj_tensor *bad = fn_bad(site, "pdist", "x", x);
	if (bad) return bad;
	if (tj_rank(x) != 2)
		return tj_fail(TJ_ERR_SHAPE, "pdist", "a row for each point; tj_cdist() takes batches", "x has %d axes, not 2", tj_rank(x));
	tj_tensor *pair = tj_to(tj_triu_indices(tj_dim(x, 0), tj_dim(x, 0), 1), tj_device_of(x));
	return tj_norm_at(site,
	                  difference(site, tj_index_select(x, 0, tj_select(pair, 0, 0)), tj_index_select(x, 0, tj_select(pair, 0, 1))), p,
	                  TJ_AXES(-1), false);
}

tj_tensor *tj_cosine_similarity_at(const char *site, tj_tensor *a, tj_tensor *b, int axis, double eps)
{
	tj_tensor *both[2], *bad;
	int at;
	if (!tj_broadcast_tensors(TJ_LIST(a, b), both)) return both[0];
	if ((bad = fn_bad_axis(site, "cosine_similarity", both[0], axis, &at))) return bad;
	for (int k = 0; k < 2; k++) both[k] = fn_high(site, both[k]);
	const tj_dtype t = float_dtype(tj_add(both[0], both[1]));
	for (int k = 0; k < 2; k++) both[k] = tj_normalize(float_of(site, both[k]), at, eps);
	return as_was(site, tj_sum(tj_mul(both[0], both[1]), tj_rank(both[0]) ? TJ_AXES(at) : TJ_ALL, false), t);
}
