/* SPDX-License-Identifier: MIT */
/* grad: gradients, as nodes of the same graph.
 *
 *   %0 = input f32[4] slot=0                                      %3 = const f32[] 0x1p+1
 *   %1 = square f32[4] %0           =>  gradient of %2 by %0:     %4 = mul f32[4] %0 %3
 *   %2 = sum f32[] %1                                             (the 1 that it starts with folds away)
 *
 * First y and all that it is computed from are put in an order in which operands come before their users; composites without a rule
 * of their own are decomposed on the way, and stand for their decomposition. Then the order is walked backwards: when a node's turn comes,
 * all its users have given their share of its gradient, and its rule (vjp.c) gives shares to its operands. Only nodes that depend on a
 * wanted value take part. Shares are added in the order in which they come, which depends on the graph alone. */
#include "ir/vjp.h"

enum { FRESH, OPENED, PLACED };

/* grad is that of slice start:stop of `of`. next: 1 + index */
typedef struct piece { ir_ref of, grad; int64_t start, stop; int axis; uint32_t next; } piece;

typedef struct share { ir_ref of, grad; int64_t result; } share; /* the gradient of a result of control flow */

typedef struct seen {
	ir_ref as;               /* the node's decomposition; IR_NONE: it has none */
	ir_ref grad;             /* the sum of the shares so far; IR_NONE: none yet */
	uint32_t pieces;         /* 1 + the last of its shares that are slices */
	uint8_t state;
	bool active;             /* depends on a wanted value */
	bool flat;               /* a share was 0 */
	bool turned;             /* of custom.c: it had its turn */
} seen;

typedef struct sweep {
	ir_graph *g;
	rt_vec(seen) at;         /* by node */
	rt_vec(ir_ref) order, open;
	rt_vec(piece) piece;
	rt_vec(share) share;
	rt_vec(ir_ref) to;       /* what a rule gives, and for which operands */
	rt_vec(bool) want;
	bool keep;               /* of ir_grad_ask */
	bool oom;
} sweep;

static void fail(sweep *s, tj_status code, const char *op, const char *what, const char *site)
{
	if (s->g->err.code != TJ_OK) return;
	rt_fail(&s->g->err, code, "grad", "%s%s%s", op, *op ? ": " : "", what);
	s->g->err.site = site;
}

static bool is_float(const ir_node *n) { return rt_is_float((tj_dtype)n->dtype); }

/* Room for every node of the graph. */
static bool grow(sweep *s)
{
	const uint32_t n = s->g->node.n, had = s->at.n;
	if (n > had && !rt_reserve(&s->at, n - had)) return !(s->oom = true);
	for (uint32_t r = had; r < n; r++) s->at.v[r] = (seen){ .as = IR_NONE, .grad = IR_NONE };
	if (n > had) s->at.n = n;
	return true;
}

/* ---- the order ---- */
static bool depends(const sweep *s, const ir_node *n)
{
	bool any = false;
	for (int k = 0; k < n->nsrc; k++) any |= s->at.v[ir_src(s->g, n, k)].active;
	return any && (is_float(n) || ir_is_tuple(n));
}

static bool decompose(sweep *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	ir_ref *src = rt_arena_alloc(&s->g->mem, sizeof *src * (n->nsrc + 1u));
	if (!src) return !(s->oom = true);
	for (int k = 0; k < n->nsrc; k++) src[k] = ir_src(s->g, n, k);
	const ir_ref as = ir_decompose(s->g, s->g, r, src);
	s->g->mode = 0;
	if (as == IR_NONE || !grow(s)) return false;
	s->at.v[r].as = as;
	return rt_push(&s->open, as) || !(s->oom = true);
}

/* All operands of r are placed. */
static bool place(sweep *s, ir_ref r)
{
	const ir_node *n = ir_at(s->g, r);
	s->at.v[r].active |= depends(s, n);
	if (s->at.v[r].active && s->at.v[r].as == IR_NONE && ir_ops[n->op].grad == IR_GRAD_PARTS) return decompose(s, r);
	s->at.v[r].state = PLACED;
	s->open.n--;
	return rt_push(&s->order, r) || !(s->oom = true);
}

