/* SPDX-License-Identifier: MIT */
/* Random numbers of functions/random.c: exact edges, distributions (chi-square, with fixed seeds), equal numbers whatever computes them,
 * gradients of dropout, errors. */
#include "test/layers.h"

enum { MANY = 100000 };

static double chi_square(const int64_t *count, const double *p, int bins, int64_t n)
{
	double sum = 0;
	for (int i = 0; i < bins; i++) sum += ((double)count[i] - p[i] * (double)n) * ((double)count[i] - p[i] * (double)n) / (p[i] * (double)n);
	return sum;
}

/* The sum exceeds this with a probability below 0.001 (Wilson and Hilferty). */
static double most(int bins)
{
	const double k = bins - 1, c = 1 - 2 / (9 * k) + 3.09 * sqrt(2 / (9 * k));
	return k * c * c * c;
}

static double mean_of(const double *v, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++) sum += v[i];
	return sum / (double)n;
}

static void integers(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	enum { BINS = 7 };
	int64_t count[BINS] = { 0 };
	double p[BINS];
	tj_tensor *y = tj_randint(TJ_I64, TJ_SHAPE(MANY), -3, -3 + BINS);
	const int64_t *v = tj_data(y);
	for (int i = 0; i < MANY; i++) assert_true(v[i] >= -3 && v[i] < -3 + BINS), count[v[i] + 3]++;
	for (int i = 0; i < BINS; i++) p[i] = 1.0 / BINS;
	assert_true(chi_square(count, p, BINS, MANY) < most(BINS));
	const uint8_t *b = tj_data(tj_randint(TJ_BOOL, TJ_SHAPE(2, 500), 0, 2));
	int ones = 0;
	for (int i = 0; i < 1000; i++) assert_true(b[i] <= 1), ones += b[i];
	assert_true(ones > 420 && ones < 580);
	const int64_t far = INT64_C(1) << 51, *w = tj_data(tj_randint(TJ_I64, TJ_SHAPE(1000), far - 2, far)); /* both ends */
	for (int i = 0; i < 1000; i++) assert_true(w[i] == far - 2 || w[i] == far - 1);
	const int8_t *s = tj_data(tj_randint(TJ_I8, TJ_SHAPE(5000), -128, 128));
	int lowest = 0, highest = 0;
	for (int i = 0; i < 5000; i++) lowest += s[i] == -128, highest += s[i] == 127;
	assert_true(lowest && highest);
	assert_true(((const float *)tj_data(tj_randint(TJ_F32, TJ_0D, 5, 6)))[0] == 5);
	assert_int_equal(tj_numel(tj_randint(TJ_I32, TJ_SHAPE(0, 3), 0, 2)), 0);
	kit_ok(c);
	tj_close(c);
}

static void permutations(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	int64_t first[5] = { 0 };
	double p[5] = { 0.2, 0.2, 0.2, 0.2, 0.2 };
	const int64_t *v = tj_data(tj_randperm(3000));
	static bool seen[3000];
	memset(seen, 0, sizeof seen);
	for (int i = 0; i < 3000; i++) assert_true(v[i] >= 0 && v[i] < 3000 && !seen[v[i]]), seen[v[i]] = true;
	for (int i = 0; i < 1000; i++) first[((const int64_t *)tj_data(tj_randperm(5)))[0]]++;
	assert_true(chi_square(first, p, 5, 1000) < most(5));
	assert_int_equal(tj_numel(tj_randperm(0)), 0);
	assert_int_equal(((const int64_t *)tj_data(tj_randperm(1)))[0], 0);
	kit_ok(c);
	tj_close(c);
}

