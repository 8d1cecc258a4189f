/* SPDX-License-Identifier: MIT */
/* fuse: which values one kernel computes together.
 *
 * requires how and light of every value; sets own, group and dest of each, and how its readers get it (lo_use)
 *
 *   %1 = amax f32[8,1] %0              group outer=8 red=64 row: amax sub exp sum div
 *   %2 = sub f32[8,64] %0 %1    =>
 *   %3 = exp f32[8,64] %2
 *   %4 = sum f32[8,1] %3
 *   %5 = div f32[8,64] %3 %4
 *
 * Walks the graph from its end. A value joins the group of one of its readers if
 *   - all its readers in that group read it at the same map, and the group can get its operands there,
 *   - no path leads from it through other steps back into the group (the group stays one step),
 *   - it is not computed more often than it has elements, unless it is one cheap instruction,
 *   - for a reduction: the part of the group's index space that its result does not use is what it reduces (or nothing is
 *     left, and the group gets an r), and the group does not mix rows and columns.
 * If others read it, it is stored as well. A value that joins no group starts one. Groups that read the same value at matching
 * maps merge. A member is never computed at two maps: such a value is stored and loaded. */
#include "lower/fuse.h"
#include "lower/library.h"

/* ---- joining ---- */
static void *refuse(lo_low *L, const char *why)
{
	L->why = why;
	return NULL;
}

static const char AGAIN[] = "each of its elements would be computed several times";
static const char NOT_ONCE[] = "it must be stored as well, and the kernel does not visit each of its elements once";

/* All stores of the value have indices that are affine in r as a whole. */
static bool stores_fit(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	lo_expr own = lo_row_major(L, G, r, m);
	for (const lo_dest *d = L->val[r].dest; d; d = d->next) {
		lo_expr e = lo_linear(G, m, d->stride);
		if (!lo_fits_r(G, &e)) return false;
	}
	return lo_fits_r(G, &own);
}

/* ---- reductions ---- */
/* Makes r from the atoms that are left: in the order in which another reader in the group walks the operand, else in their own order. */
static bool weigh_r(lo_low *L, lo_group *G, ir_ref src, int lo, int hi, const bool *used, int64_t red)
{
	int order[LO_ATOMS];
	int64_t stride = 1, w[TJ_MAX_RANK] = { 0 };
	for (int i = hi - 1; i >= lo; i--) {
		w[i] = stride;
		stride *= lo_dim(L, src)[i];
	}
	for (const lo_use *u = L->val[src].use; u; u = u->next) {
		uint32_t id = u->group;
		if (lo_group_at(L, &id) != G) continue;
		lo_expr e = lo_linear(G, u->map, w);
		int n = lo_radix(G, &e, red, order);
		bool ok = n >= 0;
		for (int i = 0; i < n; i++) ok &= !used[order[i]];
		for (int i = 0; ok && i < n; i++) {
			G->isr[order[i]] = true;
			G->rstride[order[i]] = e.c[order[i]];
		}
		if (ok) return true;
	}
	stride = 1;
	for (int a = G->natom - 1; a >= 0; a--) {
		if (used[a] || G->ext[a] == 1) continue;
		G->isr[a] = true;
		G->rstride[a] = stride;
		stride *= G->ext[a];
	}
	return stride == red;
}

static bool new_r(lo_low *L, lo_group *G, ir_ref src, int lo, int hi)
{
	int64_t stride = 1;
	for (int i = hi - 1; i >= lo; i--) {
		if (lo_dim(L, src)[i] == 1) continue;
		if (!lo_add_atom(G, lo_dim(L, src)[i], true, stride)) return false;
		stride *= lo_dim(L, src)[i];
	}
	return true;
}

static void forget_r(lo_group *G, bool made)
{
	for (int a = 0; a < G->natom; a++) {
		if (!G->isr[a]) continue;
		G->isr[a] = false;
		if (made) G->ext[a] = 1;
	}
	G->reduces = false;
	G->red = 1;
}

/* Another reader in the group reads the operand at another map, so it would have to be stored. */
static bool elsewhere(lo_low *L, const lo_group *G, ir_ref src, const lo_map *m)
{
	if (!lo_computed(L, src) || L->val[src].light) return false;
	for (const lo_use *u = L->val[src].use; u; u = u->next) {
		uint32_t id = u->group;
		if (lo_group_at(L, &id) == G && !lo_map_equal(G, u->map, m)) return true;
	}
	return false;
}

