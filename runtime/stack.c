/* SPDX-License-Identifier: MIT */
/* stack: how much of a thread's stack is free; functions on threads of their own, with a larger one. */
#include "runtime/profile.h"

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
typedef struct errand { void (*f)(void *env); void *env; rt_recorder *recording; } errand; /* recording: of the thread that waits */

static void *run(void *p)
{
	const errand *e = p;
	rt_fork_adopt();
	rt_recording = e->recording;
	e->f(e->env);
	return NULL;
}

/* Threads of ours block all signals: those are for the program's own. This thread is inside (rt_fork_enter) until they have ended. */
static bool start(pthread_t *t, errand *e)
{
	pthread_attr_t a;
	sigset_t all, before;
	if (pthread_attr_init(&a)) return false;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const bool started = !pthread_attr_setstacksize(&a, LARGE_STACK) && !pthread_create(t, &a, run, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&a);
	return started;
}

static bool send_out(errand *e)
{
	pthread_t t;
	rt_fork_enter();
	const bool sent = start(&t, e);
	if (sent) pthread_join(t, NULL);
	rt_fork_leave();
	return sent;
}

void rt_side_by_side(int n, void (*f)(void *env), void *const *env)
{
	errand e[RT_SIDES];
	pthread_t t[RT_SIDES];
	bool sent[RT_SIDES] = { false };
	rt_fork_enter();
	for (int i = 1; i < n; i++) {
		e[i] = (errand){ f, env[i], NULL };
		sent[i] = start(&t[i], &e[i]);
	}
	for (int i = 0; i < n; i++)
		if (!sent[i]) f(env[i]);
	for (int i = 1; i < n; i++)
		if (sent[i]) pthread_join(t[i], NULL);
	rt_fork_leave();
}

bool rt_with_stack(void (*f)(void *env), void *env)
{
	size_t left = rt_stack_left();
	if (left < RT_ENOUGH_STACK && send_out(&(errand){ f, env, rt_recording })) return true;
	if (left < RT_LEAST_STACK) return false;
	f(env);
	return true;
}
