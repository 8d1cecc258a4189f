/* SPDX-License-Identifier: MIT */
/* Side exits: why an event did not match the trace. The reason goes to the log, to the program and to tj_explain(). */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/note.h"

/* ---- sizes that depend on data ---- */
enum { SIZED_LINES = 64 }; /* lines remembered for each function */

/* Compares buffers, which live until the call ends, so that views and other handles of a result are found, too. */
static const jit_sized *find_sized(const jit_act *a, const rt_buffer *b)
{
	for (uint32_t i = a->sized.n; b && i-- > 0;)
		if (a->sized.v[i].buf == b) return &a->sized.v[i];
	return NULL;
}

/* Compares sizes, since C may have read the size and passed it on as an attribute. */
static const jit_sized *find_size(const jit_act *a, int64_t size)
{
	for (uint32_t i = a->sized.n; i-- > 0;)
		if (a->sized.v[i].size == size) return &a->sized.v[i];
	return NULL;
}

/* Reported once for each line that makes such a tensor: from its second size on, the size is an argument of the code. */
static bool is_news(tj_fn *f, const char *site)
{
	bool news = true;
	rt_lock(&f->table_lock);
	for (uint32_t i = 0; i < f->sized.n; i++) news &= f->sized.v[i] != site;
	if (news && f->sized.n < SIZED_LINES) rt_push(&f->sized, site);
	rt_unlock(&f->table_lock);
	return news;
}

/* ---- messages ---- */
/* The segment that the recorded event leads to. */
static int segment_of(const jit_node *n)
{
	while (n && !n->segment) n = atomic_load(&n->child);
	return n ? (int)n->segment->number : -1;
}

/* The declared variable that holds the operand. */
static int state_of(const tj_fn *f, const tj_tensor *h)
{
	for (uint32_t j = 0; h && j < f->nstate; j++)
		if (*f->state[j] == h) return (int)j;
	return -1;
}

/* "attribute 1 (start) of slice" */
static int put_attr(char *to, size_t room, const jit_node *n, int k)
{
	const ir_classinfo *c = n->op < IR_OP_COUNT ? &ir_classes[ir_ops[n->op].opclass] : NULL;
	const char *op = jit_event_name(n->op), *name = c && k < c->nattr ? c->attr[k].name : NULL;
	return name ? snprintf(to, room, ", attribute %d (%s) of %s", k, name, op) : snprintf(to, room, ", attribute %d of %s", k, op);
}

static void tell(jit_act *a, const jit_node *n, const char *site, const tj_tensor *h, const gd_why *w, const jit_sized *s)
{
	char text[512];
	int at = snprintf(text, sizeof text, "%s: event %u", a->fn->name, n->seq), state = state_of(a->fn, h);
	if (w->arg >= 0) at += snprintf(text + at, sizeof text - (size_t)at, ", operand %d of %s", w->arg, jit_event_name(n->op));
	if (state >= 0) at += snprintf(text + at, sizeof text - (size_t)at, " (state variable %d)", state);
	if (w->dim >= 0 && w->arg < 0) at += put_attr(text + at, sizeof text - (size_t)at, n, w->dim);
	else if (w->dim >= 0) at += snprintf(text + at, sizeof text - (size_t)at, ", dim %d", w->dim);
	bool captured = w->cause == GD_CAPTURE;
	if (s)
		snprintf(text + at, sizeof text - (size_t)at, ": the size of %s at %s, which depends on data, was %s, is %s; %s", s->op,
		         s->site ? s->site : "?", w->expected, w->found, gd_cause_hint(w->cause));
	else if (w->cause == GD_ATTR)
		snprintf(text + at, sizeof text - (size_t)at, ": expected %s, found %s; %s", w->expected, w->found, gd_cause_hint(w->cause));
	else
		snprintf(text + at, sizeof text - (size_t)at, ": %s differs%s%s: expected %s, found %s; %s", gd_cause_name(w->cause),
		         captured ? " in " : "", captured ? gd_cause_name(w->in) : "", w->expected, w->found, gd_cause_hint(w->cause));
	jit_reason(a->fn, &(tj_reason){ .fn = a->fn->name, .kind = gd_cause_name(w->cause), .arg = w->arg, .dim = w->dim, .event = (int)n->seq,
	                                .expected = w->expected, .found = w->found, .site = site, .hint = gd_cause_hint(w->cause), .text = text,
	                                .state = state, .trace = (int)a->entry->number, .segment = segment_of(n) });
}

/* External `slot`, named by the op before n that read it first. */
static void put_met(char *out, size_t room, const jit_node *n, uint32_t slot)
{
	const char *op = NULL, *site = NULL;
	for (; n && n->parent; n = n->parent)
		for (int k = 0; k < n->nsrc; k++)
			if (n->src[k] == JIT_REF(JIT_EXT, slot)) op = jit_event_name(n->op), site = n->site;
	if (op) snprintf(out, room, "the tensor that %s at %s reads", op, site ? site : "?");
	else snprintf(out, room, "external %u", slot);
}

