/* SPDX-License-Identifier: MIT */
/* Reading and writing by index, in the forms of PyTorch and NumPy: gathers and scatters with their indices filled in. */
#include "functions/functions.h"

#include <math.h>

/* ---- scatter_reduce ---- */
/* The number that changes nothing: of a product 1, of amax the least one, of amin the largest. */
static tj_tensor *neutral(const char *site, tj_tensor *x, const fn_dims *s, tj_reduction how)
{
	const tj_dtype t = tj_dtype_of(x);
	if (how == TJ_REDUCE_SUM || how == TJ_REDUCE_MEAN) return fn_filled(site, x, t, s, fn_number(site, x, 0));
	if (how == TJ_REDUCE_PROD) return fn_filled(site, x, t, s, fn_number(site, x, 1));
	const bool least = how == TJ_REDUCE_AMAX;
	if (fn_is_float(t)) return fn_filled(site, x, t, s, tj_f(least ? -INFINITY : INFINITY));
	if (t == TJ_BOOL || t == TJ_U8) return fn_filled(site, x, t, s, tj_i(least ? 0 : t == TJ_U8 ? 255 : 1));
	tj_tensor *ones = fn_filled(site, x, t, s, tj_i(-1)), *low = tj_shift_left(ones, tj_i((int64_t)tj_dtype_size(t) * 8 - 1));
	return least ? low : tj_bitwise_not(low);
}

static tj_tensor *joined(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src, tj_reduction how)
{
	switch (how) {
	case TJ_REDUCE_PROD: return tj_scatter_prod(x, axis, index, src);
	case TJ_REDUCE_AMAX: return tj_scatter_amax(x, axis, index, src);
	case TJ_REDUCE_AMIN: return tj_scatter_amin(x, axis, index, src);
	default: return tj_scatter_add(x, axis, index, src);
	}
}

/* sum / how many were added, in at least f32; integers are rounded down. */
static tj_tensor *averaged(const char *site, tj_tensor *sum, tj_tensor *x, int axis, tj_tensor *index, bool include_self)
{
	const fn_dims whole = fn_shape_of(x), part = fn_shape_of(index);
	const tj_dtype t = tj_dtype_of(x);
	tj_tensor *one = fn_filled(site, x, TJ_I64, &part, tj_i(1)), *count = fn_filled(site, x, TJ_I64, &whole, tj_i(include_self));
	count = tj_maximum(tj_scatter_add(count, axis, index, one), tj_i(1));
	if (!fn_is_float(t)) return tj_cast(tj_floor_divide(sum, count), t);
	const tj_dtype wide = t == TJ_F64 ? TJ_F64 : TJ_F32;
	return tj_cast(tj_div(tj_cast(sum, wide), tj_cast(count, wide)), t);
}

tj_tensor *tj_scatter_reduce_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src, tj_reduction how,
                                bool include_self)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "scatter_reduce", "x", x)) || (bad = fn_bad(site, "scatter_reduce", "index", index)) ||
	    (bad = fn_bad(site, "scatter_reduce", "src", src)))
		return bad;
	if ((unsigned)how > TJ_REDUCE_AMIN)
		return tj_fail(TJ_ERR_ARG, "scatter_reduce", "TJ_REDUCE_SUM, _PROD, _MEAN, _AMAX or _AMIN", "no such reduction: %d",
		               (int)how);
	if (how == TJ_REDUCE_MEAN && tj_dtype_of(x) == TJ_BOOL)
		return tj_fail(TJ_ERR_DTYPE, "scatter_reduce", "cast it first with tj_cast()", "bool has no mean");
	const fn_dims part = fn_shape_of(index);
	site = fn_index_site(site, "scatter_reduce", false);
	tj_tensor *to = include_self ? x : tj_scatter(x, axis, index, neutral(site, x, &part, how));
	tj_tensor *y = joined(site, to, axis, index, src, how);
	return how == TJ_REDUCE_MEAN && !tj_is_poison(y) ? averaged(site, y, x, axis, index, include_self) : y;
}

