/* SPDX-License-Identifier: MIT */
/* A call: find the entry, run the body, seal and run the pending events, commit, hand the outputs over. */
#include "jit/call.h"
#include "jit/event.h"
#include "jit/guard.h"
#include "jit/handle.h"
#include "jit/note.h"
#include "jit/profiling.h"
#include "jit/program.h"
#include "jit/segment.h"

enum { MARGIN = 8, MAX_DEPTH = 128, FEW_ARGS = 16 };

/* ---- arguments ---- */
static tj_status refuse(tj_ctx *c, const char *site, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(5, 6);
static tj_status refuse(tj_ctx *c, const char *site, tj_status code, const char *hint, const char *fmt, ...)
{
	rt_err e = { .code = code, .op = "call" };
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e.message, sizeof e.message, fmt, ap);
	va_end(ap);
	rt_hint(&e, "%s", hint ? hint : "");
	jit_report(c, site, &e);
	return code;
}

/* The list has nin tensors, none of them NULL. */
static tj_status check_list(tj_ctx *c, const char *site, const tj_fn *f, tj_list in)
{
	int n = 0;
	if (!in) return refuse(c, site, TJ_ERR_ARG, "pass TJ_NONE for an empty list", "%s: the list of arguments is NULL", f->name);
	for (; in[n] != TJ_END && n <= f->opts.nin; n++)
		if (!in[n]) return refuse(c, site, TJ_ERR_ARG, "a tensor was not set, or an op before it failed", "%s: argument %d is NULL", f->name, n);
	if (n == f->opts.nin) return TJ_OK;
	char hint[512] = "TJ_LIST(a, b) ends the list by itself";
	if (n > f->opts.nin)
		snprintf(hint, sizeof hint, "TJ_LIST(a, b) ends the list by itself; or raise .nin, as compiled at %.400s", f->site ? f->site : "?");
	return refuse(c, site, TJ_ERR_ARG, hint, "%s takes %d arguments, %s given", f->name, f->opts.nin,
	              n > f->opts.nin ? "more are" : "fewer are");
}

static tj_status error_of(const tj_ctx *c) { return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE; }

/* An op of the body failed. If the body has cleared the error with tj_check(), the error is reported again. */
static tj_status body_failed(tj_ctx *c, const char *site)
{
	const rt_err *e = &c->rt.last;
	if (c->rt.err.code != TJ_OK || c->rt.fetched == c->act.fetched) return error_of(c);
	return refuse(c, site, e->code,
	              "put code that may fail into a compiled function of its own: its status shows the failure, and the body may go on",
	              "an op of the body failed, and a tj_check() in the body does not make the call succeed: %s: %s: %.300s",
	              c->rt.last_site, e->op ? e->op : "?", e->message);
}

/* A new placeholder for each argument, also when one tensor is passed twice. Cells and numbers are passed as they are. For
 * direct mode seg and seq say which argument it is; in a constant they are its own. */
static tj_tensor *placeholder(jit_act *a, uint32_t i, tj_tensor *t)
{
	if (rt_is_number(t)) return a->learn ? jit_late(a, JIT_FROM(JIT_ARG, i), t) : t;
	if (t->kind == RT_CELL) return t;
	tj_tensor *h = rt_raw_handle(&a->ctx->rt, a->scope);
	if (!h) return NULL;
	*h = *t; /* no new references: t outlives the call */
	h->ctx = a->ctx;
	h->row_major = NULL;
	h->flags = (t->flags & RT_CONSTANT) | RT_BORROWED;
	if (!a->learn || h->flags & RT_CONSTANT) return h;
	h->seg = a->serial;
	h->seq = i + 1;
	return h;
}

/* ---- the activation ---- */

/* In direct mode a call that runs the body learns, unless the function was found unfit. */
static void start_learning(jit_act *a, tj_tensor *const *in)
{
	tj_fn *f = a->fn;
	jit_learn *l = &a->ctx->learn;
	a->learn = NULL;
	if (f->opts.mode != TJ_DIRECT || a->hit->deep || atomic_load_explicit(&f->follow, memory_order_relaxed)) return;
	l->state = rt_arena_alloc(&a->mem, (f->nstate + 1) * sizeof *l->state);
	if (!l->state) return;
	for (uint32_t j = 0; j < f->nstate; j++) l->state[j] = *f->state[j];
	l->in = in;
	l->expr.n = l->from.n = l->src.n = 0;
	l->ordinal = a->ctx->rt.ordinal;
	a->learn = l;
}

