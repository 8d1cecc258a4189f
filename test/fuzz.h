/* fuzz: options, and the mix of what was run. */
#ifndef TJ_TEST_FUZZ_H
#define TJ_TEST_FUZZ_H

#include "test/gen.h"

enum { FUZZ_RULES = 64 };
typedef enum fuzz_group { FUZZ_POINT, FUZZ_POINT_FUSED, FUZZ_ROW, FUZZ_ROW_FUSED, FUZZ_COLUMN, FUZZ_COLUMN_FUSED, FUZZ_GROUPS } fuzz_group;

typedef struct fuzz_mix { /* counters only: summed as an array of uint64_t */
	uint64_t graphs, steps, inputs, odd, special, numbers, branches, flows, sized, assigns, calls, varied, direct, resized, compiled, shared, audits;
	uint64_t op[IR_OPS], rule[FUZZ_RULES], group[FUZZ_GROUPS];
} fuzz_mix;

typedef struct fuzz_result { bool ok; fuzz_mix mix; } fuzz_result;
typedef struct fuzz_verdict { bool ok; char why[700]; } fuzz_verdict;

typedef struct fuzz_options {
	int n, width[3], nwidth;
	uint64_t seed;
	bool sizes;                /* graphs, or programs, at several sizes, which share code */
	bool mock;            /* on the mock device */
	bool api, verbose, rotate; /* rotate: one width for each compile */
	bool figures;              /* graphs are lowered for CPUs with other limits and figures */
	bool modes;                /* some nodes are fast: what follows from none of them is compared */
	unsigned off;              /* passes to leave out in turn: bits by LO_PASS_* */
	const char *found;         /* folder of failures */
	const lo_target *llvm;     /* NULL: only the evaluator */
} fuzz_options;
extern fuzz_options fuzz_opt;

/* Emits a random graph into G->g; its steps and values are left in G. */
void fuzz_graph(gen *G, uint64_t seed);
void fuzz_count(const gen *G, fuzz_mix *m, int graphs);
void fuzz_count_rules(fuzz_mix *m);
/* Runs f in a child; what it wrote to why, or how it died. */
fuzz_verdict fuzz_in_child(void (*f)(void *env, rt_text *why), void *env);
/* Programs at the level of the API. The batch ends the process, its result written to fd. */
void fuzz_api_batch(uint64_t seed, int n, int fd);
bool fuzz_api_alone(uint64_t seed);

#endif
