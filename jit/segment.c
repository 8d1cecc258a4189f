/* SPDX-License-Identifier: MIT */
/* Segments: at a boundary all pending events run as one plan. Later segments use its values as externals. */
#include "jit/call.h"
#include "jit/compile.h"
#include "jit/effect.h"
#include "jit/event.h"
#include "jit/note.h"
#include "runtime/bytes.h"

/* ---- running a plan ---- */

/* The cell that value i is assigned to, when the plan may overwrite its content; else NULL. moved: the content of a cell is assigned to
 * another one. */
static rt_held *overwritten_cell(jit_act *a, const jit_plan *p, uint32_t i, bool moved)
{
	int slot = p->exec->out[i].alias_ext;
	if (slot < 0) return NULL;
	const jit_bound *b = &a->ext.v[slot];
	if (b->h->kind != RT_CELL || !b->owned || b->buf != b->h->buf) return NULL;
	for (uint32_t k = 0; moved && k < a->assigned.n; k++)
		if (a->assigned.v[k].version == b->h) return NULL;
	const int64_t at = jit_find_assigned(a, rt_held_of(b->h));
	const tj_tensor *v = at < 0 ? NULL : a->assigned.v[at].version;
	return v && v->kind == RT_PENDING && v->seg == a->seg && v->seq == p->value[i].seq ? a->assigned.v[at].cell : NULL;
}

/* The new content of a cell is there without a copy once p has run. */
static bool is_made(jit_act *a, const jit_plan *p, const tj_tensor *v)
{
	const rt_layout *l = v->layout;
	rt_buffer *b = v->buf;
	void *data = v->data;
	if (v->kind == RT_CELL) return true;
	if (v->kind == RT_PENDING && v->seg == a->seg) {
		const int i = jit_find_in_plan(p, v->seq), from = i < 0 || !p->exec ? -1 : p->exec->out[i].same_ext;
		return i >= 0 && (from < 0 || (!p->exec->out[i].offset &&
		                               jit_is_content(a->ctx, p->value[i].layout, a->ext.v[from].buf, a->ext.v[from].data)));
	}
	return (v->kind != RT_PENDING || jit_find_value(a, v, &l, &b, &data)) && jit_is_content(a->ctx, l, b, data);
}

/* None where the call can still fail after the run: then the cells must be as they were. */
static rt_held *const *cells_to_overwrite(jit_act *a, const jit_plan *p)
{
	bool moved = false;
	if (!a->alone || a->ctx->into) return NULL; /* else another context could read it; into: a wrong size is found after the run */
	for (uint32_t k = 0; k < a->assigned.n; k++) {
		if (!is_made(a, p, a->assigned.v[k].version)) return NULL;
		moved |= a->assigned.v[k].version->kind == RT_CELL;
	}
	rt_held **over = rt_arena_alloc(&a->mem, (p->n + 1) * sizeof *over);
	for (uint32_t i = 0; over && i < p->n; i++) over[i] = overwritten_cell(a, p, i, moved);
	return over;
}

static bool run_plan(jit_act *a, const char *site, const jit_plan *p, const jit_inputs *in, rt_buffer ***buf, void ***data)
{
	const void **ptr = rt_arena_alloc(&a->mem, (in->next + 1) * sizeof *ptr);
	*buf = rt_arena_alloc(&a->mem, (p->n + 1) * sizeof **buf);
	*data = rt_arena_alloc(&a->mem, (p->n + 1) * sizeof **data);
	if (ptr && *buf && *data) return jit_run_plan(a->ctx, site, p, in, ptr, *buf, *data);
	jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(JIT_RETURN), NULL, "no memory for the results");
	return false;
}

/* ---- recomputing values that were not kept ---- */

/* After the first miss, the plan keeps all values of the segment that open scopes still hold. */
static bool keep_held(jit_act *a, uint64_t serial, jit_segment *s)
{
	for (tj_scope *sc = a->ctx->rt.scope; sc && sc->act == a->serial; sc = sc->parent) {
		uint32_t n = sc->used;
		for (rt_handles *k = sc->chunk; k; k = k->next, n = RT_CHUNK)
			for (uint32_t i = 0; i < n; i++)
				if (k->h[i].kind == RT_PENDING && k->h[i].seg == serial && !rt_push(&s->keep, k->h[i].seq)) return false;
	}
	return true;
}

