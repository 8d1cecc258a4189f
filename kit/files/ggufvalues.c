/* SPDX-License-Identifier: MIT */
/* Metadata of GGUF files: numbers, texts, and lists of them. */
#include "kit/files/gguf.h"

#include <stdlib.h>

enum { DEEPEST = 8 }; /* lists within each other */

bool gguf_number(gguf_at *f, size_t bytes, uint64_t *x)
{
	if (f->n - f->at < bytes) return kit_no(f->w, TJ_ERR_PARSE, "it ends within its header, at byte %zu", f->n);
	*x = 0;
	for (size_t i = bytes; i--;) *x = *x << 8 | f->v[f->at + i];
	f->at += bytes;
	return true;
}

void *gguf_take(gguf_memory **m, size_t n, size_t each, kit_why *w)
{
	gguf_memory *one = n < SIZE_MAX / 2 / each ? calloc(1, sizeof *one + 8 + n * each) : NULL;
	if (!one) return kit_no_memory(w), NULL;
	one->next = *m;
	*m = one;
	return one + 1;
}

void gguf_forget(gguf_memory *m)
{
	for (gguf_memory *next; m; m = next) {
		next = m->next;
		free(m);
	}
}

const char *gguf_text(gguf_at *f, gguf_memory **m, size_t *bytes)
{
	uint64_t n;
	if (!gguf_number(f, 8, &n)) return NULL;
	if (n > f->n - f->at)
		return kit_no(f->w, TJ_ERR_PARSE, "a text of %llu bytes, at byte %zu, is longer than the file", (unsigned long long)n, f->at), NULL;
	char *s = gguf_take(m, (size_t)n + 1, 1, f->w);
	if (!s) return NULL;
	memcpy(s, f->v + f->at, (size_t)n);
	f->at += (size_t)n;
	if (bytes) *bytes = (size_t)n;
	return s;
}

size_t gguf_size_of(tj_gguf_type t)
{
	static const size_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	return (unsigned)t < sizeof size / sizeof *size ? size[t] : 0;
}

static bool read_number(gguf_at *f, tj_gguf_value *to)
{
	uint64_t x;
	float f32;
	const size_t bytes = gguf_size_of(to->type), away = 64 - 8 * bytes;
	if (!gguf_number(f, bytes, &x)) return false;
	to->i = (int64_t)x;
	to->f = (double)x;
	switch (to->type) {
	case TJ_GGUF_I8: case TJ_GGUF_I16: case TJ_GGUF_I32: case TJ_GGUF_I64:
		to->i = (int64_t)(x << away) >> away;
		to->f = (double)to->i;
		break;
	case TJ_GGUF_F32:
		memcpy(&f32, &(uint32_t){ (uint32_t)x }, sizeof f32);
		to->f = (double)f32;
		to->i = 0;
		break;
	case TJ_GGUF_F64:
		memcpy(&to->f, &x, sizeof to->f);
		to->i = 0;
		break;
	case TJ_GGUF_BOOL:
		if (x > 1) return kit_no(f->w, TJ_ERR_PARSE, "a bool, at byte %zu, is %llu", f->at - 1, (unsigned long long)x);
		break;
	default: break;
	}
	return true;
}

static bool value_of(gguf_at *f, gguf_memory **m, tj_gguf_value *to, int depth);

/* A list has so many items that they fit into the rest of the file. */
static bool read_list(gguf_at *f, gguf_memory **m, tj_gguf_value *to, int depth)
{
	uint64_t of, n;
	if (!gguf_number(f, 4, &of) || !gguf_number(f, 8, &n)) return false;
	if (of > TJ_GGUF_F64) return kit_no(f->w, TJ_ERR_PARSE, "a list, at byte %zu, is of type %llu", f->at - 12, (unsigned long long)of);
	to->of = (tj_gguf_type)of;
	const size_t size = gguf_size_of(to->of), least = size ? size : to->of == TJ_GGUF_TEXT ? 8 : 12;
	if (n > (f->n - f->at) / least)
		return kit_no(f->w, TJ_ERR_PARSE, "a list of %llu items, at byte %zu, is longer than the file", (unsigned long long)n, f->at - 12);
	to->n = (int64_t)n;
	if (size) {
		void *data = gguf_take(m, (size_t)n, size, f->w);
		if (!data) return false;
		memcpy(data, f->v + f->at, (size_t)n * size);
		f->at += (size_t)n * size;
		to->data = data;
		return true;
	}
	if (to->of == TJ_GGUF_ARRAY && depth == DEEPEST)
		return kit_no(f->w, TJ_ERR_LIMIT, "lists, at byte %zu, are within more than %d others", f->at, DEEPEST);
	tj_gguf_value *items = gguf_take(m, (size_t)n, sizeof *items, f->w);
	if (!items) return false;
	to->items = items;
	for (uint64_t i = 0; i < n; i++) {
		items[i].type = to->of;
		if (!value_of(f, m, &items[i], depth + 1)) return false;
	}
	return true;
}

static bool value_of(gguf_at *f, gguf_memory **m, tj_gguf_value *to, int depth)
{
	if (to->type == TJ_GGUF_TEXT) return (to->text = gguf_text(f, m, &to->bytes));
	return to->type == TJ_GGUF_ARRAY ? read_list(f, m, to, depth) : read_number(f, to);
}

bool gguf_value(gguf_at *f, gguf_memory **m, tj_gguf_value *to)
{
	uint64_t type;
	*to = (tj_gguf_value){ 0 };
	if (!(to->key = gguf_text(f, m, NULL)) || !gguf_number(f, 4, &type)) return false;
	if (type > TJ_GGUF_F64) return kit_no(f->w, TJ_ERR_PARSE, "%.80s: it has a value of type %llu", to->key, (unsigned long long)type);
	to->type = (tj_gguf_type)type;
	return value_of(f, m, to, 0);
}
