/* SPDX-License-Identifier: MIT */
/* Commits behind a fault that a device finds late: they are undone, and nothing waits for them while all goes well. On the mock device, and
 * on a GPU or the fake of one. */
#include "test/mock.h"
#include "test/kit.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST = 3000 }; /* elements of a cell: so many that another kernel stores it than the one that looks for faults */
static const char *on; /* the device */
static const float table[4] = { 1, 2, 3, 4 };
static const int64_t good[2] = { 1, 2 }, bad[2] = { 1, 9 }; /* indices */

static tj_ctx *open_on(void) { return tj_open(TJ_OPTS(tj_open_opts, .device = on)); }
static tj_tensor *index_of(tj_ctx *c, const int64_t *at) { return tj_from_data(c, TJ_I64, TJ_SHAPE(2), at); }
static tj_tensor *table_of(tj_ctx *c) { return tj_from_data(c, TJ_F32, TJ_SHAPE(4), table); }

static void expect(tj_tensor *t, float a, float b)
{
	float v[MOST] = { 0 };
	const size_t n = (size_t)tj_numel(t);
	assert_int_equal(tj_read(t, v, n * sizeof *v), TJ_OK);
	assert_float_equal(v[0], a, 0);
	assert_float_equal(v[n - 1], b, 0);
}

static void expect_lost(tj_ctx *c, tj_tensor *t)
{
	float v[MOST];
	assert_int_equal(tj_read(t, v, (size_t)tj_numel(t) * sizeof *v), TJ_ERR_STATE);
	kit_error(c, TJ_ERR_STATE, "lost");
}

/* sum := sum + table[index] is stored in place, behind the kernel that looks for the fault; seen := table[index] is swapped. */
typedef struct cells { tj_tensor *sum, *seen; } cells;
static void adds(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_tensor *row = tj_index_select(in[0], 0, in[1]);
	tj_assign(s->sum, tj_add(s->sum, tj_sum(row, TJ_AXES(0), false)));
	tj_assign(s->seen, row);
	out[0] = tj_mul(row, tj_f(10));
}

typedef struct world { tj_ctx *c; tj_fn *f; cells s; tj_tensor *x; } world;
static world begin(tj_body *body, tj_mode mode)
{
	world w = { .c = open_on() };
	static cells s;
	s = w.s = (cells){ tj_param(w.c, TJ_F32, TJ_SHAPE(MOST)), tj_param(w.c, TJ_F32, TJ_SHAPE(2)) };
	w.f = tj_compile(w.c, body, &s,
	                 TJ_OPTS(tj_compile_opts, .name = "adds", .nin = 2, .nout = 1, .mode = mode, .state = TJ_VARS(&s.sum, &s.seen)));
	w.x = table_of(w.c);
	return w;
}

static tj_tensor *call(const world *w, const int64_t *at)
{
	tj_tensor *out[1] = { NULL };
	assert_int_equal(tj_call(w->f, out, TJ_LIST(w->x, index_of(w->c, at))), TJ_OK);
	return out[0];
}

static void end(world *w)
{
	kit_ok(w->c);
	tj_fn_free(w->f);
	tj_release(w->s.sum);
	tj_release(w->s.seen);
	tj_close(w->c);
}

/* Four calls, one that fails, one that comes after it. */
static void undone(void **state)
{
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		world w = begin(adds, mode ? TJ_DIRECT : TJ_VERIFY);
		tj_tensor *out[6];
		for (int i = 0; i < 6; i++) out[i] = call(&w, i == 4 ? bad : good);
		assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
		kit_error(w.c, TJ_ERR_INDEX, "out of range for an axis of size 4");
		expect(w.s.sum, 20, 20);
		expect(w.s.seen, 2, 3);
		expect(out[3], 20, 30);
		for (int i = 4; i < 6; i++) expect_lost(w.c, out[i]);
		call(&w, good);
		expect(w.s.sum, 25, 25);
		end(&w);
	}
}

