/* Build-time: writes what people read of ops.def between markers: the op section of include/tj.h and
 * docs/OPS.md.
 *
 *   gen [-c] include/tj.h docs/OPS.md        -c: change nothing, fail when a file differs
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
	const char *name, *cls, *flags, *type, *shape, *doc;
} row;
static const row rows[] = {
#define OP(name, cls, flags, math, type, shape, doc) { #name, #cls, #flags, #type, #shape, doc },
#include "ir/ops.def"
#undef OP
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Parameters as declared and as the macro passes them on. */
static const struct class {
	const char *name, *params, *args;
} classes[] = {
	{ "UNARY", "tj_tensor *x", "x" },
	{ "BINARY", "tj_tensor *a, tj_tensor *b", "a, b" },
	{ "TERNARY", "tj_tensor *a, tj_tensor *b, tj_tensor *c", "a, b, c" },
	{ "CAST", "tj_tensor *x, tj_dtype dtype", "x, dtype" },
	{ "SHAPE", "tj_tensor *x, tj_dims shape", "x, shape" },
	{ "AXES", "tj_tensor *x, tj_dims axes", "x, axes" },
	{ "AXIS", "tj_tensor *x, int axis", "x, axis" },
	{ "AXIS2", "tj_tensor *x, int a, int b", "x, a, b" },
	{ "SLICE", "tj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step",
	  "x, axis, start, stop, step" },
	{ "LIST", "tj_list list, int axis", "list, axis" },
	{ "REDUCE", "tj_tensor *x, tj_dims axes, bool keepdim", "x, axes, keepdim" },
	{ "ARG", "tj_tensor *x, int64_t axis, bool keepdim", "x, axis, keepdim" },
	{ "VAR", "tj_tensor *x, tj_dims axes, int correction, bool keepdim", "x, axes, correction, keepdim" },
	{ "INDEX", "tj_tensor *x, int axis, tj_tensor *index", "x, axis, index" },
	{ "SCATTER", "tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src", "x, axis, index, src" },
	{ "COUNT", "tj_tensor *index, int64_t n", "index, n" },
	{ "FULL", "tj_dtype dtype, tj_dims shape, tj_tensor *value", "dtype, shape, value" },
	{ "ARANGE", "tj_dtype dtype, int64_t start, int64_t stop, int64_t step", "dtype, start, stop, step" },
	{ "EYE", "tj_dtype dtype, int64_t n, int64_t m", "dtype, n, m" },
	{ "RANDOM", "tj_dtype dtype, tj_dims shape", "dtype, shape" },
	{ "NORM3", "tj_tensor *x, tj_tensor *weight, tj_tensor *bias, double eps", "x, weight, bias, eps" },
	{ "NORM2", "tj_tensor *x, tj_tensor *weight, double eps", "x, weight, eps" },
};

static void die(const char *what, const char *name)
{
	fprintf(stderr, "gen: %s: %s\n", name, what);
	exit(1);
}

static const struct class *class_of(const row *r)
{
	for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
		if (!strcmp(classes[i].name, r->cls)) return &classes[i];
	die("a class that gen.c does not know", r->name);
	return NULL;
}

static void header(FILE *f)
{
	for (const row *r = rows; r < rows + ROWS; r++) {
		const struct class *c = class_of(r);
		fprintf(f, "\n/* %s */\n", r->doc);
		fprintf(f, "TJ_API tj_tensor *tj_%s(%s);\n", r->name, c->params);
		fprintf(f, "TJ_API tj_tensor *tj_%s_at(const char *site, %s);\n", r->name, c->params);
		fprintf(f, "#define tj_%s(%s) tj_%s_at(TJ_SITE, %s)\n", r->name, c->args, r->name, c->args);
	}
}

static void table(FILE *f)
{
	fprintf(f, "| op | call | dtypes | shape | flags | meaning |\n|---|---|---|---|---|---|\n");
	for (const row *r = rows; r < rows + ROWS; r++) {
		fprintf(f, "| %s | `tj_%s(%s)` | %s | %s | ", r->name, r->name, class_of(r)->args, r->type, r->shape);
		for (const char *s = strcmp(r->flags, "0") ? r->flags : ""; *s; s++) /* a bar would end the cell */
			fputs(*s == '|' ? ", " : (char[]){ *s, 0 }, f);
		fputs(" | ", f);
		for (const char *s = r->doc; *s; s++) fprintf(f, *s == '|' ? "\\|" : "%c", *s);
		fprintf(f, " |\n");
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

/* The file with what lies between the lines of the two markers replaced. */
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
