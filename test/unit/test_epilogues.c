/* SPDX-License-Identifier: MIT */
/* A product on a GPU, with a bias and an activation, as one call of cuBLASLt. The libraries are those of test/fake, as in test_cublas.c. */
#include "test/unit/products.h"

#include "runtime/alloc.h"

#include <pthread.h>

enum { DEFAULT = 1 };

/* ---- bodies: a [4,6,8], b [4,8,6], c [16] ---- */
typedef enum form {
	BATCHES, LEFT, ROWS, WEIGHT, LOOPS, VECTOR, VIEW_BEFORE, VIEW_AFTER, SLICED, RANK_2, OPERANDS, /* these become one call, */
	UNALIGNED, READ_TWICE, FACTOR, IS_OUTPUT, STRIDED, COLUMN, MATRIX, NUMBER, SCALED, BY_BATCH, TURNED, NEEDS_IT, /* these do not */
	FORMS
} form;
static const form JOINED = UNALIGNED; /* the first that does not */

static tj_tensor *first(tj_tensor *t) { return tj_reshape(tj_slice(t, 0, 0, 1, 1), TJ_SHAPE(tj_dim(t, 1), tj_dim(t, 2))); }

static void forms(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = in[0], *b = in[1], *a0 = first(a), *b0 = first(b), *v = tj_slice(in[2], 0, 0, 6, 1), *p;
	switch (*(form *)self) {
	case BATCHES: out[0] = tj_add(tj_matmul(a, b), v); return;
	case LEFT: out[0] = tj_add(v, tj_matmul(a, b0)); return;
	case ROWS: out[0] = tj_add(tj_matmul(a, b0), v); return;
	case WEIGHT: out[0] = tj_add(tj_matmul(a0, tj_transpose(first(tj_transpose(b, 1, 2)), 0, 1)), v); return;
	case LOOPS: out[0] = tj_add(tj_matmul(tj_unsqueeze(a, 1), tj_unsqueeze(b, 0)), v); return;
	case VECTOR: out[0] = tj_add(tj_matmul(tj_reshape(tj_slice(a0, 0, 1, 2, 1), TJ_SHAPE(8)), b), v); return;
	case VIEW_BEFORE: out[0] = tj_add(tj_reshape(tj_matmul(a, b), TJ_SHAPE(24, 6)), v); return;
	case VIEW_AFTER: out[0] = tj_reshape(tj_add(tj_matmul(a, b), v), TJ_SHAPE(24, 6)); return;
	case SLICED: out[0] = tj_add(tj_matmul(a0, b0), tj_slice(in[2], 0, 8, 14, 1)); return;
	case RANK_2: out[0] = tj_add(tj_matmul(a0, b0), tj_reshape(v, TJ_SHAPE(1, 6))); return;
	case OPERANDS: out[0] = tj_add(tj_matmul(tj_neg(a), tj_exp(b)), tj_exp(tj_sum(b, TJ_AXES(0, 1), false))); return;
	case UNALIGNED: out[0] = tj_add(tj_matmul(a, b), tj_slice(in[2], 0, 1, 7, 1)); return;
	case READ_TWICE:
		p = tj_matmul(a, b);
		out[0] = tj_mul(tj_add(p, v), tj_sum(p, TJ_AXES(2), true));
		return;
	case FACTOR:
		p = tj_matmul(a, b);
		out[0] = tj_add(p, v);
		out[1] = tj_matmul(p, tj_transpose(p, 1, 2));
		return;
	case IS_OUTPUT:
		out[1] = tj_matmul(a, b);
		out[0] = tj_add(out[1], v);
		return;
	case STRIDED: out[0] = tj_add(tj_matmul(a, b), tj_slice(in[2], 0, 0, 12, 2)); return;
	case COLUMN: out[0] = tj_add(tj_matmul(a, b), tj_reshape(v, TJ_SHAPE(6, 1))); return;
	case MATRIX: out[0] = tj_add(tj_matmul(a0, b0), tj_slice(a0, 1, 0, 6, 1)); return;
	case NUMBER: out[0] = tj_add(tj_matmul(a, b), tj_f(2)); return;
	case SCALED: out[0] = tj_mul(tj_add(tj_matmul(a, b), v), tj_f(2)); return;
	case BY_BATCH: out[0] = tj_add(tj_matmul(a, b), tj_slice(tj_slice(a, 1, 0, 1, 1), 2, 0, 6, 1)); return;
	case TURNED: out[0] = tj_transpose(tj_add(tj_matmul(a0, b0), v), 0, 1); return;
	case NEEDS_IT: out[0] = tj_sum(tj_add(tj_matmul(a, b), v), TJ_AXES(2), false); return;
	case FORMS: return;
	}
}

