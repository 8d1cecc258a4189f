/* SPDX-License-Identifier: MIT */
/* Products of bf16, for all kinds of shapes, layouts and magnitudes, with what precedes and follows them: fast ones are within the bound of
 * docs/NUMERICS.md, and have the bits of strict mode where the instruction is not used; strict ones have the evaluator's. Around the
 * operands lies NaN, so a number too many shows. */
#include "test/kit.h"

#include <math.h>

enum { EDGE = 3 };

typedef struct shape {
	int64_t batch, m, k, n;
	bool a_turned, b_turned, frozen, wide, after; /* wide: casts to f32 in front of the product. after: scale, bias and relu follow */
	int step;                                     /* of the last axis in memory, of A and of B */
} shape;

typedef struct job {
	shape s;
	tj_tensor *b;       /* frozen */
} job;

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
	seed ^= seed << 13, seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static float from_bits(tj_bf16 v) { return (float)tj_from_bf16(v); }

/* ---- operands ---- */
enum { PLAIN, SUBNORMAL, EDGES, SPECIAL, VANISH, SMALL_B, SMALL_A, KINDS }; /* of numbers */

static double number(int kind, int operand, int64_t i)
{
	const double v = (double)(int64_t)(rnd() >> 11) * 0x1p-52 - 1;
	switch (kind) {
	case SUBNORMAL: return i % 5 ? v : ldexp(v, -130 + (int)(i % 70)); /* also products */
	case EDGES: return i % 7 ? copysign(ldexp(1 + fabs(v), -59 + (int)(rnd() % 5)), v) : 0; /* sums of products are near 2^-112 */
	case SPECIAL:
		return rnd() % 64 ? v
		                  : (double[]){
					    -0.0, 0, (double)INFINITY, -(double)INFINITY, (double)NAN, 0x1p127, -0x1p127, 0x1p-133
				    }[rnd() % 8];
	case VANISH: return ldexp(v, -100); /* products are 0 or -0 */
	case SMALL_B: return operand ? ldexp(v, -122) : v;
	case SMALL_A: return operand ? ldexp(v, 40) : ldexp(v, -127);
	default: return v;
	}
}

/* [batch, rows, columns] as a part of a larger tensor of NaN, in which elements of a row are `step` apart. */
static tj_bf16 *numbers(const shape *s, int64_t rows, int64_t columns, int64_t dim[4], int kind, int operand)
{
	const int64_t wide = columns * s->step + EDGE, n = s->batch * (rows + 1) * wide;
	tj_bf16 *x = malloc((size_t)n * sizeof *x);
	assert_non_null(x);
	for (int64_t i = 0; i < n; i++) x[i] = tj_to_bf16((double)NAN);
	for (int64_t i = 0; i < s->batch * rows * columns; i++) {
		x[(i / columns / rows * (rows + 1) + i / columns % rows) * wide + i % columns * s->step] = tj_to_bf16(number(kind, operand, i));
	}
	memcpy(dim, (int64_t[]){ s->batch, rows + 1, wide, TJ_END_DIM }, 4 * sizeof *dim);
	return x;
}

/* The operand out of what numbers() made. */
static tj_tensor *inside(tj_tensor *t, int64_t rows, int64_t columns, int step, bool turned, bool wide)
{
	t = tj_slice(tj_slice(t, 1, 0, rows, 1), 2, 0, columns * step, step);
	if (turned) t = tj_transpose(t, -1, -2);
	return wide ? tj_cast(t, TJ_F32) : t;
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const job *j = self;
	const shape *s = &j->s;
	tj_tensor *b = s->frozen ? j->b : in[1];
	tj_tensor *y = tj_matmul(inside(in[0], s->a_turned ? s->k : s->m, s->a_turned ? s->m : s->k, s->step, s->a_turned, s->wide),
	                         inside(b, s->b_turned ? s->n : s->k, s->b_turned ? s->k : s->n, s->step, s->b_turned, s->wide));
	out[0] = s->after ? tj_relu(tj_add(tj_mul(y, tj_f(0.5)), tj_f(1))) : y;
}

/* ---- one product ---- */
static double element(const tj_bf16 *x, const int64_t *dim, const shape *s, bool turned, int64_t b, int64_t row, int64_t column)
{
	if (turned) return (double)from_bits(x[(b * dim[1] + column) * dim[2] + row * s->step]);
	return (double)from_bits(x[(b * dim[1] + row) * dim[2] + column * s->step]);
}

static double result(const shape *s, const void *c, int64_t i)
{
	return s->wide ? (double)((const float *)c)[i] : (double)from_bits(((const tj_bf16 *)c)[i]);
}

