/* SPDX-License-Identifier: MIT */
/* Draws from logits, texts with and without a cache, means of metrics over a loader. */
#include "test/kit.h"

#include <math.h>
#include <tjdata.h>
#include <tjnn.h>

/* ---- draws ---- */
enum { DRAWS = 20000, WORDS = 5 };
/* The part of each word among DRAWS draws. */
static void parts_of(tj_ctx *c, const float *logits, const tjnn_sample_opts *o, double *part)
{
	tj_tensor *x = tj_expand(tj_from_data(c, TJ_F32, TJ_SHAPE(WORDS), logits), TJ_SHAPE(DRAWS, WORDS));
	const int64_t *id = tj_data(tjnn_sample(x, o));
	kit_ok(c);
	for (int i = 0; i < WORDS; i++) part[i] = 0;
	for (int i = 0; i < DRAWS; i++) part[id[i]] += 1. / DRAWS;
}
static void near(const double *part, const double *weight)
{
	double sum = 0;
	for (int i = 0; i < WORDS; i++) sum += weight[i];
	for (int i = 0; i < WORDS; i++) {
		const double p = weight[i] / sum, bound = 4.5 * sqrt(p * (1 - p) / DRAWS) + 1e-9;
		if (!(fabs(part[i] - p) <= bound)) fail_msg("word %d: %g of the draws, expected %g +- %g", i, part[i], p, bound);
	}
}

static void test_draws(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const double w[WORDS] = { 0.1, 0.4, 0.15, 0.3, 0.05 };
	double part[WORDS], hot[WORDS];
	float logits[WORDS];
	for (int i = 0; i < WORDS; i++) logits[i] = (float)log(w[i]), hot[i] = pow(w[i], 1 / 0.5);
	parts_of(c, logits, NULL, part);
	near(part, w);
	parts_of(c, logits, TJ_OPTS(tjnn_sample_opts, .temperature = 0.5), part);
	near(part, hot);
	parts_of(c, logits, TJ_OPTS(tjnn_sample_opts, .top_k = 3), part);
	near(part, (const double[]){ 0, 0.4, 0.15, 0.3, 0 });
	parts_of(c, logits, TJ_OPTS(tjnn_sample_opts, .top_p = 0.69), part); /* 0.4, and 0.3 which makes it 0.7 */
	near(part, (const double[]){ 0, 0.4, 0, 0.3, 0 });
	parts_of(c, logits, TJ_OPTS(tjnn_sample_opts, .top_p = 0.71), part);
	near(part, (const double[]){ 0, 0.4, 0.15, 0.3, 0 });
	parts_of(c, logits, TJ_OPTS(tjnn_sample_opts, .top_k = 3, .top_p = 0.81), part); /* of 0.85: 0.47, 0.82 */
	near(part, (const double[]){ 0, 0.4, 0, 0.3, 0 });
	const tjnn_sample_opts largest[] = { { .greedy = true }, { .top_k = 1 }, { .top_p = 1e-9 }, { .temperature = 1e-3 } };
	for (int i = 0; i < 4; i++) {
		parts_of(c, logits, &largest[i], part);
		near(part, (const double[]){ 0, 1, 0, 0, 0 });
	}
	tj_tensor *one = tjnn_sample(tj_from_data(c, TJ_F32, TJ_SHAPE(WORDS), logits), NULL);
	assert_int_equal(tj_rank(one), 0);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(WORDS), logits);
	assert_true(tj_is_poison(tjnn_sample(x, TJ_OPTS(tjnn_sample_opts, .top_p = 1.5))));
	kit_error(c, TJ_ERR_ARG, ".top_p is from 0 to 1");
	assert_true(tj_is_poison(tjnn_sample(x, TJ_OPTS(tjnn_sample_opts, .temperature = -1))));
	kit_error(c, TJ_ERR_ARG, ".temperature");
	assert_true(tj_is_poison(tjnn_sample(tj_i(1), NULL)));
	kit_error(c, TJ_ERR_SHAPE, "no axis");
	tj_close(c);
}