/* The next plan of the segment keeps the value. */
static bool keep_later(const jit_act *a, jit_segment *s, uint32_t seq)
{
	rt_lock(&a->fn->compile);
	bool kept = false;
	for (uint32_t i = 0; i < s->keep.n; i++) kept |= s->keep.v[i] == seq;
	kept = kept || rt_push(&s->keep, seq);
	rt_unlock(&a->fn->compile);
	return kept;
}

/* The external that a residual is. before: as in jit_act, of the segment that reads it. */
static bool name_residual(jit_act *a, const jit_residual *r, const uint64_t *before, jit_bound *b)
{
	const jit_done *d = jit_find_done(a, before[r->place]);
	const jit_node *n = d ? d->boundary : NULL;
	while (n && n->seq > r->seq) n = n->parent;
	*b = (jit_bound){ .pending = true, .seg = before[r->place], .seq = r->seq };
	if (n) b->layout = n->layout;
	return n != NULL;
}

/* A plan of the segment that also computes event seq; a reference. */
static jit_plan *widen(jit_act *a, jit_done *d, uint32_t seq, rt_err *err)
{
	jit_segment *s = d->boundary->segment;
	rt_lock(&a->fn->compile);
	jit_plan *p = NULL;
	if (jit_find_in_plan(atomic_load(&s->plan), seq) >= 0) p = jit_take_plan(s);
	else if (rt_push(&s->keep, seq) && keep_held(a, d->serial, s)) {
		p = jit_build(a, d->boundary, s->keep.v, s->keep.n, d->ext, err);
		if (p) {
			atomic_fetch_add(&p->refs, 1);
			p->older = atomic_load(&s->plan); /* another thread may have loaded its address without a reference yet */
			atomic_store(&s->plan, p);
		}
	} else rt_fail(err, TJ_ERR_NOMEM, "recompute", "out of memory");
	rt_unlock(&a->fn->compile);
	return p;
}

/* Reports which value was not kept, and which line reads it. */
static void tell_recomputed(jit_act *a, const jit_done *d, uint32_t seq)
{
	const jit_node *n = d->boundary;
	const uint32_t event = seq & JIT_INNER ? jit_event_of(a, n->segment, seq) : seq;
	const char *name = a->fn->name, *reader = a->reader ? a->reader : "the return";
	char text[512];
	while (n->seq > event) n = n->parent;
	snprintf(text, sizeof text,
	         "%s: %s at %s was not kept at the boundary at %s, but is read after it: it was computed once more and is kept from now on",
	         name, jit_event_name(n->op), n->site ? n->site : "?", d->boundary->site ? d->boundary->site : "?");
	tj_reason r = jit_new_reason(name, "recompute", reader, "this costs one run; nothing need be done", text);
	r.event = (int)event;
	r.trace = (int)a->entry->number;
	r.segment = (int)d->boundary->segment->number;
	jit_note(a->fn, RT_LOG_PLAN, &r);
}

static bool complete(jit_act *a, jit_bound *b);

/* The externals that p, a wider plan of an executed segment, runs with. */
static bool inputs_again(jit_act *a, const jit_done *d, const jit_plan *p, jit_inputs *in)
{
	jit_bound *ext = d->ext;
	if (p->nresidual) {
		ext = rt_arena_alloc(&a->mem, (d->nmet + p->nresidual) * sizeof *ext);
		if (!ext) return false;
		memcpy(ext, d->ext, d->nmet * sizeof *ext);
	}
	for (uint32_t i = 0; i < p->nresidual; i++) {
		jit_bound *b = &ext[d->nmet + i];
		if (!name_residual(a, &p->residual[i], d->before, b) || !complete(a, b)) return false;
	}
	in->ext = ext;
	in->next = d->nmet + p->nresidual;
	return true;
}

