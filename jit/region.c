/* Regions: turns events of control flow into calls of the builder (ir/region.c). */
#include "jit/builder.h"

/* Ends the region of a callback; after the last callback, closes its op. */
static bool yield(jit_builder *b, const jit_node *n, ir_ref *out)
{
	if (!ir_build_yield(&b->in, n->nsrc, out)) return false;
	if (!ir_build_complete(&b->in)) return true;
	b->grad = NULL;
	return (b->event[jit_flow_of(n)->seq] = b->made = ir_build_close(&b->in)) != IR_NONE;
}

bool jit_flow_event(jit_builder *b, const jit_node *n, ir_ref *src)
{
	b->event[n->seq] = IR_NONE;
	switch (n->op) {
	case JIT_CALLBACK: return ir_build_enter(&b->in);
	case JIT_PARAM: return (b->event[n->seq] = ir_build_input(&b->in, (int)n->attr[0], n->site)) != IR_NONE;
	case JIT_YIELD: return yield(b, n, src);
	case IR_get: return (b->event[n->seq] = b->grad ? b->grad[n->attr[0]] : ir_get(b->in.at->g, b->made, (int)n->attr[0], n->site)) != IR_NONE;
	default: return ir_build_open(&b->in, (ir_op)n->op, n->nsrc, src, n->attr, n->site);
	}
}
