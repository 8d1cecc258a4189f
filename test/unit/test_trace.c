/* SPDX-License-Identifier: MIT */
/* Typical errors of a tracer: stale traces, order of writes, boundaries, side exits. */
#include "test/kit.h"

/* ---- 1. stale trace ---- */
typedef struct knobs { double scale; int causal, n; tj_tensor *w; tj_tensor *out; } knobs;

static void scaled(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], tj_f(((knobs *)self)->scale)); }
static void captured_scalar(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .scale = 2 };
	tj_fn *f = kit_fn(c, "scaled", scaled, &k, 1, 1);
	tj_tensor *x = F32(c, 1, 2);
	assert_f32(tj_call1(f, TJ_LIST(x)), 2, 4);
	k.scale = 3;
	assert_f32(tj_call1(f, TJ_LIST(x)), 3, 6);
	assert_int_equal(kit_stats(f).plans, 1); /* the value is a run-time argument */
	kit_ok(c);
	tj_close(c);
}

static void flagged(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = ((knobs *)self)->causal ? tj_neg(in[0]) : tj_add(in[0], in[0]);
}
static void captured_flag(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { 0 };
	tj_fn *f = kit_fn(c, "flagged", flagged, &k, 1, 1);
	tj_tensor *x = F32(c, 1, 2);
	for (int i = 0; i < 6; i++) {
		k.causal = i % 2;
		if (k.causal) assert_f32(tj_call1(f, TJ_LIST(x)), -1, -2);
		else assert_f32(tj_call1(f, TJ_LIST(x)), 2, 4);
	}
	assert_int_equal(kit_stats(f).plans, 2);
	assert_int_equal(kit_stats(f).side_exits, 1);
	assert_int_equal(kit_stats(f).hits, 4);
	kit_ok(c);
	tj_close(c);
}

static void looped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	for (int i = 0; i < ((knobs *)self)->n; i++) x = tj_add(x, tj_f(i));
	out[0] = x;
}
static void loop_count(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { 0 };
	tj_fn *f = kit_fn(c, "looped", looped, &k, 1, 1);
	tj_tensor *x = F32(c, 1);
	static const float want[] = { 1, 1, 2, 4, 7 };
	for (int round = 0; round < 2; round++)
		for (int n = 4; n >= 0; n--) {
			k.n = n;
			assert_f32(tj_call1(f, TJ_LIST(x)), want[n]);
		}
	assert_int_equal(kit_stats(f).hits, 5);
	kit_ok(c);
	tj_close(c);
}

static int counter;
static void counted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_i(counter++));
}
static void static_counter(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "counted", counted, NULL, 1, 1);
	tj_tensor *x = F32(c, 10);
	counter = 0;
	for (int i = 0; i < 5; i++) assert_f32(tj_call1(f, TJ_LIST(x)), 10.f + (float)i);
	assert_int_equal(kit_stats(f).plans, 1);
	kit_ok(c);
	tj_close(c);
}

static void weighted(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], ((knobs *)self)->w); }
static void weight_swapped(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *a = kit_param(c, 2), *b = kit_param(c, 5);
	knobs k = { .w = a };
	tj_fn *f = kit_fn(c, "weighted", weighted, &k, 1, 1);
	tj_tensor *x = F32(c, 1, 2);
	assert_f32(tj_call1(f, TJ_LIST(x)), 2, 4);
	k.w = b;
	assert_f32(tj_call1(f, TJ_LIST(x)), 5, 10);
	tj_assign(a, tj_f(7));
	k.w = a;
	assert_f32(tj_call1(f, TJ_LIST(x)), 7, 14);
	assert_int_equal(kit_stats(f).plans, 1);
	kit_ok(c);
	tj_close(c);
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], in[1]);
}
static void same_tensor_twice(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "product", product, NULL, 2, 1);
	tj_tensor *x = F32(c, 2, 3), *y = F32(c, 5, 7);
	assert_f32(tj_call1(f, TJ_LIST(x, x)), 4, 9);
	assert_f32(tj_call1(f, TJ_LIST(x, y)), 10, 21);
	assert_f32(tj_call1(f, TJ_LIST(y, y)), 25, 49);
	assert_int_equal(kit_stats(f).plans, 1);
	kit_ok(c);
	tj_close(c);
}

