/* SPDX-License-Identifier: MIT */
/* repeat: a value that is read at several places is computed at each of them, where that is cheaper than storing it.
 *
 * requires plain reductions, borders and short axes done; changes no op, only for which elements a node computes it
 *
 *   %1 = cast f32[99] %0  (u8[99])                        %2 = slice u8[98] %0 start=0 ..
 *   %2 = slice f32[98] %1 start=0 ..                      %3 = slice u8[98] %0 start=1 ..
 *   %3 = slice f32[98] %1 start=1 ..                =>    %4 = cast f32[98] %2
 *   %4 = sub f32[98] %3 %2                                %5 = cast f32[98] %3
 *                                                         %6 = sub f32[98] %5 %4
 *
 * A kernel computes a member at one map, so %1 would be stored and loaded. Slices are taken through its op instead, down to what is stored.
 *
 * Readers are decided before their operands, so the places of a value are known: those of its slices, and those at which values that are
 * computed from it are computed. The work that is added, the elements beyond one computation of the value times what leads to one of
 * them, is bounded
 *   - for the value by its bytes (lo_target.again_work), which need not be stored and loaded,
 *   - for the graph by MOST_GROWTH times what its point ops take,
 *   - for the kernel of each reader by the room that it has: a part that does not fit would be stored itself.
 * Below a value that is computed at several places, one that is read at more of them must be small: stencils that follow each other would
 * grow with the square of their number.
 *
 * A value stays whole if somebody reads it in memory: an output, a product, a routine, a cat. So does one that may fault. */
#include "lower/fuse.h"
#include "lower/walk.h"

enum {
	MOST_PLACES = 40,    /* of a value */
	MOST_READS = 128,    /* of a value: places, each once for each value that reads it there */
	MOST_WORK = 1000,    /* more is not added up */
	MOST_GROWTH = 2,
	SMALL_WORK = 4,      /* of a value that is read at more places than the one below which it lies */
	CACHED_WORK = 2,     /* most work for each byte of an element, if the value is smaller than lo_target.again_bytes */
	FEW_BENT = 64        /* an edge has at most one in so many of the elements */
};

typedef struct seen {        /* a read of a value */
	uint32_t next;           /* of the same value, as an index of pass.seen; 0: none */
	ir_ref by;               /* what computes from it and is not computed at several places itself */
	bool bent;               /* through a view that is no slice, or it broadcasts */
	uint16_t places;         /* of the reader, if that is computed at several; else 0 */
	bool deep;               /* the reader lies below a value with fewer places */
	lo_box box;
} seen;

typedef struct pass {
	lo_walk w;
	const lo_opts *o;
	/* by node of from: */
	uint32_t *first;         /* its first read */
	uint16_t *nread, *work, *cuts; /* reads; work that leads to an element, as lo_work() counts; slices of it and other readers */
	bool *again, *leads, *apart; /* is computed at each place; a view of such a value; must be whole */
	bool *data;              /* depends on an operand of the graph */
	ir_ref *region;          /* the values that may be one kernel: the next one towards the one that stands for all */
	int *weight;             /* of the region that it stands for */
	rt_vec(seen) seen;
	double spent, most;      /* work that was added; that may be */
	lo_repeats *told;
} pass;

static const ir_node *node(const pass *p, ir_ref r) { return ir_at(p->w.from, r); }
static int64_t numel(const pass *p, ir_ref r) { return ir_numel(p->w.from, r); }
static ir_ref source(const pass *p, ir_ref r, int k) { return ir_src(p->w.from, node(p, r), k); }
static bool is_view(const pass *p, ir_ref r) { return ir_ops[node(p, r)->op].flags & IR_VIEW && lo_nread(node(p, r)) == 1; }
static bool is_cut(const pass *p, ir_ref r) { return node(p, r)->op == IR_slice && ir_attr(p->w.from, node(p, r))[3] > 0; }
static int64_t bytes_of(const pass *p, ir_ref r) { return numel(p, r) * (int64_t)tj_dtype_size((tj_dtype)node(p, r)->dtype); }

static ir_ref base_of(const pass *p, ir_ref r)
{
	while (is_view(p, r)) r = source(p, r, 0);
	return r;
}

static int64_t elements(const pass *p, ir_ref r, const lo_box *b)
{
	int64_t n = 1;
	for (int i = 0; i < node(p, r)->rank; i++) n *= b->n[i];
	return n;
}

/* ---- what a value costs ---- */
/* Most work that may be added for each element. */
static int most_work(const pass *p, ir_ref r)
{
	const lo_target *t = lo_target_on(p->o, node(p, r)->device);
	const int size = (int)tj_dtype_size((tj_dtype)node(p, r)->dtype);
	return size * (bytes_of(p, r) >= t->again_bytes ? t->again_work : CACHED_WORK);
}

