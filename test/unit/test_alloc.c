/* SPDX-License-Identifier: MIT */
/* For each k, the k-th allocation fails: there must be a clear error, no crash and no leak, and the context must still work. */
#include "test/kit.h"

#include "runtime/alloc.h"
#include "runtime/buffer.h"

typedef struct model { tj_tensor *w, *read; tj_fn *inner; bool misread; } model;

static void inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(tj_mul(in[0], tj_f(2)), -1);
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_tensor *y, *x = tj_cat(TJ_LIST(in[0], tj_neg(in[0])), 0);
	if (tj_call(m->inner, &y, TJ_LIST(x)) != TJ_OK) y = x;
	tj_assign(m->w, tj_add(m->w, tj_sum(y, TJ_ALL, false)));
	m->misread = tj_item(m->read) != 0; /* a cell that C reads; then the call must fail */
	if (tj_truth(tj_gt(m->w, tj_f(0)))) y = tj_exp(y);
	out[0] = tj_matmul(y, tj_transpose(in[0], 0, 1));
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_assign(m->w, tj_add(m->w, tj_arg_f(0)));
	out[0] = tj_mul(in[0], tj_mul(tj_arg_f(0), tj_f(2)));
	out[1] = tj_truth(tj_gt(m->w, tj_f(2))) ? in[0] : out[0];
}

/* Everything once, from open to close. */
static bool scenario(void)
{
	tj_ctx *c = kit_open();
	if (!c) return false;
	float v[] = { 1, 2, 3, 4 };
	model m = { .w = tj_param(c, TJ_F32, TJ_0D), .read = tj_param(c, TJ_F32, TJ_0D) };
	m.inner = kit_fn(c, "inner", inner, &m, 1, 1);
	tj_fn *f = kit_fn(c, "body", body, &m, 1, 1);
	tj_fn *d = tj_compile(c, step, &m,
	                      TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 2, .mode = TJ_DIRECT, .state = TJ_VARS(&m.w)));
	bool ok = true;
	for (int i = 0; i < 3 && f; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2 - i % 2, 2 + i % 2 * 2), v), *y = tj_call1(f, TJ_LIST(x));
		if (m.misread && !tj_is_poison(m.read) && !tj_is_poison(y)) fail_msg("a cell was misread, and the call succeeded");
		tj_tensor *out[2] = { x, x };
		for (int k = 0; k < 3 && d; k++) tj_call_ex(d, out, TJ_LIST(x), TJ_SCALARS(TJ_F(k)));
		tj_tensor *kept = tj_retain(tj_mul(y, x));
		tj_data(tj_transpose(x, 0, 1));
		if (kept && !tj_is_poison(kept)) tj_release(kept);
		tj_status st = tj_check(c);
		ok &= st == TJ_OK || st == TJ_ERR_SHAPE;
		if (s) tj_pop(s);
	}
	FILE *null = fopen("/dev/null", "w");
	if (f && null) tj_explain(f, null);
	if (null) fclose(null);
	tj_check(c);
	tj_close(c);
	return ok && f;
}

/* Control flow, in a function and outside. */
static void more(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_i(2)); }
static void half(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(0.5)); }
static void less(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_sub(in[0], *(tj_tensor **)self); }
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	tj_cond(out + 1, 1, tj_gt(tj_sum(in[1], TJ_ALL, false), tj_f(1)), half, less, TJ_LIST(in[1]), self);
}
static void slice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	tj_while(r, more, turn, TJ_LIST(tj_i(0), tj_add(in[0], in[1])), self, NULL);
	out[0] = out[1] = r[1];
}
static void flow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *w = tj_neg(in[0]);
	tj_scan(out, out + 1, 1, slice, TJ_LIST(in[0]), TJ_LIST(tj_transpose(in[1], 0, 1)), &w, NULL);
}

static bool flow_scenario(void)
{
	tj_ctx *c = kit_open();
	if (!c) return false;
	float v[] = { 1, 2, 3, 4, 5, 6 };
	tj_fn *f = kit_fn(c, "flow", flow, NULL, 2, 2);
	bool ok = f != NULL;
	for (int i = 0; i < 3; i++) {
		tj_tensor *in[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(2), v), tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), v), TJ_END },
			  *out[2] = { NULL, NULL };
		if (i == 2) flow(out, in, NULL);
		else if (!f || tj_call(f, out, in) != TJ_OK) out[0] = NULL;
		ok &= out[0] && !tj_is_poison(out[0]) && tj_dim(out[1], 0) == 3;
		ok &= tj_check(c) == TJ_OK;
	}
	tj_close(c);
	return ok;
}