static void output_fed_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .scale = 2 };
	tj_fn *f = kit_fn(c, "scaled", scaled, &k, 1, 1);
	tj_tensor *x = F32(c, 1, 3), *first = tj_call1(f, TJ_LIST(x)), *y = first;
	for (int i = 0; i < 4; i++) y = tj_call1(f, TJ_LIST(y));
	assert_f32(y, 32, 96);
	assert_f32(first, 2, 6); /* still what it was */
	assert_f32(x, 1, 3);
	kit_ok(c);
	tj_close(c);
}

static void identity(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
}
static void input_returned(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "identity", identity, NULL, 1, 1);
	tj_tensor *x = F32(c, 1, 2), *p = tj_param(c, TJ_F32, TJ_SHAPE(2));
	assert_f32(tj_call1(f, TJ_LIST(x)), 1, 2);
	tj_tensor *snap = tj_call1(f, TJ_LIST(p));
	tj_assign(p, x);
	assert_f32(snap, 0, 0); /* a snapshot: later writes do not touch it */
	assert_f32(p, 1, 2);
	tj_write(p, ((float[]){ 8, 9 }), 8);
	assert_f32(x, 1, 2);
	kit_ok(c);
	tj_close(c);
}

static void constant(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	(void)self;
	out[0] = tj_full(TJ_F32, TJ_SHAPE(2), tj_f(4));
}
static void constant_returned(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "constant", constant, NULL, 0, 1);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_NONE), 4, 4);
	kit_ok(c);
	tj_close(c);
}

static void numbers(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_add(tj_f(1), tj_i(2))), tj_div(tj_i(1), tj_i(2)));
}
/* A number is converted directly to f64 if the result is f64: 0.1 is not rounded to f32 first. */
static void joined(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_stack(TJ_LIST(tj_f(0.1), in[0]), 0);
	out[1] = tj_full(TJ_F64, TJ_SHAPE(1), tj_f(0.1));
}
static void numbers_keep_precision(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *out[2];
	double v = 0.1;
	tj_fn *f = kit_fn(c, "joined", joined, NULL, 1, 2);
	assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_0D, &v))), TJ_OK);
	const double *y = tj_data(out[0]), *z = tj_data(out[1]);
	assert_true(y[0] == v && y[1] == v && z[0] == v);
	kit_ok(c);
	tj_close(c);
}

static void numbers_compute(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "numbers", numbers, NULL, 1, 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 3.5f, 6.5f);
	assert_true(tj_item(tj_add(tj_f(1.5), tj_i(2))) == 3.5);
	assert_int_equal(tj_item_i(tj_floor_divide(tj_i(-7), tj_i(2))), -4);
	assert_int_equal(tj_item_i(tj_i(-(INT64_C(1) << 51))), -(INT64_C(1) << 51));
	assert_int_equal(tj_item_i(tj_i(INT64_C(1) << 51)), INT64_C(1) << 51);
	assert_true(tj_item(tj_f(-0.0)) == 0 && tj_item(tj_f(-1e308 * 10)) < -1e308);
	kit_ok(c);
	tj_close(c);
}