static void bernoullis(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const double p[] = { 0, 1, 0.25, NAN, -2, 3 };
	tj_tensor *given = tj_from_data(c, TJ_F64, TJ_SHAPE(6), p), *y = tj_bernoulli(TJ_F64, TJ_SHAPE(MANY / 10, 6), given);
	const double *v = tj_data(y);
	double sum[6] = { 0 };
	for (int i = 0; i < MANY / 10 * 6; i++) assert_true(v[i] == 0 || v[i] == 1), sum[i % 6] += v[i];
	assert_true(sum[0] == 0 && sum[1] == MANY / 10 && sum[3] == 0 && sum[4] == 0 && sum[5] == MANY / 10);
	assert_true(fabs(sum[2] / (MANY / 10) - 0.25) < 0.015);
	assert_int_equal(tj_dtype_of(tj_bernoulli(TJ_BOOL, NULL, given)), TJ_BOOL);
	assert_int_equal(tj_dim(tj_bernoulli(TJ_I32, NULL, given), 0), 6);
	assert_int_equal(tj_rank(tj_bernoulli(TJ_I32, NULL, tj_f(0.5))), 0);
	for (int i = 0; i < 2; i++) {
		const uint8_t *b = tj_data(tj_bernoulli(TJ_U8, TJ_SHAPE(1000), tj_f(i)));
		for (int k = 0; k < 1000; k++) assert_int_equal(b[k], i);
	}
	kit_ok(c);
	tj_close(c);
}

static void continuous(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	enum { BINS = 10 };
	int64_t count[BINS] = { 0 };
	double p[BINS], most_of_all = 0;
	const double *v = tj_data(tj_exponential(TJ_F64, TJ_SHAPE(MANY), 2));
	for (int i = 0; i < MANY; i++) {
		assert_true(v[i] >= 0 && isfinite(v[i]));
		const int bin = (int)(BINS * (1 - exp(-2 * v[i])));
		count[bin < BINS ? bin : BINS - 1]++;
		most_of_all = fmax(most_of_all, v[i]);
	}
	for (int i = 0; i < BINS; i++) p[i] = 1.0 / BINS;
	assert_true(chi_square(count, p, BINS, MANY) < most(BINS) && most_of_all > 4);
	assert_true(fabs(mean_of(v, MANY) - 0.5) < 0.01);
	v = tj_data(tj_random_normal(TJ_F64, TJ_SHAPE(MANY), tj_f(3), tj_f(0.5)));
	memset(count, 0, sizeof count);
	for (int i = 0; i < MANY; i++) count[(int)fmin(BINS - 1, BINS * 0.5 * erfc(-(v[i] - 3) / 0.5 / sqrt(2)))]++;
	assert_true(chi_square(count, p, BINS, MANY) < most(BINS));
	v = tj_data(tj_random_uniform(TJ_F64, TJ_SHAPE(MANY), tj_f(-1), tj_f(4)));
	memset(count, 0, sizeof count);
	for (int i = 0; i < MANY; i++) assert_true(v[i] >= -1 && v[i] <= 4), count[(int)fmin(BINS - 1, (v[i] + 1) / 5 * BINS)]++;
	assert_true(chi_square(count, p, BINS, MANY) < most(BINS));
	tj_tensor *rows = tj_random_normal(TJ_F16, TJ_SHAPE(1000, 2), F32(c, 10, -10), tj_f(1)); /* tensors are broadcast */
	assert_int_equal(tj_dtype_of(rows), TJ_F16);
	v = tj_data(tj_cast(tj_mean(rows, TJ_AXES(0), false), TJ_F64));
	assert_true(fabs(v[0] - 10) < 0.2 && fabs(v[1] + 10) < 0.2);
	kit_ok(c);
	tj_close(c);
}

