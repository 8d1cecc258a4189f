/* SPDX-License-Identifier: MIT */
/* Reports on a function: traces, guards, hits, recompiles and their reasons; dumps; counters. */
#include "jit/ctx.h"
#include "jit/guard.h"
#include "jit/note.h"
#include "jit/survey.h"

static unsigned long long count_of(const atomic_ullong *c)
{
	return atomic_load_explicit((atomic_ullong *)(uintptr_t)c, memory_order_relaxed);
}

/* Sums the counters. Calls with the key of the call before are not counted, to keep them fast: they are all calls minus the others. */
static void count_calls(tj_fn *f, tj_stats *s)
{
	unsigned long long sum[] = {
#define X(what) count_of(&f->count.what),
		JIT_MEMO_COUNTERS(X)
#undef X
	};
	enum {
#define X(what) AT_##what,
		JIT_MEMO_COUNTERS(X)
#undef X
	};
	for (const jit_memo *k = f->memos; k; k = k->next) {
#define X(what) sum[AT_##what] += count_of(&k->what);
		JIT_MEMO_COUNTERS(X)
#undef X
	}
	s->calls = sum[AT_calls], s->boundaries = sum[AT_boundaries], s->direct = sum[AT_direct], s->audits = sum[AT_audits];
	s->hits = sum[AT_hits] + sum[AT_direct] - sum[AT_faults];
	s->hits_key = sum[AT_met], s->hits_table = sum[AT_keyed], s->signatures = sum[AT_fresh], s->nested = sum[AT_nested];
	uint64_t others = sum[AT_met] + sum[AT_keyed] + sum[AT_fresh] + sum[AT_nested] + sum[AT_refused];
	s->hits_last = s->calls > others ? s->calls - others : 0;
	s->checks = sum[AT_checks], s->events = sum[AT_events];
	if (s->checks) s->check_ns = (double)sum[AT_check_ps] / 1e3 / (double)s->checks;
	if (s->events) s->event_ns = (double)sum[AT_event_ps] / 1e3 / (double)s->events;
}

static void count_plans(const jit_entry *e, tj_stats *s)
{
	s->segments += e->sealed.n;
	for (uint32_t k = 0; k < e->sealed.n; k++) {
		const rt_exec *x = atomic_load(&((jit_segment *)(uintptr_t)e->sealed.v[k]->segment)->plan)->exec;
		if (!x) continue;
		s->replays += __atomic_load_n(&x->replays, __ATOMIC_RELAXED);
		s->moved_bytes += x->moved;
		s->computed_again += x->recomputed;
		if (x->full.bytes <= s->peak_bytes) continue;
		s->peak_bytes = x->full.bytes;
		s->kept_bytes = x->full.kept_bytes;
		s->kept_values = x->full.kept;
	}
}

tj_stats jit_fn_counts(tj_fn *f)
{
	jit_counters *c = &f->count;
	tj_stats s = {
		.recordings = count_of(&c->recordings),
		.side_exits = count_of(&c->side_exits),
		.recomputed = count_of(&c->recomputed),
		.failures = count_of(&c->failures),
		.plans = count_of(&c->plans),
		.kernels = count_of(&c->kernels),
		.library_calls = count_of(&c->library_calls),
		.eval_steps = count_of(&c->eval_steps),
		.evictions = count_of(&c->evictions),
		.code_bytes = count_of(&c->code_bytes),
		.trace_ms = atomic_load(&c->trace_ms),
		.lower_ms = atomic_load(&c->lower_ms),
		.codegen_ms = atomic_load(&c->codegen_ms),
		.compiles = count_of(&c->compiles),
		.compiled = count_of(&c->compiled),
		.shared = count_of(&c->shared),
		.loaded = count_of(&c->loaded),
	};
	count_calls(f, &s);
	s.entries = f->general.n;
	s.sizes = f->entry.n;
	s.bytes = f->keep.bytes;
	s.replayed = count_of(&f->count.replayed);
	return s;
}

void tj_fn_stats(tj_fn *f, tj_stats *out)
{
	RT_DEFAULT_MODES;
	if (!f || !out) return;
	size_t size = out->size ? out->size : sizeof *out;
	rt_lock(&f->compile);
	rt_lock(&f->table_lock);
	tj_stats s = jit_fn_counts(f);
	s.size = size;
	for (uint32_t i = 0; i < f->entry.n; i++) count_plans(f->entry.v[i], &s);
	rt_unlock(&f->table_lock);
	rt_unlock(&f->compile);
	memcpy(out, &s, size < sizeof s ? size : sizeof s);
}

/* ---- explain ---- */
typedef struct shown { FILE *out; int attrs; const char *indent; } shown; /* attrs: attributes of the current event so far */

