/* SPDX-License-Identifier: MIT */
/* model: the handle of an ONNX file: opening, the function, what the file says of itself. */
#include "kit/models/models.h"

static const char op[] = "onnx_open";

/* ---- weights ---- */
/* Over the map if it is aligned there. Bools that are not 0 or 1, and what is not in the map, are copied. */
static bool in_map(const tj_model *m, const ox_tensor *t, tj_dtype dtype)
{
	size_t bytes;
	const unsigned char *v = kit_map_data(m->map, &bytes);
	const bool inside = t->map || (t->data >= v && t->data < v + bytes);
	return inside && dtype != TJ_BOOL && (uintptr_t)t->data % tj_dtype_size(dtype) == 0;
}

static tj_tensor *weight(const char *site, tj_model *m, ox_tensor *t, tj_dtype dtype)
{
	if (in_map(m, t, dtype)) return kit_map_wrap(site, m->c, dtype, t->dim, t->data, t->map ? t->map : m->map);
	void *data = malloc(t->bytes ? t->bytes : 1);
	if (!data) return tj_fail_at(site, TJ_ERR_NOMEM, op, NULL, "out of memory for the %zu bytes of %.80s", t->bytes, t->name);
	if (t->bytes) memcpy(data, t->data, t->bytes);
	kit_make_bools(dtype, data, t->bytes);
	return kit_give(site, m->c, dtype, t->dim, NULL, data);
}

static bool make_weights(const char *site, tj_model *m)
{
	m->freeze = calloc((size_t)m->nvalue + 1, sizeof *m->freeze);
	if (!m->freeze) return tj_fail_at(site, TJ_ERR_NOMEM, op, NULL, "out of memory"), false;
	for (int i = 0; i < m->nvalue; i++) {
		ox_tensor *t = m->literal[i];
		tj_dtype dtype;
		if (!t || !ox_dtype(t->type, &dtype) || (t->host && t->host->i)) continue; /* shapes and axes: a constant, if need be */
		tj_scope *s = tj_push(m->c);
		tj_tensor *w = t->t ? t->t : weight(site, m, t, dtype);
		t->t = tj_is_poison(w) ? NULL : tj_retain(w);
		tj_pop(s);
		if (!t->t) return false;
		m->freeze[m->nfreeze++] = &t->t;
	}
	m->freeze[m->nfreeze] = (tj_tensor **)(uintptr_t)TJ_END_VAR;
	return true;
}

/* ---- inputs and outputs ---- */
static tj_onnx_value described(const ox_info *v)
{
	tj_onnx_value d = { .name = v->name, .dtype = TJ_F32, .rank = v->rank };
	ox_dtype(v->type, &d.dtype);
	memcpy(d.dim, v->dim, sizeof d.dim);
	memcpy(d.symbol, v->symbol, sizeof d.symbol);
	return d;
}

static bool list_ends(tj_model *m)
{
	const ox_graph *g = m->graph;
	m->in = calloc((size_t)g->nin + 1, sizeof *m->in);
	m->out = calloc((size_t)g->nout + 1, sizeof *m->out);
	m->in_value = calloc((size_t)g->nin + 1, sizeof *m->in_value);
	if (!m->in || !m->out || !m->in_value) return false;
	for (int i = 0; i < g->nin; i++) {
		if (g->in[i].initialized) continue;
		m->in[m->nin] = described(&g->in[i]);
		m->in_value[m->nin++] = g->in[i].value;
	}
	for (int i = 0; i < g->nout; i++) m->out[m->nout++] = described(&g->out[i]);
	return true;
}

static int by_op(const void *a, const void *b) { return strcmp(((const tj_onnx_count *)a)->op, ((const tj_onnx_count *)b)->op); }

static int nodes_of(const ox_graph *g, tj_onnx_count *to, int n)
{
	for (int i = 0; i < g->nnode; i++) {
		if (to) to[n] = (tj_onnx_count){ g->node[i].op, 1 };
		n++;
		for (int k = 0; k < g->node[i].nattr; k++)
			if (g->node[i].attr[k].g) n = nodes_of(g->node[i].attr[k].g, to, n);
	}
	return n;
}

static bool count_ops(tj_model *m)
{
	const int n = nodes_of(m->graph, NULL, 0);
	m->count = calloc((size_t)n + 1, sizeof *m->count);
	if (!m->count) return false;
	nodes_of(m->graph, m->count, 0);
	qsort(m->count, (size_t)n, sizeof *m->count, by_op);
	for (int i = 0; i < n; i++) {
		if (m->ncount && !strcmp(m->count[m->ncount - 1].op, m->count[i].op))
			m->count[m->ncount - 1].nodes++;
		else
			m->count[m->ncount++] = m->count[i];
	}
	return true;
}

