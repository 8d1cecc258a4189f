/* Clones of one engine on many threads: one function, one compile for a new signature, the same bits. */
#include "test/kit.h"

#include <pthread.h>

enum { THREADS = 16, CALLS = 40 };

typedef struct job { tj_ctx *parent; tj_fn *f; tj_tensor *shared; int id; int bad; pthread_barrier_t *start; int sizes; } job;

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *y = tj_add(tj_mul(in[0], in[0]), *(tj_tensor **)self);
	if (tj_truth(tj_gt(tj_sum(y, TJ_ALL, false), tj_f(1e9)))) y = tj_neg(y);
	out[0] = y;
}

static void *work(void *p)
{
	job *j = p;
	tj_ctx *c = tj_ctx_clone(j->parent);
	float v[64];
	pthread_barrier_wait(j->start);
	for (int i = 0; i < CALLS; i++) {
		int n = 1 + (j->sizes > 1 ? (i + j->id) % j->sizes : 7);
		for (int k = 0; k < n; k++) v[k] = (float)(j->id + k);
		tj_scope *s = tj_push(c);
		const float *y = tj_data(tj_call1(j->f, TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(n), v))));
		for (int k = 0; k < n; k++) j->bad += y[k] != v[k] * v[k] + 3;
		tj_pop(s);
	}
	if (tj_check(c) != TJ_OK) {
		tj_perror(c, stderr);
		j->bad++;
	}
	tj_close(c);
	return NULL;
}

static void run(int sizes, int max_entries, tj_stats *out)
{
	tj_ctx *c = kit_open();
	tj_tensor *w = kit_param(c, 3);
	tj_fn *f = tj_compile(c, body, &w, TJ_OPTS(tj_compile_opts, .name = "shared", .nin = 1, .nout = 1, .max_entries = max_entries));
	pthread_t t[THREADS];
	job j[THREADS];
	pthread_barrier_t start;
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		j[i] = (job){ .parent = c, .f = f, .id = i, .start = &start, .sizes = sizes };
		assert_int_equal(pthread_create(&t[i], NULL, work, &j[i]), 0);
	}
	int bad = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		bad += j[i].bad;
	}
	pthread_barrier_destroy(&start);
	assert_int_equal(bad, 0);
	*out = kit_stats(f);
	tj_ctx_use(c);
	tj_close(c);
}

static void one_signature(void **s)
{
	(void)s;
	tj_stats n;
	run(1, 0, &n);
	assert_int_equal(n.calls, THREADS * CALLS);
	assert_int_equal(n.plans, 2); /* up to the branch, and once more for y, which is read after it */
	assert_int_equal(n.entries, 1);
}

static void many_signatures(void **s)
{
	(void)s;
	tj_stats n;
	run(6, 0, &n);
	assert_int_equal(n.entries, 6);
	assert_true(n.plans <= 6 * 3);
}

static void evictions(void **s)
{
	(void)s;
	tj_stats n;
	run(6, 3, &n);
	assert_true(n.evictions > 0 && n.entries <= 3);
}

static void *make_and_free(void *p)
{
	tj_ctx *c = tj_ctx_clone(p);
	tj_tensor *t = tj_retain(F32(c, 1, 2, 3));
	tj_close(c);
	return t;
}
static void handed_back(void **s)
{
	(void)s;
	tj_ctx *c = kit_open();
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		void *kept;
		assert_int_equal(pthread_create(&t, NULL, make_and_free, c), 0);
		pthread_join(t, &kept);
		assert_f32(tj_neg(kept), -1, -2, -3); /* outlives the context that made it */
		tj_release(kept);
	}
	kit_ok(c);
	tj_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_signature), cmocka_unit_test(many_signatures), cmocka_unit_test(evictions), cmocka_unit_test(handed_back),
	};
	KIT_RUN(tests);
}
