/* SPDX-License-Identifier: MIT */
/* loophand: the cases of loopcases.c as a C programmer would write them: restrict, outputs allocated beforehand, two loops where memory
 * would be read twice, OpenMP for what is large. Compiled like hand.c. */
#include "bench/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IN(k, type, name) const type *restrict name = a->in[k]
#define OUT(type, name) type *restrict name = a->out[0]
#define HAND(name) void loop_##name(const loop_args *a)
#define PARALLEL _Pragma("omp parallel for")
#define LANES _Pragma("omp parallel for simd")

/* ---- points ---- */
HAND(dots3)
{
	IN(0, float, x); IN(1, float, y); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) o[i] = x[3 * i] * y[3 * i] + x[3 * i + 1] * y[3 * i + 1] + x[3 * i + 2] * y[3 * i + 2];
}

HAND(affine3)
{
	IN(0, float, x); IN(1, float, w); IN(2, float, b); OUT(float, o);
	const float m[12] = { w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], b[0], b[1], b[2] };
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const float p = x[3 * i], q = x[3 * i + 1], r = x[3 * i + 2];
		o[3 * i] = p * m[0] + q * m[3] + r * m[6] + m[9];
		o[3 * i + 1] = p * m[1] + q * m[4] + r * m[7] + m[10];
		o[3 * i + 2] = p * m[2] + q * m[5] + r * m[8] + m[11];
	}
}

HAND(normals3)
{
	IN(0, float, x); IN(1, float, y); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const float *u = x + 3 * i, *v = y + 3 * i;
		const float p = u[1] * v[2] - u[2] * v[1], q = u[2] * v[0] - u[0] * v[2], r = u[0] * v[1] - u[1] * v[0];
		const float s = 1 / sqrtf(p * p + q * q + r * r);
		o[3 * i] = p * s, o[3 * i + 1] = q * s, o[3 * i + 2] = r * s;
	}
}

HAND(quats)
{
	IN(0, double, x); IN(1, double, y); OUT(double, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const double *p = x + 4 * i, *q = y + 4 * i;
		o[4 * i] = p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3];
		o[4 * i + 1] = p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2];
		o[4 * i + 2] = p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1];
		o[4 * i + 3] = p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0];
	}
}

HAND(mats4)
{
	IN(0, float, x); IN(1, float, y); OUT(float, o);
	for (int64_t i = 0; i < a->p[0]; i++)
		for (int r = 0; r < 4; r++)
			for (int c = 0; c < 4; c++) {
				const float *p = x + 16 * i + 4 * r, *q = y + 16 * i + c;
				o[16 * i + 4 * r + c] = p[0] * q[0] + p[1] * q[4] + p[2] * q[8] + p[3] * q[12];
			}
}

HAND(nearest8)
{
	IN(0, float, x); IN(1, float, y); OUT(int64_t, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		float best = INFINITY;
		int at = 0;
		for (int k = 0; k < 8; k++) {
			const float u = x[2 * i] - y[2 * k], v = x[2 * i + 1] - y[2 * k + 1], d = u * u + v * v;
			at = d < best ? k : at;
			best = d < best ? d : best;
		}
		o[i] = at;
	}
}

/* ---- pixels ---- */
HAND(grey)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	LANES for (int64_t i = 0; i < a->p[0] * a->p[1]; i++)
		o[i] = (uint8_t)(0.299f * (float)x[3 * i] + 0.587f * (float)x[3 * i + 1] + 0.114f * (float)x[3 * i + 2]);
}

HAND(blend)
{
	IN(0, uint8_t, x); IN(1, uint8_t, y); IN(2, uint8_t, w); OUT(uint8_t, o);
	LANES for (int64_t i = 0; i < a->p[0] * a->p[1]; i++)
		for (int k = 0; k < 3; k++) {
			const int s = x[3 * i + k] * w[i] + y[3 * i + k] * (255 - w[i]) + 128;
			o[3 * i + k] = (uint8_t)(s * 257 >> 16);
		}
}

HAND(planes)
{
	IN(0, uint8_t, x); OUT(float, o);
	const int64_t n = a->p[0] * a->p[1];
	LANES for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < 3; k++) o[k * n + i] = ((float)x[3 * i + k] * (float)(1 / 255.0) - 0.45f) / 0.225f;
}

static int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }
static const float tap[7] = { 0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f };

