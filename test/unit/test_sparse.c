/* SPDX-License-Identifier: MIT */
/* Sparse matrices, segments, 2:4 weights, beside loops over the dense matrices. */
#include "test/kit.h"

#include <math.h>

enum { M = 6, N = 5, K = 3, MOST = M * N + 4 };

/* A matrix: row 2 is empty, as is column 3; three places behind the last row are unused. */
typedef struct matrix {
	double dense[M][N], values[MOST];
	int64_t offsets[M + 1], columns[MOST], size;
} matrix;

static double number(unsigned *seed) { return (double)((*seed = *seed * 1664525u + 1013904223u) >> 9) / (1 << 22) - 1; }

static void numbers(double *x, int n, unsigned *seed)
{
	for (int i = 0; i < n; i++) x[i] = number(seed);
}

static matrix made(unsigned seed)
{
	matrix a = { .size = 0 };
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < N; j++) {
			if (i == 2 || j == 3 || number(&seed) > 0) continue;
			a.values[a.size] = a.dense[i][j] = number(&seed);
			a.columns[a.size++] = j;
		}
		a.offsets[i + 1] = a.size;
	}
	for (int i = 0; i < 3; i++) a.values[a.size] = INFINITY, a.columns[a.size++] = i;
	return a;
}

/* The tensors of a matrix, those of it that are used, and dense operands. */
typedef struct all {
	tj_ctx *c;
	matrix a;
	tj_tensor *offsets, *columns, *values, *dense, *b, *bt;
	double right[N][K], left[M][K];
} all;

static tj_tensor *doubles(tj_ctx *c, tj_dims shape, const void *v) { return tj_from_data(c, TJ_F64, shape, v); }
static tj_tensor *whole(tj_ctx *c, int64_t n, const int64_t *v) { return tj_from_data(c, TJ_I64, TJ_SHAPE(n), v); }

static all begin(unsigned seed)
{
	all t = { .c = kit_open(), .a = made(seed) };
	tj_ctx_use(t.c);
	numbers((double *)t.right, N * K, &seed);
	numbers((double *)t.left, M * K, &seed);
	t.offsets = whole(t.c, M + 1, t.a.offsets);
	t.columns = whole(t.c, t.a.size, t.a.columns);
	t.values = doubles(t.c, TJ_SHAPE(t.a.size), t.a.values);
	t.dense = doubles(t.c, TJ_SHAPE(M, N), t.a.dense);
	t.b = doubles(t.c, TJ_SHAPE(N, K), t.right);
	t.bt = doubles(t.c, TJ_SHAPE(M, K), t.left);
	return t;
}
static void end(all *t)
{
	kit_ok(t->c);
	tj_close(t->c);
}

static void near(tj_tensor *y, const void *want, int64_t n, const char *what)
{
	double got[256];
	const double *w = want;
	assert_true(n <= 256);
	if (tj_is_poison(y)) kit_ok(tj_ctx_current());
	if (tj_numel(y) != n) fail_msg("%s has %d elements, not %d", what, (int)tj_numel(y), (int)n);
	tj_read(tj_cast(y, TJ_F64), got, (size_t)n * sizeof *got);
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(got[i] - w[i]) <= 1e-13 || got[i] == w[i] || (got[i] != got[i] && w[i] != w[i])))
			fail_msg("%s: element %d is %.17g, not %.17g", what, (int)i, got[i], w[i]);
}
static void same(tj_tensor *y, tj_tensor *z, const char *what)
{
	double want[256];
	assert_true(tj_numel(z) >= 0 && tj_numel(z) <= 256);
	tj_read(tj_cast(z, TJ_F64), want, (size_t)tj_numel(z) * sizeof *want);
	near(y, want, tj_numel(z), what);
}

