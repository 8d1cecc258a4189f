/* SPDX-License-Identifier: MIT */
/* Bad input: a clear error with file:line, no loss of data, and a context that still works. */
#include "test/kit.h"

static void still_works(tj_ctx *c)
{
	assert_f32(tj_add(F32(c, 1, 2), tj_f(1)), 2, 3);
	kit_ok(c);
}

static void wrong_shapes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	float v[12] = { 0 };
	tj_matmul(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 4), v), tj_from_data(c, TJ_F32, TJ_SHAPE(3, 4), v));
	kit_error(c, TJ_ERR_SHAPE, "f32[3,4]");
	tj_add(F32(c, 1, 2), F32(c, 1, 2, 3));
	kit_error(c, TJ_ERR_SHAPE, "f32[2]");
	tj_reshape(F32(c, 1, 2), TJ_SHAPE(3));
	kit_error(c, TJ_ERR_SHAPE, "");
	tj_reshape(F32(c, 1, 2), NULL);
	kit_error(c, TJ_ERR_ARG, "NULL");
	tj_sum(F32(c, 1, 2), TJ_AXES(1), false);
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_amax(tj_full(TJ_F32, TJ_SHAPE(0), tj_f(0)), TJ_ALL, false);
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_full(TJ_F32, TJ_SHAPE(-3, 2), tj_f(0));
	kit_error(c, TJ_ERR_SHAPE, "f32[-3,2]");
	tj_full(TJ_F32, TJ_SHAPE(INT64_MAX, 2), tj_f(0));
	kit_error(c, TJ_ERR_LIMIT, "f32[9223372036854775807,2]");
	tj_full((tj_dtype)99, TJ_SHAPE(2), tj_f(0));
	kit_error(c, TJ_ERR_ARG, "99");
	tj_mean(tj_full(TJ_I64, TJ_SHAPE(2), tj_i(0)), TJ_ALL, false);
	kit_error(c, TJ_ERR_DTYPE, "");
	still_works(c);
	tj_close(c);
}

static void first_error_stays(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *bad = tj_add(F32(c, 1, 2), F32(c, 1, 2, 3));
	assert_true(tj_is_poison(bad));
	assert_true(tj_is_poison(tj_exp(tj_neg(bad))));
	tj_matmul(tj_f(1), NULL);
	assert_true(tj_item(bad) != tj_item(bad)); /* NaN */
	assert_non_null(tj_data(bad));
	kit_error(c, TJ_ERR_SHAPE, "f32[3]");
	assert_string_equal(tj_last_error(c)->op, "add");
	assert_int_equal(tj_check(c), TJ_OK);
	still_works(c);
	tj_close(c);
}

/* Errors of the program's own functions are like those of ops. */
static tj_tensor *half(tj_tensor *x)
{
	if (!tj_is_poison(x) && tj_dtype_of(x) != TJ_F32)
		return tj_fail(TJ_ERR_DTYPE, "half", "cast it", "%s is not f32", tj_dtype_name(tj_dtype_of(x)));
	return tj_mul(x, tj_f(0.5));
}
static void halves(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = half(in[0]); }
static void own_errors(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_f32(half(F32(c, 3)), 1.5f);
	assert_true(tj_is_poison(half(half(tj_full(TJ_I32, TJ_0D, tj_i(4))))));
	kit_error(c, TJ_ERR_DTYPE, "i32 is not f32");
	assert_string_equal(tj_last_error(c)->op, "half");
	assert_string_equal(tj_last_error(c)->hint, "cast it");
	assert_non_null(strstr(tj_last_error(c)->site, "test_errors.c:"));
	tj_fn *f = tj_compile(c, halves, NULL, TJ_OPTS(tj_compile_opts, .name = "halves", .nin = 1, .nout = 1));
	tj_tensor *y = NULL;
	assert_int_equal(tj_call(f, &y, TJ_LIST(tj_full(TJ_I32, TJ_0D, tj_i(4)))), TJ_ERR_DTYPE);
	assert_null(y);
	kit_error(c, TJ_ERR_DTYPE, "i32 is not f32");
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 3))), 1.5f);
	assert_true(tj_is_poison(tj_fail(TJ_OK, "half", NULL, "fine")));
	kit_error(c, TJ_ERR_ARG, "code is no error");
	assert_true(tj_is_poison(tj_fail(TJ_ERR_ARG, NULL, NULL, "x")));
	kit_error(c, TJ_ERR_ARG, "op or fmt is NULL");
	tj_ctx_use(NULL);
	assert_true(tj_is_poison(tj_fail(TJ_ERR_ARG, "half", NULL, "x")));
	assert_int_equal(tj_check(NULL), TJ_ERR_STATE);
	assert_string_equal(tj_last_error(NULL)->op, "half");
	tj_ctx_use(c);
	kit_ok(c);
	tj_close(c);
}

