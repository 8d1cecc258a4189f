/* SPDX-License-Identifier: MIT */
/* alloc: functions of alloc.c that base.h does not declare: aligned memory, and hooks for the allocation tests. */
#ifndef TJ_RUNTIME_ALLOC_H
#define TJ_RUNTIME_ALLOC_H

#include <stddef.h>

void *rt_alloc_aligned(size_t align, size_t bytes); /* freed by rt_free() */
/* at a multiple of a cache line; in huge pages where it is that large, so that the TLB reaches far. Freed by rt_free() */
void *rt_alloc_data(size_t bytes);
long long rt_alloc_count(void);                     /* allocations since the start or the last rt_alloc_fail_at() */
void rt_alloc_fail_at(long long k);                 /* the k-th allocation from now fails, once; -1: none fails */

#endif