/* ---- one form to another ---- */
static void forms(void **s)
{
	(void)s;
	for (unsigned seed = 1; seed < 6; seed++) {
		all t = begin(seed);
		tj_tensor *offsets, *columns, *row, *column, *v;
		near(tj_csr_to_dense(t.offsets, t.columns, t.values, N), t.a.dense, M * N, "csr_to_dense");
		v = tj_csr_from_dense(t.dense, &offsets, &columns);
		near(v, t.a.values, t.a.offsets[M], "the values of csr_from_dense");
		same(offsets, t.offsets, "its offsets");
		same(columns, tj_slice(t.columns, 0, 0, t.a.offsets[M], 1), "its columns");
		v = tj_csr_from_dense_static(t.dense, t.a.size + 1, &offsets, &columns);
		assert_int_equal(tj_numel(v), t.a.size + 1);
		same(offsets, t.offsets, "the offsets of csr_from_dense_static");
		near(tj_csr_to_dense(offsets, columns, v, N), t.a.dense, M * N, "csr_from_dense_static");
		v = tj_csr_transpose(t.offsets, t.columns, t.values, N, &offsets, &columns);
		same(tj_csr_to_dense(offsets, columns, v, M), tj_transpose(t.dense, 0, 1), "csr_transpose");
		assert_int_equal(tj_dim(offsets, 0), N + 1);

		/* triples in another order, each twice */
		const int64_t n = t.a.offsets[M];
		tj_tensor *back = tj_flip(tj_narrow(tj_csr_rows(t.offsets, t.a.size), 0, 0, n), TJ_ALL);
		row = tj_cat(TJ_LIST(back, back), 0);
		back = tj_flip(tj_narrow(t.columns, 0, 0, n), TJ_ALL);
		column = tj_cat(TJ_LIST(back, back), 0);
		back = tj_flip(tj_narrow(t.values, 0, 0, n), TJ_ALL);
		v = tj_cat(TJ_LIST(tj_mul(back, tj_f(0.25)), tj_mul(back, tj_f(0.75))), 0);
		near(tj_coo_to_dense(row, column, v, M, N), t.a.dense, M * N, "coo_to_dense");
		tj_tensor *joined = tj_csr_from_coo(row, column, v, M, N, &offsets, &columns);
		assert_int_equal(tj_numel(joined), 2 * n);
		same(offsets, t.offsets, "the offsets of csr_from_coo");
		near(tj_csr_to_dense(offsets, columns, joined, N), t.a.dense, M * N, "csr_from_coo");
		joined = tj_coo_coalesce(row, column, v, M, N, &row, &column);
		near(joined, t.a.values, n, "coo_coalesce");
		same(column, tj_narrow(t.columns, 0, 0, n), "its columns");
		same(row, tj_narrow(tj_csr_rows(t.offsets, t.a.size), 0, 0, n), "its rows");
		end(&t);
	}
}

