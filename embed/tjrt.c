/* SPDX-License-Identifier: MIT */
/* tjrt: the steps of a model, one after the other. No heap, no state, no thread. */
#include <tjrt.h>

#include "embed/model.h"

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

/* The arguments of a kernel: runtime/exec.h has the same. */
typedef struct args {
	void *const *buf;
	const uint64_t *num;
	int32_t *fault;
	void *scratch;
	const int64_t *size;
} args;
typedef void kernel(const args *a, int64_t begin, int64_t end);

typedef struct head { uint64_t site; } head; /* at the start of the workspace: what tjrt_site() tells */

typedef struct run {
	const unsigned char *data, *code;
	const tjrt_model *model;
	const tjrt_plan *plan;
	const void *const *in;
	void *const *out;
	const uint64_t *number;  /* of the plan */
	char *arena, *scratch;
	void **many;
} run;

static const void *at(const unsigned char *data, uint64_t offset) { return data + offset; }
static uint64_t rounded(uint64_t n) { return (n + TJRT_ALIGN - 1) / TJRT_ALIGN * TJRT_ALIGN; }

/* ---- which plan ---- */
static bool has_features(uint32_t features)
{
	__builtin_cpu_init();
	uint32_t has = 0; /* in the order of RT_FEATURES, runtime/exec.h */
	has |= __builtin_cpu_supports("avx512vbmi") ? 1u : 0;
	has |= __builtin_cpu_supports("avx512vbmi2") ? 2u : 0;
	has |= __builtin_cpu_supports("avx512bitalg") ? 4u : 0;
	has |= __builtin_cpu_supports("avx512vnni") ? 8u : 0;
	has |= __builtin_cpu_supports("gfni") ? 16u : 0;
	has |= __builtin_cpu_supports("avx512bf16") ? 32u : 0;
	return !(features & ~has);
}

static bool runs(const tjrt_cpu *c)
{
	const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
	const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
	                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	return (c->bits == 512 ? v4 : v3) && has_features(c->features);
}

static const tjrt_cpu *best_cpu(const tjrt_model *m)
{
	const tjrt_cpu *c = at((const unsigned char *)m, m->cpu), *best = NULL;
	for (uint32_t i = 0; i < m->ncpu; i++)
		if (runs(&c[i]) && (!best || c[i].bits > best->bits)) best = &c[i];
	return best;
}

/* The number of the combination of sizes; -1: it is none of the model's. */
static int64_t number_of(const tjrt_model *m, const int64_t *sizes)
{
	const tjrt_symbol *s = at((const unsigned char *)m, m->symbol);
	int64_t number = 0, times = 1;
	for (uint32_t i = 0; i < m->nsymbol; i++) {
		const int64_t from = sizes[i] - s[i].first;
		if (from < 0 || from % s[i].step || from / s[i].step >= s[i].count) return -1;
		number += from / s[i].step * times;
		times *= s[i].count;
	}
	return number;
}

static int find_plan(const void *data, const int64_t *sizes, const tjrt_plan **plan)
{
	const tjrt_model *m = data;
	if (m->magic != TJRT_MAGIC || m->version != TJRT_VERSION) return TJRT_DATA;
	const tjrt_cpu *c = best_cpu(m);
	const int64_t number = number_of(m, sizes);
	if (!c) return TJRT_CPU;
	if (number < 0) return TJRT_SIZES;
	*plan = at(data, ((const uint64_t *)at(data, c->plan))[number]);
	return TJRT_OK;
}

/* ---- workspace: head, numbers, addresses, arena, scratch, results that are not aligned ---- */
static uint64_t results_bytes(const tjrt_model *m, const tjrt_plan *p)
{
	const uint64_t *out = at((const unsigned char *)m, p->out);
	uint64_t n = 0;
	for (uint32_t i = 0; i < m->nout; i++) n += rounded(out[i]);
	return n;
}

size_t tjrt_workspace_bytes(const void *data, const int64_t *sizes)
{
	const tjrt_plan *p;
	if (find_plan(data, sizes, &p) != TJRT_OK) return 0;
	return (size_t)(TJRT_ALIGN + rounded(sizeof(head)) + rounded(p->nnum * 8) + rounded(p->many) + rounded(p->arena) + rounded(p->scratch) +
	                rounded(((const tjrt_model *)data)->nout * sizeof(void *)) + results_bytes(data, p));
}

/* ---- steps ---- */
static void *operand(const run *r, const tjrt_at *a)
{
	switch (a->place) {
	case TJRT_IN: return (char *)(uintptr_t)r->in[a->index] + a->offset;
	case TJRT_OUT: return (char *)r->out[a->index] + a->offset;
	case TJRT_ARENA: return r->arena + a->offset;
	case TJRT_NUMBER: return (char *)(uintptr_t)(r->number + a->index) + a->offset;
	default: return (void *)(uintptr_t)(r->data + a->offset);
	}
}

static bool run_kernel(const run *r, const tjrt_step *s, void *const *buf, head *h)
{
	int32_t fault = 0;
	uint64_t own[TJRT_FEW + TJRT_FEW];
	const uint32_t *which = at(r->data, s->number);
	for (uint32_t i = 0; i < s->nnumber; i++) own[i] = r->number[which[i]];
	const args a = { buf, s->nnumber ? own : r->number, &fault, s->scratch ? r->scratch : NULL, at(r->data, s->size) };
	const unsigned char *entry = r->code + s->code;
	kernel *f;
	memcpy(&f, &entry, sizeof f);
	if (s->units > 0) f(&a, 0, s->units);
	if (!fault) return true;
	h->site = (uint32_t)fault <= s->nfault ? ((const uint64_t *)at(r->data, s->fault))[fault - 1] : 0;
	return false;
}

