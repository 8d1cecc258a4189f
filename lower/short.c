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
 * It begins where something reduces such an axis, where a product of small matrices has one, where elements of it are selected, and where
 * an operand broadcasts along it. What is computed from that follows (find_kinds()): a point op with an operand that is apart is computed
 * by parts, and so is a reduction over another axis. An output, or an op that no kernel computes, gets the parts joined by a cat, whose
 * operands one kernel stores. If a kernel would have to read them joined, the value stays whole, and so does what it was computed
 * from (veto()).
 *
 * A part is taken through what computes the value, down to its leaves. There it is a slice: code generation loads the parts of some
 * neighbours together. */
#include "lower/fuse.h"
#include "lower/target.h"
#include "lower/walk.h"

enum {
	SHORT = 16,          /* longest axis that is taken apart */
	NEAR = 4,            /* the same of results, and of arguments unless it is 2^k: few shuffles take their vectors apart */
	MOST_WORK = 128,     /* most work of all parts of a value (lo_work()) */
	MOST_VISITS = 128,   /* values that may be looked at to count it: parts are made as deep, and the stack may be small */
	SMALL_PRODUCT = 4,   /* largest matrix on the right of a product */
	ROWS = 8             /* such a product has at least so many times least_part rows */
};

typedef enum kind {
	WHOLE,
	APART,               /* along an axis of several elements */
	REDUCED              /* computed from what was apart: the axis has size 1, or it is gone, and was before axis `axis` */
} kind;
typedef struct mark { uint8_t kind; bool gone; int8_t axis; } mark;

typedef struct pass {
	lo_walk w;
	const lo_opts *o;
	/* by node of from */
	mark *mark;
	bool *taken;               /* a reduction is computed from parts; a slice is a part */
	bool *vetoed;
	uint32_t *users, *sliced;  /* all its users; those that are slices of one element along a short axis */
} pass;

static const ir_node *node(const pass *p, ir_ref r) { return ir_at(p->w.from, r); }
static const int64_t *dims(const pass *p, ir_ref r) { return ir_dims(p->w.from, node(p, r)); }
static ir_ref operand(const pass *p, const ir_node *n, int k) { return ir_src(p->w.from, n, k); }
static bool is_apart(const pass *p, ir_ref r) { return p->mark[r].kind == APART; }
static bool is_view(const ir_node *n) { return ir_ops[n->op].flags & IR_VIEW && n->op != IR_optimization_barrier; }
static bool reduces(const ir_node *n) { return ir_ops[n->op].opclass == IR_REDUCE_ && !n->alone; }
static bool searches(const ir_node *n) { return ir_ops[n->op].opclass == IR_ARG && !n->alone; }
static uint32_t reduced(const pass *p, const ir_node *n)
{
	return ir_reduced((ir_op)n->op, n->nattr, ir_attr(p->w.from, n), node(p, operand(p, n, 0))->rank);
}

/* ---- axes ---- */
/* The axis of the view's operand that is the view's axis, which has more than one element; -1: none is it, as a whole. */
static int axis_below(const pass *p, ir_ref r, int axis)
{
	const ir_node *n = node(p, r), *x = node(p, operand(p, n, 0));
	const int64_t *to = ir_dims(p->w.from, n), *from = ir_dims(p->w.from, x), *attr = ir_attr(p->w.from, n);
	int found = -1, a = 0, b = 0;
	switch (n->op) {
	case IR_permute: return (int)attr[axis];
	case IR_transpose: return axis == attr[0] ? (int)attr[1] : axis == attr[1] ? (int)attr[0] : axis;
	case IR_slice: return axis == attr[0] ? -1 : axis;
	case IR_expand: /* along an axis that was expanded, all parts are equal */
		axis -= n->rank - x->rank;
		return axis >= 0 && from[axis] > 1 ? axis : -1;
	case IR_reshape: case IR_squeeze: case IR_unsqueeze:
		for (;; a++, b++) { /* equal but for axes of size 1 */
			while (a < n->rank && to[a] == 1) a++;
			while (b < x->rank && from[b] == 1) b++;
			if (a == n->rank || b == x->rank) return a == n->rank && b == x->rank ? found : -1;
			if (to[a] != from[b]) return -1;
			if (a == axis) found = b;
		}
	default: return -1;
	}
}

