/* SPDX-License-Identifier: MIT */
/* kernel: the function around the sections.
 *
 *   for each unit: its outer indices, then
 *     lanes along d:  the sections for each vector of the unit's block of the last dimension; then the tail, masked or on copies (stage.c)
 *     lanes along d, and loads across rows: tile.c
 *     lanes along r:  the sections, for each index of the unit's block */
#include "codegen_llvm/cg.h"

/* Parts are those of rows, and what they leave lies side by side. */
static bool is_known(const cg *c, const lo_ins *in)
{
	if (in->op == LO_PART) return c->s->vec == LO_VEC_R && in->imm < LO_RED_ARGMAX && c->k->index.v[in->index].rcoef == 1;
	return in->op != LO_REDUCE || in->tree != LO_TREE_PAIRS;
}

/* Lanes go along the dimension that the reductions' tree prescribes; reductions without an order follow the schedule. */
static tj_status choose(cg *c)
{
	const lo_kernel *k = c->k;
	bool row = false, column = false;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (!is_known(c, in)) return rt_fail(c->err, TJ_ERR_COMPILE, "codegen", "kernel %s has parts of columns, or of a search", k->name);
		if ((in->op != LO_REDUCE && in->op != LO_PART) || in->tree == LO_TREE_NONE || in->imm > LO_RED_MIN ||
			!rt_is_float((tj_dtype)in->dtype))
			continue;
		row |= in->tree != LO_TREE_COLUMN;
		column |= in->tree == LO_TREE_COLUMN;
	}
	if (row && column)
		return rt_fail(c->err, TJ_ERR_COMPILE, "codegen", "kernel %s mixes row and column trees", k->name);
	if (c->s->vec == LO_VEC_NONE) return rt_fail(c->err, TJ_ERR_COMPILE, "codegen", "the schedule of kernel %s has no lanes", k->name);
	for (uint32_t i = 0; i < c->s->kept.n; i++)
		if (c->s->kept.v[i].where != LO_SCRATCH)
			return rt_fail(c->err, TJ_ERR_COMPILE, "codegen", "kernel %s keeps a row elsewhere than in scratch memory", k->name);
	c->rows = k->reduces && (row || (c->s->vec == LO_VEC_R && !column));
	c->block = cg_size(c->s->block);
	return TJ_OK;
}

/* ---- outer indices of a unit ---- */
void cg_put_dims(const cg *c, rt_text *t, int from, int to, cg_str number)
{
	for (int d = to - 1; d > from; d--) {
		cg_str rest = cg_fmt("%%n%d", d), ext = cg_int(c->k->dim[d]);
		rt_putf(t, "  %%d%d = urem i64 %s, %s\n", d, number.s, ext.s);
		rt_putf(t, "  %s = udiv i64 %s, %s\n", rest.s, number.s, ext.s);
		number = rest;
	}
	if (to > from) rt_putf(t, "  %%d%d = add i64 %s, 0\n", from, number.s);
}

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

/* ---- lanes along d ---- */
static void sections(cg *c)
{
	for (uint32_t s = 0; s < c->k->section.n && !c->oom; s++) cg_section(c, &c->k->section.v[s]);
}

/* copy: suffix of the names in this copy of the loop. after: the label behind it. */
static void loop_copy(cg *c, cg_str lo, cg_str stop, cg_str from, const char *copy, const char *after)
{
	cg_label(c, cg_fmt("vector%s", copy));
	rt_putf(c->out, "  %%v%s = phi i64 [ %s, %%%s ], [ %%v.next%s, %%step%s ]\n", copy, lo.s, from.s, copy, copy);
	c->at = cg_fmt("%%v%s", copy);
	c->copy = copy;
	sections(c);
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
	sections(c);
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
	const char *plain = staged ? "plain" : "vector", *first = c->streams ? "pick" : plain;
	if (guard)
		rt_putf(c->out, "  %%some = icmp slt i64 %s, %s\n  br i1 %%some, label %%%s, label %%vectors\n", lo.s, stop.s, first);
	else rt_putf(c->out, "  br label %%%s\n", first);
	if (c->streams) {
		cg_label(c, cg_fmt("pick"));
		rt_putf(c->out, "  br i1 %%nt, label %%vector.s, label %%%s\n", plain);
	}
	cg_str from = c->block_label;
	c->stream_copy = true;
	if (c->streams) loop_copy(c, lo, stop, from, ".s", "vectors");
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
	sections(c);
	c->masked = false;
}

/* The tail as a loop over vectors of one register. Broadcasts made for the main loop have too many lanes and are made anew. The index
 * passes an empty asm, or LLVM would spend up to 5 ms on optimising the loop counter. */
