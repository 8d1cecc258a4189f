/* SPDX-License-Identifier: MIT */
/* Objects: an exported function as an object file for a C program without libtj (include/tjrt.h). Its plans at all sizes become tables
 * (embed/model.h), with the code of their kernels and the contents of its variables. What a plan has besides kernels and copies is refused.
 */
#include "embed/model.h"
#include "jit/call.h"
#include "jit/compile.h"
#include "jit/event.h"
#include "jit/handle.h"
#include "jit/object.h"
#include "jit/program.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

_Static_assert(RT_HAS_VBMI == 1 && RT_HAS_VBMI2 == 2 && RT_HAS_BITALG == 4 && RT_HAS_VNNI == 8 && RT_HAS_GFNI == 16 && RT_HAS_BF16 == 32,
               "has_features() of embed/tjrt.c has them in this order");

typedef struct known { uint64_t hash[2], at; } known; /* bytes that are in a section already */

typedef struct section { /* grows */
	unsigned char *v;
	size_t n, cap;
	bool oom;
	rt_vec(known) known;
} section;

typedef struct object {
	tj_ctx *c;
	const char *site;
	const jit_program *p;
	rt_span content;         /* of the variables */
	uint64_t *var_at;        /* by variable: where its content is in the data, or 0 */
	uint32_t nparam, ncell, narg;
	uint32_t *in_of;         /* by argument: which input it is, or which number */
	uint32_t *cell_of;       /* by variable: which input it is behind the arguments */
	uint32_t *assigned_of;   /* by variable: which result it is behind those of the function */
	uint32_t nassigned;
	ir_meta *result;         /* of the function's results */
	const char *name;
	section data, code;
	uint64_t *plan;          /* offsets of the plans of a CPU */
	uint64_t nplan, at;      /* at: the combination that is compiled */
} object;

static bool fail(object *o, tj_status code, const char *hint, const char *fmt, ...) RT_PRINTF(4, 5);
static bool fail(object *o, tj_status code, const char *hint, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	jit_verror(o->c, o->site, code, "export_object", hint, fmt, ap);
	va_end(ap);
	return false;
}
static bool nomem(object *o) { return fail(o, TJ_ERR_NOMEM, NULL, "out of memory"); }

/* ---- sections ---- */
/* Room for n bytes at a multiple of align; its offset. The section's memory may move. */
static uint64_t reserve(section *s, size_t n, size_t align)
{
	const size_t at = (s->n + align - 1) / align * align;
	if (at + n > s->cap) {
		const size_t cap = (at + n) * 2 + 4096;
		unsigned char *v = rt_realloc(s->v, cap);
		if (!v) return s->oom = true, 0;
		s->v = v;
		s->cap = cap;
	}
	memset(s->v + s->n, 0, at + n - s->n);
	s->n = at + n;
	return at;
}

static uint64_t put(section *s, const void *bytes, size_t n, size_t align)
{
	const uint64_t at = reserve(s, n, align);
	if (!s->oom && n) memcpy(s->v + at, bytes, n);
	return at;
}

/* The same bytes are put once. */
static uint64_t put_once(section *s, const void *bytes, size_t n, size_t align)
{
	known k;
	rt_hash128(bytes, n, k.hash);
	k.hash[1] ^= n ^ (uint64_t)align << 48;
	for (uint32_t i = 0; i < s->known.n; i++)
		if (!memcmp(s->known.v[i].hash, k.hash, sizeof k.hash)) return s->known.v[i].at;
	k.at = put(s, bytes, n, align);
	s->oom |= !rt_push(&s->known, k);
	return k.at;
}

/* ---- operands ---- */
typedef struct source { /* a plan, and what its slots are */
	object *o;
	jit_act *a;
	const rt_plan *plan;
	const jit_plan *values;
	tj_tensor *const *res;
	uint32_t n;              /* of them */
	uint32_t *out_of;        /* by value: the result that it is; UINT32_MAX: none */
	rt_vec(tjrt_step) step;
	rt_vec(tjrt_expr) expr;
} source;

