/* SPDX-License-Identifier: MIT */
/* Exported functions: the same bits at all sizes as the function that was traced, without its body and without a compiler; and files that
 * are damaged or made up. */
#include "jit/program.h"
#include "test/kit.h"

#include <elf.h>
#include <math.h>
#include <tjrt.h>
#include <unistd.h>

enum { MOST = 20000 }; /* elements of an argument */
static float numbers[MOST];
static char path[64];
static tj_tensor *w, *b, *w2, *sum; /* what bodies hold */

static int make_path(void **state)
{
	(void)state;
	snprintf(path, sizeof path, "/tmp/tjit-export-%ld.tjx", (long)getpid());
	for (int i = 0; i < MOST; i++) numbers[i] = (float)((i * 37) % 101) / 50 - 1;
	return 0;
}
static int drop_path(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static tj_tensor *param(tj_ctx *c, tj_dims dims, int64_t n)
{
	tj_tensor *t = tj_param(c, TJ_F32, dims);
	tj_write(t, numbers + n, (size_t)n * sizeof *numbers);
	return t;
}

/* ---- bodies ---- */
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t n = tj_dim(in[0], 0);
	tj_tensor *h = tj_relu(tj_add(tj_matmul(in[0], w), b));
	out[0] = tj_softmax(tj_reshape(h, TJ_SHAPE(n * 2, 8)), 1);
	out[1] = tj_mul(tj_sum(h, TJ_ALL, false), tj_f(1.0 / (double)n));
	tj_assign(sum, tj_add(sum, tj_f(1)));
}

static void black_scholes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *s = tj_add(tj_abs(in[0]), tj_f(1)), *k = tj_add(tj_abs(in[1]), tj_f(1)), *r = tj_arg_f(0), *v = tj_arg_f(1);
	tj_tensor *d1 = tj_div(tj_add(tj_log(tj_div(s, k)), tj_add(r, tj_mul(tj_f(0.5), tj_mul(v, v)))), v), *d2 = tj_sub(d1, v);
	tj_tensor *n1 = tj_mul(tj_f(0.5), tj_erfc(tj_mul(d1, tj_f(-0.70710678)))), *n2 = tj_mul(tj_f(0.5), tj_erfc(tj_mul(d2, tj_f(-0.70710678))));
	out[0] = tj_sub(tj_mul(s, n1), tj_mul(tj_mul(k, tj_exp(tj_sub(tj_mul(s, tj_f(0)), r))), n2));
}

static void convolution(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t n = tj_dim(in[0], 0);
	tj_tensor *y = tj_conv2d(in[0], w, NULL, NULL);
	y = tj_max_pool2d(tj_relu(y), TJ_SHAPE(2, 2), NULL);
	out[0] = tj_log_softmax(tj_matmul(tj_reshape(y, TJ_SHAPE(n, -1)), w2), 1);
}

/* One query against a cache that grows. */
static void decode(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t t = tj_dim(in[1], 0);
	tj_tensor *q = tj_reshape(in[0], TJ_SHAPE(2, 1, 8)), *k = tj_permute(tj_reshape(in[1], TJ_SHAPE(t, 2, 8)), TJ_SHAPE(1, 2, 0));
	tj_tensor *v = tj_permute(tj_reshape(in[2], TJ_SHAPE(t, 2, 8)), TJ_SHAPE(1, 0, 2));
	tj_tensor *p = tj_softmax(tj_mul(tj_matmul(q, k), tj_f(1 / sqrt(8.0))), 2);
	out[0] = tj_reshape(tj_matmul(p, v), TJ_SHAPE(16));
	out[1] = tj_cat(TJ_LIST(in[1], tj_reshape(in[0], TJ_SHAPE(1, 16))), 0);
}

static void training(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *g[2], *loss = tj_mean(tj_square(tj_sub(tj_matmul(tj_tanh(tj_matmul(in[0], w)), w2), in[1])), TJ_ALL, false);
	tj_grad(g, loss, TJ_LIST(w, w2), NULL);
	tj_assign(w, tj_sub(w, tj_mul(g[0], tj_f(0.1))));
	tj_assign(w2, tj_sub(w2, tj_mul(g[1], tj_f(0.1))));
	out[0] = loss;
}

static void several(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *index, *most = tj_max_with_indices(in[0], 1, false, &index), *order, *sorted = tj_sort(in[0], 1, false, &order);
	out[0] = tj_add(most, tj_cast(index, TJ_F32));
	out[1] = sorted;
	out[2] = order;
}

static void drawn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], tj_uniform(TJ_F32, TJ_SHAPE(tj_dim(in[0], 0))));
	out[1] = tj_mul(in[1], in[0]);
}

/* All ops with callbacks. */
static void yes(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }
static void no(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], w); }
static void again(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_lt(in[0], tj_f(50)); }
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(1.5)), tj_f(1));
	out[1] = tj_add(in[1], tj_f(1));
}
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *t[1];
	tj_cond(t, 1, tj_gt(tj_sum(in[1], TJ_ALL, false), tj_f(0)), yes, no, TJ_LIST(in[0]), NULL);
	out[0] = tj_tanh(tj_add(t[0], in[1]));
	out[1] = tj_sub(out[0], in[1]);
}
static void example(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sum(tj_mul(in[0], in[0]), TJ_ALL, false); }
static void forward(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_round(in[0]); }
static void backward(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[2], tj_f(3)); }
static void part(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_exp(tj_mul(in[0], w)); }

