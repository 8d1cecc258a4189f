/* SPDX-License-Identifier: MIT */
/* wire: protobuf's wire format, read in place. A field is a key, which has its number and one of four types, and a value. Groups, which
 * ONNX never had, are refused. */
#include "kit/models/models.h"

bool ox_varint(ox_wire *w, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
		const unsigned char b = *w->at++;
		if (shift == 63 && b > 1) return false; /* more than 64 bits */
		*v |= (uint64_t)(b & 127) << shift;
		if (b < 128) return true;
	}
	return false;
}

static bool fixed(ox_wire *w, int bytes, uint64_t *v)
{
	if (w->end - w->at < bytes) return false;
	*v = 0;
	for (int i = bytes; i--;) *v = *v << 8 | w->at[i];
	w->at += bytes;
	return true;
}

static bool length(ox_wire *w, ox_wire *bytes)
{
	uint64_t n;
	if (!ox_varint(w, &n) || n > (uint64_t)(w->end - w->at)) return false;
	*bytes = (ox_wire){ w->at, w->at + n };
	w->at += n;
	return true;
}

bool ox_next(ox_wire *w, ox_field *f, kit_why *why)
{
	uint64_t key;
	if (w->at == w->end) return false;
	*f = (ox_field){ 0 };
	if (!ox_varint(w, &key) || key >> 32 || !(key >> 3))
		return kit_no(why, TJ_ERR_PARSE, "it is cut short or no ONNX file: a field's key is cut or wrong");
	f->number = (uint32_t)(key >> 3);
	f->type = (int)(key & 7);
	const bool ok = f->type == 0   ? ox_varint(w, &f->value)
	                : f->type == 1 ? fixed(w, 8, &f->value)
	                : f->type == 2 ? length(w, &f->bytes)
	                : f->type == 5 ? fixed(w, 4, &f->value)
	                               : false;
	return ok || kit_no(why, TJ_ERR_PARSE, "it is cut short or no ONNX file: field %u of type %d is cut or wrong", f->number, f->type);
}
