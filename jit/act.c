/* SPDX-License-Identifier: MIT */
/* The activation: one running top-level call in one context. Its segments, its end, and what is refused in a callback of control flow. */
#include "jit/call.h"

void jit_start_segment(jit_act *a)
{
	a->cursor = &a->entry->root;
	a->fresh = NULL;
	a->effect = NULL;
	a->seg = ++a->ctx->rt.serial;
	a->seq = 0;
	jit_cut_cells(&a->cell_at, 0);
	a->ext.n = a->num.n = a->cell.n = a->unhinted = a->closed.n = a->ntaken = a->stray.n = a->before.n = 0;
	a->indexed = false;
	rt_recycle(&a->ctx->rt);
}

static void end_segments(jit_act *a)
{
	jit_unbind_ext(a, 0);
	for (uint32_t i = 0; i < a->done.n; i++) jit_drop_done(a, &a->done.v[i]);
	a->done.n = 0;
	a->pruned = false;
	if (a->fresh) jit_free_trie(a->fresh); /* the recording did not reach its boundary */
	a->fresh = NULL;
}

void jit_act_end(tj_ctx *c)
{
	jit_act *a = &c->act;
	rt_allocator *allocator = c->rt.allocator;
	end_segments(a);
	while (c->rt.scope && c->rt.scope->act == a->serial) rt_scope_pop(&c->rt, NULL, NULL);
	rt_recycle(&c->rt);
	for (uint32_t i = 0; i < a->hold.n; i++) rt_buffer_unref(a->hold.v[i], allocator);
	for (uint32_t i = 0; i < a->retained.n; i++) /* retained values that were never computed */
		if (a->retained.v[i]->t.kind == RT_PENDING) {
			a->retained.v[i]->t.kind = RT_POISON;
			a->retained.v[i]->t.layout = NULL;
		}
	for (uint32_t i = 0; i < a->read.n; i++) rt_buffer_unref(a->read.v[i].buf, allocator);
	for (uint32_t i = 0; i < a->released.n; i++) rt_held_unref(a->released.v[i], allocator);
	if (c->taken.n) jit_give_back(c);
	jit_cut_cells(&a->assigned_at, 0);
	a->read.n = a->hold.n = a->retained.n = a->released.n = a->sized.n = a->named.n = a->alias.n = a->assigned.n = a->callers.n = 0;
	rt_arena_reset(&a->mem);
	c->active = false;
	a->near = JIT_NOT_NEAR;
	a->left = 0;
	if (a->alone) jit_alone_end(c);
	a->alone = false;
	if (a->entry && (a->failed || a->recorded) && !atomic_load_explicit(&a->entry->dead, memory_order_relaxed)) jit_drop_empty(a->entry);
	a->entry = NULL;
	a->learn = NULL;
	if (a->memo) atomic_store_explicit(&a->memo->busy, false, memory_order_release);
	a->memo = NULL;
}

/* A body was left without returning. If it was the body of the call, the call is over; else the call goes on, but fails. */
jit_act *jit_drop_left(tj_ctx *c)
{
	jit_act *a = &c->act;
	uint32_t level = atomic_load(&a->left);
	jit_error(c, atomic_load(&c->last_call), TJ_ERR_BODY, "call", "leave a body by returning from it",
	          "a body of %s was left without returning (longjmp, an exception, the end of its thread?)", a->left_name);
	atomic_store(&a->left, 0);
	a->bodies = level - 1;
	a->failed = a->broken = true;
	if (level > 1) return a;
	JIT_COUNT(a->fn, failures);
	jit_act_end(c);
	return NULL;
}

void jit_hold(void *act, rt_buffer *b)
{
	jit_act *a = act;
	if (!rt_push(&a->hold, b)) a->failed = true;
}

/* ---- callbacks of control flow ---- */
bool jit_in_callback(tj_ctx *c, const char *site, const char *op, const char *hint)
{
	const jit_callback *k = &c->act.callback.v[c->act.callback.n - 1];
	jit_error(c, site, TJ_ERR_STATE, op, hint, "%s in a callback of %s at %s: a callback is traced once, before its values exist", op,
	          k->op, k->site ? k->site : "?");
	return true;
}

bool jit_closed(const jit_act *a, uint32_t seq)
{
	for (uint32_t i = 0; i < a->closed.n; i++)
		if (seq >= a->closed.v[i].first && seq < a->closed.v[i].end) return true;
	return false;
}

bool jit_scope_has(const tj_scope *s, const tj_tensor *h)
{
	uint32_t n = s->used;
	for (const rt_handles *k = s->chunk; k; k = k->next, n = RT_CHUNK)
		if (h >= k->h && h < k->h + n) return true;
	return false;
}

bool jit_in_scope(const jit_act *a, const tj_tensor *h, bool any)
{
	for (const tj_scope *s = a->ctx->rt.scope; s && (any || s->act == a->serial); s = s->parent)
		if (jit_scope_has(s, h)) return true;
	return false;
}

/* Entries whose second handle dies are dropped. Where the first one dies, the second one takes its place. */
static void settle_aliases(jit_act *a, const tj_scope *dying)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < a->alias.n; i++)
		if (!jit_scope_has(dying, a->alias.v[i].h)) a->alias.v[n++] = a->alias.v[i];
	a->alias.n = n;
	for (uint32_t i = 0; i < a->alias.n;) {
		const jit_alias x = a->alias.v[i];
		if (!jit_scope_has(dying, x.of)) {
			i++;
			continue;
		}
		jit_rename_ext(a, x.of, x.h);
		a->alias.v[i] = a->alias.v[--a->alias.n];
		for (uint32_t k = i; k < a->alias.n; k++)
			if (a->alias.v[k].of == x.of) a->alias.v[k].of = x.h;
	}
}

void jit_pop_scope(tj_ctx *c)
{
	jit_act *a = c->active ? &c->act : NULL;
	if (a && a->alias.n) settle_aliases(a, c->rt.scope);
	rt_scope_pop(&c->rt, a ? jit_hold : NULL, a);
}

tj_dtype tj_autocast_dtype(void)
{
	const jit_act *a = jit_thread_ctx ? jit_active(jit_thread_ctx) : NULL;
	const int mode = a ? a->mode & JIT_AUTOCAST : 0;
	return mode == JIT_BF16 ? TJ_BF16 : mode == JIT_F16 ? TJ_F16 : TJ_F32;
}
