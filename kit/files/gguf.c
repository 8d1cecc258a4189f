/* SPDX-License-Identifier: MIT */
/* gguf: a file that is mapped and checked whole, and its tensors: over the map, or made of blocks of small integers.
 *
 *   "GGUF"   u32: version   u64: tensors   u64: values   the values   the tensors' names, sizes, types and offsets   padding   data
 *
 * All is little endian. Sizes come with the innermost first, in reverse of ours. */
#include "kit/files/gguf.h"

#include <stdlib.h>

#define SHORT "%.80s" /* the begin of a name, for messages */

typedef struct entry {
	tj_gguf_entry e;
	const gguf_type *type;
} entry;

struct tj_gguf {
	tj_ctx *c;
	kit_map *map;
	char *path;
	gguf_memory *memory;
	entry *entry;         /* in the order of the file */
	const entry **by_name;
	int64_t count;
	tj_gguf_value *value; /* sorted by key */
	int64_t values;
};

/* ---- one tensor ---- */
static bool read_dims(gguf_at *f, entry *t)
{
	uint64_t rank, x;
	tj_gguf_entry *e = &t->e;
	if (!gguf_number(f, 4, &rank)) return false;
	if (rank > TJ_MAX_RANK)
		return kit_no(f->w, TJ_ERR_LIMIT, "tensor " SHORT ": it has %llu axes; %d are possible", e->name, (unsigned long long)rank, TJ_MAX_RANK);
	e->rank = (int)rank;
	for (int i = e->rank; i--;) {
		if (!gguf_number(f, 8, &x)) return false;
		if (x > INT64_MAX) return kit_no(f->w, TJ_ERR_PARSE, "tensor " SHORT ": a size of it is %llu", e->name, (unsigned long long)x);
		e->dim[i] = (int64_t)x;
	}
	e->dim[rank] = TJ_END_DIM;
	return true;
}

static bool read_type(gguf_at *f, entry *t)
{
	uint64_t x;
	size_t elements; /* those of the tensor, as bytes */
	tj_gguf_entry *e = &t->e;
	if (!gguf_number(f, 4, &x)) return false;
	t->type = gguf_type_of((uint32_t)x);
	if (!t->type) {
		const char *name = gguf_name_of((uint32_t)x);
		return kit_no(f->w, TJ_ERR_DTYPE, "tensor " SHORT ": tjit does not read its type %llu%s%s", e->name, (unsigned long long)x,
		              name ? ", " : "", name ? name : "");
	}
	e->type = t->type->name;
	e->dtype = t->type->dtype;
	e->group = t->type->group;
	const int64_t row = e->rank ? e->dim[e->rank - 1] : 1;
	if (row % t->type->elements)
		return kit_no(f->w, TJ_ERR_PARSE, "tensor " SHORT ": its rows of %lld are no whole blocks of %d", e->name, (long long)row,
		              t->type->elements);
	if (!kit_bytes_of(TJ_U8, e->rank, e->dim, &elements) ||
	    __builtin_mul_overflow(elements / (size_t)t->type->elements, (size_t)t->type->bytes, &e->bytes) || elements > INT64_MAX / 16)
		return kit_no(f->w, TJ_ERR_LIMIT, "tensor " SHORT ": it is too large", e->name);
	return true;
}

/* The offset counts from the data, whose place is not known yet: it is kept as a pointer from the begin of the file. */
static bool read_entry(gguf_at *f, gguf_memory **m, entry *t)
{
	size_t bytes;
	uint64_t offset;
	*t = (entry){ { .name = gguf_text(f, m, &bytes) }, NULL };
	if (!t->e.name) return false;
	if (!bytes || strlen(t->e.name) != bytes || !kit_is_utf8(t->e.name, bytes))
		return kit_no(f->w, TJ_ERR_PARSE, "the name of a tensor, before byte %zu, is empty, has a zero, or is no UTF-8", f->at);
	if (!read_dims(f, t) || !read_type(f, t) || !gguf_number(f, 8, &offset)) return false;
	if (offset > f->n) return kit_no(f->w, TJ_ERR_PARSE, "tensor " SHORT ": its data are behind the end of the file", t->e.name);
	t->e.data = f->v + offset;
	return true;
}

