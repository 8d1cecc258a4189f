/* SPDX-License-Identifier: MIT */
/* tj_cond, tj_while, tj_scan: values, captures, nesting, guards, faults, and what a callback may not do. */
#include "test/kit.h"

#include "ir/ir.h"

#include <math.h>

/* ---- a body in a compiled function, in direct mode, and as it is ---- */
typedef struct ways { tj_ctx *c; tj_body *body; void *self; int nout; tj_fn *f, *d; } ways;
static ways open_ways(tj_ctx *c, tj_body *body, void *self, int nin, int nout)
{
	ways w = { c, body, self, nout, kit_fn(c, "flow", body, self, nin, nout), NULL };
	w.d = tj_compile(c, body, self, TJ_OPTS(tj_compile_opts, .name = "direct", .nin = nin, .nout = nout, .mode = TJ_DIRECT));
	return w;
}
enum { WAYS = 7 };
/* Twice or more in each, so that what was traced is replayed. */
static void run_way(const ways *w, int way, tj_tensor **out, tj_list in)
{
	if (way < 2) assert_int_equal(tj_call(w->f, out, in), TJ_OK);
	else if (way < 5) assert_int_equal(tj_call(w->d, out, in), TJ_OK);
	else w->body(out, in, w->self);
	kit_ok(w->c);
}

static void is_i64(tj_tensor *t, int64_t want)
{
	assert_int_equal(tj_dtype_of(t), TJ_I64);
	assert_int_equal(tj_rank(t), 0);
	assert_int_equal(*(const int64_t *)tj_data(t), want);
}

/* ---- values ---- */
static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_add(in[0], in[0]), out[1] = tj_sum(in[0], TJ_ALL, false);
}
static void minus(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_neg(in[0]), out[1] = tj_f(7); }
static void choose(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_cond(out, 2, tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), twice, minus, TJ_LIST(in[0]), self);
}

static void cond_values(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	ways w = open_ways(c, choose, NULL, 1, 2);
	for (int way = 0; way < WAYS; way++) {
		tj_tensor *out[2];
		run_way(&w, way, out, TJ_LIST(F32(c, 1, 2)));
		assert_f32(out[0], 2, 4);
		assert_f32(out[1], 3);
		run_way(&w, way, out, TJ_LIST(F32(c, -1, -2)));
		assert_f32(out[0], 1, 2);
		assert_f32(out[1], 7);
	}
	assert_int_equal(kit_stats(w.f).plans, 1);
	assert_int_equal(kit_stats(w.f).recordings, 1);
	assert_int_equal(kit_stats(w.d).direct, 5);
	tj_close(c);
}

static void below(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[1], in[2]); }
static void fibonacci(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[1];
	out[1] = tj_add(in[0], in[1]);
	out[2] = in[2];
}
static void loop(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_while(out, below, fibonacci, TJ_LIST(tj_i(0), tj_i(1), in[0]), self, NULL);
}

static void while_values(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	ways w = open_ways(c, loop, NULL, 1, 3);
	for (int way = 0; way < WAYS; way++)
		for (int64_t limit = 0; limit < 1000; limit = limit * 3 + 1) {
			int64_t a = 0, b = 1, t;
			while (b < limit) t = a + b, a = b, b = t;
			tj_tensor *out[3];
			run_way(&w, way, out, TJ_LIST(tj_from_data(c, TJ_I64, TJ_0D, &limit)));
			is_i64(out[0], a);
			is_i64(out[1], b);
			is_i64(out[2], limit);
		}
	assert_int_equal(kit_stats(w.f).plans, 1);
	tj_close(c);
}

static void running(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(0.5)), in[1]);
	out[1] = tj_mul(out[0], in[2]);
	out[2] = in[1];
}
typedef struct scanned { bool reverse; int calls; } scanned;
static void sums(tj_tensor **out, tj_tensor *const *in, void *self)
{
	scanned *k = self;
	tj_scan(out, out + 1, 2, running, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(3), tj_f(1))), TJ_LIST(in[0], in[1]), NULL,
	        TJ_OPTS(tj_scan_opts, .reverse = k->reverse));
}

static void scan_values(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int reverse = 0; reverse < 2; reverse++)
		for (int n = 0; n < 20; n += 1 + n / 2) {
			scanned k = { .reverse = reverse };
			ways w = open_ways(c, sums, &k, 2, 3);
			float x[60], z[20], carry[3] = { 1, 1, 1 }, y[60] = { 0 };
			for (int i = 0; i < 60; i++) x[i] = (float)(i * 7 % 11) - 5, z[i % 20] = (float)(i % 20) * 0.25f;
			for (int turn = 0; turn < n; turn++)
				for (int t = reverse ? n - 1 - turn : turn, i = 0; i < 3; i++) {
					carry[i] = carry[i] * 0.5f + x[3 * t + i];
					y[3 * t + i] = carry[i] * z[t];
				}
			for (int way = 0; way < WAYS; way++) {
				tj_tensor *out[3], *in[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(n, 3), x), tj_from_data(c, TJ_F32, TJ_SHAPE(n), z), TJ_END };
				run_way(&w, way, out, in);
				kit_equal(out[0], 3, carry);
				kit_equal(out[1], (size_t)n * 3, y);
				kit_equal(out[2], (size_t)n * 3, x);
				assert_int_equal(tj_dim(out[1], 0), n);
			}
		}
	tj_close(c);
}

