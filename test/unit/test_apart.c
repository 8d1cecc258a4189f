/* SPDX-License-Identifier: MIT */
/* Products whose rows lie 2 or 4 KiB apart, so that tiles copy them; whose results lie a page apart, so that they are written in the last
 * chunk of r; and of few rows, or of few columns. Edges of tiles, of panels and of chunks, vectors of 512, 256 and 128 bits, compared with
 * a plain loop. Numbers are small and whole, so that every order of a sum is exact. Operands end at a page that cannot be accessed. */
#include "test/unit/fence.h"

typedef struct shape {
	tj_dtype t;
	int64_t m, k, n;
	int64_t pitch;   /* A is the last k of so many columns */
	bool frozen, turned; /* B; turned: its transpose is */
	bool sideways;   /* A is a transpose, too; of pitch k */
	bool jumps;      /* B is two halves with a row between them, and frozen and turned are not */
	int64_t room;    /* of the result's rows; more than n: it is joined with something behind it */
} shape;
typedef struct job { shape s; tj_tensor *b; } job;

static int64_t number(int64_t i, int which)
{
	return (int64_t)((uint64_t)(i + 1) * (which ? 0x9e3779b97f4a7c15u : 0xbf58476d1ce4e5b9u) >> 60) - 8;
}

static fenced numbers(tj_dtype t, int64_t n, int which)
{
	const fenced f = fence((size_t)n * tj_dtype_size(t));
	for (int64_t i = 0; i < n; i++) {
		if (t == TJ_F32) ((float *)f.data)[i] = (float)number(i, which);
		else if (t == TJ_F64) ((double *)f.data)[i] = (double)number(i, which);
		else if (t == TJ_I8) ((int8_t *)f.data)[i] = (int8_t)number(i, which);
		else if (t == TJ_BF16) ((uint16_t *)f.data)[i] = (uint16_t)((union { float f; uint32_t u; }){ .f = (float)number(i, which) }.u >> 16);
		else ((int32_t *)f.data)[i] = (int32_t)number(i, which);
	}
	return f;
}

static tj_dtype sums_of(tj_dtype t) { return t == TJ_I8 ? TJ_I32 : t == TJ_BF16 ? TJ_F32 : t; }

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *a = in[0], *b = j->s.frozen ? j->b : in[1];
	if (j->s.jumps) b = tj_reshape(tj_slice(b, 1, 0, j->s.k / 2, 1), TJ_SHAPE(j->s.k, j->s.n));
	a = tj_cast(a, sums_of(j->s.t)), b = tj_cast(b, sums_of(j->s.t));
	if (j->s.sideways) a = tj_transpose(a, 0, 1);
	out[0] = tj_matmul(tj_slice(a, 1, j->s.pitch - j->s.k, j->s.pitch, 1), j->s.turned ? tj_transpose(b, 0, 1) : b);
	if (j->s.room > j->s.n) out[0] = tj_cat(TJ_LIST(out[0], tj_neg(in[2])), 1);
}

static int64_t element(tj_dtype t, const void *p, int64_t i)
{
	return t == TJ_F32 ? (int64_t)((const float *)p)[i] : t == TJ_F64 ? (int64_t)((const double *)p)[i] : ((const int32_t *)p)[i];
}

static void check(const shape *s, const void *got)
{
	for (int64_t i = 0; i < s->m * s->n; i++) {
		int64_t want = 0;
		for (int64_t k = 0; k < s->k; k++)
			want += number(s->sideways ? k * s->m + i / s->n : i / s->n * s->pitch + s->pitch - s->k + k, 0) *
			        number(s->turned ? i % s->n * s->k + k : (k + (s->jumps && k >= s->k / 2)) * s->n + i % s->n, 1);
		const int64_t is = element(sums_of(s->t), got, i / s->n * s->room + i % s->n);
		if (is != want)
			fail_msg("%s, %lld x %lld (of %lld) x %lld (of %lld)%s%s%s, TJ_CPU=%s, element %lld: %lld, not %lld",
			         tj_dtype_name(s->t), (long long)s->m, (long long)s->k, (long long)s->pitch, (long long)s->n,
			         (long long)s->room, s->frozen ? ", frozen" : "", s->turned ? ", turned" : "",
			         s->jumps ? ", with a jump" : "", getenv("TJ_CPU") ? getenv("TJ_CPU") : "", (long long)i, (long long)is,
			         (long long)want);
	}
}

