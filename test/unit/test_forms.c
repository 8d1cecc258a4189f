/* SPDX-License-Identifier: MIT */
/* Direct mode at sizes that were not met before: the events of other sizes are asked for again where that is sound, and the body runs
 * where it is not. Values are always those of the ops outside of a function. */
#include "test/kit.h"

typedef struct job {
	int runs;                /* of the body */
	int rows;                /* what a body captures */
	float threshold;
	tj_tensor *w;
} job;

/* Calls f at [m,n] and compares with the body run op by op. True: the call did not run the body. */
static bool skips(tj_ctx *c, tj_fn *f, tj_body *body, job *j, int64_t m, int64_t n, const tj_scalar *scalars)
{
	float v[64 * 64];
	tj_scope *s = tj_push(c);
	for (int64_t i = 0; i < m * n; i++) v[i] = (float)((i * 7 + m) % 13) * 0.25f - 1;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(m, n), v), *y, *want, *in[] = { x, TJ_END };
	const int runs = j->runs;
	if (tj_call_ex(f, &y, in, scalars) != TJ_OK) kit_ok(c);
	const bool skipped = j->runs == runs;
	if (!scalars) {
		body(&want, in, j);
		j->runs--;
		assert_int_equal(tj_numel(y), tj_numel(want));
		assert_memory_equal(tj_data(y), tj_data(want), (size_t)tj_numel(want) * sizeof(float));
	}
	kit_ok(c);
	tj_pop(s);
	return skipped;
}

static tj_fn *direct(tj_ctx *c, tj_body *body, job *j)
{
	tj_fn *f = tj_compile(c, body, j, TJ_OPTS(tj_compile_opts, .name = "form", .nin = 1, .nout = 1, .mode = TJ_DIRECT,
	                                          .shapes = "x: f32[B,S]", .state = TJ_VARS(&j->w)));
	assert_non_null(f);
	return f;
}

/* ---- no size is asked for ---- */
static void blind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	tj_tensor *h = tj_mul(tj_softmax(in[0], -1), tj_add(in[0], tj_f(1)));
	out[0] = tj_add(tj_sum(h, TJ_AXES(-1), true), j->w);
}

static void no_size_is_asked(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 0.5f) };
	tj_fn *f = direct(c, blind, &j);
	int skipped = 0;
	for (int64_t m = 2; m < 8; m++)
		for (int64_t n = 2; n < 9; n++) skipped += skips(c, f, blind, &j, m, n, NULL);
	assert_int_equal(skipped, 6 * 7 - 3); /* three sizes prove it */
	assert_int_equal(j.runs, 3);
	tj_stats st = kit_stats(f);
	assert_true(st.replayed == 39 && st.recordings == 42 && st.direct == 0);
	assert_true(skips(c, f, blind, &j, 5, 5, NULL)); /* it has a path of its own now */
	assert_int_equal(kit_stats(f).direct, 1);
	assert_true(skips(c, f, blind, &j, 1, 1, NULL) && skips(c, f, blind, &j, 1, 9, NULL));
	tj_close(c);
}

/* Other dtypes and strides are other signatures: what holds for one is not taken for the other. */
static void another_signature(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 0.5f) };
	tj_fn *f = tj_compile(c, blind, &j, TJ_OPTS(tj_compile_opts, .name = "two", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .shapes = "x: [B,S]",
	                                            .state = TJ_VARS(&j.w)));
	for (int64_t n = 2; n < 8; n++) skips(c, f, blind, &j, 3, n, NULL);
	assert_int_equal(j.runs, 3);
	const double v[] = { 1, 2, 3, 4, 5, 6 };
	tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 3), v)));
	assert_int_equal(j.runs, 4);
	assert_int_equal(tj_dtype_of(y), TJ_F64);
	tj_close(c);
}

/* ---- a size is asked for ---- */
static void asks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	((job *)self)->runs++;
	const int64_t n = tj_dim(in[0], 1);
	out[0] = tj_slice(in[0], 1, n / 2, n, 1);
}

static void counts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	((job *)self)->runs++;
	out[0] = tj_numel(in[0]) > 30 ? tj_exp(in[0]) : tj_neg(in[0]);
}

static void a_size_is_asked(void **s)
{
	(void)s;
	tj_body *const bodies[] = { asks, counts };
	for (int b = 0; b < 2; b++) {
		tj_ctx *c = kit_open();
		job j = { .w = kit_param(c, 1) };
		tj_fn *f = direct(c, bodies[b], &j);
		for (int64_t n = 2; n < 24; n++) assert_false(skips(c, f, bodies[b], &j, 3, n, NULL));
		assert_int_equal(kit_stats(f).replayed, 0);
		tj_close(c);
	}
}

