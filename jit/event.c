/* SPDX-License-Identifier: MIT */
/* Events: matched against the trace, or recorded. Matching an event is its guard; it costs about one compare for each
 * operand, no lock, no allocation. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/guard.h"
#include "jit/handle.h"
#include "jit/outside.h"

/* ---- matching ---- */

/* Binds an external that this event is the first to use: it must be new to the segment, and have the recorded layout. */
static bool meet(jit_act *a, const jit_ext *want, tj_tensor *h)
{
	if (h->kind == RT_PENDING && h->seg == a->seg) return false;
	if (want->cell != (h->kind == RT_CELL)) return false;
	if (RT_UNLIKELY(want->content || h->flags & RT_CONSTANT || a->fn->nfreeze) && want->content != jit_content_id(a->ctx, h) &&
	    !jit_loose_content(a, want, h))
		return false;
	if (h->kind != RT_PENDING && h->layout != want->layout) return false;
	if (jit_find_ext(a, h) >= 0 || !jit_bind_ext(a, h, NULL)) return false;
	return a->ext.v[a->ext.n - 1].layout == want->layout; /* the caller unbinds what did not match */
}

static bool match_operand(jit_act *a, const jit_node *n, int k, tj_tensor *h)
{
	jit_ref r = n->src[k];
	uint32_t i = JIT_IDX(r);
	switch (JIT_KIND(r)) {
	case JIT_EV: return !rt_is_number(h) && h->kind == RT_PENDING && h->seg == a->seg && h->seq == i;
	case JIT_EXT:
		if (rt_is_number(h)) return false;
		return i < a->ext.n ? a->ext.v[i].h == h : meet(a, &n->met[i - n->next], h);
	case JIT_FLOAT: case JIT_INT:
		if (!rt_is_number(h) || rt_is_int_number(h) != (JIT_KIND(r) == JIT_INT)) return false;
		return i < n->nnum ? jit_same_number(a, i, k, h) || jit_loose_number(a, n, i, h) : jit_bind_number(a, k, h);
	default: /* JIT_CELL: the target of an assign */
		if (i < a->cell.n) return a->cell.v[i] == rt_held_of(h);
		if (jit_find_cell(&a->cell_at, a->cell.v, sizeof *a->cell.v, a->cell.n, rt_held_of(h)) >= 0) return false;
		return h->layout == n->met[n->nmet - 1].layout && rt_push(&a->cell, rt_held_of(h));
	}
}

static inline bool same_op(const jit_node *n, int op, uint8_t mode, int nsrc, int nattr, const int64_t *attr)
{
	if (n->op != op || n->mode != mode || n->nsrc != nsrc || n->nattr != nattr) return false;
	for (int k = 0; k < nattr; k++)
		if (n->attr[k] != attr[k] && !jit_loose_attr(n, k, attr[k])) return false;
	return true;
}

static bool match(jit_act *a, const jit_node *n, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	if (!same_op(n, op, jit_mode_of(a, op), nsrc, nattr, attr)) return false;
	uint32_t ext = a->ext.n, num = a->num.n, cell = a->cell.n;
	for (int k = 0; k < nsrc; k++)
		if (!match_operand(a, n, k, src[k])) {
			jit_unbind_ext(a, ext);
			a->num.n = num;
			a->cell.n = cell;
			jit_cut_cells(&a->cell_at, cell);
			return false;
		}
	if (a->ext.n > ext) jit_index_ext(a, ext);
	return true;
}

/* A random op takes the next ordinal of its context; key and ordinal become numbers of the segment. */
static bool draw(jit_act *a, int op)
{
	if (op >= IR_OPS || !(ir_ops[op].flags & IR_RNG)) return true;
	if (RT_UNLIKELY(a->learn != NULL)) jit_learn_number(a, a->num.n, JIT_FROM(JIT_KEY, 0));
	if (RT_UNLIKELY(a->learn != NULL)) jit_learn_number(a, a->num.n + 1, JIT_FROM(JIT_ORDINAL, a->ctx->rt.ordinal - a->learn->ordinal));
	return rt_push(&a->num, a->ctx->rt.key) && rt_push(&a->num, a->ctx->rt.ordinal++);
}

/* Sites are compared by address: a line of C has one string, but a line of a header has one for each object file. */
static void note_stray(jit_act *a, const jit_node *n, const char *site)
{
	if (n->op < IR_OPS && ir_ops[n->op].flags & IR_FAULT && site)
		(void)rt_push(&a->stray, ((jit_stray){ n->seq, site })); /* out of memory: the error names the recorded line */
}

