/* SPDX-License-Identifier: MIT */
/* schedule: the units of a scheduled kernel, and where its kept rows live. */
#include "ir/tree.h"
#include "lower/target.h"

void lo_schedule_free(lo_schedule *s)
{
	rt_vec_free(&s->kept);
}

/* Number of blocks in the last dimension. */
static int64_t blocks(const lo_kernel *k, const lo_schedule *s)
{
	int64_t last = lo_size(k, k->dim[k->ndim - 1]), block = lo_size(k, s->block);
	return last && block > 0 ? (last - 1) / block + 1 : 0;
}

int64_t lo_extent(const lo_kernel *k, uint64_t dims)
{
	int64_t n = 1;
	for (int d = 0; d < k->ndim; d++)
		if (dims >> d & 1) n *= lo_size(k, k->dim[d]);
	return n;
}

/* Tiles of rows and columns that are numbered through, for each index of the batch axes. */
static int64_t flat_units(const lo_kernel *k, const lo_schedule *s, const lo_tiles *t)
{
	const int64_t rows = lo_extent(k, t->rows), columns = lo_extent(k, t->columns);
	if (!rows || !columns) return 0;
	return lo_extent(k, ~(t->rows | t->columns)) * ((rows - 1) / s->rows + 1) * ((columns - 1) / s->block + 1);
}

int64_t lo_units(const lo_kernel *k, const lo_schedule *s)
{
	int64_t units = blocks(k, s), rows = lo_size(k, s->rows);
	lo_tiles t = { .row = -1 };
	if (s->vec == LO_VEC_TILE && lo_tiles_of(k, &t) && s->target->flat_tiles) return flat_units(k, s, &t);
	for (int i = 0; i < k->ndim - 1; i++) {
		const int64_t n = lo_size(k, k->dim[i]);
		units *= i == t.row ? (n + rows - 1) / rows : n;
	}
	return units * lo_parts(k, s);
}

int64_t lo_parts(const lo_kernel *k, const lo_schedule *s)
{
	int64_t red = lo_size(k, k->red);
	return s->part && red ? (red - 1) / s->part + 1 : 1;
}

/* Where lanes step from row to row of a buffer, neighbouring units walk along its rows and read the same cache lines. */
int64_t lo_grain(const lo_kernel *k, const lo_schedule *s)
{
	int64_t grain = 1, last = k->ndim - 1;
	for (uint32_t i = 0; s->vec == LO_VEC_D && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_LOAD || in->dyn != LO_NOREF) continue;
		const int64_t *coef = k->index.v[in->index].coef;
		if (coef[last] == 0 || coef[last] == 1) continue;
		int64_t units = blocks(k, s);
		for (int64_t d = last - 1; d >= 0; units *= lo_size(k, k->dim[d--]))
			if (coef[d] == 1 && grain < s->target->tile_rows * units) grain = s->target->tile_rows * units;
	}
	return grain;
}

/* ---- decisions that targets share ---- */
lo_vec lo_vec_of_tree(const lo_target *t, bool reduces, bool column)
{
	(void)t;
	return reduces && !column ? LO_VEC_R : LO_VEC_D;
}

bool lo_is_shared(const lo_target *t, bool column, int64_t outer, int64_t red)
{
	return column ? outer < t->few_columns && red >= t->split_column : outer < t->few_rows && red >= t->split_row;
}

int64_t lo_enough_parts(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes)
{
	int64_t chunk = column ? IR_TREE_COLUMN_ROWS : (lanes > 1 ? lanes : IR_TREE_LANES(sizeof(float))) * IR_TREE_ROWS, chunks = t->most_chunks;
	while (chunks > t->least_chunks && k->red / (chunk * chunks) < t->parts) chunks /= 2;
	return chunk * chunks;
}

/* ---- values kept between loops ---- */
const lo_kept *lo_kept_at(const lo_schedule *s, uint32_t buf)
{
	for (uint32_t i = 0; i < s->kept.n; i++)
		if (s->kept.v[i].buf == buf) return &s->kept.v[i];
	return NULL;
}

size_t lo_kept_room(size_t bytes) { return (bytes + RT_LINE - 1) / RT_LINE * RT_LINE + RT_LINE; } /* one unused cache line after each */

bool lo_keep(lo_schedule *s, uint32_t buf, lo_where where, size_t bytes)
{
	size_t none = 0, *used = where == LO_SCRATCH ? &s->scratch : where == LO_SHARED ? &s->shared : &none;
	lo_kept x = { .buf = buf, .where = (uint8_t)where, .offset = (int64_t)*used };
	*used += lo_kept_room(bytes);
	return rt_push(&s->kept, x);
}
