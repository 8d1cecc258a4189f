/* SPDX-License-Identifier: MIT */
/* vjp: one rule for each way in which gradients pass through an op, named by the column `grad` of ops.def.
 *
 *   y = a * b,  dy     =>     da = dy * b,  db = dy * a, each summed over the axes along which its operand was broadcast
 *
 * The rules are PyTorch's (tools/autograd/derivatives.yaml there), also at ties, at zeros and for NaN. A rule computes in at least f32, as
 * its op does, and rounds each gradient once; views, products and indexing do not widen. */
#include "ir/vjp.h"
#include "ir/conv.h"
#include "ir/fft.h"
#include "ir/moves.h"
#include "ir/rules.h"
#include "runtime/host.h"

#include <math.h>

enum { MOST_ATTRS = TJ_MAX_RANK + IR_CLASS_ATTRS };

typedef struct vjp {
	ir_graph *g;
	ir_node n;               /* y; a copy, since emitting moves nodes */
	ir_ref y, grad;
	int64_t attr[MOST_ATTRS];
	const bool *want;
	ir_ref *to;
	const char *site;
} vjp;

/* ---- shorthand. A call has at most one argument that emits: C leaves the order of arguments open ---- */
static ir_ref op1(const vjp *v, ir_op op, ir_ref a) { return ir_op1(v->g, op, a, v->site); }
static ir_ref op2(const vjp *v, ir_op op, ir_ref a, ir_ref b) { return ir_op2(v->g, op, a, b, v->site); }
static ir_ref where(const vjp *v, ir_ref c, ir_ref a, ir_ref b)
{
	return ir_emit(v->g, IR_where, 3, (ir_ref[]){ c, a, b }, 0, NULL, v->site);
}
static ir_ref with(const vjp *v, ir_op op, ir_ref a, int n, const int64_t *attr) { return ir_emit(v->g, op, 1, &a, n, attr, v->site); }
static tj_dtype wide_dtype(const vjp *v) { return rt_compute_dtype((tj_dtype)v->n.dtype); }
static ir_ref num(const vjp *v, double x) { return ir_const_f(v->g, wide_dtype(v), 0, NULL, x); }
static int rank_of(const vjp *v, ir_ref r) { return r == IR_NONE ? 0 : ir_at(v->g, r)->rank; }
static ir_ref source(const vjp *v, int k) { return ir_src(v->g, &v->n, k); }
static ir_meta meta_of(const vjp *v, int k) { return ir_meta_of(v->g, source(v, k)); }

static ir_ref widen(const vjp *v, ir_ref r)
{
	if (r == IR_NONE || !rt_is_narrow((tj_dtype)ir_at(v->g, r)->dtype)) return r;
	return ir_cast(v->g, r, TJ_F32, v->site);
}

static ir_ref x_of(const vjp *v, int k) { return widen(v, source(v, k)); }
static ir_ref y_of(const vjp *v) { return widen(v, v->y); }
static ir_ref dy_of(const vjp *v) { return widen(v, v->grad); }

ir_ref ir_zeros(ir_graph *g, ir_ref like)
{
	const ir_meta m = ir_meta_of(g, like);
	const ir_ref r = ir_const_f(g, (tj_dtype)m.dtype, m.rank, m.dim, 0); /* emitting moves nodes */
	return ir_keep_device(g, r, ir_at(g, like));
}

static ir_ref zeros(const vjp *v, tj_dtype t, int rank, const int64_t *dim) { return ir_const_f(v->g, t, rank, dim, 0); }

/* Sums r over the axes along which a tensor like m was broadcast to r's shape. */
static ir_ref unbroadcast(const vjp *v, ir_ref r, const ir_meta *m)
{
	if (r == IR_NONE) return r;
	const ir_meta have = ir_meta_of(v->g, r);
	const int more = have.rank - m->rank;
	uint32_t axes = 0;
	for (int i = 0; i < have.rank; i++)
		if (i < more || (m->dim[i - more] == 1 && have.dim[i] != 1)) axes |= 1u << i;
	if (axes) r = ir_reduce(v->g, IR_sum, r, axes, false, v->site);
	return rank_of(v, r) == m->rank && !axes ? r : ir_reshape(v->g, r, m->rank, m->dim, v->site);
}

/* The gradient by operand k is r. */
static void give(vjp *v, int k, ir_ref r)
{
	const ir_meta m = meta_of(v, k);
	r = unbroadcast(v, r, &m);
	v->to[k] = r == IR_NONE || ir_at(v->g, r)->dtype == m.dtype ? r : ir_cast(v->g, r, (tj_dtype)m.dtype, v->site);
}

/* ---- arithmetic ---- */
static void grad_ADD(vjp *v)
{
	for (int k = 0; k < 2; k++)
		if (v->want[k]) give(v, k, dy_of(v));
}

static void grad_SUB(vjp *v)
{
	if (v->want[0]) give(v, 0, dy_of(v));
	if (v->want[1]) give(v, 1, op1(v, IR_neg, dy_of(v)));
}

static void grad_MUL(vjp *v)
{
	for (int k = 0; k < 2; k++) {
		if (!v->want[k]) continue;
		ir_ref dy = dy_of(v), other = x_of(v, 1 - k);
		give(v, k, op2(v, IR_mul, dy, other));
	}
}

static void grad_DIV(vjp *v)
{
	ir_ref dy = dy_of(v), b = x_of(v, 1);
	if (v->want[0]) give(v, 0, op2(v, IR_div, dy, b));
	if (!v->want[1]) return;
	ir_ref q = op2(v, IR_div, x_of(v, 0), b), minus = op1(v, IR_neg, dy);
	q = op2(v, IR_div, q, b);
	give(v, 1, op2(v, IR_mul, minus, q));
}

/* a - n * b, where n is a whole number */
static void grad_MOD(vjp *v)
{
	if (v->want[0]) give(v, 0, dy_of(v));
	if (!v->want[1]) return;
	ir_ref a = x_of(v, 0), b = x_of(v, 1), n = op2(v, v->n.op == IR_fmod ? IR_trunc_divide : IR_floor_divide, a, b);
	ir_ref minus = op1(v, IR_neg, dy_of(v));
	give(v, 1, op2(v, IR_mul, minus, n));
}

static void grad_POW(vjp *v)
{
	ir_ref a = x_of(v, 0), b = x_of(v, 1), dy = dy_of(v), none = num(v, 0);
	if (v->want[0]) { /* b * a^(b-1), and 0 for b = 0 */
		ir_ref less = op2(v, IR_sub, b, num(v, 1)), p = op2(v, IR_pow, a, less);
		ir_ref c = op2(v, IR_mul, dy, op2(v, IR_mul, b, p)), flat = op2(v, IR_eq, b, none);
		give(v, 0, where(v, flat, none, c));
	}
	if (v->want[1]) { /* y * log(a), and 0 for a = 0 <= b */
		ir_ref log = op1(v, IR_log, a), y = y_of(v), c = op2(v, IR_mul, dy, op2(v, IR_mul, y, log));
		ir_ref positive = op2(v, IR_ge, b, none), zero = op2(v, IR_eq, a, none);
		give(v, 1, where(v, op2(v, IR_logical_and, positive, zero), none, c));
	}
}

/* Half of it each where both are equal; all of it to both for NaN. */
static void grad_EXTREME(vjp *v)
{
	ir_ref a = x_of(v, 0), b = x_of(v, 1), dy = dy_of(v), none = num(v, 0);
	ir_ref half = op2(v, IR_mul, dy, num(v, 0.5)), equal = op2(v, IR_eq, a, b), share = where(v, equal, half, dy);
	for (int k = 0; k < 2; k++)
		if (v->want[k]) give(v, k, where(v, op2(v, (v->n.op == IR_maximum) == (k == 0) ? IR_lt : IR_gt, a, b), none, share));
}

/* fmin, fmax: all of it to the first where both are equal, or the second is NaN. */
static void grad_NUMBER(vjp *v)
{
	ir_ref a = x_of(v, 0), b = x_of(v, 1), dy = dy_of(v), none = num(v, 0), nan = op1(v, IR_isnan, b);
	ir_ref first = op2(v, IR_logical_or, op2(v, v->n.op == IR_fmin ? IR_le : IR_ge, a, b), nan);
	if (v->want[0]) give(v, 0, where(v, first, dy, none));
	if (v->want[1]) give(v, 1, where(v, first, none, dy));
}

