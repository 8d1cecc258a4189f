/* SPDX-License-Identifier: MIT */
/* Walks and models: names, initial values, sharing, freezing, errors; decoding with a cache. */
#include "test/kit.h"

#include <math.h>
#include <tjnn.h>

/* ---- initial values ---- */
typedef struct one {
	tj_tensor *w;
	tjnn_init init;
	int64_t dim[4];
} one;
static void one_layers(tjnn_walk *w, void *self)
{
	one *m = self;
	tjnn_param(w, "w", &m->w, m->dim, m->init);
}

typedef struct moments {
	double mean, deviation, least, most;
} moments;
static moments moments_of(tjnn_init init, int64_t a, int64_t b)
{
	one m = { .init = init, .dim = { a, b, TJ_END_DIM } };
	tj_ctx *c = kit_open();
	tjnn_model *model = tjnn_open(c, one_layers, &m, TJ_OPTS(tjnn_open_opts, .seed = 3));
	kit_ok(c);
	const int64_t n = a * b;
	const float *v = tj_data(m.w);
	moments r = { 0, 0, v[0], v[0] };
	for (int64_t i = 0; i < n; i++) {
		r.mean += (double)v[i] / (double)n;
		r.least = fmin(r.least, (double)v[i]);
		r.most = fmax(r.most, (double)v[i]);
	}
	for (int64_t i = 0; i < n; i++) r.deviation += (v[i] - r.mean) * (v[i] - r.mean) / (double)n;
	r.deviation = sqrt(r.deviation);
	tjnn_close(model);
	tj_close(c);
	return r;
}

#define NEAR(a, b, by) assert_true(fabs((a) - (b)) <= (by))
static void test_distributions(void **state)
{
	(void)state;
	const double n = 1 / sqrt(200. * 300);
	moments m = moments_of(tjnn_normal(1, 2), 200, 300);
	NEAR(m.mean, 1, 4 * 2 * n), NEAR(m.deviation, 2, 4 * 2 * n);
	m = moments_of(tjnn_uniform(-1, 3), 200, 300);
	NEAR(m.mean, 1, 4 * n), NEAR(m.deviation, 4 / sqrt(12), 4 * n), NEAR(m.least, -1, 1e-3), NEAR(m.most, 3, 1e-3);
	m = moments_of(tjnn_trunc_normal(0, 1), 200, 300);
	NEAR(m.deviation, 0.8796, 5 * n), NEAR(m.most, 2, 1e-2);
	m = moments_of(tjnn_scaled(TJNN_KAIMING_UNIFORM, 1), 200, 300);
	NEAR(m.most, sqrt(3 / 300.), 1e-4);
	m = moments_of(tjnn_scaled(TJNN_KAIMING_NORMAL, sqrt(2)), 200, 300);
	NEAR(m.deviation, sqrt(2 / 300.), 1e-3);
	m = moments_of(tjnn_scaled(TJNN_XAVIER_UNIFORM, 1), 200, 300);
	NEAR(m.most, sqrt(6 / 500.), 1e-4);
	m = moments_of(tjnn_scaled(TJNN_XAVIER_NORMAL, 1), 200, 300);
	NEAR(m.deviation, sqrt(2 / 500.), 1e-3);
}

