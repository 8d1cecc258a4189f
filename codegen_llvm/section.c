/* SPDX-License-Identifier: MIT */
/* section: the text of a section: straight-line code for a point section, a loop over r for a loop section.
 *
 *   one chunk      loop 0..main, tail
 *   many chunks    for each chunk: accumulators from memory; loop over its part of 0..main; in the last one the tail;
 *                  accumulators to the stack, or back to memory
 */
#include "codegen_llvm/cg.h"
#include "ir/tree.h"

static cg_acc *acc_of(cg *c, uint32_t ins)
{
	for (uint32_t i = c->acc_from; i < c->acc.n; i++)
		if (c->acc.v[i].ins == ins) return &c->acc.v[i];
	return NULL;
}

static void instruction(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cg_acc *a;
	cg_mark_site(c, in->site);
	switch (in->op) {
	case LO_LOAD: cg_load(c, i); break;
	case LO_STORE: cg_store(c, i); break;
	case LO_FAULT: cg_fault(c, i); break;
	case LO_REDUCE: case LO_PART:
		if ((a = acc_of(c, i)) != NULL) cg_acc_update(c, a);
		break;
	default: cg_point(c, i);
	}
	cg_mark_site(c, 0);
}

/* Writes a value of an outer place when it is first met: its text goes to that place. */
static void outer(cg *c, uint32_t i)
{
	rt_text *now = c->out;
	bool masked = c->masked;
	if (c->val[i].name.s[0]) return;
	c->masked = false;
	c->out = c->how->of[i].place == CG_ENTRY  ? &c->entry
			 : c->how->of[i].place == CG_UNIT ? &c->unit
			 : c->in_loop             ? &c->pre
									  : now;
	instruction(c, i);
	c->out = now;
	c->masked = masked;
}

static void either(cg *c, uint32_t i)
{
	if (c->how->of[i].place == CG_BODY || c->k->ins.v[i].op == LO_REDUCE) instruction(c, i);
	else outer(c, i);
}

static void straight(cg *c, const lo_section *s)
{
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		if (c->how->of[i].rare && c->lanes > 1) continue;
		if (c->how->of[i].branches && c->lanes > 1) cg_rare(c, i, either);
		else either(c, i);
	}
}

/* ---- loops over r ---- */
static void set_r(cg *c, cg_str r)
{
	if (cg_rows(c->how)) c->at = r;
	else c->r = r;
}