/* Product of the extents that neither m nor r uses; used: the atoms of m. -1: m does not walk the value exactly once. */
static int64_t rest_of(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m, bool *used)
{
	int order[LO_ATOMS], n;
	int64_t rest = 1;
	lo_expr e = lo_row_major(L, G, r, m);
	if ((n = lo_radix(G, &e, ir_numel(L->g, r), order)) < 0) return -1;
	for (int i = 0; i < n; i++) used[order[i]] = true;
	for (int a = 0; a < G->natom; a++)
		if (!used[a] && !G->isr[a]) rest *= G->ext[a];
	return rest;
}

/* Rows or columns are too few to keep all threads busy, and long: in one kernel with a reader, threads could not share the reduction. */
static bool keeps_apart(const lo_target *t, bool column, int64_t outer, int64_t red)
{
	return (outer < t->few_rows && red > t->long_row) || (column && lo_is_shared(t, true, outer, red));
}

/* Threads may share its reductions, if it has one loop. */
static bool is_shared(const lo_target *t, const lo_group *G, bool column)
{
	return lo_is_shared(t, false, lo_outer(G), G->red) || (column && lo_is_shared(t, true, lo_outer(G), G->red));
}

/* Gives the group an r for reduction q. The group reads r, which is q or follows it row by row, at m. The atoms that m does
 * not use become the r; if there are none, new ones (*made). */
static bool make_r(lo_low *L, lo_group *G, ir_ref q, ir_ref r, const lo_map *m, bool *made)
{
	ir_ref src = ir_src(L->g, lo_node(L, q), 0);
	int lo, hi;
	bool keep, used[LO_ATOMS] = { 0 };
	int64_t red = ir_numel(L->g, src) / ir_numel(L->g, q), rest = rest_of(L, G, r, m, used);
	lo_reduced_axes(L, q, &lo, &hi, &keep);
	bool column = hi < lo_node(L, src)->rank;
	if (rest != 1 && (rest != red || keeps_apart(lo_target_of(L, q), column, ir_numel(L->g, q), red))) return false;
	*made = rest == 1;
	bool ok = *made ? new_r(L, G, src, lo, hi) : weigh_r(L, G, src, lo, hi, used, red);
	G->reduces = true;
	G->red = red;
	if (ok && lo_group_fits(L, G)) return true;
	forget_r(G, *made);
	return false;
}

/* A reduction of the group depends on r, so it needs a loop after r's. */
static bool feeds_reduction(lo_low *L, const lo_group *G, ir_ref r)
{
	rt_vec(ir_ref) todo = { 0 };
	bool found = false;
	L->now++;
	for (uint32_t i = 0; i < G->member.n; i++)
		if (ir_ops[lo_node(L, G->member.v[i])->op].flags & IR_REDUCE && !rt_push(&todo, G->member.v[i])) L->oom = true;
	while (todo.n && !found && !L->oom) {
		const ir_node *n = lo_node(L, todo.v[--todo.n]);
		for (int k = 0; k < n->nsrc; k++) {
			ir_ref s = ir_src(L->g, n, k);
			found |= s == r;
			if (s <= r || L->stamp[s] == L->now) continue;
			L->stamp[s] = L->now;
			if (!rt_push(&todo, s)) L->oom = true;
		}
	}
	rt_vec_free(&todo);
	return found || L->oom;
}

/* All stores of the group walk the two atoms as one axis. */
static bool stored_together(const lo_group *G, int outer, int inner)
{
	bool all = true;
	for (uint32_t i = 0; i < G->save.n; i++) {
		const lo_expr e = lo_linear(G, G->save.v[i].map, G->save.v[i].dest->stride);
		all &= e.c[outer] == e.c[inner] * G->ext[inner];
	}
	return all;
}

/* The columns of product r, which the group reads at m, would be walked in short runs, as they are stored: tiles would be narrow. */
static bool tears_columns(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m)
{
	int64_t run = 1;
	if (lo_node(L, ir_src(L->g, lo_node(L, r), 1))->rank < 2) return false; /* by a vector: there are no columns */
	const lo_expr *column = &m->e[m->rank - 1];
	for (int inner = -1, next = 0; next >= 0; inner = next) {
		next = -1;
		for (int a = 0; a < G->natom; a++)
			if (G->ext[a] > 1 && column->c[a] == run) next = a;
		if (next < 0 || (inner >= 0 && !stored_together(G, next, inner))) break;
		run *= G->ext[next];
	}
	return run < G->window_row && run < lo_dim(L, r)[m->rank - 1];
}

