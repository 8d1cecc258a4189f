/* fuse: what the files that make groups share. The limits of a group are the target's. */
#ifndef TJ_LOWER_FUSE_H
#define TJ_LOWER_FUSE_H

#include "lower/low.h"

enum {
	MAX_WANTS = 8,       /* groups that read one value, looked at for merging */
	MAX_DEPTH = 64,      /* values between one that a group reads and the reduction it comes from */
	MAX_LOOPS = 60       /* reductions of a group: the builder counts loops in the bits of a word */
};

/* ---- reach.c: questions ---- */
/* How the group would come by r at m, or compute r there from its operands. NULL: it cannot. */
lo_use *lo_ask(lo_low *L, lo_group *G, ir_ref r, lo_map *m);
lo_use *lo_ask_op(lo_low *L, lo_group *G, ir_ref r, lo_map *m);
lo_use *lo_ask_solid(lo_low *L, lo_group *G, ir_ref r, lo_map *m); /* a reshape, row-major out of its operand's own buffer */
bool lo_asks_buffer(const lo_low *L, const lo_use *u); /* some value must own a buffer for it that does not yet */
bool lo_indices_fit(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m); /* what r itself looks at, beside its operands */
/* Each index of the group (of r, if m looks at it) names another element of the value, and all are named. */
bool lo_covers(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m);
/* Everything its members read can be reached, as its index space is now. buffers: if more values own one. */
bool lo_group_fits(lo_low *L, lo_group *G, bool *buffers);

/* ---- merge.c ---- */
/* A path leads from r through values outside the group back into it. */
bool lo_path_back(lo_low *L, ir_ref r, uint32_t group);
/* Makes one group of a and b, which read r at ma and mb; false when they do not match. */
bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb);

/* ---- take.c: answers become decisions ---- */
void lo_take(lo_low *L, uint32_t id, lo_use *made); /* the group computes made->value in this way */
void lo_renew(lo_low *L, uint32_t id);              /* its index space has got an r */
void lo_save_all(lo_low *L, lo_group *G, const lo_use *from, bool own); /* stores of from->value: where others want it; own: in its buffer, too */
void lo_settle(lo_low *L, ir_ref r);                /* r is decided, and with it how its readers come by it */

#endif
