/* SPDX-License-Identifier: MIT */
/* Direct mode: skips the body where that is sound, runs it where it is not; the audit finds undeclared dependences. */
#include "test/kit.h"

#include "jit/ctx.h"

static int runs; /* of the body */
static char reason[1024];
static void keep_reason(void *self, const tj_reason *r)
{
	(void)self;
	snprintf(reason, sizeof reason, "%s: %s: %s", r->kind, r->site, r->text);
}

#define DIRECT(c, body, self, nin, nout, ...) \
	(runs = 0, reason[0] = 0, \
	 tj_compile(c, body, self, \
	            TJ_OPTS(tj_compile_opts, #body, nin, nout, .mode = TJ_DIRECT, .on_recompile = keep_reason, \
	                    .state = TJ_VARS(__VA_ARGS__))))
#define NO_STATE TJ_END_VAR

static uint64_t skipped(tj_fn *f) { return kit_stats(f).direct; }
static tj_ctx *open_audit(int n) { return tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = n)); }

/* ---- pure bodies ---- */
static void plus_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	out[0] = tj_add(in[0], tj_f(1));
}

static void skips(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = DIRECT(c, plus_one, NULL, 1, 1, NO_STATE);
	for (int i = 0; i < 5; i++) {
		tj_scope *sc = tj_push(c);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, (float)i, 2))), (float)i + 1, 3);
		tj_pop(sc);
	}
	assert_int_equal(runs, 1);
	assert_int_equal(skipped(f), 4);
	assert_int_equal(kit_stats(f).calls, 5);
	kit_ok(c);
	tj_close(c);
}

/* A new size, dtype or rank is followed once under exactly that key; the old key stays known. */
static void each_key_once(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = DIRECT(c, plus_one, NULL, 1, 1, NO_STATE);
	for (int i = 0; i < 3; i++) {
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2))), 2, 3);
		assert_f32(tj_call1(f, TJ_LIST(F32(c, 1, 2, 3))), 2, 3, 4);
		assert_f32(tj_call1(f, TJ_LIST(tj_transpose(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 })), 0, 1))), 2, 4, 3, 5);
		assert_true(tj_item(tj_call1(f, TJ_LIST(tj_f(1)))) == 2);
	}
	assert_int_equal(runs, 4);
	kit_ok(c);
	tj_close(c);
}

typedef struct model { tj_tensor *w, *b; } model;
static void linear(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	runs++;
	out[0] = tj_add(tj_mul(in[0], m->w), m->b);
}

static void state_is_read_anew(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { kit_param(c, 2), kit_param(c, 3) };
	tj_fn *f = DIRECT(c, linear, &m, 1, 1, &m.w, &m.b);
	tj_tensor *x = F32(c, 1, 2);
	assert_f32(tj_call1(f, TJ_LIST(x)), 5, 7);
	tj_write(m.w, (float[]){ 4 }, 4);
	assert_f32(tj_call1(f, TJ_LIST(x)), 7, 11);
	tj_tensor *other = kit_param(c, 10); /* a swapped weight: seen, and compiles nothing */
	m.w = other;
	assert_f32(tj_call1(f, TJ_LIST(x)), 13, 23);
	assert_int_equal(runs, 1);
	m.b = m.w; /* now one cell is both: another key */
	assert_f32(tj_call1(f, TJ_LIST(x)), 20, 30);
	assert_f32(tj_call1(f, TJ_LIST(x)), 20, 30);
	assert_int_equal(runs, 2);
	m.b = kit_param(c, 1);
	assert_f32(tj_call1(f, TJ_LIST(x)), 11, 21);
	assert_int_equal(runs, 2);
	m.w = tj_retain(F32(c, 5, 6)); /* a value of another shape instead of a cell */
	assert_f32(tj_call1(f, TJ_LIST(x)), 6, 13);
	assert_f32(tj_call1(f, TJ_LIST(x)), 6, 13);
	assert_int_equal(runs, 3);
	m.w = tj_f(2); /* a number: known by its value */
	assert_f32(tj_call1(f, TJ_LIST(x)), 3, 5);
	assert_f32(tj_call1(f, TJ_LIST(x)), 3, 5);
	m.w = tj_f(3);
	assert_f32(tj_call1(f, TJ_LIST(x)), 4, 7);
	m.w = tj_i(3);
	assert_f32(tj_call1(f, TJ_LIST(x)), 4, 7);
	m.w = tj_f(2);
	assert_f32(tj_call1(f, TJ_LIST(x)), 3, 5);
	assert_int_equal(runs, 6);
	m.w = NULL;
	tj_call1(f, TJ_LIST(x));
	kit_error(c, TJ_ERR_ARG, "state variable 0 holds NULL");
	kit_ok(c);
	tj_close(c);
}

