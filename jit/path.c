/* SPDX-License-Identifier: MIT */
/* Direct mode, paths: made of what a call has learned, and compared with what an earlier one had. */
#include "jit/ctx.h"
#include "jit/note.h"

/* Two runs of the body under the same key differ. */
static void demote(jit_act *a, const char *site, const char *expected, const char *found, const char *what)
{
	a->learn = NULL;
	if (atomic_exchange(&a->fn->follow, true)) return;
	jit_learn_tell(
		a, "impure", site ? site : "?", expected, found,
		"the body depends on something undeclared: pass it by tj_call_ex() and read it with tj_arg_f() or tj_arg_i(), or use TJ_VERIFY",
		what);
}

/* Replaces the event number by the index of the value in its plan. */
static bool place_value(const jit_act *a, jit_from *f)
{
	int v = f->kind == JIT_FROM_VALUE ? jit_find_in_plan(a->done.v[f->seg].plan, f->index) : 0;
	if (f->kind == JIT_FROM_VALUE) f->index = (uint32_t)v;
	return v >= 0;
}

/* ---- comparing with what was learned before ---- */
static const jit_node *node_at(const jit_node *n, uint32_t seq)
{
	while (n->seq > seq) n = n->parent;
	return n;
}

/* Writes the first difference between two events with the same event number, as "attribute 1 of slice at a.c:11 was 0, is 2". */
static void put_difference(char *what, size_t room, const jit_node *was, const jit_node *is, uint32_t i, char *expected, char *found,
                           size_t few)
{
	static const char *const same = "with equal arguments and state";
	const char *site = is->site ? is->site : "?", *op = jit_event_name(is->op);
	int k = 0;
	snprintf(expected, few, "%s at %s", jit_event_name(was->op), was->site ? was->site : "?");
	snprintf(found, few, "%s at %s", op, site);
	if (was->op != is->op || was->nsrc != is->nsrc || was->nattr != is->nattr) {
		snprintf(what, room, "%s event %u was %s, is %s", same, i, expected, found);
		return;
	}
	while (k < is->nattr && was->attr[k] == is->attr[k]) k++;
	if (k < is->nattr) {
		snprintf(expected, few, "%lld", (long long)was->attr[k]);
		snprintf(found, few, "%lld", (long long)is->attr[k]);
		snprintf(what, room, "%s attribute %d of %s at %s was %s, is %s", same, k, op, site, expected, found);
		return;
	}
	for (k = 0; k + 1 < is->nsrc && was->src[k] == is->src[k];) k++;
	snprintf(what, room, "%s operand %d of %s at %s is not the one of an earlier call", same, k, op, site);
}

static bool same_events(jit_act *a, const jit_path *p, const jit_done *d)
{
	if (p->boundary == d->boundary) return true;
	uint32_t last = p->boundary->seq < d->boundary->seq ? p->boundary->seq : d->boundary->seq, i = 0;
	while (i < last && node_at(p->boundary, i) == node_at(d->boundary, i)) i++;
	const jit_node *was = node_at(p->boundary, i), *is = node_at(d->boundary, i);
	char expected[96], found[96], what[352];
	put_difference(what, sizeof what, was, is, i, expected, found, sizeof found);
	demote(a, is->site, expected, found, what);
	return false;
}

static const jit_node *user_of_number(const jit_node *n, uint32_t slot)
{
	for (; n->parent; n = n->parent)
		for (int k = 0; k < n->nsrc; k++)
			if (n->src[k] == JIT_REF(JIT_FLOAT, slot) || n->src[k] == JIT_REF(JIT_INT, slot)) return n;
	return NULL;
}

static bool is_int_slot(const jit_node *n, uint32_t slot)
{
	for (int k = 0; n && k < n->nsrc; k++)
		if (n->src[k] == JIT_REF(JIT_FLOAT, slot)) return false;
	return true;
}

