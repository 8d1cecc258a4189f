/* SPDX-License-Identifier: MIT */
/* Weights as small integers: the integers and the products beside C, each back end with the same bits; in ONNX files; differences. */
#include "test/kit/onnxfile.h"

#include <math.h>
#include <tjdata.h>

enum { M = 5, K = 96, N = 33, B = 2, MOST = B * K * N };
typedef struct layer { tj_weight w; } layer;

static float number(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) / 1001 * (i % 11 ? 1 : 3); }
static void numbers(float *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++) v[i] = number(i);
}

/* ---- beside C ---- */
/* Element (b, k, n) of a weight of floats. */
static int64_t at(bool transposed, int64_t b, int64_t k, int64_t n) { return transposed ? (b * N + n) * K + k : (b * K + k) * N + n; }

/* What the integers stand for, by the documented rule; integers[] gets them. */
static void expected(const float *w, bool transposed, tj_quantise how, int64_t group, float *meant, int *integers, float *scales)
{
	for (int b = 0; b < B; b++)
		for (int n = 0; n < N; n++)
			for (int g = 0; g < K / group; g++) {
				float most = 0;
				for (int64_t k = g * group; k < (g + 1) * group; k++) {
					const float v = w[at(transposed, b, k, n)];
					if (fabsf(v) > fabsf(most)) most = v;
				}
				const float scale = how == TJ_QUANTISE_I4 ? most / -8 : fabsf(most) / 127;
				for (int64_t k = g * group; k < (g + 1) * group; k++) {
					const int64_t i = at(transposed, b, k, n);
					const float q = rintf(w[i] / scale), limit = how == TJ_QUANTISE_I4 ? 7 : 127;
					integers[i] = (int)(q > limit ? limit : q);
					meant[i] = (float)integers[i] * scale, scales[i] = scale;
				}
			}
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_weight_matmul(in[0], &((layer *)self)->w); }

/* The bits of integer products: each row of x has a scale, too. */
static float dynamic_in_c(const float *x, const int *q, const float *scales, bool transposed, int64_t b, int64_t n)
{
	float most = 0;
	int32_t sum = 0;
	for (int k = 0; k < K; k++) most = fmaxf(most, fabsf(x[k]));
	const float s = most / 127;
	for (int k = 0; k < K; k++) sum += (int)rintf(x[k] / (s == 0 ? 1 : s)) * q[at(transposed, b, k, n)];
	return (float)sum * s * scales[at(transposed, b, 0, n)];
}

static void check_product(tj_ctx *c, layer *l, const float *meant, const int *q, const float *scales)
{
	static float x[B * M * K], y[B * M * N];
	numbers(x, B * M * K);
	memset(x + K, 0, K * sizeof *x); /* a row of zeros */
	tj_fn *f = tj_compile(c, product, l, TJ_OPTS(tj_compile_opts, .name = "product", .nin = 1, .nout = 1,
	                                             .freeze = TJ_VARS(&l->w.values, &l->w.scale)));
	tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(B, M, K), x))), y, sizeof y);
	kit_ok(c);
	for (int i = 0; i < B * M * N; i++) {
		const int64_t b = i / (M * N), m = i / N % M, n = i % N;
		const float *row = x + (b * M + m) * K;
		double want = 0, size = 0;
		for (int k = 0; k < K; k++) {
			const double p = (double)row[k] * (double)meant[at(l->w.transposed, b, k, n)];
			want += p, size += fabs(p);
		}
		if (l->w.how == TJ_QUANTISE_DYNAMIC) assert_true(y[i] == dynamic_in_c(row, q, scales, l->w.transposed, b, n));
		else assert_true(fabs((double)y[i] - want) <= 1e-6 * size);
	}
	tj_fn_free(f);
}

