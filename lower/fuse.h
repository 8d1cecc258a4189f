/* fuse: what fuse.c and merge.c share. The limits of a group are the target's. */
#ifndef TJ_LOWER_FUSE_H
#define TJ_LOWER_FUSE_H

#include "lower/low.h"

enum {
	MAX_WANTS = 8,       /* groups that read one value, looked at for merging */
	MAX_DEPTH = 64       /* values between one that a group reads and the reduction it comes from */
};

/* A path leads from r through values outside the group back into it. */
bool lo_path_back(lo_low *L, ir_ref r, uint32_t group);
/* Makes one group of a and b, which read r at ma and mb; false when they do not match. */
bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb);
bool lo_covers(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m);
bool lo_group_fits(lo_low *L, lo_group *G); /* everything its members read can be reached */

#endif
