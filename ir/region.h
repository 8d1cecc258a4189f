/* SPDX-License-Identifier: MIT */
/* region: builds control flow, graphs inside a graph. The recorder, passes that change a region, and tests use it. */
#ifndef TJ_IR_REGION_H
#define TJ_IR_REGION_H

#include "ir/ir.h"

typedef struct ir_frame { /* a graph that nodes are emitted into: the graph itself, or a region that is being built in it */
	struct ir_frame *outer; /* NULL: the graph itself */
	ir_graph *g;
	struct ir_nest *of;     /* the control flow that the region will belong to */
} ir_frame;

typedef struct ir_builder {
	ir_frame top, *at;      /* the graph; the innermost open region. Emit into at->g */
	struct ir_nest *nest, *all; /* nest: the innermost open control flow; all: every one, to be freed */
	rt_arena mem;
} ir_builder;

void ir_build_begin(ir_builder *b, ir_graph *g);
void ir_build_end(ir_builder *b); /* allowed at any time: frees what is still open; the graph stays */
const rt_err *ir_build_error(const ir_builder *b); /* the first error in any of the graphs */

/* A control-flow node: open, then for each region enter ... yield, then close. Operands are values of b->at->g; attr is without
 * the regions (flow.c), all of them. Each of these gives false, or IR_NONE, after an error. */
bool ir_build_open(ir_builder *b, ir_op op, int nsrc, const ir_ref *src, const int64_t *attr, const char *site);
bool ir_build_enter(ir_builder *b);                         /* the next region: b->at is it */
/* in the region: its input of slot k, which stands for an operand that `open` was given */
ir_ref ir_build_input(ir_builder *b, int k, const char *site);
bool ir_build_yield(ir_builder *b, int n, const ir_ref *out); /* the region's outputs, values of b->at->g; b->at is the graph around */
bool ir_build_complete(const ir_builder *b);                /* every region was yielded: the node may be closed */
ir_ref ir_build_close(ir_builder *b);                       /* the node, in b->at->g */

/* Makes a value of frame `home` usable in b->at: gives the value itself, or an input. Every region between the two captures it. */
ir_ref ir_build_use(ir_builder *b, const ir_frame *home, ir_ref r);
/* The gradient of y by `as`, both of b->at, is all of its gradient by w, the value of frame `home` that `as` stands for: y depends on w in
 * no other way, as by a value that was computed from w outside, or by a carry. false also when out of memory: ir_build_error(). */
bool ir_build_whole(const ir_builder *b, ir_ref y, const ir_frame *home, ir_ref w, ir_ref as);
/* Copies all nodes of a region into b->at->g. slot[k]: the value of b->at->g that replaces its input of slot k. Fills map[old] = new
 * (room for region->node.n), so that the caller can yield more values than the old outputs. */
bool ir_build_copy(ir_builder *b, const ir_graph *region, int nslot, const ir_ref *slot, ir_ref *map);

#endif
