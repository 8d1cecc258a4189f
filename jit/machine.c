/* SPDX-License-Identifier: MIT */
/* Machine: what a program can ask of the CPU and of the threads that compute there. */
#include "runtime/exec.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <unistd.h>

enum { WORDS = 4, BRANDS = 3 };
static tj_machine machine;
static char name[BRANDS * WORDS * sizeof(unsigned) + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* The CPU pads its name with blanks. */
static void read_name(void)
{
	const unsigned brand = 0x80000002;
	unsigned w[BRANDS][WORDS] = { 0 };
	for (unsigned i = 0; i < BRANDS; i++)
		if (!__get_cpuid(brand + i, &w[i][0], &w[i][1], &w[i][2], &w[i][3])) return;
	char all[sizeof w + 1] = { 0 };
	memcpy(all, w, sizeof w);
	const char *s = all + strspn(all, " ");
	size_t n = strlen(s);
	while (n && s[n - 1] == ' ') n--;
	memcpy(name, s, n);
}

/* Family 15 and more are in a field of their own, and so is the upper half of the model from family 6 on. */
static void read_family(tj_machine *m)
{
	unsigned a = 0, b, c, d;
	if (!__get_cpuid(1, &a, &b, &c, &d)) return;
	m->family = (int)(a >> 8 & 15);
	m->model = (int)(a >> 4 & 15) | (m->family == 15 || m->family == 6 ? (int)(a >> 12 & 0xf0) : 0);
	if (m->family == 15) m->family += (int)(a >> 20 & 255);
	m->stepping = (int)(a & 15);
}

static const char *capability(void)
{
	return rt_cpu_missing() ? "DEFAULT" : rt_vector_bits() == 512 ? "AVX512" : "AVX2";
}
#else
static void read_name(void) {}
static void read_family(tj_machine *m) { (void)m; }
static const char *capability(void) { return "DEFAULT"; }
#endif

/* What the kernel says of cache i of the first CPU. */
static bool read_word(int i, const char *what, char word[16])
{
	char path[80];
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, what);
	FILE *f = fopen(path, "re");
	const bool ok = f && fscanf(f, "%15s", word) == 1;
	if (f) fclose(f);
	return ok;
}

/* The kernel knows how a hypervisor divides a cache; the CPU, whom sysconf() asks, may not. */
static void read_caches(int64_t bytes[3])
{
	static const int asked[] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
	enum { CACHES = 8 };
	for (int i = 0; i < CACHES; i++) {
		char level[16], type[16], size[16];
		if (!read_word(i, "level", level) || !read_word(i, "type", type) || !read_word(i, "size", size)) break;
		const int l = atoi(level);
		if (l >= 1 && l <= 3 && strcmp(type, "Instruction") && strchr(size, 'K')) bytes[l - 1] = atoll(size) << 10;
	}
	for (int l = 0; l < 3; l++)
		if (!bytes[l] && sysconf(asked[l]) > 0) bytes[l] = sysconf(asked[l]);
}

static void fill(void)
{
	read_name();
	machine = (tj_machine){ .cpu = name,
		                .capability = capability(),
		                .vector_bits = rt_vector_bits(),
		                .cpus = (int)sysconf(_SC_NPROCESSORS_ONLN),
		                .allowed = rt_affinity(),
		                .quota = rt_quota("/sys/fs/cgroup") };
	read_family(&machine);
	read_caches(machine.cache);
}

const tj_machine *tj_this_machine(void)
{
	pthread_once(&once, fill);
	return &machine;
}

int tj_threads(void) { return rt_team_threads(); }
