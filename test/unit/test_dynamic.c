/* SPDX-License-Identifier: MIT */
/* Varying sizes: they share code, give the same values as ops run one by one, and the number of compiles is bounded. */
#include "test/kit.h"

#include <pthread.h>
#include <stdio.h>

static bool llvm(void) { return !strcmp(kit_backend, "llvm"); }

/* Deterministic, so that two tensors of one shape and seed are equal. */
static tj_tensor *filled(tj_ctx *c, int rank, const int64_t *dim, uint32_t seed)
{
	int64_t n = 1, shape[8];
	for (int i = 0; i < rank; i++) n *= shape[i] = dim[i];
	shape[rank] = TJ_END_DIM;
	float *v = malloc((size_t)n * sizeof *v + 1);
	for (int64_t i = 0; i < n; i++) v[i] = (float)((int)((seed = seed * 1664525 + 1013904223) >> 16) % 2001 - 1000) / 500;
	tj_tensor *t = tj_from_data(c, TJ_F32, shape, v);
	free(v);
	return t;
}
#define FILLED(c, seed, ...) filled(c, sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ }, seed)

/* Compares a call with the body run op by op, outside of any compiled function. */
static void same_as_eager(tj_ctx *c, tj_fn *f, tj_body *body, void *self, tj_tensor *const *in)
{
	tj_tensor *want, *got = tj_call1(f, in);
	body(&want, in, self);
	kit_ok(c);
	assert_int_equal(tj_rank(got), tj_rank(want));
	for (int i = 0; i < tj_rank(got); i++) assert_int_equal(tj_dim(got, i), tj_dim(want, i));
	size_t bytes = (size_t)tj_numel(got) * tj_dtype_size(tj_dtype_of(got));
	if (bytes && memcmp(tj_data(got), tj_data(want), bytes)) fail_msg("%s: differs at dim %lld", "dynamic", (long long)tj_dim(in[0], 0));
}

static void mean_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mean(in[0], TJ_AXES(1), false);
}

/* Random shapes up to a number of rows and columns. */
static void means(int most_rows, int most_cols, int count)
{
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "mean", mean_body, NULL, 1, 1);
	uint32_t r = 7;
	for (int i = 0; i < (llvm() ? count : 50); i++) {
		tj_scope *sc = tj_push(c);
		int64_t rows = 2 + (r = r * 1664525 + 1013904223) % (uint32_t)(most_rows - 1),
			cols = 2 + (r = r * 1664525 + 1013904223) % (uint32_t)(most_cols - 1);
		same_as_eager(c, f, mean_body, NULL, TJ_LIST(FILLED(c, r, rows, cols)));
		tj_pop(sc);
	}
	tj_stats n = kit_stats(f);
	assert_int_equal(n.entries, 1);
	if (llvm()) assert_int_equal(n.compiles, 2);
	tj_close(c);
}

static void mean_of_any_length(void **s)
{
	(void)s;
	means(31, 4001, 1000);
	means(999, 999, 100);
}

/* ---- a network over batches ---- */
typedef struct net { tj_tensor *w[4]; } net;
static void net_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const net *n = self;
	tj_tensor *h = tj_relu(tj_add(tj_matmul(in[0], n->w[0]), n->w[1]));
	out[0] = tj_softmax(tj_add(tj_matmul(h, n->w[2]), n->w[3]), -1);
}

static net new_net(tj_ctx *c)
{
	net n = { { tj_retain(FILLED(c, 1, 40, 24)), tj_retain(FILLED(c, 2, 24)), tj_retain(FILLED(c, 3, 24, 10)), tj_retain(FILLED(c, 4, 10)) } };
	return n;
}

static void batches(void **s)
{
	(void)s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 3));
	net n = new_net(c);
	for (int direct = 0; direct < 2; direct++) {
		tj_fn *f = tj_compile(c, net_body, &n,
		                      TJ_OPTS(tj_compile_opts, .name = "net", .nin = 1, .nout = 1, .mode = direct ? TJ_DIRECT : TJ_VERIFY,
		                              .state = TJ_VARS(&n.w[0], &n.w[1], &n.w[2], &n.w[3])));
		for (int turn = 0; turn < 4; turn++)
			for (int b = 1; b <= 64; b++) {
				tj_scope *sc = tj_push(c);
				same_as_eager(c, f, net_body, &n, TJ_LIST(FILLED(c, (uint32_t)(b + turn), b, 40)));
				tj_pop(sc);
			}
		tj_stats t = kit_stats(f);
		if (llvm()) assert_true(t.compiles <= 2);
		assert_int_equal(t.entries, 1);
		assert_int_equal(t.sizes, 64);
		assert_int_equal(t.recordings, 64);
		if (direct) assert_true(t.direct > 64);
		tj_fn_free(f);
	}
	tj_close(c);
}

