/* SPDX-License-Identifier: MIT */
/* math: compiles ir/math.inc to instructions of a kernel. A "number" is a kernel and the instruction that computes it; every
 * primitive appends one instruction. Out of memory gives LO_NOREF, which all primitives pass on. */
#include "lower/lower.h"

typedef struct F { lo_kernel *k; uint32_t id; } F;
typedef struct D { lo_kernel *k; uint32_t id; } D;
typedef struct I { lo_kernel *k; uint32_t id; tj_dtype t; } I; /* an integer or a bool of dtype t */

static uint32_t append(lo_kernel *k, lo_op op, tj_dtype dtype, int nsrc, uint32_t a, uint32_t b, uint32_t c)
{
	if ((nsrc > 0 && a == LO_NOREF) || (nsrc > 1 && b == LO_NOREF) || (nsrc > 2 && c == LO_NOREF)) return LO_NOREF;
	lo_ins in = { .op = (uint8_t)op, .dtype = (uint8_t)dtype, .nsrc = (uint8_t)nsrc, .src = { a, b, c }, .dyn = LO_NOREF };
	return rt_push(&k->ins, in) ? k->ins.n - 1 : LO_NOREF;
}

static uint32_t append_const(lo_kernel *k, tj_dtype dtype, int64_t bits)
{
	uint32_t id = append(k, LO_CONST, dtype, 0, 0, 0, 0);
	if (id != LO_NOREF) k->ins.v[id].imm = bits;
	return id;
}

static I constant(lo_kernel *k, tj_dtype t, int64_t c)
{
	return (I){ k, append_const(k, t, rt_wrap(t, (uint64_t)c)), t };
}

/* ---- the primitives ---- */
#define DTYPE(a) ((a).t)
#define IS_BOOL(a) ((a).t == TJ_BOOL)
#define IS_SIGNED(a) rt_is_signed((a).t)
#define WIDTH(a) rt_dtype_bits((a).t)
#define KI(like, dtype, c) constant((like).k, dtype, c)

static inline F K_f(F like, double c)
{
	float f = (float)c;
	int32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return (F){ like.k, append_const(like.k, TJ_F32, (uint32_t)bits) };
}

static inline D K_d(D like, double c)
{
	int64_t bits;
	memcpy(&bits, &c, sizeof bits);
	return (D){ like.k, append_const(like.k, TJ_F64, bits) };
}

static inline I K_i(I like, int64_t c) { return constant(like.k, like.t, c); }

static inline void mostly(lo_kernel *k, uint32_t select)
{
	if (select != LO_NOREF && select < k->ins.n) k->ins.v[select].imm = 1;
}

/* ---- a maximum with b tests b for NaN; the test is dropped if the other operand is NaN whenever b is ---- */
/* v is NaN whenever b is. Looks at no more than *steps values. */
static bool nan_with(const lo_kernel *k, uint32_t v, uint32_t b, int *steps)
{
	if (v == b) return true;
	if (v < b || --*steps < 0) return false; /* v comes before b, so it does not depend on b */
	const lo_ins *in = &k->ins.v[v], *c = &k->ins.v[in->src[0]];
	switch (in->op) {
	case LO_ADD: case LO_SUB: case LO_MUL: case LO_DIV:
		return nan_with(k, in->src[0], b, steps) || nan_with(k, in->src[1], b, steps);
	case LO_SELECT: /* a comparison with NaN is false */
		if (c->op != LO_EQ && c->op != LO_LT && c->op != LO_GT) return false;
		return nan_with(k, in->src[2], b, steps) &&
		       (nan_with(k, c->src[0], b, steps) || nan_with(k, c->src[1], b, steps) || nan_with(k, in->src[1], b, steps));
	default: return false;
	}
}

static uint32_t append_select(lo_kernel *k, tj_dtype t, uint32_t c, uint32_t a, uint32_t b)
{
	enum { SEEN = 32 };
	int steps = SEEN;
	if (c != LO_NOREF && a != LO_NOREF && b != LO_NOREF) {
		const lo_ins *is = &k->ins.v[c];
		if (is->op == LO_EQ && is->src[0] == b && is->src[1] == b && nan_with(k, a, b, &steps)) {
			if (c == k->ins.n - 1) k->ins.n--; /* the test is the last instruction: nothing else uses it */
			return a;
		}
	}
	return append(k, LO_SELECT, t, 3, c, a, b);
}

