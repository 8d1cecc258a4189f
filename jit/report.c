/* SPDX-License-Identifier: MIT */
/* A function as data, for reports: what explain.c, decision.c and dump.c say as text. docs/REPORT.md describes the fields. */
#include "jit/ctx.h"
#include "jit/guard.h"
#include "jit/note.h"

/* Sizes of a signature have traces that are alike: WHOLE of them are written with their plans, and LISTED at all. */
enum { WHOLE = 3, LISTED = 64 };

/* ---- counters ---- */
static void put_stats(tj_fn *f, rt_json *j)
{
	/* clang-format off */
#define COUNTS(X) \
	X(calls) X(hits) X(recordings) X(side_exits) X(boundaries) X(recomputed) X(failures) X(entries) X(segments) X(plans) X(kernels) \
	X(library_calls) X(eval_steps) X(evictions) X(code_bytes) X(direct) X(audits) X(sizes) X(compiles) X(compiled) X(shared) \
	X(hits_last) X(hits_key) X(hits_table) X(signatures) X(nested) X(checks) X(events) X(replays) X(moved_bytes) X(peak_bytes) \
	X(kept_bytes) X(kept_values) X(computed_again) X(bytes) X(replayed) X(loaded)
#define TIMES(X) X(trace_ms) X(lower_ms) X(codegen_ms) X(check_ns) X(event_ns)
	/* clang-format on */
#define ONE(field) +1
	_Static_assert(sizeof(tj_stats) == sizeof(size_t) + 8 * (COUNTS(ONE) TIMES(ONE)), "a field is missing");
#undef ONE
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	rt_json_open(j, "stats", '{');
#define X(field) rt_json_count(j, #field, s.field);
	COUNTS(X)
#undef X
#define X(field) rt_json_number(j, #field, s.field);
	TIMES(X)
#undef X
	rt_json_close(j, '}');
#undef COUNTS
#undef TIMES
}

/* ---- messages ---- */
static void put_number(rt_json *j, const char *key, int v)
{
	if (v >= 0) rt_json_int(j, key, v);
}

static void put_reason(const jit_line *l, rt_json *j)
{
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "kind", l->r.kind);
	rt_json_str(j, "text", l->r.text);
	rt_json_str(j, "site", l->r.site);
	rt_json_str(j, "cure", l->r.hint);
	if (l->r.expected && *l->r.expected) rt_json_str(j, "expected", l->r.expected);
	if (l->r.found && *l->r.found) rt_json_str(j, "found", l->r.found);
	put_number(j, "argument", l->r.arg);
	put_number(j, "dim", l->r.dim);
	put_number(j, "event", l->r.event);
	put_number(j, "state", l->r.state);
	put_number(j, "trace", l->r.trace);
	put_number(j, "segment", l->r.segment);
	rt_json_count(j, "times", l->times);
	rt_json_close(j, '}');
}

static void put_ring(const jit_ring *r, const char *key, rt_json *j)
{
	rt_json_open(j, key, '{');
	rt_json_count(j, "told", r->told); /* also those that are forgotten */
	rt_json_open(j, "last", '[');
	for (uint32_t i = r->n > JIT_REASONS ? r->n - JIT_REASONS : 0; i < r->n; i++)
		if (r->line[i % JIT_REASONS].text) put_reason(&r->line[i % JIT_REASONS], j);
	rt_json_close(j, ']');
	rt_json_close(j, '}');
}

/* ---- guards and events ---- */
static void put_guard(void *self, const tj_guard *g, bool dropped)
{
	rt_json *j = self;
	if (!strcmp(g->kind, "attribute") && !dropped) return; /* the event has its attributes */
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "kind", g->kind);
	rt_json_str(j, "text", g->text);
	put_number(j, "argument", g->arg);
	if (dropped) rt_json_bool(j, "dropped", true);
	rt_json_close(j, '}');
}

static void put_event(tj_fn *f, const jit_node *n, rt_json *j)
{
	rt_text t = { 0 };
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "op", jit_event_name(n->op));
	if (n->layout) rt_put_layout(&t, n->layout);
	rt_json_str(j, "type", rt_str(&t));
	rt_text_free(&t);
	for (int k = 0; k < n->nsrc; k++) rt_puts(&t, k ? " " : ""), jit_put_operand(n, k, &t);
	rt_json_str(j, "operands", rt_str(&t));
	rt_text_free(&t);
	for (int k = 0; k < n->nattr; k++) rt_puts(&t, k ? ", " : ""), jit_put_attr(n, k, &t);
	if (n->nattr) rt_json_str(j, "attrs", rt_str(&t));
	rt_text_free(&t);
	rt_json_str(j, "site", n->site ? n->site : "?");
	rt_json_open(j, "guards", '[');
	jit_each_node_guard(f, n, put_guard, j);
	rt_json_close(j, ']');
	rt_json_close(j, '}');
}

