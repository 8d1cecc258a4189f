/* SPDX-License-Identifier: MIT */
/* Borrowed memory: tensors over memory of the user are read in place, never written, and released once. */
#include "test/kit.h"

#include <pthread.h>

static void count(void *env) { ++*(int *)env; }

static void mixes(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_add(tj_mul(in[0], tj_f(2)), tj_sum(in[0], TJ_AXES(0), true));
	out[1] = tj_matmul(in[0], tj_transpose(in[0], 0, 1));
}

/* The same values, copied row-major element by element. */
static tj_tensor *copied(tj_ctx *c, const float *v, int64_t m, int64_t n, int64_t by_row, int64_t by_col)
{
	float *flat = malloc((size_t)(m * n) * sizeof *flat);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) flat[i * n + j] = v[i * by_row + j * by_col];
	tj_tensor *t = tj_from_data(c, TJ_F32, TJ_SHAPE(m, n), flat);
	free(flat);
	return t;
}

static bool equal(tj_tensor *x, tj_tensor *y)
{
	int64_t n = tj_numel(x);
	return n == tj_numel(y) && !memcmp(tj_data(x), tj_data(y), (size_t)n * sizeof(float));
}

static void any_strides(void **s)
{
	(void)s;
	static const struct { int64_t m, n, row, col, first;
	} list[] = {
		{ 5, 7, 7, 1, 0 },  { 5, 7, 1, 5, 0 },    { 5, 7, -7, 1, 28 }, { 5, 7, 7, -1, 6 },   { 5, 7, 0, 1, 3 },
		{ 5, 7, 1, 0, 3 },  { 5, 7, 1, 1, 1 }, /* windows that overlap */
		{ 5, 7, 21, 3, 1 }, { 33, 17, 19, 1, 5 }, { 1, 9, 0, -2, 16 }, { 64, 32, 1, 64, 0 }, { 40, 40, -1, -1, 79 },
	};
	static float v[4096];
	for (int i = 0; i < 4096; i++) v[i] = (float)(i * 37 % 101) / 4;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, mixes, NULL, TJ_OPTS(tj_compile_opts, .name = "mixes", .nin = 1, .nout = 2, .mode = (tj_mode)mode));
		int given_back = 0, made = 0;
		for (int round = 0; round < 3; round++)
			for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
				const float *first = v + list[i].first;
				tj_scope *sc = tj_push(c);
				tj_tensor *x = tj_wrap(c, TJ_F32, TJ_SHAPE(list[i].m, list[i].n), TJ_SHAPE(list[i].row, list[i].col), first, count, &given_back);
				tj_tensor *y = copied(c, first, list[i].m, list[i].n, list[i].row, list[i].col), *got[2], *want[2];
				made++;
				assert_int_equal(tj_call(f, got, TJ_LIST(x)), TJ_OK);
				assert_int_equal(tj_call(f, want, TJ_LIST(y)), TJ_OK);
				for (int k = 0; k < 2; k++)
					if (!equal(got[k], want[k])) fail_msg("out[%d] of case %zu differs", k, i);
				if (!equal(tj_exp(x), tj_exp(y))) fail_msg("case %zu differs outside of functions", i);
				tj_pop(sc);
				assert_int_equal(given_back, made);
			}
		kit_ok(c);
		tj_close(c);
	}
}

static void passes_on(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = in[0];
	out[1] = tj_transpose(in[0], 0, 1);
}
static void views_hold_it(void **s)
{
	(void)s;
	float v[6] = { 1, 2, 3, 4, 5, 6 };
	int given_back = 0;
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "passes_on", passes_on, NULL, 1, 2);
	tj_scope *outer = tj_push(c), *sc = tj_push(c);
	tj_tensor *x = tj_wrap(c, TJ_F32, TJ_SHAPE(2, 3), NULL, v, count, &given_back), *out[2];
	assert_ptr_equal(tj_data(x), v); /* no copy */
	tj_call(f, out, TJ_LIST(x));
	assert_ptr_equal(tj_data(out[0]), v);
	tj_tensor *kept = tj_escape(out[1]);
	tj_pop(sc);
	assert_int_equal(given_back, 0);
	assert_f32(kept, 1, 4, 2, 5, 3, 6);
	tj_pop(outer);
	assert_int_equal(given_back, 1);
	tj_wrap(c, TJ_F32, TJ_SHAPE(0, 3), NULL, NULL, count, &given_back); /* no elements, no memory */
	tj_wrap(c, TJ_F32, TJ_SHAPE(6), NULL, v, NULL, NULL);
	kit_ok(c);
	tj_close(c);
	assert_int_equal(given_back, 2);
}

