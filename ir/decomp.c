/* SPDX-License-Identifier: MIT */
/* decomp: replaces composites by simpler ops.
 *
 * requires nothing; keeps slots, sites, outputs; the result is simplified, and its only composites are those that the back end
 *          claimed
 *
 *   %1 = softmax f32[8,64] %0 axis=1     =>     %1 = amax f32[8,1] %0 keepdim=1 axes=1
 *                                               %2 = sub f32[8,64] %0 %1
 *                                               %3 = exp f32[8,64] %2
 *                                               %4 = sum f32[8,1] %3 keepdim=1 axes=1
 *                                               %5 = div f32[8,64] %3 %4
 *
 * These sequences define the composites, bit for bit. A composite computes in at least f32 and rounds to its own dtype once, at
 * its end: enter() and leave() do that. A mean is a sum by the tree and one division; var has two passes (first the mean, then the
 * squares of the distances from it); softmax subtracts the maximum, and divides rather than multiply by 1 / sum. */
#include "ir/conv.h"
#include "ir/fft.h"
#include "ir/moves.h"

#include <float.h>
#include <math.h>

typedef struct made {
	ir_graph *g;
	const char *site;
	tj_dtype dtype; /* the dtype of computation */
} made;

/* ---- shorthand: ops at one site. Nodes are numbered in the order of calls, and C leaves the order open in which arguments are
 * evaluated. So a call has at most one argument that emits; others get a statement before it. ---- */
static ir_ref op1(const made *m, ir_op op, ir_ref a) { return ir_op1(m->g, op, a, m->site); }
static ir_ref op2(const made *m, ir_op op, ir_ref a, ir_ref b) { return ir_op2(m->g, op, a, b, m->site); }
static ir_ref num(const made *m, double v) { return ir_const_f(m->g, m->dtype, 0, NULL, v); }
static ir_ref where(const made *m, ir_ref c, ir_ref a, ir_ref b)
{
	return ir_emit(m->g, IR_where, 3, (ir_ref[]){ c, a, b }, 0, NULL, m->site);
}
static int rank_of(const made *m, ir_ref a) { return a == IR_NONE ? 0 : ir_at(m->g, a)->rank; }

/* Enters a composite: narrow floats are computed in f32. */
static ir_ref enter(made *m, ir_ref a)
{
	if (a == IR_NONE) return a;
	tj_dtype t = (tj_dtype)ir_at(m->g, a)->dtype;
	m->dtype = rt_compute_dtype(t);
	return m->dtype == t ? a : ir_cast(m->g, a, m->dtype, m->site);
}

static ir_ref leave(const made *m, ir_ref a, tj_dtype t)
{
	return a == IR_NONE || ir_at(m->g, a)->dtype == t ? a : ir_cast(m->g, a, t, m->site);
}

/* Without axes to reduce, the operand (it is 0-d) is the result. */
static ir_ref reduce(const made *m, ir_op op, ir_ref a, uint32_t axes, bool keepdim)
{
	return a == IR_NONE || !axes ? a : ir_reduce(m->g, op, a, axes, keepdim, m->site);
}

static int64_t elements(const made *m, ir_ref a, uint32_t axes)
{
	int64_t n = 1;
	for (int i = 0; i < rank_of(m, a); i++)
		if (axes >> i & 1) n *= ir_dims(m->g, ir_at(m->g, a))[i];
	return n;
}

static ir_ref mean_over(const made *m, ir_ref a, uint32_t axes, bool keepdim)
{
	if (a == IR_NONE) return a;
	double n = (double)elements(m, a, axes);
	ir_ref sum = reduce(m, IR_sum, a, axes, keepdim);
	return op2(m, IR_div, sum, num(m, n));
}

/* ---- activations ---- */
static ir_ref silu(const made *m, ir_ref x) { return op2(m, IR_mul, x, op1(m, IR_sigmoid, x)); }

/* Of gelu: erf(x / sqrt(2)). Of gelu_tanh: tanh(sqrt(2/pi) * (x + 0.044715 x^3)). */
static ir_ref gate(const made *m, ir_op op, ir_ref x)
{
	if (op == IR_gelu) return op1(m, IR_erf, op2(m, IR_mul, x, num(m, 0.70710678118654752440)));
	ir_ref cube = op2(m, IR_mul, op2(m, IR_mul, x, x), x);
	ir_ref inner = op2(m, IR_add, x, op2(m, IR_mul, cube, num(m, 0.044715)));
	return op1(m, IR_tanh, op2(m, IR_mul, inner, num(m, 0.79788456080286535588)));
}

ir_ref ir_gelu_gate(ir_graph *g, ir_op op, ir_ref x, const char *site)
{
	return x == IR_NONE ? x : gate(&(made){ g, site, (tj_dtype)ir_at(g, x)->dtype }, op, x);
}

