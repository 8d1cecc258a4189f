/* SPDX-License-Identifier: MIT */
/* words: how GPT-2 cuts a text, and how it writes bytes. Its pattern is
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * libpcre2 knows its classes. Words of ASCII are cut without it, if what follows them is ASCII, too. */
#include "kit/data/data.h"

typedef enum class { BLANK, LETTER, DIGIT, OTHER } class;

static class class_of(char c)
{
	if (c == ' ' || (c >= '\t' && c <= '\r')) return BLANK;
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80) return LETTER;
	return c >= '0' && c <= '9' ? DIGIT : OTHER;
}

static size_t contraction(const char *s, size_t n)
{
	static const char *const all[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const size_t k = strlen(all[i]);
		if (k <= n && !memcmp(s, all[i], k)) return k;
	}
	return 0;
}

/* The last blank before a word belongs to the word. */
static size_t blanks(const char *s, size_t n)
{
	size_t k = 1;
	while (k < n && class_of(s[k]) == BLANK) k++;
	return k == n || k == 1 ? k : k - 1;
}

/* The word at the begin of a text whose bytes from 0x80 on count as letters. */
static size_t plain_word(const char *s, size_t n)
{
	const size_t c = *s == '\'' ? contraction(s, n) : 0;
	if (c) return c;
	const size_t first = *s == ' ' && n > 1;
	const class k = class_of(s[first]);
	if (k == BLANK) return blanks(s, n);
	size_t end = first + 1;
	while (end < n && class_of(s[end]) == k) end++;
	return end;
}

kit_pattern *kit_words_pattern(kit_why *w)
{
	static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
	return kit_pattern_open(gpt2, sizeof gpt2 - 1, w);
}

static bool is_ascii(const char *s, size_t n)
{
	while (n && !(*s & 0x80)) s++, n--;
	return !n;
}

/* Bytes that belong to no character are words. */
static size_t odd_bytes(const char *s, size_t n)
{
	size_t k = 0;
	while (k < n && !kit_utf8(s + k, n - k, NULL)) k++;
	return k;
}

size_t kit_words_next(kit_words *x, const char *s, size_t n, size_t at)
{
	const size_t k = plain_word(s + at, n - at), more = n - at - k;
	if (is_ascii(s + at, k + (more < 2 ? more : 2))) return k; /* a blank and the character behind it may say how it ends */
	if (at >= x->sound) {
		const size_t odd = odd_bytes(s + at, n - at);
		if (odd) return odd;
		for (size_t bytes = 1; x->sound = at > x->sound ? at : x->sound, bytes; x->sound += bytes)
			bytes = kit_utf8(s + x->sound, n - x->sound, NULL);
	}
	if (!x->pattern || (!x->m.data && !kit_match_open(&x->m, x->pattern))) return 0;
	return kit_match_next(&x->m, s + at, x->sound - at, 0) && !x->m.from ? x->m.to : 0;
}

void kit_words_end(kit_words *x)
{
	if (x->m.data) kit_match_close(&x->m);
}

/* ---- names of bytes ---- */
/* Bytes that are visible characters of Latin-1 stand for themselves, the others, in three pieces, for the characters from U+0100 on. */
enum { FIRST = 33, SECOND = 127, SECONDS = 34, THIRD = 173, HIDDEN = FIRST + SECONDS + 1 };

static bool is_visible(int b)
{
	return b >= FIRST && (b < SECOND || b >= SECOND + SECONDS) && b != THIRD;
}

static int character(int b)
{
	if (is_visible(b)) return b;
	return 256 + (b < FIRST ? b : b == THIRD ? HIDDEN - 1 : FIRST + b - SECOND);
}

static int hidden(int i)
{
	return i < FIRST ? i : i < FIRST + SECONDS ? SECOND + i - FIRST : THIRD;
}

size_t kit_byte_name(unsigned char b, char to[3])
{
	const int c = character(b);
	if (c < 0x80) return to[0] = (char)c, 1;
	to[0] = (char)(0xc0 | c >> 6);
	to[1] = (char)(0x80 | (c & 63));
	return 2;
}

unsigned char kit_byte_at(int place)
{
	if (place >= 256 - HIDDEN) return (unsigned char)hidden(place - (256 - HIDDEN));
	int b = FIRST;
	while (place--)
		do b++;
		while (!is_visible(b));
	return (unsigned char)b;
}

int64_t kit_bytes_named(const char *s, size_t n, char *to)
{
	int64_t k = 0;
	while (n) {
		const unsigned char *v = (const unsigned char *)s;
		const bool two = n > 1 && (v[0] & 0xe0) == 0xc0;
		const int c = two ? (v[0] & 31) << 6 | (v[1] & 63) : v[0];
		if (c >= 256 + HIDDEN || (c < 256 && !is_visible(c)) || (!two && c >= 0x80)) return -1;
		to[k++] = (char)(c < 256 ? c : hidden(c - 256));
		s += two ? 2 : 1;
		n -= two ? 2 : 1;
	}
	return k;
}
