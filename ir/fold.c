/* SPDX-License-Identifier: MIT */
/* fold: finds a simpler node that equals the node about to be appended.
 *
 *   %1 = const f32[] 0x1p+0
 *   %2 = mul f32[4] %0 %1            =>      %0
 *
 * WHAT A RULE MUST KEEP. The value of every element, bit for bit. All NaNs count as equal; +0.0 and -0.0 do not. So there are rules
 * for x*1, x/1, x-0 (only for +0.0: x - -0.0 turns -0.0 into +0.0), x + -0.0 (not x+0) and double negation. There are none for x*0
 * (NaN, inf, -0.0), x-x, x/x (inf, NaN, 0), x+0, another order of a sum or product, a*b+c with one rounding, sqrt(x)^2 and
 * pow(x, 0.5): each would change some value. The result keeps its dtype, its shape, and whether it is a number (weak): when a
 * simpler operand differs in one of these, like() adds a cast or an expand.
 *
 * Casts. cast(cast(x, B), C) becomes cast(x, C) when every value of x's dtype A is a value of B. If A and C are integers and B is a
 * float, A must embed in C as well: a cast from a float saturates, one from an integer wraps. There is no rule for f32 -> i32 ->
 * f32, which truncates, and none for i64 -> f64 -> i64, which rounds.
 *
 * Constants. The evaluator, which defines the ops, computes a POINT op of constants. An op that would fault (integer division by
 * zero) stays: only a run knows whether its value is needed. Library nodes are never folded. Data of more than FOLD_MAX elements is
 * not folded, since the result would be stored beside it.
 *
 * Views. Later passes know only one spelling of some ops: transpose becomes permute, squeeze and unsqueeze become reshape, full
 * becomes a constant or an expand. After that, two views of the same kind become one. Two slices become one only on the same axis.
 *
 * WHY IT ENDS. A node is folded once, when it is emitted, and its operands are folded by then. A rule returns an earlier node or
 * emits others. Those are of three kinds. Leaves: no rule applies to them. Another spelling: no rule emits a transpose, squeeze,
 * unsqueeze or full, so a node changes its spelling once. The same op on an operand of its operand (views of views, casts of
 * casts): operands have ever smaller numbers. The cast and the expand of like() come last.
 *
 * TURNING IT OFF. Nodes of a graph with g->raw set are appended as written. IR_OFF_FOLD leaves only the rules that choose a
 * spelling. Each rule counts how often it fired in the process; a test fails when a rule was never used. */
#include "ir/ir.h"

enum { FOLD_MAX = 1024 };

/* ---- questions ---- */
static const ir_node *arg(const ir_graph *g, const ir_node *n, int k) { return ir_at(g, ir_src(g, n, k)); }
static bool constant(const ir_node *n) { return n->op == IR_const || n->op == IR_data; }

static bool all_constant(const ir_graph *g, const ir_node *n)
{
	for (int k = 0; k < n->nsrc; k++)
		if (!constant(arg(g, n, k))) return false;
	return n->nsrc > 0;
}

static bool all_splat(const ir_graph *g, const ir_node *n)
{
	for (int k = 0; k < n->nsrc; k++)
		if (arg(g, n, k)->op != IR_const) return false;
	return n->nsrc > 0;
}

/* n is a constant of exactly this value: -0.0 is not 0. */
static bool is_value(const ir_graph *g, const ir_node *n, double value)
{
	int64_t bits = (int64_t)value;
	if (n->op != IR_const) return false;
	if (rt_is_float((tj_dtype)n->dtype)) memcpy(&bits, &value, sizeof bits);
	else if (value == 0 && __builtin_signbit(value)) return false;
	return ir_attr(g, n)[0] == bits;
}

static bool same_dims(const ir_graph *g, const ir_node *a, const ir_node *b)
{
	return a->rank == b->rank &&
	       (!a->rank || !memcmp(ir_dims(g, a), ir_dims(g, b), sizeof(int64_t) * a->rank));
}

static int64_t count(const ir_graph *g, const ir_node *n)
{
	int64_t numel = 0;
	rt_numel(n->rank, ir_dims(g, n), &numel);
	return numel;
}

static void dims_of(const ir_graph *g, const ir_node *n, int64_t *dim)
{
	if (n->rank) memcpy(dim, ir_dims(g, n), sizeof *dim * n->rank);
}

