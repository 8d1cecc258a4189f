/* SPDX-License-Identifier: MIT */
/* fake: what the fake driver, the fake NVRTC (nvrtc.c) and the objects that it makes (device.h, device.c) agree on, and what the fake
 * cuBLASLt (cublaslt.c) needs of the driver. */
#ifndef TJ_TEST_FAKE_FAKE_H
#define TJ_TEST_FAKE_FAKE_H

#ifndef __cplusplus /* the programs have no headers of the C library; device.h defines size_t */
#include <stdbool.h>
#include <stddef.h>
#endif

struct fake_xyz { unsigned x, y, z; };
enum { FAKE_STACK = 128 << 10 };                                    /* bytes of a thread's local memory */
struct fake_place {                                                 /* of the running thread; in each object */
	struct fake_xyz thread, block, grid, size;                      /* threadIdx, blockIdx, gridDim, blockDim */
	char *stack;                                                    /* its local memory */
};
struct fake_hooks {                                                 /* what kernels call; set when an object is loaded */
	void (*barrier)(int site);                                      /* site: a number of the call in the text */
	void (*sync_warp)(unsigned mask, int site);
	unsigned long long (*shuffle)(unsigned mask, unsigned long long value, int lane, int site); /* lane: whose value the caller wants */
	void (*access)(const void *p, size_t bytes, int writes);        /* of memory that is not local */
	unsigned long long (*swap)(unsigned long long *p, unsigned long long was, unsigned long long value); /* atomicCAS */
	void (*undefined)(const char *what, unsigned line);             /* the line of the program did what C++ leaves undefined */
};

/* A cubin of the fake NVRTC names a shared object. */
#define FAKE_MAGIC "fake-cubin"
struct fake_cubin { char magic[sizeof FAKE_MAGIC]; int arch; bool ptx; char path[512]; }; /* ptx: for this arch and newer ones */

int fake_injected(const char *function, int *code); /* fail.c: true when this call of an API function must fail with *code */

int fake_failed_waits(void); /* calls that failed, and without which a program cannot wait */

/* What the fake driver has for other fake libraries, found by dlsym(). */
/* Work that the stream runs in its turn, with a copy of the job, whose addresses it uses. Returns a code of the driver. */
typedef int fake_cuda_put_fn(void *stream, void (*run)(void *job), const void *job, size_t bytes);
typedef void *fake_cuda_there_fn(unsigned long long address, size_t bytes);      /* memory of the device, for work that runs */

#endif
