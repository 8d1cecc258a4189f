/* SPDX-License-Identifier: MIT */
/* tj_grad: a GRAD event, then an IR_get for each gradient. compile.c expands it when the segment becomes a graph (ir/grad.c). tj_jvp: the
 * same with JVP, and one IR_get.
 *
 *   matmul .. cross_entropy | GRAD y, wrt... | get get ...
 *
 * The graph of a segment has only what was computed since the last boundary. Where the gradient goes through values of earlier segments,
 * earlier.c puts these into the trace before the request. */
#include "jit/earlier.h"
#include "jit/callback.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/segment.h"

typedef struct request {
	tj_ctx *c;
	jit_act *a;
	const char *site, *name; /* name: of the call, without tj_ */
	int n;
	tj_list asked;           /* as the body gave them: a cell is the cell, even if it was assigned */
	tj_tensor **src;         /* operands of the event: y, the cotangent if there is one, then the n values */
	int first;               /* number of the first of these */
	bool zeros;              /* what y does not depend on has a gradient of 0 */
} request;

static bool fail(const request *q, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
static bool fail(const request *q, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(q->c, q->site, code, q->name, hint, fmt, ap);
	va_end(ap);
	return false;
}

static void put_type(char *out, size_t room, const tj_tensor *t)
{
	if (jit_is_number(t)) {
		snprintf(out, room, "a number");
		return;
	}
	const ir_meta m = jit_meta(t);
	jit_put_type(out, room, &m);
}

/* A value of an earlier segment may have several handles (a cell's, after an assign): the request takes the one that the segment uses. */
static bool same_handle(const request *q, int i)
{
	tj_tensor **w = &q->src[q->first + i], *met = NULL;
	if ((*w)->kind != RT_PENDING || (*w)->seg == q->a->seg) return true;
	for (uint32_t k = 0; k < q->a->ext.n; k++) {
		const jit_bound *x = &q->a->ext.v[k];
		if (!x->pending || x->seg != (*w)->seg || x->seq != (*w)->seq) continue;
		if (met)
			return fail(q, TJ_ERR_STATE, "use one of them in the body",
			            "tensor %d of those asked for is used through several handles since it was computed", i);
		met = x->h;
	}
	if (met) *w = met;
	return true;
}

/* ---- the request ---- */
/* The last event of the running segment that assigned the cell; NULL: none did. */
static const jit_node *assigned_by(const request *q, const tj_tensor *cell)
{
	for (const jit_node *n = q->a->cursor; n->parent; n = n->parent)
		if (n->op == JIT_ASSIGN && &q->a->cell.v[JIT_IDX(n->src[1])]->t == cell) return n;
	return NULL;
}

static void mark(bool *need, const jit_node *n)
{
	for (int k = 0; k < n->nsrc; k++)
		if (JIT_KIND(n->src[k]) == JIT_EV) need[JIT_IDX(n->src[k])] = true;
}

/* In a callback whose events have a graph of their own. */
static bool in_region(const request *q)
{
	bool any = false;
	for (uint32_t i = 0; i < q->a->callback.n; i++) any |= q->a->callback.v[i].region;
	return any;
}

/* Notes the slots of the running segment that y is computed from. What a callback is given counts as computed from all that was before it.
 */
static void mark_slots(const request *q, bool *need, bool *slot)
{
	for (const jit_node *n = q->a->cursor; n->parent; n = n->parent) {
		if (!need[n->seq]) continue;
		if (n->op == IR_get || n->op == JIT_PARAM) memset(need, 1, n->seq);
		mark(need, n);
		for (int k = 0; k < n->nsrc; k++)
			if (JIT_KIND(n->src[k]) == JIT_EXT) slot[JIT_IDX(n->src[k])] = true;
	}
}

/* A region does not reach into earlier segments: there must be no value of one beside w from which y is computed. Other ways are found when
 * the segment becomes a graph (compile.c). */
static bool apart(const request *q, int i)
{
	const tj_tensor *w = q->src[q->first + i], *y = q->src[0];
	const jit_act *a = q->a;
	bool *need = rt_arena_alloc(&q->a->mem, a->seq + 1u), *slot = rt_arena_alloc(&q->a->mem, a->ext.n + 1u), other = false;
	if (!need || !slot) return fail(q, TJ_ERR_NOMEM, NULL, "out of memory");
	if (w->kind == RT_PENDING && w->seg == a->seg) return true;
	memset(need, 0, a->seq + 1u);
	memset(slot, 0, a->ext.n + 1u);
	if (y->kind == RT_PENDING && y->seg == a->seg) need[y->seq] = true;
	else other = y != w;
	mark_slots(q, need, slot);
	for (uint32_t k = 0; k < a->ext.n; k++)
		other |= slot[k] && a->ext.v[k].pending && a->ext.v[k].h != w && rt_is_float((tj_dtype)a->ext.v[k].layout->dtype);
	if (!other) return true;
	return fail(
		q, TJ_ERR_STATE, "ask outside of tj_cond(), tj_while() and tj_scan(), or pass the tensor to the callback",
		"C has read a value since tensor %d of those asked for was made, and the value is computed from others of that time: a callback has no "
		"gradient by it",
		i);
}

static bool all_apart(const request *q)
{
	for (int i = 0; q->a->done.n && i < q->n; i++)
		if (!apart(q, i)) return false;
	return true;
}

/* Makes the earlier segments that the gradient goes through known to the running one. */
static bool visible(const request *q)
{
	if (in_region(q)) return all_apart(q);
	const jit_ask ask = { .site = q->site,
		              .name = q->name,
		              .y = q->src[0],
		              .n = q->n,
		              .asked = q->asked,
		              .wanted = q->src + q->first,
		              .zeros = q->zeros };
	for (int i = 0; q->a->done.n && i < q->n; i++)
		if (!same_handle(q, i)) return false;
	return jit_across(q->a, &ask);
}

/* y depends on event seq; both are of the running segment. */
static bool uses(const request *q, uint32_t seq)
{
	const uint32_t y = q->src[0]->seq;
	bool *need = rt_arena_alloc(&q->a->mem, y + 1u);
	if (!need || y < seq) return false;
	memset(need, 0, y + 1u);
	need[y] = true;
	for (const jit_node *n = q->a->cursor; n->parent && n->seq > seq; n = n->parent) {
		if (n->seq > y || !need[n->seq]) continue;
		if (n->op == IR_get) memset(need, 1, n->seq);
		mark(need, n);
	}
	return need[seq];
}

/* Else the cell was assigned after y had been computed from it: its present value has no part in y. */
static bool is_current(const request *q, int i)
{
	tj_tensor *cell = q->asked[i], *now = q->src[q->first + i], *y = q->src[0];
	if (cell == now || cell->kind != RT_CELL || jit_find_ext(q->a, cell) < 0 || y->kind != RT_PENDING || y->seg != q->a->seg) return true;
	const jit_node *n = assigned_by(q, cell);
	if (!n || n->seq < y->seq || (now->kind == RT_PENDING && now->seg == q->a->seg && uses(q, now->seq))) return true;
	return fail(q, TJ_ERR_STATE, "ask for the gradient first, then assign",
	            "tensor %d of those asked for is a cell that was read, and then assigned at %s", i, n->site ? n->site : "?");
}

static bool same_type(const tj_tensor *a, const tj_tensor *b)
{
	const ir_meta x = jit_meta(a), y = jit_meta(b);
	return jit_same_type(&x, &y);
}

static bool is_float(const tj_tensor *t) { return !jit_is_number(t) && rt_is_float((tj_dtype)t->dtype); }

/* reverse: a gradient, not a derivative along tangents. */
static bool check(const request *q, bool reverse, bool cotangent)
{
	char type[160], other[160];
	const tj_tensor *y = q->src[0], *ct = q->src[1];
	put_type(type, sizeof type, y);
	if (!is_float(y)) return fail(q, TJ_ERR_DTYPE, "tj_cast() gives a float", "the value has no gradient: it is %s", type);
	if (reverse && !cotangent && y->layout->numel != 1)
		return fail(q, TJ_ERR_SHAPE, "reduce it to one element, as a loss is, or set .cotangent",
		            "the value is %s, and there is no cotangent", type);
	if (cotangent && (jit_is_number(ct) || !same_type(ct, y))) {
		put_type(other, sizeof other, ct);
		return fail(q, TJ_ERR_SHAPE, "a cotangent has the dtype and the shape of the value", "the value is %s, the cotangent %s", type, other);
	}
	for (int i = 0; i < q->n; i++) {
		put_type(other, sizeof other, q->src[q->first + i]);
		if (!is_float(q->src[q->first + i]))
			return fail(q, TJ_ERR_DTYPE, "only tensors of floats have gradients", "tensor %d of those asked for is %s", i,
			            other);
		if (!is_current(q, i)) return false;
	}
	return visible(q);
}

/* Result i, of the type of operand `like`. */
static tj_tensor *result(const request *q, int i, int like)
{
	const ir_meta m = jit_meta(q->src[like]);
	return jit_typed(q->a, q->site, q->name, IR_get, i, &m);
}

/* Admits the operands: `before` of them, then the tensors asked for, then as many of `after`, if that is not NULL. */
static bool admit(request *q, int before, tj_tensor *const *first, tj_list after, int *nsrc)
{
	*nsrc = before + (after ? 2 : 1) * q->n;
	tj_tensor **all = rt_arena_alloc(&q->a->mem, sizeof *all * ((size_t)*nsrc + 1));
	q->src = rt_arena_alloc(&q->a->mem, sizeof *q->src * ((size_t)*nsrc + 1));
	q->first = before;
	if (!all || !q->src) return fail(q, TJ_ERR_NOMEM, NULL, "out of memory");
	memcpy(all, first, sizeof *all * (size_t)before);
	memcpy(all + before, q->asked, sizeof *all * (size_t)q->n);
	if (after) memcpy(all + before + q->n, after, sizeof *all * (size_t)q->n);
	return jit_admit_all(q->c, q->site, q->name, *nsrc, all, q->src) != JIT_POISON;
}

static bool trace(request *q, tj_tensor **grad, tj_tensor *y, const tj_grad_opts *o)
{
	int nsrc;
	if (!admit(q, o->cotangent ? 2 : 1, (tj_tensor *[]){ y, o->cotangent }, NULL, &nsrc) || !check(q, true, o->cotangent != NULL))
		return false;
	const int64_t attr[] = { o->cotangent != NULL, o->unused == TJ_UNUSED_ZEROS };
	if (!jit_step(q->a, q->site, JIT_GRAD, nsrc, q->src, 2, attr)) return false;
	for (int i = 0; i < q->n; i++)
		if (!(grad[i] = result(q, i, q->first + i))) return false;
	for (int i = 0; i < q->n && o->add_to; i++) {
		char type[160], other[160];
		const tj_tensor *own = o->add_to[i];
		if (own && !jit_is_number(own) && own->layout && !same_type(own, grad[i])) {
			put_type(type, sizeof type, own);
			put_type(other, sizeof other, grad[i]);
			return fail(q, TJ_ERR_SHAPE, "it has the dtype, the shape and the device of the gradient",
			            ".add_to %d is %s, the gradient %s", i, type, other);
		}
		tj_tensor *sum[] = { o->add_to[i], grad[i] };
		if ((grad[i] = jit_event(q->site, IR_add, 2, sum, 0, NULL))->kind == RT_POISON) return false;
	}
	return true;
}

/* Where, and for what, both calls may be made. */
static bool allowed(const request *q)
{
	if (!q->a)
		return fail(
			q, TJ_ERR_STATE,
			"compile the function that computes the value, and ask in its body; or put both between tj_trace_begin() and tj_trace_end()",
			"gradients are for values that the body of a compiled function computes");
	if (!q->asked) return fail(q, TJ_ERR_ARG, "TJ_LIST(w, b)", "the list of tensors is NULL");
	if (q->n < 1 || q->n > UINT16_MAX / 4)
		return fail(q, TJ_ERR_ARG, "TJ_LIST(w, b) ends the list by itself", q->n ? "the list has no end" : "the list is empty");
	return !q->a->failed;
}

static bool ask(request *q, tj_tensor **grad, tj_tensor *y, const tj_grad_opts *o)
{
	if (!allowed(q)) return false;
	if (jit_odd_size(o->size)) return fail(q, TJ_ERR_ARG, JIT_SIZES, o->size);
	if (!grad) return fail(q, TJ_ERR_ARG, "TJ_LIST(w, b)", "the array for the gradients is NULL");
	if (o->add_to && jit_length(o->add_to) != q->n)
		return fail(q, TJ_ERR_ARG, "one for each gradient", ".add_to has %d tensors, but %d were asked for", jit_length(o->add_to),
		            q->n);
	return trace(q, grad, y, o);
}

tj_status tj_grad_at(const char *site, tj_tensor **grad, tj_tensor *y, tj_list wrt, const tj_grad_opts *opts)
{
	JIT_CURRENT(c, site);
	if (!c) return TJ_ERR_STATE;
	request q = { .c = c, .site = site, .name = "grad", .asked = wrt, .n = wrt ? jit_length(wrt) : 0 };
	JIT_OPTIONS(tj_grad_opts, o, opts);
	if (jit_refuses(c, site, "grad")) return jit_spoil(c, grad, q.n);
	RT_DEFAULT_MODES;
	q.zeros = o.unused == TJ_UNUSED_ZEROS;
	q.a = jit_active(c);
	return ask(&q, grad, y, &o) ? TJ_OK : jit_spoil(c, grad, q.n);
}

/* ---- along tangents ---- */
static bool tangents_fit(const request *q)
{
	for (int i = 0; i < q->n; i++) {
		char type[160], other[160];
		const tj_tensor *x = q->src[q->first + i], *t = q->src[q->first + q->n + i];
		if (!jit_is_number(t) && same_type(t, x)) continue;
		put_type(type, sizeof type, x);
		put_type(other, sizeof other, t);
		return fail(q, TJ_ERR_SHAPE, "a tangent has the dtype and the shape of its tensor", "tensor %d is %s, its tangent %s", i, type, other);
	}
	return true;
}

static tj_tensor *derive(request *q, tj_tensor *y, tj_list tangents, tj_unused unused)
{
	int nsrc;
	q->zeros = unused == TJ_UNUSED_ZEROS;
	if (!allowed(q)) return NULL;
	const int n = tangents ? jit_length(tangents) : 0;
	if (n != q->n) return fail(q, TJ_ERR_ARG, "one for each tensor", "there are %d tangents, but %d tensors", n, q->n), NULL;
	if (!admit(q, 1, &y, tangents, &nsrc) || !check(q, false, false) || !tangents_fit(q)) return NULL;
	const int64_t attr = unused == TJ_UNUSED_ZEROS;
	return jit_step(q->a, q->site, JIT_JVP, nsrc, q->src, 1, &attr) ? result(q, 0, 0) : NULL;
}

tj_tensor *tj_jvp_at(const char *site, tj_tensor *y, tj_list wrt, tj_list tangents, tj_unused unused)
{
	JIT_CURRENT(c, site);
	if (!c) return NULL;
	request q = { .c = c, .site = site, .name = "jvp", .asked = wrt, .n = wrt ? jit_length(wrt) : 0 };
	if (jit_refuses(c, site, "jvp")) return &c->rt.poison;
	RT_DEFAULT_MODES;
	q.a = jit_active(c);
	tj_tensor *t = derive(&q, y, tangents, unused);
	return t ? t : &c->rt.poison;
}
