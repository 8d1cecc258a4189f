/* SPDX-License-Identifier: MIT */
/* Error messages: each names the right line and the right cause, and appears once. */
#include "test/kit.h"

#include <stdlib.h>

/* ---- a fault names the line that ran ---- */
typedef struct lines { bool flag; const char *a, *b; } lines;
static void divides_on_two_lines(tj_tensor **out, tj_tensor *const *in, void *self)
{
	lines *l = self;
	tj_tensor *x = in[0], *y = in[1];
	if (l->flag) {
		l->a = TJ_SITE, out[0] = tj_floor_divide(x, y);
	} else {
		l->b = TJ_SITE, out[0] = tj_floor_divide(x, y);
	}
}

static void names_line(tj_ctx *c, const char *want)
{
	assert_int_equal(tj_check(c), TJ_ERR_DIV);
	const char *site = tj_last_error(c)->site;
	if (strncmp(site, want, strlen(want)) != 0) fail_msg("%s instead of %s", site, want);
}

static void fault_names_the_line(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		lines l = { 0 };
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, divides_on_two_lines, &l,
		                      TJ_OPTS(tj_compile_opts, .name = "two_lines", .nin = 2, .nout = 1, .mode = (tj_mode)mode));
		const int32_t one[] = { 1, 2 }, zero[] = { 1, 0 };
		tj_tensor *x = tj_from_data(c, TJ_I32, TJ_SHAPE(2), one), *z = tj_from_data(c, TJ_I32, TJ_SHAPE(2), zero);
		l.flag = true;
		tj_call1(f, TJ_LIST(x, x));
		kit_ok(c);
		if (mode == TJ_VERIFY)
			for (int i = 0; i < 4; i++) {
				l.flag = i & 1;
				tj_call1(f, TJ_LIST(x, z));
				names_line(c, l.flag ? l.a : l.b);
			}
		tj_fn *g = tj_compile(c, divides_on_two_lines, &l,
		                      TJ_OPTS(tj_compile_opts, .name = "two_lines", .nin = 2, .nout = 1, .mode = (tj_mode)mode));
		tj_ctx *d = tj_ctx_clone(c); /* learns its own paths over the trace that c recorded */
		l.flag = true;
		tj_call1(g, TJ_LIST(x, x));
		tj_ctx_use(d);
		tj_tensor *x2 = tj_from_data(d, TJ_I32, TJ_SHAPE(2), one), *z2 = tj_from_data(d, TJ_I32, TJ_SHAPE(2), zero);
		l.flag = false;
		for (int i = 0; i < 3; i++) tj_call1(g, TJ_LIST(x2, x2));
		for (int i = 0; i < 2; i++) {
			tj_call1(g, TJ_LIST(x2, z2));
			names_line(d, l.b);
		}
		tj_close(d);
		tj_ctx_use(c);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- an error that the body takes away ---- */
static void checks_itself(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_matmul(in[0], in[0]);
	if (tj_check(tj_ctx_current()) != TJ_OK) y = in[0];
	(void)self;
	out[0] = y;
}
static void calls_checks_itself(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = NULL;
	out[0] = tj_call(self, &y, TJ_LIST(in[0])) == TJ_OK ? y : tj_neg(in[0]); /* a nested call that fails lets the caller go on */
	tj_check(tj_ctx_current());
}
static void error_checked_in_the_body(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "checks_itself", checks_itself, NULL, 1, 1), *g = kit_fn(c, "outer", calls_checks_itself, f, 1, 1);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), ((float[6]){ 0, 1, 2 }));
	for (int i = 0; i < 2; i++) {
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(x))));
		kit_error(c, TJ_ERR_SHAPE, "f32[2,3]");
		assert_non_null(strstr(tj_last_error(c)->message, "matmul"));
		assert_non_null(strstr(tj_last_error(c)->message, "tj_check() in the body"));
		assert_f32(tj_call1(g, TJ_LIST(x)), 0, -1, -2, 0, 0, 0);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- reasons: text of the last one, and how many ---- */
typedef struct told { int n; char kind[32], text[512], hint[256]; } told;
static void take_reason(void *self, const tj_reason *r)
{
	told *t = self;
	t->n++;
	snprintf(t->kind, sizeof t->kind, "%s", r->kind);
	snprintf(t->text, sizeof t->text, "%s", r->text);
	snprintf(t->hint, sizeof t->hint, "%s", r->hint);
}
static void says(const told *t, const char *part)
{
	if (!strstr(t->text, part)) fail_msg("\"%s\" is not in \"%s\"", part, t->text);
}
static void says_not(const told *t, const char *part)
{
	if (strstr(t->text, part)) fail_msg("\"%s\" is in \"%s\"", part, t->text);
}

