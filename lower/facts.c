/* SPDX-License-Identifier: MIT */
/* facts: what each step of a plan computes, for the profiler and for reports: its ops with their lines, the bytes that it must move, its
 * arithmetic. Nothing that runs reads them.
 *
 * requires steps in order, kernels built and without symbols, the steps of the plan made
 *
 * Bytes are those that no cache can save: of each buffer, the elements that the step reads or writes, each once. Arithmetic is that of the
 * instructions, with the loops that they depend on: so exp counts as the twenty that compute it, and a product of m x k by k x n as
 * 2 m k n. Of routines only products and sums are known. */
#include "lower/fuse.h"
#include "lower/library.h"
#include "runtime/site.h"

#include <stdlib.h>

/* ---- lines ---- */
typedef struct line { const char *from, *kept; } line;
typedef struct facts {
	lo_low *L;
	rt_plan *p;
	line *line;              /* a hash table of the lines of the plan: as the graph has them, as the plan has them */
	size_t nline;            /* a power of two */
} facts;

/* The text in memory of the plan; NULL: there is none, or no memory (L->oom). */
static const char *keep(facts *f, const char *site)
{
	if (!site || rt_site_find(site)) return site;
	size_t i = rt_hash(&site, sizeof site, 0) & (f->nline - 1);
	while (f->line[i].from && f->line[i].from != site) i = (i + 1) & (f->nline - 1);
	if (f->line[i].from) return f->line[i].kept;
	f->line[i] = (line){ site, rt_arena_strdup(&f->p->mem, site) };
	f->L->oom |= !f->line[i].kept;
	return f->line[i].kept;
}

/* ---- arithmetic ---- */
static int flops_of(const lo_ins *in)
{
	switch (in->op) {
	case LO_ADD: case LO_SUB: case LO_MUL: case LO_DIV: case LO_SQRT: case LO_NEG: case LO_ABS:
	case LO_FLOOR: case LO_CEIL: case LO_RINT: case LO_TRUNC: case LO_SCALE: return rt_is_float((tj_dtype)in->dtype);
	case LO_FMA: return 2;
	case LO_REDUCE: case LO_PART: return in->imm == LO_RED_DOT ? 2 : 1; /* of integers, too */
	default: return 0;
	}
}

/* The dimensions on which the instruction's value depends; bit ndim: r. all: what its operands depend on. */
static uint32_t depends(const lo_kernel *k, const lo_ins *in, const uint32_t *all)
{
	const uint32_t r = 1u << k->ndim;
	uint32_t on = 0;
	for (int s = 0; s < in->nsrc; s++) on |= all[in->src[s]];
	if (in->op == LO_INDEX) on |= in->imm == LO_R ? r : 1u << in->imm;
	if (in->op != LO_LOAD) return on;
	const lo_index *x = &k->index.v[in->index];
	for (int d = 0; d < k->ndim; d++) on |= (uint32_t)(x->coef[d] != 0) << d;
	if (x->rcoef || lo_jumps(x)) on |= r;
	return in->dyn == LO_NOREF ? on : on | all[in->dyn];
}

static double times(const lo_kernel *k, uint32_t on)
{
	double n = on >> k->ndim & 1 ? (double)k->red : 1;
	for (int d = 0; d < k->ndim; d++)
		if (on >> d & 1) n *= (double)k->dim[d];
	return n;
}

static double flops_of_kernel(lo_low *L, const lo_kernel *k)
{
	uint32_t *on = lo_mem(L, sizeof *on * (k->ins.n + 1));
	double sum = 0;
	for (uint32_t i = 0; on && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		const bool reduces = in->op == LO_REDUCE || in->op == LO_PART;
		on[i] = depends(k, in, on) | (reduces ? 1u << k->ndim : 0);
		sum += flops_of(in) * times(k, on[i]);
		if (reduces) on[i] &= ~(1u << k->ndim);
	}
	return sum;
}

/* ---- bytes ---- */
static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