/* "the constant 2", "scalar 0", ... */
static void put_source(char *out, size_t room, uint32_t from, const char *number)
{
	static const char *const name[] = { [JIT_ARG] = "argument", [JIT_SCALAR] = "scalar" };
	uint32_t kind = from >> 28;
	if (kind == JIT_CONST) snprintf(out, room, "the constant %s", number);
	else if (kind == JIT_ARG || kind == JIT_SCALAR) snprintf(out, room, "%s %u", name[kind], from & 0xFFFFFFF);
	else snprintf(out, room, kind == JIT_EXPR ? "computed from arguments or scalars" : "a draw");
}

static void put_numbers(char *expected, char *found, size_t room, bool is_int, const jit_operand *was, const jit_operand *is)
{
	char before[32], now[32];
	jit_put_numbers(before, now, sizeof now, is_int, (uint64_t)(uintptr_t)was->number, (uint64_t)(uintptr_t)is->number);
	if (was->from == is->from) snprintf(expected, room, "%s", before), snprintf(found, room, "%s", now);
	else put_source(expected, room, was->from, before), put_source(found, room, is->from, now);
}

static bool same_numbers(jit_act *a, const jit_path *p, const jit_done *d)
{
	for (uint32_t i = 0; i < d->nnum_from; i++) {
		const jit_operand *was = &p->num[i], *is = &d->num_from[i];
		if (was->from == is->from && (is->from != JIT_FROM(JIT_CONST, 0) || was->number == is->number)) continue;
		const jit_node *n = user_of_number(d->boundary, i);
		const char *site = n && n->site ? n->site : "?";
		char expected[64], found[64], what[320];
		put_numbers(expected, found, sizeof found, is_int_slot(n, i), was, is);
		snprintf(what, sizeof what, "with equal arguments and state a number of %s at %s was %s, is %s",
		         n ? jit_event_name(n->op) : "?", site, expected, found);
		demote(a, site, expected, found, what);
		return false;
	}
	return true;
}

static bool same_expressions(jit_act *a, const jit_path *p, const jit_done *d)
{
	for (uint32_t i = 0; i < p->nexpr && p->expr0 + i < d->nexpr; i++) {
		const jit_late_expr *was = &p->expr[i], *is = &a->learn->expr.v[p->expr0 + i];
		bool same = was->op == is->op;
		for (int k = 0; same && k < is->nsrc; k++)
			same = was->src[k].from == is->src[k].from && (is->src[k].from != JIT_FROM(JIT_CONST, 0) || was->src[k].number == is->src[k].number);
		if (same) continue;
		char what[256];
		snprintf(what, sizeof what,
		         "with equal arguments and state a number computed from scalars before %s is computed in another way",
		         p->site ? p->site : "?");
		demote(a, p->site, jit_event_name(was->op), jit_event_name(is->op), what);
		return false;
	}
	return true;
}

static bool same_sources(jit_act *a, const jit_path *p, const jit_done *d)
{
	for (uint32_t i = 0; i < d->next_from; i++) {
		const jit_from *was = &p->ext[i], *is = &d->ext_from[i];
		if (jit_same_from(was, is)) continue;
		const char *op, *site = jit_site_of_ext(d->boundary, i, &op);
		char what[256];
		snprintf(what, sizeof what, "with equal arguments and state %s at %s takes another tensor than in an earlier call", op,
		         site ? site : "?");
		demote(a, site, "", "", what);
		return false;
	}
	return true;
}

/* ---- the path of a call ---- */
/* Bytes of a path that ends in the return; one that branches has no outputs and no assigns. */
static size_t room_of(const jit_act *a, const jit_done *d, uint32_t nexpr)
{
	enum { ARRAYS = 15, ROUNDED = 16 };
	const size_t ext = sizeof(jit_from) + sizeof(jit_bound) + sizeof(void *), num = sizeof(jit_operand) + sizeof(uint64_t);
	const size_t value = 3 * sizeof(void *) + sizeof(uint32_t), out = sizeof(jit_from) + sizeof(jit_operand);
	const bool last = d->boundary->op == JIT_RETURN;
	return sizeof(jit_path) + (d->next_from + 1) * ext + (d->nnum_from + 1) * num + (nexpr + 1) * sizeof(jit_late_expr) +
	       (d->plan->n + 1) * value + (d->nstray + 1) * sizeof(jit_stray) +
	       (last ? ((size_t)a->fn->opts.nout + 1) * out + (a->assigned.n + 1) * sizeof(jit_assign) : 0) + ARRAYS * ROUNDED;
}