#define ONE(name, T, x, dtype) static inline T name##_##x(T a) { return (T){ a.k, append(a.k, LO_##name, dtype, 1, a.id, 0, 0) }; }
#define TWO(name, T, x, dtype)                                                                    \
	static inline T name##_##x(T a, T b) { return (T){ a.k, append(a.k, LO_##name, dtype, 2, a.id, b.id, 0) }; }
#define COMPARE(name, T, x)                                                                       \
	static inline I name##_##x(T a, T b) { return (I){ a.k, append(a.k, LO_##name, TJ_BOOL, 2, a.id, b.id, 0), TJ_BOOL }; }
#define COMPARES(T, x) COMPARE(EQ, T, x) COMPARE(NE, T, x) COMPARE(LT, T, x) COMPARE(LE, T, x) COMPARE(GT, T, x) COMPARE(GE, T, x)
#define FLOATS(T, x, dtype)                                                                       \
	TWO(ADD, T, x, dtype) TWO(SUB, T, x, dtype) TWO(MUL, T, x, dtype) TWO(DIV, T, x, dtype) TWO(SCALE, T, x, dtype) ONE(NEG, T, x, dtype) \
	ONE(ABS, T, x, dtype) ONE(SQRT, T, x, dtype) ONE(FLOOR, T, x, dtype) ONE(CEIL, T, x, dtype) ONE(RINT, T, x, dtype) \
	ONE(TRUNC, T, x, dtype) COMPARES(T, x)                                                         \
	static inline T FMA_##x(T a, T b, T c) { return (T){ a.k, append(a.k, LO_FMA, dtype, 3, a.id, b.id, c.id) }; } \
	static inline T SELECT_##x(I c, T a, T b) { return (T){ a.k, append_select(a.k, dtype, c.id, a.id, b.id) }; } \
	static inline T MOSTLY_##x(I c, T a, T b) { T r = SELECT_##x(c, a, b); return mostly(a.k, r.id), r; } \
	static inline I TO_I_##x(T a, tj_dtype t) { return (I){ a.k, append(a.k, LO_CONVERT, t, 1, a.id, 0, 0), t }; }
FLOATS(F, f, TJ_F32)
FLOATS(D, d, TJ_F64)
COMPARES(I, i)
#undef FLOATS
#undef COMPARES
#undef COMPARE
#undef TWO
#undef ONE

#define TWO(name) static inline I name##_i(I a, I b) { return (I){ a.k, append(a.k, LO_##name, a.t, 2, a.id, b.id, 0), a.t }; }
TWO(ADD) TWO(SUB) TWO(MUL) TWO(DIV) TWO(AND) TWO(OR) TWO(XOR) TWO(SHL) TWO(LSHR) TWO(ASHR)
#undef TWO
static inline I NEG_i(I a) { return (I){ a.k, append(a.k, LO_NEG, a.t, 1, a.id, 0, 0), a.t }; }
static inline I SELECT_i(I c, I a, I b) { return (I){ a.k, append(a.k, LO_SELECT, a.t, 3, c.id, a.id, b.id), a.t }; }
static inline I TO_I_i(I a, tj_dtype t)
{
	return a.t == t ? a : (I){ a.k, append(a.k, LO_CONVERT, t, 1, a.id, 0, 0), t };
}
static inline F TO_F_f(F a) { return a; }
static inline F TO_F_d(D a) { return (F){ a.k, append(a.k, LO_CONVERT, TJ_F32, 1, a.id, 0, 0) }; }
static inline F TO_F_i(I a) { return (F){ a.k, append(a.k, LO_CONVERT, TJ_F32, 1, a.id, 0, 0) }; }
static inline D TO_D_f(F a) { return (D){ a.k, append(a.k, LO_CONVERT, TJ_F64, 1, a.id, 0, 0) }; }
static inline D TO_D_d(D a) { return a; }
static inline D TO_D_i(I a) { return (D){ a.k, append(a.k, LO_CONVERT, TJ_F64, 1, a.id, 0, 0) }; }
static inline I FIX_f(F a) { return (I){ a.k, append(a.k, LO_FIX, TJ_I32, 1, a.id, 0, 0), TJ_I32 }; }
static inline I FIX_d(D a) { return (I){ a.k, append(a.k, LO_FIX, TJ_I64, 1, a.id, 0, 0), TJ_I64 }; }
static inline I BITS_f(F a) { return (I){ a.k, append(a.k, LO_BITCAST, TJ_I32, 1, a.id, 0, 0), TJ_I32 }; }
static inline I BITS_d(D a) { return (I){ a.k, append(a.k, LO_BITCAST, TJ_I64, 1, a.id, 0, 0), TJ_I64 }; }
static inline F AS_F(I a) { return (F){ a.k, append(a.k, LO_BITCAST, TJ_F32, 1, a.id, 0, 0) }; }
static inline D AS_D(I a) { return (D){ a.k, append(a.k, LO_BITCAST, TJ_F64, 1, a.id, 0, 0) }; }

