/* SPDX-License-Identifier: MIT */
/* scatter_add and its like on a GPU: its kernel (codegen_cuda/scatter.c) against the CPU's loops, bit for bit. The driver and NVRTC are
 * those of test/fake. */
#include "test/kit.h"

#include <math.h>

#define NEED_GPU() do { if (tj_find_device("cuda:0") <= 0) SKIP("no GPU and no fake of one"); } while (0)
enum { MOST = 1 << 20 };

/* ---- one scatter on a device ---- */
typedef struct job {
	tj_dtype dtype;
	int how;                       /* an index of ways */
	int axis, rank;
	int64_t base[4], index[4];     /* sizes */
	unsigned same;                 /* axes, as bits, along which the index is the same everywhere */
	bool zeros, turned;            /* base is one number; src lies in memory in another order */
	bool odd;                      /* with NaN, infinities and zeros of both signs */
	bool narrow;                   /* an index of i32 */
	unsigned seed;
} job;

static void shape_of(const job *j, const int64_t *dim, unsigned one, int64_t *to)
{
	for (int d = 0; d < j->rank; d++) to[d] = one >> d & 1 ? 1 : dim[d];
	to[j->rank] = TJ_END_DIM;
}

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* Fractions: a sum in another order has other bits. Of integers, numbers that wrap. */
static tj_tensor *values(tj_ctx *c, const job *j, const int64_t *dim, unsigned seed, bool turned)
{
	static float data[MOST];
	int64_t to[5], n = 1;
	shape_of(j, dim, 0, to);
	if (turned) to[0] = dim[j->rank - 1], to[j->rank - 1] = dim[0];
	for (int d = 0; d < j->rank; d++) n *= to[d];
	assert_true(n <= MOST);
	const bool whole = j->dtype != TJ_F32 && j->dtype != TJ_F64 && j->dtype != TJ_F16 && j->dtype != TJ_BF16;
	for (int64_t i = 0; i < n; i++)
		data[i] = whole ? (float)(next(&seed) % 200) - 100
		                : ldexpf((float)(int)(next(&seed) % 2001) - 1000, (int)(next(&seed) % 12) - 16);
	static const float strange[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN };
	for (int64_t i = 0; j->odd && i < n; i += 1 + next(&seed) % 40) data[i] = strange[next(&seed) % (i % 7 ? 4 : 5)];
	tj_tensor *x = tj_cast(tj_from_data(c, TJ_F32, to, data), j->dtype);
	return turned ? tj_transpose(x, 0, j->rank - 1) : x;
}

static tj_tensor *indices(tj_ctx *c, const job *j)
{
	static int64_t data[MOST];
	int64_t to[5], n = 1;
	unsigned seed = j->seed;
	shape_of(j, j->index, j->same, to);
	for (int d = 0; d < j->rank; d++) n *= to[d];
	const unsigned most = (unsigned)j->base[j->axis], few = seed & 1 ? most : most / 7 + 1; /* sometimes the same few slots */
	for (int64_t i = 0; i < n; i++) data[i] = next(&seed) % few;
	tj_tensor *index = tj_from_data(c, TJ_I64, to, data);
	return j->narrow ? tj_cast(index, TJ_I32) : index;
}

enum { WAYS = 5 };
static tj_tensor *(*const ways[WAYS])(const char *, tj_tensor *, int, tj_tensor *, tj_tensor *) = { tj_scatter_add_at, tj_scatter_at,
	                                                                                            tj_scatter_prod_at, tj_scatter_amax_at,
	                                                                                            tj_scatter_amin_at };

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	int64_t dim[5], base[5];
	shape_of(j, j->index, 0, dim);
	shape_of(j, j->base, 0, base);
	out[0] = ways[j->how]("test_scatter.c:1", j->zeros ? tj_full(j->dtype, base, tj_i(0)) : in[0], j->axis, tj_expand(in[1], dim), in[2]);
}

