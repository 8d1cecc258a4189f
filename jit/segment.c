/* Segments: at a boundary all pending events run as one plan. Later segments use its values as externals. */
#include "jit/jit.h"

void jit_start_segment(jit_act *a)
{
	a->cursor = &a->entry->root;
	a->fresh = NULL;
	a->seg = ++a->ctx->rt.serial;
	a->seq = 0;
	a->ext.n = a->num.n = a->cell.n = a->loose = a->closed.n = a->ntaken = a->stray.n = 0;
	a->indexed = false;
	rt_recycle(&a->ctx->rt);
}

void jit_hold(void *act, rt_buffer *b)
{
	jit_act *a = act;
	if (!rt_push(&a->hold, b)) a->failed = true;
}

/* ---- values of executed segments ---- */
jit_done *jit_find_done(jit_act *a, uint64_t serial)
{
	uint32_t lo = 0, hi = a->done.n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (a->done.v[mid].serial < serial) lo = mid + 1;
		else hi = mid;
	}
	return lo < a->done.n && a->done.v[lo].serial == serial ? &a->done.v[lo] : NULL;
}

bool jit_find_value(jit_act *a, const tj_tensor *h, const rt_layout **layout, rt_buffer **buf, void **data)
{
	jit_done *d = jit_find_done(a, h->seg);
	int i = d ? jit_find_in_plan(d->plan, h->seq) : -1;
	if (i < 0) return false;
	*layout = d->plan->value[i].layout;
	*buf = d->buf[i];
	*data = d->data[i];
	return true;
}

/* Drops the values of a plan and the reference on the plan. */
static void drop_values(jit_act *a, jit_plan *p, rt_buffer **buf)
{
	for (uint32_t i = 0; buf && i < p->n; i++)
		if (buf[i]) rt_buffer_unref(buf[i], a->ctx->rt.cache);
	jit_plan_unref(p);
}

static void drop_done(jit_act *a, jit_done *d)
{
	drop_values(a, d->plan, d->buf);
	for (uint32_t i = 0; i < d->next; i++)
		if (d->ext[i].owned) rt_buffer_unref(d->ext[i].buf, a->ctx->rt.cache);
}

void jit_end_segments(jit_act *a)
{
	jit_unbind_ext(a, 0);
	for (uint32_t i = 0; i < a->done.n; i++) drop_done(a, &a->done.v[i]);
	a->done.n = 0;
	if (a->fresh) jit_free_trie(a->fresh); /* the recording did not reach its boundary */
	a->fresh = NULL;
}

/* ---- running a plan ---- */

/* The buffer of the cell that value i is assigned to, when the plan may overwrite that buffer; else NULL. */
static rt_buffer *overwritten_cell(jit_act *a, const jit_plan *p, uint32_t i)
{
	int slot = p->exec->out[i].alias_ext;
	if (slot < 0) return NULL;
	const jit_bound *b = &a->ext.v[slot];
	if (b->h->kind != RT_CELL || !b->owned) return NULL;
	for (uint32_t k = 0; k < a->assigned.n; k++)
		if (a->assigned.v[k].version == b->h) return NULL; /* its content is assigned to another cell */
	for (uint32_t k = 0; k < a->assigned.n; k++) {
		const jit_assigned *s = &a->assigned.v[k];
		if (&s->cell->t == b->h && s->version->kind == RT_PENDING && s->version->seg == a->seg && s->version->seq == p->value[i].seq) return b->buf;
	}
	return NULL;
}

static rt_buffer *const *cells_to_overwrite(jit_act *a, const jit_plan *p)
{
	if (!a->alone) return NULL; /* a cell is overwritten only when no other context can read it */
	rt_buffer **over = rt_arena_alloc(&a->mem, (p->n + 1) * sizeof *over);
	for (uint32_t i = 0; over && i < p->n; i++) over[i] = overwritten_cell(a, p, i);
	return over;
}

