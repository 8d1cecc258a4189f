/* SPDX-License-Identifier: MIT */
/* conv: decompositions of convolution and pooling.
 *
 *   %2 = conv f32[1,8,4] %0 %1 groups=1 window=1,1,0,0     =>     %2 = unfold f32[1,3,4,5] %0 axis=2 size=5 step=1 dilation=1
 *   (%0: f32[1,3,8], %1: f32[8,3,5])                              %3 = permute f32[1,3,5,4] %2 axes=0,1,3,2
 *                                                                 %4 = reshape f32[1,15,4] %3
 *                                                                 %5 = reshape f32[8,15] %1
 *                                                                 %6 = matmul f32[1,8,4] %5 %4
 *
 * A convolution is a product of the weight and the windows: its sums have the order of a product's over channel, then place in the
 * window. Windows whose stride is 1 are views that the product reads, if their rows are long. Where each channel has a group of its own
 * there is nothing to multiply matrices for: the products of the places are added one after the other. conv_transpose is a conv for each
 * phase of its stride: the elements of the result whose place has one remainder take the same places of the weight. A fast convolution
 * may be another one (winograd.c). A pool joins the places of its windows, one after the other; long windows are reduced. */
#include "ir/conv.h"
#include "ir/moves.h"
#include "ir/winograd.h"

#include <math.h>

typedef struct made { ir_graph *g; const char *site; } made;

static ir_ref op2(const made *m, ir_op op, ir_ref a, ir_ref b) { return ir_op2(m->g, op, a, b, m->site); }
static ir_ref shaped(const made *m, ir_ref x, int rank, const int64_t *dim) { return ir_reshape(m->g, x, rank, dim, m->site); }
static ir_ref permuted(const made *m, ir_ref x, int n, const int64_t *axes) { return ir_emit(m->g, IR_permute, 1, &x, n, axes, m->site); }
static ir_ref slice(const made *m, ir_ref x, int64_t axis, int64_t start, int64_t stop, int64_t step)
{
	return ir_emit(m->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, start, stop, step }, m->site);
}

static ir_ref number(const made *m, tj_dtype t, double v)
{
	return rt_is_float(t) ? ir_const_f(m->g, t, 0, NULL, v) : ir_const_i(m->g, t, 0, NULL, (int64_t)v);
}

static int64_t product(int n, const int64_t *dim)
{
	int64_t all = 1;
	for (int i = 0; i < n; i++) all *= dim[i];
	return all;
}

/* ---- windows ---- */
static ir_ref padded(const made *m, ir_ref x, const ir_window *w, ir_ref value)
{
	int64_t by[2 * IR_WINDOW_AXES];
	bool any = false;
	if (x == IR_NONE || value == IR_NONE) return IR_NONE;
	const ir_meta t = ir_meta_of(m->g, x);
	for (int i = 0; i < w->n; i++) {
		by[2 * i] = w->before[i];
		by[2 * i + 1] = ir_window_behind(w, i, t.dim[t.rank - w->n + i]);
		any |= by[2 * i] || by[2 * i + 1];
	}
	return any ? ir_padded(m->g, x, value, 2 * w->n, by, m->site) : x;
}

static ir_ref pad_axis(const made *m, ir_ref x, const ir_window *w, int i, int axis, ir_ref value)
{
	if (x == IR_NONE || value == IR_NONE) return IR_NONE;
	const ir_meta t = ir_meta_of(m->g, x);
	int64_t by[2 * TJ_MAX_RANK] = { w->before[i], ir_window_behind(w, i, t.dim[axis]) };
	return by[0] || by[1] ? ir_padded(m->g, x, value, 2 * (t.rank - axis), by, m->site) : x;
}

/* The windows as a view: leading axes, windows, places in a window. */
static ir_ref view(const made *m, ir_ref x, const ir_window *w, ir_ref value)
{
	x = padded(m, x, w, value);
	if (x == IR_NONE) return x;
	const int first = ir_at(m->g, x)->rank - w->n;
	for (int i = 0; i < w->n; i++)
		x = ir_emit(m->g, IR_unfold, 1, &x, 4, (int64_t[]){ first + i, w->size[i], w->stride[i], w->dilation[i] }, m->site);
	return x;
}

