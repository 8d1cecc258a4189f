/* SPDX-License-Identifier: MIT */
/* stage: the tail of a long body without a second copy of that body.
 *
 *   vector loop over lo..stop, on the buffers
 *   stage.in    copies the elements stop..hi of all inputs to the stack, with zeros behind them
 *   vector loop once more, for one vector, on the copies
 *   stage.out   copies the elements stop..hi of the results from the stack to their buffers
 *
 * LLVM's time grows with the text: Black-Scholes of f64 is compiled in 0.62 of the time, log in 0.82. Used if the body has at least LEAST
 * instructions and at most MOST accesses, and if absent lanes do no harm: no faults, no integer division, adjacent addresses only. Where
 * vectors have several registers, the tails of rows are masked: with copies, a chain over 512 x 777 takes 1.05 to 1.08 of the time.
 * (Measured on Zen 4.) */
#include "codegen_llvm/cg.h"

enum { LEAST = 24, MOST = 6 }; /* LEAST: instructions of a body. MOST: accesses */

/* Lanes that a step of the copies takes. */
static int width(const cg_recipe *h) { return h->bits / 32 < h->lanes ? h->bits / 32 : h->lanes; }

/* AVX2 masks elements of four and eight bytes only. */
static bool can_copy(const cg_recipe *h, const lo_ins *in)
{
	return in->dyn == LO_NOREF && cg_lane_coef(h, in, false) == 1 && (h->bits == 512 || tj_dtype_size((tj_dtype)in->dtype) >= 4) &&
	       (in->op == LO_STORE || h->k->buf.v[in->buf].role == LO_IN);
}

static bool harmless(const lo_ins *in)
{
	if (in->op == LO_FAULT || in->op == LO_REDUCE || in->op == LO_PART) return false;
	return (in->op != LO_DIV && in->op != LO_REM) || rt_is_float((tj_dtype)in->dtype);
}

/* The extra pass costs one whole vector. That is cheap if a vector is one register; with several registers, only if the kernel is one line
 * of known length with at least 64 vectors. */
static bool brief(const cg_recipe *h)
{
	int64_t line = h->k->dim[0];
	return h->lanes == width(h) || (h->k->ndim == 1 && !lo_is_sym(line) && line >= 64 * h->lanes);
}

void cg_find_copies(cg_recipe *h)
{
	int work = 0, n = 0;
	if (h->form != CG_ALONG_D || h->k->reduces || !h->span.main || !h->span.tail || !brief(h)) return;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		if (h->of[i].place != CG_BODY) continue;
		bool access = in->op == LO_LOAD || in->op == LO_STORE;
		if (access ? !can_copy(h, in) : !harmless(in)) return;
		*(access ? &n : &work) += 1;
	}
	if (n > MOST || work < LEAST) return;
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		h->of[i].copied = h->of[i].place == CG_BODY && (in->op == LO_LOAD || in->op == LO_STORE);
	}
}

static void each_access(cg *c, void (*put)(cg *c, uint32_t i))
{
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (c->how->of[i].copied) put(c, i);
}

static void phi(cg *c, uint32_t i)
{
	rt_putf(c->out, "  %%q%u = phi ptr [ %%p%u, %%plain ], [ %%sq%u, %%copy.i ]\n", i, i, i);
}

void cg_stage_open(cg *c, cg_str lo, cg_str stop)
{
	cg_label(c, cg_fmt("plain"));
	cg_jump(c, cg_fmt("pass"));
	rt_putf(c->out, "  %%from = phi i64 [ %s, %%plain ], [ %s, %%copy.i ]\n", lo.s, stop.s);
	rt_putf(c->out, "  %%to = phi i64 [ %s, %%plain ], [ %%stage.to, %%copy.i ]\n", stop.s);
	rt_puts(c->out, "  %second = phi i1 [ false, %plain ], [ true, %copy.i ]\n");
	each_access(c, phi);
}

