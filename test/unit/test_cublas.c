/* SPDX-License-Identifier: MIT */
/* Matrix products on a GPU by cuBLASLt. The driver, NVRTC and cuBLASLt are those of test/fake, which compute on the CPU; this program finds
 * them first. With LD_LIBRARY_PATH set to the folders of the real ones it runs on a GPU; tests that count what the fake did are then
 * left out. */
#include "runtime/bytes.h"
#include "test/unit/layouts.h"
#include "test/unit/products.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self_path; /* of this program */

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }

/* ---- layouts ---- */
static void layouts(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_I32 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		job j = { .body = layouts_body,
			  .nin = 2,
			  .nout = LAYOUTS,
			  .dtype = types[t],
			  .dim = { { 4, 6, 8, -1 }, { 4, 8, 6, -1 } },
			  .mode = t & 1 ? TJ_DIRECT : TJ_VERIFY };
		same(j);
	}
}

/* Kernels before and after products, in one plan. */
static void chain_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_relu(tj_add(tj_matmul(tj_neg(in[0]), in[1]), tj_f(1)));
	out[0] = tj_sum(tj_matmul(h, tj_transpose(in[1], 0, 1)), TJ_AXES(1), false);
	out[1] = h;
}

static void between_kernels(void **s)
{
	(void)s;
	NEED_GPU();
	same((job){ .body = chain_body, .nin = 2, .nout = 2, .dtype = TJ_F32, .dim = { { 5, 7, -1 }, { 7, 5, -1 } } });
	same((job){ .body = chain_body, .nin = 2, .nout = 2, .dtype = TJ_F32, .dim = { { 5, 7, -1 }, { 7, 5, -1 } }, .mode = TJ_DIRECT });
	same((job){ .body = chain_body,
	            .nin = 2,
	            .nout = 2,
	            .dtype = TJ_F32,
	            .dim = { { 5, 290, -1 }, { 290, 5, -1 } } }); /* with a workspace beside temporaries */
}

/* A convolution becomes a product, so audit may not ask for its bits: cuBLASLt adds 0 to the -0 that the evaluator has. */
static void convolve(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_conv1d(in[0], in[1], NULL, NULL);
	out[1] = tj_conv_transpose1d(in[0], in[1], NULL, NULL);
}
static void convolutions_are_near(void **s)
{
	(void)s;
	NEED_GPU();
	const float x[] = { 0x1p-149f, 1, 2 }, w[] = { -0x1p-18f };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .audit = 1));
	for (int direct = 0; direct < 2; direct++) {
		tj_fn *f =
			tj_compile(c, convolve, NULL,
		                   TJ_OPTS(tj_compile_opts, .name = "near", .nin = 2, .nout = 2, .mode = direct ? TJ_DIRECT : TJ_VERIFY));
		for (int call = 0; call < 3; call++) {
			tj_tensor *out[2];
			assert_int_equal(tj_call(f, out,
			                         TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1, 3), x),
			                                 tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1, 1), w))),
			                 TJ_OK);
			for (int i = 0; i < 2; i++) assert_float_equal(((const float *)tj_data(out[i]))[1], -0x1p-18f, 0);
		}
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- sizes ---- */
static void without_elements(void **s)
{
	static const int64_t size[][3] = { { 3, 4, 0 }, { 0, 4, 5 }, { 3, 0, 5 }, { 0, 0, 0 } }; /* m, n, k */
	(void)s;
	NEED_GPU();
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		const int64_t m = size[i][0], n = size[i][1], k = size[i][2];
		same((job){ .body = product, .nin = 2, .nout = 1, .dtype = i & 1 ? TJ_F16 : TJ_F32, .dim = { { m, k, -1 }, { k, n, -1 } } });
		same((job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_F64, .dim = { { 2, m, k, -1 }, { k, n, -1 } } });
	}
	same((job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 0, 3, 4, -1 }, { 0, 4, 2, -1 } } });
	same((job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2, 3, 0, -1 }, { 2, 0, 2, -1 } } });
}