/* ---- an attribute from a variable that the caller sets beside the sizes ---- */
static void captures(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	out[0] = tj_reshape(in[0], TJ_SHAPE(-1, j->rows));
}

static void an_attribute_is_captured(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 1) };
	tj_fn *f = direct(c, captures, &j);
	for (int64_t m = 2; m < 20; m++) {
		j.rows = (int)m;
		assert_false(skips(c, f, captures, &j, m, 6, NULL));
	}
	tj_close(c);
}

/* ---- a branch is no form ---- */
static void branches(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	tj_tensor *at, *h = tj_mul(in[0], tj_f(2));
	if (tj_truth(tj_gt(tj_sum(h, TJ_ALL, false), j->w))) out[0] = tj_exp(h);
	else {
		tj_tensor *sorted = tj_sort(h, 1, false, &at);
		out[0] = tj_add(sorted, tj_cast(at, TJ_F32));
	}
}

static void a_new_way(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, -1e9f) };
	tj_fn *f = direct(c, branches, &j);
	const float high = 1e9f;
	for (int64_t n = 2; n < 9; n++) assert_false(skips(c, f, branches, &j, 3, n, NULL));
	tj_write(j.w, &high, sizeof high); /* now the other way, at sizes with a path and at new ones */
	for (int64_t n = 4; n < 16; n++) skips(c, f, branches, &j, 3, n, NULL);
	assert_int_equal(kit_stats(f).replayed, 0);
	assert_int_equal(kit_stats(f).failures, 0);
	tj_close(c);
}

/* ---- the state is a part of the key: a number in it, which cells are the same, its sizes ---- */
static void scaled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	out[0] = tj_mul(in[0], j->w);
}

static void the_state_changes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const float w[] = { 1, 2, 3, 4, 5, 6 };
	job j = { .w = tj_f(0.5) };
	tj_fn *f = direct(c, scaled, &j);
	for (int64_t n = 2; n < 8; n++) skips(c, f, scaled, &j, 3, n, NULL);
	assert_true(kit_stats(f).replayed == 3);
	j.w = tj_f(0.25); /* the values are compared */
	for (int64_t n = 4; n < 16; n++) skips(c, f, scaled, &j, 3, n, NULL);
	j.w = tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 1), w));
	for (int64_t n = 4; n < 16; n++) skips(c, f, scaled, &j, 3, n, NULL);
	tj_close(c);
}

static void two_cells(tj_tensor **out, tj_tensor *const *in, void *self)
{
	((job *)self)->runs++;
	out[0] = tj_add(tj_mul(in[0], tj_f(3)), tj_mul(in[1], in[1]));
}

static void which_cells_are_the_same(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 1) };
	tj_fn *f = tj_compile(c, two_cells, &j, TJ_OPTS(tj_compile_opts, .name = "cells", .nin = 2, .nout = 1, .mode = TJ_DIRECT,
	                                                .shapes = "a: f32[B], b: f32[B]"));
	for (int64_t n = 2; n < 12; n++) {
		tj_tensor *a = tj_param(c, TJ_F32, TJ_SHAPE(n)), *b = n < 7 ? a : tj_param(c, TJ_F32, TJ_SHAPE(n));
		float v[12];
		for (int i = 0; i < 12; i++) v[i] = 2;
		tj_write(b, v, (size_t)n * sizeof *v);
		for (int i = 0; i < 12; i++) v[i] = 1;
		if (n >= 7) tj_write(a, v, (size_t)n * sizeof *v);
		const float *y = tj_data(tj_call1(f, TJ_LIST(a, b)));
		for (int64_t i = 0; i < n; i++) assert_true(y[i] == (n < 7 ? 10 : 7));
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- other ways to see a size: of a cell, by whether a nested call fails ---- */
static void of_a_cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	((job *)self)->runs++;
	out[0] = tj_dim(in[0], 0) > 6 ? tj_exp(in[0]) : tj_neg(in[0]);
}

static void a_cell_has_sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 1) };
	tj_fn *f = tj_compile(c, of_a_cell, &j,
	                      TJ_OPTS(tj_compile_opts, .name = "cell", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .shapes = "a: f32[B]"));
	for (int64_t n = 2; n < 12; n++) {
		const float *y = tj_data(tj_call1(f, TJ_LIST(tj_param(c, TJ_F32, TJ_SHAPE(n)))));
		assert_true(n > 6 ? y[0] == 1 : y[0] == 0);
	}
	kit_ok(c);
	tj_close(c);
}

static void pairs(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_reshape(in[0], TJ_SHAPE(-1, 2));
}

