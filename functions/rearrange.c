/* SPDX-License-Identifier: MIT */
/* Channels and places change their parts: pixel_shuffle and its like, windows as columns and back, pools that say where their elements
 * were. */
#include "functions/functions.h"

#include <math.h>

enum { AXES = 3 };

/* ---- shuffles ---- */
static tj_tensor *pixels(const char *site, const char *name, bool back, tj_tensor *x, int64_t r)
{
	int64_t shape[TJ_MAX_RANK + 3], axes[TJ_MAX_RANK + 3];
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	const int rank = tj_rank(x), c = rank - 3;
	if (rank < 3 || rank > TJ_MAX_RANK - 2) return tj_fail(TJ_ERR_SHAPE, name, "[...,C,H,W]", "x has %d axes", rank);
	const int64_t channels = tj_dim(x, c), h = tj_dim(x, c + 1), w = tj_dim(x, c + 2);
	if (r < 1) return tj_fail(TJ_ERR_ARG, name, "each place becomes a square of so many", "the factor is %lld", (long long)r);
	if (back ? h % r || w % r : r > channels + 1 || channels % (r * r))
		return tj_fail(TJ_ERR_SHAPE, name, back ? "[...,C,H * r,W * r]" : "[...,C * r * r,H,W]",
		               "the factor %lld does not divide [%lld,%lld,%lld]", (long long)r, (long long)channels, (long long)h,
		               (long long)w);
	const int64_t apart[] = { channels / (r * r), r, r, h, w }, together[] = { channels, h / r, r, w / r, r },
		      to[] = { channels / (r * r), h * r, w * r }, from[] = { channels * r * r, h / r, w / r };
	static const int forth[] = { 0, 3, 1, 4, 2 }, other[] = { 0, 2, 4, 1, 3 }; /* C,r,r,H,W -> C,H,r,W,r, and back */
	fn_shape(x, shape);
	for (int i = 0; i < 5; i++) shape[c + i] = back ? together[i] : apart[i];
	for (int i = 0; i < c + 5; i++) axes[i] = i < c ? i : c + (back ? other : forth)[i - c];
	shape[c + 5] = axes[c + 5] = TJ_END_DIM;
	tj_tensor *y = tj_permute(tj_reshape(x, shape), axes);
	for (int i = 0; i < 3; i++) shape[c + i] = back ? from[i] : to[i];
	shape[c + 3] = TJ_END_DIM;
	return tj_reshape(y, shape);
}

tj_tensor *tj_pixel_shuffle_at(const char *site, tj_tensor *x, int64_t factor) { return pixels(site, "pixel_shuffle", false, x, factor); }
tj_tensor *tj_pixel_unshuffle_at(const char *site, tj_tensor *x, int64_t factor)
{
	return pixels(site, "pixel_unshuffle", true, x, factor);
}

tj_tensor *tj_channel_shuffle_at(const char *site, tj_tensor *x, int64_t groups)
{
	static const char name[] = "channel_shuffle";
	int64_t shape[TJ_MAX_RANK + 1], apart[TJ_MAX_RANK + 2];
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	if (tj_rank(x) < 2 || tj_rank(x) >= TJ_MAX_RANK) return tj_fail(TJ_ERR_SHAPE, name, "[N,C,...]", "x has %d axes", tj_rank(x));
	if (groups < 1 || tj_dim(x, 1) % groups)
		return tj_fail(TJ_ERR_SHAPE, name, "each group has as many channels", "%lld groups do not divide %lld channels",
		               (long long)groups, (long long)tj_dim(x, 1));
	fn_shape(x, shape);
	apart[0] = shape[0];
	apart[1] = groups;
	apart[2] = shape[1] / groups;
	for (int i = 2; i <= tj_rank(x); i++) apart[i + 1] = shape[i];
	return tj_reshape(tj_transpose(tj_reshape(x, apart), 1, 2), shape);
}

/* ---- windows as columns ---- */
/* size: of the picture; count: of windows */
typedef struct windows { int64_t kernel[2], stride[2], padding[2], dilation[2], size[2], count[2]; } windows;

