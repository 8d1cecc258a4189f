/* SPDX-License-Identifier: MIT */
/* Guards: each kind fires when it must, says what differed and where, and does not fire when nothing relevant has changed. */
#include "test/kit.h"

/* ---- what .on_recompile was told ---- */
typedef struct told {
	int n, arg, dim, event;
	char kind[32], expected[128], found[128], site[128], hint[256], text[600];
} told;

static void tell(void *self, const tj_reason *why)
{
	told *t = self;
	t->n++;
	t->arg = why->arg;
	t->dim = why->dim;
	t->event = why->event;
	snprintf(t->kind, sizeof t->kind, "%s", why->kind);
	snprintf(t->expected, sizeof t->expected, "%s", why->expected);
	snprintf(t->found, sizeof t->found, "%s", why->found);
	snprintf(t->site, sizeof t->site, "%s", why->site);
	snprintf(t->hint, sizeof t->hint, "%s", why->hint);
	snprintf(t->text, sizeof t->text, "%s", why->text);
}

typedef struct fixture { /* a context, a function, what it says */
	tj_ctx *c;
	tj_fn *f;
	told told;
} fixture;

static void open_with(fixture *x, tj_body *body, void *self, int nin)
{
	memset(x, 0, sizeof *x);
	x->c = kit_open();
	x->f = tj_compile(x->c, body, self, TJ_OPTS(tj_compile_opts, .name = "guarded", .nin = nin, .nout = 1, .on_recompile = tell,
	                                            .on_recompile_self = &x->told));
	assert_non_null(x->f);
}

static void close_it(fixture *x)
{
	kit_ok(x->c);
	tj_close(x->c);
}

static void contains(const char *text, const char *part)
{
	if (!strstr(text, part)) fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* The guard has fired once, for this reason; callback and explain agree, with file:line and a hint. */
static void fired(fixture *x, const char *kind, int arg, int dim, const char *expected, const char *found)
{
	assert_int_equal(x->told.n, 1);
	assert_string_equal(x->told.kind, kind);
	assert_int_equal(x->told.arg, arg);
	assert_int_equal(x->told.dim, dim);
	contains(x->told.expected, expected);
	contains(x->told.found, found);
	contains(x->told.site, "test_guards.c:");
	contains(x->told.text, "guarded");
	assert_true(x->told.hint[0]);
	char *all = kit_explain(x->f);
	contains(all, "traced again 1 times");
	contains(all, expected);
	contains(all, found);
	contains(all, x->told.hint);
	contains(all, x->told.site);
	free(all);
	x->told.n = 0;
}

/* The calls since the first one were hits. */
static void quiet(const fixture *x, unsigned long long plans)
{
	if (x->told.n) fail_msg("traced again: %s", x->told.text);
	assert_int_equal(kit_stats(x->f).plans, plans);
}

static void twice_in(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[0]);
}

/* ---- entry guards ---- */
static void size(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2))), 2, 4);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 5, -7))), 10, -14); /* other values */
	quiet(&x, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2, 3))), 2, 4, 6);
	fired(&x, "size", 0, 0, "2", "3");
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 9, 8))), 18, 16);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 9, 8, 7))), 18, 16, 14); /* both are kept */
	quiet(&x, 2);
	close_it(&x);
}

static void second_size(void **s)
{
	(void)s;
	fixture x;
	float v[12] = { 0 };
	open_with(&x, twice_in, NULL, 1);
	tj_call1(x.f, TJ_LIST(tj_from_data(x.c, TJ_F32, TJ_SHAPE(2, 3), v)));
	tj_call1(x.f, TJ_LIST(tj_from_data(x.c, TJ_F32, TJ_SHAPE(2, 6), v)));
	fired(&x, "size", 0, 1, "3", "6");
	close_it(&x);
}

static void dtype(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2)));
	tj_tensor *y = tj_call1(x.f, TJ_LIST(tj_from_data(x.c, TJ_I32, TJ_SHAPE(2), (int32_t[]){ 3, 4 })));
	assert_int_equal(tj_dtype_of(y), TJ_I32);
	assert_int_equal(((const int32_t *)tj_data(y))[1], 8);
	fired(&x, "dtype", 0, -1, "f32", "i32");
	close_it(&x);
}

static void rank(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2)));
	assert_f32(tj_call1(x.f, TJ_LIST(tj_unsqueeze(F32(x.c, 1, 2), 0))), 2, 4);
	fired(&x, "rank", 0, -1, "1", "2");
	close_it(&x);
}