/* ---- layers whose kernel is another one for many rows than for few: it turns, reads panels, or does not transpose columns beforehand ----
 */
typedef struct layer { tj_tensor *w, *scale; bool transposed, scaled; } layer;
static void layer_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const layer *l = self;
	tj_tensor *w = l->transposed ? tj_transpose(l->w, 0, 1) : l->w;
	out[0] = tj_matmul(in[0], l->scaled ? tj_mul(tj_cast(w, TJ_F32), l->scale) : w);
}

typedef struct layer_case { tj_dtype dtype; int64_t k, columns; bool scaled; } layer_case;

/* 2 to 64 rows, 9 if k is long: rising, falling, mixed. The second number, for which code is made that takes it as an argument, is no size
 * of the weight: that coincidence costs a compile. */
static void sweep_rows(tj_ctx *c, const layer_case *x, bool transposed, bool frozen, int order)
{
	const int64_t k = x->k;
	const int most = k < 1000 ? 64 : 9;
	tj_tensor *w = transposed ? FILLED(c, 1, x->columns, k) : FILLED(c, 1, k, x->columns);
	layer l = { tj_retain(tj_cast(w, x->dtype)), tj_retain(FILLED(c, 2, x->columns)), transposed, x->scaled };
	tj_vars all = TJ_VARS(&l.w, &l.scale);
	tj_fn *f = tj_compile(c, layer_body, &l,
	                      TJ_OPTS(tj_compile_opts, .name = "layer", .nin = 1, .nout = 1, .state = frozen ? NULL : all,
	                              .freeze = frozen ? all : NULL));
	for (int i = 0; i < most - 1; i++) {
		const int64_t rows = 2 + (order == 0 ? i : order == 1 ? most - 2 - i : i * 22 % (most - 1));
		tj_scope *sc = tj_push(c);
		same_as_eager(c, f, layer_body, &l, TJ_LIST(tj_cast(FILLED(c, (uint32_t)i, rows, k), x->scaled ? TJ_F32 : x->dtype)));
		tj_pop(sc);
	}
	const tj_stats t = kit_stats(f);
	if (llvm()) assert_int_equal(t.compiled + t.shared, t.kernels);
	if (llvm() && t.compiles > 2)
		fail_msg("%s, %d columns, transposed %d, scaled %d, frozen %d, order %d: %d compiles", tj_dtype_name(x->dtype),
		         (int)x->columns, transposed, x->scaled, frozen, order, (int)t.compiles);
	tj_fn_free(f);
	tj_release(l.w);
	tj_release(l.scale);
}

static void rows_of_layers(void **s)
{
	(void)s;
	static const layer_case x[] = { { TJ_F32, 301, 1, false },   { TJ_F32, 301, 2, false },   { TJ_F32, 301, 5, false },
		                        { TJ_F32, 301, 10, false },  { TJ_F32, 301, 39, false },  { TJ_F32, 9000, 39, false },
		                        { TJ_F64, 301, 4, false },   { TJ_F64, 301, 20, false },  { TJ_BF16, 301, 4, false },
		                        { TJ_BF16, 301, 33, false }, { TJ_F16, 301, 100, false }, { TJ_I8, 301, 12, false },
		                        { TJ_I8, 301, 16, false },   { TJ_I8, 301, 40, false },   { TJ_I8, 301, 64, true },
		                        { TJ_F32, 301, 64, true } };
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		for (int way = 0; way < 4; way++) {
			tj_scope *sc = tj_push(c);
			sweep_rows(c, &x[i], way & 1, way >> 1, ((int)i + way + 1) % 3);
			tj_pop(sc);
		}
	tj_close(c);
}