static job of_form(form *f, tj_dtype t)
{
	return (job){ .body = forms,
		      .self = f,
		      .nin = 3,
		      .nout = *f == IS_OUTPUT || *f == FACTOR ? 2 : 1,
		      .dtype = t,
		      .dim = { { 4, 6, 8, -1 }, { 4, 8, 6, -1 }, { 16, -1 } } };
}

/* Calls of the library with an epilogue when the job runs once. */
static int joined(const job *j)
{
	atomic_int *n = counter("fake_cublaslt_joined");
	const int before = *n;
	free(on("cuda:0", j, 1));
	return *n - before;
}

/* In strict functions a sum of f32 or f64 and a bias is one call, with the bits of the CPU. */
static void bias_only(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		for (form f = 0; f < FORMS; f++) {
			job j = of_form(&f, types[t]);
			if (f != OPERANDS) same(j); /* exp: sums that are not exact */
			if (!counter("fake_cublaslt_joined")) continue;
			const int n = joined(&j);
			if ((n > 0) != (f < JOINED)) fail_msg("form %d of dtype %d: %d epilogues", f, types[t], n);
		}
}

/* The bits are those of a plain product with a kernel after it. */
static void as_apart(void **s)
{
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	for (form f = 0; f < FORMS; f++) {
		job j = of_form(&f, f & 1 ? TJ_F64 : TJ_F32);
		j.fractions = true;
		result *one = on("cuda:0", &j, 2), *two;
		setenv("FAKE_CUBLASLT_EPILOGUES", "late", 1);
		two = on("cuda:0", &j, 2);
		unsetenv("FAKE_CUBLASLT_EPILOGUES");
		assert_memory_equal(one->byte[0], two->byte[0], one->bytes[0]);
		free(one);
		free(two);
	}
}

/* A strict product has the same bits, whether one call adds the bias or the product is needed, too: the algorithm is the same. So audit,
 * which asks for the products, finds no difference. Sums over 600 elements, which the fake would split in the one case only. */
static void alone(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(tj_matmul(in[0], in[1]), in[2]); }
static void beside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[1] = tj_matmul(in[0], in[1]);
	out[0] = tj_add(out[1], in[2]);
}

static void same_product(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64 };
	static result r;
	(void)s;
	NEED_GPU();
	for (int t = 0; t < 2; t++) {
		job j = { .body = alone,
			  .nin = 3,
			  .nout = 1,
			  .dtype = types[t],
			  .dim = { { 6, 600, -1 }, { 600, 8, -1 }, { 8, -1 } },
			  .fractions = true };
		result *one = on("cuda:0", &j, 2), *two;
		if (counter("fake_cublaslt_epilogue")) assert_int_equal(*counter("fake_cublaslt_epilogue"), 4);
		j.body = beside;
		j.nout = 2;
		two = on("cuda:0", &j, 2);
		if (counter("fake_cublaslt_epilogue")) assert_int_equal(*counter("fake_cublaslt_epilogue"), DEFAULT);
		assert_memory_equal(one->byte[0], two->byte[0], one->bytes[0]);
		free(one);
		free(two);
		j.nout = 1;
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .audit = 1));
		tj_fn *f = tj_compile(c, alone, NULL, TJ_OPTS(tj_compile_opts, .name = "a", .nin = 3, .nout = 1));
		for (int i = 0; i < 4; i++) run(c, f, &j, &r);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- activations ---- */