static void of_one(void **s)
{
	(void)s;
	NEED_GPU();
	for (int i = 0; i < 8; i++) {
		const int64_t m = i & 1 ? 1 : 3, n = i & 2 ? 1 : 4, k = i & 4 ? 1 : 5;
		same((job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2, m, k, -1 }, { 2, k, n, -1 } } });
		same((job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_BF16, .dim = { { 2, m, k, -1 }, { k, n, -1 } } });
	}
}

/* One trace for all numbers of rows. */
static void any_number_of_rows(void **s)
{
	static result want, got;
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0")), *h = tj_open(TJ_OPTS(tj_open_opts, .device = "cpu"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "rows", .nin = 2, .nout = 1, .dynamic = TJ_DYNAMIC_ON));
	tj_fn *g = tj_compile(h, product, NULL, TJ_OPTS(tj_compile_opts, .name = "rows", .nin = 2, .nout = 1));
	for (int m = 2; m < 20; m += 3) {
		const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { m, 9, -1 }, { 9, 4, -1 } } };
		run(c, f, &j, &got);
		run(h, g, &j, &want);
		assert_memory_equal(got.byte[0], want.byte[0], want.bytes[0]);
	}
	kit_ok(c);
	tj_close(c);
	tj_close(h);
}

/* ---- accuracy ---- */
/* Each element is within the bound of a sum of k products in any order, and of one rounding of the result. */
static void near_f64(void **s)
{
	enum { M = 9, N = 11, K = 700 };
	static const struct {
		tj_dtype t;
		double sum, result;
	} types[] = {
		{ TJ_F32, 0x1p-24, 0x1p-24 }, { TJ_F64, 0x1p-53, 0x1p-53 }, { TJ_F16, 0x1p-24, 0x1p-11 }, { TJ_BF16, 0x1p-24, 0x1p-8 }
	};
	static char a[M * K * 8], b[K * N * 8];
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		const tj_dtype d = types[t].t;
		const job j = { .body = product, .nin = 2, .nout = 1, .dtype = d, .dim = { { M, K, -1 }, { K, N, -1 } }, .fractions = true };
		result *r = on("cuda:0", &j, 1);
		fill(d, a, M * K, 3, false);
		fill(d, b, K * N, 4, false);
		for (int row = 0; row < M; row++)
			for (int col = 0; col < N; col++) {
				double want = 0, size = 0, lost = 0;
				for (int k = 0; k < K; k++) {
					const double p = load(d, a, row * K + k) * load(d, b, k * N + col), y = p - lost, sum = want + y;
					lost = sum - want - y; /* compensated: the reference is exact enough for f64, too */
					want = sum;
					size += fabs(p);
				}
				const double got = load(d, r->byte[0], row * N + col), bound = K * types[t].sum * size + types[t].result * fabs(want);
				if (!(fabs(got - want) <= bound)) fail_msg("dtype %d: %g is not within %g of %g", d, got, bound, want);
			}
		free(r);
	}
}

/* ---- what is explained ---- */
static void note(void *self, const tj_reason *n)
{
	char *to = self;
	if (!strcmp(n->kind, "library") || !strcmp(n->kind, "device")) snprintf(to + strlen(to), 600 - strlen(to), "%s: %s\n", n->kind, n->text);
}

static void is_explained(void **s)
{
	static result r;
	(void)s;
	NEED_GPU();
	char told[600] = "";
	const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 4, 5, -1 }, { 5, 6, -1 } } },
		  whole = { .nin = 2, .nout = 1, .dtype = TJ_I32, .dim = { { 4, 5, -1 }, { 5, 6, -1 } } };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1, .on_note = note, .on_note_self = told));
	run(c, f, &j, &r);
	assert_non_null(strstr(told, "matmul is computed by cublasLt"));
	char *text = kit_explain(f);
	if (!strstr(text, "is computed by cublasLt 1") || !strstr(text, ", algorithm ") || !strstr(text, "full f32, without TF32"))
		fail_msg("%s", text);
	free(text);
	run(c, f, &whole, &r);
	if (!strstr(told, "library: p: matmul is computed by a kernel: cuBLASLt has no products of integers")) fail_msg("%s", told);
	tj_close(c);
}

