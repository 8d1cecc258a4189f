/* SPDX-License-Identifier: MIT */
/* vmapflow: control flow for a batch of examples. A region is copied into that of a new node, with leaves for its inputs, and there
 * becomes one for all
 * examples (ir_vmap).
 *
 *   cond      the same way for all examples: a cond. Else both regions, and a select by example
 *   scan      a scan whose slices have all examples: xs [n,turns,..] are read as [turns,n,..]. Counted by another number for each
 *             example, as a gradient
 *             of a while is: as many turns as the last one needs; the others keep their carries
 *   while     as many turns for all examples: a while. Else it runs while any example goes on; the others keep their carries
 *
 * A carry is batched if its first value is, or if a turn makes it so. */
#include "ir/vmap.h"
#include "ir/region.h"

typedef struct flow {
	vm_map *v;
	ir_graph *g;
	ir_node n;               /* a copy, since emitting moves nodes */
	ir_ref r;
	const ir_ref *x;
	const bool *batched;     /* by operand: x is batched */
	bool *in;                /* by operand: it is batched in the new node */
	ir_builder b;
} flow;

static void *room(flow *f, size_t n)
{
	void *p = rt_arena_alloc(&f->v->mem, n + 1);
	if (p) memset(p, 0, n + 1);
	else vm_fail(f->v, TJ_ERR_NOMEM, "", NULL, "out of memory");
	return p;
}

static ir_ref *refs(flow *f, size_t n) { return room(f, sizeof(ir_ref) * n); }
static const ir_graph *region_of(const flow *f, int k) { return ir_flow_region(f->g, &f->n, k); }

/* ---- which values are batched ---- */
/* first: the operand of slot 0. out: by output of the region. */
static bool find_batched(flow *f, const ir_graph *region, int first, bool *out)
{
	bool *at = room(f, region->node.n);
	for (ir_ref r = 0; at && r < region->node.n; r++) {
		const ir_node *n = ir_at(region, r);
		if (n->op == IR_input) at[r] = f->in[first + ir_attr(region, n)[0]];
		for (int k = 0; k < n->nsrc; k++) at[r] |= at[ir_src(region, n, k)];
	}
	for (uint32_t i = 0; at && i < region->out.n; i++) out[i] = at[region->out.v[i]];
	return at != NULL;
}

/* Marks carries until no turn makes another one batched. */
static bool find_carries(flow *f, const ir_graph *body, int carries)
{
	bool *out = room(f, body->out.n), more = out != NULL;
	while (more) {
		more = false;
		if (!find_batched(f, body, 0, out)) return false;
		for (int i = 0; i < carries; i++) {
			more |= out[i] && !f->in[i];
			f->in[i] |= out[i];
		}
	}
	return out != NULL;
}

/* ---- regions ---- */
static ir_ref whole(flow *f, int k)
{
	const ir_meta m = ir_meta_of(f->g, ir_src(f->g, &f->n, k));
	return vm_whole(f->g, f->v->n, f->x[k], f->batched[k], &m, f->n.site);
}

/* Region k, copied into the open one, for all examples. value[k]: the input for operand k. batched: see ir_vmap(). */
static bool copy_region(flow *f, int k, const ir_ref *value, ir_ref *out, bool *batched)
{
	const ir_graph *from = region_of(f, k);
	ir_graph *g = f->b.at->g;
	const int first = f->n.op == IR_cond, nin = f->n.nsrc - first;
	ir_ref *slot = refs(f, (size_t)nin), *leaf = refs(f, (size_t)nin), *in = refs(f, (size_t)nin), *map = refs(f, from->node.n),
	       *y = refs(f, from->out.n);
	ir_vmap_ask q = { .n = f->v->n, .nout = (int)from->out.n, .leaf = leaf, .in = in, .out = y, .site = f->n.site };
	if (!slot || !leaf || !in || !map || !y) return false;
	for (int i = 0; i < nin; i++) {
		ir_meta m = ir_meta_of(f->g, ir_src(f->g, &f->n, first + i));
		slot[i] = value[first + i];
		if (!f->in[first + i]) continue;
		if (f->n.op == IR_scan && i >= ir_attr(f->g, &f->n)[1] && i < ir_attr(f->g, &f->n)[1] + ir_attr(f->g, &f->n)[2])
			memmove(m.dim, m.dim + 1, sizeof *m.dim * --m.rank);
		slot[i] = ir_leaf(g, &m, f->n.site);
		leaf[q.nin] = slot[i];
		in[q.nin++] = value[first + i];
		if (slot[i] == IR_NONE) return false;
	}
	if (!ir_build_copy(&f->b, from, nin, slot, map)) return false;
	for (uint32_t i = 0; i < from->out.n; i++) y[i] = map[from->out.v[i]];
	return ir_vmap(g, &q, out, batched);
}

