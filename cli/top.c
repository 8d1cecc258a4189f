/* SPDX-License-Identifier: MIT */
/* tj top: watches a process with TJ_LIVE=1. */
#include "cli/cli.h"
#include "cli/live.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ANSWER = 1000000000,   /* ns until a process is said not to answer */
	MOST_PROCESS = 4194304 /* the largest number that Linux gives one */
};

/* ---- numbers ---- */
static long long int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }
static const char *text_of(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

/* "12.3k" */
static void put_short(char to[16], double n)
{
	static const char unit[] = " kMGTP";
	int u = 0;
	for (; n >= 999.5 && u < 5; u++) n /= 1000;
	snprintf(to, 16, u && n < 99.95 ? "%.1f%.*s" : "%.0f%.*s", n, u ? 1 : 0, &unit[u]);
}

/* Names are another process's: nothing in them may move the cursor. */
static void put_name(const char *s, int width)
{
	int n = 0;
	for (const unsigned char *p = (const unsigned char *)s; *p && n < width; n++) {
		size_t bytes = 1;
		while (p[0] >= 0xc0 && (p[bytes] & 0xc0) == 0x80) bytes++;
		if (*p < ' ' || *p == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0)) putchar('?');
		else fwrite(p, 1, bytes, stdout);
		p += bytes;
	}
	for (; n < width; n++) putchar(' ');
}

/* ---- two moments ---- */
static const json_t *same_function(const json_t *all, const json_t *f)
{
	size_t i;
	const json_t *x;
	json_array_foreach(json_object_get(all, "functions"), i, x)
		if (!strcmp(text_of(x, "name"), text_of(f, "name")) && !strcmp(text_of(x, "site"), text_of(f, "site"))) return x;
	return NULL;
}

/* Adds to each function how often it was called in a second since then. */
static void add_rates(const json_t *before, json_t *now)
{
	const double seconds = (double)(int_of(now, "at_us") - int_of(before, "at_us")) / 1e6;
	size_t i;
	json_t *f;
	json_array_foreach(json_object_get(now, "functions"), i, f) {
		const json_t *old = same_function(before, f);
		const double calls = (double)(int_of(f, "calls") - (old ? int_of(old, "calls") : 0));
		json_object_set_new(f, "calls_per_s", json_real(seconds > 0 && calls > 0 ? calls / seconds : 0));
	}
}

static int by_rate(const void *x, const void *y)
{
	const json_t *a = *(json_t *const *)x, *b = *(json_t *const *)y;
	const double ra = json_real_value(json_object_get(a, "calls_per_s")), rb = json_real_value(json_object_get(b, "calls_per_s"));
	if (ra != rb) return ra < rb ? 1 : -1;
	const long long ca = int_of(a, "calls"), cb = int_of(b, "calls");
	return ca != cb ? (ca < cb ? 1 : -1) : strcmp(text_of(a, "name"), text_of(b, "name"));
}

/* ---- text ---- */
static void print_head(const json_t *d)
{
	size_t i;
	const json_t *m;
	char bytes[32], peak[32];
	fputs(cli_style_of(CLI_TITLE), stdout);
	put_name(text_of(d, "program"), (int)strnlen(text_of(d, "program"), 32));
	printf("%s  process %lld, %lld threads", cli_style_of(CLI_PLAIN), int_of(d, "pid"), int_of(d, "threads"));
	json_array_foreach(json_object_get(d, "memory"), i, m) {
		cli_put_bytes(bytes, int_of(m, "bytes"));
		cli_put_bytes(peak, int_of(m, "peak_bytes"));
		fputs(", ", stdout);
		put_name(text_of(m, "device"), (int)strnlen(text_of(m, "device"), 16));
		printf(" %s, at most %s", bytes, peak);
	}
	printf("\n%s%-24s %8s %8s %6s %8s %8s %10s %8s  %s%s\n", cli_style_of(CLI_DIM), "function", "calls/s", "calls", "hits", "traced", "exits",
	       "compile", "memory", "line", cli_style_of(CLI_PLAIN));
}

static void print_function(const json_t *f)
{
	char rate[16], calls[16], hits[16], bytes[32];
	const long long n = int_of(f, "calls");
	put_short(rate, json_real_value(json_object_get(f, "calls_per_s")));
	put_short(calls, (double)n);
	snprintf(hits, sizeof hits, n ? "%.0f%%" : "-", 100.0 * (double)int_of(f, "hits") / (double)(n ? n : 1));
	cli_put_bytes(bytes, int_of(f, "bytes"));
	fputs(cli_style_of(CLI_NAME), stdout);
	put_name(text_of(f, "name"), 24);
	printf("%s %8s %8s %6s %8lld %8lld %7.0f ms %8s  ", cli_style_of(CLI_PLAIN), rate, calls, hits, int_of(f, "recordings"),
	       int_of(f, "side_exits"), (double)(int_of(f, "trace_us") + int_of(f, "lower_us") + int_of(f, "codegen_us")) / 1e3, bytes);
	put_name(text_of(f, "site"), (int)strnlen(text_of(f, "site"), 48));
	putchar('\n');
}

