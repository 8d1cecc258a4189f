/* SPDX-License-Identifier: MIT */
/* Values for the host: data, elements, truths. In a body a read is a boundary. */
#include "jit/call.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

/* Direct mode cannot know what the body does with a value that it reads, except a truth: a truth is always a boundary, also of a computed
 * value. */
static bool learn_read(jit_act *a, const char *site, int event, tj_tensor *const *in)
{
	if (event != JIT_TRUTH) jit_learn_stop(a, site ? site : "?", "%s at %s gives a value to C", jit_event_name(event), site ? site : "?");
	else if (in[0]->kind != RT_PENDING || in[0]->seg != a->seg) return !a->failed && jit_boundary(a, site, event, 1, in);
	return true;
}

/* A value that C reads. own: NULL, or a reference on buf to drop after reading, since another thread may commit to the cell meanwhile. */
typedef struct reached { const rt_layout *layout; void *data; rt_buffer *buf, *own; } reached;

static void read_end(tj_ctx *c, reached *r)
{
	if (r->own) rt_buffer_unref(r->own, c->rt.allocator);
	r->own = NULL;
}

static bool reach_cell(jit_act *a, const char *site, int event, tj_tensor *t, reached *r)
{
	jit_taken k = { .cell = rt_held_of(t) };
	if (a && !jit_read_cell(a, &k)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(event), NULL, "out of memory"), false;
	if (!a) jit_take_cell(&k);
	*r = (reached){ t->layout, k.data, k.buf, a ? NULL : k.buf };
	return true;
}

/* Makes the data of a value available; in a body this may run a boundary. */
static bool reach(tj_ctx *c, const char *site, int event, tj_tensor *t, reached *r)
{
	*r = (reached){ 0 };
	jit_act *a = jit_active(c);
	tj_tensor *in[1];
	if (jit_admit_all(c, site, jit_event_name(event), 1, &t, in) == JIT_POISON) return false;
	if (RT_UNLIKELY(a && a->callback.n) &&
	    jit_in_callback(c, site, jit_event_name(event), "branch with tj_cond() or tj_where(), loop with tj_while(); or read it before"))
		return false;
	if (RT_UNLIKELY(a && a->learn) && !learn_read(a, site, event, in)) return false;
	if (in[0]->kind == RT_CELL) return reach_cell(a, site, event, in[0], r);
	if (in[0]->kind != RT_PENDING) {
		*r = (reached){ in[0]->layout, in[0]->data, in[0]->buf, NULL };
		return true;
	}
	if (a->failed) return false;
	if (in[0]->seg == a->seg && !jit_boundary(a, site, event, 1, in)) return false;
	return (jit_find_value(a, in[0], &r->layout, &r->buf, &r->data) && r->data) ||
	       (jit_recover(a, in[0]) && jit_find_value(a, in[0], &r->layout, &r->buf, &r->data));
}

/* Keeps a row-major copy on the CPU while a scope lives: in the handle of a temporary; for a cell or a retained tensor, which
 * other threads and later versions share, in a new handle of the innermost scope. */
static const void *keep_copy(tj_ctx *c, tj_tensor *t, const rt_layout *l, rt_buffer *copy)
{
	if (!(t->flags & RT_HEAP)) {
		t->row_major = copy;
		return copy->data;
	}
	const rt_layout *plain = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)l->dtype, RT_CPU, l->rank, l->dim, NULL);
	tj_tensor *h = plain ? jit_new_value(c, c->rt.scope, plain, copy, copy->data) : NULL;
	if (!plain) rt_buffer_unref(copy, c->rt.allocator);
	return h ? h->data : NULL;
}

static const void *row_major(tj_ctx *c, const char *site, tj_tensor *t)
{
	reached r;
	if (!reach(c, site, JIT_DATA, t, &r)) return NULL;
	const rt_layout *l = r.layout;
	const void *p = NULL;
	rt_err err = { 0 };
	if (l->contiguous && l->device == RT_CPU) p = r.data; /* of a cell: valid until its next commit */
	else if (t->row_major && !(t->flags & RT_HEAP)) p = ((rt_buffer *)t->row_major)->data;
	else {
		rt_buffer *copy = rt_buffer_new(c->rt.allocator, (size_t)l->bytes);
		if (copy && rt_tensor_read(c->rt.pool, l, r.buf, r.data, copy->data, &err) == TJ_OK) p = keep_copy(c, t, l, copy);
		else rt_buffer_unref(copy, c->rt.allocator);
		if (!p) rt_fail(&err, TJ_ERR_NOMEM, "data", "out of memory");
	}
	read_end(c, &r);
	if (!p) jit_report(c, site, &err);
	return p;
}

const void *tj_data_at(const char *site, tj_tensor *t)
{
	static const double zeros[2];
	JIT_CURRENT(c, site);
	if (!c) return zeros;
	if (jit_is_number(t)) {
		jit_error(c, site, TJ_ERR_ARG, "data", "tj_item() gives its value", "a number has no memory");
		return zeros;
	}
	const void *p = row_major(c, site, t);
	return p ? p : zeros;
}

/* Work that the user puts into the queue from now on finds the elements there. */
static bool wait_in_queue(tj_ctx *c, const char *site, rt_buffer *b)
{
	rt_err err = { 0 };
	return rt_buffer_before(b, c->rt.pool, false, &err) == TJ_OK || (jit_report(c, site, &err), false);
}

