/* SPDX-License-Identifier: MIT */
/* Differences and integrals of values along an axis. */
#include "functions/functions.h"

/* Elements from `first` of the axis on, but the last `less` of them. */
static tj_tensor *part(const char *site, tj_tensor *x, int axis, int64_t first, int64_t less)
{
	return tj_slice(x, axis, first, tj_dim(x, axis) - less, 1);
}

static tj_tensor *bad_series(const char *site, const char *op, tj_tensor *x, int axis, int64_t least, int *a)
{
	tj_tensor *bad = fn_bad_axis(site, op, x, axis, a);
	if (bad) return bad;
	if (!tj_rank(x)) return tj_fail(TJ_ERR_SHAPE, op, "tj_unsqueeze() gives it an axis", "a 0-d tensor has no axis");
	return tj_dim(x, *a) >= least ? NULL
	                              : tj_fail(TJ_ERR_SHAPE, op, "", "axis %d has %lld elements, at least %lld are needed", *a,
	                                        (long long)tj_dim(x, *a), (long long)least);
}

tj_tensor *tj_diff_at(const char *site, tj_tensor *x, int n, int axis, tj_tensor *before, tj_tensor *after)
{
	int a, k = 0;
	tj_tensor *list[4], *bad = bad_series(site, "diff", x, axis, 0, &a);
	if (bad) return bad;
	if (n < 0) return tj_fail(TJ_ERR_ARG, "diff", "1 is the first difference", "%d times", n);
	if (n && before) list[k++] = before;
	list[k++] = x;
	if (n && after) list[k++] = after;
	list[k] = TJ_END;
	if (k > 1) x = tj_cat(list, a);
	for (int i = 0; i < n && !tj_is_poison(x); i++) {
		if (!tj_dim(x, a)) return x;
		tj_tensor *high = part(site, x, a, 1, 0), *low = part(site, x, a, 0, 1);
		x = tj_dtype_of(x) == TJ_BOOL ? tj_ne(high, low) : tj_sub(high, low);
	}
	return x;
}

/* The distances between neighbours: a number, or one less than there are coordinates, along the axis of y. */
static tj_tensor *steps(const char *site, const char *op, tj_tensor *y, int a, tj_tensor *spacing, tj_tensor **bad)
{
	if ((*bad = fn_bad(site, op, "spacing", spacing)) || !tj_rank(spacing)) return spacing;
	if (tj_rank(spacing) == 1 && tj_rank(y) > 1) spacing = fn_along(site, spacing, a, tj_rank(y));
	if (tj_rank(spacing) != tj_rank(y) || tj_dim(spacing, a) != tj_dim(y, a))
		return *bad = tj_fail(TJ_ERR_SHAPE, op, "a number, or a coordinate for each element of the axis",
		                      "the axis has %lld elements", (long long)tj_dim(y, a));
	return tj_sub(part(site, spacing, a, 1, 0), part(site, spacing, a, 0, 1));
}

/* The areas between neighbours. */
static tj_tensor *areas(const char *site, const char *op, tj_tensor *y, tj_tensor *spacing, int axis, int *a)
{
	tj_tensor *bad = bad_series(site, op, y, axis, 1, a);
	if (bad) return bad;
	tj_tensor *h = steps(site, op, y, *a, spacing, &bad);
	if (bad) return bad;
	return tj_mul(tj_mul(tj_add(part(site, y, *a, 1, 0), part(site, y, *a, 0, 1)), h), tj_f(0.5));
}

tj_tensor *tj_trapezoid_at(const char *site, tj_tensor *y, tj_tensor *spacing, int axis)
{
	int a;
	tj_tensor *area = areas(site, "trapezoid", y, spacing, axis, &a);
	return tj_is_poison(area) ? area : tj_sum(area, TJ_AXES(a), false);
}

