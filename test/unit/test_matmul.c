/* SPDX-License-Identifier: MIT */
/* Products by oneDNN: what the library route of the CPU passes to it. Results are within the bound of any order of the sum; memory around
 * the result stays as it was; offsets, leading dimensions and transposes; the same bits in every run; OpenMP's threads are restored. */
#include "runtime/matmul.h"
#include "test/skip.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { EDGE = 7 }; /* floats after each row of C that must stay as they were */

typedef struct product {
	int64_t m, n, k, batch;
	bool a_turned, b_turned; /* stored as their transposes */
	int64_t pad;             /* floats between the rows of A and of B, as they are stored */
} product;

typedef struct operands {
	float *a, *b, *c;
	int64_t *offset;         /* of a, b, c by batch */
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

/* Batches of A lie in reverse order; all batches of B are one matrix, as if it were broadcast. */
static operands operands_of(const product *p)
{
	const int64_t a_row = (p->a_turned ? p->m : p->k) + p->pad, b_row = (p->b_turned ? p->k : p->n) + p->pad, row = p->n + EDGE;
	const int64_t na = (p->a_turned ? p->k : p->m) * a_row, nb = (p->b_turned ? p->n : p->k) * b_row, nc = p->m * row;
	operands o = { numbers(na * p->batch, 1), numbers(nb, 7777), numbers(nc * p->batch, 99), malloc(3 * (size_t)p->batch * sizeof(int64_t)),
		           { .m = p->m, .n = p->n, .k = p->k, .batch = p->batch, .c_row = row } };
	o.d.a_row = p->a_turned ? 1 : a_row, o.d.a_col = p->a_turned ? a_row : 1;
	o.d.b_row = p->b_turned ? 1 : b_row, o.d.b_col = p->b_turned ? b_row : 1;
	assert_non_null(o.offset);
	for (int64_t i = 0; i < p->batch; i++)
		o.offset[i] = (p->batch - 1 - i) * na, o.offset[p->batch + i] = 0, o.offset[2 * p->batch + i] = i * nc;
	if (p->batch > 1) o.d.a_batch = o.offset, o.d.b_batch = o.offset + p->batch, o.d.c_batch = o.offset + 2 * p->batch;
	return o;
}

/* A product that is ready to run, in a team of two. */
typedef struct ready {
	operands o;
	rt_matmul *m;
	rt_err err;
	rt_run run;
} ready;

static void prepare(ready *r, const product *p)
{
	*r = (ready){ .o = operands_of(p) };
	r->run = (rt_run){ .team = rt_team_get(2), .err = &r->err };
	r->m = rt_matmul_new(&r->o.d, &r->err);
	assert_non_null(r->m);
}

static void compute(ready *r) { assert_int_equal(rt_matmul_run(r->m, r->o.a, r->o.b, r->o.c, &r->run), TJ_OK); }

static void drop(ready *r)
{
	rt_matmul_free(r->m);
	free(r->o.a), free(r->o.b), free(r->o.c), free(r->o.offset);
}

/* One element in f64, and how far off any order of adding in f32 may be. */
static double exact(const operands *o, int64_t batch, int64_t i, int64_t j, double *bound)
{
	const rt_matmul_desc *d = &o->d;
	const float *a = o->a + o->offset[batch] + i * d->a_row, *b = o->b + o->offset[d->batch + batch] + j * d->b_col;
	double s = 0, size = 0;
	for (int64_t k = 0; k < d->k; k++) {
		const double x = (double)a[k * d->a_col] * (double)b[k * d->b_row];
		s += x;
		size += fabs(x);
	}
	*bound = size * (double)(d->k + 2) * 0x1p-24;
	return s;
}

/* Every element, and nothing between the rows. */
static void compare(const product *p, const operands *o)
{
	for (int64_t q = 0; q < p->batch; q++)
		for (int64_t i = 0; i < p->m; i++) {
			const float *c = o->c + o->offset[2 * p->batch + q] + i * o->d.c_row;
			for (int64_t j = 0; j < p->n; j++) {
				double bound, want = exact(o, q, i, j, &bound);
				if (!(fabs((double)c[j] - want) <= bound))
					fail_msg("%lld of [%lld,%lld]x[%lld,%lld], element %lld,%lld: %a, not %a", (long long)q,
					         (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, (long long)i,
					         (long long)j, (double)c[j], want);
			}
			for (int64_t j = p->n; j < o->d.c_row; j++) assert_true(c[j] == number(99 + (uint64_t)(c + j - o->c)));
		}
}

static const product products[] = {
	{ 1, 768, 900, 1, false, false, 0 },   { 5, 4, 100, 1, false, false, 3 },    { 100, 1, 300, 1, false, false, 0 },
	{ 1, 100, 300, 1, false, true, 0 },    { 64, 64, 64, 7, false, false, 0 },   { 30, 20, 10, 9, true, true, 5 },
	{ 300, 120, 110, 1, false, false, 1 }, { 130, 120, 110, 3, true, false, 0 }, { 120, 300, 90, 1, false, true, 9 },
	{ 33, 500, 100, 1, true, true, 0 },    { 3, 3, 3, 1, false, false, 0 },      { 17, 900, 700, 1, false, false, 0 },
	{ 900, 17, 700, 1, true, false, 2 },   { 1, 1, 1, 1, false, false, 0 },      { 200, 210, 300, 2, false, true, 4 },
};

/* In a team of two: large products are cut by rows or by columns; small ones, and those of many batches, are not. Each run gives the
 * same bits, whichever thread computes a part. */
static void test_products(void **state)
{
	(void)state;
	if (!rt_onednn()) SKIP("oneDNN is missing");
	for (size_t i = 0; i < RT_COUNT(products); i++) {
		const product *p = &products[i];
		ready r;
		prepare(&r, p);
		const size_t bytes = (size_t)(p->m * r.o.d.c_row * p->batch) * sizeof(float);
		float *first = malloc(bytes);
		assert_non_null(first);
		compute(&r);
		compare(p, &r.o);
		memcpy(first, r.o.c, bytes);
		for (int k = 0; k < 3; k++) {
			compute(&r);
			assert_memory_equal(first, r.o.c, bytes);
		}
		free(first);
		drop(&r);
	}
}

/* The offsets belong to the product: the caller's array may go. */
static void test_offsets_are_copied(void **state)
{
	(void)state;
	if (!rt_onednn()) SKIP("oneDNN is missing");
	const product p = { 6, 5, 4, 3, false, false, 0 };
	int64_t kept[9];
	ready r;
	prepare(&r, &p);
	memcpy(kept, r.o.offset, sizeof kept);
	memset(r.o.offset, 0x5a, sizeof kept);
	compute(&r);
	memcpy(r.o.offset, kept, sizeof kept);
	compare(&p, &r.o);
	drop(&r);
}

/* oneDNN computes on the calling thread alone. Afterwards the program's number of OpenMP threads is what it was. */
static void test_threads_of_openmp(void **state)
{
	(void)state;
	if (!rt_onednn()) SKIP("oneDNN is missing");
	void *h = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*get)(void) = NULL;
	void (*set)(int) = NULL;
	void *f = h ? dlsym(h, "omp_get_max_threads") : NULL;
	memcpy(&get, &f, sizeof f);
	f = h ? dlsym(h, "omp_set_num_threads") : NULL;
	memcpy(&set, &f, sizeof f);
	if (!get || !set) SKIP("this oneDNN does not use libgomp");
	for (int threads = 1; threads <= 5; threads += 2) {
		set(threads);
		const int before = rt_onednn_begin();
		assert_int_equal(get(), 1);
		rt_onednn_end(before);
		assert_int_equal(get(), threads);
		ready r;
		prepare(&r, &products[6]);
		compute(&r);
		assert_int_equal(get(), threads);
		drop(&r);
	}
	dlclose(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_products), cmocka_unit_test(test_offsets_are_copied),
		                            cmocka_unit_test(test_threads_of_openmp) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
