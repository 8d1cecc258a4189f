/* SPDX-License-Identifier: MIT */
/* turn: products of few columns and many rows. Lanes go along the rows.
 *
 *   dim 4096                                  dim 10
 *   dim 10                                    dim 4096
 *   load b0 [0 + 256*d0 + 1*r]                load b0 [0 + 256*d1 + 1*r]
 *   load b1 [0 + 1*d1 + 10*r]          =>     load b1 [0 + 1*d0 + 10*r]
 *   store b2 [0 + 10*d0 + 1*d1]               store b2 [0 + 1*d0 + 10*d1]
 *
 * Few columns leave most lanes idle, and one number of a row is loaded for each multiply-add. As columns the rows are loaded as vectors,
 * and each vector is multiplied by all the columns, which are rows now. No chain changes, so no bit does. */
#include "lower/low.h"

enum {
	MANY = 8,         /* rows, and twice as many as columns */
	STEPS = 5,        /* of r, for each column: the results are stored one by one, which must not take longer than the sums */
	FEW_OF_BYTES = 12 /* columns */
};

/* So many columns that as rows they take no longer. Columns that are computed take more registers. */
static int64_t few(const lo_kernel *k, const lo_tiles *t)
{
	return t->bytes ? FEW_OF_BYTES : t->value[0] == t->load[0] ? lo_lanes(k, t) * 5 / 8 : lo_lanes(k, t) / 2;
}

/* Then vectors of half a register leave no lane idle, and are as fast. */
static bool fill_half(const lo_kernel *k, const lo_tiles *t, int64_t columns)
{
	return rt_vector_bits() == 512 && !t->bytes && 2 * columns == lo_lanes(k, t);
}

static int64_t other(int64_t d, int a, int b) { return d == a ? b : d == b ? a : d; }

/* Exchanges two dimensions. */
static void exchange(lo_kernel *k, int a, int b)
{
	const int64_t dim = k->dim[a];
	k->dim[a] = k->dim[b];
	k->dim[b] = dim;
	for (uint32_t i = 0; i < k->index.n; i++) {
		int64_t *coef = k->index.v[i].coef, at = coef[a];
		coef[a] = coef[b];
		coef[b] = at;
	}
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (k->ins.v[i].op == LO_INDEX) k->ins.v[i].imm = other(k->ins.v[i].imm, a, b);
}

bool lo_turn_product(const lo_target *target, lo_kernel *k)
{
	const int last = k->ndim - 1;
	lo_tiles t;
	if (target->flat_tiles || !lo_tiles_of(k, &t) || t.row < 0) return false;
	const int row = t.row;
	const int64_t columns = k->dim[last], rows = k->dim[row];
	if (columns > few(k, &t) || fill_half(k, &t, columns) || rows < MANY || rows < 2 * columns || k->red < STEPS * columns) return false;
	exchange(k, row, last);
	const bool can = lo_tiles_of(k, &t) && t.row == row && (t.across || t.adjacent);
	if (!can) exchange(k, row, last);
	return can;
}
