/* SPDX-License-Identifier: MIT */
/* A cuBLASLt without a GPU: libcublasLt.so.13 for tests. Products are plain loops over the memory of the fake driver, and run in stream
 * order. What the real library refuses gives the status that it gives. What it would not notice ends the process with a message: a
 * descriptor that was destroyed, memory outside of an allocation.
 *
 * FAKE_CUBLASLT_FAIL=function:status makes each call of that function give that status; FAKE_CUBLASLT_SLOW makes algorithms that split k
 * take 2 ms more. FAKE_CUBLASLT_EPILOGUES=refused: no algorithm has an epilogue; late: those that have one are refused when they are
 * called; slow: they take 2 ms more. */
#include "test/fake/fake.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77 };
enum { VERSION = 130100, PARTS = 4, LONG_K = 256 };
enum { SPLIT_COMPUTE = 2 };

typedef struct handle { uint32_t magic; } handle;
typedef struct product { uint32_t magic; int compute, scale; int32_t transposed[2]; uint32_t epilogue; const void *bias; } product;
enum { DEFAULT = 1, RELU = 2, BIAS = 4, GELU = 32 }; /* epilogues */
typedef struct layout { uint32_t magic; int type; uint64_t rows, cols; int64_t ld, step; int32_t batch, unused; } layout;
typedef struct preference { uint32_t magic; uint64_t workspace; uint32_t splits, align[4]; } preference;
enum { HANDLE = 0x4c544831, PRODUCT, LAYOUT, PREFERENCE };
/* problem: hash of what it was asked for */
typedef struct algorithm { uint64_t problem; uint32_t splits, align[4], workspace, epilogue, unused; uint64_t rest[3]; } algorithm;
_Static_assert(sizeof(algorithm) == 64, "as in cublasLt.h");
typedef struct choice { algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; } choice;

EXPORT extern atomic_int fake_cublaslt_asked, fake_cublaslt_run, fake_cublaslt_refused, fake_cublaslt_compute, fake_cublaslt_epilogue,
	fake_cublaslt_splits, fake_cublaslt_joined;
atomic_int fake_cublaslt_asked, fake_cublaslt_run, fake_cublaslt_refused; /* how often: heuristics; products; either of them refused */
atomic_int fake_cublaslt_compute, fake_cublaslt_epilogue;                 /* compute type, epilogue of the last product */
atomic_int fake_cublaslt_splits;                                          /* how the last heuristic may keep partial sums */
atomic_int fake_cublaslt_joined;                                          /* how often: products with an epilogue */

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "fake cuBLASLt: %s\n", what);
	abort();
}

static int told_to_fail(const char *function)
{
	const char *f = getenv("FAKE_CUBLASLT_FAIL");
	const size_t n = strlen(function);
	return f && !strncmp(f, function, n) && f[n] == ':' ? atoi(f + n + 1) : SUCCESS;
}
#define FAIL_IF_TOLD() do { const int e_ = told_to_fail(__func__); if (e_) return e_; } while (0)

static void *real(const void *p, uint32_t magic)
{
	if (!p || *(const uint32_t *)p != magic) die("a handle or a descriptor that was destroyed, or never was one");
	return (void *)(uintptr_t)p;
}

static void *driver(const char *name)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *f = library ? dlsym(library, name) : NULL;
	if (!f) die("the fake driver is not there");
	return f;
}

static void *there(const void *p, size_t bytes)
{
	fake_cuda_there_fn *f;
	void *symbol = driver("fake_cuda_there");
	memcpy(&f, &symbol, sizeof f);
	return f((uintptr_t)p, bytes);
}

/* ---- handles and descriptors ---- */
EXPORT int cublasLtCreate(void **h);
int cublasLtCreate(void **h)
{
	FAIL_IF_TOLD();
	handle *x = calloc(1, sizeof *x);
	x->magic = HANDLE;
	*h = x;
	return SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return VERSION; }

EXPORT const char *cublasLtGetStatusName(int e);
const char *cublasLtGetStatusName(int e)
{
	switch (e) {
	case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
	case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
	case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
	case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
	case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
	case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
	default: return "CUBLAS_STATUS";
	}
}

/* ---- the log ---- */
typedef void logger(int level, const char *function, const char *message);
static _Atomic(logger *) log_to;
static atomic_int log_level;

EXPORT int cublasLtLoggerSetCallback(logger *to);
int cublasLtLoggerSetCallback(logger *to)
{
	log_to = to;
	return SUCCESS;
}

EXPORT int cublasLtLoggerSetLevel(int level);
int cublasLtLoggerSetLevel(int level)
{
	log_level = level;
	return SUCCESS;
}

