/* SPDX-License-Identifier: MIT */
/* bpefile: GPT-2's files. encoder.json: {"token": id, ...}; vocab.bpe: a line of a version, then "left right" for each merge. A token that
 * is not made of names of bytes, like one with a blank, is special: it stands for its text, and no text is encoded to it. */
#include "kit/data/data.h"

#include <jansson.h>
#include <stdlib.h>

/* ---- encoder.json ---- */
/* The name of each id. */
static const char **names_by_id(json_t *j, kit_why *w)
{
	const size_t n = json_object_size(j);
	const char **names = calloc(n + 1, sizeof *names), *key;
	json_t *value;
	if (!names) return kit_no_memory(w), NULL;
	json_object_foreach(j, key, value) {
		const json_int_t id = json_integer_value(value);
		if (!json_is_integer(value) || id < 0 || (uint64_t)id >= n || names[id]) {
			kit_no(w, TJ_ERR_PARSE, "token \"%.40s\": the ids of %zu tokens are not 0 to %zu, each once", key, n, n - 1);
			free(names);
			return NULL;
		}
		names[id] = key;
	}
	return names;
}

static bool add_token(tj_bpe *b, const char *name, size_t id, char *room, kit_why *w)
{
	const size_t n = strlen(name);
	const int64_t k = kit_bytes_named(name, n, room);
	if (!n) return kit_no(w, TJ_ERR_PARSE, "token %zu has no text", id);
	const int64_t got = k < 0 ? kit_bpe_add(b, name, n) : kit_bpe_add(b, room, (size_t)k);
	if (got < 0) return kit_no_memory(w);
	if (got != (int64_t)id)
		return kit_no(w, TJ_ERR_PARSE, "token %zu, \"%.40s\", stands for the same text as token %lld", id, name, (long long)got);
	b->special[id] = k < 0;
	if (k == 1) b->byte_id[(unsigned char)*room] = (int32_t)id;
	return true;
}

static bool add_tokens(tj_bpe *b, json_t *j, kit_why *w)
{
	const size_t n = json_object_size(j);
	size_t longest = 1;
	if (!json_is_object(j) || n > INT32_MAX) return kit_no(w, TJ_ERR_PARSE, "it is no object of tokens");
	const char **names = names_by_id(j, w);
	if (!names) return false;
	for (size_t i = 0; i < n; i++) longest = strlen(names[i]) > longest ? strlen(names[i]) : longest;
	char *room = malloc(longest);
	bool ok = room && (b->special = calloc(n + 1, sizeof *b->special));
	if (!ok) kit_no_memory(w);
	memset(b->byte_id, 255, sizeof b->byte_id);
	for (size_t i = 0; ok && i < n; i++) ok = add_token(b, names[i], i, room, w);
	for (int i = 0; ok && i < 256; i++)
		if (b->byte_id[i] < 0) ok = kit_no(w, TJ_ERR_PARSE, "the token of byte %d is missing", i);
	free(room);
	free(names);
	return ok;
}

static bool read_encoder(tj_bpe *b, const char *path, kit_why *w)
{
	size_t n;
	json_error_t e;
	kit_map *m = kit_map_open(path, w);
	if (!m) return false;
	const char *v = kit_map_data(m, &n);
	json_t *j = json_loadb(v, n, JSON_REJECT_DUPLICATES, &e);
	kit_map_drop(m);
	if (!j) return kit_no(w, TJ_ERR_PARSE, "line %d: %s", e.line, e.text);
	const bool ok = add_tokens(b, j, w);
	json_decref(j);
	return ok;
}

/* ---- vocab.bpe ---- */
/* The id of a part of a line; room: as long as the line. */
static int64_t id_of(const tj_bpe *b, const char *s, size_t n, char *room)
{
	const int64_t k = kit_bytes_named(s, n, room);
	return k > 0 ? kit_text_find(&b->tokens, room, (size_t)k) : -1;
}

static bool add_line(tj_bpe *b, const char *s, size_t n, long line, char *room, kit_why *w)
{
	const char *blank = memchr(s, ' ', n);
	const size_t k = blank ? (size_t)(blank - s) : 0, rest = blank ? n - k - 1 : 0;
	if (!k || !rest || memchr(blank + 1, ' ', rest))
		return kit_no(w, TJ_ERR_PARSE, "line %ld: it is not two tokens with a blank between", line);
	const int64_t left = id_of(b, s, k, room), right = id_of(b, blank + 1, rest, room);
	if (left < 0 || right < 0)
		return kit_no(w, TJ_ERR_PARSE, "line %ld: its %s token is not in the vocabulary", line, left < 0 ? "first" : "second");
	const kit_text *x = &b->tokens.text[left], *y = &b->tokens.text[right];
	memcpy(room, x->s, x->n);
	memcpy(room + x->n, y->s, y->n);
	const int64_t to = kit_text_find(&b->tokens, room, x->n + y->n);
	if (to < 0) return kit_no(w, TJ_ERR_PARSE, "line %ld: what its tokens make is not in the vocabulary", line);
	if (kit_number_find(&b->merges, kit_pair((int32_t)left, (int32_t)right)))
		return kit_no(w, TJ_ERR_PARSE, "line %ld: it is there twice", line);
	return kit_bpe_merge(b, (int32_t)left, (int32_t)right, (int32_t)to) || kit_no_memory(w);
}

