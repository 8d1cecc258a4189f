/* SPDX-License-Identifier: MIT */
/* Classes of bugs that tensor compilers have had: stale traces, wrong folds, integers, casts, bool, accuracy, offsets beyond 2^31, random
 * numbers, fork, depth. Each expression runs op by op, traced and replayed, on each back end, with enough elements for full
 * vectors and a tail, and also as the only operand of a reduction. */
#include "test/kit.h"

#include <fenv.h>
#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDE = 37 }; /* more than two vectors of f32, and a tail */

/* ---- expressions ---- */
typedef tj_tensor *expression(tj_tensor *const *in);
typedef struct call { expression *e; } call;

static void body(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = ((call *)self)->e(in); }

static bool equal(tj_dtype t, const void *a, const void *b)
{
	if (!memcmp(a, b, tj_dtype_size(t))) return true;
	if (t == TJ_F32) return isnan(*(const float *)a) && isnan(*(const float *)b);
	return t == TJ_F64 && isnan(*(const double *)a) && isnan(*(const double *)b);
}

static double number(tj_dtype t, const char *p)
{
	int64_t i = 0;
	if (t == TJ_F32) return (double)*(const float *)(const void *)p;
	if (t == TJ_F64) return *(const double *)(const void *)p;
	memcpy(&i, p, tj_dtype_size(t));
	return (double)i;
}

static void compare(const char *how, tj_tensor *got, tj_dtype t, size_t n, size_t count, const void *want)
{
	size_t size = tj_dtype_size(t);
	const void *v = tj_data(got);
	assert_int_equal(tj_dtype_of(got), t);
	assert_int_equal(tj_numel(got), n);
	for (size_t i = 0; i < n; i++) {
		const char *x = (const char *)v + i * size, *y = (const char *)want + i % count * size;
		if (!equal(t, x, y)) fail_msg("%s: element %zu, case %zu, is %a, not %a", how, i, i % count, number(t, x), number(t, y));
	}
}

static void thrice(tj_ctx *c, expression *e, int nin, tj_tensor *const *in, tj_dtype t, size_t n, size_t count, const void *want)
{
	call k = { e };
	tj_fn *f = kit_fn(c, "e", body, &k, nin, 1);
	compare("op by op", e(in), t, n, count, want);
	compare("traced", tj_call1(f, in), t, n, count, want);
	compare("replayed", tj_call1(f, in), t, n, count, want);
	kit_ok(c);
	tj_fn_free(f);
}

/* n elements: the `count` cases again and again. */
static tj_tensor *repeat(tj_ctx *c, tj_dtype t, size_t n, size_t count, const void *v)
{
	size_t size = tj_dtype_size(t);
	char *p = malloc((n + 1) * size);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++) memcpy(p + i * size, (const char *)v + i % count * size, size);
	tj_tensor *r = tj_from_data(c, t, TJ_SHAPE((int64_t)n), p);
	free(p);
	return r;
}

/* e of `count` cases of x (and y, unless NULL) gives want: in whole vectors with a tail, and case by case. */
static void gives(expression *e, tj_dtype t, size_t count, const void *x, const void *y, tj_dtype to, const void *want)
{
	tj_ctx *c = kit_open();
	size_t n = count * ((WIDE + count - 1) / count) + (count > 1);
	tj_tensor *in[3] = { repeat(c, t, n, count, x), y ? repeat(c, t, n, count, y) : TJ_END, TJ_END };
	thrice(c, e, y ? 2 : 1, in, to, n, count, want);
	for (size_t i = 0; i < count; i++) {
		size_t size = tj_dtype_size(t);
		in[0] = repeat(c, t, 1, 1, (const char *)x + i * size);
		if (y) in[1] = repeat(c, t, 1, 1, (const char *)y + i * size);
		compare("alone", e(in), to, 1, 1, (const char *)want + i * tj_dtype_size(to));
	}
	kit_ok(c);
	tj_close(c);
}

/* e of a row of WIDE times the value: one element. */
static void reduces(expression *e, tj_dtype t, const void *x, tj_dtype to, const void *want)
{
	tj_ctx *c = kit_open();
	thrice(c, e, 1, TJ_LIST(repeat(c, t, WIDE, 1, x)), to, 1, 1, want);
	tj_close(c);
}

#define EXPR(name, ...) static tj_tensor *name(tj_tensor *const *in) { return (void)in, __VA_ARGS__; }
#define A in[0]
#define B in[1]
#define ROW(type, ...) ((const type[]){ __VA_ARGS__ })
#define NAN32 __builtin_nanf("")
#define INF32 __builtin_inff()

/* ---- stale traces: what a body captures changes between calls, the shapes do not ---- */
typedef struct captured { int k; tj_tensor *t[2]; } captured;

static tj_tensor *by_axis(tj_tensor *x, int which, int k)
{
	switch (which) {
	case 0: return tj_softmax(x, k);
	case 1: return tj_sum(x, TJ_AXES(k), false);
	case 2: return tj_argmax(x, k, false);
	case 3: return tj_flip(x, TJ_AXES(k));
	case 4: return tj_permute(x, TJ_AXES(k, 1 - k));
	case 5: return tj_slice(x, k, 1, 3, 1);
	case 6: return tj_slice(x, 0, 0, 3, k + 1);
	case 7: return tj_var(x, TJ_ALL, k, false);
	case 8: return tj_cat(TJ_LIST(x, tj_neg(x)), k);
	case 9: return tj_gather(x, k, tj_full(TJ_I64, TJ_SHAPE(3, 3), tj_i(2)));
	default: return NULL;
	}
}

static void attribute_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const captured *k = self;
	out[0] = tj_neg(by_axis(in[0], k->k / 2, k->k % 2));
}

static void attributes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	captured k = { 0 };
	tj_fn *f = kit_fn(c, "attributes", attribute_body, &k, 1, 1);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 3), ROW(float, 3, 1, 4, 1, 5, 9, 2, 6, 5)), *want;
	for (int round = 0; round < 2; round++)
		for (k.k = 0; k.k < 20; k.k++) {
			attribute_body(&want, TJ_LIST(x), &k);
			tj_tensor *got = tj_call1(f, TJ_LIST(x));
			kit_ok(c);
			assert_int_equal(tj_numel(got), tj_numel(want));
			if (memcmp(tj_data(got), tj_data(want), (size_t)tj_numel(want) * tj_dtype_size(tj_dtype_of(want))))
				fail_msg("case %d, %d", k.k / 2, k.k % 2);
		}
	assert_int_equal(kit_stats(f).hits, 21); /* the correction of var is a number, no attribute */
	tj_close(c);
}

static void assign_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const captured *k = self;
	tj_assign(k->t[0], tj_add(k->t[0], in[0]));
	tj_assign(k->t[k->k], tj_mul(in[0], tj_f(10)));
	out[0] = tj_neg(in[0]);
}

/* The second assign goes to the same cell, then to another. */
static void other_cell(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	captured k = { 0, { kit_param(c, 1), kit_param(c, 2) } };
	tj_fn *f = kit_fn(c, "cells", assign_body, &k, 1, 1);
	assert_f32(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_0D, ROW(float, 1)))), -1);
	assert_f32(k.t[0], 10);
	k.k = 1;
	assert_f32(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_0D, ROW(float, 1)))), -1);
	assert_f32(k.t[0], 11);
	assert_f32(k.t[1], 10);
	k.k = 0;
	assert_f32(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_0D, ROW(float, 2)))), -2);
	assert_f32(k.t[0], 20);
	assert_f32(k.t[1], 10);
	assert_int_equal(kit_stats(f).recordings, 2); /* the values that are kept for the commit differ */
	kit_ok(c);
	tj_close(c);
}

static void constant_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const captured *k = self;
	out[0] = tj_mul(in[0], k->t[k->k]);
}

static void other_constant(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	captured k = { 0, { tj_constant(c, TJ_F32, TJ_SHAPE(2), ROW(float, 2, 3)), tj_constant(c, TJ_F32, TJ_SHAPE(2), ROW(float, 5, 7)) } };
	tj_fn *f = kit_fn(c, "constants", constant_body, &k, 1, 1);
	for (int i = 0; i < 4; i++) {
		k.k = i % 2;
		tj_tensor *y = tj_call1(f, TJ_LIST(F32(c, 1, 1)));
		if (k.k) assert_f32(y, 5, 7);
		else assert_f32(y, 2, 3);
	}
	assert_int_equal(kit_stats(f).recordings, 2); /* a trace may know the values of a constant */
	kit_ok(c);
	tj_close(c);
}