static void multinomials(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const float weight[] = { 1, 0, 3, 6, 5, 5, 0, 0 }; /* two rows; of any sum */
	tj_tensor *w = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 4), weight);
	const double p[] = { 0.1, 0.3, 0.6 };
	int64_t count[3] = { 0 }, half[2] = { 0 };
	const int64_t *v = tj_data(tj_multinomial(w, MANY / 2, true));
	for (int i = 0; i < MANY / 2; i++) assert_true(v[i] == 0 || v[i] == 2 || v[i] == 3), count[v[i] ? v[i] - 1 : 0]++;
	for (int i = MANY / 2; i < MANY; i++) assert_true(v[i] == 0 || v[i] == 1), half[v[i]]++;
	assert_true(chi_square(count, p, 3, MANY / 2) < most(3));
	assert_true(chi_square(half, (const double[]){ 0.5, 0.5 }, 2, MANY / 2) < most(2));
	memset(count, 0, sizeof count);
	for (int i = 0; i < 2000; i++) { /* without replacement: the first is drawn as before, all are different, those without weight come last */
		v = tj_data(tj_multinomial(w, 4, false));
		count[v[0] ? v[0] - 1 : 0]++;
		for (int r = 0; r < 8; r += 4) assert_int_equal(1 << v[r] | 1 << v[r + 1] | 1 << v[r + 2] | 1 << v[r + 3], 15);
		assert_int_equal(v[3], 1);
		assert_true(v[4] < 2 && v[5] < 2);
	}
	assert_true(chi_square(count, p, 3, 2000) < most(3));
	tj_tensor *one = tj_multinomial(F32(c, 0, 7), 3, true);
	assert_int_equal(tj_rank(one), 1);
	for (int i = 0; i < 3; i++) assert_int_equal(((const int64_t *)tj_data(one))[i], 1);
	kit_ok(c);
	tj_close(c);
}

static double share_below(tj_tensor *x, double edge) { return tj_item(tj_mean(tj_cast(tj_lt(x, tj_f(edge)), TJ_F64), TJ_ALL, false)); }

static void more_distributions(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const double p[] = { 0.3, 0.21, 0.147, 0.343 };
	int64_t count[4] = { 0 };
	const int64_t *v = tj_data(tj_geometric(TJ_I64, TJ_SHAPE(MANY), 0.3));
	for (int i = 0; i < MANY; i++) assert_true(v[i] >= 1), count[v[i] < 4 ? v[i] - 1 : 3]++;
	assert_true(chi_square(count, p, 4, MANY) < most(4));
	for (tj_dtype t = TJ_U8; t <= TJ_F64; t++)
		assert_true(fabs(tj_item(tj_mean(tj_cast(tj_geometric(t, TJ_SHAPE(MANY), 0.3), TJ_F64), TJ_ALL, false)) - 1 / 0.3) < 0.1);
	assert_true(tj_truth(tj_all(tj_eq(tj_geometric(TJ_I8, TJ_SHAPE(99), 1), tj_i(1)), TJ_ALL, false)));
	for (tj_dtype t = TJ_F16; t <= TJ_F64; t++) {
		tj_tensor *x = tj_cast(tj_cauchy(t, TJ_SHAPE(MANY), 2, 3), TJ_F64); /* quarters at the median and sigma beside it */
		assert_true(fabs(share_below(x, -1) - 0.25) < 0.015 && fabs(share_below(x, 2) - 0.5) < 0.015 && fabs(share_below(x, 5) - 0.75) < 0.015);
		x = tj_cast(tj_log_normal(t, TJ_SHAPE(MANY), 0.5, 0.25), TJ_F64);
		assert_true(share_below(x, 0) == 0 && fabs(share_below(x, exp(0.5)) - 0.5) < 0.015 && fabs(share_below(x, exp(0.75)) - 0.8413) < 0.015);
	}
	assert_int_equal(tj_rank(tj_cauchy(TJ_F32, TJ_0D, 0, 1)), 0);
	assert_int_equal(tj_numel(tj_log_normal(TJ_F32, TJ_SHAPE(0, 2), 0, 1)), 0);
	kit_ok(c);
	tj_close(c);
}

/* A choice by softmax(logits): as often as its probability. Its gradient is that of the smooth one, also when it is one-hot. */
static void chosen(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_gumbel_softmax(in[0], 0.7, self != NULL, -1);
	tj_grad(out + 1, tj_sum(tj_mul(out[0], in[1]), TJ_ALL, false), TJ_LIST(in[0]), NULL);
}

