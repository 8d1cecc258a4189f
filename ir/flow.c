/* SPDX-License-Identifier: MIT */
/* flow: control flow in the graph: cond, while, scan. A node holds its regions, graphs that never change once they are
 * attached, and shares them with its copies; its results are picked by get (tuple.c).
 *
 *   %2 = while %0 %1 max_turns=0
 *     cond:
 *       %0 = input f32[] slot=0                slot k: operand k of the node, carries first
 *       %1 = num f64 slot=0                    numbers are those of the graph around
 *       ...
 *       ret %3
 *     body:
 *       ...
 *       ret %2
 *   %3 = get f32[] %2 i=0
 *
 * Other passes look at the node's operands only; a region is simplified when it is made and lowered as a graph of its own. */
#include "ir/ir.h"
#include "runtime/exec.h"

static const ir_flowinfo infos[] = {
	[IR_cond - IR_cond] = { 2, 0, 0, { "then", "else" }, { NULL } },
	[IR_while - IR_cond] = { 2, 2, 1, { "cond", "body" }, { "max_turns", "ys" } },
	[IR_scan - IR_cond] = { 1, 5, 4, { "body" }, { "carries", "xs", "length", "reverse", "counted" } },
};
const ir_flowinfo *ir_flow_info(int op) { return &infos[op - IR_cond]; }

/* ---- regions ---- */
ir_graph *ir_region_new(void)
{
	ir_graph *r = rt_calloc(sizeof *r);
	if (r) r->owners = 1;
	return r;
}

ir_graph *ir_region_ref(ir_graph *r)
{
	__atomic_add_fetch(&r->owners, 1, __ATOMIC_RELAXED);
	return r;
}

void ir_region_unref(ir_graph *r)
{
	if (!r || __atomic_sub_fetch(&r->owners, 1, __ATOMIC_ACQ_REL)) return;
	ir_graph_free(r);
	rt_free(r);
}

ir_graph *ir_flow_region(const ir_graph *g, const ir_node *n, int k) { return g->region.v[ir_attr(g, n)[k]]; }

/* ---- equality ---- */
static bool same_attr(const ir_graph *a, const ir_node *x, const ir_graph *b, const ir_node *y)
{
	const int64_t *p = ir_attr(a, x), *q = ir_attr(b, y);
	if (x->op == IR_data) {
		const ir_blob *s = &a->data.v[p[0]], *t = &b->data.v[q[0]];
		return s->nbytes == t->nbytes && s->hash == t->hash && !memcmp(s->bytes, t->bytes, (size_t)s->nbytes);
	}
	int regions = ir_is_flow(x->op) ? ir_flow_info(x->op)->nregion : 0;
	for (int k = 0; k < regions; k++)
		if (!ir_same_graph(a->region.v[p[k]], b->region.v[q[k]])) return false;
	for (int k = regions; k < x->nattr; k++)
		if (p[k] != q[k]) return false;
	return true;
}

static bool same_node(const ir_graph *a, const ir_node *x, const ir_graph *b, const ir_node *y)
{
	if (x->op != y->op || x->dtype != y->dtype || x->rank != y->rank || x->weak != y->weak || x->device != y->device ||
	    x->mode != y->mode || x->nsrc != y->nsrc || x->nattr != y->nattr)
		return false;
	for (int k = 0; k < x->nsrc; k++)
		if (ir_src(a, x, k) != ir_src(b, y, k)) return false;
	for (int k = 0; k < x->rank; k++)
		if (ir_dims(a, x)[k] != ir_dims(b, y)[k]) return false;
	return same_attr(a, x, b, y);
}

static bool same_refs(const ir_ref *a, const ir_ref *b, int n) { return !n || !memcmp(a, b, sizeof *a * (size_t)n); }

static bool same_record(const ir_custom *a, const ir_custom *b)
{
	if (a->nin != b->nin || a->nout != b->nout || a->again != b->again || !same_refs(a->in, b->in, a->nin) ||
	    !same_refs(a->out, b->out, a->nout))
		return false;
	return a->again || (same_refs(a->leaf, b->leaf, a->nout) && same_refs(a->grad, b->grad, a->nin));
}

