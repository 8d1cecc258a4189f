/* SPDX-License-Identifier: MIT */
/* Handles in every order of closing, one struct for two models, what bodies must not do, groups, thawing. */
#include "test/kit.h"

#include <math.h>
#include <tjnn.h>
#include <unistd.h>

typedef struct net { tjnn_linear a, b; tjnn_optim *optim; const char *name; tjnn_model *model; } net;
static void layers(tjnn_walk *w, void *self)
{
	net *m = self;
	tjnn_linear_layer(w, m->name ? m->name : "a", &m->a, 3, 4, true);
	tjnn_linear_layer(w, "b", &m->b, 4, 1, true);
}
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	out[0] = tj_mean(tj_square(tjnn_linear_apply(&m->b, tj_tanh(tjnn_linear_apply(&m->a, in[0])))), TJ_ALL, false);
	tjnn_optim_step(m->optim, out[0]);
}
static tj_tensor *data(tj_ctx *c) { return tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 2, -3, 0.5f, -1, 2 }); }
static void loss_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	(void)in;
	tj_tensor *const all[] = { m->a.weight, m->a.bias, m->b.weight, m->b.bias };
	out[0] = tj_f(0);
	for (int i = 0; i < 4; i++) out[0] = tj_add(out[0], tj_sum(tj_square(all[i]), TJ_ALL, false));
}

/* ---- orders ---- */
enum { OPTIM, MODEL, LBFGS, RUN, CONTEXT, HANDLES };
static void close_one(int which, tj_ctx *c, net *m, tjnn_lbfgs *l, tjnn_run *r)
{
	switch (which) {
	case OPTIM: tjnn_optim_close(m->optim); break;
	case MODEL: tjnn_close(m->model); break;
	case LBFGS: tjnn_lbfgs_close(l); break;
	case RUN: tjnn_run_close(r); break;
	default: tj_close(c); break;
	}
}

static void in_order(const int *order)
{
	net m = { 0 };
	tj_ctx *c = kit_open();
	m.model = tjnn_open(c, layers, &m, NULL);
	m.optim = tjnn_optim_open(m.model, tjnn_adam(0.1), TJ_OPTS(tjnn_optim_opts, .ema = 0.9));
	tj_fn *f = kit_fn(c, "step", step, &m, 1, 1);
	tjnn_run *r = tjnn_run_open(c, TJ_OPTS(tjnn_run_opts, .steps = 4, .model = m.model, .optim = m.optim, .quiet = true));
	assert_true(tjnn_run_next(r, NULL, 0));
	tj_call1(f, TJ_LIST(data(c)));
	tjnn_lbfgs *l = tjnn_lbfgs_open(m.model, loss_body, &m, 0, NULL);
	const double loss = tjnn_lbfgs_step(l, TJ_NONE);
	kit_ok(c);
	assert_true(isfinite(loss));
	tjnn_optim_swap(m.optim);
	kit_ok(c);
	bool open[HANDLES] = { true, true, true, true, true };
	for (int i = 0; i < HANDLES; i++) {
		close_one(order[i], c, &m, l, r);
		open[order[i]] = false;
		if (open[CONTEXT] && open[OPTIM] && !open[MODEL]) {
			assert_true(tjnn_optim_set_rate(m.optim, -1, 1) != TJ_OK);
			kit_error(c, TJ_ERR_STATE, "the model was closed");
		}
		if (open[CONTEXT] && open[LBFGS] && !open[MODEL]) {
			assert_true(isnan(tjnn_lbfgs_step(l, TJ_NONE)));
			kit_error(c, TJ_ERR_STATE, "was closed");
		}
		if (open[MODEL] && !open[CONTEXT]) assert_true(tjnn_save(m.model, NULL, NULL, "/nowhere/x") == TJ_ERR_STATE);
	}
	assert_null(m.a.weight);
	tj_check(NULL); /* of the thread, when the context was closed first */
}

static void test_orders(void **state)
{
	(void)state;
	int order[HANDLES];
	for (int n = 0; n < 3125; n++) { /* all permutations */
		int seen = 0;
		for (int i = 0, x = n; i < HANDLES; i++, x /= 5) seen |= 1 << (order[i] = x % 5);
		if (seen == 31) in_order(order);
	}
}

