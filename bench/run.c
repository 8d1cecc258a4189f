/* SPDX-License-Identifier: MIT */
/* run: sets a case up, checks it against the hand-written code, and times both in turns.
 *
 * In turns: each round times a short batch of our code, of the hand-written code and of the limit. The reported time is that of
 * the quickest tenth of the rounds, which leaves out disturbances by other programs; ratios are of such times. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEAST = 11, MAX_VARIANTS = 6 }; /* LEAST: rounds. MAX_VARIANTS: variants that a round times */
#define BATCH_US 1000.0
#define LONG_US 50e3 /* calls above this are timed without another one before */

/* ---- setting up a case ---- */
struct bench_job {
	const bench_case *c;
	bench_shape s;
	tj_ctx *ctx;
	tj_scope *scope;         /* holds the operands */
	tj_fn *f, *verify, *fast; /* f: direct mode. verify: verify mode, for tiny cases. fast: TJ_FAST, for chains. NULL: not timed */
	tj_fn *sizes;            /* with sizes as arguments of the code; NULL: not timed */
	tj_tensor *list[BENCH_IN + 1];
	const float *in[BENCH_IN];
	void *hand_out;          /* results of the hand-written code; limit_to: those of the limit */
	float *tmp, *limit_to;
	bench_packed *packed;
	double first_ms;
	int64_t p[BENCH_SIZES];
};

/* Uses pages of 2 MiB if the system gives them, so that small pages do not slow the hand-written code. */
void *bench_room(int64_t wanted)
{
	size_t huge = (size_t)2 << 20, bytes = (size_t)(wanted ? wanted : 8), align = bytes < huge ? 64 : huge;
	bytes = (bytes + align - 1) / align * align;
	void *p = aligned_alloc(align, bytes);
	if (!p) exit(2);
	if (align == huge) madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0, bytes);
	return p;
}

static void *floats(int64_t n) { return bench_room(8 * n); }

static uint64_t seed = 88172645463325252u;
static float uniform(void)
{
	seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
	return (float)(seed >> 40) * (1.0f / 16777216);
}

static tj_tensor *operand(bench_job *u, int k)
{
	const int64_t *d = u->s.in[k];
	int64_t n = d[0] * (d[1] ? d[1] : 1);
	float *v = floats(n), scale = d[1] && d[0] >= 256 && u->s.flops > 0 ? 0.02f : 1;
	for (int64_t i = 0; i < n; i++) v[i] = (uniform() + uniform() + uniform() + uniform() - 2) * 1.7320508f * scale;
	tj_tensor *t = tj_from_data(u->ctx, TJ_F32, d[1] ? TJ_SHAPE(d[0], d[1]) : TJ_SHAPE(d[0]), v);
	free(v);
	return t;
}

static void call(const bench_job *u, tj_fn *f)
{
	tj_scope *s = tj_push(u->ctx);
	tj_tensor *out;
	tj_call(f, &out, u->list);
	tj_pop(s);
}

static void call_ours(void *env) { call(env, ((const bench_job *)env)->f); }
static void call_verify(void *env) { call(env, ((const bench_job *)env)->verify); }
static void call_sizes(void *env) { call(env, ((const bench_job *)env)->sizes); }
static void call_fast(void *env) { call(env, ((const bench_job *)env)->fast); }

static void call_hand(void *env)
{
	bench_job *u = env;
	bench_args a = { u->p, u->in, u->hand_out, u->tmp };
	u->c->hand(&a);
}

static volatile float sink;
static void call_limit(void *env)
{
	bench_job *u = env;
	const int64_t *l = u->s.limit;
	switch (u->c->limit) {
	case NO_LIMIT: break;
	case COPY: hand_copy(u->in[0], u->limit_to, l[0]); break;
	case ADD: hand_plus(u->in[0], u->in[1], u->limit_to, l[0]); break;
	case READ: sink = hand_read(u->in[0], l[0]); break;
	case SGEMM: hand_sgemm('N', 'N', l[0], l[1], l[2], u->in[0], l[2], u->in[u->s.weights], l[1], u->limit_to, l[1]); break;
	}
}

static void call_packed(void *env)
{
	bench_job *u = env;
	bench_packed_run(u->packed, u->in[0], u->hand_out);
	hand_gelu(u->hand_out, u->s.out);
}

void bench_close(bench_job *u)
{
	tj_fn_free(u->f);
	if (u->verify) tj_fn_free(u->verify);
	if (u->fast) tj_fn_free(u->fast);
	if (u->sizes) tj_fn_free(u->sizes);
	if (u->scope) tj_pop(u->scope);
	free(u->hand_out), free(u->tmp), free(u->limit_to);
	bench_packed_free(u->packed);
	free(u);
}

bench_job *bench_open(tj_ctx *ctx, const bench_case *c, bool small, bool sizes)
{
	bench_job *u = calloc(1, sizeof *u);
	if (!u) exit(2);
	u->c = c;
	u->ctx = ctx;
	memcpy(u->p, small ? c->small : c->p, sizeof u->p);
	u->s.dtype = TJ_F32;
	c->shape(&u->s, u->p);
	u->scope = tj_push(ctx);
	for (int k = 0; k < u->s.nin; k++) u->in[k] = tj_data(u->list[k] = operand(u, k));
	u->list[u->s.nin] = TJ_END;
	u->hand_out = floats(u->s.out);
	u->tmp = floats(u->s.tmp);
	const int64_t *l = u->s.limit;
	u->limit_to = floats(c->limit == SGEMM ? l[0] * l[1] : l[0]);
	const bench_pack_opts linear = { TJ_F32, 0, u->p[0], u->p[2], u->p[1], .w = u->in[1], .bias = u->in[2] };
	if (c->hand == hand_linear_gelu && !small) u->packed = bench_pack(&linear);
	tj_compile_opts opts = { .size = sizeof opts, .name = "bench", .nin = u->s.nin, .nout = 1, .mode = TJ_DIRECT };
	u->f = tj_compile(ctx, c->body, u->p, &opts);
	double start = bench_now();
	call_ours(u);
	u->first_ms = (bench_now() - start) * 1e3;
	opts.dynamic = TJ_DYNAMIC_ON;
	if (sizes) u->sizes = tj_compile(ctx, c->body, u->p, &opts);
	opts.dynamic = TJ_DYNAMIC_AUTO;
	opts.numerics = TJ_FAST;
	if (c->hand == hand_chain) u->fast = tj_compile(ctx, c->body, u->p, &opts);
	opts.numerics = TJ_STRICT;
	opts.mode = TJ_VERIFY;
	if (!c->limit) u->verify = tj_compile(ctx, c->body, u->p, &opts);
	return u;
}

