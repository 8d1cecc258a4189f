/* SPDX-License-Identifier: MIT */
/* short: values along axes of a few elements are taken apart, so that lanes go along a longer one.
 *
 * requires plain reductions; keeps values bit for bit: sums in the order of ir/tree.c, products in that of runtime/chain.c
 *
 *   %2 = mul f32[1000,3] %0 %1               %2 = slice f32[1000,1] %0 axis=1 start=0 ..     and the like: %3, %4 of %0; %5 to %7 of %1
 *   %3 = sum f32[1000] %2 axes=1       =>    %8 = mul f32[1000,1] %2 %5                      and %9, %10
 *                                            %11 = add f32[1000,1] %8 %10                    lanes 0 and 2 of the tree, then lane 1
 *                                            %12 = add f32[1000,1] %11 %9
 *                                            %13 = reshape f32[1000] %12
 *
 * It begins where something reduces such axes or adds up along one, where a product of small matrices has them, where elements are
 * selected, and where an operand broadcasts along one. Several axes may be short, if there are few elements along all of them together.
 * What is computed from that follows (find_kinds()): a point op with an operand that is apart is computed by parts, and so is a
 * reduction over another axis. An output, or an op that no kernel computes, gets the parts joined by a cat, whose operands one kernel
 * stores. If a kernel would have to read them joined, the value stays whole, and so does what it was computed from (veto()).
 *
 * A part is taken through what computes the value, down to its leaves. There it is a slice: code generation loads the parts of some
 * neighbours together. */
#include "lower/fuse.h"
#include "lower/target.h"
#include "lower/walk.h"

enum {
	SHORT = 16,          /* longest axis that is taken apart */
	NEAR = 4,            /* an axis of more elements must fit into one kernel, with all that they are computed from; and unless they are
	                        2^k, which few shuffles take apart, something else must be done with what is loaded than a plain sum */
	MOST_WORK = 128,     /* most work of all parts of a value (lo_work()) */
	MOST_VISITS = 128,   /* values that may be looked at to count it: parts are made as deep, and the stack may be small */
	SMALL_PRODUCT = 4,   /* rows or columns of a small matrix */
	LONGEST_RUN = 8,     /* axis of a cumsum that is taken apart: code for a longer one takes 25 ms to make */
	ROWS = 8             /* such a product has at least so many times least_part rows */
};

typedef enum kind {
	WHOLE,
	APART,               /* along axes of several elements */
	REDUCED              /* computed from what was apart: the axes have size 1, or they are gone, and were before axes `axes` */
} kind;
typedef struct mark { uint8_t kind; bool gone; uint16_t axes; /* a bit each */ } mark;

typedef struct pass {
	lo_walk w;
	const lo_opts *o;
	/* by node of from */
	mark *mark;
	bool *taken;               /* a reduction is computed from parts; a slice is a part */
	bool *vetoed;
	uint32_t *users, *sliced;  /* all its users, each once; those that are slices of one element along a short axis */
	bool *kept;                /* all of its elements go, one by one, to where they lie side by side */
	uint32_t *weighed;         /* the count that met it last */
	uint32_t counts;           /* so far */
} pass;

static const ir_node *node(const pass *p, ir_ref r) { return ir_at(p->w.from, r); }
static const int64_t *dims(const pass *p, ir_ref r) { return ir_dims(p->w.from, node(p, r)); }
static ir_ref operand(const pass *p, const ir_node *n, int k) { return ir_src(p->w.from, n, k); }
static bool is_apart(const pass *p, ir_ref r) { return p->mark[r].kind == APART; }
static bool is_view(const ir_node *n) { return ir_ops[n->op].flags & IR_VIEW && n->op != IR_optimization_barrier; }
static bool reduces(const ir_node *n) { return ir_ops[n->op].opclass == IR_REDUCE_ && !n->alone; }
static bool searches(const ir_node *n) { return ir_ops[n->op].opclass == IR_ARG && !n->alone; }
static bool runs(const ir_node *n) { return n->op == IR_cumsum || n->op == IR_cumprod; }
static uint32_t reduced(const pass *p, const ir_node *n)
{
	return ir_reduced((ir_op)n->op, n->nattr, ir_attr(p->w.from, n), node(p, operand(p, n, 0))->rank);
}