static size_t on(const char *device, job *j, char *to, int turns, const char *told)
{
	const bool eval = !strcmp(device, "eval");
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = eval ? "cpu" : device, .backend = eval ? "eval" : NULL));
	tj_fn *f = kit_fn(c, "s", body, j, 3, 1);
	tj_tensor *in[] = { values(c, j, j->base, 1, false), indices(c, j), values(c, j, j->index, 2, j->turned), TJ_END }, *out[1];
	for (int i = 0; i < turns; i++)
		if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
	kit_ok(c);
	const size_t bytes = (size_t)tj_numel(out[0]) * tj_dtype_size(tj_dtype_of(out[0]));
	if (tj_read(out[0], to, bytes) != TJ_OK) kit_ok(c);
	char *text = kit_explain(f);
	if (told && !strstr(text, told)) fail_msg("%s", text);
	if (told && strstr(text, "computed by the CPU")) fail_msg("%s", text);
	free(text);
	tj_close(c);
	return bytes;
}

/* NaN has any bits. */
static bool equal(tj_dtype t, const char *a, const char *b, size_t bytes)
{
	const float *x = (const float *)a, *y = (const float *)b;
	if (t != TJ_F32) return !memcmp(a, b, bytes);
	for (size_t i = 0; i < bytes / sizeof *x; i++)
		if (memcmp(&x[i], &y[i], sizeof *x) && !(isnan(x[i]) && isnan(y[i]))) return false;
	return true;
}

static void same(job j)
{
	static char want[MOST * 8], got[MOST * 8];
	const size_t bytes = on("cpu", &j, want, 1, NULL);
	assert_int_equal(on("cuda:0", &j, got, 1, "a kernel of its own"), bytes);
	if (memcmp(want, got, bytes))
		fail_msg("way %d, dtype %d, axis %d of [%lld,%lld,%lld], index [%lld,%lld,%lld], same %u, seed %u", j.how, j.dtype, j.axis,
		         (long long)j.base[0], (long long)j.base[1], (long long)j.base[2], (long long)j.index[0], (long long)j.index[1],
		         (long long)j.index[2], j.same, j.seed);
}

/* ---- tests ---- */
static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_I8, TJ_U8, TJ_I16, TJ_I32, TJ_I64, TJ_BOOL };

/* The gradient of an embedding: one index for a row. Its columns need one block or several; slots and index, too. */
static void rows(void **s)
{
	static const int64_t size[][3] = { { 50, 8, 20 },    { 1000, 64, 300 }, { 7, 700, 33 },
		                           { 1500, 3, 513 }, { 40, 256, 256 },  { 2, 257, 1 } }; /* slots, columns, entries */
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		for (size_t i = t < 2 ? 0 : t % 2; i < sizeof size / sizeof *size; i += t < 2 ? 1 : 2)
			same((job){ .dtype = types[t],
			            .rank = 2,
			            .base = { size[i][0], size[i][1] },
			            .index = { size[i][2], size[i][1] },
			            .same = 2,
			            .zeros = (t + i) & 1,
			            .turned = (t + i) & 2,
			            .seed = (unsigned)(t * 16 + i) });
}

/* One column: a histogram. Its additions into a slot stay in order. */
static void histograms(void **s)
{
	(void)s;
	NEED_GPU();
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		same((job){ .dtype = types[t], .rank = 1, .base = { 10 }, .index = { 1200 }, .seed = (unsigned)t });
		same((job){ .dtype = types[t], .rank = 1, .base = { 9000 }, .index = { 1000 }, .zeros = true, .seed = (unsigned)t });
	}
}

/* Each column has an index of its own; the index may be shorter than the base along every axis. */
static void any_axis(void **s)
{
	unsigned seed = 11;
	(void)s;
	NEED_GPU();
	for (int i = 0; i < 150; i++) {
		job j = { .dtype = types[i % 10],
			  .how = i < 60 ? 0 : i / 10 % WAYS,
			  .rank = 1 + (int)(next(&seed) % 3),
			  .zeros = next(&seed) & 1,
			  .turned = next(&seed) & 1 };
		j.axis = (int)(next(&seed) % (unsigned)j.rank);
		for (int d = 0; d < j.rank; d++) {
			static const int64_t dims[] = { 1, 2, 3, 5, 8, 17, 40, 33, 129, 0 };
			j.base[d] = dims[next(&seed) % 9];
			j.index[d] = d == j.axis ? dims[next(&seed) % 10] : next(&seed) & 1 ? j.base[d] : 1 + (int64_t)(next(&seed) % (unsigned)j.base[d]);
		}
		j.same = next(&seed) & next(&seed) & 7;
		j.seed = seed;
		same(j);
	}
}

