/* SPDX-License-Identifier: MIT */
/* The CUDA of test/fake itself: each thing that it must find is done once, in a child process, and so is what it must let pass. */
#include "test/kit.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long address;
#define DRIVER(X)                                                                                                                       \
	X(cuInit, (unsigned)) X(cuDeviceGet, (int *, int)) X(cuDevicePrimaryCtxRetain, (void **, int)) X(cuCtxPushCurrent, (void *))        \
	X(cuCtxPopCurrent, (void **)) X(cuMemAlloc, (address *, size_t)) X(cuMemFree, (address)) X(cuStreamCreate, (void **, unsigned))     \
	X(cuStreamSynchronize, (void *)) X(cuStreamWaitEvent, (void *, void *, unsigned)) X(cuEventCreate, (void **, unsigned))             \
	X(cuEventRecord, (void *, void *)) X(cuMemsetD8Async, (address, unsigned char, size_t, void *))                                     \
	X(cuMemcpyDtoHAsync, (void *, address, size_t, void *)) X(cuMemcpyDtoDAsync, (address, address, size_t, void *))                    \
	X(cuMemcpyHtoDAsync, (address, const void *, size_t, void *)) X(cuMemHostAlloc, (void **, size_t, unsigned))                        \
	X(cuModuleLoadData, (void **, const void *)) X(cuModuleUnload, (void *)) X(cuModuleGetFunction, (void **, void *, const char *))    \
	X(cuFuncSetAttribute, (void *, int, int))                                                                                           \
	X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))
/* clang-format off */
#define NVRTC(X) \
	X(nvrtcCreateProgram, (void **, const char *, const char *, int, const char *const *, const char *const *)) \
	X(nvrtcDestroyProgram, (void **)) X(nvrtcCompileProgram, (void *, int, const char *const *)) \
	X(nvrtcGetCUBINSize, (void *, size_t *)) X(nvrtcGetCUBIN, (void *, char *))
/* clang-format on */

static struct {
#define X(name, params) int (*name) params;
	DRIVER(X) NVRTC(X)
#undef X
} cu;

