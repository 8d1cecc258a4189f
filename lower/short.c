/* SPDX-License-Identifier: MIT */
/* short: values along an axis of a few elements are taken apart, so that lanes go along a longer one.
 *
 * requires plain reductions; keeps values bit for bit: sums in the order of ir/tree.c, products in that of runtime/chain.c
 *
 *   %2 = mul f32[1000,3] %0 %1               %2 = slice f32[1000,1] %0 axis=1 start=0 ..     and the like: %3, %4 of %0; %5 to %7 of %1
 *   %3 = sum f32[1000] %2 axes=1       =>    %8 = mul f32[1000,1] %2 %5                      and %9, %10
 *                                            %11 = add f32[1000,1] %8 %10                    lanes 0 and 2 of the tree, then lane 1
 *                                            %12 = add f32[1000,1] %11 %9
 *                                            %13 = reshape f32[1000] %12
 *
 * It begins where something reduces such an axis, a product of small matrices has one, or elements of it are selected. What is computed
 * from that follows: a point op with an operand that is apart is computed by parts, and so is a reduction over another axis. A reader
 * that is none of these gets the parts joined by a cat, whose operands one kernel stores.
 *
 * A part is taken through what computes the value, down to its leaves. There it is a slice: code generation loads the parts of some
 * neighbours together. */
#include "lower/fuse.h"

enum {
	SHORT = 16,          /* longest axis that is taken apart */
	NEAR = 4,            /* the same if the axis is one of an argument, or 2^k: few shuffles take its vectors apart */
	LEAST = 8,          /* least number of elements of a part: it fills some lanes */
	MOST_WORK = 128,     /* most work of all parts of a value (lo_work()) */
	SMALL_PRODUCT = 4,   /* largest matrix on the right of a product */
	LEAST_ROWS = 64     /* of such a product */
};

/* An axis of a node that is apart, or was: it has size 1, or it is gone and was before axis `axis`. */
typedef struct mark { bool any, gone; int8_t axis; } mark;
typedef struct made { ir_ref of; int32_t axis, i; ir_ref part; } made;

typedef struct pass {
	const ir_graph *from;
	ir_graph *to;
	const lo_moving *moving;
	uint32_t *users, *sliced;  /* by node of from: all its users, those that are slices of one element along a short axis */
	rt_vec(mark) mark;         /* by node of to; behind the end: not marked */
	made *table;              /* of parts, open addressing */
	uint32_t size, n;
	bool oom;
} pass;

static const int64_t *dims(const pass *p, ir_ref r) { return ir_dims(p->to, ir_at(p->to, r)); }
static int rank_of(const pass *p, ir_ref r) { return ir_at(p->to, r)->rank; }

/* ---- marks ---- */
static mark mark_of(const pass *p, ir_ref r) { return r < p->mark.n ? p->mark.v[r] : (mark){ 0 }; }

static ir_ref marked(pass *p, ir_ref r, mark m)
{
	while (r != IR_NONE && p->mark.n <= r)
		if (!rt_push(&p->mark, (mark){ 0 })) return p->oom = true, IR_NONE;
	if (r != IR_NONE) p->mark.v[r] = m;
	return r;
}

static bool is_apart(const pass *p, ir_ref r)
{
	const mark m = mark_of(p, r);
	return m.any && !m.gone && dims(p, r)[m.axis] > 1;
}

/* ---- parts that were made ---- */
static made *slot(made *table, uint32_t size, ir_ref of, int axis, int64_t i)
{
	uint32_t h = (of * 31u + (uint32_t)axis) * 0x9E3779B1u + (uint32_t)i * 0x85EBCA77u;
	for (h ^= h >> 15;; h++) {
		made *k = &table[h & (size - 1)];
		if (k->part == IR_NONE || (k->of == of && k->axis == axis && k->i == i)) return k;
	}
}

