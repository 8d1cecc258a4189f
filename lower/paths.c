/* SPDX-License-Identifier: MIT */
/* paths: whether a path leads from a value, or a group, through other steps to a group.
 *
 * called while groups are made. A group is one step, so paths lead through all of it: from any member to the readers of any other.
 *
 * All values stand in a line, operands before their users; a group stands in the place of one member, all of it. So a search
 * ends at the place of the group that it looks for, and looks at a small part of a graph of thousands of steps.
 *
 *   x joins G; u and v read x,         . . x . u . v . G . w
 *   and no path leads from them   =>   . . . . . . . . G u v . w      G stands for x, too; its readers are behind it
 *   to G
 *
 * The line is a list with labels that rise, so two places are compared by their labels. */
#include "lower/fuse.h"

#include <stdlib.h>

/* ---- the line ---- */
/* The values in order[], by the length of the longest path that leads to each; those of one length in the order of the graph. false: out of
 * memory. */
static bool sort_by_depth(lo_low *L, ir_ref *order)
{
	const uint32_t n = L->g->node.n;
	uint32_t *depth = rt_calloc(sizeof *depth * (n + 1)), *at = rt_calloc(sizeof *at * (n + 2)); /* at: by depth + 1, where its values begin */
	for (ir_ref r = 0; depth && at && r < n; r++) {
		const ir_node *x = lo_node(L, r);
		for (int k = 0; k < x->nsrc; k++) {
			const uint32_t from = depth[ir_src(L->g, x, k)] + 1;
			if (from > depth[r]) depth[r] = from;
		}
		at[depth[r] + 1]++;
	}
	for (uint32_t i = 0; depth && at && i < n; i++) at[i + 1] += at[i];
	for (ir_ref r = 0; depth && at && r < n; r++) order[at[depth[r]]++] = r;
	const bool ok = depth && at;
	rt_free(depth);
	rt_free(at);
	return ok;
}

/* By depth: an update of a parameter stands near its gradient, not behind the whole backward pass as in the graph. */
bool lo_line_up(lo_low *L)
{
	const uint32_t n = L->g->node.n;
	lo_line *x = &L->line;
	ir_ref *order = rt_alloc(sizeof *order * (n + 1u));
	x->label = lo_mem(L, sizeof *x->label * (n + 1));
	x->prev = lo_mem(L, sizeof *x->prev * (n + 1));
	x->next = lo_mem(L, sizeof *x->next * (n + 1));
	const bool ok = order && !L->oom && sort_by_depth(L, order);
	for (uint32_t i = 0; ok && i <= n; i++) { /* a ring: place n is before the first one and behind the last one */
		const ir_ref r = i < n ? order[i] : n;
		x->label[r] = i < n ? (uint64_t)(i + 1) << 32 : 0;
		x->prev[r] = i ? order[i - 1] : n;
		x->next[i ? order[i - 1] : n] = r;
	}
	if (ok) x->prev[n] = n ? order[n - 1] : n;
	rt_free(order);
	return ok;
}

ir_ref lo_later(const lo_low *L, ir_ref a, ir_ref b) { return L->line.label[a] > L->line.label[b] ? a : b; }

static void move_behind(lo_line *x, ir_ref place, ir_ref r)
{
	x->next[x->prev[r]] = x->next[r];
	x->prev[x->next[r]] = x->prev[r];
	x->prev[r] = place;
	x->next[r] = x->next[place];
	x->prev[x->next[place]] = r;
	x->next[place] = r;
}

/* Gives the n places behind `first` labels between those of first and of the place after them, which is `end` at the end of the line.
 * false: too few are left there. */
static bool label(lo_line *x, ir_ref first, uint32_t n, ir_ref end)
{
	ir_ref r = first;
	for (uint32_t i = 0; i <= n; i++) r = x->next[r];
	const uint64_t low = x->label[first], step = ((r == end ? UINT64_MAX : x->label[r]) - low) / (n + 1u);
	r = first;
	for (uint32_t i = 1; i <= n && step; i++) x->label[r = x->next[r]] = low + i * step;
	return step > 0;
}

static int by_label(const void *a, const void *b)
{
	const uint64_t x = ((const lo_late *)a)->label, y = ((const lo_late *)b)->label;
	return (x > y) - (x < y);
}

