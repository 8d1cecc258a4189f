/* SPDX-License-Identifier: MIT */
/* Runs a plan: finds the destinations of its values, and keeps the queues of devices in order. */
#include "jit/profiling.h"
#include "jit/segment.h"

static void share_external(const jit_plan *p, uint32_t i, const jit_bound *ext, rt_buffer **buf, void **data)
{
	const rt_out *o = &p->exec->out[i];
	*buf = rt_buffer_ref(ext[o->same_ext].buf);
	*data = (char *)(uintptr_t)ext[o->same_ext].data + o->offset * (int64_t)tj_dtype_size((tj_dtype)p->value[i].layout->dtype);
}

/* May value i be computed in the buffer of its cell? Behind a fault of the same device its kernel leaves the buffer alone (rt_step.over).
 */
static bool in_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t i)
{
	rt_held *cell = in->over ? in->over[i] : NULL;
	if (!cell || !rt_buffer_only(cell->t.buf, in->owners)) return false;
	const int before = rt_pool_in_doubt(c->rt.pool), now = p->exec->late_faults, device = p->value[i].layout->device;
	if (RT_LIKELY(before == RT_CPU && now == RT_CPU)) return true;
	return (before == RT_CPU || before == device) && (now == RT_CPU || now == device) && jit_undo_in_place(c, cell, device);
}

/* Finds the destinations of the values of a plan. Views of an external take a reference on its buffer first, so that no
 * other value is then computed in that buffer. */
static bool place_values(tj_ctx *c, const jit_plan *p, const jit_inputs *in, rt_buffer **buf, void **data)
{
	for (uint32_t i = 0; i < p->n; i++) {
		buf[i] = NULL;
		if (p->exec->out[i].same_ext >= 0) share_external(p, i, in->ext, &buf[i], &data[i]);
	}
	for (uint32_t i = 0; i < p->n; i++) {
		if (buf[i]) continue;
		if (RT_UNLIKELY(in->into && in->into[i])) buf[i] = rt_buffer_ref(in->into[i]);
		else if (in_place(c, p, in, i)) buf[i] = rt_buffer_ref(in->over[i]->t.buf);
		else buf[i] = rt_buffer_on(&c->rt, p->value[i].layout->device, (size_t)p->value[i].layout->bytes);
		if (!buf[i]) return false;
		data[i] = buf[i]->data;
	}
	return true;
}

/* The line of this call that asked for the failed op; `site` is the line in the trace. */
static const char *line_that_ran(const jit_inputs *in, const char *site)
{
	for (const jit_node *n = in->boundary; in->nstray && n && n->parent; n = n->parent)
		for (uint32_t i = 0; i < in->nstray; i++)
			if (in->stray[i].seq == n->seq && n->site && !strcmp(n->site, site)) return in->stray[i].site;
	return site;
}

tj_status jit_run_on_devices(const rt_exec *x, rt_run *r, uint32_t nin, rt_buffer *const *in, rt_buffer *const *out)
{
	tj_status st = TJ_OK;
	for (uint32_t i = 0; i < nin && st == TJ_OK; i++)
		if (in[i]) st = rt_buffer_before(in[i], r->pool, false, r->err);
	for (int i = 0; i < x->nout && st == TJ_OK; i++)
		if (x->out[i].same_ext < 0) st = rt_buffer_before(out[i], r->pool, true, r->err);
	if (st != TJ_OK) return st;
	st = x->run(x, r);
	for (uint32_t i = 0; i < nin; i++)
		if (in[i]) rt_buffer_after(in[i], r->pool, false);
	for (int i = 0; i < x->nout; i++)
		if (x->out[i].same_ext < 0) rt_buffer_after(out[i], r->pool, true);
	return st;
}

/* Makes room for the temporaries; if need be by freeing what the context keeps for its next tensors. The plan reports when there is none.
 */
static void reserve(tj_ctx *c, const rt_exec *x)
{
	for (int d = TJ_CPU + 1; d < RT_DEVICES; d++)
		if (x->arena_bytes[d] && !rt_pool_arena_on(c->rt.pool, d, x->arena_bytes[d])) rt_ctx_relax(&c->rt, d);
}

static tj_status run_on_devices(tj_ctx *c, const jit_plan *p, rt_run *r, const jit_inputs *in, rt_buffer **buf)
{
	rt_buffer **from = rt_alloc((in->next + 1) * sizeof *from);
	if (!from) return rt_fail(r->err, TJ_ERR_NOMEM, "call", "out of memory");
	reserve(c, p->exec);
	for (uint32_t i = 0; i < in->next; i++) from[i] = in->ext[i].buf;
	tj_status st = jit_run_on_devices(p->exec, r, in->next, from, buf);
	rt_free(from);
	return st;
}

/* Tells the recorder which segment runs. */
static void note_plan(tj_ctx *c, rt_run *r, const jit_inputs *in)
{
	const jit_node *b = in->boundary;
	rt_recorder *told = jit_recorder(c);
	if (!told) return;
	if (rt_recorder_on(told)) {
		rt_recorder_at(told, b && b->site ? b->site : "?");
		return;
	}
	jit_watch_no_more(c);
	r->profile = c->rt.run.profile;
}

static __attribute__((noinline)) tj_status run_rare(tj_ctx *c, const jit_plan *p, rt_run *r, const jit_inputs *in, rt_buffer **buf)
{
	if (r->profile) note_plan(c, r, in);
	if (r->profile) rt_range_begin(p->fn);
	tj_status st = p->exec->devices ? run_on_devices(c, p, r, in, buf) : p->exec->run(p->exec, r);
	if (r->profile) rt_range_end();
	return st;
}

bool jit_run_plan(tj_ctx *c, const char *site, const jit_plan *p, const jit_inputs *in, const void **ptr, rt_buffer **buf, void **data)
{
	rt_err err;
	if (!p->exec) return true; /* nothing to compute */
	rt_no_err(&err);
	if (!place_values(c, p, in, buf, data)) {
		jit_error(c, site, TJ_ERR_NOMEM, jit_event_name(JIT_RETURN), rt_usage_hint(p->n ? p->value[0].layout->device : TJ_CPU),
		          "no memory for the results");
		return false;
	}
	for (uint32_t i = 0; i < in->next; i++) ptr[i] = in->ext[i].data; /* of a device: addresses there */
	rt_run r = jit_run(c, ptr, in->num, data, &err);
	const bool rare = p->exec->devices | r.profile;
	if (RT_LIKELY((RT_UNLIKELY(rare) ? run_rare(c, p, &r, in, buf) : p->exec->run(p->exec, &r)) == TJ_OK)) return true;
	if (err.site) err.site = line_that_ran(in, err.site);
	jit_report(c, site, &err);
	return false;
}
