/* SPDX-License-Identifier: MIT */
/* chars: texts that grow, and what Unicode says of a character. */
#include "kit/data/tokenizer.h"

#include <dlfcn.h>
#include <stdlib.h>

void kit_chars_put(kit_chars *t, const char *s, size_t n)
{
	if (t->failed) return;
	if (t->room - t->n < n) {
		const size_t room = 2 * t->room + n + 64;
		char *more = realloc(t->s, room);
		if (!more) {
			t->failed = true;
			return;
		}
		t->s = more;
		t->room = room;
	}
	if (n) memcpy(t->s + t->n, s, n);
	t->n += n;
}

void kit_chars_put_char(kit_chars *t, uint32_t c)
{
	char s[4];
	if (c < 0x80) s[0] = (char)c, kit_chars_put(t, s, 1);
	else if (c < 0x800) s[0] = (char)(0xC0 | c >> 6), s[1] = (char)(0x80 | (c & 63)), kit_chars_put(t, s, 2);
	else if (c < 0x10000) {
		s[0] = (char)(0xE0 | c >> 12), s[1] = (char)(0x80 | (c >> 6 & 63)), s[2] = (char)(0x80 | (c & 63));
		kit_chars_put(t, s, 3);
	} else {
		s[0] = (char)(0xF0 | c >> 18), s[1] = (char)(0x80 | (c >> 12 & 63)), s[2] = (char)(0x80 | (c >> 6 & 63));
		s[3] = (char)(0x80 | (c & 63));
		kit_chars_put(t, s, 4);
	}
}

uint32_t kit_char_at(const char *s, size_t n, size_t at, size_t *bytes)
{
	uint32_t c = 0xFFFD;
	*bytes = kit_utf8(s + at, n - at, &c);
	if (!*bytes) *bytes = 1;
	return c;
}

bool kit_char_is_blank(uint32_t c)
{
	return c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
	       c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* ---- libutf8proc ---- */
bool kit_unicode_open(kit_unicode *u, kit_why *w)
{
	static const char *const names[] = { "utf8proc_category", "utf8proc_tolower", "utf8proc_map", NULL };
	if (u->so) return true;
	kit_why other = { 0 };
	u->so = kit_library("libutf8proc.so.3", "libutf8proc3", names, &u->f, &other); /* Debian 13; 12 has the older one */
	if (!u->so) u->so = kit_library("libutf8proc.so.2", "libutf8proc2", names, &u->f, w);
	return u->so;
}

void kit_unicode_close(kit_unicode *u)
{
	if (u->so) dlclose(u->so);
}

enum { MN = 6, MC, ME, FIRST_PUNCTUATION = 12, LAST_PUNCTUATION = 18, CC = 26, CF = 27, CO = 29 };

bool kit_char_is_mark(const kit_unicode *u, uint32_t c, bool any)
{
	const int k = u->f.category((int32_t)c);
	return k == MN || (any && (k == MC || k == ME));
}

bool kit_char_is_punctuation(const kit_unicode *u, uint32_t c)
{
	if (c < 0x80) return (c > 32 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 127);
	const int k = u->f.category((int32_t)c);
	return k >= FIRST_PUNCTUATION && k <= LAST_PUNCTUATION;
}

bool kit_char_is_control(const kit_unicode *u, uint32_t c)
{
	if (c == '\t' || c == '\n' || c == '\r') return false;
	const int k = u->f.category((int32_t)c);
	return k == CC || k == CF || k == CO;
}

void kit_lower(const kit_unicode *u, const char *s, size_t n, kit_chars *to)
{
	enum { I_WITH_DOT = 0x130, DOT = 0x307 };
	for (size_t at = 0, bytes; at < n; at += bytes) {
		const uint32_t c = kit_char_at(s, n, at, &bytes);
		if (c == I_WITH_DOT) kit_chars_put_char(to, 'i'), kit_chars_put_char(to, DOT); /* the one that becomes two */
		else kit_chars_put_char(to, (uint32_t)u->f.lower((int32_t)c));
	}
}

bool kit_normal_form(const kit_unicode *u, int form, const char *s, size_t n, kit_chars *to)
{
	uint8_t *out = NULL;
	const ssize_t k = n ? u->f.map((const uint8_t *)s, (ssize_t)n, &out, form) : 0;
	if (k > 0) kit_chars_put(to, (const char *)out, (size_t)k);
	free(out);
	return k >= 0;
}