static void adds_in_place(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *w = *(tj_tensor **)self;
	(void)in;
	(void)out;
	tj_assign(w, tj_add(w, tj_f(1)));
}

/* A cell may hold borrowed memory; its next value is in other memory. */
static void never_written(void **s)
{
	(void)s;
	for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
		float v[4] = { 1, 2, 3, 4 };
		const float other[4] = { 5, 5, 5, 5 };
		int given_back = 0;
		tj_ctx *c = kit_open();
		tj_tensor *w = tj_param(c, TJ_F32, TJ_SHAPE(4));
		tj_fn *f = tj_compile(c, adds_in_place, &w, TJ_OPTS(tj_compile_opts, .name = "adds", .mode = (tj_mode)mode, .state = TJ_VARS(&w)));
		for (int i = 0; i < 6; i++) {
			tj_scope *sc = tj_push(c);
			tj_assign(w, tj_wrap(c, TJ_F32, TJ_SHAPE(4), NULL, v, count, &given_back));
			tj_pop(sc);
			assert_int_equal(given_back, i); /* the cell holds it */
			if (i % 2) assert_int_equal(tj_write(w, other, sizeof other), TJ_OK);
			else assert_int_equal(tj_call(f, NULL, TJ_NONE), TJ_OK);
			assert_int_equal(given_back, i + 1);
			assert_int_equal(v[0], 1);
			assert_int_equal(v[3], 4);
			assert_int_equal((int)tj_item(tj_sum(w, TJ_ALL, false)), i % 2 ? 20 : 14);
		}
		kit_ok(c);
		tj_close(c);
	}
}

static void *drop(void *p)
{
	tj_tensor *t = p;
	tj_release(t); /* the last reference, in a thread without a context */
	return NULL;
}
static void dropped_by_another_thread(void **s)
{
	(void)s;
	float v[2] = { 1, 2 };
	int given_back = 0;
	pthread_t t;
	tj_ctx *c = kit_open();
	tj_scope *sc = tj_push(c);
	tj_tensor *kept = tj_retain(tj_wrap(c, TJ_F32, TJ_SHAPE(2), NULL, v, count, &given_back));
	tj_pop(sc);
	assert_f32(kept, 1, 2);
	assert_int_equal(given_back, 0);
	assert_int_equal(pthread_create(&t, NULL, drop, kept), 0);
	pthread_join(t, NULL);
	assert_int_equal(given_back, 1);
	kit_ok(c);
	tj_close(c);
}

static void mistakes(void **s)
{
	(void)s;
	char bytes[16] = { 0 };
	int given_back = 0;
	tj_ctx *c = kit_open();
	tj_wrap(c, TJ_F32, TJ_SHAPE(2), NULL, NULL, count, &given_back);
	kit_error(c, TJ_ERR_ARG, "data is NULL");
	tj_wrap(c, TJ_F32, TJ_SHAPE(2), NULL, bytes + 1, count, &given_back);
	kit_error(c, TJ_ERR_ARG, "not aligned");
	tj_wrap(c, TJ_F32, TJ_SHAPE(2, 2), TJ_SHAPE(1), bytes, count, &given_back);
	kit_error(c, TJ_ERR_ARG, "fewer strides than sizes");
	tj_wrap(c, TJ_F32, TJ_SHAPE(2, 2), TJ_SHAPE(2, 1, 7), bytes, count, &given_back);
	kit_error(c, TJ_ERR_ARG, "more strides than sizes");
	tj_wrap(c, TJ_F32, NULL, NULL, bytes, count, &given_back);
	kit_error(c, TJ_ERR_SHAPE, "not a shape");
	tj_wrap(c, (tj_dtype)99, TJ_SHAPE(2), NULL, bytes, count, &given_back);
	kit_error(c, TJ_ERR_DTYPE, "not a dtype");
	tj_wrap(c, TJ_F32, TJ_SHAPE(2, 2), TJ_SHAPE(INT64_MAX / 2, 1), bytes, count, &given_back);
	kit_error(c, TJ_ERR_ARG, "too far");
	assert_int_equal(given_back, 0);
	assert_true(tj_is_poison(tj_wrap(NULL, TJ_F32, TJ_SHAPE(2), NULL, bytes, count, &given_back)));
	assert_int_equal(tj_check(NULL), TJ_ERR_STATE);
	tj_close(c);
	assert_int_equal(given_back, 0);
}

