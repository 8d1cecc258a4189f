/* SPDX-License-Identifier: MIT */
/* jacobi: Jacobi's rotations in f64, pair by pair in one fixed order, for machines without LAPACK. f32 is rounded once, at the end.
 *
 * Formulas: Golub and Van Loan, "Matrix Computations", 8.5 (cyclic Jacobi) and 8.6.3 (one-sided Jacobi, by Hestenes). */
#include "runtime/lapack.h"
#include "runtime/alloc.h"

#include <math.h>

enum { SWEEPS = 60 }; /* about 10 are needed */
static const double UNIT = 0x1p-53;
static const double NOTHING = 0x1p-400; /* a row no longer than this counts as 0, beside elements around 1; its square does not underflow */

static double read_as(tj_dtype t, const void *p, int64_t i) { return t == TJ_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i]; }
static void write_as(tj_dtype t, void *p, int64_t i, double x)
{
	if (t == TJ_F64) ((double *)p)[i] = x;
	else ((float *)p)[i] = (float)x;
}

/* Four elements at a time, on two vectors of any x86-64: the order of a sum is the same everywhere. */
typedef double four __attribute__((vector_size(32)));
static void load(four *to, const double *p) { memcpy(to, p, sizeof *to); }
static double total(const four *s) { return ((*s)[0] + (*s)[2]) + ((*s)[1] + (*s)[3]); }

/* a a, b b and a b */
static void dots(int64_t n, const double *a, const double *b, double *to)
{
	four s[3] = { { 0 } }, x, y;
	int64_t i = 0;
	for (; i + 4 <= n; i += 4) {
		load(&x, a + i);
		load(&y, b + i);
		s[0] += x * x, s[1] += y * y, s[2] += x * y;
	}
	for (int k = 0; i < n; i++, k++) s[0][k] += a[i] * a[i], s[1][k] += b[i] * b[i], s[2][k] += a[i] * b[i];
	for (int k = 0; k < 3; k++) to[k] = total(&s[k]);
}

static double dot(int64_t n, const double *a, const double *b)
{
	double to[3];
	dots(n, a, b, to);
	return to[2];
}

static void rotate(int64_t n, double *a, double *b, double c, double s)
{
	int64_t i = 0;
	for (; i + 4 <= n; i += 4) {
		four x, y;
		load(&x, a + i);
		load(&y, b + i);
		const four p = c * x - s * y, q = s * x + c * y;
		memcpy(a + i, &p, sizeof p);
		memcpy(b + i, &q, sizeof q);
	}
	for (; i < n; i++) {
		const double x = a[i], y = b[i];
		a[i] = c * x - s * y;
		b[i] = s * x + c * y;
	}
}

/* The tangent of the rotation of rows p and q; theta: cot of twice its angle. */
static double tangent(double theta) { return (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)); }

/* The largest element becomes 1/2 to 1, so that no square overflows; returns the exponent that was taken out. */
static int scale(int64_t n, double *a)
{
	int e = 0;
	double most = 0;
	for (int64_t i = 0; i < n; i++) most = fabs(a[i]) > most ? fabs(a[i]) : most;
	frexp(most, &e);
	for (int64_t i = 0; i < n; i++) a[i] = ldexp(a[i], -e);
	return e;
}

static void identity(int64_t n, double *a)
{
	for (int64_t i = 0; i < n * n; i++) a[i] = i % n == i / n;
}

/* order: the rows by their key, ascending; equal ones as they stand. */
static void sort(int64_t n, const double *key, int64_t *order)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t at = i;
		for (; at > 0 && key[order[at - 1]] > key[i]; at--) order[at] = order[at - 1];
		order[at] = i;
	}
}

/* ---- symmetric matrices ---- */
/* Rows of a are an odd number of elements apart, so that a column does not lie in few sets of the cache. */
static int64_t line_of(int64_t n) { return n | 1; }

static void turn(int64_t n, double *a, double *v, int64_t p, int64_t q)
{
	const int64_t line = line_of(n);
	double *rp = a + p * line, *rq = a + q * line;
	const double apq = rp[q], t = tangent((rq[q] - rp[p]) / (2 * apq)), c = 1 / sqrt(t * t + 1), s = t * c;
	const double app = rp[p] - t * apq, aqq = rq[q] + t * apq;
	rotate(n, rp, rq, c, s);
	rotate(n, v + p * n, v + q * n, c, s);
	rp[p] = app;
	rq[q] = aqq;
	rp[q] = rq[p] = 0;
	for (int64_t k = 0; k < n; k++) a[k * line + p] = rp[k], a[k * line + q] = rq[k];
}

/* The diagonal of a becomes the eigenvalues, rows of v the vectors. False: it does not converge. */
static bool diagonalise(int64_t n, double *a, double *v)
{
	const int64_t line = line_of(n);
	const double least = UNIT / 8 * sqrt(dot(n * line, a, a)) / (double)n;
	bool any = true;
	for (int sweep = 0; any && sweep < SWEEPS; sweep++) {
		any = false;
		for (int64_t p = 0; p < n; p++)
			for (int64_t q = p + 1; q < n; q++)
				if (fabs(a[p * line + q]) > least) turn(n, a, v, p, q), any = true;
	}
	return !any;
}

