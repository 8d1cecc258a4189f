/* SPDX-License-Identifier: MIT */
/* interpolate: pictures of another size, axis by axis. Each element of the result is a sum of a few elements of x along the axis, whose
 * places and weights the kernel computes from the index. */
#include "functions/functions.h"

#include <math.h>

enum { AXES = 3 };

typedef struct resize {
	const char *site;
	tj_sampling mode;
	bool align, antialias;
	int axis;
	int64_t in, out;
	double step;       /* elements of x for each element of the result */
	bool exact;        /* step is in / out */
} resize;

/* ---- places and weights: f64 [out] ---- */
static tj_tensor *numbers(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	return tj_to(tj_arange(TJ_F64, 0, q->out, 1), tj_device_of(x));
}

static tj_tensor *source(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	tj_tensor *i = numbers(q, x);
	return q->align ? tj_mul(i, tj_f(q->step)) : tj_sub(tj_mul(tj_add(i, tj_f(0.5)), tj_f(q->step)), tj_f(0.5));
}

/* i64, within the axis */
static tj_tensor *index_of(const resize *q, tj_tensor *place)
{
	const char *site = q->site;
	return tj_clamp(tj_cast(place, TJ_I64), tj_i(0), tj_i(q->in - 1));
}

/* The elements at the places, times the weights; weight NULL: 1 */
static tj_tensor *taken(const resize *q, tj_tensor *x, tj_tensor *place, tj_tensor *weight)
{
	const char *site = q->site;
	tj_tensor *y = tj_index_select(x, q->axis, index_of(q, place));
	return weight ? tj_mul(y, fn_along(site, tj_cast(weight, tj_dtype_of(x)), q->axis, tj_rank(x))) : y;
}

/* Without a scale that was given, integers alone decide. */
static tj_tensor *nearest(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	const bool middle = q->mode == TJ_SAMPLE_NEAREST_EXACT;
	if (!q->exact) return taken(q, x, tj_floor(tj_mul(middle ? tj_add(numbers(q, x), tj_f(0.5)) : numbers(q, x), tj_f(q->step))), NULL);
	tj_tensor *i = tj_to(tj_arange(TJ_I64, 0, q->out, 1), tj_device_of(x));
	if (middle) i = tj_add(tj_mul(i, tj_i(2)), tj_i(1));
	return taken(q, x, tj_floor_divide(tj_mul(i, tj_i(q->in)), tj_i(middle ? 2 * q->out : q->out)), NULL);
}

static tj_tensor *linear(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	tj_tensor *s = tj_maximum(source(q, x), tj_f(0)), *low = tj_minimum(tj_floor(s), tj_f((double)(q->in - 1))),
		  *part = tj_minimum(tj_sub(s, low), tj_f(1));
	return tj_add(taken(q, x, low, tj_sub(tj_f(1), part)), taken(q, x, tj_add(low, tj_f(1)), part));
}

tj_tensor *fn_cubic(const char *site, tj_tensor *part, int k, double a)
{
	tj_tensor *d = k == 1   ? part
	               : k == 2 ? tj_sub(tj_f(1), part)
	               : k == 0 ? tj_add(part, tj_f(1))
	                        : tj_sub(tj_f(2), part); /* the distance, 0 to 2 */
	if (k == 1 || k == 2) return tj_add(tj_mul(tj_mul(tj_sub(tj_mul(d, tj_f(a + 2)), tj_f(a + 3)), d), d), tj_f(1));
	return tj_sub(tj_mul(tj_add(tj_mul(tj_sub(tj_mul(d, tj_f(a)), tj_f(5 * a)), d), tj_f(8 * a)), d), tj_f(4 * a));
}

static tj_tensor *cubic(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	tj_tensor *s = source(q, x), *low = tj_floor(s), *part = tj_sub(s, low), *y = NULL;
	for (int k = 0; k < 4; k++) {
		tj_tensor *one = taken(q, x, tj_add(low, tj_f(k - 1)), fn_cubic(site, part, k, -0.75));
		y = y ? tj_add(y, one) : one;
	}
	return y;
}