/* The axis of the result of a reduction over other axes. */
static int axis_behind(const pass *p, const ir_node *n, int axis)
{
	const uint32_t set = reduced(p, n);
	int at = axis;
	for (int k = 0; !ir_attr(p->w.from, n)[0] && k < axis; k++) at -= set >> k & 1;
	return at;
}

/* The only axis that a reduction reduces; -1: it has several. */
static int reduced_axis(const pass *p, const ir_node *n)
{
	const uint32_t set = reduced(p, n);
	return set && !(set & (set - 1)) ? __builtin_ctz(set) : -1;
}

/* A new axis of size 1 in the place of one that is gone. */
static bool puts_back(const pass *p, ir_ref r, int axis)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const int64_t *to = dims(p, r), *from = dims(p, x);
	if (!is_view(n) || n->rank != node(p, x)->rank + 1 || to[axis] != 1) return false;
	for (int k = 0; k < n->rank - 1; k++)
		if (from[k] != to[k < axis ? k : k + 1]) return false;
	return true;
}

static bool is_small_product(const pass *p, const ir_node *n)
{
	if (n->op != IR_matmul || n->rank < 2) return false;
	const ir_node *a = node(p, operand(p, n, 0)), *b = node(p, operand(p, n, 1));
	if (a->rank < 2 || b->rank != 2) return false;
	const int64_t *d = ir_dims(p->w.from, b), *c = ir_dims(p->w.from, n);
	int64_t rows = 1;
	for (int k = 0; k < n->rank - 1; k++) rows *= c[k];
	if (lo_moves(&p->o->moving, d[0]) || lo_moves(&p->o->moving, d[1])) return false;
	return d[0] >= 1 && d[0] <= SMALL_PRODUCT && d[1] >= 2 && d[1] <= SMALL_PRODUCT && rows >= ROWS * p->o->target->least_part;
}

/* ---- is it worth it? ---- */
typedef struct cost { /* of a part */
	int work, visits;    /* visits: of values, while it was counted */
	bool loads;          /* of an argument that has many of them */
	bool stored;         /* of a value that a kernel computes whole */
} cost;

static void weigh(const pass *p, ir_ref r, int axis, cost *c);

/* A reduction over a short axis: all parts of its operand, and what combines them. */
static void weigh_reduced(const pass *p, ir_ref r, int axis, cost *c)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const int short_axis = reduced_axis(p, n);
	const int64_t count = dims(p, x)[short_axis];
	cost of = { .visits = c->visits };
	weigh(p, x, axis + (n->rank < node(p, x)->rank && short_axis <= axis), &of);
	c->visits = of.visits;
	c->work += of.work < MOST_WORK ? (int)count * (of.work + 1) : MOST_WORK;
	c->loads |= of.loads;
	c->stored |= of.stored;
}

/* Counts a value as often as it is reached: too much at worst. */
static void weigh(const pass *p, ir_ref r, int axis, cost *c)
{
	const ir_node *n = node(p, r);
	const int64_t count = dims(p, r)[axis];
	if (count == 1 || c->work > MOST_WORK) return;
	if (++c->visits > MOST_VISITS) c->work = MOST_WORK + 1;
	if (lo_by_element(n)) {
		c->work += lo_work(n);
		for (int k = 0; k < n->nsrc; k++) {
			const int lead = n->rank - node(p, operand(p, n, k))->rank;
			if (axis >= lead) weigh(p, operand(p, n, k), axis - lead, c);
		}
		return;
	}
	const int below = is_view(n) ? axis_below(p, r, axis) : -1;
	if (below >= 0) weigh(p, operand(p, n, 0), below, c);
	if (below >= 0 || n->op == IR_expand || (n->op == IR_cat && ir_attr(p->w.from, n)[0] == axis)) return;
	if (p->taken[r] && n->op != IR_slice) {
		weigh_reduced(p, r, axis, c);
		return;
	}
	if (is_view(n) || ir_is_leaf(n->op)) c->loads |= n->op != IR_const && ir_numel(p->w.from, r) / count >= p->o->target->least_part;
	else if (is_apart(p, r)) c->work += 4;
	else c->stored = true;
}

