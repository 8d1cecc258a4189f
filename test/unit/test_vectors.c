/* SPDX-License-Identifier: MIT */
/* What code of each width does in its own way: tails of bytes, short rows, structures, NaN in trees of maxima, small integers, constants,
 * running extremes. Rows of every length around those of vectors, beside the evaluator, bit for bit. */
#include "test/kit.h"
#include "test/skip.h"

#include <math.h>

enum { ROOM = 1 << 16 /* bytes of a result */, OUTS = 4 };
typedef struct sizes { int64_t n, m; } sizes; /* rows, elements of each */

/* ---- operands ---- */
static double odd_value(uint32_t r)
{
	static const double odd[] = { NAN, -0.0, 0, INFINITY, -INFINITY, 1e-40, -3e38, 2.5 };
	return r % 16 < 8 ? odd[r % 16] : ((double)(r % 4096) - 2048) / 64;
}

static tj_tensor *operand(tj_ctx *c, tj_dtype t, sizes z, uint32_t seed)
{
	static union { float f[ROOM / 4]; double d[ROOM / 8]; uint8_t b[ROOM]; int16_t h[ROOM / 2]; int32_t i[ROOM / 4]; } v;
	for (int64_t i = 0; i < z.n * z.m; i++) {
		const uint32_t r = (seed = seed * 1664525u + 1013904223u) >> 9;
		if (t == TJ_F32) v.f[i] = (float)odd_value(r);
		else if (t == TJ_F64) v.d[i] = odd_value(r);
		else if (t == TJ_I16) v.h[i] = (int16_t)r;
		else if (t == TJ_I32) v.i[i] = (int32_t)(r % 100);
		else v.b[i] = (uint8_t)(t == TJ_BOOL ? r & 1 : r);
	}
	return tj_from_data(c, t, TJ_SHAPE(z.n, z.m), &v);
}

/* ---- a body at one size, on both back ends ---- */
static size_t results(const char *backend, tj_body *body, tj_dtype t, sizes z, int nout, char *to)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = backend));
	tj_tensor *y[OUTS];
	size_t at = 0;
	tj_call(kit_fn(c, "vectors", body, &z, 2, nout), y, TJ_LIST(operand(c, t, z, 1), operand(c, t, z, 2)));
	for (int o = 0; o < nout; o++) {
		const size_t bytes = (size_t)tj_numel(y[o]) * tj_dtype_size(tj_dtype_of(y[o]));
		assert_true(at + bytes <= OUTS * ROOM);
		tj_read(y[o], to + at, bytes);
		for (size_t i = 0; tj_dtype_of(y[o]) == TJ_F32 && i < bytes / 4; i++) { /* all NaN are one */
			float *v = (float *)(to + at) + i;
			if (*v != *v) *v = NAN;
		}
		for (size_t i = 0; tj_dtype_of(y[o]) == TJ_F64 && i < bytes / 8; i++) {
			double *v = (double *)(to + at) + i;
			if (*v != *v) *v = NAN;
		}
		at += (bytes + 7) / 8 * 8;
	}
	kit_ok(c);
	tj_close(c);
	return at;
}

static void same(tj_body *body, tj_dtype t, sizes z, int nout)
{
	static char got[2][OUTS * ROOM];
	memset(got, 0, sizeof got);
	const size_t n = results("eval", body, t, z, nout, got[0]);
	assert_int_equal(results(kit_backend, body, t, z, nout, got[1]), n);
	if (memcmp(got[0], got[1], n))
		fail_msg("%s [%lld,%lld], TJ_CPU=%s: not the evaluator's", tj_dtype_name(t), (long long)z.n, (long long)z.m, getenv("TJ_CPU"));
}