static void choices(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const float logit[] = { 0, 1.0986123f, 1.7917595f }; /* log of 1, 3, 6 */
	tj_tensor *x = tj_expand(tj_from_data(c, TJ_F32, TJ_SHAPE(3), logit), TJ_SHAPE(MANY, 3)),
		  *w = tj_expand(F32(c, 1, -2, 5), TJ_SHAPE(MANY, 3)), *smooth[2], *hard[2];
	const double p[] = { 0.1, 0.3, 0.6 };
	int64_t count[3] = { 0 };
	tj_seed(c, 7);
	assert_int_equal(tj_call(kit_fn(c, "smooth", chosen, NULL, 2, 2), smooth, TJ_LIST(x, w)), TJ_OK);
	tj_seed(c, 7);
	assert_int_equal(tj_call(kit_fn(c, "hard", chosen, &count, 2, 2), hard, TJ_LIST(x, w)), TJ_OK);
	const float *v = tj_data(hard[0]), *soft = tj_data(smooth[0]), *g = tj_data(hard[1]), *h = tj_data(smooth[1]);
	for (int i = 0; i < MANY; i++) {
		int at = -1, largest = 0;
		for (int k = 0; k < 3; k++) {
			assert_true(v[3 * i + k] == 0 || v[3 * i + k] == 1);
			assert_true(fabsf(g[3 * i + k] - h[3 * i + k]) < 1e-5f);
			if (v[3 * i + k] == 1) at = k;
			if (soft[3 * i + k] > soft[3 * i + largest]) largest = k;
		}
		assert_int_equal(at, largest);
		count[at]++;
	}
	assert_true(chi_square(count, p, 3, MANY) < most(3));
	for (tj_dtype t = TJ_F16; t <= TJ_F64; t++) assert_int_equal(tj_dtype_of(tj_gumbel_softmax(tj_cast(x, t), 1, true, 1)), t);
	assert_f32(tj_gumbel_softmax(tj_reshape(F32(c, 3), TJ_0D), 1, true, 0), 1);
	assert_int_equal(tj_numel(tj_gumbel_softmax(tj_full(TJ_F32, TJ_SHAPE(0, 3), tj_f(1)), 1, true, -1)), 0);
	kit_ok(c);
	tj_close(c);
}

