/* SPDX-License-Identifier: MIT */
/* profile: where the time of a program goes. From below: limits of the machine, a profile with its rows, the recorder of a context,
 * steps while they are measured, ranges for NVIDIA's profilers.
 *
 * A profile lasts from tj_profile_begin() to tj_profile_end(). Each context that works meanwhile has a recorder, which its thread alone
 * writes. What was measured is added up by row: a row is a step of a plan by its text, so it outlives the plan. */
#ifndef TJ_RUNTIME_PROFILE_H
#define TJ_RUNTIME_PROFILE_H

#include "runtime/exec.h"
#include "runtime/ring.h"

/* ---- limits.c: what the machine can do at most, measured with the threads of a run ---- */
enum { RT_NEAR, RT_MIDDLE, RT_FAR, RT_LEVELS };
typedef struct rt_limits {
	int threads;
	int64_t bytes[RT_LEVELS];  /* a working set of up to so many bytes is read at this rate: */
	double byte_ns[RT_LEVELS]; /* ns a byte, all threads together. 0: not known, as when memory was short */
	double flop_ns;            /* ns an operation of f32; a multiply-add is two */
	double ms;                 /* what measuring took */
} rt_limits;
rt_limits rt_limits_of(const rt_run *r); /* measures in a tenth of a second, once for each number of threads */
/* No step of so much work takes less; 0: not known. */
static inline double rt_least_ns(const rt_limits *l, double bytes, double flops)
{
	int i = RT_NEAR;
	while (i < RT_FAR && bytes > (double)l->bytes[i]) i++;
	const double moving = bytes * l->byte_ns[i], computing = flops * l->flop_ns;
	return moving > computing ? moving : computing;
}

/* ---- recorder.c ---- */
/* ns; self: without what others of these were inside of it */
typedef struct rt_count { uint64_t runs, self, total, least, most; } rt_count;

/* Work of the host. CALL: a call of a function without all the others and without steps: guards, the body, results. */
typedef enum rt_phase { RT_CALL, RT_TRACE, RT_LOWER, RT_CODEGEN, RT_CACHE, RT_TEAM, RT_QUEUE, RT_PHASES } rt_phase;

typedef struct rt_row {      /* a step, as all plans have it that have it at all */
	struct rt_row *next;     /* of its bucket */
	uint64_t hash;
	uint32_t number;         /* of the rows of the profile, in the order in which they were met */
	uint8_t kind, device;    /* rt_step_kind */
	const char *function, *name, *where;   /* where: "matmul add at net.c:6, exp at net.c:7"; "": not known */
	uint32_t nop;
	const rt_fact *op;
	rt_label label;          /* for the timeline */
} rt_row;
typedef struct rt_sum { rt_count count; double read, written, flops, least_ns; } rt_sum; /* of all runs of a row */

typedef struct rt_area {     /* the memory of the segments that end at a line; of the largest of them */
	struct rt_area *next;
	const char *function, *site, *full; /* that line; the step at which most is alive, or "" */
	int device;
	size_t bytes;            /* of temporaries on the device */
} rt_area;

typedef struct rt_function { /* a function, as calls name it */
	struct rt_function *next;
	const char *name;
	rt_count count;
	rt_label label, phase[RT_PHASES];
} rt_function;

