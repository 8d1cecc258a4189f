/* SPDX-License-Identifier: MIT */
/* custom: values whose gradient the user gives. Their nodes are marks, which have the inputs as further operands; the graph keeps what
 * belongs to them until all gradients are there.
 *
 *   %1 = round f32[4] %0                        what forward computed from %0
 *   %2 = mark f32[4] %1 %0   (custom 0)         its value, as others use it
 *   %3 = mark f32[4] ..                         a leaf: the gradient by %2
 *   %4 = mul f32[4] %3 %w                       what backward computed: the gradient by %0
 *
 * A gradient that reaches %2 takes the place of %3, and what backward computed from it is emitted once more. */
#include "ir/ir.h"

const ir_custom *ir_custom_of(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	return n->op == IR_mark && n->nattr > 1 ? g->custom.v[ir_attr(g, n)[1]] : NULL;
}

static ir_ref *refs(ir_graph *g, int n, const ir_ref *from)
{
	ir_ref *r = rt_arena_alloc(&g->mem, sizeof *r * ((size_t)n + 1));
	if (r && from && n) memcpy(r, from, sizeof *r * (size_t)n);
	return r;
}

ir_custom *ir_custom_new(ir_graph *g, int nin, const ir_ref *in, int nout, const ir_ref *value, const char *site)
{
	ir_custom *c = rt_arena_alloc(&g->mem, sizeof *c);
	ir_ref *src = refs(g, nin + 1, NULL);
	if (c)
		*c = (ir_custom){ .nin = nin,
			          .nout = nout,
			          .in = refs(g, nin, in),
			          .out = refs(g, nout, NULL),
			          .leaf = refs(g, nout, NULL),
			          .grad = refs(g, nin, NULL),
			          .site = site };
	if (!c || !src || !c->in || !c->out || !c->leaf || !c->grad || !rt_push(&g->custom, c))
		return rt_fail(&g->err, TJ_ERR_NOMEM, "custom_grad", "out of memory"), NULL;
	for (int i = 0; i < nin; i++) c->grad[i] = IR_NONE;
	if (nin) memcpy(src + 1, in, sizeof *src * (size_t)nin);
	for (int i = 0; i < nout; i++) {
		const ir_meta m = ir_meta_of(g, value[i]);
		const int64_t attr[] = { INT64_MIN + (int64_t)g->node.n, (int64_t)g->custom.n - 1 };
		src[0] = value[i];
		c->out[i] = ir_append(g, IR_mark, &m, nin + 1, src, 2, attr, site);
		c->leaf[i] = ir_leaf(g, &m, site);
		if (c->out[i] == IR_NONE || c->leaf[i] == IR_NONE) return NULL;
	}
	return c;
}

ir_ref ir_again(ir_graph *g, ir_ref r, const ir_ref *src)
{
	const ir_node n = *ir_at(g, r); /* emitting moves nodes and attributes */
	int64_t *attr = rt_arena_alloc(&g->mem, sizeof *attr * (n.nattr + 1u));
	if (!attr) return IR_NONE;
	if (n.nattr) memcpy(attr, ir_attr(g, &n), sizeof *attr * n.nattr);
	if (n.op == IR_mark) return src[0];
	if (n.op == IR_get) return ir_get(g, src[0], (int)attr[0], n.site);
	if (ir_is_flow(n.op)) return ir_flow_copy(g, g, &n, src);
	g->mode = n.mode;
	const ir_ref made = ir_emit(g, (ir_op)n.op, n.nsrc, src, n.nattr, attr, n.site);
	g->mode = 0;
	return ir_keep_device(g, made, &n);
}

typedef struct range { ir_ref first; ir_ref *to; } range; /* nodes from `first` on, and what stands for them */

static ir_ref now(const range *a, ir_ref r) { return r < a->first ? r : a->to[r - a->first]; }

/* Emits node r again if an operand was replaced. */
static ir_ref moved(ir_graph *g, const range *a, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	bool any = false;
	for (int k = 0; k < n->nsrc; k++) any |= now(a, ir_src(g, n, k)) != ir_src(g, n, k);
	if (!any) return r;
	ir_ref *src = refs(g, n->nsrc, NULL);
	for (int k = 0; src && k < n->nsrc; k++) src[k] = now(a, ir_src(g, n, k));
	return src ? ir_again(g, r, src) : IR_NONE;
}

bool ir_replace(ir_graph *g, int n, const ir_ref *leaf, const ir_ref *with, int nout, const ir_ref *out, ir_ref *to)
{
	range a = { .first = g->node.n };
	ir_ref last = 0;
	for (int i = 0; i < n; i++) a.first = leaf[i] < a.first ? leaf[i] : a.first;
	for (int i = 0; i < nout; i++) last = out[i] > last ? out[i] : last;
	a.to = last >= a.first ? rt_alloc(sizeof *a.to * (last - a.first + 1)) : NULL;
	if (last >= a.first && !a.to) return rt_fail(&g->err, TJ_ERR_NOMEM, "custom_grad", "out of memory"), false;
	bool ok = true;
	for (ir_ref r = a.first; ok && r <= last; r++) {
		ir_ref x = IR_NONE;
		for (int i = 0; i < n; i++)
			if (leaf[i] == r) x = with[i];
		a.to[r - a.first] = r;
		ok = (a.to[r - a.first] = x != IR_NONE ? x : moved(g, &a, r)) != IR_NONE;
	}
	for (int i = 0; ok && i < nout; i++) to[i] = now(&a, out[i]);
	rt_free(a.to);
	return ok;
}
