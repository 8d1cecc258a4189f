/* SPDX-License-Identifier: MIT */
/* vmap: what was computed for one example, for a batch of them.
 *
 *   %1 = mark f32[4] ..                      %0 = input f32[32,4]
 *   %2 = matmul f32[3] %w %1      =>         %2 = matmul f32[32,3] %0 %w'
 *   %3 = sum f32[] %2                        %3 = sum f32[32] %2 axes=1
 *
 * The examples are leaves of the graph (ir_leaf). Every node that depends on one is emitted again, by a rule for the class of its op, with
 * one more axis in front; a composite without a rule is decomposed. All other nodes stay as they are and serve all examples. No rule
 * changes the order in which an element is computed, so each example has the bits that it would have alone. */
#include "ir/moves.h"
#include "ir/vmap.h"

enum { FRESH, OPENED, PLACED, MOST_ATTRS = 2 * TJ_MAX_RANK + IR_CLASS_ATTRS };

typedef struct one { /* a node while its rule works */
	vm_map *v;
	ir_graph *g;
	ir_node n;               /* a copy, since emitting moves nodes */
	ir_ref r, *x;            /* x: by operand, vm_seen.to */
	bool *batched;
	ir_meta m;               /* type of the node */
	int64_t attr[MOST_ATTRS];
} one;

bool vm_fail(vm_map *v, tj_status code, const char *op, const char *site, const char *what)
{
	if (v->g->err.code != TJ_OK) return false;
	rt_fail(&v->g->err, code, "vmap", "%s%s%s", op, *op ? ": " : "", what);
	v->g->err.site = site ? site : v->site;
	return false;
}

static bool nomem(vm_map *v) { return vm_fail(v, TJ_ERR_NOMEM, "", NULL, "out of memory"); }

/* ---- shapes ---- */
/* The type of a value for all examples. */
static ir_meta all_of(int64_t n, const ir_meta *m)
{
	ir_meta a = *m;
	a.rank++;
	a.weak = false;
	a.dim[0] = n;
	memcpy(a.dim + 1, m->dim, sizeof *m->dim * m->rank);
	return a;
}

ir_ref vm_whole(ir_graph *g, int64_t n, ir_ref r, bool batched, const ir_meta *m, const char *site)
{
	const ir_meta a = all_of(n, m);
	ir_meta first = a;
	if (batched || r == IR_NONE) return r;
	first.dim[0] = 1;
	return ir_expand(g, ir_reshape(g, r, first.rank, first.dim, site), a.rank, a.dim, site);
}

static ir_meta meta_of(const one *o, int k) { return ir_meta_of(o->g, ir_src(o->g, &o->n, k)); }

static ir_ref whole(const one *o, int k)
{
	const ir_meta m = meta_of(o, k);
	return vm_whole(o->g, o->v->n, o->x[k], o->batched[k], &m, o->n.site);
}

static ir_ref shaped(const one *o, ir_ref r, int rank, const int64_t *dim) { return ir_reshape(o->g, r, rank, dim, o->n.site); }

/* Operand k, batched, with ones behind axis 0 so that each example has `rank` axes. */
static ir_ref aligned(const one *o, int k, int rank)
{
	const ir_meta m = meta_of(o, k);
	int64_t dim[TJ_MAX_RANK + 1] = { o->v->n };
	if (!o->batched[k] || m.rank >= rank) return o->x[k];
	for (int i = 0; i < rank; i++) dim[i + 1] = i < rank - m.rank ? 1 : m.dim[i - (rank - m.rank)];
	return shaped(o, o->x[k], rank + 1, dim);
}

/* r with the shape of the result. */
static ir_ref finished(const one *o, ir_ref r)
{
	const ir_meta a = all_of(o->v->n, &o->m);
	return shaped(o, r, a.rank, a.dim);
}

/* Operand k as [n, elements]; a scalar has one. */
static ir_ref flat(const one *o, int k)
{
	const int64_t dim[] = { o->v->n, ir_numel(o->g, ir_src(o->g, &o->n, k)) };
	return shaped(o, whole(o, k), 2, dim);
}

/* ---- rules ---- */
static ir_ref emit(const one *o, int nattr, const int64_t *attr, const ir_ref *x)
{
	o->g->mode = o->n.mode;
	const ir_ref r = ir_emit(o->g, (ir_op)o->n.op, o->n.nsrc, x, nattr, attr, o->n.site);
	o->g->mode = 0;
	return r;
}