/* With the places before the windows. */
static ir_ref turned(const made *m, ir_ref x, const ir_window *w, ir_ref value)
{
	int64_t axes[TJ_MAX_RANK];
	x = view(m, x, w, value);
	if (x == IR_NONE) return x;
	const int rank = ir_at(m->g, x)->rank, lead = rank - 2 * w->n;
	for (int i = 0; i < rank; i++) axes[i] = i < lead ? i : i < lead + w->n ? i + w->n : i - w->n;
	return permuted(m, x, rank, axes);
}

ir_ref ir_window_rows(ir_graph *g, ir_ref x, const ir_window *w, ir_ref value, const char *site)
{
	const made m = { g, site };
	x = view(&m, x, w, value);
	if (x == IR_NONE) return x;
	ir_meta t = ir_meta_of(g, x);
	t.rank = (uint8_t)(t.rank - w->n);
	t.dim[t.rank] = product(w->n, w->size);
	return shaped(&m, x, t.rank + 1, t.dim);
}

/* ---- convolution ---- */
/* The windows [N, C, ...] as [N, C * places, windows]. */
static ir_ref columns(const made *m, ir_ref x, const ir_window *w)
{
	const ir_ref none = number(m, (tj_dtype)ir_at(m->g, x)->dtype, 0);
	x = turned(m, x, w, none);
	if (x == IR_NONE) return x;
	const ir_meta t = ir_meta_of(m->g, x);
	return shaped(m, x, 3, (int64_t[]){ t.dim[0], product(1 + w->n, t.dim + 1), product(w->n, t.dim + 2 + w->n) });
}

/* Two axes of stride 1: rows of x with their padding follow one another, so a place of the window is one step further in all windows.
 * Columns across the end of a row are computed, too, and dropped. Kernels of CPUs read them where they lie (lo_index.jump). Short rows:
 * storing the windows takes as long as FEW columns more of one row of the result, measured. */
static bool is_flat(const ir_window *w, int64_t out, const ir_meta *to)
{
	enum { FEW = 12, LONG = 14 };
	if (w->n != 2 || w->stride[0] != 1 || w->stride[1] != 1 || product(2, w->size) < 2) return false;
	const int64_t dropped = ir_window_span(w, 1) - 1;
	return (to->dim[3] >= LONG && 4 * dropped <= to->dim[3]) || dropped * out <= FEW * to->dim[3];
}

/* [N, C * places, rows * width] for results of `rows` rows; width: of a row of x with its padding. */
static ir_ref flat_columns(const made *m, ir_ref x, const ir_window *w, int64_t rows, int64_t *width)
{
	const ir_ref none = number(m, (tj_dtype)ir_at(m->g, x)->dtype, 0);
	ir_window more = *w;
	more.after[0]++; /* the last places of the last row lie in it */
	x = padded(m, x, &more, none);
	if (x == IR_NONE) return x;
	const ir_meta t = ir_meta_of(m->g, x);
	*width = t.dim[3];
	x = shaped(m, x, 3, (int64_t[]){ t.dim[0], t.dim[1], t.dim[2] * t.dim[3] });
	x = ir_emit(m->g, IR_unfold, 1, &x, 4, (int64_t[]){ 2, rows * *width, 1, 1 }, m->site); /* [N, C, places as steps, columns] */
	x = ir_emit(m->g, IR_unfold, 1, &x, 4, (int64_t[]){ 2, w->size[1], w->dilation[0] * *width, w->dilation[1] }, m->site);
	x = permuted(m, slice(m, x, 2, 0, w->size[0], 1), 5, (int64_t[]){ 0, 1, 2, 4, 3 });
	return shaped(m, x, 3, (int64_t[]){ t.dim[0], t.dim[1] * product(2, w->size), rows * *width });
}

/* ---- place by place ---- */
enum { MOST_PLACES = 64 }; /* of a window; more are reduced */

/* The elements of x at one place of all windows along an axis; x has its padding. */
static ir_ref at_place(const made *m, ir_ref x, const ir_window *w, int i, int axis, int64_t place, int64_t windows)
{
	const int64_t first = place * w->dilation[i];
	return slice(m, x, axis, first, first + (windows - 1) * w->stride[i] + 1, w->stride[i]);
}