/* A tensor from outside of the call. */
static bool outside(source *s, const jit_bound *b, tjrt_at *at)
{
	object *o = s->o;
	jit_from f;
	if (!jit_from_outside(s->a, b, &f)) return fail(o, TJ_ERR_STATE, "", "a plan reads a tensor that is not in the file");
	if (f.kind == JIT_FROM_ARG) return *at = (tjrt_at){ TJRT_IN, o->in_of[f.index], 0 }, true;
	const uint32_t var = (uint32_t)(s->a->fn->state[f.index] - o->p->cell);
	if (o->p->var.v[var].cell) *at = (tjrt_at){ TJRT_IN, o->narg + o->cell_of[var], 0 };
	else *at = (tjrt_at){ TJRT_CONST, 0, (int64_t)o->var_at[var] };
	return true;
}

static bool constant(source *s, uint32_t index, tjrt_at *at)
{
	for (uint32_t i = 0; i < s->plan->nbuf; i++) {
		const rt_pbuf *b = &s->plan->buf[i];
		if (b->place != RT_AT_CONST || b->index != index) continue;
		*at = (tjrt_at){ TJRT_CONST, 0, (int64_t)put_once(&s->o->data, s->plan->constant[index], (size_t)b->bytes, TJRT_ALIGN) };
		return !s->o->data.oom || nomem(s->o);
	}
	return fail(s->o, TJ_ERR_STATE, "", "a plan reads a constant that it does not have");
}

static bool operand(source *s, const rt_at *x, tjrt_at *at)
{
	switch (x->place) {
	case RT_AT_EXT:
		if (x->index >= s->a->ext.n || !outside(s, &s->a->ext.v[x->index], at))
			return fail(s->o, TJ_ERR_STATE, "", "a plan reads what is not in the file");
		break;
	case RT_AT_OUT:
		if (s->out_of[x->index] == UINT32_MAX) return fail(s->o, TJ_ERR_STATE, "", "a plan has a result that nothing takes");
		*at = (tjrt_at){ TJRT_OUT, s->out_of[x->index], 0 };
		break;
	case RT_AT_ARENA: *at = (tjrt_at){ TJRT_ARENA, 0, 0 }; break;
	case RT_AT_NUM: *at = (tjrt_at){ TJRT_NUMBER, x->index, 0 }; break;
	default:
		if (!constant(s, x->index, at)) return false;
	}
	at->offset += x->offset;
	return true;
}

/* ---- steps ---- */
static bool put_code(source *s, const rt_step *t, uint64_t *code)
{
	rt_blob b;
	for (uint32_t i = 0; i < s->plan->nshared; i++) {
		if (!rt_code_find(s->plan->shared[i], t->fn, &b)) continue;
		*code = put_once(&s->o->code, b.code, b.bytes, TJRT_ALIGN) + b.entry;
		return !s->o->code.oom || nomem(s->o);
	}
	return fail(s->o, TJ_ERR_COMPILE, "export the function again", "the file has no code for kernel %s", t->name);
}

static uint64_t put_faults(source *s, const rt_step *t)
{
	section *d = &s->o->data;
	const uint64_t at = reserve(d, t->nfault * sizeof at, 8);
	for (uint32_t i = 0; i < t->nfault && !d->oom; i++) {
		const char *site = t->fault[i].site ? t->fault[i].site : "?";
		const uint64_t text = put_once(d, site, strlen(site) + 1, 8);
		if (!d->oom) memcpy(d->v + at + i * sizeof text, &text, sizeof text);
	}
	return at;
}

static bool put_kernel(source *s, const rt_step *t)
{
	section *d = &s->o->data;
	tjrt_step x = {
		.kind = TJRT_KERNEL, .nbuf = t->nbuf, .nnumber = t->nnumber, .nfault = t->nfault, .units = t->units, .scratch = t->scratch
	};
	tjrt_at *at = rt_alloc((t->nbuf + 1) * sizeof *at);
	bool ok = at != NULL || nomem(s->o);
	for (uint32_t i = 0; ok && i < t->nbuf; i++) ok = operand(s, &t->at[i], &at[i]);
	if (ok && t->units > 0) ok = put_code(s, t, &x.code);
	if (ok && t->nnumber > 2 * TJRT_FEW) ok = fail(s->o, TJ_ERR_LIMIT, "", "kernel %s has too many numbers", t->name);
	if (ok) {
		x.at = put(d, at, t->nbuf * sizeof *at, 8);
		x.size = put_once(d, t->size, t->nsize * sizeof *t->size, 8);
		x.number = put_once(d, t->number, t->nnumber * sizeof *t->number, 8);
		x.fault = put_faults(s, t);
		ok = rt_push(&s->step, x) || nomem(s->o);
	}
	rt_free(at);
	return ok;
}

