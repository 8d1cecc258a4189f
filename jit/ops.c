/* The entry points of the ops: one for each row of ir/ops.def, by its class. Attributes go on as the user gave them. */
#include "jit/jit.h"

/* Sizes or axes behind `n` leading integers; how many in all, or -1 when there are too many. */
static int append(int64_t *attr, int n, tj_dims list)
{
	for (int i = 0; list && list[i] != TJ_END_DIM; i++) {
		if (i == TJ_MAX_RANK) return -1;
		attr[n++] = list[i];
	}
	return n;
}

static tj_tensor *too_long(const char *site, int op)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context();
	return jit_error(c, site, TJ_ERR_LIMIT, ir_ops[op].name, "end a list that is built by hand with TJ_END_DIM", "a list has more than %d sizes or axes",
	                 TJ_MAX_RANK);
}

static tj_tensor *with_dims(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *head, tj_dims dims)
{
	int64_t attr[TJ_MAX_RANK + 4];
	if (nattr) memcpy(attr, head, (size_t)nattr * sizeof *head);
	int n = append(attr, nattr, dims);
	return n < 0 ? too_long(site, op) : jit_event(site, op, nsrc, src, n, attr);
}

static tj_tensor *no_dims(const char *site, int op)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context();
	return jit_error(c, site, TJ_ERR_ARG, ir_ops[op].name, "TJ_SHAPE(2, 3), or TJ_0D", "the shape is NULL");
}

static tj_tensor *with_list(const char *site, int op, tj_list list, int axis)
{
	JIT_CURRENT(c, site);
	int64_t attr = axis;
	int n = 0;
	if (!c) return jit_no_context();
	while (list && list[n] != TJ_END && n < UINT16_MAX) n++;
	if (n == 0 || n == UINT16_MAX) return jit_error(c, site, TJ_ERR_ARG, ir_ops[op].name, "TJ_LIST(a, b)", n ? "the list has no end" : "the list is empty");
	return jit_event(site, op, n, list, 1, &attr);
}

/* Parameters and arguments of each class; then what it asks for. */
#define SRC(...) ((tj_tensor *const[]){ __VA_ARGS__ })
#define INTS(...) ((const int64_t[]){ __VA_ARGS__ })
#define NINTS(...) ((int)(sizeof(INTS(__VA_ARGS__)) / sizeof(int64_t)))

