/* SPDX-License-Identifier: MIT */
/* resize: pictures of other sizes, and elements between places. Resize works axis by axis: element i of the result is a sum of a few
 * elements of x, whose places and weights the host computes. */
#include "kit/models/models.h"

#include <math.h>

#define X ox_t(o, 0)
enum { MOST_SIZE = 1 << 24, MOST_TAPS = 1 << 26 }; /* elements of an axis; weights of all of them */

typedef struct axis {
	int64_t in, out;
	double scale, length; /* length: scale * in, which out is rounded from */
	double roi[2];
} axis;
typedef struct taps {
	int64_t *at;
	double *w;
	int n;
	int64_t out;
	bool *outside;
} taps;

/* Where element i of the result lies in x. */
static double place_of(const char *mode, const axis *a, double i)
{
	const double in = (double)a->in;
	if (!strcmp(mode, "align_corners")) return a->length == 1 ? 0 : i * (in - 1) / (a->length - 1);
	if (!strcmp(mode, "asymmetric")) return i / a->scale;
	if (!strcmp(mode, "tf_crop_and_resize"))
		return a->roi[0] * (in - 1) +
		       (a->length == 1 ? (a->roi[1] - a->roi[0]) * (in - 1) / 2 : i * (a->roi[1] - a->roi[0]) * (in - 1) / (a->length - 1));
	if (!strcmp(mode, "pytorch_half_pixel") && a->out <= 1) return 0;
	if (!strcmp(mode, "half_pixel_symmetric")) return in / 2 * (1 - (double)a->out / a->length) + (i + 0.5) / a->scale - 0.5;
	return (i + 0.5) / a->scale - 0.5;
}

static double nearest(const char *mode, double x)
{
	if (!strcmp(mode, "floor")) return floor(x);
	if (!strcmp(mode, "ceil")) return ceil(x);
	if (!strcmp(mode, "round_prefer_ceil")) return floor(x + 0.5);
	return ceil(x - 0.5);
}