bool jit_recover(jit_act *a, const tj_tensor *h)
{
	RT_DEFAULT_MODES;
	jit_done *d = jit_find_done(a, h->seg);
	rt_err err = { 0 };
	if (!d) return false;
	if (jit_has_effect(d->boundary)) {
		jit_error(a->ctx, a->reader, TJ_ERR_STATE, "host_call", "read the value, or ask for the gradient, before the boundary",
		          "a value of the events before the boundary at %s was not kept, and host calls among them cannot run again",
		          d->boundary->site ? d->boundary->site : "?");
		return false;
	}
	JIT_COUNT(a->fn, recomputed);
	atomic_fetch_add(&d->boundary->segment->misses, 1);
	tell_recomputed(a, d, h->seq);
	jit_plan *p = widen(a, d, h->seq, &err);
	if (!p) return jit_report(a->ctx, d->boundary->site, &err), false;
	rt_buffer **buf = NULL;
	void **data;
	jit_inputs in = { .num = d->num };
	if (!inputs_again(a, d, p, &in) || !rt_reserve(&a->hold, d->plan->n) || !run_plan(a, d->boundary->site, p, &in, &buf, &data)) {
		jit_drop_values(a, p, buf);
		return false;
	}
	/* Externals of the running segment may use the old buffers: keep them until the call ends. */
	for (uint32_t i = 0; i < d->plan->n; i++) a->hold.v[a->hold.n++] = d->buf[i];
	jit_drop_values(a, d->plan, NULL);
	d->plan = p;
	d->buf = buf;
	d->data = data;
	return true;
}

/* The line that first reads an external of the running segment. */
static const char *reader_of(const jit_act *a, uint32_t slot)
{
	const char *site = NULL;
	for (const jit_node *n = a->cursor; n->parent; n = n->parent)
		for (int k = 0; k < n->nsrc; k++)
			if (n->src[k] == JIT_REF(JIT_EXT, slot)) site = n->site;
	return site;
}

/* Gives a value of an earlier segment its data. */
static bool complete(jit_act *a, jit_bound *b)
{
	const rt_layout *l;
	void *data;
	const tj_tensor h = { .kind = RT_PENDING, .seg = b->seg, .seq = b->seq };
	if (!jit_find_value(a, &h, &l, &b->buf, &data) && (!jit_recover(a, &h) || !jit_find_value(a, &h, &l, &b->buf, &data))) return false;
	if (l != b->layout) { /* the plan gives a view, but the trace expects row-major */
		rt_err err = { 0 };
		rt_buffer *copy = rt_buffer_on(&a->ctx->rt, l->device, (size_t)l->bytes);
		if (!copy || !rt_push(&a->hold, copy)) return false;
		if (rt_tensor_copy(a->ctx->rt.pool, l, b->buf, data, copy, &err) != TJ_OK) return jit_report(a->ctx, NULL, &err), false;
		b->buf = copy;
		data = copy->data;
	}
	b->data = data;
	return true;
}

/* Gives every external its data; recomputes values that a plan did not keep. */
static bool complete_externals(jit_act *a)
{
	for (uint32_t i = 0; i < a->ext.n; i++) {
		jit_bound *b = &a->ext.v[i];
		if (b->data || !b->pending) continue;
		a->reader = reader_of(a, i);
		if (!complete(a, b)) return false;
	}
	return true;
}

/* Adds the residuals of p to the externals. What is missing of one earlier segment is computed in one run. */
static bool bind_residuals(jit_act *a, const jit_plan *p)
{
	if (!rt_reserve(&a->ext, p->nresidual)) return false;
	for (uint32_t i = 0; i < p->nresidual; i++) {
		jit_bound *b = &a->ext.v[a->ext.n];
		tj_tensor *h = rt_arena_alloc(&a->mem, sizeof *h);
		if (!h || !name_residual(a, &p->residual[i], a->before.v, b)) return false;
		*h = (tj_tensor){ .kind = RT_PENDING,
			          .dtype = b->layout->dtype,
			          .rank = b->layout->rank,
			          .seq = b->seq,
			          .seg = b->seg,
			          .layout = b->layout };
		b->h = h;
		a->unhinted++;
		a->ext.n++;
		const jit_done *d = jit_find_done(a, b->seg);
		if (jit_find_in_plan(d->plan, b->seq) < 0 && !keep_later(a, d->boundary->segment, b->seq)) return false;
	}
	return true;
}

/* ---- pruning: of many executed segments, only those that a handle can still name are kept ---- */
enum { PRUNE_AT = 64 };

