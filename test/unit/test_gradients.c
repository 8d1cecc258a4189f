/* SPDX-License-Identifier: MIT */
/* tj_grad() in bodies: what it gives, in both modes and on both back ends, and what it refuses. The rules of the ops are tested in
 * test_grad.c. */
#include "test/kit.h"

#include <math.h>

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

static tj_fn *direct(tj_ctx *c, const char *name, tj_body *body, void *self, int nin, int nout)
{
	return tj_compile(c, body, self, TJ_OPTS(tj_compile_opts, .name = name, .nin = nin, .nout = nout, .mode = TJ_DIRECT));
}

/* ---- what it gives ---- */
static void cubed(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *y = total(tj_mul(tj_mul(x, x), x));
	(void)self;
	tj_grad(&out[0], y, TJ_LIST(x), NULL);
	tj_grad(&out[1], total(out[0]), TJ_LIST(x), NULL);
	tj_grad(&out[2], total(out[1]), TJ_LIST(x), NULL);
}

static void three_orders(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = (mode ? direct : kit_fn)(c, "cubed", cubed, NULL, 1, 3);
		for (int call = 0; call < 3; call++) {
			tj_tensor *out[3];
			assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 1, -2, 3))), TJ_OK);
			kit_ok(c);
			assert_f32(out[0], 3, 12, 27);
			assert_f32(out[1], 6, -12, 18);
			assert_f32(out[2], 6, 6, 6);
		}
		tj_close(c);
	}
}

/* A list of several, an inner value among them: its gradient is the whole of what reaches it. */
static void several(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = tj_mul(in[0], in[1]), *y = total(tj_add(tj_mul(h, h), in[0]));
	(void)self;
	tj_grad(out, y, TJ_LIST(in[0], in[1], h), NULL);
}

static void of_several(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[3];
	assert_int_equal(tj_call(kit_fn(c, "several", several, NULL, 2, 3), out, TJ_LIST(F32(c, 1, 2), F32(c, 3, -1))), TJ_OK);
	assert_f32(out[0], 19, 5); /* 2 x w^2 + 1 */
	assert_f32(out[1], 6, -8); /* 2 x^2 w */
	assert_f32(out[2], 6, -4); /* 2 h */
	tj_close(c);
}

/* ---- a tensor is itself: what is equal to it, and what folds into it, is another one ---- */
static void equal(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = tj_full(TJ_F32, TJ_SHAPE(2), tj_f(0)), *b = tj_full(TJ_F32, TJ_SHAPE(2), tj_f(0)), *p = tj_exp(in[0]), *q = tj_exp(in[0]);
	(void)self;
	tj_grad(out, total(tj_add(tj_mul(tj_add(in[0], a), tj_f(10)), tj_add(in[0], b))), TJ_LIST(a, b), NULL);
	tj_grad(out + 2, total(tj_mul(p, tj_square(q))), TJ_LIST(p, q), NULL);
	tj_grad(out + 4, total(p), TJ_LIST(q), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void equal_tensors(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = (mode ? direct : kit_fn)(c, "equal", equal, NULL, 1, 5);
		for (int call = 0; call < 2; call++) {
			tj_tensor *out[5];
			assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 0, 0))), TJ_OK);
			kit_ok(c);
			assert_f32(out[0], 10, 10);
			assert_f32(out[1], 1, 1);
			assert_f32(out[2], 1, 1);
			assert_f32(out[3], 2, 2);
			assert_f32(out[4], 0, 0);
		}
		tj_close(c);
	}
}

/* Views, casts and negations that undo each other, and the value between them; a constant, and what is computed from it. */
static void on_the_way(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *k = self,
		  *way[] = { tj_reshape(x, TJ_SHAPE(1, 3)), tj_neg(x), tj_flip(x, TJ_AXES(0)), tj_cast(x, TJ_F64), tj_unsqueeze(x, 0) };
	tj_tensor *back[] = { tj_reshape(way[0], TJ_SHAPE(3)), tj_neg(way[1]), tj_flip(way[2], TJ_AXES(0)), tj_cast(way[3], TJ_F32),
		              tj_squeeze(way[4], TJ_AXES(0)) };
	for (int i = 0; i < 5; i++) tj_grad(&out[i], total(tj_mul(back[i], tj_square(x))), TJ_LIST(way[i]), NULL);
	tj_grad(&out[5], total(tj_square(k)), TJ_LIST(k), NULL);
	tj_tensor *e = tj_square(k);
	tj_grad(&out[6], total(tj_mul(e, x)), TJ_LIST(e), NULL);
}

