/* SPDX-License-Identifier: MIT */
/* fft: decomposition of dft and inverse_dft; private to this folder. */
#ifndef TJ_IR_FFT_H
#define TJ_IR_FFT_H

#include "ir/ir.h"

/* x [..., n, ..., 2], of f32 or f64, along the axis with n elements. inverse: the sign of the exponent is positive; no factor. */
ir_ref ir_fft(ir_graph *g, ir_ref x, int64_t axis, bool inverse, const char *site);

/* roots.c: cos and sin of 2 pi k / n, each within 0.8 ulp, of the same bits everywhere */
typedef struct ir_root { double re, im; } ir_root;
ir_root ir_unit_root(int64_t k, int64_t n);
/* All n of them, by k; rt_alloc'ed; NULL: out of memory. */
ir_root *ir_unit_roots(int64_t n);

#endif