/* ---- all of them ---- */
static int by_name(const void *a, const void *b)
{
	const entry *const *x = a, *const *y = b;
	return strcmp((*x)->e.name, (*y)->e.name);
}
static int by_key(const void *a, const void *b) { return strcmp(((const tj_gguf_value *)a)->key, ((const tj_gguf_value *)b)->key); }
static int by_place(const void *a, const void *b)
{
	const entry *const *x = a, *const *y = b;
	const unsigned char *p = (*x)->e.data, *q = (*y)->e.data;
	return p != q ? (p < q ? -1 : 1) : ((*x)->e.bytes > (*y)->e.bytes) - ((*x)->e.bytes < (*y)->e.bytes);
}

static bool find_alignment(const tj_gguf *g, size_t *alignment, kit_why *w)
{
	const tj_gguf_value *v = tj_gguf_metadata(g, "general.alignment");
	*alignment = GGUF_ALIGNMENT;
	if (!v) return true;
	if (v->type != TJ_GGUF_U32 || v->i < 1 || (v->i & (v->i - 1)))
		return kit_no(w, TJ_ERR_PARSE, "its general.alignment is no u32 that is a power of two");
	*alignment = (size_t)v->i;
	return true;
}

/* Data begin at `base`; they lie in the file, are aligned, and do not overlap. */
static bool check_places(tj_gguf *g, const unsigned char *v, size_t base, size_t n, size_t alignment, kit_why *w)
{
	for (int64_t i = 0; i < g->count; i++) {
		tj_gguf_entry *e = &g->entry[i].e;
		const size_t offset = (size_t)((const unsigned char *)e->data - v);
		if (offset % alignment)
			return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its offset %zu is no multiple of %zu", e->name, offset, alignment);
		if (base > n || offset > n - base || e->bytes > n - base - offset)
			return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its %zu bytes of data are not in the file", e->name, e->bytes);
		e->data = v + base + offset;
		g->by_name[i] = &g->entry[i];
	}
	qsort(g->by_name, (size_t)g->count, sizeof *g->by_name, by_place);
	for (int64_t i = 1; i < g->count; i++) {
		const tj_gguf_entry *a = &g->by_name[i - 1]->e, *b = &g->by_name[i]->e;
		if (a->bytes > (size_t)((const unsigned char *)b->data - (const unsigned char *)a->data))
			return kit_no(w, TJ_ERR_PARSE, "the data of tensors " SHORT " and " SHORT " overlap", a->name, b->name);
	}
	return true;
}

static bool sort_names(tj_gguf *g, kit_why *w)
{
	qsort(g->by_name, (size_t)g->count, sizeof *g->by_name, by_name);
	for (int64_t i = 1; i < g->count; i++)
		if (!by_name(&g->by_name[i - 1], &g->by_name[i]))
			return kit_no(w, TJ_ERR_PARSE, "it has two tensors of the name " SHORT, g->by_name[i]->e.name);
	return true;
}

static bool read_values(tj_gguf *g, gguf_at *f, uint64_t n)
{
	if (!(g->value = gguf_take(&g->memory, (size_t)n, sizeof *g->value, f->w))) return false;
	for (; (uint64_t)g->values < n; g->values++)
		if (!gguf_value(f, &g->memory, &g->value[g->values])) return false;
	qsort(g->value, (size_t)n, sizeof *g->value, by_key);
	for (uint64_t i = 1; i < n; i++)
		if (!by_key(&g->value[i - 1], &g->value[i])) return kit_no(f->w, TJ_ERR_PARSE, "it has two values for " SHORT, g->value[i].key);
	return true;
}

static bool read_head(gguf_at *f, uint64_t *tensors, uint64_t *values)
{
	enum { LEAST_VALUE = 13, LEAST_TENSOR = 24 }; /* bytes */
	uint64_t version;
	if (f->n < 24 || memcmp(f->v, "GGUF", 4)) return kit_no(f->w, TJ_ERR_PARSE, "it is no GGUF file: it does not begin with GGUF");
	f->at = 4;
	if (!gguf_number(f, 4, &version) || !gguf_number(f, 8, tensors) || !gguf_number(f, 8, values)) return false;
	if (version && !(version & 0xFFFF)) return kit_no(f->w, TJ_ERR_PARSE, "it is big endian; only little-endian files are read");
	if (version != 2 && version != GGUF_VERSION)
		return kit_no(f->w, TJ_ERR_PARSE, "it has version %llu; 2 and 3 are read", (unsigned long long)version);
	if (*values > (f->n - f->at) / LEAST_VALUE || *tensors > (f->n - f->at) / LEAST_TENSOR)
		return kit_no(f->w, TJ_ERR_PARSE, "it would have %llu tensors and %llu values, more than there are bytes", (unsigned long long)*tensors,
		              (unsigned long long)*values);
	return true;
}

