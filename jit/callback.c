/* SPDX-License-Identifier: MIT */
/* Control flow in a compiled function: tj_cond, tj_while, tj_scan. Callbacks are traced like the body: each runs once per call of the op,
 * on placeholders. Its events are part of the trace, so its captures are guarded.
 *
 *   COND operands | CALLBACK PARAM... events YIELD outs | CALLBACK ... YIELD | get get ...
 *
 * transform.c has tj_vmap(), tj_custom_grad() and tj_checkpoint(), whose callbacks are traced in the same way. outside.c has the entry
 * points, and the op outside of compiled functions. */
#include "jit/call.h"
#include "jit/callback.h"
#include "jit/event.h"
#include "jit/handle.h"

enum { MARGIN = 8, MAX_NEST = 32 };

static const char *public_name(int op)
{
	return op == JIT_VMAP         ? "tj_vmap"
	       : op == JIT_CUSTOM     ? "tj_custom_grad"
	       : op == JIT_CHECKPOINT ? "tj_checkpoint"
	       : op == IR_cond        ? "tj_cond"
	       : op == IR_while       ? "tj_while"
	                              : "tj_scan";
}

/* ---- errors ---- */

bool jit_op_fail(const jit_op *w, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(w->c, w->site, code, jit_flow_name(w->op), hint, fmt, ap);
	va_end(ap);
	return false;
}

bool jit_op_nomem(const jit_op *w) { return jit_op_fail(w, TJ_ERR_NOMEM, NULL, "out of memory"); }

const char *jit_op_site(const jit_op *w, const tj_tensor *t)
{
	for (const jit_node *n = w->a->cursor; t->kind == RT_PENDING && t->seg == w->a->seg && n->parent; n = n->parent)
		if (n->seq == t->seq) return n->site ? n->site : "?";
	return w->site ? w->site : "?";
}

/* ---- lists ---- */

bool jit_op_admit(const jit_op *w, tj_list list, int n, tj_tensor ***out)
{
	*out = rt_arena_alloc(&w->a->mem, ((size_t)n + 1) * sizeof **out);
	if (!*out) return jit_op_nomem(w);
	if (jit_admit_all(w->c, w->site, jit_flow_name(w->op), n, list, *out) == JIT_POISON) return false;
	for (int i = 0; i < n; i++)
		if (!rt_is_number(list[i]) && list[i]->kind == RT_LATE) (*out)[i] = list[i];
	return true;
}

/* ---- events ---- */
bool jit_op_step(const jit_op *w, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	return jit_step(w->a, w->site, op, nsrc, src, nattr, attr) != NULL;
}

/* An argument of a callback (PARAM), or a result of control flow (IR_get). */
static tj_tensor *typed(const jit_op *w, int op, int64_t which, const ir_meta *m)
{
	return jit_typed(w->a, w->site, jit_flow_name(w->op), op, which, m);
}

static tj_tensor *cast(const jit_op *w, tj_tensor *t, tj_dtype dtype)
{
	int64_t attr = dtype;
	return jit_event(w->site, IR_cast, 1, &t, 1, &attr);
}

/* Turns a number into a 0-d tensor on the device of `like` or of the engine: f32 or i64, or the dtype of `like` if its kind can hold the
 * number. */
static tj_tensor *box(const jit_op *w, tj_tensor *t, const ir_meta *like)
{
	const tj_tensor *n = rt_is_number(t) ? t : (tj_tensor *)(uintptr_t)t->seg;
	tj_dtype own = rt_is_int_number(n) ? TJ_I64 : TJ_F32;
	bool fits = like && !like->rank && rt_dtype_cat((tj_dtype)like->dtype) >= rt_dtype_cat(own);
	const int64_t device = like ? like->device : w->a->ctx->engine->device;
	t = cast(w, t, fits ? (tj_dtype)like->dtype : own);
	return device == TJ_CPU || t->kind == RT_POISON ? t : jit_event(w->site, IR_to, 1, &t, 1, &device);
}