/* ---- what is missing, or fails ---- */
/* By a kernel where the library is known to be missing before the plan is made, else by the CPU. */
static void check_without(const char *part)
{
	static result r;
	static char told[600];
	const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2, 3, 5, -1 }, { 2, 5, 6, -1 } } };
	result *want = on("cpu", &(job){ .body = product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2, 3, 5, -1 }, { 2, 5, 6, -1 } } }, 1);
	told[0] = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1, .on_note = note, .on_note_self = told));
	for (int i = 0; i < 3; i++) run(c, f, &j, &r);
	assert_memory_equal(r.byte[0], want->byte[0], want->bytes[0]);
	char *text = kit_explain(f);
	const char *by = strstr(part, "TJ_CUBLASLT") || strstr(part, "is not there") ? "is computed by a kernel" : "is computed by the CPU";
	if (!strstr(text, by) || !strstr(text, part)) fail_msg("\"%s\", \"%s\" are not in %s", by, part, text);
	free(text);
	free(want);
	kit_ok(c);
	tj_close(c);
}

/* Runs main() with an argument in a process of its own; returns its exit status. */
static int in_a_process(const char *argument, const char *name, const char *value)
{
	int status = -1;
	const pid_t pid = fork();
	if (!pid) {
		setenv(name, value, 1);
		execl(self_path, self_path, argument, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void is_missing(void **s)
{
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	assert_int_equal(in_a_process("TJ_CUBLASLT=off", "TJ_CUBLASLT", "off"), 0);
	static const char *const told[][2] = {
		{ "cublasLtCreate:1", "cublasLtCreate gives CUBLAS_STATUS_NOT_INITIALIZED" },
		{ "cublasLtMatmulAlgoGetHeuristic:15", "no algorithm for it: CUBLAS_STATUS_NOT_SUPPORTED" },
		{ "cublasLtMatmul:15", "CUBLAS_STATUS_NOT_SUPPORTED" },
		{ "cublasLtMatrixLayoutCreate:3", "CUBLAS_STATUS_ALLOC_FAILED" },
		{ "cublasLtMatmulDescCreate:3", "CUBLAS_STATUS_ALLOC_FAILED" },
		{ "cublasLtMatmulPreferenceSetAttribute:7", "CUBLAS_STATUS_INVALID_VALUE" },
	};
	for (size_t i = 0; i < sizeof told / sizeof *told; i++) assert_int_equal(in_a_process(told[i][1], "FAKE_CUBLASLT_FAIL", told[i][0]), 0);
}

static void put_files(const char *folder, bool there)
{
	for (int v = 12; v <= 13; v++) {
		char file[64];
		snprintf(file, sizeof file, "%s/libcublasLt.so.%d", folder, v);
		if (!there) {
			unlink(file);
			continue;
		}
		FILE *f = fopen(file, "w");
		assert_non_null(f);
		fputs("nothing", f);
		fclose(f);
	}
}

/* The loader finds files of that name which are no libraries. */
static void is_no_library(void **s)
{
	char folder[] = "/tmp/tj-cublas-XXXXXX";
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	assert_non_null(mkdtemp(folder));
	put_files(folder, true);
	char path[1024];
	const char *was = getenv("LD_LIBRARY_PATH"); /* with sanitizers it says where the fakes are */
	snprintf(path, sizeof path, "%s%s%s", folder, was ? ":" : "", was ? was : "");
	const int status = in_a_process("libcublasLt.so.13 (or .12) is not there: install", "LD_LIBRARY_PATH", path);
	put_files(folder, false);
	rmdir(folder);
	assert_int_equal(status, 0);
}

/* The real library, where there is one: it takes our types, attributes and their sizes, and then wants a handle, which takes a GPU. */
enum { PASSED = 0, NOT_THERE = 77 };

static int check_real(void)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16 };
	const char *why;
	rt_err err = { 0 };
	const rt_lt *lt = rt_lt_get(&why);
	if (!lt || counter("fake_cublaslt_asked")) return NOT_THERE;
	static const int64_t epilogues[] = { 0, RT_LT_BIAS, RT_LT_BIAS | RT_LT_RELU, RT_LT_GELU };
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		const rt_lt_key key = { .dtype = types[t],
			                .epilogue = epilogues[t],
			                .bias_align = epilogues[t] & RT_LT_BIAS ? 16 : 0,
			                .workspace = 1 << 20,
			                .m = 16,
			                .n = 32,
			                .k = 64,
			                .batch = 3,
			                .lda = 16,
			                .ldb = 32,
			                .b_transposed = 1,
			                .a_step = 1024,
			                .b_step = 2048,
			                .c_step = 512,
			                .a_align = 256,
			                .b_align = 64,
			                .c_align = 8 };
		rt_lt_call *x = rt_lt_call_new(lt, NULL, &key, NULL, &err);
		if (!x || !x->why || !strstr(x->why, "CUBLAS_STATUS_NOT_INITIALIZED")) return printf("%s\n", x ? x->text : err.message), 1;
		rt_lt_call_free(x);
	}
	return PASSED;
}

