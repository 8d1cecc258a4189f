/* parallel: from the text of new functions to code. Kernels and the functions that they call are compiled at the same time, in parts: one
 * object and one thread for each part; the threads end when the job ends. With one core all parts are compiled by the calling thread. */
#include "codegen_llvm/cg.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum { PART_KERNELS = 2 }; /* a part with fewer kernels is not worth a thread */

typedef struct cg_part part;
struct cg_part {
	const cg_batch *batch;
	int bits, n;
	size_t bytes;               /* size of its text */
	int *which;                 /* indices of its kernels in the job */
	const char **name;
	cg_key *key;
	rt_entry *fn;
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

void cg_put_foot(rt_text *out, int bits)
{
	rt_putf(out, "attributes #0 = { nounwind \"prefer-vector-width\"=\"%d\" }\n!0 = !{ i32 1 }\n", bits);
}

/* ---- one part ---- */
static void *compile_part(void *env)
{
	part *p = env;
	const cg_batch *b = p->batch;
	rt_text text = { 0 };
	struct cg_target *t = cg_target_get(p->bits, &p->err);
	if (!t) return NULL;
	cg_put_head(&text, b->job, t, p->bits);
	cg_put_declared(&text, b->owns);
	for (int i = 0; i < p->n; i++) rt_puts(&text, rt_str(&b->unit[p->which[i]].text));
	cg_put_foot(&text, p->bits);
	if (text.oom) rt_fail(&p->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	else cg_object_of(t, text.s, text.n, &p->file, &p->file_bytes, &p->err);
	rt_text_free(&text);
	if (p->threaded) cg_open_linker();
	return NULL;
}

static cg_object *link_part(part *p, rt_err *err)
{
	const cg_owns *owns = p->batch->owns;
	cg_library *l = cg_link(p->file, p->n, p->name, p->fn, owns, err);
	p->file = NULL;
	cg_object *o = l ? cg_keep(l, p->file_bytes, p->n, p->key, p->fn, owns) : NULL;
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
	p->key = rt_calloc(n * sizeof *p->key);
	p->fn = rt_calloc(n * sizeof *p->fn);
	return p->which && p->name && p->key && p->fn;
}

static void drop_part(part *p)
{
	if (p->file) cg_drop_file(p->file);
	rt_free(p->which);
	rt_free(p->name);
	rt_free(p->key);
	rt_free(p->fn);
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

/* Each function goes to the part with the least text. */
static void share(const cg_batch *b)
{
	const cg_unit *u = b->unit;
	for (int k = 0; k < b->job->nkernel; k++) {
		part *at = b->part;
		if (!is_new(&u[k])) continue;
		for (int i = 1; i < b->parts; i++)
			if (b->part[i].bytes < at->bytes) at = &b->part[i];
		at->which[at->n] = k;
		at->name[at->n] = b->job->kernel[k]->name;
		at->key[at->n++] = u[k].key;
		at->bytes += u[k].text.n;
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

static int fresh(const cg_batch *b)
{
	int n = 0;
	for (int k = 0; k < b->job->nkernel; k++) n += is_new(&b->unit[k]);
	return n;
}

/* Divides the batch into at most `most` parts. */
static tj_status divide(cg_batch *b, int most, int bits, rt_err *err)
{
	const int n = fresh(b), wanted = n / PART_KERNELS < most ? n / PART_KERNELS : most, parts = !n ? 0 : wanted < 1 ? 1 : wanted > CG_PARTS ? CG_PARTS : wanted;
	if (!(b->part = rt_calloc((CG_PARTS + 1) * sizeof *b->part))) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	while (b->parts < parts)
		if (!make_part(&b->part[b->parts++], b, bits)) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	share(b);
	return TJ_OK;
}

tj_status cg_generate(cg_batch *b, int n, int bits, rt_err *err)
{
	part *all[2 * CG_PARTS];
	const int c = cores();
	int busy = 0, parts = 0;
	for (int i = 0; i < n; i++) busy += fresh(&b[i]) > 0;
	for (int i = 0; i < n; i++) {
		tj_status st = divide(&b[i], busy > 1 ? (c + 1) / 2 : c, bits, err);
		if (st != TJ_OK) return st;
		for (int k = 0; k < b[i].parts; k++) all[parts++] = &b[i].part[k];
	}
	run(all, parts, c > 1);
	for (int i = 0; i < parts; i++) {
		if (all[i]->err.code == TJ_OK) continue;
		*err = all[i]->err;
		return err->code;
	}
	return TJ_OK;
}

tj_status cg_finish(cg_batch *b, cg_object **made, rt_err *err)
{
	for (int i = 0; i < b->parts; i++) {
		part *p = &b->part[i];
		if (!(made[i] = link_part(p, err))) return err->code;
		for (int k = 0; k < p->n; k++) b->job->fn[p->which[k]] = p->fn[k];
	}
	return TJ_OK;
}

void cg_drop_batch(cg_batch *b)
{
	for (int i = 0; i < b->parts; i++) drop_part(&b->part[i]);
	rt_free(b->part);
}