/* ---- products ---- */
static void products(void **s)
{
	(void)s;
	for (unsigned seed = 1; seed < 6; seed++) {
		all t = begin(seed);
		double ab[M][K] = { { 0 } }, atb[N][K] = { { 0 } }, sampled[MOST] = { 0 }, sums[2][M] = { { 0 } };
		for (int i = 0; i < M; i++)
			for (int j = 0; j < N; j++) {
				for (int k = 0; k < K; k++)
					ab[i][k] += t.a.dense[i][j] * t.right[j][k], atb[j][k] += t.a.dense[i][j] * t.left[i][k];
				sums[0][j] += t.a.dense[i][j], sums[1][i] += t.a.dense[i][j];
			}
		for (int i = 0; i < M; i++)
			for (int64_t e = t.a.offsets[i]; e < t.a.offsets[i + 1]; e++)
				for (int k = 0; k < K; k++) sampled[e] += t.left[i][k] * t.right[t.a.columns[e]][k];
		near(tj_csr_matmul(t.offsets, t.columns, t.values, t.b), ab, M * K, "csr_matmul");
		near(tj_csr_matmul(tj_cast(t.offsets, TJ_I32), tj_cast(t.columns, TJ_U8), t.values, t.b), ab, M * K, "csr_matmul, narrow indices");
		same(tj_csr_matmul(t.offsets, t.columns, t.values, tj_select(t.b, 1, 1)), tj_select(doubles(t.c, TJ_SHAPE(M, K), ab), 1, 1),
		     "csr_matmul of a vector");
		near(tj_csr_matmul_transposed(t.offsets, t.columns, t.values, N, t.bt), atb, N * K, "csr_matmul_transposed");
		near(tj_csr_sampled_matmul(t.offsets, t.columns, t.bt, tj_transpose(t.b, 0, 1)), sampled, t.a.size, "csr_sampled_matmul");
		const int64_t n = t.a.offsets[M];
		near(tj_coo_matmul(tj_narrow(tj_csr_rows(t.offsets, n), 0, 0, n), tj_narrow(t.columns, 0, 0, n), tj_narrow(t.values, 0, 0, n), M, t.b),
		     ab, M * K, "coo_matmul");
		near(tj_csr_sum(t.offsets, t.columns, t.values, N, 0), sums[0], N, "the sums of columns");
		near(tj_csr_sum(t.offsets, t.columns, t.values, N, -1), sums[1], M, "the sums of rows");
		tj_tensor *mine = tj_csr_mask(t.offsets, t.columns, t.dense);
		near(tj_csr_to_dense(t.offsets, t.columns, mine, N), t.a.dense, M * N, "csr_mask");
		tj_tensor *each = tj_select(t.bt, 1, 0), *by_row = tj_csr_mask(t.offsets, t.columns, tj_unsqueeze(each, 1));
		same(tj_csr_to_dense(t.offsets, t.columns, tj_mul(mine, by_row), N), tj_mul(t.dense, tj_unsqueeze(each, 1)), "a value a row");
		each = tj_unsqueeze(tj_select(t.b, 1, 0), 0);
		same(tj_csr_to_dense(t.offsets, t.columns, tj_mul(mine, tj_csr_mask(t.offsets, t.columns, each)), N), tj_mul(t.dense, each),
		     "a value a column");
		end(&t);
	}
}

/* Half of a sum of halves: f16 is rounded once. */
static void narrow_floats(void **s)
{
	(void)s;
	all t = begin(9);
	tj_tensor *v = tj_cast(tj_narrow(t.values, 0, 0, t.a.offsets[M]), TJ_F16), *cols = tj_narrow(t.columns, 0, 0, t.a.offsets[M]);
	tj_tensor *b = tj_cast(t.b, TJ_F16), *y = tj_csr_matmul(t.offsets, cols, v, b);
	assert_int_equal(tj_dtype_of(y), TJ_F16);
	same(y, tj_cast(tj_csr_matmul(t.offsets, cols, tj_cast(v, TJ_F32), tj_cast(b, TJ_F32)), TJ_F16), "f16");
	assert_int_equal(tj_dtype_of(tj_csr_matmul(t.offsets, cols, v, tj_cast(b, TJ_F32))), TJ_F32);
	assert_int_equal(tj_dtype_of(tj_csr_matmul(t.offsets, cols, tj_cast(v, TJ_I32), b)), TJ_F16);
	assert_int_equal(tj_dtype_of(tj_csr_softmax(t.offsets, v)), TJ_F16);
	end(&t);
}

