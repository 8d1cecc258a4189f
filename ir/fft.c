/* SPDX-License-Identifier: MIT */
/* fft: the discrete Fourier transform as passes over arrays of real and of imaginary parts.
 *
 * A pass takes a factor r of n away. Before it the array is [r, m, l]: l elements are done, and lie together; r m are left.
 *
 *   out[q, p, :] = w(q p / r m) * sum over j of x[j, q, :] w(j p / r)            w(t) = exp(-+ 2 pi i t);  q < m, p < r
 *
 * Behind the last one the elements are in order, so nothing is turned over at the end (Stockham; Cochran et al., "What is the fast Fourier
 * transform?", 1967). The factors are small, and a pass is a kernel: it loads r elements, adds them up by a transform of r that is written
 * out, and stores r. Where l is short, lanes go along m and l together.
 *
 *   factors 2 to 8          written out: four of them as 2 x 2, eight as 4 x 2, six as 3 x 2
 *   primes up to 61         the pass is a product of matrices, [2r, 2r] and [2r, m l]
 *   larger ones             Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform", 1970: with
 *                           jk = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution, by transforms of a size with small factors
 *
 * The order of all operations is fixed here, so results have the same bits in every plan. */
#include "ir/fft.h"

enum { MOST_WRITTEN = 8, MOST_PRIME = 61, MOST_PASSES = 64, SHORT = 16 /* l, in elements */ };

typedef ir_pair pair;
typedef ir_fourier fourier;

/* ---- expressions. Two calls that emit nodes never stand in one: which came first would be the compiler's choice ---- */
static ir_ref add(const fourier *F, ir_ref a, ir_ref b) { return ir_op2(F->g, IR_add, a, b, F->site); }
static ir_ref sub(const fourier *F, ir_ref a, ir_ref b) { return ir_op2(F->g, IR_sub, a, b, F->site); }
static ir_ref mul(const fourier *F, ir_ref a, ir_ref b) { return ir_op2(F->g, IR_mul, a, b, F->site); }
static ir_ref num(const fourier *F, double v) { return ir_const_f(F->g, F->t, 0, NULL, v); }
static ir_ref fma3(const fourier *F, ir_ref a, ir_ref b, ir_ref c)
{
	return ir_emit(F->g, IR_fma, 3, (ir_ref[]){ a, b, c }, 0, NULL, F->site);
}

static ir_ref shaped(const fourier *F, ir_ref x, int rank, const int64_t *dim) { return ir_reshape(F->g, x, rank, dim, F->site); }
static ir_ref joined(const fourier *F, int n, const ir_ref *x, int64_t axis)
{
	return n == 1 ? x[0] : ir_emit(F->g, IR_cat, n, x, 1, &axis, F->site);
}

static ir_ref part(const fourier *F, ir_ref x, int64_t axis, int64_t from, int64_t to)
{
	return ir_emit(F->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, from, to, 1 }, F->site);
}

static pair plus(const fourier *F, pair a, pair b)
{
	const ir_ref re = add(F, a.re, b.re);
	return (pair){ re, add(F, a.im, b.im) };
}

static pair minus(const fourier *F, pair a, pair b)
{
	const ir_ref re = sub(F, a.re, b.re);
	return (pair){ re, sub(F, a.im, b.im) };
}

/* z * (re + i im) */
static pair times(const fourier *F, pair z, ir_ref re, ir_ref im)
{
	const ir_ref cross = mul(F, z.im, im), minus_cross = ir_op1(F->g, IR_neg, cross, F->site), other = mul(F, z.im, re);
	const ir_ref x = fma3(F, z.re, re, minus_cross);
	return (pair){ x, fma3(F, z.re, im, other) };
}

/* z * i^k */
static pair turned(const fourier *F, pair z, int64_t k)
{
	switch (k & 3) {
	case 1: return (pair){ ir_op1(F->g, IR_neg, z.im, F->site), z.re };
	case 2: {
		const ir_ref re = ir_op1(F->g, IR_neg, z.re, F->site);
		return (pair){ re, ir_op1(F->g, IR_neg, z.im, F->site) };
	}
	case 3: return (pair){ z.im, ir_op1(F->g, IR_neg, z.re, F->site) };
	default: return z;
	}
}

