/* SPDX-License-Identifier: MIT */
/* point: the primitives of ir/prims.def, constants, numbers and indices, as LLVM text. */
#include "codegen_llvm/cg.h"

typedef struct prim_text { const char *ints, *floats; } prim_text;
static const prim_text prims[LO_PRIMS] = {
#define PRIM(name, nsrc, types, result, ints, floats, ...) [LO_##name] = { ints, floats },
#include "ir/prims.def"
#undef PRIM
};

/* Writes the row's text: $t type, $m mangled type, $S signedness, $0.. operands. */
static void expand(cg *c, const char *row, tj_dtype t, int lanes, const cg_str *src)
{
	for (const char *s = row; *s; s++) {
		if (*s != '$') {
			rt_putn(c->out, s, 1);
			continue;
		}
		switch (*++s) {
		case 't': rt_puts(c->out, cg_type(t, lanes).s); break;
		case 'm': rt_puts(c->out, cg_mangle(t, lanes).s); break;
		case 'S': rt_puts(c->out, rt_is_signed(t) ? "s" : "u"); break;
		default: rt_puts(c->out, src[*s - '0'].s);
		}
	}
}

cg_str cg_select_mask(cg *c, tj_dtype t, cg_str value, cg_str other)
{
	if (!c->masked || c->lanes == 1) return value;
	cg_str name = cg_tmp(c);
	cg_str type = cg_type(t, c->lanes);
	rt_putf(c->out, "  %s = select <%d x i1> %s, %s %s, %s %s\n", name.s, c->lanes, c->mask.s, type.s,
			value.s, type.s, other.s);
	return name;
}

static tj_dtype src_type(const cg *c, const lo_ins *in, int k)
{
	return (tj_dtype)c->k->ins.v[in->src[k]].dtype;
}

/* Absent lanes may hold any divisor, and a zero would trap: they divide by another number. */
static void guard_divisor(cg *c, const lo_ins *in, bool vec, cg_str *divisor)
{
	if ((in->op == LO_DIV || in->op == LO_REM) && vec && !rt_is_float((tj_dtype)in->dtype))
		*divisor =
			cg_select_mask(c, (tj_dtype)in->dtype, *divisor, cg_literal((tj_dtype)in->dtype, 1, c->lanes));
}

static const char *int_convert(tj_dtype from, tj_dtype to)
{
	size_t a = tj_dtype_size(from), b = tj_dtype_size(to);
	if (from == TJ_BOOL) return "zext";
	if (a == b) return "bitcast";
	return a > b ? "trunc" : rt_is_signed(from) ? "sext" : "zext";
}

/* ---- f16 and bf16: bits in memory, f32 in registers ---- */
static cg_str i16s(int lanes) { return cg_type(TJ_I16, lanes); }
static cg_str halves(int lanes) { return lanes == 1 ? cg_fmt("half") : cg_fmt("<%d x half>", lanes); }

