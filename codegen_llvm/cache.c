/* SPDX-License-Identifier: MIT */
/* cache: compiled kernels by their text, so that an equal one (a further layer, a path with the same steps) is not compiled
 * again. The cache does not keep code alive: a kernel leaves it when the last plan that uses its object is freed. */
#include "codegen_llvm/cg.h"

#include <pthread.h>

struct cg_object {
	int refs;
	size_t bytes;
	cg_library *library;
	uint32_t nuse;
	cg_object *use[];       /* the code that its kernels call; references */
};

typedef struct entry {
	struct entry *next;
	uint64_t hash;
	cg_key key;             /* the text follows */
	rt_entry fn;
	rt_blob blob;
	cg_object *object;
	char text[];
} entry;

enum { BUCKETS = 256 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *bucket[BUCKETS];

static uint64_t hash_of(cg_key key) { return rt_hash(key.text, key.n, (uint64_t)key.bits); }

cg_object *cg_find(cg_key key, rt_entry *fn, rt_blob *blob)
{
	uint64_t hash = hash_of(key);
	cg_object *o = NULL;
	pthread_mutex_lock(&lock);
	for (entry *e = bucket[hash % BUCKETS]; e && !o; e = e->next) {
		if (e->hash != hash || e->key.bits != key.bits || e->key.n != key.n ||
			memcmp(e->text, key.text, key.n) != 0)
			continue;
		o = e->object;
		o->refs++;
		*fn = e->fn;
		*blob = e->blob;
	}
	pthread_mutex_unlock(&lock);
	return o;
}

/* When memory runs out, the entry is left out, and an equal kernel will be compiled again. */
static void add(cg_object *o, cg_key key, rt_entry fn, rt_blob blob)
{
	entry *e = rt_alloc(sizeof *e + key.n);
	if (!e) return;
	*e = (entry){ .hash = hash_of(key), .key = key, .fn = fn, .blob = blob, .object = o };
	memcpy(e->text, key.text, key.n);
	e->key.text = e->text;
	pthread_mutex_lock(&lock);
	e->next = bucket[e->hash % BUCKETS];
	bucket[e->hash % BUCKETS] = e;
	pthread_mutex_unlock(&lock);
}

static void use(cg_object *o, cg_object *used)
{
	for (uint32_t i = 0; i < o->nuse; i++)
		if (o->use[i] == used) return;
	pthread_mutex_lock(&lock);
	used->refs++;
	pthread_mutex_unlock(&lock);
	o->use[o->nuse++] = used;
}

cg_object *cg_keep(cg_library *l, size_t bytes, int n, const cg_key *key, const rt_entry *fn, const rt_blob *blob,
                   const cg_owns *owns)
{
	cg_object *o = rt_alloc(sizeof *o + owns->n * sizeof *o->use);
	if (!o) return NULL;
	*o = (cg_object){ .refs = 1, .bytes = bytes, .library = l };
	for (uint32_t i = 0; i < owns->n; i++) use(o, owns->v[i].object);
	for (int i = 0; i < n; i++) add(o, key[i], fn[i], blob[i]);
	return o;
}

static void forget(const cg_object *o)
{
	for (int i = 0; i < BUCKETS; i++)
		for (entry **at = &bucket[i]; *at;) {
			entry *e = *at;
			if (e->object != o) {
				at = &e->next;
				continue;
			}
			*at = e->next;
			rt_free(e);
		}
}

void cg_drop(cg_object *o)
{
	pthread_mutex_lock(&lock);
	bool last = --o->refs == 0;
	if (last) forget(o);
	pthread_mutex_unlock(&lock);
	if (!last) return;
	cg_unlink(o->library);
	for (uint32_t i = 0; i < o->nuse; i++) cg_drop(o->use[i]);
	rt_free(o);
}

size_t cg_object_bytes(const cg_object *o) { return o->bytes; }