/* x expanded to n's shape; a number is cast to a tensor if n is a tensor. */
static ir_ref like(ir_graph *g, const ir_node *n, ir_ref x)
{
	int64_t dim[TJ_MAX_RANK];
	if (ir_at(g, x)->weak && !n->weak) x = ir_cast(g, x, (tj_dtype)n->dtype, n->site);
	if (x == IR_NONE || same_dims(g, ir_at(g, x), n)) return x;
	dims_of(g, n, dim);
	return ir_expand(g, x, n->rank, dim, n->site);
}

/* ---- constants ---- */
static ir_value value_of(const ir_graph *g, ir_ref r, int64_t *one)
{
	const ir_node *n = ir_at(g, r);
	ir_value v = { .meta = ir_meta_of(g, r) };
	if (n->op == IR_data) {
		v.data = g->data.v[ir_attr(g, n)[0]].bytes;
		ir_contiguous(n->rank, v.meta.dim, v.stride);
	} else { /* a splat: one element, strides of 0 */
		v.data = one;
		ir_store((tj_dtype)n->dtype, one, ir_const_value(g, n));
	}
	return v;
}

/* Computes n, whose operands are constants, into a constant of type m. splat: all operands have one value, so one element is computed. */
static ir_ref compute(ir_graph *g, const ir_node *n, const ir_meta *m, bool splat)
{
	ir_value src[3], out = { .data = NULL };
	int64_t ones[3] = { 0 }, numel = 0, attr[2 * TJ_MAX_RANK];
	rt_err err = { 0 };
	ir_ref r = IR_NONE;
	for (int k = 0; k < n->nsrc; k++) {
		src[k] = value_of(g, ir_src(g, n, k), &ones[k]);
		if (splat) src[k].meta.rank = 0;
	}
	if (n->nattr) memcpy(attr, ir_attr(g, n), sizeof *attr * n->nattr);
	rt_numel(splat ? 0 : m->rank, m->dim, &numel);
	out.data = rt_alloc((size_t)numel * 8);
	if (out.data &&
	    ir_eval_op((ir_op)n->op, 0, attr, n->nattr, n->nsrc, src, &out, NULL, n->site, &err) == TJ_OK) {
		if (!splat) r = ir_data_(g, m, out.data, n->site);
		else { /* a 0-d constant, then expanded to the shape */
			r = ir_data_(g, &(ir_meta){ .dtype = m->dtype }, out.data, n->site);
			if (r != IR_NONE) r = ir_expand(g, r, m->rank, m->dim, n->site);
		}
	}
	rt_free(out.data);
	return r;
}

static ir_meta shape_of(const ir_graph *g, const ir_node *n)
{
	ir_meta m = { .dtype = n->dtype, .rank = n->rank };
	dims_of(g, n, m.dim);
	return m;
}

/* point(constants) -> constant */
static ir_ref const_point(ir_graph *g, const ir_node *n)
{
	if (!(ir_ops[n->op].flags & IR_POINT) || !all_constant(g, n)) return IR_NONE;
	bool splat = all_splat(g, n);
	if (!splat && count(g, n) > FOLD_MAX) return IR_NONE;
	ir_meta m = shape_of(g, n);
	return compute(g, n, &m, splat);
}

/* view(constant) -> constant */
static ir_ref const_view(ir_graph *g, const ir_node *n)
{
	if (!(ir_ops[n->op].flags & IR_VIEW) || !all_constant(g, n)) return IR_NONE;
	const ir_node *x = arg(g, n, 0);
	ir_meta m = shape_of(g, n);
	if (x->op == IR_data)
		return count(g, n) > FOLD_MAX || count(g, x) > FOLD_MAX ? IR_NONE : compute(g, n, &m, false);
	ir_scalar v = ir_const_value(g, x);
	if (!rt_is_float((tj_dtype)m.dtype)) return ir_const_i(g, (tj_dtype)m.dtype, m.rank, m.dim, v.i);
	return ir_const_f(g, (tj_dtype)m.dtype, m.rank, m.dim,
	                  rt_dtype_class((tj_dtype)m.dtype) == RT_F ? (double)v.f : v.d);
}

/* ---- spellings ---- */
/* full(x) -> expand(x) */
static ir_ref full_expand(ir_graph *g, const ir_node *n)
{
	return n->op == IR_full ? like(g, n, ir_src(g, n, 0)) : IR_NONE;
}

