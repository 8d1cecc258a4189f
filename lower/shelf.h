/* SPDX-License-Identifier: MIT */
/* shelf: what is made of constants once, for all plans of a function. */
#ifndef TJ_LOWER_SHELF_H
#define TJ_LOWER_SHELF_H

#include "lower/lower.h"

/* What a copy is: `form` of contents[ncontent]. place: of the contents, so that other contents of one place are found. */
typedef struct lo_label {
	const void *form;
	size_t bytes;
	uint64_t place;
	const uint64_t *content; /* ids (lo_content.id) */
	size_t ncontent;
} lo_label;

/* A new copy with one reference, of `bytes` bytes without content. NULL: out of memory. */
rt_shared *lo_copy_new(const lo_label *k, size_t bytes);
void *lo_copy_data(rt_shared *x);
uint64_t lo_copy_id(const rt_shared *x); /* of the copy, as that of a content; no content of an engine has it */

/* s may be NULL: there is nothing. */
rt_shared *lo_shelf_find(lo_shelf *s, const lo_label *k); /* with a reference; NULL: there is none */
bool lo_shelf_has(lo_shelf *s, const lo_label *k);
/* A copy of a cell's content is worth to be made. Not of many contents: plans of old ones keep their copies. */
bool lo_shelf_takes(lo_shelf *s, const lo_label *k);
void lo_shelf_keep(lo_shelf *s, rt_shared *x);            /* takes a reference of its own; drops what no plan reads any more */

#endif