/* (x / 2) * (1 + gate) */
static ir_ref gelu(const made *m, ir_op op, ir_ref x)
{
	ir_ref t = gate(m, op, x), half = op2(m, IR_mul, x, num(m, 0.5));
	return op2(m, IR_mul, half, op2(m, IR_add, t, num(m, 1)));
}

/* Below: a function of x that is not taken where `other` holds. There it is computed of 0, so that no infinity gets into a gradient. */
static ir_ref but_for(const made *m, ir_ref other, ir_ref x) { return where(m, other, num(m, 0), x); }

/* NaN stays. At its limits the gradient is 0, as in PyTorch; that of clamp is not. */
static ir_ref limited(const made *m, ir_ref x, ir_ref lo, ir_ref hi)
{
	ir_ref above = op2(m, IR_ge, x, hi), below = op2(m, IR_le, x, lo);
	return where(m, below, lo, where(m, above, hi, x));
}

/* The neighbour of a narrow float, in f32. A step of 0.62 to 1.25 times the distance to it rounds to it, also at a power of 2, towards 0,
 * where the distance is half as large; between subnormal numbers it is 0.75 of the distance. */
static ir_ref next_narrow(const made *m, ir_ref a, ir_ref b, tj_dtype t)
{
	const double part = t == TJ_F16 ? 0x1.4p-11 : 0x1.4p-8, least = t == TJ_F16 ? 0x1.8p-25 : 0x1.8p-134,
		     most = t == TJ_F16 ? 65504 : 0x1.fep127;
	ir_ref size = op1(m, IR_abs, a), step = op2(m, IR_maximum, op2(m, IR_mul, size, num(m, part)), num(m, least));
	ir_ref down = op1(m, IR_neg, step), up = op2(m, IR_gt, b, a), y = op2(m, IR_add, a, where(m, up, step, down));
	y = where(m, op1(m, IR_isinf, a), op2(m, IR_copysign, num(m, most), a), y);
	y = where(m, op2(m, IR_eq, a, b), b, y);
	up = op1(m, IR_isnan, a);
	return where(m, up, a, where(m, op1(m, IR_isnan, b), b, y));
}

static ir_ref limited_6(const made *m, ir_ref x)
{
	ir_ref lo = num(m, 0);
	return limited(m, x, lo, num(m, 6));
}

static ir_ref hard(const made *m, ir_op op, ir_ref x)
{
	ir_ref h = limited_6(m, op2(m, IR_add, x, num(m, 3)));
	if (op == IR_hardswish) h = op2(m, IR_mul, x, h);
	return op2(m, IR_div, h, num(m, 6));
}

static ir_ref above_0(const made *m, ir_ref x, ir_ref slope)
{
	ir_ref above = op2(m, IR_gt, x, num(m, 0));
	return where(m, above, x, op2(m, IR_mul, x, slope));
}

static ir_ref prelu(const made *m, ir_ref x, ir_ref weight)
{
	if (x == IR_NONE || weight == IR_NONE) return IR_NONE;
	int64_t dim[TJ_MAX_RANK], n = ir_numel(m->g, weight);
	int rank = rank_of(m, x) > 1 && n != 1 ? rank_of(m, x) - 1 : 0;
	for (int i = 0; i < rank; i++) dim[i] = i ? 1 : n;
	return above_0(m, x, ir_reshape(m->g, weight, rank, dim, m->site));
}

/* scale * x above 0, else factor * expm1(x / divisor); IR_NONE: 1 */
static ir_ref elu(const made *m, ir_ref x, ir_ref factor, ir_ref divisor, ir_ref scale)
{
	ir_ref none = num(m, 0), above = op2(m, IR_gt, x, none), low = but_for(m, above, x);
	if (divisor != IR_NONE) low = op2(m, IR_div, low, divisor);
	low = op2(m, IR_mul, op1(m, IR_expm1, low), factor);
	return where(m, above, scale == IR_NONE ? x : op2(m, IR_mul, x, scale), low);
}

static ir_ref selu(const made *m, ir_ref x)
{
	ir_ref factor = num(m, 1.0507009873554804934193349852946 * 1.6732632423543772848170429916717);
	return elu(m, x, factor, IR_NONE, num(m, 1.0507009873554804934193349852946));
}

/* IR_NONE for beta: 1 */
static ir_ref softplus(const made *m, ir_ref x, ir_ref beta, ir_ref threshold)
{
	ir_ref z = beta == IR_NONE ? x : op2(m, IR_mul, x, beta), above = op2(m, IR_gt, z, threshold);
	ir_ref y = op1(m, IR_log1p, op1(m, IR_exp, but_for(m, above, z)));
	return where(m, above, x, beta == IR_NONE ? y : op2(m, IR_div, y, beta));
}

