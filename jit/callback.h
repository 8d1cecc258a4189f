/* SPDX-License-Identifier: MIT */
/* callback: one call of control flow; private to callback.c, transform.c, outside.c and grad.c. */
#ifndef TJ_JIT_CALLBACK_H
#define TJ_JIT_CALLBACK_H

#include "jit/ctx.h"

typedef struct jit_flow { /* a call of tj_cond(), tj_while(), tj_scan(), tj_vmap(), tj_custom_grad() or tj_checkpoint() */
	int op;
	tj_body *f[2];
	void *self;
	tj_list in, xs;          /* cond: in[0] is the predicate */
	int nin, nxs, nout, nys; /* nout: number of results without ys */
	int64_t turns;
	size_t size;             /* of the options that the caller gave; 0: none */
	bool reverse;
	const int *in_axes, *out_axes; /* vmap: as in tj_vmap_opts; NULL: all 0 */
	tj_tensor **out, **ys;
} jit_flow;

static inline int jit_length(tj_list list)
{
	int n = 0;
	while (list && list[n] != TJ_END && n < UINT16_MAX / 2) n++;
	return n;
}

static inline const char *jit_flow_name(int op)
{
	return op == JIT_VMAP ? "vmap" : op == JIT_CUSTOM ? "custom_grad" : op == JIT_CHECKPOINT ? "checkpoint" : ir_ops[op].name;
}

typedef struct jit_op { tj_ctx *c; jit_act *a; const char *site; int op; void *self; } jit_op; /* the call, while it is traced */

typedef struct jit_inside { /* one of its callbacks */
	int which;
	tj_body *f;
	int nin, nplain;         /* number of arguments; those from nplain on are slices along axis 0 */
	const bool *captured;    /* by argument: it is passed as it is; NULL: only numbers are */
	const ir_meta *type;     /* of the arguments from nplain on, which are no slices; NULL: they are slices */
	tj_tensor *const *like;  /* by argument: the tensor or number itself, or the tensor that is sliced */
	int nout;
	const ir_meta *want;     /* types of the first nwant results; the others are not known yet */
	int nwant;
	tj_tensor **out;         /* results; handles in the scope of the callback */
} jit_inside;

/* callback.c */
bool jit_op_fail(const jit_op *w, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5); /* false */
bool jit_op_nomem(const jit_op *w); /* false */
const char *jit_op_site(const jit_op *w, const tj_tensor *t); /* the line that computed a value */
/* the operands of a list; late numbers (RT_LATE) keep their handles */
bool jit_op_admit(const jit_op *w, tj_list list, int n, tj_tensor ***out);
bool jit_op_step(const jit_op *w, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr); /* an event */
/* Traces a callback, from CALLBACK to YIELD. check() compares its results, and may replace them. */
bool jit_op_trace(const jit_op *w, jit_inside *k, bool (*check)(const jit_op *w, jit_inside *k, void *env), void *env);
bool jit_op_give(const jit_op *w, int first, int n, const ir_meta *type, tj_tensor **out); /* an IR_get for results first.. */
tj_status jit_spoil(tj_ctx *c, tj_tensor **out, int n); /* after an error: all results are poison. Returns the status of the error */
bool jit_control(const jit_op *w, const jit_flow *q); /* cond, while, scan */

/* transform.c */
bool jit_vmap(const jit_op *w, const jit_flow *q);
bool jit_custom(const jit_op *w, const jit_flow *q);
bool jit_checkpoint(const jit_op *w, const jit_flow *q);

#endif
