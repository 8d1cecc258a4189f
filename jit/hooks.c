/* SPDX-License-Identifier: MIT */
/* hooks: what sees or changes a gradient on its way back. tj_grad_hook() is a tj_custom_grad() of the identity. tj_grad_name() notes a
 * value under a name for the running call, and gives it the hooks that the function has for this name; without one it is no event. */
#include "jit/call.h"
#include "jit/handle.h"

typedef struct hook { const char *site; tj_body *body; void *self; } hook;

static void pass_on(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
}

/* The tensor has x's shape, and a float's dtype, which is cast; or it is for others to report. */
static bool fits(const tj_tensor *g, const tj_tensor *x)
{
	if (!g || g == TJ_END || jit_is_number(g) || g->kind == RT_POISON) return true;
	const ir_meta a = jit_meta(g), b = jit_meta(x);
	return rt_is_float((tj_dtype)a.dtype) && a.rank == b.rank && !memcmp(a.dim, b.dim, sizeof *a.dim * a.rank);
}

/* in: the tensor, the tensor, its gradient. */
static void call_hook(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const hook *h = self;
	h->body(out, (tj_tensor *[]){ in[2], in[0], TJ_END }, h->self);
	tj_ctx *c = tj_ctx_current();
	if (!c || fits(out[0], in[0])) return;
	char want[160], got[160];
	const ir_meta x = jit_meta(in[0]), g = jit_meta(out[0]);
	jit_put_type(want, sizeof want, &x);
	jit_put_type(got, sizeof got, &g);
	out[0] = jit_error(c, h->site, g.dtype == x.dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE, "grad_hook",
	                   "a gradient has the dtype and the shape of its tensor", "the tensor is %s, but the hook gives %s", want, got);
}

/* False: the error is reported. */
static bool has_gradient(tj_ctx *c, const char *site, const char *name, tj_tensor *x)
{
	tj_tensor *in[1];
	if (jit_admit_all(c, site, name, 1, &x, in) == JIT_POISON) return false;
	if (jit_is_number(x)) jit_error(c, site, TJ_ERR_ARG, name, "only tensors of floats have gradients", "the operand is a number");
	else if (!rt_is_float((tj_dtype)x->dtype))
		jit_error(c, site, TJ_ERR_DTYPE, name, "only tensors of floats have gradients", "the operand is of %s",
		          tj_dtype_name((tj_dtype)x->dtype));
	else return true;
	return false;
}

static tj_tensor *add_hook(tj_ctx *c, const char *site, tj_tensor *x, tj_body *body, void *self)
{
	hook h = { site, body, self };
	tj_tensor *out = NULL;
	tj_custom_grad_at(site, &out, 1, pass_on, call_hook, TJ_LIST(x), &h);
	return out ? out : &c->rt.poison;
}

tj_tensor *tj_grad_hook_at(const char *site, tj_tensor *x, tj_body *body, void *self)
{
	JIT_CURRENT(c, site);
	if (!c) return NULL;
	if (jit_refuses(c, site, "grad_hook")) return &c->rt.poison;
	if (!body) return jit_error(c, site, TJ_ERR_ARG, "grad_hook", "pass a function", "the hook is NULL");
	if (!has_gradient(c, site, "grad_hook", x)) return &c->rt.poison;
	if (!jit_active(c)) return x; /* no gradient passes there */
	return add_hook(c, site, x, body, self);
}

/* ---- names ---- */

/* A `*` of the pattern stands for any characters. */
static bool matches(const char *pattern, const char *name)
{
	const char *star = NULL, *back = NULL;
	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			back = name;
		} else if (*pattern == *name) pattern++, name++;
		else if (star) pattern = star, name = ++back;
		else return false;
	}
	while (*pattern == '*') pattern++;
	return !*pattern;
}

/* The running callback that computed the value; NULL: none did. */
static const jit_callback *callback_of(const jit_act *a, const tj_tensor *x)
{
	if (x->kind != RT_PENDING || x->seg != a->seg) return NULL;
	for (uint32_t i = a->callback.n; i-- > 0;)
		if (x->seq >= a->callback.v[i].first) return &a->callback.v[i];
	return NULL;
}

