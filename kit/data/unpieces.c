/* SPDX-License-Identifier: MIT */
/* unpieces: tokens back to a text. A decoder changes a list of texts, which are joined at the end. */
#include "kit/data/tokenizer.h"

#include <stdlib.h>

typedef struct list {
	kit_chars chars;
	kit_pieces pieces;
} list;

static void put(list *to, const char *s, size_t n)
{
	kit_pieces_put(&to->pieces, (kit_piece){ to->chars.n, n, -1 });
	kit_chars_put(&to->chars, s, n);
}

/* The text behind the list's last piece is a piece of its own from `from` on. */
static void close_piece(list *to, size_t from) { kit_pieces_put(&to->pieces, (kit_piece){ from, to->chars.n - from, -1 }); }

static void replace_all(const char *s, size_t n, const char *what, const char *by, kit_chars *to)
{
	const size_t k = strlen(what);
	for (const char *p; k && (p = memmem(s, n, what, k)); n -= (size_t)(p - s) + k, s = p + k) {
		kit_chars_put(to, s, (size_t)(p - s));
		kit_chars_put(to, by, strlen(by));
	}
	kit_chars_put(to, s, n);
}

/* ---- each decoder, for piece i ---- */
static void byte_level(const char *s, size_t n, list *to)
{
	char *bytes = malloc(n + 1);
	const int64_t k = bytes ? kit_bytes_named(s, n, bytes) : -1;
	if (!bytes) to->chars.failed = true;
	else if (k >= 0) put(to, bytes, (size_t)k);
	else put(to, s, n); /* an added token */
	free(bytes);
}

static void tidy(const char *s, size_t n, kit_chars *to)
{
	static const char *const by[][2] = { { " .", "." },     { " ?", "?" },   { " !", "!" },           { " ,", "," },
		                             { " ' ", "'" },    { " n't", "n't" }, { " 'm", "'m" },       { " do not", " don't" },
		                             { " 's", "'s" },   { " 've", "'ve" }, { " 're", "'re" } };
	kit_chars a = { 0 }, b = { 0 };
	kit_chars_put(&a, s, n);
	for (size_t i = 0; i < sizeof by / sizeof *by && !a.failed && !b.failed; i++) {
		b.n = 0;
		replace_all(a.s, a.n, by[i][0], by[i][1], &b);
		const kit_chars was = a;
		a = b, b = was;
	}
	kit_chars_put(to, a.s, a.n);
	to->failed = to->failed || a.failed || b.failed;
	free(a.s), free(b.s);
}

static void word_piece(const kit_stage *k, const char *s, size_t n, size_t i, list *to)
{
	const size_t prefix = strlen(k->text), from = to->chars.n;
	kit_chars one = { 0 };
	if (i && n >= prefix && !memcmp(s, k->text, prefix)) kit_chars_put(&one, s + prefix, n - prefix);
	else {
		if (i) kit_chars_put(&one, " ", 1);
		kit_chars_put(&one, s, n);
	}
	if (one.failed) to->chars.failed = true;
	else if (k->cleanup && one.n) tidy(one.s, one.n, &to->chars);
	else kit_chars_put(&to->chars, one.s, one.n);
	free(one.s);
	close_piece(to, from);
}

static void metaspace(const kit_stage *k, const char *s, size_t n, size_t i, list *to)
{
	const size_t from = to->chars.n;
	replace_all(s, n, k->text, i || !k->prepend ? " " : "", &to->chars);
	close_piece(to, from);
}

static void strip(const kit_stage *k, const char *s, size_t n, list *to)
{
	const size_t bytes = strlen(k->text);
	for (int64_t i = 0; bytes && i < k->start && n >= bytes && !memcmp(s, k->text, bytes); i++) s += bytes, n -= bytes;
	for (int64_t i = 0; bytes && i < k->stop && n >= bytes && !memcmp(s + n - bytes, k->text, bytes); i++) n -= bytes;
	put(to, s, n);
}

/* "<0x0A>" */
static int byte_of(const char *s, size_t n)
{
	char *end;
	if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>') return -1;
	const char digits[3] = { s[3], s[4], 0 };
	const long b = strtol(digits, &end, 16);
	return end == digits + 2 && digits[0] != '+' && digits[0] != '-' && digits[0] != ' ' ? (int)b : -1;
}

