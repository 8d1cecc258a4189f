/* SPDX-License-Identifier: MIT */
/* blas: the libraries that compute products beside tjit: oneDNN, OpenBLAS and libxsmm. OpenBLAS is opened when it is installed. libxsmm
 * is linked when its archive was there at build time (Debian has no shared one). */
#include "bench/products.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

static const char *at(const void *from, int64_t i, int64_t elements, size_t size)
{
	return (const char *)from + (size_t)(i * elements) * size;
}

/* ---- oneDNN: its BLAS-like calls, and its matmul primitive ---- */
static void dnnl_one(void *env, int64_t i)
{
	const product_call *u = env;
	const product *p = &u->p;
	const size_t size = tj_dtype_size(p->dtype);
	const void *a = at(u->a, i, p->m * p->k, size), *b = at(u->b, i, p->k * p->n, size);
	const char tb = p->transposed ? 'T' : 'N';
	const int64_t ldb = p->transposed ? p->k : p->n;
	const int32_t zero = 0;
	if (p->dtype == TJ_F32) hand_sgemm('N', tb, p->m, p->n, p->k, a, p->k, b, ldb, (float *)u->c + i * p->m * p->n, p->n);
	else dnnl_gemm_s8s8s32('N', tb, 'F', p->m, p->n, p->k, 1, a, p->k, 0, b, ldb, 0, 0, (int32_t *)u->c + i * p->m * p->n, p->n, &zero);
}

static bool open_dnnl(product_call *u)
{
	if (u->p.dtype == TJ_F32 || u->p.dtype == TJ_I8) return true;
	u->own = bench_pack(&(bench_pack_opts){ u->p.dtype, u->p.batch, u->p.m, u->p.n, u->p.k, u->p.transposed, .plain = true, .w = u->b });
	return u->own != NULL;
}

static void run_dnnl(void *call)
{
	const product_call *u = call;
	if (u->own) bench_packed_run(u->own, u->a, u->c);
	else hand_batch(product_pairs(&u->p), dnnl_one, call);
}

static bool open_packed(product_call *u)
{
	u->own = bench_pack(&(bench_pack_opts){ u->p.dtype, u->p.batch, u->p.m, u->p.n, u->p.k, u->p.transposed, .w = u->b });
	return u->own != NULL;
}

static void run_packed(void *call)
{
	const product_call *u = call;
	bench_packed_run(u->own, u->a, u->c);
}

static void close_packed(product_call *u) { bench_packed_free(u->own); }

/* ---- OpenBLAS ---- */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* of cblas.h */
typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                      float beta, float *c, int ldc);
typedef void dgemm_fn(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                      double beta, double *c, int ldc);
typedef void sgemv_fn(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx, float beta, float *y,
                      int incy);
typedef void dgemv_fn(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int incx, double beta,
                      double *y, int incy);
static struct {
	sgemm_fn *sgemm;      /* NULL: no OpenBLAS */
	dgemm_fn *dgemm;
	sgemv_fn *sgemv;      /* these two for m == 1, where they are faster */
	dgemv_fn *dgemv;
	bool openmp;          /* its threads are those of OpenMP */
	char core[64];        /* the CPU that its kernels are for */
} blas;

/* By memcpy(), because ISO C has no cast from an object pointer to a function pointer. */
static bool find(void *h, const char *name, void *fn)
{
	void *f = dlsym(h, name);
	memcpy(fn, &f, sizeof f);
	return f != NULL;
}

static void open_openblas(int threads)
{
	void *h = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	const char *(*core)(void);
	int (*parallel)(void);
	void (*limit)(int);
	if (!h || !find(h, "cblas_sgemm", &blas.sgemm) || !find(h, "cblas_dgemm", &blas.dgemm) ||
	    !find(h, "cblas_sgemv", &blas.sgemv) || !find(h, "cblas_dgemv", &blas.dgemv)) {
		blas.sgemm = NULL;
		return;
	}
	if (find(h, "openblas_get_parallel", &parallel)) blas.openmp = parallel() == 2;
	if (find(h, "openblas_get_corename", &core)) snprintf(blas.core, sizeof blas.core, "%s", core());
	if (find(h, "openblas_set_num_threads", &limit)) limit(threads);
}

static void blas_one(void *env, int64_t i)
{
	const product_call *u = env;
	const product *p = &u->p;
	const int m = (int)p->m, n = (int)p->n, k = (int)p->k, t = p->transposed, tb = t ? TRANS : NO_TRANS, ldb = t ? k : n;
	const size_t size = tj_dtype_size(p->dtype);
	const void *a = at(u->a, i, p->m * p->k, size), *b = at(u->b, i, p->k * p->n, size);
	void *c = (char *)u->c + (size_t)(i * p->m * p->n) * size;
	if (p->dtype == TJ_F32 && m == 1) blas.sgemv(ROW_MAJOR, t ? NO_TRANS : TRANS, t ? n : k, ldb, 1, b, ldb, a, 1, 0, c, 1);
	else if (p->dtype == TJ_F32) blas.sgemm(ROW_MAJOR, NO_TRANS, tb, m, n, k, 1, a, k, b, ldb, 0, c, n);
	else if (m == 1) blas.dgemv(ROW_MAJOR, t ? NO_TRANS : TRANS, t ? n : k, ldb, 1, b, ldb, a, 1, 0, c, 1);
	else blas.dgemm(ROW_MAJOR, NO_TRANS, tb, m, n, k, 1, a, k, b, ldb, 0, c, n);
}

