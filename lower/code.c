/* SPDX-License-Identifier: MIT */
/* code: the code of a plan's kernels: of the family, of an equal kernel of the plan, of the disk cache, or compiled.
 *
 * requires the steps of the plan made and its kernels verified */
#include "lower/stored.h"
#include "lower/twin.h"
#include "runtime/profile.h"

static tj_status nomem(rt_err *err)
{
	return rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
}

static bool keep_each(lo_low *L)
{
	L->text = lo_mem(L, (L->step.n + 1) * sizeof *L->text);
	for (uint32_t i = 0; L->text && i < L->step.n; i++) {
		rt_text t = { 0 };
		L->text[i].shares = i;
		if (!L->step.v[i].built) continue;
		lo_print(&L->step.v[i].built->k, &L->step.v[i].built->s, &t);
		L->text[i].kernel = lo_take_text(&t, &L->mem);
	}
	return !L->oom;
}

static void keep_texts(lo_low *L, rt_plan *p)
{
	rt_text kernels = { 0 };
	for (uint32_t i = 0; i < L->step.n; i++)
		if (L->step.v[i].built) lo_print(&L->step.v[i].built->k, &L->step.v[i].built->s, &kernels);
	p->kernel_text = lo_take_text(&kernels, &p->mem);
}

/* Kernels that need code: those without any yet, one of equal ones, and none that has nothing to do. */
typedef struct work {
	lo_twin *twin;           /* every kernel with something to do; then those that they will be at other sizes */
	uint32_t ntwin, nother;
	lo_twin **want;          /* those that need code */
	int n;
} work;

