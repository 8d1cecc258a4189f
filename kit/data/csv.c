/* SPDX-License-Identifier: MIT */
/* csv: records of cells, after RFC 4180. The text is copied once and cut in place: each cell ends in a 0, and quotes are taken out. */
#include "kit/data/data.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

struct tj_csv {
	tj_ctx *c;
	char *path, *text;
	tj_csv_opts o;
	size_t *cell;             /* where each begins in the text, record by record; the header, if there is one, comes first */
	size_t cells, room;
	int64_t columns, rows;
	int64_t *line;            /* of each record, the header included; a cell in quotes may have newlines */
	size_t records, line_room;
	const char ***category;   /* of each column that was asked for: its texts, sorted */
	int64_t *categories;
	locale_t plain;           /* "C" */
};

/* ---- cutting ---- */
typedef struct cutter {
	tj_csv *t;
	char *from, *end, *to; /* what is left, and where the next byte of a cell goes: never behind from */
	int64_t line, column;
} cutter;

static bool grow(void **v, size_t *room, size_t n, size_t size, kit_why *w)
{
	if (n < *room) return true;
	const size_t more = *room ? 2 * *room : 64;
	void *p = realloc(*v, more * size);
	if (!p) return kit_no_memory(w);
	*v = p;
	*room = more;
	return true;
}

static bool begin_cell(cutter *x, kit_why *w)
{
	tj_csv *t = x->t;
	void *v = t->cell;
	if (!grow(&v, &t->room, t->cells, sizeof *t->cell, w)) return false;
	t->cell = v;
	t->cell[t->cells++] = (size_t)(x->to - t->text);
	return true;
}

/* Behind the first quote. */
static bool quoted(cutter *x, kit_why *w)
{
	const int64_t line = x->line;
	for (; x->from < x->end; x->from++) {
		if (*x->from == '"' && (x->from + 1 == x->end || x->from[1] != '"')) return x->from++, true;
		if (*x->from == '"') x->from++;
		x->line += *x->from == '\n';
		*x->to++ = *x->from;
	}
	return kit_no(w, TJ_ERR_PARSE, "line %lld, column %lld: a quote is not closed", (long long)line, (long long)x->column + 1);
}

static bool at_end_of_cell(const cutter *x)
{
	const char c = x->from < x->end ? *x->from : '\n';
	return c == x->t->o.separator || c == '\n' || (c == '\r' && (x->from + 1 == x->end || x->from[1] == '\n'));
}

/* *last: the record ends with this cell. */
static bool cut_cell(cutter *x, bool *last, kit_why *w)
{
	if (!begin_cell(x, w)) return false;
	if (x->from < x->end && *x->from == '"') {
		x->from++;
		if (!quoted(x, w)) return false;
		if (!at_end_of_cell(x))
			return kit_no(w, TJ_ERR_PARSE, "line %lld, column %lld: something follows the cell's last quote", (long long)x->line,
			              (long long)x->column + 1);
	} else {
		for (; !at_end_of_cell(x); *x->to++ = *x->from++)
			if (*x->from == '"')
				return kit_no(w, TJ_ERR_PARSE, "line %lld, column %lld: a quote in a cell that does not begin with one",
				              (long long)x->line, (long long)x->column + 1);
	}
	*last = x->from == x->end || *x->from != x->t->o.separator;
	if (x->from < x->end && *x->from == '\r') x->from++;
	x->from += x->from < x->end; /* the separator or the newline, whose place the 0 takes */
	*x->to++ = 0;
	x->column++;
	return true;
}

static bool cut_record(cutter *x, kit_why *w)
{
	tj_csv *t = x->t;
	void *v = t->line;
	const int64_t line = x->line;
	if (!grow(&v, &t->line_room, t->records, sizeof *t->line, w)) return false;
	t->line = v;
	t->line[t->records++] = line;
	x->column = 0;
	for (bool last = false; !last;)
		if (!cut_cell(x, &last, w)) return false;
	x->line++;
	if (t->records == 1) t->columns = x->column;
	return x->column == t->columns || kit_no(w, TJ_ERR_PARSE, "line %lld: it has %lld cells, and the first line %lld", (long long)line,
	                                         (long long)x->column, (long long)t->columns);
}

