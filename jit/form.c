/* SPDX-License-Identifier: MIT */
/* Direct mode, forms: a call at sizes that the context has not met, or has forgotten, without its body.
 *
 *   a new size -> the events of a path at other sizes, asked for again -> matched or recorded, lowered and run as if the body had asked
 *
 * When a path holds at other sizes: the function has .shapes; its body asks no size (tj_dim(), tj_numel()), so no attribute can depend on
 * one; and calls at three sets of sizes have asked for the same events with the same attributes, so none comes from a variable that the
 * caller sets beside the sizes. Such a path is a form of its function and context. A path with callbacks, assigns, gradients or ops of
 * several results is none. At a way that was not learned yet the body runs after all: nothing is committed before the return. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"

enum { PROOFS = 3 };

/* ---- which paths are forms ---- */
static bool is_plain(const jit_path *p)
{
	for (const jit_node *n = p->boundary->parent; n->parent; n = n->parent)
		if (n->op >= IR_OPS || ir_ops[n->op].nresult != 1 || n->loose) return false;
	for (uint32_t i = 0; i < p->nexpr; i++)
		if (p->expr[i].callback) return false;
	for (uint32_t i = 0; i < p->plan->n; i++)
		if (p->plan->value[i].seq & JIT_INNER) return false;
	return p->branches || !p->nassign;
}

static bool same_events(const jit_node *x, const jit_node *y)
{
	for (; x->parent && y->parent; x = x->parent, y = y->parent) {
		if (x->op != y->op || x->mode != y->mode || x->nsrc != y->nsrc || x->nattr != y->nattr || x->site != y->site) return false;
		if (x->nattr && memcmp(x->attr, y->attr, x->nattr * sizeof *x->attr)) return false;
		if (x->nsrc && memcmp(x->src, y->src, x->nsrc * sizeof *x->src)) return false;
	}
	return !x->parent && !y->parent;
}

static bool same_number(const jit_operand *x, const jit_operand *y)
{
	return x->from == y->from && (x->from != JIT_FROM(JIT_CONST, 0) || x->number == y->number);
}

static bool same_source(const jit_from *x, const jit_from *y) { return x->kind == y->kind && x->seg == y->seg && x->index == y->index; }

static bool same_level(const jit_path *x, const jit_path *y)
{
	bool same = x->branches == y->branches && x->next == y->next && x->nnum == y->nnum && x->nexpr == y->nexpr &&
	            x->plan->n == y->plan->n && same_events(x->boundary, y->boundary);
	for (uint32_t i = 0; same && i < x->next; i++) same = same_source(&x->ext[i], &y->ext[i]);
	for (uint32_t i = 0; same && i < x->nnum; i++) same = same_number(&x->num[i], &y->num[i]);
	for (uint32_t i = 0; same && i < x->nexpr; i++) {
		same = x->expr[i].op == y->expr[i].op && x->expr[i].nsrc == y->expr[i].nsrc;
		for (int k = 0; same && k < x->expr[i].nsrc; k++) same = same_number(&x->expr[i].src[k], &y->expr[i].src[k]);
	}
	for (uint32_t i = 0; same && i < x->plan->n; i++) same = x->plan->value[i].seq == y->plan->value[i].seq;
	for (uint32_t i = 0; same && !x->branches && i < x->nout; i++) same = same_source(&x->out[i], &y->out[i]);
	return same;
}

/* The ways that both have learned are the same. */
static bool same_form(const jit_path *x, const jit_path *y)
{
	if (!x || !y) return true;
	return is_plain(x) && same_level(x, y) && same_form(x->way[0], y->way[0]) && same_form(x->way[1], y->way[1]);
}

void jit_form_learned(jit_act *a)
{
	jit_memo *s = a->memo;
	jit_hit *h = a->hit, *known = s->form;
	jit_general *g = h->entry->general;
	if (!a->fn->spec || a->fn->asked || !h->path || atomic_load(&g->formless)) return;
	const bool other = known && known->entry->general != g;
	if (a->asked || a->named.n || !is_plain(h->path) || (known && !other && known != h && !same_form(known->path, h->path))) {
		atomic_store(&g->formless, true);
		if (!other) s->form = NULL;
		return;
	}
	if (known == h) return;
	s->proofs = !known || other ? 1 : s->proofs + (s->proofs < PROOFS && known->entry != h->entry);
	s->form = h;
}

bool jit_has_form(const jit_memo *s, const jit_hit *h)
{
	return s->form && s->proofs >= PROOFS && s->form != h && !h->path && !h->deep && s->form->entry->general == h->entry->general &&
	       !atomic_load_explicit(&s->fn->follow, memory_order_relaxed);
}

/* ---- asking for its events again ---- */
typedef struct replay {
	jit_act *a;
	tj_tensor *const *args;  /* placeholders */
	const jit_path *level[JIT_MAX_LEVELS];
	tj_tensor **value[JIT_MAX_LEVELS]; /* by event */
	uint32_t n;              /* number of levels so far, the running one included */
	tj_tensor **expr;        /* by late expression; NULL: not computed yet */
	uint32_t nexpr;
} replay;

