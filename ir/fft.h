/* SPDX-License-Identifier: MIT */
/* fft: decompositions of the discrete Fourier transforms; private to this folder. */
#ifndef TJ_IR_FFT_H
#define TJ_IR_FFT_H

#include "ir/ir.h"

/* ---- fft.c ---- */
/* x [..., n, ..., 2], of f32 or f64, along the axis with n elements. inverse: the sign of the exponent is positive; no factor. */
ir_ref ir_fft(ir_graph *g, ir_ref x, int64_t axis, bool inverse, const char *site);

typedef struct ir_pair { ir_ref re, im; } ir_pair; /* both parts, [outer, n inner] */
typedef struct ir_fourier {
	ir_graph *g;
	const char *site;
	tj_dtype t;
	ir_ref like;             /* whose device has the tables */
	double sign;             /* of the exponent */
	int64_t outer, n, inner; /* axes in front of the transformed one, it, and those behind it */
	bool oom;
} ir_fourier;
ir_fourier ir_fourier_of(ir_graph *g, ir_ref x, int rank, int64_t axis, const char *site); /* of the first `rank` axes of x */
ir_pair ir_fft_parts(ir_fourier *F, ir_pair x);
/* A constant of these sizes; value(env, i): its element i. */
ir_ref ir_fft_table(ir_fourier *F, int rank, const int64_t *dim, double (*value)(const void *env, int64_t i), const void *env);

/* ---- rfft.c: of real numbers ---- */
ir_ref ir_rfft(ir_graph *g, ir_ref x, int64_t axis, const char *site); /* n real numbers to n / 2 + 1 pairs */
ir_ref ir_irfft(ir_graph *g, ir_ref x, int64_t axis, int64_t n, const char *site); /* back, n times as large */
/* [n / 2 + 1, 1 ..., 1] with `rank` axes: `inner` but for the first element, and the last one of an even n, which are 1. */
ir_ref ir_rfft_weights(ir_graph *g, ir_ref like, int rank, int64_t n, double inner, const char *site);

/* ---- roots.c: cos and sin of 2 pi k / n, each within 0.8 ulp, of the same bits everywhere ---- */
typedef struct ir_root { double re, im; } ir_root;
ir_root ir_unit_root(int64_t k, int64_t n);
/* All n of them, by k; rt_alloc'ed; NULL: out of memory. */
ir_root *ir_unit_roots(int64_t n);

#endif
