/* SPDX-License-Identifier: MIT */
/* A program for test/export.sh: the three models of exported.c as object files, without libtj and without a heap, from four threads. Prints
 * the numbers that exported.c prints. C11 and C++17. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "digits.h"
#include "gpt.h"
#include "options.h"

enum { WIDTH = 64, LAYERS = 2, MOST = 1 << 18, ROOM = 1 << 22, OUT = 1 << 14, THREADS = 4 };
static float numbers[MOST];

typedef struct run { /* of a thread; nothing is allocated */
	char workspace[ROOM];
	float out[3][OUT + 1]; /* some results are not aligned */
	unsigned long long hash[3];
	int failed;
} run;
static run runs[THREADS];

static void add(unsigned long long *h, const float *x, size_t n)
{
	const unsigned char *b = (const unsigned char *)x;
	for (size_t i = 0; i < 4 * n; i++) *h = (*h ^ b[i]) * 1099511628211u;
}

static void fits(run *r, size_t bytes) { r->failed |= !bytes || bytes > ROOM; }

static void *run_all(void *env)
{
	run *r = (run *)env;
	static const int tokens[] = { 1, 2, 17, 48 }, batches[] = { 1, 3, 16 }, counts[] = { 1, 10, 1000 };
	for (int i = 0; i < 3; i++) r->hash[i] = 14695981039346656037u;
	for (int i = 0; i < 4; i++) {
		const int t = tokens[i];
		fits(r, gpt_workspace_bytes(t));
		r->failed |= gpt_run(t, numbers, numbers + 13, numbers + 26, r->out[0], r->out[1] + 1, r->out[2], r->workspace);
		add(&r->hash[0], r->out[0], 100);
		add(&r->hash[0], r->out[1] + 1, (size_t)(LAYERS * (t + 1) * WIDTH));
		add(&r->hash[0], r->out[2], (size_t)(LAYERS * (t + 1) * WIDTH));
	}
	for (int i = 0; i < 3; i++) {
		fits(r, digits_workspace_bytes(batches[i]));
		r->failed |= digits_run(batches[i], numbers, r->out[0], r->workspace);
		add(&r->hash[1], r->out[0], (size_t)(batches[i] * 10));
	}
	for (int i = 0; i < 3; i++) {
		fits(r, options_workspace_bytes(counts[i]));
		r->failed |= options_run(counts[i], numbers, numbers + 13, numbers + 26, r->out[0], r->workspace);
		add(&r->hash[2], r->out[0], (size_t)counts[i]);
	}
	return NULL;
}

int main(void)
{
	static const char *const name[] = { "gpt", "digits", "options" };
	pthread_t thread[THREADS];
	int failed = 0;
	for (int i = 0; i < MOST; i++) numbers[i] = 0.01f + (float)((i * 37) % 101) / 60;
	for (int i = 0; i < THREADS; i++) failed |= pthread_create(&thread[i], NULL, run_all, &runs[i]);
	for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
	for (int i = 0; i < THREADS; i++) failed |= runs[i].failed | (memcmp(runs[i].hash, runs[0].hash, sizeof runs[0].hash) != 0);
	failed |= gpt_workspace_bytes(49) != 0 ||
	          gpt_run(0, numbers, numbers, numbers, runs[0].out[0], runs[0].out[1], runs[0].out[2], runs[0].workspace) != TJRT_SIZES;
	for (int i = 0; i < 3; i++) printf("%s %016llx compiled 0\n", name[i], runs[0].hash[i]);
	if (failed) printf("failed: %s\n", tjrt_strerror(runs[0].failed));
	return failed;
}