/* z * w(k / n) */
static pair rotated(const fourier *F, pair z, int64_t k, int64_t n)
{
	k %= n;
	if (4 * k % n == 0) return turned(F, z, F->sign < 0 ? -4 * k / n : 4 * k / n);
	const ir_root w = ir_unit_root(k, n);
	if (8 * k % n == 0) { /* (1 +- i) / sqrt 2, and turned */
		const int64_t eighth = (F->sign < 0 ? -8 * k / n : 8 * k / n) & 7;
		const ir_ref sum = add(F, z.re, z.im), back = sub(F, z.im, z.re), half = num(F, 0.70710678118654752440);
		const ir_ref a = mul(F, sum, half), b = mul(F, back, half);
		return turned(F, (pair){ a, b }, (eighth + 1) / 2); /* (re + i im) w(-1/8) = a + i b */
	}
	const ir_ref re = num(F, w.re);
	return times(F, z, re, num(F, F->sign * w.im));
}

/* ---- transforms that are written out ---- */
/* y = transform of x; p is a prime: sums and differences of x[j] and x[p - j] have cosines and sines alone. */
static void odd_prime(const fourier *F, int p, const pair *x, pair *y)
{
	pair s[MOST_WRITTEN / 2], d[MOST_WRITTEN / 2], all = x[0];
	for (int j = 1; j <= p / 2; j++) {
		s[j - 1] = plus(F, x[j], x[p - j]);
		d[j - 1] = minus(F, x[j], x[p - j]);
		all = plus(F, all, s[j - 1]);
	}
	for (int k = 1; k <= p / 2; k++) {
		pair a = x[0], b = { IR_NONE, IR_NONE };
		for (int j = 1; j <= p / 2; j++) {
			const ir_root w = ir_unit_root(j * k % p, p);
			const ir_ref c = num(F, w.re), v = num(F, F->sign * w.im);
			a.re = fma3(F, s[j - 1].re, c, a.re);
			a.im = fma3(F, s[j - 1].im, c, a.im);
			b.re = j == 1 ? mul(F, d[0].re, v) : fma3(F, d[j - 1].re, v, b.re);
			b.im = j == 1 ? mul(F, d[0].im, v) : fma3(F, d[j - 1].im, v, b.im);
		}
		y[k].re = sub(F, a.re, b.im); /* a + i b */
		y[k].im = add(F, a.im, b.re);
		y[p - k].re = add(F, a.re, b.im);
		y[p - k].im = sub(F, a.im, b.re);
	}
	y[0] = all;
}

static void written(const fourier *F, int n, const pair *x, pair *y)
{
	if (n == 1) y[0] = x[0];
	else if (n == 2) y[0] = plus(F, x[0], x[1]), y[1] = minus(F, x[0], x[1]);
	else if (n % 2) odd_prime(F, n, x, y);
	else { /* the even and the odd ones */
		pair in[2][MOST_WRITTEN / 2] = { 0 }, out[2][MOST_WRITTEN / 2];
		for (int j = 0; j < n; j++) in[j % 2][j / 2] = x[j];
		for (int k = 0; k < 2; k++) written(F, n / 2, in[k], out[k]);
		for (int k = 0; k < n / 2; k++) {
			const pair w = rotated(F, out[1][k], k, n);
			y[k] = plus(F, out[0][k], w);
			y[k + n / 2] = minus(F, out[0][k], w);
		}
	}
}

/* ---- a pass ---- */
ir_ref ir_fft_table(fourier *F, int rank, const int64_t *dim, double (*value)(const void *env, int64_t i), const void *env)
{
	ir_meta m = { .dtype = F->t, .device = RT_CPU, .rank = (uint8_t)rank };
	int64_t n = 1;
	for (int i = 0; i < rank; i++) n *= m.dim[i] = dim[i];
	void *bytes = rt_alloc((size_t)n * tj_dtype_size(F->t));
	if (!bytes) F->oom = true;
	for (int64_t i = 0; bytes && i < n; i++) {
		if (F->t == TJ_F64) ((double *)bytes)[i] = value(env, i);
		else ((float *)bytes)[i] = (float)value(env, i);
	}
	const ir_ref r = bytes ? ir_data_(F->g, &m, bytes, F->site) : IR_NONE;
	rt_free(bytes);
	return r == IR_NONE ? r : ir_keep_device(F->g, r, ir_at(F->g, F->like));
}

typedef struct stage { /* a pass: [r, m, l]; l with the axes behind the transformed one */
	int64_t r, m, l;
	bool flat;             /* lanes go along m and l together */
	const ir_root *root;   /* of order r m */
	double sign;
	int64_t p;             /* the result whose factors are made */
} stage;