/* Gives the group an r for product r, which it reads at m: the summed axis. */
static lo_use *join_product(lo_low *L, lo_group *G, ir_ref r, lo_map *m, bool store)
{
	const ir_ref a = ir_src(L->g, lo_node(L, r), 0);
	const int64_t red = lo_dim(L, a)[lo_node(L, a)->rank - 1];
	bool used[LO_ATOMS] = { 0 };
	if (G->reduces) return refuse(L, "the kernel computes a reduction or another product");
	if (rest_of(L, G, r, m, used) != 1) return refuse(L, AGAIN);
	if (store && !lo_covers(L, G, r, m)) return refuse(L, NOT_ONCE);
	if (tears_columns(L, G, r, m)) return refuse(L, "its columns would be stored a few at a time: tiles would be narrow");
	if (red > 1 && !lo_add_atom(G, red, true, 1)) return refuse(L, "the kernel has too many dimensions");
	G->reduces = G->product = true;
	G->red = red;
	G->columns = lo_node(L, ir_src(L->g, lo_node(L, r), 1))->rank < 2 ? NULL : m;
	lo_use *u = lo_group_fits(L, G) ? lo_ask_op(L, G, r, m) : NULL;
	if (u) return u;
	forget_r(G, true);
	G->product = false;
	G->columns = NULL;
	return refuse(L, "the kernel's index space cannot hold the product");
}

static lo_use *join_reduction(lo_low *L, lo_group *G, ir_ref r, lo_map *m, bool store)
{
	ir_ref src = ir_src(L->g, lo_node(L, r), 0);
	int lo, hi;
	bool keep, used[LO_ATOMS] = { 0 }, had = G->reduces, made = false;
	lo_reduced_axes(L, r, &lo, &hi, &keep);
	bool column = hi < lo_node(L, src)->rank;
	if (G->product) return refuse(L, "the kernel computes a matrix product");
	if (lo_map_in_r(G, m)) return refuse(L, "it would be reduced once for each index that the kernel reduces over");
	if (G->classed && G->column != column) return refuse(L, "one of the two reduces rows, the other one columns");
	if (had && is_shared(lo_target_of(L, r), G, column) && feeds_reduction(L, G, r))
		return refuse(L, "it has a few long rows or columns that threads share, and such a kernel has only one loop");
	if (had && (G->red != ir_numel(L->g, src) / ir_numel(L->g, r) || rest_of(L, G, r, m, used) != 1))
		return refuse(L, "the kernel reduces over another extent");
	if (!had && !make_r(L, G, r, r, m, &made))
		return refuse(
			L, "the kernel's index space cannot hold the reduced axes: the reduction would be computed again for each element");
	lo_use *u = lo_ask_op(L, G, r, m);
	bool there = u && !elsewhere(L, G, src, u->src[0]->map), once = !store || lo_covers(L, G, r, m);
	if (there && once) {
		G->classed = true;
		G->column = column;
		return u;
	}
	if (!had) forget_r(G, made);
	return refuse(L, there ? NOT_ONCE : "the kernel reads its operand at another index, or not at fixed strides");
}

/* ---- values element by element ---- */
/* The reduction that r follows row by row. */
static ir_ref reduction_below(const lo_low *L, ir_ref r)
{
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		const ir_node *n = lo_node(L, r);
		ir_ref next = IR_NONE;
		if (ir_ops[n->op].flags & IR_REDUCE) return r;
		if (L->val[r].how != LO_VIEW && !(ir_ops[n->op].flags & IR_POINT)) return IR_NONE;
		for (int k = 0; k < lo_nread(n); k++) {
			ir_ref s = ir_src(L->g, n, k);
			if (!L->val[s].light && ir_numel(L->g, s) == ir_numel(L->g, r) && (next == IR_NONE || s > next))
				next = s;
		}
		if (next == IR_NONE) return IR_NONE;
		r = next;
	}
	return IR_NONE;
}

static lo_use *ask_point(lo_low *L, lo_group *G, ir_ref r, lo_map *m, bool store)
{
	bool repeated = lo_often(L, G, r, m);
	if (repeated && (lo_work(lo_node(L, r)) > 1 || G->redundant >= lo_target_of(L, r)->redundant)) return refuse(L, AGAIN);
	if (store && (!lo_covers(L, G, r, m) || !stores_fit(L, G, r, m))) return refuse(L, NOT_ONCE);
	lo_use *u = lo_indices_fit(L, G, r, m) ? lo_ask_op(L, G, r, m) : NULL;
	if (!u) return refuse(L, "its operands do not lie at fixed strides as the kernel would read them");
	G->redundant += repeated;
	return u;
}

