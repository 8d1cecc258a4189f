/* SPDX-License-Identifier: MIT */
/* Eigenvalues and singular values: residuals of both computers and what they agree on, signs, special matrices, gradients against finite
 * differences to the second order, and the functions that are defined by them. */
#include "runtime/lapack.h"
#include "test/kit.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 70 * 90 };
static void numbers(double *x, int64_t n, unsigned seed)
{
	uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;
	for (int64_t i = 0; i < n; i++) {
		s = s * 6364136223846793005u + 1442695040888963407u;
		x[i] = (double)(s >> 44) / (1 << 19) - 1;
	}
}

/* An upper triangle that differs shows that it is not read. */
static void symmetric(double *x, int64_t n, unsigned seed)
{
	numbers(x, n * n, seed);
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = i + 1; j < n; j++) x[i * n + j] = 100;
}

static double lower(const double *x, int64_t n, int64_t i, int64_t j) { return i >= j ? x[i * n + j] : x[j * n + i]; }

/* ---- the packed results, of one matrix ---- */
static void compute(bool svd, tj_dtype t, int64_t m, int64_t n, const double *x, double *to)
{
	tj_ctx *c = kit_open();
	const int64_t k = m < n ? m : n, rows = svd ? m + n + 1 : n + 1;
	tj_tensor *a = tj_cast(tj_from_data(c, TJ_F64, TJ_SHAPE(m, n), x), t), *y = svd ? tj_svd_packed(a, false) : tj_eigh_packed(a, false);
	kit_ok(c);
	assert_true(tj_dim(y, 0) == rows && tj_dim(y, 1) == k && tj_dtype_of(y) == t);
	tj_read(tj_cast(y, TJ_F64), to, (size_t)(rows * k) * sizeof *to);
	kit_ok(c);
	tj_close(c);
}

/* The largest element of v' v - 1, of v [n,k]. */
static double skew(const double *v, int64_t n, int64_t k)
{
	double worst = 0;
	for (int64_t a = 0; a < k; a++)
		for (int64_t b = 0; b <= a; b++) {
			double s = a == b ? -1 : 0;
			for (int64_t i = 0; i < n; i++) s += v[i * k + a] * v[i * k + b];
			worst = fmax(worst, fabs(s));
		}
	return worst;
}

static void check_signs(const double *v, int64_t n, int64_t k)
{
	for (int64_t j = 0; j < k; j++) {
		double most = 0;
		for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(v[i * k + j]));
		for (int64_t i = 0; i < n; i++) {
			if (fabs(v[i * k + j]) < 0.9 * most) continue;
			assert_true(v[i * k + j] > 0);
			break;
		}
	}
}

static double unit(tj_dtype t) { return t == TJ_F64 ? 0x1p-53 : 0x1p-24; }

static void check_eigh(tj_dtype t, int64_t n, const double *x, double size)
{
	static double y[MOST];
	compute(false, t, n, n, x, y);
	const double *l = y + n * n, bound = 8 * unit(t) * (double)(n + 4);
	double worst = 0;
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++) {
			double s = 0;
			for (int64_t k = 0; k < n; k++) s += y[i * n + k] * l[k] / size * y[j * n + k];
			worst = fmax(worst, fabs(s - lower(x, n, i, j) / size));
		}
	const double off = skew(y, n, n);
	if (!(worst <= bound && off <= bound)) fail_msg("eigh of %d: %.3g off, skew %.3g, bound %.3g", (int)n, worst, off, bound);
	for (int64_t k = 1; k < n; k++) assert_true(l[k - 1] <= l[k]);
	check_signs(y, n, n);
}

static void check_svd(tj_dtype t, int64_t m, int64_t n, const double *x, double size)
{
	static double y[MOST];
	const int64_t k = m < n ? m : n;
	compute(true, t, m, n, x, y);
	const double *v = y + m * k, *s = v + n * k, bound = 8 * unit(t) * (double)(m + n + 4);
	double worst = 0;
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < n; j++) {
			double sum = 0;
			for (int64_t h = 0; h < k; h++) sum += y[i * k + h] * s[h] / size * v[j * k + h];
			worst = fmax(worst, fabs(sum - x[i * n + j] / size));
		}
	const double off = fmax(skew(y, m, k), skew(v, n, k));
	if (!(worst <= bound && off <= bound)) fail_msg("svd of %d x %d: %.3g off, skew %.3g, bound %.3g", (int)m, (int)n, worst, off, bound);
	for (int64_t h = 0; h < k; h++) assert_true(s[h] >= 0 && (!h || s[h - 1] >= s[h]));
	check_signs(y, m, k);
}

