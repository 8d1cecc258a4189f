/* SPDX-License-Identifier: MIT */
/* follow: kernels of which one reads, row by row, what the other one writes. They go through their rows together, block by block, so
 * that the rows are still in the cache when the second kernel reads them.
 *
 *   k0  s = q @ k'  [12,384,384]          k0 units 0, 1     rows   0 .. 383 of the 4608 rows of s
 *   k1  p = softmax(s)              =>    k1 units 0..383   the same rows
 *   k2  p @ v       [12,384,64]           k2 unit 0         the same rows, and so on
 *
 * A row is one index of the outer dimensions, of a product one of the batch and of its rows; rows are counted in row-major order. */
#include "lower/low.h"

static bool is_tile(const lo_built *b) { return b->s.vec == LO_VEC_TILE; }
static int row_dims(const lo_built *b) { return is_tile(b) ? b->k.ndim - 1 : b->k.ndim; }

static int64_t rows_of(const lo_built *b)
{
	int64_t n = 1;
	for (int d = 0; d < row_dims(b); d++) n *= b->k.dim[d];
	return n;
}

bool lo_walks_rows(const lo_built *b, lo_blocks *w)
{
	lo_tiles t;
	const int64_t rows = rows_of(b);
	if (b->s.part || rows == 0) return false;
	*w = (lo_blocks){ .rows = rows, .block = 1, .units = 1 };
	if (!is_tile(b)) return b->s.vec == LO_VEC_R;
	const int64_t last = b->k.dim[b->k.ndim - 1];
	if (!lo_tiles_of(&b->k, &t) || t.row < 0 || last == 0) return false;
	for (int d = t.row + 1; d < b->k.ndim - 1; d++)
		if (b->k.dim[d] != 1) return false;
	w->block = b->s.rows;
	w->units = (last - 1) / b->s.block + 1;
	return rows == b->k.dim[t.row] || b->k.dim[t.row] % w->block == 0; /* else the last block of each batch is shorter */
}

/* The index goes from row to row in steps of `width`, and stays within [0, width) otherwise. width 0: takes that of the index. */
static bool stays_in_rows(const lo_built *b, const lo_index *x, int64_t *width)
{
	int64_t most = x->offset, step = *width;
	for (int d = row_dims(b) - 1; d >= 0; d--) {
		if (b->k.dim[d] == 1) continue;
		if (!step) step = *width = x->coef[d];
		if (x->coef[d] != step) return false;
		step *= b->k.dim[d];
	}
	for (int d = row_dims(b); d < b->k.ndim; d++) {
		if (x->coef[d] < 0) return false;
		most += x->coef[d] * (b->k.dim[d] - 1);
	}
	if (b->k.reduces && b->k.red) most += x->rcoef * (b->k.red - 1);
	return x->offset >= 0 && x->rcoef >= 0 && !x->group && !lo_jumps(x) && most < *width;
}

/* All accesses of b to buffer `buf` of the plan stay in rows of one width. */
static bool touches_rows(const lo_built *b, uint32_t buf, int64_t *width)
{
	for (uint32_t i = 0; i < b->k.ins.n; i++) {
		const lo_ins *in = &b->k.ins.v[i];
		if ((in->op != LO_LOAD && in->op != LO_STORE) || in->buf >= b->nbuf || b->buf[in->buf] != buf) continue;
		if (in->dyn != LO_NOREF || !stays_in_rows(b, &b->k.index.v[in->index], width)) return false;
	}
	return true;
}

bool lo_follows(const lo_step *first, uint32_t n, const lo_step *s)
{
	lo_blocks a, b;
	if (!lo_walks_rows(first->built, &a) || !lo_walks_rows(s->built, &b) || a.rows != b.rows || a.block % b.block) return false;
	for (uint32_t i = 0; i < s->reads.n; i++)
		for (uint32_t k = 0; k < n; k++) {
			int64_t width = 0;
			if (lo_touches(&first[k], s->reads.v[i], true) &&
			    (!touches_rows(first[k].built, s->reads.v[i], &width) || !touches_rows(s->built, s->reads.v[i], &width)))
				return false;
		}
	return true;
}