/* The callback that computed the value has returned: there is no such value any more. */
static bool is_over(const jit_act *a, const jit_named *v)
{
	bool runs = !v->in.op;
	for (uint32_t i = 0; i < a->callback.n; i++) runs |= v->was.seg == a->seg && a->callback.v[i].first == v->in.first;
	return !runs;
}

/* The name has a handle of its own in the scope of the call, since the layer that gives it may end before it is asked for. A value of a
 * callback is given none there: the call would keep the value, which does not leave its callback. */
static bool note_name(jit_act *a, const char *name, tj_tensor *x)
{
	const size_t n = strlen(name) + 1;
	char *copy = rt_arena_alloc(&a->mem, n);
	const jit_callback *in = callback_of(a, x);
	tj_tensor *share = x->kind == RT_CELL ? x : jit_handle_in(a->ctx, in ? in->scope : a->scope, x);
	if (!copy || !share) return false;
	memcpy(copy, name, n);
	return rt_push(&a->named, ((jit_named){ copy, x, share, *x, in ? *in : (jit_callback){ 0 } }));
}

/* Where C has read a value since, another handle of an earlier value would be another tensor for gradients. */
static tj_tensor *handle_of(const jit_act *a, const jit_named *v)
{
	const tj_tensor *t = v->t, *was = &v->was;
	if (!jit_in_scope(a, t, true) || t->kind != was->kind) return v->share;
	return t->kind == RT_PENDING                            ? (t->seg == was->seg && t->seq == was->seq ? v->t : v->share)
	       : t->buf == was->buf && t->layout == was->layout ? v->t
	                                                        : v->share;
}

tj_tensor *tj_grad_name_at(const char *site, tj_tensor *x, const char *name)
{
	JIT_CURRENT(c, site);
	if (!c) return NULL;
	if (jit_refuses(c, site, "grad_name")) return &c->rt.poison;
	if (!name || !*name)
		return jit_error(c, site, TJ_ERR_ARG, "grad_name", "a text such as \"block1.out\"", "the name is %s",
		                 name ? "empty" : "NULL");
	if (!has_gradient(c, site, "grad_name", x)) return &c->rt.poison;
	jit_act *a = jit_active(c);
	if (!a || a->failed) return x;
	for (const tj_named_hook *h = a->fn->hook; h->name; h++)
		if (matches(h->name, name) && (x = add_hook(c, site, x, h->hook, h->self))->kind == RT_POISON) return x;
	return note_name(a, name, x) ? x : jit_error(c, site, TJ_ERR_NOMEM, "grad_name", NULL, "out of memory");
}

tj_tensor *tj_grad_named_at(const char *site, const char *name)
{
	JIT_CURRENT(c, site);
	if (!c) return NULL;
	if (jit_refuses(c, site, "grad_named")) return &c->rt.poison;
	const jit_act *a = jit_active(c);
	if (!a)
		return jit_error(c, site, TJ_ERR_STATE, "grad_named",
		                 "ask in the body of a compiled function, or between tj_trace_begin() and tj_trace_end()",
		                 "values have names in bodies only");
	if (!name) return jit_error(c, site, TJ_ERR_ARG, "grad_named", NULL, "the name is NULL");
	for (uint32_t i = a->named.n; i-- > 0;) {
		const jit_named *v = &a->named.v[i];
		if (strcmp(v->name, name)) continue;
		if (!is_over(a, v)) return handle_of(a, v);
		return jit_error(c, site, TJ_ERR_STATE, "grad_named", "return the value in out[] of the callback, and give the result a name",
		                 "\"%s\" is a value of a callback of %s at %s, which has returned", name, v->in.op, v->in.site ? v->in.site : "?");
	}
	return jit_error(c, site, TJ_ERR_ARG, "grad_named", "tj_grad_name(x, \"...\") gives a value a name, for one call",
	                 "the running call has named no value \"%s\"", name);
}