static void check(const shape *s, const tj_bf16 *a, const int64_t *da, const tj_bf16 *b, const int64_t *db, const void *c)
{
	const double chain = (double)(s->k < 512 ? s->k : 512) + (double)((s->k + 511) / 512), u = 0x1p-24;
	for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
		const int64_t at = i / s->n / s->m, row = i / s->n % s->m, column = i % s->n;
		double want = 0, size = 0, flushed = 0;
		for (int64_t k = 0; k < s->k; k++) {
			const double x = element(a, da, s, s->a_turned, at, row, k), y = element(b, db, s, s->b_turned, at, k, column);
			want += x * y;
			size += fabs(x * y);
			flushed += (2 + fabs(x) + fabs(y)) * 0x1p-126;
		}
		double allowed = chain * u * size + flushed;
		if (s->after) {
			want = fmax(want * 0.5 + 1, 0);
			allowed += 3 * u * (1 + fabs(want));
		}
		if (!s->wide) allowed += (s->after ? 4 : 1.01) * 0x1p-8 * (fabs(want) + (s->after ? 1 : 0)) + 0x1p-133;
		if (!(fabs(result(s, c, i) - want) <= allowed))
			fail_msg("[%lld] %lld x %lld x %lld%s%s%s%s%s, step %d, element %lld: %a, not %a +- %a", (long long)s->batch,
			         (long long)s->m, (long long)s->k, (long long)s->n, s->a_turned ? ", A turned" : "",
			         s->b_turned ? ", B turned" : "", s->frozen ? ", frozen" : "", s->wide ? ", f32" : "",
			         s->after ? ", after" : "", s->step, (long long)i, result(s, c, i), want, allowed);
	}
}

static void multiply(const shape *s)
{
	int64_t da[4], db[4];
	const int kind = rnd() % 3 ? PLAIN : SUBNORMAL;
	tj_bf16 *a = numbers(s, s->a_turned ? s->k : s->m, s->a_turned ? s->m : s->k, da, kind, 0);
	tj_bf16 *b = numbers(s, s->b_turned ? s->n : s->k, s->b_turned ? s->k : s->n, db, kind, 1);
	tj_ctx *c = kit_open();
	tj_tensor *x = tj_from_data(c, TJ_BF16, da, a);
	job j = { *s, tj_retain(tj_from_data(c, TJ_BF16, db, b)) };
	const size_t bytes = (size_t)(s->batch * s->m * s->n) * (s->wide ? sizeof(float) : sizeof(tj_bf16));
	void *strict = malloc(bytes + 1);
	assert_non_null(strict);
	for (int fast = 0; fast < 2; fast++) {
		tj_fn *f = tj_compile(c, body, &j,
		                      TJ_OPTS(tj_compile_opts, .name = "pairs", .nin = 2, .nout = 1, .numerics = fast ? TJ_FAST : TJ_STRICT,
		                              .freeze = s->frozen ? TJ_VARS(&j.b) : NULL));
		tj_tensor *y = tj_call1(f, TJ_LIST(x, j.b));
		kit_ok(c);
		const void *got = tj_data(y);
		if (!fast) memcpy(strict, got, bytes);
		else check(s, a, da, b, db, got);
		if (fast && getenv("TJ_CPU") && !s->after) assert_memory_equal(strict, got, bytes); /* narrow vectors have no such instruction */
	}
	tj_release(j.b);
	tj_close(c);
	free(a), free(b), free(strict);
}

/* ---- many products ---- */
#define ANY(list) (list)[rnd() % (sizeof(list) / sizeof *(list))]
static shape any_shape(void)
{
	static const int64_t m[] = { 1, 2, 3, 5, 8, 11, 12, 13, 16, 24, 25, 37, 61 },
			     n[] = { 1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 128, 130, 257, 300 };
	static const int64_t k[] = { 0,   1,   1,   2,   3,   4,   7,   31,  32,  33,  63,   64,   65,
		                     127, 255, 256, 257, 258, 511, 512, 513, 514, 769, 1023, 1025, 2048 };
	shape s = { .batch = rnd() % 5 ? 1 : 3, .m = ANY(m), .k = ANY(k), .n = ANY(n), .step = rnd() % 6 ? 1 : 2 };
	if (s.m * s.k * s.n > 1 << 21) s.m = 1 + s.m % 5;
	if (s.batch > 1 && s.k > 300) s.k = s.k % 7 + 250;
	s.a_turned = rnd() % 3 == 0, s.b_turned = rnd() % 3 == 0, s.frozen = rnd() % 3 == 0, s.wide = rnd() % 2, s.after = rnd() % 3 == 0;
	return s;
}

static void shapes(void **state)
{
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 100 : 10); i++) {
		const shape s = any_shape();
		if (i % 4 == 3) setenv("TJ_CPU", i % 8 == 3 ? "256" : "128", 1);
		multiply(&s);
		unsetenv("TJ_CPU");
	}
}

/* ---- strict ones ---- */
static const char *compared(const shape *s, const void *want, const void *got)
{
	static char text[100];
	for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
		uint32_t x[2] = { 0 };
		const size_t size = s->wide ? sizeof(float) : sizeof(tj_bf16);
		memcpy(&x[0], (const char *)want + (size_t)i * size, size);
		memcpy(&x[1], (const char *)got + (size_t)i * size, size);
		const uint32_t infinite = s->wide ? 0x7f800000 : 0x7f80, sign = s->wide ? 1u << 31 : 1u << 15;
		if (x[0] == x[1] || ((x[0] & ~sign) > infinite && (x[1] & ~sign) > infinite)) continue; /* NaN has no bits */
		snprintf(text, sizeof text, "element %lld is %x, not %x", (long long)i, x[1], x[0]);
		return text;
	}
	return NULL;
}