static bool put_copy(source *s, tjrt_at from, tjrt_at to, size_t element, int rank, const int64_t *dim, const int64_t *stride)
{
	tjrt_step x = { .kind = TJRT_COPY, .nbuf = 2, .element = element, .rank = (uint64_t)rank };
	int64_t step = 1;
	for (int d = rank; d-- > 0;) {
		x.dim[d] = dim[d];
		x.stride[d] = stride ? stride[d] : step;
		step *= dim[d];
	}
	x.at = put(&s->o->data, (tjrt_at[]){ from, to }, 2 * sizeof from, 8);
	return rt_push(&s->step, x) || nomem(s->o);
}

static bool put_step(source *s, const rt_step *t)
{
	tjrt_at from, to;
	if (t->kind == RT_STEP_KERNEL) return put_kernel(s, t);
	if (t->kind != RT_STEP_COPY)
		return fail(s->o, TJ_ERR_STATE, "a program with libtj can import the file",
		            "%s: step %s is no kernel, and an object has kernels only", s->o->p->name, t->name);
	const rt_elements *e = t->copy;
	return operand(s, &t->at[0], &from) && operand(s, &t->at[1], &to) && put_copy(s, from, to, e->size, e->rank, e->dim, e->stride);
}

/* ---- results ---- */
/* The plan's value, or what else a result is, goes to result `out`. The first one that takes a value gets it directly. */
static bool put_result(source *s, tj_tensor *t, uint32_t out)
{
	const tjrt_at to = { TJRT_OUT, out, 0 };
	tjrt_at from;
	if (rt_is_number(t)) return fail(s->o, TJ_ERR_STATE, "tj_full() makes a tensor of it", "%s returns a number", s->o->p->name);
	const size_t size = tj_dtype_size((tj_dtype)t->dtype);
	if (t->kind != RT_PENDING) {
		const jit_bound b = { .h = t, .layout = t->layout, .data = t->data, .buf = t->buf };
		return outside(s, &b, &from) && put_copy(s, from, to, size, t->rank, t->layout->dim, NULL);
	}
	const int v = jit_find_in_plan(s->values, t->seq);
	if (v < 0) return fail(s->o, TJ_ERR_STATE, "", "a plan does not have a result");
	const rt_out *x = s->values->exec ? &s->values->exec->out[v] : NULL;
	if (x && x->same_ext >= 0) {
		if (!outside(s, &s->a->ext.v[x->same_ext], &from)) return false;
		from.offset += x->offset * (int64_t)size;
		return put_copy(s, from, to, size, x->rank, x->dim, x->stride);
	}
	if (s->out_of[v] == out) return true;
	return put_copy(s, (tjrt_at){ TJRT_OUT, s->out_of[v], 0 }, to, size, t->rank, t->layout->dim, NULL);
}

static tj_tensor *result(const source *s, uint32_t out) { return out < s->n ? s->res[out] : s->a->assigned.v[out - s->n].version; }

static void choose_outs(source *s, uint32_t nout)
{
	for (uint32_t v = 0; v < s->values->n; v++) s->out_of[v] = UINT32_MAX;
	for (uint32_t i = 0; i < nout; i++) {
		const tj_tensor *t = result(s, i);
		const int v = !rt_is_number(t) && t->kind == RT_PENDING ? jit_find_in_plan(s->values, t->seq) : -1;
		if (v >= 0 && s->out_of[v] == UINT32_MAX) s->out_of[v] = i;
	}
}

/* ---- numbers ---- */
/* from: as in jit_learn; expressions that it needs go to the plan's. */
static bool put_number(source *s, uint32_t from, uint64_t bits, tjrt_num *n);