bool ir_same_graph(const ir_graph *a, const ir_graph *b)
{
	if (a == b) return true;
	if (a->node.n != b->node.n || a->out.n != b->out.n || a->custom.n != b->custom.n) return false;
	for (uint32_t i = 0; i < a->custom.n; i++)
		if (!same_record(a->custom.v[i], b->custom.v[i])) return false;
	for (ir_ref r = 0; r < a->node.n; r++)
		if (!same_node(a, ir_at(a, r), b, ir_at(b, r))) return false;
	for (uint32_t i = 0; i < a->out.n; i++)
		if (a->out.v[i] != b->out.v[i]) return false;
	return true;
}

/* The index of the region; equal regions share one, so that equal nodes have equal attributes. UINT32_MAX: out of memory. */
static uint32_t intern(ir_graph *g, ir_graph *r)
{
	for (uint32_t i = 0; i < g->region.n; i++)
		if (ir_same_graph(g->region.v[i], r)) return i;
	if (!rt_push(&g->region, r)) return UINT32_MAX;
	ir_region_ref(r);
	return g->region.n - 1;
}

/* ---- results ---- */
int ir_flow_results(const ir_graph *g, const ir_node *n)
{
	return (int)ir_flow_region(g, n, ir_flow_info(n->op)->nregion - 1)->out.n;
}

int ir_flow_carries(const ir_graph *g, const ir_node *n)
{
	return n->op == IR_cond ? 0 : n->op == IR_scan ? (int)ir_attr(g, n)[1] : ir_flow_results(g, n) - (int)ir_attr(g, n)[3];
}

int64_t ir_flow_turns(const ir_graph *g, const ir_node *n) { return ir_attr(g, n)[n->op == IR_scan ? 3 : 2]; }

ir_ref ir_flow_count(const ir_graph *g, const ir_node *n)
{
	const int64_t *attr = ir_attr(g, n);
	return n->op == IR_scan && attr[5] ? ir_src(g, n, (int)(attr[1] + attr[2])) : IR_NONE;
}

ir_meta ir_flow_result(const ir_graph *g, const ir_node *n, int i)
{
	const ir_graph *body = ir_flow_region(g, n, ir_flow_info(n->op)->nregion - 1);
	ir_meta m = ir_meta_of(body, body->out.v[i]);
	m.weak = false;
	if (n->op == IR_cond || i < ir_flow_carries(g, n) || m.rank == TJ_MAX_RANK) return m;
	memmove(m.dim + 1, m.dim, sizeof *m.dim * m.rank++);
	m.dim[0] = ir_flow_turns(g, n);
	return m;
}

static bool is_whole(const ir_graph *g, ir_ref r, int64_t value)
{
	const ir_node *n = ir_at(g, r);
	return n->op == IR_const && n->dtype == TJ_I64 && !n->rank && n->device == RT_CPU && ir_const_value(g, n).i == value;
}

bool ir_is_counter(const ir_graph *g, const ir_node *n, int k)
{
	const ir_graph *body = ir_flow_region(g, n, ir_flow_info(n->op)->nregion - 1);
	const ir_node *x = ir_at(body, body->out.v[k]);
	if (x->op != IR_add || x->dtype != TJ_I64 || !is_whole(g, ir_src(g, n, k), 0)) return false;
	for (int side = 0; side < 2; side++) {
		const ir_node *in = ir_at(body, ir_src(body, x, side));
		if (in->op == IR_input && ir_attr(body, in)[0] == k && is_whole(body, ir_src(body, x, 1 - side), 1)) return true;
	}
	return false;
}

bool ir_flow_has(const ir_graph *g, const ir_node *n, bool (*test)(const ir_graph *g, ir_ref r, const void *env), const void *env)
{
	for (int k = 0; k < ir_flow_info(n->op)->nregion; k++) {
		const ir_graph *r = ir_flow_region(g, n, k);
		for (ir_ref i = 0; i < r->node.n; i++) {
			const ir_node *x = ir_at(r, i);
			if (ir_is_flow(x->op) ? ir_flow_has(r, x, test, env) : test(r, i, env)) return true;
		}
	}
	return false;
}

