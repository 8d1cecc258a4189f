/* SPDX-License-Identifier: MIT */
/* loops: control flow that computes once, and only what is read.
 *
 * requires a graph before its regions are lowered; keeps what its outputs are; sees into regions
 *
 *   %2 = scan %0 %1                          %2 = scan %0 %1                          a gradient runs a loop once more, to
 *     body: ret h, y                           body: ret h, y, h0                     keep its carries (ir/vjpflow.c)
 *   %3 = get %2 i=1                   =>     %3 = get %2 i=1
 *   %4 = scan %0 %1                          %5 = get %2 i=2
 *     body: ret h, h0, sum
 *   %5 = get %4 i=1                          the sum is read by nothing
 *
 * Two loops become one if they run the same turns, and the carries of one are the first of the other. Results that nothing
 * reads go, with the carries, slices of xs and captures that only they need. */
#include "lower/loops.h"

typedef struct flow {        /* a control-flow node, or two in one */
	ir_ref into;             /* the earlier one that computes its results, too; IR_NONE: none */
	ir_graph *region[2];     /* references */
	int nregion, carries, xs, nsrc;
	bool counted;
	ir_ref *src;             /* operands, of the old graph */
	int *place;              /* by result of the node: its number in the last region */
	bool *read;              /* by output of the last region: something reads this result */
	int *number;             /* the same: its number in the new node; -1: gone */
} flow;

typedef struct job {
	const ir_graph *from;
	ir_graph *to;
	flow *flow;              /* by node; valid for control flow */
	bool *live;
	ir_ref *map, *src;
	rt_arena mem;
	bool oom;
} job;

static void *room(job *j, size_t bytes)
{
	void *p = rt_arena_alloc(&j->mem, bytes + 1);
	if (!p) j->oom = true;
	return p;
}

bool lo_has_flow(const ir_graph *g)
{
	for (ir_ref r = 0; r < g->node.n; r++)
		if (ir_is_flow(ir_at(g, r)->op)) return true;
	return false;
}

static ir_graph *last_region(const flow *f) { return f->region[f->nregion - 1]; }
static int results(const flow *f) { return (int)last_region(f)->out.n; }
static int first_slot(const ir_node *n) { return n->op == IR_cond; } /* the operand of slot 0 */
static int first_capture(const flow *f) { return f->carries + f->xs + f->counted; }

static void keep_region(flow *f, int k, ir_graph *r)
{
	ir_graph *was = f->region[k];
	f->region[k] = ir_region_ref(r);
	ir_region_unref(was);
}

/* The region, after this pass. */
static void add_region(job *j, flow *f, int k, ir_graph *region)
{
	ir_graph *made = lo_has_flow(region) ? ir_region_new() : NULL;
	if (!lo_has_flow(region)) keep_region(f, k, region);
	else if (made && lo_loops(region, made, NULL) == TJ_OK) ir_graph_seal(made), keep_region(f, k, made);
	else j->oom = true;
	ir_region_unref(made);
}

static void describe(job *j, ir_ref r)
{
	const ir_node *n = ir_at(j->from, r);
	const int64_t *attr = ir_attr(j->from, n);
	flow *f = &j->flow[r];
	*f = (flow){ .into = IR_NONE, .nregion = ir_flow_info(n->op)->nregion, .carries = ir_flow_carries(j->from, n), .nsrc = n->nsrc };
	if (n->op == IR_scan) f->xs = (int)attr[2], f->counted = attr[5] != 0;
	for (int k = 0; k < f->nregion; k++) add_region(j, f, k, ir_flow_region(j->from, n, k));
	if (j->oom) return;
	f->src = room(j, sizeof *f->src * n->nsrc);
	f->place = room(j, sizeof *f->place * (size_t)results(f));
	for (int k = 0; f->src && k < n->nsrc; k++) f->src[k] = ir_src(j->from, n, k);
	for (int k = 0; f->place && k < results(f); k++) f->place[k] = k;
}

