/* The team: every unit once, by whichever thread, in pieces of no fewer units than their grain where there are enough. */
#include "runtime/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST = 100003 };

typedef struct count {
	atomic_int unit[MOST], pieces, short_pieces, wrong_pieces; /* no assertion leaves a thread of the team */
	int64_t n, grain;
} count;

static void add(void *env, int thread, int64_t begin, int64_t end)
{
	count *c = env;
	(void)thread;
	atomic_fetch_add(&c->pieces, 1);
	if (begin < 0 || begin >= end || end > c->n) {
		atomic_fetch_add(&c->wrong_pieces, 1);
		return;
	}
	if (end - begin < c->grain) atomic_fetch_add(&c->short_pieces, 1);
	for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->unit[i], 1);
}

static void each_once(void **state)
{
	static const int64_t ns[] = { 1, 2, 3, 4, 7, 65, 1000, MOST }, grains[] = { 1, 16, 128, 1 << 20 };
	static const double times[] = { 0, 1e4, 1e6, 1e9 };
	rt_team *t = rt_team_get(3);
	(void)state;
	for (size_t i = 0; i < RT_COUNT(ns) * RT_COUNT(grains) * RT_COUNT(times); i++) {
		count *c = calloc(1, sizeof *c);
		assert_non_null(c);
		c->n = ns[i % RT_COUNT(ns)], c->grain = grains[i / RT_COUNT(ns) % RT_COUNT(grains)];
		rt_team_run(t, c->n, c->grain, times[i / RT_COUNT(ns) / RT_COUNT(grains)], add, c);
		for (int64_t k = 0; k < MOST; k++) assert_int_equal(c->unit[k], k < c->n);
		int size = c->n < rt_team_size(t) ? (int)c->n : rt_team_size(t);
		assert_true(c->pieces >= 1);
		assert_int_equal(c->wrong_pieces, 0);
		if (c->grain * 4 * size <= c->n) assert_in_range(c->short_pieces, 0, size); /* the last of each thread's */
		free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_once) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
