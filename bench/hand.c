/* SPDX-License-Identifier: MIT */
/* hand: the cases as a C programmer would write them: one fused loop each, preallocated outputs, OpenMP over rows, matrix
 * products by oneDNN. Compiled with -Ofast -march=native, so that gcc calls the vector maths of glibc. */
#include "bench/bench.h"

#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

#define IN(k) const float *restrict in##k = a->in[k]
#define OUT float *restrict o = a->out
#define LOOP _Pragma("omp parallel for simd") for (int64_t i = 0; i < n; i++)

void hand_wake(void)
{
#pragma omp parallel
	(void)omp_get_thread_num();
}

/* Ends the team; else its threads wait in a busy loop, on cores that other threads need. */
void hand_rest(void)
{
	omp_pause_resource_all(omp_pause_soft);
}

int hand_team(void) { return omp_get_max_threads(); }
void hand_threads(int n) { omp_set_num_threads(n); }

void hand_batch(int64_t n, void (*f)(void *env, int64_t i), void *env)
{
	if (n == 1 || omp_get_max_threads() == 1) { /* without a parallel region: its start costs more than a small product */
		for (int64_t i = 0; i < n; i++) f(env, i);
		return;
	}
#pragma omp parallel for schedule(static)
	for (int64_t i = 0; i < n; i++) f(env, i);
}

/* ---- limits ---- */
/* Twelve sums in registers: no multiply-add waits for the one before it. Many short turns, of which another program leaves some alone. */
enum { PEAK_LOOPS = 1 << 16, PEAK_TURNS = 25, PEAK_SUMS = 12 };
#define SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define BEGIN(i) vector s##i = f + i;
#define STEP(i) s##i = s##i * f + f;
#define END(i) s0 += s##i;
#define PEAK(name, element, bytes)                                    \
	static double name(element factor)                                \
	{                                                                 \
		typedef element vector __attribute__((vector_size(bytes)));   \
		vector f = factor - (vector){ 0 };                            \
		SUMS(BEGIN)                                                   \
		for (long i = 0; i < PEAK_LOOPS; i++) { SUMS(STEP) }          \
		SUMS(END)                                                     \
		return s0[0];                                                 \
	}
PEAK(peak_f32_256, float, 32)
PEAK(peak_f64_256, double, 32)
PEAK(peak_f32_512, float, 64)
PEAK(peak_f64_512, double, 64)

static double peak_once(int bits, tj_dtype dtype)
{
	if (bits == 512) return dtype == TJ_F64 ? peak_f64_512(0.5) : (double)peak_f32_512(0.5f);
	return dtype == TJ_F64 ? peak_f64_256(0.5) : (double)peak_f32_256(0.5f);
}

/* The sum of the best rates of the threads: a thread that has no core for a while does not count against the others. */
double hand_peak(int bits, tj_dtype dtype)
{
	const double flops = 2.0 * PEAK_LOOPS * PEAK_SUMS * (bits / (dtype == TJ_F64 ? 64 : 32));
	double total = 0;
#pragma omp parallel reduction(+ : total)
	for (int turn = 0; turn < PEAK_TURNS; turn++) {
		const double begin = bench_now(), sum = peak_once(bits, dtype), rate = flops / (bench_now() - begin);
		if (rate > total && sum > 0) total = rate;
	}
	hand_rest();
	return total;
}

uint64_t hand_sum(const void *x, size_t bytes)
{
	const uint64_t *v = x;
	uint64_t s = 0;
#pragma omp parallel for simd reduction(+ : s)
	for (size_t i = 0; i < bytes / 8; i++) s += v[i];
	return s;
}

void hand_copy(const float *restrict x, float *restrict o, int64_t n) { LOOP o[i] = x[i]; }
void hand_plus(const float *restrict x, const float *restrict y, float *restrict o, int64_t n) { LOOP o[i] = x[i] + y[i]; }

