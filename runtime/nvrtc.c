/* SPDX-License-Identifier: MIT */
/* nvrtc: the compiler of CUDA C, a library of the CUDA toolkit, opened by name at the first use. */
#include "runtime/cuda.h"
#include "runtime/fork.h"
#include "runtime/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

typedef void *program;
/* clang-format off */
#define NVRTC(X) \
	X(nvrtcVersion, int, (int *major, int *minor)) X(nvrtcGetErrorString, const char *, (int code)) \
	X(nvrtcCreateProgram, int, (program *p, const char *text, const char *name, int n, const char *const *headers, \
		const char *const *names)) \
	X(nvrtcDestroyProgram, int, (program *p)) X(nvrtcCompileProgram, int, (program p, int n, const char *const *options)) \
	X(nvrtcGetProgramLogSize, int, (program p, size_t *bytes)) X(nvrtcGetProgramLog, int, (program p, char *log)) \
	X(nvrtcGetNumSupportedArchs, int, (int *n)) X(nvrtcGetSupportedArchs, int, (int *arch)) \
	X(nvrtcGetCUBINSize, int, (program p, size_t *bytes)) X(nvrtcGetCUBIN, int, (program p, char *cubin)) \
	X(nvrtcGetPTXSize, int, (program p, size_t *bytes)) X(nvrtcGetPTX, int, (program p, char *ptx))
/* clang-format on */

static struct compiler {
#define X(name, type, params) type (*name) params;
	NVRTC(X)
#undef X
} nv;

static const char *load(void)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", NULL };
	void *library = rt_toolkit_open(names, "/nvidia/cuda_nvrtc/lib"), *symbol;
	if (!library)
		return "libnvrtc.so.13 (or .12) is not there: install the CUDA toolkit's NVRTC, or set TJ_CUDA_PATH to the folder that has it";
#define X(name, type, params)                                                                                          \
	symbol = dlsym(library, #name);                                                                                    \
	if (!symbol) return "this NVRTC lacks " #name;                                                                     \
	memcpy(&nv.name, &symbol, sizeof nv.name);
	NVRTC(X)
#undef X
	return NULL;
}

const char *rt_nvrtc_missing(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static bool tried;
	static const char *why;
	rt_lock(&once);
	if (!tried) why = load();
	tried = true;
	rt_unlock(&once);
	return why;
}

bool rt_nvrtc_version(int v[2]) { return nv.nvrtcVersion(&v[0], &v[1]) == 0; }

static tj_status refused(program p, int code, rt_err *err)
{
	enum { SHOWN = 400 };
	size_t n = 0;
	nv.nvrtcGetProgramLogSize(p, &n);
	char *log = rt_calloc(n + 1);
	if (log) nv.nvrtcGetProgramLog(p, log);
	rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "%s: %.*s", nv.nvrtcGetErrorString(code), SHOWN, log ? log : "");
	rt_free(log);
	return TJ_ERR_COMPILE;
}

/* The newest architecture that this NVRTC knows and that is not newer than `arch`; 0: none. */
static int known_arch(int arch)
{
	int n = 0, best = 0;
	if (nv.nvrtcGetNumSupportedArchs(&n) || n <= 0) return 0;
	int *all = rt_calloc((size_t)n * sizeof *all);
	if (all && !nv.nvrtcGetSupportedArchs(all))
		for (int i = 0; i < n; i++)
			if (all[i] <= arch && all[i] > best) best = all[i];
	rt_free(all);
	return best;
}

/* A GPU that is newer than NVRTC gets PTX, which its driver compiles. */
static void tell_ptx(int arch, int known)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	if (!atomic_flag_test_and_set(&told))
		rt_warn(NULL,
		        "NVRTC does not know sm_%d: kernels become PTX for compute_%d, which the driver compiles; install a newer NVRTC",
		        arch, known);
}

tj_status rt_nvrtc_compile(const char *text, int arch, void **code, size_t *bytes, rt_err *err)
{
	const char *missing = rt_nvrtc_missing();
	char target[40];
	program p = NULL;
	*code = NULL;
	if (missing) return rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "%s", missing);
	const int known = known_arch(arch);
	const bool ptx = known != arch;
	if (!known) return rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "this NVRTC cannot compile for sm_%d or anything older", arch);
	if (ptx) tell_ptx(arch, known);
	snprintf(target, sizeof target, "--gpu-architecture=%s_%d", ptx ? "compute" : "sm", known);
	const char *const options[] = { target, "--std=c++17", "--minimal", "--modify-stack-limit=false", "--fmad=false" };
	int failed = nv.nvrtcCreateProgram(&p, text, "tjit.cu", 0, NULL, NULL);
	if (failed) return rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "%s", nv.nvrtcGetErrorString(failed));
	failed = nv.nvrtcCompileProgram(p, (int)RT_COUNT(options), options);
	if (!failed) failed = (ptx ? nv.nvrtcGetPTXSize : nv.nvrtcGetCUBINSize)(p, bytes);
	if (!failed) *code = rt_alloc(*bytes + 1);
	if (*code) failed = (ptx ? nv.nvrtcGetPTX : nv.nvrtcGetCUBIN)(p, *code);
	tj_status st = failed ? refused(p, failed, err) : *code ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "nvrtc", "out of memory");
	nv.nvrtcDestroyProgram(&p);
	return st;
}