/* Too much to compute at each of its slices, so what is computed from it begins there. */
static bool is_stored(const pass *p, ir_ref r)
{
	return p->cuts[r] > 1 && (p->cuts[r] - 1) * p->work[r] > most_work(p, r);
}

static void add_work(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	int work = lo_work(n), loads = 0;
	for (int k = 0; k < n->nsrc; k++) {
		const ir_ref x = base_of(p, ir_src(p->w.from, n, k));
		const bool goes_on = lo_by_element(p->w.from, node(p, x)) && !is_stored(p, x);
		loads += p->data[x] && !goes_on;
		work += goes_on ? p->work[x] : 0;
		p->data[r] |= p->data[x];
	}
	work += loads > 1 ? loads - 1 : 0;
	p->work[r] = (uint16_t)(work < MOST_WORK ? work : MOST_WORK);
	p->most += (double)numel(p, r) * lo_work(n) * MOST_GROWTH;
}

/* Kernels compute it from nothing. */
static bool is_made(const ir_node *n)
{
	return n->weak || n->op == IR_const || n->op == IR_num || n->op == IR_full || n->op == IR_arange || n->op == IR_eye;
}

/* true: some value may be computed at several places */
static bool count(pass *p, const bool *live)
{
	bool any = false;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) {
		const ir_node *n = node(p, r);
		if (!live[r] || !lo_target_on(p->o, n->device)) continue;
		p->data[r] = !lo_by_element(p->w.from, n) && !is_made(n);
		if (lo_by_element(p->w.from, n)) add_work(p, r);
		const ir_ref x = is_view(p, r) ? base_of(p, r) : r;
		if (is_cut(p, r) && lo_by_element(p->w.from, node(p, x)) && p->cuts[x] < MOST_PLACES) any |= ++p->cuts[x] > 1;
		for (int k = 0; k < n->nsrc && !is_view(p, r); k++) {
			const ir_ref s = ir_src(p->w.from, n, k);
			if (!p->cuts[s]) p->cuts[s] = 1;
		}
	}
	return any;
}

/* ---- regions ---- */
static ir_ref region_of(const pass *p, ir_ref r)
{
	while (p->region[r] != r) r = p->region[r] = p->region[p->region[r]];
	return r;
}

static void unite(pass *p, ir_ref a, ir_ref b)
{
	a = region_of(p, a), b = region_of(p, b);
	if (a == b) return;
	p->region[a] = b;
	p->weight[b] += p->weight[a];
}

/* ---- reads ---- */
static bool same_box(const pass *p, ir_ref r, const lo_box *a, const lo_box *b) { return lo_same_box(a, b, node(p, r)->rank); }

static bool add_read(pass *p, ir_ref r, seen s)
{
	if (!is_view(p, r) && !lo_by_element(p->w.from, node(p, r))) return true;
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next) {
		seen *x = &p->seen.v[i];
		if (x->by != s.by || !same_box(p, r, &x->box, &s.box)) continue;
		x->bent |= s.bent;
		x->deep |= s.deep;
		if (s.places > x->places) x->places = s.places;
		return true;
	}
	if (p->nread[r] == MOST_READS) return p->apart[r] = true;
	s.next = p->first[r];
	p->nread[r]++;
	if (!rt_push(&p->seen, s)) return false;
	p->first[r] = p->seen.n - 1;
	return true;
}

/* Whether the read is the first one of its place; by: only of those in the region of that one. */
static bool is_first(const pass *p, ir_ref r, uint32_t at, bool by)
{
	const seen *s = &p->seen.v[at];
	for (uint32_t i = p->first[r]; i != at; i = p->seen.v[i].next)
		if (same_box(p, r, &p->seen.v[i].box, &s->box) && (!by || region_of(p, p->seen.v[i].by) == region_of(p, s->by))) return false;
	return true;
}

static int places_of(const pass *p, ir_ref r)
{
	int n = 0;
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next) n += is_first(p, r, i, false);
	return n;
}

/* ---- the decision ---- */
/* Kernels of the readers have room for it, at each of their places. */
static bool has_room(const pass *p, ir_ref r)
{
	const int room = lo_target_on(p->o, node(p, r)->device)->weight * 3 / 4, work = lo_work(node(p, r));
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next) {
		const ir_ref at = region_of(p, p->seen.v[i].by);
		int sum = p->weight[at];
		for (uint32_t k = p->first[r]; k; k = p->seen.v[k].next) sum += region_of(p, p->seen.v[k].by) == at && is_first(p, r, k, true) ? work : 0;
		if (sum > room) return false;
	}
	return true;
}

