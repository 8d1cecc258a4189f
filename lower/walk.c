/* SPDX-License-Identifier: MIT */
/* walk: what passes that copy a graph share: the walk over its nodes, and parts of values.
 *
 * A part is a box of indices. It is taken through the ops that compute the value: a part of x + y is the sum of parts of x and y, a part
 * of a cat is a part of one of its pieces, or several side by side. Where it goes no further, it is a slice of the whole value. */
#include "lower/walk.h"

/* Integers that are all divided by one fault for all elements or for none. */
static bool faults_alone(const ir_graph *g, const ir_node *n)
{
	return ir_ops[n->op].flags & IR_FAULT && !rt_is_float((tj_dtype)n->dtype) && ir_numel(g, ir_src(g, n, 1)) != 1;
}

bool lo_by_element(const ir_graph *g, const ir_node *n)
{
	return ir_ops[n->op].flags & IR_POINT && !n->weak && n->nsrc && n->nsrc <= 3 && !faults_alone(g, n);
}

ir_ref lo_copy(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r);
	return n->alone ? ir_alone(to, from, r, ir_which(n), src) : ir_copy(to, from, r, src);
}

bool lo_flips(const ir_graph *g, const ir_node *flip, int axis)
{
	bool is = !flip->nattr; /* all axes */
	for (int k = 0; k < flip->nattr; k++) is |= ir_attr(g, flip)[k] == axis;
	return is;
}

/* ---- parts ---- */
static const int64_t *dims(const lo_walk *w, ir_ref r) { return ir_dims(w->from, ir_at(w->from, r)); }

bool lo_same_box(const lo_box *a, const lo_box *b, int rank)
{
	const size_t bytes = sizeof *a->n * (size_t)rank;
	return !memcmp(a->lo, b->lo, bytes) && !memcmp(a->n, b->n, bytes) && !memcmp(a->skip, b->skip, bytes);
}

lo_box lo_whole(const lo_walk *w, ir_ref r)
{
	lo_box b = { .n = { 0 } };
	memcpy(b.n, dims(w, r), sizeof *b.n * ir_at(w->from, r)->rank);
	return b;
}

bool lo_is_whole(const lo_walk *w, ir_ref r, const lo_box *b)
{
	return !memcmp(b->n, dims(w, r), sizeof *b->n * ir_at(w->from, r)->rank);
}

lo_box lo_box_of_operand(const lo_walk *w, ir_ref r, ir_ref x, const lo_box *b)
{
	const int lead = ir_at(w->from, r)->rank - ir_at(w->from, x)->rank;
	lo_box o = { .n = { 0 } };
	for (int i = 0; i < ir_at(w->from, x)->rank; i++) {
		o.n[i] = 1;
		if (dims(w, x)[i] == dims(w, r)[i + lead]) lo_box_axis(&o, i, b, i + lead);
	}
	return o;
}

ir_ref lo_slice(lo_walk *w, ir_ref r, const lo_box *b)
{
	ir_ref y = w->map[r];
	for (int i = 0; i < ir_at(w->from, r)->rank && y != IR_NONE; i++)
		if (b->n[i] != dims(w, r)[i])
			y = ir_emit(w->to, IR_slice, 1, &y, 4, (int64_t[]){ i, b->lo[i], lo_box_end(b, i), lo_box_step(b, i) }, ir_at(w->from, r)->site);
	return y;
}

ir_ref lo_part_of_point(lo_walk *w, ir_ref r, const lo_box *b)
{
	const ir_node *n = ir_at(w->from, r);
	ir_ref src[3];
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref x = ir_src(w->from, n, k);
		const lo_box o = lo_box_of_operand(w, r, x, b);
		src[k] = lo_part(w, x, &o);
	}
	w->to->mode = n->mode;
	return ir_copy(w->to, w->from, r, src);
}

