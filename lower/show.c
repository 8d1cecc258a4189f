/* SPDX-License-Identifier: MIT */
/* show: groups and kernels as text, for golden tests and for people. Lowers a graph as far as needed and compiles nothing. */
#include "lower/low.h"

/* ---- groups ---- */
/* The ops of a group, in the order of the graph. */
static void put_members(const lo_low *L, const lo_group *G, rt_text *t)
{
	ir_ref last = 0;
	for (uint32_t k = 0; k < G->member.n; k++) {
		ir_ref next = IR_NONE;
		for (uint32_t j = 0; j < G->member.n; j++)
			if (G->member.v[j] >= last && G->member.v[j] < next) next = G->member.v[j];
		rt_putf(t, " %s", ir_ops[lo_node(L, next)->op].name);
		last = next + 1;
	}
	if (!G->member.n) rt_puts(t, " copy");
	for (uint32_t k = G->again.n; k-- > 0;)
		rt_putf(t, "%s %s", k == G->again.n - 1 ? " again" : "", ir_ops[lo_node(L, G->again.v[k]->value)->op].name);
}

static void put_groups(lo_low *L, void *env)
{
	rt_text *t = env;
	for (ir_ref r = 0; r < L->g->node.n; r++) {
		const lo_val *v = &L->val[r];
		if ((v->how == LO_LIB || v->how == LO_CALL) && v->own && lo_node(L, r)->op != IR_get)
			rt_putf(t, "%s %s\n", ir_is_flow(lo_node(L, r)->op) ? "flow" : v->how == LO_LIB ? "library" : "call", ir_ops[lo_node(L, r)->op].name);
	}
	for (uint32_t i = L->group.n; i-- > 0;) {
		const lo_group *G = L->group.v[i];
		if (G->merged != LO_NOGROUP) continue;
		rt_putf(t, "group outer=%lld", (long long)lo_outer(G));
		if (G->reduces) rt_putf(t, " red=%lld %s", (long long)G->red, G->product ? "product" : G->column ? "column" : "row");
		rt_puts(t, ":");
		put_members(L, G, t);
		rt_putf(t, " -> %u\n", G->save.n);
	}
}

/* ---- groups, for Graphviz ---- */
static void put_node(const lo_low *L, ir_ref r, rt_text *t)
{
	const ir_node *n = lo_node(L, r);
	const ir_meta m = ir_meta_of(L->g, r);
	rt_putf(t, "n%u [label=\"%s\\n", r, ir_ops[n->op].name);
	ir_put_meta(t, &m);
	rt_puts(t, ir_is_leaf(n->op) ? "\", shape=ellipse]\n" : "\"]\n");
}

static void put_dot(lo_low *L, void *env)
{
	rt_text *t = env;
	const ir_graph *g = L->g;
	rt_puts(t, "digraph {\n\tnode [shape=box, fontname=\"monospace\", fontsize=10]\n");
	for (uint32_t i = L->group.n, k = 0; i-- > 0;) {
		const lo_group *G = L->group.v[i];
		if (G->merged != LO_NOGROUP || !G->member.n) continue;
		rt_putf(t, "\tsubgraph cluster%u { label=\"kernel\" style=filled color=lightgrey\n", k++);
		for (uint32_t j = 0; j < G->member.n; j++) {
			rt_puts(t, "\t\t");
			put_node(L, G->member.v[j], t);
		}
		rt_puts(t, "\t}\n");
	}
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = lo_node(L, r);
		if (L->val[r].group == LO_NOGROUP) {
			rt_puts(t, "\t");
			put_node(L, r, t);
		}
		for (int k = 0; k < n->nsrc; k++) rt_putf(t, "\tn%u -> n%u%s\n", ir_src(g, n, k), r, L->val[r].how == LO_LIB ? " [style=bold]" : "");
	}
	for (uint32_t i = 0; i < g->out.n; i++)
		rt_putf(t, "\tout%u [label=\"out %u\", shape=ellipse, style=filled]\n\tn%u -> out%u\n", i, i, g->out.v[i], i);
	rt_puts(t, "}\n");
}

/* ---- steps and kernels ---- */
static const char *kind(const lo_step *s)
{
	return s->kind == LO_STEP_LIBRARY ? "library" : s->kind == LO_STEP_CALL ? "call" : s->kind == LO_STEP_FLOW ? "flow" : "copy";
}

