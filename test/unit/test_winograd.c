/* SPDX-License-Identifier: MIT */
/* Fast convolutions of 3 x 3 (TJ_FAST) against loops in f64: within the bound of NUMERICS.md, of all sizes, with frozen weights and others,
 * with their gradients, at sizes that vary; strict functions do not change. */
#include "test/kit.h"

#include <math.h>

static uint64_t seed = 3;
static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}
static double number(void) { return (double)(below(20001) - 10000) * 1e-4; }

enum { MOST = 60000, WEIGHTS = 40000 };
typedef struct problem {
	int64_t n, groups, in, out, x[2], pad[2], y[2];
	tj_dtype t;
	tj_tensor *frozen;      /* the weight; NULL: it is an argument */
	double data[MOST], weight[WEIGHTS], want[MOST], most[MOST]; /* most: the sum of the absolute values of the products */
} problem;
static problem p;

static void draw(int64_t channels)
{
	p.n = 1 + below(2);
	p.groups = 1 + (below(4) == 0);
	p.in = p.groups * (24 + below(channels));
	p.out = p.groups * (24 + below(channels));
	for (int i = 0; i < 2; i++) {
		p.pad[i] = below(3);
		p.x[i] = 5 + below(13);
		p.y[i] = p.x[i] + 2 * p.pad[i] - 2;
	}
	for (int i = 0; i < MOST; i++) p.data[i] = (float)number();
	for (int i = 0; i < WEIGHTS; i++) p.weight[i] = (float)number();
	assert_true(p.n * p.in * p.x[0] * p.x[1] <= MOST && p.n * p.out * p.y[0] * p.y[1] <= MOST && p.out * p.in / p.groups * 9 <= WEIGHTS);
}

static void expect(void)
{
	const int64_t ci = p.in / p.groups, co = p.out / p.groups;
	int64_t at = 0;
	for (int64_t n = 0; n < p.n; n++)
		for (int64_t o = 0; o < p.out; o++)
			for (int64_t i = 0; i < p.y[0]; i++)
				for (int64_t j = 0; j < p.y[1]; j++, at++) {
					p.want[at] = p.most[at] = 0;
					for (int64_t k = 0; k < ci * 9; k++) {
						const int64_t r = i + k % 9 / 3 - p.pad[0], s = j + k % 3 - p.pad[1], c = n * p.in + o / co * ci + k / 9;
						if (r < 0 || s < 0 || r >= p.x[0] || s >= p.x[1]) continue;
						const double v = p.data[(c * p.x[0] + r) * p.x[1] + s] * p.weight[o * ci * 9 + k];
						p.want[at] += v;
						p.most[at] += fabs(v);
					}
				}
}

static tj_tensor *tensor(tj_ctx *c, const double *v, tj_dims shape, int64_t n)
{
	static float narrow[MOST];
	for (int64_t i = 0; i < n; i++) narrow[i] = (float)v[i];
	return p.t == TJ_F64 ? tj_from_data(c, TJ_F64, shape, v) : tj_from_data(c, TJ_F32, shape, narrow);
}

static void convolve(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *w = p.frozen ? p.frozen : in[1];
	out[0] = tj_conv2d(in[0], w, NULL, TJ_OPTS(tj_conv_opts, .padding = { p.pad[0], p.pad[1] }, .groups = p.groups));
}

static double at(tj_tensor *t, int64_t i)
{
	return tj_dtype_of(t) == TJ_F64 ? ((const double *)tj_data(t))[i] : ((const float *)tj_data(t))[i];
}

/* The largest error, in units of epsilon times the sum of absolute values and of the mean of these sums. */
static double error_of(tj_tensor *y)
{
	const int64_t n = p.n * p.out * p.y[0] * p.y[1];
	double worst = 0, mean = 0;
	for (int64_t i = 0; i < n; i++) mean += p.most[i] / (double)n;
	for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(at(y, i) - p.want[i]) / (p.most[i] + mean));
	return worst / (p.t == TJ_F64 ? 0x1p-53 : 0x1p-24);
}

static bool is_winograd(tj_fn *f)
{
	char *text = kit_dump(f, TJ_DUMP_FUSION);
	const bool has = strstr(text, "red=9 product"); /* of the weight */
	free(text);
	return has;
}

static const double BOUND = 16; /* docs/NUMERICS.md */

