/* SPDX-License-Identifier: MIT */
/* Assigning to cells: inside a call each assign makes a new version; all cells are committed together when the call ends, all or none. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

static bool broadcasts(const tj_tensor *v, const tj_tensor *cell)
{
	int lead = cell->rank - v->rank;
	for (int d = 0; d < v->rank && lead >= 0; d++)
		if (v->layout->dim[d] != 1 && v->layout->dim[d] != cell->layout->dim[lead + d]) return false;
	return lead >= 0;
}

/* The value with dtype and shape of the cell: cast, then broadcast. */
static tj_tensor *fit(tj_ctx *c, const char *site, const tj_tensor *cell, tj_tensor *v)
{
		const int64_t dtype = cell->dtype, device = cell->layout->device;
	if (jit_is_number(v) || v->dtype != cell->dtype) v = jit_event(site, IR_cast, 1, &v, 1, &dtype);
	if (v->kind == RT_POISON) return v;
	if (v->layout->device != device && v->rank == 0 && v->layout->device == TJ_CPU) v = jit_event(site, IR_to, 1, &v, 1, &device);
	if (v->kind == RT_POISON) return v;
	if (v->layout->device != device)
		return jit_error(c, site, TJ_ERR_DEVICE, "assign", "move the value with tj_to()", "the value is on %s, the cell on %s",
		                 rt_device_name(v->layout->device), rt_device_name((int)device));
	if (v->rank == cell->rank && !memcmp(v->layout->dim, cell->layout->dim, cell->rank * sizeof(int64_t))) return v;
	if (broadcasts(v, cell)) return jit_event(site, IR_expand, 1, &v, cell->rank, cell->layout->dim);
	rt_text of = { 0 }, to = { 0 };
	const ir_meta value = jit_meta(v), want = jit_meta(cell);
	ir_put_meta(&of, &value);
	ir_put_meta(&to, &want);
	v = jit_error(c, site, TJ_ERR_SHAPE, "assign", "the value must broadcast to the cell's shape", "%s does not fit the cell, %s",
	              rt_str(&of), rt_str(&to));
	rt_text_free(&of);
	rt_text_free(&to);
	return v;
}

/* The version number of a cell when the call first met it: its new value may depend on that version. */
static uint64_t version_met(const jit_act *a, rt_held *cell)
{
	for (uint32_t i = 0; i < a->done.n; i++)
		for (uint32_t k = 0; k < a->done.v[i].next; k++)
			if (a->done.v[i].ext[k].h == &cell->t) return a->done.v[i].ext[k].seg;
	int slot = jit_find_ext(a, &cell->t);
	if (slot >= 0) return a->ext.v[slot].seg;
	const jit_taken *kept = jit_kept(a, &cell->t);
	return kept ? kept->version : jit_cell_version(cell);
}

static bool set_version(jit_act *a, rt_held *cell, tj_tensor *v)
{
	tj_tensor *version = v->kind == RT_CELL ? v : jit_handle_in(a->ctx, a->scope, v);
	if (!version) return false;
	const int64_t at = jit_find_assigned(a, cell);
	if (at >= 0) {
		a->assigned.v[at].version = version;
		return true;
	}
	return rt_push(&a->assigned, ((jit_assigned){ cell, version, version_met(a, cell) }));
}

static tj_status fail_as(tj_ctx *c, const char *op, const char *site, tj_status code, const char *hint, const char *what)
{
	jit_error(c, site, code, op, hint, "%s", what);
	return code;
}

static tj_status fail(tj_ctx *c, const char *site, tj_status code, const char *hint, const char *what)
{
	return fail_as(c, "assign", site, code, hint, what);
}

/* Outside a call the value is already computed; the cell shares its buffer if it is row-major. */
static tj_status assign_now(tj_ctx *c, const char *site, rt_held *cell, const tj_tensor *v)
{
	rt_err err = { 0 };
	rt_buffer *b = NULL;
	if (rt_pool_settle_all(c->rt.pool, &err) == TJ_OK) b = jit_content(c, v->layout, v->buf, v->data, &err);
	if (!b) return jit_report(c, site, &err), err.code;
	rt_buffer_unref(jit_replace(c, cell, b), c->rt.allocator);
	return TJ_OK;
}

