/* SPDX-License-Identifier: MIT */
/* Products of vectors and matrices, under the names of PyTorch and NumPy. */
#include "functions/functions.h"

#include <math.h>

static tj_tensor *bad_rank(const char *site, const char *op, const char *name, tj_tensor *x, int rank)
{
	tj_tensor *bad = fn_bad(site, op, name, x);
	if (bad || tj_rank(x) == rank) return bad;
	return tj_fail(TJ_ERR_SHAPE, op, "tj_matmul() takes any number of axes", "%s has %d axes, not %d", name, tj_rank(x), rank);
}

/* ---- two operands of given ranks ---- */
static tj_tensor *product(const char *site, const char *op, tj_tensor *a, int ra, tj_tensor *b, int rb)
{
	tj_tensor *bad;
	if ((bad = bad_rank(site, op, "a", a, ra)) || (bad = bad_rank(site, op, "b", b, rb))) return bad;
	if (ra == 3 && rb == 3 && tj_dim(a, 0) != tj_dim(b, 0))
		return tj_fail(TJ_ERR_SHAPE, op, "tj_matmul() broadcasts", "batches of %lld and %lld", (long long)tj_dim(a, 0),
		               (long long)tj_dim(b, 0));
	return tj_matmul(a, b);
}
tj_tensor *tj_mm_at(const char *site, tj_tensor *a, tj_tensor *b) { return product(site, "mm", a, 2, b, 2); }
tj_tensor *tj_mv_at(const char *site, tj_tensor *a, tj_tensor *b) { return product(site, "mv", a, 2, b, 1); }
tj_tensor *tj_bmm_at(const char *site, tj_tensor *a, tj_tensor *b) { return product(site, "bmm", a, 3, b, 3); }
tj_tensor *tj_dot_at(const char *site, tj_tensor *a, tj_tensor *b) { return product(site, "dot", a, 1, b, 1); }

tj_tensor *tj_vdot_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "vdot", "a", a)) || (bad = fn_bad(site, "vdot", "b", b))) return bad;
	return tj_matmul(tj_reshape(a, TJ_SHAPE(tj_numel(a))), tj_reshape(b, TJ_SHAPE(tj_numel(b))));
}

tj_tensor *tj_vecdot_at(const char *site, tj_tensor *a, tj_tensor *b, int axis)
{
	tj_tensor *y = tj_mul(a, b);
	return tj_is_poison(y) ? y : tj_cast(tj_sum(y, TJ_AXES(axis), false), tj_dtype_of(y));
}

tj_tensor *tj_outer_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "outer", "a", a)) || (bad = fn_bad(site, "outer", "b", b))) return bad;
	return tj_mul(tj_reshape(a, TJ_SHAPE(tj_numel(a), 1)), tj_reshape(b, TJ_SHAPE(1, tj_numel(b))));
}

/* ---- with an addend ---- */
/* beta * x + alpha * y; x does not count if beta is 0, NaN or not. As in PyTorch, y counts if alpha is 0: 0 * NaN is NaN. */
static tj_tensor *added(const char *site, const char *op, tj_tensor *x, tj_tensor *y, double beta, double alpha)
{
	tj_tensor *bad = fn_bad(site, op, "x", x);
	if (bad || tj_is_poison(y)) return bad ? bad : y;
	if (!fn_is_float(tj_dtype_of(y)) && !fn_is_float(tj_dtype_of(x)) && (alpha != floor(alpha) || beta != floor(beta)))
		return tj_fail(TJ_ERR_ARG, op, "cast the operands first: tj_cast(x, TJ_F32)", "beta %g and alpha %g of integers", beta,
		               alpha);
	if (alpha != 1) y = tj_mul(y, fn_number(site, y, alpha));
	if (beta == 0) {
		const fn_dims s = fn_shape_of(y);
		x = fn_expand(site, x, &s); /* it must fit */
		return tj_is_poison(x) ? x : y;
	}
	tj_tensor *r = tj_add(beta == 1 ? x : tj_mul(x, fn_number(site, x, beta)), y);
	return tj_is_poison(r) || tj_rank(r) == tj_rank(y) ? r
	                                                   : tj_fail(TJ_ERR_SHAPE, op, "the addend broadcasts to the product",
	                                                             "x has %d axes, the product %d", tj_rank(x), tj_rank(y));
}

