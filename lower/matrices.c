/* SPDX-License-Identifier: MIT */
/* matrices: the operands of a product as a library reads them.
 *
 *   a [2,1,5,6], b [3,6,4]    =>    batch axes 2, 3; a steps along the first, b along the second; m 5, n 4, k 6
 *   a [6], b [6,4]            =>    no batch axes; m 1, n 4, k 6 */
#include "lower/library.h"
#include "runtime/layout.h"

typedef struct matrix { int64_t rows, cols, row, col; } matrix;

/* The last two axes of an operand. The only axis of a left operand is a row, that of a right one a column. */
static matrix matrix_of(const lo_low *L, ir_ref r, const lo_access *a, bool left)
{
	const int rank = lo_node(L, r)->rank;
	const int64_t *dim = lo_dim(L, r);
	if (rank > 1) return (matrix){ dim[rank - 2], dim[rank - 1], a->stride[rank - 2], a->stride[rank - 1] };
	return left ? (matrix){ 1, dim[0], dim[0], a->stride[0] } : (matrix){ dim[0], 1, a->stride[0], 1 };
}

bool lo_matrix_leads(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	const matrix x = matrix_of(L, r, a, k == 0);
	bool transposed;
	int64_t ld;
	return rt_leading(x.rows, x.cols, x.row, x.col, &transposed, &ld);
}

static int batch_axes(const lo_low *L, ir_ref r) { return lo_node(L, r)->rank > 2 ? lo_node(L, r)->rank - 2 : 0; }

/* Strides of operand r along the batch axes of the result; 0 where it broadcasts. */
static void batch_steps(const lo_low *L, ir_ref r, const lo_access *a, const lo_product *x, int64_t *step)
{
	const int own = batch_axes(L, r), lead = x->nbatch - own;
	for (int i = 0; i < x->nbatch; i++) step[i] = i < lead || lo_dim(L, r)[i - lead] == 1 ? 0 : a->stride[i - lead];
}

void lo_product_of(lo_low *L, ir_ref r, lo_product *x)
{
	const ir_node *n = lo_node(L, r);
	const ir_ref src[2] = { ir_src(L->g, n, 0), ir_src(L->g, n, 1) };
	const int64_t size = (int64_t)tj_dtype_size((tj_dtype)n->dtype);
	lo_access acc[2];
	for (int k = 0; k < 2; k++) lo_operand_of(L, r, k, &acc[k]);
	const matrix a = matrix_of(L, src[0], &acc[0], true), b = matrix_of(L, src[1], &acc[1], false);
	const int na = batch_axes(L, src[0]), nb = batch_axes(L, src[1]);
	*x = (lo_product){ .m = a.rows,
		           .n = b.cols,
		           .k = a.cols,
		           .a_row = a.row,
		           .a_col = a.col,
		           .b_row = b.row,
		           .b_col = b.col,
		           .nbatch = na > nb ? na : nb };
	if (x->nbatch) memcpy(x->batch, lo_dim(L, r), sizeof *x->batch * (size_t)x->nbatch);
	for (int k = 0; k < 2; k++) {
		batch_steps(L, src[k], &acc[k], x, k ? x->b_step : x->a_step);
		x->at[k] = (rt_at){ .buf = lo_buf_at(L, &acc[k]), .offset = acc[k].offset * size };
	}
	x->at[2] = (rt_at){ .buf = lo_buf_of(L, r) };
}
