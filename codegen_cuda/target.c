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

/* A thread stores 16 bytes of the widest element. Sizes must not decide it: kernels that differ in sizes share code. */
int cu_elems(const lo_kernel *k)
{
	int64_t size = 1;
	if (k->reduces || lo_size(k, k->dim[k->ndim - 1]) <= 1) return 1;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		const int64_t s = (int64_t)tj_dtype_size((tj_dtype)in->dtype);
		if ((in->op == LO_STORE || in->op == LO_LOAD) && s > size) size = s;
	}
	return (int)(16 / size < 8 ? 16 / size : 8);
}

/* Few long rows are split until the device has t->parts units; the lanes of all parts of a row are read by one block later, so no more than
 * needed. */
static int64_t part(const lo_target *t, const lo_kernel *k, int64_t lanes)
{
	int64_t rows = 1, chunks = t->most_chunks;
	for (int d = 0; d < k->ndim; d++) rows *= lo_size(k, k->dim[d]);
	const int64_t wanted = (t->parts - 1) / (rows ? rows : 1) + 1, chunk = (lanes > 1 ? lanes : IR_TREE_LANES(sizeof(float))) * IR_TREE_ROWS;
	while (chunks > t->least_chunks && k->red / (chunk * chunks) < wanted) chunks /= 2;
	return chunk * chunks;
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

static const lo_routine *const library[] = { &lo_gpu_matmul, NULL };

const lo_target cu_model = {
	.name = "cuda", .backend = "cuda", .library = library,
	.weight = 160, .members = 64, .redundant = 8, .few_rows = 256, .long_row = 1 << 17, .split_row = 1 << 15, .far_step = 8, .transposed = 1 << 16,
	.kept_rows = 1, .unit_bytes = 16, .unit_ns = 1, .lanes = 1, .tile_rows = 32,
	.op_ns = 0.0001, .byte_ns = 0.0003, .same_ns = 0.0001, .far_ns = 0.01, .parts = 512, .least_chunks = 4, .most_chunks = 64, .join_ns = 1, .lane_ns = 1,
	.strip_elems = INT64_MAX, .far_elems = INT64_MAX, .far_bytes = INT64_MAX, .vec = lo_vec_of_tree, .keep = keep, .units = units, .part = part,
};
