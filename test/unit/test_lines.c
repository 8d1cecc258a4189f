/* SPDX-License-Identifier: MIT */
/* Ops along an axis on a GPU: the kernels of codegen_cuda/cumulate.c, sort.c and search.c against the evaluator, bit for bit. The driver
 * and NVRTC are those of test/fake. */
#include "test/kit.h"

#include <math.h>

#define NEED_GPU() do { if (tj_find_device("cuda:0") <= 0) SKIP("no GPU and no fake of one"); } while (0)
enum { MOST = 1 << 18 };

/* ---- one op on a device ---- */
typedef enum kind_of { CUMSUM, CUMPROD, CUMMAX, CUMMIN, RECURRENCE, LOGCUMSUMEXP, SORT, ARGSORT, TOPK, SEARCH, TAKE } kind_of;
typedef struct job {
	kind_of kind;
	tj_dtype dtype;
	int axis, rank;
	int64_t dim[4], k;             /* k: of topk, take_sorted; of SEARCH the length of sorted, which has the other sizes of dim if `own` */
	bool down, own;                /* down: descending, largest, right */
	bool turned, cut;              /* in memory the first and the last axis are swapped; the op reads a part of a larger tensor */
	bool odd, few;                 /* with NaN, infinities, zeros of both signs; few different values */
	bool sorted;                   /* of the operand SEARCH looks in */
	int results;                   /* bits: of the values and the indices */
	unsigned seed;
} job;

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }
static bool is_float(tj_dtype t) { return t == TJ_F32 || t == TJ_F64 || t == TJ_F16 || t == TJ_BF16; }

/* Fractions, so that a sum in another order has other bits. Of integers, numbers of all magnitudes; sums wrap. */
static tj_tensor *values(tj_ctx *c, const job *j, int rank, const int64_t *dim, unsigned seed)
{
	static union { float f[MOST]; int64_t i[MOST]; } data;
	static const float strange[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN };
	int64_t to[5] = { 0 }, n = 1;
	seed += j->seed;
	for (int d = 0; d < rank; d++) n *= to[d] = dim[d] + (j->cut ? 2 : 0);
	to[rank] = TJ_END_DIM;
	assert_true(n <= MOST);
	for (int64_t i = 0; i < n; i++) {
		const int whole = (int)(next(&seed) % (j->few ? 7 : 2001)) - (j->few ? 3 : 1000);
		if (!is_float(j->dtype)) data.i[i] = (int64_t)whole * (j->few ? 1 : (int64_t)1 << next(&seed) % 50);
		else if (j->odd && next(&seed) % 9 == 0) data.f[i] = strange[next(&seed) % (j->few || n < 100 || next(&seed) % 50 == 0 ? 5 : 4)];
		else data.f[i] = ldexpf((float)whole, j->kind == CUMPROD || j->kind == RECURRENCE ? -10 : j->few ? 0 : (int)(next(&seed) % 12) - 10);
	}
	const bool turns = j->turned && rank > 1;
	if (turns) {
		const int64_t first = to[0];
		to[0] = to[rank - 1];
		to[rank - 1] = first;
	}
	tj_tensor *x = tj_cast(tj_from_data(c, is_float(j->dtype) ? TJ_F32 : TJ_I64, to, &data), j->dtype);
	return turns ? tj_transpose(x, 0, rank - 1) : x;
}

