/* bench: the cases, the loops a C programmer would write for them, and the limits of the machine. */
#ifndef TJ_BENCH_H
#define TJ_BENCH_H

#include <tj.h>

enum { BENCH_IN = 14, BENCH_SIZES = 3 };

/* ---- cases.c ---- */
typedef enum bench_limit { NO_LIMIT, COPY, ADD, READ, SGEMM } bench_limit;

/* What a case is made of at given sizes. */
typedef struct bench_shape {
	int nin;
	int64_t in[BENCH_IN][2];   /* sizes of the operands; the second is 0 for a vector */
	int64_t out, tmp;          /* elements of the result; floats the hand-written code needs beside it */
	tj_dtype dtype;            /* of the result */
	double bytes, flops;
	int64_t limit[3];          /* COPY, ADD, READ: elements; SGEMM: m, n, k */
	int weights;               /* SGEMM: the operand that is [k,n] */
} bench_shape;

typedef struct bench_args {
	const int64_t *p;          /* sizes of the case */
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
	int64_t p[BENCH_SIZES], small[BENCH_SIZES]; /* sizes to time, and to check in a test */
	double tolerance;          /* of |ours - hand| against 1 + |hand| */
} bench_case;
extern const bench_case bench_cases[];
extern const int bench_ncases;

/* ---- hand.c: plain loops with OpenMP, compiled for this machine with every flag that makes them fast ---- */
#define BENCH_HANDS(X)                                                                                               \
	X(tiny_add) X(tiny_10in) X(add) X(exp) X(tanh) X(log) X(sigmoid) X(gelu_erf) X(silu_mul) X(chain) X(softmax)     \
	X(layernorm) X(rmsnorm_res) X(sum_rows) X(sum_cols) X(sum_all) X(argmax_rows) X(transpose_add) X(linear_gelu)    \
	X(mlp) X(attention) X(block)
#define X(name) bench_hand hand_##name;
BENCH_HANDS(X)
#undef X
void hand_copy(const float *x, float *o, int64_t n);
void hand_plus(const float *x, const float *y, float *o, int64_t n);
float hand_read(const float *x, int64_t n);
void hand_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                float *c, int64_t ldc);
void hand_gelu(float *o, int64_t n); /* in place */
void hand_wake(void); /* starts the team of threads */
void hand_rest(void); /* ends it, until the next loop */

/* ---- packed.c: oneDNN's matmul primitive with the weights packed before; bias inside, gelu by hand ---- */
typedef struct bench_packed bench_packed;
bench_packed *bench_pack(int64_t m, int64_t n, int64_t k, const float *w, const float *bias); /* NULL: not with this oneDNN */
void bench_packed_run(bench_packed *p, const float *x, float *out);
void bench_packed_free(bench_packed *p);

/* ---- run.c ---- */
typedef struct bench_job bench_job;
typedef struct bench_report {
	const char *name;
	double us, median_us;         /* of a call in direct mode: the quickest tenth of the batches, and all */
	double verify_us;             /* in verify mode, of tiny cases; else 0 */
	double fast_us;               /* with TJ_FAST, of chains; else 0 */
	double sizes_us;              /* with sizes as arguments of the code; 0: not asked for */
	double first_ms;              /* the first call: trace and compile */
	double rate;                  /* GB/s or, with flops, GF/s */
	double hand_us, vs_hand, packed_us, vs_packed; /* vs: how many times faster we are; 0: not there */
	double limit;                 /* share of the machine's limit that we reach */
	double error;
	bool flops;
} bench_report;
bench_job *bench_open(tj_ctx *c, const bench_case *b, bool small, bool sizes); /* sizes: also with TJ_DYNAMIC_ON */
double bench_error(bench_job *u); /* the largest |ours - hand| / (1 + |hand|) */
bench_report bench_time(bench_job *u, double seconds);
void bench_close(bench_job *u);

/* ---- state.c: what can be said of the machine now ---- */
void bench_state(FILE *f, bool json);
double bench_now(void); /* seconds */
int bench_by_size(const void *a, const void *b); /* for qsort: doubles, rising */

#endif
