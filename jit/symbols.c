/* SPDX-License-Identifier: MIT */
/* Prints the graphs of all sizes of a signature as one graph with symbols: compares the texts of each size word by word.
 *
 *   %2 = reshape f32[7,64] %1 shape=7,64          size B = 7
 *   %2 = reshape f32[9,64] %1 shape=9,64          size B = 9
 *   %2 = reshape f32[B,64] %1 shape=B,64          both
 *
 * A number that differs is replaced by the first expression over the symbols that holds for all compared sizes. */
#include "jit/note.h"

#include <ctype.h>
#include <stdlib.h>

enum { SIZES = 8, SYMBOLS = 16 };

typedef struct symbol { char name[GD_NAME]; int64_t v[SIZES]; } symbol;
typedef struct unifier {
	int n;                  /* number of compared sizes */
	const char *at[SIZES];  /* position in the text of each size */
	symbol symbol[SYMBOLS];
	int nsymbol;
	rt_text *out;
} unifier;

/* ---- expressions ---- */
static bool all_equal(const int64_t *a, const int64_t *b, int n)
{
	return !memcmp(a, b, (size_t)n * sizeof *a);
}

static bool product(const unifier *u, const int64_t *x)
{
	for (int i = 0; i < u->nsymbol; i++)
		for (int j = i; j < u->nsymbol; j++) {
			int64_t first = u->symbol[i].v[0] * u->symbol[j].v[0], times = first ? x[0] / first : 0;
			bool is = times != 0;
			for (int k = 0; k < u->n; k++) is &= x[k] == times * u->symbol[i].v[k] * u->symbol[j].v[k];
			if (!is) continue;
			if (times != 1) rt_putf(u->out, "%lld*", (long long)times);
			return rt_putf(u->out, "%s*%s", u->symbol[i].name, u->symbol[j].name), true;
		}
	return false;
}

/* c*S, S/c, S+c, with c from the first size. */
static bool scaled(const unifier *u, const int64_t *x)
{
	for (int i = 0; i < u->nsymbol; i++) {
		const symbol *s = &u->symbol[i];
		int64_t times = s->v[0] ? x[0] / s->v[0] : 0, part = x[0] ? s->v[0] / x[0] : 0, more = x[0] - s->v[0];
		bool is_times = times > 1, is_part = part > 1, is_more = true;
		for (int k = 0; k < u->n; k++) {
			is_times &= x[k] == times * s->v[k];
			is_part &= x[k] * part == s->v[k];
			is_more &= x[k] - s->v[k] == more;
		}
		if (is_times) return rt_putf(u->out, "%lld*%s", (long long)times, s->name), true;
		if (is_part) return rt_putf(u->out, "%s/%lld", s->name, (long long)part), true;
		if (is_more) return rt_putf(u->out, "%s%+lld", s->name, (long long)more), true;
	}
	return false;
}

static bool whole(const unifier *u, const int64_t *x)
{
	if (u->n < 2) return false;
	for (int i = 0; i < u->nsymbol; i++)
		if (all_equal(x, u->symbol[i].v, u->n)) return rt_puts(u->out, u->symbol[i].name), true;
	return scaled(u, x) || product(u, x);
}

/* Floats made from a size n: n, or 1/n. */
static bool real(const unifier *u, const double *d)
{
	int64_t n[SIZES], inverse[SIZES];
	bool is_n = true, is_inverse = true;
	for (int k = 0; k < u->n; k++) {
		double one = d[k] != 0 ? 1 / d[k] : 0;
		n[k] = d[k] > -1e15 && d[k] < 1e15 ? (int64_t)d[k] : 0;
		inverse[k] = one > -1e15 && one < 1e15 ? (int64_t)(one + 0.5) : 0;
		is_n &= (double)n[k] == d[k];
		is_inverse &= inverse[k] && (float)(1 / (double)inverse[k]) == (float)d[k];
	}
	if (is_n && whole(u, n)) return true;
	uint32_t before = u->out->n;
	if (!is_inverse) return false;
	rt_puts(u->out, "1/(");
	if (whole(u, inverse)) return rt_puts(u->out, ")"), true;
	u->out->n = before;
	return false;
}

/* ---- words ---- */
static size_t number_length(const char *s)
{
	size_t n = s[0] == '-';
	if (!isdigit((unsigned char)s[n])) return 0;
	while (isalnum((unsigned char)s[n]) || s[n] == '.' || ((s[n] == '+' || s[n] == '-') && (s[n - 1] == 'p' || s[n - 1] == 'e'))) n++;
	return n;
}

