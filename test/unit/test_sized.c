/* SPDX-License-Identifier: MIT */
/* Ops whose result size depends on data: compared with plain loops, and in compiled functions, where each is a boundary. */
#include "test/kit.h"

#include <math.h>

/* ---- operands: dtypes x shapes x layouts ---- */
static uint32_t seed = 1;
static uint32_t draw(void) { return (seed = seed * 1664525 + 1013904223) >> 8; }

/* x with an axis of n repeats before or behind the others. */
static tj_tensor *repeat(tj_tensor *x, bool behind, int64_t n)
{
	const int r = tj_rank(x);
	int64_t dim[TJ_MAX_RANK];
	for (int d = 0; d < r; d++) dim[d + !behind] = tj_dim(x, d);
	dim[behind ? r : 0] = n;
	dim[r + 1] = TJ_END_DIM;
	return tj_expand(tj_unsqueeze(x, behind ? r : 0), dim);
}

enum { LAYOUTS = 7 };
static tj_tensor *view(tj_tensor *t, int layout)
{
	const int r = tj_rank(t);
	switch (r ? layout : 0) {
	case 1: return tj_transpose(t, 0, r - 1);
	case 2: return tj_slice(t, r - 1, 0, TJ_END_DIM, 2);
	case 3: return tj_flip(t, TJ_AXES(0));
	case 4: return tj_slice(t, 0, 1, TJ_END_DIM, 1);
	case 5: return repeat(t, false, 2);
	case 6: return repeat(t, true, 3);
	default: return t;
	}
}

static const double specials[] = { 0, -0.0, 1, -1, 2, 3, NAN, INFINITY, -INFINITY, 1e-45, -1e-45, 0.5, 127, -128 };
static const int64_t shapes[][4] = { { TJ_END_DIM },          { 0, TJ_END_DIM },      { 1, TJ_END_DIM },    { 7, TJ_END_DIM },
	                             { 100, TJ_END_DIM },     { 3, 5, TJ_END_DIM },   { 2, 0, TJ_END_DIM }, { 1, 4, TJ_END_DIM },
	                             { 4, 3, 2, TJ_END_DIM }, { 5, 1, 9, TJ_END_DIM } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static tj_tensor *random_tensor(tj_ctx *c, tj_dtype dtype, tj_dims shape)
{
	static _Alignas(8) unsigned char bytes[8192];
	const size_t size = tj_dtype_size(dtype);
	memset(bytes, 0, sizeof bytes);
	for (size_t i = 0; i < sizeof bytes / size; i++) {
		const double v = specials[draw() % 14];
		const float f = (float)v;
		const int64_t n = draw() % 3 ? (int64_t)(draw() % 5) - 2 : draw() % 2 ? INT64_MIN + draw() : (int64_t)draw();
		if (dtype == TJ_F64) memcpy(bytes + i * size, &v, size);
		else if (dtype == TJ_F32) memcpy(bytes + i * size, &f, size);
		else memcpy(bytes + i * size, &n, size);
		if (dtype == TJ_BOOL) bytes[i] = bytes[i] % 3;
	}
	return tj_from_data(c, dtype, shape, bytes);
}

/* ---- the same, obviously ---- */
static double of_f16(tj_f16 v) { return (double)tj_from_f16(v); }
static double of_bf16(tj_bf16 v) { return (double)tj_from_bf16(v); }
#define SAME(T, name) static T name(T v) { return v; }
SAME(uint8_t, of_u8)
SAME(int8_t, of_i8) SAME(int16_t, of_i16) SAME(int32_t, of_i32) SAME(int64_t, of_i64) SAME(float, of_f32) SAME(double, of_f64)
#define C_VALUE(v) \
	_Generic((v), tj_f16 \
	         : of_f16, tj_bf16 \
	         : of_bf16, uint8_t \
	         : of_u8, int8_t \
	         : of_i8, int16_t \
	         : of_i16, int32_t \
	         : of_i32, int64_t \
	         : of_i64, float \
	         : of_f32, double \
	         : of_f64)(v)
	static bool is_set(tj_dtype t, const unsigned char *p)
{
	switch (t) {
#define X(NAME, text, ctype, cat) case TJ_##NAME: { ctype v; memcpy(&v, p, sizeof v); return C_VALUE(v) != 0; }
	TJ_DTYPE_MAP(X)
#undef X
	default: return false;
	}
}

/* Before, in order: NaN last. */
static bool less(tj_dtype t, const unsigned char *p, const unsigned char *q)
{
	if (t == TJ_BOOL) return !*p && *q;
	switch (t) {
#define X(NAME, text, ctype, cat) \
	case TJ_##NAME: { \
		ctype v, w; \
		memcpy(&v, p, sizeof v); \
		memcpy(&w, q, sizeof w); \
		return C_VALUE(v) < C_VALUE(w) || (C_VALUE(v) == C_VALUE(v) && C_VALUE(w) != C_VALUE(w)); \
	}
		TJ_DTYPE_MAP(X)
#undef X
	default: return false;
	}
}