static void multiply(const shape *s)
{
	const fenced a = numbers(s->t, s->m * s->pitch, 0), b = numbers(s->t, (s->k + 2 * s->jumps) * s->n, 1);
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_wrap(c, s->t, TJ_SHAPE(s->m, s->pitch), NULL, a.data, NULL, NULL);
	job j = { *s, tj_retain(tj_wrap(c, s->t,
		                        s->turned  ? TJ_SHAPE(s->n, s->k)
		                        : s->jumps ? TJ_SHAPE(2, s->k / 2 + 1, s->n)
		                                   : TJ_SHAPE(s->k, s->n),
		                        NULL, b.data, NULL, NULL)) };
	tj_tensor *beside = tj_ones(sums_of(s->t), TJ_SHAPE(s->m, s->room - s->n));
	tj_fn *f = tj_compile(c, body, &j,
	                      TJ_OPTS(tj_compile_opts, .name = "rows", .nin = 3, .nout = 1, .freeze = s->frozen ? TJ_VARS(&j.b) : NULL));
	check(s, tj_data(tj_call1(f, TJ_LIST(x, j.b, beside))));
	kit_ok(c);
	tj_release(j.b);
	tj_close(c);
	unfence(a), unfence(b);
}

static void use_cpu(int cpu) /* 0: the whole CPU; 1: 256 bits; 2: 128 */
{
	if (cpu) setenv("TJ_CPU", cpu == 1 ? "256" : "128", 1);
	else unsetenv("TJ_CPU");
}

static void multiply_as(shape s, int cpu)
{
	if (!s.room) s.room = s.n;
	use_cpu(cpu);
	multiply(&s);
	use_cpu(0);
}

/* All of k, so that the last row ends at the page; whole vectors of it, and not; one chunk and a few. */
static void operands(void **state)
{
	static const tj_dtype dtype[] = { TJ_F32, TJ_F64, TJ_I32 };
	static const int64_t m[] = { 13, 24, 35, 47 }, n[] = { 97, 128, 160, 257 };
	static const int64_t k[][2] = {
		{ 512, 512 }, { 1024, 1024 }, { 500, 512 }, { 528, 1024 }, { 240, 512 }, { 8, 512 }, { 3, 1024 }
	}; /* of a pitch */
	(void)state;
	int i = 0;
	for (size_t t = 0; t < sizeof dtype / sizeof *dtype; t++)
		for (size_t at = 0; at < sizeof k / sizeof *k; at++)
			for (int which = 0; which < (strcmp(kit_backend, "eval") ? 6 : 1); which++, i++)
				multiply_as((shape){ dtype[t], m[(i + which) % 4], k[at][0], n[i / 3 % 4], k[at][1], .frozen = which & 1 }, which / 2);
}

/* Few rows and many, which different tiles compute; a last panel that is not whole. */
static void results(void **state)
{
	static const tj_dtype dtype[] = { TJ_F32, TJ_F64, TJ_I32, TJ_I8, TJ_BF16 };
	static const int64_t m[] = { 2, 5, 16, 37 }, n[] = { 1024, 100, 1000 };
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 120 : 5); i++)
		multiply_as((shape){ dtype[i % 5], m[i / 5 % 4], 260 + 7 * (i % 6), n[i % 7 % 3], 300, .frozen = i & 1,
		                     .turned = i >> 1 & 1, .room = 1024 },
		            i % 4 % 3);
}

static void columns_that_jump(void **state)
{
	(void)state;
	for (int cpu = 0; cpu < (strcmp(kit_backend, "eval") ? 3 : 1); cpu++) multiply_as((shape){ TJ_F32, 35, 512, 97, 512, .jumps = true }, cpu);
}

/* Few rows transpose columns that lie along k: some vectors of columns and one, a last panel that lacks columns, steps of k behind the
 * squares. */
static void columns_along_k(void **state)
{
	static const tj_dtype dtype[] = { TJ_F32, TJ_F64, TJ_I32 };
	static const int64_t k[] = { 272, 80, 301 }, n[] = { 64, 75, 33, 5, 13 };
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 72 : 3); i++)
		multiply_as((shape){ dtype[i / 8 % 3], 1 + i % 8, k[i % 3], n[i / 3 % 5], k[i % 3], .turned = true }, i / 24);
}

/* Few columns and many rows change places: rows lie along k, and the results are stored apart. */
static void few_columns(void **state)
{
	static const tj_dtype dtype[] = { TJ_F32, TJ_I8, TJ_F64, TJ_BF16, TJ_I32 };
	static const int64_t m[] = { 32, 45, 97 }, k[] = { 48, 301, 64 };
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 90 : 5); i++)
		multiply_as((shape){ dtype[i % 5], m[i / 5 % 3], k[i / 3 % 3], 1 + i % 9, k[i / 3 % 3], .frozen = i >> 1 & 1,
		                     .turned = i >> 2 & 1, .room = 16 },
		            i / 30);
}

/* x (w * scale)': a scale for each column, which tiles read as they transpose the columns. */
static void scaled_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_matmul(in[0], tj_transpose(tj_mul(in[1], in[2]), 0, 1));
}