/* ---- a transformer block over sequences ---- */
enum { WIDTH = 32, HEADS = 4 };
static tj_tensor *heads(tj_tensor *x, int64_t n) { return tj_transpose(tj_reshape(x, TJ_SHAPE(n, HEADS, WIDTH / HEADS)), 0, 1); }

static void block_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *const *w = self, *x = in[0];
	int64_t n = tj_dim(x, 0);
	tj_tensor *y = tj_layer_norm(x, w[0], w[1], 1e-5);
	tj_tensor *q = heads(tj_matmul(y, w[2]), n), *k = heads(tj_matmul(y, w[3]), n), *v = heads(tj_matmul(y, w[4]), n);
	tj_tensor *a = tj_softmax(tj_mul(tj_matmul(q, tj_transpose(k, -1, -2)), tj_f(0.35)), -1);
	x = tj_add(x, tj_matmul(tj_reshape(tj_transpose(tj_matmul(a, v), 0, 1), TJ_SHAPE(n, WIDTH)), w[5]));
	out[0] = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_layer_norm(x, w[0], w[1], 1e-5), w[6])), w[7]));
}

static void block_of_any_length(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_tensor *w[8] = { FILLED(c, 1, WIDTH), FILLED(c, 2, WIDTH) };
	for (int i = 2; i < 6; i++) w[i] = FILLED(c, (uint32_t)i, WIDTH, WIDTH);
	w[6] = FILLED(c, 6, WIDTH, 4 * WIDTH);
	w[7] = FILLED(c, 7, 4 * WIDTH, WIDTH);
	tj_fn *f = kit_fn(c, "block", block_body, w, 1, 1);
	for (int n = 1; n <= (llvm() ? 512 : 12); n += n > 40 ? 13 : 1) {
		tj_scope *sc = tj_push(c);
		same_as_eager(c, f, block_body, w, TJ_LIST(FILLED(c, (uint32_t)n, n, WIDTH)));
		tj_pop(sc);
	}
	tj_stats t = kit_stats(f);
	assert_int_equal(t.entries, 1);
	if (llvm()) assert_true(t.compiles <= 4);
	tj_close(c);
}

/* ---- zeros and ones, everywhere ---- */
static void mixed_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_add(tj_mul(in[0], in[1]), tj_f(1));
	tj_tensor *y = tj_sum(tj_exp(tj_sub(x, in[1])), TJ_AXES(0), true);
	out[0] = tj_cat(TJ_LIST(tj_transpose(x, 0, 1), tj_transpose(tj_add(y, x), 0, 1)), 1);
}

static void zeros_and_ones(void **s)
{
	(void)s;
	static const int64_t sizes[] = { 3, 1, 0, 5, 2, 17, 1, 33 };
	tj_ctx *c = kit_open();
	for (int mode = TJ_DYNAMIC_AUTO; mode <= TJ_DYNAMIC_ON; mode++) {
		tj_fn *f = tj_compile(c, mixed_body, NULL, TJ_OPTS(tj_compile_opts, .name = "mixed", .nin = 2, .nout = 1, .dynamic = (tj_dynamic)mode));
		for (int i = 0; i < 8; i++)
			for (int j = 0; j < 8; j++)
				for (int one = 0; one < 3; one++) {
					tj_scope *sc = tj_push(c);
					int64_t m = sizes[i], n = sizes[j];
					tj_tensor *b = one == 0 ? FILLED(c, 9, m, n) : one == 1 ? FILLED(c, 9, 1, n) : FILLED(c, 9, m, 1);
					same_as_eager(c, f, mixed_body, NULL, TJ_LIST(FILLED(c, 5, m, n), b));
					tj_pop(sc);
				}
		if (llvm() && mode != TJ_DYNAMIC_OFF) assert_true(kit_stats(f).compiles <= 24);
		tj_fn_free(f);
	}
	tj_close(c);
}

/* ---- what C does with sizes ---- */
static void loop_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = in[1];
	for (int64_t t = 0; t < tj_dim(in[0], 0); t++)
		h = tj_tanh(tj_add(tj_mul(tj_slice(in[0], 0, t, t + 1, 1), tj_f(0.5)), tj_mul(h, tj_f(0.3))));
	out[0] = h;
}