typedef enum act { RELU, GELU, RELU_BIAS, GELU_BIAS, BIAS, ERF, ACTS } act;
static const int bits[] = { [RELU] = 2, [GELU] = 32, [RELU_BIAS] = 6, [GELU_BIAS] = 36, [BIAS] = 4, [ERF] = DEFAULT };

static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *p = tj_matmul(in[0], in[1]);
	switch (*(act *)self) {
	case RELU: out[0] = tj_relu(p); return;
	case GELU: out[0] = tj_gelu_tanh(p); return;
	case RELU_BIAS: out[0] = tj_relu(tj_add(p, in[2])); return;
	case GELU_BIAS: out[0] = tj_gelu_tanh(tj_add(p, in[2])); return;
	case BIAS: out[0] = tj_add(p, in[2]); return;
	case ERF: out[0] = tj_gelu(tj_add(p, in[2])); return;
	case ACTS: return;
	}
}

static job of_act(act *a, tj_dtype t, tj_numerics n, int rows)
{
	return (job){ .body = layer,
		      .self = a,
		      .nin = 3,
		      .nout = 1,
		      .dtype = t,
		      .dim = { { rows, 9, -1 }, { 9, 12, -1 }, { 12, -1 } },
		      .numerics = n };
}

static const struct {
	tj_dtype t;
	double eps;
} floats[] = { { TJ_F32, 0x1p-23 }, { TJ_F64, 0x1p-52 }, { TJ_F16, 0x1p-10 }, { TJ_BF16, 0x1p-7 } };
enum { FLOATS = sizeof floats / sizeof *floats };

/* a and b differ by the roundings of a few ops. */
static void near(tj_dtype t, double eps, const result *a, const result *b)
{
	const int64_t n = (int64_t)(a->bytes[0] / tj_dtype_size(t));
	assert_int_equal(a->bytes[0], b->bytes[0]);
	for (int64_t i = 0; i < n; i++) {
		const double x = load(t, a->byte[0], i), y = load(t, b->byte[0], i);
		if (!(fabs(x - y) <= 8 * eps * (1 + fabs(y)))) fail_msg("dtype %d: %g is not near %g", t, x, y);
	}
}

/* TJ_FAST: every epilogue is used, and the results are near the CPU's. */
static void fast(void **s)
{
	(void)s;
	NEED_GPU();
	for (int t = 0; t < FLOATS; t++)
		for (act a = 0; a < ACTS; a++) {
			const job j = of_act(&a, floats[t].t, TJ_FAST, 7);
			result *want = on("cpu", &j, 1), *got = on("cuda:0", &j, 6);
			near(floats[t].t, counter("fake_cublaslt_epilogue") ? floats[t].eps : fmax(floats[t].eps, 0x1p-10), got,
			     want); /* a GPU may approximate tanh */
			if (counter("fake_cublaslt_epilogue")) assert_int_equal(*counter("fake_cublaslt_epilogue"), bits[a]);
			free(want);
			free(got);
		}
}

/* TJ_STRICT: only what rounds as the kernel does. */
static void strict(void **s)
{
	(void)s;
	NEED_GPU();
	for (int t = 0; t < FLOATS; t++)
		for (act a = 0; a < ACTS; a++) {
			const job j = of_act(&a, floats[t].t, TJ_STRICT, 7);
			same(j);
			if (counter("fake_cublaslt_epilogue"))
				assert_int_equal(*counter("fake_cublaslt_epilogue"),
				                 a == BIAS && tj_dtype_size(floats[t].t) > 2 ? 4 : DEFAULT);
		}
}

