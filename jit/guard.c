/* SPDX-License-Identifier: MIT */
/* Guards one by one, for tj_explain() and .guard_filter; dropped guards, and the audit of them.
 *
 * Whether a guard was dropped is looked up only when it fails, so that a match costs nothing more. Dropped guards of an event
 * are bits of its node; dropped guards of the key are left out of the key. */
#include "jit/claim.h"
#include "jit/guard.h"
#include "jit/note.h"

enum { ASKED = 1, DROPPED = 2, TOLD = 4 };
typedef struct jit_asked {
	atomic_uchar is;
	atomic_ullong first; /* the value when the filter was called */
} jit_asked;

/* ---- the list ---- */
static void show(const tj_fn *f, tj_guard g, rt_text *t, bool dropped, jit_see_guard *see, void *self)
{
	g.fn = f->name;
	g.text = rt_str(t);
	if (!g.site) g.site = "?";
	see(self, &g, dropped);
	t->n = 0;
	if (t->s) t->s[0] = 0;
}

static bool asked_dropped(const tj_fn *f, uint32_t place) { return f->asked && atomic_load(&f->asked[place].is) & DROPPED; }

void jit_each_entry_guard(tj_fn *f, const jit_entry *e, jit_see_guard *see, void *self)
{
	rt_text t = { 0 };
	for (uint32_t i = 0; i < e->sig.narg; i++) {
		rt_putf(&t, "argument %u is ", i);
		gd_put_arg(&t, &(gd_arg){ e->sig.arg[i].layout, 0, e->sig.arg[i].kind });
		show(f, (tj_guard){ .kind = "argument", .arg = (int)i, .dim = -1, .event = -1, .site = f->site }, &t, false, see, self);
		if (!e->sig.arg[i].content && !asked_dropped(f, i)) continue;
		bool dropped = asked_dropped(f, i);
		rt_putf(&t, "argument %u is constant #%llu", i, dropped ? atomic_load(&f->asked[i].first) : (unsigned long long)e->sig.arg[i].content);
		show(f, (tj_guard){ .kind = "constant", .arg = (int)i, .dim = -1, .event = -1, .site = f->site, .droppable = true }, &t,
		     dropped, see, self);
	}
	for (uint32_t i = 0, k = 0; i < e->sig.nint; i++, k++) {
		while (e->sig.nfloat >> k & 1) k++;
		uint32_t place = (uint32_t)f->opts.nin + f->nstate + k;
		bool dropped = asked_dropped(f, place);
		rt_putf(&t, "int scalar %u is %lld", k, dropped ? (long long)atomic_load(&f->asked[place].first) : (long long)e->sig.ints[i]);
		show(f, (tj_guard){ .kind = "scalar", .arg = (int)k, .dim = -1, .event = -1, .site = f->site, .droppable = true }, &t,
		     dropped, see, self);
	}
	rt_text_free(&t);
}

static void put_event(const jit_node *n, rt_text *t) { rt_putf(t, "%s at %s", jit_event_name(n->op), n->site ? n->site : "?"); }

static int operand_of(const jit_node *n, uint32_t slot)
{
	for (int k = 0; k < n->nsrc; k++)
		if (n->src[k] == JIT_REF(JIT_EXT, slot)) return k;
	return -1;
}

static void each_met(tj_fn *f, const jit_node *n, rt_text *t, jit_see_guard *see, void *self)
{
	for (int i = 0; i < n->nmet; i++) {
		const jit_ext *m = &n->met[i];
		int k = operand_of(n, n->next + (uint32_t)i);
		put_event(n, t);
		rt_puts(t, " meets ");
		gd_put_arg(t, &(gd_arg){ m->layout, 0, m->cell ? GD_CELL : GD_VALUE });
		show(f, (tj_guard){ .kind = "capture", .arg = k, .dim = -1, .event = (int)n->seq, .site = n->site }, t, false, see, self);
		if (!m->content) continue;
		put_event(n, t);
		rt_putf(t, " meets constant #%llu", (unsigned long long)m->content);
		show(f, (tj_guard){ .kind = "constant", .arg = k, .dim = -1, .event = (int)n->seq, .site = n->site, .droppable = true }, t,
		     m->loose, see, self);
	}
}

