/* SPDX-License-Identifier: MIT */
/* place: where each value is computed, and whether it differs between lanes.
 *
 *   %0 = num f64 0            entry, scalar
 *   %1 = convert f32 %0       entry, scalar
 *   %2 = load f32 b0 [0 + 1*d0]     of d0, d1; lanes along d1: unit, scalar, broadcast where it is used
 *   %3 = load f32 b1 [0 + 1*d1]     body, vector
 */
#include "codegen_llvm/recipe.h"

bool cg_lane_rows(const cg_recipe *h, const lo_ins *in) { return !cg_rows(h) && h->k->buf.v[in->buf].role == LO_KEPT; }

int64_t cg_lane_coef(const cg_recipe *h, const lo_ins *in, bool in_loop)
{
	const lo_index *x = &h->k->index.v[in->index];
	if (cg_lane_rows(h, in) || h->of[in - h->k->ins.v].aside) return 1;
	return cg_rows(h) ? (in_loop ? x->rcoef : 0) : x->coef[h->k->ndim - 1];
}

bool cg_dyn_varies(const cg_recipe *h, const lo_ins *in) { return in->dyn != LO_NOREF && h->of[in->dyn].varies; }

/* A sum of i64 whose operand is a byte or a bool that was widened. */
bool cg_sums_bytes(const cg_recipe *h, const lo_ins *in)
{
	if ((in->op != LO_REDUCE && in->op != LO_PART) || in->imm != LO_RED_ADD || !cg_rows(h)) return false;
	const lo_ins *x = &h->k->ins.v[in->src[0]];
	if (x->op != LO_CONVERT || x->dtype != TJ_I64 || !h->of[x->src[0]].varies) return false;
	const uint8_t from = h->k->ins.v[x->src[0]].dtype;
	return from == TJ_U8 || from == TJ_BOOL;
}

bool cg_nan_test(const lo_kernel *k, const lo_ins *in)
{
	return in->op == LO_EQ && in->src[0] == in->src[1] && rt_is_float((tj_dtype)k->ins.v[in->src[0]].dtype);
}

uint32_t cg_index_of(const lo_kernel *k, const lo_ins *in)
{
	const lo_ins *x = &k->ins.v[in->dyn];
	return x->op == LO_CONVERT && x->dtype == TJ_I64 ? x->src[0] : in->dyn;
}

/* The size with which an index was compared, before 0 was taken in place of what is out of range; 0: it was not. */
static int64_t checked_size(const lo_kernel *k, const lo_ins *x)
{
	if (x->op != LO_SELECT || k->ins.v[x->src[1]].op != LO_CONST || k->ins.v[x->src[1]].imm) return 0;
	const lo_ins *bad = &k->ins.v[x->src[0]];
	if (bad->op == LO_OR) bad = &k->ins.v[bad->src[1]];
	const bool is = bad->op == LO_GE && bad->src[0] == x->src[2] && k->ins.v[bad->src[1]].op == LO_CONST;
	return is ? k->ins.v[bad->src[1]].imm : 0;
}

int cg_table_size(const cg_recipe *h, const lo_ins *in)
{
	const lo_kernel *k = h->k;
	const bool bytes = in->dtype == TJ_U8, words = in->dtype == TJ_F32 || in->dtype == TJ_I32;
	if (in->op != LO_LOAD || in->dyn == LO_NOREF || cg_rows(h) || h->bits < 512 || !(bytes || words) || in->dyn_stride != 1) return 0;
	const uint32_t i = cg_index_of(k, in);
	if (!h->of[i].varies || k->index.v[in->index].coef[k->ndim - 1] || k->index.v[in->index].rcoef) return 0;
	if (k->buf.v[in->buf].role != LO_IN || (bytes && !(rt_features(h->bits) & RT_HAS_VBMI))) return 0;
	const int64_t size = checked_size(k, &k->ins.v[i]);
	if (bytes && !size && k->ins.v[i].dtype == TJ_U8) return 256;
	return size <= (bytes ? 256 : 32) ? (int)size : 0;
}

static bool own_lanes(const cg_recipe *h, const lo_ins *in, bool loop)
{
	const lo_index *x = &h->k->index.v[in->index];
	bool lanes_here = loop || !cg_rows(h);
	switch (in->op) {
	case LO_INDEX: return lanes_here && in->imm == (cg_rows(h) ? LO_R : h->k->ndim - 1);
	case LO_LOAD: return lanes_here && (cg_lane_rows(h, in) || (cg_rows(h) ? x->rcoef : x->coef[h->k->ndim - 1]) != 0);
	case LO_REDUCE: return !cg_rows(h);
	default: return false;
	}
}

/* The instruction must be in the body: it depends on r, reads a buffer that the kernel writes, or has an effect. */
static bool own_body(const cg_recipe *h, const lo_ins *in, bool loop)
{
	switch (in->op) {
	case LO_INDEX: return in->imm == LO_R;
	case LO_LOAD: return (loop && h->k->index.v[in->index].rcoef != 0) || h->k->buf.v[in->buf].role != LO_IN;
	case LO_STORE: case LO_REDUCE: case LO_PART: case LO_FAULT: return true;
	default: return false;
	}
}

static uint8_t innermost(uint8_t a, uint8_t b) { return a > b ? a : b; }

static void place(cg_recipe *h, uint32_t i, bool loop)
{
	const lo_ins *in = &h->k->ins.v[i];
	bool varies = own_lanes(h, in, loop), body = own_body(h, in, loop);
	uint8_t at = in->op == LO_INDEX || in->op == LO_LOAD ? CG_UNIT : CG_ENTRY;
	for (int s = 0; s <= in->nsrc; s++) {
		uint32_t src = s < in->nsrc ? in->src[s] : in->dyn;
		if (src == LO_NOREF) continue;
		varies |= h->of[src].varies;
		at = innermost(at, h->of[src].place);
	}
	if (in->op == LO_REDUCE) varies = !cg_rows(h);
	if (varies || body) at = CG_BODY;
	if (cg_rows(h) && at == CG_UNIT) at = loop ? CG_PRE : CG_BODY;
	h->of[i].varies = varies;
	h->of[i].place = at;
}

/* Lanes along r: values of a point section are known before the next loop. */
static void leave_section(cg_recipe *h, const lo_section *s)
{
	for (uint32_t i = s->first; cg_rows(h) && i < s->first + s->count; i++)
		if (!s->loop && h->of[i].place == CG_BODY) h->of[i].place = CG_PRE;
}

void cg_find_places(cg_recipe *h)
{
	for (uint32_t s = 0; s < h->k->section.n; s++) {
		const lo_section *sec = &h->k->section.v[s];
		for (uint32_t i = sec->first; i < sec->first + sec->count; i++) place(h, i, sec->loop);
		leave_section(h, sec);
		for (uint32_t i = sec->first; cg_rows(h) && i < sec->first + sec->count; i++)
			if (h->k->ins.v[i].op == LO_REDUCE) h->of[i].place = CG_PRE;
	}
}
