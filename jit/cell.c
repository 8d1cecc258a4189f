/* Cells: inside a call each assign makes a new version; all cells are committed together when the call ends. */
#include "jit/jit.h"

static void lock(rt_held *h) { rt_spin(&h->lock); }
static void unlock(rt_held *h) { rt_unspin(&h->lock); }

/* ---- reading: several cells as of one commit ----
 *
 * Every commit increments one counter when it begins and another when it has ended. A reader loads the second counter, takes
 * its cells, then loads the first. If both are equal, no commit ran meanwhile; else the reader takes the cells again. */
static unsigned long long commits_ended(const tj_ctx *c) { return atomic_load_explicit(&c->engine->rt.commits_ended, memory_order_acquire); }
static bool committed_since(const tj_ctx *c, unsigned long long ended)
{
	return atomic_load_explicit(&c->engine->rt.commits_begun, memory_order_acquire) != ended;
}
static void begin_commit(tj_ctx *c) { atomic_fetch_add(&c->engine->rt.commits_begun, 1); }
static void end_commit(tj_ctx *c) { atomic_fetch_add(&c->engine->rt.commits_ended, 1); }

void jit_take_cell(jit_taken *t)
{
	rt_held *h = t->cell;
	lock(h);
	t->buf = rt_buffer_ref(h->t.buf);
	t->data = h->t.data;
	t->version = h->version;
	unlock(h);
}

static void take_all(jit_taken *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].cell) jit_take_cell(&t[i]);
}

static void give_back(tj_ctx *c, jit_taken *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].cell) rt_buffer_unref(t[i].buf, c->rt.cache);
}

void jit_take_cells(tj_ctx *c, jit_taken *t, uint32_t n)
{
	enum { TRIES = 64 };
	for (int i = 0; i < TRIES; i++) {
		unsigned long long ended = commits_ended(c);
		take_all(t, n);
		if (RT_LIKELY(!committed_since(c, ended))) return;
		give_back(c, t, n);
	}
	rt_lock(&c->engine->rt.commit_lock); /* commits ran during every try; with the lock they wait */
	take_all(t, n);
	rt_unlock(&c->engine->rt.commit_lock);
}

static bool is_frozen(const tj_fn *f, const tj_tensor *t)
{
	for (uint32_t j = f->nstate - f->nfreeze; j < f->nstate; j++)
		if (*f->state[j] == t) return true;
	return false;
}

uint64_t jit_content_id(tj_fn *f, const tj_tensor *t)
{
	if (t->flags & RT_CONSTANT) return t->seg;
	if (!f->nfreeze || !(t->flags & RT_HEAP) || !is_frozen(f, t)) return 0;
	rt_held *h = rt_held_of((tj_tensor *)(uintptr_t)t);
	lock(h);
	if (!h->content || h->content_version != h->version) {
		h->content = atomic_fetch_add(&f->engine->rt.serial, 1);
		h->content_version = h->version;
	}
	uint64_t id = h->content;
	unlock(h);
	return id;
}

static bool bound_cell(const jit_bound *b, uint32_t n, jit_taken *t)
{
	for (uint32_t i = 0; i < n; i++)
		if (b[i].h == &t->cell->t && b[i].owned) {
			*t = (jit_taken){ t->cell, rt_buffer_ref(b[i].buf), (void *)(uintptr_t)b[i].data, b[i].seg };
			return true;
		}
	return false;
}

static bool read_cell(const jit_act *a, jit_taken *t)
{
	for (uint32_t i = 0; i < a->read.n; i++)
		if (a->read.v[i].cell == t->cell) {
			*t = a->read.v[i];
			rt_buffer_ref(t->buf);
			return true;
		}
	return false;
}

bool jit_met_cell(jit_act *a, jit_taken *t)
{
	for (uint32_t i = 0; i < a->done.n; i++)
		if (bound_cell(a->done.v[i].ext, a->done.v[i].next, t)) return true;
	if (read_cell(a, t)) return true;
	if (!bound_cell(a->ext.v, a->ext.n, t)) jit_take_cell(t);
	return false;
}