/* The guard of a dtype attribute cannot be dropped. */
static bool is_dtype(const jit_node *n, int k) { return k == 0 && ir_classes[ir_ops[n->op].opclass].attr[0].kind == 'd'; }

void jit_each_node_guard(tj_fn *f, const jit_node *n, jit_see_guard *see, void *self)
{
	rt_text t = { 0 };
	each_met(f, n, &t, see, self);
	/* Guards of IR_cond, IR_while, IR_scan are shown, but cannot be dropped. PARAM and IR_get have none: their types follow from other
	 * guards. */
	const bool op = n->op < IR_OPS;
	const uint8_t other = op && ir_has_mode(n->op) ? n->mode ^ jit_mode(f, 0) : 0;
	if (other & IR_FAST) {
		put_event(n, &t);
		rt_putf(&t, " has the numerics of a nested call: %s", n->mode & IR_FAST ? "TJ_FAST" : "TJ_STRICT");
		show(f, (tj_guard){ .kind = "numerics", .arg = -1, .dim = -1, .event = (int)n->seq, .site = n->site }, &t, false, see, self);
	}
	if (other & JIT_AUTOCAST) {
		put_event(n, &t);
		rt_putf(&t, " has the autocast of a nested call: %s", jit_autocast_name(n->mode));
		show(f, (tj_guard){ .kind = "autocast", .arg = -1, .dim = -1, .event = (int)n->seq, .site = n->site }, &t, false, see, self);
	}
	for (int k = 0; k < n->nattr && (op || ir_is_flow(n->op)); k++) {
		put_event(n, &t);
		rt_putf(&t, ": attribute %d is %lld", k, (long long)n->attr[k]);
		show(f,
		     (tj_guard){ .kind = "attribute",
		                 .arg = -1,
		                 .dim = k,
		                 .event = (int)n->seq,
		                 .site = n->site,
		                 .droppable = op && k < JIT_LOOSE_ATTRS && !is_dtype(n, k) },
		     &t, k < JIT_LOOSE_ATTRS && n->loose >> k & 1, see, self);
	}
	for (int k = 0; k < n->nsrc; k++) {
		bool number = JIT_KIND(n->src[k]) == JIT_FLOAT || JIT_KIND(n->src[k]) == JIT_INT;
		if (!number || JIT_IDX(n->src[k]) >= n->nnum) continue;
		put_event(n, &t);
		rt_putf(&t, ": operand %d equals number %u of the segment", k, JIT_IDX(n->src[k]));
		show(f, (tj_guard){ .kind = "numbers", .arg = k, .dim = -1, .event = (int)n->seq, .site = n->site, .droppable = true }, &t,
		     n->loose & JIT_LOOSE_NUMBERS, see, self);
	}
	rt_text_free(&t);
}

/* ---- the log ---- */
typedef struct logged { const rt_log_to *to; char where[JIT_WHERE]; } logged;
static void log_guard(void *self, const tj_guard *g, bool dropped)
{
	const logged *l = self;
	rt_log(l->to, RT_LOG_GUARDS, "[%s] %s%s", l->where, g->text, dropped ? " (dropped)" : "");
}

void jit_log_guards(tj_fn *f, const jit_entry *e, const jit_node *boundary)
{
	logged l = { .to = &f->engine->rt.log };
	if (!rt_logs(l.to, RT_LOG_GUARDS)) return;
	jit_where(l.where, f, e, boundary ? (int)boundary->segment->number : -1);
	if (!boundary) jit_each_entry_guard(f, e, log_guard, &l);
	for (const jit_node *n = boundary; n && n->parent; n = n->parent) jit_each_node_guard(f, n, log_guard, &l);
}

