/* SPDX-License-Identifier: MIT */
/* windows: convolutions and pools. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)
enum { AXES = 3, MOST = 1 << 30 }; /* sizes and paddings up to MOST: no sum of two products of them overflows */

typedef struct window {
	int n;
	int64_t size[AXES], stride[AXES], dilation[AXES], before[AXES], after[AXES];
} window;

/* The n numbers of an attribute, or n times the preset; false: it has not n, reported. */
static bool fill(ox_call *o, const char *name, int n, int64_t preset, int64_t *to)
{
	int64_t count;
	const int64_t *v = ox_ints(o, name, &count);
	for (int i = 0; i < n; i++) to[i] = v && i < count ? v[i] : preset;
	return !v || count == n || (ox_fail(o, TJ_ERR_ARG, NULL, "%s has %lld numbers, not %d", name, (long long)count, n), false);
}

static int64_t reach(const window *w, int i) { return (w->size[i] - 1) * w->dilation[i] + 1; }

/* auto_pad: as much padding as gives in / stride, rounded up. */
static void pad_to_same(window *w, tj_tensor *x, bool upper)
{
	for (int i = 0; i < w->n; i++) {
		const int64_t in = tj_dim(x, 2 + i), s = w->stride[i], out = (in + s - 1) / s, all = (out - 1) * s + reach(w, i) - in;
		const int64_t pad = all < 0 ? 0 : all;
		w->before[i] = upper ? pad / 2 : pad - pad / 2;
		w->after[i] = pad - w->before[i];
	}
}

static bool is_padding(int64_t v) { return v >= -MOST && v <= MOST; }

/* The window of a node whose kernel has these sizes (NULL: kernel_shape); false: reported. */
static bool window_of(ox_call *o, tj_tensor *x, const int64_t *size, window *w)
{
	int64_t pads[2 * AXES];
	w->n = tj_rank(x) - 2;
	if (w->n < 1 || w->n > AXES) return ox_fail(o, TJ_ERR_SHAPE, "1 to 3 axes behind [N,C,...]", "x has %d axes", tj_rank(x)), false;
	if (!fill(o, "kernel_shape", w->n, 0, w->size) || !fill(o, "strides", w->n, 1, w->stride) ||
	    !fill(o, "dilations", w->n, 1, w->dilation) || !fill(o, "pads", 2 * w->n, 0, pads))
		return false;
	for (int i = 0; i < w->n; i++) {
		if (size) w->size[i] = size[i];
		w->before[i] = pads[i], w->after[i] = pads[w->n + i];
	}
	for (int i = 0; i < w->n; i++) {
		if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->size[i] > MOST || w->stride[i] > MOST || w->dilation[i] > MOST)
			return ox_fail(o, TJ_ERR_ARG, NULL, "kernel_shape, strides and dilations are 1 or more"), false;
		if (tj_dim(x, 2 + i) > MOST || !is_padding(w->before[i]) || !is_padding(w->after[i]))
			return ox_fail(o, TJ_ERR_LIMIT, NULL, "a size or a padding is beyond %d", MOST), false;
	}
	const char *pad = ox_string(o, "auto_pad", "NOTSET");
	if (!strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER"))
		pad_to_same(w, x, pad[5] == 'U');
	else if (!strcmp(pad, "VALID"))
		memset(w->before, 0, sizeof w->before), memset(w->after, 0, sizeof w->after);
	return true;
}

/* The list that tj_conv() takes, or with sizes tj_max_pool(). */
static tj_dims listed(const window *w, bool sizes, int64_t to[5 * AXES + 1])
{
	int k = 0;
	for (int i = 0; sizes && i < w->n; i++) to[k++] = w->size[i];
	for (int i = 0; i < w->n; i++) to[k++] = w->stride[i];
	for (int i = 0; i < w->n; i++) to[k++] = w->dilation[i];
	for (int i = 0; i < w->n; i++) to[k++] = w->before[i], to[k++] = w->after[i];
	to[k] = TJ_END_DIM;
	return to;
}