/* Three operands of one narrow dtype in f32, so that the result is rounded once; any others as they are. */
typedef struct operands { tj_tensor *x, *a, *b; bool widened; tj_dtype dtype; } operands;

static operands widen(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b)
{
	operands o = { x, a, b, false, TJ_F32 };
	if (tj_rank(x) < 0 || tj_rank(a) < 0 || tj_rank(b) < 0) return o; /* reported where they are used */
	o.dtype = tj_dtype_of(a);
	o.widened = fn_is_narrow(o.dtype) && tj_dtype_of(b) == o.dtype && tj_dtype_of(x) == o.dtype;
	if (o.widened) o.x = tj_cast(x, TJ_F32), o.a = tj_cast(a, TJ_F32), o.b = tj_cast(b, TJ_F32);
	return o;
}

static tj_tensor *narrow(const char *site, const operands *o, tj_tensor *y) { return o->widened ? tj_cast(y, o->dtype) : y; }

static tj_tensor *add_product(const char *site, const char *op, tj_tensor *x, tj_tensor *a, int ra, tj_tensor *b, int rb, double beta,
                              double alpha)
{
	const operands o = widen(site, x, a, b);
	return narrow(site, &o, added(site, op, o.x, product(site, op, o.a, ra, o.b, rb), beta, alpha));
}
tj_tensor *tj_addmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha)
{
	return add_product(site, "addmm", x, a, 2, b, 2, beta, alpha);
}
tj_tensor *tj_addmv_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha)
{
	return add_product(site, "addmv", x, a, 2, b, 1, beta, alpha);
}
tj_tensor *tj_baddbmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha)
{
	return add_product(site, "baddbmm", x, a, 3, b, 3, beta, alpha);
}

tj_tensor *tj_addr_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha)
{
	const operands o = widen(site, x, a, b);
	tj_tensor *bad;
	if ((bad = bad_rank(site, "addr", "a", a, 1)) || (bad = bad_rank(site, "addr", "b", b, 1))) return bad;
	return narrow(site, &o, added(site, "addr", o.x, tj_outer_at(site, o.a, o.b), beta, alpha));
}

/* The sum over the batch is a part of the product: [m, batch * k] times [batch * k, n]. */
tj_tensor *tj_addbmm_at(const char *site, tj_tensor *x, tj_tensor *a, tj_tensor *b, double beta, double alpha)
{
	const operands o = widen(site, x, a, b);
	tj_tensor *bad;
	if ((bad = bad_rank(site, "addbmm", "a", a, 3)) || (bad = bad_rank(site, "addbmm", "b", b, 3))) return bad;
	const int64_t n = tj_dim(a, 0), m = tj_dim(a, 1), k = tj_dim(a, 2);
	if (tj_dim(b, 0) != n || tj_dim(b, 1) != k)
		return tj_fail(TJ_ERR_SHAPE, "addbmm", "a is [B,M,K], b is [B,K,N]", "%lld products of %lld, and %lld of %lld",
		               (long long)n, (long long)k, (long long)tj_dim(b, 0), (long long)tj_dim(b, 1));
	tj_tensor *left = tj_reshape(tj_permute(o.a, TJ_AXES(1, 0, 2)), TJ_SHAPE(m, n * k)),
		  *right = tj_reshape(o.b, TJ_SHAPE(n * k, tj_dim(b, 2)));
	return narrow(site, &o, added(site, "addbmm", o.x, tj_matmul(left, right), beta, alpha));
}

