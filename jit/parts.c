/* SPDX-License-Identifier: MIT */
/* Parts: earlier segments in the graph of a segment, so that gradients go through them. Their events are emitted before those of the
 * segment. When all gradients are there, what the earlier plans have computed is cut out: it becomes inputs, the residuals.
 *
 *   %0 = input w          part: h = x * w          %0 = input w
 *   %1 = input x                                   %2 = input h (residual)
 *   %2 = mul %1 %0                         =>      ...
 *   %3 = exp %2           the segment: y = exp h   %5 = mul %4 %1
 *   ...                   the gradients            ret %5
 *
 * Views, constants and random numbers are not cut: computing them again costs less than keeping them. */
#include "jit/earlier.h"

bool jit_asks(const jit_node *n, int *first, int *end)
{
	*first = n->op == JIT_GRAD && n->attr[0] ? 2 : 1;
	*end = n->op == JIT_GRAD ? n->nsrc : 1 + (n->nsrc - 1) / 2;
	return n->op == JIT_GRAD || n->op == JIT_JVP;
}

/* ---- what the path says ---- */
static uint32_t count_places(const jit_builder *b, uint32_t n)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < n; i++)
		if (b->path[i]->op == JIT_BEFORE && b->path[i]->attr[JIT_BEFORE_PLACE] >= most) most = (uint32_t)b->path[i]->attr[JIT_BEFORE_PLACE] + 1;
	return most;
}

static void *zeros(jit_builder *b, size_t n, size_t size)
{
	void *p = rt_arena_alloc(b->mem, (n + 1) * size);
	if (p) memset(p, 0, (n + 1) * size);
	return p;
}

static bool open_part(jit_builder *b, jit_part *p, const jit_node *before)
{
	p->boundary = (const jit_node *)(uintptr_t)before->attr[JIT_BEFORE_BOUNDARY];
	const uint32_t n = p->n = p->boundary->seq + 1;
	p->next = p->boundary->next + p->boundary->nmet;
	p->path = zeros(b, n, sizeof *p->path);
	p->event = rt_arena_alloc(b->mem, n * sizeof *p->event);
	p->home = rt_arena_alloc(b->mem, n * sizeof *p->home);
	p->again = zeros(b, n, sizeof *p->again);
	p->wanted = zeros(b, n, sizeof *p->wanted);
	p->slot = zeros(b, n, sizeof *p->slot);
	p->residual = zeros(b, n, sizeof *p->residual);
	p->from = zeros(b, p->next, sizeof *p->from);
	p->number = zeros(b, p->boundary->nnum, sizeof *p->number);
	p->before = zeros(b, p->next, sizeof *p->before);
	if (!p->path || !p->event || !p->home || !p->again || !p->wanted || !p->slot || !p->residual || !p->from || !p->before ||
	    !p->number)
		return false;
	for (const jit_node *x = p->boundary; x->parent; x = x->parent) p->path[x->seq] = (jit_node *)(uintptr_t)x;
	for (uint32_t i = 0; i < n; i++) {
		p->event[i] = IR_NONE;
		p->home[i] = &b->in.top;
	}
	return true;
}

/* Several BEFOREs may name one segment: the part has what any of them needs. An event is that of the boundary whose BEFORE needs it first:
 * one that needs less may have the name of a segment that is alike only in that (name_of() in earlier.c). */
static bool add_before(jit_builder *b, const jit_node *before)
{
	jit_part *p = &b->parts[before->attr[JIT_BEFORE_PLACE]];
	if (!p->boundary && !open_part(b, p, before)) return false;
	const int64_t *from = before->attr + JIT_BEFORE_EXT, *again = from + p->next;
	for (uint32_t i = 0; i < p->next; i++) {
		if (!from[i] || p->from[i] > 0) continue;
		p->from[i] = from[i];
		p->before[i] = before;
	}
	for (uint32_t i = 0; i < before->attr[JIT_BEFORE_NUMBERS]; i++) p->number[before->attr[JIT_BEFORE_NUMBER] + i] = before->nnum + i;
	for (const jit_node *x = (const jit_node *)(uintptr_t)before->attr[JIT_BEFORE_BOUNDARY]; x->parent; x = x->parent) {
		const uint32_t i = x->seq;
		if (!(again[i / 64] >> i % 64 & 1) || p->again[i]) continue;
		p->again[i] = true;
		p->path[i] = (jit_node *)(uintptr_t)x;
	}
	return true;
}