static ir_ref other(const one *o, ir_op op, int nsrc, const ir_ref *x, int64_t attr)
{
	return ir_emit(o->g, op, nsrc, x, 1, &attr, o->n.site);
}

static ir_ref by_element(one *o)
{
	for (int k = 0; k < o->n.nsrc; k++) o->x[k] = aligned(o, k, o->n.rank);
	return emit(o, o->n.nattr, o->attr, o->x);
}

/* As it is, with one of its axes counted from the new front. */
static ir_ref along(one *o)
{
	o->attr[0]++;
	return emit(o, o->n.nattr, o->attr, o->x);
}

static ir_ref view(one *o)
{
	const ir_meta a = all_of(o->v->n, &o->m);
	int64_t axes[TJ_MAX_RANK + 1] = { 0 };
	int n = 0;
	switch (o->n.op) {
	case IR_expand: return ir_expand(o->g, aligned(o, 0, o->n.rank), a.rank, a.dim, o->n.site);
	case IR_slice: case IR_unfold: return along(o);
	case IR_optimization_barrier:
		o->x[0] = whole(o, 0);
		return emit(o, 0, NULL, o->x);
	case IR_transpose:
		o->attr[1]++;
		return along(o);
	case IR_permute:
		for (int i = 0; i < o->n.nattr; i++) axes[i + 1] = o->attr[i] + 1;
		return emit(o, o->n.nattr + 1, axes, o->x);
	case IR_flip:
		for (int i = 0; i < o->n.rank; i++) {
			bool in = !o->n.nattr;
			for (int k = 0; k < o->n.nattr; k++) in |= o->attr[k] == i;
			if (in) axes[n++] = i + 1;
		}
		return n ? emit(o, n, axes, o->x) : o->x[0];
	default: return finished(o, o->x[0]); /* reshape, squeeze, unsqueeze */
	}
}

static ir_ref reduction(one *o)
{
	const ir_meta m = meta_of(o, 0);
	const uint32_t set = ir_reduced((ir_op)o->n.op, o->n.nattr, o->attr, m.rank);
	int n = 1;
	if (!m.rank) { /* no axes would mean all of them */
		o->x[0] = flat(o, 0);
		o->attr[0] = false;
		o->attr[n++] = 1;
	}
	for (int i = 0; i < m.rank; i++)
		if (set >> i & 1) o->attr[n++] = i + 1;
	return emit(o, n, o->attr, o->x);
}

/* argmax and its like. Those that have several results get their shape from get(). */
static ir_ref extreme(one *o)
{
	const bool flattened = o->attr[1] == TJ_END_DIM || !meta_of(o, 0).rank;
	if (flattened) o->x[0] = flat(o, 0);
	o->attr[0] = flattened ? 0 : o->attr[0];
	o->attr[1] = flattened ? 1 : o->attr[1] + 1;
	const ir_ref r = emit(o, o->n.nattr, o->attr, o->x);
	return ir_is_tuple(&o->n) ? r : finished(o, r);
}

static ir_ref get(one *o)
{
	const ir_ref r = ir_get(o->g, o->x[0], (int)o->attr[0], o->n.site);
	const uint8_t *where = o->v->at.v[ir_src(o->g, &o->n, 0)].get;
	if (!where) return finished(o, r);
	return where[o->attr[0]] == VM_SECOND ? ir_emit(o->g, IR_transpose, 1, &r, 2, (int64_t[]){ 0, 1 }, o->n.site) : r;
}

/* Along one axis, with a result of the operands' shape: softmax and its like, cumulative ops. */
static ir_ref within(one *o)
{
	const bool scalar = !meta_of(o, 0).rank;
	for (int k = 0; k < o->n.nsrc; k++) o->x[k] = scalar ? flat(o, k) : whole(o, k);
	if (scalar) o->attr[0] = 0;
	const ir_ref r = along(o);
	return scalar && !ir_is_tuple(&o->n) ? finished(o, r) : r;
}

/* Every example has its own sorted axis, or all have one. */
static ir_ref searched(one *o)
{
	const int rank = meta_of(o, 1).rank;
	const bool shared = meta_of(o, 0).rank == 1;
	if (shared && !o->batched[0]) return emit(o, 1, o->attr, o->x);
	if (!shared || rank == 1) {
		o->x[0] = whole(o, 0), o->x[1] = whole(o, 1);
		return emit(o, 1, o->attr, o->x);
	}
	const int64_t rows[] = { o->v->n, meta_of(o, 0).dim[0] };
	return finished(o, emit(o, 1, o->attr, (ir_ref[]){ shaped(o, whole(o, 0), 2, rows), flat(o, 1) }));
}

