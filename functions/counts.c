/* SPDX-License-Identifier: MIT */
/* Counting and comparing values: histograms, membership, runs. */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *flat(const char *site, tj_tensor *x) { return tj_reshape(x, TJ_SHAPE(tj_numel(x))); }

/* weight (NULL: 1 each) added at place i of n, for each element; a place of n is left out if `spare`. */
static tj_tensor *counted(const char *site, tj_tensor *place, tj_tensor *weight, int64_t n, bool spare)
{
	const fn_dims all = { 1, { n + spare, TJ_END_DIM } }, part = { 1, { tj_numel(place), TJ_END_DIM } };
	const tj_dtype t = weight ? tj_dtype_of(weight) : TJ_I64;
	tj_tensor *zeros = fn_filled(site, place, t, &all, tj_i(0)),
		  *each = weight ? flat(site, weight) : fn_filled(site, place, t, &part, tj_i(1));
	tj_tensor *y = tj_scatter_add(zeros, 0, flat(site, place), each);
	return spare ? tj_slice(y, 0, 0, n, 1) : y;
}

tj_tensor *tj_bincount_at(const char *site, tj_tensor *x, tj_tensor *weights, int64_t minlength, int64_t length)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "bincount", "x", x)) || (weights && (bad = fn_bad(site, "bincount", "weights", weights)))) return bad;
	if (tj_rank(x) != 1 || (weights && (tj_rank(weights) != 1 || tj_dim(weights, 0) != tj_dim(x, 0))))
		return tj_fail(TJ_ERR_SHAPE, "bincount", "x is 1-d, and so are its weights",
		               "x has %d axes and %lld elements, the weights %d and %lld", tj_rank(x), (long long)tj_numel(x),
		               weights ? tj_rank(weights) : 1, (long long)tj_numel(weights ? weights : x));
	if ((bad = fn_bad_index(site, "bincount", "x", x))) return bad;
	if (minlength < 0 || length < 0)
		return tj_fail(TJ_ERR_ARG, "bincount", "0: by the data", "minlength %lld, length %lld", (long long)minlength,
		               (long long)length);
	tj_tensor *place = tj_cast(x, TJ_I64);
	if (weights && !fn_is_float(tj_dtype_of(weights))) weights = tj_cast(weights, TJ_F64);
	if (!length) length = tj_numel(x) ? tj_item_i(tj_amax(place, TJ_ALL, false)) + 1 : 0;
	site = tj_site_for(site, "bincount", "an element of x is out of range; the length of the result is ",
	                   "elements count from 0; tj_clamp() limits them, or take a greater length");
	return counted(site, place, weights, length < minlength ? minlength : length < 0 ? 0 : length, false);
}

/* The bin of each element: bins where it has none. */
static tj_tensor *even_bin(const char *site, tj_tensor *x, int64_t bins, tj_tensor *low, tj_tensor *high)
{
	tj_tensor *part = tj_div(tj_sub(x, low), tj_sub(high, low)),
		  *bin = tj_minimum(tj_cast(tj_mul(part, tj_f((double)bins)), TJ_I64), tj_i(bins - 1));
	return tj_where(tj_logical_and(tj_ge(x, low), tj_le(x, high)), bin, tj_i(bins));
}

tj_tensor *tj_histc_at(const char *site, tj_tensor *x, int64_t bins, double low, double high)
{
	tj_tensor *bad = fn_bad(site, "histc", "x", x);
	if (bad) return bad;
	if (bins < 1 || !(low <= high) || isinf(low) || isinf(high))
		return tj_fail(TJ_ERR_ARG, "histc", "equal ends: those of x", "%lld bins from %g to %g", (long long)bins, low, high);
	const tj_dtype t = fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32;
	x = tj_cast(x, t == TJ_F64 ? TJ_F64 : TJ_F32);
	tj_tensor *a = tj_f(low), *b = tj_f(high);
	if (low == high && tj_numel(x)) a = tj_amin(x, TJ_ALL, false), b = tj_amax(x, TJ_ALL, false);
	if (low == high) { /* one value: in the middle */
		tj_tensor *one = tj_eq(a, b), *half = tj_where(one, tj_f(1), tj_f(0));
		a = tj_sub(a, half), b = tj_add(b, half);
	}
	return tj_cast(counted(site, even_bin(site, x, bins, a, b), NULL, bins, true), t);
}

