/* SPDX-License-Identifier: MIT */
/* A model of training on many ranks, by simulation: docs/DISTRIBUTED.md explains it.
 *
 *   build/scaling [megabytes] [forward ms] [backward ms] [latency us] [overhead us] [GB/s] [jitter]
 *
 * Each step, every rank computes forward, then backward; gradients come in buckets, the first of 1 MiB, the others of 25. A bucket's
 * collective begins when all ranks have it and the one before has ended, which is how the communicator's thread works, and runs beside
 * backward. The step ends when the last one has ended. Times of ranks vary: each rank's compute time is multiplied by 1 + jitter * an
 * exponential number. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 200, MOST = 4096 };

typedef struct machine {
	double bytes;             /* of all gradients */
	double forward, backward; /* s */
	double latency, overhead; /* s: of a message; of the CPU for each message */
	double rate;              /* bytes/s out of a rank */
	double jitter;
} machine;

typedef double collective(const machine *m, int ranks, double bytes); /* s */

/* What kit/dist/collect.c does: headers to all, parts to all, sums to all; each rank posts ranks - 1 messages three times. */
static double direct(const machine *m, int ranks, double bytes)
{
	const double n = ranks - 1, headers = m->latency + n * m->overhead + n * 488 / m->rate;
	return ranks == 1 ? 0 : headers + 2 * (m->latency + n * m->overhead + bytes * n / ranks / m->rate);
}

/* A ring: 2 (ranks - 1) steps, each of a part. Its sums begin at another rank for each part, so their bits would depend on the number. */
static double ring(const machine *m, int ranks, double bytes)
{
	return ranks == 1 ? 0 : 2. * (ranks - 1) * (m->latency + 2 * m->overhead + bytes / ranks / m->rate);
}

/* Halving and doubling: 2 log2(ranks) steps; also other sums. */
static double halving(const machine *m, int ranks, double bytes)
{
	return ranks == 1 ? 0 : 2 * (ceil(log2(ranks)) * (m->latency + 2 * m->overhead) + bytes * (ranks - 1.) / ranks / m->rate);
}

static double uniform(uint64_t *s)
{
	*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return ((double)(*s >> 11) + 0.5) * 0x1p-53;
}

static int cut(const machine *m, double *bucket)
{
	int n = 0;
	for (double left = m->bytes; left > 0 && n < MOST; n++) {
		bucket[n] = fmin(left, n ? 25 << 20 : 1 << 20);
		left -= bucket[n];
	}
	return n;
}

typedef struct result {
	double step, exposed;
} result; /* s: of a step; of it, after the last rank has computed */

static result simulate(const machine *m, int ranks, collective *c)
{
	static double bucket[MOST];
	const int n = cut(m, bucket);
	uint64_t seed = 7;
	result r = { 0 };
	for (int i = 0; i < STEPS; i++) {
		double slowest = 1, done = 0, sent = 0;
		for (int k = 0; k < ranks; k++) slowest = fmax(slowest, 1 - m->jitter * log(uniform(&seed)));
		for (int k = 0; k < n; k++) {
			sent += bucket[k];
			const double ready = slowest * (m->forward + m->backward * sent / m->bytes); /* the last rank has this bucket */
			done = fmax(done, ready) + c(m, ranks, bucket[k]);
		}
		r.step += done / STEPS;
		r.exposed += (done - slowest * (m->forward + m->backward)) / STEPS;
	}
	return r;
}

int main(int argc, char **argv)
{
	double v[] = { 100, 20, 40, 5, 0.5, 10, 0.02 };
	for (int i = 1; i < argc && i <= 7; i++) v[i - 1] = atof(argv[i]);
	const machine m = { v[0] * 1e6, v[1] * 1e-3, v[2] * 1e-3, v[3] * 1e-6, v[4] * 1e-6, v[5] * 1e9, v[6] };
	const double alone = (m.forward + m.backward) * (1 + m.jitter);
	printf("gradients %g MB, forward %g ms, backward %g ms; messages: latency %g us, overhead %g us, %g GB/s; jitter %g\n\n", v[0],
	       v[1], v[2], v[3], v[4], v[5], v[6]);
	printf("ranks   MB sent  step, ms  exposed, ms  efficiency   a ring  halving\n");
	for (int ranks = 1; ranks <= 1024; ranks *= ranks == 1 ? 8 : 2) {
		const result d = simulate(&m, ranks, direct), r = simulate(&m, ranks, ring), h = simulate(&m, ranks, halving);
		printf("%5d  %8.1f  %8.2f  %11.2f  %9.1f %%  %5.1f %%  %5.1f %%\n", ranks, 2 * m.bytes * (ranks - 1) / ranks / 1e6,
		       d.step * 1e3, d.exposed * 1e3, 100 * alone / d.step, 100 * alone / r.step, 100 * alone / h.step);
	}
	return 0;
}