static ir_ref join(one *o)
{
	for (int k = 0; k < o->n.nsrc; k++) o->x[k] = whole(o, k);
	return along(o);
}

/* ---- products: the batch becomes rows where that is possible ---- */
/* Operand k as matrices, with `rank` axes for each example: a vector is one row on the left, one column on the right. */
static ir_ref matrices(const one *o, int k, int rank)
{
	const ir_meta m = meta_of(o, k);
	int64_t dim[TJ_MAX_RANK + 1] = { o->v->n };
	if (!o->batched[k]) return o->x[k];
	for (int i = 1; i <= rank; i++) dim[i] = 1;
	if (m.rank == 1) dim[k ? rank - 1 : rank] = m.dim[0];
	for (int i = 0; m.rank > 1 && i < m.rank; i++) dim[rank - m.rank + 1 + i] = m.dim[i];
	return shaped(o, o->x[k], rank + 1, dim);
}

static ir_ref product(one *o)
{
	const int a = meta_of(o, 0).rank, b = meta_of(o, 1).rank, most = a > b ? a : b, rank = most > 2 ? most : 2;
	if (!o->batched[1] && b <= 2) return emit(o, 0, NULL, o->x);
	if (!o->batched[0] && b == 1 && a <= 2) { /* A x = (x' A')' */
		const ir_ref turned = a == 2 ? ir_emit(o->g, IR_transpose, 1, &o->x[0], 2, (int64_t[]){ 0, 1 }, o->n.site) : o->x[0];
		return emit(o, 0, NULL, (ir_ref[]){ o->x[1], turned });
	}
	const ir_ref x[] = { matrices(o, 0, rank), matrices(o, 1, rank) };
	return finished(o, emit(o, 0, NULL, x));
}

/* ---- indexing ---- */
/* gather, scatter and its like */
static ir_ref indexed(one *o)
{
	for (int k = 0; k < o->n.nsrc; k++) o->x[k] = o->n.rank ? whole(o, k) : flat(o, k);
	if (!o->n.rank) o->attr[0] = 0;
	return finished(o, along(o));
}

/* The slices of x along an axis of each example at that example's indices. index: [n, count]. */
static ir_ref picked(const one *o, ir_ref x, int axis, ir_ref index)
{
	const ir_meta m = ir_meta_of(o->g, x);
	ir_meta i = m, all = m;
	if (index == IR_NONE) return index;
	for (int k = 1; k < m.rank; k++) i.dim[k] = k == axis ? ir_dims(o->g, ir_at(o->g, index))[1] : 1;
	all.dim[axis] = i.dim[axis];
	index = ir_expand(o->g, shaped(o, index, m.rank, i.dim), m.rank, all.dim, o->n.site);
	return other(o, IR_gather, 2, (ir_ref[]){ x, index }, axis);
}

static ir_ref selected(one *o)
{
	if (!o->batched[1]) return along(o);
	const ir_ref x = whole(o, 0);
	return x == IR_NONE ? x : picked(o, x, (int)o->attr[0] + 1, flat(o, 1));
}

static ir_ref rows(one *o)
{
	if (!o->batched[0]) return emit(o, 0, NULL, o->x);
	return finished(o, picked(o, o->x[0], 1, flat(o, 1)));
}

static ir_ref filled(one *o)
{
	const ir_meta a = all_of(o->v->n, &o->m);
	int64_t dim[TJ_MAX_RANK + 1] = { o->v->n };
	for (int i = 1; i < a.rank; i++) dim[i] = 1;
	const ir_ref x = ir_cast(o->g, shaped(o, o->x[0], a.rank, dim), (tj_dtype)o->m.dtype, o->n.site);
	return ir_expand(o->g, x, a.rank, a.dim, o->n.site);
}

/* ---- one node ---- */
static bool is_decomposed(const one *o)
{
	if (!(ir_ops[o->n.op].flags & IR_COMPOSITE)) return false;
	if (ir_moves(o->n.op)) return true;
	switch (ir_ops[o->n.op].opclass) {
	case IR_UNARY: case IR_ORDER: case IR_AXIS: case IR_SORT: case IR_REDUCE_: case IR_VAR: case IR_LIST: return false;
	case IR_NORM3: case IR_NORM2: case IR_WITH1: case IR_WITH2: case IR_WITH3: /* weights and numbers that are the same for all */
		for (int k = 1; k < o->n.nsrc; k++)
			if (o->batched[k]) return true;
		return false;
	default: return true;
	}
}