static void test_matrices(void **state)
{
	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		const int64_t rows = turn ? 9 : 5, columns = turn ? 5 : 9;
		one m = { .init = tjnn_scaled(TJNN_ORTHOGONAL, 2), .dim = { rows, columns, TJ_END_DIM } };
		tj_ctx *c = kit_open();
		tjnn_model *model = tjnn_open(c, one_layers, &m, TJ_OPTS(tjnn_open_opts, .dtype = TJ_F64));
		tj_tensor *t = tj_transpose(m.w, 0, 1), *square = turn ? tj_matmul(t, m.w) : tj_matmul(m.w, t);
		const double *v = tj_data(square);
		for (int i = 0; i < 25; i++) NEAR(v[i], i % 6 ? 0 : 4, 1e-13);
		tjnn_close(model);
		m = (one){ .init = tjnn_scaled(TJNN_DIRAC, 1), .dim = { 2, 3, 3, TJ_END_DIM } };
		model = tjnn_open(c, one_layers, &m, NULL);
		assert_f32(tj_flatten(m.w, 0, -1), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0);
		tjnn_close(model);
		m = (one){ .init = tjnn_scaled(TJNN_EYE, 3), .dim = { 2, 3, TJ_END_DIM } };
		model = tjnn_open(c, one_layers, &m, NULL);
		assert_f32(tj_flatten(m.w, 0, -1), 3, 0, 0, 0, 3, 0);
		tjnn_close(model);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- names ---- */
typedef struct net {
	tjnn_embedding tokens;
	tjnn_linear block[2], head;
	tj_tensor *scale, *seen;
	int wrong; /* which error the walk makes */
} net;

static void inner(tjnn_walk *w, void *self) { tjnn_linear_layer(w, "up", self, 4, 4, true); }
static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_embedding_layer(w, "tokens", &m->tokens, 7, 4, 0);
	for (int i = 0; i < 2; i++) {
		tjnn_enter(w, "blocks.%d", i);
		tjnn_child(w, "inner", inner, &m->block[i]);
		tjnn_leave(w);
	}
	tjnn_shared(w, "head", &m->head.weight, &m->tokens.weight);
	tjnn_param(w, "scale", &m->scale, TJ_0D, tjnn_constant(2));
	tjnn_buffer(w, "seen", &m->seen, TJ_I64, TJ_SHAPE(2), 5);
	switch (m->wrong) {
	case 1: tjnn_param(w, "scale", &m->scale, TJ_0D, tjnn_constant(2)); break;
	case 2: tjnn_enter(w, "open"); break;
	case 3: tjnn_leave(w); break;
	case 4: tjnn_param(w, "a.b", &m->scale, TJ_SHAPE(-1), tjnn_constant(2)); break;
	case 5: tjnn_param(w, "x", &m->scale, TJ_SHAPE(3), tjnn_scaled(TJNN_KAIMING_NORMAL, 1)); break;
	case 6: tjnn_shared(w, "x", &m->scale, &m->seen + 1); break;
	case 7: tjnn_conv_layer(w, "x", &(tjnn_conv){ 0 }, 3, 4, TJ_SHAPE(3, 3), true, TJ_OPTS(tj_conv_opts, .groups = 2)); break;
	case 8: tjnn_attention_layer(w, "x", &(tjnn_attention){ 0 }, 9, 2, NULL); break;
	case 9: tjnn_param(w, "", &m->scale, TJ_0D, tjnn_constant(2)); break;
	default: break;
	}
}

typedef struct every {
	tjnn_linear linear;
	tjnn_norm norm, group;
	tjnn_conv conv;
	tjnn_attention attention;
	tjnn_recurrent cells;
	tjnn_embedding table;
} every;
static void all_layers(tjnn_walk *w, void *self)
{
	every *m = self;
	tjnn_linear_layer(w, "linear", &m->linear, 4, 4, false);
	tjnn_batch_norm_layer(w, "norm", &m->norm, 4);
	tjnn_group_norm_layer(w, "group", &m->group, 2, 4);
	tjnn_conv_layer(w, "conv", &m->conv, 2, 3, TJ_SHAPE(3), false, NULL);
	tjnn_attention_layer(w, "attention", &m->attention, 4, 2, TJ_OPTS(tjnn_attention_layer_opts, .no_bias = true));
	tjnn_recurrent_layer(w, "cells", &m->cells, TJNN_GRU, 4, 3, TJ_OPTS(tjnn_recurrent_opts, .no_bias = true));
	tjnn_embedding_layer(w, "table", &m->table, 3, 2, -1);
}

static void note(void *env, const tjnn_slot *s) { strcat(strcat(env, s->name), s->same_as ? "= " : " "); }