/* x / y, and 0 where both are 0 */
static void grad_HYPOT(vjp *v)
{
	ir_ref dy = dy_of(v), y = y_of(v), none = num(v, 0), zero = op2(v, IR_eq, y, none), safe = where(v, zero, num(v, 1), y);
	for (int k = 0; k < 2; k++)
		if (v->want[k]) give(v, k, op2(v, IR_mul, dy, op2(v, IR_div, x_of(v, k), safe)));
}

/* 0 where a is 0, as in PyTorch. b moves nothing. */
static void grad_COPYSIGN(vjp *v)
{
	ir_ref a = x_of(v, 0), dy = dy_of(v), none = num(v, 0), sign = op1(v, IR_signbit, a);
	if (!v->want[0]) return;
	ir_ref turned = op2(v, IR_ne, sign, op1(v, IR_signbit, y_of(v))), r = where(v, turned, op1(v, IR_neg, dy), dy);
	give(v, 0, where(v, op2(v, IR_eq, a, none), none, r));
}

static void grad_LDEXP(vjp *v)
{
	ir_ref dy = dy_of(v);
	if (v->want[0]) give(v, 0, op2(v, IR_ldexp, dy, x_of(v, 1)));
	if (v->want[1]) give(v, 1, op2(v, IR_mul, dy, op2(v, IR_mul, y_of(v), num(v, 0.69314718055994530942))));
}

static void grad_NEXT(vjp *v)
{
	if (v->want[0]) give(v, 0, dy_of(v));
}

static void grad_FMA(vjp *v)
{
	ir_ref dy = dy_of(v);
	for (int k = 0; k < 2; k++)
		if (v->want[k]) give(v, k, op2(v, IR_mul, dy, x_of(v, 1 - k)));
	if (v->want[2]) give(v, 2, dy);
}

/* (b, -a) / (a^2 + b^2) */
static void grad_ATAN2(vjp *v)
{
	ir_ref a = x_of(v, 0), b = x_of(v, 1), dy = dy_of(v), square = op2(v, IR_mul, a, a), sum = op2(v, IR_add, square, op2(v, IR_mul, b, b));
	sum = where(v, op2(v, IR_eq, sum, num(v, 0)), num(v, 1), sum); /* no direction: 0 */
	if (v->want[0]) give(v, 0, op2(v, IR_mul, dy, op2(v, IR_div, b, sum)));
	if (v->want[1]) give(v, 1, op2(v, IR_mul, dy, op1(v, IR_neg, op2(v, IR_div, a, sum))));
}

/* dy * sigmoid(a - b), dy * sigmoid(b - a); a half each where both are equal, also if they are infinite */
static void grad_LOGADDEXP(vjp *v)
{
	ir_ref a = x_of(v, 0), b = x_of(v, 1), dy = dy_of(v), equal = op2(v, IR_eq, a, b), none = num(v, 0);
	for (int k = 0; k < 2; k++) {
		if (!v->want[k]) continue;
		ir_ref d = where(v, equal, none, op2(v, IR_sub, k ? b : a, k ? a : b));
		if (v->n.op == IR_logaddexp2) d = op2(v, IR_mul, d, num(v, 0.69314718055994530942));
		give(v, k, op2(v, IR_mul, dy, op1(v, IR_sigmoid, d)));
	}
}

/* ---- functions of one operand: dy * f'(x) ---- */
static ir_ref one_minus_square(const vjp *v, ir_ref x)
{
	ir_ref square = op2(v, IR_mul, x, x);
	return op2(v, IR_sub, num(v, 1), square);
}

/* (cos(pi x) - sinc(x)) / x, and 0 at 0 */
static ir_ref sinc_slope(const vjp *v, ir_ref x, ir_ref y)
{
	ir_ref none = num(v, 0), zero = op2(v, IR_eq, x, none), turn = op2(v, IR_mul, x, num(v, 3.14159265358979323846));
	ir_ref top = op2(v, IR_sub, op1(v, IR_cos, turn), y);
	return where(v, zero, none, op2(v, IR_div, top, x));
}

/* exp(half * x^2) */
static ir_ref normal_density(const vjp *v, ir_ref x, double half)
{
	return op1(v, IR_exp, op2(v, IR_mul, op2(v, IR_mul, x, x), num(v, half)));
}

/* i0(x) - y / x, or i0e(x) - y (1 / x + sign(x)); 1/2 at 0 */
static ir_ref bessel_slope(const vjp *v, ir_ref x, ir_ref y)
{
	ir_ref zero = op2(v, IR_eq, x, num(v, 0)), safe = where(v, zero, num(v, 1), x), rest = op2(v, IR_div, y, safe);
	if (v->n.op == IR_i1e) rest = op2(v, IR_add, rest, op2(v, IR_mul, op1(v, IR_sign, x), y));
	ir_ref r = op2(v, IR_sub, op1(v, v->n.op == IR_i1 ? IR_i0 : IR_i0e, x), rest);
	return where(v, zero, num(v, 0.5), r);
}

static ir_ref slope(const vjp *v, ir_ref x, ir_ref y)
{
	switch (v->n.op) {
	case IR_abs: return op1(v, IR_sign, x);
	case IR_reciprocal: return op1(v, IR_neg, op2(v, IR_mul, y, y));
	case IR_square: return op2(v, IR_mul, x, num(v, 2));
	case IR_exp: return y;
	case IR_log: return op1(v, IR_reciprocal, x);
	case IR_sqrt: return op2(v, IR_div, num(v, 0.5), y);
	case IR_rsqrt: x = op2(v, IR_mul, y, y); x = op2(v, IR_mul, x, y); return op2(v, IR_mul, x, num(v, -0.5));
	case IR_tanh: x = op2(v, IR_mul, y, y); return op2(v, IR_sub, num(v, 1), x);
	case IR_sigmoid: x = op2(v, IR_sub, num(v, 1), y); return op2(v, IR_mul, x, y);
	case IR_erf:
		x = op1(v, IR_neg, op2(v, IR_mul, x, x));
		x = op1(v, IR_exp, x);
		return op2(v, IR_mul, x, num(v, 1.12837916709551257390)); /* 2 / sqrt(pi) */
	case IR_sin: return op1(v, IR_cos, x);
	case IR_cos: return op1(v, IR_neg, op1(v, IR_sin, x));
	case IR_expm1: return op2(v, IR_add, y, num(v, 1));
	case IR_log1p: return op1(v, IR_reciprocal, op2(v, IR_add, x, num(v, 1)));
	case IR_exp2: return op2(v, IR_mul, y, num(v, 0.69314718055994530942));
	case IR_log2: return op1(v, IR_reciprocal, op2(v, IR_mul, x, num(v, 0.69314718055994530942)));
	case IR_log10: return op1(v, IR_reciprocal, op2(v, IR_mul, x, num(v, 2.3025850929940456840)));
	case IR_cbrt: x = op2(v, IR_mul, y, y); x = op2(v, IR_mul, x, num(v, 3)); return op1(v, IR_reciprocal, x);
	case IR_tan: x = op2(v, IR_mul, y, y); return op2(v, IR_add, x, num(v, 1));
	case IR_asin: return op1(v, IR_rsqrt, one_minus_square(v, x));
	case IR_acos: return op1(v, IR_neg, op1(v, IR_rsqrt, one_minus_square(v, x)));
	case IR_atanh: return op1(v, IR_reciprocal, one_minus_square(v, x));
	case IR_atan: x = op2(v, IR_mul, x, x); return op1(v, IR_reciprocal, op2(v, IR_add, x, num(v, 1)));
	case IR_asinh: x = op2(v, IR_mul, x, x); return op1(v, IR_rsqrt, op2(v, IR_add, x, num(v, 1)));
	case IR_acosh: x = op2(v, IR_mul, x, x); return op1(v, IR_rsqrt, op2(v, IR_sub, x, num(v, 1)));
	case IR_sinh: return op1(v, IR_cosh, x);
	case IR_cosh: return op1(v, IR_sinh, x);
	case IR_logsigmoid: return op1(v, IR_sigmoid, op1(v, IR_neg, x));
	case IR_sinc: return sinc_slope(v, x, y);
	case IR_erfc: x = op1(v, IR_exp, op1(v, IR_neg, op2(v, IR_mul, x, x))); return op2(v, IR_mul, x, num(v, -1.12837916709551257390));
	case IR_erfcx: x = op2(v, IR_mul, op2(v, IR_mul, x, num(v, 2)), y); return op2(v, IR_sub, x, num(v, 1.12837916709551257390));
	case IR_erfinv: y = op1(v, IR_exp, op2(v, IR_mul, y, y)); return op2(v, IR_mul, y, num(v, 0.88622692545275801365)); /* sqrt(pi) / 2 */
	case IR_ndtr: return op2(v, IR_mul, normal_density(v, x, -0.5), num(v, 0.39894228040143267794));
	case IR_log_ndtr:
		x = op1(v, IR_erfcx, op2(v, IR_mul, x, num(v, -0.70710678118654752440)));
		return op2(v, IR_div, num(v, 0.79788456080286535588), x);
	case IR_ndtri: return op2(v, IR_mul, normal_density(v, y, 0.5), num(v, 2.50662827463100050242));
	case IR_lgamma: return op1(v, IR_digamma, x);
	case IR_tgamma: return op2(v, IR_mul, y, op1(v, IR_digamma, x));
	case IR_digamma: return with(v, IR_polygamma, x, 1, (int64_t[]){ 1 });
	case IR_polygamma: return with(v, IR_polygamma, x, 1, (int64_t[]){ v->attr[0] + 1 });
	case IR_i0: return op1(v, IR_i1, x);
	case IR_i0e: return op2(v, IR_sub, op1(v, IR_i1e, x), op2(v, IR_mul, op1(v, IR_sign, x), y));
	case IR_i1: case IR_i1e: return bessel_slope(v, x, y);
	default: return IR_NONE;
	}
}

