/* SPDX-License-Identifier: MIT */
/* value: names, types, literals, and scalars in all lanes. */
#include "codegen_llvm/cg.h"

cg_str cg_fmt(const char *fmt, ...)
{
	cg_str s;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s.s, sizeof s.s, fmt, ap);
	va_end(ap);
	return s;
}

cg_str cg_tmp(cg *c) { return cg_fmt("%%t%u", ++c->tmp); }

/* The type of an SSA value; intrinsics are named after it. */
static cg_str ssa_type(tj_dtype t)
{
	static const char *const real[] = { [RT_F] = "float", [RT_D] = "double" };
	if (rt_is_narrow(t)) return cg_fmt("i16"); /* nothing is computed in it */
	return rt_is_float(t) ? cg_fmt("%s", real[rt_dtype_class(t)]) : cg_fmt("i%d", rt_dtype_bits(t));
}
static cg_str short_type(tj_dtype t)
{
	return rt_is_float(t) && !rt_is_narrow(t) ? cg_fmt("f%zu", 8 * tj_dtype_size(t)) : ssa_type(t);
}
static tj_dtype in_memory(tj_dtype t) { return t == TJ_BOOL ? TJ_U8 : t; }

cg_str cg_type(tj_dtype t, int lanes)
{
	return lanes == 1 ? ssa_type(t) : cg_fmt("<%d x %s>", lanes, ssa_type(t).s);
}
cg_str cg_mem_type(tj_dtype t, int lanes) { return cg_type(in_memory(t), lanes); }

cg_str cg_mangle(tj_dtype t, int lanes)
{
	return lanes == 1 ? short_type(t) : cg_fmt("v%d%s", lanes, short_type(t).s);
}
cg_str cg_mem_mangle(tj_dtype t, int lanes) { return cg_mangle(in_memory(t), lanes); }

/* LLVM writes a float as the bits of the double of the same value. A NaN keeps its payload that way. */
static uint64_t double_bits(tj_dtype t, int64_t bits)
{
	float f;
	double d;
	uint32_t low = (uint32_t)bits;
	uint64_t u = (uint64_t)bits;
	if (t == TJ_F64) return u;
	memcpy(&f, &low, sizeof f);
	d = (double)f;
	memcpy(&u, &d, sizeof u);
	return u;
}

cg_str cg_literal(tj_dtype t, int64_t bits, int lanes)
{
	cg_str v;
	if (rt_is_narrow(t)) v = cg_fmt("%d", (int)(uint16_t)bits);
	else if (rt_is_float(t)) v = cg_fmt("0x%016llX", (unsigned long long)double_bits(t, bits));
	else if (t == TJ_BOOL) v = cg_fmt("%s", bits ? "true" : "false");
	else v = cg_fmt("%lld", (long long)bits);
	return lanes == 1 ? v : cg_fmt("splat (%s %.24s)", ssa_type(t).s, v.s);
}

void cg_label(cg *c, cg_str name)
{
	rt_putf(c->out, "%s:\n", name.s);
	c->block_label = name;
}

void cg_jump(cg *c, cg_str to)
{
	rt_putf(c->out, "  br label %%%s\n", to.s);
	cg_label(c, to);
}

void cg_iota(rt_text *t, const char *type, int64_t step, int lanes)
{
	rt_puts(t, "<");
	for (int i = 0; i < lanes; i++) rt_putf(t, "%s%s %lld", i ? ", " : "", type, (long long)(step * i));
	rt_puts(t, ">");
}

cg_str cg_splat(cg *c, const char *type, cg_str scalar, int lanes)
{
	cg_str one = cg_tmp(c), all = cg_tmp(c);
	if (lanes == 1) return scalar;
	rt_putf(c->out, "  %s = insertelement <%d x %s> poison, %s %s, i64 0\n", one.s, lanes, type, type,
			scalar.s);
	rt_putf(c->out, "  %s = shufflevector <%d x %s> %s, <%d x %s> poison, <%d x i32> zeroinitializer\n",
			all.s, lanes, type, one.s, lanes, type, lanes);
	return all;
}

