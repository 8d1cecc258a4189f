/* SPDX-License-Identifier: MIT */
/* nonzero, masked_select, unique: the size of the result depends on data. In a body each is a boundary: pending events run,
 * the host computes the op, and later events use the result as an external of the size that it has. Of floats that a mask selects it
 * computes the places alone, and index_select, an event of the next segment, has the elements and their gradient. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

/* ---- values of operands ---- */
typedef struct operand {
	ir_value v;             /* v.data: element 0 */
	uint64_t number;        /* of a number: v.data points to it */
	rt_buffer *cell;        /* of a cell: a reference */
	void *copy;             /* of a tensor on another device: its host copy; v.data points into it */
} operand;

static bool is_cell(const tj_tensor *t) { return !rt_is_number(t) && t->kind == RT_CELL; }

/* The op ends a segment that has events, even if it needs none of them: then a new size records only the later events
 * again. A cell becomes an external, so that the commit checks its version; so does a float that tj_unique() reads, so that gradients know
 * what its result depends on. */
static bool run_pending(jit_act *a, const char *site, int event, int n, tj_tensor *const *in)
{
	tj_tensor *src[2];
	int k = 0;
	bool ends = a->seq > 0;
	for (int i = 0; i < n; i++) {
		if (!rt_is_number(in[i])) src[k++] = in[i];
		ends |= is_cell(in[i]) || (event == JIT_UNIQUE && !rt_is_number(in[i]) && rt_is_float(tj_dtype_of(in[i])));
	}
	return !a->failed && (!ends || jit_boundary(a, site, event, k, src));
}

/* A number becomes a tensor of f32 or i64, as for other ops on elements. */
static void take_number(const tj_tensor *t, operand *o)
{
	const bool is_int = rt_is_int_number(t);
	const float f = is_int ? 0 : (float)rt_float_of(t);
	const int64_t i = is_int ? rt_int_of(t) : 0;
	o->v.meta = (ir_meta){ .dtype = is_int ? TJ_I64 : TJ_F32 };
	if (is_int) memcpy(&o->number, &i, sizeof i);
	else memcpy(&o->number, &f, sizeof f);
	o->v.data = &o->number;
}

static bool take(tj_ctx *c, const char *site, jit_act *a, tj_tensor *t, operand *o)
{
	rt_err err = { 0 };
	const rt_layout *l;
	rt_buffer *buf = rt_is_number(t) ? NULL : is_cell(t) ? o->cell : t->buf;
	if (rt_is_number(t)) return take_number(t, o), true;
	l = t->layout;
	if (!is_cell(t)) o->v.data = t->data;
	if (t->kind == RT_PENDING) {
		bool there = jit_find_value(a, t, &l, &buf, &o->v.data) && o->v.data;
		if (!there && (!jit_recover(a, t) || !jit_find_value(a, t, &l, &buf, &o->v.data))) return false;
	}
	o->v.meta = jit_layout_meta(l);
	memcpy(o->v.stride, rt_strides(l), l->rank * sizeof *l->dim);
	o->v.data = (void *)(uintptr_t)rt_tensor_see(c->rt.pool, l, buf, o->v.data, &o->copy, &err);
	if (!o->v.data && err.code != TJ_OK) return jit_report(c, site, &err), false;
	return true;
}

/* Takes the operands that are cells, all as of one commit. */
static void take_cells(tj_ctx *c, jit_act *a, int n, tj_tensor *const *in, operand *o)
{
	jit_taken t[2] = { 0 };
	for (int k = 0; k < n; k++) t[k].cell = is_cell(in[k]) ? rt_held_of(in[k]) : NULL;
	if (!a) jit_take_cells(c, t, (uint32_t)n);
	for (int k = 0; k < n; k++) {
		if (!t[k].cell) continue;
		if (a) jit_met_cell(a, &t[k]); /* it is an external of the segment that has just ended */
		o[k].cell = t[k].buf;
		o[k].v.data = t[k].data;
	}
}

