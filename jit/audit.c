/* SPDX-License-Identifier: MIT */
/* Audit: compares the values of a plan with those of the evaluator, bit for bit. Results of a library are not compared but
 * given to the evaluator, so that values computed from them can be. Values that depend on TJ_FAST ops are not compared, since
 * their bits may differ from plan to plan. */
#include "jit/claim.h"
#include "jit/compile.h"
#include "jit/effect.h"
#include "runtime/bytes.h"

typedef struct audit {
	tj_ctx *c;
	ir_graph g;
	rt_arena mem;
	const void **ptr;        /* by external: its data on the host */
	void **copy;             /* by external: its host copy if it is on another device, else NULL */
	uint32_t *value, nout;   /* value: indices of the compared values of the plan. nout: their number; the library nodes come after them
	                            in g.out */
	void **out;
	rt_err err;
} audit;

/* A library computes the node, and may add in another order than the evaluator. */
static bool is_library_op(const ir_graph *g, ir_ref r, const void *settings)
{
	const ir_node *n = ir_at(g, r);
	return n->op < IR_OPS && lo_bounded((ir_op)n->op, (tj_dtype)n->dtype, n->device, *(const uint32_t *)settings);
}

/* Also a result of control flow that contains such a node. */
static bool is_library(const ir_graph *g, ir_ref r, const uint32_t *settings)
{
	const ir_node *n = ir_at(g, r);
	const ir_node *of = n->op == IR_get ? ir_at(g, ir_src(g, n, 0)) : NULL;
	return of && ir_is_flow(of->op) ? ir_flow_has(g, of, is_library_op, settings) : is_library_op(g, r, settings);
}

static void *room(audit *a, ir_ref r)
{
	return rt_arena_alloc(&a->mem, (size_t)ir_numel(&a->g, r) * tj_dtype_size((tj_dtype)ir_at(&a->g, r)->dtype) + 64);
}

/* Removes the outputs whose bits may differ from those of the evaluator. */
static bool keep_exact(audit *a)
{
	bool *inexact = rt_arena_alloc(&a->mem, a->g.node.n * sizeof *inexact + 1);
	a->value = rt_arena_alloc(&a->mem, (a->g.out.n + 1) * sizeof *a->value);
	if (!inexact || !a->value) return false;
	ir_inexact(&a->g, inexact);
	for (uint32_t i = 0; i < a->g.out.n; i++) {
		if (inexact[a->g.out.v[i]]) continue;
		a->g.out.v[a->nout] = a->g.out.v[i];
		a->value[a->nout++] = i;
	}
	a->g.out.n = a->nout;
	return true;
}

/* Makes the library nodes outputs, too; the evaluator gets the values that the compiled plan computes for them. */
static bool add_library_outputs(audit *a)
{
	bool *live = rt_arena_alloc(&a->mem, a->g.node.n * sizeof *live + 1);
	if (!live || !ir_live(&a->g, live)) return false;
	for (ir_ref r = 0; r < a->g.node.n; r++)
		if (live[r] && is_library(&a->g, r, &a->c->settings) && !ir_ret(&a->g, r)) return false;
	a->out = rt_arena_alloc(&a->mem, (a->g.out.n + 1) * sizeof *a->out);
	for (uint32_t i = 0; a->out && i < a->g.out.n; i++)
		if (!(a->out[i] = room(a, a->g.out.v[i]))) return false;
	return a->out != NULL;
}

/* Runs the plan on the devices of the externals, and copies its outputs to a->out. */
static bool run_where_it_is(audit *a, rt_exec *x, const jit_inputs *in)
{
	const uint32_t n = a->g.out.n;
	const void **ext = rt_arena_alloc(&a->mem, (in->next + 1) * sizeof *ext);
	rt_buffer **from = rt_arena_alloc(&a->mem, (in->next + 1) * sizeof *from), **to = rt_arena_alloc(&a->mem, (n + 1) * sizeof *to);
	void **out = rt_arena_alloc(&a->mem, (n + 1) * sizeof *out);
	bool ok = ext && from && to && out;
	for (uint32_t i = 0; ok && i < in->next; i++) ext[i] = in->ext[i].data, from[i] = in->ext[i].buf;
	for (uint32_t i = 0; ok && i < n; i++) {
		const ir_node *r = ir_at(&a->g, a->g.out.v[i]);
		const size_t bytes = (size_t)ir_numel(&a->g, a->g.out.v[i]) * tj_dtype_size((tj_dtype)r->dtype);
		ok = (to[i] = rt_buffer_on(&a->c->rt, r->device, bytes)) != NULL;
		if (ok) out[i] = to[i]->data;
	}
	rt_run r = ok ? jit_run(a->c, ext, in->num, out, &a->err) : (rt_run){ 0 };
	ok = ok && jit_run_on_devices(x, &r, in->next, from, to) == TJ_OK;
	for (uint32_t i = 0; ok && i < n; i++) {
		const ir_meta m = ir_meta_of(&a->g, a->g.out.v[i]);
		const rt_elements e = { m.device, m.rank, tj_dtype_size((tj_dtype)m.dtype), m.dim, NULL, out[i] };
		ok = x->out[i].same_ext >= 0 || rt_bytes_copy(a->c->rt.pool, &e, TJ_CPU, a->out[i], &a->err) == TJ_OK;
	}
	for (uint32_t i = 0; to && i < n; i++) rt_buffer_unref(to[i], a->c->rt.allocator);
	return ok;
}

