/* moves: composites that move elements; private to decomp.c and moves.c. */
#ifndef TJ_IR_MOVES_H
#define TJ_IR_MOVES_H

#include "ir/ir.h"

bool ir_moves(int op); /* the op is one of these */
ir_ref ir_move(ir_graph *g, const ir_node *n, const ir_meta *to, const ir_ref *src, const int64_t *attr); /* n: a copy of the node; to: its type */

#endif
