/* SPDX-License-Identifier: MIT */
/* Clones of one engine on many threads: one compile for each new signature, the same bits everywhere; evictions, frees and
 * other compiles at the same time; forks. The thread sanitizer (make tsan) must report nothing. */
#include "test/kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 32, CALLS = 40 };

/* ---- many threads, one function ---- */
typedef struct job { tj_ctx *parent; tj_fn *f; int id, bad, sizes; pthread_barrier_t *start; } job;

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_add(tj_mul(in[0], in[0]), *(tj_tensor **)self);
	if (tj_truth(tj_gt(tj_sum(y, TJ_ALL, false), tj_f(1e9)))) y = tj_neg(y);
	out[0] = y;
}

static void *work(void *p)
{
	job *j = p;
	tj_ctx *c = kit_clone(j->parent);
	float v[64];
	pthread_barrier_wait(j->start);
	for (int i = 0; i < CALLS; i++) {
		int n = 1 + (j->sizes > 1 ? (i + j->id) % j->sizes : 7);
		for (int k = 0; k < n; k++) v[k] = (float)(j->id + k);
		tj_scope *s = tj_push(c);
		const float *y = tj_data(tj_call1(j->f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(n), v))));
		for (int k = 0; k < n; k++) j->bad += y[k] != v[k] * v[k] + 3;
		tj_pop(s);
	}
	if (tj_check(c) != TJ_OK) {
		tj_perror(c, stderr);
		j->bad++;
	}
	tj_close(c);
	return NULL;
}

static void run_all(tj_ctx *c, tj_fn *f, int sizes)
{
	pthread_t t[THREADS];
	job j[THREADS];
	pthread_barrier_t start;
	int bad = 0;
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		j[i] = (job){ .parent = c, .f = f, .id = i, .start = &start, .sizes = sizes };
		assert_int_equal(pthread_create(&t[i], NULL, work, &j[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		bad += j[i].bad;
	}
	pthread_barrier_destroy(&start);
	assert_int_equal(bad, 0);
}

static tj_stats run(int sizes, int max_entries, tj_mode mode)
{
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3);
	tj_fn *f = tj_compile(c, body, &w,
	                      TJ_OPTS(tj_compile_opts, .name = "shared", .nin = 1, .nout = 1, .max_entries = max_entries, .mode = mode,
	                              .dynamic = max_entries ? TJ_DYNAMIC_OFF : TJ_DYNAMIC_AUTO, .state = TJ_VARS(&w)));
	run_all(c, f, sizes);
	tj_stats n = kit_stats(f);
	tj_ctx_use(c);
	tj_close(c);
	return n;
}

static void one_signature(void **s)
{
	(void)s;
	tj_stats n = run(1, 0, TJ_VERIFY);
	assert_int_equal(n.calls, THREADS * CALLS);
	assert_int_equal(n.plans, 2); /* up to the branch, and once more for y, which is read after it */
	assert_int_equal(n.entries, 1);
}

static void many_signatures(void **s)
{
	(void)s;
	tj_stats n = run(6, 0, TJ_VERIFY);
	assert_int_equal(n.entries, 1);
	assert_int_equal(n.sizes, 6);
	assert_true(n.plans <= 6 * 3);
	assert_true(n.compiles <= 3 * 3); /* sizes 1 and 2, and the others together; a plan, one after the branch, a wider one */
}

static void evictions(void **s)
{
	(void)s;
	tj_stats n = run(6, 3, TJ_VERIFY);
	assert_true(n.evictions > 0 && n.entries <= 3);
}

static void direct(void **s)
{
	(void)s;
	tj_stats n = run(1, 0, TJ_DIRECT);
	assert_int_equal(n.plans, 2);
	assert_true(n.direct >= THREADS * (CALLS - 5));
	n = run(6, 3, TJ_DIRECT);
	assert_true(n.evictions > 0 && n.entries <= 3);
}

/* ---- compiles beside calls ---- */
typedef struct compiler { tj_ctx *parent; atomic_bool stop; atomic_int made; bool bad; } compiler;

static void other_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = in[0];
	for (int i = 0; i < *(int *)self; i++) out[0] = tj_add(tj_mul(out[0], in[0]), tj_f(1));
}