/* The other ways: rows with one index, and columns with many sources for an element. */
static void other_ways(void **s)
{
	(void)s;
	NEED_GPU();
	for (int how = 1; how < WAYS; how++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
			same((job){ .how = how,
			            .dtype = types[t],
			            .rank = 2,
			            .base = { 50, 8 },
			            .index = { 40, 8 },
			            .same = 2,
			            .turned = t & 1,
			            .seed = (unsigned)t });
			same((job){ .how = how, .dtype = types[t], .rank = 1, .base = { 10 }, .index = { 300 }, .seed = (unsigned)t });
		}
}

static void no_elements(void **s)
{
	(void)s;
	NEED_GPU();
	same((job){ .dtype = TJ_F32, .rank = 2, .base = { 0, 4 }, .index = { 0, 4 } });
	same((job){ .dtype = TJ_F32, .rank = 2, .base = { 4, 0 }, .index = { 4, 0 } });
	same((job){ .dtype = TJ_F32, .rank = 2, .base = { 4, 6 }, .index = { 0, 6 } });
	same((job){ .dtype = TJ_F32, .rank = 2, .base = { 4, 6 }, .index = { 3, 0 } });
}

/* On the CPU several threads share an index of many elements: parts of another axis, or copies of the result that are joined. An index of
 * i32 is read as it is where a row has neighbours only. */
static const job on_cpu[] = {
	{ .rank = 1, .base = { 1500 }, .index = { 17003 } },
	{ .rank = 1, .base = { 40 }, .index = { 17003 } },
	{ .rank = 2, .base = { 40, 90 }, .index = { 300, 90 }, .same = 2 },
	{ .rank = 2, .base = { 40, 3 }, .index = { 6000, 3 }, .turned = true },
	{ .rank = 2, .axis = 1, .base = { 3, 40 }, .index = { 3, 6001 } },
	{ .rank = 2, .axis = 1, .base = { 3, 40 }, .index = { 3, 6001 }, .turned = true },
	{ .rank = 2, .axis = 1, .base = { 3, 40 }, .index = { 3, 6001 }, .same = 2 },
};
static void on_threads(void **s)
{
	static _Alignas(8) char want[MOST], got[MOST];
	(void)s;
	for (int how = 0; how < WAYS; how++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++)
			for (size_t k = 0; k < 2 * sizeof on_cpu / sizeof *on_cpu; k++) {
				job j = on_cpu[k / 2];
				j.how = how, j.dtype = types[t], j.narrow = k & 1, j.odd = types[t] == TJ_F32 && how > 2;
				j.seed = (unsigned)(16 * t + k / 2);
				const size_t bytes = on("eval", &j, want, 1, NULL);
				assert_int_equal(on("cpu", &j, got, 1, "own loops"), bytes);
				if (!equal(types[t], want, got, bytes)) fail_msg("way %d, dtype %d, shape %zu", how, types[t], k);
			}
}

static void far_index(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_scatter_amax(in[0], 0, in[1], in[2]);
}

/* Any part may find an index that is out of range. */
static void faults_on_threads(void **s)
{
	enum { N = 20000 };
	static int64_t index[N];
	static float x[N];
	(void)s;
	for (int64_t at = 0; at < N; at += N / 3) {
		tj_ctx *c = tj_open(NULL);
		tj_fn *f = kit_fn(c, "s", far_index, NULL, 3, 1);
		index[at] = 10;
		tj_tensor *in[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(10), x), tj_from_data(c, TJ_I64, TJ_SHAPE(N), index),
			            tj_from_data(c, TJ_F32, TJ_SHAPE(N), x), TJ_END },
			  *out[1];
		index[at] = 0;
		assert_int_equal(tj_call(f, out, in), TJ_ERR_INDEX);
		(void)tj_check(c);
		tj_close(c);
	}
}