static void the_real_library(void **s)
{
	(void)s;
	const char *path = getenv("TJ_CUDA_PATH");
	const int status = in_a_process("real", "TJ_CUDA_PATH", path ? path : "/usr/local/cuda");
	if (status == NOT_THERE) SKIP("no cuBLASLt in TJ_CUDA_PATH or /usr/local/cuda");
	assert_int_equal(status, PASSED);
}

/* A product that the GPU refuses to run is an error of the call; the next call works. */
static void fails_once(void **s)
{
	static result r;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	float x[4] = { 1, 2, 3, 4 };
	const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2, 2, -1 }, { 2, 2, -1 } } };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	run(c, f, &j, &r);
	setenv("FAKE_CUBLASLT_FAIL", "cublasLtMatmul:13", 1);
	tj_tensor *out[1], *in[3] = { tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x), tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x), TJ_END };
	assert_int_equal(tj_call(f, out, in), TJ_ERR_DEVICE);
	kit_error(c, TJ_ERR_DEVICE, "cuda:0: cublasLtMatmul failed: CUBLAS_STATUS_EXECUTION_FAILED (13)");
	unsetenv("FAKE_CUBLASLT_FAIL");
	run(c, f, &j, &r);
	kit_ok(c);
	tj_close(c);
}

/* ---- the algorithm is kept ---- */
static void asks_once(void **s)
{
	static result r;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	atomic_int *asked = counter("fake_cublaslt_asked");
	const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 13, 5, -1 }, { 5, 6, -1 } } };
	const int before = *asked;
	for (int i = 0; i < 3; i++) { /* three plans of the same product */
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
		for (int turn = 0; turn < 4; turn++) run(c, f, &j, &r);
		tj_close(c);
	}
	assert_int_equal(*asked, before + 1);
}

/* ---- a policy changes the call ---- */
enum { SIDE = 12, LONG = 512 };

static void multiply(rt_pool *p, int device, rt_blas_policy policy, const void *a, const void *b, void *work, float *c)
{
	const rt_device *d = rt_device_at(device);
	rt_err err = { 0 };
	const rt_blas_desc desc = { .dtype = TJ_F32,
		                    .device = device,
		                    .m = SIDE,
		                    .n = SIDE,
		                    .k = LONG,
		                    .a_row = LONG,
		                    .a_col = 1,
		                    .b_row = SIDE,
		                    .b_col = 1,
		                    .policy = policy };
	rt_blas *x = rt_blas_new(&desc, &err);
	rt_run r = { .pool = p, .err = &err };
	void *to = d->alloc(d->self, sizeof(float[SIDE][SIDE]));
	if (rt_blas_run(x, &(rt_blas_operands){ .a = a, .b = b, .c = to, .work = work }, &r) != TJ_OK) fail_msg("%s", err.message);
	assert_int_equal(
		rt_bytes_copy(p, &(rt_elements){ device, 1, sizeof(float), (int64_t[]){ SIDE * SIDE }, NULL, to }, RT_CPU, c, &err), TJ_OK);
	d->free(d->self, to);
	rt_blas_free(x);
}

