/* SPDX-License-Identifier: MIT */
/* x86: instructions that LLVM's own language has no word for; no other file names one. Each writes `name`, or returns a new one. */
#include "codegen_llvm/cg.h"

static char letter(tj_dtype t) { return t == TJ_F32 ? 's' : 'd'; }

/* SFENCE */
void cg_x86_fence(rt_text *t) { rt_puts(t, "  call void @llvm.x86.sse.sfence()\n"); }

/* VPERMI2B */
cg_str cg_x86_pick_byte(cg *c, cg_str low, cg_str high, cg_str index)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = call <64 x i8> @llvm.x86.avx512.vpermi2var.qi.512(<64 x i8> %s, <64 x i8> %s, <64 x i8> %s)\n", r.s, low.s,
	        index.s, high.s);
	return r;
}

/* VPERMI2PS */
void cg_x86_pick_word(cg *c, cg_str name, tj_dtype t, cg_str low, cg_str high, cg_str index)
{
	const cg_str r = cg_tmp(c), type = cg_type(t, 16);
	rt_putf(c->out, "  %s.l = bitcast %s %s to <16 x float>\n", r.s, type.s, low.s);
	rt_putf(c->out, "  %s.h = bitcast %s %s to <16 x float>\n", r.s, type.s, high.s);
	rt_putf(c->out,
	        "  %s = call <16 x float> @llvm.x86.avx512.vpermi2var.ps.512(<16 x float> %s.l, <16 x i32> %s, <16 x float> %s.h)\n"
	        "  %s = bitcast <16 x float> %s to %s\n",
	        r.s, r.s, index.s, r.s, name.s, r.s, type.s);
}

/* PSADBW: distances from 0 */
cg_str cg_x86_sum_bytes(cg *c, int n, cg_str bytes)
{
	const char *name = n == 64 ? "avx512.psad.bw.512" : n == 32 ? "avx2.psad.bw" : "sse2.psad.bw";
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = call %s @llvm.x86.%s(<%d x i8> %s, <%d x i8> zeroinitializer)\n", r.s, cg_type(TJ_I64, n / 8).s, name, n, bytes.s,
	        n);
	return r;
}

/* VSCALEFPS, VSCALEFPD */
void cg_x86_scale(cg *c, cg_str name, tj_dtype t, int n, cg_str x, cg_str power)
{
	const int bits = n * (int)(8 * tj_dtype_size(t)), mask = n > 8 ? 16 : 8;
	const cg_str type = cg_type(t, n);
	rt_putf(c->out, "  %s = call %s @llvm.x86.avx512.mask.scalef.p%c.%d(%s %s, %s %s, %s zeroinitializer, i%d -1%s)\n", name.s, type.s,
	        letter(t), bits, type.s, x.s, type.s, power.s, type.s, mask, bits == 512 ? ", i32 4" : "");
}

/* VFIXUPIMMPS, VFIXUPIMMPD, 512 bits; both kinds of NaN give x */
void cg_x86_keep_nan(cg *c, cg_str name, tj_dtype t, int n, cg_str other, cg_str x)
{
	const tj_dtype it = t == TJ_F32 ? TJ_I32 : TJ_I64;
	const cg_str type = cg_type(t, n);
	rt_putf(c->out, "  %s = call %s @llvm.x86.avx512.mask.fixupimm.p%c.512(%s %s, %s %s, %s %s, i32 0, i%d -1, i32 4)\n", name.s, type.s,
	        letter(t), type.s, other.s, type.s, x.s, cg_type(it, n).s, cg_literal(it, 0x11, n).s, n);
}

/* CVTTPS2DQ of 128, 256 or 512 bits, VCVTTPD2QQ of 512 bits */
void cg_x86_fix(cg *c, cg_str name, tj_dtype t, int n, cg_str x)
{
	const tj_dtype it = t == TJ_F32 ? TJ_I32 : TJ_I64;
	const cg_str from = cg_type(t, n), to = cg_type(it, n);
	if (n * (int)tj_dtype_size(t) < 64)
		rt_putf(c->out, "  %s = call %s @llvm.x86.%s(%s %s)\n", name.s, to.s, n == 8 ? "avx.cvtt.ps2dq.256" : "sse2.cvttps2dq", from.s, x.s);
	else
		rt_putf(c->out, "  %s = call %s @llvm.x86.avx512.mask.cvttp%s.512(%s %s, %s zeroinitializer, i%d -1, i32 4)\n", name.s, to.s,
		        t == TJ_F32 ? "s2dq" : "d2qq", from.s, x.s, to.s, n);
}

/* VPDPBUSD */
cg_str cg_x86_dot_bytes(cg *c, cg_str sum, cg_str bytes, cg_str signed_bytes)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s, <16 x i32> %s, <16 x i32> %s)\n", r.s, sum.s, bytes.s,
	        signed_bytes.s);
	return r;
}

/* PMADDWD */
cg_str cg_x86_dot_i16(cg *c, int n, cg_str sum, cg_str a, cg_str b)
{
	const char *name = n == 16 ? "avx512.pmaddw.d.512" : n == 8 ? "avx2.pmadd.wd" : "sse2.pmadd.wd";
	const cg_str r = cg_tmp(c), type = cg_type(TJ_I32, n), pairs = cg_type(TJ_I16, 2 * n);
	rt_putf(c->out, "  %s.x = bitcast %s %s to %s\n  %s.y = bitcast %s %s to %s\n", r.s, type.s, a.s, pairs.s, r.s, type.s, b.s, pairs.s);
	rt_putf(c->out, "  %s.m = call %s @llvm.x86.%s(%s %s.x, %s %s.y)\n  %s = add %s %s, %s.m\n", r.s, type.s, name, pairs.s, r.s, pairs.s,
	        r.s, r.s, type.s, sum.s, r.s);
	return r;
}

/* VDPBF16PS */
cg_str cg_x86_dot_bf16(cg *c, cg_str sum, cg_str x, cg_str y)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s.x = bitcast <16 x float> %s to <32 x bfloat>\n  %s.y = bitcast <16 x float> %s to <32 x bfloat>\n", r.s, x.s, r.s,
	        y.s);
	rt_putf(c->out, "  %s = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %s, <32 x bfloat> %s.x, <32 x bfloat> %s.y)\n",
	        r.s, sum.s, r.s, r.s);
	return r;
}
