/* SPDX-License-Identifier: MIT */
/* gen: a program of the build. Writes the text that comes from ops.def between the markers of include/tj.h (the op section) and
 * docs/OPS.md.
 *
 *   gen [-c] include/tj.h docs/OPS.md        -c: change nothing, fail when a file differs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/classes.def"

/* Parameters as the prototype declares them, and as the macro passes them on; each after ", ". */
#define DECL(type, name, role, k) ", " #type " " #name
#define ARG(type, name, role, k) ", " #name
/* Parameters for all results but the first: where to store them. */
#define NOTHING(name, i, type, shape)
#define DECL_RESULT(name, i, type, shape) ", tj_tensor ** " #name
#define ARG_RESULT(name, i, type, shape) ", " #name
#define ONE(FIRST, NEXT)
#define TEXTS(results, class, nsrc, ...) \
	IR_EACH(DECL, __VA_ARGS__) results(NOTHING, DECL_RESULT), IR_EACH(ARG, __VA_ARGS__) results(NOTHING, ARG_RESULT)
/* The rules and names of all results. */
#define TYPE(name, i, type, shape) #type
#define NEXT_TYPE(name, i, type, shape) ", " #type
#define NAME(name, i, type, shape) #name
#define NEXT_NAME(name, i, type, shape) ", " #name
#define SHAPE(name, i, type, shape) #shape
#define NEXT_SHAPE(name, i, type, shape) ", " #shape

typedef struct row {
	const char *name, *params, *args, *flags, *type, *shape, *grad, *doc, *example;
	const char *first, *others; /* names of several results: the first; the others, each after ", ". NULL: one result */
} row;
static const row rows[] = {
#define OP(name, cls, flags, math, type, shape, grad, doc, example) \
	{ #name, IR_CLASS_##cls(TEXTS, ONE), #flags, #type, #shape, #grad, doc, example, NULL, NULL },
#define OPS(name, cls, flags, math, results, grad, doc, example) \
	{ #name, \
	  IR_CLASS_##cls(TEXTS, results), \
	  #flags, \
	  results(TYPE, NEXT_TYPE), \
	  results(SHAPE, NEXT_SHAPE), \
	  #grad, \
	  doc, \
	  example, \
	  results(NAME, NOTHING), \
	  "" results(NOTHING, NEXT_NAME) },
#include "ir/ops.def"
#undef OP
};
enum { ROWS = sizeof rows / sizeof rows[0] };

#include <stdbool.h> /* after the table, where `bool` must stay a word and not become _Bool */

static void die(const char *what, const char *name)
{
	fprintf(stderr, "gen: %s: %s\n", name, what);
	exit(1);
}

/* Prints parameters without the blank after a star. */
static void put_params(FILE *f, const char *text)
{
	for (; *text; text++)
		if (text[0] != ' ' || text[-1] != '*') fputc(*text, f);
}

static void header(FILE *f)
{
	for (const row *r = rows; r < rows + ROWS; r++) {
		fprintf(f, "\n/* %s", r->doc);
		if (r->first) fprintf(f, ". Returns the %s; NULL for %s if not wanted", r->first, r->others + 2);
		fprintf(f, " */\n");
		fprintf(f, "TJ_API tj_tensor *tj_%s(", r->name);
		put_params(f, r->params + 2);
		fprintf(f, ");\nTJ_API tj_tensor *tj_%s_at(const char *site", r->name);
		put_params(f, r->params);
		fprintf(f, ");\n#define tj_%s(%s) tj_%s_at(TJ_SITE%s) /* %s */\n", r->name, r->args + 2, r->name, r->args, r->example);
	}
}

static void table(FILE *f)
{
	fprintf(f, "| op | call | dtypes | shape | gradient | flags | meaning | example |\n|---|---|---|---|---|---|---|---|\n");
	for (const row *r = rows; r < rows + ROWS; r++) {
		fprintf(f, "| %s | `tj_%s(%s)` | %s | %s | %s | ", r->name, r->name, r->args + 2, r->type, r->shape, r->grad);
		for (const char *s = strcmp(r->flags, "0") ? r->flags : ""; *s; s++) /* a bar would end the table cell */
			fputs(*s == '|' ? ", " : (char[]){ *s, 0 }, f);
		fputs(" | ", f);
		for (const char *s = r->doc; *s; s++) fprintf(f, *s == '|' ? "\\|" : "%c", *s);
		fprintf(f, " | `%s` |\n", r->example);
	}
}

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "rb");
	if (!f) die("cannot be read", path);
	size_t n = 0, cap = 1 << 20;
	char *s = malloc(cap);
	if (!s) die("out of memory", path);
	n = fread(s, 1, cap - 1, f);
	fclose(f);
	s[n] = 0;
	return s;
}

/* The text of a file, with the lines between the two markers replaced. */
static char *splice(const char *old, const char *path, const char *begin, const char *end,
                    void (*body)(FILE *f))
{
	const char *b = strstr(old, begin), *e = b ? strstr(b, end) : NULL;
	if (!b || !e) die("has no markers", path);
	b = strchr(b, '\n') + 1;
	char *s = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&s, &n);
	if (!f) die("out of memory", path);
	fwrite(old, 1, (size_t)(b - old), f);
	body(f);
	fputs(e, f);
	fclose(f);
	return s;
}

static bool update(const char *path, const char *begin, const char *end, void (*body)(FILE *f), bool check)
{
	char *old = slurp(path), *new = splice(old, path, begin, end, body);
	bool same = !strcmp(old, new);
	if (!same && check) fprintf(stderr, "gen: %s: differs from ir/ops.def; run `make gen`\n", path);
	if (!same && !check) {
		FILE *f = fopen(path, "wb");
		if (!f || fputs(new, f) < 0 || fclose(f)) die("cannot be written", path);
	}
	free(old);
	free(new);
	return same || !check;
}

int main(int argc, char **argv)
{
	bool check = argc > 1 && !strcmp(argv[1], "-c");
	if (argc != 3 + check) die("usage: gen [-c] tj.h OPS.md", "arguments");
	bool a = update(argv[1 + check], "/* >>> ops */", "/* <<< ops */", header, check);
	bool b = update(argv[2 + check], "<!-- >>> ops -->", "<!-- <<< ops -->", table, check);
	return a && b ? 0 : 1;
}