static void kernel_sizes(tj_tensor *w, int64_t size[TJ_MAX_RANK])
{
	for (int i = 2; i < tj_rank(w); i++) size[i - 2] = tj_dim(w, i);
}

/* ---- convolutions ---- */
tj_tensor *ox_convolve(ox_call *o, const char *site, tj_tensor *x, tj_tensor *weight)
{
	window w;
	int64_t list[5 * AXES + 1], size[TJ_MAX_RANK];
	if (tj_rank(weight) != tj_rank(x))
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x has %d axes, the weight %d", tj_rank(x), tj_rank(weight));
	kernel_sizes(weight, size);
	if (!window_of(o, x, size, &w)) return NULL;
	return tj_conv(x, weight, ox_int(o, "group", 1), listed(&w, false, list));
}

static tj_tensor *with_bias(ox_call *o, const char *site, tj_tensor *y, tj_tensor *x)
{
	tj_tensor *bias = ox_t(o, 2);
	if (!y) return NULL;
	if (bias && !tj_is_poison(y)) y = tj_add(y, ox_like(site, ox_along(site, bias, 1, tj_rank(x)), y));
	return ox_like(site, y, x);
}

/* Product and bias of narrow floats are rounded together. */
static tj_tensor *widened(const char *site, tj_tensor *x)
{
	return tj_dtype_of(x) == TJ_F16 || tj_dtype_of(x) == TJ_BF16 ? tj_cast(x, TJ_F32) : x;
}

/* Windows of 1: a product with the channels of each place, which share a scale. */
static tj_tensor *quantised(ox_call *o, const char *site, tj_tensor *x)
{
	const tj_weight *w = o->n->weight[0];
	int64_t dim[TJ_MAX_RANK + 1];
	ox_dims_of(ox_t(o, 1), dim);
	tj_tensor *scale, *q = ox_rounded(site, x, 1, &scale), *y = ox_convolve(o, site, q, tj_reshape(tj_cast(w->values, TJ_I32), dim));
	return y ? tj_mul(tj_mul(tj_cast(y, TJ_F32), scale), ox_along(site, w->scale, 1, tj_rank(x))) : NULL;
}

tj_tensor *ox_conv(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	if (o->n->weight[0] && tj_rank(x) == tj_rank(ox_t(o, 1))) return with_bias(o, site, quantised(o, site, x), x);
	return with_bias(o, site, ox_convolve(o, site, widened(site, x), widened(site, ox_t(o, 1))), x);
}