static bool grow(pass *p)
{
	const uint32_t size = p->size ? 2 * p->size : 64;
	made *table = rt_alloc(size * sizeof *table);
	if (!table) return false;
	for (uint32_t i = 0; i < size; i++) table[i].part = IR_NONE;
	for (uint32_t i = 0; i < p->size; i++)
		if (p->table[i].part != IR_NONE) *slot(table, size, p->table[i].of, p->table[i].axis, p->table[i].i) = p->table[i];
	rt_free(p->table);
	p->table = table;
	p->size = size;
	return true;
}

/* ---- parts ---- */
static ir_ref part(pass *p, ir_ref r, int axis, int64_t i);

static bool by_element(const ir_node *n)
{
	return ir_ops[n->op].flags & IR_POINT && !(ir_ops[n->op].flags & IR_FAULT) && !n->weak && n->nsrc && n->nsrc <= 3;
}

static ir_ref slice(pass *p, ir_ref r, int axis, int64_t i)
{
	return ir_emit(p->to, IR_slice, 1, &r, 4, (int64_t[]){ axis, i, i + 1, 1 }, ir_at(p->to, r)->site);
}

/* A copy of the node on other operands; copies, because emitting moves nodes. */
static ir_ref again(pass *p, const ir_node *n, const ir_ref *src)
{
	int64_t attr[TJ_MAX_RANK + 4];
	memcpy(attr, ir_attr(p->to, n), sizeof *attr * n->nattr);
	p->to->mode = n->mode;
	return ir_keep_device(p->to, ir_emit(p->to, (ir_op)n->op, n->nsrc, src, n->nattr, attr, n->site), n);
}

static ir_ref part_of_point(pass *p, ir_ref r, int axis, int64_t i)
{
	const ir_node n = *ir_at(p->to, r);
	ir_ref src[3];
	for (int k = 0; k < n.nsrc; k++) {
		src[k] = ir_src(p->to, &n, k);
		const int at = axis - (n.rank - rank_of(p, src[k]));
		if (at >= 0) src[k] = part(p, src[k], at, i);
	}
	return again(p, &n, src);
}

/* The axis of the view's operand that is the view's axis, which has more than one element; -1: none is it, as a whole. */
static int axis_below(const pass *p, const ir_node *n, int axis)
{
	const ir_node *x = ir_at(p->to, ir_src(p->to, n, 0));
	const int64_t *to = ir_dims(p->to, n), *from = ir_dims(p->to, x), *attr = ir_attr(p->to, n);
	int a = 0, b = 0;
	switch (n->op) {
	case IR_permute: return (int)attr[axis];
	case IR_transpose: return axis == attr[0] ? (int)attr[1] : axis == attr[1] ? (int)attr[0] : axis;
	case IR_slice: return axis == attr[0] ? -1 : axis;
	case IR_expand: return axis - (n->rank - x->rank); /* negative, or of size 1: all parts are equal */
	case IR_reshape: case IR_squeeze: case IR_unsqueeze:
		for (;; a++, b++) { /* equal but for axes of size 1 */
			while (a < n->rank && to[a] == 1) a++;
			while (b < x->rank && from[b] == 1) b++;
			if (a == n->rank || b == x->rank || to[a] != from[b]) return -1;
			if (a == axis) break;
		}
		for (int i = a + 1, k = b + 1;; i++, k++) {
			while (i < n->rank && to[i] == 1) i++;
			while (k < x->rank && from[k] == 1) k++;
			if (i == n->rank || k == x->rank) return i == n->rank && k == x->rank ? b : -1;
			if (to[i] != from[k]) return -1;
		}
	default: return -1;
	}
}

static ir_ref part_of_view(pass *p, ir_ref r, int axis, int64_t i)
{
	const ir_node n = *ir_at(p->to, r);
	ir_ref x = ir_src(p->to, &n, 0);
	int64_t dim[TJ_MAX_RANK];
	memcpy(dim, dims(p, r), sizeof *dim * n.rank);
	const int below = axis_below(p, &n, axis);
	if (n.op == IR_slice && below < 0) return part(p, x, axis, ir_attr(p->to, &n)[1] + i * ir_attr(p->to, &n)[3]);
	if (below < 0 && n.op != IR_expand) return slice(p, r, axis, i);
	if (below >= 0) x = part(p, x, below, i);
	if (x == IR_NONE) return x;
	dim[axis] = 1;
	if (n.op == IR_expand) return ir_expand(p->to, x, n.rank, dim, n.site);
	return n.op == IR_permute || n.op == IR_transpose || n.op == IR_slice ? again(p, &n, &x) : ir_reshape(p->to, x, n.rank, dim, n.site);
}

