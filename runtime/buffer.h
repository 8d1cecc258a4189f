/* SPDX-License-Identifier: MIT */
/* buffer: reference-counted storage from an allocator of the context.
 *
 * A buffer that a tensor shows is immutable; the holder of the only reference may write it. Freed buffers go back to their
 * allocator, because fresh pages cost up to four times the kernel that fills them: the owner's thread puts them there at once,
 * other threads use a lock-free stack. */
#ifndef TJ_RUNTIME_BUFFER_H
#define TJ_RUNTIME_BUFFER_H

#include "runtime/exec.h"

#include <stdatomic.h>

typedef struct rt_allocator rt_allocator;

typedef struct rt_buffer {
	atomic_int refs;
	uint32_t bin;
	uint32_t turn;            /* valid in a bin: the allocator's turn when the buffer came there */
	size_t bytes;             /* capacity; not set for borrowed memory */
	rt_allocator *home;       /* the allocator it came from */
	struct rt_buffer *next;   /* in a bin or on the hand-back stack */
	void *data;               /* address on the device. CPU: 64-byte aligned; large buffers 2 MiB; borrowed memory: as its elements */
	uint8_t device;
	atomic_flag lock;         /* not on the CPU: guards the marks */
	rt_mark written, read;    /* not on the CPU: the ends of its last write and of its last read */
	bool sure;                /* not on the CPU: its content came from the host, so no fault of a kernel can lose it */
	bool lost;                /* not on the CPU: its content is lost for ever; the memory is another buffer's now */
	bool borrowed;            /* the user's memory: never written; release() gives it back */
	void (*release)(void *env); /* may be NULL */
	void *env;
} rt_buffer;

rt_allocator *rt_allocator_new(int device);
/* Closes the allocator: no more buffers are taken from it. Buffers in use are freed at their last reference, the allocator with the last
 * one. */
void rt_allocator_close(rt_allocator *c);
rt_buffer *rt_buffer_new(rt_allocator *c, size_t bytes); /* one reference; contents undefined; NULL when out of memory */
/* bytes of free buffers: below 256 MiB, or three times the bytes recently in use; on the CPU at most 1 GiB */
size_t rt_allocator_held(rt_allocator *c);
void rt_allocator_empty(rt_allocator *c); /* frees them */
/* A buffer over the user's memory; the thread that drops the last reference calls release(env), once. */
rt_buffer *rt_buffer_borrow(int device, void *data, void (*release)(void *env), void *env);
static inline rt_buffer *rt_buffer_ref(rt_buffer *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}
/* here: the allocator of the running thread's context, or NULL. */
void rt_buffer_unref(rt_buffer *b, rt_allocator *here);
/* To be called before and after work on a buffer is put into the pool's queue of its device; on the CPU they do nothing.
 * rt_buffer_before() makes the queue wait for other contexts' work on the buffer; an error when its content is lost (rt_pool_lost). */
tj_status rt_buffer_before(rt_buffer *b, rt_pool *p, bool write, rt_err *err);
void rt_buffer_after(rt_buffer *b, rt_pool *p, bool write);
void rt_buffer_after_host(rt_buffer *b, rt_pool *p); /* the host has written all of it */
bool rt_buffer_lost(rt_buffer *b, const rt_pool *p); /* its content */
tj_status rt_buffer_sound(rt_buffer *b, const rt_pool *p, const char *op, rt_err *err); /* the error: it is lost */
void rt_buffer_found(rt_buffer *b);                  /* its content is not lost: the failed work has not written there */
/* the content in a buffer of its own, found; b is lost for ever. NULL: out of memory */
rt_buffer *rt_buffer_move(rt_buffer *b);
/* The caller holds all `owners` references there are, and may write. */
static inline bool rt_buffer_only(const rt_buffer *b, int owners)
{
	return atomic_load_explicit(&b->refs, memory_order_acquire) == owners && !b->borrowed;
}

#endif
