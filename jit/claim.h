/* SPDX-License-Identifier: MIT */
/* claim: only one thread at a time uses a context. */
#ifndef TJ_JIT_CLAIM_H
#define TJ_JIT_CLAIM_H

#include "jit/ctx.h"
#include "runtime/barrier.h"

/* A thread, for other threads that want to use its contexts (claim.c). */
enum { JIT_INSIDE = 4 };
typedef struct jit_thread {
	_Atomic(const tj_ctx *) inside[JIT_INSIDE]; /* the contexts that it is inside of, outermost first; deeper ones are not noted */
	uint32_t depth;          /* of nested calls into the library; used by the thread itself only */
	struct jit_thread *next; /* list of free records */
} jit_thread;

/* claim.c */
/* The record of the calling thread; NULL until the thread first uses a context. */
extern _Thread_local jit_thread *jit_me __attribute__((tls_model("initial-exec"), visibility("hidden")));
void jit_disown(tj_ctx *c); /* no thread owns c from now on */
bool jit_take_over(tj_ctx *c);
tj_ctx *jit_come_in_anew(tj_ctx *c, const char *site);

static inline void jit_note_in(tj_ctx *c)
{
	uint32_t i = jit_me->depth++;
	if (RT_LIKELY(i < JIT_INSIDE)) atomic_store_explicit(&jit_me->inside[i], c, memory_order_relaxed);
	rt_barrier_light();
}
/* Goes back to an earlier depth: after a longjmp() no jit_go_out() ran. */
static inline void jit_go_out_to(jit_thread *t, uint32_t depth)
{
	for (uint32_t i = depth; i < JIT_INSIDE; i++) atomic_store_explicit(&t->inside[i], NULL, memory_order_release);
	t->depth = depth;
}
static inline void jit_go_out(tj_ctx *const *c)
{
	uint32_t i = *c ? --jit_me->depth : JIT_INSIDE;
	if (RT_LIKELY(i < JIT_INSIDE)) atomic_store_explicit(&jit_me->inside[i], NULL, memory_order_release);
}
/* The calling thread is inside of c until jit_go_out(). NULL: c is NULL, an error of the running call; or another thread is inside, and
 * both threads get an error. */
static inline tj_ctx *jit_come_in(tj_ctx *c, const char *site)
{
	if (RT_UNLIKELY(!c)) return jit_missing(site);
	if (RT_UNLIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) != jit_me)) return jit_come_in_anew(c, site);
	jit_note_in(c);
	if (RT_LIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	jit_go_out(&c);
	return jit_come_in_anew(c, site);
}
/* For functions of a few instructions: the thread is not noted, so another thread that takes c over at the same moment is not detected. */
static inline tj_ctx *jit_look_in(tj_ctx *c, const char *site)
{
	if (RT_LIKELY(c && atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me)) return c;
	tj_ctx *in = c ? jit_come_in_anew(c, site) : NULL;
	jit_go_out(&in);
	return in;
}
/* At the head of every function of tj.h that uses a context: `in` is c, or NULL when the function must refuse. Left at the end of the
 * block. */
#define JIT_COME_IN(in, c, site) tj_ctx *const in __attribute__((cleanup(jit_go_out))) = jit_come_in(c, site)
#define JIT_CURRENT(in, site) JIT_COME_IN(in, jit_thread_ctx, site)
/* For functions that work without a context, too. */
#define JIT_CURRENT_IF_ANY(in, site) \
	tj_ctx *const in __attribute__((cleanup(jit_go_out))) = jit_thread_ctx ? jit_come_in(jit_thread_ctx, site) : NULL
/* Around code that relies on c being the only context of the engine; true: it is, until jit_alone_end(). */
static inline void jit_alone_end(tj_ctx *c) { atomic_store_explicit(&c->alone, 0, memory_order_release); }
static inline bool jit_alone_begin(tj_ctx *c)
{
	atomic_store_explicit(&c->alone, rt_fork_depth(), memory_order_relaxed);
	rt_barrier_light();
	/* acquire: writes of a context that has ended are visible */
	if (RT_LIKELY(atomic_load_explicit(&c->engine->rt.contexts, memory_order_acquire) == 1)) return true;
	jit_alone_end(c);
	return false;
}
bool jit_alone_wait(tj_ctx *c); /* waits until no run relies on c being alone; false: a run of the calling thread does */

/* Around a user function that the library calls while the context is at work: the function may not use the context. */
typedef struct jit_pause { tj_ctx *c; const jit_thread *near; } jit_pause;
/* The context at work is the innermost one that the thread is inside of: a body may have made another one current. */
static inline tj_ctx *jit_at_work(void)
{
	const uint32_t n = jit_me ? jit_me->depth : 0;
	return n && n <= JIT_INSIDE ? (tj_ctx *)(uintptr_t)atomic_load_explicit(&jit_me->inside[n - 1], memory_order_relaxed) : jit_thread_ctx;
}
static inline jit_pause jit_calls_back(void)
{
	jit_pause p = { jit_at_work(), NULL };
	if (!p.c) return p;
	p.c->busy++;
	p.near = p.c->act.near;
	p.c->act.near = JIT_NOT_NEAR;
	return p;
}
static inline void jit_called_back(const jit_pause *p)
{
	if (!p->c) return;
	p->c->busy--;
	p->c->act.near = p->near;
}
/* At the head of every function of tj.h that uses a context, except tj_check() and its like. True: such a user function runs, and the error
 * is reported. Only the owner of c reads `busy`. */
static inline bool jit_refuses(tj_ctx *c, const char *site, const char *op)
{
	return RT_UNLIKELY(atomic_load_explicit(&c->owner, memory_order_relaxed) == jit_me && c->busy) && jit_refuse(c, site, op);
}
#define JIT_CALLS_BACK const jit_pause pause __attribute__((cleanup(jit_called_back), unused)) = jit_calls_back()

/* body.c: noticing when the body does not return. */
void jit_run_body(jit_act *a, const char *name, tj_body *body, tj_tensor **out, tj_tensor *const *in, void *self);

#endif
