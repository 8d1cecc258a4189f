/* SPDX-License-Identifier: MIT */
/* reduce: accumulators, in the fixed order of ir/tree.c.
 *
 *   rows     an accumulator has the lanes of the tree: in registers when the body has as many lanes, else in an array of
 *            which each step updates a part
 *   columns  every lane is a column of its own
 *
 * Absent elements count as the identity: -0.0 for sums, 1 for products, an infinity for max and min. That gives the same
 * bits as skipping them. Finished blocks of 2^k chunks are on a stack; equal ones are combined, as a binary counter carries. */
#include "codegen_llvm/cg.h"
#include "ir/tree.h"

enum { LEAST_BYTES = 16 }; /* lanes: the shortest vector whose bytes an instruction adds */

/* ---- arithmetic ---- */
static cg_str identity(const cg_acc *a, int lanes)
{
	return cg_literal(a->dtype, lo_identity(a->red, a->dtype), lanes);
}

/* a > b (for minima a < b) as an i1 vector. */
static cg_str beyond(cg *c, const cg_acc *acc, int n, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	bool up = acc->red == LO_RED_MAX || acc->red == LO_RED_ARGMAX,
		 u = !rt_is_float(acc->dtype) && !rt_is_signed(acc->dtype);
	const char *op = rt_is_float(acc->dtype) ? (up ? "fcmp ogt" : "fcmp olt")
					 : u                     ? (up ? "icmp ugt" : "icmp ult")
					 : up                    ? "icmp sgt"
											 : "icmp slt";
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, op, cg_type(acc->dtype, n).s, a.s, b.s);
	return r;
}

static cg_str pick(cg *c, tj_dtype t, int n, cg_str cond, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c), type = cg_type(t, n);
	rt_putf(c->out, "  %s = select %s %s, %s %s, %s %s\n", r.s, cg_type(TJ_BOOL, n).s, cond.s, type.s, a.s,
			type.s, b.s);
	return r;
}

/* Selects whole vectors, by one i1. */
static cg_str pick_whole(cg *c, const cg_acc *acc, cg_str cond, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c), type = cg_type(acc->dtype, acc->lanes);
	rt_putf(c->out, "  %s = select i1 %s, %s %s, %s %s\n", r.s, cond.s, type.s, a.s, type.s, b.s);
	return r;
}

static cg_str simple(cg *c, const char *op, cg_str type, cg_str a, cg_str b)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, op, type.s, a.s, b.s);
	return r;
}

/* a > b || a != a ? a : b, in the order that becomes a maximum and a masked move: the test for NaN comes last. */
static cg_str extreme(cg *c, const cg_acc *acc, int n, cg_str a, cg_str b)
{
	cg_str r = pick(c, acc->dtype, n, beyond(c, acc, n, a, b), a, b);
	if (!rt_is_float(acc->dtype)) return r;
	return pick(c, acc->dtype, n, simple(c, "fcmp ord", cg_type(acc->dtype, n), a, a), r, a);
}

static cg_str combine(cg *c, const cg_acc *acc, int n, cg_str a, cg_str b)
{
	bool f = rt_is_float(acc->dtype);
	cg_str type = cg_type(acc->dtype, n);
	switch (acc->red) {
	case LO_RED_ADD: return simple(c, f ? "fadd" : "add", type, a, b);
	case LO_RED_MUL: return simple(c, f ? "fmul" : "mul", type, a, b);
	case LO_RED_AND: return simple(c, "and", type, a, b);
	case LO_RED_OR: return simple(c, "or", type, a, b);
	default: return extreme(c, acc, n, a, b);
	}
}

/* ---- lanes ---- */
/* Lanes from..from+n-1 of a vector of `of`. */
static cg_str part(cg *c, tj_dtype t, int of, int from, int n, cg_str v)
{
	cg_str r = cg_tmp(c), type = cg_type(t, of);
	if (n == of) return v;
	if (n == 1) {
		rt_putf(c->out, "  %s = extractelement %s %s, i64 %d\n", r.s, type.s, v.s, from);
		return r;
	}
	rt_putf(c->out, "  %s = shufflevector %s %s, %s poison, <%d x i32> <", r.s, type.s, v.s, type.s, n);
	for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", from + i);
	rt_puts(c->out, ">\n");
	return r;
}