static void on_the_way_and_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[7], *k = tj_constant(c, TJ_F32, TJ_SHAPE(3), ((float[]){ 1, 2, 3 }));
	assert_int_equal(tj_call(kit_fn(c, "way", on_the_way, k, 1, 7), out, TJ_LIST(F32(c, 1, 2, 3))), TJ_OK);
	kit_ok(c);
	const double *d = tj_data(out[3]);
	assert_f32(out[0], 1, 4, 9);
	assert_f32(out[1], -1, -4, -9);
	assert_f32(out[2], 9, 4, 1);
	assert_true(d[0] == 1 && d[1] == 4 && d[2] == 9);
	assert_f32(out[4], 1, 4, 9);
	assert_f32(out[5], 2, 4, 6);
	assert_f32(out[6], 1, 2, 3);
	tj_close(c);
}

/* The operand counts as a constant. */
static void stopped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(&out[0], total(tj_mul(in[0], tj_stop_gradient(tj_mul(in[0], in[1])))), TJ_LIST(in[0], in[1]), NULL);
}

static void stop(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[2];
	assert_int_equal(tj_call(kit_fn(c, "stopped", stopped, NULL, 2, 2), out, TJ_LIST(F32(c, 1, 2), F32(c, 5, 7))), TJ_OK);
	kit_ok(c);
	assert_f32(out[0], 5, 14);
	assert_f32(out[1], 0, 0);
	tj_close(c);
}

static void with_cotangent(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, tj_exp(in[0]), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .cotangent = in[1], .add_to = TJ_LIST(in[2])));
}

static void cotangent(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *y = tj_call1(kit_fn(c, "cotangent", with_cotangent, NULL, 3, 1), TJ_LIST(F32(c, 0, 0, 0), F32(c, 1, 2, 3), F32(c, 10, 20, 30)));
	assert_f32(y, 11, 22, 33);
	tj_close(c);
}

/* Three steps of gradient descent in one plan: the loss reads the parameter as it was assigned last. */
static void descends(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *g;
	for (int i = 0; i < 3; i++) {
		tj_grad(&g, out[0] = total(tj_square(tj_sub(w, in[0]))), TJ_LIST(w), NULL);
		tj_assign(w, tj_sub(w, tj_mul(g, tj_f(0.25))));
	}
}

static void descent(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_tensor *w = kit_param(c, 0);
		tj_fn *f = tj_compile(c, descends, w,
		                      TJ_OPTS(tj_compile_opts, .name = "descends", .nin = 1, .nout = 1,
		                              .mode = mode ? TJ_DIRECT : TJ_VERIFY, .state = TJ_VARS(&w)));
		for (int call = 0; call < 3; call++) {
			const float zero = 0;
			tj_write(w, &zero, sizeof zero);
			assert_true(tj_item(tj_call1(f, TJ_LIST(F32(c, 8)))) == 4); /* 64, 16, 4 */
			kit_ok(c);
			assert_true(tj_item(w) == 7);
		}
		assert_int_equal(kit_stats(f).plans, 1);
		tj_close(c);
	}
}

/* Batches of any size share two compiles, as without gradients. */
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, total(tj_tanh(tj_matmul(in[0], in[1]))), TJ_LIST(in[1]), NULL);
}

static void sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "layer", layer, NULL, 2, 1);
	float v[64];
	for (int i = 0; i < 64; i++) v[i] = 0;
	for (int n = 2; n <= 9; n++) {
		tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(n, 3), tj_f(1)), *w = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 2), v);
		const float *g = tj_data(tj_call1(f, TJ_LIST(x, w)));
		for (int i = 0; i < 6; i++) assert_true(g[i] == (float)n);
	}
	kit_ok(c);
	if (strcmp(kit_backend, "eval")) assert_true(kit_stats(f).compiles <= 2);
	tj_close(c);
}

/* ---- control flow ---- */
static void power(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], tj_mul(in[0], self)); }
static void sine(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sin(in[0]); }
static void branches(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *g[2];
	(void)self;
	tj_cond(&y, 1, in[2], power, sine, TJ_LIST(in[0]), in[1]);
	tj_grad(g, total(y), TJ_LIST(in[0], in[1]), NULL);
	tj_grad(&out[2], total(tj_square(g[0])), TJ_LIST(in[0]), NULL);
	out[0] = g[0];
	out[1] = g[1];
}

