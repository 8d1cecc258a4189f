/* SPDX-License-Identifier: MIT */
/* cuda: the devices cuda:0, cuda:1 ... through libcuda.so.1, which the driver of a machine with a GPU installs.
 *
 * Each queue is a stream. Work is put into it and runs later, in order. Marks are numbers: an event is recorded only when somebody waits
 * for one, at the end of what the queue then has, which comes no earlier. */
#include "runtime/cudriver.h"
#include "runtime/fork.h"
#include "runtime/site.h"

#include <time.h>

enum { STREAM_NON_BLOCKING = 1, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, ATTRIBUTE_PROCESSORS = 16,
       POINTER_DEVICE = 9, FUNCTION_SHARED = 8, MOST_BLOCKS = 1 << 30, MOST_PARAMS = 4095 /* 32,764 bytes */, RECORDS = 1024 };

static int ngpu;
static atomic_ullong ids;

/* ---- memory ---- */
static void *gpu_alloc(void *self, size_t bytes)
{
	rt_cuptr p = 0;
	if (!rt_cu_enter(self)) return NULL;
	const int code = rt_cu.cuMemAlloc(&p, bytes ? bytes : 1);
	rt_cu_leave();
	return code ? NULL : (void *)(uintptr_t)p;
}

static void gpu_free(void *self, void *p)
{
	if (!rt_cu_enter(self)) return;
	rt_cu.cuMemFree((rt_cuptr)(uintptr_t)p);
	rt_cu_leave();
}

/* ---- queues ---- */
static void drop_queue(rt_queue *q)
{
	rt_cugraph_free(q->graphs);
	rt_custage_free(q->stage);
	for (int i = 0; i < 2; i++)
		if (q->clock[i]) rt_cu.cuEventDestroy(q->clock[i]);
	for (uint32_t i = 0; i < RT_COUNT(q->flag); i++)
		if (q->flag[i].event) rt_cu.cuEventDestroy(q->flag[i].event);
	if (q->event) rt_cu.cuEventDestroy(q->event);
	if (q->own) rt_cu.cuStreamDestroy(q->own);
	if (q->fault) rt_cu.cuMemFree(q->fault);
	if (q->word) rt_cu.cuMemFreeHost((void *)(uintptr_t)q->word);
	rt_vec_free(&q->record);
	rt_free(q);
}

static rt_queue *gpu_open(void *self)
{
	rt_gpu *g = self;
	rt_queue *q = rt_calloc(sizeof *q);
	if (!q || !rt_cu_enter(g)) {
		rt_free(q);
		return NULL;
	}
	void *word = NULL;
	int code = (q->graphs = rt_cugraph_new()) ? 0 : RT_CU_OUT_OF_MEMORY;
	if (!code) code = rt_cu.cuStreamCreate(&q->own, STREAM_NON_BLOCKING);
	q->stream = q->own;
	if (!code) code = rt_cu.cuEventCreate(&q->event, RT_CU_NO_TIMING);
	if (!code) code = rt_cu.cuMemHostAlloc(&word, sizeof *q->word, RT_CU_HOST_MAPPED | RT_CU_HOST_PORTABLE);
	q->word = word;
	rt_cufault none = { 0 };
	if (!code) code = rt_cu.cuMemHostGetDevicePointer(&none.word, word, 0);
	if (!code) code = rt_cu.cuMemAlloc(&q->fault, sizeof none);
	if (!code) code = rt_cu.cuMemcpyHtoDAsync(q->fault, &none, sizeof none, q->stream); /* `none` was copied on return: it is not pinned */
	if (code) {
		drop_queue(q);
		rt_cu_leave();
		return NULL;
	}
	rt_cu_leave();
	atomic_store(q->word, 0);
	q->gpu = g;
	q->id = atomic_fetch_add(&ids, 1) + 1;
	rt_lock(&g->lock);
	q->next = g->queues;
	g->queues = q;
	rt_unlock(&g->lock);
	return q;
}

/* g->lock is held, but not during the wait: other threads would not even get their launches done. Until it ends the queue, its stream and
 * the event, if there is one, stay. */
