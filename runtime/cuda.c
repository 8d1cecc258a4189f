/* cuda: the devices cuda:0, cuda:1 ... through libcuda.so.1, which the driver of a machine with a GPU installs.
 *
 * Each queue is a stream. Work is put into it and runs later, in order. Marks are numbers: an event is recorded only when somebody waits for
 * one, at the end of what the queue then has, which comes no earlier. */
#include "runtime/cuda.h"
#include "runtime/fork.h"
#include "runtime/layout.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

/* ---- the driver, with prototypes of our own ---- */
typedef unsigned long long address;
typedef void *handle; /* CUcontext, CUstream, CUevent, CUmodule, CUfunction */

#define DRIVER(X)                                                                                                                       \
	X(cuInit, 2000, (unsigned flags)) X(cuDriverGetVersion, 2020, (int *version))                                                       \
	X(cuDeviceGetCount, 2000, (int *n)) X(cuDeviceGet, 2000, (int *device, int ordinal))                                                \
	X(cuDeviceGetAttribute, 2000, (int *value, int attribute, int device)) X(cuGetErrorName, 6000, (int error, const char **name))      \
	X(cuDevicePrimaryCtxRetain, 7000, (handle *context, int device))                                                                    \
	X(cuCtxPushCurrent, 4000, (handle context)) X(cuCtxPopCurrent, 4000, (handle *context))                                             \
	X(cuMemAlloc, 3020, (address *p, size_t bytes)) X(cuMemFree, 3020, (address p))                                                     \
	X(cuMemHostAlloc, 2020, (void **p, size_t bytes, unsigned flags)) X(cuMemFreeHost, 2000, (void *p))                                 \
	X(cuMemHostGetDevicePointer, 3020, (address *p, void *host, unsigned flags))                                                        \
	X(cuMemcpyHtoDAsync, 3020, (address to, const void *from, size_t bytes, handle stream))                                             \
	X(cuMemcpyDtoHAsync, 3020, (void *to, address from, size_t bytes, handle stream))                                                   \
	X(cuMemcpyDtoDAsync, 3020, (address to, address from, size_t bytes, handle stream))                                                 \
	X(cuMemsetD8Async, 3020, (address to, unsigned char byte, size_t bytes, handle stream))                                             \
	X(cuStreamCreate, 2000, (handle *stream, unsigned flags)) X(cuStreamDestroy, 4000, (handle stream))                                 \
	X(cuStreamSynchronize, 2000, (handle stream)) X(cuStreamWaitEvent, 3020, (handle stream, handle event, unsigned flags))             \
	X(cuEventCreate, 2000, (handle *event, unsigned flags)) X(cuEventDestroy, 4000, (handle event))                                     \
	X(cuEventRecord, 2000, (handle event, handle stream)) X(cuEventSynchronize, 2000, (handle event))                                   \
	X(cuModuleLoadData, 2000, (handle *module, const void *image)) X(cuModuleUnload, 2000, (handle module))                             \
	X(cuModuleGetFunction, 2000, (handle *function, handle module, const char *name))                                                   \
	X(cuFuncSetAttribute, 9000, (handle function, int attribute, int value))                                                            \
	X(cuLaunchKernel, 4000, (handle function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared, handle stream, void **param, void **extra))

enum { HOST_MAPPED = 2, HOST_PORTABLE = 1, STREAM_NON_BLOCKING = 1, EVENT_NO_TIMING = 2, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76,
       FUNCTION_SHARED = 8, SHARED_UNASKED = 48 << 10, CODE_OUT_OF_MEMORY = 2, MOST_BLOCKS = 1 << 30, MOST_PARAMS = 512, RECORDS = 1024 };

static struct driver {
#define X(name, version, params) int (*name) params;
	DRIVER(X)
#undef X
} cu;

typedef struct record { uint64_t serial; const rt_fault *fault; uint32_t n; } record; /* a launch that may find a fault */

struct rt_queue {
	struct gpu *gpu;
	uint64_t id, serial, done;   /* serial: of the work that was put last; done: all up to here has run */
	handle stream, event;
	_Atomic uint64_t *word;      /* host memory that kernels write to: launch << 16 | fault; 0: none */
	address word_there;
	rt_vec(record) record;
	rt_queue *next;
};

