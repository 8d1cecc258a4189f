/* SPDX-License-Identifier: MIT */
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

enum { SIDE = CU_SIDE, STEP = CU_THREADS / SIDE };

static void put_declarations(cu *c)
{
	size_t at = 0;
	cu_line(c, "const int tx = threadIdx.x %% %d, ty = threadIdx.x / %d;\n", SIDE, SIDE);
	for (uint32_t i = 0; i < c->k->ins.n; i++) {
		const lo_ins *in = &c->k->ins.v[i];
		if (!cu_is_tiled(c, in)) continue;
		const char *type = cu_memory((tj_dtype)in->dtype);
		cu_line(c, "%s *const tile%u = (%s *)(tj_shared + %zu);\n", type, i, type, at);
		at += cu_tile_bytes(in);
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
			cu_line(c, "tile%u[i * %d + tx] = *(", i, CU_PITCH);
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