static void random_slopes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const float *v = tj_data(tj_rrelu(tj_full(TJ_F32, TJ_SHAPE(MANY), tj_f(-2)), 0.25, 0.75, true));
	double sum = 0;
	for (int i = 0; i < MANY; i++) assert_true(v[i] <= -0.5f && v[i] >= -1.5f), sum += v[i];
	assert_true(fabs(sum / MANY + 1) < 0.01);
	assert_f32(tj_rrelu(F32(c, 2, INFINITY, NAN, 0), 0.25, 0.75, true), 2, INFINITY, NAN, 0);
	assert_f32(tj_rrelu(F32(c, 2, -2, NAN, -INFINITY), 0.25, 0.75, false), 2, -1, NAN, -INFINITY);
	assert_int_equal(tj_dtype_of(tj_rrelu(tj_full(TJ_BF16, TJ_SHAPE(3), tj_f(-1)), 0.1, 0.3, true)), TJ_BF16);
	assert_int_equal(tj_rank(tj_rrelu(tj_full(TJ_F64, TJ_0D, tj_f(-1)), 0.1, 0.3, true)), 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- dropout ---- */
static void dropouts(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(MANY), tj_f(2));
	const float *v = tj_data(tj_dropout(x, 0.3, true));
	int64_t zero = 0;
	for (int i = 0; i < MANY; i++) assert_true(v[i] == 0 || v[i] == 2 * (float)(1 / 0.7)), zero += v[i] == 0;
	assert_true(fabs((double)zero / MANY - 0.3) < 0.006);
	assert_true(tj_dropout(x, 0.3, false) == x);
	tj_tensor *nan = F32(c, NAN, INFINITY, -1, -0.0f);
	assert_f32(tj_dropout(nan, 1, true), 0, 0, 0, 0);
	assert_f32(tj_dropout(nan, 0, true), NAN, INFINITY, -1, -0.0f);
	assert_f32(tj_alpha_dropout(nan, 1, true), 0, 0, 0, 0);
	assert_f32(tj_alpha_dropout(nan, 0, true), NAN, INFINITY, -1, 0);
	tj_tensor *z = tj_alpha_dropout(tj_normal(TJ_F64, TJ_SHAPE(MANY)), 0.2, true); /* keeps mean and variance */
	assert_true(fabs(tj_item(tj_mean(z, TJ_ALL, false))) < 0.02 && fabs(tj_item(tj_var(z, TJ_ALL, 1, false)) - 1) < 0.02);
	assert_int_equal(tj_numel(tj_dropout(tj_full(TJ_F32, TJ_SHAPE(0, 3), tj_f(1)), 0.5, true)), 0);
	assert_int_equal(tj_rank(tj_dropout(tj_full(TJ_F64, TJ_0D, tj_f(1)), 0.5, true)), 0);
	assert_int_equal(tj_dtype_of(tj_dropout(tj_full(TJ_BF16, TJ_SHAPE(3), tj_f(1)), 0.5, true)), TJ_BF16);
	kit_ok(c);
	tj_close(c);
}

static void whole_channels(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int way = 0; way < 4; way++) {
		tj_tensor *x = way == 0   ? tj_full(TJ_F32, TJ_SHAPE(20, 50, 6), tj_f(1))
		               : way == 1 ? tj_full(TJ_F32, TJ_SHAPE(1000, 2, 3), tj_f(1))
		                          : tj_full(TJ_F32, TJ_SHAPE(20, 50, 1, 2, 3), tj_f(1));
		tj_tensor *y = way == 0   ? tj_dropout1d(x, 0.4, true)
		               : way == 1 ? tj_dropout2d(x, 0.4, true)
		               : way == 2 ? tj_dropout3d(x, 0.4, true)
		                          : tj_feature_alpha_dropout(x, 0.4, true);
		const float *v = tj_data(y);
		int dropped = 0;
		for (int i = 0; i < 1000; i++) {
			for (int k = 1; k < 6; k++) assert_true(v[6 * i + k] == v[6 * i]);
			dropped += v[6 * i] < 0.5f;
		}
		assert_true(dropped > 330 && dropped < 470);
	}
	kit_ok(c);
	tj_close(c);
}

/* The gradient is the mask that forward used, also when it is computed again. */
static void masked(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_dropout(tj_exp(in[0]), 0.5, true);
	tj_grad(out + 1, tj_sum(out[0], TJ_ALL, false), TJ_LIST(in[0]), NULL);
}

static void gradients(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "masked", masked, NULL, 1, 2);
	tj_tensor *y[2], *before = NULL;
	for (int turn = 0; turn < 3; turn++) {
		assert_int_equal(tj_call(f, y, TJ_LIST(tj_full(TJ_F64, TJ_SHAPE(40, 50), tj_f(0.5)))), TJ_OK);
		const double *v = tj_data(y[0]), *g = tj_data(y[1]);
		int zeros = 0;
		for (int i = 0; i < 2000; i++) assert_true(fabs(v[i] - g[i]) < 1e-12), zeros += v[i] == 0;
		assert_true(zeros > 900 && zeros < 1100);
		if (before) assert_true(memcmp(tj_data(before), v, 2000 * sizeof *v) != 0); /* another call draws other numbers */
		before = y[0];
	}
	kit_ok(c);
	tj_close(c);
}