/* The same for place number `place` of all n axes, in row-major order; windows: their numbers. */
static ir_ref at_places(const made *m, ir_ref x, const ir_window *w, int64_t place, const int64_t *windows)
{
	const int first = ir_at(m->g, x)->rank - w->n;
	for (int i = w->n; i-- > 0 && x != IR_NONE; place /= w->size[i]) x = at_place(m, x, w, i, first + i, place % w->size[i], windows[i]);
	return x;
}

ir_ref ir_window_at(ir_graph *g, ir_ref x, const ir_window *w, ir_ref value, int64_t place, const int64_t *windows, const char *site)
{
	const made m = { g, site };
	x = padded(&m, x, w, value);
	return x == IR_NONE ? x : at_places(&m, x, w, place, windows);
}

/* One group for each channel, in the dtype of computation: [N, C, 1, windows] times place j of the weight [1, C, each, 1...], added in the
 * order of j. */
static ir_ref by_channel(const made *m, ir_ref x, ir_ref weight, const ir_window *w, const ir_meta *to)
{
	const tj_dtype wide = rt_compute_dtype((tj_dtype)to->dtype);
	const ir_ref none = number(m, wide, 0);
	x = padded(m, ir_cast(m->g, x, wide, m->site), w, none);
	weight = ir_cast(m->g, weight, wide, m->site);
	if (x == IR_NONE || weight == IR_NONE) return IR_NONE;
	ir_meta t = ir_meta_of(m->g, x), k = t;
	const int64_t places = product(w->n, w->size), each = t.dim[1] ? to->dim[1] / t.dim[1] : 0;
	memmove(t.dim + 3, t.dim + 2, sizeof *t.dim * (size_t)w->n);
	t.dim[2] = 1;
	x = shaped(m, x, ++t.rank, t.dim);
	k.rank = t.rank;
	k.dim[0] = 1, k.dim[2] = each;
	for (int i = 3; i < k.rank; i++) k.dim[i] = 1;
	weight = shaped(m, weight, 3, (int64_t[]){ t.dim[1], each, places });
	ir_ref y = IR_NONE;
	for (int64_t j = 0; j < places; j++) {
		const ir_ref at = at_places(m, x, w, j, to->dim + 2), by = shaped(m, slice(m, weight, 2, j, j + 1, 1), k.rank, k.dim);
		const ir_ref add = op2(m, IR_mul, at, by);
		if (add == IR_NONE) return add;
		y = j ? op2(m, IR_add, y, add) : add;
	}
	y = shaped(m, y, to->rank, to->dim);
	return y == IR_NONE ? y : ir_cast(m->g, y, (tj_dtype)to->dtype, m->site);
}

/* What x widens, if it is such a cast: padding and windows are those of that, in half of the memory, and the product widens them as it
 * reads. Else x. */
static ir_ref before_cast(const made *m, ir_ref x)
{
	const ir_node *n = ir_at(m->g, x);
	return n->op == IR_cast && n->dtype == TJ_F32 && n->device == RT_CPU &&
	                       rt_is_narrow((tj_dtype)ir_at(m->g, ir_src(m->g, n, 0))->dtype)
	               ? ir_src(m->g, n, 0)
	               : x;
}

static ir_ref conv(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to)
{
	const ir_meta t = ir_meta_of(m->g, weight);
	if (t.dim[1] == 1 && groups > 1 && product(w->n, w->size) > 0 && product(w->n, w->size) <= MOST_PLACES)
		return by_channel(m, x, weight, w, to);
	const int tile = ir_winograd_tile(m->g, x, &t, groups, w, to);
	if (tile) return ir_winograd(m->g, tile, x, weight, groups, w, to, m->site);
	const bool flat = ir_at(m->g, x)->device == RT_CPU && is_flat(w, t.dim[0] / groups, to);
	const tj_dtype type = (tj_dtype)ir_at(m->g, x)->dtype;
	ir_meta wide = *to;
	x = before_cast(m, x);
	x = flat ? flat_columns(m, x, w, to->dim[2], &wide.dim[3]) : columns(m, x, w);
	if (x == IR_NONE || (x = ir_cast(m->g, x, type, m->site)) == IR_NONE) return x;
	const ir_meta c = ir_meta_of(m->g, x);
	if (groups == 1) {
		weight = shaped(m, weight, 2, (int64_t[]){ t.dim[0], c.dim[1] });
	} else {
		weight = shaped(m, weight, 3, (int64_t[]){ groups, t.dim[0] / groups, c.dim[1] / groups });
		x = shaped(m, x, 4, (int64_t[]){ c.dim[0], groups, c.dim[1] / groups, c.dim[2] });
	}
	const ir_ref y = shaped(m, op2(m, IR_matmul, weight, x), wide.rank, wide.dim);
	return flat ? slice(m, y, 3, 0, to->dim[3], 1) : y;
}