/* Audit names the difference, and never says "was 2, is 2". */
typedef struct hidden { int64_t start; double number; int which, source; tj_tensor *a, *b; } hidden;
static void depends_on_hidden(tj_tensor **out, tj_tensor *const *in, void *self)
{
	hidden *h = self;
	tj_tensor *y = tj_slice(in[0], 0, h->start, h->start + 2, 1);
	y = tj_mul(y, h->source ? tj_arg_f(0) : tj_f(h->number));
	tj_assign(h->which ? h->b : h->a, tj_sum(y, TJ_ALL, false));
	out[0] = y;
}

static void audit_says_what_differs(void **s)
{
	(void)s;
	static const char *const want[] = { "", "was 2, is 2.0000000000000004", "writes another cell", "was the constant 2, is scalar 0" };
	for (int k = 0; k < 4; k++) {
		told t = { 0 };
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		hidden h = { .number = 2, .a = kit_param(c, 0), .b = kit_param(c, 0) };
		tj_fn *f = tj_compile(c, depends_on_hidden, &h,
		                      TJ_OPTS(tj_compile_opts, .name = "hidden", .nin = 1, .nout = 1, .mode = TJ_DIRECT,
		                              .state = TJ_VARS(&h.a, &h.b), .on_recompile = take_reason, .on_recompile_self = &t));
		tj_tensor *x = F32(c, 1, 2, 3, 4), *y;
		for (int i = 0; i < 4; i++) assert_int_equal(tj_call_ex(f, &y, TJ_LIST(x), TJ_SCALARS(TJ_F(2))), TJ_OK);
		assert_int_equal(t.n, 0);
		if (k == 0) h.start = 1;
		if (k == 1) h.number = 2.0000000000000004;
		if (k == 2) h.which = 1;
		if (k == 3) h.source = 1;
		assert_int_equal(tj_call_ex(f, &y, TJ_LIST(x), TJ_SCALARS(TJ_F(2))), TJ_OK);
		if (k == 0) says(&t, "slice");
		if (k) assert_string_equal(t.kind, "impure"); /* else the mismatch of the event is told first */
		says(&t, k ? want[k] : "attribute");
		says_not(&t, "was 2, is 2;");
		assert_int_equal((int)tj_item(h.b), k == 2 ? 6 : 0); /* and the effects of the call are right */
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- numbers in the place of tensors, and of other numbers ---- */
static void scales(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *by = self ? *(tj_tensor **)self : in[1];
	out[0] = tj_mul(in[0], by);
}
static void number_hints(void **s)
{
	(void)s;
	for (int k = 0; k < 4; k++) {
		bool inside = k & 1;
		told t = { 0 };
		tj_ctx *c = kit_open();
		tj_tensor *by, *x = F32(c, 1, 2), *y, *const list[] = { k < 2 ? F32(c, 2, 2) : tj_i(2), tj_f(2) };
		tj_fn *f = tj_compile(c, scales, inside ? &by : NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "scales", .nin = 2, .nout = 1, .on_recompile = take_reason,
		                              .on_recompile_self = &t));
		for (int i = 0; i < 2; i++) {
			by = list[i];
			assert_int_equal(tj_call(f, &y, TJ_LIST(x, inside ? x : by)), TJ_OK);
			assert_f32(y, 2, 4);
		}
		assert_string_equal(t.kind, "number");
		assert_non_null(strstr(t.hint, k < 2 ? "always pass a tensor or always a number" : "not both"));
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- constants of equal content ---- */
static void scales_by_constant(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *k = tj_constant(tj_ctx_current(), TJ_F32, TJ_SHAPE(2), self);
	out[0] = tj_mul(in[0], k);
}
static void constants_by_content(void **s)
{
	(void)s;
	told t = { 0 };
	float v[2] = { 2, 3 };
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(
		c, scales_by_constant, v,
		TJ_OPTS(tj_compile_opts, .name = "scaled", .nin = 1, .nout = 1, .on_recompile = take_reason, .on_recompile_self = &t));
	tj_tensor *x = F32(c, 1, 1);
	for (int i = 0; i < 20; i++) assert_f32(tj_call1(f, TJ_LIST(x)), 2, 3);
	assert_int_equal(t.n, 0);
	assert_int_equal(kit_stats(f).plans, 1);
	for (int i = 0; i < 6; i++) { /* another content is another trace; back to the first is none */
		v[0] = i & 1 ? 5 : 2;
		assert_f32(tj_call1(f, TJ_LIST(x)), v[0], 3);
	}
	assert_int_equal(kit_stats(f).plans, 2);
	assert_string_equal(t.kind, "constant");
	kit_ok(c);
	tj_close(c);
}

/* The same reason many times is one line with a count. */
static void repeated_reasons(void **s)
{
	(void)s;
	float v[2] = { 1, 1 };
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "scaled", scales_by_constant, v, 1, 1);
	tj_tensor *x = F32(c, 1, 1);
	int shown = 0, counted = 0;
	for (int i = 0; i < 40; i++) {
		v[0] = (float)i;
		assert_f32(tj_call1(f, TJ_LIST(x)), v[0], 1);
	}
	char *all = kit_explain(f);
	for (const char *p = all; (p = strstr(p, "constant differs")) != NULL; p++) shown++;
	for (const char *p = all; (p = strstr(p, " times)")) != NULL; p++) counted++;
	if (shown > 3 || !counted || !strstr(all, "traced again 39 times")) fail_msg("%d lines:\n%s", shown, all);
	free(all);
	kit_ok(c);
	tj_close(c);
}

/* ---- options and lists ---- */
static void same(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(tj_add(in[0], in[0]));
}
static void bad_options(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_null(tj_compile(c, same, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .max_entries = -5)));
	kit_error(c, TJ_ERR_ARG, ".max_entries");
	tj_fn *f = tj_compile(c, same, NULL, TJ_OPTS(tj_compile_opts, .name = "evil\n}\ndefine \"x\\", .nin = 1, .nout = 1));
	tj_tensor *y = NULL, *x = F32(c, 0, 0);
	const tj_scalar odd[] = { { (tj_scalar_kind)7, 0, 0 }, tj_scalar_end() };
	assert_int_equal(tj_call_ex(f, &y, TJ_LIST(x), odd), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "scalar 0 has no valid kind (7)");
	assert_f32(tj_call1(f, TJ_LIST(x)), 1, 1);
	assert_true(!strcmp(kit_backend, "eval") || kit_stats(f).kernels == 1); /* LLVM took the name */
	char *all = kit_explain(f);
	assert_null(strstr(all, "evil\n"));
	free(all);
	kit_ok(c);
	tj_close(c);
}

static void empty_range(void **s)
{
	(void)s;
	static const struct {
		const char *spec, *says;
	} list[] = { { "[B]; B in 0..0", "not in 0..0" }, { "[B]; B in 5..", "not in 5.." }, { "[B]; B in 3..4", "not in 3..4" } };
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < 3; i++) {
		tj_fn *f = tj_compile(c, same, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .shapes = list[i].spec));
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(F32(c, 1, 2)))));
		kit_error(c, TJ_ERR_SHAPE, list[i].says);
	}
	kit_ok(c);
	tj_close(c);
}

