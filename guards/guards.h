/* guards: when does a trace hold? Entry guards say what a call's arguments must be; the exact-key table remembers
 * which entry a key met. A failure is a gd_why, and from it the text that the user reads. Never includes lower/. */
#ifndef TJ_GUARDS_GUARDS_H
#define TJ_GUARDS_GUARDS_H

#include "runtime/layout.h"

/* ---- signature: what is known of the arguments of a call ---- */
typedef enum gd_kind { GD_VALUE, GD_CELL, GD_FLOAT, GD_INT } gd_kind; /* FLOAT, INT: a number; by category only */
typedef struct gd_arg {
	const rt_layout *layout; /* NULL for numbers */
	uint64_t content;        /* serial of a constant's content, 0 else */
	uint8_t kind;
} gd_arg;

enum { GD_MAX_SCALARS = 32 };
typedef struct gd_sig {
	uint32_t narg, nint;
	gd_arg *arg;
	int64_t *ints;           /* the declared integer scalars, in order */
	uint32_t nfloat;         /* declared scalars that are floats: a bit each; GD_MAX_SCALARS at most */
} gd_sig;

/* ---- exact keys: table.c. The caller locks. ---- */
/* Words of a key: per argument {kind, layout id}, then the ints. Equal words <=> equal signature. */
uint32_t gd_key_words(const gd_sig *s);
void gd_key(const gd_sig *s, uint32_t *word);

typedef struct gd_slot { uint64_t hash; uint32_t *word; void *entry; } gd_slot;
typedef struct gd_table { gd_slot *slot; uint32_t n, cap; } gd_table;
void *gd_find(const gd_table *t, const uint32_t *word, uint32_t n);
bool gd_insert(gd_table *t, const uint32_t *word, uint32_t n, void *entry);
void gd_remove(gd_table *t, const void *entry); /* every key of it */
void gd_table_free(gd_table *t);

/* ---- why a guard failed: why.c ---- */
typedef enum gd_cause {
	GD_SAME, GD_RANK, GD_DTYPE, GD_SIZE, GD_STRIDE, GD_CELLNESS, GD_CATEGORY, GD_SCALAR, GD_CONTENT, /* entry guards */
	GD_OP, GD_PARTED, GD_ATTR, GD_OPERAND, GD_CAPTURE, GD_ALIAS, GD_END, GD_BRANCH                              /* node guards */
} gd_cause;
typedef struct gd_why {
	gd_cause cause;
	gd_cause in;             /* CAPTURE: what of the captured tensor differs */
	int arg, dim;            /* argument (or operand) and dimension; -1 when it is none */
	char expected[96], found[96];
} gd_why;
/* First difference of two arguments; cause GD_SAME when there is none. */
void gd_compare_arg(const gd_arg *expected, const gd_arg *found, gd_why *why);
/* First difference of two signatures; returns how many arguments differ. */
int gd_compare(const gd_sig *expected, const gd_sig *found, gd_why *why);
const char *gd_cause_name(gd_cause c);  /* "size" */
const char *gd_cause_hint(gd_cause c);
void gd_put_arg(rt_text *t, const gd_arg *a);

#endif
