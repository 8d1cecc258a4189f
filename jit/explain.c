/* What a function did: traces, guards, hits, recompiles and why; dumps; counters. */
#include "jit/jit.h"

static unsigned long long count_of(const atomic_ullong *c) { return atomic_load_explicit((atomic_ullong *)(uintptr_t)c, memory_order_relaxed); }

void tj_fn_stats(tj_fn *f, tj_stats *out)
{
	size_t size = out->size ? out->size : sizeof *out;
	pthread_mutex_lock(&f->compile);
	pthread_mutex_lock(&f->table_lock);
	jit_counters *c = &f->count;
	tj_stats s = {
		.size = size, .recordings = count_of(&c->recordings),
		.side_exits = count_of(&c->side_exits), .recomputed = count_of(&c->recomputed),
		.failures = count_of(&c->failures), .plans = count_of(&c->plans), .kernels = count_of(&c->kernels),
		.library_calls = count_of(&c->library_calls), .eval_steps = count_of(&c->eval_steps), .evictions = count_of(&c->evictions),
		.code_bytes = count_of(&c->code_bytes), .trace_ms = atomic_load(&c->trace_ms), .lower_ms = atomic_load(&c->lower_ms),
		.codegen_ms = atomic_load(&c->codegen_ms), .compiles = count_of(&c->compiles), .compiled = count_of(&c->compiled), .shared = count_of(&c->shared),
	};
#define X(what)                  \
	s.what = count_of(&c->what); \
	for (const jit_slot *k = f->slots; k; k = k->next) s.what += count_of(&k->what);
	JIT_SLOT_COUNTERS(X)
#undef X
	s.entries = f->general.n;
	s.sizes = f->entry.n;
	for (uint32_t i = 0; i < f->entry.n; i++) s.segments += f->entry.v[i]->sealed.n;
	pthread_mutex_unlock(&f->table_lock);
	pthread_mutex_unlock(&f->compile);
	memcpy(out, &s, size < sizeof s ? size : sizeof s);
}

/* ---- explain ---- */
static void print_guards(const jit_entry *e, FILE *out)
{
	for (uint32_t i = 0; i < e->sig.narg; i++) {
		rt_text t = { 0 };
		gd_put_arg(&t, &e->sig.arg[i]);
		fprintf(out, "    guard: argument %u is %s\n", i, rt_str(&t));
		rt_text_free(&t);
	}
	for (uint32_t i = 0; i < e->sig.nint; i++) fprintf(out, "    guard: int scalar %u is %lld\n", i, (long long)e->sig.ints[i]);
}

static void print_way(const jit_segment *s, int bit, FILE *out)
{
	unsigned n = atomic_load(&s->taken[bit]), after = atomic_load(&s->after[bit]);
	fprintf(out, "        %s: %u times", bit ? "true " : "false", n);
	if (after) fprintf(out, ", then segment %u", after - 1);
	fputc('\n', out);
}

static void print_segment(const jit_node *b, FILE *out)
{
	const jit_segment *s = b->segment;
	const jit_plan *p = atomic_load(&((jit_segment *)(uintptr_t)s)->plan);
	const rt_exec *x = p->exec;
	fprintf(out, "    segment %u: %u events, ends in %s at %s; %u runs", s->number, b->seq, jit_event_name(b->op), b->site ? b->site : "?", atomic_load(&s->hits));
	if (x) fprintf(out, "; %u kernels, %u library calls, %u evaluator steps, arena %zu bytes", x->kernels, x->library_calls, x->eval_steps, x->arena_bytes);
	if (atomic_load(&s->misses)) fprintf(out, "; recomputed %u times for values read later", atomic_load(&s->misses));
	fputc('\n', out);
	if (b->op != JIT_TRUTH) return;
	print_way(s, 1, out);
	print_way(s, 0, out);
}

static void print_node_guards(const jit_node *b, FILE *out)
{
	for (const jit_node *n = b; n->parent; n = n->parent)
		for (int i = 0; i < n->nmet; i++) {
			rt_text t = { 0 };
			gd_put_arg(&t, &(gd_arg){ n->met[i].layout, n->met[i].content, n->met[i].cell ? GD_CELL : GD_VALUE });
			fprintf(out, "        guard: %s at %s meets %s\n", jit_event_name(n->op), n->site ? n->site : "?", rt_str(&t));
			rt_text_free(&t);
		}
}