static lo_use *join_point(lo_low *L, lo_group *G, ir_ref r, lo_map *m, bool store)
{
	bool made, again = lo_work(lo_node(L, r)) > 1 && lo_often(L, G, r, m), had = G->reduces;
	if (!had && (again || (store && !lo_covers(L, G, r, m)))) {
		/* If the group walks the rows of q, the value is computed once per row and not repeated. */
		ir_ref q = reduction_below(L, r);
		bool used[LO_ATOMS] = { 0 };
		if (q == IR_NONE || rest_of(L, G, r, m, used) <= 1 || !make_r(L, G, q, r, m, &made)) return refuse(L, again ? AGAIN : NOT_ONCE);
	}
	lo_use *u = ask_point(L, G, r, m, store);
	if (!u && !had && G->reduces) forget_r(G, made);
	return u;
}

/* ---- committing ---- */
static bool has_room(const lo_low *L, const lo_group *G, ir_ref r)
{
	const lo_target *t = lo_target_of(L, r);
	const ir_node *n = lo_node(L, r);
	return G->weight + lo_work(n) <= t->weight && G->member.n < (uint32_t)t->members &&
	       G->reductions + !!(ir_ops[n->op].flags & IR_REDUCE) <= MAX_LOOPS;
}

/* A reduction over several axes reads an operand that is computed from values which lack some of them, so that no index of theirs is
 * affine in r. The operand is stored, rather than several of these. */
static void store_whole(lo_low *L, lo_group *G, const lo_use *made)
{
	const ir_ref x = ir_src(L->g, lo_node(L, made->value), 0);
	int visits = MAX_DEPTH;
	if (L->val[x].how != LO_FUSE || L->val[x].light || lo_stored_for(L, G, x, made->src[0]->map, &visits) < 2) return;
	L->val[x].apart = L->val[x].own = true;
}

static void commit(lo_low *L, uint32_t id, lo_use *made)
{
	lo_group *G = L->group.v[id];
	const ir_node *n = lo_node(L, made->value);
	G->weight += lo_work(n);
	G->reductions += !!(ir_ops[n->op].flags & IR_REDUCE);
	if (ir_ops[n->op].flags & IR_REDUCE) store_whole(L, G, made);
	lo_take(L, id, made);
	lo_save_all(L, G, made, L->val[made->value].own);
}

static lo_use *join(lo_low *L, lo_group *G, ir_ref r, lo_map *m, bool store)
{
	if (lo_is_product(L, r)) return join_product(L, G, r, m, store);
	return ir_ops[lo_node(L, r)->op].flags & IR_REDUCE ? join_reduction(L, G, r, m, store) : join_point(L, G, r, m, store);
}

/* ---- ahead of a product ---- */
/* Node `by` reads r, or a view of it, as operand k. */
static bool reads(const lo_low *L, ir_ref by, int k, ir_ref r)
{
	ir_ref s = ir_src(L->g, lo_node(L, by), k);
	while (s != r && L->val[s].how == LO_VIEW) s = ir_src(L->g, lo_node(L, s), 0);
	return s == r;
}

/* The operand that the group's product computes from r as it reads it; -1: r comes after the product. */
static int ahead_of(const lo_group *G, ir_ref r)
{
	for (uint32_t i = 0; i < G->ahead.n; i++)
		if (G->ahead.v[i].ref == r) return G->ahead.v[i].operand;
	return -1;
}

/* The operand of the group's product that is r, or is computed from r as the product reads it; -1: neither is. *behind: a member that comes
 * after the product reads r, or both operands do. */
static int feeds_product(const lo_low *L, const lo_group *G, ir_ref r, bool *behind)
{
	int operand = -1;
	*behind = false;
	for (uint32_t i = 0; i < G->member.n; i++) {
		const ir_ref by = G->member.v[i];
		for (int k = 0; k < lo_node(L, by)->nsrc; k++) {
			if (!reads(L, by, k, r)) continue;
			const int now = lo_is_product(L, by) ? k : ahead_of(G, by);
			*behind |= now < 0 || (operand >= 0 && operand != now);
			if (now >= 0) operand = now;
		}
	}
	return operand;
}

/* Depends on an index. */
static bool counts(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	bool any = n->op == IR_arange || n->op == IR_eye;
	for (int k = 0; !n->weak && k < n->nsrc; k++) any |= counts(L, ir_src(L->g, n, k));
	return any;
}

/* No integer is NaN or infinite, and no u8 negative: code loads nothing for such a test, and a product would have nothing to read. */
static bool is_known(const lo_low *L, const ir_node *n)
{
	const bool tests = n->op == IR_isnan || n->op == IR_isinf || n->op == IR_isfinite || n->op == IR_signbit;
	return tests && !rt_is_float((tj_dtype)lo_node(L, ir_src(L->g, n, 0))->dtype);
}

