/* SPDX-License-Identifier: MIT */
/* loops: the cases of loops.c: functions that one would otherwise write as loops in C. */
#ifndef TJ_BENCH_LOOPS_H
#define TJ_BENCH_LOOPS_H

#include "bench/bench.h"

enum { LOOP_IN = 3, LOOP_OUT = 2, LOOP_SIZES = 2, LOOP_BINS = 1000 };

typedef struct loop_args {
	const int64_t *p;          /* the sizes of the case: n, m */
	const void *const *in;
	void *const *out;
	float *tmp;                /* 3 n m elements, allocated beforehand */
} loop_args;

typedef struct loop_case {
	const char *name;
	const char *shapes;        /* "f[n,3] f[n,3] -> f[n]": dtypes by letter (loops.c), then sizes: n, m or a number */
	tj_body *body;             /* self: the sizes */
	void (*hand)(const loop_args *a);
	int64_t full[LOOP_SIZES], small[LOOP_SIZES]; /* small: for tests */
	double tolerance;          /* largest |ours - hand| / (1 + |hand|); of integers: largest difference */
} loop_case;
extern const loop_case loop_cases[];
extern const int loop_count;

/* ---- loophand.c: compiled like hand.c ---- */
/* clang-format off */
#define LOOP_HANDS(X) \
	X(dots3) X(affine3) X(normals3) X(quats) X(mats4) X(nearest8) \
	X(grey) X(blend) X(planes) X(edges) X(equalise) \
	X(wave) X(grayscott) X(heat3) X(life) X(upwind) \
	X(fir32) X(gain16) X(midside) X(haar) X(cmul) \
	X(lut8) X(palette) X(lerp_table) X(hist8) X(groupby) \
	X(nbody) X(nbody_pow) X(lennard) X(drift) \
	X(blackscholes) X(blackscholes64) X(bonds) X(bars) X(volatility) \
	X(utf8) X(upper) X(sad) X(hex) X(mask)
/* clang-format on */
#define X(name) void loop_##name(const loop_args *a);
LOOP_HANDS(X)
#undef X

#endif
