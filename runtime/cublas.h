/* SPDX-License-Identifier: MIT */
/* cublas: matrix products on NVIDIA GPUs by cuBLASLt, a library of the CUDA toolkit that is opened by name.
 *
 *   cublaslt.c    the library: its functions, a handle for each GPU        ranking.c   the algorithm of a product, kept under a key
 *   gpumatmul.c   a product as calls of the library, and its run           onhost.c    the same product on the CPU, where the library
 *                 has none
 *   tuning.c      the fastest of several algorithms, by the clock           blaslog.c   the library's own log
 *
 * Loading the library takes 0.1 to 1 s. It is begun beside the compiler when a plan has its first product, and the run waits for it. */
#ifndef TJ_RUNTIME_CUBLAS_H
#define TJ_RUNTIME_CUBLAS_H

#include "runtime/exec.h"

/* What a user allows. Another policy is another key of the algorithm. */
typedef struct rt_blas_policy {
	bool tf32;               /* operands of f32 may be rounded to TF32 (10 bits of mantissa) */
	bool reduced;            /* partial sums of f16 and bf16 may be rounded to the dtype of the result */
	bool any_order;          /* parts of a sum over k may be added in an order that changes from run to run */
	bool no_parts;           /* no sum over k is split into parts */
	int64_t workspace;       /* most bytes of workspace, up to RT_BLAS_WORKSPACE */
	int tries;               /* algorithms to time at the first run, up to RT_LT_TRIES; 0, 1: the heuristic's first is taken */
} rt_blas_policy;
enum { RT_BLAS_WORKSPACE = 32 << 20 /* what NVIDIA recommends for Hopper */, RT_LT_TRIES = 8 };

/* What the library computes of a product before it rounds it, in the dtype of the sums. Values of cublasLtEpilogue_t, which combine: first
 * the bias, then ReLU or GELU (the tanh form). */
enum { RT_LT_RELU = 2, RT_LT_BIAS = 4, RT_LT_GELU = 32 };
enum { RT_LT_BIAS_ALIGN = 16 /* bytes; PyTorch met kernels that read so many at once, though the bias was aligned to less */ };

/* C[batch..., m, n] = A B, C row-major. F32, F16 and BF16 add in f32, F64 in f64. Strides in elements. */
typedef struct rt_blas_desc {
	tj_dtype dtype;
	int device;
	int64_t m, n, k;
	int64_t a_row, a_col, b_row, b_col; /* rt_leading() holds for both operands, unless one has no elements */
	int nbatch;
	int64_t batch[TJ_MAX_RANK], a_step[TJ_MAX_RANK], b_step[TJ_MAX_RANK]; /* batch axes; any strides */
	uint32_t epilogue;       /* RT_LT_..; 0: none. The bias has n elements, side by side, the same for all batches */
	bool same_bits;          /* with an epilogue: it is added to the bits of the plain product, so its algorithm is used, or none */
	const rt_step *rest;     /* with an epilogue: the kernel that computes the same in place, from C to C, when the library does not */
	rt_blas_policy policy;
	const char *of;          /* name of the function that it is part of, for the log; copied */
} rt_blas_desc;