/* With keep_text all kernels are compiled, with keep_each one of equal ones; nothing is added to the family. */
static bool choose_work(lo_low *L, rt_plan *p, work *w)
{
	for (uint32_t i = 0; i < L->step.n; i++) {
		if (!L->step.v[i].built) continue;
		rt_step *t = p->step[i].rest ? p->step[i].rest : &p->step[i];
		if (t->units) w->twin[w->ntwin++] = (lo_twin){ .k = &L->step.v[i].built->k, .s = &L->step.v[i].built->s, .t = t, .of = &L->step.v[i] };
	}
	if (!lo_choose_code(L, p, w->twin, w->ntwin)) return false;
	for (uint32_t i = 0; i < w->ntwin; i++)
		if (w->twin[i].code == i ? L->o->keep_text || !w->twin[i].t->fn : L->o->keep_text && !L->o->keep_each)
			w->want[w->n++] = &w->twin[i];
	for (uint32_t i = 0; L->text && i < w->ntwin; i++)
		L->text[w->twin[i].of - L->step.v].shares = (uint32_t)(w->twin[w->twin[i].code].of - L->step.v);
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
		if (add_other(L, w, w->want[i]) != TJ_OK) return L->err->code;
	if (!lo_choose_code(L, p, other, w->nother)) return nomem(L->err);
	for (uint32_t i = 0; i < w->nother; i++)
		if (other[i].code == i && !other[i].t->fn) w->want[w->n++] = &other[i];
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

/* Kernels of one target as the disk cache and the back end take them. */
typedef struct batch {
	lo_twin **want;          /* by kernel */
	const lo_kernel **kernel;
	const lo_schedule **schedule;
	rt_entry *fn;
	rt_blob *blob;
	int n;
} batch;

static void make_batch(lo_low *L, lo_twin **want, int n, batch *b)
{
	const size_t room = (size_t)n + 1;
	*b = (batch){ .want = want, .n = n, .kernel = lo_mem(L, room * sizeof *b->kernel), .schedule = lo_mem(L, room * sizeof *b->schedule),
		      .fn = lo_mem(L, room * sizeof *b->fn), .blob = lo_mem(L, room * sizeof *b->blob) };
	for (int i = 0; !L->oom && i < n; i++) b->kernel[i] = want[i]->k, b->schedule[i] = want[i]->s;
}

static void hold(rt_plan *p, rt_shared *code)
{
	p->exec.code_bytes += code ? code->bytes : 0;
	lo_hold(p, code);
}

/* The code of the batch's i-th kernel, which the plan holds, is the family's, too. */
static void adopt(lo_low *L, const batch *b, int i, rt_shared *code)
{
	lo_family *f = L->o->keep_text ? NULL : L->o->family;
	b->want[i]->t->fn = b->fn[i];
	if (!f) return;
	lo_family_add(f, b->want[i]->kin, b->fn[i], code);
	b->want[i]->kin = NULL;
}

/* Leaves those kernels in the batch that have no code. */
static void load(lo_low *L, rt_plan *p, batch *b, lo_stored *x)
{
	rt_shared **code = lo_mem(L, (size_t)b->n * sizeof *code);
	int left = 0;
	if (!code) return;
	lo_stored_load(x, b->fn, code);
	for (int i = 0; i < b->n; i++) {
		if (b->fn[i]) {
			p->exec.loaded += b->want[i]->of != NULL;
			adopt(L, b, i, code[i]);
			if (!i || code[i] != code[i - 1]) hold(p, code[i]); /* most of them are in one mapping */
			else rt_shared_unref(code[i]);
			continue;
		}
		const rt_text key = x->key[left];
		b->want[left] = b->want[i], b->kernel[left] = b->kernel[i], b->schedule[left] = b->schedule[i], b->fn[left] = NULL;
		x->key[left++] = x->key[i];
		x->key[i] = key;
	}
	b->n = left;
}

static tj_status compile(lo_low *L, rt_plan *p, const batch *b, lo_stored *x)
{
	const lo_target *t = b->schedule[0]->target;
	const double start = rt_now_ms();
	lo_compile job = { .name = L->o->name,
		           .cpu = rt_cpu_now(),
		           .store = L->o->keep_text ? NULL : L->o->store,
		           .keep_text = L->o->keep_text,
		           .keep_assembly = L->o->keep_assembly,
		           .only_text = L->text != NULL,
		           .fn = b->fn,
		           .blob = b->blob,
		           .kernel = b->kernel,
		           .schedule = b->schedule,
		           .nkernel = b->n };
	const bool recalled = t->recall && t->recall(&job);
	const lo_backend *by = recalled ? NULL : t->find(t->backend, &L->missing);
	if (!recalled && !by) return rt_fail(L->err, TJ_ERR_COMPILE, "lower", "back end %s: %s", t->backend, L->missing);
	const double found = rt_now_ms();
	rt_recorder *told = recalled ? NULL : rt_recording;
	rt_frame frame;
	if (told) rt_frame_begin(told, &frame);
	const tj_status st = recalled ? TJ_OK : by->compile(&job, L->err);
	if (told) rt_phase_end(told, &frame, RT_CODEGEN);
	if (st != TJ_OK) return st;
	if (!recalled) p->exec.codegen_ms += job.codegen_ms + found - start;
	for (int i = 0; i < b->n; i++) *(recalled ? &p->exec.loaded : &p->exec.compiled) += b->want[i]->of != NULL;
	for (int i = 0; x && by && lo_own_build(by) && i < b->n; i++) lo_stored_keep(x, i, b->kernel[i], &b->blob[i], b->fn[i], job.code);
	if (L->text) {
		lo_texts *own = &L->text[b->want[0]->of - L->step.v];
		own->code = job.text ? rt_arena_strdup(&L->mem, job.text) : NULL;
		own->assembly = job.assembly ? rt_arena_strdup(&L->mem, job.assembly) : NULL;
	} else {
		lo_add_text(p, &p->code_text, job.text);
		lo_add_text(p, &p->assembly_text, job.assembly);
	}
	rt_free(job.text);
	rt_free(job.assembly);
	hold(p, job.code);
	for (int i = 0; i < b->n; i++)
		if (b->fn[i]) adopt(L, b, i, job.code);
	return TJ_OK;
}

static tj_status no_code(lo_low *L, const batch *b)
{
	rt_fail(L->err, TJ_ERR_COMPILE, "import", "the file has no code for kernel %s at these sizes on this CPU (%d bits)",
	        b->kernel[0]->name, rt_vector_bits());
	rt_hint(L->err, "export it again, or import it with .recompile");
	return L->err->code;
}

/* Of n kernels of one target. */
static tj_status obtain(lo_low *L, rt_plan *p, lo_twin **want, int n)
{
	batch b;
	make_batch(L, want, n, &b);
	if (L->oom) return nomem(L->err);
	rt_recorder *told = rt_recording;
	rt_frame frame;
	if (told) rt_frame_begin(told, &frame);
	lo_stored *x = L->o->keep_text ? NULL : lo_stored_open(L->o->store, want[0]->s->target, n, b.kernel, b.schedule);
	if (x) load(L, p, &b, x);
	if (told) rt_phase_end(told, &frame, RT_CACHE);
	const tj_status st = !b.n ? TJ_OK : L->o->sealed ? no_code(L, &b) : compile(L, p, &b, x);
	lo_stored_close(x);
	return st;
}

/* A batch for each run of kernels of one target; with keep_each for each kernel. */
static tj_status obtain_all(lo_low *L, rt_plan *p, work *w)
{
	tj_status st = TJ_OK;
	for (int i = 0, n; i < w->n && st == TJ_OK; i += n) {
		for (n = 1; !L->text && i + n < w->n && w->want[i + n]->s->target == w->want[i]->s->target;) n++;
		st = obtain(L, p, w->want + i, n);
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
	if (L->o->see && !L->o->keep_text) return TJ_OK;
	if (L->o->keep_each && !keep_each(L)) return nomem(L->err);
	if (L->o->keep_text && !L->o->keep_each) keep_texts(L, p);
	if (!n) return TJ_OK;
	work w = { .twin = lo_mem(L, sizeof *w.twin * 2 * n), .want = lo_mem(L, sizeof *w.want * 2 * n) };
	if (L->oom) return nomem(L->err);
	tj_status st = choose_work(L, p, &w) ? TJ_OK : nomem(L->err);
	if (st == TJ_OK && w.n) st = choose_others(L, p, &w);
	if (st == TJ_OK && w.n) st = obtain_all(L, p, &w);
	if (st == TJ_OK) hand_on(L, &w);
	free_work(&w);
	return st;
}