static void test_products(void **state)
{
	static float w[MOST], meant[MOST], scales[MOST];
	static int q[MOST];
	static const struct { tj_quantise how; int64_t group, is; } kinds[] = {
		{ TJ_QUANTISE_DYNAMIC, 0, K }, { TJ_QUANTISE_I8, 0, K },   { TJ_QUANTISE_I8, 32, 32 },
		{ TJ_QUANTISE_I4, 16, 16 },    { TJ_QUANTISE_I4, 48, 48 },
	};
	(void)state;
	tj_ctx *c = kit_open();
	numbers(w, MOST);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (int transposed = 0; transposed < 2; transposed++) {
			tj_scope *s = tj_push(c);
			layer l;
			tj_tensor *t = tj_from_data(c, TJ_F32, transposed ? TJ_SHAPE(B, N, K) : TJ_SHAPE(B, K, N), w);
			assert_int_equal(tj_quantise_weight(t, transposed, kinds[i].how, kinds[i].group, &l.w), TJ_OK);
			assert_int_equal(l.w.group, kinds[i].is == K ? 0 : kinds[i].is);
			assert_true(l.w.k == K && l.w.n == N && l.w.transposed == transposed && l.w.how == kinds[i].how);
			assert_int_equal(tj_numel(l.w.values), kinds[i].how == TJ_QUANTISE_I4 ? MOST / 2 : MOST);
			expected(w, transposed, kinds[i].how, kinds[i].is, meant, q, scales);
			const int8_t *v = tj_data(l.w.values);
			for (int k = 0; k < MOST && kinds[i].how != TJ_QUANTISE_I4; k++) assert_int_equal(v[k], q[k]);
			check_product(c, &l, meant, q, scales);
			tj_pop(s);
		}
	tj_close(c);
}

/* Both back ends have the same bits. */
static void test_bits(void **state)
{
	static float w[K * N], x[M * K], y[2][M * N];
	(void)state;
	numbers(w, K * N), numbers(x, M * K);
	for (tj_quantise how = TJ_QUANTISE_DYNAMIC; how <= TJ_QUANTISE_I4; how++) {
		for (int i = 0; i < 2; i++) {
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = i ? "eval" : "llvm"));
			layer l;
			tj_quantise_weight(tj_from_data(c, TJ_F32, TJ_SHAPE(K, N), w), false, how, how == TJ_QUANTISE_DYNAMIC ? 0 : 24, &l.w);
			tj_fn *f = kit_fn(c, "product", product, &l, 1, 1);
			tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(M, K), x))), y[i], sizeof y[i]);
			tj_read(tj_weight_matmul(tj_from_data(c, TJ_F32, TJ_SHAPE(K), x), &l.w), x, N * sizeof *x); /* a vector */
			assert_memory_equal(x, y[i], N * sizeof *x);
			numbers(x, M * K);
			kit_ok(c);
			tj_close(c);
		}
		assert_memory_equal(y[0], y[1], sizeof y[0]);
	}
}

/* A vector times a batch of weights. */
static void test_batch(void **state)
{
	enum { BATCH = 2, KB = 32 };
	static float w[BATCH * KB * N], x[KB], y[BATCH * N], one[N];
	(void)state;
	numbers(w, BATCH * KB * N), numbers(x, KB);
	tj_ctx *c = kit_open();
	for (tj_quantise how = TJ_QUANTISE_DYNAMIC; how <= TJ_QUANTISE_I8; how++) {
		tj_weight all, l;
		tj_tensor *v = tj_from_data(c, TJ_F32, TJ_SHAPE(KB), x);
		tj_quantise_weight(tj_from_data(c, TJ_F32, TJ_SHAPE(BATCH, KB, N), w), false, how, 0, &all);
		tj_tensor *t = tj_weight_matmul(v, &all);
		kit_ok(c);
		assert_int_equal(tj_rank(t), 2);
		tj_read(t, y, sizeof y);
		for (int b = 0; b < BATCH; b++) {
			tj_quantise_weight(tj_from_data(c, TJ_F32, TJ_SHAPE(KB, N), w + b * KB * N), false, how, 0, &l);
			tj_read(tj_weight_matmul(v, &l), one, sizeof one);
			assert_memory_equal(one, y + b * N, sizeof one);
		}
	}
	kit_ok(c);
	tj_close(c);
}

static void quantise_within(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_weight w;
	(void)self;
	assert_int_equal(tj_quantise_weight(in[0], false, TJ_QUANTISE_I8, 0, &w), TJ_ERR_STATE);
	assert_true(w.values == NULL && w.scale == NULL);
	out[0] = in[0];
}