/* ---- vectors in parts ---- */
static cg_str extract(cg *c, tj_dtype t, cg_str v, int lanes, int first, int n)
{
	cg_str part = cg_tmp(c);
	if (n == lanes) return v;
	rt_putf(c->out, "  %s = call %s @llvm.vector.extract.%s.%s(%s %s, i64 %d)\n", part.s, cg_type(t, n).s, cg_mangle(t, n).s,
	        cg_mangle(t, lanes).s, cg_type(t, lanes).s, v.s, first);
	return part;
}

cg_str cg_resized(cg *c, tj_dtype t, cg_str v, int from, int to)
{
	if (from == to) return v;
	const cg_str r = cg_tmp(c), type = cg_type(t, from);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", r.s, type.s, v.s, type.s, to);
	for (int l = 0; l < to; l++) rt_putf(c->out, l < from ? "%si32 %d" : "%si32 poison", l ? ", " : "", l);
	rt_puts(c->out, ">\n");
	return r;
}

void cg_by_parts(cg *c, cg_str name, tj_dtype t, int lanes, int n, int nsrc, const cg_str *src, cg_part_fn *put)
{
	cg_str all = cg_fmt("poison"), type = cg_type(t, lanes);
	for (int first = 0; first < lanes; first += n) {
		cg_str in[3], out = n == lanes ? name : cg_tmp(c), next = first + n == lanes ? name : cg_tmp(c);
		for (int k = 0; k < nsrc; k++) in[k] = extract(c, t, src[k], lanes, first, n);
		put(c, out, t, n, in, first);
		if (n == lanes) return;
		rt_putf(c->out, "  %s = call %s @llvm.vector.insert.%s.%s(%s %s, %s %s, i64 %d)\n", next.s, type.s, cg_mangle(t, lanes).s,
		        cg_mangle(t, n).s, type.s, all.s, cg_type(t, n).s, out.s, first);
		all = next;
	}
}

static rt_text *text_of(cg *c, uint8_t place)
{
	switch (place) {
	case CG_ENTRY: return &c->entry;
	case CG_UNIT: return &c->unit;
	case CG_PRE: return &c->pre;
	default: return c->out;
	}
}

/* A truth value that is the same in all lanes. A vector of i1 that comes from another block has no sign bits for AVX2's selects; so what
 * comes from there are bytes of 0 or -1, and each use compares them. */
static bool in_bytes(const cg *c, tj_dtype t) { return t == TJ_BOOL && c->bits < 512; }

static cg_str splat_flag(cg *c, cg_str flag)
{
	const cg_str byte = cg_tmp(c);
	rt_putf(c->out, "  %s = sext i1 %s to i8\n", byte.s, flag.s);
	return cg_splat(c, "i8", byte, c->lanes);
}

static cg_str flag_of(cg *c, cg_str bytes)
{
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp slt <%d x i8> %s, zeroinitializer\n", r.s, c->lanes, bytes.s);
	return r;
}

cg_str cg_use(cg *c, uint32_t ins, bool vec)
{
	cg_val *v = &c->val[ins];
	tj_dtype t = (tj_dtype)c->k->ins.v[ins].dtype;
	if (!vec || v->vec || c->lanes == 1) return v->name;
	if (v->literal) return cg_literal(t, c->k->ins.v[ins].imm, c->lanes);
	if (v->wide_key != c->key) {
		rt_text *now = c->out;
		c->out = text_of(c, v->place);
		v->wide = in_bytes(c, t) ? splat_flag(c, v->name) : cg_splat(c, ssa_type(t).s, v->name, c->lanes);
		v->wide_key = c->key;
		c->out = now;
	}
	return in_bytes(c, t) ? flag_of(c, v->wide) : v->wide;
}

void cg_def(cg *c, uint32_t ins, cg_str name, bool vec)
{
	c->val[ins] = (cg_val){ .name = name, .vec = vec && c->lanes > 1, .place = c->how->of[ins].place };
}
