/* SPDX-License-Identifier: MIT */
/* Control flow: the entry points. Outside of compiled functions the op becomes the body of its own compiled function, one for each set of
 * callbacks. */
#include "jit/call.h"
#include "jit/callback.h"
#include "jit/outside.h"

enum { MAX_OUTSIDE = 64 };

typedef struct jit_outside {
	jit_flow key, now;        /* key: the call that it was made for. now: the running call */
	const char *site;
	tj_fn *fn;
	uint64_t used;
} jit_outside;

/* In a body; the activation of c runs. */
static tj_status run_inside(tj_ctx *c, const char *site, const jit_flow *q)
{
	const jit_op w = { c, &c->act, site, q->op, q->self };
	const bool ok = !c->act.failed && (q->op == JIT_VMAP         ? jit_vmap(&w, q)
	                                   : q->op == JIT_CUSTOM     ? jit_custom(&w, q)
	                                   : q->op == JIT_CHECKPOINT ? jit_checkpoint(&w, q)
	                                                             : jit_control(&w, q));
	if (ok) return TJ_OK;
	jit_spoil(c, q->out, q->nout);
	return jit_spoil(c, q->ys, q->nys);
}

/* in: the operands. out: all results in one list. */
static void outside_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	jit_outside *o = self;
	jit_flow q = o->now;
	tj_ctx *c = jit_thread_ctx;
	tj_tensor **list = rt_arena_alloc(&c->act.mem, ((size_t)q.nin + 1) * sizeof *list);
	if (!list) {
		jit_spoil(c, out, q.nout + q.nys);
		return;
	}
	memcpy(list, in, (size_t)q.nin * sizeof *list);
	list[q.nin] = TJ_END;
	q.in = list;
	q.xs = in + q.nin;
	q.out = out;
	q.ys = out + q.nout;
	run_inside(c, o->site, &q);
}

static bool same_key(const jit_flow *x, const jit_flow *y)
{
	return x->op == y->op && x->f[0] == y->f[0] && x->f[1] == y->f[1] && x->nin == y->nin && x->nxs == y->nxs && x->nout == y->nout &&
	       x->nys == y->nys;
}

static void drop_outside(jit_outside *o)
{
	jit_fn_free(o->fn);
	rt_free(o);
}

void jit_outside_free(tj_ctx *c)
{
	for (uint32_t i = 0; i < c->outside.n; i++) drop_outside(c->outside.v[i]);
	rt_vec_free(&c->outside);
}

static void make_room(tj_ctx *c)
{
	uint32_t oldest = 0;
	if (c->outside.n < MAX_OUTSIDE) return;
	for (uint32_t i = 1; i < c->outside.n; i++)
		if (c->outside.v[i]->used < c->outside.v[oldest]->used) oldest = i;
	drop_outside(c->outside.v[oldest]);
	c->outside.v[oldest] = c->outside.v[--c->outside.n];
}

static jit_outside *find_outside(tj_ctx *c, const char *site, const jit_flow *q)
{
	for (uint32_t i = 0; i < c->outside.n; i++)
		if (same_key(&c->outside.v[i]->key, q)) return c->outside.v[i];
	make_room(c);
	jit_outside *o = rt_calloc(sizeof *o);
	if (!o || !rt_reserve(&c->outside, 1)) {
		rt_free(o);
		return NULL;
	}
	o->key = *q;
	o->fn = tj_compile_at(site, c, outside_body, o,
	                      TJ_OPTS(tj_compile_opts, .name = jit_flow_name(q->op), .nin = q->nin + q->nxs, .nout = q->nout + q->nys));
	if (!o->fn) {
		rt_free(o);
		return NULL;
	}
	o->fn->of_op = true;
	return c->outside.v[c->outside.n++] = o;
}

static tj_status run_outside(tj_ctx *c, const char *site, const jit_flow *q)
{
	rt_arena mem = { 0 };
	size_t nin = (size_t)(q->nin + q->nxs), nout = (size_t)(q->nout + q->nys);
	jit_outside *o = find_outside(c, site, q);
	tj_tensor **in = rt_arena_alloc(&mem, (nin + 1) * sizeof *in), **out = rt_arena_alloc(&mem, (nout + 1) * sizeof *out);
	tj_status s = TJ_ERR_NOMEM;
	if (!o || !in || !out) jit_error(c, site, s, jit_flow_name(q->op), NULL, "out of memory");
	else {
		if (q->nin) memcpy(in, q->in, (size_t)q->nin * sizeof *in);
		if (q->nxs) memcpy(in + q->nin, q->xs, (size_t)q->nxs * sizeof *in);
		in[nin] = TJ_END;
		o->now = *q;
		o->site = site;
		o->used = ++c->rt.serial;
		s = tj_call_at(site, o->fn, out, in);
	}
	if (s == TJ_OK) {
		if (q->nout) memcpy(q->out, out, (size_t)q->nout * sizeof *out);
		if (q->nys) memcpy(q->ys, out + q->nout, (size_t)q->nys * sizeof *out);
	} else {
		jit_spoil(c, q->out, q->nout);
		jit_spoil(c, q->ys, q->nys);
	}
	rt_arena_free(&mem);
	return s;
}

/* ---- entry points ---- */
static tj_status spoiled(tj_ctx *c, const jit_flow *q)
{
	jit_spoil(c, q->out, q->nout > 0 ? q->nout : 0);
	return jit_spoil(c, q->ys, q->nys > 0 ? q->nys : 0);
}

static tj_status refuse(tj_ctx *c, const char *site, const jit_flow *q, const char *hint, const char *what)
{
	jit_error(c, site, TJ_ERR_ARG, jit_flow_name(q->op), hint, "%s", what);
	return spoiled(c, q);
}

