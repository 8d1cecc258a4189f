/* SPDX-License-Identifier: MIT */
/* GPUs through the public interface: every result has the CPU's bits. The driver and NVRTC are those of test/fake, which run kernels
 * on the CPU; this program finds them first. LD_LIBRARY_PATH with the folders of the real ones chooses a GPU. */
#include "test/kit.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { MOST = 150000, OUTS = 4 };

static int skipped(void)
{
	if (tj_find_device("cuda:0") > 0) return 0;
	printf("SKIP test_cuda: no GPU and no fake of one\n");
	return 1;
}

/* grows: by how much the first size of operand 0 is larger at the second call */
typedef struct job { tj_body *body; void *self; int nin, nout; tj_dtype dtype; int64_t dim[2][3]; tj_dynamic dynamic; int64_t grows; } job;
typedef struct result { char *byte[OUTS]; size_t bytes[OUTS]; tj_dtype dtype[OUTS]; } result;

static void fill(char *to, tj_dtype t, int64_t n, unsigned seed)
{
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 1103515245u + 12345u;
		const int v = (int)(seed >> 16) % 2001 - 1000;
		switch (t) {
		case TJ_F32: ((float *)to)[i] = (float)v / 177; break;
		case TJ_F64: ((double *)to)[i] = (double)v / 177; break;
		case TJ_I64: ((int64_t *)to)[i] = v; break;
		case TJ_I32: ((int32_t *)to)[i] = v * 77777; break;
		case TJ_BF16: ((uint16_t *)to)[i] = (uint16_t)(0x3f00 + (seed >> 20) % 300 + (seed >> 31 << 15)); break;
		case TJ_F16: ((uint16_t *)to)[i] = (uint16_t)(0x3800 + (seed >> 18) % 3000 + (seed >> 31 << 15)); break;
		default: to[i] = (char)v; break;
		}
	}
}

static result run(const char *device, const job *j, int mode)
{
	static char data[2][MOST * 8];
	result r = { 0 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	tj_fn *f = tj_compile(
		c, j->body, j->self,
		TJ_OPTS(tj_compile_opts, .name = "t", .nin = j->nin, .nout = j->nout, .mode = (tj_mode)mode, .dynamic = j->dynamic));
	for (int turn = 0; turn < 2; turn++) {
		tj_tensor *in[3] = { TJ_END, TJ_END, TJ_END }, *out[OUTS];
		for (int i = 0; i < j->nin; i++) {
			int64_t n = 1, dim[4];
			int k = 0;
			for (; k < 3 && j->dim[i][k] >= 0; k++) n *= dim[k] = j->dim[i][k] + (i + k + turn == 1 && turn ? j->grows : 0);
			dim[k] = TJ_END_DIM;
			assert_true(n <= MOST);
			fill(data[i], j->dtype, n, (unsigned)i + 7);
			in[i] = tj_from_data(c, j->dtype, dim, data[i]);
		}
		if (tj_call(f, out, in) != TJ_OK) fail_msg("%s: %s", device, (tj_check(c), tj_last_error(c)->message));
		for (int i = 0; i < j->nout; i++) {
			r.bytes[i] = (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i]));
			r.dtype[i] = tj_dtype_of(out[i]);
			free(r.byte[i]);
			r.byte[i] = malloc(r.bytes[i] + 1);
			assert_string_equal(tj_device_name(tj_device_of(out[i])), device);
			if (tj_read(out[i], r.byte[i], r.bytes[i]) != TJ_OK) fail_msg("%s: %s", device, (tj_check(c), tj_last_error(c)->message));
		}
	}
	kit_ok(c);
	tj_close(c);
	return r;
}

/* On the CPU and on the GPU, verified and direct: equal bits. */
static void same(job j)
{
	const result want = run("cpu", &j, TJ_VERIFY);
	for (int mode = 0; mode < 2; mode++) {
		const result got = run("cuda:0", &j, mode);
		for (int i = 0; i < j.nout; i++) {
			assert_int_equal(got.bytes[i], want.bytes[i]);
			if (memcmp(got.byte[i], want.byte[i], got.bytes[i]))
				fail_msg("output %d of [%lld,%lld] differs", i, (long long)j.dim[0][0], (long long)j.dim[0][1]);
			free(got.byte[i]);
		}
	}
	for (int i = 0; i < j.nout; i++) free(want.byte[i]);
}

