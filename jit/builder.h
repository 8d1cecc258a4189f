/* builder: the graph of a path while it is built; private to compile.c and region.c. */
#ifndef TJ_JIT_BUILDER_H
#define TJ_JIT_BUILDER_H

#include "ir/region.h"
#include "jit/trace.h"

typedef struct jit_builder {
	ir_graph g;
	ir_builder in;           /* adds nodes to the graph or to the region of a callback */
	jit_node **path;         /* by event number */
	ir_ref *event;           /* by event: its value, */
	ir_frame **home;         /* by event: the frame in whose graph that value is */
	ir_ref *ext;             /* by slot: its node; IR_NONE until it is used */
	struct lo_content *content; /* by slot: of constants that stay operands */
	uint32_t nslot;
	const struct jit_bound *bound;  /* by slot: externals of the current call, to fold constants; NULL: no folding */
	rt_pool *pool;           /* of the context that compiles; reads constants */
	rt_arena *mem;
	ir_ref made;             /* last node with several results in the graph of `in.at`: closed control flow, or an op */
	struct jit_open *open;   /* the innermost control flow that is not complete; NULL: none */
	bool marked;             /* the graph has marks */
	bool *wanted, *wanted_ext; /* by event, by slot: some GRAD asks for the gradient by it, so it is marked; NULL: there is no GRAD */
	ir_ref *grad;            /* what the last GRAD, JVP, VMAP, CUSTOM or CHECKPOINT gave; NULL when `made` is newer */
} jit_builder;

/* region.c */
static inline bool jit_is_flow_event(int op) { return (op >= IR_cond && op <= IR_get) || (op >= JIT_CALLBACK && op <= JIT_VMAP); }
bool jit_flow_event(jit_builder *b, const jit_node *n, ir_ref *src); /* src: its operands */

#endif
