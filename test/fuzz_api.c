/* SPDX-License-Identifier: MIT */
/* fuzz_api: random programs over the API. A program is the ops of a random graph with, between them, assigns and reads of cells,
 * branches on values, control flow in the graph, reads by the host, and ops whose result size depends on data. Several machines
 * run it several times, with other data each time: a model in the evaluator; ops outside of compiled functions; a compiled
 * function; two more of mixed precision, of which one casts by hand; and one of two more. Either a compiled function in direct mode, with
 * half of the inputs, the cells and the constants as declared state; or a program that changes between calls as if by a captured variable:
 * a step gets another op, attribute or operand. All results must agree bit for bit, cells included.
 *
 * In two of three programs the caller has set its own floating-point modes: another rounding direction, flushed subnormals,
 * unmasked exceptions. Results may not depend on the modes, and the library must leave them as they are.
 *
 * -sizes: no cells, and other sizes from call to call. Only the model and compiled functions run; every third call that could
 * skip the body is audited. */
#include "test/fuzz.h"

#include "runtime/tensor.h"

#include <fenv.h>
#include <immintrin.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_OUT = 6, MAX_CELLS = 3, MAX_EVENTS = 8, CALLS = 5, SIZED_CALLS = 8, MOST = 600 };

/* ---- programs ---- */
typedef enum kind { ASSIGN, READ, BRANCH, DATA, SIZED, COND, WHILE, SCAN, KINDS } kind;
typedef struct event { /* before step `at` */
	kind kind;
	uint32_t at;
	ir_ref value;   /* the value that is assigned, replaced, tested or read */
	int cell;
	double limit;   /* BRANCH, and in control flow: the test is whether any element is above it */
	ir_ref other;   /* COND, WHILE, SCAN: a captured value with the type of the carry; or IR_NONE */
	ir_op op[2];    /* the op of a turn on the carry and the captured value; op[1]: nested, for values above the limit */
	int turns;      /* SIZED: which op */
	bool nest, reverse;
	bool off;
} event;

typedef struct program {
	gen G;
	ir_graph g;
	event event[MAX_EVENTS];
	int nevent, ncell, nout;
	ir_meta cell[MAX_CELLS];
	ir_ref out[MAX_OUT];
	gen_step was;   /* the step that was changed, as it had been */
	int varied;     /* its number, or -1 */
	bool direct;    /* it never changes */
	unsigned modes; /* of the caller: MODE_* */
	rt_vec(gen_step) base; /* -sizes: the steps as they were made, ... */
	rt_vec(ir_meta) base_dims; /* ... and the inputs, by slot */
} program;

/* A value that some step before `at` computed. */
static ir_ref value_before(program *p, uint32_t at)
{
	const gen_step *s = at ? &p->G.step.v[gen_below(&p->G, at)] : NULL;
	return s && !gen_is_tuple(&p->G, s) ? s->result : IR_NONE;
}

static bool same_type(const ir_meta *a, const ir_meta *b)
{
	return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof *a->dim * a->rank);
}

static int cell_like(program *p, const ir_meta *m)
{
	for (int i = 0; i < p->ncell; i++)
		if (same_type(&p->cell[i], m)) return i;
	if (p->ncell == MAX_CELLS) return -1;
	p->cell[p->ncell] = *m;
	return p->ncell++;
}

/* What a turn does; any op that keeps the type of two equal ones. */
static void make_flow(program *p, event *e, const ir_meta *m)
{
	static const ir_op keeps[] = { IR_add, IR_mul, IR_minimum, IR_maximum };
	gen *G = &p->G;
	ir_meta carried = *m;
	if (e->kind == SCAN) memmove(carried.dim, carried.dim + 1, sizeof *carried.dim * --carried.rank);
	e->other = IR_NONE;
	for (int tries = 0; tries < 6 && e->other == IR_NONE; tries++) {
		ir_ref r = value_before(p, e->at);
		if (r == IR_NONE) continue;
		const ir_meta o = ir_meta_of(&p->g, r);
		if (!o.weak && same_type(&o, &carried)) e->other = r;
	}
	for (int k = 0; k < 2; k++) e->op[k] = keeps[gen_below(G, RT_COUNT(keeps))];
	e->turns = (int)gen_below(G, 4);
	e->nest = gen_chance(G, 40);
	e->reverse = gen_chance(G, 50);
}

static void add_event(program *p, uint32_t at)
{
	gen *G = &p->G;
	event e = { .kind = (kind)gen_below(G, KINDS), .at = at, .value = value_before(p, at), .limit = (double)gen_below(G, 7) - 3 };
	if (e.value == IR_NONE || p->nevent == MAX_EVENTS) return;
	ir_meta m = ir_meta_of(&p->g, e.value);
	if (m.weak) return;
	if (e.kind == ASSIGN || e.kind == READ) {
		if (fuzz_opt.sizes) return; /* a cell keeps its shape */
		e.cell = cell_like(p, &m);
		if (e.cell < 0) return;
	}
	if (e.kind == SCAN && (!m.rank || !m.dim[0])) e.kind = WHILE;
	if (e.kind == SIZED) e.turns = (int)gen_below(G, 3);
	if (e.kind >= COND) make_flow(p, &e, &m);
	if (fuzz_opt.sizes) e.other = IR_NONE; /* it need not keep the size of what is carried */
	p->event[p->nevent++] = e;
}

/* A cell read, computed with, assigned: what is written in place. */
static void add_update(program *p)
{
	gen *G = &p->G;
	uint32_t i = (uint32_t)gen_below(G, G->step.n);
	ir_ref v = G->step.v[i].result;
	ir_meta m = ir_meta_of(&p->g, v);
	if (gen_is_tuple(G, &G->step.v[i]) || m.weak || p->nevent + 2 > MAX_EVENTS) return;
	for (uint32_t j = G->step.n - 1; j > i; j--) {
		ir_meta n = ir_meta_of(&p->g, G->step.v[j].result);
		if (n.weak || !same_type(&n, &m) || gen_is_tuple(G, &G->step.v[j])) continue;
		int cell = cell_like(p, &m);
		if (cell < 0) return;
		p->event[p->nevent++] = (event){ .kind = READ, .at = i + 1, .value = v, .cell = cell };
		p->event[p->nevent++] = (event){ .kind = ASSIGN, .at = j + 1, .value = G->step.v[j].result, .cell = cell };
		return;
	}
}

static void make(program *p, uint64_t seed)
{
	gen *G = &p->G;
	*p = (program){ .varied = -1 };
	gen_init(G, &p->g, seed);
	G->most = MOST;
	G->lib_f32 = false;
	fuzz_graph(G, seed);
	for (int k = 0; G->step.n && k < 3 && !fuzz_opt.sizes; k++) add_update(p);
	for (uint32_t i = 0; i < G->step.n && fuzz_opt.sizes; i++)
		if (!rt_push(&p->base, G->step.v[i])) abort();
	for (uint32_t i = 0; i < G->slot.n && fuzz_opt.sizes; i++)
		if (!rt_push(&p->base_dims, G->slot.v[i].meta)) abort();
	for (uint32_t at = 1; at <= G->step.n; at++)
		if (gen_chance(G, fuzz_opt.sizes ? 12 : 25)) add_event(p, at);
	p->direct = gen_chance(G, 50);
	p->modes = seed % 3 ? (unsigned)gen_below(G, 16) : 0;
	for (int k = 0; p->direct && k < p->nevent; k++) /* they keep the body running */
		if (p->event[k].kind == SIZED && gen_chance(G, 75)) p->event[k].off = true;
	for (uint32_t i = 0; i < p->g.out.n && p->nout < MAX_OUT; i++) p->out[p->nout++] = p->g.out.v[i];
}