static void wait_unlocked(rt_gpu *g, rt_queue *q, rt_cuobj event)
{
	const rt_cuobj stream = q->stream;
	q->nwaiting++;
	rt_unlock(&g->lock);
	if (event) rt_cu.cuEventSynchronize(event);
	else rt_cu.cuStreamSynchronize(stream);
	rt_lock(&g->lock);
	q->nwaiting--;
}

/* g->lock is held. */
static void await_waiters(rt_gpu *g, const rt_queue *q)
{
	while (q->nwaiting && rt_cu_at_home()) { /* a forked child has no such threads */
		rt_unlock(&g->lock);
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
		rt_lock(&g->lock);
	}
}

static void gpu_close(rt_queue *q)
{
	rt_gpu *g = q->gpu;
	rt_lock(&g->lock);
	await_waiters(g, q);
	rt_queue **at = &g->queues;
	while (*at != q) at = &(*at)->next;
	*at = q->next;
	rt_unlock(&g->lock);
	if (!rt_cu_enter(g)) return; /* in a forked child the handles are those of the parent */
	drop_queue(q);
	rt_cu_leave();
}

/* ---- working with other libraries ---- */
static void *gpu_stream(rt_queue *q) { return q->stream; }

static tj_status gpu_use_stream(rt_queue *q, void *stream, rt_err *err)
{
	if ((uintptr_t)stream - 1 < 2)
		return rt_fail(err, TJ_ERR_ARG, "set_stream", "%p is a default stream of the driver, not one that was made", stream);
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	tj_status st = RT_CU_TRY(q->gpu, cuStreamSynchronize, (q->stream), err); /* so that marks of the queue stay in order */
	rt_lock(&q->gpu->lock);
	await_waiters(q->gpu, q); /* for the old stream, which is the user's to destroy */
	if (st == TJ_OK) q->stream = stream ? stream : q->own;
	rt_unlock(&q->gpu->lock);
	rt_cu_leave();
	return st;
}

static bool gpu_owns(void *self, const void *p)
{
	const rt_gpu *g = self;
	int ordinal = -1;
	if (!rt_cu_enter(g)) return false;
	const int code = rt_cu.cuPointerGetAttribute(&ordinal, POINTER_DEVICE, (rt_cuptr)(uintptr_t)p);
	rt_cu_leave();
	return !code && ordinal == g->ordinal;
}

static bool gpu_memory(void *self, size_t *unused, size_t *all)
{
	if (!rt_cu_enter(self)) return false;
	const int code = rt_cu.cuMemGetInfo(unused, all);
	rt_cu_leave();
	return !code;
}

/* ---- launches ---- */
static bool remember(rt_queue *q, const rt_launch *l)
{
	if (!l->nfault) return true;
	rt_lock(&q->gpu->lock);
	const bool ok = rt_push(&q->record, ((rt_record){ q->serial, l->fault, l->nfault, l->site }));
	rt_unlock(&q->gpu->lock);
	return ok;
}

static void forget_records(rt_queue *q)
{
	rt_lock(&q->gpu->lock);
	q->record.n = 0;
	rt_unlock(&q->gpu->lock);
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
		case RT_CUDA_FAULT: word[i] = l->nfault || (l->unless_failed && q->record.n) ? q->fault : 0; break;
		}
	}
}

/* A block may have more shared memory than every GPU gives only after it was asked for. */
static tj_status ask(const rt_gpu *g, rt_cuda_kernel *k, size_t shared, rt_err *err)
{
	if (RT_LIKELY(shared <= atomic_load_explicit(&k->asked, memory_order_relaxed))) return TJ_OK;
	if (!rt_cu_enter(g)) return rt_cu_no_entry(g, err);
	tj_status st = RT_CU_TRY(g, cuFuncSetAttribute, (k->function, FUNCTION_SHARED, (int)shared), err);
	rt_cu_leave();
	if (st == TJ_OK) atomic_store(&k->asked, shared);
	return st;
}

/* The blocks of a launch: enough for all units, but no more than a few times what the device runs at once. Blocks go on from their unit
 * with the stride of the grid, so a block that has begun is used again, and the load stays even. */
