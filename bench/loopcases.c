/* SPDX-License-Identifier: MIT */
/* loopcases: the cases of tj-bench --loops: points, pixels, grids, signals, tables, particles, finance, bytes. loophand.c has the same as
 * loops in C, bench/loops.py in Python. */
#include "bench/loops.h"

#define BODY(name) static void name(tj_tensor **out, tj_tensor *const *in, void *self)
#define LAST TJ_AXES(-1)
#define SIZES const int64_t *p = self

static tj_tensor *f32(tj_tensor *x) { return tj_cast(x, TJ_F32); }
static tj_tensor *i32(tj_tensor *x) { return tj_cast(x, TJ_I32); }
static tj_tensor *u8(tj_tensor *x) { return tj_cast(x, TJ_U8); }
static tj_tensor *part(tj_tensor *x, int64_t i) { return tj_select(x, -1, i); }
static tj_tensor *from(tj_tensor *x, int axis, int64_t start, int64_t n) { return tj_slice(x, axis, start, start + n, 1); }
static tj_tensor *add3(tj_tensor *a, tj_tensor *b, tj_tensor *c) { return tj_add(tj_add(a, b), c); }

/* ---- points ---- */
BODY(dots3) { (void)self, out[0] = tj_sum(tj_mul(in[0], in[1]), LAST, false); }
BODY(affine3) { (void)self, out[0] = tj_add(tj_matmul(in[0], in[1]), in[2]); }
BODY(mats4) { (void)self, out[0] = tj_matmul(in[0], in[1]); }

BODY(normals3)
{
	(void)self;
	tj_tensor *c = tj_cross(in[0], in[1], -1);
	out[0] = tj_div(c, tj_sqrt(tj_sum(tj_mul(c, c), LAST, true)));
}

/* Hamilton's product of quaternions w, x, y, z */
BODY(quats)
{
	(void)self;
	static const int at[4][4] = { { 0, 1, 2, 3 }, { 1, 0, 3, 2 }, { 2, 3, 0, 1 }, { 3, 2, 1, 0 } };
	static const int sign[4][4] = { { 1, -1, -1, -1 }, { 1, 1, 1, -1 }, { 1, -1, 1, 1 }, { 1, 1, -1, 1 } };
	tj_tensor *q[4];
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++) {
			tj_tensor *t = tj_mul(part(in[0], k), part(in[1], at[i][k]));
			q[i] = !k ? t : sign[i][k] > 0 ? tj_add(q[i], t) : tj_sub(q[i], t);
		}
	out[0] = tj_stack(TJ_LIST(q[0], q[1], q[2], q[3]), -1);
}

BODY(nearest8)
{
	(void)self;
	tj_tensor *d = tj_sub(tj_unsqueeze(in[0], 1), in[1]); /* [n,8,2] */
	out[0] = tj_argmin(tj_sum(tj_mul(d, d), LAST, false), -1, false);
}

/* ---- pixels ---- */
static tj_tensor *grey_of(tj_tensor *rgb)
{
	tj_tensor *x = f32(rgb);
	return add3(tj_mul(part(x, 0), tj_f(0.299)), tj_mul(part(x, 1), tj_f(0.587)), tj_mul(part(x, 2), tj_f(0.114)));
}

BODY(grey) { (void)self, out[0] = u8(grey_of(in[0])); }

BODY(blend)
{
	(void)self;
	tj_tensor *a = i32(in[2]), *b = tj_sub(tj_i(255), a);
	tj_tensor *sum = add3(tj_mul(i32(in[0]), a), tj_mul(i32(in[1]), b), tj_i(128));
	out[0] = u8(tj_shift_right(tj_mul(sum, tj_i(257)), tj_i(16)));
}

BODY(planes)
{
	(void)self;
	tj_tensor *x = tj_mul(f32(tj_permute(in[0], TJ_AXES(2, 0, 1))), tj_f(1 / 255.0));
	out[0] = tj_div(tj_sub(x, tj_f(0.45)), tj_f(0.225));
}

/* replicated borders of `by` elements on one axis, then taps */
static tj_tensor *blur(tj_tensor *x, int axis, int64_t n)
{
	static const double tap[7] = { 0.03125, 0.109375, 0.21875, 0.28125, 0.21875, 0.109375, 0.03125 };
	tj_tensor *p = tj_pad(x, axis ? TJ_SHAPE(0, 0, 3, 3) : TJ_SHAPE(3, 3, 0, 0), TJ_PAD_REPLICATE, NULL), *sum = NULL;
	for (int k = 0; k < 7; k++) {
		tj_tensor *t = tj_mul(from(p, axis, k, n), tj_f(tap[k]));
		sum = sum ? tj_add(sum, t) : t;
	}
	return sum;
}

