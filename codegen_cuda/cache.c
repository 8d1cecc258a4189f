/* SPDX-License-Identifier: MIT */
/* cache: modules by the text of their kernels, so that equal ones (a further layer, the same function in another context) are not compiled
 * again. The cache does not keep a module: it leaves the cache when the last plan that uses it is freed. */
#include "codegen_cuda/cu.h"

#include <pthread.h>

enum { BUCKETS = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cu_module *bucket[BUCKETS];

/* A reference, unless the last one is being dropped. */
static bool take(cu_module *m)
{
	int n = __atomic_load_n(&m->code.refs, __ATOMIC_RELAXED);
	while (n > 0)
		if (__atomic_compare_exchange_n(&m->code.refs, &n, n + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return true;
	return false;
}

static uint64_t hash_of(int gpu, const char *key) { return rt_hash(key, strlen(key), (uint64_t)gpu); }

cu_module *cu_cached(int gpu, const char *key)
{
	const uint64_t hash = hash_of(gpu, key);
	cu_module *found = NULL;
	rt_lock(&lock);
	for (cu_module *m = bucket[hash % BUCKETS]; m && !found; m = m->next)
		if (m->hash == hash && m->gpu == gpu && !strcmp(m->key, key) && take(m)) found = m;
	rt_unlock(&lock);
	return found;
}

void cu_cache(cu_module *m, char *key)
{
	m->key = key;
	m->hash = hash_of(m->gpu, key);
	rt_lock(&lock);
	m->next = bucket[m->hash % BUCKETS];
	bucket[m->hash % BUCKETS] = m;
	rt_unlock(&lock);
}

void cu_uncache(cu_module *m)
{
	if (!m->key) return;
	rt_lock(&lock);
	cu_module **at = &bucket[m->hash % BUCKETS];
	while (*at != m) at = &(*at)->next;
	*at = m->next;
	rt_unlock(&lock);
	rt_free(m->key);
	m->key = NULL;
}
