/* SPDX-License-Identifier: MIT */
/* train: times the training steps of models.c, and what they keep in memory. AdamW alone is also compared with a copy of as many bytes. */
#include "bench/bench.h"
#include "bench/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROUNDS = 11, QUICK_STEPS = 4 };

typedef struct job {
	const model_kind *kind;
	tj_ctx *ctx;
	tj_scope *scope;
	model *m;
	tj_fn *f;
	double first_ms;
	char *from, *to;          /* of the copy; NULL: none */
	size_t bytes;             /* that a step of AdamW reads and writes, half of them to be copied */
} job;

typedef struct report {
	const char *name;
	double us, median_us, first_ms, copy_us;
	tj_stats stats;
} report;

static double loss_of(job *j)
{
	tj_scope *s = tj_push(j->ctx);
	const double loss = tj_item(tj_call1(j->f, j->m->list));
	tj_pop(s);
	return loss;
}

static void call_step(void *env) { (void)loss_of(env); }

static void call_copy(void *env)
{
	job *j = env;
	hand_copy((const float *)j->from, (float *)j->to, (int64_t)(j->bytes / 8));
}

/* AdamW reads four tensors for each parameter and writes three. */
static void open_copy(job *j)
{
	j->bytes = 7 * sizeof(float) * (size_t)(j->m->size.width * j->m->size.depth);
	j->from = bench_room((int64_t)j->bytes / 2), j->to = bench_room((int64_t)j->bytes / 2);
}

static job *open_job(tj_ctx *c, const model_kind *kind, bool small)
{
	job *j = calloc(1, sizeof *j);
	if (!j) exit(2);
	*j = (job){ .kind = kind, .ctx = c, .scope = tj_push(c), .m = model_open(c, kind, small, TJ_F32) };
	j->f = tj_compile(c, model_step, j->m, TJ_OPTS(tj_compile_opts, .name = kind->name, .nin = 2, .nout = 1, .mode = TJ_DIRECT));
	const double begin = bench_now();
	call_step(j);
	j->first_ms = (bench_now() - begin) * 1e3;
	if (!kind->loss && !small) open_copy(j);
	return j;
}

static void close_job(job *j)
{
	tj_fn_free(j->f);
	model_close(j->m);
	tj_pop(j->scope);
	free(j->from), free(j->to);
	free(j);
}

static report time_job(job *j, double seconds)
{
	bench_variant v[2] = { { .run = call_step, .env = j }, { .run = call_copy, .env = j } };
	bench_turns(v, j->from ? 2 : 1, seconds, LEAST_ROUNDS);
	report r = { .name = j->kind->name,
		     .us = v[0].quick,
		     .median_us = v[0].median,
		     .first_ms = j->first_ms,
		     .copy_us = j->from ? v[1].quick : 0,
		     .stats = { .size = sizeof r.stats } };
	tj_fn_stats(j->f, &r.stats);
	return r;
}

static void put(const report *r, bool json)
{
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.1f, \"median_us\": %.1f, \"first_ms\": %.1f, \"peak_bytes\": %llu, "
	              "\"kept_bytes\": %llu, \"kernels\": %llu"
	            : "%-16s %10.1f us (median %.1f), first call %.0f ms; temporaries %llu bytes at most, %llu of them kept for later; %llu "
	              "kernels",
	       r->name, r->us, r->median_us, r->first_ms, (unsigned long long)r->stats.peak_bytes, (unsigned long long)r->stats.kept_bytes,
	       (unsigned long long)r->stats.kernels);
	if (r->copy_us > 0)
		printf(json ? ", \"copy_us\": %.1f, \"limit_%%\": %.0f" : "; a copy %.1f us, %.0f %%", r->copy_us,
		       100 * r->copy_us / r->us);
	printf(json ? "}\n" : "\n");
	fflush(stdout);
}

/* ---- the ways to run ---- */
/* The first losses at small sizes, compiled and by the evaluator: they are the same, and the last is below the first. */
static bool quick(const model_kind *kind)
{
	double loss[2][QUICK_STEPS];
	tj_ctx *was = tj_ctx_current();
	for (int k = 0; k < 2; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = k ? "eval" : NULL));
		job *j = open_job(c, kind, true);
		for (int i = 0; i < QUICK_STEPS; i++) loss[k][i] = loss_of(j);
		close_job(j);
		if (tj_check(c) != TJ_OK) tj_perror(c, stderr), loss[k][0] = NAN;
		tj_close(c);
	}
	tj_ctx_use(was);
	const bool good = !memcmp(loss[0], loss[1], sizeof *loss) && (!kind->loss || loss[0][QUICK_STEPS - 1] < loss[0][0]);
	if (!good)
		printf("FAIL %s: losses %g to %g, the evaluator's %g to %g\n", kind->name, loss[0][0], loss[0][QUICK_STEPS - 1], loss[1][0],
		       loss[1][QUICK_STEPS - 1]);
	return good;
}

static void put_sizes(const char *name, const model_sizes *s, const char *end)
{
	printf("\"%s\": {\"batch\": %d, \"length\": %d, \"in\": %d, \"width\": %d, \"depth\": %d, \"heads\": %d, \"classes\": %d}%s", name,
	       (int)s->batch, (int)s->length, (int)s->in, (int)s->width, (int)s->depth, (int)s->heads, (int)s->classes, end);
}

/* ---- the suite ---- */
static const char *name_of(int i) { return model_kinds[i].name; }
static void *open_full(tj_ctx *c, int i) { return open_job(c, &model_kinds[i], false); }
static void close_any(void *j) { close_job(j); }
static void put_any(void *j, double seconds, bool json) { put(&(report[]){ time_job(j, seconds) }[0], json); }
static bool quick_of(int i) { return quick(&model_kinds[i]); }
static void list(int i)
{
	printf("{\"case\": \"%s\", ", model_kinds[i].name);
	put_sizes("full", &model_kinds[i].full, ", ");
	put_sizes("small", &model_kinds[i].small, "}\n");
}

int bench_train(const bench_suite_opts *o)
{
	const bench_suite s = { model_nkinds, name_of, open_full, close_any, put_any, quick_of, list, NULL };
	return bench_run_suite(&s, o);
}
