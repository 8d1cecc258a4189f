/* SPDX-License-Identifier: MIT */
/* Scopes and lifetimes: push, pop, escape, retain, release. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"

tj_scope *tj_push_at(const char *site, tj_ctx *c)
{
	if (!jit_look_in(c, site) || jit_refuses(c, site, "push")) return NULL;
	jit_act *a = jit_active(c);
	tj_scope *s = rt_scope_push(&c->rt, c, a ? a->serial : 0);
	if (!s) jit_error(c, site, TJ_ERR_NOMEM, "push", NULL, "out of memory");
	return s;
}

/* s is older than the running callback. */
static bool is_older(const jit_act *a, const tj_scope *s)
{
	const tj_scope *own = a->callback.v[a->callback.n - 1].scope, *at = a->ctx->rt.scope;
	while (at && at != own && at != s) at = at->parent;
	return at != s || s == own;
}

void tj_pop_at(const char *site, tj_scope *s)
{
	tj_ctx *c = jit_look_in(s ? s->ctx : NULL, site);
	if (!c || jit_refuses(c, site, "pop")) return;
	jit_act *a = jit_active(c);
	if (!s->open || s == c->rt.root) {
		jit_error(c, site, TJ_ERR_STATE, "pop", "pop each scope once, the last one that was pushed first", "this scope is not open");
		return;
	}
	if (a && s->act != a->serial) {
		jit_error(c, site, TJ_ERR_STATE, "pop", "push and pop in pairs inside a body", "a body closes only its own scopes");
		return;
	}
	if (a && a->callback.n && is_older(a, s)) {
		jit_error(c, site, TJ_ERR_STATE, "pop", "push and pop in pairs inside a callback", "a callback closes only its own scopes");
		return;
	}
	for (bool last = false; !last;) {
		last = c->rt.scope == s;
		jit_pop_scope(c);
	}
}

/* The effect would be missing when direct mode skips the body. */
void jit_leaves_trace(jit_act *a, const char *what, const char *site)
{
	if (a && a->learn) jit_learn_stop(a, site ? site : "?", "%s at %s leaves something beyond the call", what, site ? site : "?");
}

/* The open scope that owns a temporary. */
static tj_scope *scope_of(const tj_ctx *c, const tj_tensor *t)
{
	for (tj_scope *s = c->rt.scope; s; s = s->parent)
		for (const rt_handles *k = s->chunk; k; k = k->next)
			if (t >= k->h && t < k->h + RT_CHUNK) return s;
	return c->rt.scope;
}

tj_tensor *tj_escape_at(const char *site, tj_tensor *t)
{
	JIT_CURRENT(c, site);
	tj_tensor *in[1];
	if (!c) return jit_no_context(site, "escape");
	if (rt_is_number(t)) return t;
	jit_act *a = jit_active(c);
	if (t && t != TJ_END && t->kind == RT_LATE) return t; /* lives as long as the call */
	if (jit_admit_all(c, site, "escape", 1, &t, in) == JIT_POISON) return &c->rt.poison;
	if (t->kind == RT_CELL || (t->flags & RT_HEAP)) return t;
	tj_scope *own = scope_of(c, t), *to = own->parent;
	if (!to) return jit_error(c, site, TJ_ERR_STATE, "escape", NULL, "the root scope has no parent");
	if (a && a->callback.n && own == a->callback.v[a->callback.n - 1].scope && jit_in_callback(c, site, "escape", "return it in out[]"))
		return &c->rt.poison;
	if (a && (own == a->scope || own->act != a->serial)) jit_leaves_trace(a, "escape", site);
	if (a && own == a->scope && t->kind == RT_PENDING)
		return jit_error(c, site, TJ_ERR_STATE, "escape", "return it in out[], or keep it with tj_retain()",
		                 "a value of a compiled function cannot leave the call before it is computed");
	tj_tensor *h = jit_handle_in(c, to, t);
	return h ? h : jit_error(c, site, TJ_ERR_NOMEM, "escape", NULL, "out of memory");
}