/* Both are the first event of their segment, and nothing kept the first one. */
static void older(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *before = tj_mul(in[0], tj_f(2));
	if (!tj_truth(tj_any(tj_gt(in[0], tj_f(0)), TJ_ALL, false))) return;
	tj_tensor *behind = tj_mul(in[0], tj_f(3));
	out[0] = tj_neg(((knobs *)self)->causal ? before : behind);
}
static void value_of_earlier_segment(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { 0 };
	tj_fn *f = kit_fn(c, "older", older, &k, 1, 1);
	tj_tensor *x = F32(c, 1, 2);
	for (int i = 0; i < 6; i++) {
		k.causal = i / 2 % 2;
		if (k.causal) assert_f32(tj_call1(f, TJ_LIST(x)), -2, -4);
		else assert_f32(tj_call1(f, TJ_LIST(x)), -3, -6);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- 2. order of writes ---- */
static void bump(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_tensor *before = tj_mul(k->w, tj_f(1));
	tj_assign(k->w, tj_add(k->w, in[0]));
	tj_tensor *between = tj_mul(k->w, tj_f(1));
	tj_assign(k->w, tj_mul(k->w, tj_f(10)));
	out[0] = before;
	out[1] = between;
	out[2] = k->w;
}
static void assign_twice(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .w = kit_param(c, 1) };
	tj_fn *f = kit_fn(c, "bump", bump, &k, 1, 3);
	tj_tensor *out[3], *one = tj_full(TJ_F32, TJ_0D, tj_f(1));
	assert_int_equal(tj_call(f, out, TJ_LIST(one)), TJ_OK);
	assert_f32(out[0], 1);
	assert_f32(out[1], 2);
	assert_f32(out[2], 20);
	assert_f32(k.w, 20);
	assert_int_equal(tj_call(f, out, TJ_LIST(one)), TJ_OK);
	assert_f32(out[0], 20);
	assert_f32(out[1], 21);
	assert_f32(k.w, 210);
	assert_int_equal(kit_stats(f).plans, 1);
	kit_ok(c);
	tj_close(c);
}

static void swap(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)out;
	(void)self;
	tj_tensor *a = in[0], *b = in[1], *old = tj_mul(a, tj_f(1));
	tj_assign(a, b);
	tj_assign(b, old);
}
static void cells_swap(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *a = kit_param(c, 1), *b = kit_param(c, 2);
	tj_fn *f = kit_fn(c, "swap", swap, NULL, 2, 0);
	for (int i = 0; i < 3; i++) assert_int_equal(tj_call(f, NULL, TJ_LIST(a, b)), TJ_OK);
	assert_f32(a, 2);
	assert_f32(b, 1);
	kit_ok(c);
	tj_close(c);
}

static void branch_assign(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_assign(k->w, tj_add(k->w, in[0]));
	if (tj_truth(tj_gt(k->w, tj_f(2)))) tj_assign(k->w, tj_f(0));
	out[0] = tj_add(k->w, tj_f(100));
}
static void assign_in_branch(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .w = kit_param(c, 0) };
	tj_fn *f = kit_fn(c, "branch_assign", branch_assign, &k, 1, 1);
	tj_tensor *one = tj_full(TJ_F32, TJ_0D, tj_f(1));
	static const float want[] = { 101, 102, 100, 101, 102, 100, 101 };
	for (int i = 0; i < 7; i++) assert_f32(tj_call1(f, TJ_LIST(one)), want[i]);
	assert_f32(k.w, 1);
	kit_ok(c);
	tj_close(c);
}

static void fails_late(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_assign(k->w, tj_f(99));
	out[0] = k->causal ? tj_matmul(in[0], tj_reshape(in[0], TJ_SHAPE(2, 1))) : tj_index_select(in[0], 0, k->out);
}
static void failure_commits_nothing(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .w = kit_param(c, 1), .causal = 1 };
	tj_fn *f = kit_fn(c, "fails_late", fails_late, &k, 1, 1);
	tj_tensor *x = tj_reshape(F32(c, 1, 2, 3), TJ_SHAPE(3, 1)), *out[1] = { x };
	assert_int_not_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK); /* a wrong shape */
	assert_ptr_equal(out[0], x);
	kit_error(c, TJ_ERR_SHAPE, "3");
	assert_int_equal(kit_stats(f).entries, 0); /* a user's error leaves no entry */
	k.causal = 0;
	k.out = tj_from_data(c, TJ_I64, TJ_SHAPE(1), ((int64_t[]){ 3 }));
	assert_int_equal(kit_call(c, f, out, TJ_LIST(x)), TJ_ERR_INDEX); /* a fault of the plan */
	assert_true(out[0] == x || kit_elsewhere());
	kit_error(c, TJ_ERR_INDEX, "range");
	assert_f32(k.w, 1);
	k.out = tj_from_data(c, TJ_I64, TJ_SHAPE(1), ((int64_t[]){ 2 }));
	assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
	assert_f32(out[0], 3);
	assert_f32(k.w, 99);
	kit_ok(c);
	tj_close(c);
}