/* Layouts that are not row-major: xs and the initial value are views. */
static void add_step(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], in[1]), out[1] = out[0]; }
static void strided(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_scan(out, out + 1, 1, add_step, TJ_LIST(tj_slice(in[0], 1, 0, 1, 1)), TJ_LIST(tj_unsqueeze(tj_transpose(in[0], 0, 1), 2)), NULL, NULL);
}
static void layouts(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	ways w = open_ways(c, strided, NULL, 1, 2);
	float v[] = { 1, 2, 3, 4, 5, 6 };
	for (int flip = 0; flip < 2; flip++)
		for (int way = 0; way < WAYS; way++) {
			tj_tensor *out[2], *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), v);
			if (flip) x = tj_transpose(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 2), ((float[]){ 1, 4, 2, 5, 3, 6 })), 0, 1);
			run_way(&w, way, out, TJ_LIST(x));
			assert_f32(out[0], 7, 19);
			assert_f32(out[1], 2, 8, 4, 13, 7, 19);
		}
	tj_close(c);
}

/* ---- captures ---- */
typedef struct model { tj_tensor *w, *cell; double scale; int flag, ran; int64_t index; } model;
static void few(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_i(3)); }
static tj_tensor *outer;
static void captured(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	m->ran++;
	tj_exp(in[1]); /* nobody reads it */
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_add(tj_mul(in[1], tj_f(m->scale)), tj_add(tj_mul(m->w, m->cell), outer));
}
static void captures(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	outer = tj_exp(tj_mul(in[0], tj_f(0)));
	if (tj_while(r, few, captured, TJ_LIST(tj_i(0), in[0]), self, NULL) == TJ_OK) out[0] = tj_mul(r[1], outer);
}
static float after(float x, float scale, float w, float cell)
{
	for (int i = 0; i < 3; i++) x = x * scale + (w * cell + 1);
	return x;
}
static void captured_values(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { .w = F32(c, 2, 3), .cell = kit_param(c, 4), .scale = 2 };
	ways w = open_ways(c, captures, &m, 1, 1);
	for (int way = 0; way < WAYS; way++) {
		tj_tensor *y;
		float cell = 4 + (float)way;
		tj_write(m.cell, &cell, sizeof cell);
		m.ran = 0;
		run_way(&w, way, &y, TJ_LIST(F32(c, 1, 5)));
		assert_f32(y, after(1, 2, 2, cell), after(5, 2, 3, cell));
		assert_int_equal(m.ran, 1); /* once a call, not once a turn; direct mode does not skip what was not declared */
	}
	m.scale = 3; /* a number: bound at run time */
	m.w = F32(c, 5, 6); /* another tensor of the same layout */
	tj_tensor *y;
	run_way(&w, 0, &y, TJ_LIST(F32(c, 1, 5)));
	assert_f32(y, after(1, 3, 5, 10), after(5, 3, 6, 10));
	assert_int_equal(kit_stats(w.f).plans, 1);
	assert_int_equal(kit_stats(w.d).direct, 0);
	tj_close(c);
}

/* The same with everything declared: the body is skipped, and the cell is seen. */
static void declared_state(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { .w = tj_retain(F32(c, 2, 3)), .cell = kit_param(c, 4), .scale = 2 };
	tj_fn *d = tj_compile(
		c, captures, &m,
		TJ_OPTS(tj_compile_opts, .name = "declared", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .state = TJ_VARS(&m.w, &m.cell)));
	for (int i = 0; i < 5; i++) {
		float cell = 4 + (float)i;
		tj_write(m.cell, &cell, sizeof cell);
		assert_f32(tj_call1(d, TJ_LIST(F32(c, 1, 5))), after(1, 2, 2, cell), after(5, 2, 3, cell));
	}
	assert_int_equal(m.ran, 1);
	assert_int_equal(kit_stats(d).direct, 4);
	kit_ok(c);
	tj_release(m.w);
	tj_close(c);
}

