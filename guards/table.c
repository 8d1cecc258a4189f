/* SPDX-License-Identifier: MIT */
/* The table of exact keys: a hash table (XXH3) that also compares the whole key. */
#include "guards/guards.h"

uint32_t gd_key_words(const gd_sig *s) { return 4 * s->narg + 2 * s->nint + 2; }

void gd_key(const gd_sig *s, uint32_t *w)
{
	*w++ = s->nfloat;
	*w++ = s->settings;
	for (uint32_t i = 0; i < s->narg; i++, w += 4) {
		w[0] = s->arg[i].kind;
		w[1] = s->arg[i].layout ? s->arg[i].layout->id : 0;
		memcpy(w + 2, &s->arg[i].content, 8);
	}
	if (s->nint) memcpy(w, s->ints, s->nint * sizeof *s->ints);
}

uint64_t gd_sig_hash(const gd_sig *s)
{
	uint64_t h = s->nint ? rt_hash(s->ints, s->nint * sizeof *s->ints, s->nfloat) : s->nfloat;
	for (uint32_t i = 0; i < s->narg; i++) {
		const rt_layout *l = s->arg[i].layout;
		const uint64_t what[2] = { s->arg[i].content, s->arg[i].kind | (l ? 256u | (uint64_t)l->dtype << 16 | (uint64_t)l->device << 24 : 0) };
		h = rt_hash(what, sizeof what, h);
		if (l && l->rank) h = rt_hash(l->dim, 2 * l->rank * sizeof *l->dim, h);
	}
	return h;
}

uint64_t gd_hash(const uint32_t *word, uint32_t n) { return rt_hash(word, n * sizeof *word, 0); }

/* s->word: length of the key, then its words. */
static bool equal(const gd_bucket *s, uint64_t hash, const uint32_t *word, uint32_t n)
{
	return s->hash == hash && s->word[0] == n && !memcmp(s->word + 1, word, n * sizeof *word);
}

void *gd_find(const gd_table *t, const uint32_t *word, uint32_t n)
{
	if (!t->cap) return NULL;
	uint64_t hash = gd_hash(word, n);
	for (uint32_t i = (uint32_t)hash;; i++) {
		const gd_bucket *s = &t->bucket[i & (t->cap - 1)];
		if (!s->word) return NULL;
		if (equal(s, hash, word, n)) return s->entry;
	}
}

static void place(gd_table *t, gd_bucket s)
{
	uint32_t i = (uint32_t)s.hash;
	while (t->bucket[i & (t->cap - 1)].word) i++;
	t->bucket[i & (t->cap - 1)] = s;
	t->n++;
}

static bool grow(gd_table *t)
{
	gd_table to = { .cap = t->cap ? t->cap * 2 : 16 };
	if (!(to.bucket = rt_calloc(to.cap * sizeof *to.bucket))) return false;
	for (uint32_t i = 0; i < t->cap; i++)
		if (t->bucket[i].word) place(&to, t->bucket[i]);
	rt_free(t->bucket);
	*t = to;
	return true;
}

const uint32_t *gd_insert(gd_table *t, const uint32_t *word, uint32_t n, void *entry)
{
	if (2 * (t->n + 1) > t->cap && !grow(t)) return NULL;
	uint32_t *copy = rt_alloc((n + 1) * sizeof *copy);
	if (!copy) return NULL;
	copy[0] = n;
	memcpy(copy + 1, word, n * sizeof *word);
	place(t, (gd_bucket){ gd_hash(word, n), copy, entry });
	return copy;
}

/* The buckets behind a removed one move up, so that no probe ends early and no mark of a removed key stays:
 *
 *   home of c is the bucket of a:   [a][b][c][ ]   remove b   =>   [a][c][ ][ ] */
void gd_remove(gd_table *t, const uint32_t *key)
{
	const uint32_t mask = t->cap - 1;
	uint32_t hole = (uint32_t)gd_hash(key + 1, key[0]) & mask;
	while (t->bucket[hole].word != key) hole = (hole + 1) & mask;
	rt_free(t->bucket[hole].word);
	for (uint32_t i = (hole + 1) & mask; t->bucket[i].word; i = (i + 1) & mask) {
		const uint32_t home = (uint32_t)t->bucket[i].hash & mask;
		if (((i - home) & mask) < ((i - hole) & mask)) continue; /* its home lies behind the hole */
		t->bucket[hole] = t->bucket[i];
		hole = i;
	}
	t->bucket[hole] = (gd_bucket){ 0 };
	t->n--;
}

void gd_table_free(gd_table *t)
{
	for (uint32_t i = 0; i < t->cap; i++) rt_free(t->bucket[i].word);
	rt_free(t->bucket);
	*t = (gd_table){ 0 };
}