static void print_guard(void *self, const tj_guard *g, bool dropped)
{
	shown *s = self;
	if (!strcmp(g->kind, "attribute") && !dropped) { /* those of one event are printed in one line: see print_attrs() */
		s->attrs++;
		return;
	}
	fprintf(s->out, "%s%s: %s\n", s->indent, dropped ? "guard dropped by .guard_filter" : "guard", g->text);
}

void jit_put_attr(const jit_node *n, int k, rt_text *t)
{
	const ir_classinfo *c = n->op < IR_OP_COUNT ? &ir_classes[ir_ops[n->op].opclass] : NULL;
	const char kind = c && k < c->nattr ? c->attr[k].kind : 0;
	if (kind == 'd') rt_puts(t, tj_dtype_name((tj_dtype)n->attr[k]));
	else if (kind == '@') rt_puts(t, rt_device_name((int)n->attr[k]));
	else if (n->attr[k] == TJ_END_DIM) rt_puts(t, "end");
	else rt_putf(t, "%lld", (long long)n->attr[k]);
}

void jit_put_operand(const jit_node *n, int k, rt_text *t)
{
	static const char *const kind[] = { "%", "ext", "float", "int", "cell" };
	rt_putf(t, "%s%u", kind[JIT_KIND(n->src[k])], JIT_IDX(n->src[k]));
}

const jit_node **jit_events_of(const jit_node *b)
{
	const jit_node **path = rt_alloc((b->seq + 1) * sizeof *path);
	for (const jit_node *n = b; path && n->parent; n = n->parent) path[n->seq] = n;
	return path;
}

static void print_attrs(const jit_node *n, FILE *out)
{
	rt_text t = { 0 };
	for (int k = 0; k < n->nattr; k++) {
		rt_puts(&t, k ? ", " : " ");
		if (k < JIT_LOOSE_ATTRS && n->loose >> k & 1) rt_puts(&t, "any");
		else jit_put_attr(n, k, &t);
	}
	fprintf(out, "        guard: %s at %s has attributes%s\n", jit_event_name(n->op), n->site ? n->site : "?", rt_str(&t));
	rt_text_free(&t);
}

static void print_node_guards(tj_fn *f, const jit_node *b, FILE *out)
{
	const jit_node **path = jit_events_of(b);
	if (!path) return;
	for (uint32_t i = 0; i <= b->seq; i++) {
		shown s = { out, 0, "        " };
		jit_each_node_guard(f, path[i], print_guard, &s);
		if (s.attrs) print_attrs(path[i], out);
	}
	rt_free(path);
}

static void print_way(const jit_segment *s, int bit, FILE *out)
{
	unsigned n = atomic_load(&s->chosen[bit]), after = atomic_load(&s->after[bit]);
	fprintf(out, "        %s: %u times", bit ? "true " : "false", n);
	if (after) fprintf(out, ", then segment %u", after - 1);
	fputc('\n', out);
}

static void print_lines(const char *indent, const char *text, FILE *out)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		fprintf(out, "%s%.*s\n", indent, (int)n, text);
	}
}

static void print_memory(const rt_exec *x, FILE *out)
{
	if (!x->full.bytes) return;
	fprintf(out, "        memory: at most %zu bytes of temporaries at once, in step %s", x->full.bytes, x->full.step);
	if (x->full.kept) fprintf(out, "; kept %u values over it, %zu bytes", x->full.kept, x->full.kept_bytes);
	if (x->recomputed) fprintf(out, "; computed %u values again", x->recomputed);
	fputc('\n', out);
}

static void print_segment(tj_fn *f, const jit_node *b, FILE *out)
{
	const jit_segment *s = b->segment;
	const jit_plan *p = atomic_load(&((jit_segment *)(uintptr_t)s)->plan);
	const rt_exec *x = p->exec;
	rt_text t = { 0 };
	fprintf(out, "    segment %u: %u events, ends in %s at %s; %u runs", s->number, b->seq, jit_event_name(b->op),
	        b->site ? b->site : "?", atomic_load(&s->hits));
	if (x)
		fprintf(out, "; %u kernels, %u library calls, %u evaluator steps, %zu bytes of code, arena %zu bytes", x->kernels,
		        x->library_calls, x->eval_steps, x->code_bytes, x->arena_bytes[TJ_CPU]);
	if (x && x->packed_bytes) fprintf(out, ", %zu of constants in panels", x->packed_bytes);
	if (x && x->known_bytes) fprintf(out, ", %zu of values computed from constants beforehand", x->known_bytes);
	for (int d = TJ_CPU + 1; x && d < RT_DEVICES; d++)
		if (x->arena_bytes[d]) fprintf(out, ", %zu on %s", x->arena_bytes[d], rt_device_name(d));
	if (x && x->replays)
		fprintf(out, "; %llu rows of kernels ran as a CUDA graph",
		        (unsigned long long)__atomic_load_n(&x->replays, __ATOMIC_RELAXED));
	if (atomic_load(&s->misses)) fprintf(out, "; recomputed %u times for values read later", atomic_load(&s->misses));
	fputc('\n', out);
	if (x) print_memory(x, out);
	if (b->op != JIT_RETURN) rt_putf(&t, "boundary at %s: ", b->site ? b->site : "?");
	jit_put_boundary(b, p, &t);
	if (b->op != JIT_RETURN) rt_puts(&t, "\n");
	jit_put_decisions(f, p, &t);
	print_lines("        ", rt_str(&t), out);
	rt_text_free(&t);
	print_node_guards(f, b, out);
	if (b->op != JIT_TRUTH) return;
	print_way(s, 1, out);
	print_way(s, 0, out);
}