static void stride(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("the evaluator copies what is there");
	fixture x;
	float v[6] = { 0, 1, 2, 3, 4, 5 }, w[6] = { 5, 4, 3, 2, 1, 0 };
	open_with(&x, twice_in, NULL, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(tj_from_data(x.c, TJ_F32, TJ_SHAPE(3, 2), v))), 0, 2, 4, 6, 8, 10);
	tj_tensor *t = tj_transpose(tj_from_data(x.c, TJ_F32, TJ_SHAPE(2, 3), v), 0, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(t)), 0, 6, 2, 8, 4, 10);
	fired(&x, "stride", 0, -1, "row-major", "strides");
	t = tj_transpose(tj_from_data(x.c, TJ_F32, TJ_SHAPE(2, 3), w), 0, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(t)), 10, 4, 8, 2, 6, 0); /* the same strides, another tensor */
	quiet(&x, 2);
	close_it(&x);
}

/* Element 0 four bytes further on is no reason to trace anew. */
static void alignment(void **s)
{
	(void)s;
	fixture x;
	float v[64], want[60];
	for (int i = 0; i < 64; i++) v[i] = (float)i;
	open_with(&x, twice_in, NULL, 1);
	tj_tensor *base = tj_from_data(x.c, TJ_F32, TJ_SHAPE(64), v);
	for (int at = 0; at < 5; at++) {
		for (int i = 0; i < 60; i++) want[i] = 2 * (float)(i + at);
		kit_equal(tj_call1(x.f, TJ_LIST(tj_slice(base, 0, at, at + 60, 1))), 60, want);
	}
	quiet(&x, 1);
	close_it(&x);
}

static void cell_or_not(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	tj_tensor *p = kit_param(x.c, 3), *q = kit_param(x.c, 5);
	assert_f32(tj_call1(x.f, TJ_LIST(p)), 6);
	assert_f32(tj_call1(x.f, TJ_LIST(q)), 10); /* another cell */
	tj_assign(p, tj_f(8));
	assert_f32(tj_call1(x.f, TJ_LIST(p)), 16);
	quiet(&x, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(tj_from_data(x.c, TJ_F32, TJ_0D, (float[]){ 4 }))), 8);
	fired(&x, "cell", 0, -1, "a cell", "a tensor");
	close_it(&x);
}

static void number_argument(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	assert_true(tj_item(tj_call1(x.f, TJ_LIST(tj_f(1.5)))) == 3);
	assert_true(tj_item(tj_call1(x.f, TJ_LIST(tj_f(-4)))) == -8); /* another value */
	if (x.told.n) fail_msg("traced again: %s", x.told.text);
	assert_int_equal(tj_item_i(tj_call1(x.f, TJ_LIST(tj_i(7)))), 14);
	fired(&x, "number", 0, -1, "a float number", "an int number");
	close_it(&x);
}

static void scaled_by(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(tj_mul(in[0], tj_arg_f(1)), tj_i(tj_arg_i(0)));
}
static void scalar(void **s)
{
	(void)s;
	fixture x;
	tj_tensor *y = NULL;
	open_with(&x, scaled_by, NULL, 1);
	tj_tensor *in = F32(x.c, 1, 2);
	tj_call_ex(x.f, &y, TJ_LIST(in), TJ_SCALARS(TJ_I(3), TJ_F(0.5)));
	assert_f32(y, 1.5, 3);
	tj_call_ex(x.f, &y, TJ_LIST(in), TJ_SCALARS(TJ_I(3), TJ_F(2)));
	assert_f32(y, 6, 12);
	quiet(&x, 1);
	tj_call_ex(x.f, &y, TJ_LIST(in), TJ_SCALARS(TJ_I(4), TJ_F(2)));
	assert_f32(y, 8, 16);
	fired(&x, "scalar", 0, -1, "3", "4");
	close_it(&x);
}

static void times_first(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_arg_f(0));
}
static void scalars(void **s)
{
	(void)s;
	fixture x;
	tj_tensor *y = NULL;
	open_with(&x, times_first, NULL, 1);
	tj_tensor *in = F32(x.c, 1, 2);
	tj_call_ex(x.f, &y, TJ_LIST(in), TJ_SCALARS(TJ_F(3), TJ_I(1)));
	assert_f32(y, 3, 6);
	quiet(&x, 1);
	tj_call_ex(x.f, &y, TJ_LIST(in), TJ_SCALARS(TJ_F(4)));
	assert_f32(y, 4, 8);
	fired(&x, "scalars", -1, -1, "(float, int)", "(float)");
	close_it(&x);
}

