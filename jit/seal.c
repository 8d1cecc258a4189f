/* SPDX-License-Identifier: MIT */
/* Sealing: at its boundary a recording is compiled and becomes a part of the trace. */
#include "jit/compile.h"
#include "jit/effect.h"
#include "jit/note.h"
#include "jit/profiling.h"

/* ---- which values a plan must compute for later ---- */
static bool has(const uint32_t *v, uint32_t n, uint32_t x)
{
	for (uint32_t i = 0; i < n; i++)
		if (v[i] == x) return true;
	return false;
}

typedef struct keeping {
	jit_segment *s;
	uint8_t *kept;           /* by event: it is in s->keep */
} keeping;

static bool want_ref(keeping *k, jit_ref r)
{
	const uint32_t i = JIT_IDX(r);
	if (JIT_KIND(r) != JIT_EV || (i & JIT_INNER ? has(k->s->keep.v, k->s->keep.n, i) : k->kept[i])) return true;
	if (!(i & JIT_INNER)) k->kept[i] = 1;
	return rt_push(&k->s->keep, i);
}

/* The operands of the boundary, assigned and retained values, host calls; at a boundary in mid-body also values that no event has read yet,
 * and all of them if there are host calls: such a plan cannot run again for a value that it has not kept. */
static bool want(jit_act *a, jit_node *boundary, keeping *keep)
{
	uint32_t n = boundary->seq + 1;
	uint8_t *used = rt_arena_alloc(&a->mem, n);
	uint8_t *kept = keep->kept = rt_arena_alloc(&a->mem, n);
	uint8_t *again = rt_arena_alloc(&a->mem, boundary->ncell + 1); /* by cell: assigned again later in the segment */
	uint32_t inside = 0; /* depth of callbacks, whose values are not visible outside */
	if (!used || !kept || !again) return false;
	const bool effects = jit_has_effect(boundary);
	for (jit_node *x = boundary; x->parent; x = x->parent) {
		inside += x->op == JIT_YIELD;
		inside -= x->op == JIT_CALLBACK;
		for (int k = 0; k < x->nsrc; k++)
			if (JIT_KIND(x->src[k]) == JIT_EV) used[JIT_IDX(x->src[k])] = 1;
		if (x == boundary || x->op == JIT_RETAIN) {
			for (int k = 0; k < x->nsrc; k++)
				if (!want_ref(keep, x->src[k])) return false;
		} else if (x->op == JIT_ASSIGN) {
			uint32_t cell = JIT_IDX(x->src[1]);
			if (!again[cell] && !want_ref(keep, x->src[0])) return false;
			again[cell] = 1;
		} else if ((jit_is_effect(x) || (boundary->op != JIT_RETURN && (x->op < IR_OPS || x->op == IR_get) && x->layout && !inside &&
		                                 (effects || !used[x->seq]))) &&
		           !want_ref(keep, JIT_REF(JIT_EV, x->seq)))
			return false;
	}
	return true;
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

static bool keep_as(keeping *keep, const jit_node *other)
{
	jit_segment *s = keep->s;
	bool ok = true;
	for (uint32_t k = 0; ok && k < other->segment->keep.n; k++) {
		uint32_t x = other->segment->keep.v[k];
		if (x & JIT_INNER) ok = (x = name_here(s, other->segment, x)) != 0;
		ok = ok && want_ref(keep, JIT_REF(JIT_EV, x));
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
static bool keep_as_elsewhere(jit_act *a, const jit_node *boundary, keeping *keep)
{
	const jit_segment *s = keep->s;
	const jit_node *alike = find_alike(a, boundary);
	bool ok = true, found = false;
	if (alike) return keep_as(keep, alike);
	rt_lock(&a->fn->table_lock);
	for (const jit_entry *e = a->entry->general->newest; ok && !found && e; e = e->older) {
		if (e == a->entry || e->sealed.n <= s->number) continue;
		const jit_node *other = e->sealed.v[s->number];
		if (!(found = same_ops(boundary, other))) continue;
		ok = keep_as(keep, other);
	}
	rt_unlock(&a->fn->table_lock);
	return ok;
}

/* ---- publishing ---- */
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

/* ---- sealing ---- */
/* A pass, a back end or the log may call the function with a clone while this runs: the lock is recursive, and that call may seal segments
 * of the same entry. So the number of the segment is final only after the plan is built. */
static bool compile_segment(jit_act *a, jit_node *n, rt_err *err)
{
	jit_segment *s = n->segment = rt_calloc(sizeof *s);
	if (!s) return rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory"), false;
	s->number = a->entry->sealed.n;
	keeping k = { .s = s };
	jit_plan *p = want(a, n, &k) && keep_as_elsewhere(a, n, &k) ? jit_build(a, n, s->keep.v, s->keep.n, a->ext.v, err) : NULL;
	if (!p) return rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory"), false;
	atomic_store(&s->plan, p);
	return true;
}

static bool enlist(jit_entry *e, jit_node *n, rt_err *err)
{
	if (!rt_reserve(&e->sealed, 1)) return rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory"), false;
	n->segment->number = e->sealed.n;
	e->sealed.v[e->sealed.n] = n;
	__atomic_store_n(&e->sealed.n, e->sealed.n + 1, __ATOMIC_RELAXED); /* jit_drop_empty() reads it without the lock */
	return true;
}

/* The bytes of a path that was recorded, without its plan. */
static size_t trie_bytes(const jit_node *fresh)
{
	size_t bytes = sizeof(jit_segment);
	for (const jit_node *n = fresh; n; n = atomic_load(&n->child)) bytes += jit_node_bytes(n);
	return bytes;
}

/* Makes the recording a part of the trace; the first thread that brings it compiles it. */
jit_node *jit_seal(jit_act *a, jit_node *n)
{
	rt_err err = { 0 };
	jit_node *from = a->fresh->parent;
	const double now = rt_now_ms();
	atomic_store(&a->fn->count.trace_ms, atomic_load(&a->fn->count.trace_ms) + now - a->started);
	rt_recorder *told = jit_recorder(a->ctx);
	if (told) rt_phase_note(told, RT_TRACE, (int64_t)(a->started * 1e6), (int64_t)(now * 1e6), true);
	rt_lock(&a->fn->compile);
	jit_node *twin = find_twin(from, a->fresh);
	bool ok = twin || compile_segment(a, n, &err);
	if (ok && !twin) twin = find_twin(from, a->fresh); /* a call from inside of the compile may have sealed the same path */
	if (twin) jit_free_trie(a->fresh);
	else if ((ok = ok && enlist(a->entry, n, &err))) {
		jit_charge(a->entry, trie_bytes(a->fresh));
		publish(from, a->fresh);
	}
	rt_unlock(&a->fn->compile);
	if (!ok) return jit_report(a->ctx, a->cursor->site, &err), NULL;
	a->fresh = NULL;
	if (twin) return twin;
	jit_plan *p = jit_take_plan(n->segment);
	jit_tell_segment(a->fn, a->entry, n, p);
	jit_plan_unref(p);
	return n;
}