static void agree(const shape *s, int kind)
{
	static const char *const kinds[KINDS] = { "plain", "subnormal", "edges", "special", "vanish", "small B", "small A" };
	int64_t da[4], db[4];
	tj_bf16 *a = numbers(s, s->a_turned ? s->k : s->m, s->a_turned ? s->m : s->k, da, kind, 0);
	tj_bf16 *b = numbers(s, s->b_turned ? s->n : s->k, s->b_turned ? s->k : s->n, db, kind, 1);
	const size_t bytes = (size_t)(s->batch * s->m * s->n) * (s->wide ? sizeof(float) : sizeof(tj_bf16));
	void *want = malloc(bytes + 1);
	assert_non_null(want);
	for (int compiled = 0; compiled < 2; compiled++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = compiled ? kit_backend : "eval"));
		job j = { *s, tj_retain(tj_from_data(c, TJ_BF16, db, b)) };
		tj_fn *f = tj_compile(
			c, body, &j,
			TJ_OPTS(tj_compile_opts, .name = "strict", .nin = 2, .nout = 1, .freeze = s->frozen ? TJ_VARS(&j.b) : NULL));
		const void *got = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_BF16, da, a), j.b)));
		kit_ok(c);
		const char *wrong = NULL;
		if (!compiled) memcpy(want, got, bytes);
		else if ((wrong = compared(s, want, got)))
			fail_msg("[%lld] %lld x %lld x %lld%s%s%s%s%s, step %d, %s: %s", (long long)s->batch, (long long)s->m,
			         (long long)s->k, (long long)s->n, s->a_turned ? ", A turned" : "", s->b_turned ? ", B turned" : "",
			         s->frozen ? ", frozen" : "", s->wide ? ", f32" : "", s->after ? ", after" : "", s->step, kinds[kind],
			         wrong);
		tj_release(j.b);
		tj_close(c);
	}
	free(a), free(b), free(want);
}

static void strict_shapes(void **state)
{
	(void)state;
	for (int i = 0; i < (strcmp(kit_backend, "eval") ? 140 : 14); i++) {
		shape s = any_shape();
		if (i % 3) s.m = 13 + s.m, s.frozen = i % 2; /* more than a tile */
		agree(&s, i % KINDS);
	}
}

/* ---- special values ---- */
static void plain(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], in[1]); }

/* Infinity in the last step of an odd k, whose word has no second step: no 0 * inf is added. */
static void last_step(void **state)
{
	(void)state;
	for (int64_t rows = 1; rows <= 30; rows += rows < 5 ? 2 : 25)
		for (int turned = 0; turned < 2; turned++) {
			enum { K = 5, N = 64 };
			tj_bf16 a[30 * K], b[K * N];
			for (int i = 0; i < 30 * K; i++) a[i] = tj_to_bf16(1);
			for (int i = 0; i < K * N; i++) b[i] = tj_to_bf16((turned ? i % K : i / N) == K - 1 ? (double)INFINITY : 1);
			tj_ctx *c = kit_open();
			tj_fn *f = tj_compile(c, plain, NULL, TJ_OPTS(tj_compile_opts, .name = "inf", .nin = 2, .nout = 1, .numerics = TJ_FAST));
			tj_tensor *x = tj_from_data(c, TJ_BF16, TJ_SHAPE(rows, K), a),
				  *y = tj_from_data(c, TJ_BF16, turned ? TJ_SHAPE(N, K) : TJ_SHAPE(K, N), b);
			const tj_bf16 *got = tj_data(tj_call1(f, TJ_LIST(x, turned ? tj_transpose(y, 0, 1) : y)));
			for (int64_t i = 0; i < rows * N; i++) assert_true(isinf(from_bits(got[i])));
			kit_ok(c);
			tj_close(c);
		}
}

/* Strict products, and fast ones of other dtypes, keep the bits of the evaluator. */
static void strict_bits(void **state)
{
	(void)state;
	enum { M = 20, K = 300, N = 70 };
	static float a[M * K], b[K * N], want[M * N];
	for (int i = 0; i < M * K; i++) a[i] = (float)(rnd() >> 40) * 0x1p-24f;
	for (int i = 0; i < K * N; i++) b[i] = (float)(rnd() >> 40) * 0x1p-24f - 0.5f;
	for (int fast = 0; fast < 2; fast++) {
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, plain, NULL,
		                      TJ_OPTS(tj_compile_opts, .name = "f32", .nin = 2, .nout = 1, .numerics = fast ? TJ_FAST : TJ_STRICT));
		const float *got = tj_data(tj_call1(f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(M, K), a), tj_from_data(c, TJ_F32, TJ_SHAPE(K, N), b))));
		if (!fast) memcpy(want, got, sizeof want);
		else assert_memory_equal(want, got, sizeof want);
		kit_ok(c);
		tj_close(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(shapes), cmocka_unit_test(strict_shapes), cmocka_unit_test(last_step),
		                            cmocka_unit_test(strict_bits) };
	KIT_RUN(tests);
}