static void show_body(tj_tensor **out, tj_tensor *const *in, void *self) { (void)in, out[0] = *(tj_tensor **)self; }
static void step_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(tj_mul(cell, in[0]), tj_f(1)));
	out[0] = tj_sum(cell, TJ_ALL, false);
}

/* A tensor that shows the value of a cell keeps it: then the cell is not overwritten in place. */
static void snapshots(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(3));
	tj_fn *show = kit_fn(c, "show", show_body, &cell, 0, 1), *step = kit_fn(c, "step", step_body, &cell, 1, 1);
	tj_write(cell, ((const float[]){ 1, 2, 3 }), 12);
	for (int i = 0; i < 3; i++) {
		float v[3];
		tj_tensor *shown = tj_call1(show, TJ_NONE), *view = tj_flip(cell, TJ_ALL);
		tj_read(cell, v, sizeof v);
		tj_call1(step, TJ_LIST(tj_f(2)));
		assert_f32(shown, v[0], v[1], v[2]);
		assert_f32(view, v[2], v[1], v[0]);
		assert_f32(cell, 2 * v[0] + 1, 2 * v[1] + 1, 2 * v[2] + 1);
	}
	kit_ok(c);
	tj_close(c);
}

static void view_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *v = tj_permute(in[0], TJ_AXES(1, 0));
	out[0] = tj_truth(tj_any(tj_gt(v, tj_f(3)), TJ_ALL, false)) ? tj_mul(v, v) : tj_neg(v);
}

/* A value that is only a view is not kept at the branch at first; once it is kept, it has another layout. */
static void views_behind_branches(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, view_body, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "view", .nin = 1, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
		for (int i = 0; i < 6; i++) {
			float k = i % 3 ? 1 : -1;
			tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), ROW(float, k, 2 * k, 3 * k, 4 * k, 5 * k, 6 * k))));
			if (k > 0) assert_f32(y, 1, 16, 4, 25, 9, 36);
			else assert_f32(y, 1, 4, 2, 5, 3, 6);
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* A tensor is gone before the op that reads it has run; its memory is allocated again. */
static void short_lived(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_scope *s = tj_push(tj_ctx_current());
	tj_tensor *y = tj_escape(tj_add(in[0], tj_from_data(tj_ctx_current(), TJ_F32, TJ_SHAPE(3), ROW(float, 1, 2, 3))));
	tj_pop(s);
	out[0] = tj_mul(y, tj_from_data(tj_ctx_current(), TJ_F32, TJ_SHAPE(3), ROW(float, 10, 20, 30)));
}

static void popped_in_body(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "popped", short_lived, NULL, 1, 1);
	for (int i = 0; i < 3; i++) {
		tj_scope *own = tj_push(c);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 1, 1))), 20, 60, 120);
		tj_pop(own);
	}
	kit_ok(c);
	tj_close(c);
}

/* The least recently used trace is dropped first. */
static void least_recent(void **s)
{
	(void)s;
	static const int sizes[] = { 1, 2, 1, 3, 1, 3, 2, 1 }, recordings[] = { 1, 2, 2, 3, 3, 3, 4, 5 };
	const float x[4] = { 0 };
	tj_ctx *c = kit_open();
	captured k = { 0, { F32(c, 1) } };
	tj_fn *f = tj_compile(c, constant_body, &k,
	                      TJ_OPTS(tj_compile_opts, .name = "lru", .nin = 1, .nout = 1, .max_entries = 2, .dynamic = TJ_DYNAMIC_OFF));
	for (int i = 0; i < 8; i++) {
		tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(sizes[i]), x)));
		assert_int_equal(kit_stats(f).recordings, recordings[i]);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- folds that would be wrong ---- */
EXPR(plus_zero, tj_add(A, tj_f(0)))
EXPR(times_zero, tj_mul(A, tj_f(0)))
EXPR(minus_itself, tj_sub(A, A))
EXPR(by_itself, tj_div(A, A))
EXPR(root_squared, tj_square(tj_sqrt(A)))
EXPR(power_half, tj_pow(A, tj_f(0.5)))
EXPR(there_and_back, tj_sub(tj_add(A, tj_f(0x1p60)), tj_f(0x1p60)))
EXPR(product_and_sum, tj_sub(tj_mul(A, A), B))
EXPR(half_way, tj_cast(tj_cast(A, TJ_I32), TJ_F32))
EXPR(zero_minus, tj_sub(tj_f(0), A))

static void folds(void **s)
{
	(void)s;
	const float x[] = { 1.5f, -0.0f, 0, INF32, -INF32, NAN32, 0x1p-149f, -3 };
	gives(plus_zero, TJ_F32, 8, x, NULL, TJ_F32, ROW(float, 1.5f, 0, 0, INF32, -INF32, NAN32, 0x1p-149f, -3));
	gives(times_zero, TJ_F32, 8, x, NULL, TJ_F32, ROW(float, 0, -0.0f, 0, NAN32, NAN32, NAN32, 0, -0.0f));
	gives(minus_itself, TJ_F32, 8, x, NULL, TJ_F32, ROW(float, 0, 0, 0, NAN32, NAN32, NAN32, 0, 0));
	gives(by_itself, TJ_F32, 8, x, NULL, TJ_F32, ROW(float, 1, NAN32, NAN32, NAN32, NAN32, NAN32, 1, 1));
	gives(zero_minus, TJ_F32, 8, x, NULL, TJ_F32, ROW(float, -1.5f, 0, 0, -INF32, INF32, NAN32, -0x1p-149f, 3));
	gives(root_squared, TJ_F32, 3, ROW(float, 2, -1, -0.0f), NULL, TJ_F32, ROW(float, 0x1.fffffep+0f, NAN32, 0));
	gives(power_half, TJ_F32, 3, ROW(float, -0.0f, -INF32, 4), NULL, TJ_F32, ROW(float, 0, INF32, 2)); /* sqrt has -0, NaN */
	gives(there_and_back, TJ_F32, 2, ROW(float, 1, -7), NULL, TJ_F32, ROW(float, 0, 0));
	gives(product_and_sum, TJ_F32, 1, ROW(float, 0x1.001p+0f), ROW(float, 0x1.002p+0f), TJ_F32, ROW(float, 0)); /* fma: 2^-24 */
	gives(half_way, TJ_F32, 2, ROW(float, 1.75f, -0.5f), NULL, TJ_F32, ROW(float, 1, 0));
}

EXPR(twice, tj_add(A, A))
EXPR(halved, tj_mul(A, tj_f(0.5)))
EXPR(smaller, tj_minimum(A, B))
EXPR(is_zero, tj_eq(A, tj_f(0)))
EXPR(wider, tj_cast(A, TJ_F64))
EXPR(total, tj_sum(A, TJ_ALL, true))
EXPR(exponential, tj_exp(A))

static void subnormals(void **s)
{
	(void)s;
	const float x[] = { 0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1.fffffcp-127f };
	unsigned modes = _mm_getcsr();
	for (int flush = 0; flush < 2; flush++) { /* in any modes of the caller */
		_mm_setcsr(modes | (flush ? 0x8040 | 0x4000 : 0)); /* flushing, rounding up */
		gives(twice, TJ_F32, 4, x, NULL, TJ_F32, ROW(float, 0x1p-148f, -0x1p-148f, 0x1p-125f, 0x1.fffffcp-126f));
		gives(halved, TJ_F32, 4, x, NULL, TJ_F32, ROW(float, 0, -0.0f, 0x1p-127f, 0x1p-127f));
		gives(smaller, TJ_F32, 2, ROW(float, 0x1p-149f, 0), ROW(float, 0, -0x1p-149f), TJ_F32, ROW(float, 0, -0x1p-149f));
		gives(is_zero, TJ_F32, 2, ROW(float, 0x1p-149f, 0), NULL, TJ_BOOL, ROW(uint8_t, 0, 1));
		gives(wider, TJ_F32, 1, x, NULL, TJ_F64, ROW(double, 0x1p-149));
		gives(exponential, TJ_F32, 1, ROW(float, -103), NULL, TJ_F32, ROW(float, 0x1p-149f));
		unsigned after = _mm_getcsr();
		_mm_setcsr(modes);
		assert_int_equal(after & 0xE040, flush ? 0xC040 : 0);
	}
	reduces(total, TJ_F32, x, TJ_F32, ROW(float, WIDE * 0x1p-149f));
}

/* ---- the caller's floating-point modes: what is computed while tracing, compiling and reading does not depend on them ---- */
EXPR(act, tj_gelu(A))
EXPR(act_tanh, tj_gelu_tanh(A))
EXPR(third, tj_mul(A, tj_div(tj_f(1), tj_f(3))))
EXPR(norm, tj_layer_norm(tj_reshape(A, TJ_SHAPE(1, -1)), tj_full(TJ_F32, TJ_SHAPE(tj_numel(A)), tj_f(0.1)),
                         tj_full(TJ_F32, TJ_SHAPE(tj_numel(A)), tj_f(0.3)), 1e-5))