static bool read_file(tj_gguf *g, kit_why *w)
{
	size_t alignment;
	uint64_t tensors, values;
	gguf_at f = { .w = w };
	f.v = kit_map_data(g->map, &f.n);
	if (!read_head(&f, &tensors, &values) || !read_values(g, &f, values) || !find_alignment(g, &alignment, w)) return false;
	g->entry = gguf_take(&g->memory, (size_t)tensors, sizeof *g->entry, w);
	g->by_name = g->entry ? gguf_take(&g->memory, (size_t)tensors, sizeof *g->by_name, w) : NULL;
	if (!g->by_name) return false;
	for (; (uint64_t)g->count < tensors; g->count++)
		if (!read_entry(&f, &g->memory, &g->entry[g->count])) return false;
	const size_t base = f.at > SIZE_MAX - alignment ? SIZE_MAX : (f.at + alignment - 1) / alignment * alignment;
	return check_places(g, f.v, base, f.n, alignment, w) && sort_names(g, w);
}

/* ---- the handle ---- */
tj_gguf *tj_gguf_open_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	tj_gguf *g = calloc(1, sizeof *g);
	if ((g || kit_no_memory(&w)) && kit_map_path(path, &g->path, &g->map, &w) && read_file(g, &w)) return g->c = c, g;
	kit_report(site, "gguf_open", path, &w);
	tj_gguf_close(g);
	return NULL;
}

void tj_gguf_close(tj_gguf *g)
{
	if (!g) return;
	gguf_forget(g->memory);
	kit_map_drop(g->map);
	free(g->path);
	free(g);
}

int64_t tj_gguf_count(const tj_gguf *g) { return g ? g->count : 0; }
const tj_gguf_entry *tj_gguf_at(const tj_gguf *g, int64_t i) { return g && i >= 0 && i < g->count ? &g->entry[i].e : NULL; }

static const entry *find(const tj_gguf *g, const char *name)
{
	const entry key = { { .name = name }, NULL }, *p = &key;
	const entry **e = g && name ? bsearch(&p, g->by_name, (size_t)g->count, sizeof *g->by_name, by_name) : NULL;
	return e ? *e : NULL;
}

const tj_gguf_entry *tj_gguf_find(const tj_gguf *g, const char *name)
{
	const entry *e = find(g, name);
	return e ? &e->e : NULL;
}

const tj_gguf_value *tj_gguf_metadata(const tj_gguf *g, const char *key)
{
	const tj_gguf_value k = { .key = key };
	return g && key ? bsearch(&k, g->value, (size_t)g->values, sizeof k, by_key) : NULL;
}

const tj_gguf_value *tj_gguf_metadata_at(const tj_gguf *g, int64_t i) { return g && i >= 0 && i < g->values ? &g->value[i] : NULL; }

/* ---- tensors ---- */
static int64_t elements_of(const tj_gguf_entry *e)
{
	int64_t n = 1;
	for (int i = 0; i < e->rank; i++) n *= e->dim[i];
	return n;
}

static tj_tensor *no_memory(const char *site, const char *op, const tj_gguf_entry *e)
{
	return tj_fail_at(site, TJ_ERR_NOMEM, op, NULL, "out of memory for the tensor " SHORT, e->name);
}

static tj_tensor *copied(const char *site, tj_ctx *c, const tj_gguf_entry *e)
{
	void *data = malloc(e->bytes ? e->bytes : 1);
	if (!data) return no_memory(site, "gguf_get", e);
	memcpy(data, e->data, e->bytes);
	return kit_give(site, c, e->dtype, e->dim, NULL, data);
}

