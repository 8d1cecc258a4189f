/* SPDX-License-Identifier: MIT */
/* backend: the kernels of a plan as programs of CUDA C, compiled by NVRTC and loaded as modules of their device. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"

/* ---- targets ---- */
const lo_target *cu_target(int gpu, int arch)
{
	static cu_gpu targets[RT_DEVICES]; /* each GPU has its own, because code is shared by target */
	lo_target *t = &targets[gpu].target;
	if (t->find) return t;
	targets[gpu].number = gpu;
	*t = cu_model;
	cu_fit_target(t, arch);
	t->find = cu_find;
	t->recall = cu_recall;
	return t;
}

const char *cu_open(void) { return rt_cuda_open(cu_target); }

/* ---- a program ---- */
static tj_status find_kernel(cu_module *m, int i, const lo_kernel *k, const lo_schedule *s, rt_err *err)
{
	const cu_shape x = cu_shape_of(k, s);
	if (!cu_params_of(k, &m->params[i])) return rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	rt_cuda_kernel *to = &m->kernel[i];
	to->threads = (unsigned)x.threads;
	to->units = (unsigned)x.units;
	to->own = x.own;
	to->nparam = m->params[i].param.n;
	to->param = m->params[i].param.v;
	return rt_cuda_find(m->gpu, m->module, k->name, &m->kernel[i], err);
}

static cu_module *compile_module(const lo_compile *job, const char *text, int gpu, bool compile, rt_err *err)
{
	cu_module *m = cu_module_load(text, gpu, (uint32_t)job->nkernel, job->store, compile, err);
	tj_status st = TJ_OK;
	for (int i = 0; m && st == TJ_OK && i < job->nkernel; i++) st = find_kernel(m, i, job->kernel[i], job->schedule[i], err);
	if (m && st == TJ_OK) return m;
	if (m) rt_shared_unref(&m->code);
	return NULL;
}

/* named: the kernels have their own names; else their numbers, so that functions with equal kernels have equal texts. */
static void put_program(const lo_compile *job, bool named, rt_text *t)
{
	rt_text kernels = { 0 };
	for (int i = 0; i < job->nkernel; i++) {
		char name[16];
		lo_kernel k = *job->kernel[i];
		snprintf(name, sizeof name, "k%d", i);
		if (!named) k.name = name;
		cu_kernel(&k, job->schedule[i], &kernels);
	}
	cu_prelude(rt_str(&kernels), t);
	rt_puts(t, rt_str(&kernels));
	t->oom |= kernels.oom;
	rt_text_free(&kernels);
}

/* ---- parts: the kernels of a large plan are compiled as several programs, by a thread each ---- */
enum { PART_KERNELS = 2 }; /* a part with fewer kernels is not worth a thread */

typedef struct part {
	lo_compile job;          /* some neighbouring kernels of the plan's job */
	int gpu;
	bool compile;            /* else only what exists or is in the disk cache is taken */
	cu_module *module;       /* NULL: an error */
	rt_err err;
} part;

typedef struct programs { rt_shared code; int n; rt_shared *of[RT_SIDES]; } programs; /* the code of a plan with several parts */

static void destroy_programs(rt_shared *code)
{
	programs *all = (programs *)code;
	for (int i = 0; i < all->n; i++) rt_shared_unref(all->of[i]);
	rt_free(all);
}

static void compile_part(void *env)
{
	part *p = env;
	rt_text text = { 0 }, key = { 0 };
	put_program(&p->job, false, &key);
	if (!key.oom) p->module = cu_cached(p->gpu, rt_str(&key));
	if (!p->module) put_program(&p->job, true, &text);
	if (!p->module && !key.oom && !text.oom && (p->module = compile_module(&p->job, rt_str(&text), p->gpu, p->compile, &p->err)))
		cu_module_keep(p->module, rt_str(&key));
	if (!p->module) rt_fail(&p->err, TJ_ERR_NOMEM, "codegen", "out of memory"); /* unless there is an error already */
	rt_text_free(&text);
	rt_text_free(&key);
}