static void test_names(void **state)
{
	(void)state;
	net m = { 0 };
	char names[400] = "";
	tj_ctx *c = kit_open();
	assert_int_equal(tjnn_visit(layers, &m, note, names), TJ_OK);
	assert_string_equal(
		names,
		"tokens.weight blocks.0.inner.up.weight blocks.0.inner.up.bias blocks.1.inner.up.weight blocks.1.inner.up.bias head= scale seen ");
	assert_null(m.scale);
	tjnn_model *model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = 1));
	assert_true(m.head.weight == m.tokens.weight);
	assert_int_equal(tjnn_numel(model, true), 28 + 40 + 1);
	assert_int_equal(tjnn_freeze(model, "blocks.*", true), 4);
	assert_true(tjnn_frozen(model, "blocks.1.inner.up.bias"));
	assert_int_equal(tjnn_numel(model, true), 29);
	assert_true(tjnn_params(model)[0] == m.tokens.weight && tjnn_params(model)[1] == m.scale && tjnn_params(model)[2] == TJ_END);
	assert_int_equal(tjnn_freeze(model, "none*", true), -1);
	kit_error(c, TJ_ERR_ARG, "no parameter has a name like");
	const float *row = tj_data(m.tokens.weight);
	assert_true(row[0] == 0 && row[3] == 0 && row[4] != 0);
	assert_int_equal(tjnn_reset(model, "blocks.*.bias", tjnn_constant(0.5)), 2);
	assert_f32(m.block[0].bias, .5, .5, .5, .5);
	assert_int_equal(tj_item_i(tj_select(m.seen, 0, 1)), 5);
	assert_int_equal(tjnn_find(model, "head")->rank, 2);
	assert_null(tjnn_find(model, "tail"));
	kit_ok(c);
	tjnn_close(model);
	assert_null(m.scale);
	tj_close(c);
}

/* Structs need not be zero; a visit leaves an open model as it is. */
static void test_structs(void **state)
{
	(void)state;
	every *m;
	char names[1000] = "";
	tj_ctx *c = kit_open();
	m = malloc(sizeof *m);
	memset(m, 0x5A, sizeof *m);
	tjnn_model *model = tjnn_open(c, all_layers, m, NULL);
	kit_ok(c);
	assert_true(!m->linear.bias && !m->conv.bias && !m->attention.in_proj_bias && !m->cells.cell[0].b_ih && !m->group.running_mean);
	assert_true(m->norm.eps == 1e-5 && m->group.momentum == 0.1);
	tj_tensor *w = m->linear.weight, *x = tj_ones(TJ_F32, TJ_SHAPE(1, 4, 4));
	assert_int_equal(tjnn_visit(all_layers, m, note, names), TJ_OK);
	assert_true(m->linear.weight == w && m->cells.cell[0].w_hh);
	tj_tensor *y = tjnn_norm_apply(&m->norm, tjnn_linear_apply(&m->linear, tjnn_attention_apply(&m->attention, x, x, x, NULL)), true);
	tjnn_recurrent_apply(&m->cells, y, NULL, false);
	kit_ok(c);
	tjnn_close(model);
	free(m);
	tj_close(c);
}

/* Values depend on the seed and the name alone. */
static void test_seeds(void **state)
{
	(void)state;
	float w[3][16];
	tj_ctx *c = kit_open();
	for (int i = 0; i < 3; i++) {
		net m = { 0 };
		tjnn_linear alone = { 0 };
		tjnn_model *model = i == 2 ? tjnn_open(c, inner, &alone, TJ_OPTS(tjnn_open_opts, .seed = 1))
		                           : tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = (uint64_t)i + 1));
		tj_read(i == 2 ? alone.weight : m.block[1].weight, w[i], sizeof w[i]);
		tjnn_close(model);
	}
	kit_ok(c);
	assert_memory_not_equal(w[0], w[1], sizeof w[0]);
	assert_memory_not_equal(w[0], w[2], sizeof w[0]);
	tj_close(c);
}

