/* SPDX-License-Identifier: MIT */
/* show: what tj show reads from the dumps of the library. A reader takes lines while they are of its kind, and makes JSON of them; a
 * printer prints that for people. */
#ifndef TJ_CLI_SHOW_H
#define TJ_CLI_SHOW_H

#include "cli/cli.h"

/* The lines of a file; `at` is the next one. */
typedef struct show_lines { char **v; int n, at; } show_lines;
static inline char *show_look(const show_lines *l) { return l->at < l->n ? l->v[l->at] : NULL; }
static inline int show_indent(const char *line) /* blanks in front of it */
{
	int n = 0;
	while (line[n] == ' ') n++;
	return n;
}

typedef struct show_kind {
	const char *name;
	bool (*begins)(const char *line);  /* a part of this kind begins here; NULL: it is no part of a text */
	json_t *(*read)(show_lines *l);    /* moves behind the part */
	void (*print)(const json_t *part);
} show_kind;
extern const show_kind show_graph, show_kernel, show_guards, show_export, show_model;
/* showexport.c */
bool show_is_export(const char *path);
json_t *show_read_export(const char *path); /* a part; NULL: the user was told why not */
json_t *show_read_model(const char *path); /* showmodel.c; the same */

/* ---- show.c: for the printers ---- */
const char *show_string(const json_t *o, const char *key); /* "" if there is none */
/* Prints text with floats in decimal: 0x1.8p+1 is 3. */
void show_decimal(const char *text);

#endif
