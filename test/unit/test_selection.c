/* SPDX-License-Identifier: MIT */
/* tj_take_sorted() against tj_gather() by the indices of tj_sort(): the same bits. Other tests compare it with the evaluator, which does
 * not keep all bits of a NaN. */
#include "test/kit.h"

#include <math.h>

enum { MOST = 1 << 18 };

/* STRANGE: NaN of several bits, infinities, zeros of both signs */
typedef enum pattern { RANDOM, FEW_VALUES, STRANGE, RISING, FALLING, EQUAL, PATTERNS } pattern;
typedef struct job {
	tj_dtype dtype;
	pattern pattern;
	int axis, rank;
	int64_t dim[4], k;     /* k: places of a line */
	bool turned;           /* the op reads the operands with their first and last axis swapped */
	bool shorter;          /* the places have one index less than x along the other axes */
	int results;           /* bits: of the values and the indices */
	bool whole;            /* sorts all, and gathers */
	unsigned seed;
} job;

static unsigned next(unsigned *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

static double value(const job *j, int64_t i, unsigned *seed)
{
	const double strange[] = { 0.0, -0.0, INFINITY, -INFINITY, (double)NAN, 1.5, -1.5 };
	switch (j->pattern) {
	case FEW_VALUES: return (double)(next(seed) % 3) - 1;
	case STRANGE: return next(seed) % 2 ? strange[next(seed) % 7] : (double)(next(seed) % 9);
	case RISING: return (double)i / 4;
	case FALLING: return -(double)i / 4;
	case EQUAL: return 7;
	default: return ((double)next(seed) - (1 << 23)) / (1 << 20);
	}
}

/* The bits of element i of `to`. */
static void put(const job *j, void *to, int64_t i, unsigned *seed)
{
	const double v = value(j, i, seed);
	const float f = (float)v;
	const uint32_t more = isnan(v) ? next(seed) % 3 << 1 : 0; /* in the part of a NaN that no comparison sees */
	uint64_t d;
	uint32_t s;
	memcpy(&d, &v, 8), memcpy(&s, &f, 4);
	const int64_t whole = isfinite(v) ? (int64_t)(j->pattern == RANDOM ? v * (1 << 20) * (1 + next(seed) % 100) : v) : (int64_t)i;
	switch (j->dtype) {
	case TJ_F64: ((uint64_t *)to)[i] = d | more; break;
	case TJ_F32: ((uint32_t *)to)[i] = s | more; break;
	case TJ_BF16: ((uint16_t *)to)[i] = (uint16_t)(s >> 16 | more); break;
	case TJ_F16: ((uint16_t *)to)[i] = (uint16_t)(isnan(v) ? 0x7e00 | more : tj_to_f16(f).bits); break;
	case TJ_I64: ((int64_t *)to)[i] = whole; break;
	case TJ_I32: ((int32_t *)to)[i] = (int32_t)whole; break;
	case TJ_I16: ((int16_t *)to)[i] = (int16_t)whole; break;
	case TJ_BOOL: ((uint8_t *)to)[i] = whole & 1; break;
	default: ((uint8_t *)to)[i] = (uint8_t)whole; break;
	}
}

static void sizes(const job *j, bool of_place, int64_t *to)
{
	const int last = j->rank - 1;
	for (int d = 0; d < j->rank; d++) {
		to[d] = d == j->axis && of_place ? j->k : j->dim[d] - (d != j->axis && of_place && j->shorter ? 1 : 0);
	}
	if (j->turned && last > 0) {
		const int64_t first = to[0];
		to[0] = to[last];
		to[last] = first;
	}
	to[j->rank] = TJ_END_DIM;
}

static int64_t count(const int64_t *dim, int rank)
{
	int64_t n = 1;
	for (int d = 0; d < rank; d++) n *= dim[d];
	return n;
}

static tj_tensor *elements(tj_ctx *c, const job *j)
{
	static uint64_t data[MOST];
	int64_t dim[5];
	unsigned seed = j->seed;
	sizes(j, false, dim);
	assert_true(count(dim, j->rank) <= MOST);
	for (int64_t i = 0; i < count(dim, j->rank); i++) put(j, data, i, &seed);
	return tj_from_data(c, j->dtype, dim, data);
}

static tj_tensor *places(tj_ctx *c, const job *j)
{
	static int64_t data[MOST];
	int64_t dim[5];
	unsigned seed = j->seed + 1;
	const int64_t n = j->rank ? j->dim[j->axis] : 1;
	sizes(j, true, dim);
	assert_true(count(dim, j->rank) <= MOST);
	for (int64_t i = 0; i < count(dim, j->rank); i++) data[i] = next(&seed) % 8 == 0 ? (next(&seed) & 1 ? n - 1 : 0) : next(&seed) % n;
	return tj_from_data(c, TJ_I64, dim, data);
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *x = in[0], *place = in[1], *at = NULL, **index = j->results & 2 ? &at : NULL, *y;
	if (j->turned && j->rank > 1) x = tj_transpose(x, 0, -1), place = tj_transpose(place, 0, -1);
	if (j->whole) {
		at = tj_gather(tj_argsort(x, j->axis, false), j->axis, place);
		y = tj_gather(x, j->axis, at);
	} else y = tj_take_sorted(x, place, j->axis, index);
	out[0] = j->results == 2 ? at : y;
	out[1] = j->results == 3 ? at : out[0];
}

static size_t run(bool whole, job *j, char *to)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
	size_t n = 0;
	tj_tensor *in[] = { elements(c, j), places(c, j), TJ_END }, *out[2];
	job own = *j;
	own.whole = whole;
	if (tj_call(kit_fn(c, "s", body, &own, 2, 2), out, in) != TJ_OK) kit_ok(c);
	for (int i = 0; i < 2; i++) {
		const size_t bytes = (size_t)tj_numel(out[i]) * tj_dtype_size(tj_dtype_of(out[i]));
		if (tj_read(out[i], to + n, bytes) != TJ_OK) kit_ok(c);
		n += bytes;
	}
	tj_close(c);
	return n;
}

