/* SPDX-License-Identifier: MIT */
/* vjpspectral: gradients through eigenvalues and singular values, of real matrices, from values and vectors and their gradients.
 *
 *   a = v l v'      v (diag(dl) + (x + y) / 2) v'                         y = x', x[i][j] = (v' dv)[i][j] / (l[j] - l[i]), 0 for i = j
 *   a = u s v'      u (diag(ds) + (p + p') s + s (q + q')) v'             p of u' du, q of v' dv, divided by s[j]^2 - s[i]^2
 *                   and (du - u u' du) / s v' if a is tall, u ((dv - v v' dv) / s)' if it is wide
 *
 * Formulas: Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
 * 3.1 and 3.2; Townsend, "Differentiating the singular value decomposition", 2016.
 *
 * Where two values are equal, vectors are not determined, and a quotient is inf, as in PyTorch, but 0 where the numerator is 0. With
 * `zero`, all quotients whose values differ by less than rounding are 0. Values alone have no quotients. */
#include "ir/vjp.h"

typedef struct maker {
	ir_graph *g;
	const char *site;
	ir_meta t;    /* of the result */
	ir_ref bound; /* smaller differences count as none; IR_NONE: quotients are inf there */
} maker;

static ir_ref op1(const maker *m, ir_op op, ir_ref a) { return ir_op1(m->g, op, a, m->site); }
static ir_ref op2(const maker *m, ir_op op, ir_ref a, ir_ref b) { return ir_op2(m->g, op, a, b, m->site); }
static ir_ref with(const maker *m, ir_op op, ir_ref a, int n, const int64_t *attr) { return ir_emit(m->g, op, 1, &a, n, attr, m->site); }
static ir_ref number(const maker *m, double x) { return ir_const_f(m->g, (tj_dtype)m->t.dtype, 0, NULL, x); }
static ir_ref turned(const maker *m, ir_ref a) { return with(m, IR_transpose, a, 2, (int64_t[]){ -2, -1 }); }
static ir_ref product(const maker *m, ir_ref a, ir_ref b) { return op2(m, IR_matmul, a, b); }
static ir_ref rows(const maker *m, ir_ref a, int64_t from, int64_t to) { return with(m, IR_slice, a, 4, (int64_t[]){ -2, from, to, 1 }); }
static ir_ref added(const maker *m, ir_ref a, ir_ref b) { return a == IR_NONE ? b : b == IR_NONE ? a : op2(m, IR_add, a, b); }
static ir_ref where(const maker *m, ir_ref c, ir_ref a, ir_ref b)
{
	if (c == IR_NONE || a == IR_NONE || b == IR_NONE) return IR_NONE;
	return ir_emit(m->g, IR_where, 3, (ir_ref[]){ c, a, b }, 0, NULL, m->site);
}

/* True on the diagonal of [k,k]. */
static ir_ref diagonal(const maker *m, ir_ref like)
{
	const int64_t k = m->t.dim[m->t.rank - 1];
	const ir_ref one = ir_emit(m->g, IR_eye, 0, NULL, 3, (int64_t[]){ TJ_BOOL, k, k }, m->site);
	return like == IR_NONE || one == IR_NONE ? IR_NONE : ir_keep_device(m->g, one, ir_at(m->g, like));
}

/* These rows of the gradient are zero, as far as its form shows: zeros and a part that were joined, or sums of such. */
static bool is_zero(const maker *m, ir_ref r, int64_t from, int64_t to)
{
	const ir_node *n = ir_at(m->g, r);
	const ir_ref *src = m->g->refs.v + n->src;
	const ir_scalar x = n->op == IR_const ? ir_const_value(m->g, n) : (ir_scalar){ 0 };
	if (n->op == IR_const) return n->dtype == TJ_F64 ? x.d == 0 : x.f == 0;
	if (n->op == IR_cast) return is_zero(m, src[0], from, to);
	if (n->op == IR_add) return is_zero(m, src[0], from, to) && is_zero(m, src[1], from, to);
	if (n->op != IR_cat || ir_attr(m->g, n)[0] != n->rank - 2) return false;
	int64_t at = 0;
	for (int k = 0; k < n->nsrc; k++) {
		const int64_t size = ir_dims(m->g, ir_at(m->g, src[k]))[n->rank - 2], end = at + size;
		if (at < to && end > from && !is_zero(m, src[k], from > at ? from - at : 0, to < end ? to - at : size)) return false;
		at = end;
	}
	return true;
}

