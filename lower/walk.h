/* SPDX-License-Identifier: MIT */
/* walk: shared by passes that copy a graph (walk.c). */
#ifndef TJ_LOWER_WALK_H
#define TJ_LOWER_WALK_H

#include "lower/low.h"

/* Along axis i: n[i] indices from lo[i] on; between two of them skip[i] are left out. Of one index skip is 0. */
typedef struct lo_box { int64_t lo[TJ_MAX_RANK], n[TJ_MAX_RANK], skip[TJ_MAX_RANK]; } lo_box;
static inline int64_t lo_box_step(const lo_box *b, int i) { return b->skip[i] + 1; }
/* behind its last index */
static inline int64_t lo_box_end(const lo_box *b, int i) { return b->lo[i] + (b->n[i] - 1) * lo_box_step(b, i) + 1; }
static inline void lo_box_axis(lo_box *o, int k, const lo_box *b, int i) /* axis k of o: axis i of b */
{
	o->lo[k] = b->lo[i];
	o->n[k] = b->n[i];
	o->skip[k] = b->skip[i];
}
/* The indices of b along axis i are positions in a slice of positive step; then those of its operand. */
static inline void lo_box_below_slice(lo_box *b, int i, int64_t start, int64_t step)
{
	b->skip[i] = b->n[i] > 1 ? lo_box_step(b, i) * step - 1 : 0;
	b->lo[i] = start + b->lo[i] * step;
}
bool lo_same_box(const lo_box *a, const lo_box *b, int rank);
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

/* a point op that can be computed for any part of its elements: it is no number, and no single element can make it fault */
bool lo_by_element(const ir_graph *g, const ir_node *n);
ir_ref lo_copy(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src); /* ir_copy(), also of one result of an op with several */
/* Emits a part of a node of from that was walked, or is being walked and not whole. */
ir_ref lo_part(lo_walk *w, ir_ref r, const lo_box *b);
ir_ref lo_part_of_point(lo_walk *w, ir_ref r, const lo_box *b); /* also the whole of it, by parts of its operands */
bool lo_flips(const ir_graph *g, const ir_node *flip, int axis); /* the node reverses the axis */
ir_ref lo_slice(lo_walk *w, ir_ref r, const lo_box *b); /* of the whole value */
lo_box lo_whole(const lo_walk *w, ir_ref r);
bool lo_is_whole(const lo_walk *w, ir_ref r, const lo_box *b);
lo_box lo_box_of_operand(const lo_walk *w, ir_ref r, ir_ref x, const lo_box *b); /* of x, which broadcasts to r */

#endif