static tj_status begin(tj_ctx *c, jit_memo *memo, const char *site, tj_tensor *const *in, const tj_scalar *scalars, jit_hit *hit)
{
	jit_act *a = &c->act;
	a->ctx = c;
	a->fn = memo->fn;
	a->memo = memo;
	a->serial = c->rt.serial + 1;
	a->failed = a->recorded = a->broken = a->asked = false;
	a->levels = 0;
	a->ordinal = c->rt.ordinal;
	a->fetched = c->rt.fetched;
	a->depth = 0;
	a->mode = jit_mode(a->fn, 0);
	a->scalars = scalars;
	a->truth = NULL;
	a->reader = NULL;
	a->fresh = NULL;
	a->entry = NULL;
	a->learn = NULL;
	a->unfit = NULL;
	a->ext.n = a->callback.n = 0;
	a->bodies = a->floor = 0;
	a->open = NULL;
	c->active = true;
	a->scope = rt_scope_push(&c->rt, c, a->serial);
	if (!a->scope) {
		refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
		return TJ_ERR_NOMEM;
	}
	a->hit = hit;
	a->entry = hit->entry;
	start_learning(a, in);
	a->hints = !a->learn;
	jit_start_segment(a);
	atomic_store_explicit(&a->entry->stamp, a->seg, memory_order_relaxed);
	return TJ_OK;
}

/* ---- the body ---- */

static void run_body(jit_act *a, tj_fn *f, tj_tensor **out, tj_tensor *const *in) { jit_run_body(a, f->name, f->body, out, in, f->self); }

/* The output array, with a margin behind it that shows writes beyond .nout. */
static tj_tensor **make_outputs(jit_act *a, const tj_fn *f)
{
	size_t n = (size_t)f->opts.nout;
	tj_tensor **out = rt_arena_alloc(&a->mem, (n + MARGIN) * sizeof *out);
	for (size_t i = n; out && i < n + MARGIN; i++) out[i] = TJ_END;
	return out;
}

static tj_status check_outputs(tj_ctx *c, const char *site, const tj_fn *f, tj_tensor *const *out)
{
	for (int i = f->opts.nout; i < f->opts.nout + MARGIN; i++)
		if (out[i] != TJ_END)
			return refuse(c, site, TJ_ERR_LIMIT, "raise .nout", "the body of %s set out[%d], but .nout is %d", f->name, i,
			              f->opts.nout);
	for (int i = 0; i < f->opts.nout; i++)
		if (!out[i]) return refuse(c, site, TJ_ERR_ARG, "set every out[]", "the body of %s did not set out[%d]", f->name, i);
	return TJ_OK;
}

/* ---- the return ---- */
static tj_tensor *output(jit_act *a, tj_scope *to, tj_tensor *t)
{
	tj_ctx *c = a->ctx;
	const rt_layout *l = rt_is_number(t) ? NULL : t->layout;
	rt_buffer *b = l ? t->buf : NULL;
	void *data = l ? t->data : NULL;
	if (!l) return t;
	if (t->kind == RT_CELL) {
		jit_taken k = { .cell = rt_held_of(t) };
		jit_met_cell(a, &k);
		b = k.buf;
		data = k.data;
	} else {
		if (t->kind == RT_PENDING && !jit_find_value(a, t, &l, &b, &data))
			if (!jit_recover(a, t) || !jit_find_value(a, t, &l, &b, &data)) return NULL;
		rt_buffer_ref(b);
	}
	tj_tensor *h = jit_new_value(c, to, rt_layout_ref(l), b, data);
	if (h && t->kind != RT_PENDING && (t->flags & RT_CONSTANT)) {
		h->flags |= RT_CONSTANT;
		h->seg = t->seg;
	}
	return h;
}

/* Retained values get their data; they outlive the call. */
static bool fill_retained(jit_act *a)
{
	for (uint32_t i = 0; i < a->retained.n; i++) {
		tj_tensor *t = &a->retained.v[i]->t;
		const rt_layout *l;
		rt_buffer *b;
		void *data;
		if (t->kind != RT_PENDING) continue;
		if (!jit_find_value(a, t, &l, &b, &data) && (!jit_recover(a, t) || !jit_find_value(a, t, &l, &b, &data))) return false;
		t->layout = rt_layout_ref(l);
		t->buf = rt_buffer_ref(b);
		t->data = data;
		t->kind = RT_VALUE;
	}
	return true;
}

static bool deliver(jit_act *a, tj_scope *to, int n, tj_tensor *const *res, tj_tensor **out)
{
	tj_tensor **made = rt_arena_alloc(&a->mem, ((size_t)n + 1) * sizeof *made);
	if (!made) return false;
	for (int i = 0; i < n; i++)
		if (!(made[i] = output(a, to, res[i]))) return false;
	if (n) memcpy(out, made, (size_t)n * sizeof *out);
	return true;
}

