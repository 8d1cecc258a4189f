/* SPDX-License-Identifier: MIT */
/* Regions: turns events of control flow into calls of the builder (ir/region.c). The callbacks of VMAP, CUSTOM and CHECKPOINT have no
 * regions: their events are nodes of the graph around, computed from leaves that stand for one example, or for a gradient; their last YIELD
 * makes them what they are for (ir/vmap.c, ir/custom.c, ir/checkpoint.c). */
#include "jit/builder.h"

typedef struct jit_open { /* control flow that is not complete */
	struct jit_open *outer;
	const jit_node *event;
	ir_ref *in, *leaf;       /* VMAP, CUSTOM: its operands. VMAP: the leaves so far */
	ir_custom *custom;       /* CUSTOM: NULL: forward has not ended */
	ir_ref first;            /* CHECKPOINT: its callback's nodes are the graph's from here on */
	int nparam;              /* number of PARAMs so far */
} jit_open;

static bool has_regions(const jit_builder *b) { return !b->open || b->open->event->op < IR_OP_COUNT; }

static bool open_event(jit_builder *b, const jit_node *n, ir_ref *src)
{
	jit_open *o = rt_arena_alloc(b->mem, sizeof *o);
	if (!o) return false;
	*o = (jit_open){ .outer = b->open, .event = n, .in = src, .first = b->in.at->g->node.n };
	if (n->op == JIT_VMAP && !(o->leaf = rt_arena_alloc(b->mem, sizeof *o->leaf * (n->nsrc + 1u)))) return false;
	b->open = o;
	int64_t attr[IR_FLOW_ATTRS] = { 0 }; /* an event has the first ones */
	if (n->nattr) memcpy(attr, n->attr, sizeof *attr * n->nattr);
	return !has_regions(b) || ir_build_open(&b->in, (ir_op)n->op, n->nsrc, src, attr, n->site);
}

/* What `backward` of a CUSTOM gets: the operands, the results, their gradients. An operand is an event of its own, so one by which a
 * gradient is asked has a mark of its own. */
static ir_ref backward_parameter(const ir_custom *c, int i)
{
	const int of_out = i - c->nin, of_grad = of_out - c->nout;
	return of_out < 0 ? c->in[i] : of_grad < 0 ? c->out[of_out] : c->leaf[of_grad];
}

/* An argument of a callback. Its type is in the attributes, too. */
static ir_ref parameter(jit_builder *b, const jit_node *n)
{
	jit_open *o = b->open;
	if (has_regions(b)) return ir_build_input(&b->in, (int)n->attr[0], n->site);
	const int i = o->nparam++;
	if (o->custom) return backward_parameter(o->custom, i);
	ir_meta m = ir_meta_of(b->in.at->g, o->in[i]);
	memmove(m.dim, m.dim + 1, sizeof *m.dim * --m.rank);
	return o->leaf[i] = ir_leaf(b->in.at->g, &m, n->site);
}

/* Ends the first callback of a CUSTOM, then the second one: then an IR_get takes the results. */
static bool end_custom(jit_builder *b, const jit_node *n, ir_ref *out)
{
	jit_open *o = b->open;
	if (!o->custom) return (o->custom = ir_custom_new(b->in.at->g, o->event->nsrc, o->in, n->nsrc, out, o->event->site)) != NULL;
	for (int i = 0; i < o->custom->nin; i++)
		if (rt_is_float((tj_dtype)ir_at(b->in.at->g, o->in[i])->dtype)) o->custom->grad[i] = out[i];
	b->grad = o->custom->out;
	b->open = o->outer;
	return true;
}

/* Ends a CHECKPOINT. */
static bool end_checkpoint(jit_builder *b, const jit_node *n, ir_ref *out)
{
	const jit_open *o = b->open;
	b->open = o->outer;
	const ir_custom *c = ir_checkpoint_new(b->in.at->g, o->first, n->nsrc, out, o->event->site);
	if (c) b->grad = c->out;
	return c != NULL;
}

/* Node r is the example of an operand of a VMAP that is open here: that operand; else IR_NONE. */
static ir_ref mapped_by(const jit_builder *b, ir_ref r)
{
	for (const jit_open *o = b->open; o && o->event->op >= IR_OP_COUNT; o = o->outer)
		for (int i = 0; i < o->nparam && o->event->op == JIT_VMAP; i++)
			if (o->leaf[i] == r) return o->in[i];
	return IR_NONE;
}

bool jit_by_example(const jit_builder *b, ir_ref y, ir_ref w)
{
	enum { DIRECTLY = 1, BY_EXAMPLE = 2 };
	const ir_graph *g = b->in.at->g;
	uint8_t *at = has_regions(b) ? NULL : rt_arena_alloc(b->mem, g->node.n);
	for (ir_ref r = 0; at && r <= y; r++) {
		const ir_node *n = ir_at(g, r);
		const ir_ref from = mapped_by(b, r);
		at[r] = r == w ? DIRECTLY : from != IR_NONE && at[from] ? BY_EXAMPLE : 0;
		for (int k = 0; k < n->nsrc && n->op != IR_stop_gradient && (rt_is_float((tj_dtype)n->dtype) || ir_is_tuple(n)); k++)
			at[r] |= at[ir_src(g, n, k)];
	}
	return at && at[y] & BY_EXAMPLE;
}

/* Ends a VMAP: its results are what an IR_get takes next. */
static bool map_all(jit_builder *b, const jit_node *n, const ir_ref *out)
{
	const jit_open *o = b->open;
	const ir_vmap_ask q = {
		.n = o->event->attr[0], .nin = o->nparam, .nout = n->nsrc, .leaf = o->leaf, .in = o->in, .out = out, .site = o->event->site
	};
	b->open = o->outer;
	b->grad = rt_arena_alloc(b->mem, sizeof *b->grad * (n->nsrc + 1u));
	return b->grad && ir_vmap(b->in.at->g, &q, b->grad, NULL);
}

/* Ends the region of a callback; after the last callback, closes its op. */
static bool yield(jit_builder *b, const jit_node *n, ir_ref *out)
{
	if (!has_regions(b) && b->open->event->op == JIT_CHECKPOINT) return end_checkpoint(b, n, out);
	if (!has_regions(b)) return b->open->event->op == JIT_VMAP ? map_all(b, n, out) : end_custom(b, n, out);
	if (!ir_build_yield(&b->in, n->nsrc, out)) return false;
	if (!ir_build_complete(&b->in)) return true;
	b->open = b->open->outer;
	b->grad = NULL;
	return (b->event[jit_flow_of(n)->seq] = b->made = ir_build_close(&b->in)) != IR_NONE;
}

bool jit_flow_event(jit_builder *b, const jit_node *n, ir_ref *src)
{
	b->event[n->seq] = IR_NONE;
	switch (n->op) {
	case JIT_CALLBACK: return !has_regions(b) || ir_build_enter(&b->in);
	case JIT_PARAM: return (b->event[n->seq] = parameter(b, n)) != IR_NONE;
	case JIT_YIELD: return yield(b, n, src);
	case IR_get: return (b->event[n->seq] = b->grad ? b->grad[n->attr[0]] : ir_get(b->in.at->g, b->made, (int)n->attr[0], n->site)) != IR_NONE;
	default: return open_event(b, n, src);
	}
}