static void print_reasons(const tj_fn *f, FILE *out)
{
	uint32_t first = f->nreason > JIT_REASONS ? f->nreason - JIT_REASONS : 0;
	if (f->nreason) fprintf(out, "  traced anew %u times%s:\n", f->nreason, first ? ", the last ones" : "");
	for (uint32_t i = first; i < f->nreason; i++) fprintf(out, "    %s\n", f->reason[i % JIT_REASONS] ? f->reason[i % JIT_REASONS] : "?");
}

void tj_explain(tj_fn *f, FILE *out)
{
	if (!f || !out) return;
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	fprintf(out, "%s (%s): %llu calls, %llu hits, %llu recordings, %llu side exits, %llu failures, %llu evictions\n", f->name, f->site ? f->site : "?",
	        (unsigned long long)s.calls, (unsigned long long)s.hits, (unsigned long long)s.recordings, (unsigned long long)s.side_exits,
	        (unsigned long long)s.failures, (unsigned long long)s.evictions);
	fprintf(out, "  %llu plans, %llu kernels, %llu library calls, %llu evaluator steps, %llu bytes of code; tracing %.2f ms, lowering %.2f ms, code generation %.2f ms\n",
	        (unsigned long long)s.plans, (unsigned long long)s.kernels, (unsigned long long)s.library_calls, (unsigned long long)s.eval_steps,
	        (unsigned long long)s.code_bytes, s.trace_ms, s.lower_ms, s.codegen_ms);
	if (f->opts.mode == TJ_DIRECT)
		fprintf(out, "  direct mode%s: %llu calls skipped the body, %llu ran it to compare; %u state variables\n", atomic_load(&f->follow) ? ", back to verify" : "",
		        (unsigned long long)s.direct, (unsigned long long)s.audits, f->nstate);
	pthread_mutex_lock(&f->compile);
	pthread_mutex_lock(&f->table_lock);
	for (uint32_t i = 0; i < f->entry.n; i++) {
		const jit_entry *e = f->entry.v[i];
		fprintf(out, "  trace %u: %llu calls hit it\n", e->number, count_of(&e->hits));
		print_guards(e, out);
		for (uint32_t k = 0; k < e->sealed.n; k++) {
			print_segment(e->sealed.v[k], out);
			print_node_guards(e->sealed.v[k], out);
		}
	}
	print_reasons(f, out);
	pthread_mutex_unlock(&f->table_lock);
	pthread_mutex_unlock(&f->compile);
}

/* ---- dumps ---- */
static void dump_trace(const jit_node *b, FILE *out)
{
	const jit_node **path = rt_alloc((b->seq + 1) * sizeof *path);
	if (!path) return;
	for (const jit_node *n = b; n->parent; n = n->parent) path[n->seq] = n;
	for (uint32_t i = 0; i <= b->seq; i++) {
		static const char *const kind[] = { "%", "ext", "float", "int", "cell" };
		const jit_node *n = path[i];
		rt_text t = { 0 };
		if (n->layout) rt_put_layout(&t, n->layout);
		fprintf(out, "  %%%u = %s %s", i, jit_event_name(n->op), rt_str(&t));
		rt_text_free(&t);
		for (int k = 0; k < n->nsrc; k++) fprintf(out, " %s%u", kind[JIT_KIND(n->src[k])], JIT_IDX(n->src[k]));
		for (int k = 0; k < n->nattr; k++) fprintf(out, k ? ",%lld" : " {%lld", (long long)n->attr[k]);
		fprintf(out, "%s  # %s\n", n->nattr ? "}" : "", n->site ? n->site : "?");
	}
	rt_free(path);
}

static void dump_segment(tj_fn *f, const jit_entry *e, const jit_node *b, tj_dump_what what, FILE *out)
{
	const jit_plan *p = atomic_load(&b->segment->plan);
	const char *comment = what == TJ_DUMP_DOT || what == TJ_DUMP_FUSION_DOT ? "//" : what == TJ_DUMP_CODE ? ";" : "#";
	fprintf(out, "%s %s, trace %u, segment %u: up to %s at %s\n", comment, f->name, e->number, b->segment->number, jit_event_name(b->op), b->site ? b->site : "?");
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
	if (!f || !out) return;
	pthread_mutex_lock(&f->compile);
	pthread_mutex_lock(&f->table_lock);
	for (uint32_t i = 0; i < f->entry.n; i++)
		for (uint32_t k = 0; k < f->entry.v[i]->sealed.n; k++) dump_segment(f, f->entry.v[i], f->entry.v[i]->sealed.v[k], what, out);
	pthread_mutex_unlock(&f->table_lock);
	pthread_mutex_unlock(&f->compile);
}
