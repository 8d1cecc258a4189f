/* SPDX-License-Identifier: MIT */
/* What is read off sorted values: medians, quantiles, the k-th value, the mode. NaN comes last when sorted. */
#include "functions/functions.h"

#include <math.h>

/* x with the axis as its last one; TJ_END_DIM: all elements. A 0-d x gets an axis. */
typedef struct line { tj_tensor *x; int axis, rank; int64_t n; bool all; } line;
static tj_tensor *bad_line(const char *site, const char *op, tj_tensor *x, int64_t axis, line *l)
{
	int a = 0;
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || (axis != TJ_END_DIM && (bad = fn_bad_axis(site, op, x, axis, &a)))) return bad;
	*l = (line){ x, a, tj_rank(x), 0, axis == TJ_END_DIM };
	if (l->all || !l->rank) l->x = tj_reshape(x, TJ_SHAPE(tj_numel(x)));
	else l->x = tj_movedim(x, TJ_AXES(a), TJ_AXES(-1));
	l->n = tj_dim(l->x, -1);
	return l->n > 0 ? NULL : tj_fail(TJ_ERR_SHAPE, op, "tj_numel() tells", "there are no elements along the axis");
}

/* y has one element for each line, with a last axis of size 1: as a reduction over the axis gives it. */
static tj_tensor *reduced(const char *site, tj_tensor *y, const line *l, bool keepdim)
{
	if (!l->rank) return tj_reshape(y, TJ_0D);
	if (!l->all) return keepdim ? tj_movedim(y, TJ_AXES(-1), TJ_AXES(l->axis)) : tj_squeeze(y, TJ_AXES(-1));
	const fn_dims ones = fn_shape_ones(keepdim ? l->rank : 0);
	return fn_reshape(site, y, &ones);
}

/* A place for each line, or for all of them: one for each line. */
static tj_tensor *places(const char *site, tj_tensor *place, const line *l)
{
	fn_dims one = fn_shape_of(l->x);
	one.dim[one.n - 1] = 1;
	return fn_expand(site, place, &one);
}

/* Element `place` of each line, sorted: i64. */
static tj_tensor *chosen(const char *site, tj_tensor *place, const line *l, bool keepdim, tj_tensor **indices)
{
	tj_tensor *index, *y = tj_take_sorted(l->x, places(site, place, l), -1, &index);
	if (indices) *indices = reduced(site, index, l, keepdim);
	return reduced(site, y, l, keepdim);
}

static tj_tensor *failed(tj_tensor *bad, tj_tensor **other)
{
	if (other) *other = bad;
	return bad;
}

/* How many NaN are in each line. */
static tj_tensor *nans(const char *site, tj_tensor *x) { return tj_sum(tj_isnan(x), TJ_AXES(-1), true); }

/* The lower one of two in the middle. With NaN: the first of them. */
static tj_tensor *median(const char *site, const char *op, bool without, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices)
{
	line l;
	tj_tensor *bad = bad_line(site, op, x, axis, &l);
	if (bad) return failed(bad, indices);
	tj_tensor *place = tj_i((l.n - 1) / 2);
	if (fn_is_float(tj_dtype_of(x))) {
		tj_tensor *nan = nans(site, l.x), *known = tj_sub(tj_i(l.n), nan);
		place = without ? tj_maximum(tj_floor_divide(tj_sub(known, tj_i(1)), tj_i(2)), tj_i(0)) : tj_where(tj_gt(nan, tj_i(0)), known, place);
	}
	return chosen(site, place, &l, keepdim, indices);
}

tj_tensor *tj_median_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices)
{
	return median(site, "median", false, x, axis, keepdim, indices);
}
tj_tensor *tj_nanmedian_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices)
{
	return median(site, "nanmedian", true, x, axis, keepdim, indices);
}

tj_tensor *tj_kthvalue_at(const char *site, tj_tensor *x, int64_t k, int64_t axis, bool keepdim, tj_tensor **indices)
{
	line l;
	tj_tensor *bad = bad_line(site, "kthvalue", x, axis, &l);
	if (!bad && (k < 1 || k > l.n))
		bad = tj_fail(TJ_ERR_ARG, "kthvalue", "1 is the smallest", "k is %lld of %lld", (long long)k, (long long)l.n);
	if (bad) return failed(bad, indices);
	return chosen(site, tj_i(k - 1), &l, keepdim, indices);
}

/* A run of equal values grows along the sorted line; the first longest one is that of the smallest value. Its last element is the last one
 * of x. */