/* grey, blur 7 x 7, Sobel, clamp */
BODY(edges)
{
	SIZES;
	const int64_t h = p[0], w = p[1];
	tj_tensor *g = tj_pad(blur(blur(grey_of(in[0]), 1, w), 0, h), TJ_SHAPE(1, 1, 1, 1), TJ_PAD_REPLICATE, NULL);
	tj_tensor *row[3], *dx[3], *sm[3];
	for (int k = 0; k < 3; k++) {
		row[k] = from(g, 0, k, h);
		dx[k] = tj_sub(from(row[k], 1, 2, w), from(row[k], 1, 0, w));
		sm[k] = add3(from(row[k], 1, 0, w), tj_mul(from(row[k], 1, 1, w), tj_f(2)), from(row[k], 1, 2, w));
	}
	tj_tensor *x = add3(dx[0], tj_mul(dx[1], tj_f(2)), dx[2]), *y = tj_sub(sm[2], sm[0]);
	tj_tensor *m = tj_sqrt(tj_add(tj_mul(x, x), tj_mul(y, y)));
	out[0] = u8(tj_clamp(m, tj_f(0), tj_f(255)));
}

BODY(equalise)
{
	SIZES;
	tj_tensor *sum = tj_cumsum(tj_bincount(in[0], NULL, 0, 256), 0);
	tj_tensor *map = u8(tj_floor_divide(tj_mul(sum, tj_i(255)), tj_i(p[0])));
	out[0] = tj_index_select(map, 0, in[0]);
}

/* ---- grids ---- */
static tj_tensor *laplace(tj_tensor *u)
{
	tj_tensor *x = tj_add(tj_roll(u, 1, 1), tj_roll(u, -1, 1)), *y = tj_add(tj_roll(u, 1, 0), tj_roll(u, -1, 0));
	return tj_sub(tj_add(x, y), tj_mul(u, tj_f(4)));
}

BODY(wave) { (void)self, out[0] = tj_add(tj_sub(tj_mul(in[0], tj_f(2)), in[1]), tj_mul(laplace(in[0]), tj_f(0.2))); }

BODY(grayscott)
{
	(void)self;
	tj_tensor *u = in[0], *v = in[1], *uvv = tj_mul(u, tj_mul(v, v));
	out[0] = tj_add(u, tj_add(tj_sub(tj_mul(laplace(u), tj_f(0.16)), uvv), tj_mul(tj_sub(tj_f(1), u), tj_f(0.035))));
	out[1] = tj_add(v, tj_sub(tj_add(tj_mul(laplace(v), tj_f(0.08)), uvv), tj_mul(v, tj_f(0.1))));
}

BODY(heat3)
{
	SIZES;
	const int64_t n = p[0];
	tj_tensor *g = tj_pad(in[0], TJ_SHAPE(1, 1, 1, 1, 1, 1), TJ_PAD_REPLICATE, NULL), *sum = NULL;
	for (int axis = 0; axis < 3; axis++)
		for (int k = 0; k < 3; k += 2) {
			tj_tensor *t = g;
			for (int a = 0; a < 3; a++) t = from(t, a, a == axis ? k : 1, n);
			sum = sum ? tj_add(sum, t) : t;
		}
	out[0] = tj_add(in[0], tj_mul(tj_sub(sum, tj_mul(in[0], tj_f(6))), tj_f(0.1)));
}

BODY(life)
{
	(void)self;
	tj_tensor *c = add3(tj_roll(in[0], 1, 1), in[0], tj_roll(in[0], -1, 1));
	tj_tensor *n = tj_sub(add3(tj_roll(c, 1, 0), c, tj_roll(c, -1, 0)), in[0]);
	out[0] = u8(tj_logical_or(tj_eq(n, tj_i(3)), tj_logical_and(tj_eq(n, tj_i(2)), tj_ne(in[0], tj_i(0)))));
}

/* first order, against the wind */
BODY(upwind)
{
	(void)self;
	tj_tensor *u = in[0], *c = in[1];
	tj_tensor *d = tj_where(tj_gt(c, tj_f(0)), tj_sub(u, tj_roll(u, 1, 0)), tj_sub(tj_roll(u, -1, 0), u));
	out[0] = tj_sub(u, tj_mul(c, d));
}

/* ---- signals ---- */
BODY(fir32)
{
	SIZES;
	for (int k = 0; k < 32; k++) {
		tj_tensor *t = tj_mul(from(in[0], 0, k, p[0]), tj_select(in[1], 0, k));
		out[0] = k ? tj_add(out[0], t) : t;
	}
}