/* ---- each op has the numerics of its function ---- */
typedef struct parts { tj_fn *product, *sum, *relu; } parts;
static void of_parts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const parts *p = self;
	out[0] = tj_call1(p->relu, TJ_LIST(tj_call1(p->sum, TJ_LIST(tj_call1(p->product, TJ_LIST(in[0], in[1])), in[2]))));
}
static void product_part(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }
static void sum_part(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], in[1]); }
static void relu_part(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_relu(in[0]); }

static tj_fn *part(tj_ctx *c, tj_body *body, int nin, bool is_fast)
{
	return tj_compile(c, body, NULL,
	                  TJ_OPTS(tj_compile_opts, .name = is_fast ? "fast" : "strict", .nin = nin, .nout = 1,
	                          .numerics = is_fast ? TJ_FAST : TJ_STRICT));
}

static void by_op(void **s)
{
	static result r;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	for (int t = 0; t < FLOATS; t++)
		for (int fast_parts = 0; fast_parts < 8; fast_parts++) {
			const job j = { .nin = 3, .dtype = floats[t].t, .dim = { { 3, 4, -1 }, { 4, 8, -1 }, { 8, -1 } }, .nout = 1 };
			const bool narrow = tj_dtype_size(j.dtype) == 2, all = narrow ? fast_parts == 7 : fast_parts >> 2;
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
			parts p = { part(c, product_part, 2, fast_parts & 1), part(c, sum_part, 2, fast_parts & 2), part(c, relu_part, 1, fast_parts & 4) };
			tj_fn *f = tj_compile(c, of_parts, &p, TJ_OPTS(tj_compile_opts, .name = "parts", .nin = 3, .nout = 1));
			run(c, f, &j, &r);
			assert_int_equal(*counter("fake_cublaslt_epilogue"), all ? 6 : DEFAULT);
			tj_close(c);
		}
}

/* ---- the library refuses ---- */
static void refused(void **s)
{
	static const struct {
		const char *how, *told;
	} ways[] = { { "refused", "has no algorithm for it: CUBLAS_STATUS_NOT_SUPPORTED" },
		     { "late", "refuses the algorithm that it ranks first" } };
	static result got;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	for (int w = 0; w < 2; w++)
		for (act a = 0; a < ERF; a++) {
			const job j = of_act(&a, TJ_F32, TJ_FAST, 30 + w); /* refusals are kept: a shape of their own */
			result *want = on("cpu", &j, 1);
			setenv("FAKE_CUBLASLT_EPILOGUES", ways[w].how, 1);
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
			tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
			for (int i = 0; i < 3; i++) run(c, f, &j, &got);
			unsetenv("FAKE_CUBLASLT_EPILOGUES");
			near(TJ_F32, 0x1p-23, &got, want);
			char *text = kit_explain(f);
			if (!strstr(text, ways[w].told) || !strstr(text, "a kernel of its own computes")) fail_msg("%s", text);
			free(text);
			free(want);
			tj_close(c);
		}
}

/* The same in a strict function, which has the algorithm of the plain product checked. */
static void check_refused(void **s)
{
	static const char *const ways[][2] = { { "FAKE_CUBLASLT_EPILOGUES", "refused" }, { "FAKE_CUBLASLT_FAIL", "cublasLtMatmulAlgoCheck:8" } };
	static result got;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	for (int w = 0; w < 2; w++) {
		act a = BIAS;
		const job j = of_act(&a, TJ_F32, TJ_STRICT, 35 + w);
		result *want = on("cpu", &j, 1);
		setenv(ways[w][0], ways[w][1], 1);
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1));
		for (int i = 0; i < 3; i++) run(c, f, &j, &got);
		unsetenv(ways[w][0]);
		assert_memory_equal(got.byte[0], want->byte[0], want->bytes[0]);
		assert_int_equal(*counter("fake_cublaslt_epilogue"), DEFAULT);
		char *text = kit_explain(f);
		if (!strstr(text, "a kernel of its own computes bias: cuBLASLt has no algorithm for it: CUBLAS_STATUS")) fail_msg("%s", text);
		free(text);
		free(want);
		tj_close(c);
	}
}

