/* alloc: what base.h does not show: aligned memory, and the hooks of the allocation tests. */
#ifndef TJ_RUNTIME_ALLOC_H
#define TJ_RUNTIME_ALLOC_H

#include <stddef.h>

void *rt_alloc_aligned(size_t align, size_t bytes); /* rt_free()d like the rest */
long long rt_alloc_count(void);                     /* allocations since the start or the last rt_alloc_fail_at() */
void rt_alloc_fail_at(long long k);                 /* the k-th from now fails, once; -1: none */

#endif