static bool cut(tj_csv *t, size_t n, kit_why *w)
{
	cutter x = { .t = t, .from = t->text, .end = t->text + n, .to = t->text, .line = 1 };
	const char *zero = memchr(t->text, 0, n);
	if (zero) return kit_no(w, TJ_ERR_PARSE, "byte %zu is 0: it is no text", (size_t)(zero - t->text));
	if (n >= 3 && !memcmp(t->text, "\xef\xbb\xbf", 3)) x.from += 3;
	while (x.from < x.end)
		if (!cut_record(&x, w)) return false;
	t->rows = (int64_t)t->records - (t->o.no_header || !t->records ? 0 : 1);
	t->category = calloc((size_t)t->columns + 1, sizeof *t->category);
	t->categories = calloc((size_t)t->columns + 1, sizeof *t->categories);
	t->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	return (t->category && t->categories && t->plain) || kit_no_memory(w);
}

static bool read_file(tj_csv *t, const char *path, kit_why *w)
{
	size_t n;
	const char s = t->o.separator;
	if (s == '"' || s == '\n' || s == '\r') return kit_no(w, TJ_ERR_ARG, "a quote or a newline cannot be the separator");
	kit_map *m = kit_map_open(path, w);
	if (!m) return false;
	const void *v = kit_map_data(m, &n);
	t->path = strdup(path);
	t->text = malloc(n + 1); /* the last record may lack its newline, whose place the last 0 takes */
	if (t->text) memcpy(t->text, v, n);
	kit_map_drop(m);
	if (!t->text || !t->path) return kit_no_memory(w);
	return cut(t, n, w);
}

tj_csv *tj_csv_open_at(const char *site, tj_ctx *c, const char *path, const tj_csv_opts *opts)
{
	KIT_OPTIONS(tj_csv_opts, o, opts, NULL)
	kit_why w = { 0 };
	tj_csv *t = calloc(1, sizeof *t);
	if (!t) return kit_no_memory(&w), kit_report(site, "csv_open", path, &w), NULL;
	t->c = c;
	t->o = o;
	if (!o.separator) t->o.separator = ',';
	if (read_file(t, path, &w)) return t;
	kit_report(site, "csv_open", path, &w);
	tj_csv_close(t);
	return NULL;
}

void tj_csv_close(tj_csv *t)
{
	if (!t) return;
	for (int64_t i = 0; t->category && i < t->columns; i++) free(t->category[i]);
	if (t->plain) freelocale(t->plain);
	free(t->category);
	free(t->categories);
	free(t->cell);
	free(t->line);
	free(t->text);
	free(t->path);
	free(t);
}

/* ---- cells ---- */
int64_t tj_csv_rows(const tj_csv *t) { return t ? t->rows : 0; }
int64_t tj_csv_columns(const tj_csv *t) { return t ? t->columns : 0; }

static int64_t first_row(const tj_csv *t) { return (int64_t)t->records - t->rows; }

static const char *cell(const tj_csv *t, int64_t row, int64_t column)
{
	return t->text + t->cell[(first_row(t) + row) * t->columns + column];
}

const char *tj_csv_name(const tj_csv *t, int64_t column)
{
	return t && column >= 0 && column < t->columns && first_row(t) ? cell(t, -1, column) : NULL;
}

int64_t tj_csv_find(const tj_csv *t, const char *name)
{
	for (int64_t i = 0; name && i < tj_csv_columns(t) && first_row(t); i++)
		if (!strcmp(cell(t, -1, i), name)) return i;
	return -1;
}

const char *tj_csv_cell(const tj_csv *t, int64_t row, int64_t column)
{
	return t && row >= 0 && row < t->rows && column >= 0 && column < t->columns ? cell(t, row, column) : NULL;
}

/* ---- numbers ---- */
typedef union number { double f; int64_t i; } number;

static bool bad_cell(const tj_csv *t, int64_t row, int64_t column, const char *what, kit_why *w)
{
	return kit_no(w, TJ_ERR_PARSE, "line %lld, column %lld: \"%.40s\" %s", (long long)t->line[first_row(t) + row], (long long)column + 1,
	              cell(t, row, column), what);
}

