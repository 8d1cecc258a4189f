/* SPDX-License-Identifier: MIT */
/* Pools as they are called in networks: the rows max_pool and avg_pool of ops.def with their lists filled in, and adaptive pools. */
#include "functions/functions.h"

enum { AXES = 3 };
typedef struct window { int64_t list[5 * AXES + 1]; } window;

static tj_tensor *pool(const char *site, const char *name, int n, bool mean, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts)
{
	NN_OPTIONS(tj_pool_opts, o, opts);
	window w;
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (bad) return bad;
	if (fn_entries(kernel, n) != n)
		return tj_fail_at(site, TJ_ERR_ARG, name, "as in tj_max_pool2d(x, TJ_SHAPE(3, 3), NULL)", "the window needs %d sizes", n);
	if (o.divisor < 0) return tj_fail_at(site, TJ_ERR_ARG, name, "0 counts the elements", ".divisor is negative");
	if (!mean && (o.divisor || o.exclude_padding))
		return tj_fail_at(site, TJ_ERR_ARG, name, "padding is never the largest", ".divisor and .exclude_padding are for avg_pool");
	for (int i = 0; i < n; i++) {
		w.list[i] = kernel[i];
		w.list[n + i] = o.stride[i] ? o.stride[i] : kernel[i];
		w.list[2 * n + i] = o.dilation[i] ? o.dilation[i] : 1;
		w.list[3 * n + 2 * i] = w.list[3 * n + 2 * i + 1] = o.padding[i];
	}
	w.list[5 * n] = TJ_END_DIM;
	return mean ? tj_avg_pool_at(site, x, w.list, o.ceil,
	                             o.divisor           ? o.divisor
	                             : o.exclude_padding ? -1
	                                                 : 0)
	            : tj_max_pool_at(site, x, w.list, o.ceil);
}

/* The whole of the last n axes. Of equal largest elements the first one has the gradient. */
static tj_tensor *of_all(const char *site, bool mean, tj_tensor *x, int n)
{
	int64_t axes[AXES + 1], shape[TJ_MAX_RANK + 1];
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) axes[i] = first + i;
	axes[n] = TJ_END_DIM;
	if (mean) return tj_mean_at(site, x, axes, true);
	for (int i = 0; i < first + n; i++) shape[i] = i < first ? tj_dim(x, i) : 1;
	shape[first + n] = TJ_END_DIM;
	int64_t flat[TJ_MAX_RANK + 1];
	memcpy(flat, shape, sizeof flat);
	flat[first] = 1;
	for (int i = 0; i < n; i++) flat[first] *= tj_dim(x, first + i);
	flat[first + 1] = TJ_END_DIM;
	return tj_reshape_at(site, tj_max_with_indices_at(site, tj_reshape_at(site, x, flat), -1, false, NULL), shape);
}

/* Part i of an axis goes from i * size / parts, rounded down, to (i + 1) * size / parts, rounded up: so parts may overlap. All are read
 * with the length of the longest, up to their last element; what is read too often does not count. *places, if not NULL: of the shape of x,
 * then of the result. */
static tj_tensor *in_parts(const char *site, bool mean, tj_tensor *x, int axis, int64_t parts, tj_tensor **places)
{
	const int64_t size = tj_dim(x, axis), most = (size + parts - 1) / parts + 1;
	const tj_device d = tj_device_of(x);
	int64_t shape[TJ_MAX_RANK + 2], behind[TJ_MAX_RANK + 2] = { parts, most };
	int rank = 0, ones = 2;
	tj_tensor *i = tj_to_at(site, tj_arange_at(site, TJ_I64, 0, parts, 1), d), *k = tj_to_at(site, tj_arange_at(site, TJ_I64, 0, most, 1), d);
	tj_tensor *from = tj_floor_divide_at(site, tj_mul_at(site, i, tj_i(size)), tj_i(parts));
	tj_tensor *to = tj_neg_at(site, tj_floor_divide_at(site, tj_mul_at(site, tj_add_at(site, i, tj_i(1)), tj_i(-size)), tj_i(parts)));
	tj_tensor *place = tj_add_at(site, tj_unsqueeze_at(site, from, 1), k), *last = tj_unsqueeze_at(site, tj_sub_at(site, to, tj_i(1)), 1);
	tj_tensor *at = tj_reshape_at(site, tj_minimum_at(site, place, last), TJ_SHAPE(parts * most));
	for (int a = 0; a < tj_rank(x); a++) {
		shape[rank++] = a == axis ? parts : tj_dim(x, a);
		if (a == axis) shape[rank++] = most;
		if (a > axis) behind[ones++] = 1;
	}
	shape[rank] = behind[ones] = TJ_END_DIM;
	tj_tensor *all = tj_reshape_at(site, tj_index_select_at(site, x, axis, at), shape);
	if (!mean) {
		tj_tensor *which, *y = tj_max_with_indices_at(site, all, axis + 1, false, &which);
		if (*places) {
			all = tj_reshape_at(site, tj_index_select_at(site, *places, axis, at), shape);
			*places = tj_squeeze_at(site, tj_gather_at(site, all, axis + 1, tj_unsqueeze_at(site, which, axis + 1)), TJ_AXES(axis + 1));
		}
		return y;
	}
	tj_tensor *counts = tj_reshape_at(site, tj_le_at(site, place, last), behind);
	behind[1] = ones > 2 ? 1 : TJ_END_DIM;
	behind[ones - 1] = TJ_END_DIM; /* one for each part */
	return tj_div_at(site, tj_sum_at(site, tj_where_at(site, counts, all, tj_i(0)), TJ_SHAPE(axis + 1), false),
	                 tj_reshape_at(site, tj_sub_at(site, to, from), behind));
}