static void test_errors(void **state)
{
	(void)state;
	static const char *const want[] = { "",
		                            "two of the name scale",
		                            "ends within open.",
		                            "no module was entered",
		                            "has a dot",
		                            "need two axes",
		                            "has not named",
		                            "3 to 4 channels in 2 groups",
		                            "width 9, 2 heads",
		                            "is empty" };
	tj_ctx *c = kit_open();
	for (int i = 1; i < 10; i++) {
		net m = { .wrong = i };
		assert_null(tjnn_open(c, layers, &m, NULL));
		assert_null(m.scale);
		const tj_status st = tj_check(c);
		assert_true(st != TJ_OK);
		if (!strstr(tj_last_error(c)->message, want[i])) fail_msg("%d: \"%s\"", i, tj_last_error(c)->message);
		if (!strstr(tj_last_error(c)->site, "test_walks.c:")) fail_msg("%d: %s", i, tj_last_error(c)->site);
	}
	net m = { 0 };
	assert_null(tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .dtype = TJ_I32)));
	kit_error(c, TJ_ERR_DTYPE, "i32");
	assert_null(tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .device = "abacus")));
	kit_error(c, TJ_ERR_DEVICE, "there is no device \"abacus\"");
	assert_true(tj_is_poison(tjnn_linear_apply(&m.block[0], NULL)));
	tj_check(c);
	assert_true(tj_is_poison(tjnn_recurrent_apply(&(tjnn_recurrent){ 0 }, NULL, NULL, true)));
	kit_error(c, TJ_ERR_STATE, "no walk has visited");
	tj_close(c);
}

/* What goes wrong between a program and its layers: a field named twice, no name, no struct, no options. */
typedef struct pair {
	tjnn_linear a, b;
	tjnn_norm norm;
	tjnn_conv conv;
	tjnn_sequential chain;
	tjnn_encoder_block block;
	int wrong;
} pair;
static void pair_layers(tjnn_walk *w, void *self)
{
	pair *m = self;
	tjnn_linear_layer(w, "a", &m->a, 2, 2, true);
	switch (m->wrong) {
	case 0: tjnn_linear_layer(w, "b", &m->a, 2, 2, true); break;
	case 1: tjnn_linear_layer(w, NULL, &m->b, 2, 2, true); break;
	case 2: tjnn_linear_layer(w, "b", NULL, 2, 2, true); break;
	case 3: tjnn_conv_layer(w, "b", &m->conv, 2, 2, NULL, true, NULL); break;
	case 4: tjnn_layer_norm_layer(w, "b", &m->norm, NULL, true); break;
	case 5: tjnn_sequential_layer(w, "b", &m->chain, NULL); break;
	case 6: tjnn_encoder_block_layer(w, "b", &m->block, NULL); break;
	case 7: tjnn_child(w, "b", NULL, m); break;
	case 8: tjnn_shared(w, "b", &m->b.weight, &m->a.weight); break;
	}
}

static void test_misuse(void **state)
{
	(void)state;
	static const char *const want[] = { "b.weight is in the same field as a.weight", "is empty", "b has no struct", "2 to 2 channels",
		                            "b is over no axes", "b has no list", "no options", "b has no layers function" };
	tj_ctx *c = kit_open();
	pair m = { 0 };
	for (m.wrong = 0; m.wrong < 8; m.wrong++) {
		const int wrong = m.wrong;
		assert_null(tjnn_open(c, pair_layers, &m, NULL));
		assert_true(tj_check(c) != TJ_OK);
		if (!strstr(tj_last_error(c)->message, want[wrong])) fail_msg("%d: \"%s\"", wrong, tj_last_error(c)->message);
	}
	tj_tensor *x = F32(c, 1, 2, 2);
	assert_true(tj_is_poison(tjnn_linear_apply(NULL, x)));
	kit_error(c, TJ_ERR_ARG, "the layer is NULL");
	assert_true(tj_is_poison(tjnn_norm_apply(&(tjnn_norm){ 0 }, x, true)));
	kit_error(c, TJ_ERR_STATE, "no walk has visited");
	assert_true(tj_is_poison(tjnn_encoder_block_apply(NULL, x, NULL, true)));
	kit_error(c, TJ_ERR_ARG, "the layer is NULL");
	const tjnn_spec no_call[] = { { .kind = TJNN_CALL }, { .kind = TJNN_END_SPEC } };
	assert_true(tj_is_poison(tjnn_sequential_apply(&(tjnn_sequential){ .spec = no_call }, x, true)));
	kit_error(c, TJ_ERR_ARG, "layer 0 has no function");
	tj_close(c);
}