/* x^2 w, or sin x; w is captured. */
static void through_cond(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "branches", branches, NULL, 3, 3);
	tj_tensor *out[3], *x = F32(c, 0.5f, -2), *w = F32(c, 3, 1);
	for (int turn = 0; turn < 4; turn++) {
		const uint8_t which = turn % 2;
		assert_int_equal(tj_call(f, out, TJ_LIST(x, w, tj_from_data(c, TJ_BOOL, TJ_0D, &which))), TJ_OK);
		kit_ok(c);
		if (which) {
			assert_f32(out[0], 3, -4);
			assert_f32(out[1], 0.25f, 4);
			assert_f32(out[2], 36, -16);
		} else {
			const float *d = tj_data(out[0]);
			assert_true(d[0] > 0.87758f && d[0] < 0.87759f && d[1] < -0.41614f && d[1] > -0.41615f);
			assert_f32(out[1], 0, 0);
		}
	}
	tj_close(c);
}

enum { TURNS = 5, WIDE = 3 };
static void cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_tanh(tj_add(tj_mul(in[0], self), in[1]));
	out[1] = tj_mul(out[0], in[0]);
}

/* The loss, the gradients by state, inputs and the captured weight, and one of second order. */
static void ask_all(tj_tensor **out, tj_tensor *loss, tj_tensor *const *in)
{
	out[0] = loss;
	tj_grad(out + 1, loss, TJ_LIST(in[0], in[1], in[2]), NULL);
	tj_grad(out + 4, total(tj_square(out[3])), TJ_LIST(in[2]), NULL);
}

static void scanned(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h, *ys;
	tj_scan(&h, &ys, 1, cell, TJ_LIST(in[0]), TJ_LIST(in[1]), in[2], TJ_OPTS(tj_scan_opts, .reverse = self != NULL));
	ask_all(out, tj_add(total(tj_square(h)), total(tj_mul(ys, in[1]))), in);
}

static void unrolled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h = in[0], *loss = tj_full(TJ_F64, TJ_0D, tj_f(0));
	for (int64_t i = 0; i < TURNS; i++) {
		const int64_t at = self ? TURNS - 1 - i : i;
		tj_tensor *x = tj_reshape(tj_slice(in[1], 0, at, at + 1, 1), TJ_SHAPE(WIDE)), *y[2];
		cell(y, TJ_LIST(h, x), in[2]);
		loss = tj_add(loss, total(tj_mul(y[1], x)));
		h = y[0];
	}
	ask_all(out, tj_add(loss, total(tj_square(h))), in);
}

static void through_scan(void **s)
{
	(void)s;
	for (int way = 0; way < 2; way++) {
		tj_ctx *c = kit_open();
		double v[WIDE * TURNS];
		for (int i = 0; i < WIDE * TURNS; i++) v[i] = (i * 7 % 11 - 5) / 6.0;
		tj_list in = TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(WIDE), v + 2), tj_from_data(c, TJ_F64, TJ_SHAPE(TURNS, WIDE), v),
		                     tj_from_data(c, TJ_F64, TJ_SHAPE(WIDE), v + 5));
		tj_tensor *a[5], *b[5];
		assert_int_equal(tj_call(kit_fn(c, "scanned", scanned, way ? c : NULL, 3, 5), a, in), TJ_OK);
		assert_int_equal(tj_call(kit_fn(c, "unrolled", unrolled, way ? c : NULL, 3, 5), b, in), TJ_OK);
		kit_ok(c);
		for (int i = 0; i < 5; i++) {
			const double *x = tj_data(a[i]), *y = tj_data(b[i]);
			for (int64_t k = 0; k < tj_numel(a[i]); k++) assert_true(x[k] - y[k] < 1e-12 && y[k] - x[k] < 1e-12);
		}
		tj_close(c);
	}
}

