/* SPDX-License-Identifier: MIT */
/* npz: arrays of a zip file, by name. */
#include "kit/files/files.h"

#include <stdlib.h>
#include <zlib.h>

struct tj_npz {
	tj_ctx *c;
	kit_map *map;
	char *path;
	kit_zip_entry *entry; /* their names without ".npy" */
	size_t count;
};

static int by_name(const void *a, const void *b)
{
	const kit_zip_entry *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static bool check_names(tj_npz *z, kit_why *w)
{
	for (size_t i = 0; i < z->count; i++) {
		char *name = z->entry[i].name;
		const size_t n = strlen(name);
		if (n < 5 || strcmp(name + n - 4, ".npy") != 0) return kit_no(w, TJ_ERR_PARSE, "it has %.80s, which is no .npy file", name);
		name[n - 4] = 0;
	}
	kit_zip_entry *sorted = malloc((z->count + 1) * sizeof *sorted);
	if (!sorted) return kit_no_memory(w);
	memcpy(sorted, z->entry, z->count * sizeof *sorted);
	qsort(sorted, z->count, sizeof *sorted, by_name);
	bool ok = true;
	for (size_t i = 1; ok && i < z->count; i++)
		if (!strcmp(sorted[i].name, sorted[i - 1].name)) ok = kit_no(w, TJ_ERR_PARSE, "it has %.80s twice", sorted[i].name);
	free(sorted);
	return ok;
}

tj_npz *tj_npz_open_at(const char *site, tj_ctx *c, const char *path)
{
	kit_why w = { 0 };
	size_t bytes;
	tj_npz *z = calloc(1, sizeof *z);
	bool ok = (z || kit_no_memory(&w)) && kit_map_path(path, &z->path, &z->map, &w);
	if (ok) {
		const void *v = kit_map_data(z->map, &bytes);
		ok = kit_zip_list(v, bytes, &z->entry, &z->count, &w) && check_names(z, &w);
	}
	if (ok) return z->c = c, z;
	kit_report(site, "npz_open", path, &w);
	tj_npz_close(z);
	return NULL;
}

void tj_npz_close(tj_npz *z)
{
	if (!z) return;
	kit_map_drop(z->map);
	free(z->entry);
	free(z->path);
	free(z);
}

int64_t tj_npz_count(const tj_npz *z)
{
	return z ? (int64_t)z->count : 0;
}

const char *tj_npz_name(const tj_npz *z, int64_t i)
{
	return z && i >= 0 && i < (int64_t)z->count ? z->entry[i].name : NULL;
}

/* ---- the data of one entry ---- */
typedef struct stream {
	z_stream z;
	const unsigned char *in;
	size_t in_left, out_left; /* bytes that zlib was not given yet, and those that are still to come */
	uint32_t crc;
	bool deflated;
} stream;

static size_t copy(stream *s, unsigned char *to, size_t n)
{
	memcpy(to, s->in, n);
	s->in += n;
	return n;
}

/* zlib counts in 32 bits. */
static size_t inflate_some(stream *s, unsigned char *to, size_t n, kit_why *w)
{
	enum { PIECE = 1 << 30 };
	size_t done = 0;
	while (done < n) {
		if (!s->z.avail_in) {
			const size_t k = s->in_left < PIECE ? s->in_left : PIECE;
			s->z.next_in = (Bytef *)(uintptr_t)s->in;
			s->z.avail_in = (uInt)k;
			s->in += k;
			s->in_left -= k;
		}
		const uInt room = (uInt)(n - done < PIECE ? n - done : PIECE);
		s->z.next_out = to + done;
		s->z.avail_out = room;
		const int r = inflate(&s->z, Z_NO_FLUSH);
		done += room - s->z.avail_out;
		if (r == Z_STREAM_END) break;
		if (r == Z_MEM_ERROR) return kit_no_memory(w), done;
		if (r != Z_OK || (s->z.avail_out && !s->z.avail_in && !s->in_left))
			return kit_no(w, TJ_ERR_PARSE, "its deflated data are broken"), done;
	}
	return done;
}

static size_t read_some(void *env, void *to, size_t bytes, kit_why *w)
{
	stream *s = env;
	size_t n = bytes < s->out_left ? bytes : s->out_left;
	n = s->deflated ? inflate_some(s, to, n, w) : copy(s, to, n);
	s->out_left -= n;
	for (size_t at = 0; at < n;) { /* so does its checksum */
		const size_t k = n - at < 1 << 30 ? n - at : 1 << 30;
		s->crc = (uint32_t)crc32(s->crc, (const Bytef *)to + at, (uInt)k);
		at += k;
	}
	return n;
}

static bool read_entry(const tj_npz *z, const kit_zip_entry *e, kit_npy *a, kit_why *w)
{
	size_t bytes;
	const unsigned char *v = kit_map_data(z->map, &bytes);
	stream s = { .in = v + e->at, .in_left = e->packed, .out_left = e->bytes, .deflated = e->deflated };
	if (s.deflated && inflateInit2(&s.z, -MAX_WBITS) != Z_OK) return kit_no_memory(w);
	kit_source source = { .read = read_some, .env = &s, .left = (int64_t)e->bytes };
	bool ok = kit_npy_read(&source, a, w);
	if (s.deflated) inflateEnd(&s.z);
	if (ok && s.crc != e->crc) {
		ok = kit_no(w, TJ_ERR_PARSE, "its checksum is wrong");
		free(a->data);
	}
	return ok;
}

tj_tensor *tj_npz_get_at(const char *site, const tj_npz *z, const char *name)
{
	static const char op[] = "npz_get";
	kit_why w = { 0 };
	kit_npy a;
	size_t i = 0;
	if (!z || !name) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "the %s is NULL", z ? "name" : "file");
	while (i < z->count && strcmp(z->entry[i].name, name) != 0) i++;
	if (i == z->count) return tj_fail_at(site, TJ_ERR_ARG, op, NULL, "%s: it has no array %.80s", z->path, name);
	if (read_entry(z, &z->entry[i], &a, &w)) return kit_give(site, z->c, a.dtype, a.dim, a.stride, a.data);
	return tj_fail_at(site, w.code, op, NULL, "%s: %.80s: %s", z->path, name, w.text);
}