/* ---- nesting ---- */
static void deep_go(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_gt(in[0], tj_f(0)); }
static void halve(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(0.5)); }
static void keep(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], *(tj_tensor **)self); }
static void deep_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_sub(in[0], tj_f(1));
	tj_cond(out + 1, 1, tj_gt(tj_sum(in[1], TJ_ALL, false), tj_f(10)), halve, keep, TJ_LIST(in[1]), self);
}
static void deep_scan(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	tj_while(r, deep_go, deep_turn, TJ_LIST(in[1], in[0]), self, NULL);
	out[0] = r[1];
	out[1] = tj_sum(r[1], TJ_ALL, false);
}
static void deep(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *step = tj_add(in[0], tj_f(1)); /* captured three levels down */
	tj_scan(out, out + 1, 1, deep_scan, TJ_LIST(in[0]), TJ_LIST(in[1]), &step, NULL);
}
static void nested(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	ways w = open_ways(c, deep, NULL, 2, 2);
	float x[2] = { 1, 2 }, turns[4] = { 3, 0, 5, 2 }, y[4];
	for (int t = 0; t < 4; t++) {
		for (float n = turns[t]; n > 0; n--) {
			bool big = x[0] + x[1] > 10;
			for (int i = 0; i < 2; i++) x[i] = big ? x[i] * 0.5f : x[i] + (float)(i + 2);
		}
		y[t] = x[0] + x[1];
	}
	for (int way = 0; way < WAYS; way++) {
		tj_tensor *out[2];
		run_way(&w, way, out, TJ_LIST(F32(c, 1, 2), tj_from_data(c, TJ_F32, TJ_SHAPE(4), turns)));
		kit_equal(out[0], 2, x);
		kit_equal(out[1], 4, y);
	}
	tj_close(c);
}

static int depth;
static void endless(tj_tensor **out, tj_tensor *const *in, void *self)
{
	depth++;
	tj_cond(out, 1, tj_i(1), endless, endless, TJ_LIST(in[0]), self);
}
static void recursion(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *y;
	depth = 0;
	assert_int_equal(tj_cond(&y, 1, tj_i(1), endless, endless, TJ_LIST(F32(c, 1)), NULL), TJ_ERR_LIMIT);
	kit_error(c, TJ_ERR_LIMIT, "nested");
	assert_true(tj_is_poison(y));
	assert_int_equal(depth, 32);
	tj_close(c);
}

/* ---- nothing to do ---- */
static void never(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)in, out[0] = tj_i(0); }
static void count_up(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_i(1)); }
static void no_turn(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int i = 0; i < 4; i++) { /* outside of compiled functions it is traced once, too */
		tj_tensor *y;
		assert_int_equal(tj_while(&y, never, halve, TJ_LIST(F32(c, 3, 4)), NULL, NULL), TJ_OK);
		assert_f32(y, 3, 4);
		assert_int_equal(tj_while(&y, deep_go, halve, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(0), &y)), NULL, NULL), TJ_ERR_SHAPE);
		kit_error(c, TJ_ERR_SHAPE, "one element");
		assert_int_equal(tj_while(&y, never, halve, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(0, 2), &y)), NULL, NULL), TJ_OK);
		assert_int_equal(tj_numel(y), 0);
		kit_ok(c);
		/* five turns without slices, and none */
		assert_int_equal(tj_scan(&y, NULL, 0, count_up, TJ_LIST(tj_i(i)), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 5)), TJ_OK);
		is_i64(y, i + 5);
		assert_int_equal(tj_scan(&y, NULL, 0, count_up, TJ_LIST(tj_i(i)), TJ_NONE, NULL, NULL), TJ_OK);
		is_i64(y, i);
	}
	tj_close(c);
}

/* Unused results, a result that is read twice, and one value that is two results. */
static void three(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = out[1] = tj_neg(in[0]), out[2] = in[0]; }
static void unread(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[3], *carry[2], *ys[2];
	(void)self;
	tj_cond(r, 3, tj_i(1), three, three, TJ_LIST(in[0]), NULL);
	out[0] = r[1];
	out[1] = tj_transpose(r[1], 0, 0);
	tj_scan(carry, ys, 1, three, TJ_LIST(r[0], r[2]), TJ_NONE, NULL, TJ_OPTS(tj_scan_opts, .length = 2));
	out[2] = ys[0];
	out[3] = out[0];
}
static void results(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	ways w = open_ways(c, unread, NULL, 1, 4);
	for (int way = 0; way < WAYS; way++) {
		tj_tensor *out[4];
		run_way(&w, way, out, TJ_LIST(F32(c, 1, 2)));
		assert_f32(out[0], -1, -2);
		assert_f32(out[1], -1, -2);
		assert_f32(out[2], -1, -2, 1, 2);
		assert_f32(out[3], -1, -2);
	}
	tj_close(c);
}

/* ---- boundaries: control flow is one event among others ---- */
static void split(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_tensor *r[2], *old = tj_add(in[0], tj_f(1));
	m->w = tj_mul(old, tj_f(2));
	if (tj_truth(tj_gt(tj_sum(old, TJ_ALL, false), tj_f(0)))) m->flag = 1;
	m->scale = 1;
	outer = old; /* computed before the boundary */
	tj_while(r, few, captured, TJ_LIST(tj_i(0), old), m, NULL);
	m->scale = tj_item(tj_sum(r[1], TJ_ALL, false));
	tj_assign(m->cell, tj_add(m->cell, tj_cast(r[0], TJ_F32)));
	out[0] = r[1];
}
static void boundaries(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { .cell = kit_param(c, 1) };
	tj_fn *f = kit_fn(c, "split", split, &m, 1, 1);
	for (int i = 0; i < 4; i++) {
		float x = 2 + (float)i, w = (x + 1) * 2, cell = 1 + 3 * (float)i, y = x + 1;
		for (int k = 0; k < 3; k++) y = y + (w * cell + (x + 1));
		assert_f32(tj_call1(f, TJ_LIST(F32(c, x))), y);
		assert_true(m.scale == (double)y);
		assert_true(tj_item(m.cell) == cell + 3);
	}
	assert_int_equal(kit_stats(f).recordings, 3); /* of segments, in the first call */
	kit_ok(c);
	tj_close(c);
}