static tj_status finish(jit_act *a, const char *site, int n, tj_tensor *const *out, tj_tensor **user, tj_scope *to)
{
	tj_ctx *c = a->ctx;
	rt_err err;
	rt_no_err(&err);
	tj_tensor **res = rt_arena_alloc(&a->mem, ((size_t)n + 1) * sizeof *res);
	if (!res) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	if (a->failed) return body_failed(c, site);
	if (jit_admit_all(c, site, "return", n, out, res) == JIT_POISON) return error_of(c);
	if (!jit_boundary(a, site, JIT_RETURN, n, res)) return error_of(c);
	if (a->retained.n && rt_pool_settle_all(c->rt.pool, &err) != TJ_OK) return jit_report(c, site, &err), err.code;
	if (!fill_retained(a)) return refuse(c, site, TJ_ERR_NOMEM, NULL, "a retained value could not be computed");
	/* Make the outputs before the commit swaps buffers. They have the values of after the commit: jit_admit_all() resolved the versions. */
	tj_tensor **made = rt_arena_alloc(&a->mem, ((size_t)n + 1) * sizeof *made);
	if (!made || !deliver(a, to, n, res, made)) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	jit_write *write;
	if (jit_commit_begin(a, &write, &err) == TJ_OK && RT_UNLIKELY(c->into != NULL) && !jit_into_settle(c, site, a->fn, to, made)) {
		jit_commit_drop(c, write, a->assigned.n);
		return error_of(c);
	}
	if (err.code != TJ_OK || jit_commit_end(a, write, &err) != TJ_OK) {
		jit_report(c, site, &err);
		return err.code;
	}
	if (n) memcpy(user, made, (size_t)n * sizeof *user);
	if (a->learn) jit_learn_end(a, res);
	if (!a->recorded) {
		JIT_TICK(a->memo, hits);
		JIT_TICK(a->hit, hits);
	}
	return TJ_OK;
}

/* ---- outermost call ---- */

/* TJ_TIME_GUARDS: the time of matching and of the code of the body, without boundaries. */
static void run_timed(jit_act *a, tj_tensor **out, tj_tensor *const *in)
{
	jit_memo *s = a->memo;
	a->away = 0;
	a->followed = 0;
	double start = rt_now_ms();
	run_body(a, a->fn, out, in);
	RT_DEFAULT_MODES;
	double ns = (rt_now_ms() - start) * 1e6 - a->away;
	a->followed += a->seq; /* events after the last boundary */
	if (a->recorded || a->failed) return;
	atomic_fetch_add(&s->events, a->followed);
	atomic_fetch_add(&s->event_ps, (unsigned long long)(ns * 1e3));
}

static tj_status end(tj_ctx *c, tj_status s)
{
	if (s != TJ_OK) {
		JIT_COUNT(c->act.fn, failures);
		c->rt.ordinal = c->act.ordinal; /* a failed call draws no random numbers */
	}
	jit_act_end(c);
	return s;
}

/* The events of a form in place of the body. False: an op fails at these sizes. The body must run, which may handle that; nothing of this
 * try is left. */
static bool replayed(jit_act *a, const jit_hit *form, tj_tensor **made, tj_tensor **args)
{
	tj_ctx *c = a->ctx;
	const bool clean = c->rt.err.code == TJ_OK;
	if (jit_replay(a, form, made, args) && !a->failed) {
		JIT_COUNT(a->fn, replayed);
		return true;
	}
	if (clean) rt_no_err(&c->rt.err);
	c->rt.ordinal = a->ordinal;
	const uint32_t ntaken = c->taken.n; /* the key was made of what they hold: the body must see the same */
	c->taken.n = 0;
	a->entry = NULL; /* it stays for the body, */
	a->memo = NULL;  /* and the call goes on */
	jit_act_end(c);
	c->taken.n = ntaken;
	return false;
}