static bool inputs(flow *f, ir_ref *value)
{
	const int first = f->n.op == IR_cond;
	for (int k = first; k < f->n.nsrc; k++)
		if ((value[k] = ir_build_input(&f->b, k - first, f->n.site)) == IR_NONE) return false;
	return true;
}

/* A value of its type that is 0 everywhere. */
static ir_ref nothing(ir_graph *g, ir_ref like)
{
	const ir_meta m = ir_meta_of(g, like);
	const ir_ref r = rt_is_float((tj_dtype)m.dtype) ? ir_const_f(g, (tj_dtype)m.dtype, m.rank, m.dim, 0)
	                                                : ir_const_i(g, (tj_dtype)m.dtype, m.rank, m.dim, 0);
	return r == IR_NONE ? r : ir_keep_device(g, r, ir_at(g, like));
}

/* The values of all examples for carries that are batched. */
static bool force(flow *f, int carries, const ir_graph *body, ir_ref *out, const bool *batched)
{
	for (int i = 0; i < carries; i++) {
		const ir_meta m = ir_meta_of(body, body->out.v[i]);
		if (f->in[i]) out[i] = vm_whole(f->b.at->g, f->v->n, out[i], batched[i], &m, f->n.site);
		if (out[i] == IR_NONE) return false;
	}
	return true;
}

/* ---- cond ---- */
static bool branch(flow *f, int k)
{
	ir_ref *value = refs(f, f->n.nsrc), *out = refs(f, region_of(f, k)->out.n);
	return value && out && ir_build_enter(&f->b) && inputs(f, value) && copy_region(f, k, value, out, NULL) &&
	       ir_build_yield(&f->b, (int)region_of(f, k)->out.n, out);
}

static bool cond(flow *f, const ir_ref *src, uint8_t *get)
{
	memset(get, VM_FRONT, region_of(f, 0)->out.n);
	return ir_build_open(&f->b, IR_cond, f->n.nsrc, src, NULL, f->n.site) && branch(f, 0) && branch(f, 1);
}

bool vm_select(vm_map *v, ir_ref r, ir_ref *result)
{
	flow f = { .v = v, .g = v->g, .n = *ir_at(v->g, r), .r = r };
	const ir_graph *yes = region_of(&f, 0), *no = region_of(&f, 1);
	ir_ref *slot = refs(&f, f.n.nsrc), *map[2] = { refs(&f, yes->node.n), refs(&f, no->node.n) };
	if (!slot || !map[0] || !map[1]) return false;
	for (int k = 1; k < f.n.nsrc; k++) slot[k - 1] = ir_src(v->g, &f.n, k);
	ir_build_begin(&f.b, v->g);
	bool ok = ir_build_copy(&f.b, yes, f.n.nsrc - 1, slot, map[0]) && ir_build_copy(&f.b, no, f.n.nsrc - 1, slot, map[1]);
	for (uint32_t i = 0; ok && i < yes->out.n; i++) {
		const ir_ref x[] = { ir_src(v->g, &f.n, 0), map[0][yes->out.v[i]], map[1][no->out.v[i]] };
		ok = (result[i] = ir_emit(v->g, IR_where, 3, x, 0, NULL, f.n.site)) != IR_NONE;
	}
	ir_build_end(&f.b);
	return ok;
}

