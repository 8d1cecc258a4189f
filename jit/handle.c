/* SPDX-License-Identifier: MIT */
/* Handles: checking operands, handles of values, properties of tensors. */
#include "jit/call.h"
#include "jit/handle.h"

/* ---- admission: every operand of every event passes here ---- */

static tj_tensor *bad(tj_ctx *c, const char *site, const char *op, int k, tj_status code, const char *hint, const char *what)
{
	return jit_error(c, site, code, op, hint, "operand %d %s", k, what);
}

/* What a body reads behind its last argument. */
static tj_tensor *is_end(tj_ctx *c, const char *site, const char *op, int k)
{
	const jit_act *a = c->active && !c->act.open && !c->act.callback.n ? &c->act : NULL;
	const tj_fn *f = !a ? NULL : a->callers.n ? a->callers.v[a->callers.n - 1].fn : a->fn;
	char hint[200] = "it ends lists: a loop over one, or a callback, went behind the last tensor";
	if (f)
		snprintf(hint, sizeof hint, "if the body reads in[%d]: .nin of %.80s is %d; raise it", f->opts.nin, f->name, f->opts.nin);
	return bad(c, site, op, k, TJ_ERR_ARG, hint, "is TJ_END, the end of a list");
}

/* The handle that operand k stands for now; poison after an error. */
static tj_tensor *admit(tj_ctx *c, const char *site, const char *op, int k, tj_tensor *t)
{
	jit_act *a = c->active ? &c->act : NULL;
	if (!t)
		return bad(c, site, op, k, TJ_ERR_ARG,
		           "a tensor was not set, tj_compile() or tj_param() failed before, or 0 stands where a tensor should", "is NULL");
	if (t == TJ_END) return is_end(c, site, op, k);
	if (rt_is_number(t)) return t;
	if (t->kind == RT_POISON) return &c->rt.poison;
	if (t->kind == RT_LATE) { /* note where the number comes from; then use it like any other number */
		if (a && a->learn) a->learn->src.v[k] = t->seq;
		return (tj_tensor *)(uintptr_t)t->seg;
	}
	if (t->kind == RT_DEAD && t->flags & RT_HEAP)
		return bad(c, site, op, k, TJ_ERR_DEAD, "release it behind its last use; tj_retain() keeps it until one more tj_release()",
		           "was used after tj_release()");
	if (t->kind == RT_DEAD)
		return bad(c, site, op, k, TJ_ERR_DEAD, "keep it with tj_escape() or tj_retain()", "was used after its scope was popped");
	if (t->engine != &c->engine->rt)
		return bad(c, site, op, k, TJ_ERR_FOREIGN, "copy it with tj_data() and tj_from_data()", "belongs to another engine");
	if (t->ctx && t->ctx != c)
		return bad(c, site, op, k, TJ_ERR_FOREIGN, "keep it with tj_retain(): retained tensors belong to the engine",
		           "is a temporary of another context");
	if (t->kind == RT_PENDING && (!a || t->seg < a->serial))
		return bad(c, site, op, k, TJ_ERR_DEAD, "return it in out[], or keep it with tj_retain()", "is a temporary of a call that has ended");
	if (t->kind == RT_PENDING && a->closed.n && t->seg == a->seg && jit_closed(a, t->seq))
		return bad(c, site, op, k, TJ_ERR_DEAD, "return it in out[] of the callback", "is a value of a callback that has returned");
	if (t->kind == RT_CELL && a && a->assigned.n) t = jit_version(a, t);
	return RT_UNLIKELY(a && a->alias.n) ? jit_first_handle(a, t) : t;
}

jit_admit jit_admit_all(tj_ctx *c, const char *site, const char *op, int nsrc, tj_tensor *const *src, tj_tensor **in)
{
	jit_admit r = JIT_OK;
	if (RT_UNLIKELY(c->busy)) {
		jit_refuse(c, site, op);
		for (int k = 0; k < nsrc; k++) in[k] = &c->rt.poison;
		return JIT_POISON;
	}
	if (RT_UNLIKELY(c->active && c->act.learn)) jit_learn_operands(&c->act, nsrc);
	for (int k = 0; k < nsrc; k++) {
		in[k] = admit(c, site, op, k, src[k]);
		if (!rt_is_number(in[k]) && in[k]->kind == RT_POISON) r = JIT_POISON;
	}
	if (RT_UNLIKELY(r == JIT_POISON) && !(c->active && c->act.failed) && c->rt.err.code == TJ_OK)
		jit_error(c, site, TJ_ERR_ARG, op, "look at tj_check() before you use the tensor",
		          "an operand is poison: the op that should have made it failed, and that error was checked before, or is in another context");
	return r;
}

ir_meta jit_meta(const tj_tensor *t)
{
	ir_meta m = { 0 };
	if (rt_is_number(t)) {
		m.weak = true;
		m.dtype = rt_is_int_number(t) ? TJ_I64 : TJ_F64;
		return m;
	}
	return jit_layout_meta(t->layout);
}