BODY(gain16)
{
	(void)self;
	tj_tensor *y = tj_shift_right(tj_mul(i32(in[0]), tj_i(13)), tj_i(3));
	out[0] = tj_cast(tj_clamp(y, tj_i(-32768), tj_i(32767)), TJ_I16);
}

BODY(midside)
{
	(void)self;
	tj_tensor *l = i32(part(in[0], 0)), *r = i32(part(in[0], 1));
	tj_tensor *m = tj_shift_right(tj_add(l, r), tj_i(1)), *s = tj_shift_right(tj_sub(l, r), tj_i(1));
	out[0] = tj_cast(tj_stack(TJ_LIST(m, s), -1), TJ_I16);
}

BODY(haar)
{
	SIZES;
	tj_tensor *a = tj_slice(in[0], 0, 0, 2 * p[0], 2), *b = tj_slice(in[0], 0, 1, 2 * p[0], 2);
	out[0] = tj_mul(tj_add(a, b), tj_f(0.70710678));
	out[1] = tj_mul(tj_sub(a, b), tj_f(0.70710678));
}

/* complex numbers as pairs */
BODY(cmul)
{
	(void)self;
	tj_tensor *a = part(in[0], 0), *b = part(in[0], 1), *c = part(in[1], 0), *d = part(in[1], 1);
	out[0] = tj_stack(TJ_LIST(tj_sub(tj_mul(a, c), tj_mul(b, d)), tj_add(tj_mul(a, d), tj_mul(b, c))), -1);
}

/* ---- tables ---- */
BODY(lut8) { (void)self, out[0] = tj_index_select(in[1], 0, in[0]); }
BODY(palette) { (void)self, out[0] = tj_index_select(in[1], 0, in[0]); }
BODY(hist8) { (void)self, out[0] = tj_bincount(in[0], NULL, 0, 256); }
BODY(groupby) { (void)self, out[0] = tj_scatter_add(tj_zeros(TJ_F32, TJ_SHAPE(LOOP_BINS)), 0, in[0], in[1]); }

BODY(lerp_table)
{
	(void)self;
	tj_tensor *x = tj_mul(tj_clamp(in[0], tj_f(0), tj_f(0.999)), tj_f(1024)), *k = i32(x), *f = tj_sub(x, f32(k));
	tj_tensor *a = tj_index_select(in[1], 0, k), *b = tj_index_select(in[1], 0, tj_add(k, tj_i(1)));
	out[0] = tj_add(a, tj_mul(f, tj_sub(b, a)));
}

/* ---- particles ---- */
static tj_tensor *pull(tj_tensor *x, tj_tensor *mass, bool power)
{
	tj_tensor *d = tj_sub(tj_unsqueeze(x, 0), tj_unsqueeze(x, 1)); /* [n,n,3] */
	tj_tensor *r2 = tj_add(tj_sum(tj_mul(d, d), LAST, false), tj_f(0.01));
	tj_tensor *w = power ? tj_pow(r2, tj_f(-1.5)) : tj_div(tj_f(1), tj_mul(r2, tj_sqrt(r2)));
	return tj_sum(tj_mul(d, tj_unsqueeze(mass ? tj_mul(w, mass) : w, -1)), TJ_AXES(1), false);
}

BODY(nbody) { (void)self, out[0] = pull(in[0], in[1], false); }
BODY(nbody_pow) { (void)self, out[0] = pull(in[0], NULL, true); }

/* energy of all pairs; half of the sum, without i = j */
BODY(lennard)
{
	SIZES;
	tj_tensor *d = tj_sub(tj_unsqueeze(in[0], 0), tj_unsqueeze(in[0], 1));
	tj_tensor *r2 = tj_add(tj_sum(tj_mul(d, d), LAST, false), tj_eye(TJ_F64, p[0], p[0]));
	tj_tensor *s = tj_div(tj_f(0.01), r2), *s3 = tj_mul(tj_mul(s, s), s);
	tj_tensor *e = tj_mul(tj_mul(s3, tj_sub(s3, tj_f(1))), tj_sub(tj_f(1), tj_eye(TJ_F64, p[0], p[0])));
	out[0] = tj_mul(tj_sum(e, TJ_ALL, false), tj_f(2));
}

/* one step in a box with periodic sides */
BODY(drift)
{
	(void)self;
	tj_tensor *x = tj_add(in[0], tj_mul(in[1], tj_f(0.01)));
	out[0] = tj_sub(x, tj_floor(x));
}

