/* SPDX-License-Identifier: MIT */
/* plan: makes the plan that the run time executes, from ordered steps and placed buffers.
 *
 * requires lo_layout; the plan does not point into the graph: everything is copied into its memory */
#include "lower/library.h"
#include "runtime/bytes.h"
#include "runtime/site.h"

/* Copies a constant to its device, if that is not the CPU, by a pool made for this. */
static bool upload(lo_low *L, rt_plan *p, uint32_t i)
{
	const lo_buffer *b = &L->buf.v[i];
	rt_pool *pool = rt_pool_new();
	void *there = pool ? rt_device_alloc(b->device, (size_t)b->bytes + 1) : NULL;
	bool ok = there && rt_bytes_write(pool, b->device, there, b->data, (size_t)b->bytes, L->err) == TJ_OK;
	p->constant[p->buf[i].index] = there; /* the plan owns it, also after an error */
	rt_pool_free(pool); /* waits */
	return ok;
}

static bool copy_consts(lo_low *L, rt_plan *p, uint32_t i)
{
	const lo_buffer *b = &L->buf.v[i];
	if (b->place != RT_AT_CONST) return true;
	if (b->device != RT_CPU) return upload(L, p, i);
	if (b->last < 0) return true; /* no step reads it */
	if (b->panels) return (p->constant[p->buf[i].index] = lo_store_panels(L, p, b)) != NULL;
	if (b->held) return (p->constant[p->buf[i].index] = (void *)(uintptr_t)b->data) != NULL;
	char *bytes = rt_arena_alloc(&p->mem, (size_t)b->bytes + RT_LINE);
	if (!bytes) return false;
	bytes += (RT_LINE - (uintptr_t)bytes % RT_LINE) % RT_LINE;
	if (b->bytes) memcpy(bytes, b->data, (size_t)b->bytes);
	p->constant[p->buf[i].index] = bytes;
	return true;
}

static bool put_bufs(lo_low *L, rt_plan *p)
{
	p->buf = rt_arena_alloc(&p->mem, sizeof *p->buf * L->buf.n);
	p->constant = rt_arena_alloc(&p->mem, sizeof *p->constant * (L->buf.n + 1));
	if (!p->buf || !p->constant) return false;
	p->nbuf = L->buf.n;
	for (uint32_t i = 0, nconst = 0; i < L->buf.n; i++) {
		const lo_buffer *b = &L->buf.v[i];
		uint32_t index = b->place == RT_AT_CONST ? nconst++ : b->place == RT_AT_ARENA ? b->device : b->index;
		p->buf[i] = (rt_pbuf){ .place = b->place, .device = b->device, .index = index, .offset = b->offset, .bytes = b->bytes };
		if (!copy_consts(L, p, i)) return false;
	}
	return true;
}

/* Operands name buffers and offsets into them; replaces these by the places that the buffers have now. */
static void place_operands(rt_plan *p)
{
	for (uint32_t s = 0; s < p->nstep; s++)
		for (uint32_t i = 0; i < p->step[s].nbuf; i++) {
			rt_at *a = &p->step[s].at[i];
			const rt_pbuf *b = &p->buf[a->buf];
			a->place = b->place;
			a->index = b->place == RT_AT_NUM ? 0 : b->index; /* the numbers are one array */
			if (b->place == RT_AT_ARENA) a->offset += b->offset;
			if (b->place == RT_AT_NUM) a->offset += (int64_t)(b->index * sizeof(uint64_t));
		}
}

/* ---- copies between devices ---- */
/* Makes t a step that copies value src, which lies at a; the caller sets at[1], the destination. */
static bool put_elements(lo_low *L, rt_plan *p, ir_ref src, const lo_access *a, rt_step *t)
{
	const ir_node *n = lo_node(L, src);
	const size_t size = tj_dtype_size((tj_dtype)n->dtype);
	rt_elements *e = rt_arena_alloc(&p->mem, sizeof *e);
	int64_t *dims = rt_arena_alloc(&p->mem, sizeof *dims * 2 * (n->rank + 1u));
	rt_at *at = lo_step_operands(p, t, 2);
	if (!e || !dims || !at) return false;
	if (n->rank) {
		memcpy(dims, lo_dim(L, src), sizeof *dims * n->rank);
		memcpy(dims + n->rank, a->stride, sizeof *dims * n->rank);
	}
	at[0] = (rt_at){ .buf = lo_buf_at(L, a), .offset = a->offset * (int64_t)size };
	*e = (rt_elements){ .device = L->buf.v[at[0].buf].device, .rank = n->rank, .size = size, .dim = dims, .stride = dims + n->rank };
	t->kind = RT_STEP_COPY;
	t->copy = e;
	return !L->oom;
}

