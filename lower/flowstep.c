/* SPDX-License-Identifier: MIT */
/* flowstep: control flow becomes a step (runtime/control.c); its regions, graphs of their own, are lowered before it (lower.c).
 *
 * requires every value decided (fuse.c)
 *
 * The node has no value; its buffer is the step's workspace. It holds results that nobody reads, second buffers of carries, the
 * byte of a condition, the regions' arena, pointers, and row-major copies of operands. It is live during this step only. */
#include "lower/low.h"

void lo_count_regions(rt_plan *p)
{
	for (uint32_t i = 0; i < p->nstep; i++)
		for (int k = 0; p->step[i].flow && k < 2; k++) {
			const rt_exec *x = p->step[i].flow->region[k];
			if (!x) continue;
			p->exec.kernels += x->kernels;
			p->exec.compiled += x->compiled;
			p->exec.library_calls += x->library_calls;
			p->exec.eval_steps += x->eval_steps;
			p->exec.code_bytes += x->code_bytes;
			p->exec.bytes += x->bytes;
			p->exec.packed_bytes += x->packed_bytes;
			p->exec.known_bytes += x->known_bytes;
			p->exec.codegen_ms += x->codegen_ms;
		}
}

/* ---- operands ---- */
static bool row_major(const lo_low *L, ir_ref r, const lo_access *a)
{
	int64_t plain[TJ_MAX_RANK];
	const ir_node *n = lo_node(L, r);
	ir_contiguous(n->rank, lo_dim(L, r), plain);
	for (int i = 0; i < n->rank; i++)
		if (lo_dim(L, r)[i] > 1 && a->stride[i] != plain[i]) return false;
	return true;
}

/* Without kernels, the step itself copies operands that are not row-major. */
bool lo_flow_takes(const lo_low *L, ir_ref r, const lo_access *a)
{
	return !lo_target_of(L, r) || row_major(L, r, a);
}

/* ---- workspace ---- */
typedef struct layout {
	const ir_node *n;
	ir_ref ref;
	uint32_t first, nslot, ncarry, nxs, nresult;
	ir_ref *get;             /* by result: its `get` node, or IR_NONE */
	uint32_t work[RT_DEVICES]; /* the workspace on each device; LO_NOBUF: not made */
	int64_t end[RT_DEVICES]; /* of the workspaces */
} layout;

static int64_t bytes_of(const ir_meta *m)
{
	int64_t n = 0;
	rt_numel(m->rank, m->dim, &n);
	return n * (int64_t)tj_dtype_size((tj_dtype)m->dtype);
}

static int64_t result_bytes(const lo_low *L, const layout *y, uint32_t i)
{
	const ir_meta m = ir_flow_result(L->g, y->n, (int)i);
	return bytes_of(&m);
}

static int result_device(const lo_low *L, const layout *y, uint32_t i) { return ir_flow_result(L->g, y->n, (int)i).device; }

static bool open_layout(lo_low *L, ir_ref r, layout *y)
{
	const ir_node *n = lo_node(L, r);
	*y = (layout){ .n = n, .ref = r, .first = n->op == IR_cond, .nresult = (uint32_t)ir_flow_results(L->g, n) };
	y->nslot = n->nsrc - y->first;
	y->ncarry = (uint32_t)ir_flow_carries(L->g, n);
	y->nxs = n->op == IR_scan ? (uint32_t)ir_attr(L->g, n)[2] : 0;
	y->get = lo_mem(L, sizeof *y->get * (y->nresult + 1));
	if (!y->get) return false;
	for (uint32_t i = 0; i < y->nresult; i++) y->get[i] = IR_NONE;
	for (uint32_t u = L->nuser[r]; u < L->nuser[r + 1]; u++) {
		ir_ref get = L->user[u];
		if (L->val[get].own && ir_numel(L->g, get)) y->get[ir_attr(L->g, lo_node(L, get))[0]] = get;
	}
	return true;
}

static size_t region_arena(const lo_low *L, ir_ref r, int device)
{
	size_t most = 0;
	for (int k = 0; L->region && k < 2; k++) {
		const rt_exec *x = L->region[r][k];
		if (x && x->arena_bytes[device] > most) most = x->arena_bytes[device];
	}
	return most;
}

/* Buffers of the step in the order of rt_flow_order(): each a number in lo_low.buf and an offset. at NULL: only counts. */
typedef struct places { uint32_t n; rt_at *at; } places;

static void put(places *p, uint32_t i, uint32_t buf, int64_t offset)
{
	if (p->at) p->at[i] = (rt_at){ .buf = buf, .offset = offset };
	p->n++;
}

/* Buffer i of the step is a part of the workspace. */
static void put_work(layout *y, places *p, uint32_t i, int device, int64_t bytes)
{
	put(p, i, y->work[device], y->end[device]);
	y->end[device] += ((bytes ? bytes : 1) + RT_LINE - 1) / RT_LINE * RT_LINE;
}

