/* parts: products by tiles or by the library. A part is a product of the batch, or some rows or columns of a large product; one
 * thread computes a part. */
#include "runtime/matmul.h"

#include <stdatomic.h>

typedef struct job {
	const rt_matmul *m;
	rt_operands x;
	int64_t parts;  /* number of parts of each product */
	bool rows;      /* a part is some rows of C; false: some columns */
	int64_t round;  /* the rows or columns of a part are a multiple of this, except in the last part */
	atomic_bool failed; /* oneDNN failed on a part */
} job;

static void compute(job *j, int64_t batch, int64_t part)
{
	const rt_matmul_desc *d = &j->m->d;
	rt_gemm g = j->m->gemm;
	int64_t size = (int64_t)tj_dtype_size(d->dtype), all = j->rows ? d->m : d->n, step = (all + j->parts - 1) / j->parts;
	const char *a = (const char *)j->x.a + rt_batch_at(d->a_batch, batch) * size, *b = (const char *)j->x.b + rt_batch_at(d->b_batch, batch) * size;
	char *c = (char *)j->x.c + rt_batch_at(d->c_batch, batch) * size;
	step = (step + j->round - 1) / j->round * j->round;
	int64_t from = part * step, n = all - from < step ? all - from : step;
	if (n <= 0) return;
	if (j->rows) a += from * d->a_row * size, c += from * d->c_row * size;
	else b += from * d->b_col * size, c += from * size;
	*(j->rows ? &g.m : &g.n) = n;
	const float *fa = (const float *)(const void *)a, *fb = (const float *)(const void *)b;
	if (d->dtype == TJ_F64) rt_gemm64_run(&g, (const double *)(const void *)a, (const double *)(const void *)b, (double *)(void *)c);
	else if (j->m->way == RT_TILES) rt_gemm_run(&g, fa, fb, (float *)(void *)c);
	else if (!rt_onednn_run(&g, fa, fb, (float *)(void *)c)) atomic_store(&j->failed, true);
}

static void run_parts(void *env, int thread, int64_t begin, int64_t end)
{
	job *j = env;
	(void)thread;
	int before = j->m->way == RT_LIBRARY ? rt_onednn_begin() : 1;
	for (int64_t i = begin; i < end; i++) compute(j, i / j->parts, i % j->parts);
	rt_onednn_end(before);
}

/* Decides how products are cut into parts for a team of `size` threads. Measured on Zen 4 with 512 bits, two threads, oneDNN 2.6:
 *
 * The library packs the operand that is not cut, once for each part. So the larger operand is cut, into one part for each thread.
 * With 512 bits the library seems not to pack for up to 64 rows, so a product of up to library_most rows per thread is cut into
 * parts of 64 rows: [128,768] x [768,3072] with gelu takes 2.77 ms that way, 2.95 ms in halves by columns; [1024,768] takes 22.9
 * and 22.5 ms. With 256 bits the library packs (policy.c).
 * Tiles do not pack. Rows are cut into more parts than threads, so that other threads take over when one loses its core. Columns
 * are cut into one part for each thread, which then finds its part of B in its cache the next time: 63 us instead of 69 at m = 1. */
static void cut(const rt_matmul *m, int64_t size, job *j)
{
	const rt_policy *p = m->d.policy;
	const bool tiles = m->way == RT_TILES;
	int64_t rows = m->d.m, panel = tiles ? p->tile_rows : p->library_rows;
	bool panels = panel && rows >= 32 * size && (tiles || rows <= p->library_most * size);
	j->rows = panels || rows >= m->d.n;
	j->round = !tiles ? 16 : !j->rows ? 64 : m->d.dtype == TJ_F64 ? 24 : 6; /* F64: whole tiles of either width */
	j->parts = size;
	if (panels && rows > panel * size) j->parts = (rows + panel * size - 1) / (panel * size) * size;
	if (tiles && j->parts > 4 * size) j->parts = 4 * size;
	if (m->d.batch >= 2 * size || m->ns < p->parallel_ns) j->parts = 1;
}

tj_status rt_parts_run(const rt_matmul *m, rt_operands x, const rt_run *r)
{
	job j = { .m = m, .x = x };
	cut(m, rt_team_size(r->team), &j);
	rt_team_run(r, m->d.batch * j.parts, 1, m->ns * (double)m->d.batch, run_parts, &j);
	return atomic_load(&j.failed) ? rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory in oneDNN") : TJ_OK;
}