static tj_tensor *dequantised(const char *site, tj_ctx *c, const entry *t)
{
	const gguf_type *k = t->type;
	const int64_t n = elements_of(&t->e);
	float *x = malloc(((size_t)n + 1) * sizeof *x);
	if (!x) return no_memory(site, "gguf_get", &t->e);
	const unsigned char *v = t->e.data;
	gguf_block b;
	for (int64_t at = 0; at < n; at += k->elements, v += k->bytes) {
		k->read(v, &b);
		for (int i = 0; i < k->elements; i++) {
			const float y = b.scale[i / k->group] * (float)b.q[i];
			x[at + i] = k->has_min ? y - b.min[i / k->group] : y;
		}
	}
	return kit_give(site, c, TJ_F32, t->e.dim, NULL, x);
}

static const entry *asked(const char *site, const char *op, const tj_gguf *g, const char *name)
{
	if (!g || !name) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", g ? "name" : "file"), NULL;
	const entry *t = find(g, name);
	if (!t) tj_fail_at(site, TJ_ERR_ARG, op, NULL, "%s: it has no tensor " SHORT, g->path, name);
	return t;
}

tj_tensor *tj_gguf_get_at(const char *site, const tj_gguf *g, const char *name)
{
	const entry *t = asked(site, "gguf_get", g, name);
	if (!t) return tj_fail_at(site, TJ_ERR_ARG, "gguf_get", NULL, "no tensor");
	const tj_gguf_entry *e = &t->e;
	if (t->type->group) return dequantised(site, g->c, t);
	if ((uintptr_t)e->data % tj_dtype_size(e->dtype)) return copied(site, g->c, e);
	return kit_map_wrap(site, g->c, e->dtype, e->dim, e->data, g->map);
}

/* ---- integers and scales ---- */
typedef struct parts {
	int8_t *q;
	float *scale, *min; /* min: NULL if the type has none */
} parts;

static bool take_parts(const entry *t, int64_t n, parts *p)
{
	const size_t groups = (size_t)(n / t->type->group) + 1;
	*p = (parts){ malloc((size_t)n + 1), malloc(groups * sizeof *p->scale), t->type->has_min ? malloc(groups * sizeof *p->min) : NULL };
	if (p->q && p->scale && (p->min || !t->type->has_min)) return true;
	free(p->q), free(p->scale), free(p->min);
	return false;
}

static void read_parts(const entry *t, int64_t n, const parts *p)
{
	const gguf_type *k = t->type;
	const unsigned char *v = t->e.data;
	const int groups = k->elements / k->group;
	gguf_block b;
	for (int64_t block = 0; block < n / k->elements; block++, v += k->bytes) {
		k->read(v, &b);
		memcpy(p->q + block * k->elements, b.q, (size_t)k->elements);
		memcpy(p->scale + block * groups, b.scale, (size_t)groups * sizeof *b.scale);
		if (p->min) memcpy(p->min + block * groups, b.min, (size_t)groups * sizeof *b.min);
	}
}

tj_status tj_gguf_get_quantised_at(const char *site, const tj_gguf *g, const char *name, tj_tensor **values, tj_tensor **scales,
                                   tj_tensor **mins)
{
	static const char op[] = "gguf_get_quantised";
	parts p;
	if (values) *values = NULL;
	if (scales) *scales = NULL;
	if (mins) *mins = NULL;
	const entry *t = asked(site, op, g, name);
	if (!t) return TJ_ERR_ARG;
	if (!values || !scales || !t->type->group || (t->type->has_min && !mins)) {
		tj_fail_at(site, TJ_ERR_ARG, op, NULL, "tensor " SHORT ", %s: %s", name, t->type->name,
		           !t->type->group ? "it has no scales; tj_gguf_get() gives it" : "values, scales or mins are NULL, and it has them");
		return TJ_ERR_ARG;
	}
	const int64_t n = elements_of(&t->e);
	if (!take_parts(t, n, &p)) return no_memory(site, op, &t->e), TJ_ERR_NOMEM;
	read_parts(t, n, &p);
	int64_t dim[TJ_MAX_RANK + 1];
	memcpy(dim, t->e.dim, sizeof dim);
	*values = kit_give(site, g->c, TJ_I8, dim, NULL, p.q);
	dim[t->e.rank - 1] /= t->type->group;
	*scales = kit_give(site, g->c, TJ_F32, dim, NULL, p.scale);
	if (p.min) *mins = kit_give(site, g->c, TJ_F32, dim, NULL, p.min);
	return tj_is_poison(*values) || tj_is_poison(*scales) || (p.min && tj_is_poison(*mins)) ? TJ_ERR_NOMEM : TJ_OK;
}
