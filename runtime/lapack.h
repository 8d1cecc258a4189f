/* SPDX-License-Identifier: MIT */
/* lapack: eigenvalues of symmetric matrices and singular values, by LAPACK (lapack.c) or by Jacobi's rotations (jacobi.c). All matrices
 * are row-major, f32 or f64, finite, and have one element or more. */
#ifndef TJ_RUNTIME_LAPACK_H
#define TJ_RUNTIME_LAPACK_H

#include "runtime/base.h"

/* ---- lapack.c ---- */
/* Results of these functions: 0, or 1 and more: it does not converge. */
/* LARGE: more than an int of LAPACK; MISSING: it is not there, but the process chose it */
enum { RT_SPECTRAL_NOMEM = -1, RT_SPECTRAL_LARGE = -2, RT_SPECTRAL_MISSING = -3 };

/* Of a symmetric a [n,n], whose lower triangle is read: values [n], ascending, and in place of a the eigenvectors as rows, of any sign. */
int64_t rt_eigh(tj_dtype t, int64_t n, void *a, void *values);
/* Of a [m,n], which is spoiled: s [k], descending, k = min(m, n), u [m,k], and the columns of v as rows, [k,n]; pairs of any sign. */
int64_t rt_svd(tj_dtype t, int64_t m, int64_t n, void *a, void *u, void *v, void *s);

/* Who computes, for the process: "auto": LAPACK if it is there; "own"; "lapack": it alone. NULL, "": as TJ_LINALG says, if no
 * name came before. False: the name is none of these, and nothing changes. */
bool rt_linalg_choose(const char *name);
const char *rt_linalg_choice(void);  /* "auto", "own" or "lapack" */
const char *rt_lapack_missing(void); /* NULL: LAPACK is there; else why not. The first call opens it */
const char *rt_lapack_version(void); /* "3.11.0", "3.9.0, OpenBLAS 0.3.21"; NULL: it is missing */

/* ---- jacobi.c: the same, without LAPACK ---- */
int64_t rt_own_eigh(tj_dtype t, int64_t n, void *a, void *values);
int64_t rt_own_svd(tj_dtype t, int64_t m, int64_t n, void *a, void *u, void *v, void *s);

#endif