static void test_errors(void **state)
{
	static float w[32 * 4], bad[] = { 1, NAN, 2, 3 };
	(void)state;
	tj_ctx *c = kit_open();
	tj_weight q;
	numbers(w, 32 * 4);
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(32, 4), w);
	assert_int_equal(tj_quantise_weight(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), bad), false, TJ_QUANTISE_I8, 0, &q), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "NaN");
	bad[1] = INFINITY;
	tj_quantise_weight(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), bad), true, TJ_QUANTISE_DYNAMIC, 0, &q);
	kit_error(c, TJ_ERR_ARG, "infinity");
	assert_null(q.values);
	tj_quantise_weight(tj_cast(t, TJ_F16), false, TJ_QUANTISE_I8, 0, &q), kit_error(c, TJ_ERR_DTYPE, "f16");
	tj_quantise_weight(tj_ravel(t), false, TJ_QUANTISE_I8, 0, &q), kit_error(c, TJ_ERR_SHAPE, "two or more axes");
	tj_quantise_weight(t, false, TJ_QUANTISE_NONE, 0, &q), kit_error(c, TJ_ERR_ARG, "kind 0");
	tj_quantise_weight(t, false, TJ_QUANTISE_I8, 12, &q), kit_error(c, TJ_ERR_ARG, "groups of 12");
	tj_quantise_weight(t, false, TJ_QUANTISE_I4, 32, &q), kit_error(c, TJ_ERR_ARG, "groups of 32 do not fit k = 32");
	tj_quantise_weight(t, false, TJ_QUANTISE_DYNAMIC, 16, &q), kit_error(c, TJ_ERR_ARG, "groups of 16");
	tj_quantise_weight(tj_full(TJ_F32, TJ_SHAPE(0, 4), tj_f(0)), false, TJ_QUANTISE_I8, 0, &q), kit_error(c, TJ_ERR_SHAPE, "k is 0");
	tj_quantise_weight(tj_full(TJ_F32, TJ_SHAPE(131073, 1), tj_f(0)), false, TJ_QUANTISE_DYNAMIC, 0, &q), kit_error(c, TJ_ERR_SHAPE, "131072");
	tj_quantise_weight(t, false, TJ_QUANTISE_I8, 0, NULL), kit_error(c, TJ_ERR_ARG, "NULL");
	tj_weight_matmul(t, NULL), kit_error(c, TJ_ERR_ARG, "no values");
	assert_int_equal(tj_quantise_weight(t, false, TJ_QUANTISE_I4, 16, &q), TJ_OK);
	tj_weight_matmul(t, &q), kit_error(c, TJ_ERR_SHAPE, "k is 32");
	q.group = 0;
	tj_weight_matmul(tj_transpose(t, 0, 1), &q), kit_error(c, TJ_ERR_ARG, "groups of 0");
	tj_call1(kit_fn(c, "within", quantise_within, NULL, 1, 1), TJ_LIST(t)), kit_error(c, TJ_ERR_STATE, "not in a body");
	tj_close(c);
}

/* ---- in ONNX files ---- */
enum { SIDE = 32, HIDDEN = 19, NARROW = 2 };

