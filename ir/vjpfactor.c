/* SPDX-License-Identifier: MIT */
/* vjpfactor: gradients through factors of matrices, by products and triangular solves. The gradient by L of a L = P L U, and so on, is that
 * of a matrix of which the factor's zeros are no part.
 *
 * Formulas: Murray, "Differentiation of the Cholesky decomposition", arXiv:1602.07527; Walter and Lehmann, "On evaluating higher-order
 * derivatives of the QR decomposition", arXiv:1009.6112; LU as in PyTorch. */
#include "ir/vjp.h"

typedef struct maker { ir_graph *g; const char *site; } maker;

static int rank_of(const maker *m, ir_ref r) { return r == IR_NONE ? 2 : ir_at(m->g, r)->rank; }
static ir_ref op2(const maker *m, ir_op op, ir_ref a, ir_ref b) { return ir_op2(m->g, op, a, b, m->site); }
static ir_ref with(const maker *m, ir_op op, ir_ref a, int n, const int64_t *attr) { return ir_emit(m->g, op, 1, &a, n, attr, m->site); }
static ir_ref half(const maker *m, ir_ref a)
{
	return a == IR_NONE ? a : op2(m, IR_mul, a, ir_const_f(m->g, (tj_dtype)ir_at(m->g, a)->dtype, 0, NULL, 0.5));
}

static ir_ref turned(const maker *m, ir_ref a) { return with(m, IR_transpose, a, 2, (int64_t[]){ -2, -1 }); }
static ir_ref low(const maker *m, ir_ref a, int64_t k) { return with(m, IR_tril, a, 1, &k); }
static ir_ref high(const maker *m, ir_ref a) { return with(m, IR_triu, a, 1, (int64_t[]){ 0 }); }
static ir_ref product(const maker *m, ir_ref a, ir_ref b) { return op2(m, IR_matmul, a, b); }
static ir_ref rows(const maker *m, ir_ref a, int64_t from, int64_t to) { return with(m, IR_slice, a, 4, (int64_t[]){ -2, from, to, 1 }); }
static ir_ref columns(const maker *m, ir_ref a, int64_t from, int64_t to)
{
	return with(m, IR_slice, a, 4, (int64_t[]){ -1, from, to, 1 });
}
static ir_ref both_flipped(const maker *m, ir_ref a)
{
	const int rank = rank_of(m, a);
	return with(m, IR_flip, a, 2, (int64_t[]){ rank - 2, rank - 1 });
}

static ir_ref flipped(const maker *m, ir_ref a) { return with(m, IR_flip, a, 1, (int64_t[]){ rank_of(m, a) - 2 }); }

/* u x = b; of u what is below the diagonal is not read. In the other order of rows and columns u is lower triangular. */
static ir_ref solve_upper(const maker *m, ir_ref u, ir_ref b, bool unit)
{
	const ir_ref l = both_flipped(m, u), r = flipped(m, b);
	return flipped(m, ir_emit(m->g, IR_solve_lower, 2, (ir_ref[]){ l, r }, 1, (int64_t[]){ unit }, m->site));
}

/* x u' = b */
static ir_ref from_right(const maker *m, ir_ref u, ir_ref b) { return turned(m, solve_upper(m, u, turned(m, b), false)); }

ir_ref ir_vjp_cholesky(ir_graph *g, ir_ref l, ir_ref grad, const char *site)
{
	const maker m = { g, site };
	const ir_ref up = turned(&m, l), p = product(&m, up, grad), whole = low(&m, p, 0);
	const ir_ref phi = half(&m, op2(&m, IR_add, whole, low(&m, p, -1))), left = solve_upper(&m, up, phi, false);
	const ir_ref s = solve_upper(&m, up, turned(&m, left), false);
	return half(&m, op2(&m, IR_add, s, turned(&m, s)));
}

void ir_vjp_solve_lower(ir_graph *g, ir_ref a, ir_ref x, ir_ref grad, bool unit, const char *site, ir_ref *to)
{
	const maker m = { g, site };
	to[1] = solve_upper(&m, turned(&m, a), grad, unit);
	const ir_ref p = product(&m, to[1], turned(&m, x)), part = low(&m, p, unit ? -1 : 0);
	to[0] = ir_op1(g, IR_neg, part, site);
}

ir_ref ir_vjp_lu(ir_graph *g, ir_ref y, ir_ref grad, int64_t n, const char *site)
{
	const maker m = { g, site };
	if (y == IR_NONE) return y;
	const ir_meta t = ir_meta_of(g, y);
	ir_meta square = t;
	square.dim[t.rank - 1] = n;
	const ir_ref packed = columns(&m, y, 0, n), part = columns(&m, grad, 0, n), up = turned(&m, packed);
	const ir_ref here = ir_emit(g, IR_eye, 0, NULL, 3, (int64_t[]){ t.dtype, n, n }, site);
	const ir_ref one = here == IR_NONE ? here : ir_keep_device(g, here, ir_at(g, y));
	const ir_ref below = low(&m, packed, -1);
	const ir_ref l = op2(&m, IR_add, below, one), left = product(&m, turned(&m, l), low(&m, part, -1));
	const ir_ref u = high(&m, packed), right = product(&m, high(&m, part), turned(&m, u));
	const ir_ref middle = op2(&m, IR_add, low(&m, left, -1), high(&m, right));
	const ir_ref z = from_right(&m, packed, solve_upper(&m, up, middle, true));
	/* row i is that of row order[i] of the operand */
	const ir_ref order = ir_cast(g, columns(&m, y, n, n + 1), TJ_I64, site);
	const ir_ref place = with(&m, IR_argsort, order, 2, (int64_t[]){ t.rank - 2, 0 }), all = ir_expand(g, place, t.rank, square.dim, site);
	return ir_emit(g, IR_gather, 2, (ir_ref[]){ z, all }, 1, (int64_t[]){ t.rank - 2 }, site);
}

/* Of q [m,n] and r [n,n]. */
static ir_ref tall(const maker *m, ir_ref q, ir_ref r, ir_ref dq, ir_ref dr)
{
	const ir_ref a = product(m, r, turned(m, dr)), b = product(m, turned(m, dq), q), d = op2(m, IR_sub, a, b);
	const ir_ref lower = low(m, d, 0), mirrored = turned(m, low(m, d, -1)), both = op2(m, IR_add, lower, mirrored);
	return from_right(m, r, op2(m, IR_add, dq, product(m, q, both)));
}

ir_ref ir_vjp_qr(ir_graph *g, ir_ref x, ir_ref y, ir_ref grad, const char *site)
{
	const maker m = { g, site };
	if (x == IR_NONE) return x;
	const ir_meta t = ir_meta_of(g, x);
	const int64_t down = t.dim[t.rank - 2], across = t.dim[t.rank - 1], all = down + across;
	const ir_ref q = rows(&m, y, 0, down), r = turned(&m, rows(&m, y, down, all));
	const ir_ref dq = rows(&m, grad, 0, down), dr = turned(&m, rows(&m, grad, down, all));
	if (down >= across) return tall(&m, q, r, dq, dr);
	/* a = [x y] = q [u v] */
	const ir_ref v = columns(&m, x, down, across), dv = columns(&m, dr, down, across), more = product(&m, v, turned(&m, dv));
	const ir_ref left = tall(&m, q, columns(&m, r, 0, down), op2(&m, IR_add, dq, more), columns(&m, dr, 0, down));
	const ir_ref right = product(&m, q, dv);
	return ir_emit(g, IR_cat, 2, (ir_ref[]){ left, right }, 1, (int64_t[]){ -1 }, site);
}
