/* SPDX-License-Identifier: MIT */
/* Outputs in memory of the caller (tj_call_into()): the plan computes them there if it can; else they are copied there, before
 * the commit. */
#include "jit/claim.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

/* The bytes of a tensor; end: behind the last one. */
typedef struct span { const char *first, *end; } span;
static span span_of(const rt_layout *l, const void *data)
{
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)l->dtype);
	int64_t low, high;
	if (!l->numel) return (span){ data, data };
	rt_extent(l->rank, l->dim, rt_strides(l), &low, &high);
	return (span){ (const char *)data + low * size, (const char *)data + (high + 1) * size };
}

static bool overlap(span s, const tj_into *to)
{
	return s.first < (const char *)to->data + to->bytes && (const char *)to->data < s.end;
}

/* No external overlaps the memory of the output: else the plan might read what it has just written. */
static bool clear_of_externals(const jit_inputs *in, const tj_into *to)
{
	for (uint32_t i = 0; i < in->next; i++) {
		if (!in->ext[i].data || in->ext[i].layout->device != to->device) continue;
		if (overlap(span_of(in->ext[i].layout, in->ext[i].data), to)) return false;
	}
	return true;
}

bool jit_into_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t value, int output, rt_buffer **into)
{
	const tj_into *to = &c->into[output];
	const rt_layout *l = p->value[value].layout;
	if (!to->data || into[value] || p->exec->out[value].same_ext >= 0 || l->device != to->device || !l->contiguous ||
	    to->bytes != (size_t)l->bytes)
		return true;
	/* kernels expect aligned destinations */
	if ((uintptr_t)to->data % RT_LINE || !clear_of_externals(in, to)) return true;
	return (into[value] = rt_buffer_borrow(to->device, to->data, NULL, NULL)) != NULL;
}

static tj_tensor *no_memory(rt_err *err)
{
	rt_fail(err, TJ_ERR_NOMEM, "call", "out of memory");
	return NULL;
}

/* The elements of t, row-major, as a tensor over b. Takes the reference to b. */
static tj_tensor *copy_to(tj_ctx *c, tj_scope *scope, const tj_tensor *t, rt_buffer *b, rt_err *err)
{
	const rt_layout *l = t->layout,
			*plain = b ? rt_layout_get(&c->engine->rt.layouts, (tj_dtype)l->dtype, b->device, l->rank, l->dim, NULL) : NULL;
	if (plain && rt_tensor_copy(c->rt.pool, l, t->buf, t->data, b, err) == TJ_OK) {
		tj_tensor *h = jit_new_value(c, scope, plain, b, b->data);
		return h ? h : no_memory(err);
	}
	rt_layout_unref(plain);
	rt_buffer_unref(b, c->rt.allocator);
	return no_memory(err);
}

/* t is the output itself, at its place and row-major. */
static bool is_in_place(const tj_tensor *t, const tj_into *to)
{
	return t->data == to->data && t->layout->device == to->device && t->layout->contiguous;
}

/* ---- outputs that are views of an argument whose memory is written over ---- */
static bool is_written_over(const tj_ctx *c, int n, tj_tensor *const *out, const tj_tensor *t)
{
	if (rt_is_number(t) || !t->data) return false;
	for (int i = 0; i < n; i++)
		if (c->into[i].data && c->into[i].device == t->layout->device && !is_in_place(out[i], &c->into[i]) &&
		    overlap(span_of(t->layout, t->data), &c->into[i]))
			return true;
	return false;
}

/* Copies such an output to memory of its own, before any output is written. */
static tj_tensor *aside(tj_ctx *c, tj_scope *scope, const tj_tensor *t, rt_err *err)
{
	rt_buffer *b = rt_buffer_on(&c->rt, t->layout->device, (size_t)t->layout->bytes);
	return b ? copy_to(c, scope, t, b, err) : no_memory(err);
}

/* ---- after the run ---- */
static bool fits(const tj_fn *f, int i, const tj_tensor *t, const tj_into *to, rt_err *err)
{
	if (rt_is_number(t)) rt_fail(err, TJ_ERR_ARG, "call", "%s: output %d is a number, which has no memory", f->name, i);
	else if (to->bytes != (size_t)t->layout->bytes)
		rt_fail(err, TJ_ERR_SHAPE, "call", "%s: into[%d] has %zu bytes, the output %lld", f->name, i, to->bytes, (long long)t->layout->bytes);
	else if ((uintptr_t)to->data % tj_dtype_size((tj_dtype)t->layout->dtype))
		rt_fail(err, TJ_ERR_ARG, "call", "%s: into[%d] is not aligned to the elements of the output", f->name, i);
	return err->code == TJ_OK;
}

static bool settle(tj_ctx *c, const tj_fn *f, tj_scope *scope, tj_tensor **out, rt_err *err)
{
	const int n = f->opts.nout;
	for (int i = 0; i < n; i++)
		if (c->into[i].data && !fits(f, i, out[i], &c->into[i], err)) return false;
	for (int i = 0; i < n; i++)
		if (is_written_over(c, n, out, out[i]) && !(out[i] = aside(c, scope, out[i], err))) return false;
	for (int i = 0; i < n; i++) {
		const tj_into *to = &c->into[i];
		if (!to->data || !out[i]->layout->numel || is_in_place(out[i], to)) continue;
		if (!(out[i] = copy_to(c, scope, out[i], rt_buffer_borrow(to->device, to->data, NULL, NULL), err))) return false;
	}
	return true;
}

bool jit_into_settle(tj_ctx *c, const char *site, const tj_fn *f, tj_scope *scope, tj_tensor **out)
{
	rt_err err = { 0 };
	return settle(c, f, scope, out, &err) || (jit_report(c, site, &err), false);
}

/* ---- before the call ---- */
bool jit_into_exists(const tj_into *into, int n, int *bad)
{
	for (*bad = 0; into && *bad < n; ++*bad) {
		const tj_into *x = &into[*bad];
		if (x->data && x->device != TJ_CPU && !rt_device_owns(x->device, x->data)) return false;
	}
	return true;
}

bool jit_into_apart(const tj_into *into, int n, int *a, int *b)
{
	for (*a = 0; into && *a < n; ++*a)
		for (*b = *a + 1; *b < n; ++*b) {
			const tj_into *x = &into[*a], *y = &into[*b];
			if (x->data && y->data && x->device == y->device && overlap((span){ x->data, (const char *)x->data + x->bytes }, y)) return false;
		}
	return true;
}