/* ---- axes ---- */
/* Those that have several elements. */
static uint32_t long_ones(const pass *p, ir_ref r, uint32_t axes)
{
	uint32_t set = 0;
	for (int k = 0; k < node(p, r)->rank; k++)
		if (axes >> k & 1 && dims(p, r)[k] > 1) set |= 1u << k;
	return set;
}

/* Elements of r at one index of the other axes. */
static int64_t count_of(const pass *p, ir_ref r, uint32_t axes)
{
	int64_t n = 1;
	for (int k = 0; k < node(p, r)->rank; k++)
		if (axes >> k & 1) n *= dims(p, r)[k];
	return n;
}

/* Axes of a reshape's one side, as those of the other; false: they are parts of axes there. */
static bool axes_across(const int64_t *of, int rank, const int64_t *to, int to_rank, uint32_t axes, uint32_t *out)
{
	int a = 0, b = 0;
	*out = 0;
	for (;;) {
		while (a < rank && of[a] == 1) a++;
		while (b < to_rank && to[b] == 1) b++;
		if (a == rank || b == to_rank) return a == rank && b == to_rank;
		int64_t here = of[a], there = to[b];
		uint32_t own = 1u << a++, other = 1u << b++;
		while (here != there)
			if (here < there && a < rank) own |= of[a] > 1 ? 1u << a : 0, here *= of[a++];
			else if (there < here && b < to_rank) other |= to[b] > 1 ? 1u << b : 0, there *= to[b++];
			else return false;
		if (!(own & axes)) continue;
		if (own & ~axes) return false;
		*out |= other;
	}
}

/* The axes of the view's operand that are axes of the view; false: some are not, as a whole. Along an axis that was expanded, all parts are
 * equal. */
static bool axes_below(const pass *p, ir_ref r, uint32_t axes, uint32_t *below)
{
	const ir_node *n = node(p, r), *x = node(p, operand(p, n, 0));
	const int64_t *to = ir_dims(p->w.from, n), *from = ir_dims(p->w.from, x), *attr = ir_attr(p->w.from, n);
	*below = 0;
	switch (n->op) {
	case IR_permute:
		for (int k = 0; k < n->rank; k++) *below |= (axes >> k & 1) << attr[k];
		return true;
	case IR_transpose:
		*below = axes & ~(1u << attr[0] | 1u << attr[1]);
		*below |= (axes >> attr[0] & 1) << attr[1] | (axes >> attr[1] & 1) << attr[0];
		return true;
	case IR_slice: return *below = axes, !(axes >> attr[0] & 1);
	case IR_expand: return *below = long_ones(p, operand(p, n, 0), axes >> (n->rank - x->rank)), true;
	case IR_reshape: case IR_squeeze: case IR_unsqueeze: return axes_across(to, n->rank, from, x->rank, axes, below);
	default: return false;
	}
}

/* The axes of the view that are axes of its operand; 0: some are not. */
static uint32_t axes_above(const pass *p, ir_ref r, uint32_t axes)
{
	const ir_node *n = node(p, r), *x = node(p, operand(p, n, 0));
	uint32_t set = 0, below;
	if (n->op == IR_reshape || n->op == IR_squeeze || n->op == IR_unsqueeze)
		return axes_across(ir_dims(p->w.from, x), x->rank, ir_dims(p->w.from, n), n->rank, axes, &set) ? set : 0;
	for (int k = 0; k < n->rank; k++)
		if (dims(p, r)[k] > 1 && axes_below(p, r, 1u << k, &below) && below && !(below & ~axes)) set |= 1u << k;
	return axes_below(p, r, set, &below) && below == axes ? set : 0;
}

/* Axes of the result of a reduction over other axes. */
static uint32_t axes_behind(const pass *p, const ir_node *n, uint32_t axes)
{
	const uint32_t set = reduced(p, n);
	uint32_t behind = 0;
	for (int k = 0, at = 0; k < node(p, operand(p, n, 0))->rank; k++) {
		behind |= (axes >> k & 1 & ~(set >> k)) << at;
		at += ir_attr(p->w.from, n)[0] || !(set >> k & 1);
	}
	return behind;
}