tj_tensor *tj_histogram_bin_edges_at(const char *site, tj_tensor *x, int64_t bins, double low, double high)
{
	tj_tensor *bad = fn_bad(site, "histogram_bin_edges", "x", x);
	if (bad) return bad;
	if (bins < 1 || !(low <= high) || isinf(low) || isinf(high))
		return tj_fail(TJ_ERR_ARG, "histogram_bin_edges", "both ends 0: those of x", "%lld bins from %g to %g", (long long)bins,
		               low, high);
	const tj_dtype t = fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32;
	tj_tensor *a = tj_f(low), *b = tj_f(high);
	if (low == 0 && high == 0 && tj_numel(x)) a = tj_amin(x, TJ_ALL, false), b = tj_amax(x, TJ_ALL, false);
	tj_tensor *half = tj_where(tj_eq(a, b), tj_f(0.5), tj_f(0)), *part = tj_div(tj_cast(fn_arange(site, x, bins + 1), TJ_F64), tj_i(bins));
	a = tj_cast(tj_sub(a, half), TJ_F64), b = tj_cast(tj_add(b, half), TJ_F64);
	return tj_cast(tj_lerp(a, b, part), t);
}

/* Bins are half open, but for the last one. */
tj_tensor *tj_histogram_at(const char *site, tj_tensor *x, tj_tensor *edges, tj_tensor *weights, bool density)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "histogram", "x", x)) || (bad = fn_bad(site, "histogram", "edges", edges)) ||
	    (weights && (bad = fn_bad(site, "histogram", "weights", weights))))
		return bad;
	if (tj_rank(edges) != 1 || tj_dim(edges, 0) < 2)
		return tj_fail(TJ_ERR_SHAPE, "histogram", "as in tj_histogram(x, tj_linspace(TJ_F32, 0, 1, 11), NULL, false)",
		               "the edges are 1-d, and at least 2; they have %d axes", tj_rank(edges));
	if (weights && tj_numel(weights) != tj_numel(x))
		return tj_fail(TJ_ERR_SHAPE, "histogram", "a weight for each element", "%lld weights for %lld elements",
		               (long long)tj_numel(weights), (long long)tj_numel(x));
	const int64_t bins = tj_dim(edges, 0) - 1;
	const tj_dtype t = weights ? tj_dtype_of(weights) : fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32;
	x = flat(site, x);
	tj_tensor *first = tj_select(edges, 0, 0), *last = tj_select(edges, 0, -1), *at = tj_sub(tj_searchsorted(edges, x, true), tj_i(1));
	tj_tensor *in = tj_logical_and(tj_ge(x, first), tj_le(x, last)),
		  *count = counted(site, tj_where(in, tj_minimum(at, tj_i(bins - 1)), tj_i(bins)), weights, bins, true);
	count = tj_cast(count, t);
	if (!density) return count;
	tj_tensor *width = tj_sub(tj_slice(edges, 0, 1, TJ_END_DIM, 1), tj_slice(edges, 0, 0, -1, 1));
	return tj_cast(tj_div(tj_div(count, tj_sum(count, TJ_ALL, false)), width), t);
}

/* A point's place in the grid, row by row; a point that lies beside it in any axis is left out. */
tj_tensor *tj_histogramdd_at(const char *site, tj_tensor *x, tj_list edges, tj_tensor *weights, bool density)
{
	static const char name[] = "histogramdd";
	int64_t shape[TJ_MAX_RANK + 1], all = 1;
	tj_tensor *bad;
	if ((bad = fn_bad(site, name, "x", x)) || (weights && (bad = fn_bad(site, name, "weights", weights)))) return bad;
	const int n = fn_listed(edges, TJ_MAX_RANK);
	if (tj_rank(x) < 2 || n < 1 || n > TJ_MAX_RANK || tj_dim(x, -1) != n)
		return tj_fail(TJ_ERR_SHAPE, name, "x is [points,axes]; edges for each axis", "x has %d axes, there are %d lists of edges",
		               tj_rank(x), n);
	for (int i = 0; i < n; i++) {
		if ((bad = fn_bad(site, name, "edges", edges[i]))) return bad;
		if (tj_rank(edges[i]) != 1 || tj_dim(edges[i], 0) < 2)
			return tj_fail(TJ_ERR_SHAPE, name, "as tj_linspace(TJ_F32, 0, 1, 11)",
			               "edges are 1-d, and at least 2; those of axis %d have %d axes", i, tj_rank(edges[i]));
		shape[i] = tj_dim(edges[i], 0) - 1;
		if (all > (INT64_C(1) << 48) / shape[i]) return tj_fail(TJ_ERR_LIMIT, name, "fewer bins", "there are more than 2^48 bins");
		all *= shape[i];
	}
	shape[n] = TJ_END_DIM;
	const int64_t points = tj_numel(x) / n;
	if (weights && tj_numel(weights) != points)
		return tj_fail(TJ_ERR_SHAPE, name, "a weight for each point", "%lld weights for %lld points", (long long)tj_numel(weights),
		               (long long)points);
	const tj_dtype t = weights ? tj_dtype_of(weights) : fn_is_float(tj_dtype_of(x)) ? tj_dtype_of(x) : TJ_F32;
	tj_tensor *in = NULL, *place = NULL, *part = NULL;
	x = tj_reshape(x, TJ_SHAPE(points, n));
	for (int i = 0; i < n; i++) {
		tj_tensor *v = tj_select(x, 1, i), *within = tj_logical_and(tj_ge(v, tj_select(edges[i], 0, 0)), tj_le(v, tj_select(edges[i], 0, -1)));
		tj_tensor *at = tj_minimum(tj_sub(tj_searchsorted(edges[i], v, true), tj_i(1)), tj_i(shape[i] - 1));
		in = i ? tj_logical_and(in, within) : within;
		place = i ? tj_add(tj_mul(place, tj_i(shape[i])), at) : at;
		tj_tensor *width = fn_along(site, tj_sub(tj_slice(edges[i], 0, 1, TJ_END_DIM, 1), tj_slice(edges[i], 0, 0, -1, 1)), i, n);
		part = i ? tj_mul(part, width) : width;
	}
	tj_tensor *count = tj_cast(tj_reshape(counted(site, tj_where(in, place, tj_i(all)), weights, all, true), shape), t);
	return density ? tj_cast(tj_div(tj_div(count, tj_sum(count, TJ_ALL, false)), part), t) : count;
}