/* A kernel of its readers reads it at two places. Where each kernel reads it at one, the first may compute it, or see recompute.c. */
static bool is_torn(const pass *p, ir_ref r)
{
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next)
		for (uint32_t k = p->first[r]; k != i; k = p->seen.v[k].next)
			if (region_of(p, p->seen.v[i].by) == region_of(p, p->seen.v[k].by) && !same_box(p, r, &p->seen.v[i].box, &p->seen.v[k].box))
				return true;
	return false;
}

/* Few of its places are edges, and few of its elements lie there. */
static bool is_straight(const pass *p, ir_ref r)
{
	int64_t bent = 0;
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next)
		if (p->seen.v[i].bent) bent += elements(p, r, &p->seen.v[i].box);
	return bent * FEW_BENT <= numel(p, r);
}

/* It lies below a value that is computed at fewer places than it would be. */
static bool is_deep(const pass *p, ir_ref r, int places)
{
	bool deep = false;
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next)
		deep |= p->seen.v[i].places && (p->seen.v[i].deep || places > p->seen.v[i].places);
	return deep;
}

static const char TOO_MUCH[] = "it costs too much to compute again";

static void tell(pass *p, ir_ref r, int places, const char *why)
{
	const ir_node *n = node(p, r), *by = node(p, p->seen.v[p->first[r]].by);
	if (!p->told) return;
	const int most = why == TOO_MUCH ? most_work(p, r) : 0;
	const lo_repeated x = { ir_ops[n->op].name, n->site, ir_ops[by->op].name, by->site, why, bytes_of(p, r), places, p->work[r], most };
	rt_push(&p->told->of, x); /* out of memory: a note is missing */
}

/* Elements that are computed beyond one computation of the value. */
static double more_elements(const pass *p, ir_ref r)
{
	double all = 0;
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next)
		if (is_first(p, r, i, false)) all += (double)elements(p, r, &p->seen.v[i].box);
	return all > (double)numel(p, r) ? all - (double)numel(p, r) : 0;
}

/* Why value r, which one kernel reads at several places, is not computed at each; NULL: it is. */
static const char *why_whole(const pass *p, ir_ref r, int places, double more)
{
	if (places > MOST_PLACES) return "these are too many";
	if (p->nread[r] == MOST_READS) return "its reads are too many";
	if (p->apart[r]) return "it is read as a whole, too: as an output, or by an op that reads memory";
	if (!is_straight(p, r)) return "too many of its elements are read through a broadcast or a view that is no slice";
	if (is_deep(p, r, places) && p->work[r] > SMALL_WORK) return "what reads it is computed at fewer places, and stencils would multiply";
	if (more * p->work[r] > (double)numel(p, r) * most_work(p, r)) return TOO_MUCH;
	if (p->spent + more * lo_work(node(p, r)) > p->most) return "the graph would compute more than three times as much";
	return has_room(p, r) ? NULL : "the kernel that reads it has no room to compute it at each place";
}

static bool decide(pass *p, ir_ref r, int places)
{
	if (places < 2 || !p->data[r] || !numel(p, r) || !is_torn(p, r)) return false;
	const double more = more_elements(p, r);
	const char *why = why_whole(p, r, places, more);
	tell(p, r, places, why);
	if (why) return false;
	p->spent += more * lo_work(node(p, r));
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next)
		if (is_first(p, r, i, true)) p->weight[region_of(p, p->seen.v[i].by)] += lo_work(node(p, r));
	return true;
}

/* ---- the walk from readers to operands ---- */
static bool read_view(pass *p, ir_ref r)
{
	const ir_ref x = source(p, r, 0);
	const int64_t *attr = ir_attr(p->w.from, node(p, r));
	p->apart[x] |= p->apart[r];
	for (uint32_t i = p->first[r]; i; i = p->seen.v[i].next) {
		seen s = p->seen.v[i];
		if (is_cut(p, r)) lo_box_below_slice(&s.box, (int)attr[0], attr[1], attr[3]);
		else {
			p->apart[x] |= !lo_is_whole(&p->w, r, &s.box);
			s.box = lo_whole(&p->w, x);
			s.bent |= node(p, r)->op != IR_reshape && node(p, r)->op != IR_squeeze && node(p, r)->op != IR_unsqueeze;
		}
		if (!add_read(p, x, s)) return false;
	}
	return true;
}