/* ---- checks ---- */
RT_PRINTF(3, 4)
static bool bad(const ir_node *n, rt_err *err, const char *fmt, ...)
{
	char what[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	rt_fail(err, TJ_ERR_STATE, ir_ops[n->op].name, "%s", what);
	return false;
}

/* The type of the value that slot k of a region stands for. */
static bool slot_type(const ir_graph *g, const ir_node *n, int64_t k, ir_meta *m)
{
	int64_t at = k + (n->op == IR_cond), carries = ir_flow_carries(g, n);
	if (k < 0 || at >= n->nsrc) return false;
	*m = ir_meta_of(g, ir_src(g, n, (int)at));
	if (n->op != IR_scan || k < carries || k >= carries + ir_attr(g, n)[2]) return true;
	if (!m->rank || m->dim[0] != ir_attr(g, n)[3]) return false;
	memmove(m->dim, m->dim + 1, sizeof *m->dim * --m->rank);
	return true;
}

static bool inputs_ok(const ir_graph *g, const ir_node *n, int k, rt_err *err)
{
	const ir_graph *r = ir_flow_region(g, n, k);
	for (ir_ref i = 0; i < r->node.n; i++) {
		ir_meta want, have;
		if (ir_at(r, i)->op != IR_input) continue;
		have = ir_meta_of(r, i);
		if (!slot_type(g, n, ir_attr(r, ir_at(r, i))[0], &want) || !ir_same_type(&want, &have))
			return bad(n, err, "%s: input %%%u does not have the type of its operand", ir_flow_info(n->op)->region[k], i);
	}
	return true;
}

/* The outputs of a region have the types of the carries (while, scan) or of the other region's outputs (cond). */
static bool outputs_ok(const ir_graph *g, const ir_node *n, rt_err *err)
{
	const ir_graph *a = ir_flow_region(g, n, 0), *b = n->op == IR_scan ? a : ir_flow_region(g, n, 1);
	const int64_t carries = ir_flow_carries(g, n);
	static const ir_meta truth = { .dtype = TJ_BOOL };
	if (carries < 0 || carries > b->out.n || carries > n->nsrc || !b->out.n) return bad(n, err, "wrong number of results");
	if (n->op == IR_while && (ir_flow_turns(g, n) < 0 || (carries < b->out.n && !ir_flow_turns(g, n))))
		return bad(n, err, "there is no limit of turns");
	for (int64_t i = carries; n->op != IR_cond && i < b->out.n; i++)
		if (ir_at(b, b->out.v[i])->rank == TJ_MAX_RANK) return bad(n, err, "a slice of ys has no room for one more axis");
	for (int64_t i = 0; i < carries; i++) {
		ir_meta x = ir_meta_of(g, ir_src(g, n, (int)i)), y = ir_meta_of(b, b->out.v[i]);
		if (!ir_same_type(&x, &y)) return bad(n, err, "carry %lld changes its type", (long long)i);
	}
	if (n->op == IR_scan) return true;
	ir_meta p = n->op == IR_cond ? ir_meta_of(g, ir_src(g, n, 0)) : a->out.n == 1 ? ir_meta_of(a, a->out.v[0]) : (ir_meta){ 0 };
	if (!ir_same_type(&p, &truth) || (n->op == IR_while && a->out.n != 1)) return bad(n, err, "the condition is not bool[]");
	for (uint32_t i = 0; n->op == IR_cond && i < a->out.n; i++) {
		ir_meta x = ir_meta_of(a, a->out.v[i]), y = i < b->out.n ? ir_meta_of(b, b->out.v[i]) : (ir_meta){ .rank = 1 };
		if (!ir_same_type(&x, &y)) return bad(n, err, "output %u has another type in each region", i);
	}
	return n->op != IR_cond || a->out.n == b->out.n || bad(n, err, "wrong number of results");
}

bool ir_flow_check(const ir_graph *g, ir_ref r, rt_err *err)
{
	const ir_node *n = ir_at(g, r);
	const ir_flowinfo *info = ir_flow_info(n->op);
	if (n->nattr != info->nregion + info->nattr || (n->op == IR_cond && !n->nsrc))
		return bad(n, err, "wrong number of attributes or operands");
	for (int k = 0; k < info->nattr; k++)
		if (ir_attr(g, n)[info->nregion + k] < 0) return bad(n, err, "%s is negative", info->attr[k]);
	for (int k = 0; k < info->nregion; k++) {
		int64_t at = ir_attr(g, n)[k];
		if (at < 0 || at >= g->region.n) return bad(n, err, "no such region");
		if (ir_verify(g->region.v[at], err) != TJ_OK || !inputs_ok(g, n, k, err)) return false;
	}
	for (int k = 0; k < n->nsrc; k++)
		if (ir_at(g, ir_src(g, n, k))->weak) return bad(n, err, "operand %d is a number", k);
	if (n->op == IR_scan && ir_attr(g, n)[1] + ir_attr(g, n)[2] + !!ir_attr(g, n)[5] > n->nsrc) return bad(n, err, "too few operands");
	if (ir_flow_count(g, n) != IR_NONE) {
		const ir_meta m = ir_meta_of(g, ir_flow_count(g, n)), count = { .dtype = TJ_I64 };
		if (!ir_same_type(&m, &count)) return bad(n, err, "the number of turns is not i64[] on the CPU");
	}
	for (int i = 0; n->op == IR_scan && i < ir_attr(g, n)[2]; i++) {
		ir_meta m;
		if (!slot_type(g, n, ir_attr(g, n)[1] + i, &m)) return bad(n, err, "xs %d does not have the length of the scan", i);
	}
	return outputs_ok(g, n, err);
}

/* ---- making them ---- */
static ir_ref nomem(ir_graph *g)
{
	rt_fail(&g->err, TJ_ERR_NOMEM, "graph", "out of memory");
	return IR_NONE;
}

ir_ref ir_flow(ir_graph *g, ir_op op, int nsrc, const ir_ref *src, ir_graph *const *region, const int64_t *attr, const char *site)
{
	const ir_flowinfo *info = ir_flow_info(op);
	int64_t all[2 + IR_FLOW_ATTRS];
	const ir_meta none = IR_TUPLE;
	for (int k = 0; k < nsrc; k++)
		if (src[k] == IR_NONE) return IR_NONE;
	for (int k = 0; k < info->nregion; k++) {
		uint32_t at = intern(g, region[k]);
		if (at == UINT32_MAX) return nomem(g);
		all[k] = at;
	}
	if (info->nattr) memcpy(all + info->nregion, attr, sizeof *attr * info->nattr);
	return ir_append(g, op, &none, nsrc, src, info->nregion + info->nattr, all, site);
}

ir_ref ir_flow_copy(ir_graph *g, const ir_graph *from, const ir_node *n, const ir_ref *src)
{
	ir_graph *region[2] = { NULL, NULL };
	int count = ir_flow_info(n->op)->nregion;
	for (int k = 0; k < count; k++) region[k] = ir_flow_region(from, n, k);
	return ir_flow(g, (ir_op)n->op, n->nsrc, src, region, ir_attr(from, n) + count, n->site);
}

/* ---- the evaluator: plain loops, with buffers of its own ---- */
typedef struct job {
	const ir_graph *g;
	const ir_node *n;
	rt_arena mem;
	const void **ext;       /* by slot of the regions, row-major */
	void *const *out;
	const uint64_t *num;
	const ir_eval_opts *o;
	rt_err *err;
} job;

static int64_t bytes_of(const ir_meta *m)
{
	int64_t n = 0;
	rt_numel(m->rank, m->dim, &n);
	return n * (int64_t)tj_dtype_size((tj_dtype)m->dtype);
}

static tj_status run_region(const job *j, int k, void *const *out)
{
	return ir_eval(ir_flow_region(j->g, j->n, k), j->ext, j->num, NULL, out, j->o, j->err);
}

/* New memory for each of the first n results. */
static void **fresh(job *j, int n)
{
	void **p = rt_arena_alloc(&j->mem, sizeof *p * ((size_t)n + 1));
	for (int i = 0; p && i < n; i++) {
		const ir_meta m = ir_flow_result(j->g, j->n, i);
		if (!(p[i] = rt_arena_alloc(&j->mem, (size_t)bytes_of(&m) + 1))) return NULL;
	}
	return p;
}

/* Slices of ys are 0 until their turns run. */
static void clear(const job *j, int carries, int n)
{
	for (int i = carries; i < n; i++) {
		const ir_meta m = ir_flow_result(j->g, j->n, i);
		memset(j->out[i], 0, (size_t)bytes_of(&m));
	}
}

/* Copies the slices that a turn made to their places. */
static void stack(const job *j, int carries, int n, int64_t t, void *const *next)
{
	for (int i = carries; i < n; i++) {
		const ir_meta m = ir_flow_result(j->g, j->n, i);
		const int64_t slice = bytes_of(&m) / ir_flow_turns(j->g, j->n);
		memcpy((char *)j->out[i] + t * slice, next[i], (size_t)slice);
	}
}

/* Copies the new carries to the outputs; the next turn reads them there. */
static void carry(const job *j, int n, void *const *next)
{
	for (int i = 0; i < n; i++) {
		const ir_meta m = ir_flow_result(j->g, j->n, i);
		memcpy(j->out[i], next[i], (size_t)bytes_of(&m));
		j->ext[i] = j->out[i];
	}
}

static tj_status eval_while(job *j)
{
	const int n = ir_flow_results(j->g, j->n), carries = ir_flow_carries(j->g, j->n);
	const int64_t most = ir_flow_turns(j->g, j->n);
	void **next = fresh(j, n);
	if (!next) return rt_fail(j->err, TJ_ERR_NOMEM, "while", "out of memory");
	carry(j, carries, (void *const *)(uintptr_t)j->ext);
	clear(j, carries, n);
	for (int64_t turn = 0;; turn++) {
		uint8_t go = 0;
		void *to = &go;
		tj_status st = run_region(j, 0, &to);
		if (st != TJ_OK || !go) return st;
		if (most && turn == most) return rt_flow_limit(most, j->n->site, j->err);
		if ((st = run_region(j, 1, next)) != TJ_OK) return st;
		carry(j, carries, next);
		stack(j, carries, n, turn, next);
	}
}

static tj_status eval_scan(job *j)
{
	const int64_t *attr = ir_attr(j->g, j->n);
	const int n = ir_flow_results(j->g, j->n), carries = (int)attr[1];
	int64_t turns = attr[3];
	if (attr[5]) turns = rt_flow_limited(*(const int64_t *)j->ext[carries + attr[2]], turns);
	const void **xs = rt_arena_alloc(&j->mem, sizeof *xs * (size_t)(attr[2] + 1));
	void **next = fresh(j, n);
	if (!next || !xs) return rt_fail(j->err, TJ_ERR_NOMEM, "scan", "out of memory");
	for (int i = 0; i < attr[2]; i++) xs[i] = j->ext[carries + i];
	carry(j, carries, (void *const *)(uintptr_t)j->ext);
	clear(j, carries, n);
	for (int64_t turn = 0; turn < turns; turn++) {
		int64_t t = attr[4] ? turns - 1 - turn : turn;
		for (int i = 0; i < attr[2]; i++) {
			const ir_meta m = ir_meta_of(j->g, ir_src(j->g, j->n, carries + i));
			j->ext[carries + i] = (const char *)xs[i] + t * (bytes_of(&m) / attr[3]);
		}
		tj_status st = run_region(j, 0, next);
		if (st != TJ_OK) return st;
		carry(j, carries, next);
		stack(j, carries, n, t, next);
	}
	return TJ_OK;
}

static bool bind(job *j, const ir_value *src)
{
	int first = j->n->op == IR_cond;
	j->ext = rt_arena_alloc(&j->mem, sizeof *j->ext * (j->n->nsrc + 1u));
	for (int k = first; j->ext && k < j->n->nsrc; k++) {
		ir_value row = { .data = rt_arena_alloc(&j->mem, (size_t)bytes_of(&src[k].meta) + 1) };
		if (!row.data) return false;
		if (ir_eval_op(IR_reshape, 0, src[k].meta.dim, src[k].meta.rank, 1, &src[k], &row, j->o, j->n->site, j->err) != TJ_OK) return false;
		j->ext[k - first] = row.data;
	}
	return j->ext != NULL;
}

tj_status ir_eval_flow(const ir_graph *g, ir_ref r, const ir_value *src, const uint64_t *num, void *const *out,
                       const ir_eval_opts *o, rt_err *err)
{
	job j = { .g = g, .n = ir_at(g, r), .out = out, .num = num, .o = o, .err = err };
	tj_status st;
	if (!bind(&j, src)) st = rt_fail(err, TJ_ERR_NOMEM, ir_ops[j.n->op].name, "out of memory");
	else if (j.n->op == IR_cond) st = run_region(&j, !ir_load(TJ_BOOL, src[0].data).i, out);
	else st = j.n->op == IR_while ? eval_while(&j) : eval_scan(&j);
	rt_arena_free(&j.mem);
	return st;
}
