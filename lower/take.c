/* SPDX-License-Identifier: MIT */
/* take: turns answers of reach.c into decisions.
 *
 * requires answers that are valid for the group as it is now; marks values that must own a buffer
 *
 * Fusion walks from the end of the graph, so a group takes a reader before it is known which group computes its operands. So the use of
 * an operand is recorded as LATER, and settled when the operand itself is decided:
 *
 *   the operand joined the group at this map     OP, or VIEW of its own operand
 *   the group computes it again (recompute.c)    OP; its operands get one more reader
 *   another group stores it again                LOAD from the buffer of the second store
 *   the operand is a view that is not stored     VIEW; the view's operand gets one more reader
 *   anything else                                LOAD from its buffer */
#include "lower/fuse.h"

/* ---- a reader is taken ---- */
static void mark(lo_low *L, const lo_use *u)
{
	if (u == L->val[u->value].number) return; /* it needs no buffer */
	if (u->base != IR_NONE) L->val[u->base].own = true;
	if (u->solid) L->val[u->value].solid = true;
	if (u->table) lo_need(L, u->table);
	for (int k = 0; u->src && k < lo_node(L, u->value)->nsrc; k++)
		if (u->src[k]) mark(L, u->src[k]);
}

static void add_use(lo_low *L, lo_use *u, uint32_t group)
{
	if (L->val[u->value].light) return; /* computed in place in any case: nothing to settle */
	u->group = group;
	u->next = L->val[u->value].use;
	L->val[u->value].use = u;
}

void lo_take(lo_low *L, uint32_t id, lo_use *made)
{
	lo_val *v = &L->val[made->value];
	v->group = id;
	v->made = made;
	if (!rt_push(&L->group.v[id]->member, made->value)) L->oom = true;
	if (made->value < L->group.v[id]->first) L->group.v[id]->first = made->value;
	mark(L, made);
	for (int k = 0; made->src && k < lo_node(L, made->value)->nsrc; k++)
		if (made->src[k]) add_use(L, made->src[k], id);
}

/* Readers of r in the group get it from one place: known at once, as nothing is decided about r any more. */
static lo_use *compute_again(lo_low *L, uint32_t id, ir_ref r, lo_map *m)
{
	lo_group *G = L->group.v[id];
	lo_use *made = lo_ask_op(L, G, r, m);
	if (!made || !rt_push(&G->again, made)) {
		L->oom = true;
		return NULL;
	}
	mark(L, made);
	for (int k = 0; made->src && k < lo_node(L, r)->nsrc; k++)
		if (made->src[k]) add_use(L, made->src[k], id);
	for (lo_use *u = L->val[r].use; u; u = u->next) {
		uint32_t by = u->group;
		if (lo_group_at(L, &by) != G) continue;
		u->from = LO_FROM_OP;
		u->src = made->src;
		u->again = true;
	}
	G->weight += lo_work(lo_node(L, r));
	L->recomputed++;
	return made;
}

/* The index of a light value that was computed in place may not be affine any more: such a value is loaded instead. */
static void renew(lo_low *L, lo_group *G, lo_use *made)
{
	for (int k = 0; made->src && k < lo_node(L, made->value)->nsrc; k++) {
		lo_use *was = made->src[k], *u = was && L->val[was->value].light ? lo_ask(L, G, was->value, was->map) : NULL;
		if (!u) continue;
		mark(L, u);
		made->src[k] = u;
	}
}

void lo_renew(lo_low *L, uint32_t id)
{
	lo_group *G = L->group.v[id];
	for (uint32_t i = 0; i < G->member.n; i++) renew(L, G, L->val[G->member.v[i]].made);
	for (uint32_t i = 0; i < G->again.n; i++) renew(L, G, G->again.v[i]);
}

/* ---- stores ---- */
static void add_save(lo_low *L, lo_group *G, const lo_use *from, const lo_dest *d)
{
	if (!rt_push(&G->save, ((lo_save){ from->value, from->map, d, from }))) L->oom = true;
}

