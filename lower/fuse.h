/* fuse: limits of a group, and what fuse.c and merge.c share. */
#ifndef TJ_LOWER_FUSE_H
#define TJ_LOWER_FUSE_H

#include "lower/low.h"

enum {
	MAX_WEIGHT = 160,    /* of a group: a plain op is 1, a transcendental one 10 */
	MAX_MEMBERS = 64,
	MAX_REDUNDANT = 8,   /* cheap ops computed more often than they have elements */
	MAX_WANTS = 8,       /* groups that read one value, looked at for merging */
	FEW_ROWS = 8,        /* so few rows ... */
	LONG_ROW = 1 << 16,  /* ... of such a length: what reads their sum keeps its threads */
	FAR = 8,             /* elements from one of a row to the next: a gather */
	LEAST_COPY = 1 << 14, /* elements that are worth a kernel to transpose them */
	SPLIT_ROW = 1 << 18  /* ... and of this one: threads share a reduction of them */
};

/* A path leads from r through values outside the group back into it. */
bool lo_path_back(lo_low *L, ir_ref r, uint32_t group);
/* Makes one group of a and b, which read r at ma and mb; false when they do not match. */
bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb);
bool lo_covers(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m);
bool lo_group_fits(lo_low *L, lo_group *G); /* everything its members read can be reached */
bool lo_matmul_takes(const lo_low *L, ir_ref r, const lo_access *a, bool left); /* as an operand of a matmul */

#endif
