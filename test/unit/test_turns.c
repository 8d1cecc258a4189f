/* SPDX-License-Identifier: MIT */
/* Gradients of tj_while() with .max_turns: against the same program with its turns written out, against finite differences, for batches, on
 * another device, and what is refused. */
#include "test/gen.h"
#include "test/unit/written.h"

#include <time.h>

#define LIMIT(n) TJ_OPTS(tj_while_opts, .max_turns = (n))

/* ---- a counter and a value: the number of turns is a number in C ---- */
static tj_tensor *turned(const job *j, tj_tensor *h) { return tj_add(tj_sin(tj_mul(h, j->w)), tj_mul(j->x, tj_f(0.5))); }
static void below(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_lt(in[0], tj_i(((job *)self)->turns)); }
static void counted_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = turned(self, in[1]);
}

static tj_tensor *counted(job *j)
{
	tj_tensor *out[2], *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) h = turned(j, h);
	if (j->plain) return h;
	tj_while(out, below, counted_turn, TJ_LIST(tj_i(0), j->x), j, LIMIT(8));
	return out[1];
}

/* ---- the value itself ends the loop; the counter takes part in the value ---- */
static tj_tensor *grown(const job *j, tj_tensor *h, tj_tensor *i)
{
	return tj_add(tj_mul(h, tj_add(tj_mul(j->w, j->w), tj_f(1))), tj_mul(tj_cast(i, TJ_F64), j->x));
}
static void small(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(total(tj_mul(in[1], in[1])), tj_f(90));
}
static void growing_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = grown(self, in[1], in[0]);
}

static tj_tensor *growing(job *j)
{
	tj_tensor *out[2], *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) h = grown(j, h, tj_full(TJ_I64, TJ_0D, tj_i(i)));
	if (j->plain) return h;
	tj_while(out, small, growing_turn, TJ_LIST(tj_i(0), j->x), j, LIMIT(50));
	return out[1];
}

/* ---- a carry of eight axes, one that stays, one that is lost, and one with a product ---- */
static void four(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_mul(in[1], tj_cos(tj_reshape(tj_mul(in[3], j->w), TJ_SHAPE(1, 1, 1, N, 1, 1, 1, 1))));
	out[2] = in[2];
	out[3] = tj_add(tj_matmul(in[2], in[3]), tj_sum(in[1], TJ_ALL, false));
}

static tj_tensor *with_axes(job *j)
{
	tj_tensor *in[] = { tj_i(0), tj_reshape(j->x, TJ_SHAPE(1, 1, 1, N, 1, 1, 1, 1)),
		            tj_mul(tj_reshape(j->w, TJ_SHAPE(N, 1)), tj_reshape(j->x, TJ_SHAPE(1, N))), j->x, TJ_END },
		  *out[4];
	for (int64_t i = 0; j->plain && i < j->turns; i++) {
		four(out, in, j);
		memcpy(in, out, sizeof out);
	}
	if (!j->plain) tj_while(in, below, four, in, j, LIMIT(5));
	return tj_add(tj_reshape(in[1], TJ_SHAPE(N)), tj_mul(in[3], in[2]));
}

/* ---- loops in loops: the inner one has as many turns as the outer one had before ---- */
typedef struct inner { job *j; tj_tensor *most; } inner;
static void fewer(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_lt(in[0], ((inner *)self)->most); }
static void inner_turn(tj_tensor **out, tj_tensor *const *in, void *self) { counted_turn(out, in, ((inner *)self)->j); }

static tj_tensor *loop_of(job *j, tj_tensor *most, tj_tensor *h)
{
	tj_tensor *out[2];
	tj_while(out, fewer, inner_turn, TJ_LIST(tj_i(0), h), &((inner){ j, most }), LIMIT(8));
	return out[1];
}

static void outer_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = tj_mul(loop_of(self, in[0], in[1]), tj_f(0.75));
}