static void pair(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[1]);
}
static void lists(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "pair", pair, NULL, 2, 1);
	tj_tensor *x = F32(c, 1, 2);
	tj_call1(f, TJ_LIST(x, NULL));
	kit_error(c, TJ_ERR_ARG, "argument 1 is NULL");
	tj_call1(f, TJ_LIST(x));
	kit_error(c, TJ_ERR_ARG, "takes 2 arguments, fewer");
	tj_call1(f, TJ_LIST(x, x, x));
	kit_error(c, TJ_ERR_ARG, "takes 2 arguments, more");
	tj_call1(f, NULL);
	kit_error(c, TJ_ERR_ARG, "NULL");
	tj_call1(NULL, TJ_LIST(x));
	kit_error(c, TJ_ERR_ARG, "NULL");
	tj_cat(TJ_LIST(x, NULL), 0);
	kit_error(c, TJ_ERR_ARG, "operand 1 is NULL");
	tj_cat(TJ_NONE, 0);
	kit_error(c, TJ_ERR_ARG, "empty");
	tj_compile(c, NULL, NULL, NULL);
	kit_error(c, TJ_ERR_ARG, "body is NULL");
	still_works(c);
	tj_close(c);
}

/* A dtype that other libraries have: the error names it and says what to use. */
static void other_dtypes(void **s)
{
	(void)s;
	static const char *const cases[][3] = {
		{ "x: u16[4]", "u16 is not a dtype at `u16[4]`", "i32 holds every u16" },
		{ "x: uint16[4]", "uint16 is not a dtype", "i32 holds every u16" },
		{ "x: u32[B]", "u32 is not a dtype", "i64 holds every u32" },
		{ "x: u64[B]", "u64 is not a dtype", "i64 holds values below 2^63" },
		{ "x: complex64[B]", "complex64 is not a dtype", "real and the imaginary parts" },
		{ "x: c128[B]", "c128 is not a dtype", "f64, the real and the imaginary parts" },
		{ "x: float8_e4m3fn[B]", "float8_e4m3fn is not a dtype", "f16 and bf16 hold every f8" },
		{ "x: float32[B]", "float32 is not a dtype", "f32" },
		{ "x: TJ_I64[B]", "TJ_I64 is not a dtype", "i64" },
		{ "x: f33[B]", "f33 is not a dtype", "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64" },
	};
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_null(tj_compile(c, pair, NULL, TJ_OPTS(tj_compile_opts, .name = "other", .nin = 2, .nout = 1, .shapes = cases[i][0])));
		kit_error(c, TJ_ERR_ARG, cases[i][1]);
		if (!strstr(tj_last_error(c)->hint, cases[i][2])) fail_msg("\"%s\" is not in \"%s\"", cases[i][2], tj_last_error(c)->hint);
	}
	const float v[2] = { 1, 2 };
	for (int way = 0; way < 5; way++) {
		const tj_dtype none = (tj_dtype)(way & 1 ? -1 : 11);
		if (way == 0) tj_from_data(c, none, TJ_SHAPE(2), v);
		if (way == 1) tj_param(c, none, TJ_SHAPE(2));
		if (way == 2) tj_wrap(c, none, TJ_SHAPE(2), NULL, v, NULL, NULL);
		if (way == 3) tj_cast(F32(c, 1), none);
		if (way == 4) tj_full(none, TJ_SHAPE(2), tj_f(0));
		kit_error(c, way < 3 ? TJ_ERR_DTYPE : TJ_ERR_ARG, "not a dtype");
		assert_non_null(strstr(tj_last_error(c)->message, way & 1 ? "-1" : "11"));
		assert_non_null(strstr(tj_last_error(c)->hint, "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64"));
		assert_non_null(strstr(tj_last_error(c)->hint, "i32 holds every u16"));
	}
	still_works(c);
	tj_close(c);
}

