/* SPDX-License-Identifier: MIT */
/* jpeg: by libjpeg, whose errors jump back to decode(). A file that is only damaged is an error, too. */
#include "kit/files/files.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <jerror.h>

typedef struct library { /* in the order of names */
	__typeof__(jpeg_std_error) *std_error;
	__typeof__(jpeg_CreateDecompress) *create;
	__typeof__(jpeg_mem_src) *mem_src;
	__typeof__(jpeg_read_header) *read_header;
	__typeof__(jpeg_start_decompress) *start;
	__typeof__(jpeg_read_scanlines) *read_lines;
	__typeof__(jpeg_finish_decompress) *finish;
	__typeof__(jpeg_destroy_decompress) *destroy;
} library;

static void *open_library(library *l, kit_why *w)
{
	static const char *const names[] = { "jpeg_std_error",        "jpeg_CreateDecompress", "jpeg_mem_src",           "jpeg_read_header",
		                             "jpeg_start_decompress", "jpeg_read_scanlines",   "jpeg_finish_decompress", "jpeg_destroy_decompress",
		                             NULL };
	return kit_library("libjpeg.so.62", "libjpeg62-turbo", names, l, w);
}

typedef struct decoder {
	struct jpeg_decompress_struct j;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	kit_why *w;
	bool made; /* jpeg_CreateDecompress() was called */
} decoder;

static decoder *decoder_of(j_common_ptr j) { return j->client_data; }

static void fails(j_common_ptr j)
{
	char text[JMSG_LENGTH_MAX];
	j->err->format_message(j, text);
	kit_no(decoder_of(j)->w, j->err->msg_code == JERR_OUT_OF_MEMORY ? TJ_ERR_NOMEM : TJ_ERR_PARSE, "libjpeg: %s", text);
	longjmp(decoder_of(j)->back, 1);
}

/* Level -1 is a warning: data are damaged or end too early. */
static void says(j_common_ptr j, int level)
{
	if (level < 0) fails(j);
}

static void is_silent(j_common_ptr j) { (void)j; }

/* A progressive file of many scans takes the time of as many pictures. */
static void goes_on(j_common_ptr j)
{
	enum { MOST_SCANS = 200 };
	if (((j_decompress_ptr)j)->input_scan_number <= MOST_SCANS) return;
	kit_no(decoder_of(j)->w, TJ_ERR_PARSE, "it has more than %d scans", MOST_SCANS);
	longjmp(decoder_of(j)->back, 1);
}

/* Each block of 8 x 8 takes a bit at least, if its coder is Huffman's. */
static bool check_size(const decoder *d, size_t bytes, kit_why *w)
{
	const uint64_t pixels = (uint64_t)d->j.image_width * d->j.image_height;
	if (d->j.arith_code) return kit_no(w, TJ_ERR_PARSE, "it has arithmetic coding, which is not read");
	if (pixels / 512 > bytes)
		return kit_no(w, TJ_ERR_PARSE, "%zu bytes cannot become %u x %u pixels", bytes, d->j.image_width, d->j.image_height);
	return true;
}

/* libjpeg gives gray or RGB; alpha, which it does not know, is full. */
static void spread(unsigned char *line, uint32_t width, int from, int to)
{
	for (uint32_t i = width; from != to && i--;) {
		const unsigned char *s = line + (size_t)i * (size_t)from;
		const unsigned char v[4] = { s[0], from == 1 ? s[0] : s[1], from == 1 ? s[0] : s[2], 255 };
		unsigned char *d = line + (size_t)i * (size_t)to;
		if (to == 2) d[0] = v[0], d[1] = 255;
		else memcpy(d, v, (size_t)to);
	}
}

static bool decode(const library *l, decoder *d, const void *data, size_t bytes, int channels, kit_pixels *memory, void *env)
{
	kit_image m;
	if (setjmp(d->back)) return false;
	l->create(&d->j, JPEG_LIB_VERSION, sizeof d->j);
	d->made = true;
	d->j.progress = &d->progress;
	l->mem_src(&d->j, data, bytes);
	l->read_header(&d->j, TRUE);
	if (!check_size(d, bytes, d->w)) return false;
	m = (kit_image){ d->j.image_height, d->j.image_width, channels ? channels : d->j.num_components == 1 ? 1 : 3 };
	d->j.out_color_space = m.channels <= 2 ? JCS_GRAYSCALE : JCS_RGB;
	l->start(&d->j);
	unsigned char *to = memory(env, &m, d->w);
	if (!to) return false;
	while (d->j.output_scanline < m.height) {
		JSAMPROW line = to + (size_t)d->j.output_scanline * m.width * (size_t)m.channels;
		l->read_lines(&d->j, &line, 1);
		spread(line, m.width, d->j.output_components, m.channels);
	}
	l->finish(&d->j);
	return true;
}

bool kit_jpeg_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w)
{
	library l;
	void *so = open_library(&l, w);
	if (!so) return false;
	decoder *d = calloc(1, sizeof *d);
	bool ok = d || kit_no_memory(w);
	if (ok) {
		d->w = w;
		d->j.err = l.std_error(&d->errors);
		d->errors.error_exit = fails;
		d->errors.emit_message = says;
		d->errors.output_message = is_silent;
		d->progress.progress_monitor = goes_on;
		d->j.client_data = d;
		ok = decode(&l, d, data, bytes, channels, memory, env);
		if (d->made) l.destroy(&d->j);
	}
	free(d);
	dlclose(so);
	return ok;
}
