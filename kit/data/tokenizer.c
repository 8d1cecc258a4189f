/* SPDX-License-Identifier: MIT */
/* tokenizer: the handle of a tokenizer.json; added tokens, and what stands around a text. */
#include "kit/data/tokenizer.h"

#include <stdlib.h>

typedef struct added {
	const char *text;  /* of the JSON */
	char *found;       /* what is looked for: the text, or what the normaliser makes of it */
	size_t n;
	int32_t id;
	bool single_word, left, right, normalized, special;
} added;
typedef struct added_set { added *v; size_t n, first[257]; } added_set; /* by the first byte, the longest first */

enum { MOST_AROUND = 16 };
struct tj_tokenizer {
	tj_ctx *c;
	json_t *json;
	kit_unicode unicode;
	kit_stages normalizer, pieces, decoder;
	kit_model model;
	kit_vocabulary extra;   /* added tokens */
	bool *special;          /* by id, up to extra.ids */
	added_set raw, normal;  /* looked for before, and after, the normaliser */
	kit_pattern *word;      /* \w: NULL if no added token needs it */
	int32_t before[MOST_AROUND], after[MOST_AROUND];
	int befores, afters;
};

/* ---- added tokens ---- */
static int by_begin(const void *a, const void *b)
{
	const added *x = a, *y = b;
	if (*x->found != *y->found) return (unsigned char)*x->found < (unsigned char)*y->found ? -1 : 1;
	return (x->n < y->n) - (x->n > y->n);
}

static bool is_true(const json_t *j, const char *key) { return json_is_true(json_object_get(j, key)); }

static bool read_added(tj_tokenizer *t, const json_t *j, kit_why *w)
{
	const char *text = json_string_value(json_object_get(j, "content"));
	const json_t *id = json_object_get(j, "id");
	if (!text || !*text || !json_is_integer(id)) return kit_no(w, TJ_ERR_PARSE, "an added token has no content, or no id");
	if (!kit_vocabulary_put(&t->extra, text, strlen(text), json_integer_value(id), w)) return false;
	added a = { .text = text, .id = (int32_t)json_integer_value(id), .single_word = is_true(j, "single_word"), .left = is_true(j, "lstrip"),
		    .right = is_true(j, "rstrip"), .normalized = is_true(j, "normalized"), .special = is_true(j, "special") };
	kit_chars found = { 0 };
	const kit_stages none = { 0 };
	if (!kit_normalize(&t->unicode, a.normalized ? &t->normalizer : &none, text, strlen(text), &found, w)) return free(found.s), false;
	a.found = found.s;
	a.n = found.n;
	if (!a.n) return free(a.found), true; /* it is never found */
	added_set *set = a.normalized ? &t->normal : &t->raw;
	added *more = realloc(set->v, (set->n + 1) * sizeof *more);
	if (!more) return free(a.found), kit_no_memory(w);
	set->v = more;
	set->v[set->n++] = a;
	if (a.single_word && !t->word && !(t->word = kit_pattern_open("\\w", 2, w))) return false;
	return true;
}

static void sort_added(added_set *s)
{
	size_t at = 0;
	if (s->n) qsort(s->v, s->n, sizeof *s->v, by_begin);
	for (int b = 0; b < 256; b++) {
		s->first[b] = at;
		while (at < s->n && (unsigned char)*s->v[at].found == b) at++;
	}
	s->first[256] = s->n;
}

static bool read_all_added(tj_tokenizer *t, kit_why *w)
{
	const json_t *all = json_object_get(t->json, "added_tokens");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (!read_added(t, json_array_get(all, i), w)) return false;
	sort_added(&t->raw);
	sort_added(&t->normal);
	t->special = calloc((size_t)t->extra.ids + 1, sizeof *t->special);
	if (!t->special) return kit_no_memory(w);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *j = json_array_get(all, i);
		if (is_true(j, "special")) t->special[json_integer_value(json_object_get(j, "id"))] = true;
	}
	return true;
}

static const added *added_at(const added_set *s, const char *text, size_t n)
{
	const unsigned char b = (unsigned char)*text;
	for (size_t i = s->first[b]; i < s->first[b + 1]; i++)
		if (s->v[i].n <= n && !memcmp(s->v[i].found, text, s->v[i].n)) return &s->v[i];
	return NULL;
}

static size_t char_before(const char *s, size_t at)
{
	do at--;
	while (at && ((unsigned char)s[at] & 0xC0) == 0x80);
	return at;
}