static void divides(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_floor_divide(in[0], in[1]);
}
static void calls_divides(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_call(self, out, TJ_LIST(in[0], in[1]));
}
static void nested_options_are_told(void **s)
{
	(void)s;
	told t = { 0 };
	tj_ctx *c = kit_open();
	const int32_t one[] = { 4 }, zero[] = { 0 };
	tj_tensor *x = tj_from_data(c, TJ_I32, TJ_SHAPE(1), one), *z = tj_from_data(c, TJ_I32, TJ_SHAPE(1), zero), *y = NULL;
	tj_fn *in = tj_compile(c, divides, NULL, TJ_OPTS(tj_compile_opts, .name = "lenient", .nin = 2, .nout = 1, .int_div_zero = TJ_ZERO));
	tj_fn *f = tj_compile(c, calls_divides, in,
	                      TJ_OPTS(tj_compile_opts, .name = "strict", .nin = 2, .nout = 1, .on_note = take_reason, .on_note_self = &t));
	assert_int_equal(tj_call(in, &y, TJ_LIST(x, z)), TJ_OK);
	assert_int_equal((int)tj_item(y), 0);
	assert_int_equal(tj_call(f, &y, TJ_LIST(x, z)), TJ_ERR_DIV);
	tj_check(c);
	char *all = kit_explain(f);
	assert_non_null(strstr(all, "lenient: called in the body of strict, it computes with the .int_div_zero of that function"));
	free(all);
	tj_close(c);
}