static void test_one_struct(void **state)
{
	(void)state;
	net m = { 0 };
	tj_ctx *c = kit_open();
	tjnn_model *first = tjnn_open(c, layers, &m, NULL);
	tj_tensor *const was = m.a.weight;
	assert_null(tjnn_open(c, layers, &m, NULL));
	kit_error(c, TJ_ERR_STATE, "another model");
	assert_ptr_equal(m.a.weight, was); /* the first model keeps it */
	tj_ctx *other = kit_open();
	assert_null(tjnn_open(other, layers, &m, NULL));
	kit_error(other, TJ_ERR_STATE, "another model");
	tj_ctx_use(c);
	tjnn_close(first);
	first = tjnn_open(other, layers, &m, NULL);
	kit_ok(other);
	tj_close(other); /* with it the model ends, and the struct is free */
	tjnn_model *second = tjnn_open(c, layers, &m, NULL);
	kit_ok(c);
	tjnn_close(second);
	tjnn_close(first);
	tj_close(c);
}

/* ---- names ---- */
static void test_utf8(void **state)
{
	(void)state;
	static const char *const bad[] = { "\xFF", "a\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "caf\xE9", "\xE2\x82" };
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		net m = { .name = bad[i] };
		assert_null(tjnn_open(c, layers, &m, NULL));
		kit_error(c, TJ_ERR_ARG, "no UTF-8");
	}
	net m = { .name = "__metadata__" };
	assert_null(tjnn_open(c, layers, &m, NULL));
	kit_error(c, TJ_ERR_ARG, "__metadata__");
	m = (net){ .name = "caf\xC3\xA9 \xF0\x9F\x98\x80" };
	tjnn_model *model = tjnn_open(c, layers, &m, NULL);
	kit_ok(c);
	tjnn_close(model);
	tj_close(c);
}

enum { MANY = 16000 };
static tj_tensor *many[MANY];
static void many_layers(tjnn_walk *w, void *self)
{
	(void)self;
	for (int i = 0; i < MANY; i++) tjnn_param(w, tjnn_name(w, "p%d", i), &many[i], TJ_0D, tjnn_constant(i));
}
static void test_many(void **state) /* was quadratic: 7.8 s to load */
{
	(void)state;
	char path[] = "/tmp/tj-many-XXXXXX";
	const int fd = mkstemp(path);
	tj_ctx *c = kit_open();
	tjnn_model *m = tjnn_open(c, many_layers, NULL, NULL);
	for (int i = 0; i < MANY; i += 997) {
		char name[16];
		snprintf(name, sizeof name, "p%d", i);
		assert_ptr_equal(tjnn_find(m, name)->var, &many[i]);
	}
	assert_null(tjnn_find(m, "p16000"));
	tjnn_save(m, NULL, NULL, path);
	tj_write(many[MANY - 1], (float[]){ -1 }, sizeof(float));
	tjnn_load(m, NULL, NULL, path, NULL);
	kit_ok(c);
	assert_true(tj_item(many[MANY - 1]) == MANY - 1);
	tjnn_close(m);
	tj_close(c);
	close(fd);
	unlink(path);
}

/* ---- bodies ---- */
static int which;
static void forbidden(tj_tensor **out, tj_tensor *const *in, void *self)
{
	net *m = self;
	out[0] = in[0];
	switch (which) {
	case 0: tjnn_reset(m->model, "*.weight", tjnn_constant(0)); break;
	case 1: tjnn_save(m->model, NULL, NULL, "/tmp/tj-never"); break;
	case 2: tjnn_load(m->model, NULL, NULL, "/tmp/tj-never", NULL); break;
	case 3: assert_null(tjnn_run_open(tjnn_context(m->model), TJ_OPTS(tjnn_run_opts, .model = m->model))); break;
	case 4: tjnn_optim_swap(m->optim); break;
	case 5: tjnn_freeze(m->model, "a.*", true); break;
	case 6: assert_null(tjnn_lbfgs_open(m->model, loss_body, m, 0, NULL)); break;
	default: assert_null(tjnn_optim_open(m->model, tjnn_sgd(1), NULL)); break;
	}
}
static void test_bodies(void **state)
{
	(void)state;
	net m = { 0 };
	tj_ctx *c = kit_open();
	m.model = tjnn_open(c, layers, &m, NULL);
	m.optim = tjnn_optim_open(m.model, tjnn_sgd(1), TJ_OPTS(tjnn_optim_opts, .ema = 0.9));
	assert_false(tj_in_body(c) || tj_in_body(NULL));
	for (which = 0; which < 8; which++) {
		tj_fn *f = kit_fn(c, "forbidden", forbidden, &m, 1, 1);
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(F32(c, 1)))));
		kit_error(c, TJ_ERR_STATE, "() is not allowed in a body");
		assert_non_null(strstr(tj_last_error(c)->message, "tjnn_"));
	}
	tjnn_optim_close(m.optim);
	tjnn_close(m.model);
	tj_close(c);
}

