/* SPDX-License-Identifier: MIT */
/* autocast: mixed precision. A function with .autocast computes each op in the dtype of its class, a flag in ops.def:
 *
 *   LOW     products                              floats are cast to the narrow dtype
 *   HIGH    sums, norms, softmax, losses, exp...  f16 and bf16 are cast to f32
 *   WIDEST  ops that do not promote               floats are cast to the widest of them
 *   none    all others                            operands are as they are; ops that promote take the widest, as always
 *
 * These are PyTorch's lists for GPUs; mean, var, logsumexp and rms_norm are HIGH as well. An op with an operand of f64 is left as it is.
 * The casts are ordinary nodes in front of the op: equal ones merge, so a weight is cast once, and gradients are cast back. */
#include "ir/ir.h"

tj_dtype ir_autocast(ir_op op, tj_dtype low, int nsrc, const ir_meta *src)
{
	const uint16_t flags = ir_ops[op].flags;
	for (int k = 0; k < nsrc; k++)
		if (!src[k].weak && src[k].dtype == TJ_F64) return TJ_BOOL;
	if (flags & IR_WIDEST) return ir_promote(src, nsrc);
	return flags & IR_LOW ? low : flags & IR_HIGH ? TJ_F32 : TJ_BOOL;
}