static bool put_expression(source *s, uint32_t which, tjrt_num *n)
{
	static const struct {
		int op;
		uint64_t as;
	} ops[] = { { IR_add, TJRT_ADD }, { IR_sub, TJRT_SUB }, { IR_mul, TJRT_MUL }, { IR_div, TJRT_DIV }, { IR_neg, TJRT_NEG } };
	const jit_late_expr *e = &s->a->learn->expr.v[which];
	tjrt_expr x = { .op = RT_COUNT(ops) };
	tjrt_num *operand[2] = { &x.x, &x.y };
	for (size_t i = 0; i < RT_COUNT(ops); i++)
		if (ops[i].op == e->op) x.op = ops[i].as;
	for (int k = 0; k < e->nsrc && k < 2; k++) {
		const tj_tensor *h = e->src[k].number;
		const bool is = e->src[k].from >> 28 == JIT_CONST;
		if (is && rt_is_int_number(h)) x.op = RT_COUNT(ops);
		if (!put_number(s, e->src[k].from, is ? rt_number_bits(h) : 0, operand[k])) return false;
	}
	if (x.op == RT_COUNT(ops) || e->nsrc > 2 || s->expr.n == TJRT_EXPRS)
		return fail(s->o, TJ_ERR_STATE, "compute it outside, and pass the result", "%s computes %s of numbers that it gets",
		            s->o->p->name, ir_ops[e->op].name);
	*n = (tjrt_num){ 0, TJRT_EXPR, s->expr.n };
	return rt_push(&s->expr, x) || nomem(s->o);
}

static bool put_number(source *s, uint32_t from, uint64_t bits, tjrt_num *n)
{
	const uint32_t which = from & 0xFFFFFFF, params = s->o->nparam - s->o->p->scalar.n;
	switch (from >> 28) {
	case JIT_CONST: return *n = (tjrt_num){ bits, TJRT_BITS, 0 }, true;
	case JIT_ARG: return *n = (tjrt_num){ 0, TJRT_PARAM, s->o->in_of[which] }, true;
	case JIT_SCALAR: return *n = (tjrt_num){ 0, TJRT_PARAM, params + which }, true;
	case JIT_EXPR: return put_expression(s, which, n);
	default: return fail(s->o, TJ_ERR_STATE, "pass them as an argument", "%s draws random numbers", s->o->p->name);
	}
}

static bool put_numbers(source *s, tjrt_plan *p)
{
	const jit_learn *l = s->a->learn;
	tjrt_num *n = rt_arena_alloc(&s->a->mem, (s->a->num.n + 1) * sizeof *n);
	if (!n || !l) return nomem(s->o);
	for (uint32_t i = 0; i < s->a->num.n; i++)
		if (!put_number(s, i < l->from.n ? l->from.v[i] : JIT_FROM(JIT_KEY, 0), s->a->num.v[i], &n[i])) return false;
	p->nnum = s->a->num.n;
	p->nexpr = s->expr.n;
	p->num = put_once(&s->o->data, n, p->nnum * sizeof *n, 8);
	p->expr = put_once(&s->o->data, s->expr.v, p->nexpr * sizeof *s->expr.v, 8);
	return true;
}

/* ---- a plan ---- */
/* Which variables are assigned, in the order of the first plan; all others have the same. */
static bool note_assigned(source *s)
{
	object *o = s->o;
	for (uint32_t i = 0; i < s->a->assigned.n; i++) {
		uint32_t var = 0;
		while (var < o->p->var.n && o->p->cell[var] != &s->a->assigned.v[i].cell->t) var++;
		if (var == o->p->var.n) return fail(o, TJ_ERR_STATE, "make it a variable of .state", "%s assigns to an argument", o->p->name);
		o->assigned_of[var] = i;
	}
	o->nassigned = s->a->assigned.n;
	return true;
}

static bool put_plan(source *s)
{
	object *o = s->o;
	const uint32_t nout = s->n + s->a->assigned.n;
	tjrt_plan p = { 0 };
	s->out_of = rt_arena_alloc(&s->a->mem, (s->values->n + 1) * sizeof *s->out_of);
	uint64_t *bytes = rt_arena_alloc(&s->a->mem, (nout + 1) * sizeof *bytes);
	if (!s->out_of || !bytes) return nomem(o);
	choose_outs(s, nout);
	if (!note_assigned(s) || !put_numbers(s, &p)) return false;
	for (uint32_t i = 0; s->plan && i < s->plan->nstep; i++)
		if (!put_step(s, &s->plan->step[i])) return false;
	for (uint32_t i = 0; i < nout; i++) {
		if (!put_result(s, result(s, i), i)) return false;
		bytes[i] = (uint64_t)result(s, i)->layout->numel * tj_dtype_size((tj_dtype)result(s, i)->dtype);
	}
	p.arena = s->plan ? s->plan->exec.arena_bytes[RT_CPU] : 0;
	for (uint32_t i = 0; i < s->step.n; i++) {
		if (s->step.v[i].scratch > p.scratch) p.scratch = s->step.v[i].scratch;
		if (s->step.v[i].nbuf > TJRT_FEW && s->step.v[i].nbuf * sizeof(void *) > p.many) p.many = s->step.v[i].nbuf * sizeof(void *);
	}
	p.nstep = s->step.n;
	p.step = put(&o->data, s->step.v, s->step.n * sizeof *s->step.v, 8);
	p.out = put_once(&o->data, bytes, nout * sizeof *bytes, 8);
	o->plan[o->at] = put(&o->data, &p, sizeof p, 8);
	return !o->data.oom || nomem(o);
}