static int split(const lo_compile *job, bool compile, part *p)
{
	const int gpu = cu_number(job->schedule[0]->target), most = rt_team_threads();
	int n = job->nkernel / PART_KERNELS < most ? job->nkernel / PART_KERNELS : most;
	n = n < 1 ? 1 : n > RT_SIDES ? RT_SIDES : n;
	for (int i = 0; i < n; i++) {
		const int first = job->nkernel * i / n, end = job->nkernel * (i + 1) / n;
		p[i] = (part){ .job = *job, .gpu = gpu, .compile = compile };
		p[i].job.kernel += first;
		p[i].job.schedule += first;
		p[i].job.fn += first;
		p[i].job.nkernel = end - first;
	}
	return n;
}

/* The code of several parts: takes over their modules. NULL: out of memory. */
static rt_shared *bundle(const part *p, int n)
{
	programs *all = rt_calloc(sizeof *all);
	if (all) *all = (programs){ .code = { .refs = 1, .destroy = destroy_programs }, .n = n };
	for (int i = 0; all && i < n; i++) {
		all->of[i] = &p[i].module->code;
		all->code.bytes += p[i].module->code.bytes;
	}
	return all ? &all->code : NULL;
}

/* Takes over the modules, also after an error. */
static rt_shared *code_of(const part *p, int n, rt_err *err)
{
	rt_shared *code = NULL;
	bool ok = true;
	for (int i = 0; i < n; i++) {
		if (!p[i].module && ok) *err = p[i].err;
		ok &= p[i].module != NULL;
	}
	if (ok) code = n == 1 ? &p[0].module->code : bundle(p, n);
	if (ok && !code) rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	for (int i = 0; i < n && !code; i++)
		if (p[i].module) rt_shared_unref(&p[i].module->code);
	return code;
}

/* What stands for the assembly: NVRTC gives machine code. */
static char *in_cubin(const rt_shared *code, int gpu)
{
	rt_text t = { 0 };
	rt_putf(&t, "// %zu bytes of machine code for sm_%d, which NVIDIA's nvdisasm shows\n", code->bytes, rt_cuda_arch(gpu));
	char *s = rt_strdup(rt_str(&t));
	rt_text_free(&t);
	return s;
}

/* compile: false: without NVRTC, which need not be there. */
static tj_status make(lo_compile *job, bool compile, rt_err *err)
{
	const double start = rt_now_ms();
	part p[RT_SIDES];
	void *env[RT_SIDES];
	const int n = split(job, compile, p);
	for (int i = 0; i < n; i++) env[i] = &p[i];
	rt_side_by_side(n, compile_part, env);
	for (int i = 0; i < n; i++)
		for (int k = 0; p[i].module && k < p[i].job.nkernel; k++) p[i].job.fn[k] = (rt_entry)(uintptr_t)&p[i].module->kernel[k];
	job->code = code_of(p, n, err);
	if (job->code && job->keep_text) {
		rt_text text = { 0 };
		put_program(job, true, &text);
		job->text = rt_strdup(rt_str(&text));
		rt_text_free(&text);
	}
	job->assembly = job->code && job->keep_assembly ? in_cubin(job->code, p[0].gpu) : NULL;
	job->codegen_ms = rt_now_ms() - start;
	return job->code ? TJ_OK : err->code;
}

static tj_status compile(lo_compile *job, rt_err *err) { return make(job, true, err); }

bool cu_recall(lo_compile *job)
{
	rt_err ignored = { 0 };
	return job->store && make(job, false, &ignored) == TJ_OK;
}

static int width(void) { return 32 * CU_WARP; }

const lo_backend *cu_find(const char *name, const char **why)
{
	static const lo_backend backend = { .name = "cuda", .missing = rt_nvrtc_missing, .compile = compile, .width = width };
	(void)name;
	*why = rt_nvrtc_missing();
	return *why ? NULL : &backend;
}