/* [C, O / groups, ...] as the weight [O, C / groups, ...] of the conv that gives the same, with the places from last to first. */
static ir_ref turned_weight(const made *m, ir_ref weight, int64_t groups)
{
	ir_meta t = ir_meta_of(m->g, weight);
	const int64_t in = t.dim[0] / groups, out = t.dim[1];
	int64_t axes[TJ_MAX_RANK] = { 0, 2, 1 }, spatial[IR_WINDOW_AXES], n = t.rank - 2;
	for (int i = 0; i < n; i++) spatial[i] = 2 + i, axes[3 + i] = 3 + i;
	weight = ir_emit(m->g, IR_flip, 1, &weight, (int)n, spatial, m->site);
	memmove(t.dim + 3, t.dim + 2, sizeof *t.dim * (size_t)n);
	t.dim[0] = groups, t.dim[1] = in, t.dim[2] = out;
	weight = permuted(m, shaped(m, weight, 3 + (int)n, t.dim), 3 + (int)n, axes);
	t.dim[1] = groups * out, t.dim[2] = in;
	return shaped(m, weight, 2 + (int)n, t.dim + 1);
}

/* What one phase of an axis takes. Element o of the result, with o + before = stride * q + r, is the sum over the places j with j *
 * dilation = r (mod stride) of x[q - (j * dilation - r) / stride] * weight[j]. Phase p are the o with o = p (mod stride): one r, and every
 * step-th place from `first`. */
typedef struct phase {
	int64_t first, step, places; /* places 0: no place has the remainder */
	int64_t before, after;       /* padding of the conv with the turned places */
	int64_t dilation;
} phase;

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

static phase phase_of(const ir_window *w, int i, int64_t p, int64_t size, int64_t count)
{
	const int64_t s = w->stride[i], d = w->dilation[i], at = p + w->before[i];
	const int64_t r = ((at % s) + s) % s, q = (at - r) / s;
	phase f = { .step = s / common(s, d), .dilation = d / common(s, d) };
	while (f.first < w->size[i] && (f.first * d - r) % s) f.first++;
	if (f.first >= w->size[i]) return f;
	f.places = (w->size[i] - f.first + f.step - 1) / f.step;
	const int64_t span = (f.places - 1) * f.dilation;
	f.before = (f.first * d - r) / s + span - q;
	f.after = count - size - f.before + span;
	if (f.before < -size) f.after += f.before + size, f.before = -size; /* no more can go than there is: all windows are beside x */
	if (f.after < -size) f.before += f.after + size, f.after = -size;
	return f;
}

/* One phase of all axes, phase[i] of axis i: count[i] elements, of which some may lie beyond the result. */
static ir_ref one_phase(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const int64_t *phase_number,
                        const int64_t *count, const ir_meta *to)
{
	const ir_meta t = ir_meta_of(m->g, x);
	ir_meta part = *to;
	ir_window own = { .n = w->n };
	bool none = false;
	for (int i = 0; i < w->n; i++) {
		const phase f = phase_of(w, i, phase_number[i], t.dim[2 + i], count[i]);
		part.dim[2 + i] = count[i];
		none |= !f.places;
		if (f.places) weight = slice(m, weight, 2 + i, f.first, f.first + (f.places - 1) * f.step + 1, f.step);
		own.size[i] = f.places, own.stride[i] = 1, own.dilation[i] = f.dilation, own.before[i] = f.before, own.after[i] = f.after;
	}
	if (none) return ir_expand(m->g, number(m, (tj_dtype)to->dtype, 0), part.rank, part.dim, m->site);
	weight = turned_weight(m, weight, groups);
	return weight == IR_NONE ? weight : conv(m, x, weight, groups, &own, &part);
}

