/* SPDX-License-Identifier: MIT */
/* codes: code in memory by its key, so that functions with equal kernels share it. It has the last 512 kernels; thread-safe. */
#ifndef TJ_RUNTIME_CODES_H
#define TJ_RUNTIME_CODES_H

#include "runtime/exec.h"
#include "runtime/store.h"

typedef struct rt_codes rt_codes;
rt_codes *rt_codes_new(void); /* NULL: out of memory */
void rt_codes_free(rt_codes *c);
void rt_codes_clear(rt_codes *c);
bool rt_codes_find(rt_codes *c, rt_span key, rt_entry *fn, rt_shared **code); /* *code: a reference */
void rt_codes_add(rt_codes *c, rt_span key, rt_entry fn, rt_shared *code);    /* without memory for it nothing is added */

#endif