static cg_str load(cg *c, tj_dtype t, int n, cg_str p)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = load %s, ptr %s, align 1\n", r.s, cg_type(t, n).s, p.s);
	return r;
}

static void store(cg *c, tj_dtype t, int n, cg_str v, cg_str p)
{
	rt_putf(c->out, "  store %s %s, ptr %s, align 1\n", cg_type(t, n).s, v.s, p.s);
}

/* ---- begin ---- */
static cg_str array(cg *c, const char *what, uint32_t ins, tj_dtype t, int n, cg_num blocks)
{
	cg_str name = cg_fmt("%%%s%u%s", what, ins, c->copy);
	cg_num all = cg_mul(c, c->wide_now ? c->block : cg_lit(n), blocks);
	if (all.known) rt_putf(&c->entry, "  %s = alloca [%lld x %s], align 64\n", name.s, (long long)all.v, cg_type(t, 1).s);
	else rt_putf(&c->entry, "  %s = alloca %s, i64 %s, align 64\n", name.s, cg_type(t, 1).s, all.s.s);
	return name;
}

/* Levels of the stack: one for each bit of the number of chunks. If that is not known, a symbol fits 31 bits; but `wide` stacks
 * are large, so their levels are computed at run time. */
static cg_num levels(cg *c, cg_num chunks, int64_t width)
{
	int n = 0;
	if (!chunks.known && c->wide_now) {
		cg_num zeros = { .s = cg_tmp(c) };
		rt_putf(&c->entry, "  %s = call i64 @llvm.ctlz.i64(i64 %s, i1 false)\n", zeros.s.s, chunks.s.s);
		return cg_sub(c, cg_lit(64), zeros);
	}
	for (int64_t most = chunks.known ? chunks.v : INT32_MAX / width + 1; most; most >>= 1) n++;
	return cg_lit(n);
}

static void shape(cg *c, const lo_ins *in, cg_acc *a)
{
	int64_t wide = ir_tree_lanes(a->dtype), r = 1;
	cg_num red = cg_size(c->k->red), part = c->s->part ? cg_lit(c->s->part) : red;
	while (r < (red.known ? red.v : wide)) r *= 2;
	a->arg = lo_is_index(a->red);
	a->ordered = !a->arg && in->tree != LO_TREE_NONE && rt_is_float(a->dtype);
	a->index_dtype = !red.known || red.v <= INT32_MAX ? TJ_I32 : TJ_I64;
	a->lanes = c->lanes;
	a->nchunk = cg_lit(1);
	a->bytes = c->lanes >= LEAST_BYTES && cg_sums_bytes(c->how, in);
	if (a->bytes) a->lanes = (c->lanes < c->bits / 8 ? c->lanes : c->bits / 8) / 8;
	if (!a->ordered) return;
	if (cg_rows(c->how)) a->lanes = (int)(r < wide ? r : wide);
	a->chunk = in->tree == LO_TREE_PAIRS ? 1 : !cg_rows(c->how) ? IR_TREE_COLUMN_ROWS : in->tree == LO_TREE_PARTS ? wide : wide * IR_TREE_ROWS;
	cg_num chunk = cg_lit(a->chunk), behind = cg_last_part(c);
	a->nchunk = cg_div_up(c, part, chunk);
	a->last = c->s->part ? cg_div_up(c, cg_sub(c, red, behind), chunk) : a->nchunk;
	a->memory = a->lanes > c->lanes;
	a->twice = a->memory && red.known && red.v < 2 * c->lanes && !c->s->part;
	if (a->twice) a->memory = false;
}