/* ---- the filter for guards of an event ---- */
typedef struct filtering { tj_fn *f; jit_node *n; int met; } filtering;
static void filter_guard(void *self, const tj_guard *g, bool dropped)
{
	filtering *x = self;
	(void)dropped;
	bool content = !strcmp(g->kind, "constant");
	if (!strcmp(g->kind, "capture")) x->met++;
	JIT_CALLS_BACK;
	if (x->f->opts.guard_filter(x->f->opts.guard_filter_self, g) || !g->droppable) return;
	if (content) ((jit_ext *)(uintptr_t)x->n->met)[x->met - 1].loose = true;
	else x->n->loose |= g->dim >= 0 ? 1u << g->dim : JIT_LOOSE_NUMBERS;
}

void jit_filter_node(tj_fn *f, jit_node *n)
{
	if (f->opts.guard_filter) jit_each_node_guard(f, n, filter_guard, &(filtering){ f, n, 0 });
}

/* ---- the filter for guards of the key ---- */
bool jit_make_asked(tj_fn *f)
{
	if (!f->opts.guard_filter) return true;
	f->asked = rt_calloc(((size_t)f->opts.nin + f->nstate + GD_MAX_SCALARS) * sizeof *f->asked);
	return f->asked != NULL;
}

static bool drops(tj_fn *f, uint32_t place, uint64_t value, tj_guard g, const char *fmt, int arg)
{
	jit_asked *a = &f->asked[place];
	if (atomic_load(&a->is) & ASKED) return atomic_load(&a->is) & DROPPED;
	rt_text t = { 0 };
	rt_putf(&t, fmt, arg, (long long)value);
	g.fn = f->name;
	g.text = rt_str(&t);
	g.dim = g.event = -1;
	g.arg = arg;
	g.droppable = true;
	JIT_CALLS_BACK;
	bool keep = f->opts.guard_filter(f->opts.guard_filter_self, &g);
	rt_text_free(&t);
	atomic_store(&a->first, value);
	atomic_fetch_or(&a->is, keep ? ASKED : ASKED | DROPPED);
	return !keep;
}

bool jit_drops_content(tj_fn *f, uint32_t place, uint64_t content, const char *site)
{
	return f->asked && content &&
	       drops(f, place, content, (tj_guard){ .kind = "constant", .site = site ? site : f->site }, "argument %d is constant #%lld",
	             (int)place);
}

bool jit_drops_scalar(tj_fn *f, uint32_t k, int64_t value)
{
	return f->asked && drops(f, (uint32_t)f->opts.nin + f->nstate + k, (uint64_t)value, (tj_guard){ .kind = "scalar", .site = f->site },
	                         "int scalar %d is %lld", (int)k);
}

/* ---- audit ---- */
static void tell(tj_fn *f, tj_reason r, const char *what)
{
	char text[512];
	r.fn = f->name;
	r.kind = "unguarded";
	r.hint = "keep this guard in .guard_filter, or keep the value the same";
	r.state = r.trace = r.segment = -1;
	snprintf(text, sizeof text, "%s: a guard that was dropped would have failed: %s was %s, is %s; %s", f->name, what, r.expected,
	         r.found, r.hint);
	r.text = text;
	jit_reason(f, &r);
}

static void audit_place(tj_fn *f, const char *site, uint32_t place, uint64_t found, const char *name, int arg)
{
	jit_asked *a = &f->asked[place];
	char expected[32], is[32], what[48];
	if (!(atomic_load(&a->is) & DROPPED) || atomic_load(&a->first) == found || atomic_fetch_or(&a->is, TOLD) & TOLD) return;
	snprintf(expected, sizeof expected, "%lld", (long long)atomic_load(&a->first));
	snprintf(is, sizeof is, "%lld", (long long)found);
	snprintf(what, sizeof what, name, arg);
	tell(f, (tj_reason){ .arg = arg, .dim = -1, .event = -1, .expected = expected, .found = is, .site = site }, what);
}

