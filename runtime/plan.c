/* SPDX-License-Identifier: MIT */
/* plan: an array of steps over one table of buffers, run in order. */
#include "runtime/bytes.h"
#include "runtime/profile.h"

#include <stdatomic.h>

uint64_t rt_plan_serial(void)
{
	static atomic_ullong last;
	return atomic_fetch_add(&last, 1) + 1;
}

rt_shared *rt_shared_ref(rt_shared *x)
{
	if (x) __atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
	return x;
}

void rt_shared_unref(rt_shared *x)
{
	if (x && __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL) == 0) x->destroy(x);
}

rt_exec *rt_exec_ref(rt_exec *x)
{
	__atomic_add_fetch(&x->refs, 1, __ATOMIC_RELAXED);
	return x;
}

void rt_exec_unref(rt_exec *x)
{
	if (x && __atomic_sub_fetch(&x->refs, 1, __ATOMIC_ACQ_REL) == 0) x->destroy(x);
}

/* ---- running ---- */
typedef struct kernel_run {
	const rt_step *step;
	const rt_kargs *args;    /* of the first thread */
	size_t scratch_step;
} kernel_run;

static void run_units(void *env, int thread, int64_t begin, int64_t end)
{
	const kernel_run *k = env;
	rt_kargs a = *k->args;
	if (a.scratch) a.scratch = (char *)a.scratch + (size_t)thread * k->scratch_step;
	((rt_kernel_fn *)k->step->fn)(&a, begin, end);
}

static tj_status run_kernel(const rt_step *s, void *const *buf, rt_run *r)
{
	if (s->units <= 0) return TJ_OK;
	int32_t fault = 0;
	uint64_t few[RT_FEW_NUMBERS];
	rt_kargs a = { buf, rt_numbers(s, r->num, few), &fault, NULL, s->size };
	if (s->scratch && !(a.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), s->scratch)))
		return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory for scratch rows");
	double ns = (double)s->units * s->unit_ns;
	if (ns < RT_SERIAL_NS) ((rt_kernel_fn *)s->fn)(&a, 0, s->units);
	else rt_team_run(r, s->units, s->grain, ns, run_units, &(kernel_run){ s, &a, (s->scratch + 63) / 64 * 64 });
	if (RT_LIKELY(!fault)) return TJ_OK;
	if ((uint32_t)fault > s->nfault) return rt_fail(r->err, TJ_ERR_COMPILE, s->name, "kernel reported an unknown fault");
	return rt_fault_fail(&s->fault[fault - 1], r->err);
}

/* The launch's numbers are the kernel's own, if any, then the first s->nnum of the plan's, to which operands may point. */
tj_status rt_step_launch(const rt_step *s, void *const *buf, rt_run *r)
{
	uint64_t num[RT_FEW_NUMBERS + RT_FEW_NUMBERS], *all = num;
	void **at = (void **)(uintptr_t)buf;
	const uint32_t own = s->nnumber, n = own + s->nnum;
	rt_queue *q = rt_pool_queue(r->pool, s->device, r->err);
	if (s->units <= 0) return TJ_OK;
	if (!q) return r->err->code;
	if (n > RT_COUNT(num) && !(all = rt_alloc(n * sizeof *all))) return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory");
	for (uint32_t i = 0; i < own; i++) all[i] = r->num[s->number[i]];
	for (uint32_t i = 0; i < s->nnum; i++) all[own + i] = r->num[i];
	for (uint32_t i = 0; i < s->nbuf; i++)
		if (s->at[i].place == RT_AT_NUM) at[i] = (char *)(all + own) + s->at[i].offset;
	const rt_launch l = { .entry = s->fn,
		              .buf = buf,
		              .nbuf = s->nbuf,
		              .num = all,
		              .nnum = n,
		              .size = s->size,
		              .nsize = s->nsize,
		              .units = s->units,
		              .scratch = s->scratch,
		              .shared = s->shared,
		              .fault = s->fault,
		              .nfault = s->nfault,
		              .site = r->site,
		              .unless_failed = s->over };
	if (s->nfault) rt_pool_doubt(r->pool, s->device);
	tj_status st = rt_device_at(s->device)->launch(q, &l, r->err);
	if (all != num) rt_free(all);
	return st;
}

static tj_status copy(const rt_step *s, void *const *buf, rt_run *r)
{
	rt_elements from = *s->copy;
	from.data = buf[0];
	return rt_bytes_copy(r->pool, &from, s->device, buf[1], r->err);
}

