/* SPDX-License-Identifier: MIT */
/* recompute: values that are computed again where they are read late, instead of being kept from the kernel that computes them first.
 *
 *   k0   h = x @ w, t = 1 + erf(h * c), y = h * t                     k0   h and y are stored, t is not
 *   ...  (products)                                             =>    ...
 *   k9   dh = dy * t + ...   reads t and h                            k9   loads h, computes t from it, with the same bits
 *
 * called while groups are made, when the readers of a value are known, and before it is known who reads its operands. So backward of a
 * network keeps less of forward. A reader far behind the kernel that computes the value computes it again, if
 *   - point ops and random numbers alone lead to it, few of them, from values that the reader's kernel loads anyway, that others
 *     read as late, or that are small,
 *   - and nothing else keeps the value until then.
 * If the kernel cannot get an operand when that one is decided, the operand is loaded: it is kept instead.
 *
 * A product computes no such ops on its operands, as that of the gradient of a weight. If another late kernel, the relay, has the operands
 * of the value, it computes the value again and stores it for the product, so that the first copy need not be kept:
 *
 *   k0   h = x @ w, y = gelu(h)                                       k0   h and y are stored
 *   k1   z = y @ v                                                    k1   loads y, which dies
 *   ...  (products)                                             =>    ...
 *   k8   dh = (dz @ v') * gelu'(h)                                    k8   stores dh, and y again, perhaps over h
 *   k9   dv = y' @ dz                                                 k9   loads the second y
 *
 * The relay must have each element of the value once, run nearer to the late readers than to the others, and depend on none of the late
 * readers; the kernel that computes the value first must not depend on the relay, which may read operands that are computed there. Its
 * store costs less than the bytes that are not kept cost the caches. */
#include "lower/fuse.h"

enum {
	PLAIN = 6,           /* most work of the ops that lead to the value, as lo_work() counts; large values: lo_target.again_work */
	SMALL = 16,          /* an operand with at most 1/16 of the value's elements may be kept instead */
	DEEP = 24,           /* most values on the way to an operand */
	NEAR = 4             /* most ops between a value and an operand at which a group can store it again */
};

bool lo_find_times(lo_low *L)
{
	uint32_t now = 0;
	L->time = lo_mem(L, sizeof *L->time * (L->g->node.n + 1u));
	for (ir_ref r = 0; L->time && r < L->g->node.n; r++) {
		const lo_how how = (lo_how)L->val[r].how;
		L->time[r] = now;
		now += how == LO_LIB || how == LO_CALL || lo_is_product(L, r);
	}
	return L->time != NULL;
}

/* The group runs about then: before its first member the graph has that many products and calls. */
static uint32_t time_of(const lo_low *L, const lo_group *G)
{
	return G->first == IR_NONE ? 0 : L->time[G->first];
}

/* Someone reads x in memory at that time or later. */
static bool is_there(lo_low *L, ir_ref x, uint32_t time)
{
	for (const lo_use *u = L->val[x].use; u; u = u->next) {
		uint32_t id = u->group;
		if (time_of(L, lo_group_at(L, &id)) >= time) return true;
	}
	return false;
}

/* The instruction is another one, with other bits, where its operand comes out of memory (fast.c). */
static bool contracts(const ir_node *n) { return n->mode & IR_FAST && (n->op == IR_add || n->op == IR_sub); }

/* Adds up the work that leads to r from what is there at that time; more than `most`: it is too much, or there is no such way. */
static int work_to(lo_low *L, ir_ref r, uint32_t time, int64_t elems, int most, int depth)
{
	const ir_node *n = lo_node(L, r);
	const uint16_t flags = ir_ops[n->op].flags;
	const bool view = L->val[r].how == LO_VIEW;
	if (L->val[r].light || (depth && (is_there(L, r, time) || (ir_numel(L->g, r) * SMALL <= elems && !view)))) return 0;
	const bool again = L->val[r].how == LO_FUSE && flags & (IR_POINT | IR_RNG) && !(flags & IR_FAULT) && !contracts(n);
	int sum = view ? 0 : lo_work(n);
	if ((!again && !view) || depth > DEEP) return most + 1;
	for (int k = 0; k < lo_nread(n) && sum <= most; k++) sum += work_to(L, ir_src(L->g, n, k), time, elems, most - sum, depth + 1);
	return sum;
}

/* A row that several loops read would be computed in each: only of members it is kept. */
static int most_work(const lo_low *L, const lo_group *G, ir_ref r)
{
	const lo_target *t = lo_target_of(L, r);
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)lo_node(L, r)->dtype);
	const int large = t->again_work * (int)size;
	return G->reductions <= 1 && ir_numel(L->g, r) * size >= t->again_bytes && large > PLAIN ? large : PLAIN;
}

static bool computes(lo_low *L, uint32_t id, ir_ref r, lo_map *m)
{
	lo_group *G = L->group.v[id];
	const int most = most_work(L, G, r), work = work_to(L, r, time_of(L, G), ir_numel(L->g, r), most, 0);
	if (work > most || G->weight + work > lo_target_of(L, r)->weight || lo_often(L, G, r, m)) return false;
	return lo_indices_fit(L, G, r, m) && lo_ask_op(L, G, r, m);
}

/* ---- the readers of a value ---- */
typedef struct readers {
	lo_low *L;
	ir_ref r;
	want *w;
	uint32_t n, first;       /* w[first] computes r; first is n if a new group does */
	uint32_t middle;         /* the time halfway between the readers of the first store and those of the second one */
} readers;

static uint32_t when(const readers *x, uint32_t i) { return time_of(x->L, x->L->group.v[x->w[i].group]); }
static bool loads_first(const readers *x, uint32_t i) { return i != x->first && !x->w[i].again && !x->w[i].late; }

