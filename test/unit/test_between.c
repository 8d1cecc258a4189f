/* SPDX-License-Identifier: MIT */
/* tj_trace_begin(), tj_trace_end(): what stands between two lines is like the body of a function. */
#include "test/kit.h"

/* A step of gradient descent on (w x - y)^2, x = 1, 2, 3; y = 2 x. */
static float descend(tj_ctx *c, tj_tensor *w, tj_fn **f, int lines)
{
	tj_scope *s = tj_push(c);
	tj_tensor *x = F32(c, 1, 2, 3), *y = F32(c, 2, 4, 6), *g;
	tj_fn *made;
	if (lines) made = tj_trace_begin(c, NULL);
	else made = tj_trace_begin(c, TJ_OPTS(tj_compile_opts, .name = "step"));
	if (f) *f = made;
	assert_non_null(made);
	tj_tensor *loss = tj_mean(tj_square(tj_sub(tj_mul(w, x), y)), TJ_ALL, false);
	assert_int_equal(tj_grad(&g, loss, TJ_LIST(w), NULL), TJ_OK);
	assert_int_equal(tj_assign(w, tj_sub(w, tj_mul(g, tj_f(0.05)))), TJ_OK);
	assert_int_equal(tj_trace_end(c, &loss, 1), TJ_OK);
	const float v = (float)tj_item(loss);
	tj_pop(s);
	return v;
}

static void steps(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 0);
	tj_fn *f = NULL, *again = NULL;
	double want = 0;
	for (int i = 0; i < 20; i++) {
		const double loss = (want - 2) * (want - 2) * 14 / 3;
		const float got = descend(c, w, i ? &again : &f, 0);
		assert_true(got - loss < 1e-4 && loss - got < 1e-4);
		want -= 0.05 * 2 * (want - 2) * 14 / 3;
		if (i) assert_ptr_equal(f, again);
	}
	assert_true(tj_item(w) > 1.99 && tj_item(w) < 2.01);
	const tj_stats s = kit_stats(f);
	assert_int_equal(s.calls, 20);
	assert_int_equal(s.hits, 19);
	assert_int_equal(s.recordings, 1);
	descend(c, w, &again, 1);
	assert_ptr_not_equal(f, again);
	kit_ok(c);
	tj_close(c);
}

/* Kept values go on existing, others end; a kept cell is its value; a kept number stays. Outer scopes can be popped afterwards, not inside.
 */
static void lifetimes(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3), *x = F32(c, 1, 2);
	tj_scope *outer = tj_push(c);
	tj_trace_begin(c, NULL);
	tj_tensor *y = tj_add(x, tj_f(1)), *z = tj_mul(y, tj_f(2)), *keep[] = { y, w, tj_f(7), x };
	tj_pop(outer);
	kit_error(c, TJ_ERR_STATE, "");
	assert_int_equal(tj_trace_end(c, keep, 4), TJ_ERR_STATE);
	(void)tj_check(c);
	tj_trace_begin(c, NULL);
	keep[0] = tj_add(x, tj_f(1)), keep[1] = w, keep[2] = tj_f(7), keep[3] = x;
	z = tj_mul(keep[0], tj_f(2));
	tj_assign(w, tj_f(4));
	assert_int_equal(tj_trace_end(c, keep, 4), TJ_OK);
	assert_f32(keep[0], 2, 3);
	assert_f32(keep[1], 4);
	assert_true(tj_item(keep[2]) == 7);
	assert_f32(keep[3], 1, 2);
	assert_f32(w, 4);
	(void)tj_read(z, (float[2]){ 0 }, 8);
	kit_error(c, TJ_ERR_DEAD, "");
	tj_write(w, (float[]){ 5 }, 4);
	assert_f32(keep[1], 4);
	tj_pop(outer);
	kit_ok(c);
	tj_close(c);
}

static void other(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], in[0]); }
static void opens(tj_tensor **out, tj_tensor *const *in, void *self)
{
	assert_null(tj_trace_begin(self, NULL));
	out[0] = in[0];
}
static void closes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	assert_int_equal(tj_trace_end(self, NULL, 0), TJ_ERR_STATE);
	out[0] = in[0];
}

