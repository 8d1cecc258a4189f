/* SPDX-License-Identifier: MIT */
/* log: how the fake driver ends the process, and its random numbers. */
#include "test/fake/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t fake_seed(void)
{
	const char *s = getenv("FAKE_CUDA_SEED");
	return s ? strtoull(s, NULL, 0) : 0;
}

void fake_die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("fake CUDA: ", stderr);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, " (FAKE_CUDA_SEED=%llu FAKE_CUDA_ARCH=%d)\n", (unsigned long long)fake_seed(), fake_limits()->arch);
	va_end(ap);
	abort();
}

uint64_t fake_random(void) /* xorshift */
{
	static uint64_t x;
	if (!x) x = fake_seed() * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

const limits *fake_limits(void)
{
	static const limits known[] = { { 90, 227 << 10 }, { 80, 163 << 10 }, { 120, 99 << 10 } };
	const char *s = getenv("FAKE_CUDA_ARCH");
	const int arch = s ? atoi(s) : 0;
	for (size_t i = 1; i < sizeof known / sizeof *known; i++)
		if (known[i].arch == arch) return &known[i];
	return &known[0];
}