static tj_status go(const char *site, jit_flow *q)
{
	JIT_CURRENT(c, site);
	if (!c) return TJ_ERR_STATE;
	if (jit_refuses(c, site, jit_flow_name(q->op))) return spoiled(c, q);
	jit_act *a = jit_active(c);
	if (!q->f[0] || ((q->op == IR_cond || q->op == IR_while || q->op == JIT_CUSTOM) && !q->f[1]))
		return refuse(c, site, q, "pass a function for each callback", "a callback is NULL");
	if (!q->in || !q->xs) return refuse(c, site, q, "pass TJ_NONE for an empty list", "a list is NULL");
	if (q->nout < 0 || q->nys < 0 || q->nout + q->nys < 1)
		return refuse(c, site, q, q->op < IR_OP_COUNT ? "give it at least one carry or output" : "give it at least one result",
		              "it has no results");
	if (q->nin + q->nxs + q->nout + q->nys > UINT16_MAX / 4)
		return refuse(c, site, q, "TJ_LIST(a, b) ends the list by itself", "too many operands or results");
	if ((q->nout && !q->out) || (q->nys && !q->ys))
		return refuse(c, site, q, "pass an array with room for all results", "the array for the results is NULL");
	if (jit_odd_size(q->size)) {
		jit_error(c, site, TJ_ERR_ARG, jit_flow_name(q->op), JIT_SIZES, q->size);
		return spoiled(c, q);
	}
	if (q->turns < 0) return refuse(c, site, q, NULL, q->op == IR_while ? ".max_turns is negative" : ".length is negative");
	return a ? run_inside(c, site, q) : run_outside(c, site, q);
}

tj_status tj_cond_at(const char *site, tj_tensor **out, int nout, tj_tensor *pred, tj_body *then_, tj_body *else_, tj_list in, void *self)
{
	int n = jit_length(in);
	tj_tensor *few[17], **list = n < 16 ? few : rt_alloc(((size_t)n + 2) * sizeof *list);
	JIT_CURRENT(c, site);
	if (!list) return c ? (jit_error(c, site, TJ_ERR_NOMEM, "cond", NULL, "out of memory"), jit_spoil(c, out, nout)) : TJ_ERR_NOMEM;
	list[0] = pred;
	if (n) memcpy(list + 1, in, (size_t)n * sizeof *list);
	list[n + 1] = TJ_END;
	tj_status s = go(site, &(jit_flow){ .op = IR_cond,
	                                    .f = { then_, else_ },
	                                    .self = self,
	                                    .in = in ? list : NULL,
	                                    .xs = TJ_NONE,
	                                    .nin = n + 1,
	                                    .nout = nout,
	                                    .out = out });
	if (list != few) rt_free(list);
	return s;
}

tj_status tj_while_at(const char *site, tj_tensor **out, tj_body *cond_, tj_body *body, tj_list init, void *self, const tj_while_opts *opts)
{
	JIT_OPTIONS(tj_while_opts, o, opts);
	int n = jit_length(init);
	return go(site, &(jit_flow){ .op = IR_while,
	                             .f = { cond_, body },
	                             .self = self,
	                             .in = init,
	                             .xs = TJ_NONE,
	                             .nin = n,
	                             .nout = n,
	                             .turns = o.max_turns,
	                             .size = o.size,
	                             .out = out });
}

tj_status tj_scan_at(const char *site, tj_tensor **carry, tj_tensor **ys, int nys, tj_body *body, tj_list init, tj_list xs, void *self,
                     const tj_scan_opts *opts)
{
	JIT_OPTIONS(tj_scan_opts, o, opts);
	int n = jit_length(init);
	return go(site, &(jit_flow){ .op = IR_scan,
	                             .f = { body, NULL },
	                             .self = self,
	                             .in = init,
	                             .xs = xs,
	                             .nin = n,
	                             .nxs = jit_length(xs),
	                             .nout = n,
	                             .nys = nys,
	                             .turns = o.length,
	                             .size = o.size,
	                             .reverse = o.reverse,
	                             .out = carry,
	                             .ys = ys });
}

tj_status tj_vmap_at(const char *site, tj_tensor **out, int nout, tj_body *body, tj_list in, void *self, const tj_vmap_opts *opts)
{
	JIT_OPTIONS(tj_vmap_opts, o, opts);
	return go(site, &(jit_flow){ .op = JIT_VMAP,
	                             .f = { body, NULL },
	                             .self = self,
	                             .in = in,
	                             .xs = TJ_NONE,
	                             .nin = jit_length(in),
	                             .nout = nout,
	                             .out = out,
	                             .in_axes = o.in_axes,
	                             .out_axes = o.out_axes,
	                             .size = o.size });
}

tj_status tj_custom_grad_at(const char *site, tj_tensor **out, int nout, tj_body *forward, tj_body *backward, tj_list in, void *self)
{
	return go(site, &(jit_flow){ .op = JIT_CUSTOM,
	                             .f = { forward, backward },
	                             .self = self,
	                             .in = in,
	                             .xs = TJ_NONE,
	                             .nin = jit_length(in),
	                             .nout = nout,
	                             .out = out });
}

tj_status tj_checkpoint_at(const char *site, tj_tensor **out, int nout, tj_body *body, tj_list in, void *self)
{
	return go(site, &(jit_flow){ .op = JIT_CHECKPOINT,
	                             .f = { body, NULL },
	                             .self = self,
	                             .in = in,
	                             .xs = TJ_NONE,
	                             .nin = jit_length(in),
	                             .nout = nout,
	                             .out = out });
}
