/* SPDX-License-Identifier: MIT */
/* constants: AVX2 code reads the constants of polynomials as operands in memory.
 *
 *   fma(%5, %7, 0x1.5554p-3)      vbroadcastss .LC(%rip), %ymm5; vfmadd213ps %ymm5, %ymm7, %ymm6
 *                            =>   vfmadd213ps .C+32(%rip), %ymm7, %ymm6
 *
 * For a constant in all lanes LLVM makes a load that broadcasts, which no other instruction can take as its operand; there are not enough
 * registers to keep them. So the constant is a whole vector in memory, which is loaded like any other. AVX-512 instructions broadcast their
 * operands themselves. Black-Scholes of 1M f32 2,750 to 2,330 us (Zen 3, two threads). */
#include "codegen_llvm/cg.h"

enum { REGISTER = 32 /* bytes */ };

/* The operand that may come from memory; -1: none. */
static int operand_of(const lo_ins *in)
{
	switch (in->op) {
	case LO_FMA: return 2;
	case LO_MUL: case LO_ADD: case LO_SUB: return 1;
	default: return -1;
	}
}

static uint32_t number_of(cg *c, const lo_ins *x)
{
	const int n = REGISTER / (int)tj_dtype_size((tj_dtype)x->dtype);
	uint32_t i = 0;
	while (i < c->constant.n && (c->constant.v[i].dtype != x->dtype || c->constant.v[i].bits != x->imm)) i++;
	if (i < c->constant.n) return i;
	if (!rt_push(&c->constant, ((cg_constant){ x->dtype, x->imm }))) c->oom = true;
	rt_putf(&c->data, "@\"%s.c%u\" = private unnamed_addr constant %s %s, align %d, section \".rodata.tj\"\n", c->k->name, i,
	        cg_type((tj_dtype)x->dtype, n).s, cg_literal((tj_dtype)x->dtype, x->imm, n).s, REGISTER);
	return i;
}

static cg_str load_constant(cg *c, const lo_ins *x)
{
	const tj_dtype t = (tj_dtype)x->dtype;
	const int n = REGISTER / (int)tj_dtype_size(t);
	const cg_str v = cg_tmp(c), all = cg_tmp(c), type = cg_type(t, n);
	rt_putf(c->out, "  %s = load %s, ptr @\"%s.c%u\", align %d, !invariant.load !1\n", v.s, type.s, c->k->name, number_of(c, x), REGISTER);
	if (n == c->lanes) return v;
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", all.s, type.s, v.s, type.s, c->lanes);
	for (int l = 0; l < c->lanes; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", l % n);
	rt_puts(c->out, ">\n");
	return all;
}

void cg_operands_in_memory(cg *c, const lo_ins *in, cg_str *src)
{
	const int at = operand_of(in);
	if (at < 0 || c->bits != 8 * REGISTER || c->how->form == CG_PRODUCT) return;
	const lo_ins *x = &c->k->ins.v[in->src[at]];
	if (x->op != LO_CONST || !x->imm || (x->dtype != TJ_F32 && x->dtype != TJ_F64)) return; /* 0 needs no memory */
	if (c->lanes * (int)tj_dtype_size((tj_dtype)x->dtype) >= REGISTER) src[at] = load_constant(c, x);
}
