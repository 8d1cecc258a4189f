/* The k-th allocation fails, for each k: a clear error, no crash, no leak, and the context goes on working. */
#include "test/kit.h"

#include "runtime/alloc.h"

typedef struct model { tj_tensor *w; tj_fn *inner; } model;

static void inner(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_softmax(tj_mul(in[0], tj_f(2)), -1);
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_tensor *y, *x = tj_cat(TJ_LIST(in[0], tj_neg(in[0])), 0);
	if (tj_call(m->inner, &y, TJ_LIST(x)) != TJ_OK) y = x;
	tj_assign(m->w, tj_add(m->w, tj_sum(y, TJ_ALL, false)));
	if (tj_truth(tj_gt(m->w, tj_f(0)))) y = tj_exp(y);
	out[0] = tj_matmul(y, tj_transpose(in[0], 0, 1));
}

static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	model *m = self;
	tj_assign(m->w, tj_add(m->w, tj_arg_f(0)));
	out[0] = tj_mul(in[0], tj_mul(tj_arg_f(0), tj_f(2)));
	out[1] = tj_truth(tj_gt(m->w, tj_f(2))) ? in[0] : out[0];
}

/* Everything once, from open to close. */
static bool scenario(void)
{
	tj_ctx *c = kit_open();
	if (!c) return false;
	float v[] = { 1, 2, 3, 4 };
	model m = { .w = tj_param(c, TJ_F32, TJ_0D) };
	m.inner = kit_fn(c, "inner", inner, &m, 1, 1);
	tj_fn *f = kit_fn(c, "body", body, &m, 1, 1);
	tj_fn *d = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "step", .nin = 1, .nout = 2, .mode = TJ_DIRECT, .state = TJ_VARS(&m.w)));
	bool ok = true;
	for (int i = 0; i < 3 && f; i++) {
		tj_scope *s = tj_push(c);
		tj_tensor *x = tj_from_data(c, TJ_F32, TJ_SHAPE(2 - i % 2, 2 + i % 2 * 2), v), *y = tj_call1(f, TJ_LIST(x));
		tj_tensor *out[2] = { x, x };
		for (int k = 0; k < 3 && d; k++) tj_call_ex(d, out, TJ_LIST(x), TJ_SCALARS(TJ_F(k)));
		tj_tensor *kept = tj_retain(tj_mul(y, x));
		tj_data(tj_transpose(x, 0, 1));
		if (kept && !tj_is_poison(kept)) tj_release(kept);
		tj_status st = tj_check(c);
		ok &= st == TJ_OK || st == TJ_ERR_SHAPE;
		if (s) tj_pop(s);
	}
	FILE *null = fopen("/dev/null", "w");
	if (f && null) tj_explain(f, null);
	if (null) fclose(null);
	tj_check(c);
	tj_close(c);
	return ok && f;
}

static void each_allocation(void **s)
{
	(void)s;
	rt_alloc_fail_at(-1);
	scenario(); /* opens what is opened once */
	rt_alloc_fail_at(-1);
	assert_true(scenario());
	long long n = rt_alloc_count();
	assert_true(n > 100);
	int clear = 0;
	/* Each run compiles with LLVM, which takes its own memory: a part of the allocations is enough there. */
	long long stride = strcmp(kit_backend, "llvm") ? 1 : 17;
	for (long long k = 0; k < n; k += stride) {
		rt_alloc_fail_at(k);
		clear += !scenario();
	}
	rt_alloc_fail_at(-1);
	assert_true(scenario());
	assert_true(clear > 0);
	print_message("%lld allocations failed in turn, %d of them ended in an error\n", (n + stride - 1) / stride, clear);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_allocation) };
	KIT_RUN(tests);
}