static void add_link(jit_builder *b, const jit_node *link)
{
	const uint32_t slot = JIT_IDX(link->src[0]), place = (uint32_t)link->attr[0], seq = (uint32_t)link->attr[1];
	b->link[slot] = jit_of_part(place, seq);
	if (!b->parts[place].slot[seq]) b->parts[place].slot[seq] = slot + 1;
}

/* ---- which values are asked for: these are marked ---- */
static void want_slot(jit_builder *b, uint32_t slot)
{
	const int64_t of = b->link[slot];
	jit_part *p = of ? &b->parts[jit_part_place(of)] : NULL;
	if (p) p->wanted[jit_part_seq(of)] = true;
	b->wanted_ext[p && p->slot[jit_part_seq(of)] ? p->slot[jit_part_seq(of)] - 1 : slot] = true;
}

static uint32_t slot_of(const jit_part *p, uint32_t ext) { return JIT_IDX(p->before[ext]->src[-1 - p->from[ext]]); }

static void want_operand(jit_builder *b, jit_part *p, jit_ref r)
{
	const uint32_t i = JIT_IDX(r);
	if (JIT_KIND(r) == JIT_EV) {
		p->wanted[i] = true;
		if (p->slot[i]) b->wanted_ext[p->slot[i] - 1] = true;
	} else if (p->from[i] > 0) want_operand(b, &b->parts[jit_part_place(p->from[i])], JIT_REF(JIT_EV, jit_part_seq(p->from[i])));
	else if (p->from[i] < 0) want_slot(b, slot_of(p, i));
}

static void find_wanted(jit_builder *b, uint32_t next)
{
	int k, end;
	for (uint32_t s = 0; s < next; s++)
		if (b->wanted_ext[s]) want_slot(b, s);
	for (uint32_t j = 0; j < b->nparts; j++) {
		jit_part *p = &b->parts[j];
		for (uint32_t i = 0; i < p->n; i++)
			if (p->again[i] && jit_asks(p->path[i], &k, &end))
				for (; k < end; k++) want_operand(b, p, p->path[i]->src[k]);
	}
}

bool jit_parts_find(jit_builder *b, uint32_t n, uint32_t next)
{
	const uint32_t count = count_places(b, n);
	if (!count) return true;
	b->parts = zeros(b, count, sizeof *b->parts);
	b->met = zeros(b, next, sizeof *b->met);
	b->link = zeros(b, next, sizeof *b->link);
	if (!b->parts || !b->met || !b->link) return false;
	b->nparts = count;
	for (uint32_t i = 0; i < n; i++) {
		const jit_node *x = b->path[i];
		for (uint32_t s = x->next; s < x->next + x->nmet && x->op != JIT_ASSIGN; s++) b->met[s] = x;
		for (int k = 0; k < x->nsrc && x->op == JIT_ASSIGN; k++) /* its cell is no external */
			if (JIT_KIND(x->src[k]) == JIT_EXT && JIT_IDX(x->src[k]) >= x->next) b->met[JIT_IDX(x->src[k])] = x;
		if (x->op == JIT_BEFORE && !add_before(b, x)) return false;
	}
	for (uint32_t i = 0; i < n; i++)
		if (b->path[i]->op == JIT_LINK) add_link(b, b->path[i]);
	find_wanted(b, next);
	return true;
}

/* ---- emitting ---- */
/* An input for a value that is not computed again. */
static ir_ref residual(jit_builder *b, jit_part *p, uint32_t seq)
{
	const ir_meta m = { .dtype = p->path[seq]->layout->dtype, .rank = p->path[seq]->layout->rank, .device = p->path[seq]->layout->device };
	ir_meta with = m;
	memcpy(with.dim, p->path[seq]->layout->dim, m.rank * sizeof *with.dim);
	if (!p->residual[seq]) {
		if (!rt_push(&b->residual, ((jit_residual){ (uint32_t)(p - b->parts), seq }))) return IR_NONE;
		p->residual[seq] = b->residual.n;
	}
	return ir_input(&b->g, (int)(b->nslot + p->residual[seq] - 1), &with, NULL, p->path[seq]->site);
}

/* Each value that is asked for gets a mark with a number of its own. */
static ir_ref marked(ir_graph *g, const jit_builder *b, const jit_part *p, uint32_t seq, ir_ref r)
{
	return p->wanted[seq] ? ir_mark(g, r, -((int64_t)(p - b->parts + 1) << 32) - seq) : r;
}

static ir_ref value(jit_builder *b, jit_part *p, uint32_t seq)
{
	ir_ref *r = &p->event[seq];
	if (*r != IR_NONE || p->again[seq]) return *r;
	return *r = p->slot[seq] ? b->input(b, p->slot[seq] - 1) : marked(&b->g, b, p, seq, residual(b, p, seq));
}

