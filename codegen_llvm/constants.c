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

#include <stdlib.h>

enum { REGISTER = 32 /* bytes */ };
#define NAME "@tj.c."

/* The operand that may come from memory; -1: none. */
static int operand_of(const lo_ins *in)
{
	switch (in->op) {
	case LO_FMA: return 2;
	case LO_MUL: case LO_ADD: case LO_SUB: return 1;
	default: return -1;
	}
}

static cg_str load_constant(cg *c, const lo_ins *x)
{
	const tj_dtype t = (tj_dtype)x->dtype;
	const int n = REGISTER / (int)tj_dtype_size(t);
	const cg_str v = cg_tmp(c), all = cg_tmp(c), type = cg_type(t, n);
	rt_putf(c->out, "  %s = load %s, ptr " NAME "%d.%016llx, align %d, !invariant.load !1\n", v.s, type.s, n,
	        (unsigned long long)x->imm, REGISTER);
	if (n == c->lanes) return v;
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", all.s, type.s, v.s, type.s, c->lanes);
	for (int l = 0; l < c->lanes; l++) rt_putf(c->out, "%si32 %d", l ? ", " : "", l % n);
	rt_puts(c->out, ">\n");
	return all;
}

/* A name says all of its constant, so the text of a kernel does, and the functions of a module share constants. */
void cg_put_constants(rt_text *out)
{
	rt_vec(cg_constant) have = { 0 };
	const size_t end = out->n;
	for (size_t at = 0; at < end && !out->oom;) {
		const char *p = strstr(out->s + at, NAME);
		if (!p || (size_t)(p - out->s) >= end) break;
		at = (size_t)(p - out->s) + strlen(NAME);
		const int n = out->s[at] - '0'; /* elements: 8 of f32, 4 of f64 */
		const int64_t bits = (int64_t)strtoull(out->s + at + 2, NULL, 16);
		const tj_dtype t = n == 8 ? TJ_F32 : TJ_F64;
		uint32_t i = 0;
		while (i < have.n && (have.v[i].dtype != t || have.v[i].bits != bits)) i++;
		if (i < have.n) continue;
		if (!rt_push(&have, ((cg_constant){ (uint8_t)t, bits }))) out->oom = true;
		rt_putf(out, NAME "%d.%016llx = private unnamed_addr constant %s %s, align %d, section \".rodata.tj\"\n", n,
		        (unsigned long long)bits, cg_type(t, n).s, cg_literal(t, bits, n).s, REGISTER);
	}
	rt_vec_free(&have);
}

void cg_operands_in_memory(cg *c, const lo_ins *in, cg_str *src)
{
	const int at = operand_of(in);
	if (at < 0 || c->bits != 8 * REGISTER || c->how->form == CG_PRODUCT) return;
	const lo_ins *x = &c->k->ins.v[in->src[at]];
	if (x->op != LO_CONST || !x->imm || (x->dtype != TJ_F32 && x->dtype != TJ_F64)) return; /* 0 needs no memory */
	if (c->lanes * (int)tj_dtype_size((tj_dtype)x->dtype) >= REGISTER) src[at] = load_constant(c, x);
}