static void give_back(tj_ctx *c, operand *o, int n)
{
	for (int k = 0; k < n; k++)
		if (o[k].cell) rt_buffer_unref(o[k].cell, c->rt.allocator);
	for (int k = 0; k < n; k++) rt_free(o[k].copy);
}

static bool admit(tj_ctx *c, const char *site, int event, int n, tj_tensor *const *src, tj_tensor **in)
{
	const char *op = jit_event_name(event);
	jit_act *a = jit_active(c);
	if (jit_admit_all(c, site, op, n, src, in) == JIT_POISON) return false;
	if (a && a->callback.n &&
	    jit_in_callback(c, site, op, "keep the size: choose with tj_where(), or do it before and pass the result in"))
		return false;
	if (a && a->learn) jit_learn_stop(a, site ? site : "?", "%s at %s gives a tensor whose size depends on data", op, site ? site : "?");
	return true;
}

/* All pending events have run. o: the values of the operands from number `first` on. False: the error is reported. */
static bool reach(tj_ctx *c, const char *site, int event, int n, tj_tensor *const *in, int first, operand *o)
{
	jit_act *a = jit_active(c);
	memset(o, 0, (size_t)n * sizeof *o);
	if (a && !run_pending(a, site, event, n, in)) return false;
	take_cells(c, a, n, in, o);
	for (int k = first; k < n; k++)
		if (!take(c, site, a, in[k], &o[k])) return give_back(c, o, n), false;
	return true;
}

/* ---- results ---- */

/* t: a tensor of the innermost scope on the device of the operand; poison after an error, which is reported. to: where the host writes its
 * elements: the buffer of t, or `host`, from which send() copies to another device. */
typedef struct result { tj_tensor *t; void *to, *host; } result;

static result failed(tj_ctx *c, const char *site, int event, int64_t bytes)
{
	return (result){ .t = jit_error(c, site, TJ_ERR_NOMEM, jit_event_name(event), NULL, "no memory for %lld bytes", (long long)bytes) };
}

static result new_result(tj_ctx *c, const char *site, int event, const ir_meta *m)
{
	const rt_layout *l = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)m->dtype, m->device, m->rank, m->dim, NULL);
	if (!l)
		return (result){ .t = jit_error(c, site, TJ_ERR_NOMEM, jit_event_name(event), NULL,
			                        "no memory for a result of %lld elements", (long long)m->dim[0]) };
	rt_buffer *b = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	const int64_t bytes = l->bytes;
	if (!b) {
		rt_layout_unref(l);
		return failed(c, site, event, bytes);
	}
	result r = { .host = l->device == RT_CPU ? NULL : rt_alloc((size_t)bytes + 1) };
	r.to = l->device == RT_CPU ? b->data : r.host;
	r.t = jit_new_value(c, c->rt.scope, l, b, b->data);
	if (r.t && r.to) return r;
	rt_free(r.host);
	return failed(c, site, event, bytes);
}

/* new_result(), and the running call notes that the size of axis 0 depends on data. */
static result new_sized(tj_ctx *c, const char *site, int event, const ir_meta *m)
{
	jit_act *a = jit_active(c);
	result r = new_result(c, site, event, m);
	if (r.t->kind == RT_POISON || !a) return r;
	const uint64_t seg = a->done.n ? a->done.v[a->done.n - 1].serial : 0;
	if (rt_push(&a->sized, ((jit_sized){ r.t->buf, jit_event_name(event), site, m->dim[0], seg }))) return r;
	rt_free(r.host);
	return failed(c, site, event, 0);
}

/* Called when the elements are written: copies them to the device, and returns the tensor. */
static tj_tensor *send(tj_ctx *c, const char *site, result *r)
{
	rt_err err = { 0 };
	if (r->host && rt_buffer_write(c->rt.pool, r->t->buf, r->host, (size_t)r->t->layout->bytes, &err) != TJ_OK)
		r->t = jit_report(c, site, &err);
	rt_free(r->host);
	r->host = NULL;
	return r->t;
}

