/* SPDX-License-Identifier: MIT */
/* decode: the messages of onnx.proto as structs. Texts are copied, tensors and lists of floats stay in the file where they can. Fields that
 * a reader may skip (doc strings of nodes, training, quantisation notes) are skipped. */
#include "kit/models/models.h"

enum { DEEPEST = 16 }; /* graphs in graphs */

typedef struct decoder {
	tj_model *m;
	kit_why *why;
	int depth;
} decoder;

static bool wrong(decoder *d, const char *what) { return kit_no(d->why, TJ_ERR_PARSE, "%s", what); }

static void *take(decoder *d, size_t n, size_t size)
{
	void *p = size && n > SIZE_MAX / size ? NULL : ox_take(&d->m->arena, n * size);
	if (!p) kit_no_memory(d->why);
	return p;
}

static bool text(decoder *d, const ox_field *f, const char **to)
{
	const size_t n = ox_bytes(f->bytes);
	if (f->type != 2 || memchr(f->bytes.at, 0, n)) return wrong(d, "a name in it is no text");
	char *s = take(d, n + 1, 1);
	if (!s) return false;
	memcpy(s, f->bytes.at, n);
	*to = s;
	return true;
}

/* How often a message has field `number`. */
static bool count(decoder *d, ox_wire w, uint32_t number, int *n)
{
	ox_field f;
	*n = 0;
	while (ox_next(&w, &f, d->why)) *n += f.number == number && f.type == 2;
	return d->why->code == TJ_OK;
}

/* A list of `size` bytes for each field `number`. */
static bool list(decoder *d, ox_wire w, uint32_t number, size_t size, void *to, int *n)
{
	int most;
	if (!count(d, w, number, &most)) return false;
	void *v = take(d, (size_t)most, size);
	memcpy(to, &v, sizeof v);
	*n = 0;
	return v != NULL;
}

/* ---- lists of numbers: packed or one by one ---- */
static int64_t most_numbers(decoder *d, ox_wire w, uint32_t number)
{
	ox_field f;
	int64_t n = 0;
	while (ox_next(&w, &f, d->why)) n += f.number == number ? f.type == 2 ? (int64_t)ox_bytes(f.bytes) : 1 : 0;
	return n;
}

static bool integers(decoder *d, ox_wire w, uint32_t number, int64_t **to, int64_t *n)
{
	ox_field f;
	int64_t most = most_numbers(d, w, number);
	if (d->why->code != TJ_OK || !(*to = take(d, (size_t)most, sizeof **to))) return false;
	for (*n = 0; ox_next(&w, &f, d->why);) {
		if (f.number != number) continue;
		if (f.type == 0)
			(*to)[(*n)++] = (int64_t)f.value;
		else if (f.type != 2)
			return wrong(d, "a list of integers in it is none");
		for (uint64_t v; f.type == 2 && f.bytes.at < f.bytes.end; (*to)[(*n)++] = (int64_t)v)
			if (!ox_varint(&f.bytes, &v)) return wrong(d, "an integer in it is cut");
	}
	return true;
}

/* Numbers of `width` bytes, little endian. One packed list stays where it is. */
static bool plain(decoder *d, ox_wire w, uint32_t number, size_t width, const unsigned char **to, size_t *bytes)
{
	ox_field f;
	ox_wire all = w;
	size_t total = 0;
	int parts = 0;
	const int one = width == 4 ? 5 : 1;
	for (; ox_next(&w, &f, d->why); parts += f.number == number) {
		if (f.number != number) continue;
		if (f.type != one && (f.type != 2 || ox_bytes(f.bytes) % width)) return wrong(d, "a list of floats in it is none");
		total += f.type == 2 ? ox_bytes(f.bytes) : width;
		*to = f.bytes.at;
	}
	*bytes = total;
	if (d->why->code != TJ_OK || (parts == 1 && total != width) || !parts) return d->why->code == TJ_OK;
	unsigned char *v = take(d, total, 1);
	if (!v) return false;
	*to = v;
	while (ox_next(&all, &f, d->why)) {
		if (f.number != number) continue;
		const size_t n = f.type == 2 ? ox_bytes(f.bytes) : width;
		for (size_t k = 0; f.type != 2 && k < width; k++) v[k] = (unsigned char)(f.value >> 8 * k);
		if (f.type == 2) memcpy(v, f.bytes.at, n);
		v += n;
	}
	return true;
}