static unsigned grid_of(const rt_gpu *g, const rt_cuda_kernel *k, int64_t units)
{
	enum { TURNS = 8, THREADS = 2048 }; /* THREADS: of a multiprocessor */
	const int64_t blocks = (units - 1) / (int64_t)k->units + 1;
	const int64_t most = g->processors > 0 ? (int64_t)g->processors * TURNS * (THREADS / (int64_t)k->threads) : MOST_BLOCKS;
	return (unsigned)(blocks < most ? blocks : most);
}

/* So many launches may find a fault that it is time to know that none did. */
static void trim_records(rt_queue *q)
{
	if (!rt_cu_enter(q->gpu)) return;
	if (!rt_cu.cuStreamSynchronize(q->stream) && !atomic_load(q->word)) forget_records(q);
	rt_cu_leave();
}

static tj_status launch(rt_queue *q, const rt_culaunch *c, uint64_t *word, rt_err *err)
{
	void *arguments = word;
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	tj_status st = RT_CU_TRY(q->gpu, cuLaunchKernel,
	                         (c->function, c->blocks, 1, 1, c->threads, 1, 1, c->shared, q->stream, &arguments, NULL), err);
	rt_cu_leave();
	return st;
}

/* While a graph is gathered, the driver is not called. */
static tj_status gpu_launch(rt_queue *q, const rt_launch *l, rt_err *err)
{
	rt_cuda_kernel *k = (rt_cuda_kernel *)(uintptr_t)l->entry;
	uint64_t word[MOST_PARAMS];
	if (k->nparam > MOST_PARAMS)
		return rt_fail(err, TJ_ERR_DEVICE, "cuda", "a kernel with %u arguments; 32 KiB of them are possible", k->nparam);
	const size_t each = k->own + (l->shared + 15) / 16 * 16, shared = each * k->units;
	const bool gathers = rt_cugraph_gathers(q);
	if (gathers && !rt_cu_at_home()) return rt_cu_no_entry(q->gpu, err);
	q->serial++;
	pack(q, k, l, each, word);
	if (RT_UNLIKELY(q->record.n >= RECORDS) && !gathers) trim_records(q);
	tj_status st = remember(q, l) ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "cuda", "out of memory");
	if (st == TJ_OK) st = ask(q->gpu, k, shared, err);
	const rt_culaunch c = { k->function, grid_of(q->gpu, k, l->units), k->threads, (unsigned)shared, k->nparam };
	if (st != TJ_OK) return st;
	return gathers ? rt_cugraph_add(q, &c, word, err) : launch(q, &c, word, err);
}

static tj_status gpu_end(rt_queue *q, bool *replayed, rt_err *err)
{
	if (!rt_cu_enter(q->gpu)) return rt_cugraph_abandon(q), rt_cu_no_entry(q->gpu, err);
	const tj_status st = rt_cugraph_end(q, replayed, err);
	rt_cu_leave();
	return st;
}

static void gpu_forget(void *self, uint64_t plan)
{
	rt_gpu *g = self;
	if (!rt_cu_enter(g)) return;
	rt_lock(&g->lock);
	for (rt_queue *q = g->queues; q; q = q->next) rt_cugraph_forget(q, plan);
	rt_unlock(&g->lock);
	rt_cu_leave();
}

/* Two events of the queue, and the time between them. */
static void gpu_clock(rt_queue *q, double *ns)
{
	float ms = 0;
	if (!rt_cu_enter(q->gpu)) return;
	for (int i = 0; i < 2; i++)
		if (!q->clock[i] && rt_cu.cuEventCreate(&q->clock[i], 0)) q->clock[i] = NULL;
	if (q->clock[0] && q->clock[1]) {
		rt_cu.cuEventRecord(q->clock[ns != NULL], q->stream);
		if (ns && !rt_cu.cuEventSynchronize(q->clock[1]) && !rt_cu.cuEventElapsedTime(&ms, q->clock[0], q->clock[1])) *ns = (double)ms * 1e6;
	}
	rt_cu_leave();
}

