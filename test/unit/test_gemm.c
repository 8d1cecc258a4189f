/* Matrix products: for every way to cut them into tiles, equal bits to a chain of fused multiply-adds in the order of k; results
 * of the library within the error bound of their sums; the same bits no matter how busy the team is. */
#include "runtime/alloc.h"
#include "runtime/gemm.h"
#include "test/skip.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { EDGE = 7 }; /* floats around C that must stay as they were */

typedef struct product {
	int64_t m, n, k, batch;
	bool a_turned, b_turned; /* stored as their transposes */
} product;

typedef struct operands {
	float *a, *b, *c;
	int64_t *offset; /* of a, b, c by batch */
	rt_matmul_desc d;
} operands;

static float number(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15u;
	return (float)((int64_t)(i >> 40) - (1 << 23)) * 0x1p-22f;
}

static float *numbers(int64_t n, uint64_t from)
{
	float *p = malloc(((size_t)n + 1) * sizeof *p);
	assert_non_null(p);
	for (int64_t i = 0; i < n; i++) p[i] = number(from + (uint64_t)i);
	return p;
}

static operands operands_of(const product *p)
{
	int64_t na = p->m * p->k, nb = p->k * p->n, row = p->n + EDGE, nc = p->m * row;
	operands o = { numbers(na * p->batch, 1), numbers(nb * p->batch, 7777), numbers(nc * p->batch + EDGE, 99),
	               malloc(3 * (size_t)p->batch * sizeof(int64_t)), { .dtype = TJ_F32, .m = p->m, .n = p->n, .k = p->k } };
	o.d.batch = p->batch;
	o.d.a_row = p->a_turned ? 1 : p->k, o.d.a_col = p->a_turned ? p->m : 1;
	o.d.b_row = p->b_turned ? 1 : p->n, o.d.b_col = p->b_turned ? p->k : 1;
	o.d.c_row = row;
	assert_non_null(o.offset);
	for (int64_t i = 0; i < p->batch; i++)
		o.offset[i] = i * na, o.offset[p->batch + i] = i * nb, o.offset[2 * p->batch + i] = i * nc;
	if (p->batch > 1) o.d.a_batch = o.offset, o.d.b_batch = o.offset + p->batch, o.d.c_batch = o.offset + 2 * p->batch;
	return o;
}

static void drop(operands *o) { free(o->a), free(o->b), free(o->c), free(o->offset); }

/* One element: as the tiles compute it, and how far off any order of adding may be. */
static float chain(const operands *o, int64_t batch, int64_t i, int64_t j, float *bound)
{
	const rt_matmul_desc *d = &o->d;
	const float *a = o->a + o->offset[batch] + i * d->a_row, *b = o->b + o->offset[d->batch + batch] + j * d->b_col;
	float s = 0, size = 0;
	for (int64_t k = 0; k < d->k; k++) {
		s = fmaf(a[k * d->a_col], b[k * d->b_row], s);
		size += fabsf(a[k * d->a_col] * b[k * d->b_row]);
	}
	*bound = size * (float)(d->k + 2) * 0x1p-23f;
	return s;
}

/* Every element, and nothing between the rows. */
static void compare(const product *p, const operands *o, bool exact)
{
	for (int64_t q = 0; q < p->batch; q++)
		for (int64_t i = 0; i < p->m; i++) {
			const float *c = o->c + q * p->m * o->d.c_row + i * o->d.c_row;
			for (int64_t j = 0; j < p->n; j++) {
				float bound, want = chain(o, q, i, j, &bound);
				if (exact ? c[j] != want : !(fabsf(c[j] - want) <= bound))
					fail_msg("[%lld,%lld]x[%lld,%lld], element %lld,%lld: %a, not %a", (long long)p->m, (long long)p->k, (long long)p->k,
					         (long long)p->n, (long long)i, (long long)j, (double)c[j], (double)want);
			}
			for (int64_t j = p->n; j < p->n + EDGE; j++) assert_true(c[j] == number(99 + (uint64_t)(c + j - o->c)));
		}
}

static const rt_policy *policy_of(int bits) { return bits == 256 ? &rt_policy_256 : &rt_policy_512; }

static rt_gemm gemm_of(const operands *o)
{
	return (rt_gemm){ o->d.m, o->d.n, o->d.k, o->d.a_row, o->d.a_col, o->d.b_row, o->d.c_row, NULL, 1, false };
}

/* At both widths; strips_from as in rt_policy. B starts `late` floats behind the start of a page, its rows have `more` floats than
 * columns, and behind its last element there is nothing, as the address sanitizer sees. */
static void run_widths(const product *p, int64_t strips_from, int64_t late, int64_t more)
{
	for (int bits = 256; bits <= 512; bits *= 2) {
		operands o = operands_of(p);
		rt_gemm g = gemm_of(&o);
		void *space;
		g.b_row = p->n + more;
		assert_int_equal(posix_memalign(&space, 4096, (size_t)(late + (p->k ? (p->k - 1) * g.b_row + p->n : 0)) * sizeof *o.b), 0);
		float *b = (float *)space + late;
		for (int64_t k = 0; k < p->k; k++) memcpy(b + k * g.b_row, o.b + k * p->n, (size_t)p->n * sizeof *b);
		rt_policy policy = *policy_of(bits);
		policy.strips_from = strips_from;
		g.policy = &policy;
		if (!rt_gemm_takes(&g)) SKIP("this CPU has no AVX2");
		rt_gemm_run(&g, o.a, b, o.c);
		compare(p, &o, true);
		free(space);
		drop(&o);
	}
}