static void falls_back(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	tj_tensor *half = NULL;
	tj_fn *g = (tj_fn *)(void *)j->w;
	if (tj_call(g, &half, TJ_LIST(in[0])) == TJ_OK) out[0] = tj_exp(half);
	else out[0] = tj_neg(in[0]);
	tj_check(tj_ctx_current());
}

static void a_nested_call_fails(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const float v[16] = { 0 };
	tj_fn *g = tj_compile(c, pairs, NULL, TJ_OPTS(tj_compile_opts, .name = "pairs", .nin = 1, .nout = 1));
	job j = { .w = (tj_tensor *)(void *)g };
	tj_fn *f = tj_compile(c, falls_back, &j,
	                      TJ_OPTS(tj_compile_opts, .name = "falls", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .shapes = "x: f32[S]"));
	static const int64_t sizes[] = { 3, 5, 7, 9, 11, 8, 6 };
	for (int i = 0; i < 7; i++) {
		tj_tensor *y = NULL;
		tj_call(f, &y, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(sizes[i]), v)));
		if (tj_check(c) == TJ_OK) assert_true(*(const float *)tj_data(y) == (sizes[i] % 2 ? 0 : 1));
	}
	assert_int_equal(j.runs, 7);
	tj_close(c);
}

/* ---- numbers: constants, scalars of the call, what is computed of them; random numbers ---- */
static void numbers(tj_tensor **out, tj_tensor *const *in, void *self)
{
	((job *)self)->runs++;
	tj_tensor *a = tj_arg_f(0), *twice = tj_mul(a, tj_f(2));
	out[0] = tj_add(tj_mul(in[0], tj_add(twice, a)), tj_mul(tj_uniform(TJ_F32, TJ_0D), tj_f(0)));
}

static void numbers_are_those_of_the_call(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 1) };
	tj_fn *f = direct(c, numbers, &j);
	for (int i = 0; i < 9; i++) {
		const float v[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
		tj_scope *sc = tj_push(c);
		tj_tensor *y, *x = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1 + i), v);
		for (int again = 0; again < 2; again++) { /* the second time by a path of its own */
			assert_int_equal(tj_call_ex(f, &y, TJ_LIST(x), TJ_SCALARS(TJ_F(0.5 + i + again))), TJ_OK);
			const float *got = tj_data(y);
			for (int k = 0; k <= i; k++) assert_true(got[k] == v[k] * 3 * (0.5f + (float)(i + again)));
		}
		tj_pop(sc);
	}
	kit_ok(c);
	assert_true(j.runs == 3);
	tj_close(c);
}

/* ---- errors are those of the body, at its line ---- */
static void meets(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->runs++;
	out[0] = tj_add(in[0], j->w);
}

static void errors_are_told(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const float w[] = { 1, 2, 3, 4, 5, 6 };
	job j = { .w = tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(4, 1), w)) };
	tj_fn *f = direct(c, meets, &j);
	for (int64_t n = 2; n < 7; n++) skips(c, f, meets, &j, 4, n, NULL);
	assert_int_equal(j.runs, 3);
	tj_tensor *y = NULL, *x = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 2), w);
	assert_int_equal(tj_call(f, &y, TJ_LIST(x)), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "[3,2]");
	assert_int_equal(j.runs, 4); /* the body may handle the error */
	assert_true(skips(c, f, meets, &j, 4, 9, NULL)); /* all goes on */
	tj_close(c);
}

/* A size that had to go comes again without its body, too. */
static void forgotten(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	job j = { .w = kit_param(c, 0.5f) };
	tj_fn *f = tj_compile(c, blind, &j, TJ_OPTS(tj_compile_opts, .name = "few", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .max_entries = 1,
	                                            .shapes = "x: f32[B,S]", .state = TJ_VARS(&j.w)));
	for (int turn = 0; turn < 3; turn++)
		for (int64_t n = 2; n < 60; n++) skips(c, f, blind, &j, 2, n, NULL);
	assert_true(j.runs <= 4 && kit_stats(f).evictions > 100);
	tj_close(c);
}

int main(void)
{
	unsetenv("TJ_AUDIT"); /* it runs bodies */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_size_is_asked),
		cmocka_unit_test(another_signature),
		cmocka_unit_test(a_size_is_asked),
		cmocka_unit_test(an_attribute_is_captured),
		cmocka_unit_test(a_new_way),
		cmocka_unit_test(the_state_changes),
		cmocka_unit_test(which_cells_are_the_same),
		cmocka_unit_test(a_cell_has_sizes),
		cmocka_unit_test(a_nested_call_fails),
		cmocka_unit_test(numbers_are_those_of_the_call),
		cmocka_unit_test(errors_are_told),
		cmocka_unit_test(forgotten),
	};
	KIT_RUN(tests);
}