static ir_ref part_of_cat(lo_walk *w, ir_ref r, const lo_box *b)
{
	enum { PIECES = 16 };
	const ir_node *n = ir_at(w->from, r);
	const int axis = (int)ir_attr(w->from, n)[0];
	int64_t at = 0, end = lo_box_end(b, axis);
	ir_ref v[PIECES];
	int count = 0;
	for (int k = 0; k < n->nsrc && at < end; k++) {
		const ir_ref x = ir_src(w->from, n, k);
		const int64_t next = at + dims(w, x)[axis], lo = b->lo[axis] > at ? b->lo[axis] : at, hi = end < next ? end : next;
		lo_box piece = *b;
		piece.lo[axis] = lo - at;
		if (!b->skip[axis]) piece.n[axis] = hi - lo;
		at = next;
		if (hi <= lo) continue;
		if (count == PIECES || (b->skip[axis] && (lo > b->lo[axis] || hi < end))) return lo_slice(w, r, b); /* steps over an edge */
		v[count++] = lo_part(w, x, &piece);
	}
	return count == 1 ? v[0] : ir_emit(w->to, IR_cat, count, v, 1, (int64_t[]){ axis }, n->site);
}

/* One element of n adjacent axes of `to`, as one of m adjacent axes of `from`. */
static bool one_below(const int64_t *to, const lo_box *b, int i, int n, const int64_t *from, lo_box *o, int k, int m)
{
	int64_t at = 0;
	for (int a = i; a < i + n; a++) {
		if (b->n[a] != 1) return false;
		at = at * to[a] + b->lo[a];
	}
	for (int a = k + m - 1; a >= k; a--) {
		o->lo[a] = at % from[a], o->n[a] = 1;
		at /= from[a];
	}
	return true;
}

/* The box of a reshape's operand: axes are the same, or the box has all of those that differ, or one element of them. */
static bool box_below(const lo_walk *w, ir_ref r, const lo_box *b, lo_box *o)
{
	const ir_node *n = ir_at(w->from, r);
	const ir_ref x = ir_src(w->from, n, 0);
	const int64_t *to = dims(w, r), *from = dims(w, x);
	const int rank = ir_at(w->from, x)->rank;
	int i = 0, k = 0;
	*o = lo_whole(w, x);
	while (i < n->rank || k < rank) {
		while (i < n->rank && to[i] == 1) i++;
		while (k < rank && from[k] == 1) k++;
		if (i == n->rank || k == rank) return i == n->rank && k == rank;
		const int i0 = i, k0 = k;
		int64_t above = to[i], below = from[k];
		bool all = b->n[i] == to[i];
		if (above == below) lo_box_axis(o, k, b, i), all = true;
		for (i++, k++; above != below;)
			if (above < below && i < n->rank) all &= b->n[i] == to[i], above *= to[i++];
			else if (below < above && k < rank) below *= from[k++];
			else return false;
		if (!all && !one_below(to, b, i0, i - i0, from, o, k0, k - k0)) return false;
	}
	return true;
}

static ir_ref part_of_view(lo_walk *w, ir_ref r, const lo_box *b)
{
	const ir_node *n = ir_at(w->from, r);
	const ir_ref x = ir_src(w->from, n, 0);
	const int64_t *attr = ir_attr(w->from, n);
	const int rank = ir_at(w->from, x)->rank;
	lo_box o = *b;
	ir_ref y;
	switch (n->op) {
	case IR_expand:
		o = lo_box_of_operand(w, r, x, b);
		return ir_expand(w->to, lo_part(w, x, &o), n->rank, b->n, n->site);
	case IR_reshape: case IR_squeeze: case IR_unsqueeze:
		if (!box_below(w, r, b, &o)) return lo_slice(w, r, b);
		return ir_reshape(w->to, lo_part(w, x, &o), n->rank, b->n, n->site);
	case IR_slice:
		lo_box_below_slice(&o, (int)attr[0], attr[1], attr[3]);
		if (attr[3] > 0 || b->n[attr[0]] == 1) return lo_part(w, x, &o);
		o = lo_whole(w, x); /* all of that axis, then its slice */
		for (int i = 0; i < rank; i++)
			if (i != attr[0]) lo_box_axis(&o, i, b, i);
		y = lo_part(w, x, &o);
		if (b->n[attr[0]] != dims(w, r)[attr[0]]) return lo_slice(w, r, b);
		return y == IR_NONE ? y : ir_emit(w->to, IR_slice, 1, &y, 4, attr, n->site);
	case IR_flip:
		for (int i = 0; i < rank; i++)
			if (lo_flips(w->from, n, i)) o.lo[i] = dims(w, r)[i] - lo_box_end(b, i);
		break;
	case IR_permute:
		for (int i = 0; i < rank; i++) lo_box_axis(&o, (int)attr[i], b, i);
		break;
	case IR_transpose:
		lo_box_axis(&o, (int)attr[0], b, (int)attr[1]);
		lo_box_axis(&o, (int)attr[1], b, (int)attr[0]);
		break;
	default: return lo_slice(w, r, b);
	}
	y = lo_part(w, x, &o);
	return y == IR_NONE ? y : ir_emit(w->to, (ir_op)n->op, 1, &y, n->nattr, attr, n->site);
}