typedef struct gpu {
	rt_device device;
	char name[16];
	int ordinal, arch;
	handle context;
	pthread_mutex_t lock, copy_lock; /* of the list of queues; of `copy` */
	handle copy;                 /* the kernel of strided copies, once it was needed */
	rt_queue *queues;
} gpu;

static gpu gpus[RT_DEVICES];
static int ngpu;
static pid_t home;               /* a forked child cannot use the driver */
static atomic_ullong ids;

/* ---- errors ---- */
static tj_status failed(const gpu *g, int code, const char *what, rt_err *err)
{
	const char *name = NULL;
	if (!code) return TJ_OK;
	if (cu.cuGetErrorName) cu.cuGetErrorName(code, &name);
	rt_fail(err, code == CODE_OUT_OF_MEMORY ? TJ_ERR_NOMEM : TJ_ERR_DEVICE, "cuda", "%s: %s failed: %s (%d)", g->name, what, name ? name : "unknown error", code);
	return code == CODE_OUT_OF_MEMORY ? TJ_ERR_NOMEM : TJ_ERR_DEVICE;
}

#define TRY(g, name, args, err) failed(g, cu.name args, #name, err)

static bool enter(const gpu *g)
{
	return getpid() == home && cu.cuCtxPushCurrent(g->context) == 0;
}

static void leave(void)
{
	handle was;
	cu.cuCtxPopCurrent(&was);
}

static tj_status no_entry(const gpu *g, rt_err *err)
{
	if (getpid() == home) return rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s: its context is lost", g->name);
	rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s cannot be used in a forked process", g->name);
	rt_hint(err, "open the GPU in the child only, or use threads");
	return TJ_ERR_DEVICE;
}

/* ---- memory ---- */
static void *gpu_alloc(void *self, size_t bytes)
{
	address p = 0;
	if (!enter(self)) return NULL;
	const int code = cu.cuMemAlloc(&p, bytes ? bytes : 1);
	leave();
	return code ? NULL : (void *)(uintptr_t)p;
}

static void gpu_free(void *self, void *p)
{
	if (!enter(self)) return;
	cu.cuMemFree((address)(uintptr_t)p);
	leave();
}

/* ---- queues ---- */
static void drop_queue(rt_queue *q)
{
	if (q->event) cu.cuEventDestroy(q->event);
	if (q->stream) cu.cuStreamDestroy(q->stream);
	if (q->word) cu.cuMemFreeHost((void *)(uintptr_t)q->word);
	rt_vec_free(&q->record);
	rt_free(q);
}

static rt_queue *gpu_open(void *self)
{
	gpu *g = self;
	rt_queue *q = rt_calloc(sizeof *q);
	if (!q || !enter(g)) {
		rt_free(q);
		return NULL;
	}
	void *word = NULL;
	int code = cu.cuStreamCreate(&q->stream, STREAM_NON_BLOCKING);
	if (!code) code = cu.cuEventCreate(&q->event, EVENT_NO_TIMING);
	if (!code) code = cu.cuMemHostAlloc(&word, sizeof *q->word, HOST_MAPPED | HOST_PORTABLE);
	q->word = word;
	if (!code) code = cu.cuMemHostGetDevicePointer(&q->word_there, word, 0);
	if (code) {
		drop_queue(q);
		leave();
		return NULL;
	}
	leave();
	atomic_store(q->word, 0);
	q->gpu = g;
	q->id = atomic_fetch_add(&ids, 1) + 1;
	rt_lock(&g->lock);
	q->next = g->queues;
	g->queues = q;
	rt_unlock(&g->lock);
	return q;
}

static void gpu_close(rt_queue *q)
{
	gpu *g = q->gpu;
	rt_lock(&g->lock);
	rt_queue **at = &g->queues;
	while (*at != q) at = &(*at)->next;
	*at = q->next;
	rt_unlock(&g->lock);
	if (!enter(g)) return; /* in a forked child the handles are those of the parent */
	drop_queue(q);
	leave();
}

/* ---- copies ---- */
static tj_status gpu_write(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (!bytes) return TJ_OK;
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	q->serial++;
	tj_status st = TRY(q->gpu, cuMemcpyHtoDAsync, ((address)(uintptr_t)to, from, bytes, q->stream), err); /* returns when pageable memory was read */
	leave();
	return st;
}

static tj_status gpu_read(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	tj_status st = bytes ? TRY(q->gpu, cuMemcpyDtoHAsync, (to, (address)(uintptr_t)from, bytes, q->stream), err) : TJ_OK;
	if (st == TJ_OK) st = TRY(q->gpu, cuStreamSynchronize, (q->stream), err);
	leave();
	return st;
}