static bool open_blas(product_call *u) { return blas.sgemm && (u->p.dtype == TJ_F32 || u->p.dtype == TJ_F64); }

static void run_blas(void *call)
{
	const int64_t n = product_pairs(&((const product_call *)call)->p);
	if (blas.openmp) hand_batch(n, blas_one, call);
	else for (int64_t i = 0; i < n; i++) blas_one(call, i);
}

/* ---- libxsmm: kernels for small sizes, which know them; column-major ---- */
enum { XSMM_LARGEST = 64 * 64 * 64 };
typedef void xsmm_kernel(const void *a, const void *b, void *c);
xsmm_kernel *libxsmm_smmdispatch(int m, int n, int k, const int *lda, const int *ldb, const int *ldc, const float *alpha, const float *beta,
                                 const int *flags, const int *prefetch) __attribute__((weak));
xsmm_kernel *libxsmm_dmmdispatch(int m, int n, int k, const int *lda, const int *ldb, const int *ldc, const double *alpha,
                                 const double *beta, const int *flags, const int *prefetch) __attribute__((weak));
void libxsmm_init(void) __attribute__((weak));
void libxsmm_set_target_arch(const char *arch) __attribute__((weak));
const char *libxsmm_get_target_arch(void) __attribute__((weak));

static bool open_xsmm(product_call *u)
{
	const product *p = &u->p;
	const int m = (int)p->m, n = (int)p->n, k = (int)p->k;
	if (!libxsmm_smmdispatch || p->transposed || p->m * p->n * p->k > XSMM_LARGEST) return false;
	xsmm_kernel *f = NULL;
	if (p->dtype == TJ_F32) f = libxsmm_smmdispatch(n, m, k, &n, &k, &n, &(float){ 1 }, &(float){ 0 }, NULL, NULL);
	else if (p->dtype == TJ_F64) f = libxsmm_dmmdispatch(n, m, k, &n, &k, &n, &(double){ 1 }, &(double){ 0 }, NULL, NULL);
	memcpy(&u->own, &f, sizeof f);
	return f != NULL;
}

static void xsmm_one(void *env, int64_t i)
{
	const product_call *u = env;
	const product *p = &u->p;
	const size_t size = tj_dtype_size(p->dtype);
	xsmm_kernel *f;
	memcpy(&f, &u->own, sizeof f);
	f(at(u->b, i, p->k * p->n, size), at(u->a, i, p->m * p->k, size), (char *)u->c + (size_t)(i * p->m * p->n) * size);
}

static void run_xsmm(void *call) { hand_batch(product_pairs(&((const product_call *)call)->p), xsmm_one, call); }

/* ---- all ---- */
const product_peer product_peers[PRODUCT_PEERS] = {
	{ "sgemm", false, open_dnnl, run_dnnl, close_packed },
	{ "packed", true, open_packed, run_packed, close_packed },
	{ "openblas", false, open_blas, run_blas, NULL },
	{ "xsmm", false, open_xsmm, run_xsmm, NULL },
};

void product_limit_peers(int bits)
{
	if (bits != 256) return;
	setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
	setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}

void product_open_peers(int bits, int threads)
{
	open_openblas(threads);
	if (!libxsmm_smmdispatch || bits != 256) return;
	libxsmm_init(); /* else the first call would undo the next line */
	libxsmm_set_target_arch("hsw");
}

void product_about_peers(char *text, size_t room)
{
	const dnnl_version_t *v = dnnl_version();
	const bool avx2 = dnnl_get_effective_cpu_isa() == dnnl_cpu_isa_avx2;
	int n = snprintf(text, room, "oneDNN %d.%d.%d%s, ", v->major, v->minor, v->patch, avx2 ? " (AVX2)" : "");
	if (!blas.sgemm) n += snprintf(text + n, room - (size_t)n, "no OpenBLAS (libopenblas.so.0), ");
	else n += snprintf(text + n, room - (size_t)n, "OpenBLAS (kernels for %s), ", blas.core);
	if (!libxsmm_smmdispatch) snprintf(text + n, room - (size_t)n, "no libxsmm (install libxsmm-dev, build again)");
	else snprintf(text + n, room - (size_t)n, "libxsmm (%s)", libxsmm_get_target_arch());
}