static ir_ref apply(one *o)
{
	const ir_opinfo *info = &ir_ops[o->n.op];
	if (o->n.op == IR_mark) return o->x[0];
	if (o->n.op == IR_get) return get(o);
	if (info->flags & IR_POINT) return by_element(o);
	if (info->flags & IR_VIEW) return view(o);
	switch (info->opclass) {
	case IR_UNARY:
	case IR_ORDER:
	case IR_NORM3:
	case IR_NORM2:
	case IR_WITH1:
	case IR_WITH2:
	case IR_WITH3:
	case IR_TO:
	case IR_SPECTRAL:
	case IR_COUNT: return emit(o, o->n.nattr, o->attr, o->x);
	case IR_AXIS: case IR_PAIR_AXIS: case IR_SORT: case IR_TOPK: case IR_PLACES: return within(o);
	case IR_SEARCH: return searched(o);
	case IR_CSR: case IR_CSR_N:
		for (int k = 0; k < 4; k++) o->x[k] = whole(o, k);
		return emit(o, o->n.nattr, o->attr, o->x);
	case IR_SOLVE: o->x[0] = whole(o, 0), o->x[1] = whole(o, 1); return emit(o, 1, o->attr, o->x);
	case IR_REDUCE_: case IR_VAR: return reduction(o);
	case IR_ARG: return extreme(o);
	case IR_LIST: return join(o);
	case IR_SCATTER: return indexed(o);
	case IR_FULL: return filled(o);
	default: break;
	}
	switch (o->n.op) {
	case IR_matmul: return product(o);
	case IR_gather: return indexed(o);
	case IR_index_select: return selected(o);
	case IR_embedding: return rows(o);
	default: return vm_fail(o->v, TJ_ERR_STATE, info->name, o->n.site, "there is no rule that computes it for a batch") ? 0 : IR_NONE;
	}
}

/* No rule is trusted to give the right type. */
static bool right(const one *o, ir_ref r)
{
	if (r == IR_NONE) return false;
	const ir_meta have = ir_meta_of(o->g, r), want = ir_is_tuple(&o->n) ? IR_TUPLE : o->v->at.v[o->r].batched ? all_of(o->v->n, &o->m) : o->m;
	const bool same = have.dtype == want.dtype && have.rank == want.rank && have.device == o->m.device &&
	                  (ir_is_tuple(&o->n) || !memcmp(have.dim, want.dim, sizeof *want.dim * want.rank));
	return same || vm_fail(o->v, TJ_ERR_STATE, ir_ops[o->n.op].name, o->n.site, "the rule for a batch gives another type");
}

static bool batch(vm_map *v, ir_ref r, one *o)
{
	const vm_seen *from = o->n.op == IR_get ? &v->at.v[ir_src(v->g, &o->n, 0)] : NULL;
	v->at.v[r].batched = !from || !from->get || from->get[o->attr[0]] != VM_SAME;
	if (o->n.rank == TJ_MAX_RANK && !ir_is_tuple(&o->n))
		return vm_fail(v, TJ_ERR_LIMIT, ir_ops[o->n.op].name, o->n.site, "there is no room for one more axis");
	ir_ref to;
	if (ir_is_flow(o->n.op)) {
		uint8_t *get = rt_arena_alloc(&v->mem, (size_t)ir_results(o->g, &o->n) + 1);
		if (!get) return nomem(v);
		to = vm_flow(v, r, o->x, o->batched, get);
		v->at.v[r].get = get;
	} else {
		to = ir_keep_device(o->g, apply(o), &o->n);
		if (!right(o, to)) return v->g->err.code != TJ_OK ? false : nomem(v);
	}
	v->at.v[r].to = to;
	return to != IR_NONE;
}

/* ---- the walk ---- */
/* Room for every node of the graph. */
static bool grow(vm_map *v)
{
	const uint32_t n = v->g->node.n, had = v->at.n;
	if (n > had && !rt_reserve(&v->at, n - had)) return nomem(v);
	for (uint32_t r = had; r < n; r++) v->at.v[r] = (vm_seen){ .to = r, .as = IR_NONE };
	if (n > had) v->at.n = n;
	return true;
}