/* NULL, or poison. */
static tj_tensor *bad_windows(const char *site, const char *name, windows *w, tj_dims kernel, const tj_pool_opts *opts)
{
	NN_OPTIONS(tj_pool_opts, o, opts);
	if (fn_entries(kernel, 2) != 2) return tj_fail(TJ_ERR_ARG, name, "as in tj_im2col(x, TJ_SHAPE(3, 3), NULL)", "the window needs 2 sizes");
	if (o.ceil || o.divisor || o.exclude_padding)
		return tj_fail(TJ_ERR_ARG, name, "only strides, paddings and dilations",
		               ".ceil, .divisor and .exclude_padding are for pools");
	for (int i = 0; i < 2; i++) {
		w->kernel[i] = kernel[i];
		w->stride[i] = o.stride[i] ? o.stride[i] : 1;
		w->padding[i] = o.padding[i];
		w->dilation[i] = o.dilation[i] ? o.dilation[i] : 1;
		const int64_t room = w->size[i] + 2 * w->padding[i] - (w->kernel[i] - 1) * w->dilation[i] - 1;
		if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->padding[i] < 0)
			return tj_fail(TJ_ERR_ARG, name, "sizes, strides and dilations are 1 or more, paddings 0 or more",
			               "the window is none along axis %d", i);
		if (room < 0) return tj_fail(TJ_ERR_SHAPE, name, "pad more", "a window is larger than the picture");
		w->count[i] = room / w->stride[i] + 1;
	}
	return NULL;
}

tj_tensor *tj_im2col_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts)
{
	static const char name[] = "im2col";
	windows w;
	tj_tensor *bad = fn_bad_spatial(site, name, x, 2);
	if (bad) return bad;
	for (int i = 0; i < 2; i++) w.size[i] = tj_dim(x, i - 2);
	if ((bad = bad_windows(site, name, &w, kernel, opts))) return bad;
	tj_tensor *all = fn_batched(site, x, 2),
		  *y = tj_pad(all, TJ_SHAPE(w.padding[0], w.padding[0], w.padding[1], w.padding[1]), TJ_PAD_CONSTANT, tj_i(0));
	y = tj_unfold(tj_unfold(y, 2, w.kernel[0], w.stride[0], w.dilation[0]), 3, w.kernel[1], w.stride[1], w.dilation[1]); /* N,C,oh,ow,kh,kw */
	y = tj_reshape(tj_permute(y, TJ_AXES(0, 1, 4, 5, 2, 3)),
	               TJ_SHAPE(tj_dim(all, 0), tj_dim(all, 1) * w.kernel[0] * w.kernel[1], w.count[0] * w.count[1]));
	return fn_as_was(site, y, x, 2);
}

/* x [..,windows,places]: adds each place of each window to where it came from; [..,size]. Window by window that is one slice for each
 * place. */
static tj_tensor *folded(const char *site, tj_tensor *x, const windows *w, int i)
{
	const int64_t n = w->count[i], s = w->stride[i];
	int64_t shape[TJ_MAX_RANK + 1];
	tj_tensor *sum = NULL;
	const int last = tj_rank(x) - 1;
	fn_shape(x, shape);
	shape[last - 1] = n * s;
	shape[last] = TJ_END_DIM;
	for (int64_t k = 0; k < w->kernel[i] && !(sum && tj_is_poison(sum)); k++) {
		const int64_t from = k * w->dilation[i] - w->padding[i], ends = from + (n - 1) * s + 1;
		if (ends <= 0 || from >= w->size[i]) continue; /* this place of all windows lies in the padding */
		tj_tensor *one = tj_slice(x, last, k, k + 1, 1); /* [..,windows,1] */
		if (s > 1) one = tj_pad(one, TJ_SHAPE(0, s - 1), TJ_PAD_CONSTANT, tj_i(0));
		one = tj_slice(tj_reshape(one, shape), last - 1, 0, (n - 1) * s + 1, 1);
		one = tj_pad(one, TJ_SHAPE(from, w->size[i] - ends), TJ_PAD_CONSTANT, tj_i(0));
		sum = sum ? tj_add(sum, one) : one;
	}
	if (sum) return sum;
	fn_dims none = fn_shape_of(x);
	none.dim[last - 1] = w->size[i];
	none.dim[none.n = last] = TJ_END_DIM;
	return fn_filled(site, x, tj_dtype_of(x), &none, tj_i(0));
}

