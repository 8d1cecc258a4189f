/* SPDX-License-Identifier: MIT */
/* reach: how a group would get a value at a map.
 *
 * requires how and light of every value. A question records nothing about values. It may split atoms of the group, even if the answer
 * is NULL; the maps stay valid. The answer is recorded when the group takes the reader (fuse.c), and the builder follows it
 *
 *   reader at [d0, d1]       reads                            gets it
 *   %5 = add %3 %4           %3 = transpose %2                from %2 at [d1, d0]: computed or loaded; known when %2 is decided
 *                            %4 = mul 2.0 (arange)            computed in place */
#include "lower/fuse.h"

/* ---- the group ---- */
lo_group *lo_group_at(const lo_low *L, uint32_t *id)
{
	while (L->group.v[*id]->merged != LO_NOGROUP) *id = L->group.v[*id]->merged;
	return L->group.v[*id];
}

lo_expr lo_row_major(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	int64_t stride[TJ_MAX_RANK];
	ir_contiguous(lo_node(L, r)->rank, lo_dim(L, r), stride);
	return lo_linear(G, m, stride);
}

/* A kernel reads buffers of its own device only. Values of other devices come as a number, as a constant, or through a `to` step. */
static bool on_device(const lo_low *L, const lo_group *G, ir_ref r)
{
	return !L->devices || lo_node(L, r)->device == G->device;
}

/* How many elements of an operand that is read at e are adjacent along axes that are not reduced. */
static int64_t adjacent_run(const lo_group *G, const lo_expr *e)
{
	int64_t run = 1;
	for (bool more = true; more;) {
		more = false;
		for (int a = 0; a < G->natom && !more; a++)
			if (!G->isr[a] && G->ext[a] > 1 && e->c[a] == run) run *= G->ext[a], more = true;
	}
	return run;
}

/* Windows, read where they lie: where rows have few adjacent elements, a target may be quicker with windows that are stored. */
static bool jumps(const lo_group *G, const lo_expr *e)
{
	lo_index x = { 0 };
	return G->product && adjacent_run(G, e) >= G->window_row && lo_r_jumps(G, e, &x.rcoef, x.jump);
}

bool lo_has_index(const lo_group *G, const lo_expr *e)
{
	int64_t coef, group;
	return lo_fits_r(G, e) || (G->product && lo_r_term(G, e, &coef, &group)) || jumps(G, e);
}

/* What a product reads at e would come a few columns at a time, since the next ones are not where the stride of these leads: it is quicker
 * to store it first. */
static bool tears_columns(const lo_group *G, const lo_expr *e)
{
	const lo_expr *column = G->columns ? &G->columns->e[G->columns->rank - 1] : NULL;
	int64_t run = 1, all = 1;
	int inner = -1, next = 0;
	for (int a = 0; column && a < G->natom; a++)
		if (column->c[a]) all *= G->ext[a];
	for (; column && next >= 0; inner = next) {
		next = -1;
		for (int a = 0; a < G->natom; a++)
			if (G->ext[a] > 1 && column->c[a] == run) next = a;
		if (next < 0 || !e->c[next] || (inner >= 0 && e->c[next] != e->c[inner] * G->ext[inner])) break;
		run *= G->ext[next];
	}
	return inner >= 0 && run < G->window_row && run < all;
}

static bool loads(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	const bool input = n->op == IR_input;
	const lo_expr copy = lo_row_major(L, G, r, m), leaf = input ? lo_linear(G, m, ir_attr(L->g, n) + 2) : copy;
	return on_device(L, G, r) && !tears_columns(G, &leaf) &&
	       (lo_has_index(G, &leaf) || (input && L->val[r].own && lo_has_index(G, &copy)));
}

/* ---- work ---- */
int lo_work(const ir_node *n)
{
	const ir_opinfo *i = &ir_ops[n->op];
	if (i->flags & IR_RNG) return 20;
	if (i->flags & IR_MATH) return 10;
	if (i->flags & (IR_FAULT | IR_REDUCE)) return 4;
	return 1;
}