static void grad_SLOPE(vjp *v)
{
	ir_ref dy = dy_of(v), x = x_of(v, 0), none = num(v, 0);
	if (v->n.op == IR_neg) give(v, 0, op1(v, IR_neg, dy));
	else if (v->n.op == IR_relu)
		give(v, 0, where(v, op2(v, IR_le, y_of(v), none), none, dy)); /* y, not x: a product that follows keeps y in any case */
	else if (v->n.op == IR_log) give(v, 0, op2(v, IR_div, dy, x));
	else if (v->n.op == IR_frac) give(v, 0, dy);
	else give(v, 0, op2(v, IR_mul, dy, slope(v, x, y_of(v))));
}

/* ---- selection ---- */
static void grad_SELECT(vjp *v)
{
	ir_ref dy = dy_of(v), none = num(v, 0), c = source(v, 0);
	if (v->want[1]) give(v, 1, where(v, c, dy, none));
	if (v->want[2]) give(v, 2, where(v, c, none, dy));
}

static void grad_CLAMP(vjp *v)
{
	ir_ref x = x_of(v, 0), lo = x_of(v, 1), hi = x_of(v, 2), dy = dy_of(v), none = num(v, 0);
	ir_ref above = op2(v, IR_ge, x, lo), below = op2(v, IR_le, x, hi);
	if (v->want[0]) give(v, 0, where(v, op2(v, IR_logical_and, above, below), dy, none));
	if (v->want[1]) {
		ir_ref less = op2(v, IR_lt, x, lo), order = op2(v, IR_le, lo, hi);
		give(v, 1, where(v, op2(v, IR_logical_and, less, order), dy, none));
	}
	if (v->want[2]) {
		ir_ref more = op2(v, IR_gt, x, hi), order = op2(v, IR_lt, hi, lo);
		give(v, 2, where(v, op2(v, IR_logical_or, more, order), dy, none));
	}
}

/* ---- casts, devices, views ---- */
static void grad_CAST(vjp *v) { give(v, 0, v->grad); }
static void grad_MOVE(vjp *v) { give(v, 0, ir_to(v->g, v->grad, meta_of(v, 0).device, v->site)); }

static void grad_VIEW(vjp *v)
{
	const ir_meta m = meta_of(v, 0);
	give(v, 0, v->n.op == IR_expand ? v->grad : ir_reshape(v->g, v->grad, m.rank, m.dim, v->site));
}

static void grad_PERMUTE(vjp *v)
{
	int64_t back[TJ_MAX_RANK];
	if (v->n.op == IR_transpose) {
		give(v, 0, with(v, IR_transpose, v->grad, 2, v->attr));
		return;
	}
	for (int i = 0; i < v->n.rank; i++) back[v->attr[i]] = i;
	give(v, 0, with(v, IR_permute, v->grad, v->n.rank, back));
}

static void grad_FLIP(vjp *v) { give(v, 0, with(v, IR_flip, v->grad, v->n.nattr, v->attr)); }

/* r with `front` zeros before it and `back` zeros behind it along the axis. */
static ir_ref pad(const vjp *v, ir_ref r, int axis, int64_t front, int64_t back)
{
	ir_ref part[3];
	int n = 0;
	int64_t at = axis;
	if (r == IR_NONE) return r;
	const ir_meta m = ir_meta_of(v->g, r);
	ir_meta z = m;
	z.dim[axis] = front;
	if (front > 0) part[n++] = zeros(v, (tj_dtype)m.dtype, z.rank, z.dim);
	part[n++] = r;
	z.dim[axis] = back;
	if (back > 0) part[n++] = zeros(v, (tj_dtype)m.dtype, z.rank, z.dim);
	return n == 1 ? r : ir_emit(v->g, IR_cat, n, part, 1, &at, v->site);
}

/* r with step - 1 zeros behind each index of the axis. */
static ir_ref spread(const vjp *v, ir_ref r, int axis, int64_t step)
{
	if (r == IR_NONE || step == 1) return r;
	ir_meta m = ir_meta_of(v->g, r);
	memmove(m.dim + axis + 2, m.dim + axis + 1, sizeof *m.dim * (size_t)(m.rank - axis - 1));
	m.dim[axis + 1] = 1;
	r = pad(v, ir_reshape(v->g, r, m.rank + 1, m.dim, v->site), axis + 1, 0, step - 1);
	memmove(m.dim + axis + 1, m.dim + axis + 2, sizeof *m.dim * (size_t)(m.rank - axis - 1));
	m.dim[axis] *= step;
	return ir_reshape(v->g, r, m.rank, m.dim, v->site);
}

static void grad_SLICE(vjp *v)
{
	const int axis = (int)v->attr[0];
	const int64_t n = meta_of(v, 0).dim[axis], len = ir_dims(v->g, &v->n)[axis];
	int64_t start = v->attr[1], step = v->attr[3];
	ir_ref r = v->grad;
	if (len == 0) return;
	if (len == 1) step = 1;
	if (step < 0) {
		r = with(v, IR_flip, r, 1, (int64_t[]){ axis });
		start += (len - 1) * step;
		step = -step;
	}
	r = spread(v, r, axis, step);
	if (start + len * step > n) r = with(v, IR_slice, r, 4, (int64_t[]){ axis, 0, n - start, 1 });
	else r = pad(v, r, axis, 0, n - start - len * step);
	give(v, 0, pad(v, r, axis, start, 0));
}

/* r, one of `count` elements each at start, start + step, ... along the axis, and 0 at all others of n. */
static ir_ref placed(const vjp *v, ir_ref r, int axis, int64_t start, int64_t step, int64_t count, int64_t n)
{
	const int64_t end = start + (count - 1) * step + 1;
	r = pad(v, spread(v, r, axis, count > 1 ? step : 1), axis, start, 0);
	if (count > 1 && step > 1) r = with(v, IR_slice, r, 4, (int64_t[]){ axis, 0, end, 1 });
	return pad(v, r, axis, 0, n - end);
}

/* The first n elements of an axis; zeros where there are no more. */
static ir_ref trimmed(const vjp *v, ir_ref r, int axis, int64_t n)
{
	const int64_t has = ir_meta_of(v->g, r).dim[axis];
	return has > n ? with(v, IR_slice, r, 4, (int64_t[]){ axis, 0, n, 1 }) : pad(v, r, axis, 0, n - has);
}

/* The same of windows that do not overlap: the places of each lie behind those of the one before it, with zeros between them. */
static ir_ref apart(const vjp *v, ir_ref r, int axis, int64_t step, int64_t dilation, int64_t n)
{
	ir_meta m = ir_meta_of(v->g, r);
	const int last = m.rank - 1;
	const int64_t count = m.dim[axis], parts = m.dim[last];
	int64_t axes[TJ_MAX_RANK];
	r = dilation > 1 ? placed(v, r, last, 0, dilation, parts, step) : pad(v, r, last, 0, step - parts);
	for (int i = 0; i <= last; i++) axes[i] = i <= axis ? i : i == axis + 1 ? last : i - 1;
	r = with(v, IR_permute, r, m.rank, axes);
	m.rank--;
	m.dim[axis] = count * step;
	r = ir_reshape(v->g, r, m.rank, m.dim, v->site);
	return r == IR_NONE ? r : trimmed(v, r, axis, n);
}