/* ---- element by element ---- */
static void chain(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *x = tj_add(tj_mul(in[0], tj_f(0.5)), in[1]);
	out[0] = tj_gelu(x);
	out[1] = tj_where(tj_gt(x, tj_i(0)), tj_log(tj_abs(x)), tj_sin(in[0]));
	out[2] = tj_transpose(x, 0, 1);
	out[3] = tj_sqrt(tj_abs(tj_transpose(x, 0, 1)));
}

static void elements(void **s)
{
	(void)s;
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16 };
	if (skipped()) return;
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		same((job){ .body = chain, .nin = 2, .nout = 4, .dtype = types[t], .dim = { { 13, 33, -1 }, { 33, -1 } } });
}

/* Loads that go along another dimension than the stores: through tiles in shared memory. */
static void turned(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const int last = tj_rank(in[0]) - 1;
	(void)self;
	tj_tensor *x = tj_transpose(in[0], 0, last), *y = tj_transpose(tj_mul(in[1], in[1]), 0, last);
	out[0] = tj_add(x, tj_i(3));
	out[1] = tj_sub(tj_mul(x, x), y);
	out[2] = tj_add(tj_mul(x, y), tj_transpose(tj_transpose(x, 0, last), 0, last));
}

static void tiles(void **s)
{
	(void)s;
	if (skipped()) return;
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_BF16, TJ_I8 };
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		same((job){ .body = turned, .nin = 2, .nout = 3, .dtype = types[t], .dim = { { 45, 70, -1 }, { 45, 70, -1 } } });
	same((job){ .body = turned, .nin = 2, .nout = 3, .dtype = TJ_F32, .dim = { { 32, 3, 64 }, { 32, 3, 64 } } });
	same((job){ .body = turned, .nin = 2, .nout = 3, .dtype = TJ_F32, .dim = { { 100, 33, -1 }, { 100, 33, -1 } }, .dynamic = TJ_DYNAMIC_ON });
}

static void whole_numbers(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_floor_divide(in[0], tj_add(tj_abs(in[1]), tj_i(1)));
	out[1] = tj_bitwise_xor(tj_shift_left(in[0], tj_i(3)), in[1]);
	out[2] = tj_cast(in[0], TJ_I8);
	out[3] = tj_sum(in[0], TJ_AXES(1), false);
}

static void integers(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = whole_numbers, .nin = 2, .nout = 4, .dtype = TJ_I32, .dim = { { 5, 700, -1 }, { 5, 700, -1 } } });
	same((job){ .body = whole_numbers, .nin = 2, .nout = 4, .dtype = TJ_I64, .dim = { { 5, 31, -1 }, { 5, 31, -1 } } });
}

/* ---- reductions ---- */
static void over_rows(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(in[0], -1);
	out[1] = tj_var(in[0], TJ_AXES(-1), 1, false);
	out[2] = tj_argmax(in[0], -1, false);
	out[3] = tj_amin(in[0], TJ_AXES(-1), true);
}

static void over_columns(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(in[0], 0);
	out[1] = tj_sum(in[0], TJ_AXES(0), false);
	out[2] = tj_argmin(in[0], 0, false);
	out[3] = tj_prod(in[0], TJ_AXES(0), true);
}

static void over_all(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(in[0], TJ_ALL, false);
	out[1] = tj_amax(in[0], TJ_ALL, false);
	out[2] = tj_mean(tj_mul(in[0], in[0]), TJ_ALL, false);
}

static tj_tensor *with_nan(tj_tensor *x) { return tj_log(tj_sub(x, tj_f(-5.6))); } /* some are below -5.6 */

static void searches(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_max_with_indices(in[0], 0, false, &out[1]);
	out[2] = tj_argmin(with_nan(in[0]), 0, false);
	out[3] = tj_isnan(tj_amax(with_nan(in[0]), TJ_AXES(0), false));
}

static void sums_and_searches(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(in[0], TJ_AXES(0), false);
	out[1] = tj_argmax(in[0], 0, true);
	out[2] = tj_amin(in[0], TJ_AXES(0), false);
	out[3] = tj_any(tj_gt(in[0], tj_f(5.64)), TJ_AXES(0), false);
}

static void middle_axes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(in[0], TJ_AXES(1), false);
	out[1] = tj_var(in[0], TJ_AXES(0, 2), 1, false);
	out[2] = tj_prod(in[0], TJ_AXES(0), true);
}