/* A view of the old value of a cell, returned beside the new one: then the commit must not write in place. */
static void old_view(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_tensor *next = tj_add(k->w, in[0]);
	tj_tensor *old = tj_reshape(k->w, TJ_SHAPE(2, 1));
	tj_assign(k->w, next);
	out[0] = k->causal ? old : next;
	out[1] = k->causal ? next : old;
}
static void view_of_old_version(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .w = tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_fn *f = kit_fn(c, "old_view", old_view, &k, 1, 2);
	tj_tensor *out[2];
	for (int i = 0; i < 6; i++) {
		k.causal = i / 3;
		tj_scope *sc = tj_push(c);
		assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 1, 2))), TJ_OK);
		assert_f32(out[!k.causal], (float)i, 2.f * (float)i);
		assert_f32(out[k.causal], (float)i + 1, 2.f * (float)i + 2);
		assert_f32(k.w, (float)i + 1, 2.f * (float)i + 2);
		tj_pop(sc);
	}
	kit_ok(c);
	tj_close(c);
}

/* Three cells of one shape, as of Adam: each is computed in its own memory, whatever the order of the assigns. */
static void momenta(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor **w = self;
	tj_tensor *first = tj_add(tj_mul(w[1], tj_f(0.5)), in[0]), *second = tj_add(tj_mul(w[2], tj_f(0.25)), tj_square(in[0]));
	tj_assign(w[2], second);
	tj_assign(w[0], tj_sub(w[0], tj_div(first, second)));
	tj_assign(w[1], first);
	out[0] = in[0];
}
static void cells_stay_in_place(void **s)
{
	(void)s;
	for (int direct = 0; direct < 2; direct++) {
		tj_ctx *c = kit_open();
		tj_tensor *w[3];
		const void *where[3];
		for (int i = 0; i < 3; i++) w[i] = tj_param(c, TJ_F32, TJ_SHAPE(2)), where[i] = tj_data(w[i]);
		tj_fn *f = tj_compile(c, momenta, w,
		                      TJ_OPTS(tj_compile_opts, "momenta", 1, 1, .mode = direct ? TJ_DIRECT : TJ_VERIFY,
		                              .state = TJ_VARS(&w[0], &w[1], &w[2])));
		for (int i = 0; i < 4; i++) {
			tj_scope *sc = tj_push(c);
			tj_call1(f, TJ_LIST(F32(c, 1, 2)));
			tj_pop(sc);
		}
		assert_f32(w[1], 1.875f, 3.75f);
		assert_f32(w[2], 1.328125f, 5.3125f);
		for (int i = 0; i < 3 && !strcmp(kit_backend, "llvm") && !kit_elsewhere(); i++) assert_ptr_equal(tj_data(w[i]), where[i]);
		kit_ok(c);
		tj_close(c);
	}
}

/* The host reads a cell that was assigned a view with strides: the copy it gets is of this call. */
static void read_cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_assign(k->w, tj_flip(in[0], TJ_AXES(0)));
	const float *v = tj_data(k->w);
	out[0] = tj_mul(in[0], tj_f(v[0]));
}
static void cell_read_by_host(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { .w = tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_fn *f = kit_fn(c, "read_cell", read_cell, &k, 1, 1);
	for (int i = 1; i < 4; i++) {
		tj_scope *sc = tj_push(c);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, (float)i))), (float)i, (float)(i * i));
		assert_f32(k.w, (float)i, 1);
		tj_pop(sc);
	}
	kit_ok(c);
	tj_close(c);
}