/* The new value of a cell comes out of a loop that reads the old one. */
static void grow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_tensor *r[2];
	outer = m->cell;
	tj_while(r, few, captured, TJ_LIST(tj_i(0), m->cell), m, NULL);
	tj_assign(m->cell, r[1]);
	out[0] = tj_add(in[0], m->cell);
}
static void cells(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { .cell = kit_param(c, 1), .w = kit_param(c, 2), .scale = 1 };
	tj_fn *f = kit_fn(c, "grow", grow, &m, 1, 1);
	float cell = 1;
	for (int i = 0; i < 4; i++) {
		float x = cell;
		for (int k = 0; k < 3; k++) x = x + (2 * cell + cell);
		cell = x;
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1))), 1 + cell);
		assert_true(tj_item(m.cell) == (double)cell);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- errors of shape and type: both lines are told ---- */
static void wide(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cast(in[0], TJ_F64); }
static void longer(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_cat(TJ_LIST(in[0], in[0]), 0); }
static void forgets(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)out, (void)in; }
static void too_many(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = out[1] = in[0]; }
static void wrong(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_matmul(in[0], in[0]), out[0] = tj_add(in[0], F32(tj_ctx_current(), 1, 2, 3));
}

/* In a function and outside; the outputs are poison, and the function works the next time. */
typedef struct asked { int op; tj_body *a, *b; tj_list list, xs; tj_tensor *pred; int64_t n; tj_status got; } asked;
static void ask(tj_tensor **out, tj_tensor *const *in, void *self)
{
	asked *q = self;
	(void)in;
	if (q->op == 0) q->got = tj_cond(out, 1, q->pred, q->a, q->b, q->list, NULL);
	if (q->op == 1) q->got = tj_while(out, q->a, q->b, q->list, NULL, TJ_OPTS(tj_while_opts, .max_turns = q->n));
	if (q->op == 2) q->got = tj_scan(NULL, out, 1, q->a, TJ_NONE, q->xs, NULL, TJ_OPTS(tj_scan_opts, .length = q->n));
}
static void fails(tj_ctx *c, asked q, tj_status code, const char *one, const char *two, const char *hint)
{
	tj_fn *f = kit_fn(c, "ask", ask, &q, 0, 1);
	for (int way = 0; way < 3; way++) {
		tj_tensor *y = NULL;
		if (way == 2) ask(&y, NULL, &q);
		else assert_int_equal(tj_call(f, &y, TJ_NONE), code);
		assert_int_equal(q.got, code);
		if (way == 2) assert_true(tj_is_poison(y));
		else assert_null(y);
		kit_error(c, code, one);
		const tj_error *e = tj_last_error(c);
		if (!strstr(e->message, two)) fail_msg("\"%s\" is not in \"%s\"", two, e->message);
		if (!strstr(e->hint, hint)) fail_msg("\"%s\" is not in \"%s\"", hint, e->hint);
		if (!strstr(e->site, "test_flow.c:")) fail_msg("%s", e->site);
	}
	tj_fn_free(f);
}

