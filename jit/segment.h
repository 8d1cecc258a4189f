/* SPDX-License-Identifier: MIT */
/* segment: at a boundary the pending events become a plan, which runs. */
#ifndef TJ_JIT_SEGMENT_H
#define TJ_JIT_SEGMENT_H

#include "jit/ctx.h"

/* seal.c */
/* the boundary as a part of the trace; NULL: the error is reported. The first thread that brings it compiles it */
jit_node *jit_seal(jit_act *a, jit_node *n);

/* segment.c */
bool jit_boundary(jit_act *a, const char *site, int op, int nsrc, tj_tensor *const *src); /* runs the pending events */
bool jit_recover(jit_act *a, const tj_tensor *h); /* recomputes h, which its plan did not keep */
void jit_note_truth(tj_ctx *c, const tj_tensor *t, bool bit); /* notes the value of a TRUTH */

/* run.c */
typedef struct jit_inputs { /* what a plan runs with */
	const jit_bound *ext;
	uint32_t next;
	const uint64_t *num;
	rt_buffer **into;        /* by value: memory of the caller for it, a reference; NULL: none */
	rt_held *const *over;    /* by value: cell that it may overwrite when the cell's buffer has no more than `owners` references; NULL: none */
	int owners;
	const jit_node *boundary; /* last event of the segment; boundary and strays are for errors */
	const jit_stray *stray;
	uint32_t nstray;
} jit_inputs;
/* Runs x after earlier work of other queues on the same buffers. in: by external, NULL: no buffer; out: by output. */
tj_status jit_run_on_devices(const rt_exec *x, rt_run *r, uint32_t nin, rt_buffer *const *in, rt_buffer *const *out);
/* ptr: scratch, in->next elements; buf, data: filled, p->n elements */
bool jit_run_plan(tj_ctx *c, const char *site, const jit_plan *p, const jit_inputs *in, const void **ptr, rt_buffer **buf, void **data);

/* into.c: outputs in memory of the caller */
/* Sets into[value] when the plan may compute the value in the memory that the caller gave for that output. false: out of memory. */
bool jit_into_place(tj_ctx *c, const jit_plan *p, const jit_inputs *in, uint32_t value, int output, rt_buffer **into);
bool jit_into_exists(const tj_into *into, int n, int *bad); /* false: into[*bad] is not memory of its device */
bool jit_into_apart(const tj_into *into, int n, int *a, int *b); /* false: into[*a] and into[*b] overlap */
/* Copies outputs that the plan did not compute in place; before the commit. out: handles of `scope`. false: the error is reported */
bool jit_into_settle(tj_ctx *c, const char *site, const tj_fn *f, tj_scope *scope, tj_tensor **out);

/* inner.c */
uint32_t jit_inner_name(jit_segment *s, uint32_t seq, uint32_t step); /* finds or makes the name; 0: out of memory. Under fn->compile */
uint32_t jit_event_of(const jit_act *a, const jit_segment *s, uint32_t name); /* the event that computes a named value */
/* An inner value of the op that computed t, a value of an earlier segment of the running call; poison after an error. Plans keep it from
 * now on; where the plan that ran did not, it is computed once more. */
tj_tensor *jit_inner_of(jit_act *a, const char *site, const tj_tensor *t, uint32_t step);

#endif
