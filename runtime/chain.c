/* SPDX-License-Identifier: MIT */
/* chain: the plain matrix product. Dtypes and strides matter only where operands are copied:
 *
 *   for each block of C, DOWN rows x as many columns as have sums in a LINE:
 *       for each chunk of k:
 *           copy the chunk of B's columns, widened, row-major, to a buffer on the stack
 *           for two rows of A at a time (copied, unless they are adjacent): sums of the chunk in registers; add them to the totals
 *       round the totals into C
 *
 * All dtypes of integers are summed in 64 bits; the low bits are those of the wrapped sum. */
#include "runtime/chain.h"

#include <immintrin.h>
#include <math.h>

enum {
	LINE = 64,           /* bytes of a row of the buffer of B, and of a row of totals */
	DOWN = 32            /* rows of C in a block; even */
};

typedef struct buffers {
	_Alignas(LINE) char b[RT_CHAIN * LINE];   /* a chunk of columns of B */
	_Alignas(LINE) char total[DOWN * LINE];
	_Alignas(LINE) char a[2][RT_CHAIN * 8];   /* a chunk of two rows of A */
} buffers;
_Static_assert(sizeof(buffers) <= 23 << 10, "threads may have small stacks");

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- copies: n elements to or from sums; steps in elements ---- */
typedef void take_fn(void *sums, int64_t step, const void *x, int64_t x_step, int64_t n);
typedef void put_fn(void *x, int64_t x_step, const void *sums, int64_t n);

#define TAKE(name, SUM, T, widened) \
	static void name(void *sums, int64_t step, const void *from, int64_t x_step, int64_t n) \
	{ \
		SUM *s = sums; \
		const T *x = from; \
		for (int64_t i = 0; i < n; i++, s += step, x += x_step) *s = widened; \
	}
#define PUT(name, SUM, T, rounded) \
	static void name(void *to, int64_t x_step, const void *sums, int64_t n) \
	{ \
		T *x = to; \
		const SUM *s = sums; \
		for (int64_t i = 0; i < n; i++, s++, x += x_step) *x = rounded; \
	}
TAKE(take_f32, float, float, *x)
TAKE(take_f16, float, tj_f16, tj_from_f16(*x))
TAKE(take_bf16, float, tj_bf16, tj_from_bf16(*x))
TAKE(take_f64, double, double, *x)
TAKE(take_8, uint64_t, uint8_t, *x)
TAKE(take_16, uint64_t, uint16_t, *x)
TAKE(take_32, uint64_t, uint32_t, *x)
TAKE(take_64, uint64_t, uint64_t, *x)
PUT(put_f32, float, float, *s)
PUT(put_f16, float, tj_f16, tj_to_f16((double)*s))
PUT(put_bf16, float, tj_bf16, tj_to_bf16((double)*s))
PUT(put_f64, double, double, *s)
PUT(put_8, uint64_t, uint8_t, (uint8_t)*s)
PUT(put_16, uint64_t, uint16_t, (uint16_t)*s)
PUT(put_32, uint64_t, uint32_t, (uint32_t)*s)
PUT(put_64, uint64_t, uint64_t, *s)

/* ---- one chunk of two rows of A: its sums, added to the two lines of totals. first: they are the totals ---- */
typedef void add_fn(void *totals, const void *a0, const void *a1, const void *b, int64_t n, bool first);

#define ADD(name, T, fused) \
	static void name(void *totals, const void *a0, const void *a1, const void *b, int64_t n, bool first) \
	{ \
		enum { COLS = LINE / sizeof(T) }; \
		for (int row = 0; row < 2; row++) { \
			T sum[COLS] = { 0 }, *total = (T *)totals + row * COLS; \
			const T *x = row ? a1 : a0, *y = b; \
			for (int64_t k = 0; k < n; k++, y += COLS) \
				for (int j = 0; j < COLS; j++) sum[j] = fused(x[k], y[j], sum[j]); \
			for (int j = 0; j < COLS; j++) total[j] = first ? sum[j] : total[j] + sum[j]; \
		} \
	}
#define WRAPPED(a, b, sum) ((a) * (b) + (sum))
ADD(add_f32, float, fmaf)
ADD(add_f64, double, fma)
ADD(add_int, uint64_t, WRAPPED)

