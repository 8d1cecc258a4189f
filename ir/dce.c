/* SPDX-License-Identifier: MIT */
/* dce: copies the nodes that the outputs need into a new graph.
 *
 * requires nothing; keeps slots, sites, the order of nodes;
 *          the result is simplified, since all nodes are emitted again
 *
 *   %0 = input f32[4] slot=0                 %0 = input f32[4] slot=0
 *   %1 = exp f32[4] %0              =>       %1 = neg f32[4] %0
 *   %2 = neg f32[4] %0                       ret %1
 *   ret %2
 *
 * A dropped node that could fault no longer does: only values that are demanded may fault. */
#include "ir/ir.h"

static tj_status copy_all(const ir_graph *from, ir_graph *to, const bool *live, ir_ref *map, ir_ref *src)
{
	for (ir_ref r = 0; r < from->node.n; r++) {
		const ir_node *n = ir_at(from, r);
		map[r] = IR_NONE;
		if (!live[r]) continue;
		for (int k = 0; k < n->nsrc; k++) src[k] = map[ir_src(from, n, k)];
		map[r] = ir_copy(to, from, r, src);
		if (map[r] == IR_NONE) return to->err.code;
	}
	for (uint32_t i = 0; i < from->out.n; i++)
		if (!ir_ret(to, map[from->out.v[i]])) return to->err.code;
	return TJ_OK;
}

tj_status ir_pass_dce(const ir_graph *from, ir_graph *to, ir_ref *map, rt_err *err)
{
	rt_arena mem = { 0 };
	uint32_t n = from->node.n;
	tj_status st = TJ_ERR_NOMEM;
	bool *live = rt_arena_alloc(&mem, sizeof *live * n);
	ir_ref *src = rt_arena_alloc(&mem, sizeof *src * (from->refs.n + 1));
	ir_ref *own = rt_arena_alloc(&mem, sizeof *own * n);
	if (!live || !src || !own) rt_fail(err, st, "dce", "out of memory");
	else {
		ir_live(from, live);
		st = copy_all(from, to, live, map ? map : own, src);
		if (st != TJ_OK && err && err->code == TJ_OK) *err = to->err;
	}
	rt_arena_free(&mem);
	return st;
}