static bool named(jit_act *a, uint64_t serial)
{
	for (uint32_t i = 0; i < a->assigned.n; i++)
		if (a->assigned.v[i].version->kind == RT_PENDING && a->assigned.v[i].version->seg == serial) return true;
	for (uint32_t i = 0; i < a->retained.n; i++)
		if (a->retained.v[i]->t.seg == serial) return true;
	return false;
}

static void mark_held(jit_act *a, uint8_t *live)
{
	for (tj_scope *sc = a->ctx->rt.scope; sc && sc->act == a->serial; sc = sc->parent) {
		uint32_t n = sc->used;
		for (rt_handles *k = sc->chunk; k; k = k->next, n = RT_CHUNK)
			for (uint32_t i = 0; i < n; i++) {
				jit_done *d = k->h[i].kind == RT_PENDING ? jit_find_done(a, k->h[i].seg) : NULL;
				if (d) live[d - a->done.v] = 1;
			}
	}
}

static void prune(jit_act *a)
{
	if (a->done.n < PRUNE_AT || (a->done.n & (a->done.n - 1))) return; /* at 64, 128, 256, ... segments */
	uint8_t *live = rt_calloc(a->done.n);
	if (!live) return;
	mark_held(a, live);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < a->done.n; i++) {
		if (live[i] || i + 1 == a->done.n || named(a, a->done.v[i].serial)) a->done.v[kept++] = a->done.v[i];
		else {
			jit_drop_done(a, &a->done.v[i]);
			a->pruned = true;
		}
	}
	a->done.n = kept;
	rt_free(live);
}

/* ---- the boundary ---- */

/* Keeps the externals and numbers of the segment, with references, for recomputing. */
static bool record_inputs(jit_act *a, jit_done *d)
{
	d->before = rt_arena_alloc(&a->mem, (a->before.n + 1) * sizeof *d->before);
	if (!d->before) return false;
	if (a->before.n) memcpy(d->before, a->before.v, a->before.n * sizeof *d->before);
	d->nmet = d->boundary->next + d->boundary->nmet;
	d->ext = rt_arena_alloc(&a->mem, (a->ext.n + 1) * sizeof *d->ext);
	d->num = rt_arena_alloc(&a->mem, (a->num.n + 1) * sizeof *d->num);
	if (!d->ext || !d->num) return false;
	if (a->num.n) memcpy(d->num, a->num.v, a->num.n * sizeof *d->num);
	for (uint32_t i = 0; i < a->ext.n; i++) {
		d->ext[i] = a->ext.v[i];
		if (!d->ext[i].owned && d->ext[i].buf) rt_buffer_ref(d->ext[i].buf);
		d->ext[i].owned = d->ext[i].buf != NULL;
		a->ext.v[i].owned = false;
	}
	d->next = a->ext.n;
	d->nnum = a->num.n;
	return true;
}

static void note_way(jit_act *a, jit_segment *s)
{
	if (a->truth) atomic_store_explicit(&a->truth->after[a->bit], s->number + 1, memory_order_relaxed);
	a->truth = NULL;
}

void jit_note_truth(tj_ctx *c, const tj_tensor *t, bool bit)
{
	jit_act *a = c->active ? &c->act : NULL;
	if (!a || rt_is_number(t) || t->kind != RT_PENDING || !a->done.n) return;
	jit_node *b = a->done.v[a->done.n - 1].boundary;
	if (b->op != JIT_TRUTH || a->done.v[a->done.n - 1].serial != t->seg || b->src[0] != JIT_REF(JIT_EV, t->seq)) return;
	a->truth = b->segment;
	a->bit = bit;
	atomic_fetch_add_explicit(&b->segment->chosen[bit], 1, memory_order_relaxed);
}

static void tell_deep(jit_act *a, const char *site)
{
	static const char hint[] = "each tj_truth() ends a segment: take fewer turns in a call, or choose with tj_where()";
	char text[384];
	snprintf(text, sizeof text, "%s: a call of this key has more than %d segments; its body runs on every call; %s", a->fn->name,
	         JIT_MAX_LEVELS, hint);
	tj_reason r = jit_new_reason(a->fn->name, "direct", site ? site : "?", hint, text);
	r.trace = (int)a->entry->number;
	jit_reason(a->fn, &r);
}