static tj_status gpu_zero(rt_queue *q, void *to, size_t bytes, rt_err *err)
{
	if (!bytes) return TJ_OK;
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	q->serial++;
	tj_status st = TRY(q->gpu, cuMemsetD8Async, ((address)(uintptr_t)to, 0, bytes, q->stream), err);
	leave();
	return st;
}

/* ---- launches ---- */
static bool remember(rt_queue *q, const rt_launch *l)
{
	return !l->nfault || rt_push(&q->record, ((record){ q->serial, l->fault, l->nfault }));
}

static void pack(const rt_queue *q, const rt_cuda_kernel *k, const rt_launch *l, size_t each, uint64_t *word)
{
	for (uint32_t i = 0; i < k->nparam; i++) {
		const uint32_t n = k->param[i].n;
		const uint64_t *b = k->param[i].word <= RT_CUDA_VALUE ? l->buf[n] : NULL;
		const bool number = b >= l->num && b < l->num + l->nnum;
		switch (k->param[i].word) {
		case RT_CUDA_BUFFER: word[i] = number ? 0 : (uintptr_t)b; break;
		case RT_CUDA_VALUE: word[i] = number ? *b : 0; break;
		case RT_CUDA_SIZE: word[i] = (uint64_t)l->size[n]; break;
		case RT_CUDA_NUMBER: word[i] = l->num[n]; break;
		case RT_CUDA_UNITS: word[i] = (uint64_t)l->units; break;
		case RT_CUDA_EACH: word[i] = each; break;
		case RT_CUDA_LAUNCH: word[i] = q->serial; break;
		case RT_CUDA_FAULT: word[i] = q->word_there; break;
		}
	}
}

/* A block may have more shared memory than every GPU gives only after it was asked for. */
static tj_status ask(const gpu *g, rt_cuda_kernel *k, size_t shared, rt_err *err)
{
	if (RT_LIKELY(shared <= atomic_load_explicit(&k->asked, memory_order_relaxed))) return TJ_OK;
	tj_status st = TRY(g, cuFuncSetAttribute, (k->function, FUNCTION_SHARED, (int)shared), err);
	if (st == TJ_OK) atomic_store(&k->asked, shared);
	return st;
}

static tj_status gpu_launch(rt_queue *q, const rt_launch *l, rt_err *err)
{
	rt_cuda_kernel *k = (rt_cuda_kernel *)(uintptr_t)l->entry;
	uint64_t word[MOST_PARAMS];
	if (k->nparam > MOST_PARAMS) return rt_fail(err, TJ_ERR_DEVICE, "cuda", "a kernel with %u arguments; 4 KiB of them are possible", k->nparam);
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	const int64_t blocks = (l->units - 1) / (int64_t)k->units + 1;
	const size_t each = k->own + (l->shared + 15) / 16 * 16, shared = each * k->units;
	void *arguments = word;
	q->serial++;
	pack(q, k, l, each, word);
	if (q->record.n >= RECORDS && !cu.cuStreamSynchronize(q->stream) && !atomic_load(q->word)) q->record.n = 0;
	tj_status st = remember(q, l) ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "cuda", "out of memory");
	if (st == TJ_OK) st = ask(q->gpu, k, shared, err);
	if (st == TJ_OK)
		st = TRY(q->gpu, cuLaunchKernel, (k->function, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, k->threads, 1, 1, (unsigned)shared, q->stream, &arguments, NULL), err);
	leave();
	return st;
}

/* ---- waiting ---- */
static tj_status fault_of(rt_queue *q, uint64_t word, uint64_t *launch, rt_err *err)
{
	*launch = word >> 16;
	for (uint32_t i = 0; i < q->record.n; i++) {
		const record *r = &q->record.v[i];
		if (r->serial == *launch && (word & 0xffff) <= r->n) return rt_fault_fail(&r->fault[(word & 0xffff) - 1], err);
	}
	return rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s: an unknown fault", q->gpu->name);
}

static tj_status gpu_wait(rt_queue *q, uint64_t *launch, rt_err *err)
{
	*launch = 0;
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	tj_status st = TRY(q->gpu, cuStreamSynchronize, (q->stream), err);
	leave();
	q->done = q->serial;
	const uint64_t word = atomic_exchange(q->word, 0);
	if (st == TJ_OK && word) st = fault_of(q, word, launch, err);
	q->record.n = 0;
	return st;
}

