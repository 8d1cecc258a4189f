/* SPDX-License-Identifier: MIT */
/* kverify: checks what code generation relies on, for one kernel and its schedule. */
#include "ir/tree.h"
#include "lower/symbol.h"
#include "lower/target.h"

typedef struct prim_rule { uint8_t nsrc; const char *types, *result; } prim_rule;
static const prim_rule rules[LO_PRIMS] = {
#define PRIM(name, nsrc, types, result, ...) [LO_##name] = { nsrc, #types, #result },
#include "ir/prims.def"
#undef PRIM
};
static const char *const names[LO_OP_COUNT] = {
#define PRIM(name, ...) [LO_##name] = #name,
#include "ir/prims.def"
#undef PRIM
	[LO_CONST] = "CONST", [LO_NUM] = "NUM", [LO_SIZE] = "SIZE", [LO_INDEX] = "INDEX", [LO_LOAD] = "LOAD", [LO_STORE] = "STORE",
	[LO_REDUCE] = "REDUCE", [LO_PART] = "PART", [LO_FAULT] = "FAULT",
};

typedef struct verifier {
	const lo_kernel *k;
	const lo_schedule *s;
	rt_err *err;
	const uint32_t *section; /* of each instruction */
	uint32_t at;             /* the instruction being checked */
} verifier;

static bool bad(const verifier *v, const char *what)
{
	const lo_ins *in = &v->k->ins.v[v->at];
	rt_fail(v->err, TJ_ERR_COMPILE, "verify", "kernel %s, %%%u %s: %s", v->k->name ? v->k->name : "?", v->at,
	        in->op < LO_OP_COUNT ? names[in->op] : "?", what);
	return false;
}

static tj_dtype type_of(const verifier *v, uint32_t i) { return (tj_dtype)v->k->ins.v[i].dtype; }
static bool in_loop(const verifier *v, uint32_t i) { return v->k->section.v[v->section[i]].loop; }

/* A value may be read by later instructions. A value of a loop is read only inside that loop; a REDUCE only after it. */
static bool readable(const verifier *v, uint32_t src)
{
	if (src >= v->at) return bad(v, "an operand does not come before it");
	const lo_ins *in = &v->k->ins.v[src];
	if (in->op == LO_STORE || in->op == LO_FAULT || in->op == LO_PART) return bad(v, "an operand has no value");
	bool same = v->section[src] == v->section[v->at];
	if (in->op == LO_REDUCE && same) return bad(v, "a reduction is read inside its loop");
	if (in->op != LO_REDUCE && in_loop(v, src) && !same) return bad(v,
		"a value of a loop is read outside it");
	return true;
}

/* Nothing is computed in narrow dtypes: their values are only loaded, selected, stored, and converted from and to f32. */
static bool type_fits(char rule, tj_dtype t)
{
	if (rt_is_narrow(t)) return false;
	switch (rule) {
	case 'F': return rt_is_float(t);
	case 'I': return !rt_is_float(t);
	case 'B': return t == TJ_BOOL;
	default: return t != TJ_BOOL;
	}
}

static bool same_size_kinds(tj_dtype a, tj_dtype b)
{
	return rt_is_float(a) != rt_is_float(b) && tj_dtype_size(a) == tj_dtype_size(b);
}

/* Comparisons, SELECT and CONVERT take bool as well. */
static bool check_prim(const verifier *v, const lo_ins *in)
{
	const prim_rule *r = &rules[in->op];
	bool compares = !strcmp(r->result, "BOOL"), own = !strcmp(r->result, "OWN"), last = !strcmp(r->result,
		"LAST");
	if (in->nsrc != r->nsrc) return bad(v, "wrong number of operands");
	tj_dtype t = type_of(v, in->src[last]);
	if (last && type_of(v, in->src[0]) != TJ_BOOL) return bad(v, "the condition is not bool");
	for (int i = last; i < in->nsrc; i++)
		if (type_of(v, in->src[i]) != t) return bad(v, "operands differ in dtype");
	bool any = (compares && !rt_is_narrow(t)) || last || in->op == LO_CONVERT;
	if (in->op == LO_CONVERT && t != in->dtype &&
	    ((rt_is_narrow(t) && in->dtype != TJ_F32) || (rt_is_narrow((tj_dtype)in->dtype) && t != TJ_F32)))
		return bad(v, "narrow floats are only converted from and to f32");
	if (!any && !type_fits(r->types[0], t)) return bad(v, "not for this dtype");
	if ((in->op == LO_BITCAST || in->op == LO_FIX) && !same_size_kinds(t, (tj_dtype)in->dtype)) return bad(v, "the dtypes differ in size");
	if (!own && in->dtype != (compares ? TJ_BOOL : t)) return bad(v, "wrong result dtype");
	return true;
}

