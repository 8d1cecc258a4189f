/* recompute: values that are computed again where they are read late, instead of being kept from the kernel that computes them first.
 *
 *   k0   h = x @ w, t = 1 + erf(h * c), y = h * t                     k0   h and y are stored, t is not
 *   ...  (products)                                             =>    ...
 *   k9   dh = dy * t + ...   reads t and h                            k9   loads h, computes t from it, with the same bits
 *
 * called while groups are made, when the readers of a value are known, and before it is known who reads its operands. So backward of a network
 * keeps less of forward. A reader far behind the kernel that computes the value computes it again, if
 *   - point ops and random numbers alone lead to it, few of them, from values that the reader's kernel loads anyway, that others
 *     read as late, or that are small,
 *   - and nothing else keeps the value until then.
 * If the kernel cannot get an operand when that one is decided, the operand is loaded: it is kept instead. */
#include "lower/fuse.h"

enum {
	PLAIN = 6,           /* most work of the ops that lead to the value, as lo_work() counts; large values: lo_target.again_work */
	SMALL = 16,          /* an operand with at most 1/16 of the value's elements may be kept instead */
	DEEP = 24            /* most values on the way to an operand */
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

void lo_find_again(lo_low *L, ir_ref r, want *w, uint32_t n, uint32_t first)
{
	const lo_val *v = &L->val[r];
	const bool may = v->how == LO_FUSE && !v->own && !v->dest && !(L->o->off & (LO_OFF(FUSE) | LO_OFF(RECOMPUTE)));
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t time = time_of(L, L->group.v[w[i].group]);
		w[i].again = may && i != first && !w[i].torn && !w[i].feeds && computes(L, w[i].group, r, w[i].map);
		if (!w[i].again && time > kept) kept = time;
	}
	for (bool more = true; more;) {
		more = false;
		for (uint32_t i = 0; i < n; i++) {
			const uint32_t time = time_of(L, L->group.v[w[i].group]);
			if (!w[i].again || time >= kept + (uint32_t)lo_target_of(L, r)->again_after) continue;
			w[i].again = false;
			more = true;
			if (time > kept) kept = time;
		}
	}
}
