/* SPDX-License-Identifier: MIT */
/* cumodule: programs that a GPU has loaded, and their kernels. */
#include "runtime/cuda.h"
#include "runtime/cudriver.h"

enum { SHARED_UNASKED = 48 << 10 }; /* bytes that every kernel may have */

int rt_cuda_arch(int n) { return rt_cu_gpus[n].arch; }

/* A driver does not load the code of a newer CUDA. */
static void hint_versions(rt_err *err)
{
	int nvrtc[2];
	const int driver = rt_cuda_version();
	if (!driver || !rt_nvrtc_version(nvrtc) || nvrtc[0] * 1000 + nvrtc[1] * 10 <= driver) return;
	rt_hint(err, "NVRTC is of CUDA %d.%d, the driver of CUDA %d.%d: update the driver, or set TJ_CUDA_PATH to a toolkit of its version",
	        nvrtc[0], nvrtc[1], driver / 1000, driver % 1000 / 10);
}

tj_status rt_cuda_load(int n, const void *cubin, void **module, rt_err *err)
{
	rt_gpu *g = &rt_cu_gpus[n];
	if (!rt_cu_enter(g)) return rt_cu_no_entry(g, err);
	tj_status st = RT_CU_TRY(g, cuModuleLoadData, (module, cubin), err);
	rt_cu_leave();
	if (st != TJ_OK) hint_versions(err);
	return st;
}

tj_status rt_cuda_find(int n, void *module, const char *name, rt_cuda_kernel *k, rt_err *err)
{
	rt_gpu *g = &rt_cu_gpus[n];
	if (!rt_cu_enter(g)) return rt_cu_no_entry(g, err);
	tj_status st = RT_CU_TRY(g, cuModuleGetFunction, (&k->function, module, name), err);
	atomic_init(&k->asked, SHARED_UNASKED);
	rt_cu_leave();
	return st;
}

void rt_cuda_unload(int n, void *module)
{
	if (!module || !rt_cu_enter(&rt_cu_gpus[n])) return;
	rt_cu.cuModuleUnload(module);
	rt_cu_leave();
}
