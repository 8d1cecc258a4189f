/* SPDX-License-Identifier: MIT */
/* matmul: products of f32 by oneDNN's dnnl_sgemm, for contexts whose settings prefer it. Kernels compute all other products of the CPU. */
#ifndef TJ_RUNTIME_MATMUL_H
#define TJ_RUNTIME_MATMUL_H

#include "runtime/exec.h"

/* C[b] = A[b] B[b] for b in batches. Strides in elements. */
typedef struct rt_matmul_desc {
	int64_t m, n, k, batch;
	int64_t a_row, a_col;    /* of A[m,k]; one of them is 1 */
	int64_t b_row, b_col;    /* of B[k,n]; one of them is 1 */
	int64_t c_row;           /* of C[m,n]; columns are adjacent */
	const int64_t *a_batch, *b_batch, *c_batch; /* element offset of each batch, or NULL when batch == 1 */
	const char *of;          /* name of the function that it is part of, for the log; copied */
} rt_matmul_desc;
typedef struct rt_matmul rt_matmul;

/* ---- matmul.c: with a team ---- */
rt_matmul *rt_matmul_new(const rt_matmul_desc *d, rt_err *err);
void rt_matmul_free(rt_matmul *m);
tj_status rt_matmul_run(const rt_matmul *m, const float *a, const float *b, float *c, rt_run *r);

/* ---- onednn.c: on one thread ---- */
bool rt_onednn(void);                                   /* is oneDNN available? The first call opens it */
const char *rt_onednn_version(void);                    /* "2.6.3"; NULL: it is not available, or does not say */
/* one batch, between begin and end; false: out of memory */
bool rt_onednn_run(const rt_matmul_desc *d, const float *a, const float *b, float *c);
int rt_onednn_begin(void);                              /* until end, oneDNN computes on the calling thread alone */
void rt_onednn_end(int before);                         /* before: the result of begin */

#endif
