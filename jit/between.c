/* SPDX-License-Identifier: MIT */
/* A trace of the code between two lines: tj_trace_begin() opens a call of a function that has no body, tj_trace_end() ends it. Each line
 * that begins has a function of its own, so what it traced is found again. */
#include "jit/call.h"
#include "jit/callback.h"
#include "jit/outside.h"

enum { MAX_LINES = 64 };

typedef struct jit_between { const char *site; tj_fn *fn; uint64_t used; } jit_between;

static void no_body(tj_tensor **out, tj_tensor *const *in, void *self) { (void)out, (void)in, (void)self; }

void jit_between_free(tj_ctx *c)
{
	for (uint32_t i = 0; i < c->between.n; i++) {
		jit_fn_free(c->between.v[i]->fn);
		rt_free(c->between.v[i]);
	}
	rt_vec_free(&c->between);
}

/* A free place, that of the line which was used longest ago if there are many. */
static jit_between *place(tj_ctx *c)
{
	if (c->between.n < MAX_LINES) {
		jit_between *l = rt_calloc(sizeof *l);
		if (l && rt_push(&c->between, l)) return l;
		rt_free(l);
		return NULL;
	}
	jit_between *oldest = c->between.v[0];
	for (uint32_t i = 1; i < c->between.n; i++)
		if (c->between.v[i]->used < oldest->used) oldest = c->between.v[i];
	if (oldest->fn) jit_fn_free(oldest->fn);
	oldest->fn = NULL;
	return oldest;
}

/* The options that say how ops are computed; the rest is about bodies and arguments. */
static tj_fn *make(tj_ctx *c, const char *site, const tj_compile_opts *opts)
{
	JIT_OPTIONS(tj_compile_opts, o, opts);
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "trace_begin", JIT_SIZES, o.size), NULL;
	o.size = sizeof o;
	if (!o.name) o.name = "trace";
	o.nin = o.nout = 0;
	o.mode = TJ_VERIFY;
	o.shapes = NULL;
	o.state = o.freeze = NULL;
	return tj_compile_at(site, c, no_body, NULL, &o);
}

static jit_between *find(tj_ctx *c, const char *site, const tj_compile_opts *opts)
{
	for (uint32_t i = 0; i < c->between.n; i++)
		if (c->between.v[i]->fn && (c->between.v[i]->site == site || !strcmp(c->between.v[i]->site, site))) return c->between.v[i];
	tj_fn *f = make(c, site, opts);
	jit_between *l = f ? place(c) : NULL;
	if (l) {
		*l = (jit_between){ site, f, 0 };
		f->of_line = true;
	}
	else if (f) {
		jit_fn_free(f);
		jit_error(c, site, TJ_ERR_NOMEM, "trace_begin", NULL, "out of memory");
	}
	return l;
}

tj_fn *tj_trace_begin_at(const char *site, tj_ctx *c, const tj_compile_opts *opts)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "trace_begin")) return NULL;
	jit_act *a = jit_active(c);
	if (a && a->open && !a->callers.n && !a->callback.n && !strcmp(a->open, site)) { /* the line runs again: its trace was left */
		jit_error(c, site, TJ_ERR_BODY, "trace_begin", "end each trace with tj_trace_end()",
		          "the trace of this line was left without tj_trace_end(), and is dropped");
		JIT_COUNT(a->fn, failures);
		jit_act_end(c);
	} else if (a) {
		jit_error(c, site, TJ_ERR_STATE, "trace_begin", c->act.open ? "call tj_trace_end() first" : "a body is traced anyway",
		          c->act.open ? "a trace is open since %s" : "a body runs", c->act.open);
		return NULL;
	}
	jit_between *l = find(c, site, opts);
	if (!l) return NULL;
	l->used = ++c->rt.serial;
	return jit_call_open(c, site, l->fn) ? l->fn : NULL;
}

tj_status tj_trace_end_at(const char *site, tj_ctx *c, tj_tensor **keep, int n)
{
	JIT_COME_IN(in, c, site);
	if (!in || jit_refuses(c, site, "trace_end")) return TJ_ERR_STATE;
	jit_act *a = jit_active(c);
	tj_status s = TJ_ERR_STATE;
	if (!a || !a->open || a->callers.n || a->callback.n)
		jit_error(c, site, s, "trace_end", "tj_trace_begin() opens one, in the same body or callback", "no trace is open here");
	else if (n < 0 || (n && !keep)) {
		jit_error(c, site, s = TJ_ERR_ARG, "trace_end", "pass NULL and 0 to keep none", "keep is NULL, or n is negative");
		jit_act_end(c);
		return s;
	} else s = jit_call_close(c, site, keep, n);
	return s == TJ_OK ? s : (jit_spoil(c, keep, n), s);
}