/* A few instructions that cannot fault, on what is loaded at the index of the result. *loads: how many operands are loaded. */
static bool is_cheap(const lo_low *L, ir_ref r, int *loads)
{
	const ir_node *n = lo_node(L, r);
	const bool real_div = n->op == IR_div && rt_is_float((tj_dtype)n->dtype);
	*loads = 0;
	if (!(ir_ops[n->op].flags & IR_POINT) || (lo_work(n) > 1 && !real_div) || is_known(L, n)) return false;
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref s = ir_src(L->g, n, k);
		if (L->val[s].light && counts(L, s)) return false;
		*loads += !L->val[s].light;
	}
	return *loads > 0;
}

/* It is computed from what lies in memory before any kernel runs. Other values are computed by a kernel, which can compute their readers,
 * too. */
static bool of_leaves(const lo_low *L, ir_ref r, int depth)
{
	const ir_node *n = lo_node(L, r);
	int loads;
	if (L->val[r].light || L->val[r].how == LO_LEAF) return true;
	if (L->val[r].how != LO_VIEW && (L->val[r].how != LO_FUSE || depth >= AHEAD_OPS || !(lo_widens(L->g, r) || is_cheap(L, r, &loads))))
		return false;
	for (int k = 0; k < lo_nread(n); k++)
		if (!of_leaves(L, ir_src(L->g, n, k), depth + 1)) return false;
	return true;
}

/* How many blocks of the product read each element of that operand, and compute it anew. */
static int64_t blocks_of(const lo_low *L, const lo_group *G, int operand)
{
	for (uint32_t i = 0; i < G->member.n; i++)
		if (lo_is_product(L, G->member.v[i]))
			return 1 + lo_outer(G) * G->red / ir_numel(L->g, ir_src(L->g, lo_node(L, G->member.v[i]), operand)) / READS_A_BLOCK;
	return 1;
}

static lo_use *join_ahead(lo_low *L, lo_group *G, ir_ref r, lo_map *m, int operand)
{
	int own, loads = 1, ops = 1;
	if (lo_widens(L->g, r)) {
		if (L->val[ir_src(L->g, lo_node(L, r), 0)].light) return refuse(L, "a matrix product reads its operands from memory");
	} else {
		if (!is_cheap(L, r, &own) || !of_leaves(L, r, 0))
			return refuse(L, "a matrix product computes only a few plain ops on arguments as it reads an operand");
		for (uint32_t i = 0; i < G->ahead.n; i++) {
			int n;
			if (G->ahead.v[i].operand != operand || lo_widens(L->g, G->ahead.v[i].ref)) continue;
			ops++;
			is_cheap(L, G->ahead.v[i].ref, &n);
			loads += n - 1;
		}
		if (ops > AHEAD_OPS || loads + own - 1 > LO_AHEAD_LOADS)
			return refuse(
				L,
				"a matrix product computes a few plain ops as it reads an operand; with this one they would be too many");
		if (ops * blocks_of(L, G, operand) > AHEAD_AGAIN) return refuse(L, "each block of the matrix product would compute it again");
	}
	lo_use *u = lo_indices_fit(L, G, r, m) ? lo_ask_op(L, G, r, m) : NULL;
	if (!u) return refuse(L, "its operands do not lie at fixed strides as the kernel would read them");
	if (!rt_push(&G->ahead, ((lo_ahead){ r, operand }))) L->oom = true;
	return u;
}

static bool try_join(lo_low *L, uint32_t id, ir_ref r, lo_map *m, bool store)
{
	lo_group *G = L->group.v[id];
	const bool had = G->reduces;
	bool behind;
	if (L->o->off & LO_OFF(FUSE)) return refuse(L, "fusion is off for this graph");
	if (!has_room(L, G, r)) return refuse(L, "the kernel is as large as registers allow");
	const int operand = G->product ? feeds_product(L, G, r, &behind) : -1;
	if (operand >= 0 && (store || behind))
		return refuse(L,
		              "it is needed elsewhere, too, and a matrix product does not store what it computes as it reads an operand");
	if (lo_path_back(L, r, id)) return refuse(L, "another step between the two needs it first");
	lo_use *made = operand >= 0 ? join_ahead(L, G, r, m, operand) : join(L, G, r, m, store);
	if (!made || L->oom) return false;
	if (G->reduces && !had) lo_renew(L, id);
	commit(L, id, made);
	lo_move_late(L, G->place);
	return true;
}

/* A new group, for r or for copies of it. A value of numbers alone is computed on the CPU. */
static lo_group *new_group(lo_low *L, ir_ref r, uint32_t *id)
{
	lo_group *G = lo_mem(L, sizeof *G);
	if (!G || !rt_push(&L->group, G)) {
		L->oom = true;
		return NULL;
	}
	G->merged = LO_NOGROUP;
	G->first = IR_NONE;
	G->red = 1;
	G->place = r;
	G->device = lo_node(L, r)->weak ? RT_CPU : lo_node(L, r)->device;
	if (lo_target_on(L->o, G->device)) G->window_row = lo_target_on(L->o, G->device)->window_row;
	*id = L->group.n - 1;
	return G;
}