EXPR(folded, tj_add(A, tj_exp(tj_full(TJ_F32, TJ_SHAPE(1), tj_f(0.1)))))
EXPR(averages, tj_mean(A, TJ_ALL, true))
EXPR(singles, tj_unique(A))
EXPR(chosen, tj_nonzero(A))
EXPR(item, tj_full(TJ_F64, TJ_SHAPE(1), tj_f(tj_item(tj_slice(A, 0, 0, 1, 1)))))
EXPR(item_wide, tj_full(TJ_F64, TJ_SHAPE(1), tj_f(tj_item(tj_mul(tj_full(TJ_I64, TJ_SHAPE(1), tj_i((1ll << 50) + 1)), tj_i(9))))))
EXPR(branch, tj_truth(tj_slice(A, 0, 0, 1, 1)) ? tj_add(A, A) : A)

static unsigned control_bits(void)
{
	uint16_t x87;
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	return (_mm_getcsr() & ~0x3Fu) | (unsigned)x87 << 16;
}

/* In a context of its own, so that the first call compiles. Prints all values of an expression, one after the other. */
static size_t under_modes(expression *e, int round, bool flush, bool traps, char *got)
{
	const float x[] = { 0x1p-149f, 0.3f, -1.7f, 0x1.8p-127f, 5 };
	fenv_t was;
	size_t n = 0;
	fegetenv(&was);
	if (traps) feenableexcept(FE_ALL_EXCEPT);
	fesetround(round);
	if (flush) _mm_setcsr(_mm_getcsr() | 0x8040);
	unsigned set = control_bits();
	tj_ctx *c = kit_open();
	call k = { e };
	tj_fn *f = kit_fn(c, "modes", body, &k, 1, 1);
	tj_fn *d = tj_compile(c, body, &k, TJ_OPTS(tj_compile_opts, .name = "direct", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	tj_tensor *a = kit_f32(c, 5, x);
	for (int i = 0; i < 4; i++) {
		tj_tensor *r[] = { e(&a), tj_call1(f, TJ_LIST(a)), tj_call1(d, TJ_LIST(a)) };
		for (int j = 0; j < 3; j++) {
			size_t bytes = (size_t)tj_numel(r[j]) * tj_dtype_size(tj_dtype_of(r[j]));
			memcpy(got + n, tj_data(r[j]), bytes);
			n += bytes;
		}
	}
	free(kit_explain(f));
	free(kit_dump(f, TJ_DUMP_CODE));
	tj_stats st = kit_stats(d);
	unsigned after = control_bits();
	fesetenv(&was);
	kit_ok(c);
	assert_int_equal(st.calls, 4);
	assert_int_equal(after, set);
	tj_close(c);
	return n;
}

static void modes(void **s)
{
	(void)s;
	static const struct { const char *name; expression *e;
	} cases[] = {
#define CASE(e) { #e, e }
		CASE(act),     CASE(act_tanh), CASE(third), CASE(norm),      CASE(folded), CASE(averages),
		CASE(singles), CASE(chosen),   CASE(item),  CASE(item_wide), CASE(branch), CASE(wider),
#undef CASE
	};
	static const int round[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char want[2048], got[2048];
		size_t n = under_modes(cases[i].e, FE_TONEAREST, false, false, want);
		for (int m = 1; m < 8; m++) { /* each direction with and without flushing; traps with half of them */
			size_t k = under_modes(cases[i].e, round[m % 4], m >= 4, m % 3 == 0, got);
			if (k != n || memcmp(got, want, n))
				fail_msg("%s depends on the caller's modes: rounding %d%s", cases[i].name, m % 4,
				         m >= 4 ? ", flushing" : "");
		}
	}
}

/* ---- integers ---- */
#define MAX32 INT32_MAX
#define MIN32 INT32_MIN
EXPR(next_wide, tj_cast(tj_add(A, tj_i(1)), TJ_I64))
EXPR(before_wide, tj_cast(tj_sub(A, tj_i(1)), TJ_I64))
EXPR(product_wide, tj_cast(tj_mul(A, B), TJ_I64))
EXPR(floor_division, tj_floor_divide(A, B))
EXPR(rest, tj_remainder(A, B))
EXPR(division, tj_trunc_divide(A, B))
EXPR(c_rest, tj_fmod(A, B))
EXPR(left, tj_shift_left(A, B))
EXPR(right, tj_shift_right(A, B))
EXPR(byte_sum, tj_cast(tj_add(A, A), TJ_I32))

static void wrapping(void **s)
{
	(void)s;
	gives(next_wide, TJ_I32, 3, ROW(int32_t, MAX32, MIN32, -1), NULL, TJ_I64, ROW(int64_t, MIN32, MIN32 + 1, 0));
	gives(before_wide, TJ_I32, 2, ROW(int32_t, MIN32, 0), NULL, TJ_I64, ROW(int64_t, MAX32, -1));
	gives(product_wide, TJ_I32, 3, ROW(int32_t, MIN32, 65536, 46341), ROW(int32_t, -1, 65536, 46341), TJ_I64,
	      ROW(int64_t, MIN32, 0, -2147479015));
	gives(product_wide, TJ_I16, 2, ROW(int16_t, INT16_MIN, 256), ROW(int16_t, -1, 256), TJ_I64, ROW(int64_t, INT16_MIN, 0));
	gives(byte_sum, TJ_U8, 2, ROW(uint8_t, 200, 128), NULL, TJ_I32, ROW(int32_t, 144, 0));
	reduces(total, TJ_I32, ROW(int32_t, MAX32), TJ_I64, ROW(int64_t, (int64_t)MAX32 * WIDE));
	reduces(total, TJ_U8, ROW(uint8_t, 255), TJ_I64, ROW(int64_t, 255 * WIDE));
	gives(next_wide, TJ_I64, 1, ROW(int64_t, INT64_MAX), NULL, TJ_I64, ROW(int64_t, INT64_MIN));
}

static void divisions(void **s)
{
	(void)s;
	const int32_t a[] = { 7, 7, 7, 7, 7, -7, -7, -7, -7, -7, 0, 0, 0, 0, 0, MIN32, MIN32, MIN32, MIN32, MIN32 };
	const int32_t b[] = { 3, -3, 1, -1, MAX32, 3, -3, 1, -1, MAX32, 3, -3, 1, -1, MAX32, 3, -3, 1, -1, MAX32 };
	const int32_t floors[] = { 2, -3, 7, -7, 0, -3, 2, -7, 7, -1, 0, 0, 0, 0, 0, -715827883, 715827882, MIN32, MIN32, -2 };
	const int32_t rests[] = { 1, -2, 0, 0, 7, 2, -1, 0, 0, MAX32 - 7, 0, 0, 0, 0, 0, 1, -2, 0, 0, MAX32 - 1 };
	const int32_t truncs[] = { 2, -2, 7, -7, 0, -2, 2, -7, 7, 0, 0, 0, 0, 0, 0, -715827882, 715827882, MIN32, MIN32, -1 };
	const int32_t mods[] = { 1, 1, 0, 0, 7, -1, -1, 0, 0, -7, 0, 0, 0, 0, 0, -2, -2, 0, 0, -1 };
	gives(floor_division, TJ_I32, 20, a, b, TJ_I32, floors);
	gives(rest, TJ_I32, 20, a, b, TJ_I32, rests);
	gives(division, TJ_I32, 20, a, b, TJ_I32, truncs);
	gives(c_rest, TJ_I32, 20, a, b, TJ_I32, mods);
	const int64_t x[] = { INT64_MIN, INT64_MIN, 7, -7 }, y[] = { -1, 3, INT64_MAX, INT64_MIN };
	gives(floor_division, TJ_I64, 4, x, y, TJ_I64, ROW(int64_t, INT64_MIN, -3074457345618258603, 0, 0));
	gives(rest, TJ_I64, 4, x, y, TJ_I64, ROW(int64_t, 0, 1, 7, -7));
	gives(floor_division, TJ_I16, 2, ROW(int16_t, INT16_MIN, -7), ROW(int16_t, -1, 2), TJ_I16, ROW(int16_t, INT16_MIN, -4));
	gives(rest, TJ_U8, 2, ROW(uint8_t, 200, 7), ROW(uint8_t, 7, 255), TJ_U8, ROW(uint8_t, 4, 7));
}

static void shifts(void **s)
{
	(void)s;
	gives(left, TJ_I32, 6, ROW(int32_t, 5, 1, 1, 1, 1, -1), ROW(int32_t, 0, 31, 32, 33, -1, 31), TJ_I32,
	      ROW(int32_t, 5, MIN32, 0, 0, 0, MIN32));
	gives(right, TJ_I32, 6, ROW(int32_t, -8, -8, -8, 8, -8, MIN32), ROW(int32_t, 0, 31, 32, 33, -1, 31), TJ_I32,
	      ROW(int32_t, -8, -1, -1, 0, -1, -1));
	gives(left, TJ_U8, 4, ROW(uint8_t, 3, 3, 3, 3), ROW(uint8_t, 0, 7, 8, 9), TJ_U8, ROW(uint8_t, 3, 128, 0, 0));
	gives(right, TJ_U8, 4, ROW(uint8_t, 200, 200, 200, 200), ROW(uint8_t, 0, 7, 8, 255), TJ_U8, ROW(uint8_t, 200, 1, 0, 0));
	gives(left, TJ_I16, 3, ROW(int16_t, 1, 1, 1), ROW(int16_t, 15, 16, 17), TJ_I16, ROW(int16_t, INT16_MIN, 0, 0));
	gives(left, TJ_I64, 3, ROW(int64_t, 1, 1, 1), ROW(int64_t, 63, 64, 65), TJ_I64, ROW(int64_t, INT64_MIN, 0, 0));
	gives(right, TJ_I64, 2, ROW(int64_t, INT64_MIN, INT64_MIN), ROW(int64_t, 63, 64), TJ_I64, ROW(int64_t, -1, -1));
}

/* ---- casts ---- */
#define TO(name, type) EXPR(to_##name, tj_cast(A, TJ_##type))
TO(bool, BOOL) TO(u8, U8) TO(i16, I16) TO(i32, I32) TO(i64, I64) TO(f32, F32)
EXPR(to_u8_fused, tj_cast(tj_cast(tj_mul(A, tj_f(1)), TJ_U8), TJ_I32))

static void casts(void **s)
{
	(void)s;
	const float x[] = { NAN32, INF32, -INF32, 0x1p31f, -0x1p31f, 0x1p63f, -1.5f, 300, 255.5f, -0.0f, 0.25f, -32769 };
	const double d[] = { (double)NAN32, (double)INF32, (double)-INF32, 0x1p31, -0x1p31, 0x1p63, -1.5, 300, 255.5, -0.0, 0.25, -32769 };
	const int32_t i32[] = { 0, MAX32, MIN32, MAX32, MIN32, MAX32, -1, 300, 255, 0, 0, -32769 };
	const int64_t i64[] = { 0, INT64_MAX, INT64_MIN, (int64_t)1 << 31, MIN32, INT64_MAX, -1, 300, 255, 0, 0, -32769 };
	const int16_t i16[] = { 0, INT16_MAX, INT16_MIN, INT16_MAX, INT16_MIN, INT16_MAX, -1, 300, 255, 0, 0, INT16_MIN };
	const uint8_t u8[] = { 0, 255, 0, 255, 0, 255, 0, 255, 255, 0, 0, 0 }, truth[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1 };
	const int32_t wide_u8[] = { 0, 255, 0, 255, 0, 255, 0, 255, 255, 0, 0, 0 };
	for (int wide = 0; wide < 2; wide++) {
		tj_dtype t = wide ? TJ_F64 : TJ_F32;
		const void *v = wide ? (const void *)d : x;
		gives(to_i32, t, 12, v, NULL, TJ_I32, i32);
		gives(to_i64, t, 12, v, NULL, TJ_I64, i64);
		gives(to_i16, t, 12, v, NULL, TJ_I16, i16);
		gives(to_u8, t, 12, v, NULL, TJ_U8, u8);
		gives(to_bool, t, 12, v, NULL, TJ_BOOL, truth);
		gives(to_u8_fused, t, 12, v, NULL, TJ_I32, wide_u8);
	}
	gives(to_u8, TJ_I32, 4, ROW(int32_t, 300, -1, 256, MIN32), NULL, TJ_U8, ROW(uint8_t, 44, 255, 0, 0));
	gives(to_bool, TJ_I32, 3, ROW(int32_t, 256, 0, MIN32), NULL, TJ_BOOL, ROW(uint8_t, 1, 0, 1));
	gives(to_f32, TJ_I64, 3, ROW(int64_t, 16777217, INT64_MAX, -16777219), NULL, TJ_F32, ROW(float, 16777216, 0x1p63f, -16777220));
	gives(to_f32, TJ_F64, 3, ROW(double, 1e300, 0x1p-150, 0x1.8p-149), NULL, TJ_F32, ROW(float, INF32, 0, 0x1p-148f));
}

/* ---- bool and promotion ---- */
EXPR(either, tj_add(A, B))
EXPR(both, tj_mul(A, B))
EXPR(alike, tj_eq(A, B))
EXPR(as_number, tj_add(tj_cast(A, TJ_I32), tj_i(1)))
EXPR(all_of, tj_all(A, TJ_ALL, true))

static void bools(void **s)
{
	(void)s;
	const uint8_t x[] = { 0, 1, 2, 255 }, y[] = { 0, 0, 1, 128 }; /* any byte but 0 is true */
	gives(either, TJ_BOOL, 4, x, y, TJ_BOOL, ROW(uint8_t, 0, 1, 1, 1));
	gives(both, TJ_BOOL, 4, x, y, TJ_BOOL, ROW(uint8_t, 0, 0, 1, 1));
	gives(alike, TJ_BOOL, 4, x, y, TJ_BOOL, ROW(uint8_t, 1, 0, 1, 1));
	gives(as_number, TJ_BOOL, 4, x, NULL, TJ_I32, ROW(int32_t, 1, 2, 2, 2));
	reduces(total, TJ_BOOL, ROW(uint8_t, 255), TJ_I64, ROW(int64_t, WIDE));
	reduces(all_of, TJ_BOOL, ROW(uint8_t, 7), TJ_BOOL, ROW(uint8_t, 1));
	tj_ctx *c = kit_open();
	tj_mean(tj_from_data(c, TJ_BOOL, TJ_SHAPE(4), x), TJ_ALL, false);
	kit_error(c, TJ_ERR_DTYPE, "a float is needed");
	tj_close(c);
}

static int category(tj_dtype t) { return t == TJ_BOOL ? 0 : t < TJ_F16 ? 1 : 2; }

/* PyTorch's rule in words: the higher category; within it the larger dtype of tensors with axes, which 0-d tensors and numbers do not
 * widen. Two dtypes of the same size give a larger one that holds both. */
static tj_dtype promoted(tj_dtype a, tj_dtype b, int kind)
{
	int x = category(a), y = category(b);
	if (kind == 2 && b == TJ_F64) b = TJ_F32; /* a float number is as wide as the default */
	if (kind && x >= y) return a;
	if (x == y && a != b && tj_dtype_size(a) == tj_dtype_size(b)) return x == 1 ? TJ_I16 : x == 2 ? TJ_F32 : a;
	return x > y || (x == y && tj_dtype_size(a) > tj_dtype_size(b)) ? a : b;
}

static tj_tensor *one_of(tj_ctx *c, tj_dtype t, bool zero_d, int value)
{
	const int64_t i = value;
	const float f = (float)value;
	const double d = value;
	const tj_f16 h = tj_to_f16(d);
	const tj_bf16 b = tj_to_bf16(d);
	const void *p = t == TJ_F16    ? (const void *)&h
	                : t == TJ_BF16 ? (const void *)&b
	                : t == TJ_F32  ? (const void *)&f
	                : t == TJ_F64  ? (const void *)&d
	                               : &i; /* little endian */
	return tj_from_data(c, t, zero_d ? TJ_0D : TJ_SHAPE(1), p);
}

EXPR(sum2, tj_add(A, B))
static void promotion(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	call k = { sum2 };
	tj_fn *f = kit_fn(c, "sum", body, &k, 2, 1);
	for (int a = 0; a < TJ_DTYPE_COUNT; a++)
		for (int b = 0; b < TJ_DTYPE_COUNT; b++)
			for (int kind = 0; kind < 3; kind++) { /* a tensor, a 0-d tensor, a number */
				if (kind == 2 && b != TJ_I64 && b != TJ_F64) continue;
				tj_scope *sc = tj_push(c);
				tj_tensor *x = one_of(c, (tj_dtype)a, false, 1);
				tj_tensor *y = kind < 2 ? one_of(c, (tj_dtype)b, kind == 1, 1) : b == TJ_I64 ? tj_i(1) : tj_f(1);
				tj_dtype t = promoted((tj_dtype)a, (tj_dtype)b, kind);
				tj_tensor *r[2] = { tj_add(x, y), tj_call1(f, TJ_LIST(x, y)) };
				for (int i = 0; i < 2; i++) {
					assert_string_equal(tj_dtype_name(tj_dtype_of(r[i])), tj_dtype_name(t));
					assert_int_equal(tj_item_i(tj_cast(r[i], TJ_I32)), t == TJ_BOOL ? 1 : 2);
				}
				tj_pop(sc);
			}
	kit_ok(c);
	tj_close(c);
}

/* ---- accuracy ---- */
EXPR(sum_all, tj_sum(A, TJ_ALL, false))
EXPR(spread, tj_var(A, TJ_ALL, 0, false))
EXPR(log_sum, tj_logsumexp(A, TJ_ALL, false))
EXPR(soft, tj_softmax(A, -1))
EXPR(log_soft, tj_log_softmax(A, -1))

static double scalar_of(tj_ctx *c, expression *e, tj_tensor *x)
{
	call k = { e };
	tj_fn *f = kit_fn(c, "acc", body, &k, 1, 1);
	double eager = tj_item(e(TJ_LIST(x))), compiled = tj_item(tj_call1(f, TJ_LIST(x)));
	kit_ok(c);
	assert_true(eager == compiled || (isnan(eager) && isnan(compiled)));
	return compiled;
}

static void sums(void **s)
{
	(void)s;
	enum { N = 1 << 20 };
	tj_ctx *c = kit_open();
	float *x = malloc(N * sizeof *x);
	double exact = 0, size = 0;
	assert_non_null(x);
	for (int i = 0; i < N; i++) {
		x[i] = (float)(i % 1000) * 0.1f - (i % 7 ? 20 : 90);
		exact += (double)x[i];
		size += fabs((double)x[i]);
	}
	double got = scalar_of(c, sum_all, tj_from_data(c, TJ_F32, TJ_SHAPE(N), x));
	assert_true(fabs(got - exact) <= (16 + 13 + 7) * 0x1p-24 * size); /* depth of the tree, u, the sum of sizes */
	for (int i = 0; i < 70000; i++) x[i] = 1;
	assert_true(scalar_of(c, sum_all, tj_from_data(c, TJ_F32, TJ_SHAPE(70000), x)) == 70000);
	for (int i = 0; i < N; i++) x[i] = 1e6f + (float)(i % 16) / 8; /* of n/8, n = 0..15: 255/768 */
	got = scalar_of(c, spread, tj_from_data(c, TJ_F32, TJ_SHAPE(1 << 16), x));
	assert_true(fabs(got - 255.0 / 768) < 0.01);
	free(x);
	tj_close(c);
}

static void exponentials(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	assert_true(fabs(scalar_of(c, log_sum, F32(c, 1000, 1000)) - 1000.6931) < 1e-3);
	assert_true(fabs(scalar_of(c, log_sum, F32(c, -1000, -1000)) + 999.3069) < 1e-3);
	assert_true(scalar_of(c, log_sum, F32(c, -INF32, -INF32)) == -INFINITY);
	assert_true(scalar_of(c, log_sum, F32(c, 1, INF32)) == INFINITY);
	assert_true(isnan(scalar_of(c, log_sum, F32(c, 1, NAN32))));
	tj_close(c);
	gives(soft, TJ_F32, 1, ROW(float, -INF32), NULL, TJ_F32, ROW(float, NAN32));
	c = kit_open();
	tj_tensor *rows = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ROW(float, -INF32, -INF32, 1e30f, -1e30f));
	thrice(c, soft, 1, TJ_LIST(rows), TJ_F32, 4, 4, ROW(float, NAN32, NAN32, 1, 0));
	thrice(c, log_soft, 1, TJ_LIST(rows), TJ_F32, 4, 4, ROW(float, NAN32, NAN32, 0, -2e30f));
	tj_close(c);
}

/* ---- beyond 2^31 ---- */
#define FAR ((int64_t)1 << 33)
EXPR(end_of_row, tj_slice(tj_expand(A, TJ_SHAPE(FAR)), 0, FAR - 5, TJ_END_DIM, 2))
EXPR(start_of_flip, tj_slice(tj_flip(tj_expand(A, TJ_SHAPE(3, FAR)), TJ_ALL), 1, FAR - 1, TJ_END_DIM, 1))
EXPR(far_steps, tj_slice(tj_expand(A, TJ_SHAPE(FAR)), 0, 3, TJ_END_DIM, (int64_t)1 << 31))
EXPR(far_gather, tj_index_select(tj_expand(A, TJ_SHAPE(FAR)), 0, B))
EXPR(far_arange, tj_add(tj_arange(TJ_I64, FAR, FAR + 4, 1), A))
EXPR(whole_range, tj_add(tj_arange(TJ_U8, 253, 256, 1), A)) /* up to the largest value of a dtype; no elements beyond it */
EXPR(backwards, tj_add(tj_arange(TJ_U8, 2, -1, -1), A))
EXPR(none_beyond, tj_add(tj_arange(TJ_U8, 300, 300, 1), A))
EXPR(far_reshape, tj_slice(tj_reshape(tj_expand(A, TJ_SHAPE(FAR, 2)), TJ_SHAPE(2, -1)), 1, FAR - 2, TJ_END_DIM, 1))

static void offsets(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("the evaluator copies what is there");
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 7), *at = tj_from_data(c, TJ_I64, TJ_SHAPE(3), ROW(int64_t, 0, FAR - 1, (int64_t)1 << 31));
	thrice(c, end_of_row, 1, TJ_LIST(x), TJ_F32, 3, 1, ROW(float, 7));
	thrice(c, start_of_flip, 1, TJ_LIST(x), TJ_F32, 3, 1, ROW(float, 7));
	thrice(c, far_steps, 1, TJ_LIST(x), TJ_F32, 4, 1, ROW(float, 7));
	thrice(c, far_gather, 2, TJ_LIST(x, at), TJ_F32, 3, 1, ROW(float, 7));
	thrice(c, far_arange, 1, TJ_LIST(tj_i(1)), TJ_I64, 4, 4, ROW(int64_t, FAR + 1, FAR + 2, FAR + 3, FAR + 4));
	thrice(c, whole_range, 1, TJ_LIST(tj_i(0)), TJ_U8, 3, 3, ROW(uint8_t, 253, 254, 255));
	thrice(c, backwards, 1, TJ_LIST(tj_i(0)), TJ_U8, 3, 3, ROW(uint8_t, 2, 1, 0));
	thrice(c, none_beyond, 1, TJ_LIST(tj_i(0)), TJ_U8, 0, 1, ROW(uint8_t, 0));
	thrice(c, far_reshape, 1, TJ_LIST(x), TJ_F32, 4, 1, ROW(float, 7));
	tj_close(c);
}