/* ---- tensors ---- */
static bool entry(decoder *d, ox_wire w, ox_pair *p) /* StringStringEntryProto */
{
	ox_field f;
	p->key = p->value = "";
	while (ox_next(&w, &f, d->why))
		if ((f.number == 1 && !text(d, &f, &p->key)) || (f.number == 2 && !text(d, &f, &p->value))) return false;
	return d->why->code == TJ_OK;
}

static bool external(decoder *d, ox_wire w, ox_tensor *t)
{
	ox_pair p;
	if (!entry(d, w, &p)) return false;
	char *end = (char *)(uintptr_t)p.value;
	if (!strcmp(p.key, "location")) t->location = p.value;
	if (!strcmp(p.key, "offset")) t->offset = strtoll(p.value, &end, 10);
	if (!strcmp(p.key, "length")) t->length = strtoll(p.value, &end, 10);
	const bool number = !strcmp(p.key, "offset") || !strcmp(p.key, "length");
	return !number || (*p.value && !*end && t->offset >= 0 && t->length >= -1) || wrong(d, "the place of external data is no number");
}

/* int32_data and int64_data hold narrow types, too: as many bytes of each number as the type has. */
static bool narrow(decoder *d, ox_tensor *t, ox_wire w, uint32_t number, size_t width)
{
	int64_t *v, n;
	if (!integers(d, w, number, &v, &n)) return false;
	unsigned char *to = take(d, (size_t)n, width);
	if (!to) return false;
	for (int64_t k = 0; k < n; k++) memcpy(to + (size_t)k * width, &v[k], width);
	t->data = to;
	t->bytes = (size_t)n * width;
	return true;
}

static bool typed_data(decoder *d, ox_tensor *t, ox_wire w)
{
	tj_dtype dtype;
	if (!ox_dtype(t->type, &dtype)) return true; /* refused later, by name */
	if (dtype == TJ_F32) return plain(d, w, 4, 4, &t->data, &t->bytes);
	if (dtype == TJ_F64) return plain(d, w, 10, 8, &t->data, &t->bytes);
	return narrow(d, t, w, dtype == TJ_I64 ? 7 : 5, tj_dtype_size(dtype));
}

static bool tensor_field(decoder *d, const ox_field *f, ox_tensor *t, bool *raw, bool *outside)
{
	if (f->number == 2) t->type = (int64_t)f->value;
	if (f->number == 8) return text(d, f, &t->name);
	if (f->number == 3) return wrong(d, "a tensor in it has segments, which no writer makes");
	if (f->number == 14) *outside = f->value == 1;
	if (f->number == 13) return f->type == 2 ? external(d, f->bytes, t) : wrong(d, "the place of external data is no text");
	if (f->number != 9) return true;
	if (f->type != 2) return wrong(d, "raw data are no bytes");
	*raw = true;
	t->data = f->bytes.at;
	t->bytes = ox_bytes(f->bytes);
	return true;
}

static bool tensor(decoder *d, ox_wire w, ox_tensor *t)
{
	ox_field f;
	int64_t *dims, n;
	bool raw = false, outside = false;
	const ox_wire all = w;
	*t = (ox_tensor){ .name = "", .length = -1, .data = (const unsigned char *)"" };
	while (ox_next(&w, &f, d->why))
		if (!tensor_field(d, &f, t, &raw, &outside)) return false;
	if (d->why->code != TJ_OK || !integers(d, all, 1, &dims, &n)) return false;
	if (n > TJ_MAX_RANK)
		return kit_no(d->why, TJ_ERR_LIMIT, "tensor %.80s has %lld axes; %d are possible", t->name, (long long)n, TJ_MAX_RANK);
	t->rank = (int)n;
	for (int i = 0; i < t->rank; i++) t->dim[i] = dims[i];
	t->dim[n] = TJ_END_DIM;
	if (outside && !t->location) return wrong(d, "external data have no location");
	if (!outside) t->location = NULL;
	return raw || outside || typed_data(d, t, all);
}