/* What an empty box is a part of does not matter, and the rules below look at axes that it has. */
static bool is_empty(const lo_box *b, int rank)
{
	for (int i = 0; i < rank; i++)
		if (!b->n[i]) return true;
	return false;
}

static ir_ref make_part(lo_walk *w, ir_ref r, const lo_box *b)
{
	const ir_node *n = ir_at(w->from, r);
	ir_ref y;
	if (lo_is_whole(w, r, b)) return w->map[r];
	if (is_empty(b, n->rank)) return ir_keep_device(w->to, ir_const_i(w->to, (tj_dtype)n->dtype, n->rank, b->n, 0), n);
	if (w->own && w->own(w->env, r, b, &y)) return y;
	if (lo_by_element(w->from, n)) return lo_part_of_point(w, r, b);
	if (n->op == IR_cat) return part_of_cat(w, r, b);
	return ir_ops[n->op].flags & IR_VIEW ? part_of_view(w, r, b) : lo_slice(w, r, b);
}

ir_ref lo_part(lo_walk *w, ir_ref r, const lo_box *b)
{
	for (int32_t i = w->first[r]; i >= 0; i = w->made.v[i].next)
		if (lo_same_box(&w->made.v[i].box, b, ir_at(w->from, r)->rank)) return w->made.v[i].part;
	const ir_ref y = make_part(w, r, b);
	if (y == IR_NONE || !rt_push(&w->made, ((lo_made){ y, w->first[r], *b }))) return IR_NONE;
	w->first[r] = (int32_t)w->made.n - 1;
	return y;
}

/* ---- the walk ---- */
static bool copy_live(lo_walk *w, const bool *live, ir_ref *src)
{
	for (ir_ref r = 0; r < w->from->node.n; r++) {
		const ir_node *x = ir_at(w->from, r);
		w->map[r] = IR_NONE;
		w->first[r] = -1;
		w->to->mode = x->mode;
		if (!live[r]) continue;
		for (int k = 0; k < x->nsrc; k++) src[k] = w->map[ir_src(w->from, x, k)];
		if ((w->map[r] = w->walk(w->env, r, src)) == IR_NONE) return false;
	}
	for (uint32_t i = 0; i < w->from->out.n; i++)
		if (!ir_ret(w->to, w->map[w->from->out.v[i]])) return false;
	return true;
}

tj_status lo_walk_graph(lo_walk *w, rt_err *err)
{
	const uint32_t n = w->from->node.n + 1;
	ir_ref *src = rt_alloc(sizeof *src * (w->from->refs.n + 1));
	bool *live = rt_alloc(n);
	w->map = rt_alloc(sizeof *w->map * n);
	w->first = rt_alloc(sizeof *w->first * n);
	const bool ok = src && live && w->map && w->first && (ir_live(w->from, live), copy_live(w, live, src));
	rt_free(src);
	rt_free(live);
	rt_free(w->map);
	rt_free(w->first);
	rt_vec_free(&w->made);
	if (ok) return TJ_OK;
	if (w->to->err.code == TJ_OK) rt_fail(&w->to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (err && err->code == TJ_OK) *err = w->to->err;
	return w->to->err.code;
}