/* x walks a matrix, [r][last dimension]. */
static bool is_row_major(const lo_kernel *k, const lo_index *x)
{
	const int last = k->ndim - 1;
	for (int i = 0; i < last; i++)
		if (x->coef[i]) return false;
	return !x->offset && x->coef[last] == 1 && lo_size(k, x->rcoef) == lo_size(k, k->dim[last]);
}

static bool check_access(const verifier *v, const lo_ins *in)
{
	const lo_kernel *k = v->k;
	bool store = in->op != LO_LOAD;
	if (in->buf >= k->buf.n) return bad(v, "no such buffer");
	if (in->index >= k->index.n) return bad(v, "no such index");
	const lo_buf *b = &k->buf.v[in->buf];
	const lo_index *x = &k->index.v[in->index];
	if (in->dtype != b->dtype) return bad(v, "not the buffer's dtype");
	if (in->nsrc != (in->op != LO_LOAD)) return bad(v, "wrong number of operands");
	if (store && in->op != LO_PART && type_of(v, in->src[0]) != in->dtype) return bad(v, "the value has another dtype");
	if (store && b->role != LO_OUT && b->role != LO_KEPT) return bad(v, "stores to an input");
	if (x->rcoef && !in_loop(v, v->at)) return bad(v, "r outside of a loop");
	if (x->group && (v->s->vec != LO_VEC_TILE || x->group < 2 || !x->rcoef)) return bad(v, "only products read groups of r");
	for (int i = 0; i < LO_JUMPS && lo_jumps(x); i++)
		if (v->s->vec != LO_VEC_TILE || x->group || !x->rcoef || x->jump[i].every < 0 || x->jump[i].every == 1 || store)
			return bad(v, "only loads of products jump");
	if (in->dyn != LO_NOREF && (!readable(v, in->dyn) || type_of(v, in->dyn) != TJ_I64)) return bad(v,
		"the dynamic index is no i64 before it");
	const bool panels = lo_in_panels(b->role);
	if (panels && (lo_is_sym(b->elems) || b->elems < 1 || b->elems & (b->elems - 1)))
		return bad(v, "the columns of a panel are no power of two");
	if (panels && (v->s->vec != LO_VEC_TILE || in->dyn != LO_NOREF || !is_row_major(k, x)))
		return bad(v, "panels hold a matrix, [r][last dimension]");
	if (b->role != LO_KEPT) return true;
	for (int i = 0; i < k->ndim; i++)
		if (x->coef[i]) return bad(v, "a kept row is indexed by r only");
	return true;
}

/* What the loop of a product may hold besides the product: loads, and what cannot fault. */
static bool goes_ahead(const lo_ins *x)
{
	if ((x->op == LO_DIV || x->op == LO_REM) && !rt_is_float((tj_dtype)x->dtype)) return false;
	if (x->op == LO_LOAD) return x->dyn == LO_NOREF;
	return x->op < LO_PRIMS || x->op == LO_CONST || x->op == LO_NUM || x->op == LO_SIZE;
}

static bool check_dot(const verifier *v, const lo_ins *in, tj_dtype t)
{
	const lo_section *s = &v->k->section.v[v->section[v->at]];
	if (v->s->vec != LO_VEC_TILE || v->s->part) return bad(v, "a schedule without tiles");
	if (type_of(v, in->src[1]) != t || t == TJ_BOOL) return bad(v, "its operands have no common dtype of numbers");
	int loads = 0;
	for (uint32_t i = s->first; i < s->first + s->count; i++) {
		const lo_ins *x = &v->k->ins.v[i];
		loads += x->op == LO_LOAD;
		if (i == v->at ? i != s->first + s->count - 1 : !goes_ahead(x)) return bad(v, "its loop has more than loads and plain primitives");
		for (int j = 0; j < x->nsrc; j++)
			if (x->src[j] < s->first) return bad(v, "its loop reads a value from outside");
	}
	if (loads > 2 * LO_AHEAD_LOADS) return bad(v, "its loop has too many loads");
	lo_tiles tiles;
	if (!lo_tiles_of(v->k, &tiles)) return bad(v, "an operand is not in memory, or both operands depend on the last dimension");
	for (int i = 0; i < 2 && in->tree == LO_TREE_FAST; i++)
		if (t != TJ_F32 || !tiles.plain[i] || v->k->ins.v[tiles.load[i]].dtype != TJ_BF16 ||
		    v->k->index.v[v->k->ins.v[tiles.load[i]].index].group)
			return bad(v, "only products of bf16 with sums of f32 are fast");
	if (lo_in_panels(v->k->buf.v[v->k->ins.v[tiles.load[0]].buf].role)) return bad(v, "its rows lie in panels");
	if (tiles.words && lo_word_of(v->k, &tiles) == LO_SINGLE) return bad(v, "no words that this machine multiplies");
	return true;
}