/* A view of a tensor without elements has an address in its memory, whatever its strides say. */
static void flipped(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *none = tj_flip(in[2], TJ_ALL);
	out[0] = tj_scatter_add(in[0], 0, tj_flip(in[1], TJ_ALL), none);
	out[1] = tj_nonzero(none);
	out[2] = none;
}

static void flips_of_nothing(void **s)
{
	(void)s;
	NEED_GPU();
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *f = tj_compile(c, flipped, NULL, TJ_OPTS(tj_compile_opts, .name = "f", .nin = 3, .nout = 3, .mode = mode ? TJ_DIRECT : TJ_VERIFY));
		tj_tensor *out[3], *index = tj_full(TJ_I64, TJ_SHAPE(2, 0, 900), tj_i(0)), *src = tj_full(TJ_F32, TJ_SHAPE(2, 0, 900), tj_f(0));
		for (int i = 0; i < 5; i++) assert_int_equal(tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(3, 1, 900), tj_f(2)), index, src)), TJ_OK);
		assert_int_equal(tj_numel(out[1]), 0);
		assert_non_null(tj_data(out[2]));
		assert_true(tj_item(tj_sum(out[0], TJ_ALL, false)) == 5400);
		kit_ok(c);
		tj_close(c);
	}
}

static void is_in_order(void **s)
{
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	float y[2];
	tj_tensor *index = tj_from_data(c, TJ_I64, TJ_SHAPE(4), (int64_t[]){ 1, 1, 1, 0 });
	tj_tensor *sum = tj_scatter_add(F32(c, 5, 0), 0, index, F32(c, 1e8f, -1e8f, 1, 2));
	assert_int_equal(tj_read(sum, y, sizeof y), TJ_OK);
	assert_true(y[0] == 7 && y[1] == 1);
	tj_close(c);
}

/* ---- faults ---- */
static void scatter(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_scatter_add(in[0], 0, in[1], in[2]); }

static void faults(void **s)
{
	static const int64_t bad[] = { 4, -1, INT64_MIN, INT64_MAX };
	(void)s;
	NEED_GPU();
	for (int k = 0; k < 4; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *f = kit_fn(c, "s", scatter, NULL, 3, 1);
		int64_t at[600] = { 0 };
		float ones[600], y[8];
		for (int i = 0; i < 600; i++) ones[i] = 1;
		at[k * 150 + 100] = bad[k];
		/* 4 slots: columns with one index (expanded), then with their own */
		for (int own = 0; own < 2; own++) {
			tj_tensor *index = tj_from_data(c, TJ_I64, own ? TJ_SHAPE(300, 2) : TJ_SHAPE(600, 1), at);
			tj_tensor *in[] = { tj_full(TJ_F32, TJ_SHAPE(4, own ? 2 : 1), tj_f(0)), index,
				            tj_from_data(c, TJ_F32, own ? TJ_SHAPE(300, 2) : TJ_SHAPE(600, 1), ones), TJ_END },
				  *out[1];
			if (tj_call(f, out, in) == TJ_OK) tj_sync(c);
			kit_error(c, TJ_ERR_INDEX, "4");
			if (!strstr(tj_last_error(c)->op, "scatter_add")) fail_msg("%s", tj_last_error(c)->op);
			in[1] = tj_from_data(c, TJ_I64, own ? TJ_SHAPE(300, 2) : TJ_SHAPE(600, 1), (int64_t[600]){ 0 });
			assert_int_equal(tj_call(f, out, in), TJ_OK);
			assert_int_equal(tj_read(out[0], y, (own ? 8 : 4) * sizeof *y), TJ_OK);
			assert_true(y[0] == (own ? 300 : 600));
		}
		tj_close(c);
	}
	/* no slots at all */
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		tj_tensor *y = tj_scatter_add(tj_full((tj_dtype)t, TJ_SHAPE(0), tj_i(0)), 0,
		                              tj_from_data(c, TJ_I64, TJ_SHAPE(1), (int64_t[]){ 0 }), tj_cast(F32(c, 1), (tj_dtype)t));
		if (y) tj_sync(c);
		kit_error(c, TJ_ERR_INDEX, "0");
	}
	tj_close(c);
}