/* Axes of the operand of a reduction that are axes of its result. */
static uint32_t axes_before(const pass *p, const ir_node *n, uint32_t axes)
{
	const uint32_t set = reduced(p, n);
	uint32_t before = 0;
	for (int k = 0, at = 0; k < node(p, operand(p, n, 0))->rank; k++) {
		if (!(set >> k & 1)) before |= (axes >> at & 1) << k;
		at += ir_attr(p->w.from, n)[0] || !(set >> k & 1);
	}
	return before;
}

/* New axes of size 1 in the place of those that are gone. */
static bool puts_back(const pass *p, ir_ref r, uint32_t axes)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	if (!is_view(n) || n->rank != node(p, x)->rank + __builtin_popcount(axes)) return false;
	for (int k = 0, at = 0; k < n->rank; k++)
		if (dims(p, r)[k] != (axes >> k & 1 ? 1 : dims(p, x)[at++])) return false;
	return true;
}

/* The axes along which a product of small matrices is taken apart; 0: it is none. One matrix on the right, or as many as on the left.
 * Products of 3 x 3 or 4 x 4 that are stored are not: joining the parts takes longer than multiplying. */
static uint32_t product_axes(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	if (n->op != IR_matmul || n->rank < 2) return 0;
	const ir_node *a = node(p, operand(p, n, 0)), *b = node(p, operand(p, n, 1));
	if (a->rank < 2 || b->rank < 2) return 0;
	const int64_t *d = ir_dims(p->w.from, b) + b->rank - 2, *c = ir_dims(p->w.from, n);
	int64_t rows = 1;
	for (int k = 0; k < n->rank - 1; k++) rows *= c[k];
	if (lo_moves(&p->o->moving, d[0]) || lo_moves(&p->o->moving, d[1]) || d[0] < 1 || d[0] > SMALL_PRODUCT || d[1] > SMALL_PRODUCT) return 0;
	const uint32_t row = 1u << (n->rank - 2), column = 2 * row;
	if (b->rank == 2) return d[1] >= 2 && rows >= ROWS * p->o->target->least_part ? column : 0;
	const int64_t m = c[n->rank - 2];
	if (m < 1 || d[1] < 1 || m > SMALL_PRODUCT || lo_moves(&p->o->moving, m) || rows / m < ROWS * p->o->target->least_part) return 0;
	return m * d[1] > NEAR && p->kept[r] ? 0 : (m > 1 ? row : 0) | (d[1] > 1 ? column : 0);
}

/* ---- is it worth it? ---- */
typedef struct cost { /* of all parts */
	bool deep;           /* also of what is reduced */
	int64_t work, values;
	int visits;          /* of values, while it was counted */
	bool loads;          /* of an argument that has many elements */
	bool again;          /* such an argument has several readers */
	bool stored;         /* of a value that a kernel computes whole */
} cost;

static void weigh(pass *p, ir_ref r, uint32_t axes, cost *c);

static void add_work(cost *c, int64_t each, int64_t n)
{
	c->work += each * n;
	c->values += n;
}

static void weigh_operands(pass *p, ir_ref r, uint32_t axes, cost *c)
{
	const ir_node *n = node(p, r);
	for (int k = 0; k < n->nsrc; k++) weigh(p, operand(p, n, k), axes >> (n->rank - node(p, operand(p, n, k))->rank), c);
}

static void weigh_product(pass *p, ir_ref r, uint32_t axes, cost *c)
{
	const ir_node *n = node(p, r), *a = node(p, operand(p, n, 0)), *b = node(p, operand(p, n, 1));
	const uint32_t row = 1u << (n->rank - 2), left = axes >> (n->rank - a->rank), right = axes >> (n->rank - b->rank);
	const uint32_t last = 1u << (a->rank - 1), first = 1u << (b->rank - 2);
	add_work(c, 1, count_of(p, r, axes) * dims(p, operand(p, n, 0))[a->rank - 1]);
	weigh(p, operand(p, n, 0), left | last, c);
	if (axes & row) weigh(p, operand(p, n, 1), right | first, c);
}