static void tell(const char *function, const char *message)
{
	logger *const to = log_to;
	if (to && log_level >= 5) to(5, function, message);
}

static int destroy(void *p, uint32_t magic)
{
	memset(real(p, magic), 0, sizeof(uint32_t)); /* not freed: a later use is seen */
	return SUCCESS;
}

static int set(void *field, size_t size, const void *value, size_t bytes)
{
	if (bytes != size) return INVALID_VALUE;
	memcpy(field, value, size);
	return SUCCESS;
}

EXPORT int cublasLtMatmulDescCreate(void **p, int compute, int scale);
int cublasLtMatmulDescCreate(void **p, int compute, int scale)
{
	FAIL_IF_TOLD();
	product *x = calloc(1, sizeof *x);
	*x = (product){ .magic = PRODUCT, .compute = compute, .scale = scale, .epilogue = DEFAULT };
	*p = x;
	return SUCCESS;
}
EXPORT int cublasLtMatmulDescDestroy(void *p);
int cublasLtMatmulDescDestroy(void *p) { return destroy(p, PRODUCT); }
EXPORT int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t bytes);
int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t bytes)
{
	FAIL_IF_TOLD();
	product *x = real(p, PRODUCT);
	if (attribute == 7) return set(&x->epilogue, sizeof x->epilogue, value, bytes);
	if (attribute == 8) return set(&x->bias, sizeof x->bias, value, bytes);
	return attribute == 3 || attribute == 4 ? set(&x->transposed[attribute - 3], sizeof *x->transposed, value, bytes) : INVALID_VALUE;
}

EXPORT int cublasLtMatrixLayoutCreate(void **p, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutCreate(void **p, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	FAIL_IF_TOLD();
	layout *x = calloc(1, sizeof *x);
	*x = (layout){ .magic = LAYOUT, .type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1 };
	*p = x;
	return SUCCESS;
}
EXPORT int cublasLtMatrixLayoutDestroy(void *p);
int cublasLtMatrixLayoutDestroy(void *p) { return destroy(p, LAYOUT); }
EXPORT int cublasLtMatrixLayoutSetAttribute(void *p, int attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutSetAttribute(void *p, int attribute, const void *value, size_t bytes)
{
	FAIL_IF_TOLD();
	layout *x = real(p, LAYOUT);
	if (attribute == 5) return set(&x->batch, sizeof x->batch, value, bytes);
	return attribute == 6 ? set(&x->step, sizeof x->step, value, bytes) : INVALID_VALUE;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **p);
int cublasLtMatmulPreferenceCreate(void **p)
{
	FAIL_IF_TOLD();
	preference *x = calloc(1, sizeof *x);
	*x = (preference){ .magic = PREFERENCE, .splits = 7, .align = { 256, 256, 256, 256 } };
	*p = x;
	return SUCCESS;
}
EXPORT int cublasLtMatmulPreferenceDestroy(void *p);
int cublasLtMatmulPreferenceDestroy(void *p) { return destroy(p, PREFERENCE); }
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes);
int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t bytes)
{
	FAIL_IF_TOLD();
	preference *x = real(p, PREFERENCE);
	if (attribute == 1) return set(&x->workspace, sizeof x->workspace, value, bytes);
	if (attribute == 3) return set(&x->splits, sizeof x->splits, value, bytes);
	return attribute >= 5 && attribute <= 8 ? set(&x->align[attribute - 5], sizeof *x->align, value, bytes) : INVALID_VALUE;
}

/* ---- what can be computed ---- */
static size_t size_of(int type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }

typedef struct problem { product p; layout a, b, c; uint64_t m, n, k; } problem;

static bool is_told(const char *how)
{
	const char *e = getenv("FAKE_CUBLASLT_EPILOGUES");
	return e && !strcmp(e, how);
}

static bool epilogue_is_known(uint32_t e)
{
	const uint32_t activation = e & ~(uint32_t)BIAS;
	return e == DEFAULT || e == BIAS || activation == RELU || activation == GELU;
}

static bool layout_is_valid(const layout *x) { return x->rows && x->cols && x->ld >= (int64_t)x->rows && x->batch >= 1 && x->step >= 0; }

