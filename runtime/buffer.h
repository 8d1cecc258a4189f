/* buffer: reference-counted storage, out of a cache of the context.
 *
 * A buffer is immutable once a tensor shows it; who holds the only reference may write it. Freed buffers go back to
 * the cache they came from: at once on the owner's thread, over a lock-free stack from any other, because fresh pages
 * cost up to four times the kernel that fills them. */
#ifndef TJ_RUNTIME_BUFFER_H
#define TJ_RUNTIME_BUFFER_H

#include "runtime/exec.h"

#include <stdatomic.h>

typedef struct rt_cache rt_cache;

typedef struct rt_buffer {
	atomic_int refs;
	uint32_t bin;
	uint32_t turn;            /* in a bin: of the cache, when it came there */
	size_t bytes;             /* capacity; of borrowed memory not known */
	rt_cache *home;
	struct rt_buffer *next;   /* in a bin or on the hand-back stack */
	void *data;               /* an address of the device. On the CPU 64-byte aligned; 2 MiB aligned on huge pages when large. Borrowed memory: aligned to its elements */
	uint8_t device;
	atomic_flag lock;         /* device: guards the marks */
	rt_mark written, read;    /* device: when its last write and its last read will be over */
	bool borrowed;            /* memory of the user's: read, never written, given back by release() */
	void (*release)(void *env); /* may be NULL */
	void *env;
} rt_buffer;

rt_cache *rt_cache_new(int device);
/* No more buffers from it. Those still out free themselves; the cache goes with the last of them. */
void rt_cache_close(rt_cache *c);
rt_buffer *rt_buffer_new(rt_cache *c, size_t bytes); /* one reference; contents undefined; NULL when out of memory */
size_t rt_cache_held(const rt_cache *c); /* bytes of free buffers: below 256 MiB, or three times what was out lately; at most 1 GiB */
/* Over memory of the user's; release(env) is called once, by the thread that drops the last reference. */
rt_buffer *rt_buffer_borrow(void *data, void (*release)(void *env), void *env);
static inline rt_buffer *rt_buffer_ref(rt_buffer *b)
{
	atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}
/* here: the cache of the running thread's context, or NULL. */
void rt_buffer_unref(rt_buffer *b, rt_cache *here);
/* Around work on a buffer that is put into the pool's queue of the buffer's device; on the CPU they do nothing. Before: the queue
 * waits for work on it in queues of other contexts; an error when the content is lost (rt_pool_lost). */
tj_status rt_buffer_before(rt_buffer *b, rt_pool *p, bool write, rt_err *err);
void rt_buffer_after(rt_buffer *b, rt_pool *p, bool write);
/* The caller holds all `owners` references there are, and may write. */
static inline bool rt_buffer_only(const rt_buffer *b, int owners) { return atomic_load_explicit(&b->refs, memory_order_acquire) == owners && !b->borrowed; }

#endif