/* ---- regions ---- */
/* Marks what the marked nodes need. slot[k], if given: the input of slot k is among it. */
static void need(const ir_graph *region, bool *live, bool *slot)
{
	for (ir_ref r = region->node.n; r-- > 0;) {
		const ir_node *n = ir_at(region, r);
		for (int k = 0; live[r] && k < n->nsrc; k++) live[ir_src(region, n, k)] = true;
		if (live[r] && n->op == IR_input && slot) slot[ir_attr(region, n)[0]] = true;
	}
}

/* Copies what out[] needs into `to`. slot[k]: the slot that the input of slot k gets. Fills map[old] = new. */
static bool copy_region(job *j, const ir_graph *region, const int *slot, int nout, const ir_ref *out, ir_graph *to, ir_ref *map)
{
	ir_ref *src = room(j, sizeof *src * region->refs.n);
	bool *live = room(j, region->node.n);
	if (j->oom) return false;
	for (int i = 0; i < nout; i++) live[out[i]] = true;
	need(region, live, NULL);
	for (ir_ref r = 0; r < region->node.n; r++) {
		const ir_node *n = ir_at(region, r);
		const ir_meta m = ir_meta_of(region, r);
		map[r] = IR_NONE;
		if (!live[r]) continue;
		for (int k = 0; k < n->nsrc; k++) src[k] = map[ir_src(region, n, k)];
		map[r] = n->op == IR_input ? ir_input(to, slot[ir_attr(region, n)[0]], &m, NULL, n->site) : ir_copy(to, region, r, src);
		if (map[r] == IR_NONE) return false;
	}
	return true;
}

/* The region with outputs out[] only, and with other slots. NULL: an error. */
static ir_graph *lean_region(job *j, const ir_graph *region, const int *slot, int nout, const ir_ref *out)
{
	ir_graph *lean = ir_region_new();
	ir_ref *map = room(j, sizeof *map * region->node.n);
	bool ok = lean && map && copy_region(j, region, slot, nout, out, lean, map);
	for (int i = 0; ok && i < nout; i++) ok = ir_ret(lean, map[out[i]]);
	if (ok) return ir_graph_seal(lean), lean;
	j->oom |= !lean || lean->err.code != TJ_OK;
	ir_region_unref(lean);
	return NULL;
}

/* ---- two loops in one ---- */
/* slot[k]: the slot of `big` that has the value of slot k of `small`. false: some have none. */
static bool find_slots(const flow *big, const flow *small, int *slot)
{
	if (big->xs != small->xs || big->counted != small->counted || big->carries < small->carries) return false;
	for (int k = 0; k < small->nsrc; k++) {
		int at = k < small->carries ? k : k + big->carries - small->carries;
		if (k >= first_capture(small))
			for (at = first_capture(big); at < big->nsrc && big->src[at] != small->src[k]; at++) {}
		if (at >= big->nsrc || big->src[at] != small->src[k]) return false;
		slot[k] = at;
	}
	return true;
}

static int *same_slots(job *j, int n)
{
	int *slot = room(j, sizeof *slot * (size_t)n);
	for (int k = 0; slot && k < n; k++) slot[k] = k;
	return slot;
}

static bool same_test(job *j, const flow *big, const flow *small, const int *slot)
{
	if (big->nregion < 2) return true;
	ir_graph *a = lean_region(j, big->region[0], same_slots(j, big->nsrc), 1, big->region[0]->out.v),
		 *b = lean_region(j, small->region[0], slot, 1, small->region[0]->out.v);
	const bool same = a && b && ir_same_graph(a, b);
	ir_region_unref(a);
	ir_region_unref(b);
	return same;
}

/* The body of `big` with the ys of `small` behind its own. place[i]: the output that is output i of small. NULL: they carry different
 * values. */