/* New functions, called and freed, until told to stop. */
static void *compile_on(void *p)
{
	compiler *k = p;
	tj_ctx *c = kit_clone(k->parent);
	for (int n = 1; !atomic_load(&k->stop); n = n % 20 + 1) {
		tj_scope *s = tj_push(c);
		tj_fn *f = kit_fn(c, "other", other_body, &n, 1, 1);
		const float *y = tj_data(tj_call1(f, TJ_LIST(F32(c, 1, 1, 0))));
		k->bad |= y[0] != (float)(n + 1) || y[2] != 1;
		tj_pop(s);
		tj_fn_free(f);
		atomic_fetch_add(&k->made, 1);
	}
	k->bad |= tj_check(c) != TJ_OK;
	tj_close(c);
	return NULL;
}

static void start_compiler(compiler *k, tj_ctx *c, pthread_t *t)
{
	memset(k, 0, sizeof *k);
	k->parent = c;
	assert_int_equal(pthread_create(t, NULL, compile_on, k), 0);
}

static void stop_compiler(compiler *k, pthread_t t)
{
	atomic_store(&k->stop, true);
	pthread_join(t, NULL);
	assert_false(k->bad);
	assert_true(atomic_load(&k->made) > 0);
}

static void compile_meanwhile(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3);
	tj_fn *f = kit_fn(c, "shared", body, &w, 1, 1);
	compiler k;
	pthread_t t;
	start_compiler(&k, c, &t);
	while (!atomic_load(&k.made)) usleep(1000);
	run_all(c, f, 2);
	stop_compiler(&k, t);
	assert_int_equal(kit_stats(f).sizes, 2);
	tj_close(c);
}

/* ---- free while a call runs ---- */
static pthread_barrier_t inside, leave;

static void waiting_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_neg(in[0]);
	pthread_barrier_wait(&inside);
	pthread_barrier_wait(&leave);
}

static void *call_it(void *p)
{
	job *j = p;
	tj_ctx *c = kit_clone(j->parent);
	j->bad = *(const float *)tj_data(tj_call1(j->f, TJ_LIST(F32(c, 4)))) != -4 || tj_check(c) != TJ_OK;
	tj_close(c);
	return NULL;
}

static void free_while_running(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, waiting_body, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "busy", .nin = 1, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
		job j = { .parent = c, .f = f };
		pthread_t t;
		pthread_barrier_init(&inside, NULL, 2);
		pthread_barrier_init(&leave, NULL, 2);
		assert_int_equal(pthread_create(&t, NULL, call_it, &j), 0);
		pthread_barrier_wait(&inside);
		tj_fn_free(f);
		kit_error(c, TJ_ERR_STATE, "a call of busy is running");
		pthread_barrier_wait(&leave);
		pthread_join(t, NULL);
		assert_int_equal(j.bad, 0);
		tj_fn_free(f);
		kit_ok(c);
		tj_close(c);
		pthread_barrier_destroy(&inside);
		pthread_barrier_destroy(&leave);
	}
}

/* ---- cells ---- */
enum { ADDS = 50 };
static void count_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(cell, tj_f(1)));
	out[0] = cell;
}

typedef struct counter { tj_ctx *parent; tj_fn *f; int done; bool bad; } counter;
static void *count(void *p)
{
	counter *k = p;
	tj_ctx *c = kit_clone(k->parent);
	for (int tries = 0; k->done < ADDS && tries < 100000; tries++) {
		tj_scope *s = tj_push(c);
		tj_tensor *y;
		tj_status st = tj_call(k->f, &y, TJ_NONE);
		k->done += st == TJ_OK;
		k->bad |= st != TJ_OK && st != TJ_ERR_STATE; /* another context wrote it meanwhile: nothing is committed */
		tj_check(c);
		tj_pop(s);
	}
	tj_close(c);
	return NULL;
}