static void follows_its_policy(void **s)
{
	static float a[SIDE * LONG], b[SIDE * LONG], y[4][SIDE * SIDE];
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	atomic_int *compute = counter("fake_cublaslt_compute");
	const int device = tj_find_device("cuda:0");
	const rt_device *d = rt_device_at(device);
	rt_pool *p = rt_pool_new();
	rt_err err = { 0 };
	void *there[3] = { d->alloc(d->self, sizeof a), d->alloc(d->self, sizeof b), d->alloc(d->self, RT_BLAS_WORKSPACE + 256) };
	for (int i = 0; i < SIDE * LONG; i++) a[i] = (float)(i % 97) / 89, b[i] = (float)(i % 61) / 53;
	assert_int_equal(rt_bytes_write(p, device, there[0], a, sizeof a, &err), TJ_OK);
	assert_int_equal(rt_bytes_write(p, device, there[1], b, sizeof b, &err), TJ_OK);
	static const rt_blas_policy policy[] = { { .workspace = RT_BLAS_WORKSPACE },
		                                 { .workspace = RT_BLAS_WORKSPACE, .tf32 = true },
		                                 { .workspace = RT_BLAS_WORKSPACE, .no_parts = true },
		                                 { .workspace = 0 } };
	for (int i = 0; i < 4; i++) {
		multiply(p, device, policy[i], there[0], there[1], there[2], y[i]);
		assert_int_equal(*compute, i == 1 ? 77 : 68);
	}
	assert_memory_not_equal(y[0], y[1], sizeof y[0]); /* rounded operands */
	assert_memory_not_equal(y[0], y[2], sizeof y[0]); /* k in parts, and not */
	assert_memory_equal(y[2], y[3], sizeof y[0]);     /* parts need a workspace */
	for (int i = 0; i < 3; i++) d->free(d->self, there[i]);
	rt_pool_free(p);
}

/* The settings of a context are such a policy, and a part of its keys. */
static void follows_settings(void **s)
{
	static float x[SIDE * LONG];
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	atomic_int *compute = counter("fake_cublaslt_compute"), *runs = counter("fake_cublaslt_run");
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	for (int i = 0; i < SIDE * LONG; i++) x[i] = (float)(i % 97) / 89;
	tj_tensor *a = tj_from_data(c, TJ_F32, TJ_SHAPE(SIDE, LONG), x), *b = tj_reshape(a, TJ_SHAPE(LONG, SIDE));
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(tj_set_settings(c, NULL), TJ_OK);
		tj_data(tj_call1(f, TJ_LIST(a, b)));
		assert_int_equal(*compute, 68);
		assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .allow_tf32 = true)), TJ_OK);
		tj_data(tj_call1(f, TJ_LIST(a, b)));
		assert_int_equal(*compute, 77);
	}
	char *text = kit_explain(f);
	assert_non_null(strstr(text, "operands are rounded to TF32, as allowed"));
	free(text);
	const int before = *runs;
	assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .autotune = true)), TJ_OK);
	tj_data(tj_call1(f, TJ_LIST(a, b)));
	assert_true(*runs > before + 1); /* several algorithms were timed */
	tj_stats n = { .size = sizeof n };
	tj_fn_stats(f, &n);
	assert_int_equal(n.recordings, 3);
	kit_ok(c);
	tj_close(c);
}

