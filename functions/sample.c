/* SPDX-License-Identifier: MIT */
/* grid_sample: elements of a picture at places that a tensor gives; affine_grid makes such places. */
#include "functions/functions.h"

#include <math.h>

enum { AXES = 3 };

typedef struct sampler {
	const char *site;
	tj_tensor *flat;          /* x as [N,C,places] */
	int n;                    /* axes of a picture */
	int64_t size[AXES];       /* of them */
	int64_t points;           /* of each example */
	tj_pad_mode padding;
	bool align;
	bool corners;             /* of a cube: one beside the picture counts for nothing, whatever the last element is */
} sampler;

/* ---- places: [N,points], counted from 0 in elements of axis i ---- */
/* -1 is the first element, 1 the last one: their middles if aligned, else their outer edges. */
static tj_tensor *unnormalised(const sampler *q, tj_tensor *g, int i)
{
	const char *site = q->site;
	const double size = (double)q->size[i];
	return q->align ? tj_mul(tj_add(g, tj_f(1)), tj_f((size - 1) / 2)) : tj_sub(tj_mul(tj_add(g, tj_f(1)), tj_f(size / 2)), tj_f(0.5));
}

/* To and fro between the ends, which are the middles of elements if aligned, else outer edges. */
static tj_tensor *reflected(const sampler *q, tj_tensor *p, int i)
{
	const char *site = q->site;
	const double low = q->align ? 0 : -0.5, span = (double)q->size[i] - (q->align ? 1 : 0);
	if (span <= 0) return tj_mul(p, tj_f(0));
	tj_tensor *way = tj_abs(tj_sub(p, tj_f(low))), *turns = tj_floor(tj_div(way, tj_f(span))), *rest = tj_fmod(way, tj_f(span));
	tj_tensor *odd = tj_ne(tj_fmod(turns, tj_f(2)), tj_f(0));
	return tj_add(tj_where(odd, tj_sub(tj_f(span), rest), rest), tj_f(low));
}

/* Where the padding puts it. The gradient is 0 at an end, and beyond. */
static tj_tensor *padded(const sampler *q, tj_tensor *p, int i)
{
	const char *site = q->site;
	if (q->padding == TJ_PAD_CONSTANT) return p;
	if (q->padding == TJ_PAD_REFLECT) p = reflected(q, p, i);
	return tj_hardtanh(p, 0, (double)(q->size[i] - 1));
}

/* The elements at whole places, [N,C,points]; 0 beside the picture. */
static tj_tensor *elements(const sampler *q, tj_tensor *const *place)
{
	const char *site = q->site;
	tj_tensor *at = NULL, *inside = NULL;
	for (int i = 0; i < q->n; i++) {
		tj_tensor *last = tj_f((double)(q->size[i] - 1)), *in = tj_logical_and(tj_ge(place[i], tj_f(0)), tj_le(place[i], last));
		tj_tensor *k = tj_clamp(tj_cast(tj_stop_gradient(place[i]), TJ_I64), tj_i(0), tj_i(q->size[i] - 1));
		at = at ? tj_add(tj_mul(at, tj_i(q->size[i])), k) : k;
		inside = inside ? tj_logical_and(inside, in) : in;
	}
	tj_tensor *y = tj_gather(q->flat, 2, tj_expand(tj_unsqueeze(at, 1), TJ_SHAPE(tj_dim(q->flat, 0), tj_dim(q->flat, 1), q->points)));
	return q->padding == TJ_PAD_CONSTANT || q->corners ? tj_where(tj_unsqueeze(inside, 1), y, tj_f(0)) : y;
}

/* ---- ways ---- */
static tj_tensor *nearest(const sampler *q, tj_tensor *const *p)
{
	const char *site = q->site;
	tj_tensor *place[AXES];
	for (int i = 0; i < q->n; i++) place[i] = tj_round(padded(q, p[i], i));
	return elements(q, place);
}

