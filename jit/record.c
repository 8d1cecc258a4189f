/* Recording: nodes behind the last matched event, private until their boundary succeeds; then they become part of the trace. */
#include "jit/jit.h"

const char *jit_event_name(int op)
{
	static const char *const names[] = {
#define X(kind, name) name,
		JIT_EVENTS(X)
#undef X
	};
	return op < IR_OP_COUNT ? ir_ops[op].name : names[op - IR_OP_COUNT];
}

/* ---- nodes ---- */
static jit_node *new_node(int nsrc, int nattr, int nmet)
{
	size_t attr = sizeof(jit_node), met = attr + (size_t)nattr * sizeof(int64_t);
	size_t src = met + (size_t)nmet * sizeof(jit_ext), all = src + (size_t)nsrc * sizeof(jit_ref);
	char *p = rt_calloc(all);
	if (!p) return NULL;
	jit_node *n = (jit_node *)(void *)p;
	n->attr = (const int64_t *)(void *)(p + attr);
	n->met = (const jit_ext *)(void *)(p + met);
	n->src = (const jit_ref *)(void *)(p + src);
	n->nsrc = (uint16_t)nsrc;
	n->nattr = (uint16_t)nattr;
	n->nmet = (uint16_t)nmet;
	return n;
}

void jit_free_node(jit_node *n)
{
	for (int i = 0; i < n->nmet; i++) rt_layout_unref(n->met[i].layout);
	rt_layout_unref(n->layout);
	if (n->segment) {
		for (jit_plan *p = atomic_load(&n->segment->plan), *older; p; p = older) {
			older = p->older;
			jit_plan_unref(p);
		}
		for (uint32_t i = 0; i < n->segment->inner.n; i++) rt_layout_unref(n->segment->inner.v[i].layout);
		rt_vec_free(&n->segment->inner);
		rt_vec_free(&n->segment->keep);
		rt_free(n->segment);
	}
	rt_free(n);
}

/* Frees a trie without recursion: the children of a node take its place in the list. */
void jit_free_trie(jit_node *first)
{
	for (jit_node *n = first, *next; n; n = next) {
		next = n->sibling;
		jit_node *child = atomic_load(&n->child), *last = child;
		while (last && last->sibling) last = last->sibling;
		if (last) {
			last->sibling = next;
			next = child;
		}
		jit_free_node(n);
	}
}

/* ---- operands ---- */

/* The operands of an event as references. New externals and cells are appended to the activation and described in met. */
typedef struct operands { jit_ref *src; jit_ext *met; int nmet; int op; const char *site; } operands;

/* The slot of an equal number that the same line gave the same op before (a constant in a loop). Both share the slot, so that
 * common subexpressions are found; a guard of this event checks that they stay equal. After PARTED_MOST failures of such
 * guards, numbers of the function get slots of their own. */
enum { LOOK_BACK = 256, PARTED_MOST = 4 };
static int equal_number(const jit_act *a, const operands *o, int k, const tj_tensor *h)
{
	int left = LOOK_BACK;
	if (!o->site || o->op >= IR_OPS || atomic_load_explicit(&a->fn->parted, memory_order_relaxed) >= PARTED_MOST) return -1;
	for (const jit_node *n = a->cursor; n->parent && left--; n = n->parent) {
		if (n->op != o->op || n->site != o->site || k >= n->nsrc) continue;
		jit_ref r = n->src[k];
		if (JIT_KIND(r) == (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT) && jit_same_number(a, JIT_IDX(r), k, h)) return (int)JIT_IDX(r);
	}
	return -1;
}

static bool cell_ref(jit_act *a, int k, tj_tensor *h, operands *o, jit_ref *out)
{
	(void)k;
	for (uint32_t i = 0; i < a->cell.n; i++)
		if (a->cell.v[i] == rt_held_of(h)) {
			*out = JIT_REF(JIT_CELL, i);
			return true;
		}
	*out = JIT_REF(JIT_CELL, a->cell.n);
	o->met[o->nmet++] = (jit_ext){ h->layout, 0, true, false };
	return rt_push(&a->cell, rt_held_of(h));
}

static bool operand_ref(jit_act *a, int k, tj_tensor *h, operands *o, jit_ref *out)
{
	if (rt_is_number(h)) {
		int same = equal_number(a, o, k, h);
		*out = JIT_REF(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT, same >= 0 ? (uint32_t)same : a->num.n);
		return same >= 0 || jit_bind_number(a, k, h);
	}
	if (h->kind == RT_PENDING && h->seg == a->seg) {
		*out = JIT_REF(JIT_EV, h->seq);
		return true;
	}
	int slot = jit_find_ext(a, h);
	if (slot >= 0) {
		*out = JIT_REF(JIT_EXT, (uint32_t)slot);
		return true;
	}
	*out = JIT_REF(JIT_EXT, a->ext.n);
	if (!jit_bind_ext(a, h, &o->met[o->nmet])) return false;
	o->nmet++;
	jit_index_ext(a, a->ext.n - 1);
	return true;
}

