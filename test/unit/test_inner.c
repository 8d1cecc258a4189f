/* SPDX-License-Identifier: MIT */
/* Inner values: steps of a composite and unused results, in a graph and for later segments of a call. */
#include "test/kit.h"

#include "jit/segment.h"
#include "test/unit/parsed.h"

#include <math.h>

/* ---- in a graph ---- */
/* The last step of this op, of a composite of one f32[4] and more operands. */
static uint32_t step_of(const char *text, int op)
{
	ir_graph g = parsed(text), e;
	uint32_t found = UINT32_MAX;
	ir_graph_init(&e);
	assert_true(ir_steps(&e, &g, g.out.v[0]));
	for (ir_ref r = 0; r < e.node.n; r++)
		if (ir_at(&e, r)->op == op) found = r;
	assert_int_not_equal(found, UINT32_MAX);
	ir_graph_free(&e);
	ir_graph_free(&g);
	return found;
}

static const char softmax[] = "%0 = input f32[4] slot=0\n%1 = softmax f32[4] %0 axis=0\nret %1\n";
static const char picked[] = "%0 = input f32[4] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=0\n%2 = get f32[] %1 i=0\nret %2\n";

/* A step beside its composite is computed once. */
static void computed_once(void **s)
{
	(void)s;
	ir_graph g = parsed(softmax), plain, more;
	rt_err err = { 0 };
	ir_graph_init(&plain);
	ir_graph_init(&more);
	assert_int_equal(ir_pass_decomp(&g, &plain, NULL, &err), TJ_OK);
	ir_ref e = ir_inner(&g, g.out.v[0], step_of(softmax, IR_exp));
	assert_true(e != IR_NONE && ir_ret(&g, e));
	assert_int_equal(ir_verify(&g, &err), TJ_OK);
	assert_int_equal(ir_pass_decomp(&g, &more, NULL, &err), TJ_OK);
	assert_int_equal(more.node.n, plain.node.n);
	float x[4] = { 1, 2, 3, 4 }, y[4], z[4];
	assert_int_equal(ir_eval(&more, (const void *[]){ x }, NULL, NULL, (void *[]){ y, z }, NULL, &err), TJ_OK);
	assert_true(z[3] == 1 && z[0] < 0.05f && y[3] < 1); /* exp(x - 4) */
	ir_graph_free(&g);
	ir_graph_free(&plain);
	ir_graph_free(&more);
}

static void refusals(void **s)
{
	static const struct { const char *text, *says; uint32_t step; } wrong[] = {
		{ softmax, "has no inner value 99", 99 }, { picked, "in one step", 0 },
		{ "%0 = input f32[4] slot=0\n%1 = exp f32[4] %0\nret %1\n", "in one step", 0 },
	};
	(void)s;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ir_graph g = parsed(wrong[i].text);
		assert_int_equal(ir_inner(&g, g.out.v[0], wrong[i].step), IR_NONE);
		if (!strstr(g.err.message, wrong[i].says)) fail_msg("%s", g.err.message);
		ir_graph_free(&g);
	}
	ir_graph g = parsed(picked);
	assert_int_not_equal(ir_inner(&g, 1, 1), IR_NONE);
	assert_int_equal(ir_inner(&g, 1, 2), IR_NONE);
	ir_graph_free(&g);
}

/* ---- in later segments ---- */
typedef struct asks { uint32_t step; bool several, twice; } asks;

