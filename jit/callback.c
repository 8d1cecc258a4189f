/* Control flow in a compiled function: tj_cond, tj_while, tj_scan; and tj_vmap, tj_custom_grad. Callbacks are traced like the body: each runs once per call of the op, on
 * placeholders. Its events are part of the trace, so its captures are guarded.
 *
 *   COND operands | CALLBACK PARAM... events YIELD outs | CALLBACK ... YIELD | get get ...
 *
 * outside.c has the entry points, and the op outside of compiled functions. */
#include "jit/call.h"
#include "jit/callback.h"
#include "jit/event.h"
#include "jit/handle.h"

enum { MARGIN = 8, MAX_NEST = 32 };

typedef struct flow { /* one call of an op */
	tj_ctx *c;
	jit_act *a;
	const char *site;
	int op;
	void *self;
} flow;

static const char *public_name(int op) { return op == JIT_VMAP ? "tj_vmap" : op == JIT_CUSTOM ? "tj_custom_grad" : op == IR_cond ? "tj_cond" : op == IR_while ? "tj_while" : "tj_scan"; }

/* ---- errors ---- */

static bool fail(const flow *w, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
static bool fail(const flow *w, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(w->c, w->site, code, jit_flow_name(w->op), hint, fmt, ap);
	va_end(ap);
	return false;
}

static bool nomem(const flow *w) { return fail(w, TJ_ERR_NOMEM, NULL, "out of memory"); }

/* The line that computed a value. */
static const char *site_of(const flow *w, const tj_tensor *t)
{
	for (const jit_node *n = w->a->cursor; t->kind == RT_PENDING && t->seg == w->a->seg && n->parent; n = n->parent)
		if (n->seq == t->seq) return n->site ? n->site : "?";
	return w->site ? w->site : "?";
}

/* ---- lists ---- */

/* Admits the operands of a list; late numbers (RT_LATE) keep their handles. */
static bool admit(const flow *w, tj_list list, int n, tj_tensor ***out)
{
	*out = rt_arena_alloc(&w->a->mem, ((size_t)n + 1) * sizeof **out);
	if (!*out) return nomem(w);
	if (jit_admit_all(w->c, w->site, jit_flow_name(w->op), n, list, *out) == JIT_POISON) return false;
	for (int i = 0; i < n; i++)
		if (!rt_is_number(list[i]) && list[i]->kind == RT_LATE) (*out)[i] = list[i];
	return true;
}

/* ---- events ---- */
static bool step(const flow *w, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr)
{
	return jit_step(w->a, w->site, op, nsrc, src, nattr, attr) != NULL;
}

/* An argument of a callback (PARAM), or a result of control flow (IR_get). */
static tj_tensor *typed(const flow *w, int op, int64_t which, const ir_meta *m) { return jit_typed(w->a, w->site, jit_flow_name(w->op), op, which, m); }

static tj_tensor *cast(const flow *w, tj_tensor *t, tj_dtype dtype)
{
	int64_t attr = dtype;
	return jit_event(w->site, IR_cast, 1, &t, 1, &attr);
}

/* Turns a number into a 0-d tensor on the device of `like` or of the engine: f32 or i64, or the dtype of `like` if its kind can hold the number. */
static tj_tensor *box(const flow *w, tj_tensor *t, const ir_meta *like)
{
	const tj_tensor *n = rt_is_number(t) ? t : (tj_tensor *)(uintptr_t)t->seg;
	tj_dtype own = rt_is_int_number(n) ? TJ_I64 : TJ_F32;
	bool fits = like && !like->rank && rt_dtype_cat((tj_dtype)like->dtype) >= rt_dtype_cat(own);
	const int64_t device = like ? like->device : w->a->ctx->engine->device;
	t = cast(w, t, fits ? (tj_dtype)like->dtype : own);
	return device == TJ_CPU || t->kind == RT_POISON ? t : jit_event(w->site, IR_to, 1, &t, 1, &device);
}

/* Casts a value that tj_truth() accepts to a 0-d bool tensor. */
static tj_tensor *truth(const flow *w, tj_tensor *t)
{
	if (!jit_is_number(t) && t->layout->numel != 1) {
		char type[160];
		const ir_meta m = jit_meta(t);
		jit_put_type(type, sizeof type, &m);
		fail(w, TJ_ERR_SHAPE, "reduce it with tj_any() or tj_all()", "the condition must have one element, but it is %s (%s)", type, site_of(w, t));
		return NULL;
	}
	if (jit_is_number(t) || t->dtype != TJ_BOOL) t = cast(w, t, TJ_BOOL);
	if (t->kind != RT_POISON && t->rank) t = jit_event(w->site, IR_reshape, 1, &t, 0, NULL);
	return t->kind == RT_POISON ? NULL : t;
}

/* ---- callbacks ---- */

static bool enter(const flow *w)
{
	jit_act *a = w->a;
	if (a->callback.n == MAX_NEST) return fail(w, TJ_ERR_LIMIT, "recursion in callbacks must end", "callbacks are nested more than %d deep", MAX_NEST);
	if (!rt_reserve(&a->callback, 1) || !rt_reserve(&a->closed, 1)) return nomem(w);
	tj_scope *s = rt_scope_push(&w->c->rt, w->c, a->serial);
	if (!s) return nomem(w);
	a->callback.v[a->callback.n++] = (jit_callback){ s, public_name(w->op), w->site, a->seq, w->op < IR_OP_COUNT, w->op == JIT_CUSTOM };
	return true;
}

/* Closes the scopes that the callback left open; its values may not be used from here on. */
static void leave(const flow *w)
{
	jit_act *a = w->a;
	const jit_callback k = a->callback.v[--a->callback.n];
	for (bool last = false; !last;) {
		last = w->c->rt.scope == k.scope;
		rt_scope_pop(&w->c->rt, jit_hold, a);
	}
	while (a->closed.n && a->closed.v[a->closed.n - 1].first >= k.first) a->closed.n--;
	if (!rt_push(&a->closed, ((jit_span){ k.first, a->seq }))) a->failed = a->broken = true;
}

typedef struct callback {
	int which;
	tj_body *f;
	int nin, nplain;         /* number of arguments; those from nplain on are slices along axis 0 */
	const bool *captured;    /* by argument: it is passed as it is; NULL: only numbers are */
	const ir_meta *type;     /* of the arguments from nplain on, which are no slices; NULL: they are slices */
	tj_tensor *const *like;  /* by argument: the tensor or number itself, or the tensor that is sliced */
	int nout;
	const ir_meta *want;     /* types of the first nwant results; the others are not known yet */
	int nwant;
	tj_tensor **out;         /* results; handles in the scope of the callback */
} callback;

static bool arguments(const flow *w, const callback *k, tj_tensor **in)
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

static const char *callback_name(const flow *w, int which) { return w->op == JIT_VMAP ? "body" : w->op == JIT_CUSTOM ? (which ? "backward" : "forward") : ir_flow_info(w->op)->region[which]; }

static bool results(const flow *w, const callback *k, tj_tensor **made)
{
	for (int i = k->nout; i < k->nout + MARGIN; i++)
		if (made[i] != TJ_END) return fail(w, TJ_ERR_LIMIT, "set only the results that the call asks for", "the callback `%s` set out[%d], but it has %d results", callback_name(w, k->which), i, k->nout);
	for (int i = 0; i < k->nout; i++)
		if (!made[i]) return fail(w, TJ_ERR_ARG, "set every out[]", "the callback `%s` did not set out[%d]", callback_name(w, k->which), i);
	if (jit_admit_all(w->c, w->site, jit_flow_name(w->op), k->nout, made, k->out) == JIT_POISON) return false;
	for (int i = 0; i < k->nout; i++) {
		if (jit_is_number(made[i])) k->out[i] = box(w, made[i], i < k->nwant ? &k->want[i] : NULL);
		if (k->out[i]->kind == RT_POISON) return false;
	}
	return true;
}

static __attribute__((noinline)) bool run_callback(const flow *w, callback *k, bool (*check)(const flow *w, callback *k, void *env), void *env)
{
	jit_act *a = w->a;
	tj_tensor **in = rt_arena_alloc(&a->mem, ((size_t)k->nin + 1) * sizeof *in);
	tj_tensor **made = rt_arena_alloc(&a->mem, ((size_t)k->nout + MARGIN) * sizeof *made);
	k->out = rt_arena_alloc(&a->mem, ((size_t)k->nout + 1) * sizeof *k->out);
	if (!in || !made || !k->out) return nomem(w);
	for (int i = k->nout; i < k->nout + MARGIN; i++) made[i] = TJ_END;
	if (!arguments(w, k, in)) return false;
	jit_run_body(a, jit_flow_name(w->op), k->f, made, in, w->self);
	return !a->failed && results(w, k, made) && check(w, k, env) && step(w, JIT_YIELD, k->nout, k->out, 0, NULL);
}

/* Traces one callback, from CALLBACK to YIELD. check() compares its results, and may replace them. */
static bool trace(const flow *w, callback *k, bool (*check)(const flow *w, callback *k, void *env), void *env)
{
	jit_act *a = w->a;
	if (!enter(w)) return false;
	bool ok = rt_push(&a->callers, ((jit_caller){ w->site, NULL })) || nomem(w);
	if (ok) {
		ok = step(w, JIT_CALLBACK, 0, NULL, 1, (int64_t[]){ k->which }) && run_callback(w, k, check, env);
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

static bool give(const flow *w, int first, int n, const ir_meta *type, tj_tensor **out)
{
	for (int i = 0; i < n; i++)
		if (!(out[i] = typed(w, IR_get, first + i, &type[first + i]))) return false;
	return true;
}

/* ---- cond ---- */
typedef struct both { ir_meta *type; const char **site; } both; /* types and lines of the results of `then` */

static bool note_then(const flow *w, callback *k, void *env)
{
	both *b = env;
	for (int i = 0; i < k->nout; i++) {
		b->type[i] = jit_meta(k->out[i]);
		b->site[i] = site_of(w, k->out[i]);
	}
	return true;
}

static bool compare_else(const flow *w, callback *k, void *env)
{
	const both *b = env;
	for (int i = 0; i < k->nout; i++) {
		char x[160], y[160];
		const ir_meta m = jit_meta(k->out[i]);
		if (jit_same_type(&m, &b->type[i])) continue;
		jit_put_type(x, sizeof x, &b->type[i]);
		jit_put_type(y, sizeof y, &m);
		return fail(w, m.dtype == b->type[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE, "both callbacks must give the same dtypes and shapes: see tj_cast(), tj_expand()",
		            "output %d differs: then gives %s (%s), else gives %s (%s)", i, x, b->site[i], y, site_of(w, k->out[i]));
	}
	return true;
}

static bool cond(const flow *w, tj_tensor **out, int nout, tj_tensor *pred, tj_body *then_, tj_body *else_, tj_list list)
{
	int n = jit_length(list);
	rt_arena *mem = &w->a->mem;
	tj_tensor **in, **p, **src = rt_arena_alloc(mem, ((size_t)n + 1) * sizeof *src);
	both b = { rt_arena_alloc(mem, ((size_t)nout + 1) * sizeof *b.type), rt_arena_alloc(mem, ((size_t)nout + 1) * sizeof *b.site) };
	if (!src || !b.type || !b.site) return nomem(w);
	if (!admit(w, &pred, 1, &p) || !(src[0] = truth(w, p[0])) || !admit(w, list, n, &in)) return false;
	if (!step(w, IR_cond, 1 + tensors(in, n, src + 1), src, 0, NULL)) return false;
	callback yes = { .which = 0, .f = then_, .nin = n, .nplain = n, .like = in, .nout = nout };
	callback no = { .which = 1, .f = else_, .nin = n, .nplain = n, .like = in, .nout = nout, .want = b.type, .nwant = nout };
	return trace(w, &yes, note_then, &b) && trace(w, &no, compare_else, &b) && give(w, 0, nout, b.type, out);
}

/* ---- carries ---- */

/* Initial values of the carries, as tensors. A carry keeps its type. */
static bool carries(const flow *w, tj_list list, int n, tj_tensor ***init, ir_meta *type)
{
	if (!admit(w, list, n, init)) return false;
	for (int i = 0; i < n; i++) {
		tj_tensor **t = &(*init)[i];
		if (jit_is_number(*t)) *t = box(w, *t, NULL);
		if ((*t)->kind == RT_POISON) return false;
		type[i] = jit_meta(*t);
	}
	return true;
}

static bool compare_carries(const flow *w, callback *k, void *env)
{
	(void)env;
	for (int i = 0; i < k->nwant; i++) {
		char x[160], y[160], hint[240];
		const ir_meta m = jit_meta(k->out[i]);
		if (jit_same_type(&m, &k->want[i])) continue;
		jit_put_type(x, sizeof x, &k->want[i]);
		jit_put_type(y, sizeof y, &m);
		if (m.dtype != k->want[i].dtype) snprintf(hint, sizeof hint, "a carry must keep its dtype: tj_cast() the initial value or the result of the body");
		else snprintf(hint, sizeof hint, "a carry must keep its shape: tj_expand() the initial value");
		return fail(w, m.dtype == k->want[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE, hint, "carry %d is %s, but the body gives %s (%s)", i, x, y, site_of(w, k->out[i]));
	}
	return true;
}

/* ---- while ---- */
static bool to_truth(const flow *w, callback *k, void *env)
{
	(void)env;
	return (k->out[0] = truth(w, k->out[0])) != NULL;
}

static bool while_(const flow *w, tj_tensor **out, tj_body *cond_, tj_body *body, tj_list init, int64_t most)
{
	int n = jit_length(init);
	tj_tensor **in;
	ir_meta *type = rt_arena_alloc(&w->a->mem, ((size_t)n + 1) * sizeof *type);
	if (!type) return nomem(w);
	if (!carries(w, init, n, &in, type) || !step(w, IR_while, n, in, 1, &most)) return false;
	static const ir_meta one = { .dtype = TJ_BOOL };
	callback go = { .which = 0, .f = cond_, .nin = n, .nplain = n, .like = in, .nout = 1, .want = &one, .nwant = 1 };
	callback turn = { .which = 1, .f = body, .nin = n, .nplain = n, .like = in, .nout = n, .want = type, .nwant = n };
	return trace(w, &go, to_truth, NULL) && trace(w, &turn, compare_carries, NULL) && give(w, 0, n, type, out);
}

/* ---- scan ---- */
typedef struct slices { ir_meta *type; int ncarry; } slices; /* type: of all results of the scan body */

/* Checks the carries, and notes the types of the slices that are stacked. */
static bool note_ys(const flow *w, callback *k, void *env)
{
	const slices *s = env;
	if (!compare_carries(w, k, NULL)) return false;
	for (int i = s->ncarry; i < k->nout; i++) {
		s->type[i] = jit_meta(k->out[i]);
		if (s->type[i].rank == TJ_MAX_RANK) return fail(w, TJ_ERR_LIMIT, NULL, "a slice of ys has %d axes: there is no room for one more", TJ_MAX_RANK);
	}
	return true;
}

static bool same_length(const flow *w, tj_tensor *const *xs, int n, int64_t *turns)
{
	for (int i = 0; i < n; i++) {
		char type[160];
		if (jit_is_number(xs[i])) return fail(w, TJ_ERR_SHAPE, "let the body capture the number", "xs %d is a number: it has no slices", i);
		const ir_meta m = jit_meta(xs[i]);
		jit_put_type(type, sizeof type, &m);
		if (!m.rank) return fail(w, TJ_ERR_SHAPE, "let the body capture a 0-d tensor", "xs %d is %s: it has no axis 0", i, type);
		if (!i && !*turns) *turns = m.dim[0];
		if (m.dim[0] != *turns) return fail(w, TJ_ERR_SHAPE, "all xs must have the same length along axis 0; .length must be that length or 0", "xs %d is %s, but the length is %lld", i, type, (long long)*turns);
	}
	return true;
}

static bool scan(const flow *w, tj_tensor **carry, tj_tensor **ys, int nys, tj_body *body, tj_list init, tj_list list, const tj_scan_opts *o)
{
	int n = jit_length(init), m = jit_length(list), nout = n + nys;
	int64_t attr[4] = { n, m, o->length, o->reverse };
	tj_tensor **in, **xs, **all = rt_arena_alloc(&w->a->mem, ((size_t)n + (size_t)m + 1) * sizeof *all);
	ir_meta *type = rt_arena_alloc(&w->a->mem, ((size_t)nout + 1) * sizeof *type);
	if (!type || !all) return nomem(w);
	if (!admit(w, list, m, &xs) || !same_length(w, xs, m, &attr[2]) || !carries(w, init, n, &in, type)) return false;
	if (n) memcpy(all, in, (size_t)n * sizeof *all);
	if (m) memcpy(all + n, xs, (size_t)m * sizeof *all);
	if (!step(w, IR_scan, n + m, all, 4, attr)) return false;
	callback turn = { .which = 0, .f = body, .nin = n + m, .nplain = n, .like = all, .nout = nout, .want = type, .nwant = n };
	if (!trace(w, &turn, note_ys, &(slices){ type, n })) return false;
	for (int i = n; i < nout; i++) {
		memmove(type[i].dim + 1, type[i].dim, sizeof *type[i].dim * type[i].rank++);
		type[i].dim[0] = attr[2];
	}
	return give(w, 0, n, type, carry) && give(w, n, nys, type, ys);
}

/* ---- vmap ---- */
typedef struct examples { tj_tensor **in; bool *captured; int64_t n; } examples; /* n: -1: not known yet */

/* t with axis `from` as axis `to`. */
static tj_tensor *move_axis(const flow *w, tj_tensor *t, int64_t from, int64_t to)
{
	int64_t axes[TJ_MAX_RANK], rest = 0;
	if (from == to) return t;
	for (int i = 0; i < t->rank; i++) {
		rest += rest == from;
		axes[i] = i == to ? from : rest++;
	}
	return jit_event(w->site, IR_permute, 1, &t, t->rank, axes);
}

/* Moves the axis that counts the examples to the front of operand i. */
static bool example_axis(const flow *w, examples *x, int i, int axis)
{
	char type[160];
	if (axis == TJ_UNMAPPED || (jit_is_number(x->in[i]) && !axis)) return x->captured[i] = true;
	if (jit_is_number(x->in[i])) return fail(w, TJ_ERR_SHAPE, "numbers are the same for all examples", "operand %d is a number: it has no axis %d", i, axis);
	const ir_meta m = jit_meta(x->in[i]);
	jit_put_type(type, sizeof type, &m);
	if (axis < -m.rank || axis >= m.rank) return fail(w, TJ_ERR_SHAPE, "set .in_axes to TJ_UNMAPPED for a tensor that is the same for all examples", "operand %d is %s: it has no axis %d", i, type, axis);
	if (axis < 0) axis += m.rank;
	if (x->n >= 0 && m.dim[axis] != x->n) return fail(w, TJ_ERR_SHAPE, "all must have as many examples", "operand %d is %s: along axis %d it has not %lld examples", i, type, axis, (long long)x->n);
	x->n = m.dim[axis];
	x->in[i] = move_axis(w, x->in[i], axis, 0);
	return x->in[i]->kind != RT_POISON;
}

static bool note_results(const flow *w, callback *k, void *env)
{
	ir_meta *type = env;
	for (int i = 0; i < k->nout; i++) {
		type[i] = jit_meta(k->out[i]);
		if (type[i].rank == TJ_MAX_RANK) return fail(w, TJ_ERR_LIMIT, NULL, "result %d has %d axes: there is no room for one more", i, TJ_MAX_RANK);
	}
	return true;
}

static bool vmap(const flow *w, const jit_flow *q)
{
	const int n = q->nin;
	rt_arena *mem = &w->a->mem;
	examples x = { .captured = rt_arena_alloc(mem, (size_t)n + 1), .n = -1 };
	tj_tensor **mapped = rt_arena_alloc(mem, ((size_t)n + 1) * sizeof *mapped);
	ir_meta *type = rt_arena_alloc(mem, ((size_t)q->nout + 1) * sizeof *type);
	int count = 0;
	if (!x.captured || !mapped || !type) return nomem(w);
	memset(x.captured, 0, (size_t)n + 1);
	if (!admit(w, q->in, n, &x.in)) return false;
	for (int i = 0; i < n; i++) {
		if (!example_axis(w, &x, i, q->in_axes ? q->in_axes[i] : 0)) return false;
		if (!x.captured[i]) mapped[count++] = x.in[i];
	}
	if (!count) return fail(w, TJ_ERR_ARG, "map at least one tensor", "no operand has examples");
	if (!step(w, JIT_VMAP, count, mapped, 1, &x.n)) return false;
	callback each = { .f = q->f[0], .nin = n, .captured = x.captured, .like = x.in, .nout = q->nout };
	if (!trace(w, &each, note_results, type)) return false;
	for (int i = 0; i < q->nout; i++) {
		memmove(type[i].dim + 1, type[i].dim, sizeof *type[i].dim * type[i].rank++);
		type[i].dim[0] = x.n;
	}
	if (!give(w, 0, q->nout, type, q->out)) return false;
	for (int i = 0; q->out_axes && i < q->nout; i++) {
		int axis = q->out_axes[i];
		const int rank = type[i].rank;
		if (axis < -rank || axis >= rank) return fail(w, TJ_ERR_SHAPE, "it counts the axes of the result with its examples", ".out_axes %d is %d, but result %d has %d axes", i, axis, i, rank);
		q->out[i] = move_axis(w, q->out[i], 0, axis < 0 ? axis + rank : axis);
		if (q->out[i]->kind == RT_POISON) return false;
	}
	return true;
}

/* ---- custom_grad ---- */
static bool note_out(const flow *w, callback *k, void *env)
{
	ir_meta *type = env;
	(void)w;
	for (int i = 0; i < k->nout; i++) type[i] = jit_meta(k->out[i]);
	return true;
}

static bool compare_grads(const flow *w, callback *k, void *env)
{
	const ir_meta *want = env;
	for (int i = 0; i < k->nout; i++) {
		char x[160], y[160];
		const ir_meta m = jit_meta(k->out[i]);
		if (jit_same_type(&m, &want[i])) continue;
		jit_put_type(x, sizeof x, &want[i]);
		jit_put_type(y, sizeof y, &m);
		return fail(w, m.dtype == want[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE, "a gradient has the dtype and the shape of its tensor", "operand %d is %s, but backward gives %s for it (%s)", i, x, y, site_of(w, k->out[i]));
	}
	return true;
}

static bool custom(const flow *w, const jit_flow *q)
{
	const int n = q->nin, nout = q->nout;
	rt_arena *mem = &w->a->mem;
	tj_tensor **in, **src = rt_arena_alloc(mem, ((size_t)n + 1) * sizeof *src), **like = rt_arena_alloc(mem, ((size_t)n + 2 * (size_t)nout + 1) * sizeof *like);
	ir_meta *type = rt_arena_alloc(mem, ((size_t)n + 2 * (size_t)nout + 1) * sizeof *type), *own = type ? type + 2 * nout : NULL;
	bool *captured = rt_arena_alloc(mem, (size_t)n + 2 * (size_t)nout + 1);
	if (!src || !like || !type || !captured) return nomem(w);
	for (uint32_t i = 0; i < w->a->callback.n; i++)
		if (w->a->callback.v[i].region || w->a->callback.v[i].custom) return fail(w, TJ_ERR_STATE, "give the gradient outside of it", "a callback of %s cannot have values with gradients of their own yet", w->a->callback.v[i].op);
	if (!admit(w, q->in, n, &in)) return false;
	for (int i = 0; i < n + 2 * nout; i++) captured[i] = i < n;
	for (int i = 0; i < n; i++) {
		if (jit_is_number(in[i])) return fail(w, TJ_ERR_ARG, "let the callbacks capture the number", "operand %d is a number: it has no gradient", i);
		like[i] = in[i];
		own[i] = jit_meta(in[i]);
	}
	if (!step(w, JIT_CUSTOM, n, in, 0, NULL)) return false;
	callback forward = { .which = 0, .f = q->f[0], .nin = n, .captured = captured, .like = in, .nout = nout };
	if (!trace(w, &forward, note_out, type)) return false;
	memcpy(type + nout, type, sizeof *type * (size_t)nout); /* own is behind both */
	for (int i = 0; i < 2 * nout; i++) like[n + i] = TJ_END;
	callback backward = { .which = 1, .f = q->f[1], .nin = n + 2 * nout, .nplain = n, .captured = captured, .type = type, .like = like, .nout = n };
	return trace(w, &backward, compare_grads, own) && give(w, 0, nout, type, q->out);
}

/* ---- one call ---- */
tj_status jit_spoil(tj_ctx *c, tj_tensor **out, int n)
{
	for (int i = 0; out && i < n; i++) out[i] = &c->rt.poison;
	return c->rt.err.code ? c->rt.err.code : TJ_ERR_STATE;
}

tj_status jit_flow_run(tj_ctx *c, const char *site, const jit_flow *q)
{
	flow w = { c, &c->act, site, q->op, q->self };
	bool ok = !c->act.failed;
	if (ok && q->op == IR_cond) ok = cond(&w, q->out, q->nout, q->in[0], q->f[0], q->f[1], q->in + 1);
	else if (ok && q->op == JIT_VMAP) ok = vmap(&w, q);
	else if (ok && q->op == JIT_CUSTOM) ok = custom(&w, q);
	else if (ok && q->op == IR_while) ok = while_(&w, q->out, q->f[0], q->f[1], q->in, q->turns);
	else if (ok) ok = scan(&w, q->out, q->ys, q->nys, q->f[0], q->in, q->xs, &(tj_scan_opts){ .length = q->turns, .reverse = q->reverse });
	if (ok) return TJ_OK;
	jit_spoil(c, q->out, q->nout);
	return jit_spoil(c, q->ys, q->nys);
}
