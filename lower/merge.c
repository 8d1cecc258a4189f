/* merge: finds paths between groups, and merges two groups that read the same value at matching maps.
 *
 * called while groups are made; keeps every group one step: no path leaves a group and comes back into it */
#include "lower/fuse.h"

/* ---- paths ---- */
typedef struct search {
	lo_low *L;
	uint32_t a, b;      /* groups that must not be reached; b may be LO_NOGROUP */
	rt_vec(ir_ref) todo;
	bool hit;
} search;

static uint32_t group_of(lo_low *L, ir_ref r)
{
	uint32_t id = L->val[r].group;
	if (id != LO_NOGROUP) lo_group_at(L, &id);
	return id;
}

static void visit(search *s, ir_ref r)
{
	if (s->L->stamp[r] == s->L->now) return;
	s->L->stamp[r] = s->L->now;
	if (!rt_push(&s->todo, r)) s->L->oom = true;
}

static bool looked_through(const lo_low *L, ir_ref r)
{
	return L->val[r].how == LO_VIEW && !L->val[r].own && !L->val[r].solid;
}

/* A gather reads its table from a buffer, even if its own group computed it. */
static bool through_memory(const lo_low *L, ir_ref r, ir_ref user)
{
	const ir_node *n = lo_node(L, user);
	return lo_is_gather((ir_op)n->op) && ir_src(L->g, n, 0) == r;
}

/* Visits the values that read r. self: a group that reads r directly, without a buffer, which is no path back; or LO_NOGROUP. */
static void visit_users(search *s, ir_ref r, uint32_t self)
{
	lo_low *L = s->L;
	rt_vec(ir_ref) views = { 0 };
	for (bool more = true; more; more = views.n > 0 && (r = views.v[--views.n], true))
		for (uint32_t i = L->nuser[r]; i < L->nuser[r + 1]; i++) {
			ir_ref u = L->user[i];
			uint32_t g = group_of(L, u);
			if (g != LO_NOGROUP && (g == s->a || g == s->b)) s->hit |= g != self || through_memory(L, r, u);
			else if (self == LO_NOGROUP || !looked_through(L, u)) visit(s, u);
			else if (!rt_push(&views, u)) L->oom = true;
		}
	rt_vec_free(&views);
}

/* Visits the readers of r, and everything that r's group computes: the whole group runs as one step. */
static void spread(search *s, ir_ref r)
{
	uint32_t id = group_of(s->L, r);
	visit_users(s, r, LO_NOGROUP);
	if (id == LO_NOGROUP) return;
	const lo_group *G = s->L->group.v[id];
	for (uint32_t i = 0; i < G->member.n; i++) visit(s, G->member.v[i]);
	for (uint32_t i = 0; i < G->save.n; i++)
		if (G->save.v[i].dest->node != IR_NONE) visit(s, G->save.v[i].dest->node);
}

static bool finish(search *s)
{
	while (s->todo.n && !s->hit && !s->L->oom) spread(s, s->todo.v[--s->todo.n]);
	rt_vec_free(&s->todo);
	return s->hit || s->L->oom;
}

bool lo_path_back(lo_low *L, ir_ref r, uint32_t group)
{
	search s = { .L = L, .a = group, .b = LO_NOGROUP };
	L->now++;
	visit_users(&s, r, group);
	return finish(&s);
}

/* Starts from all members of a group; another group reads them from memory. */
static void leave(search *s, uint32_t id)
{
	const lo_group *G = s->L->group.v[id];
	for (uint32_t i = 0; i < G->member.n; i++) visit_users(s, G->member.v[i], id);
	for (uint32_t i = 0; i < G->save.n; i++)
		if (G->save.v[i].dest->node != IR_NONE) visit_users(s, G->save.v[i].dest->node, LO_NOGROUP);
}

static bool path_between(lo_low *L, uint32_t a, uint32_t b)
{
	search s = { .L = L, .a = a, .b = b };
	L->now++;
	leave(&s, a);
	leave(&s, b);
	return finish(&s);
}

/* ---- merging ---- */
/* Pairs each atom b of B with the atom a of A that walks r in the same way: to[b] = a. Splits an atom where one side is coarser. */
static bool pair_atoms(const lo_low *L, ir_ref r, lo_group *A, const lo_map *ma, lo_group *B,
                       const lo_map *mb, int *to)
{
	for (;;) {
		int oa[LO_ATOMS], ob[LO_ATOMS], i = 0;
		lo_expr ea = lo_row_major(L, A, r, ma), eb = lo_row_major(L, B, r, mb);
		int na = lo_radix(A, &ea, ir_numel(L->g, r), oa), nb = lo_radix(B, &eb, ir_numel(L->g, r), ob);
		if (na < 0 || nb < 0) return false;
		while (i < na && i < nb && A->ext[oa[i]] == B->ext[ob[i]]) {
			to[ob[i]] = oa[i];
			i++;
		}
		if (i == na && i == nb) return true;
		if (i == na || i == nb) return false;
		int64_t x = A->ext[oa[i]], y = B->ext[ob[i]];
		if (x < y ? y % x || !lo_split(B, ob[i], x) : x % y || !lo_split(A, oa[i], y)) return false;
	}
}

