/* SPDX-License-Identifier: MIT */
/* point: ir/math.inc compiled for plain numbers. The evaluator and constant folding compute with it. */
#include "ir/ir.h"
#include "runtime/half.h"

#include <math.h>

typedef float F;
typedef double D;
typedef struct I { /* an integer or a bool; v is in the range of t */
	int64_t v;
	tj_dtype t;
} I;

/* ---- the primitives --------------------------------------------------------------------------------- */

static I wrap(tj_dtype t, uint64_t v) { return (I){ rt_wrap(t, v), t }; }
static I truth_value(bool b) { return (I){ b, TJ_BOOL }; }

#define DTYPE(a) ((a).t)
#define IS_BOOL(a) ((a).t == TJ_BOOL)
#define IS_SIGNED(a) rt_is_signed((a).t)
#define WIDTH(a) rt_dtype_bits((a).t)
#define KI(like, dtype, c) ((void)(like), wrap(dtype, (uint64_t)(int64_t)(c)))

/* Out of range any result will do, but it must be defined in C. */
static inline uint64_t integer_f(F a) { return a >= -0x1p63f && a < 0x1p63f ? (uint64_t)(int64_t)a : 0; }
static inline uint64_t integer_d(D a) { return a >= -0x1p63 && a < 0x1p63 ? (uint64_t)(int64_t)a : 0; }

/* a 2^b in two multiplications. The first one is exact unless a is close to the smallest normal number; math.inc never passes such
 * an a. U holds the bits of a T; bias and place describe its exponent. */
#define SCALE_AS(T, x, U, bias, place)                                                         \
	static inline T SCALE_##x(T a, T b)                                                        \
	{                                                                                          \
		int n = b == b ? (int)b : 0, h = n >> 1;                                               \
		U u = (U)(h + bias) << place, v = (U)(n - h + bias) << place;                          \
		T p, q;                                                                                \
		memcpy(&p, &u, sizeof p);                                                              \
		memcpy(&q, &v, sizeof q);                                                              \
		return a * p * q;                                                                      \
	}
SCALE_AS(float, f, uint32_t, 127, 23)
SCALE_AS(double, d, uint64_t, 1023, 52)

#define FLOATS(T, x, L)                                                                       \
	static inline T K_##x(T like, double c) { (void)like; return (T)c; }                           \
	static inline T ADD_##x(T a, T b) { return a + b; }                                            \
	static inline T SUB_##x(T a, T b) { return a - b; }                                            \
	static inline T MUL_##x(T a, T b) { return a * b; }                                            \
	static inline T DIV_##x(T a, T b) { return a / b; }                                            \
	static inline T NEG_##x(T a) { return -a; }                                                    \
	static inline T ABS_##x(T a) { return fabs##L(a); }                                            \
	static inline T SQRT_##x(T a) { return sqrt##L(a); }                                           \
	static inline T FMA_##x(T a, T b, T c) { return fma##L(a, b, c); }                             \
	static inline T FLOOR_##x(T a) { return floor##L(a); }                                         \
	static inline T CEIL_##x(T a) { return ceil##L(a); }                                           \
	static inline T RINT_##x(T a) { return rint##L(a); }                                           \
	static inline T TRUNC_##x(T a) { return trunc##L(a); }                                         \
	static inline I EQ_##x(T a, T b) { return truth_value(a == b); }                               \
	static inline I NE_##x(T a, T b) { return truth_value(a != b); }                               \
	static inline I LT_##x(T a, T b) { return truth_value(a < b); }                                \
	static inline I LE_##x(T a, T b) { return truth_value(a <= b); }                               \
	static inline I GT_##x(T a, T b) { return truth_value(a > b); }                                \
	static inline I GE_##x(T a, T b) { return truth_value(a >= b); }                               \
	static inline T SELECT_##x(I c, T a, T b) { return c.v ? a : b; }                              \
	static inline T MOSTLY_##x(I c, T a, T b) { return c.v ? a : b; }                              \
	static inline F TO_F_##x(T a) { return (F)a; }                                                 \
	static inline D TO_D_##x(T a) { return (D)a; }                                                 \
	static inline I TO_I_##x(T a, tj_dtype t) { return wrap(t, integer_##x(a)); }