static double cubic(double a, double x)
{
	x = fabs(x);
	if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static double triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

/* The weights of one element: those of `reach` places on each side of x, stretched by 1 / scale when the result is smaller. */
static void weights_at(const ox_call *o, const axis *a, double x, int64_t *at, double *w, int n, double stretch, bool is_cubic)
{
	const double coefficient = ox_float(o, "cubic_coeff_a", -0.75), first = ceil(x) - n / 2;
	const bool inside = ox_int(o, "exclude_outside", 0);
	double sum = 0;
	for (int j = 0; j < n; j++) {
		const double p = first + j, d = (p - x) * stretch;
		w[j] = inside && (p < 0 || p > (double)(a->in - 1)) ? 0 : is_cubic ? cubic(coefficient, d) : triangle(d);
		at[j] = (int64_t)fmin(fmax(p, 0), (double)(a->in - 1));
		sum += w[j];
	}
	for (int j = 0; j < n && sum != 0; j++) w[j] /= sum;
}

static bool make_taps(ox_call *o, const axis *a, taps *t)
{
	const char *mode = ox_string(o, "mode", "nearest"),
		   *where = ox_string(o, "coordinate_transformation_mode", o->n->opset < 11 ? "asymmetric" : "half_pixel");
	const char *rule = ox_string(o, "nearest_mode", o->n->opset < 11 ? "floor" : "round_prefer_floor");
	const bool is_nearest = !strcmp(mode, "nearest"), is_cubic = !strcmp(mode, "cubic");
	const double stretch = ox_int(o, "antialias", 0) && a->scale < 1 ? a->scale : 1, reach = is_cubic ? 2 : 1;
	const double places = is_nearest ? 1 : 2 * ceil(reach / stretch);
	if (places * (double)a->out > MOST_TAPS)
		return ox_fail(o, TJ_ERR_LIMIT, NULL, "a scale of %g takes %g elements for each of %lld", a->scale, places, (long long)a->out), false;
	t->n = a->out ? (int)places : 1;
	t->out = a->out;
	t->at = ox_room(o, (size_t)(a->out * t->n) * sizeof *t->at);
	t->w = ox_room(o, (size_t)(a->out * t->n) * sizeof *t->w);
	t->outside = ox_room(o, (size_t)a->out);
	if (!t->at || !t->w || !t->outside) return false;
	for (int64_t i = 0; i < a->out; i++) {
		const double x = place_of(where, a, (double)i);
		t->outside[i] = !strcmp(where, "tf_crop_and_resize") && (x < 0 || x > (double)(a->in - 1));
		if (!is_nearest)
			weights_at(o, a, x, t->at + i * t->n, t->w + i * t->n, t->n, stretch, is_cubic);
		else
			t->at[i] = (int64_t)fmin(fmax(nearest(rule, x), 0), (double)(a->in - 1));
	}
	return true;
}

/* How often each element of x stands in a row, if always equally often; else 0. */
static int64_t repeats(const taps *t, int64_t in)
{
	if (t->n != 1 || t->out % in) return 0;
	for (int64_t i = 0; i < t->out; i++)
		if (t->at[i] != i / (t->out / in) || t->outside[i]) return 0;
	return t->out / in;
}

static tj_tensor *numbers(ox_call *o, const char *site, const taps *t, int j, int k, int rank)
{
	float *v = ox_room(o, (size_t)t->out * sizeof *v);
	if (!v) return NULL;
	for (int64_t i = 0; i < t->out; i++) v[i] = (float)t->w[i * t->n + j];
	return ox_along(site, tj_constant(o->r->c, TJ_F32, TJ_SHAPE(t->out), v), k, rank);
}

static tj_tensor *along(ox_call *o, const char *site, tj_tensor *x, const axis *a, int k)
{
	taps t;
	const int rank = tj_rank(x);
	tj_tensor *y = NULL;
	if (!make_taps(o, a, &t)) return NULL;
	const int64_t times = repeats(&t, a->in);
	if (times) return times == 1 ? x : tj_repeat_interleave(x, times, k);
	for (int j = 0; j < t.n; j++) {
		int64_t *at = ox_room(o, (size_t)t.out * sizeof *at);
		if (!at) return NULL;
		for (int64_t i = 0; i < t.out; i++) at[i] = t.at[i * t.n + j];
		tj_tensor *v = tj_index_select(x, k, tj_constant(o->r->c, TJ_I64, TJ_SHAPE(t.out), at));
		if (t.n > 1) v = tj_mul(v, numbers(o, site, &t, j, k, rank));
		y = y ? tj_add(y, v) : v;
	}
	bool any = false;
	for (int64_t i = 0; i < t.out; i++) any |= t.outside[i];
	if (!any) return y;
	tj_tensor *out = ox_along(site, tj_constant(o->r->c, TJ_BOOL, TJ_SHAPE(t.out), t.outside), k, rank);
	return tj_where(out, ox_scalar(site, tj_dtype_of(y), ox_float(o, "extrapolation_value", 0)), y);
}

/* The sizes of all axes, from scales or from sizes; false: reported. */
static bool sizes_of(ox_call *o, tj_tensor *x, const ox_host *scales, const ox_host *sizes, const ox_host *roi, axis *a)
{
	int64_t n;
	const int rank = tj_rank(x);
	const int64_t *axes = ox_ints(o, "axes", &n);
	const char *keep = ox_string(o, "keep_aspect_ratio_policy", "stretch");
	const ox_host *h = sizes ? sizes : scales;
	double best = 0;
	bool first = true;
	if (!axes) n = rank;
	if (!h || h->n != n || (sizes ? !h->i : !h->f))
		return ox_fail(o, TJ_ERR_ARG, NULL, "it has neither scales nor sizes for %lld axes", (long long)n), false;
	for (int i = 0; i < rank; i++) a[i] = (axis){ tj_dim(x, i), tj_dim(x, i), 1, (double)tj_dim(x, i), { 0, 1 } };
	for (int j = 0; j < n; j++) {
		const int k = ox_axis(axes ? axes[j] : j, rank);
		if (k < 0 || (a[k].in < 1 && rank)) return ox_fail(o, TJ_ERR_ARG, NULL, "an axis is not there, or is empty"), false;
		a[k].scale = sizes ? (double)sizes->i[j] / (double)a[k].in : scales->f[j];
		best = first || (!strcmp(keep, "not_larger") ? a[k].scale < best : a[k].scale > best) ? a[k].scale : best;
		first = false;
		if (roi && roi->f && roi->n == 2 * n) a[k].roi[0] = roi->f[j], a[k].roi[1] = roi->f[n + j];
	}
	for (int j = 0; j < n; j++) {
		axis *v = &a[ox_axis(axes ? axes[j] : j, rank)];
		if (sizes && strcmp(keep, "stretch")) v->scale = best;
		v->length = v->scale * (double)v->in;
		const double out = !sizes ? floor(v->length) : strcmp(keep, "stretch") ? floor(v->length + 0.5) : (double)sizes->i[j];
		if (!(out >= 0 && out <= MOST_SIZE) || !(v->scale > 0 || out == 0))
			return ox_fail(o, TJ_ERR_LIMIT, NULL, "an axis would have %g elements", out), false;
		v->out = (int64_t)out;
	}
	return true;
}

static tj_tensor *resized(ox_call *o, const char *site, const ox_host *scales, const ox_host *sizes, const ox_host *roi)
{
	tj_tensor *x = X;
	axis a[TJ_MAX_RANK];
	const tj_dtype dtype = tj_dtype_of(x);
	const bool exact = ox_is(o, "mode", "nearest", "nearest");
	if (o->r->failed || !sizes_of(o, x, scales, sizes, roi, a)) return NULL;
	tj_tensor *y = exact || dtype == TJ_F64 ? x : tj_cast(x, TJ_F32);
	for (int k = 0; k < tj_rank(x) && y && !tj_is_poison(y); k++)
		if (a[k].scale != 1 || a[k].out != a[k].in || a[k].roi[0] != 0 || a[k].roi[1] != 1) y = along(o, site, y, &a[k], k);
	if (!y || exact) return y;
	return tj_cast(!ox_is_float(x) ? tj_round(y) : y, dtype);
}

tj_tensor *ox_resize(ox_call *o, const char *site)
{
	if (o->n->opset < 11) return resized(o, site, ox_h(o, 1), NULL, NULL);
	const ox_host *roi = ox_is(o, "coordinate_transformation_mode", "", "tf_crop_and_resize") && ox_has(o, 1) ? ox_h(o, 1) : NULL;
	const ox_host *scales = ox_has(o, 2) ? ox_h(o, 2) : NULL, *sizes = ox_has(o, 3) ? ox_h(o, 3) : NULL;
	return resized(o, site, scales && scales->n ? scales : NULL, sizes && sizes->n ? sizes : NULL, roi);
}

tj_tensor *ox_upsample(ox_call *o, const char *site)
{
	const ox_attr *a = ox_attribute(o, "scales");
	if (!a || a->type != OX_A_FLOATS) return resized(o, site, ox_h(o, 1), NULL, NULL);
	ox_host *h = ox_new_host(&o->r->arena, TJ_F32, 1, &a->n);
	for (int64_t k = 0; h && k < h->n; k++) h->f[k] = (double)a->floats[k];
	return h ? resized(o, site, h, NULL, NULL) : ox_room(o, SIZE_MAX);
}

/* ---- grids ---- */
tj_tensor *ox_grid_sample(ox_call *o, const char *site)
{
	const char *mode = ox_string(o, "mode", "linear"), *pad = ox_string(o, "padding_mode", "zeros");
	tj_grid_sample_opts g = { .size = sizeof g, .align_corners = ox_int(o, "align_corners", 0) };
	g.mode = strstr(mode, "cubic") ? TJ_SAMPLE_CUBIC : !strcmp(mode, "nearest") ? TJ_SAMPLE_NEAREST : TJ_SAMPLE_LINEAR;
	g.padding = !strcmp(pad, "border") ? TJ_PAD_REPLICATE : !strcmp(pad, "reflection") ? TJ_PAD_REFLECT : TJ_PAD_CONSTANT;
	return tj_grid_sample(X, ox_t(o, 1), &g);
}

tj_tensor *ox_affine_grid(ox_call *o, const char *site)
{
	const ox_host *s = ox_h(o, 1);
	int64_t dim[TJ_MAX_RANK + 1];
	if (!s || !s->i || s->n > TJ_MAX_RANK) return ox_fail(o, TJ_ERR_ARG, NULL, "its size is no list");
	memcpy(dim, s->i, (size_t)s->n * sizeof *dim);
	dim[s->n] = TJ_END_DIM;
	return tj_affine_grid(X, dim, ox_int(o, "align_corners", 0));
}

/* ---- regions of interest ---- */
typedef struct rois {
	const char *site;
	tj_tensor *x, *batch;
	int64_t rows, columns;
} rois;

/* The elements of x at (y, x), both [R, places]: [R, C, places]; with their weight. */
static tj_tensor *picked(const rois *r, tj_tensor *y, tj_tensor *x, tj_tensor *w)
{
	const char *site = r->site;
	tj_tensor *at = tj_add(tj_mul(tj_cast(y, TJ_I64), tj_i(r->columns)), tj_cast(x, TJ_I64));                        /* [R,P] */
	tj_tensor *all = tj_index_select(tj_reshape(r->x, TJ_SHAPE(tj_dim(r->x, 0), tj_dim(r->x, 1), -1)), 0, r->batch); /* [R,C,H*W] */
	at = tj_expand(tj_unsqueeze(at, 1), TJ_SHAPE(-1, tj_dim(r->x, 1), -1));
	return tj_mul(tj_gather(all, 2, at), tj_unsqueeze(w, 1));
}

/* The sampling places of one axis, [R, bins * n]. */
static tj_tensor *samples(const char *site, tj_tensor *start, tj_tensor *end, int64_t bins, int64_t n, bool half)
{
	tj_tensor *length = tj_sub(end, start);
	if (!half) length = tj_maximum(length, tj_f(1));
	tj_tensor *i = tj_add(tj_cast(tj_arange(TJ_I64, 0, bins * n, 1), TJ_F32), tj_f(0.5));
	return tj_add(tj_unsqueeze(start, 1), tj_mul(tj_unsqueeze(tj_div(length, tj_f((double)(bins * n))), 1), i));
}

static void edges(const char *site, tj_tensor *p, int64_t size, tj_tensor **low, tj_tensor **high, tj_tensor **part, tj_tensor **inside)
{
	*inside = tj_logical_and(tj_ge(p, tj_f(-1)), tj_le(p, tj_f((double)size)));
	p = tj_clamp(p, tj_f(0), tj_f((double)(size - 1)));
	*low = tj_floor(p);
	*high = tj_minimum(tj_add(*low, tj_f(1)), tj_f((double)(size - 1)));
	*part = tj_sub(p, *low);
}

tj_tensor *ox_roi_align(ox_call *o, const char *site)
{
	tj_tensor *x = X, *boxes = ox_t(o, 1), *y0, *y1, *fy, *in_y, *x0, *x1, *fx, *in_x;
	const int64_t rows = ox_int(o, "output_height", 1), columns = ox_int(o, "output_width", 1), n = ox_int(o, "sampling_ratio", 0);
	const bool half = ox_is(o, "coordinate_transformation_mode", o->n->opset < 16 ? "output_half_pixel" : "half_pixel", "half_pixel");
	if (n < 1)
		return ox_fail(o, TJ_ERR_ARG, "sampling_ratio 1 or more",
		               "sampling_ratio 0 takes another number of places for each region");
	if (rows < 1 || columns < 1 || rows > INT16_MAX || columns > INT16_MAX || n > INT16_MAX)
		return ox_fail(o, TJ_ERR_LIMIT, NULL, "%lld x %lld bins of %lld places", (long long)rows, (long long)columns, (long long)n);
	if (tj_rank(x) != 4 || tj_rank(boxes) != 2 || tj_dim(boxes, 1) != 4)
		return ox_fail(o, TJ_ERR_SHAPE, NULL, "x [N,C,H,W] and rois [R,4] are needed");
	const rois r = { site, x, ox_t(o, 2), tj_dim(x, 2), tj_dim(x, 3) };
	const int64_t count = tj_dim(boxes, 0), c = tj_dim(x, 1);
	boxes = tj_sub(tj_mul(boxes, tj_f(ox_float(o, "spatial_scale", 1))), tj_f(half ? 0.5 : 0));
	tj_tensor *py = samples(site, tj_select(boxes, 1, 1), tj_select(boxes, 1, 3), rows, n, half);
	tj_tensor *px = samples(site, tj_select(boxes, 1, 0), tj_select(boxes, 1, 2), columns, n, half);
	const int64_t h = rows * n, w = columns * n;
	py = tj_reshape(tj_expand(tj_unsqueeze(py, 2), TJ_SHAPE(count, h, w)), TJ_SHAPE(count, h * w));
	px = tj_reshape(tj_expand(tj_unsqueeze(px, 1), TJ_SHAPE(count, h, w)), TJ_SHAPE(count, h * w));
	edges(site, py, r.rows, &y0, &y1, &fy, &in_y);
	edges(site, px, r.columns, &x0, &x1, &fx, &in_x);
	tj_tensor *one = tj_cast(tj_logical_and(in_y, in_x), TJ_F32), *gy = tj_sub(tj_f(1), fy), *gx = tj_sub(tj_f(1), fx);
	tj_tensor *const v[] = { picked(&r, y0, x0, tj_mul(one, tj_mul(gy, gx))), picked(&r, y0, x1, tj_mul(one, tj_mul(gy, fx))),
		                 picked(&r, y1, x0, tj_mul(one, tj_mul(fy, gx))), picked(&r, y1, x1, tj_mul(one, tj_mul(fy, fx))) };
	const bool mean = ox_is(o, "mode", "avg", "avg");
	tj_tensor *s = mean ? tj_add(tj_add(v[0], v[1]), tj_add(v[2], v[3])) : tj_maximum(tj_maximum(v[0], v[1]), tj_maximum(v[2], v[3]));
	s = tj_reshape(s, TJ_SHAPE(count, c, rows, n, columns, n));
	return ox_like(site, mean ? tj_mean(s, TJ_AXES(3, 5), false) : tj_amax(s, TJ_AXES(3, 5), false), x);
}
