/* SPDX-License-Identifier: MIT */
/* code: the code of a plan's kernels: of the family, of an equal kernel of the plan, or compiled.
 *
 * requires the steps of the plan made and its kernels verified */
#include "lower/twin.h"

static tj_status nomem(rt_err *err)
{
	return rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
}

static void keep_texts(lo_low *L, rt_plan *p)
{
	rt_text kernels = { 0 };
	for (uint32_t i = 0; i < L->step.n; i++)
		if (L->step.v[i].built) lo_print(&L->step.v[i].built->k, &L->step.v[i].built->s, &kernels);
	p->kernel_text = lo_take_text(&kernels, &p->mem);
}

/* Kernels to compile: those without code yet, one of equal ones, and none that has nothing to do. */
typedef struct work {
	lo_twin *twin;           /* every kernel with something to do; then those that they will be at other sizes */
	uint32_t ntwin, nother;
	const lo_kernel **kernel;
	const lo_schedule **schedule;
	lo_twin **from;          /* by kernel to compile */
	rt_entry *fn;
	int n;
} work;

static void compile_too(work *w, lo_twin *x)
{
	w->kernel[w->n] = x->k;
	w->schedule[w->n] = x->s;
	w->from[w->n++] = x;
}

/* With keep_text all kernels are compiled, and nothing is added to the family. */
static bool choose_work(lo_low *L, rt_plan *p, work *w)
{
	for (uint32_t i = 0; i < L->step.n; i++) {
		if (!L->step.v[i].built) continue;
		rt_step *t = p->step[i].rest ? p->step[i].rest : &p->step[i];
		if (t->units) w->twin[w->ntwin++] = (lo_twin){ .k = &L->step.v[i].built->k, .s = &L->step.v[i].built->s, .t = t, .of = &L->step.v[i] };
	}
	if (!lo_choose_code(L, p, w->twin, w->ntwin)) return false;
	for (uint32_t i = 0; i < w->ntwin; i++)
		if ((w->twin[i].code == i && !w->twin[i].t->fn) || L->o->keep_text) compile_too(w, &w->twin[i]);
	return true;
}

/* Adds the kernel that a product will be at other sizes, so that it is compiled with the one that it is now. No step of the plan runs it.
 */
static tj_status add_other(lo_low *L, work *w, const lo_twin *now)
{
	rt_text name = { 0 };
	lo_built *b = lo_build_other(L, now->of);
	rt_step *t = b ? lo_mem(L, sizeof *t) : NULL;
	if (!t) return L->oom ? nomem(L->err) : L->err->code;
	w->twin[w->ntwin + w->nother++] = (lo_twin){ .k = &b->k, .s = &b->s, .t = t };
	rt_putf(&name, "%s_other", now->k->name);
	b->k.name = lo_take_text(&name, &L->mem);
	b->s.grain = lo_grain(&b->k, &b->s);
	t->at = lo_mem(L, (b->nbuf + 1) * sizeof *t->at);
	t->nbuf = b->nbuf;
	return b->k.name && t->at ? lo_verify(&b->k, &b->s, L->err) : nomem(L->err);
}

static tj_status choose_others(lo_low *L, rt_plan *p, work *w)
{
	lo_twin *other = w->twin + w->ntwin;
	for (int i = 0, n = w->n; i < n && L->o->family && !L->o->keep_text; i++)
		if (add_other(L, w, w->from[i]) != TJ_OK) return L->err->code;
	if (!lo_choose_code(L, p, other, w->nother)) return nomem(L->err);
	for (uint32_t i = 0; i < w->nother; i++)
		if (other[i].code == i && !other[i].t->fn) compile_too(w, &other[i]);
	return TJ_OK;
}

void lo_add_text(rt_plan *p, char **all, const char *more)
{
	rt_text t = { 0 };
	if (!more) return;
	rt_putf(&t, "%s%s", *all ? *all : "", more);
	*all = t.oom ? NULL : rt_arena_strdup(&p->mem, rt_str(&t));
	rt_text_free(&t);
}

