/* SPDX-License-Identifier: MIT */
/* factor: the work is in one loop, rows of C less products of rows of B, on vectors along the rows:
 *
 *   c[i][j] = c[i][j] - a[i][0] b[0][j] - a[i][1] b[1][j] - ...
 *
 * Factors are made in blocks of BLOCK columns: what belongs to the block itself in plain loops, what lies behind it by that loop. Both take
 * the terms in the same order, so the result does not depend on BLOCK. */
#include "runtime/factor.h"

#include <math.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

enum {
	BLOCK = 64, PANEL = 32, /* columns: of a block; of a panel of LU or QR */
	MANY = 64, ROWS = 4     /* rows or columns at a time; rows in registers */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- c [m,n] less a [m,k] times b [k,n]; lines: elements from row to row; a_step: from a[i][k] to a[i][k + 1] ---- */
typedef struct less {
	int64_t m, n, k, a_line, a_step, b_line, c_line;
} less;

#define PLAIN(name, T, fused) \
	static void name(const less *x, const T *a, const T *b, T *c) \
	{ \
		for (int64_t i = 0; i < x->m; i++) \
			for (int64_t j = 0; j < x->n; j++) { \
				T s = c[i * x->c_line + j]; \
				for (int64_t k = 0; k < x->k; k++) s = fused(-a[i * x->a_line + k * x->a_step], b[k * x->b_line + j], s); \
				c[i * x->c_line + j] = s; \
			} \
	}
PLAIN(plain_f32, float, fmaf)
PLAIN(plain_f64, double, fma)

/* Some rows at a time, two vectors of each. Columns that do not fill two vectors are copied to where they do. */
#define WIDE(name, T, V, mm, ps, isa) \
	__attribute__((target(isa))) static inline __attribute__((always_inline)) void name##_rows(const less *x, const T *a, const T *b, T *c, \
	                                                                                          int rows) \
	{ \
		enum { N = sizeof(V) / sizeof(T) }; \
		V s[ROWS][2]; \
		for (int i = 0; i < rows; i++) s[i][0] = mm##_loadu_##ps(c + i * x->c_line), s[i][1] = mm##_loadu_##ps(c + i * x->c_line + N); \
		for (int64_t k = 0; k < x->k; k++) { \
			const V l = mm##_loadu_##ps(b + k * x->b_line), r = mm##_loadu_##ps(b + k * x->b_line + N); \
			for (int i = 0; i < rows; i++) { \
				const V p = mm##_set1_##ps(a[i * x->a_line + k * x->a_step]); \
				s[i][0] = mm##_fnmadd_##ps(p, l, s[i][0]); \
				s[i][1] = mm##_fnmadd_##ps(p, r, s[i][1]); \
			} \
		} \
		for (int i = 0; i < rows; i++) mm##_storeu_##ps(c + i * x->c_line, s[i][0]), mm##_storeu_##ps(c + i * x->c_line + N, s[i][1]); \
	} \
	__attribute__((target(isa))) static void name##_all_rows(const less *x, const T *a, const T *b, T *c) \
	{ \
		int64_t i = 0; \
		for (; i + ROWS <= x->m; i += ROWS) name##_rows(x, a + i * x->a_line, b, c + i * x->c_line, ROWS); \
		for (; i < x->m; i++) name##_rows(x, a + i * x->a_line, b, c + i * x->c_line, 1); \
	} \
	__attribute__((target(isa))) static void name##_few(const less *x, const T *a, const T *b, T *c) \
	{ \
		enum { N = 2 * sizeof(V) / sizeof(T) }; \
		T columns[BLOCK * N] = { 0 }, rows[ROWS * N] = { 0 }; \
		less y = *x; \
		y.b_line = y.c_line = N; \
		for (int64_t k = 0; k < x->k; k += BLOCK) { \
			y.k = smaller(BLOCK, x->k - k); \
			for (int64_t l = 0; l < y.k; l++) memcpy(columns + l * N, b + (k + l) * x->b_line, (size_t)x->n * sizeof(T)); \
			for (int64_t i = 0; i < x->m; i += ROWS) { \
				y.m = smaller(ROWS, x->m - i); \
				for (int64_t l = 0; l < y.m; l++) memcpy(rows + l * N, c + (i + l) * x->c_line, (size_t)x->n * sizeof(T)); \
				name##_all_rows(&y, a + i * x->a_line + k * x->a_step, columns, rows); \
				for (int64_t l = 0; l < y.m; l++) memcpy(c + (i + l) * x->c_line, rows + l * N, (size_t)x->n * sizeof(T)); \
			} \
		} \
	} \
	/* Two vectors of columns, copied: rows of b may lie a multiple of a page apart, and then share a set of the cache. */ \
	__attribute__((target(isa))) static void name##_copied(const less *x, const T *a, const T *b, T *c) \
	{ \
		enum { N = 2 * sizeof(V) / sizeof(T) }; \
		_Alignas(64) T columns[BLOCK * N]; \
		less y = *x; \
		y.b_line = N; \
		for (int64_t k = 0; k < x->k; k += BLOCK) { \
			y.k = smaller(BLOCK, x->k - k); \
			for (int64_t l = 0; l < y.k; l++) memcpy(columns + l * N, b + (k + l) * x->b_line, N * sizeof(T)); \
			name##_all_rows(&y, a + k * x->a_step, columns, c); \
		} \
	} \
	__attribute__((target(isa))) static void name(const less *x, const T *a, const T *b, T *c) \
	{ \
		enum { N = 2 * sizeof(V) / sizeof(T), MANY_ROWS = 16 }; \
		int64_t j = 0; \
		for (; j + N <= x->n; j += N) (x->m < MANY_ROWS ? name##_all_rows : name##_copied)(x, a, b + j, c + j); \
		less rest = *x; \
		rest.n -= j; \
		if (rest.n) name##_few(&rest, a, b + j, c + j); \
	}
#if defined __x86_64__
WIDE(avx2_f32, float, __m256, _mm256, ps, "avx2,fma")
WIDE(avx2_f64, double, __m256d, _mm256, pd, "avx2,fma")
WIDE(avx512_f32, float, __m512, _mm512, ps, "avx512f")
WIDE(avx512_f64, double, __m512d, _mm512, pd, "avx512f")
#define TAKE(SUFFIX, T) \
	static void take_##SUFFIX(const less *x, const T *a, const T *b, T *c) \
	{ \
		if (x->m <= 0 || x->n <= 0 || x->k <= 0) return; \
		if (__builtin_cpu_supports("avx512f")) avx512_##SUFFIX(x, a, b, c); \
		else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) avx2_##SUFFIX(x, a, b, c); \
		else plain_##SUFFIX(x, a, b, c); \
	}
