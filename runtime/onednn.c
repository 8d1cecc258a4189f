/* onednn: matmul. f32 of few rows or with a small B runs tiles of ours (gemm.c); other f32 goes to oneDNN's dnnl_sgemm, opened
 * by name when the first such product is planned (2.x and 3.x have the same symbol, row-major, which needs no primitive and
 * no scratchpad); without it the tiles take all they can. f16 and bf16 are computed by panels of f32 (panels.c).
 * f64 runs tiles and integers run loops that add in the order of k, as the evaluator does.
 *
 * Deterministic for one shape and team size: how a product is cut into parts follows from these alone; who computes a
 * part does not matter. */
#include "runtime/gemm.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <pthread.h>
#include <stdlib.h>

#define PARALLEL_NS 15e3     /* below it one part */
#define GEMM_GFLOPS 100.0    /* of a thread in the library and in gemm.c, for estimates */
#define GEMM_GBYTES 50.0     /* of a thread that reads B, from a cache */
#define FAR_GBYTES 15.0      /* from slow memory; for the estimate only */
#define F64_GFLOPS 35.0      /* of a thread in the tiles of f64 */
#define OWN_GFLOPS 4.0       /* of the loops here, for estimates */

typedef int sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static sgemm_fn *sgemm; /* NULL: no library */
static struct { int (*get)(void); void (*set)(int n); } omp; /* how many threads the OpenMP under the library takes; NULL: it has none */
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* ISO C has no cast from object to function pointer. */
static bool find(void *h, const char *name, void *fn)
{
	void *f = h ? dlsym(h, name) : NULL;
	memcpy(fn, &f, sizeof f);
	return f;
}

static void open_library(void)
{
	static const char *const names[] = { "libdnnl.so.2", "libdnnl.so.3", "libdnnl.so" };
	const char *off = getenv("TJ_ONEDNN");
	if (off && !strcmp(off, "off")) return;
	for (size_t i = 0; i < RT_COUNT(names) && !sgemm; i++) {
		void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (find(h, "dnnl_sgemm", &sgemm)) {
			find(h, "omp_get_max_threads", &omp.get); /* a handle finds what its dependencies have, too */
			find(h, "omp_set_num_threads", &omp.set);
		} else if (h) dlclose(h);
	}
}

typedef enum way { LOOPS, TILES, LIBRARY, PANELS } way;

struct rt_matmul {
	rt_matmul_desc d;
	rt_gemm gemm;    /* d again, for the tiles */
	rt_panels panels;
	way way;
	double ns;       /* estimate of a product, on one thread */
	int64_t offsets[]; /* a, b, c of each batch */
};

static int64_t at(const int64_t *offset, int64_t i)
{
	return offset ? offset[i] : 0;
}

/* dnnl_sgemm wants one unit stride and a leading dimension no smaller than a row; dimensions of extent 1 are
 * free. */
static bool gemm_side(int64_t rows, int64_t cols, int64_t row, int64_t col, char *trans, int64_t *ld)
{
	if (col == 1 || cols == 1) {
		*trans = 'N';
		*ld = rows == 1 ? cols : row;
		if (*ld >= cols && (cols > 1 || *ld >= 1)) return true;
	}
	if (row == 1 || rows == 1) {
		*trans = 'T';
		*ld = cols == 1 ? rows : col;
		return *ld >= rows && *ld >= 1;
	}
	return false;
}

static bool fits_library(const rt_matmul_desc *d)
{
	char t;
	int64_t ld;
	return d->m && d->n && d->k && gemm_side(d->m, d->k, d->a_row, d->a_col, &t, &ld) &&
	       gemm_side(d->k, d->n, d->b_row, d->b_col, &t, &ld) && (d->c_row >= d->n || d->m == 1);
}

static way choose(const rt_matmul_desc *d, const rt_gemm *g)
{
	if (rt_dtype_class(d->dtype) == RT_D && rt_gemm64_takes(g)) return TILES;
	if (rt_dtype_class(d->dtype) != RT_F) return LOOPS;
	if (rt_is_narrow(d->dtype)) {
		pthread_once(&opened, open_library);
		return PANELS;
	}
	if (rt_gemm_wants(g, d->b_col)) return TILES;
	pthread_once(&opened, open_library);
	if (sgemm && fits_library(d)) return LIBRARY;
	return rt_gemm_takes(g, d->b_col) ? TILES : LOOPS;
}

/* How many operands a batch has of those with these offsets. */
static int64_t distinct(const int64_t *offset, int64_t batch)
{
	int64_t n = 1;
	for (int64_t i = 1; offset && i < batch; i++) n += offset[i] != offset[i - 1];
	return n;
}

