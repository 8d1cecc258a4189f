/* SPDX-License-Identifier: MIT */
/* settings: what a user allows products and other library calls to do. One word, so that it can be a part of keys; 0: the default. */
#ifndef TJ_RUNTIME_SETTINGS_H
#define TJ_RUNTIME_SETTINGS_H

#include "runtime/base.h"

typedef enum rt_setting {
	RT_ALLOW_TF32 = 1,             /* GPU products may round operands of f32 to TF32 */
	RT_ALLOW_REDUCED = 2,          /* GPU products of f16 and bf16 may round partial sums to the dtype */
	RT_ALLOW_NONDETERMINISTIC = 4, /* a library may sum in an order that changes from run to run */
	RT_NO_SPLIT_SUMS = 32,         /* GPU products may not split sums into parts */
	RT_AUTOTUNE = 64,              /* the first run of a GPU product times several algorithms */
	RT_NO_EPILOGUES = 128,         /* GPU products compute no bias and no activation */
	RT_PRODUCTS_OWN = 8, RT_PRODUCTS_LIBRARY = 16, /* who computes products, if it can; neither: on the CPU like OWN */
	RT_ATTENTION_MATH = 256, RT_ATTENTION_FUSED = 512, RT_ATTENTION_LIBRARY = 1024 /* how attention is written; none: by its size */
} rt_setting;

#endif