tj_tensor *tj_col2im_at(const char *site, tj_tensor *x, tj_dims size, tj_dims kernel, const tj_pool_opts *opts)
{
	static const char name[] = "col2im";
	windows w;
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	if (tj_rank(x) != 2 && tj_rank(x) != 3)
		return tj_fail(TJ_ERR_SHAPE, name, "[N,C * places,windows], or without N", "x has %d axes", tj_rank(x));
	if (fn_entries(size, 2) != 2)
		return tj_fail(TJ_ERR_ARG, name, "as in tj_col2im(x, TJ_SHAPE(8, 8), TJ_SHAPE(3, 3), NULL)", "the picture needs 2 sizes");
	for (int i = 0; i < 2; i++) w.size[i] = size[i];
	if ((bad = bad_windows(site, name, &w, kernel, opts))) return bad;
	const int64_t places = w.kernel[0] * w.kernel[1], channels = tj_dim(x, -2) / places;
	if (tj_dim(x, -2) % places || tj_dim(x, -1) != w.count[0] * w.count[1])
		return tj_fail(TJ_ERR_SHAPE, name, "[N,C * places,windows]",
		               "x has [%lld,%lld], the picture has %lld windows of %lld places", (long long)tj_dim(x, -2),
		               (long long)tj_dim(x, -1), (long long)(w.count[0] * w.count[1]), (long long)places);
	tj_tensor *all = fn_batched(site, x, 1);
	tj_tensor *y = tj_reshape(all, TJ_SHAPE(tj_dim(all, 0), channels, w.kernel[0], w.kernel[1], w.count[0], w.count[1]));
	y = folded(site, tj_permute(y, TJ_AXES(0, 1, 2, 4, 5, 3)), &w, 1); /* N,C,kh,oh,ow,kw -> N,C,kh,oh,W */
	y = folded(site, tj_permute(y, TJ_AXES(0, 1, 4, 3, 2)), &w, 0);    /* N,C,W,oh,kh -> N,C,W,H */
	return fn_as_was(site, tj_transpose(y, 2, 3), x, 1);
}

/* ---- lp_pool ---- */
static tj_tensor *lp_pool(const char *site, const char *name, int n, tj_tensor *x, double p, tj_dims kernel, const tj_pool_opts *opts)
{
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (!bad) bad = fn_bad_float(site, name, "x", x);
	if (bad) return bad;
	if (!(p > 0) || isinf(p)) return tj_fail(TJ_ERR_ARG, name, "2 is the usual one; the pool of infinite p is max_pool", "p is %g", p);
	if (fn_entries(kernel, n) != n)
		return tj_fail(TJ_ERR_ARG, name, "as in tj_lp_pool2d(x, 2, TJ_SHAPE(3, 3), NULL)", "the window needs %d sizes", n);
	NN_OPTIONS(tj_pool_opts, o, opts);
	if (o.divisor || o.exclude_padding)
		return tj_fail(TJ_ERR_ARG, name, "the sum is not divided", ".divisor and .exclude_padding are for avg_pool");
	double places = 1;
	for (int i = 0; i < n; i++) places *= (double)kernel[i];
	tj_tensor *wide = fn_widened(site, x), *power = p == 2 ? tj_square(wide) : tj_pow(wide, tj_f(p));
	tj_tensor *mean = n == 1   ? tj_avg_pool1d(power, kernel, opts)
	                  : n == 2 ? tj_avg_pool2d(power, kernel, opts)
	                           : tj_avg_pool3d(power, kernel, opts);
	tj_tensor *sum = tj_mul(mean, tj_f(places)), *none = tj_eq(sum, tj_f(0)),
		  *some = tj_where(none, tj_f(1), sum); /* the root of 0 has no gradient */
	tj_tensor *y = tj_where(none, tj_f(0), p == 2 ? tj_sqrt(some) : tj_pow(some, tj_f(1 / p)));
	return tj_is_poison(y) || tj_dtype_of(y) == tj_dtype_of(x) ? y : tj_cast(y, tj_dtype_of(x));
}