/* Of a product, on one thread. */
static double estimate(const rt_matmul_desc *d, bool loops)
{
	double size = (double)d->n * (double)d->k, flops = 2 * (double)d->m * size, bytes = (double)tj_dtype_size(d->dtype) * size;
	bool in_memory = bytes * (double)distinct(d->b_batch, d->batch) > RT_THIRD_CACHE;
	return fmax(flops / (loops ? OWN_GFLOPS : d->dtype == TJ_F64 ? F64_GFLOPS : GEMM_GFLOPS), bytes / (in_memory ? FAR_GBYTES : GEMM_GBYTES));
}

rt_matmul *rt_matmul_new(const rt_matmul_desc *d, rt_err *err)
{
	int64_t nb = d->batch > 1 || d->a_batch ? d->batch : 0;
	rt_matmul *m = rt_alloc(sizeof *m + 3 * (size_t)nb * sizeof(int64_t));
	if (!m) {
		rt_fail(err, TJ_ERR_NOMEM, "matmul", "out of memory");
		return NULL;
	}
	m->d = *d;
	m->gemm = (rt_gemm){ d->m, d->n, d->k, d->a_row, d->a_col, d->b_row, d->c_row, 0, 0, d->b_col, false };
	m->way = choose(d, &m->gemm);
	if (m->way == PANELS) m->panels = rt_panels_of(d);
	m->ns = estimate(d, m->way == LOOPS);
	const int64_t *from[3] = { d->a_batch, d->b_batch, d->c_batch };
	const int64_t **to[3] = { &m->d.a_batch, &m->d.b_batch, &m->d.c_batch };
	for (int k = 0; k < 3; k++) {
		if (!nb) { *to[k] = NULL; continue; }
		for (int64_t i = 0; i < nb; i++) m->offsets[k * nb + i] = at(from[k], i);
		*to[k] = m->offsets + k * nb;
	}
	return m;
}

void rt_matmul_free(rt_matmul *m)
{
	rt_free(m);
}

const char *rt_matmul_name(const rt_matmul *m)
{
	if (m->way == LIBRARY) return "dnnl_sgemm";
	if (m->way == TILES) return "own tiles";
	if (m->way == PANELS) return "panels of f32";
	return m->d.dtype == TJ_F32 && !sgemm ? "own loops (oneDNN is missing)" : "own loops";
}

const char *rt_matmul_why(const rt_matmul *m, const char **hint)
{
	*hint = "";
	if (m->d.dtype == TJ_F64 && m->way == TILES) return "tiles of f64 add in the order of k, as the evaluator does";
	if (rt_dtype_class(m->d.dtype) != RT_F) {
		*hint = "cast the operands to f32 where that is exact enough";
		return "oneDNN takes f32, the own tiles f32 and f64 with AVX2; the loops add in the order of k, as the evaluator does";
	}
	if (m->way == PANELS) {
		*hint = "where the operands are used often, a copy of them in f32 saves the conversion";
		return "operands of f16 and bf16 become f32 panel by panel, oneDNN or own tiles compute the product, and each element is rounded once";
	}
	if (m->way == LIBRARY) return "the right operand is large and has many rows against it, so that the packing of oneDNN pays; own tiles take few rows or a small right operand";
	if (m->way == TILES && rt_gemm_wants(&m->gemm, m->d.b_col)) return "few rows, or a right operand of up to 1 MiB: the packing of oneDNN would not pay";
	*hint = sgemm ? "pass row-major operands, or transposes of such" : "install oneDNN (libdnnl), and leave TJ_ONEDNN unset";
	if (m->way == TILES) return sgemm ? "oneDNN does not take these strides" : "oneDNN is missing or switched off";
	return sgemm ? "neither oneDNN nor the own tiles take these strides" : "oneDNN is missing or switched off, and the own tiles do not take these strides on this CPU";
}

/* ---- tiles and the library: each call on one thread; the team shares out whole products, or parts of large ones ---- */
typedef struct job {
	const rt_matmul *m;
	const void *a, *b;
	void *c;
	int64_t parts;  /* of a product: rows of C when there are enough, else columns */
	bool rows;
	int64_t round;  /* a part's rows or columns are a multiple of it */
	atomic_bool failed; /* the library did not compute a part */
} job;

