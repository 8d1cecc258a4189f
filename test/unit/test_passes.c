/* Passes and back ends of users: what they may change, and that their errors are reported and lose no data. */
#include "test/kit.h"

static int ran;
static bool is(const tj_node *n, const char *op) { return !strcmp(tj_node_op(n), op); }
static tj_node *find(tj_graph *g, const char *op)
{
	tj_node *n = tj_graph_first(g);
	while (n && !is(n, op)) n = tj_node_next(n);
	return n;
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(tj_sum(tj_mul(in[0], tj_f(2)), TJ_AXES(-1), true));
}

/* exp becomes neg. */
static tj_status negate(tj_graph *g, void *self)
{
	(void)self;
	ran++;
	tj_node *e = find(g, "exp"), *x = e ? tj_node_input(e, 0) : NULL;
	if (!e) return TJ_OK;
	assert_int_equal(tj_node_uses(e), 1);
	tj_graph_replace(g, e, tj_graph_insert(g, e, "neg", &x, 1, NULL, 0));
	return tj_graph_erase(g, e) ? TJ_OK : TJ_ERR_STATE;
}

/* neg(x) becomes neg(x) + c. */
static tj_status shift(tj_graph *g, void *self)
{
	ran += 10;
	tj_node *n = find(g, "neg"), *next = n ? tj_node_next(n) : NULL;
	if (!n) return TJ_OK;
	tj_node *two[2] = { n, tj_graph_insert_constant(g, next, TJ_F32, TJ_0D, self) };
	tj_node *sum = tj_graph_insert(g, next, "add", two, 2, NULL, 0);
	return tj_graph_replace(g, n, sum) ? TJ_OK : TJ_ERR_STATE;
}

static void passes_run_in_order(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	float seven = 7;
	assert_int_equal(tj_add_pass(c, &(tj_pass){ "negate", negate, NULL }), TJ_OK);
	const tj_pass own[] = { { "shift", shift, &seven }, { 0 } };
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .passes = own));
	ran = 0;
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 1); /* -(2 + 4) + 7 */
	assert_int_equal(ran, 11);
	tj_fn *g = kit_fn(c, "g", body, NULL, 1, 1);
	assert_f32(tj_call1(g, TJ_LIST(F32(c, 1, 2))), -6);
	assert_int_equal(tj_add_pass(c, &(tj_pass){ "none", NULL, NULL }), TJ_ERR_ARG);
	(void)tj_check(c);
	tj_close(c);
}

static tj_status look(tj_graph *g, void *self)
{
	(void)self;
	tj_node *sum = find(g, "sum"), *in = find(g, "input"), *num = find(g, "number");
	assert_non_null(sum);
	assert_int_equal(tj_node_attrs(sum), 2);
	assert_int_equal(tj_node_attr(sum, 0), 1); /* keepdim */
	assert_int_equal(tj_node_attr(sum, 1), 1); /* the axis, made positive */
	assert_int_equal(tj_node_rank(in), 2);
	assert_int_equal(tj_node_dim(in, -1), 3);
	assert_int_equal(tj_node_dim(in, 2), -1);
	assert_int_equal(tj_node_dtype(in), TJ_F32);
	assert_int_equal(tj_node_slot(in), 0);
	assert_int_equal(tj_node_strides(in)[0], 1); /* transposed */
	assert_int_equal(tj_node_strides(in)[1], 2);
	assert_int_equal(tj_node_slot(num), 0);
	assert_null(tj_node_strides(sum));
	assert_null(tj_node_data(in));
	assert_int_equal(tj_node_slot(sum), -1);
	assert_non_null(strstr(tj_node_site(sum), "test_passes.c:"));
	assert_int_equal(tj_graph_outputs(g), 1);
	assert_true(is(tj_graph_output(g, 0), "exp"));
	assert_null(tj_graph_output(g, 1));
	for (int what = 0; what < 3; what++) {
		static const tj_dump_what kinds[] = { TJ_DUMP_GRAPH, TJ_DUMP_TABLE, TJ_DUMP_DOT };
		char *text = NULL;
		size_t n = 0;
		FILE *t = open_memstream(&text, &n);
		tj_graph_print(g, t, kinds[what]);
		fclose(t);
		assert_non_null(strstr(text, "sum"));
		free(text);
	}
	ran++;
	return TJ_OK;
}
static void graphs_can_be_read(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const tj_pass own[] = { { "look", look, NULL }, { 0 } };
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .passes = own));
	ran = 0;
	float v[6] = { 0 };
	assert_f32(tj_call1(f, TJ_LIST(tj_transpose(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 2), v), 0, 1))), 1, 1);
	assert_int_equal(ran, 1);
	kit_ok(c);
	tj_close(c);
}