/* All heights of a tile, with all remainders of columns; A as it is and turned. */
static void test_tiles(void **state)
{
	(void)state;
	static const int64_t ns[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 96, 100, 127, 128, 131, 200 }, ks[] = { 0, 1, 2, 3, 40 };
	for (size_t in = 0; in < RT_COUNT(ns); in++)
		for (size_t ik = 0; ik < RT_COUNT(ks); ik++)
			for (int64_t m = 0; m <= 20; m++) {
				product p = { m, ns[in], ks[ik], 1, m % 2, false };
				run_widths(&p, 0, 0, 0);
			}
}

/* All heights of strips: rows of B that are whole pages or not, whole or a part of longer ones, from the start of a page or not,
 * blocks of k and what is left. */
static void test_strips(void **state)
{
	(void)state;
	static const int64_t ns[] = { 1, 15, 40, 1000, 1024, 2048, 2083, 3072 }, ks[] = { 1, 5, 6, 12, 31 };
	for (size_t in = 0; in < RT_COUNT(ns); in++)
		for (size_t ik = 0; ik < RT_COUNT(ks); ik++)
			for (int64_t m = 1; m <= 17; m++) {
				product p = { m, ns[in], ks[ik], 1, m % 2, false };
				run_widths(&p, 1, (int64_t)((in + ik) % 3) * 100, (in + ik) % 2 ? 0 : ik % 2 ? 1000 : 4096 - p.n);
			}
}

static const product products[] = {
	{ 1, 768, 900, 1, false, false }, { 1, 3000, 300, 1, false, false }, { 2, 777, 400, 1, false, false }, { 8, 1000, 300, 1, true, false },
	{ 5, 4, 100, 1, false, false },   { 100, 1, 300, 1, false, false },  { 1, 100, 300, 1, false, true },  { 64, 64, 64, 1, false, false },
	{ 64, 64, 64, 7, false, false },  { 30, 20, 10, 9, true, true },     { 130, 120, 110, 1, false, false }, { 130, 120, 110, 3, true, false },
	{ 120, 200, 90, 1, false, true }, { 33, 500, 100, 1, true, true },   { 3, 3, 3, 1, false, false },     { 6, 2000, 200, 2, false, false },
};

/* Any way of computing, twice, alone and with a team: the bits are the same if the team has the same size. */
static void test_ways(void **state)
{
	(void)state;
	rt_team *team = rt_team_get(2);
	for (size_t i = 0; i < RT_COUNT(products); i++) {
		const product *p = &products[i];
		operands o = operands_of(p);
		rt_err err = { 0 };
		rt_matmul *m = rt_matmul_new(&o.d, &err);
		rt_run run = { .team = team, .err = &err };
		assert_non_null(m);
		size_t bytes = (size_t)(p->m * o.d.c_row * p->batch) * sizeof(float);
		float *first = malloc(bytes);
		assert_non_null(first);
		assert_int_equal(rt_matmul_run(m, o.a, o.b, o.c, &run), TJ_OK);
		compare(p, &o, !strcmp(rt_matmul_name(m), "own tiles"));
		memcpy(first, o.c, bytes);
		for (int k = 0; k < 5; k++) {
			assert_int_equal(rt_matmul_run(m, o.a, o.b, o.c, &run), TJ_OK);
			assert_memory_equal(first, o.c, bytes);
		}
		free(first);
		rt_matmul_free(m);
		drop(&o);
	}
}

/* ---- f64 ---- */
/* Where element (i, j) of a matrix of this layout lies: row-major, turned, backwards, with a step. */
typedef struct layout64 { int64_t row, col, first; } layout64;
static layout64 layout_of(int kind, int64_t rows, int64_t cols)
{
	switch (kind) {
	case 0: return (layout64){ cols, 1, 0 };
	case 1: return (layout64){ 1, rows, 0 };
	case 2: return (layout64){ -cols, 1, rows ? (rows - 1) * cols : 0 };
	default: return (layout64){ 2 * cols, 2, 1 };
	}
}

static double wide_number(uint64_t i) { return (double)number(i) * 1.000000123 + (double)number(i * 3 + 1) * 0x1p-25; }

/* Each product rounded, then added, in the order of k. */
static void check64(int64_t m, int64_t n, int64_t k, int la, int lb, const double *a, const double *b, const double *c, int64_t c_row)
{
	layout64 x = layout_of(la, m, k), y = layout_of(lb, k, n);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < c_row; j++) {
			double want = j < n ? 0 : 42; /* memory after a row stays as it was */
			for (int64_t q = 0; q < k && j < n; q++) {
				double p = a[x.first + i * x.row + q * x.col] * b[y.first + q * y.row + j * y.col];
				want += p;
			}
			if (c[i * c_row + j] != want)
				fail_msg("f64 [%lld,%lld]x[%lld,%lld], layouts %d %d, element %lld,%lld: %a, not %a", (long long)m, (long long)k, (long long)k,
				         (long long)n, la, lb, (long long)i, (long long)j, c[i * c_row + j], want);
		}
}

