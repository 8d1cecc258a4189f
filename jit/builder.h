/* SPDX-License-Identifier: MIT */
/* builder: the graph of a path while it is built; private to compile.c and region.c. */
#ifndef TJ_JIT_BUILDER_H
#define TJ_JIT_BUILDER_H

#include "ir/region.h"
#include "jit/trace.h"

typedef struct jit_part { /* an earlier segment whose events are in the graph, for gradients (parts.c) */
	const jit_node *boundary;
	uint32_t n, next;
	uint32_t *number;        /* by number of the part: its slot in the running segment; only of those that are used again */
	jit_node **path;         /* as in jit_builder, as are event and home */
	ir_ref *event;
	ir_frame **home;
	bool *again, *wanted;    /* by event: it is computed again; some GRAD asks for the gradient by it */
	uint32_t *slot;          /* by event: 1 + external of the running segment that is its value; 0: none */
	uint32_t *residual;      /* by event: 1 + index in jit_builder.residual; 0: none */
	int64_t *from;           /* by external: see earlier.h */
	const jit_node **before; /* by external: the BEFORE whose operand it is */
	bool done;
} jit_part;

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
	struct jit_act *whole;   /* the call whose graph a program reads: its arguments and declared variables stay inputs; else NULL */
	rt_pool *pool;           /* of the context that compiles; reads constants */
	const rt_run *run;       /* of that context: a template */
	rt_arena *mem;
	ir_ref made;             /* last node with several results in the graph of `in.at`: closed control flow, or an op */
	struct jit_open *open;   /* the innermost control flow that is not complete; NULL: none */
	bool marked;             /* the graph has marks */
	const char *request;     /* where a GRAD or JVP stands; NULL: there is none */
	bool *wanted, *wanted_ext; /* by event, by slot: some GRAD asks for the gradient by it, so it is marked; NULL: there is no GRAD */
	jit_part *part, *parts;  /* part: the one whose events are being emitted; NULL: those of the segment itself are */
	uint32_t nparts;
	const jit_node **met;    /* by slot: the event that is the first to use the external. Valid when there are parts, as is link */
	ir_ref (*input)(struct jit_builder *b, uint32_t slot); /* the node of an external in b->g; slot is in met */
	int64_t *link;           /* by slot: the value of a part that it is, see earlier.h; 0: none */
	rt_vec(jit_residual) residual; /* candidates; jit_parts_cut() leaves those that the graph reads. Inputs of them come behind nslot */
	const jit_residual *known; /* residuals that come first in this order, nknown of them */
	uint32_t nknown;
	ir_ref *grad;            /* what the last GRAD, JVP, VMAP, CUSTOM or CHECKPOINT gave; NULL when `made` is newer */
} jit_builder;

/* parts.c */
/* a GRAD or JVP: the operands that it asks for are those from *first on, *end excluded */
bool jit_asks(const jit_node *n, int *first, int *end);

/* region.c */
static inline bool jit_is_flow_event(int op) { return (op >= IR_cond && op <= IR_get) || (op >= JIT_CALLBACK && op <= JIT_VMAP); }
bool jit_flow_event(jit_builder *b, const jit_node *n, ir_ref *src); /* src: its operands */
/* y depends on w by an example of an open tj_vmap(), which is a tensor of its own for gradients */
bool jit_by_example(const jit_builder *b, ir_ref y, ir_ref w);

#endif