static jit_path *new_path(jit_act *a, const jit_done *d, uint32_t depth)
{
	rt_arena mem = { 0 };
	uint32_t first = depth ? a->done.v[depth - 1].nexpr : 0;
	rt_arena_room(&mem, room_of(a, d, d->nexpr - first));
	jit_path *p = rt_arena_alloc(&mem, sizeof *p);
	if (!p) return NULL;
	p->boundary = d->boundary;
	p->site = d->boundary->site;
	p->next = d->next_from;
	p->nnum = d->nnum_from;
	p->expr0 = first;
	p->nexpr = d->nexpr - first;
	uint32_t n = d->plan->n;
	p->ext = rt_arena_alloc(&mem, (p->next + 1) * sizeof *p->ext);
	p->bound = rt_arena_alloc(&mem, (p->next + 1) * sizeof *p->bound);
	p->ptr = rt_arena_alloc(&mem, (p->next + 1) * sizeof *p->ptr);
	p->num = rt_arena_alloc(&mem, (p->nnum + 1) * sizeof *p->num);
	p->bits = rt_arena_alloc(&mem, (p->nnum + 1) * sizeof *p->bits);
	p->expr = rt_arena_alloc(&mem, (p->nexpr + 1) * sizeof *p->expr);
	p->buf = rt_arena_alloc(&mem, (n + 1) * sizeof *p->buf);
	p->data = rt_arena_alloc(&mem, (n + 1) * sizeof *p->data);
	p->assign_of = rt_arena_alloc(&mem, (n + 1) * sizeof *p->assign_of);
	p->stray = rt_arena_alloc(&mem, (d->nstray + 1) * sizeof *p->stray);
	p->over = rt_arena_alloc(&mem, (n + 1) * sizeof *p->over);
	if (!p->over || !p->ext || !p->bound || !p->ptr || !p->num || !p->bits || !p->expr || !p->buf || !p->data || !p->assign_of || !p->stray) {
		rt_arena_free(&mem);
		return NULL;
	}
	p->nstray = d->nstray;
	if (p->nstray) memcpy(p->stray, d->stray, p->nstray * sizeof *p->stray);
	if (p->next) memcpy(p->ext, d->ext_from, p->next * sizeof *p->ext);
	if (p->nnum) memcpy(p->num, d->num_from, p->nnum * sizeof *p->num);
	if (p->nexpr) memcpy(p->expr, a->learn->expr.v + first, p->nexpr * sizeof *p->expr);
	for (uint32_t i = 0; i < p->nnum; i++)
		if (p->num[i].from == JIT_FROM(JIT_CONST, 0)) p->bits[i] = (uint64_t)(uintptr_t)p->num[i].number;
		else p->late = true;
	p->plan = d->plan;
	atomic_fetch_add(&p->plan->refs, 1);
	p->mem = mem;
	return p;
}

static size_t path_bytes(const jit_path *p) { return p ? p->mem.total + path_bytes(p->way[0]) + path_bytes(p->way[1]) : 0; }

void jit_path_free(jit_path *p)
{
	if (!p) return;
	jit_path_free(p->way[0]);
	jit_path_free(p->way[1]);
	jit_plan_unref(p->plan);
	rt_arena mem = p->mem; /* holds p itself */
	rt_arena_free(&mem);
}

/* The source of a tensor that is returned, assigned, or read by a TRUTH. */
static bool from_handle(jit_act *a, const tj_tensor *t, jit_from *out)
{
	if (t->kind == RT_PENDING) return jit_from_segment(a, t->seg, t->seq, out) && place_value(a, out);
	jit_bound b = { .h = (tj_tensor *)(uintptr_t)t, .layout = t->layout, .data = t->data, .buf = t->buf };
	return jit_from_outside(a, &b, out);
}