/* ---- over chosen axes ---- */
/* The axes of x: those that are summed last (or first), the others in their order before (or behind); both as one axis each. */
static tj_tensor *bad_sides(const char *site, tj_tensor *x, tj_dims axes, int n, bool last, tj_tensor **y, fn_dims *kept, int64_t *depth)
{
	int64_t order[TJ_MAX_RANK + 1];
	bool taken[TJ_MAX_RANK] = { false };
	tj_tensor *bad;
	int64_t size = 1;
	int rank = tj_rank(x), k = last ? rank - n : 0, other = last ? 0 : n;
	*depth = 1;
	for (int i = 0; i < n; i++) {
		int a;
		if ((bad = fn_bad_axis(site, "tensordot", x, axes[i], &a))) return bad;
		if (taken[a] || rank < n) return tj_fail(TJ_ERR_ARG, "tensordot", "list each axis once", "axis %d is given twice", a);
		taken[a] = true;
		order[k + i] = a;
		*depth *= tj_dim(x, a);
	}
	for (int i = 0; i < rank; i++) {
		if (taken[i]) continue;
		order[other++] = i;
		size *= tj_dim(x, i);
		fn_shape_add(kept, tj_dim(x, i));
	}
	order[rank] = TJ_END_DIM;
	*y = tj_reshape(tj_permute(x, order), last ? TJ_SHAPE(size, *depth) : TJ_SHAPE(*depth, size));
	return NULL;
}

/* x with its axes of size 1 as large as those of y. */
static tj_tensor *as_large(const char *site, tj_tensor *x, tj_dims axes, tj_tensor *y, tj_dims of_y, int n)
{
	fn_dims s = fn_shape_of(x);
	for (int i = 0; i < n; i++) {
		const int64_t a = axes[i] < 0 ? axes[i] + s.n : axes[i];
		if (a >= 0 && a < s.n && s.dim[a] == 1 && tj_dim(y, (int)of_y[i]) >= 0) s.dim[a] = tj_dim(y, (int)of_y[i]);
	}
	return fn_expand(site, x, &s);
}

tj_tensor *tj_tensordot_at(const char *site, tj_tensor *a, tj_tensor *b, tj_dims axes_a, tj_dims axes_b)
{
	tj_tensor *bad, *left, *right;
	fn_dims s = { 0 };
	int64_t m, n;
	const int count = fn_entries(axes_a, TJ_MAX_RANK);
	if ((bad = fn_bad(site, "tensordot", "a", a)) || (bad = fn_bad(site, "tensordot", "b", b))) return bad;
	if (!axes_a || !axes_b || count != fn_entries(axes_b, TJ_MAX_RANK))
		return tj_fail(TJ_ERR_ARG, "tensordot", "as in tj_tensordot(a, b, TJ_AXES(1, 2), TJ_AXES(0, 1))", "%d axes of a, %d of b",
		               count, fn_entries(axes_b, TJ_MAX_RANK));
	for (int i = 0; i < count; i++)
		if (tj_dim(a, (int)axes_a[i]) != tj_dim(b, (int)axes_b[i]) && tj_dim(a, (int)axes_a[i]) != 1 &&
		    tj_dim(b, (int)axes_b[i]) != 1)
			return tj_fail(TJ_ERR_SHAPE, "tensordot", "axes that are summed have one size, or 1",
			               "axis %lld of a is %lld, axis %lld of b %lld", (long long)axes_a[i],
			               (long long)tj_dim(a, (int)axes_a[i]), (long long)axes_b[i], (long long)tj_dim(b, (int)axes_b[i]));
	a = as_large(site, a, axes_a, b, axes_b, count);
	b = as_large(site, b, axes_b, a, axes_a, count);
	if ((bad = bad_sides(site, a, axes_a, count, true, &left, &s, &m)) ||
	    (bad = bad_sides(site, b, axes_b, count, false, &right, &s, &n)))
		return bad;
	return fn_reshape(site, tj_matmul(left, right), &s);
}

tj_tensor *tj_inner_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "inner", "a", a)) || (bad = fn_bad(site, "inner", "b", b))) return bad;
	return tj_rank(a) && tj_rank(b) ? tj_tensordot_at(site, a, b, TJ_AXES(-1), TJ_AXES(-1)) : tj_mul(a, b);
}

