/* SPDX-License-Identifier: MIT */
/* marks: values with a gradient of the user's, and checkpoints, in regions of control flow. A region keeps these records as long as
 * gradients are made: the gradient of the node that has it copies the region, and walks back through the copy (vjpflow.c). Then they are
 * dropped.
 *
 *   scan .. body:                                 the gradient's body:
 *     %1 = round f32[4] %0                          %1 = round ..
 *     %2 = mark f32[4] %1 %0   (custom 0)    =>     %2 = mark f32[4] %1 %0   (custom 0 of this graph)
 *     %3 = mark f32[4] ..      its leaf             %3 = mark ..                                       gradients that reach %2 go on
 *     %4 = mul f32[4] %3 %w    its gradient         %4 = mul f32[4] %3 %w                              through %4, as elsewhere
 *     ret %2                                        .. */
#include "ir/ir.h"

/* Marks what record c is made of. */
static void need(const ir_graph *g, const ir_custom *c, bool *live)
{
	for (int i = 0; i < c->nin; i++) {
		live[c->in[i]] = true;
		if (!c->again && c->grad[i] != IR_NONE) live[c->grad[i]] = true;
	}
	for (int i = 0; i < c->nout; i++) {
		live[c->out[i]] = live[ir_src(g, ir_at(g, c->out[i]), 0)] = true;
		if (!c->again) live[c->leaf[i]] = true;
	}
}

static bool is_used(const ir_custom *c, const bool *live)
{
	bool any = false;
	for (int i = 0; i < c->nout; i++) any |= live[c->out[i]];
	return any;
}

/* What the outputs need, with the records of these values. */
static bool find_live(const ir_graph *g, bool *live)
{
	bool *done = rt_calloc(g->custom.n + 1u), more = true;
	if (!done) return false;
	ir_live(g, live);
	while (more) {
		more = false;
		for (uint32_t i = 0; i < g->custom.n; i++) {
			if (done[i] || !is_used(g->custom.v[i], live)) continue;
			need(g, g->custom.v[i], live);
			more = done[i] = true;
		}
		for (ir_ref r = g->node.n; more && r-- > 0;)
			for (int k = 0; live[r] && k < ir_at(g, r)->nsrc; k++) live[ir_src(g, ir_at(g, r), k)] = true;
	}
	rt_free(done);
	return true;
}

/* ---- copies ---- */
static bool nomem(ir_graph *g) { return rt_fail(&g->err, TJ_ERR_NOMEM, "region", "out of memory"), false; }

/* All that it was computed from is copied: its values, and the leaves of its gradients, are now. */
static bool copy_record(ir_recopy *k, const ir_custom *c)
{
	ir_ref *in = rt_arena_alloc(&k->to->mem, sizeof *in * ((size_t)c->nin + (size_t)c->nout + 1)), *value = in + c->nin;
	if (!in) return nomem(k->to);
	for (int i = 0; i < c->nin; i++) in[i] = k->map[c->in[i]];
	for (int i = 0; i < c->nout; i++) value[i] = k->map[ir_src(k->from, ir_at(k->from, c->out[i]), 0)];
	ir_custom *made = c->again ? ir_checkpoint_like(k->to, c, in, value) : ir_custom_new(k->to, c->nin, in, c->nout, value, c->site);
	if (!made || !rt_push(&k->pair, ((ir_record_pair){ c, made }))) return nomem(k->to);
	for (int i = 0; i < c->nout; i++) {
		k->map[c->out[i]] = made->out[i];
		if (!c->again) k->map[c->leaf[i]] = made->leaf[i];
	}
	return true;
}

bool ir_recopy_open(ir_recopy *k, const ir_graph *from, ir_graph *to, ir_ref *map)
{
	*k = (ir_recopy){ .from = from, .to = to, .map = map, .src = rt_alloc((from->refs.n + 1) * sizeof *k->src) };
	for (ir_ref r = 0; r < from->node.n; r++) map[r] = IR_NONE;
	return k->src || nomem(to);
}

bool ir_recopy_node(ir_recopy *k, ir_ref r)
{
	const ir_node *n = ir_at(k->from, r);
	const ir_custom *c = ir_custom_of(k->from, r);
	if (k->map[r] != IR_NONE) return true;
	if (c) return copy_record(k, c);
	for (int i = 0; i < n->nsrc; i++) k->src[i] = k->map[ir_src(k->from, n, i)];
	return (k->map[r] = ir_copy(k->to, k->from, r, k->src)) != IR_NONE;
}

bool ir_recopy_close(ir_recopy *k, bool ok)
{
	for (uint32_t p = 0; ok && p < k->pair.n; p++) {
		const ir_custom *c = k->pair.v[p].from;
		for (int i = 0; !c->again && i < c->nin; i++)
			if (c->grad[i] != IR_NONE) k->pair.v[p].to->grad[i] = k->map[c->grad[i]];
	}
	rt_vec_free(&k->pair);
	rt_free(k->src);
	return ok;
}

tj_status ir_pass_lean(const ir_graph *from, ir_graph *to, rt_err *err)
{
	if (!from->custom.n) return ir_pass_dce(from, to, NULL, err);
	rt_arena mem = { 0 };
	ir_recopy k;
	bool *live = rt_arena_alloc(&mem, from->node.n + 1u);
	ir_ref *map = rt_arena_alloc(&mem, sizeof *map * (from->node.n + 1u));
	bool ok = live && map && find_live(from, live);
	if (ok) {
		ok = ir_recopy_open(&k, from, to, map);
		for (ir_ref r = 0; ok && r < from->node.n; r++) ok = !live[r] || ir_recopy_node(&k, r);
		ok = ir_recopy_close(&k, ok);
	}
	for (uint32_t i = 0; ok && i < from->out.n; i++) ok = ir_ret(to, map[from->out.v[i]]);
	rt_arena_free(&mem);
	if (ok) return TJ_OK;
	if (to->err.code != TJ_OK && err->code == TJ_OK) *err = to->err;
	return rt_fail(err, TJ_ERR_NOMEM, "region", "out of memory");
}

/* ---- dropping them ---- */
static bool has_records(const ir_graph *g)
{
	bool any = g->custom.n > 0;
	for (uint32_t i = 0; !any && i < g->region.n; i++) any = has_records(g->region.v[i]);
	return any;
}

bool ir_drop_records(ir_graph *g)
{
	for (uint32_t i = 0; i < g->region.n; i++) {
		ir_graph *was = g->region.v[i];
		if (!has_records(was)) continue;
		ir_graph *plain = ir_region_new();
		if (!plain || ir_pass_dce(was, plain, NULL, &g->err) != TJ_OK || !ir_drop_records(plain)) {
			if (plain && plain->err.code != TJ_OK && g->err.code == TJ_OK) g->err = plain->err;
			ir_region_unref(plain);
			return nomem(g);
		}
		ir_graph_seal(plain);
		g->region.v[i] = plain;
		ir_region_unref(was);
	}
	return true;
}
