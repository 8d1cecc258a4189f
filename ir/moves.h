/* SPDX-License-Identifier: MIT */
/* moves: composites that move elements; private to this folder. */
#ifndef TJ_IR_MOVES_H
#define TJ_IR_MOVES_H

#include "ir/ir.h"

bool ir_moves(int op); /* the op is one of these */
/* n: a copy of the node; to: its type */
ir_ref ir_move(ir_graph *g, const ir_node *n, const ir_meta *to, const ir_ref *src, const int64_t *attr);
ir_ref ir_padded(ir_graph *g, ir_ref x, ir_ref value, int npad, const int64_t *by, const char *site); /* pad, with a value */

enum { IR_MOST_PARTS = 64 };
/* The parts beside one another, element by element, along the last n axes of theirs: stride[i] of them along axis i, in row-major order. At
 * most IR_MOST_PARTS. Nothing comes between the cats, so a plan stores each part where it goes. */
ir_ref ir_interleaved(ir_graph *g, int n, const int64_t *stride, const ir_ref *part, const char *site);

#endif