static const char *const computers[] = { "own", "lapack" };
enum { COMPUTERS = 2 };
static int present(void) { return rt_lapack_missing() ? 1 : 2; }

static void residuals(void **state)
{
	(void)state;
	static double x[MOST];
	static const int64_t sizes[] = { 1, 2, 3, 5, 16, 33, 60 };
	for (int who = 0; who < present(); who++) {
		assert_true(rt_linalg_choose(computers[who]));
		for (size_t i = 0; i < RT_COUNT(sizes); i++)
			for (int type = 0; type < 2; type++) {
				const tj_dtype t = type ? TJ_F64 : TJ_F32;
				const int64_t n = sizes[i];
				symmetric(x, n, (unsigned)i);
				for (int64_t j = 0; j < n * n; j++) x[j] = (float)x[j];
				check_eigh(t, n, x, 1);
				numbers(x, 60 * n, (unsigned)i + 9);
				for (int64_t j = 0; j < 60 * n; j++) x[j] = (float)x[j];
				check_svd(t, n, n, x, 1);
				check_svd(t, n, n > 30 ? 7 : 2 * n, x, 1);
				check_svd(t, n > 30 ? 9 : n + 3, n, x, 1);
			}
	}
}

/* Equal values, ranks below the size, very large and very small elements. */
static void special(void **state)
{
	(void)state;
	static double x[400];
	static const double by[] = { 1, 0x1p1000, 0x1p-1000 };
	for (int who = 0; who < present(); who++) {
		assert_true(rt_linalg_choose(computers[who]));
		for (size_t k = 0; k < RT_COUNT(by); k++) {
			for (int i = 0; i < 400; i++) x[i] = i % 21 ? 0 : by[k]; /* 20 x 20: the identity */
			check_eigh(TJ_F64, 20, x, by[k]);
			check_svd(TJ_F64, 20, 20, x, by[k]);
			for (int i = 0; i < 400; i++) x[i] = by[k]; /* of rank 1 */
			check_eigh(TJ_F64, 20, x, by[k]);
			check_svd(TJ_F64, 20, 20, x, by[k]);
			check_svd(TJ_F64, 5, 12, x, by[k]);
			numbers(x, 400, 5);
			for (int i = 0; i < 400; i++) x[i] *= by[k];
			check_svd(TJ_F64, 20, 20, x, by[k]);
		}
		memset(x, 0, sizeof x);
		check_eigh(TJ_F64, 9, x, 1);
		check_svd(TJ_F64, 9, 6, x, 1);
		check_svd(TJ_F64, 6, 9, x, 1);
		for (int i = 0; i < 400; i++) x[i] = 1 / (double)(1 + i % 20 + i / 20); /* Hilbert's matrix: nearly singular */
		check_eigh(TJ_F64, 20, x, 1);
		check_svd(TJ_F64, 20, 20, x, 1);
	}
}

/* Values to rounding; vectors of values that lie apart, signs among them. */
static void agree(void **state)
{
	(void)state;
	static double x[2500], y[2][6000];
	if (present() < 2) skip();
	for (int kind = 0; kind < 2; kind++) {
		kind ? numbers(x, 1200, 3) : symmetric(x, 30, 3);
		for (int who = 0; who < 2; who++) {
			assert_true(rt_linalg_choose(computers[who]));
			compute(kind, TJ_F64, kind ? 40 : 30, 30, x, y[who]);
		}
		for (int64_t i = 0; i < (kind ? 71 * 30 : 31 * 30); i++)
			if (!(fabs(y[0][i] - y[1][i]) <= 1e-12)) fail_msg("kind %d: element %d: %.17g and %.17g", kind, (int)i, y[0][i], y[1][i]);
	}
}