/* Value r may be taken apart along the axis. */
static bool worth(const pass *p, ir_ref r, int axis, int most)
{
	const int64_t n = dims(p, r)[axis];
	cost c = { 0 };
	if (n < 2 || n > most || lo_moves(&p->o->moving, n) || ir_numel(p->w.from, r) / n < p->o->target->least_part) return false;
	weigh(p, r, axis, &c);
	return c.work * n <= MOST_WORK && !c.stored && (n <= NEAR || !c.loads || !(n & (n - 1)));
}

/* ---- kinds ---- */
/* Something in memory goes into it. */
static bool has_memory(const pass *p, ir_ref r, int depth)
{
	enum { DEEP = 8 };
	const ir_node *n = node(p, r);
	bool any = n->op == IR_input || n->op == IR_data || depth == DEEP || !(lo_by_element(n) || is_view(n) || ir_is_leaf(n->op) || !n->nsrc);
	for (int k = 0; k < n->nsrc && !any; k++) any = has_memory(p, operand(p, n, k), depth + 1);
	return any;
}

/* An operand that broadcasts keeps a kernel from walking both axes as one: lanes would go along a last axis that is short. */
static mark beside(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const int last = n->rank - 1;
	if (last < 1 || dims(p, r)[last] > NEAR) return (mark){ 0 };
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref x = operand(p, n, k);
		const bool same = node(p, x)->rank == n->rank && !memcmp(dims(p, x), dims(p, r), sizeof(int64_t) * n->rank);
		if (ir_numel(p->w.from, x) > 1 && !same && has_memory(p, x, 0)) return (mark){ APART, false, (int8_t)last };
	}
	return (mark){ 0 };
}

/* What its operands say of a point op. */
static mark kind_of_point(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	mark best = { 0 };
	for (int k = 0; k < n->nsrc; k++) {
		mark m = p->mark[operand(p, n, k)];
		m.axis = (int8_t)(m.axis + n->rank - node(p, operand(p, n, k))->rank);
		if (m.kind && (!best.kind || (best.gone && !m.gone) || m.kind == APART)) best = m;
	}
	if (!best.kind) best = beside(p, r);
	if (!best.kind || best.gone) return best;
	best.kind = dims(p, r)[best.axis] == 1 ? REDUCED : worth(p, r, best.axis, NEAR) ? APART : WHOLE;
	return best;
}

static mark kind_of_reduction(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const int axis = reduced_axis(p, n);
	const mark m = p->mark[x];
	const bool has = n->op == IR_sum || n->op == IR_prod || n->op == IR_amax || n->op == IR_amin || searches(n);
	if (has && axis >= 0 && worth(p, x, axis, SHORT)) {
		p->taken[r] = true;
		return (mark){ REDUCED, n->rank < node(p, x)->rank, (int8_t)axis };
	}
	if (m.kind != APART || !reduces(n) || reduced(p, n) >> m.axis & 1) return (mark){ 0 };
	return (mark){ APART, false, (int8_t)axis_behind(p, n, m.axis) };
}

/* The only element along a short axis: of a value that is apart, or of one whose readers all take one. */
static bool takes_one(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	if (n->op != IR_slice) return false;
	const int axis = (int)ir_attr(p->w.from, n)[0];
	const ir_ref x = operand(p, n, 0);
	if (dims(p, r)[axis] != 1 || dims(p, x)[axis] == 1) return false;
	if (is_apart(p, x)) return p->mark[x].axis == axis;
	return lo_by_element(node(p, x)) && p->users[x] == p->sliced[x] && worth(p, x, axis, SHORT);
}

