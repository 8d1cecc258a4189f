/* SPDX-License-Identifier: MIT */
/* vectors: the loops over a row with lanes along d: whole vectors, then the tail, masked or on copies (stage.c). With streamed stores the
 * loop over whole vectors is there twice (stream.c); in the wide form the loop over r is outside (wide.c). */
#include "codegen_llvm/cg.h"

/* copy: suffix of the names in this copy of the loop. after: the label behind it. */
static void loop_copy(cg *c, cg_str lo, cg_str stop, cg_str from, const char *copy, const char *after)
{
	cg_label(c, cg_fmt("vector%s", copy));
	rt_putf(c->out, "  %%v%s = phi i64 [ %s, %%%s ], [ %%v.next%s, %%step%s ]\n", copy, lo.s, from.s, copy, copy);
	c->at = cg_fmt("%%v%s", copy);
	c->copy = copy;
	cg_sections(c);
	cg_jump(c, cg_fmt("step%s", copy));
	rt_putf(c->out, "  %%v.next%s = add i64 %%v%s, %d\n  %%v.more%s = icmp slt i64 %%v.next%s, %s\n", copy, copy, c->lanes,
			copy, copy, stop.s);
	rt_putf(c->out, "  br i1 %%v.more%s, label %%vector%s, label %%%s\n", copy, copy, after);
}

static void wide_loop(cg *c, cg_str lo, cg_str stop, bool guard)
{
	if (guard) rt_putf(c->out, "  %%some = icmp slt i64 %s, %s\n  br i1 %%some, label %%wide, label %%vectors\n", lo.s, stop.s);
	else rt_puts(c->out, "  br label %wide\n");
	cg_label(c, cg_fmt("wide"));
	c->wide_lo = lo;
	c->wide_stop = stop;
	c->copy = "";
	c->wide_now = true;
	cg_sections(c);
	cg_wide_close(c);
	c->wide_now = false;
	cg_jump(c, cg_fmt("vectors"));
}

/* The loop of plain stores. staged: it also computes the tail, on copies. */
static void plain_loop(cg *c, cg_str lo, cg_str stop, cg_str from, bool staged)
{
	if (!staged) {
		loop_copy(c, lo, stop, from, "", "vectors");
		return;
	}
	cg_stage_open(c, lo, stop);
	from = c->block_label;
	rt_puts(c->out, "  br label %vector\n");
	c->stage_copy = true;
	loop_copy(c, cg_fmt("%%from"), cg_fmt("%%to"), from, "", "passed");
	c->stage_copy = false;
	cg_label(c, cg_fmt("passed"));
	rt_puts(c->out, "  br i1 %second, label %stage.out, label %vectors\n");
}

static void main_loop(cg *c, cg_str lo, cg_str stop, bool guard, bool staged)
{
	const char *plain = staged ? "plain" : "vector", *first = c->how->streams ? "pick" : plain;
	if (guard)
		rt_putf(c->out, "  %%some = icmp slt i64 %s, %s\n  br i1 %%some, label %%%s, label %%vectors\n", lo.s, stop.s, first);
	else rt_putf(c->out, "  br label %%%s\n", first);
	if (c->how->streams) {
		cg_label(c, cg_fmt("pick"));
		rt_putf(c->out, "  br i1 %%nt, label %%vector.s, label %%%s\n", plain);
	}
	cg_str from = c->block_label;
	c->stream_copy = true;
	if (c->how->streams) loop_copy(c, lo, stop, from, ".s", "vectors");
	c->stream_copy = false;
	plain_loop(c, lo, stop, from, staged);
	cg_label(c, cg_fmt("vectors"));
}

/* The lanes of %count elements, from c->at on; then the sections. */
static void put_masked(cg *c)
{
	const char *type = c->lanes <= 16 ? "i32" : "i16";
	rt_putf(c->out, "  %%count.n = trunc i64 %%count to %s\n", type);
	cg_str all = cg_splat(c, type, cg_fmt("%%count.n"), c->lanes);
	rt_putf(c->out, "  %%mask = icmp ult <%d x %s> ", c->lanes, type);
	cg_iota(c->out, type, 1, c->lanes);
	rt_putf(c->out, ", %s\n", all.s);
	c->masked = true;
	c->mask = cg_fmt("%%mask");
	c->copy = ".t";
	cg_sections(c);
	c->masked = false;
}