/* A value that only the caller keeps may be computed in memory of the caller. */
static bool kept(const jit_act *a, uint32_t seq)
{
	for (uint32_t i = 0; i < a->assigned.n; i++)
		if (a->assigned.v[i].version->kind == RT_PENDING && a->assigned.v[i].version->seg == a->seg &&
		    a->assigned.v[i].version->seq == seq)
			return true;
	for (uint32_t i = 0; i < a->retained.n; i++)
		if (a->retained.v[i]->t.seg == a->seg && a->retained.v[i]->t.seq == seq) return true;
	return false;
}

static bool outputs_into(jit_act *a, const jit_plan *p, jit_inputs *in, tj_tensor *const *res)
{
	in->into = rt_arena_alloc(&a->mem, (p->n + 1) * sizeof *in->into);
	bool ok = in->into != NULL;
	for (int i = 0; ok && p->exec && i < a->fn->opts.nout; i++) {
		if (rt_is_number(res[i]) || res[i]->kind != RT_PENDING || res[i]->seg != a->seg || kept(a, res[i]->seq)) continue;
		int value = jit_find_in_plan(p, res[i]->seq);
		if (value >= 0) ok = jit_into_place(a->ctx, p, in, (uint32_t)value, i, in->into);
	}
	return ok;
}

static void drop_into(jit_act *a, const jit_plan *p, const jit_inputs *in)
{
	for (uint32_t i = 0; in->into && i < p->n; i++) rt_buffer_unref(in->into[i], a->ctx->rt.allocator);
}

static bool boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src)
{
	RT_DEFAULT_MODES;
	jit_node *n = jit_step(a, site, op, nsrc, src, 0, NULL);
	if (!n || a->failed) return false;
	if (!jit_one_commit(a)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	JIT_TICK(a->memo, boundaries);
	if (a->fresh && !(n = jit_seal(a, n))) return false;
	a->cursor = n;
	note_way(a, n->segment);
	atomic_fetch_add_explicit(&n->segment->hits, 1, memory_order_relaxed);
	jit_done d = { .serial = a->seg, .boundary = n, .plan = jit_take_plan(n->segment) };
	if ((d.plan->nresidual && !bind_residuals(a, d.plan)) || !complete_externals(a) || !rt_reserve(&a->done, 1)) {
		jit_plan_unref(d.plan);
		return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	}
	a->alone = op == JIT_RETURN && a->assigned.n && jit_alone_begin(a->ctx);
	jit_inputs in = { .ext = a->ext.v,
		          .next = a->ext.n,
		          .num = a->num.v,
		          .over = cells_to_overwrite(a, d.plan),
		          .owners = 2,
		          .boundary = n,
		          .stray = a->stray.v,
		          .nstray = a->stray.n };
	if (RT_UNLIKELY(a->ctx->into != NULL) && op == JIT_RETURN && !outputs_into(a, d.plan, &in, src))
		return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	const bool audit = RT_UNLIKELY(a->ctx->engine->audit) && jit_audit_due(a, d.plan);
	if (RT_UNLIKELY(a->learn != NULL)) jit_learn_segment(a, &d);
	if (RT_UNLIKELY(audit)) in.over = NULL; /* the evaluator must read the same cells afterwards */
	bool ok = run_plan(a, site, d.plan, &in, &d.buf, &d.data) && (!audit || jit_audit(a->ctx, &d, &in, d.data)) &&
	          (op == JIT_RETURN || record_inputs(a, &d));
	drop_into(a, d.plan, &in);
	a->done.v[a->done.n++] = d;
	if (!ok) {
		a->broken = true;
		return false;
	}
	if (a->learn && ++a->levels > JIT_MAX_LEVELS) {
		a->hit->deep = true;
		a->learn = NULL;
		tell_deep(a, site);
	}
	if (op != JIT_RETURN) {
		prune(a);
		jit_start_segment(a);
	}
	return true;
}

bool jit_boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src)
{
	if (RT_LIKELY(!a->ctx->engine->timed)) return boundary(a, site, op, nsrc, src);
	RT_DEFAULT_MODES;
	double start = rt_now_ms();
	a->followed += a->seq + 1;
	bool ok = boundary(a, site, op, nsrc, src);
	if (op != JIT_RETURN) a->away += (rt_now_ms() - start) * 1e6;
	return ok;
}
