/* SPDX-License-Identifier: MIT */
/* Views, joins and parts of tensors under the names of PyTorch and NumPy. */
#include "functions/functions.h"

/* ---- axes ---- */
tj_tensor *tj_movedim_at(const char *site, tj_tensor *x, tj_dims from, tj_dims to)
{
	int64_t order[TJ_MAX_RANK + 1];
	bool taken[TJ_MAX_RANK] = { false }, placed[TJ_MAX_RANK] = { false };
	tj_tensor *bad = fn_bad(site, "movedim", "x", x);
	if (bad) return bad;
	const int rank = tj_rank(x), n = fn_entries(from, TJ_MAX_RANK);
	if (n != fn_entries(to, TJ_MAX_RANK) || n > rank)
		return tj_fail(TJ_ERR_ARG, "movedim", "as in tj_movedim(x, TJ_AXES(0, 1), TJ_AXES(-1, 0))",
		               "%d axes go to %d places, of %d", n, fn_entries(to, TJ_MAX_RANK), rank);
	for (int i = 0; i < n; i++) {
		int a, b;
		if ((bad = fn_bad_axis(site, "movedim", x, from[i], &a)) || (bad = fn_bad_axis(site, "movedim", x, to[i], &b))) return bad;
		if (taken[a] || placed[b]) return tj_fail(TJ_ERR_ARG, "movedim", "list each axis once", "axis %d is given twice", taken[a] ? a : b);
		taken[a] = placed[b] = true;
		order[b] = a;
	}
	for (int i = 0, a = 0; i < rank; i++) {
		if (placed[i]) continue;
		while (taken[a]) a++;
		order[i] = a++;
	}
	order[rank] = TJ_END_DIM;
	return tj_permute(x, order);
}

static tj_tensor *at_least(const char *site, const char *op, tj_tensor *x, int rank)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || tj_rank(x) >= rank) return bad ? bad : x;
	fn_dims s = fn_shape_ones(rank);
	if (tj_rank(x)) s.dim[rank == 1 ? 0 : 1] = tj_dim(x, -1); /* [n] is [1,n] or [1,n,1] */
	if (tj_rank(x) == 2) s.dim[0] = tj_dim(x, 0);              /* [m,n] is [m,n,1] */
	return fn_reshape(site, x, &s);
}
tj_tensor *tj_atleast_1d_at(const char *site, tj_tensor *x) { return at_least(site, "atleast_1d", x, 1); }
tj_tensor *tj_atleast_2d_at(const char *site, tj_tensor *x) { return at_least(site, "atleast_2d", x, 2); }
tj_tensor *tj_atleast_3d_at(const char *site, tj_tensor *x) { return at_least(site, "atleast_3d", x, 3); }

tj_tensor *tj_repeat_at(const char *site, tj_tensor *x, tj_dims counts)
{
	tj_tensor *bad = fn_bad(site, "repeat", "x", x);
	if (bad) return bad;
	const int n = fn_entries(counts, TJ_MAX_RANK);
	if (n < tj_rank(x))
		return tj_fail(TJ_ERR_ARG, "repeat",
		               "a count for each axis; tj_tile() takes fewer, tj_repeat_interleave() repeats elements",
		               "%d counts for %d axes", n, tj_rank(x));
	return n ? tj_tile(x, counts) : x;
}

/* A 0-d tensor becomes [1]. */
tj_tensor *tj_flatten_at(const char *site, tj_tensor *x, int first, int last)
{
	int a, b;
	fn_dims s = { 0 };
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, "flatten", x, first, &a)) || (bad = fn_bad_axis(site, "flatten", x, last, &b))) return bad;
	if (a > b) return tj_fail(TJ_ERR_ARG, "flatten", "the first axis, then the last one", "axis %d is behind axis %d", a, b);
	for (int i = 0; i < tj_rank(x); i++)
		if (i > a && i <= b) s.dim[s.n - 1] *= tj_dim(x, i);
		else fn_shape_add(&s, tj_dim(x, i));
	if (!s.n) fn_shape_add(&s, 1);
	return fn_reshape(site, x, &s);
}

