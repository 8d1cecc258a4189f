/* section: a section's text: straight for a point section, a loop over r else.
 *
 *   one chunk      loop 0..main, tail
 *   many chunks    for each chunk: accumulators from memory; loop over its part of 0..main; in the last one the tail;
 *                  accumulators to the stack, or back to memory
 */
#include "codegen_llvm/cg.h"

static cg_acc *acc_of(cg *c, uint32_t ins)
{
	for (uint32_t i = 0; i < c->acc.n; i++)
		if (c->acc.v[i].ins == ins) return &c->acc.v[i];
	return NULL;
}

static void instruction(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	cg_acc *a;
	switch (in->op) {
	case LO_LOAD: cg_load(c, i); break;
	case LO_STORE: cg_store(c, i); break;
	case LO_FAULT: cg_fault(c, i); break;
	case LO_REDUCE: case LO_PART:
		if ((a = acc_of(c, i)) != NULL) cg_acc_update(c, a);
		break;
	default: cg_point(c, i);
	}
}

/* Values computed further out are written when they are first met, to where they belong. */
static void outer(cg *c, uint32_t i)
{
	rt_text *now = c->out;
	bool masked = c->masked;
	if (c->val[i].name.s[0]) return;
	c->masked = false;
	c->out = c->place[i] == CG_ENTRY  ? &c->entry
			 : c->place[i] == CG_UNIT ? &c->unit
			 : c->in_loop             ? &c->pre
									  : now;
	instruction(c, i);
	c->out = now;
	c->masked = masked;
}

static void either(cg *c, uint32_t i)
{
	if (c->place[i] == CG_BODY || c->k->ins.v[i].op == LO_REDUCE) instruction(c, i);
	else outer(c, i);
}

static void straight(cg *c, const lo_section *s)
{
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		if (c->rare[i] && cg_has_rare(c, c->rare[i])) continue;
		if (cg_has_rare(c, i)) cg_rare(c, i, either);
		else either(c, i);
	}
}

/* ---- loops over r ---- */
static void set_r(cg *c, cg_str r)
{
	if (c->rows) c->at = r;
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
		if (a->arg) v[n++] = (carried){ .at = &a->inow, .type = cg_type(a->index, a->lanes) };
	}
	for (int i = 0; i < n; i++) {
		v[i].first = *v[i].at;
		*v[i].at = v[i].phi = cg_tmp(c);
	}
	return n;
}

/* Where a loop was not entered, the values from before it hold. */
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

/* The lanes behind `main` that are there. */
static void tail(cg *c, const lo_section *s, int64_t main, int64_t n)
{
	const char *copy = c->copy;
	const char *type = c->lanes <= 16 ? "i32" : "i16";
	cg_str mask = cg_tmp(c);
	rt_putf(c->out, "  %s = icmp ult <%d x %s> ", mask.s, c->lanes, type);
	cg_iota(c->out, type, 1, c->lanes);
	rt_putf(c->out, ", splat (%s %lld)\n", type, (long long)n);
	c->masked = true;
	c->mask = mask;
	c->copy = ".t";
	set_r(c, cg_fmt("%lld", (long long)main));
	straight(c, s);
	c->masked = false;
	c->copy = copy;
}

/* The loop twice: with stores that pass the caches by, and without. */
static void two_loops(cg *c, const lo_section *s, cg_str main, int64_t step)
{
	unsigned id = ++c->tmp;
	const char *copy = c->copy;
	cg_str streamed = cg_fmt("stream%u", id), plain = cg_fmt("plain%u", id), both = cg_fmt("both%u", id);
	rt_putf(c->out, "  br i1 %%nt, label %%%s, label %%%s\n", streamed.s, plain.s);
	cg_label(c, streamed);
	c->stream_copy = true;
	c->copy = ".s";
	loop(c, s, cg_fmt("0"), main, step, false);
	c->stream_copy = false;
	c->copy = copy;
	rt_putf(c->out, "  br label %%%s\n", both.s);
	cg_label(c, plain);
	loop(c, s, cg_fmt("0"), main, step, false);
	cg_jump(c, both);
}

static void one_chunk(cg *c, const lo_section *s, int64_t step, int64_t main)
{
	cg_str stop = cg_fmt("%lld", (long long)main);
	if (main == step) {
		set_r(c, cg_fmt("0"));
		straight(c, s);
	} else if (main && c->rows && !c->acc.n && cg_streams_in(c, s)) two_loops(c, s, stop, step);
	else if (main) loop(c, s, cg_fmt("0"), stop, step, false);
	if (main < c->k->red) tail(c, s, main, c->k->red - main);
}

/* The chunks of r, of `width` values; with parts, of each but the last one, and of that. */
typedef struct chunks {
	int64_t width, n, last; /* n: to a part; last: to the last part */
	int64_t start;          /* of the very last chunk */
} chunks;

static chunks chunks_of(const cg *c)
{
	chunks k = { .width = INT64_MAX };
	int64_t red = c->k->red, part = c->k->part ? c->k->part : red, behind = (lo_parts(c->k) - 1) * part;
	for (uint32_t i = 0; i < c->acc.n; i++)
		if (c->acc.v[i].ordered && c->acc.v[i].chunk < k.width) k.width = c->acc.v[i].chunk;
	if (c->wide_now) k.width = 16;
	if (k.width > part) k.width = part;
	k.n = (part - 1) / k.width + 1;
	k.last = (red - behind - 1) / k.width + 1;
	k.start = behind + (k.last - 1) * k.width;
	return k;
}