/* Whether a word goes on across either end. */
static bool is_within_word(const tj_tokenizer *t, const char *s, size_t n, size_t from, size_t to)
{
	kit_match m;
	bool within = false;
	size_t bytes;
	if (!kit_match_open(&m, t->word)) return false;
	if (from) {
		const size_t before = char_before(s, from);
		within = kit_match_next(&m, s + before, from - before, 0);
	}
	if (to < n && !within) {
		kit_char_at(s, n, to, &bytes);
		within = kit_match_next(&m, s + to, bytes, 0);
	}
	kit_match_close(&m);
	return within;
}

/* Cuts s[n] at added tokens: pieces with an id, and those between them. */
static bool cut_added(const tj_tokenizer *t, const added_set *set, const char *s, size_t n, kit_pieces *out, kit_why *w)
{
	size_t from = 0;
	for (size_t at = 0, bytes; set->n && at < n;) {
		const added *a = added_at(set, s + at, n - at);
		size_t begin = at, end = a ? at + a->n : at + 1;
		at = end;
		if (!a || (a->single_word && is_within_word(t, s, n, begin, end))) continue;
		while (a->left && begin > from) {
			const size_t before = char_before(s, begin);
			if (!kit_char_is_blank(kit_char_at(s, n, before, &bytes))) break;
			begin = before;
		}
		while (a->right && end < n && kit_char_is_blank(kit_char_at(s, n, end, &bytes))) end += bytes;
		if (begin < from) begin = from;
		if (begin > from) kit_pieces_put(out, (kit_piece){ from, begin - from, -1 });
		kit_pieces_put(out, (kit_piece){ begin, end - begin, a->id });
		from = end;
		if (at < end) at = end;
	}
	if (from < n) kit_pieces_put(out, (kit_piece){ from, n - from, -1 });
	return !out->failed || kit_no_memory(w);
}

/* ---- what stands around a text ---- */
static bool put_around(tj_tokenizer *t, bool after, const json_t *id, kit_why *w)
{
	int *n = after ? &t->afters : &t->befores;
	if (!json_is_integer(id) || *n == MOST_AROUND) return kit_no(w, TJ_ERR_PARSE, "its post_processor has a token without id, or too many");
	(after ? t->after : t->before)[(*n)++] = (int32_t)json_integer_value(id);
	return true;
}

static bool read_template(tj_tokenizer *t, const json_t *j, kit_why *w)
{
	const json_t *single = json_object_get(j, "single"), *tokens = json_object_get(j, "special_tokens");
	bool after = false;
	for (size_t i = 0; i < json_array_size(single); i++) {
		const json_t *item = json_array_get(single, i), *special = json_object_get(item, "SpecialToken");
		if (!special) {
			after = true;
			continue;
		}
		const char *name = json_string_value(json_object_get(special, "id"));
		const json_t *ids = json_object_get(name ? json_object_get(tokens, name) : NULL, "ids");
		if (!json_array_size(ids)) return kit_no(w, TJ_ERR_PARSE, "its post_processor has the token %.40s without ids", name ? name : "?");
		for (size_t k = 0; k < json_array_size(ids); k++)
			if (!put_around(t, after, json_array_get(ids, k), w)) return false;
	}
	return after || kit_no(w, TJ_ERR_PARSE, "its post_processor has no place for the text");
}

static bool read_around(tj_tokenizer *t, const json_t *j, int depth, kit_why *w)
{
	const char *type = json_string_value(json_object_get(j, "type"));
	if (!j || json_is_null(j)) return true;
	if (type && !strcmp(type, "Sequence") && depth < 8) {
		const json_t *all = json_object_get(j, "processors");
		for (size_t i = 0; i < json_array_size(all); i++)
			if (!read_around(t, json_array_get(all, i), depth + 1, w)) return false;
		return true;
	}
	if (type && !strcmp(type, "ByteLevel")) return true;
	if (type && !strcmp(type, "TemplateProcessing")) return read_template(t, j, w);
	if (type && (!strcmp(type, "BertProcessing") || !strcmp(type, "RobertaProcessing")))
		return put_around(t, false, json_array_get(json_object_get(j, "cls"), 1), w) &&
		       put_around(t, true, json_array_get(json_object_get(j, "sep"), 1), w);
	return kit_no(w, TJ_ERR_PARSE, "its post_processor has the type %.40s, which is not known here", type ? type : "?");
}

/* ---- the handle ---- */
static bool needs_unicode(const kit_stages *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].kind <= KIT_STRIP_ACCENTS || s->v[i].kind == KIT_BERT_PIECES || s->v[i].kind == KIT_PUNCTUATION) return true;
	return false;
}

