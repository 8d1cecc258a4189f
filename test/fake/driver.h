/* SPDX-License-Identifier: MIT */
/* driver: a CUDA driver without a GPU, libcuda.so.1 for tests, found by the same dlopen.
 *
 *   memory.c  a range of addresses that the host cannot access (PROT_NONE); kernels and copies use a second mapping of it.
 *             Fresh and freed memory is filled with garbage, and no address is given twice
 *   race.c    who used each byte last: two uses that nothing orders are a race
 *   fiber.c   the threads of a block, as fibers; a barrier or a shuffle switches to the next one, in an order that changes
 *   module.c  kernels are shared objects that the fake NVRTC made (nvrtc.c); launches
 *   graph.c   kernels in a row that are launched as one
 *   stream.c  work runs as late as it may, or in a random order that is possible
 *   fail.c    calls that must fail
 *   api.c     the functions that a program finds, and what they refuse
 *
 * What a GPU would refuse gives the error code that it gives. What it might not notice ends the process with a message: a race, a use of
 * a host address or of memory that was freed, an access that crosses the end of an allocation or is not aligned, a barrier or a shuffle
 * that not all threads reach, undefined behaviour.
 *
 * Environment: FAKE_CUDA_ARCH 80, 90 or 120; FAKE_CUDA_SEED 0: work runs as late as it may, else the seed of its order;
 * FAKE_CUDA_RACE=0: no search for races; FAKE_CUDA_MEMORY: bytes that can be allocated; FAKE_CUDA_FAIL (fail.c); FAKE_CUDA_LOG=1: each
 * launch is printed. All functions but die() and those of api.c are called with the lock held. */
#ifndef TJ_TEST_FAKE_DRIVER_H
#define TJ_TEST_FAKE_DRIVER_H

#include "test/fake/fake.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201,
	NO_BINARY = 209,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600,
	TOO_MANY_RESOURCES = 701
};
enum { WARP = 32, MOST_THREADS = 1024, MOST_YZ = 65535, MOST_ARGUMENTS = 32764, SHARED_UNASKED = 48 << 10, REGISTERS = 65536, GUARD = 64 };

typedef unsigned long long address;      /* a CUdeviceptr */

typedef struct limits { int arch; size_t shared; } limits; /* shared: most bytes of a block, after they were asked for */
const limits *fake_limits(void);

/* ---- log.c ---- */
_Noreturn void fake_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t fake_random(void);              /* the same numbers for the same FAKE_CUDA_SEED */
uint64_t fake_seed(void);

/* ---- memory.c ---- */
void fake_memory_open(void);
int fake_alloc(address *p, size_t bytes);
int fake_free(address p);
int fake_host_alloc(void **p, size_t bytes);
int fake_host_free(void *p);
bool fake_is_there(address p);           /* an address of the device, allocated or not */
char *fake_there(address p, size_t bytes); /* where the host finds it; ends the process unless it is inside of one allocation */
bool fake_is_pinned(const void *p, size_t bytes);
bool fake_find(const void *there, size_t bytes, size_t *at); /* an address of the second mapping: *at counts from its start */
void fake_check(size_t at, size_t bytes, const char *what); /* ends the process unless the bytes are inside of one allocation */
int fake_memory_info(size_t *unused, size_t *all);
void fake_memory_count(int *device, int *host); /* allocations that were not freed */

/* ---- race.c ---- */
void fake_race_open(size_t bytes);       /* of the whole memory */
void fake_race_launch(void);             /* a kernel begins */
void fake_race_block(void);              /* a block begins */
void fake_race_barrier(void);            /* the threads of the block met */
void fake_race_warp(int thread);         /* those of a warp did */
void fake_race_use(bool shared, size_t at, size_t bytes, int thread, bool writes);
void fake_race_forget(size_t at, size_t bytes); /* memory was freed */

/* ---- fiber.c ---- */
typedef struct task {                    /* a block of a launch */
	void (*run)(void *arguments);
	void *arguments;
	size_t bytes;                        /* of the arguments */
	struct fake_xyz threads;
	size_t shared;                       /* bytes that its threads share, at `memory` */
	char *memory, *image, *image_end;    /* image: the shared object */
	struct fake_place *place;
	const char *name;
} task;
void fake_run_block(const task *t);
extern const struct fake_hooks fake_hooks_of_fibers;

/* ---- module.c ---- */
typedef struct module module;
typedef struct function function;
int fake_module_load(void **m, const void *image);
int fake_module_unload(void *m);
int fake_module_function(void **f, void *m, const char *name);
int fake_function_shared(void *f, int bytes);
int fake_function_attribute(int *value, int attribute, void *f);
/* What a launch would be refused with; else the bytes of its arguments. */
int fake_launch_check(const function *f, struct fake_xyz grid, struct fake_xyz threads, size_t shared, size_t *bytes);
void fake_launch_run(const function *f, struct fake_xyz grid, struct fake_xyz threads, size_t shared, void *arguments);
const module *fake_module_of(const function *f);
int fake_modules(void);                  /* loaded now */

/* ---- graph.c ---- */
/* but for bytes, as CUDA_KERNEL_NODE_PARAMS */
typedef struct fake_kernel {
	function *function;
	struct fake_xyz grid, threads;
	unsigned shared;
	void **param, **extra, *kernel, *context;
	size_t bytes;
} fake_kernel;
int fake_graph(void **g);
int fake_graph_add(void **node, void *g, void *const *after, size_t n, const fake_kernel *k);
int fake_graph_instantiate(void **exec, void *g);
int fake_graph_set(void *exec, const void *node, const fake_kernel *k);
int fake_graph_launch(void *exec, void *s);
int fake_graph_drop(void *g, bool runs);

/* ---- stream.c ---- */
int fake_stream(void **s);
int fake_stream_drop(void *s);
int fake_stream_sync(void *s);
int fake_stream_query(void *s);
int fake_stream_wait(void *s, void *e);
int fake_event(void **e);
int fake_event_drop(void *e);
int fake_event_record(void *e, void *s);
int fake_event_sync(void *e);
int fake_event_query(void *e);
int fake_event_elapsed(float *ms, const void *from, const void *to); /* a ms for each piece of work */
int fake_put_write(void *s, address to, const void *from, size_t bytes);
int fake_put_read(void *s, void *to, address from, size_t bytes);
int fake_put_copy(void *s, address to, address from, size_t bytes);
int fake_put_fill(void *s, address to, unsigned char byte, size_t bytes);
int fake_put_launch(void *s, function *f, struct fake_xyz grid, struct fake_xyz threads, size_t shared, void **param);
/* a copy of the job: the addresses in it are in use */
int fake_put_library(void *s, void (*run)(void *job), const void *job, size_t bytes);
void fake_streams_all(void);             /* runs everything */
const char *fake_user_of(uintptr_t from, uintptr_t to); /* work that the host does not know to be done, and uses these bytes; NULL: none */
const char *fake_user_of_module(const module *m);
void fake_stream_count(int *streams, int *events);

#endif
