/* SPDX-License-Identifier: MIT */
/* packed: factors of matrices, for the evaluator and for routines. */
#ifndef TJ_IR_PACKED_H
#define TJ_IR_PACKED_H

#include "ir/ir.h"

/* The op's result of row-major operands: m, a: the matrices, which are spoiled; b: the right sides of solve_lower. err has no site. */
tj_status ir_factor(ir_op op, const ir_meta *m, void *a, const void *b, const ir_meta *out, void *to, bool unit, rt_err *err);

#endif
