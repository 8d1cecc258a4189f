/* SPDX-License-Identifier: MIT */
/* eigen: eigh_packed and svd_packed: a matrix of a batch at a time (runtime/lapack.c), the signs of vectors, and how results are packed. */
#include "ir/eigen.h"
#include "runtime/lapack.h"

#include <math.h>

typedef struct batch {
	ir_op op;
	tj_dtype t;
	int64_t n, rows, columns, k; /* matrices; of each; vectors that it has */
	size_t size;
} batch;

static char *at(const batch *B, void *p, int64_t i) { return (char *)p + (size_t)i * B->size; }
static double get(const batch *B, void *p, int64_t i) { return B->t == TJ_F64 ? ((double *)p)[i] : (double)((float *)p)[i]; }

static void put(const batch *B, void *p, int64_t i, double x)
{
	if (B->t == TJ_F64) ((double *)p)[i] = x;
	else ((float *)p)[i] = (float)x;
}

/* Of all that is read. LAPACK may not return from a matrix with NaN in it. */
static bool is_finite(const batch *B, void *a)
{
	for (int64_t i = 0; i < B->rows; i++)
		for (int64_t j = 0; j < (B->op == IR_eigh_packed ? i + 1 : B->columns); j++)
			if (!isfinite(get(B, a, i * B->columns + j))) return false;
	return true;
}

/* Vector j of x [n,k] has the wrong sign. The first of its components that has 0.9 of the largest absolute value shall be positive: where
 * several are equal but for rounding, all ways to compute them choose the same. */
static bool is_negative(const batch *B, void *x, int64_t n, int64_t k, int64_t j)
{
	double most = 0;
	for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(get(B, x, i * k + j)));
	for (int64_t i = 0; i < n; i++)
		if (fabs(get(B, x, i * k + j)) >= 0.9 * most) return get(B, x, i * k + j) < 0;
	return false;
}

static void negate(const batch *B, void *x, int64_t n, int64_t k, int64_t j)
{
	for (int64_t i = 0; i < n; i++) put(B, x, i * k + j, -get(B, x, i * k + j));
}

/* v [k,n], vectors as rows, to columns */
static void turn(const batch *B, void *v, int64_t n, int64_t k, void *to)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < k; j++) memcpy(at(B, to, i * k + j), at(B, v, j * n + i), B->size);
}

static int64_t eigh(const batch *B, void *a, void *to)
{
	const int64_t n = B->rows, st = rt_eigh(B->t, n, a, at(B, to, n * n));
	if (st) return st;
	turn(B, a, n, n, to);
	for (int64_t j = 0; j < n; j++)
		if (is_negative(B, to, n, n, j)) negate(B, to, n, n, j);
	return 0;
}

static int64_t svd(const batch *B, void *a, void *v, void *to)
{
	const int64_t m = B->rows, n = B->columns, k = B->k;
	char *right = at(B, to, m * k);
	const int64_t st = rt_svd(B->t, m, n, a, to, v, at(B, to, (m + n) * k));
	if (st) return st;
	turn(B, v, n, k, right);
	for (int64_t j = 0; j < k; j++)
		if (is_negative(B, to, m, k, j)) negate(B, to, m, k, j), negate(B, right, n, k, j);
	return 0;
}

static tj_status failed(const batch *B, int64_t i, int64_t st, rt_err *err)
{
	const char *op = B->op == IR_eigh_packed ? "eigh" : "svd";
	if (st == RT_SPECTRAL_NOMEM) return rt_fail(err, TJ_ERR_NOMEM, op, "out of memory");
	if (st == RT_SPECTRAL_LARGE)
		return rt_fail(err, TJ_ERR_LIMIT, op, "a matrix of %lld x %lld is too large for the integers of LAPACK", (long long)B->rows,
		               (long long)B->columns);
	if (st == RT_SPECTRAL_MISSING) return rt_fail(err, TJ_ERR_STATE, op, "TJ_LINALG is lapack, but %s", rt_lapack_missing());
	rt_fail(err, TJ_ERR_SINGULAR, op, "matrix %lld of %lld: the iteration does not converge", (long long)i, (long long)B->n);
	rt_hint(err, "TJ_LINALG=own takes another way");
	return TJ_ERR_SINGULAR;
}

tj_status ir_spectral(ir_op op, const ir_meta *m, void *a, const ir_meta *out, void *to, rt_err *err)
{
	const tj_dtype t = (tj_dtype)out->dtype;
	batch B = { op, t, 1, m->dim[m->rank - 2], m->dim[m->rank - 1], out->dim[out->rank - 1], tj_dtype_size(t) };
	for (int i = 0; i < m->rank - 2; i++) B.n *= m->dim[i];
	const int64_t step = B.rows * B.columns, result = out->dim[out->rank - 2] * B.k;
	if (!result) return TJ_OK;
	void *v = rt_alloc((size_t)(op == IR_svd_packed ? B.k * B.columns : 1) * B.size);
	tj_status status = v ? TJ_OK : failed(&B, 0, RT_SPECTRAL_NOMEM, err);
	for (int64_t i = 0; i < B.n && status == TJ_OK; i++) {
		void *x = at(&B, a, i * step), *y = at(&B, to, i * result);
		int64_t st = 0;
		if (is_finite(&B, x)) st = op == IR_eigh_packed ? eigh(&B, x, y) : svd(&B, x, v, y);
		else
			for (int64_t j = 0; j < result; j++) put(&B, y, j, NAN);
		if (st) status = failed(&B, i, st, err);
	}
	rt_free(v);
	return status;
}