tj_tensor *tj_unflatten_at(const char *site, tj_tensor *x, int axis, tj_dims sizes)
{
	int a;
	fn_dims s = { 0 };
	tj_tensor *bad = fn_bad_axis(site, "unflatten", x, axis, &a);
	if (bad) return bad;
	const int n = fn_entries(sizes, TJ_MAX_RANK);
	int64_t product = 1, open = -1;
	if (!n || !tj_rank(x))
		return tj_fail(TJ_ERR_ARG, "unflatten", "as in tj_unflatten(x, 1, TJ_SHAPE(3, -1))",
		               n ? "a 0-d tensor has no axis" : "there are no sizes");
	for (int i = 0; i < n; i++)
		if (sizes[i] == -1 && open < 0) open = i;
		else if (sizes[i] < 0 || __builtin_mul_overflow(product, sizes[i], &product))
			return tj_fail(TJ_ERR_SHAPE, "unflatten", "one size may be -1", "size %d is %lld", i, (long long)sizes[i]);
	const int64_t size = tj_dim(x, a);
	if (open < 0 ? product != size : !product || size % product)
		return tj_fail(TJ_ERR_SHAPE, "unflatten", "the sizes have the axis as their product",
		               "the axis has %lld elements, the sizes make %lld", (long long)size, (long long)product);
	for (int i = 0; i < tj_rank(x); i++)
		for (int k = 0; k < (i == a ? n : 1); k++) fn_shape_add(&s, i != a ? tj_dim(x, i) : k == open ? size / product : sizes[k]);
	return fn_reshape(site, x, &s);
}

tj_tensor *tj_expand_as_at(const char *site, tj_tensor *x, tj_tensor *like)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "expand_as", "x", x)) || (bad = fn_bad(site, "expand_as", "like", like))) return bad;
	const fn_dims s = fn_shape_of(like);
	return fn_expand(site, x, &s);
}

tj_tensor *tj_view_as_at(const char *site, tj_tensor *x, tj_tensor *like)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "view_as", "x", x)) || (bad = fn_bad(site, "view_as", "like", like))) return bad;
	const fn_dims s = fn_shape_of(like);
	return fn_reshape(site, x, &s);
}

/* From axis a towards axis b, k times by 90 degrees. */
tj_tensor *tj_rot90_at(const char *site, tj_tensor *x, int k, int a, int b)
{
	int from, to;
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, "rot90", x, a, &from)) || (bad = fn_bad_axis(site, "rot90", x, b, &to))) return bad;
	if (from == to) return tj_fail(TJ_ERR_ARG, "rot90", "a plane has two axes", "both axes are %d", from);
	const int turns = (k % 4 + 4) % 4;
	if (turns == 2) return tj_flip(x, TJ_AXES(from, to));
	tj_tensor *y = turns ? tj_flip(x, TJ_AXES(turns == 1 ? to : from)) : x;
	return turns ? tj_transpose(y, from, to) : y;
}

/* ---- diagonals ---- */
tj_tensor *tj_diag_at(const char *site, tj_tensor *x, int64_t diagonal)
{
	tj_tensor *bad = fn_bad(site, "diag", "x", x);
	if (bad) return bad;
	if (tj_rank(x) == 1) return tj_diag_embed(x, diagonal);
	if (tj_rank(x) == 2) return tj_diagonal(x, diagonal, 0, 1);
	return tj_fail(TJ_ERR_SHAPE, "diag", "tj_diagonal() and tj_diag_embed() take more axes",
	               "x has %d axes; a vector or a matrix is needed", tj_rank(x));
}

tj_tensor *tj_diagflat_at(const char *site, tj_tensor *x, int64_t diagonal)
{
	tj_tensor *bad = fn_bad(site, "diagflat", "x", x);
	return bad ? bad : tj_diag_embed(tj_reshape(x, TJ_SHAPE(tj_numel(x))), diagonal);
}