static void callbacks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *a[2], *carry[1], *ys[1], *v[1], *r[1], *e[1], *g[1];
	tj_while(a, again, turn, TJ_LIST(tj_sum(in[0], TJ_ALL, false), tj_f(0)), NULL, TJ_OPTS(tj_while_opts, .max_turns = 40));
	tj_scan(carry, ys, 1, step, TJ_LIST(w), TJ_LIST(in[0]), NULL, TJ_OPTS(tj_scan_opts, .reverse = true));
	tj_vmap(v, 1, example, TJ_LIST(in[0]), NULL, NULL);
	tj_custom_grad(r, 1, forward, backward, TJ_LIST(in[0]), NULL);
	tj_checkpoint(e, 1, part, TJ_LIST(in[0]), NULL);
	tj_grad(g, tj_add(tj_sum(r[0], TJ_ALL, false), tj_sum(e[0], TJ_ALL, false)), TJ_LIST(in[0]), NULL);
	out[0] = tj_add(tj_add(a[0], a[1]), tj_sum(carry[0], TJ_ALL, false));
	out[1] = ys[0];
	out[2] = tj_add(tj_reshape(v[0], TJ_SHAPE(-1, 1)), g[0]);
}

/* ---- comparing ---- */
typedef struct model {
	const char *name, *shapes;
	tj_body *body;
	int nin, nout;
	int sizes[8];            /* of the symbol, 0: the end */
	int64_t dims[3][4];      /* of arguments; -1: the symbol; 0: no more; a number if [0] is -2 */
	bool scalars;
	int vars;                /* w, b, w2, sum: a bit for each */
} model;

static const model models[] = {
	{ "layer", "x: f32[B,4]; B in 1..40", layer, 1, 2, { 1, 2, 3, 16, 40 }, { { -1, 4 } }, false, 11 },
	{ "black_scholes", "s: f32[N], k: f32[N]; N in 1..2000", black_scholes, 2, 1, { 1, 7, 64, 700 }, { { -1 }, { -1 } }, true, 0 },
	{ "convolution", "x: f32[B,1,8,8]; B in 1..9", convolution, 1, 1, { 1, 2, 9 }, { { -1, 1, 8, 8 } }, false, 16 | 4 },
	{ "decode",
	  "q: f32[16], k: f32[T,16], v: f32[T,16]; T in 1..70",
	  decode,
	  3,
	  2,
	  { 1, 2, 16, 33, 70 },
	  { { 16 }, { -1, 16 }, { -1, 16 } },
	  false,
	  0 },
	{ "training", "x: f32[B,4], y: f32[B,3]; B in 2..6", training, 2, 1, { 2, 5, 6 }, { { -1, 4 }, { -1, 3 } }, false, 32 },
	{ "several", "x: f32[B,9]; B in 1..5", several, 1, 3, { 1, 4, 5 }, { { -1, 9 } }, false, 0 },
	{ "callbacks", "x: f32[T,3]; T in 1..6", callbacks, 1, 3, { 1, 2, 6 }, { { -1, 3 } }, false, 64 },
	{ "drawn", "x: f32[N], _; N in 3..50", drawn, 2, 2, { 3, 50 }, { { -1 }, { -2 } }, false, 0 },
};

/* Variables: layer has w [4,16], b [16] frozen and sum; convolution w [4,1,3,3], w2 [36,5] captured; training w [4,7], w2 [7,3] as state.
 */
static tj_fn *make(tj_ctx *c, const model *m)
{
	tj_compile_opts o = { .size = sizeof o, .name = m->name, .nin = m->nin, .nout = m->nout, .mode = TJ_DIRECT, .shapes = m->shapes };
	tj_tensor **state[4], **freeze[4];
	int n = 0, k = 0;
	if (m->vars == 11) w = param(c, TJ_SHAPE(4, 16), 64), b = param(c, TJ_SHAPE(16), 16), sum = tj_param(c, TJ_F32, TJ_0D);
	if (m->vars == 11) state[n++] = &sum, freeze[k++] = &w, freeze[k++] = &b;
	if (m->vars == (16 | 4)) w = param(c, TJ_SHAPE(4, 1, 3, 3), 36), w2 = param(c, TJ_SHAPE(36, 5), 180);
	if (m->vars == 32) w = param(c, TJ_SHAPE(4, 7), 28), w2 = param(c, TJ_SHAPE(7, 3), 21), state[n++] = &w, state[n++] = &w2;
	if (m->vars == 64) w = param(c, TJ_SHAPE(3), 3);
	state[n] = freeze[k] = TJ_END_VAR;
	o.state = state, o.freeze = freeze;
	return tj_compile(c, m->body, NULL, &o);
}

static uint64_t hash(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)p)[i]) * 1099511628211u;
	return h;
}

