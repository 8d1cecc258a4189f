/* SPDX-License-Identifier: MIT */
/* Bodies: runs a function of the user, and notices at once when it is left without returning: by longjmp(), by a C++
 * exception, or because its thread ends.
 *
 * The longjmp() and pthread_exit() of glibc run the handlers of _pthread_cleanup_push() of all frames that they unwind;
 * unwinding for an exception runs the `cleanup` attribute (this file is compiled with -fexceptions). */
#include "jit/claim.h"

#include <pthread.h>

extern void _pthread_cleanup_push(struct _pthread_cleanup_buffer *b, void (*f)(void *), void *arg);
extern void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *b, int run);

typedef struct frame {
	struct _pthread_cleanup_buffer buffer;
	jit_act *act;
	const char *name;
	uint32_t level; /* 1: the body of the call; more: of nested calls and callbacks */
	uint32_t outer; /* act->floor before it began */
	bool returned;
} frame;

/* The depth of the thread before it came into c. */
static uint32_t where_it_began(const tj_ctx *c, uint32_t outer)
{
	uint32_t i = 0;
	while (i < JIT_INSIDE && atomic_load(&jit_me->inside[i]) != c) i++;
	return i < JIT_INSIDE ? i : outer;
}

/* Runs inside of longjmp(), maybe in a signal handler: it only takes a note. jit_active() does the rest. Inner frames
 * come first, so that the note is finally of the outermost body that was left. */
static void note_left(void *arg)
{
	frame *f = arg;
	jit_act *a = f->act;
	a->left = f->level;
	a->left_name = f->name;
	a->near = JIT_NOT_NEAR; /* events take the slow path, which checks `left` */
	a->floor = f->outer;
	a->ctx->busy = 0;
	jit_go_out_to(jit_me, f->level == 1 ? where_it_began(a->ctx, a->floor) : f->outer);
}

static void unwind(frame *f)
{
	_pthread_cleanup_pop(&f->buffer, 0);
	if (RT_UNLIKELY(!f->returned)) note_left(f);
}

void jit_run_body(jit_act *a, const char *name, tj_body *body, tj_tensor **out, tj_tensor *const *in, void *self)
{
	frame f __attribute__((cleanup(unwind))); /* set field by field: clearing it would take as long as the rest */
	f.act = a;
	f.name = name;
	f.level = ++a->bodies;
	f.outer = a->floor;
	f.returned = false;
	a->floor = jit_me->depth;
	_pthread_cleanup_push(&f.buffer, note_left, &f);
	body(out, in, self);
	f.returned = true;
	a->floor = f.outer;
	a->bodies--;
}
