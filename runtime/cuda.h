/* SPDX-License-Identifier: MIT */
/* cuda: NVIDIA GPUs through the driver API, and NVRTC. Both libraries are opened by name at the first use; nothing links them.
 *
 *   tensors, plans --- rt_device "cuda:0" ---> cuda.c     memory, a stream for each queue, launches, the fault word
 *   codegen_cuda   --- text ---> nvrtc.c --- cubin ---> cumodule.c   modules and their kernels
 *   products       --- cublas.h ------------ stream ---> cuda.c   work of libraries, in the same queues
 *
 * All functions are thread-safe, and leave the caller's current CUDA context as it was. */
#ifndef TJ_RUNTIME_CUDA_H
#define TJ_RUNTIME_CUDA_H

#include "runtime/device.h"

#include <stdatomic.h>

/* The arguments of a kernel are words of 64 bits. BUFFER: an address; 0 if the buffer is a run-time number, whose value is then VALUE.
 * EACH: bytes of shared memory for each unit. LAUNCH: the number of the launch; FAULT: the address of the word for faults. */
typedef enum rt_cuda_word {
	RT_CUDA_BUFFER,
	RT_CUDA_VALUE,
	RT_CUDA_SIZE,
	RT_CUDA_NUMBER,
	RT_CUDA_UNITS,
	RT_CUDA_EACH,
	RT_CUDA_LAUNCH,
	RT_CUDA_FAULT
} rt_cuda_word;
/* n: number of the buffer, the size or the run-time number */
typedef struct rt_cuda_param { rt_cuda_word word; uint32_t n; } rt_cuda_param;

/* A kernel of a module, and how it is launched. Its address is an rt_entry. */
typedef struct rt_cuda_kernel {
	void *function;              /* CUfunction */
	unsigned threads;            /* of a block */
	unsigned units;              /* that a block works on at the same time; a launch has no more blocks than that takes */
	size_t own;                  /* bytes of shared memory for each unit, besides those of the launch */
	atomic_size_t asked;         /* most bytes of shared memory of a block that the driver was asked to allow */
	uint32_t nparam;
	const rt_cuda_param *param;
} rt_cuda_kernel;

/* ---- cuda.c ---- */
/* Adds the devices cuda:0 ... once. Returns NULL, or what is missing, and what would provide it. */
const char *rt_cuda_open(const struct lo_target *(*target)(int ordinal, int arch));

/* ---- cudriver.c ---- */
/* of the driver's CUDA: 13000 for 13.0; 0: it does not say, or is not open */
int rt_cuda_version(void);

/* ---- cumodule.c ---- */
int rt_cuda_arch(int gpu);                                              /* 90 for sm_90 */
tj_status rt_cuda_load(int gpu, const void *cubin, void **module, rt_err *err);
tj_status rt_cuda_find(int gpu, void *module, const char *name, rt_cuda_kernel *k, rt_err *err); /* sets k->function */
void rt_cuda_unload(int gpu, void *module);                          /* no queue may have work left that uses it */

/* ---- cuda.c: work of libraries ---- */
/* Between these two a library of NVIDIA may put work into the queue: the GPU's context is current, and *stream is the queue's CUstream. */
tj_status rt_cuda_enter(rt_queue *q, void **stream, int *gpu, rt_err *err);
void rt_cuda_leave(void);

/* ---- toolkit.c ---- */
/* dlopen() of the first of these names that is there and suits the driver; name ends with NULL, the newest is first. wheel: where a Python
 * wheel of CUDA 12 has it, "/nvidia/cublas/lib". */
void *rt_toolkit_open(const char *const *name, const char *wheel);

/* ---- nvrtc.c ---- */
const char *rt_nvrtc_missing(void);                                     /* NULL: NVRTC is there; else why it is not */
bool rt_nvrtc_version(int v[2]);                                        /* only if it is there; false: it does not say */
/* Compiles a program for sm_<arch>. *cubin is rt_alloc'ed. The error has the first lines of the compiler's log. */
tj_status rt_nvrtc_compile(const char *text, int arch, void **cubin, size_t *bytes, rt_err *err);

#endif