/* A number for the bits of all results at one size. */
static uint64_t run(tj_ctx *c, tj_fn *f, const model *m, int size)
{
	tj_scope *s = tj_push(c);
	tj_tensor *in[4], *out[4] = { NULL };
	static char bytes[8 * MOST];
	uint64_t h = 14695981039346656037u;
	for (int i = 0; i < m->nin; i++) {
		int64_t dims[5];
		int r = 0;
		if (m->dims[i][0] == -2) {
			in[i] = tj_f(1.5);
			continue;
		}
		for (; r < 4 && m->dims[i][r]; r++) dims[r] = m->dims[i][r] == -1 ? size : m->dims[i][r];
		dims[r] = TJ_END_DIM;
		in[i] = tj_from_data(c, TJ_F32, dims, numbers + 7 * i);
	}
	in[m->nin] = TJ_END;
	const tj_status st = tj_call_ex(f, out, in, m->scalars ? TJ_SCALARS(TJ_F(0.03), TJ_F(0.2)) : NULL);
	if (st != TJ_OK) {
		const tj_error *e = (tj_check(c), tj_last_error(c));
		fail_msg("%s at %d: %s: %s", m->name, size, e->op, e->message);
	}
	for (int i = 0; i < m->nout; i++) {
		const size_t n = (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i]));
		assert_int_equal(tj_read(out[i], bytes, n), TJ_OK);
		h = hash(h, bytes, n);
	}
	tj_pop(s);
	return h;
}

/* At each size twice: the second call of an imported function is direct. */
static void run_all(tj_ctx *c, tj_fn *f, const model *m, uint64_t *to)
{
	for (int i = 0; m->sizes[i]; i++) to[2 * i] = run(c, f, m, m->sizes[i]), to[2 * i + 1] = run(c, f, m, m->sizes[i]);
}

static void compare(const model *m, const char *backend)
{
	uint64_t want[16] = { 0 }, got[16] = { 0 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval", .seed = 5));
	tj_fn *f = make(c, m);
	const bool declared = m->dims[1][0] != -2; /* .shapes says all of its arguments: it need not have been called */
	tj_status st = tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "", .scalars = m->scalars ? TJ_SCALARS(TJ_F(1), TJ_F(1)) : NULL));
	assert_true((st == TJ_OK) == declared);
	if (!declared) kit_error(c, TJ_ERR_STATE, "never called");
	else kit_ok(c);
	tj_seed(c, 5);
	run_all(c, f, m, want);
	tj_tensor *kept[2] = { w, w2 };
	(void)kept;
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .seed = 5));
	f = make(c, m);
	run(c, f, m, m->sizes[0]);
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .seed = 5));
	f = make(c, m); /* its state is as at the beginning */
	tj_scope *s = tj_push(c);
	tj_tensor *in[4];
	for (int i = 0; i < m->nin; i++) {
		int64_t dims[5];
		int r = 0;
		for (; m->dims[i][0] != -2 && r < 4 && m->dims[i][r]; r++) dims[r] = m->dims[i][r] == -1 ? m->sizes[0] : m->dims[i][r];
		dims[r] = TJ_END_DIM;
		in[i] = m->dims[i][0] == -2 ? tj_f(1) : tj_from_data(c, TJ_F32, dims, numbers);
	}
	in[m->nin] = TJ_END;
	tj_export(f, path,
	          TJ_OPTS(tj_export_opts, .inputs = in, .cpus = SANITIZED ? "native" : NULL,
	                  .scalars = m->scalars ? TJ_SCALARS(TJ_F(1), TJ_F(1)) : NULL));
	if (tj_check(c)) fail_msg("%s: %s: %s", m->name, tj_last_error(c)->message, tj_last_error(c)->hint);
	tj_pop(s);
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = backend, .seed = 5));
	f = tj_import(c, path, NULL);
	if (!f) fail_msg("%s: %s", m->name, (tj_check(c), tj_last_error(c)->message));
	run_all(c, f, m, got);
	tj_stats stats = kit_stats(f);
	assert_int_equal(stats.compiled, 0);
	if (!strcmp(backend, "llvm")) assert_int_equal(stats.loaded + stats.shared, stats.kernels); /* equal kernels of a plan share code */
	assert_true(stats.direct > 0);
	for (int i = 0; i < 16; i++)
		if (want[i] != got[i]) fail_msg("%s, %s, size %d: other bits", m->name, backend, m->sizes[i / 2]);
	tj_close(c);
}

static void test_models(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(models); i++) {
		compare(&models[i], "llvm");
		compare(&models[i], "eval");
	}
}

/* A CPU takes the widest code that it runs. */
static void test_widths(void **state)
{
	(void)state;
	static const char *const width[] = { "256", "512" };
	for (int i = 0; i < 2; i++) {
		setenv("TJ_CPU", width[i], 1);
		compare(&models[0], "llvm");
		compare(&models[3], "llvm");
	}
	unsetenv("TJ_CPU");
}

