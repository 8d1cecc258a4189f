/* SPDX-License-Identifier: MIT */
/* element: reads and writes one element in memory, as an ir_scalar of its dtype's class. */
#include "ir/ir.h"
#include "runtime/half.h"

static ir_scalar of_i(int64_t v) { return (ir_scalar){ .i = v }; }
static ir_scalar of_f(float v) { return (ir_scalar){ .f = v }; }
static ir_scalar of_d(double v) { return (ir_scalar){ .d = v }; }
static ir_scalar of_f16(tj_f16 v) { return of_f(tj_from_f16(v)); }
static ir_scalar of_bf16(tj_bf16 v) { return of_f(tj_from_bf16(v)); }
#define FROM(v) _Generic((v), float: of_f, double: of_d, tj_f16: of_f16, tj_bf16: of_bf16, default: of_i)(v)
static int64_t to_i(ir_scalar s) { return s.i; }
static float to_f(ir_scalar s) { return s.f; }
static double to_d(ir_scalar s) { return s.d; }
static tj_f16 to_f16(ir_scalar s) { return tj_to_f16((double)s.f); }
static tj_bf16 to_bf16(ir_scalar s) { return tj_to_bf16((double)s.f); }
#define TO(v, s) _Generic((v), float: to_f, double: to_d, tj_f16: to_f16, tj_bf16: to_bf16, default: to_i)(s)

ir_scalar ir_load(tj_dtype t, const void *p)
{
	switch (t) {
#define X(NAME, text, ctype, cat)                            \
	case TJ_##NAME: {                                        \
		ctype v;                                             \
		memcpy(&v, p, sizeof v);                             \
		ir_scalar s = FROM(v);                               \
		if (RT_##cat == RT_BOOL) s.i = s.i != 0;             \
		return s;                                            \
	}
		TJ_DTYPE_MAP(X)
#undef X
	default: return (ir_scalar){ 0 };
	}
}

void ir_store(tj_dtype t, void *p, ir_scalar s)
{
	switch (t) {
#define X(NAME, text, ctype, cat)                                                  \
	case TJ_##NAME: {                                                              \
		ctype v;                                                                   \
		if (RT_##cat == RT_BOOL) s.i = s.i != 0;                                   \
		v = TO(v, s);                                                              \
		memcpy(p, &v, sizeof v);                                                   \
		return;                                                                    \
	}
		TJ_DTYPE_MAP(X)
#undef X
	default: return;
	}
}

bool ir_holds(tj_dtype t, ir_scalar number, bool is_int)
{
	double d = is_int ? (double)number.i : number.d, size = d < 0 ? -d : d;
	switch (rt_dtype_cat(t)) {
	case RT_BOOL: return true;
	case RT_FLOAT: return rt_dtype_class(t) == RT_D || size == __builtin_inf() || rt_round_f(t, size) != __builtin_inff();
	case RT_INT: break;
	}
	if (is_int) return number.i >= rt_dtype_min(t) && number.i <= rt_dtype_max(t);
	if (t == TJ_I64) return d >= -0x1p63 && d < 0x1p63;
	return d > (double)rt_dtype_min(t) - 1 && d < (double)rt_dtype_max(t) + 1; /* false for NaN */
}
