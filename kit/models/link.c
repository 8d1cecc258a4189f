/* SPDX-License-Identifier: MIT */
/* link: names of values become numbers, nodes get their rows of the table, and all that is not supported is told. A name is that of the
 * nearest graph around that has defined it before. */
#include "kit/models/models.h"

#include <stdarg.h>

enum {
	OPSET_LEAST = 7, OPSET_MOST = 28,
	DEEPEST_CALLS = 100,  /* functions that call functions */
	MOST_NODES = 1 << 22  /* of all calls together: functions that call others twice would have 2^n */
};

/* ---- names in scope ---- */
typedef struct name {
	const char *s;
	int value;
	uint32_t before;
} name; /* before: the entry of that bucket before it, plus 1 */
typedef struct scope {
	name *v;
	uint32_t n, room, *bucket, buckets;
} scope;
typedef struct linker {
	tj_model *m;
	ox_refusals *r;
	kit_why *why;
	scope s;
	const ox_graph *fn; /* whose nodes are linked; NULL: the model's */
	int room;           /* of literal and maker */
	int depth;          /* of calls */
	int64_t nodes;      /* that the graph, or fn, walks */
} linker;

static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261u;
	for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

static int find(const scope *s, const char *text)
{
	if (!s->buckets) return -1;
	for (uint32_t i = s->bucket[hash(text) % s->buckets]; i; i = s->v[i - 1].before)
		if (!strcmp(s->v[i - 1].s, text)) return s->v[i - 1].value;
	return -1;
}

static bool grow_buckets(scope *s)
{
	const uint32_t n = s->buckets ? s->buckets * 2 : 256;
	uint32_t *b = calloc(n, sizeof *b);
	if (!b) return false;
	for (uint32_t i = 0; i < s->n; i++) {
		uint32_t *first = &b[hash(s->v[i].s) % n];
		s->v[i].before = *first;
		*first = i + 1;
	}
	free(s->bucket);
	s->bucket = b;
	s->buckets = n;
	return true;
}

static bool define(linker *l, const char *text, int value)
{
	scope *s = &l->s;
	if (s->n == s->room) {
		name *v = realloc(s->v, (s->room = s->room ? s->room * 2 : 256) * sizeof *v);
		if (!v) return s->room = s->n, kit_no_memory(l->why);
		s->v = v;
	}
	if (s->n >= s->buckets && !grow_buckets(s)) return kit_no_memory(l->why);
	uint32_t *first = &s->bucket[hash(text) % s->buckets];
	s->v[s->n] = (name){ text, value, *first };
	*first = ++s->n;
	return true;
}

static void forget(scope *s, uint32_t down_to)
{
	while (s->n > down_to) {
		s->n--;
		s->bucket[hash(s->v[s->n].s) % s->buckets] = s->v[s->n].before;
	}
}

static int new_value(linker *l)
{
	tj_model *m = l->m;
	if (m->nvalue == l->room) {
		const int room = l->room ? l->room * 2 : 256;
		ox_tensor **t = realloc(m->literal, (size_t)room * sizeof(ox_tensor *));
		if (t) m->literal = t;
		const ox_node **n = t ? realloc(m->maker, (size_t)room * sizeof(ox_node *)) : NULL;
		if (!n) return kit_no_memory(l->why), -1;
		m->maker = n;
		l->room = room;
	}
	m->literal[m->nvalue] = NULL;
	m->maker[m->nvalue] = NULL;
	return m->nvalue++;
}

static int defined(linker *l, const char *text)
{
	const int v = new_value(l);
	return v >= 0 && define(l, text, v) ? v : -1;
}

/* ---- refusals ---- */
static void tell(ox_refusals *r, const char *line)
{
	if (!r->n) snprintf(r->first, sizeof r->first, "%.399s", line);
	r->n++;
	if (r->tell) r->tell(r->self, line);
}

void ox_refuse(ox_refusals *r, const ox_node *n, const char *fmt, ...)
{
	char why[300], line[600];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (!n)
		snprintf(line, sizeof line, "%s", why);
	else if (*n->name)
		snprintf(line, sizeof line, "node %.120s (%s%s%.60s, opset %d): %s", n->name, n->domain, *n->domain ? "." : "", n->op,
		         n->opset, why);
	else
		snprintf(line, sizeof line, "node %s%s%.60s, opset %d, which makes %.100s: %s", n->domain, *n->domain ? "." : "", n->op,
		         n->opset, n->nout ? n->out_name[0] : "nothing", why);
	tell(r, line);
}

