/* SPDX-License-Identifier: MIT */
/* kernel: the function around the sections.
 *
 *   for each unit: its outer indices, then
 *     lanes along d:  the sections for each vector of the unit's block of the last dimension; then the tail, masked or on copies (stage.c)
 *     lanes along d, and loads across rows: tile.c
 *     lanes along r:  the sections, for each index of the unit's block */
#include "codegen_llvm/cg.h"

/* ---- outer indices of a unit ---- */
/* One outer index, as a digit of the unit's number: the first unit's by division; then it counts up, with a carry into the next digit. */
static void count_digit(cg *c, cg_str name, cg_num ext, cg_str *rest, cg_str *carry, bool top)
{
	cg_str first = cg_tmp(c), above = cg_tmp(c), up = cg_tmp(c), full = cg_tmp(c), next = cg_tmp(c), over = cg_tmp(c);
	if (top) first = *rest, next = up;
	else
		rt_putf(&c->entry, "  %s = urem i64 %s, %s\n  %s = udiv i64 %s, %s\n", first.s, rest->s, ext.s.s, above.s, rest->s, ext.s.s);
	rt_putf(&c->phi, "  %s = phi i64 [ %s, %%entry ], [ %s, %%next ]\n", name.s, first.s, next.s);
	rt_putf(&c->step, "  %s = add i64 %s, %s\n", up.s, name.s, carry->s);
	if (top) return;
	rt_putf(&c->step, "  %s = icmp eq i64 %s, %s\n  %s = select i1 %s, i64 0, i64 %s\n  %s = zext i1 %s to i64\n", full.s, up.s,
	        ext.s.s, next.s, full.s, up.s, over.s, full.s);
	*rest = above;
	*carry = over;
}

/* Division by extents known only at run time is slow: units count their indices instead. */
static void count_dims(cg *c, int to, cg_num blocks)
{
	cg_str rest = cg_fmt("%%begin"), carry = cg_fmt("1");
	bool many = !blocks.known || blocks.v != 1;
	if (many) count_digit(c, cg_fmt("%%part"), blocks, &rest, &carry, to == 0);
	for (int d = to - 1; d >= 0; d--) count_digit(c, cg_fmt("%%d%d", d), cg_size(c->k->dim[d]), &rest, &carry, d == 0);
}

static bool counts(const cg *c, int to, cg_num blocks)
{
	bool unknown = !blocks.known && to > 0;
	for (int d = 1; d < to; d++) unknown |= lo_is_sym(c->k->dim[d]);
	return unknown && !c->s->part;
}

static cg_num last_dim(const cg *c) { return cg_size(c->k->dim[c->k->ndim - 1]); }

/* *lo..*hi: the unit's block of the last dimension. */
static void put_block(cg *c, rt_text *t, cg_str *lo, cg_str *hi)
{
	cg_num last = last_dim(c), blocks = last.known && !last.v ? cg_lit(1) : cg_div_up(c, last, c->block);
	int to = c->k->ndim - 1;
	bool count = counts(c, to, blocks), one = blocks.known && blocks.v == 1;
	*lo = cg_fmt("0");
	*hi = last.s;
	if (count) count_dims(c, to, blocks);
	if (one) {
		if (!count) cg_put_dims(c, t, 0, to, c->unit_index);
		return;
	}
	if (!count) {
		rt_putf(t, "  %%part = urem i64 %s, %s\n  %%above = udiv i64 %s, %s\n", c->unit_index.s, blocks.s.s, c->unit_index.s, blocks.s.s);
		cg_put_dims(c, t, 0, to, cg_fmt("%%above"));
	}
	rt_putf(t, "  %%lo = mul i64 %%part, %s\n  %%reach = add i64 %%lo, %s\n", c->block.s.s, c->block.s.s);
	*lo = cg_fmt("%%lo");
	*hi = cg_fmt("%%reach");
	if (last.known && c->block.known && last.v % c->block.v == 0) return;
	rt_putf(t, "  %%inside = icmp slt i64 %%reach, %s\n  %%hi = select i1 %%inside, i64 %%reach, i64 %s\n", last.s.s, last.s.s);
	*hi = cg_fmt("%%hi");
}

/* Parts of r are the innermost index of units. Computes the part's number, its first r, and whether it is the last part. */
static void put_part(cg *c, rt_text *t)
{
	if (!c->s->part) return;
	cg_num parts = cg_div_up(c, cg_size(c->k->red), cg_lit(c->s->part)), last = cg_sub(c, parts, cg_lit(1));
	rt_putf(t, "  %%p.at = urem i64 %%u, %s\n  %%p.outer = udiv i64 %%u, %s\n", parts.s.s, parts.s.s);
	rt_putf(t, "  %%p.first = mul i64 %%p.at, %lld\n  %%p.last = icmp eq i64 %%p.at, %s\n", (long long)c->s->part, last.s.s);
	c->unit_index = cg_fmt("%%p.outer");
}

