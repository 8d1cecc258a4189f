/* SPDX-License-Identifier: MIT */
/* TJ_STRICT and TJ_FAST in one plan: each op has the numerics of the function whose body called it. */
#include "test/kit.h"

#include "ir/ir.h"

/* (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24. After subtracting 1 + 2^-11, a rounded product leaves 0, a fused multiply-add 2^-24. */
static const float factor = 1 + 0x1p-12f, less = -(1 + 0x1p-11f);
static float once(void) { return !strcmp(kit_backend, "llvm") ? 0x1p-24f : 0; } /* a product and a sum that are both fast */
enum { TWICE = 0 };                                                             /* rounded after the product */

static void multiply_add(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(tj_mul(in[0], in[0]), in[1]); }
static void square(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], in[0]); }
static void plus(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], in[1]); }

static tj_fn *with(tj_ctx *c, tj_body *body, void *self, int nin, int nout, tj_numerics n)
{
	return tj_compile(c, body, self,
	                  TJ_OPTS(tj_compile_opts, .name = n == TJ_FAST ? "fast" : "strict", .nin = nin, .nout = nout, .numerics = n));
}

static void inputs(tj_ctx *c, tj_tensor **x, tj_tensor **y)
{
	*x = F32(c, factor, factor, factor);
	*y = F32(c, less, less, less);
}

/* ---- nested calls ---- */
typedef struct inner { tj_fn *whole, *square, *plus; } inner;
static void mixed(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const inner *f = self;
	out[0] = tj_add(tj_mul(in[0], in[0]), in[1]);                       /* as the outer function says */
	out[1] = tj_call1(f->whole, TJ_LIST(in[0], in[1]));                 /* as the other one says */
	out[2] = tj_add(tj_call1(f->square, TJ_LIST(in[0])), in[1]);        /* one half each: rounded twice */
	out[3] = tj_call1(f->plus, TJ_LIST(tj_mul(in[0], in[0]), in[1]));
	out[4] = tj_add(tj_mul(in[0], in[0]), in[1]);                       /* behind the calls the outer function's holds again */
}

static void nested(void **s)
{
	(void)s;
	for (int outer = TJ_STRICT; outer <= TJ_FAST; outer++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		tj_numerics other = outer == TJ_FAST ? TJ_STRICT : TJ_FAST;
		inner in = { with(c, multiply_add, NULL, 2, 1, other), with(c, square, NULL, 1, 1, other), with(c, plus, NULL, 2, 1, other) };
		tj_fn *f = with(c, mixed, &in, 2, 5, (tj_numerics)outer);
		tj_tensor *x, *y, *out[5];
		inputs(c, &x, &y);
		for (int call = 0; call < 3; call++) {
			const float own = outer == TJ_FAST ? once() : TWICE, others = outer == TJ_FAST ? TWICE : once();
			assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
			kit_ok(c);
			assert_f32(out[0], own, own, own);
			assert_f32(out[1], others, others, others);
			assert_f32(out[2], TWICE, TWICE, TWICE);
			assert_f32(out[3], TWICE, TWICE, TWICE);
			assert_f32(out[4], own, own, own);
		}
		assert_int_equal(kit_stats(f).recordings, 1);
		char *told = kit_explain(f);
		assert_null(strstr(told, "called in the body of")); /* no option is ignored */
		free(told);
		tj_close(c);
	}
}

/* ---- a trace holds for its numerics ---- */
static void calls(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_call1(*(tj_fn **)self, TJ_LIST(in[0], in[1])); }

static void matched(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *kind[2] = { with(c, multiply_add, NULL, 2, 1, TJ_STRICT), with(c, multiply_add, NULL, 2, 1, TJ_FAST) }, *now = NULL;
	tj_fn *f = with(c, calls, &now, 2, 1, TJ_STRICT);
	tj_tensor *x, *y;
	inputs(c, &x, &y);
	for (int call = 0; call < 6; call++) {
		const float want = call % 2 ? once() : TWICE;
		now = kind[call % 2];
		assert_f32(tj_call1(f, TJ_LIST(x, y)), want, want, want);
	}
	kit_ok(c);
	assert_int_equal(kit_stats(f).recordings, 2);
	char *told = kit_explain(f);
	assert_non_null(strstr(told, "numerics differs: expected TJ_STRICT, found TJ_FAST"));
	free(told);
	tj_close(c);
}

static bool count_guard(void *self, const tj_guard *g)
{
	int *n = self;
	if (strcmp(g->kind, "numerics")) return true;
	n[0]++;
	n[1] += strstr(g->text, "TJ_FAST") && !g->droppable && g->event >= 0;
	return false; /* asks for it to be dropped: it is kept */
}

