/* SPDX-License-Identifier: MIT */
/* tj_vmap() and tj_jvp() in bodies: what they give with gradients inside and outside of them, in both modes and on both back ends, and
 * what they refuse. The transform of each op is tested in test_vmap.c. */
#include "test/kit.h"

static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

static tj_fn *made(tj_ctx *c, int mode, tj_body *body, void *self, int nin, int nout)
{
	return tj_compile(c, body, self, TJ_OPTS(tj_compile_opts, .name = "f", .nin = nin, .nout = nout, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
}

static tj_tensor *matrix(tj_ctx *c, int64_t m, int64_t n, const float *v) { return tj_from_data(c, TJ_F32, TJ_SHAPE(m, n), v); }
static const float six[] = { 1, 2, 3, 4, 5, 6 };

/* Calls f three times in each mode; the results must be want. */
#define EACH(body, nin, ...)                                                              \
	for (int mode = 0; mode < 2; mode++) {                                                  \
		tj_ctx *c = kit_open();                                                               \
		tj_fn *f = made(c, mode, body, NULL, nin, 1);                                         \
		for (int call = 0; call < 3; call++) {                                                \
			tj_tensor *out, *x = matrix(c, 2, 3, six), *v = F32(c, 1, 0, 2);                    \
			(void)v;                                                                            \
			assert_int_equal(tj_call(f, &out, nin == 1 ? TJ_LIST(x) : TJ_LIST(x, v)), TJ_OK);         \
			kit_ok(c);                                                                          \
			assert_f32(out, __VA_ARGS__);                                                       \
		}                                                                                     \
		tj_close(c);                                                                          \
	}

/* ---- examples ---- */
static void dot_one(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = total(tj_mul(in[0], self)); } /* self: the same for all */
static void dots(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_vmap(out, 1, dot_one, TJ_LIST(in[0]), in[1], NULL); }
static void captures(void **s) { (void)s; EACH(dots, 2, 7, 16) }

static void scaled_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(tj_mul(in[0], in[1]), in[2]); }
static void columns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_vmap(out, 1, scaled_one, TJ_LIST(in[0], in[1], tj_i(10)), NULL,
	        TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ -1, 0, 0 }, .out_axes = (int[]){ 1 }));
}
static void axes(void **s) { (void)s; EACH(columns, 2, 10, 0, 60, 40, 0, 120) }

static void whole_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], total(in[1])); }
static void unmapped_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_vmap(out, 1, whole_one, TJ_LIST(in[1], in[0]), NULL, TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ 0, TJ_UNMAPPED }));
}
static void unmapped(void **s) { (void)s; EACH(unmapped_body, 2, 22, 21, 23) }

static void pair(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_sub(in[0], self); }
static void row(tj_tensor **out, tj_tensor *const *in, void *self) { tj_vmap(out, 1, pair, TJ_LIST(self), in[0], NULL); }
static void table(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, tj_vmap(out, 1, row, TJ_LIST(in[1]), in[1], NULL); }
static void nested(void **s) { (void)s; EACH(table, 2, 0, -1, 1, 1, 0, 2, -1, -2, 0) }

static void numbers(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, (void)self, out[0] = tj_f(3); }
static void constant_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_vmap(out, 1, numbers, TJ_LIST(in[1]), NULL, NULL);
}
static void constant(void **s) { (void)s; EACH(constant_body, 2, 3, 3, 3) }

/* ---- control flow: each example by itself ---- */
static void negated(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_neg(in[0]); }
static void doubled(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }
static void small(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_f(20)); }
static void flow_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *sum = total(in[0]);
	(void)self;
	tj_cond(&y, 1, tj_lt(sum, tj_f(10)), negated, doubled, TJ_LIST(sum), NULL);
	tj_while(out, small, doubled, TJ_LIST(tj_abs(y)), NULL, NULL);
}
static void flow_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_vmap(out, 1, flow_one, TJ_LIST(in[0]), NULL, NULL);
}
static void control_flow(void **s) { (void)s; EACH(flow_body, 1, 24, 30) }

static void step_one(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_add(tj_mul(in[0], self), in[1]); }
static void horner_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_scan(out, NULL, 0, step_one, TJ_LIST(tj_f(0)), TJ_LIST(in[0]), tj_f(2), NULL);
}
static void horner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_vmap(out, 1, horner_one, TJ_LIST(in[0]), NULL, NULL);
}
static void scans(void **s) { (void)s; EACH(horner, 1, 11, 32) }

