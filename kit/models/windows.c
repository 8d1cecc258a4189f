/* SPDX-License-Identifier: MIT */
/* windows: convolutions and pools. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)
enum { AXES = 3 };

typedef struct window {
	int n;
	int64_t size[AXES], stride[AXES], dilation[AXES], before[AXES], after[AXES];
} window;

static void fill(int64_t *to, const int64_t *v, int64_t count, int n, int64_t preset)
{
	for (int i = 0; i < n; i++) to[i] = v && i < count ? v[i] : preset;
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

/* The window of a node whose kernel has these sizes (NULL: kernel_shape); false: reported. */
static bool window_of(ox_call *o, tj_tensor *x, const int64_t *size, window *w)
{
	int64_t n, count;
	const int64_t *v;
	w->n = tj_rank(x) - 2;
	if (w->n < 1 || w->n > AXES) return ox_fail(o, TJ_ERR_SHAPE, "1 to 3 axes behind [N,C,...]", "x has %d axes", tj_rank(x)), false;
	v = size ? size : ox_ints(o, "kernel_shape", &n);
	if (!v || (!size && n != w->n)) return ox_fail(o, TJ_ERR_ARG, NULL, "kernel_shape does not fit x"), false;
	fill(w->size, v, w->n, w->n, 1);
	v = ox_ints(o, "strides", &count), fill(w->stride, v, count, w->n, 1);
	v = ox_ints(o, "dilations", &count), fill(w->dilation, v, count, w->n, 1);
	v = ox_ints(o, "pads", &count), fill(w->before, v, count, w->n, 0);
	fill(w->after, v && count == 2 * w->n ? v + w->n : NULL, w->n, w->n, 0);
	for (int i = 0; i < w->n; i++)
		if (w->size[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->size[i] > INT32_MAX || w->stride[i] > INT32_MAX ||
		    w->dilation[i] > INT32_MAX)
			return ox_fail(o, TJ_ERR_ARG, NULL, "kernel_shape, strides and dilations are 1 or more"), false;
	const char *pad = ox_string(o, "auto_pad", "NOTSET");
	if (!strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER"))
		pad_to_same(w, x, pad[5] == 'U');
	else if (!strcmp(pad, "VALID"))
		fill(w->before, NULL, 0, w->n, 0), fill(w->after, NULL, 0, w->n, 0);
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

static bool kernel_sizes(tj_tensor *w, int64_t size[TJ_MAX_RANK])
{
	for (int i = 2; i < tj_rank(w); i++) size[i - 2] = tj_dim(w, i);
	return true;
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
		const int64_t in = tj_dim(x, 2 + i), full = (in - 1) * w->stride[i] + reach(w, i) + extra[i];
		if (!shape && !same) {
			w->after[i] -= extra[i];
			continue;
		}
		if (shape && n != w->n && n != w->n + 2) return ox_fail(o, TJ_ERR_ARG, NULL, "output_shape does not fit x"), false;
		const int64_t want = shape ? shape[n - w->n + i] : in * w->stride[i], all = full - want;
		if (want < 1 || want > INT32_MAX) return ox_fail(o, TJ_ERR_ARG, NULL, "output_shape does not fit x"), false;
		w->before[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2; /* what is missing is zeros at the end */
		w->after[i] = all - w->before[i] - extra[i];
	}
	return true;
}

tj_tensor *ox_conv_transpose(ox_call *o, const char *site)
{
	tj_tensor *x = X, *weight = ox_t(o, 1);
	window w;
	int64_t list[5 * AXES + 1], size[TJ_MAX_RANK], extra[AXES], n;
	if (tj_rank(weight) != tj_rank(x))
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x has %d axes, the weight %d", tj_rank(x), tj_rank(weight));
	kernel_sizes(weight, size);
	if (!window_of(o, x, size, &w)) return NULL;
	const int64_t *v = ox_ints(o, "output_padding", &n);
	fill(extra, v, n, w.n, 0);
	if (!shrink(o, x, &w, extra)) return NULL;
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
static tj_tensor *roomy(const char *site, tj_tensor *x, window *w, tj_tensor *value, bool always)
{
	int64_t pads[2 * AXES + 1];
	bool wide = always;
	for (int i = 0; i < w->n; i++) wide |= 2 * w->before[i] > w->size[i] || 2 * w->after[i] > w->size[i];
	for (int i = 0; i < w->n && wide; i++) pads[2 * i] = w->before[i], pads[2 * i + 1] = w->after[i], w->before[i] = w->after[i] = 0;
	pads[2 * w->n] = TJ_END_DIM;
	return wide ? tj_pad(x, pads, TJ_PAD_CONSTANT, value) : x;
}

static tj_tensor *least(const char *site, tj_dtype t)
{
	return t == TJ_I8 ? tj_i(INT8_MIN) : t == TJ_U8 || t == TJ_BOOL ? tj_i(0) : ((void)site, tj_f(-INFINITY));
}

/* Places in pictures that were padded, as places in the whole of x. */
static tj_tensor *flat_places(ox_call *o, tj_tensor *index, tj_tensor *x, tj_tensor *padded, const window *w)
{
	const char *site = o->site;
	tj_tensor *flat = NULL;
	int64_t step = tj_numel(padded) / (tj_dim(padded, 0) * tj_dim(padded, 1)), picture = 1;
	const bool columns = ox_int(o, "storage_order", 0);
	int64_t weight[AXES], all = 1;
	for (int i = 0; i < w->n; i++) picture *= tj_dim(x, 2 + i);
	for (int k = 0; k < w->n; k++) {
		const int i = columns ? k : w->n - 1 - k;
		weight[i] = all;
		all *= tj_dim(x, 2 + i);
	}
	for (int i = 0; i < w->n; i++) {
		step /= tj_dim(padded, 2 + i);
		tj_tensor *at = tj_sub(tj_remainder(tj_floor_divide(index, tj_i(step)), tj_i(tj_dim(padded, 2 + i))), tj_i(w->before[i]));
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
	tj_tensor *padded = roomy(site, x, &w, least(site, tj_dtype_of(x)), true), *index = NULL;
	tj_pool_opts p = { .size = sizeof p, .ceil = ox_int(o, "ceil_mode", 0) };
	int64_t kernel[AXES + 1];
	for (int i = 0; i < w.n; i++) p.stride[i] = w.stride[i], p.dilation[i] = w.dilation[i], kernel[i] = w.size[i];
	kernel[w.n] = TJ_END_DIM;
	tj_tensor *y = w.n == 1   ? tj_max_pool1d_with_indices(padded, kernel, &p, &index)
	               : w.n == 2 ? tj_max_pool2d_with_indices(padded, kernel, &p, &index)
	                          : tj_max_pool3d_with_indices(padded, kernel, &p, &index);
	if (!tj_is_poison(y)) ox_put(o, 1, flat_places(o, index, x, padded, given));
	return y;
}

tj_tensor *ox_max_pool(ox_call *o, const char *site)
{
	tj_tensor *x = X;
	window w;
	int64_t list[5 * AXES + 1];
	if (!window_of(o, x, NULL, &w)) return NULL;
	if (ox_wants(o, 1)) return pool_with_places(o, site, x, &w);
	x = roomy(site, x, &w, least(site, tj_dtype_of(x)), false);
	return tj_max_pool(x, listed(&w, true, list), ox_int(o, "ceil_mode", 0));
}

tj_tensor *ox_average_pool(ox_call *o, const char *site)
{
	tj_tensor *x = X, *ones = NULL;
	window w;
	int64_t list[5 * AXES + 1];
	const bool ceil = ox_int(o, "ceil_mode", 0), padding = ox_int(o, "count_include_pad", 0);
	if (!window_of(o, x, NULL, &w)) return NULL;
	window was = w;
	tj_tensor *y = roomy(site, x, &w, tj_f(0), false);
	if (y != x && !padding) { /* the mean over the elements: sums of x and of ones */
		int64_t dim[TJ_MAX_RANK + 1];
		ox_dims_of(x, dim);
		ones = roomy(site, tj_full(tj_dtype_of(x), dim, tj_f(1)), &was, tj_f(0), false);
		tj_tensor *sum = tj_avg_pool(y, listed(&w, true, list), ceil, 1);
		return tj_div(sum, tj_avg_pool(ones, list, ceil, 1));
	}
	return tj_avg_pool(y, listed(&w, true, list), ceil, padding ? 0 : -1);
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
	x = roomy(site, power(site, x, p), &w, tj_f(0), false);
	return root(site, tj_avg_pool(x, listed(&w, true, list), ox_int(o, "ceil_mode", 0), 1), p);
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
	for (int i = 0; shape && i < rank && i < shape->n; i++) dim[i] = shape->i[i];
	for (int i = 0; i < rank; i++) all *= from[i];
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
	int64_t count, strides[AXES], dilations[AXES], pads[2 * AXES], size[AXES + 1], all[AXES + 1], kernel[AXES], out = 1, places = 1;
	tj_tensor *x = X;
	if (!image || !block || !image->i || !block->i || image->n != block->n || image->n > AXES || image->n < 1)
		return ox_fail(o, TJ_ERR_ARG, NULL, "1 to %d sizes of the picture and of the block are needed", AXES);
	const int n = (int)image->n;
	const int64_t *v = ox_ints(o, "strides", &count);
	fill(strides, v, count, n, 1);
	v = ox_ints(o, "dilations", &count), fill(dilations, v, count, n, 1);
	v = ox_ints(o, "pads", &count), fill(pads, v, count, 2 * n, 0);
	for (int i = 0; i < n; i++) {
		kernel[i] = block->i[i];
		all[i] = image->i[i] + pads[i] + pads[n + i];
		if (strides[i] < 1 || dilations[i] < 1 || kernel[i] < 1 || all[i] < 1)
			return ox_fail(o, TJ_ERR_ARG, NULL, "a size is below 1");
		size[i] = (all[i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1;
		out *= all[i], places *= kernel[i];
	}
	/* Each element of x is added at its place in the padded picture. */
	tj_tensor *at = NULL;
	for (int i = 0; i < n; i++) {
		tj_tensor *k = ox_along(site, tj_mul(tj_arange(TJ_I64, 0, kernel[i], 1), tj_i(dilations[i])), i, 2 * n);
		tj_tensor *l = ox_along(site, tj_mul(tj_arange(TJ_I64, 0, size[i], 1), tj_i(strides[i])), n + i, 2 * n);
		tj_tensor *p = tj_add(k, l);
		at = at ? tj_add(tj_mul(at, tj_i(all[i])), p) : p;
	}
	const int64_t batch = tj_dim(x, 0), channels = places ? tj_dim(x, 1) / places : 0;
	x = tj_reshape(x, TJ_SHAPE(batch * channels, -1));
	tj_tensor *y = tj_index_add(tj_full(tj_dtype_of(x), TJ_SHAPE(batch * channels, out), tj_i(0)), 1, tj_reshape(at, TJ_SHAPE(-1)), x);
	int64_t dim[AXES + 3] = { batch, channels };
	for (int i = 0; i < n; i++) dim[2 + i] = all[i];
	dim[2 + n] = TJ_END_DIM;
	y = tj_reshape(y, dim);
	for (int i = 0; i < n; i++) y = tj_slice(y, 2 + i, pads[i], pads[i] + image->i[i], 1);
	return y;
}