tj_status tj_assign_at(const char *site, tj_tensor *cell, tj_tensor *value)
{
	JIT_CURRENT(c, site);
	tj_tensor *src[2] = { value, cell }, *in[2];
	if (!c) return TJ_ERR_STATE;
	jit_act *a = jit_active(c);
	if (jit_admit_all(c, site, "assign", 2, src, in) == JIT_POISON) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (a && a->callback.n && jit_in_callback(c, site, "assign", "return the value in out[], and assign the result of the op"))
		return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (rt_is_number(cell) || cell->kind != RT_CELL)
		return fail(c, site, TJ_ERR_ARG, "tj_param() makes cells", "only a cell can be assigned or written");
	rt_held *h = rt_held_of(cell);
	tj_tensor *v = fit(c, site, cell, rt_is_number(in[0]) ? value : in[0]);
	if (v->kind == RT_POISON) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (!a) return assign_now(c, site, h, v);
	src[0] = v;
	src[1] = cell;
	if (!jit_step(a, site, JIT_ASSIGN, 2, src, 0, NULL)) return c->rt.err.code ? c->rt.err.code : TJ_ERR_NOMEM;
	return set_version(a, h, v) ? TJ_OK : fail(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
}

tj_status tj_write_at(const char *site, tj_tensor *cell, const void *data, size_t bytes)
{
	JIT_CURRENT(c, site);
	tj_tensor *in[1];
	if (!c) return TJ_ERR_STATE;
	if (jit_refuses(c, site, "write")) return TJ_ERR_STATE;
	if (jit_active(c))
		return fail_as(c, "write", site, TJ_ERR_STATE, "assign a tensor made by tj_from_data(), or write before the call",
		               "tj_write() is not allowed in a body");
	if (jit_admit_all(c, site, "write", 1, &cell, in) == JIT_POISON) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (rt_is_number(cell) || cell->kind != RT_CELL)
		return fail_as(c, "write", site, TJ_ERR_ARG, "tj_param() makes cells", "only a cell can be assigned or written");
	if (!data || bytes != (size_t)cell->layout->bytes) {
		jit_error(c, site, TJ_ERR_SHAPE, "write", "pass the bytes of all elements, in row-major order",
		          "data has %zu bytes, the cell %lld", data ? bytes : 0, (long long)cell->layout->bytes);
		return TJ_ERR_SHAPE;
	}
	rt_held *h = rt_held_of(cell);
	rt_err err = { 0 };
	/* What the user writes now must not be undone. */
	if (c->undo.v.n && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) return jit_report(c, site, &err), err.code;
	bool in_place = jit_overwrite(c, h, data, bytes, &err);
	if (in_place && err.code == TJ_OK) return TJ_OK;
	rt_buffer *b = in_place ? NULL : rt_buffer_on(&c->rt, cell->layout->device, bytes);
	if (b && rt_buffer_write(c->rt.pool, b, data, bytes, &err) == TJ_OK) {
		rt_buffer_unref(jit_replace(c, h, b), c->rt.allocator);
		return TJ_OK;
	}
	rt_fail(&err, TJ_ERR_NOMEM, "write", "out of memory");
	rt_buffer_unref(b, c->rt.allocator);
	return jit_report(c, site, &err), err.code;
}

/* ---- commit ---- */
/* The new buffer of the cell; a reference. */
static rt_buffer *new_content(jit_act *a, const jit_assigned *s, rt_err *err)
{
	const tj_tensor *v = s->version;
	const rt_layout *l = v->layout;
	rt_buffer *b = v->buf;
	void *data = v->data;
	if (v->kind == RT_CELL) {
		jit_taken t = { .cell = rt_held_of(s->version) };
		jit_met_cell(a, &t);
		return t.buf;
	}
	if (v->kind == RT_PENDING && !jit_find_value(a, v, &l, &b, &data)) {
		if (!jit_recover(a, v) || !jit_find_value(a, v, &l, &b, &data)) return NULL;
	}
	return jit_content(a->ctx, l, b, data, err);
}

tj_status jit_commit_begin(jit_act *a, jit_write **write, rt_err *err)
{
	uint32_t n = a->assigned.n, i = 0;
	*write = NULL;
	if (!n) return TJ_OK;
	jit_write *w = *write = rt_arena_alloc(&a->mem, n * sizeof *w);
	for (; w && i < n; i++) {
		w[i] = (jit_write){ a->assigned.v[i].cell, new_content(a, &a->assigned.v[i], err), a->assigned.v[i].was };
		if (!w[i].buf) break;
	}
	if (w && i == n && jit_undo_begin(a->ctx, w, n, a->alone, err) == TJ_OK) return TJ_OK;
	jit_commit_drop(a->ctx, w, i);
	return rt_fail(err, TJ_ERR_NOMEM, "commit", "no memory for a new value of a cell");
}

tj_status jit_commit_end(jit_act *a, jit_write *w, rt_err *err)
{
	if (!w) return TJ_OK;
	tj_status st = jit_write_cells(a->ctx, w, a->assigned.n, a->alone, err);
	jit_undo_end(a->ctx, w, a->assigned.n);
	return st;
}

void jit_commit_drop(tj_ctx *c, const jit_write *w, uint32_t n)
{
	for (uint32_t k = 0; w && k < n; k++) rt_buffer_unref(w[k].buf, c->rt.allocator);
}