/* transpose(x, a, b) -> permute(x, all axes with a and b swapped) */
static ir_ref transpose_permute(ir_graph *g, const ir_node *n)
{
	int64_t axes[TJ_MAX_RANK];
	if (n->op != IR_transpose || n->rank == 0) return IR_NONE;
	for (int i = 0; i < n->rank; i++) axes[i] = i;
	axes[ir_attr(g, n)[0]] = ir_attr(g, n)[1];
	axes[ir_attr(g, n)[1]] = ir_attr(g, n)[0];
	return ir_emit(g, IR_permute, 1, (ir_ref[]){ ir_src(g, n, 0) }, n->rank, axes, n->site);
}

/* squeeze(x), unsqueeze(x) -> reshape(x) */
static ir_ref squeeze_reshape(ir_graph *g, const ir_node *n)
{
	int64_t dim[TJ_MAX_RANK];
	if (n->op != IR_squeeze && n->op != IR_unsqueeze) return IR_NONE;
	dims_of(g, n, dim);
	return ir_reshape(g, ir_src(g, n, 0), n->rank, dim, n->site);
}

/* ---- views ---- */
static uint32_t flipped(const ir_graph *g, const ir_node *n)
{
	uint32_t set = n->nattr ? 0 : (1u << n->rank) - 1;
	for (int k = 0; k < n->nattr; k++) set |= 1u << ir_attr(g, n)[k];
	return set;
}

static bool moves_nothing(const ir_graph *g, const ir_node *n)
{
	const int64_t *attr = ir_attr(g, n), *dim = ir_dims(g, n);
	if (n->op == IR_permute)
		for (int i = 0; i < n->rank; i++)
			if (attr[i] != i) return false;
	if (n->op == IR_flip)
		for (int i = 0; i < n->rank; i++)
			if (flipped(g, n) >> i & 1 && dim[i] > 1) return false;
	if (n->op == IR_optimization_barrier) return constant(arg(g, n, 0)); /* nothing is computed for it */
	return n->op != IR_slice || attr[3] > 0;
}

/* a view that changes nothing(x) -> x */
static ir_ref view_same(ir_graph *g, const ir_node *n)
{
	if (!(ir_ops[n->op].flags & IR_VIEW) || !same_dims(g, n, arg(g, n, 0)) || !moves_nothing(g, n))
		return IR_NONE;
	return like(g, n, ir_src(g, n, 0));
}

static bool twice(const ir_graph *g, const ir_node *n, ir_op op)
{
	return n->op == op && arg(g, n, 0)->op == op;
}

/* reshape(reshape(x)) -> reshape(x) */
static ir_ref reshape_reshape(ir_graph *g, const ir_node *n)
{
	int64_t dim[TJ_MAX_RANK];
	if (!twice(g, n, IR_reshape)) return IR_NONE;
	dims_of(g, n, dim);
	return ir_reshape(g, ir_src(g, arg(g, n, 0), 0), n->rank, dim, n->site);
}

/* expand(expand(x)) -> expand(x) */
static ir_ref expand_expand(ir_graph *g, const ir_node *n)
{
	int64_t dim[TJ_MAX_RANK];
	if (!twice(g, n, IR_expand)) return IR_NONE;
	dims_of(g, n, dim);
	return ir_expand(g, ir_src(g, arg(g, n, 0), 0), n->rank, dim, n->site);
}

/* permute(permute(x, p), q) -> permute(x, p[q]) */
static ir_ref permute_permute(ir_graph *g, const ir_node *n)
{
	int64_t axes[TJ_MAX_RANK];
	if (!twice(g, n, IR_permute)) return IR_NONE;
	const ir_node *x = arg(g, n, 0);
	for (int i = 0; i < n->rank; i++) axes[i] = ir_attr(g, x)[ir_attr(g, n)[i]];
	return ir_emit(g, IR_permute, 1, (ir_ref[]){ ir_src(g, x, 0) }, n->rank, axes, n->site);
}

/* slice(slice(x, axis, ...), axis, ...) -> slice(x, axis, ...) */
static ir_ref slice_slice(ir_graph *g, const ir_node *n)
{
	if (!twice(g, n, IR_slice)) return IR_NONE;
	const ir_node *x = arg(g, n, 0);
	const int64_t *a = ir_attr(g, x), *b = ir_attr(g, n);
	if (a[0] != b[0]) return IR_NONE;
	int64_t size = ir_dims(g, n)[b[0]], start = a[1] + b[1] * a[3], step = a[3] * b[3];
	int64_t stop = start + (size - 1) * step + (step > 0 ? 1 : -1);
	int64_t attr[4] = { a[0], start, stop < 0 ? TJ_END_DIM : stop, step };
	if (size == 0) attr[1] = attr[2] = 0, attr[3] = 1;
	return ir_emit(g, IR_slice, 1, (ir_ref[]){ ir_src(g, x, 0) }, 4, attr, n->site);
}