static mark kind_of_view(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const mark m = p->mark[operand(p, n, 0)];
	if ((p->taken[r] = takes_one(p, r)) || m.kind == WHOLE || !is_view(n)) return (mark){ 0 };
	if (m.gone) return puts_back(p, r, m.axis) ? (mark){ REDUCED, false, m.axis } : (mark){ 0 };
	const int lead = n->rank - node(p, operand(p, n, 0))->rank;
	if (m.kind == REDUCED && n->op == IR_expand) {
		const int axis = m.axis + lead;
		return (mark){ dims(p, r)[axis] == 1 ? REDUCED : dims(p, r)[axis] <= NEAR ? APART : WHOLE, false, (int8_t)axis };
	}
	for (int axis = 0; m.kind == APART && axis < n->rank; axis++)
		if (dims(p, r)[axis] > 1 && axis_below(p, r, axis) == m.axis) return (mark){ APART, false, (int8_t)axis };
	return (mark){ 0 };
}

static mark kind_of(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	if (lo_by_element(n)) return kind_of_point(p, r);
	if (reduces(n) || searches(n)) return kind_of_reduction(p, r);
	if (ir_ops[n->op].flags & IR_VIEW) return kind_of_view(p, r);
	const int64_t axis = n->op == IR_cat ? ir_attr(p->w.from, n)[0] : 0;
	if (n->op == IR_cat && n->nsrc == dims(p, r)[axis] && n->nsrc <= SHORT) return (mark){ APART, false, (int8_t)axis };
	return is_small_product(p, n) ? (mark){ APART, false, (int8_t)(n->rank - 1) } : (mark){ 0 };
}

/* Reader r reads x, which is not whole, in parts. What no kernel computes, reads a value that is stored in any case. */
static bool follows(const pass *p, ir_ref r, ir_ref x)
{
	const ir_node *n = node(p, r);
	const mark m = p->mark[x];
	const int lead = n->rank - node(p, x)->rank;
	if (p->taken[r]) return reduces(n) || searches(n) ? m.kind == REDUCED || m.axis == reduced_axis(p, n) : true;
	if (m.kind == REDUCED) /* it matters where the axis comes back */
		return m.gone || !(lo_by_element(n) || n->op == IR_expand) || dims(p, r)[m.axis + lead] == 1 || is_apart(p, r);
	return is_apart(p, r) || !(lo_by_element(n) || reduces(n) || searches(n) || is_view(n));
}

/* From the end: a value that some kernel would read joined is whole, and those that it was to be computed from have a reader less that
 * follows. */
static void veto(pass *p)
{
	for (ir_ref r = p->w.from->node.n; r-- > 0;) {
		const ir_node *n = node(p, r);
		const bool was = p->mark[r].kind == REDUCED;
		if (p->vetoed[r]) p->mark[r] = (mark){ 0 }, p->taken[r] = p->taken[r] && !was;
		for (int k = 0; k < n->nsrc; k++) {
			const ir_ref x = operand(p, n, k);
			if (p->mark[x].kind != WHOLE && ((was && p->vetoed[r] && p->mark[x].kind == REDUCED) || !follows(p, r, x))) p->vetoed[x] = true;
		}
	}
}

/* true: some value is taken apart */
static bool find_kinds(pass *p)
{
	bool any = false;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) {
		const ir_node *n = node(p, r);
		for (int k = 0; k < n->nsrc; k++) p->users[operand(p, n, k)]++;
		if (n->op != IR_slice) continue;
		const int64_t axis = ir_attr(p->w.from, n)[0];
		p->sliced[operand(p, n, 0)] += dims(p, operand(p, n, 0))[axis] <= SHORT && dims(p, r)[axis] == 1;
	}
	for (uint32_t i = 0; i < p->w.from->out.n; i++) p->users[p->w.from->out.v[i]]++;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) p->mark[r] = kind_of(p, r);
	veto(p);
	for (ir_ref r = 0; r < p->w.from->node.n; r++) any |= p->taken[r] || (is_apart(p, r) && node(p, r)->op != IR_cat);
	return any;
}

