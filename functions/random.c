/* SPDX-License-Identifier: MIT */
/* Random numbers of other distributions, dropout, and tensors like others. All are made of uniform and normal numbers, each of which
 * depends on the key, the ordinal of the op and the index of its element alone. */
#include "functions/functions.h"

#include <math.h>

enum { ALPHA = 0, SCALE = 1 }; /* ways to drop */
static const double SELU_LEAST = 1.7580993408473766; /* -selu(-inf): what is dropped becomes -SELU_LEAST */
#define MOST_WHOLE (INT64_C(1) << 51)

/* Probabilities are compared with numbers of 24 bits, or 53 for f64. */
static tj_dtype wide(tj_dtype t) { return t == TJ_F64 ? TJ_F64 : TJ_F32; }

static bool is_probability(double p) { return p >= 0 && p <= 1; }

/* x without a training, or poison after an error; else NULL. */
static tj_tensor *undropped(const char *site, const char *name, tj_tensor *x, double p, bool training)
{
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	if (!is_probability(p)) return tj_fail(TJ_ERR_ARG, name, "p is the probability to be dropped, from 0 to 1", "p is %g", p);
	if (!training) return x;
	return fn_is_float(tj_dtype_of(x)) ? NULL
	                                   : tj_fail(TJ_ERR_DTYPE, name, "cast it first: tj_cast(x, TJ_F32)", "x is %s, no float",
	                                             tj_dtype_name(tj_dtype_of(x)));
}

/* The mask has a size of 1 where x drops whole slices. p is a number of the run: it is in no trace. */
static tj_tensor *drop(const char *site, int way, tj_tensor *x, double p, tj_dims mask)
{
	tj_tensor *u = tj_to(tj_uniform(wide(tj_dtype_of(x)), mask), tj_device_of(x)), *keep = tj_ge(u, tj_f(p));
	if (way == SCALE) return tj_where(keep, tj_mul(x, tj_f(p < 1 ? 1 / (1 - p) : 0)), tj_f(0));
	const double a = p < 1 ? 1 / sqrt((SELU_LEAST * SELU_LEAST * p + 1) * (1 - p)) : 0;
	return tj_add(tj_mul(tj_where(keep, x, tj_f(-SELU_LEAST)), tj_f(a)), tj_f(SELU_LEAST * a * p));
}

static tj_tensor *dropout(const char *site, const char *name, int way, tj_tensor *x, double p, bool training)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *y = undropped(site, name, x, p, training);
	return y ? y : drop(site, way, x, p, fn_shape(x, shape));
}

tj_tensor *tj_dropout_at(const char *site, tj_tensor *x, double p, bool training)
{
	return dropout(site, "dropout", SCALE, x, p, training);
}
tj_tensor *tj_alpha_dropout_at(const char *site, tj_tensor *x, double p, bool training)
{
	return dropout(site, "alpha_dropout", ALPHA, x, p, training);
}

/* n: axes behind the channels; 0: all but the first two. */
static tj_tensor *channels(const char *site, const char *name, int way, int n, tj_tensor *x, double p, bool training)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *y = undropped(site, name, x, p, training);
	if (!y && n) y = fn_bad_spatial(site, name, x, n);
	if (y) return y;
	const int rank = tj_rank(x), kept = n ? rank - n : 2;
	if (rank < 2) return tj_fail(TJ_ERR_SHAPE, name, "axes of examples and channels come first: [N,C,...]", "x has %d axes", rank);
	fn_shape(x, shape);
	for (int i = kept; i < rank; i++) shape[i] = 1;
	return drop(site, way, x, p, shape);
}

tj_tensor *tj_dropout1d_at(const char *site, tj_tensor *x, double p, bool training)
{
	return channels(site, "dropout1d", SCALE, 1, x, p, training);
}
tj_tensor *tj_dropout2d_at(const char *site, tj_tensor *x, double p, bool training)
{
	return channels(site, "dropout2d", SCALE, 2, x, p, training);
}
tj_tensor *tj_dropout3d_at(const char *site, tj_tensor *x, double p, bool training)
{
	return channels(site, "dropout3d", SCALE, 3, x, p, training);
}
tj_tensor *tj_feature_alpha_dropout_at(const char *site, tj_tensor *x, double p, bool training)
{
	return channels(site, "feature_alpha_dropout", ALPHA, 0, x, p, training);
}

/* ---- distributions ---- */
static tj_tensor *no_float(const char *site, const char *name, tj_dtype t)
{
	return fn_is_float(t) ? NULL : tj_fail(TJ_ERR_DTYPE, name, "TJ_F32, for example", "%s is no float", tj_dtype_name(t));
}