static ir_ref mish(const made *m, ir_ref x) { return op2(m, IR_mul, x, op1(m, IR_tanh, softplus(m, x, IR_NONE, num(m, 20)))); }

static ir_ref logsigmoid(const made *m, ir_ref x)
{
	ir_ref e = op1(m, IR_exp, op1(m, IR_neg, op1(m, IR_abs, x))), low = op2(m, IR_minimum, x, num(m, 0));
	return op2(m, IR_sub, low, op1(m, IR_log1p, e));
}

static ir_ref softsign(const made *m, ir_ref x)
{
	ir_ref size = op1(m, IR_abs, x);
	return op2(m, IR_div, x, op2(m, IR_add, size, num(m, 1)));
}

static ir_ref shrink(const made *m, ir_op op, ir_ref x, ir_ref by)
{
	ir_ref none = num(m, 0), inside = op2(m, IR_le, op1(m, IR_abs, x), by);
	if (op == IR_hardshrink) return where(m, inside, none, x);
	ir_ref down = op2(m, IR_sub, x, by), up = op2(m, IR_add, x, by), above = op2(m, IR_gt, x, none);
	return where(m, inside, none, where(m, above, down, up));
}

static ir_ref glu(const made *m, ir_ref x, int64_t axis)
{
	ir_ref half[2];
	if (x == IR_NONE) return x;
	int64_t n = ir_dims(m->g, ir_at(m->g, x))[axis] / 2;
	for (int k = 0; k < 2; k++) half[k] = ir_emit(m->g, IR_slice, 1, &x, 4, (int64_t[]){ axis, k * n, (k + 1) * n, 1 }, m->site);
	return op2(m, IR_mul, half[0], op1(m, IR_sigmoid, half[1]));
}

/* ---- maths ---- */
static ir_ref scaled(const made *m, ir_ref x, double by) { return op2(m, IR_mul, x, num(m, by)); }

/* x^n, n >= 1 */
static ir_ref power(const made *m, ir_ref x, int64_t n)
{
	ir_ref y = IR_NONE;
	for (bool any = false; n; n >>= 1) {
		if (n & 1) y = any ? op2(m, IR_mul, y, x) : x, any = true;
		if (n > 1) x = op2(m, IR_mul, x, x);
	}
	return y;
}

/* The n-th derivative of pi cot(pi x), over pi^(n + 1): a polynomial in c = cot(pi x), since that of c is -(1 + c^2). */
static ir_ref cot_slope(const made *m, ir_ref x, int64_t n)
{
	double p[IR_MOST_ORDER + 2] = { 0, 1 };
	for (int64_t k = 1; k <= n; k++) {
		double q[IR_MOST_ORDER + 3] = { 0 };
		for (int64_t i = 1; i <= k; i++) { /* c^i: -i c^(i - 1) - i c^(i + 1) */
			q[i - 1] -= (double)i * p[i];
			q[i + 1] -= (double)i * p[i];
		}
		for (int64_t i = 0; i <= k + 1; i++) p[i] = q[i];
	}
	ir_ref part = op2(m, IR_sub, x, op1(m, IR_round, x)), size = op1(m, IR_abs, part),
	       far = op2(m, IR_gt, size, num(m, 0.25)); /* near 1/2: the tangent of the rest */
	ir_ref turn = scaled(m, where(m, far, op2(m, IR_sub, num(m, 0.5), size), size), 3.14159265358979323846),
	       sine = op1(m, IR_sin, turn), cosine = op1(m, IR_cos, turn);
	ir_ref top = where(m, far, sine, cosine), bottom = where(m, far, cosine, sine);
	ir_ref c = op2(m, IR_copysign, op2(m, IR_div, top, bottom), part), y = num(m, p[n + 1]);
	for (int64_t i = n; i >= 0; i--) {
		y = op2(m, IR_mul, y, c);
		if (p[i] != 0) y = op2(m, IR_add, y, num(m, p[i]));
	}
	return y;
}

/* (-1)^(n + 1) n! times the sum of 1 / (x + k)^(n + 1): the first ones, then Euler and Maclaurin's series for the others. Below 0 by
 * reflection. */
