/* SPDX-License-Identifier: MIT */
/* Matrix products and convolutions on a GPU by kernels of our own (codegen_cuda/product.c): the bits of the evaluator, in every dtype and
 * layout; and which products they compute. The driver, NVRTC and cuBLASLt are those of test/fake, unless LD_LIBRARY_PATH names the real
 * ones. */
#include "test/unit/layouts.h"

#include <math.h>

#define NEED_GPU() do { if (tj_find_device("cuda:0") <= 0) SKIP("no GPU and no fake of one"); } while (0)

static const tj_dtype every[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_I32, TJ_I64, TJ_I16, TJ_I8, TJ_U8 };

/* ---- a function on the evaluator and on a GPU ---- */
enum { OUTS = LAYOUTS, INS = 3, AXES = 6 };
typedef struct task {
	tj_body *body;
	void *self;
	int nin, nout;
	tj_dtype dtype;
	int64_t dim[INS][AXES];  /* each ended by -1 */
	tj_dynamic dynamic;
	tj_products products;
	tj_numerics numerics;
	bool tiny;               /* operands near the least number: products round to -0, and to subnormal numbers */
} task;
typedef struct result { void *data[OUTS]; size_t bytes[OUTS]; char *kernels; } result;

/* Floats with all bits of f32, made into the dtype by the library; all values of integers. */
static tj_tensor *values(tj_ctx *c, const task *t, int which)
{
	int64_t dim[AXES + 1], n = 1;
	int rank = 0;
	unsigned x = 77u + (unsigned)which;
	for (; t->dim[which][rank] >= 0; rank++) n *= dim[rank] = t->dim[which][rank];
	dim[rank] = TJ_END_DIM;
	const bool real = t->dtype == TJ_F32 || t->dtype == TJ_F64 || t->dtype == TJ_F16 || t->dtype == TJ_BF16;
	float *f = calloc((size_t)n + 1, sizeof *f);
	int64_t *l = calloc((size_t)n + 1, sizeof *l);
	for (int64_t i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		f[i] = ldexpf((float)(int)(x >> 7) - 0x1p24f, t->tiny ? -100 : -24);
		l[i] = (int64_t)((uint64_t)x * 0x100000001b3u);
	}
	tj_tensor *y = real ? tj_from_data(c, TJ_F32, dim, f) : tj_from_data(c, TJ_I64, dim, l);
	if (!real && t->dtype != TJ_I64) { /* casts saturate: the low bits instead */
		for (int64_t i = 0; i < n; i++) memcpy((char *)f + i * (int64_t)tj_dtype_size(t->dtype), &l[i], tj_dtype_size(t->dtype));
		y = tj_from_data(c, t->dtype, dim, f);
	}
	if (real && t->dtype != TJ_F32) y = tj_cast(y, t->dtype);
	free(f);
	free(l);
	return y;
}

static result on(bool gpu, const task *t)
{
	result r = { 0 };
	tj_tensor *in[INS + 1], *out[OUTS];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = gpu ? "cuda:0" : "cpu", .backend = gpu ? NULL : "eval"));
	assert_int_equal(tj_set_settings(c, TJ_OPTS(tj_settings, .products = gpu ? t->products : TJ_PRODUCTS_AUTO)), TJ_OK);
	tj_fn *f = tj_compile(
		c, t->body, t->self,
		TJ_OPTS(tj_compile_opts, .name = "t", .nin = t->nin, .nout = t->nout, .dynamic = t->dynamic, .numerics = t->numerics));
	for (int i = 0; i < t->nin; i++) in[i] = values(c, t, i);
	in[t->nin] = TJ_END;
	for (int turn = 0; turn < (gpu ? 2 : 1); turn++)
		if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
	for (int i = 0; i < t->nout; i++) {
		r.bytes[i] = (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i]));
		r.data[i] = calloc(r.bytes[i] + 1, 1);
		if (tj_read(out[i], r.data[i], r.bytes[i]) != TJ_OK) fail_msg("%s", tj_last_error(c)->message);
	}
	if (gpu) r.kernels = kit_dump(f, TJ_DUMP_KERNELS);
	kit_ok(c);
	tj_close(c);
	return r;
}

static void drop(result *r)
{
	for (int i = 0; i < OUTS; i++) free(r->data[i]);
	free(r->kernels);
}