static bool put_in_order(sweep *s, ir_ref y)
{
	if (!rt_push(&s->open, y)) return !(s->oom = true);
	while (s->open.n) {
		const ir_ref r = s->open.v[s->open.n - 1];
		const ir_node *n = ir_at(s->g, r);
		if (s->at.v[r].state == PLACED) {
			s->open.n--;
			continue;
		}
		if (s->at.v[r].state == OPENED) {
			if (!place(s, r)) return false;
			continue;
		}
		s->at.v[r].state = OPENED;
		for (int k = n->nsrc - 1; k >= 0; k--)
			if (s->at.v[ir_src(s->g, n, k)].state == FRESH && !rt_push(&s->open, ir_src(s->g, n, k))) return !(s->oom = true);
	}
	return true;
}

/* ---- shares ---- */
static void give(sweep *s, ir_ref to, ir_ref part)
{
	ir_ref *sum = &s->at.v[to].grad;
	*sum = *sum == IR_NONE ? part : ir_op2(s->g, IR_add, *sum, part, ir_at(s->g, to)->site);
}

/* Keeps the gradient of a plain slice: slices that lie side by side are joined later, which needs no zeros and no sums. */
static bool keep_piece(sweep *s, const ir_node *n, ir_ref grad)
{
	if (n->op != IR_slice) return false;
	const int64_t *a = ir_attr(s->g, n), len = ir_dims(s->g, n)[a[0]];
	const ir_ref of = ir_src(s->g, n, 0);
	if (a[3] != 1 || len == 0 || !s->at.v[of].active) return false;
	if (!rt_push(&s->piece, ((piece){ of, grad, a[1], a[1] + len, (int)a[0], s->at.v[of].pieces }))) return !(s->oom = true);
	s->at.v[of].pieces = s->piece.n;
	return true;
}

/* Of the pieces in the list: the one of the axis with the least start >= from; NULL: none. */
static const piece *next_piece(const sweep *s, uint32_t list, int axis, int64_t from)
{
	const piece *best = NULL;
	for (uint32_t i = list; i; i = s->piece.v[i - 1].next) {
		const piece *p = &s->piece.v[i - 1];
		if (p->axis == axis && p->start >= from && (!best || p->start < best->start)) best = p;
	}
	return best;
}

static uint32_t length(const sweep *s, uint32_t list)
{
	uint32_t n = 0;
	for (uint32_t i = list; i; i = s->piece.v[i - 1].next) n++;
	return n;
}

/* The pieces that follow each other from the first one on, with zeros between; takes them out of the list. */
static ir_ref join(sweep *s, ir_ref of, uint32_t *list)
{
	const ir_meta m = ir_meta_of(s->g, of);
	const int axis = s->piece.v[*list - 1].axis;
	const int64_t at = axis, all = m.dim[axis];
	ir_ref *part = rt_arena_alloc(&s->g->mem, sizeof *part * (2u * length(s, *list) + 1));
	int n = 0;
	int64_t from = 0;
	if (!part) return s->oom = true, IR_NONE;
	for (const piece *p; (p = next_piece(s, *list, axis, from)); from = p->stop) {
		ir_meta gap = m;
		gap.dim[axis] = p->start - from;
		if (gap.dim[axis]) part[n++] = ir_const_f(s->g, (tj_dtype)m.dtype, m.rank, gap.dim, 0);
		part[n++] = p->grad;
		for (uint32_t *i = list; *i; i = &s->piece.v[*i - 1].next)
			if (&s->piece.v[*i - 1] == p) {
				*i = p->next;
				break;
			}
	}
	ir_meta gap = m;
	gap.dim[axis] = all - from;
	if (gap.dim[axis]) part[n++] = ir_const_f(s->g, (tj_dtype)m.dtype, m.rank, gap.dim, 0);
	return n == 1 ? part[0] : ir_emit(s->g, IR_cat, n, part, 1, &at, ir_at(s->g, of)->site);
}

