/* SPDX-License-Identifier: MIT */
/* Tensors on a device that is not the CPU: the mock device of test/mock.h, through the public interface. */
#include "test/mock.h"
#include "test/kit.h"

enum { N = 1000 };

static tj_ctx *open_on(const char *device)
{
	mock_device();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	assert_non_null(c);
	return c;
}

static void fill(float *x, int n, float step)
{
	for (int i = 0; i < n; i++) x[i] = (float)(i % 37 - 18) * step;
}

/* ---- ops, eager and compiled ---- */
static void a_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_add(tj_mul(in[0], tj_f(0.5)), in[1]);
	out[0] = tj_softmax(x, -1);
	out[1] = tj_sum(tj_gelu(x), TJ_AXES(0), false);
}

static void run_a(tj_ctx *c, tj_mode mode, float *y, float *z)
{
	float a[N], b[N / 10];
	fill(a, N, 0.1f);
	fill(b, N / 10, 0.3f);
	tj_fn *f = tj_compile(c, a_body, NULL, TJ_OPTS(tj_compile_opts, .name = "a", .nin = 2, .nout = 2, .mode = mode));
	for (int turn = 0; turn < 4; turn++) {
		tj_scope *s = tj_push(c);
		tj_tensor *out[2], *in[3] = { tj_from_data(c, TJ_F32, TJ_SHAPE(10, N / 10), a), tj_from_data(c, TJ_F32, TJ_SHAPE(N / 10), b), TJ_END };
		assert_int_equal(tj_call(f, out, in), TJ_OK);
		assert_int_equal(tj_device_of(out[0]), tj_device_of(in[0]));
		assert_int_equal(tj_read(out[0], y, N * sizeof *y), TJ_OK);
		assert_int_equal(tj_read(out[1], z, N / 10 * sizeof *z), TJ_OK);
		tj_pop(s);
	}
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

/* No kernel indexes the reshape of a transposed value, and the evaluator reads no memory of a device. */
static void reshape_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_reshape(tj_transpose(tj_exp(in[0]), 0, 1), TJ_SHAPE(8, N / 8));
	out[1] = tj_neg(out[0]);
}

static void run_reshape(tj_ctx *c, float y[2][N])
{
	float a[N];
	fill(a, N, 0.1f);
	tj_fn *f = tj_compile(c, reshape_body, NULL, TJ_OPTS(tj_compile_opts, .name = "reshape", .nin = 1, .nout = 2));
	tj_tensor *out[2], *in[2] = { tj_from_data(c, TJ_F32, TJ_SHAPE(10, N / 10), a), TJ_END };
	assert_int_equal(tj_call(f, out, in), TJ_OK);
	for (int i = 0; i < 2; i++) assert_int_equal(tj_read(out[i], y[i], sizeof y[i]), TJ_OK);
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

static void reshape_of_transposed(void **state)
{
	float y[2][2][N];
	(void)state;
	run_reshape(open_on("cpu"), y[0]);
	run_reshape(open_on("mock:0"), y[1]);
	assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void bits_of_the_cpu(void **state)
{
	float y[2][N], z[2][N / 10];
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		run_a(open_on("cpu"), mode ? TJ_DIRECT : TJ_VERIFY, y[0], z[0]);
		uint64_t before = mock_launches();
		run_a(open_on("mock:0"), mode ? TJ_DIRECT : TJ_VERIFY, y[1], z[1]);
		assert_true(mock_launches() > before);
		assert_memory_equal(y[0], y[1], sizeof y[0]);
		assert_memory_equal(z[0], z[1], sizeof z[0]);
	}
}

/* ---- what the device does not compute ---- */
static void product_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(tj_matmul(tj_neg(in[0]), in[0]));
}

static void count_moved(void *self, const tj_reason *note)
{
	if (!strcmp(note->kind, "device")) *(int *)self += strstr(note->text, "matmul is computed by the CPU: no kernel of mock:0 ") ? 1 : 100;
}