/* ---- cublaslt.c ---- */
enum { RT_LT_NOT_SUPPORTED = 15 };            /* a status */
typedef struct rt_lt_algorithm { uint64_t data[8]; } rt_lt_algorithm;
typedef struct rt_lt_choice {            /* an answer of the heuristic */
	rt_lt_algorithm algorithm;
	size_t workspace;
	int state;                           /* 0: the algorithm can be used */
	float waves;
	int reserved[4];
} rt_lt_choice;
/* clang-format off */
#define RT_LT(X) \
	X(cublasLtCreate, int, (void **handle)) X(cublasLtGetVersion, size_t, (void)) X(cublasLtGetStatusName, const char *, (int status)) \
	X(cublasLtMatmulDescCreate, int, (void **product, int compute, int scale)) X(cublasLtMatmulDescDestroy, int, (void *product)) \
	X(cublasLtMatmulDescSetAttribute, int, (void *product, int attribute, const void *value, size_t bytes)) \
	X(cublasLtMatrixLayoutCreate, int, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
	X(cublasLtMatrixLayoutDestroy, int, (void *layout)) \
	X(cublasLtMatrixLayoutSetAttribute, int, (void *layout, int attribute, const void *value, size_t bytes)) \
	X(cublasLtMatmulPreferenceCreate, int, (void **preference)) X(cublasLtMatmulPreferenceDestroy, int, (void *preference)) \
	X(cublasLtMatmulPreferenceSetAttribute, int, (void *preference, int attribute, const void *value, size_t bytes)) \
	X(cublasLtMatmulAlgoGetHeuristic, int, (void *handle, void *product, void *a, void *b, void *c, void *d, void *preference, \
		int wanted, rt_lt_choice *choice, int *found)) \
	X(cublasLtMatmulAlgoCheck, int, (void *handle, void *product, void *a, void *b, void *c, void *d, \
		const rt_lt_algorithm *algorithm, rt_lt_choice *choice)) \
	X(cublasLtMatmulAlgoConfigGetAttribute, int, (const rt_lt_algorithm *algorithm, int attribute, void *value, size_t bytes, \
		size_t *written)) \
	X(cublasLtMatmul, int, (void *handle, void *product, const void *alpha, const void *a, void *a_layout, const void *b, \
		void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const rt_lt_algorithm *algorithm, \
		void *workspace, size_t bytes, void *stream))
/* clang-format on */
typedef void rt_lt_logger(int level, const char *function, const char *message);
#define RT_LT_LOG(X) X(cublasLtLoggerSetCallback, int, (rt_lt_logger *to)) X(cublasLtLoggerSetLevel, int, (int level))
typedef struct rt_lt {
#define X(name, type, params) type (*name) params;
	RT_LT(X)
	RT_LT_LOG(X) /* NULL: this version has no log */
#undef X
} rt_lt;
/* opens the library, or waits until it is open. NULL: *why says what is missing, and what would provide it */
const rt_lt *rt_lt_get(const char **why);
/* Why it cannot be used, as far as is known; waits for that only a few ms after rt_lt_begin(). NULL: it is there, or is not open yet. */
const char *rt_lt_missing(void);
void rt_lt_begin(void);                      /* begins to open it, on a thread of its own */
/* The handle of a GPU, whose context is current. NULL: *why says why there is none. */
void *rt_lt_handle(int gpu, const char **why);

/* ---- blaslog.c: what the library writes to its log while a thread listens ---- */
struct rt_log_to;
void rt_lt_listen(const rt_lt *lt, const struct rt_log_to *log); /* nothing happens unless the topic is wanted */
void rt_lt_heard(const rt_lt *lt, const struct rt_log_to *log, const char *of); /* ends it, and writes the lines to the log */

/* ---- ranking.c ---- */
/* A product of the library, with all that the choice of an algorithm depends on. Compared byte for byte: no padding. */
typedef struct rt_lt_key {
	int64_t version, gpu, dtype, tf32, reduced, any_order, no_parts, workspace, tries;
	int64_t m, n, k, batch;              /* of the library: m is our n */
	int64_t lda, ldb, a_transposed, b_transposed, a_step, b_step, c_step;
	int64_t a_align, b_align, c_align;   /* bytes, powers of two, up to 256 */
	int64_t epilogue, same_bits, bias_align; /* bias_align: as the others; 0: no bias */
} rt_lt_key;
typedef struct rt_lt_call {              /* what cublasLtMatmul() gets */
	struct rt_lt_call *next;             /* of the same product, for operands aligned otherwise */
	const rt_lt *lt;
	rt_lt_key key;
	void *product, *a, *b, *c;           /* descriptors */
	rt_lt_choice choice;                 /* the algorithm */
	int noption;                         /* more than 1: nobody has chosen among these yet */
	rt_lt_choice option[RT_LT_TRIES];
	const char *why;                     /* why it cannot be used, or is not to be; NULL: it has an algorithm */
	char text[256];                      /* "cublasLt 13.1.0, algorithm 6 ..." */
} rt_lt_call;
/* Asks the heuristic if it was not asked yet; plain: takes the algorithm of that call instead, if the library can use it for this one.
 * NULL: err is set. */
rt_lt_call *rt_lt_call_new(const rt_lt *lt, void *handle, const rt_lt_key *key, const rt_lt_call *plain, rt_err *err);
void rt_lt_call_free(rt_lt_call *x);
const char *rt_lt_name(int64_t epilogue); /* "cublasLt, with bias and GELU" */
/* us: time of the option; first_us: of the heuristic's first; 0: not timed */
void rt_lt_choose(rt_lt_call *x, int option, double us, double first_us);
/* With an epilogue. us: time of the call; apart_us: of a plain product and the kernel; below 0: it cannot be. The call remains if it is not
 * slower. */
void rt_lt_weigh(rt_lt_call *x, double us, double apart_us);
/* The bias of the next calls. The descriptor holds it: one thread at a time sets it and calls. A status. */
int rt_lt_set_bias(const rt_lt_call *x, const void *bias);

/* ---- tuning.c ---- */
typedef int rt_lt_run(void *env, const rt_lt_call *x); /* puts the product into the queue; a status */
/* in microseconds; below 0: the library refuses it */
double rt_lt_time(const rt_lt_call *x, int device, rt_queue *q, rt_lt_run *run, void *env);
void rt_lt_tune(rt_lt_call *x, int device, rt_queue *q, rt_lt_run *run, void *env); /* chooses the fastest option; waits for the queue */

/* ---- onhost.c ---- */
/* copies the operands to the CPU, and the result back */
tj_status rt_blas_on_host(const rt_blas_desc *d, const void *a, const void *b, void *c, rt_run *r);

/* ---- gpumatmul.c ---- */
typedef struct rt_blas rt_blas;
rt_blas *rt_blas_new(const rt_blas_desc *d, rt_err *err);
void rt_blas_free(rt_blas *x);               /* no queue may have work left of it */
typedef struct rt_blas_operands {
	const void *a, *b;
	void *c, *work;          /* work: RT_BLAS_WORKSPACE + 256 bytes of the device, at any address */
	const void *bias;        /* with RT_LT_BIAS */
	void *const *rest;       /* with an epilogue: the operands of rt_blas_desc.rest */
} rt_blas_operands;
tj_status rt_blas_run(rt_blas *x, const rt_blas_operands *o, rt_run *r); /* thread-safe */
/* what computes it, once it ran: "cublasLt 13.1.0, algorithm 6, tile 20, stages 4, with bias and GELU" */
const char *rt_blas_name(const rt_blas *x);
const char *rt_blas_why(const rt_blas *x, const char **hint); /* the reason */

#endif
