/* SPDX-License-Identifier: MIT */
/* cudriver: opens libcuda.so.1, which the driver of a machine with a GPU installs; errors; the current context. */
#include "runtime/cudriver.h"
#include "runtime/fork.h"

#include <dlfcn.h>

rt_cudriver rt_cu;
rt_gpu rt_cu_gpus[RT_DEVICES];
static unsigned home;            /* rt_fork_depth() of the process that opened the driver: a forked child cannot use it */

/* ---- errors ---- */
/* The errors of a kernel that went wrong or of a GPU that fell off; each later call gives them again. */
static bool is_lost(int code) { return code == 700 || code == 702 || code == 709 || code == 710 || (code >= 714 && code <= 719); }

static void hint_lost(rt_err *err)
{
	rt_hint(err,
	        "the context is lost: a kernel of this process, perhaps of another library, failed on the GPU; only a new process can use it. "
	        "The CPU goes on");
}

tj_status rt_cu_failed(const rt_gpu *g, int code, const char *what, rt_err *err)
{
	const char *name = NULL;
	if (!code) return TJ_OK;
	if (rt_cu.cuGetErrorName) rt_cu.cuGetErrorName(code, &name);
	rt_fail(err, code == RT_CU_OUT_OF_MEMORY ? TJ_ERR_NOMEM : TJ_ERR_DEVICE, "cuda", "%s: %s failed: %s (%d)", g->name, what,
	        name ? name : "unknown error", code);
	if (is_lost(code)) hint_lost(err);
	return code == RT_CU_OUT_OF_MEMORY ? TJ_ERR_NOMEM : TJ_ERR_DEVICE;
}

bool rt_cu_at_home(void) { return rt_fork_depth() == home; }

bool rt_cu_enter(const rt_gpu *g)
{
	return rt_cu_at_home() && rt_cu.cuCtxPushCurrent(g->context) == 0;
}

void rt_cu_leave(void)
{
	rt_cuobj was;
	rt_cu.cuCtxPopCurrent(&was);
}

tj_status rt_cu_no_entry(const rt_gpu *g, rt_err *err)
{
	if (rt_cu_at_home()) return rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s: its context is lost", g->name), hint_lost(err), TJ_ERR_DEVICE;
	rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s cannot be used in a forked process", g->name);
	rt_hint(err, "open the GPU in the child only, or use threads");
	return TJ_ERR_DEVICE;
}

/* ---- opening ---- */
const char *rt_cu_load(void)
{
	static char why[200];
	home = rt_fork_depth();
	typedef int get_proc(const char *name, void **fn, int version, uint64_t flags, void *result);
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;
	get_proc *get = NULL;
	if (!library) return "libcuda.so.1 is not there: install the NVIDIA driver";
	symbol = dlsym(library, "cuGetProcAddress_v2");
	memcpy(&get, &symbol, sizeof get);
	if (!get) return "the NVIDIA driver is older than CUDA 12: install a newer one";
#define X(name, version, params)                                                                                       \
	symbol = NULL;                                                                                                     \
	if (get(#name, &symbol, version, 0, NULL) || !symbol) return "the NVIDIA driver lacks " #name;                     \
	memcpy(&rt_cu.name, &symbol, sizeof rt_cu.name);
	RT_CU_DRIVER(X)
#undef X
	const int code = rt_cu.cuInit(0);
	const char *name = NULL;
	if (!code) return NULL;
	rt_cu.cuGetErrorName(code, &name);
	snprintf(why, sizeof why, "no GPU can be used: cuInit gives %s (%d)", name ? name : "an unknown error", code);
	return why;
}

int rt_cuda_version(void)
{
	int v = 0;
	return !rt_cu.cuDriverGetVersion || rt_cu.cuDriverGetVersion(&v) ? 0 : v;
}
