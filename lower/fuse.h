/* SPDX-License-Identifier: MIT */
/* fuse: shared by the files that make groups: reach.c, merge.c, take.c, fuse.c. The limits of a group are in lo_target. */
#ifndef TJ_LOWER_FUSE_H
#define TJ_LOWER_FUSE_H

#include "lower/low.h"

enum {
	MAX_WANTS = 16,      /* most groups that read one value, and are tried for merging: parts of a short axis have as many readers */
	FEW_WANTS = 8,       /* the same if some of them reduces */
	MAX_DEPTH = 64,      /* most values on the way from a value down to the reduction that it depends on */
	MAX_DESTS = 32,      /* most places to which one kernel stores a value: thousands of stores would take the compiler a minute */
	MAX_LOOPS = 60,      /* most reductions of a group: the builder keeps loops as bits of one word */
	/* What a product computes as it reads an operand: */
	AHEAD_OPS = 6,       /* most plain ops */
	AHEAD_AGAIN = 8,     /* most ops, each counted once for each block that computes it */
	READS_A_BLOCK = 256  /* a block uses an element that it has read about so many times */
};

typedef struct want {    /* a group that reads a value which is being decided */
	uint32_t group;
	lo_map *map;
	bool torn;           /* the group reads it at several maps */
	bool feeds;          /* the group's product reads it as an operand */
	bool again;          /* the group computes it, too, instead of loading it (recompute.c) */
	bool late;           /* the group loads what another one, the relay, stores again */
} want;

/* ---- reach.c: questions ---- */
int lo_work(const ir_node *n); /* what it adds to the weight of a group, see lo_target */
/* the group would compute it more often than it has elements */
bool lo_often(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m);
/* lo_ask: how the group would get r at m. lo_ask_op: how it would compute r at m from its operands. NULL: it cannot. */
lo_use *lo_ask(lo_low *L, lo_group *G, ir_ref r, lo_map *m);
lo_use *lo_ask_op(lo_low *L, lo_group *G, ir_ref r, lo_map *m);
lo_use *lo_ask_solid(lo_low *L, lo_group *G, ir_ref r, lo_map *m); /* a reshape, row-major out of its operand's own buffer */
int lo_stored_for(lo_low *L, lo_group *G, ir_ref r, lo_map *m, int *visits);
bool lo_has_index(const lo_group *G, const lo_expr *e); /* a kernel can load at e */
bool lo_indices_fit(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m); /* index expressions of r's own op are affine */
/* The outer indices of the group (with r, if m depends on r) walk the elements of the value, each exactly once. */
bool lo_covers(const lo_low *L, const lo_group *G, ir_ref r, const lo_map *m);
/* The members can get everything they read, with the index space as it is now, and no value that was decided needs a buffer for it. */
bool lo_group_fits(lo_low *L, lo_group *G);

/* ---- paths.c ---- */
bool lo_line_up(lo_low *L);                           /* puts all values in a line; false: out of memory */
bool lo_path_back(lo_low *L, ir_ref r, uint32_t group); /* a path leads from r through values outside the group back into it */
bool lo_path_between(lo_low *L, uint32_t a, uint32_t b); /* a path leads from one of two groups to the other */
/* a path leads from one of the groups with `late` set to `group` */
bool lo_path_from(lo_low *L, const want *w, uint32_t n, uint32_t group);
/* A path leads from group `from` to r, or to `group`, if that is not LO_NOGROUP. If not, lo_move_late() may be called with the place of the
 * later one of the two. */
bool lo_path_to(lo_low *L, uint32_t from, ir_ref r, uint32_t group);
ir_ref lo_later(const lo_low *L, ir_ref a, ir_ref b); /* the one of two places that is further back in the line */
/* Call when what the last search was for has become one group, which stands at `place`: moves what was found before it behind it. */
void lo_move_late(lo_low *L, ir_ref place);

/* ---- merge.c ---- */
/* Makes one group of a and b, which read r at ma and mb; false when they do not match. torn: one of them reads it at several maps; then
 * they must walk the same structures. */
bool lo_merge(lo_low *L, ir_ref r, uint32_t a, const lo_map *ma, uint32_t b, const lo_map *mb, bool torn);

/* ---- recompute.c ---- */
bool lo_find_times(lo_low *L); /* sets lo_low.time; false: out of memory */
/* a group that stores a value again, which it has at this map; LO_NOGROUP: none */
typedef struct relay { uint32_t group; lo_map *map; } relay;
/* Sets again and late of each of the n groups that read r, except of w[first], which computes it; first is n if a new group does. Returns
 * the relay. */
relay lo_find_again(lo_low *L, ir_ref r, want *w, uint32_t n, uint32_t first);

/* ---- take.c: answers become decisions ---- */
/* The groups with `again` set compute r, which is another group's, for their own readers; the relay stores it for those with `late` set. */
void lo_take_again(lo_low *L, ir_ref r, const want *w, uint32_t n, const relay *by);
void lo_take(lo_low *L, uint32_t id, lo_use *made); /* the group computes made->value, as `made` says */
void lo_renew(lo_low *L, uint32_t id);              /* call when the group's index space has got an r: asks again for light values */
/* adds the stores of from->value: to its dests and, if own, its buffer */
void lo_save_all(lo_low *L, lo_group *G, const lo_use *from, bool own);
void lo_settle(lo_low *L, ir_ref r);                /* call when r is decided: settles the LATER uses of r */

#endif
