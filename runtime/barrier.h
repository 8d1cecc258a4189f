/* SPDX-License-Identifier: MIT */
/* barrier: two threads each store one variable, then load the other's; at least one of them must see the other's store.
 * One side runs millions of times a second and pays nothing. The other side runs rarely and interrupts every thread of
 * the process (membarrier(2)).
 *
 *   often:  store a; rt_barrier_light(); load b
 *   rarely: store b; rt_barrier_heavy(); load a */
#ifndef TJ_RUNTIME_BARRIER_H
#define TJ_RUNTIME_BARRIER_H

#include "runtime/base.h"

#include <stdatomic.h>

extern bool rt_barrier_free; /* the kernel has membarrier(2), so rt_barrier_light() costs nothing; set before the first engine is opened */
void rt_barrier_init(void);
void rt_barrier_heavy(void);

/* A full fence by a locked instruction, because the thread sanitizer does not know mfence. */
static inline void rt_barrier_full(void)
{
	atomic_int word;
	atomic_init(&word, 0);
	atomic_fetch_add(&word, 1);
}

static inline void rt_barrier_light(void)
{
	atomic_signal_fence(memory_order_seq_cst); /* the compiler must keep the order */
	if (RT_UNLIKELY(!rt_barrier_free)) rt_barrier_full();
}

#endif
