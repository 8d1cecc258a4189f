/* SPDX-License-Identifier: MIT */
/* checkpoint: values that are computed again for their gradient, instead of keeping what they were computed from until then.
 *
 *   %1 = tanh f32[4] %0                                     %5 = optimization_barrier f32[4] %0 %grad
 *   %2 = mul f32[4] %1 %0                                   %6 = tanh f32[4] %5
 *   %3 = mark f32[4] %2 %2   (the checkpoint's value)  =>   %7 = mul f32[4] %6 %5      the rules of gradients see %6 and %7
 *
 * The way back (grad.c) stops at the marks. When all their gradients are there, the values are emitted again, from barriers that come after
 * one of these gradients; so nothing merges with the first computation or runs beside it. */
#include "ir/vjp.h"

/* ---- making one ---- */
typedef struct walk {
	ir_graph *g;
	const ir_custom *c;
	ir_ref after;            /* a gradient */
	ir_ref *to;              /* by node: what stands for it; IR_NONE: not known yet */
	uint32_t n;              /* nodes in `to` */
	rt_vec(ir_ref) open, from, barrier;
	bool oom;
} walk;

static bool nomem(ir_graph *g) { return rt_fail(&g->err, TJ_ERR_NOMEM, "checkpoint", "out of memory"), false; }

static bool is_constant(const ir_node *n) { return n->weak || n->op == IR_const || n->op == IR_data; }

/* Inputs, and marks without a record: values by which a gradient may be asked, and leaves. */
static bool is_given(const ir_graph *g, ir_ref r)
{
	const int op = ir_at(g, r)->op;
	return op == IR_input || (op == IR_mark && !ir_custom_of(g, r));
}

/* The body has it from outside. Nodes before `first` were there before it ran, and so was one result of such a node. */
static bool is_operand(const ir_graph *g, ir_ref r, ir_ref first)
{
	return r < first || is_given(g, r) || (ir_at(g, r)->op == IR_get && ir_src(g, ir_at(g, r), 0) < first);
}

/* Notes what the values are computed from: in[]. */
static bool find_operands(ir_graph *g, ir_ref first, ir_custom *c, const ir_ref *value)
{
	rt_vec(ir_ref) open = { 0 }, in = { 0 };
	const uint32_t n = g->node.n;
	bool *seen = rt_calloc(n + 1u), ok = seen != NULL;
	for (int i = 0; ok && i < c->nout; i++) ok = rt_push(&open, value[i]);
	while (ok && open.n) {
		const ir_ref r = open.v[--open.n];
		const ir_node *x = ir_at(g, r);
		if (seen[r] || is_constant(x)) continue;
		seen[r] = true;
		const bool operand = is_operand(g, r, first);
		if (operand) ok = rt_push(&in, r);
		for (int k = 0; ok && !operand && k < x->nsrc; k++) ok = rt_push(&open, ir_src(g, x, k));
	}
	c->in = ok ? rt_arena_alloc(&g->mem, sizeof *c->in * (in.n + 1)) : NULL;
	if (c->in && in.n) memcpy(c->in, in.v, sizeof *c->in * in.n);
	c->nin = (int)in.n;
	rt_vec_free(&open);
	rt_vec_free(&in);
	rt_free(seen);
	return c->in != NULL;
}

/* Each mark has all values as operands, so that all that they are computed from comes before any of them. */
static bool mark_values(ir_graph *g, ir_custom *c, const ir_ref *value)
{
	ir_ref *src = rt_arena_alloc(&g->mem, sizeof *src * ((size_t)c->nout + 1));
	c->out = rt_arena_alloc(&g->mem, sizeof *c->out * ((size_t)c->nout + 1));
	if (!src || !c->out || !rt_push(&g->custom, c)) return nomem(g);
	memcpy(src + 1, value, sizeof *src * (size_t)c->nout);
	for (int i = 0; i < c->nout; i++) {
		const ir_meta m = ir_meta_of(g, value[i]);
		const int64_t attr[] = { INT64_MIN + (int64_t)g->node.n, (int64_t)g->custom.n - 1 };
		src[0] = value[i];
		if ((c->out[i] = ir_append(g, IR_mark, &m, c->nout + 1, src, 2, attr, c->site)) == IR_NONE) return false;
	}
	return true;
}

ir_custom *ir_checkpoint_new(ir_graph *g, ir_ref first, int nout, const ir_ref *value, const char *site)
{
	ir_custom *c = rt_arena_alloc(&g->mem, sizeof *c);
	if (!c) return nomem(g), NULL;
	*c = (ir_custom){ .nout = nout, .again = true, .site = site };
	if (!find_operands(g, first, c, value)) return nomem(g), NULL;
	return mark_values(g, c, value) ? c : NULL;
}

ir_custom *ir_checkpoint_like(ir_graph *g, const ir_custom *from, const ir_ref *in, const ir_ref *value)
{
	ir_custom *c = rt_arena_alloc(&g->mem, sizeof *c);
	if (!c) return nomem(g), NULL;
	*c = *from;
	c->in = rt_arena_alloc(&g->mem, sizeof *c->in * ((size_t)c->nin + 1));
	if (!c->in) return nomem(g), NULL;
	if (c->nin) memcpy(c->in, in, sizeof *in * (size_t)c->nin);
	return mark_values(g, c, value) ? c : NULL;
}

/* ---- the values once more ---- */
/* The value is not computed again: it is kept until then, or is there anyway. */
static bool is_kept(const walk *w, ir_ref r)
{
	if (is_given(w->g, r)) return true;
	for (int i = 0; i < w->c->nin; i++)
		if (w->c->in[i] == r) return true;
	return false;
}

