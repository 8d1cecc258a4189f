/* SPDX-License-Identifier: MIT */
/* onednn: calls oneDNN's dnnl_sgemm. The library is opened by name at the first product that it computes. 2.x and 3.x have the same
 * function: row-major, without a primitive and without a scratchpad. */
#include "runtime/layout.h"
#include "runtime/matmul.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef int sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static sgemm_fn *sgemm; /* NULL: no library */
static char version[32]; /* "": it does not say */
/* get and set the number of threads of oneDNN's OpenMP; NULL: it has no OpenMP */
static struct { int (*get)(void); void (*set)(int n); } omp;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* By memcpy(), because ISO C has no cast from an object pointer to a function pointer. */
static bool find(void *h, const char *name, void *fn)
{
	void *f = h ? dlsym(h, name) : NULL;
	memcpy(fn, &f, sizeof f);
	return f;
}

static void read_version(void *h)
{
	const int *(*get)(void); /* three ints, and more */
	if (!find(h, "dnnl_version", &get)) return;
	const int *v = get();
	snprintf(version, sizeof version, "%d.%d.%d", v[0], v[1], v[2]);
}

static void open_library(void)
{
	static const char *const names[] = { "libdnnl.so.2", "libdnnl.so.3", "libdnnl.so" };
	const char *off = getenv("TJ_ONEDNN");
	if (off && !strcmp(off, "off")) return;
	for (size_t i = 0; i < RT_COUNT(names) && !sgemm; i++) {
		void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (find(h, "dnnl_sgemm", &sgemm)) {
			read_version(h);
			find(h, "omp_get_max_threads", &omp.get); /* dlsym() also finds symbols of the library's dependencies */
			find(h, "omp_set_num_threads", &omp.set);
		} else if (h) dlclose(h);
	}
}

bool rt_onednn(void)
{
	pthread_once(&opened, open_library);
	return sgemm != NULL;
}

const char *rt_onednn_version(void) { return rt_onednn() && *version ? version : NULL; }

bool rt_onednn_run(const rt_matmul_desc *d, const float *a, const float *b, float *c)
{
	bool ta, tb;
	int64_t lda, ldb;
	rt_leading(d->m, d->k, d->a_row, d->a_col, &ta, &lda);
	rt_leading(d->k, d->n, d->b_row, d->b_col, &tb, &ldb);
	return !sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', d->m, d->n, d->k, 1.0f, a, lda, b, ldb, 0.0f, c, d->m == 1 ? d->n : d->c_row);
}

/* oneDNN must use one thread: the other threads of the team compute other parts. */
int rt_onednn_begin(void)
{
	int before = sgemm && omp.get && omp.set ? omp.get() : 1;
	if (before != 1) omp.set(1);
	return before;
}

/* Restores the caller's number of OpenMP threads. */
void rt_onednn_end(int before)
{
	if (before != 1) omp.set(before);
}