/* form: NULL, or its events run in place of the body. */
static tj_status call_top(tj_ctx *c, jit_memo *memo, const char *site, tj_tensor **out, tj_tensor *const *in, const tj_scalar *scalars,
                          jit_hit *hit, const jit_hit *form)
{
	jit_act *a = &c->act;
	tj_fn *f = memo->fn;
	tj_scope *to = c->rt.scope;
	atomic_store_explicit(&memo->busy, true, memory_order_relaxed);
	if (RT_UNLIKELY(f->asked != NULL)) jit_audit_key(c, f, site, in, scalars);
	tj_status s = begin(c, memo, site, in, scalars, hit);
	a->near = a->hints ? jit_me : JIT_NOT_NEAR;
	if (s == TJ_OK) {
		tj_tensor **made = make_outputs(a, f);
		tj_tensor **args = rt_arena_alloc(&a->mem, ((size_t)f->opts.nin + 1) * sizeof *args);
		bool ok = made && args;
		for (int i = 0; ok && i < f->opts.nin; i++) ok = (args[i] = placeholder(a, (uint32_t)i, in[i])) != NULL;
		if (ok) {
			args[f->opts.nin] = TJ_END;
			if (RT_UNLIKELY(form != NULL)) {
				if (!replayed(a, form, made, args)) return call_top(c, memo, site, out, in, scalars, hit, NULL);
			} else if (RT_LIKELY(!c->engine->timed)) run_body(a, f, made, args);
			else run_timed(a, made, args);
			s = !a->failed && check_outputs(c, site, f, made) != TJ_OK ? error_of(c) : finish(a, site, f->opts.nout, made, out, to);
		} else s = refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	}
	return end(c, s);
}

/* ---- nested call: its events become part of the outer trace ---- */

/* Moves a value of the inner body to the scope of the caller. */
static tj_tensor *move_out(tj_ctx *c, tj_scope *to, tj_tensor *t)
{
	return rt_is_number(t) || t->kind == RT_CELL || t->kind == RT_LATE ? t : jit_handle_in(c, to, t);
}

/* A nested call returns values: of a cell its current version, which later assigns do not change. */
static tj_tensor *snapshot(tj_ctx *c, const char *site, tj_scope *to, tj_tensor *made, tj_tensor *now)
{
	if (rt_is_number(made) || made->kind != RT_CELL) return move_out(c, to, made);
	if (now->kind != RT_CELL) return jit_handle_in(c, to, now);
	tj_tensor *same = jit_event(site, IR_reshape, 1, &now, now->rank, now->layout->dim);
	return same->kind == RT_POISON ? NULL : move_out(c, to, same);
}

/* Sets the versions of cells back after a nested call that failed. Each is an event, so that the trace differs from that of
 * a call that succeeded. */
static void restore_versions(jit_act *a, const jit_assigned *was, uint32_t n)
{
	for (uint32_t i = 0; i < a->assigned.n && !a->failed; i++) {
		jit_assigned *now = &a->assigned.v[i];
		tj_tensor *old = i < n ? was[i].version : &now->cell->t;
		if (now->version == old) continue;
		tj_tensor *src[2] = { old, &now->cell->t };
		if (jit_step(a, a->callers.v[0].site, JIT_ASSIGN, 2, src, 0, NULL)) now->version = old;
		else a->failed = true;
	}
}

static tj_status run_nested(jit_act *a, const char *site, tj_fn *f, tj_tensor **out, tj_tensor *const *in)
{
	tj_ctx *c = a->ctx;
	tj_scope *to = c->rt.scope, *own = rt_scope_push(&c->rt, c, a->serial);
	tj_tensor **made = make_outputs(a, f), **res = rt_arena_alloc(&a->mem, ((size_t)f->opts.nout + 1) * sizeof *res);
	tj_status s = own && made && res ? TJ_OK : refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	if (s == TJ_OK) {
		run_body(a, f, made, in);
		s = a->failed ? body_failed(c, site) : check_outputs(c, site, f, made);
	}
	if (s == TJ_OK && jit_admit_all(c, site, "return", f->opts.nout, made, res) == JIT_POISON) s = error_of(c);
	for (int i = 0; s == TJ_OK && i < f->opts.nout; i++) {
		tj_tensor *h = snapshot(c, site, to, made[i], res[i]);
		if (!h) s = refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
		else res[i] = h;
	}
	while (own && c->rt.scope != to) jit_pop_scope(c);
	if (s == TJ_OK && f->opts.nout) memcpy(out, res, (size_t)f->opts.nout * sizeof *out);
	return s;
}

/* A nested call is part of the plan of the outermost call: its nodes keep their numerics, other options are those of the plan. Reported
 * once. */
static void tell_ignored(jit_act *a, const char *site, tj_fn *f)
{
	static const char hint[] = "give both functions the same .int_div_zero";
	const tj_fn *outer = a->fn;
	char text[512];
	if (atomic_exchange(&f->told, true)) return;
	snprintf(text, sizeof text,
	         "%.80s: called in the body of %.80s, it computes with the .int_div_zero of that function, not with its own; %s", f->name,
	         outer->name, hint);
	tj_reason r = jit_new_reason(f->name, "nested", site ? site : "?", hint, text);
	r.trace = (int)a->entry->number;
	jit_note(a->fn, RT_LOG_PLAN, &r);
}

