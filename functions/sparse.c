/* SPDX-License-Identifier: MIT */
/* Sparse matrices: rows one after the other (CSR) and triples (COO), as plain tensors. What the elements of a row give is added in their
 * order, so results have the same bits in each run. An element behind the end of the last row is in no row; here its row is m. */
#include "functions/functions.h"

#include <math.h>

/* ---- what may be wrong ---- */
static tj_tensor *bad_list(const char *site, const char *op, const char *name, tj_tensor *x, bool index)
{
	tj_tensor *bad = index ? fn_bad_index(site, op, name, x) : fn_bad(site, op, name, x);
	if (bad || tj_rank(x) == 1) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "a sparse matrix is made of tensors with one axis", "%s is %s", name, fn_type_of(x).text);
}

static tj_tensor *bad_length(const char *site, const char *op, const char *name, tj_tensor *x, tj_tensor *columns)
{
	if (tj_dim(x, 0) == tj_dim(columns, 0)) return NULL;
	return tj_fail(TJ_ERR_SHAPE, op, "each element has a column and a value", "there are %lld columns, and %s is %s",
	               (long long)tj_dim(columns, 0), name, fn_type_of(x).text);
}

static tj_tensor *bad_offsets(const char *site, const char *op, tj_tensor *offsets)
{
	tj_tensor *bad = bad_list(site, op, "offsets", offsets, true);
	return bad || tj_dim(offsets, 0) ? bad : tj_fail(TJ_ERR_SHAPE, op, "m rows have m + 1 offsets", "offsets has no elements");
}

/* values: NULL: none are needed. */
static tj_tensor *bad_csr(const char *site, const char *op, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values)
{
	tj_tensor *bad = bad_offsets(site, op, offsets);
	if (!bad) bad = bad_list(site, op, "columns", columns, true);
	if (bad || !values || (bad = bad_list(site, op, "values", values, false))) return bad;
	return bad_length(site, op, "values", values, columns);
}

static tj_tensor *bad_coo(const char *site, const char *op, tj_tensor *row, tj_tensor *column, tj_tensor *values)
{
	tj_tensor *bad = bad_list(site, op, "row", row, true);
	if (!bad) bad = bad_list(site, op, "column", column, true);
	if (!bad) bad = bad_list(site, op, "values", values, false);
	if (!bad) bad = bad_length(site, op, "row", row, column);
	return bad ? bad : bad_length(site, op, "values", values, column);
}

static tj_tensor *bad_count(const char *site, const char *op, const char *name, int64_t n, int64_t beside)
{
	if (n < 0) return tj_fail(TJ_ERR_ARG, op, "a size is 0 or more", "%s is %lld", name, (long long)n);
	if (!beside || n <= (INT64_C(1) << 50) / beside) return NULL;
	return tj_fail(TJ_ERR_LIMIT, op, "rows times columns are at most 2^50", "%s is %lld, the other size %lld", name, (long long)n,
	               (long long)beside);
}

/* One error for all results of a function. */
static tj_tensor *all_bad(tj_tensor *bad, tj_tensor **a, tj_tensor **b)
{
	if (a) *a = bad;
	if (b) *b = bad;
	return bad;
}

static void give(tj_tensor **to, tj_tensor *x)
{
	if (to) *to = x;
}

/* ---- places ---- */
static tj_tensor *zeros(const char *site, tj_tensor *like, tj_dtype t, tj_dims shape)
{
	return tj_to(tj_zeros(t, shape), tj_device_of(like));
}

/* i64: the index; out of range of n it is a fault, in these words. */
static tj_tensor *checked(const char *site, const char *op, const char *words, tj_tensor *index, int64_t n)
{
	return tj_index_select_at(tj_site_for(site, op, words, "indices count from 0"), fn_arange(site, index, n), 0, index);
}
static const char bad_column[] = "a column is out of range; the number of columns is ";
static const char bad_row[] = "a row is out of range; the number of rows is ";