FLOATS(F, f, f)
FLOATS(D, d, )
#undef FLOATS

static inline I FIX_f(F a) { return (I){ a >= -0x1p31f && a < 0x1p31f ? (int32_t)a : INT32_MIN, TJ_I32 }; }
static inline I FIX_d(D a) { return (I){ a >= -0x1p63 && a < 0x1p63 ? (int64_t)a : INT64_MIN, TJ_I64 }; }
static inline I BITS_f(F a) { int32_t b; memcpy(&b, &a, sizeof b); return (I){ b, TJ_I32 }; }
static inline I BITS_d(D a) { int64_t b; memcpy(&b, &a, sizeof b); return (I){ b, TJ_I64 }; }
static inline F AS_F(I a) { int32_t b = (int32_t)a.v; F f; memcpy(&f, &b, sizeof f); return f; }
static inline D AS_D(I a) { D d; memcpy(&d, &a.v, sizeof d); return d; }

static inline I K_i(I like, int64_t c) { return wrap(like.t, (uint64_t)c); }
static inline I ADD_i(I a, I b) { return wrap(a.t, (uint64_t)a.v + (uint64_t)b.v); }
static inline I SUB_i(I a, I b) { return wrap(a.t, (uint64_t)a.v - (uint64_t)b.v); }
static inline I MUL_i(I a, I b) { return wrap(a.t, (uint64_t)a.v * (uint64_t)b.v); }
static inline I DIV_i(I a, I b) { return wrap(a.t, (uint64_t)(b.v == 0 || b.v == -1 ? 0 : a.v / b.v)); }
static inline I NEG_i(I a) { return wrap(a.t, 0 - (uint64_t)a.v); }
static inline I AND_i(I a, I b) { return wrap(a.t, (uint64_t)(a.v & b.v)); }
static inline I OR_i(I a, I b) { return wrap(a.t, (uint64_t)(a.v | b.v)); }
static inline I XOR_i(I a, I b) { return wrap(a.t, (uint64_t)(a.v ^ b.v)); }

/* A shift by an amount out of range gives a value that is not selected: any result will do. */
static inline int shift(I b) { return (int)(b.v & (rt_dtype_bits(b.t) - 1)); }
static inline uint64_t as_width(I a) { return (uint64_t)a.v << (64 - rt_dtype_bits(a.t)) >> (64 - rt_dtype_bits(a.t)); }
static inline I SHL_i(I a, I b) { return wrap(a.t, (uint64_t)a.v << shift(b)); }
static inline I LSHR_i(I a, I b) { return wrap(a.t, as_width(a) >> shift(b)); }
static inline I ASHR_i(I a, I b)
{
	uint64_t v = (uint64_t)a.v, s = (uint64_t)shift(b);
	return wrap(a.t, a.v < 0 ? ~(~v >> s) : v >> s);
}
static inline I EQ_i(I a, I b) { return truth_value(a.v == b.v); }
static inline I NE_i(I a, I b) { return truth_value(a.v != b.v); }
static inline I LT_i(I a, I b) { return truth_value(a.v < b.v); }
static inline I LE_i(I a, I b) { return truth_value(a.v <= b.v); }
static inline I GT_i(I a, I b) { return truth_value(a.v > b.v); }
static inline I GE_i(I a, I b) { return truth_value(a.v >= b.v); }
static inline I SELECT_i(I c, I a, I b) { return c.v ? a : b; }
static inline F TO_F_i(I a) { return (F)a.v; }
static inline D TO_D_i(I a) { return (D)a.v; }
static inline I TO_I_i(I a, tj_dtype t) { return wrap(t, (uint64_t)a.v); }

#include "ir/math.inc"

/* ---- the table: one wrapper for each function of math.inc ------------------------------------------------ */

static ir_scalar out_f(F v) { return (ir_scalar){ .f = v }; }
static ir_scalar out_d(D v) { return (ir_scalar){ .d = v }; }
static ir_scalar out_i(I v) { return (ir_scalar){ .i = v.v }; }
static inline F arg_f(ir_scalar s, tj_dtype t) { (void)t; return s.f; }
static inline D arg_d(ir_scalar s, tj_dtype t) { (void)t; return s.d; }
static inline I arg_i(ir_scalar s, tj_dtype t) { return t == TJ_BOOL ? truth_value(s.i != 0) : wrap(t,
	(uint64_t)s.i); }
