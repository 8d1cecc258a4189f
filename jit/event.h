/* SPDX-License-Identifier: MIT */
/* event: what a body asks for is matched against the trace, or recorded. */
#ifndef TJ_JIT_EVENT_H
#define TJ_JIT_EVENT_H

#include "jit/ctx.h"

/* event.c, record.c, exit.c */
/* The event of operands that were admitted; outside of compiled functions the op itself. */
tj_tensor *jit_run_event(tj_ctx *c, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
tj_tensor *jit_event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
/* An op with several results: returns the first. to: addresses for the n others; NULL: that result is not wanted. */
tj_tensor *jit_events(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, int n,
                      tj_tensor **const *to);
/* match or record; NULL on error */
jit_node *jit_step(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
jit_node *jit_record(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);
void jit_explain_exit(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr);

/* A PARAM or an IR_get, whose type is a part of the event. name: of the op that asks, for errors. NULL: the error is reported. */
tj_tensor *jit_typed(jit_act *a, const char *site, const char *name, int op, int64_t which, const ir_meta *m);
tj_tensor *jit_result(jit_act *a, const jit_node *n); /* a new handle for the value of the event; NULL: out of memory */

#endif