/* At all widths; a third of the sizes in a sample. */
static void at_sizes(tj_body *body, const tj_dtype *t, int nt, const sizes *z, int nz, int nout)
{
	static const char *const width[] = { "256", "128", "512" };
	for (int i = 0; i < nt * nz * 3; i++) {
		if (left_out((unsigned long)i)) continue;
		setenv("TJ_CPU", width[i % 3], 1);
		same(body, t[i / 3 % nt], z[i / 3 / nt], nout);
		if (!strcmp(kit_backend, "eval")) break;
	}
	unsetenv("TJ_CPU");
}
#define AT(body, nout, types, ...)                                                                                  \
	at_sizes(body, types, (int)(sizeof types / sizeof *types), (const sizes[]){ __VA_ARGS__ },                      \
	         (int)(sizeof((sizes[]){ __VA_ARGS__ }) / sizeof(sizes)), nout)
#define ROWS \
	{ 1, 1 }, { 3, 2 }, { 5, 3 }, { 9, 5 }, { 4, 7 }, { 3, 15 }, { 2, 16 }, { 3, 31 }, { 2, 33 }, { 3, 63 }, { 2, 95 }, { 1, 130 }, { 3, 257 }
static const tj_dtype narrow[] = { TJ_U8, TJ_I16, TJ_BOOL }, whole[] = { TJ_U8, TJ_I16, TJ_I32 }, real[] = { TJ_F32, TJ_F64 };

/* ---- tails of elements of one and two bytes ---- */
static void tails(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *bias = tj_select(in[1], 0, 0); /* [m]: rows do not become one */
	out[0] = tj_bitwise_xor(in[0], bias);
	out[1] = tj_gt(in[0], bias);
	out[2] = tj_cast(tj_add(tj_cast(in[0], TJ_F32), tj_cast(bias, TJ_F32)), TJ_F16);
}

/* Absent lanes divide by numbers, too, and select from a table. */
static void faults(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *divisor = tj_bitwise_or(tj_select(in[1], 0, 0), tj_i(1));
	out[0] = tj_floor_divide(in[0], divisor);
	out[1] = tj_index_select(tj_mul(tj_arange(TJ_I16, 0, 128, 1), tj_i(3)), 0, tj_reshape(tj_bitwise_and(in[0], tj_i(127)), TJ_SHAPE(-1)));
}

static void rows_of_bytes(void **s) { (void)s, AT(tails, 3, narrow, ROWS, { 1, 16391 } /* a block, and less than a vector */); }
static void rows_with_faults(void **s) { (void)s, AT(faults, 2, whole, ROWS); }

/* The result lies over the operand: an element that two vectors have is computed once. */
static tj_tensor *cell;
static void add_to_cell(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_assign(cell, tj_add(tj_mul(cell, tj_i(3)), tj_select(in[0], 0, 0)));
	out[0] = tj_mul(in[0], tj_i(1));
}

static void rows_in_place(void **s)
{
	(void)s;
	for (int i = 0; i < 6; i++) {
		const int64_t n = 37 + 29 * (i / 2);
		uint8_t got[2][200] = { { 0 } };
		setenv("TJ_CPU", i % 2 ? "128" : "256", 1);
		for (int k = 0; k < 2; k++) {
			tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = k ? kit_backend : "eval"));
			cell = tj_param(c, TJ_U8, TJ_SHAPE(3, n));
			tj_fn *f = kit_fn(c, "in_place", add_to_cell, NULL, 1, 1);
			tj_tensor *x = operand(c, TJ_U8, (sizes){ 1, n }, 5), *y;
			for (int turn = 0; turn < 3; turn++) tj_call(f, &y, TJ_LIST(x));
			tj_read(tj_select(cell, 0, 1), got[k], (size_t)n);
			kit_ok(c);
			tj_close(c);
		}
		assert_memory_equal(got[0], got[1], (size_t)n);
	}
	unsetenv("TJ_CPU");
}