jit_node *jit_step(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	jit_node *first = atomic_load_explicit(&a->cursor->child, memory_order_acquire), *n;
	for (n = first; n; n = n->sibling)
		if (match(a, n, op, nsrc, src, nattr, attr)) break;
	if (!n) {
		if (first && !a->recorded) jit_explain_exit(a, site, op, nsrc, src, nattr, attr);
		n = jit_record(a, site, op, nsrc, src, nattr, attr);
	}
	if (!n) return NULL;
	if (!draw(a, op)) {
		jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory");
		return NULL;
	}
	if (RT_UNLIKELY(n->site != site)) note_stray(a, n, site);
	a->cursor = n;
	a->seq = n->seq + 1;
	return n;
}

static bool runs_once(const jit_act *a)
{
	bool once = true;
	for (uint32_t i = 0; i < a->callback.n; i++) once &= a->callback.v[i].once;
	return once;
}

/* ---- the entry point of every op ---- */
enum { INLINE_SRC = 16 };

static bool numbers_only(int nsrc, tj_tensor *const *src)
{
	for (int k = 0; k < nsrc; k++)
		if (!rt_is_number(src[k])) return false;
	return nsrc > 0;
}

/* ---- the fast path: the next event is the recorded one. It never matches wrongly, but leaves rare operands to the slow path. ---- */

/* meet() for the common external: a temporary of this context that is new to the segment. */
static inline bool meet_value(jit_act *a, const jit_ext *want, tj_tensor *h)
{
	uint32_t n = a->ext.n;
	if (want->cell || want->content || n == a->ext.cap || (h->seq < n && a->ext.v[h->seq].h == h)) return false;
	jit_bound *b = &a->ext.v[n];
	b->h = h;
	b->layout = h->layout;
	b->data = h->data;
	b->buf = h->buf;
	b->pending = b->owned = b->taken = b->cell = b->heap = false;
	h->seq = n;
	a->ext.n = n + 1;
	return true;
}

static inline uint64_t word_of(const void *p)
{
	uint64_t w;
	memcpy(&w, p, sizeof w);
	return w;
}

/* h is event i of the running segment; kind and number are checked with one compare. */
static inline bool is_event(const jit_act *a, const tj_tensor *h, uint32_t i)
{
	static const rt_head kind = { .kind = 0xFF, .seq = UINT32_MAX };
	const rt_head want = { .kind = RT_PENDING, .seq = i };
	return (word_of(h) & word_of(&kind)) == word_of(&want) && h->seg == a->seg && h->ctx == a->ctx;
}

static inline bool same_external(jit_act *a, const jit_node *n, uint32_t i, tj_tensor *h)
{
	if (h->kind == RT_CELL ? a->assigned.n != 0 : h->kind != RT_VALUE || a->alias.n) return false;
	if (i < a->ext.n) return a->ext.v[i].h == h;
	if ((h->ctx && h->ctx != a->ctx) || h->layout != n->met[i - n->next].layout) return false;
	if (RT_LIKELY(h->kind == RT_VALUE && !(h->flags & (RT_HEAP | RT_CONSTANT)))) return meet_value(a, &n->met[i - n->next], h);
	return meet(a, &n->met[i - n->next], h);
}

static inline __attribute__((always_inline)) bool same_operand(jit_act *a, const jit_node *n, jit_ref r, tj_tensor *h)
{
	uint32_t i = JIT_IDX(r);
	if (rt_is_number(h)) {
		if (JIT_KIND(r) != (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT)) return false;
		return i < n->nnum ? a->num.v[i] == rt_number_bits(h) : rt_push(&a->num, rt_number_bits(h));
	}
	if ((uintptr_t)h <= (uintptr_t)TJ_END) return false;
	return JIT_KIND(r) == JIT_EV ? is_event(a, h, i) : JIT_KIND(r) == JIT_EXT && same_external(a, n, i, h);
}

static inline __attribute__((always_inline)) jit_node *next_is(jit_act *a, int op, int nsrc, tj_tensor *const *src, int nattr,
                                                               const int64_t *attr)
{
	jit_node *n = atomic_load_explicit(&a->cursor->child, memory_order_acquire);
	const struct { uint16_t op, nsrc, nattr; uint8_t mode, draws; } head = { (uint16_t)op, (uint16_t)nsrc, (uint16_t)nattr, a->mode, 0 };
	if (!n || word_of(n) != word_of(&head)) return NULL;
	for (int k = 0; k < nattr; k++)
		if (n->attr[k] != attr[k]) return NULL;
	uint32_t ext = a->ext.n, num = a->num.n;
	const jit_ref *want = n->src;
	for (int k = 0; k < nsrc; k++)
		if (RT_UNLIKELY(!same_operand(a, n, want[k], src[k]))) {
			jit_unbind_ext(a, ext);
			a->num.n = num;
			return NULL;
		}
	if (a->ext.n > ext) jit_index_ext(a, ext);
	return n;
}