/* The offsets, i64; a fault if they do not ascend. */
static tj_tensor *sound(const char *site, const char *op, tj_tensor *offsets, int64_t size)
{
	const int64_t m = tj_dim(offsets, 0) - 1;
	tj_tensor *o = tj_cast(offsets, TJ_I64), *from = tj_slice(o, 0, 0, m, 1), *to = tj_slice(o, 0, 1, m + 1, 1);
	tj_tensor *ends = tj_logical_and(tj_eq(tj_select(o, 0, 0), tj_i(0)), tj_le(tj_select(o, 0, m), tj_i(size)));
	tj_tensor *right = tj_logical_and(tj_all(tj_le(from, to), TJ_ALL, false), ends);
	const char *named = tj_site_for(site, op, "the offsets do not ascend from 0 to at most the number of elements",
	                                "row i has the elements from offsets[i] to before offsets[i + 1]");
	return tj_add(o, fn_zero_if(named, o, right));
}

/* i64 [size]: the row of each element; m, the number of rows: it is in none. */
static tj_tensor *rows(const char *site, const char *op, tj_tensor *offsets, int64_t size)
{
	tj_tensor *o = sound(site, op, offsets, size);
	return tj_searchsorted(tj_slice(o, 0, 1, tj_dim(offsets, 0), 1), fn_arange(site, o, size), true);
}

/* i64 [m + 1]: where the rows begin, of rows that ascend; m and more: in none */
static tj_tensor *offsets_of(const char *site, tj_tensor *row, int64_t m)
{
	return tj_searchsorted(row, fn_arange(site, row, m + 1), false);
}

/* Slice i of what is [size,...] is added to slice row[i] of the result [m,...]; to none if it is m. */
static tj_tensor *added(const char *site, tj_tensor *what, tj_tensor *row, int64_t m)
{
	fn_dims all = fn_shape_of(what), to = all, one = fn_shape_ones(all.n);
	to.dim[0] = m + 1;
	one.dim[0] = all.dim[0];
	tj_tensor *index = fn_expand(site, fn_reshape(site, row, &one), &all);
	return tj_slice(tj_scatter_add(zeros(site, what, tj_dtype_of(what), to.dim), 0, index, what), 0, 0, m, 1);
}

/* ---- made from others ---- */
tj_tensor *tj_csr_rows_at(const char *site, tj_tensor *offsets, int64_t size)
{
	static const char name[] = "csr_rows";
	tj_tensor *bad = bad_offsets(site, name, offsets);
	if (!bad) bad = bad_count(site, name, "size", size, 0);
	return bad ? bad : rows(site, name, offsets, size);
}

static tj_tensor *bad_dense(const char *site, const char *op, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || tj_rank(x) == 2) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "a matrix has two axes", "x is %s", fn_type_of(x).text);
}

tj_tensor *tj_csr_from_dense_at(const char *site, tj_tensor *x, tj_tensor **offsets, tj_tensor **columns)
{
	tj_tensor *bad = bad_dense(site, "csr_from_dense", x);
	if (bad) return all_bad(bad, offsets, columns);
	tj_tensor *place = tj_nonzero(x), *row = tj_select(place, 1, 0), *column = tj_select(place, 1, 1);
	give(offsets, offsets_of(site, row, tj_dim(x, 0)));
	give(columns, column);
	return tj_index(x, TJ_ALL, TJ_LIST(row, column));
}

tj_tensor *tj_csr_from_dense_static_at(const char *site, tj_tensor *x, int64_t size, tj_tensor **offsets, tj_tensor **columns)
{
	static const char name[] = "csr_from_dense_static";
	tj_tensor *bad = bad_dense(site, name, x), *count;
	if (!bad) bad = bad_count(site, name, "size", size, 0);
	if (bad) return all_bad(bad, offsets, columns);
	const int64_t m = tj_dim(x, 0), most = tj_numel(x);
	tj_tensor *place = tj_nonzero_static(x, size, 0, &count), *used = tj_lt(fn_arange(site, x, size), count);
	tj_tensor *row = tj_select(place, 1, 0), *column = tj_select(place, 1, 1);
	const char *named = tj_site_for(site, name, "x has more elements that are not 0 than there are places", "give a larger size");
	tj_tensor *fits = tj_le(tj_sum(tj_ne(x, tj_i(0)), TJ_ALL, false), tj_i(size));
	give(offsets, tj_add(offsets_of(site, tj_where(used, row, tj_i(m)), m), fn_zero_if(named, x, fits)));
	give(columns, column);
	if (!most) return zeros(site, x, tj_dtype_of(x), TJ_SHAPE(size));
	return tj_where(used, tj_index(x, TJ_ALL, TJ_LIST(row, column)), zeros(site, x, tj_dtype_of(x), TJ_0D));
}