bool lo_often(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	int64_t times = lo_outer(G) * (lo_map_in_r(G, m) ? G->red : 1);
	return times > ir_numel(L->g, r);
}

/* ---- the maps of a value's operands ---- */
static lo_map *gather_index_map(lo_low *L, lo_group *G, const ir_node *n, const lo_map *m)
{
	int rank = lo_node(L, ir_src(L->g, n, 1))->rank;
	lo_map *o = lo_map_new(L, G, rank);
	for (int i = 0; o && i < rank; i++) o->e[i] = m->e[n->op == IR_index_select ? ir_attr(L->g, n)[0] : i];
	return o;
}

static lo_map *first_axes(lo_low *L, lo_group *G, const lo_map *m, int rank)
{
	lo_map *o = lo_map_new(L, G, rank);
	for (int i = 0; o && i < rank; i++) o->e[i] = m->e[i];
	return o;
}

static lo_map *operand_map(lo_low *L, lo_group *G, ir_ref r, int k, const lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	ir_ref src = ir_src(L->g, n, k);
	if (ir_ops[n->op].flags & IR_VIEW) return lo_map_view(L, G, r, m);
	if (ir_ops[n->op].flags & IR_REDUCE) {
		int lo, hi;
		bool keep;
		lo_reduced_axes(L, r, &lo, &hi, &keep);
		return lo_map_reduced(L, G, src, lo, hi, keep, m);
	}
	if (n->op == IR_matmul) return lo_map_product(L, G, r, k, m);
	if (lo_is_gather((ir_op)n->op)) return k == 1 ? gather_index_map(L, G, n, m) : NULL;
	if (n->op == IR_one_hot) return first_axes(L, G, m, m->rank - 1);
	if (ir_ops[n->op].opclass == IR_RANDOM || n->op == IR_full) return lo_map_new(L, G, 0);
	if (L->val[r].how == LO_LEAF) return NULL;
	return lo_map_broadcast(L, G, src, m);
}

/* ---- how a value is reached ---- */
static lo_use *new_use(lo_low *L, ir_ref r, lo_map *m, lo_from from)
{
	lo_use *u = lo_mem(L, sizeof *u);
	if (u) *u = (lo_use){ .group = LO_NOGROUP, .value = r, .map = m, .from = (uint8_t)from, .base = IR_NONE };
	return u;
}

static lo_use *load(lo_low *L, ir_ref r, lo_map *m, ir_ref base)
{
	lo_use *u = new_use(L, r, m, L->val[r].light ? LO_FROM_LOAD : LO_FROM_LATER);
	if (u) u->base = base;
	return u;
}

static bool add_source(lo_low *L, lo_use *u, int k, lo_use *src)
{
	if (!u->src) u->src = lo_mem(L, sizeof(lo_use *) * (lo_node(L, u->value)->nsrc + 1u));
	if (u->src) u->src[k] = src;
	return u->src && src;
}

/* Numbers, constants, indices: computed wherever they are read, if the axes that they depend on have affine indices. */
static lo_use *ask_light(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	if (lo_is_gather((ir_op)n->op)) return NULL;
	for (int i = 0; (n->op == IR_arange || n->op == IR_eye) && i < m->rank; i++)
		if (!lo_fits_r(G, &m->e[i])) return NULL;
	return lo_ask_op(L, G, r, m);
}

lo_use *lo_ask_solid(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	ir_ref src = ir_src(L->g, lo_node(L, r), 0);
	lo_expr e = lo_row_major(L, G, r, m);
	if ((!lo_fits_r(G, &e) && !jumps(G, &e)) || !on_device(L, G, src)) return NULL;
	lo_use *u = load(L, r, m, src);
	if (u) u->solid = true;
	return u;
}