static int64_t tiles_in(const char *kernels)
{
	int64_t n = 0;
	for (const char *s = kernels; (s = strstr(s, "vec=tile")); s++) n++;
	return n;
}

/* Equal bits; every product is computed by a kernel of the GPU. */
static void same(const char *name, task t, int least)
{
	result want = on(false, &t), got = on(true, &t);
	if (tiles_in(got.kernels) < least) fail_msg("%s of %s: fewer than %d products in\n%s", name, tj_dtype_name(t.dtype), least, got.kernels);
	for (int i = 0; i < t.nout; i++) {
		assert_int_equal(got.bytes[i], want.bytes[i]);
		if (memcmp(got.data[i], want.data[i], got.bytes[i])) fail_msg("%s of %s: output %d differs", name, tj_dtype_name(t.dtype), i);
	}
	drop(&want);
	drop(&got);
}

/* ---- sizes ---- */
static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }

static void sizes(void **s)
{
	static const int64_t size[][3] = {
		/* m, n, k: each tile, and edges of it */
		{ 65, 63, 129 }, { 17, 129, 300 }, { 129, 17, 256 }, { 1, 129, 513 }, { 129, 1, 17 },  { 1, 1, 1000 },
		{ 64, 64, 16 },  { 63, 65, 1 },    { 5, 3, 0 },      { 8, 3000, 31 }, { 3000, 8, 33 },
	};
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof every / sizeof *every; t++)
		for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
			if ((t && every[t] != TJ_I32 && i % 3 != t % 3) || (t && left_out(i / 3 + t))) continue;
			const int64_t m = size[i][0], n = size[i][1], k = size[i][2];
			same("product",
			     (task){ .body = product,
			             .nin = 2,
			             .nout = 1,
			             .dtype = every[t],
			             .dim = { { m, k, -1 }, { k, n, -1 } },
			             .products = TJ_PRODUCTS_OWN },
			     1);
		}
}