/* ---- outputs in memory of the caller ---- */
static void two_ways(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *cell = self ? *(tj_tensor **)self : NULL;
	out[0] = tj_mul(in[0], tj_f(2));
	out[1] = tj_transpose(in[0], 0, 1);
	out[2] = tj_add(in[0], tj_f(1));
	if (cell) tj_assign(cell, out[2]);
}

/* out[0]: a view of the argument; out[1]: another one; out[2]: computed */
static void views_and_more(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_transpose(in[0], 0, 1);
	out[1] = tj_flip(in[0], TJ_AXES(0));
	out[2] = tj_neg(in[0]);
}

/* Outputs are written over the argument that other outputs are views of. */
static void outputs_over_their_argument(void **s)
{
	(void)s;
	enum { N = 4, ALL = N * N };
	for (int turn = 0; turn < 2 * 3 * 8; turn++) {
		float memory[3 * ALL], *x = memory + ALL, other[2][ALL];
		const int mode = turn % 2, at = turn / 2 % 3, shift = (turn / 6 - 4) * 3;
		for (int i = 0; i < 3 * ALL; i++) memory[i] = (float)(i - ALL);
		tj_ctx *c = kit_open();
		tj_fn *f = tj_compile(c, views_and_more, NULL, TJ_OPTS(tj_compile_opts, .name = "views", .nin = 1, .nout = 3, .mode = (tj_mode)mode));
		tj_into into[3] = { { other[0], sizeof other[0], TJ_CPU }, { NULL, 0, TJ_CPU }, { other[1], sizeof other[1], TJ_CPU } };
		tj_tensor *out[3];
		into[at] = (tj_into){ x + shift, sizeof other[0], TJ_CPU };
		assert_int_equal(tj_call_into(f, out, TJ_LIST(tj_wrap(c, TJ_F32, TJ_SHAPE(N, N), NULL, x, NULL, NULL)), NULL, into), TJ_OK);
		for (int k = 0; k < 3; k++) {
			float y[ALL];
			assert_int_equal(tj_read(out[k], y, sizeof y), TJ_OK);
			if (into[k].data) assert_ptr_equal(tj_data(out[k]), into[k].data);
			for (int i = 0; i < ALL; i++) assert_true(y[i] == (float)(k == 0 ? i % N * N + i / N : k == 1 ? (N - 1 - i / N) * N + i % N : -i));
		}
		kit_ok(c);
		assert_int_equal(
			tj_call_into(f, out, TJ_LIST(tj_wrap(c, TJ_F32, TJ_SHAPE(N, N), NULL, x, NULL, NULL)), NULL,
		                     ((tj_into[]){ into[0], { NULL, 0, TJ_CPU }, { (float *)into[0].data + 1, ALL * 4, TJ_CPU } })),
			TJ_ERR_ARG);
		kit_error(c, TJ_ERR_ARG, "into[0] and into[2] overlap");
		tj_close(c);
	}
}

static void assigns_it(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_assign(*(tj_tensor **)self, in[0]);
	out[0] = tj_neg(in[0]);
}

/* A cell gets the argument's elements as they were before the output is written over them. */
static void output_over_an_assigned_argument(void **s)
{
	(void)s;
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(4)), *out;
		tj_fn *f = tj_compile(
			c, assigns_it, &cell,
			TJ_OPTS(tj_compile_opts, .name = "assigns", .nin = 1, .nout = 1, .mode = (tj_mode)mode, .state = TJ_VARS(&cell)));
		for (int turn = 0; turn < 4; turn++) {
			float x[4] = { 1, 2, 3, (float)turn }, y[4];
			assert_int_equal(tj_call_into(f, &out, TJ_LIST(tj_wrap(c, TJ_F32, TJ_SHAPE(4), NULL, x, NULL, NULL)), NULL,
			                              ((tj_into[]){ { x, sizeof x, TJ_CPU } })),
			                 TJ_OK);
			assert_int_equal(tj_read(cell, y, sizeof y), TJ_OK);
			assert_true(x[0] == -1 && x[3] == -(float)turn && y[0] == 1 && y[3] == (float)turn);
		}
		kit_ok(c);
		tj_close(c);
	}
}