/* Compiles n kernels from `first` on; all are for the same target. */
static tj_status compile(lo_low *L, rt_plan *p, work *w, int first, int n)
{
	const lo_target *t = w->schedule[first]->target;
	lo_family *f = L->o->keep_text ? NULL : L->o->family;
	double start = rt_now_ms();
	const lo_backend *b = t->find(t->backend, &L->missing);
	if (!b) return rt_fail(L->err, TJ_ERR_COMPILE, "lower", "back end %s: %s", t->backend, L->missing);
	double found = rt_now_ms();
	lo_compile job = { .name = L->o->name,
		           .keep_text = L->o->keep_text,
		           .keep_assembly = L->o->keep_assembly,
		           .fn = w->fn + first,
		           .kernel = w->kernel + first,
		           .schedule = w->schedule + first,
		           .nkernel = n };
	tj_status st = b->compile(&job, L->err);
	if (st != TJ_OK) return st;
	p->exec.code_bytes += job.code ? job.code->bytes : 0;
	p->exec.codegen_ms += job.codegen_ms + found - start;
	for (int i = first; i < first + n; i++) p->exec.compiled += w->from[i]->of != NULL;
	lo_add_text(p, &p->code_text, job.text);
	lo_add_text(p, &p->assembly_text, job.assembly);
	rt_free(job.text);
	rt_free(job.assembly);
	lo_hold(p, job.code);
	for (int i = first; i < first + n; i++) {
		w->from[i]->t->fn = w->fn[i];
		if (!f) continue;
		lo_family_add(f, w->from[i]->kin, w->fn[i], job.code);
		w->from[i]->kin = NULL;
	}
	return TJ_OK;
}

/* A job for each run of kernels of one target. */
static tj_status compile_all(lo_low *L, rt_plan *p, work *w)
{
	tj_status st = TJ_OK;
	for (int i = 0, n; i < w->n && st == TJ_OK; i += n) {
		for (n = 1; i + n < w->n && w->schedule[i + n]->target == w->schedule[i]->target;) n++;
		st = compile(L, p, w, i, n);
	}
	return st;
}

/* Gives each twin the code of the kernel that was compiled for all of them. */
static void hand_on(lo_low *L, work *w)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < w->ntwin; i++) {
		if (w->twin[i].code == i) continue;
		w->twin[i].t->fn = w->twin[w->twin[i].code].t->fn;
		n++;
	}
	if (L->o->family) lo_family_twins(L->o->family, n);
}

static void free_work(work *w)
{
	for (uint32_t i = 0; i < w->ntwin + w->nother; i++) {
		lo_kin_free(w->twin[i].kin);
		if (i < w->ntwin) continue;
		lo_kernel_free(w->twin[i].k);
		lo_schedule_free(w->twin[i].s);
	}
}

tj_status lo_generate(lo_low *L, rt_plan *p)
{
	size_t n = p->exec.kernels;
	if (L->o->keep_text) keep_texts(L, p);
	if (!n) return TJ_OK;
	work w = { .twin = lo_mem(L, sizeof *w.twin * 2 * n),
		   .kernel = lo_mem(L, sizeof *w.kernel * 2 * n),
		   .schedule = lo_mem(L, sizeof *w.schedule * 2 * n),
		   .from = lo_mem(L, sizeof *w.from * 2 * n),
		   .fn = lo_mem(L, sizeof *w.fn * 2 * n) };
	if (L->oom) return nomem(L->err);
	tj_status st = choose_work(L, p, &w) ? TJ_OK : nomem(L->err);
	if (st == TJ_OK && w.n) st = choose_others(L, p, &w);
	if (st == TJ_OK && w.n) st = compile_all(L, p, &w);
	if (st == TJ_OK) hand_on(L, &w);
	free_work(&w);
	return st;
}
