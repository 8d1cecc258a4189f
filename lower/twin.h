/* SPDX-License-Identifier: MIT */
/* twin: kernels of one plan and the code that they share. Shared by twin.c and lower.c. */
#ifndef TJ_LOWER_TWIN_H
#define TJ_LOWER_TWIN_H

#include "lower/low.h"
#include "lower/symbol.h"

typedef struct lo_twin { /* a kernel of the plan */
	lo_kernel *k;
	lo_schedule *s;
	rt_step *t;
	lo_step *of;             /* the step of lowering that it is; NULL: none */
	lo_kin *kin;             /* its form and sizes */
	uint32_t first, next;    /* kernels of its form: the first one; the next one after this, or the number of kernels */
	uint32_t code;           /* the kernel whose code it runs: itself, or an earlier one */
	uint32_t next_code;      /* the next kernel of its form that has code of its own, or the number of kernels */
} lo_twin;

/* Chooses the code that each of n kernels runs, its symbols and their values. Sets t->fn where code exists. The caller
 * frees each kin. false: out of memory. */
bool lo_choose_code(lo_low *L, rt_plan *p, lo_twin *w, uint32_t n);

#endif
