/* SPDX-License-Identifier: MIT */
/* module: programs of CUDA C that are compiled and loaded, and their kernels. */
#include "codegen_cuda/cu.h"

static void destroy(rt_shared *code)
{
	cu_module *m = (cu_module *)code;
	cu_uncache(m);
	rt_cuda_unload(m->gpu, m->module);
	for (uint32_t i = 0; i < m->n; i++) rt_vec_free(&m->params[i].param);
	rt_free(m->params);
	rt_free(m);
}

cu_module *cu_module_load(const char *text, int gpu, uint32_t n, rt_err *err)
{
	void *cubin = NULL;
	cu_module *m = rt_calloc(sizeof *m + n * sizeof *m->kernel);
	cu_params *params = rt_calloc((n + 1) * sizeof *params);
	tj_status st = m && params ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (m) *m = (cu_module){ .code = { .refs = 1, .destroy = destroy }, .gpu = gpu, .n = params ? n : 0, .params = params };
	else rt_free(params);
	if (st == TJ_OK) st = rt_nvrtc_compile(text, rt_cuda_arch(gpu), &cubin, &m->code.bytes, err);
	if (st == TJ_OK) st = rt_cuda_load(gpu, cubin, &m->module, err);
	rt_free(cubin);
	if (st == TJ_OK) return m;
	if (m) destroy(&m->code);
	return NULL;
}

void cu_module_keep(cu_module *m, const char *key)
{
	char *copy = rt_strdup(key);
	if (copy) cu_cache(m, copy);
}

cu_module *cu_module_of(const lo_target *t, const char *text, const char *name, const rt_cuda_kernel *how, cu_params params, bool *compiled,
                        rt_err *err)
{
	cu_module *m = params.param.n ? cu_cached(cu_number(t), text) : NULL;
	*compiled = !m;
	if (!m && params.param.n && (m = cu_module_load(text, cu_number(t), 1, err))) {
		m->params[0] = params;
		m->kernel[0] = (rt_cuda_kernel){
			.threads = how->threads, .units = how->units, .own = how->own, .nparam = params.param.n, .param = params.param.v
		};
		if (rt_cuda_find(m->gpu, m->module, name, &m->kernel[0], err) == TJ_OK) return cu_module_keep(m, text), m;
		rt_shared_unref(&m->code);
		return NULL;
	}
	if (!params.param.n) rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	rt_vec_free(&params.param);
	return m;
}