/* ---- antialias: the filter is as wide as the step, and all elements under it count ---- */
/* The triangle, or the cubic with a = -0.5, of the distance d. */
static tj_tensor *filtered(const resize *q, tj_tensor *d)
{
	const char *site = q->site;
	const double a = -0.5;
	if (q->mode == TJ_SAMPLE_LINEAR) return tj_relu(tj_sub(tj_f(1), d));
	tj_tensor *near = tj_add(tj_mul(tj_mul(tj_sub(tj_mul(d, tj_f(a + 2)), tj_f(a + 3)), d), d), tj_f(1));
	tj_tensor *far = tj_mul(tj_sub(tj_mul(tj_add(tj_mul(tj_sub(d, tj_f(5)), d), tj_f(8)), d), tj_f(4)), tj_f(a));
	return tj_where(tj_lt(d, tj_f(1)), near, tj_where(tj_lt(d, tj_f(2)), far, tj_f(0)));
}

static tj_tensor *wide_filter(const resize *q, tj_tensor *x)
{
	const char *site = q->site;
	const double radius = q->mode == TJ_SAMPLE_LINEAR ? 1 : 2, stretch = q->step >= 1 ? q->step : 1, support = radius * stretch;
	const int64_t most = 2 * (int64_t)ceil(support) + 1;
	int64_t shape[TJ_MAX_RANK + 2];
	const int rank = tj_rank(x);
	tj_tensor *middle = tj_mul(tj_add(numbers(q, x), tj_f(0.5)), tj_f(q->step)), *k = tj_to(tj_arange(TJ_F64, 0, most, 1), tj_device_of(x));
	tj_tensor *from = tj_maximum(tj_trunc(tj_add(tj_sub(middle, tj_f(support)), tj_f(0.5))), tj_f(0)),
		  *to = tj_minimum(tj_trunc(tj_add(middle, tj_f(support + 0.5))), tj_f((double)q->in));
	tj_tensor *place = tj_add(tj_unsqueeze(from, 1), k),
		  *d = tj_abs(tj_mul(tj_add(tj_sub(place, tj_unsqueeze(middle, 1)), tj_f(0.5)), tj_f(1 / stretch)));
	tj_tensor *counts = tj_lt(place, tj_unsqueeze(to, 1)), *w = tj_where(counts, filtered(q, d), tj_f(0)); /* [out,most] */
	w = tj_div(w, tj_sum(w, TJ_AXES(1), true));
	fn_shape(x, shape);
	for (int i = rank; i > q->axis; i--) shape[i] = shape[i - 1];
	shape[q->axis] = q->out;
	shape[q->axis + 1] = most;
	shape[rank + 1] = TJ_END_DIM;
	tj_tensor *all = tj_reshape(tj_index_select(x, q->axis, tj_reshape(index_of(q, place), TJ_SHAPE(-1))), shape);
	int64_t ones[TJ_MAX_RANK + 2] = { q->out, most };
	for (int i = 2; i <= rank - q->axis; i++) ones[i] = 1;
	ones[rank - q->axis + 1] = TJ_END_DIM;
	all = tj_where(tj_reshape(counts, ones), all, tj_f(0)); /* what is not under the filter does not count, infinite or not */
	return tj_sum(tj_mul(all, tj_reshape(tj_cast(w, tj_dtype_of(x)), ones)), TJ_AXES(q->axis + 1), false);
}

static tj_tensor *along_axis(const resize *q, tj_tensor *x)
{
	if (q->mode == TJ_SAMPLE_NEAREST || q->mode == TJ_SAMPLE_NEAREST_EXACT) return nearest(q, x);
	if (q->in == q->out && (q->antialias || q->mode == TJ_SAMPLE_LINEAR)) return x; /* whatever the scale */
	if (q->antialias) return wide_filter(q, x);
	return q->mode == TJ_SAMPLE_LINEAR ? linear(q, x) : cubic(q, x);
}