static bool run_library(audit *a, tj_fn *f, const jit_inputs *in, const void **given)
{
	lo_opts o;
	rt_exec *x = NULL;
	if (a->nout == a->g.out.n) return true;
	jit_lower_opts(f, a->c->engine, a->c->settings, &o);
	if (jit_lower(a->c->engine, &a->g, &o, &x, &a->err) != TJ_OK) return false;
	bool ok = run_where_it_is(a, x, in);
	rt_exec_unref(x);
	for (uint32_t i = a->nout; i < a->g.out.n; i++) given[a->g.out.v[i]] = a->out[i];
	return ok;
}

static bool same_element(tj_dtype t, const char *x, const char *y)
{
	if (!memcmp(x, y, tj_dtype_size(t))) return true;
	ir_scalar a = ir_cast_scalar(ir_load(t, x), t, TJ_F64), b = ir_cast_scalar(ir_load(t, y), t, TJ_F64);
	return t == TJ_BOOL ? a.d == b.d : rt_is_float(t) && a.d != a.d && b.d != b.d; /* any byte but 0 is true */
}

bool jit_audit_values(tj_dtype t, int64_t n, const void *got, const void *want, const char *what, rt_err *err)
{
	size_t size = tj_dtype_size(t);
	for (int64_t k = 0; k < n; k++) {
		const char *x = (const char *)got + (size_t)k * size, *y = (const char *)want + (size_t)k * size;
		if (same_element(t, x, y)) continue;
		double is = ir_cast_scalar(ir_load(t, x), t, TJ_F64).d, was = ir_cast_scalar(ir_load(t, y), t, TJ_F64).d;
		rt_fail(err, TJ_ERR_COMPILE, "audit", "element %lld of %s is %.17g in compiled code and %.17g in the evaluator",
		        (long long)k, what, is, was);
		rt_hint(err, "this is a bug of tjit: please report it with the graph of TJ_LOG=graph; TJ_BACKEND=eval works around it");
		return false;
	}
	return true;
}

static bool compare(audit *a, const jit_done *d, uint32_t k, void *const *all)
{
	const uint32_t i = a->value[k];
	rt_buffer *b = d->buf[i];
	const void *data = all[i];
	const rt_layout *l = d->plan->value[i].layout;
	char *got = rt_arena_alloc(&a->mem, (size_t)l->bytes + 1), what[32];
	if (!got || rt_tensor_read(a->c->rt.pool, l, b, data, got, &a->err) != TJ_OK) return false;
	snprintf(what, sizeof what, "event %u", d->plan->value[i].seq);
	return jit_audit_values((tj_dtype)l->dtype, l->numel, got, a->out[k], what, &a->err);
}

/* Each plan is compared once, in a call that runs the body. Functions with passes or back ends of the user are not: they may differ on
 * purpose. */
bool jit_audit_due(const jit_act *a, const jit_plan *p)
{
	const tj_fn *f = a->fn;
	return !f->npass && !f->opts.backend && !f->engine->pass.n && !atomic_load(&p->audited);
}

/* Makes the externals readable on the host. */
static bool see_externals(audit *a, const jit_inputs *in)
{
	for (uint32_t i = 0; i < in->next; i++) {
		const jit_bound *b = &in->ext[i];
		a->ptr[i] = b->data ? rt_tensor_see(a->c->rt.pool, b->layout, b->buf, b->data, &a->copy[i], &a->err) : NULL;
		if (b->data && !a->ptr[i]) return false;
	}
	return true;
}

/* Computes all outputs with the evaluator, into a->out. */
static bool evaluate(audit *a, tj_fn *f, const jit_inputs *in)
{
	const ir_eval_opts o = { .int_div_zero = f->opts.int_div_zero == TJ_ZERO };
	const void **given = rt_arena_alloc(&a->mem, (a->g.node.n + 1) * sizeof *given);
	a->ptr = rt_arena_alloc(&a->mem, (in->next + 1) * sizeof *a->ptr);
	a->copy = rt_arena_alloc(&a->mem, (in->next + 1) * sizeof *a->copy);
	return given && a->ptr && a->copy && see_externals(a, in) && add_library_outputs(a) && run_library(a, f, in, given) &&
	       ir_eval(&a->g, a->ptr, in->num, given, a->out, &o, &a->err) == TJ_OK;
}

bool jit_audit(tj_ctx *c, const jit_done *d, const jit_inputs *in, void *const *data)
{
	if (!d->plan->n || jit_has_effect(d->boundary)) return true; /* it must not run twice */
	audit a = { .c = c };
	bool ok = jit_graph(&a.g, d->boundary, d->plan) && keep_exact(&a) && (!a.nout || evaluate(&a, c->act.fn, in));
	for (uint32_t i = 0; ok && i < a.nout; i++) ok = compare(&a, d, i, data);
	if (ok) atomic_store(&d->plan->audited, true);
	else {
		rt_fail(&a.err, TJ_ERR_NOMEM, "audit", "out of memory");
		jit_report(c, d->boundary->site, &a.err);
	}
	for (uint32_t i = 0; a.copy && i < in->next; i++) rt_free(a.copy[i]);
	ir_graph_free(&a.g);
	rt_arena_free(&a.mem);
	return ok;
}