static void not_finite(void **state)
{
	(void)state;
	for (int who = 0; who < present(); who++) {
		assert_true(rt_linalg_choose(computers[who]));
		tj_ctx *c = kit_open();
		double x[] = { 1, NAN, 2, 3, 1, 0, INFINITY, 3 }, y[12]; /* the first matrix has NaN where eigh does not read */
		tj_read(tj_eigh_packed(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2, 2), x), false), y, sizeof y);
		for (int i = 0; i < 12; i++) assert_true(isnan(y[i]) == (i >= 6));
		double z[20];
		tj_read(tj_svd_packed(tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2, 2), x), true), z, sizeof z);
		for (int i = 0; i < 20; i++) assert_true(isnan(z[i]));
		kit_ok(c);
		tj_close(c);
	}
}

static void empty(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	tj_tensor *s, *vt, *v, *u = tj_svd(tj_zeros(TJ_F32, TJ_SHAPE(2, 0, 3)), NULL, &s, &vt);
	tj_tensor *l = tj_eigh(tj_zeros(TJ_F64, TJ_SHAPE(0, 0)), NULL, &v);
	assert_true(tj_numel(u) == 0 && tj_numel(s) == 0 && tj_numel(vt) == 0 && tj_dim(vt, 1) == 0 && tj_dim(vt, 2) == 3);
	assert_true(tj_rank(l) == 1 && tj_dim(l, 0) == 0 && tj_rank(v) == 2);
	tj_tensor *p = tj_pinv(tj_zeros(TJ_F32, TJ_SHAPE(2, 0, 3)), NULL), *r = tj_matrix_rank(tj_zeros(TJ_F32, TJ_SHAPE(2, 0, 3)), NULL);
	assert_true(tj_dim(p, 1) == 3 && tj_dim(p, 2) == 0 && tj_rank(r) == 1);
	assert_true(tj_numel(tj_eigvalsh(tj_zeros(TJ_F64, TJ_SHAPE(0, 3, 3)), NULL)) == 0);
	kit_ok(c);
	tj_close(c);
}

/* ---- gradients ---- */
typedef struct job { enum { EIGH, EIGVALS, SVD, SVDVALS, PINV, COND, NUCLEAR, KINDS } kind; int64_t m, n; bool zero, same; } job;

static tj_tensor *weighted(tj_tensor *x, double from)
{
	if (tj_numel(x) == 0) return tj_f(0);
	tj_tensor *w = tj_add(tj_sin(tj_mul(tj_cast(tj_arange(TJ_I64, 0, tj_numel(x), 1), TJ_F64), tj_f(from))), tj_f(from / 3));
	return tj_sum(tj_mul(tj_reshape(x, TJ_SHAPE(-1)), w), TJ_ALL, false);
}

/* A number, of x [m,n]. */
static tj_tensor *loss(const job *j, tj_tensor *x)
{
	const tj_spectral_opts o = { .size = sizeof o, .degenerate = j->zero ? TJ_DEGENERATE_ZERO : TJ_DEGENERATE_INF };
	tj_tensor *square = j->same ? x : tj_add(tj_matmul(x, tj_transpose(x, -2, -1)), tj_f(0.5)), *v = NULL, *s = NULL, *u;
	switch (j->kind) {
	case EIGH: u = tj_eigh(square, &o, &v); return tj_add(weighted(u, 1.3), weighted(v, 0.7));
	case EIGVALS: return weighted(tj_square(tj_eigvalsh(square, &o)), 1.3);
	case SVD: u = tj_svd(x, &o, &s, &v); return tj_add(weighted(u, 0.9), tj_add(weighted(s, 1.7), weighted(v, 0.4)));
	case SVDVALS: return weighted(tj_square(tj_svdvals(x)), 1.1);
	case PINV: return weighted(tj_pinv(x, NULL), 0.8);
	case COND: return tj_add(tj_matrix_cond(x, 2), tj_add(tj_matrix_norm(x, 2, false), tj_matrix_norm(x, -2, false)));
	default: return tj_square(tj_nuclear_norm(x, false));
	}
}

/* The loss, its gradient, and the gradient of a weighted sum of that. */
static void both_orders(tj_tensor **out, tj_tensor *const *in, void *self)
{
	out[0] = loss(self, in[0]);
	tj_grad(&out[1], out[0], TJ_LIST(in[0]), NULL);
	tj_tensor *sum = weighted(out[1], 0.6);
	tj_grad(&out[2], sum, TJ_LIST(in[0]), TJ_OPTS(tj_grad_opts, .unused = TJ_UNUSED_ZEROS));
	out[3] = sum;
}