static ir_ref part_of_cat(pass *p, ir_ref r, int axis, int64_t i)
{
	const ir_node n = *ir_at(p->to, r);
	if (ir_attr(p->to, &n)[0] != axis) return slice(p, r, axis, i);
	for (int k = 0; k < n.nsrc; k++) {
		const ir_ref x = ir_src(p->to, &n, k);
		if (i < dims(p, x)[axis]) return part(p, x, axis, i);
		i -= dims(p, x)[axis];
	}
	return IR_NONE;
}

/* ---- reductions ---- */
static bool reduces(const ir_node *n) { return ir_ops[n->op].opclass == IR_REDUCE_ && !n->alone; }

/* A reduction over other axes. */
static ir_ref part_of_reduction(pass *p, ir_ref r, int axis, int64_t i)
{
	const ir_node n = *ir_at(p->to, r);
	const ir_ref x = ir_src(p->to, &n, 0);
	const uint32_t set = ir_reduced((ir_op)n.op, n.nattr, ir_attr(p->to, &n), rank_of(p, x));
	int below = axis;
	for (int k = 0; !ir_attr(p->to, &n)[0] && k <= below; k++) below += set >> k & 1;
	const ir_ref y = part(p, x, below, i);
	return y == IR_NONE ? y : again(p, &n, &y);
}

/* a combined with b, which comes later: reduce_f() of ir/eval.c */
static ir_ref combine(pass *p, ir_op op, ir_ref a, ir_ref b, const char *site)
{
	switch (op) {
	case IR_sum: return ir_op2(p->to, IR_add, a, b, site);
	case IR_prod: return ir_op2(p->to, IR_mul, a, b, site);
	case IR_amax: return ir_op2(p->to, IR_maximum, b, a, site);
	default: return ir_op2(p->to, IR_minimum, b, a, site);
	}
}

/* The tree of a row, of which only the last steps have lanes; a column is one chunk. */
static ir_ref tree(pass *p, ir_op op, ir_ref *x, int n, bool column, const char *site)
{
	for (int i = 1; column && i < n; i++) x[0] = combine(p, op, x[0], x[i], site);
	for (int half = SHORT / 2; !column && half >= 1; half /= 2) {
		for (int l = 0; l < half && l + half < n; l++) x[l] = combine(p, op, x[l], x[l + half], site);
		if (half < n) n = half;
	}
	return x[0];
}

/* The index of the first best one: first_best() of ir/eval.c. */
static ir_ref search(pass *p, bool most, const ir_ref *x, int n, const char *site)
{
	ir_graph *g = p->to;
	const bool real = rt_is_float((tj_dtype)ir_at(g, x[0])->dtype);
	ir_ref best = x[0], at = ir_const_i(g, TJ_I32, 0, NULL, 0);
	for (int i = 1; i < n; i++) {
		ir_ref better = ir_op2(g, real ? most ? IR_le : IR_ge : most ? IR_gt : IR_lt, x[i], best, site);
		if (real) better = ir_op2(g, IR_logical_and, ir_op1(g, IR_logical_not, better, site), ir_op2(g, IR_eq, best, best, site), site);
		at = ir_emit(g, IR_where, 3, (ir_ref[]){ better, ir_const_i(g, TJ_I32, 0, NULL, i), at }, 0, NULL, site);
		if (i < n - 1) best = ir_emit(g, IR_where, 3, (ir_ref[]){ better, x[i], best }, 0, NULL, site);
	}
	return ir_cast(g, at, TJ_I64, site);
}

