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
typedef struct module {
	rt_code code;
	int gpu;
	void *module;
	uint32_t n;
	cu_params *params;           /* of each kernel */
	rt_cuda_kernel kernel[];
} module;

static void destroy(rt_code *code)
{
	module *m = (module *)code;
	rt_cuda_unload(m->gpu, m->module);
	for (uint32_t i = 0; i < m->n; i++) rt_vec_free(&m->params[i].param);
	rt_free(m->params);
	rt_free(m);
}

static tj_status find_kernel(module *m, int i, const lo_kernel *k, const lo_schedule *s, rt_err *err)
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

static tj_status build(lo_compile *job, const char *text, module *m, rt_err *err)
{
	void *cubin = NULL;
	size_t bytes = 0;
	m->gpu = ordinal(job->schedule[0]->target);
	tj_status st = rt_nvrtc_compile(text, rt_cuda_arch(m->gpu), &cubin, &bytes, err);
	if (st == TJ_OK) st = rt_cuda_load(m->gpu, cubin, &m->module, err);
	rt_free(cubin);
	for (int i = 0; st == TJ_OK && i < job->nkernel; i++) {
		st = find_kernel(m, i, job->kernel[i], job->schedule[i], err);
		job->fn[i] = (rt_entry)(uintptr_t)&m->kernel[i];
	}
	m->code.bytes = bytes;
	return st;
}

static tj_status compile(lo_compile *job, rt_err *err)
{
	const double start = rt_now_ms();
	rt_text t = { 0 };
	cu_prelude(&t);
	for (int i = 0; i < job->nkernel; i++) cu_kernel(job->kernel[i], job->schedule[i], &t);
	module *m = rt_calloc(sizeof *m + (size_t)job->nkernel * sizeof *m->kernel);
	cu_params *params = rt_calloc(((size_t)job->nkernel + 1) * sizeof *params);
	tj_status st = m && params && !t.oom ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (m) *m = (module){ .code = { .refs = 1, .destroy = destroy }, .n = params ? (uint32_t)job->nkernel : 0, .params = params };
	if (st == TJ_OK) st = build(job, rt_str(&t), m, err);
	if (st == TJ_OK) job->code = &m->code;
	else if (m) destroy(&m->code);
	job->text = st == TJ_OK && job->keep_text ? rt_strdup(rt_str(&t)) : NULL;
	rt_text_free(&t);
	job->codegen_ms = rt_now_ms() - start;
	return st;
}

static int width(void) { return 32 * CU_WARP; }

const lo_backend *cu_find(const char *name, const char **why)
{
	static const lo_backend backend = { .name = "cuda", .missing = rt_nvrtc_missing, .compile = compile, .width = width, .abi = LO_ABI };
	(void)name;
	*why = rt_nvrtc_missing();
	return *why ? NULL : &backend;
}