static void loop_over_a_size(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "loop", loop_body, NULL, 2, 1);
	uint64_t after_100 = 0;
	for (int n = 0; n <= (llvm() ? 300 : 20); n++) {
		tj_scope *sc = tj_push(c);
		tj_tensor *x = FILLED(c, 3, n, 8), *h = FILLED(c, 4, 1, 8);
		if (n % 50 < 3) same_as_eager(c, f, loop_body, NULL, TJ_LIST(x, h));
		else tj_call1(f, TJ_LIST(x, h));
		kit_ok(c);
		tj_pop(sc);
		if (n == 100) after_100 = kit_stats(f).compiles;
	}
	if (llvm()) {
		assert_true(after_100 <= 32);
		assert_int_equal(kit_stats(f).compiles, after_100); /* iterations share kernels: no length brings new ones */
	}
	tj_close(c);
}

static void branch_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_dim(in[0], 0) % 2 ? tj_add(in[0], tj_f(1)) : tj_mul(in[0], tj_f(3));
}

static void branch_on_a_size(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, branch_body, NULL, TJ_OPTS(tj_compile_opts, .name = "branch", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	for (int turn = 0; turn < 3; turn++)
		for (int n = 1; n < 40; n++) {
			tj_scope *sc = tj_push(c);
			same_as_eager(c, f, branch_body, NULL, TJ_LIST(FILLED(c, (uint32_t)n, n)));
			tj_pop(sc);
		}
	tj_stats t = kit_stats(f);
	assert_int_equal(t.direct, 2 * 39);
	if (llvm()) assert_true(t.compiles <= 5);
	tj_close(c);
}

/* ---- control flow in the graph ---- */
static void cell_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_tanh(tj_add(in[1], tj_mul(in[0], tj_f(0.5))));
	out[1] = tj_sum(out[0], TJ_AXES(-1), false);
}

static void small(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(tj_amax(in[0], TJ_ALL, false), tj_f(50));
}

static void grow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(1.5)), tj_f(1));
}

static void flow_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *h, *ys, *w, *k;
	tj_scan(&h, &ys, 1, cell_body, TJ_LIST(in[1]), TJ_LIST(in[0]), self, NULL);
	tj_while(&w, small, grow, TJ_LIST(h), self, NULL);
	tj_cond(&k, 1, tj_gt(tj_sum(h, TJ_ALL, false), tj_f(0)), grow, grow, TJ_LIST(w), self);
	out[0] = tj_add(k, tj_mean(ys, TJ_AXES(0, 1), false));
}

static void control_flow_of_any_size(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "flow", flow_body, NULL, 2, 1);
	for (int n = 0; n < (llvm() ? 40 : 6); n++)
		for (int b = 1; b < 12; b += 3) {
			tj_scope *sc = tj_push(c);
			same_as_eager(c, f, flow_body, NULL, TJ_LIST(FILLED(c, 3, n, b, 7), FILLED(c, 4, b, 7)));
			tj_pop(sc);
		}
	assert_int_equal(kit_stats(f).entries, 1);
	if (llvm()) assert_true(kit_stats(f).compiles <= 8);
	tj_close(c);
}

/* ---- ON, .shapes ---- */
static void from_the_start(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	net n = new_net(c);
	for (int named = 0; named < 2; named++) {
		tj_fn *f = tj_compile(c, net_body, &n,
		                      TJ_OPTS(tj_compile_opts, .name = "net", .nin = 1, .nout = 1,
		                              .shapes = named ? "x: f32[B,40]; B in 2.." : NULL,
		                              .dynamic = named ? TJ_DYNAMIC_AUTO : TJ_DYNAMIC_ON));
		for (int b = 7; b < 70; b += 3) {
			tj_scope *sc = tj_push(c);
			same_as_eager(c, f, net_body, &n, TJ_LIST(FILLED(c, (uint32_t)b, b, 40)));
			tj_pop(sc);
		}
		if (llvm()) assert_int_equal(kit_stats(f).compiles, 1);
		assert_int_equal(kit_stats(f).entries, 1);
		tj_fn_free(f);
	}
	tj_close(c);
}

static void sum_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_sum(in[0], TJ_AXES(0), false), tj_sum(in[1], TJ_AXES(0), false));
}