tj_tensor *tj_mode_at(const char *site, tj_tensor *x, int64_t axis, bool keepdim, tj_tensor **indices)
{
	line l;
	tj_tensor *bad = bad_line(site, "mode", x, axis, &l), *index;
	if (bad) return failed(bad, indices);
	tj_tensor *sorted = tj_sort(l.x, -1, false, &index), *i = fn_arange(site, x, l.n);
	if (l.n == 1) return chosen(site, tj_i(0), &l, keepdim, indices);
	tj_tensor *begins = tj_ne(tj_slice(sorted, -1, 1, TJ_END_DIM, 1), tj_slice(sorted, -1, 0, -1, 1));
	tj_tensor *start = tj_where(begins, tj_slice(i, 0, 1, TJ_END_DIM, 1), tj_i(0)),
		  *length = tj_sub(tj_slice(i, 0, 1, TJ_END_DIM, 1), tj_cummax(start, -1, NULL));
	fn_dims one = fn_shape_of(length);
	one.dim[one.n - 1] = 1;
	length = tj_cat(TJ_LIST(fn_filled(site, x, TJ_I64, &one, tj_i(0)), length), -1);
	tj_tensor *place = places(site, tj_argmax(length, -1, true), &l);
	if (indices) *indices = reduced(site, tj_gather(index, -1, place), &l, keepdim);
	return reduced(site, tj_gather(sorted, -1, place), &l, keepdim);
}

/* ---- quantiles ---- */
/* Of each line of x at its ranks. The place before a rank and the one behind it are neighbours, for which tj_take_sorted() looks once. */
static tj_tensor *between(const char *site, tj_tensor *x, tj_tensor *rank, tj_interpolation how)
{
	tj_tensor *low = tj_floor(rank), *high = tj_ceil(rank);
	if (how == TJ_NEAREST) low = high = tj_round(rank);
	if (how == TJ_LOWER) high = low;
	if (how == TJ_HIGHER) low = high;
	if (how != TJ_LINEAR && how != TJ_MIDPOINT) return tj_take_sorted(x, tj_cast(low, TJ_I64), -1, NULL);
	fn_dims pairs = fn_shape_of(rank);
	pairs.dim[pairs.n - 1] *= 2;
	tj_tensor *place = fn_reshape(site, tj_cast(tj_stack(TJ_LIST(low, high), -1), TJ_I64), &pairs), *both = tj_take_sorted(x, place, -1, NULL);
	tj_tensor *a = tj_slice(both, -1, 0, TJ_END_DIM, 2), *b = tj_slice(both, -1, 1, TJ_END_DIM, 2);
	return tj_lerp(a, b, how == TJ_LINEAR ? tj_cast(tj_sub(rank, low), tj_dtype_of(x)) : tj_f(0.5));
}

static tj_tensor *quantile(const char *site, const char *op, bool without, tj_tensor *x, tj_tensor *q, int64_t axis, bool keepdim,
                           tj_interpolation how)
{
	line l;
	tj_tensor *bad, *y;
	if ((bad = bad_line(site, op, x, axis, &l)) || (bad = fn_bad(site, op, "q", q))) return bad;
	if (tj_rank(q) > 1 || (unsigned)how > TJ_MIDPOINT)
		return tj_fail(TJ_ERR_ARG, op, "q: a number, or several along one axis",
		               (unsigned)how > TJ_MIDPOINT ? "no such interpolation: %d" : "q has %d axes",
		               (unsigned)how > TJ_MIDPOINT ? (int)how : tj_rank(q));
	const tj_dtype t = fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32, wide = t == TJ_F64 ? TJ_F64 : TJ_F32;
	const int64_t m = tj_numel(q);
	tj_tensor *values = tj_cast(l.x, wide), *nan = nans(site, values), *known = tj_sub(tj_i(l.n), nan);
	tj_tensor *last = without ? tj_maximum(tj_sub(known, tj_i(1)), tj_i(0)) : fn_filled(site, x, TJ_I64, &(fn_dims){ 0 }, tj_i(l.n - 1));
	fn_dims lines = fn_shape_of(values);
	lines.dim[lines.n - 1] = m;
	tj_tensor *rank = fn_expand(site, tj_mul(tj_cast(last, TJ_F64), tj_reshape(tj_cast(q, TJ_F64), TJ_SHAPE(m))), &lines);
	const char *named = l.n ? tj_site_for(site, op, "q is not from 0 to 1", "q is a part: 0.5 for the median") : site;
	y = between(named, values, rank, how);
	y = tj_cast(tj_where(without ? tj_eq(known, tj_i(0)) : tj_gt(nan, tj_i(0)), tj_f(NAN), y), t);
	if (!tj_rank(q)) return reduced(site, y, &l, keepdim);
	if (!l.rank) return y;
	if (l.all) {
		fn_dims s = fn_shape_ones(1 + (keepdim ? l.rank : 0));
		s.dim[0] = m;
		return fn_reshape(site, y, &s);
	}
	y = tj_movedim(y, TJ_AXES(-1), TJ_AXES(0));
	return keepdim ? tj_unsqueeze(y, l.axis + 1) : y;
}

tj_tensor *tj_quantile_at(const char *site, tj_tensor *x, tj_tensor *q, int64_t axis, bool keepdim, tj_interpolation how)
{
	return quantile(site, "quantile", false, x, q, axis, keepdim, how);
}

tj_tensor *tj_nanquantile_at(const char *site, tj_tensor *x, tj_tensor *q, int64_t axis, bool keepdim, tj_interpolation how)
{
	return quantile(site, "nanquantile", true, x, q, axis, keepdim, how);
}
