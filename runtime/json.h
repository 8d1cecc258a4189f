/* SPDX-License-Identifier: MIT */
/* json: writes JSON (RFC 8259), with commas where they belong.
 *
 *   rt_json_open(&j, NULL, '{');          {"name":"f","size":[1,2]}
 *   rt_json_str(&j, "name", "f");
 *   rt_json_open(&j, "size", '[');
 *   rt_json_int(&j, NULL, 1), rt_json_int(&j, NULL, 2);
 *   rt_json_close(&j, ']'), rt_json_close(&j, '}');
 *
 * Out of memory: j.text.oom is set, and later calls do nothing. */
#ifndef TJ_RUNTIME_JSON_H
#define TJ_RUNTIME_JSON_H

#include "runtime/base.h"

typedef struct rt_json {
	rt_text text;
	bool more; /* the array or object that is open has an element already */
} rt_json;

/* key: of a field of the open object; NULL: an element of the open array, or the whole text. bracket: '{' or '[' */
void rt_json_open(rt_json *j, const char *key, char bracket);
void rt_json_close(rt_json *j, char bracket); /* '}' or ']' */
/* Any bytes: those that are no UTF-8 become U+FFFD. '<' is written as \u003c, so that no text ends a <script>. s NULL: null. */
void rt_json_str(rt_json *j, const char *key, const char *s);
void rt_json_strn(rt_json *j, const char *key, const char *s, size_t n);
void rt_json_int(rt_json *j, const char *key, int64_t v);
void rt_json_count(rt_json *j, const char *key, uint64_t v); /* at most INT64_MAX: readers have no larger ones */
void rt_json_number(rt_json *j, const char *key, double v); /* 9 digits; null if it is not finite */
void rt_json_bool(rt_json *j, const char *key, bool v);
void rt_json_part(rt_json *j, const char *key, const rt_text *json); /* JSON that was written before */

#endif
