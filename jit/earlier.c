/* SPDX-License-Identifier: MIT */
/* Earlier segments: which earlier segments lie between a value and the tensors that gradients are asked by. The answer becomes events.
 *
 *   forward    a value is active when it depends on a tensor asked for
 *   backward   an event is needed when the value depends on it; what is active and needed is computed again in the graph of the request
 *
 * What is needed but not active is an input there; constants are computed again, so that they fold. Both walks are over the events of the
 * segments that the value can depend on, from the oldest tensor asked for: a few ns for each. So in a loop that trains and reads a value in
 * each turn, a request looks at one or two segments. The callbacks of an event of control flow count as one event with it (its head). */
#include "jit/earlier.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/segment.h"

/* WANTED, READ: of a value; the others: of a head. PLAIN: computed from constants alone */
enum { WANTED = 1, ACTIVE = 2, NEEDED = 4, PLAIN = 8, AGAIN = 16, READ = 32 };

typedef struct part { /* a segment of the call; all 0 until it is opened */
	uint64_t serial;
	const jit_done *done;    /* NULL: the running one */
	const jit_bound *ext;
	const jit_segment *segment;
	uint32_t n, next;
	const jit_node **ev;     /* by event, as are head and is */
	uint32_t *head;
	uint8_t *is;
	uint32_t place;
	bool named;              /* it has a BEFORE in the running segment */
	bool chooses;            /* it ends with tj_unique() of a value that carries */
} part;

/* a tensor that gradients go to. buf: of a value */
typedef struct target { const tj_tensor *h; const rt_buffer *buf; uint64_t seg; uint32_t seq; bool pending; } target;

/* LOST: the values of its segment are gone. SIZED: the host made it from an active value */
typedef enum link { NO, YES, LOST, SIZED } link;

typedef struct walk {
	jit_act *a;
	const jit_ask *q;
	part *part;              /* oldest first: those of done, then the running one */
	uint32_t first, n;       /* part[first..n-1] may be open */
	bool all;                /* all of these are to be open, not only those on a way from the value */
	rt_vec(target) to;       /* those asked for, then those that GRADs on the way ask for */
	bool *reached;           /* by tensor asked for */
	bool through_stops;      /* tj_stop_gradient() counts as a way */
	const char *bad, *bad_site; /* what the gradient cannot go through */
	link why;
	rt_arena mem;
	bool oom;
} walk;

/* ---- the segments ---- */
static uint64_t serial_of(const walk *w, uint32_t j) { return j < w->a->done.n ? w->a->done.v[j].serial : w->a->seg; }