/* k places for each line of x, in no order. */
static tj_tensor *places(const job *j, tj_tensor *x)
{
	int64_t shape[5] = { 0 }, n = 1;
	for (int d = 0; d < j->rank; d++) n *= shape[d] = d == j->axis ? j->k : tj_dim(x, d);
	shape[j->rank] = TJ_END_DIM;
	tj_tensor *i = tj_reshape(tj_mul(tj_arange(TJ_I64, 0, n, 1), tj_i(7)), shape);
	return tj_remainder(i, tj_i(j->rank && tj_dim(x, j->axis) ? tj_dim(x, j->axis) : 1));
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *x = in[0], *a = in[1], *at = NULL, **index = j->results & 2 ? &at : NULL;
	for (int d = 0; j->cut && d < tj_rank(x); d++) x = tj_slice(x, d, 1, tj_dim(x, d) - 1, 1);
	for (int d = 0; j->cut && d < tj_rank(a); d++) a = tj_slice(a, d, 1, tj_dim(a, d) - 1, 1);
	switch (j->kind) {
	case CUMSUM: x = tj_cumsum(x, j->axis); break;
	case CUMPROD: x = tj_cumprod(x, j->axis); break;
	case CUMMAX: x = tj_cummax(x, j->axis, index); break;
	case CUMMIN: x = tj_cummin(x, j->axis, index); break;
	case RECURRENCE: x = tj_linear_recurrence(a, x, j->axis); break;
	case LOGCUMSUMEXP: x = tj_logcumsumexp(x, j->axis); break;
	case SORT: x = tj_sort(x, j->axis, j->down, index); break;
	case ARGSORT: x = tj_argsort(x, j->axis, j->down); break;
	case TOPK: x = tj_topk(x, j->k, j->axis, j->down, index); break;
	case TAKE: x = tj_take_sorted(x, places(j, x), j->axis, index); break;
	case SEARCH: x = tj_searchsorted(j->sorted ? tj_sort(a, -1, false, NULL) : a, x, j->down); break;
	}
	out[0] = j->results == 2 ? at : x;
	out[1] = j->results == 3 ? at : out[0];
}

typedef struct results { char bytes[2][MOST * 8]; tj_dtype type[2]; size_t n[2]; } results;

static void on(const char *device, job *j, results *r)
{
	const bool eval = !strcmp(device, "eval");
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = eval ? "cpu" : device, .backend = eval ? "eval" : NULL));
	tj_fn *f = kit_fn(c, "s", body, j, 2, 2);
	int64_t dim[4];
	memcpy(dim, j->dim, sizeof dim);
	if (j->kind == SEARCH) dim[j->rank ? j->rank - 1 : 0] = j->k;
	tj_tensor *second =
		j->kind == SEARCH ? j->own ? values(c, j, j->rank, dim, 2) : values(c, j, 1, &j->k, 2) : values(c, j, j->rank, j->dim, 2);
	tj_tensor *in[] = { values(c, j, j->rank, j->dim, 1), second, TJ_END }, *out[2];
	if (tj_call(f, out, in) != TJ_OK) kit_ok(c);
	for (int i = 0; i < 2; i++) {
		r->type[i] = tj_dtype_of(out[i]);
		r->n[i] = (size_t)tj_numel(out[i]);
		if (tj_read(out[i], r->bytes[i], r->n[i] * tj_dtype_size(r->type[i])) != TJ_OK) kit_ok(c);
	}
	char *text = eval ? NULL : kit_explain(f);
	const bool apart = j->kind <= CUMPROD && j->rank && j->dim[j->axis] <= 8; /* such lines may be taken apart (short.c) */
	if (text && r->n[0] && (strstr(text, "by the CPU") || !(apart || strstr(text, "kernel of its own")))) fail_msg("%s", text);
	free(text);
	tj_close(c);
}

/* NaN has any bits. */
static bool equal(tj_dtype t, const char *a, const char *b)
{
	float x, y;
	double v, w;
	uint16_t h, k;
	memcpy(&x, a, 4), memcpy(&y, b, 4), memcpy(&v, a, 8), memcpy(&w, b, 8), memcpy(&h, a, 2), memcpy(&k, b, 2);
	const unsigned inf = t == TJ_F16 ? 0x7c00 : 0x7f80;
	if (t == TJ_F32 && isnan(x)) return isnan(y);
	if (t == TJ_F64 && isnan(v)) return isnan(w);
	if ((t == TJ_F16 || t == TJ_BF16) && (h & 0x7fffu) > inf) return (k & 0x7fffu) > inf;
	return !memcmp(a, b, tj_dtype_size(t));
}