static bool is_nan(tj_dtype t, const unsigned char *p)
{
	float f = 0;
	double d = 0;
	if (t == TJ_F32) memcpy(&f, p, 4);
	if (t == TJ_F64) memcpy(&d, p, 8);
	if (t == TJ_F16 || t == TJ_BF16) {
		tj_f16 h;
		memcpy(&h, p, sizeof h);
		d = t == TJ_F16 ? of_f16(h) : of_bf16((tj_bf16){ h.bits });
	}
	return f != f || d != d;
}

static void same_bits(tj_dtype t, const unsigned char *p, const unsigned char *q)
{
	if (t == TJ_BOOL) assert_int_equal(*p != 0, *q != 0);
	else if (!is_nan(t, p) || !is_nan(t, q)) assert_memory_equal(p, q, tj_dtype_size(t));
}

static void check_nonzero(tj_ctx *c, tj_tensor *x)
{
	const int64_t rank = tj_rank(x), n = tj_numel(x);
	const unsigned char *v = tj_data(x);
	tj_tensor *r = tj_nonzero(x);
	kit_ok(c);
	const int64_t *at = tj_data(r);
	int64_t count = 0;
	for (int64_t i = 0; i < n; i++) {
		if (!is_set(tj_dtype_of(x), v + i * (int64_t)tj_dtype_size(tj_dtype_of(x)))) continue;
		int64_t rest = i;
		for (int d = (int)rank; d-- > 0; rest /= tj_dim(x, d)) assert_int_equal(at[count * rank + d], rest % tj_dim(x, d));
		count++;
	}
	assert_int_equal(tj_dtype_of(r), TJ_I64);
	assert_int_equal(tj_rank(r), 2);
	assert_int_equal(tj_dim(r, 0), count);
	assert_int_equal(tj_dim(r, 1), rank);
}

static void check_select(tj_ctx *c, tj_tensor *x, tj_tensor *mask)
{
	tj_tensor *like = tj_logical_or(tj_ne(x, x), mask);
	int64_t dims[TJ_MAX_RANK + 1];
	for (int d = 0; d <= tj_rank(like); d++) dims[d] = d < tj_rank(like) ? tj_dim(like, d) : TJ_END_DIM;
	tj_tensor *r = tj_masked_select(x, mask);
	const tj_dtype t = tj_dtype_of(x);
	const size_t size = tj_dtype_size(t);
	const unsigned char *v = tj_data(tj_expand(x, dims)), *m = tj_data(tj_expand(mask, dims)), *got = tj_data(r);
	kit_ok(c);
	int64_t count = 0;
	for (int64_t i = 0; i < tj_numel(like); i++)
		if (m[i]) {
			assert_true(count < tj_numel(r));
			same_bits(t, got + (size_t)count++ * size, v + (size_t)i * size);
		}
	assert_int_equal(tj_dtype_of(r), t);
	assert_int_equal(tj_rank(r), 1);
	assert_int_equal(tj_dim(r, 0), count);
}