/* ---- attributes ---- */
static bool graph(decoder *d, ox_wire w, ox_graph *g, bool function);

static bool sparse(decoder *d, ox_wire w, ox_tensor *t)
{
	(void)w;
	*t = (ox_tensor){ .name = "", .type = -1, .data = (const unsigned char *)"", .length = -1, .dim = { TJ_END_DIM } };
	return d->why->code == TJ_OK;
}

static bool inner_graph(decoder *d, ox_wire w, ox_attr *a)
{
	if (d->depth >= DEEPEST) return kit_no(d->why, TJ_ERR_LIMIT, "graphs in it are nested deeper than %d", DEEPEST);
	if (!(a->g = take(d, 1, sizeof *a->g))) return false;
	d->depth++;
	const bool ok = graph(d, w, a->g, false);
	d->depth--;
	return ok;
}

static bool attribute_field(decoder *d, const ox_field *f, ox_attr *a)
{
	union {
		uint32_t u;
		float f;
	} bits = { (uint32_t)f->value };
	if (f->number == 1) return text(d, f, &a->name);
	if (f->number == 21) return text(d, f, &a->ref);
	if (f->number == 20) a->type = f->value > 99 ? 99 : (int)f->value;
	if (f->number == 2) a->f = bits.f;
	if (f->number == 3) a->i = (int64_t)f->value;
	if (f->number == 4) return text(d, f, &a->s);
	if (f->number != 5 && f->number != 6 && f->number != 22) return true;
	if (f->type != 2) return wrong(d, "an attribute is no message");
	if (f->number == 6) return inner_graph(d, f->bytes, a);
	if (!(a->t = take(d, 1, sizeof *a->t))) return false;
	return f->number == 22 ? sparse(d, f->bytes, a->t) : tensor(d, f->bytes, a->t);
}

static bool strings(decoder *d, ox_wire w, ox_attr *a)
{
	ox_field f;
	int n;
	if (!list(d, w, 9, sizeof *a->strings, &a->strings, &n)) return false;
	while (ox_next(&w, &f, d->why))
		if (f.number == 9 && !text(d, &f, &a->strings[n++])) return false;
	a->n = n;
	return true;
}

/* Files before IR version 3 have no types. */
static int guessed_type(const ox_attr *a)
{
	return a->g ? OX_A_GRAPH : a->t ? OX_A_TENSOR : *a->s ? OX_A_STRING : a->i ? OX_A_INT : a->f ? OX_A_FLOAT : OX_A_INTS;
}

static bool attribute(decoder *d, ox_wire w, ox_attr *a)
{
	ox_field f;
	const ox_wire all = w;
	size_t bytes = 0;
	const unsigned char *floats = NULL;
	*a = (ox_attr){ .name = "", .s = "" };
	while (ox_next(&w, &f, d->why))
		if (!attribute_field(d, &f, a)) return false;
	if (d->why->code != TJ_OK) return false;
	if (a->ref && !*a->ref) a->ref = NULL;
	if (!a->type && !a->ref) a->type = guessed_type(a);
	if (a->type == OX_A_INTS) return integers(d, all, 8, &a->ints, &a->n);
	if (a->type == OX_A_STRINGS) return strings(d, all, a);
	if (a->type != OX_A_FLOATS) return true;
	if (!plain(d, all, 7, 4, &floats, &bytes) || !(a->floats = take(d, bytes, 1))) return false;
	if (bytes) memcpy(a->floats, floats, bytes);
	a->n = (int64_t)(bytes / 4);
	return true;
}

/* ---- types of inputs and outputs ---- */
static bool size_of(decoder *d, ox_wire w, ox_info *v)
{
	ox_field f;
	if (v->rank >= TJ_MAX_RANK) return kit_no(d->why, TJ_ERR_LIMIT, "%.80s has more than %d axes", v->name, TJ_MAX_RANK);
	v->dim[v->rank] = -1;
	while (ox_next(&w, &f, d->why)) {
		if (f.number == 1 && f.type == 0 && (int64_t)f.value >= 0) v->dim[v->rank] = (int64_t)f.value;
		if (f.number == 2 && !text(d, &f, &v->symbol[v->rank])) return false;
	}
	if (v->symbol[v->rank] && !*v->symbol[v->rank]) v->symbol[v->rank] = NULL;
	v->rank++;
	return d->why->code == TJ_OK;
}