/* ---- max_pool with indices, and back ---- */
/* So many elements lie behind an axis; with .ceil as many as the last window needs that begins inside the axis or its padding. */
static int64_t behind(const tj_pool_opts *o, int i, int64_t kernel, int64_t size)
{
	const int64_t pad = o->padding[i], stride = o->stride[i] ? o->stride[i] : kernel,
		      span = (kernel - 1) * (o->dilation[i] ? o->dilation[i] : 1) + 1;
	const int64_t room = size + 2 * pad - span;
	if (!o->ceil || room + stride <= 0) return pad;
	int64_t last = (room + stride - 1) / stride * stride;
	if (last >= size + pad) last -= stride;
	return last + span - size - pad > pad ? last + span - size - pad : pad;
}

/* The windows of x [N,C,...] as rows: [N,C,counts,places]. what: with which numbers x is padded. */
static tj_tensor *rows_of(const char *site, tj_tensor *x, int n, const int64_t *kernel, const tj_pool_opts *o, tj_tensor *what)
{
	int64_t pads[2 * AXES + 1], axes[2 * AXES + 3], shape[AXES + 4], places = 1;
	for (int i = 0; i < n; i++) {
		pads[2 * i] = o->padding[i];
		pads[2 * i + 1] = behind(o, i, kernel[i], tj_dim(x, 2 + i));
	}
	pads[2 * n] = TJ_END_DIM;
	tj_tensor *y = tj_pad(x, pads, TJ_PAD_CONSTANT, what);
	for (int i = 0; i < n; i++)
		y = tj_unfold(y, 2 + i, kernel[i], o->stride[i] ? o->stride[i] : kernel[i], o->dilation[i] ? o->dilation[i] : 1);
	if (tj_is_poison(y)) return y;
	for (int i = 0; i < 2 * n + 2; i++) axes[i] = i;
	axes[2 * n + 2] = TJ_END_DIM;
	for (int i = 0; i < n; i++) places *= kernel[i];
	for (int i = 0; i < n + 2; i++) shape[i] = tj_dim(y, i);
	shape[n + 2] = places;
	shape[n + 3] = TJ_END_DIM;
	return tj_reshape(tj_permute(y, axes), shape);
}

static tj_tensor *least(const char *site, tj_dtype t)
{
	if (fn_is_float(t)) return tj_f(-INFINITY);
	if (t == TJ_I64) return tj_shift_left(tj_full(t, TJ_0D, tj_i(1)), tj_i(63)); /* a number has fewer bits */
	return tj_i(t == TJ_I8 ? INT8_MIN : t == TJ_I16 ? INT16_MIN : t == TJ_I32 ? INT32_MIN : 0);
}

static tj_tensor *bad_pool(const char *site, const char *name, int n, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts,
                           tj_tensor *const *indices, tj_pool_opts *to)
{
	NN_OPTIONS(tj_pool_opts, o, opts);
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (bad) return bad;
	*to = o;
	if (fn_entries(kernel, n) != n)
		return tj_fail(TJ_ERR_ARG, name, "as in tj_max_pool2d_with_indices(x, TJ_SHAPE(3, 3), NULL, &indices)",
		               "the window needs %d sizes", n);
	if (o.divisor || o.exclude_padding)
		return tj_fail(TJ_ERR_ARG, name, "padding is never the largest", ".divisor and .exclude_padding are for avg_pool");
	for (int i = 0; i < n; i++)
		if (kernel[i] < 1 || o.padding[i] < 0 || 2 * o.padding[i] > kernel[i] || o.stride[i] < 0 || o.dilation[i] < 0)
			return tj_fail(TJ_ERR_ARG, name, "padding is at most half of the window", "the window is none along axis %d", i);
	return indices ? NULL : tj_fail(TJ_ERR_ARG, name, "the address of a variable", "indices is NULL");
}