/* The same in all groups. Answers for such values are shared, since a tree of them could have 2^n parts for n nodes. */
static bool is_number(const lo_low *L, const lo_use *u)
{
	const ir_node *n = lo_node(L, u->value);
	bool all = n->weak && n->rank == 0 && u->from == LO_FROM_OP && !u->table;
	for (int k = 0; all && k < n->nsrc; k++)
		all = u->src[k]->from == LO_FROM_NUM || u->src[k]->from == LO_FROM_CONST || u->src[k] == L->val[u->src[k]->value].number;
	return all;
}

/* A view that a product cannot index as it lies, stored in row-major order. */
static lo_use *ask_stored(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const lo_expr e = lo_row_major(L, G, r, m);
	return L->val[r].how == LO_VIEW && on_device(L, G, r) && lo_has_index(G, &e) ? load(L, r, m, r) : NULL;
}

static lo_use *ask_view(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	ir_ref src = ir_src(L->g, lo_node(L, r), 0);
	lo_map *o = lo_map_view(L, G, r, m);
	if (o) {
		lo_use *in = lo_ask(L, G, src, o);
		if (!in && G->product && ir_numel(L->g, r) > ir_numel(L->g, src)) in = ask_stored(L, G, src, o);
		lo_use *u = in ? new_use(L, r, m, L->val[r].light ? LO_FROM_VIEW : LO_FROM_LATER) : NULL;
		return u && add_source(L, u, 0, in) ? u : NULL;
	}
	return lo_ask_solid(L, G, r, m);
}

lo_use *lo_ask(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const lo_val *v = &L->val[r];
	const ir_op op = (ir_op)lo_node(L, r)->op;
	if (op == IR_const || op == IR_num) return new_use(L, r, m, op == IR_num ? LO_FROM_NUM : LO_FROM_CONST);
	if (v->number) return v->number;
	lo_use *u = v->light ? ask_light(L, G, r, m) : NULL;
	if (u && is_number(L, u)) L->val[r].number = u;
	if (u) return u;
	if (v->how == LO_VIEW && !v->own) return ask_view(L, G, r, m);
	return loads(L, G, r, m) ? load(L, r, m, v->light ? r : IR_NONE) : NULL;
}

static bool ask_table(lo_low *L, lo_group *G, lo_use *u)
{
	u->table = lo_mem(L, sizeof *u->table);
	if (!u->table) return false;
	lo_access_of(L, ir_src(L->g, lo_node(L, u->value), 0), u->table);
	return on_device(L, G, u->table->base);
}

/* An operand of a product, unless the product computes it as it reads (fuse.c): where its view has no affine index, it is stored first.
 * Axes of a view without elements cannot be told apart. */
static lo_use *ask_operand(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const bool empty = L->val[r].how == LO_VIEW && ir_numel(L->g, r) == 0;
	lo_use *u = L->val[r].light || empty ? NULL : lo_ask(L, G, r, m);
	return u ? u : load(L, r, m, r);
}

lo_use *lo_ask_op(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	lo_use *u = new_use(L, r, m, L->val[r].how == LO_VIEW ? LO_FROM_VIEW : LO_FROM_OP);
	for (int k = 0; u && k < lo_nread(n); k++) {
		if (k == 0 && lo_is_gather((ir_op)n->op)) {
			if (!ask_table(L, G, u)) return NULL;
			continue;
		}
		lo_map *o = operand_map(L, G, r, k, m);
		lo_use *in = !o ? NULL : n->op == IR_matmul ? ask_operand(L, G, ir_src(L->g, n, k), o) : lo_ask(L, G, ir_src(L->g, n, k), o);
		if (!in || !add_source(L, u, k, in)) return NULL;
	}
	return u;
}

/* How many values would have to be stored for a group that computes r at m, if it computed all that it can. visits: how many values may
 * still be looked at, each once for each way to it; those behind them do not count. */
