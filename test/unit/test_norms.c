/* SPDX-License-Identifier: MIT */
/* Norms of functions/norm.c: values of PyTorch, running statistics, gradients to the third order, compiled code, errors. */
#include "test/layers.h"
#include "test/unit/known.inc"

#define KNOWN(y, name) layer_near(y, sizeof known_##name / sizeof *known_##name, known_##name, 1e-12, #name)
static tj_tensor *x(int salt, tj_dims shape) { return layer_tensor(tj_ctx_current(), TJ_F64, shape, salt); }

static tj_tensor *cell(tj_tensor *from, tj_dtype dtype)
{
	tj_tensor *t = tj_param(tj_ctx_current(), dtype, TJ_SHAPE(tj_numel(from)));
	tj_assign(t, from);
	return t;
}

static void values(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *w = x(1, TJ_SHAPE(3)), *b = x(2, TJ_SHAPE(3)), *y = x(0, TJ_SHAPE(4, 3, 2, 3)), *mean = x(3, TJ_SHAPE(3)),
		  *var = tj_add(tj_abs(x(4, TJ_SHAPE(3))), tj_f(0.5));
	tj_tensor *m = cell(mean, TJ_F64), *v = cell(var, TJ_F64);
	KNOWN(tj_batch_norm(y, m, v, w, b, TJ_OPTS(tj_norm_opts, .training = true)), batch_norm);
	KNOWN(m, batch_mean);
	KNOWN(v, batch_var);
	KNOWN(tj_batch_norm(y, m, v, w, b, TJ_OPTS(tj_norm_opts, .eps = 1e-3)), batch_norm_later);
	KNOWN(m, batch_mean);
	KNOWN(tj_batch_norm(x(0, TJ_SHAPE(5, 3)), NULL, NULL, NULL, NULL, TJ_OPTS(tj_norm_opts, .training = true)), batch_norm_2);
	m = cell(mean, TJ_F64), v = cell(var, TJ_F64);
	KNOWN(tj_instance_norm(y, m, v, w, b, TJ_OPTS(tj_norm_opts, .training = true, .momentum = 0.3)), instance_norm);
	KNOWN(m, instance_mean);
	KNOWN(v, instance_var);
	KNOWN(tj_instance_norm(y, m, v, w, b, NULL), instance_norm_later);
	KNOWN(tj_instance_norm(x(0, TJ_SHAPE(2, 3, 5)), NULL, NULL, NULL, NULL, NULL), instance_norm_alone);
	KNOWN(tj_group_norm(x(0, TJ_SHAPE(2, 6, 2, 2)), 3, x(1, TJ_SHAPE(6)), x(2, TJ_SHAPE(6)), 1e-5), group_norm);
	KNOWN(tj_group_norm(x(0, TJ_SHAPE(2, 6)), 2, NULL, NULL, 1e-3), group_norm_2);
	KNOWN(tj_layer_norm_over(x(0, TJ_SHAPE(3, 2, 4)), TJ_SHAPE(2, 4), x(1, TJ_SHAPE(2, 4)), x(2, TJ_SHAPE(2, 4)), 1e-5), layer_norm);
	KNOWN(tj_layer_norm_over(x(0, TJ_SHAPE(3, 2, 4)), TJ_SHAPE(2, 4), NULL, NULL, 1e-5), layer_norm_alone);
	KNOWN(tj_rms_norm_over(x(0, TJ_SHAPE(3, 2, 4)), TJ_SHAPE(2, 4), x(1, TJ_SHAPE(2, 4)), 1e-3), rms_norm);
	KNOWN(tj_local_response_norm(x(0, TJ_SHAPE(2, 5, 3)), 3, 0.3, 0.75, 1.5), local_response_norm);
	KNOWN(tj_local_response_norm(x(0, TJ_SHAPE(2, 6, 2, 2)), 4, 0.5, 0.5, 1), local_response_norm_4);
	kit_ok(c);
	tj_close(c);
}

/* ---- as layers: in[0] is x, in[1] and in[2] are weight and bias; in[3], in[4] running statistics ---- */
enum { BATCH, BATCH_2, LATER, INSTANCE, GROUP, GROUP_ALONE, LAYER, LAYER_ALONE, RMS, RESPONSE, KINDS };
static const char *const kind_name[] = { "batch_norm", "batch_norm of [N,C]", "batch_norm later", "instance_norm",
	                                 "group_norm", "group_norm alone",    "layer_norm",       "layer_norm alone",
	                                 "rms_norm",   "local_response_norm" };