/* TJ_LOG=library: the library's own lines and one of ours, for a region of the program. */
static char said[4096];
static void keep(void *self, const char *line)
{
	(void)self;
	const size_t n = strlen(said);
	snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void log_of_the_library(void **s)
{
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .log_to = keep)),
	       *quiet = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	for (int turn = 0; turn < 3; turn++) {
		tj_ctx_use(c);
		tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
		tj_tensor *a = tj_full(TJ_BF16, TJ_SHAPE(2, 8, 16), tj_f(0.5));
		said[0] = 0;
		assert_int_equal(tj_log_topics(c, turn == 1 ? "library" : ""), TJ_OK);
		assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_LIBRARY)), TJ_OK);
		tj_data(tj_call1(f, TJ_LIST(a, tj_transpose(a, 1, 2))));
		if (turn != 1) assert_string_equal(said, "");
		else {
			assert_non_null(strstr(said, "library: [p] cublasLtMatmul: a fake product\nlibrary: [p] of two lines\n"));
			assert_non_null(strstr(said, "library: [p] cublasLt 13.1.0"));
			assert_non_null(strstr(said, ": m 8, n 8, k 16, bf16, batch 2\n"));
		}
		kit_ok(c);
		tj_ctx_use(quiet);
		tj_data(tj_matmul(tj_full(TJ_BF16, TJ_SHAPE(8, 16), tj_f(1)), tj_full(TJ_BF16, TJ_SHAPE(16, 8), tj_f(1))));
		kit_ok(quiet);
	}
	tj_close(quiet);
	tj_close(c);
}

/* Each setting about sums changes what the library is asked for: how parts of a sum over k may be kept. */
static void settings_of_sums(void **s)
{
	enum { IN_PLACE = 1, IN_F32 = 2, IN_RESULT = 4 };
	static const struct { tj_dtype dtype; tj_settings set; int splits;
	} asked[] = {
		{ TJ_F32, { .no_graphs = true }, IN_F32 | IN_RESULT },
		{ TJ_BF16, { .no_graphs = true }, IN_F32 },
		{ TJ_BF16, { .allow_reduced_precision = true }, IN_F32 | IN_RESULT },
		{ TJ_F32, { .allow_nondeterministic = true }, IN_F32 | IN_RESULT | IN_PLACE },
		{ TJ_BF16, { .allow_nondeterministic = true }, IN_F32 },
		{ TJ_BF16, { .allow_nondeterministic = true, .allow_reduced_precision = true }, IN_F32 | IN_RESULT | IN_PLACE },
		{ TJ_F32, { .no_split_sums = true }, 0 },
	};
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	atomic_int *splits = counter("fake_cublaslt_splits"), *requests = counter("fake_cublaslt_asked");
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		tj_settings set = asked[i].set;
		tj_tensor *a = tj_full(asked[i].dtype, TJ_SHAPE(19, 23), tj_f(0.5)),
			  *b = tj_full(asked[i].dtype, TJ_SHAPE(23, 17), tj_f(2)); /* no other test has these sizes */
		const int before = *requests;
		set.size = sizeof set;
		assert_int_equal(tj_set_settings(c, &set), TJ_OK);
		tj_data(tj_call1(f, TJ_LIST(a, b)));
		assert_int_equal(*requests, before + 1);
		if (*splits != asked[i].splits) fail_msg("case %zu: asked with %d, not %d", i, *splits, asked[i].splits);
	}
	char *text = kit_explain(f);
	if (!strstr(text, "settings")) fail_msg("%s", text); /* the reason why it was traced again */
	free(text);
	kit_ok(c);
	tj_close(c);
}

