/* SPDX-License-Identifier: MIT */
/* walk: shared by passes that copy a graph (walk.c). */
#ifndef TJ_LOWER_WALK_H
#define TJ_LOWER_WALK_H

#include "lower/low.h"

typedef struct lo_box { int64_t lo[TJ_MAX_RANK], n[TJ_MAX_RANK]; } lo_box; /* along axis i: n[i] indices from lo[i] on */
typedef struct lo_made { ir_ref part; int32_t next; lo_box box; } lo_made; /* next: of the same value; -1 ends the list */

typedef struct lo_walk {
	const ir_graph *from;
	ir_graph *to;
	void *env;
	ir_ref (*walk)(void *env, ir_ref r, ir_ref *src);  /* emits node r of from, whose operands are src in to */
	bool (*own)(void *env, ir_ref r, const lo_box *b, ir_ref *part); /* makes a part in a way of its own; may be NULL */
	/* private to walk.c */
	ir_ref *map;         /* by node of from: the whole value; IR_NONE: not emitted yet, or not needed */
	int32_t *first;      /* by node of from: its first part in made; -1: none */
	rt_vec(lo_made) made;
} lo_walk;

tj_status lo_walk_graph(lo_walk *w, rt_err *err); /* copies the graph, node by node */

bool lo_by_element(const ir_node *n); /* a point op that can be computed for any part of its elements: it cannot fault, and is no number */
ir_ref lo_copy(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src); /* ir_copy(), also of one result of an op with several */
/* Emits a part of a node of from that was walked, or is being walked and not whole. */
ir_ref lo_part(lo_walk *w, ir_ref r, const lo_box *b);
ir_ref lo_part_of_point(lo_walk *w, ir_ref r, const lo_box *b); /* also the whole of it, by parts of its operands */
bool lo_flips(const ir_graph *g, const ir_node *flip, int axis); /* the node reverses the axis */
ir_ref lo_slice(lo_walk *w, ir_ref r, const lo_box *b); /* of the whole value */
lo_box lo_whole(const lo_walk *w, ir_ref r);
lo_box lo_box_of_operand(const lo_walk *w, ir_ref r, ir_ref x, const lo_box *b); /* of x, which broadcasts to r */

#endif