static void refused(tj_ctx *c, tj_fn *f, tj_tensor *x, tj_tensor *y, tj_status code, const char *part)
{
	tj_tensor *out = x;
	assert_int_not_equal(tj_call(f, &out, TJ_LIST(x, y)), TJ_OK);
	assert_ptr_equal(out, x);
	kit_error(c, code, part);
	if (!strstr(tj_last_error(c)->hint, "compiled at test/unit/test_dynamic.c:") || !strstr(tj_last_error(c)->hint, "S%16==0"))
		fail_msg("no spec in the hint \"%s\"", tj_last_error(c)->hint);
}

static void shapes_are_checked(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(
		c, sum_body, NULL,
		TJ_OPTS(tj_compile_opts, .name = "spec", .nin = 2, .nout = 1, .shapes = "x: f32[B,S], y: f32[B,S]; B in 1..8; S%16==0"));
	assert_non_null(f);
	tj_call1(f, TJ_LIST(FILLED(c, 1, 4, 16), FILLED(c, 1, 4, 16)));
	tj_call1(f, TJ_LIST(FILLED(c, 1, 8, 32), FILLED(c, 1, 8, 32)));
	kit_ok(c);
	refused(c, f, FILLED(c, 1, 4, 16), FILLED(c, 1, 5, 16), TJ_ERR_SHAPE, "argument 1 (y): dim 0 is 5, but B is 4 in argument 0 (x), dim 0");
	refused(c, f, FILLED(c, 1, 9, 16), FILLED(c, 1, 9, 16), TJ_ERR_SHAPE, "argument 0 (x): dim 0: B is 9, not in 1..8");
	refused(c, f, FILLED(c, 1, 4, 20), FILLED(c, 1, 4, 20), TJ_ERR_SHAPE, "argument 0 (x): dim 1: S is 20, and 20 % 16 is 4, not 0");
	refused(c, f, FILLED(c, 1, 4), FILLED(c, 1, 4, 16), TJ_ERR_SHAPE, "argument 0 (x) has 1 dimensions, not 2");
	refused(c, f, tj_cast(FILLED(c, 1, 4, 16), TJ_F64), FILLED(c, 1, 4, 16), TJ_ERR_DTYPE, "argument 0 (x) is f64, not f32");
	refused(c, f, tj_f(1), FILLED(c, 1, 4, 16), TJ_ERR_SHAPE, "argument 0 (x) is a number, not a tensor");
	tj_call1(f, TJ_LIST(FILLED(c, 1, 4, 16), FILLED(c, 1, 4, 16)));
	kit_ok(c);
	f = tj_compile(c, sum_body, NULL,
	               TJ_OPTS(tj_compile_opts, .name = "both", .nin = 2, .nout = 1,
	                       .shapes = "x: f32[B,S], y: _; B in 1..8; S%16==0; B in 3..9"));
	assert_non_null(f);
	refused(c, f, FILLED(c, 1, 2, 16), FILLED(c, 1, 2, 16), TJ_ERR_SHAPE, "argument 0 (x): dim 0: B is 2, not in 3..8");
	refused(c, f, FILLED(c, 1, 9, 16), FILLED(c, 1, 9, 16), TJ_ERR_SHAPE, "argument 0 (x): dim 0: B is 9, not in 3..8");
	tj_close(c);
}

static void bad_shapes(void **s)
{
	(void)s;
	static const char *const bad[][2] = {
		{ "", "no arguments" },
		{ "x: f32[B", "] is missing" },
		{ "x: f33[B]", "not a dtype" },
		{ "x: f32[B], y: f32[B], z: _", "more arguments than .nin" },
		{ "x: f32[B]; C in 1..2", "a condition on a name that no argument uses" },
		{ "x: f32[B]; B % 0 == 0", "a divisor must be positive" },
		{ "x: f32[B]; B 3", "in` or % is missing" },
		{ "x: f32[B] y", "not understood" },
		{ "x: f32[,]", "a name is missing" },
		{ "x: f32[B]; B in 1", ".. is missing" },
		{ "x: f32[B]; B % 2", "== is missing" },
		{ "x: f32", "[ is missing" },
		{ "x: f32[99999999999999999999]", "the number is too large at `99999" },
		{ "x: f32[B]; B % 8 == 0; B % 3 == 0", "a second % for the same name at ` 3 == 0" },
		{ "x: f32[B]; B % 8 == 8", "a remainder must be less than its divisor at ` 8" },
		{ "x: f32[B]; B in 5..4", "the range contains no size at ` 5..4" },
		{ "x: f32[B]; B in 1..4; B in 5..8", "the range contains no size at ` 5..8" },
	};
	tj_ctx *c = kit_open();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_null(tj_compile(c, sum_body, NULL, TJ_OPTS(tj_compile_opts, .name = "bad", .nin = 2, .nout = 1, .shapes = bad[i][0])));
		kit_error(c, TJ_ERR_ARG, bad[i][1]);
	}
	tj_close(c);
}

