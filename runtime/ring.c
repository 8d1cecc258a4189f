/* SPDX-License-Identifier: MIT */
/* ring: events from one thread to the timeline, without a lock. */
#include "runtime/ring.h"

#include "runtime/alloc.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t rt_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

rt_ring *rt_ring_new(void)
{
	rt_ring *r = rt_alloc_aligned(64, sizeof *r);
	if (!r) return NULL;
	memset(r, 0, offsetof(rt_ring, event)); /* pages of events that are never told are never touched */
	r->thread = (int)syscall(SYS_gettid);
	if (prctl(PR_GET_NAME, r->name)) r->name[0] = 0;
	return r;
}

bool rt_ring_put(rt_ring *r, const rt_event *e)
{
	const unsigned head = atomic_load_explicit(&r->head, memory_order_relaxed);
	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) >= RT_RING) return false;
	r->event[head % RT_RING] = *e;
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return true;
}