/* Readers that could compute r load it if another one must load it as late. Returns the time of the last one that loads its first store. */
static uint32_t load_near(const readers *x)
{
	const uint32_t after = (uint32_t)lo_target_of(x->L, x->r)->again_after;
	uint32_t kept = x->first < x->n ? when(x, x->first) : 0;
	for (uint32_t i = 0; i < x->n; i++)
		if (loads_first(x, i) && when(x, i) > kept) kept = when(x, i);
	for (bool more = true; more;) {
		more = false;
		for (uint32_t i = 0; i < x->n; i++) {
			if (!x->w[i].again || when(x, i) >= kept + after) continue;
			x->w[i].again = false;
			more = true;
			if (when(x, i) > kept) kept = when(x, i);
		}
	}
	return kept;
}

/* ---- stored again ---- */
/* Marks the readers that load r far behind the others. */
static bool find_late(readers *x)
{
	const uint32_t far = (uint32_t)lo_target_of(x->L, x->r)->stored_after;
	uint32_t early = x->first < x->n ? when(x, x->first) : x->L->time[x->r], late = UINT32_MAX;
	for (bool more = true; more;) {
		more = false;
		for (uint32_t i = 0; i < x->n; i++) {
			if (!loads_first(x, i) || when(x, i) <= early || when(x, i) >= early + far) continue;
			early = when(x, i);
			more = true;
		}
	}
	for (uint32_t i = 0; i < x->n; i++) {
		x->w[i].late = loads_first(x, i) && when(x, i) > early;
		if (x->w[i].late && when(x, i) < late) late = when(x, i);
	}
	x->middle = early + (late - early + 1) / 2;
	return late != UINT32_MAX;
}

/* Threads share its few long rows or columns: with a store in the loop they could not. */
static bool is_shared(const lo_target *t, const lo_group *G)
{
	return G->reduces && !G->product && lo_is_shared(t, G->column, lo_outer(G), G->red);
}

/* The group, which has an operand of r at map m, can store r for the late readers. */
static bool relays(const readers *x, uint32_t id, lo_map *m)
{
	lo_low *L = x->L;
	lo_group *G = L->group.v[id];
	if (time_of(L, G) < x->middle || is_shared(lo_target_of(L, x->r), G) || (G->product && lo_map_in_r(G, m))) return false;
	for (uint32_t i = 0; i < x->n; i++)
		if (x->w[i].group == id && x->w[i].late) return false;
	const lo_expr own = lo_row_major(L, G, x->r, m);
	return lo_covers(L, G, x->r, m) && lo_fits_r(G, &own) && computes(L, id, x->r, m) && !lo_path_from(L, x->w, x->n, id) &&
	       !lo_path_to(L, id, x->r, x->first < x->n ? x->w[x->first].group : LO_NOGROUP);
}

/* Of the groups that read s, or what leads to s element by element, the last one that can store r. */
static void find_relay(const readers *x, ir_ref s, int depth, relay *best)
{
	lo_low *L = x->L;
	const ir_node *n = lo_node(L, s), *of = lo_node(L, x->r);
	if (depth > NEAR || n->rank != of->rank || memcmp(lo_dim(L, s), lo_dim(L, x->r), sizeof(int64_t) * of->rank)) return;
	for (const lo_use *u = L->val[s].use; u; u = u->next) {
		uint32_t id = u->group;
		const lo_group *G = lo_group_at(L, &id);
		if (best->group != LO_NOGROUP && time_of(L, G) <= time_of(L, L->group.v[best->group])) continue;
		if (relays(x, id, u->map)) *best = (relay){ id, u->map };
	}
	for (int k = 0; L->val[s].how == LO_FUSE && ir_ops[n->op].flags & IR_POINT && k < lo_nread(n); k++)
		find_relay(x, ir_src(L->g, n, k), depth + 1, best);
}

static const relay NONE = { .group = LO_NOGROUP };

static relay store_again(readers *x)
{
	relay by = NONE;
	const int64_t bytes = ir_numel(x->L->g, x->r) * (int64_t)tj_dtype_size((tj_dtype)lo_node(x->L, x->r)->dtype);
	if (bytes >= lo_target_of(x->L, x->r)->again_bytes && find_late(x)) find_relay(x, x->r, 0, &by);
	for (uint32_t i = 0; i < x->n; i++) x->w[i].late &= by.group != LO_NOGROUP;
	return by;
}

/* A group of its own that nobody reads would be of no use. */
static bool is_read(const readers *x)
{
	bool any = x->first < x->n;
	for (uint32_t i = 0; i < x->n; i++) any |= loads_first(x, i);
	return any;
}

relay lo_find_again(lo_low *L, ir_ref r, want *w, uint32_t n, uint32_t first)
{
	const lo_val *v = &L->val[r];
	const bool may = v->how == LO_FUSE && !v->own && !v->dest && !(L->o->off & (LO_OFF(FUSE) | LO_OFF(RECOMPUTE)));
	readers x = { .L = L, .r = r, .w = w, .n = n, .first = first };
	for (uint32_t i = 0; i < n; i++)
		w[i].again = may && i != first && !w[i].torn && !w[i].feeds && computes(L, w[i].group, r, w[i].map), w[i].late = false;
	if (!may) return NONE;
	relay by = store_again(&x);
	if (by.group != LO_NOGROUP && time_of(L, L->group.v[by.group]) < load_near(&x) + (uint32_t)lo_target_of(L, r)->again_after) {
		for (uint32_t i = 0; i < n; i++) w[i].late = false;
		by = NONE;
	}
	load_near(&x);
	if (is_read(&x)) return by;
	for (uint32_t i = 0; i < n; i++) w[i].again = w[i].late = false;
	return NONE;
}
