/* SPDX-License-Identifier: MIT */
/* vjpflow: gradients through control flow. The regions are copied into those of a new node, which computes their values again and walks
 * back from there. A loop also keeps what its products computed; a region with checkpoints computes all of it again.
 *
 *   cond p, x -> y     =>   cond p, x, dy -> dx        each region: its own copy, then the gradients of its outputs
 *
 *   scan c, xs, w -> c', ys   =>   scan c, xs, w -> carries, products     one more run that keeps the carries before each turn, stacked
 *                                  scan dc', dw = 0 | carries, products, xs, dys, w -> dc, dw, dxs     the other way round
 *
 *   while c, w -> c'          =>   while c, 0, w -> n, carries    the same, which also counts its turns; room for as many as it may have
 *                                  scan dc', dw = 0 | carries, n, w -> dc, dw                 only those n turns, the other way round
 *
 * The first of the two is left out if the loop has kept its carries already: of second gradients on. Lowering joins it with the loop itself
 * (lower/loops.c). */
#include "ir/region.h"
#include "ir/turnsum.h"
#include "ir/vjp.h"

enum { FEW_ROWS = 256, MOST_TERMS = 16 }; /* a product over fewer rows in a turn leaves the loop */

typedef struct flow {
	ir_graph *g;
	ir_ref r;
	ir_node n;               /* a copy, since emitting moves nodes */
	const ir_ref *grad;      /* by result; IR_NONE: none */
	const bool *want;        /* by operand */
	ir_ref *to;
	bool keep;               /* of ir_grad_ask */
	ir_builder b;
	rt_arena mem;
} flow;

static ir_ref *refs(flow *f, size_t n)
{
	ir_ref *v = rt_arena_alloc(&f->mem, sizeof *v * (n + 1));
	if (!v) rt_fail(&f->g->err, TJ_ERR_NOMEM, "grad", "out of memory");
	for (size_t i = 0; v && i <= n; i++) v[i] = IR_NONE;
	return v;
}

static ir_ref source(const flow *f, int k) { return ir_src(f->g, &f->n, k); }
static bool is_float(const ir_graph *g, ir_ref r) { return rt_is_float((tj_dtype)ir_at(g, r)->dtype); }

/* Copies region k into the one that is open, with slot[] for its inputs, and asks there for the gradients of its outputs by wrt[].
 * cotangent: by output, IR_NONE: none. Fills map[old] = new. */
static bool walk_back(flow *f, int k, int nslot, const ir_ref *slot, const ir_ref *cotangent, int n, const ir_ref *wrt, ir_ref *out,
                      ir_ref *map)
{
	const ir_graph *region = ir_flow_region(f->g, &f->n, k);
	ir_ref *y = refs(f, region->out.n);
	if (!y || !ir_build_copy(&f->b, region, nslot, slot, map)) return false;
	for (uint32_t i = 0; i < region->out.n; i++) y[i] = map[region->out.v[i]];
	return ir_grad_all(f->b.at->g, (int)region->out.n, y, cotangent,
	                   &(ir_grad_ask){ .n = n, .wrt = wrt, .zeros = true, .keep = f->keep, .site = f->n.site }, out);
}

/* ---- cond ---- */
/* then or else. Its inputs are the operands without the predicate, then the gradients that there are. */
static bool branch(flow *f, int k, int nresult)
{
	const int nin = f->n.nsrc - 1;
	ir_ref *map = refs(f, ir_flow_region(f->g, &f->n, k)->node.n), *in = refs(f, (size_t)nin), *ct = refs(f, (size_t)nresult),
	       *wrt = refs(f, (size_t)nin), *out = refs(f, (size_t)nin);
	int n = 0, at = nin;
	if (!map || !in || !ct || !wrt || !out || !ir_build_enter(&f->b)) return false;
	for (int i = 0; i < nin; i++) {
		in[i] = ir_build_input(&f->b, i, f->n.site);
		if (f->want[i + 1]) wrt[n++] = in[i];
	}
	for (int i = 0; i < nresult; i++)
		if (f->grad[i] != IR_NONE) ct[i] = ir_build_input(&f->b, at++, f->n.site);
	return walk_back(f, k, nin, in, ct, n, wrt, out, map) && ir_build_yield(&f->b, n, out);
}

