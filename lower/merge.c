/* SPDX-License-Identifier: MIT */
/* merge: merges two groups that read the same value at matching maps.
 *
 * called while groups are made; keeps every group one step: no path leaves a group and comes back into it */
#include "lower/fuse.h"

/* Atoms that e depends on, by step. */
static int by_step(const lo_group *G, const lo_expr *e, int *order)
{
	int n = 0;
	for (int a = 0; a < G->natom; a++) {
		if (!e->c[a] || G->ext[a] <= 1) continue;
		int i = n++;
		for (; i && e->c[order[i - 1]] > e->c[a]; i--) order[i] = order[i - 1];
		order[i] = a;
	}
	return n;
}

/* The same for groups that walk elements of the same structures, as red and blue of all pixels: they take the same steps, which are larger
 * than the way from one to the other. */
static bool pair_structures(const lo_low *L, ir_ref r, const lo_group *A, const lo_map *ma, const lo_group *B, const lo_map *mb, int *to)
{
	const lo_expr ea = lo_row_major(L, A, r, ma), eb = lo_row_major(L, B, r, mb);
	const int64_t way = ea.off < eb.off ? eb.off - ea.off : ea.off - eb.off;
	int oa[LO_ATOMS], ob[LO_ATOMS];
	const int n = by_step(A, &ea, oa);
	if (!n || n != by_step(B, &eb, ob) || A->reduces || B->reduces) return false;
	for (int i = 0; i < n; i++) {
		const int64_t step = ea.c[oa[i]];
		if (step < 2 || step <= way || step != eb.c[ob[i]] || A->ext[oa[i]] != B->ext[ob[i]]) return false;
		to[ob[i]] = oa[i];
	}
	return true;
}

/* Pairs each atom b of B with the atom a of A that walks r in the same way: to[b] = a. Splits an atom where one side is coarser. */
static bool pair_atoms(const lo_low *L, ir_ref r, lo_group *A, const lo_map *ma, lo_group *B,
                       const lo_map *mb, int *to)
{
	if (pair_structures(L, r, A, ma, B, mb, to)) return true;
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
	if (lo_group_fits(L, B)) {
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
	if (!rt_reserve(&A->member, B->member.n) || !rt_reserve(&A->save, B->save.n) || !rt_reserve(&A->again, B->again.n))
		return !(L->oom = true);
	for (uint32_t i = 0; i < B->member.n; i++) {
		A->member.v[A->member.n++] = B->member.v[i];
		L->val[B->member.v[i]].group = a;
	}
	for (uint32_t i = 0; i < B->save.n; i++) A->save.v[A->save.n++] = B->save.v[i];
	for (uint32_t i = 0; i < B->again.n; i++) A->again.v[A->again.n++] = B->again.v[i];
	if (B->first < A->first) A->first = B->first;
	A->weight += B->weight;
	A->redundant += B->redundant;
	A->reductions += B->reductions;
	if (B->classed) {
		A->classed = true;
		A->column = B->column;
	}
	B->member.n = B->save.n = B->again.n = 0;
	B->merged = a;
	A->place = lo_later(L, A->place, B->place);
	lo_move_late(L, A->place);
	return true;
}

static bool parted(lo_low *L, ir_ref r, uint32_t a, uint32_t b, const char *why)
{
	lo_val *v = &L->val[r];
	v->parted = why;
	v->parts[0] = a;
	v->parts[1] = b;
	return false;
}

bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb, bool torn)
{
	lo_group *A = L->group.v[a], *B = L->group.v[b];
	int to[LO_ATOMS] = { 0 };
	if (torn && !pair_structures(L, r, A, ma, B, mb, to)) return false;
	if (B->reduces && !A->reduces) return lo_merge(L, r, b, mb, a, ma, torn);
	if (A->device != B->device) return parted(L, r, a, b, "they run on different devices");
	if (A->product || B->product) return parted(L, r, a, b, "one of them computes a matrix product");
	const lo_target *t = lo_target_on(L->o, A->device);
	if (A->weight + B->weight > t->weight || A->member.n + B->member.n > (uint32_t)t->members ||
	    A->reductions + B->reductions > MAX_LOOPS)
		return parted(L, r, a, b, "one kernel with both would be larger than registers allow");
	if (A->classed && B->classed && A->column != B->column) return parted(L, r, a, b, "one of them reduces rows, the other one columns");
	lo_expr ea = lo_row_major(L, A, r, ma), eb = lo_row_major(L, B, r, mb);
	if (!all_used(A, &ea, B->reduces) || !all_used(B, &eb, true))
		return parted(L, r, a, b, "one of them has an index that it does not have");
	if (lo_path_between(L, a, b)) return parted(L, r, a, b, "one of them, or a step between them, needs what the other one stores");
	if (!pair_atoms(L, r, A, ma, B, mb, to) || !whole_r(A, B, to) || !take_r(L, A, b, to))
		return parted(L, r, a, b, "they do not walk its elements in one order");
	rewrite(A, B, to);
	return move(L, a, b);
}