static void rows(void **s)
{
	(void)s;
	static const int64_t lengths[] = { 1, 5, 128, 300, 2049, 5000, 20011 };
	if (skipped()) return;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = i % 3 ? TJ_F32 : TJ_F64, .dim = { { 3, lengths[i], -1 } } });
	same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = TJ_BF16, .dim = { { 40, 300, -1 } } });
	for (int64_t n = 3; n < 80; n = n * 4 + 7)
		same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = n % 5 ? TJ_F32 : TJ_F64, .dim = { { 77, n, -1 } } });
}

static void columns(void **s)
{
	(void)s;
	static const int64_t lengths[] = { 1, 33, 1000, 2100 };
	if (skipped()) return;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		same((job){
			.body = over_columns, .nin = 1, .nout = 4, .dtype = i % 2 ? TJ_F64 : TJ_F32, .dim = { { lengths[i], 37, -1 } } });
}

/* The product of a column and a row, summed over its columns: few bytes to read, so no parts pay. */
static void outer_product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_sum(tj_mul(in[0], in[1]), TJ_AXES(0), false);
}

/* More chunks than the warps of a unit take at a time. */
static void passes(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = over_columns, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 18001, 3, -1 } } });
	same((job){ .body = over_columns, .nin = 1, .nout = 4, .dtype = TJ_BF16, .dim = { { 3001, 21, -1 } } });
	same((job){ .body = outer_product,
	            .nin = 2,
	            .nout = 1,
	            .dtype = TJ_F64,
	            .dim = { { 4100, 1, -1 }, { 100, -1 } },
	            .dynamic = TJ_DYNAMIC_ON });
	same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = TJ_F64, .dim = { { 1, 140001, -1 } }, .dynamic = TJ_DYNAMIC_ON });
}

/* Long enough to be shared out in parts. */
static void parts(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = over_all, .nin = 1, .nout = 3, .dtype = TJ_F32, .dim = { { 99991, -1 } } });
	same((job){ .body = searches, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 70001, -1 } } });
	same((job){ .body = searches, .nin = 1, .nout = 4, .dtype = TJ_F64, .dim = { { 40001, -1 } }, .dynamic = TJ_DYNAMIC_ON, .grows = 5000 });
}

/* Few long columns: parts of them, of all dtypes. */
static void tall(void **s)
{
	(void)s;
	static const tj_dtype floats[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16 }, whole[] = { TJ_I64, TJ_I32, TJ_I8, TJ_U8 };
	static const int64_t lengths[] = { 3200, 3201, 4095, 12801 };
	if (skipped()) return;
	for (size_t i = 0; i < 4; i++) {
		same((job){ .body = over_columns, .nin = 1, .nout = 4, .dtype = floats[i], .dim = { { 3300, 5, -1 } } });
		same((job){ .body = sums_and_searches, .nin = 1, .nout = 4, .dtype = whole[i], .dim = { { 3300, 5, -1 } } });
		same((job){ .body = sums_and_searches, .nin = 1, .nout = 4, .dtype = floats[i % 2], .dim = { { lengths[i], i % 2 ? 1 : 11, -1 } } });
	}
	same((job){ .body = sums_and_searches, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 3200, 45, -1 } } });
	same((job){ .body = over_columns, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 3200, 0, -1 } } });
	same((job){ .body = outer_product, .nin = 2, .nout = 1, .dtype = TJ_F32, .dim = { { 0, 3, -1 }, { 3, -1 } } });
	same((job){ .body = searches, .nin = 1, .nout = 4, .dtype = TJ_BF16, .dim = { { 3500, 3, -1 } } });
	same((job){ .body = middle_axes, .nin = 1, .nout = 3, .dtype = TJ_F32, .dim = { { 2, 3300, 5 } } });
	same((job){ .body = middle_axes, .nin = 1, .nout = 3, .dtype = TJ_F64, .dim = { { 3300, 2, 6 } } });
}

/* The sizes are arguments of the code, and differ from call to call: as many parts, more parts, longer ones. */
static void tall_sizes(void **s)
{
	(void)s;
	static const int64_t grows[] = { 7, 900, 5000 };
	if (skipped()) return;
	for (size_t i = 0; i < 3; i++) {
		same((job){ .body = sums_and_searches,
		            .nin = 1,
		            .nout = 4,
		            .dtype = TJ_F32,
		            .dim = { { 3300, 5, -1 } },
		            .dynamic = TJ_DYNAMIC_ON,
		            .grows = grows[i] });
		same((job){ .body = over_columns,
		            .nin = 1,
		            .nout = 4,
		            .dtype = TJ_F64,
		            .dim = { { 3300, 3, -1 } },
		            .dynamic = TJ_DYNAMIC_ON,
		            .grows = grows[i] });
	}
}

