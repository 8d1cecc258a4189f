/* SPDX-License-Identifier: MIT */
/* engines: the list of all engines of the process. */
#include "jit/profiling.h"
#include "jit/survey.h"

/* In a child of fork() all rt_lock()s are free, but a cell that another thread was reading is still locked by its flag. */
static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static jit_engine *engines;

static void forked_child(void)
{
	for (jit_engine *e = engines; e; e = e->next) jit_profile_forked(e);
	for (jit_engine *e = engines; e; e = e->next)
		for (rt_held *h = e->rt.held; h; h = h->next) atomic_flag_clear(&h->lock);
}

void jit_enlist(jit_engine *e)
{
	rt_lock(&engines_lock);
	rt_fork_child(forked_child);
	if ((e->next = engines)) e->next->prev = e;
	engines = e;
	rt_unlock(&engines_lock);
}

void jit_delist(jit_engine *e)
{
	rt_lock(&engines_lock);
	if (e->prev) e->prev->next = e->next;
	else if (engines == e) engines = e->next;
	if (e->next) e->next->prev = e->prev;
	rt_unlock(&engines_lock);
}

void jit_each_engine(void (*f)(void *env, jit_engine *e), void *env)
{
	rt_lock(&engines_lock);
	for (jit_engine *e = engines; e; e = e->next) f(env, e);
	rt_unlock(&engines_lock);
}
