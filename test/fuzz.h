/* SPDX-License-Identifier: MIT */
/* fuzz: options, counts of what was run, entry points of fuzz.c and of the other fuzz_*.c. */
#ifndef TJ_TEST_FUZZ_H
#define TJ_TEST_FUZZ_H

#include "test/gen.h"

enum { FUZZ_RULES = 64, FUZZ_LAYERS = 256 };
typedef enum fuzz_group { FUZZ_POINT, FUZZ_POINT_FUSED, FUZZ_ROW, FUZZ_ROW_FUSED, FUZZ_COLUMN, FUZZ_COLUMN_FUSED, FUZZ_GROUPS } fuzz_group;

typedef enum fuzz_side { FUZZ_TAKEN, FUZZ_GIVEN, FUZZ_SIDES } fuzz_side; /* of an op: the dtype of its first operand, or of its result */

typedef struct fuzz_mix { /* only counters: added up as an array of uint64_t */
	uint64_t graphs, steps, inputs, odd, special, numbers, branches, flows, sized, assigns, calls, varied, direct, resized, compiled,
		shared, audits, again;
	uint64_t op[IR_OPS], rule[FUZZ_RULES], group[FUZZ_GROUPS];
	uint64_t use[FUZZ_SIDES][IR_OPS][TJ_DTYPE_COUNT]; /* steps, by op and dtype */
	uint64_t layer[FUZZ_LAYERS];                      /* steps, by row of fuzz_calls.c */
} fuzz_mix;

typedef struct fuzz_result { bool ok; fuzz_mix mix; } fuzz_result;
typedef struct fuzz_verdict { bool ok; char why[700]; } fuzz_verdict;

typedef struct fuzz_options {
	int n, width[3], nwidth;
	uint64_t seed;
	bool sizes;                /* graphs or programs run at several sizes, which share code */
	const char *device;        /* run on this device instead of the CPU; NULL: on the CPU */
	bool api, verbose, rotate; /* rotate: each compile has another vector width */
	bool figures;              /* lower graphs for CPUs with other limits and figures */
	bool modes;                /* some nodes are fast; values that depend on none of them are compared */
	bool grad;                 /* the gradients of each graph are outputs, too */
	bool layers;               /* programs of the functions that are made of ops */
	bool rare;                 /* most inputs of a graph are i8, or i16 */
	bool counts;               /* print how often each op has each dtype */
	bool dry;                  /* make graphs and count; run none */
	unsigned off;              /* a bit for each pass (LO_PASS_*) to leave out, one pass at a time */
	const char *found;         /* folder to which failures are written */
	const lo_target *llvm;     /* NULL: only the evaluator */
} fuzz_options;
extern fuzz_options fuzz_opt;

/* Emits a random graph into G->g; G has its steps and values afterwards. */
void fuzz_graph(gen *G, uint64_t seed);
void fuzz_loop(gen *G, ir_ref x); /* fuzz_loops.c: loops on the float x; their values become outputs */
void fuzz_count(const gen *G, fuzz_mix *m, int graphs);
void fuzz_count_rules(fuzz_mix *m);
/* fuzz_counts.c: a bit for each dtype that op takes, or gives; uses of op and dtype */
unsigned fuzz_dtypes(ir_op op, fuzz_side side);
void fuzz_count_dtypes(const gen *G, fuzz_mix *m);
void fuzz_print_dtypes(const fuzz_mix *m);
/* Runs f in a child process; the verdict has the text that f wrote to why, or how the child died. */
fuzz_verdict fuzz_in_child(void (*f)(void *env, rt_text *why), void *env);
/* Programs over the API. The batch writes its result to fd, and ends the process. */
void fuzz_api_batch(uint64_t seed, int n, int fd);
bool fuzz_api_alone(uint64_t seed);
void fuzz_reads_batch(uint64_t seed, int n, int fd); /* fuzz_reads.c: the same for gradients */
bool fuzz_reads_alone(uint64_t seed);
void fuzz_layers_batch(uint64_t seed, int n, int fd); /* fuzz_layers.c: the same for the functions that are made of ops */
bool fuzz_layers_alone(uint64_t seed);
int fuzz_print_layers(const fuzz_mix *m);             /* returns how many functions a long run never called */

#endif
