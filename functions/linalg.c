/* SPDX-License-Identifier: MIT */
/* torch.linalg's functions on factors of matrices. A matrix is the last two axes; the others are a batch, which broadcasts. */
#include "functions/functions.h"

/* ---- operands ---- */
static tj_tensor *bad_matrix(const char *site, const char *op, const char *name, tj_tensor *a, bool square)
{
	tj_tensor *bad = fn_bad_float(site, op, name, a);
	if (bad) return bad;
	const int rank = tj_rank(a);
	if (rank < 2) return tj_fail(TJ_ERR_SHAPE, op, "[...,m,n]", "%s must have two axes or more, it is %s", name, fn_type_of(a).text);
	if (square && tj_dim(a, rank - 1) != tj_dim(a, rank - 2))
		return tj_fail(TJ_ERR_SHAPE, op, "[...,n,n]; tj_lstsq() takes others", "%s must be square, it is %s", name, fn_type_of(a).text);
	return NULL;
}

static tj_tensor *adjoint(const char *site, tj_tensor *a) { return tj_transpose(a, -2, -1); }
static tj_tensor *rows(const char *site, tj_tensor *a, int64_t from, int64_t n) { return tj_narrow(a, -2, from, n); }
static tj_tensor *columns(const char *site, tj_tensor *a, int64_t from, int64_t n) { return tj_narrow(a, -1, from, n); }

/* Both with the batch that they have together. NULL, or poison. */
static tj_tensor *together(const char *site, const char *op, tj_tensor **a, tj_tensor **b)
{
	int64_t dim[2][TJ_MAX_RANK + 1];
	const int ra = tj_rank(*a), rb = tj_rank(*b), rank = ra > rb ? ra : rb;
	for (int i = 0; i < rank - 2; i++) {
		const int64_t x = i - (rank - ra) < 0 ? 1 : tj_dim(*a, i - (rank - ra)), y = i - (rank - rb) < 0 ? 1 : tj_dim(*b, i - (rank - rb));
		if (x != y && x != 1 && y != 1)
			return tj_fail(TJ_ERR_SHAPE, op, "axes of the batch are equal, or 1", "the batches of %s and %s do not broadcast", fn_type_of(*a).text,
			               fn_type_of(*b).text);
		dim[0][i] = dim[1][i] = x == 1 ? y : x;
	}
	for (int i = 2; i > 0; i--) {
		dim[0][rank - i] = tj_dim(*a, ra - i);
		dim[1][rank - i] = tj_dim(*b, rb - i);
	}
	dim[0][rank] = dim[1][rank] = TJ_END_DIM;
	*a = tj_expand(*a, dim[0]);
	*b = tj_expand(*b, dim[1]);
	return NULL;
}

/* b as columns: a vector, of rank one less than a's or of rank 1, becomes one. NULL, or poison. */
static tj_tensor *as_columns(const char *site, const char *op, tj_tensor *a, tj_tensor **b, bool *vector)
{
	tj_tensor *bad = fn_bad_float(site, op, "b", *b);
	if (bad) return bad;
	const int rank = tj_rank(*b);
	*vector = rank == 1 || (rank == tj_rank(a) - 1 && tj_dim(*b, rank - 1) == tj_dim(a, tj_rank(a) - 2));
	for (int i = 0; *vector && rank > 1 && i < rank - 1; i++) *vector &= tj_dim(*b, i) == tj_dim(a, i);
	if (*vector) *b = tj_unsqueeze(*b, -1);
	if (tj_rank(*b) >= 2 && tj_dim(*b, tj_rank(*b) - 2) == tj_dim(a, tj_rank(a) - 2)) return NULL;
	return tj_fail(TJ_ERR_SHAPE, op, "[...,n,n] and [...,n,k], or [...,n]", "%s and %s", fn_type_of(a).text, fn_type_of(*b).text);
}

static tj_tensor *as_given(const char *site, tj_tensor *x, bool vector) { return vector ? tj_squeeze(x, TJ_AXES(-1)) : x; }

