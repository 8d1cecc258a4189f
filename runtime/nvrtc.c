/* nvrtc: the compiler of CUDA C, a library of the CUDA toolkit, opened by name at the first use. */
#include "runtime/cuda.h"
#include "runtime/fork.h"

#include <dlfcn.h>
#include <pthread.h>

typedef void *program;
#define NVRTC(X)                                                                                                       \
	X(nvrtcVersion, int, (int *major, int *minor)) X(nvrtcGetErrorString, const char *, (int code))                                                                   \
	X(nvrtcCreateProgram, int, (program *p, const char *text, const char *name, int n, const char *const *headers, const char *const *names)) \
	X(nvrtcDestroyProgram, int, (program *p)) X(nvrtcCompileProgram, int, (program p, int n, const char *const *options)) \
	X(nvrtcGetProgramLogSize, int, (program p, size_t *bytes)) X(nvrtcGetProgramLog, int, (program p, char *log))      \
	X(nvrtcGetCUBINSize, int, (program p, size_t *bytes)) X(nvrtcGetCUBIN, int, (program p, char *cubin))

static struct compiler {
#define X(name, type, params) type (*name) params;
	NVRTC(X)
#undef X
} nv;

static const char *load(void)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", NULL };
	void *library = rt_toolkit_open(names, "/nvidia/cuda_nvrtc/lib"), *symbol;
	if (!library) return "libnvrtc.so.13 (or .12) is not there: install the CUDA toolkit's NVRTC, or set TJ_CUDA_PATH to the folder that has it";
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

tj_status rt_nvrtc_compile(const char *text, int arch, void **cubin, size_t *bytes, rt_err *err)
{
	const char *missing = rt_nvrtc_missing();
	char target[40];
	program p = NULL;
	if (missing) return rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "%s", missing);
	snprintf(target, sizeof target, "--gpu-architecture=sm_%d", arch);
	const char *const options[] = { target, "--std=c++17", "--minimal", "--modify-stack-limit=false", "--fmad=false" };
	int code = nv.nvrtcCreateProgram(&p, text, "tjit.cu", 0, NULL, NULL);
	if (code) return rt_fail(err, TJ_ERR_COMPILE, "nvrtc", "%s", nv.nvrtcGetErrorString(code));
	code = nv.nvrtcCompileProgram(p, (int)RT_COUNT(options), options);
	if (!code) code = nv.nvrtcGetCUBINSize(p, bytes);
	*cubin = code ? NULL : rt_alloc(*bytes + 1);
	if (*cubin) code = nv.nvrtcGetCUBIN(p, *cubin);
	tj_status st = code ? refused(p, code, err) : *cubin ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "nvrtc", "out of memory");
	nv.nvrtcDestroyProgram(&p);
	return st;
}
