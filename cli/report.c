/* SPDX-License-Identifier: MIT */
/* tj report: a page of one dump of TJ_REPORT, or of two that are compared. It needs no network and no other file.
 *
 * The dump is not made into HTML here: the page has it whole, compressed, and its scripts show it. Base64 has no character that HTML or
 * JavaScript gives a meaning, so nothing that stands in a dump can leave its place; and the scripts put strings only into text nodes.
 * What they rely on is checked before (reportcheck.c). */
#include "cli/page.h"
#include "cli/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { DUMPS = 2, MOST = 256 << 20 }; /* bytes of a dump */

/* ---- the data ---- */
static void put_base64(const unsigned char *s, size_t n, FILE *out)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		const unsigned long v = (unsigned long)s[i] << 16 | (i + 1 < n ? (unsigned long)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0);
		const char four[4] = { digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=', i + 2 < n ? digit[v & 63] : '=' };
		fwrite(four, 1, 4, out);
		if (i % 96 == 93) putc('\n', out);
	}
}

/* {"file":"run.json","dump":...}, which the caller frees; NULL: out of memory. */
static char *wrap(const char *path, const char *dump)
{
	char *name = NULL, *all = NULL;
	json_t *s = cli_string(path);
	if (s) name = json_dumps(s, JSON_ENCODE_ANY);
	json_decref(s);
	if (name && asprintf(&all, "{\"file\":%s,\"dump\":%s}", name, dump) < 0) all = NULL;
	free(name);
	return all;
}

static bool put_dump(const char *path, const char *dump, FILE *out)
{
	char *all = wrap(path, dump);
	uLongf n = all ? compressBound(strlen(all)) : 0;
	unsigned char *packed = all ? malloc(n) : NULL;
	const bool ok = packed && compress2(packed, &n, (const unsigned char *)all, strlen(all), 9) == Z_OK;
	if (ok) {
		fputs("<script type=\"text/plain\" class=\"dump\">\n", out);
		put_base64(packed, n, out);
		fputs("</script>\n", out);
	}
	free(packed);
	free(all);
	return ok;
}

/* ---- the page ---- */
static void put_part(const cli_part *p, FILE *out) { fwrite(p->text, 1, (size_t)(p->end - p->text), out); }

/* The style and the scripts; a file's name stands before it, so that a browser's console leads to it. */
static void put_sources(bool scripts, FILE *out)
{
	for (int i = 1; cli_page_part(i); i++) {
		const cli_part *p = cli_page_part(i);
		const bool script = strstr(p->file, ".js") != NULL;
		if (script != scripts) continue;
		fprintf(out, "/* ---- %s ---- */\n", p->file);
		put_part(p, out);
	}
}

/* Lines "@style", "@scripts" and "@dumps" of page.html are replaced. */
static bool put_page(char *const *path, char *const *dump, FILE *out)
{
	const cli_part *p = cli_page_part(0);
	bool ok = true;
	for (const char *s = p->text, *end; ok && s < p->end; s = end) {
		end = memchr(s, '\n', (size_t)(p->end - s));
		end = end ? end + 1 : p->end;
		if (!strncmp(s, "@style", 6)) put_sources(false, out);
		else if (!strncmp(s, "@scripts", 8)) put_sources(true, out);
		else if (strncmp(s, "@dumps", 6)) fwrite(s, 1, (size_t)(end - s), out);
		else
			for (int i = 0; ok && i < DUMPS && dump[i]; i++) ok = put_dump(path[i], dump[i], out);
	}
	return ok && !ferror(out);
}

static int write_page(char *const *path, char *const *dump, const char *to)
{
	FILE *out = strcmp(to, "-") ? fopen(to, "we") : stdout;
	if (!out) return cli_error("%s: %s", to, strerror(errno)), CLI_FAILED;
	errno = 0;
	bool ok = put_page(path, dump, out);
	if (out != stdout && fclose(out)) ok = false;
	if (ok || out == stdout) return ok ? CLI_OK : (cli_error("out of memory"), CLI_FAILED);
	cli_error("%s: %s", to, errno ? strerror(errno) : "out of memory");
	remove(to);
	return CLI_FAILED;
}

/* ---- the command ---- */
static char *read_dump(const char *path)
{
	struct stat st;
	if (strcmp(path, "-") && !stat(path, &st) && st.st_size > MOST) {
		cli_error("%s: it has more than %d MiB, so it is no dump of TJ_REPORT", path, MOST >> 20);
		return NULL;
	}
	char *s = cli_read(path);
	if (s && report_is_whole(path, s)) return s;
	free(s);
	return NULL;
}

static int make(char *const *path, const char *to, bool json)
{
	char *dump[DUMPS] = { NULL }, size[32];
	int status = CLI_OK;
	struct stat st = { 0 };
	for (int i = 0; status == CLI_OK && i < DUMPS && path[i]; i++)
		if (!(dump[i] = read_dump(path[i]))) status = CLI_FAILED;
	if (status == CLI_OK) status = write_page(path, dump, to);
	for (int i = 0; i < DUMPS; i++) free(dump[i]);
	if (status != CLI_OK || !strcmp(to, "-")) return status;
	stat(to, &st);
	if (json) return cli_put_json(json_pack("{s:o, s:I}", "path", cli_string(to), "bytes", (json_int_t)st.st_size));
	cli_put_bytes(size, (long long)st.st_size);
	printf("%s: %s\n", to, size);
	return CLI_OK;
}

/* "run.json" gives "run.html". The caller frees it. */
static char *html_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
	char *s = NULL;
	if (!strcmp(path, "-")) return strdup("report.html");
	return asprintf(&s, "%.*s.html", dot && dot > path ? (int)(dot - path) : (int)strlen(path), path) < 0 ? NULL : s;
}

static int run(cli_words *w)
{
	enum { OUTPUT, JSON };
	char *path[DUMPS + 1] = { NULL };
	const char *to = NULL;
	int n = 0;
	bool json = false;
	for (int k; (k = cli_next(w)) != CLI_END;) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k == JSON) json = true;
		else if (k == OUTPUT) to = w->value;
		else if (n == DUMPS) return cli_error("report takes one dump, or two that are compared: tj help report"), CLI_USAGE;
		else path[n++] = (char *)(uintptr_t)w->value;
	}
	if (!n) return cli_error("report needs a dump of TJ_REPORT: tj help report"), CLI_USAGE;
	char *own = to ? NULL : html_of(path[0]);
	const int status = to || own ? make(path, to ? to : own, json) : CLI_FAILED;
	free(own);
	return status;
}

const cli_command cli_report = {
	.name = "report",
	.words = "DUMP [DUMP]",
	.line = "makes a page of a dump of TJ_REPORT: functions, guards, graphs, kernels, memory; or compares two",
	.help = "DUMP is a file that TJ_REPORT=file or tj_report() wrote, or -: stdin. The page is one file of HTML, which needs no network. Of\n"
		"two dumps the page says what changed from the first one to the second: functions, recompiles, kernels, times. A dump that is\n"
		"damaged, or of a later version, is refused.",
	.option = (const cli_option[]){ { 'o', "output", "FILE", "the page; -: stdout. Default: the DUMP's name with .html" },
	                                { 0, "json", NULL, "print JSON" },
	                                { 0 } },
	.run = run,
};