/* ---- changes between calls, as a captured variable makes them ---- */
static bool result_of(const program *p, const gen_step *s, int which, ir_meta *m)
{
	ir_meta src[8];
	rt_err err = { 0 };
	for (int k = 0; k < s->nsrc; k++) src[k] = ir_meta_of(&p->g, s->src[k]);
	return s->op < IR_OPS && ir_infer_result(s->op, which, s->nsrc, src, s->nattr, s->attr, m, &err) == TJ_OK;
}

static ir_op another(gen *G, ir_op op)
{
	static const ir_op alike[][5] = { { IR_add, IR_sub, IR_mul, IR_minimum, IR_maximum },
		                          { IR_neg, IR_abs, IR_square, IR_relu, IR_sign },
		                          { IR_exp, IR_tanh, IR_sqrt, IR_sin, IR_erf },
		                          { IR_eq, IR_lt, IR_gt, IR_ne, IR_le },
		                          { IR_sum, IR_prod, IR_sum, IR_prod, IR_sum },
		                          { IR_amax, IR_amin, IR_amax, IR_amin, IR_amax },
		                          { IR_max_with_indices, IR_min_with_indices, IR_max_with_indices, IR_min_with_indices,
		                            IR_max_with_indices } };
	for (size_t i = 0; i < RT_COUNT(alike); i++)
		for (size_t k = 0; k < RT_COUNT(alike[0]); k++)
			if (alike[i][k] == op) return alike[i][gen_below(G, RT_COUNT(alike[0]))];
	return op;
}

/* Changes a step: another op, attribute, order of operands, or operand. */
static void change(program *p, gen_step *s, uint32_t at)
{
	gen *G = &p->G;
	int k = s->nsrc ? (int)gen_below(G, s->nsrc) : 0;
	ir_ref r;
	switch (gen_below(G, 4)) {
	case 0: s->op = another(G, s->op); break;
	case 1:
		if (s->nattr) s->attr[gen_below(G, s->nattr)] += gen_chance(G, 50) ? 1 : -1;
		break;
	case 2:
		if (s->nsrc < 2 || ir_ops[s->op].opclass != IR_BINARY) break;
		r = s->src[0];
		s->src[0] = s->src[1];
		s->src[1] = r;
		break;
	default:
		r = value_before(p, at);
		if (r != IR_NONE && s->nsrc && !ir_at(&p->g, s->src[k])->weak && !ir_at(&p->g, r)->weak) s->src[k] = r;
	}
}

static bool same_results(const program *p, const gen_step *was, const gen_step *is)
{
	ir_meta a, b;
	if (was->op >= IR_OPS || is->op >= IR_OPS || ir_ops[was->op].nresult != ir_ops[is->op].nresult) return false;
	for (int i = 0; i < ir_ops[is->op].nresult; i++)
		if (!result_of(p, was, i, &a) || !result_of(p, is, i, &b) || !same_type(&a, &b) || a.weak != b.weak) return false;
	return true;
}

/* The results must have the same types as before: later steps use them. */
static bool vary(program *p)
{
	gen *G = &p->G;
	for (int tries = 0; G->step.n && tries < 12; tries++) {
		uint32_t at = (uint32_t)gen_below(G, G->step.n);
		gen_step *s = &G->step.v[at], was = *s;
		change(p, s, at);
		bool other = s->op != was.op || memcmp(s->src, was.src, sizeof was.src) || memcmp(s->attr, was.attr, sizeof was.attr);
		if (other && same_results(p, &was, s)) {
			p->was = was;
			p->varied = (int)at;
			return true;
		}
		*s = was;
	}
	return false;
}

/* ---- machines: each runs programs, and has its own handles for values ---- */
typedef struct machine {
	program *p;
	void **val;  /* by node of p->g */
	bool failed;
	void *(*op)(struct machine *m, const gen_step *s, void **src); /* of several results: an array of handles */
	void *(*pair)(struct machine *m, ir_op op, void *a, void *b);
	bool (*above)(struct machine *m, void *v, double limit);
	void *(*cell)(struct machine *m, int k);
	void (*assign)(struct machine *m, int k, void *v);
	void (*data)(struct machine *m, void *v);
	void *(*sized)(struct machine *m, const event *e, void *v); /* the sum of its result */
	void *(*flow)(struct machine *m, const event *e, void *v, void *other); /* other: NULL when nothing is captured */
} machine;

static void run_event(machine *m, const event *e)
{
	void **v = &m->val[e->value];
	switch (e->kind) {
	case ASSIGN: m->assign(m, e->cell, *v); break;
	case READ: *v = m->cell(m, e->cell); break;
	case BRANCH:
		if (m->above(m, *v, e->limit)) *v = m->pair(m, IR_maximum, *v, m->pair(m, IR_add, *v, *v));
		else *v = m->pair(m, IR_mul, *v, *v);
		break;
	case DATA: m->data(m, *v); break;
	case SIZED: *v = m->pair(m, IR_add, *v, m->sized(m, e, *v)); break;
	case COND: case WHILE: case SCAN: *v = m->flow(m, e, *v, e->other == IR_NONE ? NULL : m->val[e->other]); break;
	case KINDS: break;
	}
}

static void run_program(machine *m)
{
	const program *p = m->p;
	for (uint32_t i = 0; i <= p->G.step.n && !m->failed; i++) {
		for (int k = 0; k < p->nevent; k++)
			if (p->event[k].at == i && !p->event[k].off) run_event(m, &p->event[k]);
		if (i == p->G.step.n) break;
		const gen_step *s = &p->G.step.v[i];
		void *src[8];
		for (int k = 0; k < s->nsrc; k++) src[k] = m->val[s->src[k]];
		m->val[s->result] = s->op == IR_get ? ((void **)src[0])[s->attr[0]] : m->op(m, s, src);
	}
}

/* ---- the model: each op a graph of its own, in the evaluator ---- */
typedef struct mval {
	ir_meta meta;
	void *data; /* NULL: the value that the cell holds when it is used */
	int cell;
} mval;
typedef struct model {
	machine m;
	rt_arena mem;
	rt_err err;
	mval *cell[MAX_CELLS];
	rt_vec(const mval *) seen; /* what the host read */
} model;

static const mval *now(const model *o, const mval *v) { return v->data ? v : o->cell[v->cell]; }

static mval *new_mval(model *o, const ir_meta *m)
{
	int64_t n = 0;
	mval *v = rt_arena_alloc(&o->mem, sizeof *v);
	rt_numel(m->rank, m->dim, &n);
	v->meta = *m;
	v->data = rt_arena_alloc(&o->mem, (size_t)n * tj_dtype_size((tj_dtype)m->dtype) + 8);
	return v;
}