static void check_unique(tj_ctx *c, tj_tensor *x)
{
	tj_tensor *first, *inverse, *counts, *u = tj_unique_all(x, &first, &inverse, &counts), *alone = tj_unique(x);
	kit_ok(c);
	const tj_dtype t = tj_dtype_of(x);
	const size_t size = tj_dtype_size(t);
	const int64_t n = tj_numel(x), k = tj_numel(u);
	const unsigned char *v = tj_data(x), *uv = tj_data(u), *av = tj_data(alone);
	const int64_t *f = tj_data(first), *inv = tj_data(inverse), *cnt = tj_data(counts);
	assert_int_equal(tj_dtype_of(u), t);
	assert_int_equal(tj_rank(u), 1);
	assert_int_equal(tj_numel(alone), k);
	assert_int_equal(tj_rank(inverse), tj_rank(x));
	for (int64_t i = 0; i < n; i++) {
		int64_t smaller = 0, same = 0, met = -1; /* distinct smaller values; this one: how often, where first */
		const unsigned char *p = v + (size_t)i * size;
		for (int64_t j = 0; j < n; j++) {
			const unsigned char *q = v + (size_t)j * size;
			bool new = less(t, q, p) || (is_nan(t, p) && is_nan(t, q) && j < i);
			for (int64_t l = 0; new && l < j && !is_nan(t, q); l++) new = less(t, v + (size_t)l * size, q) || less(t, q, v + (size_t)l * size);
			smaller += new;
			if (is_nan(t, p) ? j != i : less(t, q, p) || less(t, p, q)) continue;
			same++;
			met = met < 0 ? j : met;
		}
		assert_int_equal(inv[i], smaller);
		assert_true(smaller < k);
		assert_int_equal(cnt[smaller], same);
		assert_int_equal(f[smaller], met);
		same_bits(t, uv + (size_t)smaller * size, v + (size_t)met * size);
	}
	int64_t all = 0;
	for (int64_t i = 0; i < k; i++) {
		all += cnt[i];
		same_bits(t, uv + (size_t)i * size, av + (size_t)i * size);
	}
	assert_int_equal(all, n);
}

static void values(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (int i = 0; i < SHAPES; i++)
			for (int l = 0; l < LAYOUTS; l++) {
				tj_scope *sc = tj_push(c);
				tj_tensor *x = view(random_tensor(c, (tj_dtype)t, shapes[i]), l), *mask = view(random_tensor(c, TJ_BOOL, shapes[i]), l);
				check_nonzero(c, x);
				check_select(c, x, mask);
				if (tj_rank(x) == 1) check_select(c, x, repeat(mask, true, 1));
				if (tj_rank(x)) check_select(c, tj_sum(x, TJ_AXES(0), true), mask);
				check_unique(c, x);
				tj_pop(sc);
				kit_ok(c);
			}
	tj_close(c);
}

static void numbers(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *mask = tj_from_data(c, TJ_BOOL, TJ_SHAPE(3), (uint8_t[]){ 1, 0, 1 });
	assert_f32(tj_masked_select(tj_f(2.5), mask), 2.5f, 2.5f);
	assert_int_equal(tj_dtype_of(tj_masked_select(tj_i(2), mask)), TJ_I64);
	assert_int_equal(tj_dim(tj_nonzero(tj_f(-0.0)), 0), 0);
	assert_int_equal(tj_dim(tj_nonzero(tj_i(3)), 0), 1);
	assert_int_equal(tj_dim(tj_nonzero(tj_i(3)), 1), 0);
	assert_f32(tj_unique(tj_f(4)), 4);
	/* The first zero met is kept. */
	assert_true(signbit(*(const float *)tj_data(tj_unique(F32(c, 0.5f, -0.0f, 0.0f)))));
	assert_false(signbit(*(const float *)tj_data(tj_unique(F32(c, 0.5f, 0.0f, -0.0f)))));
	assert_f32(tj_unique(F32(c, NAN, 3, -1, NAN, 3)), -1, 3, NAN, NAN);
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(3));
	tj_write(cell, (float[]){ 0, 5, 6 }, 12);
	assert_f32(tj_masked_select(cell, mask), 0, 6);
	assert_int_equal(tj_dim(tj_nonzero(cell), 0), 2);
	kit_ok(c);
	tj_close(c);
}

static void large(void **s)
{
	(void)s;
	enum { N = 300000 };
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_remainder(tj_mul(tj_arange(TJ_I64, 0, N, 1), tj_i(7919)), tj_i(1009));
	tj_tensor *counts, *u = tj_unique_all(x, NULL, NULL, &counts);
	assert_int_equal(tj_numel(u), 1009);
	assert_int_equal(tj_item_i(tj_sum(counts, TJ_ALL, false)), N);
	assert_int_equal(tj_item_i(tj_sum(tj_cast(tj_eq(u, tj_arange(TJ_I64, 0, 1009, 1)), TJ_I64), TJ_ALL, false)), 1009);
	assert_int_equal(tj_dim(tj_nonzero(x), 0), N - (N + 1008) / 1009);
	kit_ok(c);
	tj_close(c);
}

/* ---- in compiled functions ---- */
static void positive(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_masked_select(in[0], tj_gt(in[0], tj_f(0)));
	out[0] = tj_sum(tj_exp(y), TJ_ALL, false);
	out[1] = tj_mul(tj_add(y, tj_f(1)), tj_f(3));
}

