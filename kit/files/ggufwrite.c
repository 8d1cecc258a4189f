/* SPDX-License-Identifier: MIT */
/* Writing GGUF files. */
#include "kit/files/gguf.h"

#include <stdlib.h>

typedef struct item {
	const char *name;
	kit_tensor t;
	const gguf_type *type;
	size_t bytes; /* in the file */
} item;

typedef struct file {
	const char *site;
	item *item;
	int64_t n;
	const tj_gguf_value *value;
	uint64_t values;
	size_t alignment;
} file;

/* ---- checks ---- */
static bool check_value(const tj_gguf_value *v, const char *key, int depth, kit_why *w)
{
	if ((unsigned)v->type > TJ_GGUF_F64) return kit_no(w, TJ_ERR_ARG, "%.80s: it has no type of tj_gguf_type", key);
	if (v->type == TJ_GGUF_TEXT && !v->text) return kit_no(w, TJ_ERR_ARG, "%.80s: its text is NULL", key);
	if (v->type == TJ_GGUF_BOOL && v->i != 0 && v->i != 1) return kit_no(w, TJ_ERR_ARG, "%.80s: a bool is 0 or 1", key);
	if (v->type != TJ_GGUF_ARRAY) return true;
	const bool numbers = gguf_size_of(v->of) > 0;
	if ((unsigned)v->of > TJ_GGUF_F64 || v->n < 0 || (v->n && !(numbers ? v->data : (const void *)v->items)) || depth > 7)
		return kit_no(w, TJ_ERR_ARG, "%.80s: its list has no type, no items, or more than 8 lists in lists", key);
	for (int64_t i = 0; !numbers && i < v->n; i++) {
		if (v->items[i].type != v->of) return kit_no(w, TJ_ERR_ARG, "%.80s: the items of a list are of its type", key);
		if (!check_value(&v->items[i], key, depth + 1, w)) return false;
	}
	return true;
}

static bool check_values(file *f, kit_why *w)
{
	f->alignment = GGUF_ALIGNMENT;
	for (; f->value && f->value[f->values].key; f->values++) {
		const tj_gguf_value *v = &f->value[f->values];
		if (!check_value(v, v->key, 0, w)) return false;
		for (uint64_t i = 0; i < f->values; i++)
			if (!strcmp(f->value[i].key, v->key)) return kit_no(w, TJ_ERR_ARG, "there are two values for %.80s", v->key);
		if (strcmp(v->key, "general.alignment")) continue;
		if (v->type != TJ_GGUF_U32 || v->i < 1 || v->i > 1 << 30 || (v->i & (v->i - 1)))
			return kit_no(w, TJ_ERR_ARG, "general.alignment is a u32, and a power of two");
		f->alignment = (size_t)v->i;
	}
	return true;
}

static bool set_type(item *x, const char *type, kit_why *w)
{
	x->type = type ? gguf_type_named(type) : gguf_type_for(x->t.dtype);
	if (!x->type) return kit_no(w, TJ_ERR_DTYPE, "tensor %.80s: GGUF has no type for %s", x->name, type ? type : tj_dtype_name(x->t.dtype));
	if (x->type->group ? !x->type->write || x->t.dtype != TJ_F32 : x->type->dtype != x->t.dtype)
		return kit_no(w, TJ_ERR_DTYPE, "tensor %.80s: %s is not written as %s", x->name, tj_dtype_name(x->t.dtype), x->type->name);
	const int64_t row = x->t.rank ? x->t.dim[x->t.rank - 1] : 1;
	if (row % x->type->elements)
		return kit_no(w, TJ_ERR_SHAPE, "tensor %.80s: its rows of %lld are no whole blocks of %d", x->name, (long long)row, x->type->elements);
	x->bytes = x->t.bytes / tj_dtype_size(x->t.dtype) / (size_t)x->type->elements * (size_t)x->type->bytes;
	return true;
}

