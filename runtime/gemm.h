/* gemm: products by kernels of ours: f32 of few rows and of small sizes, where a library call does not pay, and all of f64. */
#ifndef TJ_RUNTIME_GEMM_H
#define TJ_RUNTIME_GEMM_H

#include "runtime/exec.h"
#include "runtime/policy.h"

/* C[m,n] = A[m,k] B[k,n]: any strides of A and B, adjacent columns of C. Tiles of f32 take adjacent columns of B only. Each element is one chain of fused multiply-adds
 * in the order of k, so its bits (NaNs count as one) depend neither on tiles and strips nor on how columns are shared out. */
typedef struct rt_gemm {
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, c_row;
	const rt_policy *policy;
	int64_t b_col;
	bool more;          /* within gemm.c: C holds the sums of earlier steps of k */
} rt_gemm;

bool rt_gemm_takes(const rt_gemm *g); /* the strides fit and this CPU has the instructions */
bool rt_gemm_wants(const rt_gemm *g); /* and we are faster than oneDNN */
void rt_gemm_run(const rt_gemm *g, const float *a, const float *b, float *c); /* on this thread */

/* f64, any strides of A and B. Each product is rounded, then added in the order of k: the evaluator's bits. */
bool rt_gemm64_takes(const rt_gemm *g);
void rt_gemm64_run(const rt_gemm *g, const double *a, const double *b, double *c); /* on this thread */

/* ---- panels.c: products of f16 and bf16 ---- */
typedef struct rt_panels {
	int64_t rows, cols;     /* of C to a panel */
	int64_t down, across;   /* panels of a product */
	bool few;               /* rows of A, and those of B are dense: by steps of k, see panels.c */
	size_t a, b, bytes;     /* of a thread's scratch memory: floats of A and of B, bytes in all */
} rt_panels;
rt_panels rt_panels_of(const rt_matmul_desc *d);

#endif
