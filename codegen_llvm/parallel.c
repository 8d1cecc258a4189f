/* SPDX-License-Identifier: MIT */
/* parallel: from the text of new functions to code. Kernels and the functions that they call are compiled at the same time, in parts: one
 * object and one thread for each part; the threads end when the job ends. With one core all parts are compiled by the calling thread. */
#include "codegen_llvm/cg.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { PART_BYTES = 12 << 10 }; /* of text: a part with less is not worth a thread */

typedef struct cg_part part;
struct cg_part {
	const cg_batch *batch;
	int bits, n;
	size_t bytes;               /* size of its text */
	int *which;                 /* indices of its kernels in the job */
	const char **name, **text;
	cg_key *key;
	rt_entry *fn;
	rt_blob *blob;
	void *file;                 /* the object, once compiled; NULL when it is linked */
	size_t file_bytes;
	rt_err err;
	pthread_t thread;
	bool threaded;
};

void cg_put_head(rt_text *out, const lo_compile *job, const struct cg_target *t, int bits)
{
	rt_putf(out, "; %s: %d kernels, %d-bit vectors\n", job->name ? job->name : "plan", job->nkernel, bits);
	rt_putf(out, "target datalayout = \"%s\"\ntarget triple = \"x86_64-unknown-linux-gnu\"\n\n",
			cg_layout(t));
}

/* Attributes #0 to #3 are by lo_uses() of a kernel. */
void cg_put_foot(rt_text *out, const struct cg_target *t, int bits, bool tables)
{
	cg_put_constants(out);
	for (unsigned uses = 0; uses < RT_USES; uses++) {
		const uint32_t has = rt_features(bits) & rt_features_for(uses);
		rt_putf(out, "attributes #%u = { nounwind%s \"prefer-vector-width\"=\"%d\" \"tune-cpu\"=\"%s\"", uses, tables ? " uwtable" : "",
		        bits, cg_tuning(t));
		const char *before = " \"target-features\"=\"";
		for (int i = 0; rt_feature_name(i); i++) {
			if (!(has >> i & 1)) continue;
			rt_putf(out, "%s+%s", before, rt_feature_name(i));
			before = ",";
		}
		rt_puts(out, has ? "\" }\n" : " }\n");
	}
	rt_puts(out, "!0 = !{ i32 1 }\n!1 = !{}\n");
}

