/* SPDX-License-Identifier: MIT */
/* tjfiles.h - files of tensors: NumPy's .npy and .npz, safetensors, GGUF, and pictures. Part of libtjkit.
 *
 *   tj_safetensors *s = tj_safetensors_open(c, "model.safetensors");
 *   tj_tensor *w = tj_safetensors_get(s, "layer.0.weight");        // over the mapped file, no copy
 *   tj_safetensors_close(s);                                       // w stays valid
 *
 *   const char *names[] = { "weight", "bias" };
 *   tj_safetensors_save("new.safetensors", names, TJ_LIST(w, b), NULL);
 *
 * Reading.  A file is checked whole before anything of it is used, and memory is taken only for bytes that are there: a file may come
 *   from anywhere. Integers, floats and strides are little endian.
 * Writing.  All of a file is written beside the old one, brought to the disk, and then renamed over it: after an error the old file is as
 *   it was, and no other file stays. A link stays a link; a device or a pipe is written as it is. A new file has the rights that the umask
 *   leaves, a replaced one those of the old one.
 * Ownership.  Tensors are in the innermost open scope of c, like results of ops, on the CPU (tj_to() copies them to another device). A
 *   tensor over a map keeps the map, also after the close of its file. A mapped file must not be changed or cut in place; a file that is
 *   replaced, as all functions here do, is another file. Texts and entries live as long as the handle that gave them.
 * Errors.  The current context keeps the first one: TJ_ERR_IO when the system refuses, TJ_ERR_PARSE when the file is wrong, TJ_ERR_DTYPE
 *   for a dtype that tjit does not have, TJ_ERR_ARG else. The function returns poison, NULL or that status. The message names the file.
 *   All handles may be NULL where they are closed.
 * Threads.  A handle serves one thread at a time, and its context must not be at work in another thread. */
#ifndef TJ_FILES_H
#define TJ_FILES_H

#include <tj.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- npy: one array ------------------------------------------------------------------------------- */

/* Versions 1 to 3, in C or Fortran order; "-" is stdin. bf16 is V2, as NumPy saves it without a type of its own. */
TJ_API tj_tensor *tj_npy_load_at(const char *site, tj_ctx *c, const char *path);
TJ_API tj_status tj_npy_save_at(const char *site, tj_tensor *t, const char *path); /* "-" is stdout */
#define tj_npy_load(c, path) tj_npy_load_at(TJ_SITE, c, path)
#define tj_npy_save(t, path) tj_npy_save_at(TJ_SITE, t, path)

/* ---- npz: several arrays, by name ----------------------------------------------------------------- */

/* A zip of .npy files, stored or deflated, with zip64. Names have no ".npy" at their end. An array is read when it is asked for. */
typedef struct tj_npz tj_npz;
TJ_API tj_npz *tj_npz_open_at(const char *site, tj_ctx *c, const char *path);
TJ_API int64_t tj_npz_count(const tj_npz *z);
TJ_API const char *tj_npz_name(const tj_npz *z, int64_t i);                            /* NULL: there is no i-th */
TJ_API tj_tensor *tj_npz_get_at(const char *site, const tj_npz *z, const char *name);
TJ_API void tj_npz_close(tj_npz *z);
/* names: one for each tensor. They have no '/' at their begin and no ".." in them, and differ. compress: by deflate. */
TJ_API tj_status tj_npz_save_at(const char *site, const char *path, const char *const *names, tj_list tensors, bool compress);
#define tj_npz_open(c, path) tj_npz_open_at(TJ_SITE, c, path)
#define tj_npz_get(z, name) tj_npz_get_at(TJ_SITE, z, name)
#define tj_npz_save(path, names, tensors, compress) tj_npz_save_at(TJ_SITE, path, names, tensors, compress)

/* ---- safetensors ---------------------------------------------------------------------------------- */

/* An 8-byte length, a JSON header of up to 100,000,000 bytes, then the elements of all tensors without gaps. The dtypes U16, U32, U64 and
 * those of 8 and fewer bits that tjit does not have are refused by name. */
typedef struct tj_safetensors tj_safetensors;
typedef struct tj_safetensors_entry {
	const char *name;
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows the sizes: a list of <tj.h> */
	const void *data;             /* row-major, in the map; it need not be aligned to the size of an element */
	size_t bytes;
} tj_safetensors_entry;
TJ_API tj_safetensors *tj_safetensors_open_at(const char *site, tj_ctx *c, const char *path);
TJ_API int64_t tj_safetensors_count(const tj_safetensors *s);
/* In the order of their data. NULL: there is no i-th, or none of that name. */
TJ_API const tj_safetensors_entry *tj_safetensors_at(const tj_safetensors *s, int64_t i);
TJ_API const tj_safetensors_entry *tj_safetensors_find(const tj_safetensors *s, const char *name);
/* The value of a key of __metadata__, and the i-th key; NULL: there is none. */
TJ_API const char *tj_safetensors_metadata(const tj_safetensors *s, const char *key);
TJ_API const char *tj_safetensors_metadata_key(const tj_safetensors *s, int64_t i);
/* Over the map. Copied are only elements that are not aligned, and bools that are not 0 or 1. */
TJ_API tj_tensor *tj_safetensors_get_at(const char *site, const tj_safetensors *s, const char *name);
TJ_API void tj_safetensors_close(tj_safetensors *s);
/* names: one for each tensor; they differ. metadata: key, value, key, value, ..., NULL; or NULL. All texts are UTF-8. The data are laid out
 * with the largest elements first, and by name, so that all are aligned: one content gives one file. */
TJ_API tj_status tj_safetensors_save_at(const char *site, const char *path, const char *const *names, tj_list tensors,
                                        const char *const *metadata);
