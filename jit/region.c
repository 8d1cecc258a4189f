/* Regions: from the events of control flow to its node. A callback's events go to a graph of their own; what they use from
 * around becomes an operand of the node and an input of the region, on every level on the way. */
#include "jit/build.h"

typedef struct jit_flow {
	struct jit_flow *outer, *next;
	const jit_node *node;
	rt_vec(ir_ref) src;      /* what the slots of the regions stand for; those from `own` on are captured */
	uint32_t own;
	ir_ref pred;             /* COND */
	ir_graph *region[2];     /* references held */
	int done;                /* regions that are complete */
} jit_flow;

/* ---- captures ---- */

/* Leaves are copied: constants fold inside, numbers are those of the plan. */
static ir_ref capture(jit_frame *to, ir_ref r)
{
	ir_graph *from = to->outer->g;
	jit_flow *f = to->of;
	int op = ir_at(from, r)->op;
	if (op == IR_const || op == IR_data || op == IR_num) return ir_copy(to->g, from, r, NULL);
	uint32_t k = f->own;
	while (k < f->src.n && f->src.v[k] != r) k++;
	if (k == f->src.n && !rt_push(&f->src, r)) {
		rt_fail(&to->g->err, TJ_ERR_NOMEM, "graph", "out of memory");
		return IR_NONE;
	}
	const ir_meta m = ir_meta_of(from, r);
	return ir_input(to->g, (int)k, &m, NULL, ir_at(from, r)->site);
}

ir_ref jit_bring(jit_builder *b, jit_frame *to, const jit_frame *from, ir_ref r)
{
	if (to == from || r == IR_NONE) return r;
	if (!to->outer) { /* a value of a callback that has returned: events of this kind are refused */
		rt_fail(&b->g.err, TJ_ERR_STATE, "graph", "a value is used outside of its callback");
		return IR_NONE;
	}
	r = jit_bring(b, to->outer, from, r);
	return r == IR_NONE ? r : capture(to, r);
}

/* ---- events ---- */
static bool open_flow(jit_builder *b, const jit_node *n)
{
	jit_flow *f = rt_arena_alloc(b->mem, sizeof *f);
	if (!f) return false;
	f->node = n;
	f->outer = b->flow;
	f->next = b->flows;
	f->pred = IR_NONE;
	b->flow = b->flows = f;
	for (int k = 0; k < n->nsrc; k++) {
		ir_ref r = jit_operand_of(b, n, n->src[k]);
		if (r == IR_NONE) return false;
		if (n->op == IR_cond && !k) f->pred = r;
		else if (!rt_push(&f->src, r)) return false;
	}
	f->own = f->src.n;
	return true;
}

static bool open_region(jit_builder *b)
{
	jit_frame *in = rt_arena_alloc(b->mem, sizeof *in);
	if (!in || !(in->g = ir_region_new())) return false;
	b->flow->region[b->flow->done] = in->g;
	in->outer = b->at;
	in->of = b->flow;
	b->at = in;
	return true;
}

static bool param(jit_builder *b, const jit_node *n)
{
	const ir_meta m = jit_layout_meta(n->layout);
	b->event[n->seq] = ir_input(b->at->g, (int)n->attr[0], &m, NULL, n->site);
	return b->event[n->seq] != IR_NONE;
}

/* All regions are there: the node, in the graph around them. */
static bool close_flow(jit_builder *b)
{
	jit_flow *f = b->flow;
	const jit_node *n = f->node;
	uint32_t first = n->op == IR_cond, count = f->src.n + first;
	ir_ref *src = rt_arena_alloc(b->mem, (count + 1) * sizeof *src);
	if (!src || count > UINT16_MAX) return false;
	if (first) src[0] = f->pred;
	if (f->src.n) memcpy(src + first, f->src.v, f->src.n * sizeof *src);
	b->flow = f->outer;
	b->made = ir_flow(b->at->g, (ir_op)n->op, (int)count, src, f->region, n->attr, n->site);
	return b->made != IR_NONE;
}

/* The region without what its outputs do not need. */
static bool close_region(jit_builder *b, const jit_node *n)
{
	jit_flow *f = b->flow;
	ir_graph *full = b->at->g, *lean = ir_region_new();
	bool ok = lean != NULL;
	for (int k = 0; ok && k < n->nsrc; k++) ok = ir_ret(full, jit_operand_of(b, n, n->src[k]));
	if (!ok || ir_pass_dce(full, lean, NULL, &full->err) != TJ_OK) {
		ir_region_unref(lean);
		return false;
	}
	f->region[f->done] = lean;
	ir_region_unref(full);
	b->at = b->at->outer;
	return ++f->done < ir_flow_info(f->node->op)->nregion || close_flow(b);
}

bool jit_flow_event(jit_builder *b, const jit_node *n)
{
	b->event[n->seq] = IR_NONE;
	switch (n->op) {
	case JIT_CALLBACK: return open_region(b);
	case JIT_PARAM: return param(b, n);
	case JIT_YIELD: return close_region(b, n);
	case IR_get: return (b->event[n->seq] = ir_get(b->at->g, b->made, (int)n->attr[0], n->site)) != IR_NONE;
	default: return open_flow(b, n);
	}
}

void jit_flow_end(jit_builder *b)
{
	for (jit_flow *f = b->flows; f; f = f->next) {
		for (int k = 0; k < 2; k++) ir_region_unref(f->region[k]);
		rt_vec_free(&f->src);
	}
	b->flow = b->flows = NULL;
}
