/* SPDX-License-Identifier: MIT */
/* winograd: the decomposition of a fast convolution whose windows are 3 x 3 and one step apart (TJ_FAST, the CPU).
 *
 *   a tile of x, (m + 2) x (m + 2)   ->  B' x B    (m + 2)^2 numbers for each channel
 *   a window of the weight           ->  G w G'    the same numbers for each pair of channels
 *   their products, added over the channels: one matrix product for each of the numbers
 *   what they give                   ->  A' y A    m x m elements of the result
 *
 * For m x m elements these are (m + 2)^2 multiplications for each pair of channels, not 9 m^2: 2.25 times fewer for m = 2, four times for
 * m = 4. Winograd, "Arithmetic complexity of computations", 1980; Lavin and Gray, "Fast algorithms for convolutional neural networks",
 * arXiv:1509.09308. The tile is interpolated at m + 1 points and infinity. m = 2: 0, 1, -1, as everywhere. m = 4: 0, +-5/8, +-3/2, whose
 * matrices for x and y are exact in f32, and whose errors are smaller than with 0, +-1, +-2. docs/NUMERICS.md has the bounds. */
#include "ir/winograd.h"
#include "ir/moves.h"

enum { SIDE = 6, MOST_TILE = 4 }; /* of the largest tile of x, of the result */

typedef struct winograd {
	ir_graph *g;
	const char *site;
	tj_dtype t;
	int m, side;                /* of a tile of the result, of x */
	int64_t n, down, across;    /* examples; tiles of a picture */
} winograd;

/* ---- does it pay? ---- */
/* Multiplications, in units of one of a product: the columns of a product are computed 16 at a time, and each element of the weight costs
 * WEIGHT more to load and to transform. A tile of a channel costs TWO or FOUR more. Measured on Zen 4. */
enum { LANES = 16, WEIGHT = 12, TWO = 110, FOUR = 400 };

static double columns(int64_t n) { return (double)((n + LANES - 1) / LANES * LANES + WEIGHT); }

static double cost(int m, const ir_meta *weight, int64_t channels, const ir_meta *to)
{
	const int64_t tiles = to->dim[0] * ((to->dim[2] + m - 1) / m) * ((to->dim[3] + m - 1) / m);
	const double pairs = (double)weight->dim[0] * (double)weight->dim[1], out = (double)weight->dim[0];
	return (m + 2) * (m + 2) * pairs * columns(tiles) + (m == 2 ? TWO : FOUR) * (double)tiles * ((double)channels + out);
}

int ir_winograd_tile(const ir_graph *g, ir_ref x, const ir_meta *weight, int64_t groups, const ir_window *w, const ir_meta *to)
{
	enum { CHANNELS = 8 }; /* of a group, at least */
	const ir_node *n = ir_at(g, x);
	bool fits = g->mode & IR_FAST && n->device == RT_CPU && w->n == 2 && n->dtype == weight->dtype && n->dtype == to->dtype &&
	            (n->dtype == TJ_F32 || n->dtype == TJ_F64);
	for (int i = 0; i < w->n && fits; i++)
		fits = w->size[i] == 3 && w->stride[i] == 1 && w->dilation[i] == 1 && to->dim[2 + i] > 0 && w->before[i] >= 0 && w->after[i] >= 0;
	if (!fits || weight->dim[1] < CHANNELS || weight->dim[0] < CHANNELS * groups) return 0;
	const int64_t channels = weight->dim[1] * groups;
	const double direct = 9.0 * (double)weight->dim[0] * (double)weight->dim[1] * columns(to->dim[0] * to->dim[2] * to->dim[3]),
		     two = cost(2, weight, channels, to), four = cost(4, weight, channels, to);
	if ((two < four ? two : four) > 0.8 * direct) return 0;
	return two < four ? 2 : 4;
}

/* ---- expressions ---- */
static ir_ref number(const winograd *W, double v) { return ir_const_f(W->g, W->t, 0, NULL, v); }
static ir_ref add(const winograd *W, ir_ref a, ir_ref b) { return ir_op2(W->g, IR_add, a, b, W->site); }
static ir_ref sub(const winograd *W, ir_ref a, ir_ref b) { return ir_op2(W->g, IR_sub, a, b, W->site); }
static ir_ref times(const winograd *W, ir_ref a, double k) { return ir_op2(W->g, IR_mul, a, number(W, k), W->site); }
static ir_ref more(const winograd *W, ir_ref a, ir_ref b, double k) { return add(W, a, times(W, b, k)); } /* a + b * k */
/* Two calls that emit nodes never stand in one expression: which came first would be the compiler's choice. */
static ir_ref shaped(const winograd *W, ir_ref x, int rank, const int64_t *dim) { return ir_reshape(W->g, x, rank, dim, W->site); }