/* ---- waiting ---- */
/* The list of queues is locked. false: no launch that is known has found it. */
static bool find_fault(const rt_queue *q, uint64_t word, rt_fault *f)
{
	*f = q->found.fault;
	if (q->found.word == word) return true;
	for (uint32_t i = 0; i < q->record.n; i++) {
		const rt_record *r = &q->record.v[i];
		if (r->serial != word >> 16 || (word & 0xffff) > r->n) continue;
		*f = r->fault[(word & 0xffff) - 1];
		if (r->site) f->site = r->site;
		return true;
	}
	return false;
}

static tj_status fault_of(rt_queue *q, uint64_t word, rt_err *err)
{
	rt_fault f;
	rt_lock(&q->gpu->lock);
	tj_status st = find_fault(q, word, &f) ? rt_fault_fail(&f, err)
	                                       : rt_fail(err, TJ_ERR_DEVICE, "cuda", "%s: an unknown fault", q->gpu->name);
	rt_unlock(&q->gpu->lock);
	return st;
}

static tj_status gpu_wait(rt_queue *q, uint64_t *launch, rt_err *err)
{
	*launch = 0;
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	tj_status st = RT_CU_TRY(q->gpu, cuStreamSynchronize, (q->stream), err);
	const uint64_t word = atomic_exchange(q->word, 0);
	if (st == TJ_OK && word) st = RT_CU_TRY(q->gpu, cuMemsetD8Async, (q->fault, 0, sizeof word, q->stream), err);
	rt_cu_leave();
	if (st == TJ_OK && word) st = fault_of(q, word, err), *launch = word >> 16;
	q->serial += st != TJ_OK;
	q->done = q->serial;
	if (q->record.n) forget_records(q);
	return st;
}

/* The fault that the queue has found may be of the plan that goes. */
static void keep_fault(rt_queue *q)
{
	const uint64_t word = atomic_load(q->word);
	rt_fault f;
	if (!word || q->found.word == word || !find_fault(q, word, &f)) return;
	if (f.site && !rt_site_find(f.site)) {
		snprintf(q->found.site, sizeof q->found.site, "%s", f.site);
		f.site = q->found.site;
	}
	q->found.word = word;
	q->found.fault = f;
}

static bool gpu_failed(rt_queue *q) { return atomic_load(q->word) != 0; }
static rt_mark gpu_mark(rt_queue *q) { return (rt_mark){ q->id, q->serial }; }

static void gpu_flag(rt_queue *q)
{
	if (!rt_cu_enter(q->gpu)) return;
	rt_lock(&q->gpu->lock);
	const uint32_t i = q->nflag++ % RT_COUNT(q->flag);
	if (!q->flag[i].event && rt_cu.cuEventCreate(&q->flag[i].event, RT_CU_NO_TIMING)) q->flag[i].event = NULL;
	q->flag[i].serial = q->flag[i].event && !rt_cu.cuEventRecord(q->flag[i].event, q->stream) ? q->serial : 0;
	rt_unlock(&q->gpu->lock);
	rt_cu_leave();
}

/* Calls with the queue of a mark that may not have been reached; the list of queues is locked. */
static rt_queue *behind(rt_gpu *g, rt_mark m)
{
	rt_queue *q = g->queues;
	while (q && q->id != m.queue) q = q->next;
	return q && q->done < m.serial ? q : NULL;
}

static void gpu_wait_for(rt_queue *q, rt_mark m)
{
	rt_gpu *g = q->gpu;
	if (!m.queue || m.queue == q->id || !rt_cu_enter(g)) return;
	rt_lock(&g->lock);
	rt_queue *other = behind(g, m);
	if (other && !rt_cu.cuEventRecord(other->event, other->stream)) rt_cu.cuStreamWaitEvent(q->stream, other->event, 0);
	rt_unlock(&g->lock);
	rt_cu_leave();
}