/* Narrow floats are computed in f32 and rounded once. */
static tj_tensor *rounded(const char *site, tj_tensor *y, tj_dtype t) { return tj_dtype_of(y) == t ? y : tj_cast(y, t); }

tj_tensor *tj_bernoulli_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *p)
{
	int64_t own[TJ_MAX_RANK + 1];
	tj_tensor *bad = fn_bad(site, "bernoulli", "p", p);
	if (bad) return bad;
	tj_tensor *u = tj_to(tj_uniform(wide(tj_dtype_of(p)), shape ? shape : fn_shape(p, own)), tj_device_of(p));
	return tj_cast(tj_lt(u, tj_rank(p) && shape ? tj_expand(p, shape) : p), dtype);
}

/* Whether a dtype has all integers from least to most; floats round. */
static bool holds(tj_dtype t, int64_t least, int64_t most)
{
	static const struct {
		int64_t least, most;
	} range[] = { [TJ_BOOL] = { 0, 1 },
		      [TJ_U8] = { 0, UINT8_MAX },
		      [TJ_I8] = { INT8_MIN, INT8_MAX },
		      [TJ_I16] = { INT16_MIN, INT16_MAX },
		      [TJ_I32] = { INT32_MIN, INT32_MAX },
		      [TJ_I64] = { INT64_MIN, INT64_MAX } };
	return fn_is_float(t) || (least >= range[t].least && most <= range[t].most);
}

tj_tensor *tj_randint_at(const char *site, tj_dtype dtype, tj_dims shape, int64_t low, int64_t high)
{
	if ((unsigned)dtype >= TJ_DTYPE_COUNT) return tj_fail(TJ_ERR_DTYPE, "randint", "TJ_I64, for example", "%d is not a dtype", (int)dtype);
	if (low >= high)
		return tj_fail(TJ_ERR_ARG, "randint", "high itself is never drawn", "there is no integer from %lld to below %lld",
		               (long long)low, (long long)high);
	if (low < -MOST_WHOLE || high > MOST_WHOLE)
		return tj_fail(TJ_ERR_LIMIT, "randint", "add larger numbers afterwards", "low and high are at most 2^51 from 0");
	if (!holds(dtype, low, high - 1))
		return tj_fail(TJ_ERR_ARG, "randint", "choose a wider dtype", "%s does not hold all of %lld to %lld", tj_dtype_name(dtype),
		               (long long)low, (long long)high - 1);
	tj_tensor *u = tj_uniform(TJ_F64, shape); /* 53 bits: the product is below high - low after it is rounded */
	return rounded(site, tj_add(tj_cast(tj_mul(u, tj_f((double)(high - low))), TJ_I64), tj_i(low)), dtype);
}

tj_tensor *tj_randperm_at(const char *site, int64_t n)
{
	if (n < 0) return tj_fail(TJ_ERR_ARG, "randperm", "the integers from 0 to n - 1 are mixed", "n is %lld", (long long)n);
	return tj_argsort(tj_uniform(TJ_F64, TJ_SHAPE(n)), 0, false);
}

/* -log(1 - u) */
static tj_tensor *waited(const char *site, tj_dtype t, tj_dims shape) { return tj_neg(tj_log1p(tj_neg(tj_uniform(wide(t), shape)))); }

tj_tensor *tj_exponential_at(const char *site, tj_dtype dtype, tj_dims shape, double rate)
{
	tj_tensor *bad = no_float(site, "exponential", dtype);
	if (bad) return bad;
	if (!(rate > 0)) return tj_fail(TJ_ERR_ARG, "exponential", "the mean is 1 / rate", "the rate is %g, not above 0", rate);
	return rounded(site, tj_div(waited(site, dtype, shape), tj_f(rate)), dtype);
}

tj_tensor *tj_random_normal_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *mean, tj_tensor *std)
{
	tj_tensor *bad = no_float(site, "random_normal", dtype);
	if (!bad) bad = fn_bad(site, "random_normal", "mean", mean);
	if (!bad) bad = fn_bad(site, "random_normal", "std", std);
	if (bad) return bad;
	tj_tensor *z = tj_normal(wide(dtype), shape);
	tj_tensor *y = tj_mul(z, tj_rank(std) ? tj_expand(std, shape) : std);
	return rounded(site, tj_add(y, tj_rank(mean) ? tj_expand(mean, shape) : mean), dtype);
}

tj_tensor *tj_random_uniform_at(const char *site, tj_dtype dtype, tj_dims shape, tj_tensor *low, tj_tensor *high)
{
	tj_tensor *bad = no_float(site, "random_uniform", dtype);
	if (!bad) bad = fn_bad(site, "random_uniform", "low", low);
	if (!bad) bad = fn_bad(site, "random_uniform", "high", high);
	if (bad) return bad;
	tj_tensor *u = tj_uniform(wide(dtype), shape), *from = tj_rank(low) ? tj_expand(low, shape) : low,
		  *to = tj_rank(high) ? tj_expand(high, shape) : high;
	return rounded(site, tj_add(tj_mul(u, tj_sub(to, from)), from), dtype);
}

