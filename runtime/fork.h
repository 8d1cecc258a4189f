/* fork: a fork() waits until no other thread holds a lock of ours or compiles, so that its child finds all of it in order. */
#ifndef TJ_RUNTIME_FORK_H
#define TJ_RUNTIME_FORK_H

#include <pthread.h>
#include <stdatomic.h>

void rt_fork_enter(void); /* until rt_fork_leave() a fork() of another thread waits, and this thread cannot be cancelled; may be nested */
void rt_fork_leave(void);
void rt_fork_adopt(void); /* this thread, new, works for one that is inside and waits for it: it is inside with it */
void rt_fork_child(void (*f)(void)); /* what a child does first; for the life of the process, once */
/* 1, and one more in each child: what another thread noted with a lower number, it left in the parent. */
extern atomic_uint rt_fork_count;
static inline unsigned rt_fork_depth(void) { return atomic_load_explicit(&rt_fork_count, memory_order_relaxed); }

/* Every lock is taken and given so. */
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