static void settle(sweep *s, ir_ref r)
{
	while (s->at.v[r].pieces && !s->oom && s->g->err.code == TJ_OK) give(s, r, join(s, r, &s->at.v[r].pieces));
}

/* ---- the way back ---- */
static bool flat(sweep *s, const ir_node *n)
{
	for (int k = 0; k < n->nsrc; k++) s->at.v[ir_src(s->g, n, k)].flat |= s->at.v[ir_src(s->g, n, k)].active;
	return true;
}

/* Room in to and want for the operands of n. */
static bool ready(sweep *s, const ir_node *n)
{
	s->to.n = s->want.n = 0;
	for (int k = 0; k < n->nsrc; k++)
		if (!rt_push(&s->to, IR_NONE) || !rt_push(&s->want, s->at.v[ir_src(s->g, n, k)].active)) return !(s->oom = true);
	return true;
}

static bool give_all(sweep *s, const ir_node *n)
{
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref src = ir_src(s->g, n, k);
		if (!s->want.v[k]) continue;
		if (s->to.v[k] == IR_NONE) s->at.v[src].flat = true;
		else give(s, src, s->to.v[k]);
	}
	return s->g->err.code == TJ_OK;
}

/* A node of control flow, after all its results. */
static bool step_flow(sweep *s, ir_ref r)
{
	const ir_node n = *ir_at(s->g, r);
	const int results = ir_results(s->g, &n);
	bool any = false;
	ir_ref *grad = rt_arena_alloc(&s->g->mem, sizeof *grad * ((size_t)results + 1));
	if (!grad || !ready(s, &n)) return !(s->oom = true);
	for (int i = 0; i < results; i++) grad[i] = IR_NONE;
	for (uint32_t i = 0; i < s->share.n; i++) {
		if (s->share.v[i].of != r) continue;
		grad[s->share.v[i].result] = s->share.v[i].grad;
		any = true;
	}
	if (!any) return flat(s, &n);
	if (n.op == IR_while && !ir_flow_turns(s->g, &n)) {
		fail(s, TJ_ERR_ARG, "while", "it has no gradient, since its turns have no limit", n.site);
		rt_hint(&s->g->err, "set .max_turns: the carries of so many turns are kept; or use tj_scan()");
		return false;
	}
	return ir_vjp_flow(s->g, r, grad, s->want.v, s->keep, s->to.v) && give_all(s, &n);
}

/* The values of c, which is a checkpoint, are computed again, and take the gradients on. */
static bool step_again(sweep *s, const ir_custom *c, const ir_ref *grad)
{
	ir_graph *g = s->g;
	ir_ref after = IR_NONE, *value = rt_arena_alloc(&g->mem, sizeof *value * (size_t)c->nout), *from, *by, *to;
	int n;
	for (int i = 0; i < c->nout; i++)
		if (grad[i] != IR_NONE && (after == IR_NONE || ir_at(g, after)->op == IR_const)) after = grad[i];
	if (!value) return !(s->oom = true);
	if (!ir_checkpoint_again(g, c, after, value, &n, &from, &by) || !grow(s)) return false;
	if (!(to = rt_arena_alloc(&g->mem, sizeof *to * ((size_t)n + 1)))) return !(s->oom = true);
	ir_grad_ask q = { .none = true, .site = c->site };
	for (int k = 0; k < n; k++) {
		if (!s->at.v[from[k]].active) continue;
		from[q.n] = from[k];
		by[q.n++] = by[k];
	}
	q.wrt = by;
	if (!ir_grad_all(g, c->nout, value, grad, &q, to)) return false;
	if (!grow(s)) return false;
	for (int k = 0; k < q.n; k++) {
		if (to[k] != IR_NONE) give(s, from[k], to[k]);
		else s->at.v[from[k]].flat = true;
	}
	return g->err.code == TJ_OK;
}