static void blur_row(const float *restrict x, float *restrict o, int64_t m)
{
	for (int64_t j = 3; j < m - 3; j++) {
		float s = 0;
		for (int k = 0; k < 7; k++) s += tap[k] * x[j + k - 3];
		o[j] = s;
	}
	for (int64_t e = 0; e < 6; e++) {
		const int64_t j = e < 3 ? e : m - 6 + e;
		float s = 0;
		for (int k = 0; k < 7; k++) s += tap[k] * x[inside(j + k - 3, m)];
		o[j] = s;
	}
}

static void blur_column(const float *restrict x, float *restrict o, int64_t i, int64_t n, int64_t m)
{
	const float *r[7];
	for (int k = 0; k < 7; k++) r[k] = x + inside(i + k - 3, n) * m;
	for (int64_t j = 0; j < m; j++) {
		float s = 0;
		for (int k = 0; k < 7; k++) s += tap[k] * r[k][j];
		o[i * m + j] = s;
	}
}

static uint8_t edge(const float *u, const float *v, const float *w, int64_t l, int64_t j, int64_t r)
{
	const float x = u[r] - u[l] + 2 * (v[r] - v[l]) + w[r] - w[l], y = w[l] + 2 * w[j] + w[r] - u[l] - 2 * u[j] - u[r];
	const float s = sqrtf(x * x + y * y);
	return (uint8_t)(s < 255 ? s : 255);
}

HAND(edges)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	const int64_t n = a->p[0], m = a->p[1];
	float *g = a->tmp, *b = g + n * m, *c = b + n * m;
	PARALLEL for (int64_t i = 0; i < n; i++) {
		for (int64_t j = 0; j < m; j++) {
			const uint8_t *v = x + 3 * (i * m + j);
			g[i * m + j] = 0.299f * (float)v[0] + 0.587f * (float)v[1] + 0.114f * (float)v[2];
		}
		blur_row(g + i * m, b + i * m, m);
	}
	PARALLEL for (int64_t i = 0; i < n; i++) blur_column(b, c, i, n, m);
	PARALLEL for (int64_t i = 0; i < n; i++) {
		const float *u = c + inside(i - 1, n) * m, *v = c + i * m, *w = c + inside(i + 1, n) * m;
		for (int64_t j = 1; j < m - 1; j++) o[i * m + j] = edge(u, v, w, j - 1, j, j + 1);
		o[i * m] = edge(u, v, w, 0, 0, 1);
		o[i * m + m - 1] = edge(u, v, w, m - 2, m - 1, m - 1);
	}
}

static void count_bytes(const uint8_t *x, int64_t n, int64_t *o)
{
	int64_t all[256] = { 0 };
#pragma omp parallel for reduction(+ : all[:256])
	for (int64_t block = 0; block < (n + 65535) / 65536; block++) {
		uint32_t some[4][256] = { 0 }; /* four, so that equal neighbours do not wait for each other */
		const int64_t first = block * 65536, last = first + 65536 < n ? first + 65536 : n;
		for (int64_t i = first; i < last; i++) some[i & 3][x[i]]++;
		for (int k = 0; k < 256; k++) all[k] += some[0][k] + some[1][k] + some[2][k] + some[3][k];
	}
	memcpy(o, all, sizeof all);
}

static void map_bytes(const uint8_t *restrict x, const uint8_t *restrict map, uint8_t *restrict o, int64_t n)
{
	PARALLEL for (int64_t i = 0; i < n; i++) o[i] = map[x[i]];
}

HAND(equalise)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	int64_t count[256], sum = 0;
	uint8_t map[256];
	count_bytes(x, a->p[0], count);
	for (int k = 0; k < 256; k++) sum += count[k], map[k] = (uint8_t)(sum * 255 / a->p[0]);
	map_bytes(x, map, o, a->p[0]);
}

/* ---- grids ---- */
static int64_t before(int64_t i, int64_t n) { return i ? i - 1 : n - 1; }
static int64_t after(int64_t i, int64_t n) { return i < n - 1 ? i + 1 : 0; }