/* All phases, in row-major order. */
static ir_ref phases(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const int64_t *count, const ir_meta *to)
{
	ir_ref part[IR_MOST_PARTS];
	const int64_t n = product(w->n, w->stride);
	for (int64_t k = 0; k < n; k++) {
		int64_t p[IR_WINDOW_AXES], left = k;
		for (int i = w->n; i-- > 0; left /= w->stride[i]) p[i] = left % w->stride[i];
		part[k] = one_phase(m, x, weight, groups, w, p, count, to);
	}
	return ir_interleaved(m->g, w->n, w->stride, part, m->site);
}

/* stride - 1 zeros between the elements of an axis. */
static ir_ref spread(const made *m, ir_ref x, int axis, int64_t stride)
{
	if (x == IR_NONE || stride == 1) return x;
	ir_meta t = ir_meta_of(m->g, x);
	const int64_t size = t.dim[axis];
	int64_t by[2 * TJ_MAX_RANK] = { 0, stride - 1 };
	const int behind = t.rank - axis - 1;
	memmove(t.dim + axis + 2, t.dim + axis + 1, sizeof *t.dim * (size_t)behind);
	t.dim[axis + 1] = 1;
	x = shaped(m, x, t.rank + 1, t.dim);
	const ir_ref none = number(m, (tj_dtype)t.dtype, 0);
	x = ir_padded(m->g, x, none, 2 * (1 + behind), by, m->site);
	memmove(t.dim + axis + 1, t.dim + axis + 2, sizeof *t.dim * (size_t)behind);
	t.dim[axis] = size * stride;
	x = shaped(m, x, t.rank, t.dim);
	return slice(m, x, axis, 0, (size - 1) * stride + 1, 1);
}

/* With zeros between the elements of x; for strides so large that most elements of the result are 0. */
static ir_ref spread_conv(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to)
{
	ir_window back = *w;
	for (int i = 0; i < w->n; i++) {
		x = spread(m, x, 2 + i, w->stride[i]);
		back.stride[i] = 1;
		back.before[i] = ir_window_span(w, i) - 1 - w->before[i];
		back.after[i] = ir_window_span(w, i) - 1 - w->after[i];
	}
	weight = turned_weight(m, weight, groups);
	return x == IR_NONE || weight == IR_NONE ? IR_NONE : conv(m, x, weight, groups, &back, to);
}

static ir_ref conv_transpose(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to)
{
	int64_t count[IR_WINDOW_AXES];
	if (product(w->n, w->stride) > IR_MOST_PARTS) return spread_conv(m, x, weight, groups, w, to);
	for (int i = 0; i < w->n; i++) count[i] = (to->dim[2 + i] + w->stride[i] - 1) / w->stride[i];
	x = phases(m, x, weight, groups, w, count, to);
	for (int i = 0; i < w->n; i++) x = slice(m, x, 2 + i, 0, to->dim[2 + i], 1);
	return x;
}

/* The windows of all examples, [groups, N * windows, places * C / groups]: x with the channels last, so that what a window has in one row
 * is adjacent in memory. A kernel reads it where it lies (lo_index.jump); windows of places beside one another would be stored. */
static ir_ref rows_of_channels(const made *m, ir_ref x, int64_t groups, const ir_window *w)
{
	int64_t axes[TJ_MAX_RANK];
	x = padded(m, x, w, number(m, (tj_dtype)ir_at(m->g, x)->dtype, 0));
	if (x == IR_NONE) return x;
	ir_meta t = ir_meta_of(m->g, x);
	for (int i = 0; i < t.rank; i++) axes[i] = i == 0 ? 0 : i < t.rank - 1 ? i + 1 : 1;
	x = permuted(m, x, t.rank, axes);
	for (int i = 0; i < w->n; i++)
		x = ir_emit(m->g, IR_unfold, 1, &x, 4, (int64_t[]){ 1 + i, w->size[i], w->stride[i], w->dilation[i] }, m->site);
	if (x == IR_NONE) return x;
	t = ir_meta_of(m->g, x); /* N, windows, C, places */
	const int64_t c = t.dim[1 + w->n], all = product(1 + w->n, t.dim);
	memmove(t.dim + w->n + 3, t.dim + w->n + 2, sizeof *t.dim * (size_t)w->n);
	t.dim[w->n + 1] = groups, t.dim[w->n + 2] = c / groups;
	x = shaped(m, x, ++t.rank, t.dim);
	axes[0] = w->n + 1;
	for (int i = 0; i <= w->n; i++) axes[1 + i] = i;
	for (int i = 0; i < w->n; i++) axes[2 + w->n + i] = w->n + 3 + i;
	axes[t.rank - 1] = w->n + 2;
	return shaped(m, permuted(m, x, t.rank, axes), 3, (int64_t[]){ groups, all, product(w->n, w->size) * (c / groups) });
}