static void constant(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, twice_in, NULL, 1);
	tj_tensor *a = tj_constant(x.c, TJ_F32, TJ_SHAPE(2), (float[]){ 1, 2 }), *b = tj_constant(x.c, TJ_F32, TJ_SHAPE(2), (float[]){ 3, 4 });
	assert_f32(tj_call1(x.f, TJ_LIST(a)), 2, 4);
	assert_f32(tj_call1(x.f, TJ_LIST(a)), 2, 4);
	quiet(&x, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(b)), 6, 8);
	fired(&x, "constant", 0, -1, "one constant", "another");
	close_it(&x);
}

/* ---- node guards ---- */
typedef struct knobs { tj_tensor *a, *b; int flag, n; double v; int64_t start; } knobs;

static void captured(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const knobs *k = self;
	out[0] = tj_sum(tj_mul(in[0], k->a), TJ_ALL, false);
}
static void capture(void **s)
{
	(void)s;
	fixture x;
	knobs k = { 0 };
	open_with(&x, captured, &k, 1);
	tj_tensor *in = F32(x.c, 1, 2), *w = F32(x.c, 3, 4), *v = F32(x.c, 5, 6);
	k.a = w;
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 11);
	k.a = v; /* swapped weights */
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 17);
	quiet(&x, 1);
	k.a = F32(x.c, 10);
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 30);
	fired(&x, "capture", 1, 0, "2", "1");
	assert_int_equal(x.told.event, 0);
	close_it(&x);
}

static void captured_pair(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const knobs *k = self;
	out[0] = tj_add(tj_mul(in[0], k->a), k->b);
}
static void alias(void **s)
{
	(void)s;
	fixture x;
	knobs k = { 0 };
	open_with(&x, captured_pair, &k, 1);
	tj_tensor *in = F32(x.c, 1, 2), *v = F32(x.c, 3, 4), *w = F32(x.c, 5, 6);
	k.a = v, k.b = w;
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 8, 14);
	k.a = w, k.b = v;
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 8, 16);
	quiet(&x, 1);
	k.a = k.b = v;
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 6, 12);
	fired(&x, "alias", 1, -1, "a tensor not read before, f32[2]", "the tensor that mul at ");
	k.a = k.b = w;
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 10, 18);
	quiet(&x, 2);
	close_it(&x);
}

static void sum_of_two(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sub(in[0], in[1]);
}
/* Two arguments may be one tensor: placeholders are fresh. */
static void arguments_may_alias(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, sum_of_two, NULL, 2);
	tj_tensor *a = F32(x.c, 1, 2), *b = F32(x.c, 5, 5);
	assert_f32(tj_call1(x.f, TJ_LIST(b, a)), 4, 3);
	assert_f32(tj_call1(x.f, TJ_LIST(a, a)), 0, 0);
	quiet(&x, 1);
	close_it(&x);
}

static void flagged(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_abs(in[0]);
	out[0] = ((knobs *)self)->flag ? tj_neg(y) : tj_square(y);
}
static void op(void **s)
{
	(void)s;
	fixture x;
	knobs k = { 0 };
	open_with(&x, flagged, &k, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 9);
	k.flag = 1;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), -3);
	assert_int_equal(x.told.event, 1);
	fired(&x, "op", -1, -1, "square at ", "neg at ");
	for (k.flag = 0; k.flag < 2; k.flag++) tj_call1(x.f, TJ_LIST(F32(x.c, 4)));
	quiet(&x, 2);
	close_it(&x);
}

static void number_in_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const knobs *k = self;
	out[0] = tj_mul(in[0], k->flag ? tj_i((int64_t)k->v) : tj_f(k->v));
}
static void number(void **s)
{
	(void)s;
	fixture x;
	knobs k = { .v = 2 };
	open_with(&x, number_in_body, &k, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 6);
	k.v = 0.5;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 1.5);
	k.v = 1; /* not even values that folds look for */
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 3);
	quiet(&x, 1);
	k.flag = 1;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 3);
	fired(&x, "number", 1, -1, "a float number", "an int number");
	close_it(&x);
}