static bool grad_cond(flow *f)
{
	const int nresult = ir_flow_results(f->g, &f->n);
	ir_ref *src = refs(f, (size_t)(f->n.nsrc + nresult));
	int n = 0, at = 0;
	for (; src && n < f->n.nsrc; n++) src[n] = source(f, n);
	for (int i = 0; src && i < nresult; i++)
		if (f->grad[i] != IR_NONE) src[n++] = f->grad[i];
	if (!src || !ir_build_open(&f->b, IR_cond, n, src, NULL, f->n.site) || !branch(f, 0, nresult) || !branch(f, 1, nresult)) return false;
	const ir_ref made = ir_build_close(&f->b);
	for (int k = 1; made != IR_NONE && k < f->n.nsrc; k++)
		if (f->want[k]) f->to[k] = ir_get(f->g, made, at++, f->n.site);
	return made != IR_NONE;
}

/* ---- loops ---- */
typedef struct turns {       /* of a scan or while; numbers of operands and results */
	int region, carries, xs, first, ys; /* region: of its body. first: the first capture, behind xs and the count of a counted scan */
	int64_t length;          /* of a while the most turns */
	bool reverse;
	ir_ref count;            /* the number of turns that ran; IR_NONE: all of a scan */
	bool *flows;             /* by carry: a gradient reaches it */
	int nkept;
	ir_ref *kept, *stack;    /* values of the body that are kept, and these of all turns, stacked */
} turns;

static turns turns_of(const flow *f)
{
	const int64_t *attr = ir_attr(f->g, &f->n);
	turns t = { .region = f->n.op == IR_while,
		    .carries = ir_flow_carries(f->g, &f->n),
		    .length = ir_flow_turns(f->g, &f->n),
		    .count = ir_flow_count(f->g, &f->n) };
	if (f->n.op == IR_scan) t.xs = (int)attr[2], t.reverse = attr[4] != 0;
	t.first = t.carries + t.xs + (t.count != IR_NONE);
	t.ys = ir_flow_results(f->g, &f->n) - t.carries;
	return t;
}

/* Marks the floats among the carries whose first values the results with a gradient depend on. The gradients of others would be 0 times
 * what a turn computes, which may be infinite. */
static bool find_flows(flow *f, turns *t)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	bool *used = rt_arena_alloc(&f->mem, body->node.n + 1u), more = true;
	t->flows = rt_arena_alloc(&f->mem, (size_t)t->carries + 1);
	if (!used || !t->flows) return false;
	memset(used, 0, body->node.n);
	for (int i = 0; i < t->carries; i++) t->flows[i] = f->grad[i] != IR_NONE;
	while (more) {
		more = false;
		for (int i = 0; i < t->carries + t->ys; i++) used[body->out.v[i]] |= i < t->carries ? t->flows[i] : f->grad[i] != IR_NONE;
		for (ir_ref r = body->node.n; r-- > 0;) {
			const ir_node *n = ir_at(body, r);
			for (int k = 0; used[r] && k < n->nsrc; k++) used[ir_src(body, n, k)] = true;
			if (!used[r] || n->op != IR_input || ir_attr(body, n)[0] >= t->carries || !is_float(body, r)) continue;
			more |= !t->flows[ir_attr(body, n)[0]];
			t->flows[ir_attr(body, n)[0]] = true;
		}
	}
	return true;
}