/* ---- finance ---- */
static tj_tensor *normal_cdf(tj_tensor *x) { return tj_mul(tj_add(tj_erf(tj_mul(x, tj_f(0.70710678118654752))), tj_f(1)), tj_f(0.5)); }

/* a call; in: spot, strike, years */
BODY(blackscholes)
{
	(void)self;
	const double rate = 0.02, vol = 0.3;
	tj_tensor *s = tj_add(tj_abs(in[0]), tj_f(0.5)), *k = tj_add(tj_abs(in[1]), tj_f(0.5)), *t = tj_add(tj_abs(in[2]), tj_f(0.1));
	tj_tensor *v = tj_mul(tj_sqrt(t), tj_f(vol));
	tj_tensor *d = tj_div(tj_add(tj_log(tj_div(s, k)), tj_mul(t, tj_f(rate + vol * vol / 2))), v);
	tj_tensor *now = tj_mul(k, tj_exp(tj_mul(t, tj_f(-rate))));
	out[0] = tj_sub(tj_mul(s, normal_cdf(d)), tj_mul(now, normal_cdf(tj_sub(d, v))));
}

/* the value of 20 coupons at a rate */
BODY(bonds)
{
	(void)self;
	tj_tensor *year = tj_arange(TJ_F32, 1, 21, 1), *rate = tj_mul(tj_abs(in[0]), tj_f(0.1));
	out[0] = tj_sum(tj_mul(tj_exp(tj_neg(tj_mul(tj_unsqueeze(rate, -1), year))), tj_f(0.05)), LAST, false);
}

/* open, high, low, close of 16 prices each */
BODY(bars)
{
	(void)self;
	out[0] = tj_stack(TJ_LIST(part(in[0], 0), tj_amax(in[0], LAST, false), tj_amin(in[0], LAST, false), part(in[0], 15)), -1);
}

/* of logarithmic returns */
BODY(volatility)
{
	SIZES;
	tj_tensor *x = tj_add(tj_abs(in[0]), tj_f(1)), *r = tj_log(tj_div(from(x, 0, 1, p[0] - 1), from(x, 0, 0, p[0] - 1)));
	out[0] = tj_sqrt(tj_var(r, TJ_ALL, 1, false));
}

/* ---- bytes ---- */
BODY(utf8) { (void)self, out[0] = tj_count_nonzero(tj_ne(tj_bitwise_and(in[0], tj_i(0xC0)), tj_i(0x80)), TJ_ALL); }
BODY(sad) { (void)self, out[0] = tj_sum(tj_abs(tj_sub(i32(in[0]), i32(in[1]))), TJ_ALL, false); }
BODY(mask) { (void)self, out[0] = tj_bitwise_xor(tj_bitwise_and(in[0], in[1]), tj_i(0x5A)); }

BODY(upper)
{
	(void)self;
	tj_tensor *small = tj_logical_and(tj_ge(in[0], tj_i('a')), tj_le(in[0], tj_i('z')));
	out[0] = tj_where(small, tj_sub(in[0], tj_i(32)), in[0]);
}

static tj_tensor *digit(tj_tensor *x) { return tj_add(x, tj_where(tj_lt(x, tj_i(10)), tj_i('0'), tj_i('a' - 10))); }
BODY(hex)
{
	(void)self;
	out[0] = u8(tj_stack(TJ_LIST(digit(tj_shift_right(in[0], tj_i(4))), digit(tj_bitwise_and(in[0], tj_i(15)))), -1));
}