static ir_ref polygamma(const made *m, int64_t n, ir_ref x)
{
	enum { FIRST = 16, TERMS = 10 };
	static const double bernoulli[TERMS] = { 1.0 / 6,       -1.0 / 30, 1.0 / 42,      -1.0 / 30,     5.0 / 66,
		                                 -691.0 / 2730, 7.0 / 6,   -3617.0 / 510, 43867.0 / 798, -174611.0 / 330 };
	double factorial = 1, coef[TERMS];
	for (int64_t k = 2; k <= n; k++) factorial *= (double)k;
	for (int k = 1; k <= TERMS; k++) { /* B (2 k + n - 1)! / ((2 k)! n!) */
		coef[k - 1] = bernoulli[k - 1] / (double)n;
		for (int64_t i = 1; i < n; i++) coef[k - 1] *= (double)(2 * k + i) / (double)i;
	}
	ir_ref one = num(m, 1), below = op2(m, IR_lt, x, num(m, 0)), a = where(m, below, op2(m, IR_sub, one, x), x), sum = IR_NONE;
	for (int k = 0; k < FIRST; k++) {
		ir_ref part = power(m, op2(m, IR_div, one, k ? op2(m, IR_add, a, num(m, k)) : a), n + 1);
		sum = k ? op2(m, IR_add, sum, part) : part;
	}
	ir_ref u = op2(m, IR_div, one, op2(m, IR_add, a, num(m, FIRST))), u2 = op2(m, IR_mul, u, u), tail = num(m, coef[TERMS - 1]);
	for (int k = TERMS - 2; k >= 0; k--) tail = op2(m, IR_add, op2(m, IR_mul, tail, u2), num(m, coef[k]));
	tail = op2(m, IR_add, op2(m, IR_mul, tail, u2), op2(m, IR_add, scaled(m, u, 0.5), num(m, 1 / (double)n)));
	ir_ref y = scaled(m, op2(m, IR_add, sum, op2(m, IR_mul, tail, power(m, u, n))), n % 2 ? factorial : -factorial);
	ir_ref turned = n % 2 ? op1(m, IR_neg, y) : y, cot = scaled(m, cot_slope(m, x, n), pow(3.14159265358979323846, (double)(n + 1)));
	return where(m, below, op2(m, IR_sub, turned, cot), y);
}

/* max + log1p(exp(-|a - b|)); the distance is 0 where both are equal, since inf - inf is NaN */
static ir_ref logaddexp(const made *m, ir_op op, ir_ref a, ir_ref b)
{
	ir_ref equal = op2(m, IR_eq, a, b), d = op1(m, IR_neg, op1(m, IR_abs, but_for(m, equal, op2(m, IR_sub, a, b))));
	ir_ref y = op1(m, IR_log1p, op1(m, op == IR_logaddexp ? IR_exp : IR_exp2, d));
	if (op == IR_logaddexp2) y = scaled(m, y, 1.4426950408889634074);
	return op2(m, IR_add, op2(m, IR_maximum, a, b), y);
}

/* x log(y). Where x is 0 and the logarithm not finite, it is computed of another number: its gradient is then 0, as in PyTorch. */
static ir_ref xlogy(const made *m, ir_op op, ir_ref x, ir_ref y)
{
	ir_ref none = num(m, 0), zero = op2(m, IR_eq, x, none), low = op2(m, IR_le, y, num(m, op == IR_log ? 0 : -1));
	ir_ref out = op2(m, IR_logical_or, low, op2(m, IR_eq, y, num(m, INFINITY))), flat = op2(m, IR_logical_and, zero, out);
	ir_ref log = op1(m, op, where(m, flat, num(m, op == IR_log ? 1 : 0), y));
	return where(m, flat, none, op2(m, IR_mul, x, log));
}

static ir_ref lerp(const made *m, ir_ref a, ir_ref b, ir_ref w)
{
	ir_ref d = op2(m, IR_sub, b, a), near = op2(m, IR_add, a, op2(m, IR_mul, w, d)), one = num(m, 1);
	ir_ref far = op2(m, IR_sub, b, op2(m, IR_mul, d, op2(m, IR_sub, one, w))), size = op1(m, IR_abs, w);
	return where(m, op2(m, IR_lt, size, num(m, 0.5)), near, far);
}

/* a + value * b * c, or a + value * b / c */
static ir_ref addc(const made *m, ir_op op, ir_ref a, ir_ref b, ir_ref c, ir_ref value)
{
	return op2(m, IR_add, a, op2(m, op, op2(m, IR_mul, value, b), c));
}

static ir_ref isclose(const made *m, ir_ref a, ir_ref b, ir_ref rtol, ir_ref atol, bool equal_nan)
{
	ir_ref same = op2(m, IR_eq, a, b), d = op1(m, IR_abs, op2(m, IR_sub, a, b)), slack = op1(m, IR_abs, op2(m, IR_mul, rtol, b));
	ir_ref near = op2(m, IR_le, d, op2(m, IR_add, atol, slack));
	near = op2(m, IR_logical_and, near, op1(m, IR_isfinite, d));
	same = op2(m, IR_logical_or, same, near);
	if (!equal_nan) return same;
	ir_ref x = op1(m, IR_isnan, a), y = op1(m, IR_isnan, b);
	return op2(m, IR_logical_or, same, op2(m, IR_logical_and, x, y));
}

