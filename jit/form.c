/* SPDX-License-Identifier: MIT */
/* Direct mode, forms: a call at sizes that the context has not met, or has forgotten, without its body.
 *
 *   a new size -> the events of a path at other sizes, asked for again -> matched or recorded, lowered and run as if the body had asked
 *
 * When a path holds at other sizes: the function has .shapes; its body asks no size (tj_dim(), tj_numel()) and sees no nested call fail, so
 * no attribute and no branch can depend on one; and calls at three different sets of sizes have asked for the same events with the same
 * attributes, so none came from a variable that the caller sets beside the sizes. Such a path is a form. It holds for one general entry and
 * for one state: a number in .state is a constant of the path, and which cells are the same tensor decides what an event reads.
 *
 * A path with a branch, callbacks, assigns, gradients or ops of several results is no form. If an op fails at the new sizes, the body
 * runs after all, since it may handle the error: nothing is committed before the return. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/note.h"

/* ---- which paths are forms ---- */
static bool is_plain(const jit_path *p)
{
	if (p->branches || p->nassign) return false;
	for (const jit_node *n = p->boundary->parent; n->parent; n = n->parent)
		if (n->op >= IR_OPS || ir_ops[n->op].nresult != 1 || n->loose) return false;
	for (uint32_t i = 0; i < p->nexpr; i++)
		if (p->expr[i].callback || (p->expr[i].op == IR_pow && p->expr[i].nsrc == 3)) return false; /* power.c chose by a number */
	for (uint32_t i = 0; i < p->nout; i++)
		if (p->out[i].kind == JIT_FROM_VALUE && p->plan->value[p->out[i].index].seq & JIT_INNER) return false;
	return true;
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

/* The event whose value is output i. */
static uint32_t event_of(const jit_path *p, uint32_t i) { return p->plan->value[p->out[i].index].seq; }

static bool same_path(const jit_path *x, const jit_path *y)
{
	bool same = x->next == y->next && x->nnum == y->nnum && x->nexpr == y->nexpr && same_events(x->boundary, y->boundary);
	for (uint32_t i = 0; same && i < x->next; i++) same = jit_same_from(&x->ext[i], &y->ext[i]);
	for (uint32_t i = 0; same && i < x->nnum; i++) same = same_number(&x->num[i], &y->num[i]);
	for (uint32_t i = 0; same && i < x->nexpr; i++) {
		same = x->expr[i].op == y->expr[i].op && x->expr[i].nsrc == y->expr[i].nsrc;
		for (int k = 0; same && k < x->expr[i].nsrc; k++) same = same_number(&x->expr[i].src[k], &y->expr[i].src[k]);
	}
	for (uint32_t i = 0; same && i < x->nout; i++)
		same = x->out[i].kind == JIT_FROM_VALUE ? y->out[i].kind == JIT_FROM_VALUE && event_of(x, i) == event_of(y, i)
		                                        : jit_same_from(&x->out[i], &y->out[i]) && same_number(&x->out_num[i], &y->out_num[i]);
	return same;
}

/* One general entry, and one state: the words of the key behind those of the arguments (put_state() in memo.c). */
static bool same_kind(const jit_hit *x, const jit_hit *y)
{
	const uint32_t own = 1 + gd_key_words(&x->entry->sig), n = 1 + x->key[0];
	return x->entry->general == y->entry->general && x->key[0] == y->key[0] &&
	       !memcmp(x->key + own, y->key + own, (n - own) * sizeof *x->key);
}

bool jit_same_form(const jit_hit *x, const jit_hit *y)
{
	return x->path && y->path && same_kind(x, y) && is_plain(x->path) && is_plain(y->path) && same_path(x->path, y->path);
}

/* The sizes of the call are one more proof, unless they are one already. */
static void prove(jit_memo *s, jit_hit *h)
{
	const uint64_t hash = gd_sig_hash(&h->entry->sig);
	bool again = false;
	for (int i = 0; i < s->proofs; i++) again |= s->proof[i] == hash;
	if (!again && s->proofs < JIT_PROOFS) s->proof[s->proofs++] = hash;
	s->form = h;
}

/* What was proven is wrong: a variable that the caller sets beside the sizes has changed. */
static void tell(jit_act *a)
{
	jit_learn_tell(a, "impure", a->hit->path->site ? a->hit->path->site : "?", "", "",
	               "the body depends on something undeclared: pass it by tj_call_ex() and read it with tj_arg_f() or tj_arg_i(), or use "
	               "TJ_VERIFY",
	               "at these sizes the body asks for other events than at others, though it asks for no size");
	atomic_store(&a->fn->follow, true);
}

void jit_form_learned(jit_act *a)
{
	jit_memo *s = a->memo;
	jit_hit *h = a->hit, *known = s->form;
	jit_general *g = h->entry->general;
	if (!a->fn->spec || a->fn->asked || !h->path || known == h || atomic_load(&g->formless)) return;
	const bool other = !known || !known->path || !same_kind(known, h); /* no path: its plan was widened, and it is learned anew */
	if (!a->asked && !a->named.n && is_plain(h->path) && (other || same_path(known->path, h->path))) {
		if (other) s->proofs = 0;
		prove(s, h);
		return;
	}
	atomic_store(&g->formless, true);
	if (other) return;
	s->form = NULL;
	if (s->proofs == JIT_PROOFS) tell(a);
}

bool jit_has_form(const jit_memo *s, const jit_hit *h)
{
	return s->form && s->form->path && s->proofs == JIT_PROOFS && s->form != h && !h->path && !h->deep && same_kind(s->form, h) &&
	       !atomic_load_explicit(&h->entry->general->formless, memory_order_relaxed) &&
	       !atomic_load_explicit(&s->fn->follow, memory_order_relaxed);
}

/* ---- asking for its events again ---- */
typedef struct replay {
	jit_act *a;
	const jit_path *path;
	tj_tensor *const *args;  /* placeholders */
	tj_tensor **value;       /* by event */
	tj_tensor **expr;        /* by late expression */
} replay;

static tj_tensor *number_of(const replay *r, const jit_operand *o)
{
	const uint32_t i = o->from & 0xFFFFFFF;
	switch (o->from >> 28) {
	case JIT_ARG: return r->args[i];
	case JIT_SCALAR: return r->a->learn ? jit_late(r->a, o->from, rt_number_f(r->a->scalars[i].f)) : rt_number_f(r->a->scalars[i].f);
	case JIT_EXPR: return r->expr[i];
	default: return o->number;
	}
}

static tj_tensor *tensor_of(const replay *r, const jit_from *f)
{
	return f->kind == JIT_FROM_ARG ? r->args[f->index] : *r->a->fn->state[f->index];
}

/* A path has the bits of its numbers. */
static tj_tensor *constant(uint32_t kind, uint64_t bits)
{
	double d;
	memcpy(&d, &bits, sizeof d);
	return kind == JIT_INT ? rt_number_i((int64_t)bits) : rt_number_f(d);
}

static tj_tensor *operand(const replay *r, jit_ref x)
{
	const jit_path *p = r->path;
	const uint32_t i = JIT_IDX(x);
	switch (JIT_KIND(x)) {
	case JIT_EV: return r->value[i];
	case JIT_EXT: return tensor_of(r, &p->ext[i]);
	default: return p->num[i].from == JIT_FROM(JIT_CONST, 0) ? constant(JIT_KIND(x), p->bits[i]) : number_of(r, &p->num[i]);
	}
}

/* All of them, in the order in which the body computed them: so what this call learns is the same path. */
static void compute_expressions(const replay *r)
{
	const jit_path *p = r->path;
	for (uint32_t i = 0; i < p->nexpr; i++) {
		tj_tensor *src[3];
		for (int k = 0; k < p->expr[i].nsrc; k++) src[k] = number_of(r, &p->expr[i].src[k]);
		r->expr[i] = jit_event(p->site, p->expr[i].op, p->expr[i].nsrc, src, 0, NULL);
	}
}

static bool ask(replay *r)
{
	jit_act *a = r->a;
	const uint32_t n = r->path->boundary->seq;
	const jit_node **node = rt_arena_alloc(&a->mem, (n + 1) * sizeof *node);
	const uint8_t mode = a->mode;
	if (!node) return false;
	for (const jit_node *x = r->path->boundary->parent; x->parent; x = x->parent) node[x->seq] = x;
	for (uint32_t i = 0; i < n && !a->failed; i++) {
		const jit_node *x = node[i];
		tj_tensor **src = rt_arena_alloc(&a->mem, (x->nsrc + 1u) * sizeof *src);
		if (!src) return false;
		for (int k = 0; k < x->nsrc; k++) src[k] = operand(r, x->src[k]);
		a->mode = x->mode;
		r->value[i] = jit_event(x->site, x->op, x->nsrc, src, x->nattr, x->attr);
	}
	a->mode = mode;
	return !a->failed;
}

bool jit_replay(jit_act *a, const jit_hit *form, tj_tensor **out, tj_tensor *const *args)
{
	const jit_path *p = form->path;
	replay r = { .a = a, .path = p, .args = args };
	r.value = rt_arena_alloc(&a->mem, (p->boundary->seq + 1u) * sizeof *r.value);
	r.expr = rt_arena_alloc(&a->mem, (p->nexpr + 1u) * sizeof *r.expr);
	if (!r.value || !r.expr) return false;
	compute_expressions(&r);
	if (a->failed || !ask(&r)) return false;
	for (uint32_t i = 0; i < p->nout; i++)
		switch (p->out[i].kind) {
		case JIT_FROM_NUMBER: out[i] = number_of(&r, &p->out_num[i]); break;
		case JIT_FROM_VALUE: out[i] = r.value[event_of(p, i)]; break;
		default: out[i] = tensor_of(&r, &p->out[i]);
		}
	return true;
}