/* Binds an external that is a cell. jit_one_commit() checks at the boundary that all cells are of one commit. */
void jit_bind_cell(jit_act *a, jit_bound *b)
{
	tj_ctx *c = a->ctx;
	rt_held *h = rt_held_of(b->h);
	if (!a->ntaken) a->since = commits_ended(c);
	if (RT_LIKELY(!a->done.n && !a->read.n) && jit_alone_begin(c)) { /* no other context commits, and no earlier segment met it */
		b->buf = rt_buffer_ref(h->t.buf);
		b->data = h->t.data;
		b->seg = h->version;
		jit_alone_end(c);
		b->taken = true;
	} else {
		jit_taken t = { .cell = h };
		b->taken = !jit_met_cell(a, &t);
		b->buf = t.buf;
		b->data = t.data;
		b->seg = t.version;
	}
	a->ntaken += b->taken;
	b->owned = true;
}

bool jit_read_cell(jit_act *a, jit_taken *t)
{
	bool earlier = jit_met_cell(a, t), kept = earlier ? rt_push(&a->hold, t->buf) : rt_push(&a->read, *t);
	if (!kept) rt_buffer_unref(t->buf, a->ctx->rt.cache);
	return kept;
}

/* If the cell is assigned, its new value is now computed from this version. */
static void assigned_from(jit_act *a, const jit_taken *t)
{
	for (uint32_t i = 0; i < a->assigned.n; i++)
		if (a->assigned.v[i].cell == t->cell) a->assigned.v[i].was = t->version;
}

/* The content may not be replaced: the body has read it, or it is folded into code. */
static bool stays(const jit_act *a, const tj_tensor *cell)
{
	for (uint32_t i = 0; i < a->read.n; i++)
		if (&a->read.v[i].cell->t == cell) return true;
	return a->fn->nfreeze && is_frozen(a->fn, cell);
}

/* The segment has computed nothing yet, so its cells may still be bound anew. */
bool jit_one_commit(jit_act *a)
{
	if (RT_LIKELY(a->ntaken < 2 || !committed_since(a->ctx, a->since))) return true;
	jit_taken *t = rt_arena_alloc(&a->mem, a->ext.n * sizeof *t);
	for (uint32_t i = 0; t && i < a->ext.n; i++)
		if (a->ext.v[i].taken && !stays(a, a->ext.v[i].h)) t[i].cell = rt_held_of(a->ext.v[i].h);
	if (t) jit_take_cells(a->ctx, t, a->ext.n);
	for (uint32_t i = 0; t && i < a->ext.n; i++) {
		jit_bound *b = &a->ext.v[i];
		if (!t[i].cell) continue;
		rt_buffer_unref(b->buf, a->ctx->rt.cache);
		b->buf = t[i].buf;
		b->data = t[i].data;
		b->seg = t[i].version;
		assigned_from(a, &t[i]);
	}
	return t != NULL;
}

tj_tensor *jit_version(jit_act *a, tj_tensor *cell)
{
	for (uint32_t i = a->assigned.n; i-- > 0;)
		if (&a->assigned.v[i].cell->t == cell) return a->assigned.v[i].version;
	return cell;
}

/* ---- assign ---- */

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
	bool number = rt_is_number(v) || v->kind == RT_LATE;
	const int64_t dtype = cell->dtype, device = cell->layout->device;
	if (number || v->dtype != cell->dtype) v = jit_event(site, IR_cast, 1, &v, 1, &dtype);
	if (v->kind == RT_POISON) return v;
	if (v->layout->device != device && v->rank == 0 && v->layout->device == TJ_CPU) v = jit_event(site, IR_to, 1, &v, 1, &device);
	if (v->kind == RT_POISON) return v;
	if (v->layout->device != device)
		return jit_error(c, site, TJ_ERR_DEVICE, "assign", "move the value with tj_to()", "the value is on %s, the cell on %s", rt_device_name(v->layout->device), rt_device_name((int)device));
	if (v->rank == cell->rank && !memcmp(v->layout->dim, cell->layout->dim, cell->rank * sizeof(int64_t))) return v;
	if (broadcasts(v, cell)) return jit_event(site, IR_expand, 1, &v, cell->rank, cell->layout->dim);
	rt_text of = { 0 }, to = { 0 };
	const ir_meta value = jit_meta(v), want = jit_meta(cell);
	ir_put_meta(&of, &value);
	ir_put_meta(&to, &want);
	v = jit_error(c, site, TJ_ERR_SHAPE, "assign", "the value must broadcast to the cell's shape", "%s does not fit the cell, %s", rt_str(&of), rt_str(&to));
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
	lock(cell);
	uint64_t now = cell->version;
	unlock(cell);
	return now;
}