/* The heuristic's first algorithm has k in parts, and is made slow: then the other one is taken, also by the next product. */
static void takes_the_fastest(void **s)
{
	static float a[SIDE * LONG], y[3][SIDE * SIDE];
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	atomic_int *runs = counter("fake_cublaslt_run"), *asked = counter("fake_cublaslt_asked");
	const int device = tj_find_device("cuda:0");
	const rt_device *d = rt_device_at(device);
	rt_pool *p = rt_pool_new();
	rt_err err = { 0 };
	void *there[2] = { d->alloc(d->self, sizeof a), d->alloc(d->self, RT_BLAS_WORKSPACE + 256) };
	for (int i = 0; i < SIDE * LONG; i++) a[i] = (float)(i % 97) / 89;
	assert_int_equal(rt_bytes_write(p, device, there[0], a, sizeof a, &err), TJ_OK);
	setenv("FAKE_CUBLASLT_SLOW", "1", 1);
	const int before = *asked, ran = *runs;
	multiply(p, device, (rt_blas_policy){ .workspace = RT_BLAS_WORKSPACE, .tries = 4 }, there[0], there[0], there[1], y[0]);
	assert_true(*runs > ran + 4);
	const int after = *runs;
	multiply(p, device, (rt_blas_policy){ .workspace = RT_BLAS_WORKSPACE, .tries = 4 }, there[0], there[0], there[1], y[1]);
	assert_int_equal(*runs, after + 1);
	assert_int_equal(*asked, before + 1);
	unsetenv("FAKE_CUBLASLT_SLOW");
	multiply(p, device, (rt_blas_policy){ .workspace = RT_BLAS_WORKSPACE, .no_parts = true }, there[0], there[0], there[1], y[2]);
	assert_memory_equal(y[0], y[1], sizeof y[0]);
	assert_memory_equal(y[0], y[2], sizeof y[0]);
	for (int i = 0; i < 2; i++) d->free(d->self, there[i]);
	rt_pool_free(p);
}

/* ---- threads ---- */
typedef struct worker { int n; result r; } worker;

static void *work(void *self)
{
	worker *w = self;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	for (int i = 0; i < 20; i++) {
		const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 2 + (i + w->n) % 5, 300, -1 }, { 300, 7, -1 } }, .fractions = true };
		run(c, f, &j, &w->r);
	}
	tj_close(c);
	return NULL;
}

/* Each context has its own workspace, so the sums of one do not overwrite those of the other. */
static void two_contexts(void **s)
{
	static worker w[2];
	pthread_t t[2];
	(void)s;
	NEED_GPU();
	for (int i = 0; i < 2; i++) {
		w[i].n = 5 * i;
		assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
	}
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	assert_memory_equal(w[0].r.byte[0], w[1].r.byte[0], w[0].r.bytes[0]);
}

/* A function of two contexts that share its plans. */
static void shared_plan(void **s)
{
	static result r[2];
	(void)s;
	NEED_GPU();
	const job j = { .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 6, 300, -1 }, { 300, 7, -1 } }, .fractions = true };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	run(c, f, &j, &r[0]);
	tj_ctx *d = kit_clone(c);
	run(d, f, &j, &r[1]);
	kit_ok(d);
	tj_close(d);
	tj_ctx_use(c);
	run(c, f, &j, &r[0]);
	assert_memory_equal(r[0].byte[0], r[1].byte[0], r[0].bytes[0]);
	tj_close(c);
}

static void picks(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_index_select(in[0], 0, in[1]); }

/* A context uses the product of another one: its queue waits for the product. The queue of that one was empty: a gather that might fault
 * was waited for. */
static void of_another_context(void **s)
{
	float x[4] = { 1, 2, 3, 4 }, y[4];
	const float want[4] = { 7 * 7 + 10 * 15, 7 * 10 + 10 * 22, 15 * 7 + 22 * 15, 15 * 10 + 22 * 22 };
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x), *p;
	tj_fn *g = tj_compile(c, picks, NULL, TJ_OPTS(tj_compile_opts, .name = "g", .nin = 2, .nout = 1));
	tj_read(tj_call1(g, TJ_LIST(t, tj_from_data(c, TJ_I64, TJ_SHAPE(1), (int64_t[]){ 1 }))), y, 2 * sizeof *y);
	p = tj_retain(tj_call1(f, TJ_LIST(t, t)));
	tj_ctx *d = kit_clone(c);
	assert_int_equal(tj_read(tj_call1(f, TJ_LIST(p, p)), y, sizeof y), TJ_OK);
	assert_memory_equal(y, want, sizeof y);
	kit_ok(d);
	tj_close(d);
	tj_ctx_use(c);
	tj_release(p);
	kit_ok(c);
	tj_close(c);
}