/* A carry that is an integer, a branch within a turn, and no turn at all. */
static void odd_turns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	tj_cond(&y, 1, tj_eq(tj_remainder(in[0], tj_i(2)), tj_i(1)), power, sine, TJ_LIST(in[1]), self);
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = y;
}
static void counted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *carry[2];
	(void)self;
	tj_scan(carry, NULL, 0, odd_turns, TJ_LIST(tj_full(TJ_I64, TJ_0D, tj_i(1)), in[0]), TJ_NONE, in[1],
	        TJ_OPTS(tj_scan_opts, .length = tj_dim(in[2], 0)));
	tj_grad(out, total(carry[1]), TJ_LIST(in[0], in[1]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void integer_carries(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "counted", counted, NULL, 3, 2);
	tj_tensor *out[2], *x = F32(c, 3), *w = F32(c, 2);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, w, F32(c, 0))), TJ_OK); /* one turn: w x^2 */
	assert_f32(out[0], 12);
	assert_f32(out[1], 9);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, w, tj_full(TJ_F32, TJ_SHAPE(0), tj_f(0)))), TJ_OK);
	assert_f32(out[0], 1);
	assert_f32(out[1], 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- boundaries ---- */
/* The value that C reads has no part in the gradient; or it is what is asked for. */
static void independent(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *seen = tj_mul(in[0], tj_f(2)), *x = in[1];
	(void)self;
	if (tj_item(total(seen)) > 0) x = tj_mul(in[1], seen);
	tj_grad(&out[0], total(x), TJ_LIST(in[1]), NULL);
	tj_grad(&out[1], total(tj_square(seen)), TJ_LIST(seen), NULL);
}

static void behind_a_boundary(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[2];
	assert_int_equal(tj_call(kit_fn(c, "independent", independent, NULL, 2, 2), out, TJ_LIST(F32(c, 1, 2), F32(c, 5, 5))), TJ_OK);
	kit_ok(c);
	assert_f32(out[0], 2, 4);
	assert_f32(out[1], 4, 8);
	tj_close(c);
}

/* The sum of the squares of -x, selected: in the same segment as the request, by an argument or a value on the way. */
static void selected(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = self ? tj_mul(in[0], tj_f(3)) : in[0];
	tj_grad(out, total(tj_square(tj_masked_select(tj_neg(x), tj_gt(in[0], tj_f(1.5))))), TJ_LIST(x), NULL);
}

/* x[1,3], m[2,1]: an element is selected as often as the mask, stretched, is true. */
static void selected_wide(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_reshape(in[0], TJ_SHAPE(1, 3)), *mask = tj_ge(tj_reshape(in[1], TJ_SHAPE(2, 1)), tj_f(0)),
		  *y = tj_masked_select(x, mask);
	tj_grad(out, total(tj_mul(y, tj_square(y))), TJ_LIST(in[0]), NULL);
	tj_grad(out + 1, total(out[0]), TJ_LIST(in[0]), NULL);
	out[2] = y;
	tj_tensor *z = tj_add(x, tj_reshape(in[1], TJ_SHAPE(2, 1))),
		  *across = tj_transpose(tj_gt(tj_transpose(z, 0, 1), tj_f(0)), 0, 1); /* its rows are columns in memory */
	out[3] = tj_masked_select(z, across);
	out[4] = tj_masked_select(z, mask);
}

static void unique_values(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, total(tj_square(tj_unique(tj_neg(in[0])))), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void unique_stopped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_grad(out, tj_mul(total(tj_unique(tj_stop_gradient(in[0]))), total(in[0])), TJ_LIST(in[0]), NULL);
}

static void selection(void **s)
{
	(void)s;
	for (int i = 0; i < 2; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[5], *second = F32(c, 1, -1);
		tj_fn *f = kit_fn(c, "selected", selected, i ? c : NULL, 1, 1), *wide = kit_fn(c, "wide", selected_wide, NULL, 2, 5);
		for (int k = 0; k < 3; k++) {
			const float by = i ? 3 : 1;
			assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 0, 4 * by, 6 * by);
			assert_f32(tj_call1(f, TJ_LIST(F32(c, 5, NAN, 1))), 10 * by, 0, 0); /* NAN > 1.5 is false: what is not selected has no part */
			assert_f32(tj_call1(f, TJ_LIST(F32(c, 0, -0.0f, 1))), 0, 0, 0);
			assert_int_equal(tj_call(wide, out, TJ_LIST(F32(c, 1, 2, -3), second)), TJ_OK);
			assert_f32(out[0], 3, 12, 27);
			assert_f32(out[1], 6, 12, -18);
			assert_f32(out[2], 1, 2, -3);
			assert_f32(out[3], 2, 3, 1);
			assert_int_equal(tj_call(wide, out, TJ_LIST(F32(c, 1, 2, -3), F32(c, 0, 7))), TJ_OK);
			assert_f32(out[0], 6, 24, 54);
			assert_f32(out[1], 12, 24, -36);
			assert_f32(out[4], 1, 2, -3, 8, 9, 4);
		}
		kit_ok(c);
		assert_int_not_equal(tj_call(kit_fn(c, "unique", unique_values, NULL, 1, 1), out, TJ_LIST(F32(c, 1, 2, 3))), TJ_OK);
		kit_error(c, TJ_ERR_STATE, "which has no gradient");
		assert_f32(tj_call1(kit_fn(c, "stopped", unique_stopped, NULL, 1, 1), TJ_LIST(F32(c, 1, 2, 2))), 3, 3, 3);
		tj_close(c);
	}
}

