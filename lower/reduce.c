/* SPDX-License-Identifier: MIT */
/* reduce: makes a graph that is easier to fuse. Each reduction is over one run of adjacent axes; where a gather reads few
 * elements of a computed value, the gather comes first and only these are computed.
 *
 * requires a decomposed graph; keeps values bit for bit: runs are reduced innermost first, as in the evaluator
 *
 *   %1 = sum f32[4] %0 axes=0,2      =>      %1 = sum f32[2,4,1] %0 keepdim=1 axes=2       (rows)
 *                                            %2 = sum f32[1,4,1] %1 keepdim=1 axes=0       (columns)
 *                                            %3 = reshape f32[4] %2
 *
 * A reduction over no elements and a product that sums nothing become constants, a reduction over no axes a cast. An op that has
 * several results becomes one node for each result that is used (ir_alone()); sorted values are gathered if their indices are used, too.
 * Sums and scatter_add of f16 or bf16 accumulate in f32:
 *
 *   %1 = sum bf16[] %0 axes=0        =>      %1 = cast f32[8] %0 dtype=f32
 *                                            %2 = sum f32[] %1 axes=0
 *                                            %3 = cast bf16[] %2 dtype=bf16
 *
 *   %2 = sub f32[8,64] %0 %1                 %2 = gather f32[8,1] %0 %9 axis=1
 *   %3 = gather f32[8,1] %2 %9 axis=1   =>   %3 = sub f32[8,1] %2 %1                       (%1 has size 1 there) */
#include "lower/low.h"

void lo_reduced_axes(const lo_low *L, ir_ref r, int *lo, int *hi, bool *keepdim)
{
	const ir_node *n = lo_node(L, r);
	uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(L->g, n), lo_node(L, ir_src(L->g, n, 0))->rank);
	*lo = set ? __builtin_ctz(set) : 0;
	*hi = set ? 32 - __builtin_clz(set) : 0;
	*keepdim = ir_attr(L->g, n)[0] != 0;
}

static bool reduces(const ir_node *n)
{
	return ir_ops[n->op].opclass == IR_REDUCE_ || ir_ops[n->op].opclass == IR_ARG;
}

/* The dtype in which an op accumulates into a result of n's dtype. */
static tj_dtype accumulator(const ir_node *n) { return rt_compute_dtype((tj_dtype)n->dtype); }

static ir_ref neutral(ir_graph *to, const ir_graph *from, const ir_node *n)
{
	double one = n->op == IR_prod || n->op == IR_all;
	if (rt_is_float((tj_dtype)n->dtype))
		return ir_const_f(to, accumulator(n), n->rank, ir_dims(from, n), one);
	return ir_const_i(to, (tj_dtype)n->dtype, n->rank, ir_dims(from, n), (int64_t)one);
}

static ir_ref split(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r), *x = ir_at(from, ir_src(from, n, 0));
	uint32_t set = ir_reduced((ir_op)n->op, n->nattr, ir_attr(from, n), x->rank);
	if (ir_numel(from, ir_src(from, n, 0)) == 0) return neutral(to, from, n);
	if (!set && ir_ops[n->op].opclass == IR_ARG) return ir_const_i(to, TJ_I64, n->rank, ir_dims(from, n), 0);
	if (!set)
		return ir_reshape(to, ir_cast(to, src[0], accumulator(n), n->site), n->rank, ir_dims(from, n),
		                  n->site);
	uint32_t low = set & -set, plus = set + low;
	if (!(plus & set)) return ir_copy(to, from, r, src); /* the axes are one run already */
	ir_ref v = src[0];
	for (int hi = x->rank; set; ) {
		while (hi > 0 && !(set >> (hi - 1) & 1)) hi--;
		uint32_t run = 0;
		for (int i = hi - 1; i >= 0 && (set >> i & 1); i--) run |= 1u << i;
		v = ir_reduce(to, (ir_op)n->op, v, run, true, n->site);
		set &= ~run;
	}
	return ir_reshape(to, v, n->rank, ir_dims(from, n), n->site);
}

/* ---- gathers ---- */
enum { SINK_DEPTH = 8, SINK_RATIO = 4 };

typedef struct sink {
	ir_graph *to;
	ir_ref index;
	int axis;
	uint8_t mode;
	const char *site;
} sink;

static bool cheap(const ir_node *n)
{
	return ir_ops[n->op].flags & IR_POINT && !(ir_ops[n->op].flags & IR_FAULT) && !n->weak;
}

/* Has the sizes of the index on all other axes; if it has size 1 along the axis, it is read without a gather. */
static bool alike(const sink *s, ir_ref r)
{
	const ir_node *n = ir_at(s->to, r), *i = ir_at(s->to, s->index);
	if (n->rank != i->rank) return false;
	for (int k = 0; k < n->rank; k++)
		if (k != s->axis && ir_dims(s->to, n)[k] != ir_dims(s->to, i)[k]) return false;
	return true;
}