/* Each value once; some more often than its parts are needed. */
static void weigh(pass *p, ir_ref r, uint32_t axes, cost *c)
{
	const ir_node *n = node(p, r);
	uint32_t below = 0;
	axes = long_ones(p, r, axes);
	if ((!axes && !(c->deep && p->mark[r].kind == REDUCED)) || p->weighed[r] == p->counts || c->visits > MOST_VISITS) return;
	p->weighed[r] = p->counts;
	c->visits++;
	const int64_t count = count_of(p, r, axes);
	if (lo_by_element(p->w.from, n)) {
		add_work(c, lo_work(n), count);
		weigh_operands(p, r, axes, c);
		return;
	}
	if (is_view(n) && axes_below(p, r, axes, &below)) weigh(p, operand(p, n, 0), below, c);
	else if (p->taken[r] && n->op != IR_slice) {
		add_work(c, 1, count * count_of(p, operand(p, n, 0), reduced(p, n)));
		weigh(p, operand(p, n, 0), axes_before(p, n, axes) | reduced(p, n), c);
	} else if (n->op == IR_cat && axes >> ir_attr(p->w.from, n)[0] & 1) return;
	else if (is_view(n) || ir_is_leaf(n->op)) {
		c->loads |= n->op != IR_const && ir_numel(p->w.from, r) / count >= p->o->target->least_part;
		c->again |= p->users[r] > 1;
	}
	else if (is_apart(p, r) && n->op == IR_matmul) weigh_product(p, r, axes, c);
	else if (is_apart(p, r) && runs(n)) {
		add_work(c, 1, count);
		weigh_operands(p, r, axes, c);
	} else if (is_apart(p, r)) add_work(c, 4, count);
	else c->stored = true;
}

/* Value r may be taken apart along the axes. */
static bool worth(pass *p, ir_ref r, uint32_t axes)
{
	const lo_target *t = p->o->target;
	const int64_t n = count_of(p, r, axes);
	cost c = { .deep = n > NEAR };
	if (n < 2 || n > SHORT || ir_numel(p->w.from, r) / n < t->least_part) return false;
	for (int k = 0; k < node(p, r)->rank; k++)
		if (axes >> k & 1 && lo_moves(&p->o->moving, dims(p, r)[k])) return false;
	p->counts++;
	weigh(p, r, axes, &c);
	if (c.stored || c.visits > MOST_VISITS) return false;
	if (!c.deep) return c.work <= MOST_WORK;
	if (c.loads && n & (n - 1) && c.work == c.values && !c.again) return false;
	return c.work <= t->weight * 15 / 16 && c.values <= t->members * 7 / 8;
}

/* ---- kinds ---- */
/* Something in memory goes into it. */
static bool has_memory(const pass *p, ir_ref r, int depth)
{
	enum { DEEP = 8 };
	const ir_node *n = node(p, r);
	const bool known = lo_by_element(p->w.from, n) || is_view(n) || ir_is_leaf(n->op) || !n->nsrc;
	bool any = n->op == IR_input || n->op == IR_data || depth == DEEP || !known;
	for (int k = 0; k < n->nsrc && !any; k++) any = has_memory(p, operand(p, n, k), depth + 1);
	return any;
}

/* Its elements lie so that no kernel walks the last axis and the one before it as one: it has some of the columns, or in another order. */
static bool is_split(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const int64_t *attr = ir_attr(p->w.from, n);
	const int last = n->rank - 1;
	if (last < 1) return false;
	switch (n->op) {
	case IR_input: return attr[2 + last - 1] != attr[2 + last] * dims(p, r)[last];
	case IR_slice: return attr[0] == last || attr[3] != 1 || is_split(p, operand(p, n, 0));
	case IR_flip: return true;
	case IR_permute: return attr[last] != last;
	case IR_transpose: return attr[0] == last || attr[1] == last;
	default: return false;
	}
}

/* An operand that broadcasts, or that lies in another way, keeps a kernel from walking both axes as one: lanes would go along a last axis
 * that is short. */