/* CPUs: so many elements of a row of a window are adjacent then that a kernel reads them as quickly as columns that are stored. */
static bool has_long_rows(const ir_meta *weight, const ir_window *w)
{
	enum { ROW = 28 };
	return product(w->n, w->size) > 1 && weight->dim[1] * (w->dilation[w->n - 1] == 1 ? w->size[w->n - 1] : 1) >= ROW;
}

/* For each group, weight [O, places] and all windows of all examples: dy [O, N * windows] times windows [N * windows, C * places]. */
ir_ref ir_conv_by_weight(ir_graph *g, ir_ref x, ir_ref dy, const ir_meta *weight, int64_t groups, const ir_window *w, const char *site)
{
	const made m = { g, site };
	const ir_meta d = ir_meta_of(g, dy);
	const int64_t n = d.dim[0], out = d.dim[1], windows = product(w->n, d.dim + 2), all = n * windows;
	dy = permuted(&m, shaped(&m, dy, 4, (int64_t[]){ n, groups, out / groups, windows }), 4, (int64_t[]){ 1, 2, 0, 3 });
	dy = shaped(&m, dy, 3, (int64_t[]){ groups, out / groups, all });
	if (ir_at(g, x)->device == RT_CPU && has_long_rows(weight, w)) {
		int64_t axes[TJ_MAX_RANK] = { 0, 1 + w->n };
		ir_meta turned = *weight;
		for (int i = 0; i < w->n; i++) axes[2 + i] = 1 + i, turned.dim[1 + i] = w->size[i];
		turned.dim[1 + w->n] = weight->dim[1];
		x = shaped(&m, op2(&m, IR_matmul, dy, rows_of_channels(&m, x, groups, w)), weight->rank, turned.dim);
		return permuted(&m, x, weight->rank, axes);
	}
	x = columns(&m, x, w);
	if (x == IR_NONE) return x;
	const int64_t rows = ir_dims(g, ir_at(g, x))[1];
	x = permuted(&m, shaped(&m, x, 4, (int64_t[]){ n, groups, rows / groups, windows }), 4, (int64_t[]){ 1, 0, 3, 2 });
	x = shaped(&m, x, 3, (int64_t[]){ groups, all, rows / groups });
	return shaped(&m, op2(&m, IR_matmul, dy, x), weight->rank, weight->dim);
}

/* ---- pools ---- */
static double least(tj_dtype t)
{
	return rt_is_float(t) ? -INFINITY
	       : t == TJ_I64  ? (double)INT64_MIN
	       : t == TJ_I32  ? INT32_MIN
	       : t == TJ_I16  ? INT16_MIN
	       : t == TJ_I8   ? INT8_MIN
	                      : 0;
}

static uint32_t places_of(const ir_window *w, const ir_meta *to) { return ((1u << w->n) - 1) << (to->rank - w->n); }

static bool few_places(const ir_window *w) { return product(w->n, w->size) <= MOST_PLACES; }

/* Axis by axis: the largest of the largest. */
static ir_ref max_pool(const made *m, ir_ref x, const ir_window *w, const ir_meta *to)
{
	const ir_ref beside = number(m, (tj_dtype)to->dtype, least((tj_dtype)to->dtype));
	if (!few_places(w)) return ir_reduce(m->g, IR_amax, turned(m, x, w, beside), places_of(w, to), false, m->site);
	for (int i = 0; i < w->n; i++) {
		const int axis = to->rank - w->n + i;
		x = pad_axis(m, x, w, i, axis, beside);
		ir_ref y = IR_NONE;
		for (int64_t j = 0; j < w->size[i] && x != IR_NONE; j++) {
			const ir_ref at = at_place(m, x, w, i, axis, j, to->dim[axis]);
			y = j ? op2(m, IR_maximum, y, at) : at;
			if (y == IR_NONE) return y;
		}
		x = y;
	}
	return x;
}