/* The value as operand of what is computed again. A barrier waits on its own device only. */
static bool keep(walk *w, ir_ref r)
{
	const ir_node *n = ir_at(w->g, r);
	ir_ref as = r;
	if (n->device == ir_at(w->g, w->after)->device) as = ir_op2(w->g, IR_optimization_barrier, r, w->after, n->site);
	if (as == IR_NONE) return false;
	w->to[r] = as;
	return (rt_push(&w->from, r) && rt_push(&w->barrier, as)) || nomem(w->g);
}

static ir_ref now(const walk *w, ir_ref r) { return r < w->n ? w->to[r] : r; }

static bool walk_to(walk *w, ir_ref r);

static bool now_all(walk *w, int n, const ir_ref *r, ir_ref *to)
{
	for (int i = 0; i < n; i++) {
		if (!walk_to(w, r[i])) return false;
		to[i] = now(w, r[i]);
	}
	return true;
}

/* A checkpoint inside, or a value with a gradient of the user's, is one again: with the leaves that it had, which stand for gradients. */
static bool record(walk *w, const ir_custom *c)
{
	ir_graph *g = w->g;
	ir_ref *in = rt_arena_alloc(&g->mem, sizeof *in * ((size_t)c->nin + (size_t)c->nout + 1)), *value = in + c->nin;
	if (!in) return nomem(g);
	for (int i = 0; i < c->nout; i++) value[i] = ir_src(g, ir_at(g, c->out[i]), 0);
	if (!now_all(w, c->nin, c->in, in) || !now_all(w, c->nout, value, value)) return false;
	const ir_custom *made = c->again ? ir_checkpoint_like(g, c, in, value) : ir_custom_new(g, c->nin, in, c->nout, value, c->site);
	if (!made) return false;
	for (int i = 0; i < c->nout; i++) {
		w->to[c->out[i]] = made->out[i];
		if (!c->again) w->to[c->leaf[i]] = made->leaf[i];
	}
	for (int i = 0; !c->again && i < c->nin; i++)
		if (c->grad[i] != IR_NONE && !now_all(w, 1, &c->grad[i], &made->grad[i])) return false;
	return true;
}

/* What a barrier comes after is no part of its value. */
static int operands(const ir_node *n) { return n->op == IR_optimization_barrier ? 1 : n->nsrc; }

/* All operands of r have their places. */
static bool place(walk *w, ir_ref r)
{
	const ir_node *n = ir_at(w->g, r);
	const ir_custom *c = ir_custom_of(w->g, r);
	bool any = false;
	if (c) return record(w, c);
	ir_ref *src = rt_arena_alloc(&w->g->mem, sizeof *src * (n->nsrc + 1u));
	if (!src) return nomem(w->g);
	for (int k = 0; k < n->nsrc; k++) {
		src[k] = k < operands(n) ? now(w, ir_src(w->g, n, k)) : ir_src(w->g, n, k);
		any |= src[k] != ir_src(w->g, n, k);
	}
	return (w->to[r] = any ? ir_again(w->g, r, src) : r) != IR_NONE;
}

/* Emits again what leads to r. */
static bool walk_to(walk *w, ir_ref out)
{
	const uint32_t base = w->open.n;
	if (out >= w->n) return true;
	if (!rt_push(&w->open, out)) return nomem(w->g);
	while (w->open.n > base) {
		const ir_ref r = w->open.v[w->open.n - 1];
		const ir_node *n = ir_at(w->g, r);
		bool ready = true;
		if (w->to[r] == IR_NONE && is_constant(n)) w->to[r] = r;
		if (w->to[r] == IR_NONE && is_kept(w, r) && !keep(w, r)) return false;
		if (w->to[r] != IR_NONE) {
			w->open.n--;
			continue;
		}
		n = ir_at(w->g, r);
		for (int k = operands(n) - 1; k >= 0; k--) {
			const ir_ref s = ir_src(w->g, n, k);
			if (w->to[s] != IR_NONE) continue;
			ready = false;
			if (!rt_push(&w->open, s)) return nomem(w->g);
		}
		if (ready && !place(w, r)) return false;
	}
	return true;
}

bool ir_checkpoint_again(ir_graph *g, const ir_custom *c, ir_ref after, ir_ref *value, int *n, ir_ref **from, ir_ref **barrier)
{
	walk w = { .g = g, .c = c, .after = after, .n = g->node.n, .to = rt_alloc(sizeof(ir_ref) * (g->node.n + 1u)) };
	bool ok = w.to || nomem(g);
	for (uint32_t r = 0; ok && r < w.n; r++) w.to[r] = IR_NONE;
	for (int i = 0; ok && i < c->nout; i++) {
		const ir_ref was = ir_src(g, ir_at(g, c->out[i]), 0);
		ok = walk_to(&w, was);
		if (ok) value[i] = now(&w, was);
	}
	*n = (int)w.from.n;
	*from = ok ? rt_arena_alloc(&g->mem, sizeof **from * (w.from.n + 1)) : NULL;
	*barrier = ok ? rt_arena_alloc(&g->mem, sizeof **barrier * (w.from.n + 1)) : NULL;
	if (ok && (!*from || !*barrier)) ok = nomem(g);
	if (ok && w.from.n) {
		memcpy(*from, w.from.v, sizeof **from * w.from.n);
		memcpy(*barrier, w.barrier.v, sizeof **barrier * w.from.n);
	}
	rt_vec_free(&w.open);
	rt_vec_free(&w.from);
	rt_vec_free(&w.barrier);
	rt_free(w.to);
	return ok;
}
