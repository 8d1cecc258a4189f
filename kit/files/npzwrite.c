/* SPDX-License-Identifier: MIT */
/* npzwrite: zip files of .npy files. Local headers always have the zip64 field, as NumPy's have, since sizes are known only behind the
 * data. One content gives one file: all are of the first day of 1980. */
#include "kit/files/files.h"

#include <stdlib.h>
#include <zlib.h>

enum { LOCAL = 30, CENTRAL = 46, END = 22, LOCATOR = 20, END64 = 56, EXTRA64 = 20, VERSION = 45 };
enum { DEFLATED = 8, FIRST_DAY = 0x21, UTF8 = 1 << 11 };

typedef struct entry {
	const char *name;
	kit_tensor t;
	uint64_t local, bytes, packed;
	uint32_t crc;
} entry;
typedef struct job {
	const char *site;
	entry *of;
	size_t n;
	bool compress;
} job;

static void put_little(unsigned char *v, int at, int bytes, uint64_t x)
{
	for (int i = 0; i < bytes; i++) v[at + i] = (unsigned char)(x >> 8 * i);
}

static bool check_name(const job *j, size_t i, kit_why *w)
{
	const char *name = j->of[i].name;
	if (!name || !*name) return kit_no(w, TJ_ERR_ARG, "name %zu is %s", i, name ? "empty" : "NULL");
	if (*name == '/' || strchr(name, '\\') || strstr(name, "..") || strlen(name) > 1000)
		return kit_no(w, TJ_ERR_ARG, "the name %.80s has a '/' at its begin, a '\\', \"..\" or more than 1000 bytes", name);
	for (size_t k = 0; k < i; k++)
		if (!strcmp(name, j->of[k].name)) return kit_no(w, TJ_ERR_ARG, "%.80s is there twice", name);
	return true;
}

static bool collect(job *j, const char *const *names, tj_list tensors, kit_why *w)
{
	if (!names || !tensors) return kit_no(w, TJ_ERR_ARG, "%s is NULL", names ? "tensors" : "names");
	j->n = (size_t)kit_length(tensors);
	j->of = calloc(j->n + 1, sizeof *j->of);
	if (!j->of) return kit_no_memory(w);
	for (size_t i = 0; i < j->n; i++) {
		j->of[i].name = names[i];
		if (!check_name(j, i, w) || !kit_describe(j->site, tensors[i], &j->of[i].t, w)) return false;
	}
	return true;
}

/* ---- data ---- */
/* Everything that zlib has for `n` more bytes goes to the file; last: until the end. */
static bool deflate_some(z_stream *z, kit_out *o, const void *data, size_t n, bool last, kit_why *w)
{
	unsigned char out[1 << 15];
	const unsigned char *v = data;
	do {
		const size_t k = n < 1 << 30 ? n : 1 << 30;
		z->next_in = (Bytef *)(uintptr_t)v;
		z->avail_in = (uInt)k;
		v += k;
		n -= k;
		do {
			z->next_out = out;
			z->avail_out = sizeof out;
			deflate(z, last && !n ? Z_FINISH : Z_NO_FLUSH);
			if (!kit_put(o, out, sizeof out - z->avail_out, w)) return false;
		} while (!z->avail_out);
	} while (n);
	return true;
}

static void add(entry *e, const void *data, size_t n)
{
	e->bytes += n;
	for (size_t at = 0; at < n;) {
		const size_t k = n - at < 1 << 30 ? n - at : 1 << 30;
		e->crc = (uint32_t)crc32(e->crc, (const Bytef *)data + at, (uInt)k);
		at += k;
	}
}

static bool put_data(const job *j, entry *e, kit_out *o, const kit_buffer *b, kit_why *w)
{
	char header[KIT_NPY_HEADER];
	const size_t n = kit_npy_header(e->t.dtype, e->t.rank, e->t.dim, header);
	z_stream z = { 0 };
	add(e, header, n);
	add(e, b->data, e->t.bytes);
	if (!j->compress) return kit_put(o, header, n, w) && kit_put(o, b->data, e->t.bytes, w);
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) return kit_no_memory(w);
	const bool ok = deflate_some(&z, o, header, n, false, w) && deflate_some(&z, o, b->data, e->t.bytes, true, w);
	deflateEnd(&z);
	return ok;
}

/* ---- headers ---- */
/* What both headers of an entry have, from the field "version needed" on; the sizes stand in the zip64 field. */
static void put_common(const job *j, const entry *e, unsigned char *v)
{
	put_little(v, 0, 2, VERSION);
	put_little(v, 2, 2, UTF8);
	put_little(v, 4, 2, j->compress ? DEFLATED : 0);
	put_little(v, 8, 2, FIRST_DAY);
	put_little(v, 10, 4, e->crc);
	put_little(v, 14, 4, 0xffffffff);
	put_little(v, 18, 4, 0xffffffff);
	put_little(v, 22, 2, strlen(e->name) + 4);
}