/* bits: of vectors; 0: as a planned product, in a team. */
static void run64(int64_t m, int64_t n, int64_t k, int la, int lb, int bits)
{
	int64_t na = 2 * m * k + 2, nb = 2 * k * n + 2, c_row = bits ? n + EDGE : n, nc = m * c_row + 1;
	double *a = malloc((size_t)na * sizeof *a), *b = malloc((size_t)nb * sizeof *b), *c = malloc((size_t)nc * sizeof *c);
	assert_true(a && b && c);
	for (int64_t i = 0; i < na; i++) a[i] = wide_number((uint64_t)i);
	for (int64_t i = 0; i < nb; i++) b[i] = wide_number((uint64_t)i + 555);
	for (int64_t i = 0; i < nc; i++) c[i] = 42;
	layout64 x = layout_of(la, m, k), y = layout_of(lb, k, n);
	rt_gemm g = { .m = m, .n = n, .k = k, .a_row = x.row, .a_col = x.col, .b_row = y.row, .b_col = y.col, .c_row = c_row, .policy = policy_of(bits) };
	rt_matmul_desc d = { .dtype = TJ_F64, .m = m, .n = n, .k = k, .batch = 1, .a_row = x.row, .a_col = x.col, .b_row = y.row, .b_col = y.col, .c_row = n };
	rt_err err = { 0 };
	rt_run run = { .team = rt_team_get(2), .err = &err };
	rt_matmul *p = bits ? NULL : rt_matmul_new(&d, &err);
	if (!bits) assert_int_equal(rt_matmul_run(p, a + x.first, b + y.first, c, &run), TJ_OK);
	else if (rt_gemm64_takes(&g)) rt_gemm64_run(&g, a + x.first, b + y.first, c);
	if (!bits || rt_gemm64_takes(&g)) check64(m, n, k, la, lb, a, b, c, c_row);
	rt_matmul_free(p);
	free(a), free(b), free(c);
}

/* Sizes around those of tiles and of the parts that are packed; all layouts; without memory to pack, too. */
static void test_f64(void **state)
{
	(void)state;
	static const int64_t sizes[][3] = { { 5, 7, 0 },    { 1, 1, 1 },     { 8, 24, 128 },  { 17, 25, 129 },  { 100, 33, 257 }, { 3, 800, 40 },
		                                { 40, 777, 9 }, { 97, 769, 130 }, { 200, 130, 70 }, { 1, 300, 200 }, { 50, 1, 60 },    { 7, 50, 300 } };
	for (size_t i = 0; i < RT_COUNT(sizes); i++)
		for (int layouts = 0; layouts < 16; layouts++)
			for (int bits = 0; bits <= 512; bits += 256) run64(sizes[i][0], sizes[i][1], sizes[i][2], layouts / 4, layouts % 4, bits);
	for (int64_t m = 0; m < 20; m++)
		for (int64_t n = 0; n < 40; n++)
			for (int bits = 256; bits <= 512; bits += 256) run64(m, n, 3, 0, m % 2 ? 1 : 0, bits);
	for (int bits = 256; bits <= 512; bits += 256) {
		rt_alloc_fail_at(0);
		run64(60, 70, 300, 1, 1, bits);
		assert_true(rt_alloc_count() == 1); /* it asked, in vain */
		rt_alloc_fail_at(-1);
	}
}

/* Our tiles compute products with few rows or a small B; the library, if there is one, large ones and those with a transposed B. */
static void test_choice(void **state)
{
	(void)state;
	const rt_policy *w = &rt_policy_512;
	rt_gemm one = { 1, 3072, 768, 768, 1, 3072, 3072, w, 1, false }, small = { 64, 64, 64, 64, 1, 64, 64, w, 1, false }, large = { 512, 768, 512, 512, 1, 768, 768, w, 1, false };
	if (!rt_gemm_takes(&one)) SKIP("this CPU has no AVX2");
	assert_true(rt_gemm_wants(&one));
	assert_true(rt_gemm_wants(&small));
	assert_false(rt_gemm_wants(&large));
	small.b_col = 64;
	assert_false(rt_gemm_wants(&small));
	for (int64_t k = 2048; k <= 8192; k *= 4) /* of a B in memory more rows */
		for (int64_t m = 12; m <= 17; m++) {
			rt_gemm g = { m, 1024, k, k, 1, 1024, 1024, w, 1, false };
			assert_int_equal(rt_gemm_wants(&g), m == 12 || (m <= 16 && k == 8192));
		}
	rt_gemm column = { 512, 1, 512, 512, 1, 1, 1, w, 1, false };
	assert_false(rt_gemm_wants(&column));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_tiles), cmocka_unit_test(test_strips), cmocka_unit_test(test_ways), cmocka_unit_test(test_f64), cmocka_unit_test(test_choice) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