/* Result `which` of an op with several results. */
static void *model_result(model *o, ir_op op, int which, int nsrc, void **src, int nattr, const int64_t *attr)
{
	ir_graph g;
	ir_ref in[8];
	const void *ext[8] = { 0 };
	uint64_t num[8] = { 0 };
	mval *out = NULL;
	if (o->m.failed) return src[0];
	ir_graph_init(&g);
	for (int k = 0; k < nsrc; k++) {
		const mval *v = now(o, src[k]);
		ext[k] = v->data;
		if (v->meta.weak) memcpy(&num[k], v->data, 8);
		in[k] = v->meta.weak ? ir_num_(&g, (tj_dtype)v->meta.dtype, k, NULL) : ir_input(&g, k, &v->meta, NULL, NULL);
	}
	ir_ref r = ir_emit(&g, op, nsrc, in, nattr, attr, NULL);
	if (ir_ops[op].nresult > 1) r = ir_get(&g, r, which, NULL);
	tj_status st = g.err.code;
	if (st != TJ_OK) o->err = g.err;
	if (st == TJ_OK && ir_ret(&g, r)) {
		ir_meta m = ir_meta_of(&g, r);
		out = new_mval(o, &m);
		st = ir_eval(&g, ext, num, NULL, &out->data, &(ir_eval_opts){ 0 }, &o->err);
	}
	if (st != TJ_OK) o->m.failed = true;
	ir_graph_free(&g);
	return out ? out : src[0];
}

static void *model_emit(model *o, ir_op op, int nsrc, void **src, int nattr, const int64_t *attr)
{
	return model_result(o, op, 0, nsrc, src, nattr, attr);
}

static void *model_op(machine *m, const gen_step *s, void **src)
{
	model *o = (model *)m;
	if (s->op == IR_to) return src[0]; /* to its own device: the operand itself, even if that is a cell */
	const mval *v = s->op == IR_full && !m->failed ? now(o, src[0]) : NULL;
	if (v && v->meta.weak && !ir_holds((tj_dtype)s->attr[0], ir_load((tj_dtype)v->meta.dtype, v->data), v->meta.dtype == TJ_I64)) {
		o->err = (rt_err){ .code = TJ_ERR_ARG };
		m->failed = true;
		return src[0];
	}
	if (!s->want) return model_emit(o, s->op, s->nsrc, src, s->nattr, s->attr);
	void **all = rt_arena_alloc(&o->mem, IR_MOST_RESULTS * sizeof *all);
	for (int i = 0; i < IR_MOST_RESULTS; i++)
		if (s->want >> i & 1) all[i] = model_result(o, s->op, i, s->nsrc, src, s->nattr, s->attr);
	return all;
}

static void *model_pair(machine *m, ir_op op, void *a, void *b) { return model_emit((model *)m, op, 2, (void *[]){ a, b }, 0, NULL); }

static void *model_cell(machine *m, int k)
{
	mval *v = rt_arena_alloc(&((model *)m)->mem, sizeof *v);
	*v = (mval){ .cell = k };
	return v;
}

static void model_assign(machine *m, int k, void *v)
{
	model *o = (model *)m;
	const mval *x = now(o, v);
	mval *copy = new_mval(o, &x->meta);
	copy->data = x->data;
	o->cell[k] = copy;
}

static bool model_above(machine *m, void *v, double limit)
{
	model *o = (model *)m;
	mval *l = new_mval(o, &(ir_meta){ .dtype = TJ_F64, .weak = true });
	memcpy(l->data, &limit, sizeof limit);
	void *gt = model_emit(o, IR_gt, 2, (void *[]){ v, l }, 0, NULL);
	const mval *any = model_emit(o, IR_any, 1, &gt, 1, (int64_t[]){ 0 });
	return !m->failed && *(const uint8_t *)any->data;
}

/* From here on, a result whose size depended on data is a value like others. */
static void *model_sized(machine *m, const event *e, void *v)
{
	model *o = (model *)m;
	const mval *x = now(o, v);
	mval *r, *limit = new_mval(o, &(ir_meta){ .dtype = TJ_F64, .weak = true });
	ir_value xv = { .meta = x->meta, .data = x->data };
	ir_unique u;
	ir_contiguous(x->meta.rank, x->meta.dim, xv.stride);
	memcpy(limit->data, &e->limit, sizeof e->limit);
	const mval *mask = model_emit(o, IR_gt, 2, (void *[]){ v, limit }, 0, NULL);
	if (o->m.failed) return v;
	ir_value mv = { .meta = mask->meta, .data = mask->data };
	memcpy(mv.stride, xv.stride, sizeof mv.stride);
	if (e->turns == 0) {
		r = new_mval(o, &(ir_meta){ .dtype = x->meta.dtype, .rank = 1, .dim = { ir_count_nonzero(&mv) } });
		ir_masked_select(&xv, &mv, r->meta.dim[0], r->data);
	} else if (e->turns == 1) {
		r = new_mval(o, &(ir_meta){ .dtype = TJ_I64, .rank = 2, .dim = { ir_count_nonzero(&mv), x->meta.rank } });
		ir_nonzero(&mv, r->meta.dim[0], r->data);
	} else {
		if (!ir_unique_sort(&u, &xv, false)) abort();
		r = new_mval(o, &(ir_meta){ .dtype = x->meta.dtype, .rank = 1, .dim = { u.count } });
		ir_unique_write(&u, r->data, NULL, NULL, NULL);
		ir_unique_free(&u);
	}
	void *sum = model_emit(o, IR_sum, 1, (void *[]){ r }, 1, (int64_t[]){ 0 });
	return model_emit(o, IR_cast, 1, &sum, 1, (int64_t[]){ x->meta.dtype });
}

/* Control flow as plain C. */
static void *model_turn(machine *m, const event *e, void *x, void *other)
{
	bool second = e->nest && model_above(m, x, e->limit);
	return model_pair(m, e->op[second], x, other ? other : x);
}

static void *model_scan(machine *m, const event *e, void *v, void *other)
{
	model *o = (model *)m;
	const mval *x = now(o, v);
	mval *ys = new_mval(o, &x->meta);
	int64_t n = x->meta.dim[0], all = 0;
	void *carry = NULL;
	rt_numel(x->meta.rank, x->meta.dim, &all);
	if (!n) {
		o->err = (rt_err){ .code = TJ_ERR_SHAPE };
		m->failed = true; /* the first carry is a row of it */
		return v;
	}
	size_t slice = (size_t)(all / n) * tj_dtype_size((tj_dtype)x->meta.dtype);
	for (int64_t turn = 0; turn < n && !m->failed; turn++) {
		int64_t t = e->reverse ? n - 1 - turn : turn;
		ir_meta row = x->meta;
		memmove(row.dim, row.dim + 1, sizeof *row.dim * --row.rank);
		mval *in = new_mval(o, &row), *first = new_mval(o, &row);
		if (slice) memcpy(in->data, (char *)x->data + (size_t)t * slice, slice), memcpy(first->data, x->data, slice);
		carry = model_pair(m, IR_maximum, model_turn(m, e, carry ? carry : first, other), in);
		if (slice && !m->failed) memcpy((char *)ys->data + (size_t)t * slice, now(o, carry)->data, slice);
	}
	return ys;
}

