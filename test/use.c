/* SPDX-License-Identifier: MIT */
/* The public header as in user code: compiled and run as C11 and as C++17, and compiled by test/header.sh as each C and C++ since
 * C11 and C++11, where no macro may expand to what a strict compiler warns of. */
#include <tj.h>
#include <tj.h>
#include <string.h>

#ifdef __cplusplus
#define CAST(type, x) static_cast<type>(x)
#define NOTHING {}
#define NONE nullptr
#else
#define CAST(type, x) ((type)(x))
#define NOTHING { 0 }
#define NONE NULL
#endif

typedef struct layer {
	tj_tensor *w, *b;
} layer;

static void forward(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = CAST(const layer *, self);
	tj_tensor *h = tj_add(tj_matmul(in[0], l->w), l->b);
	out[0] = tj_sum(tj_reshape(tj_cat(TJ_LIST(h, tj_neg(h)), 0), TJ_SHAPE(-1, 2)), TJ_AXES(0), false);
	out[1] = tj_mul(h, tj_arg_f(0));
}

static int check(tj_ctx *c, const char *what, bool ok)
{
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	if (!ok) fprintf(stderr, "FAIL %s\n", what);
	return ok;
}

/* An exception may pass through tj_call(): the body was left, and the context works on. */
#ifdef __cplusplus
static void throws(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_neg(in[0]);
	if (!self) throw 7;
}
static bool survives_exceptions(tj_ctx *c, tj_fn *other, tj_tensor *x)
{
	tj_tensor *y = NONE;
	bool ok = true;
	tj_compile_opts o = NOTHING;
	o.size = sizeof o;
	o.nin = o.nout = 1;
	tj_fn *f = tj_compile(c, throws, NONE, &o);
	for (int i = 0; i < 3; i++) {
		int caught = 0;
		try {
			tj_call1(f, TJ_LIST(x));
		} catch (int e) {
			caught = e;
		}
		ok = ok && caught == 7 && tj_check(c) == TJ_ERR_BODY;
	}
	tj_tensor *out[2] = { NONE, NONE };
	ok = ok && tj_call_ex(other, out, TJ_LIST(x), TJ_SCALARS(TJ_F(2), TJ_I(1))) == TJ_OK;
	y = tj_neg(x);
	return ok && tj_item(tj_sum(y, TJ_ALL, false)) == -2;
}
#else
static bool survives_exceptions(tj_ctx *c, tj_fn *other, tj_tensor *x) { return c && other && x; }
#endif

/* ---- every family of macros ---- */
static bool lists(tj_ctx *c)
{
	const float six[] = { 1, 2, 3, 4, 5, 6 };
	const size_t rows = 2;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), six), *parts[2];
	tj_tensor *flat = tj_ravel(x), *turned = tj_swapaxes(x, 0, 1), *moved = tj_moveaxis(x, TJ_AXES(0), TJ_AXES(-1));
	bool ok = tj_item(tj_sum(x, TJ_ALL, false)) == 21 && tj_dim(turned, 0) == 3 && tj_dim(moved, 1) == 2;
	ok = ok && tj_rank(tj_reshape(tj_sum(flat, TJ_AXES(0), true), TJ_0D)) == 0;
	ok = ok && tj_dim(tj_reshape(x, TJ_SHAPE(CAST(int64_t, rows), -1)), 1) == 3;
	ok = ok && tj_split(x, TJ_SHAPE(1, 2), 1, parts) == 2 && tj_dim(parts[1], 1) == 2;
	tj_tensor *const two[] = { parts[0], parts[1], TJ_END };
	const int64_t sizes[] = { 3, 2, TJ_END_DIM };
	ok = ok && tj_dim(tj_reshape(tj_cat(two, 1), sizes), 0) == 3;
#ifdef __cplusplus
	auto shape = TJ_SHAPE(3, 2);
	auto none = TJ_SHAPE();
	auto list = TJ_LIST(parts[0], parts[1]);
	ok = ok && tj_dim(tj_reshape(x, shape), 0) == 3 && tj_rank(tj_full(TJ_F32, none, tj_f(1))) == 0 && tj_dim(tj_cat(list, 1), 1) == 3;
