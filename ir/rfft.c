/* SPDX-License-Identifier: MIT */
/* rfft: the discrete Fourier transform of real numbers, and back. Those of an even number n are taken as n / 2 complex ones,
 *
 *   z[j] = x[2j] + i x[2j + 1]       Z = transform of z, h = n / 2
 *   X[k] = e + w(k / n) o            e = (Z[k] + conj Z[h - k]) / 2, o = (Z[k] - conj Z[h - k]) / 2i; w as in fft.c
 *
 * so half of the work is done. An odd number of them has imaginary parts of 0. */
#include "ir/fft.h"

typedef ir_pair pair;
typedef ir_fourier fourier;

static ir_ref op2(const fourier *F, ir_op op, ir_ref a, ir_ref b) { return ir_op2(F->g, op, a, b, F->site); }
static ir_ref negated(const fourier *F, ir_ref a) { return ir_op1(F->g, IR_neg, a, F->site); }
static ir_ref shaped(const fourier *F, ir_ref x, int rank, const int64_t *dim) { return ir_reshape(F->g, x, rank, dim, F->site); }
static ir_ref part(const fourier *F, ir_ref x, int64_t axis, int64_t from, int64_t to)
{
	return ir_emit(F->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, from, to, 1 }, F->site);
}

static ir_ref joined(const fourier *F, int n, const ir_ref *x, int64_t axis) { return ir_emit(F->g, IR_cat, n, x, 1, &axis, F->site); }
static ir_ref flipped(const fourier *F, ir_ref x) { return ir_emit(F->g, IR_flip, 1, &x, 1, (int64_t[]){ 1 }, F->site); }
static ir_ref zeros(const fourier *F, int64_t n)
{
	const ir_ref x = ir_const_f(F->g, F->t, 3, (int64_t[]){ F->outer, n, F->inner }, 0);
	return ir_keep_device(F->g, x, ir_at(F->g, F->like));
}

/* x [outer, n, inner]: elements 0, n - 1, ..., 1 */
static ir_ref turned(const fourier *F, ir_ref x, int64_t n)
{
	const ir_ref first = part(F, x, 1, 0, 1);
	return n == 1 ? x : joined(F, 2, (ir_ref[]){ first, flipped(F, part(F, x, 1, 1, n)) }, 1);
}

typedef struct half { int64_t n; double sign; } half;
static double half_cosine(const void *env, int64_t k) { return ir_unit_root(k, ((const half *)env)->n).re / 2; }
static double half_sine(const void *env, int64_t k) { return ((const half *)env)->sign * ir_unit_root(k, ((const half *)env)->n).im / 2; }

/* (x + i y) (re + i im) */
static pair times(const fourier *F, ir_ref x, ir_ref y, ir_ref re, ir_ref im)
{
	const ir_ref cross = negated(F, op2(F, IR_mul, y, im)), other = op2(F, IR_mul, y, re);
	const ir_ref a = ir_emit(F->g, IR_fma, 3, (ir_ref[]){ x, re, cross }, 0, NULL, F->site);
	return (pair){ a, ir_emit(F->g, IR_fma, 3, (ir_ref[]){ x, im, other }, 0, NULL, F->site) };
}

/* Both parts of `count` elements, [outer, count, inner], as pairs in the sizes of `to`. */
static ir_ref paired(const fourier *F, const ir_meta *to, ir_ref re, ir_ref im)
{
	ir_meta one = *to;
	one.dim[to->rank - 1] = 1;
	const ir_ref a = shaped(F, re, to->rank, one.dim), b = shaped(F, im, to->rank, one.dim);
	return joined(F, 2, (ir_ref[]){ a, b }, to->rank - 1);
}

/* ---- forward ---- */
static pair odd_forward(fourier *F, ir_ref x)
{
	const int64_t flat[] = { F->outer, F->n * F->inner }, dim[] = { F->outer, F->n, F->inner };
	const ir_ref re = shaped(F, x, 2, flat), none = zeros(F, F->n), im = shaped(F, none, 2, flat);
	pair y = ir_fft_parts(F, (pair){ re, im });
	y.re = part(F, shaped(F, y.re, 3, dim), 1, 0, F->n / 2 + 1);
	y.im = part(F, shaped(F, y.im, 3, dim), 1, 0, F->n / 2 + 1);
	return y;
}