static inline tj_tensor *result_of(jit_act *a, const jit_node *n)
{
	tj_tensor *t = rt_raw_handle(&a->ctx->rt, a->ctx->rt.scope);
	if (!t) return NULL;
	memcpy(t, &n->value, sizeof n->value);
	t->seg = a->seg;
	t->layout = n->layout;
	t->data = NULL;
	return t;
}

tj_tensor *jit_result(jit_act *a, const jit_node *n) { return result_of(a, n); }


static jit_zero_div zero_div(const tj_ctx *c)
{
	if (!c->active) return JIT_ZERO_DIV_ERROR;
	if (c->act.fn->opts.int_div_zero == TJ_ZERO) return JIT_ZERO_DIV_0;
	return c->act.callback.n ? JIT_ZERO_DIV_LATER : JIT_ZERO_DIV_ERROR;
}

/* Division by zero in a callback that may not run: the divisor becomes a tensor, so that the division faults only when it runs. */
static tj_tensor *divide_later(tj_ctx *c, const char *site, int op, tj_tensor *const *src)
{
	jit_learn_stop(&c->act, NULL, "a division by zero"); /* with another divisor the events differ */
	jit_node *n = jit_step(&c->act, site, IR_cast, 1, src + 1, 1, (int64_t[]){ TJ_I64 });
	tj_tensor *by = n ? result_of(&c->act, n) : NULL;
	if (!by) return n ? jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory") : &c->rt.poison;
	return jit_run_event(c, site, op, 2, (tj_tensor *[]){ src[0], by }, 0, NULL);
}

tj_tensor *jit_run_event(tj_ctx *c, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	if (numbers_only(nsrc, src) && ir_ops[op].math) {
		tj_tensor *r = jit_number_op(c, site, (ir_op)op, nsrc, src, zero_div(c));
		if (r && c->active && c->act.learn && rt_is_number(r)) return jit_late_op(&c->act, op, nsrc, src, r);
		if (r) return r;
		if (ir_divides(op) && zero_div(c) == JIT_ZERO_DIV_LATER) return divide_later(c, site, op, src);
	}
	jit_act *a = c->active ? &c->act : NULL;
	if (!a) {
		tj_tensor *r;
		jit_eager(c, site, (ir_op)op, nsrc, src, nattr, attr, 1, &r);
		return r;
	}
	if (RT_UNLIKELY(a->callback.n) && ir_ops[op].flags & IR_RNG && !runs_once(a) &&
	    jit_in_callback(c, site, ir_ops[op].name,
	                    "draw the numbers before the op and pass them in: in a callback, every turn would draw the same ones"))
		return &c->rt.poison;
	jit_node *n = jit_step(a, site, op, nsrc, src, nattr, attr);
	tj_tensor *t = n ? result_of(a, n) : NULL;
	if (!t) return n ? jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory") : &c->rt.poison;
	return t;
}

/* The slow path: unusual operands, numbers only, random ops, a mismatch, or no running call. */
static __attribute__((noinline)) tj_tensor *slow_event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr,
                                                       const int64_t *attr)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_tensor *few[INLINE_SRC], **in = few;
	if (!c) return jit_no_context(site, ir_ops[op].name);
	jit_active(c);
	if (nsrc > INLINE_SRC && !(in = rt_alloc((size_t)nsrc * sizeof *in)))
		return jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory");
	tj_tensor *r = &c->rt.poison;
	if (jit_admit_all(c, site, ir_ops[op].name, nsrc, src, in) == JIT_OK) r = jit_run_event(c, site, op, nsrc, in, nattr, attr);
	if (in != few) rt_free(in);
	return r;
}

tj_tensor *jit_event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	tj_ctx *c = jit_thread_ctx;
	if (RT_UNLIKELY(!c || c->act.near != jit_me || nsrc > UINT16_MAX))
		return slow_event(site, op, nsrc, src, nattr, attr);
	jit_act *a = &c->act;
	jit_node *n = next_is(a, op, nsrc, src, nattr, attr);
	if (RT_UNLIKELY(!n)) return slow_event(site, op, nsrc, src, nattr, attr);
	if (RT_UNLIKELY(n->site != site)) note_stray(a, n, site);
	a->cursor = n;
	a->seq = n->seq + 1;
	tj_tensor *t = result_of(a, n);
	return t ? t : jit_error(c, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory");
}

