/* SPDX-License-Identifier: MIT */
/* call: the running call, its executed segments, and the externals of the running segment. */
#ifndef TJ_JIT_CALL_H
#define TJ_JIT_CALL_H

#include "jit/claim.h"

/* act.c */
void jit_act_end(tj_ctx *c);
void jit_start_segment(jit_act *a);
jit_act *jit_drop_left(tj_ctx *c);
/* The running activation; drops one whose body was left without returning. */
static inline jit_act *jit_active(tj_ctx *c)
{
	if (RT_LIKELY(!c->active)) return NULL;
	return RT_UNLIKELY(atomic_load_explicit(&c->act.left, memory_order_relaxed)) ? jit_drop_left(c) : &c->act;
}
/* For functions that are not for bodies, where nothing of the running call has been computed yet. True: the error is reported. */
static inline bool jit_refuses_in_body(tj_ctx *c, const char *site, const char *op)
{
	if (jit_refuses(c, site, op)) return true;
	if (!jit_active(c)) return false;
	jit_error(c, site, TJ_ERR_STATE, op, c->act.open ? "call it after tj_trace_end()" : "call it when tj_call() has returned",
	          "tj_%s() is not allowed in a body", op);
	return true;
}
void jit_hold(void *act, rt_buffer *b); /* keeps a buffer until the call ends, since pending events may read it */
void jit_pop_scope(tj_ctx *c); /* closes the innermost scope; in a running call pending events may still read its tensors */
/* true: a callback runs, where op is not allowed; the error is reported */
bool jit_in_callback(tj_ctx *c, const char *site, const char *op, const char *hint);
bool jit_closed(const jit_act *a, uint32_t seq); /* event seq is of a callback that has returned */

/* call.c */
bool jit_call_open(tj_ctx *c, const char *site, tj_fn *f); /* events are those of a call of f from now on; false: the error is reported */
/* keep: values that outlive it, replaced by themselves in the scope around */
tj_status jit_call_close(tj_ctx *c, const char *site, tj_tensor **keep, int n);

/* done.c */
jit_done *jit_find_done(jit_act *a, uint64_t serial); /* the segment of the running call; NULL: it has no such segment */
/* h: a value of an earlier segment; false: its plan did not keep it */
bool jit_find_value(jit_act *a, const tj_tensor *h, const rt_layout **layout, rt_buffer **buf, void **data);
void jit_drop_values(jit_act *a, jit_plan *p, rt_buffer **buf); /* and the reference on the plan */
void jit_drop_done(jit_act *a, jit_done *d);

/* external.c */
int jit_find_ext(const jit_act *a, const tj_tensor *h);
bool jit_bind_ext(jit_act *a, tj_tensor *h, jit_ext *met); /* appends to a->ext. met: NULL, or filled in; it holds no reference */
void jit_unbind_ext(jit_act *a, uint32_t n);
void jit_index_ext(jit_act *a, uint32_t from); /* adds a->ext[from..] to a->index where handles have no slot hint */
void jit_rename_ext(jit_act *a, const tj_tensor *was, tj_tensor *h); /* externals that are `was`, which dies, are h, of the same value */
bool jit_bind_number(jit_act *a, int k, tj_tensor *h);
bool jit_same_number(const jit_act *a, uint32_t i, int k, const tj_tensor *h);

#endif
