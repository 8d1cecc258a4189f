/* SPDX-License-Identifier: MIT */
/* fuzz_layers: a machine that runs a random program, what its functions draw, and the table of functions. */
#ifndef TJ_TEST_FUZZ_LAYERS_H
#define TJ_TEST_FUZZ_LAYERS_H

#include "test/fuzz.h"

#include <tj.h>

enum { LAYER_SIZES = 4, LAYER_OPERANDS = 48, LAYER_VALUES = 24, LAYER_GRADS = 4 };

struct program;
typedef struct machine {
	struct program *p;
	tj_ctx *c;
	tj_fn *f;                     /* NULL: it calls the functions one by one */
	const char *name;
	gen dice;                     /* of the present step: only draws */
	tj_tensor *value[LAYER_VALUES], *own[LAYER_OPERANDS]; /* own: the operands, in its context */
	tj_tensor *size[LAYER_SIZES]; /* of the program, as numbers */
	tj_tensor *const *in;         /* NULL: operands are not arguments */
	tj_tensor *wrt[LAYER_GRADS + 1]; /* arguments that gradients are asked for */
	int nvalue, nwrt, next;             /* next: the number of the operand that is drawn next */
	bool makes;                   /* new operands are made as they are drawn; else they are there */
	bool lost;                    /* drew another operand than the machine that made them */
} machine;

typedef struct layer_row {
	const char *name;
	tj_tensor *(*call)(machine *m, tj_tensor *x);
	int least, most;              /* ranks of x; most -1: it takes no tensor */
	unsigned dtypes;              /* of x, a bit for each */
} layer_row;
extern const layer_row layer_rows[];
extern const int layer_row_count;

typedef struct wanted {
	tj_dtype dtype;
	tj_dims shape;
	gen_content content;
	int64_t lo, hi;               /* of GEN_INDEX */
	bool cell;
} wanted;
tj_tensor *layer_operand(machine *m, wanted w);            /* a tensor that no step computes */
tj_tensor *layer_of(machine *m, tj_dtype t, tj_dims shape); /* fuzz_calls.c: one with any content */
int64_t layer_size(machine *m);                            /* one of the sizes of the program */
void layer_also(machine *m, tj_tensor *y);                 /* a further result of the step */

#endif