/* Seals the events that were asked for, and takes the plan apart. */
static bool see(void *env, jit_act *a, uint32_t n, tj_tensor *const *res)
{
	object *o = env;
	jit_node *b = jit_step(a, a->fn->site, JIT_RETURN, (int)n, res, 0, NULL);
	if (!b || !jit_one_commit(a) || (a->fresh && !(b = jit_seal(a, b)))) return false;
	jit_plan *values = jit_take_plan(b->segment);
	source s = { .o = o, .a = a, .values = values, .res = res, .n = n };
	bool ok = true;
	if (values->exec && values->exec->run != rt_plan_run) ok = fail(o, TJ_ERR_STATE, "", "%s is not compiled", o->p->name);
	s.plan = (const rt_plan *)values->exec;
	for (uint32_t i = 0; ok && i < n; i++)
		if (!rt_is_number(res[i])) o->result[i] = jit_meta(res[i]);
	ok = ok && put_plan(&s);
	rt_vec_free(&s.step);
	rt_vec_free(&s.expr);
	jit_plan_unref(values);
	return ok;
}

/* ---- all sizes on all CPUs ---- */
static bool begin(object *o, const jit_pack *k)
{
	const jit_program *p = o->p;
	uint64_t n = 1;
	o->content = k->data;
	o->var_at = rt_calloc((p->var.n + 1) * sizeof *o->var_at);
	o->in_of = rt_calloc((p->arg.n + 1) * sizeof *o->in_of);
	o->cell_of = rt_calloc((p->var.n + 1) * sizeof *o->cell_of);
	o->assigned_of = rt_calloc((p->var.n + 1) * sizeof *o->assigned_of);
	o->result = rt_calloc((p->nout + 1) * sizeof *o->result);
	for (uint32_t i = 0; i < p->symbol.n; i++) n *= (uint64_t)jit_symbol_count(&p->symbol.v[i]);
	o->nplan = n;
	if (n > JIT_P_FAR) return fail(o, TJ_ERR_LIMIT, "export it for fewer sizes", "%s has too many combinations of sizes", p->name);
	o->plan = rt_calloc((n + 1) * sizeof *o->plan);
	if (!o->var_at || !o->in_of || !o->cell_of || !o->assigned_of || !o->result || !o->plan) return nomem(o);
	for (uint32_t i = 0; i < p->arg.n; i++) o->in_of[i] = p->arg.v[i].kind == GD_VALUE ? o->narg++ : o->nparam++;
	o->nparam += p->scalar.n;
	reserve(&o->data, sizeof(tjrt_model), TJRT_ALIGN);
	for (uint32_t i = 0; i < p->var.n; i++) {
		const jit_pvar *v = &p->var.v[i];
		o->assigned_of[i] = UINT32_MAX;
		if (v->cell) o->cell_of[i] = o->ncell++;
		else o->var_at[i] = put_once(&o->data, (const char *)o->content.at + v->at, v->bytes, TJRT_ALIGN);
	}
	return !o->data.oom || nomem(o);
}

static void sizes_at(const jit_program *p, uint64_t k, int64_t *symbol)
{
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const uint64_t n = (uint64_t)jit_symbol_count(&p->symbol.v[i]);
		symbol[i] = jit_symbol_size(&p->symbol.v[i], (int64_t)(k % n));
		k /= n;
	}
}

