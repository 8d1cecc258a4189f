/* SPDX-License-Identifier: MIT */
/* cpu: the target of x86-64 CPUs. Figures were measured with vectors of 256 and of 512 bits; both widths use the same schedules. */
#include "lower/library.h"

/* ---- kept values ---- */
static lo_where keep(const lo_target *t, lo_vec v, int64_t row, size_t *room)
{
	int64_t bytes = row * (v == LO_VEC_R ? 1 : t->kept_rows);
	*room = (size_t)bytes;
	return bytes <= t->kept_bytes ? LO_SCRATCH : LO_RECOMPUTED;
}

/* ---- cost ---- */
static int64_t magnitude(int64_t x)
{
	return x < 0 ? -x : x;
}

typedef struct cost {
	double point, row;
	int store_size;
} cost; /* in ns: per outer index, per element of r */

static double ins_ns(const lo_target *t, const lo_kernel *k, const lo_schedule *s, const lo_ins *i)
{
	enum { NEAR = 4 }; /* elements; loads a few elements apart are vectors that are shuffled */
	if (i->op != LO_LOAD && i->op != LO_STORE) return t->op_ns;
	const lo_index *x = &k->index.v[i->index];
	int64_t step = magnitude(s->vec == LO_VEC_R ? x->rcoef : x->coef[k->ndim - 1]);
	if (i->dyn != LO_NOREF || step > (i->op == LO_LOAD ? NEAR : 1)) return t->far_ns;
	return step ? t->byte_ns * (double)(step * (int64_t)tj_dtype_size((tj_dtype)i->dtype)) : t->same_ns;
}

static cost cost_of(const lo_target *t, const lo_kernel *k, const lo_schedule *sched)
{
	cost c = { 0, 0, 1 };
	for (uint32_t s = 0; s < k->section.n; s++)
		for (uint32_t i = 0; i < k->section.v[s].count; i++) {
			const lo_ins *x = &k->ins.v[k->section.v[s].first + i];
			*(k->section.v[s].loop ? &c.row : &c.point) += ins_ns(t, k, sched, x);
			if (x->op == LO_STORE && (int)tj_dtype_size((tj_dtype)x->dtype) > c.store_size)
				c.store_size = (int)tj_dtype_size((tj_dtype)x->dtype);
		}
	return c;
}

/* ---- units ---- */
/* Blocks of 512 bytes take 0.6 of the time of 256 bytes; with a quarter of a long row the code generator can walk along rows (wide.c). */
static int64_t columns_to_unit(const lo_target *t, const lo_kernel *k, int64_t last)
{
	int loops = 0;
	for (uint32_t s = 0; s < k->section.n; s++) loops += k->section.v[s].loop;
	if (loops == 1 && last >= 32 * t->lanes && k->red >= t->lanes) return last >= 64 * t->lanes ? 16 * t->lanes : 8 * t->lanes;
	return last >= 8 * t->lanes ? 2 * t->lanes : t->lanes;
}

/* All of the kernel's work is in one row, and it is enough for two threads. */
static bool pays(const lo_kernel *k, double each)
{
	for (int d = 0; d < k->ndim - 1; d++)
		if (k->dim[d] != 1) return false;
	return each * (double)k->dim[k->ndim - 1] >= RT_SERIAL_NS;
}

static void units(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	cost c = cost_of(t, k, s);
	double each = c.point + c.row * (double)(k->reduces ? k->red : 0) + 0.01;
	int64_t last = k->dim[k->ndim - 1];
	s->block = 1;
	if (s->vec != LO_VEC_R) {
		int64_t by_bytes = t->unit_bytes / c.store_size, by_ns = (int64_t)(t->unit_ns / each);
		s->block = by_bytes < by_ns ? by_bytes : by_ns;
		int64_t least = k->reduces ? columns_to_unit(t, k, last) : t->lanes;
		s->block = s->block / least * least;
		if (s->block < least) s->block = least;
		if (s->block > last) s->block = last;
		if (s->block == last && pays(k, each)) s->block = last > 2 * least ? (last / 2 + least - 1) / least * least : s->block;
	}
	s->unit_ns = each * (double)s->block + 2;
}

/* ---- the target ---- */
static const lo_routine *const library[] = { &lo_matmul,      &lo_scatter[0],  &lo_scatter[1],   &lo_scatter[2],
	                                     &lo_scatter[3],  &lo_scatter[4],  &lo_cumulate[0],  &lo_cumulate[1],
	                                     &lo_cumulate[2], &lo_cumulate[3], &lo_cumulate[4],  &lo_sort,
	                                     &lo_topk,        &lo_take_sorted, &lo_searchsorted, &lo_csr[0],
	                                     &lo_csr[1],       &lo_csr[2],      NULL };

const lo_target lo_cpu = {
	.name = "cpu",
	.backend = "llvm",
	.key = lo_code_key,
	.find = lo_backend_find,
	.library = library,
	.weight = 160,
	.members = 128,
	.least_part = 8,
	.least_border = 256,
	.least_axis = 8,
	.redundant = 8,
	.few_rows = 8,
	.long_row = 1 << 16,
	.split_row = 1 << 18,
	.few_columns = 256,
	.split_column = 1 << 15,
	.part_blocks = true,
	.far_step = 8,
	.unrolled_row = 4,
	.transposed = 1 << 14,
	.kept_bytes = 512 << 10,
	.kept_rows = 32,
	.unit_bytes = 16 << 10,
	.unit_ns = 10e3,
	.lanes = 64,
	.tile_rows = 128,
	.window_row = 28,
	.op_ns = 0.012,
	.byte_ns = 0.02,
	.same_ns = 0.01,
	.far_ns = 1.0,
	.fma_ns = 0.02,
	.parts = 32,
	.least_chunks = 4,
	.most_chunks = 64,
	.join_ns = 10,
	.lane_ns = 0.05,
	.strip_elems = 256 << 10,
	.far_elems = 4 << 20,
	.far_bytes = RT_THIRD_CACHE,
	.again_after = 1,
	.stored_after = 3,
	.again_bytes = 1 << 20,
	.again_work = 6,
	.vec = lo_vec_of_tree,
	.keep = keep,
	.units = units,
	.tiles = lo_tile_units,
	.part = lo_enough_parts,
};

const lo_target *lo_target_find(const char *backend, const char **why)
{
	if (!strcmp(backend, lo_cpu.backend)) return &lo_cpu;
	*why = "no such back end";
	return NULL;
}
