/* SPDX-License-Identifier: MIT */
/* place: where each value is computed, and whether it differs between lanes.
 *
 *   %0 = num f64 0            entry, scalar
 *   %1 = convert f32 %0       entry, scalar
 *   %2 = load f32 b0 [0 + 1*d0]     of d0, d1; lanes along d1: unit, scalar, broadcast where it is used
 *   %3 = load f32 b1 [0 + 1*d1]     body, vector
 */
#include "codegen_llvm/cg.h"

bool cg_lane_rows(const cg *c, const lo_ins *in) { return !c->rows && c->k->buf.v[in->buf].role == LO_KEPT; }

int64_t cg_lane_coef(const cg *c, const lo_ins *in)
{
	const lo_index *x = &c->k->index.v[in->index];
	if (cg_lane_rows(c, in)) return 1;
	return c->rows ? (c->in_loop ? x->rcoef : 0) : x->coef[c->k->ndim - 1];
}

/* A sum of i64 whose operand is a byte or a bool that was widened. */
bool cg_sums_bytes(const cg *c, const lo_ins *in)
{
	if ((in->op != LO_REDUCE && in->op != LO_PART) || in->imm != LO_RED_ADD || !c->rows) return false;
	const lo_ins *x = &c->k->ins.v[in->src[0]];
	if (x->op != LO_CONVERT || x->dtype != TJ_I64 || !c->varies[x->src[0]]) return false;
	const uint8_t from = c->k->ins.v[x->src[0]].dtype;
	return from == TJ_U8 || from == TJ_BOOL;
}

bool cg_is_table(const cg *c, const lo_ins *in)
{
	if (in->op != LO_LOAD || in->dyn == LO_NOREF || c->rows || c->bits < 512 || in->dtype != TJ_U8 || in->dyn_stride != 1) return false;
	const lo_ins *x = &c->k->ins.v[in->dyn];
	if (x->op != LO_CONVERT || c->k->ins.v[x->src[0]].dtype != TJ_U8 || !c->varies[x->src[0]]) return false;
	if (c->k->index.v[in->index].coef[c->k->ndim - 1] || c->k->index.v[in->index].rcoef) return false;
	return c->k->buf.v[in->buf].role == LO_IN && __builtin_cpu_supports("avx512vbmi");
}

static bool own_lanes(const cg *c, const lo_ins *in, bool loop)
{
	const lo_index *x = &c->k->index.v[in->index];
	bool lanes_here = loop || !c->rows;
	switch (in->op) {
	case LO_INDEX: return lanes_here && in->imm == (c->rows ? LO_R : c->k->ndim - 1);
	case LO_LOAD: return lanes_here && (cg_lane_rows(c, in) || (c->rows ? x->rcoef : x->coef[c->k->ndim - 1]) != 0);
	case LO_REDUCE: return !c->rows;
	default: return false;
	}
}

/* The instruction must be in the body: it depends on r, reads a buffer that the kernel writes, or has an effect. */
static bool own_body(const cg *c, const lo_ins *in, bool loop)
{
	switch (in->op) {
	case LO_INDEX: return in->imm == LO_R;
	case LO_LOAD: return (loop && c->k->index.v[in->index].rcoef != 0) || c->k->buf.v[in->buf].role != LO_IN;
	case LO_STORE: case LO_REDUCE: case LO_PART: case LO_FAULT: return true;
	default: return false;
	}
}

static uint8_t innermost(uint8_t a, uint8_t b) { return a > b ? a : b; }

static void place(cg *c, uint32_t i, bool loop)
{
	const lo_ins *in = &c->k->ins.v[i];
	bool varies = own_lanes(c, in, loop), body = own_body(c, in, loop);
	uint8_t at = in->op == LO_INDEX || in->op == LO_LOAD ? CG_UNIT : CG_ENTRY;
	for (int s = 0; s <= in->nsrc; s++) {
		uint32_t src = s < in->nsrc ? in->src[s] : in->dyn;
		if (src == LO_NOREF) continue;
		varies |= c->varies[src];
		at = innermost(at, c->place[src]);
	}
	if (in->op == LO_REDUCE) varies = !c->rows;
	if (varies || body) at = CG_BODY;
	if (c->rows && at == CG_UNIT) at = loop ? CG_PRE : CG_BODY;
	c->varies[i] = varies;
	c->place[i] = at;
}

/* Lanes along r: values of a point section are known before the next loop. */
static void leave_section(cg *c, const lo_section *s)
{
	for (uint32_t i = s->first; c->rows && i < s->first + s->count; i++)
		if (!s->loop && c->place[i] == CG_BODY) c->place[i] = CG_PRE;
}

void cg_place_all(cg *c)
{
	for (uint32_t s = 0; s < c->k->section.n; s++) {
		const lo_section *sec = &c->k->section.v[s];
		for (uint32_t i = sec->first; i < sec->first + sec->count; i++) place(c, i, sec->loop);
		leave_section(c, sec);
		for (uint32_t i = sec->first; c->rows && i < sec->first + sec->count; i++)
			if (c->k->ins.v[i].op == LO_REDUCE) c->place[i] = CG_PRE;
	}
}
