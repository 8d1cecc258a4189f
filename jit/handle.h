/* SPDX-License-Identifier: MIT */
/* handle: operands that come in, handles that go out. */
#ifndef TJ_JIT_HANDLE_H
#define TJ_JIT_HANDLE_H

#include "jit/ctx.h"

/* handle.c */
/* A number, or one that direct mode follows (RT_LATE). */
static inline bool jit_is_number(const tj_tensor *t) { return rt_is_number(t) || (t && t != TJ_END && t->kind == RT_LATE); }
typedef enum jit_admit { JIT_OK, JIT_POISON } jit_admit;
jit_admit jit_admit_all(tj_ctx *c, const char *site, const char *op, int nsrc, tj_tensor *const *src, tj_tensor **in);
ir_meta jit_meta(const tj_tensor *t);
ir_meta jit_layout_meta(const rt_layout *l);
bool jit_same_type(const ir_meta *x, const ir_meta *y); /* dtype, device and sizes */
void jit_put_type(char *out, size_t room, const ir_meta *m); /* for messages */
/* t: a raw handle. Takes over the references */
tj_tensor *jit_fill_value(tj_tensor *t, const rt_layout *layout, rt_buffer *buf, void *data);
tj_tensor *jit_new_value(tj_ctx *c, tj_scope *s, const rt_layout *layout, rt_buffer *buf, void *data); /* takes over the references */
/* A handle of the value of t, which is no cell, that lives as long as scope s: t where it does, else a second one. NULL: out of memory */
tj_tensor *jit_handle_in(tj_ctx *c, tj_scope *s, tj_tensor *t);
/* h, a new handle, is t for gradients until the call ends; false: out of memory */
bool jit_alias_of(jit_act *a, tj_tensor *h, tj_tensor *t);

/* number.c */
/* For tj_full(): returns value, or an error if it is a number that dtype t cannot hold; direct mode checks late numbers again. */
tj_tensor *jit_fitting(const char *site, tj_dtype t, tj_tensor *value);
double jit_listed_power(const tj_tensor *number); /* the number; NAN: tj_pow() by it is no product or root (power.c) */
/* What an integer division of two numbers by zero gives: an error, 0, or an error only if the division runs. */
typedef enum jit_zero_div { JIT_ZERO_DIV_ERROR, JIT_ZERO_DIV_0, JIT_ZERO_DIV_LATER } jit_zero_div;
/* Computes an op whose operands are all numbers. NULL: it cannot compute this op, or the division is left for later (LATER). */
tj_tensor *jit_number_op(tj_ctx *c, const char *site, ir_op op, int nsrc, tj_tensor *const *src, jit_zero_div z);

/* power.c */
tj_tensor *jit_power(const char *site, tj_tensor *x, tj_tensor *b); /* tj_pow() by a listed number; NULL: it is none */

/* scope.c */
/* `what` has an effect beyond the call, so that direct mode cannot run it; a may be NULL */
void jit_leaves_trace(jit_act *a, const char *what, const char *site);

/* constant.c */
/* Never 0. Equal ids mean equal dtype, sizes and bytes. Equal contents get equal ids until the table is full (4,096 constants) and cleared.
 */
uint64_t jit_constant_id(jit_engine *e, const rt_layout *l, const void *data);
void jit_constants_free(jit_engine *e);

#endif
