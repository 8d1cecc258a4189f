/* SPDX-License-Identifier: MIT */
/* The entry points of the ops: one for each row of ir/ops.def, by its class. Attributes are passed on as the user gave them. */
#include "jit/claim.h"
#include "jit/effect.h"
#include "jit/event.h"
#include "jit/handle.h"

/* Appends sizes or axes to `n` leading integers; returns how many there are in all, or -1 when there are too many. */
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
	if (!c) return jit_no_context(site, ir_ops[op].name);
	return jit_error(c, site, TJ_ERR_LIMIT, ir_ops[op].name, "end a list that is built by hand with TJ_END_DIM",
	                 "a list has more than %d sizes or axes", TJ_MAX_RANK);
}

/* The addresses for the results behind the first one. */
typedef struct others { int n; tj_tensor **const *to; } others;

/* After an error every result is poison. */
static tj_tensor *for_all(tj_tensor *poison, others o)
{
	for (int i = 0; i < o.n; i++)
		if (o.to[i]) *o.to[i] = poison;
	return poison;
}

/* tj_to() of an operand that is on the device already, be it a value, a cell or a number: the operand itself. Errors are the event's. */
static inline bool is_there(int op, tj_tensor *const *src, const int64_t *attr)
{
	if (op != IR_to || tj_is_poison(src[0]) || tj_device_of(src[0]) != (tj_device)attr[0]) return false;
	return jit_thread_ctx && !jit_thread_ctx->busy;
}

/* Where the mode of tj_pad() does not use the value, it may be NULL. */
static tj_tensor *pad(const char *site, tj_tensor *x, int nattr, const int64_t *attr)
{
	return jit_event(site, IR_pad, 2, (tj_tensor *[]){ x, rt_number_i(0) }, nattr, attr);
}

static inline tj_tensor *event(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *attr, others o)
{
	if (is_there(op, src, attr)) return src[0];
	if (op == IR_pad && !src[1] && attr[0] != TJ_PAD_CONSTANT) return pad(site, src[0], nattr, attr);
	tj_tensor *power = op == IR_pow ? jit_power(site, src[0], src[1]) : NULL;
	if (power) return power;
	return o.n ? jit_events(site, op, nsrc, src, nattr, attr, o.n, o.to) : jit_event(site, op, nsrc, src, nattr, attr);
}

static tj_tensor *with_dims(const char *site, int op, int nsrc, tj_tensor *const *src, int nattr, const int64_t *head, tj_dims dims,
                            others o)
{
	int64_t attr[TJ_MAX_RANK + 4];
	if (nattr) memcpy(attr, head, (size_t)nattr * sizeof *head);
	int n = append(attr, nattr, dims);
	return n < 0 ? for_all(too_long(site, op), o) : event(site, op, nsrc, src, n, attr, o);
}

static tj_tensor *no_dims(const char *site, int op)
{
	JIT_CURRENT(c, site);
	if (!c) return jit_no_context(site, ir_ops[op].name);
	return jit_error(c, site, TJ_ERR_ARG, ir_ops[op].name, "TJ_SHAPE(2, 3), or TJ_0D", "the shape is NULL");
}

static tj_tensor *with_list(const char *site, int op, tj_list list, int axis, others o)
{
	JIT_CURRENT(c, site);
	int64_t attr = axis;
	int n = 0;
	if (!c) return for_all(jit_no_context(site, ir_ops[op].name), o);
	while (list && list[n] != TJ_END && n < UINT16_MAX) n++;
	if (n == 0 || n == UINT16_MAX)
		return for_all(
			jit_error(c, site, TJ_ERR_ARG, ir_ops[op].name, "TJ_LIST(a, b)", n ? "the list has no end" : "the list is empty"),
			o);
	return event(site, op, n, list, 1, &attr, o);
}

