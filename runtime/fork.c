/* SPDX-License-Identifier: MIT */
/* fork: counts the threads that are inside; the handlers of fork() wait until no other thread is. Locks are held
 * only inside, so no lock in a child is held by a thread that does not exist there. */
#include "runtime/fork.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_int inside;   /* number of threads that are inside */
static atomic_bool forking;
atomic_uint rt_fork_count = 1;
static void (*in_child)(void);
static _Thread_local int mine;   /* calls of rt_fork_enter() by this thread without rt_fork_leave() */
static _Thread_local int cancel; /* this thread's cancel state before it went inside */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void nap(void)
{
	int was;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	pthread_setcancelstate(was, NULL);
}

/* One fork at a time. A thread that forks in a callback is inside itself: it does not wait for itself. */
static void prepare(void)
{
	while (atomic_exchange(&forking, true)) nap();
	while (atomic_load(&inside) > (mine > 0)) nap();
}

static void parent(void)
{
	atomic_store(&forking, false);
}

static void child(void)
{
	if (in_child) in_child();
	atomic_fetch_add(&rt_fork_count, 1);
	atomic_store(&forking, false);
}

static void start(void)
{
	pthread_atfork(prepare, parent, child);
}

void rt_fork_child(void (*f)(void)) { in_child = f; }

void rt_fork_enter(void)
{
	if (mine++) return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a cancelled thread would leave locks taken */
	pthread_once(&once, start);
	for (;;) {
		atomic_fetch_add(&inside, 1);
		if (!atomic_load(&forking)) return;
		atomic_fetch_sub(&inside, 1);
		while (atomic_load(&forking)) nap();
	}
}

void rt_fork_adopt(void) { mine = 1; }

void rt_fork_leave(void)
{
	if (--mine) return;
	atomic_fetch_sub(&inside, 1);
	pthread_setcancelstate(cancel, NULL);
}