#define tj_safetensors_open(c, path) tj_safetensors_open_at(TJ_SITE, c, path)
#define tj_safetensors_get(s, name) tj_safetensors_get_at(TJ_SITE, s, name)
#define tj_safetensors_save(path, names, tensors, metadata) tj_safetensors_save_at(TJ_SITE, path, names, tensors, metadata)

/* ---- GGUF: the files of llama.cpp ---------------------------------------------------------------- */

/* Versions 2 and 3, little endian. Types: F32, F64, F16, BF16, I8, I16, I32, I64; and blocks of small integers that have scales: Q4_0,
 * Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K. Others are refused by name. */
typedef struct tj_gguf tj_gguf;
typedef struct tj_gguf_entry {
	const char *name;
	const char *type;             /* "F32", "Q4_K" */
	tj_dtype dtype;               /* of tj_gguf_get(): F32 of those with blocks */
	int group;                    /* elements of the last axis that have one scale: 16 or 32; 0: no blocks */
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows the sizes; the last one is that of the file's first */
	const void *data;             /* in the map */
	size_t bytes;
} tj_gguf_entry;
typedef enum tj_gguf_type { /* of metadata; the numbers are those of the files */
	TJ_GGUF_U8, TJ_GGUF_I8, TJ_GGUF_U16, TJ_GGUF_I16, TJ_GGUF_U32, TJ_GGUF_I32, TJ_GGUF_F32, TJ_GGUF_BOOL, TJ_GGUF_TEXT, TJ_GGUF_ARRAY,
	TJ_GGUF_U64, TJ_GGUF_I64, TJ_GGUF_F64
} tj_gguf_type;
typedef struct tj_gguf_value {
	const char *key;
	tj_gguf_type type, of;             /* of: of the items of an array */
	int64_t i;                         /* an integer or bool; of U64 the same bits */
	double f;                          /* any number */
	const char *text;                  /* a text, with a 0 behind its bytes */
	size_t bytes;
	int64_t n;                         /* an array: its items */
	const void *data;                  /* numbers and bools: n of them, as `of` says */
	const struct tj_gguf_value *items; /* texts and arrays: n of them */
} tj_gguf_value;
TJ_API tj_gguf *tj_gguf_open_at(const char *site, tj_ctx *c, const char *path);
TJ_API int64_t tj_gguf_count(const tj_gguf *g);
/* In the order of the file. NULL: there is no i-th, or none of that name. */
TJ_API const tj_gguf_entry *tj_gguf_at(const tj_gguf *g, int64_t i);
TJ_API const tj_gguf_entry *tj_gguf_find(const tj_gguf *g, const char *name);
/* The value of a key, as "general.architecture", and the i-th by key; NULL: there is none. */
TJ_API const tj_gguf_value *tj_gguf_metadata(const tj_gguf *g, const char *key);
TJ_API const tj_gguf_value *tj_gguf_metadata_at(const tj_gguf *g, int64_t i);
/* Over the map, unless elements are not aligned. Blocks become f32, with the bits of ggml's own formulas. */
TJ_API tj_tensor *tj_gguf_get_at(const char *site, const tj_gguf *g, const char *name);
/* A tensor of blocks as its integers, i8 [...,K], and scales, f32 [...,K / group]: element k is scale * value, or, of the types *_1, Q2_K,
 * Q4_K and Q5_K, scale * value - min. A product of these, as in examples/quantised.c, reads the integers and multiplies by the scales, and
 * no copy in floats exists. mins may be NULL for types without them. On error all are NULL or poison. */
TJ_API tj_status tj_gguf_get_quantised_at(const char *site, const tj_gguf *g, const char *name, tj_tensor **values, tj_tensor **scales,
                                          tj_tensor **mins);
TJ_API void tj_gguf_close(tj_gguf *g);
/* Version 3. types[i]: NULL, or all NULL: that of the dtype; f32 may be written as "Q8_0" or "Q4_0", rounded as ggml's own programs do.
 * metadata: a list that ends in one without key, or NULL; .bytes 0 of a text: up to its 0. "general.alignment" is 32 unless it is there. */
TJ_API tj_status tj_gguf_save_at(const char *site, const char *path, const char *const *names, tj_list tensors, const char *const *types,
                                 const tj_gguf_value *metadata);
#define tj_gguf_open(c, path) tj_gguf_open_at(TJ_SITE, c, path)
#define tj_gguf_get(g, name) tj_gguf_get_at(TJ_SITE, g, name)
#define tj_gguf_get_quantised(g, name, values, scales, mins) tj_gguf_get_quantised_at(TJ_SITE, g, name, values, scales, mins)
#define tj_gguf_save(path, names, tensors, types, metadata) tj_gguf_save_at(TJ_SITE, path, names, tensors, types, metadata)

/* ---- pictures ------------------------------------------------------------------------------------- */

/* A PNG or JPEG file as u8 [H,W,channels]: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha; 0: as many as the file has. Samples of 16 bits
 * become 8. libpng16.so.16 and libjpeg.so.62 (Debian: libpng16-16, libjpeg62-turbo) are opened when first needed. */
TJ_API tj_tensor *tj_image_load_at(const char *site, tj_ctx *c, const char *path, int channels);
/* t: u8 [H,W] or [H,W,1 to 4] */
TJ_API tj_status tj_png_save_at(const char *site, tj_tensor *t, const char *path);
#define tj_image_load(c, path, channels) tj_image_load_at(TJ_SITE, c, path, channels)
#define tj_png_save(t, path) tj_png_save_at(TJ_SITE, t, path)

#ifdef __cplusplus
}
#endif
#endif