/* Whether windows of one size side by side give the sizes. */
static bool even(tj_tensor *x, int n, tj_dims sizes, window *w)
{
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) {
		const int64_t size = tj_dim(x, first + i);
		if (size % sizes[i]) return false;
		w->list[i] = w->list[n + i] = size / sizes[i];
		w->list[2 * n + i] = 1;
		w->list[3 * n + 2 * i] = w->list[3 * n + 2 * i + 1] = 0;
	}
	w->list[5 * n] = TJ_END_DIM;
	return true;
}

static tj_tensor *bad_sizes(const char *site, const char *name, int n, tj_tensor *x, tj_dims sizes)
{
	tj_tensor *bad = fn_bad_spatial(site, name, x, n);
	if (bad) return bad;
	if (fn_entries(sizes, n) != n)
		return tj_fail_at(site, TJ_ERR_ARG, name, "as in tj_adaptive_avg_pool2d(x, TJ_SHAPE(7, 7))",
		                  "%d sizes of the result are needed", n);
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) {
		if (sizes[i] < 1)
			return tj_fail_at(site, TJ_ERR_ARG, name, "1 is the pool of a whole axis", "size %d of the result is %lld", i,
			                  (long long)sizes[i]);
		if (tj_dim(x, first + i) < 1)
			return tj_fail_at(site, TJ_ERR_SHAPE, name, "there is no result for an empty axis", "axis %d of x has size 0",
			                  first + i);
	}
	return NULL;
}

static tj_tensor *adaptive(const char *site, const char *name, int n, bool mean, tj_tensor *x, tj_dims sizes)
{
	tj_tensor *y = bad_sizes(site, name, n, x, sizes), *none = NULL;
	window w;
	bool one = true;
	if (y) return y;
	const int first = tj_rank(x) - n;
	for (int i = 0; i < n; i++) one &= sizes[i] == 1;
	const tj_dtype t = tj_dtype_of(x);
	if (mean && !fn_is_float(t))
		return tj_fail_at(site, TJ_ERR_DTYPE, name, "cast it first: tj_cast(x, TJ_F32)", "a mean of %s is no %s", tj_dtype_name(t),
		                  tj_dtype_name(t));
	if (one) return of_all(site, mean, x, n);
	if (even(x, n, sizes, &w)) return mean ? tj_avg_pool_at(site, x, w.list, false, 0) : tj_max_pool_at(site, x, w.list, false);
	y = mean && fn_is_narrow(t) ? tj_cast_at(site, x, TJ_F32) : x;
	for (int k = 0; k < n && !tj_is_poison(y); k++) {
		const int i = mean ? k : n - 1 - k; /* whole rows are added up faster; but of equal largest elements the first one must be
		                                       that of the picture, row by row */
		if (tj_dim(y, first + i) != sizes[i]) y = in_parts(site, mean, y, first + i, sizes[i], &none);
	}
	return tj_dtype_of(y) == t ? y : tj_cast_at(site, y, t);
}

static tj_tensor *adaptive_indices(const char *site, const char *name, int n, tj_tensor *x, tj_dims sizes, tj_tensor **indices)
{
	tj_tensor *y = bad_sizes(site, name, n, x, sizes);
	if (!y && !indices) y = tj_fail_at(site, TJ_ERR_ARG, name, "the address of a variable", "indices is NULL");
	if (indices) *indices = y;
	if (y) return y;
	*indices = fn_places(site, x, n);
	y = x;
	for (int i = n - 1, first = tj_rank(x) - n; i >= 0 && !tj_is_poison(y); i--)
		if (tj_dim(y, first + i) != sizes[i]) y = in_parts(site, false, y, first + i, sizes[i], indices);
	return y;
}

#define POOLS(n) \
	tj_tensor *tj_max_pool##n##d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts) \
	{ \
		return pool(site, "max_pool" #n "d", n, false, x, kernel, opts); \
	} \
	tj_tensor *tj_avg_pool##n##d_at(const char *site, tj_tensor *x, tj_dims kernel, const tj_pool_opts *opts) \
	{ \
		return pool(site, "avg_pool" #n "d", n, true, x, kernel, opts); \
	} \
	tj_tensor *tj_adaptive_max_pool##n##d_at(const char *site, tj_tensor *x, tj_dims sizes) \
	{ \
		return adaptive(site, "adaptive_max_pool" #n "d", n, false, x, sizes); \
	} \
	tj_tensor *tj_adaptive_max_pool##n##d_with_indices_at(const char *site, tj_tensor *x, tj_dims sizes, tj_tensor **indices) \
	{ \
		return adaptive_indices(site, "adaptive_max_pool" #n "d_with_indices", n, x, sizes, indices); \
	} \
	tj_tensor *tj_adaptive_avg_pool##n##d_at(const char *site, tj_tensor *x, tj_dims sizes) \
	{ \
		return adaptive(site, "adaptive_avg_pool" #n "d", n, true, x, sizes); \
	}
POOLS(1)
POOLS(2)
POOLS(3)
