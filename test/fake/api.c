/* SPDX-License-Identifier: MIT */
/* api: the functions of the driver that a program finds by cuGetProcAddress. Each one checks what the real one does: that the driver was
 * opened, that a context is current, that handles are valid. */
#include "test/fake/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static int context_mark;                    /* its address is the context */
static _Thread_local void *current[64];     /* the stack of current contexts of a thread */
static _Thread_local int depth;

/* A function of the driver. `needs`: what must be there already; then the value, computed with the lock held. */
enum { NOTHING, STARTED, CONTEXT };
static int refused(const char *name, int needs)
{
	enum { ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 }; /* no call of the context succeeds after these */
	static int lost;
	int code;
	const bool hit = fake_injected(name, &code);
	if (hit && (code == ILLEGAL_ADDRESS || code == LAUNCH_FAILED)) lost = code;
	if (hit) return code;
	if (lost && needs == CONTEXT) return lost;
	if (needs >= STARTED && !started) return NOT_INITIALIZED;
	return needs == CONTEXT && (!depth || !current[depth - 1]) ? INVALID_CONTEXT : SUCCESS;
}

#define API(name, needs, params, value)                                                                                \
	static int api_##name params                                                                                       \
	{                                                                                                                  \
		pthread_mutex_lock(&lock);                                                                                     \
		int code = refused(#name, needs);                                                                              \
		if (!code) code = (value);                                                                                     \
		pthread_mutex_unlock(&lock);                                                                                   \
		return code;                                                                                                   \
	}

/* ---- values ---- */
static int start(unsigned flags)
{
	if (flags) return INVALID_VALUE;
	if (!started) fake_memory_open();
	started = true;
	return SUCCESS;
}

static int attribute(int *v, int a, int device)
{
	enum {
		THREADS = 1,
		X = 2,
		Y = 3,
		Z = 4,
		GRID_X = 5,
		GRID_Y = 6,
		GRID_Z = 7,
		SHARED = 8,
		WARPS = 10,
		REGS = 12,
		UNITS = 16,
		CACHE = 38,
		MAJOR = 75,
		MINOR = 76,
		SHARED_UNIT = 81,
		REGS_UNIT = 82,
		SHARED_ASKED = 97
	};
	const limits *l = fake_limits();
	if (device) return INVALID_DEVICE;
	switch (a) {
	case THREADS: case X: case Y: *v = MOST_THREADS; break;
	case Z: *v = 64; break;
	case GRID_X: *v = INT32_MAX; break;
	case GRID_Y: case GRID_Z: *v = MOST_YZ; break;
	case SHARED: *v = SHARED_UNASKED; break;
	case WARPS: *v = WARP; break;
	case REGS: case REGS_UNIT: *v = REGISTERS; break;
	case UNITS: *v = 4; break;
	case CACHE: *v = 32 << 20; break;
	case MAJOR: *v = l->arch / 10; break;
	case MINOR: *v = l->arch % 10; break;
	case SHARED_UNIT: *v = (int)l->shared + 1024; break;
	case SHARED_ASKED: *v = (int)l->shared; break;
	default: *v = 0;
	}
	return SUCCESS;
}

static const char *error_name(int code)
{
	switch (code) {
#define X(value, name) case value: return "CUDA_" name;
	X(SUCCESS, "SUCCESS") X(INVALID_VALUE, "ERROR_INVALID_VALUE") X(OUT_OF_MEMORY, "ERROR_OUT_OF_MEMORY")
	X(NOT_INITIALIZED, "ERROR_NOT_INITIALIZED") X(INVALID_DEVICE, "ERROR_INVALID_DEVICE") X(INVALID_IMAGE, "ERROR_INVALID_IMAGE")
	X(INVALID_CONTEXT, "ERROR_INVALID_CONTEXT") X(NO_BINARY, "ERROR_NO_BINARY_FOR_GPU") X(INVALID_HANDLE, "ERROR_INVALID_HANDLE")
	X(NOT_FOUND, "ERROR_NOT_FOUND") X(NOT_READY, "ERROR_NOT_READY") X(TOO_MANY_RESOURCES, "ERROR_LAUNCH_OUT_OF_RESOURCES")
	X(700, "ERROR_ILLEGAL_ADDRESS") X(999, "ERROR_UNKNOWN")
#undef X
	}
	return NULL;
}

static int name_of(int code, const char **name) { return (*name = error_name(code)) ? SUCCESS : INVALID_VALUE; }

static int push(void *c)
{
	if (c != &context_mark || depth == sizeof current / sizeof *current) return INVALID_CONTEXT;
	current[depth++] = c;
	return SUCCESS;
}

static int pop(void **c)
{
	if (!depth) return INVALID_CONTEXT;
	*c = current[--depth];
	return SUCCESS;
}

static int set_current(void *c)
{
	if (c && c != &context_mark) return INVALID_CONTEXT;
	if (!depth) depth = 1;
	current[depth - 1] = c;
	return SUCCESS;
}

static int pointer_attribute(int *value, int attribute, address p)
{
	enum { ORDINAL = 9 }; /* of the GPU whose memory it is */
	if (attribute != ORDINAL || !fake_is_there(p)) return INVALID_VALUE;
	*value = 0;
	return SUCCESS;
}

/* ---- the functions ---- */
API(cuInit, NOTHING, (unsigned flags), start(flags))
API(cuDriverGetVersion, NOTHING, (int *v), (*v = 13000, SUCCESS))
API(cuDeviceGetCount, STARTED, (int *n), (*n = 1, SUCCESS))
API(cuDeviceGet, STARTED, (int *d, int ordinal), (*d = ordinal, ordinal ? INVALID_DEVICE : SUCCESS))
API(cuDeviceGetAttribute, STARTED, (int *v, int a, int device), attribute(v, a, device))
API(cuGetErrorName, NOTHING, (int code_, const char **name), name_of(code_, name))
API(cuDevicePrimaryCtxRetain, STARTED, (void **c, int d), (*c = &context_mark, d ? INVALID_DEVICE : SUCCESS))
API(cuCtxPushCurrent, STARTED, (void *c), push(c))
API(cuCtxPopCurrent, STARTED, (void **c), pop(c))
API(cuCtxSetCurrent, STARTED, (void *c), set_current(c))
API(cuCtxGetCurrent, STARTED, (void **c), (*c = depth ? current[depth - 1] : NULL, SUCCESS))
API(cuMemAlloc, CONTEXT, (address *p, size_t n), fake_alloc(p, n))
API(cuMemFree, CONTEXT, (address p), fake_free(p))
API(cuMemGetInfo, CONTEXT, (size_t *unused, size_t *all), fake_memory_info(unused, all))
API(cuPointerGetAttribute, CONTEXT, (void *value, int a, address p), pointer_attribute(value, a, p))
API(cuMemHostAlloc, CONTEXT, (void **p, size_t n, unsigned flags), flags > 7 ? INVALID_VALUE : fake_host_alloc(p, n))
API(cuMemFreeHost, CONTEXT, (void *p), fake_host_free(p))
API(cuMemHostGetDevicePointer, CONTEXT, (address * p, void *h, unsigned flags),
    (*p = (uintptr_t)h, flags || !fake_is_pinned(h, 1) ? INVALID_VALUE : SUCCESS))
API(cuMemcpyHtoDAsync, CONTEXT, (address to, const void *from, size_t n, void *s), fake_put_write(s, to, from, n))
API(cuMemcpyDtoHAsync, CONTEXT, (void *to, address from, size_t n, void *s), fake_put_read(s, to, from, n))
API(cuMemcpyDtoDAsync, CONTEXT, (address to, address from, size_t n, void *s), fake_put_copy(s, to, from, n))
API(cuMemsetD8Async, CONTEXT, (address to, unsigned char byte, size_t n, void *s), fake_put_fill(s, to, byte, n))
API(cuStreamCreate, CONTEXT, (void **s, unsigned flags), flags > 1 ? INVALID_VALUE : fake_stream(s))
API(cuStreamDestroy, CONTEXT, (void *s), fake_stream_drop(s))
API(cuStreamSynchronize, CONTEXT, (void *s), fake_stream_sync(s))
API(cuStreamQuery, CONTEXT, (void *s), fake_stream_query(s))
API(cuStreamWaitEvent, CONTEXT, (void *s, void *e, unsigned flags), flags ? INVALID_VALUE : fake_stream_wait(s, e))
API(cuEventCreate, CONTEXT, (void **e, unsigned flags), flags > 7 ? INVALID_VALUE : fake_event(e))
API(cuEventDestroy, CONTEXT, (void *e), fake_event_drop(e))
API(cuEventRecord, CONTEXT, (void *e, void *s), fake_event_record(e, s))
API(cuEventSynchronize, CONTEXT, (void *e), fake_event_sync(e))
API(cuEventQuery, CONTEXT, (void *e), fake_event_query(e))
API(cuEventElapsedTime, CONTEXT, (float *ms, void *from, void *to), fake_event_elapsed(ms, from, to))
API(cuGraphCreate, CONTEXT, (void **g, unsigned flags), flags ? INVALID_VALUE : fake_graph(g))
API(cuGraphDestroy, CONTEXT, (void *g), fake_graph_drop(g, false))
API(cuGraphAddKernelNode, CONTEXT, (void **node, void *g, void *const *after, size_t n, const fake_kernel *k),
    fake_graph_add(node, g, after, n, k))
API(cuGraphInstantiateWithFlags, CONTEXT, (void **exec, void *g, unsigned long long flags),
    flags ? INVALID_VALUE : fake_graph_instantiate(exec, g))
API(cuGraphExecKernelNodeSetParams, CONTEXT, (void *exec, void *node, const fake_kernel *k), fake_graph_set(exec, node, k))
API(cuGraphExecDestroy, CONTEXT, (void *exec), fake_graph_drop(exec, true))
API(cuGraphLaunch, CONTEXT, (void *exec, void *s), fake_graph_launch(exec, s))
API(cuModuleLoadData, CONTEXT, (void **m, const void *image), fake_module_load(m, image))
API(cuModuleUnload, CONTEXT, (void *m), fake_module_unload(m))
API(cuModuleGetFunction, CONTEXT, (void **f, void *m, const char *name), fake_module_function(f, m, name))
API(cuFuncGetAttribute, CONTEXT, (int *v, int a, void *f), fake_function_attribute(v, a, f))
API(cuFuncSetAttribute, CONTEXT, (void *f, int a, int v), a == 8 ? fake_function_shared(f, v) : INVALID_VALUE)
API(cuLaunchKernel, CONTEXT,
    (void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, void *s, void **param,
     void **extra),
    extra ? INVALID_VALUE : fake_put_launch(s, f, (struct fake_xyz){ x, y, z }, (struct fake_xyz){ tx, ty, tz }, shared, param))

/* ---- for the other fake libraries ---- */
API(library, CONTEXT, (void *s, void (*run)(void *), const void *job, size_t bytes), fake_put_library(s, run, job, bytes))
EXPORT fake_cuda_put_fn fake_cuda_put;
EXPORT fake_cuda_there_fn fake_cuda_there;
int fake_cuda_put(void *s, void (*run)(void *), const void *job, size_t bytes) { return api_library(s, run, job, bytes); }
void *fake_cuda_there(unsigned long long p, size_t bytes) { return fake_there(p, bytes); }

EXPORT int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, void *result);
int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, void *result)
{
	static const struct { const char *name; void (*fn)(void); } api[] = {
#define X(name) { #name, (void (*)(void))api_##name },
		X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetAttribute) X(cuGetErrorName)
		X(cuDevicePrimaryCtxRetain) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuMemAlloc)
		X(cuMemFree) X(cuMemGetInfo) X(cuPointerGetAttribute) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer)
		X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuStreamCreate) X(cuStreamDestroy)
		X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord)
		X(cuEventSynchronize) X(cuEventQuery) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute)
		X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuEventElapsedTime) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode)
		X(cuGraphInstantiateWithFlags) X(cuGraphExecKernelNodeSetParams) X(cuGraphExecDestroy) X(cuGraphLaunch)
#undef X
	};
	int code;
	(void)version, (void)flags, (void)result;
	if (fake_injected("cuGetProcAddress", &code)) return code;
	for (size_t i = 0; i < sizeof api / sizeof *api; i++)
		if (!strcmp(api[i].name, name)) {
			memcpy(fn, &api[i].fn, sizeof *fn);
			return SUCCESS;
		}
	return NOT_FOUND;
}

/* For tests: allocations of the device, pinned ones, streams, events and modules that are still there. */
EXPORT void fake_left(int left[5]);
void fake_left(int left[5])
{
	pthread_mutex_lock(&lock);
	fake_memory_count(&left[0], &left[1]);
	fake_stream_count(&left[2], &left[3]);
	left[4] = fake_modules();
	pthread_mutex_unlock(&lock);
}