static uint32_t beside(const pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const int last = n->rank - 1;
	if (last < 1 || dims(p, r)[last] > NEAR) return 0;
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref x = operand(p, n, k);
		const bool same = node(p, x)->rank == n->rank && !memcmp(dims(p, x), dims(p, r), sizeof(int64_t) * n->rank);
		if (ir_numel(p->w.from, x) > 1 && (!same || is_split(p, x)) && has_memory(p, x, 0)) return 1u << last;
	}
	return 0;
}

/* What its operands say of a point op: along the axes of all of them, else of one. */
static mark kind_of_point(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	uint32_t all = 0;
	mark lacks = { 0 };
	for (int k = 0; k < n->nsrc; k++) {
		const mark m = p->mark[operand(p, n, k)];
		const uint32_t axes = (uint32_t)m.axes << (n->rank - node(p, operand(p, n, k))->rank);
		if (m.kind && m.gone) lacks = (mark){ REDUCED, true, (uint16_t)axes };
		else if (m.kind) all |= axes;
	}
	if (!all && lacks.kind) return lacks;
	if (!all) all = beside(p, r);
	if (!all) return (mark){ 0 };
	const uint32_t several = long_ones(p, r, all);
	if (!several) return (mark){ REDUCED, false, (uint16_t)all };
	if (worth(p, r, several)) return (mark){ APART, false, (uint16_t)several };
	for (int k = 0; k < n->nsrc; k++) {
		const uint32_t axes = (uint32_t)p->mark[operand(p, n, k)].axes << (n->rank - node(p, operand(p, n, k))->rank);
		if (is_apart(p, operand(p, n, k)) && axes != several && worth(p, r, axes)) return (mark){ APART, false, (uint16_t)axes };
	}
	return (mark){ 0 };
}

static mark kind_of_reduction(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const uint32_t set = reduced(p, n);
	const mark m = p->mark[x];
	const bool has = n->op == IR_sum || n->op == IR_prod || n->op == IR_amax || n->op == IR_amin || searches(n);
	const uint32_t rest = m.kind == APART ? axes_behind(p, n, m.axes & ~set) : 0;
	if (has && long_ones(p, x, set) && worth(p, x, set)) {
		p->taken[r] = true;
		if (rest) return (mark){ APART, false, (uint16_t)rest };
		return (mark){ REDUCED, n->rank < node(p, x)->rank, (uint16_t)set };
	}
	if (m.kind != APART || !reduces(n) || set & m.axes) return (mark){ 0 };
	return (mark){ APART, false, (uint16_t)rest };
}

/* The only element along a short axis: of a value that is apart, or of one whose readers all take one. */
static bool takes_one(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	if (n->op != IR_slice) return false;
	const int axis = (int)ir_attr(p->w.from, n)[0];
	const ir_ref x = operand(p, n, 0);
	if (dims(p, r)[axis] != 1 || dims(p, x)[axis] == 1) return false;
	if (is_apart(p, x)) return p->mark[x].axes >> axis & 1;
	return lo_by_element(p->w.from, node(p, x)) && p->users[x] == p->sliced[x] && worth(p, x, 1u << axis);
}

static mark kind_of_view(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const mark m = p->mark[operand(p, n, 0)];
	if ((p->taken[r] = takes_one(p, r))) {
		const uint32_t rest = m.axes & ~(1u << ir_attr(p->w.from, n)[0]);
		return m.kind == APART && rest ? (mark){ APART, false, (uint16_t)rest } : (mark){ 0 };
	}
	if (m.kind == WHOLE || !is_view(n)) return (mark){ 0 };
	if (m.gone) return puts_back(p, r, m.axes) ? (mark){ REDUCED, false, m.axes } : (mark){ 0 };
	if (m.kind == REDUCED && n->op == IR_expand) {
		const uint32_t axes = (uint32_t)m.axes << (n->rank - node(p, operand(p, n, 0))->rank), several = long_ones(p, r, axes);
		if (!several) return (mark){ REDUCED, false, (uint16_t)axes };
		return count_of(p, r, several) <= NEAR ? (mark){ APART, false, (uint16_t)several } : (mark){ 0 };
	}
	const uint32_t axes = m.kind == APART ? axes_above(p, r, m.axes) : 0;
	return axes ? (mark){ APART, false, (uint16_t)axes } : (mark){ 0 };
}

