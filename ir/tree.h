/* SPDX-License-Identifier: MIT */
/* tree: the constants of the reduction tree; tree.c shows its steps. The evaluator, lowering, code generation and the interpreter
 * of the tests use them. */
#ifndef TJ_IR_TREE_H
#define TJ_IR_TREE_H

#include "runtime/chain.h"

enum {
	IR_TREE_BYTES = 512,      /* row tree: bytes of all lanes of an accumulator */
	IR_TREE_ROWS = 16,        /* row tree: rows of lanes in a chunk */
	IR_TREE_COLUMN_ROWS = 32, /* column tree (one lane): elements in a chunk */
	IR_RUNNING = 1024,  /* cumsum, cumprod: elements in a chunk. Each chunk is added up by itself, from its first element on; then what
	                       all chunks before it gave is added to each of its results */
	IR_CHAIN = RT_CHAIN /* matrix products: elements in a chunk. A chunk is a chain of fused multiply-adds; chunks are added in order */
};
#define IR_TREE_LANES(size) (IR_TREE_BYTES / (int64_t)(size)) /* lanes of the row tree; size: bytes of an element */
static inline int64_t ir_tree_lanes(tj_dtype accumulator) { return IR_TREE_LANES(tj_dtype_size(accumulator)); }

_Static_assert(IR_TREE_LANES(sizeof(float)) == 128 && IR_TREE_LANES(sizeof(double)) == 64,
               "step 3 halves the lanes: their number is a power of two");
_Static_assert((IR_TREE_BYTES & (IR_TREE_BYTES - 1)) == 0 && (IR_TREE_ROWS & (IR_TREE_ROWS - 1)) == 0, "a part of a row is 2^k chunks");

#endif