/* Writes the number at this position of the texts as one number or expression; "?" when it does not follow from the sizes. */
static bool put_number(unifier *u, const size_t *len)
{
	int64_t x[SIZES];
	double d[SIZES];
	bool ints = true, same = true;
	for (int k = 0; k < u->n; k++) {
		char *end;
		x[k] = strtoll(u->at[k], &end, 10);
		ints &= end == u->at[k] + len[k];
		d[k] = rt_read_float(u->at[k], &end);
		same &= len[k] == len[0] && !strncmp(u->at[k], u->at[0], len[0]);
	}
	if (same) rt_putf(u->out, "%.*s", (int)len[0], u->at[0]);
	else if (!(ints ? whole(u, x) : real(u, d))) rt_puts(u->out, "?");
	for (int k = 0; k < u->n; k++) u->at[k] += len[k];
	return true;
}

/* False: the texts differ in more than numbers. */
static bool unify(unifier *u)
{
	char before = ' ';
	while (*u->at[0]) {
		size_t len[SIZES] = { 0 };
		bool number = !isalnum((unsigned char)before) && before != '_' && before != '%';
		for (int k = 0; k < u->n; k++) {
			len[k] = number ? number_length(u->at[k]) : 0;
			if (!len[k] != !len[0] || (!len[k] && *u->at[k] != *u->at[0])) return false;
		}
		before = len[0] ? '0' : *u->at[0];
		if (len[0]) put_number(u, len);
		else {
			rt_putf(u->out, "%c", before);
			for (int k = 0; k < u->n; k++) u->at[k]++;
		}
	}
	for (int k = 1; k < u->n; k++)
		if (*u->at[k]) return false;
	return true;
}

/* ---- the sizes of a signature ---- */
static void add_symbols(unifier *u, const tj_fn *f, const jit_general *g, const jit_entry *const *e)
{
	for (uint32_t i = 0; i < g->sig.narg; i++)
		for (int d = 0; g->sig.arg[i].layout && d < g->sig.arg[i].layout->rank; d++) {
			symbol *s = &u->symbol[u->nsymbol];
			rt_text t = { 0 };
			if (!(g->moved[i] >> d & 1) || u->nsymbol == SYMBOLS) continue;
			gd_put_size_name(&t, f->spec, i, d);
			snprintf(s->name, sizeof s->name, "%s", rt_str(&t));
			rt_text_free(&t);
			for (int k = 0; k < u->n; k++) s->v[k] = e[k]->sig.arg[i].layout->dim[d];
			bool known = false;
			for (int k = 0; k < u->nsymbol; k++) known |= !strcmp(u->symbol[k].name, s->name);
			u->nsymbol += !known;
		}
}

/* Writes the i-th segment of these sizes as one text; false: its ops differ between sizes. */
static bool put_segment(tj_fn *f, const jit_general *g, const jit_entry *const *e, int n, uint32_t i, rt_text *out)
{
	unifier u = { .n = n, .out = out };
	rt_text text[SIZES] = { { 0 } };
	add_symbols(&u, f, g, e);
	for (int k = 0; k < n; k++) {
		jit_put_plan(f, atomic_load(&e[k]->sealed.v[i]->segment->plan), TJ_DUMP_GRAPH, &text[k]);
		u.at[k] = rt_str(&text[k]);
	}
	bool ok = unify(&u);
	for (int k = 0; k < n; k++) rt_text_free(&text[k]);
	return ok;
}

/* Chooses the last sizes without symbols of 0 or 1, since those sizes have other code. */
static int choose(const jit_general *g, const jit_entry **e)
{
	int n = 0;
	for (const jit_entry *x = g->newest; x && n < SIZES; x = x->older) {
		bool plain = x->sealed.n;
		for (uint32_t a = 0; plain && a < g->sig.narg; a++)
			for (int d = 0; x->sig.arg[a].layout && d < x->sig.arg[a].layout->rank; d++)
				if (g->moved[a] >> d & 1 && x->sig.arg[a].layout->dim[d] < 2) plain = false;
		if (plain) e[n++] = x;
	}
	return n;
}

void jit_put_general(tj_fn *f, const jit_general *g, rt_text *t)
{
	const jit_entry *e[SIZES];
	int n = choose(g, e);
	rt_putf(t, "# %s, signature %u: ", f->name, g->number);
	gd_put_general(t, &g->sig, g->moved, f->spec);
	rt_putf(t, "; %u sizes met, %d compared\n", g->made, n);
	for (uint32_t i = 0; n && i < e[0]->sealed.n; i++) {
		const jit_node *b = e[0]->sealed.v[i];
		rt_text one = { 0 };
		bool there = true;
		for (int k = 0; k < n; k++) there &= i < e[k]->sealed.n;
		rt_putf(t, "# segment %u: up to %s at %s\n", i, jit_event_name(b->op), b->site ? b->site : "?");
		if (there && put_segment(f, g, e, n, i, &one)) rt_puts(t, rt_str(&one));
		else rt_puts(t, "# its ops differ from size to size\n");
		rt_text_free(&one);
	}
}