/* Casts a value that tj_truth() accepts to a 0-d bool tensor. */
static tj_tensor *truth(const jit_op *w, tj_tensor *t)
{
	if (!jit_is_number(t) && t->layout->numel != 1) {
		char type[160];
		const ir_meta m = jit_meta(t);
		jit_put_type(type, sizeof type, &m);
		jit_op_fail(w, TJ_ERR_SHAPE, "reduce it with tj_any() or tj_all()",
		            "the condition must have one element, but it is %s (%s)", type, jit_op_site(w, t));
		return NULL;
	}
	if (jit_is_number(t) || t->dtype != TJ_BOOL) t = cast(w, t, TJ_BOOL);
	if (t->kind != RT_POISON && t->rank) t = jit_event(w->site, IR_reshape, 1, &t, 0, NULL);
	return t->kind == RT_POISON ? NULL : t;
}

/* ---- callbacks ---- */

static bool enter(const jit_op *w, int which)
{
	jit_act *a = w->a;
	if (a->callback.n == MAX_NEST)
		return jit_op_fail(w, TJ_ERR_LIMIT, "recursion in callbacks must end", "callbacks are nested more than %d deep", MAX_NEST);
	if (!rt_reserve(&a->callback, 1) || !rt_reserve(&a->closed, 1)) return jit_op_nomem(w);
	tj_scope *s = rt_scope_push(&w->c->rt, w->c, a->serial);
	if (!s) return jit_op_nomem(w);
	a->callback.v[a->callback.n++] = (jit_callback){
		s, public_name(w->op), w->site, a->seq, w->op < IR_OP_COUNT, w->op == JIT_CUSTOM && which == 1, w->op == JIT_CHECKPOINT
	};
	return true;
}

/* Closes the scopes that the callback left open; its values may not be used from here on. */
static void leave(const jit_op *w)
{
	jit_act *a = w->a;
	const jit_callback k = a->callback.v[--a->callback.n];
	for (bool last = false; !last;) {
		last = w->c->rt.scope == k.scope;
		jit_pop_scope(w->c);
	}
	while (a->closed.n && a->closed.v[a->closed.n - 1].first >= k.first) a->closed.n--;
	if (!rt_push(&a->closed, ((jit_span){ k.first, a->seq }))) a->failed = a->broken = true;
}

static bool arguments(const jit_op *w, const jit_inside *k, tj_tensor **in)
{
	int64_t slot = 0;
	for (int i = 0; i < k->nin; i++) {
		in[i] = k->like[i];
		if (jit_is_number(in[i]) || (k->captured && k->captured[i])) continue; /* passed as it is, without a PARAM */
		ir_meta m = k->type && i >= k->nplain ? k->type[i - k->nplain] : jit_meta(in[i]);
		if (!k->type && i >= k->nplain) memmove(m.dim, m.dim + 1, sizeof *m.dim * --m.rank);
		if (!(in[i] = typed(w, JIT_PARAM, slot++, &m))) return false;
	}
	in[k->nin] = TJ_END;
	return true;
}

static const char *callback_name(const jit_op *w, int which)
{
	return w->op == JIT_VMAP || w->op == JIT_CHECKPOINT ? "body"
	       : w->op == JIT_CUSTOM                        ? (which ? "backward" : "forward")
	                                                    : ir_flow_info(w->op)->region[which];
}

static bool results(const jit_op *w, const jit_inside *k, tj_tensor **made)
{
	for (int i = k->nout; i < k->nout + MARGIN; i++)
		if (made[i] != TJ_END)
			return jit_op_fail(w, TJ_ERR_LIMIT, "set only the results that the call asks for",
			                   "the callback `%s` set out[%d], but it has %d results", callback_name(w, k->which), i, k->nout);
	for (int i = 0; i < k->nout; i++)
		if (!made[i])
			return jit_op_fail(w, TJ_ERR_ARG, "set every out[]", "the callback `%s` did not set out[%d]",
			                   callback_name(w, k->which), i);
	if (jit_admit_all(w->c, w->site, jit_flow_name(w->op), k->nout, made, k->out) == JIT_POISON) return false;
	for (int i = 0; i < k->nout; i++) {
		if (jit_is_number(made[i])) k->out[i] = box(w, made[i], i < k->nwant ? &k->want[i] : NULL);
		if (k->out[i]->kind == RT_POISON) return false;
	}
	return true;
}