static tj_tensor *nested(job *j)
{
	tj_tensor *out[2], *h = j->x;
	for (int64_t i = 0; j->plain && i < j->turns; i++) {
		for (int64_t k = 0; k < i; k++) h = turned(j, h);
		h = tj_mul(h, tj_f(0.75));
	}
	if (j->plain) return h;
	tj_while(out, below, outer_turn, TJ_LIST(tj_i(0), j->x), j, LIMIT(8));
	return out[1];
}

static void scanned_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = loop_of(self, in[1], in[0]);
	out[1] = tj_mul(out[0], out[0]);
}

static tj_tensor *scanned(job *j)
{
	tj_tensor *h = j->x, *sum = NULL, *y;
	static const int64_t turns[] = { 2, 0, 3 };
	for (int i = 0; j->plain && i < 3; i++) {
		for (int64_t k = 0; k < turns[i]; k++) h = turned(j, h);
		sum = sum ? tj_add(sum, tj_mul(h, h)) : tj_mul(h, h);
	}
	if (j->plain) return tj_add(h, sum);
	tj_scan(&h, &y, 1, scanned_turn, TJ_LIST(h), TJ_LIST(j->few), j, NULL);
	return tj_add(h, tj_sum(y, TJ_AXES(0), false));
}

/* ---- in a branch ---- */
static void looping(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = loop_of(self, tj_full(TJ_I64, TJ_0D, tj_i(((job *)self)->turns)), in[0]);
}
static void same(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
}

static tj_tensor *branched(job *j)
{
	tj_tensor *h = j->x, *other;
	for (int64_t i = 0; j->plain && i < j->turns; i++) h = turned(j, h);
	if (j->plain) return tj_mul(h, j->x);
	tj_cond(&h, 1, tj_gt(total(j->w), tj_f(-100)), looping, same, TJ_LIST(j->x), j);
	tj_cond(&other, 1, tj_gt(total(j->w), tj_f(100)), looping, same, TJ_LIST(j->x), j);
	return tj_mul(h, other);
}

/* ---- products: a weight on the right, on the left, in the results, and in a sum of products ---- */
typedef struct layer { tj_tensor *m, *x, *bias; int64_t turns; } layer; /* m [N,N], x [2,N], bias [N] */
static tj_tensor *layer_turn(const layer *l, tj_tensor *h, tj_tensor *by)
{
	tj_tensor *left = tj_transpose(tj_matmul(l->m, tj_transpose(h, 0, 1)), 0, 1);
	return tj_tanh(tj_add(tj_add(tj_add(tj_matmul(h, l->m), l->bias), tj_mul(by, l->x)), tj_mul(tj_sin(left), tj_matmul(tj_mul(h, h), l->m))));
}

static layer layer_of(const job *j)
{
	tj_tensor *m = tj_mul(tj_reshape(j->w, TJ_SHAPE(N, 1)), tj_add(tj_reshape(j->x, TJ_SHAPE(1, N)), tj_reshape(j->w, TJ_SHAPE(1, N))));
	return (layer){ m, tj_mul(tj_reshape(j->x, TJ_SHAPE(1, N)), tj_reshape(tj_slice(j->w, 0, 0, 2, 1), TJ_SHAPE(2, 1))), tj_sin(j->w),
		        j->turns };
}

static void layer_scanned(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = layer_turn(self, in[0], in[1]);
	out[1] = tj_matmul(out[0], ((layer *)self)->m);
}

static tj_tensor *recurrent(job *j)
{
	layer l = layer_of(j);
	tj_tensor *h = l.x, *y = NULL, *by = tj_reshape(tj_cast(j->few, TJ_F64), TJ_SHAPE(3, 1, 1));
	for (int i = 0; j->plain && i < 3; i++) {
		h = layer_turn(&l, h, tj_f(few_turns[i]));
		y = y ? tj_add(y, tj_matmul(h, l.m)) : tj_matmul(h, l.m);
	}
	if (!j->plain) {
		tj_scan(&h, &y, 1, layer_scanned, TJ_LIST(l.x), TJ_LIST(by), &l, NULL);
		y = tj_sum(y, TJ_AXES(0), false);
	}
	return tj_sum(tj_add(h, tj_mul(y, y)), TJ_AXES(0), false);
}