/* Makes the arrays of an accumulator that lives across chunks, or has more lanes than the body. */
static void make_arrays(cg *c, cg_acc *a, bool chunked)
{
	a->now = identity(a, a->lanes);
	a->inow = cg_literal(a->index_dtype, 0, a->lanes);
	if (!chunked && !a->memory) return;
	a->state = a->at = array(c, "state", a->ins, a->dtype, a->lanes, cg_lit(1));
	if (a->arg) a->istate = array(c, "where", a->ins, a->index_dtype, a->lanes, cg_lit(1));
	if (a->ordered && chunked) a->stack = a->stack_at = array(c, "stack", a->ins, a->dtype, a->lanes, levels(c, a->nchunk, a->chunk));
	a->step = c->wide_now ? c->block : cg_lit(a->lanes);
	if (!c->wide_now) cg_acc_reset(c, a);
}

void cg_acc_reset(cg *c, cg_acc *a)
{
	store(c, a->dtype, a->lanes, identity(a, a->lanes), a->at);
	if (a->arg) store(c, a->index_dtype, a->lanes, cg_literal(a->index_dtype, 0, a->lanes), a->istate);
}

void cg_acc_place(cg *c, cg_acc *a)
{
	const char *type = cg_type(a->dtype, 1).s[0] == 'd' ? "double" : "float";
	a->at = cg_tmp(c);
	a->stack_at = cg_tmp(c);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", a->at.s, type, a->state.s, c->wide_off.s);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", a->stack_at.s, type, a->stack.s, c->wide_off.s);
}

/* ---- index and element of one search share an accumulator ---- */
static bool searches(const lo_ins *in) { return in->op == LO_REDUCE && in->imm >= LO_RED_ARGMAX; }
static lo_red search_of(const lo_ins *in)
{
	return in->imm == LO_RED_ATMAX ? LO_RED_ARGMAX : in->imm == LO_RED_ATMIN ? LO_RED_ARGMIN : (lo_red)in->imm;
}

static bool same_search(const lo_ins *a, const lo_ins *b)
{
	return searches(a) && searches(b) && search_of(a) == search_of(b) && a->src[0] == b->src[0];
}

bool cg_same_search(const lo_kernel *k, uint32_t first, uint32_t i)
{
	for (uint32_t j = first; j < i; j++)
		if (same_search(&k->ins.v[j], &k->ins.v[i])) return true;
	return false;
}

static uint32_t *place_of(cg_acc *a, const lo_ins *in) { return in->imm >= LO_RED_ATMAX ? &a->element : &a->index; }

/* If an earlier accumulator does the same search, and its index (or element) has no reader yet, instruction i reads that. */
static bool share(cg *c, uint32_t i)
{
	const lo_ins *ins = c->k->ins.v;
	for (uint32_t k = 0; k < c->acc.n; k++) {
		uint32_t *place = place_of(&c->acc.v[k], &ins[i]);
		if (!same_search(&ins[c->acc.v[k].ins], &ins[i]) || *place != LO_NOREF) continue;
		*place = i;
		return true;
	}
	return false;
}

bool cg_acc_begin(cg *c, const lo_section *s)
{
	bool chunked = c->s->part != 0 || c->how->beside;
	c->acc.n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op != LO_REDUCE && in->op != LO_PART) continue;
		if (share(c, i)) continue;
		cg_acc a = { .ins = i, .part = in->op == LO_PART, .red = search_of(in), .dtype = (tj_dtype)c->k->ins.v[in->src[0]].dtype,
			         .index = LO_NOREF, .element = LO_NOREF };
		shape(c, in, &a);
		if (a.arg) *place_of(&a, in) = i;
		chunked |= !a.nchunk.known || a.nchunk.v > 1;
		if (!rt_push(&c->acc, a)) c->oom = true;
	}
	for (uint32_t i = 0; i < c->acc.n; i++) make_arrays(c, &c->acc.v[i], chunked);
	return chunked;
}

