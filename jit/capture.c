/* SPDX-License-Identifier: MIT */
/* Capture: the events of a body become a program. The body runs once, as in a call, but nothing is computed: what it asks for is written
 * down, with where each operand comes from. A body that must see a value, or does what a program cannot, is refused with its line. */
#include "jit/builder.h"
#include "jit/call.h"
#include "jit/effect.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/sample.h"

typedef struct capture {
	jit_program *p;
	jit_act *a;
	jit_handles *of;         /* by variable */
	const char *site;
	rt_vec(uint32_t) slot;   /* number slots that are in p->number already, by number; as slot * 2 + is it an integer */
	rt_vec(uint32_t) late;   /* by late expression: 1 + its number; 0: not yet there */
} capture;

static bool nomem(capture *c) { return jit_error(c->a->ctx, c->site, TJ_ERR_NOMEM, "export", NULL, "out of memory"), false; }

static bool refuse(capture *c, const char *site, const char *hint, const char *op, const char *what)
{
	jit_error(c->a->ctx, c->site, TJ_ERR_STATE, "export", hint, "%s at %s %s", op, site ? site : "?", what);
	return false;
}

/* ---- variables ---- */
static bool add_var(capture *c, tj_tensor *t, uint32_t *index)
{
	jit_pvar v = { .dtype = t->dtype, .rank = t->rank, .cell = t->kind == RT_CELL };
	memcpy(v.dim, t->layout->dim, t->rank * sizeof *v.dim);
	v.bytes = (size_t)t->layout->bytes;
	*index = c->p->var.n;
	return (rt_push(&c->p->var, v) && rt_push(c->of, t)) || nomem(c);
}

/* A tensor from outside of the call: an argument, a declared variable, or what the body holds. */
static bool from_outside(capture *c, const jit_bound *b, jit_poperand *o)
{
	jit_from f;
	if (jit_from_outside(c->a, b, &f)) {
		*o = (jit_poperand){ f.kind == JIT_FROM_ARG ? JIT_P_ARG : JIT_P_VAR, f.index };
		return true;
	}
	o->kind = JIT_P_VAR;
	tj_tensor *h = jit_sample_variable(c->a, c->site, "export", c->of, b->h, &o->index);
	return h && (o->index < c->of->n || add_var(c, h, &o->index));
}

/* ---- numbers ---- */
static bool add_number(capture *c, jit_pnumber n, uint32_t *index)
{
	*index = c->p->number.n;
	return rt_push(&c->p->number, n) || nomem(c);
}

static bool from_source(capture *c, uint32_t from, uint64_t bits, bool is_int, uint32_t *index);

static bool computed(capture *c, uint32_t i, uint32_t *index)
{
	const jit_late_expr *e = &c->a->learn->expr.v[i];
	jit_pnumber n = { .kind = JIT_PN_COMPUTED, .op = e->op, .nsrc = e->nsrc };
	while (c->late.n <= i)
		if (!rt_push(&c->late, 0u)) return nomem(c);
	if (c->late.v[i]) return *index = c->late.v[i] - 1, true;
	if (e->op == IR_pow && e->nsrc == 3)
		return refuse(c, NULL, "use tj_pow() of a tensor, or a constant exponent", "pow",
		              "chooses its ops by the value of a number that may change");
	for (int k = 0; k < e->nsrc; k++) {
		const tj_tensor *h = e->src[k].number;
		const bool number = e->src[k].from >> 28 == JIT_CONST;
		if (!from_source(c, e->src[k].from, number ? rt_number_bits(h) : 0, number && rt_is_int_number(h), &n.src[k])) return false;
	}
	if (!add_number(c, n, index)) return false;
	c->late.v[i] = *index + 1;
	return true;
}

/* from: as in jit_learn. */
static bool from_source(capture *c, uint32_t from, uint64_t bits, bool is_int, uint32_t *index)
{
	const uint32_t i = from & 0xFFFFFFF;
	switch (from >> 28) {
	case JIT_CONST: return add_number(c, (jit_pnumber){ .kind = is_int ? JIT_PN_INT : JIT_PN_FLOAT, .bits = bits }, index);
	case JIT_ARG: return add_number(c, (jit_pnumber){ .kind = JIT_PN_ARG, .index = i }, index);
	case JIT_SCALAR: return add_number(c, (jit_pnumber){ .kind = JIT_PN_SCALAR, .index = i }, index);
	case JIT_EXPR: return computed(c, i, index);
	default: return refuse(c, NULL, "", "a random number", "is used as a number"); /* KEY and ORDINAL are no operands */
	}
}