static ir_ref reduce_parts(pass *p, const ir_node *n, ir_ref x, int axis)
{
	const int count = (int)dims(p, x)[axis], rank = rank_of(p, x);
	ir_ref v[SHORT] = { IR_NONE }, y;
	for (int i = 0; i < count; i++) v[i] = part(p, x, axis, i);
	p->to->mode = n->mode;
	for (int i = 0; i < count && reduces(n); i++) v[i] = ir_cast(p->to, v[i], (tj_dtype)n->dtype, n->site);
	if (ir_ops[n->op].opclass == IR_ARG) y = search(p, n->op == IR_argmax, v, count, n->site);
	else y = tree(p, (ir_op)n->op, v, count, axis < rank - 1, n->site);
	y = ir_keep_device(p->to, ir_reshape(p->to, y, n->rank, ir_dims(p->from, n), n->site), n);
	return marked(p, y, (mark){ true, n->rank < rank, (int8_t)axis });
}

/* ---- products of small matrices ---- */
static bool is_small_product(const ir_graph *g, const ir_node *n)
{
	if (n->op != IR_matmul || n->rank < 2) return false;
	const ir_node *a = ir_at(g, ir_src(g, n, 0)), *b = ir_at(g, ir_src(g, n, 1));
	if (a->rank < 2 || b->rank != 2) return false;
	const int64_t *d = ir_dims(g, b), *c = ir_dims(g, n);
	int64_t rows = 1;
	for (int k = 0; k < n->rank - 1; k++) rows *= c[k];
	return d[0] >= 1 && d[0] <= SMALL_PRODUCT && d[1] >= 1 && d[1] <= SMALL_PRODUCT && rows >= LEAST_ROWS;
}

static ir_ref part_of_product(pass *p, ir_ref r, int64_t column)
{
	ir_graph *g = p->to;
	const ir_node n = *ir_at(g, r);
	const ir_ref a = ir_src(g, &n, 0), b = part(p, ir_src(g, &n, 1), 1, column);
	const tj_dtype t = rt_compute_dtype((tj_dtype)n.dtype);
	const int64_t steps = b == IR_NONE ? 0 : dims(p, b)[0];
	ir_ref sum = IR_NONE;
	for (int64_t k = 0; k < steps; k++) {
		const ir_ref x = ir_cast(g, part(p, a, rank_of(p, a) - 1, k), t, n.site), y = ir_cast(g, part(p, b, 0, k), t, n.site);
		g->mode = n.mode;
		if (rt_is_float(t)) sum = ir_emit(g, IR_fma, 3, (ir_ref[]){ x, y, k ? sum : ir_const_f(g, t, 0, NULL, 0) }, 0, NULL, n.site);
		else sum = k ? ir_op2(g, IR_add, sum, ir_op2(g, IR_mul, x, y, n.site), n.site) : ir_op2(g, IR_mul, x, y, n.site);
	}
	return ir_keep_device(g, ir_cast(g, sum, (tj_dtype)n.dtype, n.site), &n);
}

/* ---- a part of any value ---- */
static ir_ref make_part(pass *p, ir_ref r, int axis, int64_t i)
{
	const ir_node *n = ir_at(p->to, r);
	if (by_element(n)) return part_of_point(p, r, axis, i);
	if (ir_ops[n->op].flags & IR_VIEW && n->op != IR_optimization_barrier) return part_of_view(p, r, axis, i);
	if (n->op == IR_cat) return part_of_cat(p, r, axis, i);
	if (reduces(n) && is_apart(p, r)) return part_of_reduction(p, r, axis, i);
	if (is_apart(p, r) && is_small_product(p->to, n) && axis == n->rank - 1) return part_of_product(p, r, i);
	return slice(p, r, axis, i);
}

static ir_ref part(pass *p, ir_ref r, int axis, int64_t i)
{
	if (r == IR_NONE || dims(p, r)[axis] == 1) return r;
	if (4 * (p->n + 1) > 3 * p->size && !grow(p)) return p->oom = true, IR_NONE;
	const made *k = slot(p->table, p->size, r, axis, i);
	if (k->part != IR_NONE) return k->part;
	const ir_ref y = make_part(p, r, axis, i);
	if (y == IR_NONE || (4 * (p->n + 1) > 3 * p->size && !grow(p))) return y;
	*slot(p->table, p->size, r, axis, i) = (made){ r, axis, (int32_t)i, y };
	p->n++;
	return y;
}

