/* SPDX-License-Identifier: MIT */
/* cudriver: the CUDA driver, opened by name, with prototypes of our own; and what the files that call it share: cuda.c, custage.c,
 * cugraph.c. */
#ifndef TJ_RUNTIME_CUDRIVER_H
#define TJ_RUNTIME_CUDRIVER_H

#include "runtime/cuda.h"

#include <pthread.h>

typedef unsigned long long rt_cuptr; /* CUdeviceptr */
typedef void *rt_cuobj;              /* CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphNode, CUgraphExec */
typedef struct rt_cunode {           /* CUDA_KERNEL_NODE_PARAMS_v2 */
	rt_cuobj function;
	unsigned x, y, z, threads_x, threads_y, threads_z, shared;
	void **param, **extra;
	rt_cuobj kernel, context;        /* NULL */
} rt_cunode;

/* a CUresult; flags of pinned memory; a flag of events */
enum { RT_CU_OUT_OF_MEMORY = 2, RT_CU_HOST_PORTABLE = 1, RT_CU_HOST_MAPPED = 2, RT_CU_NO_TIMING = 2 };

/* Name, the version whose ABI is meant, parameters. All return a CUresult. */
/* clang-format off */
#define RT_CU_DRIVER(X) \
	X(cuInit, 2000, (unsigned flags)) X(cuDriverGetVersion, 2020, (int *version)) \
	X(cuDeviceGetCount, 2000, (int *n)) X(cuDeviceGet, 2000, (int *device, int ordinal)) \
	X(cuDeviceGetAttribute, 2000, (int *value, int attribute, int device)) X(cuGetErrorName, 6000, (int error, const char **name)) \
	X(cuDevicePrimaryCtxRetain, 7000, (rt_cuobj *context, int device)) \
	X(cuCtxPushCurrent, 4000, (rt_cuobj context)) X(cuCtxPopCurrent, 4000, (rt_cuobj *context)) \
	X(cuMemAlloc, 3020, (rt_cuptr *p, size_t bytes)) X(cuMemFree, 3020, (rt_cuptr p)) \
	X(cuMemHostAlloc, 2020, (void **p, size_t bytes, unsigned flags)) X(cuMemFreeHost, 2000, (void *p)) \
	X(cuMemHostGetDevicePointer, 3020, (rt_cuptr *p, void *host, unsigned flags)) \
	X(cuPointerGetAttribute, 4000, (void *value, int attribute, rt_cuptr p)) X(cuMemGetInfo, 3020, (size_t *unused, size_t *all)) \
	X(cuMemcpyHtoDAsync, 3020, (rt_cuptr to, const void *from, size_t bytes, rt_cuobj stream)) \
	X(cuMemcpyDtoHAsync, 3020, (void *to, rt_cuptr from, size_t bytes, rt_cuobj stream)) \
	X(cuMemcpyDtoDAsync, 3020, (rt_cuptr to, rt_cuptr from, size_t bytes, rt_cuobj stream)) \
	X(cuMemsetD8Async, 3020, (rt_cuptr to, unsigned char byte, size_t bytes, rt_cuobj stream)) \
	X(cuStreamCreate, 2000, (rt_cuobj *stream, unsigned flags)) X(cuStreamDestroy, 4000, (rt_cuobj stream)) \
	X(cuStreamSynchronize, 2000, (rt_cuobj stream)) X(cuStreamWaitEvent, 3020, (rt_cuobj stream, rt_cuobj event, unsigned flags)) \
	X(cuEventCreate, 2000, (rt_cuobj *event, unsigned flags)) X(cuEventDestroy, 4000, (rt_cuobj event)) \
	X(cuEventElapsedTime, 2000, (float *ms, rt_cuobj from, rt_cuobj to)) X(cuEventRecord, 2000, (rt_cuobj event, rt_cuobj stream)) \
	X(cuEventSynchronize, 2000, (rt_cuobj event)) \
	X(cuModuleLoadData, 2000, (rt_cuobj *module, const void *image)) X(cuModuleUnload, 2000, (rt_cuobj module)) \
	X(cuModuleGetFunction, 2000, (rt_cuobj *function, rt_cuobj module, const char *name)) \
	X(cuFuncSetAttribute, 9000, (rt_cuobj function, int attribute, int value)) \
	X(cuLaunchKernel, 4000, (rt_cuobj function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, \
		unsigned threads_z, unsigned shared, rt_cuobj stream, void **param, void **extra)) \
	X(cuGraphCreate, 10000, (rt_cuobj *graph, unsigned flags)) X(cuGraphDestroy, 10000, (rt_cuobj graph)) \
	X(cuGraphAddKernelNode, 12000, (rt_cuobj *node, rt_cuobj graph, const rt_cuobj *after, size_t n, const rt_cunode *kernel)) \
	X(cuGraphInstantiateWithFlags, 11040, (rt_cuobj *exec, rt_cuobj graph, unsigned long long flags)) \
	X(cuGraphExecDestroy, 10000, (rt_cuobj exec)) \
	X(cuGraphExecKernelNodeSetParams, 12000, (rt_cuobj exec, rt_cuobj node, const rt_cunode *kernel)) \
	X(cuGraphLaunch, 10000, (rt_cuobj exec, rt_cuobj stream))