/* The number of parts that are older. */
static uint32_t older(const walk *w, uint64_t serial)
{
	uint32_t lo = 0, hi = w->n;
	while (lo < hi) {
		const uint32_t mid = (lo + hi) / 2;
		if (serial_of(w, mid) < serial) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

static part *find(const walk *w, uint64_t serial)
{
	const uint32_t j = older(w, serial);
	return j < w->n && w->part[j].ev && w->part[j].serial == serial ? &w->part[j] : NULL;
}

/* The event that computes value seq, which may be the name of an inner value. */
static uint32_t event_of(const walk *w, const part *p, uint32_t seq)
{
	return seq & JIT_INNER && p->segment ? jit_event_of(w->a, p->segment, seq) : seq;
}

/* head[i]: for an event of a callback, the YIELD included, the outermost control flow; for an IR_get, the head of the event before it. */
static void find_heads(part *p)
{
	int depth = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		const int op = p->ev[i]->op;
		p->head[i] = i && (depth || op == JIT_CALLBACK || op == IR_get) ? p->head[i - 1] : i;
		depth += op == JIT_CALLBACK;
		depth -= op == JIT_YIELD;
	}
}

static bool open_events(walk *w, part *p, const jit_node *last)
{
	p->n = last->parent ? last->seq + 1 : 0;
	p->ev = rt_arena_alloc(&w->mem, (p->n + 1) * sizeof *p->ev);
	p->head = rt_arena_alloc(&w->mem, (p->n + 1) * sizeof *p->head);
	p->is = rt_arena_alloc(&w->mem, p->n + 1);
	if (!p->ev || !p->head || !p->is) return !(w->oom = true);
	for (const jit_node *x = last; x->parent; x = x->parent) p->ev[x->seq] = x;
	find_heads(p);
	return true;
}

static bool open_part(walk *w, uint32_t j)
{
	const jit_act *a = w->a;
	part *p = &w->part[j];
	if (p->ev) return true;
	if (j == a->done.n) {
		*p = (part){ .serial = a->seg, .ext = a->ext.v, .next = a->ext.n };
		return open_events(w, p, a->cursor);
	}
	const jit_done *d = &a->done.v[j];
	*p = (part){ .serial = d->serial, .done = d, .ext = d->ext, .next = d->nmet, .segment = d->boundary->segment };
	return open_events(w, p, d->boundary);
}

static uint32_t oldest_target(const walk *w)
{
	uint32_t first = w->n - 1;
	for (uint32_t i = 0; i < w->to.n; i++) {
		const uint32_t j = w->to.v[i].pending ? older(w, w->to.v[i].seg) : 0;
		if (j < first) first = j;
	}
	return first;
}

/* Opens the segments that the value can depend on, and that can depend on a target. */
static bool open_parts(walk *w)
{
	bool *hit = rt_arena_alloc(&w->mem, w->n + 1);
	const uint32_t first = oldest_target(w);
	const tj_tensor *y = w->q->y;
	if (!hit) return !(w->oom = true);
	memset(hit, w->all, w->n + 1);
	hit[w->n - 1] = true;
	if (y->kind == RT_PENDING) hit[older(w, y->seg)] = true;
	if (first < w->first) w->first = first;
	for (uint32_t j = w->n; j-- > w->first;) {
		const part *p = &w->part[j];
		if (!hit[j]) continue;
		if (!open_part(w, j)) return false;
		for (uint32_t i = 0; i < p->next; i++)
			if (p->ext[i].pending) hit[older(w, p->ext[i].seg)] = true;
	}
	for (uint32_t i = 0; i < w->a->before.n; i++) {
		part *p = find(w, w->a->before.v[i]);
		if (!p) continue;
		p->place = i;
		p->named = true;
	}
	return true;
}

/* ---- targets ---- */
static bool same_target(const target *x, const target *y)
{
	return x->pending == y->pending && (x->pending ? x->seg == y->seg && x->seq == y->seq : x->h == y->h && x->buf == y->buf);
}

static target target_of(const tj_tensor *t)
{
	if (t->kind == RT_PENDING) return (target){ .pending = true, .seg = t->seg, .seq = t->seq };
	return (target){ .h = t, .buf = t->kind == RT_CELL ? NULL : t->buf };
}

static target target_at(const walk *w, const jit_bound *x)
{
	const part *p = x->pending ? find(w, x->seg) : NULL;
	if (x->pending) return (target){ .pending = true, .seg = x->seg, .seq = p ? event_of(w, p, x->seq) : x->seq };
	return (target){ .h = x->h, .buf = x->cell ? NULL : x->buf };
}

/* The target that the external is; -1: none. */
static int which(const walk *w, const jit_bound *x)
{
	const target t = target_at(w, x);
	for (uint32_t i = 0; i < w->to.n; i++)
		if (same_target(&w->to.v[i], &t)) return (int)i;
	return -1;
}

/* True: it is a new one. */
static bool add_target(walk *w, target t)
{
	for (uint32_t i = 0; i < w->to.n; i++)
		if (same_target(&w->to.v[i], &t)) return false;
	return rt_push(&w->to, t) || !(w->oom = true);
}

static void reach(walk *w, const target *t)
{
	for (int i = 0; i < w->q->n; i++) w->reached[i] |= same_target(&w->to.v[i], t);
}

/* ---- forward ---- */
static bool may_carry(const rt_layout *l) { return !l || rt_is_float((tj_dtype)l->dtype); }

static bool carries(const part *p, uint32_t seq)
{
	return p->is[seq] & WANTED || (p->is[p->head[seq]] & ACTIVE && p->ev[seq]->layout && may_carry(p->ev[seq]->layout));
}

/* The value was computed before every tensor asked for. */
static bool is_older(const walk *w, uint64_t seg)
{
	for (uint32_t i = 0; i < w->to.n; i++)
		if (!w->to.v[i].pending || w->to.v[i].seg <= seg) return false;
	return true;
}

/* How the value with this buffer carries, if the host made it: a result of tj_unique(). */
static link of_sized(const walk *w, const rt_buffer *buf)
{
	for (uint32_t k = w->a->sized.n; buf && k-- > 0;) {
		const jit_sized *s = &w->a->sized.v[k];
		const part *p = s->buf == buf ? find(w, s->seg) : NULL;
		if (s->buf == buf) return p ? (p->chooses ? SIZED : NO) : is_older(w, s->seg) ? NO : LOST;
	}
	return NO;
}

static link of_external(const walk *w, const part *p, uint32_t i)
{
	const jit_bound *x = &p->ext[i];
	if (which(w, x) >= 0) return YES;
	if (!may_carry(x->layout)) return NO;
	if (!x->pending) return of_sized(w, x->buf);
	const part *o = find(w, x->seg);
	if (!o) return is_older(w, x->seg) ? NO : LOST;
	return carries(o, event_of(w, o, x->seq)) ? YES : NO;
}

static link of_operand(const walk *w, const part *p, uint32_t head, jit_ref r)
{
	const uint32_t i = JIT_IDX(r);
	if (JIT_KIND(r) == JIT_EXT) return of_external(w, p, i);
	return JIT_KIND(r) == JIT_EV && p->head[i] != head && carries(p, i) ? YES : NO;
}

static bool is_plain(const part *p, const jit_node *n)
{
	bool plain = n->op < IR_OPS && !(ir_ops[n->op].flags & IR_RNG) && ir_ops[n->op].nresult <= 1 && p->head[n->seq] == n->seq;
	for (int k = 0; plain && k < n->nsrc; k++) {
		const int kind = (int)JIT_KIND(n->src[k]);
		plain = kind == JIT_EV ? p->is[p->head[JIT_IDX(n->src[k])]] & PLAIN : kind != JIT_EXT;
	}
	return plain;
}

static bool chooses(const walk *w, const part *p)
{
	const jit_node *last = p->done ? p->done->boundary : NULL;
	if (!last || last->op != JIT_UNIQUE || !last->nsrc) return false;
	const jit_ref from = last->src[0];
	return JIT_KIND(from) == JIT_EXT ? of_external(w, p, JIT_IDX(from)) != NO : carries(p, JIT_IDX(from));
}

static void forward(walk *w)
{
	for (uint32_t j = w->first; j < w->n; j++) {
		part *p = &w->part[j];
		if (!p->ev) continue;
		memset(p->is, 0, p->n + 1);
		for (uint32_t i = 0; i < w->to.n; i++)
			if (w->to.v[i].pending && w->to.v[i].seg == p->serial) p->is[event_of(w, p, w->to.v[i].seq)] |= WANTED;
		for (uint32_t i = 0; i < p->n; i++) {
			const jit_node *n = p->ev[i];
			const uint32_t head = p->head[i];
			if (is_plain(p, n)) p->is[i] |= PLAIN;
			if (n->op == IR_stop_gradient && !w->through_stops && head == i) continue;
			for (int k = 0; k < n->nsrc; k++)
				if (of_operand(w, p, head, n->src[k]) != NO) p->is[head] |= ACTIVE;
		}
		p->chooses = chooses(w, p);
	}
}

/* ---- backward ---- */
static void refuse(walk *w, link why, const jit_node *n)
{
	if (w->bad || (why != LOST && why != SIZED)) return;
	w->why = why;
	w->bad = n ? jit_event_name(n->op) : "the value";
	w->bad_site = n && n->site ? n->site : "?";
}

/* What a GRAD on the way asks for: the values from there on are a part of its gradient. True: some of it is new. */
static bool add_inner(walk *w, const part *p, const jit_node *n)
{
	int k, end;
	bool any = false;
	if (!jit_asks(n, &k, &end)) return false;
	for (; k < end; k++) {
		const uint32_t i = JIT_IDX(n->src[k]);
		any |= add_target(w, JIT_KIND(n->src[k]) == JIT_EV ? (target){ .pending = true, .seg = p->serial, .seq = i } : target_at(w, &p->ext[i]));
	}
	return any;
}

static void need_operand(walk *w, const part *p, const jit_node *n, jit_ref r)
{
	const uint32_t i = JIT_IDX(r);
	const link how = of_operand(w, p, p->head[n->seq], r);
	refuse(w, how, n);
	if (how != YES) return;
	if (JIT_KIND(r) == JIT_EV) {
		p->is[p->head[i]] |= NEEDED;
		reach(w, &(target){ .pending = true, .seg = p->serial, .seq = i });
		return;
	}
	const jit_bound *x = &p->ext[i];
	const target t = target_at(w, x);
	part *o = x->pending ? find(w, x->seg) : NULL;
	reach(w, &t);
	if (o) o->is[o->head[t.seq]] |= NEEDED;
}

static void need_value(walk *w)
{
	const tj_tensor *y = w->q->y;
	const target t = target_of(y);
	part *o = y->kind == RT_PENDING ? find(w, y->seg) : NULL;
	reach(w, &t);
	if (o) o->is[o->head[event_of(w, o, y->seq)]] |= NEEDED;
	else if (y->kind == RT_PENDING) refuse(w, is_older(w, y->seg) ? NO : LOST, NULL);
	else if (y->kind != RT_CELL) refuse(w, of_sized(w, y->buf), NULL);
}

/* False: what a GRAD on the way asks for has to be known first. */
static bool backward(walk *w)
{
	bool inner = false;
	w->bad = NULL;
	memset(w->reached, 0, (size_t)w->q->n);
	need_value(w);
	for (uint32_t j = w->n; j-- > w->first;) {
		const part *p = &w->part[j];
		for (uint32_t i = p->n; i-- > 0;) {
			const jit_node *n = p->ev[i];
			if ((p->is[p->head[i]] & (NEEDED | ACTIVE)) != (NEEDED | ACTIVE)) continue;
			inner |= add_inner(w, p, n);
			for (int k = 0; k < n->nsrc; k++) need_operand(w, p, n, n->src[k]);
		}
	}
	return !inner;
}

static bool all_reached(const walk *w)
{
	bool all = true;
	for (int i = 0; i < w->q->n; i++) all &= w->reached[i];
	return all;
}

static void both_ways(walk *w)
{
	do {
		if (!open_parts(w)) return;
		forward(w);
	} while (!backward(w) && !w->oom);
}

/* A tensor that only tj_stop_gradient() reaches has a gradient of 0, and is not unused. */
static void find_ways(walk *w)
{
	both_ways(w);
	if (w->q->zeros || w->bad || all_reached(w)) return;
	w->through_stops = true;
	both_ways(w);
	if (all_reached(w) && !w->bad) return;
	w->through_stops = false;
	both_ways(w);
}

/* ---- the events ---- */
/* Events that are computed again: on the way, and constants that these read. */
static bool choose(walk *w)
{
	bool any = false;
	for (uint32_t j = w->first; j + 1 < w->n; j++) {
		const part *p = &w->part[j];
		for (uint32_t i = p->n; i-- > 0;) {
			uint8_t *is = &p->is[p->head[i]];
			if ((*is & (NEEDED | ACTIVE)) == (NEEDED | ACTIVE)) *is |= AGAIN;
			any |= *is & AGAIN;
			for (int k = 0; *is & AGAIN && k < p->ev[i]->nsrc; k++) {
				const jit_ref r = p->ev[i]->src[k];
				uint8_t *of = JIT_KIND(r) == JIT_EV ? &p->is[p->head[JIT_IDX(r)]] : NULL;
				if (of && *of & PLAIN) *of |= AGAIN;
			}
		}
	}
	return any;
}

static bool is_there(const walk *w, const tj_tensor *h, const jit_bound *x)
{
	if (!jit_in_scope(w->a, h, false)) return false;
	return x->pending ? h->kind == RT_PENDING && h->seg == x->seg && h->seq == x->seq
	                  : h->kind == RT_VALUE && h->buf == x->buf && h->layout == x->layout;
}

/* The handle under which the running segment has, or will have, the value. Scopes of the body may have been popped since x was bound. */
static tj_tensor *handle_for(walk *w, const jit_bound *x)
{
	jit_act *a = w->a;
	const target t = target_at(w, x);
	for (int i = -1; i < w->q->n; i++) {
		tj_tensor *h = i < 0 ? w->q->y : w->q->wanted[i];
		const target o = target_of(h);
		if (!(x->pending && x->seq & JIT_INNER) && same_target(&t, &o)) return h;
	}
	for (uint32_t i = 0; i < a->ext.n; i++) {
		const jit_bound *o = &a->ext.v[i];
		if (o->pending != x->pending) continue;
		if (x->pending ? o->seg == x->seg && o->seq == x->seq : o->h == x->h && (x->cell || o->buf == x->buf)) return o->h;
	}
	if (x->cell || x->heap || is_there(w, x->h, x)) return x->h;
	if (!x->pending) return jit_new_value(a->ctx, a->scope, rt_layout_ref(x->layout), rt_buffer_ref(x->buf), (void *)(uintptr_t)x->data);
	tj_tensor *h = rt_raw_handle(&a->ctx->rt, a->scope);
	if (!h) return NULL;
	const rt_head head = { .kind = RT_PENDING, .dtype = x->layout->dtype, .rank = x->layout->rank, .seq = x->seq };
	memcpy(h, &head, sizeof head);
	h->seg = x->seg;
	h->layout = x->layout;
	h->data = NULL;
	return h;
}

static bool fail(const walk *w, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
static bool fail(const walk *w, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(w->a->ctx, w->q->site, code, w->q->name, hint, fmt, ap);
	va_end(ap);
	return false;
}

static bool nomem(const walk *w) { return fail(w, TJ_ERR_NOMEM, NULL, "out of memory"); }

/* Which numbers of p the events use that are computed again: all from the first to the last one. */
static void find_numbers(const part *p, int64_t *first, int64_t *count)
{
	int64_t lo = INT64_MAX, end = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		const jit_node *n = p->ev[i];
		if (!(p->is[p->head[i]] & AGAIN)) continue;
		if (n->draws && n->nnum < lo) lo = n->nnum;
		if (n->draws && n->nnum + 2 > end) end = n->nnum + 2;
		for (int k = 0; k < n->nsrc; k++) {
			const int64_t at = JIT_IDX(n->src[k]);
			if (JIT_KIND(n->src[k]) != JIT_FLOAT && JIT_KIND(n->src[k]) != JIT_INT) continue;
			if (at < lo) lo = at;
			if (at >= end) end = at + 1;
		}
	}
	*first = end ? lo : 0;
	*count = end - *first;
}

/* These numbers of the segment become numbers of the running one. */
static bool take_numbers(jit_act *a, const jit_done *d, int64_t first, int64_t count)
{
	for (int64_t i = first; i < first + count; i++) {
		if (RT_UNLIKELY(a->learn != NULL)) jit_learn_number(a, a->num.n, d->num_from ? d->num_from[i].from : JIT_FROM(JIT_CONST, 0));
		if (!rt_push(&a->num, d->num[i])) return false;
	}
	return true;
}

/* Notes where the external of an event that is computed again comes from. */
static bool note_source(walk *w, const part *p, uint32_t ext, int64_t *from, tj_tensor **src, int *nsrc)
{
	const jit_bound *x = &p->ext[ext];
	if (from[ext]) return true;
	const part *o = x->pending && !(x->seq & JIT_INNER) ? find(w, x->seg) : NULL;
	if (o && o->is[o->head[x->seq]] & AGAIN) from[ext] = jit_of_part(o->place, x->seq);
	else {
		from[ext] = -1 - (int64_t)*nsrc;
		if (!(src[(*nsrc)++] = handle_for(w, x))) return !(w->oom = true);
	}
	return true;
}

static bool same_node(const jit_node *x, const jit_node *y)
{
	if (x == y) return true;
	return !x->loose && !y->loose && x->op == y->op && x->nsrc == y->nsrc && x->nattr == y->nattr && x->mode == y->mode &&
	       x->draws == y->draws && x->nnum == y->nnum && x->layout == y->layout && !memcmp(x->src, y->src, x->nsrc * sizeof *x->src) &&
	       !memcmp(x->attr, y->attr, x->nattr * sizeof *x->attr);
}

/* What a gradient through p uses is the same, under the same numbers, in the recorded segment that ends at `last`. */
static bool same_part(const part *p, const jit_node *last)
{
	const jit_node *x = p->done->boundary, *y = last;
	bool same = y->seq == x->seq && y->nnum == x->nnum && y->next + y->nmet == p->next;
	for (; same && x->parent; x = x->parent, y = y->parent) {
		if (p->is[p->head[x->seq]] & AGAIN) same = same_node(x, y);
		else if (p->is[x->seq] & READ) same = x->layout == y->layout;
	}
	return same;
}

/* The boundary that names p. In a loop that trains, each turn names the one before; were that the turn's own boundary, then each turn would
 * differ from all others, and be compiled. So a segment that is like the one that it named itself has the name of that one. */
static const jit_node *name_of(const part *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (int k = 0; p->is[p->head[i]] & AGAIN && k < p->ev[i]->nsrc; k++)
			if (JIT_KIND(p->ev[i]->src[k]) == JIT_EV) p->is[JIT_IDX(p->ev[i]->src[k])] |= READ;
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->ev[i]->op != JIT_BEFORE) continue;
		const jit_node *last = (const jit_node *)(uintptr_t)p->ev[i]->attr[JIT_BEFORE_BOUNDARY];
		if (same_part(p, last)) return last;
	}
	return p->done->boundary;
}

