/* SPDX-License-Identifier: MIT */
/* turnsum: what a loop sums up over its turns, computed from all of them at once. Private to this folder. */
#ifndef TJ_IR_TURNSUM_H
#define TJ_IR_TURNSUM_H

#include "ir/ir.h"

typedef struct ir_turn_side { /* an operand of a product */
	ir_ref value;          /* of the body: a matrix; IR_NONE, on the left: rows of ones, so that the rows of the right one are added */
	bool rows_last;        /* its last axis is the one that is summed over, not the first */
} ir_turn_side;
typedef struct ir_turn_product { ir_turn_side left, right; uint8_t mode; } ir_turn_product;

bool ir_is_plain_sum(const ir_graph *g, ir_ref r); /* a + b, both of r's type */
/* Splits a sum that a body of g computes: its products of two matrices, and its sums of rows, into list[], at most `most`; returns how
 * many. terms[], as long: they themselves, by list; then what is left, up to *nterm. */
int ir_turn_products(const ir_graph *g, ir_ref sum, int most, ir_turn_product *list, ir_ref *terms, int *nterm);
/* The same product over the rows of all turns; left and right: the values of its sides in each turn, stacked along axis 0. IR_NONE: an
 * error. */
ir_ref ir_turn_product_of(ir_graph *g, const ir_turn_product *p, ir_ref left, ir_ref right, const char *site);

#endif
