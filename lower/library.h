/* SPDX-License-Identifier: MIT */
/* library: ops computed by routines written beforehand instead of by generated kernels. A target lists its routines; the evaluator
 * computes an op that has neither a kernel nor a routine. */
#ifndef TJ_LOWER_LIBRARY_H
#define TJ_LOWER_LIBRARY_H

#include "lower/low.h"

typedef struct lo_routine {
	ir_op op;
	unsigned bounded; /* bits by dtype class (RT_..): set if results are only near the evaluator's; clear if they are equal bit for bit
	                   */
	uint32_t when;           /* kernels compute the op, too: the routine does if the settings have this bit (rt_setting); 0: it always does */
	/* Kernels compute the op, too: why they do so for this node, although the routine could; NULL: the routine does. kernels NULL: as
	 * `when` says */
	const char *(*kernels)(const ir_graph *g, const ir_node *n, uint32_t settings);
	bool epilogues;          /* its step can compute what follows the node, too; make() finds that in lo_step.epilogue */
	int64_t (*workspace)(const lo_low *L,
	                     ir_ref r);   /* bytes that the step of node r gets on its device: lo_step.work; 0, or workspace NULL: none */
	const char *(*lacks)(tj_dtype t); /* why it cannot compute results of this dtype now; NULL: it can. lacks NULL: it computes all dtypes */
	/* true: the routine reads operand k as it lies in memory; false: copy it to a row-major buffer. NULL: it reads any strides. */
	bool (*takes)(const lo_low *L, ir_ref r, int k, const lo_access *a);
	/* Fills t's operands, name, and self; or makes t a kernel of the node's device. false: out of memory, or L->err is set. */
	bool (*make)(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);
	rt_routine code;         /* runs the step, unless that is a kernel */
	void (*why)(const rt_step *t, lo_note *n); /* fills n's other, why and hint */
} lo_routine;

enum { LO_CUMULATES = 5, LO_SCATTERS = 5, LO_CSRS = 3 };
/* of the CPU */
extern const lo_routine lo_matmul, lo_scatter[LO_SCATTERS], /* the first is scatter_add */ lo_cumulate[LO_CUMULATES], lo_sort, lo_topk,
	lo_take_sorted, lo_searchsorted, lo_csr[LO_CSRS];
extern const lo_routine lo_gpu_matmul;             /* of NVIDIA GPUs */

const lo_routine *lo_routine_of(const lo_target *t, ir_op op); /* NULL: the target has none, or there is no target */
/* why its routine does not compute this dtype; NULL: it does, or there is none */
const char *lo_lacks(const lo_target *t, ir_op op, tj_dtype dtype);
/* why kernels compute what a routine could compute; NULL: there is one, and it does */
const char *lo_rather(const lo_target *t, const ir_graph *g, const ir_node *n, uint32_t settings);
bool lo_takes(const lo_low *L, ir_ref r, int k, const lo_access *a); /* the routine of node r takes operand k as it is */

/* ---- matrices.c: the operands of products ---- */
typedef struct lo_product {  /* a [batch..., m, k] times b [batch..., k, n]; strides in elements */
	int64_t m, n, k, a_row, a_col, b_row, b_col;
	int nbatch;              /* batch axes of the result */
	int64_t batch[TJ_MAX_RANK], a_step[TJ_MAX_RANK],
		b_step[TJ_MAX_RANK]; /* their sizes; strides of the operands along them, 0 where one broadcasts */
	rt_at at[3];             /* a, b, the result */
} lo_product;
void lo_product_of(lo_low *L, ir_ref r, lo_product *x); /* matmul r, as its step computes it */
/* Operand r, number k of a product, is a matrix with a leading dimension (rt_leading) as it lies. */
bool lo_matrix_leads(const lo_low *L, ir_ref r, int k, const lo_access *a);

/* ---- epilogue.c: what a call of a library computes of the kernel after it ---- */
typedef enum lo_activation { LO_ACT_NONE, LO_ACT_RELU, LO_ACT_GELU } lo_activation; /* GELU: the tanh form */
typedef struct lo_epilogue { /* activation(product + bias); the step writes it, row-major, to the buffer of the product's node */
	bool exact;              /* strict ops only: the result has the bits of product and kernel, one after the other */
	bool biased;
	rt_at bias;              /* adjacent elements: one for each column of the product, the same for all rows and batches */
	lo_activation activation;
} lo_epilogue;
void lo_join_epilogues(lo_low *L); /* steps are made, not ordered yet */

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
bool lo_takes_row_major(const lo_low *L, ir_ref r, int k, const lo_access *a); /* a `takes`: row-major operands only */
/* t->self: a lo_call; t's operands: the node's, then its result */
bool lo_put_operands(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);
void lo_call_bind(const lo_call *e, void *const *buf, ir_value *src);    /* src[k]: operand k at buf[k] */
bool lo_put_call(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* the evaluator */
bool lo_put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t);   /* copies a value to a destination with strides */

#endif
