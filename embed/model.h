/* SPDX-License-Identifier: MIT */
/* model: the data of a model in an object file, as jit/object.c writes it and tjrt.c reads it. All offsets count bytes from its start, and
 * are multiples of 8; there are no pointers, so nothing of it is relocated. */
#ifndef TJ_EMBED_MODEL_H
#define TJ_EMBED_MODEL_H

#include <stdint.h>

#define TJRT_MAGIC 0x314c444d54524a54u /* "TJRTMDL1" */
enum { TJRT_VERSION = 1, TJRT_MAX_RANK = 8, TJRT_ALIGN = 64, TJRT_FEW = 32 /* operands that are kept on the stack */ };

typedef struct tjrt_model {
	uint64_t magic;
	uint32_t version, nsymbol, nin, nout, ncpu, nplan; /* nplan: of each CPU, by number of the combination of sizes */
	uint64_t symbol, cpu;    /* offsets of tjrt_symbol[nsymbol], tjrt_cpu[ncpu] */
} tjrt_model;

typedef struct tjrt_symbol { int64_t first, step, count; } tjrt_symbol; /* its sizes: first + i * step */
typedef struct tjrt_cpu {
	int32_t bits;
	uint32_t features;
	uint64_t plan;
} tjrt_cpu; /* plan: offset of uint64_t[nplan], offsets of plans */

typedef struct tjrt_plan {
	uint64_t arena, scratch, many; /* bytes of the workspace: temporaries, scratch of a kernel, addresses of operands */
	uint64_t step, out;      /* offsets of tjrt_step[nstep], uint64_t[nout]: bytes of each result */
	uint32_t nstep, nnum, nexpr, zero;
	uint64_t num, expr;      /* offsets of tjrt_num[nnum], tjrt_expr[nexpr] */
} tjrt_plan;

/* A number: bits, the index-th one of the call, or the index-th expression. Expressions are of doubles, in order. */
enum { TJRT_BITS, TJRT_PARAM, TJRT_EXPR, TJRT_EXPRS = 64 /* most of a plan */ };
typedef struct tjrt_num { uint64_t bits; uint32_t kind, index; } tjrt_num;
enum { TJRT_ADD, TJRT_SUB, TJRT_MUL, TJRT_DIV, TJRT_NEG };
typedef struct tjrt_expr { uint64_t op; tjrt_num x, y; } tjrt_expr;

enum { TJRT_IN, TJRT_OUT, TJRT_ARENA, TJRT_CONST /* in the data */, TJRT_NUMBER };
typedef struct tjrt_at { uint32_t place, index; int64_t offset; } tjrt_at; /* an operand: the start of its place, and bytes from there */

enum { TJRT_KERNEL, TJRT_COPY };
typedef struct tjrt_step {
	uint32_t kind, nbuf, nnumber, nfault;
	uint64_t at;             /* offset of tjrt_at[nbuf]; COPY: from, to */
	/* KERNEL */
	uint64_t code;           /* offset of the function in the code */
	int64_t units;
	uint64_t scratch, size;  /* bytes; offset of int64_t[]: values of its symbols */
	uint64_t number;         /* offset of uint32_t[nnumber]: its numbers among the plan's; nnumber 0: they are the plan's */
	uint64_t fault;          /* offset of uint64_t[nfault]: offsets of sites */
	/* COPY: of elements with strides, in elements, to a row-major array */
	uint64_t element, rank;
	int64_t dim[TJRT_MAX_RANK], stride[TJRT_MAX_RANK];
} tjrt_step;

#endif