/* ---- variables ---- */
static void test_variables(void **state)
{
	(void)state;
	const model *m = &models[0];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_fn *f = make(c, m);
	run(c, f, m, 2);
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "", .names = (const char *[]){ "calls", "w", NULL })), TJ_OK);
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	f = tj_import(c, path, NULL);
	kit_ok(c);
	const char *name;
	tj_tensor *cell;
	bool weight;
	float v[64];
	assert_true(tj_fn_variable(f, 0, &name, &cell, &weight));
	assert_string_equal(name, "calls");
	assert_false(weight);
	run(c, f, m, 3);
	run(c, f, m, 3);
	tj_read(cell, v, 4);
	assert_true(v[0] == 3); /* one before the export */
	assert_true(tj_fn_variable(f, 1, &name, &cell, &weight));
	assert_string_equal(name, "w");
	assert_true(weight);
	tj_read(cell, v, sizeof v);
	assert_memory_equal(v, numbers + 64, sizeof v);
	const uint64_t before = run(c, f, m, 3);
	v[0] += 1;
	tj_write(cell, v, sizeof v);
	assert_true(run(c, f, m, 3) != before);
	assert_true(tj_fn_variable(f, 2, &name, &cell, &weight));
	assert_string_equal(name, "state2"); /* the list of names was shorter */
	assert_false(tj_fn_variable(f, 3, &name, &cell, &weight));
	assert_false(tj_fn_variable(NULL, 0, &name, &cell, &weight));
	tj_fn_free(f);
	kit_ok(c);
	tj_close(c);
}

static void test_arguments(void **state)
{
	(void)state;
	const model *m = &models[1]; /* black_scholes */
	const char *type = NULL;
	tj_scalar s;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_fn *f = make(c, m);
	run(c, f, m, 2);
	assert_int_equal(tj_fn_results(f), -1); /* it was not imported */
	assert_false(tj_fn_argument(f, 0, &type) || tj_fn_scalar(f, 0, &s));
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "", .scalars = TJ_SCALARS(TJ_F(1), TJ_F(1)))), TJ_OK);
	f = tj_import(c, path, NULL);
	kit_ok(c);
	assert_int_equal(tj_fn_results(f), 1);
	assert_true(tj_fn_argument(f, 1, &type) && tj_fn_argument(f, 1, NULL));
	assert_string_equal(type, "f32[N]");
	assert_false(tj_fn_argument(f, 2, &type) || tj_fn_argument(f, -1, &type) || tj_fn_argument(NULL, 0, &type));
	assert_true(tj_fn_scalar(f, 1, &s) && tj_fn_scalar(f, 1, NULL));
	assert_int_equal(s.kind, TJ_SCALAR_F);
	assert_false(tj_fn_scalar(f, 2, &s) || tj_fn_scalar(f, -1, &s) || tj_fn_scalar(NULL, 0, &s));
	assert_int_equal(tj_fn_results(NULL), -1);
	tj_close(c);
}

static void by_int(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f((double)tj_arg_i(0)));
}

/* The events are those of one value. */
static void test_ints(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_tensor *out[2], *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2), numbers);
	tj_fn *f = tj_compile(c, by_int, NULL, TJ_OPTS(tj_compile_opts, .name = "by_int", .nin = 1, .nout = 1, .mode = TJ_DIRECT));
	assert_int_equal(tj_call_ex(f, out, TJ_LIST(x), TJ_SCALARS(TJ_I(7))), TJ_OK);
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "", .scalars = TJ_SCALARS(TJ_I(7)))), TJ_OK);
	f = tj_import(c, path, NULL);
	for (int turn = 0; turn < 3; turn++) {
		assert_int_equal(tj_call_ex(f, out, TJ_LIST(x), TJ_SCALARS(TJ_I(7))), TJ_OK);
		float v[2];
		tj_read(out[0], v, sizeof v);
		assert_true(v[1] == numbers[1] * 7);
		assert_int_equal(tj_call_ex(f, out, TJ_LIST(x), TJ_SCALARS(TJ_I(8))), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "scalar 0 was the int 7 when it was exported, and is another one");
		assert_int_equal(tj_call_ex(f, out, TJ_LIST(x), TJ_SCALARS(TJ_F(7))), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "is a float");
		assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "is missing");
	}
	tj_close(c);
}

/* ---- refusals ---- */
static void looks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_truth(tj_sum(in[0], TJ_ALL, false)) ? in[0] : tj_neg(in[0]);
}

static int odd_rows;
static void by_size(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_dim(in[0], 0) == odd_rows ? tj_neg(in[0]) : in[0];
	out[0] = tj_add(out[0], tj_f(1));
}

static void strange(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	const int64_t n = tj_dim(in[0], 0);
	out[0] = tj_slice(tj_cat(TJ_LIST(in[0], in[0]), 0), 0, 0, n * n % 7 % n + 1, 1);
}

static void refused(tj_body *body, tj_status code, const char *part)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .shapes = "x: f32[N]; N in 1..30"));
	unlink(path);
	const tj_status st =
		tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "", .inputs = TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2), numbers))));
	assert_int_equal(st, code);
	kit_error(c, code, part);
	assert_int_equal(access(path, F_OK), -1);
	tj_close(c);
}

static void test_refused(void **state)
{
	(void)state;
	refused(looks, TJ_ERR_STATE, "needs a value in C");
	odd_rows = 17;
	refused(by_size, TJ_ERR_SHAPE, "at other sizes");
	refused(strange, TJ_ERR_SHAPE, "in a way that cannot be exported");
}