/* No commit is lost, none happens twice. */
static void commits(void **s)
{
	(void)s;
	enum { N = 4 };
	tj_ctx *c = kit_open();
	tj_tensor *cell = kit_param(c, 0);
	counter k[N];
	pthread_t t[N];
	tj_fn *f = kit_fn(c, "count", count_body, &cell, 0, 1);
	for (int i = 0; i < N; i++) {
		k[i] = (counter){ .parent = c, .f = f };
		assert_int_equal(pthread_create(&t[i], NULL, count, &k[i]), 0);
	}
	for (int i = 0; i < N; i++) {
		pthread_join(t[i], NULL);
		assert_false(k[i].bad);
		assert_int_equal(k[i].done, ADDS);
	}
	assert_f32(cell, N * ADDS);
	kit_ok(c);
	tj_close(c);
}

/* A cell is written while others read it: they see one content or the other. */
enum { LONG = 4096 };
static void sum_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	tj_tensor *cell = *(tj_tensor **)self;
	out[0] = tj_sub(tj_amax(cell, TJ_ALL, false), tj_amin(cell, TJ_ALL, false));
}

static void *read_on(void *p)
{
	counter *k = p;
	tj_ctx *c = kit_clone(k->parent);
	for (int i = 0; i < 200; i++) {
		tj_scope *s = tj_push(c);
		k->bad |= *(const float *)tj_data(tj_call1(k->f, TJ_NONE)) != 0;
		tj_pop(s);
	}
	k->bad |= tj_check(c) != TJ_OK;
	tj_close(c);
	return NULL;
}

static void write_while_read(void **s)
{
	(void)s;
	static float v[2][LONG];
	tj_ctx *c = kit_open();
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(LONG));
	counter k[2];
	pthread_t t[2];
	tj_fn *f = kit_fn(c, "sum", sum_body, &cell, 0, 1);
	for (int i = 0; i < LONG; i++) v[1][i] = 1;
	for (int i = 0; i < 2; i++) {
		k[i] = (counter){ .parent = c, .f = f };
		assert_int_equal(pthread_create(&t[i], NULL, read_on, &k[i]), 0);
	}
	for (int i = 0; i < 400; i++) assert_int_equal(tj_write(cell, v[i % 2], sizeof v[0]), TJ_OK);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], NULL);
		assert_false(k[i].bad);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- small stacks ---- */
enum { SMALL_STACK = 64 << 10, DEEP = 300, WIDE_B = 1024 };
static void deep_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
	for (int i = 0; i < DEEP; i++) out[0] = tj_add(tj_mul(out[0], in[0]), tj_f(0.5));
	out[1] = tj_sum(out[0], TJ_ALL, false);
}

static void product_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], in[1]);
}

static void count_line(void *self, const char *line)
{
	(void)line;
	++*(int *)self;
}

/* Compiles with all log topics, has hits, and a product by strips, whose sums are on the stack if it has room; then explains and
 * dumps the function. */
static void *on_small_stack(void *p)
{
	job *j = p;
	tj_ctx *c = kit_clone(j->parent);
	tj_fn *deep = kit_fn(c, "deep", deep_body, NULL, 1, 2), *product = kit_fn(c, "product", product_body, NULL, 2, 1);
	for (int i = 0; i < 3; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *out[2] = { NULL };
		j->bad += tj_call(deep, out, TJ_LIST(F32(c, 0, 0, 0))) != TJ_OK || tj_item(out[1]) != 1.5;
		tj_tensor *a = tj_full(TJ_F32, TJ_SHAPE(1, WIDE_B), tj_f(1)), *b = tj_full(TJ_F32, TJ_SHAPE(WIDE_B, WIDE_B), tj_f(2));
		j->bad += *(const float *)tj_data(tj_call1(product, TJ_LIST(a, b))) != 2 * WIDE_B;
		tj_pop(s);
	}
	char *told = kit_explain(deep);
	j->bad += !strstr(told, "segment 0");
	free(told);
	for (int what = TJ_DUMP_GRAPH; what <= TJ_DUMP_SYMBOLS; what++) free(kit_dump(deep, (tj_dump_what)what));
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr), j->bad++;
	tj_fn_free(deep);
	tj_fn_free(product);
	tj_close(c);
	return NULL;
}

