/* SPDX-License-Identifier: MIT */
/* The content of cells: taken as of one commit, bound to a segment, written. */
#include "jit/claim.h"
#include "runtime/bytes.h"

static void lock(rt_held *h) { rt_spin(&h->lock); }
static void unlock(rt_held *h) { rt_unspin(&h->lock); }

/* ---- reading: several cells as of one commit ----
 *
 * Every commit increments one counter when it begins and another when it has ended. A reader loads the second counter, takes
 * its cells, then loads the first. If both are equal, no commit ran meanwhile; else the reader takes the cells again. */
static unsigned long long commits_ended(const tj_ctx *c)
{
	return atomic_load_explicit(&c->engine->rt.commits_ended, memory_order_acquire);
}
static bool committed_since(const tj_ctx *c, unsigned long long ended)
{
	return atomic_load_explicit(&c->engine->rt.commits_begun, memory_order_acquire) != ended;
}
static void begin_commit(tj_ctx *c) { atomic_fetch_add(&c->engine->rt.commits_begun, 1); }
static void end_commit(tj_ctx *c) { atomic_fetch_add(&c->engine->rt.commits_ended, 1); }

/* An id of the content; each content has its own. */
static uint64_t name_content(rt_held *h)
{
	if (!h->content || h->content_version != h->version) {
		h->content = atomic_fetch_add(&h->t.engine->serial, 1);
		h->content_version = h->version;
	}
	return h->content;
}

static void take(jit_taken *t)
{
	rt_held *h = t->cell;
	t->buf = rt_buffer_ref(h->t.buf);
	t->data = h->t.data;
	t->version = h->version;
	t->content = t->frozen ? name_content(h) : 0;
}

void jit_take_cell(jit_taken *t)
{
	lock(t->cell);
	take(t);
	unlock(t->cell);
}

uint64_t jit_cell_version(rt_held *cell)
{
	lock(cell);
	uint64_t now = cell->version;
	unlock(cell);
	return now;
}

static void take_all(jit_taken *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].cell) jit_take_cell(&t[i]);
}