/* i64: row * n + column, where both are in range */
static tj_tensor *keys(const char *site, const char *op, tj_tensor *row, tj_tensor *column, int64_t m, int64_t n)
{
	return tj_add(tj_mul(checked(site, op, bad_row, row, m), tj_i(n)), checked(site, op, bad_column, column, n));
}

tj_tensor *tj_csr_from_coo_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n,
                              tj_tensor **offsets, tj_tensor **columns)
{
	static const char name[] = "csr_from_coo";
	tj_tensor *bad = bad_coo(site, name, row, column, values);
	if (!bad) bad = bad_count(site, name, "n", n, 0);
	if (!bad) bad = bad_count(site, name, "m", m, n);
	if (bad) return all_bad(bad, offsets, columns);
	const int64_t size = tj_dim(column, 0);
	tj_tensor *key = keys(site, name, row, column, m, n), *order,
		  *first = tj_to(tj_ones(TJ_BOOL, TJ_SHAPE(size < 1 ? 0 : 1)), tj_device_of(key));
	key = tj_sort(key, 0, false, &order);
	if (size > 1) first = tj_cat(TJ_LIST(first, tj_ne(tj_slice(key, 0, 1, size, 1), tj_slice(key, 0, 0, size - 1, 1))), 0);
	tj_tensor *to = tj_sub(tj_cumsum(first, 0), tj_i(1)), *none = tj_to(tj_full(TJ_I64, TJ_SHAPE(size), tj_i(m)), tj_device_of(key));
	const int64_t width = n ? n : 1;
	give(offsets, offsets_of(site, tj_scatter(none, 0, to, tj_floor_divide(key, tj_i(width))), m));
	give(columns, tj_scatter(zeros(site, key, TJ_I64, TJ_SHAPE(size)), 0, to, tj_remainder(key, tj_i(width))));
	return tj_scatter_add(zeros(site, values, tj_dtype_of(values), TJ_SHAPE(size)), 0, to, tj_index_select(values, 0, order));
}

tj_tensor *tj_coo_coalesce_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n,
                              tj_tensor **rows_out, tj_tensor **columns_out)
{
	static const char name[] = "coo_coalesce";
	tj_tensor *bad = bad_coo(site, name, row, column, values), *inverse;
	if (!bad) bad = bad_count(site, name, "n", n, 0);
	if (!bad) bad = bad_count(site, name, "m", m, n);
	if (bad) return all_bad(bad, rows_out, columns_out);
	tj_tensor *key = tj_unique_all(keys(site, name, row, column, m, n), NULL, &inverse, NULL);
	give(rows_out, tj_floor_divide(key, tj_i(n ? n : 1)));
	give(columns_out, tj_remainder(key, tj_i(n ? n : 1)));
	if (tj_is_poison(key)) return key;
	return tj_scatter_add(zeros(site, values, tj_dtype_of(values), TJ_SHAPE(tj_dim(key, 0))), 0, inverse, values);
}

static tj_tensor *dense_of(const char *site, const char *op, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n)
{
	tj_tensor *bad = bad_count(site, op, "n", n, 0);
	if (!bad) bad = bad_count(site, op, "m", m, n);
	if (bad) return bad;
	tj_tensor *key = tj_add(tj_mul(row, tj_i(n)), checked(site, op, bad_column, column, n));
	tj_tensor *y = tj_scatter_add(zeros(site, values, tj_dtype_of(values), TJ_SHAPE((m + 1) * n)), 0, key, values);
	return tj_slice(tj_reshape(y, TJ_SHAPE(m + 1, n)), 0, 0, m, 1);
}

tj_tensor *tj_csr_to_dense_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n)
{
	static const char name[] = "csr_to_dense";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, values);
	if (bad) return bad;
	return dense_of(site, name, rows(site, name, offsets, tj_dim(columns, 0)), columns, values, tj_dim(offsets, 0) - 1, n);
}

