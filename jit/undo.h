/* SPDX-License-Identifier: MIT */
/* undo: commits that a GPU may still find to be wrong.
 *
 * A fault on a GPU is found after the call that caused it has returned, and calls behind it may have committed meanwhile. So while
 * a queue is in doubt (runtime/exec.h), the context keeps what a commit replaces:
 *
 *   calls of the host    A commits    B commits    C commits    a wait: A and B are right, C found a fault
 *   kept                 A            A B          B C          the cells have the contents of before C again
 *
 * A cell that is written in place needs no copy: kernels that store there do nothing after a fault (rt_step.over). */
#ifndef TJ_JIT_UNDO_H
#define TJ_JIT_UNDO_H

#include "jit/cell.h"

typedef struct jit_undo {
	rt_held *cell;           /* kept (rt_held_keep()); the user may release it */
	rt_buffer *old;          /* what the commit replaced, a reference; NULL: the cell was written in place */
	uint64_t serial;         /* of the queue's work at the commit */
} jit_undo;

typedef struct jit_undos { /* of a context */
	rt_vec(jit_undo) v;      /* oldest first */
	rt_vec(rt_buffer *) gone; /* contents that were undone; freed later, because a running call may hold one without a reference */
	int device;              /* the one in doubt */
	rt_mark last;            /* the end of the last commit */
	uint32_t commits;        /* number of commits in v */
	bool keeps;              /* the commit that goes on is kept */
	atomic_bool some;        /* v is not empty; for other threads */
} jit_undos;

/* Before the commit of w: decides whether it is kept; else waits for the work in doubt. The error is a fault of an earlier call, or of this
 * one. */
tj_status jit_undo_begin(tj_ctx *c, const jit_write *w, uint32_t n, bool alone, rt_err *err);
void jit_undo_end(tj_ctx *c, const jit_write *w, uint32_t n); /* after the commit: takes over the references w->buf, on the old contents */
/* The next plan writes a cell in place, and may run after a fault. false: no memory, so it must not. */
bool jit_undo_in_place(tj_ctx *c, rt_held *cell, int device);
void jit_undo_open(tj_ctx *c);
void jit_undo_close(tj_ctx *c);
bool jit_undo_before_clone(tj_ctx *c); /* waits until no commit of c can be undone; by any thread. false: one must be, c has the error */

#endif