/* What can be used instead of an op that is not there. */
static const char *instead(const ox_node *n)
{
	static const struct {
		const char *begin, *text;
	} hints[] = {
		{ "String", "strings are prepared before: <tjdata.h>" },
		{ "RegexFullMatch", "strings are prepared before: <tjdata.h>" },
		{ "TfIdf", "text is prepared before: <tjdata.h>" },
		{ "ImageDecoder", "pictures are read by tj_image_load() of <tjfiles.h>" },
		{ "Sequence", "a model without sequences: Split and Concat" },
		{ "Optional", "a model without optionals" },
	};
	if (*n->domain) return "export the model with the default domain alone, or with functions for this op";
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		if (!strncmp(n->op, hints[i].begin, strlen(hints[i].begin))) return hints[i].text;
	return "tj_onnx_supports() lists the ops";
}

/* The letter of an attribute in the list of a row; 0: it is not there. */
static char letter_in(const char *attrs, const char *attr)
{
	const size_t n = strlen(attr);
	for (const char *s = attrs; n && (s = strstr(s, attr)); s += n)
		if ((s == attrs || s[-1] == ' ') && s[n] == ':') return s[n + 1];
	return 0;
}

char ox_attr_letter(int type)
{
	static const char letters[] = "?fistgFISTG";
	return type >= 0 && type < (int)sizeof letters - 1 ? letters[type] : '?';
}

static void check_attributes(linker *l, const ox_node *n)
{
	for (int i = 0; i < n->nattr; i++) {
		const ox_attr *a = &n->attr[i];
		const char want = letter_in(n->row->attrs, a->name);
		tj_dtype dtype;
		if (!want)
			ox_refuse(l->r, n, "attribute %.60s is not supported", a->name);
		else if (!a->ref && ox_attr_letter(a->type) != want)
			ox_refuse(l->r, n, "attribute %.60s has a wrong type", a->name);
		else if (!a->ref && ((a->type == OX_A_TENSOR && !a->t) || (a->type == OX_A_GRAPH && !a->g)))
			ox_refuse(l->r, n, "attribute %.60s has no value", a->name);
		else if (a->t && !ox_dtype(a->t->type, &dtype))
			ox_refuse(l->r, n, "attribute %.60s is %s, which is no dtype of tjit", a->name, ox_type_name(a->t->type));
		else if (!strcmp(a->name, "to") || !strcmp(a->name, "dtype") || !strcmp(a->name, "output_dtype")) {
			if (!a->ref && a->i && !ox_dtype(a->i, &dtype))
				ox_refuse(l->r, n, "%s is no dtype of tjit", ox_type_name(a->i));
		}
	}
}

static void check_row(linker *l, const ox_node *n)
{
	const ox_row *row = n->row;
	if (n->nin < row->in_least || (row->in_most >= 0 && n->nin > row->in_most)) ox_refuse(l->r, n, "it has %d inputs", n->nin);
	if (row->out_most >= 0 && n->nout > row->out_most) ox_refuse(l->r, n, "it has %d outputs", n->nout);
	if (n->nout < 1) ox_refuse(l->r, n, "it has no outputs");
	for (int k = 0; k < (row->in_most < 0 ? n->nin : row->in_least) && k < n->nin && row->fn != ox_loop; k++)
		if (n->in[k] < 0) ox_refuse(l->r, n, "input %d is left out", k);
	check_attributes(l, n);
}

/* ---- nodes ---- */
static int opset_of(const linker *l, const char *domain)
{
	const ox_import *v = l->fn ? l->fn->import : l->m->import;
	for (int i = 0, n = l->fn ? l->fn->nimport : l->m->nimport; i < n; i++)
		if (!strcmp(v[i].domain, domain)) return v[i].version > INT32_MAX || v[i].version < 0 ? 0 : (int)v[i].version;
	return 0;
}