static void put_phi(rt_text *t, cg_str name, cg_str type, cg_str a, cg_str from, cg_str b, cg_str latch)
{
	rt_putf(t, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", name.s, type.s, a.s, from.s, b.s, latch.s);
}

typedef struct carried {
	cg_str first, phi, next;
	cg_str *at, type;
} carried; /* an accumulator's value through a loop */

static void put_carried(cg *c, rt_text *t, const carried *v, int n, cg_str from, cg_str latch)
{
	for (int i = 0; i < n; i++) put_phi(t, v[i].phi, v[i].type, v[i].first, from, v[i].next, latch);
	(void)c;
}

static int collect(cg *c, carried *v)
{
	int n = 0;
	for (uint32_t i = 0; i < c->acc.n; i++) {
		cg_acc *a = &c->acc.v[i];
		if (a->memory) continue;
		v[n++] = (carried){ .at = &a->now, .type = cg_type(a->dtype, a->lanes) };
		if (a->arg) v[n++] = (carried){ .at = &a->inow, .type = cg_type(a->index_dtype, a->lanes) };
	}
	for (int i = 0; i < n; i++) {
		v[i].first = *v[i].at;
		*v[i].at = v[i].phi = cg_tmp(c);
	}
	return n;
}

/* After the loop: phis of the loop's values and of those from before, for a loop that was not entered. */
static void merge(cg *c, carried *v, int n, cg_str from, cg_str latch)
{
	for (int i = 0; i < n; i++) {
		v[i].phi = cg_tmp(c);
		*v[i].at = v[i].phi;
	}
	put_carried(c, c->out, v, n, from, latch);
}

static void loop(cg *c, const lo_section *s, cg_str start, cg_str stop, int64_t step, bool guard)
{
	carried *v = rt_calloc((2 * c->acc.n + 1) * sizeof *v);
	if (!v) { c->oom = true; return; }
	unsigned id = ++c->tmp;
	cg_str from = c->block_label, body = cg_fmt("loop%u", id), latch = cg_fmt("latch%u", id),
		   done = cg_fmt("done%u", id);
	cg_str r = cg_fmt("%%r%u", id), next = cg_tmp(c), more = cg_tmp(c);
	rt_text *text = c->out, inner = { 0 };
	int n = collect(c, v);
	if (guard)
		rt_putf(text, "  %%enter%u = icmp slt i64 %s, %s\n  br i1 %%enter%u, label %%%s, label %%%s\n", id,
				start.s, stop.s, id, body.s, done.s);
	else rt_putf(text, "  br label %%%s\n", body.s);
	cg_label(c, body);
	c->out = &inner;
	set_r(c, r);
	straight(c, s);
	cg_ask_ahead(c, s);
	cg_jump(c, latch);
	c->out = text;
	for (int i = 0; i < n; i++) v[i].next = *v[i].at;
	put_phi(text, r, cg_fmt("i64"), start, from, next, latch);
	put_carried(c, text, v, n, from, latch);
	rt_puts(text, rt_str(&inner));
	rt_putf(text, "  %s = add i64 %s, %lld\n  %s = icmp slt i64 %s, %s\n", next.s, r.s, (long long)step,
			more.s, next.s, stop.s);
	rt_putf(text, "  br i1 %s, label %%%s, label %%%s\n", more.s, body.s, done.s);
	cg_label(c, done);
	if (guard) merge(c, v, n, from, latch);
	c->oom |= inner.oom;
	rt_text_free(&inner);
	rt_free(v);
}

/* ---- what is behind the last whole step ---- */
static cg_str mask_of(cg *c, cg_num n)
{
	const char *type = c->lanes <= 16 ? "i32" : "i16";
	cg_str mask = cg_tmp(c), few = cg_tmp(c);
	if (n.known) {
		rt_putf(c->out, "  %s = icmp ult <%d x %s> ", mask.s, c->lanes, type);
		cg_iota(c->out, type, 1, c->lanes);
		rt_putf(c->out, ", splat (%s %lld)\n", type, (long long)n.v);
		return mask;
	}
	rt_putf(c->out, "  %s = trunc i64 %s to %s\n", few.s, n.s.s, type);
	cg_str all = cg_splat(c, type, few, c->lanes);
	rt_putf(c->out, "  %s = icmp ult <%d x %s> ", mask.s, c->lanes, type);
	cg_iota(c->out, type, 1, c->lanes);
	rt_putf(c->out, ", %s\n", all.s);
	return mask;
}

/* The section once more, masked, for the elements main..n. */
static void tail(cg *c, const lo_section *s, cg_num main, cg_num n)
{
	const char *copy = c->copy;
	const int lanes = c->lanes;
	const uint32_t key = c->key;
	if (cg_tail_of(c->how, s) < lanes) { /* broadcasts have too many lanes */
		c->lanes = cg_tail_of(c->how, s);
		c->key += c->k->section.n;
	}
	c->masked = !n.known || n.v < c->lanes;
	if (c->masked) c->mask = mask_of(c, n);
	c->behind = true;
	c->copy = *copy ? ".bt" : ".t";
	set_r(c, main.s);
	straight(c, s);
	c->masked = c->behind = false;
	c->copy = copy;
	c->lanes = lanes;
	c->key = key;
}

/* tail(), behind a branch on cond. */
static void tail_if(cg *c, const lo_section *s, cg_num main, cg_num n, cg_str cond)
{
	carried *v = rt_calloc((2 * c->acc.n + 1) * sizeof *v);
	if (!v) { c->oom = true; return; }
	unsigned id = ++c->tmp;
	cg_str from = c->block_label;
	int count = collect(c, v);
	for (int i = 0; i < count; i++) *v[i].at = v[i].first;
	rt_putf(c->out, "  br i1 %s, label %%tail%u, label %%whole%u\n", cond.s, id, id);
	cg_label(c, cg_fmt("tail%u", id));
	tail(c, s, main, n);
	cg_str end = c->block_label;
	for (int i = 0; i < count; i++) v[i].next = *v[i].at;
	cg_jump(c, cg_fmt("whole%u", id));
	merge(c, v, count, from, end);
	rt_free(v);
}

static bool streams_in(const cg *c, const lo_section *s)
{
	for (uint32_t i = s->first; i < s->first + s->count; i++)
		if (c->how->of[i].streamed) return true;
	return false;
}

/* Writes the loop twice, with streamed and with plain stores, and a branch that chooses one. */
static void two_loops(cg *c, const lo_section *s, cg_num main, int64_t step)
{
	unsigned id = ++c->tmp;
	const char *copy = c->copy;
	cg_str streamed = cg_fmt("stream%u", id), plain = cg_fmt("plain%u", id), both = cg_fmt("both%u", id);
	rt_putf(c->out, "  br i1 %%nt, label %%%s, label %%%s\n", streamed.s, plain.s);
	cg_label(c, streamed);
	c->stream_copy = true;
	c->copy = ".s";
	loop(c, s, cg_fmt("0"), main.s, step, !main.known);
	c->stream_copy = false;
	c->copy = copy;
	rt_putf(c->out, "  br label %%%s\n", both.s);
	cg_label(c, plain);
	loop(c, s, cg_fmt("0"), main.s, step, !main.known);
	cg_jump(c, both);
}

/* The whole steps of the section's loop, and its tail. */
typedef struct extent {
	int64_t step;
	cg_num red, main, rest;
} extent;

static cg_str positive(cg *c, cg_num n)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp sgt i64 %s, 0\n", r.s, n.s.s);
	return r;
}