int64_t lo_reach(const lo_kernel *k, const lo_schedule *s, const lo_ins *in, bool loop)
{
	const lo_index *x = &k->index.v[in->index];
	const bool anywhere = in->dyn != LO_NOREF;
	const int64_t red = in->op == LO_PART ? lo_parts(k, s) * lo_part_lanes(in) : loop ? lo_size(k, k->red) : 1;
	int64_t n = 1, far = 1;
	for (int d = 0; d <= k->ndim; d++) {
		const int64_t coef = lo_size(k, d < k->ndim ? x->coef[d] : x->rcoef), size = d < k->ndim ? lo_size(k, k->dim[d]) : red;
		if (coef || anywhere || !size) n *= size;
		far += magnitude(coef) * (size - 1);
	}
	for (int j = 0; j < LO_JUMPS && x->jump[j].every; j++) far += magnitude(lo_size(k, x->jump[j].by)) * ((red - 1) / x->jump[j].every);
	return anywhere || n < far ? n : far;
}

bool lo_repeats_access(const lo_kernel *k, uint32_t first, uint32_t i)
{
	const lo_ins *in = &k->ins.v[i];
	for (uint32_t j = first; j < i; j++) {
		const lo_ins *x = &k->ins.v[j];
		if (x->op == in->op && x->buf == in->buf && x->dyn == in->dyn && x->dyn_stride == in->dyn_stride &&
		    !memcmp(&k->index.v[x->index], &k->index.v[in->index], sizeof(lo_index)))
			return true;
	}
	return false;
}

/* Bytes of buffer b that the kernel reads, or writes; at most `most`, if that is known. */
static int64_t bytes_at(const lo_built *built, uint32_t b, bool write, int64_t most)
{
	const lo_kernel *k = &built->k;
	int64_t sum = 0;
	for (uint32_t n = 0; n < k->section.n; n++)
		for (uint32_t i = k->section.v[n].first; i < k->section.v[n].first + k->section.v[n].count; i++) {
			const lo_ins *in = &k->ins.v[i];
			if (in->op != LO_LOAD && in->op != LO_STORE && in->op != LO_PART) continue;
			if (in->buf != b || (in->op != LO_LOAD) != write || lo_repeats_access(k, 0, i)) continue;
			sum += lo_reach(k, &built->s, in, k->section.v[n].loop) * (int64_t)tj_dtype_size((tj_dtype)k->buf.v[b].dtype);
		}
	return most > 0 && sum > most ? most : sum;
}

static void count_kernel(facts *f, const lo_built *b, rt_facts *x)
{
	for (uint32_t i = 0; i < b->nbuf; i++) {
		const int64_t most = f->L->buf.v[b->buf[i]].bytes;
		x->read += bytes_at(b, i, false, most);
		x->written += bytes_at(b, i, true, most);
	}
	x->flops += flops_of_kernel(f->L, &b->k);
}

static int64_t bytes_of(const lo_low *L, ir_ref r) { return ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, r)->dtype); }

/* A step that is no kernel: the operands and the result of its node. */
static void count_node(facts *f, const lo_step *s, rt_facts *x)
{
	lo_low *L = f->L;
	const ir_node *n = lo_node(L, s->ref);
	if (s->kind == LO_STEP_COPY || s->kind == LO_STEP_TO) {
		x->read = x->written = bytes_of(L, s->ref);
		return;
	}
	for (int k = 0; k < n->nsrc; k++) {
		lo_access a;
		lo_operand_of(L, s->ref, k, &a);
		const int64_t all = bytes_of(L, ir_src(L->g, n, k)), most = bytes_of(L, a.base);
		x->read += all < most ? all : most;
	}
	x->written = bytes_of(L, s->ref);
}

/* ---- ops ---- */
/* Work of all elements of the op: instructions, or products of the sum. */
static double work_of(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	const double own = (double)ir_numel(L->g, r), read = n->nsrc ? (double)ir_numel(L->g, ir_src(L->g, n, 0)) : 0;
	if (n->op == IR_matmul && n->nsrc && lo_node(L, ir_src(L->g, n, 0))->rank) {
		const ir_ref a = ir_src(L->g, n, 0);
		return 2 * own * (double)lo_dim(L, a)[lo_node(L, a)->rank - 1];
	}
	return (ir_ops[n->op].flags & (IR_REDUCE | IR_ACCUM) ? read : own) * lo_work(n);
}