#else
	tj_dims shape = TJ_SHAPE(3, 2);
	tj_list list = TJ_LIST(parts[0], parts[1]);
	ok = ok && tj_dim(tj_reshape(x, shape), 0) == 3 && tj_dim(tj_cat(list, 1), 1) == 3;
	ok = ok && tj_item(tj_sum(tj_from_data(c, TJ_F64, TJ_SHAPE(2), (double[]){ 1, 2 }), TJ_ALL, false)) == 3;
	ok = ok && tj_rank(tj_conv1d(tj_ones(TJ_F32, TJ_SHAPE(1, 1, 4)), tj_ones(TJ_F32, TJ_SHAPE(1, 1, 2)), NULL,
	                             TJ_OPTS(tj_conv_opts, .stride = TJ_EACH(2), .groups = 1))) == 3;
#endif
	return ok;
}

static bool made(tj_ctx *c)
{
	bool ok = tj_dim(tj_zeros(TJ_F32, TJ_SHAPE(2)), 0) == 2 && tj_item(tj_ones(TJ_I64, TJ_0D)) == 1;
	ok = ok && tj_dtype_of(tj_full_on(TJ_CPU, TJ_F16, TJ_SHAPE(2), tj_i(3))) == TJ_F16;
	ok = ok && tj_numel(tj_arange_on(TJ_CPU, TJ_I32, 0, 6, 2)) == 3 && tj_numel(tj_eye_on(TJ_CPU, TJ_F32, 2, 3)) == 6;
	ok = ok && tj_numel(tj_uniform_on(TJ_CPU, TJ_F32, TJ_SHAPE(4))) == 4 && tj_numel(tj_normal_on(TJ_CPU, TJ_F64, TJ_SHAPE(5))) == 5;
	ok = ok && tj_item(tj_sum(tj_ones_like(tj_zeros_like(tj_ones(TJ_F32, TJ_SHAPE(3)))), TJ_ALL, false)) == 3;
	ok = ok && tj_item(tj_add(tj_f(1.5), tj_i(-2))) == -0.5 && tj_from_f16(tj_to_f16(0.5)) == 0.5f && tj_from_bf16(tj_to_bf16(2)) == 2.0f;
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(2));
	const float v[] = { 3, 4 };
	ok = ok && tj_write(cell, v, sizeof v) == TJ_OK && tj_assign(cell, tj_neg(cell)) == TJ_OK && tj_item(tj_sum(cell, TJ_ALL, false)) == -7;
	const int64_t places[3] = TJ_EACH(7);
	return ok && places[2] == 7;
}

static bool tables(void)
{
#define X(name, text, ctype, category) ok = ok && tj_dtype_size(TJ_##name) == sizeof(ctype) && !strcmp(tj_dtype_name(TJ_##name), text);
	bool ok = true;
	TJ_DTYPE_MAP(X)
#undef X
#define X(name, text) ok = ok && !strcmp(tj_strerror(TJ_##name), text);
	TJ_STATUS_MAP(X)
#undef X
	return ok && !strcmp(TJ_SITE, __FILE__ ":" TJ_STR(__LINE__)) && TJ_UNMAPPED == INT32_MIN && TJ_MAX_RANK == 16;
}

static bool errors(tj_ctx *c)
{
	bool ok = tj_is_poison(tj_fail(TJ_ERR_ARG, "mine", NONE, "no detail"));
	ok = ok && tj_check(c) == TJ_ERR_ARG && !strcmp(tj_last_error(c)->op, "mine");
	ok = ok && tj_is_poison(tj_fail(TJ_ERR_SHAPE, "mine", "a hint", "size %d of %s", 3, "x"));
	return ok && tj_check(c) == TJ_ERR_SHAPE && strstr(tj_last_error(c)->message, "size 3 of x") != NONE;
}

static void cond(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(in[0], tj_f(10));
}
static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[0]);
}
static void same(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
}
static void sums(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = out[1] = tj_add(in[0], in[1]);
}