static ir_graph *both_bodies(job *j, const flow *big, const flow *small, const int *slot, int *place)
{
	const ir_graph *b = last_region(big), *s = last_region(small);
	ir_graph *body = ir_region_new();
	ir_ref *of_big = room(j, sizeof *of_big * b->node.n), *of_small = room(j, sizeof *of_small * s->node.n);
	const int *same = same_slots(j, big->nsrc);
	bool ok = body && !j->oom && copy_region(j, b, same, (int)b->out.n, b->out.v, body, of_big) &&
	          copy_region(j, s, slot, (int)s->out.n, s->out.v, body, of_small);
	for (uint32_t i = 0; ok && i < b->out.n; i++) ok = ir_ret(body, of_big[b->out.v[i]]);
	for (int i = 0; ok && i < small->carries; i++) place[i] = i, ok = of_small[s->out.v[i]] == body->out.v[i];
	for (uint32_t i = (uint32_t)small->carries; ok && i < s->out.n; i++) {
		uint32_t at = (uint32_t)big->carries;
		while (at < body->out.n && body->out.v[at] != of_small[s->out.v[i]]) at++;
		ok = at < body->out.n || ir_ret(body, of_small[s->out.v[i]]);
		place[i] = (int)at;
	}
	if (ok) return ir_graph_seal(body), body;
	ir_region_unref(body);
	return NULL;
}

/* The operands of node r are known where node `at` is computed; constants are known anywhere. */
static bool known_at(const ir_graph *g, const flow *f, ir_ref at)
{
	for (int k = 0; k < f->nsrc; k++)
		if (f->src[k] >= at && !ir_is_leaf(ir_at(g, f->src[k])->op)) return false;
	return true;
}

/* place[i]: where output i of the node's last region went. */
static void move_results(const job *j, ir_ref r, const int *place)
{
	const int n = (int)ir_flow_results(j->from, ir_at(j->from, r));
	for (int i = 0; i < n; i++) j->flow[r].place[i] = place[j->flow[r].place[i]];
}

/* Makes the later loop b a part of a, if they run the same turns. */
static void join(job *j, ir_ref a, ir_ref b)
{
	flow *f = &j->flow[a], *g = &j->flow[b];
	const bool later = g->carries >= f->carries;
	flow *big = later ? g : f, *small = later ? f : g;
	int *slot = room(j, sizeof *slot * (size_t)small->nsrc), *place = room(j, sizeof *place * (size_t)results(small));
	if (j->oom || !known_at(j->from, g, a) || !find_slots(big, small, slot) || !same_test(j, big, small, slot)) return;
	ir_graph *body = both_bodies(j, big, small, slot, place);
	if (!body) return;
	for (ir_ref r = a; r <= b; r++)
		if (r == (later ? a : b) || (later && j->live[r] && ir_is_flow(ir_at(j->from, r)->op) && j->flow[r].into == a)) move_results(j, r, place);
	keep_region(f, f->nregion - 1, body);
	ir_region_unref(body);
	if (later) {
		if (f->nregion > 1) keep_region(f, 0, g->region[0]);
		f->carries = g->carries, f->nsrc = g->nsrc, f->src = g->src;
	}
	g->into = a;
}

static bool same_turns(const ir_graph *g, const ir_node *a, const ir_node *b)
{
	const int64_t *p = ir_attr(g, a), *q = ir_attr(g, b);
	if (a->op != b->op || a->op == IR_cond || a->mode != b->mode) return false;
	return a->op == IR_while ? p[2] == q[2] : p[3] == q[3] && p[4] == q[4];
}

static void join_all(job *j)
{
	for (ir_ref a = 0; a < j->from->node.n; a++) {
		if (!j->live[a] || !ir_is_flow(ir_at(j->from, a)->op) || j->flow[a].into != IR_NONE) continue;
		for (ir_ref b = a + 1; !j->oom && b < j->from->node.n; b++)
			if (j->live[b] && same_turns(j->from, ir_at(j->from, a), ir_at(j->from, b)) && j->flow[b].into == IR_NONE) join(j, a, b);
	}
}