static double largest(tj_dtype t) { return t == TJ_F16 ? 65504 : t == TJ_BF16 ? 0x1.fep127 : t == TJ_F32 ? FLT_MAX : DBL_MAX; }

static ir_ref nan_to_num(const made *m, ir_ref x, const ir_ref *by, tj_dtype t)
{
	if (!rt_is_float(t)) return x;
	ir_ref up = op2(m, IR_minimum, by[1], num(m, largest(t))), down = op2(m, IR_maximum, by[2], num(m, -largest(t)));
	ir_ref above = op2(m, IR_eq, x, num(m, INFINITY)), below = op2(m, IR_eq, x, num(m, -INFINITY)), nan = op1(m, IR_isnan, x);
	ir_ref y = where(m, below, down, x);
	return where(m, nan, by[0], where(m, above, up, y));
}

/* ---- statistics ---- */
/* The sum of the squares of d, the distances from the mean. The mean is rounded, so all distances share an error, which adds
 * (sum d)^2 / n to the sum. That is subtracted if it is finite; the result is at least 0. One pass makes both sums. */
static ir_ref sum_of_squares(const made *m, ir_ref d, uint32_t axes, bool keepdim)
{
	double n = (double)elements(m, d, axes);
	ir_ref squares = reduce(m, IR_sum, op2(m, IR_mul, d, d), axes, keepdim), rest = reduce(m, IR_sum, d, axes, keepdim);
	ir_ref divisor = num(m, n);
	ir_ref common = op2(m, IR_div, op2(m, IR_mul, rest, rest), divisor);
	ir_ref least = num(m, 0), less = op2(m, IR_maximum, op2(m, IR_sub, squares, common), least), finite = op1(m, IR_isfinite, common);
	return ir_emit(m->g, IR_where, 3, (ir_ref[]){ finite, less, squares }, 0, NULL, m->site);
}

static ir_ref var(const made *m, ir_ref x, uint32_t axes, ir_ref correction, bool keepdim)
{
	if (x == IR_NONE) return x;
	ir_ref d = op2(m, IR_sub, x, mean_over(m, x, axes, true)), n = num(m, (double)elements(m, x, axes));
	ir_ref divisor = op2(m, IR_maximum, op2(m, IR_sub, n, correction), num(m, 0));
	return op2(m, IR_div, sum_of_squares(m, d, axes, keepdim), divisor);
}

/* x - max along an axis. An empty x is returned as it is, since amax over no elements is an error. */
static ir_ref below_max(const made *m, ir_ref x, uint32_t axis)
{
	if (x == IR_NONE || ir_numel(m->g, x) == 0) return x;
	return op2(m, IR_sub, x, reduce(m, IR_amax, x, axis, true));
}

static uint32_t axis_bit(const made *m, ir_ref x, int64_t axis) { return rank_of(m, x) ? 1u << axis : 0; }

static ir_ref softmax(const made *m, ir_ref x, uint32_t axis)
{
	ir_ref e = op1(m, IR_exp, below_max(m, x, axis));
	return op2(m, IR_div, e, reduce(m, IR_sum, e, axis, true));
}

static ir_ref log_softmax(const made *m, ir_ref x, uint32_t axis)
{
	ir_ref s = below_max(m, x, axis);
	return op2(m, IR_sub, s, op1(m, IR_log, reduce(m, IR_sum, op1(m, IR_exp, s), axis, true)));
}

/* log(sum(exp(x - m))) + m; m is the maximum, or 0 where the maximum is not finite: inf - inf would be NaN. */
/* With m the largest so far: m + log(s), where s[i] = s[i - 1] * exp(m[i - 1] - m[i]) + exp(x[i] - m[i]). An infinite m counts as 0 in the
 * differences. */