/* ---- gradients ---- */
static void loss_grad(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_square(total(tj_mul(in[0], self)));
	tj_grad(out, y, TJ_LIST(self), NULL);
}
static void samples(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_vmap(out, 1, loss_grad, TJ_LIST(in[0]), in[1], NULL);
}
static void per_sample(void **s) { (void)s; EACH(samples, 2, 14, 28, 42, 128, 160, 192) }

typedef struct of { tj_tensor *y, *x; } of;
static void row_of(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const of *o = self;
	tj_grad(out, o->y, TJ_LIST(o->x), TJ_OPTS(tj_grad_opts, .cotangent = in[0]));
}
static void column_of(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const of *o = self;
	out[0] = tj_jvp(o->y, TJ_LIST(o->x), in, TJ_UNUSED_ERROR);
}
/* f(v) = (v0 v1 + v2, v1^2 v2) at (1, 0, 2) */
static tj_tensor *vector_of(tj_tensor *v)
{
	tj_tensor *a = tj_slice(v, 0, 0, 1, 1), *b = tj_slice(v, 0, 1, 2, 1), *d = tj_slice(v, 0, 2, 3, 1);
	return tj_cat(TJ_LIST(tj_add(tj_mul(a, b), d), tj_mul(tj_exp(b), d)), 0);
}
static void reverse_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	of o = { vector_of(in[1]), in[1] };
	(void)self;
	tj_vmap(out, 1, row_of, TJ_LIST(tj_eye(TJ_F32, 2, 2)), &o, NULL);
}
static void forward_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	of o = { vector_of(in[1]), in[1] };
	(void)self;
	tj_vmap(out, 1, column_of, TJ_LIST(tj_eye(TJ_F32, 3, 3)), &o, TJ_OPTS(tj_vmap_opts, .out_axes = (int[]){ 1 }));
}
static void jacobians(void **s)
{
	(void)s;
	EACH(reverse_body, 2, 0, 1, 1, 0, 2, 1)
	EACH(forward_body, 2, 0, 1, 1, 0, 2, 1)
}

static void hessian_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *g, *v = in[1], *y = total(tj_mul(tj_mul(v, v), tj_mul(v, tj_flip(v, TJ_AXES(0)))));
	(void)self;
	tj_grad(&g, y, TJ_LIST(v), NULL);
	of o = { g, v };
	tj_vmap(out, 1, column_of, TJ_LIST(tj_eye(TJ_F32, 3, 3)), &o, NULL);
}
/* y = a^3 d + b^4 + d^3 a at (1, 0, 2) */
static void hessian(void **s) { (void)s; EACH(hessian_body, 2, 12, 0, 15, 0, 0, 0, 15, 0, 12) }

static void around_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	(void)self;
	tj_vmap(&y, 1, dot_one, TJ_LIST(in[0]), in[1], NULL);
	tj_grad(out, total(tj_square(y)), TJ_LIST(in[1]), NULL);
}
static void around(void **s) { (void)s; EACH(around_body, 2, 142, 188, 234) }

static void along_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[1], *y = tj_mul(x, tj_exp(tj_mul(x, tj_f(0)))), *t = tj_sub(x, tj_f(1));
	(void)self;
	out[0] = tj_jvp(tj_mul(y, y), TJ_LIST(x), TJ_LIST(t), TJ_UNUSED_ERROR);
}
static void tangents(void **s) { (void)s; EACH(along_body, 2, 0, 0, 4) }

static void scan_step(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], in[1]); }
static void along_scan(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y, *x = in[1];
	(void)self;
	tj_scan(&y, NULL, 0, scan_step, TJ_LIST(tj_f(1)), TJ_LIST(tj_add(x, tj_f(1))), NULL, NULL);
	out[0] = tj_jvp(y, TJ_LIST(x), TJ_LIST(x), TJ_UNUSED_ERROR); /* (a+1)(b+1)(d+1) along (1, 0, 2): 3 + 2 * 2 */
}
static void tangents_of_scan(void **s) { (void)s; EACH(along_scan, 2, 7) }

