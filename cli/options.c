/* SPDX-License-Identifier: MIT */
/* options: the words of a command line, and what a mistyped one was meant to be. */
#include "cli/cli.h"

#include <string.h>

/* ---- mistyped words ---- */
enum { LONGEST = 32 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Letters to add, drop or replace; two that changed places count as one. */
static size_t distance(const char *a, const char *b)
{
	size_t row[3][LONGEST + 1], na = strlen(a), nb = strlen(b);
	if (na > LONGEST || nb > LONGEST) return LONGEST;
	for (size_t j = 0; j <= nb; j++) row[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			now[j] = least(least(now[j - 1], last[j]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = least(now[j], before[j - 2] + 1);
		}
	}
	return row[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *(*next)(const void *env, int i), const void *env)
{
	const char *best = NULL, *name;
	size_t most = strlen(word) / 3 + 1; /* of 4 letters 2 */
	for (int i = 0; (name = next(env, i)); i++) {
		const size_t d = strlen(word) > 1 && !strncmp(word, name, strlen(word)) ? 0 : distance(word, name);
		if (d > most || (best && d == most) || d >= strlen(name)) continue;
		most = d;
		best = name;
	}
	return best;
}

int cli_unknown(const char *what, const char *word, const char *(*next)(const void *env, int i), const void *env)
{
	const char *meant = cli_nearest(word, next, env);
	if (meant) cli_error("there is no %s %s; did you mean %s?", what, word, meant);
	else cli_error("there is no %s %s", what, word);
	return CLI_USAGE;
}

/* ---- options ---- */
static const char *option_name(const void *options, int i) { return ((const cli_option *)options)[i].name; }

static int wrong(const cli_words *w)
{
	cli_error("tj help %s lists what it takes", w->command);
	return CLI_WRONG;
}

/* behind: what follows "=" in the word, or the letter; NULL: nothing does. */
static int take(cli_words *w, int i, const char *behind)
{
	const cli_option *o = &w->option[i];
	if (!o->value && behind) {
		cli_error("%s takes no value, and has %s", o->name, behind);
		return wrong(w);
	}
	w->value = !o->value ? NULL : behind ? behind : *w->word ? *w->word++ : NULL;
	if (!o->value || w->value) return i;
	cli_error("%s needs a %s behind it", o->name, o->value);
	return wrong(w);
}

static int by_name(cli_words *w, const char *name)
{
	const size_t n = strcspn(name, "=");
	char only[LONGEST + 1];
	for (int i = 0; w->option[i].name; i++)
		if (strlen(w->option[i].name) == n && !strncmp(w->option[i].name, name, n)) return take(w, i, name[n] ? name + n + 1 : NULL);
	snprintf(only, sizeof only, "%.*s", (int)n, name);
	cli_unknown("option", only, option_name, w->option);
	return wrong(w);
}

static int by_letter(cli_words *w, const char *s)
{
	for (int i = 0; w->option[i].name; i++)
		if (w->option[i].letter == s[0]) return take(w, i, s[1] ? s + 1 : NULL);
	cli_error("there is no option -%c", s[0]);
	return wrong(w);
}

int cli_next(cli_words *w)
{
	const char *s = *w->word;
	if (!s) return CLI_END;
	w->word++;
	if (!w->plain && !strcmp(s, "--")) {
		w->plain = true;
		return cli_next(w);
	}
	if (!w->plain && s[0] == '-' && s[1]) return s[1] == '-' ? by_name(w, s + 2) : by_letter(w, s + 1);
	w->value = s;
	return CLI_WORD;
}