tj_tensor *tj_cumulative_trapezoid_at(const char *site, tj_tensor *y, tj_tensor *spacing, int axis)
{
	int a;
	tj_tensor *area = areas(site, "cumulative_trapezoid", y, spacing, axis, &a);
	return tj_is_poison(area) ? area : tj_cumsum(area, a);
}

/* The slope at one end: from 2 points, or from 3. near, far: the distances from the end on; sign: -1 at the last element. */
static tj_tensor *end_slope(const char *site, tj_tensor *x, int a, tj_tensor *near, tj_tensor *far, int order, bool last)
{
	const int64_t n = tj_dim(x, a);
	tj_tensor *p[3];
	for (int i = 0; i <= order; i++) p[i] = tj_slice(x, a, last ? n - 1 - i : i, last ? n - i : i + 1, 1);
	tj_tensor *first = tj_div(tj_sub(p[1], p[0]), near), *y = first;
	if (order == 2) { /* the slope between two points, less what it changes up to the end */
		tj_tensor *second = tj_div(tj_sub(p[2], p[1]), far);
		y = tj_sub(first, tj_mul(tj_div(tj_sub(second, first), tj_add(near, far)), near));
	}
	return last ? tj_neg(y) : y;
}

/* x: no narrow float */
static tj_tensor *slopes(const char *site, tj_tensor *x, tj_tensor *spacing, int a, int edge_order)
{
	tj_tensor *bad, *h = steps(site, "gradient", x, a, spacing, &bad);
	if (bad) return bad;
	const bool even = !tj_rank(h);
	const int64_t n = tj_dim(x, a);
	tj_tensor *side[4]; /* the distances at both ends */
	for (int k = 0; k < 4; k++) {
		const int64_t i = k < 2 ? k : n - 2 - (k - 2);
		side[k] = even || i < 0 || i > n - 2 ? h : tj_slice(h, a, i, i + 1, 1);
	}
	tj_tensor *front = end_slope(site, x, a, side[0], side[1], edge_order, false),
		  *back = end_slope(site, x, a, side[2], side[3], edge_order, true);
	if (n == 2) return tj_cat(TJ_LIST(front, back), a);
	tj_tensor *low = part(site, x, a, 0, 2), *mid = part(site, x, a, 1, 1), *high = part(site, x, a, 2, 0), *inner;
	if (even) inner = tj_div(tj_sub(high, low), tj_mul(h, tj_f(2)));
	else { /* both slopes, each weighted by the other distance */
		tj_tensor *p = part(site, h, a, 0, 1), *q = part(site, h, a, 1, 0), *below = tj_div(tj_sub(mid, low), p),
			  *above = tj_div(tj_sub(high, mid), q);
		inner = tj_div(tj_add(tj_mul(below, q), tj_mul(above, p)), tj_add(p, q));
	}
	return tj_cat(TJ_LIST(front, inner, back), a);
}

tj_tensor *tj_gradient_at(const char *site, tj_tensor *x, tj_tensor *spacing, int axis, int edge_order)
{
	int a;
	tj_tensor *bad;
	if (edge_order != 1 && edge_order != 2) return tj_fail(TJ_ERR_ARG, "gradient", "1 or 2", "the order at the edges is %d", edge_order);
	if ((bad = bad_series(site, "gradient", x, axis, edge_order + 1, &a)) || (bad = fn_bad(site, "gradient", "spacing", spacing))) return bad;
	const tj_dtype t = tj_dtype_of(x);
	const bool once = fn_is_narrow(t) && (!tj_rank(spacing) || tj_dtype_of(spacing) == t); /* the result is narrow, too, and rounded once */
	tj_tensor *wide = fn_is_float(t) ? fn_widened(site, x) : tj_cast(x, TJ_F32),
		  *y = slopes(site, wide, once ? fn_widened(site, spacing) : spacing, a, edge_order);
	return once && !tj_is_poison(y) ? tj_cast(y, t) : y;
}