static void same_tensor_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	out[0] = tj_sub(tj_mul(in[0], tj_f(2)), in[1]);
	out[1] = in[0];
}
static void arguments_do_not_alias(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = DIRECT(c, same_tensor_twice, NULL, 2, 2, NO_STATE);
	tj_tensor *x = F32(c, 1, 2), *y = F32(c, 10, 20), *out[2];
	assert_int_equal(tj_call(f, out, TJ_LIST(x, x)), TJ_OK);
	assert_f32(out[0], 1, 2);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, y)), TJ_OK);
	assert_f32(out[0], -8, -16);
	assert_f32(out[1], 1, 2);
	assert_int_equal(tj_call(f, out, TJ_LIST(out[0], out[1])), TJ_OK); /* outputs fed back */
	assert_f32(out[0], -17, -34);
	assert_int_equal(runs, 1);
	kit_ok(c);
	tj_close(c);
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	runs++;
	tj_tensor *g = tj_mul(in[0], tj_arg_f(0));
	tj_assign(m->w, tj_sub(m->w, g));
	tj_assign(m->b, m->w);
	out[0] = tj_sum(m->w, TJ_ALL, false);
}
static void cells_commit(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { tj_param(c, TJ_F32, TJ_SHAPE(2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_fn *f = DIRECT(c, step, &m, 1, 1, &m.w, &m.b);
	tj_tensor *g = F32(c, 1, 2), *out, *old;
	float lr[] = { 1, 0.5f, 2, 1 }, sum = 0;
	for (int i = 0; i < 4; i++) {
		old = tj_mul(m.w, tj_f(1));
		assert_int_equal(tj_call_ex(f, &out, TJ_LIST(g), TJ_SCALARS(TJ_F((double)lr[i]))), TJ_OK);
		sum += lr[i];
		assert_f32(m.w, -sum, -2 * sum);
		assert_f32(m.b, -sum, -2 * sum);
		assert_f32(out, -3 * sum);
		assert_f32(old, -(sum - lr[i]), -2 * (sum - lr[i])); /* what was read before stays */
	}
	assert_int_equal(runs, 1);
	kit_ok(c);
	tj_close(c);
}

/* ---- numbers ---- */
static void scale(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	tj_tensor *k = tj_add(tj_mul(tj_arg_f(0), in[1]), tj_f(1)); /* numbers computed from numbers */
	out[0] = tj_mul(in[0], k);
	out[1] = k;
	out[2] = tj_add(in[0], tj_f((double)tj_arg_i(1)));
}
static void numbers_are_run_time_arguments(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = DIRECT(c, scale, NULL, 2, 3, NO_STATE);
	tj_tensor *x = F32(c, 1, 2), *out[3];
	for (int i = 0; i < 6; i++) {
		double lr = 0.25 * i;
		assert_int_equal(tj_call_ex(f, out, TJ_LIST(x, tj_f(i)), TJ_SCALARS(TJ_F(lr), TJ_I(i / 3))), TJ_OK);
		float k = (float)(lr * i + 1);
		assert_f32(out[0], k, 2 * k);
		assert_true(tj_item(out[1]) == lr * i + 1);
		assert_f32(out[2], 1 + (float)(i / 3), 2 + (float)(i / 3));
	}
	assert_int_equal(runs, 2); /* once for each declared int */
	kit_ok(c);
	tj_close(c);
}

static void draw(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	tj_tensor *a = tj_uniform(TJ_F32, TJ_SHAPE(4));
	out[0] = tj_add(a, in[0]);
	out[1] = tj_normal(TJ_F32, TJ_SHAPE(4));
}
static void random_numbers_go_on(void **s)
{
	(void)s;
	float seen[2][5][2][4];
	for (int direct = 0; direct < 2; direct++) {
		tj_ctx *c = kit_open();
		tj_fn *f = direct ? DIRECT(c, draw, NULL, 1, 2, NO_STATE) : kit_fn(c, "draw", draw, NULL, 1, 2);
		tj_tensor *x = F32(c, 0, 0, 0, 0), *out[2];
		for (int i = 0; i < 5; i++) {
			assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
			for (int k = 0; k < 2; k++) memcpy(seen[direct][i][k], tj_data(out[k]), sizeof seen[direct][i][k]);
		}
		if (direct) assert_int_equal(runs, 1);
		kit_ok(c);
		tj_close(c);
	}
	assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
}

/* ---- branches ---- */
static void branchy(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	tj_tensor *h = tj_mul(in[0], tj_f(2)), *r = tj_uniform(TJ_F32, TJ_SHAPE(2));
	if (tj_truth(tj_gt(tj_sum(h, TJ_ALL, false), tj_f(0)))) h = tj_add(h, tj_f(100));
	if (tj_truth(in[1])) h = tj_neg(h); /* of an argument */
	out[0] = h;
	out[1] = r;
}
static void truth_is_a_tree(void **s)
{
	(void)s;
	float seen[2][12][4];
	for (int direct = 0; direct < 2; direct++) {
		tj_ctx *c = kit_open();
		tj_fn *f = direct ? DIRECT(c, branchy, NULL, 2, 2, NO_STATE) : kit_fn(c, "branchy", branchy, NULL, 2, 2);
		runs = 0;
		for (int i = 0; i < 12; i++) {
			tj_tensor *x = F32(c, i & 1 ? 1 : -1, 3 * (i & 1)), *flag = F32(c, (float)(i >> 1 & 1)), *out[2];
			assert_int_equal(tj_call(f, out, TJ_LIST(x, flag)), TJ_OK);
			memcpy(seen[direct][i], tj_data(out[0]), 8);
			memcpy(seen[direct][i] + 2, tj_data(out[1]), 8);
		}
		if (direct) assert_int_equal(runs, 4); /* each way once */
		kit_ok(c);
		tj_close(c);
	}
	assert_memory_equal(seen[0], seen[1], sizeof seen[0]);
}

static void newton(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	tj_tensor *x = in[0];
	while (tj_truth(tj_gt(x, tj_f(1)))) x = tj_mul(x, tj_f(0.5));
	out[0] = x;
}
static void deep_loops_stay_in_verify(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = DIRECT(c, newton, NULL, 1, 1, NO_STATE);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 1 << 20))), 1); /* 20 turns */
	assert_int_equal(runs, 3);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 8))), 1); /* the same key */
	kit_ok(c);
	tj_close(c);
	c = kit_open();
	f = DIRECT(c, newton, NULL, 1, 1, NO_STATE);
	for (int i = 0; i < 4; i++) assert_f32(tj_call1(f, TJ_LIST(F32(c, 8))), 1);
	assert_int_equal(runs, 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 16))), 1); /* a bit that was not seen yet */
	assert_int_equal(runs, 2);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 16))), 1);
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 4))), 1);
	assert_int_equal(runs, 3);
	kit_ok(c);
	tj_close(c);
}

static tj_fn *inner_fn;
static void outer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = NULL;
	if (tj_call(inner_fn, &h, TJ_LIST(in[0])) != TJ_OK) return;
	out[0] = tj_mul(h, in[1]);
}
static void nested_calls(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	inner_fn = kit_fn(c, "inner", plus_one, NULL, 1, 1);
	tj_fn *f = DIRECT(c, outer, NULL, 2, 1, NO_STATE);
	tj_tensor *x = F32(c, 1, 2);
	for (int i = 0; i < 4; i++) assert_f32(tj_call1(f, TJ_LIST(x, tj_f(i))), 2 * (float)i, 3 * (float)i);
	for (int i = 0; i < 4; i++) assert_true(tj_item(tj_call1(f, TJ_LIST(tj_f(i), tj_f(2)))) == 2.0 * (i + 1));
	assert_int_equal(runs, 2);
	kit_ok(c);
	tj_close(c);
}

