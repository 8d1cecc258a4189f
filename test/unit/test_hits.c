/* SPDX-License-Identifier: MIT */
/* A call whose guards pass takes no lock and allocates nothing; this program counts both. */
#include "test/kit.h"

#include "runtime/alloc.h"

#include <dlfcn.h>
#include <pthread.h>

static unsigned long locks;
int pthread_mutex_lock(pthread_mutex_t *m)
{
	static int (*real)(pthread_mutex_t *);
	if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	__atomic_add_fetch(&locks, 1, __ATOMIC_RELAXED);
	return real(m);
}

enum { PARTS = 60 };
typedef struct model { tj_tensor *w, *b, *part[PARTS]; } model;
static void layer(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_tensor *h = tj_tanh(tj_add(tj_mul(in[0], m->w), m->b));
	tj_assign(m->b, tj_sub(m->b, tj_mul(tj_mean(h, TJ_AXES(0), false), tj_arg_f(0))));
	out[0] = tj_softmax(tj_transpose(h, 0, 1), -1);
	out[1] = tj_uniform(TJ_F32, TJ_SHAPE(3));
}
static void branch(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_tensor *h = tj_mul(in[0], tj_f(2));
	if (tj_truth(tj_gt(tj_sum(h, TJ_ALL, false), tj_f(0)))) h = tj_neg(h);
	out[0] = h;
	out[1] = tj_exp(h);
}
static void reads(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_mul(in[0], tj_f(tj_item(tj_sum(in[0], TJ_ALL, false))));
	out[1] = in[0];
}
static void below(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_lt(in[0], tj_i(3));
}
static void add_parts(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = tj_add(in[0], tj_i(1));
	out[1] = in[1];
	for (int i = 0; i < PARTS; i++) out[1] = tj_add(tj_tanh(out[1]), ((model *)self)->part[i]);
}
/* Operands, buffers and slots beyond what fits the stack. */
static void many(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *list[PARTS + 1], *end[2];
	for (int i = 0; i < PARTS; i++) list[i] = tj_mul(in[0], tj_f(i));
	list[PARTS] = TJ_END;
	out[0] = tj_cat(list, 1);
	out[1] = ((model *)self)->part[0];
	for (int i = 1; i < PARTS; i++) out[1] = tj_add(out[1], ((model *)self)->part[i]);
	if (tj_while(end, below, add_parts, TJ_LIST(tj_i(0), out[1]), self, NULL) == TJ_OK) out[1] = end[1];
}

static void hits(void **s)
{
	(void)s;
	static const struct {
		const char *name;
		tj_body *body;
	} cases[] = { { "layer", layer }, { "branch", branch }, { "reads", reads }, { "many", many } };
	tj_ctx *c = kit_open();
	model m = { .w = tj_param(c, TJ_F32, TJ_SHAPE(8)), .b = tj_param(c, TJ_F32, TJ_SHAPE(8)) };
	float v[4 * 8] = { 1, 2, 3 };
	for (int i = 0; i < PARTS; i++) m.part[i] = tj_from_data(c, TJ_F32, TJ_SHAPE(8), v);
	tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(4, 8), v), *y = tj_from_data(c, TJ_F32, TJ_SHAPE(3, 8), v), *out[2];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int mode = TJ_VERIFY; mode <= TJ_DIRECT; mode++) {
			tj_fn *f = tj_compile(
				c, cases[i].body, &m,
				TJ_OPTS(tj_compile_opts, cases[i].name, 1, 2, .mode = (tj_mode)mode, .state = TJ_VARS(&m.w, &m.b)));
			unsigned long was = 0;
			long long allocs = 0;
			for (int k = 0; k < 300; k++) {
				if (k == 100) was = locks, allocs = rt_alloc_count();
				tj_scope *sc = tj_push(c);
				assert_int_equal(tj_call_ex(f, out, TJ_LIST(k & 1 ? x : y), TJ_SCALARS(TJ_F(0.5))), TJ_OK); /* two keys in turn */
				tj_pop(sc);
			}
			if (locks != was || rt_alloc_count() != allocs)
				fail_msg("%s, mode %d: %lu locks and %lld allocations in 200 calls", cases[i].name, mode, locks - was, rt_alloc_count() - allocs);
		}
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(hits) };
	kit_backend = "llvm"; /* the evaluator computes with memory of its own */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