/* The number of trials up to the first success: 1 + the whole part of log(1 - u) / log(1 - p). */
tj_tensor *tj_geometric_at(const char *site, tj_dtype dtype, tj_dims shape, double p)
{
	static const char name[] = "geometric";
	if ((unsigned)dtype >= TJ_DTYPE_COUNT || dtype == TJ_BOOL)
		return tj_fail(TJ_ERR_DTYPE, name, "TJ_I64, for example", "%s",
		               dtype == TJ_BOOL ? "a bool counts no trials" : "no such dtype");
	if (!(p > 0 && p <= 1)) return tj_fail(TJ_ERR_ARG, name, "the probability of a success, above 0, at most 1", "p is %g", p);
	const tj_dtype t = dtype == TJ_I64 || dtype == TJ_I32 ? TJ_F64 : wide(dtype);
	tj_tensor *trials = tj_add(tj_floor(tj_div(waited(site, t, shape), tj_f(-log1p(-p)))), tj_f(1));
	return rounded(site, trials, dtype);
}

tj_tensor *tj_cauchy_at(const char *site, tj_dtype dtype, tj_dims shape, double median, double sigma)
{
	tj_tensor *bad = no_float(site, "cauchy", dtype);
	if (bad) return bad;
	if (!(sigma > 0)) return tj_fail(TJ_ERR_ARG, "cauchy", "half of the numbers are within sigma of the median", "sigma is %g", sigma);
	tj_tensor *turn = tj_mul(tj_sub(tj_uniform(wide(dtype), shape), tj_f(0.5)), tj_f(3.14159265358979323846));
	return rounded(site, tj_add(tj_mul(tj_tan(turn), tj_f(sigma)), tj_f(median)), dtype);
}

tj_tensor *tj_log_normal_at(const char *site, tj_dtype dtype, tj_dims shape, double mean, double std)
{
	tj_tensor *bad = no_float(site, "log_normal", dtype);
	if (bad) return bad;
	if (!(std > 0)) return tj_fail(TJ_ERR_ARG, "log_normal", "the deviation of the logarithm, above 0", "std is %g", std);
	return rounded(site, tj_exp(tj_add(tj_mul(tj_normal(wide(dtype), shape), tj_f(std)), tj_f(mean))), dtype);
}

/* ---- random activations ---- */
/* Of a time of 0 the logarithm is infinite, so half of the least step takes its place. */
tj_tensor *tj_gumbel_softmax_at(const char *site, tj_tensor *logits, double tau, bool hard, int64_t axis)
{
	static const char name[] = "gumbel_softmax";
	int64_t shape[TJ_MAX_RANK + 1];
	int a;
	tj_tensor *bad = fn_bad_float(site, name, "the logits", logits);
	if (!bad) bad = fn_bad_axis(site, name, logits, axis, &a);
	if (bad) return bad;
	if (!(tau > 0)) return tj_fail(TJ_ERR_ARG, name, "the temperature, above 0; the lower, the nearer to one-hot", "tau is %g", tau);
	const tj_dtype t = tj_dtype_of(logits);
	tj_tensor *time = tj_to(waited(site, wide(t), fn_shape(logits, shape)), tj_device_of(logits));
	tj_tensor *noise = tj_neg(tj_log(tj_maximum(time, tj_f(t == TJ_F64 ? 0x1p-54 : 0x1p-25))));
	tj_tensor *y = tj_softmax(tj_div(tj_add(fn_widened(site, logits), noise), tj_f(tau)), a);
	if (hard) {
		fn_dims s = fn_shape_ones(tj_rank(y));
		if (s.n) s.dim[a] = tj_dim(y, a);
		tj_tensor *place = fn_reshape(site, fn_arange(site, y, tj_rank(y) ? tj_dim(y, a) : 1), &s), *one = tj_eq(place, tj_argmax(y, a, true));
		y = tj_add(tj_cast(one, tj_dtype_of(y)), tj_sub(y, tj_stop_gradient(y)));
	}
	return rounded(site, y, t);
}

tj_tensor *tj_rrelu_at(const char *site, tj_tensor *x, double low, double high, bool training)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *bad = fn_bad_float(site, "rrelu", "x", x);
	if (bad) return bad;
	if (!(low <= high) || isinf(low) || isinf(high))
		return tj_fail(TJ_ERR_ARG, "rrelu", "1.0 / 8 and 1.0 / 3 are usual", "slopes from %g to %g", low, high);
	if (!training) return tj_leaky_relu(x, (low + high) / 2);
	tj_tensor *u = tj_to(tj_uniform(wide(tj_dtype_of(x)), fn_shape(x, shape)), tj_device_of(x)),
		  *slope = tj_add(tj_mul(u, tj_f(high - low)), tj_f(low));
	return tj_where(tj_gt(x, tj_i(0)), x, rounded(site, tj_mul(x, slope), tj_dtype_of(x)));
}