/* A cell's version and the value that it was assigned are one value. */
static void assigned_before(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *v = tj_mul(in[0], tj_f(2));
	tj_assign(w, v);
	if (tj_truth(tj_gt(total(in[0]), tj_f(0))))
		tj_grad(out, total(tj_square(w)), TJ_LIST(v), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void version(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_f32(tj_call1(kit_fn(c, "version", assigned_before, tj_param(c, TJ_F32, TJ_SHAPE(2)), 1, 1), TJ_LIST(F32(c, 1, 2))), 4, 8);
	kit_ok(c);
	tj_close(c);
}

/* ---- what is refused ---- */
static void unused(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_grad(out, total(in[0]), TJ_LIST(in[1]), self ? TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS) : NULL);
}
static void not_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_grad(out, in[0], TJ_LIST(in[0]), NULL); }
static void not_float(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_gt(in[0], tj_f(0))), TJ_LIST(in[0]), NULL);
}
static void by_number(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_grad(out, total(in[0]), TJ_LIST(tj_f(1)), NULL); }
static void bad_cotangent(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, in[0], TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .cotangent = total(in[0])));
}
static void no_list(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_grad(out, total(in[0]), TJ_NONE, NULL); }
static void short_list(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(in[0]), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .add_to = TJ_NONE));
}
static void bad_sum(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(in[0]), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .add_to = TJ_LIST(total(in[0]))));
}
static void same(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_square(in[0]); }
static void small(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(total(in[0]), tj_f(1e6)); }
static void through_while(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	(void)self;
	tj_while(&y, small, same, TJ_LIST(in[0]), NULL, NULL);
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
}

static void refusals(void **s)
{
	static const struct { tj_body *body; tj_status code; const char *message;
	} cases[] = { { unused, TJ_ERR_ARG, "does not depend on tensor 0" },
		      { not_one, TJ_ERR_SHAPE, "the value is f32[2], and there is no cotangent" },
		      { not_float, TJ_ERR_DTYPE, "it is i64[]" },
		      { by_number, TJ_ERR_DTYPE, "tensor 0 of those asked for is f64" },
		      { bad_cotangent, TJ_ERR_SHAPE, "the cotangent f32[]" },
		      { no_list, TJ_ERR_ARG, "the list is empty" },
		      { short_list, TJ_ERR_ARG, ".add_to has 0 tensors" },
		      { bad_sum, TJ_ERR_SHAPE, ".add_to 0 is f32[], the gradient f32[2]" },
		      { through_while, TJ_ERR_ARG, "while: it has no gradient" } };
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[1];
		assert_int_not_equal(tj_call(kit_fn(c, "refused", cases[i].body, NULL, 2, 1), out, TJ_LIST(F32(c, 1, 2), F32(c, 3, 4))), TJ_OK);
		kit_error(c, cases[i].code, cases[i].message);
		tj_close(c);
	}
}

static void zeros(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_f32(tj_call1(kit_fn(c, "unused", unused, c, 2, 1), TJ_LIST(F32(c, 1, 2), F32(c, 3, 4))), 0, 0);
	tj_close(c);
}

