/* SPDX-License-Identifier: MIT */
/* Each call of the driver and of NVRTC fails once, in a process of its own: the error is clear, what succeeds is right, nothing is left
 * behind, and the CPU goes on. TEST_EACH=1: every call, not only the first two of each function, and those two with every code. */
#include "test/kit.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 96, CALLS = 8 /* so many that a graph is made and replayed */, LEFT = 5, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719 };
/* invalid value, out of memory, not initialized, no device, invalid image, invalid context, invalid handle, not found, ..., out of
 * resources, ..., unknown; of NVRTC other errors have these numbers */
static const int codes[] = { 999, 2, ILLEGAL_ADDRESS, 1, 3, 100, 200, 201, 400, 500, 701, LAUNCH_FAILED };
static const char *const functions[] = {
	"cuGetProcAddress",
	"cuInit",
	"cuDeviceGetCount",
	"cuDeviceGet",
	"cuDeviceGetAttribute",
	"cuGetErrorName",
	"cuDevicePrimaryCtxRetain",
	"cuCtxPushCurrent",
	"cuCtxPopCurrent",
	"cuMemAlloc",
	"cuMemFree",
	"cuMemHostAlloc",
	"cuMemFreeHost",
	"cuMemHostGetDevicePointer",
	"cuMemcpyHtoDAsync",
	"cuMemcpyDtoHAsync",
	"cuMemcpyDtoDAsync",
	"cuMemsetD8Async",
	"cuStreamCreate",
	"cuStreamDestroy",
	"cuStreamSynchronize",
	"cuStreamWaitEvent",
	"cuEventCreate",
	"cuEventDestroy",
	"cuEventRecord",
	"cuEventSynchronize",
	"cuModuleLoadData",
	"cuModuleUnload",
	"cuModuleGetFunction",
	"cuFuncSetAttribute",
	"cuLaunchKernel",
	"cuDriverGetVersion",
	"cuEventElapsedTime",
	"cuMemGetInfo",
	"cuPointerGetAttribute",
	"cuGraphCreate",
	"cuGraphAddKernelNode",
	"cuGraphInstantiateWithFlags",
	"cuGraphExecKernelNodeSetParams",
	"cuGraphLaunch",
	"cuGraphExecDestroy",
	"cuGraphDestroy",
	"nvrtcCreateProgram",
	"nvrtcDestroyProgram",
	"nvrtcCompileProgram",
	"nvrtcGetProgramLogSize",
	"nvrtcGetProgramLog",
	"nvrtcGetCUBINSize",
	"nvrtcGetCUBIN",
	"nvrtcGetNumSupportedArchs",
	"nvrtcGetSupportedArchs",
};

static void (*fake_left)(int left[LEFT]);
static int (*failures[2])(void);

static bool open_fake(void)
{
	void *library[2] = { dlopen("libcuda.so.1", RTLD_NOW), dlopen("libnvrtc.so.13", RTLD_NOW) };
	void *symbol = library[0] ? dlsym(library[0], "fake_left") : NULL;
	memcpy(&fake_left, &symbol, sizeof symbol);
	for (int i = 0; symbol && i < 2; i++) {
		void *f = library[i] ? dlsym(library[i], "fake_failures") : NULL;
		memcpy(&failures[i], &f, sizeof f);
	}
	return symbol && failures[1];
}

/* ---- what runs ---- */
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(cell, tj_i(1)));
	out[0] = tj_softmax(tj_softmax(tj_softmax(in[0], -1), 0), -1);
	out[1] = tj_add(tj_index_select(in[0], 0, in[1]), cell);
	out[2] = tj_transpose(in[0], 0, 1);
}

/* An error has a code, a message and a place; false: there was none. */
static bool told(tj_ctx *c)
{
	if (tj_check(c) == TJ_OK) return false;
	const tj_error *e = tj_last_error(c);
	if (!e || !e->message[0]) fprintf(stderr, "an error without a message\n"), _exit(2);
	if (getenv("TEST_TELL")) fprintf(stderr, "%s: %s: %s\n", e->site ? e->site : "", e->op ? e->op : "", e->message);
	return true;
}

/* A tensor that goes through pinned memory comes back as it was, or the copy has failed. */
static bool there_and_back(tj_ctx *c)
{
	enum { LARGE = 20000 };
	static float x[LARGE], y[LARGE];
	for (int i = 0; i < LARGE; i++) x[i] = (float)i;
	if (tj_read(tj_from_data(c, TJ_F32, TJ_SHAPE(LARGE), x), y, sizeof y) != TJ_OK) return false;
	if (memcmp(x, y, sizeof x)) fprintf(stderr, "a large tensor has changed\n"), _exit(2);
	return true;
}