/* clang-format on */

typedef struct rt_cudriver {
#define X(name, version, params) int (*name) params;
	RT_CU_DRIVER(X)
#undef X
} rt_cudriver;

/* A GPU, and a queue of it: a stream. */
/* the text of kernels knows it as tj_faults: the first fault, and where the host sees it */
typedef struct rt_cufault { uint64_t first; rt_cuptr word; } rt_cufault;
/* a launch that may find a fault; site: rt_launch.site */
typedef struct rt_record { uint64_t serial; const rt_fault *fault; uint32_t n; const char *site; } rt_record;
struct rt_queue {
	struct rt_gpu *gpu;
	uint64_t id, serial;         /* serial: of the work that was put last */
	_Atomic uint64_t done;       /* all up to here has run */
	rt_cuobj clock[2];           /* events that measure, once they were needed */
	rt_cuobj stream, own, event; /* stream: where its work goes: `own`, or one of the user; changed under gpu->lock */
	_Atomic uint64_t *word;      /* the first fault, in memory of the host that kernels write to: launch << 16 | fault; 0: none */
	rt_cuptr fault;              /* an rt_cufault */
	struct { rt_cuobj event; uint64_t serial; } flag[4]; /* the last flags; gpu->lock */
	uint32_t nflag;
	rt_vec(rt_record) record;    /* gpu->lock */
	struct {
		uint64_t word;
		rt_fault fault;
		char site[256];
	} found;                     /* a fault that nobody has waited for, of a plan that is gone; gpu->lock */
	struct rt_cugraphs *graphs;  /* cugraph.c */
	struct rt_custage *stage;    /* custage.c; NULL: not used yet */
	uint32_t nwaiting;           /* threads in wait_unlocked(); gpu->lock */
	rt_queue *next;
};
typedef struct rt_gpu {
	rt_device device;
	char name[24];
	int ordinal, arch;           /* arch: 90 for sm_90 */
	int processors;              /* multiprocessors; 0: not known */
	rt_cuobj context;
	pthread_mutex_t lock, copy_lock; /* of the list of queues; of `copy` */
	rt_cuobj copy;               /* the kernel of strided copies, once it was needed */
	rt_queue *queues;
} rt_gpu;

/* ---- cudriver.c ---- */
extern rt_cudriver rt_cu;
extern rt_gpu rt_cu_gpus[RT_DEVICES];              /* by ordinal */
const char *rt_cu_load(void);                    /* opens the driver; NULL, or what is missing. Not thread-safe */
tj_status rt_cu_failed(const rt_gpu *g, int code, const char *what, rt_err *err); /* code 0: TJ_OK */
#define RT_CU_TRY(g, name, args, err) rt_cu_failed(g, rt_cu.name args, #name, err)
/* Between enter and leave the context of g is current. enter: false in a forked process, or when the context is lost. */
bool rt_cu_at_home(void); /* the process is the one that opened the driver, not a fork of it */
bool rt_cu_enter(const rt_gpu *g);
void rt_cu_leave(void);
tj_status rt_cu_no_entry(const rt_gpu *g, rt_err *err); /* the error for that */

/* ---- custage.c: copies between the host and the GPU; the context is current. All return a CUresult. ---- */
int rt_custage_write(rt_queue *q, rt_cuptr to, const char *from, size_t bytes); /* the caller may change `from` on return */
int rt_custage_read(rt_queue *q, char *to, rt_cuptr from, size_t bytes); /* waits for the queue */
void rt_custage_free(struct rt_custage *s);      /* s may be NULL */

/* ---- cucopy.c: functions of rt_device ---- */
tj_status rt_cucopy_write(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err);
tj_status rt_cucopy_read(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err);
tj_status rt_cucopy_zero(rt_queue *q, void *to, size_t bytes, rt_err *err);
tj_status rt_cucopy_strided(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to,
                            const int64_t *to_stride, rt_err *err);

/* ---- cugraph.c: kernels of a plan as one CUDA graph ---- */
typedef struct rt_culaunch { rt_cuobj function; unsigned blocks, threads, shared; uint32_t nword; } rt_culaunch;
struct rt_cugraphs *rt_cugraph_new(void);        /* NULL: out of memory */
void rt_cugraph_free(struct rt_cugraphs *s);      /* s may be NULL */
bool rt_cugraph_gathers(const rt_queue *q);      /* launches are gathered now */
tj_status rt_cugraph_add(rt_queue *q, const rt_culaunch *l, const uint64_t *word, rt_err *err);
void rt_cugraph_begin(rt_queue *q, uint64_t plan, uint32_t step);
void rt_cugraph_abandon(rt_queue *q); /* ends it without launching anything */
tj_status rt_cugraph_end(rt_queue *q, bool *replayed, rt_err *err); /* puts what was gathered into the stream; the context is current */
void rt_cugraph_forget(rt_queue *q, uint64_t plan); /* by any thread */

#endif