static void give_back(tj_ctx *c, jit_taken *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (t[i].cell) rt_buffer_unref(t[i].buf, c->rt.allocator);
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

/* ---- what a call with frozen cells takes when it begins ---- */
static bool is_frozen(const tj_fn *f, const tj_tensor *t)
{
	for (uint32_t j = f->nstate - f->nfreeze; j < f->nstate; j++)
		if (*f->state[j] == t) return true;
	return false;
}

/* What is to be taken of an argument or of a variable; the handle is not checked yet. */
static jit_taken to_take(const tj_ctx *c, const tj_fn *f, tj_tensor *t, bool frozen)
{
	if (rt_is_number(t) || (uintptr_t)t <= (uintptr_t)TJ_END || !(t->flags & RT_HEAP) || t->engine != &c->engine->rt) return (jit_taken){ 0 };
	if (t->kind != RT_CELL && t->kind != RT_VALUE) return (jit_taken){ 0 };
	frozen = frozen || is_frozen(f, t);
	return (jit_taken){ .cell = frozen || (t->kind == RT_CELL && !c->taken_alone) ? rt_held_of(t) : NULL, .frozen = frozen };
}

bool jit_take_frozen(tj_ctx *c, const tj_fn *f, tj_list in)
{
	uint32_t nin = (uint32_t)f->opts.nin, n = nin + f->nstate, i = 0;
	if (!rt_reserve(&c->taken, n)) return false;
	c->taken_alone = jit_alone_begin(c);
	for (; in && i < nin && in[i] != TJ_END; i++) c->taken.v[i] = to_take(c, f, in[i], false);
	for (; i < nin; i++) c->taken.v[i] = (jit_taken){ 0 }; /* the list is too short: the call will be refused */
	for (; i < n; i++) c->taken.v[i] = to_take(c, f, *f->state[i - nin], i >= n - f->nfreeze);
	c->taken.n = n;
	if (!c->taken_alone) return jit_take_cells(c, c->taken.v, n), true;
	c->taken_at = commits_ended(c);
	for (i = 0; i < n; i++)
		if (c->taken.v[i].cell) take(&c->taken.v[i]);
	jit_alone_end(c);
	return true;
}

bool jit_taken_stay(tj_ctx *c) { return !committed_since(c, c->taken_at); }

void jit_give_back(tj_ctx *c)
{
	give_back(c, c->taken.v, c->taken.n);
	c->taken.n = 0;
}

static const jit_taken *find_taken(const tj_ctx *c, const tj_tensor *t)
{
	for (uint32_t i = 0; i < c->taken.n; i++)
		if (c->taken.v[i].cell && &c->taken.v[i].cell->t == t) return &c->taken.v[i];
	return NULL;
}

uint64_t jit_content_id(const tj_ctx *c, const tj_tensor *t)
{
	if (t->flags & RT_CONSTANT) return t->seg;
	const jit_taken *k = t->flags & RT_HEAP ? find_taken(c, t) : NULL;
	return k ? k->content : 0;
}

static bool bound_cell(const jit_bound *b, uint32_t n, jit_taken *t)
{
	for (uint32_t i = 0; i < n; i++)
		if (b[i].h == &t->cell->t && b[i].owned) {
			*t = (jit_taken){ .cell = t->cell, .buf = rt_buffer_ref(b[i].buf), .data = (void *)(uintptr_t)b[i].data, .version = b[i].seg };
			return true;
		}
	return false;
}

const jit_taken *jit_kept(const jit_act *a, const tj_tensor *cell)
{
	const jit_taken *k = find_taken(a->ctx, cell);
	for (uint32_t i = 0; !k && i < a->read.n; i++)
		if (&a->read.v[i].cell->t == cell) k = &a->read.v[i];
	return k;
}

bool jit_met_cell(jit_act *a, jit_taken *t)
{
	const jit_taken *k = jit_kept(a, &t->cell->t);
	if (k) {
		t->buf = rt_buffer_ref(k->buf);
		t->data = k->data;
		t->version = k->version;
		return true;
	}
	for (uint32_t i = 0; i < a->done.n; i++)
		if (bound_cell(a->done.v[i].ext, a->done.v[i].next, t)) return true;
	if (!bound_cell(a->ext.v, a->ext.n, t)) jit_take_cell(t);
	return false;
}

/* Binds an external that is a cell. jit_one_commit() checks at the boundary that all cells are of one commit. */
void jit_bind_cell(jit_act *a, jit_bound *b)
{
	tj_ctx *c = a->ctx;
	rt_held *h = rt_held_of(b->h);
	if (!a->ntaken) a->since = commits_ended(c);
	if (RT_LIKELY(!a->done.n && !a->read.n && !c->taken.n) && jit_alone_begin(c)) { /* no other context commits, and the call has not met it */
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
	if (!kept) rt_buffer_unref(t->buf, a->ctx->rt.allocator);
	return kept;
}

/* If the cell is assigned, its new value is now computed from this version. */
static void assigned_from(jit_act *a, const jit_taken *t)
{
	const int64_t at = jit_find_assigned(a, t->cell);
	if (at >= 0) a->assigned.v[at].was = t->version;
}

/* The segment has computed nothing yet, so its cells may still be bound anew. */
bool jit_one_commit(jit_act *a)
{
	if (RT_LIKELY(a->ntaken < 2 || !committed_since(a->ctx, a->since))) return true;
	jit_taken *t = rt_arena_alloc(&a->mem, a->ext.n * sizeof *t);
	for (uint32_t i = 0; t && i < a->ext.n; i++)
		if (a->ext.v[i].taken && !jit_kept(a, a->ext.v[i].h)) t[i].cell = rt_held_of(a->ext.v[i].h);
	if (t) jit_take_cells(a->ctx, t, a->ext.n);
	for (uint32_t i = 0; t && i < a->ext.n; i++) {
		jit_bound *b = &a->ext.v[i];
		if (!t[i].cell) continue;
		rt_buffer_unref(b->buf, a->ctx->rt.allocator);
		b->buf = t[i].buf;
		b->data = t[i].data;
		b->seg = t[i].version;
		assigned_from(a, &t[i]);
	}
	return t != NULL;
}

tj_tensor *jit_version(jit_act *a, tj_tensor *cell)
{
	const int64_t at = a->assigned.n ? jit_find_assigned(a, rt_held_of(cell)) : -1;
	return at < 0 ? cell : a->assigned.v[at].version;
}

/* ---- writing ---- */

static rt_buffer *swap(rt_held *cell, rt_buffer *b)
{
	rt_buffer *old = cell->t.buf;
	cell->t.buf = b;
	cell->t.data = b->data;
	cell->version++;
	return old;
}

/* Commits one cell. rt_lock() delays a fork(), whose child would else have half a commit. */
rt_buffer *jit_replace(tj_ctx *c, rt_held *cell, rt_buffer *b)
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

bool jit_is_content(const tj_ctx *c, const rt_layout *l, rt_buffer *b, const void *data)
{
	if (RT_UNLIKELY(l->device != TJ_CPU) && rt_buffer_lost(b, c->rt.pool)) return false;
	const bool written_soon = c->into && b->borrowed; /* an output may go there */
	return l->contiguous && data == b->data && !written_soon;
}

rt_buffer *jit_content(tj_ctx *c, const rt_layout *l, rt_buffer *b, void *data, rt_err *err)
{
	if (RT_UNLIKELY(l->device != TJ_CPU) && rt_buffer_sound(b, c->rt.pool, "commit", err) != TJ_OK) return NULL;
	if (jit_is_content(c, l, b, data)) return rt_buffer_ref(b);
	rt_buffer *copy = rt_buffer_on(&c->rt, l->device, (size_t)l->bytes);
	if (copy && rt_tensor_copy(c->rt.pool, l, b, data, copy, err) == TJ_OK) return copy;
	rt_fail(err, TJ_ERR_NOMEM, "commit", "no memory for a new value of a cell");
	rt_buffer_unref(copy, c->rt.allocator);
	return NULL;
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
	if (!alone) return write_shared(c, w, n, err);
	for (uint32_t i = 0; i < n; i++) swap_in(&w[i]);
	return TJ_OK;
}

bool jit_overwrite(tj_ctx *c, rt_held *h, const void *data, size_t bytes, rt_err *err)
{
	bool alone = atomic_load_explicit(&c->engine->rt.contexts, memory_order_acquire) == 1; /* else other contexts would wait for the copy */
	lock(h); /* also during the copy: another thread may clone the context and read the cell */
	bool in_place = alone && rt_buffer_only(h->t.buf, 1);
	if (in_place) {
		begin_commit(c);
		rt_buffer_write(c->rt.pool, h->t.buf, data, bytes, err);
		h->version++;
		end_commit(c);
	}
	unlock(h);
	return in_place;
}
