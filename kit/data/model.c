/* SPDX-License-Identifier: MIT */
/* model: pieces to ids, by byte pairs or by WordPiece. */
#include "kit/data/heap.h"
#include "kit/data/tokenizer.h"

#include <stdlib.h>

/* ---- vocabularies ---- */
bool kit_vocabulary_put(kit_vocabulary *v, const char *s, size_t n, int64_t id, kit_why *w)
{
	if (id < 0 || id >= v->most) return kit_no(w, TJ_ERR_PARSE, "the token %.40s has the id %lld", s, (long long)id);
	if (id >= v->ids) {
		const int64_t ids = id + 1 > 2 * v->ids ? id + 1 : 2 * v->ids;
		const char **token = realloc(v->token, (size_t)ids * sizeof *token);
		if (token) v->token = token;
		size_t *bytes = token ? realloc(v->bytes, (size_t)ids * sizeof *bytes) : NULL;
		if (!bytes) return kit_no_memory(w);
		v->bytes = bytes;
		memset(v->token + v->ids, 0, (size_t)(ids - v->ids) * sizeof *v->token);
		v->ids = ids;
	}
	const size_t before = v->texts.n;
	const int64_t number = kit_text_put(&v->texts, s, n);
	if (number < 0) return kit_no_memory(w);
	if (v->texts.n > before && !(number & (number + 1))) { /* as many as a power of two, less one */
		int32_t *more = realloc(v->id, (size_t)(2 * number + 2) * sizeof *more);
		if (!more) return kit_no_memory(w);
		v->id = more;
	}
	v->id[number] = (int32_t)id;
	v->token[id] = s;
	if (n > v->longest) v->longest = n;
	v->bytes[id] = n;
	return true;
}

int32_t kit_vocabulary_find(const kit_vocabulary *v, const char *s, size_t n)
{
	const int64_t number = kit_text_find(&v->texts, s, n);
	return number < 0 ? -1 : v->id[number];
}

void kit_vocabulary_free(kit_vocabulary *v)
{
	kit_texts_free(&v->texts);
	free(v->id);
	free(v->token);
	free(v->bytes);
}

/* ---- reading ---- */
static bool read_vocabulary(const json_t *j, kit_model *m, kit_why *w)
{
	const char *key;
	json_t *id;
	json_t *all = json_object_get(j, "vocab");
	if (!json_is_object(all)) return kit_no(w, TJ_ERR_PARSE, "its model has no vocab");
	json_object_foreach(all, key, id) {
		const size_t n = json_string_length(id); /* 0: a number */
		if (n || !json_is_integer(id)) return kit_no(w, TJ_ERR_PARSE, "the token %.40s has no id", key);
		if (!kit_vocabulary_put(&m->own, key, strlen(key), json_integer_value(id), w)) return false;
	}
	return true;
}

/* "left right", or ["left", "right"] */
static bool read_merge(const json_t *j, kit_model *m, size_t rank, kit_chars *buffer, kit_why *w)
{
	const char *s = json_string_value(j), *left = json_string_value(json_array_get(j, 0)), *right = json_string_value(json_array_get(j, 1));
	const char *blank = s ? strchr(s, ' ') : NULL;
	if (blank) left = s, right = blank + 1;
	if (!left || !right) return kit_no(w, TJ_ERR_PARSE, "merge %zu is no pair of tokens", rank);
	const size_t n = blank ? (size_t)(blank - s) : strlen(left), k = strlen(right), cut = strlen(m->prefix);
	const int32_t a = kit_vocabulary_find(&m->own, left, n), b = kit_vocabulary_find(&m->own, right, k);
	buffer->n = 0;
	kit_chars_put(buffer, left, n);
	kit_chars_put(buffer, right + (cut <= k ? cut : k), k - (cut <= k ? cut : k));
	if (buffer->failed) return kit_no_memory(w);
	m->merged[rank] = kit_vocabulary_find(&m->own, buffer->s, buffer->n);
	if (a < 0 || b < 0 || m->merged[rank] < 0)
		return kit_no(w, TJ_ERR_PARSE, "merge %zu, %.40s: its tokens are not in the vocab", rank, left);
	int64_t *at = kit_number_put(&m->merges, kit_pair(a, b), (int64_t)rank);
	if (!at) return kit_no_memory(w);
	*at = (int64_t)rank; /* the last one of two counts */
	return true;
}