static void same(job j)
{
	static results want, got;
	if (!j.results) j.results = 1;
	on("eval", &j, &want);
	on("cuda:0", &j, &got);
	for (int o = 0; o < 2; o++) {
		const size_t size = tj_dtype_size(want.type[o]);
		assert_int_equal(got.type[o], want.type[o]);
		assert_int_equal(got.n[o], want.n[o]);
		for (size_t i = 0; i < want.n[o]; i++)
			if (!equal(want.type[o], want.bytes[o] + i * size, got.bytes[o] + i * size))
				fail_msg(
					"kind %d, dtype %d, results %d, element %zu of result %d, axis %d of [%lld,%lld,%lld], rank %d, k %lld, down %d, own %d, turned %d, "
					"cut %d, odd %d, few %d, seed %u",
					j.kind, j.dtype, j.results, i, o, j.axis, (long long)j.dim[0], (long long)j.dim[1],
					(long long)j.dim[2], j.rank, (long long)j.k, j.down, j.own, j.turned, j.cut, j.odd, j.few, j.seed);
	}
}

static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_F16, TJ_BF16, TJ_I8, TJ_U8, TJ_I16, TJ_I32, TJ_I64, TJ_BOOL };
enum { TYPES = sizeof types / sizeof *types };

/* ---- running sums, products, extremes; recurrences ---- */
/* Lines that are adjacent (staged) or not; chunks of which the last one is whole, or has one element; more than 32 chunks. */
static void cumulates(void **s)
{
	static const int64_t size[][3] = { { 3, 45, 1 },    { 2, 40, 9 }, { 1, 2048, 1 }, { 1, 2049, 2 },
		                           { 1, 1100, 33 }, { 37, 5, 3 }, { 1, 3071, 8 }, { 1, 1, 1 } };
	(void)s;
	NEED_GPU();
	for (int kind = CUMSUM; kind <= LOGCUMSUMEXP; kind++)
		for (int t = 0; t < TYPES; t++)
			for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
				if ((kind == RECURRENCE && types[t] == TJ_BOOL) || (t > 1 && (i + (size_t)t) % 3)) continue;
				if (t && left_out(i + (size_t)t / 3)) continue;
				same((job){ .kind = (kind_of)kind,
				            .dtype = types[t],
				            .axis = 1,
				            .rank = 3,
				            .dim = { size[i][0], size[i][1], size[i][2] },
				            .odd = i & 1,
				            .few = kind > CUMPROD && i % 3 == 1,
				            .results = kind == CUMMAX || kind == CUMMIN ? 1 + (int)i % 3 : 1,
				            .seed = (unsigned)(16 * t) + (unsigned)i });
			}
}

/* ---- sort, argsort, topk ---- */
/* Several lines to a tile, one, or several tiles to a line: 4,096 entries of up to 32 bits, 2,048 of 64 bits. */
static void sorts(void **s)
{
	static const int64_t size[][3] = { { 40, 7, 1 },   { 3, 100, 5 }, { 1, 4096, 1 },  { 1, 4097, 2 },
		                           { 2, 9000, 1 }, { 700, 1, 1 }, { 1, 21000, 1 }, { 33, 2, 9 } };
	(void)s;
	NEED_GPU();
	for (int kind = SORT; kind <= TAKE; kind += kind == TOPK ? TAKE - TOPK : 1)
		for (int t = 0; t < TYPES; t++)
			for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
				static const int64_t ks[] = { 1, 3, 4096, 50, 5000, 0, 4100, 2 };
				if ((t > 1 && (i + (size_t)t) % 4) || (t && left_out(i + (size_t)t / 4))) continue;
				same((job){ .kind = (kind_of)kind,
				            .dtype = types[t],
				            .axis = 1,
				            .rank = 3,
				            .dim = { size[i][0], size[i][1], size[i][2] },
				            .k = ks[i],
				            .odd = true,
				            .few = i & 1,
				            .down = (i + (size_t)t) & 1,
				            .results = kind == ARGSORT ? 1 : 1 + ((int)i + t + kind) % 3,
				            .seed = (unsigned)(16 * t) + (unsigned)i });
			}
}