/* ---- constants ---- */
static void frozen_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	runs++;
	out[0] = tj_add(tj_mul(in[0], m->w), tj_mul(m->b, tj_constant(tj_ctx_current(), TJ_F32, TJ_0D, (float[]){ 1 })));
}
static bool mentions(tj_fn *f, const char *what)
{
	char *text = kit_dump(f, TJ_DUMP_GRAPH);
	bool yes = strstr(text, what) != NULL;
	free(text);
	return yes;
}
static void frozen_content_is_folded(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		model m = { kit_param(c, 1), kit_param(c, 3) };
		runs = 0;
		reason[0] = 0;
		tj_fn *f = tj_compile(
			c, linear, &m,
			TJ_OPTS(tj_compile_opts, "linear", 1, 1, .mode = (tj_mode)mode, .state = TJ_VARS(&m.b), .freeze = TJ_VARS(&m.w)));
		tj_tensor *x = F32(c, 1, 2);
		for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(x)), 4, 5);
		assert_false(mentions(f, "mul")); /* by one */
		tj_write(m.w, (float[]){ 2 }, 4);
		for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(x)), 5, 7);
		assert_true(mentions(f, "mul"));
		assert_int_equal(kit_stats(f).plans, 2);
		tj_assign(m.w, tj_f(3));
		assert_f32(tj_call1(f, TJ_LIST(x)), 6, 9);
		tj_write(m.b, (float[]){ 1 }, 4); /* state: no trace of its own */
		assert_f32(tj_call1(f, TJ_LIST(x)), 4, 7);
		assert_int_equal(kit_stats(f).plans, 3);
		if (mode == TJ_DIRECT) assert_int_equal(runs, 3);
		kit_ok(c);
		f = tj_compile(c, frozen_body, &m, TJ_OPTS(tj_compile_opts, "frozen", 1, 1, .mode = (tj_mode)mode, .state = TJ_VARS(&m.b, &m.w)));
		assert_f32(tj_call1(f, TJ_LIST(x)), 4, 7); /* a new constant each time: in verify a new trace, and direct mode keeps off */
		kit_ok(c);
		tj_close(c);
	}
}

/* A product keeps its frozen weight in panels. Every content of it gives the evaluator's bits, for each size, and all sizes share a copy.
 */
typedef struct layer { tj_tensor *w; bool turned; } layer;
static void multiply(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	out[0] = tj_matmul(in[0], l->turned ? tj_transpose(l->w, 0, 1) : l->w);
}
static void fill(float *v, int64_t n, uint32_t from)
{
	for (int64_t i = 0; i < n; i++) v[i] = (float)((int32_t)((uint32_t)i * 2654435761u + from) >> 12) * 0x1p-10f;
}
static void frozen_weights_are_packed(void **s)
{
	(void)s;
	enum { K = 300, N = 77 };
	static float w[K * N], x[40 * K];
	for (int which = 0; which < 4; which++) {
		const bool turned = which & 1;
		tj_ctx *c = kit_open();
		layer l = { tj_param(c, TJ_F32, turned ? TJ_SHAPE(N, K) : TJ_SHAPE(K, N)), turned };
		tj_fn *f = tj_compile(c, multiply, &l,
		                      TJ_OPTS(tj_compile_opts, "layer", 1, 1, .mode = which & 2 ? TJ_DIRECT : TJ_VERIFY,
		                              .dynamic = TJ_DYNAMIC_OFF, .freeze = TJ_VARS(&l.w)));
		fill(x, 40 * K, 7);
		for (uint32_t content = 0; content < 10; content++) { /* the later ones are not packed any more */
			fill(w, K * N, content * 12345);
			tj_write(l.w, w, sizeof w);
			for (int64_t rows = 1; rows <= 40; rows += 13) {
				tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(rows, K), x), *want, *got;
				multiply(&want, &in, &l);
				for (int call = 0; call < 2; call++) {
					assert_int_equal(tj_call(f, &got, TJ_LIST(in)), TJ_OK);
					assert_memory_equal(tj_data(got), tj_data(want), (size_t)(rows * N) * sizeof(float));
				}
			}
		}
		if (!kit_elsewhere() && !strcmp(kit_backend, "llvm")) {
			char *text = kit_explain(f);
			assert_non_null(strstr(text, "of constants in panels"));
			free(text);
			text = kit_dump(f, TJ_DUMP_KERNELS);
			assert_non_null(strstr(text, "buf b1 f32 panels"));
			free(text);
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* Few rows read a copy of a weight that is larger than the caches panel by panel. */
static void large_weights_are_packed(void **s)
{
	(void)s;
	enum { K = 2080, N = 2048 };
	float *w = malloc(sizeof *w * K * N);
	static float x[2 * K];
	assert_non_null(w);
	tj_ctx *c = kit_open();
	layer l = { tj_param(c, TJ_F32, TJ_SHAPE(N, K)), true };
	fill(w, K * N, 1);
	fill(x, 2 * K, 7);
	tj_write(l.w, w, sizeof *w * K * N);
	for (int rows = 1; rows <= 2; rows++) {
		tj_fn *f = tj_compile(c, multiply, &l, TJ_OPTS(tj_compile_opts, "layer", 1, 1, .mode = TJ_DIRECT, .freeze = TJ_VARS(&l.w)));
		tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(rows, K), x), *want;
		multiply(&want, &in, &l);
		assert_memory_equal(tj_data(tj_call1(f, TJ_LIST(in))), tj_data(want), (size_t)(rows * N) * sizeof(float));
		char *text = kit_explain(f);
		if (!kit_elsewhere() && !strcmp(kit_backend, "llvm")) assert_non_null(strstr(text, "of constants in panels"));
		free(text);
	}
	kit_ok(c);
	tj_close(c);
	free(w);
}

/* ---- faults and bad input ---- */
static void pick(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	runs++;
	tj_assign(m->b, tj_add(m->b, tj_f(1)));
	out[0] = tj_index_select(m->w, 0, in[0]);
}
static void faults_change_nothing(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	model m = { tj_param(c, TJ_F32, TJ_SHAPE(3)), kit_param(c, 0) };
	tj_fn *f = DIRECT(c, pick, &m, 1, 1, &m.w, &m.b);
	int32_t good[] = { 0, 2 }, bad[] = { 0, 3 };
	tj_tensor *g = tj_from_data(c, TJ_I32, TJ_SHAPE(2), good), *b = tj_from_data(c, TJ_I32, TJ_SHAPE(2), bad), *out = g;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tj_call(f, &out, TJ_LIST(g)), TJ_OK);
		tj_tensor *was = out;
		assert_int_equal(kit_call(c, f, &out, TJ_LIST(b)), TJ_ERR_INDEX);
		assert_true(out == was || kit_elsewhere());
		kit_error(c, TJ_ERR_INDEX, "out of range for an axis of size 3");
		assert_f32(m.b, (float)i + 1);
	}
	assert_int_equal(runs, 1);
	tj_scope *sc = tj_push(c);
	tj_tensor *dead = tj_add(g, tj_i(1));
	tj_pop(sc);
	assert_int_equal(tj_call(f, &out, TJ_LIST(dead)), TJ_ERR_DEAD);
	kit_error(c, TJ_ERR_DEAD, "");
	tj_call(f, &out, TJ_LIST(NULL));
	kit_error(c, TJ_ERR_ARG, "NULL");
	tj_call(f, &out, TJ_NONE);
	kit_error(c, TJ_ERR_ARG, "fewer");
	tj_call(f, &out, TJ_LIST(g, g));
	kit_error(c, TJ_ERR_ARG, "more");
	tj_close(c);
}