static void options(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2);
	const struct { tj_compile_opts o; const char *why; } cases[] = {
		{ { .size = sizeof(tj_compile_opts), .nin = -1 }, ".nin and .nout" },
		{ { .size = 7 }, ".size is 7" },
		{ { .size = sizeof(tj_compile_opts), .mode = (tj_mode)9 }, ".mode" },
		{ { .size = sizeof(tj_compile_opts), .numerics = (tj_numerics)2 }, ".numerics" },
		{ { .size = sizeof(tj_compile_opts), .int_div_zero = (tj_int_div_zero)2 }, ".int_div_zero" },
		{ { .size = sizeof(tj_compile_opts), .dynamic = (tj_dynamic)3 }, ".dynamic" },
		{ { .size = sizeof(tj_compile_opts), .state = TJ_VARS(&x, NULL) }, ".state lists NULL" },
		{ { .size = sizeof(tj_compile_opts), .freeze = TJ_VARS(NULL) }, ".freeze lists NULL" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_null(tj_compile(c, pair, NULL, &cases[i].o));
		kit_error(c, TJ_ERR_ARG, cases[i].why);
	}
	still_works(c);
	tj_close(c);
}

/* A size that no struct ever had: of the functions of jit/, and one of functions/ with a second result. */
static void sizes_of_options(void **s)
{
	(void)s;
	const tj_open_opts odd = { .size = 3 };
	tj_ctx *c = tj_open(&odd);
	assert_int_equal(tj_check(c), TJ_ERR_ARG);
	assert_non_null(strstr(tj_last_error(c)->message, ".size is 3"));
	tj_close(c);
	c = kit_open();
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(1, 2, 4), tj_f(1)), *y[1], *at;
	tj_scaler scaler;
	assert_int_equal(tj_while(y, pair, pair, TJ_LIST(x), NULL, &(tj_while_opts){ .size = 8 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 8");
	assert_true(tj_is_poison(y[0]));
	assert_int_equal(tj_scan(y, NULL, 0, pair, TJ_LIST(x), TJ_LIST(x), NULL, &(tj_scan_opts){ .size = 17 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 17");
	assert_int_equal(tj_vmap(y, 1, pair, TJ_LIST(x), NULL, &(tj_vmap_opts){ .size = 3 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 3");
	assert_int_equal(tj_set_settings(c, &(tj_settings){ .size = 3 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 3");
	tj_settings settings = { .size = 8 };
	tj_memory memory = { .size = 17 };
	assert_int_equal(tj_get_settings(c, &settings), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 8");
	assert_int_equal(tj_memory_stats(c, TJ_CPU, &memory), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 17");
	assert_true(memory.size == 17 && !memory.allocations);
	assert_int_equal(tj_scaler_init(c, &scaler, &(tj_scaler_opts){ .size = 3 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, ".size is 3");
	assert_null(tj_trace_begin(c, &(tj_compile_opts){ .size = 3 }));
	kit_error(c, TJ_ERR_ARG, ".size is 3");
	assert_true(tj_is_poison(tj_max_pool1d_with_indices(x, TJ_SHAPE(2), &(tj_pool_opts){ .size = 3 }, &at)) && tj_is_poison(at));
	kit_error(c, TJ_ERR_ARG, ".size is 3");
	assert_int_equal(tj_numel(tj_max_pool1d(x, TJ_SHAPE(2), (&(tj_pool_opts){ .stride = { 1 } }))), 6); /* all fields */
	still_works(c);
	tj_close(c);
}

/* Calls without a context to report to do nothing. */
static void null_handles(void **s)
{
	(void)s;
	tj_stats stats = { .size = sizeof stats };
	assert_int_equal(tj_check(NULL), TJ_OK);
	tj_seed(NULL, 1);
	assert_int_equal(tj_check(NULL), TJ_ERR_STATE);
	assert_string_equal(tj_last_error(NULL)->op, "ctx");
	tj_fn_stats(NULL, &stats);
	assert_int_equal(stats.calls, 0);
	assert_int_equal(tj_log_topics(NULL, "help"), TJ_ERR_STATE);
	assert_int_equal(tj_add_pass(NULL, NULL), TJ_ERR_STATE);
	tj_explain(NULL, stderr);
	tj_dump(NULL, TJ_DUMP_PLAN, stderr);
	tj_close(NULL);
}

static void limits(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	float v = 0;
	tj_from_data(c, TJ_F32, TJ_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40), &v);
	kit_error(c, TJ_ERR_SHAPE, "bytes overflows");
	tj_full(TJ_F32, TJ_SHAPE(INT64_C(1) << 62), tj_f(0));
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), &v);
	kit_error(c, TJ_ERR_SHAPE, "16");
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), &v);
	kit_ok(c);
	tj_unsqueeze(t, 0);
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_i((INT64_C(1) << 51) + 1);
	kit_error(c, TJ_ERR_LIMIT, "2^51");
	assert_string_equal(tj_last_error(c)->op, "i");
	tj_mul(tj_i(INT64_C(1) << 30), tj_i(INT64_C(1) << 30));
	kit_error(c, TJ_ERR_LIMIT, "1152921504606846976 is beyond 2^51");
	assert_string_equal(tj_last_error(c)->op, "mul");
	assert_true(tj_item_i(tj_mul(tj_cast(tj_i(INT64_C(1) << 30), TJ_I64), tj_i(INT64_C(1) << 30))) == INT64_C(1) << 60); /* as the hint says */
	tj_from_data(c, (tj_dtype)77, TJ_SHAPE(1), &v);
	kit_error(c, TJ_ERR_DTYPE, "77");
	still_works(c);
	tj_close(c);
}

static void use_after_pop(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .check = true));
	tj_scope *sc = tj_push(c);
	tj_tensor *t = F32(c, 1, 2), *kept = tj_escape(F32(c, 3));
	tj_pop(sc);
	for (int i = 0; i < 200; i++) F32(c, 1); /* the slot would be used again */
	tj_neg(t);
	kit_error(c, TJ_ERR_DEAD, "after its scope was popped");
	assert_f32(tj_neg(kept), -3);
	still_works(c);
	tj_close(c);
}

static void foreign_context(void **s)
{
	(void)s;
	tj_ctx *a = kit_open();
	tj_tensor *x = F32(a, 1), *held = tj_retain(x);
	tj_ctx *b = kit_clone(a);
	tj_neg(x);
	kit_error(b, TJ_ERR_FOREIGN, "another context");
	assert_f32(tj_neg(held), -1); /* retained tensors belong to the engine */
	tj_ctx *other = kit_open();
	tj_neg(held);
	kit_error(other, TJ_ERR_FOREIGN, "another engine");
	still_works(other);
	tj_close(other);
	tj_ctx_use(a);
	tj_release(held);
	tj_close(b);
	tj_ctx_use(a);
	still_works(a);
	tj_close(a);
}

static void too_many(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = out[1] = out[2] = in[0];
}
static void sets_nothing(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)out;
	(void)in;
	(void)self;
}
static void outputs(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1), *out[2] = { x, x };
	tj_call(kit_fn(c, "too_many", too_many, NULL, 1, 2), out, TJ_LIST(x));
	kit_error(c, TJ_ERR_LIMIT, "out[2], but .nout is 2");
	assert_ptr_equal(out[0], x);
	tj_call(kit_fn(c, "nothing", sets_nothing, NULL, 1, 2), out, TJ_LIST(x));
	kit_error(c, TJ_ERR_ARG, "did not set out[0]");
	still_works(c);
	tj_close(c);
}

static jmp_buf away;
static void jumps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_f(1));
	tj_push(tj_ctx_current());
	tj_mul(in[0], in[0]);
	if (self) longjmp(away, 1);
}
static void long_jump(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *volatile f = kit_fn(c, "jumps", jumps, c, 1, 1);
	tj_tensor *volatile x = F32(c, 1);
	for (volatile int i = 0; i < 3; i++) {
		if (!setjmp(away)) tj_call1(f, TJ_LIST(x));
		if (i == 0) tj_neg(x);
		if (i == 1) tj_push(c);
		if (i == 2) tj_call1(f, TJ_NONE);
		assert_int_equal(tj_check(c), TJ_ERR_BODY);
		assert_non_null(strstr(tj_last_error(c)->message, "longjmp"));
	}
	still_works(c);
	if (!setjmp(away)) tj_call1(f, TJ_LIST(x));
	tj_close(c); /* with a call left open */
}

static void pops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_pop(self);
	out[0] = in[0];
}
static void scopes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_scope *sc = tj_push(c);
	tj_tensor *x = F32(c, 1);
	tj_call1(kit_fn(c, "pops", pops, sc, 1, 1), TJ_LIST(x));
	kit_error(c, TJ_ERR_STATE, ""); /* a body closes only its own scopes */
	tj_pop(sc);
	still_works(c);
	tj_close(c);
}

static void writes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	float v = 3;
	tj_write(self, &v, sizeof v);
	out[0] = in[0];
}
static void cells(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *p = kit_param(c, 1), *x = F32(c, 1);
	tj_assign(x, p);
	kit_error(c, TJ_ERR_ARG, "only a cell");
	tj_assign(p, F32(c, 1, 2));
	kit_error(c, TJ_ERR_SHAPE, "f32[2] does not fit the cell, f32[]");
	assert_string_equal(tj_last_error(c)->op, "assign");
	float v[2] = { 0 };
	tj_write(p, v, sizeof v);
	kit_error(c, TJ_ERR_SHAPE, "8 bytes");
	tj_call1(kit_fn(c, "writes", writes, p, 1, 1), TJ_LIST(x));
	kit_error(c, TJ_ERR_STATE, "in a body");
	assert_f32(p, 1);
	tj_release(x);
	kit_error(c, TJ_ERR_STATE, "not retained");
	still_works(c);
	tj_close(c);
}

static void released_twice(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_retain(F32(c, 1)), *p = kit_param(c, 2);
	tj_release(x);
	tj_release(x);
	assert_int_equal(tj_check(c), TJ_ERR_DEAD);
	tj_neg(x);
	kit_error(c, TJ_ERR_DEAD, "after tj_release()");
	tj_release(p);
	tj_neg(p);
	kit_error(c, TJ_ERR_DEAD, "after tj_release()");
	tj_release(p);
	assert_int_equal(tj_check(c), TJ_ERR_DEAD);
	still_works(c);
	tj_close(c);
}

static void faults(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	int64_t zero[2] = { 1, 0 }, far[1] = { -1 };
	tj_tensor *z = tj_from_data(c, TJ_I64, TJ_SHAPE(2), zero);
	tj_floor_divide(tj_i(7), z);
	kit_error(c, TJ_ERR_DIV, "zero");
	tj_index_select(F32(c, 1, 2), 0, tj_from_data(c, TJ_I64, TJ_SHAPE(1), far));
	kit_error(c, TJ_ERR_INDEX, "range");
	still_works(c);
	tj_close(c);
}

/* ---- functions made of ops: an error of an index names the function that the user called ---- */
static tj_tensor *pick_at(const char *site, tj_tensor *x, tj_tensor *label)
{
	return tj_gather_at(tj_site_for(site, "pick", "a label is wrong; their number is ", "labels count from 0"), x, 0, label);
}
static tj_tensor *pick_last_at(const char *site, tj_tensor *x, tj_tensor *label)
{
	return pick_at(tj_site_for(site, "pick_last", "no such label", NULL), x, label);
}
static void picks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = pick_at(TJ_SITE, in[0], in[1]);
	out[1] = pick_last_at(TJ_SITE, in[0], in[2]);
}

