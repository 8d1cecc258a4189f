/* fake: what the fake driver (cuda.c), the fake NVRTC (nvrtc.c) and the objects it makes (device.h) agree on, and what the fake cuBLASLt (cublaslt.c) needs of the driver. */
#ifndef TJ_TEST_FAKE_FAKE_H
#define TJ_TEST_FAKE_FAKE_H

#include <stddef.h>

struct fake_xyz { unsigned x, y, z; };
struct fake_place { struct fake_xyz thread, block, grid; };        /* of the running thread; defined in each object */
struct fake_hooks {                                                 /* what kernels call; set when an object is loaded */
	void (*barrier)(void);
	unsigned long long (*shuffle)(unsigned mask, unsigned long long value, int from); /* from: a lane; -n: n lanes further up */
};

#define FAKE_MAGIC "fake-cubin"
struct fake_cubin { char magic[sizeof FAKE_MAGIC]; int arch; size_t bytes; char code[]; }; /* code: a shared object */

/* What the fake driver has for other fake libraries, found by dlsym(). */
typedef int fake_cuda_put_fn(void *stream, void (*run)(void *self), void *self); /* work that the stream runs in its turn; a code of the driver */
typedef void *fake_cuda_there_fn(unsigned long long address, size_t bytes);      /* memory of the device, for work that runs */

#endif