static void share_external(const jit_plan *p, uint32_t i, const jit_bound *ext, rt_buffer **buf, void **data)
{
	const rt_out *o = &p->exec->out[i];
	*buf = rt_buffer_ref(ext[o->same_ext].buf);
	*data = (char *)(uintptr_t)ext[o->same_ext].data + o->offset * (int64_t)tj_dtype_size((tj_dtype)p->value[i].layout->dtype);
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
		rt_buffer *over = in->over ? in->over[i] : NULL;
		if (RT_UNLIKELY(in->into && in->into[i])) buf[i] = rt_buffer_ref(in->into[i]);
		else if (over && rt_buffer_only(over, in->owners) && !p->exec->late_faults) buf[i] = rt_buffer_ref(over);
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

static tj_status run_on_devices(const jit_plan *p, rt_run *r, const jit_inputs *in, rt_buffer **buf)
{
	rt_buffer **from = rt_alloc((in->next + 1) * sizeof *from);
	if (!from) return rt_fail(r->err, TJ_ERR_NOMEM, "call", "out of memory");
	for (uint32_t i = 0; i < in->next; i++) from[i] = in->ext[i].buf;
	tj_status st = jit_run_on_devices(p->exec, r, in->next, from, buf);
	rt_free(from);
	return st;
}

bool jit_run_plan(tj_ctx *c, const char *site, const jit_plan *p, const jit_inputs *in, const void **ptr, rt_buffer **buf, void **data)
{
	rt_err err;
	if (!p->exec) return true; /* nothing to compute */
	rt_no_err(&err);
	/* Write a cell in place only after all earlier device work has succeeded. */
	if (RT_UNLIKELY(p->exec->devices) && in->over && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) return jit_report(c, site, &err), false;
	if (!place_values(c, p, in, buf, data)) {
		jit_error(c, site, TJ_ERR_NOMEM, jit_event_name(JIT_RETURN), NULL, "no memory for the results");
		return false;
	}
	for (uint32_t i = 0; i < in->next; i++) ptr[i] = in->ext[i].data; /* of a device: addresses there */
	rt_run r = jit_run(c, ptr, in->num, data, &err);
	if (RT_LIKELY((RT_LIKELY(!p->exec->devices) ? p->exec->run(p->exec, &r) : run_on_devices(p, &r, in, buf)) == TJ_OK)) return true;
	if (err.site) err.site = line_that_ran(in, err.site);
	jit_report(c, site, &err);
	return false;
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

static jit_plan *take_plan(jit_segment *s)
{
	jit_plan *p = atomic_load(&s->plan);
	atomic_fetch_add(&p->refs, 1);
	return p;
}

/* A plan of the segment that also computes event seq; a reference. */
static jit_plan *widen(jit_act *a, jit_done *d, uint32_t seq, rt_err *err)
{
	jit_segment *s = d->boundary->segment;
	rt_lock(&a->fn->compile);
	jit_plan *p = NULL;
	if (jit_find_in_plan(atomic_load(&s->plan), seq) >= 0) p = take_plan(s);
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
	snprintf(text, sizeof text, "%s: %s at %s was not kept at the boundary at %s and is read after it: computed once more; from now on it is kept",
	         name, jit_event_name(n->op), n->site ? n->site : "?", d->boundary->site ? d->boundary->site : "?");
	jit_note(a->fn, RT_LOG_PLAN, &(tj_reason){ .fn = name, .kind = "recompute", .arg = -1, .dim = -1, .event = (int)event, .expected = "", .found = "", .site = reader,
	                                           .hint = "one run was lost; nothing is to be done", .text = text, .state = -1,
	                                           .trace = (int)a->entry->number, .segment = (int)d->boundary->segment->number });
}

bool jit_recover(jit_act *a, const tj_tensor *h)
{
	RT_DEFAULT_MODES;
	jit_done *d = jit_find_done(a, h->seg);
	rt_err err = { 0 };
	if (!d) return false;
	JIT_COUNT(a->fn, recomputed);
	atomic_fetch_add(&d->boundary->segment->misses, 1);
	tell_recomputed(a, d, h->seq);
	jit_plan *p = widen(a, d, h->seq, &err);
	if (!p) return jit_report(a->ctx, d->boundary->site, &err), false;
	rt_buffer **buf = NULL;
	void **data;
	const jit_inputs in = { .ext = d->ext, .next = d->next, .num = d->num };
	if (!rt_reserve(&a->hold, d->plan->n) || !run_plan(a, d->boundary->site, p, &in, &buf, &data)) {
		drop_values(a, p, buf);
		return false;
	}
	/* Externals of the running segment may use the old buffers: keep them until the call ends. */
	for (uint32_t i = 0; i < d->plan->n; i++) a->hold.v[a->hold.n++] = d->buf[i];
	drop_values(a, d->plan, NULL);
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

/* Gives every external its data; recomputes values that a plan did not keep. */
static bool complete_externals(jit_act *a)
{
	for (uint32_t i = 0; i < a->ext.n; i++) {
		jit_bound *b = &a->ext.v[i];
		const rt_layout *l;
		void *data;
		if (b->data || !b->pending) continue;
		const tj_tensor h = { .kind = RT_PENDING, .seg = b->seg, .seq = b->seq };
		a->reader = reader_of(a, i);
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
	}
	return true;
}

/* ---- which values a plan must compute for later ---- */
static bool has(const uint32_t *v, uint32_t n, uint32_t x)
{
	for (uint32_t i = 0; i < n; i++)
		if (v[i] == x) return true;
	return false;
}

static bool want_ref(jit_segment *s, jit_ref r)
{
	return JIT_KIND(r) != JIT_EV || has(s->keep.v, s->keep.n, JIT_IDX(r)) || rt_push(&s->keep, JIT_IDX(r));
}

/* The operands of the boundary, assigned and retained values; at a boundary in mid-body also values that no event has read yet. */
static bool want(jit_act *a, jit_node *boundary, jit_segment *s)
{
	uint32_t n = boundary->seq + 1;
	uint8_t *used = rt_arena_alloc(&a->mem, n);
	uint8_t *again = rt_arena_alloc(&a->mem, boundary->ncell + 1); /* by cell: assigned again later in the segment */
	uint32_t inside = 0; /* depth of callbacks, whose values are not visible outside */
	if (!used || !again) return false;
	for (jit_node *x = boundary; x->parent; x = x->parent) {
		inside += x->op == JIT_YIELD;
		inside -= x->op == JIT_CALLBACK;
		for (int k = 0; k < x->nsrc; k++)
			if (JIT_KIND(x->src[k]) == JIT_EV) used[JIT_IDX(x->src[k])] = 1;
		if (x == boundary || x->op == JIT_RETAIN) {
			for (int k = 0; k < x->nsrc; k++)
				if (!want_ref(s, x->src[k])) return false;
		} else if (x->op == JIT_ASSIGN) {
			uint32_t cell = JIT_IDX(x->src[1]);
			if (!again[cell] && !want_ref(s, x->src[0])) return false;
			again[cell] = 1;
		} else if (boundary->op != JIT_RETURN && (x->op < IR_OPS || x->op == IR_get) && x->layout && !inside && !used[x->seq] && !want_ref(s, JIT_REF(JIT_EV, x->seq)))
			return false;
	}
	return true;
}

/* ---- sealing a recording ---- */

/* The last node of an equal published path, or NULL. */
static jit_node *find_twin(jit_node *from, jit_node *fresh)
{
	for (jit_node *p = fresh; p; p = atomic_load(&p->child)) {
		jit_node *q = atomic_load(&from->child);
		while (q && !jit_same_node(p, q)) q = q->sibling;
		if (!q) return NULL;
		from = q;
	}
	return from;
}

static void publish_child(jit_node *parent, jit_node *n)
{
	n->parent = parent;
	n->sibling = atomic_load_explicit(&parent->child, memory_order_relaxed);
	atomic_store_explicit(&parent->child, n, memory_order_release);
}

/* Links the private path behind `from`. Nodes that another thread has published meanwhile are shared. */
static void publish(jit_node *from, jit_node *fresh)
{
	for (jit_node *p = fresh, *next; p; p = next) {
		next = atomic_load(&p->child);
		jit_node *q = atomic_load(&from->child);
		while (q && !jit_same_node(p, q)) q = q->sibling;
		if (!q) {
			publish_child(from, p);
			return;
		}
		atomic_store(&p->child, NULL);
		jit_free_node(p);
		from = q;
	}
}

static bool same_ops(const jit_node *a, const jit_node *b)
{
	for (; a->parent && b->parent; a = a->parent, b = b->parent)
		if (a->op != b->op || a->seq != b->seq) return false;
	return !a->parent && !b->parent;
}

/* Translates the name of an inner value of another segment with the same ops to this segment. */
static uint32_t name_here(jit_segment *s, const jit_segment *other, uint32_t name)
{
	const jit_inner *v = &other->inner.v[name & ~JIT_INNER];
	return jit_inner_name(s, v->seq, v->step);
}

static bool keep_as(jit_segment *s, const jit_node *other)
{
	bool ok = true;
	for (uint32_t k = 0; ok && k < other->segment->keep.n; k++) {
		uint32_t x = other->segment->keep.v[k];
		if (x & JIT_INNER) ok = (x = name_here(s, other->segment, x)) != 0;
		ok = ok && want_ref(s, JIT_REF(JIT_EV, x));
	}
	return ok;
}

/* A segment with the same ops in the same entry. Only needed where sizes depend on data, since each size is traced anew. */
static const jit_node *find_alike(const jit_act *a, const jit_node *boundary)
{
	for (uint32_t i = a->sized.n ? a->entry->sealed.n : 0; i-- > 0;)
		if (same_ops(boundary, a->entry->sealed.v[i])) return a->entry->sealed.v[i];
	return NULL;
}

/* Keeps the values that a segment with the same ops keeps, in this entry or at another size: later segments will read them
 * here as well. So the first call need not recompute them. */
static bool keep_as_elsewhere(jit_act *a, const jit_node *boundary, jit_segment *s)
{
	const tj_fn *f = a->fn;
	const jit_node *alike = find_alike(a, boundary);
	bool ok = true, found = false;
	if (alike) return keep_as(s, alike);
	rt_lock(&a->fn->table_lock);
	for (uint32_t i = f->entry.n; ok && !found && i-- > 0;) {
		const jit_entry *e = f->entry.v[i];
		if (e == a->entry || e->general != a->entry->general || e->sealed.n <= s->number) continue;
		const jit_node *other = e->sealed.v[s->number];
		if (!(found = same_ops(boundary, other))) continue;
		ok = keep_as(s, other);
	}
	rt_unlock(&a->fn->table_lock);
	return ok;
}

static jit_segment *compile_segment(jit_act *a, jit_node *n, rt_err *err)
{
	jit_segment *s = rt_calloc(sizeof *s);
	if (!s) return rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory"), NULL;
	n->segment = s;
	s->number = a->entry->sealed.n;
	jit_plan *p = want(a, n, s) && keep_as_elsewhere(a, n, s) && rt_reserve(&a->entry->sealed, 1) ? jit_build(a, n, s->keep.v, s->keep.n, a->ext.v, err) : NULL;
	if (!p) {
		rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory");
		return NULL;
	}
	atomic_store(&s->plan, p);
	a->entry->sealed.v[s->number] = n;
	__atomic_store_n(&a->entry->sealed.n, s->number + 1, __ATOMIC_RELAXED); /* jit_drop_empty() reads it without the lock */
	return s;
}

/* Makes the recording a part of the trace; the first thread that brings it compiles it. */
static jit_node *seal(jit_act *a, jit_node *n)
{
	rt_err err = { 0 };
	jit_node *from = a->fresh->parent;
	atomic_store(&a->fn->count.trace_ms, atomic_load(&a->fn->count.trace_ms) + rt_now_ms() - a->started);
	rt_lock(&a->fn->compile);
	jit_node *twin = find_twin(from, a->fresh);
	if (twin) {
		jit_free_trie(a->fresh);
		n = twin;
	} else if (compile_segment(a, n, &err)) {
		publish(from, a->fresh);
	} else n = NULL;
	rt_unlock(&a->fn->compile);
	if (n) a->fresh = NULL;
	else jit_report(a->ctx, a->cursor->site, &err);
	if (n && n != twin) {
		jit_plan *p = take_plan(n->segment);
		jit_tell_segment(a->fn, a->entry, n, p);
		jit_plan_unref(p);
	}
	return n;
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
		else drop_done(a, &a->done.v[i]);
	}
	a->done.n = kept;
	rt_free(live);
}

/* ---- the boundary ---- */

/* Keeps the externals and numbers of the segment, with references, for recomputing. */
static bool record_inputs(jit_act *a, jit_done *d)
{
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

void jit_follow(tj_ctx *c, const tj_tensor *t, bool bit)
{
	jit_act *a = c->active ? &c->act : NULL;
	if (!a || rt_is_number(t) || t->kind != RT_PENDING || !a->done.n) return;
	jit_node *b = a->done.v[a->done.n - 1].boundary;
	if (b->op != JIT_TRUTH || a->done.v[a->done.n - 1].serial != t->seg || b->src[0] != JIT_REF(JIT_EV, t->seq)) return;
	a->truth = b->segment;
	a->bit = bit;
	atomic_fetch_add_explicit(&b->segment->taken[bit], 1, memory_order_relaxed);
}

static void tell_deep(jit_act *a, const char *site)
{
	static const char hint[] = "each tj_truth() is a segment: take fewer turns in a call, or choose with tj_where()";
	char text[384];
	snprintf(text, sizeof text, "%s: a call of this key has more than %d segments; its body runs on every call; %s", a->fn->name, JIT_MAX_LEVELS, hint);
	jit_reason(a->fn, &(tj_reason){ .fn = a->fn->name, .kind = "direct", .arg = -1, .dim = -1, .event = -1, .expected = "", .found = "", .site = site ? site : "?",
	                                .hint = hint, .text = text, .state = -1, .trace = (int)a->entry->number, .segment = -1 });
}

/* A value that only the caller keeps may be computed in memory of the caller. */
static bool kept(const jit_act *a, uint32_t seq)
{
	for (uint32_t i = 0; i < a->assigned.n; i++)
		if (a->assigned.v[i].version->kind == RT_PENDING && a->assigned.v[i].version->seg == a->seg && a->assigned.v[i].version->seq == seq) return true;
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
	for (uint32_t i = 0; in->into && i < p->n; i++) rt_buffer_unref(in->into[i], a->ctx->rt.cache);
}

static bool boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src)
{
	RT_DEFAULT_MODES;
	jit_node *n = jit_step(a, site, op, nsrc, src, 0, NULL);
	if (!n || a->failed) return false;
	if (!jit_one_commit(a)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	JIT_TICK(a->slot, boundaries);
	if (a->fresh && !(n = seal(a, n))) return false;
	a->cursor = n;
	note_way(a, n->segment);
	atomic_fetch_add_explicit(&n->segment->hits, 1, memory_order_relaxed);
	if (!complete_externals(a) || !rt_reserve(&a->done, 1)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	a->alone = op == JIT_RETURN && a->assigned.n && jit_alone_begin(a->ctx);
	jit_done d = { .serial = a->seg, .boundary = n, .plan = take_plan(n->segment) };
	jit_inputs in = { .ext = a->ext.v, .next = a->ext.n, .num = a->num.v, .over = cells_to_overwrite(a, d.plan), .owners = 2, .boundary = n, .stray = a->stray.v, .nstray = a->stray.n };
	if (RT_UNLIKELY(a->ctx->into != NULL) && op == JIT_RETURN && !outputs_into(a, d.plan, &in, src)) return jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory"), false;
	const bool audit = RT_UNLIKELY(a->ctx->engine->audit) && jit_audit_due(a, d.plan);
	if (RT_UNLIKELY(a->learn != NULL)) jit_learn_segment(a, &d);
	if (RT_UNLIKELY(audit)) in.over = NULL; /* the evaluator must read the same cells afterwards */
	bool ok = run_plan(a, site, d.plan, &in, &d.buf, &d.data) && (!audit || jit_audit(a->ctx, &d, &in, d.data)) && (op == JIT_RETURN || record_inputs(a, &d));
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