/* r's step is no kernel: its operands must lie in buffers, in layouts that it takes. */
static void touch_operands(lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	lo_access *a = L->val[r].operand = lo_mem(L, sizeof *a * (n->nsrc + 1u));
	lo_buf_of(L, r);
	for (int k = 0; a && k < n->nsrc; k++, a++) {
		ir_ref src = lo_step_reads(L, r, k);
		lo_access_of(L, src, a);
		if (lo_takes(L, r, k, a) && (!ir_is_flow(n->op) || lo_flow_takes(L, src, a))) {
			lo_need(L, a);
			continue;
		}
		L->val[src].own = true;
		lo_access_of(L, src, a);
	}
}

/* The evaluator takes what no kernel can. */
static void give_up(lo_low *L, ir_ref r)
{
	L->val[r].how = LO_CALL;
	L->val[r].own = true;
	touch_operands(L, r);
}

static bool start(lo_low *L, ir_ref r)
{
	uint32_t id;
	lo_group *G = new_group(L, r, &id);
	lo_map *m = G ? lo_map_identity(L, G, r) : NULL;
	if (!m) return false;
	lo_use *made = join(L, G, r, m, true);
	if (!made) {
		G->merged = id; /* an empty group: skipped everywhere */
		return false;
	}
	commit(L, id, made);
	return true;
}

/* Makes a group that copies a leaf, the result of a routine or a stored value to its destinations; own: and to a buffer of its own. */
static void start_copy(lo_low *L, ir_ref r, bool own)
{
	uint32_t id;
	const lo_val *v = &L->val[r];
	lo_group *G = new_group(L, r, &id);
	lo_map *m = G ? lo_map_identity(L, G, r) : NULL;
	lo_use *u = m ? lo_ask(L, G, r, m) : NULL;
	if (!u) return;
	if (u->from == LO_FROM_LATER) {
		u->from = LO_FROM_LOAD;
		u->base = r;
		u->leaf = v->how == LO_LEAF;
	}
	lo_save_all(L, G, u, own);
}

/* A reshape that no kernel can index, as a result of the plan: the operand's buffer is copied as it is. */
static bool copy_solid(lo_low *L, ir_ref r)
{
	uint32_t id;
	lo_val *v = &L->val[r];
	if (v->how != LO_VIEW) return false;
	lo_group *G = new_group(L, r, &id);
	lo_map *m = G ? lo_map_identity(L, G, r) : NULL;
	lo_use *u = m ? lo_ask_solid(L, G, r, m) : NULL;
	if (!u) return false;
	u->from = LO_FROM_LOAD;
	v->solid = L->val[u->base].own = true;
	lo_save_all(L, G, u, v->own);
	return true;
}

/* A reduction over a view or an argument whose rows have no one stride, as windows over two axes or all of a transposed matrix: it is
 * stored first. */
static bool start_stored(lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	if (!(ir_ops[n->op].flags & IR_REDUCE)) return false;
	lo_val *x = &L->val[ir_src(L->g, n, 0)];
	if ((x->how != LO_VIEW && x->how != LO_LEAF) || x->own) return false;
	x->own = true;
	if (start(L, r)) return true;
	x->own = false;
	return false;
}

/* ---- the walk ---- */
/* room + 1: they are too many. */
static uint32_t wants_of(lo_low *L, ir_ref r, want *w, uint32_t room)
{
	uint32_t n = 0, i;
	bool reduces = false;
	for (const lo_use *u = L->val[r].use; u; u = u->next) {
		uint32_t id = u->group;
		const lo_group *G = lo_group_at(L, &id);
		reduces |= G->reduces;
		for (i = 0; i < n && w[i].group != id; i++) {}
		if (i < n) w[i].torn |= !lo_map_equal(G, w[i].map, u->map);
		else if (n < room) w[n++] = (want){ .group = id, .map = u->map };
		else return room + 1;
	}
	return reduces && n > FEW_WANTS ? room + 1 : n;
}

static uint32_t merge_wants(lo_low *L, ir_ref r, want *w, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = i + 1; j < n && !(L->o->off & (LO_OFF(FUSE) | LO_OFF(MERGE))); j++)
			if (lo_merge(L, r, w[i].group, w[i].map, w[j].group, w[j].map, w[i].torn || w[j].torn)) return wants_of(L, r, w, MAX_WANTS);
	return n;
}