/* ---- rows of a few elements ---- */
static void pixels(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	tj_tensor *x = in[0];
	out[0] = tj_sub(tj_repeat_interleave(x, z->m, 1), tj_tile(in[1], TJ_SHAPE(1, z->m))); /* [n,m*m] */
	out[1] = tj_add(tj_unsqueeze(x, -1), tj_select(in[1], 0, 0));                         /* [n,m,m] */
	out[2] = tj_mul(tj_transpose(tj_reshape(in[1], TJ_SHAPE(z->m, z->n)), 0, 1), tj_i(3));
	tj_tensor *number = tj_arange(TJ_F32, 1, z->m + 1, 1); /* of an element in its row */
	out[3] = tj_mul(tj_add(x, tj_unsqueeze(tj_select(in[1], 1, 0), -1)), number);
}
static const tj_dtype mixed[] = { TJ_F32, TJ_U8, TJ_F64, TJ_I16 };
static void short_rows(void **s)
{
	(void)s;
	AT(pixels, 4, mixed, { 16, 2 }, { 33, 3 }, { 40, 4 }, { 17, 5 }, { 70, 2 }, { 15, 4 }, { 64, 3 });
}

/* ---- structures of 2^k fields, and others ---- */
static void fields(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	tj_tensor *part[17];
	for (int i = 0; i < z->m; i++) part[i] = tj_sub(tj_select(in[0], 1, z->m - 1 - i), tj_select(in[1], 1, i));
	part[z->m] = TJ_END;
	out[0] = tj_stack(part, 1);
	out[1] = tj_select(in[0], 1, 0);
	for (int i = 1; i < z->m; i++) out[1] = tj_maximum(out[1], tj_select(in[0], 1, i));
}
/* Elements of a structure and of the one behind it: loads that overlap. */
static void neighbours(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	tj_tensor *x = tj_reshape(in[0], TJ_SHAPE(z->n * z->m));
	for (int most = 0; most < 2; most++) {
		const int64_t fields = z->m + (most ? z->m - 1 : (z->m + 1) / 2);
		out[most] = tj_slice(x, 0, 0, (z->n - 2) * z->m, z->m);
		for (int64_t i = fields - 1; i > 0; i--)
			out[most] = tj_sub(tj_slice(x, 0, i, i + (z->n - 2) * z->m, z->m), out[most]);
	}
}
static void structures(void **s)
{
	(void)s;
	AT(neighbours, 2, mixed, { 100, 2 }, { 67, 4 }, { 40, 8 }, { 50, 3 }, { 39, 16 }, { 133, 5 });
	AT(fields, 2, mixed, { 100, 2 }, { 67, 4 }, { 75, 8 }, { 41, 16 }, { 64, 4 }, { 33, 8 }, { 50, 3 }, { 31, 16 });
}

/* ---- products of small square matrices ---- */
static void squares(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	const int64_t m = z->m / 16; /* matrices of m x m; z->n is a multiple of m */
	const int64_t n = z->n / m * 16;
	tj_tensor *a = tj_reshape(in[0], TJ_SHAPE(n, m, m)), *b = tj_reshape(in[1], TJ_SHAPE(n, m, m));
	out[0] = tj_matmul(a, b);
	out[1] = tj_matmul(tj_slice(a, 1, 0, (m + 1) / 2, 1), tj_transpose(b, 1, 2));
	out[2] = tj_matmul(a, tj_slice(b, 0, 0, 1, 1)); /* the same for all, in place of a batch */
	out[3] = tj_add(tj_matmul(b, a), b);
}
static const tj_dtype wide[] = { TJ_F32, TJ_F64, TJ_I32 };
static void square_products(void **s) { (void)s, AT(squares, 4, wide, { 4, 32 }, { 9, 48 }, { 12, 64 }, { 16, 128 }, { 14, 112 }); }

/* ---- elements a few places apart that every row reads ---- */
static void pairs(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	tj_tensor *total = NULL;
	for (int64_t i = 0; i < 3; i++) {
		tj_tensor *x = tj_select(in[i / 2], 1, i * (z->m - 1) / 2);
		tj_tensor *d = tj_sub(tj_unsqueeze(x, 0), tj_unsqueeze(x, 1));
		total = total ? tj_add(total, tj_mul(d, d)) : d;
	}
	out[0] = tj_amax(total, TJ_AXES(1), false);
	out[1] = tj_ne(total, tj_f(0.5));
	out[2] = tj_sum(tj_mul(total, tj_unsqueeze(tj_select(in[1], 1, 0), 0)), TJ_AXES(1), false);
}
static void all_pairs(void **s)
{
	(void)s;
	AT(pairs, 3, mixed, { 128, 2 }, { 130, 3 }, { 149, 4 }, { 131, 5 }, { 160, 16 }, { 135, 17 }, { 127, 3 });
}

