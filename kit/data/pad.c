/* SPDX-License-Identifier: MIT */
/* pad: fields of items that differ in size are copied to the begin of larger ones. */
#include "kit/data/data.h"

/* What one element is, as bits. */
static uint64_t bits_of(tj_dtype t, double v)
{
	union { uint64_t bits; float f32; double f64; tj_f16 f16; tj_bf16 bf16; int64_t i; } u = { 0 };
	switch (t) {
	case TJ_F64: u.f64 = v; break;
	case TJ_F32: u.f32 = (float)v; break;
	case TJ_F16: u.f16 = tj_to_f16(v); break;
	case TJ_BF16: u.bf16 = tj_to_bf16(v); break;
	case TJ_BOOL: u.bits = v != 0; break;
	default: u.i = v >= -9.2e18 && v <= 9.2e18 ? (int64_t)v : 0; break; /* two's complement: the low bytes are those of narrower ones */
	}
	return u.bits;
}

static void fill(void *to, size_t n, size_t size, uint64_t bits)
{
	unsigned char *v = to;
	if (!bits) {
		memset(v, 0, n * size);
		return;
	}
	for (size_t i = 0; i < n; i++) memcpy(v + i * size, &bits, size);
}

/* The rows of one item, each followed by what is padded. */
static void place(const kit_field *item, const kit_field *to, char *dst, uint64_t bits)
{
	const size_t size = tj_dtype_size(to->dtype);
	int64_t at[TJ_MAX_RANK] = { 0 };
	const int last = to->rank - 1;
	const bool same = kit_field_same(item, to);
	if (!same) fill(dst, to->bytes / size, size, bits);
	if (!item->bytes) return;
	if (same || last < 0) {
		memcpy(dst, item->data, item->bytes);
		return;
	}
	const size_t row = (size_t)item->dim[last] * size;
	for (const char *src = item->data, *end = src + item->bytes; src < end; src += row) {
		int64_t where = 0;
		for (int k = 0; k < to->rank; k++) where = where * to->dim[k] + at[k];
		memcpy(dst + (size_t)where * size, src, row);
		for (int k = last - 1; k >= 0 && ++at[k] == item->dim[k]; k--) at[k] = 0;
	}
}

/* The size of axis 0 for the largest item. */
static bool to_bucket(int64_t *size, tj_dims buckets, int field, kit_why *w)
{
	if (!buckets) return true;
	for (; *buckets != TJ_END_DIM; buckets++)
		if (*buckets >= *size) return *size = *buckets, true;
	return kit_no(w, TJ_ERR_SHAPE, "field %d has %lld rows, more than the last of .buckets", field, (long long)*size);
}

static bool largest(kit_field *to, const kit_field *items, int64_t n, int field, const tj_loader_opts *o, kit_why *w)
{
	void *memory = to->data;
	*to = items[field];
	to->data = memory;
	for (int64_t i = 1; i < n; i++) {
		const kit_field *f = &items[i * TJ_SAMPLE_FIELDS + field];
		if (f->dtype != to->dtype || f->rank != to->rank)
			return kit_no(w, TJ_ERR_SHAPE, "field %d is %s in one item and %s in another: only sizes are padded", field, kit_type_of(to).text,
			              kit_type_of(f).text);
		for (int k = 0; k < f->rank; k++)
			if (f->dim[k] > to->dim[k]) to->dim[k] = f->dim[k];
	}
	if (to->rank && !to_bucket(&to->dim[0], o->buckets, field, w)) return false;
	return kit_bytes_of(to->dtype, to->rank, to->dim, &to->bytes) || kit_no(w, TJ_ERR_LIMIT, "a padded item is too large");
}

bool kit_pad(kit_batch *b, const kit_field *items, uint32_t which, const tj_loader_opts *o, kit_why *w)
{
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) {
		kit_field *to = &b->field[f];
		if (!(which >> f & 1) || !items[f].put) continue;
		if (!largest(to, items, b->n, f, o, w) || !kit_batch_room(b, f, w)) return false;
		const uint64_t bits = bits_of(to->dtype, o->pad_values[f]);
		for (int64_t i = 0; i < b->n; i++)
			place(&items[i * TJ_SAMPLE_FIELDS + f], to, (char *)to->data + (size_t)i * to->bytes, bits);
	}
	return true;
}