static int by_name(const void *a, const void *b)
{
	const item *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static bool check_names(const file *f, kit_why *w)
{
	item *sorted = malloc(((size_t)f->n + 1) * sizeof *sorted);
	if (!sorted) return kit_no_memory(w);
	memcpy(sorted, f->item, (size_t)f->n * sizeof *sorted);
	qsort(sorted, (size_t)f->n, sizeof *sorted, by_name);
	bool ok = true;
	for (int64_t i = 1; ok && i < f->n; i++)
		if (!by_name(&sorted[i - 1], &sorted[i])) ok = kit_no(w, TJ_ERR_ARG, "there are two tensors of the name %.80s", sorted[i].name);
	free(sorted);
	return ok;
}

static bool collect(file *f, const char *const *names, tj_list tensors, const char *const *types, kit_why *w)
{
	const int64_t n = kit_length(tensors);
	if (n && !names) return kit_no(w, TJ_ERR_ARG, "there are no names");
	f->item = calloc((size_t)n + 1, sizeof *f->item);
	if (!f->item) return kit_no_memory(w);
	for (; f->n < n; f->n++) {
		item *x = &f->item[f->n];
		if (!(x->name = names[f->n]) || !*x->name || !kit_is_utf8(x->name, strlen(x->name)))
			return kit_no(w, TJ_ERR_ARG, "the name of tensor %lld is NULL, empty or no UTF-8", (long long)f->n);
		if (!kit_describe(f->site, tensors[f->n], &x->t, w) || !set_type(x, types ? types[f->n] : NULL, w)) return false;
	}
	return check_names(f, w);
}

/* ---- writing ---- */
static bool put_number(kit_out *o, uint64_t x, size_t bytes, kit_why *w)
{
	unsigned char v[8];
	for (size_t i = 0; i < bytes; i++) v[i] = (unsigned char)(x >> 8 * i);
	return kit_put(o, v, bytes, w);
}
static bool put_text(kit_out *o, const char *s, size_t n, kit_why *w) { return put_number(o, n, 8, w) && kit_put(o, s, n, w); }

static bool put_value(kit_out *o, const tj_gguf_value *v, kit_why *w)
{
	if (v->type == TJ_GGUF_TEXT) return put_text(o, v->text, v->bytes ? v->bytes : strlen(v->text), w);
	if (v->type == TJ_GGUF_ARRAY) {
		const size_t size = gguf_size_of(v->of);
		if (!put_number(o, v->of, 4, w) || !put_number(o, (uint64_t)v->n, 8, w)) return false;
		if (size) return kit_put(o, v->data, (size_t)v->n * size, w);
		for (int64_t i = 0; i < v->n; i++)
			if (!put_value(o, &v->items[i], w)) return false;
		return true;
	}
	uint64_t x = (uint64_t)v->i;
	const float f32 = (float)v->f;
	uint32_t bits;
	memcpy(&bits, &f32, sizeof bits);
	if (v->type == TJ_GGUF_F32) x = bits;
	if (v->type == TJ_GGUF_F64) memcpy(&x, &v->f, sizeof x);
	return put_number(o, x, gguf_size_of(v->type), w);
}

static bool pad(kit_out *o, size_t alignment, kit_why *w)
{
	static const unsigned char zeros[256];
	while (o->at % alignment) {
		const size_t rest = alignment - (size_t)(o->at % alignment);
		if (!kit_put(o, zeros, rest < sizeof zeros ? rest : sizeof zeros, w)) return false;
	}
	return true;
}

static bool put_info(kit_out *o, const item *x, uint64_t offset, kit_why *w)
{
	bool ok = put_text(o, x->name, strlen(x->name), w) && put_number(o, (uint64_t)x->t.rank, 4, w);
	for (int i = x->t.rank; ok && i--;) ok = put_number(o, (uint64_t)x->t.dim[i], 8, w);
	return ok && put_number(o, x->type->number, 4, w) && put_number(o, offset, 8, w);
}

static bool put_data(const file *f, kit_out *o, const item *x, kit_buffer *b, kit_why *w)
{
	if (!kit_fetch(f->site, &x->t, b, w)) return false;
	if (!x->type->group) return kit_put(o, b->data, x->bytes, w) && pad(o, f->alignment, w);
	unsigned char block[GGUF_BLOCK];
	const float *v = b->data;
	for (size_t at = 0; at < x->bytes; at += (size_t)x->type->bytes, v += x->type->elements) {
		if (!x->type->write(v, block)) return kit_no(w, TJ_ERR_ARG, "tensor %.80s has an element that is not finite", x->name);
		if (!kit_put(o, block, (size_t)x->type->bytes, w)) return false;
	}
	return pad(o, f->alignment, w);
}

static bool write_file(void *env, kit_out *o, kit_why *w)
{
	const file *f = env;
	uint64_t offset = 0;
	kit_buffer b = { 0 };
	bool ok = kit_put(o, "GGUF", 4, w) && put_number(o, GGUF_VERSION, 4, w) && put_number(o, (uint64_t)f->n, 8, w) &&
	          put_number(o, f->values, 8, w);
	for (uint64_t i = 0; ok && i < f->values; i++)
		ok = put_text(o, f->value[i].key, strlen(f->value[i].key), w) && put_number(o, f->value[i].type, 4, w) &&
		     put_value(o, &f->value[i], w);
	for (int64_t i = 0; ok && i < f->n; i++) {
		ok = put_info(o, &f->item[i], offset, w);
		offset += (f->item[i].bytes + f->alignment - 1) / f->alignment * f->alignment;
	}
	ok = ok && pad(o, f->alignment, w);
	for (int64_t i = 0; ok && i < f->n; i++) ok = put_data(f, o, &f->item[i], &b, w);
	free(b.data);
	return ok;
}

tj_status tj_gguf_save_at(const char *site, const char *path, const char *const *names, tj_list tensors, const char *const *types,
                          const tj_gguf_value *metadata)
{
	kit_why w = { 0 };
	file f = { .site = site, .value = metadata };
	const bool ok = check_values(&f, &w) && collect(&f, names, tensors, types, &w) && kit_replace(path, write_file, &f, &w);
	free(f.item);
	if (ok) return TJ_OK;
	if (*w.text) kit_report(site, "gguf_save", path, &w);
	return w.code;
}