/* An argument and a capture that are one cell. */
static void alias(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_assign(in[0], tj_add(in[0], tj_f(1)));
	out[0] = tj_mul(k->w, tj_f(10));
}
static void cell_alias(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *a = kit_param(c, 1), *b = kit_param(c, 5);
	knobs k = { .w = a };
	tj_fn *f = kit_fn(c, "alias", alias, &k, 1, 1);
	assert_f32(tj_call1(f, TJ_LIST(a)), 20);
	assert_f32(tj_call1(f, TJ_LIST(b)), 20);
	assert_f32(b, 6);
	assert_f32(tj_call1(f, TJ_LIST(a)), 30);
	assert_f32(tj_call1(f, TJ_LIST(b)), 30);
	kit_ok(c);
	tj_close(c);
}

/* ---- boundaries ---- */
static void newton(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_mul(in[0], tj_f(1));
	for (int i = 0; i < 100; i++) {
		tj_tensor *y = tj_mul(tj_add(x, tj_div(in[0], x)), tj_f(0.5));
		bool done = !tj_truth(tj_gt(tj_abs(tj_sub(y, x)), tj_f(1e-6)));
		x = y;
		if (done) break;
	}
	out[0] = x;
}
static void convergent_loop(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "newton", newton, NULL, 1, 1);
	for (int i = 1; i < 40; i++) {
		tj_scope *sc = tj_push(c);
		double v = tj_item(tj_call1(f, TJ_LIST(tj_full(TJ_F64, TJ_0D, tj_f(i * i)))));
		assert_true(v > i - 1e-6 && v < i + 1e-6);
		tj_pop(sc);
	}
	assert_true(kit_stats(f).plans <= 6); /* however many turns */
	kit_ok(c);
	tj_close(c);
}

static void read_late(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *a = tj_add(in[0], tj_f(1)), *b = tj_mul(a, tj_f(2)), *sum = tj_sum(b, TJ_ALL, false);
	double v = tj_item(sum);
	out[0] = tj_add(tj_mul(a, tj_f(v > 5 ? 10 : 100)), b); /* a had a consumer: not kept at first */
	out[1] = sum;
}
static void value_read_after_boundary(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "read_late", read_late, NULL, 1, 2);
	tj_tensor *out[2];
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 1, 2))), TJ_OK);
		assert_f32(out[0], 24, 36);
		assert_f32(out[1], 10);
	}
	assert_int_equal(kit_stats(f).recomputed, 1); /* once: then its plan keeps it */
	kit_ok(c);
	tj_close(c);
}

static void host_data(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *y = tj_mul(in[0], tj_f(2));
	const float *v = tj_data(y);
	float sum = 0;
	for (int64_t i = 0; i < tj_numel(y); i++) sum += v[i];
	out[0] = tj_add(y, tj_f(sum));
}
static void data_in_body(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "host_data", host_data, NULL, 1, 1);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 8, 10);
	assert_int_equal(kit_stats(f).plans, 2);
	kit_ok(c);
	tj_close(c);
}