static void fewer_turns(tj_tensor **out, tj_tensor *const *in, void *self) { out[0] = tj_lt(in[0], tj_i(((layer *)self)->turns)); }
static void layer_counted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = layer_turn(self, in[1], tj_cast(in[0], TJ_F64));
}

static tj_tensor *recurrent_while(job *j)
{
	layer l = layer_of(j);
	tj_tensor *out[2] = { NULL, l.x };
	for (int64_t i = 0; j->plain && i < j->turns; i++) out[1] = layer_turn(&l, out[1], tj_f((double)i));
	if (!j->plain) tj_while(out, fewer_turns, layer_counted, TJ_LIST(tj_i(0), l.x), &l, LIMIT(6));
	return tj_sum(out[1], TJ_AXES(0), false);
}

static const program programs[] = {
	{ "counted", counted, { 0, 1, 5, 8 }, 4 }, { "growing", growing, { 3 }, 1 }, { "with_axes", with_axes, { 0, 1, 4 }, 3 },
	{ "nested", nested, { 0, 1, 4 }, 3 }, { "scanned", scanned, { 0 }, 1 }, { "branched", branched, { 0, 3 }, 2 },
	{ "recurrent", recurrent, { 0 }, 1 }, { "recurrent_while", recurrent_while, { 0, 1, 5 }, 3 },
};

static void written_out(void **state) { (void)state, each_program(programs, RT_COUNT(programs), check_written_out); }
static void differences(void **state) { (void)state, each_program(programs, RT_COUNT(programs), check_differences); }
static void elsewhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(programs); i++) check_elsewhere(&programs[i], programs[i].turns[programs[i].n - 1]);
}

/* ---- batches: examples end at different turns ---- */
enum { EXAMPLES = 4 };
typedef struct batch { job j; bool outside; } batch; /* outside: the gradient of the batch, not the batch of gradients */

static tj_tensor *example(batch *b, tj_tensor *const *in)
{
	tj_tensor *out[2];
	b->j.x = in[0], b->j.w = in[1];
	tj_while(out, fewer, inner_turn, TJ_LIST(tj_i(0), in[0]), &((inner){ &b->j, in[2] }), LIMIT(6));
	return total(tj_mul(out[1], out[1]));
}

static void one_example(tj_tensor **out, tj_tensor *const *in, void *self)
{
	batch *b = self;
	out[0] = example(b, in);
	if (b->outside) return;
	tj_tensor *const by[] = { in[0], in[1], TJ_END };
	derive(out[0], by, out + 1, &out[3]);
	tj_grad(out + 4, out[3], by, NULL);
	out[6] = tj_jvp(out[0], by, by, TJ_UNUSED_ERROR);
}

static void fill(double x[EXAMPLES][N])
{
	for (int e = 0; e < EXAMPLES; e++)
		for (int i = 0; i < N; i++) x[e][i] = 0.3 + 0.11 * (N * e + i);
}

static const int axes[] = { 0, TJ_UNMAPPED, 0 };

static void all_examples(tj_tensor **out, tj_tensor *const *in, void *self)
{
	batch *b = self;
	tj_vmap(out, b->outside ? 1 : 7, one_example, in, b, TJ_OPTS(tj_vmap_opts, .in_axes = axes));
	if (!b->outside) return;
	tj_tensor *const by[] = { in[0], in[1], TJ_END }, *next;
	derive(total(out[0]), by, out + 1, &next);
	tj_grad(out + 3, next, by, NULL);
}

static void alone(tj_tensor **out, tj_tensor *const *in, void *self) { one_example(out, in, self); }

static double read_at(tj_tensor *t, int i)
{
	double v[EXAMPLES * N];
	assert_int_equal(tj_read(t, v, (size_t)tj_numel(t) * sizeof *v), TJ_OK);
	return v[i];
}

