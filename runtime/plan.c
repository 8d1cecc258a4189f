/* plan: an array of steps over one table of buffers, run in order. */
#include "runtime/exec.h"

#include <stdatomic.h>

#define INLINE_BUFS 256 /* pointers kept on the stack; a plan with more asks the heap */

rt_code *rt_code_ref(rt_code *code)
{
	if (code) __atomic_add_fetch(&code->refs, 1, __ATOMIC_RELAXED);
	return code;
}

void rt_code_unref(rt_code *code)
{
	if (code && __atomic_sub_fetch(&code->refs, 1, __ATOMIC_ACQ_REL) == 0) code->destroy(code);
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
static void place(const rt_plan *p, const rt_run *r, char *arena, void **base)
{
	for (uint32_t i = 0; i < p->nbuf; i++) {
		const rt_pbuf *b = &p->buf[i];
		switch ((rt_place)b->place) {
		case RT_AT_EXT: base[i] = (void *)(uintptr_t)r->ext[b->slot]; break;
		case RT_AT_OUT: base[i] = r->out[b->slot]; break;
		case RT_AT_ARENA: base[i] = arena + b->offset; break;
		case RT_AT_CONST: base[i] = (void *)(uintptr_t)b->data; break;
		}
	}
}

typedef struct kernel_run {
	const rt_step *step;
	rt_kargs args;
	char *scratch;
	size_t scratch_step;
} kernel_run;

static void run_units(void *env, int thread, int64_t begin, int64_t end)
{
	const kernel_run *k = env;
	rt_kargs a = k->args;
	a.scratch = k->scratch ? k->scratch + (size_t)thread * k->scratch_step : NULL;
	k->step->fn(&a, begin, end);
}

static tj_status run_kernel(const rt_step *s, void *const *buf, rt_run *r)
{
	if (s->units <= 0) return TJ_OK;
	int32_t fault = 0;
	kernel_run k = { s, { buf, r->num, &fault, NULL, s->size }, NULL, (s->scratch + 63) / 64 * 64 };
	if (s->scratch) {
		k.scratch = rt_pool_scratch(r->pool, rt_team_size(r->team), s->scratch);
		if (!k.scratch) return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory for scratch rows");
	}
	rt_team_run(r->team, s->units, (double)s->units * s->unit_ns, run_units, &k);
	if (RT_LIKELY(!fault)) return TJ_OK;
	if ((uint32_t)fault > s->nfault) return rt_fail(r->err, TJ_ERR_COMPILE, s->name, "kernel reported an unknown fault");
	return rt_fault_fail(&s->fault[fault - 1], r->err);
}

static tj_status run_step(const rt_step *s, void *const *base, rt_run *r)
{
	void *small[32], **buf = small;
	if (s->nbuf > RT_COUNT(small) && !(buf = rt_alloc(s->nbuf * sizeof *buf)))
		return rt_fail(r->err, TJ_ERR_NOMEM, s->name, "out of memory");
	for (uint32_t i = 0; i < s->nbuf; i++) buf[i] = (char *)base[s->buf[i]] + s->offset[i];
	tj_status st = TJ_OK;
	switch ((rt_step_kind)s->kind) {
	case RT_STEP_KERNEL: st = run_kernel(s, buf, r); break;
	case RT_STEP_MATMUL: st = rt_matmul_run(s->matmul, buf[0], buf[1], buf[2], r); break;
	case RT_STEP_CALL: st = s->call(s->env, buf, r->num, r->err); break;
	case RT_STEP_FLOW: st = rt_flow_run(s->flow, buf, r); break;
	}
	if (buf != small) rt_free(buf);
	return st;
}

tj_status rt_plan_run(const rt_exec *x, rt_run *r)
{
	const rt_plan *p = (const rt_plan *)x;
	char *arena = r->arena;
	if (x->arena_bytes && !arena && !(arena = rt_pool_arena(r->pool, x->arena_bytes)))
		return rt_fail(r->err, TJ_ERR_NOMEM, "call", "out of memory for %zu bytes of temporaries",
		               x->arena_bytes);
	void *few[INLINE_BUFS], **base = few;
	if (p->nbuf > INLINE_BUFS && !(base = rt_alloc(p->nbuf * sizeof *base)))
		return rt_fail(r->err, TJ_ERR_NOMEM, "call", "out of memory");
	place(p, r, arena, base);
	tj_status st = TJ_OK;
	unsigned modes = rt_fp_enter();
	for (uint32_t i = 0; i < p->nstep && st == TJ_OK; i++) st = run_step(&p->step[i], base, r);
	rt_fp_leave(modes);
	if (base != few) rt_free(base);
	return st;
}

/* ---- looking inside ---- */
static const char *const places[] = { "ext", "out", "arena", "const" };

static void put_buf(const rt_plan *p, uint32_t b, int64_t offset, rt_text *t)
{
	const rt_pbuf *q = &p->buf[b];
	rt_putf(t, " %s", places[q->place]);
	if (q->place == RT_AT_ARENA) rt_putf(t, "+%lld", (long long)(q->offset + offset));
	else if (q->place == RT_AT_CONST) rt_putf(t, "[%lld bytes]", (long long)q->bytes);
	else {
		rt_putf(t, "%u", q->slot);
		if (offset) rt_putf(t, "+%lld", (long long)offset);
	}
}

/* The plans of control flow, each behind its name. */
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

static void put_plan(const rt_plan *p, rt_text *t)
{
	rt_putf(t, "plan: %u steps, %u kernels, %u library calls, %u evaluator steps, arena %zu bytes\n", p->nstep,
	        p->exec.kernels, p->exec.library_calls, p->exec.eval_steps, p->exec.arena_bytes);
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_step *s = &p->step[i];
		rt_putf(t, "  %-20s", s->name);
		if (s->kind == RT_STEP_KERNEL)
			rt_putf(t, " units=%lld ns=%.0f", (long long)s->units, (double)s->units * s->unit_ns);
		if (s->kind == RT_STEP_MATMUL) rt_putf(t, " %s", rt_matmul_name(s->matmul));
		for (uint32_t k = 0; k < s->nbuf; k++) put_buf(p, s->buf[k], s->offset[k], t);
		rt_puts(t, "\n");
	}
	put_regions(p, t, TJ_DUMP_PLAN);
	for (int o = 0; o < p->exec.nout; o++) {
		const rt_out *u = &p->exec.out[o];
		if (u->same_ext >= 0) rt_putf(t, "  out%d is ext%d seen through strides\n", o, u->same_ext);
		else if (u->alias_ext >= 0) rt_putf(t, "  out%d may overwrite ext%d\n", o, u->alias_ext);
	}
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
	default: return; /* the tracer's to print */
	}
	if (s) rt_puts(t, s);
	if (what != TJ_DUMP_PLAN) put_regions(p, t, what);
}

void rt_plan_destroy(rt_exec *x)
{
	rt_plan *p = (rt_plan *)x;
	for (uint32_t i = 0; i < p->nstep; i++) {
		rt_matmul_free(p->step[i].matmul);
		for (int k = 0; p->step[i].flow && k < 2; k++) rt_exec_unref(p->step[i].flow->region[k]);
	}
	if (p->drop) p->drop(p);
	for (uint32_t i = 0; i < p->ncode; i++) rt_code_unref(p->code[i]);
	rt_arena mem = p->mem; /* holds p itself */
	rt_arena_free(&mem);
}