static bool number_of_slot(capture *c, uint32_t slot, bool is_int, uint32_t *index)
{
	const uint32_t name = slot * 2 + is_int;
	for (uint32_t i = 0; i < c->slot.n; i += 2)
		if (c->slot.v[i] == name) return *index = c->slot.v[i + 1], true;
	if (slot >= c->a->learn->from.n) return nomem(c);
	if (!from_source(c, c->a->learn->from.v[slot], c->a->num.v[slot], is_int, index)) return false;
	return (rt_push(&c->slot, name) && rt_push(&c->slot, *index)) || nomem(c);
}

/* ---- events ---- */
static bool operand(capture *c, const jit_node *n, jit_ref r, jit_poperand *o)
{
	const uint32_t i = JIT_IDX(r);
	switch (JIT_KIND(r)) {
	case JIT_EV: *o = (jit_poperand){ JIT_P_VALUE, i }; return true;
	case JIT_EXT: return from_outside(c, &c->a->ext.v[i], o);
	case JIT_CELL: return from_outside(c, &(jit_bound){ .h = &c->a->cell.v[i]->t }, o);
	default: o->kind = JIT_P_NUMBER; return number_of_slot(c, i, JIT_KIND(r) == JIT_INT, &o->index);
	}
	(void)n;
}

static bool is_supported(const jit_node *n)
{
	return n->op < IR_OPS || n->op == JIT_ASSIGN || n->op == JIT_GRAD || n->op == JIT_JVP || jit_is_flow_event(n->op);
}

static bool add_event(capture *c, const jit_node *n)
{
	rt_arena *mem = &c->p->mem;
	jit_pstep s = { .op = n->op, .nsrc = n->nsrc, .nattr = n->nattr, .mode = n->mode };
	if (n->op == IR_get || n->op == JIT_PARAM) s.nattr = 1; /* the others are its type, which follows from what it belongs to */
	if (!is_supported(n))
		return refuse(c, n->site, "use tj_where(), or take the loop into C", jit_event_name(n->op),
		              "is nothing that can be exported yet");
	if (jit_is_effect(n)) return refuse(c, n->site, "call it outside of the function", jit_event_name(n->op), "runs code of this program");
	if (n->loose) return refuse(c, n->site, "compile it without .guard_filter", jit_event_name(n->op), "has a guard that was dropped");
	s.src = rt_arena_alloc(mem, (n->nsrc + 1u) * sizeof *s.src);
	s.attr = rt_arena_alloc(mem, (n->nattr + 1u) * sizeof *s.attr);
	s.site = n->site ? rt_arena_strdup(mem, n->site) : NULL;
	if (!s.src || !s.attr || (n->site && !s.site)) return nomem(c);
	for (int k = 0; k < n->nsrc; k++)
		if (!operand(c, n, n->src[k], &s.src[k])) return false;
	for (int k = 0; k < s.nattr; k++) s.attr[k] = (jit_psize){ .more = n->attr[k], .part = 1, .i = -1, .j = -1 };
	return rt_push(&c->p->step, s) || nomem(c);
}

static bool add_events(capture *c)
{
	const uint32_t n = c->a->seq;
	const jit_node **node = rt_arena_alloc(&c->a->mem, (n + 1) * sizeof *node);
	if (!node) return nomem(c);
	for (const jit_node *x = c->a->cursor; x->parent; x = x->parent) node[x->seq] = x;
	for (uint32_t i = 0; i < n; i++)
		if (!add_event(c, node[i])) return false;
	return true;
}

/* l: NULL of a number. */
static jit_parg type_of(const rt_layout *l, bool is_int)
{
	jit_parg a = { .kind = l ? GD_VALUE : is_int ? GD_INT : GD_FLOAT };
	if (l) a.dtype = l->dtype, a.rank = l->rank;
	for (int d = 0; d < a.rank; d++) a.dim[d] = (jit_psize){ .more = l->dim[d], .part = 1, .i = -1, .j = -1 };
	return a;
}

