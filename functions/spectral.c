/* SPDX-License-Identifier: MIT */
/* Eigenvalues of symmetric matrices, singular values, and what is defined by them. The ops give one result, which is taken apart here. */
#include "functions/functions.h"

#include <math.h>

typedef tj_tensor T;

static T *bad_matrix(const char *site, const char *op, T *x, bool square)
{
	T *bad = fn_bad_float(site, op, "x", x);
	if (bad) return bad;
	if (tj_rank(x) < 2 || (square && tj_dim(x, -1) != tj_dim(x, -2)))
		return tj_fail(TJ_ERR_SHAPE, op, "the first axes count the matrices", "x is %s, no %smatrix along its last two axes", fn_type_of(x).text,
		               square ? "square " : "");
	return NULL;
}

static T *bad_choice(const char *site, const char *op, tj_degenerate d)
{
	if (d == TJ_DEGENERATE_INF || d == TJ_DEGENERATE_ZERO) return NULL;
	return tj_fail(TJ_ERR_ARG, op, "TJ_DEGENERATE_INF or TJ_DEGENERATE_ZERO", ".degenerate is %d", (int)d);
}

static T *rows(const char *site, T *x, int64_t from, int64_t to) { return tj_slice(x, -2, from, to, 1); }
static T *row(const char *site, T *x, int64_t at) { return tj_squeeze(rows(site, x, at, at + 1), TJ_AXES(-2)); }
static T *turned(const char *site, T *x) { return tj_transpose(x, -2, -1); }
static int64_t smaller(T *x) { return tj_dim(x, -2) < tj_dim(x, -1) ? tj_dim(x, -2) : tj_dim(x, -1); }
static int64_t larger(T *x) { return tj_dim(x, -2) < tj_dim(x, -1) ? tj_dim(x, -1) : tj_dim(x, -2); }

/* ---- decompositions ---- */
T *tj_eigh_at(const char *site, T *x, const tj_spectral_opts *opts, T **vectors)
{
	if (vectors) *vectors = NULL;
	NN_OPTIONS(tj_spectral_opts, o, opts)
	T *bad = bad_matrix(site, "eigh", x, true);
	if (bad || (bad = bad_choice(site, "eigh", o.degenerate))) return bad;
	const int64_t n = tj_dim(x, -1);
	T *y = tj_eigh_packed(o.upper ? turned(site, x) : x, o.degenerate == TJ_DEGENERATE_ZERO);
	if (vectors) *vectors = rows(site, y, 0, n);
	return row(site, y, n);
}

T *tj_eigvalsh_at(const char *site, T *x, const tj_spectral_opts *opts) { return tj_eigh_at(site, x, opts, NULL); }

typedef struct factors { T *u, *s, *v; } factors; /* x = u diag(s) v' */

static factors taken_apart(const char *site, T *x, bool zero)
{
	T *y = tj_svd_packed(x, zero);
	const int64_t m = tj_dim(x, -2), all = m + tj_dim(x, -1);
	return (factors){ rows(site, y, 0, m), row(site, y, all), rows(site, y, m, all) };
}

T *tj_svd_at(const char *site, T *x, const tj_spectral_opts *opts, T **s, T **vt)
{
	if (s) *s = NULL;
	if (vt) *vt = NULL;
	NN_OPTIONS(tj_spectral_opts, o, opts)
	T *bad = bad_matrix(site, "svd", x, false);
	if (bad || (bad = bad_choice(site, "svd", o.degenerate))) return bad;
	const factors f = taken_apart(site, x, o.degenerate == TJ_DEGENERATE_ZERO);
	if (s) *s = f.s;
	if (vt) *vt = turned(site, f.v);
	return f.u;
}

T *tj_svdvals_at(const char *site, T *x)
{
	T *bad = bad_matrix(site, "svdvals", x, false);
	return bad ? bad : taken_apart(site, x, false).s;
}

/* ---- ranks and inverses ---- */
static double unit(tj_dtype t) { return t == TJ_F64 ? 0x1p-52 : t == TJ_F32 ? 0x1p-23 : t == TJ_F16 ? 0x1p-10 : 0x1p-7; }

/* sizes: absolute eigenvalues or singular values of x, [...,k]; what is no larger than the result, [...,1], counts as 0. */
static T *least(const char *site, T *sizes, T *x, const tj_rank_opts *o)
{
	const double rtol = o->rtol == 0 && o->atol == 0 ? unit(tj_dtype_of(x)) * (double)larger(x) : o->rtol;
	T *relative = tj_mul(tj_amax(sizes, TJ_AXES(-1), true), tj_f(rtol));
	return o->atol == 0 ? relative : tj_maximum(relative, tj_f(o->atol));
}

static T *bad_tolerance(const char *site, const char *op, const tj_rank_opts *o)
{
	if (o->atol >= 0 && o->rtol >= 0) return NULL;
	return tj_fail(TJ_ERR_ARG, op, "tolerances are 0 or more", ".atol is %g, .rtol %g", o->atol, o->rtol);
}