HAND(wave)
{
	IN(0, float, u); IN(1, float, v); OUT(float, o);
	const int64_t n = a->p[0], m = a->p[1];
	PARALLEL for (int64_t i = 0; i < n; i++) {
		const float *c = u + i * m, *up = u + before(i, n) * m, *down = u + after(i, n) * m;
#define STEP(l, r) \
	o[i * m + j] = 2 * c[j] - v[i * m + j] + 0.2f * (c[l] + c[r] + up[j] + down[j] - 4 * c[j])
		for (int64_t j = 1; j < m - 1; j++) STEP(j - 1, j + 1);
		for (int64_t j = 0; j < m; j += m - 1) STEP(before(j, m), after(j, m));
#undef STEP
	}
}

HAND(grayscott)
{
	IN(0, float, u); IN(1, float, v); OUT(float, ou);
	float *restrict ov = a->out[1];
	const int64_t n = a->p[0];
	PARALLEL for (int64_t i = 0; i < n; i++) {
		const int64_t c = i * n, up = before(i, n) * n, down = after(i, n) * n;
#define STEP(l, r) \
	do { \
		const float lu = u[c + l] + u[c + r] + u[up + j] + u[down + j] - 4 * u[c + j]; \
		const float lv = v[c + l] + v[c + r] + v[up + j] + v[down + j] - 4 * v[c + j], uvv = u[c + j] * v[c + j] * v[c + j]; \
		ou[c + j] = u[c + j] + 0.16f * lu - uvv + 0.035f * (1 - u[c + j]); \
		ov[c + j] = v[c + j] + 0.08f * lv + uvv - 0.1f * v[c + j]; \
	} while (0)
		for (int64_t j = 1; j < n - 1; j++) STEP(j - 1, j + 1);
		for (int64_t j = 0; j < n; j += n - 1) STEP(before(j, n), after(j, n));
#undef STEP
	}
}

HAND(heat3)
{
	IN(0, float, x); OUT(float, o);
	const int64_t n = a->p[0];
	PARALLEL for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++) {
			const float *c = x + (i * n + j) * n, *u = x + (inside(i - 1, n) * n + j) * n, *d = x + (inside(i + 1, n) * n + j) * n;
			const float *f = x + (i * n + inside(j - 1, n)) * n, *b = x + (i * n + inside(j + 1, n)) * n;
			float *restrict to = o + (i * n + j) * n;
#define STEP(l, r) to[k] = c[k] + 0.1f * (u[k] + d[k] + f[k] + b[k] + c[l] + c[r] - 6 * c[k])
			for (int64_t k = 1; k < n - 1; k++) STEP(k - 1, k + 1);
			for (int64_t k = 0; k < n; k += n - 1) STEP(inside(k - 1, n), inside(k + 1, n));
#undef STEP
		}
}

HAND(life)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	const int64_t n = a->p[0];
	PARALLEL for (int64_t i = 0; i < n; i++) {
		const uint8_t *u = x + before(i, n) * n, *c = x + i * n, *d = x + after(i, n) * n;
#define STEP(l, r) \
	do { \
		const uint8_t s = (uint8_t)(u[l] + u[j] + u[r] + c[l] + c[r] + d[l] + d[j] + d[r]); \
		o[i * n + j] = (uint8_t)((s == 3) | ((s == 2) & (c[j] != 0))); \
	} while (0)
		for (int64_t j = 1; j < n - 1; j++) STEP(j - 1, j + 1);
		for (int64_t j = 0; j < n; j += n - 1) STEP(before(j, n), after(j, n));
#undef STEP
	}
}

HAND(upwind)
{
	IN(0, double, u); IN(1, double, c); OUT(double, o);
	const int64_t n = a->p[0];
#define STEP(l, r) o[i] = u[i] - c[i] * (c[i] > 0 ? u[i] - u[l] : u[r] - u[i])
	for (int64_t i = 1; i < n - 1; i++) STEP(i - 1, i + 1);
	for (int64_t i = 0; i < n; i += n - 1) STEP(before(i, n), after(i, n));
#undef STEP
}

/* ---- signals ---- */
HAND(fir32)
{
	IN(0, float, x); IN(1, float, w); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		float s = 0;
		for (int k = 0; k < 32; k++) s += w[k] * x[i + k];
		o[i] = s;
	}
}

HAND(gain16)
{
	IN(0, int16_t, x); OUT(int16_t, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const int y = x[i] * 13 >> 3;
		o[i] = (int16_t)(y < -32768 ? -32768 : y > 32767 ? 32767 : y);
	}
}

