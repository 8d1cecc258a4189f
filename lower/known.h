/* SPDX-License-Identifier: MIT */
/* known: values that depend on constants alone are computed while a plan is made. */
#ifndef TJ_LOWER_KNOWN_H
#define TJ_LOWER_KNOWN_H

#include "lower/shelf.h"

/* The values that a graph reads, as externals behind all others. */
typedef struct lo_knowns {
	lo_content *content;     /* by slot: those of the options, then of these values */
	uint32_t ncontent;
	rt_vec(rt_shared *) held;
} lo_knowns;

typedef tj_status lo_builder(const ir_graph *g, const lo_opts *o, rt_exec **out, rt_err *err); /* lo_build() */

/* Copies the graph so that it reads such values; *did: there are some, else nothing is copied. The copy may hold nodes that no output
 * needs. Then o->content must be k's. */
tj_status lo_find_known(const ir_graph *from, ir_graph *to, const lo_opts *o, lo_builder *builder, lo_knowns *k, bool *did, rt_err *err);
void lo_knowns_free(lo_knowns *k);

#endif