/* What kernels of a function move, beside what it must read and write. */
static void moved(tj_body *body, int nout, const int64_t *dim, double least, double most)
{
	static float data[300000];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, body, NULL, TJ_OPTS(tj_compile_opts, .name = "t", .nin = 1, .nout = nout));
	tj_tensor *x = tj_from_data(c, TJ_F32, dim, data), *out[OUTS];
	tj_stats n = { .size = sizeof n };
	assert_int_equal(tj_call(f, out, TJ_LIST(x)), TJ_OK);
	tj_fn_stats(f, &n);
	const double times = (double)n.moved_bytes / (double)(tj_numel(x) * 4);
	if (times < least || times > most) fail_msg("%llu bytes, %.3f times the operand", (unsigned long long)n.moved_bytes, times);
	kit_ok(c);
	tj_close(c);
}

static void relu_of(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_relu(in[0]); }
static void softmax_of(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_softmax(in[0], -1); }
static void column_sum(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(0), false); }
static void turned_sum(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_add(in[0], tj_slice(in[0], 1, 0, 1, 1));
}

static void bytes_moved(void **s)
{
	(void)s;
	if (skipped()) return;
	moved(relu_of, 1, TJ_SHAPE(100, 50), 2, 2);
	moved(turned_sum, 1, TJ_SHAPE(100, 50), 2.02, 2.02);
	moved(softmax_of, 1, TJ_SHAPE(300, 40), 2, 2);           /* rows are read once: in registers, */
	moved(softmax_of, 1, TJ_SHAPE(3, 5000), 2, 2);           /* in shared memory */
	moved(softmax_of, 1, TJ_SHAPE(1, 100000), 4, 4.1);       /* three kernels */
	moved(column_sum, 1, TJ_SHAPE(1000, 50), 1.001, 1.001);
	moved(column_sum, 1, TJ_SHAPE(6400, 10), 1.0156, 1.0158); /* parts of 128 rows are written and read */
}

static void sizes_as_arguments(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 6, 2500, -1 } }, .dynamic = TJ_DYNAMIC_ON });
	same((job){ .body = chain, .nin = 2, .nout = 4, .dtype = TJ_F32, .dim = { { 6, 45, -1 }, { 45, -1 } }, .dynamic = TJ_DYNAMIC_ON });
}

/* Rows that begin where no vector may: one element later, or after 66 elements. */
static void views(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *all = tj_softmax(in[0], 0), *x = tj_slice(all, 1, 1, 65, 1);
	out[0] = tj_neg(x);
	out[1] = tj_sum(x, TJ_AXES(-1), false);
	out[2] = tj_sum(tj_flip(x, TJ_AXES(0)), TJ_AXES(0), false);
	out[3] = tj_relu(tj_slice(all, 1, 0, 64, 1));
}

static void parts_of_rows(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = views, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 9, 66, -1 } } });
	same((job){ .body = views, .nin = 1, .nout = 4, .dtype = TJ_BF16, .dim = { { 9, 72, -1 } } });
}

/* Several short rows in a block, each kept in shared memory. */
static void short_rows(void **s)
{
	(void)s;
	if (skipped()) return;
	same((job){ .body = over_rows, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 13, 40, -1 } } });
}

/* ---- two contexts ---- */
static void doubled(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_add(in[0], in[0]); }

