/* SPDX-License-Identifier: MIT */
/* moves: decompositions of composites that only move elements, or put a number in place of some.
 *
 *   %1 = roll f32[5] %0 axis=0 n=2     =>     %1 = slice f32[2] %0 axis=0 start=3 stop=5 step=1
 *                                             %2 = slice f32[3] %0 axis=0 start=0 stop=3 step=1
 *                                             %3 = cat f32[5] %1 %2 axis=0
 *
 * called by ir_decompose(). Emitting moves nodes and attributes, so the type of a value is copied before. */
#include "ir/moves.h"

typedef struct mover { ir_graph *g; const char *site; } mover;

static ir_ref slice(const mover *m, ir_ref x, int64_t axis, int64_t start, int64_t stop, int64_t step)
{
	return ir_emit(m->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, start, stop, step }, m->site);
}

static ir_ref reshape(const mover *m, ir_ref x, const ir_meta *to) { return ir_reshape(m->g, x, to->rank, to->dim, m->site); }
static ir_ref zero(const mover *m, const ir_meta *like)
{
	return rt_is_float((tj_dtype)like->dtype) ? ir_const_f(m->g, (tj_dtype)like->dtype, 0, NULL, 0)
	                                          : ir_const_i(m->g, (tj_dtype)like->dtype, 0, NULL, 0);
}

/* ---- diagonals ---- */
/* 0, 1, ..., n - 1 plus `from`, along axis 0 or 1 of two. */
static ir_ref counter(const mover *m, int64_t n, int64_t from, int axis)
{
	const ir_ref x = ir_emit(m->g, IR_arange, 0, NULL, 4, (int64_t[]){ TJ_I64, from, from + n, 1 }, m->site);
	return ir_reshape(m->g, x, 2, (int64_t[]){ axis ? 1 : n, axis ? n : 1 }, m->site);
}

/* x where `compare`(column - row, k), else 0. */
static ir_ref where_diagonal(const mover *m, ir_ref x, ir_op compare, int64_t k, int64_t rows, int64_t columns)
{
	const ir_meta type = ir_meta_of(m->g, x);
	const ir_ref row = counter(m, rows, k, 0), column = counter(m, columns, 0, 1);
	const ir_ref keep = ir_op2(m->g, compare, column, row, m->site), none = zero(m, &type);
	return ir_emit(m->g, IR_where, 3, (ir_ref[]){ keep, x, none }, 0, NULL, m->site);
}

static ir_ref triangle(const mover *m, ir_op op, ir_ref x, int64_t k)
{
	const int64_t far = INT64_MAX / 4; /* beyond any element, and no sum with a size overflows */
	const ir_meta t = ir_meta_of(m->g, x);
	k = k > far ? far : k < -far ? -far : k;
	return where_diagonal(m, x, op == IR_tril ? IR_le : IR_ge, k, t.dim[t.rank - 2], t.dim[t.rank - 1]);
}

/* The last axis on diagonal k of two axes: each row has the element that it keeps in all places. */
static ir_ref diag_embed(const mover *m, ir_ref x, int64_t k, const ir_meta *to)
{
	const int64_t n = to->dim[to->rank - 1], ahead = k > 0 ? k : 0;
	ir_meta t = ir_meta_of(m->g, x), side = t;
	if (k) {
		side.dim[t.rank - 1] = k > 0 ? k : -k;
		const ir_ref host = zero(m, &side), none = ir_keep_device(m->g, host, ir_at(m->g, x)),
			     fill = ir_expand(m->g, none, side.rank, side.dim, m->site);
		x = ir_emit(m->g, IR_cat, 2, ahead ? (ir_ref[]){ fill, x } : (ir_ref[]){ x, fill }, 1, (int64_t[]){ t.rank - 1 }, m->site);
		if (x == IR_NONE) return x;
	}
	t = *to;
	t.dim[t.rank - 2] = 1; /* by column */
	return where_diagonal(m, reshape(m, x, &t), IR_eq, k, n, n);
}

/* The diagonal is a slice of the two axes as one. */
static ir_ref diagonal(const mover *m, ir_ref x, int64_t k, int64_t a, int64_t b, const ir_meta *to)
{
	ir_meta t = ir_meta_of(m->g, x);
	int64_t axes[TJ_MAX_RANK];
	int n = 0;
	for (int i = 0; i < t.rank; i++)
		if (i != a && i != b) axes[n++] = i;
	axes[n] = a;
	axes[n + 1] = b;
	const int64_t rows = t.dim[a], columns = t.dim[b], count = to->dim[to->rank - 1], first = k > 0 ? k : -k * columns;
	for (int i = 0; i < n; i++) t.dim[i] = to->dim[i];
	x = ir_emit(m->g, IR_permute, 1, &x, t.rank, axes, m->site);
	t.rank--;
	t.dim[t.rank - 1] = rows * columns;
	x = reshape(m, x, &t);
	return count ? slice(m, x, t.rank - 1, first, first + (count - 1) * (columns + 1) + 1, columns + 1) : slice(m, x, t.rank - 1, 0, 0, 1);
}

