/* SPDX-License-Identifier: MIT */
/* A GPU beside other libraries of the process: devices, waiting, streams, memory of the user there, limits. This program is also the other
 * library: it calls the driver, that of test/fake or a real one. */
#include "test/kit.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef unsigned long long address;
static struct {
	int (*init)(unsigned), (*device)(int *, int), (*retain)(void **, int), (*push)(void *), (*pop)(void **), (*current)(void **);
	int (*alloc)(address *, size_t), (*free)(address), (*write)(address, const void *, size_t, void *),
		(*read)(void *, address, size_t, void *);
	int (*stream)(void **, unsigned), (*drop)(void *), (*sync)(void *);
	void *context;
} cu;

/* Opens the driver; the primary context is current until close_driver(). */
static bool open_driver(void)
{
	static const struct { void *to; const char *name; int version;
	} need[] = {
		{ &cu.init, "cuInit", 2000 },
		{ &cu.device, "cuDeviceGet", 2000 },
		{ &cu.retain, "cuDevicePrimaryCtxRetain", 7000 },
		{ &cu.push, "cuCtxPushCurrent", 4000 },
		{ &cu.pop, "cuCtxPopCurrent", 4000 },
		{ &cu.current, "cuCtxGetCurrent", 4000 },
		{ &cu.alloc, "cuMemAlloc", 3020 },
		{ &cu.free, "cuMemFree", 3020 },
		{ &cu.write, "cuMemcpyHtoDAsync", 3020 },
		{ &cu.read, "cuMemcpyDtoHAsync", 3020 },
		{ &cu.stream, "cuStreamCreate", 2000 },
		{ &cu.drop, "cuStreamDestroy", 4000 },
		{ &cu.sync, "cuStreamSynchronize", 2000 },
	};
	int device, (*get)(const char *, void **, int, uint64_t, void *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
	if (tj_find_device("cuda:0") <= 0 || !symbol) {
		printf("SKIP test_streams: no GPU and no fake of one\n");
		return false;
	}
	memcpy(&get, &symbol, sizeof get);
	for (size_t i = 0; i < sizeof need / sizeof *need; i++) {
		assert_int_equal(get(need[i].name, &symbol, need[i].version, 0, NULL), 0);
		memcpy(need[i].to, &symbol, sizeof symbol);
	}
	assert_int_equal(cu.init(0) | cu.device(&device, 0) | cu.retain(&cu.context, device) | cu.push(cu.context), 0);
	return true;
}

/* The library has left this thread's current context as it was. */
static void close_driver(void)
{
	void *c = NULL;
	assert_int_equal(cu.current(&c), 0);
	assert_ptr_equal(c, cu.context);
	assert_int_equal(cu.pop(&c), 0);
	assert_int_equal(cu.current(&c), 0);
	assert_null(c);
}

static tj_ctx *open_gpu(tj_device *gpu)
{
	*gpu = tj_find_device("cuda:0");
	return tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
}

static void list(void **s)
{
	(void)s;
	const char *const *name = tj_devices();
	assert_string_equal(name[0], "cpu");
	for (int i = 0; name[i]; i++) {
		if (strchr(name[i], ' ')) assert_true(!name[i + 1] && strstr(name[i], "cuda: ") == name[i]);
		else assert_int_equal(tj_find_device(name[i]), i);
	}
}

/* ---- tensors on a device that is not the context's ---- */
static void made(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const tj_device gpu = *(tj_device *)self;
	out[0] = tj_add(in[0], tj_full_on(gpu, TJ_F32, TJ_SHAPE(3), tj_f(2)));
	out[1] = tj_add(tj_cast(tj_arange_on(gpu, TJ_I64, 0, 3, 1), TJ_F32), tj_uniform_on(gpu, TJ_F32, TJ_SHAPE(3)));
	out[2] = tj_eye_on(gpu, TJ_F32, 2, 2);
}

static void on_a_given_device(void **s)
{
	(void)s;
	const float x[3] = { 1, 2, 3 };
	if (!open_driver()) return;
	tj_ctx *c = kit_open();
	tj_device gpu = tj_find_device("cuda:0");
	tj_tensor *there = tj_from_data_on(c, gpu, TJ_F32, TJ_SHAPE(3), x), *cell = tj_param_on(c, gpu, TJ_F32, TJ_SHAPE(3)), *out[3];
	assert_int_equal(tj_device_of(there), gpu);
	assert_int_equal(tj_device_of(cell), gpu);
	assert_int_equal(tj_device_of(tj_constant_on(c, gpu, TJ_F32, TJ_SHAPE(3), x)), gpu);
	assert_int_equal(tj_device_of(tj_from_data(c, TJ_F32, TJ_SHAPE(3), x)), TJ_CPU);
	tj_fn *f = tj_compile(c, made, &gpu, TJ_OPTS(tj_compile_opts, .name = "made", .nin = 1, .nout = 3));
	assert_int_equal(tj_call(f, out, TJ_LIST(there)), TJ_OK);
	for (int i = 0; i < 3; i++) assert_int_equal(tj_device_of(out[i]), gpu);
	assert_f32(out[0], 3, 4, 5);
	assert_f32(out[2], 1, 0, 0, 1);
	char *plan = kit_dump(f, TJ_DUMP_PLAN);
	assert_null(strstr(plan, "  to "));  /* nothing is copied */
	free(plan);
	assert_true(tj_is_poison(tj_from_data_on(c, 77, TJ_F32, TJ_SHAPE(3), x)));
	kit_error(c, TJ_ERR_DEVICE, "there is no device 77");
	assert_true(tj_is_poison(tj_param_on(c, -2, TJ_F32, TJ_SHAPE(3))));
	kit_error(c, TJ_ERR_DEVICE, "there is no device");
	tj_close(c);
	close_driver();
}

/* ---- memory of the user ---- */
static void twice(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(2));
	out[1] = tj_transpose(in[0], 0, 1);
}