/* All corners of the cube around, each times the parts of the axes. */
static tj_tensor *linear(const sampler *q, tj_tensor *const *p)
{
	const char *site = q->site;
	tj_tensor *low[AXES], *part[AXES], *y = NULL;
	for (int i = 0; i < q->n; i++) {
		tj_tensor *s = padded(q, p[i], i);
		low[i] = tj_floor(s);
		part[i] = tj_sub(s, low[i]);
	}
	for (int corner = 0; corner < 1 << q->n; corner++) {
		tj_tensor *place[AXES], *w = NULL;
		for (int i = 0; i < q->n; i++) {
			const bool high = corner >> (q->n - 1 - i) & 1;
			tj_tensor *one = high ? part[i] : tj_sub(tj_f(1), part[i]);
			place[i] = high ? tj_add(low[i], tj_f(1)) : low[i];
			w = w ? tj_mul(w, one) : one;
		}
		tj_tensor *e = tj_mul(elements(q, place), tj_unsqueeze(w, 1));
		y = y ? tj_add(y, e) : e;
	}
	return y;
}

/* 4 x 4 elements around; each is moved by the padding on its own. */
static tj_tensor *cubic(const sampler *q, tj_tensor *const *p)
{
	const char *site = q->site;
	tj_tensor *place[2][4], *w[2][4], *y = NULL;
	for (int i = 0; i < 2; i++) {
		tj_tensor *low = tj_floor(p[i]), *part = tj_sub(p[i], low);
		for (int k = 0; k < 4; k++) {
			place[i][k] = padded(q, tj_add(low, tj_f(k - 1)), i);
			w[i][k] = fn_cubic(site, part, k, -0.75);
		}
	}
	for (int a = 0; a < 4; a++) {
		tj_tensor *row = NULL;
		for (int b = 0; b < 4; b++) {
			tj_tensor *e = tj_mul(elements(q, (tj_tensor *const[]){ place[0][a], place[1][b] }), tj_unsqueeze(w[1][b], 1));
			row = row ? tj_add(row, e) : e;
		}
		row = tj_mul(row, tj_unsqueeze(w[0][a], 1));
		y = y ? tj_add(y, row) : row;
	}
	return y;
}

/* ---- the calls ---- */
static tj_tensor *misfit(const char *site, tj_tensor *x, tj_tensor *grid, const tj_grid_sample_opts *o, tj_sampling mode)
{
	static const char name[] = "grid_sample";
	tj_tensor *bad = fn_bad_float(site, name, "x", x);
	if (!bad) bad = fn_bad_float(site, name, "the grid", grid);
	if (bad) return bad;
	const int n = tj_rank(x) - 2;
	if (n < 2 || n > AXES) return tj_fail(TJ_ERR_SHAPE, name, "[N,C,H,W] or [N,C,D,H,W]", "x has %d axes", tj_rank(x));
	if (tj_rank(grid) != n + 2 || tj_dim(grid, -1) != n || tj_dim(grid, 0) != tj_dim(x, 0))
		return tj_fail(TJ_ERR_SHAPE, name, "[N,sizes of the result,axes]: the last axis has a place for W, H (and D)",
		               "the grid does not fit x");
	for (int i = 0; i < n; i++)
		if (tj_dim(x, 2 + i) < 1) return tj_fail(TJ_ERR_SHAPE, name, "there is nothing to choose from", "axis %d of x is empty", 2 + i);
	if (mode != TJ_SAMPLE_NEAREST && mode != TJ_SAMPLE_LINEAR && mode != TJ_SAMPLE_CUBIC)
		return tj_fail(TJ_ERR_ARG, name, "TJ_SAMPLE_LINEAR, TJ_SAMPLE_NEAREST or TJ_SAMPLE_CUBIC",
		               "mode %d is not for this function", (int)mode);
	if (mode == TJ_SAMPLE_CUBIC && n != 2) return tj_fail(TJ_ERR_ARG, name, "for [N,C,H,W]", "TJ_SAMPLE_CUBIC has two axes");
	if ((unsigned)o->padding > TJ_PAD_REPLICATE)
		return tj_fail(TJ_ERR_ARG, name, "TJ_PAD_CONSTANT (zeros), TJ_PAD_REPLICATE or TJ_PAD_REFLECT",
		               "padding %d is not for this function", (int)o->padding);
	return NULL;
}