static void reads_inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const asks *q = self;
	tj_tensor *y = q->several ? tj_max_with_indices(in[0], 0, false, NULL) : tj_softmax(in[0], 0);
	if (!tj_truth(tj_ge(tj_sum(y, TJ_ALL, false), tj_f(-1e9)))) return; /* a boundary */
	jit_act *a = &tj_ctx_current()->act;
	const bool ascending = q->step % 2; /* the order in which they are asked for must not matter */
	tj_tensor *first = q->twice && ascending ? jit_inner_of(a, TJ_SITE, y, 0) : NULL; /* step 0: the operand, result 0: the maximum */
	tj_tensor *inner = jit_inner_of(a, TJ_SITE, y, q->step), *again = jit_inner_of(a, TJ_SITE, y, q->step);
	assert_int_equal(inner->seq, again->seq);
	if (q->twice && !first) first = jit_inner_of(a, TJ_SITE, y, 0);
	out[0] = q->several ? tj_cast(inner, TJ_F32) : tj_mul(inner, tj_f(2));
	if (q->twice) out[0] = tj_add(out[0], tj_cast(first, TJ_F32));
}

static float wanted(const asks *q, const float *x, int n, int i)
{
	float most = x[0];
	int at = 0;
	for (int k = 1; k < n; k++)
		if (x[k] > most) most = x[k], at = k;
	if (q->several) return (float)at + (q->twice ? most : 0);
	return 2 * expf(x[i] - most) + (q->twice ? x[i] : 0);
}

static void check(tj_tensor *t, const asks *q, const float *x, int n)
{
	assert_int_equal(tj_numel(t), q->several ? 1 : n);
	const float *v = tj_data(t);
	for (int i = 0; i < (q->several ? 1 : n); i++)
		if (!(fabsf(v[i] - wanted(q, x, n, i)) < 1e-5f)) fail_msg("element %d is %g, not %g", i, (double)v[i], (double)wanted(q, x, n, i));
}

static void later_segments(void **s)
{
	static const float x[6] = { 1, 3, 2, -1, 2.5f, 0 };
	(void)s;
	for (int kind = 0; kind < 8; kind++) {
		asks q = { kind & 1 ? 1 : step_of(softmax, IR_exp), kind & 1, kind & 2 };
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = kind & 2 ? 1 : 0));
		tj_fn *f = tj_compile(
			c, reads_inner, &q,
			TJ_OPTS(tj_compile_opts, .name = "inner", .nin = 1, .nout = 1, .mode = kind & 4 ? TJ_DIRECT : TJ_VERIFY));
		for (int n = 4; n <= 6; n += 2)
			for (int call = 0; call < 5; call++) {
				tj_tensor *out = tj_call1(f, TJ_LIST(kit_f32(c, (size_t)n, x)));
				kit_ok(c);
				check(out, &q, x, n);
			}
		const tj_stats stats = kit_stats(f);
		assert_int_equal(stats.recomputed, 1); /* a value that was not kept, once, at the first size: then it is kept, and at other
		                                          sizes from the first call on */
		assert_int_equal(stats.recordings, 4); /* of two segments at two sizes */
		tj_close(c);
	}
}

/* asks in the segment that computes the value, or for a step of an op without steps */
typedef struct wrong { bool before; int reached; } wrong;
static void not_there(tj_tensor **out, tj_tensor *const *in, void *self)
{
	wrong *w = self;
	tj_ctx *c = tj_ctx_current();
	tj_tensor *y = tj_exp(in[0]);
	out[0] = y;
	if (!w->before && !tj_truth(tj_sum(y, TJ_ALL, false))) return;
	assert_int_equal(jit_inner_of(&c->act, TJ_SITE, y, 0)->kind, RT_POISON);
	if (w->before) kit_error(c, TJ_ERR_STATE, "not a value of an earlier segment");
	else kit_error(c, TJ_ERR_ARG, "in one step");
	w->reached++;
}

static void refused_in_a_call(void **s)
{
	(void)s;
	wrong w = { .before = true };
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "inner", not_there, &w, 1, 1);
	for (int i = 0; i < 2; i++, w.before = false) {
		tj_tensor *out = NULL;
		tj_call(f, &out, TJ_LIST(F32(c, 1, 2)));
		tj_check(c);
	}
	assert_int_equal(w.reached, 2);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(computed_once), cmocka_unit_test(refusals), cmocka_unit_test(later_segments), cmocka_unit_test(refused_in_a_call),
	};
	KIT_RUN(tests);
}
