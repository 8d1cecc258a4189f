/* vjpflow: gradients through control flow. The regions are copied into those of a new node, which computes their values again and walks
 * back from there.
 *
 *   cond p, x -> y     =>   cond p, x, dy -> dx        each region: its own copy, then the gradients of its outputs
 *
 *   scan c, xs, w -> c', ys   =>   scan c, xs, w -> carries     one more run that keeps the carries before each turn, stacked
 *                                  scan dc', dw = 0 | carries, xs, dys, w -> dc, dw, dxs     the other way round
 *
 * The number of turns of a while is not known before it ends, so it has no gradient. */
#include "ir/region.h"
#include "ir/vjp.h"

typedef struct flow {
	ir_graph *g;
	ir_node n;               /* a copy, since emitting moves nodes */
	const ir_ref *grad;      /* by result; IR_NONE: none */
	const bool *want;        /* by operand */
	ir_ref *to;
	ir_builder b;
	rt_arena mem;
} flow;

static ir_ref *refs(flow *f, size_t n)
{
	ir_ref *v = rt_arena_alloc(&f->mem, sizeof *v * (n + 1));
	if (!v) rt_fail(&f->g->err, TJ_ERR_NOMEM, "grad", "out of memory");
	for (size_t i = 0; v && i <= n; i++) v[i] = IR_NONE;
	return v;
}

static ir_ref source(const flow *f, int k) { return ir_src(f->g, &f->n, k); }
static bool is_float(const ir_graph *g, ir_ref r) { return rt_is_float((tj_dtype)ir_at(g, r)->dtype); }

/* Copies region k into the one that is open, with slot[] for its inputs, and asks there for the gradients of its outputs by wrt[].
 * cotangent: by output, IR_NONE: none. */
static bool walk_back(flow *f, int k, int nslot, const ir_ref *slot, const ir_ref *cotangent, int n, const ir_ref *wrt, ir_ref *out)
{
	const ir_graph *region = ir_flow_region(f->g, &f->n, k);
	ir_ref *map = refs(f, region->node.n), *y = refs(f, region->out.n);
	if (!map || !y || !ir_build_copy(&f->b, region, nslot, slot, map)) return false;
	for (uint32_t i = 0; i < region->out.n; i++) y[i] = map[region->out.v[i]];
	return ir_grad_all(f->b.at->g, (int)region->out.n, y, cotangent, &(ir_grad_ask){ .n = n, .wrt = wrt, .zeros = true, .site = f->n.site }, out);
}

/* ---- cond ---- */
/* then or else. Its inputs are the operands without the predicate, then the gradients that there are. */
static bool branch(flow *f, int k, int nresult)
{
	const int nin = f->n.nsrc - 1;
	ir_ref *in = refs(f, (size_t)nin), *ct = refs(f, (size_t)nresult), *wrt = refs(f, (size_t)nin), *out = refs(f, (size_t)nin);
	int n = 0, at = nin;
	if (!in || !ct || !wrt || !out || !ir_build_enter(&f->b)) return false;
	for (int i = 0; i < nin; i++) {
		in[i] = ir_build_input(&f->b, i, f->n.site);
		if (f->want[i + 1]) wrt[n++] = in[i];
	}
	for (int i = 0; i < nresult; i++)
		if (f->grad[i] != IR_NONE) ct[i] = ir_build_input(&f->b, at++, f->n.site);
	return walk_back(f, k, nin, in, ct, n, wrt, out) && ir_build_yield(&f->b, n, out);
}

static bool grad_cond(flow *f)
{
	const int nresult = ir_flow_results(f->g, &f->n);
	ir_ref *src = refs(f, (size_t)(f->n.nsrc + nresult));
	int n = 0, at = 0;
	for (; src && n < f->n.nsrc; n++) src[n] = source(f, n);
	for (int i = 0; src && i < nresult; i++)
		if (f->grad[i] != IR_NONE) src[n++] = f->grad[i];
	if (!src || !ir_build_open(&f->b, IR_cond, n, src, NULL, f->n.site) || !branch(f, 0, nresult) || !branch(f, 1, nresult)) return false;
	const ir_ref made = ir_build_close(&f->b);
	for (int k = 1; made != IR_NONE && k < f->n.nsrc; k++)
		if (f->want[k]) f->to[k] = ir_get(f->g, made, at++, f->n.site);
	return made != IR_NONE;
}

/* ---- scan ---- */
typedef struct turns { int carries, xs, captures, ys; int64_t attr[4]; } turns;

static turns turns_of(const flow *f)
{
	turns t = { 0 };
	memcpy(t.attr, ir_attr(f->g, &f->n) + 1, sizeof t.attr); /* behind the region */
	t.carries = (int)t.attr[0];
	t.xs = (int)t.attr[1];
	t.captures = f->n.nsrc - t.carries - t.xs;
	t.ys = ir_flow_results(f->g, &f->n) - t.carries;
	return t;
}

/* carry[i]: the values of carry i before each turn, stacked. */
static bool carries_of(flow *f, const turns *t, ir_ref *carry)
{
	const ir_graph *region = ir_flow_region(f->g, &f->n, 0);
	ir_ref *src = refs(f, f->n.nsrc), *in = refs(f, f->n.nsrc), *map = refs(f, region->node.n), *out = refs(f, (size_t)t->carries * 2);
	if (!src || !in || !map || !out) return false;
	for (int k = 0; k < f->n.nsrc; k++) src[k] = source(f, k);
	if (!ir_build_open(&f->b, IR_scan, f->n.nsrc, src, t->attr, f->n.site) || !ir_build_enter(&f->b)) return false;
	for (int k = 0; k < f->n.nsrc; k++) in[k] = ir_build_input(&f->b, k, f->n.site);
	if (!ir_build_copy(&f->b, region, f->n.nsrc, in, map)) return false;
	for (int i = 0; i < t->carries; i++) {
		out[i] = map[region->out.v[i]];
		out[t->carries + i] = in[i];
	}
	if (!ir_build_yield(&f->b, 2 * t->carries, out)) return false;
	const ir_ref made = ir_build_close(&f->b);
	for (int i = 0; made != IR_NONE && i < t->carries; i++) carry[i] = ir_get(f->g, made, t->carries + i, f->n.site);
	return made != IR_NONE;
}

