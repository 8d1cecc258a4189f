/* SPDX-License-Identifier: MIT */
/* guards: the conditions under which a trace may be used. Entry guards are conditions on a call's arguments; the exact-key
 * table maps a key to its entry. A failed guard gives a gd_why, from which the user's message is made. */
#ifndef TJ_GUARDS_GUARDS_H
#define TJ_GUARDS_GUARDS_H

#include "runtime/layout.h"

/* ---- signature: the properties of a call's arguments that its trace depends on ---- */
typedef enum gd_kind { GD_VALUE, GD_CELL, GD_FLOAT, GD_INT } gd_kind; /* FLOAT, INT: a number of that category */
typedef struct gd_arg {
	const rt_layout *layout; /* NULL for numbers */
	uint64_t content;        /* serial of a constant's content; 0: no constant */
	uint8_t kind;
} gd_arg;

enum { GD_MAX_SCALARS = 32 };
typedef struct gd_sig {
	uint32_t narg, nint;
	gd_arg *arg;
	int64_t *ints;           /* the declared integer scalars, in order */
	uint32_t nfloat;         /* bit i is set when declared scalar i is a float */
	uint32_t settings;       /* of the context: rt_setting */
} gd_sig;

/* ---- exact keys: table.c. The caller holds a lock. ---- */
/* A key is an array of words: nfloat; settings; kind, layout id and content of each argument; the ints. Equal words <=> equal signature. */
uint32_t gd_key_words(const gd_sig *s);
void gd_key(const gd_sig *s, uint32_t *word);

uint64_t gd_hash(const uint32_t *word, uint32_t n);
/* Of sizes and strides, not of layouts: a layout whose last tensor is gone gets another id when it comes again. */
uint64_t gd_sig_hash(const gd_sig *s);
/* word: length of the key, then its words; NULL: free */
typedef struct gd_bucket { uint64_t hash; uint32_t *word; void *entry; } gd_bucket;
typedef struct gd_table { gd_bucket *bucket; uint32_t n, cap; } gd_table;
void *gd_find(const gd_table *t, const uint32_t *word, uint32_t n);
/* A key that is not there yet. Returns its copy in the table, which gd_remove() takes; valid until then. NULL: out of memory. */
const uint32_t *gd_insert(gd_table *t, const uint32_t *word, uint32_t n, void *entry);
void gd_remove(gd_table *t, const uint32_t *key); /* takes as long for any number of keys */
void gd_table_free(gd_table *t);

/* ---- why a guard failed: why.c ---- */
typedef enum gd_cause {
	GD_SAME,
	GD_RANK,
	GD_DEVICE,
	GD_DTYPE,
	GD_SIZE,
	GD_STRIDE,
	GD_CELLNESS,
	GD_CATEGORY,
	GD_NUMBER,
	GD_SCALARS,
	GD_SCALAR,
	GD_CONTENT,
	GD_SETTINGS, /* entry guards */
	GD_OP,
	GD_NUMERICS,
	GD_AUTOCAST,
	GD_PARTED,
	GD_ATTR,
	GD_OPERAND,
	GD_CAPTURE,
	GD_ALIAS,
	GD_END,
	GD_BRANCH,
	GD_DATA_SIZE /* node guards */
} gd_cause;
typedef struct gd_why {
	gd_cause cause;
	gd_cause in;             /* CAPTURE: which property of the captured tensor differs */
	int arg, dim;            /* number of the argument or operand, and dimension; -1: none */
	char expected[96], found[96];
} gd_why;
/* First difference of two arguments; cause GD_SAME when there is none. */
void gd_compare_arg(const gd_arg *expected, const gd_arg *found, gd_why *why);
/* First difference of two signatures; returns the number of arguments that differ (1 when only scalars do). */
int gd_compare(const gd_sig *expected, const gd_sig *found, gd_why *why);
const char *gd_cause_name(gd_cause c);  /* "size" */
const char *gd_cause_hint(gd_cause c);
void gd_put_arg(rt_text *t, const gd_arg *a);

/* ---- spec.c: sizes that the user declares in .shapes ---- */
enum { GD_NAME = 32, GD_SYMBOLS = 32 };
typedef enum gd_dim_kind { GD_DIM_ANY, GD_DIM_SIZE, GD_DIM_NAME } gd_dim_kind;
typedef struct gd_dim { uint8_t kind; int64_t v; } gd_dim;    /* v: SIZE: the size; NAME: the number of the symbol */
typedef struct gd_symbol { char name[GD_NAME]; int64_t least, most, mod, rest; } gd_symbol; /* least..most, and v % mod == rest */
typedef struct gd_arg_spec {
	char name[GD_NAME];      /* "": no name */
	int dtype;               /* -1: any */
	bool ranked;             /* rank and dim are declared */
	bool fixed;              /* `static`: its sizes do not become symbols, each size makes a signature of its own */
	int rank;
	gd_dim dim[TJ_MAX_RANK];
} gd_arg_spec;
typedef struct gd_spec {
	const char *text;
	uint32_t nsymbol, narg, room; /* room: the most arguments */
	gd_symbol symbol[GD_SYMBOLS];
	gd_arg_spec arg[];
} gd_spec;
gd_spec *gd_spec_parse(const char *text, uint32_t nin, rt_err *err); /* free it by rt_free(); NULL on error */
bool gd_spec_check(const gd_spec *s, const gd_sig *sig, const char *site, rt_err *err); /* site: where the spec was given */

/* ---- general.c: signatures that differ in sizes alone ---- */
/* All that an exact key has but sizes and strides; of an argument that is declared `static` these, too. Equal words <=> the signatures
 * differ in sizes alone. spec may be NULL. */
uint32_t gd_kind_words(const gd_sig *s);
void gd_kind_key(const gd_sig *s, const gd_spec *spec, uint32_t *word);
/* for arguments of two such signatures: bit d is set when dimension d differs */
uint32_t gd_moved(const gd_arg *a, const gd_arg *b);
void gd_put_size_name(rt_text *t, const gd_spec *spec, uint32_t arg, int dim);
/* "x: f32[B,256]"; moved[i]: gd_moved() of argument i */
void gd_put_general(rt_text *t, const gd_sig *s, const uint32_t *moved, const gd_spec *spec);

#endif