/* Of a cat: each piece has one element along its axis. */
static bool by_element(const pass *p, const ir_node *n)
{
	return n->nsrc == ir_dims(p->w.from, n)[ir_attr(p->w.from, n)[0]] && n->nsrc <= SHORT;
}

/* Some piece is apart along its axis, and all others have one element. */
static bool has_apart(const pass *p, const ir_node *n)
{
	const int axis = (int)ir_attr(p->w.from, n)[0];
	bool any = false;
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref x = operand(p, n, k);
		const bool apart = is_apart(p, x) && p->mark[x].axes == 1u << axis;
		if (!apart && dims(p, x)[axis] != 1) return false;
		any |= apart;
	}
	return any;
}

static mark kind_of(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const int64_t *attr = ir_attr(p->w.from, n);
	if (lo_by_element(p->w.from, n)) return kind_of_point(p, r);
	if (reduces(n) || searches(n)) return kind_of_reduction(p, r);
	if (ir_ops[n->op].flags & IR_VIEW) return kind_of_view(p, r);
	const bool run = runs(n) && n->rank && dims(p, r)[attr[0]] <= LONGEST_RUN && worth(p, operand(p, n, 0), 1u << attr[0]);
	const bool cat = n->op == IR_cat && (by_element(p, n) || (has_apart(p, n) && worth(p, r, 1u << attr[0])));
	const uint32_t axes = run || cat ? 1u << attr[0] : product_axes(p, r);
	return axes ? (mark){ APART, false, (uint16_t)axes } : (mark){ 0 };
}

/* Reader r reads x, which is not whole, in parts. What no kernel computes, reads a value that is stored in any case. */
static bool follows(const pass *p, ir_ref r, ir_ref x)
{
	const ir_node *n = node(p, r);
	const mark m = p->mark[x];
	const int lead = n->rank - node(p, x)->rank;
	if (p->taken[r]) return n->op == IR_slice || m.kind == REDUCED || is_apart(p, r) || !(m.axes & ~reduced(p, n));
	if (m.kind == REDUCED) /* it matters where the axes come back */
		return m.gone || !(lo_by_element(p->w.from, n) || n->op == IR_expand) || !long_ones(p, r, (uint32_t)m.axes << lead) || is_apart(p, r);
	return is_apart(p, r) || !(lo_by_element(p->w.from, n) || reduces(n) || searches(n) || is_view(n));
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

static void find_kept(pass *p)
{
	for (uint32_t i = 0; i < p->w.from->out.n; i++) p->kept[p->w.from->out.v[i]] = true;
	for (ir_ref r = p->w.from->node.n; r-- > 0;) {
		const ir_node *n = node(p, r);
		const bool passes = lo_by_element(p->w.from, n) || is_view(n);
		for (int k = 0; k < n->nsrc; k++)
			if (passes ? p->kept[r] : !(reduces(n) || searches(n) || product_axes(p, r))) p->kept[operand(p, n, k)] = true;
	}
}

/* true: some value is taken apart */
static bool find_kinds(pass *p)
{
	bool any = false;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) {
		const ir_node *n = node(p, r);
		for (int k = 0; k < n->nsrc; k++) p->users[operand(p, n, k)] += !k || operand(p, n, k) != operand(p, n, k - 1);
		if (n->op != IR_slice) continue;
		const int64_t axis = ir_attr(p->w.from, n)[0];
		p->sliced[operand(p, n, 0)] += dims(p, operand(p, n, 0))[axis] <= SHORT && dims(p, r)[axis] == 1;
	}
	for (uint32_t i = 0; i < p->w.from->out.n; i++) p->users[p->w.from->out.v[i]]++;
	find_kept(p);
	for (ir_ref r = 0; r < p->w.from->node.n; r++) p->mark[r] = kind_of(p, r);
	veto(p);
	for (ir_ref r = 0; r < p->w.from->node.n; r++) any |= p->taken[r] || (is_apart(p, r) && node(p, r)->op != IR_cat);
	return any;
}

