/* SPDX-License-Identifier: MIT */
/* state: measures the present speed of the machine. Virtual cores may be near one another or far apart, which changes the speed
 * of memory and of data shared by two threads by a factor of two. So every table of times has the state beside it. */
#include "bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 5000, REPEAT = 7 };
#define N ((int64_t)16 << 20)

/* ---- time to send one word between two threads and back ---- */
static _Alignas(128) atomic_int word;

static void *answer(void *unused)
{
	for (int i = 0; i < TURNS; i++) {
		while (atomic_load_explicit(&word, memory_order_acquire) != 2 * i + 1) {}
		atomic_store_explicit(&word, 2 * i + 2, memory_order_release);
	}
	return unused;
}

static double round_trip_ns(void)
{
	pthread_t t;
	atomic_store(&word, 0);
	if (pthread_create(&t, NULL, answer, NULL)) return 0;
	usleep(1000);
	double start = bench_now();
	for (int i = 0; i < TURNS; i++) {
		atomic_store_explicit(&word, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&word, memory_order_acquire) != 2 * i + 2) {}
	}
	double ns = (bench_now() - start) / TURNS * 1e9;
	pthread_join(t, NULL);
	return ns;
}

/* ---- bandwidth and arithmetic ---- */
static float *x, *y, *z;
static void copy_1m(void) { hand_copy(x, z, 1 << 20); }
static void copy_16m(void) { hand_copy(x, z, N); }
static void add_16m(void) { hand_plus(x, y, z, N); }
static void sgemm_1k(void) { hand_sgemm('N', 'N', 1024, 1024, 1024, x, 1024, y, 1024, z, 1024); }

/* Work per second: the median of a few runs. */
static double rate(void (*f)(void), double work)
{
	double s[REPEAT];
	f();
	for (int i = 0; i < REPEAT; i++) {
		double start = bench_now();
		f();
		s[i] = bench_now() - start;
	}
	qsort(s, REPEAT, sizeof *s, bench_by_size);
	return work / s[REPEAT / 2] * 1e-9;
}

void bench_state(FILE *f, bool json)
{
	float **all[] = { &x, &y, &z };
	for (int i = 0; i < 3; i++)
		if (!(*all[i] = aligned_alloc(4096, N * sizeof(float)))) return;
		else memset(*all[i], i, N * sizeof(float));
	double load = 0;
	if (getloadavg(&load, 1) != 1) load = -1;
	fprintf(f, json ? "{\"state\": true, \"round_trip_ns\": %.0f, \"copy_1M_GB/s\": %.1f, \"copy_16M_GB/s\": %.1f, "
	                  "\"add_16M_GB/s\": %.1f, \"sgemm_1024_GF/s\": %.0f, \"load\": %.2f}\n"
	                : "machine: round trip between threads %.0f ns, copy 1M %.0f GB/s, copy 16M %.1f GB/s, add 16M %.1f GB/s, "
	                  "sgemm 1024 %.0f GF/s, load %.2f\n",
	        round_trip_ns(), rate(copy_1m, 8 << 20), rate(copy_16m, 8.0 * N), rate(add_16m, 12.0 * N),
	        rate(sgemm_1k, 2.0 * 1024 * 1024 * 1024), load);
	for (int i = 0; i < 3; i++) free(*all[i]);
}
