/* SPDX-License-Identifier: MIT */
/* Direct mode, learning: a call that runs the body notes where every external and every number comes from. path.c makes a path of
 * it, with which a later call under the same key runs the plans without the body. */
#include "jit/ctx.h"
#include "jit/note.h"

/* ---- late numbers: those that may differ in the next call ---- */

/* A handle for a number that also says where the number comes from; it lives until the call ends. */
tj_tensor *jit_late(jit_act *a, uint32_t from, tj_tensor *number)
{
	tj_tensor *t = rt_handle(&a->ctx->rt, a->scope);
	if (!t) {
		jit_learn_stop(a, NULL, "out of memory");
		return number;
	}
	t->kind = RT_LATE;
	t->dtype = rt_is_int_number(number) ? TJ_I64 : TJ_F64;
	t->seq = from;
	t->seg = (uint64_t)(uintptr_t)number;
	return t;
}

/* A number computed from numbers. Every direct call computes it again when one of its operands may differ. */
tj_tensor *jit_late_op(jit_act *a, int op, int nsrc, tj_tensor *const *src, tj_tensor *result)
{
	jit_learn *l = a->learn;
	jit_late_expr e = { .op = (uint16_t)op, .nsrc = (uint8_t)nsrc, .callback = a->callback.n > 0 };
	bool late = false;
	for (int k = 0; k < nsrc; k++) {
		e.src[k] = (jit_operand){ l->src.v[k], src[k] };
		late |= l->src.v[k] != JIT_FROM(JIT_CONST, 0);
	}
	if (!late) return result;
	if (!rt_push(&l->expr, e)) {
		jit_learn_stop(a, NULL, "out of memory");
		return result;
	}
	return jit_late(a, JIT_FROM(JIT_EXPR, l->expr.n - 1), result);
}

void jit_learn_operands(jit_act *a, int n)
{
	jit_learn *l = a->learn;
	l->src.n = 0;
	if (!rt_reserve(&l->src, (uint32_t)n)) {
		jit_learn_stop(a, NULL, "out of memory");
		return;
	}
	for (int k = 0; k < n; k++) l->src.v[k] = JIT_FROM(JIT_CONST, 0);
	l->src.n = (uint32_t)n;
}

/* Notes where the number in slot `slot` of the running segment comes from. */
void jit_learn_number(jit_act *a, uint32_t slot, uint32_t from)
{
	jit_learn *l = a->learn;
	l->from.n = slot < l->from.n ? slot : l->from.n;
	if (!rt_push(&l->from, from)) jit_learn_stop(a, NULL, "out of memory");
}

/* ---- giving up ---- */
void jit_learn_tell(jit_act *a, const char *kind, const char *site, const char *expected, const char *found, const char *hint,
                    const char *what)
{
	char text[640];
	snprintf(text, sizeof text, "%s: %s; the body runs on every call; %s", a->fn->name, what, hint);
	tj_reason r = jit_new_reason(a->fn->name, kind, site, hint, text);
	r.expected = expected;
	r.found = found;
	r.trace = (int)a->entry->number;
	jit_reason(a->fn, &r);
}

/* The body does something that direct mode cannot skip; reported once. site NULL: a failure of the library itself, the next call learns
 * again. */
void jit_learn_stop(jit_act *a, const char *site, const char *fmt, ...)
{
	char what[384];
	va_list ap;
	a->learn = NULL;
	a->unfit = site;
	if (!site || atomic_exchange(&a->fn->follow, true)) return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	jit_learn_tell(a, "direct", site, "", "", "declare tensors in .state, return values in out[], or use TJ_VERIFY", what);
}

/* ---- where a tensor comes from ---- */
static bool at(jit_from *out, jit_from_kind kind, uint32_t index)
{
	*out = (jit_from){ .kind = kind, .index = index };
	return true;
}

/* index is the event number: the place in the plan is known only when the call ends, since the plan may be widened before. */
bool jit_from_segment(jit_act *a, uint64_t serial, uint32_t seq, jit_from *out)
{
	for (uint32_t i = 0; i < a->done.n; i++)
		if (a->done.v[i].serial == serial) {
			*out = (jit_from){ .kind = JIT_FROM_VALUE, .seg = (uint16_t)i, .index = seq };
			return true;
		}
	return false;
}

