/* SPDX-License-Identifier: MIT */
/* cores: how many threads of the process can run at once: the CPUs of its affinity mask, limited by the CPU quota of its
 * container. */
#include "runtime/exec.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int rt_affinity(void)
{
	cpu_set_t set;
	long n = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN)
	                                                : CPU_COUNT(&set); /* sched_getaffinity() fails with more than 1024 CPUs */
	return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

/* Reads the first two numbers of a file; returns how many it has, 0 to 2. */
static int read_numbers(const char *folder, const char *name, double v[2])
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = len > 0 && (size_t)len < sizeof path ? fopen(path, "re") : NULL;
	if (!f) return 0;
	int n = fscanf(f, "%lf %lf", &v[0], &v[1]);
	fclose(f);
	return n;
}

/* v: microseconds of CPU time in a period, and the period. Without a quota, cgroup version 2 writes "max 100000", version 1 writes -1. */
static bool read_quota(const char *cgroup, double v[2])
{
	double period[2];
	if (read_numbers(cgroup, "cpu.max", v) == 2) return true;
	if (read_numbers(cgroup, "cpu/cpu.cfs_quota_us", v) < 1 || read_numbers(cgroup, "cpu/cpu.cfs_period_us", period) < 1) return false;
	v[1] = period[0];
	return true;
}

double rt_quota(const char *cgroup)
{
	double v[2];
	return read_quota(cgroup, v) && v[0] > 0 && v[1] > 0 ? v[0] / v[1] : 0;
}

int rt_cores(const char *cgroup)
{
	const int n = rt_affinity();
	const double most = rt_quota(cgroup);
	return most <= 0 || most >= n ? n : (int)most + ((double)(int)most < most);
}

int rt_wanted_bits(void)
{
	const char *want = getenv("TJ_CPU");
	for (int bits = 128; want && bits <= 512; bits *= 2)
		if (atoi(want) == bits && strlen(want) == 3) return bits;
	return 0;
}

bool rt_half_words(void)
{
#if defined(__x86_64__)
	unsigned a, b, c = 0, d; /* clang 14 has no __builtin_cpu_supports("f16c") */
	return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
#else
	return false;
#endif
}