/* flip(flip(x, A), B) -> flip(x, A xor B) */
static ir_ref flip_flip(ir_graph *g, const ir_node *n)
{
	int64_t axes[TJ_MAX_RANK];
	int k = 0;
	if (!twice(g, n, IR_flip)) return IR_NONE;
	uint32_t set = flipped(g, n) ^ flipped(g, arg(g, n, 0));
	ir_ref x = ir_src(g, arg(g, n, 0), 0);
	for (int i = 0; i < n->rank; i++)
		if (set >> i & 1) axes[k++] = i;
	return k ? ir_emit(g, IR_flip, 1, &x, k, axes, n->site) : x;
}

/* cat(x) -> x */
static ir_ref cat_one(ir_graph *g, const ir_node *n)
{
	return n->op == IR_cat && n->nsrc == 1 ? like(g, n, ir_src(g, n, 0)) : IR_NONE;
}

/* ---- casts ---- */
/* Every value of dtype a is a value of dtype b. */
static bool embeds(tj_dtype a, tj_dtype b)
{
	if (rt_is_float(a)) return rt_is_float(b) && (a == b || (!rt_is_narrow(b) && rt_dtype_bits(a) <= rt_dtype_bits(b)));
	if (rt_is_float(b)) return rt_dtype_bits(a) - rt_is_signed(a) <= rt_dtype_bits(b);
	return b != TJ_BOOL ? rt_dtype_min(b) <= rt_dtype_min(a) && rt_dtype_max(a) <= rt_dtype_max(b) : a == TJ_BOOL;
}

/* cast(x, its own dtype) -> x */
static ir_ref cast_same(ir_graph *g, const ir_node *n)
{
	if (n->op != IR_cast || arg(g, n, 0)->dtype != n->dtype || arg(g, n, 0)->weak) return IR_NONE;
	return ir_src(g, n, 0);
}

/* cast(cast(x, B), C) -> cast(x, C) */
static ir_ref cast_cast(ir_graph *g, const ir_node *n)
{
	if (!twice(g, n, IR_cast)) return IR_NONE;
	ir_ref x = ir_src(g, arg(g, n, 0), 0);
	tj_dtype a = (tj_dtype)ir_at(g, x)->dtype, b = (tj_dtype)arg(g, n, 0)->dtype, c = (tj_dtype)n->dtype;
	if (!embeds(a, b)) return IR_NONE;
	if (!rt_is_float(a) && rt_is_float(b) && rt_dtype_cat(c) == RT_INT && !embeds(a, c)) return IR_NONE;
	return ir_cast(g, x, c, n->site);
}

/* ---- devices ---- */
/* to(x, where x is) -> x */
static ir_ref to_same(ir_graph *g, const ir_node *n)
{
	return n->op == IR_to && arg(g, n, 0)->device == n->device ? ir_src(g, n, 0) : IR_NONE;
}

/* to(to(x, A), B) -> to(x, B) */
static ir_ref to_to(ir_graph *g, const ir_node *n)
{
	return twice(g, n, IR_to) ? ir_to(g, ir_src(g, arg(g, n, 0), 0), n->device, n->site) : IR_NONE;
}

/* to(a value made from no tensor) -> the same value, made on that device */
static ir_ref to_created(ir_graph *g, const ir_node *n)
{
	if (n->op != IR_to || !ir_created(g, ir_src(g, n, 0))) return IR_NONE;
	const ir_node made = *arg(g, n, 0);
	ir_meta m = ir_meta_of(g, ir_src(g, n, 0));
	int64_t attr[2 * TJ_MAX_RANK];
	ir_ref src[4];
	if (made.nattr > RT_COUNT(attr) || made.nsrc > RT_COUNT(src)) return IR_NONE;
	for (int k = 0; k < made.nattr; k++) attr[k] = ir_attr(g, &made)[k];
	for (int k = 0; k < made.nsrc; k++) src[k] = ir_src(g, &made, k);
	m.device = n->device;
	return ir_append(g, (ir_op)made.op, &m, made.nsrc, src, made.nattr, attr, made.site);
}

