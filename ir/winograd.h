/* SPDX-License-Identifier: MIT */
/* winograd: convolutions with windows of 3 x 3 in fewer products; private to this folder. */
#ifndef TJ_IR_WINOGRAD_H
#define TJ_IR_WINOGRAD_H

#include "ir/window.h"

/* The side of a tile that pays for this fast convolution: 2 or 4; 0: none does. weight: its type; to: that of the result. */
int ir_winograd_tile(const ir_graph *g, ir_ref x, const ir_meta *weight, int64_t groups, const ir_window *w, const ir_meta *to);
ir_ref ir_winograd(ir_graph *g, int tile, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to, const char *site);

#endif
