/* SPDX-License-Identifier: MIT */
/* pattern: regular expressions over UTF-8 with Unicode's classes. libpcre2-8.so.0 is opened when one is first needed. */
#include "kit/data/tokenizer.h"

#include <dlfcn.h>
#include <stdlib.h>

/* As pcre2.h has them. */
enum { UTF = 0x00080000, UCP = 0x00020000, NEVER_BACKSLASH_C = 0x00100000, NO_UTF_CHECK = 0x40000000, NOT_EMPTY = 4, NO_MATCH = -1,
       JIT_COMPLETE = 1 };
typedef struct functions {
	void *(*compile)(const unsigned char *pattern, size_t n, uint32_t options, int *error, size_t *at, void *context);
	int (*match)(const void *code, const unsigned char *s, size_t n, size_t at, uint32_t options, void *data, void *context);
	void *(*data)(const void *code, void *context);
	void (*free_data)(void *data);
	size_t *(*offsets)(void *data);
	void (*free_code)(void *code);
	int (*message)(int error, unsigned char *to, size_t room);
	int (*jit)(void *code, uint32_t options);
} functions;

struct kit_pattern {
	void *so, *code;
	functions f;
};

/* \w is what Oniguruma takes it for; PCRE2 10.42 leaves marks out. A text for the compiler. */
static void translate(const char *s, size_t n, kit_chars *to)
{
	static const char word[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
	bool in_class = false;
	for (size_t i = 0; i < n; i++) {
		const bool escape = s[i] == '\\' && i + 1 < n;
		if (escape && (s[i + 1] == 'w' || (s[i + 1] == 'W' && !in_class))) {
			if (!in_class) kit_chars_put(to, s[i + 1] == 'w' ? "[" : "[^", s[i + 1] == 'w' ? 1 : 2);
			kit_chars_put(to, word, sizeof word - 1);
			if (!in_class) kit_chars_put(to, "]", 1);
		} else {
			kit_chars_put(to, s + i, escape ? 2 : 1);
			if (s[i] == '[' || s[i] == ']') in_class = s[i] == '[';
		}
		i += escape;
	}
}

kit_pattern *kit_pattern_open(const char *pattern, size_t n, kit_why *w)
{
	static const char *const names[] = { "pcre2_compile_8",         "pcre2_match_8",
		                             "pcre2_match_data_create_from_pattern_8", "pcre2_match_data_free_8",
		                             "pcre2_get_ovector_pointer_8", "pcre2_code_free_8",
		                             "pcre2_get_error_message_8",   "pcre2_jit_compile_8",
		                             NULL };
	int error;
	size_t at;
	unsigned char text[120] = { 0 };
	kit_pattern *p = calloc(1, sizeof *p);
	if (!p) return kit_no_memory(w), NULL;
	p->so = kit_library("libpcre2-8.so.0", "libpcre2-8-0", names, &p->f, w);
	kit_chars t = { 0 };
	translate(pattern, n, &t);
	if (p->so && t.failed) kit_no_memory(w);
	else if (p->so) p->code = p->f.compile((const unsigned char *)(t.s ? t.s : ""), t.n, UTF | UCP | NEVER_BACKSLASH_C, &error, &at, NULL);
	const bool memory = !t.failed;
	free(t.s);
	if (p->code) return p->f.jit(p->code, JIT_COMPLETE), p; /* without it, it is slower */
	if (p->so && memory) {
		p->f.message(error, text, sizeof text);
		kit_no(w, TJ_ERR_PARSE, "the pattern %.100s: at byte %zu: %s", pattern, at, (const char *)text);
	}
	kit_pattern_close(p);
	return NULL;
}

void kit_pattern_close(kit_pattern *p)
{
	if (!p) return;
	if (p->code) p->f.free_code(p->code);
	if (p->so) dlclose(p->so);
	free(p);
}

bool kit_match_open(kit_match *m, const kit_pattern *p)
{
	*m = (kit_match){ .p = p, .data = p->f.data(p->code, NULL) };
	return m->data;
}

void kit_match_close(kit_match *m)
{
	if (m->data) m->p->f.free_data(m->data);
}

bool kit_match_next(kit_match *m, const char *s, size_t n, size_t at)
{
	const int r = m->p->f.match(m->p->code, (const unsigned char *)s, n, at, NO_UTF_CHECK | NOT_EMPTY, m->data, NULL);
	if (r < 0 && r != NO_MATCH) m->failed = true;
	if (r < 0) return false;
	const size_t *o = m->p->f.offsets(m->data);
	m->from = o[0];
	m->to = o[1];
	if (m->to > m->from && m->from >= at) return true;
	m->failed = true; /* \K before the begin */
	return false;
}