typedef struct values { double y, sum, first[40], second[40]; } values;

static void derivatives(tj_ctx *c, tj_fn *f, const job *j, const double *x, values *to)
{
	const size_t bytes = (size_t)(j->m * j->n) * sizeof *x;
	tj_tensor *out[4];
	tj_scope *s = tj_push(c);
	assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(j->m, j->n), x))), TJ_OK);
	to->y = tj_item(out[0]), to->sum = tj_item(out[3]);
	tj_read(out[1], to->first, bytes);
	tj_read(out[2], to->second, bytes);
	kit_ok(c);
	tj_pop(s);
}

static void slopes(job j, unsigned seed)
{
	tj_ctx *c = kit_open();
	tj_fn *f = kit_fn(c, "both_orders", both_orders, &j, 1, 4);
	double x[40], h = 1e-5;
	numbers(x, j.m * j.n, seed);
	values at, low, high;
	derivatives(c, f, &j, x, &at);
	for (int64_t i = 0; i < j.m * j.n; i++) {
		const double was = x[i];
		x[i] = was - h, derivatives(c, f, &j, x, &low);
		x[i] = was + h, derivatives(c, f, &j, x, &high);
		x[i] = was;
		const double first = (high.y - low.y) / (2 * h), second = (high.sum - low.sum) / (2 * h);
		if (!(fabs(first - at.first[i]) <= 1e-6 * (1 + fabs(first))))
			fail_msg("kind %d, %d x %d, element %d: gradient %.10g, slope %.10g", j.kind, (int)j.m, (int)j.n, (int)i, at.first[i], first);
		if (!(fabs(second - at.second[i]) <= 1e-5 * (1 + fabs(second))))
			fail_msg("kind %d, %d x %d, element %d: second gradient %.10g, slope %.10g", j.kind, (int)j.m, (int)j.n, (int)i, at.second[i],
			         second);
	}
	tj_close(c);
}

static void gradients(void **state)
{
	(void)state;
	assert_true(rt_linalg_choose("auto"));
	static const int64_t sizes[][2] = { { 1, 1 }, { 3, 3 }, { 4, 2 }, { 2, 4 } };
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < RT_COUNT(sizes); i++) {
			const int64_t m = sizes[i][0], n = sizes[i][1];
			if ((kind == EIGH || kind == EIGVALS) && m > n) continue; /* x x' has equal eigenvalues */
			slopes((job){ (int)kind, m, n, false, false }, (unsigned)i + 17);
			if (kind == EIGH || kind == SVD) slopes((job){ (int)kind, m, n, true, false }, (unsigned)i + 17);
		}
}

/* At the identity: gradients by values are right, those by vectors NaN or, on request, without the terms that are not. */
static void degenerate(void **state)
{
	(void)state;
	static const struct { int kind; bool zero, finite; } rows[] = {
		{ EIGH, false, false }, { EIGH, true, true },      { EIGVALS, false, true }, { SVD, false, false },  { SVD, true, true },
		{ SVDVALS, false, true }, { PINV, false, true }, { NUCLEAR, false, true },
	};
	for (size_t i = 0; i < RT_COUNT(rows); i++) {
		tj_ctx *c = kit_open();
		job j = { rows[i].kind, 3, 3, rows[i].zero, true };
		const double x[] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 };
		values at;
		bool finite = true;
		derivatives(c, kit_fn(c, "both_orders", both_orders, &j, 1, 4), &j, x, &at);
		for (int k = 0; k < 9; k++) finite &= isfinite(at.first[k]) != 0;
		if (finite != rows[i].finite) fail_msg("kind %d, zero %d: finite %d", rows[i].kind, rows[i].zero, finite);
		if (rows[i].kind == NUCLEAR) /* 2 norm u v' */
			for (int k = 0; k < 9; k++) assert_true(fabs(at.first[k] - (k % 4 ? 0 : 6)) < 1e-12);
		if (rows[i].kind == PINV) { /* -w, by the weights w */
			const double w = sin(0.8) + 0.8 / 3;
			assert_true(fabs(at.first[1] + w) < 1e-12);
		}
		tj_close(c);
	}
}