/* Each element of a times all of b: [a0,1,a1,1,...] * [1,b0,1,b1,...], and neighbouring axes become one. */
tj_tensor *tj_kron_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	tj_tensor *bad;
	if ((bad = fn_bad(site, "kron", "a", a)) || (bad = fn_bad(site, "kron", "b", b))) return bad;
	const int rank = tj_rank(a) > tj_rank(b) ? tj_rank(a) : tj_rank(b);
	fn_dims p = { 0 }, q = { 0 }, s = { 0 };
	if (2 * rank > TJ_MAX_RANK)
		return tj_fail(TJ_ERR_LIMIT, "kron", "join axes with tj_reshape()", "%d axes, at most %d are possible", rank,
		               TJ_MAX_RANK / 2);
	for (int i = 0; i < rank; i++) {
		const int ia = i - (rank - tj_rank(a)), ib = i - (rank - tj_rank(b));
		const int64_t m = ia < 0 ? 1 : tj_dim(a, ia), n = ib < 0 ? 1 : tj_dim(b, ib);
		fn_shape_add(&p, m), fn_shape_add(&p, 1);
		fn_shape_add(&q, 1), fn_shape_add(&q, n);
		fn_shape_add(&s, m * n);
	}
	return fn_reshape(site, tj_mul(fn_reshape(site, a, &p), fn_reshape(site, b, &q)), &s);
}

tj_tensor *tj_cross_at(const char *site, tj_tensor *a, tj_tensor *b, int axis)
{
	tj_tensor *x[2], *bad;
	int at;
	if (!tj_broadcast_tensors(TJ_LIST(a, b), x)) return x[0];
	if ((bad = fn_bad_axis(site, "cross", x[0], axis, &at))) return bad;
	if (!tj_rank(x[0]) || tj_dim(x[0], at) != 3)
		return tj_fail(TJ_ERR_SHAPE, "cross", "vectors of 3 numbers", "axis %d has %lld elements, not 3", at,
		               (long long)(tj_rank(x[0]) ? tj_dim(x[0], at) : 0));
	tj_tensor *first = tj_mul(tj_roll(x[0], -1, at), tj_roll(x[1], -2, at));
	return tj_sub(first, tj_mul(tj_roll(x[0], -2, at), tj_roll(x[1], -1, at)));
}

/* ---- many matrices ---- */
enum { CHAIN = 64 };
typedef struct chain { const char *site; tj_tensor *x[CHAIN]; int64_t size[CHAIN + 1]; uint8_t split[CHAIN][CHAIN]; } chain;
static tj_tensor *multiplied(const chain *l, int i, int j)
{
	const char *site = l->site;
	if (i == j) return l->x[i];
	const int s = l->split[i][j];
	tj_tensor *left = multiplied(l, i, s);
	return tj_matmul(left, multiplied(l, s + 1, j));
}

/* The cheapest order of products, by the usual table over parts of the chain. */
tj_tensor *tj_multi_dot_at(const char *site, tj_list list)
{
	chain l = { .site = site };
	double cost[CHAIN][CHAIN];
	tj_tensor *bad;
	const int n = fn_listed(list, CHAIN);
	if (!n || n > CHAIN)
		return tj_fail(TJ_ERR_ARG, "multi_dot", "as in tj_multi_dot(TJ_LIST(a, b, c))",
		               n ? "there are more than 64 matrices" : "the list is empty");
	for (int i = 0; i < n; i++) {
		if ((bad = fn_bad(site, "multi_dot", "an operand", list[i]))) return bad;
		const int rank = tj_rank(list[i]);
		if (rank != 2 && !(rank == 1 && (i == 0 || i == n - 1)))
			return tj_fail(TJ_ERR_SHAPE, "multi_dot", "matrices; the first and the last may be vectors",
			               "operand %d has %d axes", i, rank);
		l.x[i] = rank == 2 ? list[i] : tj_unsqueeze(list[i], i == 0 && n > 1 ? 0 : 1);
		if (i && tj_dim(l.x[i], 0) != l.size[i])
			return tj_fail(TJ_ERR_SHAPE, "multi_dot", "rows of a matrix are as many as columns of the one before",
			               "operand %d has %lld rows, %lld are needed", i, (long long)tj_dim(l.x[i], 0), (long long)l.size[i]);
		l.size[i] = tj_dim(l.x[i], 0);
		l.size[i + 1] = tj_dim(l.x[i], 1);
		cost[i][i] = 0;
	}
	if (n == 1) return list[0];
	for (int len = 1; len < n; len++)
		for (int i = 0; i + len < n; i++) {
			const int j = i + len;
			cost[i][j] = INFINITY;
			for (int s = i; s < j; s++) {
				const double c = cost[i][s] + cost[s + 1][j] + (double)l.size[i] * (double)l.size[s + 1] * (double)l.size[j + 1];
				if (c < cost[i][j]) cost[i][j] = c, l.split[i][j] = (uint8_t)s;
			}
		}
	tj_tensor *y = multiplied(&l, 0, n - 1);
	if (tj_rank(list[n - 1]) == 1) y = tj_squeeze(y, TJ_AXES(1));
	return tj_rank(list[0]) == 1 ? tj_squeeze(y, TJ_AXES(0)) : y;
}