/* Gradients of loops: of products that are kept, of a checkpoint and of a gradient of the user's in their bodies; of two orders. */
static void halves(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[2], tj_f(0.5)); }
static void rounded(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_round(in[0]); }
static void squashed(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_tanh(tj_matmul(in[0], *(tj_tensor **)self)); }
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	squashed(out, TJ_LIST(tj_add(in[0], in[1])), self);
	out[1] = out[0];
}
static void marked(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	tj_checkpoint(&y, 1, squashed, TJ_LIST(in[1]), self);
	tj_custom_grad(out + 1, 1, rounded, halves, TJ_LIST(y), NULL);
	out[0] = tj_add(in[0], tj_i(1));
}
static void gradients(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = tj_neg(in[0]), *h, *y, *r[2];
	tj_scan(&h, &y, 1, layer, TJ_LIST(in[1]), TJ_LIST(tj_reshape(in[1], TJ_SHAPE(2, 1, 2))), &w, NULL);
	tj_while(r, more, marked, TJ_LIST(tj_i(0), h), &w, TJ_OPTS(tj_while_opts, .max_turns = 3));
	out[0] = tj_add(tj_sum(r[1], TJ_ALL, false), tj_sum(y, TJ_ALL, false));
	tj_grad(out + 1, out[0], TJ_LIST(in[0]), NULL);
	tj_grad(out + 2, tj_sum(tj_mul(out[1], out[1]), TJ_ALL, false), TJ_LIST(in[0]), NULL);
	(void)self;
}

static bool gradient_scenario(void)
{
	tj_ctx *c = kit_open();
	if (!c) return false;
	float v[] = { 1, 2, -3, 0.5f };
	tj_fn *f = kit_fn(c, "gradients", gradients, NULL, 2, 3);
	bool ok = f != NULL;
	for (int i = 0; i < 2; i++) {
		tj_tensor *out[3] = { NULL, NULL, NULL };
		if (!f || tj_call(f, out,
		                  TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), v), tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), v))) != TJ_OK)
			out[0] = NULL;
		ok &= out[0] && !tj_is_poison(out[0]) && tj_numel(out[2]) == 4;
		ok &= tj_check(c) == TJ_OK;
	}
	tj_close(c);
	return ok;
}

/* Sizes that depend on data, in a function and outside. */
static void chosen(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_mul(in[0], tj_f(2)), *kept = tj_masked_select(y, tj_gt(in[0], tj_f(2)));
	out[0] = tj_unique_all(tj_exp(kept), NULL, NULL, &out[1]);
	out[2] = tj_nonzero(tj_transpose(y, 0, 1));
}

static bool sized_scenario(void)
{
	tj_ctx *c = kit_open();
	if (!c) return false;
	float v[] = { 1, 2, 3, 4, 0, 6 };
	tj_fn *f = kit_fn(c, "chosen", chosen, NULL, 1, 3);
	bool ok = f != NULL;
	for (int i = 0; i < 4; i++) {
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), v), *out[3] = { NULL, NULL, NULL };
		v[i] = 5; /* another count */
		if (i == 3) chosen(out, &x, NULL);
		else if (!f || tj_call(f, out, TJ_LIST(x)) != TJ_OK) out[0] = NULL;
		ok &= out[0] && !tj_is_poison(out[0]) && tj_numel(out[1]) == tj_numel(out[0]) && tj_dim(out[2], 0) == 5;
		ok &= tj_check(c) == TJ_OK;
	}
	tj_close(c);
	return ok;
}

/* A call that fails leaves each cell as it was, also one that may be written in place: the new contents of the others need memory. */
typedef struct cells { tj_tensor *sum, *turned, *last; } cells;
static void assigns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	cells *m = self;
	tj_assign(m->turned, tj_transpose(in[0], 0, 1));
	tj_assign(m->sum, tj_add(m->sum, tj_i(1)));
	tj_assign(m->last, tj_slice(in[0], 0, 1, 2, 1));
	out[0] = tj_neg(in[0]);
}