static void narrow_tail(cg *c, cg_str stop, cg_str hi)
{
	const int lanes = c->lanes;
	cg_str from = c->block_label;
	c->lanes = c->tail_lanes;
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
	if (c->tail_lanes < c->lanes) {
		narrow_tail(c, stop, hi);
		return;
	}
	rt_putf(c->out, "  %%count = sub i64 %s, %s\n", hi.s, stop.s);
	c->at = stop;
	put_masked(c);
	if (guard) cg_jump(c, cg_fmt("whole"));
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
	bool staged = c->stages && s.main && s.tail;
	if (s.main && c->wide) wide_loop(c, lo, stop, s.guard_main);
	else if (s.main) main_loop(c, lo, stop, s.guard_main, staged);
	if (staged) cg_stage_tail(c, stop, hi);
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

/* The loops that a unit's block needs; with unknown sizes all of them, each with a check for an empty range. */
static cg_span span_of(const cg *c)
{
	cg_num last = last_dim(c), block = c->block;
	int64_t n = c->lanes;
	cg_span s = { true, true, true, true };
	if (!last.known || !block.known) {
		s.tail = n > 1;
		return s;
	}
	int64_t rest = last.v % block.v;
	s = (cg_span){ .main = block.v >= n && last.v >= n, .tail = block.v % n || last.v % n, .guard_main = rest && rest < n };
	s.guard_tail = s.main && (block.v < last.v || last.v % n == 0);
	return s;
}

static void along_d(cg *c)
{
	rt_text head = { 0 };
	cg_str lo, hi;
	put_block(c, &head, &lo, &hi);
	cg_unit_bases(c);
	cg_vectors(c, lo, hi, span_of(c));
	rt_puts(&head, rt_str(&c->unit));
	rt_text_free(&c->unit);
	c->oom |= head.oom;
	c->unit = head;
}

/* ---- lanes along r ---- */
/* Parts of r are the innermost index of units. Computes the part's number, its first r, and whether it is the last part. */
static void put_part(cg *c, rt_text *t)
{
	if (!c->s->part) return;
	cg_num parts = cg_div_up(c, cg_size(c->k->red), cg_lit(c->s->part)), last = cg_sub(c, parts, cg_lit(1));
	rt_putf(t, "  %%p.at = urem i64 %%u, %s\n  %%p.outer = udiv i64 %%u, %s\n", parts.s.s, parts.s.s);
	rt_putf(t, "  %%p.first = mul i64 %%p.at, %lld\n  %%p.last = icmp eq i64 %%p.at, %s\n", (long long)c->s->part, last.s.s);
	c->unit_index = cg_fmt("%%p.outer");
}

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
	sections(c);
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
	rt_putf(out, "define void @\"%s\"(ptr %%a, i64 %%begin, i64 %%end) #0 {\nentry:\n", c->k->name);
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
	if (c->streams) rt_puts(out, "  call void @llvm.x86.sse.sfence()\n"); /* streamed stores are not ordered without it */
	rt_puts(out, "  ret void\n}\n\n");
}

static bool prepare(cg *c)
{
	uint32_t n = c->k->ins.n + 1;
	c->val = rt_calloc(n * sizeof *c->val);
	c->place = rt_calloc(n);
	c->varies = rt_calloc(n);
	c->tile = rt_calloc(n);
	c->stream = rt_calloc(n);
	c->staged = rt_calloc(n);
	c->rare = rt_calloc(n * sizeof *c->rare);
	c->together = rt_calloc(n * sizeof *c->together);
	c->copy = "";
	c->next_unit = "%u, 1";
	c->unit_index = cg_fmt("%%u");
	c->out = &c->body;
	c->block_label = cg_fmt("unit");
	return c->val && c->place && c->varies && c->tile && c->stream && c->staged && c->rare && c->together;
}

static void drop(cg *c)
{
	cg_drop_product(c->product);
	rt_free(c->val);
	rt_free(c->place);
	rt_free(c->varies);
	rt_free(c->tile);
	rt_free(c->stream);
	rt_free(c->staged);
	rt_free(c->rare);
	rt_free(c->together);
	rt_vec_free(&c->structs);
	rt_text_free(&c->entry);
	rt_text_free(&c->unit);
	rt_text_free(&c->pre);
	rt_text_free(&c->body);
	rt_text_free(&c->phi);
	rt_text_free(&c->step);
	rt_vec_free(&c->acc);
}

static tj_status function(cg *c, rt_text *out)
{
	tj_status st = choose(c);
	if (st != TJ_OK) return st;
	if (!prepare(c) || !cg_find_product(c)) return rt_fail(c->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	if (!cg_reads_words(c))
		return rt_fail(c->err, TJ_ERR_COMPILE, "codegen", "kernel %s reads words, which vectors of %d bits do not multiply",
		               c->k->name, c->bits);
	cg_place_all(c);
	cg_entry_sizes(c);
	cg_entry_bufs(c);
	cg_find_rare(c);
	c->key = 1;
	if (!c->rows) c->lanes = c->product ? c->bits / 32 : cg_base_lanes(c);
	if (!c->product) {
		cg_find_streams(c);
		cg_find_ahead(c);
		cg_find_wide(c);
	}
	cg_find_ports(c);
	c->tail_lanes = c->lanes;
	if (c->product) cg_along_product(c, span_of(c));
	else if (c->rows) along_r(c);
	else if (cg_tiles(c)) cg_along_tiles(c);
	else {
		c->tail_lanes = cg_tail_lanes(c);
		cg_find_staged(c);
		cg_find_structs(c);
		along_d(c);
	}
	assemble(c, out);
	if (c->oom || c->entry.oom || c->unit.oom || c->body.oom || c->phi.oom || c->step.oom || out->oom)
		return rt_fail(c->err, TJ_ERR_NOMEM, "codegen", "out of memory");
	return TJ_OK;
}

tj_status cg_kernel(const lo_kernel *k, const lo_schedule *s, int bits, cg_owns *owns, rt_text *out, rt_err *err)
{
	cg c = { .k = k, .s = s, .bits = bits, .owns = owns, .err = err };
	tj_status st = function(&c, out);
	drop(&c);
	return st;
}