/* The CPU computes the product, and a note says so; of the other ops nothing is said, nor of a product on the CPU. */
static void moved_to_the_cpu(void **state)
{
	float a[9] = { 0.5f, -1, 0.25f, 1, 0, -0.5f, 2, 1, -2 }, y[2][9];
	(void)state;
	for (int mock = 0; mock < 2; mock++) {
		int moved = 0;
		tj_ctx *c = open_on(mock ? "mock:0" : "cpu");
		tj_fn *f = tj_compile(
			c, product_body, NULL,
			TJ_OPTS(tj_compile_opts, .name = "product", .nin = 1, .nout = 1, .on_note = count_moved, .on_note_self = &moved));
		assert_int_equal(tj_read(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(3, 3), a))), y[mock], sizeof y[mock]), TJ_OK);
		assert_int_equal(moved, mock);
		char *told = kit_explain(f);
		assert_int_equal(strstr(told, "device: matmul at ") != NULL, mock);
		free(told);
		kit_ok(c);
		tj_close(c);
	}
	assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Nothing has run when the call returns. */
static void work_is_late(void **state)
{
	float a[N], y[N], b[N / 10], z[N / 10];
	(void)state;
	tj_ctx *c = open_on("mock:0");
	fill(a, N, 0.1f);
	fill(b, N / 10, 0.1f);
	tj_fn *f = tj_compile(c, a_body, NULL, TJ_OPTS(tj_compile_opts, .name = "a", .nin = 2, .nout = 2));
	tj_tensor *out[2], *in[3] = { tj_from_data(c, TJ_F32, TJ_SHAPE(10, N / 10), a), tj_from_data(c, TJ_F32, TJ_SHAPE(N / 10), b), TJ_END };
	uint64_t before = mock_launches();
	memset(a, 0, sizeof a); /* the data was copied */
	assert_int_equal(tj_call(f, out, in), TJ_OK);
	assert_int_equal(mock_launches(), before);
	assert_true(mock_pending() > 0);
	assert_int_equal(tj_read(out[0], y, sizeof y), TJ_OK);
	assert_true(mock_launches() > before);
	assert_int_equal(tj_read(out[1], z, sizeof z), TJ_OK);
	assert_true(y[0] > 0 && y[0] < 1 && y[0] != y[1]);
	assert_memory_equal(tj_data(out[0]), y, sizeof y); /* a copy on the host */
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

/* ---- mixing devices ---- */
static void two_devices(void **state)
{
	float a[4] = { 1, 2, 3, 4 }, y[4];
	(void)state;
	tj_ctx *c = open_on("cpu");
	const tj_device mock = tj_find_device("mock:0");
	assert_true(mock > 0);
	assert_string_equal(tj_device_name(mock), "mock:0");
	assert_int_equal(tj_find_device("nowhere"), -1);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4), a), *m = tj_to(x, mock);
	assert_int_equal(tj_device_of(m), mock);
	assert_true(tj_is_poison(tj_add(x, m)));
	assert_int_equal(tj_check(c), TJ_ERR_DEVICE);
	assert_non_null(strstr(tj_last_error(c)->message, "cpu and mock:0"));
	assert_non_null(strstr(tj_last_error(c)->hint, "tj_to"));
	assert_ptr_equal(tj_to(x, TJ_CPU), x); /* it is there already */
	tj_tensor *number = tj_f(0.1), *param = tj_param(c, TJ_F32, TJ_0D);
	assert_ptr_equal(tj_to(number, TJ_CPU), number);
	assert_ptr_equal(tj_to(param, TJ_CPU), param);
	tj_tensor *half = tj_full(TJ_F32, TJ_0D, tj_f(0.5)); /* 0-d tensors of the CPU go with any */
	tj_tensor *sum = tj_add(x, tj_to(tj_mul(tj_add(m, tj_i(1)), half), TJ_CPU));
	assert_int_equal(tj_device_of(sum), TJ_CPU);
	assert_int_equal(tj_read(sum, y, sizeof y), TJ_OK);
	for (int i = 0; i < 4; i++) assert_float_equal(y[i], a[i] + (a[i] + 1) * 0.5f, 0);
	assert_true(tj_is_poison(tj_to(x, 77)));
	assert_int_equal(tj_check(c), TJ_ERR_DEVICE);
	tj_close(c);
}

/* A plan with steps of both devices, copies, and an op that the mock device cannot compute. */
static void both_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_device mock = *(tj_device *)self;
	tj_tensor *m = tj_to(tj_transpose(in[0], 0, 1), mock), *w = tj_to(in[1], mock);
	tj_tensor *p = tj_matmul(tj_add(m, tj_f(1)), w);
	out[0] = tj_add(tj_to(tj_relu(p), TJ_CPU), in[1]);
	out[1] = tj_mul(p, p);
}