/* ---- in a plan with other kernels, many times, with other sizes ---- */
static void train(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *rows = tj_embedding(in[0], in[1]), *grad = tj_mul(tj_sub(rows, tj_f(0.5)), tj_f(0.25));
	const int64_t n = tj_dim(in[1], 0), d = tj_dim(in[0], 1);
	tj_tensor *sum = tj_scatter_add(tj_full(TJ_F32, TJ_SHAPE(tj_dim(in[0], 0), d), tj_f(0)), 0,
	                                tj_expand(tj_unsqueeze(in[1], 1), TJ_SHAPE(n, d)), grad);
	out[0] = tj_sub(in[0], tj_mul(sum, tj_f(0.1)));
}

static void trained(const char *device, float *to, tj_stats *stats)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	tj_fn *f = tj_compile(c, train, NULL, TJ_OPTS(tj_compile_opts, .name = "train", .nin = 2, .nout = 1));
	float first[90 * 12];
	for (int i = 0; i < 90 * 12; i++) first[i] = (float)(i % 37) / 7;
	tj_tensor *table = tj_from_data(c, TJ_F32, TJ_SHAPE(90, 12), first);
	for (int turn = 0; turn < 24; turn++) {
		const int n = turn < 10 ? 40 : 20 + turn;
		int64_t at[64];
		for (int i = 0; i < n; i++) at[i] = (i * 31 + turn * 7) % 90;
		tj_tensor *in[] = { table, tj_from_data(c, TJ_I64, TJ_SHAPE(n), at), TJ_END }, *out[1];
		if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
		table = out[0];
	}
	assert_int_equal(tj_read(table, to, 90 * 12 * sizeof *to), TJ_OK);
	*stats = kit_stats(f);
	tj_close(c);
}

static void trains(void **s)
{
	static float want[90 * 12], got[90 * 12];
	tj_stats cpu, gpu;
	(void)s;
	NEED_GPU();
	trained("cpu", want, &cpu);
	trained("cuda:0", got, &gpu);
	assert_memory_equal(got, want, sizeof want);
	assert_int_equal(gpu.library_calls, 0); /* it is a kernel */
	assert_int_equal(gpu.eval_steps, 0);
	assert_true(gpu.replays > 0);           /* and joins others in a CUDA graph */
	assert_true(gpu.compiles <= 2);
}

static void is_shown(void **s)
{
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_fn *f = kit_fn(c, "s", scatter, NULL, 3, 1);
	tj_tensor *in[] = { tj_full(TJ_F32, TJ_SHAPE(4), tj_f(0)), tj_from_data(c, TJ_I64, TJ_SHAPE(2), (int64_t[]){ 1, 2 }), F32(c, 3, 4),
		            TJ_END },
		  *out[1];
	assert_int_equal(tj_call(f, out, in), TJ_OK);
	char *plan = kit_dump(f, TJ_DUMP_PLAN), *code = kit_dump(f, TJ_DUMP_CODE);
	if (!strstr(plan, "scatter_add")) fail_msg("%s", plan);
	if (!strstr(code, "tj_scatter_add(")) fail_msg("%s", code);
	free(plan);
	free(code);
	tj_close(c);
}

int main(void)
{
	setenv("TJ_THREADS", "5", 1);
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows),
		                            cmocka_unit_test(histograms),
		                            cmocka_unit_test(any_axis),
		                            cmocka_unit_test(other_ways),
		                            cmocka_unit_test(no_elements),
		                            cmocka_unit_test(on_threads),
		                            cmocka_unit_test(faults_on_threads),
		                            cmocka_unit_test(flips_of_nothing),
		                            cmocka_unit_test(is_in_order),
		                            cmocka_unit_test(faults),
		                            cmocka_unit_test(trains),
		                            cmocka_unit_test(is_shown) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