static bool learn_outputs(jit_act *a, jit_path *p, tj_tensor *const *res)
{
	const jit_learn *l = a->learn;
	p->nout = (uint32_t)a->fn->opts.nout;
	p->out = rt_arena_alloc(&p->mem, (p->nout + 1) * sizeof *p->out);
	p->out_num = rt_arena_alloc(&p->mem, (p->nout + 1) * sizeof *p->out_num);
	if (!p->out || !p->out_num) return false;
	for (uint32_t i = 0; i < p->nout; i++) {
		if (rt_is_number(res[i])) {
			p->out[i].kind = JIT_FROM_NUMBER;
			p->out_num[i] = (jit_operand){ l->src.v[i], res[i] };
		} else if (!from_handle(a, res[i], &p->out[i])) {
			jit_learn_stop(a, p->site ? p->site : "?", "out[%u] is a tensor that is neither computed nor an argument nor declared state", i);
			return false;
		}
	}
	return true;
}

static bool learn_assigns(jit_act *a, jit_path *p)
{
	p->nassign = a->assigned.n;
	p->assign = rt_arena_alloc(&p->mem, (p->nassign + 1) * sizeof *p->assign);
	for (uint32_t i = 0; p->assign && i < p->nassign; i++) {
		const jit_assigned *s = &a->assigned.v[i];
		if (from_handle(a, &s->cell->t, &p->assign[i].cell) && from_handle(a, s->version, &p->assign[i].value)) continue;
		jit_learn_stop(a, p->site ? p->site : "?", "a cell is assigned that is neither an argument nor declared state");
		return false;
	}
	return p->assign != NULL;
}

/* The line of the last segment that assigns the i-th assigned cell of the call. */
static const char *site_of_assign(const jit_act *a, const jit_node *boundary, uint32_t i)
{
	for (const jit_node *n = boundary; n->parent; n = n->parent)
		if (n->op == JIT_ASSIGN && i < a->assigned.n && a->cell.v[JIT_IDX(n->src[1])] == a->assigned.v[i].cell) return n->site ? n->site : "?";
	return boundary->site ? boundary->site : "?";
}

/* Needed besides same_events(): ASSIGN events are equal even when they write to different cells of one layout. */
static bool same_assigns(jit_act *a, const jit_path *p, const jit_done *d)
{
	uint32_t n = a->assigned.n > p->nassign ? a->assigned.n : p->nassign;
	for (uint32_t i = 0; i < n; i++) {
		jit_from cell, value;
		bool both = i < a->assigned.n && i < p->nassign && from_handle(a, &a->assigned.v[i].cell->t, &cell) &&
		            from_handle(a, a->assigned.v[i].version, &value);
		if (both && jit_same_from(&cell, &p->assign[i].cell) && jit_same_from(&value, &p->assign[i].value)) continue;
		const char *site = site_of_assign(a, d->boundary, i);
		char what[256];
		snprintf(what, sizeof what,
		         "with equal arguments and state the assign at %s writes another cell or another value than in an earlier call",
		         site);
		demote(a, site, "", "", what);
		return false;
	}
	return true;
}

/* The content of this cell is assigned to another cell. */
static bool is_assigned_elsewhere(const jit_path *p, const jit_from *cell)
{
	for (uint32_t k = 0; k < p->nassign; k++)
		if (p->assign[k].value.kind == cell->kind && p->assign[k].value.index == cell->index) return true;
	return false;
}

/* Finds the values that may be computed in the buffer of the cell they are assigned to. */
static void learn_in_place(jit_path *p, uint32_t level)
{
	for (uint32_t i = 0; i < p->plan->n; i++) {
		int slot = p->plan->exec ? p->plan->exec->out[i].alias_ext : -1;
		if (slot >= 0 && is_assigned_elsewhere(p, &p->ext[slot])) continue;
		for (uint32_t k = 0; slot >= 0 && k < p->nassign; k++) {
			const jit_from *c = &p->assign[k].cell, *v = &p->assign[k].value, *x = &p->ext[slot];
			if (v->kind == JIT_FROM_VALUE && v->seg == level && v->index == i && c->kind == x->kind && c->index == x->index) p->assign_of[i] = k + 1;
		}
	}
}