/* ---- multinomial ---- */
/* The first place at which the sum so far is above a uniform part of the whole sum. */
static tj_tensor *with_replacement(const char *site, tj_tensor *p, tj_dims shape)
{
	const int64_t n = tj_dim(p, -1);
	tj_tensor *sums = tj_cumsum(p, -1), *all = tj_slice(sums, -1, n - 1, n, 1), *u = tj_to(tj_uniform(TJ_F64, shape), tj_device_of(p));
	return tj_minimum(tj_searchsorted(sums, tj_mul(u, all), true), tj_i(n - 1));
}

/* A race in which i arrives after a time with rate p[i]: the first one is i with probability p[i] / sum, and so are those of the rest. */
static tj_tensor *without_replacement(const char *site, tj_tensor *p, int64_t n)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *first, *time = tj_to(waited(site, TJ_F64, fn_shape(p, shape)), tj_device_of(p));
	tj_topk(tj_div(p, tj_maximum(time, tj_f(0x1p-60))), n, -1, true, &first);
	return first;
}

/* p; a fault if a row has a weight below 0 or one that is not finite, or weights that are all 0. */
static tj_tensor *right_weights(const char *site, tj_tensor *p)
{
	tj_tensor *each = tj_all(tj_logical_and(tj_ge(p, tj_f(0)), tj_isfinite(p)), TJ_AXES(-1), false),
		  *some = tj_any(tj_gt(p, tj_f(0)), TJ_AXES(-1), false);
	tj_tensor *right = tj_all(tj_logical_and(each, some), TJ_ALL, false),
		  *zero = tj_to(tj_full(TJ_F64, TJ_SHAPE(1), tj_f(0)), tj_device_of(p));
	const char *named = tj_site_for(site, "multinomial", "the weights of a row are all 0, or one is below 0 or not finite",
	                                "one weight for each outcome");
	return tj_add(p, tj_index_select_at(named, zero, 0, tj_where(right, tj_i(0), tj_i(1))));
}

tj_tensor *tj_multinomial_at(const char *site, tj_tensor *p, int64_t n, bool replacement)
{
	static const char name[] = "multinomial";
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *bad = fn_bad(site, name, "p", p);
	if (bad) return bad;
	const int rank = tj_rank(p);
	if (!fn_is_float(tj_dtype_of(p)))
		return tj_fail(TJ_ERR_DTYPE, name, "cast it first: tj_cast(p, TJ_F32)", "p is %s, no float", tj_dtype_name(tj_dtype_of(p)));
	if (rank < 1 || tj_dim(p, -1) < 1)
		return tj_fail(TJ_ERR_SHAPE, name, "the last axis has a weight for each outcome",
		               rank ? "p has no outcomes" : "p has no axis");
	if (n < 1) return tj_fail(TJ_ERR_ARG, name, "the number of outcomes to draw", "n is %lld", (long long)n);
	if (!replacement && n > tj_dim(p, -1))
		return tj_fail(TJ_ERR_ARG, name, "set replacement", "%lld of %lld outcomes cannot be drawn without replacement",
		               (long long)n, (long long)tj_dim(p, -1));
	p = right_weights(site, tj_cast(p, TJ_F64));
	if (!replacement) return without_replacement(site, p, n);
	fn_shape(p, shape);
	shape[rank - 1] = n;
	return with_replacement(site, p, shape);
}

/* ---- like another tensor ---- */
tj_tensor *tj_full_like_at(const char *site, tj_tensor *x, tj_tensor *value)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *bad = fn_bad(site, "full_like", "x", x);
	return bad ? bad : tj_to(tj_full(tj_dtype_of(x), fn_shape(x, shape), value), tj_device_of(x));
}

static tj_tensor *random_like(const char *site, const char *name, bool normal, tj_tensor *x)
{
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	const tj_dtype t = tj_dtype_of(x);
	if ((bad = no_float(site, name, t))) return bad;
	fn_shape(x, shape);
	return tj_to(normal ? tj_normal(t, shape) : tj_uniform(t, shape), tj_device_of(x));
}

tj_tensor *tj_rand_like_at(const char *site, tj_tensor *x) { return random_like(site, "rand_like", false, x); }
tj_tensor *tj_randn_like_at(const char *site, tj_tensor *x) { return random_like(site, "randn_like", true, x); }
