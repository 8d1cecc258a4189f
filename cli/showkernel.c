/* SPDX-License-Identifier: MIT */
/* showkernel: kernels, as TJ_DUMP_KERNELS prints them:
 *
 *   kernel tj_f_k0
 *     schedule cpu vec=d block=8 ns=0x1.06p+2      lines with a key each: schedule, keep, buf, dim, red, fault, ...
 *     point                                        a word alone: a section; its instructions are indented
 *       %0 = load f32 b0 [0 + 1*d0] */
#include "cli/show.h"

#include <string.h>

static bool begins(const char *line) { return !strncmp(line, "kernel ", 7); }

static void read_line(json_t *k, const char *line, json_t **section)
{
	json_t *list;
	char key[32];
	const size_t n = strcspn(line, " ");
	if (!line[n]) { /* a section begins */
		list = json_array();
		json_array_append_new(json_object_get(k, "sections"), json_pack("{s:o, s:o}", "name", cli_string(line), "lines", list));
		*section = list;
		return;
	}
	snprintf(key, sizeof key, "%.*s", (int)n, line);
	if (!(list = json_object_get(k, key))) json_object_set_new(k, key, list = json_array());
	json_array_append_new(list, cli_string(line + n + 1));
}

static json_t *read(show_lines *l)
{
	json_t *k = json_pack("{s:o, s:[]}", "name", cli_string(l->v[l->at++] + 7), "sections"), *section = NULL;
	for (char *line; (line = show_look(l)) && show_indent(line); l->at++) {
		const int indent = show_indent(line);
		if (indent > 2 && section) json_array_append_new(section, cli_string(line + indent));
		else read_line(k, line + indent, &section);
	}
	return k;
}

/* ---- text ---- */
/* "[0 + 8*d0 + 1*r]" as "[8*d0 + r]". Returns what follows. */
static const char *print_index(const char *s)
{
	putchar(*s++);
	if (!strncmp(s, "0 + ", 4)) s += 4;
	for (; *s && *s != ']'; s++)
		if (s[0] == '1' && s[1] == '*' && (s[-1] == ' ' || s[-1] == '[')) s++;
		else putchar(*s);
	return s;
}

/* `%2 = add f32 %0 %1`: names, the operator, its type, the rest */
static void print_instruction(const char *s)
{
	const char *is = strstr(s, " = ");
	const size_t name = *s == '%' && is ? (size_t)(is - s) : 0;
	printf("    %s%*.*s%s%s", cli_style_of(CLI_NAME), 5, (int)name, s, cli_style_of(CLI_PLAIN), name ? " = " : "   ");
	if (name) s = is + 3;
	const size_t op = strcspn(s, " ");
	printf("%s%.*s%s", cli_style_of(CLI_TITLE), (int)op, s, cli_style_of(CLI_PLAIN));
	const char *index = strchr(s += op, '[');
	if (!index) show_decimal(s);
	else {
		printf("%.*s", (int)(index - s), s);
		show_decimal(print_index(index));
	}
	putchar('\n');
}

static void print_key(const char *key, const json_t *list)
{
	size_t i;
	json_t *v;
	if (!json_is_array(list) || !strcmp(key, "sections")) return;
	if (!strcmp(key, "dim")) printf("  %-9s", "dims");
	json_array_foreach(list, i, v) {
		if (strcmp(key, "dim")) printf("  %-9s", key);
		putchar(' ');
		show_decimal(json_string_value(v));
		if (strcmp(key, "dim")) putchar('\n');
	}
	if (!strcmp(key, "dim")) putchar('\n');
}

static void print(const json_t *k)
{
	size_t i, j;
	const char *key;
	json_t *v, *line;
	printf("%skernel%s %s%s%s\n", cli_style_of(CLI_TITLE), cli_style_of(CLI_PLAIN), cli_style_of(CLI_NAME), show_string(k, "name"),
	       cli_style_of(CLI_PLAIN));
	json_object_foreach((json_t *)(uintptr_t)k, key, v) print_key(key, v);
	json_array_foreach(json_object_get(k, "sections"), i, v) {
		printf("  %s%s%s\n", cli_style_of(CLI_TYPE), show_string(v, "name"), cli_style_of(CLI_PLAIN));
		json_array_foreach(json_object_get(v, "lines"), j, line) print_instruction(json_string_value(line));
	}
}

const show_kind show_kernel = { "kernel", begins, read, print };