#else
#define TAKE(SUFFIX, T) static void take_##SUFFIX(const less *x, const T *a, const T *b, T *c) { plain_##SUFFIX(x, a, b, c); }
#endif
TAKE(f32, float)
TAKE(f64, double)

/* ---- the factors, for float and for double ---- */
#define CHOLESKY(T, SUFFIX, fused, root) \
	/* The block's own rows, w of them. 0, or 1 + the row that fails. */ \
	static int64_t corner_##SUFFIX(int64_t w, T *a, int64_t line) \
	{ \
		for (int64_t i = 0; i < w; i++) \
			for (int64_t c = 0; c <= i; c++) { \
				const T *other = a + c * line; \
				T *row = a + i * line, s = row[c]; \
				for (int64_t k = 0; k < c; k++) s = fused(-row[k], other[k], s); \
				if (c < i) row[c] = s / other[c]; \
				else if (s > 0) row[c] = root(s); \
				else return 1 + i; \
			} \
		return 0; \
	} \
	/* Rows below it: as columns of `turned`, [w,MANY]. */ \
	static void below_##SUFFIX(int64_t w, const T *l, T *a, int64_t line, int64_t rows, T *turned) \
	{ \
		for (int64_t i = 0; i < rows; i++) \
			for (int64_t c = 0; c < w; c++) turned[c * MANY + i] = a[i * line + c]; \
		for (int64_t c = 0; c < w; c++) { \
			const less x = { 1, rows, c, line, 1, MANY, MANY }; \
			take_##SUFFIX(&x, l + c * line, turned, turned + c * MANY); \
			for (int64_t i = 0; i < rows; i++) turned[c * MANY + i] /= l[c * line + c]; \
		} \
		for (int64_t i = 0; i < rows; i++) \
			for (int64_t c = 0; c < w; c++) a[i * line + c] = turned[c * MANY + i]; \
	} \
	static int64_t cholesky_##SUFFIX(int64_t n, T *a) \
	{ \
		T turned[BLOCK * MANY]; \
		for (int64_t j = 0; j < n; j += BLOCK) { \
			const int64_t w = smaller(BLOCK, n - j), bad = corner_##SUFFIX(w, a + j * n + j, n); \
			if (bad) return j + bad; \
			for (int64_t r = j + w; r < n; r += MANY) \
				below_##SUFFIX(w, a + j * n + j, a + r * n + j, n, smaller(MANY, n - r), turned); \
			for (int64_t r = j + w; r < n; r += MANY) { /* some columns of what is left, and the rows from there on */ \
				const int64_t cols = smaller(MANY, n - r); \
				for (int64_t c = 0; c < cols; c++) \
					for (int64_t k = 0; k < w; k++) turned[k * MANY + c] = a[(r + c) * n + j + k]; \
				const less x = { n - r, cols, w, n, 1, MANY, n }; \
				take_##SUFFIX(&x, a + r * n + j, turned, a + r * n + r); \
			} \
		} \
		for (int64_t i = 0; i < n; i++) \
			for (int64_t j = i + 1; j < n; j++) a[i * n + j] = 0; \
		return 0; \
	}