static __attribute__((noinline)) bool run_callback(const jit_op *w, jit_inside *k, bool (*check)(const jit_op *w, jit_inside *k, void *env),
                                                   void *env)
{
	jit_act *a = w->a;
	tj_tensor **in = rt_arena_alloc(&a->mem, ((size_t)k->nin + 1) * sizeof *in);
	tj_tensor **made = rt_arena_alloc(&a->mem, ((size_t)k->nout + MARGIN) * sizeof *made);
	k->out = rt_arena_alloc(&a->mem, ((size_t)k->nout + 1) * sizeof *k->out);
	if (!in || !made || !k->out) return jit_op_nomem(w);
	for (int i = k->nout; i < k->nout + MARGIN; i++) made[i] = TJ_END;
	if (!arguments(w, k, in)) return false;
	jit_run_body(a, jit_flow_name(w->op), k->f, made, in, w->self);
	return !a->failed && results(w, k, made) && check(w, k, env) && jit_op_step(w, JIT_YIELD, k->nout, k->out, 0, NULL);
}

bool jit_op_trace(const jit_op *w, jit_inside *k, bool (*check)(const jit_op *w, jit_inside *k, void *env), void *env)
{
	jit_act *a = w->a;
	if (!enter(w, k->which)) return false;
	bool ok = rt_push(&a->callers, ((jit_caller){ w->site, NULL })) || jit_op_nomem(w);
	if (ok) {
		ok = jit_op_step(w, JIT_CALLBACK, 0, NULL, 1, (int64_t[]){ k->which }) && run_callback(w, k, check, env);
		a->callers.n--;
	}
	leave(w);
	if (!ok) a->failed = a->broken = true; /* the trace has a CALLBACK without a YIELD */
	return ok;
}

/* Copies the tensors of a list; numbers are no operands. */
static int tensors(tj_tensor *const *list, int n, tj_tensor **out)
{
	int count = 0;
	for (int i = 0; i < n; i++)
		if (!jit_is_number(list[i])) out[count++] = list[i];
	return count;
}

bool jit_op_give(const jit_op *w, int first, int n, const ir_meta *type, tj_tensor **out)
{
	for (int i = 0; i < n; i++)
		if (!(out[i] = typed(w, IR_get, first + i, &type[first + i]))) return false;
	return true;
}

/* ---- cond ---- */
typedef struct both { ir_meta *type; const char **site; } both; /* types and lines of the results of `then` */

static bool note_then(const jit_op *w, jit_inside *k, void *env)
{
	both *b = env;
	for (int i = 0; i < k->nout; i++) {
		b->type[i] = jit_meta(k->out[i]);
		b->site[i] = jit_op_site(w, k->out[i]);
	}
	return true;
}