static bool name_part(walk *w, part *p)
{
	jit_act *a = w->a;
	const uint32_t words = (p->n + 63) / 64, nattr = JIT_BEFORE_EXT + p->next + words;
	int64_t *attr = rt_arena_alloc(&w->mem, (nattr + 1) * sizeof *attr);
	tj_tensor **src = rt_arena_alloc(&w->mem, (p->next + 1) * sizeof *src);
	int nsrc = 0;
	if (!attr || !src) return nomem(w);
	if (nattr > UINT16_MAX)
		return fail(w, TJ_ERR_LIMIT, "let fewer events come between two reads",
		            "the segment that ends at %s has too many events for a gradient through it",
		            p->done->boundary->site ? p->done->boundary->site : "?");
	if (!p->named) {
		p->named = true;
		p->place = a->before.n;
		if (!rt_push(&a->before, p->serial)) return nomem(w);
	}
	attr[JIT_BEFORE_BOUNDARY] = (int64_t)(uintptr_t)name_of(p);
	attr[JIT_BEFORE_PLACE] = p->place;
	find_numbers(p, &attr[JIT_BEFORE_NUMBER], &attr[JIT_BEFORE_NUMBERS]);
	for (uint32_t i = 0; i < p->n; i++) {
		const jit_node *n = p->ev[i];
		if (!(p->is[p->head[i]] & AGAIN)) continue;
		attr[JIT_BEFORE_EXT + p->next + i / 64] |= (int64_t)(UINT64_C(1) << i % 64);
		for (int k = 0; k < n->nsrc; k++)
			if (JIT_KIND(n->src[k]) == JIT_EXT && !note_source(w, p, JIT_IDX(n->src[k]), attr + JIT_BEFORE_EXT, src, &nsrc)) return nomem(w);
	}
	return jit_step(a, w->q->site, JIT_BEFORE, nsrc, src, (int)nattr, attr) &&
	       (take_numbers(a, p->done, attr[JIT_BEFORE_NUMBER], attr[JIT_BEFORE_NUMBERS]) || nomem(w));
}