static bool shape(decoder *d, ox_wire w, ox_info *v)
{
	ox_field f;
	v->rank = 0;
	while (ox_next(&w, &f, d->why))
		if (f.number == 1 && f.type == 2 && !size_of(d, f.bytes, v)) return false;
	v->dim[v->rank] = TJ_END_DIM;
	return d->why->code == TJ_OK;
}

static bool tensor_type(decoder *d, ox_wire w, ox_info *v)
{
	ox_field f;
	while (ox_next(&w, &f, d->why)) {
		if (f.number == 1) v->type = (int64_t)f.value;
		if (f.number == 2 && f.type == 2 && !shape(d, f.bytes, v)) return false;
	}
	return d->why->code == TJ_OK;
}

static bool type(decoder *d, ox_wire w, ox_info *v)
{
	static const char *const kinds[] = { NULL, "tensor", NULL, NULL, "sequence", "map", NULL, "opaque", "sparse tensor", "optional" };
	ox_field f;
	while (ox_next(&w, &f, d->why)) {
		if (f.number < sizeof kinds / sizeof *kinds && kinds[f.number]) v->kind = kinds[f.number];
		if (f.number == 1 && f.type == 2 && !tensor_type(d, f.bytes, v)) return false;
	}
	return d->why->code == TJ_OK;
}

static bool info(decoder *d, ox_wire w, ox_info *v)
{
	ox_field f;
	*v = (ox_info){ .name = "", .kind = "", .rank = -1, .value = -1 };
	while (ox_next(&w, &f, d->why)) {
		if (f.number == 1 && !text(d, &f, &v->name)) return false;
		if (f.number == 2 && f.type == 2 && !type(d, f.bytes, v)) return false;
	}
	return d->why->code == TJ_OK;
}

/* ---- nodes and graphs ---- */
static bool node(decoder *d, ox_wire w, ox_node *n)
{
	ox_field f;
	*n = (ox_node){ .name = "", .op = "", .domain = "" };
	if (!list(d, w, 1, sizeof *n->in_name, &n->in_name, &n->nin) || !list(d, w, 2, sizeof *n->out_name, &n->out_name, &n->nout) ||
	    !list(d, w, 5, sizeof *n->attr, &n->attr, &n->nattr))
		return false;
	while (ox_next(&w, &f, d->why)) {
		const bool ok = f.number == 1                  ? text(d, &f, &n->in_name[n->nin++])
		                : f.number == 2                ? text(d, &f, &n->out_name[n->nout++])
		                : f.number == 3                ? text(d, &f, &n->name)
		                : f.number == 4                ? text(d, &f, &n->op)
		                : f.number == 7                ? text(d, &f, &n->domain)
		                : f.number == 5 && f.type == 2 ? attribute(d, f.bytes, &n->attr[n->nattr++])
		                                               : true;
		if (!ok) return false;
	}
	if (!strcmp(n->domain, "ai.onnx")) n->domain = "";
	n->in = take(d, (size_t)n->nin, sizeof *n->in);
	n->out = take(d, (size_t)n->nout, sizeof *n->out);
	return n->in && n->out && d->why->code == TJ_OK;
}

static bool import(decoder *d, ox_wire w, ox_import *i)
{
	ox_field f;
	i->domain = "";
	while (ox_next(&w, &f, d->why)) {
		if (f.number == 1 && !text(d, &f, &i->domain)) return false;
		if (f.number == 2) i->version = (int64_t)f.value;
	}
	if (!strcmp(i->domain, "ai.onnx")) i->domain = "";
	return d->why->code == TJ_OK;
}

/* FunctionProto has names of inputs and outputs only. */
static bool bare(decoder *d, const ox_field *f, ox_info *v)
{
	*v = (ox_info){ .kind = "tensor", .rank = -1, .value = -1 };
	return text(d, f, &v->name);
}