/* Sizes whose product, or whose bytes, exceed 64 bits. */
static void refused_sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	const int64_t half = (int64_t)1 << 32, most = (int64_t)1 << 62;
	tj_tensor *x = F32(c, 1), *bad[9];
	int n = 0;
	bad[n++] = tj_expand(x, TJ_SHAPE(half, half));
	bad[n++] = tj_full(TJ_F32, TJ_SHAPE(half, half, 2), tj_f(1));
	bad[n++] = tj_full(TJ_F64, TJ_SHAPE(most), tj_f(1)); /* 2^65 bytes */
	bad[n++] = tj_arange(TJ_I64, 0, most, 1);
	bad[n++] = tj_arange(TJ_U8, 250, 260, 1);
	bad[n++] = tj_eye(TJ_F32, half, half);
	bad[n++] = tj_matmul(tj_expand(x, TJ_SHAPE(half, 1)), tj_expand(x, TJ_SHAPE(1, half)));
	bad[n++] = tj_cat(TJ_LIST(tj_expand(x, TJ_SHAPE(most / 4)), tj_expand(x, TJ_SHAPE(INT64_MAX - 8))), 0);
	bad[n++] = tj_from_data(c, TJ_F32, TJ_SHAPE(half, half), ROW(float, 1));
	for (int i = 0; i < n; i++)
		if (!tj_is_poison(bad[i])) fail_msg("size %d was accepted", i);
	assert_int_not_equal(tj_check(c), TJ_OK);
	kit_ok(c);
	tj_close(c);
}