/* Two dropouts with another layer between; the steps of a network. */
static void network(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const double *p = self;
	tj_tensor *h = tj_dropout(tj_gelu(tj_matmul(in[0], in[1])), *p, true);
	h = tj_dropout(tj_gelu(tj_matmul(h, in[2])), *p, true);
	tj_grad(out + 1, out[0] = tj_sum(tj_square(h), TJ_ALL, false), TJ_LIST(in[1], in[2]), NULL);
}

static void another_p_is_no_other_trace(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	double p = 0;
	tj_fn *f = kit_fn(c, "network", network, &p, 3, 3);
	tj_tensor *x = tj_normal(TJ_F32, TJ_SHAPE(64, 32)), *w = tj_normal(TJ_F32, TJ_SHAPE(32, 32)), *y[3];
	for (; p <= 1; p += 0.25) assert_int_equal(tj_call(f, y, TJ_LIST(x, w, w)), TJ_OK);
	assert_int_equal(kit_stats(f).recordings, 1);
	assert_int_equal(kit_stats(f).eval_steps * (unsigned)!strcmp(kit_backend, "llvm"), 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- the same numbers, whatever computes them ---- */
static void all_of_them(tj_tensor **out, tj_tensor *const *in, void *self)
{
	int n = 0;
	(void)self;
	out[n++] = tj_dropout(in[0], 0.3, true);
	out[n++] = tj_dropout2d(in[0], 0.3, true);
	out[n++] = tj_alpha_dropout(in[0], 0.3, true);
	out[n++] = tj_bernoulli(TJ_F32, NULL, in[0]);
	out[n++] = tj_randint(TJ_I32, TJ_SHAPE(3000), -5, 5);
	out[n++] = tj_exponential(TJ_F32, TJ_SHAPE(3000), 0.5);
	out[n++] = tj_random_normal(TJ_BF16, TJ_SHAPE(30, 100), tj_f(1), tj_f(2));
	out[n++] = tj_random_uniform(TJ_F16, TJ_SHAPE(3000), tj_f(1), tj_f(2));
	out[n++] = tj_rand_like(in[0]);
	out[n++] = tj_randn_like(tj_transpose(in[0], 0, 1));
	out[n++] = tj_multinomial(in[1], 20, true);
	out[n++] = tj_multinomial(in[1], 5, false);
	out[n++] = tj_randperm(100);
	out[n++] = tj_geometric(TJ_I32, TJ_SHAPE(3000), 0.2);
	out[n++] = tj_cauchy(TJ_F32, TJ_SHAPE(3000), 0, 1);
	out[n++] = tj_log_normal(TJ_F64, TJ_SHAPE(3000), 0, 1);
	out[n++] = tj_gumbel_softmax(in[1], 0.5, true, 1);
	out[n++] = tj_rrelu(tj_neg(in[0]), 0.1, 0.3, true);
}

enum { ALL = 18 };
static void equal_everywhere(void **state)
{
	(void)state;
	static const struct { const char *backend; int threads; } way[] = { { "eval", 1 }, { "llvm", 1 }, { "llvm", 2 } };
	static char first[ALL][1 << 17], now[1 << 17];
	for (int i = 0; i < 3; i++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = way[i].backend, .threads = way[i].threads, .seed = 99));
		tj_fn *f = kit_fn(c, "all", all_of_them, NULL, 2, ALL);
		tj_tensor *y[ALL],
			*x = tj_reshape(tj_div(tj_arange(TJ_F32, 0, 9600, 1), tj_f(9600)), TJ_SHAPE(4, 6, 20, 20)),
			*w = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 8), (float[]){ 1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1 });
		assert_int_equal(tj_call(f, y, TJ_LIST(x, w)), TJ_OK);
		for (int k = 0; k < ALL; k++) {
			const size_t bytes = tj_dtype_size(tj_dtype_of(y[k])) * (size_t)tj_numel(y[k]);
			assert_int_equal(tj_read(y[k], i ? now : first[k], bytes), TJ_OK);
			if (i && memcmp(now, first[k], bytes)) fail_msg("result %d differs on %s with %d threads", k, way[i].backend, way[i].threads);
		}
		kit_ok(c);
		tj_close(c);
	}
}