float hand_read(const float *x, int64_t n)
{
	float s = 0;
#pragma omp parallel for simd reduction(+ : s)
	for (int64_t i = 0; i < n; i++) s += x[i];
	return s;
}

void hand_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                float *c, int64_t ldc)
{
	dnnl_sgemm(ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
}

/* ---- element-wise ---- */
void hand_tiny_add(const bench_args *a)
{
	IN(0); OUT;
	for (int64_t i = 0; i < a->p[0]; i++) o[i] = in0[i] + 1;
}

void hand_tiny_10in(const bench_args *a)
{
	OUT;
	for (int64_t i = 0; i < a->p[0]; i++) {
		float s = a->in[0][i];
		for (int k = 1; k < 10; k++) s += a->in[k][i];
		o[i] = s;
	}
}

#define POINT(name, e)                                        \
	void hand_##name(const bench_args *a)                     \
	{                                                         \
		const float *restrict x = a->in[0];                   \
		float *restrict o = a->out;                           \
		int64_t n = a->p[0];                                  \
		LOOP o[i] = e;                                        \
	}
POINT(exp, expf(x[i]))
POINT(tanh, tanhf(x[i]))
POINT(log, logf(fabsf(x[i])))
POINT(sigmoid, 1.0f / (1.0f + expf(-x[i])))
POINT(gelu_erf, 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f)))

void hand_add(const bench_args *a) { hand_plus(a->in[0], a->in[1], a->out, a->p[0]); }

void hand_silu_mul(const bench_args *a)
{
	IN(0); IN(1); OUT;
	int64_t n = a->p[0];
	LOOP o[i] = in0[i] / (1.0f + expf(-in0[i])) * in1[i];
}

static inline float chain(float x, float y)
{
	for (int k = 0; k < 10; k++) {
		x = x * y + 0.5f;
		x = x > y * 0.25f ? x : y * 0.25f;
	}
	return x;
}

void hand_chain(const bench_args *a)
{
	IN(0); IN(1); OUT;
	int64_t n = a->p[0];
	if (n > 16384) LOOP o[i] = chain(in0[i], in1[i]);
	else for (int64_t i = 0; i < n; i++) o[i] = chain(in0[i], in1[i]);
}

/* ---- rows ---- */
static void softmax_row(const float *x, float *o, int64_t n) /* in place too */
{
	float m = x[0], s = 0;
	for (int64_t j = 1; j < n; j++) m = x[j] > m ? x[j] : m;
#pragma omp simd reduction(+ : s)
	for (int64_t j = 0; j < n; j++) s += o[j] = expf(x[j] - m);
	s = 1 / s;
	for (int64_t j = 0; j < n; j++) o[j] *= s;
}

static void layernorm_row(const float *restrict x, const float *restrict w, const float *restrict b, float *restrict o, int64_t n)
{
	float m = 0, v = 0;
	for (int64_t j = 0; j < n; j++) m += x[j];
	m /= (float)n;
	for (int64_t j = 0; j < n; j++) v += (x[j] - m) * (x[j] - m);
	v = 1 / sqrtf(v / (float)n + 1e-5f);
	for (int64_t j = 0; j < n; j++) o[j] = (x[j] - m) * v * w[j] + b[j];
}

static void layernorm(const float *x, const float *w, const float *b, float *o, int64_t r, int64_t c)
{
#pragma omp parallel for
	for (int64_t i = 0; i < r; i++) layernorm_row(x + i * c, w, b, o + i * c, c);
}

void hand_softmax(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) softmax_row(in0 + i * c, o + i * c, c);
}

void hand_cumsum_rows(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		float s = 0;
		for (int64_t k = 0; k < c; k++) o[i * c + k] = s += in0[i * c + k];
	}
}

void hand_cumsum_cols(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
	for (int64_t k = 0; k < c; k++) o[k] = in0[k];
	for (int64_t i = 1; i < a->p[0]; i++)
		for (int64_t k = 0; k < c; k++) o[i * c + k] = o[(i - 1) * c + k] + in0[i * c + k];
}