/* ---- lanes along d ---- */
static void along_d(cg *c)
{
	rt_text head = { 0 };
	cg_str lo, hi;
	put_part(c, &head);
	put_block(c, &head, &lo, &hi);
	cg_unit_bases(c);
	cg_vectors(c, lo, hi, c->how->span);
	rt_puts(&head, rt_str(&c->unit));
	rt_text_free(&c->unit);
	c->oom |= head.oom;
	c->unit = head;
}

/* ---- lanes along r ---- */
static void along_r(cg *c)
{
	rt_text head = { 0 };
	cg_str lo, hi, from = c->block_label;
	int last = c->k->ndim - 1;
	bool one = c->block.known && c->block.v == 1;
	put_part(c, &head);
	put_block(c, &head, &lo, &hi);
	cg_unit_bases(c);
	c->copy = "";
	if (one) rt_putf(&head, "  %%d%d = add i64 %s, 0\n", last, lo.s);
	else {
		rt_puts(&head, "  br label %position\nposition:\n");
		rt_putf(&head, "  %%d%d = phi i64 [ %s, %%%s ], [ %%d.next, %%step ]\n", last, lo.s, from.s);
		c->block_label = cg_fmt("position");
	}
	cg_sections(c);
	if (!one) {
		cg_jump(c, cg_fmt("step"));
		rt_putf(c->out, "  %%d.next = add i64 %%d%d, 1\n  %%d.more = icmp slt i64 %%d.next, %s\n", last,
				hi.s);
		rt_puts(c->out, "  br i1 %d.more, label %position, label %positions\n");
		cg_label(c, cg_fmt("positions"));
	}
	rt_puts(&head, rt_str(&c->unit));
	rt_text_free(&c->unit);
	c->unit = head;
}

/* ---- the function ---- */
static void assemble(const cg *c, rt_text *out)
{
	rt_putf(out, "define void @\"%s\"(ptr %%a, i64 %%begin, i64 %%end) #%u {\nentry:\n", c->k->name, lo_uses(c->k));
	cg_put_sites(c->k, true, out);
	rt_puts(out, rt_str(&c->entry));
	rt_puts(out, "  %any = icmp slt i64 %begin, %end\n  br i1 %any, label %unit, label %done\n\nunit:\n");
	rt_puts(out, "  %u = phi i64 [ %begin, %entry ], [ %u.next, %next ]\n");
	rt_puts(out, rt_str(&c->phi));
	rt_puts(out, rt_str(&c->unit));
	rt_puts(out, rt_str(&c->body));
	rt_puts(out, "  br label %next\n\nnext:\n");
	rt_puts(out, rt_str(&c->step));
	rt_putf(out, "  %%u.next = add i64 %s\n", c->next_unit);
	rt_puts(out, "  %u.more = icmp slt i64 %u.next, %end\n");
	rt_puts(out, "  br i1 %u.more, label %unit, label %done\n\ndone:\n");
	if (c->how->streams) cg_x86_fence(out); /* streamed stores are not ordered without it */
	rt_puts(out, "  ret void\n}\n\n");
}

static bool prepare(cg *c)
{
	c->val = rt_calloc((c->k->ins.n + 1) * sizeof *c->val);
	c->part = rt_calloc((c->how->structs.n + 1) * sizeof *c->part);
	c->block = cg_size(c->s->block);
	c->copy = "";
	c->next_unit = "%u, 1";
	c->unit_index = cg_fmt("%%u");
	c->out = &c->body;
	c->block_label = cg_fmt("unit");
	c->key = 1;
	c->lanes = c->how->lanes;
	return c->val && c->part;
}

static void drop(cg *c)
{
	rt_free(c->val);
	rt_free(c->part);
	rt_text_free(&c->entry);
	rt_text_free(&c->unit);
	rt_text_free(&c->pre);
	rt_text_free(&c->body);
	rt_text_free(&c->phi);
	rt_text_free(&c->step);
	rt_vec_free(&c->acc);
}

static void write_unit(cg *c)
{
	switch (c->how->form) {
	case CG_PRODUCT: cg_along_product(c); break;
	case CG_ALONG_R: along_r(c); break;
	case CG_TILES: cg_along_tiles(c); break;
	default: along_d(c);
	}
}

static tj_status function(cg *c, rt_text *out)
{
	if (!prepare(c)) return rt_fail(c->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	cg_entry_sizes(c);
	cg_entry_bufs(c);
	cg_put_aside(c);
	cg_put_streams(c);
	write_unit(c);
	assemble(c, out);
	if (c->oom || c->entry.oom || c->unit.oom || c->body.oom || c->phi.oom || c->step.oom || out->oom)
		return rt_fail(c->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	return TJ_OK;
}

tj_status cg_kernel(const cg_recipe *how, cg_owns *owns, rt_text *out, rt_err *err)
{
	cg c = { .how = how, .k = how->k, .s = how->s, .bits = how->bits, .owns = owns, .err = err };
	tj_status st = function(&c, out);
	drop(&c);
	return st;
}
