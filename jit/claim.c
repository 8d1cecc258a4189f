/* SPDX-License-Identifier: MIT */
/* Only one thread at a time uses a context; two are an error. And: runs that rely on there being no other context.
 *
 * Each thread has a record of the contexts that it is inside of. The owner of a context is the thread that used it last. An
 * owner comes in and goes out with stores to its own record; only taking over a context is expensive:
 *
 *   the owner A       comes in: record A says c;    light barrier;  is the owner still A?        else A takes it over, or is refused
 *   another thread B  takes over: the owner is B;   heavy barrier;  does record A say c?         then the owner is A again, and B is
 *                     refused */
#include "jit/claim.h"

#include <sched.h>
#include <time.h>

_Thread_local jit_thread *jit_me;

/* ---- records: never freed, since an owner is still read after its thread has ended ---- */
static pthread_mutex_t records_lock = PTHREAD_MUTEX_INITIALIZER;
static jit_thread *free_records;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static jit_thread nobody; /* owns contexts that no thread has used yet */

static void end_thread(void *p)
{
	jit_thread *t = p;
	jit_go_out_to(t, 0);
	jit_me = NULL;
	rt_lock(&records_lock);
	t->next = free_records;
	free_records = t;
	rt_unlock(&records_lock);
}

static void make_key(void) { (void)pthread_key_create(&key, end_thread); } /* if it fails, records of ended threads are not used again */

static jit_thread *new_record(void)
{
	pthread_once(&once, make_key);
	rt_lock(&records_lock);
	jit_thread *t = free_records;
	if (t) free_records = t->next;
	rt_unlock(&records_lock);
	if (!t && !(t = rt_calloc(sizeof *t))) return NULL;
	(void)pthread_setspecific(key, t);
	return jit_me = t;
}

/* ---- one thread at a time ---- */
void jit_disown(tj_ctx *c) { atomic_store(&c->owner, &nobody); }

/* Both threads get the error: the caller from the refused call, the other one from its next tj_check() of the context. */
static void tell_both(tj_ctx *c, const char *site)
{
	const char *other = atomic_load_explicit(&c->last_call, memory_order_relaxed);
	rt_err e = { 0 };
	rt_fail(&e, TJ_ERR_STATE, "ctx", "two threads use one context: another thread is in a call at %s, this one calls at %s",
	        other ? other : "?", site ? site : "?");
	rt_hint(&e,
	        "make a context for each thread with tj_ctx_clone() and choose it there with tj_ctx_use(); or hand this one to another thread "
	        "between calls");
	rt_ctx_refused(&c->rt, &e, site);
}

static bool says(jit_thread *t, const tj_ctx *c)
{
	for (int i = 0; i < JIT_INSIDE; i++)
		if (atomic_load(&t->inside[i]) == c) return true;
	return false;
}

/* The lock lets one thread at a time take over, so that each sees the owner that the one before has set. */
bool jit_take_over(tj_ctx *c)
{
	if (!jit_me && !new_record()) return false;
	rt_spin(&c->claim_lock);
	jit_thread *was = atomic_load(&c->owner);
	bool free = was == jit_me;
	if (!free) {
		atomic_store(&c->owner, jit_me);
		rt_barrier_heavy();
		free = !says(was, c);
		if (!free) atomic_store(&c->owner, was);
	}
	rt_unspin(&c->claim_lock);
	return free;
}

/* Entry of a thread that is not the owner, or has just lost the context. */
tj_ctx *jit_come_in_anew(tj_ctx *c, const char *site)
{
	while (jit_take_over(c)) {
		jit_note_in(c);
		if (atomic_load(&c->owner) == jit_me) return c;
		jit_go_out(&c);
	}
	tell_both(c, site);
	return NULL;
}

/* ---- alone: a run during which no other context can commit to a cell or read one ---- */

/* The new context is already counted, so that no further run is alone; waits until a run that began before has ended. A mark of
 * another fork depth is of a thread that exists only in the parent of a fork(). */
bool jit_alone_wait(tj_ctx *c)
{
	int cancel;
	rt_barrier_heavy();
	unsigned alone = atomic_load(&c->alone);
	if (alone && jit_me && says(jit_me, c)) return false; /* called from a user function inside of that run */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the new context would leak */
	while (alone == rt_fork_depth()) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
		alone = atomic_load_explicit(&c->alone, memory_order_acquire);
	}
	pthread_setcancelstate(cancel, &cancel);
	return true;
}