tj_tensor *tj_block_diag_at(const char *site, tj_list list)
{
	const int n = fn_listed(list, INT32_MAX - 1);
	tj_tensor *bad, *y = NULL;
	if (!n) return tj_fail(TJ_ERR_ARG, "block_diag", "as in tj_block_diag(TJ_LIST(a, b))", "the list is empty");
	for (int i = 0; i < n; i++) {
		if ((bad = fn_bad(site, "block_diag", "an operand", list[i]))) return bad;
		if (tj_rank(list[i]) > 2)
			return tj_fail(TJ_ERR_SHAPE, "block_diag", "blocks are matrices; vectors are one row", "operand %d has %d axes", i,
			               tj_rank(list[i]));
		tj_tensor *x = at_least(site, "block_diag", list[i], 2);
		if (y) { /* to the right of what is there, and below it */
			const int64_t behind = tj_dim(x, 1), before = tj_dim(y, 1);
			y = tj_pad(y, TJ_SHAPE(0, behind), TJ_PAD_CONSTANT, tj_i(0));
			x = tj_pad(x, TJ_SHAPE(before, 0), TJ_PAD_CONSTANT, tj_i(0));
		}
		y = y ? tj_cat(TJ_LIST(y, x), 0) : x;
		if (tj_is_poison(y)) return y;
	}
	return y;
}

/* ---- several results ---- */
/* Each of n results becomes poison; returns 0. */
static int none(tj_tensor *poison, tj_tensor **out, int n)
{
	for (int i = 0; out && i < n; i++) out[i] = poison;
	return 0;
}

int tj_split_at(const char *site, tj_tensor *x, tj_dims sizes, int axis, tj_tensor **out)
{
	int a;
	int64_t sum = 0, at = 0;
	const int n = fn_entries(sizes, INT32_MAX - 1);
	tj_tensor *bad = fn_bad_axis(site, "split", x, axis, &a);
	if (bad) return none(bad, out, n);
	for (int i = 0; i < n; i++) sum = sizes[i] < 0 || sum < 0 || __builtin_add_overflow(sum, sizes[i], &sum) ? -1 : sum;
	const int64_t size = tj_rank(x) ? tj_dim(x, a) : -1;
	if (!out || sum != size)
		return none(tj_fail(TJ_ERR_SHAPE, "split", "the sizes make up the axis",
		                    out ? "the sizes make %lld, axis %d has %lld" : "out is NULL", (long long)sum, a, (long long)size),
		            out, n);
	for (int i = 0; i < n; at += sizes[i++]) out[i] = tj_slice(x, a, at, at + sizes[i], 1);
	return n;
}

int tj_chunk_at(const char *site, tj_tensor *x, int n, int axis, tj_tensor **out)
{
	int a, count = 0;
	tj_tensor *bad = fn_bad_axis(site, "chunk", x, axis, &a);
	if (!bad && (n < 1 || !out || !tj_rank(x)))
		bad = tj_fail(TJ_ERR_ARG, "chunk", "as in tj_chunk(x, 2, -1, out), with room for 2 results",
		              n < 1 ? "%d chunks"
		              : out ? "a 0-d tensor has no axis"
		                    : "out is NULL",
		              n);
	if (bad) return none(bad, out, n);
	const int64_t size = tj_dim(x, a), each = size ? (size - 1) / n + 1 : 0;
	for (int i = 0; i < n; i++) out[i] = NULL;
	for (int64_t at = 0; count < n && (at < size || (!size && count < n)); at += each, count++)
		out[count] = tj_slice(x, a, at, size - at < each ? size : at + each, 1);
	return count;
}

int tj_unbind_at(const char *site, tj_tensor *x, int axis, int n, tj_tensor **out)
{
	int a;
	tj_tensor *bad = fn_bad_axis(site, "unbind", x, axis, &a);
	if (!bad && (!out || !tj_rank(x) || tj_dim(x, a) != n))
		bad = tj_fail(TJ_ERR_SHAPE, "unbind", "one result for each index of the axis",
		              out ? "%d results, axis %d has size %lld" : "out is NULL", n, a, (long long)(tj_rank(x) ? tj_dim(x, a) : 0));
	if (bad) return none(bad, out, n);
	for (int i = 0; i < n; i++) out[i] = tj_select(x, a, i);
	return n;
}