/* ---- what direct mode does not skip, and says so ---- */
static tj_tensor *kept;
static void captures(tj_tensor **out, tj_tensor *const *in, void *self) { runs++, out[0] = tj_add(in[0], *(tj_tensor **)self); }
static void items(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++, out[0] = tj_mul(in[0], tj_f(tj_item(tj_sum(in[0], TJ_ALL, false))));
}
static void reads(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++, out[0] = tj_mul(in[0], tj_f((double)((const float *)tj_data(in[0]))[0]));
}
static void makes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_ctx *c = self;
	runs++;
	out[0] = tj_add(in[0], F32(c, 1, 1));
}
static void retains(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++, out[0] = tj_add(in[0], in[0]), kept = tj_retain(out[0]);
}
static void escapes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++, kept = tj_escape(in[0]), out[0] = tj_neg(in[0]);
}
static void assigns(tj_tensor **out, tj_tensor *const *in, void *self) { runs++, tj_assign(*(tj_tensor **)self, in[0]), out[0] = in[0]; }
static void asks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, runs++, out[0] = tj_item(tj_arg_f(0)) > 1 ? tj_neg(in[0]) : in[0];
}

/* A tensor that the body holds itself is a capture, even if the same tensor is passed as the argument. */
static void capture_is_no_argument(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *held = tj_retain(F32(c, 1, 2)), *x = F32(c, 5, 6);
	tj_fn *f = DIRECT(c, captures, &held, 1, 1, NO_STATE);
	assert_f32(tj_call1(f, TJ_LIST(held)), 2, 4);
	assert_f32(tj_call1(f, TJ_LIST(x)), 6, 8);
	assert_int_equal(skipped(f), 0);
	assert_int_equal(strncmp(reason, "direct: ", 8), 0);
	kit_ok(c);
	tj_close(c);
}

static void seeds(tj_tensor **out, tj_tensor *const *in, void *self)
{
	runs++;
	tj_seed(self, 7);
	out[0] = tj_add(in[0], tj_uniform(TJ_F32, TJ_0D));
}

static void unfit(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *loose = tj_retain(F32(c, 1, 1)), *cell = tj_param(c, TJ_F32, TJ_SHAPE(2));
	const struct { const char *name; tj_body *body; void *self; const char *why; } cases[] = {
		{ "captures", captures, &loose, "add at" },  { "items", items, NULL, "item at" },       { "reads", reads, NULL, "data at" },
		{ "makes", makes, c, "add at" },             { "retains", retains, NULL, "retain at" }, { "escapes", escapes, NULL, "escape at" },
		{ "seeds", seeds, c, "seed at" }, { "assigns", assigns, &cell, "a cell is assigned" }, { "asks", asks, NULL, "item at" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		runs = 0;
		reason[0] = 0;
		tj_fn *f = tj_compile(c, cases[i].body, cases[i].self,
		                      TJ_OPTS(tj_compile_opts, cases[i].name, 1, 1, .mode = TJ_DIRECT, .on_recompile = keep_reason));
		for (int k = 0; k < 4; k++) {
			tj_tensor *out;
			assert_int_equal(tj_call_ex(f, &out, TJ_LIST(F32(c, 2, 3)), TJ_SCALARS(TJ_F(k))), TJ_OK);
			if (k == 0 && !strstr(reason, cases[i].why)) fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].name, cases[i].why, reason);
			if (k == 0 && strncmp(reason, "direct: ", 8)) fail_msg("%s", reason);
			if (k == 0 && !strstr(reason, "test_direct.c:")) fail_msg("no file:line in \"%s\"", reason);
			if (k > 0 && !strncmp(reason, "direct: ", 8)) fail_msg("told twice: %s", reason);
			reason[0] = 0;
		}
		assert_int_equal(runs, 4);
		assert_int_equal(skipped(f), 0);
		if (kept) tj_release(kept);
		kept = NULL;
		(void)tj_check(c);
	}
	tj_close(c);
}

/* ---- what once went wrong: each body in both modes ---- */
typedef struct both { const char *name; tj_body *body; int nout; } both;
static tj_tensor *cell_a, *cell_b;