/* A program that looks at errors once, at the end, goes on with what is NULL. */
static void test_no_model(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	assert_int_equal(tjnn_count(NULL) + tjnn_numel(NULL, true) + tjnn_optim_steps(NULL) + tjnn_run_step(NULL), 0);
	assert_null(tjnn_at(NULL, 0));
	assert_null(tjnn_find(NULL, "a"));
	assert_null(tjnn_vars(NULL));
	assert_null(tjnn_params(NULL));
	assert_null(tjnn_optim_vars(NULL));
	assert_null(tjnn_context(NULL));
	assert_false(tjnn_frozen(NULL, "a") || tjnn_run_every(NULL, 1) || tjnn_run_score(NULL, "a", 1));
	tjnn_summary(NULL, stdout);
	tjnn_run_log(NULL, "a", 1);
	tjnn_run_stop(NULL);
	tjnn_kv_cache_close(NULL);
	kit_ok(c);
	assert_int_equal(tjnn_freeze(NULL, "*", true), -1);
	kit_error(c, TJ_ERR_ARG, "no model");
	assert_int_equal(tjnn_reset(NULL, "*", tjnn_constant(0)), -1);
	kit_error(c, TJ_ERR_ARG, "no model");
	assert_false(tjnn_run_next(NULL, NULL, 0));
	kit_error(c, TJ_ERR_ARG, "no run");
	assert_true(isnan(tjnn_lbfgs_step(NULL, NULL)));
	kit_error(c, TJ_ERR_ARG, "no optimiser");
	assert_int_equal(tjnn_kv_cache_clear(NULL), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "not open");
	tj_close(c);
}

/* A shared parameter is frozen, reset and printed by any of its names, as in PyTorch. */
static void test_shared(void **state)
{
	(void)state;
	char text[1000] = "";
	pair m = { .wrong = 8 };
	tj_ctx *c = kit_open();
	tjnn_model *model = tjnn_open(c, pair_layers, &m, NULL);
	assert_int_equal(tjnn_freeze(model, "b", true), 1);
	assert_true(tjnn_frozen(model, "a.weight") && tjnn_frozen(model, "b") && !tjnn_frozen(model, "a.bias"));
	assert_int_equal(tjnn_numel(model, true), 2);
	FILE *f = fmemopen(text, sizeof text, "w");
	tjnn_summary(model, f);
	fclose(f);
	assert_non_null(strstr(text, "  frozen  = a.weight\n"));
	assert_int_equal(tjnn_reset(model, "b", tjnn_constant(3)), 1);
	NEAR(tj_item(tj_sum(m.a.weight, TJ_ALL, false)), 12, 0);
	assert_int_equal(tjnn_reset(model, "a.*", tjnn_scaled(TJNN_KAIMING_NORMAL, 1)), -1); /* the bias has one axis: nothing is written */
	kit_error(c, TJ_ERR_ARG, "two axes");
	NEAR(tj_item(tj_sum(m.a.weight, TJ_ALL, false)), 12, 0);
	assert_int_equal(tjnn_freeze(model, "a.weight", false), 1);
	assert_false(tjnn_frozen(model, "b"));
	tjnn_close(model);
	tj_close(c);
}

/* ---- decoding ---- */
typedef struct decoder {
	tjnn_encoder_block block[2];
	tjnn_kv_cache cache[2];
} decoder;
static void decoder_layers(tjnn_walk *w, void *self)
{
	decoder *m = self;
	for (int i = 0; i < 2; i++) {
		tjnn_encoder_block_layer(w, tjnn_name(w, "%d", i), &m->block[i],
		                         TJ_OPTS(tjnn_block_opts, .width = 16, .heads = 4, .kv_heads = 2, .rotary = 10000,
		                                 .norm_first = true, .gelu = true));
	}
}
static void whole(tj_tensor **out, tj_tensor *const *in, void *self)
{
	decoder *m = self;
	out[0] = in[0];
	for (int i = 0; i < 2; i++) out[0] = tjnn_encoder_block_apply(&m->block[i], out[0], TJ_OPTS(tjnn_attend, .causal = true), false);
}
static void next(tj_tensor **out, tj_tensor *const *in, void *self)
{
	decoder *m = self;
	out[0] = in[0];
	for (int i = 0; i < 2; i++)
		out[0] = tjnn_encoder_block_apply(&m->block[i], out[0], TJ_OPTS(tjnn_attend, .cache = &m->cache[i]), false);
}