static tj_status call_nested(jit_act *a, const char *site, tj_fn *f, tj_tensor **out, tj_tensor *const *in, const tj_scalar *scalars)
{
	tj_ctx *c = a->ctx;
	bool failed = a->failed;
	uint32_t nassigned = a->assigned.n;
	const tj_scalar *outer = a->scalars;
	uint8_t mode = a->mode;
	if (a->depth == MAX_DEPTH)
		return refuse(c, site, TJ_ERR_LIMIT, "recursion in bodies must end", "calls are nested more than %d deep", MAX_DEPTH);
	jit_assigned *was = rt_arena_alloc(&a->mem, (nassigned + 1) * sizeof *was);
	if (!was || !rt_push(&a->callers, ((jit_caller){ site, f }))) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	if (nassigned) memcpy(was, a->assigned.v, nassigned * sizeof *was);
	if (RT_UNLIKELY(f->opts.int_div_zero != a->fn->opts.int_div_zero)) tell_ignored(a, site, f);
	a->depth++;
	a->scalars = scalars;
	a->mode = jit_mode(f, mode);
	tj_status s = run_nested(a, site, f, out, in);
	a->mode = mode;
	a->scalars = outer;
	a->depth--;
	if (s != TJ_OK) {
		a->asked = true; /* whether it fails may depend on a size */
		a->failed = failed || a->broken; /* the caller gets the status, and may go on */
		restore_versions(a, was, nassigned);
	}
	a->callers.n--;
	return s;
}

/* ---- entry points ---- */

/* Checks that the declared variables hold tensors that may be used here. */
static tj_status check_state(tj_ctx *c, const char *site, const tj_fn *f)
{
	for (uint32_t j = 0; j < f->nstate; j++) {
		tj_tensor *in[1];
		if (!*f->state[j]) return refuse(c, site, TJ_ERR_ARG, "set the variable before the call", "%s: state variable %u holds NULL", f->name, j);
		if (jit_admit_all(c, site, "call", 1, f->state[j], in) == JIT_POISON) return error_of(c);
	}
	return TJ_OK;
}

/* TJ_AUDIT: every n-th call that could skip the body runs it. */
static bool due(tj_ctx *c, jit_memo *s)
{
	if (RT_LIKELY(!c->engine->audit)) return false;
	if (s->until_audit++ + 1 < c->engine->audit) return false;
	s->until_audit = 0;
	JIT_TICK(s, audits);
	return true;
}

/* A call under a known key: without the body if direct mode allows it. */
static tj_status call_hit(tj_ctx *c, jit_memo *memo, jit_hit *hit, tj_tensor **out, tj_list in, const tj_scalar *scalars)
{
	tj_status s;
	const char *site = atomic_load_explicit(&c->last_call, memory_order_relaxed); /* six arguments come in registers */
	if (hit->path && !atomic_load_explicit(&memo->fn->follow, memory_order_relaxed) && !due(c, memo) &&
	    jit_direct(c, memo, hit, site, in, scalars, out, &s)) return s;
	return call_top(c, memo, site, out, in, scalars, hit, jit_has_form(memo, hit) && !due(c, memo) ? memo->form : NULL);
}

static tj_status check_scalars(tj_ctx *c, const char *site, const tj_fn *f, const tj_scalar *p)
{
	int n = 0;
	for (; p && p[n].kind != TJ_SCALAR_END && n <= GD_MAX_SCALARS; n++)
		if (p[n].kind != TJ_SCALAR_F && p[n].kind != TJ_SCALAR_I)
			return refuse(c, site, TJ_ERR_ARG, "TJ_SCALARS(TJ_F(x), TJ_I(n)) makes the list and its end",
			              "%s: scalar %d has no valid kind (%d)", f->name, n, (int)p[n].kind);
	return n <= GD_MAX_SCALARS
	               ? TJ_OK
	               : refuse(c, site, TJ_ERR_LIMIT, "pass the values in a tensor", "%s: more than %d scalars", f->name, GD_MAX_SCALARS);
}

/* The handles that the arguments stand for now, in `few` if they fit there; the caller always calls free_args(). */
static tj_status admit_args(tj_ctx *c, const char *site, const tj_fn *f, tj_list in, tj_tensor **few, tj_tensor ***args)
{
	int n = f->opts.nin;
	*args = n > FEW_ARGS ? rt_alloc(((size_t)n + 1) * sizeof **args) : few;
	if (!*args) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	(*args)[n] = TJ_END;
	return jit_admit_all(c, site, "call", n, in, *args) == JIT_POISON ? error_of(c) : TJ_OK;
}

