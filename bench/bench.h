/* SPDX-License-Identifier: MIT */
/* bench: the cases, the loops that a C programmer would write for them, and the limits of the machine. */
#ifndef TJ_BENCH_H
#define TJ_BENCH_H

#include <tj.h>

enum { BENCH_IN = 14, BENCH_SIZES = 3 };

/* ---- cases.c ---- */
typedef enum bench_limit { NO_LIMIT, COPY, ADD, READ, SGEMM } bench_limit;

/* Operands, work and limit of a case at given sizes. */
typedef struct bench_shape {
	int nin;
	int64_t in[BENCH_IN][2];   /* sizes of the operands; the second is 0 for a vector */
	int64_t out, tmp;          /* out: elements of the result. tmp: floats of scratch memory for the hand-written code */
	tj_dtype dtype;            /* dtype of the result */
	double bytes, flops;
	int64_t limit[3];          /* limit[0] for COPY, ADD, READ: elements; limit[0..2] for SGEMM: m, n, k */
	int weights;               /* SGEMM: index of the operand that is [k,n] */
} bench_shape;

typedef struct bench_args {
	const int64_t *p;          /* the sizes of the case */
	const float *const *in;
	void *out;
	float *tmp;
} bench_args;
typedef void bench_hand(const bench_args *a);

typedef struct bench_case {
	const char *name;
	tj_body *body;             /* self: the sizes */
	bench_hand *hand;
	void (*shape)(bench_shape *s, const int64_t *p);
	bench_limit limit;
	int64_t p[BENCH_SIZES], small[BENCH_SIZES]; /* p: sizes to time. small: sizes for the test */
	double tolerance;          /* largest |ours - hand| / (1 + |hand|) */
} bench_case;
extern const bench_case bench_cases[];
extern const int bench_ncases;

/* ---- hand.c: plain loops with OpenMP, compiled for this machine with all flags for speed ---- */
/* clang-format off */
#define BENCH_HANDS(X) \
	X(tiny_add) X(tiny_10in) X(add) X(exp) X(tanh) X(log) X(sigmoid) X(gelu_erf) X(silu_mul) X(chain) X(softmax) \
	X(layernorm) X(rmsnorm_res) X(sum_rows) X(sum_cols) X(cumsum_rows) X(cumsum_cols) X(sort_rows) X(argsort_rows) X(top32) X(sum_all) \
	X(argmax_rows) X(transpose_add) X(linear_gelu) \
	X(mlp) X(attention) X(block)
/* clang-format on */
#define X(name) bench_hand hand_##name;
BENCH_HANDS(X)
#undef X
void hand_copy(const float *x, float *o, int64_t n);
void hand_plus(const float *x, const float *y, float *o, int64_t n);
float hand_read(const float *x, int64_t n);
void hand_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                float *c, int64_t ldc);
void hand_gelu(float *o, int64_t n); /* in place */
void hand_batch(int64_t n, void (*f)(void *env, int64_t i), void *env); /* f(env, 0) to f(env, n - 1), shared by the threads */
uint64_t hand_sum(const void *x, size_t bytes); /* reads them */
double hand_peak(int bits, tj_dtype dtype); /* flops per second of multiply-add on registers of so many bits; f32 or f64 */
int hand_team(void); /* the number of threads of the team */
void hand_threads(int n); /* sets it */
void hand_wake(void); /* starts the team of threads */
void hand_rest(void); /* ends the team, until the next loop */

/* ---- packed.c: the matmul primitive of oneDNN with packed weights; it adds the bias ---- */
typedef struct bench_packed bench_packed;
typedef struct bench_pack_opts {
	tj_dtype dtype;            /* f32, bf16; i8: the result is i32 */
	int64_t batch, m, n, k;    /* batch 0: operands of rank 2 */
	bool transposed, plain;    /* transposed: w is [n,k]. plain: the weights stay as they are */
	const void *w;
	const float *bias;         /* [n]; NULL: none */
} bench_pack_opts;
bench_packed *bench_pack(const bench_pack_opts *o); /* NULL: not supported by this oneDNN */
void bench_packed_run(bench_packed *p, const void *x, void *out);
void bench_packed_free(bench_packed *p);