/* The same with vectors of 32 bytes, two to a line. */
#define ADD_WIDE(name, T, V, ps) \
	__attribute__((target("avx2,fma"))) static void name(void *totals, const void *a0, const void *a1, const void *b, int64_t n, bool first) \
	{ \
		enum { N = sizeof(V) / sizeof(T) }; \
		const T *x0 = a0, *x1 = a1, *y = b; \
		V s[4] = { _mm256_setzero_##ps(), _mm256_setzero_##ps(), _mm256_setzero_##ps(), _mm256_setzero_##ps() }; \
		for (int64_t k = 0; k < n; k++, y += 2 * N) { \
			const V left = _mm256_load_##ps(y), right = _mm256_load_##ps(y + N), p = _mm256_set1_##ps(x0[k]), q = _mm256_set1_##ps(x1[k]); \
			s[0] = _mm256_fmadd_##ps(p, left, s[0]); \
			s[1] = _mm256_fmadd_##ps(p, right, s[1]); \
			s[2] = _mm256_fmadd_##ps(q, left, s[2]); \
			s[3] = _mm256_fmadd_##ps(q, right, s[3]); \
		} \
		T *total = totals; \
		for (int i = 0; i < 4; i++, total += N) _mm256_store_##ps(total, first ? s[i] : _mm256_add_##ps(_mm256_load_##ps(total), s[i])); \
	}
ADD_WIDE(add_f32_wide, float, __m256, ps)
ADD_WIDE(add_f64_wide, double, __m256d, pd)

/* ---- a product ---- */
typedef struct kind {    /* how a dtype is computed */
	int64_t size, sum;   /* bytes of an element, of a sum */
	take_fn *take;
	put_fn *put;
	add_fn *add;
	bool plain;          /* elements are sums: they need not be copied to be widened */
} kind;

static kind kind_of(tj_dtype t)
{
	static take_fn *const take[] = { [1] = take_8, [2] = take_16, [4] = take_32, [8] = take_64 };
	static put_fn *const put[] = { [1] = put_8, [2] = put_16, [4] = put_32, [8] = put_64 };
	const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	const int64_t size = (int64_t)tj_dtype_size(t);
	add_fn *const add = wide ? add_f32_wide : add_f32;
	switch (t) {
	case TJ_F32: return (kind){ size, 4, take_f32, put_f32, add, true };
	case TJ_F16: return (kind){ size, 4, take_f16, put_f16, add, false };
	case TJ_BF16: return (kind){ size, 4, take_bf16, put_bf16, add, false };
	case TJ_F64: return (kind){ size, 8, take_f64, put_f64, wide ? add_f64_wide : add_f64, true };
	default: return (kind){ size, 8, take[size], put[size], add_int, size == 8 };
	}
}

/* Rows 0..n-1 of the columns at b, each row to a line. Columns that C does not have are 0. */
static void take_columns(const rt_chain *x, const kind *f, char *to, const char *b, int64_t n, int64_t cols)
{
	const int64_t line = LINE / f->sum;
	if (cols < line) memset(to, 0, (size_t)(n * LINE));
	if (x->b_col == 1 && cols > 1)
		for (int64_t k = 0; k < n; k++) f->take(to + k * LINE, 1, b + k * x->b_row * f->size, 1, cols);
	else
		for (int64_t j = 0; j < cols; j++) f->take(to + j * f->sum, line, b + j * x->b_col * f->size, x->b_row, n);
}

static const void *take_row(const rt_chain *x, const kind *f, void *to, const char *a, int64_t n)
{
	if (f->plain && x->a_col == 1) return a;
	f->take(to, 1, a, x->a_col, n);
	return to;
}

/* A block of C. */
static void block(const rt_chain *x, const kind *f, const char *a, const char *b, char *c, int64_t rows, int64_t cols)
{
	buffers w;
	memset(w.total, 0, sizeof w.total);
	for (int64_t k = 0; k < x->k; k += RT_CHAIN) {
		const int64_t n = smaller(RT_CHAIN, x->k - k);
		take_columns(x, f, w.b, b + k * x->b_row * f->size, n, cols);
		for (int64_t i = 0; i < rows; i += 2) {
			const char *at = a + (i * x->a_row + k * x->a_col) * f->size;
			const void *p = take_row(x, f, w.a[0], at, n);
			const void *q = i + 1 < rows ? take_row(x, f, w.a[1], at + x->a_row * f->size, n) : p; /* an odd last row twice */
			f->add(w.total + i * LINE, p, q, w.b, n, k == 0);
		}
	}
	for (int64_t i = 0; i < rows; i++) f->put(c + i * x->c_row * f->size, x->c_col, w.total + i * LINE, cols);
}

void rt_chain_run(const rt_chain *x, const void *a, const void *b, void *c)
{
	const kind f = kind_of(x->dtype);
	const int64_t wide = LINE / f.sum;
	for (int64_t j = 0; j < x->n; j += wide)
		for (int64_t i = 0; i < x->m; i += DOWN)
			block(x, &f, (const char *)a + i * x->a_row * f.size, (const char *)b + j * x->b_col * f.size,
			      (char *)c + (i * x->c_row + j * x->c_col) * f.size, smaller(DOWN, x->m - i), smaller(wide, x->n - j));
}