static tj_tensor *both_flipped(const char *site, tj_tensor *a) { return tj_flip(a, TJ_AXES(-2, -1)); }

/* In the other order of rows and columns an upper triangle is a lower one. */
static tj_tensor *solve_upper(const char *site, tj_tensor *u, tj_tensor *b, bool unit)
{
	return tj_flip(tj_solve_lower(both_flipped(site, u), tj_flip(b, TJ_AXES(-2)), unit), TJ_AXES(-2));
}

/* ---- triangles ---- */
tj_tensor *tj_solve_triangular_at(const char *site, tj_tensor *a, tj_tensor *b, bool upper, bool unit)
{
	static const char op[] = "solve_triangular";
	bool vector = false;
	tj_tensor *bad = bad_matrix(site, op, "a", a, true);
	if (bad || (bad = as_columns(site, op, a, &b, &vector)) || (bad = together(site, op, &a, &b))) return bad;
	return as_given(site, upper ? solve_upper(site, a, b, unit) : tj_solve_lower(a, b, unit), vector);
}

tj_tensor *tj_cholesky_solve_at(const char *site, tj_tensor *b, tj_tensor *l)
{
	static const char op[] = "cholesky_solve";
	bool vector = false;
	tj_tensor *bad = bad_matrix(site, op, "l", l, true);
	if (bad || (bad = as_columns(site, op, l, &b, &vector)) || (bad = together(site, op, &l, &b))) return bad;
	return as_given(site, solve_upper(site, adjoint(site, l), tj_solve_lower(l, b, false), false), vector);
}

/* ---- L U ---- */
/* The order of rows, i64 [...,m]. */
static tj_tensor *order_of(const char *site, tj_tensor *packed, int64_t n)
{
	return tj_cast(tj_select(packed, -1, n), TJ_I64);
}

/* Row i of the result is row order[i] of b. */
static tj_tensor *in_order(const char *site, tj_tensor *b, tj_tensor *order)
{
	int64_t shape[TJ_MAX_RANK + 1];
	return tj_gather(b, -2, tj_expand(tj_unsqueeze(order, -1), fn_shape(b, shape)));
}

tj_tensor *tj_lu_at(const char *site, tj_tensor *a, tj_tensor **l, tj_tensor **u)
{
	tj_tensor *bad = bad_matrix(site, "lu", "a", a, false);
	if (l) *l = bad;
	if (u) *u = bad;
	if (bad) return bad;
	const int64_t m = tj_dim(a, tj_rank(a) - 2), n = tj_dim(a, tj_rank(a) - 1), k = m < n ? m : n;
	tj_tensor *packed = tj_lu_packed(a), *both = columns(site, packed, 0, n);
	if (l) *l = tj_add(tj_tril(columns(site, both, 0, k), -1), tj_eye(tj_dtype_of(a), m, k));
	if (u) *u = tj_triu(rows(site, both, 0, k), 0);
	/* element [order[i], i] is 1 */
	tj_tensor *place = tj_unsqueeze(tj_argsort(order_of(site, packed, n), -1, false), -1);
	return tj_cast(tj_eq(place, tj_arange(TJ_I64, 0, m, 1)), tj_dtype_of(a));
}

tj_tensor *tj_lu_solve_at(const char *site, tj_tensor *packed, tj_tensor *b)
{
	static const char op[] = "lu_solve";
	bool vector = false;
	tj_tensor *bad = fn_bad_float(site, op, "packed", packed);
	if (bad) return bad;
	const int rank = tj_rank(packed);
	if (rank < 2 || tj_dim(packed, rank - 1) != tj_dim(packed, rank - 2) + 1)
		return tj_fail(TJ_ERR_SHAPE, op, "as tj_lu_packed() gives it of a square matrix", "packed is %s, not [...,n,n + 1]",
		               fn_type_of(packed).text);
	const int64_t n = tj_dim(packed, rank - 2);
	if ((bad = as_columns(site, op, packed, &b, &vector)) || (bad = together(site, op, &packed, &b))) return bad;
	tj_tensor *a = columns(site, packed, 0, n), *y = tj_solve_lower(a, in_order(site, b, order_of(site, packed, n)), true);
	return as_given(site, solve_upper(site, a, y, false), vector);
}