static void gpu_finish(void *self, rt_mark m)
{
	rt_gpu *g = self;
	if (!m.queue || !rt_cu_enter(g)) return;
	rt_lock(&g->lock);
	rt_queue *q = behind(g, m);
	rt_cuobj first = NULL; /* the event of the earliest flag that is not before m */
	uint64_t serial = UINT64_MAX;
	for (uint32_t i = 0; q && i < RT_COUNT(q->flag); i++)
		if (q->flag[i].serial >= m.serial && q->flag[i].serial < serial) serial = q->flag[i].serial, first = q->flag[i].event;
	if (q) wait_unlocked(g, q, first);
	rt_unlock(&g->lock);
	rt_cu_leave();
}

static void gpu_drain(void *self)
{
	rt_gpu *g = self;
	if (!rt_cu_enter(g)) return;
	rt_lock(&g->lock);
	for (rt_queue *q = g->queues; q; q = q->next) {
		wait_unlocked(g, q, NULL);
		keep_fault(q);
	}
	rt_unlock(&g->lock);
	rt_cu_leave();
}

/* ---- work of other libraries ---- */
tj_status rt_cuda_enter(rt_queue *q, void **stream, int *n, rt_err *err)
{
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	q->serial++;
	*stream = q->stream;
	*n = q->gpu->ordinal;
	return TJ_OK;
}

void rt_cuda_leave(void) { rt_cu_leave(); }

/* ---- the devices of this machine ---- */
static const char *add_gpu(int ordinal, const struct lo_target *(*target)(int ordinal, int arch))
{
	rt_gpu *g = &rt_cu_gpus[ordinal];
	int major = 0, minor = 0, processors = 0, device = 0;
	int code = rt_cu.cuDeviceGet(&device, ordinal);
	if (!code) code = rt_cu.cuDeviceGetAttribute(&major, ATTRIBUTE_MAJOR, device);
	if (!code) code = rt_cu.cuDeviceGetAttribute(&minor, ATTRIBUTE_MINOR, device);
	if (!code) code = rt_cu.cuDeviceGetAttribute(&processors, ATTRIBUTE_PROCESSORS, device);
	if (!code) code = rt_cu.cuDevicePrimaryCtxRetain(&g->context, device);
	if (code) return "a GPU's context cannot be made";
	snprintf(g->name, sizeof g->name, "cuda:%d", ordinal);
	g->ordinal = ordinal;
	g->arch = major * 10 + minor;
	g->processors = processors;
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->copy_lock, NULL);
	g->device = (rt_device){ .name = g->name,
		                 .target = target(ordinal, g->arch),
		                 .self = g,
		                 .alloc = gpu_alloc,
		                 .free = gpu_free,
		                 .open = gpu_open,
		                 .close = gpu_close,
		                 .write = rt_cucopy_write,
		                 .read = rt_cucopy_read,
		                 .copy = rt_cucopy_strided,
		                 .zero = rt_cucopy_zero,
		                 .launch = gpu_launch,
		                 .wait = gpu_wait,
		                 .failed = gpu_failed,
		                 .mark = gpu_mark,
		                 .flag = gpu_flag,
		                 .wait_for = gpu_wait_for,
		                 .drain = gpu_drain,
		                 .finish = gpu_finish,
		                 .clock = gpu_clock,
		                 .stream = gpu_stream,
		                 .use_stream = gpu_use_stream,
		                 .owns = gpu_owns,
		                 .memory = gpu_memory,
		                 .begin = rt_cugraph_begin,
		                 .end = gpu_end,
		                 .forget = gpu_forget };
	if (rt_device_add(&g->device) < 0) return "there are more devices than a process can have";
	ngpu++;
	return NULL;
}

const char *rt_cuda_open(const struct lo_target *(*target)(int ordinal, int arch))
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static bool tried;
	static const char *missing;
	int n = 0;
	rt_lock(&once);
	if (!tried) {
		tried = true;
		missing = rt_cu_load();
		if (!missing && (rt_cu.cuDeviceGetCount(&n) || !n)) missing = "the NVIDIA driver finds no GPU";
		for (int i = 0; i < n && i < RT_DEVICES && !missing; i++) missing = add_gpu(i, target);
		if (ngpu) missing = NULL;
	}
	const char *why = missing;
	rt_unlock(&once);
	return why;
}