static void mismatches(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_retain(F32(c, 1, 2)), *z = tj_retain(F32(c, 1, 2, 3));
	tj_list l = TJ_LIST(x);
	fails(c, (asked){ 0, halve, wide, l, TJ_NONE, tj_i(1), 0, 0 }, TJ_ERR_DTYPE, "output 0 differs: then gives f32[2] (",
	      "else gives f64[2] (test/unit/test_flow.c:", "tj_cast()");
	fails(c, (asked){ 0, longer, halve, l, TJ_NONE, tj_i(1), 0, 0 }, TJ_ERR_SHAPE, "then gives f32[4]", "else gives f32[2]", "tj_expand()");
	fails(c, (asked){ 0, forgets, halve, l, TJ_NONE, tj_i(1), 0, 0 }, TJ_ERR_ARG, "did not set out[0]", "`then`", "out[]");
	fails(c, (asked){ 0, halve, too_many, l, TJ_NONE, tj_i(1), 0, 0 }, TJ_ERR_LIMIT, "set out[1]", "`else`", "");
	fails(c, (asked){ 0, halve, wrong, l, TJ_NONE, tj_i(1), 0, 0 }, TJ_ERR_SHAPE, "f32[3]", "f32[2]", "");
	fails(c, (asked){ 0, halve, halve, l, TJ_NONE, x, 0, 0 }, TJ_ERR_SHAPE, "one element, but it is f32[2]", "", "tj_any()");
	fails(c, (asked){ 0, halve, NULL, l, TJ_NONE, x, 0, 0 }, TJ_ERR_ARG, "callback is NULL", "", "");
	fails(c, (asked){ 0, halve, halve, NULL, TJ_NONE, x, 0, 0 }, TJ_ERR_ARG, "list is NULL", "", "TJ_NONE");
	fails(c, (asked){ 1, never, wide, l, TJ_NONE, NULL, 0, 0 }, TJ_ERR_DTYPE,
	      "carry 0 is f32[2], but the body gives f64[2] (test/unit/test_flow.c:", "", "tj_cast()");
	fails(c, (asked){ 1, never, longer, l, TJ_NONE, NULL, 0, 0 }, TJ_ERR_SHAPE, "the body gives f32[4]", "", "tj_expand()");
	fails(c, (asked){ 1, halve, halve, l, TJ_NONE, NULL, 0, 0 }, TJ_ERR_SHAPE, "one element, but it is f32[2]", "", "tj_any()");
	fails(c, (asked){ 1, never, halve, TJ_NONE, TJ_NONE, NULL, 0, 0 }, TJ_ERR_ARG, "no results", "", "carry");
	fails(c, (asked){ 1, never, halve, l, TJ_NONE, NULL, -1, 0 }, TJ_ERR_ARG, "negative", "", "");
	fails(c, (asked){ 2, halve, NULL, NULL, TJ_LIST(x, z), NULL, 0, 0 }, TJ_ERR_SHAPE, "xs 1 is f32[3], but the length is 2", "", ".length");
	fails(c, (asked){ 2, halve, NULL, NULL, TJ_LIST(x), NULL, 3, 0 }, TJ_ERR_SHAPE, "xs 0 is f32[2], but the length is 3", "", ".length");
	fails(c, (asked){ 2, halve, NULL, NULL, TJ_LIST(tj_f(1)), NULL, 0, 0 }, TJ_ERR_SHAPE, "no slices", "", "let the body capture");
	tj_release(x);
	tj_release(z);
	tj_close(c);
}

/* ---- what a callback may not do ---- */
static int which;
static tj_tensor *leaked;
static tj_scope *opened;
static void forbidden(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = self, *x = tj_mul(in[0], tj_f(2));
	out[0] = x;
	switch (which) {
	case 0: if (tj_truth(tj_sum(x, TJ_ALL, false))) out[0] = in[0]; break;
	case 1: tj_item(tj_sum(x, TJ_ALL, false)); break;
	case 2: tj_data(x); break;
	case 3: tj_assign(cell, tj_sum(x, TJ_ALL, false)); break;
	case 4: out[0] = tj_add(x, tj_uniform(TJ_F32, TJ_SHAPE(2))); break;
	case 5: tj_retain(x); break;
	case 6: tj_escape(x); break;
	case 7: tj_pop(opened); break;
	default: leaked = x;
	}
}
static void forbid(tj_tensor **out, tj_tensor *const *in, void *self)
{
	opened = tj_push(tj_ctx_current());
	tj_while(out, never, forbidden, TJ_LIST(in[0]), self, NULL);
	out[0] = tj_escape(out[0]);
	if (which == 8) out[0] = tj_add(leaked, out[0]);
	tj_pop(opened);
}
static void refusals(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *cell = kit_param(c, 1);
	tj_fn *f = kit_fn(c, "forbid", forbid, cell, 1, 1);
	static const char *const op[] = { "truth", "item", "data", "assign", "uniform", "retain", "escape", "pop", "add" };
	for (int way = 0; way < 3; way++)
		for (which = 0; which < 9; which++) {
			tj_tensor *y = NULL, *x = F32(c, 1, 2);
			if (way < 2) tj_call(f, &y, TJ_LIST(x));
			else if (which < 8) forbid(&y, &x, cell);
			else continue;
			tj_status st = tj_check(c);
			const tj_error *e = tj_last_error(c);
			if (st != (which == 8 ? TJ_ERR_DEAD : TJ_ERR_STATE)) fail_msg("%s: %s", op[which], tj_strerror(st));
			assert_string_equal(e->op, op[which]);
			if (which < 7 && !strstr(e->message, "in a callback of tj_while at test/unit/test_flow.c:")) fail_msg("%s", e->message);
			if (!strstr(e->site, "test_flow.c:")) fail_msg("%s", e->site);
			if (which < 8) assert_true(*e->hint);
			assert_true(tj_item(cell) == 1);
		}
	which = 9;
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 1, 2);
	kit_ok(c);
	tj_close(c);
}