/* The filter sees the guard of each op that a nested call computes with other numerics, and cannot drop it. */
static void filtered(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *kind[2] = { with(c, multiply_add, NULL, 2, 1, TJ_STRICT), with(c, multiply_add, NULL, 2, 1, TJ_FAST) }, *now = kind[1];
	int seen[2] = { 0 };
	tj_fn *f = tj_compile(c, calls, &now,
	                      TJ_OPTS(tj_compile_opts, .nin = 2, .nout = 1, .guard_filter = count_guard, .guard_filter_self = seen));
	tj_tensor *x, *y;
	inputs(c, &x, &y);
	assert_f32(tj_call1(f, TJ_LIST(x, y)), once(), once(), once());
	assert_int_equal(seen[0], 2); /* mul, add */
	assert_int_equal(seen[1], 2);
	now = kind[0];
	assert_f32(tj_call1(f, TJ_LIST(x, y)), TWICE, TWICE, TWICE);
	assert_int_equal(seen[0], 2); /* the outer function's numerics are no guard of their own */
	kit_ok(c);
	tj_close(c);
}

/* ---- direct mode; and a call that is left by an error ---- */
static void refused(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_matmul(in[0], tj_reshape(in[1], TJ_SHAPE(1, 3)));
}
typedef struct pair { tj_fn *good, *bad; } pair;
static void forgives(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const pair *p = self;
	tj_tensor *no = NULL;
	if (p->bad && tj_call(p->bad, &no, TJ_LIST(in[0], in[1])) != TJ_OK) tj_check(tj_ctx_current());
	out[0] = tj_add(tj_mul(in[0], in[0]), in[1]);
	out[1] = tj_call1(p->good, TJ_LIST(in[0], in[1]));
}

static void direct(void **s)
{
	(void)s;
	for (int audit = 0; audit < 2; audit++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = audit));
		pair p = { with(c, multiply_add, NULL, 2, 1, TJ_FAST), NULL };
		tj_fn *f = tj_compile(c, forgives, &p, TJ_OPTS(tj_compile_opts, .name = "direct", .nin = 2, .nout = 2, .mode = TJ_DIRECT));
		tj_tensor *x, *y, *out[2];
		inputs(c, &x, &y);
		for (int call = 0; call < 6; call++) {
			assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
			assert_f32(out[0], TWICE, TWICE, TWICE);
			assert_f32(out[1], once(), once(), once());
		}
		kit_ok(c);
		if (!audit) assert_true(kit_stats(f).direct > 0);
		tj_close(c);
	}
}

static void after_an_error(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	pair p = { with(c, multiply_add, NULL, 2, 1, TJ_FAST), with(c, refused, NULL, 2, 1, TJ_FAST) };
	tj_fn *f = with(c, forgives, &p, 2, 2, TJ_STRICT);
	tj_tensor *x, *y, *out[2];
	inputs(c, &x, &y);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
	assert_f32(out[0], TWICE, TWICE, TWICE); /* the failed call's numerics went with it */
	assert_f32(out[1], once(), once(), once());
	kit_ok(c);
	tj_close(c);
}

/* ---- callbacks of control flow: as the function that runs them says ---- */
static void in_callback(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *sum = tj_add(tj_mul(in[0], in[0]), in[1]);
	out[0] = self ? tj_add(sum, tj_call1(*(tj_fn **)self, TJ_LIST(in[0], in[1]))) : sum;
}
static void chooses(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_cond(out, 1, tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), in_callback, in_callback, TJ_LIST(in[0], in[1]), self);
}
static void chooses_both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_fn *const *f = self;
	chooses(out, in, NULL);
	out[1] = tj_call1(f[0], TJ_LIST(in[0], in[1])); /* control flow in a fast function */
	chooses(out + 2, in, (void *)(uintptr_t)(f + 1)); /* a fast function in a strict callback */
}

static void control_flow(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
	tj_fn *inside[2] = { with(c, chooses, NULL, 2, 1, TJ_FAST), with(c, multiply_add, NULL, 2, 1, TJ_FAST) };
	tj_fn *f = with(c, chooses_both, inside, 2, 3, TJ_STRICT);
	tj_tensor *x, *y, *out[3];
	inputs(c, &x, &y);
	for (int call = 0; call < 3; call++) {
		assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
		assert_f32(out[0], TWICE, TWICE, TWICE);
		assert_f32(out[1], once(), once(), once());
		assert_f32(out[2], once(), once(), once());
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- passes ---- */
static tj_status look(tj_graph *g, void *self)
{
	int *seen = self;
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n)) seen[tj_node_numerics(n)] += !strcmp(tj_node_op(n), "mul");
	assert_int_equal(tj_node_numerics(NULL), TJ_STRICT);
	return TJ_OK;
}
/* Replaces x * x by square(x), and inserts a sum: an inserted node has the numerics of the node after it. */
static tj_status squares(tj_graph *g, void *self)
{
	(void)self;
	for (tj_node *n = tj_graph_first(g), *next; n; n = next) {
		next = tj_node_next(n);
		if (strcmp(tj_node_op(n), "mul")) continue;
		tj_node *in[2] = { tj_node_input(n, 0), tj_node_input(n, 1) }, *again = tj_graph_insert(g, n, "mul", in, 2, NULL, 0);
		assert_int_equal(tj_node_numerics(again), tj_node_numerics(n));
		tj_graph_replace(g, n, again);
		tj_graph_erase(g, n);
	}
	return TJ_OK;
}