static bool read_operands(pass *p, ir_ref r, int places)
{
	const bool deep = p->again[r] && is_deep(p, r, places);
	for (int k = 0; k < node(p, r)->nsrc; k++) {
		const ir_ref x = source(p, r, k);
		seen s = { .by = r, .box = lo_whole(&p->w, x), .bent = lo_by_element(p->w.from, node(p, r)) && numel(p, x) != numel(p, r) };
		if (!p->again[r] && !add_read(p, x, s)) return false;
		for (uint32_t i = p->again[r] ? p->first[r] : 0; i; i = p->seen.v[i].next) {
			const seen *of = &p->seen.v[i];
			const lo_box b = lo_box_of_operand(&p->w, r, x, &of->box);
			s = (seen){ .by = of->by, .places = (uint16_t)places, .deep = deep, .box = b };
			s.bent = of->bent || elements(p, x, &b) != elements(p, r, &of->box);
			if (!add_read(p, x, s)) return false;
		}
	}
	return true;
}

static bool visit(pass *p, ir_ref r)
{
	const ir_node *n = node(p, r);
	const bool point = lo_by_element(p->w.from, n);
	if (is_view(p, r)) return read_view(p, r);
	if (!lo_target_on(p->o, n->device) || (!point && !(ir_ops[n->op].flags & IR_REDUCE))) {
		for (int k = 0; k < n->nsrc; k++) p->apart[source(p, r, k)] = true;
		return true;
	}
	const int places = places_of(p, r);
	p->again[r] = point && decide(p, r, places);
	if (!p->again[r]) p->weight[region_of(p, r)] += lo_work(n);
	for (uint32_t i = places < 2 && !p->again[r] ? p->first[r] : 0; i; i = p->seen.v[i].next) unite(p, r, p->seen.v[i].by);
	return read_operands(p, r, places);
}

static bool find(pass *p, const bool *live)
{
	bool ok = rt_push(&p->seen, ((seen){ 0 })); /* index 0 ends lists */
	for (uint32_t i = 0; i < p->w.from->out.n; i++) p->apart[p->w.from->out.v[i]] = true;
	for (ir_ref r = 0; r < p->w.from->node.n; r++) p->region[r] = r;
	for (ir_ref r = p->w.from->node.n; ok && r-- > 0;)
		if (live[r]) ok = visit(p, r);
	return ok;
}

/* ---- the new graph ---- */
static ir_ref walk(void *env, ir_ref r, ir_ref *src)
{
	pass *p = env;
	const ir_node *n = node(p, r);
	const int64_t *attr = ir_attr(p->w.from, n);
	p->leads[r] = p->again[r] || (is_view(p, r) && p->leads[source(p, r, 0)]);
	if (!is_cut(p, r) || !p->leads[r]) return lo_copy(p->w.to, p->w.from, r, src);
	lo_box b = lo_whole(&p->w, r);
	lo_box_below_slice(&b, (int)attr[0], attr[1], attr[3]);
	return lo_part(&p->w, source(p, r, 0), &b);
}

/* What is not computed at each place is read where it is stored. */
static bool own(void *env, ir_ref r, const lo_box *b, ir_ref *y)
{
	pass *p = env;
	if (p->leads[r] && (is_view(p, r) || lo_by_element(p->w.from, node(p, r)))) return false;
	return *y = lo_slice(&p->w, r, b), true;
}

static bool open_pass(pass *p, rt_arena *mem, uint32_t n)
{
#define ROOM(field) (p->field = rt_arena_alloc(mem, sizeof *p->field * n))
	return ROOM(first) && ROOM(nread) && ROOM(work) && ROOM(cuts) && ROOM(again) && ROOM(leads) && ROOM(apart) && ROOM(data) &&
	       ROOM(region) && ROOM(weight);
#undef ROOM
}

tj_status lo_repeat(const ir_graph *from, ir_graph *to, const lo_opts *o, bool *did, lo_repeats *told, rt_err *err)
{
	const uint32_t n = from->node.n + 1;
	rt_arena mem = { 0 };
	pass p = { .w = { .from = from, .to = to, .walk = walk, .own = own }, .o = o, .told = told };
	p.w.env = &p;
	bool *live = rt_arena_alloc(&mem, n);
	bool ok = live && open_pass(&p, &mem, n);
	*did = false;
	if (ok) ir_live(from, live);
	if (ok && count(&p, live) && (ok = find(&p, live)))
		for (ir_ref r = 0; r < from->node.n; r++) *did |= p.again[r];
	tj_status st = ok ? TJ_OK : rt_fail(err, TJ_ERR_NOMEM, "lower", "out of memory");
	if (*did) st = lo_walk_graph(&p.w, err);
	rt_vec_free(&p.seen);
	rt_arena_free(&mem);
	return st;
}