static inline __attribute__((always_inline)) tj_status run_step(const rt_step *s, const void *const *const *table, void **many, rt_run *r)
{
	void *few[RT_FEW_OPERANDS], **buf = s->nbuf > RT_FEW_OPERANDS ? many : few;
	rt_operands(s, table, buf);
	switch ((rt_step_kind)s->kind) {
	case RT_STEP_KERNEL: return RT_LIKELY(s->device == RT_CPU) ? run_kernel(s, buf, r) : rt_step_launch(s, buf, r);
	case RT_STEP_COPY: return copy(s, buf, r);
	case RT_STEP_ROUTINE: return s->routine->run(s->self, buf, r);
	case RT_STEP_FLOW: return rt_flow_run(s->flow, buf, r);
	}
	return TJ_OK;
}

static __attribute__((noinline)) tj_status run_rare(const rt_step *s, const void *const *const *table, void **many, rt_run *r)
{
	return run_step(s, table, many, r);
}

/* ---- rows of launches that a device may start as one ---- */
static bool is_launch(const rt_plan *p, uint32_t i, int device)
{
	return i < p->nstep && p->step[i].kind == RT_STEP_KERNEL && p->step[i].device == device && device != RT_CPU;
}

static void begin(const rt_plan *p, uint32_t i, rt_run *r)
{
	const int device = p->step[i].device;
	const rt_device *d = rt_device_at(device);
	rt_queue *q = d && d->begin && is_launch(p, i + 1, device) && !r->singly ? rt_pool_queue(r->pool, device, r->err) : NULL;
	if (q) d->begin(q, p->serial, i);
}

static tj_status end(const rt_plan *p, int device, rt_run *r)
{
	const rt_device *d = rt_device_at(device);
	rt_queue *q = d && d->end ? rt_pool_queue(r->pool, device, r->err) : NULL;
	bool replayed = false;
	tj_status st = q ? d->end(q, &replayed, r->err) : TJ_OK;
	if (replayed) __atomic_add_fetch((uint64_t *)(uintptr_t)&p->exec.replays, 1, __ATOMIC_RELAXED);
	return st;
}

typedef struct measured {
	rt_runner runner;
	const rt_plan *plan;
	const void *const *const *table;
	void **many;
	rt_run *run;
} measured;

static tj_status run_measured_step(const rt_runner *x, uint32_t i, int64_t *spent)
{
	const measured *m = (const measured *)x;
	const rt_step *s = &m->plan->step[i];
	return spent ? rt_bundle_measure(s, m->table, m->run, spent) : run_rare(s, m->table, m->many, m->run);
}

static __attribute__((noinline)) tj_status run_measured(const rt_plan *p, const void *const *const *table, void **many, rt_run *r)
{
	return rt_run_measured(p, r, &(const measured){ { run_measured_step }, p, table, many, r }.runner);
}

static tj_status run_on_devices(const rt_plan *p, const void *const *const *table, void **many, rt_run *r)
{
	tj_status st = TJ_OK;
	for (uint32_t i = 0; i < p->nstep && st == TJ_OK; i++) {
		const int device = p->step[i].device;
		const bool launches = is_launch(p, i, device);
		if (launches && (!i || !is_launch(p, i - 1, device))) begin(p, i, r);
		st = run_rare(&p->step[i], table, many, r);
		if (!launches || (st == TJ_OK && is_launch(p, i + 1, device))) continue;
		const tj_status ended = end(p, device, r); /* also after an error */
		if (st == TJ_OK) st = ended;
	}
	return st;
}

static tj_status no_arena(const rt_exec *x, int device, rt_err *err)
{
	return rt_fail(err, TJ_ERR_NOMEM, "call", "out of memory for %zu bytes of temporaries on %s", x->arena_bytes[device],
	               rt_device_name(device));
}

tj_status rt_plan_run(const rt_exec *x, rt_run *r)
{
	const rt_plan *p = (const rt_plan *)x;
	char *arena = r->arena ? r->arena[RT_CPU] : NULL;
	if (x->arena_bytes[RT_CPU] && !arena && !(arena = rt_pool_arena(r->pool, x->arena_bytes[RT_CPU]))) return no_arena(x, RT_CPU, r->err);
	const void *temporaries[RT_DEVICES], *numbers = r->num; /* temporaries: arena by device; set for devices that the plan uses */
	temporaries[RT_CPU] = arena;
	for (int d = RT_CPU + 1; RT_UNLIKELY(x->devices) && d < RT_DEVICES; d++) {
		if (!x->arena_bytes[d]) continue;
		temporaries[d] = r->arena ? r->arena[d] : rt_pool_arena_on(r->pool, d, x->arena_bytes[d]);
		if (!temporaries[d]) return no_arena(x, d, r->err);
	}
	const void *const *const table[] = { [RT_AT_EXT] = r->ext, [RT_AT_OUT] = (const void *const *)r->out,
	                                     [RT_AT_ARENA] = temporaries, [RT_AT_CONST] = p->constant,
	                                     [RT_AT_NUM] = &numbers };
	void **many = arena ? (void **)(void *)(arena + p->many) : NULL;
	if (RT_UNLIKELY(x->devices | r->profile)) return r->profile ? run_measured(p, table, many, r) : run_on_devices(p, table, many, r);
	tj_status st = TJ_OK;
	for (const rt_step *s = p->step, *last = s + p->nstep; s < last && st == TJ_OK; s += s->bundle ? s->bundle : 1)
		st = RT_UNLIKELY(s->bundle) ? rt_bundle_run(s, table, r) : run_step(s, table, many, r);
	return st;
}