ir_meta jit_layout_meta(const rt_layout *l)
{
	ir_meta m = { .dtype = l->dtype, .rank = l->rank, .device = l->device };
	memcpy(m.dim, l->dim, l->rank * sizeof *m.dim);
	return m;
}

bool jit_same_type(const ir_meta *x, const ir_meta *y)
{
	return x->dtype == y->dtype && x->device == y->device && x->rank == y->rank &&
	       (!x->rank || !memcmp(x->dim, y->dim, x->rank * sizeof *x->dim));
}

void jit_put_type(char *out, size_t room, const ir_meta *m)
{
	rt_text t = { 0 };
	ir_put_meta(&t, m);
	snprintf(out, room, "%s", rt_str(&t));
	rt_text_free(&t);
}

/* ---- making values ---- */
tj_tensor *jit_fill_value(tj_tensor *t, const rt_layout *layout, rt_buffer *buf, void *data)
{
	const rt_head head = { RT_VALUE, layout->dtype, layout->rank, 0, 0 };
	memcpy(t, &head, sizeof head);
	t->seg = 0;
	t->layout = layout;
	t->buf = buf;
	t->data = data;
	return t;
}

tj_tensor *jit_new_value(tj_ctx *c, tj_scope *s, const rt_layout *layout, rt_buffer *buf, void *data)
{
	tj_tensor *t = rt_raw_handle(&c->rt, s);
	if (RT_LIKELY(t != NULL)) return jit_fill_value(t, layout, buf, data);
	rt_layout_unref(layout);
	rt_buffer_unref(buf, c->rt.allocator);
	return NULL;
}

bool jit_alias_of(jit_act *a, tj_tensor *h, tj_tensor *t) { return rt_push(&a->alias, ((jit_alias){ h, jit_first_handle(a, t) })); }

/* A retained tensor that is released in a call lives until the call ends; arguments live as long as the call. */
static bool lives_in(const jit_act *a, const tj_scope *s, const tj_tensor *t)
{
	if (t->flags & RT_HEAP || (t->flags & RT_BORROWED && s->act == a->serial)) return true;
	for (; s; s = s->parent)
		if (jit_scope_has(s, t)) return true;
	return false;
}

/* A pending value needs no entry in `alias`: its event tells what it is. */
tj_tensor *jit_handle_in(tj_ctx *c, tj_scope *s, tj_tensor *t)
{
	jit_act *a = c->active && t->kind != RT_PENDING ? &c->act : NULL;
	if (a && lives_in(a, s, t)) return t;
	tj_tensor *h = rt_handle(&c->rt, s);
	if (!h || (a && !jit_alias_of(a, h, t))) return NULL;
	*h = *t;
	h->ctx = c;
	h->row_major = NULL;
	h->flags &= (uint8_t)~(RT_HEAP | RT_BORROWED);
	if (t->kind == RT_PENDING) return h;
	rt_layout_ref(h->layout);
	if (h->buf) rt_buffer_ref(h->buf);
	return h;
}

/* ---- properties ---- */
static bool is_tensor(const tj_tensor *t) { return t && t != TJ_END && !rt_is_number(t) && t->layout; }

int tj_rank(const tj_tensor *t)
{
	if (jit_is_number(t)) return 0;
	return is_tensor(t) ? t->rank : -1;
}

/* A body that knows no size asks for the same ops at each (form.c). */
static void note_asked(void)
{
	for (uint32_t i = 0; jit_me && i < jit_me->depth && i < JIT_INSIDE; i++) {
		tj_ctx *c = (tj_ctx *)(uintptr_t)atomic_load_explicit(&jit_me->inside[i], memory_order_relaxed);
		if (c && c->active) c->act.asked = true;
	}
	if (jit_me && jit_me->depth > JIT_INSIDE && jit_thread_ctx && jit_thread_ctx->active) jit_thread_ctx->act.asked = true;
}

int64_t tj_dim(const tj_tensor *t, int axis)
{
	if (!is_tensor(t)) return -1;
	note_asked();
	if (axis < 0) axis += t->rank;
	return axis >= 0 && axis < t->rank ? t->layout->dim[axis] : -1;
}

int64_t tj_numel(const tj_tensor *t)
{
	if (jit_is_number(t)) return 1;
	if (!is_tensor(t)) return -1;
	note_asked();
	return t->layout->numel;
}

tj_dtype tj_dtype_of(const tj_tensor *t)
{
	if (rt_is_number(t)) return rt_is_int_number(t) ? TJ_I64 : TJ_F64; /* a late number has its own dtype */
	return t && t != TJ_END ? (tj_dtype)t->dtype : TJ_F32;
}

tj_device tj_device_of(const tj_tensor *t)
{
	if (jit_is_number(t)) return TJ_CPU;
	return is_tensor(t) ? t->layout->device : -1;
}

tj_device tj_find_device(const char *name)
{
	return name ? jit_device(name) : -1;
}

const char *tj_device_name(tj_device device) { return rt_device_name(device); }

bool tj_is_poison(const tj_tensor *t) { return !t || t == TJ_END || (!rt_is_number(t) && t->kind == RT_POISON); }