static void norm(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_norm_opts training = { .size = sizeof training, .training = true };
	switch (*(int *)self) {
	case BATCH: case BATCH_2: out[0] = tj_batch_norm(in[0], NULL, NULL, in[1], in[2], &training); break;
	case LATER: out[0] = tj_batch_norm(in[0], in[3], tj_square(in[4]), in[1], in[2], NULL); break;
	case INSTANCE: out[0] = tj_instance_norm(in[0], NULL, NULL, in[1], in[2], NULL); break;
	case GROUP: out[0] = tj_group_norm(in[0], 2, in[1], in[2], 1e-2); break;
	case GROUP_ALONE: out[0] = tj_group_norm(in[0], 1, NULL, NULL, 1e-2); break;
	case LAYER: out[0] = tj_layer_norm_over(in[0], TJ_SHAPE(3, 2), in[1], in[2], 1e-2); break;
	case LAYER_ALONE: out[0] = tj_layer_norm_over(in[0], TJ_SHAPE(3, 2), NULL, NULL, 1e-2); break;
	case RMS: out[0] = tj_rms_norm_over(in[0], TJ_SHAPE(3, 2), in[1], 1e-2); break;
	default: out[0] = tj_local_response_norm(in[0], 3, 0.5, 0.75, 1); break;
	}
}

static layer of_kind(int *kind, tj_dtype dtype)
{
	static const int64_t flat[] = { 5, 4, TJ_END_DIM }, deep[] = { 2, 4, 3, 2, TJ_END_DIM }, channel[] = { 4, TJ_END_DIM },
			     last[] = { 3, 2, TJ_END_DIM };
	const bool over = *kind == LAYER || *kind == RMS, alone = *kind == GROUP_ALONE || *kind == LAYER_ALONE || *kind == RESPONSE;
	tj_ctx *c = tj_ctx_current();
	layer l = { .body = norm, .self = kind, .nin = alone ? 1 : *kind == LATER ? 5 : 3 };
	for (int i = 0; i < l.nin; i++) l.in[i] = layer_tensor(c, dtype, i ? over ? last : channel : *kind == BATCH_2 ? flat : deep, i);
	return l;
}