/* ---- what is read ---- */
/* slot[k]: an operand that is needed for the results that are read. A carry that is needed is read. */
static void find_needed(job *j, flow *f, bool *slot)
{
	const ir_graph *body = last_region(f);
	bool *live = room(j, body->node.n), *test = room(j, f->region[0]->node.n), more = true;
	if (j->oom) return;
	if (f->nregion > 1 && f->carries) {
		test[f->region[0]->out.v[0]] = true;
		need(f->region[0], test, slot);
	}
	while (more) {
		more = false;
		for (int i = 0; i < results(f); i++)
			if (f->read[i]) live[body->out.v[i]] = true;
		need(body, live, slot);
		for (int i = 0; i < f->carries; i++)
			if (slot[i] != f->read[i]) more |= !f->read[i], slot[i] = f->read[i] = true;
	}
}

/* A node that computes only results that are read. false: an error. */
static bool shrink(job *j, ir_ref r)
{
	const ir_node *n = ir_at(j->from, r);
	flow *f = &j->flow[r];
	const int all = results(f), first = first_slot(n);
	bool *slot = room(j, (size_t)f->nsrc);
	int *to = room(j, sizeof *to * (size_t)f->nsrc), nout = 0, nsrc = 0, carries = 0, xs = 0;
	ir_ref *out = room(j, sizeof *out * (size_t)all);
	if (j->oom) return false;
	if (n->op == IR_cond) for (int k = 0; k < 2; k++) { /* each side may need other operands */
		bool *live = room(j, f->region[k]->node.n);
		for (int i = 0; live && i < all; i++) live[f->region[k]->out.v[i]] |= f->read[i];
		if (live) need(f->region[k], live, slot);
	}
	else find_needed(j, f, slot);
	if (f->counted) slot[f->carries + f->xs] = true;
	for (int k = 0; k < f->nsrc - first; k++) {
		to[k] = slot[k] ? nsrc : -1;
		carries += slot[k] && k < f->carries;
		xs += slot[k] && k >= f->carries && k < f->carries + f->xs;
		if (slot[k]) f->src[first + nsrc++] = f->src[first + k];
	}
	for (int i = 0; i < all; i++) f->number[i] = f->read[i] ? nout++ : -1;
	if (nout == all && nsrc == f->nsrc - first) return true;
	for (int k = 0; k < f->nregion; k++) {
		const bool test = n->op == IR_while && !k;
		int m = 0;
		for (int i = 0; !test && i < all; i++)
			if (f->read[i]) out[m++] = f->region[k]->out.v[i];
		ir_graph *lean = lean_region(j, f->region[k], to, test ? 1 : nout, test ? f->region[k]->out.v : out);
		if (!lean) return false;
		keep_region(f, k, lean);
		ir_region_unref(lean);
	}
	f->nsrc = nsrc + first, f->carries = carries, f->xs = xs;
	return true;
}

/* From the last node to the first: which nodes are needed, and which results of control flow. */
static bool find_live(job *j)
{
	const ir_graph *g = j->from;
	memset(j->live, 0, g->node.n);
	for (ir_ref r = 0; r < g->node.n; r++) {
		if (!ir_is_flow(ir_at(g, r)->op)) continue;
		flow *f = &j->flow[r];
		f->read = room(j, (size_t)results(f)), f->number = room(j, sizeof *f->number * (size_t)results(f));
		if (j->oom) return false;
	}
	for (uint32_t i = 0; i < g->out.n; i++) j->live[g->out.v[i]] = true;
	for (ir_ref r = g->node.n; r-- > 0;) {
		const ir_node *n = ir_at(g, r);
		if (!j->live[r]) continue;
		if (n->op == IR_get && ir_is_flow(ir_at(g, ir_src(g, n, 0))->op)) {
			const ir_ref of = ir_src(g, n, 0), at = j->flow[of].into == IR_NONE ? of : j->flow[of].into;
			j->flow[at].read[j->flow[of].place[ir_attr(g, n)[0]]] = j->live[at] = true;
		} else if (!ir_is_flow(n->op)) {
			for (int k = 0; k < n->nsrc; k++) j->live[ir_src(g, n, k)] = true;
		} else {
			if (!shrink(j, r)) return false;
			for (int k = 0; k < j->flow[r].nsrc; k++) j->live[j->flow[r].src[k]] = true;
		}
	}
	return true;
}

