/* SPDX-License-Identifier: MIT */
/* Linear algebra: what the factors and solutions must satisfy, at sizes around those of blocks, for batches, and for matrices that have no
 * solution; gradients are in test_grad.c, the same bits by any executor in the random graphs. */
#include "test/kit.h"

#include <math.h>

static void numbers(double *x, int64_t n, unsigned seed)
{
	for (int64_t i = 0; i < n; i++) x[i] = (double)((seed = seed * 1664525u + 1013904223u) >> 9) / (1 << 22) - 1;
}

static tj_tensor *random_of(tj_ctx *c, tj_dims shape, unsigned seed)
{
	int64_t n = 1;
	for (int i = 0; shape[i] != TJ_END_DIM; i++) n *= shape[i];
	double *x = malloc((size_t)(n + 1) * sizeof *x);
	numbers(x, n, seed);
	tj_tensor *t = tj_from_data(c, TJ_F64, shape, x);
	free(x);
	return t;
}

static tj_tensor *turned(tj_tensor *a) { return tj_transpose(a, -2, -1); }
static tj_tensor *definite(tj_ctx *c, int64_t batch, int64_t n)
{
	tj_tensor *z = random_of(c, TJ_SHAPE(batch, n, n), (unsigned)n);
	return tj_add(tj_matmul(z, turned(z)), tj_eye(TJ_F64, n, n));
}

/* The largest distance of two tensors, relative to the larger of 1 and the largest element. */
static void near(tj_tensor *x, tj_tensor *y, int64_t n, const char *what)
{
	if (!tj_numel(y)) return;
	double off, most;
	tj_read(tj_amax(tj_abs(tj_sub(x, y)), TJ_ALL, false), &off, sizeof off);
	tj_read(tj_amax(tj_abs(y), TJ_ALL, false), &most, sizeof most);
	if (!(off <= 1e-14 * (double)(n + 4) * (most > 1 ? most : 1))) fail_msg("%s of %d: %g away", what, (int)n, off);
}

static void factors(void **s)
{
	(void)s;
	static const int64_t sizes[] = { 0, 1, 2, 3, 7, 31, 32, 33, 47, 64, 65, 97, 130 };
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		tj_scope *in = tj_push(c);
		const int64_t n = sizes[i], batch = n < 10 ? 3 : 1;
		tj_tensor *a = definite(c, batch, n), *l = tj_cholesky(a), *low, *up, *r;
		near(tj_matmul(l, turned(l)), a, n, "cholesky");
		near(tj_triu(l, 1), tj_zeros_like(l), n, "above the diagonal");
		for (int wide = -1; wide < 2; wide++) {
			tj_tensor *b = random_of(c, TJ_SHAPE(batch, n + (wide < 0 ? 5 : 0), n + (wide > 0 ? 5 : 0)), 5), *p = tj_lu(b, &low, &up);
			near(tj_matmul(p, tj_matmul(low, up)), b, n, "lu");
			tj_tensor *q = tj_qr(b, &r);
			near(tj_matmul(q, r), b, n, "qr");
			near(tj_matmul(turned(q), q), tj_expand_as(tj_eye(TJ_F64, tj_dim(q, 2), tj_dim(q, 2)), r = tj_matmul(turned(q), q)), n, "q' q");
		}
		kit_ok(c);
		tj_pop(in);
	}
	tj_close(c);
}

