/* SPDX-License-Identifier: MIT */
/* Integer division beside C's: multiples of many divisors and their neighbours, the ends of i32. The evaluator computes quotients as
 * kernels do, by a reciprocal, so it is no witness here. */
#include "test/kit.h"

static const int32_t ends[] = { INT32_MIN, INT32_MIN + 1, -1000000007, -65536, -129, -128, -1, 0, 1, 127, 128, 255, 65535, 999999937,
	                        INT32_MAX - 1, INT32_MAX };
enum { ENDS = sizeof ends / sizeof *ends, MULTIPLES = 400, N = ENDS + 3 * MULTIPLES };

static void divide(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *by = self ? tj_i(*(int64_t *)self) : in[1];
	out[0] = tj_trunc_divide(in[0], by);
	out[1] = tj_floor_divide(in[0], by);
	out[2] = tj_remainder(in[0], by);
	out[3] = tj_fmod(in[0], by);
}

/* op as in divide(), wrapping */
static int32_t expected(int op, int32_t a, int32_t b)
{
	const int64_t q = (int64_t)a / b, r = (int64_t)a % b, down = r && (r < 0) != (b < 0);
	return (int32_t)(op == 0 ? q : op == 1 ? q - down : op == 2 ? r + down * b : r);
}

static void fill(int32_t *x, int32_t d)
{
	memcpy(x, ends, sizeof ends);
	for (int i = 0; i < MULTIPLES; i++) {
		const uint32_t multiple = (uint32_t)d * (uint32_t)(i < 200 ? i - 100 : i * 5368709);
		for (int k = 0; k < 3; k++) x[ENDS + 3 * i + k] = (int32_t)(multiple + (uint32_t)(k - 1));
	}
}

static void check(tj_tensor *const *y, const int32_t *x, int32_t d, const char *how)
{
	static int32_t got[N];
	for (int op = 0; op < 4; op++) {
		tj_read(y[op], got, sizeof got);
		for (int i = 0; i < N; i++)
			if (got[i] != expected(op, x[i], d)) fail_msg("op %d of %d and %d %s: %d, not %d", op, x[i], d, how, got[i], expected(op, x[i], d));
	}
}

static void divisors(int64_t from, int64_t to, int64_t step)
{
	static int32_t x[N], same[N];
	tj_ctx *c = kit_open();
	int64_t number;
	tj_fn *by_number = kit_fn(c, "by a number", divide, &number, 1, 4), *by_element = kit_fn(c, "by elements", divide, NULL, 2, 4);
	for (number = from; number < to; number += step) {
		const int32_t d = (int32_t)number;
		if (!d) continue;
		tj_scope *s = tj_push(c);
		tj_tensor *y[4];
		fill(x, d);
		for (int i = 0; i < N; i++) same[i] = d;
		tj_tensor *a = tj_from_data(c, TJ_I32, TJ_SHAPE(N), x);
		tj_call(by_number, y, TJ_LIST(a));
		check(y, x, d, "as a number");
		tj_call(by_element, y, TJ_LIST(a, tj_from_data(c, TJ_I32, TJ_SHAPE(N), same)));
		check(y, x, d, "as an element");
		kit_ok(c);
		tj_pop(s);
	}
	tj_close(c);
}

/* All bytes by all bytes, and the multiples of 16 bits with their neighbours. */
static void narrow(void **s)
{
	static int16_t x[3 * 256], got[3 * 256];
	static uint8_t bytes[256], quotient[256];
	(void)s;
	tj_ctx *c = kit_open();
	int64_t number;
	tj_fn *f = kit_fn(c, "narrow", divide, &number, 1, 4);
	for (number = -40000; number < 40000; number += number >= -300 && number < 300 ? 1 : 1201) {
		const int16_t d = (int16_t)number;
		if (!d || d != number) continue;
		tj_scope *scope = tj_push(c);
		tj_tensor *y[4];
		for (int i = 0; i < 256; i++)
			for (int k = 0; k < 3; k++) x[3 * i + k] = (int16_t)(i < 250 ? (i - 125) * d + k - 1 : (i - 253) * 32767 + k);
		tj_call(f, y, TJ_LIST(tj_from_data(c, TJ_I16, TJ_SHAPE(3 * 256), x)));
		for (int op = 0; op < 4; op++) {
			tj_read(y[op], got, sizeof got);
			for (int i = 0; i < 3 * 256; i++)
				if (got[i] != (int16_t)expected(op, x[i], d)) fail_msg("op %d of %d and %d: %d", op, x[i], d, got[i]);
		}
		for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
		if (d > 0 && d < 256) {
			tj_call(f, y, TJ_LIST(tj_from_data(c, TJ_U8, TJ_SHAPE(256), bytes)));
			tj_read(y[1], quotient, sizeof quotient);
			for (int i = 0; i < 256; i++)
				if (quotient[i] != i / d) fail_msg("byte %d by %d: %d", i, d, quotient[i]);
		}
		kit_ok(c);
		tj_pop(scope);
	}
	tj_close(c);
}

static void small(void **s) { (void)s, divisors(-110, 110, 1); }
static void large(void **s) { (void)s, divisors(INT32_MIN, INT32_MAX, 100000037); }

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(narrow), cmocka_unit_test(small), cmocka_unit_test(large) };
	KIT_RUN(tests);
}