static void keeps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	knobs *k = self;
	tj_scope *s = tj_push(tj_ctx_current());
	tj_tensor *t = tj_mul(in[0], tj_f(2));
	t = tj_escape(t);
	tj_pop(s);
	k->out = tj_retain(tj_add(t, tj_f(1)));
	out[0] = tj_neg(t);
}
static void escape_and_retain(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	knobs k = { 0 };
	tj_fn *f = kit_fn(c, "keeps", keeps, &k, 1, 1);
	for (int i = 0; i < 3; i++) {
		tj_scope *sc = tj_push(c);
		tj_tensor *y = tj_call1(f, TJ_LIST(F32(c, (float)i)));
		assert_f32(y, -2.f * (float)i);
		tj_pop(sc);
		assert_f32(k.out, 2.f * (float)i + 1);
		tj_release(k.out);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- nested calls ---- */
typedef struct nest { tj_fn *inner; tj_tensor *cell; int bad; } nest;
static void inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	nest *n = self;
	tj_assign(n->cell, tj_add(n->cell, tj_f(1)));
	out[0] = n->bad ? tj_matmul(in[0], tj_f(1)) : tj_mul(in[0], n->cell);
}
static void outer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	nest *n = self;
	tj_tensor *y;
	tj_assign(n->cell, tj_f(10));
	if (tj_call(n->inner, &y, TJ_LIST(tj_neg(in[0]))) != TJ_OK) y = in[0];
	out[0] = tj_add(y, n->cell);
}
static void nested(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	nest n = { .cell = kit_param(c, 0) };
	n.inner = kit_fn(c, "inner", inner, &n, 1, 1);
	tj_fn *f = kit_fn(c, "outer", outer, &n, 1, 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 0, -11);
	assert_f32(n.cell, 11);
	n.bad = 1; /* the inner call fails, its assign is undone, the outer one goes on */
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 11, 12);
	assert_f32(n.cell, 10);
	assert_int_not_equal(tj_check(c), TJ_OK);
	assert_non_null(strstr(tj_last_error(c)->site, " < ")); /* with the chain of callers */
	n.bad = 0;
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 0, -11);
	kit_ok(c);
	tj_close(c);
}

/* ---- random numbers ---- */
static void draws(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	(void)self;
	tj_tensor *a = tj_uniform(TJ_F32, TJ_SHAPE(4));
	tj_tensor *b = tj_uniform(TJ_F32, TJ_SHAPE(4));
	out[0] = a;
	out[1] = b;
}
static void random_ordinals(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "draws", draws, NULL, 0, 2);
	tj_tensor *x[2], *y[2], *z[2];
	tj_call(f, x, TJ_NONE);
	tj_call(f, y, TJ_NONE);
	assert_memory_not_equal(tj_data(x[0]), tj_data(x[1]), 16);
	assert_memory_not_equal(tj_data(x[0]), tj_data(y[0]), 16);
	tj_seed(c, 0);
	draws(z, NULL, NULL); /* op by op: the same numbers */
	assert_memory_equal(tj_data(x[0]), tj_data(z[0]), 16);
	assert_memory_equal(tj_data(x[1]), tj_data(z[1]), 16);
	assert_int_equal(kit_stats(f).plans, 1);
	kit_ok(c);
	tj_close(c);
}

/* ---- scalars ---- */
static void with_scalars(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int64_t i = 0; i < tj_arg_i(1); i++) x = tj_mul(x, tj_arg_f(0));
	out[0] = x;
}
static void declared_scalars(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "scalars", with_scalars, NULL, 1, 1);
	tj_tensor *out, *x = F32(c, 1);
	assert_int_equal(tj_call_ex(f, &out, TJ_LIST(x), TJ_SCALARS(TJ_F(2), TJ_I(3))), TJ_OK);
	assert_f32(out, 8);
	assert_int_equal(tj_call_ex(f, &out, TJ_LIST(x), TJ_SCALARS(TJ_F(3), TJ_I(3))), TJ_OK);
	assert_f32(out, 27);
	assert_int_equal(kit_stats(f).plans, 1);
	assert_int_equal(tj_call_ex(f, &out, TJ_LIST(x), TJ_SCALARS(TJ_F(3), TJ_I(1))), TJ_OK);
	assert_f32(out, 3);
	kit_ok(c);
	tj_close(c);
}

