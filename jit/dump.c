/* TJ_DUMP=folder: each compile writes a numbered folder of what it made, to read, and to compare with the next. */
#include "jit/jit.h"

#include <errno.h>
#include <sys/stat.h>

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
		write_file(e, folder, parts[i].file, t.s);
		rt_text_free(&t);
	}
	rt_text t = { 0 };
	jit_put_decisions(f, p, &t);
	write_file(e, folder, "notes.txt", t.s);
	rt_text_free(&t);
}

/* A pthread_cancel() may not stop it in the middle. */
void jit_dump_plan(tj_fn *f, const char *where, const jit_plan *p)
{
	int cancel;
	if (!f->engine->dump) return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	dump_plan(f, where, p);
	pthread_setcancelstate(cancel, NULL);
}