static void put_layout(char *out, size_t room, const char *what, const rt_layout *l)
{
	rt_text t = { 0 };
	rt_put_layout(&t, l);
	snprintf(out, room, "%s, %s", what, rt_str(&t));
	rt_text_free(&t);
}

static void put_new(char *out, size_t room, const gd_arg *x)
{
	rt_text t = { 0 };
	gd_put_arg(&t, x);
	snprintf(out, room, "a tensor not read before, %s", rt_str(&t));
	rt_text_free(&t);
}

static void put_operand(char *out, size_t room, jit_act *a, const jit_node *n, tj_tensor *const *src, int k)
{
	tj_tensor *h = src[k];
	int same = 0;
	while (src[same] != h) same++;
	const int slot = rt_is_number(h) || (h->kind == RT_PENDING && h->seg == a->seg) ? -1 : jit_find_ext(a, h);
	if (rt_is_number(h)) snprintf(out, room, rt_is_int_number(h) ? "an int number" : "a float number");
	else if (h->kind == RT_PENDING && h->seg == a->seg) snprintf(out, room, "the result of event %u", h->seq);
	else if (same < k) snprintf(out, room, "the same tensor as operand %d", same);
	else if (slot >= 0) put_met(out, room, n->parent, (uint32_t)slot);
	else if (h->kind == RT_PENDING) put_layout(out, room, "another value of an earlier segment", h->layout);
	else put_new(out, room, &(gd_arg){ h->layout, jit_content_id(a->ctx, h), h->kind == RT_CELL ? GD_CELL : GD_VALUE });
}

static void put_recorded(char *out, size_t room, const jit_node *n, int k)
{
	const jit_ref r = n->src[k];
	const uint32_t i = JIT_IDX(r);
	int same = 0;
	while (n->src[same] != r) same++;
	if (JIT_KIND(r) == JIT_EV) snprintf(out, room, "the result of event %u", i);
	else if (JIT_KIND(r) == JIT_FLOAT) snprintf(out, room, "a float number");
	else if (JIT_KIND(r) == JIT_INT) snprintf(out, room, "an int number");
	else if (same < k) snprintf(out, room, "the same tensor as operand %d", same);
	else if (JIT_KIND(r) == JIT_CELL) snprintf(out, room, "cell %u", i);
	else if (i < n->next) put_met(out, room, n->parent, i);
	else {
		const jit_ext *m = &n->met[i - n->next];
		put_new(out, room, &(gd_arg){ m->layout, m->content, m->cell ? GD_CELL : GD_VALUE });
	}
}

/* ---- the first difference ---- */
/* Why a capture differs from the recorded one, when this event is the first to use both. */
static bool compare_capture(jit_act *a, const jit_node *n, jit_ref r, const tj_tensor *h, gd_why *w)
{
	if (JIT_KIND(r) != JIT_EXT || JIT_IDX(r) < n->next || rt_is_number(h) || h->kind == RT_PENDING) return false;
	const jit_ext *m = &n->met[JIT_IDX(r) - n->next];
	gd_arg e = { m->layout, m->content, m->cell ? GD_CELL : GD_VALUE };
	gd_arg f = { h->layout, jit_content_id(a->ctx, h), h->kind == RT_CELL ? GD_CELL : GD_VALUE };
	gd_compare_arg(&e, &f, w);
	return w->cause != GD_SAME;
}

/* Operand k shared the slot of an equal number, and is no longer equal. */
static bool explain_parted(jit_act *a, const jit_node *n, int k, tj_tensor *h, gd_why *w)
{
	jit_ref r = n->src[k];
	if (!rt_is_number(h) || JIT_KIND(r) != (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT) || JIT_IDX(r) >= n->nnum) return false;
	w->cause = GD_PARTED;
	jit_put_numbers(w->expected, w->found, sizeof w->found, rt_is_int_number(h), a->num.v[JIT_IDX(r)], rt_number_bits(h));
	atomic_fetch_add(&a->fn->parted, 1);
	return true;
}

