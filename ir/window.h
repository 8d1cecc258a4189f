/* SPDX-License-Identifier: MIT */
/* window: how the windows of convolution and pooling lie on an axis; private to this folder. */
#ifndef TJ_IR_WINDOW_H
#define TJ_IR_WINDOW_H

#include "ir/ir.h"

enum { IR_WINDOW_AXES = 3 };

/* How windows lie on the last n axes. Of pools, `ceil` also counts the last window that begins inside the padded axis but ends behind it.
 */
typedef struct ir_window {
	int n;
	bool ceil;
	int64_t size[IR_WINDOW_AXES], stride[IR_WINDOW_AXES], dilation[IR_WINDOW_AXES], before[IR_WINDOW_AXES], after[IR_WINDOW_AXES];
} ir_window;

/* From the attributes of a conv, of either kind, or of a pool. kernel: the last sizes of a conv's weight. */
ir_window ir_window_of(int op, int nattr, const int64_t *attr, const int64_t *kernel);
int64_t ir_window_span(const ir_window *w, int axis);                   /* from the first place of a window to behind its last */
int64_t ir_windows(const ir_window *w, int axis, int64_t size);         /* number of windows along an axis; 0: there is no room for one */
/* so many elements the last window needs behind the axis; at least `after` */
int64_t ir_window_behind(const ir_window *w, int axis, int64_t size);
int64_t ir_transposed_size(const ir_window *w, int axis, int64_t size); /* size of the axis that has `size` windows */

#endif