/* Which of the others, that do not get r from group w[first], compute it again, or load it from a second store. */
static relay find_again(lo_low *L, ir_ref r, want *w, uint32_t n, uint32_t first)
{
	bool behind;
	for (uint32_t i = 0; i < n; i++) {
		const lo_group *G = L->group.v[w[i].group];
		w[i].feeds = G->product && feeds_product(L, G, r, &behind) >= 0;
	}
	return lo_find_again(L, r, w, n, first);
}

/* Some reader, other than w[first], loads it from its first store. */
static bool is_loaded(const want *w, uint32_t n, uint32_t first)
{
	for (uint32_t i = 0; i < n; i++)
		if (i != first && !w[i].again && !w[i].late) return true;
	return false;
}

static void place(lo_low *L, ir_ref r)
{
	want w[MAX_WANTS];
	uint32_t n = wants_of(L, r, w, MAX_WANTS), before;
	lo_val *v = &L->val[r];
	bool kept = v->own || v->dest || n > MAX_WANTS;
	if (n > MAX_WANTS) n = 0;
	do before = n, n = merge_wants(L, r, w, n);
	while (n < before);
	/* Groups are made from the end of the graph, so the newest group runs first. Try it first. */
	for (uint32_t tries = 0, last = UINT32_MAX; tries < n; tries++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < n; i++)
			if (w[i].group < last && (best == UINT32_MAX || w[i].group > w[best].group)) best = i;
		last = w[best].group;
		const relay by = find_again(L, r, w, n, best);
		const bool own = v->own, others = is_loaded(w, n, best);
		if (others) v->own = true;
		L->why = w[best].torn ? LO_TORN : "the reduction reads it over axes that its own operands lack: it is stored instead of these";
		if (!w[best].torn && !v->apart && try_join(L, w[best].group, r, w[best].map, kept || others)) {
			v->refused = NULL;
			lo_take_again(L, r, w, n, &by);
			return;
		}
		v->refused = L->why;
		v->refused_by = w[best].group;
		v->own = own;
	}
	const relay by = find_again(L, r, w, n, n);
	v->own = v->own || v->use || !v->dest;
	if (v->how == LO_VIEW || v->how == LO_FUSE) {
		if (start(L, r)) {
			lo_take_again(L, r, w, n, &by);
			return;
		}
		if (L->oom || start_stored(L, r) || copy_solid(L, r)) return;
		give_up(L, r);
		if (v->dest) start_copy(L, r, false);
	}
}

/* Stores the operands of r side by side at d. */
static void beside(lo_low *L, ir_ref r, const lo_dest *d)
{
	const ir_node *n = lo_node(L, r);
	int64_t at = d->offset, axis = ir_attr(L->g, n)[0];
	for (int k = 0; k < n->nsrc && !L->oom; k++) {
		ir_ref src = ir_src(L->g, n, k);
		if (ir_numel(L->g, src)) lo_add_dest(L, src, d->buf, d->node, at, d->stride);
		at += lo_dim(L, src)[axis] * d->stride[axis];
	}
}

/* A value that only other cats read needs no buffer: its operands are stored where they go. */
static void cat(lo_low *L, ir_ref r)
{
	lo_val *v = &L->val[r];
	if (v->dest && !v->own && !v->use && lo_target_of(L, r)) {
		for (const lo_dest *d = v->dest; d; d = d->next) beside(L, r, d);
		return;
	}
	v->own = true;
	lo_dest own = { .buf = lo_buf_of(L, r), .node = r };
	ir_contiguous(lo_node(L, r)->rank, lo_dim(L, r), own.stride);
	beside(L, r, &own);
	if (v->dest && lo_target_of(L, r)) start_copy(L, r, false);
}

/* ---- rows that lie across memory ---- */
/* The group walks rows of the value in steps of far_step elements or more, while another of its indices walks adjacent elements.
 * In a row-major copy the elements of a row would be adjacent. */
static bool across(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m, const lo_access *a)
{
	lo_expr e = lo_linear(G, m, a->stride), own = lo_row_major(L, G, r, m);
	int64_t far_step = lo_target_of(L, r)->far_step;
	bool far = false, near = false, fits = true;
	for (int i = 0; i < G->natom; i++) {
		int64_t step = e.c[i] < 0 ? -e.c[i] : e.c[i];
		if (G->ext[i] <= 1) continue;
		if (G->isr[i]) far |= step >= far_step * G->rstride[i], fits &= own.c[i] == G->rstride[i];
		else near |= step == 1 && G->ext[i] >= far_step;
	}
	return far && near && fits;
}

