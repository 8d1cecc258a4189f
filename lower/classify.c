/* SPDX-License-Identifier: MIT */
/* classify: what can compute each value: a kernel, a routine or the evaluator.
 *
 * requires plain reductions; sets how and light of every value */
#include "lower/library.h"

#define LIGHT 6 /* instructions; a value that takes no more is recomputed rather than stored */

bool lo_is_gather(ir_op op)
{
	return op == IR_gather || op == IR_index_select || op == IR_embedding;
}

static bool point_has(const ir_graph *g, const ir_node *n)
{
	if (n->op == IR_cast) return true;
	tj_dtype compute = (tj_dtype)ir_at(g, ir_src(g, n, n->op == IR_where))->dtype;
	return ir_ops[n->op].math >> rt_dtype_class(compute) & 1;
}

lo_how lo_how_of(const ir_graph *g, const ir_node *n, const lo_opts *o)
{
	const ir_opinfo *info = &ir_ops[n->op];
	const lo_target *t = lo_target_on(o, n->device);
	if (info->opclass == IR_LEAF) return LO_LEAF;
	if (info->flags & IR_VIEW) return LO_VIEW;
	if (!t || n->op == IR_to) return LO_CALL;
	if (info->flags & IR_POINT) return point_has(g, n) ? LO_FUSE : LO_CALL;
	if (n->op == IR_matmul && t->fma_ns != 0 && lo_rather(t, g, n, o->settings))
		return n->device == RT_CPU || n->rank < TJ_MAX_RANK ? LO_FUSE : LO_CALL; /* a kernel needs one more dimension */
	if (lo_routine_of(t, (ir_op)n->op) && !lo_lacks(t, (ir_op)n->op, (tj_dtype)n->dtype)) return LO_LIB;
	if (info->flags & IR_REDUCE) return LO_FUSE;
	if (lo_is_gather((ir_op)n->op)) return ir_numel(g, ir_src(g, n, 0)) > 0 ? LO_FUSE : LO_CALL;
	switch (n->op) {
	case IR_cat: return LO_CAT;
	case IR_one_hot: case IR_full: case IR_arange: case IR_eye: return LO_FUSE;
	case IR_uniform: case IR_normal: return lo_random_has((ir_op)n->op, (tj_dtype)n->dtype) ? LO_FUSE : LO_CALL;
	default: return LO_CALL;
	}
}

/* Number of instructions that compute the value from numbers, constants and indices; more than LIGHT: too many, or it has other operands.
 */
static int cost_of(const lo_low *L, const ir_node *n, const uint8_t *cost)
{
	const ir_opinfo *info = &ir_ops[n->op];
	if (n->op == IR_const || n->op == IR_num) return 0;
	if (n->op == IR_arange || n->op == IR_eye) return 2;
	bool ok = info->flags & IR_VIEW || n->op == IR_full ||
	          (info->flags & IR_POINT && !(info->flags & (IR_MATH | IR_FAULT)));
	int sum = info->flags & IR_VIEW ? 0 : 1;
	if (!ok || n->op == IR_input || n->op == IR_data) return LIGHT + 1;
	for (int k = 0; k < lo_nread(n); k++) sum += cost[ir_src(L->g, n, k)];
	return sum > LIGHT ? LIGHT + 1 : sum;
}

void lo_classify(lo_low *L)
{
	uint8_t *cost = lo_mem(L, L->g->node.n + 1u);
	for (ir_ref r = 0; cost && r < L->g->node.n; r++) {
		const ir_node *n = lo_node(L, r);
		L->val[r].how = (uint8_t)lo_how_of(L->g, n, L->o);
		cost[r] = (uint8_t)(L->val[r].how == LO_CALL ? LIGHT + 1 : cost_of(L, n, cost));
		/* A number is computed on each device that needs it. */
		L->val[r].light = cost[r] <= LIGHT || (n->weak && L->devices && L->val[r].how == LO_FUSE);
	}
}