static void gradients(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	for (int kind = 0; kind < KINDS; kind++) {
		layer l = of_kind(&kind, TJ_F64);
		layer_check(&l, kind_name[kind]);
		for (tj_dtype t = TJ_F16; t <= TJ_F32 && !strcmp(kit_backend, "llvm"); t++) {
			l = of_kind(&kind, t);
			layer_check(&l, kind_name[kind]);
			tj_tensor *y;
			norm(&y, l.in, &kind);
			assert_int_equal(tj_dtype_of(y), t);
		}
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- a training ---- */
typedef struct net { tj_tensor *w, *scale, *shift, *mean, *var; } net;
static void train(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	tj_tensor *h = tj_batch_norm(tj_matmul(in[0], m->w), m->mean, m->var, m->scale, m->shift, TJ_OPTS(tj_norm_opts, .training = true)), *g[3];
	out[0] = tj_mean(tj_square(tj_sub(tj_relu(h), in[1])), TJ_ALL, false);
	if (tj_grad(g, out[0], TJ_LIST(m->w, m->scale, m->shift), NULL) != TJ_OK) return;
	tj_tensor *const p[] = { m->w, m->scale, m->shift };
	for (int i = 0; i < 3; i++) tj_assign(p[i], tj_sub(p[i], tj_mul(g[i], tj_f(0.1))));
}
static void later(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *m = self;
	out[0] = tj_relu(tj_batch_norm(tj_matmul(in[0], m->w), m->mean, m->var, m->scale, m->shift, NULL));
}

static void training(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	net m = { .mean = tj_param(c, TJ_F32, TJ_SHAPE(8)) };
	m.w = tj_param(c, TJ_F32, TJ_SHAPE(6, 8));
	tj_tensor **const rest[] = { &m.scale, &m.shift, &m.var };
	for (int i = 0; i < 3; i++) tj_assign(*rest[i] = tj_param(c, TJ_F32, TJ_SHAPE(8)), tj_f(i != 1));
	tj_assign(m.w, layer_tensor(c, TJ_F32, TJ_SHAPE(6, 8), 0));
	tj_fn *f = kit_fn(c, "train", train, &m, 2, 1), *g = kit_fn(c, "later", later, &m, 1, 1);
	float first = 0, last = 0;
	for (int i = 0; i < 200; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *in = layer_tensor(c, TJ_F32, TJ_SHAPE(32, 6), i % 7), *want = tj_relu(tj_slice(in, 1, 0, 1, 1));
		last = (float)tj_item(tj_call1(f, TJ_LIST(in, want)));
		if (!i) first = last;
		tj_pop(s);
	}
	kit_ok(c);
	assert_true(last < first / 3);
	assert_int_equal(kit_stats(f).recordings, 1);
	if (!strcmp(kit_backend, "llvm")) assert_int_equal(kit_stats(f).eval_steps, 0);
	tj_tensor *in = layer_tensor(c, TJ_F32, TJ_SHAPE(4, 6), 3), *y = tj_call1(g, TJ_LIST(in)),
		  *z = tj_call1(g, TJ_LIST(tj_slice(in, 0, 1, 2, 1)));
	for (int i = 0; i < 8; i++) assert_true(((const float *)tj_data(y))[8 + i] == ((const float *)tj_data(z))[i]); /* one example alone */
	kit_ok(c);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	const tj_norm_opts training = { .size = sizeof training, .training = true };
	tj_tensor *a = x(0, TJ_SHAPE(2, 4, 3)), *b = x(0, TJ_SHAPE(3)), *four = x(0, TJ_SHAPE(4));
	LAYER_REFUSED(tj_batch_norm(NULL, NULL, NULL, NULL, NULL, &training), ARG, "batch_norm", "x is NULL");
	LAYER_REFUSED(tj_batch_norm(b, NULL, NULL, NULL, NULL, &training), SHAPE, "batch_norm", "x has 1 axes");
	LAYER_REFUSED(tj_batch_norm(tj_cast(a, TJ_I32), NULL, NULL, NULL, NULL, &training), DTYPE, "batch_norm", "x is i32, no float");
	LAYER_REFUSED(tj_batch_norm(a, NULL, NULL, b, NULL, &training), SHAPE, "batch_norm", "the weight is not [4]");
	LAYER_REFUSED(tj_batch_norm(a, NULL, NULL, NULL, NULL, NULL), ARG, "batch_norm", "without .training the running mean");
	LAYER_REFUSED(tj_batch_norm(a, four, NULL, NULL, NULL, &training), ARG, "batch_norm", "one of the running mean and variance is NULL");
	LAYER_REFUSED(tj_batch_norm(x(0, TJ_SHAPE(1, 4)), NULL, NULL, NULL, NULL, &training), SHAPE, "batch_norm",
	              "there is one value for each mean");
	LAYER_REFUSED(tj_batch_norm(x(0, TJ_SHAPE(0, 4)), NULL, NULL, NULL, NULL, &training), SHAPE, "batch_norm",
	              "there is no value for each mean");
	LAYER_REFUSED(tj_batch_norm(a, NULL, NULL, NULL, NULL, TJ_OPTS(tj_norm_opts, .training = true, .momentum = 2)), ARG, "batch_norm",
	              ".momentum is 2");
	assert_true(tj_is_poison(tj_batch_norm(a, four, four, NULL, NULL, &training)));
	kit_error(c, TJ_ERR_ARG, "");
	LAYER_REFUSED(tj_instance_norm(x(0, TJ_SHAPE(3, 4)), NULL, NULL, NULL, NULL, NULL), SHAPE, "instance_norm",
	              "there is one value for each mean");
	LAYER_REFUSED(tj_group_norm(a, 3, NULL, NULL, 1e-5), SHAPE, "group_norm", "3 groups do not divide 4 channels");
	LAYER_REFUSED(tj_group_norm(a, 2, b, NULL, 1e-5), SHAPE, "group_norm", "the weight is not [4]");
	LAYER_REFUSED(tj_layer_norm_over(a, TJ_SHAPE(4, 2), NULL, NULL, 1e-5), SHAPE, "layer_norm_over",
	              "the sizes are not those of the last axes");
	LAYER_REFUSED(tj_layer_norm_over(a, TJ_0D, NULL, NULL, 1e-5), SHAPE, "layer_norm_over", "the sizes are not those of the last axes");
	LAYER_REFUSED(tj_layer_norm_over(a, NULL, NULL, NULL, 1e-5), SHAPE, "layer_norm_over", "the sizes are not those of the last axes");
	LAYER_REFUSED(tj_layer_norm_over(a, TJ_SHAPE(4, 3), b, NULL, 1e-5), SHAPE, "layer_norm_over", "the weight has not the given sizes");
	LAYER_REFUSED(tj_rms_norm_over(NULL, TJ_SHAPE(4, 3), b, 1e-5), ARG, "rms_norm_over", "x is NULL");
	LAYER_REFUSED(tj_local_response_norm(a, 0, 1e-4, 0.75, 1), ARG, "local_response_norm", "the size is 0");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(gradients), cmocka_unit_test(training),
		                            cmocka_unit_test(errors) };
	KIT_RUN(tests);
}