static void close(vm_map *v, ir_ref r)
{
	v->at.v[r].state = PLACED;
	v->open.n--;
}

/* The node has the value of another one, which may not be placed yet. */
static bool stands_for(vm_map *v, ir_ref r, ir_ref as)
{
	if (!grow(v)) return false;
	v->at.v[r].as = as;
	if (v->at.v[as].state != PLACED) return rt_push(&v->open, as) || nomem(v);
	v->at.v[r].to = v->at.v[as].to;
	v->at.v[r].batched = v->at.v[as].batched;
	close(v, r);
	return true;
}

static bool decompose(vm_map *v, const one *o)
{
	ir_ref *src = rt_arena_alloc(&v->mem, sizeof *src * (o->n.nsrc + 1u));
	if (!src) return nomem(v);
	for (int k = 0; k < o->n.nsrc; k++) src[k] = ir_src(v->g, &o->n, k);
	const ir_ref as = ir_decompose(v->g, v->g, o->r, src);
	v->g->mode = 0;
	return as != IR_NONE && stands_for(v, o->r, as);
}

/* A cond whose predicate is batched. */
static bool choose(vm_map *v, ir_ref r)
{
	ir_ref *result = rt_arena_alloc(&v->mem, sizeof *result * ((size_t)ir_results(v->g, ir_at(v->g, r)) + 1));
	if (!result) return nomem(v);
	v->at.v[r].select = result;
	if (!vm_select(v, r, result) || !grow(v)) return false;
	close(v, r);
	return true;
}

/* Copies the node, for its rule; false: nothing that it is computed from is batched. */
static bool depends(vm_map *v, one *o)
{
	bool any = false;
	o->x = rt_arena_alloc(&v->mem, sizeof *o->x * (o->n.nsrc + 1u));
	o->batched = rt_arena_alloc(&v->mem, o->n.nsrc + 1u);
	if (!o->x || !o->batched) return nomem(v);
	for (int k = 0; k < o->n.nsrc; k++) {
		const vm_seen *x = &v->at.v[ir_src(v->g, &o->n, k)];
		o->x[k] = x->to;
		any |= o->batched[k] = x->batched;
	}
	return any;
}

static bool walk(vm_map *v, ir_ref out);

/* r, which is not placed yet, for all examples. */
static ir_ref now_whole(vm_map *v, ir_ref r, const char *site)
{
	const ir_meta m = ir_meta_of(v->g, r);
	if (!walk(v, r)) return IR_NONE;
	return vm_whole(v->g, v->n, v->at.v[r].to, v->at.v[r].batched, &m, site);
}

/* A checkpoint of all examples. */
static bool checkpoint(vm_map *v, ir_ref r, const ir_custom *c)
{
	ir_ref *in = rt_arena_alloc(&v->mem, sizeof *in * ((size_t)c->nin + (size_t)c->nout + 1)), *value = in + c->nin;
	if (!in) return nomem(v);
	for (int i = 0; i < c->nin; i++) {
		if (!walk(v, c->in[i])) return false;
		in[i] = v->at.v[c->in[i]].to;
	}
	for (int i = 0; i < c->nout; i++)
		if ((value[i] = now_whole(v, ir_src(v->g, ir_at(v->g, c->out[i]), 0), c->site)) == IR_NONE) return false;
	const ir_custom *all = ir_checkpoint_like(v->g, c, in, value);
	if (!all || !grow(v)) return false;
	for (int i = 0; i < c->nout; i++) v->at.v[c->out[i]] = (vm_seen){ .to = all->out[i], .as = IR_NONE, .state = PLACED, .batched = true };
	close(v, r);
	return true;
}

/* A value with a gradient of the user's gets one for all examples: what backward computed from leaves is mapped, too. */
static bool custom(vm_map *v, ir_ref r, const ir_custom *c)
{
	ir_ref *in = rt_arena_alloc(&v->mem, sizeof *in * ((size_t)c->nin + (size_t)c->nout + 1)), *value = in + c->nin;
	if (!in) return nomem(v);
	for (int i = 0; i < c->nin; i++) in[i] = now_whole(v, c->in[i], c->site);
	for (int i = 0; i < c->nout; i++) value[i] = now_whole(v, ir_src(v->g, ir_at(v->g, c->out[i]), 0), c->site);
	for (int i = 0; i < c->nin + c->nout; i++)
		if (in[i] == IR_NONE) return false;
	const ir_custom *all = ir_custom_new(v->g, c->nin, in, c->nout, value, c->site);
	if (!all || !grow(v)) return false;
	for (int i = 0; i < c->nout; i++) {
		v->at.v[c->leaf[i]] = (vm_seen){ .to = all->leaf[i], .as = IR_NONE, .state = PLACED, .batched = true };
		v->at.v[c->out[i]] = (vm_seen){ .to = all->out[i], .as = IR_NONE, .state = PLACED, .batched = true };
	}
	close(v, r);
	for (int i = 0; i < c->nin; i++)
		if (c->grad[i] != IR_NONE && (all->grad[i] = now_whole(v, c->grad[i], c->site)) == IR_NONE) return false;
	return grow(v);
}