static void put_events(tj_fn *f, const jit_node *b, rt_json *j)
{
	const jit_node **path = jit_events_of(b);
	rt_json_open(j, "events", '[');
	for (uint32_t i = 0; path && i <= b->seq; i++) put_event(f, path[i], j);
	rt_json_close(j, ']');
	j->text.oom |= !path;
	rt_free(path);
}

/* ---- plans ---- */
static void put_decision(void *self, const lo_note *n)
{
	rt_json *j = self;
	rt_text t = { 0 };
	jit_put_decision(n, &t);
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "kind", jit_decision_kind(n));
	rt_json_str(j, "op", n->op);
	rt_json_str(j, "site", n->site ? n->site : "?");
	rt_json_str(j, "other", n->other);
	if (n->other_site) rt_json_str(j, "other_site", n->other_site);
	rt_json_str(j, "why", n->why);
	rt_json_str(j, "hint", n->hint);
	rt_json_str(j, "text", rt_str(&t)); /* what comes behind op and site */
	rt_json_int(j, "bytes", n->bytes);
	rt_json_close(j, '}');
	j->text.oom |= t.oom;
	rt_text_free(&t);
}

/* Without its texts, when they cannot be made: LLVM is missing, or the process ends. */
void jit_report_lowered(tj_fn *f, const jit_plan *p, jit_room *room, rt_json *j, const char *key)
{
	lo_opts o;
	ir_graph g;
	rt_err err = { 0 };
	const lo_data_opts d = { .texts = room->texts && room->left, .most = room->each, .left = &room->left };
	const lo_data_opts plain = { .most = room->each, .left = &room->left };
	ir_unpacked(p->graph, &g);
	jit_again(f, p, &o);
	const char *why = NULL;
	const bool there = d.texts && o.target && o.target->find(o.target->backend, &why);
	if (there && lo_put_data(&g, &o, &d, j, key, &err) == TJ_OK) return;
	err = (rt_err){ 0 };
	if (lo_put_data(&g, &o, &plain, j, key, &err) == TJ_ERR_NOMEM) j->text.oom = true;
}

static void put_memory(const rt_exec *x, rt_json *j)
{
	rt_json_count(j, "code_bytes", x->code_bytes);
	rt_json_count(j, "packed_bytes", x->packed_bytes);
	rt_json_count(j, "known_bytes", x->known_bytes);
	rt_json_count(j, "arena_bytes", x->arena_bytes[RT_CPU]);
	if (x->full.step) rt_json_str(j, "fullest", x->full.step);
}

static void put_plan(tj_fn *f, const jit_plan *p, jit_room *room, rt_json *j)
{
	const rt_exec *x = p->exec;
	if (!x) return;
	rt_json_open(j, "plan", '{');
	rt_json_count(j, "values", p->n);
	rt_json_count(j, "kernels", x->kernels);
	rt_json_count(j, "compiled", x->compiled);
	rt_json_count(j, "loaded", x->loaded);
	rt_json_count(j, "library_calls", x->library_calls);
	rt_json_count(j, "eval_steps", x->eval_steps);
	rt_json_number(j, "lower_ms", x->lower_ms);
	rt_json_number(j, "codegen_ms", x->codegen_ms);
	put_memory(x, j);
	if (x->run == rt_plan_run && p->n) {
		rt_plan_data(x, j, "steps");
		if (room->kept && p->lowered) rt_json_part(j, "lowered", p->lowered);
		else jit_report_lowered(f, p, room, j, "lowered");
		rt_json_open(j, "decisions", '[');
		jit_each_decision(f, p, put_decision, j);
		rt_json_close(j, ']');
	}
	rt_json_close(j, '}');
}

/* ---- segments and traces ---- */
static void put_way(const jit_segment *s, int bit, rt_json *j)
{
	const unsigned after = atomic_load(&s->after[bit]);
	rt_json_open(j, NULL, '{');
	rt_json_bool(j, "value", bit);
	rt_json_count(j, "times", atomic_load(&s->chosen[bit]));
	if (after) rt_json_count(j, "then", after - 1);
	rt_json_close(j, '}');
}

