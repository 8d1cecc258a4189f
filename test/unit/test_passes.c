/* SPDX-License-Identifier: MIT */
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

/* ---- graphs with gradients: those are of the values that the body computes ---- */
static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }

/* self: a cell, which is assigned; the request stands in the same segment. */
static void trains(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_exp(tj_mul(in[0], self));
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
	tj_assign(self, total(out[0]));
}

/* exp is computed in an earlier segment, and is all that the pass changes there. */
static void looks_first(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_exp(tj_mul(in[0], self)), *z = tj_square(y);
	tj_item(total(y));
	tj_grad(out, total(z), TJ_LIST(in[0]), NULL);
	tj_assign(self, total(out[0]));
}

static void along(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_exp(tj_mul(in[0], self));
	out[0] = tj_jvp(y, TJ_LIST(in[0]), TJ_LIST(in[0]), TJ_UNUSED_ERROR);
	tj_assign(self, total(out[0]));
}

/* exp(x) becomes 1 / exp(-x), which is the same but for rounding. */
static tj_status same_exp(tj_graph *g, void *self)
{
	for (tj_node *n = tj_graph_first(g), *next; n; n = next) {
		next = tj_node_next(n);
		if (!is(n, "exp")) continue;
		tj_node *x = tj_node_input(n, 0), *a = tj_graph_insert(g, n, "neg", &x, 1, NULL, 0), *b = tj_graph_insert(g, n, "exp", &a, 1, NULL, 0);
		tj_graph_replace(g, n, tj_graph_insert(g, n, "reciprocal", &b, 1, NULL, 0));
		tj_graph_erase(g, n);
	}
	if (self) tj_graph_keeps_values(g);
	return TJ_OK;
}
static tj_status changes_nothing(tj_graph *g, void *self)
{
	tj_node *n = tj_graph_first(g);
	ran++;
	tj_graph_insert_constant(g, NULL, TJ_F32, TJ_0D, &(float){ 1 });
	tj_graph_replace(g, n, n);
	return (void)self, TJ_OK;
}
static tj_status hands_on(void *self, tj_graph *g, tj_compiled *out) { return (void)out, same_exp(g, self); }

static void gradients_of_changed_values(void **s)
{
	static const struct {
		const char *name;
		tj_body *body;
	} bodies[] = { { "trains", trains }, { "looks_first", looks_first }, { "along", along } };
	(void)s;
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
		for (int how = 0; how < 6; how++) { /* 0, 1: not promised; 2, 3: promised; odd: by a back end; 4: no change; 5: by a pass of the engine */
			tj_ctx *c = kit_open();
			tj_tensor *out[1], *w = kit_param(c, 2);
			const tj_pass own[] = { { "same_exp", same_exp, how == 2 ? c : NULL }, { 0 } },
				      none[] = { { "changes_nothing", changes_nothing, NULL }, { 0 } };
			tj_compile_opts o = { .size = sizeof o, .name = "f", .nin = 1, .nout = 1 };
			const bool refused = how < 2 || how == 5;
			if (how == 5) assert_int_equal(tj_add_pass(c, &own[0]), TJ_OK);
			else if (how % 2) o.backend = hands_on, o.backend_self = how == 3 ? c : NULL;
			else o.passes = how == 4 ? none : own;
			tj_fn *f = tj_compile(c, bodies[i].body, w, &o);
			const tj_status got = tj_call(f, out, TJ_LIST(F32(c, 1)));
			if (refused != (got != TJ_OK)) fail_msg("%s, way %d: %s", bodies[i].name, how, tj_strerror(got));
			if (refused) {
				kit_error(c, TJ_ERR_COMPILE, how == 1 ? "back end f changed values of" : "pass same_exp changed values of");
				assert_non_null(strstr(tj_last_error(c)->site, "test_passes.c:"));
				assert_non_null(strstr(tj_last_error(c)->hint, "tj_graph_keeps_values()"));
				assert_f32(w, 2);
			} else {
				const float e = 7.38905609893065f, want = bodies[i].body == looks_first ? 4 * e * e : 2 * e, have = (float)tj_item(out[0]);
				if (!(have > want * 0.99999f && have < want * 1.00001f))
					fail_msg("%s, way %d: %g, not %g", bodies[i].name, how, (double)have, (double)want);
				kit_ok(c);
			}
			tj_close(c);
		}
}

