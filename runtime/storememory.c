/* SPDX-License-Identifier: MIT */
/* storememory: entries in memory, for exported functions: those of a file, or those that go into one. */
#include "runtime/store.h"

rt_store *rt_store_in_memory(rt_store *next, bool keeps, const rt_log_to *log)
{
	rt_store *s = rt_calloc(sizeof *s);
	if (!s) return NULL;
	s->log = log;
	s->in_memory = true;
	s->keeps = keeps;
	s->next = next;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

static uint64_t hash_of(rt_store_kind kind, rt_span key) { return rt_hash(key.at, key.bytes, kind); }

static bool push(rt_store *s, rt_kept e)
{
	e.hash = hash_of(e.kind, e.key);
	rt_lock(&s->lock);
	const bool ok = rt_push(&s->entry, e);
	rt_unlock(&s->lock);
	return ok;
}

rt_miss rt_store_add(rt_store *s, const void *bytes, size_t n)
{
	rt_kept e = { .bytes = bytes, .n = n };
	int kind;
	const rt_miss m = rt_store_check(bytes, n, &kind, &e.key, &e.body);
	e.kind = (rt_store_kind)kind;
	return m != RT_MISS_ABSENT ? m : push(s, e) ? RT_MISS_ABSENT : RT_MISS_MEMORY;
}

bool rt_store_find(const rt_store *s, rt_store_kind kind, rt_span key, rt_span *body)
{
	const uint64_t hash = hash_of(kind, key);
	bool found = false;
	pthread_mutex_t *lock = (pthread_mutex_t *)&s->lock;
	rt_lock(lock);
	for (uint32_t i = 0; i < s->entry.n && !found; i++) {
		const rt_kept *e = &s->entry.v[i];
		found = e->hash == hash && e->kind == kind && e->key.bytes == key.bytes && !memcmp(e->key.at, key.at, key.bytes);
		if (found) *body = e->body;
	}
	rt_unlock(lock);
	return found;
}

bool rt_store_take(rt_store *s, rt_store_kind kind, rt_span key, rt_span body)
{
	rt_kept e = { .kind = kind, .owned = true };
	unsigned char *bytes = rt_store_entry_of(kind, key, body, &e.n);
	int same;
	e.bytes = bytes;
	if (bytes && rt_store_check(bytes, e.n, &same, &e.key, &e.body) == RT_MISS_ABSENT && push(s, e)) return true;
	rt_free(bytes);
	return false;
}