static pair even_forward(fourier *F, ir_ref x)
{
	const int64_t n = F->n, h = n / 2, in[] = { F->outer, h, 2, F->inner }, flat[] = { F->outer, h * F->inner };
	const int64_t dim[] = { F->outer, h, F->inner }, column[] = { h, 1 };
	half H = { n, F->sign };
	x = shaped(F, x, 4, in);
	const ir_ref even = part(F, x, 2, 0, 1), odd = part(F, x, 2, 1, 2);
	pair z = { shaped(F, even, 2, flat), IR_NONE };
	z.im = shaped(F, odd, 2, flat);
	F->n = h;
	z = ir_fft_parts(F, z);
	F->n = n;
	const ir_ref re = shaped(F, z.re, 3, dim), im = shaped(F, z.im, 3, dim), back_re = turned(F, re, h), back_im = turned(F, im, h);
	const ir_ref c = ir_fft_table(F, 2, column, half_cosine, &H), s = ir_fft_table(F, 2, column, half_sine, &H);
	const ir_ref o_re = op2(F, IR_add, im, back_im), o_im = op2(F, IR_sub, back_re, re), half_of = ir_const_f(F->g, F->t, 0, NULL, 0.5);
	const pair o = times(F, o_re, o_im, c, s);
	const ir_ref e_re = op2(F, IR_add, re, back_re), e_im = op2(F, IR_sub, im, back_im);
	pair y = { ir_emit(F->g, IR_fma, 3, (ir_ref[]){ e_re, half_of, o.re }, 0, NULL, F->site), IR_NONE };
	y.im = ir_emit(F->g, IR_fma, 3, (ir_ref[]){ e_im, half_of, o.im }, 0, NULL, F->site);
	/* X[h] = e[0] - o[0] */
	const ir_ref first_re = part(F, re, 1, 0, 1), first_im = part(F, im, 1, 0, 1), last = op2(F, IR_sub, first_re, first_im);
	y.re = joined(F, 2, (ir_ref[]){ y.re, last }, 1);
	y.im = joined(F, 2, (ir_ref[]){ y.im, zeros(F, 1) }, 1);
	return y;
}

ir_ref ir_rfft(ir_graph *g, ir_ref x, int64_t axis, const char *site)
{
	ir_meta to = ir_meta_of(g, x);
	fourier F = ir_fourier_of(g, x, to.rank, axis, site);
	to.dim[axis] = F.n / 2 + 1;
	to.dim[to.rank++] = 2;
	if (!F.outer || !F.inner) return ir_keep_device(g, ir_const_f(g, F.t, to.rank, to.dim, 0), ir_at(g, x));
	const pair y = F.n % 2 ? odd_forward(&F, x) : even_forward(&F, x);
	if (!F.oom) return paired(&F, &to, y.re, y.im);
	rt_fail(&g->err, TJ_ERR_NOMEM, "rdft", "out of memory");
	return IR_NONE;
}

/* ---- back ---- */
/* The first imaginary part, and of an even n the last one, count as 0. */
static ir_ref without_ends(const fourier *F, ir_ref im)
{
	const int64_t count = F->n / 2 + 1, to = F->n % 2 ? count : count - 1;
	const ir_ref none = zeros(F, 1);
	ir_ref x[3] = { none, IR_NONE, none };
	if (to <= 1) return to == count ? none : joined(F, 2, (ir_ref[]){ none, none }, 1);
	x[1] = part(F, im, 1, 1, to);
	return joined(F, F->n % 2 ? 2 : 3, x, 1);
}