/* r has windows along an axis and their places on the last one: each goes to its place on the axis, of n elements, and overlapping ones are
 * added. By place in the window, or by window where these are fewer. */
static ir_ref folded(const vjp *v, ir_ref r, int axis, int64_t step, int64_t dilation, int64_t n)
{
	if (r == IR_NONE) return r;
	const ir_meta m = ir_meta_of(v->g, r);
	const int last = m.rank - 1;
	if (step > (m.dim[last] - 1) * dilation && m.dim[last] > 0) return apart(v, r, axis, step, dilation, n);
	const bool by_place = m.dim[last] <= m.dim[axis];
	const int across = by_place ? last : axis;
	const int64_t parts = m.dim[across];
	ir_ref sum = IR_NONE;
	if (!by_place) { /* the window's places come where the axis was */
		int64_t axes[TJ_MAX_RANK];
		for (int i = 0; i <= last; i++) axes[i] = i == axis ? last : i == last ? axis : i;
		r = with(v, IR_permute, r, m.rank, axes);
	}
	if (r == IR_NONE) return r;
	ir_meta one = ir_meta_of(v->g, r);
	const int64_t count = one.dim[axis];
	one.rank--;
	for (int64_t k = 0; k < parts; k++) {
		ir_ref part = with(v, IR_slice, r, 4, (int64_t[]){ last, k, k + 1, 1 });
		part = ir_reshape(v->g, part, one.rank, one.dim, v->site);
		part = placed(v, part, axis, k * (by_place ? dilation : step), by_place ? step : dilation, count, n);
		sum = sum == IR_NONE ? part : op2(v, IR_add, sum, part);
	}
	return sum;
}

static void grad_UNFOLD(vjp *v)
{
	const int axis = (int)v->attr[0];
	give(v, 0, folded(v, v->grad, axis, v->attr[2], v->attr[3], meta_of(v, 0).dim[axis]));
}

static void grad_CAT(vjp *v)
{
	const int64_t axis = v->attr[0];
	for (int64_t k = 0, at = 0, n; k < v->n.nsrc; k++, at += n) {
		n = meta_of(v, (int)k).dim[axis];
		if (v->want[k]) give(v, (int)k, with(v, IR_slice, v->grad, 4, (int64_t[]){ axis, at, at + n, 1 }));
	}
}

/* ---- reductions ---- */
static uint32_t axes_of(const vjp *v) { return ir_reduced((ir_op)v->n.op, v->n.nattr, v->attr, meta_of(v, 0).rank); }

static int64_t count(const vjp *v)
{
	const ir_meta m = meta_of(v, 0);
	int64_t n = 1;
	for (int i = 0; i < m.rank; i++)
		if (axes_of(v) >> i & 1) n *= m.dim[i];
	return n;
}

/* r, of the shape of y, with axes of size 1 where y has none. */
static ir_ref kept(const vjp *v, ir_ref r, uint32_t axes)
{
	ir_meta m = meta_of(v, 0);
	if (r == IR_NONE || rank_of(v, r) == m.rank) return r;
	for (int i = 0; i < m.rank; i++)
		if (axes >> i & 1) m.dim[i] = 1;
	return ir_reshape(v->g, r, m.rank, m.dim, v->site);
}

static ir_ref sum_kept(const vjp *v, ir_ref r, uint32_t axes)
{
	return axes && r != IR_NONE ? ir_reduce(v->g, IR_sum, r, axes, true, v->site) : r;
}

static ir_ref expanded(const vjp *v, ir_ref r)
{
	const ir_meta m = meta_of(v, 0);
	return ir_expand(v->g, r, m.rank, m.dim, v->site);
}

/* sum, mean */
static void grad_SPREAD(vjp *v)
{
	ir_ref r = kept(v, dy_of(v), axes_of(v));
	if (v->n.op == IR_mean) r = op2(v, IR_div, r, num(v, (double)count(v)));
	give(v, 0, expanded(v, r));
}

/* The factors of products: zero: where x is 0. count: how many zeros a product has. sum, squares: sums over its zeros of x and of x^2,
 * which are 0, but not their derivatives. rest: the product of those that are not 0. All broadcast to x. */
typedef struct factors { ir_ref x, zero, count, sum, squares, rest, y; } factors;

static ir_ref zeros_are(const vjp *v, const factors *f, int64_t n) { return op2(v, IR_eq, f->count, ir_const_i(v->g, TJ_I64, 0, NULL, n)); }
static ir_ref pairs(const vjp *v, ir_ref sum, ir_ref squares)
{
	return op2(v, IR_mul, op2(v, IR_sub, op2(v, IR_mul, sum, sum), squares), num(v, 0.5));
}

/* 0 in the place of what is not finite: beside a zero the gradient is 0. */
static ir_ref finite_part(const vjp *v, ir_ref r) { return where(v, op1(v, IR_isfinite, r), r, num(v, 0)); }

/* For each x the product of the others, with its first and second derivative: without zeros y / x. The product of n zeros is their sum for
 * n = 1, the sum of the products of pairs for n = 2; with more, it and these derivatives are 0. */
static ir_ref others(const vjp *v, const factors *f)
{
	const ir_ref none = num(v, 0), one = num(v, 1), safe = where(v, f->zero, one, f->x), z = where(v, f->zero, f->x, none);
	const ir_ref sum = op2(v, IR_sub, f->sum, z), squares = op2(v, IR_sub, f->squares, op2(v, IR_mul, z, z)); /* of the other zeros */
	const ir_ref single = zeros_are(v, f, 1), two = zeros_are(v, f, 2), three = zeros_are(v, f, 3);
	const ir_ref of_zeros = where(v, f->zero, where(v, two, sum, where(v, three, pairs(v, sum, squares), none)),
		                      where(v, single, f->sum, where(v, two, pairs(v, f->sum, f->squares), none)));
	const ir_ref beside = op2(v, IR_mul, finite_part(v, where(v, f->zero, f->rest, op2(v, IR_div, f->rest, safe))), of_zeros);
	const ir_ref lone = op2(v, IR_logical_and, f->zero, single);
	return where(v, zeros_are(v, f, 0), op2(v, IR_div, f->y, safe), where(v, lone, f->rest, beside));
}

static void grad_PROD(vjp *v)
{
	const uint32_t axes = axes_of(v);
	const ir_ref x = x_of(v, 0), none = num(v, 0), zero = op2(v, IR_eq, x, none), z = where(v, zero, x, none),
		     safe = where(v, zero, num(v, 1), x);
	const factors f = { x,
		            zero,
		            sum_kept(v, ir_cast(v->g, zero, TJ_I64, v->site), axes),
		            sum_kept(v, z, axes),
		            sum_kept(v, op2(v, IR_mul, z, z), axes),
		            axes ? ir_reduce(v->g, IR_prod, safe, axes, true, v->site) : safe,
		            kept(v, y_of(v), axes) };
	give(v, 0, op2(v, IR_mul, kept(v, dy_of(v), axes), others(v, &f)));
}

/* amax, amin: those that are equal share it. */
static void grad_PICK(vjp *v)
{
	const uint32_t axes = axes_of(v);
	ir_ref dy = kept(v, dy_of(v), axes), y = kept(v, y_of(v), axes), mask = op2(v, IR_eq, x_of(v, 0), y);
	mask = ir_cast(v->g, mask, wide_dtype(v), v->site);
	ir_ref share = op2(v, IR_div, dy, sum_kept(v, mask, axes));
	give(v, 0, op2(v, IR_mul, share, mask));
}

/* The indices 0, 1, ... along an axis of operand 0, for a comparison with indices of its rank. */
static ir_ref positions(const vjp *v, ir_ref like, int axis)
{
	if (like == IR_NONE) return like;
	ir_meta m = ir_meta_of(v->g, like);
	const int64_t n = m.dim[axis];
	for (int i = 0; i < m.rank; i++) m.dim[i] = i == axis ? n : 1;
	ir_ref r = ir_emit(v->g, IR_arange, 0, NULL, 4, (int64_t[]){ TJ_I64, 0, n, 1 }, v->site);
	return ir_reshape(v->g, r, m.rank, m.dim, v->site);
}

