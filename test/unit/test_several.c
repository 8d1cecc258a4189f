/* SPDX-License-Identifier: MIT */
/* Ops with several results: handles, unused results, kernels, memory, control flow, direct mode, passes, texts. */
#include "test/kit.h"

#include <math.h>

enum { ROWS = 3, COLS = 5 };
static const float rows[ROWS * COLS] = { 1, 7, 7, -2, 0, NAN, 3, NAN, 9, 1, -INFINITY, -INFINITY, -0.0f, 0.0f, -1 };

static tj_tensor *table(tj_ctx *c) { return tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, COLS), rows); }

static void assert_i64(tj_tensor *t, const int64_t *want, int n)
{
	assert_int_equal(tj_dtype_of(t), TJ_I64);
	assert_int_equal(tj_numel(t), n);
	assert_memory_equal(tj_data(t), want, (size_t)n * sizeof *want);
}

/* Each value is the element that its index names, to the bit. */
static void assert_pair(tj_tensor *values, tj_tensor *indices, const int64_t *at)
{
	assert_i64(indices, at, ROWS);
	const float *v = tj_data(values);
	for (int i = 0; i < ROWS; i++) assert_memory_equal(&v[i], &rows[i * COLS + at[i]], sizeof *v);
}

static const int64_t largest[ROWS] = { 1, 0, 2 }, smallest[ROWS] = { 3, 0, 0 };

/* ---- outside of compiled functions: the evaluator at first, then code ---- */
static void outside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = table(c);
	for (int i = 0; i < 5; i++) {
		tj_tensor *at = NULL, *v = tj_max_with_indices(x, 1, false, &at);
		assert_pair(v, at, largest);
		v = tj_min_with_indices(x, -1, false, &at);
		assert_pair(v, at, smallest);
		assert_f32(tj_max_with_indices(x, 0, true, NULL), NAN, 7, NAN, 9, 1);
		v = (tj_max_with_indices)(x, TJ_END_DIM, false, &at); /* the function */
		assert_true(isnan(tj_item(v)));
		assert_int_equal(tj_item_i(at), 5);
		v = tj_min_with_indices(tj_f(3), 0, false, &at); /* a number, as a tensor: the value is the operand itself */
		assert_f32(v, 3);
		assert_int_equal(tj_item_i(at), 0);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- in a function ---- */
static void both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *v = tj_max_with_indices(tj_mul(in[0], tj_f(2)), 1, false, &out[1]);
	out[0] = tj_neg(v);
	out[1] = tj_add(out[1], tj_i(10));
}
static void values(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_max_with_indices(in[0], 1, false, NULL); }
static void indices(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)tj_max_with_indices(in[0], 1, false, &out[0]); }
static void unused(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *at;
	(void)self, (void)tj_max_with_indices(in[0], 1, false, &at);
	out[0] = tj_neg(in[0]);
}

static void one_kernel_each(void **s)
{
	(void)s;
	static const struct {
		tj_body *body;
		int nout;
		const char *never;
	} cases[] = { { both, 2, "call" }, { values, 1, "i64" }, { indices, 1, "atmax" }, { unused, 1, "max" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		tj_fn *f = kit_fn(c, "f", cases[i].body, NULL, 1, cases[i].nout);
		for (int k = 0; k < 3; k++) {
			tj_tensor *out[2];
			assert_int_equal(tj_call(f, out, TJ_LIST(table(c))), TJ_OK);
			if (cases[i].body == both) {
				assert_f32(out[0], -14, NAN, 0);
				assert_i64(out[1], (int64_t[]){ 11, 10, 12 }, ROWS);
			} else if (cases[i].body == values) assert_f32(out[0], 7, NAN, -0.0f);
			else if (cases[i].body == indices) assert_i64(out[0], largest, ROWS);
		}
		if (!strcmp(kit_backend, "llvm")) {
			char *text = kit_dump(f, TJ_DUMP_KERNELS);
			assert_int_equal(kit_stats(f).kernels, 1);
			assert_int_equal(kit_stats(f).eval_steps, 0);
			assert_null(strstr(text, cases[i].never)); /* an unused result is neither computed nor stored */
			free(text);
		}
		kit_ok(c);
		tj_close(c);
	}
}

static void other_sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "f", both, NULL, 1, 2);
	for (int n = 1; n < 200; n = n * 2 + 1) {
		tj_tensor *out[2], *x = tj_cast(tj_reshape(tj_arange(TJ_I64, 0, 2 * n, 1), TJ_SHAPE(2, n)), TJ_F32);
		assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
		assert_f32(out[0], -2.0f * (float)(n - 1), -2.0f * (float)(2 * n - 1));
		assert_i64(out[1], (int64_t[]){ n + 9, n + 9 }, 2);
	}
	kit_ok(c);
	tj_close(c);
}