/* An ASSIGN has the value first, then the cell, so that a new cell is the last element of met. */
static bool make_refs(jit_act *a, int op, int nsrc, tj_tensor *const *src, operands *o)
{
	for (int k = 0; k < nsrc; k++)
		if (!(op == JIT_ASSIGN && k == 1 ? cell_ref : operand_ref)(a, k, src[k], o, &o->src[k])) return false;
	return true;
}

/* ---- the result ---- */
bool jit_creates(int nsrc, const ir_meta *src)
{
	for (int k = 0; k < nsrc; k++)
		if (!src[k].weak) return false;
	return true;
}

static bool infer(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, const rt_layout **out)
{
	rt_err err = { 0 };
	ir_meta m, *meta = rt_arena_alloc(&a->mem, ((size_t)nsrc + 2) * sizeof *meta);
	if (!meta) return jit_error(a->ctx, site, TJ_ERR_NOMEM, ir_ops[op].name, NULL, "out of memory"), false;
	for (int k = 0; k < nsrc; k++) meta[k] = jit_meta(src[k]);
	if (ir_ops[op].flags & IR_RNG) {
		meta[nsrc] = meta[nsrc + 1] = (ir_meta){ .dtype = TJ_I64, .weak = true };
		nsrc += 2;
	}
	if (ir_infer((ir_op)op, nsrc, meta, nattr, attr, &m, NULL, NULL, NULL, &err) != TJ_OK) return jit_report(a->ctx, site, &err), false;
	if (jit_creates(nsrc, meta) && !m.weak && op != IR_to) m.device = (uint8_t)a->ctx->engine->device;
	if (ir_ops[op].nresult > 1) return true; /* each of its IR_gets has one */
	*out = rt_layout_get(&a->ctx->engine->rt.layouts, (tj_dtype)m.dtype, m.device, m.rank, m.dim, NULL);
	if (!*out) jit_error(a->ctx, site, TJ_ERR_SHAPE, ir_ops[op].name, NULL, "the size of the result overflows");
	return *out != NULL;
}

/* The type of a PARAM or an IR_get is in its attributes. */
static bool declared(jit_act *a, const char *site, int op, int nattr, const int64_t *attr, const rt_layout **out)
{
	if (op != JIT_PARAM && op != IR_get) return true;
	*out = rt_layout_get(&a->ctx->engine->rt.layouts, (tj_dtype)attr[1], (int)attr[2], nattr - 3, attr + 3, NULL);
	if (!*out) jit_error(a->ctx, site, TJ_ERR_SHAPE, jit_event_name(op), NULL, "the size of the result overflows");
	return *out != NULL;
}

static void start_recording(jit_act *a)
{
	a->started = rt_now_ms();
	JIT_COUNT(a->fn, recordings);
	if (!a->recorded && atomic_load(&a->cursor->child)) JIT_COUNT(a->fn, side_exits);
	a->recorded = true;
}

jit_node *jit_record(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	const rt_layout *layout = NULL;
	if (op < IR_OPS ? !infer(a, site, op, nsrc, src, nattr, attr, &layout) : !declared(a, site, op, nattr, attr, &layout)) return NULL;
	uint32_t next = a->ext.n, nnum = a->num.n, ncell = a->cell.n;
	operands o = { rt_arena_alloc(&a->mem, (size_t)(nsrc + 1) * sizeof *o.src), rt_arena_alloc(&a->mem, (size_t)(nsrc + 1) * sizeof *o.met), 0, op, site };
	jit_node *n = NULL;
	if (nsrc <= UINT16_MAX && o.src && o.met && make_refs(a, op, nsrc, src, &o)) n = new_node(nsrc, nattr, o.nmet);
	if (!n) {
		rt_layout_unref(layout);
		jit_error(a->ctx, site, TJ_ERR_NOMEM, jit_event_name(op), NULL, "out of memory");
		return NULL;
	}
	if (nattr) memcpy((int64_t *)(uintptr_t)n->attr, attr, (size_t)nattr * sizeof *attr);
	if (nsrc) memcpy((jit_ref *)(uintptr_t)n->src, o.src, (size_t)nsrc * sizeof *o.src);
	if (o.nmet) memcpy((jit_ext *)(uintptr_t)n->met, o.met, (size_t)o.nmet * sizeof *o.met);
	for (int i = 0; i < o.nmet; i++) rt_layout_ref(n->met[i].layout);
	n->op = (uint16_t)op;
	n->mode = jit_mode_of(a, op);
	n->draws = op < IR_OPS && ir_ops[op].flags & IR_RNG;
	n->seq = a->seq;
	if (layout) n->value = (rt_head){ RT_PENDING, layout->dtype, layout->rank, 0, a->seq };
	n->next = next;
	n->nnum = nnum;
	n->ncell = ncell;
	n->layout = layout;
	n->site = site;
	n->parent = a->cursor;
	jit_filter_node(a->fn, n);
	if (a->fresh) atomic_store_explicit(&a->cursor->child, n, memory_order_relaxed); /* both are private */
	else {
		start_recording(a);
		a->fresh = n;
	}
	return n;
}