static void softmaxes(void **s)
{
	(void)s;
	all t = begin(3);
	double want[MOST] = { 0 }, logs[MOST] = { 0 };
	for (int i = 0; i < M; i++) {
		double sum = 0;
		for (int64_t e = t.a.offsets[i]; e < t.a.offsets[i + 1]; e++) sum += exp(t.a.values[e]);
		for (int64_t e = t.a.offsets[i]; e < t.a.offsets[i + 1]; e++)
			want[e] = exp(t.a.values[e]) / sum, logs[e] = t.a.values[e] - log(sum);
	}
	near(tj_csr_softmax(t.offsets, t.values), want, t.a.size, "csr_softmax");
	near(tj_csr_log_softmax(t.offsets, t.values), logs, t.a.size, "csr_log_softmax");
	tj_tensor *large = tj_add(tj_narrow(t.values, 0, 0, t.a.offsets[M]), tj_f(512)); /* exp(512 * 2) would overflow */
	assert_true(tj_truth(tj_allclose(tj_csr_softmax(t.offsets, tj_mul(large, tj_f(2))),
	                                 tj_csr_softmax(t.offsets, tj_mul(tj_sub(large, tj_f(512)), tj_f(2))), 1e-9, 1e-12, false)));
	end(&t);
}

/* ---- gradients: beside those of dense matrices, of the first and the second order ---- */
enum { PRODUCT, TRANSPOSED, SAMPLED, SOFTMAX, SUMS, DENSE, JOINED, WAYS };

static tj_tensor *value_of(const all *t, int way, bool sparse, tj_tensor *v, tj_tensor *b)
{
	tj_tensor *o = t->offsets, *c = t->columns, *bt = t->bt, *a = tj_csr_to_dense(o, c, v, N), *x, *y;
	switch (way) {
	case PRODUCT: return sparse ? tj_csr_matmul(o, c, v, b) : tj_matmul(a, b);
	case TRANSPOSED: return sparse ? tj_csr_matmul_transposed(o, c, v, N, bt) : tj_matmul(tj_transpose(a, 0, 1), bt);
	case SAMPLED:
		y = tj_transpose(b, 0, 1);
		if (sparse) return tj_mul(v, tj_csr_sampled_matmul(o, c, bt, y));
		return tj_csr_mask(o, c, tj_mul(a, tj_matmul(bt, y)));
	case SOFTMAX:
		if (sparse) return tj_csr_softmax(o, v);
		x = tj_csr_to_dense(o, c, tj_ones_like(v), N);
		return tj_csr_mask(o, c, tj_softmax(tj_where(tj_ne(x, tj_i(0)), a, tj_f(-1e30)), 1));
	case SUMS: return sparse ? tj_csr_sum(o, c, v, N, 1) : tj_sum(a, TJ_AXES(1), false);
	case DENSE:
		if (!sparse) return a;
		v = tj_csr_transpose(o, c, v, N, &o, &c);
		return tj_transpose(tj_csr_to_dense(o, c, v, M), 0, 1);
	default: /* the elements as triples, joined again */
		if (!sparse) return tj_mul(a, tj_f(3));
		x = tj_csr_rows(o, tj_numel(v));
		v = tj_where(tj_lt(x, tj_i(M)), v, tj_f(0));
		x = tj_where(tj_lt(x, tj_i(M)), x, tj_i(0));
		v = tj_csr_from_coo(tj_cat(TJ_LIST(x, x), 0), tj_cat(TJ_LIST(c, c), 0), tj_cat(TJ_LIST(v, tj_mul(v, tj_f(2))), 0), M, N, &o, &c);
		return tj_csr_to_dense(o, c, v, N);
	}
}

typedef struct order { const all *t; int way; bool sparse; } order;
/* in: values, b. out: both gradients, and those of a sum of their squares. */
static void gradients(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const order *q = self;
	tj_tensor *y = tj_sum(tj_sin(value_of(q->t, q->way, q->sparse, in[0], in[1])), TJ_ALL, false);
	const tj_grad_opts o = { .size = sizeof o, .unused = TJ_UNUSED_ZEROS };
	tj_grad(out, y, TJ_LIST(in[0], in[1]), &o);
	y = tj_add(tj_sum(tj_square(out[0]), TJ_ALL, false), tj_sum(tj_square(out[1]), TJ_ALL, false));
	tj_grad(out + 2, y, TJ_LIST(in[0], in[1]), &o);
}

