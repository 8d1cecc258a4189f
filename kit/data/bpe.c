/* SPDX-License-Identifier: MIT */
/* bpe: the tokens and merges of a tokeniser, from text to ids and back. */
#include "kit/data/data.h"
#include "kit/data/heap.h"

#include <stdlib.h>

enum { BLOCK = 1 << 16 };

/* ---- building ---- */
tj_bpe *kit_bpe_new(tj_ctx *c)
{
	tj_bpe *b = calloc(1, sizeof *b);
	if (!b) return NULL;
	b->c = c;
	b->words = kit_words_pattern(&b->no_words);
	return b;
}

/* Bytes that stay where they are. */
static const char *keep(tj_bpe *b, const char *s, size_t n)
{
	if (!b->blocks || b->left < n) {
		if (b->blocks == b->block_room) {
			char **more = realloc(b->memory, (b->block_room + 16) * sizeof *more);
			if (!more) return NULL;
			b->memory = more;
			b->block_room += 16;
		}
		const size_t size = n > BLOCK ? n : BLOCK;
		if (!(b->memory[b->blocks] = malloc(size))) return NULL;
		b->blocks++;
		b->left = size;
	}
	const size_t used = (n > BLOCK ? n : BLOCK) - b->left;
	char *to = b->memory[b->blocks - 1] + used;
	memcpy(to, s, n);
	b->left -= n;
	return to;
}

int64_t kit_bpe_add(tj_bpe *b, const char *s, size_t n)
{
	const int64_t id = kit_text_find(&b->tokens, s, n);
	if (id >= 0) return id;
	const char *kept = keep(b, s, n);
	return kept ? kit_text_put(&b->tokens, kept, n) : -1;
}

bool kit_bpe_merge(tj_bpe *b, int32_t left, int32_t right, int32_t to)
{
	if (b->ranks == b->rank_room) {
		const size_t room = b->rank_room ? 2 * b->rank_room : 256;
		struct kit_merge *more = realloc(b->merge, room * sizeof *more);
		if (!more) return false;
		b->merge = more;
		b->rank_room = room;
	}
	if (!kit_number_put(&b->merges, kit_pair(left, right), (int64_t)b->ranks)) return false;
	b->merge[b->ranks++] = (struct kit_merge){ left, right, to };
	return true;
}

void tj_bpe_close(tj_bpe *b)
{
	if (!b) return;
	for (size_t i = 0; i < b->blocks; i++) free(b->memory[i]);
	free(b->memory);
	kit_pattern_close(b->words);
	kit_texts_free(&b->tokens);
	free(b->special);
	free(b->merges.v);
	free(b->merge);
	free(b);
}

int64_t tj_bpe_count(const tj_bpe *b)
{
	return b ? (int64_t)b->tokens.n : 0;
}

const char *tj_bpe_token(const tj_bpe *b, int64_t id, size_t *bytes)
{
	if (!b || id < 0 || id >= (int64_t)b->tokens.n) return NULL;
	if (bytes) *bytes = b->tokens.text[id].n;
	return b->tokens.text[id].s;
}

/* ---- encoding ---- */
/* A word is a chain of symbols. The pairs that can be merged are in a heap, the lowest rank first, then the leftmost: all places of one
 * rank are merged before new pairs count. */
typedef struct symbol { int32_t id, before, next; } symbol; /* id -1: it was merged into the one before; before, next -1: none */
typedef kit_merge_place pair;
typedef struct word {
	const tj_bpe *b;
	symbol *s;
	pair *heap, *later;
	size_t pairs, waits, room;
} word;

KIT_HEAP(places, pair, kit_is_merged_before, const word *)

static void wait_for_turn(word *w, int32_t at)
{
	if (at < 0 || w->s[at].next < 0) return;
	const int32_t left = w->s[at].id, right = w->s[w->s[at].next].id;
	const int64_t *rank = kit_number_find(&w->b->merges, kit_pair(left, right));
	if (rank) w->later[w->waits++] = (pair){ *rank, at, left, right };
}

static void merge_at(word *w, const pair *p)
{
	symbol *l = &w->s[p->at];
	if (l->id != p->left || l->next < 0 || w->s[l->next].id != p->right) return; /* one of them was merged */
	symbol *r = &w->s[l->next];
	l->id = w->b->merge[p->rank].to;
	l->next = r->next;
	if (r->next >= 0) w->s[r->next].before = p->at;
	r->id = -1;
	wait_for_turn(w, l->before);
	wait_for_turn(w, p->at);
}

/* A word of n bytes has at most n - 1 pairs at first, and each merge adds two and ends one symbol. */
static bool room_for(word *w, size_t n)
{
	if (n <= w->room) return true;
	free(w->s);
	free(w->heap);
	free(w->later);
	w->s = malloc(n * sizeof *w->s);
	w->heap = malloc(3 * n * sizeof *w->heap);
	w->later = malloc(3 * n * sizeof *w->later);
	w->room = w->s && w->heap && w->later ? n : 0;
	return w->room;
}