static void put_kernels(lo_low *L, void *t);

static void put_flow(lo_low *L, const ir_node *n, rt_text *t)
{
	rt_putf(t, "flow %s\n", ir_ops[n->op].name);
	for (int k = 0; k < ir_flow_info(n->op)->nregion; k++) {
		rt_putf(t, "region %s\n", ir_flow_info(n->op)->region[k]);
		lo_dry_run(ir_flow_region(L->g, n, k), &(lo_opts){ .name = "f", .target = L->o->target, .store_all = true }, true,
		           put_kernels, t, L->err);
	}
	rt_puts(t, "end\n");
}

static void put_kernels(lo_low *L, void *t)
{
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		if (s->built && s->kind == LO_STEP_KERNEL) lo_print(&s->built->k, &s->built->s, t);
		else if (s->kind == LO_STEP_FLOW) put_flow(L, lo_node(L, s->ref), t);
		else rt_putf(t, "%s %s\n", kind(s), ir_ops[lo_node(L, s->ref)->op].name);
		if (!s->epilogue) continue;
		rt_puts(t, "in the same call\n");
		lo_print(&s->built->k, &s->built->s, t);
	}
}

/* ---- steps, one line each ---- */
static void put_steps(lo_low *L, void *t)
{
	uint32_t left = 0; /* steps of the bundle, this one included */
	for (uint32_t i = 0; i < L->step.n; i++) {
		const lo_step *s = &L->step.v[i];
		rt_puts(t, !left ? "step" : s->follows ? "    follows" : "  beside");
		if (s->bundle) left = s->bundle;
		left -= left > 0;
		if (s->kind == LO_STEP_KERNEL) put_members(L, L->group.v[s->group], t);
		else rt_putf(t, " %s %s", kind(s), ir_ops[lo_node(L, s->ref)->op].name);
		rt_puts(t, "\n");
	}
}

/* ---- temporaries ---- */
static bool is_kept(const lo_low *L, const lo_buffer *b)
{
	return b->first >= 0 && b->first < (int)L->full_step && b->last > (int)L->full_step;
}

static void put_temporary(const lo_low *L, ir_ref r, uint32_t buf, rt_text *t)
{
	const lo_buffer *b = buf == LO_NOBUF ? NULL : &L->buf.v[buf];
	const ir_meta m = ir_meta_of(L->g, r);
	if (!b || b->place != RT_AT_ARENA || b->first < 0) return;
	rt_putf(t, "%s ", ir_ops[lo_node(L, r)->op].name);
	ir_put_meta(t, &m);
	rt_putf(t, " steps %d to %d%s%s\n", b->first, b->last, is_kept(L, b) ? ", kept" : "", buf == L->val[r].late ? ", again" : "");
}

static void put_memory(lo_low *L, void *t)
{
	uint32_t over = 0;
	for (ir_ref r = 0; r < L->g->node.n; r++) {
		put_temporary(L, r, L->val[r].buf, t);
		put_temporary(L, r, L->val[r].late, t);
	}
	rt_putf(t, "most in step %u: %zu bytes; kept: %zu bytes of %u values\n", L->full_step, L->full.bytes, L->full.kept_bytes, L->full.kept);
	for (uint32_t i = 0; i < L->g->out.n; i++) over += L->out[i].alias_ext >= 0;
	rt_putf(t, "outputs in place: %u of %u\n", over, L->g->out.n);
	if (L->recomputed) rt_putf(t, "recomputed: %u values\n", L->recomputed);
}

static tj_status print(const ir_graph *g, const lo_target *target, bool steps, void (*put)(lo_low *L, void *t), rt_text *t, rt_err *err)
{
	return lo_dry_run(g, &(lo_opts){ .name = "f", .target = target }, steps, put, t, err);
}

tj_status lo_print_groups(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err)
{
	return print(g, target, false, put_groups, t, err);
}
tj_status lo_dot_groups(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err)
{
	return print(g, target, false, put_dot, t, err);
}
tj_status lo_print_kernels(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err)
{
	return print(g, target, true, put_kernels, t, err);
}
tj_status lo_print_steps(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err)
{
	return print(g, target, true, put_steps, t, err);
}
tj_status lo_print_memory(const ir_graph *g, const lo_target *target, rt_text *t, rt_err *err)
{
	return print(g, target, true, put_memory, t, err);
}
