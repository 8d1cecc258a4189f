/* SPDX-License-Identifier: MIT */
/* idx: files of the MNIST family, and texts.
 *
 *   0 0 dtype axes   4 bytes for each axis: its size   the elements; all big endian, raw or in a gz file */
#include "kit/data/data.h"

#include <stdlib.h>
#include <zlib.h>

typedef struct input {
	const unsigned char *v; /* raw: what is left of the file */
	size_t n;
	bool packed;
	z_stream z;
} input;

/* Fewer bytes: the end, or w->code. */
static size_t take(input *in, void *to, size_t bytes, kit_why *w)
{
	enum { PIECE = 1 << 30 }; /* zlib counts in 32 bits */
	size_t done = 0;
	if (!in->packed) {
		const size_t n = bytes < in->n ? bytes : in->n;
		if (n) memcpy(to, in->v, n);
		in->v += n;
		in->n -= n;
		return n;
	}
	while (done < bytes) {
		const uInt given = (uInt)(in->n < PIECE ? in->n : PIECE), room = (uInt)(bytes - done < PIECE ? bytes - done : PIECE);
		in->z.next_in = (Bytef *)(uintptr_t)in->v;
		in->z.avail_in = given;
		in->z.next_out = (Bytef *)to + done;
		in->z.avail_out = room;
		const int r = inflate(&in->z, Z_NO_FLUSH);
		in->v += given - in->z.avail_in;
		in->n -= given - in->z.avail_in;
		done += room - in->z.avail_out;
		if (r == Z_STREAM_END) break;
		if (r == Z_MEM_ERROR) return kit_no_memory(w), done;
		if (r != Z_OK) return kit_no(w, TJ_ERR_PARSE, "its gz data are broken"), done;
	}
	return done;
}

static bool ends(kit_why *w, const char *what)
{
	return w->code == TJ_OK && kit_no(w, TJ_ERR_PARSE, "%s", what);
}

static bool read_header(input *in, kit_npy *a, kit_why *w)
{
	static const struct { unsigned char code; tj_dtype dtype; } types[] = { { 8, TJ_U8 },   { 9, TJ_I8 },   { 11, TJ_I16 },
		                                                                { 12, TJ_I32 }, { 13, TJ_F32 }, { 14, TJ_F64 } };
	enum { TYPES = sizeof types / sizeof *types };
	unsigned char v[4];
	int t = 0;
	if (take(in, v, 4, w) != 4 || v[0] || v[1]) return ends(w, "it is no IDX file");
	while (t < TYPES && types[t].code != v[2]) t++;
	if (t == TYPES) return kit_no(w, TJ_ERR_PARSE, "it is no IDX file: there is no dtype %d", v[2]);
	if (v[3] > TJ_MAX_RANK) return kit_no(w, TJ_ERR_LIMIT, "it has %d axes; %d are possible", v[3], TJ_MAX_RANK);
	a->dtype = types[t].dtype;
	for (a->rank = v[3], t = 0; t < a->rank; t++) {
		if (take(in, v, 4, w) != 4) return ends(w, "it ends in its header");
		a->dim[t] = (int64_t)v[0] << 24 | v[1] << 16 | v[2] << 8 | v[3];
	}
	a->dim[a->rank] = TJ_END_DIM;
	return kit_bytes_of(a->dtype, a->rank, a->dim, &a->bytes) || kit_no(w, TJ_ERR_PARSE, "its shape is too large");
}

static void turn(void *data, size_t bytes, size_t size)
{
	unsigned char *v = data;
	for (size_t i = 0; size > 1 && i < bytes; i += size)
		for (size_t k = 0; k < size / 2; k++) {
			const unsigned char b = v[i + k];
			v[i + k] = v[i + size - 1 - k];
			v[i + size - 1 - k] = b;
		}
}

static bool read_idx(input *in, kit_npy *a, kit_why *w)
{
	char more;
	if (!read_header(in, a, w)) return false;
	if (in->packed ? a->bytes / KIT_DEFLATE_RATIO > in->n : a->bytes > in->n)
		return kit_no(w, TJ_ERR_PARSE, "it ends too early: its shape needs %zu bytes, and %zu%s are left", a->bytes, in->n,
		              in->packed ? " packed ones" : "");
	if (!(a->data = malloc(a->bytes ? a->bytes : 1))) return kit_no_memory(w);
	if (take(in, a->data, a->bytes, w) != a->bytes) return ends(w, "it ends too early");
	if (take(in, &more, 1, w)) return kit_no(w, TJ_ERR_PARSE, "something follows its %zu bytes of elements", a->bytes);
	if (w->code != TJ_OK) return false;
	if (in->n) return kit_no(w, TJ_ERR_PARSE, "%zu bytes follow its gz data", in->n);
	turn(a->data, a->bytes, tj_dtype_size(a->dtype));
	return true;
}

static bool read_file(const char *path, kit_npy *a, kit_why *w)
{
	enum { GZ = 16 };
	kit_map *m = kit_map_open(path, w);
	input in = { 0 };
	if (!m) return false;
	in.v = kit_map_data(m, &in.n);
	in.packed = in.n > 2 && in.v[0] == 0x1f && in.v[1] == 0x8b;
	bool ok = !in.packed || inflateInit2(&in.z, MAX_WBITS + GZ) == Z_OK || kit_no_memory(w);
	if (ok) {
		ok = read_idx(&in, a, w);
		if (in.packed) inflateEnd(&in.z);
	}
	kit_map_drop(m);
	return ok;
}

tj_tensor *tj_idx_load_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	kit_npy a = { 0 };
	if (read_file(path, &a, &w)) return kit_give(site, c, a.dtype, a.dim, NULL, a.data);
	free(a.data);
	return kit_report(site, "idx_load", path, &w);
}

tj_tensor *tj_text_map_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	kit_map *m = kit_map_open(path, &w);
	if (!m) return kit_report(site, "text_map", path, &w);
	size_t n;
	const void *v = kit_map_data(m, &n);
	const int64_t dim[] = { (int64_t)n, TJ_END_DIM };
	tj_tensor *t = kit_map_wrap(site, c, TJ_U8, dim, v, m);
	kit_map_drop(m);
	return t;
}