/* ---- parts ---- */
/* Element i along the axes, which have size 1 in it; of the box b of r. */
static ir_ref part(pass *p, ir_ref r, const lo_box *b, uint32_t axes, int64_t i)
{
	lo_box o = *b;
	for (int k = node(p, r)->rank - 1; k >= 0; k--) {
		if (!(axes >> k & 1)) continue;
		o.lo[k] = i % dims(p, r)[k], o.n[k] = 1;
		i /= dims(p, r)[k];
	}
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

typedef struct found { ir_ref best, at; } found;

/* The first best of x[from..from+n): first_best() of ir/eval.c. Halves are searched apart, so that few comparisons wait for others. */
static found search(ir_graph *g, bool most, const ir_ref *x, int from, int n, const char *site)
{
	const bool real = rt_is_float((tj_dtype)ir_at(g, x[0])->dtype);
	if (n == 1) return (found){ x[from], ir_const_i(g, TJ_I32, 0, NULL, from) };
	const int half = 1 << (31 - __builtin_clz((unsigned)n - 1));
	const found a = search(g, most, x, from, half, site), b = search(g, most, x, from + half, n - half, site);
	ir_ref better = ir_op2(g, real ? most ? IR_le : IR_ge : most ? IR_gt : IR_lt, b.best, a.best, site);
	if (real) better = ir_op2(g, IR_logical_and, ir_op1(g, IR_logical_not, better, site), ir_op2(g, IR_eq, a.best, a.best, site), site);
	return (found){ ir_emit(g, IR_where, 3, (ir_ref[]){ better, b.best, a.best }, 0, NULL, site),
		        ir_emit(g, IR_where, 3, (ir_ref[]){ better, b.at, a.at }, 0, NULL, site) };
}

/* A box of a reduction over short axes. */
static ir_ref reduce_parts(pass *p, ir_ref r, const lo_box *b)
{
	const ir_node *n = node(p, r);
	const ir_ref x = operand(p, n, 0);
	const uint32_t set = reduced(p, n);
	const int rank = node(p, x)->rank, count = (int)count_of(p, x, set);
	ir_graph *g = p->w.to;
	ir_ref v[SHORT] = { IR_NONE }, y;
	lo_box o = { .n = { 0 } };
	for (int k = 0, i = 0; k < rank; k++) {
		if (n->rank < rank && set >> k & 1) continue;
		lo_box_axis(&o, k, b, i);
		i++;
	}
	for (int i = 0; i < count; i++) v[i] = part(p, x, &o, set, i);
	g->mode = n->mode;
	for (int i = 0; i < count && reduces(n); i++) v[i] = ir_cast(g, v[i], (tj_dtype)n->dtype, n->site);
	if (searches(n)) y = ir_cast(g, search(g, n->op == IR_argmax, v, 0, count, n->site).at, TJ_I64, n->site);
	else y = tree(g, (ir_op)n->op, v, count, !(set >> (rank - 1) & 1), n->site);
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
		if (!(set >> k & 1)) lo_box_axis(&o, k, b, i);
		i += ir_attr(p->w.from, n)[0] || !(set >> k & 1);
	}
	ir_ref y = lo_part(&p->w, x, &o);
	p->w.to->mode = n->mode;
	return ir_copy(p->w.to, p->w.from, r, &y);
}

/* A box of one element along the axis of a cumsum or cumprod. */
static ir_ref part_of_run(pass *p, ir_ref r, const lo_box *b)
{
	const ir_node *n = node(p, r);
	const int axis = (int)ir_attr(p->w.from, n)[0];
	ir_graph *g = p->w.to;
	const ir_ref before = b->lo[axis] ? part(p, r, b, 1u << axis, b->lo[axis] - 1) : IR_NONE;
	const ir_ref x = ir_cast(g, lo_part(&p->w, operand(p, n, 0), b), (tj_dtype)n->dtype, n->site);
	g->mode = n->mode;
	if (!b->lo[axis]) return x;
	return ir_keep_device(g, ir_op2(g, n->op == IR_cumsum ? IR_add : IR_mul, before, x, n->site), n);
}