static void put_operand(lo_low *L, ir_ref r, int k, uint32_t i, places *p)
{
	lo_access a;
	lo_operand_of(L, r, k, &a);
	put(p, i, lo_buf_at(L, &a), a.offset * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, ir_src(L->g, lo_node(L, r), k))->dtype));
}

static void put_buffers(lo_low *L, layout *y, places *p)
{
	const rt_flow_bufs to = rt_flow_order((rt_flow_kind)(y->n->op - IR_cond), y->nslot, y->nresult, y->ncarry);
	uint32_t copy = to.copies;
	for (uint32_t k = 0; k < y->n->nsrc; k++) put_operand(L, y->ref, (int)k, to.operand - y->first + k, p);
	for (uint32_t i = 0; i < y->nresult; i++) {
		if (y->get[i] != IR_NONE) put(p, to.result + i, lo_buf_of(L, y->get[i]), 0);
		else put_work(y, p, to.result + i, result_device(L, y, i), result_bytes(L, y, i));
	}
	for (uint32_t i = 0; i < y->ncarry; i++) put_work(y, p, to.second + i, result_device(L, y, i), result_bytes(L, y, i));
	put_work(y, p, to.truth, RT_CPU, 1);
	put_work(y, p, to.arena, RT_CPU, (int64_t)region_arena(L, y->ref, RT_CPU));
	put_work(y, p, to.pointers, RT_CPU, (int64_t)((y->nslot + y->nresult) * sizeof(void *)));
	for (uint32_t k = 0; k < y->nslot; k++) {
		lo_access a;
		ir_ref src = ir_src(L->g, y->n, (int)(k + y->first));
		lo_operand_of(L, y->ref, (int)(k + y->first), &a);
		const ir_meta m = ir_meta_of(L->g, src);
		if (!row_major(L, src, &a)) put_work(y, p, copy++, m.device, bytes_of(&m));
	}
	for (int d = RT_CPU + 1; d < RT_DEVICES; d++) {
		size_t arena = region_arena(L, y->ref, d);
		if (arena) put_work(y, p, copy++, d, (int64_t)arena);
	}
}

static void make_work(lo_low *L, const layout *y, lo_step *t)
{
	for (int d = 0; d < RT_DEVICES; d++) {
		t->work[d] = d == RT_CPU ? lo_buf_of(L, y->ref)
		             : y->end[d] ? lo_new_buf(L, (lo_buffer){ .place = RT_AT_ARENA, .device = (uint8_t)d })
		                         : LO_NOBUF;
		if (t->work[d] == LO_NOBUF || L->oom) continue;
		L->buf.v[t->work[d]].bytes = y->end[d];
		lo_touch(L, t, t->work[d], true);
	}
}

void lo_add_flow(lo_low *L, ir_ref r)
{
	layout y;
	lo_step s = { .kind = LO_STEP_FLOW, .ref = r, .group = LO_NOGROUP };
	if (!open_layout(L, r, &y) || !rt_push(&L->step, s)) {
		L->oom = true;
		return;
	}
	put_buffers(L, &y, &(places){ 0 }); /* counts the bytes on each device */
	if (L->oom) return;
	lo_step *t = &L->step.v[L->step.n - 1];
	make_work(L, &y, t);
	if (L->oom) return;
	for (int k = 0; k < y.n->nsrc; k++) {
		lo_access a;
		lo_operand_of(L, r, k, &a);
		lo_touch(L, t, lo_buf_at(L, &a), false);
	}
	for (uint32_t i = 0; i < y.nresult; i++)
		if (y.get[i] != IR_NONE) lo_touch(L, t, lo_buf_of(L, y.get[i]), true);
}

/* ---- the plan ---- */
static bool put_packs(lo_low *L, rt_plan *p, const layout *y, rt_flow *f)
{
	for (uint32_t k = 0; k < y->nslot; k++) {
		lo_access a;
		ir_ref src = ir_src(L->g, y->n, (int)(k + y->first));
		lo_operand_of(L, y->ref, (int)(k + y->first), &a);
		if (row_major(L, src, &a)) continue;
		rt_packed *q = f->pack[k] = rt_arena_alloc(&p->mem, sizeof *q);
		if (!q) return false;
		q->device = lo_node(L, src)->device;
		f->npack++;
		q->rank = lo_node(L, src)->rank;
		q->size = tj_dtype_size((tj_dtype)lo_node(L, src)->dtype);
		memcpy(q->dim, lo_dim(L, src), sizeof *q->dim * (size_t)q->rank);
		memcpy(q->stride, a.stride, sizeof *q->stride * (size_t)q->rank);
	}
	return true;
}