tj_tensor *tj_coo_to_dense_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, int64_t n)
{
	static const char name[] = "coo_to_dense";
	tj_tensor *bad = bad_coo(site, name, row, column, values);
	if (!bad) bad = bad_count(site, name, "m", m, 0);
	return bad ? bad : dense_of(site, name, checked(site, name, bad_row, row, m), column, values, m, n);
}

tj_tensor *tj_csr_transpose_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n,
                               tj_tensor **offsets_out, tj_tensor **columns_out)
{
	static const char name[] = "csr_transpose";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, values);
	if (!bad) bad = bad_count(site, name, "n", n, 0);
	if (bad) return all_bad(bad, offsets_out, columns_out);
	const int64_t m = tj_dim(offsets, 0) - 1;
	tj_tensor *row = rows(site, name, offsets, tj_dim(columns, 0)), *order, *used = tj_lt(row, tj_i(m));
	tj_tensor *column = tj_sort(tj_where(used, checked(site, name, bad_column, columns, n), tj_i(n)), 0, false, &order);
	give(offsets_out, offsets_of(site, column, n));
	row = tj_index_select(tj_where(used, row, tj_i(0)), 0, order);
	give(columns_out, row);
	return tj_index_select(values, 0, order);
}

/* ---- products ---- */
static tj_tensor *bad_right(const char *site, const char *op, tj_tensor *b, int64_t n)
{
	tj_tensor *bad = fn_bad(site, op, "b", b);
	if (!bad && tj_rank(b) != 1 && tj_rank(b) != 2)
		bad = tj_fail(TJ_ERR_SHAPE, op, "a matrix, or a vector; tj_vmap() takes batches", "b is %s", fn_type_of(b).text);
	if (!bad && n >= 0 && tj_dim(b, 0) != n)
		bad = tj_fail(TJ_ERR_SHAPE, op, "b has a row for each row of the sparse matrix", "b is %s, and there are %lld rows",
		              fn_type_of(b).text, (long long)n);
	return bad;
}

/* The site of ops whose fault is a column. */
static const char *named(const char *site, const char *op) { return tj_site_for(site, op, bad_column, "columns count from 0"); }

/* The dtype that a product of these is rounded to once, f16 or bf16; TJ_DTYPE_COUNT: it is not. */
static tj_dtype narrow_of(tj_tensor *a, tj_tensor *b)
{
	const tj_dtype x = tj_dtype_of(a), y = tj_dtype_of(b);
	if (fn_is_narrow(x) && (x == y || !fn_is_float(y))) return x;
	return fn_is_narrow(y) && !fn_is_float(x) ? y : TJ_DTYPE_COUNT;
}

/* A vector as a matrix of one column, and back. */
static tj_tensor *matrix(const char *site, tj_tensor *b) { return tj_rank(b) == 1 ? tj_unsqueeze(b, 1) : b; }
static tj_tensor *as_was(const char *site, tj_tensor *y, tj_tensor *b) { return tj_rank(b) == 1 ? tj_squeeze(y, TJ_AXES(1)) : y; }

tj_tensor *tj_csr_matmul_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, tj_tensor *b)
{
	static const char name[] = "csr_matmul";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, values);
	if (!bad) bad = bad_right(site, name, b, -1);
	if (bad) return bad;
	tj_tensor *o = sound(site, name, offsets, tj_dim(columns, 0));
	return as_was(site, tj_csr_product_at(named(site, name), o, columns, values, matrix(site, b)), b);
}

tj_tensor *tj_csr_matmul_transposed_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n, tj_tensor *b)
{
	static const char name[] = "csr_matmul_transposed";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, values);
	if (!bad) bad = bad_count(site, name, "n", n, 0);
	if (!bad) bad = bad_right(site, name, b, tj_dim(offsets, 0) - 1);
	if (bad) return bad;
	tj_tensor *o = sound(site, name, offsets, tj_dim(columns, 0));
	return as_was(site, tj_csr_product_transposed_at(named(site, name), o, columns, values, matrix(site, b), n), b);
}

