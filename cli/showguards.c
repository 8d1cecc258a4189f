/* SPDX-License-Identifier: MIT */
/* showguards: guards, from a log with TJ_LOG=guards or from tj_explain():
 *
 *   guards: [f/0/0] softmax at a.c:2: attribute 0 is -1      function, trace, segment
 *
 *   trace 0: 0 calls hit it
 *     guard: argument 0 is f32[8,8] */
#include "cli/show.h"

#include <string.h>

static const char logged[] = "guards: [", explained[] = "guard: ";

static const char *of_log(const char *line) /* behind "guards: ["; NULL: it is another line */
{
	return !strncmp(line, logged, sizeof logged - 1) && strstr(line, "] ") ? line + sizeof logged - 1 : NULL;
}

static const char *of_explain(const char *line)
{
	line += show_indent(line);
	return !strncmp(line, explained, sizeof explained - 1) ? line + sizeof explained - 1 : NULL;
}

static bool begins(const char *line) { return of_log(line) || of_explain(line); }

/* What the guards of tj_explain() are of: the last line above them with less indent. */
static json_t *heading(const show_lines *l)
{
	const int indent = show_indent(l->v[l->at]);
	for (int i = l->at - 1; i >= 0; i--) {
		const char *s = l->v[i] + show_indent(l->v[i]);
		if (show_indent(l->v[i]) >= indent || !*s) continue;
		return json_stringn(s, strcspn(s, ":;,"));
	}
	return json_null();
}

static json_t *read(show_lines *l)
{
	const char *first = of_log(show_look(l));
	const size_t n = first ? strcspn(first, "]") : 0;
	json_t *of = first ? json_stringn(first, n) : heading(l), *list = json_array();
	const int indent = show_indent(show_look(l));
	for (const char *line; (line = show_look(l)) && show_indent(line) == indent; l->at++) {
		const char *s = first ? of_log(line) : of_explain(line);
		if (!s || (first && strncmp(s, first, n + 1) != 0)) break;
		json_array_append_new(list, cli_string(first ? s + n + 2 : s));
	}
	return json_pack("{s:o, s:o}", "of", of, "guards", list);
}

static void print(const json_t *part)
{
	size_t i;
	json_t *g;
	printf("%sguards%s of %s%s%s\n", cli_style_of(CLI_TITLE), cli_style_of(CLI_PLAIN), cli_style_of(CLI_NAME), show_string(part, "of"),
	       cli_style_of(CLI_PLAIN));
	json_array_foreach(json_object_get(part, "guards"), i, g) printf("  %s\n", json_string_value(g));
}

const show_kind show_guards = { "guards", begins, read, print };
