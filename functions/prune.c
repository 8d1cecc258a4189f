/* SPDX-License-Identifier: MIT */
/* Weights of which two of each four along the last axis are not 0, as the sparse units of GPUs read them. */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *bad_weight(const char *site, const char *op, tj_tensor *w, int64_t multiple)
{
	tj_tensor *bad = fn_bad_float(site, op, "w", w);
	if (bad || (tj_rank(w) >= 1 && tj_rank(w) < TJ_MAX_RANK - 1 && tj_dim(w, -1) % multiple == 0)) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_pad() makes the axis longer", "w is %s; the size of its last axis is no multiple of %d",
	               fn_type_of(w).text, (int)multiple);
}

/* [...,n] as [...,n / each,each] */
static tj_tensor *groups(const char *site, tj_tensor *x, int64_t each)
{
	fn_dims s = fn_shape_of(x);
	s.dim[s.n - 1] /= each;
	fn_shape_add(&s, each);
	return fn_reshape(site, x, &s);
}
static tj_tensor *joined(const char *site, tj_tensor *x)
{
	fn_dims s = fn_shape_of(x);
	s.n--;
	s.dim[s.n - 1] *= s.dim[s.n];
	s.dim[s.n] = TJ_END_DIM;
	return fn_reshape(site, x, &s);
}

/* bool [...,n / 4,4]: the two with the largest |w| of four; the first ones of equals, and NaN counts as largest */
static tj_tensor *kept(const char *site, tj_tensor *w)
{
	tj_tensor *a = groups(site, w, 4), *i = fn_arange(site, w, 4);
	a = tj_stop_gradient(tj_where(tj_isnan(a), tj_f(INFINITY), tj_abs(a)));
	tj_tensor *self = tj_unsqueeze(a, -1), *other = tj_unsqueeze(a, -2);
	tj_tensor *before = tj_logical_and(tj_eq(other, self), tj_lt(tj_unsqueeze(i, 0), tj_unsqueeze(i, 1)));
	return tj_lt(tj_sum(tj_logical_or(tj_gt(other, self), before), TJ_AXES(-1), false), tj_i(2));
}

tj_tensor *tj_prune_2_4_at(const char *site, tj_tensor *w)
{
	tj_tensor *bad = bad_weight(site, "prune_2_4", w, 4);
	if (bad) return bad;
	return joined(site, tj_where(kept(site, w), groups(site, w, 4), tj_f(0)));
}

tj_tensor *tj_compress_2_4_at(const char *site, tj_tensor *w, tj_tensor **index)
{
	tj_tensor *bad = bad_weight(site, "compress_2_4", w, 8);
	if (bad) return index ? *index = bad : bad;
	tj_tensor *stays = kept(site, w), *i = fn_arange(site, w, 4), *turn = tj_cumsum(stays, -1);
	tj_tensor *first = tj_sum(tj_where(tj_logical_and(stays, tj_eq(turn, tj_i(1))), i, tj_i(0)), TJ_AXES(-1), false);
	tj_tensor *second = tj_sum(tj_where(tj_logical_and(stays, tj_eq(turn, tj_i(2))), i, tj_i(0)), TJ_AXES(-1), false);
	tj_tensor *code = groups(site, tj_add(first, tj_mul(second, tj_i(4))), 2);
	if (index) *index = tj_cast(tj_add(tj_select(code, -1, 0), tj_mul(tj_select(code, -1, 1), tj_i(16))), TJ_U8);
	return joined(site, tj_gather(groups(site, w, 4), -1, tj_stack(TJ_LIST(first, second), -1)));
}

static tj_tensor *bad_compressed(const char *site, const char *op, tj_tensor *values, tj_tensor *index)
{
	tj_tensor *bad = fn_bad_float(site, op, "values", values);
	if (!bad) bad = fn_bad(site, op, "index", index);
	if (bad) return bad;
	bool fits = tj_dtype_of(index) == TJ_U8 && tj_rank(values) >= 1 && tj_rank(values) < TJ_MAX_RANK - 1 && tj_rank(index) == tj_rank(values);
	for (int i = 0; fits && i < tj_rank(index) - 1; i++) fits = tj_dim(index, i) == tj_dim(values, i);
	if (fits && tj_dim(values, -1) == 4 * tj_dim(index, -1)) return NULL;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_compress_2_4() makes both", "values [...,n / 2] and index u8[...,n / 8] are needed: %s and %s",
	               fn_type_of(values).text, fn_type_of(index).text);
}

static tj_tensor *whole(const char *site, tj_tensor *values, tj_tensor *index)
{
	tj_tensor *both = tj_cast(tj_unsqueeze(index, -1), TJ_I32);
	tj_tensor *code = joined(site, tj_bitwise_and(tj_shift_right(both, tj_mul(fn_arange(site, index, 2), tj_i(4))), tj_i(15)));
	tj_tensor *pair = groups(site, values, 2), *i = fn_arange(site, values, 4);
	tj_tensor *first = tj_unsqueeze(tj_bitwise_and(code, tj_i(3)), -1), *second = tj_unsqueeze(tj_shift_right(code, tj_i(2)), -1);
	tj_tensor *a = tj_slice(pair, -1, 0, 1, 1), *b = tj_slice(pair, -1, 1, 2, 1);
	return joined(site, tj_where(tj_eq(first, i), a, tj_where(tj_eq(second, i), b, tj_f(0))));
}

tj_tensor *tj_decompress_2_4_at(const char *site, tj_tensor *values, tj_tensor *index)
{
	tj_tensor *bad = bad_compressed(site, "decompress_2_4", values, index);
	return bad ? bad : whole(site, values, index);
}

tj_tensor *tj_linear_2_4_at(const char *site, tj_tensor *x, tj_tensor *values, tj_tensor *index, tj_tensor *bias)
{
	tj_tensor *bad = bad_compressed(site, "linear_2_4", values, index);
	return bad ? bad : tj_linear(x, whole(site, values, index), bias);
}