/* ---- sizes; outside of compiled functions ---- */
static void any_size(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, samples, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 2, .nout = 1));
	for (int64_t n = 0; n < 7; n++) {
		float v[21], want[21];
		for (int i = 0; i < 21; i++) v[i] = (float)(i % 5);
		for (int i = 0; i < 21; i++) want[i] = 2 * (v[i / 3 * 3] + 2 * v[i / 3 * 3 + 2]) * v[i];
		tj_tensor *out = tj_call1(f, TJ_LIST(matrix(c, n, 3, v), F32(c, 1, 0, 2)));
		kit_ok(c);
		assert_int_equal(tj_rank(out), 2);
		kit_equal(out, (size_t)(3 * n), want);
	}
	tj_close(c);
}

static void outside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out, *x = matrix(c, 2, 3, six);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(tj_vmap(&out, 1, flow_one, TJ_LIST(x), NULL, NULL), TJ_OK);
		assert_f32(out, 24, 30);
		assert_int_equal(tj_vmap(&out, 1, scaled_one, TJ_LIST(x, F32(c, 1, 0, 2), tj_i(10)), NULL,
		                         TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ 1, 0, 0 })),
		                 TJ_OK);
		assert_f32(out, 10, 40, 0, 0, 60, 120);
	}
	tj_close(c);
}

/* A scan whose slices are the same for all examples gives the first value of a carry that is another one for each. */
static void same_slices(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = in[0], out[1] = tj_arange(TJ_F32, 0, 3, 1);
}
static void adds_self(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_add(in[0], self), out[1] = total(in[0]); }
static void carry_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0], *c, *ys, *r[2];
	(void)self;
	tj_scan(&c, &ys, 1, same_slices, TJ_LIST(x), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 1));
	tj_scan(r, NULL, 0, adds_self, TJ_LIST(ys, x), TJ_NONE, x, TJ_OPTS(tj_scan_opts, .length = 1));
	out[0] = r[0];
	out[1] = r[1];
}

static void carry_all(tj_tensor **out, tj_tensor *const *in, void *self) { tj_vmap(out, 2, carry_one, TJ_LIST(in[0]), self, NULL); }

static void carry_that_becomes_batched(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[2];
	assert_int_equal(tj_call(kit_fn(c, "carry", carry_all, NULL, 1, 2), out, TJ_LIST(F32(c, 1, 2))), TJ_OK);
	assert_f32(out[0], 1, 2, 3, 2, 3, 4);
	assert_f32(out[1], 3, 3);
	kit_ok(c);
	tj_close(c);
}

/* ---- refused ---- */
static void reads_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_truth(total(in[0])) ? in[0] : in[0]; }
static void draws_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_add(in[0], tj_uniform(TJ_F32, TJ_SHAPE(3)));
}
static void nothing_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)out, (void)in, (void)self; }
static tj_tensor *kept;
static void leaks_one(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, kept = out[0] = tj_neg(in[0]); }

