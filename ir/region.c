/* SPDX-License-Identifier: MIT */
/* region: builds a graph inside of a graph. A value from outside that a region uses (a capture) becomes an operand of the region's
 * node and an input of the region, on each nesting level between.
 *
 *   open while %0                    %2 = while %0 %1 max_turns=0
 *   enter                              cond:
 *     %0 = input 0                       %0 = input f32[] slot=0
 *     %1 = use %1 of the graph    =>     %1 = input f32[] slot=1         the capture, behind the operands
 *     %2 = lt %0 %1                      %2 = lt bool[] %0 %1
 *   yield %2                             ret %2
 *   enter ... yield ... close          body: ...
 *
 * A value that is captured twice is one operand. Constants are copied into the region, where they fold; numbers are copied, too, with
 * the plan's slots. A region keeps only nodes that its outputs need, and a node keeps only captures that some region still reads. */
#include "ir/region.h"
#include "ir/vjp.h"

typedef struct ir_nest { /* a control-flow node that is being built */
	struct ir_nest *outer, *next;
	ir_op op;
	const char *site;
	int64_t attr[IR_FLOW_ATTRS];
	rt_vec(ir_ref) src;      /* operands, in the graph outside */
	uint32_t own;            /* operands from this index on are captures */
	ir_graph *region[2];     /* references */
	int done;                /* number of regions that were yielded */
} ir_nest;

static uint32_t first_slot(const ir_nest *n) { return n->op == IR_cond; } /* the operand of slot 0: the predicate is no input */

static bool fail(const ir_builder *b, tj_status code, const char *what)
{
	rt_fail(&b->at->g->err, code, "region", "%s", what);
	return false;
}

static bool nomem(const ir_builder *b) { return fail(b, TJ_ERR_NOMEM, "out of memory"); }
static bool failed(const ir_builder *b) { return ir_build_error(b)->code != TJ_OK; }

void ir_build_begin(ir_builder *b, ir_graph *g)
{
	*b = (ir_builder){ .top = { .g = g } };
	b->at = &b->top;
}

void ir_build_end(ir_builder *b)
{
	for (ir_nest *n = b->all; n; n = n->next) {
		for (int k = 0; k < 2; k++) ir_region_unref(n->region[k]);
		rt_vec_free(&n->src);
	}
	rt_arena_free(&b->mem);
	b->nest = b->all = NULL;
	b->at = &b->top;
}

const rt_err *ir_build_error(const ir_builder *b)
{
	for (const ir_frame *f = b->at; f; f = f->outer)
		if (f->g->err.code != TJ_OK) return &f->g->err;
	return &b->top.g->err;
}

/* ---- captures ---- */

/* r of the frame around `to`. */
static ir_ref capture(const ir_builder *b, const ir_frame *to, ir_ref r)
{
	const ir_graph *from = to->outer->g;
	ir_nest *n = to->of;
	int op = ir_at(from, r)->op;
	if (op == IR_const || op == IR_data || op == IR_num) return ir_copy(to->g, from, r, NULL);
	uint32_t k = n->own;
	while (k < n->src.n && n->src.v[k] != r) k++;
	if (k == n->src.n && !rt_push(&n->src, r)) return nomem(b), IR_NONE;
	const ir_meta m = ir_meta_of(from, r);
	return ir_input(to->g, (int)(k - first_slot(n)), &m, NULL, ir_at(from, r)->site);
}

static ir_ref bring(const ir_builder *b, const ir_frame *to, const ir_frame *home, ir_ref r)
{
	if (to == home) return r;
	if (!to->outer) return fail(b, TJ_ERR_STATE, "a value is used outside of its region"), IR_NONE;
	r = bring(b, to->outer, home, r);
	return r == IR_NONE ? r : capture(b, to, r);
}

ir_ref ir_build_use(ir_builder *b, const ir_frame *home, ir_ref r) { return r == IR_NONE ? r : bring(b, b->at, home, r); }