/* ---- is it worth it? ---- */
typedef struct cost { int work; bool loads; } cost; /* of a part. loads: of an argument, or of a stored value, that has many of them */

/* Counts a value as often as it is reached: too much at worst. */
static void weigh(const pass *p, ir_ref r, int axis, cost *c)
{
	const ir_node *n = ir_at(p->to, r);
	const int64_t count = dims(p, r)[axis];
	if (count == 1 || c->work > MOST_WORK) return;
	if (by_element(n)) {
		c->work += lo_work(n);
		for (int k = 0; k < n->nsrc; k++) {
			const ir_ref x = ir_src(p->to, n, k);
			if (axis >= n->rank - rank_of(p, x)) weigh(p, x, axis - (n->rank - rank_of(p, x)), c);
		}
		return;
	}
	if (ir_ops[n->op].flags & IR_VIEW && n->op != IR_optimization_barrier) {
		const int below = axis_below(p, n, axis);
		if (below >= 0) weigh(p, ir_src(p->to, n, 0), below, c);
		if (below >= 0 || n->op == IR_expand) return;
	}
	if (n->op == IR_cat && ir_attr(p->to, n)[0] == axis && n->nsrc == count) return;
	if (is_apart(p, r)) c->work += 4;
	else if (!ir_is_leaf(n->op) || n->op == IR_input || n->op == IR_data) c->loads |= ir_numel(p->to, r) / count >= LEAST;
}

static bool moves(const pass *p, int64_t size) { return lo_moves(p->moving, size); }

/* Value r may be taken apart along the axis, which has more than one element. following: what it is computed from is apart. */
static bool worth(const pass *p, ir_ref r, int axis, bool following)
{
	const int64_t n = dims(p, r)[axis];
	cost c = { 0 };
	if (n < 2 || n > SHORT || moves(p, n) || ir_numel(p->to, r) / n < LEAST) return false;
	weigh(p, r, axis, &c);
	return c.work * n <= MOST_WORK && (n <= NEAR || !c.loads || following || !(n & (n - 1)));
}

/* ---- the walk ---- */
static ir_ref copy(pass *p, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	return n->alone ? ir_alone(p->to, p->from, r, ir_which(n), src) : ir_copy(p->to, p->from, r, src);
}

/* r, for a reader that takes it as a whole */
static ir_ref whole(pass *p, ir_ref r)
{
	if (r == IR_NONE || !is_apart(p, r) || ir_at(p->to, r)->op == IR_cat) return r;
	const int axis = mark_of(p, r).axis, n = (int)dims(p, r)[axis];
	ir_ref v[SHORT];
	for (int i = 0; i < n; i++) v[i] = part(p, r, axis, i);
	return ir_emit(p->to, IR_cat, n, v, 1, (int64_t[]){ axis }, ir_at(p->to, r)->site);
}

/* The axis along which a point op is computed by parts, or that is marked for its readers. */
static mark follow(const pass *p, const ir_node *n, const ir_ref *src)
{
	mark best = { 0 };
	for (int k = 0; k < n->nsrc; k++) {
		mark m = mark_of(p, src[k]);
		m.axis = (int8_t)(m.axis + n->rank - rank_of(p, src[k]));
		if (m.any && (!best.any || (best.gone && !m.gone) || is_apart(p, src[k]))) best = m;
	}
	return best;
}

/* An operand that broadcasts keeps a kernel from walking both axes as one: lanes would go along a last axis that is short. */
static mark beside(const pass *p, const ir_node *n, const ir_ref *src)
{
	const int64_t *d = ir_dims(p->from, n);
	const int last = n->rank - 1;
	if (last < 1 || d[last] < 2 || d[last] > NEAR) return (mark){ 0 };
	for (int k = 0; k < n->nsrc; k++) {
		const ir_node *x = ir_at(p->to, src[k]);
		const bool one = ir_numel(p->to, src[k]) == 1, same = x->rank == n->rank && !memcmp(dims(p, src[k]), d, sizeof *d * n->rank);
		if (!one && !same && !ir_is_flow(x->op)) return (mark){ true, false, (int8_t)last };
	}
	return (mark){ 0 };
}

