/* SPDX-License-Identifier: MIT */
/* compile: from a path of the trace to a plan; the comparison with the evaluator. */
#ifndef TJ_JIT_COMPILE_H
#define TJ_JIT_COMPILE_H

#include "jit/segment.h"

/* compile.c */
/* want: event numbers and names of the values to compute. ext: externals whose constants may be folded. */
jit_plan *jit_build(const jit_act *a, jit_node *boundary, const uint32_t *want, uint32_t nwant, const jit_bound *ext, rt_err *err);
bool jit_graph(ir_graph *g, jit_node *boundary, const jit_plan *p); /* builds the graph of the plan; the caller frees g */
/* The graph of a call of one segment that ends in `end`, a RETURN; the caller frees g, also after an error. Its outputs are what is
 * returned, then the new contents of the cells assigned[0..*nassigned), which are numbers of cells of the segment (room for all). */
bool jit_graph_of_call(ir_graph *g, jit_act *a, jit_node *end, uint32_t *assigned, uint32_t *nassigned, rt_err *err);
bool jit_inner_layout(const jit_act *a, jit_node *boundary, const jit_inner *v, const rt_layout **out, rt_err *err); /* a new reference */

/* passes.c */
typedef struct jit_derived { /* gradients of a graph: passes must keep the values that they are of */
	const char *site;         /* of a request; NULL: there is none */
	bool earlier;             /* some go through earlier segments */
} jit_derived;
/* The passes, then the back end of the user; *g is replaced. *x NULL: none took the graph, and the back end of the context lowers it. */
bool jit_run_user(tj_fn *f, const jit_derived *grads, ir_graph *g, rt_exec **x, rt_err *err);

/* audit.c */
/* true: equal bits, where all NaNs are equal; got and want are row-major. */
bool jit_audit_values(tj_dtype t, int64_t n, const void *got, const void *want, const char *what, rt_err *err);
bool jit_audit_due(const jit_act *a, const jit_plan *p); /* TJ_AUDIT: the values of this run must be compared */
/* false: a value differs from that of the evaluator; the error is reported */
bool jit_audit(tj_ctx *c, const jit_done *d, const jit_inputs *in, void *const *data);

#endif
