/* SPDX-License-Identifier: MIT */
/* matmul: products by oneDNN, shared out to a team. A part is a product of the batch, or some rows or columns of a large one. The shape and
 * the wanted size of the team alone decide how a product is cut, so the result does not depend on which threads come. */
#include "runtime/log.h"
#include "runtime/matmul.h"

#include <stdatomic.h>

struct rt_matmul {
	rt_matmul_desc d;
	char of[RT_LOG_NAME];
	int64_t offsets[];       /* of the batches: of all a, then all b, then all c */
};

typedef struct job {
	const rt_matmul *m;
	const float *a, *b;
	float *c;
	int64_t parts;           /* of each product */
	bool rows;               /* a part is some rows of C; false: some columns */
	atomic_bool failed;
} job;

enum { ROUND = 16 };         /* the rows or columns of a part are a multiple of this, except in the last part */
#define FLOPS_PER_NS 100.0   /* of one thread, about */

rt_matmul *rt_matmul_new(const rt_matmul_desc *d, rt_err *err)
{
	const int64_t n = d->a_batch ? d->batch : 0;
	rt_matmul *m = rt_alloc(sizeof *m + 3 * (size_t)n * sizeof *m->offsets);
	if (!m) {
		rt_fail(err, TJ_ERR_NOMEM, "matmul", "out of memory");
		return NULL;
	}
	m->d = *d;
	snprintf(m->of, sizeof m->of, "%s", d->of ? d->of : "");
	if (!n) return m;
	const int64_t *from[] = { d->a_batch, d->b_batch, d->c_batch }, **to[] = { &m->d.a_batch, &m->d.b_batch, &m->d.c_batch };
	for (int k = 0; k < 3; k++) {
		memcpy(m->offsets + k * n, from[k], (size_t)n * sizeof *m->offsets);
		*to[k] = m->offsets + k * n;
	}
	return m;
}

void rt_matmul_free(rt_matmul *m) { rt_free(m); }

static int64_t start(const int64_t *offset, int64_t batch) { return offset ? offset[batch] : 0; }

static void compute(job *j, int64_t batch, int64_t part)
{
	rt_matmul_desc d = j->m->d;
	const float *a = j->a + start(d.a_batch, batch), *b = j->b + start(d.b_batch, batch);
	float *c = j->c + start(d.c_batch, batch);
	const int64_t all = j->rows ? d.m : d.n, step = ((all + j->parts - 1) / j->parts + ROUND - 1) / ROUND * ROUND;
	const int64_t from = part * step, n = all - from < step ? all - from : step;
	if (n <= 0) return;
	if (j->rows) a += from * d.a_row, c += from * d.c_row;
	else b += from * d.b_col, c += from;
	*(j->rows ? &d.m : &d.n) = n;
	if (!rt_onednn_run(&d, a, b, c)) atomic_store(&j->failed, true);
}

static void run_parts(void *env, int thread, int64_t begin, int64_t end)
{
	job *j = env;
	(void)thread;
	const int before = rt_onednn_begin();
	for (int64_t i = begin; i < end; i++) compute(j, i / j->parts, i % j->parts);
	rt_onednn_end(before);
}

static void log_call(const job *j, const rt_log_to *log, double ms)
{
	const rt_matmul_desc *d = &j->m->d;
	const char *version = rt_onednn_version();
	rt_log(log, RT_LOG_LIBRARY, "[%s] oneDNN %s: dnnl_sgemm, m %lld, n %lld, k %lld%s%s, batch %lld, %lld parts, %.3f ms", j->m->of,
	       version ? version : "?", (long long)d->m, (long long)d->n, (long long)d->k, d->a_col == 1 ? "" : ", a transposed",
	       d->b_col == 1 ? "" : ", b transposed", (long long)d->batch, (long long)j->parts, ms);
}

/* The library packs the operand that is not cut, once for each part. So the larger one is cut, into one part for each thread. */
tj_status rt_matmul_run(const rt_matmul *m, const float *a, const float *b, float *c, rt_run *r)
{
	const rt_matmul_desc *d = &m->d;
	const int64_t threads = rt_team_size(r->team);
	const double ns = 2 * (double)d->m * (double)d->n * (double)d->k / FLOPS_PER_NS;
	job j = { .m = m, .a = a, .b = b, .c = c, .parts = d->batch >= 2 * threads || ns < RT_SERIAL_NS ? 1 : threads, .rows = d->m >= d->n };
	const bool told = rt_logs(r->log, RT_LOG_LIBRARY);
	const double start = told ? rt_now_ms() : 0;
	rt_team_run(r, d->batch * j.parts, 1, ns * (double)d->batch, run_parts, &j);
	if (told) log_call(&j, r->log, rt_now_ms() - start);
	return atomic_load(&j.failed) ? rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory in oneDNN") : TJ_OK;
}