/* Arguments of undefined content at the k-th combination of sizes; *zeros grows. */
static bool make_arguments(object *o, uint64_t k, tj_tensor **in, void **zeros, size_t *room)
{
	int64_t symbol[JIT_P_SYMBOLS];
	sizes_at(o->p, k, symbol);
	for (int pass = 0; pass < 2; pass++) /* all of them lie in one memory, which must not move */
		for (uint32_t i = 0; i < o->p->arg.n; i++) {
			const jit_parg *a = &o->p->arg.v[i];
			int64_t dims[TJ_MAX_RANK + 1], numel;
			for (int d = 0; d < a->rank; d++) dims[d] = jit_psize_at(&a->dim[d], symbol);
			dims[a->rank] = TJ_END_DIM;
			if (a->kind != GD_VALUE) {
				in[i] = a->kind == GD_INT ? rt_number_i(1) : rt_number_f(1);
				continue;
			}
			if (!rt_numel(a->rank, dims, &numel)) return fail(o, TJ_ERR_SHAPE, "", "argument %u is too large", i);
			const size_t bytes = (size_t)numel * tj_dtype_size((tj_dtype)a->dtype) + 64;
			if (!pass && bytes > *room) {
				rt_free(*zeros);
				if (!(*zeros = rt_calloc(bytes))) return *room = 0, nomem(o);
				*room = bytes;
			}
			if (pass) in[i] = tj_wrap_on_at(o->site, o->c, TJ_CPU, (tj_dtype)a->dtype, dims, NULL, *zeros, NULL, NULL);
			if (pass && tj_is_poison(in[i])) return false;
		}
	in[o->p->arg.n] = TJ_END;
	return true;
}

static bool compile_all(object *o, tj_fn *f)
{
	tj_tensor **in = rt_alloc((o->p->arg.n + 1) * sizeof *in);
	tj_scalar scalar[GD_MAX_SCALARS + 1];
	void *zeros = NULL;
	size_t room = 0;
	bool ok = in || nomem(o);
	for (uint32_t i = 0; i < o->p->scalar.n; i++) scalar[i] = o->p->scalar.v[i];
	scalar[o->p->scalar.n] = tj_scalar_end();
	for (o->at = 0; ok && o->at < o->nplan; o->at++) {
		tj_scope *s = tj_push_at(o->site, o->c);
		ok = s && make_arguments(o, o->at, in, &zeros, &room) && jit_call_dry(o->c, o->site, f, in, scalar, see, o) == TJ_OK;
		if (s) tj_pop_at(o->site, s);
	}
	rt_free(zeros);
	rt_free(in);
	return ok;
}

/* In an engine of its own, with the code of the file for that CPU and no other. */
static bool put_cpu(object *o, const void *bytes, size_t n, const jit_pack *k, int i, bool first, uint64_t *plans)
{
	tj_fn *f = tj_import_memory_at(o->site, o->c, bytes, n, TJ_OPTS(tj_import_opts, .recompile = true));
	if (!f) return false;
	o->p = f->program;
	rt_store_free(f->store);
	f->store = rt_store_in_memory(NULL, true, &o->c->engine->rt.log);
	f->cpu = k->cpu[i].cpu;
	f->sealed = true;
	const bool ok = f->store && jit_take_code(f->store, k->cpu[i].entries, k->cpu[i].n) && (!first || begin(o, k)) && compile_all(o, f);
	*plans = put(&o->data, o->plan, o->nplan * sizeof *o->plan, 8);
	return ok || (tj_check(o->c) == TJ_OK ? nomem(o) : false);
}

static void put_model(object *o, const tjrt_cpu *cpu, uint32_t ncpu)
{
	const jit_program *p = o->p;
	tjrt_symbol symbol[JIT_P_SYMBOLS + 1] = { { 0 } };
	for (uint32_t i = 0; i < p->symbol.n; i++) {
		const int64_t n = jit_symbol_count(&p->symbol.v[i]), first = jit_symbol_size(&p->symbol.v[i], 0);
		symbol[i] = (tjrt_symbol){ first, n > 1 ? jit_symbol_size(&p->symbol.v[i], 1) - first : 1, n };
	}
	tjrt_model m = { .magic = TJRT_MAGIC,
		         .version = TJRT_VERSION,
		         .nsymbol = p->symbol.n,
		         .nin = o->narg + o->ncell,
		         .nout = p->nout + o->nassigned,
		         .ncpu = ncpu,
		         .nplan = (uint32_t)o->nplan };
	m.symbol = put(&o->data, symbol, sizeof symbol, 8);
	m.cpu = put(&o->data, cpu, ncpu * sizeof *cpu, 8);
	if (!o->data.oom) memcpy(o->data.v, &m, sizeof m);
}