#define ENTRY(name, params, args, ...)                                                   \
	tj_tensor *tj_##name##_at(const char *site, ENTRY_P params) { return __VA_ARGS__; } \
	tj_tensor *(tj_##name)(ENTRY_P params) { return tj_##name##_at(NULL, ENTRY_P args); }
#define ENTRY_P(...) __VA_ARGS__
#define EV(name, nsrc, src, ...) jit_event(site, IR_##name, nsrc, src, NINTS(__VA_ARGS__), INTS(__VA_ARGS__))

#define E_UNARY(n) ENTRY(n, (tj_tensor *x), (x), jit_event(site, IR_##n, 1, SRC(x), 0, NULL))
#define E_BINARY(n) ENTRY(n, (tj_tensor *a, tj_tensor *b), (a, b), jit_event(site, IR_##n, 2, SRC(a, b), 0, NULL))
#define E_TERNARY(n) ENTRY(n, (tj_tensor *a, tj_tensor *b, tj_tensor *c), (a, b, c), jit_event(site, IR_##n, 3, SRC(a, b, c), 0, NULL))
#define E_CAST(n) ENTRY(n, (tj_tensor *x, tj_dtype dtype), (x, dtype), EV(n, 1, SRC(x), dtype))
#define E_SHAPE(n) ENTRY(n, (tj_tensor *x, tj_dims shape), (x, shape), shape ? with_dims(site, IR_##n, 1, SRC(x), 0, NULL, shape) : no_dims(site, IR_##n))
#define E_AXES(n) ENTRY(n, (tj_tensor *x, tj_dims axes), (x, axes), with_dims(site, IR_##n, 1, SRC(x), 0, NULL, axes))
#define E_AXIS(n) ENTRY(n, (tj_tensor *x, int axis), (x, axis), EV(n, 1, SRC(x), axis))
#define E_AXIS2(n) ENTRY(n, (tj_tensor *x, int a, int b), (x, a, b), EV(n, 1, SRC(x), a, b))
#define E_SLICE(n) \
	ENTRY(n, (tj_tensor *x, int axis, int64_t start, int64_t stop, int64_t step), (x, axis, start, stop, step), EV(n, 1, SRC(x), axis, start, stop, step))
#define E_LIST(n) ENTRY(n, (tj_list list, int axis), (list, axis), with_list(site, IR_##n, list, axis))
#define E_REDUCE(n) ENTRY(n, (tj_tensor *x, tj_dims axes, bool keepdim), (x, axes, keepdim), with_dims(site, IR_##n, 1, SRC(x), 1, INTS(keepdim), axes))
#define E_ARG(n) ENTRY(n, (tj_tensor *x, int64_t axis, bool keepdim), (x, axis, keepdim), EV(n, 1, SRC(x), keepdim, axis))
#define E_VAR(n)                                                                                          \
	ENTRY(n, (tj_tensor *x, tj_dims axes, int correction, bool keepdim), (x, axes, correction, keepdim), \
	      with_dims(site, IR_##n, 1, SRC(x), 2, INTS(keepdim, correction), axes))
#define E_INDEX(n) ENTRY(n, (tj_tensor *x, int axis, tj_tensor *index), (x, axis, index), EV(n, 2, SRC(x, index), axis))
#define E_SCATTER(n) ENTRY(n, (tj_tensor *x, int axis, tj_tensor *index, tj_tensor *src), (x, axis, index, src), EV(n, 3, SRC(x, index, src), axis))
#define E_COUNT(n) ENTRY(n, (tj_tensor *index, int64_t count), (index, count), EV(n, 1, SRC(index), count))
#define E_FULL(n)                                                                          \
	ENTRY(n, (tj_dtype dtype, tj_dims shape, tj_tensor *value), (dtype, shape, value), \
	      shape ? with_dims(site, IR_##n, 1, SRC(jit_fitting(site, dtype, value)), 1, INTS(dtype), shape) : no_dims(site, IR_##n))
#define E_ARANGE(n) \
	ENTRY(n, (tj_dtype dtype, int64_t start, int64_t stop, int64_t step), (dtype, start, stop, step), EV(n, 0, NULL, dtype, start, stop, step))
#define E_EYE(n) ENTRY(n, (tj_dtype dtype, int64_t rows, int64_t cols), (dtype, rows, cols), EV(n, 0, NULL, dtype, rows, cols))
#define E_RANDOM(n) ENTRY(n, (tj_dtype dtype, tj_dims shape), (dtype, shape), shape ? with_dims(site, IR_##n, 0, NULL, 1, INTS(dtype), shape) : no_dims(site, IR_##n))
#define E_NORM3(n)                                                                                                   \
	ENTRY(n, (tj_tensor *x, tj_tensor *weight, tj_tensor *bias, double eps), (x, weight, bias, eps), \
	      jit_event(site, IR_##n, 4, SRC(x, weight, bias, rt_number_f(eps)), 0, NULL))
#define E_NORM2(n)                                                                      \
	ENTRY(n, (tj_tensor *x, tj_tensor *weight, double eps), (x, weight, eps), \
	      jit_event(site, IR_##n, 3, SRC(x, weight, rt_number_f(eps)), 0, NULL))

#define OP(name, class, ...) E_##class(name)
#include "ir/ops.def"
#undef OP

const int64_t tj_no_dims[1] = { TJ_END_DIM };
tj_tensor *const tj_no_tensors[1] = { TJ_END };