/* The old value goes to one cell, a new one to the cell it came from. */
static void keeps_the_old(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *next = tj_mul(cell_a, in[0]);
	tj_assign(cell_b, cell_a);
	tj_assign(cell_a, next);
	out[0] = tj_add(cell_a, cell_b);
	out[1] = cell_b;
}
/* A value that a boundary did not keep is read after the next one. */
static void reads_late(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *b = tj_mul(in[0], tj_f(2)), *u = tj_neg(b), *v = tj_add(in[0], tj_f(100)), *r = tj_f(0);
	if (tj_truth(tj_gt(tj_sum(u, TJ_ALL, false), tj_f(1e9)))) r = tj_f(1);
	tj_tensor *w = tj_add(v, tj_f(1000));
	if (tj_truth(tj_gt(tj_sum(w, TJ_ALL, false), tj_f(1e9)))) r = tj_f(2);
	out[0] = tj_add(w, r);
	out[1] = tj_add(b, r);
}
/* More boundaries than a call remembers. */
static void asks_often(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_ctx *c = self;
	int count = 0;
	for (int n = 0; n < 70; n++) {
		tj_scope *s = tj_push(c);
		if (tj_truth(tj_gt(in[0], tj_f(n)))) count++;
		tj_pop(s);
	}
	out[0] = tj_add(in[0], tj_f(1000.0 * count));
	out[1] = in[0];
}
/* A nested call that returns a cell returns its value at that time. */
static void gives_a(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, (void)in, out[0] = cell_a; }
static void returns_cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *was = NULL;
	if (tj_call(inner_fn, &was, TJ_LIST(in[0])) != TJ_OK) return;
	tj_assign(cell_a, tj_add(cell_a, in[0]));
	out[0] = was;
	out[1] = cell_a;
}
static void both_modes_agree(void **s)
{
	(void)s;
	static const both cases[] = { { "keeps_the_old", keeps_the_old, 2 },
		                      { "reads_late", reads_late, 2 },
		                      { "asks_often", asks_often, 2 },
		                      { "returns_cell", returns_cell, 2 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float got[2][6][2];
		for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
			tj_ctx *c = kit_open();
			cell_a = kit_param(c, 1), cell_b = kit_param(c, 0);
			inner_fn = kit_fn(c, "inner", gives_a, NULL, 1, 1);
			tj_fn *f = tj_compile(c, cases[i].body, c,
			                      TJ_OPTS(tj_compile_opts, cases[i].name, 1, cases[i].nout, .mode = (tj_mode)mode,
			                              .state = TJ_VARS(&cell_a, &cell_b)));
			for (int k = 0; k < 6; k++) {
				tj_tensor *out[2];
				const float x = (float)(2 + 10 * k);
				assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_0D, &x))), TJ_OK);
				for (int o = 0; o < 2; o++) got[mode][k][o] = (float)tj_item(out[o]);
			}
			kit_ok(c);
			tj_close(c);
		}
		assert_memory_equal(got[0], got[1], sizeof got[0]);
		if (cases[i].body == keeps_the_old) assert_true(got[0][0][0] == 3 && got[0][0][1] == 1 && got[0][1][1] == 2);
		if (cases[i].body == reads_late) assert_true(got[0][1][0] == 1112 && got[0][1][1] == 24);
		if (cases[i].body == asks_often) assert_true(got[0][2][0] == 22022);
		if (cases[i].body == returns_cell) assert_true(got[0][0][0] == 1 && got[0][0][1] == 3 && got[0][1][0] == 3);
	}
}

/* A nested call that fails while it runs fails the outer one, which goes on: nothing crashes, and the next call is right. */
static void inner_faults(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(tj_gt(tj_sum(tj_gather(in[0], 0, in[1]), TJ_ALL, false), tj_f(0))) ? tj_neg(in[0]) : in[0];
}
static void outer_goes_on(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = NULL, *before = tj_add(in[0], tj_f(7));
	out[0] = tj_call(inner_fn, &h, TJ_LIST(in[0], in[1])) == TJ_OK ? tj_add(h, before) : before;
}
static void nested_faults(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("faults come late there");
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		inner_fn = kit_fn(c, "inner", inner_faults, NULL, 2, 1);
		tj_fn *f = tj_compile(c, outer_goes_on, NULL, TJ_OPTS(tj_compile_opts, "outer", 2, 1, .mode = (tj_mode)mode));
		const int64_t good[] = { 0, 1 }, bad[] = { 0, 2 };
		for (int k = 0; k < 6; k++) {
			tj_tensor *out = NULL, *at = tj_from_data(c, TJ_I64, TJ_SHAPE(2), k % 3 == 1 ? bad : good);
			tj_status st = tj_call(f, &out, TJ_LIST(F32(c, 1, 2), at));
			assert_int_equal(st, k % 3 == 1 ? TJ_ERR_INDEX : TJ_OK);
			if (st == TJ_OK) assert_f32(out, 7, 7);
			else kit_error(c, TJ_ERR_INDEX, "out of range");
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* A tensor that was retained in a body of another context is state, whatever numbers it carries. */
static void keeps(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(10));
	kept = tj_retain(out[0]);
}
static void subtracts(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, runs++, out[0] = tj_sub(in[0], kept); }
static void retained_elsewhere(void **s)
{
	(void)s;
	tj_ctx *a = kit_open();
	tj_call1(kit_fn(a, "keeps", keeps, NULL, 1, 1), TJ_LIST(F32(a, 2, 3)));
	tj_ctx *b = kit_clone(a);
	tj_fn *f = DIRECT(b, subtracts, NULL, 1, 1, &kept);
	for (int i = 0; i < 3; i++) assert_f32(tj_call1(f, TJ_LIST(F32(b, 1, 2))), -19, -28);
	assert_int_equal(runs, 1);
	tj_release(kept);
	kept = NULL;
	kit_ok(b);
	tj_close(b);
	tj_close(a);
}

/* A failed call drew no random numbers, in either mode. */
static void draws(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_uniform(TJ_F32, TJ_SHAPE(2)), tj_gather(in[0], 0, in[1]));
}
static void failed_calls_draw_nothing(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("faults come late there");
	float got[2][6][2];
	const int64_t good[] = { 0, 1 }, bad[] = { 0, 2 };
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, draws, NULL, TJ_OPTS(tj_compile_opts, "draws", 2, 1, .mode = (tj_mode)mode));
		for (int k = 0; k < 6; k++) {
			tj_tensor *y = tj_call1(f, TJ_LIST(F32(c, 0, 0), tj_from_data(c, TJ_I64, TJ_SHAPE(2), k % 3 == 1 ? bad : good)));
			assert_int_equal(tj_check(c), k % 3 == 1 ? TJ_ERR_INDEX : TJ_OK);
			memset(got[mode][k], 0, sizeof got[mode][k]);
			if (!tj_is_poison(y)) memcpy(got[mode][k], tj_data(y), sizeof got[mode][k]);
		}
		tj_close(c);
	}
	assert_memory_equal(got[0], got[1], sizeof got[0]);
	tj_ctx *c = kit_open();
	tj_scalar many[34];
	for (int i = 0; i < 33; i++) many[i] = TJ_F(i);
	many[33] = tj_scalar_end();
	tj_tensor *out;
	assert_int_equal(tj_call_ex(kit_fn(c, "plus_one", plus_one, NULL, 1, 1), &out, TJ_LIST(F32(c, 1)), many), TJ_ERR_LIMIT);
	kit_error(c, TJ_ERR_LIMIT, "scalars");
	tj_close(c);
}