static void named(tj_ctx *c, const char *op, const char *message)
{
	kit_error(c, TJ_ERR_INDEX, message);
	assert_string_equal(tj_last_error(c)->op, op);
}

static void sites_that_explain(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2, 3), *good = tj_zeros(TJ_I64, TJ_SHAPE(2)), *far = tj_full(TJ_I64, TJ_SHAPE(2), tj_i(3)), *out[2];
	assert_string_equal(tj_site_for("a.c:1", "pick", "wrong", NULL), "a.c:1");
	assert_ptr_equal(tj_site_for("a.c:1", "pick", "wrong", NULL), tj_site_for("a.c:1", "pick", "wrong", ""));
	assert_null(tj_site_for(NULL, "pick", "wrong", NULL));
	for (int turn = 0; turn < 8; turn++) { /* at first the evaluator, then kernels: those of tj_gather() */
		tj_item(pick_at(TJ_SITE, x, far));
		named(c, "pick", "a label is wrong; their number is 3");
		assert_string_equal(tj_last_error(c)->hint, "labels count from 0");
		tj_item(tj_gather(x, 0, far));
		named(c, "gather", "an index is out of range for an axis of size 3");
		tj_item(pick_last_at(TJ_SITE, x, far)); /* the outermost function names itself */
		named(c, "pick_last", "no such label");
	}
	tj_fn *f = kit_fn(c, "picks", picks, NULL, 3, 2);
	for (int turn = 0; turn < 3; turn++) {
		assert_int_equal(tj_call(f, out, TJ_LIST(x, far, good)), TJ_ERR_INDEX);
		named(c, "pick", "a label is wrong; their number is 3");
		assert_int_equal(tj_call(f, out, TJ_LIST(x, good, far)), TJ_ERR_INDEX);
		named(c, "pick_last", "no such label");
		assert_int_equal(tj_call(f, out, TJ_LIST(x, good, good)), TJ_OK);
	}
	tj_tensor *logits = tj_ones(TJ_F32, TJ_SHAPE(2, 3)), *one = tj_full(TJ_I64, TJ_SHAPE(1), tj_i(9));
	tj_tensor *table = tj_ones(TJ_F32, TJ_SHAPE(4, 2));
	for (int turn = 0; turn < 8; turn++) {
		tj_item(tj_cross_entropy_loss(logits, far, NULL));
		named(c, "cross_entropy_loss", "no class; the number of classes is 3");
		tj_item(tj_cross_entropy(logits, far));
		named(c, "cross_entropy", "no class; the number of classes is 3");
	}