static void likes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_full(TJ_I16, TJ_SHAPE(2, 3), tj_i(5)), *y = tj_full_like(x, tj_i(-7));
	assert_int_equal(tj_dtype_of(y), TJ_I16);
	for (int i = 0; i < 6; i++) assert_int_equal(((const int16_t *)tj_data(y))[i], -7);
	for (int i = 0; i < 6; i++) assert_int_equal(((const int16_t *)tj_data(tj_zeros_like(x)))[i], 0);
	assert_f32(tj_ones_like(F32(c, 3, 4)), 1, 1);
	assert_f32(tj_zeros(TJ_F32, TJ_SHAPE(2)), 0, 0);
	assert_f32(tj_ones(TJ_F32, TJ_0D), 1);
	assert_int_equal(tj_rank(tj_ones_like(tj_full(TJ_BOOL, TJ_0D, tj_i(0)))), 0);
	assert_int_equal(tj_dtype_of(tj_rand_like(tj_full(TJ_F16, TJ_SHAPE(2), tj_i(0)))), TJ_F16);
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2), *i = tj_cast(x, TJ_I32);
	LAYER_REFUSED(tj_dropout(NULL, 0.5, true), ARG, "dropout", "x is NULL");
	LAYER_REFUSED(tj_dropout(x, 1.5, true), ARG, "dropout", "p is 1.5");
	LAYER_REFUSED(tj_dropout(x, NAN, false), ARG, "dropout", "p is");
	LAYER_REFUSED(tj_dropout(i, 0.5, true), DTYPE, "dropout", "x is i32, no float");
	LAYER_REFUSED(tj_dropout2d(x, 0.5, true), SHAPE, "dropout2d", "x has 1 axes, 3 or 4 are needed");
	LAYER_REFUSED(tj_feature_alpha_dropout(x, 0.5, true), SHAPE, "feature_alpha_dropout", "x has 1 axes");
	assert_ptr_equal(tj_feature_alpha_dropout(i, 0.5, false), i);
	LAYER_REFUSED(tj_alpha_dropout(x, -0.1, true), ARG, "alpha_dropout", "p is -0.1");
	LAYER_REFUSED(tj_bernoulli(TJ_F32, TJ_SHAPE(2), NULL), ARG, "bernoulli", "p is NULL");
	LAYER_REFUSED(tj_bernoulli(TJ_F32, TJ_SHAPE(3), x), SHAPE, "expand", "");
	LAYER_REFUSED(tj_randint(TJ_I64, TJ_SHAPE(2), 3, 3), ARG, "randint", "no integer from 3 to below 3");
	LAYER_REFUSED(tj_randint(TJ_U8, TJ_SHAPE(2), 0, 257), ARG, "randint", "u8 does not hold all of 0 to 256");
	LAYER_REFUSED(tj_randint(TJ_I64, TJ_SHAPE(2), 0, INT64_MAX), LIMIT, "randint", "2^51");
	LAYER_REFUSED(tj_randint((tj_dtype)99, TJ_SHAPE(2), 0, 2), DTYPE, "randint", "99 is not a dtype");
	LAYER_REFUSED(tj_randperm(-1), ARG, "randperm", "n is -1");
	LAYER_REFUSED(tj_exponential(TJ_F32, TJ_SHAPE(2), 0), ARG, "exponential", "the rate is 0");
	LAYER_REFUSED(tj_geometric(TJ_I64, TJ_SHAPE(2), 0), ARG, "geometric", "p is 0");
	LAYER_REFUSED(tj_geometric(TJ_BOOL, TJ_SHAPE(2), 0.5), DTYPE, "geometric", "bool");
	LAYER_REFUSED(tj_cauchy(TJ_F32, TJ_SHAPE(2), 0, 0), ARG, "cauchy", "sigma is 0");
	LAYER_REFUSED(tj_cauchy(TJ_I32, TJ_SHAPE(2), 0, 1), DTYPE, "cauchy", "i32 is no float");
	LAYER_REFUSED(tj_log_normal(TJ_F32, TJ_SHAPE(2), 0, -1), ARG, "log_normal", "std is -1");
	LAYER_REFUSED(tj_log_normal(TJ_I32, TJ_SHAPE(2), 0, 1), DTYPE, "log_normal", "i32 is no float");
	LAYER_REFUSED(tj_gumbel_softmax(x, 0, false, 0), ARG, "gumbel_softmax", "tau is 0");
	LAYER_REFUSED(tj_gumbel_softmax(x, 1, false, 1), ARG, "gumbel_softmax", "axis 1");
	LAYER_REFUSED(tj_gumbel_softmax(i, 1, false, 0), DTYPE, "gumbel_softmax", "i32, no float");
	LAYER_REFUSED(tj_rrelu(x, 0.5, 0.1, true), ARG, "rrelu", "slopes from 0.5 to 0.1");
	LAYER_REFUSED(tj_rrelu(i, 0.1, 0.5, true), DTYPE, "rrelu", "i32, no float");
	LAYER_REFUSED(tj_exponential(TJ_I32, TJ_SHAPE(2), 1), DTYPE, "exponential", "i32 is no float");
	LAYER_REFUSED(tj_random_normal(TJ_F32, TJ_SHAPE(2), NULL, tj_f(1)), ARG, "random_normal", "mean is NULL");
	LAYER_REFUSED(tj_random_uniform(TJ_BOOL, TJ_SHAPE(2), tj_f(0), tj_f(1)), DTYPE, "random_uniform", "bool is no float");
	static const float wrong[][3] = { { 1, -1, 1 }, { 1, NAN, 1 }, { 1, INFINITY, 1 }, { 0, 0, 0 } };
	for (int k = 0; k < 8; k++) {
		tj_tensor *rows = tj_cat(TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(1, 3), tj_f(1)), tj_from_data(c, TJ_F32, TJ_SHAPE(1, 3), wrong[k / 2])), 0);
		tj_read(tj_multinomial(rows, 2, k % 2), &(int64_t[4]){ 0 }, 4 * sizeof(int64_t));
		kit_error(c, TJ_ERR_INDEX, "the weights of a row");
		assert_string_equal(tj_last_error(c)->op, "multinomial");
	}
	LAYER_REFUSED(tj_multinomial(x, 3, false), ARG, "multinomial", "3 of 2 outcomes");
	LAYER_REFUSED(tj_multinomial(x, 0, true), ARG, "multinomial", "n is 0");
	LAYER_REFUSED(tj_multinomial(i, 1, true), DTYPE, "multinomial", "p is i32");
	LAYER_REFUSED(tj_multinomial(tj_full(TJ_F32, TJ_SHAPE(2, 0), tj_f(1)), 1, true), SHAPE, "multinomial", "no outcomes");
	LAYER_REFUSED(tj_full_like(NULL, tj_i(0)), ARG, "full_like", "x is NULL");
	LAYER_REFUSED(tj_rand_like(i), DTYPE, "rand_like", "i32 is no float");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers),         cmocka_unit_test(permutations),  cmocka_unit_test(bernoullis),
		cmocka_unit_test(continuous),       cmocka_unit_test(multinomials),  cmocka_unit_test(more_distributions),
		cmocka_unit_test(choices),          cmocka_unit_test(random_slopes), cmocka_unit_test(dropouts),
		cmocka_unit_test(whole_channels),   cmocka_unit_test(gradients),     cmocka_unit_test(another_p_is_no_other_trace),
		cmocka_unit_test(equal_everywhere), cmocka_unit_test(likes),         cmocka_unit_test(errors),
	};
	KIT_RUN(tests);
}