static bool add_result(capture *c, tj_tensor *t, uint32_t from)
{
	const bool number = rt_is_number(t);
	jit_poperand o = { JIT_P_NUMBER, 0 };
	if (number) {
		if (!from_source(c, from, rt_number_bits(t), rt_is_int_number(t), &o.index)) return false;
	} else if (t->kind == RT_PENDING) o = (jit_poperand){ JIT_P_VALUE, t->seq };
	else if (!from_outside(c, &(jit_bound){ .h = t, .layout = t->layout, .data = t->data, .buf = t->buf }, &o)) return false;
	return (rt_push(&c->p->out, o) && rt_push(&c->p->result, type_of(number ? NULL : t->layout, number && rt_is_int_number(t)))) || nomem(c);
}

static bool add_arguments(capture *c)
{
	const gd_sig *sig = &c->a->entry->sig;
	for (uint32_t i = 0; i < sig->narg; i++) {
		const rt_layout *l = sig->arg[i].layout;
		if (l && l->device != TJ_CPU)
			return refuse(c, NULL, "move it with tj_to()", "an argument", "is on another device than the CPU");
		if (!rt_push(&c->p->arg, type_of(l, sig->arg[i].kind == GD_INT))) return nomem(c);
	}
	for (const tj_scalar *s = c->a->scalars; s && s->kind != TJ_SCALAR_END; s++)
		if (!rt_push(&c->p->scalar, *s)) return nomem(c);
	return true;
}

bool jit_is_whole(jit_act *a, const char *site, const char *op)
{
	const tj_fn *f = a->fn;
	const jit_node *b = a->done.n ? a->done.v[0].boundary : NULL;
	const char *at = b ? b->site : !a->learn && a->unfit ? a->unfit : f->site, *what = NULL, *hint = NULL, *who = "the body";
	if (b) {
		who = jit_event_name(b->op);
		what = "needs a value in C, so what follows depends on code that is not in the file";
		hint = "choose with tj_where() or tj_cond(), or export the parts before and behind it";
	} else if (!a->learn) {
		what = "reads a value or leaves something beyond the call, which direct mode cannot skip";
		hint = "docs/EXPORT.md says what a body may do";
	} else if (a->retained.n || a->named.n) {
		what = "retains or names a value";
		hint = "return values in out[]";
	}
	if (what) jit_error(a->ctx, site, TJ_ERR_STATE, op, hint, "%s at %s %s", who, at ? at : "?", what);
	return !what;
}

static bool see(void *env, jit_act *a, uint32_t n, tj_tensor *const *res)
{
	capture *c = env;
	const tj_fn *f = a->fn;
	c->a = a;
	c->p->name = rt_arena_strdup(&c->p->mem, f->name);
	c->p->nout = n;
	c->p->int_div_zero = (uint8_t)f->opts.int_div_zero;
	if (!c->p->name) return nomem(c);
	if (!jit_is_whole(a, c->site, "export")) return false;
	const rt_vec(uint32_t) from = { a->learn->src.v, a->learn->src.n, 0 };
	uint32_t *of_result = rt_arena_alloc(&a->mem, (n + 1) * sizeof *of_result), v;
	if (!of_result || from.n < n) return nomem(c);
	if (n) memcpy(of_result, from.v, n * sizeof *of_result);
	for (uint32_t j = 0; j < f->nstate; j++)
		if (rt_is_number(*f->state[j])) return refuse(c, f->site, "pass it by tj_call_ex()", "a declared variable", "is a number");
		else if (!add_var(c, *f->state[j], &v)) return false;
	if (!add_arguments(c) || !add_events(c)) return false;
	for (uint32_t i = 0; i < n; i++)
		if (!add_result(c, res[i], of_result[i])) return false;
	return true;
}

jit_program *jit_capture(tj_ctx *ctx, const char *site, tj_fn *f, tj_tensor *const *in, const tj_scalar *scalars, jit_handles *of)
{
	capture c = { .p = jit_program_new(), .of = of, .site = site };
	of->n = 0;
	if (!c.p) return jit_error(ctx, site, TJ_ERR_NOMEM, "export", NULL, "out of memory"), NULL;
	const bool ok = jit_call_dry(ctx, site, f, in, scalars, see, &c) == TJ_OK;
	rt_vec_free(&c.slot);
	rt_vec_free(&c.late);
	if (ok) return c.p;
	jit_program_free(c.p);
	return NULL;
}
