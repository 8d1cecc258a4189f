/* SPDX-License-Identifier: MIT */
/* earlier: gradients through values of earlier segments of the running call.
 *
 *   h = x * w | TRUTH      y = exp h | BEFORE x w   LINK h   GRAD y, w
 *   segment 3              the running segment; its graph: h = x * w, y = exp h, then the gradient; values that segment 3 computed are
 *                          inputs
 *
 * For each earlier segment that lies between the value and a tensor asked for, a BEFORE names that segment as it was recorded, the
 * events that
 * its gradient goes through, and where their externals come from; a LINK says which external of the running segment is which of its
 * values. Both are
 * events: another way to the same line gives other ones, and so another plan. */
#ifndef TJ_JIT_EARLIER_H
#define TJ_JIT_EARLIER_H

#include "jit/builder.h"
#include "jit/call.h"

/* Attributes of a BEFORE: the boundary of the segment, as an address; its place among the segments that this one names; which of its
 * numbers become numbers of this one, the first and how many; for each of its externals where that comes from; a bit for each of its
 * events: it is computed again. */
enum { JIT_BEFORE_BOUNDARY, JIT_BEFORE_PLACE, JIT_BEFORE_NUMBER, JIT_BEFORE_NUMBERS, JIT_BEFORE_EXT };
/* Where an external comes from: 0: not needed; -1 - k: operand k of the BEFORE; else a value of another named segment. */
static inline int64_t jit_of_part(uint32_t place, uint32_t seq) { return (int64_t)(place + 1) << 32 | seq; }
static inline uint32_t jit_part_place(int64_t from) { return (uint32_t)(from >> 32) - 1; }
static inline uint32_t jit_part_seq(int64_t from) { return (uint32_t)from; }

/* earlier.c: in a call */
typedef struct jit_ask { /* a request for gradients */
	const char *site, *name; /* name: without tj_ */
	tj_tensor *y;
	int n;
	tj_tensor *const *asked, **wanted; /* asked: as the body gave them. wanted: what they are now */
	bool zeros;
} jit_ask;
bool jit_across(jit_act *a, const jit_ask *q); /* adds the BEFOREs and LINKs that the request needs; false: the error is reported */

/* parts.c: in a graph */
bool jit_parts_find(jit_builder *b, uint32_t n, uint32_t next); /* n events, next externals. Notes the BEFOREs and LINKs of the path */
bool jit_parts_emit(jit_builder *b, bool (*emit)(jit_builder *b, const jit_node *n));
/* an operand of event n of b->part, in the graph of *home */
ir_ref jit_part_operand(jit_builder *b, const jit_node *n, jit_ref r, const ir_frame **home);
ir_ref jit_part_value(jit_builder *b, uint32_t slot); /* the value that external `slot` is linked to; IR_NONE: it is to be an input */
/* Copies the graph: what earlier segments computed becomes an input. Fills b->residual. */
bool jit_parts_cut(jit_builder *b, ir_graph *to);

#endif
