/* SPDX-License-Identifier: MIT */
/* outside: ops and control flow outside of compiled functions. */
#ifndef TJ_JIT_OUTSIDE_H
#define TJ_JIT_OUTSIDE_H

#include "jit/ctx.h"

/* eager.c */
/* want: a bit for each wanted result; out: those results, in order; poison after an error */
void jit_eager(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, uint32_t want,
               tj_tensor **out);
void jit_eager_free(struct jit_eager *t);

/* outside.c */
void jit_outside_free(tj_ctx *c);

/* between.c */
void jit_between_free(tj_ctx *c);

#endif