static ox_graph *function_of(tj_model *m, const ox_node *n)
{
	for (int i = 0; i < m->nfn; i++)
		if (!strcmp(m->fn[i].name, n->op) && !strcmp(m->fn[i].domain, n->domain)) return &m->fn[i];
	return NULL;
}

static bool link_graph(linker *l, ox_graph *g);
static bool link_function(linker *l, ox_graph *g);

static bool site_of(linker *l, ox_node *n)
{
	char text[300];
	if (*n->name)
		snprintf(text, sizeof text, "%.80s:%.120s (%.60s)", l->m->base, n->name, n->op);
	else
		snprintf(text, sizeof text, "%.80s:%.120s (%.60s)", l->m->base, n->nout ? n->out_name[0] : "", n->op);
	char *s = ox_take(l->m->lines, strlen(text) + 1);
	if (!s) return kit_no_memory(l->why);
	n->site = strcpy(s, text);
	return true;
}

/* The value of a Constant node as a tensor; NULL: it has none that is known here. */
static ox_tensor *constant(linker *l, const ox_node *n)
{
	const ox_attr *a = n->nattr == 1 ? &n->attr[0] : NULL;
	if (!a || a->ref ||
	    (a->type != OX_A_TENSOR && a->type != OX_A_FLOAT && a->type != OX_A_INT && a->type != OX_A_FLOATS && a->type != OX_A_INTS))
		return NULL;
	if (a->type == OX_A_TENSOR) return a->t;
	ox_tensor *t = ox_take(&l->m->arena, sizeof *t);
	if (!t) return kit_no_memory(l->why), NULL;
	const bool list = a->type == OX_A_FLOATS || a->type == OX_A_INTS, floats = a->type == OX_A_FLOAT || a->type == OX_A_FLOATS;
	*t = (ox_tensor){ .name = n->out_name[0], .type = floats ? OX_FLOAT : OX_INT64, .rank = list, .length = -1 };
	t->dim[0] = list ? a->n : TJ_END_DIM;
	t->dim[1] = TJ_END_DIM;
	t->data = list ? floats ? (const void *)a->floats : (const void *)a->ints : floats ? (const void *)&a->f : (const void *)&a->i;
	t->bytes = (list ? (size_t)a->n : 1) * (floats ? sizeof(float) : sizeof(int64_t));
	return t;
}

static bool link_inputs(linker *l, ox_node *n)
{
	for (int k = 0; k < n->nin; k++) {
		n->in[k] = -1;
		if (!*n->in_name[k]) continue;
		n->in[k] = find(&l->s, n->in_name[k]);
		if (n->in[k] < 0)
			return kit_no(l->why, TJ_ERR_PARSE, "node %.100s (%.60s) takes %.100s, which nothing before it makes", n->name,
			              n->op, n->in_name[k]);
	}
	return true;
}

static bool link_row(linker *l, ox_node *n)
{
	n->opset = opset_of(l, n->domain);
	n->fn = function_of(l->m, n);
	n->row = n->fn ? NULL : ox_find_row(n->domain, n->op);
	l->nodes++;
	if (n->fn) {
		if (!link_function(l, n->fn)) return false;
		l->nodes += n->fn->nodes;
		return l->nodes <= MOST_NODES || kit_no(l->why, TJ_ERR_LIMIT, "its functions have more than %d nodes", MOST_NODES);
	}
	if (n->row)
		check_row(l, n);
	else
		ox_refuse(l->r, n, "the op is not supported; instead: %s", instead(n));
	return true;
}

static bool link_node(linker *l, ox_graph *g, ox_node *n)
{
	if (!site_of(l, n) || !link_inputs(l, n) || !link_row(l, n)) return false;
	for (int i = 0; i < n->nattr; i++)
		if (n->attr[i].t && !ox_literal(l->m, n->attr[i].t, l->why)) return false;
	for (int i = 0; i < n->nattr; i++) {
		if (!n->attr[i].g) continue;
		n->attr[i].g->parent = g;
		if (!link_graph(l, n->attr[i].g)) return false;
	}
	for (int k = 0; k < n->nout; k++) {
		n->out[k] = -1;
		if (!*n->out_name[k]) continue;
		if ((n->out[k] = defined(l, n->out_name[k])) < 0) return false;
		l->m->maker[n->out[k]] = n;
	}
	if (strcmp(n->op, "Constant") || *n->domain || !n->nout || n->out[0] < 0) return true;
	ox_tensor *t = constant(l, n);
	if (t && t != n->attr[0].t && !ox_literal(l->m, t, l->why)) return false;
	l->m->literal[n->out[0]] = t;
	return l->why->code == TJ_OK;
}