static void last_tail(cg *c, const lo_section *s, cg_str start, const chunks *k, int64_t main)
{
	carried *v = rt_calloc((2 * c->acc.n + 1) * sizeof *v);
	if (!v) { c->oom = true; return; }
	unsigned id = ++c->tmp;
	cg_str from = c->block_label, last = cg_tmp(c);
	int n = collect(c, v);
	for (int i = 0; i < n; i++) *v[i].at = v[i].first;
	rt_putf(c->out, "  %s = icmp eq i64 %s, %lld\n  br i1 %s, label %%tail%u, label %%whole%u\n", last.s,
			start.s, (long long)k->start, last.s, id, id);
	cg_label(c, cg_fmt("tail%u", id));
	tail(c, s, main, c->k->red - main);
	cg_str end = c->block_label;
	for (int i = 0; i < n; i++) v[i].next = *v[i].at;
	cg_jump(c, cg_fmt("whole%u", id));
	merge(c, v, n, from, end);
	rt_free(v);
}

static void chunk(cg *c, const lo_section *s, int64_t step, int64_t main, const chunks *k, cg_str number)
{
	cg_str start = cg_tmp(c), stop = cg_fmt("%lld", (long long)main);
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_load(c, &c->acc.v[i]);
	rt_putf(c->out, "  %s = mul i64 %s, %lld\n", start.s, number.s, (long long)k->width);
	if (c->k->part) {
		cg_str in = start;
		start = cg_tmp(c);
		rt_putf(c->out, "  %s = add i64 %s, %%p.first\n", start.s, in.s);
	}
	if (k->start > 0) {
		cg_str end = cg_tmp(c), less = cg_tmp(c), min = cg_tmp(c);
		rt_putf(c->out, "  %s = add i64 %s, %lld\n", end.s, start.s, (long long)k->width);
		rt_putf(c->out, "  %s = icmp slt i64 %s, %lld\n", less.s, end.s, (long long)main);
		rt_putf(c->out, "  %s = select i1 %s, i64 %s, i64 %lld\n", min.s, less.s, end.s, (long long)main);
		stop = min;
	}
	loop(c, s, start, stop, step, k->start >= main);
	if (main < c->k->red) last_tail(c, s, start, k, main);
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_flush(c, &c->acc.v[i], number, k->width, k->n);
}

static void many_chunks(cg *c, const lo_section *s, int64_t step, int64_t main)
{
	chunks k = chunks_of(c);
	for (uint32_t i = 0; i < c->acc.n; i++)
		c->acc.v[i].fresh = c->acc.v[i].ordered && !c->acc.v[i].memory && c->acc.v[i].chunk == k.width;
	unsigned id = ++c->tmp;
	cg_str number = cg_tmp(c), next = cg_tmp(c), more = cg_tmp(c), from = c->block_label,
		   head = cg_fmt("chunk%u", id), latch = cg_fmt("chunked%u", id), n = cg_fmt("%lld", (long long)k.n);
	rt_text *text = c->out;
	if (c->k->part && k.n != k.last) {
		n = cg_tmp(c);
		rt_putf(text, "  %s = select i1 %%p.last, i64 %lld, i64 %lld\n", n.s, (long long)k.last, (long long)k.n);
	}
	rt_putf(text, "  br label %%%s\n", head.s);
	cg_label(c, head);
	put_phi(text, number, cg_fmt("i64"), cg_fmt("0"), from, next, latch);
	if (c->wide_now) cg_wide_open(c);
	for (uint32_t i = 0; c->wide_now && i < c->acc.n; i++) cg_acc_place(c, &c->acc.v[i]);
	chunk(c, s, step, main, &k, number);
	if (c->wide_now) cg_wide_close(c);
	cg_jump(c, latch);
	rt_putf(text, "  %s = add i64 %s, 1\n  %s = icmp slt i64 %s, %s\n", next.s, number.s, more.s, next.s, n.s);
	rt_putf(text, "  br i1 %s, label %%%s, label %%done%u\n", more.s, head.s, id);
	cg_label(c, cg_fmt("done%u", id));
}

/* Wide: what f does with each accumulator, for every vector of the unit. */
static void each_vector(cg *c, void (*f)(cg *c, cg_acc *a))
{
	cg_wide_open(c);
	for (uint32_t i = 0; i < c->acc.n; i++) {
		cg_acc_place(c, &c->acc.v[i]);
		f(c, &c->acc.v[i]);
	}
	cg_wide_close(c);
}

static void over_r(cg *c, const lo_section *s)
{
	rt_text *text = c->out, inner = { 0 };
	int64_t step = c->rows ? c->lanes : 1, main = c->k->red - c->k->red % step;
	c->out = &inner;
	bool chunked = cg_acc_begin(c, s);
	if (c->wide_now) each_vector(c, cg_acc_reset);
	if (chunked) many_chunks(c, s, step, main);
	else one_chunk(c, s, step, main);
	if (c->wide_now) cg_wide_open(c); /* what follows the loop is in this one, too */
	for (uint32_t i = 0; c->wide_now && i < c->acc.n; i++) cg_acc_place(c, &c->acc.v[i]);
	for (uint32_t i = 0; i < c->acc.n; i++) cg_acc_end(c, &c->acc.v[i], chunked);
	c->out = text;
	rt_puts(text, rt_str(&c->pre));
	rt_puts(text, rt_str(&inner));
	c->oom |= inner.oom | c->pre.oom;
	rt_text_free(&c->pre);
	rt_text_free(&inner);
}

void cg_section(cg *c, const lo_section *s)
{
	c->in_loop = s->loop;
	if (c->rows) {
		c->key = (uint32_t)(s - c->k->section.v) + 1;
		c->lanes = s->loop ? cg_section_lanes(c, s) : 1;
	}
	if (s->loop) over_r(c, s);
	else straight(c, s);
	c->in_loop = false;
}
