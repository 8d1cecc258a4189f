/* SPDX-License-Identifier: MIT */
/* half: converts f16 and bf16 (floats of 16 bits) from and to float and double. It uses integers, because not every C compiler
 * has types for them. Compiled kernels convert by their own instructions and must give the same bits. */
#include "runtime/half.h"

/* A format of 16 bits: the exponent's bias, and the bits of the mantissa that are stored. */
typedef struct format { int bias, stored; } format;
static const format f16 = { 15, 10 }, bf16 = { 127, 7 };

static uint64_t bits_of(double v)
{
	uint64_t u;
	memcpy(&u, &v, sizeof u);
	return u;
}

/* Removes the low `cut` bits; rounds to nearest, ties to even. A carry out of the mantissa increments the exponent, as it should. */
static uint64_t round_off(uint64_t u, int cut)
{
	const uint64_t half = UINT64_C(1) << (cut - 1), rest = u & (2 * half - 1), kept = u >> cut;
	return kept + (rest > half || (rest == half && kept & 1));
}

static uint16_t narrow(double v, format f)
{
	enum { STORED = 52, BIAS = 1023, TOP = 2047 };
	const uint64_t u = bits_of(v), mantissa = u & ((UINT64_C(1) << STORED) - 1);
	const int e = (int)(u >> STORED & TOP), top = 2 * f.bias + 1, cut = STORED - f.stored;
	const uint16_t sign = (uint16_t)(u >> 63 << 15), infinity = (uint16_t)(top << f.stored);
	const int64_t to = (int64_t)e - BIAS + f.bias; /* the exponent, biased for f */
	if (e == TOP && mantissa) return sign | infinity | (uint16_t)(1u << (f.stored - 1));
	if (to >= top) return sign | infinity;
	if (to > 0) return sign | (uint16_t)round_off((uint64_t)to << STORED | mantissa, cut);
	if (to < -f.stored - 1) return sign; /* less than half of the least subnormal */
	return sign | (uint16_t)round_off(UINT64_C(1) << STORED | mantissa, cut + 1 - (int)to);
}

tj_f16 tj_to_f16(double v) { return (tj_f16){ narrow(v, f16) }; }
tj_bf16 tj_to_bf16(double v) { return (tj_bf16){ narrow(v, bf16) }; }

static float float_of(uint32_t bits)
{
	float v;
	memcpy(&v, &bits, sizeof v);
	return v;
}

float tj_from_bf16(tj_bf16 v) { return float_of((uint32_t)v.bits << 16); }

float tj_from_f16(tj_f16 v)
{
	const uint32_t sign = (uint32_t)(v.bits & 0x8000) << 16, size = v.bits & 0x7fffu;
	if (size >= 0x7c00) return float_of(sign | 0x7f800000 | (size & 0x3ff) << 13);
	if (size >= 0x400) return float_of(sign | ((size << 13) + (112u << 23)));
	const float subnormal = (float)size * 0x1p-24f; /* exact */
	return sign ? -subnormal : subnormal;
}

float rt_round_f(tj_dtype t, double v)
{
	return t == TJ_F16 ? tj_from_f16(tj_to_f16(v)) : t == TJ_BF16 ? tj_from_bf16(tj_to_bf16(v)) : (float)v;
}

float rt_round_i(tj_dtype t, int64_t v)
{
	const int64_t exact = INT64_C(1) << 53, low = 2047, half = 1024;
	if (t == TJ_F32) return (float)v;
	if (v > exact || v < -exact) v = (v & ~low) | (v & low ? half : 0); /* makes v exact in double, on the same side of every tie */
	return rt_round_f(t, (double)v);
}
