/* SPDX-License-Identifier: MIT */
/* stress: threads with clones of one engine make mixed calls, and check each result: shared functions in both modes with a small
 * budget of entries, changing sizes, functions that one thread makes and frees, cells, branches, ops outside of functions,
 * tensors large enough for the team, reports during calls of other threads, occasional forks.
 *
 *   stress [-t threads] [-n calls] [-b backend] [-s seed] [-f forks]
 */
#include <tj.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_THREADS = 64, MOST_SIZE = 40, WIDE = 50000, TEAM = 3 };

typedef struct shared { tj_fn *square, *direct, *steps, *wide; tj_tensor *three; } shared;
typedef struct worker {
	pthread_t thread;
	tj_ctx *parent;
	const shared *s;
	uint64_t random;
	long calls, bad;
	char what[160];       /* the first that was wrong */
	tj_fn *own;
	tj_tensor *cell;
	double sum;           /* what the cell holds */
} worker;

static atomic_long made;

static unsigned draw(worker *w, unsigned n)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(w->random >> 33) % n;
}

static void check(worker *w, bool ok, const char *what)
{
	if (ok) return;
	const tj_error *e = NULL;
	if (tj_check(tj_ctx_current()) != TJ_OK) e = tj_last_error(tj_ctx_current());
	if (!w->bad++) snprintf(w->what, sizeof w->what, "%s: %s", what, e ? e->message : "wrong value");
}

/* ---- bodies ---- */
static void square(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_add(tj_mul(in[0], in[0]), ((shared *)self)->three);
	if (tj_truth(tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)))) y = tj_neg(y);
	out[0] = y;
}

static void steps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < 3; i++) x = tj_mul(x, tj_arg_f(0));
	out[0] = tj_sum(x, TJ_AXES(0), true);
	out[1] = x;
}

static void wide(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_add(tj_mul(in[0], in[0]), tj_arg_f(0));
	out[0] = x;
	out[1] = tj_sum(tj_reshape(x, TJ_SHAPE(100, -1)), TJ_AXES(1), false);
}

static void adds(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(cell, in[0]));
	out[0] = cell;
}

static void chain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = in[0];
	for (int i = 0; i < *(int *)self; i++) out[0] = tj_add(out[0], in[0]);
}

/* ---- calls ---- */
static tj_tensor *ramp(tj_ctx *c, int n, float from)
{
	float v[MOST_SIZE];
	for (int i = 0; i < n; i++) v[i] = from + (float)i;
	return tj_from_data(c, TJ_F32, TJ_SHAPE(n), v);
}

static void call_square(worker *w, tj_ctx *c, tj_fn *f)
{
	int n = 1 + (int)draw(w, draw(w, 256) ? 8 : MOST_SIZE); /* mostly few sizes, so that not every call compiles */
	float from = (float)draw(w, 9) - 40 * (float)draw(w, 2), sum = (float)n * from + (float)(n * (n - 1) / 2);
	const float *y = tj_data(tj_call1(f, TJ_LIST(ramp(c, n, from))));
	bool ok = true;
	for (int i = 0; i < n; i++) {
		float x = from + (float)i, want = x * x + 3;
		ok &= y[i] == (sum > 0 ? -want : want);
	}
	check(w, ok, "square");
}

static void call_steps(worker *w, tj_ctx *c)
{
	int n = 1 + (int)draw(w, 6);
	float k = (float)draw(w, 4), sum = 0;
	tj_tensor *out[2] = { NULL };
	bool ok = tj_call_ex(w->s->steps, out, TJ_LIST(ramp(c, n, 1)), TJ_SCALARS(TJ_F((double)k))) == TJ_OK;
	const float *y = ok ? tj_data(out[1]) : NULL;
	for (int i = 0; ok && i < n; i++) {
		ok &= y[i] == (1 + (float)i) * k * k * k;
		sum += y[i];
	}
	check(w, ok && tj_item(out[0]) == (double)sum, "steps");
}

static void call_wide(worker *w, tj_ctx *c)
{
	float a = (float)draw(w, 4), k = (float)draw(w, 4), want = a * a + k, v[WIDE];
	tj_tensor *out[2] = { NULL };
	for (int i = 0; i < WIDE; i++) v[i] = a;
	bool ok = tj_call_ex(w->s->wide, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(WIDE), v)), TJ_SCALARS(TJ_F((double)k))) == TJ_OK;
	const float *x = ok ? tj_data(out[0]) : NULL, *sum = ok ? tj_data(out[1]) : NULL;
	for (int i = 0; ok && i < WIDE; i++) ok &= x[i] == want;
	for (int i = 0; ok && i < 100; i++) ok &= sum[i] == want * (WIDE / 100);
	check(w, ok, "wide");
}

static void call_cell(worker *w, tj_ctx *c)
{
	(void)c;
	double add = draw(w, 3);
	w->sum += add;
	check(w, tj_item(tj_call1(w->own, TJ_LIST(tj_f(add)))) == w->sum && tj_item(w->cell) == w->sum, "cell");
}

