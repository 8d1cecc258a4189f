/* edit: the list form of a graph that passes of users see (tj_graph in tj.h). */
#ifndef TJ_IR_EDIT_H
#define TJ_IR_EDIT_H

#include "ir/ir.h"

struct tj_node {
	tj_graph *g;
	tj_node *prev, *next;
	uint16_t op;
	uint8_t mode;         /* as in ir_node */
	bool erased;
	bool live;            /* the outputs need it; found when the list is given back */
	int nsrc, nattr, uses;
	tj_node **src;
	int64_t *attr;        /* normalised, or as an insert gave them */
	ir_meta meta;
	const char *site;
	ir_ref from, ref;     /* the node it was, the node it becomes; IR_NONE */
	void *bytes;          /* of an inserted constant */
};

struct tj_graph {
	rt_arena mem;
	const ir_graph *from; /* kept by the caller until the end */
	tj_node *first, *last, **out;
	int nout;
	rt_err err;           /* a pass's first mistake */
};

bool ir_edit_begin(tj_graph *g, const ir_graph *from); /* false: out of memory; free in any case */
bool ir_edit_end(tj_graph *g, ir_graph *to);           /* emits into `to`, verified; false: g->err */
void ir_edit_free(tj_graph *g);

#endif