static bool add_lines(tj_bpe *b, const char *v, size_t n, char *room, kit_why *w)
{
	const char *end = v + n;
	for (long line = 1; v < end; line++) {
		const char *stop = memchr(v, '\n', (size_t)(end - v));
		size_t k = (size_t)((stop ? stop : end) - v);
		const char *s = v;
		v = stop ? stop + 1 : end;
		if (k && s[k - 1] == '\r') k--;
		if (!k || (line == 1 && k >= 8 && !memcmp(s, "#version", 8))) continue;
		if (!add_line(b, s, k, line, room, w)) return false;
	}
	return true;
}

static bool read_merges(tj_bpe *b, const char *path, kit_why *w)
{
	size_t n;
	kit_map *m = kit_map_open(path, w);
	if (!m) return false;
	const char *v = kit_map_data(m, &n);
	char *room = malloc(n + 1);
	const bool ok = room ? add_lines(b, v, n, room, w) : kit_no_memory(w);
	free(room);
	kit_map_drop(m);
	return ok;
}

tj_bpe *tj_bpe_open_at(const char *site, tj_ctx *c, const char *encoder_json, const char *vocab_bpe)
{
	kit_why w = { 0 };
	const char *path = encoder_json;
	tj_bpe *b = kit_bpe_new(c);
	bool ok = b || kit_no_memory(&w);
	if (ok && (ok = read_encoder(b, encoder_json, &w))) {
		path = vocab_bpe;
		ok = read_merges(b, vocab_bpe, &w);
	}
	if (ok) return b;
	tj_bpe_close(b);
	return kit_report(site, "bpe_open", path, &w), NULL;
}

/* ---- writing ---- */
/* The name of a token; the caller frees it. */
static char *name_of(const tj_bpe *b, int64_t id)
{
	const kit_text *x = &b->tokens.text[id];
	char *to = malloc(2 * x->n + 3);
	size_t n = 0;
	if (!to) return NULL;
	if (b->special && b->special[id]) memcpy(to, x->s, n = x->n);
	else for (size_t i = 0; i < x->n; i++) n += kit_byte_name((unsigned char)x->s[i], to + n);
	to[n] = 0;
	return to;
}

static bool write_encoder(void *env, kit_out *o, kit_why *w)
{
	const tj_bpe *b = env;
	json_t *j = json_object();
	bool ok = j;
	for (int64_t i = 0; ok && i < tj_bpe_count(b); i++) {
		char *name = name_of(b, i);
		ok = name && !json_object_set_new(j, name, json_integer(i));
		free(name);
	}
	char *text = ok ? json_dumps(j, JSON_ENSURE_ASCII) : NULL;
	json_decref(j);
	if (!text) return kit_no_memory(w);
	ok = kit_put(o, text, strlen(text), w);
	free(text);
	return ok;
}

static bool write_merges(void *env, kit_out *o, kit_why *w)
{
	const tj_bpe *b = env;
	bool ok = kit_put(o, "#version: 0.2\n", 14, w);
	for (size_t i = 0; ok && i < b->ranks; i++) {
		char *left = name_of(b, b->merge[i].left), *right = name_of(b, b->merge[i].right);
		ok = left && right ? kit_put(o, left, strlen(left), w) && kit_put(o, " ", 1, w) && kit_put(o, right, strlen(right), w) &&
		                             kit_put(o, "\n", 1, w)
		                   : kit_no_memory(w);
		free(left);
		free(right);
	}
	return ok;
}

tj_status tj_bpe_save_at(const char *site, const tj_bpe *b, const char *encoder_json, const char *vocab_bpe)
{
	kit_why w = { 0 };
	const char *path = encoder_json;
	if (!b) return tj_fail_at(site, TJ_ERR_ARG, "bpe_save", NULL, "the tokeniser is NULL"), TJ_ERR_ARG;
	bool ok = kit_replace(encoder_json, write_encoder, (void *)(uintptr_t)b, &w);
	if (ok) {
		path = vocab_bpe;
		ok = kit_replace(vocab_bpe, write_merges, (void *)(uintptr_t)b, &w);
	}
	if (ok) return TJ_OK;
	kit_report(site, "bpe_save", path, &w);
	return w.code;
}