static bool check_reduce(const verifier *v, const lo_ins *in)
{
	const bool dot = in->imm == LO_RED_DOT;
	if (in->nsrc != 1 + dot || in->imm < LO_RED_ADD || in->imm > LO_RED_ATMIN) return bad(v, "no such reduction");
	if (!in_loop(v, v->at)) return bad(v, "outside of a loop");
	tj_dtype t = type_of(v, in->src[0]);
	bool arg = in->imm >= LO_RED_ARGMAX, index = arg && in->imm <= LO_RED_ARGMIN, logic = in->imm == LO_RED_AND || in->imm == LO_RED_OR;
	if (in->dtype != (index ? TJ_I64 : t)) return bad(v, "wrong result dtype");
	if (!arg && !logic && t == TJ_BOOL && in->imm < LO_RED_MAX) return bad(v, "not for this dtype");
	if (rt_is_narrow(t)) return bad(v, "accumulates in f32");
	if (logic && rt_is_float(t)) return bad(v, "not for this dtype");
	if (in->tree > LO_TREE_FAST) return bad(v, "no such tree");
	if (dot != (in->tree >= LO_TREE_CHAIN)) return bad(v, "a product of matrices, and nothing else, is a chain or fast");
	if (dot) return check_dot(v, in, t);
	if (in->tree >= LO_TREE_PARTS && (!rt_is_float(t) || arg)) return bad(v, "only floats in order have parts");
	if (rt_is_float(t) && !arg && in->tree == LO_TREE_NONE) return bad(v, "floats need an order");
	if ((in->tree == LO_TREE_ROW || in->tree == LO_TREE_PARTS) && v->s->vec == LO_VEC_D) return bad(v, "a row tree has its lanes along r");
	if ((in->tree == LO_TREE_COLUMN || in->tree == LO_TREE_PAIRS) && v->s->vec == LO_VEC_R)
		return bad(v, "a column tree has its lanes along d");
	return true;
}

/* Elements of a chunk of the tree; 1: there is no order. */
static int64_t chunk_of(const lo_ins *in)
{
	if (in->tree == LO_TREE_COLUMN) return IR_TREE_COLUMN_ROWS;
	return in->tree == LO_TREE_ROW ? IR_TREE_ROWS * lo_part_lanes(in) : 1;
}

/* All PARTs of a kernel leave the same number of lanes, because one kernel with one r combines them. */
static bool check_part(const verifier *v, const lo_ins *in)
{
	const lo_kernel *k = v->k;
	if (!check_access(v, in) || !check_reduce(v, in)) return false;
	if (in->dyn != LO_NOREF) return bad(v, "its place depends on a value");
	if (k->buf.v[in->buf].role != LO_OUT) return bad(v, "not stored to an output");
	if (in->tree >= LO_TREE_PARTS) return bad(v, "parts of parts");
	if (lo_part_lanes(in) > 1 && k->index.v[in->index].rcoef != 1) return bad(v, "its lanes are not adjacent");
	if (v->s->part < chunk_of(in)) return bad(v, "less than a chunk of the tree");
	for (uint32_t i = 0; i < v->at; i++)
		if (k->ins.v[i].op == LO_PART && lo_part_lanes(&k->ins.v[i]) != lo_part_lanes(in))
			return bad(v, "parts of several widths");
	return true;
}

static bool check_ins(const verifier *v)
{
	const lo_kernel *k = v->k;
	const lo_ins *in = &k->ins.v[v->at];
	if (in->op >= LO_OP_COUNT || in->dtype >= TJ_DTYPE_COUNT || in->nsrc > 3) return bad(v,
		"no such instruction");
	for (int i = 0; i < in->nsrc; i++)
		if (!readable(v, in->src[i])) return false;
	if (in->op < LO_PRIMS) return check_prim(v, in);
	switch (in->op) {
	case LO_CONST: return true;
	case LO_SIZE:
		return in->imm >= 0 && in->imm < k->size.n && in->dtype != TJ_BOOL && !rt_is_narrow((tj_dtype)in->dtype)
		               ? true
		               : bad(v, "no such size");
	case LO_NUM: return in->imm >= 0 && (in->dtype == TJ_F64 || in->dtype == TJ_I64) ? true : bad(v,
		"a number is f64 or i64");
	case LO_INDEX:
		if (in->dtype != TJ_I64) return bad(v, "an index is i64");
		if (in->imm == LO_R) return in_loop(v, v->at) ? true : bad(v, "r outside of a loop");
		return in->imm >= 0 && in->imm < k->ndim ? true : bad(v, "no such dimension");
	case LO_LOAD: case LO_STORE: return check_access(v, in);
	case LO_REDUCE: return v->s->part ? bad(v, "in a kernel with parts") : check_reduce(v, in);
	case LO_PART: return v->s->part ? check_part(v, in) : bad(v, "in a kernel without parts");
	default: break;
	}
	if (in->nsrc != 1 || type_of(v, in->src[0]) != TJ_BOOL) return bad(v, "a fault's condition is bool");
	return in->imm >= 0 && in->imm < k->fault_site.n && k->fault_code.n == k->fault_site.n ? true : bad(v,
		"no such fault");
}