/* The results of a call, and the cell after it. False: it failed, and said why. */
static bool call(tj_ctx *c, tj_fn *f, tj_tensor *cell, float y[3 * N + 1])
{
	static const int64_t pick[2] = { 1, 0 };
	float x[N];
	tj_scope *s = tj_push(c);
	for (int i = 0; i < N; i++) x[i] = (float)(i * 7 % 13) / 4;
	tj_tensor *out[3] = { NULL },
		  *in[3] = { tj_from_data(c, TJ_F32, TJ_SHAPE(3, N / 3), x), tj_from_data(c, TJ_I64, TJ_SHAPE(2), pick), TJ_END };
	memset(y, 0, (3 * N + 1) * sizeof *y);
	bool ok = tj_call(f, out, in) == TJ_OK;
	const size_t bytes[3] = { N * sizeof *y, 2 * N / 3 * sizeof *y, N * sizeof *y };
	for (int i = 0; ok && i < 3; i++) ok = tj_read(out[i], y + i * N, bytes[i]) == TJ_OK;
	ok = ok && tj_read(cell, y + 3 * N, sizeof *y) == TJ_OK;
	const bool copied = there_and_back(c);
	const bool why = told(c);
	if (!(ok && copied) && !why) fprintf(stderr, "a call failed without an error\n"), _exit(2);
	tj_pop(s);
	return ok && !why;
}

static int rounds(const char *device, float y[CALLS][3 * N + 1])
{
	int done = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	if (!c) return 0;
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_0D);
	tj_fn *f = tj_compile(c, body, &cell, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 2, .nout = 3));
	for (int i = 0; i < CALLS && cell && f; i++) done += call(c, f, cell, y[done]);
	told(c);
	tj_close(c);
	return done;
}

/* Exits with 0: nothing failed; 1: a failure was met well; 2: not. */
static void child(const int *most)
{
	static float want[CALLS][3 * N + 1], got[CALLS][3 * N + 1];
	int left[LEFT];
	alarm(60);
	const int n = rounds("cuda:0", got);
	if (rounds("cpu", want) != CALLS) fprintf(stderr, "the CPU computes no more\n"), _exit(2);
	for (int i = 0, calls = 0; i < n; i++) { /* the cell counts calls that succeeded, also when a read after them failed */
		const int k = (int)got[i][3 * N];
		if (k <= calls || k > CALLS || memcmp(got[i], want[k - 1], sizeof *got))
			fprintf(stderr, "result %d of %d is wrong, the cell is %g\n", i, n, (double)got[i][3 * N]), _exit(2);
		calls = k;
	}
	fake_left(left);
	for (int i = 0; most && i < LEFT; i++)
		if (left[i] > most[i]) fprintf(stderr, "of kind %d %d are left, %d without a failure\n", i, left[i], most[i]), _exit(2);
	const bool hit = failures[0]() + failures[1]() > 0;
	if (!hit && n != CALLS) fprintf(stderr, "%d of %d calls succeed though nothing fails\n", n, CALLS), _exit(2);
	if (!most) {
		const ssize_t k = write(3, left, sizeof left);
		_exit(k != (ssize_t)sizeof left);
	}
	_exit(hit);
}

static int run(const char *what, const int *most, int *left)
{
	int fd[2], status = 0;
	assert_int_equal(pipe(fd), 0);
	fflush(stdout);
	const pid_t pid = fork();
	if (!pid) {
		dup2(fd[1], 3);
		setenv("FAKE_CUDA_FAIL", what, 1);
		child(most);
	}
	close(fd[1]);
	if (left) assert_int_equal(read(fd[0], left, LEFT * sizeof *left), LEFT * (int)sizeof *left);
	close(fd[0]);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
		printf("FAKE_CUDA_FAIL=%s: %s\n", what, WIFEXITED(status) ? "see above" : strsignal(WTERMSIG(status)));
		return 2;
	}
	return WEXITSTATUS(status);
}

static bool gives_back(const char *f)
{
	return strstr(f, "Free") || strstr(f, "Destroy") || strstr(f, "Unload") || strstr(f, "Pop") || strstr(f, "Push");
}

/* The n-th call of a function fails with this code. */
static int one(const char *function, int n, int code, const int *left)
{
	static const int any[LEFT] = { 999, 999, 999, 999, 999 };
	char what[80];
	snprintf(what, sizeof what, "%s:%d:%d", function, n, code);
	return run(what, gives_back(function) || code == ILLEGAL_ADDRESS || code == LAUNCH_FAILED ? any : left, NULL);
}

static void each_call(void **state)
{
	enum { CODES = sizeof codes / sizeof *codes };
	const bool each = getenv("TEST_EACH") != NULL;
	int left[LEFT], bad = 0, met = 0;
	(void)state;
	if (!open_fake()) {
		printf("SKIP test_driver_fails: the CUDA that is found is not the fake one\n");
		return;
	}
	assert_int_equal(run("", NULL, left), 0);
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		for (int n = 1, hit = 1; (n <= 2 || each) && hit; n++)
			for (int k = 0; k < (each && n <= 2 ? CODES : 1) && hit; k++) {
				hit = one(functions[i], n, codes[((int)i + n + k) % CODES], left);
				bad += hit == 2;
				met += hit == 1;
			}
	printf("%d failures met\n", met);
	assert_int_equal(bad, 0);
	assert_true(met >= 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_call) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
