/* SPDX-License-Identifier: MIT */
/* bf16: what vdpbf16ps computes. It adds the products of two pairs of bf16 to a sum of f32, and its description leaves open how often that
 * is rounded. So this CPU is asked: an order that a strict product may rely on is one that it shows for a few thousand sums. */
#include "runtime/base.h"
#include "runtime/exec.h"

#include <math.h>
#include <stdatomic.h>

bool rt_bf16_pairs(void)
{
	return rt_features(rt_vector_bits()) & RT_HAS_BF16;
}

#if defined(__x86_64__)
#include <immintrin.h>

enum { LANES = 16, ROUNDS = 256 };

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* From 2^-8 to 2^7, of either sign: sums that cancel, round and absorb. */
static uint16_t number(uint32_t *seed)
{
	const uint32_t r = next(seed) >> 8;
	return (uint16_t)((r & 0x807f) | (119 + (r >> 16) % 16) << 7);
}

static float widened(uint16_t x) { return tj_from_bf16((tj_bf16){ x }); }

/* sum = fma(low x, low y, fma(high x, high y, sum)) in each of the lanes */
__attribute__((target("avx512f,avx512bf16"))) static bool adds_in_order(void)
{
	uint32_t seed = 1;
	float sum[LANES] = { 0 }, got[LANES];
	for (int round = 0; round < ROUNDS; round++) {
		uint16_t x[2 * LANES], y[2 * LANES];
		for (int i = 0; i < 2 * LANES; i++) x[i] = number(&seed), y[i] = number(&seed);
		_mm512_storeu_ps(got, _mm512_dpbf16_ps(_mm512_loadu_ps(sum), (__m512bh)_mm512_loadu_si512(x), (__m512bh)_mm512_loadu_si512(y)));
		for (int i = 0; i < LANES; i++) {
			sum[i] = fmaf(widened(x[2 * i]), widened(y[2 * i]), fmaf(widened(x[2 * i + 1]), widened(y[2 * i + 1]), sum[i]));
			if (sum[i] != got[i]) return false;
		}
	}
	return true;
}
#else
static bool adds_in_order(void) { return false; }
#endif

bool rt_bf16_in_order(void)
{
	static atomic_int known; /* 1: it does not; 2: it does */
	if (!rt_bf16_pairs()) return false;
	if (!atomic_load_explicit(&known, memory_order_relaxed)) atomic_store_explicit(&known, adds_in_order() ? 2 : 1, memory_order_relaxed);
	return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}