/* ---- one node ---- */
bool ir_build_open(ir_builder *b, ir_op op, int nsrc, const ir_ref *src, const int64_t *attr, const char *site)
{
	ir_nest *n = failed(b) ? NULL : rt_arena_alloc(&b->mem, sizeof *n);
	if (!n) return nomem(b);
	n->op = op;
	n->site = site;
	n->outer = b->nest;
	n->next = b->all;
	b->nest = b->all = n;
	if (ir_flow_info(op)->nattr) memcpy(n->attr, attr, sizeof *attr * ir_flow_info(op)->nattr);
	for (int k = 0; k < nsrc; k++) {
		if (src[k] == IR_NONE) return false;
		if (!rt_push(&n->src, src[k])) return nomem(b);
	}
	n->own = n->src.n;
	return true;
}

bool ir_build_enter(ir_builder *b)
{
	ir_nest *n = b->nest;
	if (failed(b)) return false;
	if (!n || b->at->of == n || ir_build_complete(b)) return fail(b, TJ_ERR_STATE, "there is no region to begin here");
	ir_frame *in = rt_arena_alloc(&b->mem, sizeof *in);
	if (!in || !(n->region[n->done] = ir_region_new())) return nomem(b);
	in->g = n->region[n->done];
	in->outer = b->at;
	in->of = n;
	b->at = in;
	return true;
}

ir_ref ir_build_input(ir_builder *b, int k, const char *site)
{
	const ir_nest *n = b->at->of;
	if (failed(b)) return IR_NONE;
	if (!n || k < 0 || k + first_slot(n) >= n->own) return fail(b, TJ_ERR_ARG, "there is no such operand"), IR_NONE;
	ir_meta m = ir_meta_of(b->at->outer->g, n->src.v[(uint32_t)k + first_slot(n)]);
	if (n->op == IR_scan && k >= n->attr[0] && k < n->attr[0] + n->attr[1]) {
		if (!m.rank) return fail(b, TJ_ERR_SHAPE, "xs has no axis 0"), IR_NONE;
		memmove(m.dim, m.dim + 1, sizeof *m.dim * --m.rank);
	}
	return ir_input(b->at->g, k, &m, NULL, site);
}

bool ir_build_yield(ir_builder *b, int n, const ir_ref *out)
{
	ir_nest *of = b->at->of;
	if (failed(b)) return false;
	if (!of) return fail(b, TJ_ERR_STATE, "no region is open");
	ir_graph *full = b->at->g, *lean = ir_region_new();
	bool ok = lean || nomem(b);
	for (int k = 0; ok && k < n; k++) ok = ir_ret(full, out[k]);
	if (!ok || ir_pass_lean(full, lean, &full->err) != TJ_OK) {
		ir_region_unref(lean);
		return false;
	}
	of->region[of->done++] = lean;
	ir_region_unref(full);
	b->at = b->at->outer;
	return true;
}

bool ir_build_complete(const ir_builder *b) { return b->nest && b->nest->done == ir_flow_info(b->nest->op)->nregion; }

/* Drops captures that no region reads. place[k]: new index of operand k. Returns how many stay. */
static uint32_t place_operands(const ir_nest *n, uint32_t *place)
{
	uint32_t count = 0;
	for (uint32_t k = 0; k < n->src.n; k++) place[k] = k < n->own;
	for (int i = 0; i < n->done; i++)
		for (ir_ref r = 0; r < n->region[i]->node.n; r++) {
			const ir_node *x = ir_at(n->region[i], r);
			if (x->op == IR_input) place[(uint32_t)ir_attr(n->region[i], x)[0] + first_slot(n)] = 1;
		}
	for (uint32_t k = 0; k < n->src.n; k++) place[k] = place[k] ? count++ : UINT32_MAX;
	return count;
}

/* Gives the inputs of a complete region the slots in place[]. Nothing more is emitted into it, so it is sealed. */
static void renumber(const ir_nest *n, ir_graph *region, const uint32_t *place)
{
	ir_graph_seal(region);
	for (ir_ref r = 0; r < region->node.n; r++) {
		int64_t *slot = region->ints.v + ir_at(region, r)->attr;
		if (ir_at(region, r)->op == IR_input) *slot = place[(uint32_t)*slot + first_slot(n)] - first_slot(n);
	}
}