static bool read_merges(const json_t *j, kit_model *m, kit_why *w)
{
	const json_t *all = json_object_get(j, "merges");
	const size_t n = json_array_size(all);
	kit_chars buffer = { 0 };
	if (!json_is_array(all)) return kit_no(w, TJ_ERR_PARSE, "its model has no merges");
	bool ok = (m->merged = malloc((n + 1) * sizeof *m->merged)) || kit_no_memory(w);
	for (size_t i = 0; ok && i < n; i++) ok = read_merge(json_array_get(all, i), m, i, &buffer, w);
	free(buffer.s);
	return ok;
}

static const char *text_or(const json_t *j, const char *key, const char *missing)
{
	const char *s = json_string_value(json_object_get(j, key));
	return s ? s : missing;
}

bool kit_model_read(const json_t *j, kit_model *m, kit_why *w)
{
	const char *type = text_or(j, "type", "BPE"), *unknown = json_string_value(json_object_get(j, "unk_token"));
	m->word_piece = !strcmp(type, "WordPiece");
	if (!m->word_piece && strcmp(type, "BPE")) return kit_no(w, TJ_ERR_PARSE, "its model is %.40s; BPE and WordPiece are known here", type);
	m->prefix = text_or(j, "continuing_subword_prefix", m->word_piece ? "##" : "");
	m->suffix = text_or(j, "end_of_word_suffix", "");
	m->fuse_unknown = json_is_true(json_object_get(j, "fuse_unk"));
	m->byte_fallback = json_is_true(json_object_get(j, "byte_fallback"));
	m->whole_words = json_is_true(json_object_get(j, "ignore_merges"));
	const json_t *longest = json_object_get(j, "max_input_chars_per_word");
	m->longest = json_is_integer(longest) ? json_integer_value(longest) : 100;
	if (json_number_value(json_object_get(j, "dropout")) > 0) return kit_no(w, TJ_ERR_PARSE, "its model has dropout, which is not known here");
	if (!read_vocabulary(j, m, w) || (!m->word_piece && !read_merges(j, m, w))) return false;
	m->unknown = unknown ? kit_vocabulary_find(&m->own, unknown, strlen(unknown)) : -1;
	if (m->word_piece && m->unknown < 0) return kit_no(w, TJ_ERR_PARSE, "its unk_token is not in the vocab");
	for (int b = 0; b < 256; b++) {
		char name[8];
		m->byte_id[b] = kit_vocabulary_find(&m->own, name, (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)b));
	}
	return true;
}

void kit_model_free(kit_model *m)
{
	kit_vocabulary_free(&m->own);
	free(m->merges.v);
	free(m->merged);
}

/* ---- WordPiece: the longest token that the rest begins with ---- */
static bool word_piece(const kit_model *m, const char *s, size_t n, kit_pieces *ids, kit_why *w)
{
	const size_t first = ids->n, prefix = strlen(m->prefix);
	int64_t count = 0;
	for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xC0) != 0x80;
	bool known = count <= m->longest;
	const size_t most = m->own.longest;
	char *word = known ? malloc(prefix + most + 1) : NULL; /* the prefix, and what may be the rest of a token */
	if (known && !word) return kit_no_memory(w);
	for (size_t at = 0; known && at < n;) {
		size_t end = n - at < most ? n : at + most;
		int32_t id = -1;
		memcpy(word, m->prefix, prefix);
		memcpy(word + prefix, s + at, end - at);
		const size_t skip = at ? 0 : prefix;
		for (; end > at; end--) {
			if (end < n && ((unsigned char)s[end] & 0xC0) == 0x80) continue;
			if ((id = kit_vocabulary_find(&m->own, word + skip, prefix - skip + end - at)) >= 0) break;
		}
		known = id >= 0;
		if (known) kit_pieces_put(ids, (kit_piece){ at, end - at, id });
		at = end;
	}
	free(word);
	if (!known) {
		ids->n = first;
		kit_pieces_put(ids, (kit_piece){ 0, n, m->unknown });
	}
	return !ids->failed || kit_no_memory(w);
}

/* ---- byte pairs: the merge of lowest rank first, of equal ones the leftmost ---- */
typedef struct symbol { int32_t id, before, next; size_t n; } symbol; /* n 0: it was merged */
typedef kit_merge_place pair;
typedef struct chain {
	const kit_model *m;
	symbol *s;
	pair *heap;
	size_t n, pairs;
} chain;