/* A value computed before the op may be read before it; a number has no value to read. */
static void reads(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_mul(in[0], tj_f(tj_item(*(tj_tensor **)self))); }
static void numbers(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int i = 1; i < 5; i++) {
		tj_tensor *y, *n = tj_f(i);
		assert_int_equal(tj_cond(&y, 1, tj_f(i - 2), reads, halve, TJ_LIST(F32(c, 4)), &n), TJ_OK);
		assert_f32(y, i == 2 ? 2 : 4 * (float)i);
		assert_int_equal(tj_cond(&y, 1, tj_i(i), reads, halve, TJ_LIST(tj_f(4)), &n), TJ_OK); /* a number given is f32 */
		assert_int_equal(tj_dtype_of(y), TJ_F32);
		assert_f32(y, 4 * (float)i);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- guards: what a callback asks for is part of the trace ---- */
static char told[4096];
static void tell(void *self, const tj_reason *r)
{
	(void)self;
	snprintf(told, sizeof told, "%s", r->text);
}
static void fickle(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	switch (m->flag) {
	case 0: out[0] = tj_add(in[0], in[1]); break;
	case 1: out[0] = tj_sub(in[0], in[1]); break;
	case 2: out[0] = tj_sub(in[1], in[0]); break;
	case 3: out[0] = tj_add(in[0], tj_sum(m->w, TJ_AXES(m->index), false)); break;
	default: out[0] = tj_mul(tj_add(in[0], in[1]), m->w);
	}
	out[1] = out[0];
}
static void scan_fickle(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_scan(out, out + 1, 1, fickle, TJ_LIST(tj_f(1)), TJ_LIST(in[0]), self, NULL);
}

static void changes(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	float ones[4] = { 1, 2, 3, 4 };
	tj_tensor *w0 = kit_f32(c, 1, ones), *w1 = tj_reshape(w0, TJ_0D);
	model m = { .w = w0 };
	tj_fn *f = tj_compile(c, scan_fickle, &m, TJ_OPTS(tj_compile_opts, .name = "fickle", .nin = 1, .nout = 2, .on_recompile = tell));
	tj_tensor *x = F32(c, 10, 20), *y[2];
	static const float want[][2] = { { 11, 31 }, { -9, -29 }, { 9, 11 }, { 2, 3 }, { 11, 31 } };
	static const char *const why[] = { "", "add at test/unit/test_flow.c:", "operand", "op differs", "op differs" };
	for (int round = 0; round < 3; round++)
		for (m.flag = 0; m.flag < 5; m.flag++) {
			if (m.flag == 4) m.w = w1;
			told[0] = 0;
			assert_int_equal(tj_call(f, y, TJ_LIST(x)), TJ_OK);
			assert_f32(y[1], want[m.flag][0], want[m.flag][1]);
			if (round) assert_string_equal(told, "");
			else if (!strstr(told, why[m.flag])) fail_msg("%d: \"%s\" is not in \"%s\"", m.flag, why[m.flag], told);
			m.w = w0;
		}
	assert_int_equal(kit_stats(f).plans, 5);
	m.flag = 3;
	m.w = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 1), ones); /* a capture of another layout */
	assert_int_equal(tj_call(f, y, TJ_LIST(x)), TJ_ERR_SHAPE);
	kit_error(c, TJ_ERR_SHAPE, "carry 0 is f32[], but the body gives f32[1]");
	if (!strstr(told, "capture") || !strstr(told, "rank")) fail_msg("%s", told);
	m.w = w0;
	m.index = -1; /* an attribute */
	assert_int_equal(tj_call(f, y, TJ_LIST(x)), TJ_OK);
	if (!strstr(told, ", attribute 1 of sum: expected 0, found -1")) fail_msg("%s", told);
	kit_ok(c);
	tj_close(c);
}

/* ---- faults ---- */
static void divide(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_floor_divide(in[0], in[1]); const char *const here = TJ_SITE;
	out[1] = out[0];
	leaked = (tj_tensor *)(uintptr_t)here;
}
static void divide_all(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_scan(out, out + 1, 1, divide, TJ_LIST(tj_i(1000)), TJ_LIST(in[0]), NULL, NULL);
	tj_assign(self, tj_add(self, tj_f(1)));
}
static void pick(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_add(in[1], tj_squeeze(tj_index_select(self, 0, tj_reshape(in[0], TJ_SHAPE(1))), TJ_ALL));
}
static void pick_all(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	(void)self;
	tj_while(r, few, pick, TJ_LIST(tj_i(0), tj_f(0)), in[0], NULL);
	out[0] = r[1];
}
static void faults(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *cell = kit_param(c, 0), *out[2];
	int64_t good[3] = { 10, -3, 7 }, bad[3] = { 10, 0, 7 };
	tj_fn *f = kit_fn(c, "divide", divide_all, cell, 1, 2), *g = kit_fn(c, "pick", pick_all, NULL, 1, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(3), good))), TJ_OK);
		is_i64(out[0], -5);
		assert_int_equal(kit_call(c, f, out, TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(3), bad))), TJ_ERR_DIV);
		kit_error(c, TJ_ERR_DIV, "division by zero");
		assert_string_equal(tj_last_error(c)->site, (const char *)leaked);
		assert_true(tj_item(cell) == i + 1); /* a call that fails commits nothing */
		assert_f32(tj_call1(g, TJ_LIST(F32(c, 1, 2, 4))), 7);
		assert_true(tj_is_poison(tj_call1(g, TJ_LIST(F32(c, 1, 2)))));
		kit_error(c, TJ_ERR_INDEX, "out of range for an axis of size 2");
	}
	tj_close(c);
}

