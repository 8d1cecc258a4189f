/* SPDX-License-Identifier: MIT */
/* Products of bytes, mostly with few rows: edges of vectors of r, of columns and of chunks, each layout of both operands, vectors of 512,
 * 256 and 128 bits, compared with a plain loop. Operands end at a page that cannot be accessed. */
#include "test/unit/fence.h"

typedef struct shape { int64_t m, k, n; bool a_turned, b_turned, frozen; } shape;
typedef struct job { shape s; tj_tensor *b; } job;

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
	seed ^= seed << 13, seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static fenced bytes(int64_t n)
{
	const fenced f = fence((size_t)n);
	for (int64_t i = 0; i < n; i++) ((int8_t *)f.data)[i] = rnd() % 5 ? (int8_t)(rnd() >> 20) : -128;
	return f;
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	tj_tensor *a = tj_cast(in[0], TJ_I32), *b = tj_cast(j->s.frozen ? j->b : in[1], TJ_I32);
	out[0] = tj_matmul(j->s.a_turned ? tj_transpose(a, 0, 1) : a, j->s.b_turned ? tj_transpose(b, 0, 1) : b);
}

static void check(const shape *s, const int8_t *a, const int8_t *b, const int32_t *got)
{
	for (int64_t i = 0; i < s->m * s->n; i++) {
		const int64_t row = i / s->n, column = i % s->n;
		uint32_t want = 0;
		for (int64_t k = 0; k < s->k; k++)
			want += (uint32_t)(a[s->a_turned ? k * s->m + row : row * s->k + k] * b[s->b_turned ? column * s->k + k : k * s->n + column]);
		if (got[i] != (int32_t)want)
			fail_msg("%lld x %lld x %lld%s%s%s, TJ_CPU=%s, element %lld: %d, not %d", (long long)s->m, (long long)s->k,
			         (long long)s->n, s->a_turned ? ", A turned" : "", s->b_turned ? ", B turned" : "",
			         s->frozen ? ", frozen" : "", getenv("TJ_CPU") ? getenv("TJ_CPU") : "", (long long)i, got[i],
			         (int32_t)want);
	}
}

static void multiply(const shape *s)
{
	const fenced a = bytes(s->m * s->k), b = bytes(s->k * s->n);
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_wrap(c, TJ_I8, s->a_turned ? TJ_SHAPE(s->k, s->m) : TJ_SHAPE(s->m, s->k), NULL, a.data, NULL, NULL);
	job j = { *s, tj_retain(tj_wrap(c, TJ_I8, s->b_turned ? TJ_SHAPE(s->n, s->k) : TJ_SHAPE(s->k, s->n), NULL, b.data, NULL, NULL)) };
	tj_fn *f = tj_compile(c, body, &j,
	                      TJ_OPTS(tj_compile_opts, .name = "dots", .nin = 2, .nout = 1, .freeze = s->frozen ? TJ_VARS(&j.b) : NULL));
	tj_tensor *y = tj_call1(f, TJ_LIST(x, j.b));
	check(s, a.data, b.data, tj_data(y));
	kit_ok(c);
	tj_release(j.b);
	tj_close(c);
	unfence(a), unfence(b);
}

#define ANY(list) (list)[rnd() % (sizeof(list) / sizeof *(list))]
static shape any_shape(int i)
{
	static const int64_t m[] = { 1, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 14, 25 }, n[] = { 1, 2, 3, 5, 16, 31, 32, 63, 64, 65, 100, 131 };
	static const int64_t k[] = { 1, 2, 3, 4, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 80, 127, 129, 200, 256, 1000, 1023, 1984, 1985, 2049 };
	return (shape){ i % 3 ? 1 : ANY(m), i % 10 == 9 ? 24510 + (int64_t)(rnd() % 9) : ANY(k), ANY(n), rnd() % 4 == 0, i % 2, rnd() % 3 == 0 };
}

static void shapes(void **state)
{
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 100 : 10); i++) {
		const shape s = any_shape(i);
		if (i % 5 > 2) setenv("TJ_CPU", i % 5 == 3 ? "256" : "128", 1);
		multiply(&s);
		unsetenv("TJ_CPU");
	}
}

/* Constants lie in words, whatever their layout. */
static void constants(void **state)
{
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 40 : 4); i++) {
		shape s = any_shape(i % 10);
		s.frozen = true;
		s.m = 1 + (int64_t)(rnd() % 40);
		if (s.n < 26) s.n += 40; /* few columns are not copied */
		multiply(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(shapes), cmocka_unit_test(constants) };
	KIT_RUN(tests);
}