/* ---- groups ---- */
static bool never(void *env, const tjnn_slot *s) { return env == s; }
static void test_groups(void **state)
{
	(void)state;
	net m = { 0 };
	tj_ctx *c = kit_open();
	m.model = tjnn_open(c, layers, &m, NULL);
	tjnn_optim_opts o = { .groups = (const tjnn_group[]){ { .pattern = "a.*", .rule = tjnn_sgd(1) }, { .pattern = "encoder.*" }, { 0 } } };
	assert_null(tjnn_optim_open(m.model, tjnn_sgd(1), &o));
	kit_error(c, TJ_ERR_ARG, "group 1 has no parameter: none matches \"encoder.*\"");
	o.groups = (const tjnn_group[]){ { .match = never, .rule = tjnn_sgd(1) }, { 0 } };
	assert_null(tjnn_optim_open(m.model, tjnn_sgd(1), &o));
	kit_error(c, TJ_ERR_ARG, "group 0 has no parameter");
	const tjnn_group all[] = { { .pattern = "b.*", .match = tjnn_is_matrix, .rule = tjnn_sgd(0) },
		                   { .match = tjnn_is_matrix, .rule = tjnn_sgd(0.5) }, { 0 } };
	m.optim = tjnn_optim_open(m.model, tjnn_sgd(0.25), TJ_OPTS(tjnn_optim_opts, .groups = all));
	tj_fn *f = kit_fn(c, "step", step, &m, 1, 1);
	float before[17], after[17], bias[5];
	tj_read(m.a.weight, before, 48), tj_read(m.b.weight, before + 12, 16), tj_read(m.b.bias, bias, 4);
	tj_call1(f, TJ_LIST(data(c)));
	tj_read(m.a.weight, after, 48), tj_read(m.b.weight, after + 12, 16), tj_read(m.b.bias, bias + 1, 4);
	kit_ok(c);
	assert_memory_equal(before + 12, after + 12, 16);
	assert_true(memcmp(before, after, 48) && bias[0] != bias[1]);
	tjnn_optim_close(m.optim);
	tjnn_close(m.model);
	tj_close(c);
}

/* ---- thawing ---- */
/* A checkpoint has what a thawed parameter has missed: with it the run goes on bit by bit. */
static void test_thawed_checkpoint(void **state)
{
	(void)state;
	char path[] = "/tmp/tj-thaw-XXXXXX";
	const int fd = mkstemp(path);
	double loss[2][6];
	for (int turn = 0; turn < 2; turn++) {
		net m = { 0 };
		tj_ctx *c = kit_open();
		m.model = tjnn_open(c, layers, &m, TJ_OPTS(tjnn_open_opts, .seed = (uint64_t)turn));
		tjnn_freeze(m.model, "a.*", true);
		m.optim = tjnn_optim_open(m.model, tjnn_nadam(0.05), TJ_OPTS(tjnn_optim_opts, .ema = 0.9, .accumulate = 2));
		tj_fn *f = kit_fn(c, "step", step, &m, 1, 1);
		for (int i = 0; !turn && i < 4; i++) tj_call1(f, TJ_LIST(data(c)));
		assert_int_equal(tjnn_freeze(m.model, "a.*", false), 2);
		for (int i = 0; !turn && i < 4; i++) tj_call1(f, TJ_LIST(data(c)));
		assert_int_equal(tjnn_freeze(m.model, "b.*", true), 2);
		if (turn) tjnn_reset(m.model, "*", tjnn_constant(1));
		if (!turn) tjnn_save(m.model, m.optim, NULL, path);
		else tjnn_load(m.model, m.optim, NULL, path, NULL);
		if (turn) f = kit_fn(c, "step", step, &m, 1, 1);
		for (int i = 0; i < 6; i++) loss[turn][i] = tj_item(tj_call1(f, TJ_LIST(data(c))));
		kit_ok(c);
		tjnn_optim_close(m.optim);
		tjnn_close(m.model);
		tj_close(c);
	}
	assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
	assert_true(loss[0][5] < loss[0][0]);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders), cmocka_unit_test(test_one_struct), cmocka_unit_test(test_utf8), cmocka_unit_test(test_many),
		cmocka_unit_test(test_bodies), cmocka_unit_test(test_groups),     cmocka_unit_test(test_thawed_checkpoint),
	};
	KIT_RUN(tests);
}