/* Blanks around a number are allowed. */
static bool read_number(const tj_csv *t, int64_t row, int64_t column, bool whole, number *out, kit_why *w)
{
	const char *s = cell(t, row, column);
	char *end;
	const bool empty = !s[strspn(s, " \t")];
	if (empty && !t->o.fill) return bad_cell(t, row, column, "is empty; .fill puts a value there", w);
	errno = 0;
	if (empty) out->f = NAN;
	else if (whole) out->i = strtoll_l(s, &end, 10, t->plain);
	else out->f = strtod_l(s, &end, t->plain);
	const bool range = errno == ERANGE && (whole || isinf(out->f)); /* a value below the least one is rounded */
	if (!empty && (end == s || end[strspn(end, " \t")])) return bad_cell(t, row, column, whole ? "is no whole number" : "is no number", w);
	if (!empty && range) return bad_cell(t, row, column, "is too large", w);
	const bool missing = empty || (!whole && isnan(out->f));
	if (missing && !t->o.fill) return bad_cell(t, row, column, "is no number; .fill puts a value there", w);
	if (missing && whole && !(t->o.empty >= -0x1p63 && t->o.empty < 0x1p63)) return bad_cell(t, row, column, "would be .empty, no integer", w);
	if (missing && whole) out->i = (int64_t)t->o.empty;
	else if (missing) out->f = t->o.empty;
	return true;
}

static bool bad_column(const tj_csv *t, int64_t column, kit_why *w)
{
	if (!t) return !kit_no(w, TJ_ERR_ARG, "the file is NULL");
	if (column >= 0 && column < t->columns) return false;
	return !kit_no(w, TJ_ERR_INDEX, "there is no column %lld: 0 to %lld", (long long)column, (long long)t->columns - 1);
}

static void *read_column(const tj_csv *t, int64_t column, tj_dtype dtype, kit_why *w)
{
	const size_t size = tj_dtype_size(dtype);
	char *v = malloc((size_t)t->rows * size + 1);
	bool ok = v || kit_no_memory(w);
	for (int64_t i = 0; ok && i < t->rows; i++) {
		number x;
		ok = read_number(t, i, column, dtype == TJ_I64, &x, w);
		const float f = ok && dtype == TJ_F32 ? (float)x.f : 0;
		if (ok) memcpy(v + (size_t)i * size, dtype == TJ_F32 ? (const void *)&f : &x, size);
	}
	if (ok) return v;
	free(v);
	return NULL;
}

tj_tensor *tj_csv_numbers_at(const char *site, const tj_csv *t, int64_t column, tj_dtype dtype)
{
	static const char op[] = "csv_numbers";
	kit_why w = { 0 };
	if (bad_column(t, column, &w)) return kit_report(site, op, t ? t->path : NULL, &w);
	if (dtype != TJ_F32 && dtype != TJ_F64 && dtype != TJ_I64)
		return tj_fail_at(site, TJ_ERR_DTYPE, op, NULL, "a column is read as f32, f64 or i64, not as %s", tj_dtype_name(dtype));
	void *v = read_column(t, column, dtype, &w);
	const int64_t dim[] = { t->rows, TJ_END_DIM };
	return v ? kit_give(site, t->c, dtype, dim, NULL, v) : kit_report(site, op, t->path, &w);
}

/* ---- categories ---- */
static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different texts of a column, sorted. */
static bool find_categories(tj_csv *t, int64_t column, kit_why *w)
{
	int64_t n = 0;
	if (t->category[column]) return true;
	const char **v = malloc(((size_t)t->rows + 1) * sizeof *v);
	if (!v) return kit_no_memory(w);
	for (int64_t i = 0; i < t->rows; i++) v[i] = cell(t, i, column);
	qsort(v, (size_t)t->rows, sizeof *v, by_text);
	for (int64_t i = 0; i < t->rows; i++)
		if (!n || strcmp(v[n - 1], v[i]) != 0) v[n++] = v[i];
	t->category[column] = v;
	t->categories[column] = n;
	return true;
}

tj_tensor *tj_csv_categories_at(const char *site, tj_csv *t, int64_t column)
{
	kit_why w = { 0 };
	int64_t *v = NULL;
	if (bad_column(t, column, &w) || !find_categories(t, column, &w)) return kit_report(site, "csv_categories", t ? t->path : NULL, &w);
	if (!(v = malloc((size_t)t->rows * sizeof *v + 1))) return kit_no_memory(&w), kit_report(site, "csv_categories", t->path, &w);
	for (int64_t i = 0; i < t->rows; i++) {
		const char *s = cell(t, i, column);
		const char **at = bsearch(&s, t->category[column], (size_t)t->categories[column], sizeof s, by_text);
		v[i] = at - t->category[column];
	}
	return kit_give(site, t->c, TJ_I64, (const int64_t[]){ t->rows, TJ_END_DIM }, NULL, v);
}

const char *tj_csv_category(const tj_csv *t, int64_t column, int64_t i)
{
	return t && column >= 0 && column < t->columns && i >= 0 && i < t->categories[column] ? t->category[column][i] : NULL;
}