static const void *row_major_there(tj_ctx *c, const char *site, const reached *r)
{
	const rt_layout *l = r->layout, *plain = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)l->dtype, l->device, l->rank, l->dim, NULL);
	rt_buffer *b = plain ? rt_buffer_on(&c->rt, l->device, (size_t)l->bytes) : NULL;
	rt_err err = { 0 };
	if (b && rt_tensor_copy(c->rt.pool, l, r->buf, r->data, b, &err) == TJ_OK) {
		const tj_tensor *h = jit_new_value(c, c->rt.scope, plain, b, b->data);
		if (h) return h->data;
	} else {
		rt_buffer_unref(b, c->rt.allocator);
		rt_layout_unref(plain);
	}
	rt_fail(&err, TJ_ERR_NOMEM, "device_data", "out of memory");
	jit_report(c, site, &err);
	return NULL;
}

const void *tj_device_data_at(const char *site, tj_tensor *t)
{
	JIT_CURRENT(c, site);
	reached r;
	const void *p = NULL;
	if (!c) return NULL;
	if (jit_is_number(t)) {
		jit_error(c, site, TJ_ERR_ARG, "device_data", "tj_item() gives its value", "a number has no memory");
		return NULL;
	}
	if (tj_device_of(t) == TJ_CPU) return row_major(c, site, t);
	if (!reach(c, site, JIT_DATA, t, &r)) return NULL;
	if (!r.layout->contiguous) p = row_major_there(c, site, &r);
	else if (wait_in_queue(c, site, r.buf)) p = r.data;
	read_end(c, &r);
	return p;
}

tj_status tj_read_at(const char *site, tj_tensor *t, void *dst, size_t bytes)
{
	JIT_CURRENT(c, site);
	if (!c) return TJ_ERR_STATE;
	if (jit_is_number(t) || (!dst && bytes)) {
		jit_error(c, site, TJ_ERR_ARG, "read", NULL, jit_is_number(t) ? "a number has no memory" : "dst is NULL");
		return TJ_ERR_ARG;
	}
	reached r;
	if (!reach(c, site, JIT_DATA, t, &r)) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	rt_err err = { 0 };
	if (bytes != (size_t)r.layout->bytes)
		rt_fail(&err, TJ_ERR_SHAPE, "read", "dst has %zu bytes, the tensor %lld", bytes, (long long)r.layout->bytes);
	else if (bytes) rt_tensor_read(c->rt.pool, r.layout, r.buf, r.data, dst, &err);
	read_end(c, &r);
	if (err.code != TJ_OK) jit_report(c, site, &err);
	return err.code;
}

/* Reads the one element of a tensor that is not on the CPU. */
static bool read_element(tj_ctx *c, const char *site, const reached *r, ir_scalar *s)
{
	uint64_t bits = 0;
	rt_err err = { 0 };
	if (rt_tensor_read(c->rt.pool, r->layout, r->buf, r->data, &bits, &err) != TJ_OK) return jit_report(c, site, &err), false;
	*s = ir_load((tj_dtype)r->layout->dtype, &bits);
	return true;
}

/* Reads the one element of t; false on error. */
static bool one_element(tj_ctx *c, const char *site, int event, tj_tensor *t, ir_scalar *s, tj_dtype *dtype)
{
	reached r;
	if (!reach(c, site, event, t, &r)) return false;
	bool one = r.layout->numel == 1;
	*dtype = (tj_dtype)r.layout->dtype;
	if (one && RT_LIKELY(r.layout->device == RT_CPU)) *s = ir_load(*dtype, r.data);
	else if (one) one = read_element(c, site, &r, s);
	else
		jit_error(c, site, TJ_ERR_SHAPE, jit_event_name(event), "reduce it first, or read it with tj_data()",
		          "the tensor must have one element, it has %lld", (long long)r.layout->numel);
	read_end(c, &r);
	return one;
}

/* C reads a late number, which may differ in the next call: direct mode cannot know what C does with it. */
static tj_tensor *unbox(tj_ctx *c, const char *site, int event, tj_tensor *t)
{
	if (rt_is_number(t) || !t || t == TJ_END || t->kind != RT_LATE) return t;
	if (c->active && c->act.learn)
		jit_learn_stop(&c->act, site ? site : "?", "%s at %s gives a number of the call to C", jit_event_name(event),
		               site ? site : "?");
	return (tj_tensor *)(uintptr_t)t->seg;
}

static bool element_as(const char *site, int event, tj_tensor *t, tj_dtype to, ir_scalar *out)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_dtype from;
	if (!c) return false;
	t = unbox(c, site, event, t);
	if (rt_is_number(t)) {
		ir_scalar s;
		if (rt_is_int_number(t)) s.i = rt_int_of(t);
		else s.d = rt_float_of(t);
		*out = ir_cast_scalar(s, rt_is_int_number(t) ? TJ_I64 : TJ_F64, to);
		return true;
	}
	ir_scalar s;
	if (!one_element(c, site, event, t, &s, &from)) return false;
	*out = ir_cast_scalar(s, from, to);
	return true;
}

double tj_item_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	return element_as(site, JIT_ITEM, t, TJ_F64, &s) ? s.d : __builtin_nan("");
}

int64_t tj_item_i_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	return element_as(site, JIT_ITEM, t, TJ_I64, &s) ? s.i : 0;
}

/* Truths for a body that goes on after an error; they change, so that its loops end. */
static bool any_bit(tj_ctx *c)
{
	static const uint64_t odd = UINT64_C(0x9E3779B97F4A7C15);
	c->rt.serial++;
	return rt_hash(&c->rt.serial, 8, odd) & 1;
}

bool tj_truth_at(const char *site, tj_tensor *t)
{
	ir_scalar s;
	JIT_CURRENT(c, site);
	if (!c) return false;
	if (!element_as(site, JIT_TRUTH, t, TJ_BOOL, &s)) return any_bit(c);
	jit_note_truth(c, t, s.i != 0);
	if (c->active && c->act.learn && c->act.done.n) c->act.done.v[c->act.done.n - 1].bit = s.i != 0;
	return s.i != 0;
}
