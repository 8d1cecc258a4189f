/* SPDX-License-Identifier: MIT */
/* products: a case is a struct of plain numbers, drawn from a seed. Its graph is made from the struct alone, so a failing case is cut down
 * by making the struct simpler. Each part of it has a seed of its own: when one part goes, the others stay as they are. */
#ifndef TJ_TEST_PRODUCTS_H
#define TJ_TEST_PRODUCTS_H

#include "test/gen.h"

enum { PROD_BATCH = 3, PROD_AFTER = 6, PROD_OPERANDS = 4 };

typedef enum prod_kind { /* w, w2: new operands */
	PROD_ONE,     /* a w */
	PROD_SHARED,  /* a w, a w2, a w3: side by side, or multiplied */
	PROD_CHAIN,   /* (a w) w2, or w2 (a w); ops may stand between */
	PROD_HEADS,   /* softmax(q k') v, where q, k and v are a w, a w2, a w3, cut into heads */
	PROD_KINDS
} prod_kind;

typedef enum prod_source { PROD_INPUT, PROD_DATA, PROD_FULL, PROD_SOURCES } prod_source; /* an external, constant data, one constant */

typedef struct prod_operand {
	uint64_t seed;
	tj_dtype dtype;      /* of the stored elements */
	tj_dtype cast;       /* the product reads them as this dtype */
	prod_source source;
	int layout;          /* gen_layout, of the external */
	gen_content content;
	int views, ops;      /* number of views of it in the graph, and of ops on its elements */
	bool shown;          /* DATA: another result of the graph is its elements */
	bool vector;         /* 1-d, if the other sizes allow it */
	unsigned ones;       /* by batch axis: its size is 1 here, and broadcasts */
	int missing;         /* leading batch axes that it lacks */
	bool row;            /* an input that is one row is added to it */
	bool apart;          /* it is the first columns of what is stored, prod_case.wider more than it needs */
} prod_operand;

/* op: see products_graph.c; kept: its operand is a result, too */
typedef struct prod_after { uint64_t seed; int op; bool kept; } prod_after;

typedef struct prod_case {
	uint64_t seed;
	prod_kind kind;
	int64_t m, n, k, n2; /* n2: columns (or rows) of w2 in a chain */
	int64_t batch[PROD_BATCH];
	int nbatch, heads;
	prod_operand in[PROD_OPERANDS];
	prod_after after[PROD_AFTER];
	int nafter, between; /* the first `between` ops stand between the products of a chain */
	bool kept;           /* the first product is a result */
	gen_place place;
	bool team_first, in_place, unfused;
	bool fast;           /* its products are fast; those of bf16 are then near the evaluator's, those of other dtypes equal */
	bool again, symbols; /* it runs at other sizes as well, with the same code; every size is an argument of the code */
	bool rows_move;      /* again: only m changes, and lowering knows that */
	int64_t wider;       /* columns: rows of the operands that lie apart may lie elsewhere in each run */
	int resized;         /* how often its sizes were changed */
} prod_case;

typedef struct prod_mix { /* only counters: added up as an array of uint64_t */
	uint64_t cases, runs, products, empty, vectors, batches, chunks, large, views, ahead, odd, constants, casts, special, kept, guarded,
		sizes, fast, beside, follow;
	uint64_t kind[PROD_KINDS], dtype[TJ_DTYPE_COUNT], after[32];
} prod_mix;

/* ---- products_graph.c ---- */
void prod_draw(prod_case *c, uint64_t seed);
void prod_other_sizes(prod_case *c);
/* Emits the graph of the case. G->g->err says why if it could not. */
void prod_graph(gen *G, const prod_case *c);
/* Makes c simpler in the way number `way`. false: it is as simple already. way: from 0 to PROD_WAYS - 1. */
enum { PROD_WAYS = 100 };
bool prod_simplify(prod_case *c, int way);
void prod_count(const prod_case *c, const gen *G, prod_mix *m);
extern const char *const prod_kind_name[PROD_KINDS];
int prod_after_ops(const char *const **names);

#endif
