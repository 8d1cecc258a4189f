/* library: ops computed by routines written beforehand instead of by generated kernels. A target lists its routines; the evaluator
 * computes an op that has neither a kernel nor a routine. */
#ifndef TJ_LOWER_LIBRARY_H
#define TJ_LOWER_LIBRARY_H

#include "lower/low.h"

typedef struct lo_routine {
	ir_op op;
	unsigned bounded;        /* bits by dtype class (RT_..): set if results are only near the evaluator's; clear if they are equal bit for bit */
	/* true: the routine reads operand k as it lies in memory; false: copy it to a row-major buffer. NULL: it reads any strides. */
	bool (*takes)(const lo_low *L, ir_ref r, int k, const lo_access *a);
	bool (*make)(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t); /* fills t's operands, self, name; false: out of memory, or L->err is set */
	rt_routine code;         /* runs the step */
	void (*why)(const rt_step *t, lo_note *n); /* fills n's other, why and hint */
} lo_routine;

extern const lo_routine lo_matmul, lo_scatter_add;

const lo_routine *lo_routine_of(const lo_target *t, ir_op op); /* NULL: the target has none, or there is no target */
bool lo_takes(const lo_low *L, ir_ref r, int k, const lo_access *a); /* the routine of node r takes operand k as it is */

/* ---- hostcall.c: steps that call C over host buffers ---- */
typedef struct lo_call {
	int device;         /* of the result */
	int64_t bytes;      /* of it */
	ir_op op;
	int which;          /* which result, for ops that have several */
	int nattr, nsrc;
	int64_t *attr;
	ir_value *src;      /* layouts of the operands; data is set when the step runs */
	ir_eval_opts opts;
	const char *site;
	int rank;           /* copies only: rank of the value, and strides of its destination */
	int64_t stride[TJ_MAX_RANK];
} lo_call;
bool lo_put_operands(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t); /* t->self: a lo_call; t's operands: the node's, then its result */
void lo_call_bind(const lo_call *e, void *const *buf, ir_value *src);    /* src[k]: operand k at buf[k] */
bool lo_put_call(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* the evaluator */
bool lo_put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* copies a value to a destination with strides */

#endif