static void *model_flow(machine *m, const event *e, void *v, void *other)
{
	if (e->kind == SCAN) return model_scan(m, e, v, other);
	if (e->kind == COND) return model_above(m, v, e->limit) ? model_turn(m, e, v, other) : model_pair(m, e->op[1], v, v);
	const mval *x = now((model *)m, v); /* the value of a cell at this point, also if it is assigned later */
	mval *r = new_mval((model *)m, &x->meta);
	r->data = x->data;
	v = r;
	for (int i = 0; i < e->turns && !m->failed; i++) v = model_turn(m, e, v, other);
	return v;
}

static void model_data(machine *m, void *v)
{
	model *o = (model *)m;
	if (!rt_push(&o->seen, now(o, v))) abort();
}

/* ---- the API ---- */
typedef struct api {
	machine m;
	tj_ctx *c;
	tj_tensor *cell[MAX_CELLS], **arg, **konst; /* konst: by node */
	rt_arena mem;         /* arrays of several results */
	int next;             /* values the host has read in this run */
	const model *want;    /* NULL: the model has other dtypes */
	tj_dtype low;         /* mixed precision by hand, in place of .autocast; TJ_BOOL: none */
	rt_text *why;
} api;

static const int64_t *list_of(const int64_t *v, int n, int64_t *room)
{
	memcpy(room, v, sizeof *v * (size_t)n);
	room[n] = TJ_END_DIM;
	return room;
}

static double number_at(const program *p, const gen_step *s, int k)
{
	double d;
	memcpy(&d, &p->G.num.v[ir_attr(&p->g, ir_at(&p->g, s->src[k]))[0]], sizeof d);
	return d;
}

/* The device of new tensors: what a program of the CPU calls the CPU. */
static int64_t home(void)
{
	const char *device = getenv("TJ_DEVICE");
	return device ? tj_find_device(device) : TJ_CPU;
}

/* The argument for a parameter of ir/classes.def, after a comma. */
#define GIVE(type, name, role, k) , GIVE_##role(type, k)
#define GIVE_OPERAND(type, k)  v[k]
#define GIVE_FITTED(type, k)   v[k]
#define GIVE_NUMBER(type, k)   number_at(p, s, k)
#define GIVE_OPERANDS(type, k) v
#define GIVE_ATTR(type, k)     (type)a[k]
#define GIVE_DTYPE(type, k)    (type)a[k]
#define GIVE_DEVICE(type, k)   (type)(a[k] ? a[k] : home())
#define GIVE_AXES(type, k)     (s->nattr > k || s->op == IR_permute ? list_of(a + k, s->nattr - k, room) : TJ_ALL)
#define GIVE_SIZES(type, k)    list_of(a + k, s->nattr - k, room)
#define GIVE_RESULT(name, i, type, shape) , s->want >> i & 1 ? &all[i] : NULL
#define NOTHING(name, i, type, shape)
#define ONE(FIRST, NEXT)
#define CALL(op, results, class, nsrc, ...) \
	case IR_##op: \
		return tj_##op##_at(NULL IR_EACH(GIVE, __VA_ARGS__) results(NOTHING, GIVE_RESULT));
#define BOTH(op, results) op, results

/* all: destinations of all results but the first, by number. */
static tj_tensor *call(const program *p, const gen_step *s, tj_tensor **v, tj_tensor **all)
{
	const int64_t *a = s->attr;
	int64_t room[3 * TJ_MAX_RANK + 1];
	switch (s->op) {
#define OP(name, cls, ...) IR_CLASS_##cls(CALL, BOTH(name, ONE))
#define OPS(name, cls, flags, math, results, ...) IR_CLASS_##cls(CALL, BOTH(name, results))
#include "ir/ops.def"
#undef OP
	default: return NULL;
	}
}

/* Casts the operands as .autocast does. */
static void cast_by_hand(tj_dtype low, int op, int n, tj_tensor **v)
{
	const uint16_t flags = ir_ops[op].flags;
	bool f64 = false, differ = false;
	tj_dtype to = flags & IR_LOW ? low : TJ_F32, first = TJ_BOOL;
	if (low == TJ_BOOL || !(flags & (IR_LOW | IR_HIGH | IR_WIDEST))) return;
	for (int k = 0; k < n; k++) {
		if (rt_is_number(v[k]) || !rt_is_float(tj_dtype_of(v[k]))) continue;
		f64 |= tj_dtype_of(v[k]) == TJ_F64;
		differ |= first != TJ_BOOL && tj_dtype_of(v[k]) != first;
		first = tj_dtype_of(v[k]);
	}
	if (flags & IR_WIDEST && !differ) return;
	for (int k = 0; k < n && !f64; k++)
		if (!rt_is_number(v[k]) && rt_is_float(tj_dtype_of(v[k]))) v[k] = tj_cast(v[k], to);
}

static void *api_op(machine *m, const gen_step *s, void **src)
{
	tj_tensor *v[9];
	for (int k = 0; k < s->nsrc; k++) v[k] = src[k];
	cast_by_hand(((api *)m)->low, s->op, s->nsrc, v);
	v[s->nsrc] = TJ_END;
	if (!s->want) return call(m->p, s, v, NULL);
	tj_tensor **all = rt_arena_alloc(&((api *)m)->mem, IR_MOST_RESULTS * sizeof *all);
	all[0] = call(m->p, s, v, all);
	return all;
}

static void *api_pair(machine *m, ir_op op, void *a, void *b)
{
	gen_step s = { .op = op, .nsrc = 2 };
	return api_op(m, &s, (void *[]){ a, b });
}

static bool api_above(machine *m, void *v, double limit)
{
	(void)m;
	tj_tensor *t = v;
	return tj_truth(tj_any(tj_gt(t, tj_f(limit)), TJ_ALL, false));
}

static void *api_cell(machine *m, int k) { return ((api *)m)->cell[k]; }
static void api_assign(machine *m, int k, void *v)
{
	tj_tensor *t = v;
	tj_assign(((api *)m)->cell[k], t);
}

static bool same(const mval *want, const void *got, const char *what, int k, rt_text *why)
{
	int64_t n = 0, at = 0;
	rt_numel(want->meta.rank, want->meta.dim, &n);
	if (!got && n) rt_putf(why, "%s %d has no data", what, k);
	if ((!got && n) || gen_same((tj_dtype)want->meta.dtype, want->data, got, n, &at)) return got || !n;
	rt_putf(why, "%s %d, element %lld is ", what, k, (long long)at);
	gen_put_element(why, (tj_dtype)want->meta.dtype, got, at);
	rt_puts(why, ", the model has ");
	gen_put_element(why, (tj_dtype)want->meta.dtype, want->data, at);
	return false;
}

static void api_data(machine *m, void *v)
{
	api *x = (api *)m;
	tj_tensor *t = v;
	const void *d = tj_data(t);
	if (!x->want || x->why->n || x->want->m.failed || (uint32_t)x->next >= x->want->seen.n) return;
	same(x->want->seen.v[x->next], d, "value read by the host", x->next, x->why);
	x->next++;
}

