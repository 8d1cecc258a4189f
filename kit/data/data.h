/* SPDX-License-Identifier: MIT */
/* data: what the parts of kit/data share. kit/data/README.md says what they do. */
#ifndef TJ_KIT_DATA_H
#define TJ_KIT_DATA_H

#include <tjdata.h>

#include "kit/files/files.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- order.c ---- */
uint64_t kit_mix(uint64_t key, uint64_t x); /* 64 bits that look random; for one key each x gives another value */

/* ---- batch.c: the memory of batches, which goes round between loader and tensors ---- */
typedef struct kit_field {
	bool put;
	tj_dtype dtype;
	int rank;
	int64_t dim[TJ_MAX_RANK + 1]; /* TJ_END_DIM follows the sizes */
	size_t bytes;
	void *data;
} kit_field;
bool kit_field_set(kit_field *f, tj_dtype dtype, tj_dims shape, kit_why *w); /* all but its data */
bool kit_field_same(const kit_field *a, const kit_field *b);
typedef struct kit_type { char text[240]; } kit_type; /* "f32[2,3]" */
kit_type kit_type_of(const kit_field *f);

typedef struct kit_pool kit_pool;
typedef struct kit_batch {
	kit_pool *pool;
	struct kit_batch *next;              /* among those that are free */
	atomic_int holders;                  /* tensors */
	int64_t n;                           /* items */
	kit_field field[TJ_SAMPLE_FIELDS];   /* of an item; .data is that of the first one */
	size_t room[TJ_SAMPLE_FIELDS];       /* bytes of .data, which stays when the batch is used again */
} kit_batch;
kit_pool *kit_pool_open(int keep);            /* keeps up to so many free batches; NULL: out of memory */
void kit_pool_close(kit_pool *p);             /* batches that tensors hold live on */
kit_batch *kit_batch_take(kit_pool *p, int64_t n); /* NULL: out of memory */
bool kit_batch_room(kit_batch *b, int field, kit_why *w); /* for n items of the field */
void kit_batch_drop(void *batch);             /* for tj_wrap(), too */

/* ---- sample.c ---- */
struct tj_sample {
	kit_field field[TJ_SAMPLE_FIELDS];
	kit_batch *batch;   /* fields go there, as item `at`, but those of own[] */
	int64_t at;
	kit_buffer *own;    /* of TJ_SAMPLE_FIELDS: memory of fields that do not go to the batch */
	uint32_t apart;     /* 1 << field: which ones these are */
	uint32_t fields;    /* 1 << field: those of the first item of the batch */
	uint64_t random;
	bool failed;
	kit_why why;
};
/* The functions of a data set, after a check. */
bool kit_dataset_get(const tj_dataset *d, tj_dataset *out, kit_why *w);
/* false: s->why. The caller has set what is above `random`. */
bool kit_sample_fill(tj_sample *s, const tj_dataset *d, int64_t index, uint64_t random);

/* ---- pad.c: fields of items that differ in size ---- */
/* Fields of `which` of all items, one after the other (items[at * TJ_SAMPLE_FIELDS + field]), become those of the batch. */
bool kit_pad(kit_batch *b, const kit_field *items, uint32_t which, const tj_loader_opts *o, kit_why *w);

/* ---- table.c: two hash tables ---- */
/* Numbers by a key of 64 bits that is not UINT64_MAX. */
typedef struct kit_numbers {
	struct kit_number { uint64_t key; int64_t value; } *v;
	size_t n, room;
} kit_numbers;
int64_t *kit_number_find(const kit_numbers *t, uint64_t key);           /* NULL: it is not there */
int64_t *kit_number_put(kit_numbers *t, uint64_t key, int64_t first);   /* with this value if it was not there; NULL: out of memory */
/* Numbers of texts, which the caller keeps: the first text gets 0, the next one 1. */
typedef struct kit_text { const char *s; size_t n; } kit_text;
typedef struct kit_texts {
	kit_text *text;
	size_t n;
	int64_t *slot; /* number + 1; 0: free */
	size_t slots;
} kit_texts;
int64_t kit_text_find(const kit_texts *t, const char *s, size_t n); /* -1: it is not there */
int64_t kit_text_put(kit_texts *t, const char *s, size_t n);        /* -1: out of memory */
void kit_texts_free(kit_texts *t);

/* ---- pattern.c: regular expressions, by libpcre2 ---- */
typedef struct kit_pattern kit_pattern;
kit_pattern *kit_pattern_open(const char *pattern, size_t n, kit_why *w);
void kit_pattern_close(kit_pattern *p);
typedef struct kit_match {
	const kit_pattern *p;
	void *data;       /* of one caller */
	size_t from, to;  /* the last match */
	bool failed;      /* out of memory, or the pattern takes too long */
} kit_match;
bool kit_match_open(kit_match *m, const kit_pattern *p);
void kit_match_close(kit_match *m);
/* The first match from `at` on that is not empty. s[n] is UTF-8, which is not checked here; matches begin and end between characters. */
bool kit_match_next(kit_match *m, const char *s, size_t n, size_t at);

/* ---- words.c: GPT-2's pattern, and its names of bytes ---- */
kit_pattern *kit_words_pattern(kit_why *w); /* NULL: why. kit_pattern_close() */
typedef struct kit_words { /* of one text */
	const kit_pattern *pattern; /* NULL: only what is all ASCII is cut */
	kit_match m;                /* open once it was needed */
	size_t sound;               /* from the last place on, it is UTF-8 up to here */
} kit_words;
/* Bytes of the word at `at` < n; 0: the pattern is not there, or it fails. */
size_t kit_words_next(kit_words *x, const char *s, size_t n, size_t at);
void kit_words_end(kit_words *x);
size_t kit_byte_name(unsigned char b, char to[3]);    /* the character that stands for a byte in GPT-2's files; its length */
unsigned char kit_byte_at(int place);                 /* the byte whose token has this id, 0 to 255 */
/* The bytes that a token of these files stands for, at most as many. -1: it has another character. */
int64_t kit_bytes_named(const char *s, size_t n, char *to);

/* ---- bpe.c ---- */
struct tj_bpe {
	tj_ctx *c;
	kit_pattern *words;   /* NULL: it could not be opened */
	kit_why no_words;
	kit_texts tokens;     /* by id; two ids never have the same bytes */
	char **memory;        /* of the texts above; its blocks, `blocks` of them */
	size_t blocks, block_room, left;
	bool *special;        /* of each id that files had: its text is no name of bytes. NULL: none is */
	int32_t byte_id[256];
	kit_numbers merges;   /* left << 32 | right: its rank */
	struct kit_merge { int32_t left, right, to; } *merge; /* by rank */
	size_t ranks, rank_room;
};
bool kit_bpe_no_words(const tj_bpe *b, kit_why *w); /* why a text could not be cut; false */
/* The ids of a tensor of integers, whatever their dtype; an id that is none becomes -1. free() frees them. */
int32_t *kit_ids_of(const char *site, tj_tensor *t, int64_t *n, kit_why *w);
tj_bpe *kit_bpe_new(tj_ctx *c);                                           /* NULL: out of memory */
int64_t kit_bpe_add(tj_bpe *b, const char *s, size_t n);                  /* a token, or the one with these bytes; -1: out of memory */
bool kit_bpe_merge(tj_bpe *b, int32_t left, int32_t right, int32_t to);   /* the next rank; false: out of memory */
static inline uint64_t kit_pair(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

#endif
