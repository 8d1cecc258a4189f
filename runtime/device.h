/* device: where the bytes of a tensor are, and who runs kernels on them.
 *
 * Device 0 is the CPU: its bytes are the host's, and its work is done when the call that asks for it returns. Any other
 * device is an rt_device: its memory may be out of the host's reach, and its work waits in a queue. Each context has one
 * queue a device. Work of one queue runs in the order in which it was put there, at any time up to the next wait.
 *
 *   context                                    device
 *     rt_bytes_write  --- copies the bytes ---> queue: write, launch, launch, copy ...   runs later
 *     rt_bytes_read   <-- waits for all that was put into the queue before ----------------
 *
 * A kernel that finds a fault writes into a word of its queue: number of the launch, and which fault. The host looks at
 * that word when it waits, so a fault may be known only after the call that caused it has returned (rt_settle, pool.c). */
#ifndef TJ_RUNTIME_DEVICE_H
#define TJ_RUNTIME_DEVICE_H

#include "runtime/base.h"

enum { RT_CPU = 0, RT_DEVICES = 8 };     /* of a process, the CPU included */

typedef struct rt_queue rt_queue;        /* the device's own */

/* A moment in a queue: all that was put there before. {0, 0}: long ago. */
typedef struct rt_mark { uint64_t queue, serial; } rt_mark;

/* Code of a kernel, as its device launches it: on the CPU an rt_kernel_fn. Nobody else calls it. */
typedef void (*rt_entry)(void);

/* A kernel that is to run. The queue copies what this points to: it may be gone when the kernel runs. */
typedef struct rt_launch {
	rt_entry entry;
	void *const *buf;                    /* by kernel buffer: an address of the device, or one of `num` */
	uint32_t nbuf, nnum, nsize;
	const uint64_t *num;                 /* run-time numbers */
	const int64_t *size;                 /* values of the kernel's symbols */
	int64_t units;
	size_t scratch;                      /* bytes for each thread of the device */
	const rt_fault *fault;               /* what the kernel may report, by number - 1. Texts in it stay until a drain() */
	uint32_t nfault;
} rt_launch;

/* Addresses may be computed with on the host, but not followed. Memory functions are thread-safe; a queue serves one thread
 * at a time, except wait_for() and done(), which any thread may ask of another one's queue by a mark. */
typedef struct rt_device {
	const char *name;                    /* "cuda:0" */
	const struct lo_target *target;      /* what lowers for it (lower/target.h); NULL: nothing, and the CPU computes what is asked of it */
	void *self;                          /* passed to the functions without a queue */
	void *(*alloc)(void *self, size_t bytes); /* 64-byte aligned; NULL: out of memory */
	void (*free)(void *self, void *p);   /* no queue has work on it any more */
	rt_queue *(*open)(void *self);       /* NULL: out of memory */
	void (*close)(rt_queue *q);          /* after a wait */
	tj_status (*write)(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err); /* from the host; `from` may be changed at once */
	tj_status (*read)(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err);  /* to the host; waits, reports no fault */
	/* From and to places of this device that do not overlap, by strides in elements of `size` bytes. */
	tj_status (*copy)(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride,
	                  void *to, const int64_t *to_stride, rt_err *err);
	tj_status (*zero)(rt_queue *q, void *to, size_t bytes, rt_err *err);
	tj_status (*launch)(rt_queue *q, const rt_launch *l, rt_err *err);
	/* All that was put there has run. The error is the first fault since the last wait; *launch: serial of who found it. */
	tj_status (*wait)(rt_queue *q, uint64_t *launch, rt_err *err);
	rt_mark (*mark)(rt_queue *q);
	void (*wait_for)(rt_queue *q, rt_mark m); /* what is put into q from now on runs after m, a mark of any queue of this device */
	void (*drain)(void *self);           /* every queue of this device has run: before code or fault tables that launches point to are freed */
	void (*finish)(void *self, rt_mark m); /* returns when m has been reached; a queue that is closed has */
} rt_device;

/* ---- device.c: the devices of this process. They are added, and stay. Thread-safe. ---- */
int rt_device_add(const rt_device *d);           /* its number; -1: there are RT_DEVICES. d stays valid for ever */
const rt_device *rt_device_at(int device);       /* NULL: the CPU, or none */
const char *rt_device_name(int device);          /* "cpu" */
int rt_device_parse(const char *name, size_t n); /* -1: there is none of that name */

#endif