/* By squaring. */
tj_tensor *tj_matrix_power_at(const char *site, tj_tensor *x, int n)
{
	tj_tensor *y = NULL, *bad = fn_bad(site, "matrix_power", "x", x);
	if (bad) return bad;
	if (tj_rank(x) < 2 || tj_dim(x, -1) != tj_dim(x, -2))
		return tj_fail(TJ_ERR_SHAPE, "matrix_power", "square matrices along the last two axes", "x has %d axes, the last of %lld",
		               tj_rank(x), (long long)(tj_rank(x) ? tj_dim(x, -1) : 0));
	if (n < 0) return tj_fail(TJ_ERR_ARG, "matrix_power", "take the power of the inverse", "the exponent is %d", n);
	const fn_dims s = fn_shape_of(x);
	if (!n) return fn_expand(site, tj_to(tj_eye(tj_dtype_of(x), tj_dim(x, -1), tj_dim(x, -1)), tj_device_of(x)), &s);
	for (unsigned left = (unsigned)n; left; left >>= 1) {
		if (left & 1) y = y ? tj_matmul(y, x) : x;
		if (left > 1) x = tj_matmul(x, x);
	}
	return y;
}

/* 0: Frobenius. */
tj_tensor *tj_matrix_norm_at(const char *site, tj_tensor *x, double p, bool keepdim)
{
	tj_tensor *bad = fn_bad(site, "matrix_norm", "x", x);
	if (bad) return bad;
	if (tj_rank(x) < 2) return tj_fail(TJ_ERR_SHAPE, "matrix_norm", "tj_norm() is that of vectors", "x has %d axes, 2 are needed", tj_rank(x));
	if (p == 0) return tj_norm(x, 2, TJ_AXES(-2, -1), keepdim);
	if (fabs(p) != 1 && fabs(p) != 2 && !isinf(p))
		return tj_fail(TJ_ERR_ARG, "matrix_norm", "0 is the Frobenius norm; tj_nuclear_norm() is the sum of singular values",
		               "the order is %g; 0, 1, -1, 2, -2, INFINITY and -INFINITY are possible", p);
	if (fabs(p) == 2) {
		tj_tensor *s = tj_svdvals(x), *of = p > 0 ? tj_amax(s, TJ_AXES(-1), keepdim) : tj_amin(s, TJ_AXES(-1), keepdim);
		return keepdim ? tj_unsqueeze(of, -1) : of;
	}
	const int over = fabs(p) == 1 ? -2 : -1; /* sums of columns, or of rows */
	tj_tensor *sums = tj_norm(x, 1, TJ_AXES(over), true),
		  *y = p > 0 ? tj_amax(sums, TJ_AXES(-2, -1), true) : tj_amin(sums, TJ_AXES(-2, -1), true);
	return keepdim ? y : tj_squeeze(y, TJ_AXES(-2, -1));
}