static void batches(void **state)
{
	static const int64_t counts[][EXAMPLES] = { { 2, 0, 5, 1 }, { 0, 0, 0, 0 }, { 3, 3, 3, 3 }, { 6, 1, 2, 0 } };
	static const int size[7] = { 1, N, N, 1, N, N, 1 };
	double x[EXAMPLES][N];
	(void)state;
	fill(x);
	mock_device();
	for (int end = 0; end < 3; end++) {
		tj_ctx *c = end == 2 ? tj_open(TJ_OPTS(tj_open_opts, .device = "mock:0"))
		                     : tj_open(TJ_OPTS(tj_open_opts, .backend = end ? "llvm" : "eval"));
		batch b = { 0 };
		tj_fn *all = kit_fn(c, "all", all_examples, &b, 3, 7), *one = kit_fn(c, "one", alone, &b, 3, 7);
		for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
			tj_scope *s = tj_push(c);
			tj_tensor *out[7], *each[7], *w = tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_w);
			tj_call(all, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(EXAMPLES, N), x), w, tj_from_data(c, TJ_I64, TJ_SHAPE(EXAMPLES), counts[k])));
			kit_ok(c);
			for (int e = 0; e < EXAMPLES; e++) {
				assert_int_equal(tj_call(one, each,
				                         TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x[e]), w,
				                                 tj_from_data(c, TJ_I64, TJ_0D, &counts[k][e]))),
				                 TJ_OK);
				for (int i = 0; i < 7; i++)
					for (int p = 0; p < size[i]; p++)
						if (read_at(out[i], e * size[i] + p) != read_at(each[i], p))
							fail_msg("counts %d, example %d: result %d, element %d differs", (int)k, e, i, p);
			}
			tj_pop(s);
		}
		kit_ok(c);
		tj_close(c);
	}
}

/* The gradient of the sum over a batch: by x those of the examples, by w their sum. */
static void of_batches(void **state)
{
	static const int64_t counts[EXAMPLES] = { 2, 0, 5, 1 };
	double x[EXAMPLES][N], sum[N] = { 0 };
	(void)state;
	fill(x);
	tj_ctx *c = kit_open();
	batch b = { .outside = true }, inside = { 0 };
	tj_tensor *out[5], *each[7], *w = tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_w);
	tj_fn *all = kit_fn(c, "all", all_examples, &b, 3, 5), *one = kit_fn(c, "one", alone, &inside, 3, 7);
	assert_int_equal(
		tj_call(all, out,
	                TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(EXAMPLES, N), x), w, tj_from_data(c, TJ_I64, TJ_SHAPE(EXAMPLES), counts))),
		TJ_OK);
	for (int e = 0; e < EXAMPLES; e++) {
		assert_int_equal(
			tj_call(one, each,
		                TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(N), x[e]), w, tj_from_data(c, TJ_I64, TJ_0D, &counts[e]))),
			TJ_OK);
		for (int i = 0; i < N; i++) {
			assert_true(fabs(((const double *)tj_data(out[1]))[e * N + i] - ((const double *)tj_data(each[1]))[i]) < 1e-13);
			sum[i] += ((const double *)tj_data(each[2]))[i];
		}
	}
	for (int i = 0; i < N; i++) assert_true(fabs(((const double *)tj_data(out[2]))[i] - sum[i]) < 1e-12);
	kit_ok(c);
	tj_close(c);
}

/* ---- sizes and limits ---- */
static void rows(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	j->x = in[0], j->w = in[1];
	tj_grad(out, total(counted(j)), TJ_LIST(in[0], in[1]), NULL);
}

static void sizes(void **state)
{
	double x[64], want[64];
	(void)state;
	for (int i = 0; i < 64; i++) x[i] = 0.1 * (i % 7) - 0.2;
	tj_ctx *c = kit_open();
	job j = { .turns = 4 };
	tj_fn *f = kit_fn(c, "rows", rows, &j, 2, 2);
	for (int n = 64; n >= 0; n -= 8) { /* each element has the gradient that it has in the longest */
		tj_tensor *out[2];
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(n), x), tj_from_data(c, TJ_F64, TJ_SHAPE(n), x))), TJ_OK);
		if (n == 64) memcpy(want, tj_data(out[0]), sizeof want);
		assert_memory_equal(tj_data(out[0]), want, (size_t)n * sizeof *want);
	}
	kit_ok(c);
	assert_true(kit_stats(f).compiles < 6);
	tj_close(c);
}