static void print(const json_t *d)
{
	const json_t *all = json_object_get(d, "functions");
	const size_t n = json_array_size(all);
	json_t **f = malloc((n + 1) * sizeof *f);
	if (!f) return;
	for (size_t i = 0; i < n; i++) f[i] = json_array_get(all, i);
	qsort(f, n, sizeof *f, by_rate);
	print_head(d);
	for (size_t i = 0; i < n; i++) print_function(f[i]);
	free(f);
}

/* ---- watching one ---- */
typedef struct watch {
	long pid;                /* 0: the only one */
	long times;              /* 0: without end */
	uint64_t delay;          /* ns */
	bool json;
	int found, status;
} watch;

static bool show(const watch *w, json_t *now, bool first)
{
	if (w->json) {
		json_dumpf(now, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
		putchar('\n');
	} else {
		if (isatty(STDOUT_FILENO)) fputs("\033[H\033[J", stdout); /* the upper left corner; clear what follows */
		else if (!first) putchar('\n');
		print(now);
	}
	return !fflush(stdout);
}

static int watch_one(const watch *w, int fd, long pid)
{
	json_t *before = cli_live_read(fd, ANSWER);
	bool on = before != NULL;
	if (!on) cli_error("process %ld does not answer", pid);
	for (long i = 0; on && (!w->times || i < w->times); i++) {
		cli_live_sleep(w->delay);
		json_t *now = cli_live_read(fd, ANSWER);
		if (!now) {
			json_decref(before);
			return i && w->times == 0 ? CLI_OK : (cli_error("process %ld has ended, or is stopped", pid), CLI_FAILED);
		}
		add_rates(before, now);
		on = show(w, now, !i);
		json_decref(before);
		before = now;
	}
	json_decref(before);
	return before ? CLI_OK : CLI_FAILED;
}

static bool visit(void *env, int fd, long pid, cli_live_state s)
{
	watch *w = env;
	if (pid != w->pid) return true;
	w->found++;
	w->status = CLI_FAILED;
	if (s == CLI_LIVE) w->status = watch_one(w, fd, pid);
	else if (s == CLI_LIVE_GONE) cli_error("process %ld has ended", pid);
	else cli_error("the file of process %ld is none that it can be watched by", pid);
	return false;
}

/* ---- all ---- */
static bool list_one(void *env, int fd, long pid, cli_live_state s)
{
	watch *w = env;
	json_t *d = s == CLI_LIVE ? cli_live_read(fd, ANSWER) : NULL;
	if (!d) return true;
	if (!w->found++) printf("%s%10s  %-24s %10s%s\n", cli_style_of(CLI_DIM), "process", "program", "functions", cli_style_of(CLI_PLAIN));
	printf("%10ld  ", pid);
	put_name(text_of(d, "program"), 24);
	printf(" %10zu\n", json_array_size(json_object_get(d, "functions")));
	json_decref(d);
	return true;
}

static bool number(const char *s, double least, double most, double *to)
{
	char *end;
	*to = strtod(s, &end);
	if (*s && !*end && *to >= least && *to <= most) return true;
	cli_error("%s is not a number from %g to %g", s, least, most);
	return false;
}

static int run(cli_words *words)
{
	enum { TIMES, DELAY, JSON };
	watch w = { .times = isatty(STDOUT_FILENO) ? 0 : 1, .delay = 1000000000 };
	double n;
	for (int k; (k = cli_next(words)) != CLI_END;) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k == JSON) w.json = true;
		else if (!number(words->value, k == DELAY ? 0.05 : 1, k == DELAY ? 3600 : MOST_PROCESS, &n)) return CLI_USAGE;
		else if (k == TIMES) w.times = (long)n;
		else if (k == DELAY) w.delay = (uint64_t)(n * 1e9);
		else w.pid = (long)n;
	}
	cli_live_each(w.pid ? visit : list_one, &w);
	if (w.found) return w.status;
	if (w.pid) cli_error("process %ld cannot be watched: it is not there, is another user's, or was started without TJ_LIVE=1", w.pid);
	else cli_error("no process can be watched: start one with TJ_LIVE=1");
	return CLI_FAILED;
}

const cli_command cli_top = {
	.name = "top",
	.words = "[PROCESS]",
	.line = "watches the compiled functions of a running process",
	.help = "The process must have been started with TJ_LIVE=1. For each function: calls in a second, all calls, the share that found their\n"
		"trace, traces recorded, calls that left their trace, time spent on compiling, memory of traces and plans, and the line that\n"
		"made it. Without PROCESS it lists the processes that can be watched. On a terminal it goes on until the process ends or Ctrl-C;\n"
		"else it prints once.",
	.option = (const cli_option[]){ { 'n', "times", "NUMBER", "print so often, then end" },
	                                { 'd', "delay", "SECONDS", "time between two; 1 by default" },
	                                { 0, "json", NULL, "print JSON, a line each time" },
	                                { 0 } },
	.run = run,
};