/* ---- along one axis, by a 1-d index ---- */
/* x and src with at least one axis, and the index as large as src. NULL: all is well. */
static tj_tensor *spread(const char *site, const char *op, tj_tensor **x, int64_t axis, tj_tensor **index, tj_tensor **src, int *a)
{
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, op, *x, axis, a)) || (bad = fn_bad(site, op, "index", *index)) ||
	    (bad = fn_bad(site, op, "src", *src)))
		return bad;
	const int64_t n = tj_numel(*index);
	if (tj_rank(*index) > 1)
		return tj_fail(TJ_ERR_SHAPE, op, "tj_index_put() takes an index with more axes",
		               "the index has %d axes, at most 1 is possible", tj_rank(*index));
	if (!tj_rank(*x)) *x = tj_reshape(*x, TJ_SHAPE(1));
	if (!tj_rank(*src)) *src = tj_reshape(*src, TJ_SHAPE(1));
	if (tj_rank(*src) != tj_rank(*x))
		return tj_fail(TJ_ERR_SHAPE, op, "src has the sizes of x; on the axis, that of the index", "src has %d axes, x %d",
		               tj_rank(*src), tj_rank(*x));
	for (int i = 0; i < tj_rank(*x); i++) {
		const int64_t want = i == *a ? n : tj_dim(*x, i);
		if (tj_dim(*src, i) != want)
			return tj_fail(TJ_ERR_SHAPE, op, "src has the sizes of x; on the axis, that of the index",
			               "axis %d of src is %lld, %lld is needed", i, (long long)tj_dim(*src, i), (long long)want);
	}
	const fn_dims s = fn_shape_of(*src);
	*index = fn_expand(site, fn_along(site, *index, *a, s.n), &s);
	return NULL;
}

static tj_tensor *as_given(const char *site, tj_tensor *y, tj_tensor *x) { return tj_rank(x) ? y : tj_reshape(y, TJ_0D); }

tj_tensor *tj_index_add_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src)
{
	int a;
	tj_tensor *to = x, *bad = spread(site, "index_add", &to, axis, &index, &src, &a);
	site = fn_index_site(site, "index_add", false);
	return bad ? bad : as_given(site, tj_scatter_add(to, a, index, src), x);
}

tj_tensor *tj_index_copy_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src)
{
	int a;
	tj_tensor *to = x, *bad = spread(site, "index_copy", &to, axis, &index, &src, &a);
	site = fn_index_site(site, "index_copy", false);
	return bad ? bad : as_given(site, tj_scatter(to, a, index, src), x);
}

tj_tensor *tj_index_reduce_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src, tj_reduction how,
                              bool include_self)
{
	int a;
	tj_tensor *to = x, *bad = spread(site, "index_reduce", &to, axis, &index, &src, &a);
	site = fn_index_site(site, "index_reduce", false);
	return bad ? bad : as_given(site, tj_scatter_reduce(to, a, index, src, how, include_self), x);
}

tj_tensor *tj_index_fill_at(const char *site, tj_tensor *x, int axis, tj_tensor *index, tj_tensor *value)
{
	int a;
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, "index_fill", x, axis, &a)) || (bad = fn_bad_index(site, "index_fill", "index", index)) ||
	    (bad = fn_bad(site, "index_fill", "value", value)))
		return bad;
	fn_dims s = tj_rank(x) ? fn_shape_of(x) : fn_shape_ones(1);
	s.dim[a] = tj_numel(index);
	tj_tensor *src = fn_filled(site, x, tj_dtype_of(x), &s, value);
	return tj_index_copy_at(fn_index_site(site, "index_fill", true), x, axis, fn_wrapped(site, index, tj_rank(x) ? tj_dim(x, a) : 1), src);
}

/* ---- one index over all elements ---- */
static tj_tensor *flat(const char *site, tj_tensor *x) { return tj_reshape(x, TJ_SHAPE(-1)); }

tj_tensor *tj_take_at(const char *site, tj_tensor *x, tj_tensor *index)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "take", "x", x)) || (bad = fn_bad_index(site, "take", "index", index))) return bad;
	const fn_dims s = fn_shape_of(index), all = { 1, { tj_numel(x), TJ_END_DIM } };
	tj_tensor *at = tj_reshape(fn_wrapped(site, index, tj_numel(x)), TJ_SHAPE(tj_numel(index)));
	return fn_reshape(site, tj_index_select_at(fn_index_site(site, "take", true), fn_reshape(site, x, &all), 0, at), &s);
}