static void derivatives(void **s)
{
	(void)s;
	for (int way = 0; way < WAYS; way++) {
		all t = begin(21);
		tj_tensor *got[4], *want[4], *v = tj_where(tj_lt(tj_csr_rows(t.offsets, t.a.size), tj_i(M)), t.values, tj_f(0));
		order sparse = { &t, way, true }, dense = { &t, way, false };
		tj_call(kit_fn(t.c, "sparse", gradients, &sparse, 2, 4), got, TJ_LIST(v, t.b));
		tj_call(kit_fn(t.c, "dense", gradients, &dense, 2, 4), want, TJ_LIST(v, t.b));
		kit_ok(t.c);
		for (int i = 0; i < 4; i++) same(got[i], want[i], (const char *[]){ "dv", "db", "ddv", "ddb" }[i]);
		end(&t);
	}
}

/* ---- the evaluator's bits, and examples ---- */
static void several(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *o = in[0], *c = in[1], *v = in[2];
	out[0] = tj_csr_matmul(o, c, v, in[3]);
	out[1] = tj_csr_matmul_transposed(o, c, v, 40, in[4]);
	out[2] = tj_csr_softmax(o, v);
	out[3] = tj_csr_sampled_matmul(o, c, in[4], tj_transpose(in[3], 0, 1));
	out[4] = tj_segment_reduce(v, o, TJ_REDUCE_AMAX);
}

static void bits(void **s)
{
	(void)s;
	enum { ROWS = 70, COLUMNS = 40, WIDTH = 83, SIZE = 1500, OUTS = 5 };
	static float got[2][OUTS][ROWS * WIDTH + SIZE];
	for (int turn = 0; turn < 2; turn++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = turn ? kit_backend : "eval"));
		int64_t offsets[ROWS + 1] = { 0 }, columns[SIZE];
		float v[SIZE], b[COLUMNS * WIDTH], bt[ROWS * WIDTH];
		unsigned seed = 5;
		for (int i = 0; i < ROWS; i++) offsets[i + 1] = offsets[i] + i % 7 * 6 < SIZE ? offsets[i] + i % 7 * 6 : SIZE;
		for (int i = 0; i < SIZE; i++) columns[i] = (int64_t)(20 + 20 * number(&seed)), v[i] = (float)number(&seed);
		for (int i = 0; i < COLUMNS * WIDTH; i++) b[i] = (float)number(&seed);
		for (int i = 0; i < ROWS * WIDTH; i++) bt[i] = (float)number(&seed);
		tj_tensor *out[OUTS], *in[] = { whole(c, ROWS + 1, offsets), whole(c, SIZE, columns), tj_from_data(c, TJ_F32, TJ_SHAPE(SIZE), v),
			                        tj_from_data(c, TJ_F32, TJ_SHAPE(COLUMNS, WIDTH), b),
			                        tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, WIDTH), bt), TJ_END };
		tj_call(kit_fn(c, "several", several, NULL, 5, OUTS), out, in);
		kit_ok(c);
		for (int i = 0; i < OUTS; i++) tj_read(out[i], got[turn][i], (size_t)tj_numel(out[i]) * sizeof(float));
		kit_ok(c);
		tj_close(c);
	}
	for (int i = 0; i < OUTS; i++)
		if (memcmp(got[0][i], got[1][i], sizeof got[0][i])) fail_msg("result %d has not the evaluator's bits", i);
}

static void one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const all *t = self;
	out[0] = tj_csr_matmul(t->offsets, t->columns, in[0], in[1]);
	out[1] = tj_csr_softmax(t->offsets, in[0]);
}