static void assigns_between(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = self, *y = total(tj_mul(in[0], w));
	tj_assign(w, in[0]);
	tj_grad(out, y, TJ_LIST(w), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
}

static void assigned_between(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[1], *w = tj_param(c, TJ_F32, TJ_SHAPE(2));
	assert_int_not_equal(tj_call(kit_fn(c, "assigns", assigns_between, w, 1, 1), out, TJ_LIST(F32(c, 1, 2))), TJ_OK);
	kit_error(c, TJ_ERR_STATE, "then assigned at test/unit/test_gradients.c:");
	tj_close(c);
}

static void outside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2), *g;
	assert_int_equal(tj_grad(&g, total(x), TJ_LIST(x), NULL), TJ_ERR_STATE);
	assert_true(tj_is_poison(g));
	kit_error(c, TJ_ERR_STATE, "the body of a compiled function");
	tj_close(c);
}

/* ---- a carry whose gradient would be 0 times infinity, and that the value does not depend on ---- */
static void doubles_beside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_mul(in[0], tj_f(2)), out[1] = tj_sqrt(in[1]);
}
static void is_small(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_f(7)); }
static void carry_beside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *c[2], *z = tj_sub(x, x);
	if (self) tj_while(c, is_small, doubles_beside, TJ_LIST(x, z), NULL, TJ_OPTS(tj_while_opts, .max_turns = 9));
	else tj_scan(c, NULL, 0, doubles_beside, TJ_LIST(x, z), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 3));
	tj_grad(out, c[0], TJ_LIST(x), NULL);
}

static void carries_without_gradient(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int loop = 0; loop < 2; loop++)
		assert_f32(tj_call1(kit_fn(c, "beside", carry_beside, loop ? c : NULL, 1, 1), TJ_LIST(tj_ones(TJ_F32, TJ_0D))), 8);
	kit_ok(c);
	tj_close(c);
}

/* ---- a tensor has one gradient, by whichever handle it is used or asked for ---- */
typedef struct handles { tj_tensor *cell, *captured, *kept; tj_fn *same, *same_direct, *swap, *store; } handles;
typedef tj_tensor *second_handle(const handles *h, tj_tensor *x);

static void give_back(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[0]; }
static void swap(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = in[1], out[1] = in[0]; }
static void store(tj_tensor **out, tj_tensor *const *in, void *cell)
{
	tj_assign(cell, in[0]);
	out[0] = cell;
}

static tj_tensor *by_assign(const handles *h, tj_tensor *x) { return tj_assign(h->cell, x), h->cell; }
static tj_tensor *by_escape(const handles *h, tj_tensor *x) { return (void)h, tj_escape(x); }
static tj_tensor *by_name(const handles *h, tj_tensor *x) { return tj_assign(h->cell, tj_grad_name(x, "u")), h->cell; }
static tj_tensor *by_found(const handles *h, tj_tensor *x) { return (void)h, tj_grad_name(x, "u"), tj_grad_named("u"); }
static tj_tensor *by_call(const handles *h, tj_tensor *x) { return tj_call1(h->same, TJ_LIST(x)); }
static tj_tensor *by_direct(const handles *h, tj_tensor *x) { return tj_call1(h->same_direct, TJ_LIST(x)); }
static tj_tensor *by_store(const handles *h, tj_tensor *x) { return tj_call1(h->store, TJ_LIST(x)); }
static tj_tensor *by_stored(const handles *h, tj_tensor *x) { return tj_call1(h->store, TJ_LIST(x)), h->cell; }
static tj_tensor *by_swap(const handles *h, tj_tensor *x)
{
	tj_tensor *out[2];
	return tj_call(h->swap, out, TJ_LIST(x, tj_sin(x))), out[1];
}
static tj_tensor *by_retain(const handles *h, tj_tensor *x) { return ((handles *)(uintptr_t)h)->kept = tj_retain(x); }
static tj_tensor *by_all(const handles *h, tj_tensor *x) { return by_assign(h, by_escape(h, by_retain(h, x))); }
static second_handle *const ways[] = { by_assign, by_escape, by_name, by_found, by_call, by_direct, by_store, by_stored,
	                                    by_swap, by_retain, by_all };

static struct { handles h; second_handle *way; bool captured, boundary; } twice;

/* x * x, each x by another handle; its gradients by both. */
static void one_tensor(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = twice.captured ? twice.h.captured : in[0], *other = twice.way(&twice.h, x), *y;
	(void)self;
	if (twice.boundary) tj_truth(tj_add(x, other));
	y = tj_mul(other, x);
	if (twice.boundary) tj_truth(y);
	tj_grad(out, y, TJ_LIST(x), NULL);
	tj_grad(out + 1, y, TJ_LIST(other), NULL);
	tj_grad(out + 2, out[0], TJ_LIST(x), NULL);
}