static int64_t power_of(const stage *S, int64_t i) { return (S->flat ? i / S->l : i) * S->p; }
static double cosine(const void *env, int64_t i) { return ((const stage *)env)->root[power_of(env, i)].re; }
static double sine(const void *env, int64_t i) { return ((const stage *)env)->sign * ((const stage *)env)->root[power_of(env, i)].im; }

static pair twiddled(fourier *F, stage *S, int64_t p, pair z)
{
	const int64_t dim[] = { S->flat ? S->m * S->l : S->m, 1 };
	if (p == 0 || S->m == 1) return z;
	S->p = p;
	const ir_ref re = ir_fft_table(F, S->flat ? 1 : 2, dim, cosine, S), im = ir_fft_table(F, S->flat ? 1 : 2, dim, sine, S);
	return times(F, z, re, im);
}

/* The matrix of a transform of r, its real and imaginary rows one below the other. */
static double matrix(const void *env, int64_t i)
{
	const stage *S = env;
	const int64_t row = i / (2 * S->r), column = i % (2 * S->r), k = row % S->r * (column % S->r) % S->r;
	const ir_root w = ir_unit_root(k, S->r);
	if (row / S->r == column / S->r) return w.re;
	return (row < S->r ? -1 : 1) * S->sign * w.im;
}

/* Both parts of x, [outer, 2r, m l], times that matrix. */
static void multiplied(fourier *F, const stage *S, ir_ref re, ir_ref im, pair *y)
{
	const ir_ref by = ir_fft_table(F, 2, (int64_t[]){ 2 * S->r, 2 * S->r }, matrix, S), both = joined(F, 2, (ir_ref[]){ re, im }, 1);
	const ir_ref all = ir_op2(F->g, IR_matmul, by, both, F->site);
	for (int64_t p = 0; p < S->r; p++) {
		y[p].re = part(F, all, 1, p, p + 1);
		y[p].im = part(F, all, 1, S->r + p, S->r + p + 1);
	}
}

/* Both parts of y[p] as [outer, 1, m, l] or [outer, 1, m l]; factors included. */
static void pass(fourier *F, stage *S, pair x, pair *y)
{
	pair in[MOST_WRITTEN] = { 0 };
	S->flat = S->l <= SHORT || S->r > MOST_WRITTEN;
	const int64_t dim[] = { F->outer, S->r, S->flat ? S->m * S->l : S->m, S->l };
	const ir_ref re = shaped(F, x.re, S->flat ? 3 : 4, dim), im = shaped(F, x.im, S->flat ? 3 : 4, dim);
	if (S->r > MOST_WRITTEN) multiplied(F, S, re, im, y);
	else {
		for (int64_t j = 0; j < S->r; j++) {
			in[j].re = part(F, re, 1, j, j + 1);
			in[j].im = part(F, im, 1, j, j + 1);
		}
		written(F, (int)S->r, in, y);
	}
	for (int64_t p = 0; p < S->r; p++) y[p] = twiddled(F, S, p, y[p]);
}

/* All results, both parts [outer, n inner]: those of one q one behind the other. */
static pair in_order(const fourier *F, const stage *S, const pair *y)
{
	ir_ref each[MOST_PRIME], all[2];
	for (int i = 0; i < 2; i++) {
		for (int64_t p = 0; p < S->r; p++) each[p] = shaped(F, i ? y[p].im : y[p].re, 4, (int64_t[]){ F->outer, S->m, 1, S->l });
		all[i] = shaped(F, joined(F, (int)S->r, each, 2), 2, (int64_t[]){ F->outer, F->n * F->inner });
		all[i] = ir_op2(F->g, IR_optimization_barrier, all[i], all[i], F->site);
	}
	return (pair){ all[0], all[1] };
}

/* The factors of n, in the order of passes; 0: n has a prime that is too large. Passes with several elements done fill vectors, so the
 * largest factors come first. */
static int factors(int64_t n, int64_t *r)
{
	static const int64_t first[] = { 8, 6, 4, 7, 5, 3, 2 };
	int k = 0;
	while (n % 32 == 0 || n == 8) r[k++] = 8, n /= 8;
	if (n % 16 == 0) r[k++] = 4, r[k++] = 4, n /= 16;
	for (size_t i = 0; i < RT_COUNT(first); i++)
		while (n % first[i] == 0) r[k++] = first[i], n /= first[i];
	for (int64_t p = 11; p <= MOST_PRIME && n > 1; p += 2)
		while (n % p == 0) r[k++] = p, n /= p;
	return n == 1 ? k : 0;
}