/* n elements of an axis, from `first` on, `step` apart. */
static ir_ref part(const winograd *W, ir_ref x, int64_t axis, int64_t first, int64_t n, int64_t step)
{
	return ir_emit(W->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, first, first + (n - 1) * step + 1, step }, W->site);
}

/* The points +-P and +-Q of m = 4, and their powers. */
#define P (5.0 / 8)
#define Q (3.0 / 2)

/* B': the rows of a tile of x, in place. Row i of the result is the polynomial that is 0 at all points but the i-th. */
static void transform(const winograd *W, ir_ref *x)
{
	if (W->m == 2) {
		const ir_ref first = sub(W, x[0], x[2]), plus = add(W, x[1], x[2]), minus = sub(W, x[2], x[1]), last = sub(W, x[1], x[3]);
		x[0] = first, x[1] = plus, x[2] = minus, x[3] = last;
		return;
	}
	const ir_ref first = more(W, x[4], x[2], -P * P - Q * Q), last = more(W, x[5], x[3], -P * P - Q * Q);
	const ir_ref p = times(W, x[3], P), q = times(W, x[3], Q);
	const ir_ref even_p = more(W, x[4], x[2], -Q * Q), odd_p = more(W, p, x[1], -P * Q * Q);
	const ir_ref even_q = more(W, x[4], x[2], -P * P), odd_q = more(W, q, x[1], -Q * P * P);
	x[0] = more(W, first, x[0], P * P * Q * Q);
	x[5] = more(W, last, x[1], P * P * Q * Q);
	x[1] = add(W, even_p, odd_p);
	x[2] = sub(W, even_p, odd_p);
	x[3] = add(W, even_q, odd_q);
	x[4] = sub(W, even_q, odd_q);
}

/* A': m rows of the result from those of the products, in place. Row j takes the j-th powers of the points. */
static void back(const winograd *W, ir_ref *y)
{
	const ir_ref s = add(W, y[1], y[2]), d = sub(W, y[1], y[2]);
	if (W->m == 2) {
		y[0] = add(W, y[0], s);
		y[1] = sub(W, d, y[3]);
		return;
	}
	const ir_ref sq = add(W, y[3], y[4]), dq = sub(W, y[3], y[4]), all = add(W, s, sq);
	const ir_ref one = times(W, d, P), two = times(W, s, P * P), three = times(W, d, P * P * P);
	const ir_ref cubes = more(W, three, dq, Q * Q * Q);
	y[0] = add(W, y[0], all);
	y[1] = more(W, one, dq, Q);
	y[2] = more(W, two, sq, Q * Q);
	y[3] = add(W, y[5], cubes);
}

/* Row i of G: the powers of a point over the product of its distances to the others; the last: infinity. */
static void weights_of(int m, int i, double *row)
{
	static const double two[4][3] = { { 1, 0, 0 }, { .5, .5, .5 }, { .5, -.5, .5 }, { 0, 0, 1 } };
	const double point[] = { 0, P, -P, Q, -Q };
	if (m == 2) {
		memcpy(row, two[i], sizeof two[i]);
		return;
	}
	if (i == m + 1) {
		row[0] = row[1] = 0, row[2] = 1;
		return;
	}
	double apart = 1;
	for (int j = 0; j <= m; j++)
		if (j != i) apart *= point[i] - point[j];
	row[0] = 1 / apart, row[1] = point[i] / apart, row[2] = point[i] * point[i] / apart;
}