/* It is faster to transpose the value first, tile by tile, than to gather each row; its other readers can read the copy, too. */
static bool read_across(lo_low *L, ir_ref r)
{
	lo_access a;
	if (ir_numel(L->g, r) < lo_target_of(L, r)->transposed) return false;
	lo_access_of(L, r, &a);
	if (L->val[a.base].how != LO_LEAF) return false;
	bool any = false;
	for (const lo_use *u = L->val[r].use; u; u = u->next) {
		uint32_t id = u->group;
		const lo_group *G = lo_group_at(L, &id);
		lo_expr own = lo_row_major(L, G, r, u->map);
		if (!lo_fits_r(G, &own)) return false;
		any |= G->reduces && G->classed && !G->column && across(L, G, r, u->map, &a);
	}
	return any;
}

static void copy_view(lo_low *L, ir_ref r)
{
	L->val[r].own = true;
	if (!start(L, r)) L->val[r].own = false;
}

static void copy_leaf(lo_low *L, ir_ref r)
{
	L->val[r].own = L->val[r].copied = true;
	start_copy(L, r, true);
}

/* Without kernels, the evaluator computes a view that must lie in a buffer. */
static void view_without_kernels(lo_low *L, ir_ref r)
{
	if (!L->val[r].own) return;
	L->val[r].how = LO_CALL;
	touch_operands(L, r);
}

static void merge_readers(lo_low *L, ir_ref r)
{
	want w[MAX_WANTS];
	uint32_t n = wants_of(L, r, w, MAX_WANTS), before;
	if (n > MAX_WANTS) return;
	do before = n, n = merge_wants(L, r, w, n);
	while (n < before);
}

/* It runs even if its result has no elements. */
static bool has_effect(const lo_low *L, ir_ref r) { return ir_ops[lo_node(L, r)->op].flags & IR_EFFECT; }

static void decide(lo_low *L, ir_ref r)
{
	lo_val *v = &L->val[r];
	bool stored = v->own || v->dest;
	if (!stored && !v->use) return;
	if (ir_numel(L->g, r) == 0) {
		if ((v->own || has_effect(L, r)) && (v->how == LO_CALL || v->how == LO_LIB) && ir_ops[lo_node(L, r)->op].flags & IR_FAULT) {
			v->own = true;
			touch_operands(L, r);
		} else if (lo_node(L, r)->op == IR_to && has_effect(L, ir_src(L->g, lo_node(L, r), 0))) {
			touch_operands(L, r);
		}
		return;
	}
	switch ((lo_how)v->how) {
	case LO_LEAF:
		if (lo_target_of(L, r) && stored) start_copy(L, r, v->own);
		else if (v->use && ir_numel(L->g, r) > 1) merge_readers(L, r);
		if (lo_target_of(L, r) && !stored && read_across(L, r)) copy_leaf(L, r);
		return;
	case LO_VIEW:
		if (!lo_target_of(L, r)) view_without_kernels(L, r);
		else if (stored) place(L, r);
		else if (read_across(L, r)) copy_view(L, r);
		else if (v->use && ir_numel(L->g, r) > 1) merge_readers(L, r);
		return;
	case LO_FUSE:
		if (!v->light || stored) place(L, r);
		return;
	case LO_CAT:
		cat(L, r);
		return;
	case LO_LIB: case LO_CALL:
		v->own = true;
		touch_operands(L, r);
		break;
	}
	if (v->dest && lo_target_of(L, r)) start_copy(L, r, false);
}

/* Cuts a list behind its first MAX_DESTS elements; returns the rest. */
static lo_dest *cut(lo_dest *d, lo_dest **last)
{
	for (int i = 1; d && i < MAX_DESTS; i++) d = d->next;
	*last = d;
	lo_dest *rest = d ? d->next : NULL;
	if (rest) d->next = NULL;
	return rest;
}

/* The kernel that computes a value stores it to a few places, further kernels copy it to the others. */
static void decide_all(lo_low *L, ir_ref r)
{
	lo_val *v = &L->val[r];
	lo_dest *all = v->dest, *last, *rest = lo_target_of(L, r) && ir_numel(L->g, r) ? cut(all, &last) : NULL;
	if (rest && v->how != LO_LEAF) v->own = true;
	decide(L, r);
	while (rest) {
		lo_dest *from = last;
		v->dest = rest;
		rest = cut(rest, &last);
		start_copy(L, r, false);
		from->next = v->dest;
	}
	v->dest = all;
}

bool lo_group_all(lo_low *L)
{
	if (!lo_line_up(L) || !lo_find_times(L)) return false;
	for (ir_ref r = L->g->node.n; r-- > 0 && !L->oom;) {
		L->at = r;
		decide_all(L, r);
		lo_settle(L, r);
	}
	return !L->oom;
}
