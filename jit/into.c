/* Outputs in memory of the caller (tj_call_into()): the plan computes them there if it can; else they are copied there, before
 * the commit. */
#include "jit/claim.h"
#include "jit/handle.h"
#include "jit/segment.h"
#include "runtime/bytes.h"

enum { ALIGNED = 64 }; /* bytes; kernels expect destinations with this alignment */

/* The bytes of a tensor; end: behind the last one. */
typedef struct span { const char *first, *end; } span;
static span span_of(const rt_layout *l, const void *data)
{
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)l->dtype);
	span s = { data, (const char *)data + (l->numel ? size : 0) };
	for (int d = 0; d < l->rank && l->numel; d++) {
		const int64_t way = (l->dim[d] - 1) * rt_strides(l)[d] * size;
		if (way < 0) s.first += way;
		else s.end += way;
	}
	return s;
}

/* No external overlaps the memory of the output: else the plan might read what it has just written. */
static bool clear_of_externals(const jit_inputs *in, const tj_into *to)
{
	for (uint32_t i = 0; i < in->next; i++) {
		if (!in->ext[i].data || in->ext[i].layout->device != TJ_CPU) continue;
		const span s = span_of(in->ext[i].layout, in->ext[i].data);
		if (s.first < (const char *)to->data + to->bytes && (const char *)to->data < s.end) return false;
	}
	return true;
}

bool jit_into_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t value, int output, rt_buffer **into)
{
	const tj_into *to = &c->into[output];
	const rt_layout *l = p->value[value].layout;
	if (!to->data || into[value] || p->exec->out[value].same_ext >= 0 || l->device != TJ_CPU || !l->contiguous || to->bytes != (size_t)l->bytes) return true;
	if ((uintptr_t)to->data % ALIGNED || !clear_of_externals(in, to)) return true;
	return (into[value] = rt_buffer_borrow(to->data, NULL, NULL)) != NULL;
}

/* An output as a tensor over memory of the caller: t itself when the plan computed it there, else a copy. */
static tj_tensor *settle(tj_ctx *c, tj_scope *scope, tj_tensor *t, const tj_into *to, rt_err *err)
{
	const rt_layout *l = t->layout;
	if (t->data == to->data) return t;
	const rt_layout *plain = rt_layout_get(&c->engine->rt.layouts, (tj_dtype)l->dtype, TJ_CPU, l->rank, l->dim, NULL);
	rt_buffer *b = plain ? rt_buffer_borrow(to->data, NULL, NULL) : NULL;
	if (!b) {
		rt_layout_unref(plain);
		rt_fail(err, TJ_ERR_NOMEM, "call", "out of memory");
		return NULL;
	}
	tj_tensor *h = NULL;
	if (rt_tensor_read(c->rt.pool, l, t->buf, t->data, to->data, err) == TJ_OK) h = jit_new_value(c, scope, plain, b, to->data);
	else {
		rt_layout_unref(plain);
		rt_buffer_unref(b, c->rt.allocator);
	}
	if (!h) rt_fail(err, TJ_ERR_NOMEM, "call", "out of memory");
	return h;
}

bool jit_into_settle(tj_ctx *c, const char *site, const tj_fn *f, tj_scope *scope, tj_tensor **out)
{
	for (int i = 0; c->into && i < f->opts.nout; i++) {
		const tj_into *to = &c->into[i];
		rt_err err = { 0 };
		if (!to->data) continue;
		if (rt_is_number(out[i])) rt_fail(&err, TJ_ERR_ARG, "call", "%s: output %d is a number, which has no memory", f->name, i);
		else if (to->bytes != (size_t)out[i]->layout->bytes)
			rt_fail(&err, TJ_ERR_SHAPE, "call", "%s: into[%d] has %zu bytes, the output %lld", f->name, i, to->bytes, (long long)out[i]->layout->bytes);
		else if ((uintptr_t)to->data % tj_dtype_size((tj_dtype)out[i]->layout->dtype))
			rt_fail(&err, TJ_ERR_ARG, "call", "%s: into[%d] is not aligned to the elements of the output", f->name, i);
		else if (out[i]->layout->numel) {
			tj_tensor *t = settle(c, scope, out[i], to, &err);
			if (t) out[i] = t;
		}
		if (err.code != TJ_OK) return jit_report(c, site, &err), false;
	}
	return true;
}