static void count(void *env) { ++*(int *)env; }

static void memory_of_the_user(void **s)
{
	(void)s;
	const float x[6] = { 1, 2, 3, 4, 5, 6 };
	float y[6];
	address in, to;
	tj_device gpu;
	int released = 0;
	tj_tensor *out[2];
	if (!open_driver()) return;
	tj_ctx *c = open_gpu(&gpu);
	void *stream = tj_stream(c, gpu);
	assert_non_null(stream);
	assert_int_equal(cu.alloc(&in, sizeof x) | cu.alloc(&to, sizeof y), 0);
	assert_int_equal(cu.write(in, x, sizeof x, stream), 0);
	tj_scope *scope = tj_push(c);
	tj_tensor *t = tj_wrap_on(c, gpu, TJ_F32, TJ_SHAPE(2, 3), NULL, (const void *)(uintptr_t)in, count, &released);
	tj_fn *f = tj_compile(c, twice, NULL, TJ_OPTS(tj_compile_opts, .name = "twice", .nin = 1, .nout = 2));
	const tj_into into[2] = { { (void *)(uintptr_t)to, sizeof y, gpu }, { NULL, 0, TJ_CPU } };
	assert_int_equal(tj_call_into(f, out, TJ_LIST(t), NULL, into), TJ_OK);
	assert_ptr_equal(tj_device_data(out[0]), (void *)(uintptr_t)to);
	assert_int_equal(cu.read(y, to, sizeof y, stream), 0); /* after the kernel: it is the same stream */
	for (int i = 0; i < 6; i++) assert_true(y[i] == 2 * x[i]);
	assert_ptr_equal(tj_device_data(t), (void *)(uintptr_t)in);
	assert_int_equal(cu.read(y, (address)(uintptr_t)tj_device_data(out[1]), sizeof y, stream), 0); /* a view: its elements are packed there */
	for (int i = 0; i < 6; i++) assert_true(y[i] == x[i % 2 * 3 + i / 2]);
	tj_pop(scope);
	assert_int_equal(released, 1);
	assert_true(tj_is_poison(tj_wrap_on(c, gpu, TJ_F32, TJ_SHAPE(6), NULL, x, NULL, NULL))); /* an address of the host */
	kit_error(c, TJ_ERR_ARG, "not memory of the device");
	assert_int_equal(tj_call_into(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), x)), NULL,
	                              (tj_into[]){ { y, sizeof y, gpu }, { NULL, 0, 0 } }),
	                 TJ_ERR_DEVICE);
	kit_error(c, TJ_ERR_DEVICE, "is not memory of device");
	assert_int_equal(cu.free(in) | cu.free(to), 0);
	kit_ok(c);
	tj_close(c);
	close_driver();
}

