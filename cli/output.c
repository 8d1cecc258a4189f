/* SPDX-License-Identifier: MIT */
/* output: styles, messages, progress, JSON; and whether stdout took it all. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- terminals ---- */
static bool plain_terminal(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return (no && *no) || !term || !strcmp(term, "dumb");
}

static bool has_colours(int fd) { return isatty(fd) && !plain_terminal(); }

const char *cli_style_of(cli_style s)
{
	static const char *const escape[] = { [CLI_PLAIN] = "\033[0m",  [CLI_TITLE] = "\033[1m", [CLI_NAME] = "\033[36m",
		                              [CLI_TYPE] = "\033[33m",  [CLI_DIM] = "\033[2m",   [CLI_BAD] = "\033[31m" };
	static int known = -1;
	if (known < 0) known = has_colours(STDOUT_FILENO);
	return known ? escape[s] : "";
}

void cli_row(const char *name, const char *text)
{
	printf("  %s%-26s%s %s\n", cli_style_of(CLI_NAME), name, cli_style_of(CLI_PLAIN), text);
}

void cli_put_bytes(char to[32], long long bytes)
{
	static const char unit[] = "KMGT";
	double b = (double)bytes / 1024;
	int u = 0;
	for (; b >= 1024 && u < 3; u++) b /= 1024;
	if (bytes < 1024) snprintf(to, 32, "%lld bytes", bytes);
	else snprintf(to, 32, "%.*f %ciB", b < 10 && b != (double)(int)b, b, unit[u]);
}

/* ---- messages ---- */
static bool in_progress; /* a line of progress is on the terminal */

static void clear_progress(void)
{
	if (in_progress) fputs("\r\033[K", stderr);
	in_progress = false;
}

void cli_error(const char *fmt, ...)
{
	va_list ap;
	clear_progress();
	fflush(stdout); /* in the order of the program, when both go to one place */
	fputs(has_colours(STDERR_FILENO) ? "\033[31mtj:\033[0m " : "tj: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int cli_failed(tj_ctx *c)
{
	tj_check(c);
	const tj_error *e = tj_last_error(c);
	if (*e->hint) cli_error("%s: %s (%s)", e->op, e->message, e->hint);
	else cli_error("%s: %s", e->op, e->message);
	return CLI_FAILED;
}

void cli_progress(const char *fmt, ...)
{
	va_list ap;
	clear_progress();
	if (!fmt || !isatty(STDERR_FILENO) || plain_terminal()) return;
	va_start(ap, fmt);
	fputs("tj: ", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	in_progress = true;
}

/* ---- JSON ---- */
json_t *cli_string(const char *s)
{
	if (!s) return json_null();
	json_t *j = json_string(s);
	char *plain = j ? NULL : strdup(s);
	for (char *c = plain; c && *c; c++)
		if (*c & 0x80) *c = '?';
	if (plain) j = json_string(plain);
	free(plain);
	return j;
}

int cli_put_json(json_t *j)
{
	if (!j) {
		cli_error("out of memory");
		return CLI_FAILED;
	}
	json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(j);
	return CLI_OK; /* cli_finish() looks whether it was written */
}

/* ---- the end ---- */
int cli_finish(int status)
{
	errno = 0;
	clear_progress();
	if (!fflush(stdout) && !ferror(stdout)) return status;
	cli_error("what was printed could not be written: %s", errno ? strerror(errno) : "an earlier write failed");
	return CLI_FAILED;
}
