/* SPDX-License-Identifier: MIT */
/* effect: host calls, events that do more than compute. Each has the one before it as its last operand, so that no pass can change their
 * order; every plan keeps their values, so that none is dropped, and none is run again. */
#ifndef TJ_JIT_EFFECT_H
#define TJ_JIT_EFFECT_H

#include "jit/act.h"

static inline bool jit_is_effect(const jit_node *n) { return n->op < IR_OPS && ir_ops[n->op].flags & IR_EFFECT; }
/* an event of its segment is one */
static inline bool jit_has_effect(const jit_node *boundary)
{
	bool found = false;
	for (const jit_node *n = boundary; n->parent && !found; n = n->parent) found = jit_is_effect(n);
	return found;
}
/* The event of a host call; attr: its dtype and function. */
tj_tensor *jit_host_call(const char *site, const int64_t *attr, tj_dims shape, tj_list list);

#endif
