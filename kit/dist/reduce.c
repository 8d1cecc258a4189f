/* SPDX-License-Identifier: MIT */
/* Sums, products, maxima and minima of elements, as tj_add(), tj_maximum() and tj_minimum() compute them: narrow floats in f32, rounded
 * each time; integers wrap; NaN wins. */
#include "kit/dist/dist.h"

#include <math.h>

static double from_f16(tj_f16 x) { return (double)tj_from_f16(x); }
static double from_bf16(tj_bf16 x) { return (double)tj_from_bf16(x); }
static tj_f16 to_f16(double x) { return tj_to_f16((double)(float)x); }
static tj_bf16 to_bf16(double x) { return tj_to_bf16((double)(float)x); }

static double larger(double x, double y) { return x > y || (x == y && !signbit(x)) ? x : y; }
static double smaller(double x, double y) { return x < y || (x == y && signbit(x)) ? x : y; }

/* A sum or product of two narrow floats in f64 rounds to f32 as one in f32: f64 has more than twice the bits. */
static double combined(uint32_t how, double x, double y)
{
	if (how == TJ_REDUCE_PROD) return x * y;
	if (how == TJ_REDUCE_SUM || how == TJ_REDUCE_MEAN || x != x || y != y) return x + y;
	return how == TJ_REDUCE_AMAX ? larger(x, y) : smaller(x, y);
}

#define FLOATS(type, load, store) \
	for (size_t i = 0; i < n; i++) { \
		type *a = (type *)to + i; \
		*a = store(combined(how, (double)load(*a), (double)load(((const type *)from)[i]))); \
	} \
	return true
#define INTEGERS(type) \
	for (size_t i = 0; i < n; i++) { \
		type *a = (type *)to + i; \
		const type x = *a, y = ((const type *)from)[i]; \
		*a = how == TJ_REDUCE_SUM                 ? (type)((uint64_t)x + (uint64_t)y) \
		     : how == TJ_REDUCE_PROD              ? (type)((uint64_t)x * (uint64_t)y) \
		     : (how == TJ_REDUCE_AMAX) == (x > y) ? x \
		                                          : y; \
	} \
	return how != TJ_REDUCE_MEAN

bool dist_combine(tj_dtype t, uint32_t how, void *to, const void *from, size_t n)
{
	switch (t) {
	case TJ_BOOL:
	case TJ_U8: INTEGERS(uint8_t);
	case TJ_I8: INTEGERS(int8_t);
	case TJ_I16: INTEGERS(int16_t);
	case TJ_I32: INTEGERS(int32_t);
	case TJ_I64: INTEGERS(int64_t);
	case TJ_F16: FLOATS(tj_f16, from_f16, to_f16);
	case TJ_BF16: FLOATS(tj_bf16, from_bf16, to_bf16);
	case TJ_F64: FLOATS(double, , );
	case TJ_F32: break;
	default: return false;
	}
	if (!dist_sums(how)) {
		FLOATS(float, , (float));
	}
	for (size_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
	return true;
}

void dist_divide(tj_dtype t, void *x, size_t n, int by)
{
	for (size_t i = 0; i < n; i++) switch (t) {
		case TJ_F16: ((tj_f16 *)x)[i] = to_f16((double)((float)from_f16(((tj_f16 *)x)[i]) / (float)by)); break;
		case TJ_BF16: ((tj_bf16 *)x)[i] = to_bf16((double)((float)from_bf16(((tj_bf16 *)x)[i]) / (float)by)); break;
		case TJ_F32: ((float *)x)[i] /= (float)by; break;
		case TJ_F64: ((double *)x)[i] /= by; break;
		default: break;
		}
}
