/* SPDX-License-Identifier: MIT */
/* User code between the trace and the back end: passes over the graph, and back ends of the user. */
#include "ir/edit.h"
#include "jit/claim.h"
#include "jit/compile.h"

tj_status tj_add_pass(tj_ctx *c, const tj_pass *pass)
{
	if (!c || jit_refuses(c, "tj_add_pass", "add_pass")) return TJ_ERR_STATE;
	if (!pass || !pass->run) {
		jit_error(c, NULL, TJ_ERR_ARG, "add_pass", NULL, "the pass has no function");
		return TJ_ERR_ARG;
	}
	rt_lock(&c->engine->rt.lock);
	bool ok = rt_push(&c->engine->pass, *pass);
	rt_unlock(&c->engine->rt.lock);
	return ok ? TJ_OK : TJ_ERR_NOMEM;
}

/* ---- one callback: the graph becomes a list, is changed, and becomes a graph ---- */
typedef struct user { /* a pass, or a back end */
	tj_fn *f;
	const jit_derived *grads;
	const char *name;
	tj_pass_fn *pass;
	tj_backend_fn *backend;
	void *self;
	tj_compiled *compiled;
} user;

/* An unknown status is a failure. */
static tj_status known(tj_status s) { return (unsigned)s < TJ_STATUS_COUNT ? s : TJ_ERR_COMPILE; }

static tj_status call_user(const user *u, tj_graph *g)
{
	JIT_CALLS_BACK;
	return known(u->pass ? u->pass(g, u->self) : u->backend(u->self, g, u->compiled));
}

static const char *kind(const user *u) { return u->pass ? "pass" : "back end"; }

static bool refuse(const tj_fn *f, const jit_derived *grads, const char *what, rt_err *err)
{
	rt_fail(err, TJ_ERR_COMPILE, "grad", "%s changed %s", f->changed, what);
	rt_hint(err, "if they differ by rounding alone, tj_graph_keeps_values() says so in the callback; else compile the function without it");
	err->site = grads->site;
	return false;
}

/* Gradients are nodes, made by the rules of the ops that the body asked for: they are right if values stay what they were. */
static bool keeps(const user *u, const tj_graph *g, rt_err *err)
{
	if (!g->changed || g->keeps_values) return true;
	snprintf(u->f->changed, sizeof u->f->changed, "%s %s", kind(u), u->name);
	return !u->grads->site || refuse(u->f, u->grads, "values of a graph with gradients", err);
}

static tj_status run_user(const user *u, const ir_graph *from, ir_graph *to, rt_err *err)
{
	tj_graph g;
	tj_status s = ir_edit_begin(&g, from) ? TJ_OK : TJ_ERR_NOMEM;
	if (s == TJ_OK) s = call_user(u, &g);
	if (s != TJ_OK && g.err.code == TJ_OK) rt_fail(&g.err, s, "pass", "it returned: %s", tj_strerror(s));
	if (g.err.code == TJ_OK && !(u->compiled && u->compiled->run)) ir_edit_end(&g, to);
	s = g.err.code;
	if (s != TJ_OK) {
		rt_fail(err, TJ_ERR_COMPILE, "compile", "%s %s: %s: %s", kind(u), u->name, g.err.op ? g.err.op : "", g.err.message);
		rt_hint(err, "%s", g.err.hint);
	} else if (!keeps(u, &g, err)) s = TJ_ERR_COMPILE;
	ir_edit_free(&g);
	return s;
}

/* Replaces *g by the result of the callback. */
static bool apply(const user *u, ir_graph *g, rt_err *err)
{
	ir_graph to;
	ir_graph_init(&to);
	bool ok = run_user(u, g, &to, err) == TJ_OK;
	if (ok && !(u->compiled && u->compiled->run)) {
		ir_graph_free(g);
		*g = to;
	} else ir_graph_free(&to);
	return ok;
}

static bool run_passes(tj_fn *f, const jit_derived *grads, ir_graph *g, rt_err *err)
{
	jit_engine *e = f->engine;
	rt_lock(&e->rt.lock);
	uint32_t n = e->pass.n;
	rt_unlock(&e->rt.lock);
	for (uint32_t i = 0; i < n + f->npass; i++) {
		rt_lock(&e->rt.lock);
		const tj_pass p = i < n ? e->pass.v[i] : f->pass[i - n];
		rt_unlock(&e->rt.lock);
		if (!apply(&(user){ .f = f, .grads = grads, .name = p.name ? p.name : "?", .pass = p.run, .self = p.self }, g, err)) return false;
	}
	return true;
}

/* ---- a back end of the user ---- */
typedef struct hooked { rt_exec exec; tj_compiled user; char name[64]; } hooked;

static tj_status run_hooked(const rt_exec *x, rt_run *r)
{
	const hooked *h = (const hooked *)x;
	const tj_run run = { r->ext, r->num, r->out };
	JIT_CALLS_BACK;
	tj_status s = known(h->user.run(h->user.env, &run));
	return s == TJ_OK ? s : rt_fail(r->err, s, "call", "the back end of %s failed: %s", h->name, tj_strerror(s));
}

static void print_hooked(const rt_exec *x, rt_text *t, tj_dump_what what)
{
	if (what == TJ_DUMP_PLAN) rt_putf(t, "plan: a back end of the program, given to %s\n", ((const hooked *)x)->name);
}

static void free_hooked(rt_exec *x)
{
	hooked *h = (hooked *)x;
	JIT_CALLS_BACK;
	if (h->user.free) h->user.free(h->user.env);
	rt_free(x->out);
	rt_free(h);
}

static rt_exec *wrap(tj_fn *f, const tj_compiled *c, uint32_t nout)
{
	hooked *h = rt_calloc(sizeof *h);
	rt_out *out = rt_calloc((nout + 1) * sizeof *out);
	if (!h || !out) {
		rt_free(h);
		rt_free(out);
		JIT_CALLS_BACK;
		if (c->free) c->free(c->env);
		return NULL;
	}
	for (uint32_t i = 0; i < nout; i++) out[i].alias_ext = out[i].same_ext = -1;
	h->exec = (rt_exec){ .refs = 1, .nout = (int)nout, .out = out, .run = run_hooked, .print = print_hooked, .destroy = free_hooked };
	h->user = *c;
	snprintf(h->name, sizeof h->name, "%s", f->name);
	return &h->exec;
}

static bool hook(tj_fn *f, const jit_derived *grads, ir_graph *g, rt_exec **x, rt_err *err)
{
	tj_compiled c = { 0 };
	if (!f->opts.backend || lo_on_devices(g)) return true; /* it computes with memory of the host */
	if (!apply(&(user){ .f = f,
	                    .grads = grads,
	                    .name = f->name,
	                    .backend = f->opts.backend,
	                    .self = f->opts.backend_self,
	                    .compiled = &c },
	           g, err))
		return false;
	if (!c.run) return true; /* the back end of the user did not take the graph */
	*x = wrap(f, &c, g->out.n);
	if (!*x) rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory");
	return *x != NULL;
}

bool jit_run_user(tj_fn *f, const jit_derived *grads, ir_graph *g, rt_exec **x, rt_err *err)
{
	*x = NULL;
	if (grads->site && grads->earlier && *f->changed) return refuse(f, grads, "values of earlier segments, of which there are gradients", err);
	return run_passes(f, grads, g, err) && hook(f, grads, g, x, err);
}