tj_tensor *tj_put_at(const char *site, tj_tensor *x, tj_tensor *index, tj_tensor *src, bool accumulate)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "put", "x", x)) || (bad = fn_bad_index(site, "put", "index", index)) || (bad = fn_bad(site, "put", "src", src)))
		return bad;
	const fn_dims s = fn_shape_of(x), all = { 1, { tj_numel(x), TJ_END_DIM } }, part = { 1, { tj_numel(index), TJ_END_DIM } };
	if (tj_numel(src) != tj_numel(index))
		return tj_fail(TJ_ERR_SHAPE, "put", "one element of src for each index", "src has %lld elements, the index %lld",
		               (long long)tj_numel(src), (long long)tj_numel(index));
	tj_tensor *to = fn_reshape(site, x, &all), *at = fn_reshape(site, fn_wrapped(site, index, tj_numel(x)), &part),
		  *from = fn_reshape(site, src, &part);
	site = fn_index_site(site, "put", true);
	return fn_reshape(site, accumulate ? tj_scatter_add(to, 0, at, from) : tj_scatter(to, 0, at, from), &s);
}

tj_tensor *tj_take_along_dim_at(const char *site, tj_tensor *x, tj_tensor *index, int64_t axis)
{
	int a = 0;
	tj_tensor *bad;
	if ((bad = fn_bad(site, "take_along_dim", "x", x)) || (bad = fn_bad_index(site, "take_along_dim", "index", index))) return bad;
	if (axis == TJ_END_DIM) {
		const fn_dims all = { 1, { tj_numel(x), TJ_END_DIM } };
		x = fn_reshape(site, x, &all);
		index = tj_reshape(index, TJ_SHAPE(tj_numel(index)));
	} else if ((bad = fn_bad_axis(site, "take_along_dim", x, axis, &a))) return bad;
	if (tj_rank(x) != tj_rank(index))
		return tj_fail(TJ_ERR_SHAPE, "take_along_dim", "tj_unsqueeze() gives the index more axes", "the index has %d axes, x %d",
		               tj_rank(index), tj_rank(x));
	fn_dims from = fn_shape_of(x), to = fn_shape_of(index);
	const int64_t n = tj_rank(x) ? tj_dim(x, a) : 1;
	for (int i = 0; i < from.n; i++)
		if (i != a) from.dim[i] = to.dim[i] = from.dim[i] == 1 ? to.dim[i] : from.dim[i];
	site = fn_index_site(site, "take_along_dim", true);
	return tj_gather(fn_expand(site, x, &from), a, fn_expand(site, fn_wrapped(site, index, n), &to));
}

/* ---- several indices ---- */
typedef struct places { /* of x, whose axes `axis` are one: its axis number `at`, as `index` counts it */
	int n, at, rank;
	int axis[TJ_MAX_RANK];        /* ascending */
	tj_tensor *by[TJ_MAX_RANK];   /* the index of each */
	int order[TJ_MAX_RANK];       /* of the axes, if they are not adjacent; the indexed ones come first */
	bool moved;
	tj_tensor *index;             /* 1-d, i64 */
	fn_dims merged, wanted;      /* the shapes of x, and of what the indices pick */
	fn_dims permuted;
	int64_t count;                /* elements of the index */
} places;

