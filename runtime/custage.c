/* SPDX-License-Identifier: MIT */
/* custage: copies between the host and a GPU go through memory of the host that cannot be swapped out, which the GPU reads and writes by
 * itself.
 *
 *   writes    |.. half 0 ..|.. half 1 ..|    pieces are put behind one another; the copies run later. A half that is full gets an event,
 *             and is
 *             used again when its event was reached, so the host fills one half while the GPU empties the other one
 *   reads     into the rest of a half, then a wait, then out of it; large ones go straight to the caller's memory
 *
 * Small copies of both kinds need no stage. */
#include "runtime/cudriver.h"

/* SMALL: bytes up to which the driver itself copies pageable memory aside, and returns. So programs with small tensors, and the queues that
 * upload constants, pin no memory. */
enum { HALF = 4 << 20, LEAST = 256, SMALL = 64 << 10 };

struct rt_custage { char *at; rt_cuobj reached[2]; bool waits[2]; int half; size_t used; };

void rt_custage_free(struct rt_custage *s)
{
	if (!s) return;
	for (int i = 0; i < 2; i++)
		if (s->reached[i]) rt_cu.cuEventDestroy(s->reached[i]);
	if (s->at) rt_cu.cuMemFreeHost(s->at);
	rt_free(s);
}

/* The stage for a copy; NULL: it needs none, or there is no memory for it. */
static struct rt_custage *stage_of(rt_queue *q, size_t bytes)
{
	void *at = NULL;
	if (bytes <= SMALL) return NULL;
	if (q->stage) return q->stage->at ? q->stage : NULL;
	struct rt_custage *s = q->stage = rt_calloc(sizeof *s);
	if (!s) return NULL;
	bool ok = true;
	for (int i = 0; i < 2; i++) ok = ok && !rt_cu.cuEventCreate(&s->reached[i], RT_CU_NO_TIMING);
	if (ok && !rt_cu.cuMemHostAlloc(&at, 2 * (size_t)HALF, RT_CU_HOST_PORTABLE)) s->at = at;
	return s->at ? s : NULL;
}

/* Room for a piece: *n bytes or fewer. */
static int room(rt_queue *q, struct rt_custage *s, char **at, size_t *n)
{
	if (HALF - s->used < LEAST) {
		const int recorded = rt_cu.cuEventRecord(s->reached[s->half], q->stream);
		if (recorded) return recorded;
		s->waits[s->half] = true;
		const int reached = s->waits[!s->half] ? rt_cu.cuEventSynchronize(s->reached[!s->half]) : 0;
		if (reached) return reached;
		s->half = !s->half;
		s->waits[s->half] = false;
		s->used = 0;
	}
	*at = s->at + (size_t)s->half * HALF + s->used;
	*n = *n < HALF - s->used ? *n : HALF - s->used;
	s->used += (*n + LEAST - 1) / LEAST * LEAST;
	return 0;
}

int rt_custage_write(rt_queue *q, rt_cuptr to, const char *from, size_t bytes)
{
	struct rt_custage *s = stage_of(q, bytes);
	int code = 0;
	if (!s) return rt_cu.cuMemcpyHtoDAsync(to, from, bytes, q->stream); /* returns when it has read `from` */
	for (size_t n; bytes && !code; to += n, from += n, bytes -= n) {
		char *at;
		n = bytes;
		if ((code = room(q, s, &at, &n))) break;
		memcpy(at, from, n);
		code = rt_cu.cuMemcpyHtoDAsync(to, at, n, q->stream);
	}
	return code;
}

int rt_custage_read(rt_queue *q, char *to, rt_cuptr from, size_t bytes)
{
	struct rt_custage *s = stage_of(q, bytes);
	char *at = NULL;
	size_t n = bytes;
	int code = s && bytes <= HALF / 2 ? room(q, s, &at, &n) : 0;
	const bool staged = at && n == bytes;
	if (!code) code = rt_cu.cuMemcpyDtoHAsync(staged ? at : to, from, bytes, q->stream);
	if (!code) code = rt_cu.cuStreamSynchronize(q->stream);
	if (!code && staged) memcpy(to, at, bytes);
	return code;
}