/* ---- impure bodies, which audit must find ---- */
static int counter, flag;
static struct { double k; } config;
static int64_t axis;
static tj_tensor *either[2];
static void counts(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], tj_f(counter++)); }
static void scales(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(config.k)); }
static void flags(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = flag ? tj_neg(in[0]) : tj_exp(in[0]); }
static void axes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(axis), false); }
static void loops(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
	for (int i = 0; i < 1 + flag; i++) out[0] = tj_add(out[0], in[0]);
}
static void swaps(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sub(in[flag], in[1 - flag]); }
static void chooses(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], either[flag]); }
static void derives(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_mul(in[0], tj_mul(tj_arg_f(0), tj_f(config.k)));
}
static tj_tensor *total(tj_tensor *t) { return tj_sum(t, TJ_ALL, false); }
static void by_another(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_mul(in[0], tj_square(in[1]))), TJ_LIST(in[flag]), NULL);
}
static void of_another(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y[] = { tj_exp(in[0]), tj_square(in[0]) };
	(void)self;
	tj_grad(out, y[flag], TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .cotangent = in[1]));
}
static void cotangents(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, tj_exp(in[0]), TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .cotangent = in[flag]));
}
static void unused(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_mul(in[0], in[1])), TJ_LIST(in[1]),
	                    TJ_OPTS(tj_grad_opts, .unused = flag ? TJ_UNUSED_ZEROS : TJ_UNUSED_ERROR));
}
static void tangents(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_jvp(tj_exp(in[0]), TJ_LIST(in[0]), TJ_LIST(in[flag]), TJ_UNUSED_ERROR);
}
static void hooked_by(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], flag ? in[1] : in[0]); }
static void hooks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_exp(tj_grad_hook(in[0], hooked_by, NULL))), TJ_LIST(in[0]), NULL);
}
static void checkpoints(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y;
	tj_checkpoint(&y, 1, flags, TJ_LIST(in[0]), self);
	tj_grad(out, total(y), TJ_LIST(in[0]), NULL);
}

static void audit_finds_impure_bodies(void **s)
{
	(void)s;
	static const struct { const char *name; tj_body *body; const char *why;
	} cases[] = {
		{ "counts", counts, "was 0, is" },
		{ "scales", scales, "was 2, is 3" },
		{ "flags", flags, "was exp" },
		{ "axes", axes, "sum" },
		{ "loops", loops, "event" },
		{ "swaps", swaps, "sub" },
		{ "chooses", chooses, "add" },
		{ "derives", derives, "computed" },
		{ "by_another", by_another, "grad" },
		{ "of_another", of_another, "grad" },
		{ "cotangents", cotangents, "grad" },
		{ "unused", unused, "grad" },
		{ "tangents", tangents, "jvp" },
		{ "hooks", hooks, "mul" },
		{ "checkpoints", checkpoints, "was exp" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = open_audit(3);
		reason[0] = 0;
		counter = flag = 0;
		config.k = 2;
		axis = 0;
		either[0] = tj_param(c, TJ_F32, TJ_SHAPE(2, 2)), either[1] = tj_param(c, TJ_F32, TJ_SHAPE(2, 2));
		tj_fn *f = tj_compile(c, cases[i].body, NULL,
		                      TJ_OPTS(tj_compile_opts, cases[i].name, 2, 1, .mode = TJ_DIRECT, .on_recompile = keep_reason,
		                              .state = TJ_VARS(&either[0], &either[1])));
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 })), *y = tj_mul(x, tj_f(3)), *out;
		for (int k = 0; k < 8; k++) {
			if (k == 2) flag = 1, config.k = 3, axis = 1;
			assert_int_equal(tj_call_ex(f, &out, TJ_LIST(x, y), TJ_SCALARS(TJ_F(1))), TJ_OK);
		}
		kit_ok(c);
		if (strncmp(reason, "impure: ", 8) || !strstr(reason, cases[i].why) || !strstr(reason, "test_direct.c:"))
			fail_msg("%s: \"%s\"", cases[i].name, reason);
		uint64_t before = skipped(f);
		tj_call_ex(f, &out, TJ_LIST(x, y), TJ_SCALARS(TJ_F(1)));
		assert_int_equal(skipped(f), before); /* the function stays in verify mode, and the result is right */
		if (cases[i].body == scales) assert_f32(out, 3, 6, 9, 12);
		tj_close(c);
	}
}

/* ---- the same behind branches: audit covers the tree of a call's plans ---- */
static bool positive(tj_tensor *x) { return tj_truth(tj_gt(tj_sum(x, TJ_ALL, false), tj_f(0))); }
static void late_number(tj_tensor **out, tj_tensor *const *in, void *self) /* a number that changes like a clock */
{
	(void)self;
	out[0] = positive(in[0]) ? tj_add(in[0], tj_f(counter++)) : tj_neg(in[0]);
}
static void late_size(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = positive(in[0]) ? tj_sum(tj_slice(in[0], 0, 0, 1 + flag, 1), TJ_ALL, false) : tj_sum(in[0], TJ_ALL, false);
}
static void flag_in_loop(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; positive(tj_sub(x, tj_f(1))); i++) {
		x = tj_mul(x, tj_f(0.5));
		if (flag && i == 1) x = tj_abs(x);
	}
	out[0] = x;
}
/* The gradient goes through an earlier segment. */
static void late_request(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_mul(tj_exp(in[0]), in[1]);
	(void)self;
	if (positive(y)) tj_grad(out, total(tj_square(y)), TJ_LIST(in[flag]), NULL);
	else out[0] = y;
}
static void late_swap(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *w = either[0];
	if (positive(in[0])) w = either[flag];
	out[0] = tj_add(in[0], w);
}
static void asks_of_another(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(tj_gt(tj_sum(flag ? in[1] : in[0], TJ_ALL, false), tj_f(0))) ? tj_neg(in[0]) : tj_abs(in[0]);
}
static void one_turn_more(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < 2 + flag; i++)
		if (positive(x)) x = tj_add(x, tj_f(1));
	out[0] = x;
}