static bool graph_field(decoder *d, const ox_field *f, ox_graph *g)
{
	if (f->number == 1) return f->type == 2 ? node(d, f->bytes, &g->node[g->nnode++]) : true;
	if (f->number == 2) return text(d, f, &g->name);
	if (f->type != 2) return true;
	if (f->number == 5) return tensor(d, f->bytes, &g->init[g->ninit++]);
	if (f->number == 11) return info(d, f->bytes, &g->in[g->nin++]);
	if (f->number == 12) return info(d, f->bytes, &g->out[g->nout++]);
	if (f->number == 13) return info(d, f->bytes, &g->info[g->ninfo++]);
	return f->number != 15 || wrong(d, "it has sparse initializers, which are not supported");
}

static bool function_field(decoder *d, const ox_field *f, ox_graph *g)
{
	if (f->number == 1) return text(d, f, &g->name);
	if (f->number == 10) return text(d, f, &g->domain);
	if (f->type != 2) return true;
	if (f->number == 4) return bare(d, f, &g->in[g->nin++]);
	if (f->number == 5) return bare(d, f, &g->out[g->nout++]);
	if (f->number == 7) return node(d, f->bytes, &g->node[g->nnode++]);
	if (f->number == 9) return import(d, f->bytes, &g->import[g->nimport++]);
	return f->number != 11 || attribute(d, f->bytes, &g->preset[g->npreset++]);
}

static bool graph(decoder *d, ox_wire w, ox_graph *g, bool function)
{
	ox_field f;
	g->name = g->domain = "";
	if (!list(d, w, function ? 7 : 1, sizeof *g->node, &g->node, &g->nnode) ||
	    !list(d, w, function ? 4 : 11, sizeof *g->in, &g->in, &g->nin) ||
	    !list(d, w, function ? 5 : 12, sizeof *g->out, &g->out, &g->nout) || !list(d, w, 5, sizeof *g->init, &g->init, &g->ninit) ||
	    !list(d, w, 13, sizeof *g->info, &g->info, &g->ninfo) || !list(d, w, 11, sizeof *g->preset, &g->preset, &g->npreset) ||
	    !list(d, w, 9, sizeof *g->import, &g->import, &g->nimport))
		return false;
	while (ox_next(&w, &f, d->why))
		if (!(function ? function_field : graph_field)(d, &f, g)) return false;
	if (!strcmp(g->domain, "ai.onnx")) g->domain = "";
	return d->why->code == TJ_OK;
}

/* ---- the model ---- */
static bool model_field(decoder *d, const ox_field *f)
{
	tj_model *m = d->m;
	if (f->number == 1) m->ir = (int64_t)f->value;
	if (f->number == 5) m->version = (int64_t)f->value;
	if (f->number == 2) return text(d, f, &m->producer);
	if (f->number == 3) return text(d, f, &m->producer_version);
	if (f->number == 4) return text(d, f, &m->domain);
	if (f->number == 6) return text(d, f, &m->doc);
	if (f->type != 2) return true;
	if (f->number == 8) return import(d, f->bytes, &m->import[m->nimport++]);
	if (f->number == 14) return entry(d, f->bytes, &m->meta[m->nmeta++]);
	if (f->number == 25) return graph(d, f->bytes, &m->fn[m->nfn++], true);
	if (f->number != 7) return true;
	if (m->graph) return wrong(d, "it has two graphs");
	return (m->graph = take(d, 1, sizeof *m->graph)) && graph(d, f->bytes, m->graph, false);
}

bool ox_decode(tj_model *m, ox_wire w, kit_why *why)
{
	decoder d = { m, why, 0 };
	ox_field f;
	m->producer = m->producer_version = m->domain = m->doc = "";
	if (!list(&d, w, 8, sizeof *m->import, &m->import, &m->nimport) || !list(&d, w, 14, sizeof *m->meta, &m->meta, &m->nmeta) ||
	    !list(&d, w, 25, sizeof *m->fn, &m->fn, &m->nfn))
		return false;
	while (ox_next(&w, &f, why))
		if (!model_field(&d, &f)) return false;
	if (why->code != TJ_OK) return false;
	if (!m->graph) return wrong(&d, "it is no ONNX file: it has no graph");
	return m->ir > 0 || wrong(&d, "it is no ONNX file: it has no IR version");
}