/* The set of results that C asks for may change from call to call. */
static void asks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *at = NULL, *v = tj_min_with_indices(in[0], 1, false, *(bool *)self ? &at : NULL);
	out[0] = at ? tj_add(v, tj_cast(at, TJ_F32)) : v;
}
static void wanted_or_not(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	bool index = false;
	tj_fn *f = kit_fn(c, "f", asks, &index, 1, 1);
	for (int i = 0; i < 6; i++, index = !index) assert_f32(tj_call1(f, TJ_LIST(table(c))), index ? 1 : -2, NAN, -INFINITY);
	assert_int_equal(kit_stats(f).recordings, 2);
	kit_ok(c);
	tj_close(c);
}

/* A value that C reads between the two results: the other one is recomputed, or was kept. */
static void reads_between(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *at, *v = tj_max_with_indices(in[0], TJ_END_DIM, false, &at);
	(void)self;
	out[0] = tj_item(v) > 5 ? tj_add(at, tj_i(100)) : at;
}
static void read_by_the_host(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "f", reads_between, NULL, 1, 1);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tj_item_i(tj_call1(f, TJ_LIST(F32(c, 1, 9, 3)))), 101);
		assert_int_equal(tj_item_i(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3)))), 2);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- direct mode, and audit of what it gives ---- */
static int runs;
static void counted(tj_tensor **out, tj_tensor *const *in, void *self) { runs++, both(out, in, self); }
static void skips_the_body(void **s)
{
	(void)s;
	for (int audit = 0; audit < 2; audit++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = audit));
		tj_fn *f = tj_compile(c, counted, NULL, TJ_OPTS(tj_compile_opts, "f", 1, 2, .mode = TJ_DIRECT));
		runs = 0;
		for (int i = 0; i < 6; i++) {
			tj_tensor *out[2];
			assert_int_equal(tj_call(f, out, TJ_LIST(table(c))), TJ_OK);
			assert_f32(out[0], -14, NAN, 0);
			assert_i64(out[1], (int64_t[]){ 11, 10, 12 }, ROWS);
		}
		if (!audit) assert_true(runs < 4 && kit_stats(f).direct > 0);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- in regions of control flow ---- */
static void index_again(tj_tensor **out, tj_tensor *const *in, void *self) /* takes the largest remaining element, until it is negative */
{
	tj_tensor *at, *v = tj_max_with_indices(in[0], 0, true, &at);
	(void)self;
	out[0] = tj_sub(in[0], tj_mul(tj_cast(tj_one_hot(tj_squeeze(at, TJ_ALL), 3), TJ_F32), tj_f(10)));
	out[1] = tj_add(in[1], v);
}
static void some_left(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_any(tj_gt(in[0], tj_f(0)), TJ_ALL, false);
}
static void each_row(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[1] = tj_min_with_indices(in[1], 0, false, &out[2]);
	out[0] = tj_add(in[0], out[1]);
}
static void yes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_max_with_indices(in[0], 0, false, &out[1]); }
static void no(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_min_with_indices(in[0], 0, false, &out[1]); }

static void loops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *carry[2];
	tj_while(carry, some_left, index_again, TJ_LIST(in[0], tj_full(TJ_F32, TJ_SHAPE(1), tj_f(0))), self, NULL);
	out[0] = carry[1];
	tj_scan(&out[1], &out[2], 2, each_row, TJ_LIST(tj_f(0)), TJ_LIST(in[1]), self, NULL);
	tj_cond(&out[4], 2, tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), yes, no, TJ_LIST(in[0]), self);
}
static void inside_regions(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "f", loops, NULL, 2, 6);
	for (int i = 0; i < 3; i++) {
		tj_tensor *out[6], *m = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 5, 4, 6, 3, 9, -2 });
		assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 1, 7, 5), m)), TJ_OK);
		assert_f32(out[0], 13); /* 7 + 5 + 1 */
		assert_f32(out[1], 2);  /* 4 - 2 */
		assert_f32(out[2], 4, -2);
		assert_i64(out[3], (int64_t[]){ 1, 2 }, 2);
		assert_f32(out[4], 7);
		assert_i64(out[5], (int64_t[]){ 1 }, 1);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- errors poison every result ---- */
static void refused(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *at = NULL, *v = tj_max_with_indices(table(c), 2, false, &at);
	kit_error(c, TJ_ERR_ARG, "axis out of range");
	assert_int_equal(tj_rank(v), -1);
	assert_int_equal(tj_rank(at), -1);
	at = NULL;
	v = tj_min_with_indices(NULL, 0, false, &at);
	assert_int_not_equal(tj_check(c), TJ_OK);
	assert_non_null(v);
	assert_non_null(at);
	tj_close(c);
}