/* A limit far above the turns that run costs address space, but no time and no pages. */
static void far_limit(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	tj_tensor *last[2];
	j->x = in[0], j->w = in[1];
	tj_while(last, below, counted_turn, TJ_LIST(tj_i(0), in[0]), j, LIMIT(1 << 20));
	tj_grad(out, total(last[1]), TJ_LIST(in[0], in[1]), NULL);
}

static double best_ms(tj_ctx *c, tj_fn *f, tj_tensor *x, double *sum)
{
	double best = 1e9;
	for (int k = 0; k < 20; k++) {
		tj_scope *s = tj_push(c);
		tj_tensor *out[2];
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		assert_int_equal(tj_call(f, out, TJ_LIST(x, x)), TJ_OK);
		*sum = ((const double *)tj_data(out[0]))[1];
		clock_gettime(CLOCK_MONOTONIC, &b);
		const double ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
		if (ms < best) best = ms;
		tj_pop(s);
	}
	return best;
}

static void limits_far_away(void **state)
{
	double sum[2], x[N] = { 0.5, 0.25, 1 };
	(void)state;
	tj_ctx *c = kit_open();
	job j = { .turns = 4 };
	tj_tensor *t = tj_from_data(c, TJ_F64, TJ_SHAPE(N), x);
	const double near_ms = best_ms(c, kit_fn(c, "near", rows, &j, 2, 2), t, &sum[0]),
		     far_ms = best_ms(c, kit_fn(c, "far", far_limit, &j, 2, 2), t, &sum[1]);
	kit_ok(c);
	assert_true(sum[0] == sum[1]);
	if (far_ms > 2 * near_ms + 0.5) fail_msg("%.3f ms with a limit of a million turns, %.3f with one of 8", far_ms, near_ms);
	tj_close(c);
}

/* ---- what is refused ---- */
static void endless(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	tj_tensor *last[2];
	j->x = in[0], j->w = in[1];
	tj_while(last, below, counted_turn, TJ_LIST(tj_i(0), in[0]), j, j->turns ? LIMIT(j->turns - 1) : NULL);
	tj_grad(out, total(last[1]), TJ_LIST(in[0]), NULL);
}

static void huge(tj_tensor **out, tj_tensor *const *in, void *self)
{
	job *j = self;
	tj_tensor *last[2];
	j->x = in[0], j->w = in[1];
	tj_while(last, below, counted_turn, TJ_LIST(tj_i(0), in[0]), j, LIMIT(INT64_MAX));
	tj_grad(out, total(last[1]), TJ_LIST(in[0]), NULL);
}

static void refusals(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *out, *x = tj_from_data(c, TJ_F64, TJ_SHAPE(N), first_x);
	job j = { .turns = 0 };
	assert_int_equal(tj_call(kit_fn(c, "endless", endless, &j, 2, 1), &out, TJ_LIST(x, x)), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "while: it has no gradient, since its turns have no limit");
	assert_non_null(strstr(tj_last_error(c)->hint, "set .max_turns"));
	j.turns = 5; /* only the gradient is an output: that the loop does not end is still found */
	assert_int_equal(tj_call(kit_fn(c, "five", endless, &j, 2, 1), &out, TJ_LIST(x, x)), TJ_ERR_LIMIT);
	kit_error(c, TJ_ERR_LIMIT, "the condition still holds after 4 turns");
	assert_int_equal(tj_call(kit_fn(c, "huge", huge, &j, 2, 1), &out, TJ_LIST(x, x)), TJ_ERR_LIMIT);
	kit_error(c, TJ_ERR_LIMIT, "it keeps the carries of all its turns, which may be 9223372036854775807");
	assert_non_null(strstr(tj_last_error(c)->hint, "lower .max_turns"));
	tj_close(c);
}

