/* SPDX-License-Identifier: MIT */
/* tuning: runs a product with each of the algorithms that cuBLASLt's heuristic ranks first, and takes the fastest. Clocks differ from run
 * to run, and so may the choice and the bits of the result: it is done only where a policy says so. */
#include "runtime/cublas.h"

enum { ROUNDS = 3, RUNS = 4 }; /* the best of some rounds of some runs each */

static void finish(int device, rt_queue *q)
{
	const rt_device *d = rt_device_at(device);
	d->finish(d->self, d->mark(q));
}

double rt_lt_time(const rt_lt_call *x, int device, rt_queue *q, rt_lt_run *run, void *env)
{
	double best = -1;
	if (run(env, x)) return best;
	finish(device, q);
	for (int round = 0; round < ROUNDS; round++) {
		const double start = rt_now_ms();
		for (int i = 0; i < RUNS; i++) run(env, x);
		finish(device, q);
		const double us = (rt_now_ms() - start) * 1e3 / RUNS;
		if (best < 0 || us < best) best = us;
	}
	return best;
}

void rt_lt_tune(rt_lt_call *x, int device, rt_queue *q, rt_lt_run *run, void *env)
{
	double first = -1, least = -1;
	int best = 0;
	for (int i = 0; i < x->noption; i++) {
		x->choice = x->option[i];
		const double us = rt_lt_time(x, device, q, run, env);
		if (i == 0) first = us;
		if (us < 0 || (least >= 0 && us >= least)) continue;
		least = us;
		best = i;
	}
	rt_lt_choose(x, best, least, first);
}