#define SOLVE(T, SUFFIX) \
	static void solve_##SUFFIX(int64_t n, int64_t k, const T *l, T *x, bool unit) \
	{ \
		for (int64_t j = 0; j < n; j += BLOCK) { \
			const int64_t w = smaller(BLOCK, n - j); \
			for (int64_t i = j; i < j + w; i++) { \
				const less y = { 1, k, i - j, n, 1, k, k }; \
				take_##SUFFIX(&y, l + i * n + j, x + j * k, x + i * k); \
				for (int64_t c = 0; c < k && !unit; c++) x[i * k + c] /= l[i * n + i]; \
			} \
			const less y = { n - j - w, k, w, n, 1, k, k }; \
			take_##SUFFIX(&y, l + (j + w) * n + j, x + j * k, x + (j + w) * k); \
		} \
	}

#define LU(T, SUFFIX, size_of) \
	static void exchange_##SUFFIX(T *a, T *b, int64_t n) \
	{ \
		for (int64_t i = 0; i < n; i++) { \
			const T x = a[i]; \
			a[i] = b[i]; \
			b[i] = x; \
		} \
	} \
	static int64_t largest_##SUFFIX(const T *a, int64_t line, int64_t from, int64_t to) \
	{ \
		int64_t at = from; \
		for (int64_t i = from; i < to; i++) { \
			const T x = size_of(a[i * line]), most = size_of(a[at * line]); \
			if (most != most) break; \
			if (x > most || x != x) at = i; \
		} \
		return at; \
	} \
	/* The panel's columns j.. of rows j.., w of them, are copied to `panel`, [m - j,w]: there a column lies in fewer lines of the cache. */ \
	static void panel_##SUFFIX(int64_t m, int64_t n, int64_t j, int64_t w, T *a, int32_t *pivot, T *panel) \
	{ \
		const int64_t rows = m - j; \
		for (int64_t i = 0; i < rows; i++) memcpy(panel + i * w, a + (j + i) * n + j, (size_t)w * sizeof(T)); \
		for (int64_t c = 0; c < w; c++) { \
			const int64_t p = largest_##SUFFIX(panel + c, w, c, rows); \
			const T top = panel[p * w + c]; \
			pivot[j + c] = (int32_t)(j + p); \
			if (p != c) { \
				exchange_##SUFFIX(panel + p * w, panel + c * w, w); \
				exchange_##SUFFIX(a + (j + p) * n, a + (j + c) * n, n); \
			} \
			if (top != 0) \
				for (int64_t i = c + 1; i < rows; i++) panel[i * w + c] /= top; \
			const less x = { rows - c - 1, w - c - 1, top != 0, w, 1, w, w }; \
			take_##SUFFIX(&x, panel + (c + 1) * w + c, panel + c * w + c + 1, panel + (c + 1) * w + c + 1); \
		} \
		for (int64_t i = 0; i < rows; i++) memcpy(a + (j + i) * n + j, panel + i * w, (size_t)w * sizeof(T)); \
	} \
	static void lu_##SUFFIX(int64_t m, int64_t n, T *a, int32_t *pivot, T *work) \
	{ \
		const int64_t steps = smaller(m, n); \
		for (int64_t j = 0; j < steps; j += PANEL) { \
			const int64_t w = smaller(PANEL, steps - j), end = j + w; \
			panel_##SUFFIX(m, n, j, w, a, pivot, work); \
			for (int64_t i = j + 1; i < end; i++) { /* rows of U beside the panel */ \
				const less x = { 1, n - end, i - j, n, 1, n, n }; \
				take_##SUFFIX(&x, a + i * n + j, a + j * n + end, a + i * n + end); \
			} \
			const less x = { m - end, n - end, w, n, 1, n, n }; \
			take_##SUFFIX(&x, a + end * n + j, a + j * n + end, a + end * n + end); \
		} \
	}

