/* SPDX-License-Identifier: MIT */
/* What the functions of this folder look at before they call an op. */
#include "functions/functions.h"

#include <stdio.h>

tj_tensor *fn_bad(const char *site, const char *op, const char *name, tj_tensor *x)
{
	if (x && x != TJ_END && tj_is_poison(x)) return x;
	if (x && x != TJ_END && tj_rank(x) >= 0) return NULL;
	return tj_fail(TJ_ERR_ARG, op, "an operand is made by another op, or by tj_from_data()", x ? "%s is no tensor" : "%s is NULL", name);
}

tj_tensor *fn_bad_index(const char *site, const char *op, const char *name, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, op, name, x);
	if (bad || !fn_is_float(tj_dtype_of(x))) return bad;
	return tj_fail(TJ_ERR_DTYPE, op, "integers, or bool as 0 and 1", "the dtype of %s is %s", name, tj_dtype_name(tj_dtype_of(x)));
}

const char *fn_index_site(const char *site, const char *op, bool from_end)
{
	return tj_site_for(site, op, "an index is out of range for an axis of size ",
	                   from_end ? "an index counts from 0, or from -1 at the end" : NULL);
}

tj_tensor *fn_zero_if(const char *site, tj_tensor *like, tj_tensor *right)
{
	tj_tensor *zero = tj_to(tj_zeros(TJ_I64, TJ_SHAPE(1)), tj_device_of(like));
	return tj_index_select(zero, 0, tj_unsqueeze(tj_where(right, tj_i(0), tj_i(1)), 0));
}

/* Structs grow by whole words; none has a size alone. */
tj_tensor *fn_bad_size(const char *site, const char *type, size_t size)
{
	if (size % sizeof size == 0 && size != sizeof size) return NULL;
	return tj_fail(TJ_ERR_ARG, type, "TJ_OPTS() sets it; 0 means all fields", ".size is %zu, which the struct never had", size);
}

tj_tensor *fn_bad_spatial(const char *site, const char *op, tj_tensor *x, int n)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || tj_rank(x) == n + 1 || tj_rank(x) == n + 2) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "axes of examples and channels come first: [N,C,...], or [C,...]",
	               "x has %d axes, %d or %d are needed", tj_rank(x), n + 1, n + 2);
}

tj_tensor *fn_batched(const char *site, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_unsqueeze(x, 0) : x; }
tj_tensor *fn_as_was(const char *site, tj_tensor *y, tj_tensor *x, int n) { return tj_rank(x) == n + 1 ? tj_squeeze(y, TJ_SHAPE(0)) : y; }

bool fn_is_narrow(tj_dtype t) { return t == TJ_F16 || t == TJ_BF16; }
bool fn_is_float(tj_dtype t) { return fn_is_narrow(t) || t == TJ_F32 || t == TJ_F64; }

tj_dims fn_shape(const tj_tensor *x, int64_t *to)
{
	const int rank = tj_rank(x) < 0 ? 0 : tj_rank(x);
	for (int i = 0; i < rank; i++) to[i] = tj_dim(x, i);
	to[rank] = TJ_END_DIM;
	return to;
}

int fn_entries(tj_dims list, int most)
{
	int n = 0;
	while (list && n <= most && list[n] != TJ_END_DIM) n++;
	return n;
}

tj_tensor *fn_bad_axis(const char *site, const char *op, tj_tensor *x, int64_t axis, int *a)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	*a = 0;
	if (bad) return bad;
	const int rank = tj_rank(x), n = rank ? rank : 1;
	if (axis < -n || axis >= n)
		return tj_fail(TJ_ERR_ARG, op, "axes count from 0 at the front, and from -1 at the end",
		               "axis %lld of a tensor with %d axes", (long long)axis, rank);
	*a = (int)(axis < 0 ? axis + n : axis);
	return NULL;
}

