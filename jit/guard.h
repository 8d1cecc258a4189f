/* SPDX-License-Identifier: MIT */
/* guard: guards one by one; those that the user's filter refuses are dropped. */
#ifndef TJ_JIT_GUARD_H
#define TJ_JIT_GUARD_H

#include "jit/fn.h"

/* guard.c */
typedef void jit_see_guard(void *self, const tj_guard *g, bool dropped);
void jit_each_entry_guard(tj_fn *f, const jit_entry *e, jit_see_guard *see, void *self);
void jit_each_node_guard(tj_fn *f, const jit_node *n, jit_see_guard *see, void *self);
void jit_log_guards(tj_fn *f, const jit_entry *e, const jit_node *boundary); /* boundary NULL: the guards of the entry */
bool jit_make_asked(tj_fn *f);
void jit_filter_node(tj_fn *f, jit_node *n); /* n is not published yet */
/* place: argument, or number of arguments + state variable */
bool jit_drops_content(tj_fn *f, uint32_t place, uint64_t content, const char *site);
bool jit_drops_scalar(tj_fn *f, uint32_t k, int64_t value);
/* reports dropped guards of the key that this call would fail */
void jit_audit_key(tj_ctx *c, tj_fn *f, const char *site, tj_list in, const tj_scalar *scalars);
/* Called when only this guard keeps an event from matching; true: the guard was dropped. */
bool jit_loose_attr(const jit_node *n, int k, int64_t found);
bool jit_loose_content(const jit_act *a, const jit_ext *want, const tj_tensor *h);
bool jit_loose_number(const jit_act *a, const jit_node *n, uint32_t slot, const tj_tensor *h);

#endif