static void one_chunk(cg *c, const lo_section *s, const extent *x)
{
	if (x->main.known && x->main.v == x->step) {
		set_r(c, cg_fmt("0"));
		straight(c, s);
	} else if ((!x->main.known || x->main.v) && cg_rows(c->how) && !c->acc.n && streams_in(c, s)) two_loops(c, s, x->main, x->step);
	else if (!x->main.known || x->main.v) loop(c, s, cg_fmt("0"), x->main.s, x->step, !x->main.known);
	if (!x->rest.known) tail_if(c, s, x->main, x->rest, positive(c, x->rest));
	else if (x->rest.v) tail(c, s, x->main, x->rest);
}

/* The chunks of r, `width` values each. With parts: the chunks of one part; the last part may have fewer. */
typedef struct chunks {
	int64_t width;
	cg_num n, last;         /* n: chunks per part; last: chunks of the last part */
	cg_num start;           /* the r at which the very last chunk begins */
} chunks;

static chunks chunks_of(cg *c)
{
	chunks k = { .width = INT64_MAX };
	cg_num red = cg_size(c->k->red), part = c->s->part ? cg_lit(c->s->part) : red, behind = cg_last_part(c);
	for (uint32_t i = 0; i < c->acc.n; i++)
		if (c->acc.v[i].ordered && c->acc.v[i].chunk < k.width) k.width = c->acc.v[i].chunk;
	if (c->wide_now) k.width = 8;
	if (c->how->beside) k.width = IR_TREE_COLUMN_ROWS;
	if (part.known && k.width > part.v) k.width = part.v;
	k.n = cg_div_up(c, part, cg_lit(k.width));
	k.last = cg_div_up(c, cg_sub(c, red, behind), cg_lit(k.width));
	k.start = cg_add(c, behind, cg_mul(c, cg_sub(c, k.last, cg_lit(1)), cg_lit(k.width)));
	return k;
}

