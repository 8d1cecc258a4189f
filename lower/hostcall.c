/* SPDX-License-Identifier: MIT */
/* hostcall: steps that call C functions on host buffers: the evaluator, and copies to a destination with strides. Such a step copies what
 * it needs of its node into the plan. */
#include "lower/library.h"
#include "runtime/bytes.h"
#include "runtime/site.h"

bool lo_takes_row_major(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	const ir_node *n = lo_node(L, r);
	int64_t stride[TJ_MAX_RANK + 1];
	(void)k;
	ir_contiguous(n->rank, ir_dims(L->g, n), stride);
	for (int i = 0; i < n->rank; i++)
		if (ir_dims(L->g, n)[i] != 1 && a->stride[i] != stride[i]) return false;
	return true;
}

void lo_call_bind(const lo_call *e, void *const *buf, ir_value *src)
{
	for (int k = 0; k < e->nsrc; k++) {
		src[k] = e->src[k];
		src[k].data = buf[k];
	}
}

/* An operand of another device, row-major on the host; *copy is to be freed. */
static tj_status bring(const lo_call *e, int k, ir_value *src, void **copy, rt_run *r)
{
	const ir_meta *m = &src->meta;
	const rt_elements from = { m->device, m->rank, tj_dtype_size((tj_dtype)m->dtype), m->dim, src->stride, src->data };
	int64_t n = 1;
	for (int d = 0; d < m->rank; d++) n *= m->dim[d];
	*copy = rt_alloc((size_t)n * from.size + 1);
	if (!*copy) return rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[e->op].name, "out of memory for operand %d", k);
	tj_status st = rt_bytes_copy(r->pool, &from, RT_CPU, *copy, r->err);
	src->data = *copy;
	src->meta.device = RT_CPU;
	ir_contiguous(m->rank, m->dim, src->stride);
	return st;
}

/* On another device than the CPU: operands come to the host, the result goes back. */
static tj_status call_elsewhere(const lo_call *e, void *const *buf, rt_run *r)
{
	const size_t n = (size_t)e->nsrc;
	ir_value *src = rt_alloc(sizeof *src * (n + 1)), out = { .data = rt_alloc((size_t)e->bytes + 1) };
	void **copy = rt_calloc(sizeof *copy * (n + 1));
	tj_status st = src && out.data && copy ? TJ_OK : rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[e->op].name, "out of memory");
	if (st == TJ_OK) lo_call_bind(e, buf, src);
	for (int k = 0; k < e->nsrc && st == TJ_OK; k++)
		if (src[k].meta.device != RT_CPU) st = bring(e, k, &src[k], &copy[k], r);
	if (st == TJ_OK) st = ir_eval_op(e->op, e->which, e->attr, e->nattr, e->nsrc, src, &out, &e->opts, e->site, r->err);
	if (st == TJ_OK) st = rt_bytes_write(r->pool, e->device, buf[n], out.data, (size_t)e->bytes, r->err);
	for (int k = 0; copy && k < e->nsrc; k++) rt_free(copy[k]);
	rt_free(copy);
	rt_free(out.data);
	rt_free(src);
	return st;
}

static tj_status call_op(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	if (RT_UNLIKELY(e->device != RT_CPU)) return call_elsewhere(e, buf, r);
	ir_value few[8], *src = few, out = { .data = buf[e->nsrc] };
	if (e->nsrc > (int)RT_COUNT(few) && !(src = rt_alloc(sizeof *src * (size_t)e->nsrc)))
		return rt_fail(r->err, TJ_ERR_NOMEM, ir_ops[e->op].name, "out of memory");
	lo_call_bind(e, buf, src);
	tj_status st = ir_eval_op(e->op, e->which, e->attr, e->nattr, e->nsrc, src, &out, &e->opts, e->site, r->err);
	if (src != few) rt_free(src);
	return st;
}

/* Copies a value to a destination with strides. */
static tj_status call_copy(const void *self, void *const *buf, rt_run *r)
{
	const lo_call *e = self;
	ir_value v;
	(void)r;
	lo_call_bind(e, buf, &v);
	rt_copy_strided(e->rank, v.meta.dim, tj_dtype_size((tj_dtype)v.meta.dtype), v.data, v.stride, buf[1], e->stride);
	return TJ_OK;
}