/* ---- a step ---- */
static void update_arg(cg *c, cg_acc *a, cg_str x)
{
	int n = a->lanes;
	cg_str take = beyond(c, a, n, x, a->now), type = cg_type(a->dtype, n), mask = cg_type(TJ_BOOL, n);
	if (rt_is_float(a->dtype)) {
		cg_str nan = simple(c, "fcmp uno", type, x, x), sound = simple(c, "fcmp ord", type, a->now, a->now);
		take = simple(c, "or", mask, take, simple(c, "and", mask, nan, sound));
	}
	a->now = pick(c, a->dtype, n, take, x, a->now);
	cg_str at = cg_rows(c->how) ? c->at : c->r;
	if (a->index_dtype == TJ_I32) {
		cg_str low = cg_tmp(c);
		rt_putf(c->out, "  %s = trunc i64 %s to i32\n", low.s, at.s);
		at = low;
	}
	a->inow = pick(c, a->index_dtype, n, take, cg_splat(c, cg_type(a->index_dtype, 1).s, at, n), a->inow);
}

/* n: lanes of x. What was stored in parts could not be read at once without a wait. */
static void update_memory(cg *c, cg_acc *a, int n, cg_str x)
{
	cg_str slot = cg_tmp(c), p = cg_tmp(c);
	rt_putf(c->out, "  %s = and i64 %s, %d\n", slot.s, c->at.s, a->lanes - 1);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", p.s, cg_type(a->dtype, 1).s, a->at.s, slot.s);
	store(c, a->dtype, n, combine(c, a, n, load(c, a->dtype, n, p), x), p);
}

/* Adds bytes (bools, as 0 and 1), eight to a lane. */
static void update_bytes(cg *c, cg_acc *a)
{
	const int n = 8 * a->lanes;
	const uint32_t src = c->k->ins.v[c->k->ins.v[a->ins].src[0]].src[0];
	const tj_dtype t = (tj_dtype)c->k->ins.v[src].dtype;
	const cg_str x = cg_select_mask(c, t, cg_use(c, src, true), cg_literal(t, 0, c->lanes));
	for (int from = 0; from < c->lanes; from += n) {
		cg_str v = part(c, t, c->lanes, from, n, x);
		if (t == TJ_BOOL) {
			const cg_str bytes = cg_tmp(c);
			rt_putf(c->out, "  %s = zext %s %s to %s\n", bytes.s, cg_type(t, n).s, v.s, cg_type(TJ_U8, n).s);
			v = bytes;
		}
		a->now = combine(c, a, a->lanes, a->now, cg_x86_sum_bytes(c, n, v));
	}
}

/* x, and what changes nothing in the lanes that a tail lacks. */
static cg_str widened(cg *c, const cg_acc *a, int n, cg_str x)
{
	if (n == c->lanes) return x;
	const cg_str r = cg_tmp(c), type = cg_type(a->dtype, c->lanes);
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> <", r.s, type.s, x.s, type.s, identity(a, c->lanes).s, n);
	for (int i = 0; i < n; i++) rt_putf(c->out, "%si32 %d", i ? ", " : "", i < c->lanes ? i : c->lanes);
	rt_puts(c->out, ">\n");
	return r;
}

/* The step is the first n lanes, the tail is the others. */
static cg_str joined(cg *c, const cg_acc *a, int n, cg_str x)
{
	const cg_str r = cg_tmp(c), type = cg_type(a->dtype, n), none = identity(a, n);
	const bool last = c->behind;
	const cg_str low = last ? part(c, a->dtype, a->lanes, 0, n, a->now) : x, high = last ? x : none;
	rt_putf(c->out, "  %s = shufflevector %s %s, %s %s, <%d x i32> ", r.s, type.s, low.s, type.s, high.s, a->lanes);
	cg_iota(c->out, "i32", 1, a->lanes);
	rt_puts(c->out, "\n");
	return r;
}

void cg_acc_update(cg *c, cg_acc *a)
{
	uint32_t src = c->k->ins.v[a->ins].src[0];
	if (a->bytes) {
		update_bytes(c, a);
		return;
	}
	cg_str x = cg_use(c, src, true);
	if (cg_rows(c->how)) x = cg_select_mask(c, a->dtype, x, identity(a, c->lanes));
	const int n = a->memory || a->twice ? c->whole : c->lanes > a->lanes ? c->lanes : a->lanes;
	x = widened(c, a, n, x);
	if (a->arg) update_arg(c, a, x);
	else if (a->memory) update_memory(c, a, n, x);
	else if (a->twice) a->now = joined(c, a, n, x);
	else
		for (int from = 0; from < n; from += a->lanes) a->now = combine(c, a, a->lanes, a->now, part(c, a->dtype, n, from, a->lanes, x));
}