/* ---- loops ---- */
/* One bool for the example that goes on, [n, 1, ..] for a value of that many axes, on its device. */
static ir_ref like(flow *f, ir_ref goes, ir_ref value, int rank)
{
	ir_graph *g = f->b.at->g;
	int64_t dim[TJ_MAX_RANK + 1] = { f->v->n };
	if (goes == IR_NONE || value == IR_NONE) return IR_NONE;
	for (int i = 1; i <= rank; i++) dim[i] = 1;
	if (ir_at(g, goes)->device != ir_at(g, value)->device) goes = ir_to(g, goes, ir_at(g, value)->device, f->n.site);
	return ir_reshape(g, goes, rank + 1, dim, f->n.site);
}

/* Examples that do not go on keep their carries, value[], and their slices of ys are 0. */
static bool hold(flow *f, int carries, const ir_graph *body, ir_ref goes, const ir_ref *value, ir_ref *out, bool *batched)
{
	ir_graph *g = f->b.at->g;
	for (uint32_t i = 0; i < body->out.n; i++) {
		const ir_meta m = ir_meta_of(body, body->out.v[i]);
		const bool carry = (int)i < carries;
		if (!carry) out[i] = vm_whole(g, f->v->n, out[i], batched[i], &m, f->n.site);
		batched[i] = true;
		const ir_ref mask = like(f, goes, out[i], m.rank), rest = carry ? value[i] : mask == IR_NONE ? IR_NONE : nothing(g, out[i]);
		if (rest == IR_NONE || (out[i] = ir_emit(g, IR_where, 3, (ir_ref[]){ mask, out[i], rest }, 0, NULL, f->n.site)) == IR_NONE) return false;
	}
	return true;
}

/* ---- scan ---- */
/* A scan whose number of turns is another one for each example takes as many turns as one of them needs. It has the numbers of the turns as
 * xs, behind the others, and the examples' counts as a capture. */
typedef struct each { bool on; ir_ref counts, index; } each;

static bool count_each(flow *f, each *e, int at, int64_t length, ir_ref *src)
{
	e->on = f->in[at];
	if (!e->on) return true;
	e->counts = f->x[at];
	e->index = ir_emit(f->g, IR_arange, 0, NULL, 4, (int64_t[]){ TJ_I64, 0, length, 1 }, f->n.site);
	for (int k = f->n.nsrc; k > at; k--) src[k] = src[k - 1];
	src[at] = e->index;
	src[at + 1] = f->v->n ? ir_reduce(f->g, IR_amax, e->counts, 1, false, f->n.site) : ir_const_i(f->g, TJ_I64, 0, NULL, 0);
	return src[at] != IR_NONE && src[at + 1] != IR_NONE;
}

/* By operand of the old node: the input that stands for it. */
static bool inputs_of_each(flow *f, const each *e, int at, ir_ref *value)
{
	for (int k = 0; k < f->n.nsrc; k++)
		if ((value[k] = ir_build_input(&f->b, k + (e->on && k >= at), f->n.site)) == IR_NONE) return false;
	if (e->on) value[at] = ir_build_use(&f->b, &f->b.top, e->counts);
	return value[at < f->n.nsrc ? at : 0] != IR_NONE;
}

static bool scan(flow *f, ir_ref *src, uint8_t *get)
{
	const ir_graph *body = region_of(f, 0);
	int64_t attr[IR_FLOW_ATTRS];
	memcpy(attr, ir_attr(f->g, &f->n) + 1, sizeof attr);
	const int carries = (int)attr[0], xs = (int)attr[1], at = carries + xs, nout = (int)body->out.n;
	ir_ref *value = refs(f, f->n.nsrc), *out = refs(f, (size_t)nout);
	bool *batched = room(f, (size_t)nout);
	each e = { .counts = IR_NONE };
	if (!value || !out || !batched) return false;
	for (int k = 0; attr[4] && f->in[at] && k < carries; k++) f->in[k] = true;
	if (!find_carries(f, body, carries)) return false;
	for (int k = 0; k < at; k++) {
		if (k < carries && f->in[k]) src[k] = whole(f, k);
		else if (k >= carries && f->in[k]) src[k] = ir_emit(f->g, IR_transpose, 1, &f->x[k], 2, (int64_t[]){ 0, 1 }, f->n.site);
	}
	if (attr[4] && !count_each(f, &e, at, attr[2], src)) return false;
	attr[1] += e.on;
	if (!ir_build_open(&f->b, IR_scan, f->n.nsrc + e.on, src, attr, f->n.site) || !ir_build_enter(&f->b) ||
	    !inputs_of_each(f, &e, at, value))
		return false;
	if (!copy_region(f, 0, value, out, batched) || !force(f, carries, body, out, batched)) return false;
	if (e.on) {
		const ir_ref turn = ir_build_input(&f->b, at, f->n.site), goes = ir_op2(f->b.at->g, IR_lt, turn, value[at], f->n.site);
		if (!hold(f, carries, body, goes, value, out, batched)) return false;
	}
	for (int i = 0; i < nout; i++) get[i] = i < carries ? (f->in[i] ? VM_FRONT : VM_SAME) : batched[i] ? VM_SECOND : VM_SAME;
	return ir_build_yield(&f->b, nout, out);
}