ir_ref jit_part_value(jit_builder *b, uint32_t slot)
{
	jit_part *p = &b->parts[jit_part_place(b->link[slot])];
	const uint32_t seq = jit_part_seq(b->link[slot]);
	if (p->again[seq]) return p->event[seq];
	return p->slot[seq] == slot + 1
	               ? IR_NONE
	               : b->input(b, p->slot[seq] - 1); /* of two handles for one value, the first one's input is for both */
}

ir_ref jit_part_operand(jit_builder *b, const jit_node *n, jit_ref r, const ir_frame **home)
{
	jit_part *p = b->part;
	const uint32_t i = JIT_IDX(r);
	*home = JIT_KIND(r) == JIT_EXT ? &b->in.top : b->in.at;
	switch (JIT_KIND(r)) {
	case JIT_EV: return *home = p->home[i], value(b, p, i);
	case JIT_EXT: break;
	case JIT_FLOAT: return ir_num_(b->in.at->g, TJ_F64, (int)p->number[i], n->site);
	default: return ir_num_(b->in.at->g, TJ_I64, (int)p->number[i], n->site);
	}
	if (p->from[i] < 0) return b->input(b, slot_of(p, i));
	return value(b, &b->parts[jit_part_place(p->from[i])], jit_part_seq(p->from[i]));
}

static bool emit_part(jit_builder *b, jit_part *p, bool (*emit)(jit_builder *b, const jit_node *n))
{
	if (p->done) return true;
	p->done = true;
	for (uint32_t i = 0; i < p->next; i++) { /* an operand of a BEFORE may be a value that a later request has computed again */
		const int64_t from = p->from[i] < 0 ? b->link[slot_of(p, i)] : p->from[i];
		if (from && !emit_part(b, &b->parts[jit_part_place(from)], emit)) return false;
	}
	ir_ref *event = b->event;
	ir_frame **home = b->home;
	bool ok = true;
	b->part = p;
	b->event = p->event;
	b->home = p->home;
	for (uint32_t i = 0; ok && i < p->n; i++) {
		if (!p->again[i]) continue;
		p->home[i] = b->in.at;
		ok = emit(b, p->path[i]);
		if (ok && p->event[i] != IR_NONE) p->event[i] = marked(p->home[i]->g, b, p, i, p->event[i]);
	}
	b->part = NULL;
	b->event = event;
	b->home = home;
	return ok;
}

bool jit_parts_emit(jit_builder *b, bool (*emit)(jit_builder *b, const jit_node *n))
{
	for (uint32_t j = 0; j < b->nparts; j++)
		if (!emit_part(b, &b->parts[j], emit)) return false;
	b->grad = NULL;
	return true;
}

/* ---- cutting ---- */
enum { UNCUT = INT32_MAX }; /* else: a slot >= 0 of the running segment, or -1 - the index of a residual */

static bool worth_keeping(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	if (ir_is_leaf(n->op)) return false;
	return n->op >= IR_OPS || !(ir_ops[n->op].flags & (IR_VIEW | IR_RNG));
}

static void cut_at(const jit_builder *b, int32_t *cut, ir_ref r, int32_t at)
{
	if (cut[r] == UNCUT) cut[r] = at;
	const ir_node *n = ir_at(&b->g, r);
	if (n->op == IR_mark && n->nattr == 1) cut_at(b, cut, ir_src(&b->g, n, 0), at);
}

/* Values of the events of a part, those inside callbacks left out. */
static bool find_cuts(jit_builder *b, jit_part *p, int32_t *cut)
{
	int inside = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		const jit_node *x = p->path[i];
		inside += x->op == JIT_CALLBACK;
		inside -= x->op == JIT_YIELD;
		const ir_ref r = p->event[i];
		if (!p->again[i] || inside || !x->layout || r == IR_NONE || (x->op >= IR_OPS && x->op != IR_get)) continue;
		ir_ref of = r;
		if (ir_at(&b->g, of)->op == IR_mark) of = ir_src(&b->g, ir_at(&b->g, of), 0);
		if (!worth_keeping(&b->g, of) && !(p->slot[i] && !ir_is_leaf(ir_at(&b->g, of)->op))) continue;
		if (!p->slot[i] && !p->residual[i]) {
			if (!rt_push(&b->residual, ((jit_residual){ (uint32_t)(p - b->parts), i }))) return false;
			p->residual[i] = b->residual.n;
		}
		cut_at(b, cut, r, p->slot[i] ? (int32_t)p->slot[i] - 1 : -(int32_t)p->residual[i]);
	}
	return true;
}