static void *api_sized(machine *m, const event *e, void *v)
{
	tj_tensor *x = v, *r;
	if (e->turns == 2) r = tj_unique(x);
	else {
		tj_tensor *mask = tj_gt(x, tj_f(e->limit));
		r = e->turns ? tj_nonzero(mask) : tj_masked_select(x, mask);
	}
	cast_by_hand(((api *)m)->low, IR_sum, 1, &r);
	return tj_cast(tj_sum(r, TJ_ALL, false), tj_dtype_of(x));
}

/* Control flow in the graph. */
typedef struct inside { const event *e; tj_tensor *other; } inside;
static tj_tensor *op_of(ir_op op, tj_tensor *a, tj_tensor *b)
{
	return op == IR_add ? tj_add(a, b) : op == IR_mul ? tj_mul(a, b) : op == IR_minimum ? tj_minimum(a, b) : tj_maximum(a, b);
}
static tj_tensor *is_above(tj_tensor *x, double limit) { return tj_any(tj_gt(x, tj_f(limit)), TJ_ALL, false); }
static void do_op(int k, tj_tensor **out, tj_tensor *x, const inside *w) { *out = op_of(w->e->op[k], x, w->other ? w->other : x); }
static void in_second(tj_tensor **out, tj_tensor *const *in, void *self) { do_op(1, out, in[0], self); }
static void in_first(tj_tensor **out, tj_tensor *const *in, void *self) { do_op(0, out, in[0], self); }
static void in_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const inside *w = self;
	if (w->e->nest) tj_cond(out, 1, is_above(in[0], w->e->limit), in_second, in_first, TJ_LIST(in[0]), self);
	else in_first(out, in, self);
}
static void in_else(tj_tensor **out, tj_tensor *const *in, void *self) { *out = op_of(((inside *)self)->e->op[1], in[0], in[0]); }
static void in_while(tj_tensor **out, tj_tensor *const *in, void *self) { *out = tj_lt(in[1], tj_i(((inside *)self)->e->turns)); }
static void in_body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	in_turn(out, in, self);
	out[1] = tj_add(in[1], tj_i(1));
}
static void in_scan(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *x;
	in_turn(&x, in, self);
	out[0] = out[1] = tj_maximum(x, in[1]);
}

static void *api_flow(machine *m, const event *e, void *v, void *other)
{
	inside w = { e, other };
	tj_tensor *x = v, *out[2] = { x, x }, *carry;
	(void)m;
	if (e->kind == COND) tj_cond(out, 1, is_above(x, e->limit), in_turn, in_else, TJ_LIST(x), &w);
	else if (e->kind == WHILE) tj_while(out, in_while, in_body, TJ_LIST(x, tj_i(0)), &w, NULL);
	else {
		int64_t shape[TJ_MAX_RANK + 1];
		for (int i = 1; i <= tj_rank(x); i++) shape[i - 1] = i < tj_rank(x) ? tj_dim(x, i) : TJ_END_DIM;
		tj_scan(&carry, out, 1, in_scan, TJ_LIST(tj_reshape(tj_slice(x, 0, 0, 1, 1), shape)), TJ_LIST(x), &w,
		        TJ_OPTS(tj_scan_opts, .reverse = e->reverse));
	}
	return out[0];
}

/* The external of a slot as a tensor: row-major, or a view with the same values. */
static tj_tensor *tensor_of(api *x, const gen_slot *s, int way)
{
	int64_t dim[TJ_MAX_RANK + 1], n = 0, at[TJ_MAX_RANK] = { 0 }, put[TJ_MAX_RANK], o = 0, shape[TJ_MAX_RANK + 1];
	size_t size = tj_dtype_size((tj_dtype)s->meta.dtype);
	int r = s->meta.rank;
	if (r) memcpy(dim, s->meta.dim, sizeof *dim * (size_t)r);
	if (r && way == 2) dim[r - 1] *= 2;
	if (r && way == 4) dim[r - 1] += 1;
	int64_t rev[TJ_MAX_RANK];
	for (int i = 0; i < r; i++) rev[i] = dim[r - 1 - i];
	ir_contiguous(r, way == 1 ? rev : dim, put);
	if (way == 1)
		for (int i = 0; i < r / 2; i++) o = put[i], put[i] = put[r - 1 - i], put[r - 1 - i] = o;
	rt_numel(r, dim, &n);
	char *buf = calloc((size_t)n + 1, size);
	rt_numel(r, s->meta.dim, &n);
	if (!buf) abort();
	for (int64_t k = 0; k < n; k++) {
		int64_t from = 0, to = r && way == 4 ? 1 : 0;
		for (int i = 0; i < r; i++) {
			from += at[i] * s->stride[i];
			int64_t a = way == 3 && i == r - 1 ? dim[i] - 1 - at[i] : way == 2 && i == r - 1 ? 2 * at[i] : at[i];
			to += a * put[i];
		}
		memcpy(buf + to * (int64_t)size, (const char *)s->data + from * (int64_t)size, size);
		for (int i = r - 1; i >= 0; i--) {
			if (++at[i] < s->meta.dim[i]) break;
			at[i] = 0;
		}
	}
	tj_tensor *t = tj_from_data(x->c, (tj_dtype)s->meta.dtype, list_of(way == 1 ? rev : dim, r, shape), buf);
	free(buf);
	if (!r) return t;
	if (way == 1) {
		for (int i = 0; i < r; i++) rev[i] = r - 1 - i;
		return tj_permute(t, list_of(rev, r, shape));
	}
	if (way == 2) return tj_slice(t, r - 1, 0, TJ_END_DIM, 2);
	if (way == 3) return tj_flip(t, TJ_AXES(r - 1));
	if (way == 4) return tj_slice(t, r - 1, 1, TJ_END_DIM, 1);
	return t;
}

/* ---- a body ---- */
/* Every other input, then every other number, is an argument. */
static int args_of(const program *p) { return ((int)p->G.slot.n + 1) / 2 + ((int)p->G.num.n + 1) / 2; }

static tj_tensor *number_of(const program *p, uint32_t slot)
{
	double d;
	memcpy(&d, &p->G.num.v[slot], sizeof d);
	for (ir_ref r = 0; r < p->g.node.n; r++) {
		const ir_node *n = ir_at(&p->g, r);
		if (n->op == IR_num && ir_attr(&p->g, n)[0] == slot) return n->dtype == TJ_F64 ? tj_f(d) : tj_i((int64_t)p->G.num.v[slot]);
	}
	return tj_f(d); /* nothing reads it */
}

static void leaves(api *x, tj_tensor *const *in)
{
	const program *p = x->m.p;
	for (ir_ref r = 0; r < p->g.node.n; r++) {
		const ir_node *n = ir_at(&p->g, r);
		const int64_t *a = ir_attr(&p->g, n);
		if (n->op == IR_input) x->m.val[r] = in && a[0] % 2 == 0 ? in[a[0] / 2] : x->arg[a[0]];
		if (n->op == IR_const || n->op == IR_data) x->m.val[r] = x->konst[r];
		if (n->op != IR_num) continue;
		x->m.val[r] = in && a[0] % 2 == 0 ? in[((int)p->G.slot.n + 1) / 2 + a[0] / 2] : number_of(p, (uint32_t)a[0]);
	}
}

