/* SPDX-License-Identifier: MIT */
/* size: extents, coefficients and offsets of a kernel, and arithmetic on them. Known sizes are folded to literals; what
 * depends on symbols is computed once per call, in the entry. */
#include "codegen_llvm/cg.h"

_Static_assert(sizeof(((rt_kargs *)0)->num) == 8, "its fields are loaded as 64-bit pointers");
void cg_entry_field(cg *c, const char *name, size_t offset)
{
	rt_putf(&c->entry, "  %%a%s = getelementptr i8, ptr %%a, i64 %zu\n  %%%s = load ptr, ptr %%a%s, align 8\n", name, offset, name, name);
}

void cg_entry_sizes(cg *c)
{
	if (!c->k->size.n) return;
	cg_entry_field(c, "sizes", offsetof(rt_kargs, size));
	for (uint32_t i = 0; i < c->k->size.n; i++)
		rt_putf(&c->entry, "  %%as%u = getelementptr i64, ptr %%sizes, i64 %u\n  %%s%u = load i64, ptr %%as%u, align 8\n", i, i, i, i);
}

cg_num cg_lit(int64_t v) { return (cg_num){ .known = true, .v = v, .s = cg_fmt("%lld", (long long)v) }; }

cg_num cg_size(int64_t size)
{
	if (!lo_is_sym(size)) return cg_lit(size);
	return (cg_num){ .s = cg_fmt("%%s%lld", (long long)(size - LO_SYM(0))) };
}

cg_str cg_int(int64_t size) { return cg_size(size).s; }

static cg_num entry(cg *c, const char *op, cg_num a, cg_num b)
{
	cg_num r = { .s = cg_tmp(c) };
	rt_putf(&c->entry, "  %s = %s i64 %s, %s\n", r.s.s, op, a.s.s, b.s.s);
	return r;
}

cg_num cg_add(cg *c, cg_num a, cg_num b)
{
	if (a.known && b.known) return cg_lit(a.v + b.v);
	return b.known && !b.v ? a : a.known && !a.v ? b : entry(c, "add", a, b);
}

cg_num cg_sub(cg *c, cg_num a, cg_num b)
{
	if (a.known && b.known) return cg_lit(a.v - b.v);
	return b.known && !b.v ? a : entry(c, "sub", a, b);
}

cg_num cg_mul(cg *c, cg_num a, cg_num b)
{
	if (a.known && b.known) return cg_lit(a.v * b.v);
	return b.known && b.v == 1 ? a : a.known && a.v == 1 ? b : entry(c, "mul", a, b);
}

cg_num cg_div_up(cg *c, cg_num a, cg_num b)
{
	if (a.known && b.known) return cg_lit(a.v > 0 ? (a.v - 1) / b.v + 1 : 0);
	return entry(c, "udiv", cg_add(c, a, cg_sub(c, b, cg_lit(1))), b);
}

cg_num cg_last_part(cg *c)
{
	cg_num part = cg_lit(c->s->part);
	if (!c->s->part) return cg_lit(0);
	return cg_mul(c, cg_sub(c, cg_div_up(c, cg_size(c->k->red), part), cg_lit(1)), part);
}

cg_num cg_round_down(cg *c, cg_num a, int64_t pow2)
{
	if (a.known) return cg_lit(a.v & -pow2);
	return pow2 == 1 ? a : entry(c, "and", a, cg_lit(-pow2));
}