/* ---- looking inside ---- */
static const char *const places[] = { "ext", "out", "arena", "const", "num" };

static void put_operand(const rt_plan *p, const rt_at *a, rt_text *t)
{
	rt_putf(t, " %s", places[a->place]);
	if (a->place == RT_AT_ARENA)
		rt_putf(t, "%s%s+%lld", a->index == RT_CPU ? "" : "@", a->index == RT_CPU ? "" : rt_device_name((int)a->index),
		        (long long)a->offset);
	else if (a->place == RT_AT_NUM) rt_putf(t, "%u", p->buf[a->buf].index);
	else if (a->place == RT_AT_CONST) rt_putf(t, "[%lld bytes]", (long long)p->buf[a->buf].bytes);
	else {
		rt_putf(t, "%u", a->index);
		if (a->offset) rt_putf(t, "+%lld", (long long)a->offset);
	}
}

/* Prints the plans of control flow, each after its name. */
static void put_regions(const rt_plan *p, rt_text *t, tj_dump_what what)
{
	for (uint32_t i = 0; i < p->nstep; i++)
		for (int k = 0; p->step[i].flow && k < 2; k++) {
			const rt_exec *x = p->step[i].flow->region[k];
			if (!x) continue;
			if (what == TJ_DUMP_PLAN) rt_putf(t, "  %s, region %d: ", p->step[i].name, k);
			x->print(x, t, what);
		}
}

static void put_facts(const rt_facts *f, rt_text *t)
{
	const char *site = NULL;
	if (!f) return;
	rt_putf(t, "    reads %lld bytes, writes %lld", (long long)f->read, (long long)f->written);
	if (f->flops > 0) rt_putf(t, ", computes %.0f", f->flops);
	for (uint32_t i = 0; i < f->nop; i++) {
		if (i && site != f->op[i].site) rt_putf(t, " at %s", site ? site : "?");
		rt_putf(t, "%s %s", !i ? ":" : site != f->op[i].site ? "," : "", f->op[i].name);
		site = f->op[i].site;
	}
	rt_putf(t, "%s%s\n", f->nop ? " at " : "", f->nop ? (site ? site : "?") : "");
}

static void put_plan(const rt_plan *p, rt_text *t)
{
	rt_putf(t, "plan: %u steps, %u kernels, %u library calls, %u evaluator steps, arena %zu bytes\n", p->nstep,
	        p->exec.kernels, p->exec.library_calls, p->exec.eval_steps, p->exec.arena_bytes[RT_CPU]);
	for (int d = RT_CPU + 1; d < RT_DEVICES; d++)
		if (p->exec.arena_bytes[d]) rt_putf(t, "  arena of %zu bytes on %s\n", p->exec.arena_bytes[d], rt_device_name(d));
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_step *s = &p->step[i];
		rt_putf(t, "  %-20s", s->name);
		if (s->kind == RT_STEP_KERNEL)
			rt_putf(t, " units=%lld ns=%.0f", (long long)s->units, (double)s->units * s->unit_ns);
		if (s->bundle) rt_putf(t, " with the %u after it", s->bundle - 1);
		if (s->followers) rt_putf(t, ", %u of them in step with it", s->followers);
		if (s->moved) rt_putf(t, " moves %lld bytes", (long long)s->moved);
		if (s->device != RT_CPU) rt_putf(t, " on %s", rt_device_name(s->device));
		rt_put_time(t, s);
		for (uint32_t k = 0; k < s->nbuf; k++) put_operand(p, &s->at[k], t);
		for (uint32_t k = 0; k < s->nnumber; k++) rt_putf(t, " num%u", s->number[k]);
		if (s->rest) rt_putf(t, "; if need be, plain and then %s", s->rest->name);
		rt_puts(t, "\n");
		put_facts(s->facts, t);
	}
	put_regions(p, t, TJ_DUMP_PLAN);
	for (int o = 0; o < p->exec.nout; o++) {
		const rt_out *u = &p->exec.out[o];
		if (u->same_ext >= 0) rt_putf(t, "  out%d is ext%d seen through strides\n", o, u->same_ext);
		else if (u->alias_ext >= 0) rt_putf(t, "  out%d may overwrite ext%d\n", o, u->alias_ext);
	}
}

