/* One element of a dtype in memory, as a scalar of its class. */
#include "ir/ir.h"

static ir_scalar of_i(int64_t v) { return (ir_scalar){ .i = v }; }
static ir_scalar of_f(float v) { return (ir_scalar){ .f = v }; }
static ir_scalar of_d(double v) { return (ir_scalar){ .d = v }; }
#define FROM(v) _Generic((v), float: of_f, double: of_d, default: of_i)(v)
#define TO(ctype, s) _Generic((ctype)0, float: (s).f, double: (s).d, default: (s).i)

ir_scalar ir_load(tj_dtype t, const void *p)
{
	switch (t) {
#define X(NAME, text, ctype, cat)                            \
	case TJ_##NAME: {                                        \
		ctype v;                                             \
		memcpy(&v, p, sizeof v);                             \
		return RT_##cat == RT_BOOL ? of_i(v != 0) : FROM(v); \
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
		ctype v = (ctype)(RT_##cat == RT_BOOL ? s.i != 0 : TO(ctype, s));          \
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
	static const double past_f32 = 0x1.ffffffp127; /* the least that rounds to infinity */
	double d = is_int ? (double)number.i : number.d, size = d < 0 ? -d : d;
	switch (rt_dtype_cat(t)) {
	case RT_BOOL: return true;
	case RT_FLOAT: return rt_dtype_class(t) == RT_D || !(size >= past_f32) || size == __builtin_inf();
	case RT_INT: break;
	}
	if (is_int) return number.i >= rt_dtype_min(t) && number.i <= rt_dtype_max(t);
	if (t == TJ_I64) return d >= -0x1p63 && d < 0x1p63;
	return d > (double)rt_dtype_min(t) - 1 && d < (double)rt_dtype_max(t) + 1; /* not for NaN */
}