/* Where the CPU computes products, the kernel runs on the GPU after it. */
static void after_the_cpu(void **s)
{
	static result got;
	act a = GELU_BIAS;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	const job j = of_act(&a, TJ_F32, TJ_FAST, 33);
	result *want = on("cpu", &j, 1);
	setenv("FAKE_CUBLASLT_FAIL", "cublasLtMatmulAlgoGetHeuristic:15", 1);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
	for (int i = 0; i < 3; i++) run(c, f, &j, &got);
	unsetenv("FAKE_CUBLASLT_FAIL");
	near(TJ_F32, 0x1p-23, &got, want);
	char *text = kit_explain(f);
	if (!strstr(text, "is computed by the CPU")) fail_msg("%s", text);
	free(text);
	free(want);
	tj_close(c);
}

/* An error of the library is an error of the call. */
static void fails(void **s)
{
	static result r;
	act a = GELU_BIAS;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	const job j = of_act(&a, TJ_F32, TJ_FAST, 7);
	float x[7 * 12] = { 0 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
	run(c, f, &j, &r);
	setenv("FAKE_CUBLASLT_FAIL", "cublasLtMatmul:13", 1);
	tj_tensor *out[1], *in[] = { tj_full(TJ_F32, TJ_SHAPE(7, 9), tj_f(0)), tj_full(TJ_F32, TJ_SHAPE(9, 12), tj_f(0)),
		                     tj_from_data(c, TJ_F32, TJ_SHAPE(12), x), TJ_END };
	assert_int_equal(tj_call(f, out, in), TJ_ERR_DEVICE);
	unsetenv("FAKE_CUBLASLT_FAIL");
	kit_error(c, TJ_ERR_DEVICE, "CUBLAS_STATUS_EXECUTION_FAILED (13)");
	run(c, f, &j, &r);
	kit_ok(c);
	tj_close(c);
}

/* ---- what is told ---- */
static void note(void *self, const tj_reason *why) { snprintf(self, 200, "%s: %s -> %s", why->kind, why->expected, why->found); }

static void explains(act a, tj_dtype t, tj_numerics n, const char *part)
{
	static result r;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .profile = true));
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = n));
	const job j = of_act(&a, t, n, 5);
	for (int i = 0; i < 3; i++) run(c, f, &j, &r);
	char *text = kit_explain(f), *plan = kit_dump(f, TJ_DUMP_PLAN);
	if (!strstr(text, part)) fail_msg("\"%s\" is not in %s", part, text);
	if (n == TJ_FAST && (!strstr(plan, "plan: 1 steps") || !strstr(plan, "cublasLtMatmul, bias, gelu") || !strstr(plan, "measured=")))
		fail_msg("%s", plan);
	free(text);
	free(plan);
	tj_close(c);
}

static void is_explained(void **s)
{
	(void)s;
	NEED_GPU();
	explains(GELU_BIAS, TJ_BF16, TJ_FAST, ", with bias and GELU: ");
	explains(GELU_BIAS, TJ_BF16, TJ_STRICT, "each op rounds to the dtype, the library would round once; TJ_FAST allows that");
	explains(GELU_BIAS, TJ_F32, TJ_STRICT, "the library's GELU has other bits; TJ_FAST allows them");
	explains(RELU_BIAS, TJ_F32, TJ_STRICT, "the library may make 0 of NaN; TJ_FAST allows that");
	explains(BIAS, TJ_F32, TJ_STRICT, ", with bias: ");
	explains(ERF, TJ_F32, TJ_STRICT, "a kernel of its own computes what follows: one call can add a bias");
}