/* A mask counts for as many axes as it has: the indices of its elements along each. */
static tj_tensor *add_mask(const char *site, const char *op, tj_tensor *x, places *p, tj_tensor *mask, int axis)
{
	const int rank = tj_rank(mask);
	if (!rank || axis + rank > tj_rank(x) || p->n + rank > TJ_MAX_RANK)
		return tj_fail(TJ_ERR_SHAPE, op, "tj_where() chooses by a mask of any shape",
		               "a mask with %d axes at axis %d of x, which has %d", rank, axis, tj_rank(x));
	for (int i = 0; i < rank; i++)
		if (tj_dim(mask, i) != tj_dim(x, axis + i))
			return tj_fail(TJ_ERR_SHAPE, op, "a mask has the sizes of the axes that it is for",
			               "axis %d of the mask is %lld, axis %d of x %lld", i, (long long)tj_dim(mask, i), axis + i,
			               (long long)tj_dim(x, axis + i));
	tj_tensor *at = tj_nonzero(mask);
	for (int i = 0; i < rank; i++) {
		p->axis[p->n] = axis + i;
		p->by[p->n++] = tj_select(at, 1, i);
	}
	return NULL;
}

static tj_tensor *read_lists(const char *site, const char *op, tj_tensor *x, tj_dims axes, tj_list indices, places *p)
{
	tj_tensor *bad;
	const int n = fn_listed(indices, TJ_MAX_RANK), named = fn_entries(axes, TJ_MAX_RANK);
	if (!n || n > TJ_MAX_RANK)
		return tj_fail(TJ_ERR_ARG, op, "as in tj_index(x, TJ_ALL, TJ_LIST(rows, columns))",
		               n ? "there are too many indices" : "there is no index");
	if (axes && named != n)
		return tj_fail(TJ_ERR_ARG, op, "name an axis for each index; TJ_ALL: the first ones", "%d axes for %d indices", named, n);
	for (int k = 0, axis = 0; k < n; k++) {
		if ((bad = fn_bad(site, op, "an index", indices[k]))) return bad;
		if (axes && (bad = fn_bad_axis(site, op, x, axes[k], &axis))) return bad;
		const tj_dtype t = tj_dtype_of(indices[k]);
		if (t == TJ_BOOL) {
			if ((bad = add_mask(site, op, x, p, indices[k], axis))) return bad;
			axis += tj_rank(indices[k]);
			continue;
		}
		if (fn_is_float(t))
			return tj_fail(TJ_ERR_DTYPE, op, "cast it first: tj_cast(index, TJ_I64)",
			               "an index is %s; it must be an integer, or a bool mask", tj_dtype_name(t));
		if (axis >= tj_rank(x) || p->n == TJ_MAX_RANK)
			return tj_fail(TJ_ERR_SHAPE, op, "one index for each axis at most", "there are more indices than axes of x: %d",
			               tj_rank(x));
		p->axis[p->n] = axis++;
		p->by[p->n++] = indices[k];
	}
	for (int k = 1; k < p->n; k++) /* by axis */
		for (int i = k; i > 0 && p->axis[i] <= p->axis[i - 1]; i--) {
			if (p->axis[i] == p->axis[i - 1]) return tj_fail(TJ_ERR_ARG, op, "an axis has one index", "two indices are for axis %d", p->axis[i]);
			const int axis = p->axis[i];
			tj_tensor *by = p->by[i];
			p->axis[i] = p->axis[i - 1], p->axis[i - 1] = axis;
			p->by[i] = p->by[i - 1], p->by[i - 1] = by;
		}
	return NULL;
}

/* All indices as one, into the axes that they are for as one; beyond them if one of them is out of range. */
static tj_tensor *as_one(const char *site, tj_tensor *x, const places *p)
{
	tj_tensor *sum = NULL, *right = NULL;
	int64_t all = 1;
	if (p->n == 1) return fn_wrapped(site, p->by[0], tj_dim(x, p->axis[0]));
	for (int k = 0; k < p->n; k++) {
		const int64_t size = tj_dim(x, p->axis[k]);
		tj_tensor *i = fn_wrapped(site, p->by[k], size);
		tj_tensor *above = tj_ge(i, tj_i(0)), *ok = tj_logical_and(above, tj_lt(i, tj_i(size)));
		right = right ? tj_logical_and(right, ok) : ok;
		sum = sum ? tj_add(tj_mul(sum, tj_i(size)), i) : i;
		all *= size;
	}
	return tj_where(right, sum, tj_i(all));
}

