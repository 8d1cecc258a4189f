/* SPDX-License-Identifier: MIT */
/* bpetrain: byte pairs of a text. Again and again the pair of tokens that comes most often becomes a token; of those that come as often the
 * one with the lowest ids. Each word is kept once, with the number of its places. A pair knows the words that it was seen in, so a merge
 * touches only those. */
#include "kit/data/data.h"
#include "kit/data/heap.h"

#include <stdlib.h>

typedef struct word { int64_t count; int32_t *id; int32_t n; } word;
typedef struct pair {
	int64_t count;
	int32_t left, right;
	int32_t *word;      /* words that had it; it may be gone from one */
	int32_t n, room;
	int64_t touched;    /* the last merge that changed its count */
} pair;
typedef struct entry { int64_t count; int64_t pair; } entry;
typedef struct training {
	tj_bpe *b;
	kit_texts words;
	word *word;
	int32_t *ids;       /* of all words */
	kit_numbers by_ids; /* kit_pair(): number of the pair */
	pair *pair;
	size_t pairs, pair_room;
	entry *heap;        /* the largest count first; an entry may be old, and then its count is too large */
	size_t entries, heap_room;
	int64_t *changed;   /* pairs whose counts the present merge has changed */
	size_t changes, change_room, merges;
} training;

/* v: the address of a pointer. */
static bool grow(void *v, size_t *room, size_t n, size_t size)
{
	void *p;
	if (n < *room) return true;
	const size_t more = *room ? 2 * *room : 64;
	memcpy(&p, v, sizeof p);
	if (!(p = realloc(p, more * size))) return false;
	memcpy(v, &p, sizeof p);
	*room = more;
	return true;
}

/* ---- the words of the text ---- */
static bool count_words(training *t, const char *text, size_t bytes)
{
	int64_t *count = NULL;
	size_t room = 0;
	kit_words words = { .pattern = t->b->words };
	for (size_t at = 0, k; at < bytes; at += k) {
		k = kit_words_next(&words, text, bytes, at);
		const size_t before = t->words.n;
		const int64_t i = k ? kit_text_put(&t->words, text + at, k) : -1;
		if (i < 0 || k > INT32_MAX || i >= INT32_MAX || !grow(&count, &room, (size_t)i, sizeof *count))
			return kit_words_end(&words), free(count), false;
		if (t->words.n > before) count[i] = 0;
		count[i]++;
	}
	kit_words_end(&words);
	size_t all = 0;
	for (size_t i = 0; i < t->words.n; i++) all += t->words.text[i].n;
	t->word = malloc((t->words.n + 1) * sizeof *t->word);
	t->ids = malloc((all + 1) * sizeof *t->ids);
	if (!t->word || !t->ids) return free(count), false;
	int32_t *id = t->ids;
	for (size_t i = 0; i < t->words.n; i++) {
		const kit_text *x = &t->words.text[i];
		t->word[i] = (word){ count[i], id, (int32_t)x->n };
		for (size_t k = 0; k < x->n; k++) *id++ = t->b->byte_id[(unsigned char)x->s[k]];
	}
	free(count);
	return true;
}

/* ---- pairs ---- */
static bool is_above(const training *t, const entry *a, const entry *b)
{
	if (a->count != b->count) return a->count > b->count;
	const pair *p = &t->pair[a->pair], *q = &t->pair[b->pair];
	return kit_pair(p->left, p->right) < kit_pair(q->left, q->right);
}

KIT_HEAP(entries, entry, is_above, const training *)

static bool push(training *t, int64_t number)
{
	if (!grow(&t->heap, &t->heap_room, t->entries, sizeof *t->heap)) return false;
	entries_push(t->heap, &t->entries, (entry){ t->pair[number].count, number }, t);
	return true;
}

/* The pair of two ids; a new one if there was none. -1: out of memory. */
static int64_t find_pair(training *t, int32_t left, int32_t right)
{
	const size_t before = t->by_ids.n;
	const int64_t *number = kit_number_put(&t->by_ids, kit_pair(left, right), (int64_t)t->pairs);
	if (!number || t->by_ids.n == before) return number ? *number : -1;
	if (!grow(&t->pair, &t->pair_room, t->pairs, sizeof *t->pair)) return -1;
	t->pair[t->pairs] = (pair){ .left = left, .right = right, .touched = -1 };
	return (int64_t)t->pairs++;
}

static bool note(training *t, int64_t number, int32_t of, bool in)
{
	pair *p = &t->pair[number];
	if (p->touched != (int64_t)t->merges) {
		if (!grow(&t->changed, &t->change_room, t->changes, sizeof *t->changed)) return false;
		t->changed[t->changes++] = number;
		p->touched = (int64_t)t->merges;
	}
	if (!in || (p->n && p->word[p->n - 1] == of)) return true;
	if (p->n == p->room) {
		const int32_t room = p->room ? 2 * p->room : 4;
		int32_t *more = realloc(p->word, (size_t)room * sizeof *more);
		if (!more) return false;
		p->word = more;
		p->room = room;
	}
	p->word[p->n++] = of;
	return true;
}