/* ---- searches ---- */
static void searches(void **s)
{
	(void)s;
	NEED_GPU();
	for (int t = 0; t < TYPES; t++)
		for (int i = 0; i < 8; i++)
			same((job){ .kind = SEARCH,
			            .dtype = types[t],
			            .rank = 2,
			            .dim = { 6, i < 4 ? 50 : 3 },
			            .k = i == 7   ? 0
			                 : i == 3 ? 1
			                          : 33,
			            .down = i & 1,
			            .own = i & 2,
			            .sorted = i != 5,
			            .odd = true,
			            .few = i > 1,
			            .seed = (unsigned)(8 * t + i) });
}

/* ---- all of them: any axis, strides, no elements, 0-d ---- */
static void any_shape(void **s)
{
	static const int64_t dims[] = { 1, 2, 3, 5, 8, 17, 40, 33, 129, 0 };
	unsigned seed = 5;
	(void)s;
	NEED_GPU();
	for (int i = 0; i < (left_out(1) ? 88 : 440); i++) {
		job j = { .kind = (kind_of)(i % 11),
			  .dtype = types[i / 11 % TYPES],
			  .rank = (int)(next(&seed) % 4),
			  .down = next(&seed) & 1,
			  .own = next(&seed) & 1,
			  .turned = next(&seed) & 1,
			  .cut = next(&seed) & 1,
			  .odd = next(&seed) & 1,
			  .few = next(&seed) & 1,
			  .sorted = next(&seed) % 4,
			  .results = 1 };
		int64_t n = 1;
		for (int d = 0; d < j.rank; d++) n *= 2 + (j.dim[d] = dims[next(&seed) % 10]);
		for (int d = 0; d < j.rank && n > 20000; d++) n /= 2 + j.dim[d], n *= 2 + (j.dim[d] = 3);
		j.axis = j.rank ? (int)(next(&seed) % (unsigned)j.rank) : 0;
		j.own &= j.rank > 0;
		j.k = j.kind == TOPK ? j.rank ? (int64_t)(next(&seed) % (unsigned)(j.dim[j.axis] + 1)) : 1 : dims[next(&seed) % 6];
		if (j.kind == TAKE) j.k = j.rank && j.dim[j.axis] ? dims[next(&seed) % 6] : j.rank == 0;
		if (j.kind == CUMMAX || j.kind == CUMMIN || j.kind == SORT || j.kind == TOPK || j.kind == TAKE) j.results = 1 + (int)(next(&seed) % 3);
		if (j.kind == RECURRENCE && j.dtype == TJ_BOOL) j.dtype = TJ_I8;
		j.seed = seed;
		same(j);
	}
}

/* ---- in a plan with other kernels, many times, with other sizes ---- */
enum { LENGTHS = 24 };
static void ranks(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *at, *x = tj_mul(in[0], tj_f(0.5)), *sorted = tj_sort(x, 0, true, &at), *sum = tj_cumsum(tj_mul(sorted, sorted), 0);
	out[0] = tj_add(tj_cummax(tj_sub(sum, x), 0, NULL), tj_cast(at, TJ_F32));
	out[1] = tj_searchsorted(sum, x, true);
}

static int64_t length_of(int turn) { return turn < 8 ? 50 : turn < 16 ? 40 + 3 * turn : 4000 + 100 * turn; }