/* Enough of them that the largest tiles are the best ones, some of which are not full. */
static void many_tiles(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_I8 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		if (left_out(t)) continue;
		same("rows",
		     (task){ .body = product,
		             .nin = 2,
		             .nout = 1,
		             .dtype = types[t],
		             .dim = { { 40, 150, 20, -1 }, { 40, 20, 130, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     1);
		same("few rows",
		     (task){ .body = product,
		             .nin = 2,
		             .nout = 1,
		             .dtype = types[t],
		             .dim = { { 15, 9, -1 }, { 9, 40000, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     1);
		same("few columns",
		     (task){ .body = product,
		             .nin = 2,
		             .nout = 1,
		             .dtype = types[t],
		             .dim = { { 40000, 9, -1 }, { 9, 15, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     1);
	}
}

static void without_elements(void **s)
{
	static const int64_t size[][3] = { { 3, 4, 0 }, { 0, 4, 5 }, { 3, 0, 5 }, { 0, 0, 0 } };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof every / sizeof *every; t++)
		for (size_t i = 0; i < 4; i++) {
			const int64_t m = size[i][0], n = size[i][1], k = size[i][2];
			same("nothing",
			     (task){ .body = product,
			             .nin = 2,
			             .nout = 1,
			             .dtype = every[t],
			             .dim = { { 2, m, k, -1 }, { k, n, -1 } },
			             .products = TJ_PRODUCTS_OWN },
			     0);
		}
}

/* The sign of a sum that rounds to -0 stays; steps behind the last one add nothing to it. */
static void rounds_to_zero(void **s)
{
	(void)s;
	NEED_GPU();
	for (int64_t k = 1; k <= 20; k += 19)
		same("tiny",
		     (task){ .body = product,
		             .nin = 2,
		             .nout = 1,
		             .dtype = TJ_F32,
		             .dim = { { 9, k, -1 }, { k, 9, -1 } },
		             .products = TJ_PRODUCTS_OWN,
		             .tiny = true },
		     1);
}

/* Code with sizes as arguments, used again for other sizes. */
static void sizes_are_arguments(void **s)
{
	static const int64_t size[][3] = { { 33, 40, 20 }, { 50, 61, 290 }, { 34, 41, 21 } };
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_BF16, TJ_I8 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_set_settings(c, TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_OWN));
		tj_fn *f = tj_compile(c, product, NULL, TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = 1, .dynamic = TJ_DYNAMIC_ON));
		for (int i = 0; i < 3; i++) {
			const int64_t m = size[i][0], n = size[i][1], k = size[i][2];
			const task j = { .body = product, .nin = 2, .nout = 1, .dtype = types[t], .dim = { { m, k, -1 }, { k, n, -1 } } };
			result want = on(false, &j);
			tj_ctx_use(c);
			tj_tensor *y = tj_call1(f, TJ_LIST(values(c, &j, 0), values(c, &j, 1)));
			void *got = calloc(want.bytes[0], 1);
			assert_int_equal(tj_read(y, got, want.bytes[0]), TJ_OK);
			assert_memory_equal(got, want.data[0], want.bytes[0]);
			free(got);
			drop(&want);
		}
		assert_int_equal((int)kit_stats(f).compiled, 1);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- layouts ---- */
static void layouts(void **s)
{
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof every / sizeof *every; t++)
		if (!left_out(t)) same("layouts",
		     (task){ .body = layouts_body,
		             .nin = 2,
		             .nout = LAYOUTS,
		             .dtype = every[t],
		             .dim = { { 4, 6, 8, -1 }, { 4, 8, 6, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     15);
}

/* Plain ops on what a product reads, and what follows it: all one kernel. */
static void around(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_matmul(tj_mul(in[0], in[0]), tj_neg(in[1]));
	out[0] = tj_relu(tj_add(y, in[2]));
}

/* Narrow operands that a wider product reads as they lie. */
static void widened(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_dtype to = *(const tj_dtype *)self;
	out[0] = tj_matmul(tj_cast(in[0], to), tj_cast(in[1], to));
}

static void with_others(void **s)
{
	static const struct {
		tj_dtype from, to;
	} wider[] = { { TJ_I8, TJ_I32 }, { TJ_U8, TJ_I64 }, { TJ_I16, TJ_I32 }, { TJ_BF16, TJ_F32 }, { TJ_F16, TJ_F32 } };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof every / sizeof *every; t++)
		same("others",
		     (task){ .body = around,
		             .nin = 3,
		             .nout = 1,
		             .dtype = every[t],
		             .dim = { { 3, 33, 40, -1 }, { 40, 35, -1 }, { 35, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     1);
	for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
		same("widened",
		     (task){ .body = widened,
		             .self = (void *)(uintptr_t)&wider[i].to,
		             .nin = 2,
		             .nout = 1,
		             .dtype = wider[i].from,
		             .dim = { { 33, 270, -1 }, { 270, 35, -1 } },
		             .products = TJ_PRODUCTS_OWN },
		     1);
}

/* ---- convolutions ---- */
typedef struct conv { const char *name; int64_t x[AXES], w[AXES]; tj_conv_opts opts; bool transposed; } conv;
static const conv convs[] = {
	{ "1d", { 3, 4, 40, -1 }, { 5, 4, 3, -1 }, { .size = sizeof(tj_conv_opts) }, false },
	{ "1d, wide steps",
	  { 2, 3, 70, -1 },
	  { 4, 3, 5, -1 },
	  { .size = sizeof(tj_conv_opts), .stride = { 3 }, .padding = { 4 }, .dilation = { 2 } },
	  false },
	{ "2d", { 2, 3, 13, 17, -1 }, { 8, 3, 3, 3, -1 }, { .size = sizeof(tj_conv_opts), .padding = { 1, 1 } }, false },
	{ "2d, long sums", { 1, 33, 9, 9, -1 }, { 6, 33, 3, 3, -1 }, { .size = sizeof(tj_conv_opts) }, false },
	{ "2d, strides",
	  { 2, 4, 14, 15, -1 },
	  { 6, 4, 3, 2, -1 },
	  { .size = sizeof(tj_conv_opts), .stride = { 2, 3 }, .padding = { 1, 2 } },
	  false },
	{ "2d, dilation",
	  { 2, 4, 12, 12, -1 },
	  { 3, 4, 3, 3, -1 },
	  { .size = sizeof(tj_conv_opts), .padding = { 3, 2 }, .dilation = { 2, 3 } },
	  false },
	{ "2d, groups",
	  { 2, 6, 10, 11, -1 },
	  { 9, 2, 3, 3, -1 },
	  { .size = sizeof(tj_conv_opts), .stride = { 2, 1 }, .padding = { 1, 1 }, .groups = 3 },
	  false },
	{ "3d",
	  { 1, 2, 6, 7, 8, -1 },
	  { 3, 2, 2, 3, 2, -1 },
	  { .size = sizeof(tj_conv_opts), .stride = { 1, 2, 1 }, .padding = { 0, 1, 1 } },
	  false },
	{ "transposed 1d", { 2, 3, 20, -1 }, { 3, 4, 3, -1 }, { .size = sizeof(tj_conv_opts), .stride = { 2 } }, true },
	{ "transposed 2d",
	  { 2, 4, 6, 7, -1 },
	  { 4, 3, 3, 3, -1 },
	  { .size = sizeof(tj_conv_opts), .stride = { 2, 1 }, .padding = { 1, 1 }, .groups = 2 },
	  true },
};

static tj_tensor *convolved(const conv *k, tj_tensor *x, tj_tensor *w)
{
	int axes = 0;
	while (k->x[2 + axes] >= 0) axes++;
	if (axes == 1) return k->transposed ? tj_conv_transpose1d(x, w, NULL, &k->opts) : tj_conv1d(x, w, NULL, &k->opts);
	if (axes == 2) return k->transposed ? tj_conv_transpose2d(x, w, NULL, &k->opts) : tj_conv2d(x, w, NULL, &k->opts);
	return k->transposed ? tj_conv_transpose3d(x, w, NULL, &k->opts) : tj_conv3d(x, w, NULL, &k->opts);
}

static void convolve(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_relu(convolved(self, in[0], in[1])); }
static void gradients(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = convolved(self, in[0], in[1]);
	tj_grad(out, tj_sum(tj_mul(y, tj_sin(y)), NULL, false), TJ_LIST(in[0], in[1]), NULL);
}

static task task_of(const conv *k, tj_body *body, int nout, tj_dtype t, tj_products products)
{
	task x = { .body = body, .self = (void *)(uintptr_t)k, .nin = 2, .nout = nout, .dtype = t, .products = products };
	memcpy(x.dim[0], k->x, sizeof x.dim[0]);
	memcpy(x.dim[1], k->w, sizeof x.dim[1]);
	return x;
}

static void convolutions(void **s)
{
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof every / sizeof *every; t++)
		for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
			if ((t < 2 || every[t] == TJ_I32 || i % 3 == t % 3) && !left_out(i / 3 + t))
				same(convs[i].name, task_of(&convs[i], convolve, 1, every[t], TJ_PRODUCTS_OWN), 1);
}

/* No channels: windows without elements, and sums of length 0. */
static void without_channels(void **s)
{
	static const conv none[] = {
		{ "no channels", { 2, 0, 6, 5, -1 }, { 4, 0, 2, 2, -1 }, { .size = sizeof(tj_conv_opts), .stride = { 2, 1 } }, false },
		{ "transposed", { 2, 0, 3, 2, -1 }, { 0, 4, 2, 2, -1 }, { .size = sizeof(tj_conv_opts) }, true },
	};
	(void)s;
	NEED_GPU();
	for (size_t i = 0; i < 2; i++)
		for (size_t t = 0; t < 3; t++) same(none[i].name, task_of(&none[i], convolve, 1, every[t], TJ_PRODUCTS_OWN), 0);
}

/* Strict ones of f32 and f64, and those of integers, need no setting. */
static void convolutions_by_default(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_I8 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < 3; t++) same("2d", task_of(&convs[4], convolve, 1, types[t], TJ_PRODUCTS_AUTO), 1);
}

static void conv_gradients(void **s)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_BF16 };
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
			if (!t || i % 3 == t) same(convs[i].name, task_of(&convs[i], gradients, 2, types[t], TJ_PRODUCTS_OWN), 2);
}

/* Windows are read where they lie: an index of the product jumps, and no buffer is as large as all windows. */
static void windows_are_not_stored(void **s)
{
	(void)s;
	NEED_GPU();
	for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
		const task t = task_of(&convs[i], convolve, 1, TJ_F32, TJ_PRODUCTS_AUTO);
		result r = on(true, &t);
		const char *tile = strstr(r.kernels, "vec=tile"), *jump = tile ? strstr(tile, "*(r/") : NULL;
		if (!jump) fail_msg("%s\n%s", convs[i].name, r.kernels);
		drop(&r);
	}
}

/* ---- who computes ---- */
static void note(void *self, const tj_reason *n)
{
	char *to = self;
	if (!strcmp(n->kind, "library") || !strcmp(n->kind, "device")) snprintf(to + strlen(to), 2000 - strlen(to), "%s: %s\n", n->kind, n->text);
}

static void told(const char *what, task t, const tj_settings *settings, const char *part)
{
	char text[2000] = "";
	tj_tensor *out[OUTS];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	if (settings) assert_int_equal(tj_set_settings(c, settings), TJ_OK);
	tj_fn *f = tj_compile(c, t.body, t.self,
	                      TJ_OPTS(tj_compile_opts, .name = "p", .nin = 2, .nout = t.nout, .numerics = t.numerics, .on_note = note,
	                              .on_note_self = text));
	assert_int_equal(tj_call(f, out, TJ_LIST(values(c, &t, 0), values(c, &t, 1))), TJ_OK);
	assert_int_equal(tj_sync(c), TJ_OK);
	char *explained = kit_explain(f);
	if (!strstr(text, part) && !strstr(explained, part)) fail_msg("%s: \"%s\" is not in %s%s", what, part, text, explained);
	if (strstr(text, "device: ")) fail_msg("%s: %s", what, text);
	free(explained);
	tj_close(c);
}

static void who_computes(void **s)
{
	static const conv long_sums = { "gradient", { 1, 3, 80, 80, -1 }, { 4, 3, 3, 3, -1 }, { .size = sizeof(tj_conv_opts) }, false };
	const task whole = { .body = product, .nin = 2, .nout = 1, .dtype = TJ_I32, .dim = { { 4, 5, -1 }, { 5, 6, -1 } } },
		   real = { .body = product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 4, 5, -1 }, { 5, 6, -1 } } };
	task fast = task_of(&convs[2], convolve, 1, TJ_F32, TJ_PRODUCTS_AUTO);
	(void)s;
	NEED_GPU();
	fast.numerics = TJ_FAST;
	told("integers", whole, NULL, "matmul is computed by a kernel: cuBLASLt has no products of integers");
	told("floats", real, NULL, "matmul is computed by cublasLt");
	told("own", real, TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_OWN),
	     "matmul is computed by a kernel: the context's settings prefer the kernels of tjit");
	told("windows", task_of(&convs[2], convolve, 1, TJ_F32, TJ_PRODUCTS_AUTO), NULL,
	     "is computed by a kernel: it reads the windows where they lie");
	told("windows of bf16", task_of(&convs[2], convolve, 1, TJ_BF16, TJ_PRODUCTS_AUTO), NULL, "is computed by cublasLt");
	told("fast", fast, NULL, "is computed by cublasLt");
	told("library", task_of(&convs[2], convolve, 1, TJ_F32, TJ_PRODUCTS_AUTO), TJ_OPTS(tj_settings, .products = TJ_PRODUCTS_LIBRARY),
	     "is computed by cublasLt");
	told("TF32", task_of(&convs[2], convolve, 1, TJ_F32, TJ_PRODUCTS_AUTO), TJ_OPTS(tj_settings, .allow_tf32 = true),
	     "is computed by cublasLt");
	told("long sums", task_of(&long_sums, gradients, 2, TJ_F32, TJ_PRODUCTS_AUTO), NULL, "is computed by cublasLt");
}

/* A result of sixteen axes. */
static void sixteen(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(tj_reshape(in[0], TJ_SHAPE(2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4)), in[1]);
}

static void too_many_axes(void **s)
{
	(void)s;
	NEED_GPU();
	same("sixteen axes", (task){ .body = sixteen, .nin = 2, .nout = 1, .dtype = TJ_I32, .dim = { { 2, 3, 4, -1 }, { 4, 5, -1 } } }, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(many_tiles),
		cmocka_unit_test(without_elements),
		cmocka_unit_test(rounds_to_zero),
		cmocka_unit_test(sizes_are_arguments),
		cmocka_unit_test(layouts),
		cmocka_unit_test(with_others),
		cmocka_unit_test(convolutions),
		cmocka_unit_test(without_channels),
		cmocka_unit_test(convolutions_by_default),
		cmocka_unit_test(conv_gradients),
		cmocka_unit_test(windows_are_not_stored),
		cmocka_unit_test(who_computes),
		cmocka_unit_test(too_many_axes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
