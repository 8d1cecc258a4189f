/* library: ops that code written beforehand computes, rather than kernels. A target lists the routines that it has; an op without a
 * kernel and without a routine is the evaluator's. */
#ifndef TJ_LOWER_LIBRARY_H
#define TJ_LOWER_LIBRARY_H

#include "lower/low.h"

typedef struct lo_routine {
	ir_op op;
	unsigned bounded;        /* bit RT_..: of that class of dtypes results are only near the evaluator's; of all others they have its bits */
	/* Operand k is taken as it lies in memory; else it gets a row-major buffer. NULL: any strides are taken. */
	bool (*takes)(const lo_low *L, ir_ref r, int k, const lo_access *a);
	bool (*make)(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t); /* operands, self, name; false: out of memory, or L->err */
	rt_routine code;         /* runs the step */
	void (*why)(const rt_step *t, lo_note *n); /* fills other, why and hint */
} lo_routine;

extern const lo_routine lo_matmul, lo_scatter_add;

const lo_routine *lo_routine_of(const lo_target *t, ir_op op); /* NULL: the target has none, or there is no target */
bool lo_takes(const lo_low *L, ir_ref r, int k, const lo_access *a); /* the routine of node r takes operand k as it is */

/* ---- call.c: steps that call C over host buffers ---- */
typedef struct lo_call {
	int device;         /* of the result */
	int64_t bytes;      /* of it */
	ir_op op;
	int which;          /* of several results */
	int nattr, nsrc;
	int64_t *attr;
	ir_value *src;      /* without data */
	ir_eval_opts opts;
	const char *site;
	int rank;           /* of a copy: of the value, and strides of its destination */
	int64_t stride[TJ_MAX_RANK];
} lo_call;
bool lo_put_operands(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t); /* t->self is a lo_call; the operands of the node, then its result */
void lo_call_bind(const lo_call *e, void *const *buf, ir_value *src);    /* src[k]: operand k at buf[k] */
bool lo_put_call(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* the evaluator */
bool lo_put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* of a value into a place with strides */

#endif