static ir_ref point(pass *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	mark m = by_element(n) ? follow(p, n, src) : (mark){ 0 };
	if (!m.any && by_element(n)) m = beside(p, n, src);
	bool apart = false;
	for (int k = 0; k < n->nsrc; k++) apart |= is_apart(p, src[k]);
	const ir_ref y = copy(p, r, src);
	if (y == IR_NONE || !m.any || y < p->mark.n) return y; /* it equals a node that was there */
	if (m.gone || dims(p, y)[m.axis] == 1 || worth(p, y, m.axis, true)) return marked(p, y, m);
	if (!apart) return y;
	for (int k = 0; k < n->nsrc; k++) src[k] = whole(p, src[k]);
	return copy(p, r, src);
}

/* The only axis that a reduction reduces; -1: it has several. */
static int reduced_axis(const pass *p, const ir_node *n, ir_ref x)
{
	const uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(p->from, n), rank_of(p, x));
	return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1;
}

static ir_ref reduction(pass *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const int axis = reduced_axis(p, n, src[0]);
	const mark m = mark_of(p, src[0]);
	const bool has = n->op == IR_sum || n->op == IR_prod || n->op == IR_amax || n->op == IR_amin || ir_ops[n->op].opclass == IR_ARG;
	if (has && axis >= 0 && worth(p, src[0], axis, is_apart(p, src[0]) && m.axis == axis)) return reduce_parts(p, n, src[0], axis);
	const uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(p->from, n), rank_of(p, src[0]));
	if (!is_apart(p, src[0]) || !reduces(n) || set >> m.axis & 1) {
		src[0] = whole(p, src[0]);
		return copy(p, r, src);
	}
	int at = m.axis; /* it reduces another axis */
	for (int k = 0; !ir_attr(p->from, n)[0] && k < m.axis; k++) at -= set >> k & 1;
	return marked(p, copy(p, r, src), (mark){ true, false, (int8_t)at });
}

/* A new axis of size 1 in the place of one that is gone. */
static bool puts_back(const pass *p, const ir_node *n, ir_ref x, int axis)
{
	const int64_t *to = ir_dims(p->from, n), *from = dims(p, x);
	if (n->rank != rank_of(p, x) + 1 || to[axis] != 1) return false;
	for (int k = 0; k < n->rank - 1; k++)
		if (from[k] != to[k < axis ? k : k + 1]) return false;
	return true;
}

/* The only element along a short axis of a value whose readers all take one. */
static bool takes_one(const pass *p, const ir_node *n, ir_ref x)
{
	if (n->op != IR_slice || ir_dims(p->from, n)[ir_attr(p->from, n)[0]] != 1) return false;
	const ir_ref of = ir_src(p->from, n, 0);
	return by_element(ir_at(p->to, x)) && p->users[of] == p->sliced[of] && worth(p, x, (int)ir_attr(p->from, n)[0], true);
}

static ir_ref view(pass *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const int64_t *attr = ir_attr(p->from, n);
	const mark m = mark_of(p, src[0]);
	const bool apart = is_apart(p, src[0]);
	if (takes_one(p, n, src[0]) || (apart && n->op == IR_slice && attr[0] == m.axis && ir_dims(p->from, n)[m.axis] == 1))
		return part(p, src[0], (int)attr[0], attr[1]);
	if (m.any && m.gone && puts_back(p, n, src[0], m.axis)) return marked(p, copy(p, r, src), (mark){ true, false, m.axis });
	if (m.any && !m.gone && !apart && n->op == IR_expand)
		return marked(p, copy(p, r, src), (mark){ true, false, (int8_t)(m.axis + n->rank - rank_of(p, src[0])) });
	if (!apart || n->op == IR_optimization_barrier) {
		src[0] = whole(p, src[0]);
		return copy(p, r, src);
	}
	const ir_ref y = copy(p, r, src);
	const ir_node *to = y == IR_NONE ? NULL : ir_at(p->to, y);
	for (int axis = 0; to && ir_ops[to->op].flags & IR_VIEW && axis < to->rank; axis++)
		if (dims(p, y)[axis] > 1 && ir_src(p->to, to, 0) == src[0] && axis_below(p, to, axis) == m.axis)
			return marked(p, y, (mark){ true, false, (int8_t)axis });
	src[0] = whole(p, src[0]);
	return copy(p, r, src);
}