static void one_plan(void **state)
{
	float a[12], w[9], y[9], z[9];
	(void)state;
	tj_ctx *c = open_on("cpu");
	tj_device mock = tj_find_device("mock:0");
	fill(a, 9, 0.5f);
	fill(w, 9, 0.25f);
	tj_fn *f = tj_compile(c, both_body, &mock, TJ_OPTS(tj_compile_opts, .name = "both", .nin = 2, .nout = 2));
	for (int turn = 0; turn < 3; turn++) {
		tj_tensor *out[2], *in[3] = { tj_from_data(c, TJ_F32, TJ_SHAPE(3, 3), a), tj_from_data(c, TJ_F32, TJ_SHAPE(3, 3), w), TJ_END };
		assert_int_equal(tj_call(f, out, in), TJ_OK);
		assert_int_equal(tj_device_of(out[0]), TJ_CPU);
		assert_int_equal(tj_device_of(out[1]), mock);
		assert_int_equal(tj_read(out[0], y, sizeof y), TJ_OK);
		assert_int_equal(tj_read(out[1], z, sizeof z), TJ_OK);
		for (int i = 0; i < 3; i++)
			for (int j = 0; j < 3; j++) {
				float p = 0;
				for (int k = 0; k < 3; k++) p += (a[k * 3 + i] + 1) * w[k * 3 + j];
				assert_float_equal(z[i * 3 + j], p * p, 1e-4);
				assert_float_equal(y[i * 3 + j], (p > 0 ? p : 0) + w[i * 3 + j], 1e-5);
			}
	}
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

/* One result of an op with several, made from a number alone. */
static void of_a_number(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *at, *least = tj_topk(tj_i(3), 1, 0, false, &at);
	(void)self;
	out[0] = tj_sub(in[0], tj_to(least, tj_device_of(in[0])));
	out[1] = tj_sub(in[0], tj_to(at, tj_device_of(in[0])));
}

static void one_result_of_several(void **state)
{
	const float a[] = { 1, 2 };
	float y[2];
	(void)state;
	tj_ctx *c = open_on("mock:0");
	tj_fn *f = tj_compile(c, of_a_number, NULL, TJ_OPTS(tj_compile_opts, .name = "of_a_number", .nin = 1, .nout = 2));
	tj_tensor *out[2];
	assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2), a))), TJ_OK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tj_read(out[i], y, sizeof y), TJ_OK);
		for (int k = 0; k < 2; k++) assert_float_equal(y[k], a[k] - (i ? 0 : 3), 0);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- guards ---- */
static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(in[0], in[0]);
}

static void keep_reason(void *self, const tj_reason *r) { snprintf(self, 512, "%s", r->text); }

static void a_moved_argument_recompiles(void **state)
{
	float a[4] = { 1, 2, 3, 4 }, y[4];
	char why[512] = "";
	(void)state;
	tj_ctx *c = open_on("cpu");
	const tj_device mock = tj_find_device("mock:0");
	for (int mode = 0; mode < 2; mode++) {
		tj_fn *f = tj_compile(c, twice, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "twice", .nin = 1, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY,
		                              .on_recompile = keep_reason, .on_recompile_self = why));
		for (int turn = 0; turn < 6; turn++) {
			tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4), a), *in[2] = { turn % 2 ? tj_to(x, mock) : x, TJ_END }, *out[1];
			assert_int_equal(tj_call(f, out, in), TJ_OK);
			assert_int_equal(tj_device_of(out[0]), turn % 2 ? mock : TJ_CPU);
			assert_int_equal(tj_read(out[0], y, sizeof y), TJ_OK);
			assert_float_equal(y[3], 8, 0);
			if (turn == 1 && (!strstr(why, "device") || !strstr(why, "mock:0"))) fail_msg("%s", why);
		}
		tj_fn_free(f);
	}
	kit_ok(c);
	tj_close(c);
}

/* ---- faults ---- */
static void pick(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_index_select(in[0], 0, in[1]);
}

