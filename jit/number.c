/* SPDX-License-Identifier: MIT */
/* Numbers: handles that carry a value in their bits. An op whose operands are all numbers is computed at once. */
#include "jit/claim.h"
#include "jit/handle.h"

#include <math.h>

tj_tensor *tj_f(double value) { return rt_number_f(value); }

static bool in_range(int64_t value) { return value <= RT_INT_MAX && value >= -RT_INT_MAX; }

static tj_tensor *too_large(tj_ctx *c, const char *site, const char *op, const char *hint, int64_t value)
{
	return jit_error(c, site, TJ_ERR_LIMIT, op, hint, "%lld is beyond 2^51, the range of numbers in handles", (long long)value);
}

tj_tensor *tj_i_at(const char *site, int64_t value)
{
	if (in_range(value)) return rt_number_i(value);
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, "i");
	return too_large(c, site, "i", "make it a tensor with tj_from_data()", value);
}

static ir_scalar scalar_of(const tj_tensor *t, tj_dtype compute)
{
	ir_scalar s;
	if (rt_is_int_number(t)) s.i = rt_int_of(t);
	else s.d = rt_float_of(t);
	return ir_cast_scalar(s, rt_is_int_number(t) ? TJ_I64 : TJ_F64, compute);
}

/* src: a number, and a dtype that must hold it. */
static tj_tensor *check_fit(tj_ctx *c, const char *site, tj_tensor *const *src)
{
	bool is_int = rt_is_int_number(src[0]);
	tj_dtype t = (tj_dtype)rt_int_of(src[1]);
	ir_scalar s;
	if (is_int) s.i = rt_int_of(src[0]);
	else s.d = rt_float_of(src[0]);
	if (ir_holds(t, s, is_int)) return src[0];
	const char *hint = rt_is_float(t) ? "use a wider dtype" : "limit the number first with tj_clamp(), or use a wider dtype";
	if (is_int) return jit_error(c, site, TJ_ERR_ARG, "full", hint, "%s cannot hold %lld", tj_dtype_name(t), (long long)s.i);
	return jit_error(c, site, TJ_ERR_ARG, "full", hint, "%s cannot hold %.9g", tj_dtype_name(t), s.d);
}

tj_tensor *jit_fitting(const char *site, tj_dtype t, tj_tensor *value)
{
	JIT_CURRENT(c, site);
	bool number = rt_is_number(value) || (value && value != TJ_END && value->kind == RT_LATE);
	if (!c || !number || (unsigned)t >= TJ_DTYPE_COUNT || t == TJ_F64 || t == TJ_BOOL) return value;
	RT_DEFAULT_MODES;
	tj_tensor *src[2] = { value, rt_number_i(t) }, *in[2];
	if (jit_admit_all(c, site, "full", 2, src, in) != JIT_OK) return &c->rt.poison;
	tj_tensor *r = check_fit(c, site, in);
	return c->active && c->act.learn && rt_is_number(r) ? jit_late_op(&c->act, IR_full, 2, in, r) : r;
}

double jit_listed_power(const tj_tensor *number)
{
	static const double listed[] = { 2, 0.5, -1, 3, -0.5, -1.5, -2, 4 };
	const double e = rt_is_int_number(number) ? (double)rt_int_of(number) : rt_float_of(number);
	for (size_t i = 0; i < RT_COUNT(listed); i++)
		if (e == listed[i]) return e;
	return (double)NAN;
}

/* src: an exponent, and what power.c found of it when the ops were recorded. */
static bool is_expected(tj_tensor *const *src)
{
	const double now = jit_listed_power(src[0]), then = rt_float_of(src[1]);
	return now == then || (now != now && then != then);
}

tj_tensor *jit_number_op(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, jit_zero_div z)
{
	ir_meta meta[3], out;
	uint8_t want[3];
	ir_scalar in[3];
	rt_err err;
	if (op == IR_full) return check_fit(c, site, src);
	if (op == IR_pow && nsrc == 3) return is_expected(src) ? src[0] : NULL;
	if (nsrc > 3 || !ir_ops[op].math) return NULL;
	rt_no_err(&err);
	for (int k = 0; k < nsrc; k++) meta[k] = jit_meta(src[k]);
	if (ir_infer(op, nsrc, meta, 0, NULL, &out, NULL, NULL, want, &err) != TJ_OK) return jit_report(c, site, &err);
	/* Floats are computed as f64 (a C double), also where promotion would give f32. */
	tj_dtype compute = rt_is_float((tj_dtype)want[nsrc - 1]) ? TJ_F64 : (tj_dtype)want[nsrc - 1];
	tj_dtype result = rt_is_float((tj_dtype)out.dtype) ? TJ_F64 : TJ_I64;
	for (int k = 0; k < nsrc; k++) in[k] = scalar_of(src[k], want[k] == TJ_BOOL ? TJ_BOOL : compute); /* a condition is bool */
	if (ir_divides(op) && compute != TJ_F64 && in[1].i == 0) {
		if (z == JIT_ZERO_DIV_ERROR)
			return jit_error(c, site, TJ_ERR_DIV, ir_ops[op].name,
			                 "in a function compiled with .int_div_zero = TJ_ZERO the result is 0", "integer division by zero");
		return z == JIT_ZERO_DIV_0 ? rt_number_i(0) : NULL;
	}
	ir_point_fn *f = ir_point_get(op, rt_dtype_class(compute));
	if (!f) return NULL;
	ir_scalar r = f(in, compute);
	if (result == TJ_F64) return rt_number_f(r.d);
	return in_range(r.i) ? rt_number_i(r.i)
	                     : too_large(c, site, ir_ops[op].name, "tj_cast() an operand to TJ_I64: tensors have its full range", r.i);
}