/* While all goes well nothing waits, and the memory of commits in doubt has a bound. */
static void turns(const world *w, int n)
{
	for (int i = 0; i < n; i++) {
		tj_scope *s = tj_push(w->c);
		call(w, good);
		if (!strcmp(on, "mock:0")) assert_true(mock_pending() > 0);
		tj_pop(s);
	}
}

static void nothing_waits(void **state)
{
	(void)state;
	world w = begin(adds, TJ_DIRECT);
	tj_memory before = { .size = sizeof before }, after = before;
	turns(&w, 8);
	tj_memory_stats(w.c, tj_find_device(on), &before);
	const void *where = tj_device_data(w.s.sum);
	turns(&w, 40);
	tj_memory_stats(w.c, tj_find_device(on), &after);
	assert_int_equal(after.allocations, before.allocations);
	expect(w.s.sum, 240, 240);
	for (int i = 0; i < 3; i++) {
		turns(&w, 1);
		assert_ptr_equal(tj_device_data(w.s.sum), where); /* stored in place */
	}
	end(&w);
}

/* The value of a cell is also an output: the cell has its old value again, the output is lost. */
static void returns_it(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_tensor *v = tj_add(s->sum, tj_sum(tj_index_select(in[0], 0, in[1]), TJ_AXES(0), false));
	tj_assign(s->sum, v);
	out[0] = v;
}

static void an_output_of_it(void **state)
{
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		world w = begin(returns_it, mode ? TJ_DIRECT : TJ_VERIFY);
		tj_tensor *out[4];
		for (int i = 0; i < 4; i++) out[i] = call(&w, i == 2 ? bad : good);
		assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
		tj_check(w.c);
		expect(w.s.sum, 10, 10);
		expect(out[0], 5, 5);
		expect(out[1], 10, 10);
		expect_lost(w.c, out[2]);
		expect_lost(w.c, out[3]);
		end(&w);
	}
}

/* The same buffer as the cell, from a call that only reads the cell behind the fault. */
static void reads_it(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	out[0] = tj_reshape(((const cells *)self)->sum, TJ_SHAPE(MOST / 2, 2));
}

static void a_view_of_it(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	tj_fn *g = tj_compile(w.c, reads_it, &w.s, TJ_OPTS(tj_compile_opts, .name = "reads", .nin = 0, .nout = 1));
	for (int i = 0; i < 3; i++) call(&w, good);
	call(&w, bad);
	tj_tensor *view = tj_call1(g, TJ_NONE);
	assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
	tj_check(w.c);
	expect_lost(w.c, view);
	expect(w.s.sum, 15, 15);
	tj_fn_free(g);
	end(&w);
}

/* The new value is computed before the step that finds the fault. */
static void adds_first(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_assign(s->sum, tj_add(s->sum, tj_i(1)));
	out[0] = tj_index_select(in[0], 0, in[1]);
}

static void a_step_before(void **state)
{
	(void)state;
	world w = begin(adds_first, TJ_VERIFY);
	for (int i = 0; i < 4; i++) call(&w, i == 3 ? bad : good);
	assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
	tj_check(w.c);
	expect(w.s.sum, 3, 3);
	end(&w);
}

/* A lost value cannot become the content of a cell. */
static void a_lost_value(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	tj_tensor *lost = tj_reshape(call(&w, bad), TJ_SHAPE(2));
	assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
	tj_check(w.c);
	assert_int_equal(tj_assign(w.s.seen, lost), TJ_ERR_STATE);
	kit_error(w.c, TJ_ERR_STATE, "lost");
	expect(w.s.seen, 2, 3);
	end(&w);
}

/* A cell of the CPU may be written in place, but not by a call that also assigns a lost value: it must fail as if it had not run. */
static void here_and_there(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_assign(s->sum, tj_add(s->sum, tj_i(1)));
	tj_assign(s->seen, in[0]);
	out[0] = tj_neg(s->sum);
}