static void free_args(tj_tensor **few, tj_tensor **args)
{
	if (args != few) rt_free(args);
}

/* The call ends before its activation began. */
static void turned_away(jit_memo *memo)
{
	JIT_TICK(memo, refused);
	atomic_store_explicit(&memo->busy, false, memory_order_relaxed);
}

/* What both kinds of outermost calls refuse before they admit their arguments. */
static tj_status check_call(tj_ctx *c, const char *site, const tj_fn *f, const jit_memo *memo, tj_list in, const tj_scalar *scalars)
{
	tj_status s = memo ? check_list(c, site, f, in) : refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	if (s == TJ_OK) s = check_scalars(c, site, f, scalars);
	return s == TJ_OK && f->nstate ? check_state(c, site, f) : s;
}

typedef struct asked { const char *site; tj_fn *fn; tj_tensor **out; tj_list in; const tj_scalar *scalars; } asked;

static __attribute__((noinline)) tj_status call_outermost(tj_ctx *c, const asked *q)
{
	const char *site = q->site;
	tj_fn *f = q->fn;
	tj_list in = q->in;
	const tj_scalar *scalars = q->scalars;
	tj_tensor *few[FEW_ARGS + 1], **args;
	jit_memo *memo = jit_memo_make(c, f);
	jit_hit *hit;
	tj_status s = check_call(c, site, f, memo, in, scalars);
	if (s != TJ_OK) return s;
	JIT_TICK(memo, calls);
	atomic_store_explicit(&memo->busy, true, memory_order_relaxed); /* a new key calls .on_recompile and others, which may not free f */
	s = admit_args(c, site, f, in, few, &args);
	if (s == TJ_OK && !(hit = jit_meet(c, memo, args, scalars, site))) s = error_of(c);
	if (s == TJ_OK) s = call_hit(c, memo, hit, q->out, args, scalars);
	else turned_away(memo);
	free_args(few, args);
	return s;
}

/* ---- a call that computes nothing (capture.c) ---- */
static tj_status run_dry(tj_ctx *c, jit_memo *memo, const char *site, tj_tensor *const *in, const tj_scalar *scalars, jit_hit *hit,
                         jit_see *see, void *env)
{
	jit_act *a = &c->act;
	tj_fn *f = memo->fn;
	const size_t n = (size_t)f->opts.nout;
	tj_status s = begin(c, memo, site, in, scalars, hit);
	a->near = JIT_NOT_NEAR;
	if (s != TJ_OK) return s;
	tj_tensor **made = make_outputs(a, f), **res = rt_arena_alloc(&a->mem, (n + 1) * sizeof *res);
	tj_tensor **args = rt_arena_alloc(&a->mem, ((size_t)f->opts.nin + 1) * sizeof *args);
	bool ok = made && res && args;
	for (int i = 0; ok && i < f->opts.nin; i++) ok = (args[i] = placeholder(a, (uint32_t)i, in[i])) != NULL;
	if (!ok) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	args[f->opts.nin] = TJ_END;
	run_body(a, f, made, args);
	RT_DEFAULT_MODES;
	if (a->failed) return body_failed(c, site);
	if (check_outputs(c, site, f, made) != TJ_OK || jit_admit_all(c, site, "return", (int)n, made, res) == JIT_POISON)
		return error_of(c);
	return see(env, a, (uint32_t)n, res) ? TJ_OK : error_of(c);
}

tj_status jit_call_dry(tj_ctx *c, const char *site, tj_fn *f, tj_list in, const tj_scalar *scalars, jit_see *see, void *env)
{
	tj_tensor *few[FEW_ARGS + 1], **args;
	jit_memo *memo = jit_memo_make(c, f);
	jit_hit *hit;
	tj_status s = check_call(c, site, f, memo, in, scalars);
	if (s != TJ_OK) return s;
	if (f->nfreeze && !jit_take_frozen(c, f, in)) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	s = admit_args(c, site, f, in, few, &args);
	if (s == TJ_OK && !(hit = jit_meet(c, memo, args, scalars, site))) s = error_of(c);
	if (s == TJ_OK) {
		s = run_dry(c, memo, site, args, scalars, hit, see, env);
		c->rt.ordinal = c->act.ordinal; /* it draws no random numbers */
		jit_act_end(c);
	}
	if (c->taken.n) jit_give_back(c);
	free_args(few, args);
	return s;
}

