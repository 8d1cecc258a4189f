/* SPDX-License-Identifier: MIT */
/* sample: one item that is being filled. */
#include "kit/data/data.h"

#include <stdarg.h>

bool kit_dataset_get(const tj_dataset *d, tj_dataset *out, kit_why *w)
{
	*out = (tj_dataset){ 0 };
	if (!d) return kit_no(w, TJ_ERR_ARG, "the data set is NULL");
	if (d->size % 8 || d->size == 8) return kit_no(w, TJ_ERR_ARG, "no struct tj_dataset has %zu bytes; .size 0 means all", d->size);
	memcpy(out, d, d->size && d->size < sizeof *out ? d->size : sizeof *out);
	return (out->length && out->item) || kit_no(w, TJ_ERR_ARG, "the data set has no %s()", out->length ? "item" : "length");
}

static bool put_in_batch(tj_sample *s, int field, kit_field *f)
{
	kit_batch *b = s->batch;
	kit_field *first = &b->field[field];
	if (!s->at) {
		void *memory = first->data;
		*first = *f;
		first->data = memory;
		if (!kit_batch_room(b, field, &s->why)) return false;
	} else if (!first->put) {
		return kit_no(&s->why, TJ_ERR_ARG, "it has field %d, which the first item of the batch does not have", field);
	} else if (!kit_field_same(first, f)) {
		return kit_no(&s->why, TJ_ERR_SHAPE, "its field %d is %s, and that of the first item of the batch %s; .pad makes sizes equal", field,
		              kit_type_of(f).text, kit_type_of(first).text);
	}
	f->data = (char *)first->data + (size_t)s->at * f->bytes;
	return true;
}

static bool put(tj_sample *s, int field, tj_dtype dtype, tj_dims shape)
{
	kit_field f;
	if (field < 0 || field >= TJ_SAMPLE_FIELDS)
		return kit_no(&s->why, TJ_ERR_ARG, "field %d: there are 0 to %d", field, TJ_SAMPLE_FIELDS - 1);
	if (s->field[field].put) return kit_no(&s->why, TJ_ERR_ARG, "field %d is put twice", field);
	if (!kit_field_set(&f, dtype, shape, &s->why)) return false;
	if (s->batch && !(s->apart >> field & 1)) {
		if (!put_in_batch(s, field, &f)) return false;
	} else {
		if (!kit_grow(&s->own[field], f.bytes, &s->why)) return false;
		f.data = s->own[field].data;
	}
	s->field[field] = f;
	return true;
}

void *tj_sample_put(tj_sample *s, int field, tj_dtype dtype, tj_dims shape)
{
	if (s->failed) return NULL;
	s->failed = !put(s, field, dtype, shape);
	return s->failed ? NULL : s->field[field].data;
}

void *tj_sample_get(const tj_sample *s, int field, tj_dtype *dtype, tj_dims *shape)
{
	if (field < 0 || field >= TJ_SAMPLE_FIELDS || !s->field[field].put) return NULL;
	if (dtype) *dtype = s->field[field].dtype;
	if (shape) *shape = s->field[field].dim;
	return s->field[field].data;
}

bool tj_sample_fail(tj_sample *s, const char *fmt, ...)
{
	va_list ap;
	if (s->failed) return false;
	s->failed = true;
	s->why.code = TJ_ERR_ARG;
	va_start(ap, fmt);
	vsnprintf(s->why.text, sizeof s->why.text, fmt, ap);
	va_end(ap);
	return false;
}

uint64_t tj_sample_random(tj_sample *s)
{
	s->random += 0x9e3779b97f4a7c15u;
	return kit_mix(0x73616d70, s->random);
}

static bool check_fields(tj_sample *s)
{
	uint32_t fields = 0;
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) fields |= (uint32_t)s->field[f].put << f;
	if (!fields) return kit_no(&s->why, TJ_ERR_ARG, "it has no field");
	if (fields & (fields + 1)) return kit_no(&s->why, TJ_ERR_ARG, "its fields are not numbered from 0 without a gap");
	if (!s->at) s->fields = fields;
	return fields == s->fields || kit_no(&s->why, TJ_ERR_ARG, "it has %d fields, and the first item of the batch %d",
	                                     __builtin_popcount(fields), __builtin_popcount(s->fields));
}

bool kit_sample_fill(tj_sample *s, const tj_dataset *d, int64_t index, uint64_t random)
{
	s->random = random;
	s->failed = false;
	s->why.text[0] = 0;
	for (int f = 0; f < TJ_SAMPLE_FIELDS; f++) s->field[f].put = false;
	if (!d->item(d->self, index, s) && !s->failed) tj_sample_fail(s, "item() returned false, and tj_sample_fail() was not called");
	return !s->failed && check_fields(s);
}