tj_tensor *tj_csr_sampled_matmul_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *a, tj_tensor *b)
{
	static const char name[] = "csr_sampled_matmul";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, NULL);
	if (!bad) bad = fn_bad(site, name, "a", a);
	if (!bad) bad = fn_bad(site, name, "b", b);
	if (bad) return bad;
	const int64_t m = tj_dim(offsets, 0) - 1;
	if (tj_rank(a) != 2 || tj_rank(b) != 2 || tj_dim(a, 0) != m || tj_dim(a, 1) != tj_dim(b, 0))
		return tj_fail(TJ_ERR_SHAPE, name, "a is [m,k], b is [k,n]", "a is %s, b is %s, and there are %lld rows", fn_type_of(a).text,
		               fn_type_of(b).text, (long long)m);
	return tj_csr_sampled_product_at(named(site, name), sound(site, name, offsets, tj_dim(columns, 0)), columns, a, tj_transpose(b, 0, 1));
}

/* Triples in any order: the sum of values[e] * b[column[e]] is added to row[e] of the result. */
tj_tensor *tj_coo_matmul_at(const char *site, tj_tensor *row, tj_tensor *column, tj_tensor *values, int64_t m, tj_tensor *b)
{
	static const char name[] = "coo_matmul";
	tj_tensor *bad = bad_coo(site, name, row, column, values);
	if (!bad) bad = bad_count(site, name, "m", m, 0);
	if (!bad) bad = bad_right(site, name, b, -1);
	if (bad) return bad;
	tj_tensor *index = checked(site, name, bad_row, row, m), *v = fn_widened(site, values);
	tj_tensor *taken = tj_index_select_at(named(site, name), fn_widened(site, b), 0, column);
	tj_tensor *y = added(site, tj_mul(tj_rank(b) == 2 ? tj_unsqueeze(v, 1) : v, taken), index, m);
	const tj_dtype t = narrow_of(values, b);
	return t == TJ_DTYPE_COUNT ? y : tj_cast(y, t);
}

/* ---- values of a pattern ---- */
/* The row of each element that is in one, else 0; *used: which are. */
static tj_tensor *safe_rows(const char *site, const char *op, tj_tensor *offsets, int64_t size, tj_tensor **used)
{
	tj_tensor *row = rows(site, op, offsets, size);
	*used = tj_lt(row, tj_i(tj_dim(offsets, 0) - 1));
	return tj_where(*used, row, tj_i(0));
}

static tj_tensor *where_used(const char *site, tj_tensor *used, tj_tensor *x)
{
	return tj_is_poison(x) ? x : tj_where(used, x, zeros(site, x, tj_dtype_of(x), TJ_0D));
}

tj_tensor *tj_csr_mask_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *x)
{
	static const char name[] = "csr_mask";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, NULL), *used;
	if (!bad) bad = bad_dense(site, name, x);
	if (bad) return bad;
	const int64_t m = tj_dim(offsets, 0) - 1, n = tj_dim(x, 1);
	if (tj_dim(x, 0) != m && tj_dim(x, 0) != 1)
		return tj_fail(TJ_ERR_SHAPE, name, "[m,n]; [m,1], [1,n]: the same for a row, for a column", "x is %s, and there are %lld rows",
		               fn_type_of(x).text, (long long)m);
	tj_tensor *row = safe_rows(site, name, offsets, tj_dim(columns, 0), &used);
	if (!tj_dim(x, 0)) return zeros(site, x, tj_dtype_of(x), TJ_SHAPE(tj_dim(columns, 0)));
	if (tj_dim(x, 0) == 1) row = tj_zeros_like(row);
	tj_tensor *column = n == 1 ? tj_zeros_like(row) : checked(site, name, bad_column, columns, n);
	return where_used(site, used, tj_take(x, tj_add(tj_mul(row, tj_i(n)), column)));
}

tj_tensor *tj_csr_sum_at(const char *site, tj_tensor *offsets, tj_tensor *columns, tj_tensor *values, int64_t n, int axis)
{
	static const char name[] = "csr_sum";
	tj_tensor *bad = bad_csr(site, name, offsets, columns, values);
	if (!bad) bad = bad_count(site, name, "n", n, 0);
	if (!bad && (axis < -2 || axis > 1)) bad = tj_fail(TJ_ERR_ARG, name, "0: of each column; 1: of each row", "axis %d of a matrix", axis);
	if (bad) return bad;
	const int64_t m = tj_dim(offsets, 0) - 1;
	tj_tensor *row = rows(site, name, offsets, tj_dim(columns, 0)), *column = checked(site, name, bad_column, columns, n);
	if (axis == 1 || axis == -1) return added(site, values, tj_add(row, tj_mul(column, tj_i(0))), m);
	return added(site, values, tj_where(tj_lt(row, tj_i(m)), column, tj_i(n)), n);
}

