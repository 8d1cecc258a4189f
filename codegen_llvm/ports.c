/* SPDX-License-Identifier: MIT */
/* ports: issues some additions as a * 1 + b, so that both kinds of execution port are busy.
 *
 *   multiplier ports: a * b, a * b + c        adder ports: a + b, max(a, b), a < b        (Zen 4 and 5)
 *
 * If a body has more operations for the adders, the multipliers idle; so a part of its additions becomes a * 1 + b, which has the bits
 * of a + b. The 1 passes an empty asm, or LLVM would remove the product. For each addition, half of its vectors or all of them are written
 * this way. This is done only if several vectors are computed side by side: a single dependency chain gains nothing. Ten times
 * x * y + 0.5 and a maximum take 4.6 ns a vector instead of 5.4; chain30 of 1M takes 156 us instead of 190 (Zen 4, 512 bits; no other CPU
 * was measured).
 * Not with 256 bits: the 1 takes one of 16 registers, and chain30 is 2 to 4 % slower. */
#include "codegen_llvm/cg.h"

void cg_find_ports(cg_recipe *h)
{
	int sums = 0, adders = 0, multipliers = 0; /* vector instructions of the body; adders counts the sums as well */
	if (h->k->reduces || h->bits < 512 || 32 * h->lanes < 2 * h->bits) return;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (h->of[i].place != CG_BODY || !h->of[i].varies || !in->nsrc || !rt_is_float((tj_dtype)h->k->ins.v[in->src[0]].dtype)) continue;
		switch (in->op) {
		case LO_ADD: case LO_SUB: sums++, adders++; break;
		case LO_EQ: *(cg_nan_test(h->k, in) ? &multipliers : &adders) += 1; break;
		case LO_NE: case LO_LT: case LO_LE: case LO_GT: case LO_GE: adders++; break;
		case LO_MUL: case LO_FMA: case LO_DIV: case LO_SQRT: multipliers++; break;
		default: break;
		}
	}
	int halves = sums && adders > multipliers ? (2 * (adders - multipliers) + sums) / (2 * sums) : 0; /* rounded */
	h->halves = halves > 2 ? 2 : halves;
}

/* The factor 1 in all lanes; the asm hides one register of it, which is repeated. */
static cg_str one(cg *c, tj_dtype t)
{
	int n = c->bits / (8 * (int)tj_dtype_size(t));
	cg_str *known = &c->one[t == TJ_F64], type = cg_type(t, n);
	if (known->s[0]) return *known;
	cg_str hidden = cg_tmp(c);
	*known = cg_tmp(c);
	rt_putf(&c->entry, "  %s = call %s asm \"\", \"=v,0\"(%s %s)\n", hidden.s, type.s, type.s,
	        cg_literal(t, t == TJ_F64 ? 0x3FF0000000000000 : 0x3F800000, n).s);
	rt_putf(&c->entry, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", known->s, type.s, hidden.s, type.s, c->lanes);
	for (int i = 0; i < c->lanes; i++) rt_putf(&c->entry, "%si32 %d", i ? ", " : "", i % n);
	rt_puts(&c->entry, ">\n");
	return *known;
}

/* src: the two operands, then the factor 1. moved: write a * 1 + b. */
static void put(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, bool minus, bool moved)
{
	cg_str type = cg_type(t, n), b = src[1];
	if (!moved) {
		rt_putf(c->out, "  %s = %s %s %s, %s\n", name.s, minus ? "fsub" : "fadd", type.s, src[0].s, b.s);
		return;
	}
	if (minus) {
		b = cg_tmp(c);
		rt_putf(c->out, "  %s = fneg %s %s\n", b.s, type.s, src[1].s);
	}
	rt_putf(c->out, "  %s = call %s @llvm.fma.%s(%s %s, %s %s, %s %s)\n", name.s, type.s, cg_mangle(t, n).s, type.s, src[0].s, type.s,
	        src[2].s, type.s, b.s);
}

static void sum(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first)
{
	put(c, name, t, n, src, false, !first || c->how->halves == 2);
}

static void difference(cg *c, cg_str name, tj_dtype t, int n, const cg_str *src, int first)
{
	put(c, name, t, n, src, true, !first || c->how->halves == 2);
}

bool cg_balances(const cg *c, const lo_ins *in)
{
	return c->how->halves && (in->op == LO_ADD || in->op == LO_SUB) && rt_is_float((tj_dtype)in->dtype);
}

void cg_balanced(cg *c, cg_str name, const lo_ins *in, const cg_str *src)
{
	tj_dtype t = (tj_dtype)in->dtype;
	cg_str with[3] = { src[0], src[1], one(c, t) };
	cg_by_parts(c, name, t, c->lanes, c->lanes / 2, 3, with, in->op == LO_ADD ? sum : difference);
}
