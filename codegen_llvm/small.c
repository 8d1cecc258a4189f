/* SPDX-License-Identifier: MIT */
/* small: i64 values that are known to fit into 32 bits are computed in 32 bits, for their comparisons and conversions.
 *
 *   %7 = index i64 r             of 20
 *   %9 = add i64 %7 1            1 .. 20
 *   %10 = convert f32 %9         of the sum of two i32
 *
 * AVX2 converts i32 to floats, and i64 only one by one; and a vector of i64 takes twice as many registers. The values are the same, so
 * their conversions round alike. Coupons, with years 1 to 20 from a range: 1,926 to 1,307 us (Zen 3, two threads). */
#include "codegen_llvm/cg.h"

enum { DEPTH = 6 }; /* instructions on a path */

typedef struct range { int64_t least, most; } range;

static bool inside(range r) { return r.least >= INT32_MIN && r.most <= INT32_MAX; }

static range combined(int op, range a, range b)
{
	const int64_t x[4] = { a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most };
	range r = { x[0], x[0] };
	if (op == LO_ADD) return (range){ a.least + b.least, a.most + b.most };
	if (op == LO_SUB) return (range){ a.least - b.most, a.most - b.least };
	for (int i = 1; i < 4; i++) {
		if (x[i] < r.least) r.least = x[i];
		if (x[i] > r.most) r.most = x[i];
	}
	return r;
}

static bool is_small_dtype(tj_dtype t) { return !rt_is_float(t) && tj_dtype_size(t) <= sizeof(int32_t); }

/* Of value i, and of all that it is computed from; false: not known to fit. */
static bool range_of(const lo_kernel *k, uint32_t i, int depth, range *r)
{
	const lo_ins *in = &k->ins.v[i];
	range a, b;
	int64_t size;
	*r = (range){ 0, 0 };
	if (in->dtype != TJ_I64) return false;
	switch (in->op) {
	case LO_CONST: *r = (range){ in->imm, in->imm }; break;
	case LO_INDEX:
		size = in->imm == LO_R ? k->red : k->dim[in->imm];
		if (lo_is_sym(size)) return false;
		r->most = size;
		break;
	case LO_CONVERT:
		if (!is_small_dtype((tj_dtype)k->ins.v[in->src[0]].dtype)) return false;
		*r = (range){ INT32_MIN, INT32_MAX };
		break;
	case LO_ADD: case LO_SUB: case LO_MUL:
		if (depth == DEPTH || !range_of(k, in->src[0], depth + 1, &a) || !range_of(k, in->src[1], depth + 1, &b)) return false;
		*r = combined(in->op, a, b);
		break;
	default: return false;
	}
	return inside(*r);
}

/* Conversions and comparisons of vectors. */
bool cg_takes_small(const cg_recipe *h, const lo_ins *in)
{
	range r;
	if (h->bits == 512 || !in->nsrc || h->k->ins.v[in->src[0]].dtype != TJ_I64) return false;
	switch (in->op) {
	case LO_CONVERT:
		if (in->dtype == TJ_BOOL || in->dtype == TJ_I64 || rt_is_narrow((tj_dtype)in->dtype)) return false;
		return range_of(h->k, in->src[0], 0, &r);
	case LO_EQ: case LO_NE: case LO_LT: case LO_LE: case LO_GT: case LO_GE:
		return range_of(h->k, in->src[0], 0, &r) && range_of(h->k, in->src[1], 0, &r);
	default: return false;
	}
}

/* x as integers of another size, or as floats; name: for the result, which may be x */
static cg_str resized(cg *c, cg_str x, tj_dtype from, tj_dtype to, cg_str name)
{
	const size_t a = tj_dtype_size(from), b = tj_dtype_size(to);
	const char *op = rt_is_float(to) ? "sitofp" : a > b ? "trunc" : rt_is_signed(from) && from != TJ_BOOL ? "sext" : "zext";
	if (!rt_is_float(to) && a == b && from != TJ_BOOL) op = "bitcast";
	rt_putf(c->out, "  %s = %s %s %s to %s\n", name.s, op, cg_type(from, c->lanes).s, x.s, cg_type(to, c->lanes).s);
	return name;
}

static cg_str index_of(cg *c)
{
	const cg_str low = cg_tmp(c), r = cg_tmp(c);
	rt_putf(c->out, "  %s = trunc i64 %s to i32\n", low.s, c->at.s);
	const cg_str all = cg_splat(c, "i32", low, c->lanes);
	rt_putf(c->out, "  %s = add %s %s, ", r.s, cg_type(TJ_I32, c->lanes).s, all.s);
	cg_iota(c->out, "i32", 1, c->lanes);
	rt_puts(c->out, "\n");
	return r;
}

/* Value i, of i64, as a vector of i32. */
static cg_str small(cg *c, uint32_t i)
{
	const lo_ins *in = &c->k->ins.v[i];
	const cg_str type = cg_type(TJ_I32, c->lanes), r = cg_tmp(c);
	if (in->op == LO_CONST) return cg_literal(TJ_I32, in->imm, c->lanes);
	if (!c->how->of[i].varies) {
		const cg_str v = cg_use(c, i, false), low = cg_tmp(c);
		rt_putf(c->out, "  %s = trunc i64 %s to i32\n", low.s, v.s);
		return cg_splat(c, "i32", low, c->lanes);
	}
	if (in->op == LO_INDEX) return index_of(c);
	if (in->op == LO_CONVERT) {
		const tj_dtype from = (tj_dtype)c->k->ins.v[in->src[0]].dtype;
		return resized(c, cg_use(c, in->src[0], true), from, TJ_I32, r);
	}
	const cg_str a = small(c, in->src[0]), b = small(c, in->src[1]);
	rt_putf(c->out, "  %s = %s %s %s, %s\n", r.s, in->op == LO_ADD ? "add" : in->op == LO_SUB ? "sub" : "mul", type.s, a.s, b.s);
	return r;
}

void cg_put_small(cg *c, cg_str name, const lo_ins *in)
{
	cg_str x[2] = { small(c, in->src[0]) };
	if (in->op == LO_CONVERT) {
		resized(c, x[0], TJ_I32, (tj_dtype)in->dtype, name);
		return;
	}
	x[1] = small(c, in->src[1]);
	static const char *const how[] = {
		[LO_EQ] = "eq", [LO_NE] = "ne", [LO_LT] = "slt", [LO_LE] = "sle", [LO_GT] = "sgt", [LO_GE] = "sge",
	};
	rt_putf(c->out, "  %s = icmp %s %s %s, %s\n", name.s, how[in->op], cg_type(TJ_I32, c->lanes).s, x[0].s, x[1].s);
}
