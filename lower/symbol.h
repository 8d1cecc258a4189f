/* symbol: sizes as a list. Shared by symbol.c and family.c. */
#ifndef TJ_LOWER_SYMBOL_H
#define TJ_LOWER_SYMBOL_H

#include "lower/lower.h"

typedef enum lo_place_kind {
	LO_AT_EXTENT,           /* extents and coefficients: code differs for 0, 1 and more */
	LO_AT_ANY,              /* offsets, blocks */
	LO_AT_SCRATCH,          /* where scratch rows lie, and their length */
	LO_AT_CONST             /* bits of a constant */
} lo_place_kind;
typedef struct lo_place { /* in a kernel that stays where it is */
	int64_t *size;
	lo_ins *ins;            /* CONST */
	lo_place_kind kind;
} lo_place;
typedef rt_vec(uint64_t) lo_words;

uint32_t lo_places(lo_kernel *k, lo_place *at);  /* how many; into at, when it is given. Always in one order */
bool lo_form(const lo_kernel *k, const lo_place *at, uint32_t n, lo_words *w); /* equal words: they differ in sizes alone */
bool lo_may_be_symbol(const lo_place *p);
bool lo_make_symbol(lo_kernel *k, const lo_place *p); /* false: out of memory */

#endif