/* The largest |ours - hand| / (1 + |hand|) of our second call. */
double bench_error(bench_job *u)
{
	tj_scope *s = tj_push(u->ctx);
	const void *got = tj_data(tj_call1(u->f, u->list));
	double worst = got ? 0 : INFINITY;
	call_hand(u);
	for (int64_t i = 0; got && i < u->s.out; i++) {
		bool whole = u->s.dtype == TJ_I64;
		double want = whole ? (double)((int64_t *)u->hand_out)[i] : (double)((float *)u->hand_out)[i];
		double e = fabs((whole ? (double)((const int64_t *)got)[i] : (double)((const float *)got)[i]) - want) / (1 + fabs(want));
		if (!(e <= worst)) worst = e;
	}
	tj_pop(s);
	if (tj_check(u->ctx) != TJ_OK) tj_perror(u->ctx, stderr), worst = INFINITY;
	return worst;
}

/* ---- timing ---- */
/* One call before the clock starts, so that the cache contents of the last variant do not matter; it also wakes the threads. */
static double batch_us(const bench_variant *v, bool before)
{
	if (before) v->run(v->env);
	double start = bench_now();
	for (long i = 0; i < v->n; i++) v->run(v->env);
	double us = (bench_now() - start) / (double)v->n * 1e6;
	hand_rest();
	return us;
}

/* Chooses v->n; returns the time of a call. */
static double calibrate(bench_variant *v)
{
	v->n = 1;
	double us = batch_us(v, true);
	for (int i = 0; i < 3 && us < LONG_US; i++) us = fmin(us, batch_us(v, true));
	if (us < BATCH_US / 10) v->n = 1 + (long)(BATCH_US / 10 / us), us = fmin(us, batch_us(v, true));
	v->n = 1 + (long)(BATCH_US / us);
	return us;
}

int bench_turns(bench_variant *v, int count, double seconds, int least)
{
	double round_us = 0;
	for (int k = 0; k < count; k++) {
		v[k].quick = calibrate(&v[k]);
		round_us += v[k].quick * (double)v[k].n;
	}
	double fit = seconds * 1e6 / round_us, sorted[BENCH_MOST];
	int rounds = fit < least ? least : fit > BENCH_MOST ? BENCH_MOST : (int)fit;
	for (int r = 0; r < rounds; r++)
		for (int k = 0; k < count; k++) { /* alternating order, so that each variant follows each other one */
			bench_variant *w = &v[r % 2 ? count - 1 - k : k];
			w->us[r] = batch_us(w, w->quick < LONG_US);
		}
	for (int k = 0; k < count; k++) {
		memcpy(sorted, v[k].us, (size_t)rounds * sizeof *sorted);
		qsort(sorted, (size_t)rounds, sizeof *sorted, bench_by_size);
		v[k].quick = sorted[rounds / 10];
		v[k].median = sorted[rounds / 2];
	}
	return rounds;
}

bench_report bench_time(bench_job *u, double seconds)
{
	bench_variant v[MAX_VARIANTS] = { { .run = call_ours, .env = u }, { .run = call_hand, .env = u } };
	int n = 2, limit = 0, packed = 0, verify = 0, fast = 0, sizes = 0;
	double error = bench_error(u), scale = 1;
	if (u->c->limit) v[limit = n++] = (bench_variant){ .run = call_limit, .env = u };
	if (u->verify) v[verify = n++] = (bench_variant){ .run = call_verify, .env = u };
	if (u->fast) v[fast = n++] = (bench_variant){ .run = call_fast, .env = u };
	if (u->sizes) v[sizes = n++] = (bench_variant){ .run = call_sizes, .env = u };
	if (u->packed) v[packed = n++] = (bench_variant){ .run = call_packed, .env = u };
	bench_turns(v, n, seconds, LEAST);
	const int64_t *l = u->s.limit;
	if (u->c->limit == SGEMM) scale = u->s.flops / (2.0 * (double)l[0] * (double)l[1] * (double)l[2]);
	bench_report r = { .name = u->c->name, .us = v[0].quick, .median_us = v[0].median, .first_ms = u->first_ms, .error = error,
	                   .hand_us = v[1].quick, .vs_hand = v[1].quick / v[0].quick, .flops = u->s.flops > 0 };
	if (u->c->limit) {
		r.rate = (r.flops ? u->s.flops : u->s.bytes) / v[0].quick * 1e-3;
		r.limit = scale * v[limit].quick / v[0].quick;
	}
	if (verify) r.verify_us = v[verify].quick;
	if (fast) r.fast_us = v[fast].quick;
	if (sizes) r.sizes_us = v[sizes].quick;
	if (packed) r.packed_us = v[packed].quick, r.vs_packed = v[packed].quick / v[0].quick;
	return r;
}
