/* SPDX-License-Identifier: MIT */
/* fork: a fork() waits until no other thread is inside the library, that is: holds a lock of ours or compiles. So in the child
 * no lock is taken and no data is half written. */
#ifndef TJ_RUNTIME_FORK_H
#define TJ_RUNTIME_FORK_H

#include <pthread.h>
#include <stdatomic.h>

/* goes inside: until rt_fork_leave() other threads' fork() waits, and this thread cannot be cancelled; may be nested */
void rt_fork_enter(void);
void rt_fork_leave(void);
void rt_fork_adopt(void); /* for a new thread whose creator is inside and waits for it: it counts as inside together with it */
void rt_fork_child(void (*f)(void)); /* f runs first in each child; to be called once per process */
/* 1, plus 1 in each child. A note of another thread with a lower number was made in the parent: that thread is not here. */
extern atomic_uint rt_fork_count;
static inline unsigned rt_fork_depth(void) { return atomic_load_explicit(&rt_fork_count, memory_order_relaxed); }

/* The only functions that take and release a lock. */
static inline void rt_lock(pthread_mutex_t *m)
{
	rt_fork_enter();
	pthread_mutex_lock(m);
}
static inline void rt_unlock(pthread_mutex_t *m)
{
	pthread_mutex_unlock(m);
	rt_fork_leave();
}

#endif