/* ---- what is told ---- */
typedef struct told { int n; char kind[32], text[700], site[64]; int arg, dim; } told;
static void tell(void *self, const tj_reason *r)
{
	told *t = self;
	t->n++;
	t->arg = r->arg;
	t->dim = r->dim;
	snprintf(t->kind, sizeof t->kind, "%s", r->kind);
	snprintf(t->text, sizeof t->text, "%s", r->text);
	snprintf(t->site, sizeof t->site, "%s", r->site);
}

static void one_reason_for_a_size(void **s)
{
	(void)s;
	if (kit_elsewhere()) SKIP("texts name the device");
	told t = { 0 };
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, mean_body, NULL,
	                      TJ_OPTS(tj_compile_opts, .name = "told", .nin = 1, .nout = 1, .on_recompile = tell, .on_recompile_self = &t));
	for (int n = 4; n < 12; n++) tj_call1(f, TJ_LIST(FILLED(c, 1, 3, n)));
	kit_ok(c);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.kind, "size");
	assert_int_equal(t.arg, 0);
	assert_int_equal(t.dim, 1);
	assert_non_null(strstr(t.text, "told: argument 0: dim 1 was 4, is 5 (trace 0)"));
	assert_non_null(strstr(t.text, "f32[3,s0_1]"));
	assert_non_null(strstr(t.site, "test_dynamic.c:"));
	char *text = kit_explain(f);
	assert_non_null(strstr(text, "f32[3,s0_1]; 8 sizes"));
	free(text);
	tj_close(c);
}

static void shapes_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	int64_t b = tj_dim(in[0], 0), s = tj_dim(in[0], 1);
	tj_tensor *x = tj_reshape(in[0], TJ_SHAPE(b * s, 4));
	x = tj_cat(TJ_LIST(x, x, tj_slice(x, 0, 0, 1, 1)), 0);
	out[0] = tj_mul(tj_mean(tj_slice(x, 0, 0, 2 * b * s, 2), TJ_AXES(0), false), tj_sum(in[0], TJ_ALL, false));
}

static void symbols_are_shown(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, shapes_body, NULL, TJ_OPTS(tj_compile_opts, .name = "shown", .nin = 1, .nout = 1, .shapes = "x: f32[B,S,4]"));
	for (int n = 1; n < 9; n++) tj_call1(f, TJ_LIST(FILLED(c, 1, n, 2 * n + 3, 4)));
	kit_ok(c);
	char *text = kit_dump(f, TJ_DUMP_SYMBOLS);
	static const char *const want[] = { "x: f32[B,S,4]", "input f32[B,S,4]", "reshape f32[B*S,4]", "shape=B*S,4", "mean f32[4]" };
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		if (!strstr(text, want[i])) fail_msg("no \"%s\" in\n%s", want[i], text);
	free(text);
	tj_close(c);
}

/* Sizes of an argument that are not symbols: each is a signature of its own. */
static void static_argument(void **s)
{
	(void)s;
	told t = { 0 };
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, sum_body, NULL,
	                      TJ_OPTS(tj_compile_opts, .name = "part", .nin = 2, .nout = 1, .shapes = "x: [N,4], y: static",
	                              .on_recompile = tell, .on_recompile_self = &t));
	for (int n = 2; n < 9; n++) tj_call1(f, TJ_LIST(FILLED(c, 1, n, 4), FILLED(c, 1, 3, 4)));
	assert_int_equal(t.n, 0);
	tj_call1(f, TJ_LIST(FILLED(c, 1, 2, 4), FILLED(c, 1, 5, 4)));
	assert_int_equal(t.n, 1);
	assert_int_equal(t.arg, 1);
	assert_int_equal(kit_stats(f).entries, 2);
	kit_ok(c);
	tj_close(c);
}