static tj_tensor *number(replay *r, const jit_operand *o);

static tj_tensor *expression(replay *r, uint32_t i)
{
	if (r->expr[i]) return r->expr[i];
	for (uint32_t l = 0; l < r->n; l++) {
		const jit_path *p = r->level[l];
		if (i < p->expr0 || i >= p->expr0 + p->nexpr) continue;
		const jit_late_expr *e = &p->expr[i - p->expr0];
		tj_tensor *src[3];
		for (int k = 0; k < e->nsrc; k++) src[k] = number(r, &e->src[k]);
		return r->expr[i] = jit_event(p->site, e->op, e->nsrc, src, 0, NULL);
	}
	return &r->a->ctx->rt.poison;
}

static tj_tensor *number(replay *r, const jit_operand *o)
{
	const uint32_t i = o->from & 0xFFFFFFF;
	switch (o->from >> 28) {
	case JIT_ARG: return r->args[i];
	case JIT_SCALAR: return r->a->learn ? jit_late(r->a, o->from, rt_number_f(r->a->scalars[i].f)) : rt_number_f(r->a->scalars[i].f);
	case JIT_EXPR: return expression(r, i);
	default: return o->number;
	}
}

static tj_tensor *tensor(const replay *r, const jit_from *f)
{
	switch (f->kind) {
	case JIT_FROM_ARG: return r->args[f->index];
	case JIT_FROM_STATE: return *r->a->fn->state[f->index];
	default: return r->value[f->seg][r->level[f->seg]->plan->value[f->index].seq];
	}
}

/* A path has the bits of its numbers. */
static tj_tensor *constant(uint32_t kind, uint64_t bits)
{
	double d;
	memcpy(&d, &bits, sizeof d);
	return kind == JIT_INT ? rt_number_i((int64_t)bits) : rt_number_f(d);
}

static tj_tensor *operand(replay *r, const jit_path *p, jit_ref x)
{
	const uint32_t i = JIT_IDX(x);
	switch (JIT_KIND(x)) {
	case JIT_EV: return r->value[r->n - 1][i];
	case JIT_EXT: return tensor(r, &p->ext[i]);
	default: return p->num[i].from == JIT_FROM(JIT_CONST, 0) ? constant(JIT_KIND(x), p->bits[i]) : number(r, &p->num[i]);
	}
}

/* The events of one level, up to its boundary. */
static bool ask(replay *r, const jit_path *p)
{
	jit_act *a = r->a;
	rt_arena *mem = &a->mem;
	const uint32_t n = p->boundary->seq;
	const jit_node **path = rt_arena_alloc(mem, (n + 1) * sizeof *path);
	tj_tensor **value = r->value[r->n] = rt_arena_alloc(mem, (n + 1) * sizeof *value);
	const uint8_t mode = a->mode;
	if (!path || !value) return false;
	r->level[r->n++] = p;
	for (const jit_node *x = p->boundary->parent; x->parent; x = x->parent) path[x->seq] = x;
	for (uint32_t i = 0; i < n; i++) {
		const jit_node *x = path[i];
		tj_tensor **src = rt_arena_alloc(mem, (x->nsrc + 1u) * sizeof *src);
		if (!src) return false;
		for (int k = 0; k < x->nsrc; k++) src[k] = operand(r, p, x->src[k]);
		a->mode = x->mode;
		value[i] = jit_event(x->site, x->op, x->nsrc, src, x->nattr, x->attr);
	}
	a->mode = mode;
	return true;
}

static uint32_t count_exprs(const jit_path *p)
{
	uint32_t n = 0;
	for (; p; p = p->way[0] ? p->way[0] : p->way[1])
		if (p->expr0 + p->nexpr > n) n = p->expr0 + p->nexpr;
	return n + 64; /* another way may have more */
}

bool jit_replay(jit_act *a, const jit_hit *form, tj_tensor **out, tj_tensor *const *args)
{
	const uint32_t room = count_exprs(form->path);
	replay r = { .a = a, .args = args, .nexpr = room, .expr = rt_arena_alloc(&a->mem, room * sizeof *r.expr) };
	for (const jit_path *p = form->path; p && r.expr; ) {
		if (r.n == JIT_MAX_LEVELS || p->expr0 + p->nexpr > room || !ask(&r, p)) return false;
		if (a->failed) return false;
		if (!p->branches) {
			for (uint32_t i = 0; i < p->nout; i++)
				out[i] = p->out[i].kind == JIT_FROM_NUMBER ? number(&r, &p->out_num[i]) : tensor(&r, &p->out[i]);
			return true;
		}
		p = p->way[tj_truth_at(p->site, operand(&r, p, p->boundary->src[0]))];
		if (a->failed || a->broken) return false;
	}
	return false;
}