/* A back end that computes a few ops on f32[] itself, those of gradients among them. */
typedef struct few { int n, src[64][2]; char op[64]; float value[64]; int out[4], nout; } few; /* op: i input, c constant, and + * - */
static tj_status run_few(void *env, const tj_run *r)
{
	const few *p = env;
	float v[64];
	for (int i = 0; i < p->n; i++) {
		const float a = v[p->src[i][0]], b = v[p->src[i][1]];
		v[i] = p->op[i] == 'i'   ? *(const float *)r->in[p->src[i][0]]
		       : p->op[i] == 'c' ? p->value[i]
		       : p->op[i] == '+' ? a + b
		       : p->op[i] == '*' ? a * b
		                         : -a;
	}
	for (int i = 0; i < p->nout; i++) memcpy(r->out[i], &v[p->out[i]], sizeof(float));
	return TJ_OK;
}

static tj_status compile_few(void *self, tj_graph *g, tj_compiled *out)
{
	few *p = self;
	tj_node *node[64];
	*p = (few){ 0 };
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n)) {
		const int i = p->n++;
		assert_true(i < 64);
		node[i] = n;
		p->op[i] = is(n, "input")      ? 'i'
		           : is(n, "constant") ? 'c'
		           : is(n, "add")      ? '+'
		           : is(n, "mul")      ? '*'
		           : is(n, "square")   ? '*'
		           : is(n, "neg")      ? '-'
		                               : '?';
		assert_int_not_equal(p->op[i], '?');
		if (p->op[i] == 'i') p->src[i][0] = tj_node_slot(n);
		if (p->op[i] == 'c') memcpy(&p->value[i], tj_node_data(n), sizeof(float));
		for (int k = 0; k < tj_node_inputs(n); k++)
			for (int j = 0; j < i; j++)
				if (node[j] == tj_node_input(n, k)) p->src[i][k] = j;
		if (is(n, "square")) p->src[i][1] = p->src[i][0];
	}
	for (int i = 0; i < tj_graph_outputs(g); i++, p->nout++)
		for (int j = 0; j < p->n; j++)
			if (node[j] == tj_graph_output(g, i)) p->out[i] = j;
	*out = (tj_compiled){ run_few, NULL, p };
	return TJ_OK;
}

static void fourth_power(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_mul(tj_mul(in[0], in[1]), tj_mul(tj_mul(in[0], in[0]), in[0]));
	tj_grad(out, y, TJ_LIST(in[0], in[1]), NULL);
	tj_grad(out + 2, out[0], TJ_LIST(in[0]), NULL);
	tj_grad(out + 3, out[2], TJ_LIST(in[1]), NULL);
}

static void gradients_by_a_back_end(void **s)
{
	(void)s;
	static few p;
	tj_ctx *c = kit_open();
	tj_tensor *out[4];
	tj_fn *f = tj_compile(c, fourth_power, NULL,
	                      TJ_OPTS(tj_compile_opts, .name = "f", .nin = 2, .nout = 4, .backend = compile_few, .backend_self = &p));
	for (int i = 0; i < 3; i++) {
		const float x = (float)i - 1, w = 2;
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_reshape(F32(c, x), TJ_0D), tj_reshape(F32(c, w), TJ_0D))), TJ_OK);
		assert_f32(out[0], 4 * w * x * x * x);
		assert_f32(out[1], x * x * x * x);
		assert_f32(out[2], 12 * w * x * x);
		assert_f32(out[3], 12 * x * x);
	}
	kit_ok(c);
	assert_int_equal(p.nout, 4);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_run_in_order),         cmocka_unit_test(graphs_can_be_read),
		cmocka_unit_test(wrong_passes_are_errors),     cmocka_unit_test(back_ends),
		cmocka_unit_test(gradients_of_changed_values), cmocka_unit_test(gradients_by_a_back_end),
	};
	KIT_RUN(tests);
}