static int by_value(const void *p, const void *q)
{
	const float a = *(const float *)p, b = *(const float *)q;
	return (a > b) - (a < b);
}

void hand_sort_rows(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
	memcpy(o, in0, sizeof *o * (size_t)(a->p[0] * c));
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) qsort(o + i * c, (size_t)c, sizeof *o, by_value);
}

typedef struct place { float v; int64_t at; } place;
static int by_place(const void *p, const void *q)
{
	const place *a = p, *b = q;
	return a->v != b->v ? (a->v > b->v) - (a->v < b->v) : (a->at > b->at) - (a->at < b->at);
}

static void order_row(const float *x, place *to, int64_t c)
{
	for (int64_t k = 0; k < c; k++) to[k] = (place){ x[k], k };
	qsort(to, (size_t)c, sizeof *to, by_place);
}

void hand_argsort_rows(const bench_args *a)
{
	IN(0);
	int64_t c = a->p[1], *o = a->out;
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		place *p = malloc(sizeof *p * (size_t)c);
		order_row(in0 + i * c, p, c);
		for (int64_t k = 0; k < c; k++) o[i * c + k] = p[k].at;
		free(p);
	}
}

void hand_top32(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		place *p = malloc(sizeof *p * (size_t)c);
		order_row(in0 + i * c, p, c);
		for (int64_t k = 0; k < 32; k++) o[i * 32 + k] = p[c - 1 - k].v;
		free(p);
	}
}

void hand_layernorm(const bench_args *a) { layernorm(a->in[0], a->in[1], a->in[2], a->out, a->p[0], a->p[1]); }

void hand_rmsnorm_res(const bench_args *a)
{
	IN(0); IN(1); IN(2); OUT;
	int64_t c = a->p[1];
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		const float *restrict x = in0 + i * c, *restrict r = in1 + i * c;
		float *restrict y = o + i * c, v = 0;
		for (int64_t j = 0; j < c; j++) y[j] = x[j] + r[j], v += y[j] * y[j];
		v = 1 / sqrtf(v / (float)c + 1e-5f);
		for (int64_t j = 0; j < c; j++) y[j] *= v * in2[j];
	}
}

void hand_sum_rows(const bench_args *a)
{
	IN(0); OUT;
	int64_t c = a->p[1];
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		float s = 0;
		for (int64_t j = 0; j < c; j++) s += in0[i * c + j];
		o[i] = s;
	}
}

void hand_sum_cols(const bench_args *a)
{
	IN(0);
	float *o = a->out;
	int64_t c = a->p[1];
	memset(o, 0, (size_t)c * sizeof *o);
#pragma omp parallel for reduction(+ : o[:c])
	for (int64_t i = 0; i < a->p[0]; i++)
		for (int64_t j = 0; j < c; j++) o[j] += in0[i * c + j];
}

void hand_sum_all(const bench_args *a) { *(float *)a->out = hand_read(a->in[0], a->p[0] * a->p[1]); }

/* The first largest element: finds its value, which gcc vectorizes, then its index. */
void hand_argmax_rows(const bench_args *a)
{
	IN(0);
	int64_t c = a->p[1], *o = a->out;
#pragma omp parallel for
	for (int64_t i = 0; i < a->p[0]; i++) {
		const float *x = in0 + i * c;
		float m = x[0];
		int64_t j = 0;
		for (int64_t k = 1; k < c; k++) m = x[k] > m ? x[k] : m;
		while (x[j] != m) j++;
		o[i] = j;
	}
}

void hand_transpose_add(const bench_args *a)
{
	enum { B = 16 };
	IN(0); IN(1); OUT;
	int64_t n = a->p[0];
#pragma omp parallel for
	for (int64_t ib = 0; ib < n; ib += B)
		for (int64_t jb = 0; jb < n; jb += B)
			for (int64_t i = ib; i < ib + B; i++)
				for (int64_t j = jb; j < jb + B; j++) o[i * n + j] = in0[j * n + i] + in1[i * n + j];
}