static inline I arg_b(ir_scalar s, tj_dtype t) { (void)t; return truth_value(s.i != 0); }
#define FIRST_clamp(x) arg_##x
#define FIRST_fma(x) arg_##x
#define FIRST_where(x) arg_b /* the condition */

#define OUT(v) OF_(out, v)(v)
#define UNARY(name, x)                                                                            \
	static ir_scalar p_##name##_##x(const ir_scalar *s, tj_dtype t)                                \
	{                                                                                              \
		return OUT(m_##name##_##x(arg_##x(s[0], t)));                                              \
	}
#define BINARY(name, x)                                                                           \
	static ir_scalar p_##name##_##x(const ir_scalar *s, tj_dtype t)                                \
	{                                                                                              \
		return OUT(m_##name##_##x(arg_##x(s[0], t), arg_##x(s[1], t)));                            \
	}
#define TERNARY(name, x)                                                                          \
	static ir_scalar p_##name##_##x(const ir_scalar *s, tj_dtype t)                                \
	{                                                                                              \
		return OUT(m_##name##_##x(FIRST_##name(x)(s[0], t), arg_##x(s[1], t), arg_##x(s[2], t)));  \
	}
#define WRAP_IFD(name, class) class(name, i) class(name, f) class(name, d)
#define WRAP_FD(name, class) class(name, f) class(name, d)
#define WRAP_I(name, class) class(name, i)
#define WRAP_NONE(name, class)
#define OP(name, class, flags, math, ...) WRAP_##math(name, class)
#include "ir/ops.def"
#undef OP

#define ROW_IFD(name) [IR_##name] = { p_##name##_i, p_##name##_f, p_##name##_d },
#define ROW_FD(name) [IR_##name] = { NULL, p_##name##_f, p_##name##_d },
#define ROW_I(name) [IR_##name] = { p_##name##_i, NULL, NULL },
#define ROW_NONE(name)
static ir_point_fn *const table[IR_OP_COUNT][3] = {
#define OP(name, class, flags, math, ...) ROW_##math(name)
#include "ir/ops.def"
#undef OP
};
_Static_assert(RT_I == 0 && RT_F == 1 && RT_D == 2, "they index the columns of table");

ir_point_fn *ir_point_get(ir_op op, rt_class cls)
{
	return table[op][cls];
}

ir_scalar ir_cast_scalar(ir_scalar v, tj_dtype from, tj_dtype to)
{
	rt_class c = rt_dtype_class(from);
	if (rt_is_narrow(to)) return out_f(c == RT_I ? rt_round_i(to, arg_i(v, from).v) : rt_round_f(to, c == RT_F ? (double)v.f : v.d));
	switch (rt_dtype_class(to)) {
	case RT_F: return out_f(c == RT_F ? v.f : c == RT_D ? TO_F_d(v.d) : TO_F_i(arg_i(v, from)));
	case RT_D: return out_d(c == RT_F ? TO_D_f(v.f) : c == RT_D ? v.d : TO_D_i(arg_i(v, from)));
	default: return out_i(c == RT_F ? m_to_int_f(v.f, to) : c == RT_D ? m_to_int_d(v.d,
		to) : m_to_int_i(arg_i(v, from), to));
	}
}

ir_scalar ir_random(ir_op op, tj_dtype dtype, uint64_t key, uint64_t ordinal, uint64_t index)
{
	I k = wrap(TJ_I64, key), o = wrap(TJ_I64, ordinal), i = wrap(TJ_I64, index);
	if (dtype == TJ_F64)
		return out_d(op == IR_normal ? m_normal_d(k, o, i) : m_uniform_d(k, o, i));
	if (op == IR_normal) return out_f(rt_round_f(dtype, (double)m_normal_f(k, o, i)));
	return out_f(m_uniform_f(k, o, i, rt_dtype_bits(dtype)));
}
