/* SPDX-License-Identifier: MIT */
/* cell: the content of cells. Inside a call each assign makes a new version; a call commits all its cells or none. */
#ifndef TJ_JIT_CELL_H
#define TJ_JIT_CELL_H

#include "jit/fn.h"

/* The content of a cell at one commit; buf: a reference is held. content: an id of it, when `frozen` asks for one; else 0. */
typedef struct jit_taken { rt_held *cell; rt_buffer *buf; void *data; uint64_t version, content; bool frozen; } jit_taken;

/* cell.c */
/* A call of a function with .freeze begins with this: it takes the contents of all cells among arguments and declared variables into
 * tj_ctx.taken, as of one commit. The key is made from them, and the whole call sees them. `in` may be NULL or too short. false: out of
 * memory. */
bool jit_take_frozen(tj_ctx *c, const tj_fn *f, tj_list in);
/* taken_alone: true when there was no commit since then, so cells that were not taken are of the same commit */
bool jit_taken_stay(tj_ctx *c);
void jit_give_back(tj_ctx *c); /* when the call ends */
/* of a constant or of a tensor that is frozen in the running call; 0: the content may change */
uint64_t jit_content_id(const tj_ctx *c, const tj_tensor *t);
tj_tensor *jit_version(jit_act *a, tj_tensor *cell); /* the value that reading the cell gives now */
void jit_take_cell(jit_taken *t); /* fills t with the committed content of t->cell */
/* the same for n cells, all as of one commit; elements without a cell stay empty */
void jit_take_cells(tj_ctx *c, jit_taken *t, uint32_t n);
/* Fills t with the content of t->cell when the call first met it, even if others have committed since. true: it was met before the running
 * segment. */
bool jit_met_cell(jit_act *a, jit_taken *t);
/* the content that the call sees until its end: taken when it began, or read by C; else NULL */
const jit_taken *jit_kept(const jit_act *a, const tj_tensor *cell);
void jit_bind_cell(jit_act *a, jit_bound *b); /* b->h is the cell */
/* jit_met_cell() when the body reads the value: later reads of the call give the same content; the call holds the reference */
bool jit_read_cell(jit_act *a, jit_taken *t);
/* rebinds the cells that this segment met first, so that all have the content of one commit; false: out of memory */
bool jit_one_commit(jit_act *a);
/* buf: a reference. was: version number of the cell when the call met it */
typedef struct jit_write { rt_held *cell; rt_buffer *buf; uint64_t was; } jit_write;
/* all or none; w gets the old contents. After it comes jit_undo_end() */
tj_status jit_write_cells(tj_ctx *c, jit_write *w, uint32_t n, bool alone, rt_err *err);
/* true: jit_content() cannot fail; it needs no copy, and the value is not lost */
bool jit_is_content(const tj_ctx *c, const rt_layout *l, rt_buffer *b, const void *data);
/* A reference on a buffer that is row-major from its start: b, or a copy. */
rt_buffer *jit_content(tj_ctx *c, const rt_layout *l, rt_buffer *b, void *data, rt_err *err);
/* commits b as the content of one cell; returns the old content, a reference */
rt_buffer *jit_replace(tj_ctx *c, rt_held *cell, rt_buffer *b);
uint64_t jit_cell_version(rt_held *cell); /* its version number */
/* Writes over the content of a cell that nobody else can see; false: somebody can, and nothing was written. */
bool jit_overwrite(tj_ctx *c, rt_held *h, const void *data, size_t bytes, rt_err *err);

/* cellmap.c */
typedef struct jit_cellmap { /* finds cells in a list (cellmap.c) */
	rt_vec(uint32_t) at;     /* hash table: cell -> its place in the list + 1; cap is a power of two */
	uint32_t used, done;     /* used: entries of the table. done: so many cells of the list are in it */
} jit_cellmap;
/* the place of a cell in a list of n; -1: it is not there. size: of an element; it begins with its cell */
int64_t jit_find_cell(jit_cellmap *m, const void *list, size_t size, uint32_t n, const rt_held *cell);
void jit_cut_cells(jit_cellmap *m, uint32_t n); /* the list has only its first n elements from now on */
int64_t jit_find_assigned(jit_act *a, const rt_held *cell); /* in a->assigned */

/* assign.c */
/* A commit begins by making the new contents (NULL: no cell was assigned), before outputs are written to memory of the caller, which
 * may be that of an assigned value. end() writes the cells; drop() gives the contents up. */
tj_status jit_commit_begin(jit_act *a, jit_write **w, rt_err *err);
tj_status jit_commit_end(jit_act *a, jit_write *w, rt_err *err);
void jit_commit_drop(tj_ctx *c, const jit_write *w, uint32_t n);

#endif
