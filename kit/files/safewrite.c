/* SPDX-License-Identifier: MIT */
/* safewrite: files of safetensors, byte for byte as Python's package writes them. */
#include "kit/files/files.h"

#include <jansson.h>
#include <stdlib.h>

typedef struct tensor { const char *name; kit_tensor t; } tensor;
typedef struct job {
	const char *site;
	size_t n;
	tensor *of;
	json_t *header;
} job;

/* In the order of their data; within one dtype it goes by name. The largest elements come first, so all are aligned. */
static const struct { tj_dtype dtype; const char *name; } types[] = {
	{ TJ_I64, "I64" },   { TJ_F64, "F64" }, { TJ_F32, "F32" }, { TJ_I32, "I32" }, { TJ_BF16, "BF16" },
	{ TJ_F16, "F16" },   { TJ_I16, "I16" }, { TJ_I8, "I8" },   { TJ_U8, "U8" },   { TJ_BOOL, "BOOL" },
};
_Static_assert(sizeof types / sizeof *types == TJ_DTYPE_COUNT, "all dtypes");

static int place_of(tj_dtype t)
{
	int i = 0;
	while (types[i].dtype != t) i++;
	return i;
}

static int in_order(const void *a, const void *b)
{
	const tensor *x = a, *y = b;
	const int m = place_of(x->t.dtype), n = place_of(y->t.dtype);
	return m != n ? m - n : strcmp(x->name, y->name);
}

static bool collect(job *j, const char *const *names, tj_list tensors, kit_why *w)
{
	if (!names || !tensors) return kit_no(w, TJ_ERR_ARG, "%s is NULL", names ? "tensors" : "names");
	j->n = (size_t)kit_length(tensors);
	j->of = calloc(j->n + 1, sizeof *j->of);
	if (!j->of) return kit_no_memory(w);
	for (size_t i = 0; i < j->n; i++) {
		if (!names[i]) return kit_no(w, TJ_ERR_ARG, "name %zu is NULL", i);
		if (!strcmp(names[i], "__metadata__")) return kit_no(w, TJ_ERR_ARG, "a tensor cannot have the name __metadata__");
		j->of[i].name = names[i];
		if (!kit_describe(j->site, tensors[i], &j->of[i].t, w)) return false;
	}
	qsort(j->of, j->n, sizeof *j->of, in_order);
	return true;
}

/* Takes the reference of value. */
static bool set(json_t *o, const char *key, json_t *value, kit_why *w)
{
	if (!value) return kit_no(w, TJ_ERR_ARG, "%.80s: it, or its value, is no UTF-8, or out of memory", key);
	if (json_object_get(o, key)) return json_decref(value), kit_no(w, TJ_ERR_ARG, "%.80s is there twice", key);
	return !json_object_set_new(o, key, value) || kit_no(w, TJ_ERR_ARG, "%.80s: it is no UTF-8, or out of memory", key);
}

static bool set_metadata(job *j, const char *const *metadata, kit_why *w)
{
	if (!metadata) return true;
	json_t *m = json_object();
	if (!set(j->header, "__metadata__", m, w)) return false;
	for (; *metadata; metadata += 2) {
		if (!metadata[1]) return kit_no(w, TJ_ERR_ARG, "the key %.80s of metadata has no value", *metadata);
		if (!set(m, *metadata, json_string(metadata[1]), w)) return false;
	}
	return true;
}

static bool make_header(job *j, const char *const *metadata, kit_why *w)
{
	int64_t at = 0;
	if (!(j->header = json_object())) return kit_no_memory(w);
	if (!set_metadata(j, metadata, w)) return false;
	for (size_t i = 0; i < j->n; i++) {
		const kit_tensor *t = &j->of[i].t;
		json_t *shape = json_array();
		for (int k = 0; k < t->rank; k++) json_array_append_new(shape, json_integer(t->dim[k]));
		const int64_t first = at;
		if (__builtin_add_overflow(at, (int64_t)t->bytes, &at)) return json_decref(shape), kit_no(w, TJ_ERR_LIMIT, "it gets too large");
		if (!set(j->header, j->of[i].name,
		         json_pack("{s:s, s:o, s:[I,I]}", "dtype", types[place_of(t->dtype)].name, "shape", shape, "data_offsets", (json_int_t)first,
		                   (json_int_t)at), w))
			return false;
	}
	return true;
}

static bool put_header(const job *j, kit_out *o, kit_why *w)
{
	char *text = json_dumps(j->header, JSON_COMPACT);
	if (!text) return kit_no_memory(w);
	const size_t n = strlen(text), padded = (n + 7) / 8 * 8; /* the elements begin at a multiple of 8 */
	unsigned char length[8];
	for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)padded >> 8 * i);
	const bool ok = kit_put(o, length, 8, w) && kit_put(o, text, n, w) && kit_put(o, "       ", padded - n, w);
	free(text);
	return ok;
}

static bool write_all(void *env, kit_out *o, kit_why *w)
{
	const job *j = env;
	kit_buffer b = { 0 };
	bool ok = put_header(j, o, w);
	for (size_t i = 0; ok && i < j->n; i++)
		ok = kit_fetch(j->site, &j->of[i].t, &b, w) && kit_put(o, b.data, j->of[i].t.bytes, w);
	free(b.data);
	return ok;
}

tj_status tj_safetensors_save_at(const char *site, const char *path, const char *const *names, tj_list tensors, const char *const *metadata)
{
	kit_why w = { 0 };
	job j = { .site = site };
	const bool ok = collect(&j, names, tensors, &w) && make_header(&j, metadata, &w) && kit_replace(path, write_all, &j, &w);
	json_decref(j.header);
	free(j.of);
	if (ok) return TJ_OK;
	if (*w.text) kit_report(site, "safetensors_save", path, &w);
	return w.code;
}