/* Arithmetic of a routine, as far as it is known. */
static double flops_of_node(const lo_low *L, ir_ref r)
{
	const ir_node *n = lo_node(L, r);
	return n->op == IR_matmul || ir_ops[n->op].flags & (IR_REDUCE | IR_ACCUM) ? work_of(L, r) : 0;
}

static void add_op(facts *f, ir_ref r, rt_facts *x)
{
	const ir_node *n = lo_node(f->L, r);
	const char *op = ir_ops[n->op].name, *site = keep(f, n->site);
	for (uint32_t i = 0; i < x->nop; i++)
		if (x->op[i].name == op && x->op[i].site == site) {
			x->op[i].share += (float)work_of(f->L, r);
			return;
		}
	x->op[x->nop++] = (rt_fact){ op, site, (float)work_of(f->L, r) };
}

static int in_order(const void *a, const void *b)
{
	const ir_ref x = *(const ir_ref *)a, y = *(const ir_ref *)b;
	return (x > y) - (x < y);
}

/* The values that the group computes, in the order of the program; *n of them. */
static ir_ref *members_of(lo_low *L, const lo_group *G, uint32_t *n)
{
	ir_ref *v = lo_mem(L, sizeof *v * ((size_t)G->member.n + G->again.n + G->save.n + 1));
	*n = 0;
	for (uint32_t i = 0; v && i < G->member.n; i++)
		if (L->val[G->member.v[i]].how != LO_VIEW) v[(*n)++] = G->member.v[i];
	for (uint32_t i = 0; v && i < G->again.n; i++) v[(*n)++] = G->again.v[i]->value;
	for (uint32_t i = 0; v && !*n && i < G->save.n; i++) v[(*n)++] = G->save.v[i].value; /* a kernel that only moves elements */
	if (v) qsort(v, *n, sizeof *v, in_order);
	return v;
}

static void to_shares(rt_facts *x)
{
	float sum = 0;
	for (uint32_t i = 0; i < x->nop; i++) sum += x->op[i].share;
	for (uint32_t i = 0; i < x->nop; i++) x->op[i].share = sum > 0 ? x->op[i].share / sum : 1 / (float)x->nop;
}

/* Copies the list to memory of the plan. */
static const rt_facts *finish(facts *f, rt_facts *x)
{
	rt_facts *kept = rt_arena_alloc(&f->p->mem, sizeof *kept);
	rt_fact *op = rt_arena_alloc(&f->p->mem, sizeof *op * (x->nop + 1));
	if (!kept || !op) return f->L->oom = true, NULL;
	to_shares(x);
	if (x->nop) memcpy(op, x->op, sizeof *op * x->nop);
	*kept = *x;
	kept->op = op;
	return kept;
}

static const rt_facts *facts_of(facts *f, const lo_step *s)
{
	lo_low *L = f->L;
	rt_facts x = { 0 };
	uint32_t n = 0;
	ir_ref *member = s->built ? members_of(L, L->group.v[s->group], &n) : NULL;
	if (L->oom || !(x.op = lo_mem(L, sizeof *x.op * (n + 1)))) return NULL;
	if (s->kind != LO_STEP_KERNEL) add_op(f, s->ref, &x);
	for (uint32_t i = 0; i < n; i++) add_op(f, member[i], &x);
	if (s->built) count_kernel(f, s->built, &x);
	if (s->kind == LO_STEP_LIBRARY || s->kind == LO_STEP_CALL) x.flops += flops_of_node(L, s->ref);
	if (s->kind == LO_STEP_KERNEL) return finish(f, &x);
	if (s->built) x.read = x.written = 0; /* an epilogue: the product stays in the library */
	if (s->kind != LO_STEP_FLOW) count_node(f, s, &x); /* of a region its own steps count */
	return finish(f, &x);
}

bool lo_put_facts(lo_low *L, rt_plan *p)
{
	facts f = { L, p, NULL, 16 };
	while (f.nline < 2 * (size_t)L->g->node.n) f.nline *= 2;
	f.line = lo_mem(L, sizeof *f.line * f.nline);
	for (uint32_t i = 0; !L->oom && i < p->nstep; i++) p->step[i].facts = facts_of(&f, &L->step.v[i]);
	return !L->oom;
}