/* ---- comparing ---- */
tj_tensor *tj_allclose_at(const char *site, tj_tensor *a, tj_tensor *b, double rtol, double atol, bool equal_nan)
{
	return tj_all(tj_isclose(a, b, rtol, atol, equal_nan), TJ_ALL, false);
}

tj_tensor *tj_equal_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "equal", "a", a)) || (bad = fn_bad(site, "equal", "b", b))) return bad;
	bool same = tj_rank(a) == tj_rank(b);
	for (int i = 0; same && i < tj_rank(a); i++) same = tj_dim(a, i) == tj_dim(b, i);
	return same ? tj_all(tj_eq(a, b), TJ_ALL, false) : tj_full(TJ_BOOL, TJ_0D, tj_i(0));
}

/* Few tests are all compared; many are sorted and searched. */
tj_tensor *tj_isin_at(const char *site, tj_tensor *x, tj_tensor *tests, bool invert)
{
	enum { FEW = 64 };
	tj_tensor *bad, *hit;
	if ((bad = fn_bad(site, "isin", "x", x)) || (bad = fn_bad(site, "isin", "tests", tests))) return bad;
	const int64_t n = tj_numel(tests);
	tests = flat(site, tests);
	if (n <= FEW) hit = tj_any(tj_eq(tj_unsqueeze(x, -1), tests), TJ_AXES(-1), false);
	else {
		tj_tensor *sorted = tj_sort(tests, 0, false, NULL), *at = tj_minimum(tj_searchsorted(sorted, x, false), tj_i(n - 1));
		hit = tj_eq(tj_take(sorted, at), x);
	}
	return invert ? tj_logical_not(hit) : hit;
}

/* ---- runs ---- */
tj_tensor *tj_unique_consecutive_at(const char *site, tj_tensor *x, tj_tensor **inverse, tj_tensor **counts)
{
	tj_tensor *bad = fn_bad(site, "unique_consecutive", "x", x);
	const int64_t n = bad ? 0 : tj_numel(x);
	if (bad) {
		if (inverse) *inverse = bad;
		if (counts) *counts = bad;
		return bad;
	}
	const fn_dims s = fn_shape_of(x), one = { 1, { n ? 1 : 0, TJ_END_DIM } };
	tj_tensor *v = flat(site, x), *first = fn_filled(site, x, TJ_BOOL, &one, tj_i(1));
	tj_tensor *begins = n ? tj_cat(TJ_LIST(first, tj_ne(tj_slice(v, 0, 1, TJ_END_DIM, 1), tj_slice(v, 0, 0, -1, 1))), 0) : first;
	if (inverse) *inverse = fn_reshape(site, tj_sub(tj_cumsum(begins, 0), tj_i(1)), &s);
	if (counts) { /* from each beginning to the next one */
		tj_tensor *at = tj_reshape(tj_nonzero(begins), TJ_SHAPE(-1)), *end = fn_filled(site, x, TJ_I64, &one, tj_i(n));
		*counts = n ? tj_sub(tj_cat(TJ_LIST(tj_slice(at, 0, 1, TJ_END_DIM, 1), end), 0), at) : at;
	}
	return tj_masked_select(v, begins);
}