static void find_live(const ir_graph *g, const int32_t *cut, bool *live)
{
	memset(live, 0, g->node.n * sizeof *live);
	for (uint32_t i = 0; i < g->out.n; i++) live[g->out.v[i]] = true;
	for (ir_ref r = g->node.n; r-- > 0;) {
		const ir_node *n = ir_at(g, r);
		if (!live[r] || cut[r] != UNCUT) continue;
		for (int k = 0; k < (n->op == IR_mark ? 1 : n->nsrc); k++) live[ir_src(g, n, k)] = true;
	}
}

typedef struct cutting { jit_builder *b; rt_vec(jit_residual) used; } cutting;

/* The slot of a residual in the graph. */
static int slot_for(cutting *c, uint32_t i)
{
	const jit_residual *x = &c->b->residual.v[i];
	for (uint32_t k = 0; k < c->used.n; k++)
		if (c->used.v[k].place == x->place && c->used.v[k].seq == x->seq) return (int)(c->b->nslot + k);
	return rt_push(&c->used, *x) ? (int)(c->b->nslot + c->used.n - 1) : -1;
}

static ir_ref copy(cutting *c, ir_graph *to, ir_ref r, int32_t cut, const ir_ref *src)
{
	const jit_builder *b = c->b;
	const ir_node *n = ir_at(&b->g, r);
	const ir_meta m = ir_meta_of(&b->g, r);
	const int slot = n->op == IR_input ? (int)ir_attr(&b->g, n)[0] : -1;
	if (cut != UNCUT && cut >= 0) {
		const jit_node *met = b->met[cut];
		const rt_layout *l = met->met[(uint32_t)cut - met->next].layout;
		return ir_input(to, cut, &m, l->contiguous ? NULL : rt_strides(l), n->site);
	}
	if (cut == UNCUT && slot < (int)b->nslot) return ir_copy(to, &b->g, r, src);
	const int at = slot_for(c, cut == UNCUT ? (uint32_t)slot - b->nslot : (uint32_t)(-1 - cut));
	return at < 0 ? IR_NONE : ir_input(to, at, &m, NULL, n->site);
}

static bool copy_all(cutting *c, ir_graph *to, const int32_t *cut, const bool *live, ir_ref *map)
{
	const ir_graph *g = &c->b->g;
	ir_ref *src = rt_arena_alloc(c->b->mem, (g->refs.n + 1) * sizeof *src);
	if (!src) return false;
	for (ir_ref r = 0; r < g->node.n; r++) {
		const ir_node *n = ir_at(g, r);
		if (!live[r]) continue;
		for (int k = 0; k < n->nsrc && cut[r] == UNCUT; k++) src[k] = n->op == IR_mark && k ? IR_NONE : map[ir_src(g, n, k)];
		if ((map[r] = copy(c, to, r, cut[r], src)) == IR_NONE) return false;
	}
	for (uint32_t i = 0; i < g->out.n; i++)
		if (!ir_ret(to, map[g->out.v[i]])) return false;
	return true;
}

bool jit_parts_cut(jit_builder *b, ir_graph *to)
{
	cutting c = { .b = b };
	const uint32_t n = b->g.node.n;
	int32_t *cut = rt_arena_alloc(b->mem, (n + 1) * sizeof *cut);
	bool *live = rt_arena_alloc(b->mem, (n + 1) * sizeof *live), ok = cut && live;
	ir_ref *map = rt_arena_alloc(b->mem, (n + 1) * sizeof *map);
	for (uint32_t r = 0; cut && r < n; r++) cut[r] = UNCUT;
	for (uint32_t i = 0; ok && i < b->nknown; i++) ok = rt_push(&c.used, b->known[i]);
	for (uint32_t j = 0; ok && j < b->nparts; j++) ok = find_cuts(b, &b->parts[j], cut);
	if (ok) find_live(&b->g, cut, live);
	ok = ok && map && copy_all(&c, to, cut, live, map);
	if (!ok) b->g.err = to->err;
	if (!ok) rt_fail(&b->g.err, TJ_ERR_NOMEM, "compile", "out of memory");
	rt_vec_free(&b->residual);
	b->residual.n = 0;
	for (uint32_t i = 0; ok && i < c.used.n; i++) ok = rt_push(&b->residual, c.used.v[i]);
	rt_vec_free(&c.used);
	return ok;
}