/* Sections cover the instructions one after the other. */
static bool number_sections(const lo_kernel *k, uint32_t *section)
{
	uint32_t next = 0;
	for (uint32_t s = 0; s < k->section.n; s++) {
		const lo_section *x = &k->section.v[s];
		if (x->first != next || x->count > k->ins.n - next || (x->loop && !k->reduces)) return false;
		for (uint32_t i = 0; i < x->count; i++) section[next++] = s;
	}
	return next == k->ins.n;
}

static const char *bad_shape(const lo_kernel *k)
{
	if (!k->name || !*k->name) return "no name";
	if (k->ndim < 1 || k->ndim > LO_MAXDIM) return "wrong number of dimensions";
	for (int i = 0; i < k->ndim; i++)
		if (lo_size(k, k->dim[i]) < 0) return "a dimension is negative";
	if (k->reduces && lo_size(k, k->red) < 0) return "r has a negative extent";
	return NULL;
}

/* The schedule places each KEPT buffer, and KEPT buffers come last. NULL: all is well. */
static const char *bad_kept(const lo_kernel *k, const lo_schedule *s)
{
	uint32_t first = k->buf.n - s->kept.n;
	if (s->kept.n > k->buf.n) return "more is kept than there are buffers";
	for (uint32_t i = 0; i < k->buf.n; i++)
		if ((k->buf.v[i].role == LO_KEPT) != (i >= first)) return "kept buffers must come last, and each needs a place";
	for (uint32_t i = 0; i < s->kept.n; i++)
		if (s->kept.v[i].buf != first + i || s->kept.v[i].where >= LO_RECOMPUTED) return "a kept buffer has no place";
	return NULL;
}

static const char *bad_schedule(const lo_kernel *k, const lo_schedule *s)
{
	if (!s->target) return "no target";
	if (s->vec > LO_VEC_TILE) return "no such lanes";
	if ((s->vec == LO_VEC_TILE) != (lo_size(k, s->rows) > 0)) return "tiles, and they alone, have rows";
	if (s->vec == LO_VEC_R && !k->reduces) return "lanes along r, but no r";
	if (s->part < 0 || (s->part && (!k->reduces || s->part & (s->part - 1)))) return "not a part of r";
	if (lo_size(k, s->block) < 1) return "a unit has no elements";
	if ((s->vec == LO_VEC_R || (s->part && !s->target->part_blocks)) && lo_size(k, s->block) != 1) return "a unit has several rows";
	return s->grain < 1 ? "no grain" : NULL;
}

static bool sizes_exist(const lo_kernel *k, const lo_schedule *s)
{
	lo_kernel *same = (lo_kernel *)(uintptr_t)k; /* nothing is written */
	lo_schedule *too = (lo_schedule *)(uintptr_t)s;
	uint32_t n = lo_places(same, too, NULL);
	lo_place *at = rt_alloc((n + 1) * sizeof *at);
	bool ok = at != NULL;
	if (ok) lo_places(same, too, at);
	for (uint32_t i = 0; ok && i < n; i++) ok = at[i].ins || !lo_is_sym(*at[i].size) || *at[i].size - LO_SYM(0) < k->size.n;
	rt_free(at);
	return ok;
}

tj_status lo_verify(const lo_kernel *k, const lo_schedule *s, rt_err *err)
{
	const char *what = bad_kept(k, s);
	if (!what) what = sizes_exist(k, s) ? bad_shape(k) : "a size is missing";
	if (!what) what = bad_schedule(k, s);
	if (what) return rt_fail(err, TJ_ERR_COMPILE, "verify", "kernel %s: %s", k->name ? k->name : "?", what);
	uint32_t *section = rt_calloc((k->ins.n + 1) * sizeof *section);
	if (!section) return rt_fail(err, TJ_ERR_NOMEM, "verify", "out of memory");
	verifier v = { k, s, err, section, 0 };
	bool ok = number_sections(k, section);
	if (!ok) rt_fail(err, TJ_ERR_COMPILE, "verify", "kernel %s: the sections do not cover the instructions",
		k->name);
	for (; ok && v.at < k->ins.n; v.at++) ok = check_ins(&v);
	rt_free(section);
	return ok ? TJ_OK : err->code;
}