/* Carry i only counts the turns: its body needs it for nothing else. */
static bool counts_only(const flow *f, const turns *t, int i)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	int uses = 0;
	if (!ir_is_counter(f->g, &f->n, i)) return false;
	for (ir_ref r = 0; r < body->node.n; r++)
		for (int k = 0; k < ir_at(body, r)->nsrc; k++) {
			const ir_node *x = ir_at(body, ir_src(body, ir_at(body, r), k));
			uses += x->op == IR_input && ir_attr(body, x)[0] == i;
		}
	for (uint32_t k = 0; k < body->out.n; k++)
		uses += body->out.v[k] == body->out.v[i] ||
		        (ir_at(body, body->out.v[k])->op == IR_input && ir_attr(body, ir_at(body, body->out.v[k]))[0] == i);
	return uses == 2;
}

/* Among ys: value r of the body. -1: it is not. */
static int stack_of(const flow *f, const turns *t, ir_ref r)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	for (int k = t->carries; k < t->carries + t->ys; k++)
		if (body->out.v[k] == r) return k;
	return -1;
}

/* In the body: carry i before the turn. IR_NONE: it reads none. */
static ir_ref input_of(const flow *f, const turns *t, int i)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	for (ir_ref r = 0; r < body->node.n; r++)
		if (ir_at(body, r)->op == IR_input && ir_attr(body, ir_at(body, r))[0] == i) return r;
	return IR_NONE;
}

/* The loop has kept its carries already, as one that a gradient made has, and perhaps its products. */
static bool known(flow *f, turns *t, ir_ref *carry)
{
	int counter = -1, kept = 0;
	for (int i = 0; i < t->carries; i++) {
		if (ir_is_counter(f->g, &f->n, i)) counter = i;
		if (!counts_only(f, t, i) && stack_of(f, t, input_of(f, t, i)) < 0) return false;
	}
	if (f->n.op == IR_while && counter < 0) return false;
	for (int i = 0; i < t->carries; i++)
		if (!counts_only(f, t, i)) carry[i] = ir_get(f->g, f->r, stack_of(f, t, input_of(f, t, i)), f->n.site);
	for (int i = 0; i < t->nkept; i++)
		if (stack_of(f, t, t->kept[i]) >= 0)
			t->kept[kept] = t->kept[i], t->stack[kept++] = ir_get(f->g, f->r, stack_of(f, t, t->kept[i]), f->n.site);
	t->nkept = kept;
	if (f->n.op == IR_while) t->count = ir_get(f->g, f->r, counter, f->n.site);
	return true;
}

/* Adds the last axis of a value that has no room for one more to the one before it. */
static ir_ref flat(const flow *f, ir_ref r)
{
	const ir_meta m = ir_meta_of(f->b.at->g, r);
	int64_t dim[TJ_MAX_RANK];
	if (m.rank < TJ_MAX_RANK) return r;
	memcpy(dim, m.dim, sizeof dim);
	dim[m.rank - 2] *= dim[m.rank - 1];
	return ir_reshape(f->b.at->g, r, m.rank - 1, dim, f->n.site);
}

/* The slices of one turn, in the type of the carry of which they are. */
static ir_ref like(const flow *f, ir_ref slice, ir_ref carry)
{
	const ir_meta m = ir_meta_of(f->g, carry);
	return ir_at(f->b.at->g, slice)->rank == m.rank ? slice : ir_reshape(f->b.at->g, slice, m.rank, m.dim, f->n.site);
}

/* ---- what a turn keeps beside its carries ---- */
static bool is_product(const ir_graph *g, ir_ref r)
{
	return ir_at(g, r)->op == IR_matmul || ir_at(g, r)->op == IR_conv || ir_at(g, r)->op == IR_conv_transpose;
}

/* user[r]: the only node that reads r; IR_NONE: there are more, or none. An output is read from outside, too. */
static void find_users(const ir_graph *body, ir_ref *user)
{
	const ir_ref many = IR_NONE - 1;
	for (ir_ref r = 0; r < body->node.n; r++)
		for (int k = 0; k < ir_at(body, r)->nsrc; k++) {
			const ir_ref x = ir_src(body, ir_at(body, r), k);
			user[x] = user[x] == IR_NONE ? r : many;
		}
	for (uint32_t i = 0; i < body->out.n; i++) user[body->out.v[i]] = many;
	for (ir_ref r = 0; r < body->node.n; r++)
		if (user[r] == many) user[r] = IR_NONE;
}