static void body(tj_tensor **out, tj_tensor *const *in, void *self)
{
	api *x = self;
	x->next = 0;
	leaves(x, in);
	run_program(&x->m);
	for (int i = 0; i < x->m.p->nout; i++) out[i] = x->m.val[x->m.p->out[i]];
}

/* ---- one program, through all machines ---- */
static void close_program(program *p)
{
	rt_vec_free(&p->base);
	rt_vec_free(&p->base_dims);
	gen_free(&p->G);
}

static void init_model(model *o, program *p)
{
	static const machine ops = { .op = model_op,
		                     .pair = model_pair,
		                     .above = model_above,
		                     .cell = model_cell,
		                     .assign = model_assign,
		                     .data = model_data,
		                     .sized = model_sized,
		                     .flow = model_flow };
	void **val = o->m.val ? o->m.val : rt_arena_alloc(&o->mem, sizeof *val * (p->g.node.n + 1));
	o->m = ops;
	o->m.p = p;
	o->m.val = val;
	o->m.failed = false;
	o->err = (rt_err){ 0 };
	o->seen.n = 0;
	for (ir_ref r = 0; r < p->g.node.n; r++) {
		const ir_node *n = ir_at(&p->g, r);
		const int64_t *a = ir_attr(&p->g, n);
		const gen_slot *slot = n->op == IR_input ? &p->G.slot.v[a[0]] : NULL;
		ir_meta m = slot ? slot->meta : ir_meta_of(&p->g, r);
		if (n->op < IR_OPS || n->op == IR_get) continue;
		mval *v = o->m.val[r] = new_mval(o, &m);
		if (n->op == IR_num) memcpy(v->data, &p->G.num.v[a[0]], 8);
		else { /* an input or a constant, row-major */
			ir_graph one;
			rt_err err = { 0 };
			const void *ext = slot ? slot->data : NULL;
			ir_graph_init(&one);
			if (slot) ir_ret(&one, ir_input(&one, 0, &m, slot->stride, NULL));
			else ir_ret(&one, ir_copy(&one, &p->g, r, NULL));
			if (ir_eval(&one, &ext, NULL, NULL, &v->data, NULL, &err) != TJ_OK) abort();
			ir_graph_free(&one);
		}
	}
}

static void init_api(api *x, program *p, tj_ctx *c, const model *want, rt_text *why)
{
	static const machine ops = { .op = api_op,
		                     .pair = api_pair,
		                     .above = api_above,
		                     .cell = api_cell,
		                     .assign = api_assign,
		                     .data = api_data,
		                     .sized = api_sized,
		                     .flow = api_flow };
	*x = (api){ .m = ops, .c = c, .want = want, .why = why };
	x->m.p = p;
	x->m.val = calloc(p->g.node.n + 1, sizeof *x->m.val);
	x->arg = calloc(p->G.slot.n + 1, sizeof *x->arg);
	x->konst = calloc(p->g.node.n + 1, sizeof *x->konst);
	if (!x->m.val || !x->arg || !x->konst) abort();
	for (int k = 0; k < p->ncell; k++) {
		int64_t shape[TJ_MAX_RANK + 1];
		x->cell[k] = tj_param(c, (tj_dtype)p->cell[k].dtype, list_of(p->cell[k].dim, p->cell[k].rank, shape));
	}
	for (ir_ref r = 0; r < p->g.node.n; r++)
		if (ir_at(&p->g, r)->op == IR_const || ir_at(&p->g, r)->op == IR_data) {
			const mval *v = want->m.val[r];
			int64_t shape[TJ_MAX_RANK + 1];
			x->konst[r] = tj_constant(c, (tj_dtype)v->meta.dtype, list_of(v->meta.dim, v->meta.rank, shape), v->data);
		}
}

static void free_api(api *x)
{
	free(x->m.val);
	free(x->arg);
	free(x->konst);
	rt_arena_free(&x->mem);
}

static bool is_fault(tj_status st) { return st == TJ_ERR_INDEX || st == TJ_ERR_DIV; }

static bool agrees(program *p, const model *o, api *x, tj_tensor **out, rt_text *why)
{
	tj_status st = tj_check(x->c), want = o->m.failed ? o->err.code : TJ_OK;
	const tj_error *e = tj_last_error(x->c);
	if (why->n) return false;
	if (o->m.failed && st == TJ_OK) return true; /* only demanded values fault */
	if (st != want && !(is_fault(st) && is_fault(want))) { /* if several ops fault, any of the faults may be reported */
		rt_putf(why, "\"%s\" %s, the model has \"%s\"", tj_strerror(st), e && st ? e->message : "", tj_strerror(want));
		return false;
	}
	for (int i = 0; i < p->nout && !o->m.failed; i++) {
		const mval *v = now(o, o->m.val[p->out[i]]);
		if (tj_dtype_of(out[i]) != (tj_dtype)v->meta.dtype || tj_rank(out[i]) != v->meta.rank) {
			rt_putf(why, "output %d has another type", i);
			return false;
		}
		if (!same(v, tj_data(out[i]), "output", i, why)) return false;
	}
	for (int i = 0; i < p->ncell; i++)
		if (!same(o->cell[i], tj_data(x->cell[i]), "cell", i, why)) return false;
	return true;
}

static void compare(program *p, const model *o, api *x, tj_tensor **out, int nth, const char *who, rt_text *why)
{
	if (!agrees(p, o, x, out, why)) rt_putf(why, " (%s, call %d)", who, nth);
}

/* Two machines that need not agree with the model, in outputs and cells. */
static void compare_two(const program *p, const api *x, const api *y, tj_status sx, tj_status sy, tj_tensor **a, tj_tensor **b,
                        rt_text *why)
{
	int64_t at = 0;
	if (sx != sy && !(is_fault(sx) && is_fault(sy)))
		rt_putf(why, "\"%s\" with .autocast, \"%s\" with casts", tj_strerror(sx), tj_strerror(sy));
	for (int i = 0; i < p->nout + p->ncell && !why->n; i++) {
		tj_tensor *s = i < p->nout ? a[i] : x->cell[i - p->nout], *t = i < p->nout ? b[i] : y->cell[i - p->nout];
		if (i < p->nout && sx != TJ_OK) continue;
		if (tj_dtype_of(s) != tj_dtype_of(t) || tj_numel(s) != tj_numel(t)) rt_putf(why, "output or cell %d has another type than with casts", i);
		else if (!gen_same(tj_dtype_of(s), tj_data(s), tj_data(t), tj_numel(s), &at))
			rt_putf(why, "output or cell %d, element %lld is another one than with casts", i, (long long)at);
	}
}

/* New data for every other call, else new data in a third of the inputs. A step changes once, and changes back. */
static void next_data(program *p, int nth, fuzz_mix *mix)
{
	if (nth == 2 && !p->direct && vary(p) && mix) mix->varied++;
	if (nth > 2 && nth % 2 && p->varied >= 0) p->G.step.v[p->varied] = p->was;
	for (uint32_t i = 0; nth && i < p->G.slot.n; i++)
		if (nth % 2 == 0 || i % 3 == 0) gen_refill(&p->G, &p->G.slot.v[i]);
	for (uint32_t i = 0; nth && i < p->G.num.n; i += 1 + p->direct)
		gen_redraw(&p->G, i); /* direct: the other numbers are constants of the body */
}

