/* SPDX-License-Identifier: MIT */
#include "ir/window.h"

ir_window ir_window_of(int op, int nattr, const int64_t *attr, const int64_t *kernel)
{
	const bool pool = ir_ops[op].opclass != IR_CONV;
	const int own = ir_classes[ir_ops[op].opclass].nattr, n = (nattr - own) / (pool ? 5 : 4);
	const int64_t *list = attr + own;
	ir_window w = { .n = n, .ceil = pool && attr[0] };
	if (pool) kernel = list, list += n;
	for (int i = 0; i < n; i++) {
		w.size[i] = kernel[i];
		w.stride[i] = list[i];
		w.dilation[i] = list[n + i];
		w.before[i] = list[2 * n + 2 * i];
		w.after[i] = list[2 * n + 2 * i + 1];
	}
	return w;
}

int64_t ir_window_span(const ir_window *w, int axis) { return w->dilation[axis] * (w->size[axis] - 1) + 1; }

int64_t ir_windows(const ir_window *w, int axis, int64_t size)
{
	const int64_t room = size + w->before[axis] + w->after[axis] - ir_window_span(w, axis), s = w->stride[axis];
	const int64_t steps = w->ceil ? room + s - 1 : room;
	if (steps < 0) return 0;
	const int64_t n = steps / s + 1;
	return w->ceil && (n - 1) * s >= size + w->before[axis] ? n - 1 : n;
}

int64_t ir_transposed_size(const ir_window *w, int axis, int64_t size)
{
	return (size - 1) * w->stride[axis] - w->before[axis] - w->after[axis] + ir_window_span(w, axis);
}

int64_t ir_window_behind(const ir_window *w, int axis, int64_t size)
{
	const int64_t need = (ir_windows(w, axis, size) - 1) * w->stride[axis] + ir_window_span(w, axis) - size - w->before[axis];
	return need > w->after[axis] ? need : w->after[axis];
}