static void small_stacks(void **s)
{
	(void)s;
	if (SANITIZED) SKIP("frames are several times as large under a sanitizer");
	int lines = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .log = "all", .log_to = count_line, .log_self = &lines));
	job j = { .parent = c };
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	assert_int_equal(pthread_attr_setstacksize(&a, SMALL_STACK), 0);
	assert_int_equal(pthread_create(&t, &a, on_small_stack, &j), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&a);
	assert_int_equal(j.bad, 0);
	assert_true(lines > 10);
	kit_ok(c);
	tj_close(c);
}

/* ---- a thread that is to be cancelled ---- */
static void twice_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[0]);
}

static void *called_when_cancelled(void *p)
{
	job *j = p;
	tj_ctx *c = kit_clone(j->parent);
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(4), tj_f(2));
	pthread_cancel(pthread_self());
	j->bad = tj_item(tj_sum(tj_call1(j->f, TJ_LIST(x)), TJ_ALL, false)) != 16;
	tj_close(c);
	pthread_testcancel();
	j->bad++;
	return NULL;
}

static void write_line(void *self, const char *line)
{
	fprintf(self, "%s\n", line);
	fflush(self);
	pthread_testcancel();
}

/* The thread ends where the program says, not inside a call with a lock held: other threads go on. */
static void cancelled(void **s)
{
	(void)s;
#ifdef __SANITIZE_ADDRESS__
	SKIP("gcc 12's address sanitizer reports the end of a thread that is cancelled");
#endif
	char folder[] = "/tmp/tj_cancel_XXXXXX", command[64];
	assert_non_null(mkdtemp(folder));
	FILE *null = fopen("/dev/null", "w");
	for (int way = 0; way < 3; way++) { /* alone, with a log, with dumps */
		tj_open_opts o = { .size = sizeof o, .backend = kit_backend };
		if (way == 1) o.log = "all", o.log_to = write_line, o.log_self = null;
		if (way == 2) o.dump = folder;
		tj_ctx *c = tj_open(&o);
		job j = { .parent = c, .f = kit_fn(c, "twice", twice_body, NULL, 1, 1), .bad = 1 };
		pthread_t t;
		void *end = NULL;
		assert_int_equal(pthread_create(&t, NULL, called_when_cancelled, &j), 0);
		pthread_join(t, &end);
		assert_int_equal(j.bad, 0);
		assert_true(end == PTHREAD_CANCELED);
		assert_f32(tj_call1(j.f, TJ_LIST(F32(c, 1, 2, 3))), 2, 4, 6);
		kit_ok(c);
		tj_close(c);
	}
	fclose(null);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	assert_int_equal(system(command), 0);
}

/* ---- lifetimes ---- */
static void *make_and_free(void *p)
{
	tj_ctx *c = kit_clone(p);
	tj_tensor *t = tj_retain(F32(c, 1, 2, 3));
	tj_close(c);
	return t;
}
static void handed_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		void *kept;
		assert_int_equal(pthread_create(&t, NULL, make_and_free, c), 0);
		pthread_join(t, &kept);
		assert_f32(tj_neg(kept), -1, -2, -3); /* outlives the context that made it */
		tj_release(kept);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- fork while other threads compile: the child may do what the parent may ---- */
