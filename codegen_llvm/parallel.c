/* parallel: from the text of new kernels to code. If a plan has many, they are compiled in parts: one object and one thread for
 * each part; the threads end when the job ends. */
#include "codegen_llvm/cg.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum { PART_KERNELS = 2 }; /* a part with fewer kernels is not worth a thread */

typedef struct part {
	const lo_compile *job;
	const cg_unit *unit;
	const cg_owns *owns;
	int bits, n;
	size_t bytes;               /* size of its text */
	int *which;                 /* indices of its kernels in the job */
	const char **name;
	cg_key *key;
	rt_entry *fn;
	cg_object *object;
	rt_err err;
	pthread_t thread;
	bool threaded;
} part;

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
static void compile_text(part *p, struct cg_target *t, const rt_text *text)
{
	void *object;
	size_t bytes;
	if (cg_object_of(t, text->s, text->n, &object, &bytes, &p->err) != TJ_OK) return;
	cg_library *l = cg_link(object, p->n, p->name, p->fn, &p->err);
	if (!l || (p->object = cg_keep(l, bytes, p->n, p->key, p->fn, p->owns)) != NULL) return;
	cg_unlink(l);
	rt_fail(&p->err, TJ_ERR_NOMEM, "codegen", "out of memory");
}

static void *compile_part(void *env)
{
	part *p = env;
	rt_text text = { 0 };
	struct cg_target *t = cg_target_get(p->bits, &p->err);
	if (!t) return NULL;
	cg_put_head(&text, p->job, t, p->bits);
	for (int i = 0; i < p->n; i++) cg_put_linked(&text, rt_str(&p->unit[p->which[i]].text), p->owns);
	cg_put_foot(&text, p->bits);
	if (text.oom) rt_fail(&p->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	else compile_text(p, t, &text);
	rt_text_free(&text);
	return NULL;
}

static bool make_part(part *p, const lo_compile *job, const cg_unit *u, const cg_owns *owns, int bits)
{
	size_t n = (size_t)job->nkernel + 1;
	*p = (part){ .job = job, .unit = u, .owns = owns, .bits = bits };
	p->which = rt_calloc(n * sizeof *p->which);
	p->name = rt_calloc(n * sizeof *p->name);
	p->key = rt_calloc(n * sizeof *p->key);
	p->fn = rt_calloc(n * sizeof *p->fn);
	return p->which && p->name && p->key && p->fn;
}

static void drop_part(part *p)
{
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

/* Each kernel goes to the part with the least text. */
static void share(part *p, int parts, const lo_compile *job, const cg_unit *u)
{
	for (int k = 0; k < job->nkernel; k++) {
		int to = 0;
		if (u[k].there || u[k].same >= 0) continue;
		for (int i = 1; i < parts; i++)
			if (p[i].bytes < p[to].bytes) to = i;
		part *at = &p[to];
		at->which[at->n] = k;
		at->name[at->n] = job->kernel[k]->name;
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
	p->threaded = pthread_create(&p->thread, NULL, compile_part, p) == 0;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

static void run(part *p, int parts)
{
	for (int i = 1; i < parts; i++) start(&p[i]);
	for (int i = 0; i < parts; i++)
		if (!p[i].threaded) compile_part(&p[i]);
	for (int i = 1; i < parts; i++)
		if (p[i].threaded) pthread_join(p[i].thread, NULL);
}

tj_status cg_build(lo_compile *job, const cg_unit *u, const cg_owns *owns, int bits, cg_object **made, rt_err *err)
{
	part p[CG_PARTS];
	int fresh = 0, parts, have = 0;
	tj_status st = TJ_OK;
	for (int k = 0; k < job->nkernel; k++) fresh += !u[k].there && u[k].same < 0;
	if (!fresh) return TJ_OK;
	parts = fresh / PART_KERNELS < cores() ? fresh / PART_KERNELS : cores();
	parts = parts < 1 ? 1 : parts > CG_PARTS ? CG_PARTS : parts;
	while (st == TJ_OK && have < parts)
		if (!make_part(&p[have++], job, u, owns, bits)) st = rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (st == TJ_OK) {
		share(p, parts, job, u);
		run(p, parts);
	}
	for (int i = 0; i < have; i++) {
		if (st == TJ_OK && p[i].err.code != TJ_OK) *err = p[i].err, st = err->code;
		for (int k = 0; p[i].object && k < p[i].n; k++) job->fn[p[i].which[k]] = p[i].fn[k];
		made[i] = p[i].object;
		drop_part(&p[i]);
	}
	return st;
}