static void solutions(void **s)
{
	(void)s;
	static const int64_t sizes[] = { 1, 2, 5, 33, 70 };
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const int64_t n = sizes[i];
		tj_tensor *a = definite(c, 2, n), *b = random_of(c, TJ_SHAPE(n, 3), 9), *v = random_of(c, TJ_SHAPE(n), 10), *log;
		near(tj_matmul(a, tj_solve(a, b)), tj_expand(b, TJ_SHAPE(2, n, 3)), 100 * n, "solve"); /* one b for both */
		near(tj_matmul(a, tj_unsqueeze(tj_solve(a, v), -1)), tj_expand(tj_unsqueeze(v, -1), TJ_SHAPE(2, n, 1)), 100 * n, "solve of a vector");
		near(tj_cholesky_solve(b, tj_cholesky(a)), tj_solve(a, b), 100 * n, "cholesky_solve");
		near(tj_matmul(a, tj_inv(a)), tj_expand(tj_eye(TJ_F64, n, n), TJ_SHAPE(2, n, n)), 100 * n, "inv");
		near(tj_solve_triangular(a, tj_matmul(tj_triu(a, 0), b), true, false), tj_expand(b, TJ_SHAPE(2, n, 3)), 1000 * n, "upper");
		near(tj_lstsq(a, b), tj_solve(a, b), 1000 * n, "lstsq");
		tj_tensor *flat = tj_narrow(a, 1, 0, (n + 1) / 2), *x = tj_lstsq(flat, tj_narrow(b, 0, 0, (n + 1) / 2));
		near(tj_matmul(flat, x), tj_expand(tj_narrow(b, 0, 0, (n + 1) / 2), TJ_SHAPE(2, (n + 1) / 2, 3)), 1000 * n, "the shortest");
		tj_tensor *sign_of = tj_slogdet(a, &log);
		if (n < 6) near(tj_mul(sign_of, tj_exp(log)), tj_det(a), 100 * n, "slogdet");
		tj_tensor *one = tj_expand(tj_eye(TJ_F64, n, n), TJ_SHAPE(2, n, n));
		if (n < 6) near(tj_matmul(tj_matrix_exp(a), tj_matrix_exp(tj_neg(a))), one, 1 << 20, "exp");
	}
	/* the sign of permutations */
	tj_tensor *p = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 3, 3), ((double[]){ 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1 }));
	double sign[2];
	tj_read(tj_det(p), sign, sizeof sign);
	assert_true(sign[0] == 1 && sign[1] == -1);
	/* of pivots of one size the first is taken */
	double packed[6];
	tj_read(tj_lu_packed(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), ((double[]){ 1, 2, -1, 3 }))), packed, sizeof packed);
	assert_memory_equal(packed, ((double[]){ 1, 2, 0, -1, 5, 1 }), sizeof packed);
	kit_ok(c);
	tj_close(c);
}

static void exponentials(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	for (int i = 0; i < 9; i++) { /* a turn of each size: cosines and sines */
		const double x = ldexp(1.2345, i - 3);
		tj_tensor *a = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), ((double[]){ 0, -x, x, 0 }));
		tj_tensor *want = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), ((double[]){ cos(x), -sin(x), sin(x), cos(x) }));
		near(tj_matrix_exp(a), want, 100, "a turn");
	}
	kit_ok(c);
	tj_close(c);
}

#define FAILS(call, code, part) (assert_true(tj_is_poison(call)), kit_error(c, code, part))
static void refused(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	tj_ctx_use(c);
	double x;
	tj_tensor *zero = tj_zeros(TJ_F64, TJ_SHAPE(2, 3, 3));
	FAILS(tj_cholesky(tj_zeros(TJ_F64, TJ_SHAPE(2, 3))), TJ_ERR_SHAPE, "one size");
	FAILS(tj_solve(tj_zeros(TJ_F64, TJ_SHAPE(2, 3)), zero), TJ_ERR_SHAPE, "square");
	FAILS(tj_solve(zero, tj_zeros(TJ_F64, TJ_SHAPE(4, 1))), TJ_ERR_SHAPE, "f64[2,3,3]");
	FAILS(tj_inv(tj_i(3)), TJ_ERR_DTYPE, "");
	tj_read(tj_select(tj_select(tj_select(tj_cholesky(tj_add(zero, tj_f(-1))), 0, 0), 0, 0), 0, 0), &x, sizeof x);
	kit_error(c, TJ_ERR_SINGULAR, "matrix 0 of 2");
	tj_read(tj_sum(tj_solve(zero, tj_ones(TJ_F64, TJ_SHAPE(3))), TJ_ALL, false), &x, sizeof x);
	kit_error(c, TJ_ERR_INDEX, "singular");
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(factors), cmocka_unit_test(solutions), cmocka_unit_test(exponentials), cmocka_unit_test(refused),
	};
	KIT_RUN(tests);
}