static void always(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_le(in[0], tj_f(9)); }
static void one_more(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_f(1)); }
static void bounded(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_while(out, always, one_more, TJ_LIST(in[0]), NULL, TJ_OPTS(tj_while_opts, .max_turns = 5));
}
static void limits(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "bounded", bounded, NULL, 1, 1);
	for (int i = 0; i < 3; i++) {
		tj_tensor *x = tj_reshape(F32(c, 5), TJ_0D), *y, *low = tj_reshape(F32(c, 4), TJ_0D);
		assert_f32(tj_call1(f, TJ_LIST(x)), 10); /* five turns are enough */
		assert_true(tj_is_poison(tj_call1(f, TJ_LIST(low))));
		kit_error(c, TJ_ERR_LIMIT, "still holds after 5 turns");
		bounded(&y, &low, NULL);
		kit_error(c, TJ_ERR_LIMIT, "still holds after 5 turns");
		assert_true(tj_is_poison(y));
		if (!strstr(tj_last_error(c)->hint, ".max_turns")) fail_msg("%s", tj_last_error(c)->hint);
	}
	tj_close(c);
}

/* ---- poison: a failed op ends the callback, the call, nothing else ---- */
static void poisoned(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *y, *bad = tj_matmul(F32(c, 1), F32(c, 1, 2));
	tj_check(c);
	assert_int_not_equal(tj_cond(&y, 1, tj_i(1), halve, halve, TJ_LIST(bad), NULL), TJ_OK);
	assert_true(tj_is_poison(y));
	assert_true(tj_is_poison(tj_add(y, y)));
	tj_check(c);
	assert_int_equal(tj_cond(&y, 1, tj_i(1), halve, halve, TJ_LIST(F32(c, 4)), NULL), TJ_OK);
	assert_f32(y, 2);
	kit_ok(c);
	tj_close(c);
}

/* ---- audit: values against the evaluator; a callback that depends on a C variable is found ---- */
static tj_fn *inner_fn;
static void impure_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	(void)self;
	tj_call(inner_fn, &y, TJ_LIST(in[1])); /* a call in a callback is traced through */
	out[0] = tj_add(tj_matmul(in[0], y), tj_f(((model *)self)->scale));
	out[1] = tj_tanh(out[0]);
}
static void inner_body(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(0.5)); }
static void impure(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_scan(out, out + 1, 1, impure_turn, TJ_LIST(in[0]), TJ_LIST(in[1]), self, NULL);
}
static void audits(void **s)
{
	(void)s;
	for (int change = 0; change < 2; change++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 2));
		model m = { .scale = 0.25 };
		float v[12] = { 1, -2, 3, 4, 0.5f, 6, 7, 8, -9, 10, 11, 12 };
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), v), *xs = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 2, 2), v), *y[2];
		inner_fn = kit_fn(c, "inner", inner_body, NULL, 1, 1);
		tj_fn *f = tj_compile(
			c, impure, &m,
			TJ_OPTS(tj_compile_opts, .name = "impure", .nin = 2, .nout = 2, .mode = TJ_DIRECT, .on_recompile = tell));
		told[0] = 0;
		for (int i = 0; i < 8; i++) {
			if (change && i == 4) m.scale = 3;
			assert_int_equal(tj_call(f, y, TJ_LIST(x, xs)), TJ_OK);
		}
		if (change && !strstr(told, "a number of add at test/unit/test_flow.c:")) fail_msg("%s", told);
		if (!change) assert_string_equal(told, "");
		assert_true(kit_stats(f).audits > 0);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- the graph as text ---- */
static void dump_graph(tj_fn *f, rt_text *t)
{
	char *s = kit_dump(f, TJ_DUMP_GRAPH);
	rt_puts(t, strchr(s, '\n') + 1); /* behind the title */
	free(s);
}
static void text(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	ways w = open_ways(c, deep, NULL, 2, 2);
	tj_tensor *out[2];
	run_way(&w, 0, out, TJ_LIST(F32(c, 1, 2), F32(c, 3, 0)));
	rt_text t = { 0 }, again = { 0 };
	rt_err err = { 0 };
	ir_graph g;
	dump_graph(w.f, &t);
	ir_graph_init(&g);
	if (ir_parse(&g, rt_str(&t), &err) != TJ_OK) fail_msg("%s\n%s", err.message, rt_str(&t));
	assert_int_equal(ir_verify(&g, &err), TJ_OK);
	ir_print(&g, &again);
	assert_string_equal(rt_str(&t), rt_str(&again));
	ir_graph_free(&g);
	rt_text_free(&t);
	rt_text_free(&again);
	FILE *null = fopen("/dev/null", "w");
	for (int what = TJ_DUMP_GRAPH; what <= TJ_DUMP_ASSEMBLY; what++) tj_dump(w.f, (tj_dump_what)what, null);
	tj_explain(w.f, null);
	fclose(null);
	tj_close(c);
}