/* Result 0 of max_with_indices and its like. y is a get: its operand is the node, operand 0 of that x. */
static void grad_PICKED(vjp *v)
{
	const ir_meta m = meta_of(v, 0);
	int axis = v->attr[1] == TJ_END_DIM ? 0 : (int)v->attr[1];
	ir_ref at = ir_get(v->g, v->y, 1, v->site), dy = dy_of(v), x = source(v, 0);
	int64_t all = ir_numel(v->g, x), one[TJ_MAX_RANK];
	for (int i = 0; i < m.rank; i++) one[i] = i == axis ? 1 : m.dim[i];
	if (v->attr[1] == TJ_END_DIM) { /* in the flattened operand */
		x = ir_reshape(v->g, x, 1, &all, v->site);
		one[0] = 1;
	}
	const int rank = rank_of(v, x);
	at = ir_reshape(v->g, at, rank, one, v->site);
	dy = ir_reshape(v->g, dy, rank, one, v->site);
	ir_ref hit = rank ? op2(v, IR_eq, positions(v, x, axis), at) : ir_const_i(v->g, TJ_BOOL, 0, NULL, 1);
	ir_ref none = ir_const_f(v->g, rt_compute_dtype((tj_dtype)m.dtype), 0, NULL, 0), r = where(v, hit, dy, none);
	give(v, 0, ir_reshape(v->g, r, m.rank, m.dim, v->site));
}

static void grad_LOGSUMEXP(vjp *v)
{
	const uint32_t axes = axes_of(v);
	ir_ref dy = kept(v, dy_of(v), axes), y = kept(v, y_of(v), axes), none = num(v, 0);
	ir_ref empty = op2(v, IR_eq, y, num(v, -INFINITY)),
	       low = where(v, empty, none, y); /* every x is -inf then, and -inf - -inf would be NaN */
	ir_ref share = op1(v, IR_exp, op2(v, IR_sub, x_of(v, 0), low));
	give(v, 0, op2(v, IR_mul, dy, share));
}

static void grad_VAR(vjp *v)
{
	const uint32_t axes = axes_of(v);
	ir_ref x = x_of(v, 0), n = num(v, (double)count(v)), left = op2(v, IR_maximum, op2(v, IR_sub, n, x_of(v, 1)), num(v, 0));
	ir_ref dy = kept(v, dy_of(v), axes), mean = op2(v, IR_div, sum_kept(v, x, axes), n);
	ir_ref d = op2(v, IR_sub, x, mean), two = num(v, 2), share = op2(v, IR_div, two, left), scaled = op2(v, IR_mul, dy, share);
	give(v, 0, op2(v, IR_mul, scaled, d));
}

/* ---- along an axis ---- */
/* Zeros like operand k, with r added at the index along the axis. */
static ir_ref scattered(const vjp *v, int k, int64_t axis, ir_ref index, ir_ref r)
{
	return ir_emit(v->g, IR_scatter_add, 3, (ir_ref[]){ ir_zeros(v->g, source(v, k)), index, r }, 1, &axis, v->site);
}

static ir_ref along(const vjp *v, ir_op op, ir_ref a) { return with(v, op, a, 1, v->attr); }

/* s[i] = r[i] + c[i] * s[i + 1]; the last c is not used. */
static ir_ref backward(const vjp *v, ir_ref c, ir_ref r)
{
	const ir_ref x[] = { along(v, IR_flip, c), along(v, IR_flip, r) };
	return along(v, IR_flip, ir_emit(v->g, IR_linear_recurrence, 2, x, 1, v->attr, v->site));
}

/* r[i + by], by: 1 or -1; at the end that has none: its own last or first element. */
static ir_ref moved(const vjp *v, ir_ref r, int by)
{
	if (r == IR_NONE || !v->n.rank) return r;
	const int64_t axis = v->attr[0], n = ir_dims(v->g, &v->n)[axis];
	if (n < 2) return r;
	const ir_ref end = with(v, IR_slice, r, 4, (int64_t[]){ axis, by > 0 ? n - 1 : 0, by > 0 ? n : 1, 1 });
	const ir_ref rest = with(v, IR_slice, r, 4, (int64_t[]){ axis, by > 0 ? 1 : 0, by > 0 ? n : n - 1, 1 });
	return ir_emit(v->g, IR_cat, 2, by > 0 ? (ir_ref[]){ rest, end } : (ir_ref[]){ end, rest }, 1, v->attr, v->site);
}

/* The mask of all elements but the first. */
static ir_ref later(const vjp *v)
{
	if (!v->n.rank) return ir_const_i(v->g, TJ_BOOL, 0, NULL, 0);
	return op2(v, IR_gt, positions(v, v->y, (int)v->attr[0]), ir_const_i(v->g, TJ_I64, 0, NULL, 0));
}

static void grad_CUMSUM(vjp *v) { give(v, 0, along(v, IR_flip, along(v, IR_cumsum, along(v, IR_flip, dy_of(v))))); }

/* y[j] has x[i] as a factor for j >= i: dx[i] = y[i - 1] * s[i], where s[i] = dy[i] + x[i + 1] * s[i + 1]. No division, so zeros need no
 * care. */
static void grad_CUMPROD(vjp *v)
{
	const ir_ref x = x_of(v, 0), s = backward(v, moved(v, x, 1), dy_of(v)), before = moved(v, y_of(v), -1);
	give(v, 0, op2(v, IR_mul, s, where(v, later(v), before, num(v, 1))));
}

/* The values of cummax and cummin. y is a get: its operand is the node. */
static void grad_RUNNING(vjp *v)
{
	const ir_ref index = ir_get(v->g, v->y, 1, v->site);
	give(v, 0, scattered(v, 0, v->attr[0], index, v->grad));
}

/* dx[i] = exp(x[i] - y[i]) * s[i], where s[i] = dy[i] + exp(y[i] - y[i + 1]) * s[i + 1]. Before the first number y is -inf: exp gives 0
 * there. */
/* The matrix of a transform is symmetric, and the gradient by a pair is that by the two numbers: its conjugate transposed is the other
 * transform. */
static void grad_DFT(vjp *v) { give(v, 0, with(v, v->n.op == IR_dft ? IR_inverse_dft : IR_dft, dy_of(v), v->n.nattr, v->attr)); }

/* Of n / 2 + 1 pairs those in the middle stand for two of the n elements, which are conjugate. */
static ir_ref weighted(vjp *v, ir_ref pairs, int64_t axis, int64_t n, double inner)
{
	if (pairs == IR_NONE) return pairs;
	const ir_ref w = ir_rfft_weights(v->g, pairs, ir_at(v->g, pairs)->rank - (int)axis, n, inner, v->site);
	return op2(v, IR_mul, pairs, w);
}

static void grad_RDFT(vjp *v)
{
	const int64_t axis = v->attr[0], n = ir_dims(v->g, ir_at(v->g, source(v, 0)))[axis];
	give(v, 0, with(v, IR_inverse_rdft, weighted(v, dy_of(v), axis, n, 0.5), 2, (int64_t[]){ axis, n }));
}

static void grad_INVERSE_RDFT(vjp *v)
{
	give(v, 0, weighted(v, with(v, IR_rdft, dy_of(v), 1, v->attr), v->attr[0], v->attr[1], 2));
}

static void grad_LOGCUMSUMEXP(vjp *v)
{
	const ir_ref y = y_of(v), empty = op2(v, IR_eq, y, num(v, -INFINITY)), none = num(v, 0);
	const ir_ref part = op1(v, IR_exp, op2(v, IR_sub, y, moved(v, y, 1))), s = backward(v, where(v, empty, none, part), dy_of(v));
	const ir_ref share = op1(v, IR_exp, op2(v, IR_sub, x_of(v, 0), where(v, empty, none, y)));
	give(v, 0, op2(v, IR_mul, s, share));
}

/* db = s, da[i] = s[i] * y[i - 1], where s[i] = dy[i] + a[i + 1] * s[i + 1]. */
static void grad_RECURRENCE(vjp *v)
{
	const ir_ref a = x_of(v, 0), s = backward(v, moved(v, a, 1), dy_of(v));
	if (v->want[1]) give(v, 1, s);
	if (!v->want[0]) return;
	const ir_ref before = moved(v, y_of(v), -1), mask = later(v), by = op2(v, IR_mul, s, before);
	give(v, 0, where(v, mask, by, num(v, 0)));
}

/* ---- products ---- */
static ir_ref swapped(const vjp *v, ir_ref r) { return with(v, IR_transpose, r, 2, (int64_t[]){ -1, -2 }); }