#define NAMED(call, op, message) (tj_item(tj_sum(call, TJ_ALL, false)), named(c, op, message))
	NAMED(tj_bincount(one, NULL, 4, 4), "bincount", "the length of the result is 4");
	NAMED(tj_index_put(table, TJ_ALL, TJ_LIST(one), tj_f(1), false), "index_put", "an axis of size 4");
	NAMED(tj_index(table, TJ_ALL, TJ_LIST(one, one)), "index", "for its axis");
	NAMED(tj_take(table, one), "take", "an axis of size 8");
	NAMED(tj_put(table, one, tj_ones(TJ_F32, TJ_SHAPE(1)), false), "put", "an axis of size 8");
	NAMED(tj_index_fill(table, 0, one, tj_f(1)), "index_fill", "an axis of size 4");
	NAMED(tj_index_add(table, 0, one, tj_ones(TJ_F32, TJ_SHAPE(1, 2))), "index_add", "an axis of size 4");
	NAMED(tj_masked_scatter(table, tj_full(TJ_BOOL, TJ_SHAPE(4, 2), tj_i(1)), x), "masked_scatter", "whose number is 3");
	NAMED(tj_cov(tj_ones(TJ_F32, TJ_SHAPE(2, 2)), 1, NULL, F32(c, 1, -1)), "cov", "a weight is below 0");
	tj_unravel_index(one, TJ_SHAPE(2, 3), out);
	NAMED(out[0], "unravel_index", "outside of the shape");
	still_works(c);
	tj_close(c);
}

