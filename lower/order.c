/* SPDX-License-Identifier: MIT */
/* order: the steps, each after those that write what it reads.
 *
 * requires every value decided (fuse.c), kernels not yet built
 *
 * Of the steps that may run next, takes the one whose first node comes first in the graph. That is program order where fusion
 * moved nothing, and it keeps live ranges short. A kernel that fusion made from early and late nodes comes where what it stores comes: the
 * update of a parameter, with the product that is its gradient, at the end of a training step. Such kernels read much that is kept for them
 * alone, so they run as soon as they can if that saves an eighth of the memory; else they are left side by side, for bundles. */
#include "lower/library.h"
#include "runtime/host.h"

enum { SAVED = 8 };

/* ---- making them ---- */
static lo_step *add(lo_low *L, lo_kind kind, ir_ref r)
{
	lo_step s = { .kind = (uint8_t)kind, .ref = r, .group = LO_NOGROUP };
	if (!rt_push(&L->step, s)) {
		L->oom = true;
		return NULL;
	}
	return &L->step.v[L->step.n - 1];
}

/* A workspace is written by the step and read by none: the memory is free again after it. */
static void add_workspace(lo_low *L, lo_step *s)
{
	const ir_node *n = lo_node(L, s->ref);
	const lo_routine *x = lo_routine_of(lo_target_of(L, s->ref), (ir_op)n->op);
	const int64_t bytes = s->kind == LO_STEP_LIBRARY && x->workspace ? x->workspace(L, s->ref) : 0;
	if (!bytes) return;
	s->work[n->device] = lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA, .device = n->device, .bytes = bytes });
	if (!L->oom) lo_touch(L, s, s->work[n->device], true);
}

static void add_node_step(lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	lo_step *s = add(L, n->op == IR_to ? LO_STEP_TO : L->val[r].how == LO_LIB ? LO_STEP_LIBRARY : LO_STEP_CALL, r);
	if (!s) return;
	for (int k = 0; k < n->nsrc; k++) {
		lo_access a;
		lo_operand_of(L, r, k, &a);
		lo_touch(L, s, lo_buf_at(L, &a), false);
	}
	lo_touch(L, s, lo_buf_of(L, r), true);
	add_workspace(L, s);
}

static void add_copy_step(lo_low *L, ir_ref r, const lo_dest *d)
{
	lo_access a;
	lo_step *s = add(L, LO_STEP_COPY, r);
	if (!s) return;
	s->dest = d;
	lo_access_of(L, r, &a);
	lo_touch(L, s, lo_buf_at(L, &a), false);
	lo_touch(L, s, d->buf, true);
}

static void add_kernel_step(lo_low *L, uint32_t g)
{
	lo_step *s = add(L, LO_STEP_KERNEL, IR_NONE);
	if (!s) return;
	s->group = g;
	uint32_t step = L->step.n - 1;
	if (lo_build_kernel(L, s)) lo_share(L, L->step.v[step].built->s.target, step);
	else if (L->err->code == TJ_OK) L->oom = true;
}

static bool worth(const lo_low *L, ir_ref r)
{
	return ir_numel(L->g, r) > 0 || ir_ops[lo_node(L, r)->op].flags & IR_FAULT;
}

static void make(lo_low *L)
{
	for (ir_ref r = 0; r < L->g->node.n && !L->oom; r++) {
		const lo_val *v = &L->val[r];
		bool node = (v->how == LO_LIB || v->how == LO_CALL) && (v->own || v->dest) && lo_node(L, r)->op != IR_get;
		if (node && ir_is_flow(lo_node(L, r)->op)) lo_add_flow(L, r);
		else if (node && worth(L, r)) add_node_step(L, r);
		if (lo_target_of(L, r)) continue;
		for (const lo_dest *d = v->dest; d; d = d->next)
			if (ir_numel(L->g, r) > 0) add_copy_step(L, r, d);
	}
	for (uint32_t i = 0; i < L->group.n && !L->oom && L->err->code == TJ_OK; i++)
		if (L->group.v[i]->merged == LO_NOGROUP) add_kernel_step(L, i);
}

/* ---- ordering them ---- */
/* A host call that only starts something runs as soon as it can, so that what follows goes on beside it. */
static bool starts_something(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	rt_host h;
	return n->op == IR_host_call && rt_host_find(ir_attr(L->g, n)[1], &h) && h.early;
}

/* The step's place in the graph: of the first value that it stores, and computes for the first time. early: of the first one that it
 * computes. */