/* A node for the elements of r at the index; r has the rank of the index, or broadcasts to it. */
static ir_ref pick(const sink *s, ir_ref r, int rank, int depth)
{
	ir_graph *to = s->to;
	int axis = s->axis - (rank - ir_at(to, r)->rank);
	if (axis < 0 || ir_dims(to, ir_at(to, r))[axis] == 1) return r;
	if (depth < SINK_DEPTH && cheap(ir_at(to, r)) && ir_at(to, r)->rank == rank) {
		ir_node n = *ir_at(to, r); /* emitting moves nodes */
		ir_ref src[3];
		int64_t attr = n.nattr ? ir_attr(to, &n)[0] : 0;
		for (int k = 0; k < n.nsrc; k++) {
			src[k] = pick(s, ir_src(to, &n, k), rank, depth + 1);
			if (src[k] == IR_NONE) return IR_NONE;
		}
		to->mode = n.mode;
		return ir_emit(to, (ir_op)n.op, n.nsrc, src, n.nattr, &attr, n.site);
	}
	if (ir_at(to, r)->rank < rank) {
		int64_t dim[TJ_MAX_RANK], lead = rank - ir_at(to, r)->rank;
		for (int k = 0; k < rank; k++) dim[k] = k < lead ? 1 : ir_dims(to, ir_at(to, r))[k - lead];
		r = ir_reshape(to, r, rank, dim, s->site);
	}
	if (r == IR_NONE) return r;
	int64_t dim[TJ_MAX_RANK]; /* an operand that broadcasts is expanded to the index's sizes on all other axes */
	for (int k = 0; k < rank; k++)
		dim[k] = k == s->axis ? ir_dims(to, ir_at(to, r))[k] : ir_dims(to, ir_at(to, s->index))[k];
	r = ir_expand(to, r, rank, dim, s->site);
	int64_t at = s->axis;
	to->mode = s->mode;
	return ir_emit(to, IR_gather, 2, (ir_ref[]){ r, s->index }, 1, &at, s->site);
}

/* At least one gather must be left: it checks the index. */
static bool reads_axis(const sink *s, ir_ref r, int rank, int depth)
{
	const ir_node *n = ir_at(s->to, r);
	int axis = s->axis - (rank - n->rank);
	if (axis < 0 || ir_dims(s->to, n)[axis] == 1) return false;
	if (depth >= SINK_DEPTH || !cheap(n) || n->rank != rank) return true;
	for (int k = 0; k < n->nsrc; k++)
		if (reads_axis(s, ir_src(s->to, n, k), rank, depth + 1)) return true;
	return false;
}

static ir_ref gather(ir_graph *to, const ir_graph *from, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(from, r);
	sink s = { to, src[1], (int)ir_attr(from, n)[0], n->mode, n->site };
	int rank = n->rank;
	bool sinks = !(to->off & LO_OFF(SINK)) && cheap(ir_at(to, src[0])) && rank && ir_numel(to, src[1]) * SINK_RATIO <= ir_numel(to, src[0]);
	if (!sinks || !alike(&s, src[0]) || !reads_axis(&s, src[0], rank, 0)) return ir_copy(to, from, r, src);
	return pick(&s, src[0], rank, 0);
}

/* ---- accumulators ---- */
/* Narrow operands widened, in place. */
static void widen(ir_graph *to, const ir_node *n, ir_ref *src)
{
	for (int k = 0; k < n->nsrc; k++) {
		tj_dtype t = src[k] == IR_NONE ? TJ_F32 : (tj_dtype)ir_at(to, src[k])->dtype;
		if (rt_is_narrow(t)) src[k] = ir_cast(to, src[k], rt_compute_dtype(t), n->site);
	}
}

/* A product that sums nothing. */
static bool sums_nothing(const ir_graph *g, const ir_node *n)
{
	const ir_node *a = n->op == IR_matmul ? ir_at(g, ir_src(g, n, 0)) : NULL;
	return a && a->device == RT_CPU && ir_dims(g, a)[a->rank - 1] == 0;
}

static ir_ref plain(ir_graph *to, const ir_graph *from, ir_ref r, ir_ref *src)
{
	const ir_node *x = ir_at(from, r);
	if (sums_nothing(from, x)) return ir_cast(to, neutral(to, from, x), (tj_dtype)x->dtype, x->site);
	const bool checks = ir_ops[x->op].opclass == IR_SCATTER &&
	                    ir_numel(from, r) == 0; /* it only looks at the index; a cast of no elements would not ask for that */
	bool accumulates = ir_ops[x->op].flags & IR_ACCUM && !(ir_ops[x->op].flags & IR_LIB) && !checks; /* a product widens what it reads */
	if (accumulates) widen(to, x, src);
	ir_ref y;
	if (reduces(x) && ir_numel(from, r) != 0) y = ir_keep_device(to, split(to, from, r, src), x);
	else if (x->op == IR_gather) y = gather(to, from, r, src);
	else if (x->op == IR_cast) y = lo_narrow(to, src[0], (tj_dtype)x->dtype);
	else y = x->op == IR_abs ? lo_narrow_distance(to, src[0]) : IR_NONE;
	if (y == IR_NONE && to->err.code == TJ_OK) y = ir_copy(to, from, r, src);
	return y != IR_NONE && accumulates && rt_is_narrow((tj_dtype)x->dtype) ? ir_cast(to, y, (tj_dtype)x->dtype, x->site) : y;
}