/* ---- random numbers ---- */
static bool differ(tj_tensor *a, tj_tensor *b)
{
	assert_int_equal(tj_numel(a), tj_numel(b));
	return memcmp(tj_data(a), tj_data(b), (size_t)tj_numel(a) * sizeof(float)) != 0;
}

static tj_tensor *mask(int n) { return tj_uniform(TJ_F32, TJ_SHAPE(n)); }

/* Two masks; the first is read again after a boundary, so it is recomputed. */
static void two_masks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in, (void)self;
	tj_tensor *a = mask(WIDE), *b = mask(WIDE), *sum = tj_sum(tj_add(a, b), TJ_ALL, false);
	out[2] = sum;
	if (!tj_truth(tj_gt(sum, tj_f(0)))) return;
	out[0] = a;
	out[1] = b;
	out[3] = tj_sum(tj_add(a, b), TJ_ALL, false);
}

static void masks(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "masks", two_masks, NULL, 0, 4);
	tj_tensor *first[4], *next[4], *again[4], *eager[4];
	tj_seed(c, 5);
	tj_call(f, first, TJ_NONE);
	tj_call(f, next, TJ_NONE);
	assert_true(differ(first[0], first[1]) && differ(first[0], next[0]) && differ(first[1], next[0]) && differ(first[1], next[1]));
	assert_false(differ(first[2], first[3])); /* recomputed, the same numbers */
	tj_seed(c, 5);
	tj_call(f, again, TJ_NONE);
	two_masks(eager, TJ_NONE, NULL); /* the ordinals go on outside of functions */
	for (int i = 0; i < 4; i++) {
		assert_false(differ(first[i], again[i]));
		assert_false(differ(next[i], eager[i]));
	}
	kit_ok(c);
	tj_close(c);
}