static ir_ref trace(const mover *m, ir_ref x, const ir_meta *to)
{
	const ir_meta t = ir_meta_of(m->g, x);
	const int64_t n = t.dim[0] < t.dim[1] ? t.dim[0] : t.dim[1];
	const ir_ref d = diagonal(m, x, 0, 0, 1, &(ir_meta){ .rank = 1, .dim = { n } });
	(void)to;
	return ir_reduce(m->g, IR_sum, d, 1, false, m->site);
}

/* ---- parts that lie beside one another ---- */
/* Those of axis i and of the axes behind it; *part: the next one. */
static ir_ref beside(const mover *m, int n, const int64_t *stride, int i, const ir_ref **part)
{
	ir_ref each[IR_MOST_PARTS];
	if (i == n) {
		ir_ref x = *(*part)++;
		if (x == IR_NONE) return x;
		ir_meta t = ir_meta_of(m->g, x);
		const int lead = t.rank - n;
		for (int k = n; k-- > 0;) t.dim[lead + 2 * k] = t.dim[lead + k], t.dim[lead + 2 * k + 1] = 1;
		t.rank = (uint8_t)(lead + 2 * n);
		return reshape(m, x, &t);
	}
	for (int64_t k = 0; k < stride[i]; k++) each[k] = beside(m, n, stride, i + 1, part);
	if (stride[i] == 1 || each[0] == IR_NONE) return each[0];
	const int64_t axis = ir_at(m->g, each[0])->rank - 2 * (n - i) + 1;
	return ir_emit(m->g, IR_cat, (int)stride[i], each, 1, &axis, m->site);
}

ir_ref ir_interleaved(ir_graph *g, int n, const int64_t *stride, const ir_ref *part, const char *site)
{
	const mover m = { g, site };
	const ir_ref x = beside(&m, n, stride, 0, &part);
	if (x == IR_NONE) return x;
	ir_meta t = ir_meta_of(g, x);
	const int lead = t.rank - 2 * n;
	for (int i = 0; i < n; i++) t.dim[lead + i] = t.dim[lead + 2 * i] * t.dim[lead + 2 * i + 1];
	t.rank = (uint8_t)(lead + n);
	return reshape(&m, x, &t);
}

/* ---- along an axis ---- */
static ir_ref roll(const mover *m, ir_ref x, int64_t axis, int64_t shift)
{
	const ir_meta t = ir_meta_of(m->g, x);
	const int64_t n = t.rank ? t.dim[axis] : 1, by = n ? (shift % n + n) % n : 0;
	if (!by) return x;
	const ir_ref last = slice(m, x, axis, n - by, n, 1), first = slice(m, x, axis, 0, n - by, 1);
	return ir_emit(m->g, IR_cat, 2, (ir_ref[]){ last, first }, 1, &axis, m->site);
}

/* Repeats what is behind axis `at` of x n times: at a new axis there. */
static ir_ref repeated(const mover *m, ir_ref x, int at, int64_t n)
{
	ir_meta t = ir_meta_of(m->g, x);
	memmove(t.dim + at + 1, t.dim + at, sizeof *t.dim * (size_t)(t.rank - at));
	t.rank++;
	t.dim[at] = 1;
	x = reshape(m, x, &t);
	t.dim[at] = n;
	return ir_expand(m->g, x, t.rank, t.dim, m->site);
}

static ir_ref repeat_interleave(const mover *m, ir_ref x, int64_t axis, int64_t n, const ir_meta *to)
{
	return reshape(m, repeated(m, x, (int)axis + (ir_at(m->g, x)->rank > 0), n), to);
}

/* One axis after the other, so that no value has more than one axis too many. */
static ir_ref tile(const mover *m, ir_ref x, int nreps, const int64_t *reps)
{
	ir_meta t = ir_meta_of(m->g, x);
	const int lead = nreps > t.rank ? nreps - t.rank : 0;
	memmove(t.dim + lead, t.dim, sizeof *t.dim * t.rank);
	for (int i = 0; i < lead; i++) t.dim[i] = 1;
	t.rank = (uint8_t)(t.rank + lead);
	x = reshape(m, x, &t);
	for (int i = 0; i < t.rank; i++) {
		const int64_t n = i < t.rank - nreps ? 1 : reps[i - (t.rank - nreps)];
		if (n == 1 || x == IR_NONE) continue;
		t.dim[i] *= n;
		x = reshape(m, repeated(m, x, i, n), &t);
	}
	return x;
}