/* The values that take long to compute again: products, and sums into which alone they go. Not those that are the same in each turn. */
static bool choose_kept(flow *f, turns *t)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	ir_ref *user = refs(f, body->node.n), *varies = refs(f, body->node.n); /* varies: IR_NONE: it does not */
	t->kept = refs(f, body->node.n), t->stack = refs(f, body->node.n);
	if (!user || !varies || !t->kept || !t->stack) return false;
	if (body->custom.n) return true; /* checkpoints, and values with a gradient of the user's */
	find_users(body, user);
	for (ir_ref r = 0; r < body->node.n; r++) {
		const ir_node *n = ir_at(body, r);
		if (n->op == IR_input && ir_attr(body, n)[0] < t->carries + t->xs) varies[r] = r;
		for (int k = 0; k < n->nsrc; k++)
			if (varies[ir_src(body, n, k)] != IR_NONE) varies[r] = r;
	}
	for (ir_ref r = 0, at; r < body->node.n; r++) {
		if (!is_product(body, r) || varies[r] == IR_NONE) continue;
		for (at = r; user[at] != IR_NONE && ir_is_plain_sum(body, user[at]);) at = user[at];
		bool met = ir_at(body, at)->rank == TJ_MAX_RANK;
		for (int i = 0; i < t->nkept; i++) met |= t->kept[i] == at;
		if (!met) t->kept[t->nkept++] = at;
	}
	return true;
}

/* Enters region k and copies it. extra: the operands of the new node from this one on have one more in front of them (a counter). in: by
 * operand of the new one. */
static bool copied(flow *f, int k, int extra, ir_ref *in, ir_ref *map)
{
	const bool more = f->n.op == IR_while;
	ir_ref *slot = refs(f, f->n.nsrc);
	if (!slot || !ir_build_enter(&f->b)) return false;
	for (int i = 0; i < f->n.nsrc + more; i++) in[i] = ir_build_input(&f->b, i, f->n.site);
	for (int i = 0; i < f->n.nsrc; i++) slot[i] = in[i + (more && i >= extra)];
	return ir_build_copy(&f->b, ir_flow_region(f->g, &f->n, k), f->n.nsrc, slot, map);
}

static bool copied_test(flow *f, int extra)
{
	const ir_graph *test = ir_flow_region(f->g, &f->n, 0);
	ir_ref *in = refs(f, f->n.nsrc + 1u), *map = refs(f, test->node.n);
	return in && map && copied(f, 0, extra, in, map) && ir_build_yield(&f->b, 1, &map[test->out.v[0]]);
}

/* Its carries, of a while also the counter, then the values of the carries before it, then what is kept. */
static bool copied_body(flow *f, const turns *t, int kept)
{
	const ir_graph *body = ir_flow_region(f->g, &f->n, t->region);
	const int more = f->n.op == IR_while;
	ir_ref *in = refs(f, f->n.nsrc + 1u), *map = refs(f, body->node.n), *out = refs(f, 2 * (size_t)t->carries + (size_t)t->nkept + 1);
	int n = 0;
	if (!in || !map || !out || !copied(f, t->region, t->carries, in, map)) return false;
	for (; n < t->carries; n++) out[n] = map[body->out.v[n]];
	if (more) {
		const ir_ref one = ir_const_i(f->b.at->g, TJ_I64, 0, NULL, 1);
		out[n++] = ir_op2(f->b.at->g, IR_add, in[t->carries], one, f->n.site);
	}
	for (int i = 0; i < t->carries; i++)
		if (!counts_only(f, t, i)) out[n++] = flat(f, in[i]);
	for (int i = 0; i < t->nkept; i++) out[n++] = map[t->kept[i]];
	return n == t->carries + more + kept && ir_build_yield(&f->b, n, out);
}