static void same(job j)
{
	static char want[16 * MOST], got[16 * MOST];
	const size_t n = run(true, &j, want);
	assert_int_equal(run(false, &j, got), n);
	for (size_t i = 0; i < n; i++)
		if (got[i] != want[i])
			fail_msg(
				"dtype %d, pattern %d, results %d, byte %zu, axis %d of [%lld,%lld,%lld], rank %d, k %lld, turned %d, shorter %d, seed %u",
				j.dtype, j.pattern, j.results, i, j.axis, (long long)j.dim[0], (long long)j.dim[1], (long long)j.dim[2],
				j.rank, (long long)j.k, j.turned, j.shorter, j.seed);
}

/* ---- every dtype, with lines that are sorted, selected from, selected from between samples ---- */
static void lines(void **state)
{
	static const int64_t n[] = { 1, 2, 40, 41, 64, 300, 512, 1024, 5000, 9000 }, k[] = { 1, 2, 4, 5, 9, 0 };
	(void)state;
	for (int t = 0; t < TJ_DTYPE_COUNT; t++)
		for (size_t i = 0; i < sizeof n / sizeof *n; i++)
			for (int p = 0; p < PATTERNS; p++) {
				const unsigned seed = (unsigned)(1000 * t + 10 * (int)i + p);
				same((job){ .dtype = (tj_dtype)t,
				            .pattern = (pattern)p,
				            .rank = 2,
				            .axis = 1,
				            .dim = { 2, n[i] },
				            .k = k[(seed + (unsigned)t) % 6],
				            .results = 1 + (int)((i + (size_t)p) % 3),
				            .seed = seed });
			}
}

static void long_lines(void **state)
{
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_U8, TJ_BF16 };
	(void)state;
	for (int i = 0; i < 8; i++)
		same((job){ .dtype = types[i % 4],
		            .pattern = i & 1 ? STRANGE : RANDOM,
		            .rank = 1,
		            .dim = { 100000 },
		            .k = i < 4 ? 1 : 7,
		            .results = 3,
		            .seed = (unsigned)i });
}

/* ---- any axis, strides, fewer lines of places than of x ---- */
static void any_shape(void **state)
{
	static const int64_t dims[] = { 1, 2, 3, 7, 20, 600 };
	unsigned seed = 3;
	(void)state;
	for (int i = 0; i < 300; i++) {
		job j = { .dtype = (tj_dtype)(i % TJ_DTYPE_COUNT),
			  .pattern = (pattern)(next(&seed) % PATTERNS),
			  .rank = (int)(next(&seed) % 4),
			  .turned = next(&seed) & 1,
			  .shorter = next(&seed) & 1,
			  .results = 1 + (int)(next(&seed) % 3) };
		for (int d = 0; d < j.rank; d++) j.dim[d] = dims[next(&seed) % 5];
		j.axis = j.rank ? (int)(next(&seed) % (unsigned)j.rank) : 0;
		if (j.rank && next(&seed) % 2) j.dim[j.axis] = dims[5];
		j.k = next(&seed) % 6;
		j.seed = seed;
		same(j);
	}
}