/* From one device to another one, or a copy on one device. */
static bool put_to(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	lo_access a;
	lo_operand_of(L, s->ref, 0, &a);
	if (!put_elements(L, p, ir_src(L->g, lo_node(L, s->ref), 0), &a, t)) return false;
	t->at[1].buf = lo_buf_of(L, s->ref);
	t->device = lo_node(L, s->ref)->device;
	t->name = "to";
	return true;
}

/* A device without kernels: copies a value, row-major, to an output's buffer. */
static bool put_device_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	lo_access a;
	lo_access_of(L, s->ref, &a);
	if (!put_elements(L, p, s->ref, &a, t)) return false;
	t->at[1] = (rt_at){ .buf = s->dest->buf, .offset = s->dest->offset * (int64_t)t->copy->size };
	t->device = L->buf.v[s->dest->buf].device;
	t->name = "copy";
	return true;
}

static bool put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	return L->buf.v[s->dest->buf].device == RT_CPU ? lo_put_copy(L, p, s, t) : put_device_copy(L, p, s, t);
}

/* ---- kernels ---- */
static const char *keep(rt_plan *p, const char *s)
{
	return !s || rt_site_find(s) ? s : rt_arena_strdup(&p->mem, s);
}

static bool put_faults(rt_plan *p, const lo_built *b, rt_step *t)
{
	uint32_t n = b->k.fault_site.n;
	rt_fault *f = rt_arena_alloc(&p->mem, sizeof *f * (n + 1));
	if (!f) return false;
	for (uint32_t i = 0; i < n; i++)
		f[i] = (rt_fault){ keep(p, b->k.fault_site.v[i]), b->fault[i].op, (tj_status)b->k.fault_code.v[i], b->fault[i].size };
	t->fault = f;
	t->nfault = n;
	return true;
}

/* One more than the greatest slot of a number. */
static uint32_t numbers_of(const lo_low *L)
{
	uint32_t n = 0;
	for (ir_ref r = 0; r < L->g->node.n; r++)
		if (lo_node(L, r)->op == IR_num && ir_attr(L->g, lo_node(L, r))[0] >= n) n = (uint32_t)ir_attr(L->g, lo_node(L, r))[0] + 1;
	return n;
}

static bool put_kernel(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const lo_built *b = s->built;
	rt_at *at = lo_step_operands(p, t, b->nbuf);
	t->device = L->group.v[s->group]->device;
	t->nnum = t->device == RT_CPU ? 0 : L->numbers;
	if (!at || !put_faults(p, b, t)) return false;
	for (uint32_t i = 0; i < b->nbuf; i++) {
		const lo_buffer *buf = &L->buf.v[at[i].buf = b->buf[i]];
		t->over |= buf->place == RT_AT_OUT && L->out[buf->index].alias_ext >= 0;
	}
	t->kind = RT_STEP_KERNEL;
	t->units = lo_units(&b->k, &b->s);
	t->unit_ns = b->s.unit_ns;
	t->grain = b->s.grain;
	t->scratch = b->s.scratch;
	t->shared = b->s.shared;
	t->moved = b->s.target->moved ? b->s.target->moved(&b->k, &b->s) : 0;
	t->name = rt_arena_strdup(&p->mem, b->k.name);
	p->exec.kernels++;
	return t->name != NULL;
}

/* ---- the library ---- */
/* Operands of the kernel `rest` follow those of t. */
static bool append_operands(rt_plan *p, rt_step *t, rt_step *rest)
{
	const rt_at *own = t->at, *more = rest->at;
	const uint32_t n = t->nbuf;
	rt_at *at = lo_step_operands(p, t, n + rest->nbuf);
	if (!at) return false;
	memcpy(at, own, n * sizeof *at);
	memcpy(at + n, more, rest->nbuf * sizeof *at);
	rest->at = at + n;
	return true;
}

static bool put_library(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const lo_routine *x = lo_routine_of(lo_target_of(L, s->ref), (ir_op)lo_node(L, s->ref)->op);
	t->kind = RT_STEP_ROUTINE;
	t->routine = &x->code;
	if (s->epilogue && (!(t->rest = rt_arena_alloc(&p->mem, sizeof *t->rest)) || !put_kernel(L, p, s, t->rest))) return false;
	const bool ok = x->make(L, p, s, t) &&
	                (!t->rest || append_operands(p, t, t->rest)); /* the kernel `rest` runs rarely: its bytes do not count */
	if (t->kind == RT_STEP_KERNEL) p->exec.kernels++;
	else p->exec.library_calls++;
	return ok;
}