/* Reflections by PANEL columns at a time: those of a panel are I - V T V', T upper triangular (Schreiber and Van Loan, "A storage-efficient
 * WY representation for products of Householder transformations", 1989). */
#define QR(T, SUFFIX, fused, root, size_of) \
	/* a [m,n] less tau v (v' a), v[0] being 1; minus: room for -v and for n sums */ \
	static void reflect_##SUFFIX(int64_t m, int64_t n, const T *v, int64_t line, T tau, T *a, T *minus) \
	{ \
		T *sums = minus + m; \
		for (int64_t i = 0; i < m; i++) minus[i] = -v[i * line]; \
		for (int64_t j = 0; j < n; j++) sums[j] = a[j]; \
		const less dot = { 1, n, m - 1, 0, 1, line, n }, x = { m - 1, n, 1, line, 1, n, line }; \
		take_##SUFFIX(&dot, minus + 1, a + line, sums); \
		for (int64_t j = 0; j < n; j++) sums[j] *= tau; \
		for (int64_t j = 0; j < n; j++) a[j] -= sums[j]; \
		take_##SUFFIX(&x, v + line, sums, a + line); \
	} \
	/* A column becomes v, and the element of r in place of v[0]; returns tau; 0: it is as it is. Scaled, so that no square overflows. */ \
	static T column_##SUFFIX(int64_t m, T *a, int64_t line) \
	{ \
		T most = 0, sum = 0; \
		for (int64_t i = 1; i < m; i++) \
			if (!(size_of(a[i * line]) <= most)) most = size_of(a[i * line]); \
		if (most == 0) return 0; \
		if (size_of(a[0]) > most) most = size_of(a[0]); \
		for (int64_t i = 0; i < m; i++) { \
			const T x = a[i * line] / most; \
			sum = fused(x, x, sum); \
		} \
		const T alpha = a[0], beta = alpha > 0 ? -most * root(sum) : most * root(sum), top = alpha - beta; \
		for (int64_t i = 1; i < m; i++) a[i * line] /= top; \
		a[0] = beta; \
		return (beta - alpha) / beta; \
	} \
	/* v [m,w], in which columns are reflections below their diagonal: ones there, zeros above; minus = -v; t [w,w] */ \
	static void gather_##SUFFIX(int64_t m, int64_t w, T *v, const T *tau, T *minus, T *t) \
	{ \
		T dots[PANEL * PANEL] = { 0 }, z[PANEL]; \
		for (int64_t i = 0; i < w; i++) \
			for (int64_t c = i; c < w; c++) v[i * w + c] = i == c; \
		for (int64_t i = 0; i < m * w; i++) minus[i] = -v[i]; \
		const less x = { w, w, m, 1, w, w, w }; \
		take_##SUFFIX(&x, minus, v, dots); /* v' v */ \
		for (int64_t c = 0; c < w; c++) { /* column c: -tau t (v' v)[.., c] */ \
			for (int64_t i = 0; i < w; i++) z[i] = 0; \
			for (int64_t i = 0; i < c; i++) \
				for (int64_t k = i; k < c; k++) z[i] = fused(t[i * w + k], dots[k * w + c], z[i]); \
			for (int64_t i = 0; i < w; i++) t[i * w + c] = i < c ? -tau[c] * z[i] : i == c ? tau[c] : 0; \
		} \
	} \
	/* a [m,n] becomes (I - v t v') a, or with turned (I - v t' v') a; sums: room for twice w n */ \
	static void apply_##SUFFIX(int64_t m, int64_t n, int64_t w, const T *v, const T *minus, const T *t, bool turned, T *a, int64_t a_line, \
	                           T *sums) \
	{ \
		T *more = sums + w * n, less_t[PANEL * PANEL]; \
		for (int64_t i = 0; i < w * w; i++) less_t[i] = -t[turned ? i % w * w + i / w : i]; \
		for (int64_t i = 0; i < 2 * w * n; i++) sums[i] = 0; \
		const less dot = { w, n, m, 1, w, a_line, n }, mix = { w, n, w, w, 1, n, n }, x = { m, n, w, w, 1, n, a_line }; \
		take_##SUFFIX(&dot, minus, a, sums); \
		take_##SUFFIX(&mix, less_t, sums, more); \
		take_##SUFFIX(&x, v, more, a); \
	} \
	static void qr_##SUFFIX(int64_t m, int64_t n, T *a, T *q, T *r, T *work) \
	{ \
		const int64_t k = smaller(m, n); \
		T *tau = work, *t = tau + k, *v = t + (k + PANEL) * PANEL, *minus = v + m * PANEL, *sums = minus + m * PANEL; \
		for (int64_t j = 0; j < k; j += PANEL) { \
			const int64_t w = smaller(PANEL, k - j), rows = m - j; \
			for (int64_t i = 0; i < rows; i++) memcpy(v + i * w, a + (j + i) * n + j, (size_t)w * sizeof(T)); \
			for (int64_t c = 0; c < w; c++) { \
				T *column = v + c * w + c; \
				tau[j + c] = column_##SUFFIX(rows - c, column, w); \
				if (tau[j + c] != 0) reflect_##SUFFIX(rows - c, w - c - 1, column, w, tau[j + c], column + 1, sums); \
			} \
			for (int64_t i = 0; i < rows; i++) memcpy(a + (j + i) * n + j, v + i * w, (size_t)w * sizeof(T)); \
			gather_##SUFFIX(rows, w, v, tau + j, minus, t + j * PANEL); \
			apply_##SUFFIX(rows, n - j - w, w, v, minus, t + j * PANEL, true, a + j * n + j + w, n, sums); \
		} \
		for (int64_t i = 0; i < m * k; i++) q[i] = i % k == i / k; \
		for (int64_t j = (k - 1) / PANEL * PANEL; k && j >= 0; j -= PANEL) { \
			const int64_t w = smaller(PANEL, k - j), rows = m - j; \
			for (int64_t i = 0; i < rows; i++) memcpy(v + i * w, a + (j + i) * n + j, (size_t)w * sizeof(T)); \
			gather_##SUFFIX(rows, w, v, tau + j, minus, t + j * PANEL); \
			apply_##SUFFIX(rows, k - j, w, v, minus, t + j * PANEL, false, q + j * k + j, k, sums); \
		} \
		for (int64_t i = 0; i < k; i++) \
			for (int64_t j = 0; j < n; j++) r[i * n + j] = j < i ? 0 : a[i * n + j]; \
	}