static void scaled(int64_t m, int64_t k, int64_t n)
{
	const fenced x = numbers(TJ_F32, m * k, 0), w = numbers(TJ_F32, n * k, 1), scale = numbers(TJ_F32, n, 0);
	tj_ctx *c = kit_open();
	tj_tensor *in[] = { tj_wrap(c, TJ_F32, TJ_SHAPE(m, k), NULL, x.data, NULL, NULL),
		            tj_wrap(c, TJ_F32, TJ_SHAPE(n, k), NULL, w.data, NULL, NULL),
		            tj_wrap(c, TJ_F32, TJ_SHAPE(n, 1), NULL, scale.data, NULL, NULL) };
	tj_fn *f = tj_compile(c, scaled_body, NULL, TJ_OPTS(tj_compile_opts, .name = "scaled", .nin = 3, .nout = 1));
	const float *got = tj_data(tj_call1(f, TJ_LIST(in[0], in[1], in[2])));
	for (int64_t i = 0; i < m * n; i++) {
		int64_t want = 0;
		for (int64_t r = 0; r < k; r++) want += number(i / n * k + r, 0) * number(i % n * k + r, 1) * number(i % n, 0);
		if ((int64_t)got[i] != want)
			fail_msg("%lld x %lld x %lld, element %lld: %g, not %lld", (long long)m, (long long)k, (long long)n, (long long)i,
			         (double)got[i], (long long)want);
	}
	kit_ok(c);
	tj_close(c);
	unfence(x), unfence(w), unfence(scale);
}

static void scaled_columns(void **state)
{
	static const int64_t n[] = { 3, 5, 13, 20, 33 };
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 30 : 5); i++) {
		use_cpu(i / 5 % 3);
		scaled(1 + i % 4, 40 + 8 * (i % 3), n[i % 5]);
		use_cpu(0);
	}
}

/* Calls f with operands of the shape, B not turned. */
static void call_with(tj_ctx *c, tj_fn *f, const shape *s)
{
	const fenced a = numbers(s->t, s->m * s->pitch, 0), b = numbers(s->t, s->k * s->n, 1);
	tj_tensor *x = tj_wrap(c, s->t, s->sideways ? TJ_SHAPE(s->pitch, s->m) : TJ_SHAPE(s->m, s->pitch), NULL, a.data, NULL, NULL);
	tj_tensor *w = tj_wrap(c, s->t, TJ_SHAPE(s->k, s->n), NULL, b.data, NULL, NULL);
	check(s, tj_data(tj_call1(f, TJ_LIST(x, w, tj_ones(TJ_F32, TJ_SHAPE(1))))));
	kit_ok(c);
	unfence(a), unfence(b);
}

/* A few rows are strips if their sizes are known. One function is called with other sizes, or with other distances of rows: then code takes
 * what differs as arguments, and blocks of rows with it. */
static void vary(int64_t m, const int64_t pitch[3], const int64_t n[3], int cpu)
{
	tj_ctx *c = kit_open();
	job j = { .s = { .t = TJ_F32, .m = m, .k = 257 } };
	use_cpu(cpu);
	tj_fn *f = tj_compile(c, body, &j, TJ_OPTS(tj_compile_opts, .name = "vary", .nin = 3, .nout = 1));
	for (int i = 0; i < 6; i++) {
		j.s.pitch = pitch[i % 3], j.s.n = j.s.room = n[i % 3];
		call_with(c, f, &j.s);
	}
	tj_close(c);
	use_cpu(0);
}

static void rows_that_vary(void **state)
{
	(void)state;
	for (int m = 2; m <= 4; m++)
		for (int cpu = 0; cpu < (strcmp(kit_backend, "eval") ? 3 : 1); cpu++) {
			vary(m, (int64_t[]){ 257, 300, 333 }, (int64_t[]){ 191, 191, 191 }, cpu);
			vary(m, (int64_t[]){ 257, 257, 257 }, (int64_t[]){ 191, 203, 97 }, cpu);
		}
}

/* One function for any number of rows: tiles of all sizes, the last of which may round up; wide tiles, and columns behind them. */
static void any_rows(tj_dtype t, bool sideways, int cpu)
{
	tj_ctx *c = kit_open();
	job j = { .s = { t, .k = 300, .n = 133, .pitch = 300, .room = 133, .sideways = sideways } };
	use_cpu(cpu);
	tj_fn *f = tj_compile(c, body, &j, TJ_OPTS(tj_compile_opts, .name = "any rows", .nin = 3, .nout = 1, .dynamic = TJ_DYNAMIC_ON));
	for (j.s.m = 2; j.s.m <= 28; j.s.m++) call_with(c, f, &j.s);
	j.s.m = 401;
	call_with(c, f, &j.s);
	tj_close(c);
	use_cpu(0);
}

static void each_number_of_rows(void **state)
{
	static const tj_dtype dtype[] = { TJ_F32, TJ_F64, TJ_I8, TJ_BF16 };
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 24 : 8); i++) any_rows(dtype[i % 4], i / 4 % 2, i / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_number_of_rows),
		                            cmocka_unit_test(rows_that_vary),
		                            cmocka_unit_test(scaled_columns),
		                            cmocka_unit_test(few_columns),
		                            cmocka_unit_test(columns_along_k),
		                            cmocka_unit_test(operands),
		                            cmocka_unit_test(results),
		                            cmocka_unit_test(columns_that_jump) };
	KIT_RUN(tests);
}
