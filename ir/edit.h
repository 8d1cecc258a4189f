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

/* Where an input or a number comes from. kind: as in tj_node_source(); a number may be IR_FROM_NUMBER. */
enum { IR_FROM_NOWHERE, IR_FROM_ARGUMENT, IR_FROM_VARIABLE, IR_FROM_SCALAR, IR_FROM_NUMBER, IR_FROM_OPERAND };
typedef struct ir_source { uint8_t kind; uint32_t index; uint64_t bits; } ir_source; /* bits: of a NUMBER */

/* A graph that a program reads as a whole (jit/graphs.c): numbers whose value is known are constants in it. */
typedef struct ir_reading {
	const ir_source *input, *number; /* by slot */
	uint32_t ninput, nnumber;
	bool (*keeps)(void *self, const tj_node *n); /* a composite stays; false: its parts take its place. NULL: all stay */
	void *self;
	const void *of;       /* what jit/graphs.c knows of the function */
} ir_reading;

struct tj_graph {
	rt_arena mem;
	const ir_graph *from; /* the caller keeps it until ir_edit_free() */
	const ir_reading *reading; /* NULL: a pass has it */
	ir_graph *own;        /* from, if the list has made it */
	struct tj_graph *up, *inside, *beside; /* of a region: the graph that has it. The regions that were asked for, as a list */
	const tj_node *flow;  /* of a region: its node */
	int which;
	tj_node *first, *last, **out;
	int nout;
	rt_err err;           /* the first error of a pass */
	bool changed;         /* a node in use was replaced */
	bool keeps_values;    /* the pass says that no value differs but for rounding */
};

bool ir_edit_begin(tj_graph *g, const ir_graph *from); /* false: out of memory; call ir_edit_free() in any case */
bool ir_edit_read(tj_graph *g, const ir_graph *from, const ir_reading *r); /* the same of a graph that is only read */
bool ir_edit_end(tj_graph *g, ir_graph *to);           /* emits the list into `to` and verifies it; false: see g->err */
void ir_edit_free(tj_graph *g);

#endif
