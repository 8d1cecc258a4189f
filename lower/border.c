/* SPDX-License-Identifier: MIT */
/* border: what reads beyond the edges of a value is computed for the interior and for the edges apart.
 *
 * requires plain reductions; changes no op, only for which elements a node computes it
 *
 *   %1 = slice f32[1] %0 axis=0 start=99 stop=100         %4 = slice f32[1] %0 start=99 ..    the first element
 *   %2 = slice f32[99] %0 axis=0 start=0 stop=99          %5 = slice f32[1] %0 start=0 ..
 *   %3 = cat f32[100] %1 %2 axis=0                   =>   %6 = add f32[1] %5 %4
 *   %4 = add f32[100] %0 %3                               %7 = slice f32[99] %0 start=1 ..    the interior
 *                                                         %8 = slice f32[99] %0 start=0 ..
 *   (add of x and x rolled by 1)                          %9 = add f32[99] %7 %8
 *                                                         %10 = cat f32[100] %6 %9 axis=0
 *
 * roll, pad in all its modes, and shifts become cats of views. A point op that reads such cats, at any offset, is cut where the cats
 * are; in each box it reads just one piece of each. Nothing tests where it is, the padded value is not stored, and the interior reads plain
 * slices. The boxes are joined by cats, so each kernel stores where its box lies.
 *
 * Where edges lie differs from size to size, as any extent does: the code of the second size has symbols for it (family.c), and serves all.
 *
 * Where a value would be cut too often, as for a window of many elements in two dimensions, it stays whole, and what is padded is stored.
 */
#include "lower/target.h"
#include "lower/walk.h"

enum {
	MOST_BOXES = 27,     /* of a value */
	MOST_CUTS = 16,      /* of an axis */
	MOST_CONE = 1024,    /* values that a point op is computed from, counted once for each offset */
	MOST_DEPTH = 96,     /* of that: the stack may be small */
	MOST_TEXT = 3000,    /* point ops of all boxes: each has a kernel of its own */
	MOST_EDGE = 4        /* a cat has a border if its other pieces are at most one in so many elements */
};

typedef struct seen { /* index k of r: index axis[k] of the root, and off[k] */
	ir_ref r;
	int depth;           /* below the root */
	int8_t axis[TJ_MAX_RANK];
	int64_t off[TJ_MAX_RANK];
} seen;

typedef struct pass {
	lo_walk w;
	const lo_opts *o;
	bool *bordered, *root;     /* by node of from: reads a cat with a border, without a step between; is cut, if that is worth it */
	rt_vec(seen) seen;         /* of the root at hand */
	int ncut[TJ_MAX_RANK];     /* of the root at hand */
	int64_t cut[TJ_MAX_RANK][MOST_CUTS];
} pass;

static const int64_t *dims(const pass *p, ir_ref r) { return ir_dims(p->w.from, ir_at(p->w.from, r)); }

/* ---- which values are cut ---- */
static bool has_border(const pass *p, ir_ref r)
{
	const ir_node *n = ir_at(p->w.from, r);
	const int64_t axis = n->op == IR_cat ? ir_attr(p->w.from, n)[0] : 0;
	int64_t most = 0;
	if (n->op != IR_cat || n->nsrc < 2 || dims(p, r)[axis] < p->o->target->least_axis) return false;
	for (int k = 0; k < n->nsrc; k++) {
		const int64_t size = dims(p, ir_src(p->w.from, n, k))[axis];
		if (size > most) most = size;
	}
	return most < dims(p, r)[axis] && (dims(p, r)[axis] - most) * MOST_EDGE <= dims(p, r)[axis];
}

static bool is_step_1(const pass *p, const ir_node *n) { return n->op == IR_slice && ir_attr(p->w.from, n)[3] == 1; }

