/* SPDX-License-Identifier: MIT */
/* showgraph: graphs, as TJ_DUMP_GRAPH prints them:
 *
 *   %4 = sum f32[4] %0 keepdim=0 axes=1  # a.c:9
 *   %6 = cond %7 %0                                then its regions: "  true:", a graph, ...
 *   ret %4 */
#include "cli/show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *after_name(const char *line) /* behind "%12"; NULL: there is none */
{
	if (line[0] != '%' || !isdigit((unsigned char)line[1])) return NULL;
	return line + 1 + strspn(line + 1, "0123456789");
}

static bool is_node(const char *line)
{
	const char *s = after_name(line);
	return s && !strncmp(s, " = ", 3);
}

static bool begins(const char *line) { return is_node(line); }

static json_t *take_word(char **s)
{
	char *w = *s + show_indent(*s);
	const size_t n = strcspn(w, " ");
	*s = w + n;
	return json_stringn(w, n);
}

/* "f32[4,8]", "f32[]@cuda:0", "f64" */
static bool is_type(const char *w)
{
	for (int t = 0; t < TJ_DTYPE_COUNT; t++) {
		const size_t n = strlen(tj_dtype_name((tj_dtype)t));
		if (!strncmp(w, tj_dtype_name((tj_dtype)t), n) && strchr("[ @", w[n])) return true;
	}
	return false;
}

/* The line without "%4 = ". Its site is cut off. */
static json_t *read_node(const char *name, char *s)
{
	json_t *n = json_object(), *args = json_array(), *attrs = json_object();
	char *site = strstr(s, "  # ");
	if (site) *site = 0;
	json_object_set_new(n, "name", json_stringn(name, (size_t)(after_name(name) - name)));
	json_object_set_new(n, "op", take_word(&s));
	s += show_indent(s);
	json_object_set_new(n, "type", is_type(s) ? take_word(&s) : json_null());
	json_object_set_new(n, "args", args);
	json_object_set_new(n, "attributes", attrs);
	while (*(s += show_indent(s))) {
		const size_t size = strcspn(s, " "), name_size = strcspn(s, "= ");
		if (*s == '%') json_array_append_new(args, json_stringn(s, size));
		else if (name_size < size) json_object_setn_new(attrs, s, name_size, json_stringn(s + name_size + 1, size - name_size - 1));
		else json_object_set_new(n, "value", json_stringn(s, size));
		s += size;
	}
	json_object_set_new(n, "site", site ? cli_string(site + 4) : json_null());
	return n;
}

static json_t *read_graph(show_lines *l, int indent, int depth);

/* "  cond:", then a graph */
static void read_regions(show_lines *l, json_t *node, int indent, int depth)
{
	enum { DEEPEST = 64 };
	json_t *regions = NULL;
	for (char *line; (line = show_look(l)) && show_indent(line) == indent + 2 && depth < DEEPEST;) {
		const size_t n = strlen(line += indent + 2);
		if (n < 2 || line[n - 1] != ':' || *line == '%') break;
		if (!regions) json_object_set_new(node, "regions", regions = json_object());
		l->at++;
		json_object_setn_new(regions, line, n - 1, read_graph(l, indent + 4, depth + 1));
	}
}

static json_t *read_graph(show_lines *l, int indent, int depth)
{
	json_t *nodes = json_array(), *outputs = json_array();
	for (char *line; (line = show_look(l)) && show_indent(line) == indent;) {
		line += indent;
		if (!strcmp(line, "ret") || !strncmp(line, "ret ", 4)) {
			l->at++;
			for (line += 3; *(line += show_indent(line)); line += strcspn(line, " "))
				json_array_append_new(outputs, json_stringn(line, strcspn(line, " ")));
			break;
		}
		if (!is_node(line)) break;
		l->at++;
		json_t *n = read_node(line, (char *)(uintptr_t)after_name(line) + 3);
		json_array_append_new(nodes, n);
		read_regions(l, n, indent, depth);
	}
	return json_pack("{s:o, s:o}", "nodes", nodes, "outputs", outputs);
}

static json_t *read(show_lines *l) { return read_graph(l, 0, 0); }

/* ---- text ---- */
typedef struct widths { int name, type, op; } widths;

static void widen(int *w, const char *s)
{
	if ((int)strlen(s) > *w) *w = (int)strlen(s);
}

static widths widths_of(const json_t *nodes)
{
	widths w = { 0 };
	size_t i;
	json_t *n;
	json_array_foreach(nodes, i, n) {
		widen(&w.name, show_string(n, "name"));
		widen(&w.type, show_string(n, "type"));
		widen(&w.op, show_string(n, "op"));
	}
	return w;
}

static void print_value(const char *v)
{
	enum { MOST = 60 };
	char cut[MOST + 1];
	size_t n = strlen(v);
	if (!n) return;
	if (n > MOST) /* up to a comma */
		for (n = MOST; n && v[n - 1] != ',';) n--;
	snprintf(cut, sizeof cut, "%.*s", n ? (int)n : MOST, v);
	putchar(' ');
	show_decimal(cut);
	if (strlen(v) > strlen(cut)) fputs(" ...", stdout);
}

static void print_names(const json_t *names)
{
	size_t i;
	json_t *v;
	json_array_foreach(names, i, v) printf(" %s%s%s", cli_style_of(CLI_NAME), json_string_value(v), cli_style_of(CLI_PLAIN));
}

static void print_node(const json_t *n, const widths *w, int indent, const char **site)
{
	const char *key, *here = show_string(n, "site");
	json_t *v;
	printf("%*s%s%*s%s  %s%-*s%s  %s%-*s%s", indent, "", cli_style_of(CLI_NAME), w->name, show_string(n, "name"), cli_style_of(CLI_PLAIN),
	       cli_style_of(CLI_TYPE), w->type, show_string(n, "type"), cli_style_of(CLI_PLAIN), cli_style_of(CLI_TITLE), w->op,
	       show_string(n, "op"), cli_style_of(CLI_PLAIN));
	print_names(json_object_get(n, "args"));
	print_value(show_string(n, "value"));
	json_object_foreach(json_object_get(n, "attributes"), key, v) {
		printf(" %s=", key);
		show_decimal(json_string_value(v));
	}
	if (*here && strcmp(here, *site)) printf("  %s# %s%s", cli_style_of(CLI_DIM), *site = here, cli_style_of(CLI_PLAIN));
	putchar('\n');
}

static void print_graph(const json_t *g, int indent, const char **site)
{
	const widths w = widths_of(json_object_get(g, "nodes"));
	size_t i;
	const char *name;
	json_t *n, *region;
	json_array_foreach(json_object_get(g, "nodes"), i, n) {
		print_node(n, &w, indent, site);
		json_object_foreach(json_object_get(n, "regions"), name, region) {
			printf("%*s%s%s:%s\n", indent + 4, "", cli_style_of(CLI_TITLE), name, cli_style_of(CLI_PLAIN));
			print_graph(region, indent + 6, site);
		}
	}
	printf("%*sret", indent, "");
	print_names(json_object_get(g, "outputs"));
	putchar('\n');
}

static void print(const json_t *part) { print_graph(part, 2, &(const char *){ "" }); }

const show_kind show_graph = { "graph", begins, read, print };