void jit_audit_key(tj_ctx *c, tj_fn *f, const char *site, tj_list in, const tj_scalar *scalars)
{
	uint32_t nin = (uint32_t)f->opts.nin;
	if (!c->engine->audit || !f->asked) return;
	for (uint32_t i = 0; i < nin + f->nstate; i++) {
		const tj_tensor *t = i < nin ? in[i] : *f->state[i - nin];
		if (!rt_is_number(t)) audit_place(f, site, i, jit_content_id(c, t), "the content of argument %d", (int)i);
	}
	for (uint32_t k = 0; scalars && scalars[k].kind != TJ_SCALAR_END; k++)
		if (scalars[k].kind == TJ_SCALAR_I) audit_place(f, site, nin + f->nstate + k, (uint64_t)scalars[k].i, "int scalar %d", (int)k);
}

/* Reported once for each event; the node is marked. */
static void tell_node(const jit_act *a, const jit_node *n, int arg, int dim, const char *what, const char *expected, const char *found)
{
	tj_fn *f = a->fn;
	uint32_t *mark = (uint32_t *)(uintptr_t)&n->loose;
	if (__atomic_fetch_or(mark, JIT_LOOSE_TOLD, __ATOMIC_RELAXED) & JIT_LOOSE_TOLD) return;
	char all[256];
	snprintf(all, sizeof all, "%s of %s at %s", what, jit_event_name(n->op), n->site ? n->site : "?");
	tell(f,
	     (tj_reason){
		     .arg = arg, .dim = dim, .event = (int)n->seq, .expected = expected, .found = found, .site = n->site ? n->site : "?" },
	     all);
}

bool jit_loose_attr(const jit_node *n, int k, int64_t found)
{
	char was[32], is[32], what[32];
	uint32_t loose = __atomic_load_n(&n->loose, __ATOMIC_RELAXED);
	if (k >= JIT_LOOSE_ATTRS || !(loose >> k & 1)) return false;
	if (!jit_thread_ctx->engine->audit) return true;
	snprintf(was, sizeof was, "%lld", (long long)n->attr[k]);
	snprintf(is, sizeof is, "%lld", (long long)found);
	snprintf(what, sizeof what, "attribute %d", k);
	tell_node(&jit_thread_ctx->act, n, -1, k, what, was, is);
	return true;
}

bool jit_loose_content(const jit_act *a, const jit_ext *want, const tj_tensor *h)
{
	if (!want->loose || !a->ctx->engine->audit) return want->loose;
	const jit_node *n = atomic_load(&a->cursor->child); /* the sibling that `want` belongs to */
	while (n && !(want >= n->met && want < n->met + n->nmet)) n = n->sibling;
	if (n) {
		char was[48], is[48];
		snprintf(was, sizeof was, "constant #%llu", (unsigned long long)want->content);
		snprintf(is, sizeof is, "constant #%llu", (unsigned long long)jit_content_id(a->ctx, h));
		tell_node(a, n, operand_of(n, n->next + (uint32_t)(want - n->met)), -1, "the constant used as an operand", was, is);
	}
	return true;
}

bool jit_loose_number(const jit_act *a, const jit_node *n, uint32_t slot, const tj_tensor *h)
{
	char was[48], is[48];
	if (!(__atomic_load_n(&n->loose, __ATOMIC_RELAXED) & JIT_LOOSE_NUMBERS)) return false;
	if (!a->ctx->engine->audit) return true;
	jit_put_numbers(was, is, sizeof is, rt_is_int_number(h), a->num.v[slot], rt_number_bits(h));
	tell_node(a, n, -1, -1, "a number", was, is);
	return true;
}
