/* SPDX-License-Identifier: MIT */
/* order: a permutation of 0 .. n - 1 that is computed, not stored. A Feistel network permutes the numbers of as many bits as n - 1 has:
 * each round changes one half by a function of the other. A result from n on is permuted again until one is below n; that again is a
 * permutation, and takes less than two turns on average. */
#include "kit/data/data.h"

uint64_t kit_mix(uint64_t key, uint64_t x)
{
	x += key * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t permute(const uint64_t *key, int rounds, int low_bits, int bits, uint64_t x)
{
	const uint64_t low_mask = ((uint64_t)1 << low_bits) - 1, high_mask = ((uint64_t)1 << (bits - low_bits)) - 1;
	uint64_t low = x & low_mask, high = x >> low_bits;
	for (int i = 0; i < rounds; i += 2) {
		low ^= kit_mix(key[i], high) >> 20 & low_mask;
		high ^= kit_mix(key[i + 1], low) >> 20 & high_mask;
	}
	return high << low_bits | low;
}

int64_t tj_shuffled(uint64_t seed, int64_t epoch, int64_t n, int64_t place)
{
	enum { ROUNDS = 8, MORE = 40, FEW = 8 }; /* halves of few bits change little in a round */
	uint64_t key[MORE], base = kit_mix(kit_mix(seed, 0x746a), (uint64_t)epoch);
	int bits = 2;
	if (n < 2 || place < 0 || place >= n) return place;
	while (bits < 63 && (uint64_t)(n - 1) >> bits) bits++;
	const int rounds = bits < FEW ? MORE : ROUNDS;
	for (int i = 0; i < rounds; i++) key[i] = kit_mix(base, (uint64_t)i);
	uint64_t x = (uint64_t)place;
	do x = permute(key, rounds, (bits + 1) / 2, bits, x);
	while (x >= (uint64_t)n);
	return (int64_t)x;
}