void lo_move_late(lo_low *L, ir_ref place)
{
	lo_line *x = &L->line;
	const ir_ref n = L->g->node.n;
	if (!x->late.n) return;
	qsort(x->late.v, x->late.n, sizeof *x->late.v, by_label);
	for (uint32_t i = x->late.n; i-- > 0;) move_behind(x, place, x->late.v[i].place);
	if (!label(x, place, x->late.n, n)) label(x, n, n, n); /* anew for all */
	x->late.n = 0;
}

/* ---- searches ---- */
typedef struct search {
	lo_low *L;
	uint32_t a, b;      /* groups that must not be reached; b may be LO_NOGROUP */
	uint64_t until;     /* label of the later one of them */
	rt_vec(lo_late) todo; /* a heap of places, the furthest back on top: most often a path that exists is found by going straight on */
	bool hit;
} search;

static bool add(search *s, lo_late x)
{
	if (!rt_reserve(&s->todo, 1)) return false;
	uint32_t i = s->todo.n++;
	for (; i > 0 && x.label > s->todo.v[(i - 1) / 2].label; i = (i - 1) / 2) s->todo.v[i] = s->todo.v[(i - 1) / 2];
	s->todo.v[i] = x;
	return true;
}

static ir_ref take(search *s)
{
	const ir_ref top = s->todo.v[0].place;
	const lo_late x = s->todo.v[--s->todo.n];
	uint32_t i = 0;
	for (uint32_t c; (c = 2 * i + 1) < s->todo.n; i = c) {
		if (c + 1 < s->todo.n && s->todo.v[c + 1].label > s->todo.v[c].label) c++;
		if (x.label >= s->todo.v[c].label) break;
		s->todo.v[i] = s->todo.v[c];
	}
	s->todo.v[i] = x;
	return top;
}

static uint32_t group_of(lo_low *L, ir_ref r)
{
	uint32_t id = L->val[r].group;
	if (id != LO_NOGROUP) lo_group_at(L, &id);
	return id;
}

static bool looked_through(const lo_low *L, ir_ref r)
{
	return L->val[r].how == LO_VIEW && !L->val[r].own && !L->val[r].solid;
}

/* It is computed by its readers, wherever they stand in the line. */
static bool is_in_readers(const lo_low *L, ir_ref r)
{
	return L->val[r].group == LO_NOGROUP && (L->val[r].light || looked_through(L, r));
}

static void visit(search *s, ir_ref r)
{
	lo_low *L = s->L;
	const uint32_t id = group_of(L, r);
	const ir_ref place = id == LO_NOGROUP ? r : L->group.v[id]->place;
	const lo_late x = { L->line.label[place], place };
	if (L->stamp[place] == L->now) return;
	L->stamp[place] = L->now;
	if (!is_in_readers(L, r)) {
		if (x.label > s->until) return;
		if (!rt_push(&L->line.late, x)) L->oom = true;
	}
	L->line.visits++;
	if (!add(s, x)) L->oom = true;
}

/* A gather reads its table from a buffer, even if its own group computed it. */
static bool through_memory(const lo_low *L, ir_ref r, ir_ref user)
{
	const ir_node *n = lo_node(L, user);
	return lo_is_gather((ir_op)n->op) && ir_src(L->g, n, 0) == r;
}

static void visit_group(search *s, uint32_t id)
{
	const lo_group *G = lo_group_at(s->L, &id);
	s->hit |= id == s->a || id == s->b;
	if (!s->hit) visit(s, G->place);
}

/* Visits the groups that read r because they compute another value again: in the graph they may be no users of r. */
static void visit_again(search *s, ir_ref r, uint32_t self)
{
	const lo_low *L = s->L;
	for (const lo_use *u = L->recomputed ? L->val[r].use : NULL; u; u = u->next) {
		uint32_t id = u->group;
		if (lo_group_at(L, &id)->again.n && id != self) visit_group(s, id);
	}
}

/* r is cast to an index, which the step u does not read. */
static bool skips(const lo_low *L, ir_ref r, ir_ref u)
{
	const ir_node *n = lo_node(L, u);
	if (ir_ops[n->op].opclass != IR_SCATTER) return false;
	for (int k = 0; k < n->nsrc; k++)
		if (lo_step_reads(L, u, k) == r) return false;
	return true;
}

/* Visits the steps that read r instead of r cast to an index. */
static void visit_past(search *s, ir_ref cast)
{
	const lo_low *L = s->L;
	if (lo_node(L, cast)->op != IR_cast) return;
	for (uint32_t i = L->nuser[cast]; i < L->nuser[cast + 1]; i++)
		if (skips(L, cast, L->user[i])) visit(s, L->user[i]);
}

