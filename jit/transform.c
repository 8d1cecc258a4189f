/* SPDX-License-Identifier: MIT */
/* tj_vmap, tj_custom_grad, tj_checkpoint. Their callbacks have no graph of their own: the events stay in the graph around, where gradients
 * find the values outside; region.c then makes them what they are for (ir/vmap.c, ir/custom.c, ir/checkpoint.c).
 *
 *   VMAP xs | CALLBACK PARAM... events YIELD outs | get get ...
 *   CUSTOM in | CALLBACK events YIELD outs | CALLBACK PARAM... events YIELD gradients | get get ...
 *   CHECKPOINT | CALLBACK events YIELD outs | get get ... */
#include "jit/callback.h"
#include "jit/event.h"
#include "jit/handle.h"

/* ---- vmap ---- */
typedef struct examples { tj_tensor **in; bool *captured; int64_t n; } examples; /* n: -1: not known yet */

/* t with axis `from` as axis `to`. */
static tj_tensor *move_axis(const jit_op *w, tj_tensor *t, int64_t from, int64_t to)
{
	int64_t axes[TJ_MAX_RANK], rest = 0;
	if (from == to) return t;
	for (int i = 0; i < t->rank; i++) {
		rest += rest == from;
		axes[i] = i == to ? from : rest++;
	}
	return jit_event(w->site, IR_permute, 1, &t, t->rank, axes);
}

/* Moves the axis that counts the examples to the front of operand i. */
static bool example_axis(const jit_op *w, examples *x, int i, int axis)
{
	char type[160];
	if (axis == TJ_UNMAPPED || (jit_is_number(x->in[i]) && !axis)) return x->captured[i] = true;
	if (jit_is_number(x->in[i]))
		return jit_op_fail(w, TJ_ERR_SHAPE, "numbers are the same for all examples", "operand %d is a number: it has no axis %d", i,
		                   axis);
	const ir_meta m = jit_meta(x->in[i]);
	jit_put_type(type, sizeof type, &m);
	if (axis < -m.rank || axis >= m.rank)
		return jit_op_fail(w, TJ_ERR_SHAPE, "set .in_axes to TJ_UNMAPPED for a tensor that is the same for all examples",
		                   "operand %d is %s: it has no axis %d", i, type, axis);
	if (axis < 0) axis += m.rank;
	if (x->n >= 0 && m.dim[axis] != x->n)
		return jit_op_fail(w, TJ_ERR_SHAPE, "all must have as many examples",
		                   "operand %d is %s: along axis %d it has not %lld examples", i, type, axis, (long long)x->n);
	x->n = m.dim[axis];
	x->in[i] = move_axis(w, x->in[i], axis, 0);
	return x->in[i]->kind != RT_POISON;
}

static bool note_results(const jit_op *w, jit_inside *k, void *env)
{
	ir_meta *type = env;
	for (int i = 0; i < k->nout; i++) {
		type[i] = jit_meta(k->out[i]);
		if (type[i].rank == TJ_MAX_RANK)
			return jit_op_fail(w, TJ_ERR_LIMIT, "the axis that counts the examples is one of TJ_MAX_RANK",
			                   "result %d has %d axes: there is no room for one more", i, TJ_MAX_RANK);
	}
	return true;
}

bool jit_vmap(const jit_op *w, const jit_flow *q)
{
	const int n = q->nin;
	rt_arena *mem = &w->a->mem;
	examples x = { .captured = rt_arena_alloc(mem, (size_t)n + 1), .n = -1 };
	tj_tensor **mapped = rt_arena_alloc(mem, ((size_t)n + 1) * sizeof *mapped);
	ir_meta *type = rt_arena_alloc(mem, ((size_t)q->nout + 1) * sizeof *type);
	int count = 0;
	if (!x.captured || !mapped || !type) return jit_op_nomem(w);
	memset(x.captured, 0, (size_t)n + 1);
	if (!jit_op_admit(w, q->in, n, &x.in)) return false;
	for (int i = 0; i < n; i++) {
		if (!example_axis(w, &x, i, q->in_axes ? q->in_axes[i] : 0)) return false;
		if (!x.captured[i]) mapped[count++] = x.in[i];
	}
	if (!count) return jit_op_fail(w, TJ_ERR_ARG, "map at least one tensor", "no operand has examples");
	if (!jit_op_step(w, JIT_VMAP, count, mapped, 1, &x.n)) return false;
	jit_inside each = { .f = q->f[0], .nin = n, .captured = x.captured, .like = x.in, .nout = q->nout };
	if (!jit_op_trace(w, &each, note_results, type)) return false;
	for (int i = 0; i < q->nout; i++) {
		memmove(type[i].dim + 1, type[i].dim, sizeof *type[i].dim * type[i].rank++);
		type[i].dim[0] = x.n;
	}
	if (!jit_op_give(w, 0, q->nout, type, q->out)) return false;
	for (int i = 0; q->out_axes && i < q->nout; i++) {
		int axis = q->out_axes[i];
		const int rank = type[i].rank;
		if (axis < -rank || axis >= rank)
			return jit_op_fail(w, TJ_ERR_SHAPE, "it counts the axes of the result with its examples",
			                   ".out_axes %d is %d, but result %d has %d axes", i, axis, i, rank);
		q->out[i] = move_axis(w, q->out[i], 0, axis < 0 ? axis + rank : axis);
		if (q->out[i]->kind == RT_POISON) return false;
	}
	return true;
}