static void other_reasons(void **s)
{
	static const struct {
		form f;
		const char *told;
	} told[] = { { UNALIGNED, "its address to be a multiple of 16" },
		     { FACTOR, "the product is needed without it, too" },
		     { IS_OUTPUT, "the product is needed without it, too" } };
	static result r;
	(void)s;
	NEED_GPU();
	for (int i = 0; i < 3; i++) {
		form f = told[i].f;
		const job j = of_form(&f, TJ_F32);
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *fn = tj_compile(c, forms, &f, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = j.nout));
		run(c, fn, &j, &r);
		char *text = kit_explain(fn);
		if (!strstr(text, told[i].told)) fail_msg("\"%s\" is not in %s", told[i].told, text);
		free(text);
		tj_close(c);
	}
}

/* A context can switch epilogues off: a part of its keys, and told. */
static void switched_off(void **s)
{
	static result r;
	static char why[200];
	act a = GELU_BIAS;
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	const atomic_int *last = counter("fake_cublaslt_epilogue");
	const job j = of_act(&a, TJ_BF16, TJ_FAST, 6);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, layer, &a,
	                      TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST, .on_recompile = note,
	                              .on_recompile_self = why));
	for (int turn = 0; turn < 2; turn++) {
		tj_set_settings(c, NULL);
		run(c, f, &j, &r);
		assert_int_equal(*last, 36);
		tj_set_settings(c, TJ_OPTS(tj_settings, .no_epilogues = true));
		run(c, f, &j, &r);
		assert_int_equal(*last, DEFAULT);
	}
	assert_string_equal(why, "settings: default -> no epilogues");
	char *text = kit_explain(f);
	if (!strstr(text, "the context's settings ask for it")) fail_msg("%s", text);
	free(text);
	assert_int_equal(kit_stats(f).recordings, 2);
	tj_close(c);
}

/* ---- both ways are timed ---- */
enum { SIDE = 40 };
static void tuned(bool slow, int rows, int want)
{
	static result r;
	act a = RELU_BIAS;
	atomic_int *runs = counter("fake_cublaslt_run"), *last = counter("fake_cublaslt_epilogue");
	const job j = { .nin = 3, .nout = 1, .dtype = TJ_F32, .dim = { { rows, 9, -1 }, { 9, SIDE, -1 }, { SIDE, -1 } } };
	if (slow) setenv("FAKE_CUBLASLT_EPILOGUES", "slow", 1);
	for (int plan = 0; plan < 2; plan++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_set_settings(c, TJ_OPTS(tj_settings, .autotune = true));
		tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
		const int before = *runs;
		for (int i = 0; i < 3; i++) run(c, f, &j, &r);
		if (want) assert_int_equal(*last, want);
		if (plan) assert_int_equal(*runs, before + 3); /* the answer is kept */
		else assert_true(*runs > before + 3 + 4);
		char *text = kit_explain(f);
		if (!strstr(text, slow ? "product and kernel took" : "one call")) fail_msg("%s", text);
		free(text);
		kit_ok(c);
		tj_close(c);
	}
	unsetenv("FAKE_CUBLASLT_EPILOGUES");
}

static void takes_the_faster(void **s)
{
	(void)s;
	NEED_GPU();
	NEED_FAKE();
	tuned(true, 21, DEFAULT);
	tuned(false, 22, 0); /* either may win */
}

/* ---- plans that are shared ---- */
/* Each run has its own bias. */
typedef struct worker { tj_ctx *c; tj_fn *f; float bias; bool failed; } worker;
static void *calls(void *self)
{
	worker *w = self;
	float v[SIDE], y[2 * SIDE];
	tj_ctx_use(w->c);
	for (int i = 0; i < SIDE; i++) v[i] = w->bias;
	for (int turn = 0; turn < 40; turn++) {
		tj_scope *here = tj_push(w->c);
		tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(2, 3), tj_f(1)), *weight = tj_full(TJ_F32, TJ_SHAPE(3, SIDE), tj_f(2));
		if (tj_read(tj_call1(w->f, TJ_LIST(x, weight, tj_from_data(w->c, TJ_F32, TJ_SHAPE(SIDE), v))), y, sizeof y) != TJ_OK) w->failed = true;
		for (int i = 0; i < 2 * SIDE; i++) w->failed |= y[i] != 6 + w->bias;
		tj_pop(here);
	}
	return NULL;
}