static int problem_of(const void *p, const void *a, const void *b, const void *c, const void *d, problem *x)
{
	memset(x, 0, sizeof *x);
	memcpy(&x->p, real(p, PRODUCT), sizeof x->p);
	memcpy(&x->a, real(a, LAYOUT), sizeof x->a);
	memcpy(&x->b, real(b, LAYOUT), sizeof x->b);
	memcpy(&x->c, real(c, LAYOUT), sizeof x->c);
	if (d != c) return NOT_SUPPORTED; /* this fake has no product with two layouts of results */
	const bool ta = x->p.transposed[0], tb = x->p.transposed[1];
	x->m = ta ? x->a.cols : x->a.rows;
	x->k = ta ? x->a.rows : x->a.cols;
	x->n = tb ? x->b.rows : x->b.cols;
	if (!layout_is_valid(&x->a) || !layout_is_valid(&x->b) || !layout_is_valid(&x->c)) return INVALID_VALUE;
	if (x->c.rows != x->m || x->c.cols != x->n || x->k != (tb ? x->b.cols : x->b.rows)) return INVALID_VALUE;
	if (x->a.batch != x->c.batch || x->b.batch != x->c.batch) return INVALID_VALUE;
	if (x->c.batch > 1 && x->c.step < x->c.ld * (int64_t)x->c.cols - (x->c.ld - (int64_t)x->c.rows))
		return INVALID_VALUE; /* results that overlap */
	if (x->a.type != x->b.type || x->a.type != x->c.type || !epilogue_is_known(x->p.epilogue)) return NOT_SUPPORTED;
	const int t = x->a.type;
	if (t == R_64F) return x->p.compute == COMPUTE_64F && x->p.scale == R_64F ? SUCCESS : NOT_SUPPORTED;
	if (t != R_32F && t != R_16F && t != R_16BF) return NOT_SUPPORTED;
	return x->p.scale == R_32F && (x->p.compute == COMPUTE_32F || (t == R_32F && x->p.compute == COMPUTE_TF32)) ? SUCCESS : NOT_SUPPORTED;
}

static uint64_t hash_of(const problem *x)
{
	uint64_t h = 1469598103934665603u;
	problem plain = *x;
	plain.p.epilogue = DEFAULT;
	plain.p.bias = NULL;
	for (size_t i = 0; i < sizeof plain; i++) h = (h ^ ((const unsigned char *)&plain)[i]) * 1099511628211u;
	return h;
}

/* The algorithm of a plain product can also add a bias; others have the epilogue that they were asked for. */
static bool fits(const algorithm *how, const problem *x)
{
	const uint32_t e = x->p.epilogue;
	return how->problem == hash_of(x) && (how->epilogue == e || (how->epilogue == DEFAULT && e == BIAS));
}

static uint32_t partial_bytes(const problem *x) { return (uint32_t)(x->m * x->n * PARTS * size_of(x->a.type == R_64F ? R_64F : R_32F)); }

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *h, void *p, void *a, void *b, void *c, void *d, void *want, int wanted, choice *out,
                                          int *found);
int cublasLtMatmulAlgoGetHeuristic(void *h, void *p, void *a, void *b, void *c, void *d, void *want, int wanted, choice *out, int *found)
{
	FAIL_IF_TOLD();
	problem x;
	const preference *w = real(want, PREFERENCE);
	real(h, HANDLE);
	*found = 0;
	fake_cublaslt_asked++;
	fake_cublaslt_splits = (int)w->splits;
	int e = wanted < 1 ? INVALID_VALUE : problem_of(p, a, b, c, d, &x);
	if (!e && x.p.epilogue != DEFAULT && is_told("refused")) e = NOT_SUPPORTED;
	for (int i = 0; i < 4 && !e; i++)
		if (w->align[i] < size_of(x.a.type) || (w->align[i] & (w->align[i] - 1))) e = NOT_SUPPORTED;
	fake_cublaslt_refused += e != 0;
	if (e) return e;
	const uintptr_t bias = (uintptr_t)x.p.bias;
	const uint32_t bias_align = x.p.epilogue & BIAS ? (uint32_t)((bias | 256) & -(bias | 256)) : 16; /* not read: only its alignment counts */
	bool split = x.p.epilogue == DEFAULT && w->splits & SPLIT_COMPUTE && x.k >= LONG_K && partial_bytes(&x) <= w->workspace;
	for (int more = 1; more && *found < wanted; split = false) { /* k in parts, if that is possible, then k in one part */
		more = split;
		choice *o = &out[(*found)++];
		memset(o, 0, sizeof *o);
		o->algorithm = (algorithm){ .problem = hash_of(&x),
			                    .splits = split ? PARTS : 1,
			                    .align = { w->align[0], w->align[1], w->align[2], bias_align },
			                    .workspace = split ? partial_bytes(&x) : 0,
			                    .epilogue = x.p.epilogue };
		o->workspace = o->algorithm.workspace;
	}
	return SUCCESS;
}