static void a_fault_comes_late(void **state)
{
	float a[4] = { 1, 2, 3, 4 }, y[2];
	int64_t good[2] = { 1, 2 }, bad[2] = { 1, 9 };
	(void)state;
	tj_ctx *c = open_on("mock:0");
	tj_fn *f = tj_compile(c, pick, NULL, TJ_OPTS(tj_compile_opts, .name = "pick", .nin = 2, .nout = 1));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4), a), *out[1];
	assert_int_equal(tj_call(f, out, TJ_LIST(x, tj_from_data(c, TJ_I64, TJ_SHAPE(2), good))), TJ_OK);
	assert_int_equal(tj_read(out[0], y, sizeof y), TJ_OK);
	assert_float_equal(y[1], 3, 0);
	tj_tensor *before = tj_add(x, tj_i(1)), *lost[1];
	assert_int_equal(tj_call(f, lost, TJ_LIST(x, tj_from_data(c, TJ_I64, TJ_SHAPE(2), bad))), TJ_OK); /* launched */
	tj_tensor *after = tj_add(lost[0], tj_i(1));
	assert_int_equal(tj_read(before, (float[4]){ 0 }, 4 * sizeof(float)), TJ_ERR_INDEX); /* the first wait reports it */
	assert_int_equal(tj_check(c), TJ_ERR_INDEX);
	assert_non_null(strstr(tj_last_error(c)->site, "test_devices.c"));
	assert_int_equal(tj_read(before, (float[4]){ 0 }, 4 * sizeof(float)), TJ_OK); /* it was computed before */
	assert_int_equal(tj_read(lost[0], y, sizeof y), TJ_ERR_STATE);
	tj_check(c);
	assert_int_equal(tj_read(after, y, sizeof y), TJ_ERR_STATE); /* and so is a value computed from it */
	assert_non_null(strstr((tj_check(c), tj_last_error(c)->message), "lost"));
	assert_true(tj_is_poison(tj_add(after, tj_i(1))));
	tj_check(c);
	assert_int_equal(tj_read(tj_add(x, tj_i(1)), (float[4]){ 0 }, 4 * sizeof(float)), TJ_OK);
	tj_tensor *wrong = tj_index_select(x, 0, tj_from_data(c, TJ_I64, TJ_SHAPE(2), bad));
	assert_true(!tj_is_poison(wrong) && tj_is_poison(tj_retain(wrong))); /* others might use it */
	assert_int_equal(tj_check(c), TJ_ERR_INDEX);
	tj_fn_free(f);
	tj_close(c);
}

typedef struct cells { tj_tensor *cell, *other; } cells;
static void pick_into(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const cells *s = self;
	tj_tensor *v = tj_index_select(in[0], 0, in[1]);
	tj_assign(s->other, tj_add(s->other, tj_i(1)));
	tj_assign(s->cell, v);
	out[0] = v;
}

/* A fault leaves the cells as they were, written in place or not, also where calls in flight have committed (test_undo.c). */
static void a_late_fault_commits_nothing(void **state)
{
	float a[4] = { 1, 2, 3, 4 }, y[2];
	int64_t good[2] = { 1, 2 }, bad[2] = { 1, 9 };
	(void)state;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = open_on("mock:0");
		cells s = { tj_param(c, TJ_F32, TJ_SHAPE(2)), tj_param(c, TJ_F32, TJ_SHAPE(2)) };
		tj_fn *f = tj_compile(c, pick_into, &s,
		                      TJ_OPTS(tj_compile_opts, .name = "into", .nin = 2, .nout = 1, .mode = mode ? TJ_DIRECT : TJ_VERIFY,
		                              .state = TJ_VARS(&s.cell, &s.other)));
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4), a), *out[1];
		for (int turn = 0; turn < 3; turn++)
			assert_int_equal(tj_call(f, out, TJ_LIST(x, tj_from_data(c, TJ_I64, TJ_SHAPE(2), good))), TJ_OK);
		assert_int_equal(tj_call(f, out, TJ_LIST(x, tj_from_data(c, TJ_I64, TJ_SHAPE(2), bad))), TJ_OK);
		assert_int_equal(tj_sync(c), TJ_ERR_INDEX);
		tj_check(c);
		assert_int_equal(tj_read(s.cell, y, sizeof y), TJ_OK);
		assert_float_equal(y[0], 2, 0);
		assert_float_equal(y[1], 3, 0);
		assert_int_equal(tj_read(s.other, y, sizeof y), TJ_OK);
		assert_float_equal(y[0], 3, 0);
		kit_ok(c);
		tj_fn_free(f);
		tj_release(s.cell);
		tj_release(s.other);
		tj_close(c);
	}
}