static void put_segment(tj_fn *f, const jit_node *b, jit_room *room, rt_json *j)
{
	const jit_segment *s = b->segment;
	const jit_plan *p = atomic_load(&((jit_segment *)(uintptr_t)s)->plan);
	rt_text t = { 0 };
	rt_json_open(j, NULL, '{');
	rt_json_count(j, "number", s->number);
	rt_json_str(j, "ends_in", jit_event_name(b->op));
	rt_json_str(j, "site", b->site ? b->site : "?");
	rt_json_count(j, "runs", atomic_load(&s->hits));
	rt_json_count(j, "recomputed", atomic_load(&s->misses));
	jit_put_boundary(b, p, &t);
	if (t.n) rt_json_str(j, "boundary", t.s);
	if (t.n) rt_json_str(j, "boundary_cure", jit_way_around(b->op));
	rt_text_free(&t);
	if (b->op == JIT_TRUTH) {
		rt_json_open(j, "branches", '[');
		put_way(s, 1, j);
		put_way(s, 0, j);
		rt_json_close(j, ']');
	}
	put_events(f, b, j);
	put_plan(f, p, room, j);
	rt_json_close(j, '}');
}

static void put_entry(tj_fn *f, const jit_entry *e, bool whole, jit_room *room, rt_json *j)
{
	rt_json_open(j, NULL, '{');
	rt_json_count(j, "number", e->number);
	rt_json_count(j, "nth", e->nth);
	rt_json_count(j, "hits", jit_entry_hits(e));
	rt_json_open(j, "guards", '[');
	jit_each_entry_guard(f, e, put_guard, j);
	rt_json_close(j, ']');
	rt_json_open(j, "segments", '[');
	for (uint32_t k = 0; whole && k < e->sealed.n; k++) put_segment(f, e->sealed.v[k], room, j);
	rt_json_close(j, ']');
	if (!whole) rt_json_count(j, "segments_left_out", e->sealed.n);
	rt_json_close(j, '}');
}

static void put_general(tj_fn *f, const jit_general *g, jit_room *room, rt_json *j)
{
	uint32_t n = 0;
	unsigned long long hits = 0;
	rt_text t = { 0 };
	gd_put_general(&t, &g->sig, g->moved, f->spec);
	rt_json_open(j, NULL, '{');
	rt_json_count(j, "number", g->number);
	rt_json_str(j, "text", rt_str(&t));
	rt_json_count(j, "sizes", g->made);
	rt_json_open(j, "traces", '[');
	for (const jit_entry *e = g->oldest; e; e = e->newer, n++) {
		if (n < LISTED) put_entry(f, e, n < WHOLE, room, j);
		else hits += jit_entry_hits(e);
	}
	rt_json_close(j, ']');
	if (n > LISTED) rt_json_count(j, "more", n - LISTED);
	if (n > LISTED) rt_json_count(j, "more_hits", hits);
	rt_json_close(j, '}');
	rt_text_free(&t);
}

/* ---- the function ---- */
static void put_options(const tj_fn *f, rt_json *j)
{
	static const char *const dynamic[] = { "auto", "off", "on" };
	rt_json_open(j, "options", '{');
	rt_json_int(j, "nin", f->opts.nin);
	rt_json_int(j, "nout", f->opts.nout);
	rt_json_str(j, "mode", f->opts.mode != TJ_DIRECT ? "verify" : atomic_load(&f->follow) ? "direct, back to verify" : "direct");
	rt_json_str(j, "numerics", f->opts.numerics == TJ_FAST ? "fast" : "strict");
	rt_json_str(j, "dynamic", dynamic[f->opts.dynamic]);
	if (jit_mode(f, 0) & JIT_AUTOCAST) rt_json_str(j, "autocast", jit_autocast_name(jit_mode(f, 0)));
	if (f->spec) rt_json_str(j, "shapes", f->spec->text);
	if (f->opts.max_entries) rt_json_int(j, "max_entries", f->opts.max_entries);
	rt_json_count(j, "max_bytes", f->opts.max_bytes);
	if (f->nstate) rt_json_count(j, "state", f->nstate - f->nfreeze);
	if (f->nfreeze) rt_json_count(j, "freeze", f->nfreeze);
	if (f->npass) rt_json_count(j, "passes", f->npass);
	if (f->opts.backend) rt_json_bool(j, "own_backend", true);
	rt_json_close(j, '}');
}

void jit_report_fn(tj_fn *f, jit_room *room, rt_json *j)
{
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "name", f->name);
	rt_json_str(j, "site", f->site ? f->site : "?");
	put_options(f, j);
	rt_lock(&f->compile);
	rt_lock(&f->table_lock);
	put_stats(f, j);
	rt_json_open(j, "signatures", '[');
	for (uint32_t i = 0; i < f->general.n; i++) put_general(f, f->general.v[i], room, j);
	rt_json_close(j, ']');
	put_ring(&f->reasons, "traced_again", j);
	put_ring(&f->notes, "noted", j);
	rt_unlock(&f->table_lock);
	rt_unlock(&f->compile);
	rt_json_close(j, '}');
}