typedef struct rt_profile rt_profile;
typedef struct rt_recorder rt_recorder;
/* limits NULL: not known. timeline NULL: none. budget: bytes of it in an hour; 0: the default. NULL: *err says why. */
rt_profile *rt_profile_new(const rt_limits *limits, const char *timeline, int64_t budget, rt_err *err);
rt_profile *rt_profile_ref(rt_profile *p);
void rt_profile_unref(rt_profile *p);
bool rt_profile_on(const rt_profile *p);
void rt_profile_stop(rt_profile *p); /* nothing more is recorded; the timeline's file ends */
void rt_profile_forked(rt_profile *p); /* in a child of fork(): it begins anew, without the timeline, whose file is the parent's */
const rt_limits *rt_profile_limits(const rt_profile *p);
double rt_profile_ms(const rt_profile *p); /* from its begin until it stopped, or now */
uint64_t rt_profile_lost(const rt_profile *p); /* what could not be recorded, since memory was short */
/* What was recorded so far. Any thread may ask. Valid until `done`; NULL: out of memory. */
typedef struct rt_report {
	rt_profile *profile;
	uint32_t nrow;
	const rt_row **row;
	rt_sum *sum;             /* by row */
	rt_count phase[RT_PHASES];
	const rt_function *function; /* lists */
	const rt_area *area;
	rt_arena mem;
} rt_report;
bool rt_report_make(rt_profile *p, rt_report *x);
void rt_report_free(rt_report *x);

/* One for each context. It holds a reference to p. */
rt_recorder *rt_recorder_new(rt_profile *p, uint32_t context);
void rt_recorder_free(rt_recorder *r); /* what it has counted stays in the profile */
bool rt_recorder_on(const rt_recorder *r); /* its profile goes on */

/* Time spent in a part of the work; parts nest, each on the stack of the thread. */
typedef struct rt_frame { struct rt_frame *outer; int64_t start, inside; } rt_frame;
void rt_frame_begin(rt_recorder *r, rt_frame *f);
void rt_frame_from(rt_recorder *r, rt_frame *f, int64_t start); /* it began then: when the one before it ended */
void rt_phase_end(rt_recorder *r, rt_frame *f, rt_phase phase);
/* one that has ended, and had no parts; apart: it is no part of the work around it */
void rt_phase_note(rt_recorder *r, rt_phase phase, int64_t start, int64_t end, bool apart);

/* A call of a function: the outermost frame of a context. */
void rt_call_begin(rt_recorder *r, rt_frame *f, const char *function);
void rt_call_end(rt_recorder *r, rt_frame *f);
void rt_recorder_at(rt_recorder *r, const char *site); /* the line that ends the segment of that call that runs */

/* The recorder whose work this thread does while it compiles; NULL: none. So lower/ need not know of contexts. */
extern _Thread_local rt_recorder *rt_recording __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Steps. */
typedef struct rt_tally rt_tally;
rt_tally *rt_tally_of(rt_recorder *r, const rt_plan *p, const char *site); /* site: of an op outside of functions. NULL: not counted */
/* Around a step, which is a frame. `was` is what begin returned, NULL without a recorder. ns: its time on its device; -1: it ran here,
 * until end. */
const rt_row *rt_tally_begin(rt_recorder *r, const rt_tally *t, uint32_t step);
void rt_tally_end(rt_recorder *r, rt_tally *t, uint32_t step, rt_frame *f, int64_t end, int64_t ns, const rt_row *was);
/* n steps of a bundle; spent: ns of all threads in each */
void rt_tally_share(rt_recorder *r, rt_tally *t, uint32_t step, uint32_t n, rt_frame *f, int64_t end, const int64_t *spent,
                    const rt_row *was);
/* A thread of the team has worked on the step that the recorder is in; any thread. */
void rt_team_worked(rt_recorder *r, int64_t start, int64_t end);

/* ---- profile.c: steps while they are measured ---- */
/* Runs step i of the plan, or the bundle that begins there; spent NULL: a step, else a bundle, and the ns of all threads in each step of it
 * are added there. */
typedef struct rt_runner rt_runner;
struct rt_runner { tj_status (*step)(const rt_runner *x, uint32_t i, int64_t *spent); };
tj_status rt_run_measured(const rt_plan *p, rt_run *r, const rt_runner *x); /* all steps */
void rt_put_time(rt_text *t, const rt_step *s); /* " measured=3.20us*12", the mean and the number of runs; nothing if it was not measured */
/* Ranges nest. Without NVTX they do nothing. */
void rt_range_begin(const char *name);
void rt_range_end(void);

#endif