static rt_mark gpu_mark(rt_queue *q) { return (rt_mark){ q->id, q->serial }; }

/* Calls with the queue of a mark that may not have been reached; the list of queues is locked. */
static rt_queue *behind(gpu *g, rt_mark m)
{
	rt_queue *q = g->queues;
	while (q && q->id != m.queue) q = q->next;
	return q && q->done < m.serial ? q : NULL;
}

static void gpu_wait_for(rt_queue *q, rt_mark m)
{
	gpu *g = q->gpu;
	if (!m.queue || m.queue == q->id || !enter(g)) return;
	rt_lock(&g->lock);
	rt_queue *other = behind(g, m);
	if (other && !cu.cuEventRecord(other->event, other->stream)) cu.cuStreamWaitEvent(q->stream, other->event, 0);
	rt_unlock(&g->lock);
	leave();
}

static void gpu_finish(void *self, rt_mark m)
{
	gpu *g = self;
	if (!m.queue || !enter(g)) return;
	rt_lock(&g->lock);
	rt_queue *q = behind(g, m);
	if (q) cu.cuStreamSynchronize(q->stream);
	rt_unlock(&g->lock);
	leave();
}

static void gpu_drain(void *self)
{
	gpu *g = self;
	if (!enter(g)) return;
	rt_lock(&g->lock);
	for (rt_queue *q = g->queues; q; q = q->next) cu.cuStreamSynchronize(q->stream);
	rt_unlock(&g->lock);
	leave();
}

/* ---- strided copies: a kernel, compiled at the first one ---- */
static const char copy_text[] =
	"struct tj_copy_args { char *to; const char *from; long long n, size, rank, dim[16], to_stride[16], from_stride[16]; };\n"
	"extern \"C\" __global__ void __launch_bounds__(256) tj_copy(const __grid_constant__ tj_copy_args a)\n{\n"
	"\tfor (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < a.n; i += (long long)gridDim.x * 256) {\n"
	"\t\tlong long rest = i, to = 0, from = 0;\n"
	"\t\tfor (int d = (int)a.rank - 1; d >= 0; d--) {\n"
	"\t\t\tconst long long at = rest % a.dim[d];\n\t\t\trest /= a.dim[d];\n\t\t\tto += at * a.to_stride[d];\n\t\t\tfrom += at * a.from_stride[d];\n\t\t}\n"
	"\t\tchar *const p = a.to + to * a.size;\n\t\tconst char *const q = a.from + from * a.size;\n"
	"\t\tif (a.size == 4) *(int *)p = *(const int *)q;\n\t\telse if (a.size == 8) *(long long *)p = *(const long long *)q;\n"
	"\t\telse if (a.size == 2) *(short *)p = *(const short *)q;\n\t\telse *p = *q;\n\t}\n}\n";
typedef struct copy_args { const void *to, *from; long long n, size, rank, dim[TJ_MAX_RANK], to_stride[TJ_MAX_RANK], from_stride[TJ_MAX_RANK]; } copy_args;
_Static_assert(TJ_MAX_RANK == 16, "copy_text has arrays of sixteen");

static tj_status copy_kernel(gpu *g, rt_err *err)
{
	void *cubin = NULL, *module = NULL;
	size_t bytes;
	rt_cuda_kernel k = { 0 };
	rt_lock(&g->copy_lock);
	tj_status st = g->copy ? TJ_OK : rt_nvrtc_compile(copy_text, g->arch, &cubin, &bytes, err);
	if (st == TJ_OK && !g->copy) st = rt_cuda_load(g->ordinal, cubin, &module, err);
	if (st == TJ_OK && !g->copy) st = rt_cuda_find(g->ordinal, module, "tj_copy", &k, err);
	if (st == TJ_OK && !g->copy) g->copy = k.function;
	rt_unlock(&g->copy_lock);
	rt_free(cubin);
	return st;
}

