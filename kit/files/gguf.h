/* SPDX-License-Identifier: MIT */
/* gguf: what its reader and its writer share. */
#ifndef TJ_KIT_GGUF_H
#define TJ_KIT_GGUF_H

#include "kit/files/files.h"

enum { GGUF_VERSION = 3, GGUF_ALIGNMENT = 32 };

/* ---- ggufblocks.c: types of elements ---- */
enum { GGUF_BLOCK = 256 }; /* elements of the largest block */
typedef struct gguf_block {  /* what a block says: element i is scale[i / group] * q[i] - min[i / group] */
	int8_t q[GGUF_BLOCK];
	float scale[GGUF_BLOCK / 16], min[GGUF_BLOCK / 16];
} gguf_block;
typedef struct gguf_type {
	const char *name;
	uint32_t number;    /* in files */
	int elements, bytes; /* of a block; 1 element: it is an element of .dtype */
	tj_dtype dtype;      /* F32 of those with blocks */
	int group;           /* elements that have one scale; 0: no blocks */
	bool has_min;
	void (*read)(const unsigned char *v, gguf_block *to);
	bool (*write)(const float *x, unsigned char *to); /* false: it is not finite. NULL: this type is not written */
} gguf_type;
const gguf_type *gguf_type_of(uint32_t number);   /* NULL: tjit has none */
const gguf_type *gguf_type_named(const char *name);
const gguf_type *gguf_type_for(tj_dtype dtype);   /* that tensors of it are written as */
const char *gguf_name_of(uint32_t number);        /* of a type that exists, but tjit does not read; NULL: none */
float gguf_half(uint16_t h);
uint16_t gguf_to_half(float x);                   /* to the nearest, ties to even */

/* ---- ggufvalues.c: metadata ---- */
typedef struct gguf_at { /* a place in the file */
	const unsigned char *v;
	size_t n, at;
	kit_why *w;
} gguf_at;
bool gguf_number(gguf_at *f, size_t bytes, uint64_t *x); /* little endian */
typedef struct gguf_memory gguf_memory;                  /* of texts and lists; gguf_forget() frees all of it */
struct gguf_memory { gguf_memory *next; };
void *gguf_take(gguf_memory **m, size_t n, size_t each, kit_why *w); /* zeros; NULL: why */
void gguf_forget(gguf_memory *m);
const char *gguf_text(gguf_at *f, gguf_memory **m, size_t *bytes);    /* with a 0 behind it. NULL: why */
bool gguf_value(gguf_at *f, gguf_memory **m, tj_gguf_value *to);
size_t gguf_size_of(tj_gguf_type t); /* of a number or bool; 0: another type */

#endif