/* The last output that uses a value takes its reference on the buffer. */
static void mark_last(jit_path *p)
{
	for (uint32_t i = 0; i < p->nout; i++) {
		jit_from *u = &p->out[i];
		u->last = u->kind == JIT_FROM_VALUE;
		for (uint32_t k = i + 1; k < p->nout; k++)
			if (p->out[k].kind == JIT_FROM_VALUE && p->out[k].seg == u->seg && p->out[k].index == u->index) u->last = false;
		for (uint32_t k = 0; k < p->nassign && u->last; k++) /* the commit reads these values later */
			if (p->assign[k].value.kind == JIT_FROM_VALUE && p->assign[k].value.seg == u->seg &&
			    p->assign[k].value.index == u->index)
				u->last = false;
	}
}

static bool learn_return(jit_act *a, jit_path *p, tj_tensor *const *res)
{
	if (!learn_outputs(a, p, res) || !learn_assigns(a, p)) return false;
	p->draws = a->ctx->rt.ordinal - a->learn->ordinal;
	learn_in_place(p, a->done.n - 1);
	mark_last(p);
	return true;
}

static bool learn_truth(jit_act *a, jit_path *p, uint32_t level)
{
	const jit_done *d = &a->done.v[level];
	jit_ref r = d->boundary->src[0];
	p->branches = true;
	if (JIT_KIND(r) == JIT_EXT) {
		p->truth = p->ext[JIT_IDX(r)];
		return true;
	}
	int v = jit_find_in_plan(d->plan, JIT_IDX(r));
	p->truth = (jit_from){ .kind = JIT_FROM_VALUE, .seg = (uint16_t)level, .index = (uint32_t)v };
	return v >= 0;
}

static jit_path *learn_level(jit_act *a, uint32_t i, tj_tensor *const *res)
{
	const jit_done *d = &a->done.v[i];
	jit_path *p = new_path(a, d, i);
	bool ok = p != NULL;
	if (ok && i + 1 < a->done.n) ok = d->boundary->op == JIT_TRUTH && learn_truth(a, p, i);
	else if (ok) ok = learn_return(a, p, res);
	if (ok) return p;
	jit_path_free(p);
	return NULL;
}

/* True: this run agrees with the path. False: it differs, or the plan was widened; then everything is learned anew. */
static bool known(jit_act *a, const jit_path *p, const jit_done *d)
{
	if (p->boundary == d->boundary && p->plan != d->plan) {
		const size_t bytes = path_bytes(a->hit->path);
		jit_charge(a->entry, -(ptrdiff_t)bytes);
		a->hit->bytes -= bytes;
		jit_path_free(a->hit->path);
		a->hit->path = NULL;
		return false;
	}
	return same_events(a, p, d) && same_sources(a, p, d) && same_numbers(a, p, d) && same_expressions(a, p, d) &&
	       (p->branches || same_assigns(a, p, d));
}

/* After the return: compares the known part of the path, and adds the new part to the tree once it is complete. */
void jit_learn_end(jit_act *a, tj_tensor *const *res)
{
	jit_path **to = &a->hit->path, *fresh = NULL, **join = NULL;
	for (uint32_t i = 0; i < a->done.n; i++)
		for (uint32_t k = 0; k < a->done.v[i].next_from; k++)
			if (!place_value(a, &a->done.v[i].ext_from[k])) return;
	for (uint32_t i = 0; i < a->done.n; i++) {
		const jit_done *d = &a->done.v[i];
		jit_path *p = *to;
		if (p && !known(a, p, d)) return;
		if (!p && !(p = learn_level(a, i, res))) {
			jit_path_free(fresh);
			return;
		}
		if (!*to && fresh) *to = p;
		else if (!*to) {
			fresh = p;
			join = to;
		}
		to = &p->way[d->bit];
	}
	if (!fresh) return;
	const size_t bytes = path_bytes(fresh);
	jit_charge(a->entry, (ptrdiff_t)bytes);
	a->hit->bytes += bytes;
	*join = fresh;
	jit_form_learned(a);
}
