/* SPDX-License-Identifier: MIT */
/* zip: the directory of a zip file, which stands at its end.
 *
 *   for each entry: local header, name, extra, data    the directory: an entry each    the zip64 record and its locator    the end record
 *
 * Sizes and offsets of 0xffffffff stand for 8 bytes in a field of the extra data (zip64). Of one file there is one disk and no code. */
#include "kit/files/files.h"

#include <stdlib.h>

enum { LOCAL = 30, CENTRAL = 46, END = 22, LOCATOR = 20, END64 = 56, LONGEST_COMMENT = 65535, ZIP64 = 1 };
enum { STORED = 0, DEFLATED = 8, ENCRYPTED = 1 };

typedef struct file { const unsigned char *v; size_t n; } file;

static uint64_t little(const unsigned char *v, int bytes)
{
	uint64_t x = 0;
	while (bytes--) x = x << 8 | v[bytes];
	return x;
}

static bool lies_in(const file *f, uint64_t at, uint64_t n)
{
	return at <= f->n && n <= f->n - at;
}

static bool is_at(const file *f, uint64_t at, uint64_t n, const char sign[4])
{
	return lies_in(f, at, n) && !memcmp(f->v + at, sign, 4);
}

/* ---- the end record ---- */
typedef struct directory { uint64_t at, bytes, entries; } directory;

static bool read_end64(const file *f, size_t end, directory *d, kit_why *w)
{
	if (end < LOCATOR || !is_at(f, end - LOCATOR, LOCATOR, "PK\6\7")) return kit_no(w, TJ_ERR_PARSE, "its zip64 record is missing");
	const uint64_t at = little(f->v + end - LOCATOR + 8, 8);
	if (!is_at(f, at, END64, "PK\6\6")) return kit_no(w, TJ_ERR_PARSE, "its zip64 record is missing");
	*d = (directory){ .entries = little(f->v + at + 32, 8), .bytes = little(f->v + at + 40, 8), .at = little(f->v + at + 48, 8) };
	return true;
}

/* A comment of up to 64 KiB may follow it. */
static bool read_end(const file *f, directory *d, kit_why *w)
{
	size_t at = f->n < END ? 0 : f->n - END;
	const size_t first = at > LONGEST_COMMENT ? at - LONGEST_COMMENT : 0;
	while (at > first && !(is_at(f, at, END, "PK\5\6") && little(f->v + at + 20, 2) == f->n - at - END)) at--;
	if (!is_at(f, at, END, "PK\5\6")) return kit_no(w, TJ_ERR_PARSE, "it is no .npz file: it has no directory of a zip file");
	*d = (directory){ .entries = little(f->v + at + 10, 2), .bytes = little(f->v + at + 12, 4), .at = little(f->v + at + 16, 4) };
	if (little(f->v + at + 4, 2) || little(f->v + at + 6, 2)) return kit_no(w, TJ_ERR_PARSE, "it is a part of a zip file of several parts");
	const bool large = d->entries == 0xffff || d->bytes == 0xffffffff || d->at == 0xffffffff;
	if (large && !read_end64(f, at, d, w)) return false;
	if (!lies_in(f, d->at, d->bytes) || d->at + d->bytes > at || d->entries > d->bytes / CENTRAL)
		return kit_no(w, TJ_ERR_PARSE, "its directory does not lie in the file");
	return true;
}

/* ---- one entry ---- */
/* The value of a field, of the directory or of the zip64 field, whose next 8 bytes it then takes. */
static bool large_value(uint64_t small, const unsigned char **extra, size_t *left, uint64_t *out)
{
	*out = small;
	if (small != 0xffffffff) return true;
	if (*left < 8) return false;
	*out = little(*extra, 8);
	*extra += 8;
	*left -= 8;
	return true;
}

/* The zip64 field among the extra data; *left is its size. */
static const unsigned char *find_zip64(const unsigned char *extra, size_t bytes, size_t *left)
{
	for (*left = 0; bytes >= 4;) {
		const size_t n = little(extra + 2, 2);
		if (n > bytes - 4) return NULL;
		if (little(extra, 2) == ZIP64) return *left = n, extra + 4;
		extra += 4 + n;
		bytes -= 4 + n;
	}
	return NULL;
}

static bool check_name(const char *name, size_t n, kit_why *w)
{
	if (!n || memchr(name, 0, n)) return kit_no(w, TJ_ERR_PARSE, "a name in it is empty, or has a zero byte");
	if (name[0] == '/' || memchr(name, '\\', n) || strstr(name, ".."))
		return kit_no(w, TJ_ERR_PARSE, "the name %.80s leads out of the file", name);
	return true;
}

