/* SPDX-License-Identifier: MIT */
/* extremes: cummax and cummin of floats with AVX2. cumulate.c uses it. */
#ifndef TJ_LOWER_EXTREMES_H
#define TJ_LOWER_EXTREMES_H

#include "runtime/base.h"

/* Lines of n elements, `step` apart, of x, a and y; line l begins at at[l]. */
typedef void lo_side_fn(const void *x, const void *a, void *y, const int64_t *at, int lines, int64_t n, int64_t step);
/* The same for lines that begin at x, a, y and right behind them, a multiple of 64. before: what is added to each; NULL: nothing. */
typedef void lo_beside_fn(const void *x, const void *a, const void *before, void *y, int lines, int64_t n, int64_t step);
typedef struct lo_extremes {
	lo_beside_fn *beside; /* reads x alone */
	lo_side_fn *side;     /* the same; step is 1 */
} lo_extremes;
const lo_extremes *lo_extremes_of(tj_dtype t, bool least); /* NULL: there are none of that dtype, or for this CPU */

#endif