/* Values that differ by rounding alone count as equal, too. */
static void nearly_degenerate(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		tj_ctx *c = kit_open();
		job j = { kind ? SVD : EIGH, 3, 3, true, true };
		const double x[] = { 1, 2e-16, 0, 2e-16, 1, 1e-16, 0, 1e-16, 1 };
		values at;
		derivatives(c, kit_fn(c, "both_orders", both_orders, &j, 1, 4), &j, x, &at);
		for (int k = 0; k < 9; k++) assert_true(fabs(at.first[k]) < 10);
		tj_close(c);
	}
}

/* ---- functions ---- */
static double apart(tj_tensor *a, tj_tensor *b) { return tj_item(tj_amax(tj_abs(tj_sub(a, b)), TJ_ALL, false)); }
static tj_tensor *product(tj_tensor *a, tj_tensor *b, tj_tensor *c) { return tj_matmul(tj_matmul(a, b), c); }

static void inverses(void **state)
{
	(void)state;
	for (int who = 0; who < present(); who++) {
		assert_true(rt_linalg_choose(computers[who]));
		tj_ctx *c = kit_open();
		double x[60];
		numbers(x, 60, 8);
		tj_tensor *tall = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 6, 5), x), *flat = tj_transpose(tall, -1, -2);
		tj_tensor *poor = tj_matmul(tj_narrow(tall, 2, 0, 3), tj_narrow(flat, 1, 0, 3)), *of[] = { tall, flat, poor };
		for (int i = 0; i < 3; i++) { /* what Moore and Penrose ask for */
			const tj_rank_opts o = { .size = sizeof o, .hermitian = i == 2, .rtol = i == 2 ? 1e-12 : 0 };
			tj_tensor *p = tj_pinv(of[i], &o), *ap = tj_matmul(of[i], p), *pa = tj_matmul(p, of[i]);
			assert_true(apart(product(of[i], p, of[i]), of[i]) < 1e-12 && apart(product(p, of[i], p), p) < 1e-11);
			assert_true(apart(ap, tj_transpose(ap, -1, -2)) < 1e-12 && apart(pa, tj_transpose(pa, -1, -2)) < 1e-12);
			int64_t rank[2];
			tj_read(tj_matrix_rank(of[i], &o), rank, sizeof rank);
			assert_true(rank[0] == (i == 2 ? 3 : 5) && rank[1] == rank[0]);
		}
		const tj_rank_opts half = { .size = sizeof half, .atol = 0.5 };
		tj_tensor *d = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), (double[]){ 0.5, 0, 0, -2 });
		assert_true(tj_item(tj_matrix_rank(d, &half)) == 1 && tj_item(tj_matrix_rank(d, NULL)) == 2);
		assert_true(fabs(tj_item(tj_matrix_cond(d, 2)) - 4) < 1e-15 && fabs(tj_item(tj_matrix_cond(d, -2)) - 0.25) < 1e-15);
		assert_true(fabs(tj_item(tj_matrix_cond(d, 0)) - 4.25) < 1e-14 && fabs(tj_item(tj_nuclear_norm(d, false)) - 2.5) < 1e-15);
		assert_true(tj_item(tj_matrix_norm(d, 2, true)) == 2 && tj_item(tj_matrix_norm(d, -2, false)) == 0.5);
		tj_tensor *two = tj_from_data(c, TJ_F64, TJ_SHAPE(2, 2), (double[]){ 2, 1, 9, 2 });
		tj_tensor *upper = tj_eigvalsh(two, TJ_OPTS(tj_spectral_opts, .upper = true));
		assert_true(apart(upper, tj_from_data(c, TJ_F64, TJ_SHAPE(2), (double[]){ 1, 3 })) < 1e-15);
		tj_tensor *narrow = tj_svdvals(tj_cast(d, TJ_BF16)), *p = tj_pinv(tj_cast(d, TJ_F16), NULL);
		assert_true(tj_dtype_of(narrow) == TJ_BF16 && tj_dtype_of(p) == TJ_F16 && tj_item(tj_select(tj_select(p, 0, 0), 0, 0)) == 2);
		kit_ok(c);
		tj_close(c);
	}
}