/* ---- ops with several results: the event of the op, then an IR_get for each result that is wanted ---- */
/* want: a bit for each wanted result. out: those n results, in order */
typedef struct several { tj_tensor *out[IR_MOST_RESULTS]; uint32_t want; int n; } several;

static several wanted(int n, tj_tensor **const *to)
{
	several s = { .want = 1, .n = 1 };
	for (int i = 0; i < n; i++)
		if (to[i]) s.want |= 2u << i, s.n++;
	return s;
}

/* The recorded IR_get of result `which` behind the cursor; NULL: none. Its type needs no guard: it follows from the op, which matched. */
static inline jit_node *next_get(jit_act *a, int which)
{
	jit_node *n = atomic_load_explicit(&a->cursor->child, memory_order_acquire);
	while (n && (n->op != IR_get || n->attr[0] != which)) n = n->sibling;
	return n;
}

static jit_node *step_typed(jit_act *a, const char *site, int op, int64_t which, const ir_meta *m)
{
	int64_t attr[TJ_MAX_RANK + 3] = { which, m->dtype, m->device };
	memcpy(attr + 3, m->dim, m->rank * sizeof *attr);
	return jit_step(a, site, op, 0, NULL, m->rank + 3, attr);
}

tj_tensor *jit_typed(jit_act *a, const char *site, const char *name, int op, int64_t which, const ir_meta *m)
{
	const jit_node *n = step_typed(a, site, op, which, m);
	tj_tensor *t = n ? result_of(a, n) : NULL;
	if (n && !t) jit_error(a->ctx, site, TJ_ERR_NOMEM, name, NULL, "out of memory");
	return t;
}

static jit_node *record_get(jit_act *a, const char *site, int op, int which, int nsrc, tj_tensor *const *src, int nattr,
                            const int64_t *attr)
{
	ir_meta m, in[IR_MOST_SOURCES];
	rt_err err = { 0 };
	for (int k = 0; k < nsrc && k < IR_MOST_SOURCES; k++) in[k] = jit_meta(src[k]);
	if (ir_infer_result((ir_op)op, which, nsrc, in, nattr, attr, &m, &err) != TJ_OK) return jit_report(a->ctx, site, &err), NULL;
	return step_typed(a, site, IR_get, which, &m);
}

static bool get_all(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, several *s)
{
	for (int i = 0, k = 0; k < s->n; i++) {
		if (!(s->want >> i & 1)) continue;
		jit_node *n = next_get(a, i);
		if (RT_LIKELY(n != NULL)) {
			a->cursor = n;
			a->seq = n->seq + 1;
		} else if (!(n = record_get(a, site, op, i, nsrc, src, nattr, attr))) return false;
		s->out[k] = result_of(a, n);
		if (!s->out[k++]) return jit_error(a->ctx, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory"), false;
	}
	return true;
}

static void run_events(tj_ctx *c, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, several *s)
{
	jit_act *a = c->active ? &c->act : NULL;
	bool ok = true;
	if (!a) jit_eager(c, site, (ir_op)op, nsrc, src, nattr, attr, s->want, s->out);
	else ok = jit_step(a, site, op, nsrc, src, nattr, attr) && get_all(a, site, op, nsrc, src, nattr, attr, s);
	for (int k = 0; !ok && k < s->n; k++) s->out[k] = &c->rt.poison;
}

static __attribute__((noinline)) void slow_events(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr,
                                                  several *s)
{
	RT_DEFAULT_MODES;
	JIT_CURRENT(c, site);
	tj_tensor *in[IR_MOST_SOURCES];
	for (int k = 0; k < s->n; k++) s->out[k] = c ? &c->rt.poison : jit_no_context(site, ir_ops[op].name);
	if (!c) return;
	jit_active(c);
	if (jit_admit_all(c, site, ir_ops[op].name, nsrc, src, in) == JIT_OK) run_events(c, site, op, nsrc, in, nattr, attr, s);
}

tj_tensor *jit_events(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, int n,
                      tj_tensor **const *to)
{
	tj_ctx *c = jit_thread_ctx;
	several s = wanted(n, to);
	jit_node *hit = c && c->act.near == jit_me ? next_is(&c->act, op, nsrc, src, nattr, attr) : NULL;
	if (RT_LIKELY(hit != NULL)) {
		c->act.cursor = hit;
		c->act.seq = hit->seq + 1;
		if (!get_all(&c->act, site, op, nsrc, src, nattr, attr, &s))
			for (int k = 0; k < s.n; k++) s.out[k] = &c->rt.poison;
	} else slow_events(site, op, nsrc, src, nattr, attr, &s);
	for (int i = 0, k = 1; i < n; i++)
		if (to[i]) *to[i] = s.out[k++];
	return s.out[0];
}