/* Says that a value of an earlier segment, which the running one has as an external, is one of a named segment. */
static bool link_value(walk *w, tj_tensor *h, uint64_t seg, uint32_t seq)
{
	const part *p = find(w, seg);
	if (!p || !p->named || !p->done || seq & JIT_INNER) return true;
	return jit_step(w->a, w->q->site, JIT_LINK, 1, &h, 2, (int64_t[]){ p->place, seq }) != NULL;
}

static bool link_all(walk *w)
{
	jit_act *a = w->a;
	for (uint32_t i = 0; i < a->ext.n; i++) {
		const jit_bound x = a->ext.v[i];
		if (x.pending && !link_value(w, x.h, x.seg, x.seq)) return false;
	}
	for (int i = -1; i < w->q->n; i++) {
		tj_tensor *h = i < 0 ? w->q->y : w->q->wanted[i];
		if (h->kind == RT_PENDING && h->seg != a->seg && jit_find_ext(a, h) < 0 && !link_value(w, h, h->seg, h->seq)) return false;
	}
	return true;
}

/* ---- cells ---- */
static bool reaches(walk *w, target t)
{
	w->to.n = 0;
	w->all = true;
	if (!add_target(w, t) || !open_parts(w)) return false;
	const bool stops = w->through_stops;
	w->through_stops = true;
	forward(w);
	const part *o = w->q->y->kind == RT_PENDING ? find(w, w->q->y->seg) : NULL;
	const bool yes = o && carries(o, event_of(w, o, w->q->y->seq));
	w->through_stops = stops;
	return yes;
}