static void for_one(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	out[0] = tj_svd_packed(in[0], false);
	tj_grad(&out[1], tj_sum(out[0], TJ_ALL, false), TJ_LIST(in[0]), NULL);
}

static void batched(tj_tensor **out, tj_tensor *const *in, void *self)
{
	(void)self;
	tj_vmap(out, 2, for_one, in, NULL, NULL);
}

static void for_a_batch(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
	double x[60], got[3 * 10 * 4], want[10 * 4], slope[60], one[20];
	numbers(x, 60, 21);
	tj_tensor *out[2];
	tj_fn *all = kit_fn(c, "batched", batched, NULL, 1, 2), *f = kit_fn(c, "for_one", for_one, NULL, 1, 2);
	assert_int_equal(tj_call(all, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(3, 5, 4), x))), TJ_OK);
	tj_read(out[0], got, sizeof got);
	tj_read(out[1], slope, sizeof slope);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tj_call(f, out, TJ_LIST(tj_from_data(c, TJ_F64, TJ_SHAPE(5, 4), x + 20 * i))), TJ_OK);
		tj_read(out[0], want, sizeof want);
		tj_read(out[1], one, sizeof one);
		assert_memory_equal(got + 40 * i, want, sizeof want);
		assert_memory_equal(slope + 20 * i, one, sizeof one);
	}
	kit_ok(c);
	tj_close(c);
}

static void refused(void **state)
{
	(void)state;
	tj_ctx *c = kit_open();
#define REFUSED(call, code, part) assert_true(tj_is_poison(call)), kit_error(c, TJ_ERR_##code, part)
	tj_tensor *x = tj_ones(TJ_F32, TJ_SHAPE(2, 3)), *v;
	REFUSED(tj_eigh(x, NULL, &v), SHAPE, "x is f32[2,3], no square matrix");
	REFUSED(tj_svdvals(tj_ones(TJ_F32, TJ_SHAPE(2))), SHAPE, "no matrix");
	REFUSED(tj_svd(tj_ones(TJ_I64, TJ_SHAPE(2, 2)), NULL, NULL, NULL), DTYPE, "no float");
	REFUSED(tj_svd(x, TJ_OPTS(tj_spectral_opts, .degenerate = 7), NULL, NULL), ARG, ".degenerate is 7");
	REFUSED(tj_pinv(x, TJ_OPTS(tj_rank_opts, .rtol = -1)), ARG, ".rtol -1");
	REFUSED(tj_matrix_cond(x, 1), ARG, "the order is 1");
	REFUSED(tj_matrix_cond(x, 0), SHAPE, "no square matrix");
	REFUSED(tj_eigh_packed(x, false), SHAPE, "2 and 3");
	tj_close(c);
}

static void choices(void **state)
{
	(void)state;
	assert_true(!rt_linalg_choose("magma") && !rt_linalg_choose("OWN"));
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .linalg = "own"));
	assert_string_equal(rt_linalg_choice(), "own");
	assert_true(!strcmp(tj_linalg_library().name, "tjit") && tj_linalg_library().why);
	tj_close(c);
	c = kit_open(); /* says nothing, so the choice stays */
	assert_string_equal(rt_linalg_choice(), "own");
	tj_close(c);
	c = tj_open(TJ_OPTS(tj_open_opts, .linalg = "lapack"));
	const tj_library l = tj_linalg_library();
	if (rt_lapack_missing()) {
		assert_true(!l.name && strstr(l.why, "liblapack3"));
		assert_true(tj_is_poison(tj_svdvals(tj_ones(TJ_F32, TJ_SHAPE(2, 2)))));
		kit_error(c, TJ_ERR_STATE, "TJ_LINALG is lapack, but");
	} else assert_true(!strcmp(l.name, "LAPACK") && l.version);
	tj_close(c);
	assert_true(rt_linalg_choose("auto"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(residuals), cmocka_unit_test(special),    cmocka_unit_test(agree),    cmocka_unit_test(not_finite),
		cmocka_unit_test(empty),     cmocka_unit_test(gradients),  cmocka_unit_test(degenerate), cmocka_unit_test(inverses),
		cmocka_unit_test(for_a_batch), cmocka_unit_test(refused), cmocka_unit_test(choices),
		cmocka_unit_test(nearly_degenerate),
	};
	KIT_RUN(tests);
}
