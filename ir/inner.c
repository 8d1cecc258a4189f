/* SPDX-License-Identifier: MIT */
/* inner: values inside a node, for which the graph has no node. A composite is computed in the steps that decomp makes of it; a node with
 * several results also has results that the program did not take.
 *
 *   %0 = input f32[4] slot=0               steps of %1: %0 = input slot=0, %1 = amax, %2 = sub %0 %1, %3 = exp %2, ...
 *   %1 = softmax f32[4] %0 axis=0
 *
 * A step is named by its number, which depends on the op, its attributes and the types of its operands, never on the rest of the graph. A
 * requested step is emitted next to the composite; decomp makes equal nodes of both, so it is computed once. */
#include "ir/ir.h"

bool ir_steps(ir_graph *to, const ir_graph *from, ir_ref r)
{
	const ir_node *n = ir_at(from, r);
	ir_ref *src = rt_arena_alloc(&to->mem, (n->nsrc + 1u) * sizeof *src);
	if (!src) return rt_fail(&to->err, TJ_ERR_NOMEM, "graph", "out of memory"), false;
	for (int k = 0; k < n->nsrc; k++) {
		const ir_meta m = ir_meta_of(from, ir_src(from, n, k));
		src[k] = m.weak ? ir_append(to, IR_num, &m, 0, NULL, 1, (int64_t[]){ k }, NULL) : ir_input(to, k, &m, NULL, NULL);
	}
	return ir_decompose(to, from, r, src) != IR_NONE;
}

static ir_ref fail(ir_graph *g, int op, const char *what, uint32_t step)
{
	rt_fail(&g->err, TJ_ERR_ARG, ir_ops[op].name, what, step);
	return IR_NONE;
}

/* Which steps the last one needs. */
static void mark(const ir_graph *e, uint32_t last, bool *needed)
{
	needed[last] = true;
	for (ir_ref r = last + 1; r-- > 0;)
		for (int k = 0; needed[r] && k < ir_at(e, r)->nsrc; k++) needed[ir_src(e, ir_at(e, r), k)] = true;
}

/* Step `last` of n, in g: the steps' inputs are n's operands. */
static ir_ref copy_steps(ir_graph *g, ir_node n, ir_graph *e, uint32_t last)
{
	ir_ref *map = rt_arena_alloc(&e->mem, (last + 1u) * sizeof *map), *src = rt_arena_alloc(&e->mem, (e->refs.n + 1u) * sizeof *src);
	bool *needed = rt_arena_alloc(&e->mem, last + 1u);
	if (!map || !src || !needed) return rt_fail(&g->err, TJ_ERR_NOMEM, "graph", "out of memory"), IR_NONE;
	mark(e, last, needed);
	for (ir_ref r = 0; r <= last; r++) {
		const ir_node *x = ir_at(e, r);
		if (!needed[r]) continue;
		for (int k = 0; k < x->nsrc; k++) src[k] = map[ir_src(e, x, k)];
		map[r] = x->op == IR_input || x->op == IR_num ? ir_src(g, &n, (int)ir_attr(e, x)[0]) : ir_copy(g, e, r, src);
		if (map[r] == IR_NONE) return IR_NONE;
	}
	return map[last];
}

ir_ref ir_inner(ir_graph *g, ir_ref r, uint32_t step)
{
	if (r == IR_NONE || g->err.code != TJ_OK) return IR_NONE;
	const ir_node n = *ir_at(g, r);
	ir_graph e;
	ir_ref x = IR_NONE;
	if (ir_is_tuple(&n)) return ir_get(g, r, step < UINT16_MAX ? (int)step : -1, n.site);
	if (!(ir_ops[n.op].flags & IR_COMPOSITE)) return fail(g, n.op, "has no inner value %u: it is computed in one step", step);
	ir_graph_init(&e);
	if (!ir_steps(&e, g, r)) g->err = e.err;
	else x = step < e.node.n ? copy_steps(g, n, &e, step) : fail(g, n.op, "has no inner value %u", step);
	ir_graph_free(&e);
	return x;
}