/* ---- the chain of lines: control flow outside of functions has one line ---- */
static void wider(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_unsqueeze(in[0], 0);
}
static void wrong_inside(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_item(in[0]) > 0 ? in[0] : tj_neg(in[0]);
}
static void small_yet(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(tj_sum(in[0], TJ_ALL, false), tj_f(10));
}

static int lines_of_error(tj_ctx *c)
{
	int n = 1;
	assert_int_not_equal(tj_check(c), TJ_OK);
	for (const char *s = tj_last_error(c)->site; (s = strstr(s, " < ")); s += 3) n++;
	return n;
}

static void lines_of_callbacks(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[1];
	tj_while(out, small_yet, wider, TJ_LIST(F32(c, 1)), NULL, NULL);
	assert_int_equal(lines_of_error(c), 1);
	tj_while(out, small_yet, wrong_inside, TJ_LIST(F32(c, 1)), NULL, NULL);
	assert_int_equal(lines_of_error(c), 2);
	still_works(c);
	tj_close(c);
}

static void recurses(tj_tensor **out, tj_tensor *const *in, void *self)
{
	if (tj_call(*(tj_fn **)self, out, TJ_LIST(in[0])) != TJ_OK) out[0] = in[0];
}
static void endless_recursion(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = NULL;
	f = kit_fn(c, "recurses", recurses, &f, 1, 1);
	tj_call1(f, TJ_LIST(F32(c, 1)));
	kit_error(c, TJ_ERR_LIMIT, "nested");
	const char *site = tj_last_error(c)->site; /* the chain of callers is long, and says so */
	assert_string_equal(site + strlen(site) - 4, " ...");
	still_works(c);
	tj_close(c);
}