static tj_tensor *find(const char *site, const char *op, tj_tensor *x, tj_dims axes, tj_list indices, places *p)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	*p = (places){ .rank = 0 };
	if (bad || (bad = read_lists(site, op, x, axes, indices, p))) return bad;
	tj_tensor *index = as_one(site, x, p);
	if (tj_is_poison(index)) return index;
	int n = 0, k = 0;
	p->rank = tj_rank(x);
	p->moved = p->axis[p->n - 1] - p->axis[0] != p->n - 1;
	p->at = p->moved ? 0 : p->axis[0];
	for (; n < p->n && p->moved; n++) p->order[n] = p->axis[n];
	for (int i = 0; i < p->rank; i++) {
		while (k < p->n && p->axis[k] < i) k++;
		if (!p->moved || k == p->n || p->axis[k] != i) p->order[n++] = i;
	}
	const fn_dims by = fn_shape_of(index);
	p->count = tj_numel(index);
	for (int i = 0; i < p->rank; i++) {
		const int64_t size = tj_dim(x, p->order[i]);
		fn_shape_add(&p->permuted, size);
		if (i > p->at && i < p->at + p->n) p->merged.dim[p->at] *= size;
		else fn_shape_add(&p->merged, size);
		if (i == p->at)
			for (int j = 0; j < by.n; j++) fn_shape_add(&p->wanted, by.dim[j]);
		if (i < p->at || i >= p->at + p->n) fn_shape_add(&p->wanted, size);
	}
	p->index = tj_reshape(index, TJ_SHAPE(p->count));
	return NULL;
}

/* The index of several axes is one of their product, which the caller does not know. */
static const char *site_of(const char *site, const char *op, const places *p)
{
	return p->n == 1 ? fn_index_site(site, op, true)
	                 : tj_site_for(site, op, "an index is out of range for its axis", "an index counts from 0, or from -1 at the end");
}

static tj_tensor *permuted(const char *site, tj_tensor *x, const places *p, bool back)
{
	int64_t order[TJ_MAX_RANK + 1];
	if (!p->moved) return x;
	for (int i = 0; i < p->rank; i++) order[back ? p->order[i] : i] = back ? i : p->order[i];
	order[p->rank] = TJ_END_DIM;
	return tj_permute(x, order);
}

tj_tensor *tj_index_at(const char *site, tj_tensor *x, tj_dims axes, tj_list indices)
{
	places p;
	tj_tensor *bad = find(site, "index", x, axes, indices, &p);
	if (bad) return bad;
	site = site_of(site, "index", &p);
	return fn_reshape(site, tj_index_select(fn_reshape(site, permuted(site, x, &p, false), &p.merged), p.at, p.index), &p.wanted);
}

tj_tensor *tj_index_put_at(const char *site, tj_tensor *x, tj_dims axes, tj_list indices, tj_tensor *values, bool accumulate)
{
	places p;
	tj_tensor *bad = find(site, "index_put", x, axes, indices, &p);
	if (bad || (bad = fn_bad(site, "index_put", "values", values))) return bad;
	const tj_dtype t = tj_dtype_of(x);
	if (tj_rank(values) && tj_dtype_of(values) != t)
		return tj_fail(TJ_ERR_DTYPE, "index_put", "cast the values first with tj_cast()", "x is %s, the values are %s",
		               tj_dtype_name(t), tj_dtype_name(tj_dtype_of(values)));
	site = site_of(site, "index_put", &p);
	fn_dims part = p.merged;
	part.dim[p.at] = p.count;
	tj_tensor *to = fn_reshape(site, permuted(site, x, &p, false), &p.merged),
		  *index = fn_expand(site, fn_along(site, p.index, p.at, part.n), &part);
	tj_tensor *src = fn_reshape(site, fn_expand(site, tj_cast(values, t), &p.wanted), &part);
	tj_tensor *y = accumulate ? tj_scatter_add(to, p.at, index, src) : tj_scatter(to, p.at, index, src);
	return permuted(site, fn_reshape(site, y, &p.permuted), &p, true);
}