/* The operand as a matrix, or as a batch of them: a vector is one row on the left, one column on the right. */
static ir_ref matrix(const vjp *v, int k)
{
	const ir_meta m = meta_of(v, k);
	const int64_t row[] = { 1, m.dim[0] }, column[] = { m.dim[0], 1 };
	return m.rank > 1 ? source(v, k) : ir_reshape(v->g, source(v, k), 2, k ? column : row, v->site);
}

/* All batches of r as the rows of one matrix. */
static ir_ref flat(const vjp *v, ir_ref r)
{
	if (r == IR_NONE) return r;
	const ir_meta m = ir_meta_of(v->g, r);
	int64_t dim[2] = { 1, m.dim[m.rank - 1] };
	for (int i = 0; i < m.rank - 1; i++) dim[0] *= m.dim[i];
	return m.rank == 2 ? r : ir_reshape(v->g, r, 2, dim, v->site);
}

static void grad_MATMUL(vjp *v)
{
	const ir_ref x[2] = { matrix(v, 0), matrix(v, 1) };
	if (x[0] == IR_NONE || x[1] == IR_NONE) return;
	const ir_meta m[2] = { ir_meta_of(v->g, x[0]), ir_meta_of(v->g, x[1]) };
	int64_t dim[TJ_MAX_RANK];
	int rank = 0;
	const int batch = (m[0].rank > m[1].rank ? m[0].rank : m[1].rank) - 2;
	for (; rank < batch; rank++) dim[rank] = ir_dims(v->g, &v->n)[rank];
	dim[rank++] = m[0].dim[m[0].rank - 2];
	dim[rank++] = m[1].dim[m[1].rank - 1];
	ir_ref dy = ir_reshape(v->g, v->grad, rank, dim, v->site);
	if (v->want[0]) {
		ir_ref r = op2(v, IR_matmul, dy, swapped(v, x[1]));
		r = unbroadcast(v, r, &m[0]);
		give(v, 0, ir_reshape(v->g, r, meta_of(v, 0).rank, meta_of(v, 0).dim, v->site));
	}
	if (v->want[1]) { /* one matrix on the right: one product over all rows of all batches */
		const bool one = m[1].rank == 2 && m[0].rank > 2;
		ir_ref left = one ? flat(v, x[0]) : x[0], right = one ? flat(v, dy) : dy;
		ir_ref r = op2(v, IR_matmul, swapped(v, left), right);
		r = unbroadcast(v, r, &m[1]);
		give(v, 1, ir_reshape(v->g, r, meta_of(v, 1).rank, meta_of(v, 1).dim, v->site));
	}
}

/* ---- sparse matrices ---- */
/* One of the three ops with the pattern of this node. n: the attribute of csr_product_transposed. */
static ir_ref with_pattern(const vjp *v, ir_op op, ir_ref a, ir_ref b, int64_t n)
{
	return ir_emit(v->g, op, 4, (ir_ref[]){ source(v, 0), source(v, 1), a, b }, op == IR_csr_product_transposed, &n, v->site);
}
static int64_t rows_of_b(const vjp *v) { return meta_of(v, 3).dim[meta_of(v, 3).rank - 2]; }

static void grad_CSR(vjp *v)
{
	const ir_ref dy = dy_of(v), a = x_of(v, 2), b = x_of(v, 3);
	if (v->want[2]) give(v, 2, with_pattern(v, IR_csr_sampled_product, dy, b, 0));
	if (v->want[3]) give(v, 3, with_pattern(v, IR_csr_product_transposed, a, dy, rows_of_b(v)));
}

static void grad_CSR_N(vjp *v)
{
	const ir_ref dy = dy_of(v), a = x_of(v, 2), b = x_of(v, 3);
	if (v->want[2]) give(v, 2, with_pattern(v, IR_csr_sampled_product, b, dy, 0));
	if (v->want[3]) give(v, 3, with_pattern(v, IR_csr_product, a, dy, 0));
}

static void grad_CSR_SAMPLED(vjp *v)
{
	const ir_ref dy = dy_of(v), a = x_of(v, 2), b = x_of(v, 3);
	if (v->want[2]) give(v, 2, with_pattern(v, IR_csr_product, dy, b, 0));
	if (v->want[3]) give(v, 3, with_pattern(v, IR_csr_product_transposed, dy, a, rows_of_b(v)));
}

/* ---- factors of matrices ---- */
static void grad_CHOLESKY(vjp *v)
{
	const ir_ref y = y_of(v), dy = dy_of(v);
	give(v, 0, ir_vjp_cholesky(v->g, y, dy, v->site));
}

static void grad_SOLVE_LOWER(vjp *v)
{
	ir_ref to[2];
	const ir_ref a = x_of(v, 0), y = y_of(v), dy = dy_of(v);
	ir_vjp_solve_lower(v->g, a, y, dy, v->attr[0] != 0, v->site, to);
	for (int k = 0; k < 2; k++)
		if (v->want[k]) give(v, k, to[k]);
}

static void grad_LU(vjp *v)
{
	const ir_meta m = meta_of(v, 0);
	const int64_t n = m.dim[m.rank - 1];
	if (m.dim[m.rank - 2] != n) {
		rt_fail(&v->g->err, TJ_ERR_SHAPE, "gradient", "lu: the matrix must be square, it is %lld x %lld", (long long)m.dim[m.rank - 2],
		        (long long)n);
		return;
	}
	const ir_ref y = y_of(v), dy = dy_of(v);
	give(v, 0, ir_vjp_lu(v->g, y, dy, n, v->site));
}

static void grad_QR(vjp *v)
{
	const ir_ref x = x_of(v, 0), y = y_of(v), dy = dy_of(v);
	give(v, 0, ir_vjp_qr(v->g, x, y, dy, v->site));
}

static void grad_EIGH(vjp *v)
{
	const ir_ref y = y_of(v), dy = dy_of(v), r = ir_vjp_eigh(v->g, y, dy, v->attr[0] != 0, v->site);
	if (r != IR_NONE) give(v, 0, r);
}

static void grad_SVD(vjp *v)
{
	const ir_ref x = x_of(v, 0), y = y_of(v), dy = dy_of(v), r = ir_vjp_svd(v->g, x, y, dy, v->attr[0] != 0, v->site);
	if (r != IR_NONE) give(v, 0, r);
}

/* ---- convolution and pooling ---- */
enum { MOST_PLACES = 16 }; /* of a window that a maximum is found in place by place */

static ir_window window_of(const vjp *v) { return ir_window_of(v->n.op, v->n.nattr, v->attr, meta_of(v, v->n.nsrc - 1).dim + 2); }

/* By the operand: conv_transpose, with so much padding behind that the sizes are the operand's. */
static void grad_CONV(vjp *v)
{
	const ir_window w = window_of(v);
	const ir_meta x = meta_of(v, 0), weight = meta_of(v, 1);
	int64_t attr[MOST_ATTRS];
	if (v->want[0] && ir_numel(v->g, v->y) && ir_numel(v->g, source(v, 0))) {
		memcpy(attr, v->attr, sizeof *attr * v->n.nattr);
		for (int i = 0; i < w.n; i++) attr[1 + 2 * w.n + 2 * i + 1] += ir_transposed_size(&w, i, ir_dims(v->g, &v->n)[2 + i]) - x.dim[2 + i];
		give(v, 0, ir_emit(v->g, IR_conv_transpose, 2, (ir_ref[]){ v->grad, source(v, 1) }, v->n.nattr, attr, v->site));
	}
	if (v->want[1]) give(v, 1, ir_conv_by_weight(v->g, source(v, 0), v->grad, &weight, v->attr[0], &w, v->site));
}

static void grad_CONV_TRANSPOSE(vjp *v)
{
	const ir_window w = window_of(v);
	const ir_meta weight = meta_of(v, 1);
	if (v->want[0]) give(v, 0, ir_emit(v->g, IR_conv, 2, (ir_ref[]){ v->grad, source(v, 1) }, v->n.nattr, v->attr, v->site));
	if (v->want[1]) give(v, 1, ir_conv_by_weight(v->g, v->grad, source(v, 0), &weight, v->attr[0], &w, v->site));
}

/* Elements of an axis of x, with its padding. */
static int64_t x_with_padding(const vjp *v, const ir_window *w, int i)
{
	const int64_t size = meta_of(v, 0).dim[meta_of(v, 0).rank - w->n + i];
	return w->before[i] + size + ir_window_behind(w, i, size);
}