static void printed(tj_ctx *c, const char *want)
{
	char text[400] = "";
	FILE *f = fmemopen(text, sizeof text, "w");
	assert_non_null(f);
	tj_perror(c, f);
	fclose(f);
	if (!strstr(text, want)) fail_msg("tj_perror() prints \"%s\", not \"%s\"", text, want);
}

/* Before tj_check() and after it; a later error comes first again. */
static void prints_errors(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	printed(c, "");
	tj_exp(NULL);
	printed(c, "exp: ");
	assert_true(tj_check(c) != TJ_OK);
	printed(c, "exp: ");
	tj_sin(NULL);
	printed(c, "sin: ");
	assert_true(tj_check(c) != TJ_OK);
	assert_true(tj_check(c) == TJ_OK);
	tj_close(c);
}

static void no_context(void **s)
{
	(void)s;
	tj_ctx *was = tj_ctx_use(NULL);
	assert_true(tj_is_poison(tj_add(tj_f(1), tj_f(2))));
	assert_true(tj_is_poison(tj_full(TJ_F32, TJ_0D, tj_f(1))));
	assert_true(tj_item(tj_f(2)) != 2); /* NaN */
	printed(NULL, "add: the context is NULL, or no context is current in this thread");
	printed(NULL, "tj_ctx_use(c)");
	assert_int_equal(tj_check(NULL), TJ_ERR_STATE);
	assert_string_equal(tj_last_error(NULL)->op, "add"); /* the first one */
	assert_non_null(strstr(tj_last_error(NULL)->site, "test_errors.c:"));
	assert_int_equal(tj_check(NULL), TJ_OK);
	printed(NULL, "add: ");
	tj_ctx_use(was);
}