static void widen(cg *c, cg_str name, tj_dtype from, int lanes, cg_str v)
{
	cg_str t = cg_tmp(c), ints = cg_type(TJ_I32, lanes), floats = cg_type(TJ_F32, lanes);
	if (from == TJ_F16) {
		rt_putf(c->out, "  %s = bitcast %s %s to %s\n", t.s, i16s(lanes).s, v.s, halves(lanes).s);
		rt_putf(c->out, "  %s = fpext %s %s to %s\n", name.s, halves(lanes).s, t.s, floats.s);
		return;
	}
	rt_putf(c->out, "  %s.z = zext %s %s to %s\n", t.s, i16s(lanes).s, v.s, ints.s);
	rt_putf(c->out, "  %s = shl %s %s.z, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 16, lanes).s);
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", name.s, ints.s, t.s, floats.s);
}

/* To bf16, to nearest, ties to even: adds half of the last bit that is kept, less one if that bit is 0. A NaN only becomes quiet: the
 * addition could overflow its bits. */
static void round_bf16(cg *c, cg_str name, int lanes, cg_str v)
{
	cg_str t = cg_tmp(c), ints = cg_type(TJ_I32, lanes), floats = cg_type(TJ_F32, lanes), at = cg_literal(TJ_I32, 16, lanes);
	rt_putf(c->out, "  %s.u = bitcast %s %s to %s\n", t.s, floats.s, v.s, ints.s);
	rt_putf(c->out, "  %s.h = lshr %s %s.u, %s\n", t.s, ints.s, t.s, at.s);
	rt_putf(c->out, "  %s.l = and %s %s.h, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 1, lanes).s);
	rt_putf(c->out, "  %s.a = add %s %s.u, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 0x7fff, lanes).s);
	rt_putf(c->out, "  %s.r = add %s %s.a, %s.l\n", t.s, ints.s, t.s, t.s);
	rt_putf(c->out, "  %s.q = or %s %s.u, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 0x400000, lanes).s);
	rt_putf(c->out, "  %s.n = fcmp uno %s %s, %s\n", t.s, floats.s, v.s, v.s);
	rt_putf(c->out, "  %s.s = select %s %s.n, %s %s.q, %s %s.r\n", t.s, cg_type(TJ_BOOL, lanes).s, t.s, ints.s, t.s, ints.s, t.s);
	rt_putf(c->out, "  %s = lshr %s %s.s, %s\n", t.s, ints.s, t.s, at.s);
	rt_putf(c->out, "  %s = trunc %s %s to %s\n", name.s, ints.s, t.s, i16s(lanes).s);
}

/* Nothing but stores reads it: there it lies in few wide registers. Where it is widened again, the instruction's wait is longer than that
 * of the plain ops. */
static bool is_only_stored(const cg *c, const lo_ins *in)
{
	const uint32_t i = (uint32_t)(in - c->k->ins.v);
	for (uint32_t k = i + 1; k < c->k->ins.n; k++)
		for (int s = 0; s < c->k->ins.v[k].nsrc; s++)
			if (c->k->ins.v[k].src[s] == i && c->k->ins.v[k].op != LO_STORE) return false;
	return true;
}

static bool rounds_at_once(const cg *c, const lo_ins *in, tj_dtype from, int lanes)
{
	return c->bits == 512 && lanes >= 64 && from == TJ_F32 && in->dtype == TJ_BF16 && rt_bf16_pairs() && is_only_stored(c, in);
}

/* By the CPU's instruction, which takes subnormal numbers for 0: there they become normal ones with the same bits behind the point, and
 * lose that again. */
static void round_bf16_at_once(cg *c, cg_str name, int lanes, cg_str v)
{
	cg_str t = cg_tmp(c), ints = cg_type(TJ_I32, lanes), floats = cg_type(TJ_F32, lanes), is = cg_type(TJ_BOOL, lanes);
	rt_putf(c->out, "  %s.u = bitcast %s %s to %s\n", t.s, floats.s, v.s, ints.s);
	rt_putf(c->out, "  %s.e = and %s %s.u, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 0x7f800000, lanes).s);
	rt_putf(c->out, "  %s.k = icmp eq %s %s.e, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 0, lanes).s);
	rt_putf(c->out, "  %s.o = or %s %s.u, %s\n", t.s, ints.s, t.s, cg_literal(TJ_I32, 0x800000, lanes).s);
	rt_putf(c->out, "  %s.s = select %s %s.k, %s %s.o, %s %s.u\n", t.s, is.s, t.s, ints.s, t.s, ints.s, t.s);
	rt_putf(c->out, "  %s.f = bitcast %s %s.s to %s\n", t.s, ints.s, t.s, floats.s);
	rt_putf(c->out, "  %s.b = fptrunc %s %s.f to <%d x bfloat>\n", t.s, floats.s, t.s, lanes);
	rt_putf(c->out, "  %s.r = bitcast <%d x bfloat> %s.b to %s\n", t.s, lanes, t.s, i16s(lanes).s);
	rt_putf(c->out, "  %s.m = sub %s %s.r, %s\n", t.s, i16s(lanes).s, t.s, cg_literal(TJ_I16, 0x80, lanes).s);
	rt_putf(c->out, "  %s = select %s %s.k, %s %s.m, %s %s.r\n", name.s, is.s, t.s, i16s(lanes).s, t.s, i16s(lanes).s, t.s);
}

static void round_f16(cg *c, cg_str name, int lanes, cg_str v)
{
	cg_str t = cg_tmp(c);
	rt_putf(c->out, "  %s = fptrunc %s %s to %s\n", t.s, cg_type(TJ_F32, lanes).s, v.s, halves(lanes).s);
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", name.s, halves(lanes).s, t.s, i16s(lanes).s);
}

/* The low halves of i64, as one shuffle of two registers: LLVM would narrow each and join the results. */
static void low_halves(cg *c, cg_str name, int lanes, cg_str v)
{
	const cg_str t = cg_tmp(c), type = cg_type(TJ_I32, 2 * lanes);
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", t.s, cg_type(TJ_I64, lanes).s, v.s, type.s);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> ", name.s, type.s, t.s, type.s, lanes);
	cg_iota(c->out, "i32", 2, lanes);
	rt_puts(c->out, "\n");
}

void cg_convert(cg *c, cg_str name, tj_dtype from, tj_dtype to, int lanes, cg_str v)
{
	if (from == TJ_I64 && to == TJ_I32 && c->bits == 512 && lanes > 8) {
		low_halves(c, name, lanes, v);
		return;
	}
	if (from != to && (rt_is_narrow(from) || rt_is_narrow(to))) {
		if (rt_is_narrow(from)) widen(c, name, from, lanes, v);
		else if (to == TJ_F16) round_f16(c, name, lanes, v);
		else round_bf16(c, name, lanes, v);
		return;
	}
	cg_str ft = cg_type(from, lanes), tt = cg_type(to, lanes);
	bool ff = rt_is_float(from), tf = rt_is_float(to);
	const char *op;
	if (from == to) op = "bitcast";
	else if (to == TJ_BOOL) {
		rt_putf(c->out, "  %s = %s %s %s, %s\n", name.s, ff ? "fcmp une" : "icmp ne", ft.s, v.s,
		        lanes > 1 || ff ? cg_literal(from, 0, lanes).s : "0");
		return;
	} else if (ff && tf) op = to == TJ_F64 ? "fpext" : "fptrunc";
	else if (tf) op = rt_is_signed(from) ? "sitofp" : "uitofp";
	else if (ff && tj_dtype_size(to) < tj_dtype_size(TJ_I32)) { /* in range, so by way of i32 */
		cg_str wide = cg_tmp(c);
		rt_putf(c->out, "  %s = fptosi %s %s to %s\n", wide.s, ft.s, v.s, cg_type(TJ_I32, lanes).s);
		ft = cg_type(TJ_I32, lanes);
		v = wide;
		op = "trunc";
	} else if (ff) op = "fptosi";
	else op = int_convert(from, to);
	rt_putf(c->out, "  %s = %s %s %s to %s\n", name.s, op, ft.s, v.s, tt.s);
}

static void select_(cg *c, cg_str name, tj_dtype t, int lanes, const cg_str *src)
{
	cg_str type = cg_type(t, lanes);
	rt_putf(c->out, "  %s = select %s %s, %s %s, %s %s\n", name.s, cg_type(TJ_BOOL, lanes).s, src[0].s,
			type.s, src[1].s, type.s, src[2].s);
}

/* ---- a 2^b ---- */
/* 1.5 2^23, 1.5 2^52: added to a whole number b, it has b in the low bits. */
static int64_t rounder(tj_dtype t)
{
	const double magic = t == TJ_F32 ? 0x1.8p23 : 0x1.8p52;
	const float low = (float)magic;
	int64_t bits = 0;
	memcpy(&bits, t == TJ_F32 ? (const void *)&low : &magic, tj_dtype_size(t));
	return bits;
}

/* b with the rounder added: b was often computed by subtracting it from that. (Operands of products have names of their own.) */
static cg_str rounded(cg *c, uint32_t b, tj_dtype t, int lanes, cg_str text)
{
	const lo_ins *in = &c->k->ins.v[b], *minus = in->op == LO_SUB ? &c->k->ins.v[in->src[1]] : NULL;
	const cg_str r = cg_tmp(c);
	if (minus && minus->op == LO_CONST && minus->imm == rounder(t) && c->how->form != CG_PRODUCT) return cg_use(c, in->src[0], lanes > 1);
	rt_putf(c->out, "  %s = fadd %s %s, %s\n", r.s, cg_type(t, lanes).s, text.s, cg_literal(t, rounder(t), lanes).s);
	return r;
}

/* e / 2 toward minus infinity, as integers: of i64 without low bits, by halves, which AVX2 shifts. */
static void halve(cg *c, cg_str name, tj_dtype it, int lanes, cg_str e)
{
	const cg_str words = cg_type(TJ_I32, 2 * lanes), type = cg_type(it, lanes);
	if (it == TJ_I32 || lanes == 1) {
		rt_putf(c->out, "  %s.s = ashr %s %s, %s\n", name.s, type.s, e.s, cg_literal(it, 1, lanes).s);
		return;
	}
	rt_putf(c->out, "  %s.w = bitcast %s %s to %s\n", name.s, type.s, e.s, words.s);
	rt_putf(c->out, "  %s.h = ashr %s %s.w, %s\n", name.s, words.s, name.s, cg_literal(TJ_I32, 1, 2 * lanes).s);
	rt_putf(c->out, "  %s.s = bitcast %s %s.h to %s\n", name.s, words.s, name.s, type.s);
}

/* In two exact factors: 2^h with h = b / 2, and 2^(b - h). For a NaN b does not matter. */
static void scale_in_steps(cg *c, cg_str name, tj_dtype t, int lanes, const cg_str *src, uint32_t b)
{
	bool f = t == TJ_F32;
	tj_dtype it = f ? TJ_I32 : TJ_I64;
	cg_str ft = cg_type(t, lanes), st = cg_type(it, lanes), at = cg_literal(it, f ? 23 : 52, lanes),
		   bias = cg_literal(it, (f ? 127 : 1023) * ((int64_t)1 << (f ? 23 : 52)), lanes);
	cg_str n = cg_tmp(c), e = cg_tmp(c), h[2], part[2], x = src[0];
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", n.s, ft.s, rounded(c, b, t, lanes, src[1]).s, st.s);
	rt_putf(c->out, "  %s = shl %s %s, %s\n", e.s, st.s, n.s, at.s);
	for (int i = 0; i < 2; i++) h[i] = cg_tmp(c), part[i] = cg_tmp(c);
	halve(c, h[0], it, lanes, e);
	rt_putf(c->out, "  %s = and %s %s.s, %s\n", h[0].s, st.s, h[0].s, cg_literal(it, -((int64_t)1 << (f ? 23 : 52)), lanes).s);
	rt_putf(c->out, "  %s = sub %s %s, %s\n", h[1].s, st.s, e.s, h[0].s);
	for (int i = 0; i < 2; i++) {
		cg_str y = i ? name : cg_tmp(c);
		rt_putf(c->out, "  %s.b = add %s %s, %s\n  %s = bitcast %s %s.b to %s\n", part[i].s, st.s, h[i].s, bias.s, part[i].s, st.s,
				part[i].s, ft.s);
		rt_putf(c->out, "  %s = fmul %s %s, %s\n", y.s, ft.s, x.s, part[i].s);
		x = y;
	}
}

static void scale_register(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first)
{
	(void)first;
	cg_x86_scale(c, name, t, n, src[0], src[1]);
}

static void scale(cg *c, cg_str name, tj_dtype t, int lanes, const cg_str *src, uint32_t b)
{
	if (c->bits < 512 || lanes * (int)tj_dtype_size(t) < 16) scale_in_steps(c, name, t, lanes, src, b);
	else cg_by_parts(c, name, t, lanes, cg_lanes_in_register(c->bits, lanes, t), 2, src, scale_register);
}

/* ---- float to integer ---- */
/* name: of type t; the bits of integers */
static void fix_register(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first)
{
	(void)first;
	const cg_str whole = cg_tmp(c);
	cg_x86_fix(c, whole, t, n, src[0]);
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", name.s, cg_type(t == TJ_F32 ? TJ_I32 : TJ_I64, n).s, whole.s, cg_type(t, n).s);
}

/* Where no instruction does it: of 0 if it does not fit, then the least integer. */
static void fix_in_steps(cg *c, cg_str name, tj_dtype t, int lanes, cg_str x)
{
	const tj_dtype it = t == TJ_F32 ? TJ_I32 : TJ_I64;
	const cg_str n = cg_tmp(c), ft = cg_type(t, lanes), type = cg_type(it, lanes), is = cg_type(TJ_BOOL, lanes);
	const float low = -0x1p31f;
	const double least = -0x1p63;
	int64_t bits = 0;
	memcpy(&bits, t == TJ_F32 ? (const void *)&low : &least, tj_dtype_size(t));
	const cg_str edge = cg_literal(t, bits, lanes);
	rt_putf(c->out, "  %s.m = fneg %s %s\n  %s.a = fcmp oge %s %s, %s\n", n.s, ft.s, edge.s, n.s, ft.s, x.s, edge.s);
	rt_putf(c->out, "  %s.b = fcmp olt %s %s, %s.m\n  %s.f = and %s %s.a, %s.b\n", n.s, ft.s, x.s, n.s, n.s, is.s, n.s, n.s);
	rt_putf(c->out, "  %s.x = select %s %s.f, %s %s, %s %s\n", n.s, is.s, n.s, ft.s, x.s, ft.s, cg_literal(t, 0, lanes).s);
	rt_putf(c->out, "  %s.i = fptosi %s %s.x to %s\n", n.s, ft.s, n.s, type.s);
	rt_putf(c->out, "  %s = select %s %s.f, %s %s.i, %s %s\n", name.s, is.s, n.s, type.s, n.s, type.s,
	        cg_literal(it, t == TJ_F32 ? INT32_MIN : INT64_MIN, lanes).s);
}

static void fix(cg *c, cg_str name, tj_dtype t, int lanes, cg_str x)
{
	const bool has = lanes * (int)tj_dtype_size(t) >= (t == TJ_F32 ? 16 : 64) && (t == TJ_F32 || c->bits == 512);
	if (!has) {
		fix_in_steps(c, name, t, lanes, x);
		return;
	}
	const cg_str bits = cg_tmp(c);
	cg_by_parts(c, bits, t, lanes, cg_lanes_in_register(c->bits, lanes, t), 1, &x, fix_register);
	rt_putf(c->out, "  %s = bitcast %s %s to %s\n", name.s, cg_type(t, lanes).s, bits.s, cg_type(t == TJ_F32 ? TJ_I32 : TJ_I64, lanes).s);
}

/* ---- x != x ? x : m ---- */
/* The select by which a maximum keeps a NaN. With AVX-512 it is one instruction, for the multipliers' ports. */
static bool takes_nan(const cg *c, const lo_ins *in, int lanes)
{
	const lo_ins *cond = &c->k->ins.v[in->src[0]];
	return c->bits == 512 && lanes * (int)tj_dtype_size((tj_dtype)in->dtype) >= 64 && cg_nan_test(c->k, cond) && cond->src[0] == in->src[2];
}

static void fix_nan(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first)
{
	(void)first;
	cg_x86_keep_nan(c, name, t, n, src[0], src[1]);
}

void cg_prim(cg *c, cg_str name, const lo_ins *in, int lanes, const cg_str *src)
{
	const tj_dtype t = (tj_dtype)in->dtype, from = src_type(c, in, 0);
	switch (in->op) {
	case LO_SELECT:
		if (takes_nan(c, in, lanes)) cg_by_parts(c, name, t, lanes, cg_lanes_in_register(c->bits, lanes, t), 2, src + 1, fix_nan);
		else select_(c, name, t, lanes, src);
		break;
	case LO_CONVERT:
		if (rounds_at_once(c, in, from, lanes)) round_bf16_at_once(c, name, lanes, src[0]);
		else cg_convert(c, name, from, t, lanes, src[0]);
		break;
	case LO_BITCAST:
		rt_putf(c->out, "  %s = bitcast %s %s to %s\n", name.s, cg_type(from, lanes).s, src[0].s,
				cg_type(t, lanes).s);
		break;
	case LO_FIX: fix(c, name, t == TJ_I32 ? TJ_F32 : TJ_F64, lanes, src[0]); break;
	case LO_SCALE: scale(c, name, t, lanes, src, in->src[1]); break;
	default:
		rt_putf(c->out, "  %s = ", name.s);
		expand(c, rt_is_float(from) ? prims[in->op].floats : prims[in->op].ints, from, lanes, src);
		rt_puts(c->out, "\n");
	}
}

static void prim(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	bool vec = c->how->of[i].varies && c->lanes > 1;
	cg_str name = cg_fmt("%%v%u%s", i, c->how->of[i].place == CG_BODY ? c->copy : ""), src[3];
	for (int k = 0; k < in->nsrc; k++) src[k] = cg_use(c, in->src[k], vec);
	if (vec) cg_operands_in_memory(c, in, src);
	if (vec && cg_balances(c, in)) cg_balanced(c, name, in, src);
	else if (vec && cg_takes_small(c->how, in)) cg_put_small(c, name, in);
	else {
		if (in->nsrc == 2) guard_divisor(c, in, vec, &src[1]);
		cg_prim(c, name, in, vec ? c->lanes : 1, src);
	}
	cg_def(c, i, name, vec);
}

static void number(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cg_str p = cg_tmp(c), name = cg_fmt("%%v%u", i);
	rt_putf(c->out, "  %s = getelementptr i64, ptr %%num, i64 %lld\n", p.s, (long long)in->imm);
	rt_putf(c->out, "  %s = load %s, ptr %s, align 8\n", name.s, cg_type((tj_dtype)in->dtype, 1).s, p.s);
	cg_def(c, i, name, false);
}

/* The index along the lanes' dimension counts up from c->at; any other index is the same in all lanes. */
static void index_(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	if (!c->how->of[i].varies) {
		cg_def(c, i, in->imm == LO_R ? c->r : cg_fmt("%%d%lld", (long long)in->imm), false);
		return;
	}
	if (c->lanes == 1) {
		cg_def(c, i, c->at, false);
		return;
	}
	cg_str first = cg_splat(c, "i64", c->at, c->lanes), name = cg_fmt("%%v%u%s", i, c->copy);
	rt_putf(c->out, "  %s = add <%d x i64> %s, ", name.s, c->lanes, first.s);
	cg_iota(c->out, "i64", 1, c->lanes);
	rt_puts(c->out, "\n");
	cg_def(c, i, name, true);
}

/* A constant whose bits are the value of a symbol. */
static void size(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	tj_dtype t = (tj_dtype)in->dtype;
	int bits = rt_is_float(t) ? 8 * (int)tj_dtype_size(t) : rt_dtype_bits(t);
	cg_str bare = cg_size(LO_SYM(in->imm)).s, v = bare;
	if (bits < 64) {
		v = cg_tmp(c);
		rt_putf(c->out, "  %s = trunc i64 %s to i%d\n", v.s, bare.s, bits);
	}
	if (rt_is_float(t)) {
		cg_str name = cg_tmp(c);
		rt_putf(c->out, "  %s = bitcast i%d %s to %s\n", name.s, bits, v.s, cg_type(t, 1).s);
		v = name;
	}
	cg_def(c, i, v, false);
}

void cg_point(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	switch (in->op) {
	case LO_CONST:
		cg_def(c, i, cg_literal((tj_dtype)in->dtype, in->imm, 1), false);
		c->val[i].literal = true;
		break;
	case LO_NUM: number(c, i); break;
	case LO_SIZE: size(c, i); break;
	case LO_INDEX: index_(c, i); break;
	case LO_SELECT:
		if (!cg_put_extreme(c, i)) prim(c, i);
		break;
	default: prim(c, i);
	}
}
