/* SPDX-License-Identifier: MIT */
/* target: NVIDIA GPUs as lowering sees them. The figures are estimates for an H200; none was measured. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"
#include "lower/library.h"

static lo_where keep(const lo_target *t, lo_vec v, int64_t row, size_t *room)
{
	*room = (size_t)row;
	if (v != LO_VEC_R || row > t->kept_bytes) return LO_RECOMPUTED;
	return row <= CU_REGISTER_BYTES ? LO_REGISTERS : LO_SHARED;
}

static int64_t outer(const lo_kernel *k)
{
	int64_t n = 1;
	for (int d = 0; d < k->ndim; d++) n *= lo_size(k, k->dim[d]);
	return n;
}

/* Few long rows are split until the device has t->parts units; the lanes of all parts of a row are read by one block later, so no more than
 * needed. */
static int64_t part_of_rows(const lo_target *t, const lo_kernel *k, int64_t lanes)
{
	int64_t rows = outer(k), chunks = t->most_chunks;
	const int64_t wanted = (t->parts - 1) / (rows ? rows : 1) + 1, chunk = (lanes > 1 ? lanes : IR_TREE_LANES(sizeof(float))) * IR_TREE_ROWS;
	while (chunks > t->least_chunks && k->red / (chunk * chunks) < wanted) chunks /= 2;
	return chunk * chunks;
}

/* Without parts, a block goes down a sector of each row, as fast as an SM reads. With them, all SMs read, and a second kernel is launched.
 */
static bool parts_pay(const lo_kernel *k, int64_t columns)
{
	enum { SM = 40, GPU = 4000, LAUNCH = 2500 }; /* bytes a ns; ns */
	const int64_t alone = k->red * CU_SECTOR / SM, shared = (int64_t)((double)k->red * (double)columns * (double)cu_least_load(k) / GPU);
	return columns > 0 && alone - shared >= LAUNCH;
}

/* Columns are split until the device has t->parts blocks, each a warp wide. One block combines the parts of a few columns later: hence MOST
 * of them, except that a block walks a part in one pass. */
static int64_t part_of_columns(const lo_target *t, const lo_kernel *k)
{
	enum { MOST = 1024 };
	const int64_t columns = outer(k);
	if (!parts_pay(k, columns)) return 0;
	int64_t chunks = CU_MOST_WARPS * CU_MOST_PER, wanted = (t->parts * CU_WARP - 1) / columns + 1;
	if (wanted > MOST) wanted = MOST;
	while (chunks > t->least_chunks && k->red / (chunks * IR_TREE_COLUMN_ROWS) < wanted) chunks /= 2;
	return chunks * IR_TREE_COLUMN_ROWS;
}

static int64_t part(const lo_target *t, const lo_kernel *k, bool column, int64_t lanes)
{
	return column ? part_of_columns(t, k) : part_of_rows(t, k, lanes);
}

static void units(const lo_target *t, const lo_kernel *k, lo_schedule *s)
{
	(void)t;
	s->block = cu_elems(k);
	s->unit_ns = 1;
}

/* Bytes of shared memory that a block may ask for. */
static int64_t shared_of(int arch)
{
	switch (arch) {
	case 80: case 87: return 163 << 10;
	case 90: case 100: case 103: case 110: return 227 << 10;
	default: return 99 << 10; /* sm_86, sm_89, sm_120, and what is not known */
	}
}

void cu_fit_target(lo_target *t, int arch)
{
	t->kept_bytes = t->shared_bytes = shared_of(arch) - CU_RESERVED;
}

static const lo_routine *const library[] = { &lo_gpu_matmul,  &cu_scatter[0],  &cu_scatter[1],  &cu_scatter[2],   &cu_scatter[3],
	                                     &cu_scatter[4],  &cu_cumulate[0], &cu_cumulate[1], &cu_cumulate[2],  &cu_cumulate[3],
	                                     &cu_cumulate[4], &cu_sort[0],     &cu_sort[1],     &cu_searchsorted, NULL };

const lo_target cu_model = {
	.name = "cuda",
	.backend = "cuda",
	.library = library,
	.weight = 160,
	.members = 64,
	.least_part = 8,
	.least_border = 256,
	.least_axis = 8,
	.redundant = 8,
	.few_rows = 256,
	.long_row = 1 << 17,
	.split_row = 1 << 15,
	.few_columns = 1024,
	.split_column = 3 << 10,
	.splits_searches = true,
	.far_step = 8,
	.transposed = 1 << 16,
	.kept_rows = 1,
	.unit_bytes = 16,
	.unit_ns = 1,
	.lanes = 1,
	.tile_rows = 32,
	.flat_tiles = true,
	.op_ns = 0.0001,
	.byte_ns = 0.0003,
	.same_ns = 0.0001,
	.far_ns = 0.01,
	.fma_ns = 0.00004,
	.parts = 512,
	.least_chunks = 4,
	.most_chunks = 64,
	.join_ns = 1,
	.lane_ns = 1,
	.strip_elems = INT64_MAX,
	.far_elems = INT64_MAX,
	.far_bytes = INT64_MAX,
	.again_after = 1,
	.stored_after = 3,
	.again_work = 24,
	.vec = lo_vec_of_tree,
	.keep = keep,
	.units = units,
	.tiles = cu_tile_units,
	.part = part,
	.moved = cu_moved,
};