/* ---- chunks ---- */
void cg_acc_load(cg *c, cg_acc *a)
{
	if (a->fresh) a->now = identity(a, a->lanes);
	else if (!a->memory) a->now = load(c, a->dtype, a->lanes, a->at);
	if (a->arg) a->inow = load(c, a->index_dtype, a->lanes, a->istate);
}

static cg_str block_ptr(cg *c, const cg_acc *a, cg_str level)
{
	cg_str p = cg_tmp(c), at = cg_tmp(c);
	rt_putf(c->out, "  %s = mul i64 %s, %s\n", at.s, level.s, a->step.s.s);
	rt_putf(c->out, "  %s = getelementptr %s, ptr %s, i64 %s\n", p.s, cg_type(a->dtype, 1).s, a->stack_at.s, at.s);
	return p;
}

/* Combines the value of 2^least chunks with blocks of equal size on the stack: there are as many as `number` has trailing ones. */
static void carry(cg *c, const cg_acc *a, cg_str number, cg_str value, int least)
{
	unsigned id = ++c->tmp;
	cg_str type = cg_type(a->dtype, a->lanes), from = c->block_label, head = cg_fmt("carry%u", id),
		   up = cg_fmt("up%u", id);
	cg_str t = cg_tmp(c), level = cg_tmp(c), v = cg_tmp(c), t1 = cg_tmp(c), level1 = cg_tmp(c),
		   odd = cg_tmp(c);
	rt_text *text = c->out, inner = { 0 };
	c->out = &inner;
	cg_label(c, up);
	cg_str sum = combine(c, a, a->lanes, load(c, a->dtype, a->lanes, block_ptr(c, a, level)), v);
	rt_putf(&inner, "  %s = lshr i64 %s, 1\n  %s = add i64 %s, 1\n  br label %%%s\n", t1.s, t.s, level1.s,
			level.s, head.s);
	c->out = text;
	rt_putf(text, "  br label %%%s\n", head.s);
	cg_label(c, head);
	rt_putf(text, "  %s = phi i64 [ %s, %%%s ], [ %s, %%%s ]\n", t.s, number.s, from.s, t1.s, up.s);
	rt_putf(text, "  %s = phi i64 [ %d, %%%s ], [ %s, %%%s ]\n", level.s, least, from.s, level1.s, up.s);
	rt_putf(text, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", v.s, type.s, value.s, from.s, sum.s, up.s);
	rt_putf(text, "  %s = trunc i64 %s to i1\n  br i1 %s, label %%%s, label %%rest%u\n", odd.s, t.s, odd.s,
			up.s, id);
	rt_puts(text, rt_str(&inner));
	c->oom |= inner.oom;
	rt_text_free(&inner);
	cg_label(c, cg_fmt("rest%u", id));
	store(c, a->dtype, a->lanes, v, block_ptr(c, a, level));
}

/* A chunk of this accumulator may take several steps. */
void cg_acc_flush(cg *c, cg_acc *a, cg_str step, int64_t width, cg_num nstep)
{
	if (a->memory) a->now = load(c, a->dtype, a->lanes, a->at);
	if (!a->memory && !a->fresh) store(c, a->dtype, a->lanes, a->now, a->at);
	if (a->arg) store(c, a->index_dtype, a->lanes, a->inow, a->istate);
	if (!a->ordered) return;
	int64_t every = a->chunk / width;
	cg_str number = cg_tmp(c);
	unsigned id = ++c->tmp;
	rt_putf(c->out, "  %s = udiv i64 %s, %lld\n", number.s, step.s, (long long)every);
	if (every > 1) {
		cg_str rem = cg_tmp(c), full = cg_tmp(c), last = cg_tmp(c), flush = cg_tmp(c), end = cg_sub(c, nstep, cg_lit(1)).s;
		rt_putf(c->out, "  %s = urem i64 %s, %lld\n", rem.s, step.s, (long long)every);
		rt_putf(c->out, "  %s = icmp eq i64 %s, %lld\n", full.s, rem.s, (long long)every - 1);
		rt_putf(c->out, "  %s = icmp eq i64 %s, %s\n", last.s, step.s, end.s);
		rt_putf(c->out, "  %s = or i1 %s, %s\n", flush.s, full.s, last.s);
		rt_putf(c->out, "  br i1 %s, label %%flush%u, label %%keep%u\n", flush.s, id, id);
		cg_label(c, cg_fmt("flush%u", id));
	}
	carry(c, a, number, a->now, 0);
	if (!a->fresh) store(c, a->dtype, a->lanes, identity(a, a->lanes), a->at);
	if (every > 1) cg_jump(c, cg_fmt("keep%u", id));
}

/* ---- groups of chunks ---- */
void cg_acc_open_group(cg *c)
{
	const uint32_t each = c->acc.n;
	for (uint32_t i = 0; i < each; i++) c->acc.v[i].now = identity(&c->acc.v[i], c->acc.v[i].lanes);
	for (uint32_t i = each; i < (uint32_t)c->how->beside * each; i++)
		if (!rt_push(&c->acc, c->acc.v[i - each])) c->oom = true;
}

/* Adjacent chunks in pairs, as in the tree. */
static void close_group(cg *c, cg_acc *a, uint32_t each, cg_str number)
{
	const uint32_t n = (uint32_t)c->how->beside;
	for (uint32_t w = 1; w < n; w *= 2)
		for (uint32_t b = 0; b < n; b += 2 * w) a[b * each].now = combine(c, a, a->lanes, a[b * each].now, a[(b + w) * each].now);
	if (a->ordered) carry(c, a, number, a->now, __builtin_ctz(n));
	else store(c, a->dtype, a->lanes, combine(c, a, a->lanes, load(c, a->dtype, a->lanes, a->at), a->now), a->at);
}

void cg_acc_close_group(cg *c, cg_str number)
{
	const uint32_t each = c->acc.n / (uint32_t)c->how->beside;
	for (uint32_t i = 0; i < each; i++) close_group(c, &c->acc.v[i], each, number);
	c->acc.n = each;
}

/* ---- end ---- */
/* Combines the blocks left on the stack from the right: one for each bit that is set in the number of chunks. */
static cg_str fold_stack(cg *c, const cg_acc *a, int64_t nchunk)
{
	cg_str v = { "" };
	for (int level = 0; nchunk >> level; level++) {
		if (!(nchunk >> level & 1)) continue;
		cg_str block = load(c, a->dtype, a->lanes, block_ptr(c, a, cg_fmt("%d", level)));
		v = v.s[0] ? combine(c, a, a->lanes, block, v) : block;
	}
	return v;
}

/* The same for a number known only at run time: starts with the block of the lowest bit, then loops over the bits above it. */
static cg_str fold_bits(cg *c, const cg_acc *a, cg_str nchunk)
{
	unsigned id = ++c->tmp;
	cg_str type = cg_type(a->dtype, a->lanes), low = cg_tmp(c), rest = cg_tmp(c), bits = cg_tmp(c), next = cg_tmp(c), v = cg_tmp(c),
	       more = cg_tmp(c), level = cg_tmp(c);
	rt_putf(c->out, "  %s = call i64 @llvm.cttz.i64(i64 %s, i1 false)\n  %s = sub i64 %s, 1\n", low.s, nchunk.s, rest.s, nchunk.s);
	cg_str first = load(c, a->dtype, a->lanes, block_ptr(c, a, low)), left = cg_tmp(c);
	rt_putf(c->out, "  %s = and i64 %s, %s\n  br label %%fold%u\n", left.s, nchunk.s, rest.s, id);
	cg_str from = c->block_label;
	cg_label(c, cg_fmt("fold%u", id));
	rt_text *text = c->out, inner = { 0 };
	c->out = &inner;
	rt_putf(&inner, "  %s = icmp ne i64 %s, 0\n  br i1 %s, label %%higher%u, label %%folded%u\n", more.s, bits.s, more.s, id, id);
	cg_label(c, cg_fmt("higher%u", id));
	rt_putf(&inner, "  %s = call i64 @llvm.cttz.i64(i64 %s, i1 false)\n", level.s, bits.s);
	cg_str sum = combine(c, a, a->lanes, load(c, a->dtype, a->lanes, block_ptr(c, a, level)), v), less = cg_tmp(c);
	rt_putf(&inner, "  %s = sub i64 %s, 1\n  %s = and i64 %s, %s\n  br label %%fold%u\n", less.s, bits.s, next.s, bits.s, less.s, id);
	c->out = text;
	rt_putf(text, "  %s = phi i64 [ %s, %%%s ], [ %s, %%higher%u ]\n", bits.s, left.s, from.s, next.s, id);
	rt_putf(text, "  %s = phi %s [ %s, %%%s ], [ %s, %%higher%u ]\n", v.s, type.s, first.s, from.s, sum.s, id);
	rt_puts(text, rt_str(&inner));
	c->oom |= inner.oom;
	rt_text_free(&inner);
	cg_label(c, cg_fmt("folded%u", id));
	return v;
}

static cg_str halve(cg *c, const cg_acc *a, cg_str v)
{
	for (int n = a->lanes; n > 1; n /= 2) {
		cg_str lo = part(c, a->dtype, n, 0, n / 2, v), hi = part(c, a->dtype, n, n / 2, n / 2, v);
		v = combine(c, a, n / 2, lo, hi);
	}
	return v;
}

/* Halves the lanes: of two, the more extreme element wins; of equal ones, the lower index. Leaves the element in a->now. */
static cg_str halve_arg(cg *c, cg_acc *a)
{
	cg_str v = a->now, at = cg_tmp(c);
	if (a->lanes == 1) return a->inow;
	rt_putf(c->out, "  %s = add %s %s, ", at.s, cg_type(a->index_dtype, a->lanes).s, a->inow.s);
	cg_iota(c->out, cg_type(a->index_dtype, 1).s, 1, a->lanes);
	rt_puts(c->out, "\n");
	for (int n = a->lanes / 2; n >= 1; n /= 2) {
		cg_str type = cg_type(a->dtype, n), mask = cg_type(TJ_BOOL, n);
		cg_str x = part(c, a->dtype, 2 * n, 0, n, v), y = part(c, a->dtype, 2 * n, n, n, v);
		cg_str i = part(c, a->index_dtype, 2 * n, 0, n, at), j = part(c, a->index_dtype, 2 * n, n, n, at);
		cg_str better = beyond(c, a, n, y, x), same, lower = simple(c, "icmp slt", cg_type(a->index_dtype, n), j, i);
		if (rt_is_float(a->dtype)) {
			cg_str xn = simple(c, "fcmp uno", type, x, x), yn = simple(c, "fcmp uno", type, y, y);
			better =
				simple(c, "or", mask, better, simple(c, "and", mask, yn, simple(c, "fcmp ord", type, x, x)));
			same = simple(c, "or", mask, simple(c, "fcmp oeq", type, x, y), simple(c, "and", mask, xn, yn));
		} else same = simple(c, "icmp eq", type, x, y);
		better = simple(c, "or", mask, better, simple(c, "and", mask, same, lower));
		v = pick(c, a->dtype, n, better, y, x);
		at = pick(c, a->index_dtype, n, better, j, i);
	}
	a->now = v;
	return at;
}

/* Folds the stack. The last part may have fewer chunks: its own fold is selected then, so blocks never stored are not used. */
static void fold(cg *c, cg_acc *a)
{
	bool same = !a->part || (a->last.known && a->nchunk.known && a->last.v == a->nchunk.v);
	if (a->nchunk.known && a->last.known) {
		a->now = fold_stack(c, a, a->nchunk.v);
		if (!same) a->now = pick_whole(c, a, cg_fmt("%%p.last"), fold_stack(c, a, a->last.v), a->now);
		return;
	}
	cg_str n = a->nchunk.s;
	if (!same) {
		n = cg_tmp(c);
		rt_putf(c->out, "  %s = select i1 %%p.last, i64 %s, i64 %s\n", n.s, a->last.s.s, a->nchunk.s.s);
	}
	a->now = fold_bits(c, a, n);
}

/* Of a row: the lanes that the tree still has. */
static void store_part(cg *c, const cg_acc *a)
{
	const bool rows = cg_rows(c->how), is_bool = a->dtype == TJ_BOOL;
	const int64_t left = lo_part_lanes(&c->k->ins.v[a->ins]);
	const int lanes = rows ? (int)left : a->lanes;
	const cg_str step = cg_int(rows ? left : c->k->index.v[c->k->ins.v[a->ins].index].rcoef);
	const cg_str at = cg_op(c, "mul", cg_fmt("%%p.at"), step), row = rows ? at : cg_op(c, "add", at, c->at);
	const cg_str p = cg_elem(c, a->dtype, cg_fmt("%%p%u", a->ins), row), byte = cg_tmp(c);
	const cg_str v = rows && !a->ordered ? halve(c, a, a->now) : a->now;
	const tj_dtype t = is_bool ? TJ_U8 : a->dtype;
	if (is_bool) rt_putf(c->out, "  %s = zext %s %s to %s\n", byte.s, cg_type(TJ_BOOL, lanes).s, v.s, cg_mem_type(TJ_BOOL, lanes).s);
	if (!rows && c->masked) cg_write_some(c, t, lanes, is_bool ? byte : v, p, c->mask);
	else cg_write(c, t, lanes, is_bool ? byte : v, p);
}

cg_str cg_acc_value(cg *c, cg_acc *a, bool chunked)
{
	if (a->ordered && chunked) fold(c, a);
	else if (chunked || a->memory) {
		a->now = load(c, a->dtype, a->lanes, a->at);
		if (a->arg) a->inow = load(c, a->index_dtype, a->lanes, a->istate);
	}
	if (a->part) {
		store_part(c, a);
		return a->now;
	}
	cg_str v = a->arg ? a->inow : a->now;
	if (cg_rows(c->how)) v = a->arg ? halve_arg(c, a) : halve(c, a, v);
	if (a->arg && a->index_dtype == TJ_I32) {
		cg_str wide = cg_tmp(c);
		int n = cg_rows(c->how) ? 1 : c->lanes;
		rt_putf(c->out, "  %s = sext %s %s to %s\n", wide.s, cg_type(TJ_I32, n).s, v.s, cg_type(TJ_I64, n).s);
		v = wide;
	}
	return v;
}

static void define(cg *c, const cg_acc *a, cg_str value, cg_str element)
{
	if (!a->arg) cg_def(c, a->ins, value, !cg_rows(c->how));
	if (a->index != LO_NOREF) cg_def(c, a->index, value, !cg_rows(c->how));
	if (a->element != LO_NOREF) cg_def(c, a->element, element, !cg_rows(c->how));
}

void cg_acc_end(cg *c, cg_acc *a, bool chunked)
{
	cg_str v = cg_acc_value(c, a, chunked);
	if (!a->part) define(c, a, v, a->now);
}

void cg_acc_end_short(cg *c, cg_acc *a)
{
	a->first = cg_acc_value(c, a, false);
	a->first_element = a->now;
	a->now = identity(a, a->lanes);
	a->inow = cg_literal(a->index_dtype, 0, a->lanes);
}

static cg_str either(cg *c, tj_dtype t, cg_str v, cg_str brief, cg_str value, cg_str from)
{
	cg_str r = cg_tmp(c);
	rt_putf(c->out, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", r.s, cg_type(t, 1).s, v.s, brief.s, value.s, from.s);
	return r;
}

void cg_acc_join(cg *c, const cg_acc *a, cg_str brief, cg_str value, cg_str from)
{
	cg_str v = either(c, a->arg ? TJ_I64 : a->dtype, a->first, brief, value, from), element = { "" };
	if (a->element != LO_NOREF) element = either(c, a->dtype, a->first_element, brief, a->now, from);
	define(c, a, v, element);
}