/* ---- slices whose turns did not run ---- */
static const char *const slices =
	"%0 = input f64[3] slot=0\n%1 = const i64[] 0\n%2 = const i64[] 2\n%3 = const i64[] 9\n%4 = const i64[] -1\n"
	"%5 = while %1 %0 max_turns=5 ys=2\n  cond:\n    %0 = input i64[] slot=0\n    %1 = const i64[] 3\n    %2 = lt bool[] %0 %1\n    ret %2\n"
	"  body:\n    %0 = input i64[] slot=0\n    %1 = input f64[3] slot=1\n    %2 = const i64[] 1\n    %3 = add i64[] %0 %2\n"
	"    %4 = exp f64[3] %1\n    ret %3 %4 %1 %0\n"
	"%6 = get f64[5,3] %5 i=2\n%7 = get i64[5] %5 i=3\n"
#define SCAN(number, count, reverse) \
	"%" #number "0 = scan %0 %6 %" #count " carries=1 xs=1 length=5 reverse=" #reverse \
	" counted=1\n  body:\n    %0 = input f64[3] slot=0\n    %1 = input f64[3] slot=1\n    %2 = add f64[3] %0 %1\n    ret %2 %0\n" \
	"%" #number "1 = get f64[3] %" #number "0 i=0\n%" #number "2 = get f64[5,3] %" #number "0 i=1\n"
	SCAN(1, 2, 0) SCAN(2, 2, 1) SCAN(3, 3, 1)
		SCAN(4, 4, 0) "%50 = get i64[] %5 i=0\n" SCAN(6, 50, 1) "ret %6 %7 %11 %12 %21 %22 %31 %32 %41 %42 %61 %62";

/* 0 in memory that had something else: a count that is too large, negative or in between, of a scan either way. */
static void without_turns(void **state)
{
	enum { WHILE = 5 * N, COUNTED = 2 };
	gen G;
	ir_graph g;
	gen_out got[2];
	rt_err err = { 0 };
	(void)state;
	gen_init(&G, &g, 1);
	G.layout = GEN_ROW;
	gen_input(&G, TJ_F64, 1, (int64_t[]){ N }, GEN_PLAIN, 0, 0);
	memcpy(G.slot.v[0].data, first_x, sizeof first_x);
	ir_graph_free(&g);
	ir_graph_init(&g);
	if (ir_parse(&g, slices, &err) != TJ_OK) fail_msg("%s", err.message);
	for (int k = 0; k < 2; k++) {
		if (!gen_out_new(&got[k], &g)) abort();
		for (uint32_t i = 0; i < g.out.n; i++) memset(got[k].data[i], 0xAA, (size_t)got[k].bytes[i]);
	}
	if (gen_run(&G, &(gen_how){ .target = &lo_cpu }, &got[0], &err) != TJ_OK || gen_oracle(&G, false, NULL, &got[1], &err) != TJ_OK)
		fail_msg("%s", err.message);
	for (uint32_t i = 0; i < g.out.n; i++) assert_memory_equal(got[0].data[i], got[1].data[i], (size_t)got[0].bytes[i]);
	const double *all = got[0].data[0], *two = got[0].data[2], *two_ys = got[0].data[3], *back = got[0].data[4], *none = got[0].data[8],
		     *none_ys = got[0].data[9];
	for (int i = 0; i < WHILE; i++) assert_true(i < 3 * N ? all[i] != 0 : all[i] == 0);
	for (int i = 0; i < N; i++) {
		assert_true(two[i] == first_x[i] + all[i] + all[N + i] && back[i] == first_x[i] + all[N + i] + all[i] && none[i] == first_x[i]);
		assert_true(two_ys[COUNTED * N + i] == 0 && two_ys[i] == first_x[i] && none_ys[i] == 0);
	}
	assert_memory_equal(got[0].data[1], ((int64_t[]){ 0, 1, 2, 0, 0 }), 5 * sizeof(int64_t));
	for (int k = 0; k < 2; k++) gen_out_free(&got[k]);
	gen_free(&G);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_out),   cmocka_unit_test(differences),     cmocka_unit_test(elsewhere),
		cmocka_unit_test(batches),       cmocka_unit_test(of_batches),      cmocka_unit_test(sizes),
		cmocka_unit_test(without_turns), cmocka_unit_test(limits_far_away), cmocka_unit_test(refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
