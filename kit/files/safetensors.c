/* SPDX-License-Identifier: MIT */
/* safetensors: a file that is mapped and checked whole, and its tensors over the map.
 *
 *   8 bytes: size of the header   {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}   the elements of all tensors
 *
 * Offsets count from the end of the header. The data of all tensors fill the rest of the file, without gaps and overlaps. */
#include "kit/files/files.h"

#include <jansson.h>
#include <stdlib.h>

enum { LENGTH = 8, LONGEST_HEADER = 100000000 };

static const struct { const char *name; tj_dtype dtype; } types[] = {
	{ "BOOL", TJ_BOOL }, { "U8", TJ_U8 },   { "I8", TJ_I8 },     { "I16", TJ_I16 }, { "I32", TJ_I32 },
	{ "I64", TJ_I64 },   { "F16", TJ_F16 }, { "BF16", TJ_BF16 }, { "F32", TJ_F32 }, { "F64", TJ_F64 },
};
enum { TYPES = sizeof types / sizeof *types };

struct tj_safetensors {
	tj_ctx *c;
	kit_map *map;
	char *path;
	json_t *header;                  /* has the names and the metadata */
	tj_safetensors_entry *entry;     /* in the order of their data */
	const tj_safetensors_entry **by_name;
	int64_t count;
};

/* ---- one entry of the header ---- */
/* For messages: the begin of a name. */
#define SHORT "%.80s"

static bool read_dtype(const char *name, const json_t *dtype, tj_safetensors_entry *e, kit_why *w)
{
	const char *s = json_string_value(dtype);
	if (!s) return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its dtype is no text", name);
	for (int i = 0; i < TYPES; i++)
		if (!strcmp(s, types[i].name)) return e->dtype = types[i].dtype, true;
	return kit_no(w, TJ_ERR_DTYPE, "tensor " SHORT ": its dtype %.20s is not one of tjit: BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64",
	              name, s);
}

static bool read_shape(const char *name, const json_t *shape, tj_safetensors_entry *e, kit_why *w)
{
	if (!json_is_array(shape)) return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its shape is no list", name);
	const size_t rank = json_array_size(shape);
	if (rank > TJ_MAX_RANK) return kit_no(w, TJ_ERR_LIMIT, "tensor " SHORT ": it has %zu axes; %d are possible", name, rank, TJ_MAX_RANK);
	for (e->rank = 0; e->rank < (int)rank; e->rank++) {
		const json_t *n = json_array_get(shape, (size_t)e->rank);
		if (!json_is_integer(n) || json_integer_value(n) < 0)
			return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": a size of its shape is no whole number from 0", name);
		e->dim[e->rank] = json_integer_value(n);
	}
	e->dim[rank] = TJ_END_DIM;
	return true;
}

static bool read_place(const char *name, const json_t *offsets, const char *data, size_t bytes, tj_safetensors_entry *e, kit_why *w)
{
	const json_t *first = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
	if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(end))
		return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its data_offsets are no list of two whole numbers", name);
	const json_int_t a = json_integer_value(first), z = json_integer_value(end);
	if (a < 0 || z < a || (uint64_t)z > bytes)
		return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its data, from %lld to %lld, are not in the %zu bytes of data", name,
		              (long long)a, (long long)z, bytes);
	if (!kit_bytes_of(e->dtype, e->rank, e->dim, &e->bytes) || e->bytes != (uint64_t)(z - a))
		return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": it has %lld bytes of data, which its shape and dtype do not give", name,
		              (long long)(z - a));
	e->data = data + a;
	return true;
}

static bool read_entry(const char *name, const json_t *j, const char *data, size_t bytes, tj_safetensors_entry *e, kit_why *w)
{
	*e = (tj_safetensors_entry){ .name = name };
	if (!json_is_object(j)) return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": it is no object with dtype, shape and data_offsets", name);
	return read_dtype(name, json_object_get(j, "dtype"), e, w) && read_shape(name, json_object_get(j, "shape"), e, w) &&
	       read_place(name, json_object_get(j, "data_offsets"), data, bytes, e, w);
}

/* ---- the header ---- */
static bool is_metadata(const char *key)
{
	return !strcmp(key, "__metadata__");
}

static bool check_metadata(const json_t *m, kit_why *w)
{
	const char *key;
	json_t *value;
	if (!m) return true;
	if (!json_is_object(m)) return kit_no(w, TJ_ERR_PARSE, "its __metadata__ is no object");
	json_object_foreach((json_t *)(uintptr_t)m, key, value)
		if (!json_is_string(value)) return kit_no(w, TJ_ERR_PARSE, "its __metadata__ has " SHORT ", which is no text", key);
	return true;
}

