/* SPDX-License-Identifier: MIT */
/* tj cache: what is in the disk cache of compiled kernels; checks it, empties it. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- entries ---- */
typedef struct seen {
	json_t *entries;          /* NULL: they are only counted */
	long long n, bytes, other, damaged; /* other: of another build of the library, or of its format */
	double told;              /* seconds: when progress was told last */
} seen;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static json_t *entry_data(const tj_cache_entry *e)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "path", cli_string(e->path), "kind", cli_string(e->kind), "about",
	                 cli_string(e->about), "bytes", (json_int_t)e->bytes, "used", (json_int_t)e->used, "miss", cli_string(e->miss), "why",
	                 cli_string(e->why));
}

static bool see(void *env, const tj_cache_entry *e)
{
	enum { SECONDS = 1 };
	seen *s = env;
	const bool other = e->miss && (!strcmp(e->miss, "build") || !strcmp(e->miss, "format"));
	s->n++;
	s->bytes += (long long)e->bytes;
	s->other += other;
	s->damaged += e->miss && !other;
	if (s->entries) json_array_append_new(s->entries, entry_data(e));
	if (s->entries && now() - s->told > SECONDS) {
		cli_progress("%lld entries, %lld MiB", s->n, s->bytes >> 20);
		s->told = now();
	}
	return true;
}

/* entries: whether they are read, and kept in the JSON. NULL: the user was told why not. */
static json_t *walk(tj_ctx *c, bool entries, seen *s)
{
	tj_cache_info i = { .size = sizeof i };
	*s = (seen){ .entries = entries ? json_array() : NULL, .told = now() };
	if (tj_cache_info(c, &i) == TJ_OK && i.folder) tj_cache_walk(c, entries, see, s);
	cli_progress(NULL);
	if (tj_check(c) != TJ_OK) {
		cli_error("%s", tj_last_error(c)->message);
		json_decref(s->entries);
		return NULL;
	}
	json_t *d = json_pack("{s:o, s:o, s:b, s:I, s:I, s:I}", "folder", cli_string(i.folder), "why", cli_string(i.why), "writes", i.writes,
	                      "entries", (json_int_t)s->n, "bytes", (json_int_t)s->bytes, "most_bytes", (json_int_t)i.most_bytes);
	if (entries) json_object_set_new(d, "list", s->entries);
	return d;
}

json_t *cli_cache_data(tj_ctx *c)
{
	seen s;
	json_t *d = walk(c, false, &s);
	return d ? d : json_object();
}

/* ---- text ---- */
static long long int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }
static const char *text_of(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

void cli_print_cache(const json_t *d)
{
	char all[32], most[32], what[120];
	cli_put_bytes(all, int_of(d, "bytes"));
	cli_put_bytes(most, int_of(d, "most_bytes"));
	cli_row("folder", text_of(d, "folder") ? text_of(d, "folder") : "none: the cache is off");
	if (text_of(d, "why")) cli_row(text_of(d, "folder") ? "nothing is written" : "why", text_of(d, "why"));
	if (!text_of(d, "folder")) return;
	snprintf(what, sizeof what, "%lld, %s of at most %s", int_of(d, "entries"), all, most);
	cli_row("entries", what);
}

/* "3 h" ago */
static void put_age(char to[24], long long used)
{
	const long long hours = ((long long)time(NULL) - used) / 3600;
	if (hours < 1) snprintf(to, 24, "< 1 h");
	else if (hours < 48) snprintf(to, 24, "%lld h", hours);
	else snprintf(to, 24, "%lld d", hours / 24);
}

static void print_entry(const json_t *e, const char *folder)
{
	char bytes[32], age[24];
	const char *path = text_of(e, "path"), *about = text_of(e, "about");
	const size_t n = folder ? strlen(folder) : 0;
	cli_put_bytes(bytes, int_of(e, "bytes"));
	put_age(age, int_of(e, "used"));
	if (n && !strncmp(path, folder, n) && path[n] == '/') path += n + 1;
	printf("  %s%s%s %10s %6s  ", cli_style_of(CLI_NAME), path, cli_style_of(CLI_PLAIN), bytes, age);
	if (text_of(e, "miss")) printf("%s%s%s\n", cli_style_of(CLI_BAD), text_of(e, "why"), cli_style_of(CLI_PLAIN));
	else printf("%.*s\n", about ? (int)strcspn(about, "\n") : 0, about ? about : "");
}

static void print_entries(const json_t *d, bool all)
{
	size_t i;
	json_t *e;
	json_array_foreach(json_object_get(d, "list"), i, e)
		if (all || text_of(e, "miss")) print_entry(e, text_of(d, "folder"));
}

/* ---- the command ---- */
typedef enum action { LS, STATS, VERIFY, CLEAR, ACTIONS } action;
static const char *const actions[ACTIONS] = { "ls", "stats", "verify", "clear" };

static const char *action_name(const void *unused, int i)
{
	(void)unused;
	return i < ACTIONS ? actions[i] : NULL;
}

static int show(tj_ctx *c, action what, bool json)
{
	seen s;
	json_t *d = walk(c, what != STATS, &s);
	if (!d) return CLI_FAILED;
	const int status = what == VERIFY && s.damaged ? CLI_FAILED : CLI_OK;
	if (json) return cli_put_json(d) ? CLI_FAILED : status;
	cli_print_cache(d);
	print_entries(d, what == LS);
	if (what == VERIFY) printf("  %lld whole, %lld of other builds, %lld damaged\n", s.n - s.other - s.damaged, s.other, s.damaged);
	json_decref(d);
	return status;
}

static int clear(tj_ctx *c, bool json)
{
	uint64_t files = 0, bytes = 0;
	char size[32];
	if (tj_cache_clear(c, &files, &bytes) != TJ_OK) {
		tj_check(c);
		cli_error("%s", tj_last_error(c)->message);
		return CLI_FAILED;
	}
	if (json) return cli_put_json(json_pack("{s:I, s:I}", "removed", (json_int_t)files, "bytes", (json_int_t)bytes));
	cli_put_bytes(size, (long long)bytes);
	printf("removed %llu entries, %s\n", (unsigned long long)files, size);
	return CLI_OK;
}

static int run(cli_words *w)
{
	enum { JSON, FOLDER };
	action what = STATS;
	const char *folder = NULL;
	bool json = false;
	for (int k; (k = cli_next(w)) != CLI_END;) {
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k == JSON) json = true;
		if (k == FOLDER) folder = w->value;
		if (k != CLI_WORD) continue;
		for (what = LS; what < ACTIONS && strcmp(actions[what], w->value);) what++;
		if (what == ACTIONS) return cli_unknown("action", w->value, action_name, NULL);
	}
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .cache = folder));
	if (!c) return cli_error("out of memory"), CLI_FAILED;
	const int status = what == CLEAR ? clear(c, json) : show(c, what, json);
	tj_close(c);
	return status;
}

const cli_command cli_cache = {
	.name = "cache",
	.words = "[ls | stats | verify | clear]",
	.line = "says what is in the disk cache of compiled kernels, checks it, or empties it",
	.help = "stats: where it is and how large; this is the default. ls: its entries, when each was used, and for what CPU it is; with --json\n"
		"also the kernel. verify: reads all entries, and prints those that cannot be used; the exit code is 1 if one is damaged. clear:\n"
		"removes all entries.",
	.option = (const cli_option[]){ { 0, "json", NULL, "print JSON" },
	                                { 'f', "folder", "FOLDER", "the cache; else TJ_CACHE, or the user's" },
	                                { 0 } },
	.run = run,
};