static void adds(tj_tensor **out, tj_tensor *const *in, void *self)
{
	cells *m = self;
	tj_assign(m->sum, tj_add(m->sum, tj_i(1)));
	out[0] = tj_neg(in[0]);
}

static bool commit_scenario(void)
{
	bool ok = true;
	for (int kind = 0; kind < 4; kind++) {
		tj_ctx *c = kit_open();
		if (!c) return false;
		float v[3 * 40] = { 0 }, sum;
		cells m = { tj_param(c, TJ_F32, TJ_0D), tj_param(c, TJ_F32, TJ_SHAPE(40, 3)), tj_param(c, TJ_F32, TJ_SHAPE(1, 40)) };
		tj_fn *f = tj_compile(c, kind & 2 ? adds : assigns, &m,
		                      TJ_OPTS(tj_compile_opts, .name = "assigns", .nin = 1, .nout = 1,
		                              .mode = kind & 1 ? TJ_DIRECT : TJ_VERIFY, .state = TJ_VARS(&m.sum, &m.turned, &m.last)));
		int done = 0;
		for (int i = 0; i < 6 && f; i++) {
			tj_scope *s = tj_push(c);
			tj_tensor *out[1];
			done += tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 40), v))) == TJ_OK;
			ok &= tj_check(c) == TJ_OK;
			if (s) tj_pop(s);
			if (tj_read(m.sum, &sum, sizeof sum) == TJ_OK && sum != (float)done)
				fail_msg("%d calls have succeeded, and the cell has %g", done, (double)sum);
			ok &= tj_check(c) == TJ_OK;
		}
		ok &= f != NULL;
		tj_close(c);
	}
	return ok;
}

/* ---- a profile: without memory something is missing in it, and calls are what they were ---- */
static bool counts_row(void *self, const tj_profile_row *row) { return ++*(int *)self, (void)row, true; }

static bool profile_scenario(void)
{
	int rows = 0;
	float v[] = { 1, 2, 3, 4, 5, 6 };
	tj_ctx *c = kit_open();
	if (!c) return false;
	bool ok = tj_profile_begin(c, TJ_OPTS(tj_profile_opts, .no_limits = true, .timeline = "/dev/null")) == TJ_OK;
	tj_tensor *in[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(2), v), tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), v), TJ_END },
		  *out[2] = { NULL, NULL };
	tj_fn *f = kit_fn(c, "flow", flow, NULL, 2, 2);
	for (int i = 0; f && i < 2; i++) ok &= tj_call(f, out, in) == TJ_OK;
	ok &= f && tj_data(tj_tanh(in[0])) != NULL;
	ok &= tj_profile_end(c, TJ_OPTS(tj_profile_view, .by = TJ_BY_LINE, .visit = counts_row, .self = &rows)) == TJ_OK && rows > 2;
	ok &= tj_profile_show(c, TJ_OPTS(tj_profile_view, .path = "/dev/null")) == TJ_OK;
	ok &= tj_check(c) == TJ_OK;
	tj_close(c);
	return ok;
}

static void fail_each(bool (*run)(void), long long stride)
{
	rt_alloc_fail_at(-1);
	run(); /* opens all that is opened only once */
	rt_alloc_fail_at(-1);
	assert_true(run());
	long long n = rt_alloc_count();
	assert_true(n > 100);
	int clear = 0;
	if (!strcmp(kit_backend, "eval") || getenv("TEST_EACH")) stride = 1;
	for (long long k = 0; k < n; k += stride) {
		rt_alloc_fail_at(k);
		clear += !run();
	}
	rt_alloc_fail_at(-1);
	assert_true(run());
	assert_true(clear > 0);
	print_message("%lld allocations failed in turn, %d of them ended in an error\n", (n + stride - 1) / stride, clear);
}

/* Each run compiles with LLVM, which takes its own memory: a part of the allocations is enough there, all of them by `make allocs`. */
static void each_allocation(void **s) { (void)s, fail_each(scenario, 17); }
static void each_of_flow(void **s) { (void)s, fail_each(flow_scenario, 23); }
static void each_of_gradients(void **s) { (void)s, fail_each(gradient_scenario, 97); }
static void each_of_sized(void **s) { (void)s, fail_each(sized_scenario, 19); }
static void each_of_profiles(void **s) { (void)s, fail_each(profile_scenario, 29); }
static void each_of_commits(void **s) { (void)s, fail_each(commit_scenario, 5); }