/* ---- passes that are wrong ---- */
static tj_status unknown_op(tj_graph *g, void *self) { return (void)self, tj_graph_insert(g, NULL, "frobnicate", NULL, 0, NULL, 0), TJ_OK; }
static tj_status other_shape(tj_graph *g, void *self) { return (void)self, tj_graph_replace(g, find(g, "exp"), find(g, "input")), TJ_OK; }
static tj_status still_used(tj_graph *g, void *self) { return (void)self, tj_graph_erase(g, find(g, "sum")), TJ_OK; }
static tj_status gives_up(tj_graph *g, void *self) { return (void)self, (void)g, TJ_ERR_LIMIT; }
static tj_status bad_operands(tj_graph *g, void *self)
{
	tj_node *two[2] = { find(g, "input"), find(g, "input") };
	return (void)self, tj_graph_insert(g, NULL, "exp", two, 2, NULL, 0), TJ_OK;
}
static tj_status uses_erased(tj_graph *g, void *self)
{
	tj_node *e = find(g, "exp"), *x = tj_node_input(e, 0);
	(void)self;
	tj_graph_replace(g, e, tj_graph_insert(g, e, "neg", &x, 1, NULL, 0));
	tj_graph_erase(g, e);
	tj_graph_insert(g, NULL, "tanh", &e, 1, NULL, 0);
	return TJ_OK;
}
static tj_status erases_twice(tj_graph *g, void *self)
{
	tj_node *e = find(g, "exp"), *x = tj_node_input(e, 0);
	(void)self;
	tj_graph_replace(g, e, tj_graph_insert(g, e, "neg", &x, 1, NULL, 0));
	tj_graph_erase(g, e);
	tj_graph_erase(g, e);
	return TJ_OK;
}
static tj_status out_of_order(tj_graph *g, void *self)
{
	tj_node *e = find(g, "exp"), *x = tj_node_input(e, 0), *n;
	(void)self;
	n = tj_graph_insert(g, tj_graph_first(g), "neg", &x, 1, NULL, 0); /* before what it reads */
	tj_graph_replace(g, e, n);
	return TJ_OK;
}

static void wrong_passes_are_errors(void **s)
{
	(void)s;
	static const struct { const char *name; tj_pass_fn *pass; const char *why; } cases[] = {
		{ "unknown_op", unknown_op, "frobnicate" }, { "other_shape", other_shape, "differ" }, { "still_used", still_used, "still has" },
		{ "gives_up", gives_up, "limit" }, { "bad_operands", bad_operands, "operands" }, { "out_of_order", out_of_order, "comes after it" },
		{ "uses_erased", uses_erased, "erased" }, { "erases_twice", erases_twice, "erased" },
	};
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 0, 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const tj_pass own[] = { { cases[i].name, cases[i].pass, NULL }, { 0 } };
		tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .passes = own));
		for (int k = 0; k < 2; k++) {
			assert_true(tj_is_poison(tj_call1(f, TJ_LIST(x))));
			kit_error(c, TJ_ERR_COMPILE, cases[i].why);
			if (!strstr(tj_last_error(c)->message, cases[i].name)) fail_msg("%s", tj_last_error(c)->message);
		}
		assert_int_equal(kit_stats(f).entries, 0);
	}
	assert_f32(tj_call1(kit_fn(c, "f", body, NULL, 1, 1), TJ_LIST(x)), 1);
	kit_ok(c);
	tj_close(c);
}

/* ---- back ends ---- */
typedef struct backend { int asked, freed, run; bool take, fail; } backend;
static tj_status fill_with_42(void *env, const tj_run *r)
{
	backend *b = env;
	b->run++;
	if (b->fail) return TJ_ERR_LIMIT;
	((float *)r->out[0])[0] = 42 + ((const float *)r->in[0])[0];
	return TJ_OK;
}
static void freed(void *env) { ((backend *)env)->freed++; }
static tj_status compile(void *self, tj_graph *g, tj_compiled *out)
{
	backend *b = self;
	b->asked++;
	if (b->take) *out = (tj_compiled){ fill_with_42, freed, b };
	else return negate(g, NULL); /* a pass of its own, then handed on */
	return TJ_OK;
}

static void back_ends(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	backend b = { .take = true };
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .backend = compile, .backend_self = &b));
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 43);
	assert_int_equal(b.asked, 1);
	assert_int_equal(b.run, 3);
	b.fail = true;
	tj_call1(f, TJ_LIST(F32(c, 1, 2)));
	kit_error(c, TJ_ERR_LIMIT, "the back end of f failed");
	b.take = b.fail = false;
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), -12); /* handed on */
	assert_int_equal(b.asked, 2);
	kit_ok(c);
	tj_close(c);
	assert_int_equal(b.freed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_run_in_order), cmocka_unit_test(graphs_can_be_read), cmocka_unit_test(wrong_passes_are_errors), cmocka_unit_test(back_ends),
	};
	KIT_RUN(tests);
}
