/* SPDX-License-Identifier: MIT */
/* devices: which device computes each value, for graphs on several devices.
 *
 * requires plain reductions; keeps values; in the result each op is computed by a kernel or a routine of its device, or by the
 * CPU, or is a copy
 *
 *   %1 = scatter_add f32[8]@cuda:0 %0 ..        =>      %1 = to f32[8] %0 device=cpu
 *                                                       %2 = scatter_add f32[8] %1 ..
 *                                                       %3 = to f32[8]@cuda:0 %2 device=cuda:0
 *
 * A device that sorts, but does not select, sorts all of the axis:
 *
 *   %2 = take_sorted f32[4,1]@cuda:0 %0 %1      =>      %2 = sort f32[4,8]@cuda:0 %0
 *                                                       %3 = gather f32[4,1]@cuda:0 %2 %1
 *
 * The host runs control flow, so the predicate of a cond and the condition of a while are copied to the CPU. */
#include "lower/library.h"
#include "lower/walk.h"

typedef struct placing {
	const ir_graph *from;
	ir_graph *to;
	const lo_opts *o;
	ir_ref *map;             /* by node of from */
} placing;

bool lo_on_devices(const ir_graph *g)
{
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		if (n->device != RT_CPU || n->op == IR_to) return true;
		for (int k = 0; ir_is_flow(n->op) && k < ir_flow_info(n->op)->nregion; k++)
			if (lo_on_devices(ir_flow_region(g, n, k))) return true;
	}
	return false;
}

/* A copy that no simplification removes. */
static ir_ref copy_to(ir_graph *g, ir_ref a, int device, const char *site)
{
	if (a == IR_NONE) return IR_NONE;
	ir_meta m = ir_meta_of(g, a);
	m.device = (uint8_t)device;
	m.weak = false; /* a number in the memory of a device is a tensor: results that are inferred from it are there, too */
	return ir_append(g, IR_to, &m, 1, &a, 1, (int64_t[]){ device }, site);
}

static ir_ref on_cpu(ir_graph *g, ir_ref a, const char *site)
{
	return a == IR_NONE || ir_at(g, a)->device == RT_CPU ? a : ir_to(g, a, RT_CPU, site);
}

static bool sorts_all(const ir_graph *g, const ir_node *n, const lo_opts *o)
{
	const lo_target *t = lo_target_on(o, n->device);
	if (n->device == RT_CPU || n->op != IR_take_sorted || !t || lo_routine_of(t, IR_take_sorted)) return false;
	return lo_routine_of(t, IR_sort) && !lo_lacks(t, IR_sort, (tj_dtype)n->dtype) &&
	       ir_numel(g, ir_src(g, n, 0)) > 0; /* else no kernel gathers */
}

bool lo_stays(const ir_graph *g, const ir_node *n, const lo_opts *o)
{
	if (n->device == RT_CPU || n->op == IR_to || n->op == IR_input || n->op == IR_get || ir_is_flow(n->op)) return true;
	const lo_target *t = lo_target_on(o, n->device);
	const lo_how how = lo_how_of(g, n, o);
	return how == LO_VIEW || (t && how != LO_CALL) || sorts_all(g, n, o);
}

static ir_ref sort_and_gather(placing *p, ir_ref r, const ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const int64_t axis = ir_attr(p->from, n)[0], ascending[] = { axis, false };
	const ir_ref sorted = ir_alone_of(p->to, IR_sort, ir_which(n), 1, src, 2, ascending, n->site);
	return sorted == IR_NONE ? sorted : ir_emit(p->to, IR_gather, 2, (ir_ref[]){ sorted, src[1] }, 1, &axis, n->site);
}

static ir_ref compute_on_cpu(placing *p, ir_ref r, ir_ref *src)
{
	const ir_node *n = ir_at(p->from, r);
	const ir_meta m = ir_meta_of(p->from, r);
	ir_ref h;
	if (n->op == IR_const || n->op == IR_data) {
		ir_meta host = m;
		host.device = RT_CPU;
		h = n->op == IR_data ? ir_data_(p->to, &host, p->from->data.v[ir_attr(p->from, n)[0]].bytes, n->site)
		                     : ir_append(p->to, IR_const, &host, 0, NULL, 1, ir_attr(p->from, n), n->site);
	} else {
		for (int k = 0; k < n->nsrc; k++) src[k] = on_cpu(p->to, src[k], n->site);
		h = n->alone ? ir_alone(p->to, p->from, r, ir_which(n), src)
		             : ir_emit(p->to, (ir_op)n->op, n->nsrc, src, n->nattr, ir_attr(p->from, n), n->site);
	}
	return copy_to(p->to, h, n->device, n->site);
}

/* A routine of a device reads operands in its memory. Numbers are on the host, and a kernel gets them as arguments. */
static void numbers_to(placing *p, const ir_node *n, ir_ref *src)
{
	for (int k = 0; k < n->nsrc; k++)
		if (src[k] != IR_NONE && ir_at(p->to, src[k])->op == IR_num) src[k] = copy_to(p->to, src[k], n->device, n->site);
}

static bool place_node(placing *p, ir_ref r, rt_arena *mem)
{
	const ir_node *n = ir_at(p->from, r);
	ir_ref *src = rt_arena_alloc(mem, (n->nsrc + 1u) * sizeof *src);
	if (!src) return false;
	p->to->mode = n->mode;
	for (int k = 0; k < n->nsrc; k++) src[k] = p->map[ir_src(p->from, n, k)];
	if (n->device != RT_CPU && (lo_routine_of(lo_target_on(p->o, n->device), (ir_op)n->op) || sorts_all(p->from, n, p->o)))
		numbers_to(p, n, src);
	if (n->op == IR_cond) src[0] = on_cpu(p->to, src[0], n->site);
	if (!lo_stays(p->from, n, p->o)) p->map[r] = compute_on_cpu(p, r, src);
	else if (sorts_all(p->from, n, p->o)) p->map[r] = sort_and_gather(p, r, src);
	else p->map[r] = lo_copy(p->to, p->from, r, src);
	return p->map[r] != IR_NONE;
}

/* Output i of a region is copied, unless it is a carry that returns the input of its own slot. */
static bool place_output(placing *p, uint32_t i)
{
	ir_ref r = p->map[p->from->out.v[i]];
	const ir_node *n = ir_at(p->to, r);
	const bool stays = n->op == IR_input && i < p->o->carries && ir_attr(p->to, n)[0] == (int64_t)i;
	if (p->o->to_cpu) r = on_cpu(p->to, r, NULL);
	else if (p->o->store_all && !stays && n->op != IR_to && !lo_target_on(p->o, n->device)) r = copy_to(p->to, r, n->device, NULL);
	return r != IR_NONE && ir_ret(p->to, r);
}

tj_status lo_assign_devices(const ir_graph *from, ir_graph *to, const lo_opts *o, rt_err *err)
{
	rt_arena mem = { 0 };
	placing p = { from, to, o, rt_arena_alloc(&mem, (from->node.n + 1u) * sizeof *p.map) };
	bool *live = rt_arena_alloc(&mem, from->node.n + 1u), ok = p.map && live && ir_live(from, live);
	for (ir_ref r = 0; ok && r < from->node.n; r++) ok = !live[r] || place_node(&p, r, &mem);
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = place_output(&p, i);
	rt_arena_free(&mem);
	if (ok) return TJ_OK;
	if (to->err.code != TJ_OK && err) *err = to->err;
	return rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
}
