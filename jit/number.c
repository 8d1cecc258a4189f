/* Numbers: handles that carry a value in their bits; ops on numbers alone compute at once. */
#include "jit/jit.h"

tj_tensor *tj_f(double value) { return rt_number_f(value); }

tj_tensor *tj_i_at(const char *site, int64_t value)
{
	if (value <= RT_INT_MAX && value >= -RT_INT_MAX) return rt_number_i(value);
	tj_ctx *c = jit_current(site);
	if (!c) return jit_no_context();
	return jit_error(c, site, TJ_ERR_LIMIT, "i", "make a tensor of it with tj_full() or tj_from_data()",
	                 "%lld is beyond 2^51, the range of numbers in handles", (long long)value);
}

static ir_scalar scalar_of(const tj_tensor *t, tj_dtype compute)
{
	ir_scalar s;
	if (rt_is_int_number(t)) s.i = rt_int_of(t);
	else s.d = rt_float_of(t);
	return ir_cast_scalar(s, rt_is_int_number(t) ? TJ_I64 : TJ_F64, compute);
}

static bool divides(ir_op op) { return op == IR_floor_divide || op == IR_remainder || op == IR_trunc_divide || op == IR_fmod; }

tj_tensor *jit_number_op(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src)
{
	ir_meta meta[3], out;
	uint8_t want[3];
	ir_scalar in[3];
	rt_err err;
	if (nsrc > 3 || !ir_ops[op].math) return NULL;
	rt_no_err(&err);
	for (int k = 0; k < nsrc; k++) meta[k] = jit_meta(src[k]);
	if (ir_infer(op, nsrc, meta, 0, NULL, &out, NULL, NULL, want, &err) != TJ_OK) return jit_report(c, site, &err);
	/* A float that promotion would make f32 stays the C double it is. */
	tj_dtype compute = rt_is_float((tj_dtype)want[nsrc - 1]) ? TJ_F64 : (tj_dtype)want[nsrc - 1];
	tj_dtype result = rt_is_float((tj_dtype)out.dtype) ? TJ_F64 : TJ_I64;
	for (int k = 0; k < nsrc; k++) in[k] = scalar_of(src[k], want[k] == TJ_BOOL ? TJ_BOOL : compute); /* a condition is bool */
	if (divides(op) && compute != TJ_F64 && in[1].i == 0)
		return jit_error(c, site, TJ_ERR_DIV, ir_ops[op].name, NULL, "integer division by zero");
	ir_point_fn *f = ir_point_get(op, rt_dtype_class(compute));
	if (!f) return NULL;
	ir_scalar r = f(in, compute);
	return result == TJ_F64 ? rt_number_f(r.d) : tj_i_at(site, r.i);
}