/* ---- passes that are careless with NULL ---- */
static tj_status careless(tj_graph *g, void *self)
{
	tj_node *n = tj_graph_first(g), *no = tj_node_input(n, 99);
	bool *ok = self;
	*ok = !no && !tj_node_next(no) && !tj_node_input(no, 0) && !strcmp(tj_node_op(no), "?") && tj_node_inputs(no) == 0 &&
	      tj_node_uses(no) == 0 && tj_node_attrs(no) == 0 && tj_node_attr(no, 0) == 0 && tj_node_rank(no) == -1 &&
	      tj_node_dim(no, 0) == -1 && !strcmp(tj_node_site(no), "?") && tj_node_slot(no) == -1 && !tj_node_strides(no) &&
	      !tj_node_data(no) && tj_node_dtype(no) == TJ_F32 && !tj_graph_first(NULL) && tj_graph_outputs(NULL) == 0 &&
	      !tj_graph_output(NULL, 0) && !tj_graph_replace(g, no, n) && !tj_graph_erase(g, no) && !tj_graph_erase(NULL, n) &&
	      !tj_graph_insert(NULL, NULL, "neg", &n, 1, NULL, 0) && !tj_graph_insert_constant(NULL, NULL, TJ_F32, TJ_0D, "abcd");
	tj_graph_print(NULL, stderr, TJ_DUMP_GRAPH);
	tj_graph_print(g, NULL, TJ_DUMP_GRAPH);
	return TJ_OK;
}
typedef struct insertion { const char *op; bool inputs, attrs; int n, nattr; const char *says; } insertion;
static tj_status inserts(tj_graph *g, void *self)
{
	const insertion *i = self;
	tj_node *n = tj_graph_first(g);
	const int64_t attr[1] = { 0 };
	tj_graph_insert(g, NULL, i->op, i->inputs ? &n : NULL, i->n, i->attrs ? attr : NULL, i->nattr);
	return TJ_OK;
}
static void careless_passes(void **s)
{
	(void)s;
	static const insertion list[] = {
		{ "exp", true, false, -1, 0, "insert exp: the number of inputs is negative" },
		{ "exp", false, false, 1, 0, "insert exp: the list of inputs is NULL" },
		{ "sum", true, false, 1, 2, "insert sum: the list of attributes is NULL" },
		{ "sum", true, true, 1, -2, "attributes is negative" },
		{ NULL, true, false, 1, 0, "no op is called \"NULL\"" },
		{ "expp", true, false, 1, 0, "no op is called \"expp\"" },
	};
	tj_ctx *c = kit_open();
	bool ok = false;
	const tj_pass pass[] = { { "careless", careless, &ok }, { 0 } };
	tj_fn *f = tj_compile(c, same, NULL, TJ_OPTS(tj_compile_opts, .name = "same", .nin = 1, .nout = 1, .passes = pass));
	assert_true(tj_is_poison(tj_call1(f, TJ_LIST(F32(c, 0))))); /* the first mistake ends the compile */
	kit_error(c, TJ_ERR_COMPILE, "replace: the node is NULL");
	assert_true(ok);
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const tj_pass one[] = { { "inserts", inserts, (void *)&list[i] }, { 0 } };
		tj_fn *h = tj_compile(c, same, NULL, TJ_OPTS(tj_compile_opts, .name = "same", .nin = 1, .nout = 1, .passes = one));
		assert_true(tj_is_poison(tj_call1(h, TJ_LIST(F32(c, 0)))));
		kit_error(c, TJ_ERR_COMPILE, list[i].says);
	}
	tj_perror(NULL, stderr);
	tj_perror(c, NULL);
	tj_explain(NULL, stderr);
	tj_explain(f, NULL);
	tj_dump(NULL, TJ_DUMP_GRAPH, stderr);
	tj_dump(f, TJ_DUMP_GRAPH, NULL);
	kit_ok(c);
	tj_close(c);
}