/* r has windows, and on its last axis their places: x with its padding. */
static ir_ref refolded(const vjp *v, const ir_window *w, ir_ref r)
{
	if (r == IR_NONE) return r;
	ir_meta t = ir_meta_of(v->g, r);
	const int last = t.rank - 1;
	for (int i = 0; i < w->n; i++) t.dim[last + i] = w->size[i];
	r = ir_reshape(v->g, r, last + w->n, t.dim, v->site);
	for (int i = w->n; i-- > 0;) r = folded(v, r, last - w->n + i, w->stride[i], w->dilation[i], x_with_padding(v, w, i));
	return r;
}

/* dy at the first largest element of each window, else 0: windows, and one more axis with the places. */
static ir_ref to_largest(const vjp *v, const ir_window *w, ir_ref least, ir_ref none)
{
	const ir_ref rows = ir_window_rows(v->g, source(v, 0), w, least, v->site);
	if (rows == IR_NONE) return rows;
	ir_meta t = ir_meta_of(v->g, rows);
	const int places = t.rank - 1;
	const ir_ref at = with(v, IR_argmax, rows, 2, (int64_t[]){ true, places });
	t.dim[places] = 1;
	const ir_ref dy = ir_reshape(v->g, v->grad, t.rank, t.dim, v->site), hit = op2(v, IR_eq, positions(v, rows, places), at);
	return where(v, hit, dy, none);
}

/* The same place by place, where there are few: the largest element is known. part: by place, without that axis */
static bool to_largest_of_few(const vjp *v, const ir_window *w, ir_ref least, ir_ref none, int64_t places, ir_ref *part)
{
	ir_ref seen = IR_NONE;
	const ir_meta t = ir_meta_of(v->g, v->y);
	for (int64_t k = 0; k < places; k++) {
		const ir_ref x = ir_window_at(v->g, source(v, 0), w, least, k, t.dim + t.rank - w->n, v->site),
			     hit = op2(v, IR_logical_or, op2(v, IR_eq, x, y_of(v)), op2(v, IR_ne, x, x));
		part[k] = where(v, k ? op2(v, IR_gt, hit, seen) : hit, v->grad, none);
		seen = k ? op2(v, IR_logical_or, seen, hit) : hit;
		if (part[k] == IR_NONE) return false;
	}
	return true;
}

/* Windows that do not overlap beside one another, with zeros between them where the stride is larger. */
static ir_ref beside(const vjp *v, const ir_window *w, const ir_ref *part, ir_ref none)
{
	const ir_meta y = ir_meta_of(v->g, v->y);
	ir_ref cell[MOST_PLACES], gap = IR_NONE;
	int64_t n = 1;
	for (int i = 0; i < w->n; i++) n *= w->stride[i];
	for (int64_t k = 0; k < n; k++) {
		int64_t left = k, place = 0, scale = 1;
		bool inside = true;
		for (int i = w->n; i-- > 0; scale *= w->size[i], left /= w->stride[i]) {
			place += left % w->stride[i] * scale;
			inside &= left % w->stride[i] < w->size[i];
		}
		if (!inside && gap == IR_NONE) gap = ir_expand(v->g, none, y.rank, y.dim, v->site);
		cell[k] = inside ? part[place] : gap;
	}
	return ir_interleaved(v->g, w->n, w->stride, cell, v->site);
}

static bool is_apart(const ir_window *w)
{
	int64_t cells = 1;
	bool all = true;
	for (int i = 0; i < w->n && all; i++)
		all = w->dilation[i] == 1 && w->stride[i] >= w->size[i] && w->stride[i] <= MOST_PLACES && (cells *= w->stride[i]) <= MOST_PLACES;
	return all;
}

/* Windows of few places, put back: x with its padding. */
static ir_ref unpooled(const vjp *v, const ir_window *w, const ir_ref *part, int64_t places, ir_ref none)
{
	ir_meta t = ir_meta_of(v->g, v->y);
	ir_ref column[MOST_PLACES];
	const int64_t last = t.rank;
	if (is_apart(w)) {
		ir_ref r = beside(v, w, part, none);
		for (int i = 0; i < w->n && r != IR_NONE; i++) r = trimmed(v, r, t.rank - w->n + i, x_with_padding(v, w, i));
		return r;
	}
	t.dim[t.rank++] = 1;
	for (int64_t k = 0; k < places; k++) column[k] = ir_reshape(v->g, part[k], t.rank, t.dim, v->site);
	return refolded(v, w, ir_emit(v->g, IR_cat, (int)places, column, 1, &last, v->site));
}

static void grad_MAX_POOL(vjp *v)
{
	const ir_window w = window_of(v);
	const ir_meta m = meta_of(v, 0);
	const ir_ref least = ir_const_f(v->g, (tj_dtype)m.dtype, 0, NULL, -INFINITY), none = ir_const_f(v->g, (tj_dtype)m.dtype, 0, NULL, 0);
	ir_ref part[MOST_PLACES], r;
	int64_t places = 1;
	if (!ir_numel(v->g, v->y)) return;
	for (int i = 0; i < w.n; i++) places *= w.size[i];
	if (places > MOST_PLACES) r = refolded(v, &w, to_largest(v, &w, least, none));
	else r = to_largest_of_few(v, &w, least, none, places, part) ? unpooled(v, &w, part, places, none) : IR_NONE;
	for (int i = 0; i < w.n && r != IR_NONE; i++) {
		const int axis = m.rank - w.n + i;
		if (x_with_padding(v, &w, i) != m.dim[axis])
			r = with(v, IR_slice, r, 4, (int64_t[]){ axis, w.before[i], w.before[i] + m.dim[axis], 1 });
	}
	if (r != IR_NONE) give(v, 0, r);
}

/* ---- indexing ---- */
static void grad_GATHER(vjp *v) { give(v, 0, scattered(v, 0, v->attr[0], source(v, 1), v->grad)); }

static void grad_SELECTED(vjp *v)
{
	const ir_meta m = ir_meta_of(v->g, v->grad);
	int64_t dim[TJ_MAX_RANK];
	for (int i = 0; i < m.rank; i++) dim[i] = i == v->attr[0] ? m.dim[i] : 1;
	ir_ref index = ir_reshape(v->g, source(v, 1), m.rank, dim, v->site);
	give(v, 0, scattered(v, 0, v->attr[0], ir_expand(v->g, index, m.rank, m.dim, v->site), v->grad));
}

static void grad_ROWS(vjp *v)
{
	const int64_t n = ir_numel(v->g, source(v, 1)), width = meta_of(v, 0).dim[1], column[] = { n, 1 }, all[] = { n, width };
	ir_ref index = ir_reshape(v->g, source(v, 1), 2, column, v->site), r = ir_reshape(v->g, v->grad, 2, all, v->site);
	give(v, 0, scattered(v, 0, 0, ir_expand(v->g, index, 2, all, v->site), r));
}

static ir_ref gathered(const vjp *v, ir_ref r) { return ir_emit(v->g, IR_gather, 2, (ir_ref[]){ r, source(v, 1) }, 1, v->attr, v->site); }
static ir_ref scatter(const vjp *v, ir_op op, ir_ref to, ir_ref src)
{
	return ir_emit(v->g, op, 3, (ir_ref[]){ to, source(v, 1), src }, 1, v->attr, v->site);
}

/* The gradient by the source is r, of the shape of the index: elements beyond that are not used. */
static void give_source(vjp *v, ir_ref r)
{
	const ir_meta m = meta_of(v, 2), index = meta_of(v, 1);
	for (int i = 0; i < m.rank; i++) r = pad(v, r, i, 0, m.dim[i] - index.dim[i]);
	give(v, 2, r);
}

/* The source, as far as it is used. */
static ir_ref used(const vjp *v)
{
	const ir_meta m = meta_of(v, 2), index = meta_of(v, 1);
	ir_ref r = x_of(v, 2);
	for (int i = 0; i < m.rank; i++)
		if (m.dim[i] > index.dim[i]) r = with(v, IR_slice, r, 4, (int64_t[]){ i, 0, index.dim[i], 1 });
	return r;
}

/* A number in each element of operand k, on its device. */
static ir_ref filled(const vjp *v, int k, tj_dtype t, double x)
{
	const ir_meta m = meta_of(v, k);
	const ir_ref r = ir_const_f(v->g, t, m.rank, m.dim, x);
	return ir_keep_device(v->g, r, ir_at(v->g, source(v, k)));
}