/* ---- several results ---- */
static bool is_got(const ir_graph *g, const bool *live, ir_ref tuple, int which)
{
	for (ir_ref r = tuple + 1; r < g->node.n; r++)
		if (live[r] && ir_at(g, r)->op == IR_get && ir_src(g, ir_at(g, r), 0) == tuple && ir_attr(g, ir_at(g, r))[0] == which) return true;
	return false;
}

/* The extreme of integers without its index: equal integers have equal bits, so their order does not matter. */
static ir_ref plain_extreme(ir_graph *to, const ir_graph *from, const ir_node *n, ir_ref x)
{
	const int64_t *attr = ir_attr(from, n);
	return ir_emit(to, n->op == IR_max_with_indices ? IR_amax : IR_amin, 1, &x, attr[1] == TJ_END_DIM ? 1 : 2, attr, n->site);
}

/* Makes a node for one result of an op that has several; fusion puts the nodes of one operand into one loop again. The index is an argmax
 * or argmin. Over no axes the results are the element itself and index 0. */
static ir_ref one_result(ir_graph *to, const ir_graph *from, const bool *live, ir_ref get, const ir_ref *map, ir_ref *src)
{
	const ir_node *n = ir_at(from, get), *t = ir_at(from, ir_src(from, n, 0));
	int which = (int)ir_attr(from, n)[0];
	for (int k = 0; k < t->nsrc; k++) src[k] = map[ir_src(from, t, k)];
	if (ir_ops[t->op].flags & IR_ACCUM) widen(to, t, src);
	const bool sorts = t->op == IR_sort || t->op == IR_topk || t->op == IR_take_sorted;
	if (sorts && !which && is_got(from, live, ir_src(from, n, 0), 1)) { /* one sort, not two */
		const ir_ref at = ir_alone(to, from, ir_src(from, n, 0), 1, src);
		return at == IR_NONE ? at : ir_emit(to, IR_gather, 2, (ir_ref[]){ src[0], at }, 1, ir_attr(from, t), n->site);
	}
	if (!reduces(t)) return ir_alone(to, from, ir_src(from, n, 0), which, src);
	bool any = ir_reduced((ir_op)t->op, t->nattr, ir_attr(from, t), ir_at(from, ir_src(from, t, 0))->rank) != 0;
	if (which && !any) return ir_const_i(to, TJ_I64, n->rank, ir_dims(from, n), 0);
	if (which) return ir_emit(to, t->op == IR_max_with_indices ? IR_argmax : IR_argmin, 1, src, t->nattr, ir_attr(from, t), n->site);
	if (any && !rt_is_float((tj_dtype)n->dtype) && !is_got(from, live, ir_src(from, n, 0), 1)) return plain_extreme(to, from, t, src[0]);
	if (any) return ir_alone(to, from, ir_src(from, n, 0), which, src);
	return ir_reshape(to, src[0], n->rank, ir_dims(from, n), n->site);
}

/* The same, rounded to the dtype of the result. */
static ir_ref stored_result(ir_graph *to, const ir_graph *from, const bool *live, ir_ref get, const ir_ref *map, ir_ref *src)
{
	const ir_node *n = ir_at(from, get);
	ir_ref y = one_result(to, from, live, get, map, src);
	return y == IR_NONE || ir_at(to, y)->dtype == n->dtype ? y : ir_cast(to, y, (tj_dtype)n->dtype, n->site);
}

static bool of_op(const ir_graph *g, const ir_node *get) { return !ir_is_flow(ir_at(g, ir_src(g, get, 0))->op); }

tj_status lo_plain(const ir_graph *from, ir_graph *to, rt_err *err)
{
	uint32_t n = from->node.n;
	ir_ref *map = rt_alloc(sizeof *map * (n + 1)), *src = rt_alloc(sizeof *src * (from->refs.n + 1));
	bool *live = rt_alloc(n + 1), ok = map && src && live;
	if (!ok) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	else ir_live(from, live);
	for (ir_ref r = 0; ok && r < n; r++) {
		const ir_node *x = ir_at(from, r);
		map[r] = IR_NONE;
		to->mode = ir_at(from, x->op == IR_get ? ir_src(from, x, 0) : r)->mode;
		if (!live[r] || (ir_is_tuple(x) && !ir_is_flow(x->op))) continue;
		for (int k = 0; k < x->nsrc; k++) src[k] = map[ir_src(from, x, k)];
		if (x->op == IR_get && of_op(from, x)) map[r] = ir_keep_device(to, stored_result(to, from, live, r, map, src), x);
		else map[r] = plain(to, from, r, src);
		ok = map[r] != IR_NONE;
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = ir_ret(to, map[from->out.v[i]]);
	rt_free(map);
	rt_free(src);
	rt_free(live);
	if (ok) return TJ_OK;
	if (to->err.code == TJ_OK) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (err && err->code == TJ_OK) *err = to->err;
	return to->err.code;
}