/* The operands of the scan backwards, in this order; each number says where its kind begins. */
typedef struct order { int sums, carry, xs, dys, captures, all; } order;

/* Carries: the gradients of the float carries, then the sums of those of wanted captures. */
static order backward_operands(flow *f, const turns *t, const ir_ref *carry, ir_ref *src)
{
	order o = { 0 };
	int n = 0;
	for (int i = 0; i < t->carries; i++)
		if (is_float(f->g, source(f, i))) src[n++] = f->grad[i] != IR_NONE ? f->grad[i] : ir_zeros(f->g, source(f, i));
	o.sums = n;
	for (int k = t->carries + t->xs; k < f->n.nsrc; k++)
		if (f->want[k]) src[n++] = ir_zeros(f->g, source(f, k));
	o.carry = n;
	for (int i = 0; i < t->carries; i++) src[n++] = carry[i];
	o.xs = n;
	for (int i = 0; i < t->xs; i++) src[n++] = source(f, t->carries + i);
	o.dys = n;
	for (int i = 0; i < t->ys; i++)
		if (f->grad[t->carries + i] != IR_NONE) src[n++] = f->grad[t->carries + i];
	o.captures = n;
	for (int k = t->carries + t->xs; k < f->n.nsrc; k++) src[n++] = source(f, k);
	o.all = n;
	return o;
}

/* The body: computes one turn again from its carries, and walks back. */
static bool backward_body(flow *f, const turns *t, const order *o)
{
	ir_ref *in = refs(f, (size_t)o->all), *ct = refs(f, (size_t)(t->carries + t->ys)), *wrt = refs(f, f->n.nsrc), *out = refs(f, f->n.nsrc);
	int n = 0, at = o->dys, sums;
	if (!in || !ct || !wrt || !out || !ir_build_enter(&f->b)) return false;
	for (int k = 0; k < o->all; k++) in[k] = ir_build_input(&f->b, k, f->n.site);
	for (int i = 0; i < t->carries; i++) {
		if (!is_float(f->b.at->g, in[o->carry + i])) continue;
		ct[i] = in[n];
		wrt[n++] = in[o->carry + i];
	}
	for (int i = 0; i < t->ys; i++)
		if (f->grad[t->carries + i] != IR_NONE) ct[t->carries + i] = in[at++];
	sums = n;
	for (int k = 0; k < t->captures; k++)
		if (f->want[t->carries + t->xs + k]) wrt[n++] = in[o->captures + k];
	for (int i = 0; i < t->xs; i++)
		if (f->want[t->carries + i]) wrt[n++] = in[o->xs + i];
	ir_ref *slot = refs(f, f->n.nsrc);
	if (!slot) return false;
	for (int k = 0; k < f->n.nsrc; k++) slot[k] = k < t->carries + t->xs ? in[o->carry + k] : in[o->captures + k - t->carries - t->xs];
	if (!walk_back(f, 0, f->n.nsrc, slot, ct, n, wrt, out)) return false;
	for (int k = 0; k < o->carry - o->sums; k++) out[sums + k] = ir_op2(f->b.at->g, IR_add, in[o->sums + k], out[sums + k], f->n.site);
	return ir_build_yield(&f->b, n, out);
}

static bool grad_scan(flow *f)
{
	const turns t = turns_of(f);
	ir_ref *carry = refs(f, (size_t)t.carries), *src = refs(f, 3 * (size_t)f->n.nsrc + (size_t)t.ys);
	if (!carry || !src || !carries_of(f, &t, carry)) return false;
	const order o = backward_operands(f, &t, carry, src);
	const int64_t attr[4] = { o.carry, o.captures - o.carry, t.attr[2], !t.attr[3] };
	if (!ir_build_open(&f->b, IR_scan, o.all, src, attr, f->n.site) || !backward_body(f, &t, &o)) return false;
	const ir_ref made = ir_build_close(&f->b);
	if (made == IR_NONE) return false;
	int at = 0;
	for (int i = 0; i < t.carries; i++) {
		if (!is_float(f->g, source(f, i))) continue;
		if (f->want[i]) f->to[i] = ir_get(f->g, made, at, f->n.site);
		at++;
	}
	for (int k = t.carries + t.xs; k < f->n.nsrc; k++)
		if (f->want[k]) f->to[k] = ir_get(f->g, made, at++, f->n.site);
	for (int k = t.carries; k < t.carries + t.xs; k++)
		if (f->want[k]) f->to[k] = ir_get(f->g, made, at++, f->n.site);
	return true;
}

/* ---- one node ---- */
bool ir_vjp_flow(ir_graph *g, ir_ref r, const ir_ref *grad, const bool *want, ir_ref *to)
{
	flow f = { .g = g, .n = *ir_at(g, r), .grad = grad, .want = want, .to = to };
	ir_build_begin(&f.b, g);
	const bool ok = f.n.op == IR_cond ? grad_cond(&f) : grad_scan(&f);
	const rt_err err = *ir_build_error(&f.b);
	if (!ok && g->err.code == TJ_OK) g->err = err;
	if (!ok) rt_fail(&g->err, TJ_ERR_NOMEM, "grad", "out of memory");
	ir_build_end(&f.b);
	rt_arena_free(&f.mem);
	return ok;
}