static void audit_finds_them_behind_branches(void **s)
{
	(void)s;
	static const struct { const char *name; tj_body *body; const char *why; } cases[] = {
		{ "late_number", late_number, "was 0, is" }, { "late_size", late_size, "slice" }, { "flag_in_loop", flag_in_loop, "abs" },
		{ "late_swap", late_swap, "another tensor" }, { "asks_of_another", asks_of_another, "sum" }, { "one_turn_more", one_turn_more, "event" },
		{ "late_request", late_request, "" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tj_ctx *c = open_audit(3);
		reason[0] = 0;
		counter = flag = 0;
		either[0] = tj_param(c, TJ_F32, TJ_SHAPE(2, 2)), either[1] = tj_param(c, TJ_F32, TJ_SHAPE(2, 2));
		tj_fn *f = tj_compile(c, cases[i].body, NULL,
		                      TJ_OPTS(tj_compile_opts, cases[i].name, 2, 1, .mode = TJ_DIRECT, .on_recompile = keep_reason,
		                              .state = TJ_VARS(&either[0], &either[1])));
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 2), ((float[]){ 1, 2, 3, 4 })), *y = tj_mul(x, tj_f(3)), *out;
		for (int k = 0; k < 8; k++) {
			if (k == 2) flag = 1;
			assert_int_equal(tj_call(f, &out, TJ_LIST(x, y)), TJ_OK);
		}
		kit_ok(c);
		if (strncmp(reason, "impure: ", 8) || !strstr(reason, cases[i].why) || !strstr(reason, "test_direct.c:"))
			fail_msg("%s: \"%s\"", cases[i].name, reason);
		uint64_t before = skipped(f);
		tj_call(f, &out, TJ_LIST(x, y));
		assert_int_equal(skipped(f), before); /* back to verify for good */
		kit_ok(c);
		tj_close(c);
	}
}

/* Pure, with trees of plans: each way is followed when it is new, and audited afterwards. */
static void halves_until(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = in[0];
	while (positive(tj_sub(x, tj_f(8)))) x = tj_mul(x, tj_f(0.5));
	out[0] = x;
}
static void draws_on_one_way(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = positive(in[0]) ? tj_add(in[0], tj_uniform(TJ_F32, TJ_SHAPE(2))) : in[0];
}
static void assigns_on_one_way(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	if (positive(in[0])) tj_assign(m->w, tj_add(m->w, in[0]));
	else tj_assign(m->b, tj_sub(m->b, in[0]));
	out[0] = tj_add(m->w, m->b);
}
static void asks_twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *p = tj_gt(tj_sum(in[0], TJ_ALL, false), tj_f(0)), *x = in[0];
	if (tj_truth(p)) x = tj_mul(x, tj_arg_f(0));
	if (tj_truth(p)) x = tj_add(x, tj_f(1));
	out[0] = x;
}

static void audit_leaves_pure_trees_alone(void **s)
{
	(void)s;
	static const struct { const char *name; tj_body *body;
	} cases[] = {
		{ "halves_until", halves_until },
		{ "draws_on_one_way", draws_on_one_way },
		{ "assigns_on_one_way", assigns_on_one_way },
		{ "asks_twice", asks_twice },
	};
	float got[2][4][24][2];
	for (int audit = 0; audit < 2; audit++) {
		tj_ctx *c = open_audit(audit * 2);
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			model m = { tj_param(c, TJ_F32, TJ_SHAPE(2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
			reason[0] = 0;
			tj_fn *f = tj_compile(c, cases[i].body, &m, TJ_OPTS(tj_compile_opts, cases[i].name, 1, 1, .mode = TJ_DIRECT, .on_recompile = keep_reason,
			                                                    .state = TJ_VARS(&m.w, &m.b)));
			for (int k = 0; k < 24; k++) {
				tj_tensor *out;
				assert_int_equal(tj_call_ex(f, &out, TJ_LIST(F32(c, (float)(k % 3 * 40 - 20), 3)), TJ_SCALARS(TJ_F(0.25 * (k % 12)))), TJ_OK);
				memcpy(got[audit][i][k], tj_data(out), sizeof got[audit][i][k]);
			}
			kit_ok(c);
			if (!strncmp(reason, "impure", 6) || !strncmp(reason, "direct", 6)) fail_msg("%s: %s", cases[i].name, reason);
			if (skipped(f) <= 3) fail_msg("%s: %llu skipped; %s", cases[i].name, (unsigned long long)skipped(f), reason);
			assert_true(!audit || kit_stats(f).audits > 3);
		}
		tj_close(c);
	}
	assert_memory_equal(got[0], got[1], sizeof got[0]); /* audit changes nothing */
}

static void audit_leaves_pure_ones_alone(void **s)
{
	(void)s;
	static const struct { const char *name; tj_body *body; int nin, nout;
	} cases[] = {
		{ "plus_one", plus_one, 1, 1 }, { "scale", scale, 2, 3 },   { "draw", draw, 1, 2 },
		{ "branchy", branchy, 2, 2 },   { "linear", linear, 1, 1 }, { "step", step, 1, 1 },
	};
	tj_ctx *c = open_audit(2);
	model m = { tj_param(c, TJ_F32, TJ_SHAPE(4)), tj_param(c, TJ_F32, TJ_SHAPE(4)) };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		reason[0] = 0;
		tj_fn *f = tj_compile(c, cases[i].body, &m,
		                      TJ_OPTS(tj_compile_opts, cases[i].name, cases[i].nin, cases[i].nout, .mode = TJ_DIRECT,
		                              .on_recompile = keep_reason, .state = TJ_VARS(&m.w, &m.b)));
		for (int k = 0; k < 12; k++) {
			tj_tensor *out[3], *x = F32(c, 1, 2, 3, (float)-k), *y = cases[i].body == branchy ? F32(c, (float)(k & 1)) : tj_f(k);
			tj_list in = cases[i].nin == 2 ? TJ_LIST(x, y) : TJ_LIST(x);
			if (cases[i].body == branchy) x = F32(c, 1, 2);
			assert_int_equal(tj_call_ex(f, out, in, TJ_SCALARS(TJ_F(0.1 * k), TJ_I(1))), TJ_OK);
		}
		kit_ok(c);
		if (!strncmp(reason, "impure", 6) || !strncmp(reason, "direct", 6)) fail_msg("%s: %s", cases[i].name, reason);
		assert_true(kit_stats(f).audits > 2);
		assert_true(skipped(f) > 2);
	}
	tj_close(c);
}

/* Values are compared with the evaluator's once for each plan: library nodes are taken as they are. */
static void attend(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	runs++;
	tj_tensor *p = tj_softmax(tj_matmul(in[0], tj_transpose(in[1], 0, 1)), -1);
	out[0] = tj_matmul(p, in[1]);
	out[1] = tj_sum(tj_gelu(out[0]), TJ_AXES(0), false);
}
static void audit_compares_values(void **s)
{
	(void)s;
	tj_ctx *c = open_audit(2);
	float v[35 * 17];
	for (int i = 0; i < 35 * 17; i++) v[i] = (float)(i * 37 % 101) / 50 - 1;
	tj_fn *f = DIRECT(c, attend, NULL, 2, 2, NO_STATE);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(35, 17), v), *out[2];
	for (int i = 0; i < 7; i++) assert_int_equal(tj_call(f, out, TJ_LIST(x, x)), TJ_OK);
	kit_ok(c);
	assert_string_equal(reason, "");
	assert_int_equal(runs, 4);
	tj_close(c);
}