/* values - the largest of their row; *row gets their rows, *used which are in one */
static tj_tensor *lowered(const char *site, const char *op, tj_tensor *offsets, tj_tensor *values, tj_tensor **row)
{
	const int64_t m = tj_dim(offsets, 0) - 1;
	tj_tensor *least = tj_to(tj_full(tj_dtype_of(values), TJ_SHAPE(m + 1), tj_f(-INFINITY)), tj_device_of(values));
	*row = rows(site, op, offsets, tj_dim(values, 0));
	return tj_sub(values, tj_index_select(tj_scatter_amax(least, 0, *row, tj_stop_gradient(values)), 0, *row));
}

static tj_tensor *sums_of(const char *site, tj_tensor *x, tj_tensor *row, int64_t m)
{
	return tj_index_select(tj_scatter_add(zeros(site, x, tj_dtype_of(x), TJ_SHAPE(m + 1)), 0, row, x), 0, row);
}

static tj_tensor *softmax(const char *site, const char *op, tj_tensor *offsets, tj_tensor *values, bool logarithm)
{
	tj_tensor *bad = bad_offsets(site, op, offsets);
	if (!bad) bad = fn_bad_float(site, op, "values", values);
	if (!bad) bad = bad_list(site, op, "values", values, false);
	if (bad) return bad;
	const int64_t m = tj_dim(offsets, 0) - 1;
	const tj_dtype t = tj_dtype_of(fn_high(site, values));
	tj_tensor *row, *x = lowered(site, op, offsets, fn_widened(site, values), &row), *e = tj_exp(x);
	tj_tensor *y = logarithm ? tj_sub(x, tj_log(sums_of(site, e, row, m))) : tj_div(e, sums_of(site, e, row, m));
	y = where_used(site, tj_lt(row, tj_i(m)), y);
	return fn_is_narrow(t) ? tj_cast(y, t) : y;
}
tj_tensor *tj_csr_softmax_at(const char *site, tj_tensor *offsets, tj_tensor *values)
{
	return softmax(site, "csr_softmax", offsets, values, false);
}
tj_tensor *tj_csr_log_softmax_at(const char *site, tj_tensor *offsets, tj_tensor *values)
{
	return softmax(site, "csr_log_softmax", offsets, values, true);
}

/* ---- segments ---- */
/* What an empty segment gives. */
static double of_none(tj_reduction how, bool is_float)
{
	switch (how) {
	case TJ_REDUCE_PROD: return 1;
	case TJ_REDUCE_MEAN: return is_float ? (double)NAN : 0;
	case TJ_REDUCE_AMAX: return is_float ? (double)-INFINITY : 0;
	case TJ_REDUCE_AMIN: return is_float ? (double)INFINITY : 0;
	default: return 0;
	}
}

tj_tensor *tj_segment_reduce_at(const char *site, tj_tensor *x, tj_tensor *offsets, tj_reduction how)
{
	static const char name[] = "segment_reduce";
	tj_tensor *bad = fn_bad(site, name, "x", x);
	if (!bad) bad = bad_offsets(site, name, offsets);
	if (!bad && tj_rank(x) < 1) bad = tj_fail(TJ_ERR_SHAPE, name, "segments are along the first axis", "x has no axes");
	if (!bad && (unsigned)how > TJ_REDUCE_AMIN) bad = tj_fail(TJ_ERR_ARG, name, "TJ_REDUCE_SUM to TJ_REDUCE_AMIN", "how is %d", (int)how);
	if (bad) return bad;
	const int64_t m = tj_dim(offsets, 0) - 1;
	tj_tensor *row = rows(site, name, offsets, tj_dim(x, 0));
	if (how == TJ_REDUCE_SUM) return added(site, x, row, m);
	fn_dims to = fn_shape_of(x);
	to.dim[0] = m + 1;
	tj_tensor *none = fn_filled(site, x, tj_dtype_of(x), &to, fn_number(site, x, of_none(how, fn_is_float(tj_dtype_of(x)))));
	return tj_slice(tj_index_reduce(none, 0, row, x, how, false), 0, 0, m, 1);
}