/* A call sees one version of a cell, even if others commit while it runs. */
static tj_ctx *reader, *writer;
static void reads_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	bool positive = tj_truth(tj_gt(self, tj_f(0)));
	tj_ctx_use(writer);
	tj_assign(self, tj_f(-5));
	tj_ctx_use(reader);
	out[0] = tj_add(self, tj_f(positive ? 100 : 200));
	out[1] = self;
}
static void one_version_a_call(void **s)
{
	(void)s;
	reader = kit_open();
	writer = kit_clone(reader);
	tj_ctx_use(reader);
	tj_tensor *cell = kit_param(reader, 1), *out[2];
	tj_fn *f = kit_fn(reader, "reads_twice", reads_twice, cell, 0, 2);
	for (int i = 0; i < 3; i++) {
		tj_write(cell, (float[]){ 3 }, 4);
		assert_int_equal(tj_call(f, out, TJ_NONE), TJ_OK);
		assert_f32(out[0], 103);
		assert_f32(out[1], 3);
		assert_f32(cell, -5);
	}
	kit_ok(reader);
	tj_close(writer);
	tj_ctx_use(reader);
	tj_close(reader);
}

/* ---- many cells: read, assigned and assigned again, in an order that changes from call to call ---- */
enum { MANY = 300 };
typedef struct many { tj_tensor *cell[MANY]; int step; bool reads; } many;
static int place(const many *m, int i) { return (int)((int64_t)i * m->step % MANY); }

static void many_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	many *m = self;
	for (int i = 0; i < MANY; i++) {
		const int to = place(m, i);
		tj_assign(m->cell[to], tj_add(m->cell[(to + 7) % MANY], in[0]));
		if (i % 3 == 0) tj_assign(m->cell[to], tj_mul(m->cell[to], tj_f(0.5)));
		if (m->reads && i == MANY / 2) tj_item(m->cell[to]);
	}
	out[0] = in[0];
}

static void many_model(const many *m, float *v, float x)
{
	for (int i = 0; i < MANY; i++) {
		const int to = place(m, i);
		v[to] = v[(to + 7) % MANY] + x;
		if (i % 3 == 0) v[to] *= 0.5f;
	}
}

static void many_cells(void **s)
{
	static const int steps[] = { 1, 7, 1, 11, 7, 299, 1 };
	float v[MANY];
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		many m = { 0 };
		for (int i = 0; i < MANY; i++) {
			v[i] = (float)i;
			m.cell[i] = kit_param(c, v[i]);
		}
		tj_fn *f = kit_fn(c, "many", many_body, &m, 1, 1);
		for (int k = 0; k < 14; k++) {
			tj_scope *scope = tj_push(c);
			m.step = steps[k % 7];
			m.reads = mode;
			tj_tensor *out;
			assert_int_equal(tj_call(f, &out, TJ_LIST(tj_full(TJ_F32, TJ_0D, tj_f(0.25 * k)))), TJ_OK);
			many_model(&m, v, 0.25f * (float)k);
			for (int i = 0; i < MANY; i++) assert_f32(m.cell[i], v[i]);
			tj_pop(scope);
		}
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captured_scalar),
		cmocka_unit_test(captured_flag),
		cmocka_unit_test(value_of_earlier_segment),
		cmocka_unit_test(loop_count),
		cmocka_unit_test(static_counter),
		cmocka_unit_test(weight_swapped),
		cmocka_unit_test(same_tensor_twice),
		cmocka_unit_test(output_fed_back),
		cmocka_unit_test(input_returned),
		cmocka_unit_test(constant_returned),
		cmocka_unit_test(numbers_compute),
		cmocka_unit_test(numbers_keep_precision),
		cmocka_unit_test(assign_twice),
		cmocka_unit_test(cells_swap),
		cmocka_unit_test(assign_in_branch),
		cmocka_unit_test(failure_commits_nothing),
		cmocka_unit_test(cell_alias),
		cmocka_unit_test(view_of_old_version),
		cmocka_unit_test(cells_stay_in_place),
		cmocka_unit_test(cell_read_by_host),
		cmocka_unit_test(convergent_loop),
		cmocka_unit_test(value_read_after_boundary),
		cmocka_unit_test(data_in_body),
		cmocka_unit_test(escape_and_retain),
		cmocka_unit_test(nested),
		cmocka_unit_test(random_ordinals),
		cmocka_unit_test(declared_scalars),
		cmocka_unit_test(one_version_a_call),
		cmocka_unit_test(many_cells),
	};
	KIT_RUN(tests);
}
