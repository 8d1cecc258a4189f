/* SPDX-License-Identifier: MIT */
/* factor: factors of small and large matrices, on the calling thread. They define the bits: the evaluator uses them, and so do routines.
 *
 * Matrices are row-major and dense, of f32 or f64. In every sum the terms are taken off one after the other, each by one fused
 * multiply-add, in rising order of the inner index, so blocks and vectors change no bit. */
#ifndef TJ_RUNTIME_FACTOR_H
#define TJ_RUNTIME_FACTOR_H

#include "runtime/base.h"

/* a [n,n], symmetric, of which the lower triangle is read, becomes L with a = L L', above the diagonal 0:
 *   L[i][j] = (a[i][j] - L[i][0] L[j][0] - L[i][1] L[j][1] - ...) / L[j][j],   L[j][j] the root of such a difference
 * 0; or 1 + the first j whose difference is not above 0 (NaN counts so): then a is spoiled. */
int64_t rt_cholesky(tj_dtype t, int64_t n, void *a);

/* x [n,k] becomes the solution of l x = x; l [n,n] is lower triangular, what is above its diagonal is not read.
 *   x[i] = (x[i] - l[i][0] x[0] - l[i][1] x[1] - ...) / l[i][i];   unit: without the division, and the diagonal is not read */
void rt_solve_lower(tj_dtype t, int64_t n, int64_t k, const void *l, void *x, bool unit);

/* a [m,n] becomes L and U, a with its rows exchanged = L U: U on and above the diagonal, L below it, with ones on its diagonal. In step j
 * row pivot[j] >= j, the first of those with the largest |a[i][j]|, changes places with row j; NaN is larger than all. pivot: min(m, n).
 * work: room for rt_lu_room() elements. */
int64_t rt_lu_room(int64_t m, int64_t n);
void rt_lu(tj_dtype t, int64_t m, int64_t n, void *a, int32_t *pivot, void *work);

/* a [m,n] = q r; q [m,k], r [k,n], k = min(m, n). Householder's reflections, by 32 columns at a time, with the sign that makes no
 * difference of nearly equal numbers: the diagonal of r has the sign that is opposite to that of the pivot (LAPACK's rule). a is spoiled.
 * work: room for rt_qr_room() elements. */
int64_t rt_qr_room(int64_t m, int64_t n);
void rt_qr(tj_dtype t, int64_t m, int64_t n, void *a, void *q, void *r, void *work);

#endif
