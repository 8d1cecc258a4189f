/* conv: decompositions of convolution and pooling.
 *
 *   %2 = conv f32[1,8,4] %0 %1 groups=1 window=1,1,0,0     =>     %2 = unfold f32[1,3,4,5] %0 axis=2 size=5 step=1 dilation=1
 *   (%0: f32[1,3,8], %1: f32[8,3,5])                              %3 = permute f32[1,3,5,4] %2 axes=0,1,3,2
 *                                                                 %4 = reshape f32[1,15,4] %3
 *                                                                 %5 = reshape f32[8,15] %1
 *                                                                 %6 = matmul f32[1,8,4] %5 %4
 *
 * A convolution is a product of the weight and the windows: its sums have the order of a product's over channel, then place in the
 * window. Where each channel has a group of its own there is nothing to multiply matrices for: it is a sum over the places. conv_transpose is
 * the conv of its operand, with zeros between the elements, and of the weight turned round. A pool reduces its windows. */
#include "ir/conv.h"
#include "ir/moves.h"

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

/* The windows as a view: leading axes, windows, places in a window. */
static ir_ref view(const made *m, ir_ref x, const ir_window *w, ir_ref value)
{
	x = padded(m, x, w, value);
	if (x == IR_NONE) return x;
	const int first = ir_at(m->g, x)->rank - w->n;
	for (int i = 0; i < w->n; i++) x = ir_emit(m->g, IR_unfold, 1, &x, 4, (int64_t[]){ first + i, w->size[i], w->stride[i], w->dilation[i] }, m->site);
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

/* One group for each channel: the sum over the places, in the dtype of computation. */
static ir_ref by_channel(const made *m, ir_ref x, ir_ref weight, const ir_window *w, const ir_meta *to)
{
	const tj_dtype wide = rt_compute_dtype((tj_dtype)to->dtype);
	x = ir_cast(m->g, x, wide, m->site);
	weight = ir_cast(m->g, weight, wide, m->site);
	const ir_ref none = number(m, wide, 0);
	x = turned(m, x, w, none);
	if (x == IR_NONE || weight == IR_NONE) return IR_NONE;
	ir_meta t = ir_meta_of(m->g, x), k = t;
	const int64_t each = t.dim[1] ? to->dim[1] / t.dim[1] : 0;
	const bool several = each > 1;
	if (several) { /* [N, C, 1, places, windows] */
		memmove(t.dim + 3, t.dim + 2, sizeof *t.dim * (size_t)(t.rank++ - 2));
		t.dim[2] = 1;
		x = shaped(m, x, t.rank, t.dim);
	}
	k = t;
	k.dim[0] = 1;
	if (several) k.dim[2] = each;
	for (int i = k.rank - w->n; i < k.rank; i++) k.dim[i] = 1;
	weight = shaped(m, weight, k.rank, k.dim);
	const uint32_t places = ((1u << w->n) - 1) << (t.rank - 2 * w->n);
	ir_ref y = ir_reduce(m->g, IR_sum, op2(m, IR_mul, x, weight), places, false, m->site);
	y = shaped(m, y, to->rank, to->dim);
	return y == IR_NONE ? y : ir_cast(m->g, y, (tj_dtype)to->dtype, m->site);
}

static ir_ref conv(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to)
{
	const ir_meta t = ir_meta_of(m->g, weight);
	if (t.dim[1] == 1 && groups > 1) return by_channel(m, x, weight, w, to);
	x = columns(m, x, w);
	if (x == IR_NONE) return x;
	const ir_meta c = ir_meta_of(m->g, x);
	if (groups == 1) {
		weight = shaped(m, weight, 2, (int64_t[]){ t.dim[0], c.dim[1] });
	} else {
		weight = shaped(m, weight, 3, (int64_t[]){ groups, t.dim[0] / groups, c.dim[1] / groups });
		x = shaped(m, x, 4, (int64_t[]){ c.dim[0], groups, c.dim[1] / groups, c.dim[2] });
	}
	return shaped(m, op2(m, IR_matmul, weight, x), to->rank, to->dim);
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

static ir_ref conv_transpose(const made *m, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to)
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

/* For each group, weight [O, places] and all windows of all examples: dy [O, N * windows] times windows [N * windows, C * places]. */
ir_ref ir_conv_by_weight(ir_graph *g, ir_ref x, ir_ref dy, const ir_meta *weight, int64_t groups, const ir_window *w, const char *site)
{
	const made m = { g, site };
	const ir_meta d = ir_meta_of(g, dy);
	const int64_t n = d.dim[0], out = d.dim[1], windows = product(w->n, d.dim + 2), all = n * windows;
	x = columns(&m, x, w);
	if (x == IR_NONE) return x;
	const int64_t rows = ir_dims(g, ir_at(g, x))[1];
	x = permuted(&m, shaped(&m, x, 4, (int64_t[]){ n, groups, rows / groups, windows }), 4, (int64_t[]){ 1, 0, 3, 2 });
	x = shaped(&m, x, 3, (int64_t[]){ groups, all, rows / groups });
	dy = permuted(&m, shaped(&m, dy, 4, (int64_t[]){ n, groups, out / groups, windows }), 4, (int64_t[]){ 1, 2, 0, 3 });
	dy = shaped(&m, dy, 3, (int64_t[]){ groups, out / groups, all });
	return shaped(&m, op2(&m, IR_matmul, dy, x), weight->rank, weight->dim);
}

/* ---- pools ---- */
static double least(tj_dtype t)
{
	return rt_is_float(t) ? -INFINITY : t == TJ_I64 ? (double)INT64_MIN : t == TJ_I32 ? INT32_MIN : t == TJ_I16 ? INT16_MIN : t == TJ_I8 ? INT8_MIN : 0;
}

static uint32_t places_of(const ir_window *w, const ir_meta *to) { return ((1u << w->n) - 1) << (to->rank - w->n); }

static ir_ref max_pool(const made *m, ir_ref x, const ir_window *w, const ir_meta *to)
{
	const ir_ref beside = number(m, (tj_dtype)to->dtype, least((tj_dtype)to->dtype));
	return ir_reduce(m->g, IR_amax, turned(m, x, w, beside), places_of(w, to), false, m->site);
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

/* divisor: 0: elements and padding count; below 0: only elements */
static ir_ref avg_pool(const made *m, ir_ref x, const ir_window *w, int64_t divisor, const ir_meta *to)
{
	const tj_dtype wide = rt_compute_dtype((tj_dtype)to->dtype);
	const ir_meta t = ir_meta_of(m->g, x);
	if (divisor == 0 && all_count(&t, w, false)) divisor = product(w->n, w->size);
	if (divisor < 0 && all_count(&t, w, true)) divisor = product(w->n, w->size);
	x = ir_cast(m->g, x, wide, m->site);
	const ir_ref none = number(m, wide, 0);
	const ir_ref sum = ir_reduce(m->g, IR_sum, turned(m, x, w, none), places_of(w, to), false, m->site);
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