static void a_lost_argument(void **state)
{
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = open_on();
		cells s = { tj_param_on(c, TJ_CPU, TJ_F32, TJ_0D), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
		tj_fn *f = tj_compile(c, here_and_there, &s,
		                      TJ_OPTS(tj_compile_opts, .name = "f", .nin = 1, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY,
		                              .state = TJ_VARS(&s.sum, &s.seen)));
		tj_tensor *out[1], *x = table_of(c), *two = tj_index_select(x, 0, index_of(c, good));
		for (int i = 0; i < 4; i++) assert_int_equal(tj_call(f, out, TJ_LIST(two)), TJ_OK);
		expect(s.sum, 4, 4);
		tj_tensor *lost = tj_index_select(x, 0, index_of(c, bad));
		assert_int_equal(tj_sync(c), TJ_ERR_INDEX);
		tj_check(c);
		assert_int_equal(tj_call(f, out, TJ_LIST(lost)), TJ_ERR_STATE);
		kit_error(c, TJ_ERR_STATE, "lost");
		expect(s.sum, 4, 4);
		expect(s.seen, 2, 3);
		tj_close(c);
	}
}

/* Ops share kernels, but the error names the line that asked. */
static void the_line(void **state)
{
	(void)state;
	char line[40];
	tj_ctx *c = open_on();
	tj_tensor *x = table_of(c), *g = index_of(c, good), *b = index_of(c, bad);
	tj_index_select(x, 0, g);
	tj_index_select(x, 0, b), snprintf(line, sizeof line, "test_undo.c:%d", __LINE__);
	assert_true(tj_is_poison(tj_to(x, TJ_CPU))); /* this one waits */
	assert_int_equal(tj_check(c), TJ_ERR_INDEX);
	if (!strstr(tj_last_error(c)->site, line)) fail_msg("%s, not %s", tj_last_error(c)->site, line);
	tj_close(c);
}

/* Who writes a cell between calls learns of the fault first, and the write stays. */
static void a_write(void **state)
{
	(void)state;
	const float v[2] = { 7, 8 };
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	call(&w, bad);
	assert_int_equal(tj_write(w.s.seen, v, sizeof v), TJ_ERR_INDEX);
	tj_check(w.c);
	assert_int_equal(tj_write(w.s.seen, v, sizeof v), TJ_OK);
	assert_int_equal(tj_sync(w.c), TJ_OK);
	expect(w.s.seen, 7, 8);
	expect(w.s.sum, 5, 5);
	end(&w);
}

/* Released while a commit of it may be undone: the handle is dead at once, and is not given to another tensor before. */
static void a_release(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	call(&w, bad);
	tj_tensor *old = w.s.seen;
	tj_fn_free(w.f);
	tj_release(w.s.seen);
	tj_tensor *fresh = tj_param(w.c, TJ_F32, TJ_SHAPE(2));
	assert_ptr_not_equal(fresh, old);
	assert_int_equal(tj_write(fresh, table, 8), TJ_ERR_INDEX);
	tj_check(w.c);
	assert_int_equal(tj_write(fresh, table, 8), TJ_OK);
	tj_release(old);
	kit_error(w.c, TJ_ERR_DEAD, "");
	expect(fresh, 1, 2);
	expect(w.s.sum, 5, 5);
	tj_release(w.s.sum);
	tj_release(fresh);
	kit_ok(w.c);
	tj_close(w.c);
}

/* tj_check() reports a fault that has been found, without waiting. */
static void a_check(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	call(&w, bad);
	for (int i = 0; i < 4 && tj_check(w.c) == TJ_OK;
	     i++) { /* the commits that may be in doubt are few, so one of these calls waits for the bad one */
		tj_tensor *out[1];
		tj_call(w.f, out, TJ_LIST(w.x, index_of(w.c, good)));
	}
	assert_int_equal(tj_last_error(w.c)->code, TJ_ERR_INDEX);
	expect(w.s.sum, 5, 5);
	end(&w);
}