HAND(midside)
{
	IN(0, int16_t, x); OUT(int16_t, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const int l = x[2 * i], r = x[2 * i + 1];
		o[2 * i] = (int16_t)((l + r) >> 1), o[2 * i + 1] = (int16_t)((l - r) >> 1);
	}
}

HAND(haar)
{
	IN(0, float, x); OUT(float, lo);
	float *restrict hi = a->out[1];
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		lo[i] = (x[2 * i] + x[2 * i + 1]) * 0.70710678f;
		hi[i] = (x[2 * i] - x[2 * i + 1]) * 0.70710678f;
	}
}

HAND(cmul)
{
	IN(0, float, x); IN(1, float, y); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		o[2 * i] = x[2 * i] * y[2 * i] - x[2 * i + 1] * y[2 * i + 1];
		o[2 * i + 1] = x[2 * i] * y[2 * i + 1] + x[2 * i + 1] * y[2 * i];
	}
}

/* ---- tables ---- */
HAND(lut8) { map_bytes(a->in[0], a->in[1], a->out[0], a->p[0]); }
HAND(hist8) { count_bytes(a->in[0], a->p[0], a->out[0]); }

HAND(palette)
{
	IN(0, uint8_t, x); IN(1, uint8_t, map); OUT(uint8_t, o);
	PARALLEL for (int64_t i = 0; i < a->p[0]; i++)
		for (int k = 0; k < 3; k++) o[3 * i + k] = map[3 * x[i] + k];
}

HAND(lerp_table)
{
	IN(0, float, x); IN(1, float, t); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const float v = (x[i] < 0 ? 0 : x[i] > 0.999f ? 0.999f : x[i]) * 1024;
		const int k = (int)v;
		o[i] = t[k] + (v - (float)k) * (t[k + 1] - t[k]);
	}
}

HAND(groupby)
{
	IN(0, int32_t, k); IN(1, float, x);
	float *o = a->out[0];
	memset(o, 0, LOOP_BINS * sizeof *o);
#pragma omp parallel for reduction(+ : o[:LOOP_BINS])
	for (int64_t i = 0; i < a->p[0]; i++) o[k[i]] += x[i];
}

/* ---- particles ---- */
#define PULL(name, weight) \
	HAND(name) \
	{ \
		IN(0, float, x); OUT(float, o); \
		const float *restrict mass = a->in[1]; \
		const int64_t n = a->p[0]; \
		float *restrict u = a->tmp, *restrict v = u + n, *restrict w = v + n; /* a structure of arrays, as one writes it */ \
		for (int64_t i = 0; i < n; i++) u[i] = x[3 * i], v[i] = x[3 * i + 1], w[i] = x[3 * i + 2]; \
		PARALLEL for (int64_t i = 0; i < n; i++) { \
			float p = 0, q = 0, r = 0; \
			_Pragma("omp simd reduction(+ : p, q, r)") for (int64_t j = 0; j < n; j++) { \
				const float dx = u[j] - u[i], dy = v[j] - v[i], dz = w[j] - w[i], r2 = dx * dx + dy * dy + dz * dz + 0.01f; \
				const float s = weight / (r2 * sqrtf(r2)); \
				p += dx * s, q += dy * s, r += dz * s; \
			} \
			o[3 * i] = p, o[3 * i + 1] = q, o[3 * i + 2] = r; \
		} \
		(void)mass; \
	}
PULL(nbody, mass[j])
PULL(nbody_pow, 1)

HAND(lennard)
{
	IN(0, double, x);
	const int64_t n = a->p[0];
	double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 16)
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++) {
			const double p = x[3 * i] - x[3 * j], q = x[3 * i + 1] - x[3 * j + 1], r = x[3 * i + 2] - x[3 * j + 2];
			const double s = 0.01 / (p * p + q * q + r * r), s3 = s * s * s;
			sum += s3 * (s3 - 1);
		}
	*(double *)a->out[0] = 4 * sum;
}

HAND(drift)
{
	IN(0, float, x); IN(1, float, v); OUT(float, o);
	LANES for (int64_t i = 0; i < 3 * a->p[0]; i++) {
		const float y = x[i] + 0.01f * v[i];
		o[i] = y - floorf(y);
	}
}