static void sliced(tj_tensor **out, tj_tensor *const *in, void *self)
{
	int64_t at = ((knobs *)self)->start;
	out[0] = tj_neg(tj_slice(in[0], 0, at, at + 2, 1));
}
static void attribute(void **s)
{
	(void)s;
	fixture x;
	knobs k = { .start = 0 };
	open_with(&x, sliced, &k, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2, 3, 4))), -1, -2);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 5, 6, 7, 8))), -5, -6);
	quiet(&x, 1);
	k.start = 1;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2, 3, 4))), -2, -3);
	fired(&x, "attribute", -1, 1, "0", "1");
	close_it(&x);
}

static void swapped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *a = tj_neg(in[0]), *b = tj_abs(in[0]);
	out[0] = ((knobs *)self)->flag ? tj_sub(b, a) : tj_sub(a, b);
}
static void operand(void **s)
{
	(void)s;
	fixture x;
	knobs k = { 0 };
	open_with(&x, swapped, &k, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), -6);
	k.flag = 1;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3))), 6);
	fired(&x, "operand", 0, -1, "the result of event 0", "the result of event 1");
	close_it(&x);
}

static void branching(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0))) ? tj_neg(in[0]) : tj_abs(in[0]);
}
static void branch(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, branching, NULL, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 3, 1))), -3, -1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 4, 1))), -4, -1);
	quiet(&x, 2); /* up to the branch, and from there */
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, -3, 1))), 3, 1);
	fired(&x, "branch", -1, -1, "neg at ", "abs at ");
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, -9, 1))), 9, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 9, 1))), -9, -1);
	quiet(&x, 3);
	close_it(&x);
}

static void looped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = in[0];
	for (int i = 0; i < ((knobs *)self)->n; i++) out[0] = tj_add(out[0], in[0]);
}
static void end(void **s)
{
	(void)s;
	fixture x;
	knobs k = { .n = 2 };
	open_with(&x, looped, &k, 1);
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1))), 3);
	k.n = 3;
	assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1))), 4);
	fired(&x, "end", -1, -1, "return at ", "add at ");
	close_it(&x);
}

/* A cell in place of a captured tensor, and back. */
static void captured_cell(void **s)
{
	(void)s;
	fixture x;
	knobs k = { 0 };
	open_with(&x, captured, &k, 1);
	tj_tensor *in = tj_from_data(x.c, TJ_F32, TJ_0D, (float[]){ 2 });
	k.a = kit_param(x.c, 3);
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 6);
	k.a = kit_param(x.c, 7);
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 14);
	quiet(&x, 1);
	k.a = tj_from_data(x.c, TJ_F32, TJ_0D, (float[]){ 5 });
	assert_f32(tj_call1(x.f, TJ_LIST(in)), 10);
	fired(&x, "cell", 1, -1, "a cell", "a tensor");
	close_it(&x);
}

/* The nearest trace explains: of two, the one that differs in fewer arguments. */
static void nearest(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, sum_of_two, NULL, 2);
	tj_fn_free(x.f);
	x.f = tj_compile(x.c, sum_of_two, NULL, TJ_OPTS(tj_compile_opts, .nin = 2, .nout = 1, .on_recompile = tell, .on_recompile_self = &x.told,
	                                                .dynamic = TJ_DYNAMIC_OFF));
	tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2), F32(x.c, 1, 2)));
	tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2, 3), F32(x.c, 1, 2, 3)));
	x.told.n = 0;
	tj_call1(x.f, TJ_LIST(F32(x.c, 1, 2, 3), F32(x.c, 1)));
	assert_int_equal(x.told.n, 1);
	assert_string_equal(x.told.kind, "size");
	assert_int_equal(x.told.arg, 1);
	assert_string_equal(x.told.expected, "3");
	assert_string_equal(x.told.found, "1");
	close_it(&x);
}

/* ---- size 1, and sizes equal by chance ---- */
static void add_two(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[1]);
}
static void one_then_three(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "add", add_two, NULL, 2, 1);
	tj_tensor *one = F32(c, 10), *three = F32(c, 1, 2, 3);
	for (int round = 0; round < 2; round++) {
		assert_f32(tj_call1(f, TJ_LIST(three, one)), 11, 12, 13);
		assert_f32(tj_call1(f, TJ_LIST(three, three)), 2, 4, 6);
		assert_f32(tj_call1(f, TJ_LIST(one, one)), 20);
		assert_f32(tj_call1(f, TJ_LIST(one, three)), 11, 12, 13);
	}
	assert_int_equal(kit_stats(f).plans, 4);
	kit_ok(c);
	tj_close(c);
}