/* A zero pivot: an error that says so, with the batch in it. */
static tj_tensor *checked(const char *site, const char *op, tj_tensor *packed, int64_t n)
{
	const char *named = tj_site_for(site, op, "a matrix is singular: U has a zero on its diagonal",
	                                "tj_lstsq() and tj_pinv() take such matrices");
	tj_tensor *sound = tj_all(tj_ne(tj_diagonal(columns(site, packed, 0, n), 0, -2, -1), tj_i(0)), TJ_ALL, false);
	return tj_add(packed, tj_cast(tj_squeeze(fn_zero_if(named, packed, sound), TJ_AXES(0)), tj_dtype_of(packed)));
}

tj_tensor *tj_solve_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	static const char op[] = "solve";
	bool vector = false;
	tj_tensor *bad = bad_matrix(site, op, "a", a, true);
	if (bad || (bad = as_columns(site, op, a, &b, &vector))) return bad;
	tj_tensor *packed = checked(site, op, tj_lu_packed(a), tj_dim(a, tj_rank(a) - 1));
	return as_given(site, tj_lu_solve(packed, b), vector);
}

tj_tensor *tj_inv_at(const char *site, tj_tensor *a)
{
	tj_tensor *bad = bad_matrix(site, "inv", "a", a, true);
	if (bad) return bad;
	const int64_t n = tj_dim(a, tj_rank(a) - 1);
	return tj_lu_solve(checked(site, "inv", tj_lu_packed(a), n), tj_expand_as(tj_eye(tj_dtype_of(a), n, n), a)); /* no vectors */
}

/* -1 for an odd number of exchanges: the product over i < j of the sign of order[j] - order[i]. */
static tj_tensor *parity(const char *site, tj_tensor *order, tj_dtype t)
{
	tj_tensor *later = tj_unsqueeze(order, -2), *earlier = tj_unsqueeze(order, -1);
	tj_tensor *turned = tj_triu(tj_cast(tj_lt(later, earlier), TJ_I64), 1);
	tj_tensor *odd = tj_bitwise_and(tj_sum(turned, TJ_AXES(-2, -1), false), tj_i(1));
	return tj_cast(tj_sub(tj_i(1), tj_mul(odd, tj_i(2))), t);
}

static tj_tensor *pivots(const char *site, tj_tensor *packed, int64_t n) { return tj_diagonal(columns(site, packed, 0, n), 0, -2, -1); }

tj_tensor *tj_det_at(const char *site, tj_tensor *a)
{
	tj_tensor *bad = bad_matrix(site, "det", "a", a, true);
	if (bad) return bad;
	const int64_t n = tj_dim(a, tj_rank(a) - 1);
	tj_tensor *packed = tj_lu_packed(a);
	return tj_mul(tj_prod(pivots(site, packed, n), TJ_AXES(-1), false), parity(site, order_of(site, packed, n), tj_dtype_of(a)));
}

tj_tensor *tj_slogdet_at(const char *site, tj_tensor *a, tj_tensor **logabsdet)
{
	tj_tensor *bad = bad_matrix(site, "slogdet", "a", a, true);
	if (logabsdet) *logabsdet = bad;
	if (bad) return bad;
	const int64_t n = tj_dim(a, tj_rank(a) - 1);
	tj_tensor *packed = tj_lu_packed(a), *d = pivots(site, packed, n);
	if (logabsdet) *logabsdet = tj_sum(tj_log(tj_abs(d)), TJ_AXES(-1), false);
	return tj_mul(tj_prod(tj_sign(d), TJ_AXES(-1), false), parity(site, order_of(site, packed, n), tj_dtype_of(a)));
}

