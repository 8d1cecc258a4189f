/* barrier: a store, then a load of what another thread stores; neither may miss the other. One side does it millions of
 * times a second and pays nothing; the other does it rarely and interrupts every thread of the process (membarrier(2)).
 *
 *   often:  store mine;  rt_barrier_light();  load theirs
 *   rarely: store theirs; rt_barrier_heavy(); load mine         at least one of the two sees what the other stored */
#ifndef TJ_RUNTIME_BARRIER_H
#define TJ_RUNTIME_BARRIER_H

#include "runtime/base.h"

#include <stdatomic.h>

extern bool rt_barrier_free; /* the kernel has membarrier(2): set before the first engine is opened */
void rt_barrier_init(void);
void rt_barrier_heavy(void);

/* A locked instruction is a full fence; the thread sanitizer does not know the instruction mfence. */
static inline void rt_barrier_full(void)
{
	atomic_int word;
	atomic_init(&word, 0);
	atomic_fetch_add(&word, 1);
}

static inline void rt_barrier_light(void)
{
	atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order */
	if (RT_UNLIKELY(!rt_barrier_free)) rt_barrier_full();
}

#endif