/* All passes but the last one, which is left in *S and y. */
static bool transform(fourier *F, pair x, stage *S, pair *y)
{
	int64_t r[MOST_PASSES], done = 1;
	const int n = factors(F->n, r);
	ir_root *root = ir_unit_roots(F->n), *some = root ? rt_alloc((size_t)F->n * sizeof *some) : NULL;
	if (!some) F->oom = true;
	for (int i = 0; i < n && !F->oom; i++) {
		*S = (stage){ .r = r[i], .m = F->n / done / r[i], .l = done * F->inner, .root = some, .sign = F->sign };
		for (int64_t k = 0; k < F->n / done; k++) some[k] = root[k * done]; /* of order r m */
		pass(F, S, x, y);
		done *= r[i];
		if (i == n - 1) break;
		x = in_order(F, S, y);
	}
	rt_free(some);
	rt_free(root);
	return !F->oom;
}

/* The transform of both parts, [outer, n inner]. */
static pair whole(fourier *F, pair x)
{
	pair y[MOST_PRIME];
	stage S;
	if (F->n == 1) return x;
	if (!transform(F, x, &S, y)) return (pair){ IR_NONE, IR_NONE };
	return in_order(F, &S, y);
}

/* ---- primes that are too large ---- */
/* A transform in double of the smooth size n, for a table: x[0], x[step], ... to y. */
static void on_host(int64_t n, const ir_root *x, int64_t step, ir_root *y, const ir_root *root, int64_t order)
{
	int64_t p = 2;
	if (n == 1) { y[0] = x[0]; return; }
	while (n % p) p++;
	const int64_t m = n / p;
	for (int64_t j = 0; j < p; j++) on_host(m, x + j * step, step * p, y + j * m, root, order);
	for (int64_t k = 0; k < m; k++) {
		ir_root z[5];
		for (int64_t q = 0; q < p; q++) {
			z[q] = (ir_root){ 0, 0 };
			for (int64_t j = 0; j < p; j++) {
				const ir_root w = root[order / n * (j * (k + q * m) % n)], v = y[j * m + k];
				z[q].re += v.re * w.re + v.im * w.im; /* times the conjugate of w */
				z[q].im += v.im * w.re - v.re * w.im;
			}
		}
		for (int64_t q = 0; q < p; q++) y[k + q * m] = z[q];
	}
}

typedef struct chirp {
	int64_t n, size;
	double sign;
	const ir_root *table;
} chirp;
/* exp(-+ pi i k^2 / n) */
static ir_root chirp_at(const chirp *C, int64_t k)
{
	const ir_root w = ir_unit_root(k * k % (2 * C->n), 2 * C->n);
	return (ir_root){ w.re, C->sign * w.im };
}
static double chirp_re(const void *C, int64_t k) { return chirp_at(C, k).re; }
static double chirp_im(const void *C, int64_t k) { return chirp_at(C, k).im; }
static double table_re(const void *C, int64_t k) { return ((const chirp *)C)->table[k].re; }
static double table_im(const void *C, int64_t k) { return ((const chirp *)C)->table[k].im; }

static int64_t smooth_from(int64_t n)
{
	for (n = (n + 7) / 8 * 8;; n += 8) {
		int64_t rest = n;
		for (int64_t p = 2; p <= 5; p++)
			while (rest % p == 0) rest /= p;
		if (rest == 1) return n;
	}
}

/* The transform of the conjugate chirp, divided by the size. */
static ir_root *response(const chirp *C)
{
	const size_t bytes = (size_t)C->size * sizeof(ir_root);
	ir_root *b = rt_calloc(bytes), *y = rt_alloc(bytes), *root = ir_unit_roots(C->size);
	for (int64_t k = 0; b && y && root && k < C->n; k++) {
		const ir_root w = chirp_at(C, k);
		b[k] = b[k ? C->size - k : 0] = (ir_root){ w.re / (double)C->size, -w.im / (double)C->size };
	}
	if (b && y && root) on_host(C->size, b, 1, y, root, C->size);
	else rt_free(y), y = NULL;
	rt_free(b);
	rt_free(root);
	return y;
}

static ir_ref padded(fourier *F, ir_ref x, int64_t size)
{
	const int64_t dim[] = { F->outer, (size - F->n) * F->inner };
	const ir_ref none = ir_const_f(F->g, F->t, 2, dim, 0), behind = ir_keep_device(F->g, none, ir_at(F->g, F->like));
	return joined(F, 2, (ir_ref[]){ x, behind }, 1);
}