static ir_ref key(const lo_low *L, const lo_step *s, bool early)
{
	if (s->kind == LO_STEP_CALL && starts_something(L, s->ref)) return 0;
	if (s->kind != LO_STEP_KERNEL) return s->ref;
	const lo_group *G = L->group.v[s->group];
	ir_ref least = IR_NONE;
	for (uint32_t i = 0; i < G->save.n; i++)
		if (G->save.v[i].value < least && !lo_is_late(L, &G->save.v[i])) least = G->save.v[i].value;
	return early && G->first < least ? G->first : least;
}

typedef struct heap { uint32_t *v, n; const ir_ref *key; } heap; /* step indices, least key on top */

static bool before(const heap *h, uint32_t a, uint32_t b)
{
	return h->key[a] < h->key[b] || (h->key[a] == h->key[b] && a < b);
}

static void heap_push(heap *h, uint32_t x)
{
	uint32_t i = h->n++;
	for (; i > 0 && before(h, x, h->v[(i - 1) / 2]); i = (i - 1) / 2) h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = x;
}

static uint32_t heap_pop(heap *h)
{
	uint32_t top = h->v[0], x = h->v[--h->n], i = 0;
	for (uint32_t c; (c = 2 * i + 1) < h->n; i = c) {
		if (c + 1 < h->n && before(h, h->v[c + 1], h->v[c])) c++;
		if (!before(h, h->v[c], x)) break;
		h->v[i] = h->v[c];
	}
	h->v[i] = x;
	return top;
}

/* Edges from writer to reader, as lists by writer: next[] chains. */
typedef struct edges { rt_vec(uint32_t) to, next; uint32_t *head, *waits; } edges;

static bool link_steps(lo_low *L, edges *e)
{
	uint32_t nb = L->buf.n, ns = L->step.n;
	uint32_t *first = lo_mem(L, sizeof *first * (nb + 1));            /* by buffer: head of the list of its writers, + 1 */
	rt_vec(uint32_t) who = { 0 }, more = { 0 };                       /* elements of those lists: step; next */
	bool ok = first != NULL;
	for (uint32_t i = 0; ok && i < ns; i++)
		for (uint32_t k = 0; ok && k < L->step.v[i].writes.n; k++) {
			uint32_t b = L->step.v[i].writes.v[k];
			ok = rt_push(&who, i) && rt_push(&more, first[b]);
			if (ok) first[b] = who.n;
		}
	for (uint32_t i = 0; ok && i < ns; i++)
		for (uint32_t k = 0; ok && k < L->step.v[i].reads.n; k++)
			for (uint32_t w = first[L->step.v[i].reads.v[k]]; ok && w; w = more.v[w - 1]) {
				if (who.v[w - 1] == i) continue;
				ok = rt_push(&e->to, i) && rt_push(&e->next, e->head[who.v[w - 1]]);
				if (!ok) break;
				e->head[who.v[w - 1]] = e->to.n;
				e->waits[i]++;
			}
	rt_vec_free(&who);
	rt_vec_free(&more);
	return ok;
}

/* to: the steps in an order in which readers follow writers, and else by keys. Returns how many there are. */
static uint32_t arrange(lo_low *L, const edges *e, const ir_ref *keys, uint32_t *to)
{
	const uint32_t n = L->step.n;
	uint32_t *waits = lo_mem(L, sizeof *waits * (n + 1)), done = 0;
	heap h = { lo_mem(L, sizeof *h.v * (n + 1)), 0, keys };
	if (L->oom) return 0;
	memcpy(waits, e->waits, sizeof *waits * n);
	for (uint32_t i = 0; i < n; i++)
		if (!waits[i]) heap_push(&h, i);
	while (h.n) {
		const uint32_t i = to[done++] = heap_pop(&h);
		for (uint32_t k = e->head[i]; k; k = e->next.v[k - 1])
			if (--waits[e->to.v[k - 1]] == 0) heap_push(&h, e->to.v[k - 1]);
	}
	return done;
}

/* The last readers of a buffer, by keys. */
typedef struct last { ir_ref key, other; uint32_t step; } last; /* other: key of the last one but for `step` */

static bool find_last(lo_low *L, const ir_ref *keys, last **by)
{
	*by = lo_mem(L, sizeof **by * (L->buf.n + 1));
	for (uint32_t i = 0; *by && i < L->step.n; i++)
		for (uint32_t k = 0; k < L->step.v[i].reads.n; k++) {
			last *b = &(*by)[L->step.v[i].reads.v[k]];
			if (keys[i] >= b->key) *b = (last){ keys[i], b->key, i };
			else if (keys[i] > b->other) b->other = keys[i];
		}
	return *by != NULL;
}