/* ---- from the parameters of ir/classes.def to an event ---- */
#define DECL(type, name, role, k) , type name
#define PASS(type, name, role, k) , name
#define PUT(type, name, role, k) PUT_##role(name, k)
#define PUT_OPERAND(name, k)  src_[k] = name;
#define PUT_FITTED(name, k)   src_[k] = jit_fitting(site, dtype, name);
#define PUT_NUMBER(name, k)   src_[k] = rt_number_f(name);
#define PUT_OPERANDS(name, k) list_ = name;
#define PUT_ATTR(name, k)     attr_[k] = name;
#define PUT_DTYPE(name, k)    attr_[k] = name;
#define PUT_DEVICE(name, k)   attr_[k] = name;
#define PUT_AXES(name, k)     dims_ = name;
#define PUT_SIZES(name, k)    dims_ = name;
#define COUNT(type, name, role, k) + ROLE_##role
/* The kind of a parameter as a hexadecimal digit, so that the sum over all parameters counts each kind. */
enum {
	ROLE_OPERAND = 1,
	ROLE_FITTED = 1,
	ROLE_NUMBER = 1,
	ROLE_ATTR = 0x10,
	ROLE_DTYPE = 0x10,
	ROLE_DEVICE = 0x10,
	ROLE_OPERANDS = 0x100,
	ROLE_AXES = 0x200,
	ROLE_SIZES = 0x400
};

/* Inlined, since most entry points know everything but the operands at compile time. */
static inline __attribute__((always_inline)) tj_tensor *enter(const char *site, int op, int roles, tj_tensor *const *src,
                                                              const int64_t *attr, tj_dims dims, tj_list list, others o)
{
	int nsrc = roles & 0xF, nattr = roles >> 4 & 0xF;
	if (!nsrc) src = NULL;
	if (!nattr) attr = NULL;
	if (roles & ROLE_OPERANDS && roles & ROLE_SIZES) return jit_host_call(site, attr, dims, list);
	if (roles & ROLE_OPERANDS) return with_list(site, op, list, (int)attr[0], o);
	if (roles & ROLE_SIZES && !dims) return for_all(no_dims(site, op), o);
	if (roles & (ROLE_AXES | ROLE_SIZES)) return with_dims(site, op, nsrc, src, nattr, attr, dims, o);
	return event(site, op, nsrc, src, nattr, attr, o);
}

/* Results behind the first one. */
#define NOTHING(name, i, type, shape)
#define DECL_RESULT(name, i, type, shape) , tj_tensor **name
#define PASS_RESULT(name, i, type, shape) , name
#define PUT_RESULT(name, i, type, shape) name,
#define ONE(FIRST, NEXT)
#define BEHIND(first, ...) __VA_ARGS__
#define WITHOUT_COMMA(...) BEHIND(__VA_ARGS__)
#define ENTRY(op, results, class, nsrc, ...)                                                           \
	tj_tensor *tj_##op##_at(const char *site IR_EACH(DECL, __VA_ARGS__) results(NOTHING, DECL_RESULT))  \
	{                                                                                                  \
		enum { roles_ = 0 IR_EACH(COUNT, __VA_ARGS__) };                                              \
		tj_tensor *src_[(roles_ & 0xF) + 1];                                                          \
		int64_t attr_[(roles_ >> 4 & 0xF) + 1];                                                       \
		tj_dims dims_ = NULL;                                                                         \
		tj_list list_ = NULL;                                                                         \
		IR_EACH(PUT, __VA_ARGS__)                                                                     \
		tj_tensor **const to_[] = { results(NOTHING, PUT_RESULT) NULL };                              \
		return enter(site, IR_##op, roles_, src_, attr_, dims_, list_, (others){ RT_COUNT(to_) - 1, RT_COUNT(to_) > 1 ? to_ : NULL }); \
	}                                                                                                  \
	tj_tensor *(tj_##op)(WITHOUT_COMMA(0 IR_EACH(DECL, __VA_ARGS__) results(NOTHING, DECL_RESULT)))    \
	{                                                                                                  \
		return tj_##op##_at(NULL IR_EACH(PASS, __VA_ARGS__) results(NOTHING, PASS_RESULT));           \
	}

#define BOTH(name, results) name, results
#define OP(name, class, ...) IR_CLASS_##class(ENTRY, BOTH(name, ONE))
#define OPS(name, class, flags, math, results, ...) IR_CLASS_##class(ENTRY, BOTH(name, results))
#include "ir/ops.def"
#undef OP

const int64_t tj_no_dims[1] = { TJ_END_DIM };
tj_tensor *const tj_no_tensors[1] = { TJ_END };