static bool child_works(tj_ctx *c, tj_fn *f, tj_tensor *w, tj_tensor *x)
{
	bool ok = true;
	float *seven = (float[]){ 7 };
	const float *y = tj_data(tj_call1(f, TJ_LIST(x))); /* a hit */
	ok &= y[0] == 28;
	y = tj_data(tj_call1(f, TJ_LIST(F32(c, 1, 2)))); /* a new key */
	ok &= y[0] == 4 && y[1] == 7;
	for (int n = 30; n < 33; n++) { /* new functions */
		tj_fn *g = kit_fn(c, "childs", other_body, &n, 1, 1);
		y = tj_data(tj_call1(g, TJ_LIST(F32(c, 1, 1, 0))));
		ok &= y[0] == (float)(n + 1) && y[2] == 1;
		tj_fn_free(g);
	}
	ok &= tj_item(tj_sum(tj_mul(x, tj_f(3)), TJ_ALL, false)) == 15; /* ops outside functions */
	ok &= tj_write(w, seven, sizeof *seven) == TJ_OK;
	y = tj_data(tj_call1(f, TJ_LIST(x)));
	ok &= y[0] == 32;
	tj_ctx *d = kit_clone(c);
	ok &= tj_item(tj_call1(f, TJ_LIST(F32(d, 2)))) == 11;
	tj_close(d);
	tj_ctx_use(c);
	FILE *null = fopen("/dev/null", "w");
	tj_explain(f, null);
	fclose(null);
	return ok && tj_check(c) == TJ_OK;
}

static void fork_meanwhile(int forks, int compilers)
{
	enum { MOST = 4 };
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3);
	tj_fn *f = kit_fn(c, "before", body, &w, 1, 1);
	compiler k[MOST];
	pthread_t t[MOST];
	tj_tensor *x = F32(c, 5);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(x)), 28);
	int status = 0;
	for (int i = 0; i < compilers; i++) start_compiler(&k[i], c, &t[i]);
	for (int i = 0; i < forks && !status; i++) {
		usleep(1500);
		pid_t pid = fork();
		if (!pid) {
			alarm(60);
			_exit(!child_works(c, f, w, x));
		}
		if (waitpid(pid, &status, 0) != pid) status = -1;
	}
	for (int i = 0; i < compilers; i++) stop_compiler(&k[i], t[i]); /* they use what is on this stack */
	assert_int_equal(status, 0);
	assert_f32(tj_call1(f, TJ_LIST(x)), 28); /* the children's cells were their own */
	kit_ok(c);
	tj_close(c);
}

static void fork_while_compiling(void **s)
{
	(void)s;
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer stops children of processes with threads");
#endif
#ifdef __SANITIZE_ADDRESS__
	SKIP("a child under gcc 12's address sanitizer may find the lock of its allocator taken");
#endif
	if (kit_elsewhere()) SKIP("a forked child cannot use the parent's GPU; test_programs forks meanwhile");
	fork_meanwhile(10, 3);
}

static void fork_alone(void **s)
{
	(void)s;
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer stops children of processes with threads");
#endif
	if (kit_elsewhere()) SKIP("a forked child cannot use the parent's GPU");
	fork_meanwhile(2, 0);
}

/* A pass forks: the thread is compiling itself. */
static tj_status forks(tj_graph *g, void *self)
{
	(void)g;
	int status = -1;
	pid_t pid = fork();
	if (!pid) _exit(7);
	*(bool *)self = waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7;
	return TJ_OK;
}
static void fork_in_a_pass(void **s)
{
	(void)s;
#ifdef __SANITIZE_THREAD__
	SKIP("the thread sanitizer stops children of processes with threads");
#endif
	bool done = false;
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3);
	const tj_pass list[] = { { "forks", forks, &done }, { 0 } };
	tj_fn *f = tj_compile(c, body, &w, TJ_OPTS(tj_compile_opts, .name = "forking", .nin = 1, .nout = 1, .passes = list));
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 5))), 28);
	assert_true(done);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_signature),
		cmocka_unit_test(many_signatures),
		cmocka_unit_test(evictions),
		cmocka_unit_test(direct),
		cmocka_unit_test(compile_meanwhile),
		cmocka_unit_test(free_while_running),
		cmocka_unit_test(commits),
		cmocka_unit_test(write_while_read),
		cmocka_unit_test(small_stacks),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(handed_back),
		cmocka_unit_test(fork_alone),
		cmocka_unit_test(fork_while_compiling),
		cmocka_unit_test(fork_in_a_pass),
	};
	KIT_RUN(tests);
}
