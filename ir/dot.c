/* SPDX-License-Identifier: MIT */
/* dot: prints a graph for Graphviz (`dot -Tsvg`). Leaves are ellipses, ops are boxes; each shows its shape and the user's line. */
#include "ir/ir.h"

static void put_label(const ir_graph *g, ir_ref r, rt_text *t)
{
	const ir_node *n = ir_at(g, r);
	const ir_meta m = ir_meta_of(g, r);
	rt_putf(t, "%s\\n", ir_ops[n->op].name);
	if (!ir_is_tuple(n)) ir_put_meta(t, &m);
	const char *site = n->site ? strrchr(n->site, '/') : NULL;
	if (n->site) rt_putf(t, "\\n%s", site ? site + 1 : n->site);
}

void ir_dot(const ir_graph *g, rt_text *t)
{
	rt_puts(t, "digraph {\n\tnode [shape=box, fontname=\"monospace\", fontsize=10]\n");
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		rt_putf(t, "\tn%u [label=\"", r);
		put_label(g, r, t);
		rt_puts(t, ir_is_leaf(n->op) ? "\", shape=ellipse]\n" : "\"]\n");
		for (int k = 0; k < n->nsrc; k++) rt_putf(t, "\tn%u -> n%u\n", ir_src(g, n, k), r);
	}
	for (uint32_t i = 0; i < g->out.n; i++)
		rt_putf(t, "\tout%u [label=\"out %u\", shape=ellipse, style=filled]\n\tn%u -> out%u\n", i, i, g->out.v[i], i);
	rt_puts(t, "}\n");
}
