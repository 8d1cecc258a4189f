/* SPDX-License-Identifier: MIT */
/* What a product computes as it reads its operands. Both back ends give what the functions say. */
#include "test/kit.h"

enum { K = 16, N = 40, ROWS = 5 };

static tj_tensor *ones(tj_ctx *c, int64_t rows, int64_t columns)
{
	float v[K * N];
	for (int i = 0; i < K * N; i++) v[i] = 1;
	return tj_from_data(c, TJ_F32, TJ_SHAPE(rows, columns), v);
}

/* Each element of the result is `want`, with one row and with several. */
static void all_are(tj_body *body, float want)
{
	uint8_t mask[K * N];
	for (int i = 0; i < K * N; i++) mask[i] = (uint8_t)(2 + 2 * (i % 100)); /* any byte but 0 is true */
	for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
		tj_ctx *c = kit_open();
		tj_fn *f = kit_fn(c, "ahead", body, NULL, 3, 1);
		for (int call = 0; call < 2; call++) {
			const float *y = tj_data(tj_call1(f, TJ_LIST(ones(c, rows, K), tj_from_data(c, TJ_BOOL, TJ_SHAPE(K, N), mask), ones(c, K, N))));
			kit_ok(c);
			for (int i = 0; i < rows * N; i++) assert_true(y[i] == want);
		}
		tj_close(c);
	}
}

static void masked(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_matmul(in[0], tj_where(in[1], in[2], tj_f(0)));
}
static void cast(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_matmul(in[0], tj_cast(in[1], TJ_F32)); }
static void negated(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self, out[0] = tj_matmul(in[0], tj_where(tj_logical_not(in[1]), in[2], tj_f(0)));
}
static void bool_bytes(void **s)
{
	(void)s;
	all_are(masked, K);
	all_are(cast, K);
	all_are(negated, 0);
}

/* One number, in both operands and after the product. */
static void scaled(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *n = tj_f(1.5);
	(void)self;
	out[0] = tj_add(tj_matmul(tj_mul(in[0], n), tj_mul(in[2], n)), n);
}

static void one_number(void **s)
{
	(void)s;
	all_are(scaled, 1.5f * 1.5f * K + 1.5f);
}

/* Operands without memory: nothing but indices and numbers goes into them. */
static void index_of_bf16(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *i = tj_reshape(tj_cast(tj_mul(tj_arange(TJ_F32, 0, K, 1), tj_f(0)), TJ_BF16), TJ_SHAPE(K, 1));
	out[0] = tj_matmul(in[0], tj_add(tj_expand(tj_cast(i, TJ_F32), TJ_SHAPE(K, N)), tj_f(1)));
}

static void index_of_f16(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *i = tj_cast(tj_ge(tj_arange(TJ_F32, 0, K, 1), tj_f(0)), TJ_F16);
	out[0] = tj_matmul(in[0], tj_cast(tj_expand(tj_reshape(i, TJ_SHAPE(K, 1)), TJ_SHAPE(K, N)), TJ_F32));
}

static void no_memory(void **s)
{
	(void)s;
	all_are(index_of_bf16, K);
	all_are(index_of_f16, K);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(bool_bytes), cmocka_unit_test(one_number), cmocka_unit_test(no_memory) };
	KIT_RUN(tests);
}