static void test_calls(void **state)
{
	(void)state;
	const model *m = &models[0];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
	tj_fn *f = make(c, m);
	run(c, f, m, 2);
	assert_int_equal(tj_export(f, "/nowhere/at/all.tjx", TJ_OPTS(tj_export_opts, .cpus = "")), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere/at/all.tjx");
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "sparc")), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "sparc");
	assert_int_equal(tj_export(NULL, path, NULL), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "NULL");
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "")), TJ_OK);
	assert_null(tj_import(c, path, NULL)); /* no code at all */
	kit_error(c, TJ_ERR_COMPILE, "has code for: none");
	f = tj_import(c, path, TJ_OPTS(tj_import_opts, .recompile = true, .name = "again"));
	kit_ok(c);
	run(c, f, m, 7);
	tj_tensor *out[2] = { NULL };
	assert_int_not_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(41, 4), numbers))), TJ_OK);
	kit_error(c, TJ_ERR_SHAPE, "41");
	assert_int_not_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 4), numbers))), TJ_OK);
	assert_int_not_equal(tj_check(c), TJ_OK);
	assert_null(tj_import(c, "/nowhere.tjx", NULL));
	kit_error(c, TJ_ERR_IO, "/nowhere.tjx");
	assert_null(tj_import(c, "/tmp", NULL));
	kit_error(c, TJ_ERR_IO, "no file");
	assert_null(tj_import(c, "/dev/zero", NULL));
	assert_int_not_equal(tj_check(c), TJ_OK);
	tj_close(c);
}

/* ---- object files ---- */
static void export_model(const model *m, const char *cpus)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = *cpus ? "llvm" : "eval"));
	tj_fn *f = make(c, m);
	run(c, f, m, m->sizes[0]);
	tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = cpus, .scalars = m->scalars ? TJ_SCALARS(TJ_F(1), TJ_F(1)) : NULL));
	kit_ok(c);
	tj_close(c);
}


static rt_span section_of(const unsigned char *file, const char *name)
{
	const Elf64_Ehdr *h = (const void *)file;
	const Elf64_Shdr *s = (const void *)(file + h->e_shoff);
	for (int i = 0; i < h->e_shnum; i++)
		if (!strcmp((const char *)file + s[h->e_shstrndx].sh_offset + s[i].sh_name, name))
			return (rt_span){ file + s[i].sh_offset, s[i].sh_size };
	fail_msg("no section %s", name);
	return (rt_span){ NULL, 0 };
}

/* Runs the object at one size, as the functions of its header do, beside the imported function in the evaluator. */
static void run_object(tj_ctx *c, tj_fn *f, const model *m, const void *data, const unsigned char *code, int size, int64_t misplaced)
{
	static char room[1 << 20], got[12][8 * MOST / 4 + 64], want[8 * MOST];
	static float state[8][1000];
	tj_scope *s = tj_push(c);
	tj_tensor *in[4], *out[4], *cell[8];
	const void *from[12];
	void *to[12];
	uint64_t number[4];
	int nin = 0, nnum = 0, ncell = 0;
	const double d[] = { 1.5, 0.03, 0.2 };
	for (int i = 0; i < m->nin; i++) {
		int64_t dims[5];
		int r = 0;
		for (; m->dims[i][0] != -2 && r < 4 && m->dims[i][r]; r++) dims[r] = m->dims[i][r] == -1 ? size : m->dims[i][r];
		dims[r] = TJ_END_DIM;
		if (m->dims[i][0] == -2) memcpy(&number[nnum++], &d[0], 8);
		else from[nin++] = numbers + 7 * i;
		in[i] = m->dims[i][0] == -2 ? tj_f(d[0]) : tj_from_data(c, TJ_F32, dims, numbers + 7 * i);
	}
	in[m->nin] = TJ_END;
	for (int i = 0; m->scalars && i < 2; i++) memcpy(&number[nnum++], &d[1 + i], 8);
	tj_tensor *t;
	bool weight;
	for (int i = 0; tj_fn_variable(f, i, NULL, &t, &weight); i++) {
		if (weight) continue;
		cell[ncell] = t;
		assert_int_equal(tj_read(t, state[ncell], (size_t)tj_numel(t) * 4), TJ_OK);
		from[nin++] = state[ncell++];
	}
	for (int i = 0; i < 12; i++) to[i] = got[i] + (64 - (uintptr_t)got[i] % 64) % 64 + misplaced;
	const int64_t sizes[] = { size };
	assert_true(tjrt_workspace_bytes(data, sizes) > 0 && tjrt_workspace_bytes(data, sizes) <= sizeof room);
	assert_int_equal(tjrt_run(data, code, sizes, from, number, to, room), TJRT_OK);
	assert_int_equal(tj_call_ex(f, out, in, m->scalars ? TJ_SCALARS(TJ_F(d[1]), TJ_F(d[2])) : NULL), TJ_OK);
	for (int i = 0; i < m->nout + ncell; i++) {
		t = i < m->nout ? out[i] : cell[i - m->nout];
		const size_t n = (size_t)tj_numel(t) * tj_dtype_size(tj_dtype_of(t));
		tj_read(t, want, n);
		if (memcmp(want, to[i], n) != 0) fail_msg("%s as an object, size %d, result %d: other bits", m->name, size, i);
	}
	tj_pop(s);
}