static void print_ring(const jit_ring *r, const char *title, FILE *out)
{
	uint32_t first = r->n > JIT_REASONS ? r->n - JIT_REASONS : 0;
	if (r->n) fprintf(out, "  %s %u times%s:\n", title, r->told, first ? ", the last reasons" : "");
	for (uint32_t i = first; i < r->n; i++) {
		const jit_line *l = &r->line[i % JIT_REASONS];
		fprintf(out, "    %s", l->text ? l->text : "?");
		if (l->times > 1) fprintf(out, " (%u times)", l->times);
		fputc('\n', out);
	}
}

static void print_entry(tj_fn *f, const jit_entry *e, FILE *out)
{
	char nth[16] = "";
	if (e->nth) snprintf(nth, sizeof nth, ".%u", e->nth);
	fprintf(out, "  trace %u%s: %llu calls hit it\n", e->number, nth, jit_entry_hits(e));
	jit_each_entry_guard(f, e, print_guard, &(shown){ out, 0, "    " });
	for (uint32_t k = 0; k < e->sealed.n; k++) print_segment(f, e->sealed.v[k], out);
}

/* Each size of a signature has a trace, and they are alike: only the first ones are shown. */
static void print_general(tj_fn *f, const jit_general *g, FILE *out)
{
	enum { SHOWN = 3 };
	uint32_t n = 0;
	unsigned long long hits = 0;
	rt_text t = { 0 };
	gd_put_general(&t, &g->sig, g->moved, f->spec);
	if (g->made > 1)
		fprintf(out, "  signature %u: %s; %u sizes, which share code where the form of a kernel is the same\n", g->number,
		        rt_str(&t), g->made);
	rt_text_free(&t);
	for (const jit_entry *e = g->oldest; e; e = e->newer) {
		if (n++ < SHOWN) print_entry(f, e, out);
		else hits += jit_entry_hits(e);
	}
	if (n > SHOWN) fprintf(out, "  and %u more sizes: %llu calls hit them\n", n - SHOWN, hits);
}

static void print_totals(tj_fn *f, const tj_stats *s, FILE *out)
{
	const bool warm = s->loaded && !s->compiled; /* the plug-in was not opened, and need not be */
	const lo_backend *b = warm ? NULL : jit_backend(f->engine);
	const char *why;
	const rt_device *d = rt_device_at(f->engine->device);
	const lo_backend *there = d && d->target ? d->target->find(f->engine->backend_name, &why) : NULL;
	fprintf(out, "%s (%s): %llu calls, %llu hits, %llu recordings, %llu side exits, %llu failures, %llu evictions\n", f->name,
	        f->site ? f->site : "?", (unsigned long long)s->calls, (unsigned long long)s->hits, (unsigned long long)s->recordings,
	        (unsigned long long)s->side_exits, (unsigned long long)s->failures, (unsigned long long)s->evictions);
	fprintf(out,
	        "  calls found their trace: %llu the same one as the call before, %llu by a key of their context, %llu by a key of another "
	        "context, %llu with a new signature, %llu nested\n",
	        (unsigned long long)s->hits_last, (unsigned long long)s->hits_key, (unsigned long long)s->hits_table,
	        (unsigned long long)s->signatures, (unsigned long long)s->nested);
	fprintf(out,
	        "  %llu plans, %llu kernels (%llu compiled, %llu from disk, %llu shared), %llu library calls, %llu evaluator steps, %llu bytes "
	        "of code; tracing %.2f ms, lowering %.2f ms, code generation %.2f ms\n",
	        (unsigned long long)s->plans, (unsigned long long)s->kernels, (unsigned long long)s->compiled,
	        (unsigned long long)s->loaded, (unsigned long long)s->shared, (unsigned long long)s->library_calls,
	        (unsigned long long)s->eval_steps,
	        (unsigned long long)s->code_bytes, s->trace_ms, s->lower_ms, s->codegen_ms);
	if (b || warm)
		fprintf(out, "  back end: %s, %d-bit vectors; a team of %d%s%s%s%s\n", b ? b->name : f->engine->backend_name,
		        b ? b->width ? b->width() : 0 : rt_vector_bits(),
		        rt_team_size(f->engine->rt.team), there ? "; of " : "", there ? rt_device_name(f->engine->device) : "",
		        there ? ": " : "", there ? there->name : "");
	else fprintf(out, "  back end: the evaluator (%s)\n", strcmp(f->engine->backend_name, "eval") ? "tj_backends() says why" : "as requested");
	if (jit_mode(f, 0) & JIT_AUTOCAST) fprintf(out, "  autocast: %s\n", jit_autocast_name(jit_mode(f, 0)));
	if (f->engine->timed)
		fprintf(out, "  guards: %.1f ns to compare a key, %.1f ns for an event with the body's own code\n", s->check_ns,
		        s->event_ns);
	if (f->opts.mode == TJ_DIRECT)
		fprintf(out, "  direct mode%s: %llu calls skipped the body, %llu ran it to compare; %u state variables\n",
		        atomic_load(&f->follow) ? ", back to verify" : "", (unsigned long long)s->direct, (unsigned long long)s->audits,
		        f->nstate);
}