/* ---- texts ---- */
enum { VOCABULARY = 11, WIDTH = 16, PLACES = 24 };
typedef struct gpt {
	tjnn_embedding token;
	tjnn_encoder_block block[2];
	tjnn_linear head;
	tjnn_kv_cache cache[2];
} gpt;
static void layers(tjnn_walk *w, void *self)
{
	gpt *m = self;
	tjnn_embedding_layer(w, "token", &m->token, VOCABULARY, WIDTH, -1);
	for (int i = 0; i < 2; i++)
		tjnn_encoder_block_layer(w, tjnn_name(w, "%d", i), &m->block[i],
		                         TJ_OPTS(tjnn_block_opts, .width = WIDTH, .heads = 4, .rotary = 10000, .norm_first = true, .gelu = true));
	tjnn_linear_layer(w, "head", &m->head, WIDTH, VOCABULARY, false);
}
static tj_tensor *logits_of(gpt *m, tj_tensor *ids, bool cached)
{
	tj_tensor *x = tjnn_embedding_apply(&m->token, ids);
	for (int i = 0; i < 2; i++)
		x = tjnn_encoder_block_apply(
			&m->block[i], x, cached ? TJ_OPTS(tjnn_attend, .cache = &m->cache[i]) : TJ_OPTS(tjnn_attend, .causal = true), false);
	return tjnn_linear_apply(&m->head, x);
}
static void whole(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = logits_of(self, in[0], false); }
static void cached(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = logits_of(self, in[0], true); }
static void no_logits(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[0]; }

static bool count_to_three(void *env, const int64_t *ids, int64_t n)
{
	assert_true(n == 2 && ids[0] >= 0 && ids[1] < VOCABULARY);
	return ++*(int *)env < 3;
}

static void same_ids(tj_ctx *c, tj_tensor *a, tj_tensor *b)
{
	assert_int_equal(tj_dim(a, 1), tj_dim(b, 1));
	assert_true(tj_truth(tj_all(tj_eq(a, b), TJ_ALL, false)));
	kit_ok(c);
}

static void test_texts(void **state)
{
	(void)state;
	gpt m = { 0 };
	tj_ctx *c = kit_open();
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .dtype = TJ_F64));
	for (int i = 0; i < 2; i++) tjnn_kv_cache_open(c, &m.cache[i], &m.block[i].self_attn, 2, PLACES);
	tjnn_kv_cache *const caches[] = { &m.cache[0], &m.cache[1], NULL };
	tj_tensor *prompt = tj_from_data(c, TJ_I32, TJ_SHAPE(2, 3), (int32_t[]){ 1, 2, 3, 4, 5, 6 });
	const tjnn_sample_opts how[] = { { .greedy = true }, { .top_k = 4, .temperature = 0.8 }, { .top_p = 0.9 } };
	for (int i = 0; i < 3; i++) {
		tjnn_generator *a = tjnn_generator_open(c, whole, &m, TJ_OPTS(tjnn_generator_opts, .sample = how[i], .context = PLACES));
		tjnn_generator *b = tjnn_generator_open(c, cached, &m, TJ_OPTS(tjnn_generator_opts, .sample = how[i], .caches = caches));
		kit_ok(c);
		tj_tensor *x = tjnn_generate(a, prompt, PLACES - 3, 7), *y = tjnn_generate(b, prompt, PLACES - 3, 7);
		same_ids(c, x, y);
		same_ids(c, y, tjnn_generate(b, prompt, PLACES - 3, 7)); /* the caches begin anew */
		same_ids(c, tj_narrow(x, 1, 0, 3), tj_cast(prompt, TJ_I64));
		tj_tensor *other = tjnn_generate(b, prompt, PLACES - 3, 8);
		assert_int_equal(tj_truth(tj_all(tj_eq(x, other), TJ_ALL, false)), how[i].greedy);
		assert_true(tj_is_poison(tjnn_generate(b, prompt, PLACES - 1, 7)));
		kit_error(c, TJ_ERR_INDEX, "more places than the cache has");
		assert_int_equal(tj_dim(tjnn_generate(a, prompt, 2 * PLACES, 7), 1), 3 + 2 * PLACES); /* the window slides */
		assert_int_equal(tj_dim(tjnn_generate(a, prompt, 0, 7), 1), 3);
		kit_ok(c);
		tjnn_generator_close(a);
		tjnn_generator_close(b);
	}
	int calls = 0;
	const tjnn_generator_opts three = { .caches = caches, .each = count_to_three, .env = &calls };
	tjnn_generator *g = tjnn_generator_open(c, cached, &m, &three);
	assert_int_equal(tj_dim(tjnn_generate(g, prompt, 9, 1), 1), 6);
	tjnn_generator_close(g);
	g = tjnn_generator_open(c, cached, &m, TJ_OPTS(tjnn_generator_opts, .caches = caches, .stops = true, .stop = 0));
	bool stopped = false;
	for (uint64_t seed = 0; seed < 20; seed++) {
		tj_tensor *y = tjnn_generate(g, prompt, PLACES - 3, seed);
		const int64_t *v = tj_data(y), n = tj_dim(y, 1);
		for (int row = 0; row < 2; row++)
			for (int64_t i = 4; i < n; i++) assert_true(v[row * n + i - 1] != 0 || v[row * n + i] == 0);
		stopped |= n < PLACES && !v[n - 1] && !v[2 * n - 1];
		assert_true(n == PLACES || (!v[n - 1] && !v[2 * n - 1]));
	}
	assert_true(stopped);
	assert_true(tj_is_poison(tjnn_generate(g, tj_i(3), 1, 0)));
	kit_error(c, TJ_ERR_SHAPE, "that is no prompt");
	tjnn_generator_close(g);
	assert_null(tjnn_generator_open(c, cached, &m, NULL));
	kit_error(c, TJ_ERR_ARG, "either .caches are given");
	g = tjnn_generator_open(c, no_logits, &m, TJ_OPTS(tjnn_generator_opts, .context = 4));
	assert_true(tj_is_poison(tjnn_generate(g, prompt, 1, 0)));
	kit_error(c, TJ_ERR_SHAPE, "no logits for each place");
	for (int i = 0; i < 2; i++) tjnn_kv_cache_close(&m.cache[i]);
	tjnn_close(model);
	tj_close(c);
	tjnn_generator_close(g);
}

