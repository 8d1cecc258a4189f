/* SPDX-License-Identifier: MIT */
/* eigen: eigenvalues and singular values of matrices, for the evaluator. */
#ifndef TJ_IR_EIGEN_H
#define TJ_IR_EIGEN_H

#include "ir/ir.h"

/* The op's result of row-major matrices: m, a: the operand, which is spoiled. err has no site. */
tj_status ir_spectral(ir_op op, const ir_meta *m, void *a, const ir_meta *out, void *to, rt_err *err);

#endif
