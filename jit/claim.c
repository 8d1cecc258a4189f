/* Who uses a context: one thread at a time, told when two do; and runs that rely on no other context being there.
 *
 *   thread A   tj_call: inside = A, barrier, owner is still A?   -> runs
 *   thread B   owner: A -> B, heavy barrier, is A inside?        -> refused, owner back to A; else the context is B's now
 *
 * A thread that finds its own name in `owner` pays two loads and a store. */
#include "jit/jit.h"

#include <time.h>

/* ---- one thread at a time ---- */

/* The error goes where both threads look: into the context, and to the caller by what the refused call returns. */
static void tell_both(tj_ctx *c, const char *site)
{
	const char *other = atomic_load_explicit(&c->last_call, memory_order_relaxed);
	rt_err e = { 0 };
	rt_fail(&e, TJ_ERR_STATE, "ctx", "two threads use one context: another thread is in a call at %s, this one calls at %s", other ? other : "?", site ? site : "?");
	rt_hint(&e, "make a context for each thread with tj_ctx_clone() and choose it there with tj_ctx_use(); or hand this one over while none of its calls runs");
	rt_ctx_error(&c->rt, &e, site);
}

tj_ctx *jit_claim(tj_ctx *c, const char *site)
{
	const void *was, *me = jit_thread();
	if (!c) return NULL;
	for (was = atomic_load(&c->owner); was != me && !atomic_compare_exchange_weak(&c->owner, &was, me);) {}
	rt_barrier_heavy();
	const void *inside = was == me ? NULL : atomic_load(&c->inside);
	if (!inside || inside == me) return c;
	const void *mine = me;
	atomic_compare_exchange_strong(&c->owner, &mine, was);
	tell_both(c, site);
	return NULL;
}

/* Another thread took the context between the look at `owner` and the store to `inside`. */
bool jit_enter_again(tj_ctx *c, const char *site)
{
	const void *mine = jit_thread();
	atomic_compare_exchange_strong(&c->inside, &mine, NULL);
	if (!jit_claim(c, site)) return false;
	atomic_store(&c->inside, jit_thread());
	return true;
}

/* ---- alone: no other context can commit to a cell or read one ---- */
/* The new context is counted already: from now on no run is alone. One that began before goes on; wait for its end. A
 * thread that is gone since a fork() left its mark in the parent. */
bool jit_alone_wait(tj_ctx *c)
{
	rt_barrier_heavy();
	if (atomic_load(&c->alone) != rt_fork_depth()) return true;
	if (atomic_load(&c->inside) == jit_thread()) return false; /* in a callback of that very run */
	while (atomic_load_explicit(&c->alone, memory_order_acquire) == rt_fork_depth()) nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	return true;
}