static void examples(void **s)
{
	(void)s;
	all t = begin(4);
	tj_tensor *v = tj_where(tj_lt(tj_csr_rows(t.offsets, t.a.size), tj_i(M)), t.values, tj_f(0));
	tj_tensor *vs = tj_stack(TJ_LIST(v, tj_mul(v, tj_f(2))), 0), *bs = tj_stack(TJ_LIST(t.b, tj_neg(t.b)), 0), *out[2];
	tj_vmap(out, 2, one, TJ_LIST(vs, bs), &t, NULL);
	kit_ok(t.c);
	for (int i = 0; i < 2; i++) {
		same(tj_select(out[0], 0, i), tj_csr_matmul(t.offsets, t.columns, tj_select(vs, 0, i), tj_select(bs, 0, i)), "csr_matmul of examples");
		same(tj_select(out[1], 0, i), tj_csr_softmax(t.offsets, tj_select(vs, 0, i)), "csr_softmax of examples");
	}
	end(&t);
}

/* ---- segments ---- */
static void segments(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	const double x[] = { 1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, 12 };
	tj_tensor *in = doubles(c, TJ_SHAPE(6, 2), x), *o = whole(c, 4, (int64_t[]){ 0, 2, 2, 5 });
	static const double want[][6] = {
		[TJ_REDUCE_SUM] = { 4, 2, 0, 0, 21, 12 },
		[TJ_REDUCE_PROD] = { 3, -8, 1, 1, 315, -480 },
		[TJ_REDUCE_MEAN] = { 2, 1, (double)NAN, (double)NAN, 7, 4 },
		[TJ_REDUCE_AMAX] = { 3, 4, (double)-INFINITY, (double)-INFINITY, 9, 10 },
		[TJ_REDUCE_AMIN] = { 1, -2, (double)INFINITY, (double)INFINITY, 5, -6 },
	};
	for (int how = 0; how <= TJ_REDUCE_AMIN; how++) near(tj_segment_reduce(in, o, (tj_reduction)how), want[how], 6, "segment_reduce");
	tj_tensor *i = tj_segment_reduce(tj_cast(in, TJ_I32), o, TJ_REDUCE_AMAX);
	assert_int_equal(tj_dtype_of(i), TJ_I32);
	near(i, (double[]){ 3, 4, 0, 0, 9, 10 }, 6, "segments of integers");
	assert_int_equal(tj_numel(tj_segment_reduce(in, whole(c, 1, (int64_t[]){ 0 }), TJ_REDUCE_SUM)), 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- 2:4 ---- */
static void half_of_them(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	double w[3][16], want[3][16] = { { 0 } };
	unsigned seed = 6;
	numbers((double *)w, 48, &seed);
	w[1][2] = w[1][1] = w[1][0] = 3, w[1][3] = -3; /* the first two of equals */
	for (int g = 0; g < 12; g++)
		for (int i = 0; i < 4; i++) {
			int before = 0;
			const double *v = (double *)w + 4 * g;
			for (int j = 0; j < 4; j++) before += fabs(v[j]) > fabs(v[i]) || (fabs(v[j]) == fabs(v[i]) && j < i);
			if (before < 2) want[g / 4][g % 4 * 4 + i] = v[i];
		}
	tj_tensor *in = doubles(c, TJ_SHAPE(3, 16), w), *index, *v = tj_compress_2_4(in, &index), *x = doubles(c, TJ_SHAPE(2, 16), w[1]);
	near(tj_prune_2_4(in), want, 48, "prune_2_4");
	assert_int_equal(tj_numel(v), 24);
	assert_int_equal(tj_numel(index), 6);
	assert_int_equal(tj_dtype_of(index), TJ_U8);
	near(tj_decompress_2_4(v, index), want, 48, "decompress_2_4");
	same(tj_linear_2_4(x, v, index, NULL), tj_linear(x, tj_prune_2_4(in), NULL), "linear_2_4");
	const double nan4[] = { (double)NAN, 1, (double)NAN, (double)NAN };
	near(tj_prune_2_4(doubles(c, TJ_SHAPE(4), nan4)), (double[]){ (double)NAN, 0, (double)NAN, 0 }, 4, "NaN");
	kit_ok(c);
	tj_close(c);
}

/* ---- what is empty, and what is refused ---- */
static void empty(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	tj_tensor *none = whole(c, 0, NULL), *o = whole(c, 1, (int64_t[]){ 0 }), *oo = whole(c, 3, (int64_t[]){ 0, 0, 0 }), *a, *b;
	tj_tensor *v = doubles(c, TJ_SHAPE(0), NULL), *dense = tj_zeros(TJ_F64, TJ_SHAPE(0, 3));
	assert_int_equal(tj_numel(tj_csr_matmul(o, none, v, tj_zeros(TJ_F64, TJ_SHAPE(4, 3)))), 0);
	near(tj_csr_matmul(oo, none, v, dense), (double[6]){ 0 }, 6, "no columns");
	near(tj_csr_matmul_transposed(o, none, v, 2, dense), (double[6]){ 0 }, 6, "no rows");
	assert_int_equal(tj_numel(tj_csr_sampled_matmul(o, none, dense, tj_zeros(TJ_F64, TJ_SHAPE(3, 0)))), 0);
	near(tj_csr_to_dense(oo, none, v, 2), (double[4]){ 0 }, 4, "no elements");
	assert_int_equal(tj_numel(tj_csr_from_dense(dense, &a, &b)), 0);
	assert_int_equal(tj_dim(a, 0), 1);
	near(tj_csr_from_dense_static(dense, 2, &a, &b), (double[2]){ 0 }, 2, "places without elements");
	near(tj_csr_matmul(a, b, tj_zeros(TJ_F64, TJ_SHAPE(2)), tj_zeros(TJ_F64, TJ_SHAPE(3, 1))), NULL, 0, "unused places alone");
	assert_int_equal(tj_numel(tj_csr_from_coo(none, none, v, 0, 0, &a, &b)), 0);
	assert_int_equal(tj_numel(tj_coo_coalesce(none, none, v, 2, 0, &a, &b)), 0);
	assert_int_equal(tj_numel(tj_csr_transpose(oo, none, v, 4, &a, &b)), 0);
	assert_int_equal(tj_dim(a, 0), 5);
	kit_ok(c);
	tj_close(c);
}

static void faulty(tj_tensor *y, tj_ctx *c, tj_status code, const char *part)
{
	if (!tj_is_poison(y)) (void)tj_data(y);
	kit_error(c, code, part);
}

static void far_column(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_csr_matmul(in[0], in[1], in[2], in[3]);
}

/* A column behind the last one, in compiled code; each call, and the next one is right. */
static void refused_later(void **s)
{
	(void)s;
	all t = begin(1);
	tj_tensor *y, *o = whole(t.c, 2, (int64_t[]){ 0, 2 }), *v = doubles(t.c, TJ_SHAPE(2), t.right);
	tj_fn *f = kit_fn(t.c, "far", far_column, NULL, 4, 1);
	for (int i = 0; i < 4; i++) {
		tj_status st = kit_call(t.c, f, &y, TJ_LIST(o, whole(t.c, 2, (int64_t[]){ 0, i % 2 ? N : N - 1 }), v, t.b));
		assert_int_equal(st, i % 2 ? TJ_ERR_INDEX : TJ_OK);
		if (i % 2) kit_error(t.c, TJ_ERR_INDEX, "the number of columns is 5");
	}
	end(&t);
}

static void refused(void **s)
{
	(void)s;
	all t = begin(1);
	tj_ctx *c = t.c;
	tj_tensor *two = whole(c, 2, (int64_t[]){ 0, 2 }), *ii = whole(c, 2, (int64_t[]){ 0, 1 }), *far = whole(c, 2, (int64_t[]){ 0, 7 });
	tj_tensor *v = doubles(c, TJ_SHAPE(2), t.right), *a, *b;
	faulty(tj_csr_matmul(two, far, v, t.b), c, TJ_ERR_INDEX, "a column is out of range; the number of columns is 5");
	faulty(tj_csr_to_dense(two, far, v, 7), c, TJ_ERR_INDEX, "a column is out of range");
	faulty(tj_csr_to_dense(two, whole(c, 2, (int64_t[]){ 0, -1 }), v, 7), c, TJ_ERR_INDEX, "a column is out of range");
	faulty(tj_coo_to_dense(far, ii, v, 7, 2), c, TJ_ERR_INDEX, "a row is out of range; the number of rows is 7");
	faulty(tj_coo_matmul(far, ii, v, 3, t.b), c, TJ_ERR_INDEX, "a row is out of range");
	faulty(tj_csr_from_coo(ii, far, v, 2, 3, &a, &b), c, TJ_ERR_INDEX, "a column is out of range");
	faulty(tj_csr_matmul(whole(c, 3, (int64_t[]){ 0, 2, 1 }), ii, v, t.b), c, TJ_ERR_INDEX, "the offsets do not ascend");
	faulty(tj_csr_matmul(whole(c, 2, (int64_t[]){ 1, 2 }), ii, v, t.b), c, TJ_ERR_INDEX, "the offsets do not ascend");
	faulty(tj_segment_reduce(v, whole(c, 2, (int64_t[]){ 0, 3 }), TJ_REDUCE_SUM), c, TJ_ERR_INDEX, "the offsets do not ascend");
	tj_csr_from_dense_static(t.b, 2, &a, &b);
	faulty(a, c, TJ_ERR_INDEX, "more elements that are not 0");
	faulty(tj_csr_matmul(two, whole(c, 3, (int64_t[]){ 0, 1, 2 }), v, t.b), c, TJ_ERR_SHAPE, "there are 3 columns, and values is f64[2]");
	faulty(tj_csr_matmul(two, v, v, t.b), c, TJ_ERR_DTYPE, "columns is f64");
	faulty(tj_csr_matmul(t.b, ii, v, t.b), c, TJ_ERR_DTYPE, "offsets is f64");
	faulty(tj_csr_matmul(whole(c, 0, NULL), ii, v, t.b), c, TJ_ERR_SHAPE, "offsets has no elements");
	faulty(tj_csr_matmul(two, ii, v, tj_f(1)), c, TJ_ERR_SHAPE, "b is ");
	faulty(tj_csr_matmul_transposed(two, ii, v, 2, t.b), c, TJ_ERR_SHAPE, "there are 1 rows");
	faulty(tj_csr_sampled_matmul(two, ii, t.b, t.b), c, TJ_ERR_SHAPE, "a is f64[5,3]");
	faulty(tj_csr_from_coo(ii, ii, v, INT64_C(1) << 40, INT64_C(1) << 40, &a, &b), c, TJ_ERR_LIMIT, "the other size");
	assert_true(tj_is_poison(a) && tj_is_poison(b));
	faulty(tj_csr_sum(two, ii, v, 2, 2), c, TJ_ERR_ARG, "axis 2");
	faulty(tj_csr_softmax(two, ii), c, TJ_ERR_DTYPE, "values is i64");
	faulty(tj_segment_reduce(tj_f(1), two, TJ_REDUCE_SUM), c, TJ_ERR_SHAPE, "no axes");
	faulty(tj_prune_2_4(t.b), c, TJ_ERR_SHAPE, "no multiple of 4");
	faulty(tj_decompress_2_4(v, two), c, TJ_ERR_SHAPE, "u8[...,n / 8]");
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms),       cmocka_unit_test(products), cmocka_unit_test(narrow_floats), cmocka_unit_test(softmaxes),
		cmocka_unit_test(derivatives), cmocka_unit_test(bits),     cmocka_unit_test(examples),      cmocka_unit_test(segments),
		cmocka_unit_test(half_of_them), cmocka_unit_test(empty),   cmocka_unit_test(refused), cmocka_unit_test(refused_later),
	};
	KIT_RUN(tests);
}
