/* SPDX-License-Identifier: MIT */
/* backend: the plug-in's one symbol. Kernels of a plan -> text -> objects -> code. Kernels that differ only in their names are
 * compiled once, and not at all if a plan that exists has the same one. */
#include "codegen_llvm/cg.h"

#include <llvm/Config/llvm-config.h>

typedef struct plan_code {
	rt_shared code;
	uint32_t n;
	cg_object *object[];
} plan_code;

/* LLVM's locks and ours are held only between these. */
static void nothing(void) {}
static void (*enter)(void) = nothing, (*leave)(void) = nothing;
static void use_gate(void (*in)(void), void (*out)(void))
{
	enter = in;
	leave = out;
}

static void destroy(rt_shared *code)
{
	plan_code *p = (plan_code *)code;
	enter();
	for (uint32_t i = 0; i < p->n; i++) cg_drop(p->object[i]);
	leave();
	rt_free(p);
}

static void hold(plan_code *p, cg_object *o)
{
	if (!o) return;
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->object[i] != o) continue;
		cg_drop(o); /* one reference is enough */
		return;
	}
	p->object[p->n++] = o;
	p->code.bytes += cg_object_bytes(o);
}

/* ---- text ---- */
static int equal_before(const cg_unit *u, int k)
{
	for (int i = 0; i < k; i++)
		if (u[i].same < 0 && u[i].key.n == u[k].key.n && !memcmp(u[i].key.text, u[k].key.text, u[k].key.n))
			return i;
	return -1;
}

static cg_key key_of(const rt_text *t, int bits)
{
	const char *body = strchr(t->s, '\n'); /* the name stands in the first line */
	return (cg_key){ .text = body, .n = t->n - (size_t)(body - t->s), .machine = (uint64_t)rt_features(bits) << 32 | (uint64_t)bits };
}

/* keep_text: the recipe is kept, too. */
static tj_status print_kernel(const lo_compile *job, int k, cg_unit *u, cg_owns *owns, int bits, rt_err *err)
{
	cg_recipe how;
	tj_status st = cg_recipe_make(&how, job->kernel[k], job->schedule[k], bits, err);
	if (st == TJ_OK) st = cg_kernel(&how, owns, &u->text, err);
	if (st == TJ_OK && job->keep_text) cg_recipe_print(&how, &u->recipe);
	cg_recipe_free(&how);
	return st;
}

static tj_status print(const lo_compile *job, cg_unit *u, cg_owns *owns, int bits, rt_err *err)
{
	for (int k = 0; k < job->nkernel; k++) {
		tj_status st = print_kernel(job, k, &u[k], owns, bits, err);
		if (st != TJ_OK) return st;
		u[k].key = key_of(&u[k].text, bits);
		u[k].same = equal_before(u, k);
	}
	return TJ_OK;
}

static void put_comment(rt_text *out, const char *text)
{
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		rt_putf(out, "; %.*s\n", (int)n, text);
	}
}

/* The text of all kernels of the plan, for dumps, including those that are not compiled now. */
static char *dump(const lo_compile *job, const cg_unit *u, const cg_owns *owns, const struct cg_target *t, int bits)
{
	rt_text out = { 0 };
	cg_put_head(&out, job, t, bits);
	for (int k = 0; k < job->nkernel; k++)
		if (u[k].same < 0) put_comment(&out, rt_str(&u[k].recipe)), rt_puts(&out, rt_str(&u[k].text));
		else rt_putf(&out, "; %s is %s\n\n", job->kernel[k]->name, job->kernel[u[k].same]->name);
	for (uint32_t i = 0; i < owns->n; i++) rt_puts(&out, rt_str(&owns->v[i].text));
	cg_put_foot(&out, t, bits, false);
	if (out.oom) rt_text_free(&out);
	return out.s;
}

/* ---- a job ---- */
/* The functions that kernels call, as a job of their own. The objects of kernels keep them. */
typedef struct own_job {
	lo_compile job;
	lo_kernel *kernel;           /* only the name */
	const lo_kernel **at;
	cg_unit *unit;
} own_job;

static tj_status make_own_job(own_job *w, const lo_compile *job, cg_owns *owns, int bits, rt_err *err)
{
	const uint32_t n = owns->n;
	*w = (own_job){ .job = { .nkernel = (int)n, .name = job->name, .cpu = job->cpu } };
	w->kernel = rt_calloc((n + 1) * sizeof *w->kernel);
	w->at = rt_calloc((n + 1) * sizeof *w->at);
	w->unit = rt_calloc((n + 1) * sizeof *w->unit);
	w->job.kernel = w->at;
	w->job.fn = rt_calloc((n + 1) * sizeof *w->job.fn);
	if (!w->kernel || !w->at || !w->unit || !w->job.fn) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	for (uint32_t i = 0; i < n; i++) {
		cg_own *o = &owns->v[i];
		w->kernel[i].name = o->name.s;
		w->at[i] = &w->kernel[i];
		w->unit[i] = (cg_unit){ .text = o->text, .key = key_of(&o->text, bits), .same = -1 };
		w->unit[i].there = (o->object = cg_find(w->unit[i].key, &o->fn, &o->blob)) != NULL;
	}
	return TJ_OK;
}

static void drop_own_job(own_job *w)
{
	rt_free(w->kernel);
	rt_free(w->at);
	rt_free(w->unit);
	rt_free(w->job.fn);
}