/* ---- the table ---- */
enum { K = 1000, M = K * K, FHD = 1080, WIDE = 1920 };
/* clang-format off */
#define ROW(name, body, shapes, ...) { #name, shapes, body, loop_##name, __VA_ARGS__ }
const loop_case loop_cases[] = {
	/*  name             body          shapes                                full              small         tolerance */
	ROW(dots3,           dots3,        "f[n,3] f[n,3] -> f[n]",              { M },            { 37 },       1e-6),
	ROW(affine3,         affine3,      "f[n,3] f[3,3] f[3] -> f[n,3]",       { M },            { 37 },       1e-6),
	ROW(normals3,        normals3,     "f[n,3] f[n,3] -> f[n,3]",            { 200 * K },      { 37 },       1e-5),
	ROW(quats,           quats,        "d[n,4] d[n,4] -> d[n,4]",            { 100 * K },      { 37 },       1e-12),
	ROW(mats4,           mats4,        "f[n,4,4] f[n,4,4] -> f[n,4,4]",      { 2 * K },        { 7 },        1e-6),
	ROW(nearest8,        nearest8,     "f[n,2] f[8,2] -> l[n]",              { 500 * K },      { 37 },       0),

	ROW(grey,            grey,         "b[n,m,3] -> b[n,m]",                 { FHD, WIDE },    { 5, 37 },    1),
	ROW(blend,           blend,        "b[n,m,3] b[n,m,3] b[n,m,1] -> b[n,m,3]", { FHD, WIDE }, { 5, 37 },   0),
	ROW(planes,          planes,       "b[n,m,3] -> f[3,n,m]",               { 512, 512 },     { 5, 37 },    1e-5),
	ROW(edges,           edges,        "b[n,m,3] -> b[n,m]",                 { FHD, WIDE },    { 9, 37 },    1),
	ROW(equalise,        equalise,     "b[n] -> b[n]",                       { 2 * M },        { 377 },      0),

	ROW(wave,            wave,         "f[n,m] f[n,m] -> f[n,m]",            { FHD, WIDE },    { 7, 37 },    1e-5),
	ROW(grayscott,       grayscott,    "f[n,n] f[n,n] -> f[n,n] f[n,n]",     { 512 },          { 13 },       1e-5),
	ROW(heat3,           heat3,        "f[n,n,n] -> f[n,n,n]",               { 96 },           { 9 },        1e-5),
	ROW(life,            life,         "o[n,n] -> b[n,n]",                   { 1024 },         { 21 },       0),
	ROW(upwind,          upwind,       "d[n] d[n] -> d[n]",                  { 1500 },         { 37 },       1e-12),

	ROW(fir32,           fir32,        "f[n+31] f[32] -> f[n]",              { M },            { 77 },       1e-5),
	ROW(gain16,          gain16,       "h[n] -> h[n]",                       { 2 * M },        { 77 },       0),
	ROW(midside,         midside,      "h[n,2] -> h[n,2]",                   { M },            { 77 },       0),
	ROW(haar,            haar,         "f[2n] -> f[n] f[n]",                 { M },            { 77 },       1e-6),
	ROW(cmul,            cmul,         "f[n,2] f[n,2] -> f[n,2]",            { M },            { 77 },       1e-6),

	ROW(lut8,            lut8,         "b[n] b[256] -> b[n]",                { 6 * M },        { 777 },      0),
	ROW(palette,         palette,      "b[n] b[256,3] -> b[n,3]",            { M },            { 777 },      0),
	ROW(lerp_table,      lerp_table,   "f[n] f[1025] -> f[n]",               { 200 * K },      { 77 },       1e-6),
	ROW(hist8,           hist8,        "b[n] -> l[256]",                     { 6 * M },        { 777 },      0),
	ROW(groupby,         groupby,      "x[n] f[n] -> f[1000]",               { M },            { 777 },      1e-4),

	ROW(nbody,           nbody,        "f[n,3] f[n] -> f[n,3]",              { 1500 },         { 23 },       1e-4),
	ROW(nbody_pow,       nbody_pow,    "f[n,3] -> f[n,3]",                   { 2000 },         { 23 },       1e-4),
	ROW(lennard,         lennard,      "d[n,3] -> d[]",                      { 500 },          { 23 },       1e-9),
	ROW(drift,           drift,        "f[n,3] f[n,3] -> f[n,3]",            { M },            { 37 },       1e-5),

	ROW(blackscholes,    blackscholes, "f[n] f[n] f[n] -> f[n]",             { M },            { 77 },       1e-5),
	ROW(blackscholes64,  blackscholes, "d[n] d[n] d[n] -> d[n]",             { K },            { 77 },       1e-9),
	ROW(bonds,           bonds,        "f[n] -> f[n]",                       { 100 * K },      { 77 },       1e-5),
	ROW(bars,            bars,         "f[n,16] -> f[n,4]",                  { 100 * K },      { 77 },       0),
	ROW(volatility,      volatility,   "d[n] -> d[]",                        { M },            { 77 },       1e-9),

	ROW(utf8,            utf8,         "b[n] -> l[]",                        { 16 * M },       { 777 },      0),
	ROW(upper,           upper,        "b[n] -> b[n]",                       { 4 * M },        { 777 },      0),
	ROW(sad,             sad,          "b[n] b[n] -> l[]",                   { 2 * M },        { 777 },      0),
	ROW(hex,             hex,          "b[n] -> b[n,2]",                     { M },            { 777 },      0),
	ROW(mask,            mask,         "b[n] b[n] -> b[n]",                  { 16 * K },       { 777 },      0),
};
/* clang-format on */
const int loop_count = sizeof loop_cases / sizeof *loop_cases;