/* About every k-th is positive. */
static tj_tensor *part(tj_ctx *c, int n, uint32_t k)
{
	float *v = malloc((size_t)n * sizeof *v);
	for (int i = 0; i < n; i++) v[i] = (draw() % k ? -1.0f : 1.0f) * (float)(draw() % 100) * 0.01f;
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(n), v);
	free(v);
	return x;
}

static void same_as_op_by_op(tj_ctx *c, tj_body *body, tj_fn *f, tj_tensor *x, int nout)
{
	tj_tensor *got[3], *want[3];
	assert_int_equal(tj_call(f, got, TJ_LIST(x)), TJ_OK);
	body(want, (tj_tensor *[]){ x }, NULL);
	for (int i = 0; i < nout; i++) {
		assert_int_equal(tj_numel(got[i]), tj_numel(want[i]));
		assert_memory_equal(tj_data(got[i]), tj_data(want[i]), (size_t)tj_numel(got[i]) * tj_dtype_size(tj_dtype_of(got[i])));
	}
	kit_ok(c);
}

static void followed_by_arithmetic(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "positive", positive, NULL, 1, 2);
	for (int i = 0; i < 200; i++) {
		tj_scope *sc = tj_push(c);
		same_as_op_by_op(c, positive, f, part(c, 1000, 2 + draw() % 3), 2);
		tj_pop(sc);
	}
	const tj_stats st = kit_stats(f);
	print_message("200 masks: %llu recordings, %llu plans, %llu compiles\n", (unsigned long long)st.recordings,
	              (unsigned long long)st.plans, (unsigned long long)st.compiles);
	assert_true(st.compiles <= 3);
	/* None, one, all. */
	const float v[] = { -1, 2, 3 };
	for (int n = 0; n <= 3; n++) same_as_op_by_op(c, positive, f, tj_from_data(c, TJ_F32, TJ_SHAPE(n), v), 2);
	tj_close(c);
}

static int reasons_of_size;
static char reason[512];
static void on_recompile(void *self, const tj_reason *r)
{
	(void)self;
	if (strcmp(r->kind, "data size")) return;
	reasons_of_size++;
	snprintf(reason, sizeof reason, "%s | %s", r->text, r->site);
}

static void bounded(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	reasons_of_size = 0;
	tj_fn *f = tj_compile(c, positive, NULL, TJ_OPTS(tj_compile_opts, .name = "positive", .nin = 1, .nout = 2, .on_recompile = on_recompile));
	tj_stats half = { 0 };
	uint64_t most = 0;
	for (int i = 0; i < 1000; i++) {
		tj_scope *sc = tj_push(c);
		tj_tensor *out[2];
		assert_int_equal(tj_call(f, out, TJ_LIST(part(c, 20000, 2 + draw() % 7))), TJ_OK);
		tj_pop(sc);
		const tj_stats st = kit_stats(f);
		most = st.segments > most ? st.segments : most;
		if (i == 499) half = st;
	}
	kit_ok(c);
	const tj_stats st = kit_stats(f);
	assert_true(st.recordings > 700); /* counts that were not met before */
	assert_true(st.compiles <= 3 && st.compiles == half.compiles && st.code_bytes == half.code_bytes);
	assert_true(most <= 258);
	assert_int_equal(reasons_of_size, 1);
	if (!strstr(reason, "the size of masked_select at test/unit/test_sized.c:") || !strstr(reason, "depends on data, was "))
		fail_msg("%s", reason);
	tj_close(c);
}

/* The result of nonzero drives a loop in C, and is an index for later ops. */
static void rows_kept(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *at = tj_nonzero(tj_gt(tj_sum(in[0], TJ_AXES(1), false), tj_f(0)));
	tj_tensor *rows = tj_index_select(in[0], 0, tj_reshape(at, TJ_SHAPE(tj_dim(at, 0))));
	tj_tensor *sum = tj_full(TJ_F32, TJ_SHAPE(3), tj_f(0));
	for (int64_t i = 0; i < tj_dim(rows, 0); i++)
		sum = tj_add(tj_mul(sum, tj_f(2)), tj_index_select(rows, 0, tj_full(TJ_I64, TJ_0D, tj_i(i))));
	out[0] = sum;
	out[1] = rows;
}

