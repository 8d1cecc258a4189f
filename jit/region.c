/* Regions: turns events of control flow into calls of the builder (ir/region.c). The callback of a VMAP has no region: its events are nodes of
 * the graph around, computed from leaves that stand for one example; its YIELD makes them nodes for all examples (ir/vmap.c). */
#include "jit/builder.h"

typedef struct jit_open { /* control flow that is not complete */
	struct jit_open *outer;
	const jit_node *event;
	ir_ref *in, *leaf;       /* VMAP: its operands, and the leaves so far */
	int nleaf;
} jit_open;

static bool is_vmap(const jit_builder *b) { return b->open && b->open->event->op == JIT_VMAP; }

static bool open_event(jit_builder *b, const jit_node *n, ir_ref *src)
{
	jit_open *o = rt_arena_alloc(b->mem, sizeof *o);
	if (!o) return false;
	*o = (jit_open){ .outer = b->open, .event = n, .in = src };
	if (n->op == JIT_VMAP && !(o->leaf = rt_arena_alloc(b->mem, sizeof *o->leaf * (n->nsrc + 1u)))) return false;
	b->open = o;
	return n->op == JIT_VMAP || ir_build_open(&b->in, (ir_op)n->op, n->nsrc, src, n->attr, n->site);
}

/* An argument of a callback. Its type is in the attributes. */
static ir_ref parameter(jit_builder *b, const jit_node *n)
{
	if (!is_vmap(b)) return ir_build_input(&b->in, (int)n->attr[0], n->site);
	const ir_meta m = ir_meta_of(b->in.at->g, b->open->in[b->open->nleaf]);
	ir_meta one = m;
	memmove(one.dim, one.dim + 1, sizeof *one.dim * --one.rank);
	return b->open->leaf[b->open->nleaf++] = ir_leaf(b->in.at->g, &one, n->site);
}

/* Ends a VMAP: its results are what an IR_get takes next. */
static bool map_all(jit_builder *b, const jit_node *n, const ir_ref *out)
{
	const jit_open *o = b->open;
	const ir_vmap_ask q = { .n = o->event->attr[0], .nin = o->nleaf, .nout = n->nsrc, .leaf = o->leaf, .in = o->in, .out = out, .site = o->event->site };
	b->open = o->outer;
	b->grad = rt_arena_alloc(b->mem, sizeof *b->grad * (n->nsrc + 1u));
	return b->grad && ir_vmap(b->in.at->g, &q, b->grad, NULL);
}

/* Ends the region of a callback; after the last callback, closes its op. */
static bool yield(jit_builder *b, const jit_node *n, ir_ref *out)
{
	if (is_vmap(b)) return map_all(b, n, out);
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
	case JIT_CALLBACK: return is_vmap(b) || ir_build_enter(&b->in);
	case JIT_PARAM: return (b->event[n->seq] = parameter(b, n)) != IR_NONE;
	case JIT_YIELD: return yield(b, n, src);
	case IR_get: return (b->event[n->seq] = b->grad ? b->grad[n->attr[0]] : ir_get(b->in.at->g, b->made, (int)n->attr[0], n->site)) != IR_NONE;
	default: return open_event(b, n, src);
	}
}