static void gemm_part(job *j, int64_t batch, int64_t part)
{
	const rt_matmul_desc *d = &j->m->d;
	int64_t size = (int64_t)tj_dtype_size(d->dtype);
	const char *a = (const char *)j->a + at(d->a_batch, batch) * size, *b = (const char *)j->b + at(d->b_batch, batch) * size;
	char *c = (char *)j->c + at(d->c_batch, batch) * size;
	char ta = 'N', tb = 'N';
	int64_t lda = 1, ldb = 1, all = j->rows ? d->m : d->n, step = (all + j->parts - 1) / j->parts;
	step = (step + j->round - 1) / j->round * j->round;
	int64_t from = part * step, n = all - from < step ? all - from : step;
	if (n <= 0) return;
	if (j->rows) a += from * d->a_row * size, c += from * d->c_row * size;
	else b += from * d->b_col * size, c += from * size;
	if (j->m->way == TILES) {
		rt_gemm g = j->m->gemm;
		*(j->rows ? &g.m : &g.n) = n;
		if (d->dtype == TJ_F64) rt_gemm64_run(&g, (const double *)(const void *)a, (const double *)(const void *)b, (double *)(void *)c);
		else rt_gemm_run(&g, (const float *)(const void *)a, (const float *)(const void *)b, (float *)(void *)c);
		return;
	}
	gemm_side(d->m, d->k, d->a_row, d->a_col, &ta, &lda);
	gemm_side(d->k, d->n, d->b_row, d->b_col, &tb, &ldb);
	if (sgemm(ta, tb, j->rows ? n : d->m, j->rows ? d->n : n, d->k, 1.0f, (const float *)(const void *)a, lda, (const float *)(const void *)b, ldb, 0.0f,
	          (float *)(void *)c, d->m == 1 ? d->n : d->c_row))
		atomic_store(&j->failed, true);
}

/* The library is to compute a part on this thread alone, as the team has others; what the thread has set is put back. */
static void gemm_parts(void *env, int thread, int64_t begin, int64_t end)
{
	job *j = env;
	(void)thread;
	int before = j->m->way == LIBRARY && omp.get && omp.set ? omp.get() : 1;
	if (before != 1) omp.set(1);
	for (int64_t i = begin; i < end; i++) gemm_part(j, i / j->parts, i % j->parts);
	if (before != 1) omp.set(before);
}

/* How a product is cut, by what was measured (Zen 4, two threads, oneDNN 2.6):
 *
 * The library packs the operand that is not cut anew for every part, so the larger is cut, into a part for each thread; but
 * up to 64 rows it seems not to pack, so of not too many rows each part has as many: [128,768] x [768,3072] with gelu takes 2.77 ms
 * in parts of 64 rows, 2.95 in halves by columns; [1024,768] 22.9 and 22.5.
 * The tiles do not pack. By rows more parts than threads, so that a thread that lost its core does not hold up the rest;
 * by columns one each, so that a thread finds in its cache what it read of B the last time: 63 us instead of 69 at m = 1. */
static void cut(const rt_matmul *m, int64_t size, job *j)
{
	int64_t rows = m->d.m, panel = m->way == TILES ? 24 : 64;
	bool panels = rows >= 32 * size && (m->way == TILES || rows <= 256 * size);
	j->rows = panels || rows >= m->d.n;
	j->round = m->way == LIBRARY ? 16 : !j->rows ? 64 : m->d.dtype == TJ_F64 ? 24 : 6; /* F64: whole tiles of either width */
	j->parts = size;
	if (panels && rows > panel * size) j->parts = (rows + panel * size - 1) / (panel * size) * size;
	if (m->way == TILES && j->parts > 4 * size) j->parts = 4 * size;
	if (m->d.batch >= 2 * size || m->ns < PARALLEL_NS) j->parts = 1;
}

static tj_status gemm(const rt_matmul *m, job *j, const rt_run *r)
{
	cut(m, rt_team_size(r->team), j);
	rt_team_run(r, m->d.batch * j->parts, 1, m->ns * (double)m->d.batch, gemm_parts, j);
	return atomic_load(&j->failed) ? rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory in oneDNN") : TJ_OK;
}

/* ---- panels ---- */
typedef struct panel_job {
	const rt_matmul *m;
	const void *a, *b;
	void *c;
	char *scratch;
	size_t step; /* bytes of a thread */
	atomic_bool failed;
} panel_job;