/* Copies are cut into pieces that share memory of the host. */
static void large_copies(void **s)
{
	(void)s;
	enum { N = 3 << 20 };
	tj_device gpu;
	if (tj_find_device("cuda:0") < 0) return;
	tj_ctx *c = open_gpu(&gpu);
	int32_t *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
	tj_tensor *t[24];
	for (int i = 0; i < N; i++) x[i] = i * 2654435761u >> 3;
	for (int i = 0; i < 24; i++) t[i] = tj_from_data(c, TJ_I32, TJ_SHAPE(i % 3 ? N / 9 + i : N), x + (i % 3 ? i : 0));
	for (int i = 0; i < 24; i++) {
		const size_t n = (size_t)tj_numel(t[i]);
		assert_int_equal(tj_read(t[i], y, n * sizeof *y), TJ_OK);
		assert_memory_equal(y, x + (i % 3 ? i : 0), n * sizeof *y);
	}
	for (int i = 0; i < N; i++) y[i] = 7;
	tj_tensor *last = tj_from_data(c, TJ_I32, TJ_SHAPE(N), x);
	memset(x, 0x55, N * sizeof *x);
	assert_int_equal(tj_read(last, y, N * sizeof *y), TJ_OK);
	for (int i = 0; i < N; i++) assert_true(y[i] == (int32_t)(i * 2654435761u >> 3));
	free(x);
	free(y);
	kit_ok(c);
	tj_close(c);
}

/* ---- streams ---- */
static void streams_of_the_user(void **s)
{
	(void)s;
	const float x[4] = { 1, 2, 3, 4 };
	float y[4];
	tj_device gpu;
	void *mine;
	if (!open_driver()) return;
	tj_ctx *c = open_gpu(&gpu);
	void *own = tj_stream(c, gpu);
	assert_int_equal(cu.stream(&mine, 1), 0);
	tj_tensor *t = tj_mul(tj_from_data(c, TJ_F32, TJ_SHAPE(4), x), tj_f(3));
	assert_int_equal(tj_set_stream(c, gpu, mine), TJ_OK);
	assert_ptr_equal(tj_stream(c, gpu), mine);
	t = tj_add(t, tj_f(1));
	assert_int_equal(cu.read(y, (address)(uintptr_t)tj_device_data(t), sizeof y, mine), 0);
	for (int i = 0; i < 4; i++) assert_true(y[i] == 3 * x[i] + 1);
	assert_int_equal(tj_set_stream(c, gpu, (void *)2), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "default stream");
	assert_int_equal(tj_set_stream(c, gpu, NULL), TJ_OK);
	assert_ptr_equal(tj_stream(c, gpu), own);
	assert_f32(t, 4, 7, 10, 13);
	assert_null(tj_stream(c, TJ_CPU));
	kit_error(c, TJ_ERR_DEVICE, "cpu has no streams");
	assert_int_equal(tj_sync(c), TJ_OK);
	assert_int_equal(cu.drop(mine), 0);
	kit_ok(c);
	tj_close(c);
	close_driver();
}

static void picks(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_index_select(in[0], 0, in[1]); }

/* Puts a kernel into the queue that finds a fault. */
static void put_fault(tj_ctx *c)
{
	const int64_t at[2] = { 0, 9 };
	const float x[4] = { 1, 2, 3, 4 };
	tj_fn *f = tj_compile(c, picks, NULL, TJ_OPTS(tj_compile_opts, .name = "picks", .nin = 2, .nout = 1));
	tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(4), x), tj_from_data(c, TJ_I64, TJ_SHAPE(2), at)));
}