static ir_ref logcumsumexp(const made *m, ir_ref x, int64_t axis)
{
	const ir_ref most = ir_get(m->g, ir_emit(m->g, IR_cummax, 1, &x, 1, &axis, m->site), 0, m->site);
	if (most == IR_NONE) return most;
	const int rank = rank_of(m, most);
	const int64_t n = rank ? ir_dims(m->g, ir_at(m->g, most))[axis] : 1;
	const ir_ref low = where(m, op1(m, IR_isinf, most), num(m, 0), most), rest = op2(m, IR_sub, x, low);
	ir_ref before = low, empty = op2(m, IR_eq, most, num(m, -INFINITY));
	if (n > 1) { /* those of element i - 1; that of element 0 is not used */
		const ir_ref all[] = { low, empty };
		ir_ref by[2];
		for (int k = 0; k < 2; k++) {
			const ir_ref head = ir_emit(m->g, IR_slice, 1, &all[k], 4, (int64_t[]){ axis, 0, 1, 1 }, m->site);
			const ir_ref tail = ir_emit(m->g, IR_slice, 1, &all[k], 4, (int64_t[]){ axis, 0, n - 1, 1 }, m->site);
			by[k] = ir_emit(m->g, IR_cat, 2, (ir_ref[]){ head, tail }, 1, &axis, m->site);
		}
		before = by[0];
		empty = by[1];
	}
	const ir_ref shrink = op1(m, IR_exp, op2(m, IR_sub, before, low)), kept = where(m, empty, num(m, 0), shrink), own = op1(m, IR_exp, rest);
	const ir_ref s = ir_emit(m->g, IR_linear_recurrence, 2, (ir_ref[]){ kept, own }, 1, &axis, m->site);
	return op2(m, IR_add, low, op1(m, IR_log, s));
}

static ir_ref logsumexp(const made *m, ir_ref x, uint32_t axes, bool keepdim)
{
	if (x == IR_NONE || ir_numel(m->g, x) == 0) return op1(m, IR_log, reduce(m, IR_sum, x, axes, keepdim)); /* of no elements: log(0) */
	ir_ref top[3] = { IR_NONE, reduce(m, IR_amax, x, axes, true), num(m, 0) };
	top[0] = op1(m, IR_isfinite, top[1]);
	ir_ref low = ir_emit(m->g, IR_where, 3, top, 0, NULL, m->site);
	ir_ref sum = reduce(m, IR_sum, op1(m, IR_exp, op2(m, IR_sub, x, low)), axes, keepdim);
	if (!keepdim && sum != IR_NONE) low = ir_reshape(m->g, low, rank_of(m, sum), ir_dims(m->g, ir_at(m->g, sum)), m->site);
	return op2(m, IR_add, op1(m, IR_log, sum), low);
}

/* The root is taken of 1 where the sum is 0: its gradient there would be infinite. */
static ir_ref normalize(const made *m, ir_ref x, uint32_t axis, ir_ref eps)
{
	ir_ref sum = reduce(m, IR_sum, op2(m, IR_mul, x, x), axis, true), none = num(m, 0), zero = op2(m, IR_eq, sum, none);
	ir_ref root = op1(m, IR_sqrt, where(m, zero, num(m, 1), sum)), norm = where(m, zero, none, root);
	return op2(m, IR_div, x, op2(m, IR_maximum, norm, eps));
}

/* ---- norms, over the last axis ---- */
static uint32_t last_axis(const made *m, ir_ref x) { return 1u << (rank_of(m, x) - 1); }

static ir_ref layer_norm(made *m, ir_ref x, const ir_ref *rest)
{
	ir_ref weight = enter(m, rest[0]), bias = enter(m, rest[1]), eps = enter(m, rest[2]);
	ir_ref d = op2(m, IR_sub, x, mean_over(m, x, last_axis(m, x), true));
	ir_ref v = mean_over(m, op2(m, IR_mul, d, d), last_axis(m, x), true);
	ir_ref y = op2(m, IR_mul, d, op1(m, IR_rsqrt, op2(m, IR_add, v, eps)));
	return op2(m, IR_add, op2(m, IR_mul, y, weight), bias);
}

static ir_ref rms_norm(made *m, ir_ref x, const ir_ref *rest)
{
	ir_ref weight = enter(m, rest[0]), eps = enter(m, rest[1]);
	ir_ref v = mean_over(m, op2(m, IR_mul, x, x), last_axis(m, x), true);
	return op2(m, IR_mul, op2(m, IR_mul, x, op1(m, IR_rsqrt, op2(m, IR_add, v, eps))), weight);
}

/* ---- the rest ---- */
/* -mean(log_softmax(x)[i, target[i]]); x [N,C], target [N] */
static ir_ref cross_entropy(const made *m, ir_ref x, ir_ref target)
{
	if (x == IR_NONE || target == IR_NONE) return IR_NONE;
	const char *site = tj_site_for(m->site, "cross_entropy", "an element of the target is no class; the number of classes is ",
	                               "classes count from 0; .ignore of tj_cross_entropy_loss() leaves out the targets of a number such as -100");
	int64_t n = ir_dims(m->g, ir_at(m->g, x))[0];
	ir_ref column = ir_reshape(m->g, target, 2, (int64_t[]){ n, 1 }, m->site);
	ir_ref picked = ir_emit(m->g, IR_gather, 2, (ir_ref[]){ log_softmax(m, x, 2), column }, 1,
	                        (int64_t[]){ 1 }, site);
	return op1(m, IR_neg, mean_over(m, ir_reshape(m->g, picked, 1, &n, m->site), 1, false));
}