/* The symbols that stay begin with the first one. */
static void merge_word(word *w, const char *s, size_t n)
{
	w->pairs = w->waits = 0;
	for (size_t i = 0; i < n; i++)
		w->s[i] = (symbol){ w->b->byte_id[(unsigned char)s[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1 };
	for (size_t i = 0; i + 1 < n; i++) wait_for_turn(w, (int32_t)i);
	for (;;) {
		while (w->waits) places_push(w->heap, &w->pairs, w->later[--w->waits], w);
		if (!w->pairs) break;
		const int64_t rank = w->heap[0].rank;
		while (w->pairs && w->heap[0].rank == rank) {
			const pair p = places_pop(w->heap, &w->pairs, w);
			merge_at(w, &p);
		}
	}
}

int64_t tj_bpe_ids(const tj_bpe *b, const char *text, size_t bytes, int32_t *ids, int64_t room)
{
	word w = { .b = b };
	int64_t n = 0;
	if (!b || (bytes && !text)) return -1;
	kit_words words = { .pattern = b->words };
	for (size_t at = 0, k; at < bytes && n >= 0; at += k) {
		k = kit_words_next(&words, text, bytes, at);
		if (!k || k > INT32_MAX / 4 || !room_for(&w, k)) {
			n = -1;
			break;
		}
		merge_word(&w, text + at, k);
		for (int32_t i = 0; i >= 0; i = w.s[i].next, n++)
			if (n < room) ids[n] = w.s[i].id;
	}
	kit_words_end(&words);
	free(w.s);
	free(w.heap);
	free(w.later);
	return n;
}

bool kit_bpe_no_words(const tj_bpe *b, kit_why *w)
{
	if (b->words) return kit_no_memory(w);
	return kit_no(w, b->no_words.code, "text beyond ASCII: %.300s", b->no_words.text);
}

tj_tensor *tj_bpe_encode_at(const char *site, const tj_bpe *b, const char *text, size_t bytes)
{
	static const char op[] = "bpe_encode";
	if (!b || (bytes && !text)) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", b ? "text" : "tokeniser");
	if (bytes > SIZE_MAX / 8) return tj_fail_at(site, TJ_ERR_LIMIT, op, NULL, "the text has %zu bytes", bytes);
	int32_t *ids = malloc(bytes * sizeof *ids + 1); /* a token has at least a byte */
	const int64_t n = ids ? tj_bpe_ids(b, text, bytes, ids, (int64_t)bytes) : -1;
	if (n < 0) {
		kit_why w = { 0 };
		free(ids);
		kit_bpe_no_words(b, &w);
		return kit_report(site, op, NULL, &w);
	}
	int32_t *fit = realloc(ids, (size_t)n * sizeof *ids + 1);
	return kit_give(site, b->c, TJ_I32, (const int64_t[]){ n, TJ_END_DIM }, NULL, fit ? fit : ids);
}

/* ---- decoding ---- */
int64_t tj_bpe_text(const tj_bpe *b, const int32_t *ids, int64_t n, char *text, int64_t room)
{
	int64_t at = 0;
	for (int64_t i = 0; i < n; i++) {
		size_t bytes;
		const char *s = tj_bpe_token(b, ids[i], &bytes);
		if (!s || __builtin_add_overflow(at, (int64_t)bytes, &at)) return -1;
		const int64_t first = at - (int64_t)bytes;
		if (first < room) memcpy(text + first, s, at <= room ? bytes : (size_t)(room - first));
	}
	return at;
}

int32_t *kit_ids_of(const char *site, tj_tensor *t, int64_t *n, kit_why *w)
{
	kit_tensor x;
	if (!kit_describe(site, t, &x, w)) return NULL;
	if (x.dtype == TJ_BOOL || x.dtype >= TJ_F16) return kit_no(w, TJ_ERR_DTYPE, "ids is %s; ids are integers", tj_dtype_name(x.dtype)), NULL;
	tj_tensor *wide = tj_cast_at(site, t, TJ_I64);
	kit_buffer b = { 0 };
	if (!kit_describe(site, wide, &x, w) || !kit_fetch(site, &x, &b, w)) return free(b.data), NULL;
	const int64_t *v = b.data;
	*n = (int64_t)(x.bytes / sizeof *v);
	int32_t *ids = malloc((size_t)*n * sizeof *ids + 1);
	for (int64_t i = 0; ids && i < *n; i++) ids[i] = v[i] < INT32_MIN || v[i] > INT32_MAX ? -1 : (int32_t)v[i];
	free(b.data);
	return ids ? ids : (kit_no_memory(w), NULL);
}

static char *decode(const tj_bpe *b, const int32_t *ids, int64_t n, size_t *bytes, kit_why *w)
{
	for (int64_t i = 0; i < n; i++)
		if (!tj_bpe_token(b, ids[i], NULL))
			return kit_no(w, TJ_ERR_INDEX, "id %d at place %lld: there are 0 to %lld", ids[i], (long long)i, (long long)tj_bpe_count(b) - 1), NULL;
	const int64_t k = tj_bpe_text(b, ids, n, NULL, 0);
	char *text = k < 0 ? NULL : malloc((size_t)k + 1);
	if (!text) return kit_no_memory(w), NULL;
	tj_bpe_text(b, ids, n, text, k);
	text[k] = 0;
	if (bytes) *bytes = (size_t)k;
	return text;
}

char *tj_bpe_decode_at(const char *site, const tj_bpe *b, tj_tensor *ids, size_t *bytes)
{
	kit_why w = { 0 };
	int64_t n = 0;
	if (!b) return tj_fail_at(site, TJ_ERR_ARG, "bpe_decode", NULL, "the tokeniser is NULL"), NULL;
	int32_t *v = kit_ids_of(site, ids, &n, &w);
	char *text = v ? decode(b, v, n, bytes, &w) : NULL;
	free(v);
	if (!text && *w.text) kit_report(site, "bpe_decode", NULL, &w);
	return text;
}