bool jit_same_node(const jit_node *x, const jit_node *y)
{
	if (x->op != y->op || x->mode != y->mode || x->nsrc != y->nsrc || x->nattr != y->nattr || x->nmet != y->nmet || x->layout != y->layout) return false;
	if (x->nattr && memcmp(x->attr, y->attr, x->nattr * sizeof *x->attr)) return false;
	if (x->nsrc && memcmp(x->src, y->src, x->nsrc * sizeof *x->src)) return false;
	for (int i = 0; i < x->nmet; i++)
		if (x->met[i].layout != y->met[i].layout || x->met[i].content != y->met[i].content || x->met[i].cell != y->met[i].cell) return false;
	return true;
}

/* ---- the reason for a side exit ---- */

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

static void tell(jit_act *a, const jit_node *n, const char *site, const tj_tensor *h, const gd_why *w, const jit_sized *s)
{
	char text[512];
	int at = snprintf(text, sizeof text, "%s: event %u", a->fn->name, n->seq), state = state_of(a->fn, h);
	if (w->arg >= 0) at += snprintf(text + at, sizeof text - (size_t)at, ", operand %d", w->arg);
	if (state >= 0) at += snprintf(text + at, sizeof text - (size_t)at, " (state variable %d)", state);
	if (w->dim >= 0) at += snprintf(text + at, sizeof text - (size_t)at, ", dim %d", w->dim);
	bool captured = w->cause == GD_CAPTURE;
	if (s) snprintf(text + at, sizeof text - (size_t)at, ": the size of %s at %s, which depends on data, was %s, is %s; %s", s->op, s->site ? s->site : "?", w->expected, w->found, gd_cause_hint(w->cause));
	else snprintf(text + at, sizeof text - (size_t)at, ": %s differs%s%s: expected %s, found %s; %s", gd_cause_name(w->cause), captured ? " in " : "",
	         captured ? gd_cause_name(w->in) : "", w->expected, w->found, gd_cause_hint(w->cause));
	jit_reason(a->fn, &(tj_reason){ .fn = a->fn->name, .kind = gd_cause_name(w->cause), .arg = w->arg, .dim = w->dim, .event = (int)n->seq,
	                                .expected = w->expected, .found = w->found, .site = site, .hint = gd_cause_hint(w->cause), .text = text,
	                                .state = state, .trace = (int)a->entry->number, .segment = segment_of(n) });
}

void jit_put_numbers(char *was, char *is, size_t room, bool is_int, uint64_t before, uint64_t now)
{
	const uint64_t bits[2] = { before, now };
	char *const to[2] = { was, is };
	for (int digits = 9; digits <= 17; digits += 8) { /* enough digits to show the difference */
		for (int i = 0; i < 2; i++)
			if (is_int) snprintf(to[i], room, "%lld", (long long)bits[i]);
			else snprintf(to[i], room, "%.*g", digits, rt_double(bits[i]));
		if (strcmp(was, is) != 0) return;
	}
}

static void put_operand(char *out, size_t room, const jit_act *a, const tj_tensor *h)
{
	if (rt_is_number(h)) snprintf(out, room, rt_is_int_number(h) ? "an int number" : "a float number");
	else if (h->kind == RT_PENDING && h->seg == a->seg) snprintf(out, room, "the result of event %u", h->seq);
	else {
		rt_text t = { 0 };
		gd_put_arg(&t, &(gd_arg){ h->layout, jit_content_id(a->fn, h), h->kind == RT_CELL ? GD_CELL : GD_VALUE });
		snprintf(out, room, "external %s", rt_str(&t));
		rt_text_free(&t);
	}
}

static void put_recorded(char *out, size_t room, const jit_node *n, jit_ref r)
{
	uint32_t i = JIT_IDX(r);
	if (JIT_KIND(r) == JIT_EV) snprintf(out, room, "the result of event %u", i);
	else if (JIT_KIND(r) == JIT_FLOAT) snprintf(out, room, "a float number");
	else if (JIT_KIND(r) == JIT_INT) snprintf(out, room, "an int number");
	else if (i >= n->next && JIT_KIND(r) == JIT_EXT) {
		rt_text t = { 0 };
		const jit_ext *m = &n->met[i - n->next];
		gd_put_arg(&t, &(gd_arg){ m->layout, m->content, m->cell ? GD_CELL : GD_VALUE });
		snprintf(out, room, "external %s", rt_str(&t));
		rt_text_free(&t);
	} else snprintf(out, room, "%s %u", JIT_KIND(r) == JIT_CELL ? "cell" : "external", i);
}

