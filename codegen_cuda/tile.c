/* tile: kernels that read some buffers along one dimension and write along another.
 *
 *   load [0 + 1*d0 + 1000*d1]   store [0 + 2000*d0 + 1*d1]          d0: the side dimension of the loads that go through a tile
 *
 *                 d1 (last)                          A block of 256 threads takes a tile of 32 by 32 elements. First each warp reads
 *               x x x x . .                          32 elements that are adjacent along the side, and writes them to a row of the tile;
 *       d0      x x x x . .      tile[d1][d0]        then each warp takes 32 elements along the last dimension: a column of the tile,
 *     (side)    x x x x . .                          with one access to memory for each of the other loads and stores. Rows of the tile
 *               . . . . . .                          are 33 elements long, so that neither walk meets a bank of shared memory twice.
 */
#include "codegen_cuda/cu.h"

enum { SIDE = 32, PITCH = SIDE + 1, STEP = CU_THREADS / SIDE, MOST_TILES = 4 };

/* ---- which loads ---- */
/* The dimension along which the load is contiguous, if it is not the last one; -1: none, or the load goes along the last. */
static int side_of(const lo_kernel *k, const lo_ins *in)
{
	const int64_t *coef = k->index.v[in->index].coef;
	const int last = k->ndim - 1;
	if (in->op != LO_LOAD || in->dyn != LO_NOREF || coef[last] == 0 || coef[last] == 1 || lo_size(k, k->dim[last]) < SIDE / 2) return -1;
	for (int d = 0; d < last; d++)
		if (coef[d] == 1 && lo_size(k, k->dim[d]) >= SIDE / 2) return d;
	return -1;
}

int cu_side(const lo_kernel *k)
{
	int side = -1, n = 0;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op == LO_STORE && (in->dyn != LO_NOREF || k->index.v[in->index].coef[k->ndim - 1] != 1)) return -1;
		if (side < 0) side = side_of(k, in);
		n += side >= 0 && side_of(k, in) == side;
	}
	return n <= MOST_TILES ? side : -1;
}

bool cu_is_tiled(const cu *c, const lo_ins *in) { return c->shape.walk == CU_TILES && side_of(c->k, in) == c->shape.side; }

/* ---- memory ---- */
static size_t bytes_of(const lo_ins *in) { return (PITCH * SIDE * tj_dtype_size((tj_dtype)in->dtype) + 15) / 16 * 16; }

size_t cu_tile_bytes(const lo_kernel *k, int side)
{
	size_t n = 0;
	for (uint32_t i = 0; i < k->ins.n; i++)
		if (side_of(k, &k->ins.v[i]) == side) n += bytes_of(&k->ins.v[i]);
	return n;
}

/* ---- text ---- */
static void put_declarations(cu *c)
{
	size_t at = 0;
	cu_line(c, "const int tx = threadIdx.x %% %d, ty = threadIdx.x / %d;\n", SIDE, SIDE);
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!cu_is_tiled(c, in)) continue;
		const char *type = cu_memory((tj_dtype)in->dtype);
		cu_line(c, "%s *const tile%u = (%s *)(tj_shared + %zu);\n", type, i, type, at);
		at += bytes_of(in);
	}
}

/* The tiles of the last two dimensions, then the other dimensions. */
static void put_place(cu *c)
{
	const lo_kernel *k = c->k;
	const int last = k->ndim - 1, side = c->shape.side;
	for (int d = 0; d <= last; d++) cu_line(c, "const ix dim%d = ", d), cu_size(c, k->dim[d]), rt_puts(c->out, ";\n");
	cu_line(c, "const ix across = (dim%d - 1) / %d + 1, down = (dim%d - 1) / %d + 1;\n", last, SIDE, side, SIDE);
	cu_line(c, "ix tiles = across * down;\n");
	for (int d = 0; d < last; d++)
		if (d != side) cu_line(c, "tiles *= dim%d;\n", d);
	cu_line(c, "TJ_ROLLED for (ix t = blockIdx.x; t < tiles; t += gridDim.x) {\n");
	cu_line(c, "ix w = t;\n");
	cu_line(c, "const ix last0 = w %% across * %d; w /= across;\n", SIDE);
	cu_line(c, "const ix side0 = w %% down * %d; w /= down;\n", SIDE);
	for (int d = last - 1; d >= 0; d--)
		if (d != side) cu_line(c, "const ix d%d = w %% dim%d; w /= dim%d;\n", d, d, d);
}

/* The head of a loop over the elements of a thread, those that exist. along: the thread number goes along the last dimension. */
static void put_walk(cu *c, bool along, bool unroll)
{
	const int last = c->k->ndim - 1, side = c->shape.side;
	cu_line(c, "%s for (int i = ty; i < %d; i += %d) {\n", unroll ? "TJ_UNROLL" : "TJ_ROLLED", SIDE, STEP);
	cu_line(c, "const ix d%d = last0 + %s, d%d = side0 + %s;\n", last, along ? "tx" : "i", side, along ? "i" : "tx");
	cu_line(c, "if (d%d < dim%d && d%d < dim%d) {\n", last, last, side, side);
}

void cu_tiles(cu *c, void (*body)(cu *c))
{
	enum { LIGHT = 16 };
	put_declarations(c);
	put_place(c);
	put_walk(c, false, true);
	for (uint32_t i = 0; i < c->k->ins.n; i++)
		if (cu_is_tiled(c, &c->k->ins.v[i])) {
			cu_line(c, "tile%u[i * %d + tx] = *(", i, PITCH);
			cu_pointer(c, &c->k->ins.v[i]), rt_puts(c->out, ");\n");
		}
	cu_line(c, "}\n");
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
	put_walk(c, true, c->k->ins.n < LIGHT);
	body(c);
	cu_line(c, "}\n");
	cu_line(c, "}\n");
	cu_line(c, "__syncthreads();\n");
	cu_line(c, "}\n");
}

void cu_tiled_load(cu *c, uint32_t i) { rt_putf(c->out, "tile%u[tx * %d + i]", i, PITCH); }
