/* SPDX-License-Identifier: MIT */
/* ring: what threads tell a timeline, and the file of the timeline (timeline.c). */
#ifndef TJ_RUNTIME_RING_H
#define TJ_RUNTIME_RING_H

#include "runtime/base.h"

/* What is the same of all events of a row, a function or a phase, as JSON: "name":"k0","cat":"kernel","args":{...  without the last brace;
 * it lives as long as the profile. */
typedef const char *rt_label;

/* Lanes: 0 is the thread that tells; contexts; queues of devices of contexts. */
enum { RT_LANE_CONTEXT = 1 << 24, RT_LANE_QUEUE = 1 << 25, RT_LANE_CONTEXTS = 1 << 12 /* of one device */ };
typedef enum rt_happening { RT_SPAN, RT_MEMORY } rt_happening;
typedef struct rt_event {
	int64_t start, end;      /* ns; MEMORY: bytes in use, in end */
	rt_label label;
	uint64_t flow;           /* number of the call that it belongs to; 0: none */
	uint32_t lane;
	uint8_t kind;            /* rt_happening */
	bool begins;             /* it is that call */
	bool always;             /* also while the budget is used up */
} rt_event;

/* ---- ring.c: each thread has one for each timeline; the thread puts events in, the timeline takes them out ---- */
enum { RT_RING = 4096 };
typedef struct rt_ring {
	struct rt_ring *next;
	int thread;              /* its number for the system */
	char name[16];
	bool named;              /* the timeline has told its name */
	_Alignas(64) atomic_uint head; /* events that were put in */
	_Alignas(64) atomic_uint tail; /* events that were taken out */
	rt_event event[RT_RING];
} rt_ring;
int64_t rt_now_ns(void); /* of the clock of rt_now_ms() */
rt_ring *rt_ring_new(void); /* of this thread; NULL: out of memory */
bool rt_ring_put(rt_ring *r, const rt_event *e); /* false: it is full */

/* ---- timeline.c: Chrome's trace format: an array of events, which Perfetto reads also while its end is missing ---- */
typedef struct rt_timeline rt_timeline;
rt_timeline *rt_timeline_open(const char *path, int64_t budget, int64_t start_ns, rt_err *err); /* begins to write; NULL: *err says why */
void rt_timeline_end(rt_timeline *t);    /* writes what is left, and the end of the array; what is told later is left out */
void rt_timeline_close(rt_timeline *t);  /* frees it; no thread tells anything any more */
void rt_timeline_forget(rt_timeline *t); /* in a child of fork(): the file is the parent's */
void rt_timeline_tell(rt_timeline *t, const rt_event *e); /* any thread; returns soon */
void rt_put_json(rt_text *t, const char *s); /* as a string of JSON, with its quotes */

#endif