/* A clone reads only what stands. */
static void *clone_reads(void *p)
{
	const world *w = p;
	tj_ctx *c = tj_ctx_clone(w->c);
	if (!c) return "refused";
	tj_ctx_use(c);
	expect(tj_add(w->s.sum, tj_i(0)), 5, 5);
	expect(tj_add(w->s.seen, tj_i(0)), 2, 3);
	kit_ok(c);
	tj_close(c);
	return NULL;
}

static void *in_thread(world *w)
{
	pthread_t t;
	void *why;
	assert_int_equal(pthread_create(&t, NULL, clone_reads, w), 0);
	pthread_join(t, &why);
	return why;
}

static void a_clone(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	call(&w, bad);
	call(&w, good);
	assert_null(clone_reads(&w)); /* the context's own thread: it waits, and the context has the error */
	tj_ctx_use(w.c);
	assert_int_equal(tj_check(w.c), TJ_ERR_INDEX);
	call(&w, good);
	expect(w.s.sum, 10, 10);
	end(&w);
}

/* Another thread clones while the context is at rest, or in a body that waits for that thread. */
static void a_clone_by_a_thread(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	call(&w, good);
	assert_null(in_thread(&w)); /* in doubt, and right */
	call(&w, bad);
	assert_string_equal(in_thread(&w), "refused");
	assert_int_equal(tj_check(w.c), TJ_ERR_STATE);
	assert_non_null(strstr(tj_last_error(w.c)->message, "has found a fault"));
	assert_int_equal(tj_check(w.c), TJ_ERR_INDEX);
	assert_null(in_thread(&w));
	expect(w.s.sum, 5, 5);
	end(&w);
}

typedef struct waits { world *w; void *why; } waits;
static void waits_for_a_clone(tj_tensor **out, tj_tensor *const *in, void *self)
{
	waits *s = self;
	if (!s->why) s->why = in_thread(s->w) ? "refused" : "cloned";
	out[0] = tj_add(in[0], tj_i(1));
}

static void a_clone_during_a_body(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	waits s = { &w, NULL };
	tj_fn *f = tj_compile(w.c, waits_for_a_clone, &s, TJ_OPTS(tj_compile_opts, .name = "waits", .nin = 1, .nout = 1));
	call(&w, good);
	tj_call1(f, TJ_LIST(w.x));
	assert_string_equal(s.why, "cloned");
	tj_fn_free(f);
	end(&w);
}

/* Memory is short: what commits in doubt keep is given back, also what was undone, and undoing needs none. */
static void keeps_two(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_tensor *v = tj_add(s->sum, tj_sum(tj_index_select(in[0], 0, in[1]), TJ_AXES(0), false));
	tj_assign(s->sum, v);
	out[0] = tj_reshape(v, TJ_SHAPE(2, MOST / 2)); /* so that the next call swaps */
}

static void short_of_memory(void **state)
{
	(void)state;
	const tj_device d = tj_find_device(on);
	world w = begin(keeps_two, TJ_VERIFY);
	tj_memory m = { .size = sizeof m };
	tj_tensor *out[6];
	for (int i = 0; i < 2; i++) out[i] = call(&w, good);
	assert_int_equal(tj_empty_cache(w.c, d), TJ_OK);
	tj_memory_stats(w.c, d, &m);
	tj_limit_memory(w.c, d, m.allocated + 4 * MOST * sizeof(float));
	for (int round = 0; round < 3; round++) {
		tj_scope *s = tj_push(w.c);
		for (int i = 0; i < 3; i++) {
			tj_scope *inner = tj_push(w.c);
			out[2] = call(&w, i == 2 ? bad : good);
			tj_pop(inner);
		}
		assert_int_equal(tj_sync(w.c), TJ_ERR_INDEX);
		tj_check(w.c);
		tj_pop(s);
		expect(w.s.sum, 20 + 10 * (float)round, 20 + 10 * (float)round);
	}
	tj_limit_memory(w.c, d, 0);
	expect(out[1], 10, 10);
	end(&w);
}