/* False: the plan gives a view, but this call recomputed the value row-major; the next call records the segment anew. */
static bool as_bound(const jit_act *a, const jit_bound *b, const jit_from *f)
{
	const jit_plan *p = a->done.v[f->seg].plan;
	int v = jit_find_in_plan(p, f->index);
	return v >= 0 && p->value[v].layout == b->layout;
}

static bool same_constant(const tj_tensor *t, const jit_bound *b)
{
	return !rt_is_number(t) && t->flags & RT_CONSTANT && t->buf == b->buf && t->data == b->data && t->layout == b->layout;
}

/* An argument is known by the mark on its placeholder, or by identity. A tensor that the body holds is no argument, even if
 * this call passes it as one. A constant is, since its content is part of the key. */
bool jit_from_outside(jit_act *a, const jit_bound *b, jit_from *out)
{
	const jit_learn *l = a->learn;
	const tj_fn *f = a->fn;
	uint32_t nin = (uint32_t)f->opts.nin;
	for (uint32_t j = 0; j < f->nstate; j++)
		if (l->state[j] == b->h) return at(out, JIT_FROM_STATE, j);
	bool temporary = b->h->kind != RT_CELL && !(b->h->flags & (RT_HEAP | RT_CONSTANT));
	if (temporary && b->h->seg == a->serial && b->h->seq && b->h->seq <= nin) return at(out, JIT_FROM_ARG, b->h->seq - 1);
	for (uint32_t i = 0; i < nin; i++)
		if (b->h->kind == RT_CELL ? l->in[i] == b->h : same_constant(l->in[i], b)) return at(out, JIT_FROM_ARG, i);
	return false;
}

const char *jit_site_of_ext(const jit_node *boundary, uint32_t slot, const char **op)
{
	for (const jit_node *n = boundary; n->parent; n = n->parent)
		for (int k = 0; k < n->nsrc; k++)
			if (n->src[k] == JIT_REF(JIT_EXT, slot)) {
				*op = jit_event_name(n->op);
				return n->site;
			}
	*op = jit_event_name(boundary->op);
	return boundary->site;
}

static bool learn_externals(jit_act *a, jit_done *d, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const jit_bound *b = &a->ext.v[i];
		if (b->pending ? jit_from_segment(a, b->seg, b->seq, &d->ext_from[i]) && as_bound(a, b, &d->ext_from[i])
		               : jit_from_outside(a, b, &d->ext_from[i]))
			continue;
		const char *op, *site = jit_site_of_ext(d->boundary, i, &op);
		if (!b->pending)
			jit_learn_stop(a, site ? site : "?", "%s at %s uses a tensor that is neither an argument nor declared state", op,
			               site ? site : "?");
		a->learn = NULL;
		return false;
	}
	return true;
}

/* Called before the externals of the segment are unbound. */
void jit_learn_segment(jit_act *a, jit_done *d)
{
	const jit_learn *l = a->learn;
	uint32_t next = a->ext.n, nnum = a->num.n;
	d->ext_from = rt_arena_alloc(&a->mem, (next + 1) * sizeof *d->ext_from);
	d->num_from = rt_arena_alloc(&a->mem, (nnum + 1) * sizeof *d->num_from);
	if (!d->ext_from || !d->num_from || l->from.n < nnum) {
		a->learn = NULL;
		return;
	}
	for (uint32_t i = 0; i < nnum; i++) d->num_from[i] = (jit_operand){ l->from.v[i], (tj_tensor *)(uintptr_t)a->num.v[i] };
	d->nstray = a->stray.n;
	if (d->nstray && (d->stray = rt_arena_alloc(&a->mem, d->nstray * sizeof *d->stray)))
		memcpy(d->stray, a->stray.v, d->nstray * sizeof *d->stray);
	else d->nstray = 0;
	d->next_from = next;
	d->nnum_from = nnum;
	d->nexpr = l->expr.n;
	learn_externals(a, d, next);
}