CHOLESKY(float, f32, fmaf, sqrtf)
CHOLESKY(double, f64, fma, sqrt)
SOLVE(float, f32)
SOLVE(double, f64)
LU(float, f32, fabsf)
LU(double, f64, fabs)
QR(float, f32, fmaf, sqrtf, fabsf)
QR(double, f64, fma, sqrt, fabs)

int64_t rt_cholesky(tj_dtype t, int64_t n, void *a) { return t == TJ_F64 ? cholesky_f64(n, a) : cholesky_f32(n, a); }
void rt_solve_lower(tj_dtype t, int64_t n, int64_t k, const void *l, void *x, bool unit)
{
	if (t == TJ_F64) solve_f64(n, k, l, x, unit);
	else solve_f32(n, k, l, x, unit);
}
int64_t rt_lu_room(int64_t m, int64_t n) { return m * smaller(PANEL, n); }
void rt_lu(tj_dtype t, int64_t m, int64_t n, void *a, int32_t *pivot, void *work)
{
	if (t == TJ_F64) lu_f64(m, n, a, pivot, work);
	else lu_f32(m, n, a, pivot, work);
}
int64_t rt_qr_room(int64_t m, int64_t n)
{
	const int64_t k = smaller(m, n), more = 2 * PANEL * n > m + PANEL ? 2 * PANEL * n : m + PANEL; /* sums of apply, of reflect */
	return k + (k + PANEL) * PANEL + 2 * m * PANEL + more;
}
void rt_qr(tj_dtype t, int64_t m, int64_t n, void *a, void *q, void *r, void *work)
{
	if (t == TJ_F64) qr_f64(m, n, a, q, r, work);
	else qr_f32(m, n, a, q, r, work);
}
