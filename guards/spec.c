/* SPDX-License-Identifier: MIT */
/* spec: parses and checks .shapes, the user's declaration of argument sizes.
 *
 *   "x: f32[B,S,256], mask: bool[B,1,S,S], w: static, _; B in 1..512; S%16==0"
 *
 *   argument   [name ':'] ( dtype '[' dims ']' | '[' dims ']' | 'static' | '_' )      in the order of the call
 *   dim        a size, a NAME (equal names are equal sizes), or '_' (any)
 *   condition  NAME 'in' least '..' [most]   |   NAME '%' n '==' rest
 */
#include "guards/guards.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

typedef struct parser {
	const char *text, *at;
	gd_spec *s;
	rt_err *err;
} parser;

static bool refuse(parser *p, const char *what, const char *hint)
{
	rt_fail(p->err, TJ_ERR_ARG, "compile", ".shapes: %s at `%.24s`", what, *p->at ? p->at : "the end");
	rt_hint(p->err, "%s", hint);
	return false;
}

static bool fail(parser *p, const char *what) { return refuse(p, what, "as in \"x: f32[B,S,256], m: bool[B,S]; B in 1..512; S%16==0\""); }

static bool not_a_dtype(parser *p, size_t n)
{
	char what[GD_NAME + 32];
	snprintf(what, sizeof what, "%.*s is not a dtype", (int)(n < GD_NAME ? n : GD_NAME), p->at);
	return refuse(p, what, rt_dtype_advice(p->at, n));
}

static void blanks(parser *p) { while (isspace((unsigned char)*p->at)) p->at++; }

static bool accept(parser *p, const char *s)
{
	size_t n = strlen(s);
	blanks(p);
	if (strncmp(p->at, s, n) != 0) return false;
	p->at += n;
	return true;
}

static bool integer(parser *p, int64_t *v)
{
	char *end;
	blanks(p);
	if (!isdigit((unsigned char)*p->at)) return fail(p, "a number is missing");
	errno = 0;
	*v = strtoll(p->at, &end, 10);
	if (errno) return fail(p, "the number is too large");
	p->at = end;
	return true;
}

static size_t word_length(parser *p)
{
	size_t n = 0;
	blanks(p);
	if (isdigit((unsigned char)*p->at)) return 0;
	while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_') n++;
	return n;
}

static bool copy_word(parser *p, char *to, size_t room)
{
	size_t n = word_length(p);
	if (!n || n >= room) return fail(p, n ? "a name is too long" : "a name is missing");
	memcpy(to, p->at, n);
	to[n] = 0;
	p->at += n;
	return true;
}

/* Number of the symbol with the name at p->at; with `make`, a new symbol when there is none. -1: error. */
static int symbol(parser *p, bool make)
{
	char name[GD_NAME];
	if (!copy_word(p, name, sizeof name)) return -1;
	for (uint32_t i = 0; i < p->s->nsymbol; i++)
		if (!strcmp(p->s->symbol[i].name, name)) return (int)i;
	if (!make || p->s->nsymbol == GD_SYMBOLS) return fail(p, make ? "too many names" : "a condition on a name that no argument uses"), -1;
	gd_symbol *s = &p->s->symbol[p->s->nsymbol];
	*s = (gd_symbol){ .most = INT64_MAX, .mod = 1 };
	memcpy(s->name, name, sizeof name);
	return (int)p->s->nsymbol++;
}

static bool dimension(parser *p, gd_dim *d)
{
	blanks(p);
	if (isdigit((unsigned char)*p->at)) {
		d->kind = GD_DIM_SIZE;
		return integer(p, &d->v);
	}
	if (word_length(p) == 1 && *p->at == '_') {
		p->at++;
		d->kind = GD_DIM_ANY;
		return true;
	}
	int i = symbol(p, true);
	*d = (gd_dim){ .kind = GD_DIM_NAME, .v = i };
	return i >= 0;
}

static bool dimensions(parser *p, gd_arg_spec *a)
{
	a->ranked = true;
	if (accept(p, "]")) return true;
	do {
		if (a->rank == TJ_MAX_RANK) return fail(p, "too many dimensions");
		if (!dimension(p, &a->dim[a->rank++])) return false;
	} while (accept(p, ","));
	return accept(p, "]") || fail(p, "] is missing");
}

static bool argument(parser *p)
{
	if (p->s->narg == p->s->room) return fail(p, "more arguments than .nin");
	gd_arg_spec *a = &p->s->arg[p->s->narg++];
	*a = (gd_arg_spec){ .dtype = -1 };
	size_t n = word_length(p);
	const char *behind = p->at + n;
	while (isspace((unsigned char)*behind)) behind++;
	if (n && *behind == ':') {
		if (!copy_word(p, a->name, sizeof a->name) || !accept(p, ":")) return false;
		n = word_length(p);
	}
	if (n == 6 && !strncmp(p->at, "static", n)) return p->at += n, a->fixed = true;
	if (n == 1 && *p->at == '_') return p->at += n, true;
	if (n && (a->dtype = rt_dtype_parse(p->at, n)) < 0) return not_a_dtype(p, n);
	p->at += n;
	return accept(p, "[") ? dimensions(p, a) : fail(p, "[ is missing");
}

/* NAME % n == rest; once for each name. */
static bool divisor(parser *p, gd_symbol *s)
{
	if (s->mod != 1) return fail(p, "a second % for the same name");
	if (!integer(p, &s->mod)) return false;
	if (s->mod < 1) return fail(p, "a divisor must be positive");
	if (!accept(p, "==")) return fail(p, "== is missing");
	const char *at = p->at;
	if (!integer(p, &s->rest)) return false;
	if (s->rest < s->mod) return true;
	p->at = at;
	return fail(p, "a remainder must be less than its divisor");
}