/* ---- parts ---- */
/* Element i of r along the axis, which has size 1 in it; of the box b. */
static ir_ref part(pass *p, ir_ref r, const lo_box *b, int axis, int64_t i)
{
	lo_box o = *b;
	o.lo[axis] = dims(p, r)[axis] == 1 ? 0 : i;
	o.n[axis] = 1;
	return lo_part(&p->w, r, &o);
}

/* ---- reductions ---- */
/* a combined with b, which comes later: reduce_f() of ir/eval.c */
static ir_ref combine(ir_graph *g, ir_op op, ir_ref a, ir_ref b, const char *site)
{
	switch (op) {
	case IR_sum: return ir_op2(g, IR_add, a, b, site);
	case IR_prod: return ir_op2(g, IR_mul, a, b, site);
	case IR_amax: return ir_op2(g, IR_maximum, b, a, site);
	default: return ir_op2(g, IR_minimum, b, a, site);
	}
}

/* The tree of a row, of which only the last steps have lanes; a column is one chunk. */
static ir_ref tree(ir_graph *g, ir_op op, ir_ref *x, int n, bool column, const char *site)
{
	for (int i = 1; column && i < n; i++) x[0] = combine(g, op, x[0], x[i], site);
	for (int half = SHORT / 2; !column && half >= 1; half /= 2) {
		for (int l = 0; l < half && l + half < n; l++) x[l] = combine(g, op, x[l], x[l + half], site);
		if (half < n) n = half;
	}
	return x[0];
}

/* The index of the first best one: first_best() of ir/eval.c. */
static ir_ref search(ir_graph *g, bool most, const ir_ref *x, int n, const char *site)
{
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

/* A box of a reduction over a short axis. */
static ir_ref reduce_parts(pass *p, ir_ref r, const lo_box *b)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const int axis = reduced_axis(p, n), rank = node(p, x)->rank, count = (int)dims(p, x)[axis];
	const bool gone = n->rank < rank;
	ir_graph *g = p->w.to;
	ir_ref v[SHORT] = { IR_NONE }, y;
	lo_box o = { .n = { 0 } };
	for (int k = 0, i = 0; k < rank; k++) {
		if (gone && k == axis) continue;
		o.lo[k] = b->lo[i], o.n[k] = b->n[i];
		i++;
	}
	for (int i = 0; i < count; i++) v[i] = part(p, x, &o, axis, i);
	g->mode = n->mode;
	for (int i = 0; i < count && reduces(n); i++) v[i] = ir_cast(g, v[i], (tj_dtype)n->dtype, n->site);
	if (searches(n)) y = search(g, n->op == IR_argmax, v, count, n->site);
	else y = tree(g, (ir_op)n->op, v, count, axis < rank - 1, n->site);
	return ir_keep_device(g, ir_reshape(g, y, n->rank, b->n, n->site), n);
}

/* A box of a reduction over other axes. */
static ir_ref part_of_reduction(pass *p, ir_ref r, const lo_box *b)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const uint32_t set = reduced(p, n);
	lo_box o = lo_whole(&p->w, x);
	for (int k = 0, i = 0; k < node(p, x)->rank; k++) {
		if (!(set >> k & 1)) o.lo[k] = b->lo[i], o.n[k] = b->n[i];
		i += ir_attr(p->w.from, n)[0] || !(set >> k & 1);
	}
	ir_ref y = lo_part(&p->w, x, &o);
	p->w.to->mode = n->mode;
	return ir_copy(p->w.to, p->w.from, r, &y);
}