/* Why operand k differs. Returns the result whose data-dependent size it has, or NULL. */
static const jit_sized *explain_operand(jit_act *a, const jit_node *n, int k, tj_tensor *const *src, gd_why *w)
{
	tj_tensor *h = src[k];
	const jit_sized *s = NULL;
	if (explain_parted(a, n, k, h, w)) {
		w->arg = k;
		return NULL;
	}
	if (compare_capture(a, n, n->src[k], h, w)) {
		gd_cause c = w->cause;
		w->in = c;
		if (c == GD_SIZE && (s = find_sized(a, h->buf))) w->cause = GD_DATA_SIZE;
		else if (c == GD_SIZE || c == GD_DEVICE || c == GD_DTYPE || c == GD_RANK || c == GD_STRIDE) w->cause = GD_CAPTURE;
	} else {
		bool ext = JIT_KIND(n->src[k]) == JIT_EXT && !rt_is_number(h) && h->kind != RT_PENDING;
		bool was_number = JIT_KIND(n->src[k]) == JIT_FLOAT || JIT_KIND(n->src[k]) == JIT_INT, is_number = rt_is_number(h);
		w->cause = was_number && is_number ? GD_CATEGORY : was_number || is_number ? GD_NUMBER : ext ? GD_ALIAS : GD_OPERAND;
		put_recorded(w->expected, sizeof w->expected, n, k);
		put_operand(w->found, sizeof w->found, a, n, src, k);
	}
	w->arg = k;
	return s;
}

/* The index of the first operand that does not match; binds nothing. */
static int first_difference(jit_act *a, const jit_node *n, int nsrc, tj_tensor *const *src)
{
	for (int k = 0; k < nsrc; k++) {
		jit_ref r = n->src[k];
		tj_tensor *h = src[k];
		bool number = rt_is_number(h), ok;
		if (number)
			ok = JIT_KIND(r) == (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT) &&
			     (JIT_IDX(r) >= n->nnum || jit_same_number(a, JIT_IDX(r), k, h));
		else if (JIT_KIND(r) == JIT_CELL) ok = JIT_IDX(r) >= a->cell.n || a->cell.v[JIT_IDX(r)] == rt_held_of(h);
		else if (h->kind == RT_PENDING && h->seg == a->seg) ok = r == JIT_REF(JIT_EV, h->seq);
		else {
			gd_why w;
			int slot = jit_find_ext(a, h);
			ok = slot >= 0 ? r == JIT_REF(JIT_EXT, (uint32_t)slot)
			               : JIT_KIND(r) == JIT_EXT && JIT_IDX(r) >= n->next && !compare_capture(a, n, r, h, &w);
		}
		if (!ok) return k;
	}
	return nsrc - 1;
}

static void explain_mode(uint8_t expected, uint8_t found, gd_why *w)
{
	const bool cast = (expected ^ found) & JIT_AUTOCAST;
	w->cause = cast ? GD_AUTOCAST : GD_NUMERICS;
	snprintf(w->expected, sizeof w->expected, "%s", cast ? jit_autocast_name(expected) : expected & IR_FAST ? "TJ_FAST" : "TJ_STRICT");
	snprintf(w->found, sizeof w->found, "%s", cast ? jit_autocast_name(found) : found & IR_FAST ? "TJ_FAST" : "TJ_STRICT");
}

static void put_event(char *out, size_t room, int op, const char *site)
{
	snprintf(out, room, "%s at %s", jit_event_name(op), site ? site : "?");
}

void jit_explain_exit(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	jit_node *n = atomic_load(&a->cursor->child), *best = n;
	for (; n; n = n->sibling)
		if (n->op == op && n->nsrc == nsrc) {
			best = n;
			break;
		}
	n = best;
	gd_why w = { .cause = GD_OP, .arg = -1, .dim = -1 };
	const jit_sized *s = NULL;
	if (n->op != op || n->nsrc != nsrc) {
		if (a->truth && a->cursor == &a->entry->root) w.cause = GD_BRANCH;
		else if (n->op == JIT_RETURN || op == JIT_RETURN) w.cause = GD_END;
		put_event(w.expected, sizeof w.expected, n->op, n->site);
		put_event(w.found, sizeof w.found, op, site);
	} else if (n->nattr != nattr || (nattr && memcmp(n->attr, attr, (size_t)nattr * sizeof *attr))) {
		int k = 0;
		while (k < nattr && k < n->nattr && n->attr[k] == attr[k]) k++;
		w.dim = k;
		s = k < nattr && k < n->nattr ? find_size(a, attr[k]) : NULL;
		w.cause = s ? GD_DATA_SIZE : GD_ATTR;
		snprintf(w.expected, sizeof w.expected, k < n->nattr ? "%lld" : "none", (long long)(k < n->nattr ? n->attr[k] : 0));
		snprintf(w.found, sizeof w.found, k < nattr ? "%lld" : "none", (long long)(k < nattr ? attr[k] : 0));
	} else if (n->mode != jit_mode_of(a, op)) {
		explain_mode(n->mode, jit_mode_of(a, op), &w);
	} else if (nsrc) {
		int k = first_difference(a, n, nsrc, src);
		s = explain_operand(a, n, k, src, &w);
	}
	if (s && !is_news(a->fn, s->site)) return; /* as for other sizes, only the first change is reported */
	tell(a, n, site, w.arg >= 0 ? src[w.arg] : NULL, &w, s);
}