static tj_tensor *with_indices(const char *site, const char *name, int n, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts,
                               tj_tensor **indices)
{
	tj_pool_opts o;
	tj_tensor *bad = bad_pool(site, name, n, x, kernel, opts, indices, &o), *which;
	if (indices) *indices = bad;
	if (bad) return bad;
	tj_tensor *batched = fn_batched(site, x, n), *picture = tj_slice(tj_slice(batched, 0, 0, 1, 1), 1, 0, 1, 1);
	tj_tensor *y = tj_max_with_indices(rows_of(site, batched, n, kernel, &o, least(site, tj_dtype_of(x))), -1, false, &which);
	tj_tensor *from = rows_of(site, fn_places(site, picture, n), n, kernel, &o, tj_i(-1));
	if (tj_is_poison(y) || tj_is_poison(from)) return *indices = y;
	fn_dims s = fn_shape_of(y);
	fn_shape_add(&s, tj_dim(from, -1));
	tj_tensor *at = tj_squeeze(tj_gather(fn_expand(site, from, &s), -1, tj_unsqueeze(which, -1)), TJ_AXES(-1));
	tj_tensor *inside = tj_amin(tj_where(tj_lt(from, tj_i(0)), tj_i(tj_numel(picture) - 1), from), TJ_AXES(-1), false);
	*indices = fn_as_was(site, tj_where(tj_lt(at, tj_i(0)), inside, at), x,
	                     n); /* padding is found only if nothing is larger; a window of padding alone has the last index */
	return fn_as_was(site, y, x, n);
}

static tj_tensor *unpool(const char *site, const char *name, int n, tj_tensor *x, tj_tensor *indices, tj_dims size)
{
	int64_t shape[AXES + 3], all = 1;
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (!bad) bad = fn_bad(site, name, "the indices", indices);
	if (bad) return bad;
	bool fits = tj_rank(x) == tj_rank(indices);
	for (int i = 0; fits && i < tj_rank(x); i++) fits = tj_dim(x, i) == tj_dim(indices, i);
	if (!fits) return tj_fail(TJ_ERR_SHAPE, name, "they are those of max_pool*d_with_indices()", "the indices have not the shape of x");
	if (fn_entries(size, n) != n) return tj_fail(TJ_ERR_ARG, name, "the sizes of what was pooled", "%d sizes of the result are needed", n);
	tj_tensor *batched = fn_batched(site, x, n);
	for (int i = 0; i < 2; i++) shape[i] = tj_dim(batched, i);
	for (int i = 0; i < n; i++) {
		if (size[i] < 0) return tj_fail(TJ_ERR_ARG, name, "the sizes of what was pooled", "size %d of the result is %lld", i, (long long)size[i]);
		all *= shape[2 + i] = size[i];
	}
	shape[2 + n] = TJ_END_DIM;
	tj_tensor *none = tj_to(tj_zeros(tj_dtype_of(x), TJ_SHAPE(shape[0], shape[1], all)), tj_device_of(x));
	tj_tensor *flat = tj_reshape(batched, TJ_SHAPE(shape[0], shape[1], -1)),
		  *at = tj_reshape(fn_batched(site, indices, n), TJ_SHAPE(shape[0], shape[1], -1));
	const char *named = tj_site_for(site, name, "an index is out of range; the elements of a channel of the result are ",
	                                "they are those of max_pool*d_with_indices()");
	return fn_as_was(site, tj_reshape(tj_scatter_at(named, none, 2, at, flat), shape), x, n);
}

#define POOLS(n) \
	tj_tensor *tj_lp_pool##n##d_at(const char *site, tj_tensor *x, double p, tj_dims kernel, const tj_pool_opts *opts) \
	{ \
		return lp_pool(site, "lp_pool" #n "d", n, x, p, kernel, opts); \
	} \
	tj_tensor *tj_max_pool##n##d_with_indices_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts, \
	                                             tj_tensor **indices) \
	{ \
		return with_indices(site, "max_pool" #n "d_with_indices", n, x, kernel, opts, indices); \
	} \
	tj_tensor *tj_max_unpool##n##d_at(const char *site, tj_tensor *x, tj_tensor *indices, tj_dims size) \
	{ \
		return unpool(site, "max_unpool" #n "d", n, x, indices, size); \
	}
POOLS(1)
POOLS(2)
POOLS(3)
