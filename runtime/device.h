/* SPDX-License-Identifier: MIT */
/* device: where the bytes of a tensor are, and what runs kernels on them.
 *
 * Device 0 is the CPU: the host can read its memory, and work is done when the call returns. Any other device is an
 * rt_device: the host may be unable to read its memory, and work waits in a queue. Each context has one queue for each
 * device. The work of a queue runs in order, at any time before the next wait returns.
 *
 *   context                                    device
 *     rt_bytes_write  --- copies the bytes ---> queue: write, launch, launch, copy ...   runs later
 *     rt_bytes_copy   <-- waits for all earlier work of the queue -------------------------
 *
 * A kernel that finds a fault writes the number of the launch and the fault into a word of its queue. The host reads that
 * word when it waits, possibly after the call that caused the fault has returned (rt_pool_settle(), pool.c). Later kernels may read
 * it, too (rt_launch.unless_failed). */
#ifndef TJ_RUNTIME_DEVICE_H
#define TJ_RUNTIME_DEVICE_H

#include "runtime/base.h"

enum { RT_CPU = 0, RT_DEVICES = 8 };     /* RT_DEVICES: the most in a process, the CPU included */

typedef struct rt_queue rt_queue;        /* defined by the device */

/* A position in a queue; it is reached when all work before it has run. {0, 0}: already reached. */
typedef struct rt_mark { uint64_t queue, serial; } rt_mark;

/* Code of a kernel; only its device can call it. On the CPU it is an rt_kernel_fn. */
typedef void (*rt_entry)(void);

/* A kernel to run. The queue copies everything this points to, because it may be freed before the kernel runs. */
typedef struct rt_launch {
	rt_entry entry;
	void *const *buf;                    /* by kernel buffer: an address of the device, or one of `num` */
	uint32_t nbuf, nnum, nsize;
	const uint64_t *num;                 /* run-time numbers */
	const int64_t *size;                 /* values of the kernel's symbols */
	int64_t units;
	size_t scratch;                      /* bytes for each thread of the device */
	size_t shared;                       /* bytes for each unit, which its threads share */
	const rt_fault *fault;               /* faults of the kernel: number k means fault[k - 1]. Their texts stay valid until a drain() */
	uint32_t nfault;
	const char *site;                    /* of its faults; NULL: each has its own */
	bool unless_failed; /* do nothing if an earlier launch has found a fault that no wait has reported yet. Not with faults of its own
	                     */
} rt_launch;

/* The host may do arithmetic on addresses of the device, but not read or write there. Memory functions are thread-safe. A queue
 * serves one thread at a time, but any thread may pass a mark of any queue to wait_for() and finish(). */
typedef struct rt_device {
	const char *name;                    /* "cuda:0" */
	const struct lo_target *target;      /* target of lowering (lower/target.h); NULL: the device runs no kernels, the CPU computes instead */
	void *self;                          /* passed to the functions without a queue */
	void *(*alloc)(void *self, size_t bytes); /* 64-byte aligned; NULL: out of memory */
	void (*free)(void *self, void *p);   /* no queue may have work left on p */
	rt_queue *(*open)(void *self);       /* NULL: out of memory */
	void (*close)(rt_queue *q);          /* called after a wait */
	tj_status (*write)(rt_queue *q, void *to, const void *from, size_t bytes,
	                   rt_err *err); /* from the host; the caller may change `from` on return */
	tj_status (*read)(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err);  /* to the host; waits, reports no fault */
	/* Both places are on this device and do not overlap. Strides are in elements of `size` bytes. */
	tj_status (*copy)(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride,
	                  void *to, const int64_t *to_stride, rt_err *err);
	tj_status (*zero)(rt_queue *q, void *to, size_t bytes, rt_err *err);
	tj_status (*launch)(rt_queue *q, const rt_launch *l, rt_err *err);
	/* Returns when all work of q has run. The error is the first fault since the last wait; *launch: serial of the launch that found it. Marks
	 * after an error lie behind those before it. */
	tj_status (*wait)(rt_queue *q, uint64_t *launch, rt_err *err);
	bool (*failed)(rt_queue *q);         /* a launch that has run has found a fault, and no wait has reported it yet; does not wait */
	rt_mark (*mark)(rt_queue *q);        /* the end of the work that q has now */
	void (*flag)(rt_queue *q); /* notes the end of the work that q has now: finish() of a mark up to there waits for no later work,
	                            * while the flag is one of the last few. NULL: finish() always waits for no later work */
	void (*wait_for)(rt_queue *q, rt_mark m); /* work put into q after this call runs after m, a mark of any queue of this device */
	void (*drain)(void *self);           /* returns when all queues have run; called before code or fault tables of launches are freed */
	void (*finish)(void *self, rt_mark m); /* returns when m has been reached; marks of a closed queue have */

	/* May be NULL. Launches between begin and end may start as one, faster; `plan` and `step` name them: the serial of a plan, and its
	 * first step of them. No other work is put into the queue in between. *replayed: they did. forget() frees what is known of a plan,
	 * before its code is freed. */
	void (*begin)(rt_queue *q, uint64_t plan, uint32_t step);
	tj_status (*end)(rt_queue *q, bool *replayed, rt_err *err);
	void (*forget)(void *self, uint64_t plan);

	void (*clock)(rt_queue *q,
	              double *ns); /* ns NULL: starts a clock; else waits for the queue's work and gives its time since then. May be NULL */

	/* May be NULL. */
	void *(*stream)(rt_queue *q);        /* what other libraries need to put work into the queue: a CUstream */
	tj_status (*use_stream)(rt_queue *q, void *stream,
	                        rt_err *err);    /* the queue puts its work there from now on; NULL: into a stream of its own */
	bool (*owns)(void *self, const void *p); /* p is an address of the device */
	bool (*memory)(void *self, size_t *unused, size_t *all); /* bytes of the device that no process uses, and all of them */
} rt_device;

/* ---- device.c: the devices of this process. They can be added, never removed. Thread-safe. ---- */
/* number of the new device; -1: there are RT_DEVICES already, or one has the same target. d must stay valid for ever */
int rt_device_add(const rt_device *d);
const rt_device *rt_device_at(int device);       /* NULL: the CPU, or no such device */
const char *rt_device_name(int device);          /* "cpu" */
bool rt_device_owns(int device, const void *p);  /* p is an address of this device, which is not the CPU */
typedef const char *rt_device_opener(void); /* adds devices; or returns why there are none */
void rt_device_on_demand(rt_device_opener *open); /* called before a name cuda... is looked up */
const char *rt_device_missing(void);             /* calls the opener; NULL: it has added devices, or there is none */
int rt_device_parse(const char *name, size_t n); /* number of the device with this name; -1: there is none */


/* ---- usage.c: bytes of tensors and temporaries on each device, in all contexts. Thread-safe. ---- */
typedef struct rt_usage { size_t used, peak, limit; uint64_t made; } rt_usage; /* made: number of allocations; limit 0: none */
bool rt_usage_take(int device, size_t bytes);    /* false: it would pass the limit */
void rt_usage_give(int device, size_t bytes);
rt_usage rt_usage_of(int device);
void rt_usage_limit(int device, size_t bytes);
const char *rt_usage_hint(int device);           /* for an error of memory; NULL: the device has no limit */
void rt_usage_reset_peak(int device);
void *rt_device_alloc(int device, size_t bytes); /* not on the CPU. NULL: out of memory, or beyond the limit */
void rt_device_free(int device, void *p, size_t bytes);

#endif