static ir_ref odd_back(fourier *F, ir_ref re, ir_ref im)
{
	const int64_t flat[] = { F->outer, F->n * F->inner }, count = F->n / 2 + 1;
	if (F->n == 1) return re;
	const ir_ref upper = flipped(F, part(F, re, 1, 1, count)), lower = negated(F, flipped(F, part(F, im, 1, 1, count)));
	pair z = { shaped(F, joined(F, 2, (ir_ref[]){ re, upper }, 1), 2, flat), IR_NONE };
	z.im = shaped(F, joined(F, 2, (ir_ref[]){ im, lower }, 1), 2, flat);
	return ir_fft_parts(F, z).re;
}

static double whole_cosine(const void *env, int64_t k) { return 2 * half_cosine(env, k); }
static double whole_sine(const void *env, int64_t k) { return 2 * half_sine(env, k); }

static ir_ref even_back(fourier *F, ir_ref re, ir_ref im)
{
	const int64_t n = F->n, h = n / 2, flat[] = { F->outer, h * F->inner }, column[] = { h, 1 }, one[] = { F->outer, h, 1, F->inner };
	half H = { n, F->sign };
	const ir_ref p_re = part(F, re, 1, 0, h), p_im = part(F, im, 1, 0, h);
	const ir_ref q_re = flipped(F, part(F, re, 1, 1, h + 1)), q_im = flipped(F, part(F, im, 1, 1, h + 1));
	const ir_ref c = ir_fft_table(F, 2, column, whole_cosine, &H), s = ir_fft_table(F, 2, column, whole_sine, &H);
	const ir_ref e_re = op2(F, IR_add, p_re, q_re), e_im = op2(F, IR_sub, p_im, q_im);
	const ir_ref d_re = op2(F, IR_sub, p_re, q_re), d_im = op2(F, IR_add, p_im, q_im);
	const pair o = times(F, d_re, d_im, c, s);
	const ir_ref z_re = op2(F, IR_sub, e_re, o.im), z_im = op2(F, IR_add, e_im, o.re); /* e + i o */
	pair z = { shaped(F, z_re, 2, flat), IR_NONE };
	z.im = shaped(F, z_im, 2, flat);
	F->n = h;
	z = ir_fft_parts(F, z);
	F->n = n;
	const ir_ref even = shaped(F, z.re, 4, one), odd = shaped(F, z.im, 4, one);
	return joined(F, 2, (ir_ref[]){ even, odd }, 2);
}

ir_ref ir_irfft(ir_graph *g, ir_ref x, int64_t axis, int64_t n, const char *site)
{
	ir_meta to = ir_meta_of(g, x);
	fourier F = ir_fourier_of(g, x, to.rank - 1, axis, site);
	const int64_t dim[] = { F.outer, F.n, F.inner };
	const int last = --to.rank;
	F.n = to.dim[axis] = n;
	F.sign = 1;
	if (!F.outer || !F.inner) return ir_keep_device(g, ir_const_f(g, F.t, to.rank, to.dim, 0), ir_at(g, x));
	const ir_ref first = part(&F, x, last, 0, 1), second = part(&F, x, last, 1, 2), re = shaped(&F, first, 3, dim);
	const ir_ref im = without_ends(&F, shaped(&F, second, 3, dim)), y = n % 2 ? odd_back(&F, re, im) : even_back(&F, re, im);
	if (!F.oom) return shaped(&F, y, to.rank, to.dim);
	rt_fail(&g->err, TJ_ERR_NOMEM, "inverse_rdft", "out of memory");
	return IR_NONE;
}

/* ---- for gradients ---- */
typedef struct weights { int64_t n; double inner; } weights;
static double weight(const void *env, int64_t k)
{
	const weights *w = env;
	return k == 0 || 2 * k == w->n ? 1 : w->inner;
}

ir_ref ir_rfft_weights(ir_graph *g, ir_ref like, int rank, int64_t n, double inner, const char *site)
{
	fourier F = { .g = g, .site = site, .t = (tj_dtype)ir_at(g, like)->dtype, .like = like };
	int64_t dim[TJ_MAX_RANK];
	for (int i = 0; i < rank; i++) dim[i] = i ? 1 : n / 2 + 1;
	return ir_fft_table(&F, rank, dim, weight, &(weights){ n, inner });
}