static void *of_clone(void *p)
{
	tj_ctx *c = kit_clone(p);
	tj_tensor *t = tj_retain(mask(WIDE));
	tj_close(c);
	return t;
}

static void clones(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *t[3] = { mask(WIDE) };
	for (int i = 1; i < 3; i++) {
		pthread_t th;
		void *r;
		assert_int_equal(pthread_create(&th, NULL, of_clone, c), 0);
		pthread_join(th, &r);
		t[i] = r;
	}
	assert_true(differ(t[0], t[1]) && differ(t[0], t[2]) && differ(t[1], t[2]));
	tj_tensor *small = tj_slice(mask(WIDE), 0, 0, 8, 1);
	tj_seed(c, 9), t[0] = mask(8);
	tj_seed(c, 9), small = tj_slice(mask(WIDE), 0, 0, 8, 1); /* element i does not depend on the size */
	assert_false(differ(t[0], small));
	tj_release(t[1]);
	tj_release(t[2]);
	kit_ok(c);
	tj_close(c);
}

/* ---- numbers as operands that are read from memory: a number is no slot, no 0, and no value of an earlier call ---- */
static int64_t three;
#define THREE tj_i(three)
EXPR(num_gather, tj_gather(THREE, 0, tj_reshape(A, TJ_0D)))
EXPR(num_select, tj_index_select(tj_expand(THREE, TJ_SHAPE(5)), 0, A))
EXPR(num_table, tj_embedding(tj_expand(THREE, TJ_SHAPE(4, 2)), A))
EXPR(num_matmul, tj_matmul(tj_expand(THREE, TJ_SHAPE(2, 2)), tj_add(tj_expand(A, TJ_SHAPE(2, 2)), tj_i(1))))
EXPR(num_dot, tj_matmul(tj_expand(THREE, TJ_SHAPE(3)), tj_expand(THREE, TJ_SHAPE(3))))
EXPR(num_index, tj_gather(tj_arange(TJ_I64, 0, 9, 1), 0, tj_expand(THREE, TJ_SHAPE(2))))
EXPR(num_scatter, tj_scatter_add(tj_expand(THREE, TJ_SHAPE(2)), 0, A, tj_expand(THREE, TJ_SHAPE(1))))
EXPR(num_cat, tj_cat(TJ_LIST(tj_expand(THREE, TJ_SHAPE(1)), A), 0))
EXPR(num_sum, tj_sum(tj_expand(THREE, TJ_SHAPE(7)), TJ_ALL, false))
EXPR(num_view, tj_flip(tj_expand(THREE, TJ_SHAPE(3)), TJ_ALL))
EXPR(num_float, tj_gather(tj_f((double)three), 0, tj_reshape(A, TJ_0D)))
EXPR(num_arg, tj_gather(B, 0, tj_reshape(A, TJ_0D)))
EXPR(num_args, tj_matmul(tj_expand(B, TJ_SHAPE(2, 3)), tj_expand(B, TJ_SHAPE(3, 1))))

static void number_is(const char *name, tj_tensor *t, double each, double sum)
{
	double all = 0, first = tj_item(tj_reshape(tj_slice(tj_reshape(t, TJ_SHAPE(-1)), 0, 0, 1, 1), TJ_0D));
	if (tj_is_poison(t) || first != each) fail_msg("%s: %g, not %g", name, first, each);
	for (int64_t i = 0; i < tj_numel(t); i++)
		all += tj_dtype_of(t) == TJ_F32 ? (double)((const float *)tj_data(t))[i] : (double)((const int64_t *)tj_data(t))[i];
	if (all != sum) fail_msg("%s: %g in all, not %g", name, all, sum);
}

static void numbers(void **s)
{
	(void)s;
	static const struct { const char *name; expression *e; double each, sum;
	} cases[] = {
		/* the first element, all of them */
		{ "num_gather", num_gather, 3, 3 },   { "num_select", num_select, 3, 3 }, { "num_table", num_table, 3, 6 },
		{ "num_matmul", num_matmul, 6, 24 },  { "num_dot", num_dot, 27, 27 },     { "num_index", num_index, 3, 6 },
		{ "num_scatter", num_scatter, 6, 9 }, { "num_cat", num_cat, 3, 3 },       { "num_sum", num_sum, 21, 21 },
		{ "num_view", num_view, 3, 9 },       { "num_float", num_float, 3, 3 },   { "num_arg", num_arg, 3, 3 },
		{ "num_args", num_args, 27, 54 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 1));
		call k = { cases[i].e };
		tj_tensor *zero = tj_from_data(c, TJ_I64, TJ_SHAPE(1), (int64_t[]){ 0 });
		tj_fn *f[2];
		for (int d = 0; d < 2; d++) /* direct: the number of the first call is a constant of the body */
			f[d] = tj_compile(c, body, &k, TJ_OPTS(tj_compile_opts, .name = "number", .nin = 2, .nout = 1, .mode = d ? TJ_DIRECT : TJ_VERIFY));
		for (int n = 0; n < 5; n++) {
			three = 3;
			tj_tensor *in[] = { zero, THREE, TJ_END };
			number_is(cases[i].name, cases[i].e(in), cases[i].each, cases[i].sum); /* compiled from the third time on */
			for (int d = 0; d < 2; d++) number_is(cases[i].name, tj_call1(f[d], in), cases[i].each, cases[i].sum);
		}
		three = 2;
		tj_tensor *in[] = { zero, THREE, TJ_END }, *eager = cases[i].e(in), *other = tj_call1(f[0], in);
		kit_ok(c);
		compare("another number", other, tj_dtype_of(eager), (size_t)tj_numel(eager), (size_t)tj_numel(eager), tj_data(eager));
		tj_close(c);
	}
}

/* ---- numbers divided by a zero that is a number: an error, or 0 as for tensors ---- */
static void by_number(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_floor_divide(in[0], in[1]);
	out[1] = tj_remainder(in[0], in[1]);
	out[2] = tj_trunc_divide(in[0], in[1]);
	out[3] = tj_fmod(in[0], in[1]);
	out[4] = tj_add(tj_floor_divide(in[0], in[1]), tj_full(TJ_I64, TJ_SHAPE(2), tj_i(1)));
}
static void by_number_inside(tj_tensor **out, tj_tensor *const *in, void *self) { tj_call(self, out, TJ_LIST(in[0], in[1])); }

static void quotients(tj_tensor *const *out, const int64_t *want)
{
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tj_dtype_of(out[i]), TJ_I64);
		assert_int_equal(tj_item_i(out[i]), want[i]);
	}
	compare("in a tensor", out[4], TJ_I64, 2, 1, ROW(int64_t, want[0] + 1));
}

