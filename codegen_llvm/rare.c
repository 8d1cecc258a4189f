/* SPDX-License-Identifier: MIT */
/* rare: where the condition of a select is nearly always true, its last operand is computed behind a branch.
 *
 *   %7 = select f32 %c %6 %5 mostly        br when %c holds in all lanes, to join
 *                                   =>     rare: the values that only %5 needs; %5; the select
 *                                          join: phi of %6 and the select
 *
 * Only for vectors: code of one lane computes both operands. Without the branch the log of 1M numbers takes 332 us instead of 134; with
 * 256 bits 561 instead of 258 (Zen 4). */
#include "codegen_llvm/cg.h"

static void count_uses(const cg_recipe *h, uint32_t *uses)
{
	for (uint32_t i = 0; i < h->k->ins.n; i++) {
		const lo_ins *in = &h->k->ins.v[i];
		for (int s = 0; s < in->nsrc; s++) uses[in->src[s]]++;
		if (in->dyn != LO_NOREF) uses[in->dyn]++;
	}
}

/* Goes up from the select: an instruction is rare if all its uses are. uses, inner: by instruction, number of uses and of rare uses. */
static void mark(cg_recipe *h, uint32_t select, uint32_t first, const uint32_t *uses, uint32_t *inner)
{
	const lo_kernel *k = h->k;
	memset(inner, 0, (k->ins.n + 1) * sizeof *inner);
	inner[k->ins.v[select].src[2]]++;
	for (uint32_t i = select; i-- > first;) {
		const lo_ins *in = &k->ins.v[i];
		if (!inner[i] || inner[i] != uses[i] || h->of[i].place != CG_BODY || in->op >= LO_PRIMS) continue;
		h->of[i].rare = select;
		for (int s = 0; s < in->nsrc; s++) inner[in->src[s]]++;
	}
}

static bool may_branch(const cg_recipe *h, uint32_t i)
{
	const lo_ins *in = &h->k->ins.v[i];
	return in->op == LO_SELECT && in->imm && h->of[i].place == CG_BODY && h->of[i].varies && !h->of[i].rare;
}

static bool any_branch(const cg_recipe *h)
{
	for (uint32_t i = 0; i < h->k->ins.n; i++)
		if (may_branch(h, i)) return true;
	return false;
}

static void mark_section(cg_recipe *h, const lo_section *s, const uint32_t *uses, uint32_t *inner)
{
	if (cg_lanes_of(h, s) == 1) return;
	for (uint32_t i = s->first + s->count; i-- > s->first;)
		if (may_branch(h, i)) mark(h, i, s->first, uses, inner);
}

void cg_find_rare(cg_recipe *h)
{
	if (!any_branch(h)) return;
	uint32_t *uses = rt_calloc((h->k->ins.n + 1) * sizeof *uses), *inner = rt_calloc((h->k->ins.n + 1) * sizeof *inner);
	if (uses && inner) {
		count_uses(h, uses);
		for (uint32_t s = h->k->section.n; s-- > 0;) mark_section(h, &h->k->section.v[s], uses, inner);
	} else h->oom = true;
	rt_free(uses);
	rt_free(inner);
}

/* ---- text ---- */
/* Broadcasts made inside the branch are not defined after it. */
static void forget_wide(cg *c)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (c->how->of[i].place == CG_BODY && !c->val[i].vec) c->val[i].wide_key = 0;
}

void cg_rare(cg *c, uint32_t select, void (*put)(cg *c, uint32_t ins))
{
	const lo_ins *in = &c->k->ins.v[select];
	unsigned id = ++c->tmp;
	int n = c->lanes;
	cg_str type = cg_type((tj_dtype)in->dtype, n), cond = cg_use(c, in->src[0], true), most = cg_use(c, in->src[1], true),
		   from, end, name = cg_fmt("%%v%u%s", select, c->copy);
	cg_str all = cg_select_mask(c, TJ_BOOL, cond, cg_literal(TJ_BOOL, 1, n));
	rt_putf(c->out, "  %%rare.b%u = bitcast <%d x i1> %s to i%d\n  %%rare.n%u = icmp eq i%d %%rare.b%u, -1\n", id, n, all.s, n, id, n, id);
	rt_putf(c->out, "  br i1 %%rare.n%u, label %%join%u, label %%rare%u\n", id, id, id);
	from = c->block_label;
	cg_label(c, cg_fmt("rare%u", id));
	for (uint32_t i = 0; i < select; i++)
		if (c->how->of[i].rare == select) put(c, i);
	cg_str seldom = cg_use(c, in->src[2], true), both = cg_tmp(c);
	rt_putf(c->out, "  %s = select <%d x i1> %s, %s %s, %s %s\n", both.s, n, cond.s, type.s, most.s, type.s, seldom.s);
	end = c->block_label;
	cg_jump(c, cg_fmt("join%u", id));
	rt_putf(c->out, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", name.s, type.s, most.s, from.s, both.s, end.s);
	forget_wide(c);
	cg_def(c, select, name, true);
}