/* ---- means ---- */
static tj_tensor *factor;
static void layers_of_one(tjnn_walk *w, void *self)
{
	(void)self;
	tjnn_param(w, "factor", &factor, TJ_0D, tjnn_constant(2));
}
static void metrics(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_cast(in[0], TJ_F64);
	out[0] = tj_stack(TJ_LIST(tj_mean(tj_mul(x, tj_cast(factor, TJ_F64)), TJ_ALL, false), tj_mean(tj_cast(in[1], TJ_F64), TJ_ALL, false)), 0);
}
static void move(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_mul(factor, in[0]);
	tjnn_optim_step(self, out[0]);
}

static void test_means(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	double mean[3];
	tjnn_model *model = tjnn_open(c, layers_of_one, NULL, NULL);
	tj_tensor *x = tj_arange(TJ_I64, 0, 11, 1);
	tj_dataset *d = tj_dataset_arrays(c, TJ_LIST(x, tj_eq(tj_remainder(x, tj_i(4)), tj_i(0))));
	tj_loader *l = tj_loader_open(c, d, TJ_OPTS(tj_loader_opts, .batch = 4, .epochs = 1, .workers = 1)); /* 4, 4 and 3 */
	tj_fn *f = kit_fn(c, "metrics", metrics, NULL, 2, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tjnn_evaluate(f, l, mean, 2, NULL), TJ_OK);
		assert_true(fabs(mean[0] - 10) < 1e-12 && fabs(mean[1] - 3. / 11) < 1e-12);
	}
	tjnn_optim *o = tjnn_optim_open(model, tjnn_sgd(1), TJ_OPTS(tjnn_optim_opts, .ema = 0.5));
	tj_fn *g = kit_fn(c, "move", move, o, 1, 1);
	for (int i = 0; i < 2; i++) tj_call1(g, TJ_LIST(tj_f(1))); /* 1, then 0; averages 1, 0.5 */
	assert_int_equal(tjnn_evaluate(f, l, mean, 2, TJ_OPTS(tjnn_evaluate_opts, .averages = o)), TJ_OK);
	assert_true(fabs(mean[0] - 2.5) < 1e-12);
	assert_int_equal(tjnn_evaluate(f, l, mean, 2, NULL), TJ_OK);
	assert_true(mean[0] == 0);
	assert_int_equal(tjnn_evaluate(f, l, mean, 3, TJ_OPTS(tjnn_evaluate_opts, .averages = o)), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "2 elements, not 3");
	assert_true(mean[0] == 0 && tj_item(factor) == 0);
	assert_int_equal(tjnn_evaluate(f, NULL, mean, 1, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "no loader");
	tjnn_optim_close(o);
	tjnn_close(model);
	tj_loader_close(l);
	tj_dataset_free(d);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_draws), cmocka_unit_test(test_texts), cmocka_unit_test(test_means) };
	KIT_RUN(tests);
}