/* A cell of the CPU in the same call: it cannot be undone, so the commit waits. */
static void both(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_tensor *row = tj_index_select(in[0], 0, in[1]);
	tj_assign(s->sum, tj_add(s->sum, tj_i(1)));
	tj_assign(s->seen, row);
	out[0] = row;
}

static void a_cell_of_the_cpu(void **state)
{
	(void)state;
	tj_ctx *c = open_on();
	cells s = { tj_param_on(c, TJ_CPU, TJ_F32, TJ_SHAPE(2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
	tj_fn *f = tj_compile(c, both, &s, TJ_OPTS(tj_compile_opts, .name = "both", .nin = 2, .nout = 1));
	tj_tensor *x = table_of(c), *out[1];
	for (int i = 0; i < 3; i++) assert_int_equal(tj_call(f, out, TJ_LIST(x, index_of(c, good))), TJ_OK);
	assert_int_equal(tj_call(f, out, TJ_LIST(x, index_of(c, bad))), TJ_ERR_INDEX);
	kit_error(c, TJ_ERR_INDEX, "out of range");
	expect(s.sum, 3, 3);
	expect(s.seen, 2, 3);
	tj_close(c);
}

/* A function of the CPU between two of the device, and its cell: it stands, whatever the device finds. */
static void counts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)in;
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(cell, tj_i(1)));
	out[0] = tj_add(cell, tj_i(0));
}

static void a_function_of_the_cpu(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	tj_tensor *n = tj_param_on(w.c, TJ_CPU, TJ_F32, TJ_SHAPE(2)), *out[1];
	tj_fn *g = tj_compile(w.c, counts, &n, TJ_OPTS(tj_compile_opts, .name = "counts", .nin = 0, .nout = 1));
	for (int i = 0; i < 3; i++) assert_int_equal(tj_call(g, out, TJ_NONE), TJ_OK);
	call(&w, bad);
	assert_int_equal(tj_call(g, out, TJ_NONE), TJ_ERR_INDEX); /* its commit waits, and learns of the fault */
	tj_check(w.c);
	expect(n, 3, 3);
	assert_int_equal(tj_call(g, out, TJ_NONE), TJ_OK);
	expect(n, 4, 4);
	expect(w.s.sum, 0, 0);
	tj_fn_free(g);
	end(&w);
}

/* A context is closed with commits in doubt. */
static void a_close(void **state)
{
	(void)state;
	world w = begin(adds, TJ_VERIFY);
	for (int i = 0; i < 2; i++) call(&w, i ? bad : good);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(undone),
		cmocka_unit_test(nothing_waits),
		cmocka_unit_test(an_output_of_it),
		cmocka_unit_test(a_view_of_it),
		cmocka_unit_test(a_step_before),
		cmocka_unit_test(a_lost_value),
		cmocka_unit_test(a_lost_argument),
		cmocka_unit_test(the_line),
		cmocka_unit_test(a_write),
		cmocka_unit_test(a_release),
		cmocka_unit_test(a_check),
		cmocka_unit_test(a_clone),
		cmocka_unit_test(a_clone_by_a_thread),
		cmocka_unit_test(a_clone_during_a_body),
		cmocka_unit_test(short_of_memory),
		cmocka_unit_test(a_cell_of_the_cpu),
		cmocka_unit_test(a_function_of_the_cpu),
		cmocka_unit_test(a_close),
	};
	mock_device();
	on = "mock:0";
	int failed = cmocka_run_group_tests_name(on, tests, NULL, NULL);
	on = "cuda:0";
	if (tj_find_device(on) > 0) failed += cmocka_run_group_tests_name(on, tests, NULL, NULL);
	else printf("SKIP test_undo on cuda:0: no GPU and no fake of one\n");
	return failed != 0;
}