static void own_bias(void **s)
{
	act a = RELU_BIAS;
	pthread_t t[2];
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
	tj_ctx *d = kit_clone(c);
	worker w[2] = { { c, f, 5, false }, { d, f, 11, false } };
	for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, calls, &w[i]), 0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
	assert_false(w[0].failed || w[1].failed);
	tj_ctx_use(d);
	tj_close(d);
	tj_ctx_use(c);
	tj_close(c);
}

/* ---- sizes, regions, cells ---- */
static void any_number_of_rows(void **s)
{
	static result want, got;
	act a = BIAS;
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0")), *h = tj_open(TJ_OPTS(tj_open_opts, .device = "cpu"));
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "rows", .nin = 3, .nout = 1, .dynamic = TJ_DYNAMIC_ON));
	tj_fn *g = tj_compile(h, layer, &a, TJ_OPTS(tj_compile_opts, .name = "rows", .nin = 3, .nout = 1));
	for (int m = 1; m < 20; m += 3) {
		const job j = of_act(&a, TJ_F32, TJ_STRICT, m);
		run(c, f, &j, &got);
		run(h, g, &j, &want);
		assert_memory_equal(got.byte[0], want.byte[0], want.bytes[0]);
		if (counter("fake_cublaslt_epilogue")) assert_int_equal(*counter("fake_cublaslt_epilogue"), 4);
	}
	kit_ok(c);
	tj_close(c);
	tj_close(h);
}

/* Without elements, and with sums over none. */
static void without_elements(void **s)
{
	act a = BIAS;
	(void)s;
	NEED_GPU();
	same((job){ .body = layer, .self = &a, .nin = 3, .nout = 1, .dtype = TJ_F32, .dim = { { 3, 0, -1 }, { 0, 8, -1 }, { 8, -1 } } });
	same((job){ .body = layer, .self = &a, .nin = 3, .nout = 1, .dtype = TJ_F32, .dim = { { 0, 3, -1 }, { 3, 8, -1 }, { 8, -1 } } });
	same((job){ .body = layer, .self = &a, .nin = 3, .nout = 1, .dtype = TJ_F32, .dim = { { 3, 2, -1 }, { 2, 1, -1 }, { 1, -1 } } });
}

static tj_tensor *weight, *offset;
static void less_than_four(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_i(4)); }
static void one_step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_add(tj_matmul(in[1], weight), offset);
}

static void loop_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *r[2];
	tj_while(r, less_than_four, one_step, TJ_LIST(tj_full(TJ_I64, TJ_0D, tj_i(0)), in[0]), NULL, NULL);
	out[0] = r[1];
	tj_assign(weight, tj_add(tj_matmul(in[0], weight), offset)); /* in the place of an operand, if that were allowed */
}

static void loops_and_cells(void **s)
{
	enum { W = 4 };
	float x[W * W], y[2][W * W], held[2][W * W];
	(void)s;
	NEED_GPU();
	fill(TJ_F32, x, W * W, 9, true);
	for (int gpu = 0; gpu < 2; gpu++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = gpu ? "cuda:0" : "cpu"));
		weight = tj_param(c, TJ_F32, TJ_SHAPE(W, W));
		offset = tj_param(c, TJ_F32, TJ_SHAPE(W));
		fill(TJ_F32, y[gpu], W * W, 5, true);
		tj_write(weight, y[gpu], sizeof y[gpu]);
		tj_write(offset, y[gpu], sizeof(float[W]));
		tj_fn *f = tj_compile(c, loop_body, NULL, TJ_OPTS(tj_compile_opts, .name = "loop", .nin = 1, .nout = 1));
		for (int i = 0; i < 2; i++)
			assert_int_equal(tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(W, W), x))), y[gpu], sizeof y[gpu]),
			                 TJ_OK);
		assert_int_equal(tj_read(weight, held[gpu], sizeof held[gpu]), TJ_OK);
		kit_ok(c);
		tj_close(c);
	}
	assert_memory_equal(y[0], y[1], sizeof y[0]);
	assert_memory_equal(held[0], held[1], sizeof held[0]);
}

