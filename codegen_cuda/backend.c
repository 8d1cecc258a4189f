/* backend: the kernels of a plan as one program of CUDA C, compiled by NVRTC and loaded as a module of their device. */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"

/* ---- targets ---- */
static lo_target targets[RT_DEVICES]; /* each GPU has its own, because code is shared by target */

static int ordinal(const lo_target *t) { return (int)(t - targets); }

const lo_target *cu_target(int gpu, int arch)
{
	lo_target *t = &targets[gpu];
	if (t->find) return t;
	*t = cu_model;
	cu_fit_target(t, arch);
	t->find = cu_find;
	return t;
}

const char *cu_open(void) { return rt_cuda_open(cu_target); }

/* ---- modules ---- */
static void destroy(rt_code *code)
{
	cu_module *m = (cu_module *)code;
	cu_uncache(m);
	rt_cuda_unload(m->gpu, m->module);
	for (uint32_t i = 0; i < m->n; i++) rt_vec_free(&m->params[i].param);
	rt_free(m->params);
	rt_free(m);
}

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

static tj_status build(const lo_compile *job, const char *text, cu_module *m, rt_err *err)
{
	void *cubin = NULL;
	size_t bytes = 0;
	tj_status st = rt_nvrtc_compile(text, rt_cuda_arch(m->gpu), &cubin, &bytes, err);
	if (st == TJ_OK) st = rt_cuda_load(m->gpu, cubin, &m->module, err);
	rt_free(cubin);
	for (int i = 0; st == TJ_OK && i < job->nkernel; i++) st = find_kernel(m, i, job->kernel[i], job->schedule[i], err);
	m->code.bytes = bytes;
	return st;
}

static cu_module *compile_module(const lo_compile *job, const char *text, int gpu, rt_err *err)
{
	cu_module *m = rt_calloc(sizeof *m + (size_t)job->nkernel * sizeof *m->kernel);
	cu_params *params = rt_calloc(((size_t)job->nkernel + 1) * sizeof *params);
	tj_status st = m && params ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (m) *m = (cu_module){ .code = { .refs = 1, .destroy = destroy }, .gpu = gpu, .n = params ? (uint32_t)job->nkernel : 0, .params = params };
	else rt_free(params);
	if (st == TJ_OK) st = build(job, text, m, err);
	if (st == TJ_OK) return m;
	if (m) destroy(&m->code);
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

/* What stands for the assembly: NVRTC gives machine code. */
static char *in_cubin(const cu_module *m)
{
	rt_text t = { 0 };
	rt_putf(&t, "// %zu bytes of machine code for sm_%d, which NVIDIA's nvdisasm shows\n", m->code.bytes, rt_cuda_arch(m->gpu));
	char *s = rt_strdup(rt_str(&t));
	rt_text_free(&t);
	return s;
}

static tj_status compile(lo_compile *job, rt_err *err)
{
	const double start = rt_now_ms();
	const int gpu = ordinal(job->schedule[0]->target);
	rt_text text = { 0 }, key = { 0 };
	put_program(job, false, &key);
	cu_module *m = key.oom ? NULL : cu_cached(gpu, rt_str(&key));
	if (!m || job->keep_text) put_program(job, true, &text);
	if (!m && !key.oom && !text.oom && (m = compile_module(job, rt_str(&text), gpu, err))) {
		char *copy = rt_strdup(rt_str(&key));
		if (copy) cu_cache(m, copy); /* else an equal program will be compiled again */
	}
	if (!m) rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory"); /* unless there is an error already */
	for (int i = 0; m && i < job->nkernel; i++) job->fn[i] = (rt_entry)(uintptr_t)&m->kernel[i];
	job->code = m ? &m->code : NULL;
	job->text = m && job->keep_text ? rt_strdup(rt_str(&text)) : NULL;
	job->assembly = m && job->keep_assembly ? in_cubin(m) : NULL;
	rt_text_free(&text);
	rt_text_free(&key);
	job->codegen_ms = rt_now_ms() - start;
	return m ? TJ_OK : err->code;
}

static int width(void) { return 32 * CU_WARP; }

const lo_backend *cu_find(const char *name, const char **why)
{
	static const lo_backend backend = { .name = "cuda", .missing = rt_nvrtc_missing, .compile = compile, .width = width, .abi = LO_ABI };
	(void)name;
	*why = rt_nvrtc_missing();
	return *why ? NULL : &backend;
}

