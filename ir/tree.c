/* SPDX-License-Identifier: MIT */
/* tree: the fixed order in which floats are reduced, as plain loops. All executors use this order; compiled code must give the
 * same bits. The row tree is used when the reduced axes include the last one, else the column tree.
 *
 *   row     L lanes take 512 bytes (128 f32, 64 f64); a chunk has J = 16 rows of lanes
 *   column  L = 1, J = 32
 *
 *   1  A[c][l] = x[c*L*J + l] + x[c*L*J + L + l] + ...     for each chunk c and lane l, one after another
 *   2  A[l]    = adjacent chunks in pairs, (0 1)(2 3)..., then pairs of pairs, ...; an odd last one moves up unchanged
 *   3  r       = lane l + lane (l + L/2), then l + (l + L/4), ...
 *
 * The last chunk may lack rows and lanes. They are skipped, never replaced by a neutral element, so the sum of one -0.0 is
 * -0.0. init is the result over no elements; it is used for nothing else.
 *
 * Step 2 works like a binary counter: a block of 2^k chunks is combined with the next one as soon as both have 2^k chunks; the
 * blocks left at the end are combined from the right. This is the pairing above, with a stack of 64 blocks in place of an array
 * of all chunks. */
#include "ir/ir.h"
#include "ir/tree.h"

enum { LEVELS = 64 };

/* The code for float and for double: NAME(x, n, stride, f, init, column). */
#define TREE(NAME, T)                                                                                                  \
	typedef struct NAME##_block {                                                                                      \
		int64_t chunks, lanes;       /* how many chunks it covers; lanes present */                                    \
		T lane[IR_TREE_LANES(sizeof(T))];                                                                              \
	} NAME##_block;                                                                                                    \
                                                                                                                       \
	/* Step 1: one chunk of m elements, m <= lanes * rows. */                                                          \
	static void NAME##_chunk(NAME##_block *b, const T *x, int64_t m, int64_t stride, int64_t lanes, T (*f)(T, T))      \
	{                                                                                                                  \
		b->chunks = 1;                                                                                                 \
		b->lanes = m < lanes ? m : lanes;                                                                              \
		for (int64_t l = 0; l < b->lanes; l++) {                                                                       \
			b->lane[l] = x[l * stride];                                                                                \
			for (int64_t i = l + lanes; i < m; i += lanes) b->lane[l] = f(b->lane[l], x[i * stride]);                  \
		}                                                                                                              \
	}                                                                                                                  \
                                                                                                                       \
	/* Step 2: combines a with its right neighbour b, which may lack lanes. */                                         \
	static void NAME##_pair(NAME##_block *a, const NAME##_block *b, T (*f)(T, T))                                      \
	{                                                                                                                  \
		for (int64_t l = 0; l < b->lanes; l++) a->lane[l] = f(a->lane[l], b->lane[l]);                                 \
		a->chunks += b->chunks;                                                                                        \
	}                                                                                                                  \
                                                                                                                       \
	/* Step 3. */                                                                                                      \
	static T NAME##_halve(NAME##_block *a, int64_t lanes, T (*f)(T, T))                                                \
	{                                                                                                                  \
		for (int64_t half = lanes / 2; half >= 1; half /= 2)                                                           \
			for (int64_t l = 0; l < half && l + half < a->lanes; l++) a->lane[l] = f(a->lane[l], a->lane[l + half]);   \
		return a->lane[0];                                                                                             \
	}                                                                                                                  \
                                                                                                                       \
	T NAME(const T *x, int64_t n, int64_t stride, T (*f)(T, T), T init, bool column)                                   \
	{                                                                                                                  \
		NAME##_block stack[LEVELS];                                                                                    \
		int64_t lanes = column ? 1 : IR_TREE_LANES(sizeof(T));                                                         \
		int64_t size = lanes * (column ? IR_TREE_COLUMN_ROWS : IR_TREE_ROWS);                                          \
		int top = 0;                                                                                                   \
		if (n == 0) return init;                                                                                       \
		for (int64_t at = 0; at < n; at += size) {                                                                     \
			NAME##_chunk(&stack[top++], x + at * stride, n - at < size ? n - at : size, stride, lanes, f);             \
			for (; top > 1 && stack[top - 2].chunks == stack[top - 1].chunks; top--)                                   \
				NAME##_pair(&stack[top - 2], &stack[top - 1], f);                                                      \
		}                                                                                                              \
		for (; top > 1; top--) NAME##_pair(&stack[top - 2], &stack[top - 1], f);                                       \
		return NAME##_halve(&stack[0], lanes, f);                                                                      \
	}

TREE(ir_tree_f, float)
TREE(ir_tree_d, double)