static bool set_version(jit_act *a, rt_held *cell, tj_tensor *v)
{
	tj_tensor *version = v->kind == RT_CELL ? v : jit_share(a->ctx, a->scope, v); /* lives as long as the call */
	if (!version) return false;
	for (uint32_t i = 0; i < a->assigned.n; i++)
		if (a->assigned.v[i].cell == cell) {
			a->assigned.v[i].version = version;
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

static rt_buffer *swap(rt_held *cell, rt_buffer *b)
{
	rt_buffer *old = cell->t.buf;
	cell->t.buf = b;
	cell->t.data = b->data;
	cell->version++;
	return old;
}

/* Commits one cell. rt_lock() delays a fork(), whose child would else have half a commit. */
static rt_buffer *replace(tj_ctx *c, rt_held *cell, rt_buffer *b)
{
	rt_lock(&c->engine->rt.commit_lock);
	begin_commit(c);
	lock(cell);
	rt_buffer *old = swap(cell, b);
	unlock(cell);
	end_commit(c);
	rt_unlock(&c->engine->rt.commit_lock);
	return old;
}

/* Outside a call the value is already computed; the cell shares its buffer if it is row-major. */
static tj_status assign_now(tj_ctx *c, const char *site, rt_held *cell, const tj_tensor *v)
{
	rt_err err = { 0 };
	rt_buffer *b = NULL;
	if (rt_pool_settle_all(c->rt.pool, &err) == TJ_OK) b = jit_content(c, v->layout, v->buf, v->data, &err);
	if (!b) return jit_report(c, site, &err), err.code;
	rt_buffer_unref(replace(c, cell, b), c->rt.cache);
	return TJ_OK;
}

tj_status tj_assign_at(const char *site, tj_tensor *cell, tj_tensor *value)
{
	JIT_CURRENT(c, site);
	tj_tensor *src[2] = { value, cell }, *in[2];
	if (!c) return TJ_ERR_STATE;
	jit_act *a = jit_active(c);
	if (jit_admit_all(c, site, "assign", 2, src, in) == JIT_POISON) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (a && a->callback.n && jit_in_callback(c, site, "assign", "return the value in out[], and assign the result of the op")) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
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
	if (jit_active(c)) return fail_as(c, "write", site, TJ_ERR_STATE, "assign a tensor made by tj_from_data(), or write before the call", "tj_write() is not allowed in a body");
	if (jit_admit_all(c, site, "write", 1, &cell, in) == JIT_POISON) return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
	if (rt_is_number(cell) || cell->kind != RT_CELL) return fail_as(c, "write", site, TJ_ERR_ARG, "tj_param() makes cells", "only a cell can be assigned or written");
	if (!data || bytes != (size_t)cell->layout->bytes) {
		jit_error(c, site, TJ_ERR_SHAPE, "write", "pass the bytes of all elements, in row-major order", "data has %zu bytes, the cell %lld", data ? bytes : 0, (long long)cell->layout->bytes);
		return TJ_ERR_SHAPE;
	}
	rt_held *h = rt_held_of(cell);
	bool alone = atomic_load_explicit(&c->engine->rt.contexts, memory_order_acquire) == 1; /* else other contexts would wait for the copy */
	lock(h); /* also during the copy: another thread may clone the context and read the cell */
	bool in_place = alone && rt_buffer_only(h->t.buf, 1);
	rt_err err = { 0 };
	if (in_place) {
		begin_commit(c);
		rt_buffer_write(c->rt.pool, h->t.buf, data, bytes, &err);
		h->version++;
		end_commit(c);
	}
	unlock(h);
	if (in_place && err.code == TJ_OK) return TJ_OK;
	rt_buffer *b = in_place ? NULL : rt_buffer_on(&c->rt, cell->layout->device, bytes);
	if (b && rt_buffer_write(c->rt.pool, b, data, bytes, &err) == TJ_OK) {
		rt_buffer_unref(replace(c, h, b), c->rt.cache);
		return TJ_OK;
	}
	rt_fail(&err, TJ_ERR_NOMEM, "write", "out of memory");
	rt_buffer_unref(b, c->rt.cache);
	return jit_report(c, site, &err), err.code;
}

/* ---- commit: all or nothing ---- */

rt_buffer *jit_content(tj_ctx *c, const rt_layout *l, rt_buffer *b, void *data, rt_err *err)
{
	if (l->contiguous && data == b->data) return rt_buffer_ref(b);
	rt_buffer *copy = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	if (copy && rt_tensor_copy(c->rt.pool, l, b, data, copy, err) == TJ_OK) return copy;
	rt_fail(err, TJ_ERR_NOMEM, "commit", "no memory for a new value of a cell");
	rt_buffer_unref(copy, c->rt.cache);
	return NULL;
}

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

static bool anyone_else(const jit_write *w, uint32_t n)
{
	bool other = false;
	for (uint32_t i = 0; i < n; i++) {
		lock(w[i].cell);
		other |= w[i].cell->version != w[i].was;
		unlock(w[i].cell);
	}
	return other;
}

static void swap_in(jit_write *w) { w->buf = swap(w->cell, w->buf); }

/* Commits while other contexts may read and commit: each cell has a lock, and commits run one after the other. */
static tj_status write_shared(tj_ctx *c, jit_write *w, uint32_t n, rt_err *err)
{
	rt_lock(&c->engine->rt.commit_lock);
	bool other = anyone_else(w, n);
	if (!other) begin_commit(c);
	for (uint32_t i = 0; i < n && !other; i++) {
		lock(w[i].cell);
		swap_in(&w[i]);
		unlock(w[i].cell);
	}
	if (!other) end_commit(c);
	rt_unlock(&c->engine->rt.commit_lock);
	if (!other) return TJ_OK;
	rt_fail(err, TJ_ERR_STATE, "commit", "another context has written a cell that this call assigns");
	rt_hint(err, "let one thread at a time run functions that assign the same cells");
	return TJ_ERR_STATE;
}

tj_status jit_write_cells(tj_ctx *c, jit_write *w, uint32_t n, bool alone, rt_err *err)
{
	tj_status s = TJ_OK;
	if (!alone) s = write_shared(c, w, n, err);
	else
		for (uint32_t i = 0; i < n; i++) swap_in(&w[i]);
	for (uint32_t i = 0; i < n; i++) rt_buffer_unref(w[i].buf, c->rt.cache);
	return s;
}

tj_status jit_commit(jit_act *a, rt_err *err)
{
	uint32_t n = a->assigned.n, i = 0;
	if (!n) return TJ_OK;
	if (rt_pool_settle_all(a->ctx->rt.pool, err) != TJ_OK) return err->code;
	jit_write *w = rt_arena_alloc(&a->mem, n * sizeof *w);
	for (; w && i < n; i++) {
		w[i] = (jit_write){ a->assigned.v[i].cell, new_content(a, &a->assigned.v[i], err), a->assigned.v[i].was };
		if (!w[i].buf) break;
	}
	if (w && i == n) return jit_write_cells(a->ctx, w, n, a->alone, err);
	for (uint32_t k = 0; k < i; k++) rt_buffer_unref(w[k].buf, a->ctx->rt.cache);
	return rt_fail(err, TJ_ERR_NOMEM, "commit", "no memory for a new value of a cell");
}