/* ---- the three transforms ---- */
/* G w G' for each pair of channels, [side * side * groups, O / groups, C / groups]: a matrix product, by the outer products of G's rows. */
static ir_ref weights(const winograd *W, ir_ref weight, int64_t groups)
{
	ir_meta m = ir_meta_of(W->g, weight);
	const int64_t out = m.dim[0], in = m.dim[1], all = (int64_t)W->side * W->side;
	double g[SIDE][3], wide[SIDE * SIDE * 9];
	float narrow[SIDE * SIDE * 9];
	int n = 0;
	for (int i = 0; i < W->side; i++) weights_of(W->m, i, g[i]);
	for (int k = 0; k < all; k++)
		for (int j = 0; j < 9; j++, n++) narrow[n] = (float)(wide[n] = g[k / W->side][j / 3] * g[k % W->side][j % 3]);
	m.rank = 2, m.dim[0] = all, m.dim[1] = 9;
	const ir_ref by = ir_data_(W->g, &m, W->t == TJ_F32 ? (void *)narrow : (void *)wide, W->site);
	weight = shaped(W, weight, 2, (int64_t[]){ out * in, 9 });
	weight = ir_emit(W->g, IR_permute, 1, &weight, 2, (int64_t[]){ 1, 0 }, W->site);
	return shaped(W, ir_op2(W->g, IR_matmul, by, weight, W->site), 3, (int64_t[]){ all * groups, out / groups, in });
}

/* B' x B of all tiles, [side * side * groups, C / groups, tiles]. */
static ir_ref tiles(const winograd *W, ir_ref x, int64_t groups)
{
	const int64_t channels = ir_dims(W->g, ir_at(W->g, x))[1], all = W->n * W->down * W->across;
	const int side = W->side;
	ir_ref row[SIDE], each[SIDE * SIDE];
	for (int i = 0; i < side; i++) row[i] = part(W, x, 2, i, W->down, W->m);
	transform(W, row);
	for (int i = 0; i < side; i++) {
		ir_ref *y = each + i * side;
		for (int j = 0; j < side; j++) y[j] = part(W, row[i], 3, j, W->across, W->m);
		transform(W, y);
		for (int j = 0; j < side; j++) {
			y[j] = ir_emit(W->g, IR_permute, 1, &y[j], 4, (int64_t[]){ 1, 0, 2, 3 }, W->site);
			y[j] = shaped(W, y[j], 3, (int64_t[]){ 1, channels, all });
		}
	}
	x = ir_emit(W->g, IR_cat, side * side, each, 1, (int64_t[]){ 0 }, W->site);
	return shaped(W, x, 3, (int64_t[]){ side * side * groups, channels / groups, all });
}

/* A' y A of all tiles, [N, O, down * m, across * m]. */
static ir_ref results(const winograd *W, ir_ref y, int64_t out)
{
	const int side = W->side, m = W->m;
	ir_ref row[SIDE], each[SIDE], place[MOST_TILE * MOST_TILE];
	y = shaped(W, y, 6, (int64_t[]){ side, side, out, W->n, W->down, W->across });
	for (int i = 0; i < side; i++) row[i] = part(W, y, 0, i, 1, 1);
	back(W, row);
	for (int i = 0; i < m; i++) {
		for (int j = 0; j < side; j++) each[j] = part(W, row[i], 1, j, 1, 1);
		back(W, each);
		for (int j = 0; j < m; j++) {
			const ir_ref p = shaped(W, each[j], 4, (int64_t[]){ out, W->n, W->down, W->across });
			place[i * m + j] = ir_emit(W->g, IR_permute, 1, &p, 4, (int64_t[]){ 1, 0, 2, 3 }, W->site);
		}
	}
	return ir_interleaved(W->g, 2, (int64_t[]){ m, m }, place, W->site);
}

ir_ref ir_winograd(ir_graph *g, int tile, ir_ref x, ir_ref weight, int64_t groups, const ir_window *w, const ir_meta *to, const char *site)
{
	const ir_meta t = ir_meta_of(g, x);
	const winograd W = { .g = g,
		             .site = site,
		             .t = (tj_dtype)t.dtype,
		             .m = tile,
		             .side = tile + 2,
		             .n = to->dim[0],
		             .down = (to->dim[2] + tile - 1) / tile,
		             .across = (to->dim[3] + tile - 1) / tile };
	const int64_t by[] = { w->before[0], W.down * tile + 2 - w->before[0] - t.dim[2], w->before[1],
		               W.across * tile + 2 - w->before[1] - t.dim[3] };
	x = ir_padded(g, x, number(&W, 0), 4, by, site);
	if (x == IR_NONE) return x;
	const ir_ref v = tiles(&W, x, groups), u = weights(&W, weight, groups);
	const ir_ref y = results(&W, ir_op2(g, IR_matmul, u, v, site), to->dim[1]);
	return part(&W, part(&W, y, 2, 0, to->dim[2], 1), 3, 0, to->dim[3], 1);
}
