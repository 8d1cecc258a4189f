/* SPDX-License-Identifier: MIT */
/* power: tj_pow() by a number of a short list is recorded as products and roots. A logarithm and an exponential take twenty times as long.
 *
 *    0.5  sqrt(p)       -0.5  1 / sqrt(p)      -1.5  (1 / sqrt(p)) / p
 *    2    x x           -1    1 / x            -2    (1 / x) / x           3  x x x       4  (x x) (x x)
 *
 * p is x, with +0 for -0 and +inf for -inf, as pow() has it. No step overflows or vanishes unless the result does. The error is 0.5 ulp for
 * 2, 0.5 and -1, up to 1.3 with two steps that round, up to 1.95 with three.
 *
 * Gradients are those of the steps. Where these would overflow, or meet 0 times infinity, but the gradient is a number, as for 1.5 at 0 and
 * for -3, the power stays one op.
 *
 * The choice is one of the program, as that of an if: another number records other ops. */
#include "jit/claim.h"
#include "jit/event.h"
#include "jit/handle.h"

#include <math.h>

/* The number, if it is in the list; else NAN. Direct mode looks again at a number that may be another in the next call. */
static double exponent(const char *site, tj_tensor *b)
{
	if (rt_is_number(b)) return jit_listed_power(b);
	JIT_CURRENT(c, site);
	RT_DEFAULT_MODES;
	tj_tensor *src[] = { b, rt_number_i(0), rt_number_i(0) }, *in[3];
	if (!c || jit_admit_all(c, site, "pow", 3, src, in) != JIT_OK) return NAN;
	const double e = jit_listed_power(in[0]);
	in[1] = rt_number_f(e);
	if (c->active && c->act.learn) (void)jit_late_op(&c->act, IR_pow, 3, in, in[0]);
	return e;
}

static tj_tensor *op1(const char *site, ir_op op, tj_tensor *a) { return jit_event(site, op, 1, &a, 0, NULL); }
static tj_tensor *op2(const char *site, ir_op op, tj_tensor *a, tj_tensor *b)
{
	return jit_event(site, op, 2, (tj_tensor *[]){ a, b }, 0, NULL);
}

/* +0 for -0, +inf for -inf */
static tj_tensor *base_of_root(const char *site, tj_tensor *x)
{
	tj_tensor *src[] = { op2(site, IR_eq, x, rt_number_f(-INFINITY)), rt_number_f(INFINITY), op2(site, IR_add, x, rt_number_f(0)) };
	return jit_event(site, IR_where, 3, src, 0, NULL);
}

static tj_tensor *root_power(const char *site, tj_tensor *x, double e)
{
	tj_tensor *p = base_of_root(site, x), *s = op1(site, IR_sqrt, p);
	if (e > 0) return s;
	tj_tensor *over = op1(site, IR_reciprocal, s);
	return e == -0.5 ? over : op2(site, IR_div, over, p);
}

tj_tensor *jit_power(const char *site, tj_tensor *x, tj_tensor *b)
{
	if (!jit_is_number(b) || !x || x == TJ_END || jit_is_number(x) || tj_is_poison(x) || tj_is_poison(b)) return NULL;
	if (tj_dtype_of(x) != TJ_F32 && tj_dtype_of(x) != TJ_F64) return NULL;
	const double e = exponent(site, b);
	if (e != e) return NULL;
	if (e == 0.5 || e == -0.5 || e == -1.5) return root_power(site, x, e); /* no conversion: the caller may trap what is inexact */
	tj_tensor *step = e > 0 ? op2(site, IR_mul, x, x) : op1(site, IR_reciprocal, x);
	if (e == 2 || e == -1) return step;
	return op2(site, e > 0 ? IR_mul : IR_div, step, e == 4 ? step : x);
}