KIT_HEAP(places, pair, kit_is_merged_before, const chain *)

static void push(chain *c, int32_t at)
{
	if (at < 0 || c->s[at].next < 0) return;
	const int32_t left = c->s[at].id, right = c->s[c->s[at].next].id;
	const int64_t *rank = left < 0 || right < 0 ? NULL : kit_number_find(&c->m->merges, kit_pair(left, right));
	if (!rank) return;
	places_push(c->heap, &c->pairs, (pair){ *rank, at, left, right }, c);
}

static void merge_all(chain *c)
{
	for (size_t i = 0; i + 1 < c->n; i++) push(c, (int32_t)i);
	while (c->pairs) {
		const pair p = places_pop(c->heap, &c->pairs, c);
		symbol *l = &c->s[p.at], *r = l->next >= 0 ? &c->s[l->next] : NULL;
		if (!l->n || !r || l->id != p.left || r->id != p.right) continue; /* one of them was merged */
		l->id = c->m->merged[p.rank];
		l->n += r->n;
		l->next = r->next;
		r->n = 0;
		if (r->next >= 0) c->s[r->next].before = p.at;
		push(c, l->before);
		push(c, p.at);
	}
}

static void add_symbol(chain *c, int32_t id, size_t n)
{
	const int32_t i = (int32_t)c->n++;
	c->s[i] = (symbol){ id, i - 1, -1, n };
	if (i) c->s[i - 1].next = i;
}

/* A character that is no token: its bytes, or the unknown token, or nothing. */
static void add_unknown(chain *c, const char *s, size_t n, bool *fuses)
{
	const kit_model *m = c->m;
	bool bytes = m->byte_fallback;
	for (size_t i = 0; i < n; i++) bytes = bytes && m->byte_id[(unsigned char)s[i]] >= 0;
	if (bytes) {
		for (size_t i = 0; i < n; i++) add_symbol(c, m->byte_id[(unsigned char)s[i]], 1);
		*fuses = false;
	} else if (m->unknown >= 0) {
		if (*fuses) c->s[c->n - 1].n += n;
		else add_symbol(c, m->unknown, n);
		*fuses = m->fuse_unknown;
	}
}

static void begin_chain(chain *c, const char *s, size_t n, kit_chars *name)
{
	const kit_model *m = c->m;
	bool fuses = false;
	for (size_t at = 0, bytes; at < n; at += bytes) {
		kit_char_at(s, n, at, &bytes);
		name->n = 0;
		if (at) kit_chars_put(name, m->prefix, strlen(m->prefix));
		kit_chars_put(name, s + at, bytes);
		if (at + bytes == n) kit_chars_put(name, m->suffix, strlen(m->suffix));
		const int32_t id = name->failed ? -1 : kit_vocabulary_find(&m->own, name->s, name->n);
		if (id < 0) add_unknown(c, s + at, bytes, &fuses);
		else add_symbol(c, id, bytes), fuses = false;
	}
}

static bool byte_pairs(const kit_model *m, const char *s, size_t n, kit_pieces *ids, kit_why *w)
{
	const int32_t whole = m->whole_words ? kit_vocabulary_find(&m->own, s, n) : -1;
	if (whole >= 0) return kit_pieces_put(ids, (kit_piece){ 0, n, whole }), !ids->failed || kit_no_memory(w);
	if (n > INT32_MAX / 4) return kit_no(w, TJ_ERR_LIMIT, "a word of %zu bytes", n);
	kit_chars name = { 0 };
	chain c = { .m = m, .s = malloc(n * sizeof *c.s), .heap = malloc(3 * n * sizeof *c.heap) };
	const bool room = c.s && c.heap;
	if (room) begin_chain(&c, s, n, &name);
	if (room) merge_all(&c);
	for (int32_t i = room && c.n ? 0 : -1; i >= 0; i = c.s[i].next) kit_pieces_put(ids, (kit_piece){ 0, c.s[i].n, c.s[i].id });
	const bool ok = (room && !name.failed && !ids->failed) || kit_no_memory(w);
	free(c.s), free(c.heap), free(name.s);
	return ok;
}

bool kit_model_ids(const kit_model *m, const char *s, size_t n, kit_pieces *ids, kit_why *w)
{
	return !n || (m->word_piece ? word_piece(m, s, n, ids, w) : byte_pairs(m, s, n, ids, w));
}