/* ---- the call ---- */
static tj_tensor *misfit(const char *site, tj_tensor *x, tj_dims size, const tj_interpolate_opts *o, tj_sampling mode)
{
	static const char name[] = "interpolate";
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (bad) return bad;
	const int n = tj_rank(x) - 2;
	const bool nearby = mode == TJ_SAMPLE_NEAREST || mode == TJ_SAMPLE_NEAREST_EXACT;
	if (n < 1 || n > AXES) return tj_fail(TJ_ERR_SHAPE, name, "[N,C,W], [N,C,H,W] or [N,C,D,H,W]", "x has %d axes", tj_rank(x));
	if ((unsigned)mode > TJ_SAMPLE_AREA) return tj_fail(TJ_ERR_ARG, name, "TJ_SAMPLE_LINEAR, for example", "there is no mode %d", (int)mode);
	if (!nearby && !fn_is_float(tj_dtype_of(x)))
		return tj_fail(TJ_ERR_DTYPE, name, "cast it first, or take TJ_SAMPLE_NEAREST", "x is %s, no float",
		               tj_dtype_name(tj_dtype_of(x)));
	if (o->align_corners && (nearby || mode == TJ_SAMPLE_AREA))
		return tj_fail(TJ_ERR_ARG, name, "it is for TJ_SAMPLE_LINEAR and TJ_SAMPLE_CUBIC", ".align_corners is set");
	if (o->antialias && (nearby || mode == TJ_SAMPLE_AREA))
		return tj_fail(TJ_ERR_ARG, name, "it is for TJ_SAMPLE_LINEAR and TJ_SAMPLE_CUBIC", ".antialias is set");
	if (size && fn_entries(size, n) != n)
		return tj_fail(TJ_ERR_ARG, name, "one for each axis behind the channels", "%d sizes of the result are needed", n);
	for (int i = 0; i < n; i++) {
		if (size && o->scale[i] != 0) return tj_fail(TJ_ERR_ARG, name, "give one of them", "size and .scale are both set");
		if (!size && !(o->scale[i] > 0 && o->scale[i] < 1e9))
			return tj_fail(TJ_ERR_ARG, name, "give the size of the result, or .scale for each axis",
			               "the scale of axis %d is %g", 2 + i, o->scale[i]);
		if (tj_dim(x, 2 + i) < 1) return tj_fail(TJ_ERR_SHAPE, name, "there is nothing to choose from", "axis %d of x is empty", 2 + i);
		if ((size ? size[i] : (int64_t)floor((double)tj_dim(x, 2 + i) * o->scale[i])) < 1)
			return tj_fail(TJ_ERR_ARG, name, "sizes are 1 or more", "axis %d of the result would be empty", 2 + i);
	}
	return NULL;
}

static tj_tensor *by_area(const char *site, tj_tensor *x, tj_dims size)
{
	return tj_rank(x) == 3   ? tj_adaptive_avg_pool1d(x, size)
	       : tj_rank(x) == 4 ? tj_adaptive_avg_pool2d(x, size)
	                         : tj_adaptive_avg_pool3d(x, size);
}

tj_tensor *tj_interpolate_at(const char *site, tj_tensor *x, tj_dims size, const tj_interpolate_opts *opts)
{
	NN_OPTIONS(tj_interpolate_opts, o, opts);
	const tj_sampling mode = o.mode == TJ_SAMPLE_DEFAULT ? TJ_SAMPLE_NEAREST : o.mode;
	tj_tensor *bad = misfit(site, x, size, &o, mode);
	if (bad) return bad;
	const int n = tj_rank(x) - 2;
	int64_t to[AXES + 1];
	for (int i = 0; i < n; i++) to[i] = size ? size[i] : (int64_t)floor((double)tj_dim(x, 2 + i) * o.scale[i]);
	to[n] = TJ_END_DIM;
	if (mode == TJ_SAMPLE_AREA) return by_area(site, x, to);
	tj_tensor *y = fn_widened(site, x);
	for (int i = n - 1; i >= 0 && !tj_is_poison(y); i--) {
		resize q = { .site = site,
			     .mode = mode,
			     .align = o.align_corners,
			     .antialias = o.antialias,
			     .axis = 2 + i,
			     .in = tj_dim(x, 2 + i),
			     .out = to[i],
			     .exact = size != NULL };
		q.step = q.align ? q.out > 1 ? (double)(q.in - 1) / (double)(q.out - 1) : 0 : size ? (double)q.in / (double)q.out : 1 / o.scale[i];
		y = along_axis(&q, y);
	}
	return tj_is_poison(y) || tj_dtype_of(y) == tj_dtype_of(x) ? y : tj_cast(y, tj_dtype_of(x));
}