/* NAME in least..most; several ranges of a name are intersected. */
static bool range(parser *p, gd_symbol *s)
{
	int64_t least, most = INT64_MAX;
	const char *at = p->at;
	if (!integer(p, &least)) return false;
	if (!accept(p, "..")) return fail(p, ".. is missing");
	blanks(p);
	if (isdigit((unsigned char)*p->at) && !integer(p, &most)) return false;
	if (least > s->least) s->least = least;
	if (most < s->most) s->most = most;
	if (s->least <= s->most) return true;
	p->at = at;
	return fail(p, "the range contains no size");
}

static bool condition(parser *p)
{
	int i = symbol(p, false);
	if (i < 0) return false;
	if (accept(p, "%")) return divisor(p, &p->s->symbol[i]);
	return accept(p, "in") ? range(p, &p->s->symbol[i]) : fail(p, "`in` or % is missing");
}

static bool parse(parser *p)
{
	blanks(p);
	if (!*p->at) return fail(p, "no arguments");
	do
		if (!argument(p)) return false;
	while (accept(p, ","));
	while (accept(p, ";"))
		if (blanks(p), *p->at && !condition(p)) return false;
	blanks(p);
	return !*p->at || fail(p, "not understood");
}

gd_spec *gd_spec_parse(const char *text, uint32_t nin, rt_err *err)
{
	size_t n = strlen(text) + 1;
	gd_spec *s = rt_calloc(sizeof *s + nin * sizeof *s->arg + n);
	if (!s) return rt_fail(err, TJ_ERR_NOMEM, "compile", "out of memory"), NULL;
	s->room = nin;
	s->text = memcpy(s->arg + nin, text, n);
	parser p = { text, text, s, err };
	if (parse(&p)) return s;
	rt_free(s);
	return NULL;
}

/* ---- checking a call ---- */
static void put_arg(const gd_spec *s, uint32_t i, char *to, size_t room)
{
	if (*s->arg[i].name) snprintf(to, room, "argument %u (%s)", i, s->arg[i].name);
	else snprintf(to, room, "argument %u", i);
}

typedef struct bound { int64_t v; uint32_t arg; int dim; bool set; } bound;

static bool check_symbol(const gd_spec *s, uint32_t i, int d, int64_t size, bound *b, rt_err *err)
{
	const gd_symbol *y = &s->symbol[s->arg[i].dim[d].v];
	char here[GD_NAME + 32], there[GD_NAME + 32];
	put_arg(s, i, here, sizeof here);
	if (b->set && b->v != size) {
		put_arg(s, b->arg, there, sizeof there);
		rt_fail(err, TJ_ERR_SHAPE, "call", "%s: dim %d is %lld, but %s is %lld in %s, dim %d", here, d, (long long)size, y->name,
		        (long long)b->v, there, b->dim);
	} else if (size < y->least || (size > y->most && y->most < INT64_MAX)) {
		char most[24] = "";
		if (y->most < INT64_MAX) snprintf(most, sizeof most, "%lld", (long long)y->most);
		rt_fail(err, TJ_ERR_SHAPE, "call", "%s: dim %d: %s is %lld, not in %lld..%s", here, d, y->name, (long long)size,
		        (long long)y->least, most);
	} else if (size % y->mod != y->rest)
		rt_fail(err, TJ_ERR_SHAPE, "call", "%s: dim %d: %s is %lld, and %lld %% %lld is %lld, not %lld", here, d, y->name,
		        (long long)size, (long long)size, (long long)y->mod, (long long)(size % y->mod), (long long)y->rest);
	else return *b = (bound){ size, i, d, true }, true;
	return false;
}

static bool check_arg(const gd_spec *s, uint32_t i, const gd_arg *a, bound *b, rt_err *err)
{
	const gd_arg_spec *w = &s->arg[i];
	const rt_layout *l = a->layout;
	char here[GD_NAME + 32];
	put_arg(s, i, here, sizeof here);
	if (!w->ranked) return true;
	if (!l) return rt_fail(err, TJ_ERR_SHAPE, "call", "%s is a number, not a tensor", here), false;
	if (w->dtype >= 0 && w->dtype != l->dtype)
		return rt_fail(err, TJ_ERR_DTYPE, "call", "%s is %s, not %s", here, tj_dtype_name((tj_dtype)l->dtype),
		               tj_dtype_name((tj_dtype)w->dtype)),
		       false;
	if (w->rank != l->rank) return rt_fail(err, TJ_ERR_SHAPE, "call", "%s has %d dimensions, not %d", here, l->rank, w->rank), false;
	for (int d = 0; d < w->rank; d++) {
		if (w->dim[d].kind == GD_DIM_SIZE && w->dim[d].v != l->dim[d])
			return rt_fail(err, TJ_ERR_SHAPE, "call", "%s: dim %d is %lld, not %lld", here, d, (long long)l->dim[d], (long long)w->dim[d].v), false;
		if (w->dim[d].kind == GD_DIM_NAME && !check_symbol(s, i, d, l->dim[d], &b[w->dim[d].v], err)) return false;
	}
	return true;
}

bool gd_spec_check(const gd_spec *s, const gd_sig *sig, const char *site, rt_err *err)
{
	bound b[GD_SYMBOLS] = { 0 };
	for (uint32_t i = 0; i < s->narg && i < sig->narg; i++)
		if (!check_arg(s, i, &sig->arg[i], b, err)) {
			rt_hint(err, "compiled at %s for .shapes = \"%s\"", site ? site : "?", s->text);
			return false;
		}
	return true;
}