static void outputs_in_memory_of_the_caller(void **s)
{
	(void)s;
	_Alignas(64) float x[6] = { 1, 2, 3, 4, 5, 6 }, a[6], b[6], d[8];
	float y[6];
	for (int mode = 0; mode < 2; mode++) {
		tj_ctx *c = kit_open();
		tj_tensor *cell = tj_param(c, TJ_F32, TJ_SHAPE(2, 3)), *out[3];
		tj_fn *f = tj_compile(
			c, two_ways, &cell,
			TJ_OPTS(tj_compile_opts, .name = "two", .nin = 1, .nout = 3, .mode = (tj_mode)mode, .state = TJ_VARS(&cell)));
		const tj_into into[3] = { { a, sizeof a, TJ_CPU },
			                  { b, sizeof b, TJ_CPU },
			                  { d + 1, sizeof a, TJ_CPU } }; /* the last one is not aligned, and goes to a cell */
		for (int turn = 0; turn < 5; turn++) {
			memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(d, 0, sizeof d);
			assert_int_equal(tj_call_into(f, out, TJ_LIST(tj_wrap(c, TJ_F32, TJ_SHAPE(2, 3), NULL, x, NULL, NULL)), NULL, into), TJ_OK);
			for (int i = 0; i < 6; i++) {
				assert_true(a[i] == x[i] * 2 && b[i] == x[i % 2 * 3 + i / 2] && d[i + 1] == x[i] + 1);
				assert_ptr_equal(tj_data(out[0]), a);
				assert_ptr_equal(tj_data(out[1]), b);
			}
			memset(d, 0, sizeof d); /* the cell has its own */
			assert_int_equal(tj_read(cell, y, sizeof y), TJ_OK);
			assert_true(y[5] == 7);
			assert_true(tj_item(tj_sum(out[0], TJ_ALL, false)) == 42);
		}
		/* Over its own argument: computed beside it, then copied. */
		const tj_into over[3] = { { x, sizeof x, TJ_CPU }, { NULL, 0, TJ_CPU }, { NULL, 0, TJ_CPU } };
		float was[6];
		memcpy(was, x, sizeof x);
		assert_int_equal(tj_call_into(f, out, TJ_LIST(tj_wrap(c, TJ_F32, TJ_SHAPE(2, 3), NULL, x, NULL, NULL)), NULL, over), TJ_OK);
		for (int i = 0; i < 6; i++) assert_true(x[i] == was[i] * 2);
		assert_int_equal(tj_read(out[2], y, sizeof y), TJ_OK);
		for (int i = 0; i < 6; i++) assert_true(y[i] == was[i] + 1);
		memcpy(x, was, sizeof x);
		/* A wrong size is an error that commits nothing. */
		const tj_into small[3] = { { a, 8, TJ_CPU }, { NULL, 0, TJ_CPU }, { NULL, 0, TJ_CPU } };
		assert_int_equal(tj_call_into(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(2, 3), tj_f(9))), NULL, small), TJ_ERR_SHAPE);
		kit_error(c, TJ_ERR_SHAPE, "into[0] has 8 bytes, the output 24");
		assert_int_equal(tj_read(cell, y, sizeof y), TJ_OK);
		assert_true(y[5] == 7);
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_full(TJ_F32, TJ_SHAPE(2, 3), tj_f(9)))), TJ_OK); /* as ever */
		assert_true(tj_data(out[0]) != a);
		kit_ok(c);
		tj_close(c);
	}
}

/* ---- readers that are no kernels, of views of one argument: each view may lie as its reader needs it, or be stored first ---- */
enum { VIEWS = 9, READERS = 11, PAIRS = 3, PROGRAMS = 150 };
typedef struct pairs { int view[PAIRS], reader[PAIRS]; } pairs;

static tj_tensor *view_of(tj_tensor *x, int view) /* x: [4,6] */
{
	switch (view) {
	case 0: return x;
	case 1: return tj_flip(x, TJ_AXES(0));
	case 2: return tj_flip(x, TJ_ALL);
	case 3: return tj_transpose(x, 0, 1);
	case 4: return tj_slice(x, 1, 0, 6, 2);
	case 5: return tj_flip(tj_transpose(x, 0, 1), TJ_AXES(1));
	case 6: return tj_reshape(tj_flip(x, TJ_AXES(0)), TJ_SHAPE(2, 12));
	case 7: return tj_reshape(tj_slice(tj_reshape(tj_flip(x, TJ_ALL), TJ_SHAPE(24)), 0, 2, 22, 1), TJ_SHAPE(5, 4));
	default: return tj_reshape(tj_expand(tj_slice(x, 0, 1, 2, 1), TJ_SHAPE(4, 6)), TJ_SHAPE(3, 8));
	}
}