/* ---- products of small matrices ---- */
/* A box that has one column. */
static ir_ref part_of_product(pass *p, ir_ref r, const lo_box *box)
{
	ir_graph *g = p->w.to;
	const ir_node *n = node(p, r);
	const ir_ref a = operand(p, n, 0), b = operand(p, n, 1);
	const tj_dtype t = rt_compute_dtype((tj_dtype)n->dtype);
	lo_box row = lo_box_of_operand(&p->w, r, a, box), element = { .lo = { 0, box->lo[n->rank - 1] }, .n = { 1, 1 } };
	ir_ref sum = IR_NONE;
	for (int64_t k = 0; k < dims(p, b)[0]; k++) {
		element.lo[0] = k;
		const ir_ref x = ir_cast(g, part(p, a, &row, node(p, a)->rank - 1, k), t, n->site);
		const ir_ref y = ir_cast(g, lo_part(&p->w, b, &element), t, n->site);
		g->mode = n->mode;
		if (rt_is_float(t)) sum = ir_emit(g, IR_fma, 3, (ir_ref[]){ x, y, k ? sum : ir_const_f(g, t, 0, NULL, 0) }, 0, NULL, n->site);
		else sum = k ? ir_op2(g, IR_add, sum, ir_op2(g, IR_mul, x, y, n->site), n->site) : ir_op2(g, IR_mul, x, y, n->site);
	}
	return ir_keep_device(g, ir_cast(g, sum, (tj_dtype)n->dtype, n->site), n);
}

/* ---- the walk ---- */
static bool own(void *env, ir_ref r, const lo_box *b, ir_ref *y)
{
	pass *p = env;
	const ir_node *n = node(p, r);
	if (n->op == IR_optimization_barrier) return *y = lo_slice(&p->w, r, b), true;
	if ((reduces(n) || searches(n)) && p->taken[r]) return *y = reduce_parts(p, r, b), true;
	if (!is_apart(p, r)) return false;
	if (reduces(n) && b->n[p->mark[r].axis] == 1) return *y = part_of_reduction(p, r, b), true;
	if (n->op == IR_matmul && b->n[n->rank - 1] == 1) return *y = part_of_product(p, r, b), true;
	return false;
}

static ir_ref joined(pass *p, ir_ref r)
{
	const int axis = p->mark[r].axis, n = (int)dims(p, r)[axis];
	const lo_box b = lo_whole(&p->w, r);
	ir_ref v[SHORT];
	for (int i = 0; i < n; i++) v[i] = part(p, r, &b, axis, i);
	return ir_emit(p->w.to, IR_cat, n, v, 1, (int64_t[]){ axis }, node(p, r)->site);
}

static ir_ref walk(void *env, ir_ref r, ir_ref *src)
{
	pass *p = env;
	const ir_node *n = node(p, r);
	lo_box b = lo_whole(&p->w, r);
	if (p->taken[r] && n->op != IR_slice) return reduce_parts(p, r, &b);
	if (p->taken[r]) {
		const int64_t *attr = ir_attr(p->w.from, n);
		b.lo[attr[0]] = attr[1];
		return lo_part(&p->w, operand(p, n, 0), &b);
	}
	return is_apart(p, r) && n->op != IR_cat ? joined(p, r) : lo_copy(p->w.to, p->w.from, r, src);
}

tj_status lo_short(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, rt_err *err)
{
	const uint32_t n = from->node.n + 1;
	pass p = { .w = { .from = from, .to = to, .walk = walk, .own = own }, .o = o };
	rt_arena mem = { 0 };
	p.w.env = &p;
	p.mark = rt_arena_alloc(&mem, n * sizeof *p.mark);
	p.taken = rt_arena_alloc(&mem, n);
	p.vetoed = rt_arena_alloc(&mem, n);
	p.users = rt_arena_alloc(&mem, n * sizeof *p.users);
	p.sliced = rt_arena_alloc(&mem, n * sizeof *p.sliced);
	const bool room = p.mark && p.taken && p.vetoed && p.users && p.sliced;
	tj_status st = room ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
	*did = room && find_kinds(&p);
	if (*did) st = lo_walk_graph(&p.w, err);
	rt_arena_free(&mem);
	return st;
}