/* ---- the ops ---- */
tj_tensor *tj_nonzero_at(const char *site, tj_tensor *x)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_tensor *in[1];
	operand o;
	if (!c) return jit_no_context(site, jit_event_name(JIT_NONZERO));
	if (!admit(c, site, JIT_NONZERO, 1, &x, in) || !reach(c, site, JIT_NONZERO, 1, in, 0, &o)) return &c->rt.poison;
	const ir_meta m = { .dtype = TJ_I64, .device = o.v.meta.device, .rank = 2, .dim = { ir_count_nonzero(&o.v), o.v.meta.rank } };
	result r = new_sized(c, site, JIT_NONZERO, &m);
	if (r.t->kind != RT_POISON) ir_nonzero(&o.v, m.dim[0], r.to);
	give_back(c, &o, 1);
	return send(c, site, &r);
}

/* The common shape of x and its mask; false: the error is reported. */
static bool fit(tj_ctx *c, const char *site, tj_tensor *const *in, ir_meta *out)
{
	const char *op = jit_event_name(JIT_MASKED_SELECT);
	const ir_meta m[2] = { jit_meta(in[0]), jit_meta(in[1]) };
	rt_err err = { 0 };
	if (m[1].dtype != TJ_BOOL || m[1].weak) {
		rt_text x = { 0 }, mask = { 0 };
		ir_put_meta(&x, &m[0]);
		ir_put_meta(&mask, &m[1]);
		jit_error(c, site, TJ_ERR_DTYPE, op, "compare first, tj_gt(x, tj_f(0)), or cast the mask with tj_cast(mask, TJ_BOOL)",
		          "the mask must be bool: x %s, mask %s", rt_str(&x), rt_str(&mask));
		rt_text_free(&x);
		rt_text_free(&mask);
		return false;
	}
	if (ir_infer(IR_logical_and, 2, m, 0, NULL, out, NULL, NULL, NULL, &err) == TJ_OK) return true;
	err.op = op;
	jit_report(c, site, &err);
	return false;
}

/* Expands the value to the common shape, with strides of 0. */
static void stretch(ir_value *v, const ir_meta *to)
{
	const int lead = to->rank - v->meta.rank;
	for (int d = to->rank; d-- > 0;) v->stride[d] = d >= lead && v->meta.dim[d - lead] == to->dim[d] ? v->stride[d - lead] : 0;
	v->meta.rank = to->rank;
	memcpy(v->meta.dim, to->dim, sizeof to->dim);
}

static tj_tensor *select_elements(tj_ctx *c, const char *site, tj_tensor *const *in, const ir_meta *common)
{
	operand o[2];
	if (!reach(c, site, JIT_MASKED_SELECT, 2, in, 0, o)) return &c->rt.poison;
	stretch(&o[0].v, common);
	stretch(&o[1].v, common);
	const ir_meta m = { .dtype = o[0].v.meta.dtype, .device = common->device, .rank = 1, .dim = { ir_count_nonzero(&o[1].v) } };
	result r = new_sized(c, site, JIT_MASKED_SELECT, &m);
	if (r.t->kind != RT_POISON) ir_masked_select(&o[0].v, &o[1].v, m.dim[0], r.to);
	give_back(c, o, 2);
	return send(c, site, &r);
}

/* The places of the elements: i64[count]. */
static tj_tensor *find_places(tj_ctx *c, const char *site, tj_tensor *const *in, const ir_meta *common)
{
	operand o[2];
	if (!reach(c, site, JIT_MASKED_SELECT, 2, in, 1, o)) return &c->rt.poison;
	stretch(&o[1].v, common);
	const ir_meta m = { .dtype = TJ_I64, .device = common->device, .rank = 1, .dim = { ir_count_nonzero(&o[1].v) } };
	result r = new_sized(c, site, JIT_MASKED_SELECT, &m);
	if (r.t->kind != RT_POISON) ir_places(&o[1].v, m.dim[0], r.to);
	give_back(c, o, 2);
	return send(c, site, &r);
}