static bool read_file(tj_tokenizer *t, const char *path, kit_why *w)
{
	size_t bytes;
	json_error_t e;
	enum { MOST_IDS = 1 << 26, GAPS = 1 << 20 }; /* a token has a byte at least; so many ids may have none */
	kit_map *map = kit_map_open(path, w);
	if (!map) return false;
	const char *v = kit_map_data(map, &bytes);
	t->model.own.most = t->extra.most = bytes > MOST_IDS ? MOST_IDS : (int64_t)bytes + GAPS;
	t->json = json_loadb(v, bytes, JSON_REJECT_DUPLICATES, &e);
	kit_map_drop(map);
	if (!t->json) return kit_no(w, TJ_ERR_PARSE, "at byte %d: %s", e.position, e.text);
	const json_t *j = t->json, *model = json_object_get(j, "model");
	if (!model) return kit_no(w, TJ_ERR_PARSE, "it is no tokenizer.json: it has no model");
	return kit_stages_read(json_object_get(j, "normalizer"), KIT_NORMALIZER, &t->normalizer, w) &&
	       kit_stages_read(json_object_get(j, "pre_tokenizer"), KIT_PRE_TOKENIZER, &t->pieces, w) &&
	       kit_stages_read(json_object_get(j, "decoder"), KIT_DECODER, &t->decoder, w) &&
	       (!(needs_unicode(&t->normalizer) || needs_unicode(&t->pieces)) || kit_unicode_open(&t->unicode, w)) &&
	       kit_model_read(model, &t->model, w) && read_all_added(t, w) && read_around(t, json_object_get(j, "post_processor"), 0, w);
}

tj_tokenizer *tj_tokenizer_open_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	tj_tokenizer *t = calloc(1, sizeof *t);
	if (t && read_file(t, path, &w)) return t->c = c, t;
	if (!t) kit_no_memory(&w);
	kit_report(site, "tokenizer_open", path, &w);
	tj_tokenizer_close(t);
	return NULL;
}

void tj_tokenizer_close(tj_tokenizer *t)
{
	if (!t) return;
	for (size_t i = 0; i < t->raw.n; i++) free(t->raw.v[i].found);
	for (size_t i = 0; i < t->normal.n; i++) free(t->normal.v[i].found);
	free(t->raw.v), free(t->normal.v), free(t->special);
	kit_stages_free(&t->normalizer), kit_stages_free(&t->pieces), kit_stages_free(&t->decoder);
	kit_model_free(&t->model);
	kit_vocabulary_free(&t->extra);
	kit_pattern_close(t->word);
	kit_unicode_close(&t->unicode);
	json_decref(t->json);
	free(t);
}

const char *tj_tokenizer_token(const tj_tokenizer *t, int64_t id)
{
	if (!t || id < 0) return NULL;
	if (id < t->extra.ids && t->extra.token[id]) return t->extra.token[id];
	return id < t->model.own.ids ? t->model.own.token[id] : NULL;
}

int64_t tj_tokenizer_count(const tj_tokenizer *t)
{
	int64_t n = !t ? 0 : t->extra.ids > t->model.own.ids ? t->extra.ids : t->model.own.ids;
	while (n && !tj_tokenizer_token(t, n - 1)) n--;
	return n;
}

int64_t tj_tokenizer_id(const tj_tokenizer *t, const char *token)
{
	const int32_t id = t && token ? kit_vocabulary_find(&t->extra, token, strlen(token)) : -1;
	return id >= 0 || !t || !token ? id : kit_vocabulary_find(&t->model.own, token, strlen(token));
}

/* ---- encoding ---- */
typedef struct encoder {
	const tj_tokenizer *t;
	kit_chars normal, cut;
	kit_pieces raw, found, words, ids;
} encoder;

/* A text without added tokens that are looked for before the normaliser. */
static bool encode_part(encoder *e, const char *s, size_t n, bool first, kit_why *w)
{
	const tj_tokenizer *t = e->t;
	e->found.n = 0;
	if (!kit_normalize(&t->unicode, &t->normalizer, s, n, &e->normal, w) ||
	    !cut_added(t, &t->normal, e->normal.s, e->normal.n, &e->found, w))
		return false;
	for (size_t i = 0; i < e->found.n; i++) {
		const kit_piece p = e->found.v[i];
		if (p.id >= 0) kit_pieces_put(&e->ids, p);
		else if (!kit_cut(&t->unicode, &t->pieces, e->normal.s + p.from, p.n, first && !p.from, &e->cut, &e->words, w)) return false;
		for (size_t k = 0; p.id < 0 && k < e->words.n; k++)
			if (!kit_model_ids(&t->model, e->cut.s + e->words.v[k].from, e->words.v[k].n, &e->ids, w)) return false;
	}
	return !e->ids.failed || kit_no_memory(w);
}

static void put_ids(encoder *e, const int32_t *id, int n)
{
	for (int i = 0; i < n; i++) kit_pieces_put(&e->ids, (kit_piece){ 0, 0, id[i] });
}