/* ---- pad ---- */
/* `n` elements before or behind axis `axis` of x, whose size is `size`; n < 0: so many fewer. */
static ir_ref side(const mover *m, ir_ref x, ir_ref value, int mode, int axis, int64_t n, bool before)
{
	ir_meta t = ir_meta_of(m->g, x);
	const int64_t size = t.dim[axis];
	t.dim[axis] = n;
	if (mode == TJ_PAD_REFLECT)
		return before ? slice(m, x, axis, n, 0, -1) : slice(m, x, axis, size - 2, size - 2 - n < 0 ? TJ_END_DIM : size - 2 - n, -1);
	if (mode == TJ_PAD_CIRCULAR) return before ? slice(m, x, axis, size - n, size, 1) : slice(m, x, axis, 0, n, 1);
	if (mode == TJ_PAD_REPLICATE) value = before ? slice(m, x, axis, 0, 1, 1) : slice(m, x, axis, size - 1, size, 1);
	value = ir_keep_device(m->g, value, ir_at(m->g, x));
	return ir_expand(m->g, value, t.rank, t.dim, m->site);
}

/* Without the elements that a negative number takes away at an end. */
static ir_ref cut(const mover *m, ir_ref x, int64_t axis, int64_t before, int64_t after)
{
	const int64_t size = ir_dims(m->g, ir_at(m->g, x))[axis];
	return before >= 0 && after >= 0 ? x : slice(m, x, axis, before < 0 ? -before : 0, after < 0 ? size + after : size, 1);
}

static ir_ref pad(const mover *m, ir_ref x, ir_ref value, int mode, int npad, const int64_t *by)
{
	const int first = ir_at(m->g, x)->rank - npad / 2;
	if (ir_at(m->g, value)->weak) value = ir_cast(m->g, value, (tj_dtype)ir_at(m->g, x)->dtype, m->site); /* a view of a number is f32 */
	for (int64_t axis = first; axis < first + npad / 2; axis++) {
		const int64_t before = by[2 * (axis - first)], after = by[2 * (axis - first) + 1];
		const int64_t left = ir_dims(m->g, ir_at(m->g, x))[axis] + (before < 0 ? before : 0) + (after < 0 ? after : 0);
		const bool late = mode == TJ_PAD_REFLECT || mode == TJ_PAD_REPLICATE ||
		                  left < 0; /* mirrors elements that go, too; or windows leave out some of the padding */
		if (!late) x = cut(m, x, axis, before, after);
		if (x == IR_NONE) return x;
		ir_ref part[3];
		int n = 0;
		if (before > 0) part[n++] = side(m, x, value, mode, (int)axis, before, true);
		part[n++] = x;
		if (after > 0) part[n++] = side(m, x, value, mode, (int)axis, after, false);
		if (n > 1) x = ir_emit(m->g, IR_cat, n, part, 1, &axis, m->site);
		if (late && x != IR_NONE) x = cut(m, x, axis, before, after);
		if (x == IR_NONE) return x;
	}
	return x;
}

ir_ref ir_padded(ir_graph *g, ir_ref x, ir_ref value, int npad, const int64_t *by, const char *site)
{
	return x == IR_NONE || value == IR_NONE ? IR_NONE : pad(&(mover){ g, site }, x, value, TJ_PAD_CONSTANT, npad, by);
}

/* ---- the composites ---- */
bool ir_moves(int op)
{
	switch (op) {
	case IR_tril: case IR_triu: case IR_diagonal: case IR_diag_embed: case IR_trace: case IR_roll: case IR_repeat_interleave: case IR_tile:
	case IR_pad: case IR_masked_fill: return true;
	default: return false;
	}
}

ir_ref ir_move(ir_graph *g, const ir_node *n, const ir_meta *to, const ir_ref *src, const int64_t *attr)
{
	const mover m = { g, n->site };
	const ir_ref x = src[0];
	for (int k = 0; k < n->nsrc; k++)
		if (src[k] == IR_NONE) return IR_NONE;
	switch (n->op) {
	case IR_tril: case IR_triu: return triangle(&m, (ir_op)n->op, x, attr[0]);
	case IR_diagonal: return diagonal(&m, x, attr[0], attr[1], attr[2], to);
	case IR_diag_embed: return diag_embed(&m, x, attr[0], to);
	case IR_trace: return trace(&m, x, to);
	case IR_roll: return roll(&m, x, attr[0], attr[1]);
	case IR_repeat_interleave: return repeat_interleave(&m, x, attr[0], attr[1], to);
	case IR_tile: return tile(&m, x, n->nattr, attr);
	case IR_pad: return pad(&m, x, src[1], (int)attr[0], n->nattr - 1, attr + 1);
	default: return ir_emit(g, IR_where, 3, (ir_ref[]){ src[1], src[2], x }, 0, NULL, n->site); /* masked_fill */
	}
}
