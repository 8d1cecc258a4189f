/* SPDX-License-Identifier: MIT */
/* Cells in lists of which a call may have thousands: those that its running segment assigns, and those that it has assigned. A hash table
 * finds the place of a cell in such a list. The table is only a hint: what it says is compared with the list, so entries of a list that was
 * cut do no harm. */
#include "jit/ctx.h"

enum { FEW = 16 }; /* up to so many cells are searched in order */

static rt_held *cell_at(const void *list, size_t size, uint32_t i)
{
	rt_held *cell;
	memcpy(&cell, (const char *)list + i * size, sizeof cell);
	return cell;
}

static uint32_t hash(const rt_held *cell) { return (uint32_t)(((uintptr_t)cell >> 6) * 0x9E3779B1u >> 7); }

/* Room for n cells, with at least half of the table empty. */
static bool grow(jit_cellmap *m, uint32_t n)
{
	uint32_t cap = 64;
	while (cap < 4 * n) cap *= 2;
	if (cap > m->at.cap) {
		uint32_t *v = rt_realloc(m->at.v, cap * sizeof *v);
		if (!v) return false;
		m->at.v = v;
		m->at.cap = cap;
	}
	memset(m->at.v, 0, m->at.cap * sizeof *m->at.v);
	m->used = m->done = 0;
	return true;
}

/* Enters the cells that the list has got since. */
static bool update(jit_cellmap *m, const void *list, size_t size, uint32_t n)
{
	if (m->done == n) return true;
	if (2 * (m->used + n - m->done) > m->at.cap && !grow(m, n)) return false;
	for (; m->done < n; m->done++, m->used++) {
		uint32_t i = hash(cell_at(list, size, m->done));
		while (m->at.v[i & (m->at.cap - 1)]) i++;
		m->at.v[i & (m->at.cap - 1)] = m->done + 1;
	}
	return true;
}

int64_t jit_find_cell(jit_cellmap *m, const void *list, size_t size, uint32_t n, const rt_held *cell)
{
	if (n <= FEW || !update(m, list, size, n)) {
		for (uint32_t i = 0; i < n; i++)
			if (cell_at(list, size, i) == cell) return i;
		return -1;
	}
	for (uint32_t i = hash(cell);; i++) {
		const uint32_t at = m->at.v[i & (m->at.cap - 1)];
		if (!at) return -1;
		if (at <= n && cell_at(list, size, at - 1) == cell) return at - 1;
	}
}

void jit_cut_cells(jit_cellmap *m, uint32_t n)
{
	if (m->done > n) m->done = n;
}

int64_t jit_find_assigned(jit_act *a, const rt_held *cell)
{
	return jit_find_cell(&a->assigned_at, a->assigned.v, sizeof *a->assigned.v, a->assigned.n, cell);
}