/* Value r, whose gradient the user gives, or that is computed again. When the first of those that belong together has its turn, all of them
 * have theirs. */
static bool step_custom(sweep *s, ir_ref r, const ir_custom *c)
{
	bool any = false, last = true;
	ir_ref *grad = rt_arena_alloc(&s->g->mem, sizeof *grad * ((size_t)c->nout + 1)),
	       *to = rt_arena_alloc(&s->g->mem, sizeof *to * ((size_t)c->nin + 1));
	if (!grad || !to) return !(s->oom = true);
	s->at.v[r].turned = true;
	for (int i = 0; i < c->nout; i++) {
		const seen *x = &s->at.v[c->out[i]];
		last &= x->turned || x->state != PLACED; /* or y does not depend on it */
		any |= (grad[i] = x->grad) != IR_NONE;
	}
	if (!last) return true;
	if (c->again && any) return step_again(s, c, grad);
	for (int i = 0; i < c->nin; i++)
		if (!any || c->grad[i] == IR_NONE) s->at.v[c->in[i]].flat |= s->at.v[c->in[i]].active;
	if (!any) return true;
	for (int i = 0; i < c->nout; i++)
		if (grad[i] == IR_NONE && (grad[i] = ir_zeros(s->g, c->out[i])) == IR_NONE) return false;
	for (int i = 0; i < c->nin; i++) {
		if (c->grad[i] == IR_NONE || !s->at.v[c->in[i]].active) continue;
		if (!ir_replace(s->g, c->nout, c->leaf, grad, 1, &c->grad[i], &to[i])) return false;
		give(s, c->in[i], to[i]);
	}
	return s->g->err.code == TJ_OK;
}

/* Applies the rule of node r, whose gradient is complete. y: its value; of a get, the node before it has the operands. */
static bool step(sweep *s, ir_ref r)
{
	const ir_ref grad = s->at.v[r].grad;
	const ir_node n = *ir_at(s->g, ir_at(s->g, r)->op == IR_get ? ir_src(s->g, ir_at(s->g, r), 0) : r);
	const int rule = ir_ops[n.op].grad;
	if (rule == IR_GRAD_REGIONS && grad != IR_NONE)
		return rt_push(&s->share, ((share){ ir_src(s->g, ir_at(s->g, r), 0), ir_keep_device(s->g, grad, ir_at(s->g, r)),
		                                    ir_attr(s->g, ir_at(s->g, r))[0] })) ||
		       !(s->oom = true);
	if (rule == IR_GRAD_DISCRETE || rule == IR_GRAD_MADE) return true;
	if (rule == IR_GRAD_NONE && grad != IR_NONE)
		return fail(s, TJ_ERR_ARG, ir_ops[n.op].name, "its gradient is not implemented", n.site), false;
	if (rule == IR_GRAD_FLAT || grad == IR_NONE) return flat(s, &n);
	if (keep_piece(s, &n, grad) || s->oom) return !s->oom;
	return ready(s, &n) && ir_vjp(s->g, r, grad, s->want.v, s->to.v) && give_all(s, &n);
}

static bool walk_back(sweep *s)
{
	for (uint32_t i = s->order.n; i-- > 0;) {
		const ir_ref r = s->order.v[i];
		settle(s, r);
		seen *x = &s->at.v[r];
		if (s->oom || s->g->err.code != TJ_OK) return false;
		if (x->active && ir_is_flow(ir_at(s->g, r)->op)) {
			if (!step_flow(s, r)) return false;
			continue;
		}
		const ir_custom *custom = x->active ? ir_custom_of(s->g, r) : NULL;
		if (custom && !(custom->again && s->keep)) {
			if (!step_custom(s, r, custom)) return false;
			continue;
		}
		if (!x->active || (x->grad == IR_NONE && !x->flat)) continue;
		if (x->as != IR_NONE) {
			s->at.v[x->as].flat |= x->flat;
			if (x->grad != IR_NONE) give(s, x->as, x->grad);
		} else if (!step(s, r)) return false;
	}
	return true;
}