static void loops(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "rows_kept", rows_kept, NULL, 1, 2);
	for (int i = 0; i < 40; i++) {
		float v[18];
		for (int k = 0; k < 18; k++) v[k] = (float)(draw() % 21) - 10;
		same_as_op_by_op(c, rows_kept, f, tj_from_data(c, TJ_F32, TJ_SHAPE(6, 3), v), 2);
	}
	tj_close(c);
}

/* Several in one call; operands pending, of earlier segments, arguments, cells, views. */
static tj_tensor *cell;
static void many(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *a = tj_mul(in[0], tj_f(2)), *b = tj_add(in[0], cell), *inverse;
	tj_tensor *p = tj_masked_select(a, tj_gt(b, tj_f(0)));
	tj_assign(cell, tj_add(cell, tj_f(1)));
	tj_tensor *q = tj_masked_select(b, tj_lt(a, tj_f(1)));
	tj_tensor *u = tj_unique_all(tj_floor(tj_mul(tj_cat(TJ_LIST(p, q), 0), tj_f(4))), NULL, &inverse, NULL);
	tj_tensor *z = tj_nonzero(tj_ge(tj_flip(in[0], TJ_AXES(0)), cell));
	out[0] = tj_add(tj_sum(tj_index_select(u, 0, inverse), TJ_ALL, false), tj_sum(p, TJ_ALL, false));
	out[1] = tj_add(z, tj_i(1));
	out[2] = tj_unique(in[0]);
}

static void several_in_one_call(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "many", many, NULL, 1, 3);
	cell = kit_param(c, -3);
	for (int i = 0; i < 30; i++) {
		const float was = (float)(i % 7) - 3;
		tj_tensor *x = part(c, 50, 2);
		tj_tensor *got[3], *want[3];
		tj_write(cell, &was, sizeof was);
		assert_int_equal(tj_call(f, got, TJ_LIST(x)), TJ_OK);
		tj_write(cell, &was, sizeof was);
		many(want, (tj_tensor *[]){ x }, NULL);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(tj_numel(got[k]), tj_numel(want[k]));
			assert_memory_equal(tj_data(got[k]), tj_data(want[k]), (size_t)tj_numel(got[k]) * tj_dtype_size(tj_dtype_of(got[k])));
		}
		assert_f32(cell, was + 1);
	}
	kit_ok(c);
	tj_close(c);
}

/* The work before the op is sealed once, whatever the counts are. */
static void work_before(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_tanh(in[0]);
	tj_tensor *y = tj_masked_select(in[0], in[1]);
	out[0] = tj_add(tj_sum(h, TJ_ALL, false), tj_sum(y, TJ_ALL, false));
}

static void prefix_is_sealed_once(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "work_before", work_before, NULL, 2, 1);
	for (int i = 0; i < 20; i++) {
		uint8_t m[20];
		for (int k = 0; k < 20; k++) m[k] = k <= i;
		tj_tensor *x = part(c, 20, 2), *mask = tj_from_data(c, TJ_BOOL, TJ_SHAPE(20), m), *want;
		work_before(&want, (tj_tensor *[]){ x, mask }, NULL);
		assert_memory_equal(tj_data(tj_call1(f, TJ_LIST(x, mask))), tj_data(want), sizeof(float));
	}
	kit_ok(c);
	const tj_stats st = kit_stats(f);
	assert_int_equal(st.segments, 21); /* one up to masked_select, one for each count */
	tj_close(c);
}

/* A value read after a boundary is computed once more for the first count, and kept for all others. */
static void read_behind(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *e = tj_exp(tj_masked_select(in[0], tj_gt(in[0], tj_f(0))));
	out[0] = tj_truth(tj_gt(tj_sum(e, TJ_ALL, false), tj_f(10))) ? tj_mul(e, tj_f(2)) : e;
}

static void kept_over_counts(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "read_behind", read_behind, NULL, 1, 1);
	for (int i = 0; i < 50; i++) same_as_op_by_op(c, read_behind, f, part(c, 300, 2), 1);
	const tj_stats st = kit_stats(f);
	assert_true(st.recomputed <= 1 && st.compiles <= 5);
	tj_close(c);
}

static void gives_mask(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_masked_select(in[0], in[1]); }
static void in_branch(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sum(tj_unique(in[0]), TJ_ALL, false); }
static void conditional(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_cond(out, 1, tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), in_branch, in_branch, TJ_LIST(in[0]), self);
}