static void bounded(void **s)
{
	(void)s;
	int tiles = 0;
	double worst = 0;
	for (int round = 0; round < 30; round++) {
		tj_ctx *c = kit_open();
		draw(16);
		expect();
		p.t = round % 5 == 4 ? TJ_F64 : TJ_F32;
		tj_tensor *x = tensor(c, p.data, TJ_SHAPE(p.n, p.in, p.x[0], p.x[1]), p.n * p.in * p.x[0] * p.x[1]),
			  *w = tensor(c, p.weight, TJ_SHAPE(p.out, p.in / p.groups, 3, 3), p.out * p.in / p.groups * 9);
		p.frozen = NULL;
		tj_fn *f = tj_compile(c, convolve, NULL, TJ_OPTS(tj_compile_opts, "conv", 2, 1, .numerics = TJ_FAST)),
		      *strict = tj_compile(c, convolve, NULL, TJ_OPTS(tj_compile_opts, "strict", 2, 1));
		tj_tensor *y = tj_call1(f, TJ_LIST(x, w)), *exact = tj_call1(strict, TJ_LIST(x, w)), *plain;
		kit_ok(c);
		worst = fmax(worst, error_of(y));
		assert_true(error_of(y) <= BOUND);
		tiles += is_winograd(f);
		assert_false(is_winograd(strict));
		convolve(&plain, TJ_LIST(x, w), NULL);
		assert_memory_equal(tj_data(exact), tj_data(plain), tj_dtype_size(p.t) * (size_t)(p.n * p.out * p.y[0] * p.y[1]));
		p.frozen = tj_retain(w); /* computed beforehand: the same bits */
		tj_fn *g = tj_compile(c, convolve, NULL,
		                      TJ_OPTS(tj_compile_opts, "frozen", 1, 1, .numerics = TJ_FAST, .freeze = TJ_VARS(&p.frozen)));
		tj_tensor *z = tj_call1(g, TJ_LIST(x));
		assert_memory_equal(tj_data(z), tj_data(y), tj_dtype_size(p.t) * (size_t)(p.n * p.out * p.y[0] * p.y[1]));
		kit_ok(c);
		tj_close(c);
	}
	if (getenv("WORST")) fprintf(stderr, "%s: %.2f, %d fast ones of 30\n", kit_backend, worst, tiles);
	assert_true(tiles > 10);
}

/* The gradients by picture and weight of a fast convolution are near those of a strict one. */
static void loss(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *g[2];
	convolve(&y, in, self);
	tj_grad(g, tj_sum(tj_mul(y, tj_sin(y)), TJ_ALL, false), TJ_LIST(in[0], in[1]), NULL);
	out[0] = g[0], out[1] = g[1];
}
static void gradients(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	draw(16);
	p.groups = 1, p.in = 26, p.out = 22, p.t = TJ_F64, p.frozen = NULL;
	tj_tensor *x = tensor(c, p.data, TJ_SHAPE(p.n, p.in, p.x[0], p.x[1]), 0), *w = tensor(c, p.weight, TJ_SHAPE(p.out, p.in, 3, 3), 0);
	tj_tensor *got[2], *want[2];
	tj_fn *f = tj_compile(c, loss, NULL, TJ_OPTS(tj_compile_opts, "fast", 2, 2, .numerics = TJ_FAST)),
	      *strict = kit_fn(c, "strict", loss, NULL, 2, 2);
	assert_int_equal(tj_call(f, got, TJ_LIST(x, w)), TJ_OK);
	assert_int_equal(tj_call(strict, want, TJ_LIST(x, w)), TJ_OK);
	for (int k = 0; k < 2; k++) {
		const int64_t n = k ? p.out * p.in * 9 : p.n * p.in * p.x[0] * p.x[1];
		for (int64_t i = 0; i < n; i++) assert_true(fabs(at(got[k], i) - at(want[k], i)) <= 1e-9 * (1 + fabs(at(want[k], i))));
	}
	kit_ok(c);
	tj_close(c);
}

/* One function at many sizes of the picture and of the batch. */
static void sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	p.frozen = NULL;
	tj_fn *f = tj_compile(c, convolve, NULL, TJ_OPTS(tj_compile_opts, "conv", 2, 1, .numerics = TJ_FAST, .dynamic = TJ_DYNAMIC_ON));
	for (int round = 0; round < 12; round++) {
		draw(3);
		p.groups = 1, p.in = 22, p.out = 19, p.pad[0] = p.pad[1] = 1, p.t = TJ_F32;
		for (int i = 0; i < 2; i++) p.y[i] = p.x[i];
		expect();
		tj_tensor *x = tensor(c, p.data, TJ_SHAPE(p.n, p.in, p.x[0], p.x[1]), p.n * p.in * p.x[0] * p.x[1]),
			  *w = tensor(c, p.weight, TJ_SHAPE(p.out, p.in, 3, 3), p.out * p.in * 9);
		assert_true(error_of(tj_call1(f, TJ_LIST(x, w))) <= BOUND);
	}
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bounded), cmocka_unit_test(gradients), cmocka_unit_test(sizes) };
	KIT_RUN(tests);
}
