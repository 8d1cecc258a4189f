/* SPDX-License-Identifier: MIT */
/* text: files as lines. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *no(const char *path, const char *why)
{
	cli_error("%s: %s", path, why);
	return NULL;
}

/* JSON and terminals want UTF-8. */
static char *make_utf8(char *s)
{
	json_t *valid = json_string(s);
	for (char *c = s; !valid && *c; c++)
		if (*c & 0x80) *c = '?';
	json_decref(valid);
	return s;
}

/* Reads to the end; the memory grows with what was read. */
static char *read_all(FILE *f, const char *path)
{
	enum { FIRST = 1 << 16 };
	size_t n = 0, room = FIRST;
	char *s = malloc(room + 1), *more;
	while (s && (n += fread(s + n, 1, room - n, f)) == room) {
		if (!(more = realloc(s, 2 * room + 1))) break;
		s = more;
		room *= 2;
	}
	const bool failed = ferror(f);
	if (s && !failed && n < room) {
		s[n] = 0;
		if (strlen(s) == n) return make_utf8(s);
		free(s);
		return no(path, "it has bytes that are 0, so it is no text");
	}
	free(s);
	return no(path, failed ? strerror(errno) : "out of memory");
}

char *cli_read(const char *path)
{
	if (!strcmp(path, "-")) return read_all(stdin, "stdin");
	FILE *f = fopen(path, "re");
	if (!f) return no(path, strerror(errno));
	char *s = read_all(f, path);
	fclose(f);
	return s;
}

char *cli_line(char **s)
{
	char *line = *s, *end;
	if (!*line) return NULL;
	end = line + strcspn(line, "\n");
	*s = *end ? end + 1 : end;
	*end = 0;
	if (end > line && end[-1] == '\r') end[-1] = 0;
	return line;
}
