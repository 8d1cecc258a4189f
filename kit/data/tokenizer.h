/* SPDX-License-Identifier: MIT */
/* tokenizer: a tokenizer.json, in the stages that a text goes through: added tokens, normaliser, pieces, model; and back. */
#ifndef TJ_KIT_TOKENIZER_H
#define TJ_KIT_TOKENIZER_H

#include "kit/data/data.h"

#include <jansson.h>

/* ---- chars.c: texts that grow, and what Unicode says of a character ---- */
typedef struct kit_chars {
	char *s;
	size_t n, room;
	bool failed; /* out of memory; what was put after that is not there */
} kit_chars;
void kit_chars_put(kit_chars *t, const char *s, size_t n);
void kit_chars_put_char(kit_chars *t, uint32_t c);
/* The character at `at`, and how many bytes it has: the text is UTF-8. */
uint32_t kit_char_at(const char *s, size_t n, size_t at, size_t *bytes);
bool kit_char_is_blank(uint32_t c); /* White_Space */

/* libutf8proc, opened when a tokeniser needs it. */
typedef struct kit_unicode {
	void *so;
	struct {
		int (*category)(int32_t c);
		int32_t (*lower)(int32_t c);
		ssize_t (*map)(const uint8_t *s, ssize_t n, uint8_t **to, int options);
	} f;
} kit_unicode;
enum { KIT_NFD = 2 | 16, KIT_NFC = 2 | 8, KIT_NFKD = 2 | 16 | 4, KIT_NFKC = 2 | 8 | 4 };
bool kit_unicode_open(kit_unicode *u, kit_why *w);
void kit_unicode_close(kit_unicode *u);
bool kit_char_is_mark(const kit_unicode *u, uint32_t c, bool any); /* Mn; any: Mc and Me, too */
bool kit_char_is_punctuation(const kit_unicode *u, uint32_t c); /* P.., and all of ASCII that is no letter, digit or blank */
bool kit_char_is_control(const kit_unicode *u, uint32_t c);     /* Cc, Cf, Co, but tab and ends of lines */
void kit_lower(const kit_unicode *u, const char *s, size_t n, kit_chars *to);
bool kit_normal_form(const kit_unicode *u, int form, const char *s, size_t n, kit_chars *to);

/* ---- stages.c: what a tokenizer.json says of normalisers, pre-tokenizers, decoders ---- */
typedef enum kit_stage_kind {
	KIT_BERT, KIT_FORM, KIT_LOWER, KIT_STRIP_ACCENTS, KIT_STRIP, KIT_PREPEND, KIT_REPLACE,        /* normalisers */
	KIT_SPLIT, KIT_BYTE_LEVEL, KIT_METASPACE, KIT_BERT_PIECES, KIT_BLANKS, KIT_PUNCTUATION, KIT_DIGITS, /* pre-tokenizers */
	KIT_WORD_PIECE, KIT_BYTE_FALLBACK, KIT_FUSE, KIT_SUFFIX                                         /* decoders */
} kit_stage_kind;
typedef enum kit_behaviour { KIT_REMOVED, KIT_ISOLATED, KIT_WITH_PREVIOUS, KIT_WITH_NEXT, KIT_CONTIGUOUS } kit_behaviour;
typedef struct kit_stage {
	kit_stage_kind kind;
	bool clean, chinese, accents, lower;     /* BERT */
	int form;                                /* FORM */
	bool left, right;                        /* STRIP */
	int64_t start, stop;                     /* STRIP of a decoder */
	const char *text, *to;                   /* PREPEND; REPLACE; METASPACE's sign; WORD_PIECE's prefix; SUFFIX. In the JSON */
	kit_pattern *pattern;                    /* REPLACE, SPLIT; NULL: .text itself */
	kit_behaviour behaviour;
	bool invert;
	bool prefix_space, own_pattern;          /* BYTE_LEVEL */
	int prepend;                             /* METASPACE: 0 never, 1 at the begin of the text, 2 always */
	bool split;                              /* METASPACE */
	bool single;                             /* DIGITS: each one by itself */
	bool cleanup;                            /* WORD_PIECE */
} kit_stage;
typedef struct kit_stages { kit_stage *v; size_t n; } kit_stages;
typedef enum kit_part { KIT_NORMALIZER, KIT_PRE_TOKENIZER, KIT_DECODER } kit_part;
bool kit_stages_read(const json_t *j, kit_part part, kit_stages *to, kit_why *w);
void kit_stages_free(kit_stages *s);

/* ---- pieces.c: a text, cut ---- */
typedef struct kit_piece { size_t from, n; int32_t id; } kit_piece; /* of a kit_chars; id -1: none yet */
typedef struct kit_pieces {
	kit_piece *v;
	size_t n, room;
	bool failed;
} kit_pieces;
void kit_pieces_put(kit_pieces *p, kit_piece piece);
/* The text is UTF-8. */
bool kit_normalize(const kit_unicode *u, const kit_stages *s, const char *text, size_t n, kit_chars *to, kit_why *w);
/* Cuts text[n] into pieces, whose texts are in *to. first: it is the begin of the whole text. */
bool kit_cut(const kit_unicode *u, const kit_stages *s, const char *text, size_t n, bool first, kit_chars *to, kit_pieces *out, kit_why *w);

/* ---- model.c: pieces to ids ---- */
typedef struct kit_vocabulary {
	kit_texts texts;      /* number by text */
	int32_t *id;          /* of a text, by number */
	const char **token;   /* by id; NULL: none */
	size_t *bytes;
	int64_t ids;          /* room of token[] */
	int64_t most;         /* ids are below it: memory by id is in proportion to the file */
	size_t longest;       /* bytes of a token */
} kit_vocabulary;
bool kit_vocabulary_put(kit_vocabulary *v, const char *s, size_t n, int64_t id, kit_why *w); /* the text is the caller's */
int32_t kit_vocabulary_find(const kit_vocabulary *v, const char *s, size_t n);               /* -1: none */
void kit_vocabulary_free(kit_vocabulary *v);
typedef struct kit_model {
	bool word_piece;
	kit_vocabulary own;
	kit_numbers merges;          /* a pair: its rank */
	int32_t *merged;             /* by rank */
	int32_t unknown;             /* -1: none */
	bool fuse_unknown, byte_fallback, whole_words;
	const char *prefix, *suffix; /* of parts that continue a word, and of ends of words; "" */
	int64_t longest;             /* WordPiece: characters of a word */
	int32_t byte_id[256];        /* <0x00>, ...; -1: none */
} kit_model;
bool kit_model_read(const json_t *j, kit_model *m, kit_why *w);
void kit_model_free(kit_model *m);
bool kit_model_ids(const kit_model *m, const char *s, size_t n, kit_pieces *ids, kit_why *w); /* of one piece */

/* ---- unpieces.c: ids to a text ---- */
typedef struct kit_tokens { const kit_text *v; size_t n; } kit_tokens;
bool kit_decode(const kit_stages *s, kit_tokens t, kit_chars *to, kit_why *w);

#endif