/* Of the shape of x without its last two axes; behind it m and n, unless they are -1. */
static T *zeros(const char *site, T *x, tj_dtype t, int64_t m, int64_t n)
{
	fn_dims s = fn_shape_of(x);
	s.n -= 2;
	s.dim[s.n] = TJ_END_DIM;
	if (m >= 0) fn_shape_add(&s, m), fn_shape_add(&s, n);
	return fn_filled(site, x, t, &s, tj_i(0));
}

T *tj_matrix_rank_at(const char *site, T *x, const tj_rank_opts *opts)
{
	NN_OPTIONS(tj_rank_opts, o, opts)
	T *bad = bad_matrix(site, "matrix_rank", x, o.hermitian);
	if (bad || (bad = bad_tolerance(site, "matrix_rank", &o))) return bad;
	if (!smaller(x)) return zeros(site, x, TJ_I64, -1, -1);
	T *wide = fn_widened(site, x), *sizes = o.hermitian ? tj_abs(tj_eigvalsh_at(site, wide, NULL)) : tj_svdvals_at(site, wide);
	return tj_sum(tj_cast(tj_gt(sizes, least(site, sizes, x, &o)), TJ_I64), TJ_AXES(-1), false);
}

typedef struct request { const char *site; T *x; tj_rank_opts o; } request; /* x: before it was widened */

static void inverse(T **out, T *const *in, void *self)
{
	const request *q = self;
	const char *site = q->site;
	T *u, *s, *v;
	if (q->o.hermitian) s = tj_eigh_at(site, in[0], NULL, &u), v = u;
	else {
		const factors f = taken_apart(site, in[0], false);
		u = f.u, s = f.s, v = f.v;
	}
	T *sizes = q->o.hermitian ? tj_abs(s) : s, *counts = tj_gt(sizes, least(site, sizes, q->x, &q->o));
	T *by = tj_where(counts, tj_reciprocal(tj_where(counts, s, tj_f(1))), tj_f(0));
	by = tj_where(tj_isnan(s), s, by); /* of a matrix with NaN or inf in it */
	out[0] = tj_matmul(tj_mul(v, tj_unsqueeze(by, -2)), turned(site, u));
}

/* Of p = pinv(a), for any rank that does not change: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares
 * problems whose variables separate", 1973. Singular vectors have no part in it, so equal singular values do no harm. */
static void through(T **out, T *const *in, void *self)
{
	const char *site = ((const request *)self)->site;
	T *a = in[0], *p = in[1], *pt = turned(site, p), *g = turned(site, in[2]);
	T *gp = tj_matmul(g, p), *pg = tj_matmul(p, g);
	T *left = tj_matmul(tj_sub(g, tj_matmul(a, pg)), tj_matmul(p, pt)), *right = tj_matmul(tj_matmul(pt, p), tj_sub(g, tj_matmul(gp, a)));
	out[0] = tj_sub(tj_add(left, right), turned(site, tj_matmul(p, gp)));
}

T *tj_pinv_at(const char *site, T *x, const tj_rank_opts *opts)
{
	NN_OPTIONS(tj_rank_opts, o, opts)
	T *bad = bad_matrix(site, "pinv", x, o.hermitian), *y;
	if (bad || (bad = bad_tolerance(site, "pinv", &o))) return bad;
	if (!smaller(x)) return zeros(site, x, tj_dtype_of(x), tj_dim(x, -1), tj_dim(x, -2));
	request q = { site, x, o };
	const tj_status st = tj_custom_grad(&y, 1, inverse, through, TJ_LIST(fn_widened(site, x)), &q);
	return st == TJ_OK ? tj_cast(y, tj_dtype_of(x)) : y;
}

/* ---- norms ---- */
T *tj_nuclear_norm_at(const char *site, T *x, bool keepdim)
{
	T *bad = bad_matrix(site, "nuclear_norm", x, false);
	if (bad) return bad;
	T *y = tj_sum(tj_svdvals_at(site, fn_widened(site, x)), TJ_AXES(-1), keepdim);
	return tj_cast(keepdim ? tj_unsqueeze(y, -1) : y, tj_dtype_of(x));
}

T *tj_matrix_cond_at(const char *site, T *x, double p)
{
	T *bad = bad_matrix(site, "matrix_cond", x, p == 0);
	if (bad) return bad;
	if (p != 0 && fabs(p) != 2)
		return tj_fail(TJ_ERR_ARG, "matrix_cond", "for others: tj_matrix_norm() of the matrix, times that of its inverse",
		               "the order is %g; 2, -2 and 0, the Frobenius norm, are possible", p);
	if (!smaller(x)) return zeros(site, x, tj_dtype_of(x), -1, -1);
	T *s = tj_svdvals_at(site, fn_widened(site, x)), *y;
	if (p == 0) y = tj_mul(tj_norm(s, 2, TJ_AXES(-1), false), tj_norm(tj_reciprocal(s), 2, TJ_AXES(-1), false));
	else {
		T *most = tj_select(s, -1, 0), *few = tj_select(s, -1, -1);
		y = p > 0 ? tj_div(most, few) : tj_div(few, most);
	}
	return tj_cast(y, tj_dtype_of(x));
}