int lo_stored_for(lo_low *L, lo_group *G, ir_ref r, lo_map *m, int *visits)
{
	const ir_node *n = lo_node(L, r);
	const lo_val *v = &L->val[r];
	int stored = 0;
	if (v->light || --*visits < 0) return 0;
	if (v->how == LO_VIEW && !v->own) {
		lo_map *o = lo_map_view(L, G, r, m);
		return o ? lo_stored_for(L, G, ir_src(L->g, n, 0), o, visits) : !lo_ask_solid(L, G, r, m);
	}
	if (v->how != LO_FUSE || v->own || !(ir_ops[n->op].flags & IR_POINT)) return !loads(L, G, r, m);
	for (int k = 0; k < n->nsrc && stored < 2; k++) {
		lo_map *o = operand_map(L, G, r, k, m);
		stored += o ? lo_stored_for(L, G, ir_src(L->g, n, k), o, visits) : 2;
	}
	return stored;
}

/* u needs a buffer of a value that was decided before, without one. */
static bool comes_late(const lo_low *L, const lo_use *u)
{
	if (u->base != IR_NONE && u->base >= L->at && !L->val[u->base].own) return true;
	if (u == L->val[u->value].number) return false;
	for (int k = 0; u->src && k < lo_node(L, u->value)->nsrc; k++)
		if (u->src[k] && comes_late(L, u->src[k])) return true;
	return false;
}

/* ---- whether a group can compute its members ---- */
lo_expr lo_gather_base(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m, const lo_access *table, int64_t *dyn_stride)
{
	const ir_node *n = lo_node(L, r);
	int rank = lo_node(L, ir_src(L->g, n, 0))->rank;
	int64_t axis = n->op == IR_embedding ? 0 : ir_attr(L->g, n)[0];
	lo_expr e = { .off = table->offset };
	for (int i = 0; i < rank; i++) {
		const lo_expr *x = &m->e[n->op == IR_embedding ? m->rank - rank + i : i];
		if (i == axis) continue;
		e.off += x->off * table->stride[i];
		for (int k = 0; k < G->natom; k++) e.c[k] += x->c[k] * table->stride[i];
	}
	if (dyn_stride) *dyn_stride = rank ? table->stride[axis] : 0;
	return e;
}

bool lo_indices_fit(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	const ir_node *n = lo_node(L, r);
	if (ir_ops[n->op].flags & IR_RNG) {
		lo_expr e = lo_row_major(L, G, r, m);
		return lo_fits_r(G, &e);
	}
	if (n->op == IR_one_hot) return lo_fits_r(G, &m->e[m->rank - 1]);
	if (lo_is_gather((ir_op)n->op)) {
		lo_access table;
		if (L->val[r].made) table = *L->val[r].made->table;
		else lo_access_of(L, ir_src(L->g, n, 0), &table);
		lo_expr e = lo_gather_base(L, G, r, m, &table, NULL);
		return lo_fits_r(G, &e);
	}
	return true;
}

bool lo_covers(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	int order[LO_ATOMS], n;
	bool in_r = lo_map_in_r(G, m), used[LO_ATOMS] = { 0 };
	lo_expr e = lo_row_major(L, G, r, m);
	if ((n = lo_radix(G, &e, ir_numel(L->g, r), order)) < 0) return false;
	for (int i = 0; i < n; i++) used[order[i]] = true;
	for (int a = 0; a < G->natom; a++)
		if (G->ext[a] > 1 && !used[a] && (!G->isr[a] || in_r)) return false;
	return true;
}

static bool still_fits(lo_low *L, lo_group *G, ir_ref r, lo_map *m)
{
	const lo_use *u = lo_indices_fit(L, G, r, m) ? lo_ask_op(L, G, r, m) : NULL;
	return u && !comes_late(L, u);
}

bool lo_group_fits(lo_low *L, lo_group *G)
{
	for (uint32_t i = 0; i < G->member.n; i++)
		if (!still_fits(L, G, G->member.v[i], L->val[G->member.v[i]].made->map)) return false;
	for (uint32_t i = 0; i < G->again.n; i++)
		if (!still_fits(L, G, G->again.v[i]->value, G->again.v[i]->map)) return false;
	for (uint32_t i = 0; i < G->save.n; i++) {
		lo_expr e = lo_linear(G, G->save.v[i].map, G->save.v[i].dest->stride);
		if (!lo_fits_r(G, &e)) return false;
	}
	return true;
}