/* ---- one part ---- */
static void *compile_part(void *env)
{
	part *p = env;
	const cg_batch *b = p->batch;
	rt_text text = { 0 };
	cg_lines lines = { 0 };
	if (p->threaded) rt_cpu_as(b->job->cpu), prctl(PR_SET_NAME, "tj-compile"); /* the thread ends with it */
	struct cg_target *t = cg_target_get(p->bits, &p->err);
	if (!t) return NULL;
	cg_put_head(&text, b->job, t, p->bits);
	cg_put_declared(&text, b->owns);
	for (int i = 0; i < p->n; i++) cg_put_with_lines(&text, p->text[i], &lines);
	cg_put_foot(&text, t, p->bits, lines.n != 0);
	cg_put_line_table(&text, &lines);
	if (text.oom) rt_fail(&p->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	else cg_object_of(t, text.s, text.n, &p->file, &p->file_bytes, &p->err);
	rt_text_free(&text);
	if (p->threaded) cg_open_linker();
	return NULL;
}

static cg_object *link_part(part *p, rt_err *err)
{
	const cg_owns *owns = p->batch->owns;
	cg_library *l = cg_link(p->file, p->file_bytes, p->n, p->name, p->text, p->blob, p->fn, owns, err);
	p->file = NULL;
	cg_object *o = l ? cg_keep(l, p->file_bytes, p->n, p->key, p->fn, p->blob, owns) : NULL;
	if (!l || o) return o;
	cg_unlink(l);
	rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	return NULL;
}

static bool make_part(part *p, const cg_batch *b, int bits)
{
	size_t n = (size_t)b->job->nkernel + 1;
	*p = (part){ .batch = b, .bits = bits };
	p->which = rt_calloc(n * sizeof *p->which);
	p->name = rt_calloc(n * sizeof *p->name);
	p->text = rt_calloc(n * sizeof *p->text);
	p->key = rt_calloc(n * sizeof *p->key);
	p->fn = rt_calloc(n * sizeof *p->fn);
	p->blob = rt_calloc(n * sizeof *p->blob);
	return p->which && p->name && p->text && p->key && p->fn && p->blob;
}

static void drop_part(part *p)
{
	if (p->file) cg_drop_file(p->file);
	rt_free(p->which);
	rt_free(p->name);
	rt_free(p->text);
	rt_free(p->key);
	rt_free(p->fn);
	rt_free(p->blob);
}

/* ---- parts ---- */
static int cores(void)
{
	cpu_set_t set;
	const char *told = getenv("TJ_THREADS");
	int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, most = told ? atoi(told) : n;
	return most > 0 && most < n ? most : n;
}

static bool is_new(const cg_unit *u) { return !u->there && u->same < 0; }

typedef struct task { size_t bytes; int unit; } task; /* a function to compile */
typedef struct tasks { task *v; int n; size_t bytes; } tasks; /* those of a batch */

static int longest_first(const void *x, const void *y)
{
	const task *a = x, *b = y;
	return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->unit - b->unit;
}

/* .v is NULL: out of memory. */
static tasks tasks_of(const cg_batch *b)
{
	tasks t = { .v = rt_alloc(((size_t)b->job->nkernel + 1) * sizeof *t.v) };
	for (int k = 0; t.v && k < b->job->nkernel; k++) {
		if (!is_new(&b->unit[k])) continue;
		t.v[t.n++] = (task){ b->unit[k].text.n, k };
		t.bytes += b->unit[k].text.n;
	}
	if (t.v) qsort(t.v, (size_t)t.n, sizeof *t.v, longest_first);
	return t;
}

/* Each function goes to the part with the least text. */
static void share(const cg_batch *b, const tasks *all)
{
	for (int i = 0; i < all->n; i++) {
		const task *t = &all->v[i];
		part *at = b->part;
		for (int k = 1; k < b->parts; k++)
			if (b->part[k].bytes < at->bytes) at = &b->part[k];
		at->which[at->n] = t->unit;
		at->name[at->n] = b->job->kernel[t->unit]->name;
		at->text[at->n] = rt_str(&b->unit[t->unit].text);
		at->key[at->n++] = b->unit[t->unit].key;
		at->bytes += t->bytes;
	}
}

/* Compiling threads block all signals: those are for the program's own threads. */
static void start(part *p)
{
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	p->threaded = true; /* the thread reads it */
	if (pthread_create(&p->thread, NULL, compile_part, p) != 0) p->threaded = false;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

/* The calling thread compiles the first part. */
static void run(part *const *p, int n, bool threads)
{
	for (int i = 1; threads && i < n; i++) start(p[i]);
	for (int i = 0; i < n; i++)
		if (!p[i]->threaded) compile_part(p[i]);
	for (int i = 1; i < n; i++)
		if (p[i]->threaded) pthread_join(p[i]->thread, NULL);
}

static int least(int a, int b) { return a < b ? a : b; }

/* Divides the batch into parts: as many of the cores as its share of all text. */
static tj_status divide(cg_batch *b, const tasks *t, size_t all, int cores, int bits, rt_err *err)
{
	const int share_of_cores = all ? (int)(((size_t)cores * t->bytes + all - 1) / all) : 0, worth = (int)(t->bytes / PART_BYTES) + 1;
	const int parts = least(least(share_of_cores, worth), least(t->n, CG_PARTS));
	if (!(b->part = rt_calloc((CG_PARTS + 1) * sizeof *b->part))) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	while (b->parts < parts)
		if (!make_part(&b->part[b->parts++], b, bits)) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	share(b, t);
	return TJ_OK;
}

static tj_status divide_all(cg_batch *b, int n, int cores, int bits, rt_err *err)
{
	tasks t[CG_BATCHES];
	size_t all = 0;
	tj_status st = TJ_OK;
	for (int i = 0; i < n; i++) {
		t[i] = tasks_of(&b[i]);
		if (!t[i].v) st = rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
		all += t[i].bytes;
	}
	for (int i = 0; st == TJ_OK && i < n; i++) st = divide(&b[i], &t[i], all, cores, bits, err);
	for (int i = 0; i < n; i++) rt_free(t[i].v);
	return st;
}

tj_status cg_generate(cg_batch *b, int n, int bits, rt_err *err)
{
	part *all[CG_BATCHES * CG_PARTS];
	const int c = cores();
	int parts = 0;
	tj_status st = divide_all(b, n, c, bits, err);
	for (int i = 0; st == TJ_OK && i < n; i++)
		for (int k = 0; k < b[i].parts; k++) all[parts++] = &b[i].part[k];
	if (st == TJ_OK) run(all, parts, c > 1);
	for (int i = 0; i < parts; i++) {
		if (all[i]->err.code == TJ_OK) continue;
		*err = all[i]->err;
		return err->code;
	}
	return st;
}

tj_status cg_finish(cg_batch *b, cg_object **made, rt_err *err)
{
	for (int i = 0; i < b->parts; i++) {
		part *p = &b->part[i];
		if (!(made[i] = link_part(p, err))) return err->code;
		for (int k = 0; k < p->n; k++) {
			b->job->fn[p->which[k]] = p->fn[k];
			if (b->job->blob) b->job->blob[p->which[k]] = p->blob[k];
		}
	}
	return TJ_OK;
}

void cg_drop_batch(cg_batch *b)
{
	for (int i = 0; i < b->parts; i++) drop_part(&b->part[i]);
	rt_free(b->part);
}