static void data_facts(const rt_facts *f, rt_json *j)
{
	if (!f) return;
	rt_json_int(j, "read", f->read);
	rt_json_int(j, "wrote", f->written);
	rt_json_number(j, "flops", f->flops);
	rt_json_open(j, "ops", '[');
	for (uint32_t i = 0; i < f->nop; i++) {
		rt_json_open(j, NULL, '{');
		rt_json_str(j, "op", f->op[i].name);
		rt_json_str(j, "site", f->op[i].site ? f->op[i].site : "?");
		rt_json_number(j, "share", (double)f->op[i].share);
		rt_json_close(j, '}');
	}
	rt_json_close(j, ']');
}

static void data_step(const rt_step *s, rt_json *j)
{
	const uint64_t runs = __atomic_load_n(&s->time->runs, __ATOMIC_RELAXED);
	rt_json_open(j, NULL, '{');
	rt_json_str(j, "name", s->name);
	if (s->kind == RT_STEP_KERNEL) rt_json_int(j, "units", s->units);
	if (s->kind == RT_STEP_KERNEL) rt_json_number(j, "estimated_ns", (double)s->units * s->unit_ns);
	if (s->device != RT_CPU) rt_json_str(j, "device", rt_device_name(s->device));
	if (s->moved) rt_json_int(j, "moved", s->moved);
	if (s->rest) rt_json_str(j, "rest", s->rest->name);
	data_facts(s->facts, j);
	if (runs) rt_json_count(j, "runs", runs);
	if (runs) rt_json_count(j, "ns", __atomic_load_n(&s->time->ns, __ATOMIC_RELAXED));
	if (s->flow) {
		rt_json_open(j, "regions", '[');
		for (int k = 0; k < 2; k++) {
			if (!s->flow->region[k]) continue;
			rt_json_open(j, NULL, '{');
			rt_plan_data(s->flow->region[k], j, "steps");
			rt_json_close(j, '}');
		}
		rt_json_close(j, ']');
	}
	rt_json_close(j, '}');
}

void rt_plan_data(const rt_exec *x, rt_json *j, const char *key)
{
	const rt_plan *p = (const rt_plan *)x;
	rt_json_open(j, key, '[');
	for (uint32_t i = 0; i < p->nstep; i++) data_step(&p->step[i], j);
	rt_json_close(j, ']');
}

void rt_plan_print(const rt_exec *x, rt_text *t, tj_dump_what what)
{
	const rt_plan *p = (const rt_plan *)x;
	const char *s = NULL;
	switch (what) {
	case TJ_DUMP_KERNELS: s = p->kernel_text; break;
	case TJ_DUMP_CODE: s = p->code_text; break;
	case TJ_DUMP_ASSEMBLY: s = p->assembly_text; break;
	case TJ_DUMP_PLAN: put_plan(p, t); return;
	default: return; /* jit/ prints the others */
	}
	if (s) rt_puts(t, s);
	if (what != TJ_DUMP_PLAN) put_regions(p, t, what);
}

/* First waits for all devices: launches in their queues may use constants, code and texts of the plan. */
static void free_constants(rt_plan *p)
{
	for (int i = RT_CPU + 1; p->exec.devices && i < RT_DEVICES; i++) {
		const rt_device *d = rt_device_at(i);
		if (d) d->drain(d->self);
		if (d && d->forget) d->forget(d->self, p->serial);
	}
	for (uint32_t i = 0; i < p->nbuf; i++) {
		const rt_pbuf *b = &p->buf[i];
		if (b->place == RT_AT_CONST && b->device != RT_CPU)
			rt_device_free(b->device, (void *)(uintptr_t)p->constant[b->index], (size_t)b->bytes + 1);
	}
}

void rt_plan_destroy(rt_exec *x)
{
	rt_plan *p = (rt_plan *)x;
	free_constants(p);
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_step *s = &p->step[i];
		if (s->routine && s->routine->drop) s->routine->drop(s->self);
		for (int k = 0; s->flow && k < 2; k++) rt_exec_unref(s->flow->region[k]);
	}
	if (p->drop) p->drop(p);
	for (uint32_t i = 0; i < p->nshared; i++) rt_shared_unref(p->shared[i]);
	rt_arena mem = p->mem; /* holds p itself */
	rt_arena_free(&mem);
}
