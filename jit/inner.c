/* SPDX-License-Identifier: MIT */
/* Inner values: intermediate values of an event that later segments read. Gradients need them: the exponentials of a softmax, the indices
 * of a maximum that the user did not take. A segment gives each needed one a name, which stays valid in the trace and in all plans. */
#include "jit/call.h"
#include "jit/compile.h"

/* The event that computes the value of event seq: for an IR_get, the op or the control flow before it. */
static const jit_node *computed_by(const jit_node *boundary, uint32_t seq)
{
	const jit_node *n = boundary;
	while (n->parent && n->seq > seq) n = n->parent;
	while (n->op == IR_get) n = n->parent;
	return n->op == JIT_YIELD ? jit_flow_of(n) : n;
}

uint32_t jit_inner_name(jit_segment *s, uint32_t seq, uint32_t step)
{
	for (uint32_t i = 0; i < s->inner.n; i++)
		if (s->inner.v[i].seq == seq && s->inner.v[i].step == step) return JIT_INNER | i;
	if (s->inner.n == JIT_INNER - 1 || !rt_push(&s->inner, ((jit_inner){ seq, step, NULL }))) return 0;
	return JIT_INNER | (s->inner.n - 1);
}

uint32_t jit_event_of(const jit_act *a, const jit_segment *s, uint32_t name)
{
	rt_lock(&a->fn->compile);
	uint32_t seq = s->inner.v[name & ~JIT_INNER].seq;
	rt_unlock(&a->fn->compile);
	return seq;
}

/* Finds or makes the name of an inner value, and its layout. */
static uint32_t ask(const jit_act *a, jit_node *boundary, uint32_t seq, uint32_t step, const rt_layout **layout, rt_err *err)
{
	jit_inner v = { seq, step, NULL };
	rt_lock(&a->fn->compile);
	uint32_t name = 0;
	jit_segment *s = boundary->segment;
	for (uint32_t i = 0; i < s->inner.n; i++)
		if (s->inner.v[i].seq == seq && s->inner.v[i].step == step) v.layout = s->inner.v[i].layout;
	if (v.layout || jit_inner_layout(a, boundary, &v, &v.layout, err)) { /* after an error no name is made */
		name = jit_inner_name(s, seq, step);
		if (name) s->inner.v[name & ~JIT_INNER].layout = v.layout;
		else rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory");
	}
	*layout = v.layout;
	rt_unlock(&a->fn->compile);
	return name;
}

tj_tensor *jit_inner_of(jit_act *a, const char *site, const tj_tensor *t, uint32_t step)
{
	RT_DEFAULT_MODES;
	rt_err err = { 0 };
	jit_done *d = !rt_is_number(t) && t->kind == RT_PENDING && !(t->seq & JIT_INNER) ? jit_find_done(a, t->seg) : NULL;
	if (!d) return jit_error(a->ctx, site, TJ_ERR_STATE, "inner", NULL, "it is not a value of an earlier segment of this call");
	const rt_layout *layout = NULL;
	uint32_t name = ask(a, d->boundary, computed_by(d->boundary, t->seq)->seq, step, &layout, &err);
	tj_tensor *h = name ? rt_raw_handle(&a->ctx->rt, a->ctx->rt.scope) : NULL;
	if (!h) return rt_fail(&err, TJ_ERR_NOMEM, "inner", "out of memory"), jit_report(a->ctx, site, &err);
	const rt_head head = { .kind = RT_PENDING, .dtype = layout->dtype, .rank = layout->rank, .seq = name };
	memcpy(h, &head, sizeof head);
	h->seg = t->seg;
	h->layout = layout; /* the segment holds the reference */
	h->data = NULL;
	return h;
}