static void copy(const tjrt_step *s, const char *from, char *to)
{
	int64_t index[TJRT_MAX_RANK] = { 0 }, n = 1;
	for (uint64_t d = 0; d < s->rank; d++) n *= s->dim[d];
	for (; n > 0; n--, to += s->element) {
		int64_t place = 0;
		for (uint64_t d = 0; d < s->rank; d++) place += index[d] * s->stride[d];
		memcpy(to, from + place * (int64_t)s->element, s->element);
		for (uint64_t d = s->rank; d-- > 0;) {
			if (++index[d] < s->dim[d]) break;
			index[d] = 0;
		}
	}
}

static int run_steps(const run *r, head *h)
{
	const tjrt_step *s = at(r->data, r->plan->step);
	for (uint32_t i = 0; i < r->plan->nstep; i++, s++) {
		void *few[TJRT_FEW], **buf = s->nbuf > TJRT_FEW ? r->many : few;
		const tjrt_at *a = at(r->data, s->at);
		for (uint32_t k = 0; k < s->nbuf; k++) buf[k] = operand(r, &a[k]);
		if (s->kind == TJRT_COPY) copy(s, buf[0], buf[1]);
		else if (!run_kernel(r, s, buf, h)) return TJRT_FAULT;
	}
	return TJRT_OK;
}

/* ---- numbers ---- */
static uint64_t number(const tjrt_num *n, const uint64_t *param, const uint64_t *expr)
{
	return n->kind == TJRT_BITS ? n->bits : n->kind == TJRT_PARAM ? param[n->index] : expr[n->index];
}

static void make_numbers(const run *r, const uint64_t *param, uint64_t *num)
{
	const tjrt_num *n = at(r->data, r->plan->num);
	const tjrt_expr *e = at(r->data, r->plan->expr);
	uint64_t value[TJRT_EXPRS];
	for (uint32_t i = 0; i < r->plan->nexpr; i++) {
		const uint64_t bits[2] = { number(&e[i].x, param, value), number(&e[i].y, param, value) };
		double v[2], z;
		memcpy(v, bits, sizeof v);
		z = e[i].op == TJRT_ADD   ? v[0] + v[1]
		    : e[i].op == TJRT_SUB ? v[0] - v[1]
		    : e[i].op == TJRT_MUL ? v[0] * v[1]
		    : e[i].op == TJRT_DIV ? v[0] / v[1]
		                          : -v[0];
		memcpy(&value[i], &z, sizeof z);
	}
	for (uint32_t i = 0; i < r->plan->nnum; i++) num[i] = number(&n[i], param, value);
}

/* ---- a run ---- */
static char *take(char **from, uint64_t bytes)
{
	char *p = *from;
	*from += rounded(bytes);
	return p;
}

/* Kernels write results to lines of the cache: those that are not aligned are computed in the workspace, and copied. */
static int run_aligned(run *r, head *h, char *at_, void *const *out)
{
	const uint64_t *bytes = at(r->data, r->plan->out);
	void **to = (void **)(uintptr_t)take(&at_, r->model->nout * sizeof *to);
	for (uint32_t i = 0; i < r->model->nout; i++) {
		char *own = take(&at_, bytes[i]);
		to[i] = (uintptr_t)out[i] % TJRT_ALIGN ? own : out[i];
	}
	r->out = to;
	const int status = run_steps(r, h);
	for (uint32_t i = 0; status == TJRT_OK && i < r->model->nout; i++)
		if (to[i] != out[i]) memcpy(out[i], to[i], bytes[i]);
	return status;
}

int tjrt_run(const void *data, const void *code, const int64_t *sizes, const void *const *in, const uint64_t *params, void *const *out,
             void *workspace)
{
	run r = { .data = data, .code = code, .model = data, .in = in };
	const int status = find_plan(data, sizes, &r.plan);
	if (status != TJRT_OK) return status;
	char *from = (char *)(((uintptr_t)workspace + TJRT_ALIGN - 1) / TJRT_ALIGN * TJRT_ALIGN);
	head *h = (head *)(uintptr_t)take(&from, sizeof *h);
	uint64_t *num = (uint64_t *)(uintptr_t)take(&from, r.plan->nnum * 8);
	r.number = num;
	r.many = (void **)(uintptr_t)take(&from, r.plan->many);
	r.arena = take(&from, r.plan->arena);
	r.scratch = take(&from, r.plan->scratch);
	const unsigned modes = _mm_getcsr();
	_mm_setcsr(0x1f80); /* the default modes of floats */
	make_numbers(&r, params, num);
	const int done = run_aligned(&r, h, from, out);
	_mm_setcsr(modes);
	return done;
}

const char *tjrt_site(const void *data, const void *workspace)
{
	const head *h = (const head *)(((uintptr_t)workspace + TJRT_ALIGN - 1) / TJRT_ALIGN * TJRT_ALIGN);
	return h->site ? (const char *)data + h->site : "?";
}

const char *tjrt_strerror(int status)
{
	static const char *const text[] = { "ok", "a size is not among those that the model was made for", "the model has no code for this CPU",
		                            "a division by zero, or an index out of range", "no model, or one of another version" };
	return status >= 0 && status < (int)(sizeof text / sizeof *text) ? text[status] : "?";
}