/* ---- run.c ---- */
enum { BENCH_MOST = 201 };
typedef struct bench_variant {
	void (*run)(void *env);
	void *env;
	long n;                /* calls in a batch */
	double us[BENCH_MOST]; /* time of a call, by round */
	double quick, median;  /* of a call: the quickest tenth of the rounds, the median of all */
} bench_variant;
int bench_turns(bench_variant *v, int count, double seconds, int least); /* least: rounds. Returns the number of rounds */
void *bench_room(int64_t bytes); /* zeros */
typedef struct bench_job bench_job;
typedef struct bench_report {
	const char *name;
	double us, median_us;         /* time of a call in direct mode: the quickest tenth of the batches; the median of all */
	double verify_us;             /* in verify mode, for tiny cases; else 0 */
	double fast_us;               /* with TJ_FAST, for chains; else 0 */
	double sizes_us;              /* with sizes as arguments of the code; 0: not timed */
	double first_ms;              /* the first call: trace and compile */
	double rate;                  /* GB/s or, with flops, GF/s */
	double hand_us, vs_hand, packed_us, vs_packed; /* vs: their time divided by ours; 0: not available */
	double limit;                 /* share of the limit of the machine that we reach, 0 to 1 */
	double error;
	bool flops;
} bench_report;
bench_job *bench_open(tj_ctx *c, const bench_case *b, bool small, bool sizes); /* sizes: also with TJ_DYNAMIC_ON */
double bench_error(bench_job *u); /* the largest |ours - hand| / (1 + |hand|) */
bench_report bench_time(bench_job *u, double seconds);
void bench_close(bench_job *u);

/* ---- gpu.c ---- */
typedef struct bench_gpu_opts {
	const char *device, *pattern; /* pattern: regex of cases */
	double seconds;               /* for each case */
	bool quick, small, json;      /* quick: compare with the CPU, time nothing. small: time the sizes of that test */
} bench_gpu_opts;
int bench_gpu(const bench_gpu_opts *o); /* returns the exit status */

/* ---- products.c ---- */
typedef struct bench_product_opts {
	bool (*want)(void *env, const char *name); /* chooses products */
	void *env;
	double seconds;               /* for each product; quick: an eighth, in fewer rounds */
	int threads;                  /* 0: TJ_THREADS, or all */
	int any;                      /* so many products of any sizes instead of the table; 0: the table */
	bool quick, json, serve, list; /* list: print the table only */
} bench_product_opts;
int bench_products(const bench_product_opts *o); /* returns the exit status */

/* ---- lowering.c ---- */
typedef struct bench_lowering_opts {
	bool (*want)(void *env, const char *name); /* chooses programs */
	void *env;
	double seconds;               /* for each program; it is lowered once at least */
	bool quick, json;             /* quick: once */
} bench_lowering_opts;
int bench_lowering(const bench_lowering_opts *o); /* returns the exit status */

/* ---- suite.c: the cases of a table ---- */
typedef struct bench_suite_opts {
	bool (*want)(void *env, const char *name); /* chooses cases */
	void *env;
	double seconds;               /* for each case */
	bool quick, json, serve, list; /* quick: compare with the evaluator, time nothing. serve: the cases that standard input names. list:
	                                  print the table only */
	const char *write;            /* a folder for the results of the hand-written code; times nothing */
} bench_suite_opts;
typedef struct bench_suite {
	int n;
	const char *(*name)(int i);
	void *(*open)(tj_ctx *c, int i);
	void (*close)(void *job);
	void (*put)(void *job, double seconds, bool json); /* times it, prints a line */
	bool (*quick)(int i);
	void (*list)(int i);          /* prints a line for Python */
	bool (*write)(void *job, const char *folder); /* NULL: this suite cannot */
} bench_suite;
int bench_run_suite(const bench_suite *s, const bench_suite_opts *o); /* returns the exit status */

int bench_train(const bench_suite_opts *o);  /* train.c */
int bench_layers(const bench_suite_opts *o); /* layers.c */
int bench_loops(const bench_suite_opts *o);  /* loops.c */
int bench_many(long long n, bool json); /* many.c; returns the exit status */

/* ---- state.c: the present speed of the machine ---- */
void bench_state(FILE *f, bool json);

/* ---- clock.c ---- */
double bench_now(void); /* seconds */
int bench_by_size(const void *a, const void *b); /* compares doubles for qsort, ascending */

#endif