/* Visits the values that read r. self: a group that reads r directly, without a buffer, which is no path back; or LO_NOGROUP. */
static void visit_users(search *s, ir_ref r, uint32_t self)
{
	lo_low *L = s->L;
	rt_vec(ir_ref) views = { 0 };
	for (bool more = true; more; more = views.n > 0 && (r = views.v[--views.n], true)) {
		visit_again(s, r, self);
		for (uint32_t i = L->nuser[r]; i < L->nuser[r + 1]; i++) {
			ir_ref u = L->user[i];
			uint32_t g = group_of(L, u);
			visit_past(s, u);
			if (skips(L, r, u)) continue;
			if (g != LO_NOGROUP && (g == s->a || g == s->b)) s->hit |= g != self || through_memory(L, r, u);
			else if (self == LO_NOGROUP || !looked_through(L, u)) visit(s, u);
			else if (!rt_push(&views, u)) L->oom = true;
		}
	}
	rt_vec_free(&views);
}

/* Visits the groups that read what a group stores again. */
static void visit_late(search *s, const lo_group *G)
{
	const lo_low *L = s->L;
	for (uint32_t i = 0; i < G->save.n; i++)
		for (const lo_use *u = lo_is_late(L, &G->save.v[i]) ? L->val[G->save.v[i].value].use : NULL; u; u = u->next)
			if (u->late) visit_group(s, u->group);
}

/* Visits what comes after a place. */
static void go_on(search *s, ir_ref place)
{
	const uint32_t id = group_of(s->L, place);
	const lo_group *G = id == LO_NOGROUP ? NULL : s->L->group.v[id];
	if (!G) visit_users(s, place, LO_NOGROUP);
	for (uint32_t i = 0; G && i < G->member.n; i++) visit_users(s, G->member.v[i], LO_NOGROUP);
	if (G) visit_late(s, G);
}

static search begin(lo_low *L, uint32_t a, uint32_t b)
{
	const ir_ref place = L->group.v[a]->place, last = b == LO_NOGROUP ? place : lo_later(L, place, L->group.v[b]->place);
	L->now++;
	L->line.late.n = 0;
	return (search){ .L = L, .a = a, .b = b, .until = L->line.label[last] };
}

static bool finish(search *s)
{
	while (s->todo.n && !s->hit && !s->L->oom) go_on(s, take(s));
	rt_vec_free(&s->todo);
	if (s->hit || s->L->oom) s->L->line.late.n = 0;
	return s->hit || s->L->oom;
}

bool lo_path_back(lo_low *L, ir_ref r, uint32_t group)
{
	search s = begin(L, group, LO_NOGROUP);
	visit_users(&s, r, group);
	return finish(&s);
}

bool lo_path_from(lo_low *L, const want *w, uint32_t n, uint32_t group)
{
	search s = begin(L, group, LO_NOGROUP);
	for (uint32_t i = 0; i < n; i++)
		if (w[i].late) visit_group(&s, w[i].group);
	return finish(&s);
}

bool lo_path_to(lo_low *L, uint32_t from, ir_ref r, uint32_t group)
{
	const lo_line *x = &L->line;
	const ir_ref last = group == LO_NOGROUP ? r : lo_later(L, r, L->group.v[group]->place);
	search s = { .L = L, .a = group, .b = LO_NOGROUP, .until = x->label[last] };
	L->now++;
	L->line.late.n = 0;
	visit_group(&s, from);
	while (s.todo.n && !s.hit && !L->oom) {
		go_on(&s, take(&s));
		s.hit |= L->val[r].group == LO_NOGROUP && L->stamp[r] == L->now;
	}
	return finish(&s);
}

/* Starts from all members of a group; another group reads them from memory. */
static void leave(search *s, uint32_t id)
{
	const lo_group *G = s->L->group.v[id];
	for (uint32_t i = 0; i < G->member.n; i++) visit_users(s, G->member.v[i], id);
	for (uint32_t i = 0; i < G->save.n; i++)
		if (G->save.v[i].dest->node != IR_NONE && !lo_is_late(s->L, &G->save.v[i])) visit_users(s, G->save.v[i].dest->node, LO_NOGROUP);
	visit_late(s, G);
}

bool lo_path_between(lo_low *L, uint32_t a, uint32_t b)
{
	search s = begin(L, a, b);
	leave(&s, a);
	leave(&s, b);
	return finish(&s);
}