static void ranked(const char *device, char *to, tj_stats *stats)
{
	static float x[8000];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = device));
	tj_fn *f = tj_compile(c, ranks, NULL, TJ_OPTS(tj_compile_opts, .name = "ranks", .nin = 1, .nout = 2));
	for (int turn = 0; turn < LENGTHS; turn++) {
		const size_t n = (size_t)length_of(turn);
		tj_tensor *out[2];
		for (size_t i = 0; i < n; i++) x[i] = (float)((i * 31 + (size_t)turn * 7) % 90) / 7;
		if (tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE((int64_t)n), x))) != TJ_OK) kit_ok(c);
		assert_int_equal(tj_read(out[0], to, 4 * n), TJ_OK);
		assert_int_equal(tj_read(out[1], to + 4 * n, 8 * n), TJ_OK);
		to += 12 * n;
	}
	*stats = kit_stats(f);
	tj_close(c);
}

/* Short lines are kernels that graphs take. The text has no size, so new lengths make no code: a kernel for each of four ops, and a few
 * around them. */
static void in_a_plan(void **s)
{
	static char want[LENGTHS * 8000 * 12], got[LENGTHS * 8000 * 12];
	tj_stats cpu, gpu;
	(void)s;
	NEED_GPU();
	ranked("cpu", want, &cpu);
	ranked("cuda:0", got, &gpu);
	assert_memory_equal(got, want, sizeof want);
	assert_int_equal(gpu.eval_steps, 0);
	assert_true(gpu.replays > 0);
	assert_true(gpu.library_calls > 0); /* the long ones take several launches */
	assert_true(gpu.compiled < 4 * 4);
}

/* Elements keep their bits: those of -0.0, and the payload of NaN. */
static void moves_bits(void **s)
{
	static const uint32_t bits[] = { 0x7fc00001, 0x80000000, 0, 0xffc00002, 0x3f800000, 0x80000000, 0xff800000 },
			      up[] = { 0xff800000, 0x80000000, 0, 0x80000000, 0x3f800000, 0x7fc00001, 0xffc00002 },
			      most[] = { 0x7fc00001, 0x7fc00001, 0x7fc00001, 0xffc00002, 0xffc00002, 0xffc00002, 0xffc00002 };
	uint32_t got[7];
	(void)s;
	NEED_GPU();
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(7), bits);
	assert_int_equal(tj_read(tj_sort(x, 0, false, NULL), got, sizeof got), TJ_OK);
	assert_memory_equal(got, up, sizeof got);
	assert_int_equal(tj_read(tj_cummax(x, 0, NULL), got, sizeof got), TJ_OK);
	assert_memory_equal(got, most, sizeof got);
	tj_close(c);
}

/* The kernel is in the plan, and its text is shown. */
static void is_shown(void **s)
{
	static const struct {
		kind_of kind;
		const char *step, *text;
	} wanted[] = { { CUMSUM, "cumsum", "tj_cumulate(" },
		       { RECURRENCE, "linear_recurrence", "tj_cumulate(" },
		       { TOPK, "topk", "tj_sort(" },
		       { SEARCH, "searchsorted", "tj_searchsorted(" } };
	(void)s;
	NEED_GPU();
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		job j = { .kind = wanted[i].kind, .k = 1, .results = 1 };
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .device = "cuda:0"));
		tj_fn *f = kit_fn(c, "s", body, &j, 2, 2);
		tj_tensor *out[2];
		assert_int_equal(tj_call(f, out, TJ_LIST(F32(c, 3, 1, 2), F32(c, 1, 2, 3))), TJ_OK);
		char *plan = kit_dump(f, TJ_DUMP_PLAN), *code = kit_dump(f, TJ_DUMP_CODE);
		if (!strstr(plan, wanted[i].step)) fail_msg("%s", plan);
		if (!strstr(code, wanted[i].text)) fail_msg("%s", code);
		free(plan);
		free(code);
		tj_close(c);
	}
}

int main(void)
{
	setenv("TJ_THREADS", "5", 1);
	const struct CMUnitTest tests[] = { cmocka_unit_test(cumulates), cmocka_unit_test(searches),  cmocka_unit_test(sorts),
		                            cmocka_unit_test(any_shape), cmocka_unit_test(in_a_plan), cmocka_unit_test(moves_bits),
		                            cmocka_unit_test(is_shown) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