/* ---- products of small matrices ---- */
/* A box that has one column. */
static ir_ref part_of_product(pass *p, ir_ref r, const lo_box *box)
{
	ir_graph *g = p->w.to;
	const ir_node *n = node(p, r);
	const ir_ref a = operand(p, n, 0), b = operand(p, n, 1);
	const int last = node(p, a)->rank - 1, first = node(p, b)->rank - 2;
	const tj_dtype t = rt_compute_dtype((tj_dtype)n->dtype);
	lo_box row = lo_box_of_operand(&p->w, r, a, box), element = lo_box_of_operand(&p->w, r, b, box);
	ir_ref sum = IR_NONE;
	element.lo[first + 1] = box->lo[n->rank - 1], element.n[first + 1] = 1;
	for (int64_t k = 0; k < dims(p, b)[first]; k++) {
		const ir_ref x = ir_cast(g, part(p, a, &row, 1u << last, k), t, n->site);
		const ir_ref y = ir_cast(g, part(p, b, &element, 1u << first, k), t, n->site);
		g->mode = n->mode;
		if (rt_is_float(t)) sum = ir_emit(g, IR_fma, 3, (ir_ref[]){ x, y, k ? sum : ir_const_f(g, t, 0, NULL, 0) }, 0, NULL, n->site);
		else sum = k ? ir_op2(g, IR_add, sum, ir_op2(g, IR_mul, x, y, n->site), n->site) : ir_op2(g, IR_mul, x, y, n->site);
	}
	return ir_keep_device(g, ir_cast(g, sum, (tj_dtype)n->dtype, n->site), n);
}

/* ---- the walk ---- */
/* The box has one element along each axis of r that is short. */
static bool is_part(const pass *p, ir_ref r, const lo_box *b)
{
	for (int k = 0; k < node(p, r)->rank; k++)
		if (p->mark[r].axes >> k & 1 && b->n[k] != 1) return false;
	return true;
}

static bool own(void *env, ir_ref r, const lo_box *b, ir_ref *y)
{
	pass *p = env;
	const ir_node *n = node(p, r);
	if (n->op == IR_optimization_barrier) return *y = lo_slice(&p->w, r, b), true;
	if ((reduces(n) || searches(n)) && p->taken[r]) return *y = reduce_parts(p, r, b), true;
	if (!is_apart(p, r) || !is_part(p, r, b)) return false;
	if (reduces(n)) return *y = part_of_reduction(p, r, b), true;
	if (runs(n)) return *y = part_of_run(p, r, b), true;
	if (n->op == IR_matmul) return *y = part_of_product(p, r, b), true;
	return false;
}

/* The parts of box b, joined along the axes from `axis` on. */
static ir_ref joined(pass *p, ir_ref r, int axis, lo_box *b)
{
	const int n = (int)dims(p, r)[axis];
	ir_ref v[SHORT];
	if (axis == node(p, r)->rank) return lo_part(&p->w, r, b);
	if (!(p->mark[r].axes >> axis & 1)) return joined(p, r, axis + 1, b);
	for (int i = 0; i < n; i++) {
		b->lo[axis] = i, b->n[axis] = 1;
		v[i] = joined(p, r, axis + 1, b);
	}
	return ir_emit(p->w.to, IR_cat, n, v, 1, (int64_t[]){ axis }, node(p, r)->site);
}

static ir_ref walk(void *env, ir_ref r, ir_ref *src)
{
	pass *p = env;
	const ir_node *n = node(p, r);
	lo_box b = lo_whole(&p->w, r);
	if (is_apart(p, r) && !(n->op == IR_cat && by_element(p, n))) return joined(p, r, 0, &b);
	if (p->taken[r] && n->op != IR_slice) return reduce_parts(p, r, &b);
	if (p->taken[r]) {
		const int64_t *attr = ir_attr(p->w.from, n);
		b.lo[attr[0]] = attr[1];
		return lo_part(&p->w, operand(p, n, 0), &b);
	}
	return lo_copy(p->w.to, p->w.from, r, src);
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
	p.kept = rt_arena_alloc(&mem, n);
	p.weighed = rt_arena_alloc(&mem, n * sizeof *p.weighed);
	const bool room = p.mark && p.taken && p.vetoed && p.users && p.sliced && p.kept && p.weighed;
	tj_status st = room ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
	*did = room && find_kinds(&p);
	if (*did) st = lo_walk_graph(&p.w, err);
	rt_arena_free(&mem);
	return st;
}