static void make_and_free(worker *w, tj_ctx *c)
{
	int n = 1 + (int)draw(w, 12);
	tj_fn *f = tj_compile(c, chain, &n, TJ_OPTS(tj_compile_opts, .name = "chain", .nin = 1, .nout = 1));
	const float *y = tj_data(tj_call1(f, TJ_LIST(ramp(c, 2, 1))));
	check(w, y[0] == (float)(n + 1) && y[1] == (float)(2 * n + 2), "chain");
	tj_fn_free(f);
}

static void eager(worker *w, tj_ctx *c)
{
	int n = 1 + (int)draw(w, 5);
	double want = 0;
	for (int i = 0; i < n; i++) want += 2 * (i + 1) + 1;
	check(w, tj_item(tj_sum(tj_add(tj_mul(ramp(c, n, 1), tj_f(2)), tj_f(1)), TJ_ALL, false)) == want, "eager");
}

static void report(worker *w)
{
	FILE *null = fopen("/dev/null", "w");
	tj_explain(w->s->direct, null);
	fclose(null);
}

static void one_call(worker *w, tj_ctx *c)
{
	tj_scope *s = tj_push(c);
	unsigned what = draw(w, 2000);
	if (what == 0) report(w);
	else if (what < 4) make_and_free(w, c);
	else if (what < 30) call_wide(w, c);
	else if (what < 200) eager(w, c);
	else if (what < 600) call_cell(w, c);
	else if (what < 1000) call_steps(w, c);
	else call_square(w, c, what < 1500 ? w->s->square : w->s->direct);
	tj_pop(s);
	atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
}

static void *work(void *p)
{
	worker *w = p;
	tj_ctx *c = tj_ctx_clone(w->parent);
	tj_ctx_use(c);
	w->cell = tj_param(c, TJ_F32, TJ_0D);
	w->own = tj_compile(c, adds, &w->cell,
	                    TJ_OPTS(tj_compile_opts, .name = "adds", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .state = TJ_VARS(&w->cell)));
	for (long i = 0; i < w->calls && !w->bad; i++) {
		if (w->sum > 1e6) {
			w->sum = 0;
			tj_write(w->cell, &(float){ 0 }, sizeof(float));
		}
		one_call(w, c);
	}
	check(w, tj_check(c) == TJ_OK, "at the end");
	tj_fn_free(w->own);
	tj_release(w->cell);
	tj_close(c);
	return NULL;
}

/* ---- the whole ---- */
static bool fork_once(tj_ctx *c, const shared *s)
{
	int status = -1;
	pid_t pid = fork();
	if (!pid) {
		alarm(120);
		worker w = { .s = s, .random = (uint64_t)getpid() };
		for (int i = 0; i < 50; i++) {
			call_square(&w, c, i & 1 ? s->square : s->direct);
			call_steps(&w, c);
			eager(&w, c);
			if (i % 10 == 0) call_wide(&w, c);
		}
		make_and_free(&w, c);
		if (w.bad) fprintf(stderr, "in a child: %s\n", w.what);
		_exit(w.bad != 0);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static tj_fn *shared_fn(tj_ctx *c, tj_body *body, shared *s, int nout, tj_mode mode)
{
	return tj_compile(c, body, s,
	                  TJ_OPTS(tj_compile_opts, .name = "shared", .nin = 1, .nout = nout, .max_entries = 12, .mode = mode,
	                          .dynamic = mode == TJ_DIRECT ? TJ_DYNAMIC_OFF : TJ_DYNAMIC_AUTO, .state = TJ_VARS(&s->three)));
}

int main(int argc, char **argv)
{
	int threads = 8, forks = 0, failed = 0;
	long calls = 1000000;
	const char *backend = NULL;
	uint64_t seed = 1;
	static worker w[MOST_THREADS];
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-t")) threads = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-n")) calls = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "-b")) backend = argv[i + 1];
		else if (!strcmp(argv[i], "-s")) seed = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "-f")) forks = atoi(argv[i + 1]);
	}
	if (threads < 1 || threads > MOST_THREADS) return 2;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = backend, .threads = TEAM));
	shared s = { .three = tj_param(c, TJ_F32, TJ_0D) };
	tj_write(s.three, &(float){ 3 }, sizeof(float));
	s.square = shared_fn(c, square, &s, 1, TJ_VERIFY);
	s.direct = shared_fn(c, square, &s, 1, TJ_DIRECT);
	s.steps = shared_fn(c, steps, &s, 2, TJ_DIRECT);
	s.wide = shared_fn(c, wide, &s, 2, TJ_DIRECT);
	for (int i = 0; i < threads; i++) {
		w[i] = (worker){ .parent = c, .s = &s, .random = seed * 1000 + (uint64_t)i, .calls = calls / threads };
		if (pthread_create(&w[i].thread, NULL, work, &w[i])) return 2;
	}
	for (int i = 0; i < forks; i++) {
		usleep(3000);
		if (!fork_once(c, &s)) failed++, fprintf(stderr, "a child failed\n");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].bad) failed++, fprintf(stderr, "thread %d: %s\n", i, w[i].what);
	}
	if (tj_check(c) != TJ_OK) failed++, tj_perror(c, stderr);
	printf("%ld calls of %d threads, %d forks\n%d passed, %d failed, 0 skipped\n", atomic_load(&made), threads, forks, !failed, failed);
	tj_close(c);
	return failed != 0;
}
