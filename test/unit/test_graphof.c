/* SPDX-License-Identifier: MIT */
/* tj_graph_of(): the graph of a function as a program reads it. */
#include "test/kit.h"

typedef struct seen {
	int visits, nodes, conv, softmax, unknown;
	int64_t size[16];
	char text[2000];
	tj_status give;
} seen;

static bool keeps(void *self, const tj_node *n) { return (void)self, !strcmp(tj_node_op(n), "softmax"); }

/* Names of ops and sources, those of callbacks in brackets. */
static void put(seen *s, tj_graph *g)
{
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n)) {
		int i = -1;
		char one[64];
		const char *source = tj_node_source(n, &i);
		if (source)
			snprintf(one, sizeof one, "%s%d ", source, i);
		else
			snprintf(one, sizeof one, "%s ", tj_node_op(n));
		strncat(s->text, one, sizeof s->text - strlen(s->text) - 1);
		for (int k = 0; tj_node_region(n, k); k++) {
			assert_ptr_equal(tj_node_region(n, k), tj_node_region(n, k));
			strcat(s->text, "[");
			put(s, tj_node_region(n, k));
			strcat(s->text, "] ");
		}
	}
}

static tj_status visit(void *self, tj_graph *g)
{
	seen *s = self;
	tj_graph_size size;
	if (tj_graph_size_of(g, 0, &size)) s->size[s->visits] = size.value;
	s->text[0] = 0;
	put(s, g);
	s->visits++;
	assert_true(tj_graph_last(g) == !tj_graph_size_of(g, 0, &size) || s->visits > 1 || !tj_graph_last(g));
	return s->give;
}

/* ---- numbers, composites, variables ---- */
static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor **v = self;
	tj_assign(v[0], tj_add(v[0], tj_f(0.5)));
	out[0] = tj_softmax(tj_silu(tj_mul(in[0], v[1])), -1);
}

static tj_status values(void *self, tj_graph *g)
{
	tj_graph_value v;
	int *n = self;
	assert_string_equal(tj_graph_name(g), "body");
	assert_true(tj_graph_argument(g, 0, &v));
	assert_string_equal(v.name, "x");
	assert_int_equal(v.rank, 2);
	assert_int_equal(v.vary[0], 0);
	assert_int_equal(v.vary[1], -1);
	assert_int_equal(v.dim[1], 3);
	assert_false(tj_graph_argument(g, 1, &v));
	assert_true(tj_graph_variable(g, 0, &v));
	assert_false(v.weight);
	assert_true(tj_graph_variable(g, 1, &v));
	assert_true(v.weight);
	float w[3];
	assert_int_equal(tj_read(v.t, w, sizeof w), TJ_OK); /* the context is free */
	assert_true(w[2] == 3);
	assert_int_equal(tj_graph_outputs(g), 2);
	assert_int_equal(tj_graph_assigns(g, 0), -1);
	assert_int_equal(tj_graph_assigns(g, 1), 0);
	return ++*n, TJ_OK;
}

static void reads(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *v[2] = { tj_param(c, TJ_F32, TJ_0D), tj_param(c, TJ_F32, TJ_SHAPE(3)) };
	const float w[] = { 1, 2, 3 };
	tj_write(v[1], w, sizeof w);
	tj_fn *f = tj_compile(c, body, v,
	                      TJ_OPTS(tj_compile_opts, .name = "body", .nin = 1, .nout = 1, .shapes = "x: f32[B,3]; B in 1..40; B%2==0",
	                              .state = TJ_VARS(&v[0]), .freeze = TJ_VARS(&v[1])));
	seen s = { 0 };
	int n = 0;
	assert_int_equal(tj_graph_of(f, visit, TJ_OPTS(tj_graph_opts, .keeps = keeps, .self = &s)), TJ_OK);
	kit_ok(c);
	assert_string_equal(s.text, "variable0 constant add argument0 variable1 mul sigmoid mul softmax ");
	assert_int_equal(s.visits, 4);
	for (int k = 0; k < 4; k++) {
		assert_int_equal(s.size[k] % 2, 0);
		for (int l = 0; l < k; l++) assert_int_not_equal(s.size[k], s.size[l]);
	}
	assert_int_equal(tj_graph_of(f, values, TJ_OPTS(tj_graph_opts, .self = &n)), TJ_OK);
	assert_int_equal(n, 4);
	kit_ok(c);
	s.visits = 0;
	s.give = TJ_ERR_IO;
	assert_int_equal(tj_graph_of(f, visit, TJ_OPTS(tj_graph_opts, .self = &s)), TJ_ERR_IO);
	assert_int_equal(s.visits, 1);
	s = (seen){ 0 };
	assert_int_equal(tj_graph_of(f, visit,
	                             TJ_OPTS(tj_graph_opts, .self = &s, .static_sizes = true,
	                                     .inputs = TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(8, 3), tj_f(1))))),
	                 TJ_OK);
	assert_int_equal(s.visits, 1);
	assert_non_null(strstr(s.text, "silu"));
	float step;
	tj_read(v[0], &step, sizeof step);
	assert_true(step == 0); /* nothing was computed */
	kit_ok(c);
	tj_close(c);
}

/* ---- callbacks ---- */
static void turn(tj_tensor **carry, tj_tensor *const *in, void *self)
{
	carry[0] = tj_add(tj_mul(in[0], tj_f(2)), tj_add(in[1], ((tj_tensor **)self)[0]));
}
static void yes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_neg(in[0]); }
static void no(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_exp(in[0]); }
static void flow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *carry[1], *outer[1] = { in[1] };
	(void)self;
	tj_scan(carry, NULL, 0, turn, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(1))), TJ_LIST(in[0]), outer, NULL);
	tj_cond(out, 1, tj_gt(carry[0], tj_f(0)), yes, no, TJ_LIST(carry[0]), NULL);
}

static void shows_callbacks(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "flow", flow, NULL, 2, 1);
	seen s = { 0 };
	assert_int_equal(
		tj_graph_of(f, visit,
	                    TJ_OPTS(tj_graph_opts, .self = &s, .inputs = TJ_LIST(F32(c, 1, 2, 3), tj_full(TJ_F32, TJ_0D, tj_f(1))))),
		TJ_OK);
	kit_ok(c);
	assert_non_null(strstr(s.text, "scan [operand0 "));
	assert_non_null(strstr(s.text, "cond [operand1 neg ] [operand1 exp ] get "));
	tj_close(c);
}

static void looks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(in[0]) ? tj_neg(in[0]) : in[0];
}

static void refuses(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "looks", looks, NULL, 1, 1);
	seen s = { 0 };
	assert_int_not_equal(tj_graph_of(f, visit, TJ_OPTS(tj_graph_opts, .self = &s, .inputs = TJ_LIST(F32(c, 1)))), TJ_OK);
	kit_error(c, TJ_ERR_STATE, "truth at test/unit/test_graphof.c:");
	assert_int_not_equal(tj_graph_of(f, visit, NULL), TJ_OK);
	kit_error(c, TJ_ERR_STATE, "was never called");
	assert_int_not_equal(tj_graph_of(f, NULL, NULL), TJ_OK);
	kit_error(c, TJ_ERR_ARG, "visit is NULL");
	assert_int_equal(s.visits, 0);
	tj_close(c);
}

int main(void)
{
	kit_backend = "eval";
	const struct CMUnitTest tests[] = { cmocka_unit_test(reads), cmocka_unit_test(shows_callbacks), cmocka_unit_test(refuses) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