/* Why a capture differs from the recorded one, when this event is the first to use both. */
static bool compare_capture(jit_act *a, const jit_node *n, jit_ref r, const tj_tensor *h, gd_why *w)
{
	if (JIT_KIND(r) != JIT_EXT || JIT_IDX(r) < n->next || rt_is_number(h) || h->kind == RT_PENDING) return false;
	const jit_ext *m = &n->met[JIT_IDX(r) - n->next];
	gd_arg e = { m->layout, m->content, m->cell ? GD_CELL : GD_VALUE };
	gd_arg f = { h->layout, jit_content_id(a->fn, h), h->kind == RT_CELL ? GD_CELL : GD_VALUE };
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
static const jit_sized *explain_operand(jit_act *a, const jit_node *n, int k, tj_tensor *h, gd_why *w)
{
	const jit_sized *s = NULL;
	if (explain_parted(a, n, k, h, w)) {
		w->arg = k;
		return NULL;
	}
	if (compare_capture(a, n, n->src[k], h, w)) {
		gd_cause c = w->cause;
		w->in = c;
		if (c == GD_SIZE && (s = jit_find_sized(a, h->buf))) w->cause = GD_DATA_SIZE;
		else if (c == GD_SIZE || c == GD_DEVICE || c == GD_DTYPE || c == GD_RANK || c == GD_STRIDE) w->cause = GD_CAPTURE;
	} else {
		bool ext = JIT_KIND(n->src[k]) == JIT_EXT && !rt_is_number(h) && !(h->kind == RT_PENDING && h->seg == a->seg);
		bool was_number = JIT_KIND(n->src[k]) == JIT_FLOAT || JIT_KIND(n->src[k]) == JIT_INT, is_number = rt_is_number(h);
		w->cause = was_number && is_number ? GD_CATEGORY : was_number || is_number ? GD_NUMBER : ext ? GD_ALIAS : GD_OPERAND;
		put_recorded(w->expected, sizeof w->expected, n, n->src[k]);
		put_operand(w->found, sizeof w->found, a, h);
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
		if (number) ok = JIT_KIND(r) == (uint32_t)(rt_is_int_number(h) ? JIT_INT : JIT_FLOAT) && (JIT_IDX(r) >= n->nnum || jit_same_number(a, JIT_IDX(r), k, h));
		else if (JIT_KIND(r) == JIT_CELL) ok = JIT_IDX(r) >= a->cell.n || a->cell.v[JIT_IDX(r)] == rt_held_of(h);
		else if (h->kind == RT_PENDING && h->seg == a->seg) ok = r == JIT_REF(JIT_EV, h->seq);
		else {
			gd_why w;
			int slot = jit_find_ext(a, h);
			ok = slot >= 0 ? r == JIT_REF(JIT_EXT, (uint32_t)slot) : JIT_KIND(r) == JIT_EXT && JIT_IDX(r) >= n->next && !compare_capture(a, n, r, h, &w);
		}
		if (!ok) return k;
	}
	return nsrc - 1;
}

static void put_event(char *out, size_t room, int op, const char *site) { snprintf(out, room, "%s at %s", jit_event_name(op), site ? site : "?"); }

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
		s = k < nattr && k < n->nattr ? jit_find_size(a, attr[k]) : NULL;
		w.cause = s ? GD_DATA_SIZE : GD_ATTR;
		snprintf(w.expected, sizeof w.expected, k < n->nattr ? "%lld" : "none", (long long)(k < n->nattr ? n->attr[k] : 0));
		snprintf(w.found, sizeof w.found, k < nattr ? "%lld" : "none", (long long)(k < nattr ? attr[k] : 0));
	} else if (n->mode != jit_mode_of(a, op)) {
		w.cause = GD_NUMERICS;
		snprintf(w.expected, sizeof w.expected, "%s", n->mode & IR_FAST ? "TJ_FAST" : "TJ_STRICT");
		snprintf(w.found, sizeof w.found, "%s", n->mode & IR_FAST ? "TJ_STRICT" : "TJ_FAST");
	} else if (nsrc) {
		int k = first_difference(a, n, nsrc, src);
		s = explain_operand(a, n, k, src[k], &w);
	}
	if (s && !jit_sized_news(a->fn, s->site)) return; /* as for other sizes, only the first change is reported */
	tell(a, n, site, w.arg >= 0 ? src[w.arg] : NULL, &w, s);
}