static bool link_values(linker *l, ox_graph *g)
{
	tj_dtype dtype;
	for (int i = 0; i < g->nin; i++)
		if ((g->in[i].value = defined(l, g->in[i].name)) < 0) return false;
	const int first = l->m->nvalue;
	for (int i = 0; i < g->ninit; i++) {
		ox_tensor *t = &g->init[i];
		const int v = defined(l, t->name); /* an input of this name is found no more */
		if (v < 0) return false;
		if (!ox_dtype(t->type, &dtype))
			ox_refuse(l->r, NULL, "initializer %.100s is %s, which is no dtype of tjit", t->name, ox_type_name(t->type));
		else if (!ox_literal(l->m, t, l->why))
			return false;
		else
			l->m->literal[v] = t;
	}
	for (int i = 0; i < g->nin; i++) g->in[i].initialized = find(&l->s, g->in[i].name) >= first;
	return true;
}

static bool link_graph(linker *l, ox_graph *g)
{
	const uint32_t was = l->s.n;
	if (!link_values(l, g)) return false;
	for (int i = 0; i < g->nnode; i++)
		if (!link_node(l, g, &g->node[i])) return false;
	for (int i = 0; i < g->nout; i++)
		if ((g->out[i].value = find(&l->s, g->out[i].name)) < 0)
			return kit_no(l->why, TJ_ERR_PARSE, "nothing makes the output %.100s", g->out[i].name);
	forget(&l->s, was);
	return true;
}

/* A function sees its own names only. */
static bool link_function(linker *l, ox_graph *g)
{
	if (g->state == 2) return true;
	if (l->depth == DEEPEST_CALLS) return kit_no(l->why, TJ_ERR_LIMIT, "functions call each other more than %d deep", DEEPEST_CALLS);
	if (g->state == 1) return kit_no(l->why, TJ_ERR_PARSE, "the function %.100s calls itself", g->name);
	const scope around = l->s;
	const ox_graph *const fn = l->fn;
	const int64_t nodes = l->nodes;
	l->s = (scope){ 0 };
	l->fn = g;
	g->state = 1;
	l->nodes = 0;
	l->depth++;
	bool ok = true;
	for (int i = 0; ok && i < g->npreset; i++) ok = !g->preset[i].t || ox_literal(l->m, g->preset[i].t, l->why);
	ok = ok && link_graph(l, g);
	g->state = 2;
	g->nodes = l->nodes;
	l->nodes = nodes;
	l->depth--;
	free(l->s.v);
	free(l->s.bucket);
	l->s = around;
	l->fn = fn;
	return ok;
}

static void check_ends(linker *l, const ox_info *v, int n, const char *what)
{
	tj_dtype dtype;
	for (int i = 0; i < n; i++) {
		if (strcmp(v[i].kind, "tensor") && *v[i].kind)
			ox_refuse(l->r, NULL, "%s %.100s is of kind %s, no tensor", what, v[i].name, v[i].kind);
		else if (v[i].type && !ox_dtype(v[i].type, &dtype))
			ox_refuse(l->r, NULL, "%s %.100s is %s, which is no dtype of tjit", what, v[i].name, ox_type_name(v[i].type));
	}
}

bool ox_link(tj_model *m, ox_refusals *r, kit_why *why)
{
	linker l = { .m = m, .r = r, .why = why };
	const int opset = opset_of(&l, "");
	if (opset < OPSET_LEAST || opset > OPSET_MOST)
		ox_refuse(r, NULL, "opset %d: %d to %d are supported; onnx.version_converter makes another one", opset, OPSET_LEAST,
		          OPSET_MOST);
	check_ends(&l, m->graph->in, m->graph->nin, "input");
	check_ends(&l, m->graph->out, m->graph->nout, "output");
	const bool ok = link_graph(&l, m->graph);
	free(l.s.v);
	free(l.s.bucket);
	return ok;
}
