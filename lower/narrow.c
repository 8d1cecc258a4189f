/* SPDX-License-Identifier: MIT */
/* narrow: arithmetic of integers that is cast to a narrow dtype is computed in that dtype.
 *
 *   %2 = cast i64[n] %0                      (%0: u8[n])
 *   %3 = add i64[n] %2 5              =>     %3 = add u8[n] %0 5
 *   %4 = cast u8[n] %3
 *
 * Sums, products and bits of a wrapped integer depend on no higher bits. Those of a quotient, a comparison or a shift to the right do.
 * So do distances; but those of bytes are bytes. */
#include "lower/low.h"

enum { DEPTH = 8, PIECES = 16 }; /* PIECES: of a cat; more than other ops have operands */

static bool is_whole(int dtype) { return !rt_is_float((tj_dtype)dtype) && dtype != TJ_BOOL; }

/* its low bits depend on those of its operands alone; the first `from` operands are read as they are */
static bool keeps_low_bits(const ir_node *n, int *from)
{
	*from = n->op == IR_where;
	switch (n->op) {
	case IR_add: case IR_sub: case IR_mul: case IR_neg: case IR_bitwise_and: case IR_bitwise_or: case IR_bitwise_xor: case IR_bitwise_not:
	case IR_where: return is_whole(n->dtype) && !n->weak;
	default: return false;
	}
}

/* its elements are those of its operands */
static bool moves(const ir_node *n) { return n->op == IR_expand || n->op == IR_reshape || (n->op == IR_cat && n->nsrc <= PIECES); }

/* r is computed from constants, from numbers and from integers that are no wider than t. */
static bool comes_narrow(const ir_graph *g, ir_ref r, size_t bytes, int depth)
{
	const ir_node *n = ir_at(g, r);
	int from;
	if (n->op == IR_const || (n->weak && is_whole(n->dtype))) return true;
	if (n->op == IR_cast) {
		const ir_node *was = ir_at(g, ir_src(g, n, 0));
		return !rt_is_float((tj_dtype)was->dtype) && (was->weak || was->op == IR_num || tj_dtype_size((tj_dtype)was->dtype) <= bytes);
	}
	if (depth >= DEPTH || !(moves(n) || keeps_low_bits(n, &from))) return false;
	for (int k = moves(n) ? 0 : from; k < n->nsrc; k++)
		if (!comes_narrow(g, ir_src(g, n, k), bytes, depth + 1)) return false;
	return true;
}

static ir_ref narrowed(ir_graph *g, ir_ref r, tj_dtype t, int depth)
{
	const ir_node n = *ir_at(g, r); /* emitting moves nodes */
	int64_t attr[TJ_MAX_RANK + 1];
	ir_ref src[PIECES];
	int from;
	if (depth >= DEPTH || n.weak || !(moves(&n) || keeps_low_bits(&n, &from))) return ir_cast(g, r, t, n.site);
	if (moves(&n)) from = 0;
	memcpy(attr, ir_attr(g, &n), sizeof *attr * n.nattr);
	for (int k = 0; k < n.nsrc; k++) src[k] = k < from ? ir_src(g, &n, k) : narrowed(g, ir_src(g, &n, k), t, depth + 1);
	g->mode = n.mode;
	return ir_emit(g, (ir_op)n.op, n.nsrc, src, n.nattr, attr, n.site);
}

/* |a - b| of bytes that were widened: the larger less the smaller, in bytes. */
ir_ref lo_narrow_distance(ir_graph *g, ir_ref x)
{
	const ir_node d = *ir_at(g, x);
	ir_ref v[2];
	if (d.op != IR_sub || !is_whole(d.dtype) || !rt_is_signed((tj_dtype)d.dtype) || tj_dtype_size((tj_dtype)d.dtype) < 2) return IR_NONE;
	for (int k = 0; k < 2; k++) {
		const ir_node *n = ir_at(g, ir_src(g, &d, k));
		if (n->op != IR_cast || ir_at(g, ir_src(g, n, 0))->dtype != TJ_U8) return IR_NONE;
		v[k] = ir_src(g, n, 0);
	}
	g->mode = d.mode;
	const ir_ref most = ir_op2(g, IR_maximum, v[0], v[1], d.site), least = ir_op2(g, IR_minimum, v[0], v[1], d.site);
	return ir_cast(g, ir_op2(g, IR_sub, most, least, d.site), (tj_dtype)d.dtype, d.site);
}

ir_ref lo_narrow(ir_graph *g, ir_ref x, tj_dtype t)
{
	const ir_node *n = ir_at(g, x);
	int from;
	const size_t bytes = tj_dtype_size(t);
	if (!is_whole(t) || bytes >= tj_dtype_size((tj_dtype)n->dtype) || n->device != RT_CPU) return IR_NONE;
	return (moves(n) || keeps_low_bits(n, &from)) && comes_narrow(g, x, bytes, 0) ? narrowed(g, x, t, 0) : IR_NONE;
}