/* ---- a call whose body is the code between two lines (between.c) ---- */
bool jit_call_open(tj_ctx *c, const char *site, tj_fn *f)
{
	tj_tensor *none[] = { TJ_END };
	jit_memo *memo = jit_memo_make(c, f);
	jit_hit *hit = NULL;
	if (!memo) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory"), false;
	JIT_TICK(memo, calls);
	atomic_store_explicit(&c->last_call, site, memory_order_relaxed);
	atomic_store_explicit(&memo->busy, true, memory_order_relaxed);
	if (!(hit = jit_same_as_last(c, memo, none, NULL)) && !(hit = jit_meet(c, memo, none, NULL, site))) {
		turned_away(memo);
		return false;
	}
	if (begin(c, memo, site, none, NULL, hit) != TJ_OK) return end(c, TJ_ERR_NOMEM), false;
	c->act.open = site;
	if (jit_watches(c)) jit_watch_begin(c, &c->open_frame, f->name);
	c->act.near = JIT_NOT_NEAR; /* another thread may take the context over between two events */
	return true;
}

tj_status jit_call_close(tj_ctx *c, const char *site, tj_tensor **keep, int n)
{
	jit_act *a = &c->act;
	const tj_status s = end(c, finish(a, site, n, keep, keep, a->scope->parent));
	if (c->open_frame.start) jit_watch_end(c, &c->open_frame);
	c->open_frame.start = 0;
	return s;
}

static tj_status call_inner(jit_act *a, const char *site, tj_fn *f, tj_tensor **out, tj_list in, const tj_scalar *scalars)
{
	tj_ctx *c = a->ctx;
	tj_tensor *few[FEW_ARGS + 1], **args;
	tj_status s = check_list(c, site, f, in);
	if (s != TJ_OK) return s;
	JIT_COUNT(f, calls);
	JIT_COUNT(f, nested);
	s = admit_args(c, site, f, in, few, &args);
	for (int i = 0; s == TJ_OK && i < f->opts.nin; i++)
		if (!rt_is_number(in[i]) && in[i]->kind == RT_LATE) args[i] = in[i]; /* a late number keeps its handle */
	if (s == TJ_OK) s = call_nested(a, site, f, out, args, scalars);
	free_args(few, args);
	return s;
}

/* An outermost call while guards are timed, or a profile runs. */
static __attribute__((noinline, cold)) tj_status call_watched(tj_ctx *c, const asked *q)
{
	rt_frame frame;
	tj_fn *f = q->fn;
	jit_memo *memo = jit_memo_of(c, f);
	const bool profiled = jit_watches(c);
	if (profiled) jit_watch_begin(c, &frame, f->name);
	jit_hit *hit = !memo              ? NULL
	               : c->engine->timed ? jit_timed_check(c, memo, q->in, q->scalars)
	                                  : jit_same_as_last(c, memo, q->in, q->scalars);
	if (hit) JIT_TICK(memo, calls);
	tj_status s = hit ? call_hit(c, memo, hit, q->out, q->in, q->scalars) : call_outermost(c, q);
	if (c->taken.n) jit_give_back(c);
	if (profiled) jit_watch_end(c, &frame);
	return s;
}

/* One that is not like the last call of its function; or any while the engine watches. */
static __attribute__((noinline, cold)) tj_status call_unlike(tj_ctx *c, const asked *q)
{
	return jit_watched(c->engine) ? call_watched(c, q) : call_outermost(c, q);
}

tj_status tj_call_ex_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in, const tj_scalar *scalars)
{
	JIT_CURRENT(c, site);
	if (RT_UNLIKELY(!c)) return TJ_ERR_STATE;
	jit_act *a = jit_active(c);
	if (RT_UNLIKELY(c->busy) && jit_refuse(c, site, "call")) return TJ_ERR_STATE;
	if (RT_UNLIKELY(!f)) return refuse(c, site, TJ_ERR_ARG, "tj_compile() failed before", "the function is NULL");
	if (RT_UNLIKELY(f->engine != c->engine))
		return refuse(c, site, TJ_ERR_FOREIGN, "call it in a context of its own engine, or compile it in this one",
		              "%s belongs to another engine", f->name);
	if (RT_UNLIKELY(!out && f->opts.nout))
		return refuse(c, site, TJ_ERR_ARG, "pass an array with room for .nout results", "%s: out is NULL", f->name);
	if (a) return call_inner(a, site, f, out, in, scalars);
	atomic_store_explicit(&c->last_call, site, memory_order_relaxed);
	if (RT_UNLIKELY(f->nfreeze) && !jit_take_frozen(c, f, in)) return refuse(c, site, TJ_ERR_NOMEM, NULL, "out of memory");
	jit_memo *memo = jit_memo_of(c, f);
	jit_hit *hit = memo && RT_LIKELY(!jit_watched(c->engine)) ? jit_same_as_last(c, memo, in, scalars) : NULL;
	if (RT_LIKELY(hit != NULL)) JIT_TICK(memo, calls);
	tj_status s = RT_LIKELY(hit != NULL) ? call_hit(c, memo, hit, out, in, scalars)
	                                     : call_unlike(c, &(const asked){ site, f, out, in, scalars });
	if (RT_UNLIKELY(c->taken.n)) jit_give_back(c);
	return s;
}

