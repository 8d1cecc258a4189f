/* SPDX-License-Identifier: MIT */
/* table: hash tables with open addressing, at most half full. */
#include "kit/data/data.h"

#include <stdlib.h>

enum { FIRST_ROOM = 64 };

static struct kit_number *place_of(const kit_numbers *t, uint64_t key)
{
	size_t i = kit_mix(1, key) & (t->room - 1);
	while (t->v[i].key != key && t->v[i].key != UINT64_MAX) i = (i + 1) & (t->room - 1);
	return &t->v[i];
}

int64_t *kit_number_find(const kit_numbers *t, uint64_t key)
{
	struct kit_number *e = t->room ? place_of(t, key) : NULL;
	return e && e->key == key ? &e->value : NULL;
}

static bool widen(kit_numbers *t)
{
	kit_numbers more = { .n = t->n, .room = t->room ? 2 * t->room : FIRST_ROOM };
	if (!(more.v = malloc(more.room * sizeof *more.v))) return false;
	memset(more.v, 255, more.room * sizeof *more.v);
	for (size_t i = 0; i < t->room; i++)
		if (t->v[i].key != UINT64_MAX) *place_of(&more, t->v[i].key) = t->v[i];
	free(t->v);
	*t = more;
	return true;
}

int64_t *kit_number_put(kit_numbers *t, uint64_t key, int64_t first)
{
	if (2 * (t->n + 1) > t->room && !widen(t)) return NULL;
	struct kit_number *e = place_of(t, key);
	if (e->key != key) {
		*e = (struct kit_number){ key, first };
		t->n++;
	}
	return &e->value;
}

static uint64_t hash(const char *s, size_t n)
{
	uint64_t h = n, x = 0;
	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&x, s, 8);
		h = kit_mix(h, x);
	}
	x = 0;
	if (n) memcpy(&x, s, n);
	return kit_mix(h, x);
}

static int64_t *slot_of(const kit_texts *t, const char *s, size_t n)
{
	size_t i = hash(s, n) & (t->slots - 1);
	for (;; i = (i + 1) & (t->slots - 1)) {
		const kit_text *x = t->slot[i] ? &t->text[t->slot[i] - 1] : NULL;
		if (!x || (x->n == n && !memcmp(x->s, s, n))) return &t->slot[i];
	}
}

int64_t kit_text_find(const kit_texts *t, const char *s, size_t n)
{
	return t->slots ? *slot_of(t, s, n) - 1 : -1;
}

static bool widen_texts(kit_texts *t)
{
	const size_t slots = t->slots ? 2 * t->slots : FIRST_ROOM;
	kit_text *text = realloc(t->text, slots / 2 * sizeof *text);
	if (text) t->text = text;
	int64_t *slot = text ? calloc(slots, sizeof *slot) : NULL;
	if (!slot) return false;
	free(t->slot);
	t->slot = slot;
	t->slots = slots;
	for (size_t i = 0; i < t->n; i++) *slot_of(t, t->text[i].s, t->text[i].n) = (int64_t)i + 1;
	return true;
}

int64_t kit_text_put(kit_texts *t, const char *s, size_t n)
{
	if (2 * (t->n + 1) > t->slots && !widen_texts(t)) return -1;
	int64_t *slot = slot_of(t, s, n);
	if (!*slot) {
		t->text[t->n] = (kit_text){ s, n };
		*slot = (int64_t)++t->n;
	}
	return *slot - 1;
}

void kit_texts_free(kit_texts *t)
{
	free(t->text);
	free(t->slot);
	*t = (kit_texts){ 0 };
}
