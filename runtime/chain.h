/* SPDX-License-Identifier: MIT */
/* chain: a plain matrix product on the calling thread. It defines the bits of all products: the evaluator uses it, and compiled
 * products must give the same bits. */
#ifndef TJ_RUNTIME_CHAIN_H
#define TJ_RUNTIME_CHAIN_H

#include "runtime/base.h"

#define RT_CHAIN 256 /* indices of k in a chunk */

/* C[m,n] = A[m,k] B[k,n]. An element of C is the sum of its chunks, added in order: chunk 0, + chunk 1, + ...; each chunk is
 *
 *   sum = 0, then for each k of the chunk, in order: sum = fma(a[k], b[k], sum)
 *
 * in f32 for f32, f16 and bf16 (the total is rounded once to the dtype), in f64 for f64. Integers wrap. k = 0 gives 0. */
typedef struct rt_chain {
	tj_dtype dtype;      /* any but bool */
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col, c_row, c_col; /* strides in elements: any */
} rt_chain;

/* a, b, c: the elements with index 0; c overlaps no operand. Allocates nothing; takes 24 KiB of the stack. */
void rt_chain_run(const rt_chain *x, const void *a, const void *b, void *c);

#endif
