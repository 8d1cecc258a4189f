/* build: the graph of a path under way; private to build.c and region.c. */
#ifndef TJ_JIT_BUILD_H
#define TJ_JIT_BUILD_H

#include "ir/region.h"
#include "jit/jit.h"

typedef struct jit_builder {
	ir_graph g;
	ir_builder in;           /* where events go: the graph, or the region of a callback */
	jit_node **path;         /* by event number */
	ir_ref *event;           /* the value of each event ... */
	ir_frame **home;         /* ... in the graph of this frame */
	ir_ref *ext;             /* by slot; IR_NONE until met */
	const jit_bound *bound;  /* by slot: the call that is compiled for; NULL: nothing is folded */
	rt_pool *pool;           /* of the context that compiles: by it constants are read */
	rt_arena *mem;
	ir_ref made;             /* the last node with several results, in the graph of `in.at`: control flow that was closed, or an op */
} jit_builder;

/* build.c */
ir_ref jit_operand_of(jit_builder *b, const jit_node *n, jit_ref r); /* in the graph of b->in.at */

/* region.c */
static inline bool jit_is_flow_event(int op) { return (op >= IR_cond && op <= IR_get) || (op >= JIT_CALLBACK && op <= JIT_YIELD); }
bool jit_flow_event(jit_builder *b, const jit_node *n);

#endif
