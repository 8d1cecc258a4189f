/* SPDX-License-Identifier: MIT */
/* gpu: what the files of the GPU's benchmarks share.
 *
 *   gpucases.c      the cases and their operands          gpuproducts.c   a product beside the library's best plain product
 *   gpu.c           runs them, and compares with a copy   gpucompile.c    from a call to code */
#ifndef TJ_BENCH_GPU_H
#define TJ_BENCH_GPU_H

#include "bench/bench.h"

#define BODY(name) static void name(tj_tensor **out, tj_tensor *const *in, void *self)
enum { GPU_IN = 6, GPU_OUT = 2 }; /* most operands and results of a case */

/* ---- gpucases.c ---- */
typedef struct gpu_case {
	const char *name;
	tj_body *body;               /* self: NULL */
	int nin, nout;
	tj_dtype dtype;
	int64_t p[2], small[2];      /* sizes, and those of the test */
	int64_t (*shape)(const int64_t *p, int k, int64_t *dim); /* sizes of operand k; returns its rank */
	double (*flops)(const int64_t *p); /* of products; NULL: the case is limited by memory */
	tj_numerics numerics;
	bool indices;                /* operand 1 is of i64, below p[1] */
	bool graphs;                 /* also timed without CUDA graphs */
	tj_body *plain;              /* the product of operands 0 and 1 alone, with which the case is compared; NULL: no case of one product */
	bool compile;                /* the time from a call to code is measured, not that of the code */
} gpu_case;
extern const gpu_case gpu_cases[];
extern const int gpu_ncases;

typedef struct gpu_job { tj_ctx *c; tj_fn *f; tj_tensor *in[GPU_IN + 1]; } gpu_job;
tj_fn *gpu_function(tj_ctx *c, const gpu_case *g, tj_body *body, int nin, void *self); /* another body with the options of the case */
/* The function, and operands that are made on the device, in the innermost scope. The caller frees the function. */
bool gpu_open(gpu_job *j, tj_ctx *c, const gpu_case *g, const int64_t *p, tj_device device);

/* ---- gpu.c ---- */
bool gpu_call(const gpu_job *j, tj_tensor **out);
double gpu_time(const gpu_job *j, double seconds); /* seconds of a call, when many are put into the queue; 0: one failed */
bool gpu_same(tj_tensor *got, tj_tensor *want, double tolerance); /* |got - want| <= tolerance * (1 + |want|) for each element */

/* ---- gpuproducts.c ---- */
enum { GPU_PLAIN, GPU_TUNED, GPU_APART, GPU_WAYS };
/* One way to compute a case with a product. */
typedef struct gpu_way {
	gpu_job job;
	tj_settings settings;
	double us;                   /* 0: not timed */
	char how[320];               /* what computes the product, as tj_explain() says it */
} gpu_way;
typedef struct gpu_ways {
	gpu_way self, other[GPU_WAYS]; /* self: as the case is, under the default settings */
	int n;                       /* of other */
} gpu_ways;
/* Compiles all and calls each once, so that what is tuned is tuned. gpu_close_ways() leaves the job, which is the caller's. */
bool gpu_open_ways(gpu_ways *w, const gpu_job *j, const gpu_case *g);
bool gpu_time_ways(gpu_ways *w, double seconds);
bool gpu_test_ways(gpu_ways *w, const char *name, double tolerance); /* each computes what the CPU does */
void gpu_put_ways(const gpu_ways *w, bool json);
void gpu_close_ways(gpu_ways *w);

/* ---- gpucompile.c ---- */
bool gpu_compile_times(tj_ctx *c, tj_device device, const gpu_case *g, const bench_gpu_opts *o);
bool gpu_test_compile(tj_ctx *c, tj_device device, const gpu_case *g);

#endif
