/* place: where each value is computed, whether it differs between lanes, and how many lanes a section has.
 *
 *   %0 = num f64 0            entry, scalar
 *   %1 = convert f32 %0       entry, scalar
 *   %2 = load f32 b0 [0 + 1*d0]     of d0, d1; lanes along d1: unit, scalar, broadcast where it is used
 *   %3 = load f32 b1 [0 + 1*d1]     body, vector
 */
#include "codegen_llvm/cg.h"

int64_t cg_lane_coef(const cg *c, const lo_ins *in)
{
	const lo_index *x = &c->k->index.v[in->index];
	return c->rows ? (c->in_loop ? x->rcoef : 0) : x->coef[c->k->ndim - 1];
}

static bool own_lanes(const cg *c, const lo_ins *in, bool loop)
{
	const lo_index *x = &c->k->index.v[in->index];
	bool lanes_here = loop || !c->rows;
	switch (in->op) {
	case LO_INDEX: return lanes_here && in->imm == (c->rows ? LO_R : c->k->ndim - 1);
	case LO_LOAD: return lanes_here && (c->rows ? x->rcoef : x->coef[c->k->ndim - 1]) != 0;
	case LO_REDUCE: return !c->rows;
	default: return false;
	}
}

/* Whether the value is another one for another r, for reasons of its own. A load from what the kernel writes stays put. */
static bool own_body(const cg *c, const lo_ins *in, bool loop)
{
	switch (in->op) {
	case LO_INDEX: return in->imm == LO_R;
	case LO_LOAD: return (loop && c->k->index.v[in->index].rcoef != 0) || c->k->buf.v[in->buf].role != LO_IN;
	case LO_STORE: case LO_REDUCE: case LO_FAULT: return true;
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

/* Lanes along r: what a point section computes is there before the next loop. */
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

/* ---- lanes ---- */
static int64_t round_pow2(int64_t n)
{
	int64_t p = 1;
	while (p < n) p *= 2;
	return p;
}

static int smaller(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Kernels of bytes only fill a register with bytes; all others count in 32-bit lanes. */
static int register_lanes(const cg *c)
{
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (tj_dtype_size((tj_dtype)c->k->ins.v[i].dtype) > 1) return c->bits / 32;
	return c->bits / 8;
}

/* Work of a section's body, in vector instructions. */
static int cost(const cg *c, const lo_section *s)
{
	int n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (c->place[i] != CG_BODY && in->op != LO_REDUCE) continue;
		bool strided = false;
		if (in->op == LO_LOAD || in->op == LO_STORE) {
			const lo_index *x = &c->k->index.v[in->index];
			int64_t step = c->rows ? x->rcoef : x->coef[c->k->ndim - 1];
			strided = (step != 0 && step != 1) || in->dyn != LO_NOREF;
		}
		n += strided ? 16 : tj_dtype_size((tj_dtype)in->dtype) == 8 ? 2 : 1;
	}
	return n;
}

static int reductions(const cg *c, const lo_section *s, int64_t *widest)
{
	int n = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (in->op != LO_REDUCE) continue;
		n++;
		if (in->tree == LO_TREE_NONE || !rt_is_float((tj_dtype)in->dtype)) continue;
		int64_t lanes = 512 / (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		if (lanes > *widest) *widest = lanes;
	}
	return n;
}

/* Lanes along r: a short body with one or two sums keeps all lanes of the tree in registers. */
int cg_section_lanes(const cg *c, const lo_section *s)
{
	int base = register_lanes(c);
	int64_t tree = 0, r = round_pow2(c->k->red);
	int n = reductions(c, s, &tree);
	if (r <= base) return (int)r;
	if (!tree || n > 2 || cost(c, s) > 8) return base;
	int wide = smaller(smaller(tree, r), 8 * base);
	return wide > base ? wide : base;
}

/* Lanes along d: short bodies of column sums take a strip of several registers. */
int cg_base_lanes(const cg *c)
{
	int64_t last = round_pow2(c->k->dim[c->k->ndim - 1]), room = round_pow2(c->block), tree = 0;
	int base = register_lanes(c), work = 0;
	bool any = false;
	for (uint32_t s = 0; s < c->k->section.n; s++) {
		any |= c->k->section.v[s].loop;
		reductions(c, &c->k->section.v[s], &tree);
		work += cost(c, &c->k->section.v[s]);
	}
	int lanes = any && work <= 8 ? 8 * base : any && work <= 16 ? 2 * base : base;
	lanes = smaller(smaller(lanes, room), 128);
	return smaller(lanes, last);
}
