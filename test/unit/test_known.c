/* SPDX-License-Identifier: MIT */
/* Values that depend on frozen weights alone are computed once for all plans of a function, with the bits that a call would give. */
#include "test/kit.h"

#include <pthread.h>
#include <unistd.h>

enum { K = 24, N = 60, ROWS = 7 };

static void fill(float *v, int64_t n, uint32_t from)
{
	for (int64_t i = 0; i < n; i++) v[i] = (float)((int32_t)((uint32_t)i * 2654435761u + from) >> 20) * 0x1p-10f;
}

static bool compiles(void) { return !kit_elsewhere() && !strcmp(kit_backend, "llvm"); }

static bool says(tj_fn *f, const char *part)
{
	char *text = kit_explain(f);
	const bool has = strstr(text, part) != NULL;
	free(text);
	return has;
}
#define BEFOREHAND "of values computed from constants beforehand"

typedef struct weights { tj_tensor *a, *b, *bytes, *scale; } weights;

static weights new_weights(tj_ctx *c, uint32_t seed)
{
	static float v[K * N];
	int8_t bytes[K * N];
	fill(v, K * N, seed);
	for (int i = 0; i < K * N; i++) bytes[i] = (int8_t)(i * 7 + (int)seed);
	return (weights){ tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(K, K), v)), tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(K, N), v)),
		          tj_retain(tj_from_data(c, TJ_I8, TJ_SHAPE(K, N), bytes)), tj_retain(tj_from_data(c, TJ_F32, TJ_SHAPE(N), v)) };
}

/* Each has a result that a plan could compute beforehand in part. */
static void product(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const weights *w = self;
	out[0] = tj_matmul(in[0], tj_matmul(w->a, w->b));
}
static void norm(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const weights *w = self;
	tj_tensor *by = tj_div(w->b, tj_sqrt(tj_sum(tj_mul(w->b, w->b), TJ_AXES(0), true)));
	out[0] = tj_matmul(in[0], tj_add(by, tj_f(0.25)));
}
static void shown(tj_tensor **out, tj_tensor *const *in, void *self) /* the value and a view of it are results, too */
{
	const weights *w = self;
	tj_tensor *y = tj_matmul(w->a, w->b);
	out[0] = tj_add(tj_matmul(in[0], y), tj_sum(y, TJ_AXES(0), false));
	out[1] = y;
	out[2] = tj_transpose(tj_slice(y, 0, 3, 17, 2), 0, 1);
}
static void thirds(tj_tensor **out, tj_tensor *const *in, void *self) /* values that differ in an attribute alone */
{
	const weights *w = self;
	for (int i = 0; i < 3; i++) out[i] = tj_matmul(in[0], tj_matmul(w->a, tj_slice(w->b, 1, i * N / 3, (i + 1) * N / 3, 1)));
}
static void widened(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const weights *w = self;
	out[0] = tj_matmul(in[0], tj_mul(tj_cast(w->bytes, TJ_F32), w->scale));
}

static void doubled(tj_tensor **out, tj_tensor *const *in, void *self) /* takes more memory than the weight */
{
	const weights *w = self;
	out[0] = tj_matmul(tj_cat(TJ_LIST(in[0], in[0]), 1), tj_cat(TJ_LIST(w->b, w->b), 0));
}
static tj_ctx *ctx;
static void filled(tj_tensor **out, tj_tensor *const *in, void *self) /* one number as a matrix, which a product would store */
{
	(void)self;
	out[0] = tj_matmul(in[0], tj_expand(tj_constant(ctx, TJ_F32, TJ_0D, &(float){ 0.375f }), TJ_SHAPE(K, N)));
}

static void same(tj_tensor *got, tj_tensor *want)
{
	size_t n = tj_dtype_size(tj_dtype_of(want));
	assert_int_equal(tj_rank(got), tj_rank(want));
	for (int i = 0; i < tj_rank(want); i++) assert_int_equal(tj_dim(got, i), tj_dim(want, i)), n *= (size_t)tj_dim(want, i);
	assert_memory_equal(tj_data(got), tj_data(want), n); /* row-major copies */
}

static void equal_bits(void **s)
{
	(void)s;
	static const struct { tj_body *body; int nout; bool before; } t[] = {
		{ product, 1, true }, { norm, 1, true }, { shown, 3, true }, { thirds, 3, true }, { filled, 1, true }, { widened, 1, false },
		{ doubled, 1, false }
	};
	float x[ROWS * K];
	fill(x, ROWS * K, 99);
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		for (int mode = 0; mode < 2; mode++) {
			tj_ctx *c = ctx = kit_open();
			weights w = new_weights(c, 5);
			tj_fn *f = tj_compile(c, t[i].body, &w,
			                      TJ_OPTS(tj_compile_opts, "layer", 1, t[i].nout, .mode = (tj_mode)mode, .dynamic = TJ_DYNAMIC_OFF,
			                              .freeze = TJ_VARS(&w.a, &w.b, &w.bytes, &w.scale)));
			for (int64_t rows = 1; rows <= ROWS; rows += 3)
				for (int call = 0; call < 3; call++) {
					tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(rows, K), x), *want[3], *got[3];
					t[i].body(want, &in, &w);
					assert_int_equal(tj_call(f, got, TJ_LIST(in)), TJ_OK);
					for (int k = 0; k < t[i].nout; k++) same(got[k], want[k]);
				}
			if (compiles()) assert_int_equal(says(f, BEFOREHAND), t[i].before);
			if (compiles() && t[i].body == product) { /* a call runs one kernel; three sizes share the value and its kernel */
				assert_int_equal(kit_stats(f).kernels, 3);
				char *text = kit_dump(f, TJ_DUMP_KERNELS);
				assert_null(strstr(text, "layer_known"));
				free(text);
			}
			kit_ok(c);
			tj_close(c);
		}
}