void tj_explain(tj_fn *f, FILE *out)
{
	RT_DEFAULT_MODES;
	if (!f || !out) return;
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	rt_lock(&f->compile);
	print_totals(f, &s, out);
	rt_lock(&f->table_lock);
	print_ring(&f->reasons, "traced again", out); /* first: what follows may be long */
	print_ring(&f->notes, "noted", out);
	for (uint32_t i = 0; i < f->general.n; i++) print_general(f, f->general.v[i], out);
	rt_unlock(&f->table_lock);
	rt_unlock(&f->compile);
}

/* ---- dumps ---- */
static void dump_trace(const jit_node *b, FILE *out)
{
	const jit_node **path = jit_events_of(b);
	if (!path) return;
	for (uint32_t i = 0; i <= b->seq; i++) {
		const jit_node *n = path[i];
		rt_text t = { 0 };
		if (n->layout) rt_put_layout(&t, n->layout);
		for (int k = 0; k < n->nsrc; k++) rt_puts(&t, " "), jit_put_operand(n, k, &t);
		for (int k = 0; k < n->nattr; k++) rt_puts(&t, k ? "," : " {"), jit_put_attr(n, k, &t);
		fprintf(out, "  %%%u = %s %s%s  # %s\n", i, jit_event_name(n->op), rt_str(&t), n->nattr ? "}" : "", n->site ? n->site : "?");
		rt_text_free(&t);
	}
	rt_free(path);
}

static void dump_segment(tj_fn *f, const jit_entry *e, const jit_node *b, tj_dump_what what, FILE *out)
{
	const jit_plan *p = atomic_load(&b->segment->plan);
	char nth[16] = "";
	const char *comment = what == TJ_DUMP_DOT || what == TJ_DUMP_FUSION_DOT ? "//"
	                      : what != TJ_DUMP_CODE                            ? "#"
	                      : p->exec && p->exec->devices                     ? "//"
	                                                                        : ";";
	if (e->nth) snprintf(nth, sizeof nth, ".%u", e->nth);
	fprintf(out, "%s %s, trace %u%s, segment %u: up to %s at %s\n", comment, f->name, e->number, nth, b->segment->number,
	        jit_event_name(b->op), b->site ? b->site : "?");
	if (what == TJ_DUMP_TRACE) dump_trace(b, out);
	else {
		rt_text t = { 0 };
		jit_put_plan(f, p, what, &t);
		fputs(rt_str(&t), out);
		rt_text_free(&t);
	}
	if (b->op == JIT_TRUTH && what <= TJ_DUMP_TABLE) {
		fprintf(out, "# branch on the value above\n");
		print_way(b->segment, 1, out);
		print_way(b->segment, 0, out);
	}
}

void tj_dump(tj_fn *f, tj_dump_what what, FILE *out)
{
	RT_DEFAULT_MODES;
	if (!f || !out) return;
	rt_lock(&f->compile);
	rt_lock(&f->table_lock);
	for (uint32_t i = 0; what == TJ_DUMP_SYMBOLS && i < f->general.n; i++) {
		rt_text t = { 0 };
		jit_put_general(f, f->general.v[i], &t);
		fputs(rt_str(&t), out);
		rt_text_free(&t);
	}
	for (uint32_t i = 0; what != TJ_DUMP_SYMBOLS && i < f->entry.n; i++)
		for (uint32_t k = 0; k < f->entry.v[i]->sealed.n; k++) dump_segment(f, f->entry.v[i], f->entry.v[i]->sealed.v[k], what, out);
	rt_unlock(&f->table_lock);
	rt_unlock(&f->compile);
}