/* Floats, in a body: the host only finds the places, and ops that have gradients read the elements there. */
static tj_tensor *read_places(tj_ctx *c, const char *site, tj_tensor *const *in, const ir_meta *common)
{
	const ir_meta have = jit_meta(in[0]);
	const int64_t axis = 0;
	int64_t n;
	tj_tensor *at = find_places(c, site, in, common), *x = in[0];
	if (at->kind == RT_POISON) return at;
	rt_numel(common->rank, common->dim, &n);
	if (have.rank != common->rank || memcmp(have.dim, common->dim, sizeof *have.dim * have.rank))
		x = jit_event(site, IR_expand, 1, &x, common->rank, common->dim);
	if (common->rank != 1) x = jit_event(site, IR_reshape, 1, &x, 1, &n);
	return jit_event(site, IR_index_select, 2, (tj_tensor *[]){ x, at }, 1, &axis);
}

tj_tensor *tj_masked_select_at(const char *site, tj_tensor *x, tj_tensor *mask)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_tensor *src[2] = { x, mask }, *in[2];
	ir_meta common;
	if (!c) return jit_no_context(site, jit_event_name(JIT_MASKED_SELECT));
	if (!admit(c, site, JIT_MASKED_SELECT, 2, src, in) || !fit(c, site, in, &common)) return &c->rt.poison;
	const bool places = jit_active(c) && !jit_is_number(in[0]) && rt_is_float((tj_dtype)in[0]->dtype);
	return places ? read_places(c, site, in, &common) : select_elements(c, site, in, &common);
}

/* out: 0 values; and those that the caller wants of 1 first places, 2 inverse, 3 counts. */
static bool unique_results(tj_ctx *c, const char *site, const ir_unique *u, const ir_meta *x, tj_tensor **const *out, result *r)
{
	for (int k = 0; k < 4; k++) {
		if (k && !out[k]) continue;
		ir_meta m = { .dtype = k ? TJ_I64 : (uint8_t)u->dtype, .device = x->device, .rank = 1, .dim = { u->count } };
		if (k == 2) m = *x, m.dtype = TJ_I64;
		r[k] = k == 2 ? new_result(c, site, JIT_UNIQUE, &m) : new_sized(c, site, JIT_UNIQUE, &m);
		if (r[k].t->kind == RT_POISON) return false;
	}
	return true;
}

tj_tensor *tj_unique_all_at(const char *site, tj_tensor *x, tj_tensor **indices, tj_tensor **inverse, tj_tensor **counts)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_tensor *in[1], **const out[4] = { NULL, indices, inverse, counts };
	result r[4] = { { NULL, NULL, NULL } };
	operand o;
	ir_unique u;
	bool ok = false;
	for (int k = 1; k < 4; k++)
		if (out[k]) *out[k] = c ? &c->rt.poison : jit_no_context(site, jit_event_name(JIT_UNIQUE));
	if (!c) return jit_no_context(site, jit_event_name(JIT_UNIQUE));
	if (!admit(c, site, JIT_UNIQUE, 1, &x, in) || !reach(c, site, JIT_UNIQUE, 1, in, 0, &o)) return &c->rt.poison;
	if (!ir_unique_sort(&u, &o.v, indices || inverse || counts))
		jit_error(c, site, TJ_ERR_NOMEM, jit_event_name(JIT_UNIQUE), NULL, "no memory to sort");
	else {
		ok = unique_results(c, site, &u, &o.v.meta, out, r);
		if (ok) ir_unique_write(&u, r[0].to, r[1].to, r[2].to, r[3].to);
		ir_unique_free(&u);
	}
	give_back(c, &o, 1);
	for (int k = 0; k < 4; k++)
		if (ok && r[k].t) ok = send(c, site, &r[k])->kind != RT_POISON;
		else rt_free(r[k].host);
	for (int k = 1; k < 4; k++)
		if (ok && out[k]) *out[k] = r[k].t;
	return ok ? r[0].t : &c->rt.poison;
}

tj_tensor *tj_unique_at(const char *site, tj_tensor *x) { return tj_unique_all_at(site, x, NULL, NULL, NULL); }