static void zero_divisors(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int how = 0; how < 8; how++) { /* 1: 0 instead of an error; 2: direct; 4: of the function around, too */
		tj_int_div_zero zero = how & 1 ? TJ_ZERO : TJ_ERROR;
		tj_mode mode = how & 2 ? TJ_DIRECT : TJ_VERIFY;
		tj_fn *f =
			tj_compile(c, by_number, NULL,
		                   TJ_OPTS(tj_compile_opts, .name = "by_number", .nin = 2, .nout = 5, .mode = mode, .int_div_zero = zero));
		if (how & 4)
			f = tj_compile(c, by_number_inside, f,
			               TJ_OPTS(tj_compile_opts, .name = "around", .nin = 2, .nout = 5, .mode = mode, .int_div_zero = zero));
		for (int k = 0; k < 6; k++) {
			tj_tensor *out[5];
			tj_status st = tj_call(f, out, TJ_LIST(tj_i(-7), tj_i(k % 2 ? 0 : 2)));
			if (k % 2 && zero == TJ_ERROR) {
				assert_int_equal(st, TJ_ERR_DIV);
				kit_error(c, TJ_ERR_DIV, "division by zero");
				continue;
			}
			kit_ok(c);
			quotients(out, k % 2 ? ROW(int64_t, 0, 0, 0, 0) : ROW(int64_t, -4, 1, -3, -1));
		}
		kit_ok(c);
		if (how & 2) assert_true(kit_stats(f).direct >= 4);
	}
	assert_true(tj_is_poison(tj_fmod(tj_i(7), tj_i(0)))); /* outside of functions */
	kit_error(c, TJ_ERR_DIV, "division by zero");
	tj_close(c);
}

/* ---- numbers that a dtype cannot hold ---- */
EXPR(eq_300, tj_eq(A, tj_i(300)))
EXPR(eq_44, tj_eq(tj_i(44), A))
EXPR(ne_300, tj_ne(A, tj_i(300)))
EXPR(lt_300, tj_lt(A, tj_i(300)))
EXPR(le_minus, tj_le(A, tj_i(-1)))
EXPR(gt_minus, tj_gt(A, tj_i(-1000)))
EXPR(ge_300, tj_ge(A, tj_i(300)))
EXPR(minus_lt, tj_lt(tj_i(-1), A))
EXPR(le_44, tj_le(A, tj_i(44)))
EXPR(ge_44, tj_ge(A, tj_i(44)))
EXPR(lt_44, tj_lt(A, tj_i(44)))
EXPR(gt_44, tj_gt(A, tj_i(44)))
EXPR(clamp_wide, tj_clamp(A, tj_i(-1000), tj_i(70000)))
EXPR(clamp_above, tj_clamp(A, tj_i(300), tj_i(400)))
EXPR(max_300, tj_maximum(A, tj_i(300)))
EXPR(min_300, tj_minimum(tj_i(300), A))
EXPR(min_minus, tj_minimum(A, tj_i(-1)))
EXPR(plus_300, tj_add(A, tj_i(300)))
EXPR(where_300, tj_where(tj_eq(A, tj_i(44)), tj_i(300), A))
EXPR(eq_tenth, tj_eq(A, tj_f(0.1)))
EXPR(eq_2_24, tj_eq(A, tj_i((1 << 24) + 1)))
EXPR(eq_huge, tj_eq(A, tj_f(1e300)))
EXPR(lt_2_63, tj_lt(A, tj_f(0x1p63)))

static void out_of_range(void **s)
{
	(void)s;
	const uint8_t u[] = { 0, 44, 60, 255 };
	const int32_t w[] = { MIN32, -1, 44, MAX32 };
	const uint8_t none[4] = { 0 }, all[] = { 1, 1, 1, 1 }, second[] = { 0, 1 };
	gives(eq_300, TJ_U8, 4, u, NULL, TJ_BOOL, none);
	gives(eq_44, TJ_U8, 4, u, NULL, TJ_BOOL, ROW(uint8_t, 0, 1, 0, 0));
	gives(ne_300, TJ_U8, 4, u, NULL, TJ_BOOL, all);
	gives(lt_300, TJ_U8, 4, u, NULL, TJ_BOOL, all);
	gives(lt_300, TJ_I32, 4, w, NULL, TJ_BOOL, ROW(uint8_t, 1, 1, 1, 0));
	gives(le_minus, TJ_U8, 4, u, NULL, TJ_BOOL, none);
	gives(gt_minus, TJ_U8, 4, u, NULL, TJ_BOOL, all);
	gives(ge_300, TJ_U8, 4, u, NULL, TJ_BOOL, none);
	gives(minus_lt, TJ_U8, 4, u, NULL, TJ_BOOL, all);
	gives(le_44, TJ_U8, 4, u, NULL, TJ_BOOL, ROW(uint8_t, 1, 1, 0, 0));
	gives(ge_44, TJ_I32, 4, w, NULL, TJ_BOOL, ROW(uint8_t, 0, 0, 1, 1));
	gives(lt_44, TJ_I32, 4, w, NULL, TJ_BOOL, ROW(uint8_t, 1, 1, 0, 0));
	gives(gt_44, TJ_U8, 4, u, NULL, TJ_BOOL, ROW(uint8_t, 0, 0, 1, 1));
	gives(clamp_wide, TJ_U8, 4, u, NULL, TJ_U8, u);
	gives(clamp_wide, TJ_I32, 4, w, NULL, TJ_I32, ROW(int32_t, -1000, -1, 44, 70000));
	gives(clamp_above, TJ_U8, 4, u, NULL, TJ_U8, ROW(uint8_t, 255, 255, 255, 255));
	gives(max_300, TJ_U8, 4, u, NULL, TJ_U8, ROW(uint8_t, 255, 255, 255, 255));
	gives(min_300, TJ_U8, 4, u, NULL, TJ_U8, u);
	gives(min_minus, TJ_U8, 4, u, NULL, TJ_U8, none);
	gives(plus_300, TJ_U8, 4, u, NULL, TJ_U8, ROW(uint8_t, 44, 88, 104, 43)); /* arithmetic wraps */
	gives(where_300, TJ_U8, 4, u, NULL, TJ_U8, ROW(uint8_t, 0, 44, 60, 255));
	gives(eq_tenth, TJ_F32, 2, ROW(float, 0, 0.1f), NULL, TJ_BOOL, second); /* floats round, as in PyTorch */
	gives(eq_2_24, TJ_F32, 2, ROW(float, 0, 0x1p24f), NULL, TJ_BOOL, second);
	gives(eq_huge, TJ_F32, 2, ROW(float, 0, INF32), NULL, TJ_BOOL, second);
	gives(lt_2_63, TJ_I64, 2, ROW(int64_t, INT64_MAX, 1), NULL, TJ_BOOL, second); /* in f32: 2^63 < 2^63 */
}

static tj_dtype of_dtype;
static void fill(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_full(of_dtype, TJ_SHAPE(3), tj_add(in[0], in[1]));
}

