/* gemm: products by kernels of ours: f32 of few rows and of small sizes, where a library call does not pay, and all of f64. */
#ifndef TJ_RUNTIME_GEMM_H
#define TJ_RUNTIME_GEMM_H

#include "runtime/exec.h"

/* C[m,n] = A[m,k] B[k,n]: any strides of A, adjacent columns of B and C. Each element is one chain of fused multiply-adds
 * in the order of k, so its bits (NaNs count as one) depend neither on tiles and strips nor on how columns are shared out. */
typedef struct rt_gemm {
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, c_row;
	int most_bits;      /* of a vector; 0: what the CPU has */
	int64_t near_bytes; /* of B, from where strips start; 0: as measured */
	int64_t b_col;      /* f64 */
	bool more;          /* within gemm.c: C holds the sums of earlier steps of k */
} rt_gemm;

bool rt_gemm_takes(const rt_gemm *g, int64_t b_col); /* the strides fit and this CPU has the instructions */
bool rt_gemm_wants(const rt_gemm *g, int64_t b_col); /* and we are faster than oneDNN */
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
typedef bool rt_panel_fn(const rt_gemm *g, const float *a, const float *b, float *c); /* b_col counts; false: it failed */
/* The panels begin..end-1 of all products, batch after batch. transposes: the product takes a B whose rows have unit stride. */
bool rt_panels_run(const rt_matmul_desc *d, const rt_panels *p, const void *a, const void *b, void *c, float *scratch, bool transposes, rt_panel_fn *product,
                   int64_t begin, int64_t end);

#endif