/* true: some value may be cut */
static bool find_roots(pass *p)
{
	bool found = false;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) {
		const ir_node *n = ir_at(p->w.from, r);
		bool any = has_border(p, r);
		for (int k = 0; k < n->nsrc && lo_by_element(p->w.from, n); k++) any |= p->bordered[ir_src(p->w.from, n, k)];
		if (is_step_1(p, n)) any = p->bordered[ir_src(p->w.from, n, 0)] && !lo_by_element(p->w.from, ir_at(p->w.from, ir_src(p->w.from, n, 0)));
		p->bordered[r] = any;
		found |= any && lo_by_element(p->w.from, n);
		for (int k = 0; k < n->nsrc && !lo_by_element(p->w.from, n); k++) p->root[ir_src(p->w.from, n, k)] = true;
	}
	for (uint32_t i = 0; i < p->w.from->out.n; i++) p->root[p->w.from->out.v[i]] = true;
	return found;
}

/* ---- where ---- */
static bool add_cut(pass *p, int axis, int64_t at, int64_t size)
{
	int i = 0;
	if (axis < 0 || at <= 0 || at >= size) return true;
	while (i < p->ncut[axis] && p->cut[axis][i] < at) i++;
	if (i < p->ncut[axis] && p->cut[axis][i] == at) return true;
	if (p->ncut[axis] == MOST_CUTS) return false;
	memmove(&p->cut[axis][i + 1], &p->cut[axis][i], sizeof *p->cut[axis] * (size_t)(p->ncut[axis] - i));
	p->cut[axis][i] = at;
	p->ncut[axis]++;
	return true;
}

static bool follow(pass *p, ir_ref root, seen s);

static bool follow_cat(pass *p, ir_ref root, const seen *s)
{
	const ir_node *n = ir_at(p->w.from, s->r);
	const int axis = (int)ir_attr(p->w.from, n)[0];
	int64_t at = 0;
	for (int k = 0; k < n->nsrc; k++) {
		seen piece = *s;
		piece.r = ir_src(p->w.from, n, k);
		piece.depth++;
		if (k && s->axis[axis] >= 0 && !add_cut(p, s->axis[axis], at - s->off[axis], dims(p, root)[s->axis[axis]])) return false;
		piece.off[axis] -= at;
		if (!lo_by_element(p->w.from, ir_at(p->w.from, piece.r)) && !follow(p, root, piece)) return false;
		at += dims(p, piece.r)[axis];
	}
	return true;
}

static bool follow_operand(pass *p, ir_ref root, const seen *s, int k)
{
	const ir_node *n = ir_at(p->w.from, s->r), *x = ir_at(p->w.from, ir_src(p->w.from, n, k));
	const int lead = n->rank - x->rank;
	seen t = { .r = ir_src(p->w.from, n, k), .depth = s->depth + 1 };
	for (int i = 0; i < x->rank; i++) {
		const bool same = dims(p, t.r)[i] == dims(p, s->r)[i + lead];
		t.axis[i] = same ? s->axis[i + lead] : -1;
		t.off[i] = s->off[i + lead];
	}
	return follow(p, root, t);
}

/* Collects the cuts of what s->r is computed from; false: too many. */
static bool follow(pass *p, ir_ref root, seen s)
{
	const ir_node *n = ir_at(p->w.from, s.r);
	const int64_t *attr = ir_attr(p->w.from, n);
	for (uint32_t i = 0; i < p->seen.n; i++)
		if (p->seen.v[i].r == s.r && !memcmp(p->seen.v[i].axis, s.axis, n->rank) && !memcmp(p->seen.v[i].off, s.off, sizeof *s.off * n->rank))
			return true;
	if (p->seen.n == MOST_CONE || s.depth == MOST_DEPTH || !rt_push(&p->seen, s)) return false;
	if (n->op == IR_cat) return follow_cat(p, root, &s);
	if (lo_by_element(p->w.from, n)) {
		for (int k = 0; k < n->nsrc; k++)
			if (p->bordered[ir_src(p->w.from, n, k)] && !follow_operand(p, root, &s, k)) return false;
		return true;
	}
	if (!is_step_1(p, n) && n->op != IR_expand && n->op != IR_flip) return true;
	if (lo_by_element(p->w.from, ir_at(p->w.from, ir_src(p->w.from, n, 0)))) return true;
	if (n->op == IR_expand) return follow_operand(p, root, &s, 0);
	s.r = ir_src(p->w.from, n, 0);
	s.depth++;
	if (n->op == IR_slice) s.off[attr[0]] += attr[1];
	for (int i = 0; n->op == IR_flip && i < n->rank; i++)
		if (lo_flips(p->w.from, n, i)) s.axis[i] = -1;
	return follow(p, root, s);
}

