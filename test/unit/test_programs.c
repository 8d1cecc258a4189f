/* SPDX-License-Identifier: MIT */
/* Programs of a GPU that are compiled side by side, and forks meanwhile. The driver and NVRTC are those of test/fake. */
#include "test/kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEED_GPU() do { if (tj_find_device("cuda:0") <= 0) SKIP("no GPU and no fake of one"); } while (0)

/* Sums along rows and columns in turn: each is a kernel. n: other numbers, so other texts. */
enum { SUMS = 8 };
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	for (int i = 0; i < SUMS; i++) x = tj_sub(x, tj_mul(tj_sum(x, TJ_AXES(i % 2), true), tj_f(1.0 / (*(int *)self + i + 3))));
	out[0] = x;
}

static const float ones[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static tj_status compute(tj_ctx *c, int n, float y[12])
{
	tj_scope *s = tj_push(c);
	tj_tensor *out[1];
	tj_fn *f = kit_fn(c, "sums", body, &n, 1, 1);
	tj_status st = tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 4), ones)));
	if (st == TJ_OK) st = tj_read(out[0], y, 12 * sizeof *y);
	tj_fn_free(f);
	tj_pop(s);
	return st;
}

static void on_cpu(int n, float y[12])
{
	tj_ctx *c = tj_open(NULL);
	assert_int_equal(compute(c, n, y), TJ_OK);
	tj_close(c);
}

/* Modules that the fake driver has loaded; -1: a real one. */
static int modules(void)
{
	void (*left)(int *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *symbol = library ? dlsym(library, "fake_left") : NULL;
	int n[5];
	if (!symbol) return -1;
	memcpy(&left, &symbol, sizeof left);
	left(n);
	return n[4];
}

static void several_programs(void **s)
{
	float want[12], got[12];
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	int n = 0;
	tj_fn *f = kit_fn(c, "sums", body, &n, 1, 1);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 4), ones), *out[1];
	const int before = modules();
	assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
	const int loaded = modules() - before;
	assert_int_equal(tj_read(out[0], got, sizeof got), TJ_OK);
	on_cpu(0, want);
	assert_memory_equal(got, want, sizeof want);
	if (before >= 0) assert_int_equal(loaded, 2);
	tj_stats of = kit_stats(f);
	assert_true(of.kernels >= SUMS && of.compiled >= 4);
	char *code = kit_dump(f, TJ_DUMP_CODE); /* all kernels, the prelude once */
	int kernels = 0, preludes = 0;
	for (const char *at = code; (at = strstr(at, "__global__")); at++) kernels++;
	for (const char *at = code; (at = strstr(at, "#define TJ_UNROLL")); at++) preludes++;
	assert_true(kernels >= SUMS && preludes == 1);
	free(code);
	tj_fn_free(f);
	if (before >= 0) assert_int_equal(modules(), before);
	tj_close(c);
}

/* One of two programs is refused: an error, nothing is left, and the next call compiles both. */
static void one_fails(void **s)
{
	float want[12], got[12];
	(void)s;
	NEED_GPU();
	if (modules() < 0) SKIP("only the fake NVRTC fails when it is told to");
	on_cpu(100, want);
	for (int k = 0; k < 2; k++) {
		static const char *const fails[] = { "nvrtcCompileProgram:1:5",
			                             "nvrtcGetCUBIN:4:5" }; /* it counts on: two programs are compiled before */
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		const int before = modules();
		setenv("FAKE_CUDA_FAIL", fails[k], 1);
		const tj_status st = compute(c, 100, got);
		unsetenv("FAKE_CUDA_FAIL");
		assert_true(st != TJ_OK);
		kit_error(c, TJ_ERR_COMPILE, "NVRTC_ERROR");
		assert_int_equal(modules(), before);
		assert_int_equal(compute(c, 100, got), TJ_OK);
		assert_memory_equal(got, want, sizeof want);
		tj_close(c);
	}
}

/* ---- fork ---- */
static atomic_bool stop, bad;
static atomic_int made;
static void *compiles(void *unused)
{
	float y[12];
	(void)unused;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	for (int n = 200; !atomic_load(&stop); n = 200 + (n + 1) % 5) { /* the fake has compiled these texts before, after a while */
		if (compute(c, n, y) != TJ_OK) atomic_store(&bad, true);
		atomic_fetch_add(&made, 1);
	}
	tj_close(c);
	return NULL;
}

static void fork_while_compiling(void **s)
{
	pthread_t t;
	int status = 0;
	(void)s;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
	SKIP("sanitizers do not support the children of processes with threads");
#endif
	NEED_GPU();
	alarm(100); /* a deadlock */
	assert_int_equal(pthread_create(&t, NULL, compiles, NULL), 0);
	for (int i = 0; (i < 150 || atomic_load(&made) < 10) && !status; i++) {
		usleep(700);
		const pid_t pid = fork();
		if (!pid) {
			tj_ctx *c = tj_open(NULL);
			_exit(!(tj_item(tj_sum(F32(c, 1, 2, 3), TJ_ALL, false)) == 6 && tj_check(c) == TJ_OK));
		}
		if (waitpid(pid, &status, 0) != pid) status = -1;
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	alarm(0);
	assert_int_equal(status, 0);
	assert_false(atomic_load(&bad));
}

/* A forked child cannot use the parent's GPU, and is told so; the parent goes on. */
static void child_is_refused(void **s)
{
	float y[12], again[12];
	int status = -1;
	(void)s;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
	SKIP("sanitizers do not support the children of processes with threads");
#endif
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	assert_int_equal(compute(c, 300, y), TJ_OK);
	const pid_t pid = fork();
	if (!pid) {
		alarm(30);
		const bool refused = compute(c, 300, again) != TJ_OK;
		const bool told = tj_check(c) != TJ_OK && strstr(tj_last_error(c)->message, "forked process");
		if (!told) fprintf(stderr, "the child is told: %s\n", tj_last_error(c) ? tj_last_error(c)->message : "nothing");
		tj_ctx *d = tj_open(NULL); /* the CPU works */
		_exit(!(refused && told && tj_item(tj_sum(F32(d, 1, 2, 3), TJ_ALL, false)) == 6));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(compute(c, 300, again), TJ_OK);
	assert_memory_equal(again, y, sizeof y);
	tj_close(c);
}

int main(void)
{
	setenv("TJ_THREADS", "2", 1); /* so many programs */
	const struct CMUnitTest tests[] = { cmocka_unit_test(several_programs), cmocka_unit_test(one_fails),
		                            cmocka_unit_test(fork_while_compiling), cmocka_unit_test(child_is_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
