/* SPDX-License-Identifier: MIT */
/* files: what the readers and writers of files share, here and in kit/data. kit/files/README.md says what they do. */
#ifndef TJ_KIT_FILES_H
#define TJ_KIT_FILES_H

#include <tjfiles.h>

#include "kit/kit.h"

#include <stdio.h>
#include <sys/types.h>

/* ---- why.c: errors of functions that do not report themselves ---- */
enum { KIT_WHY = 400 };
typedef struct kit_why {
	tj_status code;
	char text[KIT_WHY]; /* "": tjit has reported it already */
} kit_why;
bool kit_no(kit_why *w, tj_status code, const char *fmt, ...) TJ_PRINTF(3, 4); /* returns false */
bool kit_no_io(kit_why *w);                                                    /* by errno; returns false */
bool kit_no_memory(kit_why *w);                                                /* returns false */
/* "path: text"; path may be NULL. Returns poison. */
tj_tensor *kit_report(const char *site, const char *op, const char *path, const kit_why *w);

/* ---- map.c: a whole file, read only; the last of its holders unmaps it ---- */
typedef struct kit_map kit_map;
kit_map *kit_map_open(const char *path, kit_why *w); /* of a regular file; NULL: why */
const void *kit_map_data(const kit_map *m, size_t *bytes);
kit_map *kit_map_hold(kit_map *m);
void kit_map_drop(void *m); /* for tj_wrap(), too: any thread */

/* ---- replace.c: the one writer ---- */
typedef struct kit_out {
	FILE *f;
	uint64_t at; /* bytes so far */
} kit_out;
bool kit_put(void *out, const void *data, size_t bytes, kit_why *w);                     /* of a kit_out */
bool kit_patch(kit_out *o, uint64_t at, const void *data, size_t bytes, kit_why *w);     /* bytes that were written before */
/* Calls write(), and puts the file in the place of the old one if it returned true. */
bool kit_replace(const char *path, bool (*write)(void *env, kit_out *o, kit_why *w), void *env, kit_why *w);

/* ---- tensor.c: tensors that go to a file or come from one, and what handles of files share ---- */
typedef struct kit_tensor {
	tj_tensor *t;
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows the sizes */
	size_t bytes;
} kit_tensor;
bool kit_describe(const char *site, tj_tensor *t, kit_tensor *out, kit_why *w);
/* The elements, row-major, in a buffer that grows; the caller frees it. */
typedef struct kit_buffer {
	void *data;
	size_t room;
} kit_buffer;
bool kit_grow(kit_buffer *b, size_t bytes, kit_why *w); /* what is in it may get lost */
bool kit_fetch(const char *site, const kit_tensor *t, kit_buffer *b, kit_why *w);
/* Number of elements times the size of one. false: it has no bytes, as many as size_t may have; empty arrays must fit, too. */
bool kit_bytes_of(tj_dtype dtype, int rank, const int64_t *dim, size_t *bytes);
/* A tensor that takes `data`, which free() frees, also after an error. strides may be NULL. */
tj_tensor *kit_give(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims dim, tj_dims strides, void *data);
/* A tensor over `data`, which lies in the map and is aligned for the dtype; the tensor holds the map. */
tj_tensor *kit_map_wrap(const char *site, tj_ctx *c, tj_dtype dtype, tj_dims dim, const void *data, kit_map *m);
/* What a handle of a file begins with: a copy of its path and the file as a map; NULL: not there yet. The caller frees both, also after
 * an error. */
bool kit_map_path(const char *path, char **copy, kit_map **map, kit_why *w);
void kit_make_bools(tj_dtype dtype, void *data, size_t bytes); /* true is any byte but 0 in files, and 1 in tjit */

/* ---- utf8.c ---- */
/* How many bytes the first character has, and which it is (c may be NULL); 0: none, or what is there is not UTF-8. */
size_t kit_utf8(const char *s, size_t n, uint32_t *c);
bool kit_is_utf8(const char *s, size_t n);

/* ---- npy.c ---- */
/* An array as it lies in the file: its elements, in an order that the strides give. */
typedef struct kit_npy {
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1], stride[TJ_MAX_RANK + 1]; /* of elements; lists of <tj.h>: TJ_END_DIM follows */
	size_t bytes;
	void *data; /* free() frees it */
} kit_npy;
typedef struct kit_source {
	size_t (*read)(void *env, void *to, size_t bytes, kit_why *w); /* fewer bytes: the end, or an error if w->code is set */
	void *env;
	int64_t left; /* bytes that are there; -1: not known */
} kit_source;
kit_source kit_source_of(FILE *f);
/* false: w says what is wrong with the file. Memory is taken only for bytes that are there. What follows the array is an error. */
bool kit_npy_read(kit_source *s, kit_npy *out, kit_why *w);
enum { KIT_NPY_HEADER = 576 }; /* the longest one that is written */
/* The header of version 1; returns its size. */
size_t kit_npy_header(tj_dtype dtype, int rank, const int64_t *dim, char to[KIT_NPY_HEADER]);

/* ---- zip.c: the directory of a zip file in memory ---- */
typedef struct kit_zip_entry {
	char *name;          /* in the memory of the directory */
	uint32_t crc;
	bool deflated;
	size_t at, packed, bytes; /* where its data are, their size, and that of what they become */
} kit_zip_entry;
/* All entries, sorted by place; free(*out) frees them. They lie in the file, one behind the other, and their sizes are possible. */
bool kit_zip_list(const unsigned char *v, size_t n, kit_zip_entry **out, size_t *count, kit_why *w);
enum { KIT_DEFLATE_RATIO = 1032 }; /* deflate makes no more of a byte */

/* ---- library.c ---- */
/* Opens a library, which then stays in the process, and puts the addresses of its functions, a NULL behind the names, into `to`, a struct
 * of pointers to functions. The caller closes it: dlclose(). NULL: why. */
void *kit_library(const char *name, const char *package, const char *const *functions, void *to, kit_why *w);

/* ---- image.c, png.c, jpeg.c ---- */
typedef struct kit_image {
	uint32_t height, width;
	int channels;
} kit_image;
/* memory: gives room for the pixels once their size is known; NULL: why */
typedef void *kit_pixels(void *env, const kit_image *m, kit_why *w);
bool kit_png_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w);
bool kit_png_pack(const kit_image *m, const void *pixels, kit_buffer *out, size_t *bytes, kit_why *w);
bool kit_jpeg_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w);
/* By the first bytes of the file. */
bool kit_image_read(const void *data, size_t bytes, int channels, kit_pixels *memory, void *env, kit_why *w);

#endif
