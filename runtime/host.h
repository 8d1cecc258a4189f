/* SPDX-License-Identifier: MIT */
/* host: C functions of the program that graphs call, by number. A number is never used twice, so one that is left in a text or a plan can
 * do no harm. */
#ifndef TJ_RUNTIME_HOST_H
#define TJ_RUNTIME_HOST_H

#include "runtime/base.h"

typedef struct rt_host {
	char *name;
	tj_host_fn *call;
	void *env;
	void (*free)(void *env); /* NULL: nothing is to do */
	bool early;              /* both as in tj_host_opts */
	int64_t gradient;
} rt_host;

/* Its number; 0: out of memory. owner: of rt_host_drop(). */
int64_t rt_host_add(const void *owner, const rt_host *h);
bool rt_host_find(int64_t number, rt_host *out); /* false: there is none. What *out points to lives as long as its owner */
bool rt_host_is_of(const void *owner, int64_t number); /* it is a function of this owner */
void rt_host_drop(const void *owner);            /* all of it */

#endif
