/* SPDX-License-Identifier: MIT */
/* tuple: nodes with several results. Such a node has no value; each result that is used is a `get` node after it.
 *
 *   %1 = max_with_indices %0 keepdim=0 axis=1
 *   %2 = get f32[8] %1 i=0
 *   %3 = get i64[8] %1 i=1
 *   ret %2 %3
 *
 * Equal tuples merge like other nodes, and so do equal gets. A result that is not used has no get, and takes no memory. The number
 * of results and their types come from the regions for control flow (flow.c), and from the row in ops.def for an op. */
#include "ir/ir.h"

int ir_results(const ir_graph *g, const ir_node *n) { return ir_is_flow(n->op) ? ir_flow_results(g, n) : ir_ops[n->op].nresult; }

ir_meta ir_result(const ir_graph *g, const ir_node *n, int i)
{
	ir_meta src[IR_MOST_SOURCES], m = IR_TUPLE;
	if (ir_is_flow(n->op)) return ir_flow_result(g, n, i);
	if (n->nsrc > IR_MOST_SOURCES) return m; /* no valid node */
	for (int k = 0; k < n->nsrc; k++) src[k] = ir_meta_of(g, ir_src(g, n, k));
	ir_infer_result((ir_op)n->op, i, n->nsrc, src, n->nattr, ir_attr(g, n), &m, NULL);
	return m;
}

ir_ref ir_get(ir_graph *g, ir_ref tuple, int i, const char *site)
{
	if (tuple == IR_NONE) return IR_NONE;
	const ir_node *n = ir_at(g, tuple);
	if (!ir_is_tuple(n) || i < 0 || i >= ir_results(g, n)) {
		rt_fail(&g->err, TJ_ERR_ARG, "get", "%s has no result %d", ir_ops[n->op].name, i);
		return IR_NONE;
	}
	for (ir_ref r = tuple + 1; g->off & IR_OFF_CSE && r < g->node.n; r++) { /* a result has only one get, also if CSE is off */
		const ir_node *x = ir_at(g, r);
		if (x->op == IR_get && ir_src(g, x, 0) == tuple && ir_attr(g, x)[0] == i) return r;
	}
	const ir_meta m = ir_result(g, n, i);
	return ir_append(g, IR_get, &m, 1, &tuple, 1, (int64_t[]){ i }, site);
}

static bool bad(const ir_node *n, rt_err *err, const char *what)
{
	rt_fail(err, TJ_ERR_STATE, ir_ops[n->op].name, "%s", what);
	return false;
}

bool ir_get_check(const ir_graph *g, ir_ref r, rt_err *err)
{
	const ir_node *n = ir_at(g, r), *t = n->nsrc == 1 ? ir_at(g, ir_src(g, n, 0)) : NULL;
	if (!t || !ir_is_tuple(t) || n->nattr != 1) return bad(n, err, "takes a node that has several results");
	int64_t i = ir_attr(g, n)[0];
	if (i < 0 || i >= ir_results(g, t)) return bad(n, err, "there is no such result");
	ir_meta want = ir_result(g, t, (int)i), have = ir_meta_of(g, r);
	bool same = want.dtype == have.dtype && want.device == have.device && want.rank == have.rank &&
	            (!want.rank || !memcmp(want.dim, have.dim, sizeof *want.dim * want.rank));
	return same || bad(n, err, "does not have the type of the result");
}