/* ---- layers ---- */
static void product(const float *x, const float *w, float *o, int64_t m, int64_t k, int64_t n)
{
	hand_sgemm('N', 'N', m, n, k, x, k, w, n, o, n);
}

static void bias_gelu(float *o, const float *b, int64_t m, int64_t n)
{
#pragma omp parallel for collapse(2)
	for (int64_t i = 0; i < m; i++)
		for (int64_t at = 0; at < n; at += 512) {
			int64_t end = at + 512 < n ? at + 512 : n;
			for (int64_t j = at; j < end; j++) {
				float v = o[i * n + j] + b[j];
				o[i * n + j] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
			}
		}
}

void hand_gelu(float *o, int64_t n)
{
	LOOP o[i] = 0.5f * o[i] * (1.0f + erff(o[i] * 0.70710678f));
}

void hand_linear_gelu(const bench_args *a)
{
	int64_t m = a->p[0], k = a->p[1], n = a->p[2];
	product(a->in[0], a->in[1], a->out, m, k, n);
	bias_gelu(a->out, a->in[2], m, n);
}

/* x [M,784], w1 [784,H], b1, w2 [H,10], b2 */
void hand_mlp(const bench_args *a)
{
	OUT;
	float *h = a->tmp;
	int64_t m = a->p[0], k = a->p[1], n = a->p[2];
	product(a->in[0], a->in[1], h, m, k, n);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) h[i * n + j] = fmaxf(h[i * n + j] + a->in[2][j], 0);
	product(h, a->in[3], o, m, n, 10);
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < 10; j++) o[i * 10 + j] += a->in[4][j];
}

/* x [T,C] -> o [T,C]; w: wq wk wv wo [C,C]; q k v y [T,C] and s [H,T,T] in tmp */
static void attention(const float *x, const float *const *w, float *o, float *tmp, int64_t T, int64_t C, int64_t H)
{
	float *q = tmp, *k = q + T * C, *v = k + T * C, *y = v + T * C, *s = y + T * C, scale = 1 / sqrtf((float)(C / H));
	product(x, w[0], q, T, C, C);
	product(x, w[1], k, T, C, C);
	product(x, w[2], v, T, C, C);
#pragma omp parallel for
	for (int64_t h = 0; h < H; h++) {
		int64_t D = C / H;
		float *p = s + h * T * T;
		hand_sgemm('N', 'T', T, T, D, q + h * D, C, k + h * D, C, p, T);
		for (int64_t i = 0; i < T * T; i++) p[i] *= scale;
		for (int64_t i = 0; i < T; i++) softmax_row(p + i * T, p + i * T, T);
		hand_sgemm('N', 'N', T, D, T, p, T, v + h * D, C, y + h * D, C);
	}
	product(y, w[3], o, T, C, C);
}

void hand_attention(const bench_args *a) { attention(a->in[0], a->in + 1, a->out, a->tmp, a->p[0], a->p[1], a->p[2]); }

/* in: x g1 c1 wq wk wv wo g2 c2 w1 b1 w2 b2 */
void hand_block(const bench_args *a)
{
	IN(0); OUT;
	const float *const *in = a->in;
	int64_t T = a->p[0], C = a->p[1], H = a->p[2], n = T * C;
	float *norm = a->tmp, *x = norm + n, *up = x + n, *tmp = up + 4 * n;
	layernorm(in0, in[1], in[2], norm, T, C);
	attention(norm, in + 3, x, tmp, T, C, H);
	LOOP x[i] += in0[i];
	layernorm(x, in[7], in[8], norm, T, C);
	product(norm, in[9], up, T, C, 4 * C);
	bias_gelu(up, in[10], T, 4 * C);
	product(up, in[11], o, T, 4 * C, C);
#pragma omp parallel for
	for (int64_t i = 0; i < T; i++)
		for (int64_t j = 0; j < C; j++) o[i * C + j] += x[i * C + j] + in[12][j];
}