static void test_objects(void **state)
{
	(void)state;
	char object[80];
	snprintf(object, sizeof object, "%s.o", path);
	for (size_t i = 0; i < 5; i++) {
		const model *m = &models[i];
		size_t n;
		rt_err err = { 0 };
		export_model(m, "x86-64-v3,x86-64-v4");
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
		tj_export_object(c, path, object, TJ_OPTS(tj_object_opts, .name = "model"));
		if (tj_check(c)) fail_msg("%s: %s", m->name, tj_last_error(c)->message);
		unsigned char *file = jit_read_file(object, &n, &err);
		assert_non_null(file);
		rt_blob blob = { .code = section_of(file, ".text").at, .bytes = section_of(file, ".text").bytes };
		const rt_span data = section_of(file, ".rodata");
		rt_entry entry;
		rt_shared *code = rt_code_map(1, &blob, &entry, &err);
		assert_non_null(code);
		tj_fn *f = tj_import(c, path, NULL);
		for (int k = 0; m->sizes[k]; k++) run_object(c, f, m, data.at, blob.code, m->sizes[k], k % 2 ? 4 : 0);
		rt_shared_unref(code);
		rt_free(file);
		tj_close(c);
	}
	unlink(object);
}

static void no_object(const model *m, const char *part)
{
	export_model(m, "x86-64-v3");
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	assert_int_not_equal(tj_export_object(c, path, "/tmp/never.o", TJ_OPTS(tj_object_opts, .name = "model")), TJ_OK);
	const tj_error *e = (tj_check(c), tj_last_error(c));
	if (!strstr(e->message, part)) fail_msg("\"%s\" is not in \"%s\"", part, e->message);
	assert_int_equal(access("/tmp/never.o", F_OK), -1);
	assert_int_equal(tj_export_object(c, path, "/tmp/never.o", TJ_OPTS(tj_object_opts, .name = "2 models")), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "no name in C");
	tj_close(c);
}

static void test_no_objects(void **state)
{
	(void)state;
	no_object(&models[5], "is no kernel");          /* it sorts */
	no_object(&models[RT_COUNT(models) - 1], "random"); /* it draws */
}

