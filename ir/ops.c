/* SPDX-License-Identifier: MIT */
/* ops: the table of ops, built from ops.def. After the ops come leaves, control flow and get. */
#include "ir/ir.h"
#include "ir/rules.h"
#include "ir/vjp.h"

/* The words in the columns of ops.def. */
enum {
	POINT = IR_POINT, VIEW = IR_VIEW, MATH = IR_MATH, REDUCE = IR_REDUCE, COMPOSITE = IR_COMPOSITE, LIB = IR_LIB,
	RNG = IR_RNG, FAULT = IR_FAULT, ACCUM = IR_ACCUM, LOW = IR_LOW, HIGH = IR_HIGH, WIDEST = IR_WIDEST,
	EFFECT = IR_EFFECT
};
enum { MATH_NONE = 0, MATH_I = 1 << RT_I, MATH_FD = 1 << RT_F | 1 << RT_D, MATH_IFD = MATH_I | MATH_FD };

/* Class and number of operands. Leaves, control flow and get have no row in classes.def; theirs are here. */
#define CLASS_OF(op, enumerator, nsrc, ...) enumerator, nsrc
#define NSRC_OF(op, enumerator, nsrc, ...) nsrc
#define IR_CLASS_LEAF(ROW, op) ROW(op, IR_LEAF, 0, )
#define IR_CLASS_FLOW(ROW, op) ROW(op, IR_FLOW, 255, )
#define IR_CLASS_GET(ROW, op)  ROW(op, IR_GET, 1, )

/* The lists of results, for ops with several. */
#define RESULT(name, i, type, shape) { #name, IR_TYPE_##type, IR_SHAPE_##shape },
#define OP(...)
#define OPS(name, cls, flags, math, results, grad, doc, example) \
	static const ir_resultinfo results_of_##name[] = { results(RESULT, RESULT) };                                  \
	_Static_assert(RT_COUNT(results_of_##name) <= IR_MOST_RESULTS, #name " has too many results");          \
	_Static_assert(IR_CLASS_##cls(NSRC_OF, ) <= IR_MOST_SOURCES, #name " has too many operands");         \
	_Static_assert(!((flags) & COMPOSITE), #name ": a composite has one result");                           \
	_Static_assert(!((flags) & (LOW | HIGH | WIDEST)), #name ": .autocast knows ops of one result");
#include "ir/ops.def"
#undef OP

const ir_opinfo ir_ops[IR_OP_COUNT] = {
#define INFO(name, cls, flags, math, type, shape, nresult, results, grad, doc) \
	[IR_##name] = { #name,   doc,    IR_CLASS_##cls(CLASS_OF, ), flags, MATH_##math, IR_TYPE_##type, IR_SHAPE_##shape, IR_GRAD_##grad, \
		        nresult, results },
#define OP(name, cls, flags, math, type, shape, grad, doc, example) INFO(name, cls, flags, math, type, shape, 1, NULL, grad, doc)
#define OPS(name, cls, flags, math, results, grad, doc, example) \
	INFO(name, cls, flags, math, LEAF, LEAF, RT_COUNT(results_of_##name), results_of_##name, grad, doc)
#include "ir/ops.def"
	INFO(input, LEAF, 0, NONE, LEAF, LEAF, 1, NULL, MADE, "a value from outside, by slot")
	INFO(num, LEAF, 0, NONE, LEAF, LEAF, 1, NULL, MADE, "a number bound at run time, by slot")
	INFO(const, LEAF, 0, NONE, LEAF, LEAF, 1, NULL, MADE, "one value, in any shape")
	INFO(data, LEAF, 0, NONE, LEAF, LEAF, 1, NULL, MADE, "constant data, row-major")
	INFO(mark, GET, 0, NONE, LEAF, LEAF, 1, NULL, CAST, "its operand, as a value of its own")
	INFO(cond, FLOW, FAULT, NONE, LEAF, LEAF, 0, NULL, REGIONS, "runs one of two regions, chosen by a bool")
	INFO(while, FLOW, FAULT, NONE, LEAF, LEAF, 0, NULL, REGIONS, "runs a region as long as another one gives true")
	INFO(scan, FLOW, FAULT, NONE, LEAF, LEAF, 0, NULL, REGIONS, "runs a region for each slice along axis 0")
	INFO(get, GET, 0, NONE, LEAF, LEAF, 1, NULL, PICKED, "one result of a node that has several")
#undef OP
};

/* Attributes by role. */
#define COUNT(type, name, role, k) COUNT_##role
#define COUNT_OPERAND
#define COUNT_FITTED
#define COUNT_NUMBER
#define COUNT_OPERANDS
#define COUNT_ATTR  + 1
#define COUNT_DTYPE + 1
#define COUNT_DEVICE + 1
#define COUNT_AXES
#define COUNT_SIZES
#define NUMBERS(type, name, role, k) NUMBERS_##role
#define NUMBERS_OPERAND
#define NUMBERS_FITTED
#define NUMBERS_NUMBER + 1
#define NUMBERS_OPERANDS
#define NUMBERS_ATTR
#define NUMBERS_DTYPE
#define NUMBERS_DEVICE
#define NUMBERS_AXES
#define NUMBERS_SIZES
#define IN_LIST(type, name, role, k) IN_LIST_##role
#define IN_LIST_OPERAND
#define IN_LIST_FITTED
#define IN_LIST_NUMBER
#define IN_LIST_OPERANDS
#define IN_LIST_ATTR
#define IN_LIST_DTYPE
#define IN_LIST_DEVICE
#define IN_LIST_AXES  + 1
#define IN_LIST_SIZES + 1
#define TEXT(type, name, role, k) TEXT_##role(name, k)
#define TEXT_OPERAND(name, k)
#define TEXT_FITTED(name, k)
#define TEXT_NUMBER(name, k)
#define TEXT_OPERANDS(name, k)
#define TEXT_ATTR(name, k)  [k] = { #name, 'i' },
#define TEXT_DTYPE(name, k) [k] = { #name, 'd' },
#define TEXT_DEVICE(name, k) [k] = { #name, '@' },
#define TEXT_AXES(name, k)  [k] = { #name, '*' },
#define TEXT_SIZES(name, k) [k] = { #name, '*' },

const ir_classinfo ir_classes[IR_GET + 1] = {
#define ROW(op, enumerator, nsrc, ...) \
	[enumerator] = { 0 IR_EACH(COUNT, __VA_ARGS__), \
		         0 IR_EACH(IN_LIST, __VA_ARGS__), \
		         0 IR_EACH(NUMBERS, __VA_ARGS__), \
		         { IR_EACH(TEXT, __VA_ARGS__)[IR_CLASS_ATTRS] = { NULL, 0 } } },
	IR_CLASSES(ROW)
#undef ROW
};
