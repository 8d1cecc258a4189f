/* gen: what the op matrix and the fuzzer share. Operands of any layout and content, ops applied to them with random
 * attributes, a graph run on an executor, results compared with the evaluator's. */
#ifndef TJ_TEST_GEN_H
#define TJ_TEST_GEN_H

#include "ir/ir.h"
#include "lower/target.h"

typedef enum gen_layout {
	GEN_ROW, GEN_TRANSPOSED, GEN_STEP2, GEN_NEGATIVE, GEN_OFFSET1, GEN_EXPANDED, GEN_ODD1, GEN_LAYOUTS
} gen_layout;
extern const char *const gen_layout_name[GEN_LAYOUTS];

/* What an operand holds. GEN_FIRST, GEN_LAST: one special value, at the first or last element. */
typedef enum gen_content {
	GEN_PLAIN, GEN_SPECIAL, GEN_FIRST, GEN_LAST, GEN_NEGZERO, GEN_INTS, GEN_CONTENTS, GEN_NONZERO, GEN_INDEX
} gen_content;

typedef struct gen_slot { /* an external */
	ir_meta meta;
	int64_t stride[TJ_MAX_RANK];
	void *data;           /* element 0 of the view */
	void *map;            /* ends at a page that cannot be read, so that reads beyond the end are found */
	size_t mapped;
	gen_content content;
	int64_t lo, hi;       /* of GEN_INDEX */
} gen_slot;

typedef enum gen_num_kind { GEN_INTEGER, GEN_DIVISOR, GEN_PLACE, GEN_FLOAT, GEN_FIXED } gen_num_kind;
typedef struct gen_num {  /* what a number may be: any; not 0; 0..hi; any float; what it is */
	gen_num_kind kind;
	int64_t hi;
} gen_num;

typedef struct gen_step { /* an op as it was asked for: what a body would call */
	ir_op op;
	int nsrc, nattr;
	ir_ref src[8];
	int64_t attr[3 * TJ_MAX_RANK];
	ir_ref result, raw;   /* in g, in the graph that is not simplified */
	uint32_t want;        /* of an op that has several results: those that are used, a bit each. A step IR_get follows for each */
} gen_step;

typedef struct gen {
	ir_graph *g, raw;     /* raw: the same, as it was asked for */
	rt_vec(ir_ref) raw_of; /* by node of g */
	uint64_t rng;
	rt_vec(gen_slot) slot;
	rt_vec(uint64_t) num; /* bits, by slot */
	rt_vec(gen_num) num_of;
	rt_vec(gen_step) step;
	int device;           /* another one than the CPU, that operands and results may be on; RT_CPU: none */
	int layout, content;  /* of new operands; -1: any */
	int64_t most;         /* elements of a result; 0: no limit */
	bool lib_f32;         /* f32 matmul may be asked for */
	bool numbers;         /* operands may be run-time numbers and constants */
	int spread;           /* percent of new operands that are one number, expanded to their shape */
	bool zeros;           /* integers may be divided by zero, which is 0 then */
	uint32_t want;        /* results of an op that has several: a bit each; 0: any */
	ir_ref also[IR_MOST_RESULTS]; /* the results of the last op beside the one that gen_op() gave, ... */
	int nalso;            /* ... how many */
	char site[32];        /* of the last run's fault: the plan that held it is gone */
	rt_vec(ir_ref) value; /* what operands may be chosen from; empty: always new ones */
} gen;

uint64_t gen_next(gen *G);
int64_t gen_below(gen *G, int64_t n);                 /* 0 <= r < n */
bool gen_chance(gen *G, int percent);
void gen_init(gen *G, ir_graph *g, uint64_t seed);
void gen_free(gen *G);

/* A new external. lo..hi: of GEN_INDEX. */
ir_ref gen_input(gen *G, tj_dtype t, int rank, const int64_t *dim, gen_content content, int64_t lo, int64_t hi);
ir_ref gen_data(gen *G, tj_dtype t, int rank, const int64_t *dim); /* a constant, content as G says */
void *gen_flat(const gen_slot *s);    /* its elements, row-major; to be freed */
void gen_refill(gen *G, gen_slot *s); /* other values of the same kind */
void gen_resize(gen *G, gen_slot *s, const int64_t *dim); /* the same, row-major, of other sizes */
ir_ref gen_input_any(gen *G, tj_dtype t, int rank, const int64_t *dim); /* content as G says */
ir_ref gen_number(gen *G, bool integer, bool nonzero);
void gen_redraw(gen *G, uint32_t slot); /* another value of the same kind for a number */
/* Applies op with x as first operand; the others and the attributes are made to fit. IR_NONE: it does not take x. Of several results
 * one that is used; the others are in G->also, and become values that operands are chosen from. */
ir_ref gen_op(gen *G, ir_op op, ir_ref x);
ir_ref gen_join(gen *G, ir_op op, ir_ref a, ir_ref b); /* a BINARY op of these */
bool gen_is_tuple(const gen *G, const gen_step *s); /* its result is no value: IR_gets follow */
bool gen_creates(ir_op op); /* has no operand to speak of: x is ignored */

/* ---- running ---- */
typedef struct gen_out { /* destinations of a graph's outputs, margins around each */
	uint32_t n;
	void **data;
	int64_t *bytes;
} gen_out;
bool gen_out_new(gen_out *o, const ir_graph *g);
void gen_out_free(gen_out *o);
bool gen_margins_ok(const gen_out *o, uint32_t *which);

typedef struct gen_how {
	const lo_target *target; /* NULL: the evaluator's plan */
	bool int_div_zero, team;
	uint8_t off;               /* passes left out: LO_OFF() */
	bool in_place;             /* outputs that may overwrite an external do */
	int device;                /* operands are brought there, results back */
	lo_family *family;         /* whose code is shared, and takes what is compiled; NULL: none */
	bool symbols;              /* every size is an argument of the code */
} gen_how;
tj_status gen_run(gen *G, const gen_how *how, gen_out *o, rt_err *err);
/* The evaluator. With lib, library nodes that are outputs are taken from there. */
tj_status gen_oracle(gen *G, bool int_div_zero, const gen_out *lib, gen_out *o, rt_err *err);
/* Every step of the simplified graph against the raw one's. */
bool gen_folds_ok(gen *G, rt_text *why);
void gen_keep_lib(gen *G);                          /* makes such nodes outputs */
/* False: element `at` differs by more than the bound of a sum of k products. */
bool gen_lib_ok(gen *G, const gen_out *got, char *why, size_t size);
bool gen_same(tj_dtype t, const void *a, const void *b, int64_t n, int64_t *at); /* NaNs as one */
void gen_put_element(rt_text *t, tj_dtype dtype, const void *data, int64_t at);

#endif
