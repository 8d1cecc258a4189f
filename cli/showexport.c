/* SPDX-License-Identifier: MIT */
/* showexport: what tj show says of an exported function. The library reads the file, and runs nothing of it. */
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>

bool show_is_export(const char *path)
{
	static const char magic[] = "tjexport";
	char s[sizeof magic - 1];
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : NULL;
	const bool is = f && fread(s, 1, sizeof s, f) == sizeof s && !memcmp(s, magic, sizeof s);
	if (f) fclose(f);
	return is;
}

/* ---- as JSON ---- */
static void append(json_t *d, const char *list, json_t *item) { json_array_append_new(json_object_get(d, list), item); }

static bool add(void *env, const tj_export_part *p)
{
	json_t *d = env, *name = cli_string(p->name), *text = cli_string(p->text);
	const json_int_t count = (json_int_t)p->count, bytes = (json_int_t)p->bytes;
	if (!strcmp(p->kind, "file"))
		json_object_set_new(d, "made_by", json_pack("{s:O, s:O, s:b, s:I}", "version", name, "build", text, "this_build", count, "bytes", bytes));
	else if (!strcmp(p->kind, "function")) json_object_set_new(d, "function", json_pack("{s:O, s:I}", "name", name, "results", count));
	else if (!strcmp(p->kind, "size")) append(d, "sizes", json_pack("{s:O, s:O}", "name", name, "range", text));
	else if (!strcmp(p->kind, "argument")) append(d, "arguments", json_incref(text));
	else if (!strcmp(p->kind, "scalar")) append(d, "scalars", json_incref(text));
	else if (!strcmp(p->kind, "result")) append(d, "results", json_incref(text));
	else if (!strcmp(p->kind, "cpu")) append(d, "cpus", json_pack("{s:O, s:I, s:I}", "needs", text, "kernels", count, "bytes", bytes));
	else if (!strcmp(p->kind, "program")) json_object_set_new(d, "program", json_pack("{s:O, s:I}", "text", text, "events", count));
	else append(d, "variables", json_pack("{s:s, s:O, s:O, s:I}", "kind", p->kind, "name", name, "type", text, "bytes", bytes));
	json_decref(name);
	json_decref(text);
	return true;
}

json_t *show_read_export(const char *path)
{
	tj_ctx *c = tj_open(NULL);
	json_t *d = json_pack("{s:s, s:n, s:[], s:[], s:[], s:[], s:[], s:[]}", "kind", show_export.name, "title", "sizes", "arguments",
	                      "scalars", "results", "variables", "cpus");
	if (!c || !d) cli_error("out of memory");
	const bool ok = c && d && (tj_export_walk(c, path, add, d) == TJ_OK || cli_failed(c) == CLI_OK);
	if (c) tj_close(c);
	if (ok) return d;
	json_decref(d);
	return NULL;
}

/* ---- as text ---- */
static long long number(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void row(const char *kind, const char *name, const char *text)
{
	char left[80];
	snprintf(left, sizeof left, "%s %s", kind, name);
	cli_row(left, text);
}

static void print_rows(const json_t *d, const char *list, const char *kind)
{
	size_t i;
	json_t *e;
	json_array_foreach(json_object_get(d, list), i, e) {
		char n[24];
		snprintf(n, sizeof n, "%zu", i);
		row(kind, json_is_string(e) ? n : show_string(e, "name"), json_is_string(e) ? json_string_value(e) : show_string(e, "range"));
	}
}

static void print_bytes(const json_t *d)
{
	size_t i;
	json_t *e;
	char size[32], text[200];
	json_array_foreach(json_object_get(d, "variables"), i, e) {
		cli_put_bytes(size, number(e, "bytes"));
		snprintf(text, sizeof text, "%s, %s", show_string(e, "type"), size);
		row(show_string(e, "kind"), show_string(e, "name"), text);
	}
	json_array_foreach(json_object_get(d, "cpus"), i, e) {
		cli_put_bytes(size, number(e, "bytes"));
		snprintf(text, sizeof text, "%lld kernels, %s", number(e, "kernels"), size);
		row("code for", show_string(e, "needs"), text);
	}
	const json_t *by = json_object_get(d, "made_by");
	cli_put_bytes(size, number(by, "bytes"));
	snprintf(text, sizeof text, "%s, by tjit %s, build %s%s", size, show_string(by, "version"), show_string(by, "build"),
	         json_is_true(json_object_get(by, "this_build")) ? "" : ": another one than this, so its code is not used");
	cli_row("file", text);
}

/* What the rows do not say: numbers, events, results. */
static void print_program(const char *text)
{
	static const char *const head[] = { "program ", "function ", "symbol ", "argument ", "scalar ", "result ", "variable " };
	for (const char *end; *text; text = *end ? end + 1 : end) {
		bool in_head = false;
		end = text + strcspn(text, "\n");
		for (size_t i = 0; i < sizeof head / sizeof *head; i++) in_head = in_head || !strncmp(text, head[i], strlen(head[i]));
		char *line = in_head ? NULL : strndup(text, (size_t)(end - text));
		if (!line) continue;
		printf("  ");
		show_decimal(line);
		putchar('\n');
		free(line);
	}
}

static void print(const json_t *d)
{
	const json_t *f = json_object_get(d, "function"), *program = json_object_get(d, "program");
	printf("%sfunction %s%s\n", cli_style_of(CLI_TITLE), show_string(f, "name"), cli_style_of(CLI_PLAIN));
	print_rows(d, "sizes", "size");
	print_rows(d, "arguments", "argument");
	print_rows(d, "scalars", "scalar");
	char n[24];
	snprintf(n, sizeof n, "%lld", number(f, "results"));
	if (json_array_size(json_object_get(d, "results"))) print_rows(d, "results", "result");
	else cli_row("results", n);
	print_bytes(d);
	snprintf(n, sizeof n, "%lld", number(program, "events"));
	cli_row("events", n);
	print_program(show_string(program, "text"));
}

const show_kind show_export = { .name = "export", .print = print };
