/* fork: who is inside, counted; the handlers of fork() wait until that is nobody but the thread that forks. Locks are
 * held only inside, so a child finds none that a thread which is gone had taken. */
#include "runtime/fork.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static atomic_int inside;   /* threads */
static atomic_bool forking;
atomic_uint rt_fork_count = 1;
static void (*in_child)(void);
static _Thread_local int mine;   /* how deep this thread is */
static _Thread_local int cancel; /* could it be cancelled before it came in? */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void nap(void)
{
	int was;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	pthread_setcancelstate(was, NULL);
}

/* One fork at a time; who forks from a callback is inside itself. */
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
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* it would end with our locks */
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