/* y = op(x, w), a weight of 1,024 elements or a few more. */
static msg written(const char *what, int64_t attr)
{
	static float w[4 * HIDDEN * HIDDEN], u[4 * HIDDEN * NARROW];
	msg g = { .n = 0 };
	const bool gru = !strcmp(what, "GRU"), lstm = !strcmp(what, "LSTM"), conv = !strcmp(what, "Conv"), turned = !strcmp(what, "Transpose");
	const int64_t gates = lstm ? 4 : 3, hidden = lstm ? 17 : HIDDEN;
	numbers(w, (int64_t)(sizeof w / sizeof *w)), numbers(u, (int64_t)(sizeof u / sizeof *u));
	if (gru || lstm) {
		msg a[] = { an_int("hidden_size", hidden), an_int("linear_before_reset", attr) };
		for (size_t i = 0; i < sizeof w / sizeof *w; i++) w[i] /= 4;
		put_value(&g, 11, "x", FLOAT, TJ_SHAPE(6, 3, NARROW)), put_value(&g, 12, "y", FLOAT, TJ_SHAPE(6, 1, 3, hidden));
		msg t[] = { tensor("w", FLOAT, TJ_SHAPE(1, gates * hidden, NARROW), u, (size_t)(gates * hidden * NARROW) * 4),
			    tensor("r", FLOAT, TJ_SHAPE(1, gates * hidden, hidden), w, (size_t)(gates * hidden * hidden) * 4) };
		put_msg(&g, 5, &t[0]), put_msg(&g, 5, &t[1]);
		put_node(&g, what, "/node", "x w r", "y", gru ? 2 : 1, a);
		return model(&g, 17);
	}
	if (attr == 2) w[5] = NAN;
	msg a = an_int("transB", attr), t = tensor("w", FLOAT, conv ? TJ_SHAPE(SIDE, SIDE, 1, 1) : TJ_SHAPE(SIDE, SIDE), w, SIDE * SIDE * 4);
	put_value(&g, 11, "x", FLOAT, conv ? TJ_SHAPE(2, SIDE, 3, 4) : TJ_SHAPE(-1, SIDE));
	put_value(&g, 12, "y", FLOAT, conv ? TJ_SHAPE(2, SIDE, 3, 4) : TJ_SHAPE(-1, SIDE));
	put_msg(&g, 5, &t);
	if (turned) put_node(&g, "Transpose", "/turn", "w", "v", 0, NULL);
	put_node(&g, turned ? "MatMul" : what, "/node", turned ? "x v" : "x w", "y", !strcmp(what, "Gemm"), &a);
	return model(&g, 17);
}

static tj_tensor *input_of(tj_ctx *c, const tj_model *m)
{
	static float x[2 * SIDE * 3 * 4];
	const tj_onnx_value *v = tj_model_input(m, 0);
	int64_t dim[TJ_MAX_RANK + 1];
	for (int i = 0; i <= v->rank; i++) dim[i] = v->dim[i] == -1 ? 3 : v->dim[i];
	numbers(x, (int64_t)(sizeof x / sizeof *x));
	return tj_from_data(c, TJ_F32, dim, x);
}

static double relative(const tj_difference *d) { return sqrt(d->errors / d->wanted); }

static void test_onnx(void **state)
{
	static const struct { const char *op; int64_t attr; } files[] = {
		{ "MatMul", 0 }, { "Gemm", 0 }, { "Gemm", 1 }, { "Transpose", 0 }, { "Conv", 0 }, { "GRU", 0 }, { "GRU", 1 }, { "LSTM", 0 },
	};
	(void)state;
	tj_ctx *c = kit_open();
	hostile *h = good_file();
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		msg m = written(files[i].op, files[i].attr);
		tj_model *exact = opened(c, h, &m);
		tj_tensor *x = input_of(c, exact), *want[3], *got[3];
		assert_int_equal(tj_call(tj_model_fn(exact), want, TJ_LIST(x)), TJ_OK);
		assert_null(tj_model_quantised(exact, 0));
		for (tj_quantise how = TJ_QUANTISE_DYNAMIC; how <= TJ_QUANTISE_I4; how++) {
			tj_difference d = { 0 };
			tj_model *q = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise = how));
			kit_ok(c);
			const tj_quantised *about = tj_model_quantised(q, 0);
			const bool conv = !strcmp(files[i].op, "Conv"), turns = strchr(files[i].op, 'U') || strchr(files[i].op, 'S');
			assert_int_equal(tj_call(tj_model_fn(q), got, TJ_LIST(x)), TJ_OK);
			tj_difference_add(&d, want[0], got[0]);
			kit_ok(c);
			if (conv && how != TJ_QUANTISE_DYNAMIC) {
				assert_null(about);
				assert_true(d.largest == 0);
			} else {
				assert_non_null(about);
				assert_string_equal(about->node, "/node");
				assert_true(about->how == (how == TJ_QUANTISE_I4 && turns ? TJ_QUANTISE_I8 : how)); /* 17 and 19 have no halves */
				assert_true(about->bytes < about->float_bytes / (about->how == TJ_QUANTISE_I4 ? 5 : 3));
				assert_true(relative(&d) > 0 && relative(&d) < (about->how == TJ_QUANTISE_I4 ? 0.15 : 0.02));
			}
			tj_model_close(q);
		}
		tj_model_close(exact);
	}
	msg m = written("MatMul", 0);
	file_of(h, &m);
	const msg broken = written("MatMul", 2);
	file_of(h, &broken);
	tj_model *nan = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise = TJ_QUANTISE_DYNAMIC));
	kit_ok(c);
	assert_null(tj_model_quantised(nan, 0));
	tj_model_close(nan);
	file_of(h, &m);
	const char *node[] = { "/node", NULL }, *none[] = { "/nod", NULL };
	tj_model *q = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise = TJ_QUANTISE_I8, .quantise_except = node));
	kit_ok(c);
	assert_null(tj_model_quantised(q, 0));
	tj_model_close(q);
	assert_null(tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise = TJ_QUANTISE_I8, .quantise_except = none)));
	kit_error(c, TJ_ERR_ARG, "no node is named /nod");
	assert_null(tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise_group = 32)));
	kit_error(c, TJ_ERR_ARG, ".quantise is 0 with groups of 32");
	hostile_end(h);
	tj_close(c);
}

