/* SPDX-License-Identifier: MIT */
#include "jit/undo.h"
#include "jit/claim.h"

enum { AHEAD = 2 }; /* the most commits in doubt: they keep memory, and one is enough for the host to be a call ahead of the GPU */
static const uint64_t OPEN = UINT64_MAX; /* serial of a cell that was written in place by a call that has not committed yet */

/* Forgets the first n: they stand. */
static void forget(tj_ctx *c, uint32_t n)
{
	jit_undos *u = &c->undo;
	for (uint32_t i = 0; i < n; i++) {
		if (u->v.v[i].old) rt_buffer_unref(u->v.v[i].old, c->rt.allocator);
		rt_held_unkeep(u->v.v[i].cell);
	}
	u->v.n -= n;
	if (u->v.n) memmove(u->v.v, u->v.v + n, u->v.n * sizeof *u->v.v);
	else u->commits = 0;
	atomic_store(&u->some, u->v.n != 0);
}

/* At a later wait than the one that undid them: the call that made that one has failed, and uses them no more. */
static void free_gone(tj_ctx *c)
{
	for (uint32_t i = 0; i < c->undo.gone.n; i++) rt_buffer_unref(c->undo.gone.v[i], c->rt.allocator);
	c->undo.gone.n = 0;
}

/* ---- undoing ---- */

/* The content was to be written in place behind the fault, so it is the old one. Another tensor over the buffer stands for the new one: it
 * stays lost, and the cell takes the memory. */
static void find_again(tj_ctx *c, rt_held *cell)
{
	rt_buffer *b = cell->t.buf, *own;
	if (!rt_buffer_lost(b, c->rt.pool)) return;
	if (rt_buffer_only(b, 1)) rt_buffer_found(b);
	else if ((own = rt_buffer_move(b))) rt_buffer_unref(jit_replace(c, cell, own), c->rt.allocator);
}

static void settled(void *env, int device, uint64_t failed)
{
	tj_ctx *c = env;
	jit_undos *u = &c->undo;
	free_gone(c);
	if (!u->v.n || device != u->device) return;
	for (uint32_t i = u->v.n; failed && i-- > 0;) {
		jit_undo *e = &u->v.v[i];
		if (!e->old || e->serial < failed || !rt_held_find(e->cell)) continue;
		u->gone.v[u->gone.n++] = jit_replace(c, e->cell, e->old);
		e->old = NULL;
		rt_held_unref(e->cell, c->rt.allocator);
	}
	for (uint32_t i = 0; failed && i < u->v.n; i++) {
		if (!rt_held_find(u->v.v[i].cell)) continue;
		find_again(c, u->v.v[i].cell);
		rt_held_unref(u->v.v[i].cell, c->rt.allocator);
	}
	forget(c, u->v.n);
}

/* ---- keeping ---- */
static bool all_on(const jit_write *w, uint32_t n, int device)
{
	for (uint32_t i = 0; i < n; i++)
		if (w[i].cell->t.layout->device != device) return false;
	return true;
}

/* Room for n more, and for as many contents that are undone. */
static bool reserve(jit_undos *u, uint32_t n) { return rt_reserve(&u->v, n) && rt_reserve(&u->gone, u->v.n + n); }

/* Waits until the oldest commit stands. */
static bool oldest_stands(tj_ctx *c)
{
	jit_undos *u = &c->undo;
	const uint64_t serial = u->v.v[0].serial;
	uint32_t n = 0;
	if (!rt_pool_passed(c->rt.pool, u->device, (rt_mark){ u->last.queue, serial })) return false;
	while (n < u->v.n && u->v.v[n].serial == serial) n++;
	u->commits--;
	forget(c, n);
	return true;
}

tj_status jit_undo_begin(tj_ctx *c, const jit_write *w, uint32_t n, bool alone, rt_err *err)
{
	jit_undos *u = &c->undo;
	const int device = rt_pool_in_doubt(c->rt.pool);
	u->keeps = false;
	if (RT_UNLIKELY(u->gone.n)) free_gone(c);
	if (RT_LIKELY(device == RT_CPU)) {
		if (RT_UNLIKELY(u->v.n)) forget(c, u->v.n);
		return TJ_OK;
	}
	if (!alone || !all_on(w, n, device) || !reserve(u, n)) return rt_pool_settle_all(c->rt.pool, err);
	while (u->commits >= AHEAD)
		if (!oldest_stands(c)) return rt_pool_settle_all(c->rt.pool, err);
	u->device = device;
	u->keeps = true;
	return TJ_OK;
}

static void keep(tj_ctx *c, const jit_write *w, uint32_t n)
{
	jit_undos *u = &c->undo;
	const rt_mark now = rt_pool_flag(c->rt.pool, u->device);
	for (uint32_t i = u->v.n; i-- > 0 && u->v.v[i].serial == OPEN;) u->v.v[i].serial = now.serial;
	for (uint32_t i = 0; i < n; i++) {
		const bool in_place = w[i].buf == w[i].cell->t.buf;
		if (in_place) rt_buffer_unref(w[i].buf, c->rt.allocator);
		else rt_held_keep(w[i].cell), u->v.v[u->v.n++] = (jit_undo){ w[i].cell, w[i].buf, now.serial };
	}
	u->commits += u->v.n && u->v.v[u->v.n - 1].serial == now.serial; /* else no cell has changed */
	u->last = now;
	u->keeps = false;
	atomic_store(&u->some, u->v.n != 0);
}

void jit_undo_end(tj_ctx *c, const jit_write *w, uint32_t n)
{
	if (RT_UNLIKELY(c->undo.keeps)) keep(c, w, n);
	else
		for (uint32_t i = 0; i < n; i++) rt_buffer_unref(w[i].buf, c->rt.allocator);
}

bool jit_undo_in_place(tj_ctx *c, rt_held *cell, int device)
{
	jit_undos *u = &c->undo;
	if (!reserve(u, 1)) return false;
	u->device = device;
	rt_held_keep(cell);
	u->v.v[u->v.n++] = (jit_undo){ cell, NULL, OPEN };
	atomic_store(&u->some, true);
	return true;
}

/* ---- contexts ---- */
void jit_undo_open(tj_ctx *c) { rt_pool_when_settled(c->rt.pool, settled, c); }

void jit_undo_close(tj_ctx *c)
{
	rt_err ignored = { 0 };
	if (c->undo.v.n) rt_pool_settle_all(c->rt.pool, &ignored);
	forget(c, c->undo.v.n);
	free_gone(c);
	rt_vec_free(&c->undo.v);
	rt_vec_free(&c->undo.gone);
}

/* The clone exists, and no call relies on c being alone, so no further commit is kept. Another thread may be in a call of c, so the list is
 * not touched there. */
bool jit_undo_before_clone(tj_ctx *c)
{
	rt_err err = { 0 };
	if (!atomic_load(&c->undo.some)) return true;
	if (atomic_load(&c->owner) == jit_me) {
		JIT_COME_IN(in, c, "tj_ctx_clone");
		if (in && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) jit_report(c, "tj_ctx_clone", &err);
		return in != NULL;
	}
	if (rt_pool_passed(c->rt.pool, c->undo.device, c->undo.last)) return true;
	rt_fail(&err, TJ_ERR_STATE, "ctx_clone", "a GPU has found a fault in the context's work, and its thread has not noticed yet");
	rt_hint(&err, "call tj_sync() in the thread that uses the context, then clone it");
	rt_ctx_refused(&c->rt, &err, "tj_ctx_clone");
	return false;
}
