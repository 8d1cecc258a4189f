/* SPDX-License-Identifier: MIT */
/* written: programs with loops or other callbacks, and the same with their turns written out. Checks of their gradients: three orders and
 * two along tangents, against the written program, against finite differences, and on another device. */
#ifndef TJ_TEST_WRITTEN_H
#define TJ_TEST_WRITTEN_H

#include "test/mock.h"
#include "test/kit.h"

#include <math.h>

enum { N = 3, RESULTS = 11 };

typedef struct job {
	const struct program *p;
	tj_tensor *x, *w, *few;  /* what the callbacks capture; few: i64[3] 2, 0, 3 */
	int64_t turns;
	bool plain;              /* the turns are written out */
} job;
typedef struct program { const char *name; tj_tensor *(*run)(job *j); int64_t turns[4]; int n; } program; /* turns: n numbers to try */

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

/* ---- what is asked: three orders, and along tangents ---- */
static void derive(tj_tensor *y, tj_tensor *const *by, tj_tensor **grad, tj_tensor **next)
{
	tj_grad(grad, y, by, TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
	*next = tj_add(total(tj_mul(grad[0], tj_add(grad[0], by[1]))), total(tj_mul(grad[1], by[0])));
}

/* in: x, w, few. out: the value; twice what the next gradients are of; gradients of three orders; derivatives of two. */
static void asked(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->x = in[0], j->w = in[1], j->few = in[2];
	tj_tensor *const by[] = { in[0], in[1], TJ_END }, *third, *const tangent[] = { tj_mul(in[0], in[0]), in[1], TJ_END };
	out[0] = total(j->p->run(j));
	derive(out[0], by, out + 3, &out[1]);
	derive(out[1], by, out + 5, &out[2]);
	derive(out[2], by, out + 7, &third);
	out[9] = tj_jvp(out[0], by, tangent, TJ_UNUSED_ZEROS);
	out[10] = tj_jvp(out[9], by, tangent, TJ_UNUSED_ZEROS);
}

typedef struct values { double v[RESULTS][N]; } values;
static const double first_x[N] = { 0.8, -0.55, 1.3 }, first_w[N] = { 0.6, 1.1, -0.7 };
static const int64_t few_turns[3] = { 2, 0, 3 };

static void call(tj_ctx *c, tj_fn *f, const double *x, const double *w, values *to)
{
	tj_scope *s = tj_push(c);
	tj_tensor *out[RESULTS];
	tj_call(f, out,
	        TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x), tj_from_data(c, TJ_F64, TJ_SHAPE(N), w),
	                tj_from_data(c, TJ_I64, TJ_SHAPE(3), few_turns)));
	kit_ok(c);
	memset(to, 0, sizeof *to);
	for (int i = 0; i < RESULTS; i++) assert_int_equal(tj_read(out[i], to->v[i], (size_t)tj_numel(out[i]) * sizeof(double)), TJ_OK);
	tj_pop(s);
}

static void near(const values *a, const values *b, double bound, const program *p, int64_t turns)
{
	for (int i = 0; i < RESULTS; i++)
		for (int e = 0; e < N; e++)
			if (!(fabs(a->v[i][e] - b->v[i][e]) <= bound * fmax(1, fabs(b->v[i][e]))))
				fail_msg("%s, %d turns: result %d, element %d is %.17g, not %.17g", p->name, (int)turns, i, e, a->v[i][e],
				         b->v[i][e]);
}

static tj_fn *compiled(tj_ctx *c, job *j, tj_mode mode)
{
	return tj_compile(c, asked, j, TJ_OPTS(tj_compile_opts, .name = j->p->name, .nin = 3, .nout = RESULTS, .mode = mode));
}

/* By the evaluator and compiled: the same bits. */
static void both_ends(const program *p, int64_t turns, values *got)
{
	values by[2];
	for (int end = 0; end < 2; end++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = end ? "llvm" : "eval"));
		job j = { .p = p, .turns = turns };
		for (int mode = 0; mode < 2; mode++) {
			tj_fn *f = compiled(c, &j, mode ? TJ_DIRECT : TJ_VERIFY);
			for (int k = 0; k < 3; k++) call(c, f, first_x, first_w, &by[end]);
			if (!end && !mode) *got = by[0];
			if (memcmp(got, &by[end], sizeof *got)) near(&by[end], got, 0, p, turns);
		}
		tj_close(c);
	}
}

static void check_written_out(const program *p, int64_t turns)
{
	values got, want;
	both_ends(p, turns, &got);
	tj_ctx *c = tj_open(NULL);
	job j = { .p = p, .turns = turns, .plain = true };
	call(c, compiled(c, &j, TJ_VERIFY), first_x, first_w, &want);
	near(&got, &want, 1e-12, p, turns);
	tj_close(c);
}

/* ---- finite differences ---- */
static void check_differences(const program *p, int64_t turns)
{
	static const double at[] = { 1, -1, 2, -2 }, weight[] = { 8, -8, -1, 1 }, step = 0x1p-11;
	tj_ctx *c = tj_open(NULL);
	job j = { .p = p, .turns = turns };
	tj_fn *f = compiled(c, &j, TJ_VERIFY);
	values got;
	call(c, f, first_x, first_w, &got);
	for (int k = 0; k < 2 * N; k++) {
		double sum[3] = { 0 };
		for (int i = 0; i < 4; i++) {
			double x[2][N];
			values moved;
			memcpy(x[0], first_x, sizeof x[0]);
			memcpy(x[1], first_w, sizeof x[1]);
			x[k / N][k % N] += at[i] * step;
			call(c, f, x[0], x[1], &moved);
			for (int order = 0; order < 3; order++) sum[order] += weight[i] * moved.v[order][0];
		}
		for (int order = 0; order < 3; order++) {
			const double want = sum[order] / (12 * step), is = got.v[3 + 2 * order + k / N][k % N];
			if (!(fabs(is - want) <= 1e-6 * fmax(1, fabs(want))))
				fail_msg("%s, %d turns, order %d: gradient %d is %.12g, by differences %.12g", p->name, (int)turns,
				         order + 1, k, is, want);
		}
	}
	tj_close(c);
}

/* ---- on a device that runs late ---- */
static void check_elsewhere(const program *p, int64_t turns)
{
	values got, want;
	job j = { .p = p, .turns = turns };
	mock_device();
	for (int late = 0; late < 2; late++) {
		tj_ctx *c = late ? tj_open(TJ_OPTS(tj_open_opts, .device = "mock:0")) : tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		tj_fn *f = compiled(c, &j, TJ_VERIFY);
		for (int k = 0; k < 2; k++) call(c, f, first_x, first_w, late ? &got : &want);
		tj_close(c);
	}
	near(&got, &want, 0, p, turns);
}

/* check: one of the three above. */
static void each_program(const program *p, size_t n, void (*check)(const program *p, int64_t turns))
{
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < p[i].n; k++) check(&p[i], p[i].turns[k]);
}

#endif