static pair chirped(fourier *F, pair x, ir_ref re, ir_ref im)
{
	const int64_t dim[] = { F->outer, F->n, F->inner }, flat[] = { F->outer, F->n * F->inner };
	x.re = shaped(F, x.re, 3, dim);
	x.im = shaped(F, x.im, 3, dim);
	x = times(F, x, re, im);
	x.re = shaped(F, x.re, 2, flat);
	x.im = shaped(F, x.im, 2, flat);
	return x;
}

static pair bluestein(fourier *F, pair x)
{
	chirp C = { .n = F->n, .size = smooth_from(2 * F->n - 1), .sign = F->sign };
	const int64_t n[] = { F->n, 1 }, all[] = { C.size, 1 }, count = F->n * F->inner;
	ir_root *b = F->n <= INT32_MAX ? response(&C) : NULL; /* k * k */
	if (!b) F->oom = true;
	if (F->oom) return (pair){ IR_NONE, IR_NONE };
	const ir_ref re = ir_fft_table(F, 2, n, chirp_re, &C), im = ir_fft_table(F, 2, n, chirp_im, &C);
	C.table = b;
	const ir_ref b_re = ir_fft_table(F, 2, all, table_re, &C), b_im = ir_fft_table(F, 2, all, table_im, &C);
	rt_free(b);
	x = chirped(F, x, re, im);
	fourier G = *F;
	G.n = C.size;
	G.sign = -1;
	x.re = padded(F, x.re, C.size);
	x.im = padded(F, x.im, C.size);
	x = chirped(&G, whole(&G, x), b_re, b_im);
	G.sign = 1;
	x = whole(&G, x);
	x.re = part(F, x.re, 1, 0, count);
	x.im = part(F, x.im, 1, 0, count);
	F->oom |= G.oom;
	return chirped(F, x, re, im);
}

/* ---- the whole ---- */
/* Results [outer, 1, m l] or [outer, 1, m, l] side by side, as parts of `to` along the axis; m is 1. */
static ir_ref interleaved(const fourier *F, const ir_meta *to, int64_t axis, int64_t parts, const pair *y)
{
	ir_ref each[MOST_PRIME];
	ir_meta one = *to;
	one.dim[axis] /= parts;
	one.dim[to->rank - 1] = 1;
	for (int64_t p = 0; p < parts; p++) {
		const ir_ref re = shaped(F, y[p].re, to->rank, one.dim), im = shaped(F, y[p].im, to->rank, one.dim);
		each[p] = joined(F, 2, (ir_ref[]){ re, im }, to->rank - 1);
	}
	return joined(F, (int)parts, each, axis);
}

ir_fourier ir_fourier_of(ir_graph *g, ir_ref x, int rank, int64_t axis, const char *site)
{
	const ir_meta m = ir_meta_of(g, x);
	fourier F = { .g = g, .site = site, .t = (tj_dtype)m.dtype, .like = x, .sign = -1, .outer = 1, .n = m.dim[axis], .inner = 1 };
	for (int i = 0; i < axis; i++) F.outer *= m.dim[i];
	for (int i = (int)axis + 1; i < rank; i++) F.inner *= m.dim[i];
	return F;
}

ir_pair ir_fft_parts(fourier *F, pair x)
{
	int64_t r[MOST_PASSES];
	return F->n == 1 || factors(F->n, r) ? whole(F, x) : bluestein(F, x);
}

ir_ref ir_fft(ir_graph *g, ir_ref x, int64_t axis, bool inverse, const char *site)
{
	const ir_meta m = ir_meta_of(g, x);
	fourier F = ir_fourier_of(g, x, m.rank - 1, axis, site);
	int64_t r[MOST_PASSES], n = 1;
	pair y[MOST_PRIME], parts;
	stage S;
	if (F.n == 1 || !F.outer || !F.inner) return x;
	if (inverse) F.sign = 1;
	const int64_t flat[] = { F.outer, F.n * F.inner };
	const ir_ref re = part(&F, x, m.rank - 1, 0, 1), im = part(&F, x, m.rank - 1, 1, 2);
	parts.re = shaped(&F, re, 2, flat);
	parts.im = shaped(&F, im, 2, flat);
	if (factors(F.n, r)) n = transform(&F, parts, &S, y) ? S.r : 0;
	else y[0] = bluestein(&F, parts);
	if (!F.oom) return interleaved(&F, &m, axis, n, y);
	rt_fail(&g->err, TJ_ERR_NOMEM, "dft", "out of memory");
	return IR_NONE;
}