static void drop(object *o)
{
	rt_free(o->var_at);
	rt_free(o->in_of);
	rt_free(o->cell_of);
	rt_free(o->assigned_of);
	rt_free(o->result);
	rt_free(o->plan);
	rt_free(o->data.v);
	rt_free(o->code.v);
	rt_vec_free(&o->data.known);
	rt_vec_free(&o->code.known);
}

/* ---- the files ---- */
static bool write_files(object *o, const char *path, const char *header)
{
	size_t n;
	rt_text t = { 0 };
	rt_err err = { 0 };
	const jit_iface x = { o->name, o->p, o->assigned_of, o->result };
	unsigned char *elf = jit_elf_write(o->name, (rt_span){ o->code.v, o->code.n }, (rt_span){ o->data.v, o->data.n }, &n);
	jit_c_header(&x, &t);
	bool ok = elf && !t.oom;
	if (!ok) rt_fail(&err, TJ_ERR_NOMEM, "export_object", "out of memory");
	ok = ok && jit_write_file(path, elf, n, &err) && (!header || jit_write_file(header, t.s, t.n, &err));
	if (!ok) jit_report(o->c, o->site, &err);
	rt_free(elf);
	rt_text_free(&t);
	return ok;
}

static bool make(object *o, const jit_pack *k, const void *bytes, size_t n, const char *path, const char *header)
{
	tjrt_cpu cpu[JIT_PACK_CPUS];
	bool ok = k->ncpu > 0 || fail(o, TJ_ERR_COMPILE, "export it with .cpus", "the file has no code");
	ok = ok && (!strncmp(k->build, rt_build(), RT_BUILD_BYTES) ||
	            fail(o, TJ_ERR_COMPILE, "export it again", "the code in the file is of another build of tjit (%s)", k->version));
	for (int i = 0; ok && i < k->ncpu; i++) {
		cpu[i] = (tjrt_cpu){ k->cpu[i].cpu.bits, k->cpu[i].cpu.features, 0 };
		ok = put_cpu(o, bytes, n, k, i, i == 0, &cpu[i].plan);
	}
	if (ok) put_model(o, cpu, (uint32_t)k->ncpu);
	return ok && ((!o->data.oom && !o->code.oom) || nomem(o)) && write_files(o, path, header);
}

tj_status tj_export_object_at(const char *site, tj_ctx *c, const char *tjx, const char *path, const tj_object_opts *opts)
{
	JIT_OPTIONS(tj_object_opts, o, opts);
	rt_err err = { 0 };
	jit_pack k;
	size_t n = 0;
	if (!c || jit_refuses_in_body(c, site, "export_object")) return TJ_ERR_STATE;
	if (jit_odd_size(o.size)) return jit_error(c, site, TJ_ERR_ARG, "export_object", JIT_SIZES, o.size), TJ_ERR_ARG;
	if (!tjx || !path || !jit_is_c_name(o.name))
		return jit_error(c, site, TJ_ERR_ARG, "export_object", "letters, digits and _", "%s",
		                 !tjx || !path ? "a path is NULL" : ".name is no name in C"),
		       TJ_ERR_ARG;
	void *bytes = jit_read_file(tjx, &n, &err);
	if (!bytes || !jit_pack_read(bytes, n, &k, &err)) return rt_free(bytes), jit_report(c, site, &err), err.code;
	object x = { .c = tj_open(TJ_OPTS(tj_open_opts, .backend = "llvm", .cache = "off")), .site = site, .name = o.name };
	const bool ok = x.c && make(&x, &k, bytes, n, path, o.header);
	if (!ok && x.c) tj_check(x.c);
	const tj_error *e = !ok && x.c ? tj_last_error(x.c) : NULL;
	tj_ctx_use(c);
	if (!ok) jit_error(c, site, e ? e->code : TJ_ERR_NOMEM, "export_object", e ? e->hint : NULL, "%s", e ? e->message : "out of memory");
	const tj_status st = ok ? TJ_OK : c->rt.err.code;
	drop(&x);
	if (x.c) tj_close(x.c);
	tj_ctx_use(c);
	rt_free(bytes);
	return st;
}
