/* SPDX-License-Identifier: MIT */
/* Elements of GGUF files: as they are, or in blocks of small integers with scales, as ggml lays them out. */
#include "kit/files/gguf.h"

#include <math.h>

/* ---- f16 ---- */
float gguf_half(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3FF;
	uint32_t bits = sign | (exponent + 112) << 23 | fraction << 13;
	float x;
	if (exponent == 31) bits = sign | 0x7F800000 | fraction << 13;
	if (!exponent) return (sign ? -1.0F : 1.0F) * (float)fraction * 0x1p-24F;
	memcpy(&x, &bits, sizeof x);
	return x;
}

uint16_t gguf_to_half(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	bits &= 0x7FFFFFFF;
	if (bits >= 0x7F800000) return (uint16_t)(sign | 0x7C00 | (bits > 0x7F800000 ? 0x200 | (bits >> 13 & 0x1FF) : 0));
	if (bits >= 0x477FF000) return sign | 0x7C00;                                  /* 65520 and above */
	if (bits < 0x38800000) return (uint16_t)(sign | (uint16_t)lrintf(fabsf(x) * 0x1p24F)); /* below 2^-14 */
	return (uint16_t)(sign | ((bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13));
}

static float half_at(const unsigned char *v) { return gguf_half((uint16_t)(v[0] | v[1] << 8)); }
static void put_half(unsigned char *v, float x)
{
	const uint16_t h = gguf_to_half(x);
	v[0] = (unsigned char)h, v[1] = (unsigned char)(h >> 8);
}

/* ---- blocks of 32 ---- */
/* The low halves of 16 bytes, then the high ones. */
static int nibble(const unsigned char *v, int i) { return i < 16 ? v[i] & 15 : v[i - 16] >> 4; }
static int bit(const unsigned char *v, int i) { return v[i / 8] >> i % 8 & 1; }

static void read_q4_0(const unsigned char *v, gguf_block *b)
{
	b->scale[0] = half_at(v);
	for (int i = 0; i < 32; i++) b->q[i] = (int8_t)(nibble(v + 2, i) - 8);
}
static void read_q4_1(const unsigned char *v, gguf_block *b)
{
	b->scale[0] = half_at(v), b->min[0] = -half_at(v + 2);
	for (int i = 0; i < 32; i++) b->q[i] = (int8_t)nibble(v + 4, i);
}
static void read_q5_0(const unsigned char *v, gguf_block *b)
{
	b->scale[0] = half_at(v);
	for (int i = 0; i < 32; i++) b->q[i] = (int8_t)((nibble(v + 6, i) | bit(v + 2, i) << 4) - 16);
}
static void read_q5_1(const unsigned char *v, gguf_block *b)
{
	b->scale[0] = half_at(v), b->min[0] = -half_at(v + 2);
	for (int i = 0; i < 32; i++) b->q[i] = (int8_t)(nibble(v + 8, i) | bit(v + 4, i) << 4);
}
static void read_q8_0(const unsigned char *v, gguf_block *b)
{
	b->scale[0] = half_at(v);
	memcpy(b->q, v + 2, 32);
}
static void read_iq4_nl(const unsigned char *v, gguf_block *b)
{
	static const int8_t value[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
	b->scale[0] = half_at(v);
	for (int i = 0; i < 32; i++) b->q[i] = value[nibble(v + 2, i)];
}

/* ---- blocks of 256 ---- */
/* 2 bits each: the lowest of 32 bytes, the next ones, .. four times; then those of the next 32 bytes. */
static int crumb(const unsigned char *v, int i) { return v[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3; }
/* 4 bits each: the low halves of 32 bytes, the high ones; then those of the next 32 bytes. */
static int half_byte(const unsigned char *v, int i) { return v[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15; }
/* 1 bit each: the lowest of 32 bytes, the next ones, .. */
static int plane(const unsigned char *v, int i) { return v[i % 32] >> i / 32 & 1; }

static void read_q2_k(const unsigned char *v, gguf_block *b)
{
	const float d = half_at(v + 80), least = half_at(v + 82);
	for (int g = 0; g < 16; g++) b->scale[g] = d * (float)(v[g] & 15), b->min[g] = least * (float)(v[g] >> 4);
	for (int i = 0; i < 256; i++) b->q[i] = (int8_t)crumb(v + 16, i);
}
static void read_q3_k(const unsigned char *v, gguf_block *b)
{
	const unsigned char *s = v + 96;
	const float d = half_at(v + 108);
	for (int g = 0; g < 16; g++) b->scale[g] = d * (float)(((s[g % 8] >> g / 8 * 4 & 15) | (s[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32);
	for (int i = 0; i < 256; i++) b->q[i] = (int8_t)(crumb(v + 32, i) - (plane(v, i) ? 0 : 4));
}
/* Scales and minima of 8 groups, 6 bits each, in 12 bytes. */
static void read_scales(const unsigned char *s, float d, float least, gguf_block *b)
{
	for (int g = 0; g < 8; g++) {
		const int low = g % 4, scale = g < 4 ? s[low] & 63 : (s[8 + low] & 15) | (s[low] >> 2 & 48);
		b->scale[g] = d * (float)scale;
		b->min[g] = least * (float)(g < 4 ? s[4 + low] & 63 : s[8 + low] >> 4 | (s[4 + low] >> 2 & 48));
	}
}
static void read_q4_k(const unsigned char *v, gguf_block *b)
{
	read_scales(v + 4, half_at(v), half_at(v + 2), b);
	for (int i = 0; i < 256; i++) b->q[i] = (int8_t)half_byte(v + 16, i);
}
static void read_q5_k(const unsigned char *v, gguf_block *b)
{
	read_scales(v + 4, half_at(v), half_at(v + 2), b);
	for (int i = 0; i < 256; i++) b->q[i] = (int8_t)(half_byte(v + 48, i) | plane(v + 16, i) << 4);
}
static void read_q6_k(const unsigned char *v, gguf_block *b)
{
	const float d = half_at(v + 208);
	for (int g = 0; g < 16; g++) b->scale[g] = d * (float)(int8_t)v[192 + g];
	for (int i = 0; i < 256; i++) /* low halves of 64 bytes, high ones; then those of the next 64 */
		b->q[i] = (int8_t)(((v[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15) | crumb(v + 128, i) << 4) - 32);
}

/* ---- writing ---- */
static bool write_q8_0(const float *x, unsigned char *to)
{
	float most = 0;
	for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
	const float d = most / 127, by = d == 0 ? 0 : 1 / d;
	put_half(to, d);
	for (int i = 0; i < 32; i++) {
		if (!isfinite(x[i])) return false;
		const float v = isfinite(by) ? roundf(x[i] * by) : 0;
		to[2 + i] = (unsigned char)(int8_t)v;
	}
	return true;
}
static bool write_q4_0(const float *x, unsigned char *to)
{
	float most = x[0];
	for (int i = 0; i < 32; i++)
		if (fabsf(x[i]) > fabsf(most)) most = x[i];
	const float d = most / -8, by = d == 0 ? 0 : 1 / d;
	int q[32];
	put_half(to, d);
	for (int i = 0; i < 32; i++) {
		if (!isfinite(x[i])) return false;
		const float v = truncf(x[i] * (isfinite(by) ? by : 0) + 8.5F);
		q[i] = v < 0 ? 0 : v > 15 ? 15 : (int)v;
	}
	for (int i = 0; i < 16; i++) to[2 + i] = (unsigned char)(q[i] | q[16 + i] << 4);
	return true;
}

/* ---- the table ---- */
static const gguf_type types[] = {
	{ "F32", 0, 1, 4, TJ_F32, 0, false, NULL, NULL },
	{ "F16", 1, 1, 2, TJ_F16, 0, false, NULL, NULL },
	{ "Q4_0", 2, 32, 18, TJ_F32, 32, false, read_q4_0, write_q4_0 },
	{ "Q4_1", 3, 32, 20, TJ_F32, 32, true, read_q4_1, NULL },
	{ "Q5_0", 6, 32, 22, TJ_F32, 32, false, read_q5_0, NULL },
	{ "Q5_1", 7, 32, 24, TJ_F32, 32, true, read_q5_1, NULL },
	{ "Q8_0", 8, 32, 34, TJ_F32, 32, false, read_q8_0, write_q8_0 },
	{ "Q2_K", 10, 256, 84, TJ_F32, 16, true, read_q2_k, NULL },
	{ "Q3_K", 11, 256, 110, TJ_F32, 16, false, read_q3_k, NULL },
	{ "Q4_K", 12, 256, 144, TJ_F32, 32, true, read_q4_k, NULL },
	{ "Q5_K", 13, 256, 176, TJ_F32, 32, true, read_q5_k, NULL },
	{ "Q6_K", 14, 256, 210, TJ_F32, 16, false, read_q6_k, NULL },
	{ "IQ4_NL", 20, 32, 18, TJ_F32, 32, false, read_iq4_nl, NULL },
	{ "I8", 24, 1, 1, TJ_I8, 0, false, NULL, NULL },
	{ "I16", 25, 1, 2, TJ_I16, 0, false, NULL, NULL },
	{ "I32", 26, 1, 4, TJ_I32, 0, false, NULL, NULL },
	{ "I64", 27, 1, 8, TJ_I64, 0, false, NULL, NULL },
	{ "F64", 28, 1, 8, TJ_F64, 0, false, NULL, NULL },
	{ "BF16", 30, 1, 2, TJ_BF16, 0, false, NULL, NULL },
};
enum { TYPES = sizeof types / sizeof *types };

const gguf_type *gguf_type_of(uint32_t number)
{
	for (int i = 0; i < TYPES; i++)
		if (types[i].number == number) return &types[i];
	return NULL;
}
const gguf_type *gguf_type_named(const char *name)
{
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(types[i].name, name)) return &types[i];
	return NULL;
}
const gguf_type *gguf_type_for(tj_dtype dtype)
{
	for (int i = 0; i < TYPES; i++)
		if (!types[i].group && types[i].dtype == dtype) return &types[i];
	return NULL;
}
const char *gguf_name_of(uint32_t number)
{
	static const char *const other[] = { [9] = "Q8_1",    [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S",
		                             [21] = "IQ3_S",   [22] = "IQ2_S", [23] = "IQ4_XS",  [29] = "IQ1_M",  [34] = "TQ1_0",   [35] = "TQ2_0",
		                             [39] = "MXFP4" };
	return number < sizeof other / sizeof *other ? other[number] : NULL;
}