/* ---- other sizes ---- */
/* Sets each size `from` to `to`, in the original inputs and attributes; from 0: restores all. */
static void set_size(program *p, int64_t from, int64_t to)
{
	gen *G = &p->G;
	for (uint32_t k = 0; k < G->slot.n; k++) {
		ir_meta m = p->base_dims.v[k];
		for (int i = 0; i < m.rank; i++)
			if (from && m.dim[i] == from) m.dim[i] = to;
		gen_resize(G, &G->slot.v[k], m.dim);
	}
	for (uint32_t i = 0; i < G->step.n; i++) {
		gen_step *s = &G->step.v[i];
		*s = p->base.v[i];
		for (int k = 0; k < s->nattr && from; k++)
			if (s->attr[k] == from) s->attr[k] = to;
	}
}

static int64_t some_size(program *p)
{
	for (int tries = 0; tries < 20 && p->base_dims.n; tries++) {
		const ir_meta *m = &p->base_dims.v[gen_below(&p->G, p->base_dims.n)];
		int64_t d = m->rank ? m->dim[gen_below(&p->G, m->rank)] : 0;
		if (d > 1) return d;
	}
	return 0;
}

/* The change makes no input large. */
static bool small(const program *p, int64_t from, int64_t to)
{
	for (uint32_t k = 0; k < p->base_dims.n; k++) {
		int64_t n = 1;
		const ir_meta *m = &p->base_dims.v[k];
		for (int i = 0; i < m->rank; i++) n *= m->dim[i] == from ? to : m->dim[i];
		if (n > 2 * MOST) return false;
	}
	return true;
}

/* Every other call has other sizes. The model tells whether the ops allow them. */
static void next_size(program *p, model *o, int nth, fuzz_mix *mix)
{
	gen *G = &p->G;
	for (uint32_t i = 0; nth % 2 == 0 && i < G->slot.n; i++) gen_refill(G, &G->slot.v[i]);
	for (int tries = 0; nth % 2 && nth != 5 && tries < 5; tries++) {
		int64_t from = some_size(p), to = gen_chance(G, 10) ? 1 : 2 + gen_below(G, 40);
		if (!from) return;
		if (!small(p, from, to)) continue;
		set_size(p, from, to);
		init_model(o, p);
		run_program(&o->m);
		if (o->m.failed) continue;
		if (mix) mix->resized++;
		return;
	}
	if (nth % 2) set_size(p, 0, 0);
}

static tj_dynamic dynamic_of(const program *p) { return fuzz_opt.sizes && p->G.step.n % 3 == 0 ? TJ_DYNAMIC_ON : TJ_DYNAMIC_AUTO; }

/* All values that a body uses and that are not arguments. */
static tj_fn *direct_fn(api *x, const program *p, tj_tensor ***var)
{
	int n = 0;
	for (uint32_t i = 1; i < p->G.slot.n; i += 2) var[n++] = &x->arg[i];
	for (int k = 0; k < p->ncell; k++) var[n++] = &x->cell[k];
	for (ir_ref r = 0; r < p->g.node.n; r++)
		if (x->konst[r]) var[n++] = &x->konst[r];
	var[n] = TJ_END_VAR;
	return tj_compile(x->c, body, x,
	                  TJ_OPTS(tj_compile_opts, .name = "fuzz", .nin = args_of(p), .nout = p->nout, .mode = TJ_DIRECT, .state = var,
	                          .dynamic = dynamic_of(p)));
}

typedef struct fixture {
	model o;
	api eager, fn, direct, cast, hand;
	tj_ctx *c;
	tj_fn *f, *d; /* d: NULL when the program changes */
	tj_fn *fcast, *fhand; /* mixed precision; NULL in most programs */
	tj_tensor **in, ***var;
} fixture;

static void open_mixed(fixture *x, program *p, rt_text *why)
{
	const tj_dtype low = p->G.step.n % 2 ? TJ_BF16 : TJ_F16;
	init_api(&x->cast, p, x->c, &x->o, why);
	init_api(&x->hand, p, x->c, &x->o, why);
	x->cast.want = x->hand.want = NULL;
	x->hand.low = low;
	if (fuzz_opt.sizes || p->nevent % 3) return;
	x->fcast = tj_compile(x->c, body, &x->cast, TJ_OPTS(tj_compile_opts, .name = "cast", .nin = args_of(p), .nout = p->nout, .autocast = low));
	x->fhand = tj_compile(x->c, body, &x->hand, TJ_OPTS(tj_compile_opts, .name = "hand", .nin = args_of(p), .nout = p->nout));
	if (!x->fcast || !x->fhand) abort();
}

static void open_all(fixture *x, program *p, rt_text *why)
{
	int nin = args_of(p);
	*x = (fixture){ .c = tj_open(TJ_OPTS(tj_open_opts, .backend = fuzz_opt.llvm ? "llvm" : "eval")) };
	init_model(&x->o, p);
	for (int k = 0; k < p->ncell; k++) x->o.cell[k] = new_mval(&x->o, &p->cell[k]); /* zeros */
	init_api(&x->eager, p, x->c, &x->o, why);
	init_api(&x->fn, p, x->c, &x->o, why);
	init_api(&x->direct, p, x->c, &x->o, why);
	x->in = calloc((size_t)nin + 1, sizeof *x->in);
	x->var = calloc(p->G.slot.n + p->g.node.n + MAX_CELLS + 1, sizeof *x->var);
	x->f = tj_compile(x->c, body, &x->fn, TJ_OPTS(tj_compile_opts, .name = "fuzz", .nin = nin, .nout = p->nout, .dynamic = dynamic_of(p)));
	open_mixed(x, p, why);
	if (x->var && p->direct) x->d = direct_fn(&x->direct, p, x->var);
	if (!x->c || !x->f || !x->in || !x->var || (p->direct && !x->d)) abort();
}

static void close_all(fixture *x)
{
	tj_close(x->c);
	free(x->in);
	free(x->var);
	free_api(&x->eager);
	free_api(&x->fn);
	free_api(&x->direct);
	free_api(&x->cast);
	free_api(&x->hand);
	rt_vec_free(&x->o.seen);
	rt_arena_free(&x->o.mem);
}

/* ---- the caller's floating-point modes ---- */
enum { MODE_ROUND = 3, MODE_FLUSH = 4, MODE_TRAPS = 8 };

static unsigned control_bits(void)
{
	uint16_t x87;
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	return (_mm_getcsr() & ~0x3Fu) | (unsigned)x87 << 16;
}

