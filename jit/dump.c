/* SPDX-License-Identifier: MIT */
/* The texts of a plan: for tj_dump(), for the log, and as files of TJ_DUMP=folder. Each compile writes a numbered folder of what it made,
 * to read, and to compare with the next. */
#include "jit/ctx.h"
#include "jit/note.h"

#include <errno.h>
#include <sys/stat.h>

const lo_opts *jit_again(tj_fn *f, const jit_plan *p, lo_opts *o)
{
	jit_lower_opts(f, f->engine, p->settings, o);
	o->family = f->family; /* it knows which sizes are symbols of the code */
	o->content = p->content;
	o->ncontent = p->ncontent;
	o->into = p->into;
	o->shelf = f->shelf;
	return o;
}

/* ---- one text ---- */
/* These texts are not kept, so the graph is lowered once more. Nothing is compiled again: the plan holds its kernels. */
static void put_lowered(tj_fn *f, const jit_plan *p, tj_dump_what what, rt_text *t)
{
	lo_opts o;
	rt_exec *x = NULL;
	ir_graph g;
	rt_err err = { 0 };
	if (p->exec->run != rt_plan_run || !p->n) return; /* a back end of the user computes it */
	jit_again(f, p, &o);
	o.keep_text = true;
	o.keep_assembly = what == TJ_DUMP_ASSEMBLY;
	ir_unpacked(p->graph, &g);
	if (jit_lower(f->engine, &g, &o, &x, &err) != TJ_OK) return;
	x->print(x, t, what);
	rt_exec_unref(x);
}

void jit_put_plan(tj_fn *f, const jit_plan *p, tj_dump_what what, rt_text *t)
{
	ir_graph shown, *g = &shown;
	const lo_target *target = jit_target(f->engine);
	rt_err err = { 0 };
	if (p->n) ir_unpacked(p->graph, g);
	else ir_graph_init(g);
	if (!target) target = &lo_cpu; /* shows the groups that a CPU would have */
	switch (what) {
	case TJ_DUMP_GRAPH: ir_print(g, t); break;
	case TJ_DUMP_TABLE: if (p->n) ir_table(g, t); break;
	case TJ_DUMP_DOT: ir_dot(g, t); break;
	case TJ_DUMP_FUSION: if (p->n) lo_print_groups(g, target, t, &err); break;
	case TJ_DUMP_FUSION_DOT: if (p->n) lo_dot_groups(g, target, t, &err); break;
	case TJ_DUMP_KERNELS: case TJ_DUMP_CODE: case TJ_DUMP_ASSEMBLY: if (p->exec) put_lowered(f, p, what, t); break;
	default: if (p->exec) p->exec->print(p->exec, t, what);
	}
}

/* ---- TJ_DUMP ---- */
static void write_file(jit_engine *e, const char *folder, const char *name, const char *text)
{
	char path[768];
	if (!text || !*text) return;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	bool ok = f && fputs(text, f) >= 0;
	if ((f && fclose(f)) || !ok) rt_warn(&e->rt.log, "TJ_DUMP: %s: %s", path, strerror(errno));
}

static void dump_plan(tj_fn *f, const char *where, const jit_plan *p)
{
	static const struct { const char *file; tj_dump_what what; } parts[] = {
		{ "graph.tj", TJ_DUMP_GRAPH }, { "graph.txt", TJ_DUMP_TABLE }, { "graph.dot", TJ_DUMP_DOT },
		{ "fusion.txt", TJ_DUMP_FUSION }, { "fusion.dot", TJ_DUMP_FUSION_DOT }, { "kernels.txt", TJ_DUMP_KERNELS }, { "code.ll", TJ_DUMP_CODE },
		{ "code.s", TJ_DUMP_ASSEMBLY }, { "plan.txt", TJ_DUMP_PLAN }, /* and notes.txt: what computes each step, and why */
	};
	jit_engine *e = f->engine;
	char folder[640];
	int n = snprintf(folder, sizeof folder, "%s/%04u-", e->dump, atomic_fetch_add(&e->dumped, 1));
	for (; *where && n < (int)sizeof folder - 1; where++) folder[n++] = *where == '/' ? '-' : *where;
	folder[n] = 0;
	if (mkdir(e->dump, 0777) && errno != EEXIST) rt_warn(&e->rt.log, "TJ_DUMP: %s: %s", e->dump, strerror(errno));
	if (mkdir(folder, 0777) && errno != EEXIST) {
		rt_warn(&e->rt.log, "TJ_DUMP: %s: %s", folder, strerror(errno));
		return;
	}
	for (size_t i = 0; i < RT_COUNT(parts); i++) {
		rt_text t = { 0 };
		jit_put_plan(f, p, parts[i].what, &t);
		const bool cuda = parts[i].what == TJ_DUMP_CODE && p->exec && p->exec->devices;
		write_file(e, folder, cuda ? "code.cu" : parts[i].file, t.s);
		rt_text_free(&t);
	}
	rt_text t = { 0 };
	jit_put_decisions(f, p, &t);
	write_file(e, folder, "notes.txt", t.s);
	rt_text_free(&t);
}

/* A pthread_cancel() may not stop it in the middle. */
static void write_folder(tj_fn *f, const char *where, const jit_plan *p)
{
	int cancel;
	if (!f->engine->dump) return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	dump_plan(f, where, p);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- the log ---- */
void jit_log_plan(tj_fn *f, const jit_entry *e, const jit_node *boundary, const jit_plan *p)
{
	static const struct { rt_topic topic; tj_dump_what what;
	} parts[] = {
		{ RT_LOG_GRAPH, TJ_DUMP_GRAPH }, { RT_LOG_FUSION, TJ_DUMP_FUSION }, { RT_LOG_KERNELS, TJ_DUMP_KERNELS },
		{ RT_LOG_CODE, TJ_DUMP_CODE },   { RT_LOG_PLAN, TJ_DUMP_PLAN },
	};
	const rt_log_to *l = &f->engine->rt.log;
	char where[JIT_WHERE];
	jit_where(where, f, e, (int)boundary->segment->number);
	for (size_t i = 0; i < RT_COUNT(parts); i++) {
		if (!rt_logs(l, parts[i].topic)) continue;
		rt_text t = { 0 };
		jit_put_plan(f, p, parts[i].what, &t);
		rt_log_text(l, parts[i].topic, where, rt_str(&t));
		rt_text_free(&t);
	}
	write_folder(f, where, p);
	rt_log(l, RT_LOG_PERF, "[%s] lowering %.2f ms, code generation %.2f ms, %u kernels, %u library calls, %u evaluator steps", where,
	       p->exec->lower_ms, p->exec->codegen_ms, p->exec->kernels, p->exec->library_calls, p->exec->eval_steps);
}