/* An op that finds no memory for its result says which op it is. */
static void op_is_named(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(1 << 20), tj_f(1));
	for (int i = 0; i < 4; i++) tj_neg(x); /* from now on only the result is allocated */
	int named = 0;
	for (int k = 0; k < 8; k++) {
		rt_alloc_fail_at(k);
		tj_neg(x);
		rt_alloc_fail_at(-1);
		if (tj_check(c) == TJ_OK) continue;
		assert_string_equal(tj_last_error(c)->op, "neg");
		named += strstr(tj_last_error(c)->message, "no memory for 4194304 bytes") != NULL;
	}
	assert_true(named > 0);
	tj_close(c);
}

/* ---- the allocator of buffers ---- */
enum { MB = 1 << 20 };

/* There is no memory for a new buffer: free buffers are given back to make room, also those that another thread freed. */
static void allocator_makes_room(void **s)
{
	(void)s;
	for (int elsewhere = 0; elsewhere < 2; elsewhere++)
		for (int k = 0; k < 2; k++) { /* the allocation that fails: of its head, of its data */
			rt_allocator *c = rt_allocator_new(RT_CPU);
			rt_buffer *b[3];
			for (int i = 0; i < 3; i++) b[i] = rt_buffer_new(c, (size_t)(i + 1) * MB);
			for (int i = 0; i < 3; i++) rt_buffer_unref(b[i], elsewhere ? NULL : c);
			rt_alloc_fail_at(k);
			rt_buffer *large = rt_buffer_new(c, 8 * MB);
			rt_alloc_fail_at(-1);
			assert_non_null(large);
			assert_int_equal(rt_allocator_held(c), 0);
			rt_buffer_unref(large, c);
			rt_allocator_close(c);
		}
}

/* Sizes grow, and few buffers are alive at a time: the cache holds about as much as was in use. */
static void allocator_lets_go(void **s)
{
	(void)s;
	rt_allocator *c = rt_allocator_new(RT_CPU);
	size_t most = 0;
	for (int i = 4; i < 110; i++) {
		rt_buffer *a = rt_buffer_new(c, (size_t)i * MB), *b = rt_buffer_new(c, (size_t)i * MB);
		rt_buffer_unref(a, c);
		rt_buffer_unref(b, c);
		if (rt_allocator_held(c) > most) most = rt_allocator_held(c);
	}
	assert_in_range(most, 200 * MB, 700 * MB); /* without a bound it would be 1 GiB; the two buffers of a turn are 224 MB at most */
	for (int i = 0; i < 60; i++) { /* from now on small buffers */
		rt_buffer *a[20];
		for (int k = 0; k < 20; k++) a[k] = rt_buffer_new(c, (size_t)(i + 1) << 10);
		for (int k = 0; k < 20; k++) rt_buffer_unref(a[k], c);
	}
	assert_in_range(rt_allocator_held(c), 1, 300 * MB);
	rt_allocator_close(c);
}

/* Sizes that come again get buffers from the cache. */
static void allocator_keeps_what_is_used(void **s)
{
	(void)s;
	rt_allocator *c = rt_allocator_new(RT_CPU);
	for (int i = 0; i < 40; i++) {
		long long before = rt_alloc_count();
		for (int k = 1; k <= 10; k++) {
			rt_buffer *a = rt_buffer_new(c, (size_t)k * k * MB / 2);
			rt_buffer_unref(a, c);
		}
		if (i) assert_int_equal(rt_alloc_count(), before);
		rt_buffer_unref(rt_buffer_new(c, (size_t)1000 << i % 8), c);
	}
	rt_allocator_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation),      cmocka_unit_test(each_of_flow),      cmocka_unit_test(each_of_gradients),
		cmocka_unit_test(each_of_sized),        cmocka_unit_test(each_of_commits),
		cmocka_unit_test(each_of_profiles),     cmocka_unit_test(op_is_named),
		cmocka_unit_test(allocator_makes_room), cmocka_unit_test(allocator_lets_go), cmocka_unit_test(allocator_keeps_what_is_used)
	};
	KIT_RUN(tests);
}
