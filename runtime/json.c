/* SPDX-License-Identifier: MIT */
#include "runtime/json.h"

#include <math.h>

/* ---- strings ---- */
static void put_escaped(rt_text *t, unsigned char c)
{
	static const char named[] = "\"\"\\\\\nn\tt\rr";
	for (const char *s = named; *s; s += 2)
		if ((unsigned char)*s == c) {
			rt_putf(t, "\\%c", s[1]);
			return;
		}
	rt_putf(t, "\\u%04x", c);
}

static bool is_plain(unsigned char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<'; }

static void put_string(rt_text *t, const char *s, size_t n)
{
	rt_puts(t, "\"");
	for (size_t i = 0, k; i < n; i += k) {
		for (k = 0; i + k < n && is_plain((unsigned char)s[i + k]);) k++;
		if (k) {
			rt_putn(t, s + i, k);
			continue;
		}
		k = rt_utf8(s + i, n - i);
		if (k > 1) rt_putn(t, s + i, k);
		else if (k) put_escaped(t, (unsigned char)s[i]);
		else rt_puts(t, "\\ufffd"), k = 1;
	}
	rt_puts(t, "\"");
}

/* ---- structure ---- */
static void begin(rt_json *j, const char *key)
{
	if (j->more) rt_puts(&j->text, ",");
	j->more = true;
	if (!key) return;
	put_string(&j->text, key, strlen(key));
	rt_puts(&j->text, ":");
}

void rt_json_open(rt_json *j, const char *key, char bracket)
{
	begin(j, key);
	rt_putn(&j->text, &bracket, 1);
	j->more = false;
}

void rt_json_close(rt_json *j, char bracket)
{
	rt_putn(&j->text, &bracket, 1);
	j->more = true;
}

/* ---- values ---- */
void rt_json_strn(rt_json *j, const char *key, const char *s, size_t n)
{
	begin(j, key);
	put_string(&j->text, s, n);
}

void rt_json_str(rt_json *j, const char *key, const char *s)
{
	begin(j, key);
	if (s) put_string(&j->text, s, strlen(s));
	else rt_puts(&j->text, "null");
}

void rt_json_int(rt_json *j, const char *key, int64_t v)
{
	begin(j, key);
	rt_putf(&j->text, "%lld", (long long)v);
}

void rt_json_count(rt_json *j, const char *key, uint64_t v)
{
	begin(j, key);
	rt_putf(&j->text, "%llu", (unsigned long long)(v < INT64_MAX ? v : INT64_MAX));
}

/* The program's locale may have another decimal point, of several bytes. */
void rt_json_number(rt_json *j, const char *key, double v)
{
	char digits[64];
	size_t n = 0;
	begin(j, key);
	snprintf(digits, sizeof digits, "%.9g", v);
	for (const char *s = digits; *s; s++)
		if (strchr("0123456789+-e", *s)) digits[n++] = *s;
		else if (!n || digits[n - 1] != '.') digits[n++] = '.';
	digits[n] = 0;
	rt_puts(&j->text, isfinite(v) ? digits : "null");
}

void rt_json_bool(rt_json *j, const char *key, bool v)
{
	begin(j, key);
	rt_puts(&j->text, v ? "true" : "false");
}

void rt_json_part(rt_json *j, const char *key, const rt_text *json)
{
	begin(j, key);
	if (json->oom) j->text.oom = true;
	rt_putn(&j->text, rt_str(json), json->n);
}