/* ---- the request ---- */
static bool result(sweep *s, const ir_grad_ask *q, int i, ir_ref *out)
{
	const seen *x = &s->at.v[q->wrt[i]];
	char what[80];
	*out = x->grad;
	if (*out == IR_NONE && q->none) return true;
	if (*out == IR_NONE && (x->flat || q->zeros)) *out = ir_zeros(s->g, q->wrt[i]);
	if (*out != IR_NONE) *out = ir_keep_device(s->g, *out, ir_at(s->g, q->wrt[i])); /* a constant is on the CPU */
	if (*out != IR_NONE || s->g->err.code != TJ_OK) return *out != IR_NONE;
	snprintf(what, sizeof what, "the value does not depend on tensor %d of those asked for", i);
	fail(s, TJ_ERR_ARG, "", what, q->site);
	rt_hint(&s->g->err, "TJ_UNUSED_ZEROS (.unused of tj_grad(), the last argument of tj_jvp()) gives zeros");
	return false;
}

static bool ask(sweep *s, int ny, const ir_ref *y, const ir_ref *cotangent, const ir_grad_ask *q, ir_ref *out)
{
	if (!grow(s)) return false;
	for (int i = 0; i < q->n; i++) s->at.v[q->wrt[i]].active = true;
	for (int i = 0; i < ny; i++) {
		if (cotangent[i] == IR_NONE) continue;
		if (!put_in_order(s, y[i])) return false;
		give(s, y[i], cotangent[i]);
	}
	if (!walk_back(s)) return false;
	for (int i = 0; i < q->n; i++)
		if (!result(s, q, i, &out[i])) return false;
	return true;
}

bool ir_grad_all(ir_graph *g, int ny, const ir_ref *y, const ir_ref *cotangent, const ir_grad_ask *q, ir_ref *out)
{
	sweep s = { .g = g, .keep = q->keep };
	const uint8_t mode = g->mode;
	g->mode = 0;
	const bool ok = ask(&s, ny, y, cotangent, q, out);
	g->mode = mode;
	if (s.oom) fail(&s, TJ_ERR_NOMEM, "", "out of memory", q->site);
	rt_vec_free(&s.at);
	rt_vec_free(&s.order);
	rt_vec_free(&s.open);
	rt_vec_free(&s.piece);
	rt_vec_free(&s.share);
	rt_vec_free(&s.to);
	rt_vec_free(&s.want);
	return ok;
}

bool ir_grad(ir_graph *g, const ir_grad_ask *q, ir_ref *out)
{
	const ir_meta m = ir_meta_of(g, q->y);
	const ir_ref ones = q->cotangent != IR_NONE ? q->cotangent : ir_const_f(g, (tj_dtype)m.dtype, m.rank, m.dim, 1);
	return ones != IR_NONE && ir_grad_all(g, 1, &q->y, &ones, q, out);
}

/* The gradient of y along a cotangent u is linear in u. So its own gradient by u, along the tangents, is the derivative of y along them,
 * and no longer depends on u: a leaf, which is gone when dead nodes are left out. */
bool ir_jvp(ir_graph *g, const ir_grad_ask *q, const ir_ref *tangent, ir_ref *out)
{
	const ir_meta m = ir_meta_of(g, q->y);
	ir_grad_ask back = *q;
	back.keep = true; /* a barrier would depend on u */
	ir_ref *grad = rt_arena_alloc(&g->mem, sizeof *grad * ((size_t)q->n + 1));
	if (!grad) return rt_fail(&g->err, TJ_ERR_NOMEM, "jvp", "out of memory"), false;
	back.cotangent = ir_leaf(g, &m, q->site);
	const bool ok = back.cotangent != IR_NONE && ir_grad(g, &back, grad) &&
	                ir_grad_all(g, q->n, grad, tangent,
	                            &(ir_grad_ask){ .n = 1, .wrt = &back.cotangent, .zeros = true, .keep = true, .site = q->site }, out);
	if (!ok) g->err.op = "jvp";
	return ok;
}
