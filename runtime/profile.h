/* SPDX-License-Identifier: MIT */
/* profile: the time of each step of a plan, and ranges for NVIDIA's profilers; only in contexts with .profile. */
#ifndef TJ_RUNTIME_PROFILE_H
#define TJ_RUNTIME_PROFILE_H

#include "runtime/exec.h"

typedef struct rt_clock { rt_queue *queue; const rt_device *device; double start; } rt_clock; /* queue NULL: the time of the host counts */

rt_clock rt_step_begin(const rt_step *s, rt_run *r);
void rt_step_end(const rt_step *s, rt_clock c); /* waits for the step */
void rt_put_time(rt_text *t, const rt_step *s); /* " measured=3.20us*12", the mean and the number of runs; nothing if it was not measured */
/* Ranges nest. Without NVTX they do nothing. */
void rt_range_begin(const char *name);
void rt_range_end(void);

#endif