static bool compare_else(const jit_op *w, jit_inside *k, void *env)
{
	const both *b = env;
	for (int i = 0; i < k->nout; i++) {
		char x[160], y[160];
		const ir_meta m = jit_meta(k->out[i]);
		if (jit_same_type(&m, &b->type[i])) continue;
		jit_put_type(x, sizeof x, &b->type[i]);
		jit_put_type(y, sizeof y, &m);
		return jit_op_fail(w, m.dtype == b->type[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE,
		                   "both callbacks must give the same dtypes and shapes: see tj_cast(), tj_expand()",
		                   "output %d differs: then gives %s (%s), else gives %s (%s)", i, x, b->site[i], y,
		                   jit_op_site(w, k->out[i]));
	}
	return true;
}

static bool cond(const jit_op *w, tj_tensor **out, int nout, tj_tensor *pred, tj_body *then_, tj_body *else_, tj_list list)
{
	int n = jit_length(list);
	rt_arena *mem = &w->a->mem;
	tj_tensor **in, **p, **src = rt_arena_alloc(mem, ((size_t)n + 1) * sizeof *src);
	both b = { rt_arena_alloc(mem, ((size_t)nout + 1) * sizeof *b.type), rt_arena_alloc(mem, ((size_t)nout + 1) * sizeof *b.site) };
	if (!src || !b.type || !b.site) return jit_op_nomem(w);
	if (!jit_op_admit(w, &pred, 1, &p) || !(src[0] = truth(w, p[0])) || !jit_op_admit(w, list, n, &in)) return false;
	if (!jit_op_step(w, IR_cond, 1 + tensors(in, n, src + 1), src, 0, NULL)) return false;
	jit_inside yes = { .which = 0, .f = then_, .nin = n, .nplain = n, .like = in, .nout = nout };
	jit_inside no = { .which = 1, .f = else_, .nin = n, .nplain = n, .like = in, .nout = nout, .want = b.type, .nwant = nout };
	return jit_op_trace(w, &yes, note_then, &b) && jit_op_trace(w, &no, compare_else, &b) && jit_op_give(w, 0, nout, b.type, out);
}

/* ---- carries ---- */

/* Initial values of the carries, as tensors. A carry keeps its type. */
static bool carries(const jit_op *w, tj_list list, int n, tj_tensor ***init, ir_meta *type)
{
	if (!jit_op_admit(w, list, n, init)) return false;
	for (int i = 0; i < n; i++) {
		tj_tensor **t = &(*init)[i];
		if (jit_is_number(*t)) *t = box(w, *t, NULL);
		if ((*t)->kind == RT_POISON) return false;
		type[i] = jit_meta(*t);
	}
	return true;
}

static bool compare_carries(const jit_op *w, jit_inside *k, void *env)
{
	(void)env;
	for (int i = 0; i < k->nwant; i++) {
		char x[160], y[160], hint[240];
		const ir_meta m = jit_meta(k->out[i]);
		if (jit_same_type(&m, &k->want[i])) continue;
		jit_put_type(x, sizeof x, &k->want[i]);
		jit_put_type(y, sizeof y, &m);
		if (m.dtype != k->want[i].dtype)
			snprintf(hint, sizeof hint, "a carry must keep its dtype: tj_cast() the initial value or the result of the body");
		else snprintf(hint, sizeof hint, "a carry must keep its shape: tj_expand() the initial value");
		return jit_op_fail(w, m.dtype == k->want[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE, hint,
		                   "carry %d is %s, but the body gives %s (%s)", i, x, y, jit_op_site(w, k->out[i]));
	}
	return true;
}

/* ---- while ---- */
static bool to_truth(const jit_op *w, jit_inside *k, void *env)
{
	(void)env;
	return (k->out[0] = truth(w, k->out[0])) != NULL;
}

static bool while_(const jit_op *w, tj_tensor **out, tj_body *cond_, tj_body *body, tj_list init, int64_t most)
{
	int n = jit_length(init);
	tj_tensor **in;
	ir_meta *type = rt_arena_alloc(&w->a->mem, ((size_t)n + 1) * sizeof *type);
	if (!type) return jit_op_nomem(w);
	if (!carries(w, init, n, &in, type) || !jit_op_step(w, IR_while, n, in, 1, &most)) return false;
	static const ir_meta one = { .dtype = TJ_BOOL };
	jit_inside go = { .which = 0, .f = cond_, .nin = n, .nplain = n, .like = in, .nout = 1, .want = &one, .nwant = 1 };
	jit_inside turn = { .which = 1, .f = body, .nin = n, .nplain = n, .like = in, .nout = n, .want = type, .nwant = n };
	return jit_op_trace(w, &go, to_truth, NULL) && jit_op_trace(w, &turn, compare_carries, NULL) && jit_op_give(w, 0, n, type, out);
}

/* ---- scan ---- */
typedef struct slices { ir_meta *type; int ncarry; } slices; /* type: of all results of the scan body */

/* Checks the carries, and notes the types of the slices that are stacked. */
static bool note_ys(const jit_op *w, jit_inside *k, void *env)
{
	const slices *s = env;
	if (!compare_carries(w, k, NULL)) return false;
	for (int i = s->ncarry; i < k->nout; i++) {
		s->type[i] = jit_meta(k->out[i]);
		if (s->type[i].rank == TJ_MAX_RANK)
			return jit_op_fail(w, TJ_ERR_LIMIT, NULL, "a slice of ys has %d axes: there is no room for one more", TJ_MAX_RANK);
	}
	return true;
}

static bool same_length(const jit_op *w, tj_tensor *const *xs, int n, int64_t *turns)
{
	for (int i = 0; i < n; i++) {
		char type[160];
		if (jit_is_number(xs[i]))
			return jit_op_fail(w, TJ_ERR_SHAPE, "let the body capture the number", "xs %d is a number: it has no slices", i);
		const ir_meta m = jit_meta(xs[i]);
		jit_put_type(type, sizeof type, &m);
		if (!m.rank) return jit_op_fail(w, TJ_ERR_SHAPE, "let the body capture a 0-d tensor", "xs %d is %s: it has no axis 0", i, type);
		if (!i && !*turns) *turns = m.dim[0];
		if (m.dim[0] != *turns)
			return jit_op_fail(w, TJ_ERR_SHAPE,
			                   "all xs must have the same length along axis 0; .length must be that length or 0",
			                   "xs %d is %s, but the length is %lld", i, type, (long long)*turns);
	}
	return true;
}

static bool scan(const jit_op *w, tj_tensor **carry, tj_tensor **ys, int nys, tj_body *body, tj_list init, tj_list list,
                 const tj_scan_opts *o)
{
	int n = jit_length(init), m = jit_length(list), nout = n + nys;
	int64_t attr[4] = { n, m, o->length, o->reverse };
	tj_tensor **in, **xs, **all = rt_arena_alloc(&w->a->mem, ((size_t)n + (size_t)m + 1) * sizeof *all);
	ir_meta *type = rt_arena_alloc(&w->a->mem, ((size_t)nout + 1) * sizeof *type);
	if (!type || !all) return jit_op_nomem(w);
	if (!jit_op_admit(w, list, m, &xs) || !same_length(w, xs, m, &attr[2]) || !carries(w, init, n, &in, type)) return false;
	if (n) memcpy(all, in, (size_t)n * sizeof *all);
	if (m) memcpy(all + n, xs, (size_t)m * sizeof *all);
	if (!jit_op_step(w, IR_scan, n + m, all, 4, attr)) return false;
	jit_inside turn = { .which = 0, .f = body, .nin = n + m, .nplain = n, .like = all, .nout = nout, .want = type, .nwant = n };
	if (!jit_op_trace(w, &turn, note_ys, &(slices){ type, n })) return false;
	for (int i = n; i < nout; i++) {
		memmove(type[i].dim + 1, type[i].dim, sizeof *type[i].dim * type[i].rank++);
		type[i].dim[0] = attr[2];
	}
	return jit_op_give(w, 0, n, type, carry) && jit_op_give(w, n, nys, type, ys);
}

/* ---- one call ---- */
tj_status jit_spoil(tj_ctx *c, tj_tensor **out, int n)
{
	for (int i = 0; out && i < n; i++) out[i] = &c->rt.poison;
	return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
}

bool jit_control(const jit_op *w, const jit_flow *q)
{
	if (q->op == IR_cond) return cond(w, q->out, q->nout, q->in[0], q->f[0], q->f[1], q->in + 1);
	if (q->op == IR_while) return while_(w, q->out, q->f[0], q->f[1], q->in, q->turns);
	return scan(w, q->out, q->ys, q->nys, q->f[0], q->in, q->xs, &(tj_scan_opts){ .length = q->turns, .reverse = q->reverse });
}