/* ---- custom_grad ---- */
static bool note_out(const jit_op *w, jit_inside *k, void *env)
{
	ir_meta *type = env;
	(void)w;
	for (int i = 0; i < k->nout; i++) type[i] = jit_meta(k->out[i]);
	return true;
}

static bool compare_grads(const jit_op *w, jit_inside *k, void *env)
{
	const ir_meta *want = env;
	for (int i = 0; i < k->nout; i++) {
		char x[160], y[160];
		ir_meta m = jit_meta(k->out[i]);
		if (m.dtype != want[i].dtype && rt_is_float((tj_dtype)m.dtype) &&
		    rt_is_float((tj_dtype)want[i].dtype)) { /* .autocast computes in another one */
			const int64_t to = want[i].dtype;
			k->out[i] = jit_event(w->site, IR_cast, 1, &k->out[i], 1, &to);
			if (k->out[i]->kind == RT_POISON) return false;
			m.dtype = want[i].dtype;
		}
		if (jit_same_type(&m, &want[i])) continue;
		jit_put_type(x, sizeof x, &want[i]);
		jit_put_type(y, sizeof y, &m);
		return jit_op_fail(w, m.dtype == want[i].dtype ? TJ_ERR_SHAPE : TJ_ERR_DTYPE,
		                   "a gradient has the dtype and the shape of its tensor",
		                   "operand %d is %s, but backward gives %s for it (%s)", i, x, y, jit_op_site(w, k->out[i]));
	}
	return true;
}

/* Backward is emitted again, without records of such values in it. */
static bool custom_here(const jit_op *w)
{
	for (uint32_t i = 0; i < w->a->callback.n; i++) {
		const jit_callback *k = &w->a->callback.v[i];
		if (k->custom)
			return jit_op_fail(w, TJ_ERR_STATE, "compute there with ops; `forward` may have such values",
			                   "`backward` of %s cannot have values with gradients of their own", k->op);
	}
	return true;
}

bool jit_custom(const jit_op *w, const jit_flow *q)
{
	const int n = q->nin, nout = q->nout, all = n + 2 * nout; /* what backward gets */
	rt_arena *mem = &w->a->mem;
	tj_tensor **in, **like = rt_arena_alloc(mem, ((size_t)all + 1) * sizeof *like);
	ir_meta *type = rt_arena_alloc(mem, ((size_t)all + 1) * sizeof *type),
		*own = type ? type + 2 * nout : NULL; /* of results, of their gradients, of operands */
	bool *captured = rt_arena_alloc(mem, (size_t)n + 1);
	if (!like || !type || !captured) return jit_op_nomem(w);
	if (!n) return jit_op_fail(w, TJ_ERR_ARG, "list the tensors that have gradients", "it has no operands");
	if (!custom_here(w) || !jit_op_admit(w, q->in, n, &in)) return false;
	for (int i = 0; i < n; i++) {
		if (jit_is_number(in[i]))
			return jit_op_fail(w, TJ_ERR_ARG, "let the callbacks capture the number",
			                   "operand %d is a number: it has no gradient", i);
		own[i] = jit_meta(in[i]);
	}
	memset(captured, 1, (size_t)n + 1);
	for (int i = 0; i < all; i++) like[i] = i < n ? in[i] : TJ_END;
	if (!jit_op_step(w, JIT_CUSTOM, n, in, 0, NULL)) return false;
	jit_inside forward = { .which = 0, .f = q->f[0], .nin = n, .captured = captured, .like = in, .nout = nout };
	if (!jit_op_trace(w, &forward, note_out, type)) return false;
	memcpy(type + nout, type, sizeof *type * (size_t)nout);
	jit_inside backward = { .which = 1, .f = q->f[1], .nin = all, .nplain = n, .type = type, .like = like, .nout = n };
	return jit_op_trace(w, &backward, compare_grads, own) && jit_op_give(w, 0, nout, type, q->out);
}

/* ---- checkpoint ---- */
bool jit_checkpoint(const jit_op *w, const jit_flow *q)
{
	const int n = q->nin;
	rt_arena *mem = &w->a->mem;
	tj_tensor **in;
	ir_meta *type = rt_arena_alloc(mem, ((size_t)q->nout + 1) * sizeof *type);
	bool *captured = rt_arena_alloc(mem, (size_t)n + 1);
	if (!type || !captured) return jit_op_nomem(w);
	memset(captured, 1, (size_t)n + 1);
	if (!jit_op_admit(w, q->in, n, &in) || !jit_op_step(w, JIT_CHECKPOINT, 0, NULL, 0, NULL)) return false;
	jit_inside body = { .f = q->f[0], .nin = n, .captured = captured, .like = in, .nout = q->nout };
	return jit_op_trace(w, &body, note_out, type) && jit_op_give(w, 0, q->nout, type, q->out);
}