/* ---- files that are damaged or made up ---- */
static unsigned char *read_path(size_t *n)
{
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	unsigned char *bytes = malloc(1 << 20);
	*n = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

static bool list(void *env, const tj_export_part *p)
{
	char *to = env;
	const size_t n = strlen(to);
	if (!strcmp(p->kind, "file")) {
		assert_string_equal(p->name, TJ_VERSION);
		assert_int_equal(strlen(p->text), 32);
		assert_true(p->count == 1 && p->bytes > 112);
		return true;
	}
	const bool program = !strcmp(p->kind, "program");
	snprintf(to + n, 1000 - n, "%s %s %s %llu %llu\n", p->kind, p->name, program ? "" : p->text, (unsigned long long)p->count,
	         (unsigned long long)p->bytes);
	if (program) assert_non_null(strstr(p->text, "\nreturn"));
	return true;
}

static bool first(void *env, const tj_export_part *p) { return (void)p, ++*(int *)env < 2; }

static void test_contents(void **state)
{
	(void)state;
	char all[1000] = "", scalars[1000] = "";
	int n = 0;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	export_model(&models[0], "");
	assert_int_equal(tj_export_walk(c, path, list, all), TJ_OK);
	assert_string_equal(all, "function layer  2 0\nsize B 1..40 0 0\nargument 0 f32[B,4] 0 0\nresult 0 f32[2*B,8] 0 0\n"
	                         "result 1 f32[] 0 0\nstate state0 f32[] 0 4\n"
	                         "weight state1 f32[4,16] 0 256\nweight state2 f32[16] 0 64\nprogram   9 0\n");
	assert_int_equal(tj_export_walk(c, path, first, &n), TJ_OK);
	assert_int_equal(n, 2);
	export_model(&models[1], "");
	assert_int_equal(tj_export_walk(c, path, list, scalars), TJ_OK);
	assert_non_null(strstr(scalars, "\nscalar 1 float 0 0\n"));
	kit_ok(c);
	assert_int_equal(tj_export_walk(c, "/nowhere.tjx", list, all), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "/nowhere.tjx");
	assert_int_equal(tj_export_walk(c, path, NULL, all), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "visit is NULL");
	assert_int_equal(tj_export_walk(c, NULL, list, all), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "path is NULL");
	assert_int_equal(tj_export_walk(c, "/tmp", list, all), TJ_ERR_IO);
	kit_error(c, TJ_ERR_IO, "is no file");
	tj_close(c);
}

/* The file of a program's text. */
static unsigned char *pack_of(const char *text, const jit_pack *k, size_t *n)
{
	return jit_pack_write((rt_span){ text, strlen(text) }, k->data, 0, NULL, NULL, n);
}

static void halves(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *even = tj_slice(in[0], 0, 0, INT64_MAX, 2), *third = tj_slice(in[0], 0, 0, INT64_MAX, 3);
	out[0] = even, out[1] = tj_cat(TJ_LIST(even, third), 0), out[2] = tj_f(0.5), out[3] = tj_i(tj_dim(in[0], 0));
	out[4] = tj_full(TJ_F64, TJ_SHAPE(tj_dim(in[0], 0) + 2, 3), tj_i(1)), out[5] = tj_lt(tj_sum(in[0], TJ_ALL, false), tj_f(7));
}

/* Types of results, also a size that no expression gives; files without them; files that lie. */
static void test_results(void **state)
{
	(void)state;
	char all[1000] = "", old[1000] = "", *lie;
	size_t n;
	jit_pack k;
	rt_err err = { 0 };
	tj_tensor *out[6], *in[] = { NULL, TJ_END };
	float got[2][5];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_fn *f = tj_compile(c, halves, NULL, TJ_OPTS(tj_compile_opts, .name = "halves", .nin = 1, .nout = 6, .mode = TJ_DIRECT,
	                                               .shapes = "x: f32[B]; B in 1..9"));
	in[0] = tj_from_data(c, TJ_F32, TJ_SHAPE(4), numbers);
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .inputs = in, .cpus = "")), TJ_OK);
	assert_int_equal(tj_export_walk(c, path, list, all), TJ_OK);
	assert_non_null(strstr(all, "\nresult 0 f32[B+1/2] 0 0\nresult 1 f32[_] 0 0\nresult 2 float 0 0\nresult 3 int 0 0\n"
	                            "result 4 f64[B+2,3] 0 0\nresult 5 bool[] 0 0\n"));
	unsigned char *bytes = read_path(&n), *made;
	assert_true(jit_pack_read(bytes, n, &k, &err));
	char *text = strdup(k.text.at), *to = text;
	for (const char *line = k.text.at; *line; line = strchr(line, '\n') + 1) /* as version 1.0 */
		if (!strncmp(line, "program 1.1\n", 12)) to += sprintf(to, "program 1.0\n");
		else if (strncmp(line, "result ", 7) != 0) to += sprintf(to, "%.*s\n", (int)strcspn(line, "\n"), line);
	made = pack_of(text, &k, &n);
	assert_true(jit_walk_pack(made, n, list, old, &err));
	assert_true(!strstr(old, "result") && strstr(old, "function halves  6 0\n"));
	tj_fn *g[] = { tj_import_memory(c, made, n, NULL), tj_import(c, path, NULL) };
	for (int i = 0; i < 2; i++) {
		assert_true(g[i] && tj_call(g[i], out, in) == TJ_OK && tj_dim(out[4], 0) == 6);
		assert_int_equal(tj_read(out[1], got[i], 4 * sizeof(float)), TJ_OK);
	}
	assert_memory_equal(got[0], got[1], 4 * sizeof(float));
	rt_free(made);
	kit_ok(c);
	static const char *const lies[][2] = { { "result 0 f32[B+1/2]", "result 0 f32[B+2/2]" }, { "result 0 f32", "result 0 i32" },
		                               { "result 3 int", "result 3 i64[]" }, { "result 5 bool[]", "result 5 float" },
		                               { "f64[B+2,3]", "f64[B+2]  " } };
	for (size_t i = 0; i < RT_COUNT(lies); i++) {
		strcpy(text, k.text.at);
		assert_non_null(lie = strstr(text, lies[i][0]));
		char *rest = strdup(lie + strlen(lies[i][0]));
		text = realloc(text, k.text.bytes + 100);
		sprintf(strstr(text, lies[i][0]), "%s%s", lies[i][1], rest);
		free(rest);
		made = pack_of(text, &k, &n);
		tj_fn *h = tj_import_memory(c, made, n, NULL);
		assert_true(h && tj_call(h, out, in) == TJ_ERR_STATE);
		kit_error(c, TJ_ERR_STATE, "has another type than the file says");
		rt_free(made);
	}
	free(text);
	free(bytes);
	tj_close(c);
}

static bool never(void *env, const tj_export_part *p)
{
	(void)env;
	fail_msg("%s of a damaged file", p->kind);
	return false;
}
static bool touch(void *env, const tj_export_part *p)
{
	*(size_t *)env += strlen(p->kind) + strlen(p->name) + strlen(p->text);
	return true;
}

static void test_damage(void **state)
{
	(void)state;
	size_t n;
	export_model(&models[0], "");
	unsigned char *bytes = read_path(&n);
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	for (size_t i = 0; i < n; i++) {
		rt_err err = { 0 }, cut = { 0 };
		bytes[i] ^= 1;
		assert_null(tj_import_memory(c, bytes, n, NULL));
		assert_false(jit_walk_pack(bytes, n, never, NULL, &err));
		assert_false(jit_walk_pack(bytes, i, never, NULL, &cut));
		assert_int_equal(err.code, TJ_ERR_PARSE);
		assert_int_equal(cut.code, TJ_ERR_PARSE);
		bytes[i] ^= 1;
		assert_null(tj_import_memory(c, bytes, i, NULL));
	}
	assert_int_not_equal(tj_check(c), TJ_OK);
	assert_non_null(tj_import_memory(c, bytes, n, NULL));
	kit_ok(c);
	free(bytes);
	tj_close(c);
}

static uint64_t next(uint64_t *x) { return *x = *x * 6364136223846793005u + 1442695040888963407u; }