/* a / by; apart: the difference of values that is a factor of `by`. It must be linear in a (ir_jvp()), and 0 where a is 0. */
static ir_ref quotient(const maker *m, ir_ref a, ir_ref by, ir_ref apart)
{
	const bool wide = m->t.dtype == TJ_F64;
	const ir_ref one = number(m, 1), most = number(m, wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127);
	const bool zero = m->bound != IR_NONE;
	const ir_ref small = zero ? m->bound : number(m, wide ? 0x1p-1022 : 0x1p-126);
	const ir_ref none = op2(m, IR_le, op1(m, IR_abs, zero ? apart : by), small), over = op2(m, IR_div, one, where(m, none, one, by));
	const ir_ref q = op2(m, IR_mul, a, where(m, none, zero ? number(m, 0) : most, over));
	return zero ? q : op2(m, IR_mul, q, where(m, none, most, one)); /* twice the largest number: inf, unless a is 0 */
}

/* x + x' for x = v' dv over the differences of values; 0 on the diagonal. */
static ir_ref pairs(const maker *m, ir_ref vdv, ir_ref by, ir_ref apart)
{
	const ir_ref x = where(m, diagonal(m, vdv), number(m, 0), vdv), q = quotient(m, x, by, apart);
	return op2(m, IR_add, q, turned(m, q));
}

/* values [...,1,k]: a difference below this is no difference. */
static ir_ref bound(const maker *m, ir_ref values, int64_t size)
{
	const ir_ref all = ir_reduce(m->g, IR_amax, op1(m, IR_abs, values), 1u << (m->t.rank - 1), true, m->site);
	return op2(m, IR_mul, all, number(m, (m->t.dtype == TJ_F64 ? 0x1p-52 : 0x1p-23) * (double)size));
}

ir_ref ir_vjp_eigh(ir_graph *g, ir_ref y, ir_ref grad, bool zero, const char *site)
{
	if (y == IR_NONE || grad == IR_NONE) return IR_NONE;
	maker m = { g, site, ir_meta_of(g, y), IR_NONE };
	const int64_t n = m.t.dim[m.t.rank - 1];
	if (!n) return IR_NONE;
	const ir_ref v = rows(&m, y, 0, n), l = rows(&m, y, n, n + 1), dl = rows(&m, grad, n, n + 1);
	ir_ref middle = number(&m, 0);
	if (!is_zero(&m, grad, 0, n)) {
		if (zero) m.bound = bound(&m, l, n);
		const ir_ref apart = op2(&m, IR_sub, l, turned(&m, l)), vdv = product(&m, turned(&m, v), rows(&m, grad, 0, n));
		middle = op2(&m, IR_mul, pairs(&m, vdv, apart, apart), number(&m, 0.5));
	}
	middle = where(&m, diagonal(&m, v), dl, middle);
	return product(&m, product(&m, v, middle), turned(&m, v));
}

/* What lies outside of the space of the columns of u: (du - u u' du) / s. */
static ir_ref outside(const maker *m, ir_ref u, ir_ref udu, ir_ref du, ir_ref s)
{
	return quotient(m, op2(m, IR_sub, du, product(m, u, udu)), s, s);
}

ir_ref ir_vjp_svd(ir_graph *g, ir_ref x, ir_ref y, ir_ref grad, bool zero, const char *site)
{
	if (x == IR_NONE || y == IR_NONE || grad == IR_NONE) return IR_NONE;
	maker k = { g, site, ir_meta_of(g, y), IR_NONE }, *m = &k;
	const ir_meta t = ir_meta_of(g, x);
	const int64_t down = t.dim[t.rank - 2], across = t.dim[t.rank - 1], all = down + across;
	if (!down || !across) return IR_NONE;
	const ir_ref u = rows(m, y, 0, down), v = rows(m, y, down, all), s = rows(m, y, all, all + 1), right = turned(m, v);
	const ir_ref apart = op2(m, IR_sub, s, turned(m, s)), by = op2(m, IR_mul, apart, op2(m, IR_add, s, turned(m, s)));
	if (zero) k.bound = bound(m, s, down > across ? down : across);
	ir_ref middle = IR_NONE, more = IR_NONE;
	if (!is_zero(m, grad, 0, down)) {
		const ir_ref du = rows(m, grad, 0, down), udu = product(m, turned(m, u), du);
		middle = op2(m, IR_mul, pairs(m, udu, by, apart), s);
		if (down > across) more = product(m, outside(m, u, udu, du, s), right);
	}
	if (!is_zero(m, grad, down, all)) {
		const ir_ref dv = rows(m, grad, down, all), vdv = product(m, right, dv);
		middle = added(m, middle, op2(m, IR_mul, turned(m, s), pairs(m, vdv, by, apart)));
		if (across > down) more = product(m, u, turned(m, outside(m, v, vdv, dv, s)));
	}
	middle = where(m, diagonal(m, u), rows(m, grad, all, all + 1), middle == IR_NONE ? number(m, 0) : middle);
	return added(m, product(m, product(m, u, middle), right), more);
}