/* Retains a value of the running call: records an event; the data is filled in when its segment has run. */
static tj_tensor *retain_pending(jit_act *a, const char *site, tj_tensor *t, rt_held *h)
{
	tj_ctx *c = a->ctx;
	if (t->seg == a->seg && !jit_step(a, site, JIT_RETAIN, 1, &t, 0, NULL)) {
		rt_held_unref(h, c->rt.allocator);
		return &c->rt.poison;
	}
	h->t.kind = RT_PENDING;
	h->t.dtype = t->dtype;
	h->t.rank = t->rank;
	h->t.seq = t->seq;
	h->t.seg = t->seg;
	h->t.layout = t->layout;
	if (!rt_push(&a->retained, h)) return jit_error(c, site, TJ_ERR_NOMEM, "retain", NULL, "out of memory");
	return &h->t;
}

/* h stays until the call ends: another thread may release it meanwhile, and a new tensor must not be taken for it. */
static bool alias_retained(jit_act *a, rt_held *h, tj_tensor *t)
{
	if (!rt_push(&a->released, h)) return false;
	if (!jit_alias_of(a, &h->t, t)) return a->released.n--, false;
	atomic_fetch_add(&h->refs, 1);
	return true;
}

tj_tensor *tj_retain_at(const char *site, tj_tensor *t)
{
	JIT_CURRENT(c, site);
	tj_tensor *in[1];
	if (!c) return jit_no_context(site, "retain");
	if (rt_is_number(t)) return t;
	jit_act *a = jit_active(c);
	tj_tensor *arg[1] = { t };
	bool heap = t && t != TJ_END && (t->flags & RT_HEAP) && t->engine == &c->engine->rt;
	if (jit_admit_all(c, site, "retain", 1, arg, in) == JIT_POISON) return &c->rt.poison;
	if (a && a->callback.n && jit_in_callback(c, site, "retain", "return it in out[], and retain the result")) return &c->rt.poison;
	jit_leaves_trace(a, "retain", site);
	if (rt_is_number(in[0])) return in[0];
	if (heap) {
		atomic_fetch_add(&rt_held_of(t)->refs, 1);
		return t;
	}
	rt_err err = { 0 };
	if (in[0]->kind != RT_PENDING && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) return jit_report(c, site, &err);
	rt_held *h = rt_held_new(&c->engine->rt);
	if (!h) return jit_error(c, site, TJ_ERR_NOMEM, "retain", NULL, "out of memory");
	if (in[0]->kind == RT_PENDING) return retain_pending(a, site, in[0], h);
	h->t.kind = RT_VALUE;
	h->t.dtype = in[0]->dtype;
	h->t.rank = in[0]->rank;
	h->t.flags |= in[0]->flags & RT_CONSTANT;
	h->t.seg = in[0]->seg;
	h->t.layout = rt_layout_ref(in[0]->layout);
	h->t.buf = rt_buffer_ref(in[0]->buf);
	h->t.data = in[0]->data;
	if (a && !alias_retained(a, h, in[0])) {
		rt_held_unref(h, c->rt.allocator);
		return jit_error(c, site, TJ_ERR_NOMEM, "retain", NULL, "out of memory");
	}
	return &h->t;
}

void tj_release_at(const char *site, tj_tensor *t)
{
	JIT_CURRENT_IF_ANY(c, site);
	if (!t || t == TJ_END || rt_is_number(t) || t->kind == RT_POISON || t->kind == RT_LATE) return;
	if (!(t->flags & RT_HEAP)) {
		if (c)
			jit_error(c, site, TJ_ERR_STATE, "release", "release only tensors that tj_retain() or tj_param() returned",
			          "this tensor is not retained");
		return;
	}
	if (t->kind == RT_DEAD) {
		if (c)
			jit_error(c, site, TJ_ERR_DEAD, "release",
			          "release a tensor once for each tj_retain() or tj_param() that returned it",
			          "this tensor was released already");
		return;
	}
	if (c && t->engine == &c->engine->rt && jit_refuses(c, site, "release")) return;
	jit_act *a = c ? jit_active(c) : NULL;
	jit_leaves_trace(a, "release", site);
	if (a && rt_push(&a->released, rt_held_of(t))) return; /* a pending event may read it */
	rt_held_unref(rt_held_of(t), c ? c->rt.allocator : NULL);
}