static void errors(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	tj_tensor *x = F32(c, 1, 2, 3), *mask = tj_from_data(c, TJ_BOOL, TJ_SHAPE(2), (uint8_t[]){ 1, 0 });
	assert_true(tj_is_poison(tj_masked_select(x, x)));
	kit_error(c, TJ_ERR_DTYPE, "the mask must be bool: x f32[3], mask f32[3]");
	assert_string_equal(tj_last_error(c)->op, "masked_select");
	assert_non_null(strstr(tj_last_error(c)->hint, "tj_cast(mask, TJ_BOOL)"));
	assert_true(tj_is_poison(tj_masked_select(x, tj_i(1))));
	kit_error(c, TJ_ERR_DTYPE, "mask i64");
	assert_true(tj_is_poison(tj_masked_select(x, mask)));
	kit_error(c, TJ_ERR_SHAPE, "f32[3]");
	assert_string_equal(tj_last_error(c)->op, "masked_select");
	assert_non_null(strstr(tj_last_error(c)->message, "bool[2]"));
	assert_true(strlen(tj_last_error(c)->hint) > 0);
	assert_true(tj_is_poison(tj_nonzero(NULL)));
	kit_error(c, TJ_ERR_ARG, "operand 0 is NULL");
	/* Poison is passed on, and the first error stays. */
	tj_tensor *bad = tj_add(x, mask), *counts;
	assert_true(tj_is_poison(tj_nonzero(bad)) && tj_is_poison(tj_masked_select(x, bad)) &&
	            tj_is_poison(tj_unique_all(bad, NULL, NULL, &counts)) && tj_is_poison(counts));
	kit_error(c, TJ_ERR_SHAPE, "bool[2]");
	assert_string_equal(tj_last_error(c)->op, "add");
	tj_fn *f = kit_fn(c, "gives_mask", gives_mask, NULL, 2, 1), *g = kit_fn(c, "conditional", conditional, NULL, 1, 1);
	tj_tensor *y = x;
	assert_int_equal(tj_call(f, &y, TJ_LIST(x, mask)), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "bool[2]");
	assert_int_equal(tj_call(g, &y, TJ_LIST(x)), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "unique in a callback of tj_cond at test/unit/test_sized.c:");
	assert_ptr_equal(y, x);
	assert_f32(tj_call1(f, TJ_LIST(x, tj_gt(x, tj_f(1)))), 2, 3);
	kit_ok(c);
	tj_close(c);
}

static int direct_reasons;
static void on_direct(void *self, const tj_reason *r)
{
	(void)self;
	if (strcmp(r->kind, "direct")) return;
	direct_reasons++;
	snprintf(reason, sizeof reason, "%s", r->text);
}

static void direct_mode(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	direct_reasons = 0;
	tj_fn *f =
		tj_compile(c, positive, NULL,
	                   TJ_OPTS(tj_compile_opts, .name = "positive", .nin = 1, .nout = 2, .mode = TJ_DIRECT, .on_recompile = on_direct));
	for (int i = 0; i < 20; i++) same_as_op_by_op(c, positive, f, part(c, 100, 2), 2);
	assert_int_equal(direct_reasons, 1);
	assert_non_null(strstr(reason, "masked_select at test/unit/test_sized.c:"));
	assert_int_equal(kit_stats(f).direct, 0);
	tj_close(c);
}

static void two_contexts(void **s)
{
	(void)s;
	tj_ctx *c = kit_open(), *d = kit_clone(c);
	tj_fn *f = kit_fn(c, "positive", positive, NULL, 1, 2);
	for (int i = 0; i < 20; i++) {
		tj_ctx *now = i & 1 ? d : c;
		tj_ctx_use(now);
		same_as_op_by_op(now, positive, f, part(now, 100, 2), 2);
	}
	tj_ctx_use(d);
	assert_true(tj_is_poison(tj_nonzero(part(c, 3, 2))));
	kit_error(d, TJ_ERR_FOREIGN, "temporary of another context");
	tj_close(d);
	tj_ctx_use(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(numbers),
		cmocka_unit_test(large),
		cmocka_unit_test(followed_by_arithmetic),
		cmocka_unit_test(bounded),
		cmocka_unit_test(loops),
		cmocka_unit_test(several_in_one_call),
		cmocka_unit_test(prefix_is_sealed_once),
		cmocka_unit_test(kept_over_counts),
		cmocka_unit_test(errors),
		cmocka_unit_test(direct_mode),
		cmocka_unit_test(two_contexts),
	};
	KIT_RUN(tests);
}