EXPORT int cublasLtMatmulAlgoCheck(void *h, void *p, void *a, void *b, void *c, void *d, const algorithm *how, choice *out);
int cublasLtMatmulAlgoCheck(void *h, void *p, void *a, void *b, void *c, void *d, const algorithm *how, choice *out)
{
	FAIL_IF_TOLD();
	problem x;
	real(h, HANDLE);
	int e = problem_of(p, a, b, c, d, &x);
	if (!e && (!fits(how, &x) || (x.p.epilogue != DEFAULT && is_told("refused")))) e = NOT_SUPPORTED;
	fake_cublaslt_refused += e != 0;
	if (e) return e;
	memset(out, 0, sizeof *out);
	out->algorithm = *how;
	out->workspace = how->workspace;
	return SUCCESS;
}

EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *x, int attribute, void *value, size_t bytes, size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *x, int attribute, void *value, size_t bytes, size_t *written)
{
	FAIL_IF_TOLD();
	const int32_t v = attribute == 0 ? 7 : attribute == 1 ? 20 : attribute == 2 ? (int32_t)x->splits : attribute == 6 ? 4 : -1;
	if (v < 0 || bytes != sizeof v) return INVALID_VALUE;
	memcpy(value, &v, sizeof v);
	*written = sizeof v;
	return SUCCESS;
}

/* ---- elements ---- */
static double tf32(double v)
{
	float f = (float)v;
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	u = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
	memcpy(&f, &u, sizeof f);
	return (double)f;
}

/* As hardware converts f16, rounded to nearest, ties to even. Not every compiler has _Float16. */
static double from_half(uint16_t h)
{
	const int e = h >> 10 & 31, m = h & 1023;
	const double v = e == 31 ? m ? NAN : INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h >> 15 ? -v : v;
}

