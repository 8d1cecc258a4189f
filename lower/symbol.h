/* SPDX-License-Identifier: MIT */
/* symbol: the sizes of a kernel and its schedule as a list of places. Shared by symbol.c, family.c and twin.c. */
#ifndef TJ_LOWER_SYMBOL_H
#define TJ_LOWER_SYMBOL_H

#include "lower/lower.h"

typedef enum lo_place_kind {
	LO_AT_EXTENT,           /* extents and coefficients: code for 0, for 1 and for more differs */
	LO_AT_ANY,              /* offsets, blocks */
	LO_AT_KEPT,             /* where kept rows lie, and their length */
	LO_AT_CONST             /* bits of a constant */
} lo_place_kind;
typedef struct lo_place { /* one size; valid while the kernel and the schedule are not moved */
	int64_t *size;
	lo_ins *ins;            /* CONST */
	lo_place_kind kind;
} lo_place;
typedef rt_vec(uint64_t) lo_words;

/* the number of places; lists them in at unless NULL, always in the same order */
uint32_t lo_places(lo_kernel *k, lo_schedule *s, lo_place *at);
/* Writes the form to w. Equal words: the kernels and schedules differ in sizes alone. */
bool lo_form(const lo_kernel *k, const lo_schedule *s, const lo_place *at, uint32_t n, lo_words *w);
bool lo_may_be_symbol(const lo_place *p);
bool lo_make_symbol(lo_kernel *k, const lo_place *p); /* false: out of memory */

struct lo_kin {           /* describes a scheduled kernel: its form, its sizes, and which of them are symbols */
	uint64_t hash;
	lo_words form;
	uint32_t n;
	int64_t *size;          /* by place */
	bool *symbol;
	/* valid in a member of a family: */
	uint32_t round;         /* number of the lowering that added it, see lo_family_round() */
	uint64_t met;           /* when it was last found, by the family's clock */
	rt_entry fn;
	rt_shared *code;        /* the code that fn is in; a reference */
};
/* ---- family.c ---- */
lo_kin *lo_kin_new(lo_kernel *k, lo_schedule *s);      /* no size is marked as a symbol; NULL: out of memory */
bool lo_same_form(const lo_kin *a, const lo_kin *b);
bool lo_code_fits(const lo_kin *code, const lo_kin *k);   /* both of one form: their sizes differ only where `code` has symbols */
bool lo_make_symbols(lo_kernel *k, lo_schedule *s, const lo_kin *kin); /* turns the sizes marked in kin into symbols */

/* ---- sites.c ---- */
/* adds to a form where instructions come from, if that is known; false: out of memory */
bool lo_site_words(const lo_kernel *k, lo_words *w);

#endif