/* ---- the new graph ---- */
/* Operand r of a loop: a constant that only a later loop had is not there yet. */
static ir_ref operand(job *j, ir_ref r)
{
	if (j->map[r] == IR_NONE) j->map[r] = ir_copy(j->to, j->from, r, NULL);
	return j->map[r];
}

static ir_ref emit_flow(job *j, ir_ref r)
{
	const ir_node *n = ir_at(j->from, r);
	const flow *f = &j->flow[r];
	int64_t attr[IR_FLOW_ATTRS] = { 0 };
	ir_ref *src = room(j, sizeof *src * (size_t)f->nsrc);
	if (j->oom) return IR_NONE;
	memcpy(attr, ir_attr(j->from, n) + f->nregion, sizeof *attr * ir_flow_info(n->op)->nattr);
	if (n->op == IR_scan) attr[0] = f->carries, attr[1] = f->xs;
	if (n->op == IR_while) attr[1] = results(f) - f->carries;
	for (int k = 0; k < f->nsrc; k++) src[k] = operand(j, f->src[k]);
	j->to->mode = n->mode;
	return ir_flow(j->to, (ir_op)n->op, f->nsrc, src, f->region, attr, n->site);
}

static ir_ref emit_get(job *j, ir_ref r)
{
	const ir_node *n = ir_at(j->from, r);
	const ir_ref of = ir_src(j->from, n, 0), at = j->flow[of].into == IR_NONE ? of : j->flow[of].into;
	return ir_get(j->to, j->map[at], j->flow[at].number[j->flow[of].place[ir_attr(j->from, n)[0]]], n->site);
}

static bool emit_all(job *j)
{
	const ir_graph *g = j->from;
	bool ok = true;
	for (ir_ref r = 0; r < g->node.n; r++) j->map[r] = IR_NONE;
	for (ir_ref r = 0; ok && r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		const bool flows = ir_is_flow(n->op), got = n->op == IR_get && ir_is_flow(ir_at(g, ir_src(g, n, 0))->op);
		if (!j->live[r] || j->map[r] != IR_NONE || (flows && j->flow[r].into != IR_NONE)) continue;
		for (int k = 0; !flows && k < n->nsrc; k++) j->src[k] = j->map[ir_src(g, n, k)];
		j->map[r] = flows ? emit_flow(j, r) : got ? emit_get(j, r) : ir_copy(j->to, g, r, j->src);
		ok = j->map[r] != IR_NONE;
	}
	for (uint32_t i = 0; ok && i < g->out.n; i++) ok = ir_ret(j->to, j->map[g->out.v[i]]);
	return ok;
}

static bool change(job *j)
{
	for (ir_ref r = 0; !j->oom && r < j->from->node.n; r++)
		if (ir_is_flow(ir_at(j->from, r)->op)) describe(j, r);
	if (j->oom || !ir_live(j->from, j->live)) return false;
	join_all(j);
	return !j->oom && find_live(j) && emit_all(j);
}

tj_status lo_loops(const ir_graph *from, ir_graph *to, rt_err *err)
{
	job j = { .from = from, .to = to };
	j.flow = room(&j, sizeof *j.flow * from->node.n), j.live = room(&j, from->node.n);
	j.map = room(&j, sizeof *j.map * from->node.n), j.src = room(&j, sizeof *j.src * from->refs.n);
	const bool ok = !j.oom && change(&j);
	for (ir_ref r = 0; j.flow && r < from->node.n; r++)
		for (int k = 0; k < 2; k++) ir_region_unref(j.flow[r].region[k]);
	rt_arena_free(&j.mem);
	if (ok) return TJ_OK;
	if (to->err.code == TJ_OK) rt_fail(&to->err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (err && err->code == TJ_OK) *err = to->err;
	return to->err.code;
}