/* The output may be written over the external. */
static bool may_overwrite(const lo_low *L, const lo_buffer *to, const lo_buffer *from)
{
	return to->place == RT_AT_OUT && from->place == RT_AT_EXT && to->bytes == from->bytes &&
	       (!L->o->into || L->o->into[to->index] == (int)from->index);
}

/* A step that could write an output over an external waits for the other readers of that one: else it could not. */
static bool hold_back(lo_low *L, ir_ref *keys)
{
	last *by;
	if (!find_last(L, keys, &by)) return false;
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		for (uint32_t w = 0; w < s->writes.n; w++)
			for (uint32_t r = 0; r < s->reads.n; r++) {
				const last *b = &by[s->reads.v[r]];
				const ir_ref after = (b->step == i ? b->other : b->key) + 1;
				if (after > keys[i] && may_overwrite(L, &L->buf.v[s->writes.v[w]], &L->buf.v[s->reads.v[r]])) keys[i] = after;
			}
	}
	return true;
}

/* A step is needed as soon as one of its readers is. line: readers after writers. */
static void hasten(const lo_low *L, const edges *e, const uint32_t *line, ir_ref *keys)
{
	for (uint32_t n = L->step.n; n-- > 0;)
		for (uint32_t k = e->head[line[n]]; k; k = e->next.v[k - 1]) {
			const ir_ref reader = keys[e->to.v[k - 1]];
			if (reader < keys[line[n]]) keys[line[n]] = reader;
		}
}

/* Most bytes of temporaries that would be alive at once. */
static int64_t peak(lo_low *L, const uint32_t *line)
{
	const uint32_t n = L->step.n, nb = L->buf.n;
	int64_t *change = lo_mem(L, sizeof *change * (n + 2)), now = 0, most = 0;
	uint32_t *first = lo_mem(L, sizeof *first * (nb + 1)), *until = lo_mem(L, sizeof *until * (nb + 1)); /* + 1 */
	for (uint32_t i = 0; !L->oom && i < n; i++) {
		const lo_step *s = &L->step.v[line[i]];
		for (uint32_t k = 0; k < s->writes.n; k++) {
			const uint32_t b = s->writes.v[k];
			if (!first[b]) first[b] = i + 1;
			until[b] = i + 1;
		}
		for (uint32_t k = 0; k < s->reads.n; k++) until[s->reads.v[k]] = i + 1;
	}
	for (uint32_t b = 0; !L->oom && b < nb; b++) {
		if (L->buf.v[b].place != RT_AT_ARENA || !first[b]) continue;
		change[first[b]] += L->buf.v[b].bytes;
		change[until[b] + 1] -= L->buf.v[b].bytes;
	}
	for (uint32_t i = 0; !L->oom && i < n; i++) {
		now += change[i + 1];
		if (now > most) most = now;
	}
	return most;
}

/* line: by the places of what steps store; early: as soon as their operands are there, if that saves memory. */
static bool sort(lo_low *L)
{
	const uint32_t n = L->step.n;
	uint32_t *line = lo_mem(L, sizeof *line * (n + 1)), *early = lo_mem(L, sizeof *early * (n + 1));
	edges e = { .head = lo_mem(L, sizeof *e.head * (n + 1)), .waits = lo_mem(L, sizeof *e.waits * (n + 1)) };
	ir_ref *keys = lo_mem(L, sizeof *keys * (n + 1));
	lo_step *sorted = lo_mem(L, sizeof *sorted * (n + 1));
	bool ok = !L->oom && link_steps(L, &e);
	for (uint32_t i = 0; ok && i < n; i++) keys[i] = key(L, &L->step.v[i], false);
	const uint32_t done = ok ? arrange(L, &e, keys, line) : 0;
	for (uint32_t i = 0; ok && i < n; i++) keys[i] = 2 * key(L, &L->step.v[i], true); /* room for one between two */
	if (ok && done == n && hold_back(L, keys)) {
		hasten(L, &e, line, keys);
		arrange(L, &e, keys, early);
		if (peak(L, early) * SAVED < peak(L, line) * (SAVED - 1)) line = early;
	}
	rt_vec_free(&e.to);
	rt_vec_free(&e.next);
	if (!ok || L->oom) return !(L->oom = true);
	if (done < n) {
		rt_fail(L->err, TJ_ERR_COMPILE, "lower", "steps depend on each other in a circle");
		return false;
	}
	for (uint32_t i = 0; i < n; i++) sorted[i] = L->step.v[line[i]];
	if (n) memcpy(L->step.v, sorted, sizeof *sorted * n);
	return true;
}

bool lo_make_steps(lo_low *L)
{
	make(L);
	if (!(L->o->off & LO_OFF(EPILOGUE))) lo_join_epilogues(L);
	return !L->oom && L->err->code == TJ_OK && sort(L);
}