/* ---- finance ---- */
#define PRICE(name, real, F, LOOP) \
	HAND(name) \
	{ \
		IN(0, real, x); IN(1, real, y); IN(2, real, z); OUT(real, o); \
		const real rate = (real)0.02, vol = (real)0.3, half = (real)0.70710678118654752, five = (real)0.5; \
		LOOP for (int64_t i = 0; i < a->p[0]; i++) { \
			const real s = F(fabs)(x[i]) + five, k = F(fabs)(y[i]) + five, t = F(fabs)(z[i]) + (real)0.1, v = vol * F(sqrt)(t); \
			const real d = (F(log)(s / k) + t * (rate + vol * vol / 2)) / v; \
			o[i] = s * five * (1 + F(erf)(d * half)) - k * F(exp)(-rate * t) * five * (1 + F(erf)((d - v) * half)); \
		} \
	}
#define F32(name) name##f
#define F64(name) name
PRICE(blackscholes, float, F32, LANES)
PRICE(blackscholes64, double, F64, )

HAND(bonds)
{
	IN(0, float, x); OUT(float, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const float rate = 0.1f * fabsf(x[i]);
		float sum = 0;
		for (int k = 1; k <= 20; k++) sum += 0.05f * expf(-rate * (float)k);
		o[i] = sum;
	}
}

HAND(bars)
{
	IN(0, float, x); OUT(float, o);
	PARALLEL for (int64_t i = 0; i < a->p[0]; i++) {
		const float *v = x + 16 * i;
		float most = v[0], least = v[0];
		for (int k = 1; k < 16; k++) most = v[k] > most ? v[k] : most, least = v[k] < least ? v[k] : least;
		o[4 * i] = v[0], o[4 * i + 1] = most, o[4 * i + 2] = least, o[4 * i + 3] = v[15];
	}
}

HAND(volatility)
{
	IN(0, double, x);
	const int64_t n = a->p[0] - 1;
	double *r = (double *)a->tmp, sum = 0, square = 0;
#pragma omp parallel for simd reduction(+ : sum)
	for (int64_t i = 0; i < n; i++) sum += r[i] = log((fabs(x[i + 1]) + 1) / (fabs(x[i]) + 1));
	const double mean = sum / (double)n;
#pragma omp parallel for simd reduction(+ : square)
	for (int64_t i = 0; i < n; i++) square += (r[i] - mean) * (r[i] - mean);
	*(double *)a->out[0] = sqrt(square / (double)(n - 1));
}

/* ---- bytes ---- */
HAND(utf8)
{
	IN(0, uint8_t, x);
	int64_t n = 0;
#pragma omp parallel for reduction(+ : n)
	for (int64_t block = 0; block < (a->p[0] + 4095) / 4096; block++) {
		const int64_t first = block * 4096, last = first + 4096 < a->p[0] ? first + 4096 : a->p[0];
		uint32_t some = 0;
		for (int64_t i = first; i < last; i++) some += (x[i] & 0xC0) != 0x80;
		n += some;
	}
	*(int64_t *)a->out[0] = n;
}

HAND(upper)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) o[i] = x[i] >= 'a' && x[i] <= 'z' ? (uint8_t)(x[i] - 32) : x[i];
}

HAND(sad)
{
	IN(0, uint8_t, x); IN(1, uint8_t, y);
	int64_t n = 0;
#pragma omp parallel for reduction(+ : n)
	for (int64_t block = 0; block < (a->p[0] + 4095) / 4096; block++) {
		const int64_t first = block * 4096, last = first + 4096 < a->p[0] ? first + 4096 : a->p[0];
		uint32_t some = 0;
		for (int64_t i = first; i < last; i++) some += (uint32_t)abs(x[i] - y[i]);
		n += some;
	}
	*(int64_t *)a->out[0] = n;
}

HAND(hex)
{
	IN(0, uint8_t, x); OUT(uint8_t, o);
	LANES for (int64_t i = 0; i < a->p[0]; i++) {
		const uint8_t h = x[i] >> 4, l = x[i] & 15;
		o[2 * i] = (uint8_t)(h + (h < 10 ? '0' : 'a' - 10)), o[2 * i + 1] = (uint8_t)(l + (l < 10 ? '0' : 'a' - 10));
	}
}

HAND(mask)
{
	IN(0, uint8_t, x); IN(1, uint8_t, y); OUT(uint8_t, o);
	const int64_t n = a->p[0];
	for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)((x[i] & y[i]) ^ 0x5A);
}
