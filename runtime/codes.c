/* SPDX-License-Identifier: MIT */
#include "runtime/codes.h"

enum { MOST = 512 }; /* kernels */
typedef struct known {
	unsigned char *key;
	size_t bytes;
	rt_entry fn;
	rt_shared *code;
} known;
struct rt_codes {
	pthread_mutex_t lock;
	int n, next;         /* next: the place of the next one; from MOST on it is the oldest one's */
	uint64_t hash[MOST]; /* apart from the rest, since all are looked at */
	known known[MOST];
};

rt_codes *rt_codes_new(void)
{
	rt_codes *c = rt_calloc(sizeof *c);
	if (c) pthread_mutex_init(&c->lock, NULL);
	return c;
}

static void drop(known *k)
{
	rt_free(k->key);
	rt_shared_unref(k->code);
	*k = (known){ 0 };
}

void rt_codes_clear(rt_codes *c)
{
	rt_lock(&c->lock);
	for (int i = 0; i < c->n; i++) drop(&c->known[i]);
	c->n = c->next = 0;
	rt_unlock(&c->lock);
}

void rt_codes_free(rt_codes *c)
{
	if (!c) return;
	rt_codes_clear(c);
	pthread_mutex_destroy(&c->lock);
	rt_free(c);
}

static const known *find(const rt_codes *c, uint64_t hash, rt_span key)
{
	for (int i = 0; i < c->n; i++)
		if (c->hash[i] == hash && c->known[i].bytes == key.bytes && !memcmp(c->known[i].key, key.at, key.bytes)) return &c->known[i];
	return NULL;
}

bool rt_codes_find(rt_codes *c, rt_span key, rt_entry *fn, rt_shared **code)
{
	rt_lock(&c->lock);
	const known *k = find(c, rt_hash(key.at, key.bytes, 0), key);
	if (k) *fn = k->fn, *code = rt_shared_ref(k->code);
	rt_unlock(&c->lock);
	return k != NULL;
}

void rt_codes_add(rt_codes *c, rt_span key, rt_entry fn, rt_shared *code)
{
	const uint64_t hash = rt_hash(key.at, key.bytes, 0);
	unsigned char *copy = rt_alloc(key.bytes + 1);
	if (!copy) return;
	memcpy(copy, key.at, key.bytes);
	known k = { copy, key.bytes, fn, rt_shared_ref(code) };
	rt_lock(&c->lock);
	if (!find(c, hash, key)) {
		const known old = c->known[c->next];
		c->known[c->next] = k, c->hash[c->next] = hash;
		k = old;
		c->next = (c->next + 1) % MOST;
		c->n += c->n < MOST;
	}
	rt_unlock(&c->lock);
	drop(&k);
}