/* Numbers are cast directly to the dtype of the result, not to f32 first. */
static ir_ref stack(const made *m, int n, const ir_ref *x, int64_t axis, tj_dtype dtype)
{
	ir_ref *wide = rt_arena_alloc(&m->g->mem, sizeof *wide * (size_t)n);
	if (!wide) {
		rt_fail(&m->g->err, TJ_ERR_NOMEM, "stack", "out of memory");
		return IR_NONE;
	}
	for (int k = 0; k < n; k++) {
		ir_ref a = x[k];
		int64_t to = dtype;
		if (a != IR_NONE && ir_at(m->g, a)->weak) a = ir_emit(m->g, IR_cast, 1, &a, 1, &to, m->site);
		wide[k] = ir_emit(m->g, IR_unsqueeze, 1, &a, 1, &axis, m->site);
	}
	return ir_emit(m->g, IR_cat, n, wide, 1, &axis, m->site);
}

/* The others enter those operands that they compute with. */
static bool enters_all(ir_op op) { return op != IR_layer_norm && op != IR_rms_norm && op != IR_cross_entropy; }

ir_ref ir_decompose(ir_graph *g, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node copy = *ir_at(from, r), *n = &copy; /* from may be g, and emitting moves nodes and attributes */
	int64_t attr[TJ_MAX_RANK + IR_CLASS_ATTRS];
	if (n->nattr) memcpy(attr, ir_attr(from, n), sizeof *attr * n->nattr);
	const ir_meta to = ir_meta_of(from, r);
	made m = { g, n->site, (tj_dtype)n->dtype };
	g->mode = n->mode;
	if (n->op == IR_stop_gradient) return src[0];
	if (ir_moves(n->op)) return ir_move(g, n, &to, src, attr);
	if (ir_convolves(n->op)) return ir_convolve(g, n, &to, src, attr);
	if (n->op == IR_stack) return stack(&m, n->nsrc, src, attr[0], (tj_dtype)n->dtype);
	ir_ref x = enter(&m, src[0]), y = IR_NONE, p[3] = { IR_NONE, IR_NONE, IR_NONE }; /* p: the other operands */
	if (x == IR_NONE) return IR_NONE;
	for (int k = 1; k <= 3 && k < n->nsrc && enters_all((ir_op)n->op); k++) p[k - 1] = enter(&m, src[k]);
	uint32_t axes = ir_ops[n->op].opclass == IR_REDUCE_ || ir_ops[n->op].opclass == IR_VAR
	                    ? ir_reduced((ir_op)n->op, n->nattr, attr, rank_of(&m, x)) : 0;
	switch (n->op) {
	case IR_logaddexp: case IR_logaddexp2: y = logaddexp(&m, (ir_op)n->op, x, p[0]); break;
	case IR_xlogy: y = xlogy(&m, IR_log, x, p[0]); break;
	case IR_xlog1py: y = xlogy(&m, IR_log1p, x, p[0]); break;
	case IR_float_power: y = op2(&m, IR_pow, x, p[0]); break;
	case IR_lerp: y = lerp(&m, x, p[0], p[1]); break;
	case IR_addcmul: y = addc(&m, IR_mul, x, p[0], p[1], p[2]); break;
	case IR_addcdiv: y = addc(&m, IR_div, x, p[0], p[1], p[2]); break;
	case IR_isclose: y = isclose(&m, x, p[0], p[1], p[2], attr[0] != 0); break;
	case IR_nan_to_num: y = nan_to_num(&m, x, p, (tj_dtype)n->dtype); break;
	case IR_positive: y = x; break;
	case IR_nextafter: y = next_narrow(&m, x, p[0], (tj_dtype)n->dtype); break;
	case IR_polygamma:
		y = attr[0] ? polygamma(&(made){ g, n->site, TJ_F64 }, attr[0], ir_cast(g, x, TJ_F64, n->site)) : op1(&m, IR_digamma, x);
		break;
	case IR_deg2rad: y = scaled(&m, x, 0.01745329251994329577); break;
	case IR_rad2deg: y = scaled(&m, x, 57.295779513082320877); break;
	case IR_silu: y = silu(&m, x); break;
	case IR_relu6: y = limited_6(&m, x); break;
	case IR_leaky_relu: y = above_0(&m, x, p[0]); break;
	case IR_prelu: y = prelu(&m, x, p[0]); break;
	case IR_elu: y = elu(&m, x, p[0], IR_NONE, IR_NONE); break;
	case IR_celu: y = elu(&m, x, p[0], p[0], IR_NONE); break;
	case IR_selu: y = selu(&m, x); break;
	case IR_mish: y = mish(&m, x); break;
	case IR_softplus: y = softplus(&m, x, p[0], p[1]); break;
	case IR_softsign: y = softsign(&m, x); break;
	case IR_logsigmoid: y = logsigmoid(&m, x); break;
	case IR_tanhshrink: y = op2(&m, IR_sub, x, op1(&m, IR_tanh, x)); break;
	case IR_hardshrink: case IR_softshrink: y = shrink(&m, (ir_op)n->op, x, p[0]); break;
	case IR_hardtanh: y = limited(&m, x, p[0], p[1]); break;
	case IR_hardsigmoid: case IR_hardswish: y = hard(&m, (ir_op)n->op, x); break;
	case IR_threshold: y = where(&m, op2(&m, IR_le, x, p[0]), p[1], x); break;
	case IR_glu: y = glu(&m, x, attr[0]); break;
	case IR_softmin: y = softmax(&m, op1(&m, IR_neg, x), axis_bit(&m, x, attr[0])); break;
	case IR_normalize: y = normalize(&m, x, axis_bit(&m, x, attr[0]), p[0]); break;
	case IR_gelu: case IR_gelu_tanh: y = gelu(&m, (ir_op)n->op, x); break;
	case IR_mean: y = mean_over(&m, x, axes, attr[0] != 0); break;
	case IR_var: y = var(&m, x, axes, p[0], attr[0] != 0); break;
	case IR_softmax: y = softmax(&m, x, axis_bit(&m, x, attr[0])); break;
	case IR_log_softmax: y = log_softmax(&m, x, axis_bit(&m, x, attr[0])); break;
	case IR_argsort: y = ir_get(g, ir_emit(g, IR_sort, 1, &src[0], 2, attr, n->site), 1, n->site); break;
	case IR_rdft: y = ir_rfft(g, x, attr[0], n->site); break;
	case IR_inverse_rdft: y = ir_irfft(g, x, attr[0], attr[1], n->site); break;
	case IR_dft: case IR_inverse_dft: y = ir_fft(g, x, attr[0], n->op == IR_inverse_dft, n->site); break;
	case IR_logcumsumexp: y = logcumsumexp(&m, x, attr[0]); break;
	case IR_logsumexp: y = logsumexp(&m, x, axes, attr[0] != 0); break;
	case IR_layer_norm: y = layer_norm(&m, x, src + 1); break;
	case IR_rms_norm: y = rms_norm(&m, x, src + 1); break;
	case IR_cross_entropy: y = cross_entropy(&m, x, src[1]); break;
	default: rt_fail(&g->err, TJ_ERR_ARG, ir_ops[n->op].name, "has no decomposition"); return IR_NONE;
	}
	return leave(&m, y, (tj_dtype)n->dtype);
}

