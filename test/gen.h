/* SPDX-License-Identifier: MIT */
/* gen: shared by the op matrix and the fuzzer. Makes operands of any layout and content, applies ops to them with random
 * attributes, runs a graph on an executor, and compares the results with those of the evaluator. */
#ifndef TJ_TEST_GEN_H
#define TJ_TEST_GEN_H

#include "ir/ir.h"
#include "lower/target.h"

typedef enum gen_layout {
	GEN_ROW, GEN_TRANSPOSED, GEN_STEP2, GEN_NEGATIVE, GEN_OFFSET1, GEN_EXPANDED, GEN_ODD1, GEN_LAYOUTS
} gen_layout;
extern const char *const gen_layout_name[GEN_LAYOUTS];

/* The content of an operand. GEN_FIRST, GEN_LAST: one special value, as the first or last element. GEN_SPARSE: one in 300 is special.
 * GEN_TINY: products of two elements are subnormal. */
typedef enum gen_content {
	GEN_PLAIN, GEN_SPECIAL, GEN_FIRST, GEN_LAST, GEN_NEGZERO, GEN_INTS, GEN_CONTENTS, GEN_NONZERO, GEN_INDEX, GEN_SPARSE, GEN_TINY
} gen_content;

/* Where an operand or a result lies. AT_END: its last byte is the last one before a page that cannot be accessed; AT_START: its first byte
 * is the first one behind such a page. ANYWHERE: operands at the end or aligned, results between margins. */
typedef enum gen_place { GEN_ANYWHERE, GEN_AT_END, GEN_AT_START } gen_place;

typedef struct gen_slot { /* an external */
	ir_meta meta;
	int64_t stride[TJ_MAX_RANK];
	void *data;           /* element 0 of the view */
	void *map;            /* its mapping; ends with a page that cannot be read, so that reads beyond the end fault */
	size_t mapped;
	gen_content content;
	int64_t lo, hi;       /* of GEN_INDEX */
} gen_slot;

typedef enum gen_num_kind { GEN_INTEGER, GEN_DIVISOR, GEN_PLACE, GEN_FLOAT, GEN_FIXED } gen_num_kind;
typedef struct gen_num {  /* values that a number may have: any integer; any but 0; 0..hi; any float; always the same */
	gen_num_kind kind;
	int64_t hi;
} gen_num;

typedef struct gen_step { /* an op as a body would call it */
	ir_op op;
	int nsrc, nattr;
	ir_ref src[8];
	int64_t attr[3 * TJ_MAX_RANK];
	ir_ref result, raw;   /* its node in g, and in the graph that is not simplified */
	uint32_t want;        /* of an op with several results: a bit for each that is used. A step IR_get follows for each */
} gen_step;

typedef struct gen {
	ir_graph *g, raw;     /* raw: the same graph, not simplified */
	rt_vec(ir_ref) raw_of; /* by node of g: its node in raw */
	uint64_t rng;
	rt_vec(gen_slot) slot;
	rt_vec(uint64_t) num; /* bits, by slot */
	rt_vec(gen_num) num_of;
	rt_vec(gen_step) step;
	int device;           /* a second device for operands and results; RT_CPU: none */
	int layout, content;  /* of new operands; -1: any */
	gen_place place;      /* of new operands */
	int64_t most;         /* most elements of a result; 0: no limit */
	bool lib_f32;         /* matmul is allowed where a library computes it */
	bool numbers;         /* operands may be run-time numbers and constants */
	int spread;           /* percentage of new operands that are one element, expanded to their shape */
	tj_dtype rare;        /* most dtypes that are drawn are this one; TJ_BOOL: none is preferred */
	bool zeros;           /* integer divisions by zero are allowed, with the result 0 */
	uint32_t want;        /* of an op with several results: a bit for each that is used; 0: random ones */
	ir_ref also[IR_MOST_RESULTS]; /* the nalso other results of the last op, without the one that gen_op() returned */
	int nalso;
	char site[32];        /* copy of the site of the last fault: its plan was freed */
	rt_vec(ir_ref) value; /* values that operands are chosen from; empty: operands are always new */
} gen;