/* A cat of single elements is apart already. */
static ir_ref cat(pass *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const int64_t axis = ir_attr(p->from, n)[0];
	for (int k = 0; k < n->nsrc; k++) src[k] = whole(p, src[k]);
	const ir_ref y = copy(p, r, src);
	if (y == IR_NONE || n->nsrc != ir_dims(p->from, n)[axis] || n->nsrc > SHORT || ir_at(p->to, y)->op != IR_cat) return y;
	return marked(p, y, (mark){ true, false, (int8_t)axis });
}

static ir_ref walk(pass *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const ir_opinfo *o = &ir_ops[n->op];
	if (o->flags & IR_POINT && !(o->flags & IR_FAULT)) return point(p, r, src);
	if ((o->opclass == IR_REDUCE_ || o->opclass == IR_ARG) && !n->alone) return reduction(p, r, src);
	if (o->flags & IR_VIEW) return view(p, r, src);
	if (n->op == IR_cat) return cat(p, r, src);
	for (int k = 0; k < n->nsrc; k++) src[k] = whole(p, src[k]);
	const ir_ref y = copy(p, r, src);
	if (y == IR_NONE || !is_small_product(p->from, n) || moves(p, ir_dims(p->from, n)[n->rank - 1])) return y;
	return marked(p, y, (mark){ true, false, (int8_t)(n->rank - 1) });
}

static void count_users(pass *p)
{
	for (ir_ref r = 0; r < p->from->node.n; r++) {
		const ir_node *n = ir_at(p->from, r);
		for (int k = 0; k < n->nsrc; k++) p->users[ir_src(p->from, n, k)]++;
		if (n->op != IR_slice) continue;
		const int64_t axis = ir_attr(p->from, n)[0], all = ir_dims(p->from, ir_at(p->from, ir_src(p->from, n, 0)))[axis];
		p->sliced[ir_src(p->from, n, 0)] += all <= SHORT && ir_dims(p->from, n)[axis] == 1;
	}
	for (uint32_t i = 0; i < p->from->out.n; i++) p->users[p->from->out.v[i]]++;
}

tj_status lo_short(const ir_graph *from, ir_graph *to, const lo_moving *moving, rt_err *err)
{
	const uint32_t n = from->node.n;
	pass p = { .from = from, .to = to, .moving = moving };
	ir_ref *map = rt_alloc(sizeof *map * (n + 1)), *src = rt_alloc(sizeof *src * (from->refs.n + 1));
	bool *live = rt_alloc(n + 1);
	p.users = rt_calloc(sizeof *p.users * (n + 1));
	p.sliced = rt_calloc(sizeof *p.sliced * (n + 1));
	bool ok = map && src && live && p.users && p.sliced;
	if (ok) ir_live(from, live), count_users(&p);
	for (ir_ref r = 0; ok && r < n; r++) {
		const ir_node *x = ir_at(from, r);
		map[r] = IR_NONE;
		to->mode = x->mode;
		if (!live[r]) continue;
		for (int k = 0; k < x->nsrc; k++) src[k] = map[ir_src(from, x, k)];
		ok = (map[r] = walk(&p, r, src)) != IR_NONE && !p.oom;
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = ir_ret(to, whole(&p, map[from->out.v[i]]));
	rt_free(map);
	rt_free(src);
	rt_free(live);
	rt_free(p.users);
	rt_free(p.sliced);
	rt_free(p.table);
	rt_vec_free(&p.mark);
	if (ok) return TJ_OK;
	if (to->err.code == TJ_OK) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (err && err->code == TJ_OK) *err = to->err;
	return to->err.code;
}