/* ---- cells, control flow, sizes that depend on data ---- */
static void less(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(in[0], tj_f(100));
}

static void grow(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(3));
	out[1] = tj_add(in[1], tj_i(1));
}

static void flow_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *r[2];
	(void)self;
	tj_while(r, less, grow, TJ_LIST(tj_sum(tj_abs(in[0]), TJ_ALL, false), tj_mul(tj_transpose(in[0], 0, 1), tj_f(2))), self, NULL);
	out[0] = r[0];
	out[1] = r[1];
	out[2] = tj_truth(tj_gt(r[0], tj_f(200))) ? tj_neg(in[0]) : tj_abs(in[0]);
}

static void run_flow(tj_ctx *c, float *y)
{
	float a[6] = { 1, -2, 3, -4, 5, -6 };
	tj_fn *f = tj_compile(c, flow_body, NULL, TJ_OPTS(tj_compile_opts, .name = "flow", .nin = 1, .nout = 3));
	for (int turn = 0; turn < 3; turn++) {
		tj_tensor *out[3], *in[2] = { tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), a), TJ_END };
		assert_int_equal(tj_call(f, out, in), TJ_OK);
		assert_int_equal(tj_device_of(out[1]), tj_device_of(in[0]));
		y[0] = (float)tj_item(out[0]);
		assert_int_equal(tj_read(out[1], y + 1, 6 * sizeof *y), TJ_OK);
		assert_int_equal(tj_read(out[2], y + 7, 6 * sizeof *y), TJ_OK);
		tj_tensor *some = tj_masked_select(out[2], tj_gt(out[2], tj_i(0)));
		assert_int_equal(tj_device_of(some), tj_device_of(in[0]));
		y[13] = (float)tj_item(tj_sum(some, TJ_ALL, false));
		const float *seen = tj_data(tj_transpose(out[1], 0, 1));
		memcpy(y + 14, seen, 6 * sizeof *y);
	}
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

static void control_flow(void **state)
{
	float y[2][20];
	(void)state;
	run_flow(open_on("cpu"), y[0]);
	run_flow(open_on("mock:0"), y[1]);
	assert_memory_equal(y[0], y[1], sizeof y[0]);
}

/* Two contexts with a queue each: one sees the writes of the other. */
static void clones(void **state)
{
	float a[4] = { 1, 2, 3, 4 }, y[4];
	(void)state;
	tj_ctx *c = open_on("mock:0"), *d = tj_ctx_clone(c);
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(4));
	assert_int_equal(tj_write(cell, a, sizeof a), TJ_OK);
	for (int turn = 0; turn < 4; turn++) {
		tj_ctx_use(turn % 2 ? c : d);
		assert_int_equal(tj_assign(cell, tj_mul(cell, tj_i(2))), TJ_OK);
		tj_tensor *kept = tj_retain(tj_add(cell, tj_i(1)));
		tj_ctx_use(turn % 2 ? d : c);
		assert_int_equal(tj_read(kept, y, sizeof y), TJ_OK);
		assert_float_equal(y[3], (float)(4 << (turn + 1)) + 1, 0);
		tj_release(kept);
	}
	assert_int_equal(tj_read(cell, y, sizeof y), TJ_OK);
	assert_float_equal(y[0], 16, 0);
	tj_ctx_use(d);
	kit_ok(d);
	tj_close(d);
	tj_ctx_use(c);
	tj_release(cell);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bits_of_the_cpu),       cmocka_unit_test(reshape_of_transposed),
		cmocka_unit_test(moved_to_the_cpu),      cmocka_unit_test(work_is_late),
		cmocka_unit_test(two_devices),           cmocka_unit_test(one_plan),
		cmocka_unit_test(one_result_of_several), cmocka_unit_test(a_moved_argument_recompiles),
		cmocka_unit_test(a_fault_comes_late),    cmocka_unit_test(a_late_fault_commits_nothing),
		cmocka_unit_test(control_flow),          cmocka_unit_test(clones),
	};
	return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
