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

static void count_uses(const cg *c, uint32_t *uses)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		for (int s = 0; s < in->nsrc; s++) uses[in->src[s]]++;
		if (in->dyn != LO_NOREF) uses[in->dyn]++;
	}
}

/* Goes up from the select: an instruction is rare if all its uses are. uses, inner: by instruction, number of uses and of rare uses. */
static void mark(cg *c, uint32_t select, uint32_t first, const uint32_t *uses, uint32_t *inner)
{
	const lo_kernel *k = c->k;
	memset(inner, 0, (k->ins.n + 1) * sizeof *inner);
	inner[k->ins.v[select].src[2]]++;
	for (uint32_t i = select; i-- > first;) {
		const lo_ins *in = &k->ins.v[i];
		if (!inner[i] || inner[i] != uses[i] || c->place[i] != CG_BODY || in->op >= LO_PRIMS) continue;
		c->rare[i] = select;
		for (int s = 0; s < in->nsrc; s++) inner[in->src[s]]++;
	}
}

void cg_find_rare(cg *c)
{
	const lo_kernel *k = c->k;
	uint32_t *uses = NULL, *inner = NULL;
	for (uint32_t s = k->section.n; s-- > 0;)
		for (uint32_t i = k->section.v[s].first + k->section.v[s].count; i-- > k->section.v[s].first;) {
			const lo_ins *in = &k->ins.v[i];
			if (in->op != LO_SELECT || !in->imm || c->place[i] != CG_BODY || !c->varies[i] || c->rare[i]) continue;
			if (!uses && (uses = rt_calloc((k->ins.n + 1) * sizeof *uses)) != NULL) count_uses(c, uses);
			if (!inner) inner = rt_calloc((k->ins.n + 1) * sizeof *inner);
			if (uses && inner) mark(c, i, k->section.v[s].first, uses, inner);
			else c->oom = true;
		}
	rt_free(uses);
	rt_free(inner);
}

bool cg_has_rare(const cg *c, uint32_t select)
{
	const lo_ins *in = &c->k->ins.v[select];
	return in->op == LO_SELECT && in->imm && c->lanes > 1 && !c->rare[select] && c->varies[select] && c->rare[in->src[2]] == select;
}

/* Broadcasts made inside the branch are not defined after it. */
static void forget_wide(cg *c)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (c->place[i] == CG_BODY && !c->val[i].vec) c->val[i].wide_key = 0;
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
		if (c->rare[i] == select) put(c, i);
	cg_str seldom = cg_use(c, in->src[2], true), both = cg_tmp(c);
	rt_putf(c->out, "  %s = select <%d x i1> %s, %s %s, %s %s\n", both.s, n, cond.s, type.s, most.s, type.s, seldom.s);
	end = c->block_label;
	cg_jump(c, cg_fmt("join%u", id));
	rt_putf(c->out, "  %s = phi %s [ %s, %%%s ], [ %s, %%%s ]\n", name.s, type.s, most.s, from.s, both.s, end.s);
	forget_wide(c);
	cg_def(c, select, name, true);
}