/* ---- control flow and cells ---- */
static tj_tensor *weights;

static void less_than_four(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_i(4)); }
static void one_step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_sub(tj_matmul(in[1], weights), in[1]);
}

static void loop_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *r[2];
	tj_while(r, less_than_four, one_step, TJ_LIST(tj_full(TJ_I64, TJ_0D, tj_i(0)), in[0]), NULL, NULL);
	tj_assign(weights, tj_sub(weights, tj_matmul(tj_transpose(in[0], 0, 1), in[0])));
	out[0] = r[1];
}

static void loops_and_cells(void **s)
{
	enum { W = 5 };
	float x[W * W], y[2][W * W], held[2][W * W];
	(void)s;
	NEED_GPU();
	fill(TJ_F32, x, W * W, 9, true);
	for (int gpu = 0; gpu < 2; gpu++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = gpu ? "cuda:0" : "cpu"));
		weights = tj_param(c, TJ_F32, TJ_SHAPE(W, W));
		fill(TJ_F32, y[gpu], W * W, 5, true);
		tj_write(weights, y[gpu], sizeof y[gpu]);
		tj_fn *f = tj_compile(c, loop_body, NULL, TJ_OPTS(tj_compile_opts, .name = "loop", .nin = 1, .nout = 1));
		for (int i = 0; i < 2; i++)
			assert_int_equal(tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(W, W), x))), y[gpu], sizeof y[gpu]),
			                 TJ_OK);
		assert_int_equal(tj_read(weights, held[gpu], sizeof held[gpu]), TJ_OK);
		kit_ok(c);
		tj_close(c);
	}
	assert_memory_equal(y[0], y[1], sizeof y[0]);
	assert_memory_equal(held[0], held[1], sizeof held[0]);
}

/* Work of the library is in the queue, not done, when the call returns; an operand that is freed at once is not reused before. */
static void runs_in_its_turn(void **s)
{
	float x[4] = { 1, 2, 3, 4 }, y[4];
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1));
	tj_tensor *p = tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x));
	for (int i = 0; i < 5; i++) {
		tj_scope *here = tj_push(c);
		tj_tensor *q = tj_retain(tj_call1(f, TJ_LIST(p, tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), (float[]){ 1, 0, 0, 1 }))));
		tj_release(p);
		p = q;
		tj_pop(here);
	}
	assert_int_equal(tj_read(p, y, sizeof y), TJ_OK);
	assert_memory_equal(x, y, sizeof x);
	tj_release(p);
	kit_ok(c);
	tj_close(c);
}

int main(int n, char **argument)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts),
		cmocka_unit_test(between_kernels),
		cmocka_unit_test(convolutions_are_near),
		cmocka_unit_test(without_elements),
		cmocka_unit_test(of_one),
		cmocka_unit_test(any_number_of_rows),
		cmocka_unit_test(near_f64),
		cmocka_unit_test(is_explained),
		cmocka_unit_test(log_of_the_library),
		cmocka_unit_test(is_missing),
		cmocka_unit_test(is_no_library),
		cmocka_unit_test(the_real_library),
		cmocka_unit_test(fails_once),
		cmocka_unit_test(asks_once),
		cmocka_unit_test(follows_its_policy),
		cmocka_unit_test(follows_settings),
		cmocka_unit_test(settings_of_sums),
		cmocka_unit_test(takes_the_fastest),
		cmocka_unit_test(two_contexts),
		cmocka_unit_test(shared_plan),
		cmocka_unit_test(of_another_context),
		cmocka_unit_test(loops_and_cells),
		cmocka_unit_test(runs_in_its_turn),
	};
	self_path = argument[0];
	if (n < 2) return cmocka_run_group_tests(tests, NULL, NULL);
	if (!strcmp(argument[1], "real")) return check_real();
	check_without(argument[1]);
	return 0;
}
