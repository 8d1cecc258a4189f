/* SPDX-License-Identifier: MIT */
/* pieces: normalisers change a text, pre-tokenizers cut it. */
#include "kit/data/tokenizer.h"

#include <stdlib.h>

void kit_pieces_put(kit_pieces *p, kit_piece piece)
{
	if (p->failed) return;
	if (p->n == p->room) {
		kit_piece *more = realloc(p->v, (2 * p->room + 32) * sizeof *more);
		if (!more) {
			p->failed = true;
			return;
		}
		p->v = more;
		p->room = 2 * p->room + 32;
	}
	p->v[p->n++] = piece;
}

static bool sound(const kit_chars *t, kit_why *w) { return !t->failed || kit_no_memory(w); }

/* ---- normalisers ---- */
static bool is_chinese(uint32_t c)
{
	return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
	       (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void clean(const kit_unicode *u, const kit_stage *k, const char *s, size_t n, kit_chars *to)
{
	for (size_t at = 0, bytes; at < n; at += bytes) {
		uint32_t c = kit_char_at(s, n, at, &bytes);
		if (k->clean && (!c || c == 0xFFFD || kit_char_is_control(u, c))) continue;
		if (k->clean && kit_char_is_blank(c)) c = ' ';
		const bool apart = k->chinese && is_chinese(c);
		if (apart) kit_chars_put(to, " ", 1);
		kit_chars_put_char(to, c);
		if (apart) kit_chars_put(to, " ", 1);
	}
}

static void without_marks(const kit_unicode *u, bool any, const char *s, size_t n, kit_chars *to)
{
	for (size_t at = 0, bytes; at < n; at += bytes)
		if (!kit_char_is_mark(u, kit_char_at(s, n, at, &bytes), any)) kit_chars_put(to, s + at, bytes);
}

static bool bert(const kit_unicode *u, const kit_stage *k, const char *s, size_t n, kit_chars *to, kit_why *w)
{
	kit_chars a = { 0 }, b = { 0 };
	clean(u, k, s, n, &a);
	bool ok = sound(&a, w);
	if (ok && k->accents) {
		ok = kit_normal_form(u, KIT_NFD, a.s, a.n, &b) || kit_no_memory(w);
		a.n = 0;
		if (ok) without_marks(u, false, b.s, b.n, &a);
	}
	if (k->lower) kit_lower(u, a.s, a.n, to);
	else kit_chars_put(to, a.s, a.n);
	ok = ok && sound(&a, w) && sound(&b, w) && sound(to, w);
	free(a.s), free(b.s);
	return ok;
}

static void stripped(const kit_stage *k, const char *s, size_t n, kit_chars *to)
{
	size_t from = 0, end = n, bytes;
	while (k->left && from < end && kit_char_is_blank(kit_char_at(s, n, from, &bytes))) from += bytes;
	while (k->right && end > from) {
		size_t last = end - 1;
		while (last > from && ((unsigned char)s[last] & 0xC0) == 0x80) last--;
		if (!kit_char_is_blank(kit_char_at(s, n, last, &bytes))) break;
		end = last;
	}
	kit_chars_put(to, s + from, end - from);
}

/* The next place of the stage's pattern or text. */
static bool next_place(const kit_stage *k, kit_match *m, const char *s, size_t n, size_t at)
{
	if (k->pattern) return kit_match_next(m, s, n, at);
	const size_t bytes = strlen(k->text);
	const char *p = at < n ? memmem(s + at, n - at, k->text, bytes) : NULL;
	if (!p) return false;
	m->from = (size_t)(p - s);
	m->to = m->from + bytes;
	return true;
}

static bool begin_places(const kit_stage *k, kit_match *m, kit_why *w)
{
	*m = (kit_match){ 0 };
	return !k->pattern || kit_match_open(m, k->pattern) || kit_no_memory(w);
}
static bool end_places(const kit_stage *k, kit_match *m, kit_why *w)
{
	if (k->pattern) kit_match_close(m);
	return !m->failed || kit_no(w, TJ_ERR_LIMIT, "a pattern of the tokeniser takes too long, or too much memory, for this text");
}

static bool replaced(const kit_stage *k, const char *s, size_t n, kit_chars *to, kit_why *w)
{
	kit_match m;
	size_t at = 0;
	if (!begin_places(k, &m, w)) return false;
	while (next_place(k, &m, s, n, at)) {
		kit_chars_put(to, s + at, m.from - at);
		kit_chars_put(to, k->to, strlen(k->to));
		at = m.to;
	}
	kit_chars_put(to, s + at, n - at);
	return end_places(k, &m, w);
}

static bool normalize_one(const kit_unicode *u, const kit_stage *k, const char *s, size_t n, kit_chars *to, kit_why *w)
{
	if (!n) return true; /* s may be NULL */
	switch (k->kind) {
	case KIT_BERT: return bert(u, k, s, n, to, w);
	case KIT_FORM: return kit_normal_form(u, k->form, s, n, to) || kit_no_memory(w);
	case KIT_LOWER: kit_lower(u, s, n, to); break;
	case KIT_STRIP_ACCENTS: without_marks(u, true, s, n, to); break;
	case KIT_STRIP: stripped(k, s, n, to); break;
	case KIT_PREPEND:
		kit_chars_put(to, k->text, strlen(k->text));
		kit_chars_put(to, s, n);
		break;
	default: return replaced(k, s, n, to, w);
	}
	return true;
}

bool kit_normalize(const kit_unicode *u, const kit_stages *s, const char *text, size_t n, kit_chars *to, kit_why *w)
{
	kit_chars other = { 0 };
	bool ok = true;
	to->n = 0;
	kit_chars_put(to, text, n);
	for (size_t i = 0; ok && i < s->n; i++) {
		other.n = 0;
		ok = sound(to, w) && normalize_one(u, &s->v[i], to->s, to->n, &other, w) && sound(&other, w);
		const kit_chars was = *to;
		*to = other;
		other = was;
	}
	free(other.s);
	return ok && sound(to, w);
}

/* ---- behaviours: spans that match and spans between them become pieces ---- */
typedef struct cutter {
	kit_behaviour how;
	bool invert, before; /* before: the last span matched */
	kit_pieces *out;
	size_t base;         /* of the text in the buffer */
	size_t first;        /* pieces of `out` that are there already */
} cutter;

static void span(cutter *c, size_t from, size_t to, bool match)
{
	kit_piece *last = c->out->n > c->first ? &c->out->v[c->out->n - 1] : NULL;
	if (from == to) return;
	match ^= c->invert;
	const bool joins = c->how == KIT_CONTIGUOUS      ? match == c->before
	                   : c->how == KIT_WITH_PREVIOUS ? match && !c->before
	                   : c->how == KIT_WITH_NEXT     ? !match && c->before
	                                                 : false;
	c->before = match;
	if (c->how == KIT_REMOVED && match) return;
	if (joins && last) last->n += to - from;
	else kit_pieces_put(c->out, (kit_piece){ c->base + from, to - from, -1 });
}

static bool cut_by_pattern(const kit_stage *k, cutter *c, const char *s, size_t n, kit_why *w)
{
	kit_match m;
	size_t at = 0;
	if (!begin_places(k, &m, w)) return false;
	while (next_place(k, &m, s, n, at)) {
		span(c, at, m.from, false);
		span(c, m.from, m.to, true);
		at = m.to;
	}
	span(c, at, n, false);
	return end_places(k, &m, w);
}

static bool is_blank(const kit_unicode *u, uint32_t c) { return (void)u, kit_char_is_blank(c); }

static void cut_by_class(const kit_unicode *u, bool (*is)(const kit_unicode *u, uint32_t c), cutter *c, const char *s, size_t n)
{
	size_t from = 0;
	for (size_t at = 0, bytes; at < n; at += bytes) {
		if (!is(u, kit_char_at(s, n, at, &bytes))) continue;
		span(c, from, at, false);
		span(c, at, at + bytes, true);
		from = at + bytes;
	}
	span(c, from, n, false);
}

/* ---- pre-tokenizers: one piece, s[n], becomes pieces in *to ---- */
typedef struct stage_run {
	const kit_unicode *u;
	const kit_stage *k;
	bool first; /* the piece is the begin of the text */
	kit_chars *to;
	kit_pieces *out;
	kit_why *w;
} stage_run;

static cutter cutter_of(const stage_run *r, kit_behaviour how, bool invert)
{
	return (cutter){ .how = how, .invert = invert, .out = r->out, .base = r->to->n, .first = r->out->n };
}

static bool byte_level(stage_run *r, const char *s, size_t n)
{
	kit_chars whole = { 0 };
	kit_pieces words = { 0 };
	cutter c = { .how = KIT_ISOLATED, .out = &words };
	if (r->k->prefix_space && *s != ' ') kit_chars_put(&whole, " ", 1);
	kit_chars_put(&whole, s, n);
	bool ok = sound(&whole, r->w);
	if (ok && r->k->own_pattern) ok = cut_by_pattern(r->k, &c, whole.s, whole.n, r->w);
	else if (ok) span(&c, 0, whole.n, false);
	for (size_t i = 0; ok && i < words.n; i++) {
		const size_t from = r->to->n;
		for (size_t b = 0; b < words.v[i].n; b++) {
			char name[3];
			kit_chars_put(r->to, name, kit_byte_name((unsigned char)whole.s[words.v[i].from + b], name));
		}
		kit_pieces_put(r->out, (kit_piece){ from, r->to->n - from, -1 });
	}
	if (words.failed) ok = kit_no_memory(r->w);
	free(whole.s), free(words.v);
	return ok;
}

static bool metaspace(stage_run *r, const char *s, size_t n)
{
	const kit_stage *k = r->k;
	const size_t bytes = strlen(k->text), from = r->to->n;
	cutter c = cutter_of(r, KIT_WITH_NEXT, false);
	const bool begins = n && (*s == ' ' || (n >= bytes && !memcmp(s, k->text, bytes)));
	if (!begins && (k->prepend == 2 || (k->prepend == 1 && r->first))) kit_chars_put(r->to, k->text, bytes);
	for (size_t i = 0; i < n; i++)
		if (s[i] == ' ') kit_chars_put(r->to, k->text, bytes);
		else kit_chars_put(r->to, s + i, 1);
	if (r->to->failed) return kit_no_memory(r->w);
	const size_t all = r->to->n - from;
	if (!k->split) return kit_pieces_put(r->out, (kit_piece){ from, all, -1 }), true;
	const kit_stage sign = { .text = k->text };
	return cut_by_pattern(&sign, &c, r->to->s + from, all, r->w);
}

static bool bert_pieces(stage_run *r, const char *s, size_t n)
{
	kit_pieces words = { 0 };
	cutter by_blanks = { .how = KIT_REMOVED, .out = &words };
	cut_by_class(r->u, is_blank, &by_blanks, s, n);
	for (size_t i = 0; i < words.n; i++) {
		cutter c = cutter_of(r, KIT_ISOLATED, false);
		cut_by_class(r->u, kit_char_is_punctuation, &c, s + words.v[i].from, words.v[i].n);
		kit_chars_put(r->to, s + words.v[i].from, words.v[i].n);
	}
	const bool ok = !words.failed || kit_no_memory(r->w);
	free(words.v);
	return ok;
}

static bool cut_one(stage_run *r, const char *s, size_t n)
{
	const kit_stage *k = r->k;
	if (k->kind == KIT_BYTE_LEVEL) return byte_level(r, s, n);
	if (k->kind == KIT_METASPACE) return metaspace(r, s, n);
	if (k->kind == KIT_BERT_PIECES) return bert_pieces(r, s, n);
	cutter c = cutter_of(r, k->kind == KIT_BLANKS ? KIT_REMOVED : k->behaviour, k->invert);
	bool ok = true;
	if (k->kind == KIT_BLANKS || k->kind == KIT_PUNCTUATION)
		cut_by_class(r->u, k->kind == KIT_BLANKS ? is_blank : kit_char_is_punctuation, &c, s, n);
	else ok = cut_by_pattern(k, &c, s, n, r->w);
	kit_chars_put(r->to, s, n);
	return ok;
}

bool kit_cut(const kit_unicode *u, const kit_stages *s, const char *text, size_t n, bool first, kit_chars *to, kit_pieces *out, kit_why *w)
{
	kit_chars other = { 0 };
	kit_pieces pieces = { 0 };
	bool ok = true;
	to->n = out->n = 0;
	kit_chars_put(to, text, n);
	if (n) kit_pieces_put(out, (kit_piece){ 0, n, -1 });
	for (size_t i = 0; ok && i < s->n; i++) {
		stage_run r = { u, &s->v[i], first, &other, &pieces, w };
		other.n = pieces.n = 0;
		for (size_t k = 0; ok && k < out->n; k++, r.first = false) ok = cut_one(&r, to->s + out->v[k].from, out->v[k].n);
		const kit_chars chars = *to;
		const kit_pieces was = *out;
		*to = other, *out = pieces;
		other = chars, pieces = was;
		ok = ok && sound(to, w) && (!out->failed || kit_no_memory(w));
	}
	free(other.s), free(pieces.v);
	return ok && sound(to, w) && (!out->failed || kit_no_memory(w));
}