/* How many elements of each window count: the same sum over an x of ones. */
static ir_ref counts(const made *m, const ir_meta *x, const ir_window *w, tj_dtype wide, bool inside, const ir_meta *to)
{
	ir_window rest = *w;
	ir_meta one = *x;
	for (int i = 0; i < one.rank - w->n; i++) one.dim[i] = 1;
	ir_ref y = ir_expand(m->g, number(m, wide, 1), one.rank, one.dim, m->site);
	if (!inside) {
		int64_t by[2 * IR_WINDOW_AXES];
		for (int i = 0; i < w->n; i++) {
			by[2 * i] = w->before[i], by[2 * i + 1] = w->after[i];
			rest.after[i] = ir_window_behind(w, i, x->dim[x->rank - w->n + i]) - w->after[i];
			rest.before[i] = 0;
			rest.ceil = false;
		}
		y = ir_padded(m->g, y, number(m, wide, 1), 2 * w->n, by, m->site);
	}
	return ir_reduce(m->g, IR_sum, turned(m, y, &rest, number(m, wide, 0)), places_of(w, to), false, m->site);
}

/* Whether each window has as many elements that count as places. */
static bool all_count(const ir_meta *x, const ir_window *w, bool inside)
{
	for (int i = 0; i < w->n; i++) {
		const int64_t after = ir_window_behind(w, i, x->dim[x->rank - w->n + i]);
		if (inside ? w->before[i] || after : after != w->after[i]) return false;
	}
	return true;
}

static ir_ref window_sum(const made *m, ir_ref x, const ir_window *w, ir_ref none, const ir_meta *to)
{
	const int64_t places = product(w->n, w->size);
	ir_ref y = IR_NONE;
	x = padded(m, x, w, none);
	for (int64_t j = 0; j < places && x != IR_NONE; j++) {
		const ir_ref at = at_places(m, x, w, j, to->dim + to->rank - w->n);
		y = j ? op2(m, IR_add, y, at) : at;
		if (y == IR_NONE) return y;
	}
	return y;
}

/* divisor: 0: elements and padding count; below 0: only elements */
static ir_ref avg_pool(const made *m, ir_ref x, const ir_window *w, int64_t divisor, const ir_meta *to)
{
	const tj_dtype wide = rt_compute_dtype((tj_dtype)to->dtype);
	const ir_meta t = ir_meta_of(m->g, x);
	if (divisor == 0 && all_count(&t, w, false)) divisor = product(w->n, w->size);
	if (divisor < 0 && all_count(&t, w, true)) divisor = product(w->n, w->size);
	x = ir_cast(m->g, x, wide, m->site);
	const ir_ref none = number(m, wide, 0);
	const ir_ref sum = few_places(w) ? window_sum(m, x, w, none, to)
	                                 : ir_reduce(m->g, IR_sum, turned(m, x, w, none), places_of(w, to), false, m->site);
	if (sum == IR_NONE) return sum;
	ir_ref by = divisor > 0 ? number(m, wide, (double)divisor) : counts(m, &t, w, wide, divisor < 0, to);
	if (divisor <= 0) by = ir_keep_device(m->g, by, ir_at(m->g, sum));
	const ir_ref y = op2(m, IR_div, sum, by);
	return y == IR_NONE ? y : ir_cast(m->g, y, (tj_dtype)to->dtype, m->site);
}

/* ---- the composites ---- */
bool ir_convolves(int op)
{
	const int c = ir_ops[op].opclass;
	return c == IR_CONV || c == IR_POOL || c == IR_AVG;
}

ir_ref ir_convolve(ir_graph *g, const ir_node *n, const ir_meta *to, const ir_ref *src, const int64_t *attr)
{
	const made m = { g, n->site };
	for (int k = 0; k < n->nsrc; k++)
		if (src[k] == IR_NONE) return IR_NONE;
	const ir_meta weight = ir_meta_of(g, src[n->nsrc - 1]);
	const ir_window w = ir_window_of(n->op, n->nattr, attr, weight.dim + 2);
	switch (n->op) {
	case IR_conv: return conv(&m, src[0], src[1], attr[0], &w, to);
	case IR_conv_transpose: return conv_transpose(&m, src[0], src[1], attr[0], &w, to);
	case IR_max_pool: return max_pool(&m, src[0], &w, to);
	default: return avg_pool(&m, src[0], &w, attr[1], to);
	}
}