/* Reserves room, after the CPU's temporaries, for the operand pointers of the step that has the most. */
static void place_many(rt_plan *p, const int64_t *arena_bytes)
{
	uint32_t most = 0;
	for (uint32_t i = 0; i < p->nstep; i++)
		if (p->step[i].nbuf > most) most = p->step[i].nbuf;
	for (int d = 0; d < RT_DEVICES; d++) p->exec.arena_bytes[d] = (size_t)arena_bytes[d];
	p->many = (p->exec.arena_bytes[RT_CPU] + RT_LINE - 1) / RT_LINE * RT_LINE;
	if (most > RT_FEW_OPERANDS) p->exec.arena_bytes[RT_CPU] = p->many + most * sizeof(void *);
}

static void add_late(rt_plan *p, int device)
{
	int *late = &p->exec.late_faults;
	if (device != RT_CPU) *late = *late == RT_CPU || *late == device ? device : -1;
}

static void sum_up(const lo_low *L, rt_plan *p)
{
	p->exec.full = L->full;
	p->exec.recomputed = L->recomputed;
	if (L->full.bytes) p->exec.full.step = p->step[L->full_step].name;
	for (int d = RT_CPU + 1; d < RT_DEVICES; d++)
		p->exec.devices |= p->exec.arena_bytes[d] != 0; /* what the evaluator computes for a device */
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_step *t = &p->step[i];
		p->exec.moved += (uint64_t)t->moved;
		p->exec.devices |= t->device != RT_CPU || (t->copy && t->copy->device != RT_CPU);
		if (t->device != RT_CPU && t->nfault) add_late(p, t->device);
		for (int k = 0; t->flow && k < 2; k++) {
			if (!t->flow->region[k]) continue;
			p->exec.devices |= t->flow->region[k]->devices;
			add_late(p, t->flow->region[k]->late_faults);
		}
	}
}

/* Also values of which the plan reads panels alone: plans for other sizes find them then. */
static void hold_known(const lo_low *L, rt_plan *p)
{
	for (uint32_t i = 0; i < L->o->ncontent; i++) {
		rt_shared *x = L->o->content[i].held;
		if (!x) continue;
		p->exec.known_bytes += x->bytes;
		lo_hold(p, rt_shared_ref(x));
	}
}

tj_status lo_make_plan(lo_low *L, rt_plan *p)
{
	bool ok = true;
	L->numbers = L->devices ? numbers_of(L) : 0;
	p->step = rt_arena_alloc(&p->mem, sizeof *p->step * L->step.n);
	rt_time *time = rt_arena_alloc(&p->mem, sizeof *time * L->step.n);
	/* room: each kernel may share code, or come from a new object */
	p->shared = rt_arena_alloc(&p->mem, sizeof *p->shared * (2 * L->step.n + L->buf.n + L->o->ncontent + 1));
	if (!p->step || !time || !p->shared) return rt_fail(L->err, TJ_ERR_NOMEM, "lower", "out of memory");
	for (uint32_t i = 0; ok && i < L->step.n; i++) {
		rt_step *t = &p->step[p->nstep++];
		t->time = time++;
		switch ((lo_kind)L->step.v[i].kind) {
		case LO_STEP_KERNEL: ok = put_kernel(L, p, &L->step.v[i], t); break;
		case LO_STEP_LIBRARY: ok = put_library(L, p, &L->step.v[i], t); break;
		case LO_STEP_CALL: ok = lo_put_call(L, p, &L->step.v[i], t); break;
		case LO_STEP_COPY: ok = put_copy(L, p, &L->step.v[i], t); break;
		case LO_STEP_TO: ok = put_to(L, p, &L->step.v[i], t); break;
		case LO_STEP_FLOW: ok = lo_put_flow(L, p, &L->step.v[i], t); break;
		}
	}
	place_many(p, L->arena_bytes);
	hold_known(L, p);
	if (ok && put_bufs(L, p) && lo_put_facts(L, p) && !L->oom) {
		lo_put_bundles(L, p);
		place_operands(p);
		sum_up(L, p);
		return TJ_OK;
	}
	return rt_fail(L->err, TJ_ERR_NOMEM, "lower", "out of memory");
}
