/* SPDX-License-Identifier: MIT */
/* Norms: subtract a mean and divide by a deviation of some axes, then scale by a weight and add a bias. Narrow floats are computed in f32
 * and rounded once. */
#include "functions/functions.h"

/* What a norm of this file computes with. x is wide; mean and var are broadcast to it; weight and bias, or NULL, too. */
typedef struct norm {
	const char *site, *name;
	tj_tensor *x, *mean, *var, *weight, *bias;
	double eps;
} norm;

static tj_tensor *normalized(const norm *q, tj_dtype to)
{
	const char *site = q->site;
	tj_tensor *y = tj_mul(tj_sub(q->x, q->mean), tj_rsqrt(tj_add(q->var, tj_f(q->eps))));
	if (q->weight) y = tj_mul(y, q->weight);
	if (q->bias) y = tj_add(y, q->bias);
	return tj_dtype_of(y) == to ? y : tj_cast(y, to);
}

/* ---- what may be wrong ---- */
/* x is a float of [N,C,...]. NULL, or poison. */
static tj_tensor *bad_x(const char *site, const char *name, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	if (!fn_is_float(tj_dtype_of(x)))
		return tj_fail(TJ_ERR_DTYPE, name, "cast it first: tj_cast(x, TJ_F32)", "x is %s, no float", tj_dtype_name(tj_dtype_of(x)));
	if (tj_rank(x) < 2) return tj_fail(TJ_ERR_SHAPE, name, "axes of examples and channels come first: [N,C,...]", "x has %d axes", tj_rank(x));
	return NULL;
}

/* t is [channels], or NULL. NULL, or poison. */
static tj_tensor *bad_param(const char *site, const char *name, const char *what, tj_tensor *t, int64_t channels)
{
	tj_tensor *bad = t ? fn_bad(site, name, what, t) : NULL;
	if (!t || bad) return bad;
	if (tj_rank(t) == 1 && tj_dim(t, 0) == channels) return NULL;
	return tj_fail(TJ_ERR_SHAPE, name, "one number for each channel, axis 1 of x", "%s is not [%lld]", what, (long long)channels);
}

static tj_tensor *bad_params(const char *site, const char *name, tj_tensor *const *t, int64_t channels)
{
	static const char *const what[] = { "the weight", "the bias", "the running mean", "the running variance" };
	tj_tensor *bad = NULL;
	for (int i = 0; i < 4 && !bad; i++) bad = bad_param(site, name, what[i], t[i], channels);
	return bad;
}

/* [C] for x of [N,C,...], in the dtype of computation */
static tj_tensor *by_channel(const char *site, tj_tensor *t, int rank)
{
	int64_t shape[TJ_MAX_RANK + 1];
	if (!t) return NULL;
	for (int i = 1; i < rank; i++) shape[i - 1] = i == 1 ? tj_dim(t, 0) : 1;
	shape[rank - 1] = TJ_END_DIM;
	return fn_widened(site, rank == 2 ? t : tj_reshape(t, shape));
}

/* ---- batch_norm, instance_norm: statistics of a channel ---- */
/* running = running * (1 - momentum) + now * momentum; false after an error. The gradient ends here. */
static bool follows(const char *site, tj_tensor *running, tj_tensor *now, double momentum)
{
	if (!running) return true;
	tj_tensor *y = tj_add(tj_mul(running, tj_f(1 - momentum)), tj_mul(tj_stop_gradient(now), tj_f(momentum)));
	return tj_assign(running, y) == TJ_OK;
}

/* n: number of elements behind each mean; the running variance is that of a sample. examples: their statistics are averaged first. */
static bool update(const norm *q, tj_tensor *const *running, double momentum, int64_t n, bool examples)
{
	const char *site = q->site;
	tj_tensor *now[] = { q->mean, tj_mul(q->var, tj_f((double)n / (double)(n - 1))) };
	for (int i = 0; i < 2; i++) {
		if (!running[i]) continue;
		if (examples) now[i] = tj_mean(now[i], TJ_AXES(0), false);
		if (!follows(site, running[i], tj_reshape(now[i], TJ_SHAPE(-1)), momentum)) return false;
	}
	return true;
}

