/* SPDX-License-Identifier: MIT */
/* loops: times the cases of loopcases.c beside the loops of loophand.c. Each case is compared with those before it is timed; --quick does
 * it at small sizes, and with the evaluator bit for bit. */
#include "bench/loops.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 3, MOST_ROUNDS = 11 };

/* ---- shapes: "f[n,3] b[2n] -> f[n+31]" ---- */
typedef struct operand { tj_dtype dtype; int64_t below, dim[RANK + 1], numel; } operand;

static const struct { char letter; tj_dtype dtype; int64_t below; } letters[] = { /* below: integers; 0: any */
	{ 'f', TJ_F32, 0 }, { 'd', TJ_F64, 0 }, { 'b', TJ_U8, 256 }, { 'o', TJ_U8, 2 }, { 'h', TJ_I16, 65536 }, { 'x', TJ_I32, LOOP_BINS },
	{ 'l', TJ_I64, 0 },
};

/* a size: [factor] n or m [+ more], or a number */
static int64_t size_at(const char **s, const int64_t *p)
{
	int64_t n = isdigit((unsigned char)**s) ? strtol(*s, (char **)s, 10) : 1;
	if (**s == 'n' || **s == 'm') n *= p[*(*s)++ == 'm'];
	if (**s == '+') ++*s, n += strtol(*s, (char **)s, 10);
	return n;
}

/* Reads one operand; false at the end of the text or at the arrow, which it skips. */
static bool read_operand(const char **s, const int64_t *p, operand *o)
{
	int rank = 0;
	while (**s == ' ') ++*s;
	if (!**s || **s == '-') return *s += **s ? 2 : 0, false;
	for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
		if (letters[i].letter == **s) *o = (operand){ .dtype = letters[i].dtype, .below = letters[i].below, .numel = 1 };
	for (*s += 2; (*s)[-1] != ']'; ++*s) {
		if (**s == ']') continue;
		o->numel *= o->dim[rank++] = size_at(s, p);
	}
	o->dim[rank] = TJ_END_DIM;
	return true;
}

/* ---- a case ---- */
typedef struct job {
	const loop_case *c;
	const int64_t *p;
	tj_ctx *ctx;
	tj_scope *scope;
	tj_fn *f;
	tj_tensor *list[LOOP_IN + 1];
	operand out[LOOP_OUT];
	int nin, nout;
	loop_args args;
	const void *in[LOOP_IN];
	void *hand[LOOP_OUT];
	double first_ms;
} job;

static void fill(const operand *o, void *data, unsigned seed)
{
	for (int64_t i = 0; i < o->numel; i++) {
		const uint32_t r = (seed = seed * 1664525u + 1013904223u) >> 8;
		const double x = (double)r / (1 << 23) - 1;
		switch (o->dtype) {
		case TJ_F32: ((float *)data)[i] = (float)x; break;
		case TJ_F64: ((double *)data)[i] = x; break;
		case TJ_U8: ((uint8_t *)data)[i] = (uint8_t)(r % (uint32_t)o->below); break;
		case TJ_I16: ((int16_t *)data)[i] = (int16_t)(r % (uint32_t)o->below); break;
		default: ((int32_t *)data)[i] = (int32_t)(r % (uint32_t)o->below);
		}
	}
}

static void run(void *env)
{
	job *j = env;
	tj_scope *s = tj_push(j->ctx);
	tj_tensor *y[LOOP_OUT];
	tj_call(j->f, y, j->list);
	tj_pop(s);
}

static void run_hand(void *env) { ((job *)env)->c->hand(&((job *)env)->args); }

static job *open_job(tj_ctx *c, const loop_case *l, const int64_t *p)
{
	job *j = calloc(1, sizeof *j);
	if (!j) exit(2);
	*j = (job){ .c = l, .p = p, .ctx = c, .scope = tj_push(c) };
	const char *s = l->shapes;
	operand o;
	for (; read_operand(&s, p, &o); j->nin++) {
		void *data = bench_room(o.numel * (int64_t)tj_dtype_size(o.dtype));
		fill(&o, data, (unsigned)j->nin + 1);
		j->in[j->nin] = data;
		j->list[j->nin] = tj_wrap(c, o.dtype, o.dim, NULL, data, NULL, NULL);
	}
	j->list[j->nin] = TJ_END;
	for (; read_operand(&s, p, &j->out[j->nout]); j->nout++)
		j->hand[j->nout] = bench_room(j->out[j->nout].numel * (int64_t)tj_dtype_size(j->out[j->nout].dtype));
	j->args = (loop_args){ p, j->in, j->hand, bench_room(12 * p[0] * (p[1] ? p[1] : 1)) };
	j->f = tj_compile(c, l->body, (void *)p, TJ_OPTS(tj_compile_opts, .name = l->name, .nin = j->nin, .nout = j->nout, .mode = TJ_DIRECT));
	const double begin = bench_now();
	run(j);
	j->first_ms = (bench_now() - begin) * 1e3;
	return j;
}

static void close_job(job *j)
{
	tj_fn_free(j->f);
	tj_pop(j->scope);
	for (int i = 0; i < j->nin; i++) free((void *)j->in[i]);
	for (int i = 0; i < j->nout; i++) free(j->hand[i]);
	free(j->args.tmp);
	free(j);
}