/* The queue of one context reads what that of the other one writes, and frees soon after. */
static void two_contexts(void **s)
{
	(void)s;
	float x[64], y[64];
	if (skipped()) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0")), *d = tj_ctx_clone(c);
	tj_fn *f = tj_compile(c, doubled, NULL, TJ_OPTS(tj_compile_opts, .name = "doubled", .nin = 1, .nout = 1));
	for (int turn = 0; turn < 12; turn++) {
		char seed[16];
		snprintf(seed, sizeof seed, "%d", turn / 2);
		setenv("FAKE_CUDA_SEED", seed, 1); /* another order of the work of both queues */
		for (int i = 0; i < 64; i++) x[i] = (float)(turn + i);
		tj_ctx_use(c);
		tj_scope *outer = tj_push(c);
		tj_tensor *t = tj_retain(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(64), x))));
		tj_ctx_use(d);
		tj_scope *inner = tj_push(d);
		tj_tensor *r = tj_call1(f, TJ_LIST(t));
		tj_release(t);
		tj_ctx_use(c);
		tj_pop(outer);
		assert_int_equal(tj_empty_cache(c, tj_find_device("cuda:0")), TJ_OK);
		tj_ctx_use(d);
		assert_int_equal(tj_read(r, y, sizeof y), TJ_OK);
		for (int i = 0; i < 64; i++) assert_true(y[i] == 4 * x[i]);
		tj_pop(inner);
	}
	unsetenv("FAKE_CUDA_SEED");
	kit_ok(d);
	tj_close(d);
	tj_ctx_use(c);
	kit_ok(c);
	tj_close(c);
}

/* ---- faults and cells ---- */
static void picks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = *(tj_tensor **)self;
	tj_assign(cell, tj_add(cell, tj_i(1)));
	out[0] = tj_index_select(in[0], 0, in[1]);
}

/* The GPU finds the fault after the call has returned; then the cell has its old value again. */
static void a_late_fault(void **s)
{
	(void)s;
	const float x[4] = { 1, 2, 3, 4 };
	const int64_t good[2] = { 3, 0 }, bad[2] = { 1, 4 };
	float y[2], held;
	if (skipped()) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_tensor *cell = tj_param(c, TJ_F32, TJ_0D), *t = tj_from_data(c, TJ_F32, TJ_SHAPE(4), x);
	tj_fn *f = tj_compile(c, picks, &cell, TJ_OPTS(tj_compile_opts, .name = "picks", .nin = 2, .nout = 1));
	assert_int_equal(tj_read(tj_call1(f, TJ_LIST(t, tj_from_data(c, TJ_I64, TJ_SHAPE(2), good))), y, sizeof y), TJ_OK);
	assert_true(y[0] == 4 && y[1] == 1);
	kit_ok(c);
	tj_tensor *lost = tj_call1(f, TJ_LIST(t, tj_from_data(c, TJ_I64, TJ_SHAPE(2), bad)));
	assert_int_not_equal(tj_read(lost, y, sizeof y), TJ_OK);
	kit_error(c, TJ_ERR_INDEX, "out of range for an axis of size 4");
	assert_int_equal(tj_read(cell, &held, sizeof held), TJ_OK);
	assert_true(held == 1);
	kit_ok(c);
	tj_close(c);
}

/* One kernel with sums in f32 and in f64, whose trees differ in lanes. */
static void sums_of_both_widths(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *wide = tj_cast(in[0], TJ_F64), *s = tj_sum(in[0], TJ_AXES(-1), true);
	out[0] = tj_sum(tj_mul(wide, s), TJ_AXES(-1), true);
	out[1] = tj_mean(tj_cast(tj_softmax(in[0], -1), TJ_F64), TJ_AXES(-1), true);
	out[2] = tj_sum(in[0], TJ_AXES(-1), true);
	out[3] = tj_sum(wide, TJ_AXES(-1), false);
}

static void both_widths(void **s)
{
	(void)s;
	static const int64_t lengths[] = { 1, 3, 16, 33, 100, 129, 2000, 5000 };
	if (skipped()) return;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		same((job){ .body = sums_of_both_widths, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 3, lengths[i], -1 } } });
	same((job){ .body = sums_of_both_widths, .nin = 1, .nout = 4, .dtype = TJ_BF16, .dim = { { 3, 300, -1 } } });
	same((job){ .body = sums_of_both_widths, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 3, 300, -1 } }, .dynamic = TJ_DYNAMIC_ON });
}

/* ---- equal kernels are compiled once ---- */
static tj_ctx *compiled_in(const char *name)
{
	static const float x[6] = { 1, 2, 3, 4, 5, 6 };
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = tj_compile(c, over_rows, NULL, TJ_OPTS(tj_compile_opts, .name = name, .nin = 1, .nout = 4));
	tj_tensor *out[4];
	assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), x))), TJ_OK);
	assert_true(((const int64_t *)tj_data(out[2]))[1] == 2);
	return c;
}

