/* SPDX-License-Identifier: MIT */
/* Handles, scopes, engine-owned tensors, the sticky error. */
#include "runtime/tensor.h"
#include "runtime/alloc.h"

/* ---- handles ---- */
static rt_handles *take_chunk(rt_ctx *r, tj_ctx *self)
{
	rt_handles *k = r->free_chunks;
	if (k) {
		r->free_chunks = k->next;
		return k;
	}
	if (!(k = rt_alloc_aligned(64, sizeof *k))) return NULL;
	memset(k, 0, sizeof *k);
	for (int i = 0; i < RT_CHUNK; i++) {
		k->h[i].ctx = self;
		k->h[i].engine = r->engine;
	}
	return k;
}

tj_tensor *rt_more_handles(rt_ctx *r, tj_scope *s)
{
	rt_handles *k = take_chunk(r, s->ctx);
	if (!k) return NULL;
	k->next = s->chunk;
	s->chunk = k;
	s->used = 1;
	return &k->h[0];
}

tj_tensor *rt_handle(rt_ctx *r, tj_scope *s)
{
	tj_tensor *t = rt_raw_handle(r, s);
	if (t) *t = (tj_tensor){ .ctx = s->ctx, .engine = r->engine };
	return t;
}

/* Drops layout and buffers; the handle is then dead. */
static void drop_handle(rt_ctx *r, tj_tensor *t)
{
	if (t->kind != RT_PENDING && !(t->flags & RT_BORROWED)) {
		rt_layout_unref(t->layout);
		if (t->buf) rt_buffer_unref(t->buf, r->allocator);
	}
	if (t->row_major) rt_buffer_unref(t->row_major, r->allocator);
	t->kind = RT_DEAD;
	t->buf = NULL;
	t->row_major = NULL;
	t->layout = NULL;
}

/* ---- scopes ---- */
tj_scope *rt_scope_push(rt_ctx *r, tj_ctx *self, uint64_t act)
{
	tj_scope *s = r->free_scopes;
	if (s) r->free_scopes = s->parent;
	else if (!(s = rt_alloc(sizeof *s))) return NULL;
	*s = (tj_scope){ .ctx = self, .parent = r->scope, .open = true, .act = act };
	r->scope = s;
	return s;
}

static void drop_all(rt_ctx *r, tj_scope *s, void (*keep)(void *, rt_buffer *), void *self)
{
	uint32_t n = s->used;
	for (rt_handles *k = s->chunk, *next; k; k = next, n = RT_CHUNK) {
		for (uint32_t i = 0; i < n; i++) {
			tj_tensor *t = &k->h[i];
			if (RT_LIKELY(t->kind == RT_PENDING && !t->row_major)) { /* owns nothing */
				t->kind = RT_DEAD;
				t->layout = NULL;
				continue;
			}
			if (keep && t->buf && !(t->flags & RT_BORROWED)) {
				keep(self, t->buf);
				t->buf = NULL;
			}
			drop_handle(r, t);
		}
		next = k->next;
		/* Under TJ_CHECK a dead handle stays dead: its chunk is not used again before the context closes. */
		rt_handles **list = r->engine->check ? &r->dead_chunks : keep ? &r->later_chunks : &r->free_chunks;
		k->next = *list;
		*list = k;
	}
}

void rt_recycle(rt_ctx *r)
{
	for (rt_handles *k = r->later_chunks, *next; k; k = next) {
		next = k->next;
		k->next = r->free_chunks;
		r->free_chunks = k;
	}
	r->later_chunks = NULL;
}

void rt_scope_pop(rt_ctx *r, void (*keep)(void *self, rt_buffer *b), void *self)
{
	tj_scope *s = r->scope;
	drop_all(r, s, keep, self);
	r->scope = s->parent;
	s->open = false;
	s->parent = r->free_scopes;
	r->free_scopes = s;
}

/* ---- contexts ---- */
bool rt_ctx_init(rt_ctx *r, tj_ctx *self, rt_engine *e)
{
	*r = (rt_ctx){ .engine = e, .allocator = rt_allocator_new(RT_CPU), .pool = rt_pool_new() };
	r->run = (rt_run){ .team = e->team, .log = &e->log, .pool = r->pool };
	r->poison = (tj_tensor){ .kind = RT_POISON, .ctx = self, .engine = e, .dtype = TJ_F32 };
	return r->allocator && r->pool && (r->root = rt_scope_push(r, self, 0));
}

static void free_chunks(rt_handles *k)
{
	for (rt_handles *next; k; k = next) {
		next = k->next;
		rt_free(k);
	}
}