static void last_tail(cg *c, const lo_section *s, cg_str start, const chunks *k, const extent *x)
{
	cg_str last = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp eq i64 %s, %s\n", last.s, start.s, k->start.s.s);
	if (!x->rest.known) {
		cg_str some = positive(c, x->rest), both = cg_tmp(c);
		rt_putf(c->out, "  %s = and i1 %s, %s\n", both.s, last.s, some.s);
		last = both;
	}
	tail_if(c, s, x->main, x->rest, last);
}

static void chunk(cg *c, const lo_section *s, const extent *x, const chunks *k, cg_str number)
{
	cg_str start = cg_tmp(c), stop = x->main.s;
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_load(c, &c->acc.v[i]);
	rt_putf(c->out, "  %s = mul i64 %s, %lld\n", start.s, number.s, (long long)k->width);
	if (c->s->part) {
		cg_str in = start;
		start = cg_tmp(c);
		rt_putf(c->out, "  %s = add i64 %s, %%p.first\n", start.s, in.s);
	}
	bool known = k->start.known && x->main.known;
	if (!known || k->start.v > 0) {
		cg_str end = cg_tmp(c), less = cg_tmp(c), min = cg_tmp(c);
		rt_putf(c->out, "  %s = add i64 %s, %lld\n", end.s, start.s, (long long)k->width);
		rt_putf(c->out, "  %s = icmp slt i64 %s, %s\n", less.s, end.s, x->main.s.s);
		rt_putf(c->out, "  %s = select i1 %s, i64 %s, i64 %s\n", min.s, less.s, end.s, x->main.s.s);
		stop = min;
	}
	loop(c, s, start, stop, x->step, !known || k->start.v >= x->main.v);
	if (!x->rest.known || x->rest.v) last_tail(c, s, start, k, x);
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_flush(c, &c->acc.v[i], number, k->width, k->n);
}

/* n, but `last` in the last part. */
static cg_str in_part(cg *c, cg_num n, cg_num last)
{
	if (!c->s->part || (n.known && last.known && n.v == last.v)) return n.s;
	const cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = select i1 %%p.last, i64 %s, i64 %s\n", r.s, last.s.s, n.s.s);
	return r;
}

/* Prefetches a later group of chunks in the order of memory, a row's share at each r. Streams that are a chunk apart lie in one page, and
 * no hardware prefetcher follows them. */
static void ask_group(cg *c, const lo_section *s, cg_str start, cg_str r)
{
	enum { LINE = 64, MOST = 8, AHEAD = 12 << 10 };
	const cg_str row = c->r, done = cg_op(c, "mul", cg_op(c, "sub", r, start), cg_int(c->how->beside));
	c->r = cg_op(c, "add", start, done);
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op != LO_LOAD || in->dyn != LO_NOREF || c->how->of[i].place != CG_BODY) continue;
		const int64_t rcoef = c->k->index.v[in->index].rcoef, bytes = c->how->beside * rcoef * (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		if (lo_is_sym(rcoef) || bytes <= 0 || bytes > MOST * LINE) continue;
		const cg_str p = cg_address(c, i);
		for (int64_t at = 0; at < bytes; at += LINE) cg_prefetch(c, p, AHEAD + (int)at);
	}
	c->r = row;
}

/* The rows of a group's chunks, side by side: a loop over the rows of one of them. */
static void group(cg *c, const lo_section *s, cg_str start)
{
	const char *copy = c->copy;
	const uint32_t each = c->acc.n;
	const int n = c->how->beside;
	cg_acc_open_group(c);
	carried *v = rt_calloc((c->acc.n + 1) * sizeof *v);
	if (!v || c->oom) { rt_free(v); c->oom = true; return; }
	const int count = collect(c, v);
	const cg_str from = c->block_label;
	rt_text *text = c->out, inner = { 0 };
	cg_loop l = cg_open(c, "row", start, cg_op(c, "add", start, cg_int(IR_TREE_COLUMN_ROWS)), cg_fmt("1"), false);
	c->out = &inner;
	ask_group(c, s, start, l.i);
	for (int b = 0; b < n; b++) {
		const cg_str name = cg_fmt("%s.%d", copy, b);
		c->copy = name.s;
		c->acc_from = (uint32_t)b * each;
		set_r(c, b ? cg_op(c, "add", l.i, cg_int(b * IR_TREE_COLUMN_ROWS)) : l.i);
		straight(c, s);
	}
	c->acc_from = 0;
	c->copy = copy;
	c->out = text;
	for (int i = 0; i < count; i++) v[i].next = *v[i].at;
	put_carried(c, text, v, count, from, l.latch);
	rt_puts(text, rt_str(&inner));
	cg_close(c, &l);
	c->oom |= inner.oom;
	rt_text_free(&inner);
	rt_free(v);
}

