/* Who uses a context: one thread at a time, told when two do; and runs that rely on no other context being there.
 *
 * Each thread has a record of its own, which says what contexts it is inside of. A context names the thread that used it
 * last as its owner. An owner comes and goes by stores to its own record; only who takes a context over pays:
 *
 *   the owner A       comes in: record A says c;    light barrier;  is the owner still A?        else takes it over, or is refused
 *   another thread B  takes over: the owner is B;   heavy barrier;  does record A say c?         then it is A's again, and B is refused */
#include "jit/jit.h"

#include <sched.h>
#include <time.h>

_Thread_local jit_thread *jit_me;

/* ---- records: never freed, since owners are compared and looked at after their threads have ended ---- */
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

static void make_key(void) { (void)pthread_key_create(&key, end_thread); } /* fails: the records of ended threads are not used again */

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

/* Both threads are told: the caller by what the refused call returns, the other one by the context's next tj_check(). */
static void tell_both(tj_ctx *c, const char *site)
{
	const char *other = atomic_load_explicit(&c->last_call, memory_order_relaxed);
	rt_err e = { 0 };
	rt_fail(&e, TJ_ERR_STATE, "ctx", "two threads use one context: another thread is in a call at %s, this one calls at %s", other ? other : "?", site ? site : "?");
	rt_hint(&e, "make a context for each thread with tj_ctx_clone() and choose it there with tj_ctx_use(); or hand this one over while none of its calls runs");
	rt_ctx_refused(&c->rt, &e, site);
}

static bool says(jit_thread *t, const tj_ctx *c)
{
	for (int i = 0; i < JIT_INSIDE; i++)
		if (atomic_load(&t->inside[i]) == c) return true;
	return false;
}

/* One at a time: who takes over must see what the one before made of it. */
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

/* The way in of a thread that is not the owner, or has just lost the context. */
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

/* ---- alone: no other context can commit to a cell or read one ---- */

/* The new context is counted already: from now on no run is alone. One that began before goes on; wait for its end. A
 * thread that is gone since a fork() left its mark in the parent. */
bool jit_alone_wait(tj_ctx *c)
{
	int cancel;
	rt_barrier_heavy();
	unsigned alone = atomic_load(&c->alone);
	if (alone && jit_me && says(jit_me, c)) return false; /* in a callback of that very run */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the clone would be lost */
	while (alone == rt_fork_depth()) {
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
		alone = atomic_load_explicit(&c->alone, memory_order_acquire);
	}
	pthread_setcancelstate(cancel, &cancel);
	return true;
}