int64_t rt_own_eigh(tj_dtype t, int64_t n, void *a, void *values)
{
	const int64_t line = line_of(n);
	double *x = rt_alloc((size_t)(n * (line + n + 1)) * sizeof *x), *v = x + n * line, *key = v + n * n;
	int64_t *order = rt_alloc((size_t)n * sizeof *order), st = x && order ? 0 : RT_SPECTRAL_NOMEM;
	if (!st) {
		for (int64_t i = 0; i < n * line; i++) x[i] = 0;
		for (int64_t i = 0; i < n; i++)
			for (int64_t k = 0; k <= i; k++) x[i * line + k] = x[k * line + i] = read_as(t, a, i * n + k);
		const int e = scale(n * line, x);
		identity(n, v);
		st = !diagonalise(n, x, v);
		for (int64_t i = 0; i < n; i++) key[i] = x[i * line + i];
		sort(n, key, order);
		for (int64_t i = 0; i < n; i++) {
			write_as(t, values, i, ldexp(key[order[i]], e));
			for (int64_t k = 0; k < n; k++) write_as(t, a, i * n + k, v[order[i] * n + k]);
		}
	}
	rt_free(x);
	rt_free(order);
	return st;
}

/* ---- singular values ---- */
/* Rows of w [k,m] become orthogonal; those of v [k,k] turn with them. */
static bool orthogonalise(int64_t k, int64_t m, double *w, double *v)
{
	const double least = UNIT * (double)m; /* the error of a dot product is below this */
	bool any = true;
	for (int sweep = 0; any && sweep < SWEEPS; sweep++) {
		any = false;
		for (int64_t p = 0; p < k; p++)
			for (int64_t q = p + 1; q < k; q++) {
				double *a = w + p * m, *b = w + q * m;
				double d[3];
				dots(m, a, b, d);
				if (d[0] < NOTHING * NOTHING || d[1] < NOTHING * NOTHING) continue;
				if (!(fabs(d[2]) > least * sqrt(d[0]) * sqrt(d[1]))) continue;
				const double t = tangent((d[1] - d[0]) / (2 * d[2])), c = 1 / sqrt(t * t + 1);
				rotate(m, a, b, c, t * c);
				rotate(k, v + p * k, v + q * k, c, t * c);
				any = true;
			}
	}
	return !any;
}

/* Row `at` of w becomes a unit vector that is orthogonal to the rows order[0 .. done - 1]. Of the unit vectors of the axes one leaves at
 * least 1 / sqrt(m), since fewer than m directions are taken. */
static void complete(int64_t m, double *w, int64_t at, const int64_t *order, int64_t done)
{
	double *x = w + at * m;
	for (int64_t axis = 0; axis < m; axis++) {
		for (int64_t i = 0; i < m; i++) x[i] = i == axis;
		for (int twice = 0; twice < 2; twice++)
			for (int64_t j = 0; j < done; j++) {
				const double *y = w + order[j] * m, d = dot(m, x, y);
				for (int64_t i = 0; i < m; i++) x[i] -= d * y[i];
			}
		const double left = sqrt(dot(m, x, x));
		for (int64_t i = 0; i < m; i++) x[i] /= left;
		if (left >= 0.5 / sqrt((double)m)) return;
	}
}

/* Rows of w by length, the longest first, and of length 1; key: the lengths, negative. */
static void normalise(int64_t k, int64_t m, double *w, double *key, int64_t *order)
{
	for (int64_t i = 0; i < k; i++) {
		const double length = sqrt(dot(m, w + i * m, w + i * m));
		key[i] = length > NOTHING ? -length : 0;
	}
	sort(k, key, order);
	for (int64_t i = 0; i < k; i++) {
		double *x = w + order[i] * m;
		const double length = -key[order[i]];
		for (int64_t j = 0; j < m && length > 0; j++) x[j] /= length;
		if (length == 0) complete(m, w, order[i], order, i);
	}
}

/* As a tall matrix, whose columns are the rows of w: of a, or of its transpose. */
int64_t rt_own_svd(tj_dtype t, int64_t m, int64_t n, void *a, void *u, void *v, void *s)
{
	const bool tall = m >= n;
	const int64_t k = tall ? n : m, l = tall ? m : n;
	double *w = rt_alloc((size_t)(k * l + k * k + k) * sizeof *w), *z = w + k * l, *key = z + k * k;
	int64_t *order = rt_alloc((size_t)k * sizeof *order), st = w && order ? 0 : RT_SPECTRAL_NOMEM;
	if (!st) {
		for (int64_t i = 0; i < k * l; i++) w[i] = read_as(t, a, tall ? i % l * n + i / l : i);
		const int e = scale(k * l, w);
		identity(k, z);
		st = !orthogonalise(k, l, w, z);
		normalise(k, l, w, key, order);
		for (int64_t i = 0; i < k; i++) {
			const double *left = tall ? w + order[i] * l : z + order[i] * k, *right = tall ? z + order[i] * k : w + order[i] * l;
			write_as(t, s, i, ldexp(fabs(key[order[i]]), e));
			for (int64_t j = 0; j < m; j++) write_as(t, u, j * k + i, left[j]);
			for (int64_t j = 0; j < n; j++) write_as(t, v, i * n + j, right[j]);
		}
	}
	rt_free(w);
	rt_free(order);
	return st;
}