/* Bytes one after the other are characters; where they are not, the package gives U+FFFD for each, and so do we. */
static void flush(kit_chars *bytes, list *to)
{
	if (!bytes->n) return;
	if (kit_is_utf8(bytes->s, bytes->n)) put(to, bytes->s, bytes->n);
	else
		for (size_t i = 0; i < bytes->n; i++) put(to, "\xEF\xBF\xBD", 3);
	bytes->n = 0;
}

static void byte_fallback(const list *in, list *to)
{
	kit_chars bytes = { 0 };
	for (size_t i = 0; i < in->pieces.n; i++) {
		const kit_piece *p = &in->pieces.v[i];
		const int b = byte_of(in->chars.s + p->from, p->n);
		if (b >= 0) kit_chars_put(&bytes, &(char){ (char)b }, 1);
		else flush(&bytes, to), put(to, in->chars.s + p->from, p->n);
	}
	flush(&bytes, to);
	to->chars.failed = to->chars.failed || bytes.failed;
	free(bytes.s);
}

static void suffix(const kit_stage *k, const char *s, size_t n, bool last, list *to)
{
	const size_t from = to->chars.n;
	replace_all(s, n, k->text, last ? "" : " ", &to->chars);
	close_piece(to, from);
}

/* A pattern is looked for between bytes that belong to no character: tokens of bytes may be parts of characters. */
static bool replace_pattern(const kit_stage *k, const char *s, size_t n, kit_chars *to, kit_why *w)
{
	const kit_stages one = { (kit_stage *)(uintptr_t)k, 1 };
	kit_chars text = { 0 };
	bool ok = true;
	for (size_t at = 0, end; ok && at < n; at = end + (end < n)) {
		end = at;
		for (size_t bytes; (bytes = kit_utf8(s + end, n - end, NULL)); end += bytes) {}
		ok = kit_normalize(NULL, &one, s + at, end - at, &text, w);
		kit_chars_put(to, text.s, text.n);
		if (end < n) kit_chars_put(to, s + end, 1);
	}
	free(text.s);
	return ok;
}

static bool replaced(const kit_stage *k, const char *s, size_t n, list *to, kit_why *w)
{
	const size_t from = to->chars.n;
	if (k->pattern && !replace_pattern(k, s, n, &to->chars, w)) return false;
	if (!k->pattern) replace_all(s, n, k->text, k->to, &to->chars);
	close_piece(to, from);
	return true;
}

static bool decode_one(const kit_stage *k, const list *in, list *to, kit_why *w)
{
	if (k->kind == KIT_BYTE_FALLBACK) return byte_fallback(in, to), true;
	if (k->kind == KIT_FUSE) return put(to, in->chars.s, in->chars.n), true; /* pieces lie one behind the other */
	for (size_t i = 0; i < in->pieces.n; i++) {
		const char *s = in->chars.n ? in->chars.s + in->pieces.v[i].from : ""; /* all pieces may be empty */
		const size_t n = in->pieces.v[i].n;
		switch (k->kind) {
		case KIT_BYTE_LEVEL: byte_level(s, n, to); break;
		case KIT_WORD_PIECE: word_piece(k, s, n, i, to); break;
		case KIT_METASPACE: metaspace(k, s, n, i, to); break;
		case KIT_STRIP: strip(k, s, n, to); break;
		case KIT_SUFFIX: suffix(k, s, n, i + 1 == in->pieces.n, to); break;
		default:
			if (!replaced(k, s, n, to, w)) return false;
		}
	}
	return true;
}

bool kit_decode(const kit_stages *s, kit_tokens t, kit_chars *to, kit_why *w)
{
	list a = { 0 }, b = { 0 };
	bool ok = true;
	for (size_t i = 0; i < t.n; i++) {
		if (i && !s->n) put(&a, " ", 1); /* no decoder at all */
		put(&a, t.v[i].s, t.v[i].n);
	}
	for (size_t i = 0; ok && i < s->n; i++) {
		b.chars.n = b.pieces.n = 0;
		ok = decode_one(&s->v[i], &a, &b, w);
		const list was = a;
		a = b, b = was;
		if (ok && (a.chars.failed || a.pieces.failed)) ok = kit_no_memory(w);
	}
	if (ok) kit_chars_put(to, a.chars.s, a.chars.n);
	if (ok && to->failed) ok = kit_no_memory(w);
	free(a.chars.s), free(a.pieces.v), free(b.chars.s), free(b.pieces.v);
	return ok;
}