uint64_t gen_next(gen *G);
int64_t gen_below(gen *G, int64_t n);                 /* 0 <= r < n */
bool gen_chance(gen *G, int percent);
tj_dtype gen_dtype(gen *G);                          /* any */
void gen_init(gen *G, ir_graph *g, uint64_t seed);
void gen_free(gen *G);

/* A new external. lo..hi: range of GEN_INDEX. */
ir_ref gen_input(gen *G, tj_dtype t, int rank, const int64_t *dim, gen_content content, int64_t lo, int64_t hi);
ir_ref gen_data(gen *G, tj_dtype t, int rank, const int64_t *dim); /* a new constant with content G->content */
void *gen_flat(const gen_slot *s);    /* a row-major copy of its elements; the caller frees it */
void gen_refill(gen *G, gen_slot *s); /* gives it other values of the same kind */
void gen_resize(gen *G, gen_slot *s, const int64_t *dim); /* makes it row-major with these sizes */
ir_ref gen_input_any(gen *G, tj_dtype t, int rank, const int64_t *dim); /* a new external with content G->content */
ir_ref gen_number(gen *G, bool integer, bool nonzero);
void gen_redraw(gen *G, uint32_t slot); /* gives a number another value of the same kind */
/* Applies op with x as first operand; the others and the attributes are made to fit. IR_NONE: op does not take x. Of several results it
 * returns one that is used; the others are in G->also, and are added to G->value. */
ir_ref gen_op(gen *G, ir_op op, ir_ref x);
ir_ref gen_join(gen *G, ir_op op, ir_ref a, ir_ref b); /* applies a BINARY op to a and b */
bool gen_is_tuple(const gen *G, const gen_step *s); /* it has several results: IR_gets follow */
bool gen_creates(ir_op op); /* op ignores x: its operands are numbers, or none */

/* ---- running ---- */
typedef struct gen_out { /* destinations of the outputs of a graph, each with margins around it */
	uint32_t n;
	void **data;
	int64_t *bytes;
	gen_place place;      /* the side at the page that cannot be accessed has no margin */
	void **map;           /* NULL: GEN_ANYWHERE */
	size_t *mapped;
} gen_out;
bool gen_out_new(gen_out *o, const ir_graph *g);
bool gen_out_at(gen_out *o, const ir_graph *g, gen_place place);
void gen_out_free(gen_out *o);
bool gen_margins_ok(const gen_out *o, uint32_t *which);

typedef struct gen_how {
	const lo_target *target; /* NULL: the plan of the evaluator */
	bool int_div_zero, team;
	int threads;               /* of the team; the first run of a process decides; 0: 3 */
	uint16_t off;              /* passes to leave out: LO_OFF() */
	bool in_place;             /* outputs overwrite an external where they may */
	int device;                /* operands are copied to this device, and results back */
	lo_family *family;         /* code shared between runs; new code is added to it; NULL: none */
	bool symbols;              /* every size is an argument of the code */
	lo_moving moving;          /* those that are, else */
} gen_how;
/* operands are on a GPU: products of floats are computed by its library; own: by kernels of ours */
extern bool gen_on_gpu, gen_own;
int gen_device(const char *name); /* its number: "mock:0", "cuda:0" ...; ends the process if there is none. Children of a process that
                                     opened a GPU cannot use it: ask in the child */
tj_status gen_run(gen *G, const gen_how *how, gen_out *o, rt_err *err);
/* Runs the evaluator. lib: NULL, or results from which it takes the library nodes that are outputs. */
tj_status gen_oracle(gen *G, bool int_div_zero, const gen_out *lib, gen_out *o, rt_err *err);
/* Compares every step of the simplified graph with that of the raw graph. */
bool gen_folds_ok(gen *G, rt_text *why);
void gen_keep_lib(gen *G);                          /* makes library nodes outputs */
/* False: an element of a library node differs by more than the bound of a sum of k products; why says which. */
bool gen_lib_ok(gen *G, const gen_out *got, char *why, size_t size);
/* equal bits; all NaNs are equal. at: the first difference */
bool gen_same(tj_dtype t, const void *a, const void *b, int64_t n, int64_t *at);
void gen_put_element(rt_text *t, tj_dtype dtype, const void *data, int64_t at);

#endif