#include "ir/math.inc"

/* ---- the table: a wrapper for each function of math.inc ---- */
static inline F arg_f(lo_kernel *k, uint32_t id, tj_dtype t) { (void)t; return (F){ k, id }; }
static inline D arg_d(lo_kernel *k, uint32_t id, tj_dtype t) { (void)t; return (D){ k, id }; }
static inline I arg_i(lo_kernel *k, uint32_t id, tj_dtype t) { return (I){ k, id, t }; }
static inline I arg_b(lo_kernel *k, uint32_t id, tj_dtype t) { (void)t; return (I){ k, id, TJ_BOOL }; }
#define FIRST_clamp(x) arg_##x
#define FIRST_fma(x) arg_##x
#define FIRST_where(x) arg_b /* the condition */

#define UNARY(name, x)                                                                            \
	static uint32_t p_##name##_##x(lo_kernel *k, const uint32_t *s, tj_dtype t)                    \
	{                                                                                              \
		return m_##name##_##x(arg_##x(k, s[0], t)).id;                                             \
	}
#define BINARY(name, x)                                                                           \
	static uint32_t p_##name##_##x(lo_kernel *k, const uint32_t *s, tj_dtype t)                    \
	{                                                                                              \
		return m_##name##_##x(arg_##x(k, s[0], t), arg_##x(k, s[1], t)).id;                        \
	}
#define TERNARY(name, x)                                                                          \
	static uint32_t p_##name##_##x(lo_kernel *k, const uint32_t *s, tj_dtype t)                    \
	{                                                                                              \
		return m_##name##_##x(FIRST_##name(x)(k, s[0], t), arg_##x(k, s[1], t), arg_##x(k, s[2], t)).id; \
	}
#define WRAP_IFD(name, class) class(name, i) class(name, f) class(name, d)
#define WRAP_FD(name, class) class(name, f) class(name, d)
#define WRAP_I(name, class) class(name, i)
#define WRAP_NONE(name, class)
#define OP(name, class, flags, math, ...) WRAP_##math(name, class)
#include "ir/ops.def"
#undef OP

typedef uint32_t point_fn(lo_kernel *k, const uint32_t *src, tj_dtype t);
#define ROW_IFD(name) [IR_##name] = { p_##name##_i, p_##name##_f, p_##name##_d },
#define ROW_FD(name) [IR_##name] = { NULL, p_##name##_f, p_##name##_d },
#define ROW_I(name) [IR_##name] = { p_##name##_i, NULL, NULL },
#define ROW_NONE(name)
static point_fn *const table[IR_OP_COUNT][3] = {
#define OP(name, class, flags, math, ...) ROW_##math(name)
#include "ir/ops.def"
#undef OP
};

/* ---- casts that round once ---- */
/* a as f32, rounded to odd: toward zero, with the last bit set if anything was lost. Rounding that to a dtype with at least two
 * bits less gives the same as rounding a: an f32 that ends in 1 is never half way between two of its values. */
static F odd_f32(D a)
{
	F near = TO_F(a);
	D back = TO_D(near);
	I beyond = TO_I(GT(ABS(back), ABS(a)), TJ_I32), bits = SUB(BITS(near), beyond);
	return AS_F(SELECT(NE(back, a), OR(bits, K(bits, 1)), bits));
}