/* ---- a body that is not pure ---- */
static int when;
static void time_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_slice(in[0], 0, 0, when, 1);
}

static void audit_finds_a_size_of_the_clock(void **s)
{
	(void)s;
	told t = { 0 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = kit_backend, .audit = 3));
	tj_fn *f = tj_compile(c, time_body, NULL,
	                      TJ_OPTS(tj_compile_opts, .name = "clock", .nin = 1, .nout = 1, .mode = TJ_DIRECT, .on_recompile = tell,
	                              .on_recompile_self = &t));
	when = 2;
	for (int i = 0; i < 12; i++)
		for (int n = 5; n < 8; n++) tj_call1(f, TJ_LIST(FILLED(c, 1, n)));
	assert_int_equal(t.n, 1); /* the size of the argument, once */
	kit_ok(c);
	when = 3;
	for (int i = 0; i < 4; i++) tj_call1(f, TJ_LIST(FILLED(c, 1, 6)));
	assert_true(t.n > 1);
	assert_non_null(strstr(t.text, "clock"));
	tj_check(c);
	tj_close(c);
}

/* ---- threads ---- */
enum { THREADS = 8 };
typedef struct job { tj_ctx *parent; tj_fn *f; const net *n; uint32_t seed; bool bad; } job;

static void *sweep(void *p)
{
	job *j = p;
	tj_ctx *c = kit_clone(j->parent);
	for (int i = 0; i < 60; i++) {
		tj_scope *sc = tj_push(c);
		int64_t b = 1 + (j->seed = j->seed * 1664525 + 1013904223) % 48;
		tj_tensor *x = FILLED(c, (uint32_t)b, b, 40), *want, *got = tj_call1(j->f, TJ_LIST(x));
		net_body(&want, TJ_LIST(x), (void *)(uintptr_t)j->n);
		j->bad |= tj_check(c) != TJ_OK || memcmp(tj_data(got), tj_data(want), (size_t)b * 40) != 0;
		tj_pop(sc);
	}
	j->bad |= tj_check(c) != TJ_OK;
	tj_close(c);
	return NULL;
}