static const char *keep(rt_plan *p, const char *s)
{
	return !s || rt_site_find(s) ? s : rt_arena_strdup(&p->mem, s);
}

static lo_call *new_env(lo_low *L, rt_plan *p, ir_ref r, int nsrc)
{
	const ir_node *n = lo_node(L, r);
	lo_call *e = rt_arena_alloc(&p->mem, sizeof *e);
	if (!e) return NULL;
	*e = (lo_call){ .op = (ir_op)n->op, .which = ir_which(n), .nattr = n->nattr, .nsrc = nsrc, .rank = n->rank, .device = n->device };
	e->bytes = ir_numel(L->g, r) * (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	e->opts.int_div_zero = L->o->int_div_zero;
	e->attr = rt_arena_alloc(&p->mem, sizeof *e->attr * (n->nattr + 1u));
	e->src = rt_arena_alloc(&p->mem, sizeof *e->src * ((size_t)nsrc + 1));
	e->site = keep(p, n->site);
	if (!e->attr || !e->src || (n->site && !e->site)) return NULL;
	if (n->nattr) memcpy(e->attr, ir_attr(L->g, n), sizeof *e->attr * n->nattr);
	return e;
}

/* Operand k of the step is value r, which lies at a. */
static void put_operand(lo_low *L, lo_call *e, int k, ir_ref r, const lo_access *a, rt_at *at)
{
	e->src[k].meta = ir_meta_of(L->g, r);
	e->src[k].meta.dtype = lo_node(L, a->base)->dtype; /* of an index that is read as it is; else r's own */
	memcpy(e->src[k].stride, a->stride, sizeof a->stride);
	at[k].buf = lo_buf_at(L, a);
	at[k].offset = a->offset * (int64_t)tj_dtype_size((tj_dtype)lo_node(L, a->base)->dtype);
	e->src[k].meta.device = L->buf.v[at[k].buf].device; /* a number is on the host, wherever it is used */
}

static const char *eval_name(rt_plan *p, const char *op)
{
	rt_text t = { 0 };
	rt_putf(&t, "eval %s", op);
	char *s = rt_arena_strdup(&p->mem, rt_str(&t));
	rt_text_free(&t);
	return s;
}

bool lo_put_operands(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	const ir_node *n = lo_node(L, s->ref);
	lo_call *e = new_env(L, p, s->ref, n->nsrc);
	rt_at *at = lo_step_operands(p, t, n->nsrc + 1u);
	if (!e || !at) return false;
	at[n->nsrc].buf = lo_buf_of(L, s->ref);
	for (int k = 0; k < n->nsrc; k++) {
		lo_access a;
		lo_operand_of(L, s->ref, k, &a);
		put_operand(L, e, k, ir_src(L->g, n, k), &a, at);
	}
	t->self = e;
	return true;
}

bool lo_put_call(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	static const rt_routine evaluator = { call_op, NULL };
	t->kind = RT_STEP_ROUTINE;
	t->routine = &evaluator;
	t->name = eval_name(p, ir_ops[lo_node(L, s->ref)->op].name);
	p->exec.eval_steps++;
	return t->name && lo_put_operands(L, p, s, t);
}

bool lo_put_copy(lo_low *L, rt_plan *p, const lo_step *s, rt_step *t)
{
	static const rt_routine strided = { call_copy, NULL };
	size_t size = tj_dtype_size((tj_dtype)lo_node(L, s->ref)->dtype);
	lo_call *e = new_env(L, p, s->ref, 1);
	rt_at *at = lo_step_operands(p, t, 2);
	lo_access a;
	if (!e || !at) return false;
	memcpy(e->stride, s->dest->stride, sizeof e->stride);
	lo_access_of(L, s->ref, &a);
	put_operand(L, e, 0, s->ref, &a, at);
	at[1] = (rt_at){ .buf = s->dest->buf, .offset = s->dest->offset * (int64_t)size };
	t->kind = RT_STEP_ROUTINE;
	t->routine = &strided;
	t->self = e;
	t->name = "copy";
	p->exec.eval_steps++;
	return true;
}