/* each: every example has statistics of its own (instance_norm). t: weight, bias, running mean and variance, or NULL. */
static tj_tensor *by_statistics(const char *site, const char *name, bool each, tj_tensor *x, tj_tensor *const *t, const tj_norm_opts *opts)
{
	NN_OPTIONS(tj_norm_opts, o, opts);
	tj_tensor *bad = bad_x(site, name, x);
	int64_t axes[TJ_MAX_RANK + 1];
	int count = 0;
	if (!bad) bad = bad_params(site, name, t, tj_dim(x, 1));
	if (bad) return bad;
	if (!(o.momentum >= 0 && o.momentum <= 1) || !(o.eps >= 0))
		return tj_fail(TJ_ERR_ARG, name, ".momentum is the part of the new value, from 0 to 1; 0 is the default",
		               ".momentum is %g, .eps is %g", o.momentum, o.eps);
	const int rank = tj_rank(x);
	const bool running = t[2] && t[3], own = o.training || (each && !running);
	if (!running && (t[2] || t[3])) return tj_fail(TJ_ERR_ARG, name, "give both, or neither", "one of the running mean and variance is NULL");
	if (!own && !running)
		return tj_fail(TJ_ERR_ARG, name, "set .training, or give the cells of a training",
		               "without .training the running mean and variance are needed");
	norm q = { site,
		   name,
		   fn_widened(site, x),
		   by_channel(site, t[2], rank),
		   by_channel(site, t[3], rank),
		   by_channel(site, t[0], rank),
		   by_channel(site, t[1], rank),
		   o.eps > 0 ? o.eps : 1e-5 };
	if (!own) return normalized(&q, tj_dtype_of(x));
	for (int i = each ? 2 : 0; i < rank; i++)
		if (i != 1) axes[count++] = i;
	axes[count] = TJ_END_DIM;
	int64_t n = 1;
	for (int i = 0; i < count; i++) n *= tj_dim(x, (int)axes[i]);
	if (n < 2) return tj_fail(TJ_ERR_SHAPE, name, "a variance needs two values", "there is %s for each mean", n ? "one value" : "no value");
	q.mean = tj_mean(q.x, axes, true);
	q.var = tj_var(q.x, axes, 0, true);
	tj_tensor *y = normalized(&q, tj_dtype_of(x));
	if (!tj_is_poison(y) && o.training && !update(&q, t + 2, o.momentum > 0 ? o.momentum : 0.1, n, each))
		return tj_fail(TJ_ERR_ARG, name, "running statistics are cells: tj_param()", "the running mean or variance could not be assigned");
	return y;
}

tj_tensor *tj_batch_norm_at(const char *site, tj_tensor *x, tj_tensor *running_mean, tj_tensor *running_var, tj_tensor *weight,
                            tj_tensor *bias, const tj_norm_opts *opts)
{
	return by_statistics(site, "batch_norm", false, x, (tj_tensor *const[]){ weight, bias, running_mean, running_var }, opts);
}

tj_tensor *tj_instance_norm_at(const char *site, tj_tensor *x, tj_tensor *running_mean, tj_tensor *running_var, tj_tensor *weight,
                               tj_tensor *bias, const tj_norm_opts *opts)
{
	return by_statistics(site, "instance_norm", true, x, (tj_tensor *const[]){ weight, bias, running_mean, running_var }, opts);
}

/* ---- group_norm ---- */
tj_tensor *tj_group_norm_at(const char *site, tj_tensor *x, int64_t groups, tj_tensor *weight, tj_tensor *bias, double eps)
{
	static const char name[] = "group_norm";
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *bad = bad_x(site, name, x);
	if (!bad) bad = bad_params(site, name, (tj_tensor *const[]){ weight, bias, NULL, NULL }, tj_dim(x, 1));
	if (bad) return bad;
	x = fn_high(site, x);
	const int rank = tj_rank(x);
	const int64_t channels = tj_dim(x, 1);
	if (groups < 1 || channels % groups)
		return tj_fail(TJ_ERR_SHAPE, name, "each group has as many channels", "%lld groups do not divide %lld channels",
		               (long long)groups, (long long)channels);
	int64_t each = channels / groups;
	for (int i = 2; i < rank; i++) each *= tj_dim(x, i);
	tj_tensor *wide = fn_widened(site, x), *g = tj_reshape(wide, TJ_SHAPE(tj_dim(x, 0), groups, each));
	norm q = { site, name, g, tj_mean(g, TJ_AXES(2), true), tj_var(g, TJ_AXES(2), 0, true), NULL, NULL, eps };
	tj_tensor *y = tj_reshape(normalized(&q, tj_dtype_of(wide)), fn_shape(x, shape));
	if (weight) y = tj_mul(y, by_channel(site, weight, rank));
	if (bias) y = tj_add(y, by_channel(site, bias, rank));
	return tj_dtype_of(y) == tj_dtype_of(x) ? y : tj_cast(y, tj_dtype_of(x));
}