static bool is_value(const jit_bound *x, const tj_tensor *t)
{
	if (t->kind == RT_PENDING) return x->pending && x->seg == t->seg && x->seq == t->seq;
	return !x->pending && (t->kind == RT_CELL ? x->h == t : x->buf == t->buf && x->layout == t->layout);
}

/* The line that assigned the value to a cell; NULL: not found. */
static const char *assigned_at(walk *w, const tj_tensor *version)
{
	for (uint32_t j = w->n; j-- > 0;) {
		if (!open_part(w, j)) return NULL;
		for (uint32_t i = w->part[j].n; i-- > 0;) {
			const jit_node *n = w->part[j].ev[i];
			if (n->op != JIT_ASSIGN) continue;
			const bool own = JIT_KIND(n->src[0]) == JIT_EV && version->kind == RT_PENDING &&
			                 w->part[j].serial == version->seg && JIT_IDX(n->src[0]) == version->seq;
			if (own || (JIT_KIND(n->src[0]) == JIT_EXT && is_value(&w->part[j].ext[JIT_IDX(n->src[0])], version))) return n->site;
		}
	}
	return NULL;
}

/* False: the value was computed from a cell that was assigned since then, and not from its present value. */
static bool cells_are_current(walk *w)
{
	for (int i = 0; i < w->q->n; i++) {
		const tj_tensor *cell = w->q->asked[i], *now = w->q->wanted[i];
		if (cell == now || cell->kind != RT_CELL || w->reached[i] || reaches(w, target_of(now)) || !reaches(w, target_of(cell))) continue;
		const char *site = assigned_at(w, now);
		return fail(w, TJ_ERR_STATE, "ask for the gradient first, then assign",
		            "tensor %d of those asked for is a cell that was read, and then assigned at %s", i, site ? site : "?");
	}
	return true;
}

