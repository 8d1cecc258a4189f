/* The table of ops, from ops.def; behind them the leaves of a graph and control flow. */
#include "ir/ir.h"
#include "ir/rules.h"

/* The words of the columns of ops.def. */
enum {
	POINT = IR_POINT, VIEW = IR_VIEW, MATH = IR_MATH, REDUCE = IR_REDUCE, COMPOSITE = IR_COMPOSITE, LIB = IR_LIB,
	RNG = IR_RNG, FAULT = IR_FAULT
};
enum { MATH_NONE = 0, MATH_I = 1 << RT_I, MATH_FD = 1 << RT_F | 1 << RT_D, MATH_IFD = MATH_I | MATH_FD };

/* class in ops.def, its enum, operands (255: any number) */
#define CLASSES(X)                                                                                                  \
	X(UNARY, IR_UNARY, 1) X(BINARY, IR_BINARY, 2) X(TERNARY, IR_TERNARY, 3) X(CAST, IR_CAST, 1) X(SHAPE, IR_SHAPE, 1) \
	X(AXES, IR_AXES, 1) X(AXIS, IR_AXIS, 1) X(AXIS2, IR_AXIS2, 1) X(SLICE, IR_SLICE, 1) X(LIST, IR_LIST, 255)        \
	X(REDUCE, IR_REDUCE_, 1) X(ARG, IR_ARG, 1) X(VAR, IR_VAR, 1) X(INDEX, IR_INDEX, 2) X(SCATTER, IR_SCATTER, 3)     \
	X(COUNT, IR_COUNT, 1) X(FULL, IR_FULL, 1) X(ARANGE, IR_ARANGE, 0) X(EYE, IR_EYE, 0) X(RANDOM, IR_RANDOM, 2)      \
	X(NORM3, IR_NORM3, 4) X(NORM2, IR_NORM2, 3) X(LEAF, IR_LEAF, 0) X(FLOW, IR_FLOW, 255) X(GET, IR_GET, 1)
enum {
#define X(name, value, nsrc) CLASS_##name = value, NSRC_##name = nsrc,
	CLASSES(X)
#undef X
};

const ir_opinfo ir_ops[IR_OP_COUNT] = {
#define OP(name, cls, flags, math, type, shape, doc) \
	[IR_##name] = { #name, doc, CLASS_##cls, NSRC_##cls, flags, MATH_##math, IR_TYPE_##type, IR_SHAPE_##shape },
#include "ir/ops.def"
	OP(input, LEAF, 0, NONE, LEAF, LEAF, "a value from outside, by slot")
	OP(num, LEAF, 0, NONE, LEAF, LEAF, "a number bound at run time, by slot")
	OP(const, LEAF, 0, NONE, LEAF, LEAF, "one value, in any shape")
	OP(data, LEAF, 0, NONE, LEAF, LEAF, "constant data, row-major")
	OP(cond, FLOW, FAULT, NONE, LEAF, LEAF, "one of two regions, by a bool")
	OP(while, FLOW, FAULT, NONE, LEAF, LEAF, "a region as long as another one gives true")
	OP(scan, FLOW, FAULT, NONE, LEAF, LEAF, "a region for each slice along axis 0")
	OP(get, GET, 0, NONE, LEAF, LEAF, "a result of control flow")
#undef OP
};