/* Changes words of a program's text: numbers, names, marks; or swaps lines. */
static size_t mutate(char *to, const char *text, size_t n, uint64_t *seed)
{
	static const char *const word[] = { "0",       "1",      "-1",       "99999999999", "matmul",    "add",
		                            "grad",    "get",    "assign",   "reshape",     "a0",        "v0",
		                            "n0",      "5",      "B",        "B*B",         "f32[0]",    "9223372036854775807",
		                            ":",       "/",      "\n",       "jvp",         "sort",      "cat",
		                            "uniform", "gather", "callback", "yield",       "parameter", "cond",
		                            "scan",    "vmap",   "result",    "_",           "float" };
	memcpy(to, text, n + 1);
	for (int times = 1 + (int)(next(seed) >> 62); times--;) {
		const size_t at = (size_t)(next(seed) >> 33) % n, len = strcspn(to + at, " \n");
		const char *w_ = word[(next(seed) >> 33) % (sizeof word / sizeof *word)];
		size_t begin = at;
		while (begin && to[begin - 1] != ' ' && to[begin - 1] != '\n') begin--;
		const size_t old = at + len - begin, m = strlen(w_);
		memmove(to + begin + m, to + begin + old, n - begin - old + 1);
		memcpy(to + begin, w_, m);
		n = n + m - old;
	}
	return n;
}

/* What parses is imported and called: events that do not fit are errors, never anything worse. */
static void test_made_up(void **state)
{
	(void)state;
	const int rounds = getenv("TEST_SAMPLE") ? 1500 : 60000;
	uint64_t seed = 3;
	int parsed = 0, imported = 0, ran = 0;
	for (size_t i = 0; i < RT_COUNT(models); i++) {
		const model *m = &models[i];
		size_t n;
		jit_pack k;
		rt_err err = { 0 };
		export_model(m, "");
		unsigned char *bytes = read_path(&n);
		assert_true(jit_pack_read(bytes, n, &k, &err));
		char *text = malloc(k.text.bytes + 200);
		for (int r = 0; r < rounds; r++) {
			const size_t len = mutate(text, k.text.at, k.text.bytes, &seed);
			rt_err wrong = { 0 };
			jit_program *p = jit_program_parse(text, len, k.data.bytes, &wrong);
			if (!p) {
				assert_int_not_equal(wrong.code, TJ_OK);
				continue;
			}
			parsed++;
			jit_program_free(p);
			size_t whole;
			unsigned char *pack = jit_pack_write((rt_span){ text, len }, k.data, 0, NULL, NULL, &whole);
			size_t letters = 0;
			assert_true(jit_walk_pack(pack, whole, touch, &letters, &wrong) && letters > 0);
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
			tj_fn *f = tj_import_memory(c, pack, whole, NULL);
			tj_tensor *out[8] = { NULL }, *in[8];
			for (int a = 0; f && a < 4; a++) in[a] = tj_from_data(c, TJ_F32, TJ_SHAPE(4, 4), numbers);
			for (int a = 0; f && a < m->nin && m->dims[a][0]; a++) {
				int64_t dims[5];
				int d = 0;
				for (; m->dims[a][0] != -2 && d < 4 && m->dims[a][d]; d++) dims[d] = m->dims[a][d] == -1 ? m->sizes[1] : m->dims[a][d];
				dims[d] = TJ_END_DIM;
				in[a] = m->dims[a][0] == -2 ? tj_f(1) : tj_from_data(c, TJ_F32, dims, numbers);
			}
			in[m->nin] = TJ_END;
			imported += f != NULL;
			ran += f && tj_call_ex(f, out, in, m->scalars ? TJ_SCALARS(TJ_F(1), TJ_F(1)) : NULL) == TJ_OK;
			tj_check(c);
			tj_close(c);
			rt_free(pack);
		}
		free(text);
		free(bytes);
	}
	fprintf(stderr, "%d of %d made-up programs parsed, %d imported, %d ran\n", parsed, rounds * (int)RT_COUNT(models), imported, ran);
	assert_true(parsed && imported && ran);
}

/* A constant that the body makes is gone with the call in which it was seen; the file has its content. Equal ones are one variable. */
static void made_in_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	static float v[2000]; /* too large to be folded */
	(void)self;
	for (int i = 0; i < 2000; i++) v[i] = (float)i;
	tj_tensor *k = tj_constant(tj_ctx_current(), TJ_F32, TJ_SHAPE(2000), v), *l = tj_constant(tj_ctx_current(), TJ_F32, TJ_SHAPE(2000), v);
	out[0] = tj_add(tj_mul(in[0], k), l);
}

static void test_constants(void **state)
{
	(void)state;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
	tj_fn *f = tj_compile(c, made_in_body, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .shapes = "x: f32[2000]"));
	assert_int_equal(tj_export(f, path, TJ_OPTS(tj_export_opts, .cpus = "")), TJ_OK);
	kit_ok(c);
	tj_fn *g = tj_import(c, path, NULL);
	kit_ok(c);
	const char *name;
	assert_true(tj_fn_variable(g, 0, &name, NULL, NULL));
	assert_string_equal(name, "captured0");
	tj_tensor *x = tj_full(TJ_F32, TJ_SHAPE(2000), tj_f(2)), *y = tj_call1(g, TJ_LIST(x));
	assert_true(((const float *)tj_data(y))[1999] == 3 * 1999);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_models, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_widths, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_variables, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_arguments, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_refused, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_calls, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_ints, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_contents, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_results, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_damage, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_made_up, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_objects, make_path, drop_path),
		cmocka_unit_test_setup_teardown(test_no_objects, make_path, drop_path),
		cmocka_unit_test(test_constants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
