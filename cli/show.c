/* SPDX-License-Identifier: MIT */
/* tj show: dumps of the library, for people or as JSON. */
#include "cli/show.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const show_kind *const kinds[] = { &show_graph, &show_kernel, &show_guards, &show_export, &show_model, NULL };

/* ---- for the printers ---- */
const char *show_string(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static bool begins_number(const char *text, const char *s)
{
	const char before = s > text ? s[-1] : ' ';
	return s[0] == '0' && s[1] == 'x' && (strchr(" ,{-=(", before) || before == '[') && strcspn(s, "p") < strcspn(s, " ,}])");
}

void show_decimal(const char *text)
{
	for (const char *s = text; *s;) {
		char *end = NULL;
		if (begins_number(text, s)) {
			const double v = strtod(s, &end);
			printf("%.*g", (double)(float)v == v ? 9 : 17, v);
			s = end;
		} else putchar(*s++);
	}
}

/* ---- parts of a file ---- */
static const show_kind *kind_of(const char *line)
{
	for (int i = 0; kinds[i]; i++)
		if (kinds[i]->begins && kinds[i]->begins(line)) return kinds[i];
	return NULL;
}

static bool add_line(show_lines *l, char *line)
{
	if (!(l->n & (l->n - 1))) { /* a power of two: twice the room */
		char **more = realloc(l->v, (size_t)(l->n ? 2 * l->n : 1) * sizeof *more);
		if (!more) return false;
		l->v = more;
	}
	l->v[l->n++] = line;
	return true;
}

/* "graph: [f/0/0] %0 = ..." of a log becomes the title "#f/0/0", where it changes, and the rest. */
static bool split(char *text, show_lines *l)
{
	const char *where = "";
	bool ok = true;
	*l = (show_lines){ 0 };
	for (char *line; ok && (line = cli_line(&text));) {
		const int skip = !strncmp(line, "graph: [", 8) ? 7 : !strncmp(line, "kernels: [", 10) ? 9 : 0;
		char *end = skip ? strstr(line + skip, "] ") : NULL;
		if (end) {
			line[skip] = '#';
			*end = 0;
			if (strcmp(where, line + skip)) ok = add_line(l, line + skip);
			where = line + skip;
			line = end + 2;
		}
		ok = ok && add_line(l, line);
	}
	return ok;
}

/* A comment is the title of the part behind it. Lines of no kind are left out. */
static json_t *parts_of(show_lines *l)
{
	json_t *all = json_array();
	const char *title = NULL;
	for (char *line; (line = show_look(l));) {
		const show_kind *k = kind_of(line);
		if (!k) {
			title = line[0] == '#' ? line + 1 + show_indent(line + 1) : NULL;
			l->at++;
			continue;
		}
		json_t *part = k->read(l);
		json_object_set_new(part, "kind", json_string(k->name));
		json_object_set_new(part, "title", cli_string(title));
		json_array_append_new(all, part);
		title = NULL;
	}
	return all;
}

static void add_parts(json_t *files, const char *path, json_t *parts)
{
	json_array_append_new(files, json_pack("{s:o, s:o}", "file", cli_string(path), "parts", parts));
}

static int add_whole(json_t *files, const char *path, json_t *part)
{
	if (!part) return CLI_FAILED;
	add_parts(files, path, json_pack("[o]", part));
	return CLI_OK;
}

static int add_file(json_t *files, const char *path)
{
	if (show_is_export(path)) return add_whole(files, path, show_read_export(path));
	if (cli_is_model(path)) return add_whole(files, path, show_read_model(path));
	char *text = cli_read(path);
	show_lines l;
	if (!text) return CLI_FAILED;
	if (!split(text, &l)) return free(l.v), free(text), cli_error("out of memory"), CLI_FAILED;
	json_t *parts = parts_of(&l);
	const bool any = json_array_size(parts) > 0;
	add_parts(files, path, parts);
	free(l.v);
	free(text);
	if (any) return CLI_OK;
	cli_error("%s: it has no graph, kernel or guard as the library dumps them", path);
	return CLI_FAILED;
}

/* ---- folders that TJ_DUMP makes ---- */
static bool is_folder(const char *path)
{
	struct stat s;
	return strcmp(path, "-") && !stat(path, &s) && S_ISDIR(s.st_mode);
}

static int add_compile(json_t *files, const char *folder)
{
	static const char *const names[] = { "graph.tj", "kernels.txt" };
	int status = CLI_OK;
	for (size_t i = 0; i < sizeof names / sizeof *names && status == CLI_OK; i++) {
		char *path = NULL;
		struct stat s;
		if (asprintf(&path, "%s/%s", folder, names[i]) < 0) return CLI_FAILED;
		if (!stat(path, &s)) status = add_file(files, path);
		free(path);
	}
	return status;
}

static int is_numbered(const struct dirent *d) { return strspn(d->d_name, "0123456789") >= 4; }

static int add_folder(json_t *files, const char *folder)
{
	struct dirent **d = NULL;
	const int n = scandir(folder, &d, is_numbered, alphasort);
	int status = n > 0 ? CLI_OK : add_compile(files, folder);
	for (int i = 0; i < n; i++) {
		char *path = NULL;
		if (status == CLI_OK && asprintf(&path, "%s/%s", folder, d[i]->d_name) >= 0) status = add_compile(files, path);
		free(path);
		free(d[i]);
	}
	free(d);
	if (status != CLI_OK || json_array_size(files)) return status;
	cli_error("%s: it has no dumps; TJ_DUMP=folder makes them", folder);
	return CLI_FAILED;
}

/* ---- the command ---- */
static void print_files(const json_t *files)
{
	size_t i, k;
	json_t *f, *part;
	bool any = false;
	json_array_foreach(files, i, f) {
		if (json_array_size(files) > 1)
			printf("%s%s%s%s\n", any ? "\n" : "", cli_style_of(CLI_TITLE), show_string(f, "file"), cli_style_of(CLI_PLAIN));
		json_array_foreach(json_object_get(f, "parts"), k, part) {
			const char *title = show_string(part, "title");
			if (k) putchar('\n');
			if (*title) printf("%s# %s%s\n", cli_style_of(CLI_DIM), title, cli_style_of(CLI_PLAIN));
			for (int j = 0; kinds[j]; j++)
				if (!strcmp(kinds[j]->name, show_string(part, "kind"))) kinds[j]->print(part);
			any = true;
		}
	}
}

static int run(cli_words *w)
{
	json_t *files = json_array();
	bool json = false, any = false;
	int status = CLI_OK;
	for (int k; status == CLI_OK && (k = cli_next(w)) != CLI_END;) {
		if (k == CLI_WRONG) status = CLI_USAGE;
		else if (k != CLI_WORD) json = true;
		else {
			any = true;
			status = is_folder(w->value) ? add_folder(files, w->value) : add_file(files, w->value);
		}
	}
	if (status == CLI_OK && !any) {
		cli_error("show needs a FILE: tj help show");
		status = CLI_USAGE;
	}
	if (status == CLI_OK && json) return cli_put_json(files);
	if (status == CLI_OK) print_files(files);
	json_decref(files);
	return status;
}

const cli_command cli_show = {
	.name = "show",
	.words = "FILE...",
	.line = "prints dumps of graphs, kernels and guards for people, and what is in an exported function or an ONNX model",
	.help = "FILE is what tj_dump() or tj_explain() printed, a log with TJ_LOG=graph,kernels,guards, a folder that TJ_DUMP=folder made, or\n"
		"-: stdin. Numbers are decimal, while dumps have them in hex; operators stand in columns. Lines of other kinds are left out. Of a\n"
		"FILE that tj_export() wrote, or of an ONNX model, *.onnx, it prints what the function takes and has; nothing of it is run. Of a model\n"
		"that tjit does not support it lists all reasons, and the exit code is 1.",
	.option = (const cli_option[]){ { 0, "json", NULL, "print JSON" }, { 0 } },
	.run = run,
};
