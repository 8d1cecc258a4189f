/* SPDX-License-Identifier: MIT */
/* vjp: the rule of each op for gradients (the vector-Jacobian product). Private to this folder. */
#ifndef TJ_IR_VJP_H
#define TJ_IR_VJP_H

#include "ir/ir.h"

/* The column `grad` of ops.def: a rule, or why there is none. */
/* clang-format off */
#define IR_GRAD_RULES(X) \
	X(ADD) X(SUB) X(MUL) X(DIV) X(MOD) X(POW) X(EXTREME) X(SLOPE) X(SELECT) X(CLAMP) X(CAST) X(MOVE) X(VIEW) X(PERMUTE) \
	X(SLICE) X(UNFOLD) X(FLIP) X(CAT) X(SPREAD) X(PROD) X(PICK) X(PICKED) X(LOGSUMEXP) X(VAR) X(MATMUL) X(GATHER) X(SELECTED) X(ROWS) \
	X(SCATTER) X(PUT) X(SCATTER_PROD) X(SCATTER_PICK) X(FILL) X(GELU) X(SOFTMAX) X(LOG_SOFTMAX) X(CROSS_ENTROPY) X(NUMBER) X(HYPOT) \
	X(COPYSIGN) X(LDEXP) \
	X(ATAN2) X(FMA) X(LOGADDEXP) X(NEXT) X(CUMSUM) X(CUMPROD) X(RUNNING) X(LOGCUMSUMEXP) X(RECURRENCE) \
	X(DFT) X(RDFT) X(INVERSE_RDFT) X(CHOLESKY) X(SOLVE_LOWER) X(LU) X(QR) X(EIGH) X(SVD) \
	X(CSR) X(CSR_N) X(CSR_SAMPLED) \
	X(CONV) X(CONV_TRANSPOSE) X(MAX_POOL) X(HOST)
/* clang-format on */
typedef enum ir_grad_rule {
	IR_GRAD_DISCRETE,  /* the result is no float */
	IR_GRAD_MADE,      /* no operand is a tensor */
	IR_GRAD_FLAT,      /* the gradient is 0 */
	IR_GRAD_NONE,      /* not implemented: asking for it is an error */
	IR_GRAD_PARTS,     /* the rules of its decomposition */
	IR_GRAD_REGIONS,   /* control flow: vjpflow.c */
#define X(rule) IR_GRAD_##rule,
	IR_GRAD_RULES(X)
#undef X
} ir_grad_rule;

/* Node y, which has a rule of IR_GRAD_RULES, and the gradient `grad` by it, of its dtype and shape. Emits the gradients by those operands
 * that are wanted, each of its operand's dtype and shape: to[k], IR_NONE where it is 0. false: an error, in g->err. */
bool ir_vjp(ir_graph *g, ir_ref y, ir_ref grad, const bool *want, ir_ref *to);
ir_ref ir_zeros(ir_graph *g, ir_ref like);

/* vjpfactor.c: factors of matrices. y: the result, wide; grad: the gradient by it; to: of both operands. */
ir_ref ir_vjp_cholesky(ir_graph *g, ir_ref y, ir_ref grad, const char *site);
void ir_vjp_solve_lower(ir_graph *g, ir_ref a, ir_ref y, ir_ref grad, bool unit, const char *site, ir_ref *to);
ir_ref ir_vjp_lu(ir_graph *g, ir_ref y, ir_ref grad, int64_t n, const char *site); /* of n x n */
ir_ref ir_vjp_qr(ir_graph *g, ir_ref x, ir_ref y, ir_ref grad, const char *site);

/* vjpspectral.c: eigenvalues and singular values; zero: terms between equal ones are 0; IR_NONE: nothing in it has a gradient. */
ir_ref ir_vjp_eigh(ir_graph *g, ir_ref y, ir_ref grad, bool zero, const char *site);
ir_ref ir_vjp_svd(ir_graph *g, ir_ref x, ir_ref y, ir_ref grad, bool zero, const char *site);

/* vjpflow.c: the same for control flow, a while that has a limit among it; grad: by result, IR_NONE where there is none. keep: of
 * ir_grad_ask. */
bool ir_vjp_flow(ir_graph *g, ir_ref r, const ir_ref *grad, const bool *want, bool keep, ir_ref *to);

/* grad.c: ir_grad() for several values, whose gradients are added up. cotangent[i]: IR_NONE: none of y[i]. Ignores y and cotangent of q. */
bool ir_grad_all(ir_graph *g, int ny, const ir_ref *y, const ir_ref *cotangent, const ir_grad_ask *q, ir_ref *out);

#endif