/* ---- a line whose keys are the worst for a selection: each pivot is among the smallest of what is left. The sample has the least value
 * only ---- */
enum { WORST = 500, SAMPLES = 16 };
typedef struct adversary { int64_t value[WORST], solid; int candidate; } adversary; /* WORST: not decided yet */

static bool before(adversary *a, int x, int y)
{
	if (a->value[x] == WORST && a->value[y] == WORST) a->value[x == a->candidate ? x : y] = a->solid++;
	if (a->value[x] == WORST) a->candidate = x;
	else if (a->value[y] == WORST) a->candidate = y;
	return a->value[x] < a->value[y];
}

static int middle(adversary *a, int x, int y, int z)
{
	const int low = before(a, x, y) ? x : y, high = low == x ? y : x, most = before(a, high, z) ? high : z;
	return before(a, low, most) ? most : low;
}

static void worst(adversary *a)
{
	int at[WORST], n = WORST, *from = at;
	for (int i = 0; i < WORST; i++) at[i] = i, a->value[i] = WORST;
	for (int i = 0, part = WORST / SAMPLES; i < SAMPLES; i++) a->value[i * part + i % part] = 0;
	a->solid = 1;
	while (n > 10) {
		const int x = middle(a, from[n / 4], from[n / 2], from[3 * n / 4]);
		int m = 0;
		for (int with = 0; with < 2 && !m; with++)
			for (int i = 0; i < n; i++) {
				const int v = from[i];
				from[i] = from[m];
				from[m] = v;
				m += with ? !before(a, x, v) : before(a, v, x);
			}
		from += m, n -= m;
	}
}

static void patience_ends(void **state)
{
	adversary a = { 0 };
	float x[WORST];
	double wide[WORST];
	(void)state;
	worst(&a);
	for (int i = 0; i < WORST; i++) wide[i] = x[i] = (float)a.value[i];
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
	for (int t = 0; t < 2; t++)
		for (int64_t place = WORST - 40; place < WORST; place++) {
			tj_tensor *from = t ? tj_from_data(c, TJ_F64, TJ_SHAPE(WORST), wide) : tj_from_data(c, TJ_F32, TJ_SHAPE(WORST), x);
			job j = { .results = 3, .rank = 1 }, plain = { .results = 3, .rank = 1, .whole = true };
			tj_tensor *in[] = { from, tj_from_data(c, TJ_I64, TJ_SHAPE(1), &place), TJ_END }, *got[2], *want[2];
			assert_int_equal(tj_call(kit_fn(c, "s", body, &j, 2, 2), got, in), TJ_OK);
			assert_int_equal(tj_call(kit_fn(c, "w", body, &plain, 2, 2), want, in), TJ_OK);
			assert_true(*(const int64_t *)tj_data(got[1]) == *(const int64_t *)tj_data(want[1]));
		}
	tj_close(c);
}

/* ---- places out of range ---- */
static void out_of_range(void **state)
{
	static const int64_t sizes[] = { 0, 1, 40, 41, 3000 }, off[] = { -1, 0, 1 };
	(void)state;
	for (int i = 0; i < 5; i++)
		for (int b = 0; b < 3; b++)
			for (int64_t k = 1; k < 12; k += 10) {
				int64_t at[11] = { 0 };
				job j = { .dtype = TJ_F32, .rank = 1, .dim = { sizes[i] }, .results = 1 + b };
				tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm"));
				at[k - 1] = off[b] < 0 ? -1 : sizes[i] + (off[b] ? INT32_MAX : 0);
				tj_tensor *in[] = { elements(c, &j), tj_from_data(c, TJ_I64, TJ_SHAPE(k), at), TJ_END }, *out[2];
				tj_fn *f = kit_fn(c, "s", body, &j, 2, 2);
				if (tj_call(f, out, in) == TJ_OK) (void)tj_data(out[0]);
				kit_error(c, TJ_ERR_INDEX, "out of range for an axis of size");
				tj_close(c);
			}
}

int main(void)
{
	setenv("TJ_THREADS", "3", 1);
	const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(long_lines), cmocka_unit_test(any_shape),
		                            cmocka_unit_test(patience_ends), cmocka_unit_test(out_of_range) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