/* What is left of so many bytes beside the values of r in all turns. -1: they are too many. */
static int64_t take(const turns *t, const ir_graph *g, ir_ref r, int64_t left)
{
	const int64_t bytes = ir_numel(g, r) * (int64_t)tj_dtype_size((tj_dtype)ir_at(g, r)->dtype);
	return left < 0 || (bytes && t->length > left / bytes) ? -1 : left - bytes * t->length;
}

/* The carries of all turns are an amount of memory that exists. What else a turn keeps is computed again if it is not. */
static bool fits(const flow *f, turns *t)
{
	int64_t left = (int64_t)1 << 47;
	for (int i = 0; i < t->carries; i++) left = take(t, f->g, source(f, i), left);
	int64_t more = left;
	for (int i = 0; i < t->nkept; i++)
		if ((more = take(t, ir_flow_region(f->g, &f->n, t->region), t->kept[i], more)) < 0) t->nkept = i;
	if (left >= 0) return true;
	rt_fail(&f->g->err, TJ_ERR_LIMIT, "grad", "%s: it keeps the carries of all its turns, which may be %lld", ir_ops[f->n.op].name,
	        (long long)t->length);
	rt_hint(&f->g->err, "lower .max_turns");
	f->g->err.site = f->n.site;
	return false;
}

/* carry[i]: the values of carry i before each turn, stacked; IR_NONE: the body does not need them. Of a while also the number of turns. */
static bool carries_of(flow *f, turns *t, ir_ref *carry)
{
	const int more = f->n.op == IR_while;
	int kept = 0;
	ir_ref *src = refs(f, f->n.nsrc + 1u);
	if (!src || !choose_kept(f, t) || !fits(f, t)) return false;
	if (known(f, t, carry)) return true;
	for (int i = 0; i < t->carries; i++) kept += !counts_only(f, t, i);
	kept += t->nkept;
	for (int k = 0; k < f->n.nsrc; k++) src[k + (k >= t->carries ? more : 0)] = source(f, k);
	if (more) src[t->carries] = ir_const_i(f->g, TJ_I64, 0, NULL, 0);
	const int64_t attr[IR_FLOW_ATTRS] = { t->carries, t->xs, t->length, t->reverse, t->count != IR_NONE }, of_while[] = { t->length, kept };
	if (!ir_build_open(&f->b, (ir_op)f->n.op, f->n.nsrc + more, src, more ? of_while : attr, f->n.site)) return false;
	if ((more && !copied_test(f, t->carries)) || !copied_body(f, t, kept)) return false;
	const ir_ref made = ir_build_close(&f->b);
	int k = t->carries + more;
	for (int i = 0; made != IR_NONE && i < t->carries; i++)
		if (!counts_only(f, t, i)) carry[i] = ir_get(f->g, made, k++, f->n.site);
	for (int i = 0; made != IR_NONE && i < t->nkept; i++) t->stack[i] = ir_get(f->g, made, k++, f->n.site);
	if (more && made != IR_NONE) t->count = ir_get(f->g, made, t->carries, f->n.site);
	return made != IR_NONE;
}

/* The operands of the scan backwards, in this order; each number says where its kind begins. */
typedef struct order { int sums, carry, kept, xs, dys, count, captures, all; } order;

