/* SPDX-License-Identifier: MIT */
/* png: by libpng's simplified functions, which report errors as values. */
#include "kit/files/files.h"

#include <dlfcn.h>
#include <png.h>
#include <stdlib.h>
#include <zlib.h>

typedef struct library { /* in the order of names */
	__typeof__(png_image_begin_read_from_memory) *begin;
	__typeof__(png_image_finish_read) *finish;
	__typeof__(png_image_write_to_memory) *write;
	__typeof__(png_image_free) *free;
} library;

static void *open_library(library *l, kit_why *w)
{
	static const char *const names[] = { "png_image_begin_read_from_memory", "png_image_finish_read", "png_image_write_to_memory",
		                             "png_image_free", NULL };
	return kit_library("libpng16.so.16", "libpng16-16", names, l, w);
}

static uint32_t big(const unsigned char *v)
{
	return (uint32_t)v[0] << 24 | (uint32_t)v[1] << 16 | (uint32_t)v[2] << 8 | v[3];
}

/* A file whose data could not be unpacked to that many pixels does not get memory for them. The header is the first piece of the file. */
static bool check_size(const unsigned char *v, size_t n, kit_why *w)
{
	enum { WIDTH = 16, HEIGHT = 20, DEPTH = 24, COLOUR = 25, HEADER = 29 };
	static const unsigned char samples[7] = { 1, 0, 3, 1, 2, 0, 4 };
	if (n < HEADER || memcmp(v + 12, "IHDR", 4) != 0) return kit_no(w, TJ_ERR_PARSE, "its header is missing");
	const uint64_t bits = v[COLOUR] < 7 ? (uint64_t)samples[v[COLOUR]] * v[DEPTH] : 0, width = big(v + WIDTH), height = big(v + HEIGHT);
	if (!bits || !width || !height || width > 1000000 || height > 1000000)
		return kit_no(w, TJ_ERR_PARSE, "its header is wrong: %llu x %llu pixels of %llu bits", (unsigned long long)width,
		              (unsigned long long)height, (unsigned long long)bits);
	if ((width * bits + 7) / 8 * height / KIT_DEFLATE_RATIO > n)
		return kit_no(w, TJ_ERR_PARSE, "%zu bytes cannot become %llu x %llu pixels", n, (unsigned long long)width, (unsigned long long)height);
	return true;
}

/* How long a packed colour profile says it is: its first four bytes; 0: they cannot be unpacked, and libpng says so. */
static uint32_t profile_size(const unsigned char *v, uint32_t n)
{
	unsigned char size[4];
	const unsigned char *name_end = memchr(v, 0, n);
	const size_t skip = name_end ? (size_t)(name_end - v) + 2 : n; /* a byte for the method follows the name */
	z_stream z = { .next_out = size, .avail_out = sizeof size };
	if (skip >= n || inflateInit(&z) != Z_OK) return 0;
	z.next_in = (unsigned char *)(uintptr_t)v + skip, z.avail_in = n - (uint32_t)skip;
	inflate(&z, Z_SYNC_FLUSH);
	inflateEnd(&z);
	return z.avail_out ? 0 : big(size);
}

/* libpng takes as much memory as pieces and colour profiles say they are long. */
static bool check_pieces(const unsigned char *v, size_t n, kit_why *w)
{
	enum { SIGNATURE = 8, AROUND = 12 };
	for (size_t at = SIGNATURE; n - at >= AROUND;) {
		const uint32_t size = big(v + at);
		const unsigned char *piece = v + at + 8, *type = v + at + 4;
		if (size > n - at - AROUND) return kit_no(w, TJ_ERR_PARSE, "a piece of it is cut: %u bytes at byte %zu", size, at);
		if (!memcmp(type, "iCCP", 4) && profile_size(piece, size) / KIT_DEFLATE_RATIO > size)
			return kit_no(w, TJ_ERR_PARSE, "%u bytes cannot become its colour profile", size);
		if (!memcmp(type, "IEND", 4)) break;
		at += size + (size_t)AROUND;
	}
	return true;
}

/* libpng counts the channels of a format so. */
static uint32_t format_of(int channels)
{
	static const uint32_t formats[] = { 0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA };
	return formats[channels];
}

/* Alpha that is not wanted is laid over black. */
static bool decode(const library *l, png_image *p, int channels, kit_pixels *memory, void *env, kit_why *w)
{
	static const png_color black = { 0 };
	const kit_image m = { p->height, p->width, channels ? channels : (int)PNG_IMAGE_SAMPLE_CHANNELS(p->format) };
	p->format = format_of(m.channels);
	p->flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* samples of 16 bits are what those of 8 bits are */
	void *to = memory(env, &m, w);
	if (!to) return l->free(p), false;
	if (l->finish(p, &black, to, 0, NULL)) return true;
	kit_no(w, TJ_ERR_PARSE, "libpng: %s", p->message);
	l->free(p);
	return false;
}

bool kit_png_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w)
{
	library l;
	png_image p = { .version = PNG_IMAGE_VERSION };
	void *so = check_size(data, bytes, w) && check_pieces(data, bytes, w) ? open_library(&l, w) : NULL;
	if (!so) return false;
	bool ok = l.begin(&p, data, bytes);
	if (!ok) {
		kit_no(w, TJ_ERR_PARSE, "libpng: %s", p.message);
		l.free(&p);
	}
	ok = ok && decode(&l, &p, channels, memory, env, w);
	dlclose(so);
	return ok;
}

static bool encode(const library *l, png_image *p, const void *pixels, kit_buffer *out, size_t *bytes, kit_why *w)
{
	png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(*p);
	if (!kit_grow(out, n, w)) return false;
	if (!l->write(p, out->data, &n, 0, pixels, 0, NULL)) return l->free(p), kit_no(w, TJ_ERR_IO, "libpng: %s", p->message);
	*bytes = n;
	return true;
}

bool kit_png_pack(const kit_image *m, const void *pixels, kit_buffer *out, size_t *bytes, kit_why *w)
{
	library l;
	png_image p = { .version = PNG_IMAGE_VERSION, .width = m->width, .height = m->height, .format = format_of(m->channels) };
	void *so = open_library(&l, w);
	if (!so) return false;
	const bool ok = encode(&l, &p, pixels, out, bytes, w);
	dlclose(so);
	return ok;
}