/* ---- while ---- */
static bool test(flow *f, bool differ)
{
	ir_ref *value = refs(f, f->n.nsrc), goes;
	if (!value || !ir_build_enter(&f->b) || !inputs(f, value) || !copy_region(f, 0, value, &goes, differ ? NULL : &(bool){ false }))
		return false;
	if (differ) goes = ir_reduce(f->b.at->g, IR_any, goes, 1, false, f->n.site);
	return ir_build_yield(&f->b, 1, &goes);
}

static bool turn(flow *f, bool differ, bool *batched)
{
	const ir_graph *body = region_of(f, 1);
	const int carries = ir_flow_carries(f->g, &f->n);
	ir_ref *value = refs(f, f->n.nsrc), *out = refs(f, body->out.n), goes = IR_NONE;
	if (!value || !out || !ir_build_enter(&f->b) || !inputs(f, value)) return false;
	if (differ && !copy_region(f, 0, value, &goes, NULL)) return false;
	if (!copy_region(f, 1, value, out, batched) || !force(f, carries, body, out, batched)) return false;
	return (!differ || hold(f, carries, body, goes, value, out, batched)) && ir_build_yield(&f->b, (int)body->out.n, out);
}

static bool loop(flow *f, ir_ref *src, uint8_t *get)
{
	const ir_graph *body = region_of(f, 1);
	const int carries = ir_flow_carries(f->g, &f->n);
	int64_t attr[IR_FLOW_ATTRS];
	bool differ = false, *batched = room(f, body->out.n);
	memcpy(attr, ir_attr(f->g, &f->n) + 2, sizeof *attr * 2);
	if (!batched || !find_carries(f, body, carries) || !find_batched(f, region_of(f, 0), 0, &differ)) return false;
	for (int k = 0; k < carries; k++) {
		f->in[k] |= differ;
		if (f->in[k]) src[k] = whole(f, k);
		get[k] = f->in[k] ? VM_FRONT : VM_SAME;
	}
	if (!ir_build_open(&f->b, IR_while, f->n.nsrc, src, attr, f->n.site) || !test(f, differ) || !turn(f, differ, batched)) return false;
	for (uint32_t i = (uint32_t)carries; i < body->out.n; i++) get[i] = batched[i] ? VM_SECOND : VM_SAME;
	return true;
}

/* ---- one node ---- */
ir_ref vm_flow(vm_map *v, ir_ref r, const ir_ref *x, const bool *batched, uint8_t *get)
{
	flow f = { .v = v, .g = v->g, .n = *ir_at(v->g, r), .r = r, .x = x, .batched = batched };
	ir_ref *src = refs(&f, f.n.nsrc + 1u), made = IR_NONE;
	f.in = room(&f, f.n.nsrc);
	if (!src || !f.in) return IR_NONE;
	memcpy(src, x, sizeof *src * f.n.nsrc);
	memcpy(f.in, batched, f.n.nsrc);
	ir_build_begin(&f.b, v->g);
	const bool ok = f.n.op == IR_cond ? cond(&f, src, get) : f.n.op == IR_scan ? scan(&f, src, get) : loop(&f, src, get);
	if (ok) made = ir_build_close(&f.b);
	if (made == IR_NONE && v->g->err.code == TJ_OK) v->g->err = *ir_build_error(&f.b);
	ir_build_end(&f.b);
	return made;
}
