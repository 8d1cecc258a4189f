/* SPDX-License-Identifier: MIT */
/* features: what code may use of a CPU beyond the level that the width of its vectors stands for. */
#include "runtime/exec.h"

bool rt_wide_cpu(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
#else
	return false;
#endif
}

const char *rt_cpu_missing(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2")) return "the CPU lacks AVX2 (x86-64-v3 is needed)";
	if (!rt_half_words()) return "the CPU lacks F16C (x86-64-v3 is needed)";
	if (!__builtin_cpu_supports("fma")) return "the CPU lacks FMA (x86-64-v3 is needed)";
	if (!__builtin_cpu_supports("bmi2")) return "the CPU lacks BMI2 (x86-64-v3 is needed)";
	return NULL;
#else
	return "no x86-64";
#endif
}

int rt_vector_bits(void)
{
	const int most = rt_wide_cpu() ? 512 : 256, wanted = rt_wanted_bits();
	return wanted && wanted < most ? wanted : most;
}

const char *rt_feature_name(int i)
{
	static const char *const name[] = {
#define X(feature, name, uses) name,
		RT_FEATURES(X)
#undef X
	};
	return i >= 0 && i < (int)RT_COUNT(name) ? name[i] : NULL;
}

uint32_t rt_features_for(unsigned uses)
{
	uint32_t all = 0;
#define X(feature, name, of) all |= (uses & (of)) ? RT_HAS_##feature : 0;
	RT_FEATURES(X)
#undef X
	return all;
}

#if defined(__x86_64__)
static uint32_t of_cpu(void)
{
	uint32_t has = 0;
	if (__builtin_cpu_supports("avx512vbmi")) has |= RT_HAS_VBMI;
	if (__builtin_cpu_supports("avx512vbmi2")) has |= RT_HAS_VBMI2;
	if (__builtin_cpu_supports("avx512bitalg")) has |= RT_HAS_BITALG;
	if (__builtin_cpu_supports("avx512vnni")) has |= RT_HAS_VNNI;
	if (__builtin_cpu_supports("gfni")) has |= RT_HAS_GFNI;
	if (__builtin_cpu_supports("avx512bf16")) has |= RT_HAS_BF16;
	return has;
}
#else
static uint32_t of_cpu(void) { return 0; }
#endif

uint32_t rt_features(int bits)
{
	return bits == 512 && rt_wide_cpu() ? of_cpu() : 0;
}

bool rt_byte_words(void) { return rt_features(rt_vector_bits()) & RT_HAS_VNNI; }