static void full_that_fits(void **s)
{
	(void)s;
	static const struct { tj_dtype t; double v; bool ok; const char *what;
	} cases[] = {
		/* a whole value is also tried as an int number */
		{ TJ_U8, 255, true, "" },
		{ TJ_U8, 256, false, "u8 cannot hold 256" },
		{ TJ_U8, -1, false, "u8 cannot hold -1" },
		{ TJ_U8, 255.5, true, "" },
		{ TJ_I32, 0x1p31, false, "i32 cannot hold" },
		{ TJ_I32, -0x1p31, true, "" },
		{ TJ_I64, 0x1p63, false, "i64 cannot hold" },
		{ TJ_I64, -0x1p63, true, "" },
		{ TJ_I32, NAN, false, "i32 cannot hold nan" },
		{ TJ_F32, 1e300, false, "f32 cannot hold 1e+300" },
		{ TJ_F32, 0x1.fffffep127, true, "" },
		{ TJ_F32, INFINITY, true, "" },
		{ TJ_F32, NAN, true, "" },
		{ TJ_F64, 1e300, true, "" },
		{ TJ_BOOL, 7, true, "" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int whole = 0; whole < 2; whole++) {
			double v = cases[i].v;
			if (whole && !(v == trunc(v) && fabs(v) < 0x1p51)) continue;
			tj_ctx *c = kit_open();
			tj_tensor *n = whole ? tj_i((int64_t)v) : tj_f(v), *zero = whole ? tj_i(0) : tj_f(0), *two = whole ? tj_i(2) : tj_f(2);
			of_dtype = cases[i].t;
			for (int mode = 0; mode < 3; mode++) { /* verify, direct, op by op */
				tj_fn *f = tj_compile(c, fill, NULL,
				                      TJ_OPTS(tj_compile_opts, .name = "fill", .nin = 2, .nout = 1,
				                              .mode = mode == 1 ? TJ_DIRECT : TJ_VERIFY));
				for (int k = 0; k < 5; k++) { /* a small number, then this one: the value is no part of a trace */
					tj_tensor *y, *in[] = { k < 3 ? two : n, zero, TJ_END };
					if (mode == 2) fill(&y, in, NULL);
					else y = tj_call1(f, in);
					assert_int_equal(tj_is_poison(y), k >= 3 && !cases[i].ok);
					if (k >= 3 && !cases[i].ok) kit_error(c, TJ_ERR_ARG, cases[i].what);
				}
				if (mode == 1) assert_true(kit_stats(f).direct >= 2); /* and direct mode holds */
			}
			kit_ok(c);
			tj_close(c);
		}
}

/* ---- zeros with a sign, infinities: as docs/NUMERICS.md says ---- */
EXPR(modulo, tj_remainder(A, B))
EXPR(floored, tj_floor_divide(A, B))
EXPR(larger, tj_maximum(A, B))
EXPR(total_of, tj_sum(A, TJ_ALL, true))

static void zeros(void **s)
{
	(void)s;
	const float i = INF32, a[] = { 6, -6, 6, -6, -0.0f, 0, -0.0f, i, 1, -1, 1, -1 }, b[] = { 3, 3, -3, -3, 3, -3, -3, 2, -i, i, i, -i };
	const double da[] = { 6, -6, 6, -0.0, 1, -1, INFINITY }, db[] = { -3, 3, 3, -3, -INFINITY, INFINITY, 2 };
	gives(modulo, TJ_F32, 12, a, b, TJ_F32, ROW(float, 0, 0, -0.0f, -0.0f, 0, -0.0f, -0.0f, NAN32, -i, i, 1, -1)); /* Python's % */
	gives(floored, TJ_F32, 12, a, b, TJ_F32, ROW(float, 2, -2, -2, 2, -0.0f, -0.0f, 0, NAN32, -1, -1, 0, 0));       /* and // */
	gives(modulo, TJ_F64, 7, da, db, TJ_F64, ROW(double, -0.0, 0, 0, -0.0, -INFINITY, INFINITY, NAN));
	gives(floored, TJ_F64, 7, da, db, TJ_F64, ROW(double, -2, -2, 2, 0, -1, -1, NAN));
	gives(smaller, TJ_F32, 2, ROW(float, 0, -0.0f), ROW(float, -0.0f, 0), TJ_F32, ROW(float, 0, -0.0f)); /* the first */
	gives(larger, TJ_F32, 2, ROW(float, 0, -0.0f), ROW(float, -0.0f, 0), TJ_F32, ROW(float, 0, -0.0f));
	reduces(total_of, TJ_F32, ROW(float, -0.0f), TJ_F32, ROW(float, -0.0f));
	reduces(total_of, TJ_F64, ROW(double, -0.0), TJ_F64, ROW(double, -0.0));
}

/* ---- reductions over nothing, variances of what is far from 0 ---- */
EXPR(lse_row, tj_logsumexp(tj_slice(tj_reshape(A, TJ_SHAPE(1, -1)), 1, 0, 0, 1), TJ_AXES(1), false))
EXPR(lse_all, tj_logsumexp(tj_slice(A, 0, 0, 0, 1), TJ_ALL, true))
EXPR(var_all, tj_var(A, TJ_ALL, 0, true))
EXPR(columns, tj_var(A, TJ_AXES(0), 1, false))
EXPR(lines, tj_var(A, TJ_AXES(1), 1, false))

static double var_of(const float *v, int64_t n, int64_t step)
{
	double mean = 0, sum = 0;
	for (int64_t i = 0; i < n; i++) mean += (double)v[i * step] / (double)n;
	for (int64_t i = 0; i < n; i++) sum += ((double)v[i * step] - mean) * ((double)v[i * step] - mean);
	return sum / (double)(n - 1);
}

static void variances(void **s)
{
	(void)s;
	enum { R = 4096, C = 64 };
	tj_ctx *c = kit_open();
	float *v = malloc(R * C * sizeof *v);
	assert_non_null(v);
	for (int i = 0; i < R * C; i++) v[i] = 1e6f + (float)((unsigned)i * 2654435761u >> 22) / 1024;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(R, C), v);
	for (int row = 0; row < 2; row++) {
		call k = { row ? lines : columns };
		tj_fn *f = kit_fn(c, "var", body, &k, 1, 1);
		const float *y = tj_data(tj_call1(f, TJ_LIST(x)));
		for (int i = 0; i < (row ? R : C); i += 7) {
			double want = var_of(row ? v + i * C : v + i, row ? C : R, row ? 1 : C);
			if (!(fabs((double)y[i] - want) <= 1e-6 * want)) fail_msg("%d: %g, not %g", i, (double)y[i], want);
		}
	}
	free(v);
	tj_close(c);
	reduces(var_all, TJ_F32, ROW(float, 0.1f), TJ_F32, ROW(float, 0)); /* of equal elements: never below 0 */
	reduces(var_all, TJ_F64, ROW(double, 1e9 / 3), TJ_F64, ROW(double, 0));
	reduces(lse_row, TJ_F32, ROW(float, 1), TJ_F32, ROW(float, -INF32));
	reduces(lse_all, TJ_F64, ROW(double, 1), TJ_F64, ROW(double, -INFINITY));
}

/* ---- fork ---- */
EXPR(some_work, tj_sum(tj_exp(tj_mul(A, A)), TJ_ALL, false))
EXPR(other_work, tj_amax(tj_sin(tj_add(A, A)), TJ_ALL, false))

/* In a child: an old function, a new signature, a new function. */
static int in_child(tj_ctx *c, tj_fn *old)
{
	call k = { other_work };
	alarm(60);
	tj_fn *f = kit_fn(c, "child", body, &k, 1, 1);
	bool ok = tj_item(tj_call1(old, TJ_LIST(F32(c, 0, 0)))) == 2;
	ok &= tj_item(tj_call1(old, TJ_LIST(F32(c, 0, 0, 0)))) == 3;
	ok &= tj_item(tj_call1(f, TJ_LIST(F32(c, 0, 0, 0)))) == 0;
	return ok && tj_check(c) == TJ_OK ? 0 : 1;
}

static void child(tj_ctx *c, tj_fn *f)
{
	int status = -1;
	pid_t pid = fork();
	if (!pid) _exit(in_child(c, f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void fork_after(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	call k = { some_work };
	tj_fn *f = kit_fn(c, "parent", body, &k, 1, 1);
	assert_true(tj_item(tj_call1(f, TJ_LIST(F32(c, 0, 0)))) == 2);
	child(c, f);
	child(c, f);
	assert_true(tj_item(tj_call1(f, TJ_LIST(F32(c, 0, 0, 0, 0)))) == 4); /* and the parent goes on */
	kit_ok(c);
	tj_close(c);
}

/* ---- depth ---- */
enum { CHAIN = 10000 };
static void chain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	(void)self;
	for (int i = 0; i < CHAIN; i++) x = tj_add(i % 16 ? tj_mul(x, in[1]) : tj_flip(x, TJ_ALL), in[0]);
	out[0] = x;
}

static void *small_stack(void *p)
{
	tj_ctx *c = kit_clone(p);
	tj_fn *f = kit_fn(c, "chain", chain, NULL, 2, 1);
	tj_tensor *x = F32(c, 1, 2, 3, 4, 5), *half = F32(c, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f), *a, *b[1];
	a = tj_call1(f, TJ_LIST(x, half));
	tj_call(f, b, TJ_LIST(x, half));
	bool ok = tj_check(c) == TJ_OK && !differ(a, b[0]) && kit_stats(f).hits == 1;
	tj_close(c);
	return ok ? p : NULL;
}

static void depth(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	pthread_attr_t attr;
	pthread_t t;
	void *r = NULL;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	assert_int_equal(pthread_create(&t, &attr, small_stack, c), 0);
	pthread_join(t, &r);
	pthread_attr_destroy(&attr);
	assert_non_null(r);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes),
		cmocka_unit_test(other_cell),
		cmocka_unit_test(other_constant),
		cmocka_unit_test(snapshots),
		cmocka_unit_test(views_behind_branches),
		cmocka_unit_test(popped_in_body),
		cmocka_unit_test(least_recent),
		cmocka_unit_test(folds),
		cmocka_unit_test(subnormals),
		cmocka_unit_test(modes),
		cmocka_unit_test(wrapping),
		cmocka_unit_test(divisions),
		cmocka_unit_test(shifts),
		cmocka_unit_test(casts),
		cmocka_unit_test(bools),
		cmocka_unit_test(promotion),
		cmocka_unit_test(sums),
		cmocka_unit_test(exponentials),
		cmocka_unit_test(offsets),
		cmocka_unit_test(refused_sizes),
		cmocka_unit_test(masks),
		cmocka_unit_test(clones),
		cmocka_unit_test(numbers),
		cmocka_unit_test(zero_divisors),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(full_that_fits),
		cmocka_unit_test(zeros),
		cmocka_unit_test(variances),
		cmocka_unit_test(fork_after),
		cmocka_unit_test(depth),
	};
	KIT_RUN(tests);
}