/* Copies the masked elements from %at on: those of a load to the stack, of a store from there. */
static void copy(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	bool out = in->op == LO_STORE;
	tj_dtype t = (tj_dtype)in->dtype;
	int n = width(c->how), size = (int)tj_dtype_size(t);
	cg_str one = cg_mem_type(t, 1), type = cg_mem_type(t, n), mangle = cg_mem_mangle(t, n), p = cg_tmp(c), s = cg_tmp(c), x = cg_tmp(c);
	if (out != c->stage_out) return;
	rt_putf(c->out, "  %s = getelementptr %s, ptr %%p%u, i64 %s\n", p.s, one.s, i, c->at.s);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %%%s%u, i64 %s\n", s.s, one.s, out ? "q" : "sq", i, c->at.s);
	if (out) {
		rt_putf(c->out, "  %s = load %s, ptr %s, align %d\n", x.s, type.s, s.s, size);
		rt_putf(c->out, "  call void @llvm.masked.store.%s.p0(%s %s, ptr %s, i32 %d, <%d x i1> %s)\n", mangle.s, type.s, x.s, p.s, size, n,
		        c->mask.s);
		return;
	}
	rt_putf(c->out, "  %s = call %s @llvm.masked.load.%s.p0(ptr %s, i32 %d, <%d x i1> %s, %s zeroinitializer)\n", x.s, type.s, mangle.s, p.s,
	        size, n, c->mask.s, type.s);
	rt_putf(c->out, "  store %s %s, ptr %s, align %d\n", type.s, x.s, s.s, size);
}

/* The index passes an empty asm, or LLVM would spend time on optimising the loop counter. */
static void copy_loop(cg *c, cg_str stop, cg_str hi, bool out, const char *to)
{
	const char *s = out ? ".o" : ".i", *type = width(c->how) <= 16 ? "i32" : "i16";
	cg_str from = c->block_label;
	cg_jump(c, cg_fmt("copy%s", s));
	rt_putf(c->out, "  %%from%s = phi i64 [ %s, %%%s ], [ %%next%s, %%copy%s ]\n", s, stop.s, from.s, s, s);
	rt_putf(c->out, "  %%at%s = call i64 asm \"\", \"=r,0\"(i64 %%from%s)\n  %%left%s = sub i64 %s, %%at%s\n", s, s, s, hi.s, s);
	rt_putf(c->out, "  %%left.n%s = trunc i64 %%left%s to %s\n", s, s, type);
	cg_str all = cg_splat(c, type, cg_fmt("%%left.n%s", s), width(c->how));
	c->mask = cg_fmt("%%mask%s", s);
	rt_putf(c->out, "  %s = icmp slt <%d x %s> ", c->mask.s, width(c->how), type);
	cg_iota(c->out, type, 1, width(c->how));
	rt_putf(c->out, ", %s\n", all.s);
	c->at = cg_fmt("%%at%s", s);
	c->stage_out = out;
	each_access(c, copy);
	rt_putf(c->out, "  %%next%s = add i64 %%at%s, %d\n  %%more%s = icmp slt i64 %%next%s, %s\n", s, s, width(c->how), s, s,
	        out ? "%to" : "%stage.to");
	rt_putf(c->out, "  br i1 %%more%s, label %%copy%s, label %%%s\n", s, s, to);
}

static void stage(cg *c, uint32_t i)
{
	tj_dtype t = (tj_dtype)c->k->ins.v[i].dtype;
	rt_putf(&c->entry, "  %%stage%u = alloca %s, align %d\n", i, cg_mem_type(t, c->lanes).s, c->bits / 8);
	rt_putf(c->out, "  %%sq%u = getelementptr %s, ptr %%stage%u, i64 %%stage.at\n", i, cg_mem_type(t, 1).s, i);
}

void cg_stage_tail(cg *c, cg_str stop, cg_str hi)
{
	rt_putf(c->out, "  %%left = icmp slt i64 %s, %s\n  br i1 %%left, label %%stage.in, label %%whole\n", stop.s, hi.s);
	cg_label(c, cg_fmt("stage.in"));
	rt_putf(c->out, "  %%stage.to = add i64 %s, %d\n  %%stage.at = sub i64 0, %s\n", stop.s, c->lanes, stop.s);
	each_access(c, stage);
	copy_loop(c, stop, hi, false, "pass");
	cg_label(c, cg_fmt("stage.out"));
	copy_loop(c, stop, hi, true, "whole");
	cg_label(c, cg_fmt("whole"));
}