static void grad_SCATTER(vjp *v)
{
	if (v->want[0]) give(v, 0, v->grad);
	if (v->want[2]) give_source(v, gathered(v, v->grad));
}

/* Each element of the index has a number of its own: those whose number stays are the last ones. */
static ir_ref are_last(const vjp *v)
{
	const ir_meta m = meta_of(v, 1);
	const int64_t n = ir_numel(v->g, source(v, 1));
	const ir_ref count = ir_emit(v->g, IR_arange, 0, NULL, 4, (int64_t[]){ TJ_I64, 0, n, 1 }, v->site),
		     all = ir_reshape(v->g, count, m.rank, m.dim, v->site);
	const ir_ref own = ir_to(v->g, all, meta_of(v, 0).device, v->site), to = filled(v, 0, TJ_I64, 0);
	return op2(v, IR_eq, gathered(v, scatter(v, IR_scatter, to, own)), own);
}

static void grad_PUT(vjp *v)
{
	if (v->want[0]) give(v, 0, scatter(v, IR_scatter, v->grad, filled(v, 1, (tj_dtype)v->n.dtype, 0)));
	if (!v->want[2]) return;
	const ir_ref last = are_last(v), r = gathered(v, v->grad);
	give_source(v, where(v, last, r, ir_const_f(v->g, (tj_dtype)v->n.dtype, 0, NULL, 0)));
}

/* By x: the product of the sources. By a source: that of x and of the other sources. */
static void grad_SCATTER_PROD(vjp *v)
{
	const tj_dtype t = wide_dtype(v);
	const ir_ref dy = dy_of(v), src = used(v), one = num(v, 1), none = num(v, 0);
	if (v->want[0]) give(v, 0, op2(v, IR_mul, dy, scatter(v, IR_scatter_prod, filled(v, 0, t, 1), src)));
	if (!v->want[2]) return;
	const ir_ref zero = op2(v, IR_eq, src, none), z = where(v, zero, src, none), empty = filled(v, 0, t, 0);
	const factors f = { src, zero, gathered(v, scatter(v, IR_scatter_add, filled(v, 0, TJ_I64, 0), ir_cast(v->g, zero, TJ_I64, v->site))),
		                gathered(v, scatter(v, IR_scatter_add, empty, z)), gathered(v, scatter(v, IR_scatter_add, empty, op2(v, IR_mul, z, z))),
		                gathered(v, scatter(v, IR_scatter_prod, x_of(v, 0), where(v, zero, one, src))), gathered(v, y_of(v)) };
	give_source(v, op2(v, IR_mul, gathered(v, dy), others(v, &f)));
}

static void grad_SCATTER_PICK(vjp *v)
{
	const tj_dtype t = wide_dtype(v);
	const ir_ref y = y_of(v), src = used(v), none = num(v, 0), hit = op2(v, IR_eq, x_of(v, 0), y),
		     src_hit = op2(v, IR_eq, src, gathered(v, y));
	const ir_ref count = scatter(v, IR_scatter_add, ir_cast(v->g, hit, t, v->site), ir_cast(v->g, src_hit, t, v->site)),
		     share = op2(v, IR_div, dy_of(v), count);
	if (v->want[0]) give(v, 0, where(v, hit, share, none));
	if (v->want[2]) give_source(v, where(v, src_hit, gathered(v, share), none));
}

static void grad_FILL(vjp *v) { give(v, 0, dy_of(v)); }

/* A host call whose function says which other one computes the gradient by the first operand. It gets the gradient and the other operands,
 * and comes after y. */
static void grad_HOST(vjp *v)
{
	enum { MOST = 8 };
	rt_host h;
	ir_ref src[MOST];
	const ir_meta m = meta_of(v, 0);
	int64_t attr[TJ_MAX_RANK + 2] = { m.dtype };
	const int n = v->n.nsrc;
	if (!rt_host_find(v->attr[1], &h) || !h.gradient || n < 2 || n > MOST) {
		rt_fail(&v->g->err, TJ_ERR_STATE, "host_call", "the function %s has no gradient", rt_host_find(v->attr[1], &h) ? h.name : "?");
		rt_hint(&v->g->err, "name one by .gradient of tj_host_opts, use tj_custom_grad(), or tj_stop_gradient()");
		v->g->err.site = v->site;
		return;
	}
	attr[1] = h.gradient;
	memcpy(attr + 2, m.dim, m.rank * sizeof *attr);
	src[0] = v->grad;
	for (int k = 1; k < n - 1; k++) src[k] = source(v, k);
	src[n - 1] = v->y;
	v->to[0] = ir_emit(v->g, IR_host_call, n, src, m.rank + 2, attr, v->site);
}

/* ---- composites with a rule of their own ---- */
/* y = x P, where P = (1 + gate) / 2: dy * (P + x P'). Only x and the gate go from forward to backward. */
static void grad_GELU(vjp *v)
{
	ir_ref x = x_of(v, 0), one = num(v, 1), gate = ir_gelu_gate(v->g, (ir_op)v->n.op, x, v->site), square = op2(v, IR_mul, x, x), slope;
	if (v->n.op == IR_gelu) {
		slope = op1(v, IR_exp, op2(v, IR_mul, square, num(v, -0.5)));
		slope = op2(v, IR_mul, slope, num(v, 0.39894228040143267794)); /* 1 / sqrt(2 pi) */
	} else {
		ir_ref rest = op2(v, IR_sub, one, op2(v, IR_mul, gate, gate)), half = num(v, 0.39894228040143267794); /* sqrt(2/pi) / 2 */
		slope = op2(v, IR_add, op2(v, IR_mul, square, num(v, 3 * 0.044715 * 0.39894228040143267794)), half);
		slope = op2(v, IR_mul, rest, slope);
	}
	ir_ref sum = op2(v, IR_add, gate, one), p = op2(v, IR_mul, sum, num(v, 0.5)), d = op2(v, IR_add, p, op2(v, IR_mul, x, slope));
	give(v, 0, op2(v, IR_mul, dy_of(v), d));
}

static uint32_t axis_bit(const vjp *v) { return v->n.rank ? 1u << v->attr[0] : 0; }

static void grad_SOFTMAX(vjp *v)
{
	ir_ref dy = dy_of(v), y = y_of(v), dot = sum_kept(v, op2(v, IR_mul, dy, y), axis_bit(v)), d = op2(v, IR_sub, dy, dot);
	give(v, 0, op2(v, IR_mul, d, y));
}

static void grad_LOG_SOFTMAX(vjp *v)
{
	ir_ref dy = dy_of(v), p = op1(v, IR_exp, y_of(v)), sum = sum_kept(v, dy, axis_bit(v)), d = op2(v, IR_mul, p, sum);
	give(v, 0, op2(v, IR_sub, dy, d));
}

static void grad_CROSS_ENTROPY(vjp *v)
{
	const ir_meta m = meta_of(v, 0);
	const int64_t column[] = { m.dim[0], 1 };
	ir_ref x = x_of(v, 0), p = with(v, IR_softmax, x, 1, (int64_t[]){ 1 }), target = ir_reshape(v->g, source(v, 1), 2, column, v->site);
	ir_ref hit = op2(v, IR_eq, positions(v, x, 1), target), d = op2(v, IR_sub, p, ir_cast(v->g, hit, wide_dtype(v), v->site));
	ir_ref share = op2(v, IR_div, dy_of(v), num(v, (double)m.dim[0]));
	give(v, 0, op2(v, IR_mul, d, share));
}

/* ---- one node ---- */
static void (*const rule[])(vjp *v) = {
#define X(name) [IR_GRAD_##name] = grad_##name,
	IR_GRAD_RULES(X)
#undef X
};

bool ir_vjp(ir_graph *g, ir_ref y, ir_ref grad, const bool *want, ir_ref *to)
{
	const bool get = ir_at(g, y)->op == IR_get;
	if (get) y = ir_src(g, ir_at(g, y), 0);
	vjp v = { .g = g, .n = *ir_at(g, y), .y = y, .grad = grad, .want = want, .to = to, .site = ir_at(g, y)->site };
	if (v.n.nattr > MOST_ATTRS) return rt_fail(&g->err, TJ_ERR_STATE, "grad", "a node has too many attributes"), false;
	if (v.n.nattr) memcpy(v.attr, ir_attr(g, &v.n), sizeof *v.attr * v.n.nattr);
	g->mode = v.n.mode;
	rule[ir_ops[v.n.op].grad](&v);
	g->mode = 0;
	return g->err.code == TJ_OK;
}