/* All operands of r are placed. */
static bool place(vm_map *v, ir_ref r)
{
	one o = { .v = v, .g = v->g, .r = r, .n = *ir_at(v->g, r), .m = ir_meta_of(v->g, r) };
	const ir_ref *select = o.n.op == IR_get ? v->at.v[ir_src(v->g, &o.n, 0)].select : NULL;
	if (select) return stands_for(v, r, select[ir_attr(v->g, &o.n)[0]]);
	if (v->at.v[r].as != IR_NONE) return stands_for(v, r, v->at.v[r].as);
	if (!depends(v, &o)) {
		close(v, r);
		return v->g->err.code == TJ_OK;
	}
	const ir_custom *c = ir_custom_of(v->g, r);
	if (c) return c->again ? checkpoint(v, r, c) : custom(v, r, c);
	if (o.n.op == IR_cond && o.batched[0]) return choose(v, r);
	if (is_decomposed(&o)) return decompose(v, &o);
	if (o.n.nattr > MOST_ATTRS - TJ_MAX_RANK) return vm_fail(v, TJ_ERR_STATE, ir_ops[o.n.op].name, o.n.site, "a node has too many attributes");
	if (o.n.nattr) memcpy(o.attr, ir_attr(v->g, &o.n), sizeof *o.attr * o.n.nattr);
	if (!batch(v, r, &o) || !grow(v)) return false;
	close(v, r);
	return true;
}

static bool walk(vm_map *v, ir_ref out)
{
	const uint32_t base = v->open.n; /* custom() walks while another walk is open */
	if (!rt_push(&v->open, out)) return nomem(v);
	while (v->open.n > base) {
		const ir_ref r = v->open.v[v->open.n - 1];
		const ir_node *n = ir_at(v->g, r);
		if (v->at.v[r].state == PLACED) {
			v->open.n--;
			continue;
		}
		if (v->at.v[r].state == OPENED) {
			if (!place(v, r)) return false;
			continue;
		}
		v->at.v[r].state = OPENED;
		for (int k = n->nsrc - 1; k >= 0; k--)
			if (v->at.v[ir_src(v->g, n, k)].state == FRESH && !rt_push(&v->open, ir_src(v->g, n, k))) return nomem(v);
	}
	return true;
}

static bool run(vm_map *v, const ir_vmap_ask *q, ir_ref *to, bool *batched)
{
	if (!grow(v)) return false;
	for (int i = 0; i < q->nin; i++) {
		vm_seen *s = &v->at.v[q->leaf[i]];
		*s = (vm_seen){ .to = q->in[i], .as = IR_NONE, .state = PLACED, .batched = true };
	}
	for (int i = 0; i < q->nout; i++) {
		if (!walk(v, q->out[i])) return false;
		const vm_seen *s = &v->at.v[q->out[i]];
		const ir_meta m = ir_meta_of(v->g, q->out[i]);
		if (m.rank == TJ_MAX_RANK) return vm_fail(v, TJ_ERR_LIMIT, "", NULL, "a result has no room for one more axis");
		to[i] = batched ? s->to : vm_whole(v->g, v->n, s->to, s->batched, &m, q->site);
		if (batched) batched[i] = s->batched;
		if (to[i] == IR_NONE) return false;
	}
	return true;
}

bool ir_vmap(ir_graph *g, const ir_vmap_ask *q, ir_ref *to, bool *batched)
{
	vm_map v = { .g = g, .n = q->n, .site = q->site };
	const uint8_t mode = g->mode;
	g->mode = 0;
	const bool ok = run(&v, q, to, batched);
	g->mode = mode;
	if (!ok && g->err.code == TJ_OK) nomem(&v);
	rt_vec_free(&v.at);
	rt_vec_free(&v.open);
	rt_arena_free(&v.mem);
	return ok;
}
