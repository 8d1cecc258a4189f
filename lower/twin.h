/* twin: kernels of one plan and the code that they share. Shared by twin.c and lower.c. */
#ifndef TJ_LOWER_TWIN_H
#define TJ_LOWER_TWIN_H

#include "lower/low.h"
#include "lower/symbol.h"

typedef struct lo_twin { /* a kernel of the plan */
	lo_kernel *k;
	lo_schedule *s;
	rt_step *t;
	lo_kin *kin;             /* its form and sizes */
	uint32_t first, next;    /* kernels of its form: the first, and the one after it, or how many kernels there are */
	uint32_t code;           /* the kernel whose code it runs: itself, or an earlier one */
	uint32_t next_code;      /* of those of its form that have code of their own, the one after it, or how many kernels there are */
} lo_twin;

/* Which code each of n kernels runs, with its symbols and their values. t->fn is set where code exists. false: out of
 * memory. Kernels' kin is the caller's to free. */
bool lo_choose_code(lo_low *L, rt_plan *p, lo_twin *w, uint32_t n);
void lo_hold_code(rt_plan *p, rt_code *code); /* the reference becomes the plan's; NULL: none */

#endif