static void doubles(tj_tensor **out, tj_tensor *const *in, void *self) { (void)self, out[0] = tj_mul(in[0], tj_f(2)); }

static tj_tensor *read_by(tj_tensor *x, tj_tensor *v, int reader)
{
	tj_tensor *y;
	switch (reader) {
	case 0: return tj_cumsum(v, 0);
	case 1: return tj_cumsum(v, -1);
	case 2: return tj_sort(v, -1, false, NULL);
	case 3: return tj_scatter_add(tj_zeros_like(v), 0, tj_cast(tj_zeros_like(v), TJ_I64), v);
	case 4: return tj_sum(v, TJ_ALL, false);
	case 5: return tj_matmul(v, tj_transpose(v, 0, 1));
	case 6: return tj_searchsorted(tj_ravel(tj_cumsum(tj_abs(v), -1)), v, false);
	case 7: return tj_index_select(v, 0, tj_arange(TJ_I64, 0, 2, 1));
	case 8: return tj_mul(v, tj_sum(tj_ravel(x), TJ_ALL, false));
	case 9: return tj_softmax(tj_add(v, tj_amax(x, TJ_ALL, false)), 0);
	default: return tj_cond(&y, 1, tj_gt(tj_sum(v, TJ_ALL, false), tj_f(0)), doubles, doubles, TJ_LIST(v), NULL), y;
	}
}

static void reads_views(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const pairs *p = self;
	for (int k = 0; k < PAIRS; k++) out[k] = read_by(in[p->view[k] % 2], view_of(in[0], p->view[k]), p->reader[k]);
}

static void readers_of_views(void **s)
{
	(void)s;
	static const struct {
		int64_t row, col, first;
	} lies[] = { { 6, 1, 0 }, { 1, 4, 0 }, { -6, 1, 18 }, { -6, -1, 23 }, { 1, -4, 20 }, { 0, 1, 3 }, { 12, 2, 0 } };
	float v[48], got[2][PAIRS][64];
	uint32_t seed = 1;
	for (int i = 0; i < 48; i++) v[i] = (float)(i * 29 % 48 + 1);
	for (int n = 0; n < PROGRAMS; n++) {
		pairs p;
		for (int k = 0; k < 2 * PAIRS; k++)
			*(k < PAIRS ? &p.view[k] : &p.reader[k - PAIRS]) =
				(int)((seed = seed * 1664525 + 1013904223) >> 16) % (k < PAIRS ? VIEWS : READERS);
		memset(got, 0, sizeof got);
		for (int i = 0; i < 2; i++) {
			const int at = n % (int)(sizeof lies / sizeof *lies);
			tj_ctx *c = i ? kit_open() : tj_open(TJ_OPTS(tj_open_opts, .backend = "eval"));
			tj_tensor *x = tj_wrap(c, TJ_F32, TJ_SHAPE(4, 6), TJ_SHAPE(lies[at].row, lies[at].col), v + lies[at].first, NULL, NULL), *out[PAIRS];
			tj_call(kit_fn(c, "reads", reads_views, &p, 2, PAIRS), out, TJ_LIST(x, tj_from_data(c, TJ_F32, TJ_SHAPE(4, 6), v)));
			kit_ok(c);
			for (int k = 0; k < PAIRS; k++) memcpy(got[i][k], tj_data(out[k]), (size_t)tj_numel(out[k]) * tj_dtype_size(tj_dtype_of(out[k])));
			kit_ok(c);
			tj_close(c);
		}
		for (int k = 0; k < PAIRS; k++)
			if (memcmp(got[0][k], got[1][k], sizeof got[0][k]))
				fail_msg("program %d, result %d: reader %d of view %d", n, k, p.reader[k], p.view[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outputs_in_memory_of_the_caller),
		cmocka_unit_test(outputs_over_their_argument),
		cmocka_unit_test(output_over_an_assigned_argument),
		cmocka_unit_test(any_strides),
		cmocka_unit_test(readers_of_views),
		cmocka_unit_test(views_hold_it),
		cmocka_unit_test(never_written),
		cmocka_unit_test(dropped_by_another_thread),
		cmocka_unit_test(mistakes),
	};
	KIT_RUN(tests);
}