/* ---- one test for NaN for a tree of maxima ---- */
static void extremes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_amax(in[0], TJ_AXES(1), false);
	out[1] = tj_amin(in[0], TJ_AXES(1), false);
	out[2] = tj_minimum(tj_maximum(in[0], in[1]), tj_maximum(tj_neg(in[0]), tj_mul(in[1], tj_f(2))));
	tj_tensor *m = tj_maximum(in[0], in[1]); /* read twice: each reader sees NaN */
	out[3] = tj_where(tj_gt(m, tj_f(1)), tj_maximum(m, tj_f(0.5)), tj_f(4));
}
static void nan_in_trees(void **s)
{
	(void)s;
	AT(extremes, 4, real, { 100, 2 }, { 99, 3 }, { 65, 5 }, { 90, 8 }, { 77, 16 }, { 60, 13 }, { 3, 300 });
}

/* ---- i64 that are computed in 32 bits ---- */
static void counted(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const sizes *z = self;
	tj_tensor *at = tj_arange(TJ_I64, 5, 5 + z->m, 1), *row = tj_unsqueeze(tj_arange(TJ_I64, 0, z->n, 1), 1);
	out[0] = tj_add(in[0], tj_cast(tj_sub(tj_mul(at, tj_i(3)), row), TJ_F32));
	out[1] = tj_where(tj_le(at, tj_mul(row, row)), in[0], in[1]);
	out[2] = tj_mul(in[0], tj_eye(TJ_F32, z->n, z->m));
	tj_tensor *square = tj_mul(at, at); /* its square does not fit */
	out[3] = tj_add(tj_cast(tj_mul(square, square), TJ_F32), tj_cast(tj_mul(tj_cast(tj_cast(in[1], TJ_U8), TJ_I64), at), TJ_F32));
}
static void small_integers(void **s) { (void)s, AT(counted, 4, real, ROWS); }

/* ---- constants in memory, powers of two, conditions that are the same in all lanes ---- */
static void curves(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_exp(in[0]);
	out[1] = tj_log(tj_abs(in[1]));
	out[2] = tj_add(tj_sigmoid(tj_mul(in[0], tj_f(40))), tj_cosh(in[1]));
	out[3] = tj_where(tj_gt(tj_select(tj_select(in[1], 0, 0), 0, 0), tj_f(0)), tj_erf(in[0]), tj_tanh(in[1]));
}
static void constants(void **s) { (void)s, AT(curves, 4, real, ROWS, { 7, 1000 }); }

/* ---- cummax, cummin ---- */
static void running(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_cummax(in[0], 1, NULL);
	out[1] = tj_cummin(in[1], 1, NULL);
	out[2] = tj_cummax(in[1], 0, NULL);
	out[3] = tj_cummin(in[0], 0, NULL);
}
static void running_extremes(void **s)
{
	(void)s;
	AT(running, 4, real, ROWS, { 1, 1000 }, { 40, 64 }, { 30, 200 }, { 2, 1 }, { 0, 5 }, { 900, 3 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_bytes),
		cmocka_unit_test(rows_with_faults),
		cmocka_unit_test(rows_in_place),
		cmocka_unit_test(short_rows),
		cmocka_unit_test(structures),
		cmocka_unit_test(square_products),
		cmocka_unit_test(all_pairs),
		cmocka_unit_test(nan_in_trees),
		cmocka_unit_test(small_integers),
		cmocka_unit_test(constants),
		cmocka_unit_test(running_extremes),
	};
	KIT_RUN(tests);
}