#define REFUSED(name, call) static void name(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)in, call; }
REFUSED(reads, tj_vmap(out, 1, reads_one, TJ_LIST(in[0]), NULL, NULL))
REFUSED(draws, tj_vmap(out, 1, draws_one, TJ_LIST(in[0]), NULL, NULL))
REFUSED(nothing, tj_vmap(out, 1, nothing_one, TJ_LIST(in[0]), NULL, NULL))
REFUSED(leaks, (tj_vmap(out, 1, leaks_one, TJ_LIST(in[0]), NULL, NULL), out[0] = tj_neg(kept)))
REFUSED(no_examples, tj_vmap(out, 1, dot_one, TJ_LIST(in[0]), in[1], TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ TJ_UNMAPPED })))
REFUSED(no_operands, tj_vmap(out, 1, nothing_one, TJ_NONE, NULL, NULL))
REFUSED(other_size, tj_vmap(out, 1, scaled_one, TJ_LIST(in[0], in[1], in[1]), NULL, NULL))
REFUSED(no_axis, tj_vmap(out, 1, dot_one, TJ_LIST(in[0]), in[1], TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ 2 })))
REFUSED(no_axis_out, tj_vmap(out, 1, dot_one, TJ_LIST(in[0]), in[1], TJ_OPTS(tj_vmap_opts, .out_axes = (int[]){ 1 })))
/* x is a slice of in[0]: the gradient by that would leave out what goes through x. */
static void by_outside_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_grad(out, tj_add(tj_mul(total(self), total(in[0])), total(in[0])), TJ_LIST(self), NULL);
}
REFUSED(by_outside, tj_vmap(out, 1, by_outside_one, TJ_LIST(in[0]), in[0], NULL))
REFUSED(scalar, tj_vmap(out, 1, dot_one, TJ_LIST(total(in[0])), in[1], NULL))
REFUSED(number, tj_vmap(out, 1, dot_one, TJ_LIST(in[0], tj_f(1)), in[1], TJ_OPTS(tj_vmap_opts, .in_axes = (int[]){ 0, 1 })))
REFUSED(no_body, tj_vmap(out, 1, NULL, TJ_LIST(in[0]), NULL, NULL))
REFUSED(few_tangents, out[0] = tj_jvp(total(in[1]), TJ_LIST(in[0], in[1]), TJ_LIST(in[0]), TJ_UNUSED_ZEROS))
REFUSED(bad_tangent, out[0] = tj_jvp(total(in[1]), TJ_LIST(in[1]), TJ_LIST(in[0]), TJ_UNUSED_ZEROS))
REFUSED(unused, out[0] = tj_jvp(total(in[1]), TJ_LIST(in[0]), TJ_LIST(in[0]), TJ_UNUSED_ERROR))
REFUSED(integers, out[0] = tj_jvp(tj_cast(in[1], TJ_I64), TJ_LIST(in[1]), TJ_LIST(in[1]), TJ_UNUSED_ZEROS))
REFUSED(no_wrt, out[0] = tj_jvp(total(in[1]), NULL, TJ_LIST(in[1]), TJ_UNUSED_ZEROS))

static void refusals(void **s)
{
	static const struct { tj_body *body; tj_status code; const char *message;
	} cases[] = { { reads, TJ_ERR_STATE, "tj_vmap" },
		      { draws, TJ_ERR_STATE, "tj_vmap" },
		      { nothing, TJ_ERR_ARG, "did not set out[0]" },
		      { leaks, TJ_ERR_DEAD, "" },
		      { no_examples, TJ_ERR_ARG, "no operand has examples" },
		      { no_operands, TJ_ERR_ARG, "no operand has examples" },
		      { other_size, TJ_ERR_SHAPE, "along axis 0 it has not 2 examples" },
		      { no_axis, TJ_ERR_SHAPE, "it has no axis 2" },
		      { no_axis_out, TJ_ERR_SHAPE, "result 0 has 1 axes" },
		      { scalar, TJ_ERR_SHAPE, "it has no axis 0" },
		      { number, TJ_ERR_SHAPE, "operand 1 is a number" },
		      { no_body, TJ_ERR_ARG, "a callback is NULL" },
		      { by_outside, TJ_ERR_STATE, "by a carry, by an example or by another value from outside" },
		      { few_tangents, TJ_ERR_ARG, "1 tangents, but 2 tensors" },
		      { bad_tangent, TJ_ERR_SHAPE, "its tangent f32[2,3]" },
		      { unused, TJ_ERR_ARG, "does not depend on tensor 0" },
		      { integers, TJ_ERR_DTYPE, "it is i64[3]" },
		      { no_wrt, TJ_ERR_ARG, "the list of tensors is NULL" } };
	(void)s;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		tj_tensor *out[1];
		assert_int_not_equal(
			tj_call(kit_fn(c, "refused", cases[i].body, NULL, 2, 1), out, TJ_LIST(matrix(c, 2, 3, six), F32(c, 1, 0, 2))),
			TJ_OK);
		kit_error(c, cases[i].code, cases[i].message);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(captures),   cmocka_unit_test(axes),
		                            cmocka_unit_test(unmapped),   cmocka_unit_test(nested),
		                            cmocka_unit_test(constant),   cmocka_unit_test(control_flow),
		                            cmocka_unit_test(scans),      cmocka_unit_test(carry_that_becomes_batched),
		                            cmocka_unit_test(per_sample), cmocka_unit_test(jacobians),
		                            cmocka_unit_test(hessian),    cmocka_unit_test(around),
		                            cmocka_unit_test(tangents),   cmocka_unit_test(tangents_of_scan),
		                            cmocka_unit_test(any_size),   cmocka_unit_test(outside),
		                            cmocka_unit_test(refusals) };
	KIT_RUN(tests);
}