static void second_handles(void **s)
{
	(void)s;
	for (unsigned i = 0; i < 8 * sizeof ways / sizeof *ways; i++) {
		tj_ctx *c = kit_open();
		tj_push(c); /* tj_escape() of the captured tensor needs a scope around */
		twice.way = ways[i / 8];
		twice.captured = i & 1;
		twice.boundary = i & 2;
		twice.h = (handles){ .cell = tj_param(c, TJ_F32, TJ_0D),
			             .captured = tj_full(TJ_F32, TJ_0D, tj_f(2)),
			             .same = kit_fn(c, "same", give_back, NULL, 1, 1),
			             .same_direct = direct(c, "same", give_back, NULL, 1, 1),
			             .swap = kit_fn(c, "swap", swap, NULL, 2, 2) };
		twice.h.store = kit_fn(c, "store", store, twice.h.cell, 1, 1);
		tj_fn *f = (i & 4 ? direct : kit_fn)(c, "one_tensor", one_tensor, NULL, 1, 3);
		for (int call = 0; call < 3; call++) {
			tj_tensor *out[3];
			assert_int_equal(tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(2)))), TJ_OK);
			kit_ok(c);
			assert_f32(out[0], 4);
			assert_f32(out[1], 4);
			assert_f32(out[2], 2);
			if (twice.h.kept) tj_release(twice.h.kept);
			twice.h.kept = NULL;
		}
		tj_close(c);
	}
}

/* The first handle dies with its scope: the second one is then the tensor. */
static void outlives(tj_tensor **out, tj_tensor *const *in, void *self)
{
	float two = 2;
	tj_scope *scope = tj_push(tj_ctx_current());
	tj_tensor *t = tj_from_data(tj_ctx_current(), TJ_F32, TJ_0D, &two), *other = tj_escape(t), *y = tj_escape(tj_mul(tj_mul(t, other), in[0]));
	if (self) tj_truth(y);
	tj_pop(scope);
	y = tj_mul(y, other);
	tj_grad(out, y, TJ_LIST(other), NULL);
}

static void first_handle_dies(void **s)
{
	(void)s;
	for (int boundary = 0; boundary < 2; boundary++) {
		tj_ctx *c = kit_open();
		tj_fn *f = kit_fn(c, "outlives", outlives, boundary ? c : NULL, 1, 1);
		for (int call = 0; call < 3; call++) assert_f32(tj_call1(f, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(3)))), 36); /* 3 t^2 in[0] */
		assert_int_equal(kit_stats(f).hits, 2);
		kit_ok(c);
		tj_close(c);
	}
}

static void between_lines(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_full(TJ_F32, TJ_0D, tj_f(2)), *cell = tj_param(c, TJ_F32, TJ_0D), *grad;
	tj_trace_begin(c, NULL);
	tj_assign(cell, x);
	tj_grad(&grad, tj_mul(cell, x), TJ_LIST(x), NULL);
	assert_int_equal(tj_trace_end(c, &grad, 1), TJ_OK);
	assert_f32(grad, 4);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(three_orders),
		                            cmocka_unit_test(of_several),
		                            cmocka_unit_test(cotangent),
		                            cmocka_unit_test(stop),
		                            cmocka_unit_test(equal_tensors),
		                            cmocka_unit_test(on_the_way_and_back),
		                            cmocka_unit_test(descent),
		                            cmocka_unit_test(sizes),
		                            cmocka_unit_test(behind_a_boundary),
		                            cmocka_unit_test(through_cond),
		                            cmocka_unit_test(through_scan),
		                            cmocka_unit_test(integer_carries),
		                            cmocka_unit_test(carries_without_gradient),
		                            cmocka_unit_test(refusals),
		                            cmocka_unit_test(selection),
		                            cmocka_unit_test(version),
		                            cmocka_unit_test(zeros),
		                            cmocka_unit_test(assigned_between),
		                            cmocka_unit_test(second_handles),
		                            cmocka_unit_test(first_handle_dies),
		                            cmocka_unit_test(between_lines),
		                            cmocka_unit_test(outside) };
	KIT_RUN(tests);
}