/* ---- the request ---- */
static bool refused(const walk *w)
{
	if (w->why == LOST)
		return fail(w, TJ_ERR_STATE, "pop the scopes of a long loop after the gradient was asked for, or loop with tj_scan()",
		            "%s at %s depends on values that were released since they were computed, so its gradient is not known", w->bad,
		            w->bad_site);
	return fail(w, TJ_ERR_STATE, "tj_sort() has a gradient; tj_stop_gradient() of the operand makes its values constants",
	            "%s at %s depends on the tensors asked for through tj_unique(), which has no gradient", w->bad, w->bad_site);
}

static bool find_ways_to(walk *w)
{
	w->to.n = 0;
	for (int i = 0; i < w->q->n; i++)
		if (!rt_push(&w->to, target_of(w->q->wanted[i]))) return !(w->oom = true);
	find_ways(w);
	return !w->oom;
}

static bool across(walk *w)
{
	const uint32_t n = w->n = w->first = w->a->done.n + 1;
	w->all = w->a->sized.n != 0;
	w->part = rt_arena_alloc(&w->mem, n * sizeof *w->part);
	w->reached = rt_arena_alloc(&w->mem, (size_t)w->q->n + 1);
	if (!w->part || !w->reached) return nomem(w);
	memset(w->part, 0, n * sizeof *w->part);
	if (!find_ways_to(w)) return nomem(w);
	if (w->a->assigned.n && !all_reached(w) && (!cells_are_current(w) || !find_ways_to(w))) return w->oom ? nomem(w) : false;
	if (w->bad) return refused(w);
	if (!choose(w)) return true;
	for (uint32_t j = w->first; j + 1 < w->n; j++) {
		part *p = &w->part[j];
		bool any = false;
		for (uint32_t i = 0; i < p->n; i++) any |= p->is[p->head[i]] & AGAIN;
		if (any && !name_part(w, p)) return false;
	}
	return link_all(w);
}

bool jit_across(jit_act *a, const jit_ask *q)
{
	walk w = { .a = a, .q = q };
	if (!a->done.n && !a->pruned) return true;
	const bool ok = across(&w);
	rt_vec_free(&w.to);
	rt_arena_free(&w.mem);
	return ok;
}