static bool control(tj_ctx *c)
{
	tj_tensor *y = NONE, *z = NONE, *w = tj_param(c, TJ_F32, TJ_SHAPE(2));
	bool ok = tj_while(&y, cond, twice, TJ_LIST(tj_f(3)), NONE, NONE) == TJ_OK && tj_item(y) == 12;
	ok = ok && tj_cond(&y, 1, tj_gt(tj_f(1), tj_f(0)), twice, same, TJ_LIST(tj_f(2)), NONE) == TJ_OK && tj_item(y) == 4;
	ok = ok && tj_scan(&y, &z, 1, sums, TJ_LIST(tj_f(0)), TJ_LIST(tj_ones(TJ_F32, TJ_SHAPE(4))), NONE, NONE) == TJ_OK && tj_item(y) == 4;
	ok = ok && tj_vmap(&y, 1, twice, TJ_LIST(tj_ones(TJ_F32, TJ_SHAPE(3))), NONE, NONE) == TJ_OK && tj_dim(y, 0) == 3;
	tj_trace_begin(c, NONE);
	y = tj_sum(tj_square(tj_add(w, tj_f(2))), TJ_ALL, false);
	ok = ok && tj_grad(&z, y, TJ_LIST(w), NONE) == TJ_OK;
	tj_tensor *keep[2] = { y, z };
	ok = ok && tj_trace_end(c, keep, 2) == TJ_OK && tj_item(keep[0]) == 8;
	tj_scope *s = tj_push(c);
	y = tj_retain(tj_neg(keep[1]));
	tj_pop(s);
	ok = ok && tj_item(tj_sum(y, TJ_ALL, false)) == -8;
	tj_release(y);
	tj_compile_opts o = NOTHING;
	o.size = sizeof o;
	o.nin = o.nout = 1;
	o.mode = TJ_DIRECT;
#ifdef __cplusplus
	auto vars = TJ_VARS(&w);
#else
	tj_vars vars = TJ_VARS(&w);
#endif
	o.state = vars;
	tj_fn *f = tj_compile(c, twice, NONE, &o);
	ok = ok && tj_item(tj_call1(f, TJ_LIST(tj_f(4)))) == 8;
#ifndef __cplusplus
	f = tj_compile(c, twice, NULL, TJ_OPTS(tj_compile_opts, .nin = 1, .nout = 1, .state = TJ_VARS(&w)));
	ok = ok && tj_item(tj_call1(f, TJ_LIST(tj_f(4)))) == 8;
#endif
	tj_stats st = NOTHING;
	st.size = sizeof st;
	tj_fn_stats(f, &st);
	return ok && st.calls == 1;
}

static bool version(void)
{
	char text[32];
	snprintf(text, sizeof text, "%d.%d.%d", TJ_VERSION_MAJOR, TJ_VERSION_MINOR, TJ_VERSION_PATCH);
	return !strcmp(text, TJ_VERSION) && !strcmp(tj_version(), TJ_VERSION) && tj_version_number() == TJ_VERSION_NUMBER;
}

int main(void)
{
	const float w[] = { 1, 2, 3, 4 }, x[] = { 1, 1 };
	int passed = 0;
	tj_ctx *c = tj_open(NONE);
	layer l = { tj_param(c, TJ_F32, TJ_SHAPE(2, 2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_write(l.w, w, sizeof w);

	tj_compile_opts o = NOTHING;
	o.size = sizeof o;
	o.name = "forward";
	o.nin = 1;
	o.nout = 2;
	tj_fn *f = tj_compile(c, forward, &l, &o);
	tj_tensor *out[2] = { NONE, NONE }, *in = tj_from_data(c, TJ_F32, TJ_SHAPE(1, 2), x);
	passed += check(c, "call", tj_call_ex(f, out, TJ_LIST(in), TJ_SCALARS(TJ_F(2), TJ_I(1))) == TJ_OK);
	const float *y = CAST(const float *, tj_data(out[1]));
	passed += check(c, "value", y[0] == 8 && y[1] == 12);
	passed += check(c, "0-d", tj_rank(tj_full(TJ_F32, TJ_0D, tj_f(1))) == 0);
	passed += check(c, "exceptions", survives_exceptions(c, f, in));
	passed += check(c, "lists", lists(c));
	passed += check(c, "made", made(c));
	passed += check(c, "tables", tables());
	passed += check(c, "errors", errors(c));
	passed += check(c, "control", control(c));
	passed += check(c, "version", version());
	tj_close(c);
	printf("%d passed, %d failed, 0 skipped\n", passed, 10 - passed);
	return passed != 10;
}