/* One f32 product, on this thread. */
static bool product_f32(const rt_gemm *g, const float *a, const float *b, float *c)
{
	if (rt_gemm_takes(g, g->b_col) && (rt_gemm_wants(g, g->b_col) || !sgemm)) {
		rt_gemm_run(g, a, b, c);
		return true;
	}
	char ta = 'N', tb = 'N';
	int64_t lda = 1, ldb = 1;
	if (sgemm && g->m && g->n && g->k && gemm_side(g->m, g->k, g->a_row, g->a_col, &ta, &lda) && gemm_side(g->k, g->n, g->b_row, g->b_col, &tb, &ldb))
		return !sgemm(ta, tb, g->m, g->n, g->k, 1.0f, a, lda, b, ldb, 0.0f, c, g->c_row);
	for (int64_t r = 0; r < g->m; r++) {
		for (int64_t n = 0; n < g->n; n++) c[r * g->c_row + n] = 0;
		for (int64_t k = 0; k < g->k; k++)
			for (int64_t n = 0; n < g->n; n++) c[r * g->c_row + n] += a[r * g->a_row + k * g->a_col] * b[k * g->b_row + n * g->b_col];
	}
	return true;
}

static void panel_parts(void *env, int thread, int64_t begin, int64_t end)
{
	panel_job *j = env;
	float *scratch = (float *)(void *)(j->scratch + (size_t)thread * j->step);
	int before = omp.get && omp.set ? omp.get() : 1;
	if (before != 1) omp.set(1);
	if (!rt_panels_run(&j->m->d, &j->m->panels, j->a, j->b, j->c, scratch, sgemm != NULL, product_f32, begin, end)) atomic_store(&j->failed, true);
	if (before != 1) omp.set(before);
}

static tj_status panels(const rt_matmul *m, const void *a, const void *b, void *c, const rt_run *r)
{
	const rt_panels *p = &m->panels;
	panel_job j = { .m = m, .a = a, .b = b, .c = c, .step = (p->bytes + 63) / 64 * 64 };
	const int64_t n = m->d.batch * p->down * p->across;
	if (!(j.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), j.step))) return rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory for panels");
	rt_team_run(r, n, 1, m->ns * (double)m->d.batch, panel_parts, &j);
	return atomic_load(&j.failed) ? rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory in oneDNN") : TJ_OK;
}

/* ---- our own ---- */
/* Rows [begin, end) of all products, batch after batch. Each element adds in the order of k, so any split
 * agrees. */
#define OWN(name, T, ACC)                                                                                         \
	static void name(void *env, int thread, int64_t begin, int64_t end)                                           \
	{                                                                                                             \
		const job *j = env;                                                                                       \
		const rt_matmul_desc *d = &j->m->d;                                                                       \
		(void)thread;                                                                                             \
		for (int64_t row = begin; row < end; row++) {                                                             \
			int64_t i = row / d->m, r = row % d->m;                                                               \
			const T *a = (const T *)j->a + at(d->a_batch, i) + r * d->a_row, *b = (const T *)j->b + at(d->b_batch, i); \
			T *c = (T *)j->c + at(d->c_batch, i) + r * d->c_row;                                                  \
			for (int64_t n = 0; n < d->n; n++) c[n] = 0;                                                          \
			for (int64_t k = 0; k < d->k; k++) {                                                                  \
				ACC x = (ACC)a[k * d->a_col];                                                                     \
				const T *y = b + k * d->b_row;                                                                    \
				for (int64_t n = 0; n < d->n; n++) c[n] = (T)((ACC)c[n] + x * (ACC)y[n * d->b_col]);              \
			}                                                                                                     \
		}                                                                                                         \
	}
OWN(own_f32, float, float)
OWN(own_f64, double, double)
OWN(own_i64, uint64_t, uint64_t)
OWN(own_i32, uint32_t, uint32_t)
OWN(own_i16, uint16_t, uint32_t)
OWN(own_i8, uint8_t, uint32_t)

typedef void loops(void *env, int thread, int64_t begin, int64_t end);
static loops *loops_of(tj_dtype t)
{
	static loops *const by_size[] = { [1] = own_i8, [2] = own_i16, [4] = own_i32, [8] = own_i64 };
	if (rt_dtype_class(t) == RT_F) return own_f32;
	return rt_dtype_class(t) == RT_D ? own_f64 : by_size[tj_dtype_size(t)];
}

static void own(const rt_matmul *m, job *j, const rt_run *r)
{
	rt_team_run(r, m->d.batch * m->d.m, 1, m->ns * (double)m->d.batch, loops_of(m->d.dtype), j);
}

tj_status rt_matmul_run(const rt_matmul *m, const void *a, const void *b, void *c, rt_run *r)
{
	if (m->way == PANELS) return panels(m, a, b, c, r);
	job j = { .m = m, .a = a, .b = b, .c = c };
	if (m->way != LOOPS) return gemm(m, &j, r);
	own(m, &j, r);
	return TJ_OK;
}
