/* stack: how much of a thread's stack is free, and how to run a function on a larger one. */
#include "runtime/base.h"

#include <pthread.h>
#include <signal.h>

#define LARGE_STACK ((size_t)8 << 20)

static _Thread_local char *lowest; /* lowest address of this thread's stack; NULL: not known yet */

/* Cancelling is disabled because for the main thread the C library reads a file, which is a cancellation point. */
static void find_lowest(void)
{
	pthread_attr_t a;
	void *from = NULL;
	size_t bytes = 0;
	int cancel, e;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	e = pthread_getattr_np(pthread_self(), &a);
	pthread_setcancelstate(cancel, NULL);
	if (e) return;
	if (!pthread_attr_getstack(&a, &from, &bytes)) lowest = from;
	pthread_attr_destroy(&a);
}

size_t rt_stack_left(void)
{
	char *here = __builtin_frame_address(0);
	if (!lowest) find_lowest();
	return lowest && here > lowest ? (size_t)(here - lowest) : SIZE_MAX; /* the program may have made its own stack: then nothing is known */
}

/* ---- a larger one ---- */
typedef struct errand { void (*f)(void *env); void *env; } errand;

static void *run(void *p)
{
	const errand *e = p;
	rt_fork_adopt();
	e->f(e->env);
	return NULL;
}

static bool send_out(errand *e)
{
	pthread_attr_t a;
	pthread_t t;
	sigset_t all, before;
	if (pthread_attr_init(&a)) return false;
	sigfillset(&all);
	rt_fork_enter();
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool sent = !pthread_attr_setstacksize(&a, LARGE_STACK) && !pthread_create(&t, &a, run, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (sent) pthread_join(t, NULL);
	rt_fork_leave();
	pthread_attr_destroy(&a);
	return sent;
}

bool rt_with_stack(void (*f)(void *env), void *env)
{
	size_t left = rt_stack_left();
	if (left < RT_ENOUGH_STACK && send_out(&(errand){ f, env })) return true;
	if (left < RT_LEAST_STACK) return false;
	f(env);
	return true;
}
