/* SPDX-License-Identifier: MIT */
/* Loss scaling: when steps are left out, when the scale changes; and training in mixed precision. */
#include "test/kit.h"

#include <math.h>

static void defaults(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_scaler a, b;
	assert_int_equal(tj_scaler_init(c, &a, NULL), TJ_OK);
	assert_true(tj_item(a.scale) == 65536 && tj_item_i(a.good) == 0 && a.growth == 2 && a.backoff == 0.5 && a.interval == 2000);
	assert_int_equal(tj_scaler_init(c, &b, TJ_OPTS(tj_scaler_opts, .init = 8, .growth = 4, .backoff = 0.25, .interval = 3)), TJ_OK);
	assert_true(tj_item(b.scale) == 8 && b.growth == 4 && b.backoff == 0.25 && b.interval == 3);
	assert_int_equal(tj_dtype_of(b.scale), TJ_F32);
	assert_int_equal(tj_dtype_of(b.good), TJ_I64);
	tj_release(b.scale);
	tj_release(b.good);
	kit_ok(c);
	tj_close(c);
}

static void bad_scalers(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_scaler a = { 0 };
	tj_tensor *g = F32(c, 1);
	const tj_scaler_opts bad[] = { { .init = -1 },   { .init = 1e39 },    { .growth = 0.5 },
		                       { .backoff = 1 }, { .backoff = -0.5 }, { .interval = -1 } };
	static const char *const why[] = { ".init", ".init", ".growth", ".backoff", ".backoff", ".interval" };
	assert_true(tj_is_poison(tj_scale_loss(&a, g)));
	kit_error(c, TJ_ERR_ARG, "the scaler is not made");
	assert_true(tj_is_poison(tj_unscale(NULL, &g, 1)));
	kit_error(c, TJ_ERR_ARG, "the scaler is NULL");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(tj_scaler_init(c, &a, &bad[i]), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, why[i]);
		assert_true(tj_is_poison(a.scale) && tj_is_poison(a.good));
	}
	assert_int_equal(tj_scaler_init(c, NULL, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "NULL");
	assert_int_equal(tj_scaler_init(c, &a, NULL), TJ_OK);
	assert_true(tj_is_poison(tj_unscale(&a, NULL, 1)));
	kit_error(c, TJ_ERR_ARG, "the array of gradients is NULL");
	assert_true(tj_is_poison(tj_unscale(&a, &g, 0)));
	kit_error(c, TJ_ERR_ARG, "there are 0 gradients");
	assert_int_equal(tj_scaler_update(&a, F32(c, 1, 2)), TJ_ERR_SHAPE);
	tj_check(c);
	assert_true(tj_item(a.scale) == 65536);
	tj_close(c);
}

/* Momentum in f16: the gradient of the product is rounded to f16, where the scaled one may be infinite. */
typedef struct training { tj_scaler scaler; tj_tensor *w, *moment; } training;
static void train(tj_tensor **out, tj_tensor *const *in, void *self)
{
	training *t = self;
	tj_tensor *g, *loss = tj_mean(tj_matmul(in[0], t->w), TJ_ALL, false);
	tj_grad(&g, tj_scale_loss(&t->scaler, loss), TJ_LIST(t->w), NULL);
	tj_tensor *finite = tj_unscale(&t->scaler, &g, 1);
	assert_int_equal(tj_dtype_of(g), TJ_F32);
	tj_tensor *moment = tj_add(tj_mul(t->moment, tj_f(0.5)), g);
	tj_assign(t->moment, tj_where(finite, moment, t->moment));
	tj_assign(t->w, tj_where(finite, tj_sub(t->w, moment), t->w));
	tj_scaler_update(&t->scaler, finite);
	out[0] = loss;
	out[1] = finite;
}