/* Place by place, and three at once, the results are those of all places at once. */
static void test_cache(void **state)
{
	(void)state;
	decoder m = { 0 };
	tj_ctx *c = kit_open();
	tjnn_model *model = tjnn_open(c, decoder_layers, &m, TJ_OPTS(tjnn_open_opts, .dtype = TJ_F64));
	for (int i = 0; i < 2; i++) assert_int_equal(tjnn_kv_cache_open(c, &m.cache[i], &m.block[i].self_attn, 2, 8), TJ_OK);
	tj_tensor *x = tj_normal(TJ_F64, TJ_SHAPE(2, 8, 16)), *all = tj_call1(kit_fn(c, "whole", whole, &m, 1, 1), TJ_LIST(x));
	tj_fn *f = kit_fn(c, "next", next, &m, 1, 1);
	kit_ok(c);
	for (int turn = 0; turn < 2; turn++) {
		for (int64_t at = 0, n; at < 8; at += n) {
			n = at == 2 && turn ? 3 : 1;
			tj_tensor *y = tj_call1(f, TJ_LIST(tj_slice(x, 1, at, at + n, 1)));
			tj_tensor *d = tj_amax(tj_abs(tj_sub(y, tj_slice(all, 1, at, at + n, 1))), TJ_ALL, false);
			kit_ok(c);
			NEAR(tj_item(d), 0, 1e-13);
		}
		tj_tensor *y;
		assert_true(kit_call(c, f, &y, TJ_LIST(tj_slice(x, 1, 0, 1, 1))) != TJ_OK); /* there is no ninth place */
		kit_error(c, TJ_ERR_INDEX, "more places than the cache has");
		for (int i = 0; i < 2; i++) assert_int_equal(tjnn_kv_cache_clear(&m.cache[i]), TJ_OK);
	}
	assert_true(tj_is_poison(tjnn_encoder_block_apply(&m.block[0], x, TJ_OPTS(tjnn_attend, .cache = &(tjnn_kv_cache){ 0 }), false)));
	kit_error(c, TJ_ERR_STATE, "the cache is not open");
	x = tj_slice(x, 0, 0, 1, 1);
	assert_true(tj_is_poison(tjnn_encoder_block_apply(&m.block[0], x, TJ_OPTS(tjnn_attend, .cache = &m.cache[0]), false)));
	kit_error(c, TJ_ERR_SHAPE, "the cache is for 2 examples");
	for (int i = 0; i < 2; i++) tjnn_kv_cache_close(&m.cache[i]);
	tjnn_close(model);
	tj_close(c);
}

static void test_rotary(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const double x[] = { 1, 2, 3, 4 };
	tj_tensor *y = tjnn_rotary(tj_from_data(c, TJ_F64, TJ_SHAPE(1, 4), x), tj_i(5), 100);
	const double *v = tj_data(y);
	for (int i = 0; i < 2; i++) {
		const double angle = (double)((float)5 * expf((float)(-2 * log(100) / 4) * (float)i));
		NEAR(v[i], x[i] * cos(angle) - x[i + 2] * sin(angle), 1e-6);
		NEAR(v[i + 2], x[i + 2] * cos(angle) + x[i] * sin(angle), 1e-6);
	}
	assert_true(tj_is_poison(tjnn_rotary(F32(c, 1, 2, 3), tj_i(0), 100)));
	kit_error(c, TJ_ERR_SHAPE, "even");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distributions), cmocka_unit_test(test_matrices), cmocka_unit_test(test_names),
		cmocka_unit_test(test_structs),       cmocka_unit_test(test_seeds),    cmocka_unit_test(test_errors),
		cmocka_unit_test(test_cache),         cmocka_unit_test(test_rotary),   cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_no_model),      cmocka_unit_test(test_shared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