/* ---- operands and arguments ---- */
typedef tj_tensor *mistake(tj_tensor *const *in);
static tj_tensor *behind_the_last(tj_tensor *const *in) { return tj_add(in[0], in[1]); }
static tj_tensor *by_a_number(tj_tensor *const *in)
{
	tj_tensor *g[1];
	tj_grad(g, tj_sum(in[0], TJ_ALL, false), TJ_LIST(tj_f(2)), NULL);
	return g[0];
}
static tj_tensor *before_the_first(tj_tensor *const *in)
{
	const int64_t at[] = { -4 };
	return tj_index(in[0], TJ_AXES(0), TJ_LIST(tj_from_data(tj_ctx_current(), TJ_I64, TJ_SHAPE(1), at)));
}
static tj_tensor *large_number(tj_tensor *const *in) { return tj_mul(in[0], tj_i((int64_t)1 << 52)); }
static tj_tensor *column_of_losses(tj_tensor *const *in) { return tj_mse_loss(in[0], tj_reshape(in[0], TJ_SHAPE(3, 1)), TJ_LOSS_MEAN); }
static tj_tensor *wide_weight(tj_tensor *const *in) { return tj_linear(in[0], tj_zeros(TJ_F32, TJ_SHAPE(2, 4)), NULL); }
static tj_tensor *one_probability(tj_tensor *const *in)
{
	return tj_cross_entropy_loss(tj_reshape(in[0], TJ_SHAPE(1, 3)), in[0], NULL);
}
static tj_tensor *two_classes(tj_tensor *const *in)
{
	return tj_cross_entropy_loss(tj_reshape(in[0], TJ_SHAPE(1, 3)), tj_zeros(TJ_I64, TJ_SHAPE(2)), NULL);
}
static void makes_mistake(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = (*(mistake *const *)self)(in); }

static void operands_are_told(void **s)
{
	static const struct { mistake *f; tj_status code; const char *message, *hint;
	} list[] = {
		{ behind_the_last, TJ_ERR_ARG, "operand 1 is TJ_END, the end of a list", "if the body reads in[1]: .nin of f is 1; raise it" },
		{ by_a_number, TJ_ERR_DTYPE, "tensor 0 of those asked for is a number", "only tensors of floats" },
		{ before_the_first, TJ_ERR_INDEX, "out of range for an axis of size 3", "an index counts from 0, or from -1 at the end" },
		{ large_number, TJ_ERR_LIMIT, "4503599627370496 is beyond 2^51", "make it a tensor with tj_from_data()" },
		{ column_of_losses, TJ_ERR_SHAPE, "have different shapes: f32[3] and f32[3,1]", "tj_reshape()" },
		{ wide_weight, TJ_ERR_SHAPE, "for 4 inputs: x is f32[3], the weight f32[2,4]", "[outputs, inputs]" },
		{ one_probability, TJ_ERR_SHAPE, "not the shape of x: x is f32[1,3], the target f32[3]", "a probability for each class" },
		{ two_classes, TJ_ERR_SHAPE, "without the axis of the classes: x is f32[1,3], the target i64[2]", "target [N]" },
	};
	(void)s;
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		mistake *const self = list[i].f;
		tj_tensor *y = tj_call1(kit_fn(c, "f", makes_mistake, (void *)&self, 1, 1), TJ_LIST(F32(c, 1, 2, 3)));
		tj_data(y);
		kit_error(c, list[i].code, list[i].message);
		if (!strstr(tj_last_error(c)->hint, list[i].hint)) fail_msg("%s instead of %s", tj_last_error(c)->hint, list[i].hint);
	}
	tj_tensor *x = F32(c, 1);
	tj_fn *f = kit_fn(c, "f", same, NULL, 1, 1);
	tj_call1(f, TJ_LIST(x, x));
	kit_error(c, TJ_ERR_ARG, "f takes 1 arguments, more are given");
	if (!strstr(tj_last_error(c)->hint, "; or raise .nin, as compiled at ")) fail_msg("%s", tj_last_error(c)->hint);
	kit_ok(c);
	tj_close(c);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fault_names_the_line), cmocka_unit_test(error_checked_in_the_body), cmocka_unit_test(audit_says_what_differs),
		cmocka_unit_test(number_hints), cmocka_unit_test(constants_by_content), cmocka_unit_test(repeated_reasons), cmocka_unit_test(bad_options),
		cmocka_unit_test(empty_range), cmocka_unit_test(nested_options_are_told), cmocka_unit_test(careless_passes),
		cmocka_unit_test(operands_are_told),
	};
	KIT_RUN(tests);
}