static void row_and_column(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "add", add_two, NULL, 2, 1);
	for (int64_t n = 1; n <= 4; n++) {
		float v[4] = { 1, 2, 3, 4 }, want[16];
		for (int64_t i = 0; i < n * n; i++) want[i] = v[i / n] * 10 + v[i % n];
		tj_tensor *row = tj_from_data(c, TJ_F32, TJ_SHAPE(1, n), v), *col = tj_mul(tj_from_data(c, TJ_F32, TJ_SHAPE(n, 1), v), tj_i(10));
		tj_tensor *y = tj_call1(f, TJ_LIST(row, col));
		assert_int_equal(tj_dim(y, 0), n);
		assert_int_equal(tj_dim(y, 1), n);
		kit_equal(y, (size_t)(n * n), want);
		kit_equal(tj_call1(f, TJ_LIST(col, row)), (size_t)(n * n), want);
	}
	kit_ok(c);
	tj_close(c);
}

static void multiplied(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], in[1]);
}
static void equal_by_chance(void **s)
{
	(void)s;
	static const int64_t size[][3] = { { 3, 3, 3 }, { 2, 3, 5 }, { 1, 3, 3 }, { 3, 1, 3 }, { 3, 3, 1 }, { 3, 3, 3 } };
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "mm", multiplied, NULL, 2, 1);
	float a[9], b[15];
	for (int i = 0; i < 9; i++) a[i] = (float)(i + 1);
	for (int i = 0; i < 15; i++) b[i] = (float)(i % 4 - 1);
	for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
		int64_t m = size[i][0], k = size[i][1], n = size[i][2];
		float want[15] = { 0 };
		for (int64_t r = 0; r < m; r++)
			for (int64_t q = 0; q < n; q++)
				for (int64_t j = 0; j < k; j++) want[r * n + q] += a[r * k + j] * b[j * n + q];
		tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(m, k), a), tj_from_data(c, TJ_F32, TJ_SHAPE(k, n), b)));
		kit_equal(y, (size_t)(m * n), want);
	}
	assert_int_equal(kit_stats(f).plans, 5);
	kit_ok(c);
	tj_close(c);
}

static void reduced(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_sum(in[0], TJ_AXES(0), true), in[0]);
}
static void size_one_reduced(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "reduced", reduced, NULL, 1, 1);
	for (int round = 0; round < 2; round++) {
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 5))), 10);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 7, 8, 9);
	}
	kit_ok(c);
	tj_close(c);
}

/* Constants in a loop are one number of the trace, guarded; when they part, the reason says so, and after a few traces
 * they are kept apart. */
static double factor[4];
static void loop_of_numbers(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < 4; i++) x = tj_mul(x, tj_f(factor[i]));
	out[0] = x;
}
static void numbers_of_one_line(void **s)
{
	(void)s;
	fixture x;
	open_with(&x, loop_of_numbers, NULL, 1);
	for (int call = 0; call < 40; call++) {
		float want = 1;
		for (int i = 0; i < 4; i++) {
			factor[i] = call < 3 ? 2 : 1 + (call * 7 + i * (call % 3)) % 5;
			want *= (float)factor[i];
		}
		assert_f32(tj_call1(x.f, TJ_LIST(F32(x.c, 1, -1))), want, -want);
		if (call == 2) assert_int_equal(x.told.n, 0);
		if (call == 4) assert_string_equal(x.told.kind, "numbers");
	}
	assert_true(kit_stats(x.f).plans <= 8); /* not one for each pattern */
	close_it(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size),
		cmocka_unit_test(second_size),
		cmocka_unit_test(dtype),
		cmocka_unit_test(rank),
		cmocka_unit_test(stride),
		cmocka_unit_test(alignment),
		cmocka_unit_test(cell_or_not),
		cmocka_unit_test(number_argument),
		cmocka_unit_test(scalar),
		cmocka_unit_test(scalars),
		cmocka_unit_test(constant),
		cmocka_unit_test(capture),
		cmocka_unit_test(alias),
		cmocka_unit_test(arguments_may_alias),
		cmocka_unit_test(op),
		cmocka_unit_test(number),
		cmocka_unit_test(attribute),
		cmocka_unit_test(operand),
		cmocka_unit_test(branch),
		cmocka_unit_test(end),
		cmocka_unit_test(captured_cell),
		cmocka_unit_test(nearest),
		cmocka_unit_test(one_then_three),
		cmocka_unit_test(row_and_column),
		cmocka_unit_test(equal_by_chance),
		cmocka_unit_test(numbers_of_one_line),
		cmocka_unit_test(size_one_reduced),
	};
	KIT_RUN(tests);
}
