/* gemm: matrix products by our own kernels: small f32 products and those of few rows, where oneDNN is slower, and all of f64. */
#ifndef TJ_RUNTIME_GEMM_H
#define TJ_RUNTIME_GEMM_H

#include "runtime/exec.h"
#include "runtime/policy.h"

/* C[m,n] = A[m,k] B[k,n]. A and B have any strides (f32: columns of B are adjacent); columns of C are adjacent. In f32 each element is
 * one chain of fused multiply-adds in the order of k: tiles, strips and parts give the same bits (all NaNs count as equal). */
typedef struct rt_gemm {
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, c_row;
	const rt_policy *policy;
	int64_t b_col;
	bool more;          /* used within gemm.c: add to the sums in C, which are those of earlier steps of k */
} rt_gemm;

bool rt_gemm_takes(const rt_gemm *g); /* our kernels can compute it: strides and CPU */
bool rt_gemm_wants(const rt_gemm *g); /* they can, and are faster than oneDNN */
void rt_gemm_run(const rt_gemm *g, const float *a, const float *b, float *c); /* on this thread */

/* f64: each product is rounded, then added in the order of k, which gives the evaluator's bits. */
bool rt_gemm64_takes(const rt_gemm *g);
void rt_gemm64_run(const rt_gemm *g, const double *a, const double *b, double *c); /* on this thread */

/* ---- panels.c: products of f16 and bf16 ---- */
typedef struct rt_panels {
	int64_t rows, cols;     /* size of a panel of C */
	int64_t down, across;   /* number of panels of a product along its rows and columns */
	bool few;               /* A has few rows, and the rows of B are dense: computed by steps of k, see panels.c */
	size_t a, b, bytes;     /* scratch memory of a thread: floats of A, floats of B, bytes in all */
} rt_panels;
rt_panels rt_panels_of(const rt_matmul_desc *d);

#endif