/* The tail as a loop over vectors of one register. Broadcasts made for the main loop have too many lanes and are made anew. The index
 * passes an empty asm, or LLVM would spend up to 5 ms on optimising the loop counter. */
static void narrow_tail(cg *c, cg_str stop, cg_str hi)
{
	const int lanes = c->lanes;
	cg_str from = c->block_label;
	c->lanes = c->how->tail_lanes;
	c->key++;
	cg_jump(c, cg_fmt("rest"));
	rt_putf(c->out, "  %%from.t = phi i64 [ %s, %%%s ], [ %%next.t, %%rested ]\n", stop.s, from.s);
	rt_putf(c->out, "  %%at.t = call i64 asm \"\", \"=r,0\"(i64 %%from.t)\n  %%count = sub i64 %s, %%at.t\n", hi.s);
	c->at = cg_fmt("%%at.t");
	put_masked(c);
	cg_jump(c, cg_fmt("rested"));
	rt_putf(c->out, "  %%next.t = add i64 %%at.t, %d\n  %%more.t = icmp slt i64 %%next.t, %s\n", c->lanes, hi.s);
	rt_puts(c->out, "  br i1 %more.t, label %rest, label %whole\n");
	cg_label(c, cg_fmt("whole"));
	c->lanes = lanes;
	c->key++;
}

static void masked_tail(cg *c, cg_str stop, cg_str hi, bool guard)
{
	if (guard) {
		rt_putf(c->out, "  %%left = icmp slt i64 %s, %s\n  br i1 %%left, label %%tail, label %%whole\n",
				stop.s, hi.s);
		cg_label(c, cg_fmt("tail"));
	}
	if (c->how->tail_lanes < c->lanes) {
		narrow_tail(c, stop, hi);
		return;
	}
	rt_putf(c->out, "  %%count = sub i64 %s, %s\n", hi.s, stop.s);
	c->at = stop;
	put_masked(c);
	if (guard) cg_jump(c, cg_fmt("whole"));
}

/* A row is known to have one whole vector: there is no loop. */
static bool is_one(const cg_recipe *h, const cg_span *s)
{
	const int64_t last = h->k->dim[h->k->ndim - 1], block = h->s->block;
	if (h->form != CG_ALONG_D || s->guard_main || h->streams || h->copies_tail || lo_is_sym(last) || lo_is_sym(block)) return false;
	return block >= last && last / h->lanes == 1;
}

static void one_vector(cg *c, cg_str lo)
{
	c->at = lo;
	c->copy = "";
	cg_sections(c);
}

void cg_vectors(cg *c, cg_str lo, cg_str hi, cg_span s)
{
	cg_str stop = s.main ? hi : lo;
	if (s.tail && s.main) {
		rt_putf(c->out,
				"  %%size = sub i64 %s, %s\n  %%fill = and i64 %%size, %lld\n  %%stop = add i64 %s, %%fill\n",
				hi.s, lo.s, -(long long)c->lanes, lo.s);
		stop = cg_fmt("%%stop");
	}
	const bool staged = c->how->copies_tail;
	if (s.main && is_one(c->how, &s)) one_vector(c, lo);
	else if (s.main && c->how->form == CG_WIDE) wide_loop(c, lo, stop, s.guard_main);
	else if (s.main) main_loop(c, lo, stop, s.guard_main, staged);
	if (staged) cg_stage_tail(c, stop, hi);
	else if (s.tail && c->how->exact) cg_exact_tail(c, stop);
	else if (s.tail && c->how->overlaps) cg_overlapped_tail(c, lo, stop, hi, &s);
	else if (s.tail) masked_tail(c, stop, hi, s.guard_tail);
}

void cg_row(cg *c, cg_str lo, cg_str hi, cg_span s)
{
	rt_text *text = c->out, vectors = { 0 };
	cg_unit_bases(c);
	c->out = &vectors; /* values of the row are met while the vectors are written */
	cg_vectors(c, lo, hi, s);
	c->out = text;
	rt_puts(text, rt_str(&c->unit));
	rt_puts(text, rt_str(&vectors));
	c->oom |= vectors.oom | c->unit.oom;
	rt_text_free(&vectors);
	rt_text_free(&c->unit);
}