fn_type fn_type_of(const tj_tensor *x)
{
	fn_type t;
	size_t n = (size_t)snprintf(t.text, sizeof t.text, "%s[", tj_dtype_name(tj_dtype_of(x)));
	for (int i = 0; i < tj_rank(x) && n < sizeof t.text; i++)
		n += (size_t)snprintf(t.text + n, sizeof t.text - n, "%s%lld", i ? "," : "", (long long)tj_dim(x, i));
	if (n < sizeof t.text) snprintf(t.text + n, sizeof t.text - n, "]");
	return t;
}

/* ---- shapes ---- */
fn_dims fn_shape_of(tj_tensor *x)
{
	fn_dims s = { .n = tj_rank(x) };
	for (int i = 0; i < s.n; i++) s.dim[i] = tj_dim(x, i);
	s.dim[s.n] = TJ_END_DIM;
	return s;
}

fn_dims fn_shape_ones(int n)
{
	fn_dims s = { .n = n };
	for (int i = 0; i < n; i++) s.dim[i] = 1;
	s.dim[n] = TJ_END_DIM;
	return s;
}

void fn_shape_add(fn_dims *s, int64_t size)
{
	if (s->n <= TJ_MAX_RANK) s->dim[s->n++] = size;
	s->dim[s->n] = TJ_END_DIM;
}

static fn_dims ended(const fn_dims *s)
{
	fn_dims t = *s;
	t.dim[t.n] = TJ_END_DIM;
	return t;
}

tj_tensor *fn_reshape(const char *site, tj_tensor *x, const fn_dims *s) { return tj_reshape(x, ended(s).dim); }
tj_tensor *fn_expand(const char *site, tj_tensor *x, const fn_dims *s) { return tj_expand(x, ended(s).dim); }

/* ---- small tensors ---- */
tj_tensor *fn_number(const char *site, tj_tensor *like, double v) { return fn_is_float(tj_dtype_of(like)) ? tj_f(v) : tj_i((int64_t)v); }

tj_tensor *fn_filled(const char *site, tj_tensor *like, tj_dtype t, const fn_dims *s, tj_tensor *v)
{
	return tj_to(tj_full(t, ended(s).dim, v), tj_device_of(like));
}

tj_tensor *fn_arange(const char *site, tj_tensor *like, int64_t n) { return tj_to(tj_arange(TJ_I64, 0, n, 1), tj_device_of(like)); }

tj_tensor *fn_places(const char *site, tj_tensor *x, int n)
{
	fn_dims one = fn_shape_ones(tj_rank(x)), all = fn_shape_of(x);
	int64_t size = 1;
	for (int i = all.n - n; i < all.n; i++) size *= one.dim[i] = all.dim[i];
	return fn_expand(site, fn_reshape(site, fn_arange(site, x, size), &one), &all);
}

tj_tensor *fn_wrapped(const char *site, tj_tensor *index, int64_t n)
{
	index = tj_cast(index, TJ_I64);
	return tj_where(tj_lt(index, tj_i(0)), tj_add(index, tj_i(n)), index);
}

tj_tensor *fn_along(const char *site, tj_tensor *x, int axis, int rank)
{
	fn_dims s = fn_shape_ones(rank);
	if (rank) s.dim[axis] = tj_numel(x);
	return fn_reshape(site, x, &s);
}

int fn_listed(tj_list list, int most)
{
	int n = 0;
	while (list && n <= most && list[n] != TJ_END) n++;
	return n;
}

tj_tensor *fn_widened(const char *site, tj_tensor *x) { return fn_is_narrow(tj_dtype_of(x)) ? tj_cast(x, TJ_F32) : x; }
tj_tensor *fn_high(const char *site, tj_tensor *x) { return tj_autocast_dtype() == TJ_F32 ? x : fn_widened(site, x); }

tj_tensor *fn_bad_float(const char *site, const char *op, const char *name, tj_tensor *x)
{
	tj_tensor *bad = fn_bad(site, op, name, x);
	if (bad || fn_is_float(tj_dtype_of(x))) return bad;
	return tj_fail(TJ_ERR_DTYPE, op, "cast it first: tj_cast(x, TJ_F32)", "%s is %s, no float", name, tj_dtype_name(tj_dtype_of(x)));
}
