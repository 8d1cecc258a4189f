/* SPDX-License-Identifier: MIT */
/* csr: products with sparse matrices, for the evaluator. */
#ifndef TJ_IR_CSR_H
#define TJ_IR_CSR_H

#include "ir/ir.h"

/* csr_product, csr_product_transposed, csr_sampled_product; no narrow floats. An index out of range is a fault of the site. */
tj_status ir_csr(ir_op op, const ir_value *src, ir_value *out, const char *site, rt_err *err);

enum { IR_CSR_SUMS = 16 }; /* partial sums of an element of csr_sampled_product: i adds the products i, i + 16, ..; then halves are added */

#endif