/* Carries: the gradients of carries, then the sums of those of wanted captures. */
static order backward_operands(flow *f, const turns *t, const ir_ref *carry, ir_ref *src)
{
	order o = { 0 };
	int n = 0;
	for (int i = 0; i < t->carries; i++)
		if (t->flows[i]) src[n++] = f->grad[i] != IR_NONE ? f->grad[i] : ir_zeros(f->g, source(f, i));
	o.sums = n;
	for (int k = t->first; k < f->n.nsrc; k++)
		if (f->want[k]) src[n++] = ir_zeros(f->g, source(f, k));
	o.carry = n;
	for (int i = 0; i < t->carries; i++)
		if (carry[i] != IR_NONE) src[n++] = carry[i];
	o.kept = n;
	for (int i = 0; i < t->nkept; i++) src[n++] = t->stack[i];
	o.xs = n;
	for (int i = 0; i < t->xs; i++) src[n++] = source(f, t->carries + i);
	o.dys = n;
	for (int i = 0; i < t->ys; i++)
		if (f->grad[t->carries + i] != IR_NONE) src[n++] = f->grad[t->carries + i];
	o.count = n;
	if (t->count != IR_NONE) src[n++] = t->count;
	o.captures = n;
	for (int k = t->first; k < f->n.nsrc; k++) src[n++] = source(f, k);
	o.all = n;
	return o;
}

/* What stands for slot k of the old body, but for carries. */
static ir_ref slot_for(const turns *t, const order *o, const ir_ref *in, int k)
{
	if (k < t->carries + t->xs) return in[o->xs + k - t->carries];
	return k < t->first ? in[o->count] : in[o->captures + k - t->first];
}

/* ---- sums over the turns that leave the loop ---- */
/* where the values of all turns are: of the new node; -1: not there. dim: as one matrix a turn */
typedef struct side { int operand, y; int64_t dim[3]; } side;
typedef struct leaving { ir_turn_product p; int capture; side left, right; } leaving;
typedef struct taken {       /* what backward_body() took out */
	leaving *list;
	int n, ys;               /* ys: results of the new node */
	int64_t left;            /* bytes that new ys of all turns may take */
	bool *whole;             /* by sum: nothing of it is left in the loop */
} taken;

/* The slices that the new node gets or gives: of xs among its operands, or of its ys, to which value r may be added. left: bytes that all
 * turns of it may take. */
static bool find_side(const flow *f, const turns *t, const order *o, ir_ref r, ir_ref *out, taken *x, int64_t *left, side *s)
{
	const ir_graph *g = f->b.at->g;
	ir_ref at = r;
	*s = (side){ -1, -1, { t->length, ir_dims(g, ir_at(g, r))[0], ir_dims(g, ir_at(g, r))[1] } };
	while (ir_at(g, at)->op == IR_reshape) at = ir_src(g, ir_at(g, at), 0);
	const int64_t slot = ir_at(g, at)->op == IR_input ? ir_attr(g, ir_at(g, at))[0] : -1;
	if (slot >= o->carry && slot < o->count) return s->operand = (int)slot, true;
	for (s->y = o->carry; s->y < x->ys && out[s->y] != r;) s->y++;
	if (s->y < x->ys) return true;
	if ((*left = take(t, g, r, *left)) < 0) return false;
	out[x->ys++] = r;
	return true;
}

/* A product or sum of few rows leaves; one of many only if that takes no memory. */
static bool leaves(const flow *f, const turns *t, const order *o, const ir_turn_product *p, ir_ref *out, taken *x)
{
	const bool many = ir_dims(f->b.at->g, ir_at(f->b.at->g, p->right.value))[p->right.rows_last] >= FEW_ROWS;
	const int ys = x->ys;
	int64_t left = many ? 0 : x->left;
	leaving *v = &x->list[x->n];
	v->p = *p;
	const bool ok = (p->left.value == IR_NONE || find_side(f, t, o, p->left.value, out, x, &left, &v->left)) &&
	                find_side(f, t, o, p->right.value, out, x, &left, &v->right);
	if (!ok) x->ys = ys;
	else x->n++, x->left = many ? x->left : left;
	return ok;
}