/* ---- passes of users, and texts ---- */
static bool is(const tj_node *n, const char *op) { return !strcmp(tj_node_op(n), op); }

/* The index of the largest becomes that of the smallest: both gets read another node. */
static tj_status smallest_instead(tj_graph *g, void *self)
{
	(void)self;
	for (tj_node *n = tj_graph_first(g), *next; n; n = next) {
		next = tj_node_next(n);
		if (!is(n, "max_with_indices")) continue;
		tj_node *x = tj_node_input(n, 0),
			*other = tj_graph_insert(g, n, "min_with_indices", &x, 1, (int64_t[]){ tj_node_attr(n, 0), tj_node_attr(n, 1) }, 2);
		assert_int_equal(tj_node_rank(n), 1);
		assert_true(tj_graph_replace(g, n, other));
		return tj_graph_erase(g, n) ? TJ_OK : TJ_ERR_STATE;
	}
	return TJ_OK;
}

/* A get is inserted like an op. */
static tj_status swap(tj_graph *g, void *self)
{
	(void)self;
	tj_node *n = tj_graph_first(g);
	while (n && !is(n, "get")) n = tj_node_next(n);
	assert_non_null(n);
	assert_int_equal(tj_node_attrs(n), 1);
	tj_node *of = tj_node_input(n, 0), *again = tj_graph_insert(g, tj_node_next(n), "get", &of, 1, (int64_t[]){ tj_node_attr(n, 0) }, 1);
	assert_int_equal(tj_node_dtype(again), tj_node_dtype(n));
	return tj_graph_replace(g, n, again) ? TJ_OK : TJ_ERR_STATE;
}

static tj_status no_such_result(tj_graph *g, void *self)
{
	tj_node *n = tj_graph_first(g);
	while (!is(n, "max_with_indices")) n = tj_node_next(n);
	return (void)self, tj_graph_insert(g, NULL, "get", &n, 1, (int64_t[]){ 2 }, 1), TJ_OK;
}
static tj_status used_whole(tj_graph *g, void *self)
{
	tj_node *n = tj_graph_first(g);
	while (!is(n, "max_with_indices")) n = tj_node_next(n);
	return (void)self, tj_graph_insert(g, NULL, "neg", &n, 1, NULL, 0), TJ_OK;
}

static void passes_see_them(void **s)
{
	(void)s;
	static const struct {
		tj_pass pass;
		const char *error;
	} cases[] = { { { "swap", swap, NULL }, NULL },
		      { { "smallest", smallest_instead, NULL }, NULL },
		      { { "none", no_such_result, NULL }, "max_with_indices has no result 2" },
		      { { "whole", used_whole, NULL }, "operand 0 has several results" } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = kit_open();
		const tj_pass own[] = { cases[i].pass, { 0 } };
		tj_fn *f = tj_compile(c, both, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 2, .passes = own));
		tj_tensor *out[2], *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), (float[]){ 1, 7, -5, 2, 0, 4 });
		tj_status st = tj_call(f, out, TJ_LIST(x));
		if (cases[i].error) kit_error(c, st, cases[i].error);
		else if (i) assert_f32(out[0], 10, 0), assert_i64(out[1], (int64_t[]){ 12, 11 }, 2);
		else assert_f32(out[0], -14, -8), assert_i64(out[1], (int64_t[]){ 11, 12 }, 2);
		tj_close(c);
	}
}

static void texts(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "f", both, NULL, 1, 2);
	tj_tensor *out[2];
	for (int n = 3; n < 6; n++) assert_int_equal(tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(2, n), tj_f(1)))), TJ_OK);
	static const struct { tj_dump_what what; const char *part;
	} dumps[] = { { TJ_DUMP_GRAPH, "= max_with_indices %" },  { TJ_DUMP_GRAPH, "= get i64[2] %" },
		      { TJ_DUMP_TABLE, "max_with_indices" },      { TJ_DUMP_DOT, "max_with_indices\\n" },
		      { TJ_DUMP_TRACE, "max_with_indices  ext" }, { TJ_DUMP_SYMBOLS, "= get i64[" } };
	for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++) {
		char *text = kit_dump(f, dumps[i].what);
		if (i != 4 && !strstr(text, dumps[i].part)) fail_msg("\"%s\" is not in\n%s", dumps[i].part, text);
		free(text);
	}
	char *text = kit_explain(f);
	assert_non_null(strstr(text, "max_with_indices"));
	free(text);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outside), cmocka_unit_test(one_kernel_each), cmocka_unit_test(other_sizes), cmocka_unit_test(wanted_or_not),
		cmocka_unit_test(read_by_the_host), cmocka_unit_test(skips_the_body), cmocka_unit_test(inside_regions), cmocka_unit_test(refused),
		cmocka_unit_test(passes_see_them), cmocka_unit_test(texts)
	};
	KIT_RUN(tests);
}