/* The whole groups of chunks (beside.c). Returns how many chunks these are. */
static cg_str groups(cg *c, const lo_section *s, const chunks *k)
{
	const int n = c->how->beside;
	const int64_t size = n * k->width;
	const cg_num rows = cg_sub(c, cg_size(c->k->red), cg_last_part(c));
	const cg_num last = cg_div_up(c, cg_round_down(c, rows, size), cg_lit(size));
	const cg_str count = in_part(c, c->s->part ? cg_lit(c->s->part / size) : last, last);
	const cg_loop l = cg_open(c, "group", cg_fmt("0"), count, cg_fmt("1"), true);
	const cg_str start = cg_op(c, "mul", l.i, cg_int(size));
	group(c, s, c->s->part ? cg_op(c, "add", start, cg_fmt("%%p.first")) : start);
	cg_acc_close_group(c, l.i);
	cg_close(c, &l);
	return cg_op(c, "mul", count, cg_int(n));
}

static void many_chunks(cg *c, const lo_section *s, const extent *x)
{
	chunks k = chunks_of(c);
	for (uint32_t i = 0; i < c->acc.n; i++)
		c->acc.v[i].fresh = c->acc.v[i].ordered && !c->acc.v[i].memory && c->acc.v[i].chunk == k.width;
	unsigned id = ++c->tmp;
	cg_str number = cg_tmp(c), next = cg_tmp(c), more = cg_tmp(c), head = cg_fmt("chunk%u", id), latch = cg_fmt("chunked%u", id);
	const cg_str n = in_part(c, k.n, k.last);
	rt_text *text = c->out;
	const cg_str begin = c->how->beside ? groups(c, s, &k) : cg_fmt("0"), from = c->block_label;
	if (c->how->beside) {
		const cg_str some = cg_cmp(c, "slt", begin, n);
		rt_putf(text, "  br i1 %s, label %%%s, label %%done%u\n", some.s, head.s, id);
	} else rt_putf(text, "  br label %%%s\n", head.s);
	cg_label(c, head);
	put_phi(text, number, cg_fmt("i64"), begin, from, next, latch);
	if (c->wide_now) cg_wide_open(c);
	for (uint32_t i = 0; c->wide_now && i < c->acc.n; i++) cg_acc_place(c, &c->acc.v[i]);
	chunk(c, s, x, &k, number);
	if (c->wide_now) cg_wide_close(c);
	cg_jump(c, latch);
	rt_putf(text, "  %s = add i64 %s, 1\n  %s = icmp slt i64 %s, %s\n", next.s, number.s, more.s, next.s, n.s);
	rt_putf(text, "  br i1 %s, label %%%s, label %%done%u\n", more.s, head.s, id);
	cg_label(c, cg_fmt("done%u", id));
}

/* Wide: calls f for each accumulator, in a loop over the vectors of the unit. */
static void each_vector(cg *c, void (*f)(cg *c, cg_acc *a))
{
	cg_wide_open(c);
	for (uint32_t i = 0; i < c->acc.n; i++) {
		cg_acc_place(c, &c->acc.v[i]);
		f(c, &c->acc.v[i]);
	}
	cg_wide_close(c);
}