static void waiting_reports_faults(void **s)
{
	(void)s;
	tj_device gpu;
	if (!open_driver()) return;
	tj_ctx *c = open_gpu(&gpu);
	put_fault(c);
	assert_int_equal(tj_sync(c), TJ_ERR_INDEX);
	kit_error(c, TJ_ERR_INDEX, "out of range");
	assert_int_equal(tj_sync(c), TJ_OK);
	tj_close(c);
	close_driver();
}

/* What the host writes behind a fault is there, and so is an empty value that is made after the report. */
static void nothing_else_is_lost(void **s)
{
	(void)s;
	const float x[4] = { 1, 2, 3, 4 };
	tj_device gpu;
	if (!open_driver()) return;
	tj_ctx *c = open_gpu(&gpu);
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(2));
	put_fault(c);
	assert_int_equal(tj_write(cell, x + 1, 2 * sizeof *x), TJ_OK);
	tj_tensor *written = tj_from_data(c, TJ_F32, TJ_SHAPE(2), x), *zeros = tj_param(c, TJ_F32, TJ_SHAPE(2));
	assert_int_equal(tj_sync(c), TJ_ERR_INDEX);
	kit_error(c, TJ_ERR_INDEX, "out of range");
	assert_f32(cell, 2, 3);
	assert_f32(written, 1, 2);
	assert_f32(zeros, 0, 0);
	tj_data(tj_full(TJ_F32, TJ_SHAPE(3, 0), tj_f(1)));
	kit_ok(c);
	tj_close(c);
	close_driver();
}

static void not_in_a_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_ctx *c = self;
	(void)(tj_sync(c) == TJ_ERR_STATE);
	out[0] = in[0];
}

static void a_body_cannot_wait(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_fn *f = tj_compile(c, not_in_a_body, c, TJ_OPTS(tj_compile_opts, .name = "waits", .nin = 1, .nout = 1));
	tj_call1(f, TJ_LIST(F32(c, 1)));
	kit_error(c, TJ_ERR_STATE, "not allowed in a body");
	tj_close(c);
}

/* ---- memory ---- */
static tj_memory memory_of(tj_ctx *c, tj_device d)
{
	tj_memory m = { .size = sizeof m };
	assert_int_equal(tj_memory_stats(c, d, &m), TJ_OK);
	return m;
}

static void measured(tj_ctx *c, tj_device d)
{
	enum { N = 1 << 20 };
	float *x = calloc(N, sizeof *x);
	const tj_memory before = memory_of(c, d);
	tj_scope *s = tj_push(c);
	tj_from_data_on(c, d, TJ_F32, TJ_SHAPE(N), x);
	const tj_memory with = memory_of(c, d);
	assert_true(with.allocated >= before.allocated + 4 * N && with.peak >= with.allocated && with.allocations > before.allocations);
	tj_pop(s);
	assert_true(memory_of(c, d).allocated == with.allocated); /* it is kept */
	assert_int_equal(tj_empty_cache(c, d), TJ_OK);
	assert_true(memory_of(c, d).allocated <= with.allocated - 4 * N && memory_of(c, d).cached == 0);
	assert_true(memory_of(c, d).allocated <= before.allocated); /* temporaries, too */
	assert_int_equal(tj_reset_peak(c, d), TJ_OK);
	assert_true(memory_of(c, d).peak == memory_of(c, d).allocated);
	/* a limit: what is kept is freed first */
	assert_int_equal(tj_limit_memory(c, d, memory_of(c, d).allocated + 5 * N), TJ_OK);
	for (int i = 0; i < 3; i++) {
		s = tj_push(c);
		assert_false(tj_is_poison(tj_from_data_on(c, d, TJ_F32, TJ_SHAPE(N / (i + 1)), x)));
		tj_pop(s);
	}
	assert_true(tj_is_poison(tj_from_data_on(c, d, TJ_F32, TJ_SHAPE(2, N), NULL)));
	kit_error(c, TJ_ERR_ARG, "NULL");
	s = tj_push(c);
	tj_from_data_on(c, d, TJ_F32, TJ_SHAPE(N), x);
	assert_true(tj_is_poison(tj_from_data_on(c, d, TJ_F32, TJ_SHAPE(N), x)));
	kit_error(c, TJ_ERR_NOMEM, "no memory for");
	assert_non_null(strstr(tj_last_error(c)->hint, "tj_limit_memory"));
	tj_pop(s);
	assert_int_equal(tj_limit_memory(c, d, 0), TJ_OK);
	free(x);
}