/* Beyond 2^exact, where the next dtype cannot hold all bits: replaces the low `cut` bits by one bit that says whether any was set. */
static I sticky(I a, int exact, int cut)
{
	const int64_t limit = INT64_C(1) << exact, low = (INT64_C(1) << cut) - 1;
	I large = OR(GT(a, K(a, limit)), LT(a, K(a, -limit))), lost = NE(AND(a, K(a, low)), K(a, 0));
	return SELECT(AND(large, lost), OR(AND(a, K(a, ~low)), K(a, (low + 1) / 2)), a);
}

/* An f32 that rounds to the narrow dtype exactly as the value itself does. An integer that is not exact in f32 is out of the range of
 * f16 in any case. */
static uint32_t near_f32(lo_kernel *k, uint32_t src, tj_dtype to)
{
	tj_dtype from = (tj_dtype)k->ins.v[src].dtype;
	if (from == TJ_F64) return odd_f32((D){ k, src }).id;
	I i = { k, src, from };
	if (to == TJ_BF16 && from == TJ_I64) return odd_f32(TO_D(sticky(i, 53, 11))).id;
	if (to == TJ_BF16 && from == TJ_I32) return TO_F(sticky(i, 24, 8)).id;
	return from == TJ_F32 ? src : append(k, LO_CONVERT, TJ_F32, 1, src, 0, 0);
}

/* A narrow value as f32, exactly. */
static uint32_t widened(lo_kernel *k, uint32_t src)
{
	const lo_ins *in = &k->ins.v[src];
	if (!rt_is_narrow((tj_dtype)in->dtype)) return src;
	if (in->op != LO_CONST) return append(k, LO_CONVERT, TJ_F32, 1, src, 0, 0);
	F like = { k, src };
	return K(like, (double)ir_load((tj_dtype)in->dtype, &in->imm).f).id;
}

uint32_t lo_cast(lo_kernel *k, uint32_t src, tj_dtype to)
{
	if (src == LO_NOREF || k->ins.v[src].dtype == to) return src;
	src = widened(k, src);
	if (src == LO_NOREF || k->ins.v[src].dtype == to) return src;
	if (rt_is_narrow(to)) return append(k, LO_CONVERT, to, 1, near_f32(k, src, to), 0, 0);
	tj_dtype from = (tj_dtype)k->ins.v[src].dtype;
	if (rt_is_float(to)) return append(k, LO_CONVERT, to, 1, src, 0, 0);
	switch (rt_dtype_class(from)) {
	case RT_F: return m_to_int_f((F){ k, src }, to).id;
	case RT_D: return m_to_int_d((D){ k, src }, to).id;
	default: return m_to_int_i((I){ k, src, from }, to).id;
	}
}

/* Narrow operands: computes in f32 and rounds once. */
uint32_t lo_point(lo_kernel *k, ir_op op, tj_dtype compute, tj_dtype result, const uint32_t *src)
{
	point_fn *f = table[op][rt_dtype_class(compute)];
	uint32_t wide[3];
	for (int i = 0; i < ir_ops[op].nsrc; i++)
		if (src[i] == LO_NOREF) return LO_NOREF;
	if (op == IR_where && rt_is_narrow(compute)) return append(k, LO_SELECT, compute, 3, src[0], src[1], src[2]);
	for (int i = 0; i < ir_ops[op].nsrc; i++)
		if ((wide[i] = widened(k, src[i])) == LO_NOREF) return LO_NOREF;
	uint32_t id = f ? f(k, wide, rt_compute_dtype(compute)) : LO_NOREF;
	return id != LO_NOREF && k->ins.v[id].dtype != result ? lo_cast(k, id, result) : id;
}

uint32_t lo_random(lo_kernel *k, ir_op op, tj_dtype dtype, uint32_t key, uint32_t ordinal, uint32_t index)
{
	I a = { k, key, TJ_I64 }, o = { k, ordinal, TJ_I64 }, i = { k, index, TJ_I64 };
	if (key == LO_NOREF || ordinal == LO_NOREF || index == LO_NOREF) return LO_NOREF;
	if (dtype == TJ_F64) return op == IR_normal ? m_normal_d(a, o, i).id : m_uniform_d(a, o, i).id;
	return lo_cast(k, op == IR_normal ? m_normal_f(a, o, i).id : m_uniform_f(a, o, i, rt_dtype_bits(dtype)).id, dtype);
}

bool lo_random_has(ir_op op, tj_dtype dtype)
{
	return (op == IR_uniform || op == IR_normal) && rt_is_float(dtype);
}