static tj_status gpu_copy(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to, const int64_t *to_stride, rt_err *err)
{
	copy_args a = { .to = to, .from = from, .n = 1, .size = (long long)size, .rank = rank };
	void *arguments = &a;
	for (int i = 0; i < rank; i++) {
		a.n *= dim[i];
		a.dim[i] = dim[i];
		a.to_stride[i] = to_stride[i];
		a.from_stride[i] = from_stride[i];
	}
	if (!a.n) return TJ_OK;
	const bool plain = rt_is_row_major(rank, dim, from_stride) && rt_is_row_major(rank, dim, to_stride);
	if (!plain && copy_kernel(q->gpu, err) != TJ_OK) return err ? err->code : TJ_ERR_DEVICE;
	if (!enter(q->gpu)) return no_entry(q->gpu, err);
	const long long blocks = (a.n - 1) / 256 + 1;
	q->serial++;
	tj_status st = plain ? TRY(q->gpu, cuMemcpyDtoDAsync, ((address)(uintptr_t)to, (address)(uintptr_t)from, (size_t)a.n * size, q->stream), err)
	                     : TRY(q->gpu, cuLaunchKernel, (q->gpu->copy, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, 256, 1, 1, 0, q->stream, &arguments, NULL), err);
	leave();
	return st;
}

/* ---- modules ---- */
int rt_cuda_arch(int n) { return gpus[n].arch; }

tj_status rt_cuda_load(int n, const void *cubin, void **module, rt_err *err)
{
	gpu *g = &gpus[n];
	if (!enter(g)) return no_entry(g, err);
	tj_status st = TRY(g, cuModuleLoadData, (module, cubin), err);
	leave();
	return st;
}

tj_status rt_cuda_find(int n, void *module, const char *name, rt_cuda_kernel *k, rt_err *err)
{
	gpu *g = &gpus[n];
	if (!enter(g)) return no_entry(g, err);
	tj_status st = TRY(g, cuModuleGetFunction, (&k->function, module, name), err);
	atomic_init(&k->asked, SHARED_UNASKED);
	leave();
	return st;
}

void rt_cuda_unload(int n, void *module)
{
	if (!module || !enter(&gpus[n])) return;
	cu.cuModuleUnload(module);
	leave();
}

/* ---- the devices of this machine ---- */
static const char *load_driver(void)
{
	static char why[200];
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
	memcpy(&cu.name, &symbol, sizeof cu.name);
	DRIVER(X)
#undef X
	const int code = cu.cuInit(0);
	const char *name = NULL;
	if (!code) return NULL;
	cu.cuGetErrorName(code, &name);
	snprintf(why, sizeof why, "no GPU can be used: cuInit gives %s (%d)", name ? name : "an unknown error", code);
	return why;
}

static const char *add_gpu(int ordinal, const struct lo_target *(*target)(int ordinal, int arch))
{
	gpu *g = &gpus[ordinal];
	int major = 0, minor = 0, device = 0;
	int code = cu.cuDeviceGet(&device, ordinal);
	if (!code) code = cu.cuDeviceGetAttribute(&major, ATTRIBUTE_MAJOR, device);
	if (!code) code = cu.cuDeviceGetAttribute(&minor, ATTRIBUTE_MINOR, device);
	if (!code) code = cu.cuDevicePrimaryCtxRetain(&g->context, device);
	if (code) return "a GPU's context cannot be made";
	snprintf(g->name, sizeof g->name, "cuda:%d", ordinal);
	g->ordinal = ordinal;
	g->arch = major * 10 + minor;
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->copy_lock, NULL);
	g->device = (rt_device){ .name = g->name, .target = target(ordinal, g->arch), .self = g, .alloc = gpu_alloc, .free = gpu_free, .open = gpu_open, .close = gpu_close, .write = gpu_write,
		                     .read = gpu_read, .copy = gpu_copy, .zero = gpu_zero, .launch = gpu_launch, .wait = gpu_wait, .mark = gpu_mark, .wait_for = gpu_wait_for,
		                     .drain = gpu_drain, .finish = gpu_finish };
	if (rt_device_add(&g->device) < 0) return "there are more devices than a process can have";
	ngpu++;
	return NULL;
}

int rt_cuda_open(const struct lo_target *(*target)(int ordinal, int arch), const char **why)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static bool tried;
	static const char *missing;
	int n = 0;
	rt_lock(&once);
	if (!tried) {
		tried = true;
		home = getpid();
		missing = load_driver();
		if (!missing && (cu.cuDeviceGetCount(&n) || !n)) missing = "the NVIDIA driver finds no GPU";
		for (int i = 0; i < n && i < RT_DEVICES && !missing; i++) missing = add_gpu(i, target);
		if (ngpu) missing = NULL;
	}
	*why = missing;
	rt_unlock(&once);
	return ngpu;
}
