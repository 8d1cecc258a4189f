/* SPDX-License-Identifier: MIT */
/* lapack: calls LAPACK's syevd and gesdd, and chooses between them and jacobi.c. The library is opened by name when something is first
 * computed. It takes matrices column by column: a row-major one is the transpose to it. */
#include "runtime/alloc.h"
#include "runtime/log.h"
#include "runtime/lapack.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Fortran's procedures: all by address, and behind the others the lengths of the texts. */
typedef void syevd_fn(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work, const int *lwork,
                      int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void gesdd_fn(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu, void *vt,
                      const int *ldvt, void *work, const int *lwork, int *iwork, int *info, size_t);

static struct {
	syevd_fn *syevd[2]; /* of f32, of f64 */
	gesdd_fn *gesdd[2];
	int (*get_threads)(void); /* NULL, or both: of OpenBLAS */
	void (*set_threads)(int n);
	const char *missing; /* NULL: LAPACK is there */
	char version[64];
} lapack;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* By memcpy(), because ISO C has no cast from an object pointer to a function pointer. */
static bool find(void *h, const char *name, void *fn)
{
	void *f = dlsym(h, name);
	memcpy(fn, &f, sizeof f);
	return f;
}

static void read_version(void *h)
{
	void (*get)(int *major, int *minor, int *patch);
	const char *(*config)(void); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
	int v[3] = { 0 };
	if (find(h, "ilaver_", &get)) get(&v[0], &v[1], &v[2]);
	const char *more = find(h, "openblas_get_config", &config) ? config() : "";
	const char *end = *more ? strchr(more, ' ') : NULL, *stop = end ? strchr(end + 1, ' ') : NULL;
	const int n = stop && stop - more < 40 ? (int)(stop - more) : 0;
	snprintf(lapack.version, sizeof lapack.version, "%d.%d.%d%s%.*s", v[0], v[1], v[2], n ? ", " : "", n, more);
}

static void open_library(void)
{
	static const char *const names[] = { "liblapack.so.3", "libopenblas.so.0" };
	for (size_t i = 0; i < RT_COUNT(names); i++) {
		void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (!h) continue;
		if (find(h, "ssyevd_", &lapack.syevd[0]) && find(h, "dsyevd_", &lapack.syevd[1]) && find(h, "sgesdd_", &lapack.gesdd[0]) &&
		    find(h, "dgesdd_", &lapack.gesdd[1])) {
			/* dlsym() also finds symbols of the library's dependencies */
			if (!find(h, "openblas_get_num_threads", &lapack.get_threads) || !find(h, "openblas_set_num_threads", &lapack.set_threads))
				lapack.set_threads = NULL;
			read_version(h);
			return;
		}
		dlclose(h);
	}
	lapack.missing = "neither liblapack.so.3 nor libopenblas.so.0 is there (Debian: liblapack3 or libopenblas0): rotations of tjit compute "
	                 "eigenvalues and singular values";
}

const char *rt_lapack_missing(void)
{
	pthread_once(&opened, open_library);
	return lapack.missing;
}

const char *rt_lapack_version(void) { return rt_lapack_missing() ? NULL : lapack.version; }

/* ---- who computes ---- */
enum { UNSET, AUTO, OWN, LAPACK, CHOICES };
static const char *const choices[CHOICES] = { [UNSET] = "auto", [AUTO] = "auto", [OWN] = "own", [LAPACK] = "lapack" };
static _Atomic int choice;

bool rt_linalg_choose(const char *name)
{
	if (!name || !*name) name = atomic_load(&choice) == UNSET ? getenv("TJ_LINALG") : NULL;
	if (!name || !*name) return true;
	for (int i = AUTO; i < CHOICES; i++)
		if (!strcmp(name, choices[i])) return atomic_store(&choice, i), true;
	return false;
}

const char *rt_linalg_choice(void) { return choices[atomic_load(&choice)]; }

/* True: LAPACK computes. */
static bool by_lapack(int which)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	if (which == OWN) return false;
	if (!rt_lapack_missing()) return true;
	if (which != LAPACK && !atomic_flag_test_and_set(&told)) rt_warn(NULL, "%s", lapack.missing);
	return false;
}

/* ---- threads: OpenBLAS uses one while a call of ours runs: the team's other threads have work of their own ---- */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static int inside, before; /* calls that run; what the first of them found */

