/* SPDX-License-Identifier: MIT */
/* gen: a program of the build. Writes the text that comes from ops.def between the markers of include/tj.h (the op section) and of
 * docs/OPS.md (an entry for each op), in lines of up to 140 characters. An example that does not fit behind its macro has a line of its own
 * below it.
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
/* "1:n 0:axis ": number and name of each attribute, in the order of the parameters. */
#define NUMBERED(type, name, role, k) NUMBERED_##role(name, k)
#define NUMBERED_OPERAND(name, k)
#define NUMBERED_FITTED(name, k)
#define NUMBERED_NUMBER(name, k)
#define NUMBERED_OPERANDS(name, k)
#define NUMBERED_ATTR(name, k) #k ":" #name " "
#define NUMBERED_DTYPE NUMBERED_ATTR
#define NUMBERED_DEVICE NUMBERED_ATTR
#define NUMBERED_AXES NUMBERED_ATTR
#define NUMBERED_SIZES NUMBERED_ATTR
/* Parameters for all results but the first: where to store them. */
#define NOTHING(name, i, type, shape)
#define DECL_RESULT(name, i, type, shape) ", tj_tensor ** " #name
#define ARG_RESULT(name, i, type, shape) ", " #name
#define ONE(FIRST, NEXT)
#define TEXTS(results, class, nsrc, ...) \
	IR_EACH(DECL, __VA_ARGS__) results(NOTHING, DECL_RESULT), IR_EACH(ARG, __VA_ARGS__) results(NOTHING, ARG_RESULT), \
		"" IR_EACH(NUMBERED, __VA_ARGS__)
/* The rules and names of all results. */
#define TYPE(name, i, type, shape) #type
#define NEXT_TYPE(name, i, type, shape) ", " #type
#define NAME(name, i, type, shape) #name
#define NEXT_NAME(name, i, type, shape) ", " #name
#define SHAPE(name, i, type, shape) #shape
#define NEXT_SHAPE(name, i, type, shape) ", " #shape

typedef struct row {
	const char *name, *params, *args, *attrs, *flags, *type, *shape, *grad, *doc, *example;
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

enum { WIDTH = 140, LONGEST = 4000 };

/* Writes text in lines of up to WIDTH characters, each but the first one behind `next`. A line ends at a blank, behind `after` if that is
 * not 0, and not before a sign that begins a list in Markdown. */
static void put(FILE *f, const char *text, char after, const char *next)
{
	for (size_t lead = 0;; lead = strlen(next)) {
		const size_t n = strlen(text), room = WIDTH - lead;
		size_t cut = 0;
		for (size_t i = 1; n > room && i <= room; i++)
			if (text[i] == ' ' && (!after || text[i - 1] == after) && !(strchr("-+*#>", text[i + 1]) && strchr(" /", text[i + 2]))) cut = i;
		if (!cut) break;
		fprintf(f, "%.*s\n%s", (int)cut, text, next);
		text += cut + 1;
	}
	fprintf(f, "%s\n", text);
}

/* A prototype, without the blank after a star. */
static void prototype(FILE *f, const char *name, const char *before, const char *params)
{
	char text[LONGEST], next[80];
	int at = snprintf(text, sizeof text, "TJ_API tj_tensor *tj_%s(", name);
	snprintf(next, sizeof next, "%*s", at, "");
	char *to = text + at + snprintf(text + at, sizeof text - (size_t)at, "%s", before);
	for (const char *s = params; *s; s++)
		if (s[0] != ' ' || s == params || s[-1] != '*') *to++ = *s;
	strcpy(to, ");");
	put(f, text, ',', next);
}

static void header(FILE *f)
{
	char text[LONGEST], example[LONGEST];
	for (const row *r = rows; r < rows + ROWS; r++) {
		int n = snprintf(text, sizeof text, "/* %s", r->doc);
		if (r->first)
			n += snprintf(text + n, sizeof text - (size_t)n, ". Returns the %s; NULL for %s if not wanted", r->first, r->others + 2);
		strcpy(text + n, " */");
		fputc('\n', f);
		put(f, text, 0, " * ");
		prototype(f, r->name, "", r->params + 2);
		snprintf(text, sizeof text, "%s_at", r->name);
		prototype(f, text, "const char *site", r->params);
		n = snprintf(text, sizeof text, "#define tj_%s(%s) ", r->name, r->args + 2);
		snprintf(text + n, sizeof text - (size_t)n, "tj_%s_at(TJ_SITE%s)", r->name, r->args);
		const size_t all = strlen(text), more = (size_t)snprintf(example, sizeof example, "/* %s */", r->example);
		if (all > WIDTH) fprintf(f, "%.*s\\\n\t%s", n, text, text + n);
		else fputs(text, f);
		fputc(all + 1 + more <= WIDTH ? ' ' : '\n', f);
		put(f, example, 0, " * ");
	}
}

/* Names the attributes of a node in their order, if that is not the order of the parameters. */
static void attributes(FILE *f, const char *attrs)
{
	bool sorted = true;
	char last = 0;
	for (const char *s = attrs; *s; last = *s, s = strchr(s, ' ') + 1) sorted = sorted && last <= *s;
	for (char k = '0'; !sorted && k <= '9'; k++)
		for (const char *s = attrs; *s; s = strchr(s, ' ') + 1)
			if (*s == k) fprintf(f, "%s%.*s", k == '0' ? "; attributes " : ", ", (int)(strchr(s, ' ') - s - 2), s + 2);
}

static void page(FILE *f)
{
	char text[LONGEST];
	for (const row *r = rows; r < rows + ROWS; r++) {
		snprintf(text, sizeof text, "- **`tj_%s(%s)`**: %s", r->name, r->args + 2, r->doc);
		put(f, text, 0, "  ");
		fprintf(f, "  - dtypes %s; shape %s; gradient %s; ", r->type, r->shape, r->grad);
		fputs(strcmp(r->flags, "0") ? "flags " : "no flags", f);
		for (const char *s = strcmp(r->flags, "0") ? r->flags : ""; *s; s++) fputs(*s == '|' ? ", " : (char[]){ *s, 0 }, f);
		attributes(f, r->attrs);
		snprintf(text, sizeof text, "  - `%s`", r->example);
		fputc('\n', f);
		put(f, text, 0, "    ");
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
	bool b = update(argv[2 + check], "<!-- >>> ops -->", "<!-- <<< ops -->", page, check);
	return a && b ? 0 : 1;
}