static void passes(void **s)
{
	(void)s;
	int seen[2] = { 0 };
	tj_ctx *c = kit_open();
	const tj_pass list[] = { { "look", look, seen }, { "squares", squares, NULL }, { 0 } };
	pair p = { with(c, multiply_add, NULL, 2, 1, TJ_FAST), NULL };
	tj_fn *f = tj_compile(c, forgives, &p, TJ_OPTS(tj_compile_opts, .name = "passed", .nin = 2, .nout = 2, .passes = list));
	tj_tensor *x, *y, *out[2];
	inputs(c, &x, &y);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
	assert_f32(out[0], TWICE, TWICE, TWICE);
	assert_f32(out[1], once(), once(), once());
	assert_int_equal(seen[TJ_STRICT], 1);
	assert_int_equal(seen[TJ_FAST], 1);
	kit_ok(c);
	tj_close(c);
}

/* ---- what has the evaluator's bits ---- */
static void exact(void **s)
{
	(void)s;
	ir_graph g;
	rt_err err = { 0 };
	ir_graph_init(&g);
	const ir_meta m = { .dtype = TJ_F32, .rank = 1, .dim = { 4 } };
	ir_graph *plain = ir_region_new(), *fast = ir_region_new();
	ir_ret(plain, ir_input(plain, 0, &m, NULL, NULL));
	fast->mode = IR_FAST;
	ir_ret(fast, ir_op1(fast, IR_neg, ir_input(fast, 0, &m, NULL, NULL), NULL));
	ir_ref x = ir_input(&g, 0, &m, NULL, NULL), go = ir_input(&g, 1, &(ir_meta){ .dtype = TJ_BOOL }, NULL, NULL);
	ir_ref strict = ir_op2(&g, IR_mul, x, x, NULL);
	g.mode = IR_FAST;
	ir_ref sum = ir_op2(&g, IR_add, strict, x, NULL);
	g.mode = 0;
	ir_ref follows = ir_op1(&g, IR_neg, sum, NULL), beside = ir_op1(&g, IR_exp, strict, NULL);
	ir_ref a = ir_flow(&g, IR_cond, 2, (ir_ref[]){ go, strict }, (ir_graph *[]){ plain, plain }, NULL, NULL);
	ir_ref b = ir_flow(&g, IR_cond, 2, (ir_ref[]){ go, strict }, (ir_graph *[]){ plain, fast }, NULL, NULL);
	ir_ref of_a = ir_get(&g, a, 0, NULL), of_b = ir_get(&g, b, 0, NULL);
	bool inexact[16] = { 0 };
	assert_int_equal(ir_verify(&g, &err), TJ_OK);
	ir_inexact(&g, inexact);
	assert_true(inexact[sum] && inexact[follows] && inexact[of_b]);
	assert_true(!inexact[x] && !inexact[strict] && !inexact[beside] && !inexact[of_a]);
	ir_region_unref(plain);
	ir_region_unref(fast);
	ir_graph_free(&g);
}

/* ---- values of one slot are added in the order of the index: 1e8 - 1e8 + 1 is 1, from the end it is 0 ---- */
static void scatter(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_scatter_add(in[0], 0, in[1], in[2]);
}

static void duplicates(void **s)
{
	(void)s;
	const int64_t along[3] = { 1, 1, 1 }, across[6] = { 1, 0, 1, 0, 1, 0 };
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "scatter", scatter, NULL, 3, 1);
	tj_tensor *to = F32(c, 0, 0), *index = tj_from_data(c, TJ_I64, TJ_SHAPE(3), along), *src = F32(c, 1e8f, -1e8f, 1), *sum;
	assert_int_equal(tj_call(f, &sum, TJ_LIST(to, index, src)), TJ_OK);
	assert_f32(sum, 0, 1);
	to = tj_reshape(F32(c, 0, 0, 0, 0), TJ_SHAPE(2, 2));
	index = tj_from_data(c, TJ_I64, TJ_SHAPE(3, 2), across); /* column 0 into row 1, column 1 into row 0 */
	src = tj_reshape(F32(c, 1e8f, 1, -1e8f, 1e8f, 1, -1e8f), TJ_SHAPE(3, 2));
	assert_int_equal(tj_call(f, &sum, TJ_LIST(to, index, src)), TJ_OK);
	assert_f32(sum, 0, 0, 1, 0); /* 1 + 1e8 - 1e8 is 0 */
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested), cmocka_unit_test(matched),        cmocka_unit_test(filtered),
		cmocka_unit_test(direct), cmocka_unit_test(after_an_error), cmocka_unit_test(control_flow),
		cmocka_unit_test(passes), cmocka_unit_test(exact),          cmocka_unit_test(duplicates),
	};
	KIT_RUN(tests);
}
