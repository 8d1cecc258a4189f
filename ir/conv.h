/* SPDX-License-Identifier: MIT */
/* conv: convolution and pooling; private to this folder. */
#ifndef TJ_IR_CONV_H
#define TJ_IR_CONV_H

#include "ir/window.h"

bool ir_convolves(int op); /* conv_transpose and pools as well */
/* n: a copy of the node; to: its type */
ir_ref ir_convolve(ir_graph *g, const ir_node *n, const ir_meta *to, const ir_ref *src, const int64_t *attr);

/* The gradient by the weight of y = conv(x, weight), where dy is that of y. */
ir_ref ir_conv_by_weight(ir_graph *g, ir_ref x, ir_ref dy, const ir_meta *weight, int64_t groups, const ir_window *w, const char *site);
/* The windows of x beside each other: leading axes, windows, one axis with all places of a window. `value` stands for what is beside x. */
ir_ref ir_window_rows(ir_graph *g, ir_ref x, const ir_window *w, ir_ref value, const char *site);
/* Place number `place` of all windows, in row-major order; windows: their numbers, by axis. */
ir_ref ir_window_at(ir_graph *g, ir_ref x, const ir_window *w, ir_ref value, int64_t place, const int64_t *windows, const char *site);

#endif