static int by_place(const void *a, const void *b)
{
	const tj_safetensors_entry *x = a, *y = b;
	if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
	if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
	const tj_safetensors_entry *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

/* Each begins where the one before it ends. */
static bool check_places(const tj_safetensors *s, const char *data, size_t bytes, kit_why *w)
{
	const char *at = data;
	for (int64_t i = 0; i < s->count; i++) {
		const tj_safetensors_entry *e = &s->entry[i];
		if ((const char *)e->data != at)
			return kit_no(w, TJ_ERR_PARSE, "tensor " SHORT ": its data begin %s the end of those before them", e->name,
			              (const char *)e->data < at ? "in front of" : "behind");
		at += e->bytes;
	}
	return at == data + bytes || kit_no(w, TJ_ERR_PARSE, "%zu bytes at its end belong to no tensor", (size_t)(data + bytes - at));
}

static bool read_entries(tj_safetensors *s, const char *data, size_t bytes, kit_why *w)
{
	const size_t n = json_object_size(s->header);
	const char *key;
	json_t *value;
	s->entry = calloc(n + 1, sizeof *s->entry);
	s->by_name = calloc(n + 1, sizeof *s->by_name);
	if (!s->entry || !s->by_name) return kit_no_memory(w);
	json_object_foreach(s->header, key, value)
		if (!is_metadata(key) && !read_entry(key, value, data, bytes, &s->entry[s->count++], w)) return false;
	qsort(s->entry, (size_t)s->count, sizeof *s->entry, by_place);
	for (int64_t i = 0; i < s->count; i++) s->by_name[i] = &s->entry[i];
	qsort(s->by_name, (size_t)s->count, sizeof *s->by_name, by_name);
	return check_metadata(json_object_get(s->header, "__metadata__"), w) && check_places(s, data, bytes, w);
}

static bool read_file(tj_safetensors *s, kit_why *w)
{
	size_t bytes;
	uint64_t n = 0;
	json_error_t e;
	const unsigned char *v = kit_map_data(s->map, &bytes);
	if (bytes < LENGTH) return kit_no(w, TJ_ERR_PARSE, "it is no safetensors file: it has only %zu bytes", bytes);
	for (int i = LENGTH; i--;) n = n << 8 | v[i];
	if (n > LONGEST_HEADER || n > bytes - LENGTH)
		return kit_no(w, TJ_ERR_PARSE, "it is no safetensors file: its header would have %llu bytes", (unsigned long long)n);
	if (!n || v[LENGTH] != '{') return kit_no(w, TJ_ERR_PARSE, "it is no safetensors file: its header does not begin with {");
	s->header = json_loadb((const char *)v + LENGTH, (size_t)n, JSON_REJECT_DUPLICATES, &e);
	if (!s->header) return kit_no(w, TJ_ERR_PARSE, "its header, at byte %d: %s", e.position, e.text);
	return read_entries(s, (const char *)v + LENGTH + n, bytes - LENGTH - (size_t)n, w);
}

/* ---- the handle ---- */
tj_safetensors *tj_safetensors_open_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	tj_safetensors *s = calloc(1, sizeof *s);
	if ((s || kit_no_memory(&w)) && kit_map_path(path, &s->path, &s->map, &w) && read_file(s, &w)) return s->c = c, s;
	kit_report(site, "safetensors_open", path, &w);
	tj_safetensors_close(s);
	return NULL;
}

void tj_safetensors_close(tj_safetensors *s)
{
	if (!s) return;
	json_decref(s->header);
	kit_map_drop(s->map);
	free(s->entry);
	free(s->by_name);
	free(s->path);
	free(s);
}

int64_t tj_safetensors_count(const tj_safetensors *s)
{
	return s ? s->count : 0;
}

const tj_safetensors_entry *tj_safetensors_at(const tj_safetensors *s, int64_t i)
{
	return s && i >= 0 && i < s->count ? &s->entry[i] : NULL;
}

const tj_safetensors_entry *tj_safetensors_find(const tj_safetensors *s, const char *name)
{
	const tj_safetensors_entry key = { .name = name }, *p = &key;
	if (!s || !name) return NULL;
	const tj_safetensors_entry **e = bsearch(&p, s->by_name, (size_t)s->count, sizeof *s->by_name, by_name);
	return e ? *e : NULL;
}

const char *tj_safetensors_metadata(const tj_safetensors *s, const char *key)
{
	return s && key ? json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), key)) : NULL;
}

const char *tj_safetensors_metadata_key(const tj_safetensors *s, int64_t i)
{
	json_t *m = s ? json_object_get(s->header, "__metadata__") : NULL;
	void *at = i < 0 ? NULL : json_object_iter(m);
	for (; at && i; i--) at = json_object_iter_next(m, at);
	return at ? json_object_iter_key(at) : NULL;
}

static bool lies_well(const tj_safetensors_entry *e)
{
	const unsigned char *v = e->data;
	if ((uintptr_t)v % tj_dtype_size(e->dtype)) return false;
	for (size_t i = 0; e->dtype == TJ_BOOL && i < e->bytes; i++)
		if (v[i] > 1) return false;
	return true;
}

static tj_tensor *copied(const char *site, tj_ctx *c, const tj_safetensors_entry *e)
{
	void *data = malloc(e->bytes ? e->bytes : 1);
	if (!data) return tj_fail_at(site, TJ_ERR_NOMEM, "safetensors_get", NULL, "out of memory for the %zu bytes of " SHORT, e->bytes, e->name);
	memcpy(data, e->data, e->bytes);
	kit_make_bools(e->dtype, data, e->bytes);
	return kit_give(site, c, e->dtype, e->dim, NULL, data);
}

tj_tensor *tj_safetensors_get_at(const char *site, const tj_safetensors *s, const char *name)
{
	static const char op[] = "safetensors_get";
	if (!s || !name) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", s ? "name" : "file");
	const tj_safetensors_entry *e = tj_safetensors_find(s, name);
	if (!e) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "%s: it has no tensor " SHORT, s->path, name);
	return lies_well(e) ? kit_map_wrap(site, s->c, e->dtype, e->dim, e->data, s->map) : copied(site, s->c, e);
}
