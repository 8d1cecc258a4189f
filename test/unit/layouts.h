/* SPDX-License-Identifier: MIT */
/* Products of operands that lie in many ways: LAYOUTS results, for tests of libraries and of kernels. */
#ifndef TJ_TEST_LAYOUTS_H
#define TJ_TEST_LAYOUTS_H

#include "test/kit.h"

enum { LAYOUTS = 21 };

static inline void layouts_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = in[0], *b = in[1]; /* [4,6,8] and [4,8,6] */
	tj_tensor *a0 = tj_reshape(tj_slice(a, 0, 0, 1, 1), TJ_SHAPE(6, 8)), *b0 = tj_reshape(tj_slice(b, 0, 1, 2, 1), TJ_SHAPE(8, 6));
	tj_tensor *v = tj_reshape(tj_slice(a0, 0, 1, 2, 1), TJ_SHAPE(8)), *a4 = tj_reshape(a, TJ_SHAPE(2, 2, 6, 8));
	(void)self;
	out[0] = tj_matmul(a, b);
	out[1] = tj_matmul(a, b0); /* batches of a as rows */
	out[2] = tj_matmul(a0, b);
	out[3] = tj_matmul(tj_transpose(b, 1, 2), tj_transpose(a, 1, 2));
	out[4] = tj_matmul(tj_slice(a, 2, 2, 8, 1), tj_slice(b, 1, 2, 8, 1));
	out[5] = tj_matmul(tj_slice(a, 1, 0, 6, 2), b);
	out[6] = tj_matmul(tj_slice(a, 2, 0, 8, 2), tj_slice(b, 1, 0, 8, 2)); /* no unit stride: a is copied */
	out[7] = tj_matmul(tj_flip(a, TJ_AXES(0)), b);                        /* a step of the batch below 0 */
	out[8] = tj_matmul(tj_unsqueeze(a, 1), tj_unsqueeze(b, 0));           /* [4,4,6,6]: a loop of batches */
	out[9] = tj_matmul(v, b);
	out[10] = tj_matmul(a, v);
	out[11] = tj_matmul(v, v);
	out[12] = tj_matmul(tj_flip(a, TJ_AXES(2)), b);
	out[13] = tj_matmul(tj_expand(a0, TJ_SHAPE(4, 6, 8)), tj_transpose(tj_transpose(b, 0, 1), 0, 1));
	out[14] = tj_matmul(tj_permute(a, TJ_AXES(1, 0, 2)), b0);
	out[15] = tj_matmul(tj_neg(a), tj_relu(tj_neg(b)));
	out[16] = tj_matmul(tj_reshape(a, TJ_SHAPE(2, 1, 2, 1, 6, 8)), tj_reshape(b, TJ_SHAPE(1, 2, 1, 2, 8, 6))); /* three loops of batches */
	out[17] = tj_matmul(tj_permute(a4, TJ_AXES(1, 0, 2, 3)), b0);                                             /* batches in another order */
	out[18] = tj_matmul(tj_expand(tj_unsqueeze(v, 0), TJ_SHAPE(6, 8)), b);                                    /* one row for all rows */
	out[19] = tj_matmul(a, tj_expand(tj_unsqueeze(v, 1), TJ_SHAPE(8, 5)));
	out[20] = tj_transpose(tj_matmul(a0, b0), 0, 1);
}

#endif