tj_status tj_call_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in) { return tj_call_ex_at(site, f, out, in, NULL); }

tj_status tj_call_into_at(const char *site, tj_fn *f, tj_tensor **out, tj_list in, const tj_scalar *scalars, const tj_into *into)
{
	JIT_CURRENT(c, site);
	int a, b;
	if (!c || jit_refuses(c, site, "call_into")) return TJ_ERR_STATE;
	if (jit_active(c) && into) {
		jit_error(c, site, TJ_ERR_STATE, "call_into", "use tj_call() there: its result is a value of the body",
		          "tj_call_into() is not allowed in a body");
		return TJ_ERR_STATE;
	}
	if (f && !jit_into_exists(into, f->opts.nout, &a)) {
		jit_error(c, site, TJ_ERR_DEVICE, "call_into", ".device says where the memory is; tj_devices() lists devices",
		          "into[%d].data is not memory of device %d, %s", a, into[a].device, rt_device_name(into[a].device));
		return TJ_ERR_DEVICE;
	}
	if (f && !jit_into_apart(into, f->opts.nout, &a, &b)) {
		jit_error(c, site, TJ_ERR_ARG, "call_into", "give each output memory of its own", "into[%d] and into[%d] overlap", a, b);
		return TJ_ERR_ARG;
	}
	c->into = into;
	tj_status s = tj_call_ex_at(site, f, out, in, scalars);
	c->into = NULL;
	return s;
}

/* Reports that the function does not have exactly one output. */
static __attribute__((noinline)) void not_one(const char *site, const tj_fn *f)
{
	JIT_CURRENT(c, site);
	if (c)
		refuse(c, site, TJ_ERR_ARG, "tj_call() returns any number of outputs", "%s has %d outputs, tj_call1() needs exactly one",
		       f->name, f->opts.nout);
}

tj_tensor *tj_call1_at(const char *site, tj_fn *f, tj_list in)
{
	tj_tensor *out = NULL;
	tj_ctx *c = jit_thread_ctx;
	if (RT_UNLIKELY(f && f->opts.nout != 1)) not_one(site, f);
	else if (RT_LIKELY(tj_call_ex_at(site, f, &out, in, NULL) == TJ_OK)) return out;
	return c ? &c->rt.poison : jit_no_context(site, "call");
}

/* ---- scalars of the call ---- */
static const tj_scalar *scalar(tj_ctx *c, const char *site, int k, tj_scalar_kind kind)
{
	if (jit_refuses(c, site, kind == TJ_SCALAR_I ? "arg_i" : "arg_f")) return NULL;
	jit_act *a = jit_active(c);
	int i = 0;
	const tj_scalar *s = a ? a->scalars : NULL;
	for (; s && s[i].kind != TJ_SCALAR_END; i++)
		if (i == k && s[i].kind == kind) return &s[i];
	jit_error(c, site, TJ_ERR_ARG, kind == TJ_SCALAR_I ? "arg_i" : "arg_f", "pass it with tj_call_ex() and TJ_SCALARS(TJ_F(x), TJ_I(n))",
	          "the running call has no %s scalar %d", kind == TJ_SCALAR_I ? "int" : "float", k);
	return NULL;
}

tj_tensor *tj_arg_f_at(const char *site, int k)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, "arg_f");
	const tj_scalar *s = scalar(c, site, k, TJ_SCALAR_F);
	if (!s) return &c->rt.poison;
	jit_act *a = &c->act;
	return a->learn && !a->depth ? jit_late(a, JIT_FROM(JIT_SCALAR, k), rt_number_f(s->f)) : rt_number_f(s->f);
}

int64_t tj_arg_i_at(const char *site, int k)
{
	JIT_CURRENT(c, site);
	const tj_scalar *s = c ? scalar(c, site, k, TJ_SCALAR_I) : NULL;
	return s ? s->i : 0;
}
