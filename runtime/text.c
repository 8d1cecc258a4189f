/* SPDX-License-Identifier: MIT */
/* Growable strings, floats as text, and UTF-8. */
#include "runtime/base.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

static bool room(rt_text *t, size_t more)
{
	if (t->oom) return false;
	if (t->n + more + 1 <= t->cap) return true;
	size_t cap = t->cap ? t->cap : 128;
	while (cap < t->n + more + 1) cap *= 2;
	char *s = rt_realloc(t->s, cap);
	if (!s) return !(t->oom = true);
	t->s = s;
	t->cap = cap;
	return true;
}

void rt_putn(rt_text *t, const char *s, size_t n)
{
	if (!room(t, n)) return;
	memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = 0;
}

void rt_puts(rt_text *t, const char *s) { rt_putn(t, s, strlen(s)); }

void rt_putf(rt_text *t, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n >= 0 && room(t, (size_t)n)) {
		vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
		t->n += (size_t)n;
	}
	va_end(again);
}

/* ---- floats, the same in every locale of the program ---- */
static locale_t c_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); } /* a constant of the C library; nothing is allocated */

void rt_put_float(rt_text *t, double v)
{
	if (isnan(v)) rt_puts(t, "nan");
	else if (isinf(v)) rt_puts(t, v < 0 ? "-inf" : "inf");
	else {
		locale_t c = c_locale(), was = uselocale(c);
		rt_putf(t, "%a", v);
		uselocale(was);
		freelocale(c);
	}
}

double rt_read_float(const char *s, char **end)
{
	locale_t c = c_locale();
	double v = strtod_l(s, end, c);
	freelocale(c);
	return v;
}

/* ---- UTF-8: table 3-7 of the Unicode standard ---- */
size_t rt_utf8(const char *text, size_t n)
{
	static const struct { unsigned char first, last, low, high, bytes; } form[] = {
		{ 0x00, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};
	const unsigned char *s = (const unsigned char *)text;
	for (size_t i = 0; i < RT_COUNT(form); i++) {
		if (*s < form[i].first || *s > form[i].last) continue;
		if (form[i].bytes > n || (form[i].bytes > 1 && (s[1] < form[i].low || s[1] > form[i].high))) return 0;
		for (size_t k = 2; k < form[i].bytes; k++)
			if (s[k] < 0x80 || s[k] > 0xbf) return 0;
		return form[i].bytes;
	}
	return 0;
}

void rt_text_free(rt_text *t)
{
	rt_free(t->s);
	*t = (rt_text){ 0 };
}

const char *rt_str(const rt_text *t) { return t->s ? t->s : ""; }