/* output_shape and auto_pad say how much of the result goes. */
static bool shrink(ox_call *o, tj_tensor *x, window *w, const int64_t *extra)
{
	int64_t n;
	const int64_t *shape = ox_ints(o, "output_shape", &n);
	const char *pad = ox_string(o, "auto_pad", "NOTSET");
	const bool same = !strncmp(pad, "SAME", 4), upper = !strcmp(pad, "SAME_UPPER");
	for (int i = 0; i < w->n; i++) {
		if (!is_padding(extra[i])) return ox_fail(o, TJ_ERR_LIMIT, NULL, "output_padding %lld", (long long)extra[i]), false;
		const int64_t in = tj_dim(x, 2 + i), full = (in - 1) * w->stride[i] + reach(w, i) + extra[i];
		if (!shape && !same) {
			w->after[i] -= extra[i];
			continue;
		}
		if (shape && n != w->n && n != w->n + 2) return ox_fail(o, TJ_ERR_ARG, NULL, "output_shape does not fit x"), false;
		const int64_t want = shape ? shape[n - w->n + i] : in * w->stride[i];
		if (want < 1 || want > MOST) return ox_fail(o, TJ_ERR_ARG, NULL, "output_shape does not fit x"), false;
		const int64_t all = full - want;
		w->before[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2; /* what is missing is zeros at the end */
		w->after[i] = all - w->before[i] - extra[i];
	}
	return true;
}

tj_tensor *ox_conv_transpose(ox_call *o, const char *site)
{
	tj_tensor *x = X, *weight = ox_t(o, 1);
	window w;
	int64_t list[5 * AXES + 1], size[TJ_MAX_RANK], extra[AXES];
	if (tj_rank(weight) != tj_rank(x))
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x has %d axes, the weight %d", tj_rank(x), tj_rank(weight));
	kernel_sizes(weight, size);
	if (!window_of(o, x, size, &w)) return NULL;
	if (!fill(o, "output_padding", w.n, 0, extra) || !shrink(o, x, &w, extra)) return NULL;
	tj_tensor *y = tj_conv_transpose(widened(site, x), widened(site, weight), ox_int(o, "group", 1), listed(&w, false, list));
	return with_bias(o, site, y, x);
}

tj_tensor *ox_causal_conv_with_state(ox_call *o, const char *site)
{
	tj_tensor *x = X, *weight = ox_t(o, 1), *bias = ox_t(o, 2), *past = ox_t(o, 3);
	const int64_t k = tj_dim(weight, 2), c = tj_dim(x, 1);
	if (tj_rank(x) != 3 || tj_rank(weight) != 3) return ox_fail(o, TJ_ERR_SHAPE, NULL, "[N,C,L] and [C,1,k] are needed");
	if (!past) past = tj_full(tj_dtype_of(x), TJ_SHAPE(tj_dim(x, 0), c, k - 1), tj_i(0));
	tj_tensor *all = k > 1 ? tj_cat(TJ_LIST(past, x), 2) : x;
	tj_tensor *y = tj_conv(widened(site, all), widened(site, weight), c, TJ_SHAPE(1, 1, 0, 0));
	if (bias) y = tj_add(y, ox_along(site, widened(site, bias), 1, 3));
	const char *act = ox_string(o, "activation", "none");
	ox_put(o, 1, tj_slice(all, 2, tj_dim(all, 2) - (k - 1), TJ_END_DIM, 1));
	return ox_like(site, strcmp(act, "none") ? tj_silu(y) : y, x);
}

/* ---- pools ---- */
/* Padding that is more than half of a window is put around x before. */
static bool is_wide(const window *w)
{
	bool wide = false;
	for (int i = 0; i < w->n; i++) wide |= 2 * w->before[i] > w->size[i] || 2 * w->after[i] > w->size[i];
	return wide;
}

static tj_tensor *padded(const char *site, tj_tensor *x, const window *w, const int64_t *before, const int64_t *after, tj_tensor *value)
{
	int64_t pads[2 * AXES + 1];
	for (int i = 0; i < w->n; i++) pads[2 * i] = before ? before[i] : 0, pads[2 * i + 1] = after[i];
	pads[2 * w->n] = TJ_END_DIM;
	return tj_pad(x, pads, TJ_PAD_CONSTANT, value);
}

/* With ceil_mode the last window may reach beyond the padding, but does not begin there: the elements that it needs behind it. */
static void beyond(tj_tensor *x, const window *w, bool ceil, int64_t more[AXES])
{
	for (int i = 0; i < w->n; i++) {
		const int64_t in = tj_dim(x, 2 + i) + w->before[i], all = in + w->after[i], rest = all - reach(w, i), s = w->stride[i];
		const int64_t last = ceil && rest > 0 ? (rest + s - 1) / s * s : rest;
		more[i] = last >= in || last < rest ? 0 : last - rest;
	}
}

/* x with its padding, for windows without; *ceil is done with, too. x itself if its padding is not wide, unless always. */
static tj_tensor *roomy(const char *site, tj_tensor *x, window *w, tj_tensor *value, bool always, bool *ceil)
{
	int64_t more[AXES];
	if (!always && !is_wide(w)) return x;
	beyond(x, w, *ceil, more);
	for (int i = 0; i < w->n; i++) more[i] += w->after[i];
	tj_tensor *y = padded(site, x, w, w->before, more, value);
	memset(w->before, 0, sizeof w->before), memset(w->after, 0, sizeof w->after);
	*ceil = false;
	return y;
}

static tj_tensor *least(const char *site, tj_dtype t)
{
	return t == TJ_I8 ? tj_i(INT8_MIN) : t == TJ_U8 || t == TJ_BOOL ? tj_i(0) : ((void)site, tj_f(-INFINITY));
}

/* Places in pictures that were padded, as places in the whole of x. */
static tj_tensor *flat_places(ox_call *o, tj_tensor *index, tj_tensor *x, tj_tensor *around, const window *w)
{
	const char *site = o->site;
	tj_tensor *flat = NULL;
	if (!tj_numel(around)) return index;
	int64_t step = tj_numel(around) / (tj_dim(around, 0) * tj_dim(around, 1)), picture = 1;
	const bool columns = ox_int(o, "storage_order", 0);
	int64_t weight[AXES], all = 1;
	for (int i = 0; i < w->n; i++) picture *= tj_dim(x, 2 + i);
	for (int k = 0; k < w->n; k++) {
		const int i = columns ? k : w->n - 1 - k;
		weight[i] = all;
		all *= tj_dim(x, 2 + i);
	}
	for (int i = 0; i < w->n; i++) {
		step /= tj_dim(around, 2 + i);
		tj_tensor *at = tj_sub(tj_remainder(tj_floor_divide(index, tj_i(step)), tj_i(tj_dim(around, 2 + i))), tj_i(w->before[i]));
		flat = flat ? tj_add(flat, tj_mul(at, tj_i(weight[i]))) : tj_mul(at, tj_i(weight[i]));
	}
	const int64_t pictures = tj_dim(x, 0) * tj_dim(x, 1);
	int64_t lead[TJ_MAX_RANK + 1] = { tj_dim(x, 0), tj_dim(x, 1), 1, 1, 1, TJ_END_DIM };
	lead[2 + w->n] = TJ_END_DIM;
	return tj_add(flat, tj_mul(tj_reshape(tj_arange(TJ_I64, 0, pictures, 1), lead), tj_i(picture)));
}

static tj_tensor *pool_with_places(ox_call *o, const char *site, tj_tensor *x, const window *given)
{
	window w = *given;
	bool ceil = ox_int(o, "ceil_mode", 0);
	tj_tensor *around = roomy(site, x, &w, least(site, tj_dtype_of(x)), true, &ceil), *index = NULL;
	tj_pool_opts p = { .size = sizeof p };
	int64_t kernel[AXES + 1];
	for (int i = 0; i < w.n; i++) p.stride[i] = w.stride[i], p.dilation[i] = w.dilation[i], kernel[i] = w.size[i];
	kernel[w.n] = TJ_END_DIM;
	tj_tensor *y = w.n == 1   ? tj_max_pool1d_with_indices(around, kernel, &p, &index)
	               : w.n == 2 ? tj_max_pool2d_with_indices(around, kernel, &p, &index)
	                          : tj_max_pool3d_with_indices(around, kernel, &p, &index);
	if (!tj_is_poison(y)) ox_put(o, 1, flat_places(o, index, x, around, given));
	return y;
}

tj_tensor *ox_max_pool(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	window w;
	int64_t list[5 * AXES + 1];
	if (!window_of(o, x, NULL, &w)) return NULL;
	if (ox_wants(o, 1)) return pool_with_places(o, site, x, &w);
	bool ceil = ox_int(o, "ceil_mode", 0);
	x = roomy(site, x, &w, least(site, tj_dtype_of(x)), false, &ceil);
	return tj_max_pool(x, listed(&w, true, list), ceil);
}

tj_tensor *ox_average_pool(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	window w;
	int64_t list[5 * AXES + 1], dim[TJ_MAX_RANK + 1], more[AXES];
	const bool padding = ox_int(o, "count_include_pad", 0);
	bool ceil = ox_int(o, "ceil_mode", 0);
	if (!window_of(o, x, NULL, &w)) return NULL;
	if (!is_wide(&w)) return tj_avg_pool(x, listed(&w, true, list), ceil, padding ? 0 : -1);
	/* the mean over the elements that count: sums of x and of ones */
	ox_dims_of(x, dim);
	beyond(x, &w, ceil, more);
	tj_tensor *ones = padded(site, tj_full(tj_dtype_of(x), dim, tj_f(1)), &w, w.before, w.after, tj_f(padding));
	ones = padded(site, ones, &w, NULL, more, tj_f(0));
	x = roomy(site, x, &w, tj_f(0), true, &ceil);
	listed(&w, true, list);
	return tj_div(tj_avg_pool(x, list, false, 1), tj_avg_pool(ones, list, false, 1));
}

static tj_tensor *root(const char *site, tj_tensor *x, double p) { return p == 1 ? x : p == 2 ? tj_sqrt(x) : tj_pow(x, tj_f(1 / p)); }

static tj_tensor *power(const char *site, tj_tensor *x, double p)
{
	x = tj_abs(x);
	return p == 1 ? x : p == 2 ? tj_square(x) : tj_pow(x, tj_f(p));
}

tj_tensor *ox_lp_pool(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	window w;
	int64_t list[5 * AXES + 1];
	const double p = (double)ox_int(o, "p", 2);
	if (!window_of(o, x, NULL, &w)) return NULL;
	bool ceil = ox_int(o, "ceil_mode", 0);
	x = roomy(site, power(site, x, p), &w, tj_f(0), false, &ceil);
	return root(site, tj_avg_pool(x, listed(&w, true, list), ceil, 1), p);
}

static tj_dims behind_channels(tj_tensor *x, int64_t axes[TJ_MAX_RANK + 1])
{
	int n = 0;
	for (int i = 2; i < tj_rank(x); i++) axes[n++] = i;
	axes[n] = TJ_END_DIM;
	return axes;
}

tj_tensor *ox_global_average_pool(ox_call *o, const char *site)
{
	int64_t axes[TJ_MAX_RANK + 1];
	return tj_mean(X, behind_channels(X, axes), true);
}

tj_tensor *ox_global_max_pool(ox_call *o, const char *site)
{
	int64_t axes[TJ_MAX_RANK + 1];
	return tj_amax(X, behind_channels(X, axes), true);
}

tj_tensor *ox_global_lp_pool(ox_call *o, const char *site)
{
	int64_t axes[TJ_MAX_RANK + 1];
	const double p = (double)ox_int(o, "p", 2);
	return root(site, tj_sum(power(site, X, p), behind_channels(X, axes), true), p);
}

tj_tensor *ox_max_unpool(ox_call *o, const char *site)
{
	tj_tensor *x = X, *index = ox_t(o, 1);
	window w;
	int64_t dim[TJ_MAX_RANK + 1], all = 1, from[TJ_MAX_RANK + 1];
	const ox_host *shape = ox_has(o, 2) ? ox_h(o, 2) : NULL;
	if (o->r->failed || !window_of(o, x, NULL, &w)) return NULL;
	const int rank = (int)ox_dims_of(x, from);
	memcpy(dim, from, sizeof dim);
	for (int i = 0; i < w.n; i++) from[2 + i] = dim[2 + i] = (dim[2 + i] - 1) * w.stride[i] - w.before[i] - w.after[i] + w.size[i];
	if (shape && (!shape->i || shape->n != rank)) return ox_fail(o, TJ_ERR_SHAPE, NULL, "output_shape is no list of %d sizes", rank);
	for (int i = 0; i < rank; i++) {
		if (shape) dim[i] = shape->i[i];
		if (from[i] < 0 || dim[i] < 0 || dim[i] > MOST || __builtin_mul_overflow(all, from[i], &all))
			return ox_fail(o, TJ_ERR_SHAPE, NULL, "its result would have %lld elements along axis %d", (long long)dim[i], i);
	}
	tj_tensor *y = tj_put(tj_full(tj_dtype_of(x), TJ_SHAPE(all), tj_i(0)), tj_reshape(index, TJ_SHAPE(-1)), tj_reshape(x, TJ_SHAPE(-1)),
	                      false);
	y = tj_reshape(y, from);
	int64_t pads[2 * TJ_MAX_RANK + 1];
	for (int i = 0; i < rank; i++) pads[2 * i] = 0, pads[2 * i + 1] = dim[i] - from[i];
	pads[2 * rank] = TJ_END_DIM;
	return shape ? tj_pad(y, pads, TJ_PAD_CONSTANT, tj_i(0)) : y;
}

tj_tensor *ox_col2im(ox_call *o, const char *site)
{
	const ox_host *image = ox_h(o, 1), *block = ox_h(o, 2);
	int64_t strides[AXES], dilations[AXES], pads[2 * AXES], size[AXES + 1], all[AXES + 1], kernel[AXES], out = 1, places = 1, blocks = 1;
	tj_tensor *x = X;
	if (!image || !block || !image->i || !block->i || image->n != block->n || image->n > AXES || image->n < 1)
		return ox_fail(o, TJ_ERR_ARG, NULL, "1 to %d sizes of the picture and of the block are needed", AXES);
	const int n = (int)image->n;
	if (!fill(o, "strides", n, 1, strides) || !fill(o, "dilations", n, 1, dilations) || !fill(o, "pads", 2 * n, 0, pads)) return NULL;
	for (int i = 0; i < n; i++) {
		kernel[i] = block->i[i];
		if (!is_padding(image->i[i]) || !is_padding(pads[i]) || !is_padding(pads[n + i]) || strides[i] < 1 || dilations[i] < 1 ||
		    kernel[i] < 1 || strides[i] > MOST || dilations[i] > MOST || kernel[i] > MOST)
			return ox_fail(o, TJ_ERR_ARG, NULL, "a size is below 1, or beyond %d", MOST);
		all[i] = image->i[i] + pads[i] + pads[n + i];
		const int64_t rest = all[i] - (kernel[i] - 1) * dilations[i] - 1;
		size[i] = rest / strides[i] + 1;
		if (rest < 0 || __builtin_mul_overflow(out, all[i], &out) || __builtin_mul_overflow(places, kernel[i], &places) ||
		    __builtin_mul_overflow(blocks, size[i], &blocks))
			return ox_fail(o, TJ_ERR_SHAPE, NULL, "its block does not fit its picture");
	}
	if (tj_rank(x) != 3 || tj_dim(x, 1) % places || tj_dim(x, 2) != blocks)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x is not [N,C * %lld,%lld]", (long long)places, (long long)blocks);
	/* Each element of x is added at its place in the padded picture. */
	tj_tensor *at = NULL;
	for (int i = 0; i < n; i++) {
		tj_tensor *k = ox_along(site, tj_mul(tj_arange(TJ_I64, 0, kernel[i], 1), tj_i(dilations[i])), i, 2 * n);
		tj_tensor *l = ox_along(site, tj_mul(tj_arange(TJ_I64, 0, size[i], 1), tj_i(strides[i])), n + i, 2 * n);
		tj_tensor *p = tj_add(k, l);
		at = at ? tj_add(tj_mul(at, tj_i(all[i])), p) : p;
	}
	const int64_t batch = tj_dim(x, 0), channels = tj_dim(x, 1) / places;
	x = tj_reshape(x, TJ_SHAPE(batch * channels, -1));
	tj_tensor *y = tj_index_add(tj_full(tj_dtype_of(x), TJ_SHAPE(batch * channels, out), tj_i(0)), 1, tj_reshape(at, TJ_SHAPE(-1)), x);
	int64_t dim[AXES + 3] = { batch, channels };
	for (int i = 0; i < n; i++) dim[2 + i] = all[i];
	dim[2 + n] = TJ_END_DIM;
	y = tj_reshape(y, dim);
	for (int i = 0; i < n; i++) y = tj_slice(y, 2 + i, pads[i], pads[i] + image->i[i], 1);
	return y;
}
