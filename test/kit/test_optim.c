/* SPDX-License-Identifier: MIT */
/* Optimisers and schedules against PyTorch's first steps, which record_training.py has recorded. */
#include "test/kit.h"

#include <math.h>
#include <tjnn.h>

#include "test/kit/recorded.inc"

enum { STEPS = 20, RATES = 60 };

/* As record_training.py has them. */
static double value(int64_t i, int salt) { return (double)((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100; }

typedef struct pair {
	tj_tensor *w, *b;
} pair;
typedef struct problem {
	pair p;
	tj_tensor *k[2], *q[2]; /* constants of the loss */
	tjnn_optim *optim;
} problem;

static void layers(tjnn_walk *w, void *self)
{
	pair *p = self;
	tjnn_param(w, "w", &p->w, TJ_SHAPE(3, 4), tjnn_constant(0));
	tjnn_param(w, "b", &p->b, TJ_SHAPE(3), tjnn_constant(0));
}

static tj_tensor *made(tj_ctx *c, tj_dtype dtype, tj_dims shape, int salt, bool positive)
{
	double v[12];
	for (int i = 0; i < 12; i++) v[i] = positive ? fabs(value(i, salt)) : value(i, salt);
	tj_tensor *t = tj_cast(tj_from_data(c, TJ_F64, shape, v), dtype);
	return positive ? tj_add(t, tj_f(0.1)) : t;
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	problem *p = self;
	tj_tensor *of[2] = { p->p.w, p->p.b }, *loss = NULL;
	(void)in;
	for (int i = 0; i < 2; i++) {
		tj_tensor *one = tj_add(tj_sum(tj_mul(p->k[i], tj_square(tj_sub(of[i], p->q[i]))), TJ_ALL, false),
		                        tj_sum(tj_sin(of[i]), TJ_ALL, false));
		loss = loss ? tj_add(loss, one) : one;
	}
	tjnn_optim_step(p->optim, loss);
	out[0] = loss;
}

/* The two sums that are recorded. */
static void sums(problem *p, double *out)
{
	double v[15];
	tj_read(tj_cast(p->p.w, TJ_F64), v, 12 * sizeof *v);
	tj_read(tj_cast(p->p.b, TJ_F64), v + 12, 3 * sizeof *v);
	out[0] = out[1] = 0;
	for (int i = 0; i < 15; i++) {
		out[0] += v[i] * (i + 1);
		out[1] += v[i] * v[i] / (i + 1);
	}
}

static problem *open_problem(tj_ctx *c, tj_dtype dtype, tjnn_model **m)
{
	problem *p = calloc(1, sizeof *p);
	*m = tjnn_open(c, layers, &p->p, TJ_OPTS(tjnn_open_opts, .dtype = dtype));
	assert_non_null(*m);
	tj_assign(p->p.w, made(c, dtype, TJ_SHAPE(3, 4), 1, false));
	tj_assign(p->p.b, made(c, dtype, TJ_SHAPE(3), 2, false));
	for (int i = 0; i < 2; i++) {
		p->k[i] = tj_retain(made(c, dtype, i ? TJ_SHAPE(3) : TJ_SHAPE(3, 4), 3 + i, true));
		p->q[i] = tj_retain(made(c, dtype, i ? TJ_SHAPE(3) : TJ_SHAPE(3, 4), 5 + i, false));
	}
	return p;
}

static tj_fn *compiled(tj_ctx *c, problem *p, tj_mode mode)
{
	return tj_compile(c, step, p,
	                  TJ_OPTS(tj_compile_opts, .name = "step", .nout = 1, .mode = mode, .state = tjnn_optim_vars(p->optim)));
}

/* thaws: w is frozen at first, and changes that at every fifth step. */
static void compare(const char *name, tj_dtype dtype, tjnn_rule rule, const tjnn_optim_opts *opts, const double *want, tj_mode mode,
                    bool thaws)
{
	const double bound = dtype == TJ_F64 ? 1e-12 : 4e-6;
	const int64_t turns = opts && opts->accumulate ? opts->accumulate : 1;
	tj_ctx *c = kit_open();
	tjnn_model *m;
	problem *p = open_problem(c, dtype, &m);
	if (thaws) tjnn_freeze(m, "w", true);
	p->optim = tjnn_optim_open(m, rule, opts);
	kit_ok(c);
	tj_fn *f = compiled(c, p, mode);
	for (int i = 0; i < STEPS; i++) {
		double got[2];
		if (thaws && i && i % 5 == 0) {
			assert_int_equal(tjnn_freeze(m, "w", i % 10 == 0), 1);
			f = compiled(c, p, mode);
		}
		for (int64_t k = 0; k < turns; k++) tj_call1(f, TJ_NONE);
		kit_ok(c);
		sums(p, got);
		for (int k = 0; k < 2; k++)
			if (!(fabs(got[k] - want[2 * i + k]) <= bound * (1 + fabs(want[2 * i + k]))))
				fail_msg("%s, %s, step %d: %.17g, PyTorch's %.17g", name, tj_dtype_name(dtype), i + 1, got[k],
				         want[2 * i + k]);
	}
	assert_int_equal(tjnn_optim_steps(p->optim), STEPS);
	tjnn_optim_close(p->optim);
	tjnn_close(m);
	free(p);
	tj_close(c);
}

#define COMPARE(name, rule, opts) \
	compare(#name, TJ_F64, rule, opts, f64_##name, TJ_DIRECT, false), \
		compare(#name, TJ_F32, rule, opts, f32_##name, TJ_VERIFY, false)
#define COMPARE_THAWS(name, rule) \
	compare(#name, TJ_F64, rule, NULL, f64_##name, TJ_DIRECT, true), compare(#name, TJ_F32, rule, NULL, f32_##name, TJ_VERIFY, true)

static void test_rules(void **state)
{
	(void)state;
	tjnn_rule r = tjnn_sgd(0.05);
	COMPARE(sgd, r, NULL);
	r.momentum = 0.9, r.dampening = 0.3, r.weight_decay = 0.02;
	COMPARE(sgd_momentum, r, NULL);
	r.dampening = r.weight_decay = 0, r.nesterov = true;
	COMPARE(sgd_nesterov, r, NULL);
	r = tjnn_adam(0.05), r.weight_decay = 0.02;
	COMPARE(adam, r, NULL);
	r = tjnn_adam(0.05), r.amsgrad = true;
	COMPARE(adam_amsgrad, r, NULL);
	COMPARE(adamw, tjnn_adamw(0.05), NULL);
	r = tjnn_adamw(0.05), r.maximize = true;
	COMPARE(adamw_maximize, r, NULL);
	r = tjnn_adamax(0.05), r.weight_decay = 0.02;
	COMPARE(adamax, r, NULL);
	r = tjnn_nadam(0.05), r.weight_decay = 0.02;
	COMPARE(nadam, r, NULL);
	r.decoupled = true;
	COMPARE(nadam_decoupled, r, NULL);
	COMPARE(rmsprop, tjnn_rmsprop(0.05), NULL);
	r = tjnn_rmsprop(0.05), r.momentum = 0.8, r.centered = true, r.weight_decay = 0.02;
	COMPARE(rmsprop_all, r, NULL);
	r = tjnn_adagrad(0.1), r.lr_decay = 0.1, r.initial = 0.2;
	COMPARE(adagrad, r, NULL);
	COMPARE(adadelta, tjnn_adadelta(1), NULL);
	COMPARE(lion, tjnn_lion(0.01), NULL);
	COMPARE(muon, tjnn_muon(0.02), NULL);
}

static void test_options(void **state)
{
	(void)state;
	tjnn_rule small = tjnn_adamw(0.01);
	small.weight_decay = 0;
	COMPARE(clipped, tjnn_sgd(0.05), TJ_OPTS(tjnn_optim_opts, .clip_norm = 0.5));
	COMPARE(accumulated, tjnn_adamw(0.05), TJ_OPTS(tjnn_optim_opts, .accumulate = 3));
	COMPARE(groups, tjnn_adamw(0.05), TJ_OPTS(tjnn_optim_opts, .groups = (const tjnn_group[]){ { .pattern = "b", .rule = small }, { 0 } }));
}

static void test_thaws(void **state)
{
	(void)state;
	tjnn_rule r = tjnn_sgd(0.05);
	r.momentum = 0.9;
	COMPARE_THAWS(thaw_sgd, r);
	COMPARE_THAWS(thaw_adamw, tjnn_adamw(0.05));
	r = tjnn_adagrad(0.1), r.lr_decay = 0.1;
	COMPARE_THAWS(thaw_adagrad, r);
	COMPARE_THAWS(thaw_nadam, tjnn_nadam(0.05));
}

static void rates(const char *name, tjnn_schedule s, const double *want)
{
	for (int i = 0; i < RATES; i++) {
		const double got = tjnn_schedule_at(&s, 0.1, i);
		if (!(fabs(got - want[i]) <= 1e-12 * (1e-3 + fabs(want[i]))))
			fail_msg("%s, step %d: %.17g, PyTorch's %.17g", name, i, got, want[i]);
	}
}

static void test_schedules(void **state)
{
	(void)state;
	tjnn_schedule warm = tjnn_cosine(40, 0.002);
	warm.warmup = 10, warm.warmup_from = 0.1;
	rates("constant", tjnn_factor(1. / 3, 5), rate_constant);
	rates("step", tjnn_steps(7, 0.5), rate_step);
	rates("milestones", tjnn_milestones((const int64_t[]){ 3, 11, 40 }, 3, 0.3), rate_milestones);
	rates("exponential", tjnn_exponential(0.97), rate_exponential);
	rates("cosine", tjnn_cosine(40, 0.002), rate_cosine);
	rates("restarts", tjnn_restarts(8, 2, 0.002), rate_restarts);
	rates("linear", tjnn_linear_from(1. / 3, 1, 25), rate_linear);
	rates("polynomial", tjnn_polynomial(50, 2), rate_polynomial);
	rates("one_cycle", tjnn_one_cycle(60), rate_one_cycle);
	rates("warm_cosine", warm, rate_warm_cosine);
	assert_true(tjnn_schedule_at(&(tjnn_schedule){ .kind = TJNN_RATE_KEEP }, 0.1, 7) == 0.1);
}

static void test_plateau(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tjnn_model *m;
	problem *p = open_problem(c, TJ_F32, &m);
	p->optim = tjnn_optim_open(m, tjnn_sgd(0.1), NULL);
	tjnn_plateau at = { .factor = 0.5, .patience = 3, .cooldown = 2 };
	for (int i = 0; i < RATES; i++) {
		assert_int_equal(tjnn_plateau_look(&at, p->optim, i < 30 ? 1. / (1 + (i < 7 ? i : 7)) : .12 - .0001 * (i % 5)), TJ_OK);
		assert_true(fabs(tjnn_optim_rate(p->optim, -1) - rate_plateau[i]) < 1e-15);
	}
	assert_int_equal(tjnn_plateau_look(&at, p->optim, NAN), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "NaN");
	tjnn_close(m);
	tjnn_optim_close(p->optim);
	free(p);
	tj_close(c);
}

/* Rosenbrock's valley, in 6 dimensions; the minimum is at 1. */
static void valley(tj_tensor **out, tj_tensor *const *in, void *self)
{
	problem *p = self;
	(void)in;
	tj_tensor *x = tj_slice(tj_flatten(p->p.w, 0, -1), 0, 0, 5, 1), *y = tj_slice(tj_flatten(p->p.w, 0, -1), 0, 1, 6, 1);
	tj_tensor *sum = tj_add(tj_mul(tj_f(100), tj_square(tj_sub(y, tj_square(x)))), tj_square(tj_sub(tj_f(1), x)));
	out[0] = tj_add(tj_sum(sum, TJ_ALL, false), tj_sum(tj_square(p->p.b), TJ_ALL, false));
}

static void plain(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, out[0] = ((problem *)self)->p.w; }

static void test_lbfgs(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tjnn_model *m;
	problem *p = open_problem(c, TJ_F64, &m);
	double w[12];
	tj_assign(p->p.w, tj_full(TJ_F64, TJ_SHAPE(3, 4), tj_f(-0.7)));
	tjnn_lbfgs *o = tjnn_lbfgs_open(m, valley, p, 0, TJ_OPTS(tjnn_lbfgs_opts, .iterations = 100, .history = 10));
	assert_non_null(o);
	assert_true(tjnn_lbfgs_step(o, TJ_NONE) < 1e-9); /* PyTorch's: 1.1e-11, 61 evaluations */
	assert_true(tjnn_lbfgs_evaluations(o) < 80);
	const double loss = tjnn_lbfgs_step(o, TJ_NONE);
	if (!(loss < 1e-12)) fail_msg("loss %g after %d", loss, (int)tjnn_lbfgs_evaluations(o));
	tj_read(p->p.w, w, sizeof w);
	for (int i = 0; i < 6; i++) assert_true(fabs(w[i] - 1) < 1e-6);
	for (int i = 6; i < 12; i++) assert_true(w[i] == -0.7);
	assert_true(isnan(tjnn_lbfgs_step(o, TJ_LIST(p->p.w))));
	kit_error(c, TJ_ERR_ARG, "1 arguments, 0 are needed");
	tjnn_lbfgs_close(o);
	o = tjnn_lbfgs_open(m, plain, p, 0, NULL); /* its result has twelve elements */
	assert_true(isnan(tjnn_lbfgs_step(o, TJ_NONE)));
	kit_error(c, TJ_ERR_SHAPE, "no cotangent");
	assert_non_null(strstr(tj_last_error(c)->site, "test_optim.c:"));
	tjnn_lbfgs_close(o);
	assert_null(tjnn_lbfgs_open(m, plain, p, 0, TJ_OPTS(tjnn_lbfgs_opts, .lr = NAN)));
	kit_error(c, TJ_ERR_ARG, "the rate");
	tjnn_close(m);
	free(p);
	tj_close(c);
}

/* The averages take the place of the parameters and go back; the first one is the parameter itself. */
static void test_averages(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tjnn_model *m;
	problem *p = open_problem(c, TJ_F64, &m);
	p->optim = tjnn_optim_open(m, tjnn_sgd(0.05), TJ_OPTS(tjnn_optim_opts, .ema = 0.9, .clip_value = 0.5));
	tj_fn *f = kit_fn(c, "step", step, p, 0, 1);
	double mean[12], w[12], got[12];
	for (int i = 0; i < 5; i++) {
		tj_call1(f, TJ_NONE);
		tj_read(p->p.w, w, sizeof w);
		for (int k = 0; k < 12; k++) mean[k] = i ? mean[k] + (w[k] - mean[k]) * (1 - 0.9) : w[k];
	}
	assert_int_equal(tjnn_optim_swap(p->optim), TJ_OK);
	tj_read(p->p.w, got, sizeof got);
	for (int k = 0; k < 12; k++) assert_true(fabs(got[k] - mean[k]) < 1e-14);
	kit_ok(c);
	tj_call1(f, TJ_NONE);
	kit_error(c, TJ_ERR_STATE, "averages are in place");
	assert_int_equal(tjnn_optim_swap(p->optim), TJ_OK);
	tj_read(p->p.w, got, sizeof got);
	assert_memory_equal(got, w, sizeof w);
	kit_ok(c);
	tjnn_optim_close(p->optim);
	tjnn_close(m);
	free(p);
	tj_close(c);
}

static void test_errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tjnn_model *m;
	problem *p = open_problem(c, TJ_F32, &m);
	tjnn_rule bad = tjnn_sgd(-1);
	assert_null(tjnn_optim_open(m, bad, NULL));
	kit_error(c, TJ_ERR_ARG, "0 or more");
	bad = tjnn_sgd(0.1), bad.nesterov = true;
	assert_null(tjnn_optim_open(m, bad, NULL));
	kit_error(c, TJ_ERR_ARG, "nesterov");
	p->optim = tjnn_optim_open(m, tjnn_sgd(0.1), NULL);
	assert_null(tjnn_optim_open(m, tjnn_sgd(0.1), NULL));
	kit_error(c, TJ_ERR_ARG, "has an optimiser already");
	assert_int_equal(tjnn_optim_set_rate(p->optim, 0, 1), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "no such group");
	const tjnn_schedule turns = tjnn_exponential(-5);
	assert_int_equal(tjnn_schedule_set(&turns, p->optim, 1), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "a rate of -0.5 at step 1");
	assert_true(tjnn_optim_rate(p->optim, -1) == 0.1);
	assert_int_equal(tjnn_optim_swap(p->optim), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "no averages");
	assert_int_equal(tjnn_optim_update(p->optim, TJ_LIST(p->p.w)), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "1 gradients for 2");
	tjnn_optim_close(p->optim);
	tjnn_close(m);
	free(p);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),   cmocka_unit_test(test_options), cmocka_unit_test(test_thaws),  cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_plateau), cmocka_unit_test(test_averages), cmocka_unit_test(test_lbfgs),
		cmocka_unit_test(test_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