static void threads_share_sizes(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	net n = new_net(c);
	tj_fn *f = kit_fn(c, "net", net_body, &n, 1, 1);
	pthread_t t[THREADS];
	job j[THREADS];
	for (int i = 0; i < THREADS; i++) {
		j[i] = (job){ c, f, &n, (uint32_t)i * 77 + 5, false };
		assert_int_equal(pthread_create(&t[i], NULL, sweep, &j[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL), assert_false(j[i].bad);
	tj_stats k = kit_stats(f);
	assert_true(k.sizes <= 48 && k.recordings >= k.sizes);
	if (llvm()) assert_true(k.compiles <= 4);
	tj_ctx_use(c);
	tj_close(c);
}

static void call_size(tj_ctx *c, tj_fn *f, int n)
{
	tj_scope *sc = tj_push(c);
	same_as_eager(c, f, mean_body, NULL, TJ_LIST(FILLED(c, 1, 3, n)));
	tj_pop(sc);
}

/* More sizes than are kept: the oldest are dropped, their code stays. A size that is called again and again is never the oldest. */
static void sizes_are_evicted(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, mean_body, NULL, TJ_OPTS(tj_compile_opts, .name = "many", .nin = 1, .nout = 1, .max_entries = 1));
	for (int turn = 0; turn < 2; turn++)
		for (int n = 2; n < 60; n++) call_size(c, f, n);
	call_size(c, f, 2);
	for (int n = 3; n < 60; n++) {
		call_size(c, f, n);
		uint64_t recordings = kit_stats(f).recordings;
		call_size(c, f, 2);
		assert_int_equal(kit_stats(f).recordings, recordings);
	}
	tj_stats k = kit_stats(f);
	assert_true(k.evictions > 0 && k.sizes <= 16);
	assert_int_equal(k.entries, 1);
	if (llvm()) assert_int_equal(k.compiles, 2);
	tj_close(c);
}

/* ---- kernels of one plan ---- */
enum { PARTS = 40 };
typedef struct parts { int axis, kind; } parts;
enum { NUMBERS, SLICES, BACKWARDS, RAGGED, CONSTANTS, DROPOUT, ROWS, MANY_NUMBERS, KINDS };

static tj_tensor *part(tj_tensor *x, int kind, int i)
{
	switch (kind) {
	case NUMBERS: return tj_add(tj_slice(x, 0, i, i + 2, 1), tj_f(i % 7 * 0.5));
	case SLICES: return tj_exp(tj_slice(x, 0, i, i + 4, 1));
	case BACKWARDS: return tj_mul(tj_flip(tj_slice(x, 0, 3 * i % 50, 3 * i % 50 + 4, 1), TJ_AXES(0)), tj_f(i));
	case RAGGED: return tj_mul(tj_slice(x, 0, 0, i + 1, 1), tj_f(i));
	case CONSTANTS: return tj_mul(tj_slice(x, 1, i, i + 4, 1), tj_arange(TJ_F32, i + 1, i + 5, 1));
	case DROPOUT: return tj_add(tj_slice(x, 0, i, i + 5, 1), tj_uniform(TJ_F32, TJ_SHAPE(5, 60)));
	case ROWS: return tj_softmax(tj_mul(tj_slice(x, 0, i, i + 3, 1), tj_f(i)), -1);
	default:
		x = tj_slice(x, 0, i, i + 2, 1);
		for (int k = 0; k < 20; k++) x = tj_add(tj_mul(x, tj_f(0.5 + i)), tj_f(k));
		return x;
	}
}

static void parts_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const parts *p = self;
	tj_tensor *v[PARTS + 1];
	for (int i = 0; i < PARTS; i++) v[i] = part(in[0], p->kind, i);
	v[PARTS] = TJ_END;
	out[0] = tj_cat(v, p->axis);
}

/* Operands of one cat that differ only in their offset, their numbers or their sizes share code. */
static void parts_share_code(void **s)
{
	(void)s;
	for (int kind = 0; kind < KINDS; kind++)
		for (int axis = 0; axis < 2; axis++) {
			parts p = { kind == RAGGED ? 0 : kind == CONSTANTS ? 1 : axis, kind };
			tj_ctx *c = kit_open();
			tj_fn *f = kit_fn(c, "parts", parts_body, &p, 1, 1);
			tj_tensor *x = FILLED(c, 5, 60, 60);
			for (int call = 0; call < 3; call++) {
				tj_seed(c, 1);
				tj_tensor *want, *got = tj_call1(f, TJ_LIST(x));
				float first = ((const float *)tj_data(got))[0];
				tj_seed(c, 1);
				parts_body(&want, TJ_LIST(x), &p);
				kit_ok(c);
				size_t bytes = (size_t)tj_numel(got) * sizeof(float);
				if (memcmp(tj_data(got), tj_data(want), bytes)) fail_msg("kind %d, axis %d: differs, first %g", kind, axis, (double)first);
			}
			tj_stats n = kit_stats(f);
			if (llvm() && (n.compiled > 4 || (kind != MANY_NUMBERS && n.kernels < PARTS)))
				fail_msg("kind %d, axis %d: %d kernels, code for %d", kind, axis, (int)n.kernels, (int)n.compiled);
			tj_close(c);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_share_code),
		cmocka_unit_test(mean_of_any_length),
		cmocka_unit_test(batches),
		cmocka_unit_test(rows_of_layers),
		cmocka_unit_test(block_of_any_length),
		cmocka_unit_test(zeros_and_ones),
		cmocka_unit_test(loop_over_a_size),
		cmocka_unit_test(branch_on_a_size),
		cmocka_unit_test(control_flow_of_any_size),
		cmocka_unit_test(from_the_start),
		cmocka_unit_test(shapes_are_checked),
		cmocka_unit_test(bad_shapes),
		cmocka_unit_test(one_reason_for_a_size),
		cmocka_unit_test(symbols_are_shown),
		cmocka_unit_test(static_argument),
		cmocka_unit_test(audit_finds_a_size_of_the_clock),
		cmocka_unit_test(threads_share_sizes),
		cmocka_unit_test(sizes_are_evicted),
	};
	KIT_RUN(tests);
}