/* ---- kernels around it run as a CUDA graph ---- */
static void network(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_relu(tj_add(tj_matmul(tj_neg(in[0]), in[1]), in[2]));
	h = tj_sub(h, tj_sum(h, TJ_AXES(1), true));
	out[0] = tj_add(tj_matmul(h, in[1]), in[2]);
	out[1] = tj_sum(tj_sub(out[0], tj_sum(out[0], TJ_AXES(0), true)), TJ_AXES(1), false);
}

static void between_kernels(void **s)
{
	(void)s;
	NEED_GPU();
	for (int numerics = TJ_STRICT; numerics <= TJ_FAST; numerics++) {
		const job j = { .body = network,
			        .nin = 3,
			        .nout = 2,
			        .dtype = TJ_F32,
			        .dim = { { 5, 8, -1 }, { 8, 8, -1 }, { 8, -1 } },
			        .mode = TJ_DIRECT,
			        .numerics = (tj_numerics)numerics };
		result *want = on("cpu", &j, 1), *got = on("cuda:0", &j, 8);
		for (int i = 0; i < 2; i++) assert_memory_equal(got->byte[i], want->byte[i], want->bytes[i]); /* sums of small whole numbers */
		free(want);
		free(got);
	}
}

/* ---- memory: an allocation that fails is an error, or changes nothing ---- */
static bool two_layers(float *y)
{
	float x[4] = { 1, 2, 3, 4 };
	act a = GELU_BIAS;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	if (!c) return false;
	tj_fn *f = tj_compile(c, layer, &a, TJ_OPTS(tj_compile_opts, .name = "l", .nin = 3, .nout = 1, .numerics = TJ_FAST));
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), x), *v = tj_from_data(c, TJ_F32, TJ_SHAPE(2), x);
	const bool ok = f && tj_read(tj_call1(f, TJ_LIST(tj_call1(f, TJ_LIST(t, t, v)), t, v)), y, 4 * sizeof *y) == TJ_OK;
	tj_check(c);
	tj_close(c);
	return ok;
}

static void each_allocation(void **s)
{
	float want[4], y[4];
	(void)s;
	NEED_GPU();
	NEED_FAKE(); /* it compiles hundreds of times */
	assert_true(two_layers(want));
	rt_alloc_fail_at(-1);
	assert_true(two_layers(want));
	const long long n = rt_alloc_count();
	int clear = 0;
	for (long long k = 0; k < n; k += getenv("TEST_EACH") ? 1 : 3) {
		rt_alloc_fail_at(k);
		if (!two_layers(y)) clear++;
		else assert_memory_equal(y, want, sizeof y);
	}
	rt_alloc_fail_at(-1);
	assert_true(clear > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bias_only),        cmocka_unit_test(as_apart),
		cmocka_unit_test(same_product),     cmocka_unit_test(fast),
		cmocka_unit_test(strict),           cmocka_unit_test(by_op),
		cmocka_unit_test(refused),          cmocka_unit_test(check_refused),
		cmocka_unit_test(after_the_cpu),    cmocka_unit_test(fails),
		cmocka_unit_test(is_explained),     cmocka_unit_test(other_reasons),
		cmocka_unit_test(switched_off),     cmocka_unit_test(takes_the_faster),
		cmocka_unit_test(own_bias),         cmocka_unit_test(any_number_of_rows),
		cmocka_unit_test(without_elements), cmocka_unit_test(loops_and_cells),
		cmocka_unit_test(between_kernels),  cmocka_unit_test(each_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