int tj_broadcast_tensors_at(const char *site, tj_list list, tj_tensor **out)
{
	const int n = fn_listed(list, INT32_MAX - 1);
	fn_dims s = { 0 };
	tj_tensor *bad = out ? NULL : tj_fail(TJ_ERR_ARG, "broadcast_tensors", "room for a result for each operand", "out is NULL");
	for (int i = 0; i < n && !bad; i++) {
		if ((bad = fn_bad(site, "broadcast_tensors", "an operand", list[i]))) break;
		const fn_dims m = fn_shape_of(list[i]);
		fn_dims t = fn_shape_ones(m.n > s.n ? m.n : s.n);
		for (int k = 1; k <= t.n && !bad; k++) {
			const int64_t p = k <= s.n ? s.dim[s.n - k] : 1, q = k <= m.n ? m.dim[m.n - k] : 1;
			if (p != q && p != 1 && q != 1)
				bad = tj_fail(TJ_ERR_SHAPE, "broadcast_tensors", "sizes must be equal or 1, counted from the last axis",
				              "%lld and %lld, operand %d", (long long)p, (long long)q, i);
			t.dim[t.n - k] = p == 1 ? q : p;
		}
		s = t;
	}
	if (bad) return none(bad, out, n);
	s.dim[s.n] = TJ_END_DIM;
	for (int i = 0; i < n; i++) out[i] = fn_expand(site, list[i], &s);
	return n;
}

/* Operand i goes along axis i; xy: along axis 1 for the first and 0 for the second. */
int tj_meshgrid_at(const char *site, tj_list list, bool xy, tj_tensor **out)
{
	const int n = fn_listed(list, TJ_MAX_RANK);
	fn_dims s = { 0 };
	tj_tensor *bad = n > TJ_MAX_RANK || !out ? tj_fail(TJ_ERR_ARG, "meshgrid", "an axis for each operand",
	                                                   out ? "there are more than %d operands" : "out is NULL", TJ_MAX_RANK)
	                                         : NULL;
	for (int i = 0; i < n && !bad; i++) {
		if ((bad = fn_bad(site, "meshgrid", "an operand", list[i]))) break;
		if (tj_rank(list[i]) > 1)
			bad = tj_fail(TJ_ERR_SHAPE, "meshgrid", "tj_ravel() makes it 1-d", "operand %d has %d axes", i, tj_rank(list[i]));
		fn_shape_add(&s, tj_numel(list[i]));
	}
	if (bad) return none(bad, out, n > TJ_MAX_RANK ? 0 : n);
	const bool swap = xy && n > 1;
	if (swap) s.dim[0] = tj_numel(list[1]), s.dim[1] = tj_numel(list[0]);
	for (int i = 0; i < n; i++) out[i] = fn_expand(site, fn_along(site, list[i], swap && i < 2 ? 1 - i : i, n), &s);
	return n;
}

/* ---- joins ---- */
static tj_tensor *joined(const char *site, const char *op, tj_list list, int rank, int axis)
{
	tj_tensor *part[64 + 1], *bad, *y = NULL;
	const int n = fn_listed(list, INT32_MAX - 1);
	if (!n) return tj_fail(TJ_ERR_ARG, op, "as in tj_hstack(TJ_LIST(a, b))", "the list is empty");
	for (int i = 0; i < n;) { /* at most 64 at a time */
		int k = 0;
		if (y) part[k++] = y;
		for (; k < 64 && i < n; i++) {
			if ((bad = fn_bad(site, op, "an operand", list[i]))) return bad;
			part[k++] = rank < 0 && tj_rank(list[i]) < 2 ? tj_reshape(list[i], TJ_SHAPE(tj_numel(list[i]), 1))
			                                             : at_least(site, op, list[i], rank < 0 ? 2 : rank);
		}
		part[k] = TJ_END;
		y = tj_cat(part, axis);
	}
	return y;
}

tj_tensor *tj_hstack_at(const char *site, tj_list list)
{
	const bool flat = list && list[0] && list[0] != TJ_END && tj_rank(list[0]) < 2;
	return joined(site, "hstack", list, 1, flat ? 0 : 1);
}
tj_tensor *tj_vstack_at(const char *site, tj_list list) { return joined(site, "vstack", list, 2, 0); }
tj_tensor *tj_dstack_at(const char *site, tj_list list) { return joined(site, "dstack", list, 3, 2); }
tj_tensor *tj_column_stack_at(const char *site, tj_list list) { return joined(site, "column_stack", list, -1, 1); }