static unsigned set_modes(const program *p, fenv_t *was)
{
	static const int round[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
	fegetenv(was);
	if (p->modes & MODE_TRAPS) feenableexcept(FE_ALL_EXCEPT);
	fesetround(round[p->modes & MODE_ROUND]);
	if (p->modes & MODE_FLUSH) _mm_setcsr(_mm_getcsr() | 0x8040);
	return control_bits();
}

static void end_modes(const fenv_t *was, unsigned set, rt_text *why)
{
	if (control_bits() != set && !why->n) rt_puts(why, "the caller's floating-point modes were changed");
	fesetenv(was);
}

static void run_fn(fixture *x, program *p, tj_fn *f, const api *a, tj_tensor **out, rt_text *why)
{
	int nin = args_of(p), inputs = ((int)p->G.slot.n + 1) / 2;
	for (int i = 0; i < nin; i++) x->in[i] = i < inputs ? a->arg[2 * i] : number_of(p, 2 * (uint32_t)(i - inputs));
	x->in[nin] = TJ_END;
	fenv_t was;
	unsigned set = set_modes(p, &was);
	tj_call(f, out, x->in);
	end_modes(&was, set, why);
}

static void call_fn(fixture *x, program *p, tj_fn *f, api *a, int nth, const char *who, rt_text *why)
{
	tj_tensor *out[MAX_OUT] = { 0 };
	if (why->n || !f) return;
	run_fn(x, p, f, a, out, why);
	compare(p, &x->o, a, out, nth, who, why);
}

static void call_mixed(fixture *x, program *p, rt_text *why)
{
	tj_tensor *a[MAX_OUT] = { 0 }, *b[MAX_OUT] = { 0 };
	if (why->n || !x->fcast) return;
	run_fn(x, p, x->fcast, &x->cast, a, why);
	const tj_status st = tj_check(x->c);
	run_fn(x, p, x->fhand, &x->hand, b, why);
	compare_two(p, &x->cast, &x->hand, st, tj_check(x->c), a, b, why);
}

static void check_program(program *p, rt_text *why, fuzz_mix *mix)
{
	fixture x;
	open_all(&x, p, why);
	for (int nth = 0; nth < (fuzz_opt.sizes ? SIZED_CALLS : CALLS) && !why->n; nth++) {
		tj_tensor *out[MAX_OUT] = { 0 };
		mval *before[MAX_CELLS];
		tj_scope *s = tj_push(x.c);
		if (fuzz_opt.sizes) next_size(p, &x.o, nth, mix);
		else next_data(p, nth, mix);
		init_model(&x.o, p);
		memcpy(before, x.o.cell, sizeof before);
		run_program(&x.o.m);
		for (uint32_t i = 0; i < p->G.slot.n; i++) {
			const gen_slot *slot = &p->G.slot.v[i];
			x.cast.arg[i] = x.hand.arg[i] = x.direct.arg[i] = x.fn.arg[i] = x.eager.arg[i] =
				tensor_of(&x.eager, slot, slot->stride[0] == 1 ? 0 : (int)(i % 5));
		}
		if (!x.o.m.failed && !fuzz_opt.sizes) {
			fenv_t was;
			unsigned set = set_modes(p, &was);
			body(out, NULL, &x.eager);
			end_modes(&was, set, why);
			compare(p, &x.o, &x.eager, out, nth, "op by op", why);
		} else if (x.o.m.failed) memcpy(x.o.cell, before, sizeof before); /* a call that fails commits nothing */
		call_fn(&x, p, x.f, &x.fn, nth, "compiled", why);
		call_fn(&x, p, x.d, &x.direct, nth, "direct", why);
		call_mixed(&x, p, why);
		if (mix) mix->calls++;
		tj_pop(s);
		if (x.o.m.failed) break; /* the sets of cells differ from here on */
	}
	tj_stats st = { .size = sizeof st };
	for (int i = 0; i < 2 && mix; i++) {
		if (i ? !x.d : !x.f) continue;
		tj_fn_stats(i ? x.d : x.f, &st);
		mix->direct += st.direct;
		mix->audits += st.audits;
		mix->compiled += st.compiled;
		mix->shared += st.shared;
	}
	close_all(&x);
}

/* ---- runs ---- */
static void use_width(uint64_t seed)
{
	char s[16];
	snprintf(s, sizeof s, "%d", fuzz_opt.width[seed % (uint64_t)fuzz_opt.nwidth]);
	setenv("TJ_CPU", s, 1);
}

void fuzz_api_batch(uint64_t seed, int n, int fd)
{
	fuzz_result r = { .ok = true };
	alarm(120);
	for (int i = 0; i < n; i++) {
		program p;
		rt_text why = { 0 };
		make(&p, seed + (uint64_t)i);
		use_width(seed + (uint64_t)i);
		fuzz_count(&p.G, &r.mix, 1);
		for (int k = 0; k < p.nevent; k++) {
			r.mix.branches += p.event[k].kind == BRANCH;
			r.mix.assigns += p.event[k].kind == ASSIGN;
			r.mix.sized += p.event[k].kind == SIZED && !p.event[k].off;
			r.mix.flows += p.event[k].kind >= COND;
		}
		check_program(&p, &why, &r.mix);
		r.ok &= !why.n;
		rt_text_free(&why);
		close_program(&p);
	}
	fuzz_count_rules(&r.mix);
	_exit(write(fd, &r, sizeof r) != (ssize_t)sizeof r);
}

static void check_child(void *env, rt_text *why) { check_program(env, why, NULL); }

static void print_program(const program *p)
{
	static const char *const kinds[] = { "assign to cell",        "is now cell", "branch on", "read by the host",
		                             "adds what it selects,", "cond",        "while",     "scan" };
	rt_text t = { 0 };
	ir_print(&p->g, &t);
	printf("%s", rt_str(&t));
	rt_text_free(&t);
	for (uint32_t i = 0; i < p->G.step.n; i++) printf("  step %u: %s -> %%%u\n", i, ir_ops[p->G.step.v[i].op].name, p->G.step.v[i].result);
	for (int i = 0; i < p->nevent; i++) {
		const event *e = &p->event[i];
		if (!e->off) printf("  before step %u: %%%u %s %d, limit %g\n", e->at, e->value, kinds[e->kind], e->cell, e->limit);
	}
	for (int i = 0; i < p->nout; i++) printf("  out %%%u\n", p->out[i]);
}

/* Drops events, steps at the end, and outputs that the failure does not need. */
static void reduce(program *p, fuzz_verdict *v)
{
	for (int i = 0; i < p->nevent; i++) {
		p->event[i].off = true;
		fuzz_verdict w = fuzz_in_child(check_child, p);
		if (w.ok) p->event[i].off = false;
		else *v = w;
	}
	for (int i = 0; i < p->nout && p->nout > 1;) {
		ir_ref was = p->out[i];
		p->out[i] = p->out[--p->nout];
		fuzz_verdict w = fuzz_in_child(check_child, p);
		if (!w.ok) {
			*v = w;
			continue;
		}
		p->nout++;
		p->out[i++] = was;
	}
}

bool fuzz_api_alone(uint64_t seed)
{
	program p;
	make(&p, seed);
	use_width(seed);
	fuzz_verdict v = fuzz_in_child(check_child, &p);
	if (!v.ok) {
		reduce(&p, &v);
		printf("FAIL -api seed %llu: %s\n", (unsigned long long)seed, v.why);
		print_program(&p);
	}
	close_program(&p);
	return v.ok;
}
