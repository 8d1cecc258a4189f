/* SPDX-License-Identifier: MIT */
/* vmap: what the files of the batch transform share. Private to this folder. */
#ifndef TJ_IR_VMAP_H
#define TJ_IR_VMAP_H

#include "ir/ir.h"

/* Where a result of control flow that was made for all examples has them: nowhere, on axis 0, on axis 1 (the turns of a scan come first).
 */
enum { VM_SAME, VM_FRONT, VM_SECOND };

typedef struct vm_seen {
	ir_ref to;               /* the value for all examples, if it is batched; else the node itself */
	ir_ref as;               /* the decomposition, whose value it has; IR_NONE: none */
	uint8_t state;
	bool batched;            /* depends on the examples: axis 0 of `to` counts them */
	uint8_t *get;            /* of control flow that was made again, by result: VM_SAME and its like; NULL: any other node */
	ir_ref *select;          /* of a cond that was replaced by selects, by result; NULL: any other node */
} vm_seen;

typedef struct vm_map {
	ir_graph *g;
	int64_t n;               /* examples */
	rt_vec(vm_seen) at;      /* by node */
	rt_vec(ir_ref) open;
	rt_arena mem;
	const char *site;
} vm_map;

/* r, of type m, for all n examples: a batched one is that. */
ir_ref vm_whole(ir_graph *g, int64_t n, ir_ref r, bool batched, const ir_meta *m, const char *site);
bool vm_fail(vm_map *v, tj_status code, const char *op, const char *site, const char *what); /* false */

/* ---- vmapflow.c ---- */
/* Control flow node r, some of whose operands are batched; x: by operand, vm_seen.to. Gives the new node, and fills get by result. */
ir_ref vm_flow(vm_map *v, ir_ref r, const ir_ref *x, const bool *batched, uint8_t *get);
/* For a cond that goes another way for each example: result[i], from values of one example. */
bool vm_select(vm_map *v, ir_ref r, ir_ref *result);

#endif