/* ---- wrong code: a back end that adds where it should multiply ---- */
static const lo_backend *right;
static lo_backend wrong;
static const lo_backend *find_wrong(const char *name, const char **why) { return (void)name, (void)why, &wrong; }
static tj_status compile_wrong(lo_compile *job, rt_err *err)
{
	lo_kernel *copy = calloc((size_t)job->nkernel, sizeof *copy);
	const lo_kernel **list = calloc((size_t)job->nkernel, sizeof *list);
	lo_compile other = *job;
	assert_true(copy && list);
	for (int i = 0; i < job->nkernel; i++) {
		copy[i] = *job->kernel[i];
		copy[i].ins.v = malloc(copy[i].ins.n * sizeof *copy[i].ins.v + 1);
		assert_non_null(copy[i].ins.v);
		memcpy(copy[i].ins.v, job->kernel[i]->ins.v, copy[i].ins.n * sizeof *copy[i].ins.v);
		for (uint32_t k = 0; k < copy[i].ins.n; k++)
			if (copy[i].ins.v[k].op == LO_MUL) copy[i].ins.v[k].op = LO_ADD;
		list[i] = &copy[i];
	}
	other.kernel = list;
	tj_status st = right->compile(&other, err);
	other.kernel = job->kernel;
	*job = other;
	for (int i = 0; i < job->nkernel; i++) free(copy[i].ins.v);
	free(copy);
	free(list);
	return st;
}

static void product(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], in[0]); }
static void slope(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, tj_grad(out, total(tj_square(in[0])), TJ_LIST(in[0]), NULL);
}
static void audit_finds_wrong_code(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	if (strcmp(kit_backend, "llvm")) return;
	for (int mode = 0; mode < 5; mode++) { /* verify, direct, op by op; then a gradient in both modes: 2 x */
		tj_ctx *c = open_audit(1);
		right = jit_backend(c->engine);
		wrong = *right;
		wrong.compile = compile_wrong;
		lo_target t = *jit_target(c->engine);
		t.find = find_wrong;
		c->engine->target = &t;
		tj_fn *f = tj_compile(c, mode > 2 ? slope : product, NULL,
		                      TJ_OPTS(tj_compile_opts, "product", 1, 1, .mode = mode % 3 == 1 ? TJ_DIRECT : TJ_VERIFY));
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(7), ((float[]){ 2, 2, 2, 2, 3, 2, 2 })), *y = NULL;
		for (int i = 0; i < 3 && (mode == 2 || i < 1); i++) y = mode == 2 ? tj_mul(x, x) : tj_call1(f, TJ_LIST(x));
		assert_true(tj_is_poison(y));
		kit_error(c, TJ_ERR_COMPILE, "element 4 of ");
		tj_close(c);
	}
}

static void clones(void **s)
{
	(void)s;
	tj_ctx *a = kit_open();
	model m = { tj_param(a, TJ_F32, TJ_SHAPE(2)), tj_param(a, TJ_F32, TJ_SHAPE(2)) };
	tj_fn *f = DIRECT(a, step, &m, 1, 1, &m.w, &m.b);
	tj_ctx *b = kit_clone(a);
	tj_tensor *out;
	for (int i = 1; i <= 6; i++) {
		tj_ctx_use(i % 2 ? a : b);
		tj_ctx *c = i % 2 ? a : b;
		assert_int_equal(tj_call_ex(f, &out, TJ_LIST(F32(c, 1, 2)), TJ_SCALARS(TJ_F(1))), TJ_OK);
		assert_f32(m.w, (float)-i, -2 * (float)i);
		kit_ok(c);
	}
	assert_int_equal(runs, 2); /* each context follows for itself */
	assert_int_equal(kit_stats(f).plans, 1);
	tj_ctx_use(b);
	tj_close(b);
	assert_int_equal(kit_stats(f).calls, 6); /* the counts of a closed context stay */
	tj_ctx_use(a);
	tj_close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(skips),
		cmocka_unit_test(each_key_once),
		cmocka_unit_test(state_is_read_anew),
		cmocka_unit_test(arguments_do_not_alias),
		cmocka_unit_test(cells_commit),
		cmocka_unit_test(numbers_are_run_time_arguments),
		cmocka_unit_test(random_numbers_go_on),
		cmocka_unit_test(truth_is_a_tree),
		cmocka_unit_test(deep_loops_stay_in_verify),
		cmocka_unit_test(nested_calls),
		cmocka_unit_test(frozen_content_is_folded),
		cmocka_unit_test(frozen_weights_are_packed),
		cmocka_unit_test(large_weights_are_packed),
		cmocka_unit_test(faults_change_nothing),
		cmocka_unit_test(capture_is_no_argument),
		cmocka_unit_test(unfit),
		cmocka_unit_test(both_modes_agree),
		cmocka_unit_test(nested_faults),
		cmocka_unit_test(retained_elsewhere),
		cmocka_unit_test(failed_calls_draw_nothing),
		cmocka_unit_test(audit_finds_impure_bodies),
		cmocka_unit_test(audit_finds_them_behind_branches),
		cmocka_unit_test(audit_leaves_pure_trees_alone),
		cmocka_unit_test(audit_leaves_pure_ones_alone),
		cmocka_unit_test(audit_compares_values),
		cmocka_unit_test(audit_finds_wrong_code),
		cmocka_unit_test(clones),
	};
	KIT_RUN(tests);
}