/* Element number k of the mask that is set gets element k of src. */
tj_tensor *tj_masked_scatter_at(const char *site, tj_tensor *x, tj_tensor *mask, tj_tensor *src)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "masked_scatter", "x", x)) || (bad = fn_bad(site, "masked_scatter", "mask", mask)) ||
	    (bad = fn_bad(site, "masked_scatter", "src", src)))
		return bad;
	if (tj_dtype_of(mask) != TJ_BOOL)
		return tj_fail(TJ_ERR_DTYPE, "masked_scatter", "compare it first: tj_ne(mask, tj_i(0))", "the mask is %s, not bool",
		               tj_dtype_name(tj_dtype_of(mask)));
	if (tj_dtype_of(src) != tj_dtype_of(x))
		return tj_fail(TJ_ERR_DTYPE, "masked_scatter", "cast src first with tj_cast()", "x is %s, src is %s",
		               tj_dtype_name(tj_dtype_of(x)), tj_dtype_name(tj_dtype_of(src)));
	tj_tensor *where = tj_logical_or(mask, tj_expand(tj_to(tj_full(TJ_BOOL, TJ_0D, tj_i(0)), tj_device_of(x)), fn_shape_of(x).dim));
	if (tj_is_poison(where)) return where;
	const fn_dims s = fn_shape_of(where);
	tj_tensor *place = tj_sub(tj_cumsum(flat(site, where), 0), tj_i(1)); /* of the last one that is set, up to here */
	const bool none = !tj_numel(src);
	tj_tensor *from = none ? tj_to(tj_full(tj_dtype_of(x), TJ_SHAPE(1), tj_i(0)), tj_device_of(x)) : flat(site, src);
	tj_tensor *at = tj_where(flat(site, where), none ? tj_add(place, tj_i(1)) : place, tj_i(0));
	const char *named = tj_site_for(site, "masked_scatter", "the mask sets more elements than those of src, whose number is ",
	                                "src has one element for each that the mask sets");
	return tj_where(where, fn_reshape(site, tj_index_select_at(named, from, 0, at), &s), x);
}

/* ---- parts of a tensor ---- */
tj_tensor *tj_select_at(const char *site, tj_tensor *x, int axis, int64_t i)
{
	int a;
	tj_tensor *bad = fn_bad_axis(site, "select", x, axis, &a);
	if (bad) return bad;
	if (!tj_rank(x)) return tj_fail(TJ_ERR_SHAPE, "select", "tj_unsqueeze() gives it an axis", "a 0-d tensor has no axis to select from");
	const int64_t n = tj_dim(x, a), at = i < 0 ? i + n : i;
	if (at < 0 || at >= n)
		return tj_fail(TJ_ERR_INDEX, "select", "negative indices count from the end", "index %lld on an axis of size %lld",
		               (long long)i, (long long)n);
	return tj_squeeze(tj_slice(x, a, at, at + 1, 1), TJ_AXES(a));
}

tj_tensor *tj_narrow_at(const char *site, tj_tensor *x, int axis, int64_t start, int64_t length)
{
	int a;
	tj_tensor *bad = fn_bad_axis(site, "narrow", x, axis, &a);
	if (bad) return bad;
	if (!tj_rank(x)) return tj_fail(TJ_ERR_SHAPE, "narrow", "tj_unsqueeze() gives it an axis", "a 0-d tensor has no axis to narrow");
	const int64_t n = tj_dim(x, a), from = start < 0 ? start + n : start;
	if (from < 0 || length < 0 || from > n || length > n - from)
		return tj_fail(TJ_ERR_ARG, "narrow", "tj_slice() cuts what is beyond the end",
		               "%lld elements from %lld on an axis of size %lld", (long long)length, (long long)start, (long long)n);
	return tj_slice(x, a, from, from + length, 1);
}

static int64_t clipped(int64_t i, int64_t n) { return i < 0 ? i + n < 0 ? 0 : i + n : i > n ? n : i; }