void lo_save_all(lo_low *L, lo_group *G, const lo_use *from, bool own)
{
	ir_ref r = from->value;
	for (const lo_dest *d = L->val[r].dest; d; d = d->next) add_save(L, G, from, d);
	if (!own) return;
	lo_dest *d = lo_mem(L, sizeof *d);
	if (!d) return;
	*d = (lo_dest){ .buf = lo_buf_of(L, r), .node = r };
	ir_contiguous(lo_node(L, r)->rank, lo_dim(L, r), d->stride);
	add_save(L, G, from, d);
}

/* ---- a value is computed again ---- */
static const want *want_of(const want *w, uint32_t n, uint32_t group)
{
	for (uint32_t i = 0; i < n; i++)
		if (w[i].group == group) return &w[i];
	return NULL;
}

static void store_again(lo_low *L, ir_ref r, const want *w, uint32_t n, uint32_t id, const lo_use *made)
{
	const ir_node *x = lo_node(L, r);
	lo_group *G = L->group.v[id];
	lo_dest *d = lo_mem(L, sizeof *d);
	if (!d) return;
	*d = (lo_dest){ .buf = lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA,
		                                          .device = x->device,
		                                          .bytes = ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)x->dtype) }),
		        .node = r };
	ir_contiguous(x->rank, lo_dim(L, r), d->stride);
	add_save(L, G, made, d);
	uint32_t home = L->val[r].group;
	const ir_ref first = lo_group_at(L, &home)->place;
	if (lo_path_to(L, id, r, home)) L->oom = true; /* it was asked before: there is none */
	lo_move_late(L, first);
	if (lo_path_from(L, w, n, id)) L->oom = true; /* likewise */
	lo_move_late(L, G->place);
	L->val[r].late = d->buf;
	for (lo_use *u = L->val[r].use; u; u = u->next) {
		uint32_t by = u->group;
		lo_group_at(L, &by);
		const want *reader = want_of(w, n, by);
		u->late = reader && reader->late;
	}
}

void lo_take_again(lo_low *L, ir_ref r, const want *w, uint32_t n, const relay *by)
{
	const lo_use *stored = NULL;
	for (uint32_t i = 0; i < n; i++) {
		const lo_use *made = w[i].again ? compute_again(L, w[i].group, r, w[i].map) : NULL;
		if (w[i].group == by->group) stored = made;
	}
	if (by->group == LO_NOGROUP) return;
	if (!stored) stored = compute_again(L, by->group, r, by->map);
	if (stored) store_again(L, r, w, n, by->group, stored);
}

/* ---- an operand is decided ---- */
static bool in_place(lo_low *L, ir_ref r, const lo_use *u)
{
	const lo_val *v = &L->val[r];
	uint32_t id = v->group, by = u->group;
	if (id == LO_NOGROUP) return false;
	const lo_group *G = lo_group_at(L, &id);
	return lo_group_at(L, &by) == G && lo_map_equal(G, u->map, v->made->map);
}

/* The group reads the view's operand. It does so even if the view has got its own buffer, when the index into that buffer is not affine. */
static bool through(lo_low *L, ir_ref r, const lo_use *u)
{
	uint32_t id = u->group;
	if (!u->src && !u->solid) return false;
	if (!L->val[r].own) return true;
	const lo_group *G = lo_group_at(L, &id);
	lo_expr e = lo_row_major(L, G, r, u->map);
	return !lo_fits_r(G, &e);
}

void lo_settle(lo_low *L, ir_ref r)
{
	const lo_val *v = &L->val[r];
	for (lo_use *u = v->use; u; u = u->next) {
		if (u->again) continue;
		if (u->late) {
			u->from = LO_FROM_LOAD;
			u->base = r;
		} else if (in_place(L, r, u)) {
			u->from = v->how == LO_VIEW ? LO_FROM_VIEW : LO_FROM_OP;
			u->src = v->made->src;
			u->table = v->made->table;
		} else if (through(L, r, u)) {
			u->from = u->solid ? LO_FROM_LOAD : LO_FROM_VIEW;
			if (!u->solid) add_use(L, u->src[0], u->group);
		} else {
			u->from = LO_FROM_LOAD;
			u->base = r;
			u->leaf = v->how == LO_LEAF && !v->copied;
		}
	}
}