/* The text, in UTF-8: itself, or a copy in *own. */
static const char *sound_text(const char *s, size_t *n, kit_chars *own)
{
	if (kit_is_utf8(s, *n)) return s;
	for (size_t at = 0, bytes; at < *n; at += bytes) kit_chars_put_char(own, kit_char_at(s, *n, at, &bytes));
	*n = own->n;
	return own->s;
}

static bool encode(encoder *e, const char *text, size_t bytes, bool special, kit_why *w)
{
	kit_chars own = { 0 };
	const char *s = sound_text(text, &bytes, &own);
	bool ok = !own.failed || kit_no_memory(w);
	if (special) put_ids(e, e->t->before, e->t->befores);
	ok = ok && cut_added(e->t, &e->t->raw, s, bytes, &e->raw, w);
	for (size_t i = 0; ok && i < e->raw.n; i++) {
		const kit_piece p = e->raw.v[i];
		if (p.id >= 0) kit_pieces_put(&e->ids, p);
		else ok = encode_part(e, s + p.from, p.n, !p.from, w);
	}
	if (special) put_ids(e, e->t->after, e->t->afters);
	free(own.s);
	return ok && (!e->ids.failed || kit_no_memory(w));
}

static void end_encoder(encoder *e)
{
	free(e->normal.s), free(e->cut.s);
	free(e->raw.v), free(e->found.v), free(e->words.v), free(e->ids.v);
}

int64_t tj_tokenizer_ids(const tj_tokenizer *t, const char *text, size_t bytes, bool special, int32_t *ids, int64_t room)
{
	kit_why w = { 0 };
	encoder e = { .t = t };
	if (!t || (bytes && !text)) return -1;
	const bool ok = encode(&e, text, bytes, special, &w);
	const int64_t n = ok ? (int64_t)e.ids.n : -1;
	for (int64_t i = 0; i < n && i < room; i++) ids[i] = e.ids.v[i].id;
	end_encoder(&e);
	return n;
}

tj_tensor *tj_tokenizer_encode_at(const char *site, const tj_tokenizer *t, const char *text, size_t bytes, bool special)
{
	static const char op[] = "tokenizer_encode";
	kit_why w = { 0 };
	encoder e = { .t = t };
	if (!t || (bytes && !text)) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", t ? "text" : "tokeniser");
	bool ok = encode(&e, text, bytes, special, &w);
	const int64_t n = (int64_t)e.ids.n;
	int32_t *ids = ok ? malloc((size_t)n * sizeof *ids + 1) : NULL;
	if (ok && !ids) ok = kit_no_memory(&w);
	for (int64_t i = 0; ok && i < n; i++) ids[i] = e.ids.v[i].id;
	end_encoder(&e);
	return ok ? kit_give(site, t->c, TJ_I32, (const int64_t[]){ n, TJ_END_DIM }, NULL, ids) : kit_report(site, op, NULL, &w);
}

/* ---- decoding ---- */
static bool decode(const tj_tokenizer *t, const int32_t *ids, int64_t n, bool special, kit_chars *to, kit_why *w)
{
	kit_text *token = malloc((size_t)n * sizeof *token + 1);
	size_t k = 0;
	bool ok = token || kit_no_memory(w);
	for (int64_t i = 0; ok && i < n; i++) {
		const char *s = tj_tokenizer_token(t, ids[i]);
		if (!s) ok = kit_no(w, TJ_ERR_INDEX, "id %d at place %lld has no token", ids[i], (long long)i);
		else if (special || ids[i] >= t->extra.ids || !t->special[ids[i]]) token[k++] = (kit_text){ s, strlen(s) };
	}
	ok = ok && kit_decode(&t->decoder, (kit_tokens){ token, k }, to, w);
	kit_chars_put(to, "", 1);
	free(token);
	return ok && (!to->failed || kit_no_memory(w));
}

char *tj_tokenizer_decode_at(const char *site, const tj_tokenizer *t, tj_tensor *ids, bool special, size_t *bytes)
{
	kit_why w = { 0 };
	kit_chars text = { 0 };
	int64_t n = 0;
	if (!t) return tj_fail_at(site, TJ_ERR_ARG, "tokenizer_decode", NULL, "the tokeniser is NULL"), NULL;
	int32_t *v = kit_ids_of(site, ids, &n, &w);
	const bool ok = v && decode(t, v, n, special, &text, &w);
	free(v);
	if (ok && bytes) *bytes = text.n - 1;
	if (ok) return text.s;
	free(text.s);
	if (*w.text) kit_report(site, "tokenizer_decode", NULL, &w);
	return NULL;
}