static bool all_used(const lo_group *G, const lo_expr *e, bool with_r)
{
	for (int a = 0; a < G->natom; a++)
		if (G->ext[a] > 1 && !e->c[a] && (with_r || !G->isr[a])) return false;
	return true;
}

/* B must use all of A's r or none of it: A cannot hold a value that depends on a part of r. */
static bool whole_r(const lo_group *A, const lo_group *B, const int *to)
{
	int all = 0, some = 0;
	for (int a = 0; a < A->natom; a++) all += A->isr[a] && A->ext[a] > 1;
	for (int b = 0; b < B->natom; b++) some += B->ext[b] > 1 && A->isr[to[b]];
	return !some || some == all;
}

/* Makes atoms of B part of r as their partners in A are. */
static bool take_r(lo_low *L, const lo_group *A, uint32_t b_id, const int *to)
{
	lo_group *B = L->group.v[b_id];
	bool buffers;
	for (int b = 0; b < B->natom; b++) {
		if (B->ext[b] <= 1) continue;
		if (B->reduces && (B->isr[b] != A->isr[to[b]] || (B->isr[b] && B->rstride[b] != A->rstride[to[b]])))
			return false;
	}
	if (B->reduces) return A->red == B->red;
	for (int b = 0; b < B->natom; b++)
		if (B->ext[b] > 1 && A->isr[to[b]]) B->isr[b] = true, B->rstride[b] = A->rstride[to[b]];
	B->reduces = A->reduces;
	B->red = A->red;
	if (lo_group_fits(L, B, &buffers) && !buffers) {
		lo_renew(L, b_id);
		return true;
	}
	memset(B->isr, 0, sizeof B->isr);
	B->reduces = false;
	B->red = 1;
	return false;
}

static void rewrite(lo_group *A, lo_group *B, const int *to)
{
	lo_map *last = NULL;
	for (lo_map *m = B->maps; m; last = m, m = m->next)
		for (int i = 0; i < m->rank; i++) {
			lo_expr e = { .off = m->e[i].off };
			for (int b = 0; b < B->natom; b++)
				if (B->ext[b] > 1) e.c[to[b]] = m->e[i].c[b];
			m->e[i] = e;
		}
	if (!last) return;
	last->next = A->maps;
	A->maps = B->maps;
	B->maps = NULL;
}

static bool move(lo_low *L, uint32_t a, uint32_t b)
{
	lo_group *A = L->group.v[a], *B = L->group.v[b];
	if (!rt_reserve(&A->member, B->member.n) || !rt_reserve(&A->save, B->save.n)) return !(L->oom = true);
	for (uint32_t i = 0; i < B->member.n; i++) {
		A->member.v[A->member.n++] = B->member.v[i];
		L->val[B->member.v[i]].group = a;
	}
	for (uint32_t i = 0; i < B->save.n; i++) A->save.v[A->save.n++] = B->save.v[i];
	A->weight += B->weight;
	A->redundant += B->redundant;
	A->reductions += B->reductions;
	if (B->classed) {
		A->classed = true;
		A->column = B->column;
	}
	B->member.n = B->save.n = 0;
	B->merged = a;
	return true;
}

bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb)
{
	lo_group *A = L->group.v[a], *B = L->group.v[b];
	int to[LO_ATOMS] = { 0 };
	if (B->reduces && !A->reduces) return lo_merge(L, r, b, mb, a, ma);
	if (A->device != B->device || A->product || B->product) return false;
	const lo_target *t = lo_target_on(L->o, A->device);
	if (A->weight + B->weight > t->weight || A->member.n + B->member.n > (uint32_t)t->members || A->reductions + B->reductions > MAX_LOOPS) return false;
	if (A->classed && B->classed && A->column != B->column) return false;
	lo_expr ea = lo_row_major(L, A, r, ma), eb = lo_row_major(L, B, r, mb);
	if (!all_used(A, &ea, B->reduces) || !all_used(B, &eb, true) || path_between(L, a, b)) return false;
	if (!pair_atoms(L, r, A, ma, B, mb, to) || !whole_r(A, B, to) || !take_r(L, A, b, to)) return false;
	rewrite(A, B, to);
	return move(L, a, b);
}