static double element(tj_dtype t, const void *data, int64_t i)
{
	switch (t) {
	case TJ_F32: return (double)((const float *)data)[i];
	case TJ_F64: return ((const double *)data)[i];
	case TJ_U8: return ((const uint8_t *)data)[i];
	case TJ_I16: return ((const int16_t *)data)[i];
	case TJ_I32: return ((const int32_t *)data)[i];
	default: return (double)((const int64_t *)data)[i];
	}
}

/* The largest |ours - hand| / (1 + |hand|), of integers the largest difference; infinity if shapes or dtypes are others. */
static double error_of(job *j)
{
	double worst = 0;
	tj_scope *s = tj_push(j->ctx);
	tj_tensor *y[LOOP_OUT];
	tj_call(j->f, y, j->list);
	run_hand(j);
	for (int k = 0; k < j->nout; k++) {
		const operand *o = &j->out[k];
		const void *got = tj_is_poison(y[k]) || tj_dtype_of(y[k]) != o->dtype || tj_numel(y[k]) != o->numel ? NULL : tj_data(y[k]);
		const bool real = o->dtype == TJ_F32 || o->dtype == TJ_F64;
		if (!got) worst = INFINITY;
		for (int64_t i = 0; got && i < o->numel; i++) {
			const double want = element(o->dtype, j->hand[k], i), e = fabs(element(o->dtype, got, i) - want) / (real ? 1 + fabs(want) : 1);
			if (!(e <= worst)) worst = e;
		}
	}
	tj_pop(s);
	if (tj_check(j->ctx) != TJ_OK) tj_perror(j->ctx, stderr), worst = INFINITY;
	return worst;
}

static void put(void *env, double seconds, bool json)
{
	job *j = env;
	const double error = error_of(j);
	if (!(error <= j->c->tolerance)) fprintf(stderr, "%s: differs from the loop in C by %g\n", j->c->name, error);
	bench_variant v[2] = { { .run = run, .env = j }, { .run = run_hand, .env = j } };
	tj_stats s = { .size = sizeof s };
	bench_turns(v, 2, seconds, MOST_ROUNDS);
	tj_fn_stats(j->f, &s);
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.2f, \"median_us\": %.2f, \"hand_us\": %.2f, \"vs_hand\": %.3f, "
	              "\"first_ms\": %.1f, \"peak_bytes\": %llu, \"kernels\": %llu, \"eval_steps\": %llu}\n"
	            : "%-16s %10.1f us (median %.1f), C %10.1f us: %5.2f x; first call %5.1f ms; temporaries %9llu bytes; %llu kernels, "
	              "%llu evaluator steps\n",
	       j->c->name, v[0].quick, v[0].median, v[1].quick, v[1].quick / v[0].quick, j->first_ms, (unsigned long long)s.peak_bytes,
	       (unsigned long long)s.kernels, (unsigned long long)s.eval_steps);
	fflush(stdout);
}

/* At small sizes: near the loop in C, and the evaluator's bits. */
static bool quick(int i)
{
	void *result[2][LOOP_OUT] = { 0 };
	bool good = true;
	tj_ctx *was = tj_ctx_current();
	for (int k = 0; k < 2; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = k ? "eval" : NULL));
		job *j = open_job(c, &loop_cases[i], loop_cases[i].small);
		const double error = error_of(j);
		tj_tensor *y[LOOP_OUT];
		tj_call(j->f, y, j->list);
		for (int n = 0; n < j->nout; n++) {
			const size_t bytes = (size_t)j->out[n].numel * tj_dtype_size(j->out[n].dtype);
			result[k][n] = bench_room((int64_t)bytes);
			good &= tj_read(y[n], result[k][n], bytes) == TJ_OK && (!k || !memcmp(result[0][n], result[1][n], bytes));
		}
		if (!(error <= j->c->tolerance)) good = false, printf("%s: differs from the loop in C by %g\n", j->c->name, error);
		close_job(j);
		tj_close(c);
	}
	tj_ctx_use(was);
	for (int k = 0; k < 2; k++)
		for (int n = 0; n < LOOP_OUT; n++) free(result[k][n]);
	if (!good) printf("FAIL %s: not the evaluator's result, or not that of the loop in C\n", loop_cases[i].name);
	return good;
}

/* ---- the suite ---- */
static const char *name_of(int i) { return loop_cases[i].name; }
static void *open_full(tj_ctx *c, int i) { return open_job(c, &loop_cases[i], loop_cases[i].full); }
static void close_any(void *j) { close_job(j); }
static void list(int i)
{
	const loop_case *l = &loop_cases[i];
	printf("{\"case\": \"%s\", \"shapes\": \"%s\", \"n\": %lld, \"m\": %lld, \"tolerance\": %g}\n", l->name, l->shapes,
	       (long long)l->full[0], (long long)l->full[1], l->tolerance);
}

/* FOLDER/CASE.K: the bytes of result K of the loop in C, for bench/loops.py. */
static bool write_results(void *env, const char *folder)
{
	job *j = env;
	bool good = true;
	run_hand(j);
	for (int k = 0; k < j->nout; k++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%s.%d", folder, j->c->name, k);
		const size_t n = (size_t)j->out[k].numel;
		FILE *f = fopen(path, "wb");
		good &= f && fwrite(j->hand[k], tj_dtype_size(j->out[k].dtype), n, f) == n;
		if (f) good &= !fclose(f);
	}
	return good;
}

int bench_loops(const bench_suite_opts *o)
{
	const bench_suite s = { loop_count, name_of, open_full, close_any, put, quick, list, write_results };
	return bench_run_suite(&s, o);
}