/* False: what dlopen() finds is not the fake. */
static bool open_fake(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *nvrtc = dlopen("libnvrtc.so.13", RTLD_NOW), *symbol;
	int (*get)(const char *, void **, int, unsigned long long, void *) = NULL;
	if (!driver || !nvrtc || !dlsym(driver, "fake_left")) return false;
	symbol = dlsym(driver, "cuGetProcAddress_v2");
	memcpy(&get, &symbol, sizeof get);
#define X(name, params)                                                                                                \
	assert_int_equal(get(#name, &symbol, 12000, 0, NULL), 0);                                                          \
	memcpy(&cu.name, &symbol, sizeof symbol);
	DRIVER(X)
#undef X
#define X(name, params)                                                                                                \
	symbol = dlsym(nvrtc, #name);                                                                                      \
	memcpy(&cu.name, &symbol, sizeof symbol);
	NVRTC(X)
#undef X
	return true;
}

static int skipped(void)
{
	if (open_fake()) return 0;
	printf("SKIP test_fake: the CUDA that is found is not the fake one\n");
	return 1;
}

/* ---- a kernel with a body ---- */
static void *make(const char *body, int arch, int threads, void **module)
{
	char text[4096], target[40];
	const char *const options[] = { target };
	void *p, *f;
	size_t bytes;
	snprintf(target, sizeof target, "--gpu-architecture=sm_%d", arch);
	snprintf(
		text, sizeof text,
		"extern __shared__ __align__(16) char tj_shared[];\nstruct k_args { float *a; long long n; };\n"
		"extern \"C\" __global__ void __launch_bounds__(%d) k(const __grid_constant__ k_args a)\n{\nconst int t = threadIdx.x, n = (int)a.n; "
		"float *const s = (float *)tj_shared;\n%s\n}\n",
		threads, body);
	assert_int_equal(cu.nvrtcCreateProgram(&p, text, "t.cu", 0, NULL, NULL), 0);
	assert_int_equal(cu.nvrtcCompileProgram(p, 1, options), 0);
	assert_int_equal(cu.nvrtcGetCUBINSize(p, &bytes), 0);
	char *cubin = malloc(bytes);
	assert_int_equal(cu.nvrtcGetCUBIN(p, cubin), 0);
	cu.nvrtcDestroyProgram(&p);
	const int code = cu.cuModuleLoadData(module, cubin);
	if (code) fprintf(stderr, "cuModuleLoadData gives %d\n", code), _exit(1);
	assert_int_equal(cu.cuModuleGetFunction(&f, *module, "k"), 0);
	free(cubin);
	return f;
}

static void *stream;
static address memory;                  /* 64 floats */

static void begin(void)
{
	void *context;
	assert_int_equal(cu.cuInit(0), 0);
	assert_int_equal(cu.cuDevicePrimaryCtxRetain(&context, 0), 0);
	assert_int_equal(cu.cuCtxPushCurrent(context), 0);
	assert_int_equal(cu.cuStreamCreate(&stream, 1), 0);
	assert_int_equal(cu.cuMemAlloc(&memory, 64 * sizeof(float)), 0);
}

static int launch(void *f, unsigned blocks, unsigned threads, unsigned shared)
{
	struct { address a; long long n; } args = { memory, 64 };
	void *param = &args;
	return cu.cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, shared, stream, &param, NULL);
}

/* Runs f in a child; gives what it wrote to stderr, and whether it ended by itself. */
static bool ends_well(void (*f)(const void *), const void *arg, char *said, size_t size)
{
	int fd[2], status = 0;
	assert_int_equal(pipe(fd), 0);
	fflush(stdout);
	const pid_t child = fork();
	if (!child) {
		dup2(fd[1], 2);
		signal(SIGABRT, SIG_DFL);
		f(arg);
		_exit(0);
	}
	close(fd[1]);
	size_t n = 0;
	for (ssize_t k; (k = read(fd[0], said + n, size - 1 - n)) > 0;) n += (size_t)k;
	said[n] = 0;
	close(fd[0]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* found: a part of the message; NULL: nothing may be found. */
static void expect(void (*f)(const void *), const void *arg, const char *found, const char *what)
{
	char said[2000];
	const bool well = ends_well(f, arg, said, sizeof said);
	if (well != !found || (found && !strstr(said, found)))
		fail_msg("%s: \"%s\" expected, it says \"%s\"", what, found ? found : "nothing", said);
}

/* ---- kernels ---- */
static void run_body(const void *body)
{
	void *module;
	begin();
	void *f = make(body, 90, 64, &module);
	if (launch(f, 2, 64, 256) || cu.cuStreamSynchronize(stream)) _exit(1);
}

static void kernels(void **state)
{
	(void)state;
	static const struct { const char *body, *found; } cases[] = {
		{ "s[t] = 1; __syncthreads(); if (blockIdx.x == 0) a.a[t] = s[63 - t];", NULL },
		{ "s[t] = 1; if (blockIdx.x == 0) a.a[t] = s[63 - t];", "a race" },
		{ "s[0] = 1;", "a race" },
		{ "a.a[t] = 1;", "another block" },
		{ "if (blockIdx.x == 0) a.a[t] = 1; else s[t] = a.a[63 - t];", "another block" },
		{ "s[t] = 1; const float x = __shfl_sync(~0u, 1.0f, 0); s[t ^ 1] = x;", "a race" }, /* a shuffle orders no memory */
		{ "s[t] = 1; __syncwarp(); s[t ^ 1] = 2;", NULL },
		{ "s[t] = 1; __syncwarp(); s[t ^ 32] = 2;", "a race" },
		{ "if (s[t] > s[t ^ 1]) a.n; __syncwarp(); s[t] = 2;", NULL },
		{ "if (s[t] > s[t ^ 32]) a.n; __syncwarp(); s[t] = 2;", "a race" },
		{ "if (blockIdx.x == 0) a.a[t + 1] = 1;", "not inside of one allocation" },
		{ "if (blockIdx.x == 0) a.a[t - 1] = 1;", "not inside of one allocation" },
		{ "s[t + 1] = 1;", "beyond the shared memory" },
		{ "if (t == 0) { const uint4 v = { 1, 2, 3, 4 }; *(uint4 *)(s + 1) = v; }", "which is not a multiple" },
		{ "if (t < 16) __shfl_sync(~0u, t, 0);", "reach a shuffle" },
		{ "if (t % 32 < 16) __shfl_sync(~0u, t, 0); else __shfl_sync(~0u, t, 1);", "not at the same" },
		{ "__shfl_sync(0xffffu, t, 0);", "with the mask" },
		{ "if (t < 32) __syncthreads();", "barrier" },
		{ "if (t < 32) __syncthreads(); else __syncthreads();", "not at the same" },
		{ "s[t] = (float)(1 << n);", "a shift" },
		{ "s[t] = (float)(0x7fffffff + n);", "an addition overflows" },
		{ "s[t] = (float)(7 / (n - 64));", "a division by 0" },
		{ "s[t] = (float)(int)(1e10f * n);", "a float beyond the range" },
		{ "int x[4] = { 1, 2, 3, 4 }; s[t] = x[n / 16];", "an index beyond an array" },
		{ "atomicCAS((unsigned long long *)a.a, 0ull, 1ull);", NULL },
	};
	if (skipped()) return;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect(run_body, cases[i].body, cases[i].found, cases[i].body);
}

/* ---- work and memory ---- */
static void free_early(const void *arg)
{
	(void)arg;
	begin();
	cu.cuMemsetD8Async(memory, 1, 64, stream);
	cu.cuMemFree(memory);
}

static void free_in_time(const void *arg)
{
	(void)arg;
	begin();
	cu.cuMemsetD8Async(memory, 1, 64, stream);
	cu.cuStreamSynchronize(stream);
	if (cu.cuMemFree(memory) || cu.cuMemFree(memory) != 1) _exit(1);
}

static void use_freed(const void *arg)
{
	void *module, *f;
	begin();
	f = make(arg, 90, 64, &module);
	cu.cuMemFree(memory);
	launch(f, 1, 64, 0);
	cu.cuStreamSynchronize(stream);
}

static void unload_early(const void *arg)
{
	void *module, *f;
	begin();
	f = make(arg, 90, 64, &module);
	launch(f, 1, 64, 0);
	cu.cuModuleUnload(module);
}

static void copy_host(const void *arg)
{
	float x[4];
	(void)arg;
	begin();
	cu.cuMemcpyDtoDAsync(memory, (address)(uintptr_t)x, sizeof x, stream);
	cu.cuStreamSynchronize(stream);
}

static void touch(const void *arg)
{
	(void)arg;
	begin();
	signal(SIGSEGV, SIG_DFL);
	*(volatile float *)(uintptr_t)memory = 1;
}

/* Two streams and no event: with some seed the copy comes first. */
static void two_streams(const void *arg)
{
	void *other, *event, *pinned;
	const bool waits = arg;
	for (int seed = 0; seed < 12; seed++) {
		char s[12];
		unsigned char byte = 0;
		snprintf(s, sizeof s, "%d", seed);
		setenv("FAKE_CUDA_SEED", s, 1);
		if (!seed) begin();
		cu.cuStreamCreate(&other, 1);
		cu.cuEventCreate(&event, 0);
		cu.cuMemsetD8Async(memory, (unsigned char)(seed + 1), 256, stream);
		cu.cuEventRecord(event, stream);
		if (waits) cu.cuStreamWaitEvent(other, event, 0);
		cu.cuMemcpyDtoHAsync(&byte, memory, 1, other);
		if (byte != seed + 1) fprintf(stderr, "stale\n"), _exit(1);
	}
	/* pinned memory is read when the copy runs */
	setenv("FAKE_CUDA_SEED", "0", 1);
	float x = 0;
	cu.cuMemHostAlloc(&pinned, 4, 0);
	*(float *)pinned = 1;
	cu.cuMemcpyHtoDAsync(memory, pinned, 4, stream);
	*(float *)pinned = 2;
	cu.cuMemcpyDtoHAsync(&x, memory, 4, stream);
	if (x != 2) _exit(1);
}

static void work(void **state)
{
	(void)state;
	static const char body[] = "if (blockIdx.x == 0) a.a[t] = 1;";
	if (skipped()) return;
	expect(free_early, NULL, "is freed, but a fill uses it", "free with work");
	expect(free_in_time, NULL, NULL, "free after a wait");
	expect(use_freed, body, "were freed", "use after free");
	expect(unload_early, body, "is unloaded, but a kernel runs", "unload with work");
	expect(copy_host, NULL, "an address of the host", "a copy from the host's memory");
	expect(touch, NULL, "", "the host writes the device's memory");
	expect(two_streams, NULL, "stale", "two streams without an event");
	expect(two_streams, "waits", NULL, "two streams with an event");
}

/* ---- what is refused ---- */
#define GIVES(code, call)                                                                                              \
	do {                                                                                                               \
		const int got_ = (call);                                                                                       \
		if (got_ != (code)) fprintf(stderr, "%s gives %d, not %d\n", #call, got_, code), _exit(1);                     \
	} while (0)

static void limits_of(const void *arg)
{
	enum { DYNAMIC = 8 };
	const int arch = *(const int *)arg, most = arch == 80 ? 163 << 10 : arch == 90 ? 227 << 10 : 99 << 10;
	struct { address a; long long n; } args = { 0, 64 };
	void *module, *context, *param = &args, *s;
	char name[8];
	snprintf(name, sizeof name, "%d", arch);
	setenv("FAKE_CUDA_ARCH", name, 1);
	GIVES(3, cu.cuMemAlloc(&memory, 4)); /* not initialized */
	begin();
	void *f = make("a.n;", arch, 256, &module);
	GIVES(0, launch(f, 1, 256, 48 << 10));
	GIVES(1, launch(f, 1, 256, (48 << 10) + 1));
	GIVES(1, cu.cuFuncSetAttribute(f, DYNAMIC, most + 1));
	GIVES(0, cu.cuFuncSetAttribute(f, DYNAMIC, most));
	GIVES(0, launch(f, 1, 256, (unsigned)most));
	GIVES(1, launch(f, 1, 256, (unsigned)most + 1));
	GIVES(1, launch(f, 0, 256, 0));
	GIVES(1, launch(f, 1, 0, 0));
	GIVES(1, launch(f, 1, 2048, 0));
	GIVES(701, launch(f, 1, 512, 0));    /* more than the launch bounds */
	GIVES(0, launch(f, 70000, 64, 0));
	GIVES(1, cu.cuLaunchKernel(f, 1, 65536, 1, 64, 1, 1, 0, stream, &param, NULL));
	GIVES(1, cu.cuLaunchKernel(f, 1, 1, 65536, 64, 1, 1, 0, stream, &param, NULL));
	GIVES(400, cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, &param, NULL));
	GIVES(400, cu.cuStreamSynchronize(NULL));
	GIVES(1, cu.cuMemAlloc(&memory, 0));
	GIVES(2, cu.cuMemAlloc(&memory, (size_t)1 << 40));
	GIVES(500, cu.cuModuleGetFunction(&f, module, "none"));
	GIVES(0, cu.cuCtxPopCurrent(&context));
	GIVES(201, cu.cuMemAlloc(&memory, 4));
	GIVES(201, cu.cuStreamCreate(&s, 1));
}

static void wrong_arch(const void *arg)
{
	void *module;
	begin();
	setenv("FAKE_CUDA_ARCH", "80", 1);
	make(arg, 90, 64, &module);
}

static int compile(const char *text, const char *option)
{
	void *p;
	const char *const options[] = { "--gpu-architecture=sm_90", option };
	assert_int_equal(cu.nvrtcCreateProgram(&p, text, "t.cu", 0, NULL, NULL), 0);
	const int code = cu.nvrtcCompileProgram(p, option ? 2 : 1, options);
	cu.nvrtcDestroyProgram(&p);
	return code;
}

static void refusals(void **state)
{
	static const int archs[] = { 80, 90, 120 };
	(void)state;
	if (skipped()) return;
	for (int i = 0; i < 3; i++) expect(limits_of, &archs[i], NULL, "limits");
	expect(wrong_arch, "a.n;", "gives 209", "a cubin of another GPU");
	assert_int_equal(
		compile("struct k_args { char x[32768]; };\nextern \"C\" __global__ void __launch_bounds__(64) k(const __grid_constant__ k_args a) {}\n",
	                NULL),
		6);
	assert_int_equal(
		compile("struct k_args { char x[4104]; };\nextern \"C\" __global__ void __launch_bounds__(64) k(const __grid_constant__ k_args a) {}\n",
	                NULL),
		0);
	assert_int_equal(compile("#include <math.h>\n", NULL), 6);
	assert_int_equal(compile("int x;\n", "--no-such-option"), 5);
	assert_int_equal(compile("__device__ int x;\n", "--fmad=false"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(kernels), cmocka_unit_test(work), cmocka_unit_test(refusals) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