static tj_status finish_owns(const own_job *w, cg_batch *b, cg_owns *owns, rt_err *err)
{
	cg_object *made[CG_PARTS] = { NULL };
	tj_status st = cg_finish(b, made, err);
	for (uint32_t i = 0; st == TJ_OK && i < owns->n; i++) {
		cg_own *o = &owns->v[i];
		if (!w->unit[i].there && !(o->object = cg_find(w->unit[i].key, &o->fn, &o->blob)))
			st = rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	}
	for (int i = 0; i < CG_PARTS; i++)
		if (made[i]) cg_drop(made[i]);
	return st;
}

/* What is there already is held; the rest is compiled. fn: by unit. */
static tj_status obtain(lo_compile *job, cg_unit *u, cg_owns *owns, int bits, plan_code *p, rt_err *err)
{
	const cg_owns none = { 0 };
	own_job w;
	for (int k = 0; k < job->nkernel; k++) {
		rt_blob blob = { 0 };
		cg_object *o = u[k].same < 0 ? cg_find(u[k].key, &job->fn[k], &blob) : NULL;
		if (job->blob) job->blob[k] = blob;
		u[k].there = o != NULL;
		hold(p, o);
	}
	tj_status st = make_own_job(&w, job, owns, bits, err);
	cg_batch b[CG_BATCHES] = { { .job = job, .unit = u, .owns = owns }, { .job = &w.job, .unit = w.unit, .owns = &none } };
	cg_object *made[CG_PARTS] = { NULL };
	if (st == TJ_OK) st = cg_generate(b, CG_BATCHES, bits, err);
	if (st == TJ_OK) st = finish_owns(&w, &b[1], owns, err);
	if (st == TJ_OK) st = cg_finish(&b[0], made, err);
	for (int i = 0; i < CG_PARTS; i++) hold(p, made[i]);
	for (int k = 0; k < job->nkernel; k++)
		if (u[k].same >= 0) {
			job->fn[k] = job->fn[u[k].same];
			if (job->blob) job->blob[k] = job->blob[u[k].same];
		}
	for (int i = 0; i < 2; i++) cg_drop_batch(&b[i]);
	drop_own_job(&w);
	return st;
}

static tj_status compile_units(lo_compile *job, cg_unit *u, cg_owns *owns, int bits, plan_code **p, rt_err *err)
{
	struct cg_target *t = cg_target_get(bits, err);
	if (!t) return err->code;
	tj_status st = print(job, u, owns, bits, err);
	if (st != TJ_OK) return st;
	if (!(*p = rt_calloc(sizeof **p + ((size_t)job->nkernel + CG_PARTS) * sizeof *(*p)->object)))
		return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (job->keep_text) job->text = dump(job, u, owns, t, bits);
	if (job->keep_assembly && job->text) job->assembly = cg_assembly_of(t, job->text, strlen(job->text), err);
	return job->only_text ? TJ_OK : obtain(job, u, owns, bits, *p, err);
}

/* For tests. */
static tj_status recipe(const lo_kernel *k, const lo_schedule *s, rt_cpu cpu, const char *given, rt_text *text, rt_text *code, rt_err *err)
{
	const rt_cpu was = rt_cpu_as(cpu);
	cg_recipe how;
	cg_owns owns = { 0 };
	tj_status st = given ? cg_recipe_parse(&how, k, s, given, err) : cg_recipe_make(&how, k, s, cpu.bits, err);
	if (st == TJ_OK) st = cg_kernel(&how, &owns, code, err);
	if (st == TJ_OK) cg_recipe_print(&how, text);
	cg_recipe_free(&how);
	cg_drop_owns(&owns);
	rt_cpu_as(was);
	return st;
}

enum { ROOM = 64 << 20 }; /* LLVM ends the process when it gets no memory */

static tj_status compile(lo_compile *job, rt_err *err)
{
	double start = rt_now_ms();
	const rt_cpu was = rt_cpu_as(job->cpu);
	cg_unit *u = rt_calloc(((size_t)job->nkernel + 1) * sizeof *u);
	cg_owns owns = { 0 };
	plan_code *p = NULL;
	job->code = NULL;
	job->text = job->assembly = NULL;
	enter();
	tj_status st = u && rt_has_room(ROOM) ? compile_units(job, u, &owns, rt_vector_bits(), &p, err)
	                                      : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	for (int k = 0; u && k < job->nkernel; k++) rt_text_free(&u[k].text), rt_text_free(&u[k].recipe);
	rt_free(u);
	cg_drop_owns(&owns);
	if (p) p->code = (rt_shared){ .refs = 1, .bytes = p->code.bytes, .destroy = destroy };
	if (st == TJ_OK) job->code = &p->code;
	else if (p) destroy(&p->code);
	leave();
	rt_cpu_as(was);
	job->codegen_ms = rt_now_ms() - start;
	return st;
}

static const lo_backend backend = { .name = "llvm",
	                            .missing = rt_cpu_missing,
	                            .compile = compile,
	                            .width = rt_vector_bits,
	                            .use_gate = use_gate,
	                            .use_teller = rt_tell_through,
	                            .version = LLVM_VERSION_STRING,
	                            .build = rt_build,
	                            .recipe = recipe };

TJ_API extern const uint64_t tj_llvm_number[2];
const uint64_t tj_llvm_number[2] = { TJ_VERSION_NUMBER, LO_ABI };
TJ_API const lo_backend *tj_llvm_backend(void);
const lo_backend *tj_llvm_backend(void) { return &backend; }