ir_ref ir_build_close(ir_builder *b)
{
	ir_nest *n = b->nest;
	if (failed(b)) return IR_NONE;
	if (!ir_build_complete(b) || b->at->of == n) return fail(b, TJ_ERR_STATE, "a region is missing"), IR_NONE;
	uint32_t *place = rt_arena_alloc(&b->mem, (n->src.n + 1) * sizeof *place);
	if (!place) return nomem(b), IR_NONE;
	uint32_t count = place_operands(n, place);
	if (count > UINT16_MAX) return fail(b, TJ_ERR_LIMIT, "too many operands and captures"), IR_NONE;
	for (int i = 0; i < n->done; i++) renumber(n, n->region[i], place);
	for (uint32_t k = 0; k < n->src.n; k++)
		if (place[k] != UINT32_MAX) n->src.v[place[k]] = n->src.v[k];
	b->nest = n->outer;
	return ir_flow(b->at->g, n->op, (int)count, n->src.v, n->region, n->attr, n->site);
}

/* ---- gradients by values from outside ---- */
static bool carries_on(const ir_nest *n, uint32_t k)
{
	return n->op == IR_while ? k < n->own : n->op == IR_scan && (int64_t)k < n->attr[0];
}

/* Value r of frame f depends on w of frame `home`, by a way on which gradients pass, without `stop`. Carries are taken to. */
static bool reaches(const ir_frame *f, ir_ref r, const ir_frame *home, ir_ref w, ir_ref stop, bool *oom)
{
	rt_vec(ir_ref) open = { 0 };
	bool *seen = rt_calloc(f->g->node.n + 1u), found = false;
	*oom |= !seen || !rt_push(&open, r);
	while (!*oom && !found && open.n) {
		const ir_ref x = open.v[--open.n];
		const ir_node *n = ir_at(f->g, x);
		if (seen[x] || x == stop || !(rt_is_float((tj_dtype)n->dtype) || ir_is_tuple(n))) continue;
		seen[x] = true;
		found = f == home && x == w;
		if (n->op == IR_input && f->outer && !found) {
			const uint32_t k = (uint32_t)ir_attr(f->g, n)[0] + first_slot(f->of);
			found = carries_on(f->of, k) || reaches(f->outer, f->of->src.v[k], home, w, IR_NONE, oom);
		}
		for (int k = 0; !found && !*oom && ir_ops[n->op].grad != IR_GRAD_FLAT && k < n->nsrc; k++) *oom |= !rt_push(&open, ir_src(f->g, n, k));
	}
	rt_vec_free(&open);
	rt_free(seen);
	return found;
}

bool ir_build_whole(const ir_builder *b, ir_ref y, const ir_frame *home, ir_ref w, ir_ref as)
{
	bool oom = false;
	if (home == b->at) return true;
	const bool other = reaches(b->at, y, home, w, as, &oom);
	return oom ? nomem(b) : !other;
}

/* ---- from a region to another ---- */
bool ir_build_copy(ir_builder *b, const ir_graph *region, int nslot, const ir_ref *slot, ir_ref *map)
{
	ir_recopy c;
	if (failed(b)) return nomem(b);
	bool ok = ir_recopy_open(&c, region, b->at->g, map);
	for (ir_ref r = 0; ok && r < region->node.n; r++) {
		const ir_node *n = ir_at(region, r);
		const int64_t at = n->op == IR_input ? ir_attr(region, n)[0] : -1;
		if (n->op != IR_input) ok = ir_recopy_node(&c, r);
		else if (at < nslot) ok = (map[r] = slot[at]) != IR_NONE;
		else ok = fail(b, TJ_ERR_ARG, "an input of the region has no value");
	}
	return ir_recopy_close(&c, ok);
}