static void scaled_steps(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 2));
		training t = { .w = tj_param(c, TJ_F32, TJ_SHAPE(1, 1)), .moment = tj_param(c, TJ_F32, TJ_SHAPE(1, 1)) };
		assert_int_equal(tj_scaler_init(c, &t.scaler, TJ_OPTS(tj_scaler_opts, .interval = 2)), TJ_OK);
		tj_fn *f = tj_compile(c, train, &t, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 2, .mode = (tj_mode)mode, .autocast = TJ_F16,
		                                            .state = TJ_VARS(&t.w, &t.moment, &t.scaler.scale, &t.scaler.good)));
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1), ((float[]){ 3 })), *out[2];
		/* the gradient is 3, the scaled one must stay below 65520 */
		static const float scale[] = { 32768, 16384, 16384, 32768, 16384, 16384, 32768 }, w[] = { 0, 0, -3, -7.5f, -7.5f, -12.75f, -18.375f };
		static const int good[] = { 0, 0, 1, 0, 0, 1, 0 };
		float moment = 0, before = 0;
		for (int i = 0; i < 7; i++) {
			assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
			moment = tj_truth(out[1]) ? moment / 2 + 3 : moment;
			assert_f32(t.scaler.scale, scale[i]);
			assert_f32(t.w, w[i]);
			assert_f32(t.moment, moment);
			assert_int_equal(tj_item_i(t.scaler.good), good[i]);
			assert_int_equal(tj_truth(out[1]), w[i] != before);
			before = w[i];
		}
		kit_ok(c);
		assert_int_equal(kit_stats(f).segments, 1); /* the host reads nothing */
		assert_int_equal(kit_stats(f).plans, 1);
		tj_close(c);
	}
}

/* Several gradients, one of them not finite; f16 and bf16 become f32; the scale does not grow beyond f32. */
static void unscaled(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_scaler a;
	assert_int_equal(tj_scaler_init(c, &a, TJ_OPTS(tj_scaler_opts, .init = 0x1p127, .interval = 1)), TJ_OK);
	tj_tensor *finite = tj_full(TJ_BOOL, TJ_SHAPE(1), tj_i(1));
	assert_int_equal(tj_scaler_update(&a, finite), TJ_OK);
	assert_f32(a.scale, 0x1p127f);
	assert_int_equal(tj_scaler_update(&a, tj_full(TJ_BOOL, TJ_0D, tj_i(0))), TJ_OK);
	assert_f32(a.scale, 0x1p126f);
	assert_int_equal(tj_scaler_init(c, &a, TJ_OPTS(tj_scaler_opts, .init = 16)), TJ_OK);
	static const float last[] = { 1, INFINITY, -INFINITY, NAN };
	for (int i = 0; i < 4; i++) {
		tj_tensor *g[] = { tj_cast(F32(c, 0x1p-24f, 16), TJ_F16), tj_cast(F32(c, 32), TJ_BF16), F32(c, 3, 2, last[i]),
			           tj_full(TJ_F64, TJ_0D, tj_f(8)) };
		finite = tj_unscale(&a, g, 4);
		assert_int_equal(tj_dtype_of(finite), TJ_BOOL);
		assert_int_equal(tj_rank(finite), 0);
		assert_int_equal(tj_truth(finite), i == 0);
		assert_f32(g[0], 0x1p-28f, 1);
		assert_f32(g[1], 2);
		assert_f32(g[2], 3.0f / 16, 0.125f, last[i] / 16);
		assert_int_equal(tj_dtype_of(g[3]), TJ_F64);
		assert_true(tj_item(g[3]) == 0.5);
	}
	assert_f32(tj_scale_loss(&a, tj_cast(F32(c, 60000), TJ_F16)), 960000); /* 60000 is an f16 */
	kit_ok(c);
	tj_close(c);
}

/* ---- training ends where it does in f32 ---- */
enum { ROWS = 48, HIDDEN = 16, STEPS = 60, SEEDS = 3 };
typedef struct layers { tj_tensor *p[4]; tj_scaler scaler; } layers;