/* Thousands of calls with rotating shapes, failures and side exits. */
static void churn_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	int i = *(int *)self;
	tj_tensor *x = tj_mul(in[0], tj_f(i));
	if (i % 7 == 0) x = tj_add(x, tj_full(TJ_F32, TJ_SHAPE(99), tj_f(0)));
	if (i % 3 == 0) x = tj_neg(x);
	if (i % 5 == 0) x = tj_truth(tj_gt(tj_sum(x, TJ_ALL, false), tj_f(0))) ? tj_exp(x) : tj_abs(x);
	out[0] = x;
}
#ifndef __SANITIZE_ADDRESS__
static long resident_kb(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%*d %ld", &pages) != 1) pages = -1;
	if (f) fclose(f);
	return pages * 4;
}
#endif
static void churn(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	int i = 0;
	tj_fn *f = tj_compile(c, churn_body, &i,
	                      TJ_OPTS(tj_compile_opts, .name = "churn", .nin = 1, .nout = 1, .max_entries = 4, .dynamic = TJ_DYNAMIC_OFF));
#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory */
	long before = 0;
#endif
	float v[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	int calls = strcmp(kit_backend, "eval") ? 300 : 10000;
	for (i = 0; i < calls; i++) {
		tj_scope *sc = tj_push(c);
		tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(1 + i % 6), v)));
		tj_status st = tj_check(c);
		assert_int_equal(st, i % 7 == 0 && 1 + i % 6 != 1 ? TJ_ERR_SHAPE : TJ_OK);
		tj_pop(sc);
#ifndef __SANITIZE_ADDRESS__
		if (i == calls / 2) before = resident_kb();
#endif
	}
	assert_true(kit_stats(f).evictions > 0);
#ifndef __SANITIZE_ADDRESS__
	assert_true(resident_kb() - before < 8 << 10);
#endif
	still_works(c);
	tj_close(c);
}

/* Unknown values of environment variables are reported and ignored. */
static char told[1024];
static void keep_line(void *self, const char *line)
{
	(void)self;
	strncat(told, line, sizeof told - strlen(told) - 2);
	strcat(told, "\n");
}
static void odd_environment(void **s)
{
	(void)s;
	static const char *const odd[][2] = { { "TJ_THREADS", "many" }, { "TJ_CPU", "387" }, { "TJ_BACKEND", "abacus" }, { "TJ_LOG", "grpah" },
		                                 { "TJ_CHECK", "yes" }, { "TJ_TIME_GUARDS", "2" }, { "TJ_ONEDNN", "never" } };
	enum { ODD = sizeof odd / sizeof *odd };
	char was[ODD][64] = { "" };
	for (int i = 0; i < ODD; i++) {
		if (getenv(odd[i][0])) snprintf(was[i], sizeof was[i], "%s", getenv(odd[i][0]));
		setenv(odd[i][0], odd[i][1], 1);
	}
	told[0] = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .log_to = keep_line));
	tj_fn *f = kit_fn(c, "pair", pair, NULL, 2, 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2), F32(c, 3, 4))), 4, 6);
	kit_ok(c);
	for (int i = 0; i < ODD; i++) {
		char said[80];
		snprintf(said, sizeof said, "%s=%s ", odd[i][0], odd[i][1]);
		if (i > 1 && i < 4) snprintf(said, sizeof said, "%s", odd[i][1]);
		if (!strstr(told, said)) fail_msg("nothing about %s=%s in \"%s\"", odd[i][0], odd[i][1], told);
		if (was[i][0]) setenv(odd[i][0], was[i], 1);
		else unsetenv(odd[i][0]);
	}
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .log = "grpah"));
	assert_int_equal(tj_check(c), TJ_ERR_ARG); /* an unknown value in the options of the program is an error */
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_shapes),
		cmocka_unit_test(first_error_stays),
		cmocka_unit_test(prints_errors),
		cmocka_unit_test(own_errors),
		cmocka_unit_test(lists),
		cmocka_unit_test(other_dtypes),
		cmocka_unit_test(options),
		cmocka_unit_test(sizes_of_options),
		cmocka_unit_test(null_handles),
		cmocka_unit_test(limits),
		cmocka_unit_test(use_after_pop),
		cmocka_unit_test(foreign_context),
		cmocka_unit_test(outputs),
		cmocka_unit_test(long_jump),
		cmocka_unit_test(scopes),
		cmocka_unit_test(cells),
		cmocka_unit_test(released_twice),
		cmocka_unit_test(faults),
		cmocka_unit_test(sites_that_explain),
		cmocka_unit_test(lines_of_callbacks),
		cmocka_unit_test(endless_recursion),
		cmocka_unit_test(no_context),
		cmocka_unit_test(odd_environment),
		cmocka_unit_test(churn),
	};
	KIT_RUN(tests);
}