static void memory(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	measured(c, TJ_CPU);
	const tj_device gpu = tj_find_device("cuda:0");
	if (gpu > 0) {
		measured(c, gpu);
		assert_true(memory_of(c, gpu).total >= memory_of(c, gpu).free && memory_of(c, gpu).total > 0);
	}
	assert_int_equal(tj_memory_stats(c, 55, &(tj_memory){ .size = sizeof(tj_memory) }), TJ_ERR_DEVICE);
	kit_error(c, TJ_ERR_DEVICE, "there is no device 55");
	assert_int_equal(tj_memory_stats(c, TJ_CPU, &(tj_memory){ 0 }), TJ_ERR_ARG);
	kit_error(c, TJ_ERR_ARG, "size is 0");
	tj_close(c);
}

/* ---- times ---- */
static void two_steps(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_softmax(tj_softmax(in[0], 0), 1); }

static void steps_are_measured(void **s)
{
	(void)s;
	static const char *const names[] = { "cpu", "cuda:0" };
	for (int d = 0; d < 2; d++) {
		if (tj_find_device(names[d]) < 0) continue;
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = names[d], .profile = true, .backend = kit_backend));
		tj_fn *f = tj_compile(c, two_steps, NULL, TJ_OPTS(tj_compile_opts, .name = "two", .nin = 1, .nout = 1));
		for (int i = 0; i < 5; i++) tj_call1(f, TJ_LIST(tj_reshape(F32(c, 1, 2, 3, 4), TJ_SHAPE(2, 2))));
		char *plan = kit_dump(f, TJ_DUMP_PLAN);
		int measured = 0;
		for (char *at = plan; (at = strstr(at, "measured=")); at++) measured += strstr(at, "us*5") != NULL;
		assert_true(measured > 0);
		free(plan);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- passes and back ends of the user ---- */
static tj_status adds_one(tj_graph *g, void *self)
{
	static const float one[2] = { 1, 1 };
	tj_node *n = tj_graph_first(g);
	while (n && strcmp(tj_node_op(n), "exp")) n = tj_node_next(n);
	if (!n) return TJ_OK;
	tj_node *c = tj_graph_insert_constant(g, n, TJ_F32, TJ_SHAPE(2), one);
	assert_int_equal(tj_node_device(c), tj_node_device(n));
	tj_node *sum = tj_graph_insert(g, n, "add", (tj_node *[]){ tj_node_input(n, 0), c }, 2, NULL, 0);
	++*(int *)self;
	return tj_graph_replace(g, n, sum) ? TJ_OK : TJ_ERR_ARG;
}

static tj_status never(void *self, tj_graph *g, tj_compiled *out) { return ++*(int *)self, (void)g, (void)out, TJ_OK; }
static void exponential(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_exp(in[0]); }

static void passes_on_a_gpu(void **s)
{
	(void)s;
	int ran = 0, asked = 0;
	if (tj_find_device("cuda:0") < 0) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	const tj_pass passes[] = { { "adds_one", adds_one, &ran }, { 0 } };
	tj_fn *f = tj_compile(
		c, exponential, NULL,
		TJ_OPTS(tj_compile_opts, .name = "e", .nin = 1, .nout = 1, .passes = passes, .backend = never, .backend_self = &asked));
	assert_f32(tj_call1(f, TJ_LIST(F32(c, 5, 6))), 6, 7);
	assert_int_equal(ran, 1);
	assert_int_equal(asked, 0); /* a back end of the user computes with memory of the host */
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list),
		cmocka_unit_test(on_a_given_device),
		cmocka_unit_test(memory_of_the_user),
		cmocka_unit_test(large_copies),
		cmocka_unit_test(streams_of_the_user),
		cmocka_unit_test(waiting_reports_faults),
		cmocka_unit_test(nothing_else_is_lost),
		cmocka_unit_test(a_body_cannot_wait),
		cmocka_unit_test(memory),
		cmocka_unit_test(steps_are_measured),
		cmocka_unit_test(passes_on_a_gpu),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