/* C may read values, branch and call functions; random numbers go on. */
static void as_in_a_body(void **state)
{
	(void)state;
	tj_ctx *c = kit_open(), *d = kit_open();
	tj_ctx_use(c);
	tj_fn *f = kit_fn(c, "square", other, NULL, 1, 1);
	for (int i = 0; i < 6; i++) {
		tj_tensor *x = F32(c, (float)i), *y, *g;
		tj_trace_begin(c, NULL);
		y = tj_call1(f, TJ_LIST(x));
		if (tj_truth(tj_gt(x, tj_f(2.5)))) y = tj_neg(y);
		for (int k = (int)tj_item(x); k > 3; k--) y = tj_mul(y, tj_f(2));
		assert_int_equal(tj_grad(&g, tj_sum(y, TJ_ALL, false), TJ_LIST(x), NULL), TJ_OK);
		tj_tensor *r = tj_uniform(TJ_F32, TJ_SHAPE(3)), *keep[] = { y, g, r };
		assert_int_equal(tj_trace_end(c, keep, 3), TJ_OK);
		const float scale = i < 3 ? 1 : i == 3 ? -1 : i == 4 ? -2 : -4;
		assert_f32(keep[0], scale * (float)(i * i));
		assert_f32(keep[1], scale * 2 * (float)i);
		tj_ctx_use(d);
		float a[3], b[3];
		tj_read(tj_uniform(TJ_F32, TJ_SHAPE(3)), a, sizeof a);
		tj_ctx_use(c);
		tj_read(keep[2], b, sizeof b);
		assert_memory_equal(a, b, sizeof a);
	}
	assert_int_equal(kit_stats(f).nested, 6);
	kit_ok(c);
	tj_close(d);
	tj_close(c);
}

static void errors(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3), *x = F32(c, 1, 2), *keep[1] = { x };
	assert_int_equal(tj_trace_end(c, NULL, 0), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "no trace is open");
	assert_non_null(tj_trace_begin(c, NULL));
	assert_null(tj_trace_begin(c, NULL));
	kit_error(c, TJ_ERR_STATE, "a trace is open since");
	tj_assign(w, tj_f(9));
	assert_int_equal(tj_trace_end(c, NULL, 0), TJ_ERR_STATE); /* the error was inside */
	(void)tj_check(c);
	assert_f32(w, 3);
	tj_trace_begin(c, NULL);
	assert_int_equal(tj_write(w, (float[]){ 1 }, 4), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "not allowed in a body");
	(void)tj_trace_end(c, NULL, 0);
	(void)tj_check(c);
	tj_trace_begin(c, NULL);
	tj_assign(w, tj_f(9));
	keep[0] = tj_matmul(x, F32(c, 1, 2, 3));
	assert_int_equal(tj_trace_end(c, keep, 1), TJ_ERR_SHAPE);
	assert_true(tj_is_poison(keep[0]));
	kit_error(c, TJ_ERR_SHAPE, "inner dimensions");
	assert_f32(w, 3);
	tj_fn *of_line = tj_trace_begin(c, NULL);
	assert_int_equal(tj_trace_end(c, NULL, -1), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "keep is NULL");
	tj_fn_free(of_line);
	kit_error(c, TJ_ERR_STATE, "stands for a line");
	for (int i = 0; i < 2; i++) {
		assert_non_null(tj_trace_begin(c, NULL)); /* not ended the first time */
		tj_assign(w, tj_f(8));
		if (i) assert_int_equal(tj_trace_end(c, NULL, 0), TJ_OK);
	}
	kit_error(c, TJ_ERR_BODY, "left without");
	assert_f32(w, 8);
	tj_write(w, (float[]){ 3 }, 4);
	tj_trace_begin(c, NULL);
	keep[0] = NULL;
	assert_int_equal(tj_trace_end(c, keep, 1), TJ_ERR_ARG);
	(void)tj_check(c);
	tj_fn *f = kit_fn(c, "opens", opens, c, 1, 1), *g = kit_fn(c, "closes", closes, c, 1, 1);
	assert_true(tj_is_poison(tj_call1(f, TJ_LIST(x))));
	kit_error(c, TJ_ERR_STATE, "a body runs");
	tj_trace_begin(c, NULL);
	assert_true(tj_is_poison(tj_call1(g, TJ_LIST(x))));
	kit_error(c, TJ_ERR_STATE, "no trace is open");
	(void)tj_trace_end(c, NULL, 0);
	(void)tj_check(c);
	assert_f32(tj_neg(x), -1, -2);
	tj_trace_begin(c, NULL);
	tj_assign(w, tj_f(9));
	tj_close(c); /* dropped */
}

/* More lines than are kept: each still works. */
static void many_lines(void **state)
{
	(void)state;
	static char site[200][32];
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 0);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < 200; i++) {
			snprintf(site[i], sizeof site[i], "test_between.c:%d", i);
			assert_non_null(tj_trace_begin_at(site[i], c, NULL));
			tj_assign(w, tj_add(w, tj_f(i)));
			assert_int_equal(tj_trace_end(c, NULL, 0), TJ_OK);
		}
	assert_f32(w, 2 * 199 * 100);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps),  cmocka_unit_test(lifetimes),  cmocka_unit_test(as_in_a_body),
		cmocka_unit_test(errors), cmocka_unit_test(many_lines),
	};
	KIT_RUN(tests);
}