static void enter(void)
{
	if (!lapack.set_threads) return;
	rt_lock(&threads_lock);
	if (!inside++) {
		before = lapack.get_threads();
		if (before != 1) lapack.set_threads(1);
	}
	rt_unlock(&threads_lock);
}

static void leave(void)
{
	if (!lapack.set_threads) return;
	rt_lock(&threads_lock);
	if (!--inside && before != 1) lapack.set_threads(before);
	rt_unlock(&threads_lock);
}

/* What a query wrote, as f32 or f64: f32 may have rounded it down. At least `least`; 0: more than an int. */
static int room(tj_dtype t, const double *asked, int64_t least)
{
	float f;
	memcpy(&f, asked, sizeof f);
	const double x = t == TJ_F64 ? *asked : ceil((double)f * (1 + 0x1p-20)), most = x > (double)least ? x : (double)least;
	return most <= INT_MAX ? (int)most : 0;
}

static int64_t call_eigh(tj_dtype t, int64_t size, void *a, void *values)
{
	if (size > SHRT_MAX) return RT_SPECTRAL_LARGE;
	syevd_fn *f = lapack.syevd[t == TJ_F64];
	const int n = (int)size, ask = -1;
	double asked = 0;
	int more = 0, info = 0;
	f("V", "U", &n, a, &n, values, &asked, &ask, &more, &ask, &info, 1, 1);
	int lwork = room(t, &asked, 1 + 6 * size + 2 * size * size), liwork = more > 3 + 5 * n ? more : 3 + 5 * n;
	if (info || !lwork) return info ? 1 : RT_SPECTRAL_LARGE;
	void *work = rt_alloc((size_t)lwork * tj_dtype_size(t));
	int *iwork = rt_alloc((size_t)liwork * sizeof *iwork);
	if (work && iwork) f("V", "U", &n, a, &n, values, work, &lwork, iwork, &liwork, &info, 1, 1); /* the lower triangle, transposed */
	const bool had = work && iwork;
	rt_free(work);
	rt_free(iwork);
	return had ? info : RT_SPECTRAL_NOMEM;
}

/* a = u s v', so its transpose, which LAPACK sees, is v s u'. */
static int64_t call_svd(tj_dtype t, int64_t rows, int64_t columns, void *a, void *u, void *v, void *s)
{
	const int64_t least = rows < columns ? rows : columns, most = rows < columns ? columns : rows, need = least * (7 + 4 * least) + most;
	if (most > INT_MAX || need > INT_MAX) return RT_SPECTRAL_LARGE;
	gesdd_fn *f = lapack.gesdd[t == TJ_F64];
	const int m = (int)columns, n = (int)rows, k = (int)least, ask = -1;
	double asked = 0;
	int none = 0, info = 0;
	f("S", &m, &n, a, &m, s, v, &m, u, &k, &asked, &ask, &none, &info, 1);
	const int lwork = room(t, &asked, need);
	if (info || !lwork) return info ? 1 : RT_SPECTRAL_LARGE;
	void *work = rt_alloc((size_t)lwork * tj_dtype_size(t));
	int *iwork = rt_alloc((size_t)k * 8 * sizeof *iwork);
	if (work && iwork) f("S", &m, &n, a, &m, s, v, &m, u, &k, work, &lwork, iwork, &info, 1);
	const bool had = work && iwork;
	rt_free(work);
	rt_free(iwork);
	return had ? info : RT_SPECTRAL_NOMEM;
}

int64_t rt_eigh(tj_dtype t, int64_t n, void *a, void *values)
{
	RT_DEFAULT_MODES;
	const int which = atomic_load(&choice);
	if (!by_lapack(which)) return which == LAPACK ? RT_SPECTRAL_MISSING : rt_own_eigh(t, n, a, values);
	enter();
	const int64_t st = call_eigh(t, n, a, values);
	leave();
	return st;
}

int64_t rt_svd(tj_dtype t, int64_t m, int64_t n, void *a, void *u, void *v, void *s)
{
	RT_DEFAULT_MODES;
	const int which = atomic_load(&choice);
	if (!by_lapack(which)) return which == LAPACK ? RT_SPECTRAL_MISSING : rt_own_svd(t, m, n, a, u, v, s);
	enter();
	const int64_t st = call_svd(t, m, n, a, u, v, s);
	leave();
	return st;
}