/* Takes products out of sum k, which is out[at] without what earlier turns added. */
static bool take_out(flow *f, const turns *t, const order *o, int k, int at, ir_ref *out, taken *x)
{
	ir_turn_product list[MOST_TERMS];
	ir_ref term[MOST_TERMS], sum = IR_NONE;
	int all = 0;
	const int n = t->count == IR_NONE ? ir_turn_products(f->b.at->g, out[at], MOST_TERMS, list, term, &all) : 0;
	if (!n) return true;
	for (int i = 0; i < all; i++) {
		x->list[x->n].capture = k;
		if (i < n && leaves(f, t, o, &list[i], out, x)) continue;
		sum = sum == IR_NONE ? term[i] : ir_op2(f->b.at->g, IR_add, sum, term[i], f->n.site);
		if (sum == IR_NONE) return false;
	}
	x->whole[k] = sum == IR_NONE;
	out[at] = sum;
	return true;
}

/* What turns keep already. */
static int64_t kept_bytes(const flow *f, const order *o, const ir_ref *src)
{
	int64_t bytes = 0;
	for (int k = o->carry; k < o->count; k++) bytes += ir_numel(f->g, src[k]) * (int64_t)tj_dtype_size((tj_dtype)ir_at(f->g, src[k])->dtype);
	return bytes;
}

static ir_ref side_of(flow *f, const ir_ref *src, ir_ref made, const side *s)
{
	const ir_ref r = s->operand >= 0 ? src[s->operand] : ir_get(f->g, made, s->y, f->n.site);
	return r == IR_NONE ? r : ir_reshape(f->g, r, 3, s->dim, f->n.site);
}

/* The gradient by capture k: what the loop has summed up, and the products that have left it. */
static ir_ref sum_of(flow *f, const ir_ref *src, ir_ref made, const taken *x, int k, int result)
{
	ir_ref sum = x->whole[k] ? IR_NONE : ir_get(f->g, made, result, f->n.site);
	for (int i = 0; i < x->n; i++) {
		if (x->list[i].capture != k) continue;
		const leaving *v = &x->list[i];
		const ir_ref left = v->p.left.value == IR_NONE ? IR_NONE : side_of(f, src, made, &v->left),
			     y = ir_turn_product_of(f->g, &v->p, left, side_of(f, src, made, &v->right), f->n.site);
		if (y == IR_NONE) return y;
		sum = sum == IR_NONE ? y : ir_op2(f->g, IR_add, sum, y, f->n.site);
	}
	return sum;
}

/* ---- the way back ---- */
/* What was computed from the kept values is computed from what was kept of them. */
static bool use_kept(flow *f, const turns *t, const order *o, const ir_ref *map, const ir_ref *in, int n, ir_ref *out)
{
	ir_ref *old = refs(f, (size_t)t->nkept), *now = refs(f, (size_t)t->nkept);
	int k = 0;
	if (!old || !now) return false;
	for (int i = 0; i < t->nkept; i++)
		if (!ir_is_leaf(ir_at(f->b.at->g, map[t->kept[i]])->op)) old[k] = map[t->kept[i]], now[k++] = in[o->kept + i];
	return ir_replace(f->b.at->g, k, old, now, n, out, out);
}

