/* SPDX-License-Identifier: MIT */
/* Places and values whose number depends on data, in results of a given size: in the graph, with no boundary. And places as coordinates. */
#include "functions/functions.h"

static tj_tensor *bad_size(const char *site, const char *op, tj_tensor *x, int64_t size, tj_tensor **count)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (!bad && size < 0) bad = tj_fail(TJ_ERR_ARG, op, "the rows of the result", "the size is %lld", (long long)size);
	if (bad && count) *count = bad;
	return bad;
}

/* Element i of what is [n] goes to place (those that are `kept` before it); what is not kept and what has no room goes behind the end. v:
 * [size + 1]. */
static tj_tensor *packed(const char *site, tj_tensor *v, tj_tensor *kept, tj_tensor *what, int64_t size)
{
	tj_tensor *at = tj_sub(tj_cumsum(kept, 0), tj_i(1));
	at = tj_where(tj_logical_and(kept, tj_lt(at, tj_i(size))), at, tj_i(size));
	return tj_slice(tj_scatter(v, 0, at, what), 0, 0, size, 1);
}

static tj_tensor *flat(const char *site, tj_tensor *x) { return tj_reshape(x, TJ_SHAPE(tj_numel(x))); }

/* A number that is larger than tj_i() takes. */
static tj_tensor *whole(const char *site, int64_t v)
{
	if (v < INT64_C(1) << 51) return tj_i(v);
	return tj_add(tj_shift_left(tj_full(TJ_I64, TJ_0D, tj_i(v >> 31)), tj_i(31)), tj_i(v & INT32_MAX));
}

tj_tensor *tj_nonzero_static_at(const char *site, tj_tensor *x, int64_t size, int64_t fill, tj_tensor **count)
{
	tj_tensor *column[TJ_MAX_RANK + 1], *bad = bad_size(site, "nonzero_static", x, size, count);
	if (bad) return bad;
	const int rank = tj_rank(x);
	tj_tensor *kept = flat(site, tj_ne(x, tj_i(0))), *n = tj_sum(kept, TJ_ALL, false);
	if (count) *count = tj_minimum(n, tj_i(size));
	if (!rank || !size) return tj_to(tj_zeros(TJ_I64, TJ_SHAPE(size, rank)), tj_device_of(x));
	tj_tensor *rest = packed(site, tj_to(tj_zeros(TJ_I64, TJ_SHAPE(size + 1)), tj_device_of(x)), kept, fn_arange(site, x, tj_numel(x)), size);
	for (int i = rank - 1; i >= 0; i--) {
		const int64_t d = tj_dim(x, i) ? tj_dim(x, i) : 1;
		column[i] = tj_remainder(rest, tj_i(d));
		rest = tj_floor_divide(rest, tj_i(d));
	}
	column[rank] = TJ_END;
	return tj_where(tj_unsqueeze(tj_lt(fn_arange(site, x, size), n), 1), tj_stack(column, 1), tj_i(fill));
}

/* Each value that differs from the one before it in sorted order. */
tj_tensor *tj_unique_static_at(const char *site, tj_tensor *x, int64_t size, tj_tensor *fill, tj_tensor **count)
{
	tj_tensor *bad = bad_size(site, "unique_static", x, size, count);
	if (!bad && (bad = fn_bad(site, "unique_static", "fill", fill)) && count) *count = bad;
	if (bad) return bad;
	const int64_t n = tj_numel(x);
	tj_tensor *v = tj_stop_gradient(tj_sort(flat(site, x), 0, false, NULL)),
		  *none = tj_to(tj_full(tj_dtype_of(x), TJ_SHAPE(size + 1), fill), tj_device_of(x));
	tj_tensor *kept = tj_to(tj_ones(TJ_BOOL, TJ_SHAPE(n < 1 ? 0 : 1)), tj_device_of(x));
	if (n > 1) kept = tj_cat(TJ_LIST(kept, tj_ne(tj_slice(v, 0, 1, n, 1), tj_slice(v, 0, 0, n - 1, 1))), 0);
	if (count) *count = tj_minimum(tj_sum(kept, TJ_ALL, false), tj_i(size));
	return packed(site, none, kept, v, size);
}

int tj_unravel_index_at(const char *site, tj_tensor *index, tj_dims shape, tj_tensor **out)
{
	static const char name[] = "unravel_index";
	const int n = fn_entries(shape, TJ_MAX_RANK);
	tj_tensor *bad = fn_bad(site, name, "the index", index);
	int64_t size = 1;
	if (!bad && !out) bad = tj_fail(TJ_ERR_ARG, name, "room for a result for each axis", "out is NULL");
	if (!bad && n > TJ_MAX_RANK) bad = tj_fail(TJ_ERR_ARG, name, "as in tj_unravel_index(i, TJ_SHAPE(2, 3), out)", "the shape has %d axes", n);
	for (int i = 0; i < n && !bad; i++)
		if (shape[i] < 0 || (shape[i] && size > INT64_MAX / shape[i]))
			bad = tj_fail(TJ_ERR_ARG, name, "sizes are 0 or more, and their product is an i64", "size %d is %lld", i,
			              (long long)shape[i]);
		else size *= shape[i];
	if (!bad && (fn_is_float(tj_dtype_of(index)) || tj_dtype_of(index) == TJ_BOOL))
		bad = tj_fail(TJ_ERR_DTYPE, name, "cast it first: tj_cast(index, TJ_I64)", "the index is %s, an integer is needed",
		              tj_dtype_name(tj_dtype_of(index)));
	if (bad) {
		for (int i = 0; out && i < n && i < TJ_MAX_RANK; i++) out[i] = bad;
		return 0;
	}
	/* out of range it is a fault, that of an index */
	tj_tensor *rest = tj_cast(index, TJ_I64),
		  *inside = tj_all(tj_logical_and(tj_ge(rest, tj_i(0)), tj_lt(rest, whole(site, size))), TJ_ALL, false);
	const char *named = tj_site_for(site, name, "an index is outside of the shape", "an index counts the elements of the shape, from 0");
	rest = tj_add(rest, tj_squeeze(fn_zero_if(named, index, inside), TJ_AXES(0)));
	for (int i = n - 1; i >= 0; i--) {
		const int64_t d = shape[i] ? shape[i] : 1;
		out[i] = i ? tj_remainder(rest, whole(site, d)) : rest;
		if (i) rest = tj_floor_divide(rest, whole(site, d));
	}
	return n;
}