/* Two layers, which tell on which side of two curves a point lies. */
static void learn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	layers *n = self;
	tj_tensor *g[4], *h = tj_tanh(tj_add(tj_matmul(in[0], n->p[0]), n->p[1])),
			 *loss = tj_cross_entropy(tj_add(tj_matmul(h, n->p[2]), n->p[3]), in[1]);
	tj_grad(g, tj_scale_loss(&n->scaler, loss), TJ_LIST(n->p[0], n->p[1], n->p[2], n->p[3]), NULL);
	tj_tensor *finite = tj_unscale(&n->scaler, g, 4);
	for (int i = 0; i < 4; i++) tj_assign(n->p[i], tj_where(finite, tj_sub(n->p[i], g[i]), n->p[i]));
	tj_scaler_update(&n->scaler, finite);
	out[0] = loss;
}

static float uniform(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (float)(*state >> 40) * 0x1p-23f - 1;
}

static tj_tensor *random_param(tj_ctx *c, tj_dims shape, float scale, uint64_t *state)
{
	float v[HIDDEN * 3];
	tj_tensor *p = tj_param(c, TJ_F32, shape);
	for (int64_t i = 0; i < tj_numel(p); i++) v[i] = scale * uniform(state);
	tj_write(p, v, (size_t)tj_numel(p) * sizeof *v);
	return p;
}

static double last_loss(uint64_t seed, tj_dtype autocast)
{
	tj_ctx *c = kit_open();
	float x[2 * ROWS];
	int64_t target[ROWS];
	uint64_t points = 5, state = seed;
	for (int i = 0; i < ROWS; i++) {
		x[2 * i] = uniform(&points);
		x[2 * i + 1] = uniform(&points);
		target[i] = (x[2 * i] * x[2 * i + 1] > 0.1f) + (x[2 * i] + x[2 * i + 1] > 0.5f);
	}
	layers n = { .p = { random_param(c, TJ_SHAPE(2, HIDDEN), 2, &state), random_param(c, TJ_SHAPE(HIDDEN), 1, &state),
		            random_param(c, TJ_SHAPE(HIDDEN, 3), 0.5f, &state), random_param(c, TJ_SHAPE(3), 0, &state) } };
	tj_scaler_init(c, &n.scaler, NULL);
	tj_fn *f = tj_compile(c, learn, &n, TJ_OPTS(tj_compile_opts, .name = "learn", .nin = 2, .nout = 1, .autocast = autocast));
	double loss = 0;
	for (int i = 0; i < STEPS; i++) {
		tj_scope *s = tj_push(c);
		loss = tj_item(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, 2), x), tj_from_data(c, TJ_I64, TJ_SHAPE(ROWS), target))));
		tj_pop(s);
	}
	kit_ok(c);
	tj_close(c);
	return loss;
}

static void trained(void **s)
{
	(void)s;
	double f32[SEEDS], low = INFINITY, high = 0;
	int middle = 0;
	for (int i = 0; i < SEEDS; i++) {
		f32[i] = last_loss((uint64_t)i + 1, TJ_F32);
		low = fmin(low, f32[i]);
		high = fmax(high, f32[i]);
	}
	for (int i = 0; i < SEEDS; i++)
		if (f32[i] > low && f32[i] < high) middle = i;
	assert_true(high < 0.6); /* it began at more than 1 */
	for (int l = 0; l < 2; l++) {
		const double loss = last_loss((uint64_t)middle + 1, l ? TJ_F16 : TJ_BF16);
		if (!(loss > low && loss < high && loss != f32[middle]))
			fail_msg("the loss is %g; in f32 it is %g, of three seeds between %g and %g", loss, f32[middle], low, high);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults), cmocka_unit_test(bad_scalers), cmocka_unit_test(scaled_steps),
		cmocka_unit_test(unscaled), cmocka_unit_test(trained),
	};
	KIT_RUN(tests);
}