/* Each content of a cell gives its own value; after many contents the value is computed at each call. */
static void contents_change(void **s)
{
	(void)s;
	static float v[K * N];
	float x[ROWS * K];
	fill(x, ROWS * K, 3);
	tj_ctx *c = kit_open();
	weights w = { tj_param(c, TJ_F32, TJ_SHAPE(K, K)), tj_param(c, TJ_F32, TJ_SHAPE(K, N)), NULL, NULL };
	tj_fn *f = tj_compile(c, product, &w, TJ_OPTS(tj_compile_opts, "layer", 1, 1, .mode = TJ_DIRECT, .freeze = TJ_VARS(&w.a, &w.b)));
	for (uint32_t round = 0; round < 24; round++) {
		fill(v, K * N, round % 12 * 77);
		tj_write(w.a, v, sizeof(float) * K * K);
		if (round % 3 == 0) tj_write(w.b, v, sizeof v);
		tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, K), x), *want, *got;
		product(&want, &in, &w);
		for (int call = 0; call < 2; call++) {
			assert_int_equal(tj_call(f, &got, TJ_LIST(in)), TJ_OK);
			same(got, want);
		}
	}
	kit_ok(c);
	tj_close(c);
}

/* An exported function computes them when it is imported, by code of the file. */
static void exported(void **s)
{
	(void)s;
	char path[] = "/tmp/tj-known-XXXXXX";
	float x[ROWS * K];
	if (!compiles()) return;
	fill(x, ROWS * K, 1);
	const int file = mkstemp(path);
	assert_true(file >= 0);
	close(file);
	tj_body *const bodies[] = { product, norm, shown };
	for (int i = 0; i < 3; i++) {
		tj_ctx *c = kit_open();
		weights w = new_weights(c, 11);
		const int nout = bodies[i] == shown ? 3 : 1;
		tj_fn *f = tj_compile(c, bodies[i], &w, TJ_OPTS(tj_compile_opts, "layer", 1, nout, .freeze = TJ_VARS(&w.a, &w.b)));
		tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, K), x), *want[3], *got[3];
		bodies[i](want, &in, &w);
		assert_int_equal(tj_call(f, got, TJ_LIST(in)), TJ_OK);
		assert_int_equal(tj_export(f, path, NULL), TJ_OK);
		tj_fn *g = tj_import(c, path, NULL);
		assert_non_null(g);
		for (int call = 0; call < 2; call++) {
			assert_int_equal(tj_call(g, got, TJ_LIST(in)), TJ_OK);
			for (int k = 0; k < nout; k++) same(got[k], want[k]);
		}
		assert_true(says(g, BEFOREHAND));
		assert_int_equal(kit_stats(g).compiled, 0);
		kit_ok(c);
		tj_close(c);
	}
	unlink(path);
}

/* Several threads meet the function at once. */
typedef struct thread { tj_ctx *c; tj_fn *f; const float *x; float y[ROWS * N]; } thread;
static void *calls(void *p)
{
	thread *t = p;
	tj_ctx *c = kit_clone(t->c);
	for (int64_t rows = 1; rows <= ROWS; rows++) {
		tj_tensor *y = tj_call1(t->f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(rows, K), t->x)));
		const float *data = tj_data(y);
		if (data) memcpy(t->y, data, sizeof(float) * (size_t)rows * N);
	}
	tj_close(c);
	return NULL;
}
static void threads(void **s)
{
	(void)s;
	enum { THREADS = 4 };
	float x[ROWS * K];
	fill(x, ROWS * K, 8);
	tj_ctx *c = kit_open();
	weights w = new_weights(c, 2);
	tj_fn *f = tj_compile(c, product, &w, TJ_OPTS(tj_compile_opts, "layer", 1, 1, .freeze = TJ_VARS(&w.a, &w.b)));
	static thread t[THREADS];
	pthread_t id[THREADS];
	for (int i = 0; i < THREADS; i++) {
		t[i] = (thread){ .c = c, .f = f, .x = x };
		assert_int_equal(pthread_create(&id[i], NULL, calls, &t[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
	tj_tensor *in = tj_from_data(c, TJ_F32, TJ_SHAPE(ROWS, K), x), *want;
	product(&want, &in, &w);
	for (int i = 0; i < THREADS; i++) assert_memory_equal(t[i].y, tj_data(want), sizeof t[i].y);
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(equal_bits), cmocka_unit_test(contents_change), cmocka_unit_test(exported),
		                            cmocka_unit_test(threads) };
	KIT_RUN(tests);
}