/* ---- Q R ---- */
tj_tensor *tj_qr_at(const char *site, tj_tensor *a, tj_tensor **r)
{
	tj_tensor *bad = bad_matrix(site, "qr", "a", a, false);
	if (r) *r = bad;
	if (bad) return bad;
	const int64_t m = tj_dim(a, tj_rank(a) - 2), n = tj_dim(a, tj_rank(a) - 1);
	tj_tensor *packed = tj_qr_packed(a);
	if (r) *r = adjoint(site, rows(site, packed, m, n));
	return rows(site, packed, 0, m);
}

tj_tensor *tj_lstsq_at(const char *site, tj_tensor *a, tj_tensor *b)
{
	static const char op[] = "lstsq";
	bool vector = false;
	tj_tensor *bad = bad_matrix(site, op, "a", a, false);
	if (bad || (bad = as_columns(site, op, a, &b, &vector)) || (bad = together(site, op, &a, &b))) return bad;
	const int64_t m = tj_dim(a, tj_rank(a) - 2), n = tj_dim(a, tj_rank(a) - 1);
	tj_tensor *r, *q;
	if (m >= n) {
		q = tj_qr(a, &r);
		return as_given(site, solve_upper(site, r, tj_matmul(adjoint(site, q), b), false), vector);
	}
	q = tj_qr(adjoint(site, a), &r); /* a = r' q': of all solutions the shortest */
	return as_given(site, tj_matmul(q, tj_solve_lower(adjoint(site, r), b, false)), vector);
}

/* ---- the exponential ---- */
/* Higham, "The scaling and squaring method for the matrix exponential revisited", 2005: the Pade approximant of degree 13 of a / 2^s,
 * squared s times. s depends on the 1-norm of the matrix, which is data, so MOST squarings are there, and a choice behind each. */
tj_tensor *tj_matrix_exp_at(const char *site, tj_tensor *a)
{
	enum { MOST = 12 };
	static const double theta = 5.371920351148152;
	static const double b[] = { 64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
		                    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1 };
	tj_tensor *bad = bad_matrix(site, "matrix_exp", "a", a, true);
	if (bad) return bad;
	const tj_dtype t = tj_dtype_of(a);
	const int64_t n = tj_dim(a, tj_rank(a) - 1);
	tj_tensor *size = n ? tj_amax(tj_sum(tj_abs(a), TJ_AXES(-2), true), TJ_AXES(-1), true) : tj_sum(tj_abs(a), TJ_AXES(-2, -1), true);
	tj_tensor *times = tj_clamp(tj_ceil(tj_log2(tj_div(size, tj_f(theta)))), tj_f(0), tj_f(MOST)); /* [...,1,1] */
	a = tj_mul(a, tj_exp2(tj_neg(times)));
	tj_tensor *one = tj_eye(t, n, n), *a2 = tj_matmul(a, a), *a4 = tj_matmul(a2, a2), *a6 = tj_matmul(a2, a4);
#define SUM(i) tj_add(tj_add(tj_mul(a6, tj_f(b[(i) + 6])), tj_mul(a4, tj_f(b[(i) + 4]))), tj_mul(a2, tj_f(b[(i) + 2])))
	tj_tensor *odd = tj_add(tj_mul(a6, tj_f(b[13])), tj_add(tj_mul(a4, tj_f(b[11])), tj_mul(a2, tj_f(b[9]))));
	tj_tensor *even = tj_add(tj_mul(a6, tj_f(b[12])), tj_add(tj_mul(a4, tj_f(b[10])), tj_mul(a2, tj_f(b[8]))));
	tj_tensor *u = tj_matmul(a, tj_add(tj_matmul(a6, odd), tj_add(SUM(1), tj_mul(one, tj_f(b[1])))));
	tj_tensor *v = tj_add(tj_matmul(a6, even), tj_add(SUM(0), tj_mul(one, tj_f(b[0]))));
#undef SUM
	tj_tensor *y = tj_lu_solve(tj_lu_packed(tj_sub(v, u)), tj_add(v, u));
	for (int i = 0; i < MOST; i++) y = tj_where(tj_gt(times, tj_f(i)), tj_matmul(y, y), y);
	return y;
}