/* ---- the function ---- */
enum { MOST_LETTERS = 31, MOST_NAMES = 32 }; /* of .shapes; names beyond these are left out */

static bool is_name(const char *s)
{
	const size_t n = strlen(s);
	if (!n || n > MOST_LETTERS || (s[0] >= '0' && s[0] <= '9')) return false;
	for (size_t i = 0; i < n; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", s[i])) return false;
	return strcmp(s, "_") != 0;
}

typedef struct size_names {
	const char *v[MOST_NAMES];
	int n;
} size_names;

static bool is_size_name(size_names *names, const char *s)
{
	if (!s || !is_name(s)) return false;
	for (int i = 0; i < names->n; i++)
		if (!strcmp(names->v[i], s)) return true;
	if (names->n == MOST_NAMES) return false;
	names->v[names->n++] = s;
	return true;
}

/* What the file says of its inputs, and the program of their sizes, for .shapes: "x: f32[batch,3,_,_], ...; batch in 1..8"; NULL: neither
 * names a size. */
static char *shapes_of(const tj_model *m, const char *sizes)
{
	char *text = NULL;
	size_t bytes;
	size_names names = { .n = 0 };
	FILE *f = open_memstream(&text, &bytes);
	if (!f) return NULL;
	for (int i = 0; i < m->nin; i++) {
		const tj_onnx_value *v = &m->in[i];
		fputs(i ? ", " : "", f);
		if (is_name(v->name)) fprintf(f, "%s: ", v->name);
		if (v->rank < 0)
			fputs("_", f);
		else
			fprintf(f, "%s[", tj_dtype_name(v->dtype));
		for (int k = 0; k < v->rank; k++) {
			fputs(k ? "," : "", f);
			if (v->dim[k] >= 0)
				fprintf(f, "%lld", (long long)v->dim[k]);
			else
				fputs(is_size_name(&names, v->symbol[k]) ? v->symbol[k] : "_", f);
		}
		if (v->rank >= 0) fputs("]", f);
	}
	if (sizes) fprintf(f, "; %s", sizes);
	if (!fclose(f) && (names.n || sizes)) return text;
	free(text);
	return NULL;
}

static bool make_function(const char *site, tj_model *m, const tj_onnx_opts *o)
{
	if (o->no_shapes && o->sizes) {
		tj_fail_at(site, TJ_ERR_ARG, op, "leave one of them out", ".sizes and .no_shapes exclude each other");
		return false;
	}
	m->shapes = o->no_shapes ? NULL : shapes_of(m, o->sizes);
	const tj_compile_opts c = { .size = sizeof c,
		                    .name = o->name ? o->name : m->base,
		                    .nin = m->nin,
		                    .nout = m->nout,
		                    .mode = o->mode,
		                    .numerics = o->numerics,
		                    .dynamic = o->dynamic,
		                    .shapes = m->shapes,
		                    .freeze = (tj_vars)m->freeze };
	m->f = tj_compile_at(site, m->c, ox_body, m, &c);
	return m->f != NULL;
}

/* ---- lines of errors: they stay until the last tj_close() ---- */
static void free_lines(void *lines)
{
	ox_arena_free(lines);
	free(lines);
}

static bool begin_lines(tj_model *m)
{
	const char *slash = strrchr(m->path, '/'), *base = slash ? slash + 1 : m->path;
	m->lines = calloc(1, sizeof *m->lines);
	char *s = m->lines ? ox_take(m->lines, strlen(base) + 1) : NULL;
	if (s) m->base = strcpy(s, base);
	return s != NULL;
}

/* A tensor that is never released holds them. */
static void leave_lines(tj_model *m)
{
	static const unsigned char nothing[1];
	if (!m->lines) return;
	if (!m->f) { /* no op has seen them */
		free_lines(m->lines);
		return;
	}
	tj_scope *s = tj_push_at(op, m->c);
	tj_tensor *t = tj_wrap_at(op, m->c, TJ_U8, (const int64_t[]){ 1, TJ_END_DIM }, NULL, nothing, free_lines, m->lines);
	if (!tj_is_poison(t)) tj_retain_at(op, t); /* else they are lost: better than a line that is gone */
	tj_pop_at(op, s);
}

/* ---- opening ---- */
static bool read_model(tj_model *m, ox_refusals *r, kit_why *w)
{
	size_t bytes;
	const unsigned char *v = kit_map_data(m->map, &bytes);
	return ox_decode(m, (ox_wire){ v, v + bytes }, w) && ox_link(m, r, w) && ((list_ends(m) && count_ops(m)) || kit_no_memory(w));
}

static void refused(const char *site, const tj_model *m, const ox_refusals *r)
{
	if (r->n == 1)
		tj_fail_at(site, TJ_ERR_ARG, op, "tj show lists what a model needs", "%s: %s", m->path, r->first);
	else
		tj_fail_at(site, TJ_ERR_ARG, op, "tj show lists all of them, .on_refused gets them", "%s: %s; and %d more", m->path,
		           r->first, r->n - 1);
}

tj_model *tj_onnx_open_at(const char *site, tj_ctx *c, const char *path, const tj_onnx_opts *opts)
{
	KIT_OPTIONS(tj_onnx_opts, o, opts, NULL);
	kit_why w = { 0 };
	ox_refusals r = { .tell = o.on_refused, .self = o.on_refused_self };
	tj_model *m = calloc(1, sizeof *m);
	if (m) m->c = c;
	bool ok = (m || kit_no_memory(&w)) && kit_map_path(path, &m->path, &m->map, &w) && (begin_lines(m) || kit_no_memory(&w)) &&
	          read_model(m, &r, &w);
	if (!ok)
		kit_report(site, op, path, &w);
	else if (r.n)
		refused(site, m, &r), ok = false;
	ok = ok && make_weights(site, m) && ox_quantise(site, m, &o) && make_function(site, m, &o);
	if (ok) return m;
	tj_model_close(m);
	return NULL;
}

static void drop_maps(const ox_graph *g)
{
	for (int i = 0; g && i < g->ninit; i++) kit_map_drop(g->init[i].map);
	for (int i = 0; g && i < g->npreset; i++)
		if (g->preset[i].t) kit_map_drop(g->preset[i].t->map);
	for (int i = 0; g && i < g->nnode; i++)
		for (int k = 0; k < g->node[i].nattr; k++) {
			if (g->node[i].attr[k].t) kit_map_drop(g->node[i].attr[k].t->map);
			drop_maps(g->node[i].attr[k].g);
		}
}

void tj_model_close(tj_model *m)
{
	if (!m) return;
	if (m->f) tj_fn_free_at(m->base, m->f);
	leave_lines(m);
	for (int i = 0; i < m->nfreeze; i++) tj_release_at(m->base, *m->freeze[i]);
	drop_maps(m->graph);
	for (int i = 0; i < m->nfn; i++) drop_maps(&m->fn[i]);
	kit_map_drop(m->map);
	free(m->literal);
	free(m->maker);
	free(m->freeze);
	free(m->in);
	free(m->out);
	free(m->in_value);
	free(m->count);
	free(m->shapes);
	free(m->path);
	ox_arena_free(&m->arena);
	free(m);
}

/* ---- what it says ---- */
tj_fn *tj_model_fn(const tj_model *m) { return m ? m->f : NULL; }

const tj_onnx_value *tj_model_input(const tj_model *m, int i) { return m && i >= 0 && i < m->nin ? &m->in[i] : NULL; }

const tj_onnx_value *tj_model_output(const tj_model *m, int i) { return m && i >= 0 && i < m->nout ? &m->out[i] : NULL; }

const tj_onnx_count *tj_model_op(const tj_model *m, int i) { return m && i >= 0 && i < m->ncount ? &m->count[i] : NULL; }

bool tj_model_metadata(const tj_model *m, int i, const char **key, const char **value)
{
	if (!m || i < 0 || i >= m->nmeta) return false;
	*key = m->meta[i].key;
	*value = m->meta[i].value;
	return true;
}

void tj_model_about(const tj_model *m, tj_onnx_about *out)
{
	if (!m || !out) return;
	tj_onnx_about a = { .size = out->size,
		            .ir = m->ir,
		            .version = m->version,
		            .producer = m->producer,
		            .producer_version = m->producer_version,
		            .domain = m->domain,
		            .graph = m->graph->name,
		            .doc = m->doc };
	for (int i = 0; i < m->nimport; i++)
		if (!*m->import[i].domain) a.opset = m->import[i].version;
	for (int i = 0; i < m->ncount; i++) a.nodes += m->count[i].nodes;
	for (int i = 0; i < m->nvalue; i++)
		if (m->literal[i]) a.initializers++, a.weight_bytes += m->literal[i]->bytes;
	memcpy(out, &a, out->size && out->size < sizeof a ? out->size : sizeof a);
}