static void equal_programs(void **s)
{
	(void)s;
	if (skipped()) return;
	void (*left)(int *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *symbol = library ? dlsym(library, "fake_left") : NULL;
	int before[5], one[5], two[5];
	if (!symbol) { /* a GPU */
		printf("SKIP equal_programs: only the fake driver counts modules\n");
		return;
	}
	memcpy(&left, &symbol, sizeof left);
	left(before);
	tj_ctx *a = compiled_in("one");
	left(one);
	tj_ctx *b = compiled_in("another");
	left(two);
	assert_int_equal(one[4], before[4] + 1);
	assert_int_equal(two[4], one[4]); /* found by its text, in another engine and under another name */
	tj_close(a);
	tj_ctx_use(b);
	tj_close(compiled_in("third"));
	tj_close(b);
	left(two);
	assert_int_equal(two[4], before[4]);
}

/* A GPU that is newer than NVRTC: its driver compiles PTX. */
static void newer_than_nvrtc(void **s)
{
	(void)s;
	if (skipped()) return;
	setenv("FAKE_NVRTC_NEWEST", "80", 1);
	same((job){ .body = sums_of_both_widths, .nin = 1, .nout = 4, .dtype = TJ_F32, .dim = { { 7, 61, -1 } } });
	setenv("FAKE_NVRTC_NEWEST", "70", 1); /* none that this GPU could run: a clear error */
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = kit_fn(c, "sums", sums_of_both_widths, NULL, 1, 4);
	tj_tensor *out[4];
	const tj_status st = tj_call(f, out, TJ_LIST(tj_reshape(F32(c, 1, 2, 3, 4, 5, 6), TJ_SHAPE(2, 3))));
	unsetenv("FAKE_NVRTC_NEWEST");
	if (st != TJ_OK) kit_error(c, TJ_ERR_COMPILE, "cannot compile for sm_"); /* a real NVRTC does not know the variable */
	tj_close(c);
}

static void texts(void **s)
{
	(void)s;
	if (skipped()) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = kit_fn(c, "sums", sums_of_both_widths, NULL, 1, 4);
	tj_tensor *out[4];
	assert_int_equal(tj_call(f, out, TJ_LIST(tj_reshape(F32(c, 1, 2, 3, 4), TJ_SHAPE(2, 2)))), TJ_OK);
	char *code = kit_dump(f, TJ_DUMP_CODE), *assembly = kit_dump(f, TJ_DUMP_ASSEMBLY), *told = kit_explain(f);
	assert_non_null(strstr(code, "__global__"));
	assert_non_null(strstr(assembly, "bytes of machine code for sm_"));
	assert_non_null(strstr(told, "; of cuda:0: cuda"));
	free(code);
	free(assembly);
	free(told);
	kit_ok(c);
	tj_close(c);
}

/* Without a back end the evaluator computes for the device: a value between two of its steps is in memory of the device. */
static void diagonal(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_diagonal(in[0], -1, 1, 0);
}

static void evaluated(void **state)
{
	const float a[6] = { 0, 1, 2, 3, 4, 5 };
	float y[2];
	(void)state;
	if (skipped()) return;
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0", .backend = "eval"));
	tj_fn *f = tj_compile(c, diagonal, NULL, TJ_OPTS(tj_compile_opts, .name = "diagonal", .nin = 1, .nout = 1));
	for (int compiled = 0; compiled < 2; compiled++) {
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2, 3), a);
		assert_int_equal(tj_read(compiled ? tj_call1(f, TJ_LIST(x)) : tj_diagonal(x, -1, 1, 0), y, sizeof y), TJ_OK);
		assert_float_equal(y[0], 1, 0);
		assert_float_equal(y[1], 5, 0);
	}
	kit_ok(c);
	tj_fn_free(f);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evaluated),      cmocka_unit_test(elements),
		cmocka_unit_test(integers),       cmocka_unit_test(rows),
		cmocka_unit_test(columns),        cmocka_unit_test(passes),
		cmocka_unit_test(tiles),          cmocka_unit_test(parts),
		cmocka_unit_test(tall),           cmocka_unit_test(tall_sizes),
		cmocka_unit_test(bytes_moved),    cmocka_unit_test(sizes_as_arguments),
		cmocka_unit_test(parts_of_rows),  cmocka_unit_test(short_rows),
		cmocka_unit_test(two_contexts),   cmocka_unit_test(both_widths),
		cmocka_unit_test(equal_programs), cmocka_unit_test(a_late_fault),
		cmocka_unit_test(texts),          cmocka_unit_test(newer_than_nvrtc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