/* With a step of 1 it is the parts before and behind, joined; else it is written by index. */
tj_tensor *tj_slice_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int axis, int64_t start, int64_t stop, int64_t step)
{
	int a;
	tj_tensor *bad, *part[4];
	if ((bad = fn_bad_axis(site, "slice_scatter", x, axis, &a)) || (bad = fn_bad(site, "slice_scatter", "src", src))) return bad;
	if (step < 1 || !tj_rank(x))
		return tj_fail(TJ_ERR_ARG, "slice_scatter", "tj_flip() reverses src",
		               step < 1 ? "the step is not positive" : "a 0-d tensor has no axis");
	if (tj_dtype_of(src) != tj_dtype_of(x))
		return tj_fail(TJ_ERR_DTYPE, "slice_scatter", "cast src first with tj_cast()", "x is %s, src is %s",
		               tj_dtype_name(tj_dtype_of(x)), tj_dtype_name(tj_dtype_of(src)));
	fn_dims s = fn_shape_of(x);
	const int64_t n = s.dim[a], from = clipped(start, n), to = stop == TJ_END_DIM ? n : clipped(stop, n),
		      count = to > from ? (to - from - 1) / step + 1 : 0;
	s.dim[a] = count;
	src = fn_expand(site, src, &s);
	if (!count) return x;
	if (step == 1) {
		int k = 0;
		if (from > 0) part[k++] = tj_slice(x, a, 0, from, 1);
		part[k++] = src;
		if (from + count < n) part[k++] = tj_slice(x, a, from + count, n, 1);
		part[k] = TJ_END;
		return k == 1 ? src : tj_cat(part, a);
	}
	return tj_index_copy(x, a, tj_to(tj_arange(TJ_I64, from, to, step), tj_device_of(x)), src);
}

tj_tensor *tj_select_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int axis, int64_t i)
{
	int a;
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, "select_scatter", x, axis, &a)) || (bad = fn_bad(site, "select_scatter", "src", src))) return bad;
	const int64_t n = tj_rank(x) ? tj_dim(x, a) : 0, at = i < 0 ? i + n : i;
	if (at < 0 || at >= n)
		return tj_fail(TJ_ERR_INDEX, "select_scatter", "negative indices count from the end", "index %lld on an axis of size %lld",
		               (long long)i, (long long)n);
	if (tj_rank(src) != tj_rank(x) - 1)
		return tj_fail(TJ_ERR_SHAPE, "select_scatter", "src has the other axes of x", "src has %d axes, %d are needed",
		               tj_rank(src), tj_rank(x) - 1);
	return tj_slice_scatter(x, tj_unsqueeze(src, a), a, at, at + 1, 1);
}

/* The two axes come last and are one, in which the diagonal is every (columns + 1)-th element. */
tj_tensor *tj_diagonal_scatter_at(const char *site, tj_tensor *x, tj_tensor *src, int64_t diagonal, int a, int b)
{
	int row, column, n = 0;
	int64_t order[TJ_MAX_RANK + 1], back[TJ_MAX_RANK + 1];
	tj_tensor *bad;
	if ((bad = fn_bad_axis(site, "diagonal_scatter", x, a, &row)) || (bad = fn_bad_axis(site, "diagonal_scatter", x, b, &column)) ||
	    (bad = fn_bad(site, "diagonal_scatter", "src", src)))
		return bad;
	tj_tensor *was = tj_diagonal(x, diagonal, a, b); /* it checks the axes */
	if (tj_is_poison(was)) return was;
	for (int i = 0; i < tj_rank(x); i++)
		if (i != row && i != column) order[n++] = i;
	order[n] = row, order[n + 1] = column, order[n + 2] = TJ_END_DIM;
	for (int i = 0; i < n + 2; i++) back[order[i]] = i;
	back[n + 2] = TJ_END_DIM;
	tj_tensor *turned = tj_permute(x, order);
	const fn_dims whole = fn_shape_of(turned), diag = fn_shape_of(was);
	fn_dims joined = whole;
	const int64_t columns = whole.dim[n + 1], count = diag.dim[n], first = diagonal > 0 ? diagonal : -diagonal * columns;
	joined.dim[n] *= columns;
	joined.dim[--joined.n] = TJ_END_DIM;
	src = fn_expand(site, src, &diag);
	if (!count) return x;
	tj_tensor *y = tj_slice_scatter(fn_reshape(site, turned, &joined), src, n, first, first + (count - 1) * (columns + 1) + 1, columns + 1);
	return tj_permute(fn_reshape(site, y, &whole), back);
}
