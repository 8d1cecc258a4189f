/* tree: the one order in which floats are reduced, whatever runs it. As plain loops; compiled code must agree
 * bit for bit.
 *
 *   row     L = 512 bytes of lanes (128 f32, 64 f64), J = 16 rows of lanes to a chunk
 *   column  L = 1, J = 32
 *
 *   1  A[c][l] = x[c*L*J + l] + x[c*L*J + L + l] + ...     sequential in j, for each chunk c and lane l
 *   2  A[l]    = adjacent chunks paired, (0 1)(2 3)..., and so on upwards; an odd last one moves up unchanged
 *   3  r       = lanes halved: l + (l + L/2), then L/4, ...
 *
 * What is absent (the last chunk's missing rows and lanes) is skipped, never replaced by a neutral element:
 * the sum of one -0.0 is -0.0. init is the value over no elements only.
 *
 * Step 2 is a binary counter: a block of 2^k chunks meets its neighbour as soon as that is whole, and what is
 * left at the end folds from the right. That is the pairing above, with a stack of 64 blocks instead of an
 * array of chunks. */
#include "ir/ir.h"
#include "ir/tree.h"

enum { LEVELS = 64 };

/* One text for both widths: NAME(x, n, stride, f, init, column). */
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
	/* Step 2: a takes its right neighbour b, which may lack lanes. */                                                 \
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