/* The boxes of the root, as cuts along each axis; false: it stays whole. */
static bool find_cuts(pass *p, ir_ref root)
{
	const ir_node *n = ir_at(p->w.from, root);
	seen s = { .r = root };
	int64_t boxes = 1, inside = 1, ops = 0;
	p->seen.n = 0;
	memset(p->ncut, 0, sizeof p->ncut);
	for (int i = 0; i < n->rank; i++) s.axis[i] = (int8_t)i;
	if (ir_numel(p->w.from, root) < p->o->target->least_border || !follow(p, root, s)) return false;
	for (int i = 0; i < n->rank; i++) {
		const int64_t size = dims(p, root)[i];
		int64_t most = 0, from = 0;
		for (int k = 0; k <= p->ncut[i]; k++) {
			const int64_t to = k < p->ncut[i] ? p->cut[i][k] : size;
			if (to - from > most) most = to - from;
			from = to;
		}
		inside *= most;
		boxes *= p->ncut[i] + 1;
	}
	for (uint32_t i = 0; i < p->seen.n; i++) ops += lo_by_element(p->w.from, ir_at(p->w.from, p->seen.v[i].r));
	return boxes > 1 && boxes <= MOST_BOXES && boxes * ops <= MOST_TEXT && 2 * inside >= ir_numel(p->w.from, root);
}

/* ---- the walk ---- */
/* The boxes of root r with the indices b along the axes before `axis`, joined. */
static ir_ref join(pass *p, ir_ref r, int axis, lo_box *b)
{
	const ir_node *n = ir_at(p->w.from, r);
	if (axis == n->rank) return lo_part_of_point(&p->w, r, b);
	ir_ref v[MOST_CUTS + 1];
	const int cuts = p->ncut[axis];
	for (int k = 0; k <= cuts; k++) {
		b->lo[axis] = k ? p->cut[axis][k - 1] : 0;
		b->n[axis] = (k < cuts ? p->cut[axis][k] : dims(p, r)[axis]) - b->lo[axis];
		if ((v[k] = join(p, r, axis + 1, b)) == IR_NONE) return IR_NONE;
	}
	return cuts ? ir_emit(p->w.to, IR_cat, cuts + 1, v, 1, (int64_t[]){ axis }, n->site) : v[0];
}

static ir_ref walk(void *env, ir_ref r, ir_ref *src)
{
	pass *p = env;
	lo_box b = lo_whole(&p->w, r);
	const bool cuts = p->root[r] && p->bordered[r] && lo_by_element(p->w.from, ir_at(p->w.from, r)) && find_cuts(p, r);
	return cuts ? join(p, r, 0, &b) : lo_copy(p->w.to, p->w.from, r, src);
}

/* A value that is stored is read from there. */
static bool own(void *env, ir_ref r, const lo_box *b, ir_ref *y)
{
	pass *p = env;
	if (!p->root[r] || !lo_by_element(p->w.from, ir_at(p->w.from, r))) return false;
	return *y = lo_slice(&p->w, r, b), true;
}

tj_status lo_border(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, rt_err *err)
{
	const uint32_t n = from->node.n + 1;
	pass p = { .w = { .from = from, .to = to, .walk = walk, .own = own }, .o = o };
	p.w.env = &p;
	p.bordered = rt_calloc(n);
	p.root = rt_calloc(n);
	tj_status st = p.bordered && p.root ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
	*did = st == TJ_OK && find_roots(&p);
	if (*did) st = lo_walk_graph(&p.w, err);
	rt_free(p.bordered);
	rt_free(p.root);
	rt_vec_free(&p.seen);
	return st;
}
