/* SPDX-License-Identifier: MIT */
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
	bool live;            /* the outputs need it; set by ir_edit_end() */
	int nsrc, nattr, uses;
	tj_node **src;
	int64_t *attr;        /* normalised; of an inserted node as given */
	ir_meta meta;
	const char *site;
	ir_ref from, ref;     /* its node in the old graph, in the new one; IR_NONE: none */
	void *bytes;          /* data of an inserted constant */
};

struct tj_graph {
	rt_arena mem;
	const ir_graph *from; /* the caller keeps it until ir_edit_free() */
	tj_node *first, *last, **out;
	int nout;
	rt_err err;           /* the first error of a pass */
	bool changed;         /* a node in use was replaced */
	bool keeps_values;    /* the pass says that no value differs but for rounding */
};

bool ir_edit_begin(tj_graph *g, const ir_graph *from); /* false: out of memory; call ir_edit_free() in any case */
bool ir_edit_end(tj_graph *g, ir_graph *to);           /* emits the list into `to` and verifies it; false: see g->err */
void ir_edit_free(tj_graph *g);

#endif
