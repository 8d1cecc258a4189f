/* SPDX-License-Identifier: MIT */
/* Tensors that are made of numbers: ranges, indices of triangles, combinations, powers. */
#include "functions/functions.h"

/* From both ends, so that both are exact; in f64, rounded once. */
static tj_tensor *between(const char *site, const char *op, double start, double stop, int64_t n)
{
	if (n < 0) return tj_fail(TJ_ERR_ARG, op, "pass the number of elements", "%lld elements", (long long)n);
	const double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
	tj_tensor *i = tj_cast(tj_arange(TJ_I64, 0, n, 1), TJ_F64), *back = tj_sub(tj_f((double)(n - 1)), i);
	tj_tensor *up = tj_add(tj_f(start), tj_mul(i, tj_f(step))), *down = tj_sub(tj_f(stop), tj_mul(back, tj_f(step)));
	return n > 1 ? tj_where(tj_lt(i, tj_f((double)(n / 2))), up, down) : up;
}

tj_tensor *tj_linspace_at(const char *site, tj_dtype dtype, double start, double stop, int64_t n)
{
	return tj_cast(between(site, "linspace", start, stop, n), dtype);
}

tj_tensor *tj_logspace_at(const char *site, tj_dtype dtype, double start, double stop, int64_t n, double base)
{
	return tj_cast(tj_pow(tj_f(base), between(site, "logspace", start, stop, n)), dtype);
}

/* Row r of the triangle has some columns; element i is in the row that begins at or before i. */
static tj_tensor *triangle(const char *site, const char *op, int64_t rows, int64_t columns, int64_t offset, bool lower)
{
	if (rows < 0 || columns < 0)
		return tj_fail(TJ_ERR_ARG, op, "sizes are 0 or more", "%lld rows, %lld columns", (long long)rows, (long long)columns);
	offset = offset < -rows ? -rows : offset > columns ? columns : offset;
	if (!lower && rows > columns - offset) rows = columns - offset; /* those below have none */
	tj_tensor *row = tj_arange(TJ_I64, 0, rows, 1), *edge = tj_add(row, tj_i(lower ? offset + 1 : offset));
	edge = tj_clamp(edge, tj_i(0), tj_i(columns));
	int64_t n = 0;
	for (int64_t r = 0; r < rows; r++) {
		const int64_t e = lower ? r + offset + 1 : r + offset, at = e < 0 ? 0 : e > columns ? columns : e;
		n += lower ? at : columns - at;
	}
	if (!n) return tj_full(TJ_I64, TJ_SHAPE(2, 0), tj_i(0));
	tj_tensor *count = lower ? edge : tj_sub(tj_i(columns), edge), *end = tj_cumsum(count, 0), *i = tj_arange(TJ_I64, 0, n, 1);
	tj_tensor *in = tj_searchsorted(end, i, true), *begin = tj_sub(end, lower ? count : tj_i(columns)); /* above: less the columns left out */
	tj_tensor *column = tj_sub(i, tj_index_select(begin, 0, in));
	return tj_stack(TJ_LIST(in, column), 0);
}

tj_tensor *tj_tril_indices_at(const char *site, int64_t rows, int64_t columns, int64_t offset)
{
	return triangle(site, "tril_indices", rows, columns, offset, true);
}
tj_tensor *tj_triu_indices_at(const char *site, int64_t rows, int64_t columns, int64_t offset)
{
	return triangle(site, "triu_indices", rows, columns, offset, false);
}

/* ---- combinations ---- */
tj_tensor *tj_cartesian_prod_at(const char *site, tj_list list)
{
	tj_tensor *part[TJ_MAX_RANK + 1];
	const int n = fn_listed(list, TJ_MAX_RANK);
	if (!n || n > TJ_MAX_RANK)
		return tj_fail(TJ_ERR_ARG, "cartesian_prod", "as in tj_cartesian_prod(TJ_LIST(a, b))",
		               n ? "there are too many operands" : "the list is empty");
	if (!tj_meshgrid(list, false, part)) return part[0];
	if (n == 1) return part[0];
	for (int i = 0; i < n; i++) part[i] = tj_reshape(part[i], TJ_SHAPE(tj_numel(part[i])));
	part[n] = TJ_END;
	return tj_stack(part, 1);
}

/* Rows of k places become rows of k + 1: each with all places behind its last one, `gap` away at least. */
static int extended(const char *site, tj_tensor **place, int k, int64_t n, int gap, int64_t total)
{
	tj_tensor *last = place[k - 1], *first = tj_add(last, tj_i(gap)), *count = tj_sub(tj_i(n), first), *end = tj_cumsum(count, 0);
	tj_tensor *i = fn_arange(site, last, total), *row = tj_searchsorted(end, i, true), *moved = tj_sub(first, tj_sub(end, count));
	for (int j = 0; j < k; j++) place[j] = tj_index_select(place[j], 0, row);
	place[k] = tj_add(tj_index_select(moved, 0, row), i);
	return k + 1;
}

/* In lexicographic order of their places. */
tj_tensor *tj_combinations_at(const char *site, tj_tensor *x, int r, bool with_replacement)
{
	tj_tensor *place[TJ_MAX_RANK + 1], *bad = fn_bad(site, "combinations", "x", x);
	if (bad) return bad;
	const int64_t n = tj_numel(x);
	double total = (double)n;
	if (tj_rank(x) != 1 || r < 0 || r > TJ_MAX_RANK)
		return tj_fail(TJ_ERR_ARG, "combinations", "as in tj_combinations(x, 2, false), x 1-d",
		               tj_rank(x) == 1 ? "%d elements at a time" : "x has %d axes, not 1", tj_rank(x) == 1 ? r : tj_rank(x));
	if (!n || !r || (!with_replacement && r > n))
		return tj_reshape(tj_slice(x, 0, 0, 0, 1), TJ_SHAPE(0, r)); /* as in PyTorch, also for r = 0 */
	place[0] = fn_arange(site, x, n);
	for (int k = 1; k < r;) {
		total = total * (double)(with_replacement ? n + k : n - k) / (k + 1);
		if (total > 0x1p40) return tj_fail(TJ_ERR_LIMIT, "combinations", "take fewer at a time", "%.3g combinations", total);
		k = extended(site, place, k, n, !with_replacement, (int64_t)(total + 0.5));
	}
	const int64_t rows = (int64_t)(total + 0.5);
	place[r] = TJ_END;
	tj_tensor *at = tj_reshape(tj_stack(place, 1), TJ_SHAPE(rows * r));
	return tj_reshape(tj_index_select(x, 0, at), TJ_SHAPE(rows, r));
}

tj_tensor *tj_vander_at(const char *site, tj_tensor *x, int64_t n, bool increasing)
{
	tj_tensor *bad = fn_bad(site, "vander", "x", x);
	if (bad) return bad;
	if (!tj_rank(x) || n < 0)
		return tj_fail(TJ_ERR_ARG, "vander", "as in tj_vander(x, 3, false), x 1-d", n < 0 ? "%lld columns" : "x is 0-d",
		               (long long)n);
	tj_tensor *power = fn_arange(site, x, n); /* integers become i64, as in NumPy */
	if (fn_is_float(tj_dtype_of(x))) power = tj_cast(power, tj_dtype_of(x));
	return tj_pow(tj_unsqueeze(x, -1), increasing ? power : tj_flip(power, TJ_ALL));
}