/* The body: computes one turn again from its carries, and walks back. carry: as given by carries_of(). */
static bool backward_body(flow *f, const turns *t, const order *o, const ir_ref *carry, taken *x)
{
	ir_ref *in = refs(f, (size_t)o->all), *ct = refs(f, (size_t)(t->carries + t->ys)), *wrt = refs(f, f->n.nsrc), *slot = refs(f, f->n.nsrc);
	ir_ref *map = refs(f, ir_flow_region(f->g, &f->n, t->region)->node.n),
	       *out = refs(f, (size_t)f->n.nsrc + 2 * MOST_TERMS * (size_t)(o->carry - o->sums));
	int n = 0, at = o->dys;
	if (!in || !ct || !wrt || !map || !out || !slot || !ir_build_enter(&f->b)) return false;
	for (int k = 0; k < o->all; k++) in[k] = ir_build_input(&f->b, k, f->n.site);
	for (int i = 0, k = o->carry; i < t->carries; i++) {
		slot[i] = carry[i] == IR_NONE ? ir_const_i(f->b.at->g, TJ_I64, 0, NULL, 0) : in[k] == IR_NONE ? IR_NONE : like(f, in[k], source(f, i));
		k += carry[i] != IR_NONE;
		if (slot[i] == IR_NONE) return false;
		if (!t->flows[i]) continue;
		ct[i] = in[n];
		wrt[n++] = slot[i];
	}
	for (int i = 0; i < t->ys; i++)
		if (f->grad[t->carries + i] != IR_NONE) ct[t->carries + i] = in[at++];
	for (int k = t->first; k < f->n.nsrc; k++)
		if (f->want[k]) wrt[n++] = in[o->captures + k - t->first];
	for (int i = 0; i < t->xs; i++)
		if (f->want[t->carries + i]) wrt[n++] = in[o->xs + i];
	for (int k = t->carries; k < f->n.nsrc; k++) slot[k] = slot_for(t, o, in, k);
	if (!walk_back(f, t->region, f->n.nsrc, slot, ct, n, wrt, out, map) || !use_kept(f, t, o, map, in, n, out)) return false;
	x->ys = n;
	for (int k = o->sums; k < o->carry; k++) {
		if (!take_out(f, t, o, k - o->sums, k, out, x)) return false;
		out[k] = out[k] == IR_NONE ? in[k] : ir_op2(f->b.at->g, IR_add, in[k], out[k], f->n.site);
	}
	return ir_build_yield(&f->b, x->ys, out);
}

static bool grad_loop(flow *f)
{
	turns t = turns_of(f);
	ir_ref *carry = refs(f, (size_t)t.carries);
	if (!carry || !find_flows(f, &t) || !carries_of(f, &t, carry)) return false;
	ir_ref *src = refs(f, 3 * (size_t)f->n.nsrc + (size_t)(t.ys + t.nkept) + 1);
	if (!src) return false;
	const order o = backward_operands(f, &t, carry, src);
	if (f->g->err.code != TJ_OK) return false;
	const size_t sums = (size_t)(o.carry - o.sums);
	taken x = { .left = kept_bytes(f, &o, src) };
	x.list = rt_arena_alloc(&f->mem, sizeof *x.list * (MOST_TERMS * sums + 1)), x.whole = rt_arena_alloc(&f->mem, sums + 1);
	const int64_t attr[IR_FLOW_ATTRS] = { o.carry, o.count - o.carry, t.length, !t.reverse, t.count != IR_NONE };
	if (!x.list || !x.whole || !ir_build_open(&f->b, IR_scan, o.all, src, attr, f->n.site) || !backward_body(f, &t, &o, carry, &x))
		return false;
	const ir_ref made = ir_build_close(&f->b);
	int n = 0;
	if (made == IR_NONE) return false;
	for (int i = 0; i < t.carries; i++) {
		if (!t.flows[i]) continue;
		if (f->want[i]) f->to[i] = ir_get(f->g, made, n, f->n.site);
		n++;
	}
	for (int k = t.first; k < f->n.nsrc; k++)
		if (f->want[k]) f->to[k] = sum_of(f, src, made, &x, n - o.sums, n), n++;
	for (int k = t.carries; k < t.carries + t.xs; k++)
		if (f->want[k]) f->to[k] = ir_get(f->g, made, n++, f->n.site);
	return true;
}

/* ---- one node ---- */
bool ir_vjp_flow(ir_graph *g, ir_ref r, const ir_ref *grad, const bool *want, bool keep, ir_ref *to)
{
	flow f = { .g = g, .r = r, .n = *ir_at(g, r), .grad = grad, .want = want, .to = to, .keep = keep };
	ir_build_begin(&f.b, g);
	const bool ok = f.n.op == IR_cond ? grad_cond(&f) : grad_loop(&f);
	const rt_err err = *ir_build_error(&f.b);
	if (!ok && g->err.code == TJ_OK) g->err = err;
	if (!ok) rt_fail(&g->err, TJ_ERR_NOMEM, "grad", "out of memory");
	ir_build_end(&f.b);
	rt_arena_free(&f.mem);
	return ok;
}