/* ---- over several last axes: those rows of the table that norm the last axis, on all of them as one ---- */
/* t: weight and bias, or NULL. Gives both flat, and x with one axis for those of `shape`; NULL: else poison after an error. */
static tj_tensor *flattened(const char *site, const char *name, tj_tensor **x, tj_dims shape, tj_tensor **t, const double *by_default,
                            int n)
{
	static const char *const what[] = { "the weight", "the bias" };
	int64_t flat[TJ_MAX_RANK + 1], all = 1;
	tj_tensor *bad = fn_bad(site, name, "x", *x);
	if (bad) return bad;
	const int rank = tj_rank(*x), axes = fn_entries(shape, TJ_MAX_RANK);
	bool fits = axes >= 1 && axes <= rank;
	for (int i = 0; fits && i < axes; i++) fits = shape[i] == tj_dim(*x, rank - axes + i), all *= shape[i];
	if (!fits)
		return tj_fail(TJ_ERR_SHAPE, name, "as in tj_layer_norm_over(x, TJ_SHAPE(16, 16), weight, bias, 1e-5) for x of [...,16,16]",
		               "the sizes are not those of the last axes of x");
	for (int k = 0; k < n; k++) {
		if (t[k] && (bad = fn_bad(site, name, what[k], t[k]))) return bad;
		fits = !t[k] || tj_rank(t[k]) == axes;
		for (int i = 0; fits && t[k] && i < axes; i++) fits = tj_dim(t[k], i) == shape[i];
		if (!fits)
			return tj_fail(TJ_ERR_SHAPE, name, "it has one number for each element of the last axes",
			               "%s has not the given sizes", what[k]);
		t[k] = t[k] ? tj_reshape(t[k], TJ_SHAPE(all)) : tj_to(tj_full(tj_dtype_of(*x), TJ_SHAPE(all), tj_f(by_default[k])), tj_device_of(*x));
	}
	fn_shape(*x, flat);
	flat[rank - axes] = all;
	flat[rank - axes + 1] = TJ_END_DIM;
	*x = tj_reshape(*x, flat);
	return NULL;
}

/* Weights that are left out are 1 and -0.0: multiplying by them and adding them folds. */
static const double nothing[] = { 1, -0.0 };

tj_tensor *tj_layer_norm_over_at(const char *site, tj_tensor *x, tj_dims shape, tj_tensor *weight, tj_tensor *bias, double eps)
{
	int64_t as_was[TJ_MAX_RANK + 1];
	tj_tensor *t[] = { weight, bias }, *flat = x, *bad = flattened(site, "layer_norm_over", &flat, shape, t, nothing, 2);
	return bad ? bad : tj_reshape(tj_layer_norm(flat, t[0], t[1], eps), fn_shape(x, as_was));
}

tj_tensor *tj_rms_norm_over_at(const char *site, tj_tensor *x, tj_dims shape, tj_tensor *weight, double eps)
{
	int64_t as_was[TJ_MAX_RANK + 1];
	tj_tensor *t[] = { weight }, *flat = x, *bad = flattened(site, "rms_norm_over", &flat, shape, t, nothing, 1);
	return bad ? bad : tj_reshape(tj_rms_norm(flat, t[0], eps), fn_shape(x, as_was));
}

/* ---- local_response_norm ---- */
tj_tensor *tj_local_response_norm_at(const char *site, tj_tensor *x, int64_t size, double alpha, double beta, double k)
{
	static const char name[] = "local_response_norm";
	tj_tensor *bad = bad_x(site, name, x);
	if (bad) return bad;
	if (size < 1)
		return tj_fail(TJ_ERR_ARG, name, "the number of channels that an element is divided by", "the size is %lld",
		               (long long)size);
	tj_tensor *wide = fn_widened(site, x), *last = tj_transpose(tj_square(wide), 1, -1); /* channels last */
	tj_tensor *mean = tj_transpose(tj_avg_pool(last, TJ_SHAPE(size, 1, 1, size / 2, (size - 1) / 2), false, 0), 1, -1);
	tj_tensor *y = tj_div(wide, tj_pow(tj_add(tj_mul(mean, tj_f(alpha)), tj_f(k)), tj_f(beta)));
	return tj_dtype_of(y) == tj_dtype_of(x) ? y : tj_cast(y, tj_dtype_of(x));
}