static uint16_t to_half(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	const uint32_t sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
	if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
	if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
	if (a < 0x38800000) return (uint16_t)(sign | (uint32_t)rint(ldexp(fabs((double)f), 24)));
	return (uint16_t)(sign | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
}

static double load(int type, bool rounds, const char *p, int64_t i)
{
	switch (type) {
	case R_64F: return ((const double *)(const void *)p)[i];
	case R_32F: return rounds ? tf32(((const float *)(const void *)p)[i]) : (double)((const float *)(const void *)p)[i];
	case R_16F: return from_half(((const uint16_t *)(const void *)p)[i]);
	default: {
		const uint32_t u = (uint32_t)((const uint16_t *)(const void *)p)[i] << 16;
		float f;
		memcpy(&f, &u, sizeof f);
		return (double)f;
	}
	}
}

static void store(int type, char *p, int64_t i, double v)
{
	const float f = (float)v;
	uint32_t u;
	switch (type) {
	case R_64F: ((double *)(void *)p)[i] = v; break;
	case R_32F: ((float *)(void *)p)[i] = f; break;
	case R_16F: ((uint16_t *)(void *)p)[i] = to_half(f); break;
	default:
		memcpy(&u, &f, sizeof u);
		((uint16_t *)(void *)p)[i] = f != f ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
	}
}

/* ---- a product ---- */
typedef struct job { problem x; const void *a, *b, *bias; void *c, *workspace; size_t bytes; double alpha; uint32_t splits; } job;

/* The sum over [from, to) of k: in f64, or in f32. */
static double sum(const job *j, const char *a, const char *b, uint64_t row, uint64_t col, uint64_t from, uint64_t to)
{
	const problem *x = &j->x;
	const bool ta = x->p.transposed[0], tb = x->p.transposed[1], rounds = x->p.compute == COMPUTE_TF32;
	double wide = 0;
	float narrow = 0;
	for (uint64_t i = from; i < to; i++) {
		const int64_t ia = ta ? (int64_t)i + (int64_t)row * x->a.ld : (int64_t)row + (int64_t)i * x->a.ld;
		const int64_t ib = tb ? (int64_t)col + (int64_t)i * x->b.ld : (int64_t)i + (int64_t)col * x->b.ld;
		const double u = load(x->a.type, rounds, a, ia), v = load(x->b.type, rounds, b, ib);
		if (x->a.type == R_64F) wide = fma(u, v, wide);
		else narrow = fmaf((float)u, (float)v, narrow);
	}
	return x->a.type == R_64F ? wide : (double)narrow;
}

static char *matrix(const layout *x, const void *p, int batch)
{
	const size_t size = size_of(x->type);
	return there((const char *)p + (size_t)batch * (size_t)x->step * size, ((x->cols - 1) * (size_t)x->ld + x->rows) * size);
}

/* What follows the product, in the dtype of the sums. ReLU makes 0 of NaN, which the documentation leaves open; GELU is the tanh form. */
static double finished(const job *j, const char *bias, double v, uint64_t row)
{
	const problem *x = &j->x;
	const bool wide = x->a.type == R_64F;
	if (bias) v += load(x->c.type, false, bias, (int64_t)row);
	if (!wide) v = (double)(float)v;
	if (x->p.epilogue & RELU) v = v > 0 ? v : 0;
	if (x->p.epilogue & GELU && wide) v = v / 2 * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
	else if (x->p.epilogue & GELU) {
		const float f = (float)v;
		v = (double)(f / 2 * (1 + tanhf(0.797884561f * (f + 0.044715f * f * f * f))));
	}
	return v;
}

static void run(void *self)
{
	const job *j = self;
	const problem *x = &j->x;
	const char *bias = x->p.epilogue & BIAS ? there(j->bias, x->m * size_of(x->c.type)) : NULL;
	if (j->splits > 1 && getenv("FAKE_CUBLASLT_SLOW")) usleep(2000);
	if (x->p.epilogue != DEFAULT && is_told("slow")) usleep(2000);
	if (j->bytes) memset(there(j->workspace, j->bytes), 0x5A, j->bytes);
	for (int batch = 0; batch < x->c.batch; batch++) {
		const char *a = matrix(&x->a, j->a, batch), *b = matrix(&x->b, j->b, batch);
		char *c = matrix(&x->c, j->c, batch);
		for (uint64_t col = 0; col < x->n; col++)
			for (uint64_t row = 0; row < x->m; row++) {
				double total = 0;
				for (uint64_t s = 0; s < j->splits; s++) {
					const double part = sum(j, a, b, row, col, x->k * s / j->splits, x->k * (s + 1) / j->splits);
					total = x->a.type == R_64F ? total + part : (double)((float)total + (float)part);
				}
				store(x->c.type, c, (int64_t)row + (int64_t)col * x->c.ld, finished(j, bias, j->alpha * total, row));
			}
	}
}

static bool is_aligned(const void *p, uint32_t n) { return (uintptr_t)p % n == 0; }

EXPORT int cublasLtMatmul(void *h, void *p, const void *alpha, const void *a, void *al, const void *b, void *bl, const void *beta,
                          const void *c, void *cl, void *d, void *dl, const algorithm *how, void *workspace, size_t bytes, void *stream);
int cublasLtMatmul(void *h, void *p, const void *alpha, const void *a, void *al, const void *b, void *bl, const void *beta, const void *c,
                   void *cl, void *d, void *dl, const algorithm *how, void *workspace, size_t bytes, void *stream)
{
	FAIL_IF_TOLD();
	job j;
	fake_cuda_put_fn *put;
	void *symbol = driver("fake_cuda_put");
	memcpy(&put, &symbol, sizeof put);
	real(h, HANDLE);
	memset(&j, 0, sizeof j);
	int e = problem_of(p, al, bl, cl, dl, &j.x);
	const bool wide = j.x.p.scale == R_64F;
	if (!e && (!how || c != d || (wide ? *(const double *)beta : (double)*(const float *)beta) != 0)) e = NOT_SUPPORTED;
	if (!e && !fits(how, &j.x)) e = INVALID_VALUE;
	if (!e && (!is_aligned(a, how->align[0]) || !is_aligned(b, how->align[1]) || !is_aligned(d, how->align[2]))) e = INVALID_VALUE;
	const void *bias = j.x.p.bias;
	if (!e && j.x.p.epilogue & BIAS && (!bias || !is_aligned(bias, how->align[3]))) e = INVALID_VALUE;
	if (!e && j.x.p.epilogue != DEFAULT && is_told("late")) e = NOT_SUPPORTED;
	if (!e && (bytes < how->workspace || (bytes && !is_aligned(workspace, 256)))) e = INVALID_VALUE;
	fake_cublaslt_refused += e != 0;
	if (e) return e;
	j.a = a;
	j.b = b;
	j.bias = bias;
	j.c = d;
	j.workspace = workspace;
	j.bytes = bytes;
	j.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
	j.splits = how->splits;
	fake_cublaslt_run++;
	tell("cublasLtMatmul", "a fake product\nof two lines");
	fake_cublaslt_compute = j.x.p.compute;
	fake_cublaslt_epilogue = (int)j.x.p.epilogue;
	fake_cublaslt_joined += j.x.p.epilogue != DEFAULT;
	return put(stream, run, &j, sizeof j) ? EXECUTION_FAILED : SUCCESS;
}