/* to(expand(x)) -> expand(to(x)): repeated elements are moved once */
static ir_ref to_expand(ir_graph *g, const ir_node *n)
{
	if (n->op != IR_to || arg(g, n, 0)->op != IR_expand) return IR_NONE;
	int64_t dim[TJ_MAX_RANK];
	for (int i = 0; i < n->rank; i++) dim[i] = ir_dims(g, n)[i];
	ir_ref x = ir_to(g, ir_src(g, arg(g, n, 0), 0), n->device, n->site);
	return x == IR_NONE ? IR_NONE : ir_expand(g, x, n->rank, dim, n->site);
}

/* ---- arithmetic ---- */
/* x * 1, 1 * x -> x */
static ir_ref mul_one(ir_graph *g, const ir_node *n)
{
	if (n->op != IR_mul) return IR_NONE;
	if (is_value(g, arg(g, n, 1), 1)) return like(g, n, ir_src(g, n, 0));
	if (is_value(g, arg(g, n, 0), 1)) return like(g, n, ir_src(g, n, 1));
	return IR_NONE;
}

/* x / 1 -> x */
static ir_ref div_one(ir_graph *g, const ir_node *n)
{
	return n->op == IR_div && is_value(g, arg(g, n, 1), 1) ? like(g, n, ir_src(g, n, 0)) : IR_NONE;
}

/* x - 0 -> x */
static ir_ref sub_zero(ir_graph *g, const ir_node *n)
{
	return n->op == IR_sub && is_value(g, arg(g, n, 1), 0) ? like(g, n, ir_src(g, n, 0)) : IR_NONE;
}

/* x + -0.0, -0.0 + x -> x */
static ir_ref add_negzero(ir_graph *g, const ir_node *n)
{
	if (n->op != IR_add) return IR_NONE;
	if (is_value(g, arg(g, n, 1), -0.0)) return like(g, n, ir_src(g, n, 0));
	if (is_value(g, arg(g, n, 0), -0.0)) return like(g, n, ir_src(g, n, 1));
	return IR_NONE;
}

/* neg(neg(x)) -> x */
static ir_ref neg_neg(ir_graph *g, const ir_node *n)
{
	return twice(g, n, IR_neg) ? ir_src(g, arg(g, n, 0), 0) : IR_NONE;
}

/* bitwise_not(bitwise_not(x)) -> x; logical_not(logical_not(x)) -> x, which is bool */
static ir_ref not_not(ir_graph *g, const ir_node *n)
{
	return twice(g, n, IR_bitwise_not) || twice(g, n, IR_logical_not) ? ir_src(g, arg(g, n, 0), 0) : IR_NONE;
}

/* ---- the list; rules that give constants come first, since no other rule applies to a constant ---- */
#define RULES(X)                                                                                                        \
	X(const_point) X(const_view) X(full_expand) X(transpose_permute) X(squeeze_reshape) X(view_same) X(reshape_reshape) \
	X(expand_expand) X(permute_permute) X(slice_slice) X(flip_flip) X(cat_one) X(cast_same) X(cast_cast) X(to_same)     \
	X(to_to) X(to_created) X(to_expand) X(mul_one) X(div_one) X(sub_zero) X(add_negzero) X(neg_neg) X(not_not)

static const char *const names[] = {
#define X(name) #name,
	RULES(X)
#undef X
};
static ir_ref (*const rules[])(ir_graph *g, const ir_node *n) = {
#define X(name) name,
	RULES(X)
#undef X
};
static uint64_t fired[RT_COUNT(rules)]; /* atomic */

/* The rules that choose the spelling which later passes expect. */
static bool spelling(size_t rule)
{
	return rules[rule] == full_expand || rules[rule] == transpose_permute || rules[rule] == squeeze_reshape || rules[rule] == to_same ||
	       rules[rule] == to_created;
}

ir_ref ir_fold(ir_graph *g, const ir_node *n)
{
	for (size_t i = 0; i < RT_COUNT(rules); i++) {
		if (g->off & IR_OFF_FOLD && !spelling(i)) continue;
		ir_ref r = rules[i](g, n);
		if (r != IR_NONE) {
			__atomic_fetch_add(&fired[i], 1, __ATOMIC_RELAXED);
			return r;
		}
		if (g->err.code != TJ_OK) return IR_NONE;
	}
	return IR_NONE;
}

int ir_fold_rules(const char *const **out_names, const uint64_t **out_fired)
{
	*out_names = names;
	*out_fired = fired;
	return (int)RT_COUNT(rules);
}