void rt_ctx_free(rt_ctx *r)
{
	while (r->scope) rt_scope_pop(r, NULL, NULL);
	for (tj_scope *s = r->free_scopes, *next; s; s = next) {
		next = s->parent;
		rt_free(s);
	}
	free_chunks(r->free_chunks);
	free_chunks(r->dead_chunks);
	free_chunks(r->later_chunks);
	rt_pool_free(r->pool); /* waits for the work of its queues */
	rt_allocator_close(r->allocator);
	for (int i = 0; i < RT_DEVICES; i++) rt_allocator_close(r->allocator_on[i]);
}

rt_buffer *rt_buffer_elsewhere(rt_ctx *r, int device, size_t bytes)
{
	rt_allocator **c = &r->allocator_on[device];
	if (!*c && !(*c = rt_allocator_new(device))) return NULL;
	rt_buffer *b = rt_buffer_new(*c, bytes);
	if (RT_LIKELY(b)) return b;
	rt_ctx_relax(r, device);
	return rt_buffer_new(*c, bytes);
}

void rt_ctx_relax(rt_ctx *r, int device)
{
	rt_allocator *a = device == RT_CPU ? r->allocator : r->allocator_on[device];
	rt_pool_relax(r->pool);
	if (a) rt_allocator_empty(a);
}

/* ---- engine-owned tensors ---- */
static rt_held *take_held(rt_engine *e)
{
	rt_lock(&e->lock);
	rt_held *h = e->check ? NULL : e->free_held;
	if (h) e->free_held = h->next;
	rt_unlock(&e->lock);
	return h ? h : rt_alloc_aligned(64, sizeof *h);
}

rt_held *rt_held_new(rt_engine *e)
{
	rt_held *h = take_held(e);
	if (!h) return NULL;
	memset(h, 0, sizeof *h);
	h->t.flags = RT_HEAP;
	h->t.engine = e;
	atomic_init(&h->refs, 1);
	atomic_flag_clear(&h->lock);
	rt_lock(&e->lock);
	h->next = e->held;
	if (h->next) h->next->prev = h;
	e->held = h;
	rt_unlock(&e->lock);
	return h;
}

static void put_free(rt_engine *e, rt_held *h)
{
	h->next = e->free_held;
	e->free_held = h;
}

void rt_held_unref(rt_held *h, rt_allocator *here)
{
	if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
	rt_engine *e = h->t.engine;
	if (h->t.kind != RT_PENDING) rt_layout_unref(h->t.layout);
	if (h->t.buf) rt_buffer_unref(h->t.buf, here);
	h->t.layout = NULL;
	h->t.buf = NULL;
	rt_lock(&e->lock);
	h->t.kind = RT_DEAD;
	if (h->prev) h->prev->next = h->next;
	else e->held = h->next;
	if (h->next) h->next->prev = h->prev;
	h->prev = NULL;
	if (!h->kept) put_free(e, h);
	rt_unlock(&e->lock);
}

void rt_held_keep(rt_held *h)
{
	rt_lock(&h->t.engine->lock);
	h->kept++;
	rt_unlock(&h->t.engine->lock);
}

void rt_held_unkeep(rt_held *h)
{
	rt_lock(&h->t.engine->lock);
	if (!--h->kept && h->t.kind == RT_DEAD) put_free(h->t.engine, h);
	rt_unlock(&h->t.engine->lock);
}

bool rt_held_find(rt_held *h)
{
	int refs = atomic_load(&h->refs);
	while (refs && !atomic_compare_exchange_weak(&h->refs, &refs, refs + 1)) continue;
	return refs != 0;
}

void rt_held_free_all(rt_engine *e)
{
	while (e->held) {
		atomic_store(&e->held->refs, 1);
		rt_held_unref(e->held, NULL);
	}
	for (rt_held *h = e->free_held, *next; h; h = next) {
		next = h->next;
		rt_free(h);
	}
}

/* ---- errors ---- */
void rt_ctx_error(rt_ctx *r, const rt_err *e, const char *site)
{
	if (r->err.code != TJ_OK) return;
	r->err = *e;
	snprintf(r->site, sizeof r->site, "%s", e->site ? e->site : site ? site : "");
}

void rt_ctx_refused(rt_ctx *r, const rt_err *e, const char *site)
{
	rt_spin(&r->refused_lock);
	if (!atomic_exchange(&r->refused, true)) {
		r->refused_err = *e;
		snprintf(r->refused_site, sizeof r->refused_site, "%s", site ? site : "");
	}
	rt_unspin(&r->refused_lock);
}

tj_status rt_ctx_take_refused(rt_ctx *r)
{
	rt_spin(&r->refused_lock);
	r->last = r->refused_err;
	memcpy(r->last_site, r->refused_site, sizeof r->last_site);
	atomic_store(&r->refused, false);
	rt_unspin(&r->refused_lock);
	return r->last.code;
}
