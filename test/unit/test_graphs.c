/* SPDX-License-Identifier: MIT */
/* CUDA graphs: kernels of a plan that are launched as one. A replay uses the tensors, the numbers and the sizes of its own call. */
#include "test/kit.h"

#include <stdlib.h>

enum { ROUNDS = 3, CALLS = 12, MOST_ROWS = 68, MOST = MOST_ROWS * 5 };

static bool skipped(void)
{
	if (tj_find_device("cuda:0") > 0) return false;
	printf("SKIP test_graphs: no GPU and no fake of one\n");
	return true;
}

/* Reductions along rows and columns in turn: each is a kernel of its own. */
static void many_kernels(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x = in[0];
	for (int i = 0; i < ROUNDS; i++) x = tj_sub(x, tj_mul(tj_mean(x, TJ_AXES(i % 2), true), tj_arg_f(0)));
	out[0] = x;
	out[1] = tj_sum(x, TJ_ALL, false);
	if (self) tj_assign(*(tj_tensor **)self, tj_add(*(tj_tensor **)self, tj_sum(x, TJ_AXES(0), false)));
}

typedef struct run { tj_ctx *c; tj_tensor *cell; tj_fn *f; } run;

static run open_run(const char *device, bool cell, tj_mode mode)
{
	run r = { .c = tj_open(TJ_OPTS(tj_open_opts, .device = device)) };
	r.cell = cell ? tj_param(r.c, TJ_F32, TJ_SHAPE(5)) : NULL;
	static tj_tensor *cells[2];
	tj_tensor **self = &cells[!strcmp(device, "cpu")];
	*self = r.cell;
	r.f = tj_compile(r.c, many_kernels, cell ? self : NULL,
	                 TJ_OPTS(tj_compile_opts, .name = "many", .nin = 1, .nout = 2, .mode = mode, .dynamic = TJ_DYNAMIC_ON,
	                         .state = cell ? TJ_VARS(self) : NULL));
	return r;
}

static void call(run *r, int rows, float scale, double number, float *y, float *sum)
{
	float x[MOST];
	for (int i = 0; i < rows * 5; i++) x[i] = scale * (float)(i * 7 % 11);
	tj_tensor *out[2];
	tj_scope *s = tj_push(r->c);
	tj_ctx_use(r->c);
	assert_int_equal(tj_call_ex(r->f, out, TJ_LIST(tj_from_data(r->c, TJ_F32, TJ_SHAPE(rows, 5), x)), TJ_SCALARS(TJ_F(number))), TJ_OK);
	assert_int_equal(tj_read(out[0], y, (size_t)rows * 5 * sizeof *y), TJ_OK);
	assert_int_equal(tj_read(out[1], sum, sizeof *sum), TJ_OK);
	kit_ok(r->c);
	tj_pop(s);
}

static unsigned long long replays(tj_fn *f)
{
	tj_stats s = { .size = sizeof s };
	tj_fn_stats(f, &s);
	return s.replays;
}

/* Each call has other tensors at other addresses, another number, and sometimes another size. */
static void replays_use_what_is_new(void **s)
{
	(void)s;
	if (skipped()) return;
	for (int kind = 0; kind < 4; kind++) {
		run cpu = open_run("cpu", kind & 1, kind & 2 ? TJ_DIRECT : TJ_VERIFY),
		    gpu = open_run("cuda:0", kind & 1, kind & 2 ? TJ_DIRECT : TJ_VERIFY);
		for (int i = 0; i < CALLS; i++) {
			const int rows = i % 5 == 4 ? 7 : 4;
			float want[MOST], got[MOST], want_sum, got_sum, held[2][5];
			call(&cpu, rows, (float)(i + 1), 0.25 * i, want, &want_sum);
			call(&gpu, rows, (float)(i + 1), 0.25 * i, got, &got_sum);
			assert_memory_equal(got, want, (size_t)rows * 5 * sizeof *got);
			assert_true(want_sum == got_sum);
			if (!cpu.cell) continue;
			tj_ctx_use(cpu.c), assert_int_equal(tj_read(cpu.cell, held[0], sizeof held[0]), TJ_OK);
			tj_ctx_use(gpu.c), assert_int_equal(tj_read(gpu.cell, held[1], sizeof held[1]), TJ_OK);
			assert_memory_equal(held[0], held[1], sizeof held[0]);
		}
		char *text = kit_explain(gpu.f);
		assert_non_null(strstr(text, " rows of kernels ran as a CUDA graph"));
		free(text);
		assert_true(replays(gpu.f) > 0);
		assert_true(replays(cpu.f) == 0);
		tj_close(gpu.c);
		tj_close(cpu.c);
	}
}

/* More plans than a queue keeps graphs for: each size has one. Then the function is freed while its graphs exist. */
static void graphs_are_evicted(void **s)
{
	(void)s;
	float want[MOST], got[MOST], want_sum, got_sum;
	if (skipped()) return;
	run cpu = open_run("cpu", false, TJ_VERIFY), gpu = open_run("cuda:0", false, TJ_VERIFY);
	for (int turn = 0; turn < 2; turn++)
		for (int rows = 2; rows < (turn ? 6 : MOST_ROWS); rows++) {
			const unsigned long long before = replays(gpu.f);
			call(&cpu, rows, 3, 0.5, want, &want_sum);
			for (int k = 0; k < 5; k++) call(&gpu, rows, 3, 0.5, got, &got_sum);
			assert_memory_equal(got, want, (size_t)rows * 5 * sizeof *got);
			if (replays(gpu.f) <= before) fail_msg("%d rows, turn %d: %llu", rows, turn, before);
		}
	tj_ctx_use(gpu.c);
	tj_fn_free(gpu.f);
	gpu.f = tj_compile(gpu.c, many_kernels, NULL, TJ_OPTS(tj_compile_opts, .name = "many", .nin = 1, .nout = 2));
	for (int k = 0; k < 6; k++) call(&gpu, 4, 3, 0.5, got, &got_sum);
	call(&cpu, 4, 3, 0.5, want, &want_sum);
	assert_memory_equal(got, want, 20 * sizeof *got);
	tj_close(gpu.c);
	tj_close(cpu.c);
}

static void not_when_switched_off(void **s)
{
	(void)s;
	float y[MOST], sum;
	if (skipped()) return;
	run gpu = open_run("cuda:0", false, TJ_VERIFY);
	assert_int_equal(tj_set_settings(gpu.c, TJ_OPTS(tj_settings, .no_graphs = true)), TJ_OK);
	for (int i = 0; i < 8; i++) call(&gpu, 4, 3, 0.5, y, &sum);
	assert_true(replays(gpu.f) == 0);
	assert_int_equal(tj_set_settings(gpu.c, NULL), TJ_OK);
	for (int i = 0; i < 8; i++) call(&gpu, 4, 3, 0.5, y, &sum);
	assert_true(replays(gpu.f) > 0);
	tj_close(gpu.c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(replays_use_what_is_new), cmocka_unit_test(graphs_are_evicted),
		                            cmocka_unit_test(not_when_switched_off) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