static bool put_names(const entry *e, kit_out *o, kit_why *w)
{
	return kit_put(o, e->name, strlen(e->name), w) && kit_put(o, ".npy", 4, w);
}

static void fill_local(const job *j, const entry *e, unsigned char v[LOCAL], unsigned char extra[EXTRA64])
{
	memset(v, 0, LOCAL);
	memcpy(v, "PK\3\4", 4);
	put_common(j, e, v + 4);
	put_little(v, 28, 2, EXTRA64);
	put_little(extra, 0, 2, 1);
	put_little(extra, 2, 2, EXTRA64 - 4);
	put_little(extra, 4, 8, e->bytes);
	put_little(extra, 12, 8, e->packed);
}

static bool put_entry(const job *j, entry *e, kit_out *o, const kit_buffer *b, kit_why *w)
{
	unsigned char v[LOCAL], extra[EXTRA64];
	const size_t name = strlen(e->name) + 4;
	e->local = o->at;
	fill_local(j, e, v, extra);
	if (!kit_put(o, v, LOCAL, w) || !put_names(e, o, w) || !kit_put(o, extra, EXTRA64, w)) return false;
	const uint64_t first = o->at;
	if (!put_data(j, e, o, b, w)) return false;
	e->packed = o->at - first;
	fill_local(j, e, v, extra); /* now the sizes and the checksum are known */
	return kit_patch(o, e->local, v, LOCAL, w) && kit_patch(o, e->local + LOCAL + name, extra, EXTRA64, w);
}

static bool put_central(const job *j, const entry *e, kit_out *o, kit_why *w)
{
	unsigned char v[CENTRAL] = "PK\1\2", extra[EXTRA64 + 8];
	put_little(v, 4, 2, VERSION);
	put_common(j, e, v + 6);
	put_little(v, 30, 2, sizeof extra);
	put_little(v, 42, 4, 0xffffffff);
	put_little(extra, 0, 2, 1);
	put_little(extra, 2, 2, sizeof extra - 4);
	put_little(extra, 4, 8, e->bytes);
	put_little(extra, 12, 8, e->packed);
	put_little(extra, 20, 8, e->local);
	return kit_put(o, v, CENTRAL, w) && put_names(e, o, w) && kit_put(o, extra, sizeof extra, w);
}

/* The zip64 record stands there only if the short one cannot say it. */
static bool put_end(const job *j, uint64_t first, kit_out *o, kit_why *w)
{
	const uint64_t end = o->at, bytes = end - first;
	unsigned char large[END64] = "PK\6\6", locator[LOCATOR] = "PK\6\7", v[END] = "PK\5\6";
	const bool is_large = j->n >= 0xffff || end >= 0xffffffff;
	put_little(large, 4, 8, END64 - 12);
	put_little(large, 12, 2, VERSION);
	put_little(large, 14, 2, VERSION);
	put_little(large, 24, 8, j->n);
	put_little(large, 32, 8, j->n);
	put_little(large, 40, 8, bytes);
	put_little(large, 48, 8, first);
	put_little(locator, 8, 8, end);
	put_little(locator, 16, 4, 1);
	put_little(v, 8, 2, is_large ? 0xffff : j->n);
	put_little(v, 10, 2, is_large ? 0xffff : j->n);
	put_little(v, 12, 4, is_large ? 0xffffffff : bytes);
	put_little(v, 16, 4, is_large ? 0xffffffff : first);
	if (is_large && (!kit_put(o, large, END64, w) || !kit_put(o, locator, LOCATOR, w))) return false;
	return kit_put(o, v, END, w);
}

static bool write_all(void *env, kit_out *o, kit_why *w)
{
	job *j = env;
	kit_buffer b = { 0 };
	bool ok = true;
	for (size_t i = 0; ok && i < j->n; i++) ok = kit_fetch(j->site, &j->of[i].t, &b, w) && put_entry(j, &j->of[i], o, &b, w);
	free(b.data);
	const uint64_t first = o->at;
	for (size_t i = 0; ok && i < j->n; i++) ok = put_central(j, &j->of[i], o, w);
	return ok && put_end(j, first, o, w);
}

tj_status tj_npz_save_at(const char *site, const char *path, const char *const *names, tj_list tensors, bool compress)
{
	kit_why w = { 0 };
	job j = { .site = site, .compress = compress };
	const bool ok = collect(&j, names, tensors, &w) && kit_replace(path, write_all, &j, &w);
	free(j.of);
	if (ok) return TJ_OK;
	if (*w.text) kit_report(site, "npz_save", path, &w);
	return w.code;
}
