/* SPDX-License-Identifier: MIT */
/* turnsum: the gradient by a value that all turns of a loop read is a sum over the turns. Where it is a product in each turn, over few
 * rows, one product over the rows of all turns computes it, outside of the loop.
 *
 *   in turn t: sum = sum + h[t]' d[t]        h [B,M], d [B,N]        =>        after the loop: h' d        h [T*B,M], d [T*B,N]
 *
 * A turn that adds a product of few rows spends its time on reading and writing the sum. The rows of d alone, as for a bias, are added so,
 * too. */
#include "ir/turnsum.h"

static bool is_matrix(const ir_graph *g, ir_ref r) { return ir_at(g, r)->rank == 2; }
/* one that changes nothing is no node */
static bool is_turned(const ir_graph *g, ir_ref r) { return ir_at(g, r)->op == IR_permute && is_matrix(g, r); }

/* first: its rows are those that are summed over if it is not transposed. */
static ir_turn_side side_of(const ir_graph *g, ir_ref r, bool first)
{
	const bool turned = is_turned(g, r);
	return (ir_turn_side){ .value = turned ? ir_src(g, ir_at(g, r), 0) : r, .rows_last = turned ? first : !first };
}

bool ir_is_plain_sum(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	if (n->op != IR_add) return false;
	const ir_meta sum = ir_meta_of(g, r), a = ir_meta_of(g, ir_src(g, n, 0)), b = ir_meta_of(g, ir_src(g, n, 1));
	return ir_same_type(&sum, &a) && ir_same_type(&sum, &b);
}

static bool is_product(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	return n->op == IR_matmul && is_matrix(g, r) && is_matrix(g, ir_src(g, n, 0)) && is_matrix(g, ir_src(g, n, 1)) &&
	       rt_is_float((tj_dtype)n->dtype);
}

/* The rows of a matrix, added. */
static bool is_row_sum(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	return n->op == IR_sum && n->rank == 1 && is_matrix(g, ir_src(g, n, 0)) && n->nattr == 2 && !ir_attr(g, n)[1] &&
	       rt_is_float((tj_dtype)n->dtype) && n->dtype == ir_at(g, ir_src(g, n, 0))->dtype;
}

int ir_turn_products(const ir_graph *g, ir_ref sum, int most, ir_turn_product *list, ir_ref *terms, int *nterm)
{
	int n = 0, all = 1;
	terms[0] = sum;
	for (int i = 0; i < all && all < most; i++)
		while (all < most && ir_is_plain_sum(g, terms[i])) {
			const ir_node *x = ir_at(g, terms[i]);
			terms[all++] = ir_src(g, x, 1);
			terms[i] = ir_src(g, x, 0);
		}
	for (int i = 0; i < all; i++) { /* products come to the front */
		const ir_ref r = terms[i];
		const ir_node *x = ir_at(g, r);
		if (is_product(g, r)) list[n] = (ir_turn_product){ side_of(g, ir_src(g, x, 0), false), side_of(g, ir_src(g, x, 1), true), x->mode };
		else if (is_row_sum(g, r)) list[n] = (ir_turn_product){ { IR_NONE, false }, { ir_src(g, x, 0), false }, x->mode };
		else continue;
		terms[i] = terms[n], terms[n++] = r;
	}
	*nterm = all;
	return n;
}

/* [T, rows, columns] as [T * rows, columns]. */
static ir_ref all_rows(ir_graph *g, ir_ref stack, bool rows_last, const char *site)
{
	if (rows_last) stack = ir_emit(g, IR_transpose, 1, &stack, 2, (int64_t[]){ 1, 2 }, site);
	if (stack == IR_NONE) return stack;
	const ir_meta m = ir_meta_of(g, stack);
	return ir_reshape(g, stack, 2, (int64_t[]){ m.dim[0] * m.dim[1], m.dim[2] }, site);
}

/* A row of ones: a sum of rows as a product is not fused with those of other loops, whose rows would all be kept for it. */
static ir_ref ones(ir_graph *g, ir_ref rows, const char *site)
{
	const ir_meta m = ir_meta_of(g, rows);
	return ir_to(g, ir_const_f(g, (tj_dtype)m.dtype, 2, (int64_t[]){ 1, m.dim[0] }, 1), m.device, site);
}

ir_ref ir_turn_product_of(ir_graph *g, const ir_turn_product *p, ir_ref left, ir_ref right, const char *site)
{
	const bool sum = p->left.value == IR_NONE;
	const uint8_t mode = g->mode;
	right = all_rows(g, right, p->right.rows_last, site);
	if (right == IR_NONE) return right;
	left = sum ? ones(g, right, site) : all_rows(g, left, p->left.rows_last, site);
	if (!sum && left != IR_NONE) left = ir_emit(g, IR_transpose, 1, &left, 2, (int64_t[]){ 0, 1 }, site);
	if (left == IR_NONE) return left;
	g->mode = p->mode;
	const ir_ref r = ir_op2(g, IR_matmul, left, right, site);
	g->mode = mode;
	return sum && r != IR_NONE ? ir_reshape(g, r, 1, (int64_t[]){ ir_dims(g, ir_at(g, r))[1] }, site) : r;
}