/* count is the number of turns that node r ran. */
static bool counts(const lo_low *L, ir_ref r, ir_ref count)
{
	const ir_node *n = lo_node(L, r), *c = lo_node(L, count);
	if (n->op == IR_scan) return ir_flow_count(L->g, n) == count;
	return c->op == IR_get && ir_src(L->g, c, 0) == r && ir_attr(L->g, c)[0] < ir_flow_carries(L->g, n) &&
	       ir_is_counter(L->g, n, (int)ir_attr(L->g, c)[0]);
}

/* Something reads slices of `get`, ys of node r, whose turns did not run: all that does not walk through them by r's number of turns. */
static bool is_seen(const lo_low *L, ir_ref r, ir_ref get)
{
	for (uint32_t i = 0; i < L->g->out.n; i++)
		if (L->g->out.v[i] == get) return true;
	for (uint32_t u = L->nuser[get]; u < L->nuser[get + 1]; u++) {
		const ir_node *n = lo_node(L, L->user[u]);
		const int carries = ir_is_flow(n->op) ? ir_flow_carries(L->g, n) : 0;
		if (n->op != IR_scan || ir_flow_count(L->g, n) == IR_NONE || !counts(L, r, ir_flow_count(L->g, n))) return true;
		for (int k = 0; k < n->nsrc; k++)
			if (ir_src(L->g, n, k) == get && (k < carries || k >= carries + ir_attr(L->g, n)[2])) return true;
	}
	return false;
}

static rt_flow *new_flow(lo_low *L, rt_plan *p, const layout *y)
{
	const int64_t *attr = ir_attr(L->g, y->n);
	rt_flow *f = rt_arena_alloc(&p->mem, sizeof *f);
	if (!f) return NULL;
	*f = (rt_flow){ .kind = (uint8_t)(y->n->op - IR_cond), .nslot = y->nslot, .ncarry = y->ncarry, .nxs = y->nxs, .nresult = y->nresult };
	if (y->n->op != IR_cond) f->turns = ir_flow_turns(L->g, y->n);
	if (y->n->op == IR_scan) {
		f->reverse = attr[4] != 0;
		f->counted = attr[5] != 0;
	}
	f->bytes = rt_arena_alloc(&p->mem, sizeof *f->bytes * (y->nresult + y->nxs + 1u));
	f->device = rt_arena_alloc(&p->mem, y->nresult + 1u);
	f->clear = rt_arena_alloc(&p->mem, y->nresult + 1u);
	f->pack = rt_arena_alloc(&p->mem, sizeof *f->pack * (y->nslot + 1u));
	f->site = y->n->site ? rt_arena_strdup(&p->mem, y->n->site) : NULL;
	if (!f->bytes || !f->device || !f->clear || !f->pack || (y->n->site && !f->site)) return NULL;
	bool slices = y->n->op != IR_cond && f->turns;
	for (uint32_t i = 0; i < y->nresult; i++) f->clear[i] = y->get[i] != IR_NONE && is_seen(L, y->ref, y->get[i]);
	for (uint32_t i = 0; i < y->nresult; i++) f->device[i] = (uint8_t)result_device(L, y, i);
	for (uint32_t i = 0; i < y->nresult; i++) f->bytes[i] = result_bytes(L, y, i) / (slices && i >= y->ncarry ? f->turns : 1);
	for (uint32_t i = 0; i < y->nxs; i++) {
		const ir_meta m = ir_meta_of(L->g, ir_src(L->g, y->n, (int)(y->ncarry + i)));
		f->bytes[y->nresult + i] = slices ? bytes_of(&m) / f->turns : 0;
	}
	return f;
}

_Static_assert((int)RT_COND == IR_cond - IR_cond && (int)RT_WHILE == IR_while - IR_cond && (int)RT_SCAN == IR_scan - IR_cond,
               "one order of kinds");
bool lo_put_flow(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	layout y;
	if (!open_layout(L, s->ref, &y)) return false;
	rt_flow *f = new_flow(L, p, &y);
	places at = { 0 };
	put_buffers(L, &y, &at);
	at.at = lo_step_operands(p, t, at.n);
	if (!f || !at.at || !put_packs(L, p, &y, f)) return false;
	memset(y.end, 0, sizeof y.end);
	memcpy(y.work, s->work, sizeof y.work);
	at.n = 0;
	put_buffers(L, &y, &at);
	for (int d = RT_CPU + 1; d < RT_DEVICES; d++)
		if (region_arena(L, y.ref, d)) f->arena_on[f->narena++] = (uint8_t)d;
	t->kind = RT_STEP_FLOW;
	t->name = ir_ops[y.n->op].name;
	for (int k = 0; L->region && k < ir_flow_info(y.n->op)->nregion; k++) {
		f->region[k] = L->region[s->ref][k];
		__atomic_add_fetch(&f->region[k]->refs, 1, __ATOMIC_RELAXED);
	}
	t->flow = f; /* last: from here on the plan holds the references */
	return !L->oom;
}
