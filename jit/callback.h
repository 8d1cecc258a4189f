/* callback: one call of control flow; private to callback.c and outside.c. */
#ifndef TJ_JIT_CALLBACK_H
#define TJ_JIT_CALLBACK_H

#include "jit/trace.h"

typedef struct jit_flow { /* a call of tj_cond(), tj_while(), tj_scan(), tj_vmap() or tj_custom_grad() */
	int op;
	tj_body *f[2];
	void *self;
	tj_list in, xs;          /* cond: in[0] is the predicate */
	int nin, nxs, nout, nys; /* nout: number of results without ys */
	int64_t turns;
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

static inline const char *jit_flow_name(int op) { return op == JIT_VMAP ? "vmap" : op == JIT_CUSTOM ? "custom_grad" : ir_ops[op].name; }

/* callback.c */
tj_status jit_spoil(tj_ctx *c, tj_tensor **out, int n); /* after an error: all results are poison. Returns the status of the error */
tj_status jit_flow_run(tj_ctx *c, const char *site, const jit_flow *q); /* in a body; the activation of c runs */

#endif