/* A division of numbers by zero is met while a callback is traced, and is an error only if the callback runs. */
static void plus_quotient(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_floor_divide(tj_i(9), ((tj_tensor **)self)[0]));
}
static void plus_nothing(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_i(0)); }
static void quotient_of_cond(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_cond(out, 1, in[2], plus_quotient, plus_nothing, TJ_LIST(in[0]), (void *)(uintptr_t)(in + 1));
}
static void quotient_of_scan(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_scan(out, NULL, 0, plus_quotient, TJ_LIST(in[0]), TJ_LIST(in[2]), (void *)(uintptr_t)(in + 1), NULL);
}
static void below_captured(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_lt(in[0], ((tj_tensor **)self)[1]); }
static void quotient_of_while(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_while(out, below_captured, plus_quotient, TJ_LIST(in[0]), (void *)(uintptr_t)(in + 1), NULL);
}

static void numbers_divided(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("faults come late there");
	tj_ctx *c = kit_open();
	tj_body *body[] = { quotient_of_cond, quotient_of_scan, quotient_of_while };
	for (int b = 0; b < 3; b++) {
		ways w = open_ways(c, body[b], NULL, 3, 1);
		tj_fn *lenient = tj_compile(c, body[b], NULL, TJ_OPTS(tj_compile_opts, .name = "lenient", .nin = 3, .nout = 1, .int_div_zero = TJ_ZERO));
		for (int k = 0; k < 12; k++) { /* divisors 3, 0, and 0 where it runs; the last of them fails */
			const int64_t one = 1, runs = k % 3 != 1, by = k % 3 ? 0 : 3;
			tj_tensor *x = tj_from_data(c, TJ_I64, TJ_0D, &one), *y,
				  *how = b == 0   ? tj_full(TJ_BOOL, TJ_0D, tj_i(runs))
			                 : b == 1 ? tj_full(TJ_F32, TJ_SHAPE(runs), tj_i(1))
			                          : tj_i(1 + runs);
			tj_list in = TJ_LIST(x, tj_i(by), how);
			for (int f = 0; f < 2; f++) {
				assert_int_equal(tj_call(f ? w.d : w.f, &y, in), by || !runs ? TJ_OK : TJ_ERR_DIV);
				if (by || !runs) is_i64(y, runs ? 4 : 1);
				else kit_error(c, TJ_ERR_DIV, "division by zero");
			}
			if (b == 2 && !by) continue; /* adding 0 would go on for ever */
			assert_int_equal(tj_call(lenient, &y, in), TJ_OK);
			is_i64(y, by ? 4 : 1);
		}
		kit_ok(c);
		assert_true(kit_stats(w.d).direct >= 2); /* direct mode goes on where the divisor is none */
	}
	tj_close(c);
}

/* A pass of the user sees control flow as a node, and may replace what goes into it. */
static tj_status negate_input(tj_graph *g, void *self)
{
	(void)self;
	for (tj_node *n = tj_graph_first(g); n; n = tj_node_next(n)) {
		if (strcmp(tj_node_op(n), "while")) continue;
		tj_node *x = tj_node_input(n, 0), *y = tj_graph_insert(g, n, "neg", &x, 1, NULL, 0);
		tj_graph_replace(g, x, y);
	}
	return TJ_OK;
}
static void user_pass(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	tj_ctx *c = kit_open();
	const tj_pass passes[] = { { "negate_input", negate_input, NULL }, { 0 } };
	tj_fn *f = tj_compile(c, bounded, NULL, TJ_OPTS(tj_compile_opts, .name = "passed", .nin = 1, .nout = 1, .passes = passes));
	assert_f32(tj_call1(f, TJ_LIST(tj_reshape(F32(c, -6), TJ_0D))), 10);
	kit_ok(c);
	tj_close(c);
}

/* More sets of callbacks outside of functions than are kept. */
static void many_outside(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int round = 0; round < 2; round++)
		for (int n = 1; n < 80; n++) {
			tj_tensor *in[81], *y, *xs[81];
			for (int i = 0; i < n; i++) in[i] = F32(c, 4);
			in[n] = xs[n] = TJ_END;
			for (int i = 0; i < n; i++) xs[i] = in[i];
			assert_int_equal(tj_cond(&y, 1, tj_i(n % 2), halve, one_more, in, NULL), TJ_OK);
			assert_f32(y, n % 2 ? 2 : 5);
			assert_int_equal(tj_scan(NULL, &y, 1, one_more, TJ_NONE, xs, NULL, NULL), TJ_OK);
			assert_f32(y, 5);
		}
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cond_values),     cmocka_unit_test(while_values),    cmocka_unit_test(scan_values),
		cmocka_unit_test(layouts),         cmocka_unit_test(captured_values), cmocka_unit_test(declared_state),
		cmocka_unit_test(nested),          cmocka_unit_test(recursion),       cmocka_unit_test(no_turn),
		cmocka_unit_test(results),         cmocka_unit_test(boundaries),      cmocka_unit_test(cells),
		cmocka_unit_test(mismatches),      cmocka_unit_test(refusals),        cmocka_unit_test(numbers),
		cmocka_unit_test(changes),         cmocka_unit_test(faults),          cmocka_unit_test(limits),
		cmocka_unit_test(poisoned),        cmocka_unit_test(audits),          cmocka_unit_test(text),
		cmocka_unit_test(numbers_divided), cmocka_unit_test(user_pass),       cmocka_unit_test(many_outside),
	};
	KIT_RUN(tests);
}