/* Where the data are: behind the local header, whose name and extra data may differ from those of the directory. */
static bool find_data(const file *f, uint64_t local, kit_zip_entry *e, kit_why *w)
{
	if (!is_at(f, local, LOCAL, "PK\3\4")) return kit_no(w, TJ_ERR_PARSE, "%.80s: it has no header", e->name);
	const uint64_t at = local + LOCAL + little(f->v + local + 26, 2) + little(f->v + local + 28, 2);
	if (!lies_in(f, at, e->packed)) return kit_no(w, TJ_ERR_PARSE, "%.80s: its data do not lie in the file", e->name);
	e->at = (size_t)at;
	return true;
}

/* v: of CENTRAL bytes and more; name: room for the name and a 0 */
static bool read_entry(const file *f, const unsigned char *v, char *name, kit_zip_entry *e, kit_why *w)
{
	const size_t n = little(v + 28, 2), extra_bytes = little(v + 30, 2);
	const unsigned method = (unsigned)little(v + 10, 2);
	uint64_t packed, bytes, local;
	size_t left;
	memcpy(name, v + CENTRAL, n);
	name[n] = 0;
	*e = (kit_zip_entry){ .name = name, .crc = (uint32_t)little(v + 16, 4), .deflated = method == DEFLATED };
	if (!check_name(name, n, w)) return false;
	if (little(v + 8, 2) & ENCRYPTED) return kit_no(w, TJ_ERR_PARSE, "%.80s: it is encrypted", name);
	if (method != STORED && method != DEFLATED)
		return kit_no(w, TJ_ERR_PARSE, "%.80s: it is packed by method %u; 0 and 8 (deflate) are known", name, method);
	const unsigned char *extra = find_zip64(v + CENTRAL + n, extra_bytes, &left);
	if (!large_value(little(v + 24, 4), &extra, &left, &bytes) || !large_value(little(v + 20, 4), &extra, &left, &packed) ||
	    !large_value(little(v + 42, 4), &extra, &left, &local))
		return kit_no(w, TJ_ERR_PARSE, "%.80s: its zip64 field is too short", name);
	if (packed > f->n || (e->deflated ? bytes / KIT_DEFLATE_RATIO > packed : bytes != packed))
		return kit_no(w, TJ_ERR_PARSE, "%.80s: %llu bytes cannot become %llu", name, (unsigned long long)packed, (unsigned long long)bytes);
	e->packed = (size_t)packed;
	e->bytes = (size_t)bytes;
	return find_data(f, local, e, w);
}

static int by_place(const void *a, const void *b)
{
	const kit_zip_entry *x = a, *y = b;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Two entries over the same bytes are how a small file claims to be a large one. */
static bool check_places(const kit_zip_entry *e, size_t n, size_t end, kit_why *w)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].at + e[i].packed > (i + 1 < n ? e[i + 1].at : end))
			return kit_no(w, TJ_ERR_PARSE, "%.80s: its data and what follows overlap", e[i].name);
	return true;
}

static bool read_entries(const file *f, const directory *d, kit_zip_entry *e, kit_why *w)
{
	uint64_t at = d->at;
	const uint64_t end = d->at + d->bytes;
	char *name = (char *)(e + d->entries); /* room for all of them: see kit_zip_list() */
	for (uint64_t i = 0; i < d->entries; i++) {
		if (end - at < CENTRAL || !is_at(f, at, CENTRAL, "PK\1\2")) return kit_no(w, TJ_ERR_PARSE, "its directory is broken");
		const unsigned char *v = f->v + at;
		const size_t n = little(v + 28, 2), size = CENTRAL + n + little(v + 30, 2) + little(v + 32, 2);
		if (size > end - at) return kit_no(w, TJ_ERR_PARSE, "its directory is broken");
		if (!read_entry(f, v, name, &e[i], w)) return false;
		name += n + 1;
		at += size;
	}
	return true;
}

bool kit_zip_list(const unsigned char *v, size_t n, kit_zip_entry **out, size_t *count, kit_why *w)
{
	const file f = { v, n };
	directory d = { 0 };
	*out = NULL;
	if (!read_end(&f, &d, w)) return false;
	kit_zip_entry *e = malloc(d.entries * sizeof *e + d.bytes + 1); /* names are parts of the directory, and CENTRAL is more than a 0 */
	if (!e) return kit_no_memory(w);
	*count = (size_t)d.entries;
	if (read_entries(&f, &d, e, w)) {
		qsort(e, *count, sizeof *e, by_place);
		if (check_places(e, *count, (size_t)d.at, w)) return *out = e, true;
	}
	free(e);
	return false;
}
