/* The constants of the reduction tree (tree.c tells its steps). The evaluator, lowering, code generation and the interpreter of the
 * tests take them from here. */
#ifndef TJ_IR_TREE_H
#define TJ_IR_TREE_H

#include "runtime/base.h"

enum {
	IR_TREE_BYTES = 512,     /* row tree: the lanes of an accumulator take this many bytes */
	IR_TREE_ROWS = 16,       /* row tree: rows of lanes to a chunk */
	IR_TREE_COLUMN_ROWS = 32 /* column tree, which has one lane: elements to a chunk */
};
#define IR_TREE_LANES(size) (IR_TREE_BYTES / (int64_t)(size)) /* of the row tree, by the bytes of an element */
static inline int64_t ir_tree_lanes(tj_dtype accumulator) { return IR_TREE_LANES(tj_dtype_size(accumulator)); }

_Static_assert(IR_TREE_LANES(sizeof(float)) == 128 && IR_TREE_LANES(sizeof(double)) == 64, "lanes are halved: a power of two of them");
_Static_assert((IR_TREE_BYTES & (IR_TREE_BYTES - 1)) == 0 && (IR_TREE_ROWS & (IR_TREE_ROWS - 1)) == 0, "parts of a row are 2^k chunks");

#endif