/* Counts the pairs of a word, or takes them back. */
static bool count_pairs(training *t, int32_t of, bool in)
{
	const word *w = &t->word[of];
	for (int32_t i = 0; i + 1 < w->n; i++) {
		const int64_t number = find_pair(t, w->id[i], w->id[i + 1]);
		if (number < 0 || !note(t, number, of, in)) return false;
		t->pair[number].count += in ? w->count : -w->count;
	}
	return true;
}

static bool push_changed(training *t)
{
	for (size_t i = 0; i < t->changes; i++)
		if (t->pair[t->changed[i]].count > 1 && !push(t, t->changed[i])) return false;
	t->changes = 0;
	return true;
}

/* ---- merging ---- */
static bool has_pair(const word *w, int32_t left, int32_t right)
{
	for (int32_t i = 0; i + 1 < w->n; i++)
		if (w->id[i] == left && w->id[i + 1] == right) return true;
	return false;
}

static void merge_word(word *w, int32_t left, int32_t right, int32_t to)
{
	int32_t n = 0;
	for (int32_t i = 0; i < w->n; n++) {
		const bool both = i + 1 < w->n && w->id[i] == left && w->id[i + 1] == right;
		w->id[n] = both ? to : w->id[i];
		i += both ? 2 : 1;
	}
	w->n = n;
}

/* The pair's list of words is taken away first: none of them has it afterwards. */
static bool merge_words(training *t, int64_t number, int32_t to)
{
	const pair p = t->pair[number];
	bool ok = true;
	t->pair[number].word = NULL;
	t->pair[number].n = t->pair[number].room = 0;
	for (int32_t i = 0; ok && i < p.n; i++) {
		word *w = &t->word[p.word[i]];
		if (!has_pair(w, p.left, p.right)) continue;
		ok = count_pairs(t, p.word[i], false);
		merge_word(w, p.left, p.right, to);
		ok = ok && count_pairs(t, p.word[i], true);
	}
	free(p.word);
	return ok && push_changed(t);
}

static int64_t add_token(tj_bpe *b, int32_t left, int32_t right)
{
	const kit_text x = b->tokens.text[left], y = b->tokens.text[right];
	char *s = malloc(x.n + y.n);
	if (!s) return -1;
	memcpy(s, x.s, x.n);
	memcpy(s + x.n, y.s, y.n);
	const int64_t id = kit_bpe_add(b, s, x.n + y.n);
	free(s);
	return id;
}

static bool train(training *t, int64_t vocabulary)
{
	for (size_t i = 0; i < t->words.n; i++)
		if (!count_pairs(t, (int32_t)i, true)) return false;
	if (!push_changed(t)) return false;
	while (t->entries && (int64_t)t->b->tokens.n < vocabulary) {
		const entry e = entries_pop(t->heap, &t->entries, t);
		const pair p = t->pair[e.pair];
		if (e.count != p.count) { /* old; the count fell, or a newer entry has the right one */
			if (p.count > 1 && p.count < e.count && !push(t, e.pair)) return false;
			continue;
		}
		const int64_t id = add_token(t->b, p.left, p.right);
		/* A pair may come again, when two ways lead to one token; it keeps its rank. */
		const bool again = kit_number_find(&t->b->merges, kit_pair(p.left, p.right));
		if (id < 0 || (!again && !kit_bpe_merge(t->b, p.left, p.right, (int32_t)id))) return false;
		t->merges++;
		if (!merge_words(t, e.pair, (int32_t)id)) return false;
	}
	return true;
}

/* The bytes have the ids that they have in GPT-2's files. */
static bool add_bytes(tj_bpe *b)
{
	for (int i = 0; i < 256; i++) {
		const char c = (char)kit_byte_at(i);
		const int64_t id = kit_bpe_add(b, &c, 1);
		if (id < 0) return false;
		b->byte_id[(unsigned char)c] = (int32_t)id;
	}
	return true;
}

tj_bpe *tj_bpe_train_at(const char *site, tj_ctx *c, const char *text, size_t bytes, int64_t vocabulary)
{
	static const char op[] = "bpe_train";
	if (!text && bytes) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the text is NULL"), NULL;
	if (vocabulary < 256 || vocabulary > INT32_MAX)
		return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "a vocabulary of %lld: 256 at least, one for each byte", (long long)vocabulary), NULL;
	training t = { .b = kit_bpe_new(c) };
	const bool ok = t.b && add_bytes(t.b) && count_words(&t, text, bytes) && train(&t, vocabulary);
	for (size_t i = 0; i < t.pairs; i++) free(t.pair[i].word);
	kit_texts_free(&t.words);
	free(t.word);
	free(t.ids);
	free(t.by_ids.v);
	free(t.pair);
	free(t.heap);
	free(t.changed);
	if (ok) return t.b;
	kit_why w = { 0 };
	if (t.b) kit_bpe_no_words(t.b, &w);
	else kit_no_memory(&w);
	tj_bpe_close(t.b);
	return kit_report(site, op, NULL, &w), NULL;
}