/* Only run time knows whether r is one chunk: writes the code for one chunk, which needs no stack, and the code for several. */
static void either_way(cg *c, const lo_section *s, const extent *x)
{
	unsigned id = ++c->tmp;
	const char *copy = c->copy;
	cg_str few = cg_tmp(c), brief, *value = rt_calloc((c->acc.n + 1) * sizeof *value);
	int64_t least = INT64_MAX;
	if (!value) { c->oom = true; return; }
	for (uint32_t i = 0; i < c->acc.n; i++)
		if (c->acc.v[i].ordered && c->acc.v[i].chunk < least) least = c->acc.v[i].chunk;
	rt_putf(c->out, "  %s = icmp sle i64 %s, %lld\n  br i1 %s, label %%brief%u, label %%long%u\n", few.s, x->red.s.s, (long long)least,
	        few.s, id, id);
	cg_label(c, cg_fmt("brief%u", id));
	c->copy = ".b";
	one_chunk(c, s, x);
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_end_short(c, &c->acc.v[i]);
	c->copy = copy;
	brief = c->block_label;
	rt_putf(c->out, "  br label %%joined%u\n", id);
	cg_label(c, cg_fmt("long%u", id));
	many_chunks(c, s, x);
	for (uint32_t i = 0; i < c->acc.n; i++) value[i] = cg_acc_value(c, &c->acc.v[i], true);
	cg_str from = c->block_label;
	cg_jump(c, cg_fmt("joined%u", id));
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_join(c, &c->acc.v[i], brief, value[i], from);
	rt_free(value);
}

static bool unknown_chunks(const cg *c)
{
	for (uint32_t i = 0; i < c->acc.n; i++)
		if (c->acc.v[i].ordered && !c->acc.v[i].nchunk.known) return cg_rows(c->how) && !c->s->part;
	return false;
}

static void over_r(cg *c, const lo_section *s)
{
	rt_text *text = c->out, inner = { 0 };
	extent x = { .step = cg_rows(c->how) ? c->lanes : 1, .red = cg_size(c->k->red) };
	x.main = cg_round_down(c, x.red, x.step);
	x.rest = x.step == 1 ? cg_lit(0) : cg_sub(c, x.red, x.main);
	c->out = &inner;
	bool chunked = cg_acc_begin(c, s);
	if (c->wide_now) each_vector(c, cg_acc_reset);
	bool either = chunked && unknown_chunks(c);
	if (either) either_way(c, s, &x);
	else if (chunked) many_chunks(c, s, &x);
	else one_chunk(c, s, &x);
	if (c->wide_now) cg_wide_open(c); /* the sections that follow are inside this loop over vectors, too */
	for (uint32_t i = 0; c->wide_now && i < c->acc.n; i++) cg_acc_place(c, &c->acc.v[i]);
	for (uint32_t i = 0; !either && i < c->acc.n; i++) cg_acc_end(c, &c->acc.v[i], chunked);
	c->out = text;
	rt_puts(text, rt_str(&c->pre));
	rt_puts(text, rt_str(&inner));
	c->oom |= inner.oom | c->pre.oom;
	rt_text_free(&c->pre);
	rt_text_free(&inner);
}

/* The loop of a product has been computed before, for the block (product.c): loads the sums of this vector. */
static void load_sums(cg *c, const lo_section *s)
{
	const uint32_t dot = s->first + s->count - 1;
	const tj_dtype t = (tj_dtype)c->k->ins.v[dot].dtype;
	cg_str column = cg_op(c, "sub", c->at, c->sums_lo);
	cg_def(c, dot, cg_read(c, t, c->lanes, cg_elem(c, t, c->sums, column)), true);
}

void cg_section(cg *c, const lo_section *s)
{
	if (s->loop && c->product) {
		load_sums(c, s);
		return;
	}
	c->in_loop = s->loop;
	if (cg_rows(c->how)) {
		c->key = (uint32_t)(s - c->k->section.v) + 1;
		c->lanes = c->whole = cg_lanes_of(c->how, s);
	}
	if (s->loop) over_r(c, s);
	else straight(c, s);
	c->in_loop = false;
}

void cg_sections(cg *c)
{
	for (uint32_t s = 0; s < c->k->section.n && !c->oom; s++) cg_section(c, &c->k->section.v[s]);
}
