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

/* All that the machine code depends on; the options of NVRTC are those of the build. */
static rt_span key_of(const char *text, int gpu, rt_text *key)
{
	rt_putf(key, "sm_%d\n%s", rt_cuda_arch(gpu), text);
	return (rt_span){ key->s, key->n };
}

/* The program from the disk cache; false: it is not there, or the driver does not take it. */
static bool load_stored(cu_module *m, rt_store *store, rt_span key)
{
	void *file;
	rt_span code;
	rt_err ignored = { 0 };
	if (!store || !rt_store_used(store) || !rt_store_get(store, RT_STORE_CUBIN, key, &file, &code)) return false;
	void *copy = rt_alloc(code.bytes + 1); /* PTX, which a newer GPU gets, ends with a zero */
	if (copy) memcpy(copy, code.at, code.bytes), ((char *)copy)[code.bytes] = 0;
	const bool ok = copy && rt_cuda_load(m->gpu, copy, &m->module, &ignored) == TJ_OK;
	if (!ok) rt_store_miss(store, RT_STORE_CUBIN, key, RT_MISS_CONTENT);
	m->code.bytes = code.bytes;
	rt_free(copy);
	rt_free(file);
	return ok;
}

static tj_status compile_program(cu_module *m, const char *text, rt_store *store, rt_span key, rt_err *err)
{
	void *cubin = NULL;
	tj_status st = rt_nvrtc_compile(text, rt_cuda_arch(m->gpu), &cubin, &m->code.bytes, err);
	if (st == TJ_OK) st = rt_cuda_load(m->gpu, cubin, &m->module, err);
	if (st == TJ_OK && store) rt_store_put(store, RT_STORE_CUBIN, key, (rt_span){ cubin, m->code.bytes });
	rt_free(cubin);
	return st;
}

cu_module *cu_module_load(const char *text, int gpu, uint32_t n, rt_store *store, bool compile, rt_err *err)
{
	rt_text key = { 0 };
	cu_module *m = rt_calloc(sizeof *m + n * sizeof *m->kernel);
	cu_params *params = rt_calloc((n + 1) * sizeof *params);
	tj_status st = m && params ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (m) *m = (cu_module){ .code = { .refs = 1, .destroy = destroy }, .gpu = gpu, .n = params ? n : 0, .params = params };
	else rt_free(params);
	const rt_span k = key_of(text, gpu, &key);
	if (key.oom) store = NULL;
	if (st == TJ_OK && !load_stored(m, store, k))
		st = compile ? compile_program(m, text, store, k, err) : rt_fail(err, TJ_ERR_COMPILE, "codegen", "not in the disk cache");
	rt_text_free(&key);
	if (st == TJ_OK) return m;
	if (m) destroy(&m->code);
	return NULL;
}

void cu_module_keep(cu_module *m, const char *key)
{
	char *copy = rt_strdup(key);
	if (copy) cu_cache(m, copy);
}

cu_module *cu_module_of(const lo_target *t, const char *text, const char *name, const rt_cuda_kernel *how, cu_params params,
                        rt_store *store, bool *compiled, rt_err *err)
{
	cu_module *m = params.param.n ? cu_cached(cu_number(t), text) : NULL;
	*compiled = !m;
	if (!m && params.param.n && (m = cu_module_load(text, cu_number(t), 1, store, true, err))) {
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