tj_tensor *tj_grid_sample_at(const char *site, tj_tensor *x, tj_tensor *grid, const tj_grid_sample_opts *opts)
{
	NN_OPTIONS(tj_grid_sample_opts, o, opts);
	const tj_sampling mode = o.mode == TJ_SAMPLE_DEFAULT ? TJ_SAMPLE_LINEAR : o.mode;
	tj_tensor *bad = misfit(site, x, grid, &o, mode), *p[AXES], *wide = x;
	int64_t shape[TJ_MAX_RANK + 1];
	if (bad) return bad;
	wide = fn_widened(site, x);
	sampler q = { .site = site,
		      .n = tj_rank(x) - 2,
		      .points = 1,
		      .padding = o.padding,
		      .align = o.align_corners,
		      .corners = mode == TJ_SAMPLE_LINEAR };
	shape[0] = tj_dim(x, 0);
	shape[1] = tj_dim(x, 1);
	for (int i = 0; i < q.n; i++) {
		q.size[i] = tj_dim(x, 2 + i);
		q.points *= shape[2 + i] = tj_dim(grid, 1 + i);
	}
	shape[2 + q.n] = TJ_END_DIM;
	q.flat = tj_reshape(wide, TJ_SHAPE(shape[0], shape[1], tj_numel(x) / (shape[0] * shape[1] > 0 ? shape[0] * shape[1] : 1)));
	if (shape[0] * shape[1] == 0) return tj_to(tj_zeros(tj_dtype_of(x), shape), tj_device_of(x));
	tj_tensor *g = tj_reshape(fn_widened(site, grid), TJ_SHAPE(shape[0], q.points, q.n));
	for (int i = 0; i < q.n; i++) p[i] = unnormalised(&q, tj_squeeze(tj_slice(g, 2, q.n - 1 - i, q.n - i, 1), TJ_AXES(2)), i);
	tj_tensor *y = mode == TJ_SAMPLE_NEAREST ? nearest(&q, p) : mode == TJ_SAMPLE_LINEAR ? linear(&q, p) : cubic(&q, p);
	y = tj_reshape(y, shape);
	return tj_is_poison(y) || tj_dtype_of(y) == tj_dtype_of(x) ? y : tj_cast(y, tj_dtype_of(x));
}

/* -1 .. 1 along an axis of size n: the middles of its elements. */
static tj_tensor *middles(const char *site, tj_tensor *like, int64_t n, bool align)
{
	tj_tensor *i = tj_cast(tj_to(tj_arange(TJ_I64, 0, n, 1), tj_device_of(like)), tj_dtype_of(like));
	if (n == 1) return tj_mul(i, tj_f(0));
	return align ? tj_sub(tj_mul(i, tj_f(2.0 / (double)(n - 1))), tj_f(1))
	             : tj_sub(tj_div(tj_add(tj_mul(i, tj_f(2)), tj_f(1)), tj_f((double)n)), tj_f(1));
}

tj_tensor *tj_affine_grid_at(const char *site, tj_tensor *theta, tj_dims size, bool align_corners)
{
	static const char name[] = "affine_grid";
	tj_tensor *bad = fn_bad_float(site, name, "theta", theta), *sum;
	if (bad) return bad;
	const int n = fn_entries(size, AXES + 2) - 2;
	if (n < 2 || n > AXES)
		return tj_fail(TJ_ERR_ARG, name, "those of the result of grid_sample: N, C, H, W or N, C, D, H, W",
		               "size has not 4 or 5 entries");
	if (tj_rank(theta) != 3 || tj_dim(theta, 0) != size[0] || tj_dim(theta, 1) != n || tj_dim(theta, 2) != n + 1)
		return tj_fail(TJ_ERR_SHAPE, name, "one matrix for each example", "theta is not [%lld,%d,%d]", (long long)size[0], n,
		               n + 1);
	for (int i = 0; i < n; i++)
		if (size[2 + i] < 1) return tj_fail(TJ_ERR_ARG, name, "sizes are 1 or more", "size %d is %lld", 2 + i, (long long)size[2 + i]);
	int64_t shape[AXES + 3] = { size[0] };
	for (int i = 0; i < n; i++) shape[1 + i] = 1;
	shape[n + 1] = n;
	shape[n + 2] = TJ_END_DIM;
	tj_tensor *wide = fn_widened(site, theta);
	sum = tj_reshape(tj_slice(wide, 2, n, n + 1, 1), shape); /* what is added: [N,1,..,n] */
	for (int k = 0; k < n; k++) { /* column k is for axis n - 1 - k of the picture */
		tj_tensor *along = fn_along(site, middles(site, wide, size[2 + n - 1 - k], align_corners), n - k, n + 2);
		sum = tj_add(sum, tj_mul(tj_reshape(tj_slice(wide, 2, k, k + 1, 1), shape), along));
	}
	return tj_is_poison(sum) || tj_dtype_of(sum) == tj_dtype_of(theta) ? sum : tj_cast(sum, tj_dtype_of(theta));
}