/* ---- the pass ---- */
static ir_ref take(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src,
                   bool (*claim)(const ir_graph *g, ir_ref r))
{
	bool composite = ir_is_composite(ir_at(from, r)->op, (tj_dtype)ir_at(from, r)->dtype);
	return composite && !(claim && claim(from, r)) ? ir_keep_device(to, ir_decompose(to, from, r, src), ir_at(from, r))
	                                               : ir_copy(to, from, r, src);
}

static tj_status take_all(const ir_graph *from, ir_graph *to, const bool *live, ir_ref *map, ir_ref *src,
                          bool (*claim)(const ir_graph *g, ir_ref r))
{
	for (ir_ref r = 0; r < from->node.n; r++) {
		const ir_node *n = ir_at(from, r);
		if (!live[r]) continue;
		for (int k = 0; k < n->nsrc; k++) src[k] = map[ir_src(from, n, k)];
		map[r] = take(to, from, r, src, claim);
		if (map[r] == IR_NONE) return to->err.code;
	}
	for (uint32_t i = 0; i < from->out.n; i++)
		if (!ir_ret(to, map[from->out.v[i]])) return to->err.code;
	return TJ_OK;
}

tj_status ir_pass_decomp(const ir_graph *from, ir_graph *to, bool (*claim)(const ir_graph *g, ir_ref r),
                         rt_err *err)
{
	rt_arena mem = { 0 };
	tj_status st = TJ_ERR_NOMEM;
	bool *live = rt_arena_alloc(&mem, sizeof *live * from->node.n);
	ir_ref *map = rt_arena_alloc(&mem, sizeof *map * from->node.n);
	ir_ref *src = rt_arena_alloc(&mem, sizeof *src * (from->refs.n + 1));
	if (!live || !map || !src) rt_fail(err, st, "decomp", "out of memory");
	else {
		ir_live(from, live);
		st = take_all(from, to, live, map, src, claim);
		if (st != TJ_OK && err && err->code == TJ_OK) *err = to->err;
	}
	rt_arena_free(&mem);
	return st;
}