/* A data set goes through both models. */
static void test_compare(void **state)
{
	static float x[7 * SIDE];
	(void)state;
	tj_ctx *c = kit_open();
	hostile *h = good_file();
	msg m = written("MatMul", 0);
	tj_model *exact = opened(c, h, &m), *q = tj_onnx_open(c, h->path, TJ_OPTS(tj_onnx_opts, .quantise = TJ_QUANTISE_DYNAMIC));
	numbers(x, 7 * SIDE);
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(7, SIDE), x), *labels = tj_arange(TJ_I64, 0, 7, 1);
	tj_dataset *data = tj_dataset_arrays(c, TJ_LIST(t, labels));
	tj_loader *l = tj_loader_open(c, data, TJ_OPTS(tj_loader_opts, .batch = 3));
	tj_difference d = { 0 }, one = { 0 };
	assert_int_equal(tj_model_compare(exact, q, l, 0, &d), TJ_OK);
	assert_true(d.calls == 3 && d.rows == 7 && d.elements == 7 * SIDE && d.same >= 5 && relative(&d) > 0 && relative(&d) < 0.02);
	assert_int_equal(tj_model_compare(exact, exact, l, 1, &one), TJ_OK);
	assert_true(one.calls == 1 && one.rows == 3 && one.same == 3 && one.largest == 0);
	tj_model_compare(exact, q, NULL, 0, &d), kit_error(c, TJ_ERR_ARG, "NULL");
	tj_loader_close(l), tj_dataset_free(data);
	tj_model_close(exact), tj_model_close(q);
	hostile_end(h);
	tj_close(c);
}

static void test_difference(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_difference d = { 0 };
	char text[200];
	tj_tensor *a = F32(c, 1, 2, 3, 4), *b = F32(c, 1, 2.5, 3, 1);
	assert_int_equal(tj_difference_add(&d, a, b), TJ_OK);
	assert_true(d.largest == 3 && d.sum == 3.5 && d.errors == 9.25 && d.wanted == 30 && d.got == 17.25 && d.both == 19);
	assert_true(d.rows == 1 && d.same == 0);
	tj_difference_text(&d, text, sizeof text);
	assert_string_equal(text, "largest 3, mean 0.875, relative 0.555, cosine 0.835215, same largest element in 0.00 % of 1 row");
	assert_int_equal(tj_difference_text(&d, text, 5), (int)strlen("largest 3, mean 0.875, relative 0.555, cosine 0.835215, "
	                                                              "same largest element in 0.00 % of 1 row"));
	d = (tj_difference){ 0 };
	tj_difference_add(&d, F32(c, NAN, 1), F32(c, NAN, INFINITY));
	assert_true(isinf(d.largest) && d.elements == 2);
	d = (tj_difference){ 0 };
	tj_difference_add(&d, tj_arange(TJ_I64, 0, 3, 1), tj_arange(TJ_F16, 0, 3, 1));
	assert_true(d.largest == 0 && d.same == 1);
	tj_difference_add(&d, tj_f(1), a), kit_error(c, TJ_ERR_SHAPE, "different shapes");
	tj_difference_add(NULL, a, a), kit_error(c, TJ_ERR_ARG, "NULL");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_products), cmocka_unit_test(test_bits), cmocka_unit_test(test_batch),    cmocka_unit_test(test_errors),
		cmocka_unit_test(test_onnx),     cmocka_unit_test(test_compare), cmocka_unit_test(test_difference),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
