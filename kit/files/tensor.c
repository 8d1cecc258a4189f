/* SPDX-License-Identifier: MIT */
/* tensor: tensors that go to a file or come from one, and what handles of files share. */
#include "kit/files/files.h"

#include <stdlib.h>

bool kit_bytes_of(tj_dtype dtype, int rank, const int64_t *dim, size_t *bytes)
{
	int64_t all = (int64_t)tj_dtype_size(dtype);
	bool empty = false;
	for (int i = 0; i < rank; i++) {
		empty |= dim[i] == 0;
		if (dim[i] < 0 || (dim[i] && __builtin_mul_overflow(all, dim[i], &all))) return false;
	}
	*bytes = empty ? 0 : (size_t)all;
	return true;
}

bool kit_describe(const char *site, tj_tensor *t, kit_tensor *out, kit_why *w)
{
	*out = (kit_tensor){ .t = t, .rank = tj_rank(t), .dtype = tj_dtype_of(t) };
	if (tj_is_poison(t) || out->rank < 0 || out->rank > TJ_MAX_RANK) { /* tjit says what it is */
		w->code = tj_read_at(site, t, NULL, 0);
		if (w->code != TJ_OK) return w->text[0] = 0, false;
		return kit_no(w, TJ_ERR_ARG, "this is no tensor");
	}
	for (int i = 0; i < out->rank; i++) out->dim[i] = tj_dim(t, i);
	out->dim[out->rank] = TJ_END_DIM;
	return kit_bytes_of(out->dtype, out->rank, out->dim, &out->bytes) || kit_no(w, TJ_ERR_LIMIT, "the tensor is too large");
}

bool kit_grow(kit_buffer *b, size_t bytes, kit_why *w)
{
	if (b->room >= bytes && b->data) return true;
	free(b->data);
	b->room = bytes ? bytes : 1;
	b->data = malloc(b->room);
	return b->data || (b->room = 0, kit_no_memory(w));
}

bool kit_fetch(const char *site, const kit_tensor *t, kit_buffer *b, kit_why *w)
{
	if (!kit_grow(b, t->bytes, w)) return false;
	w->code = tj_read_at(site, t->t, b->data, t->bytes);
	if (w->code == TJ_OK) return true;
	w->text[0] = 0;
	return false;
}

void kit_make_bools(tj_dtype dtype, void *data, size_t bytes)
{
	unsigned char *b = data;
	for (size_t i = 0; dtype == TJ_BOOL && i < bytes; i++) b[i] = b[i] != 0;
}

tj_tensor *kit_give(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims dim, tj_dims strides, void *data)
{
	tj_tensor *t = tj_wrap_at(site, c, dtype, dim, strides, data, free, data);
	if (tj_is_poison(t)) free(data); /* after an error it is not called */
	return t;
}

tj_tensor *kit_map_wrap(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims dim, const void *data, kit_map *m)
{
	tj_tensor *t = tj_wrap_at(site, c, dtype, dim, NULL, data, kit_map_drop, kit_map_hold(m));
	if (tj_is_poison(t)) kit_map_drop(m); /* after an error it is not called */
	return t;
}

bool kit_map_path(const char *path, char **copy, kit_map **map, kit_why *w)
{
	if (path && !(*copy = strdup(path))) return kit_no_memory(w);
	return (*map = kit_map_open(path, w));
}
