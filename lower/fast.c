/* SPDX-License-Identifier: MIT */
/* fast: cheaper instructions for nodes of mode fast (TJ_FAST), with other results than the evaluator's. A kernel may hold nodes of both
 * modes.
 *
 *   a * b + c, a * b - c, c - a * b      one rounding instead of two
 *   minimum, maximum, clamp              NaN is not looked for
 *   matrix products of bf16              two at a time, where the machine can
 *   convolutions of 3 x 3                by tiles, if that pays (ir/winograd.c)
 *
 * Product and sum must both be fast: a strict product is always rounded. So a value that depends on no fast node has the evaluator's
 * bits. Only sums that the user wrote are changed: sums inside exp and other functions rely on each rounding. */
#include "lower/kbuild.h"

static uint32_t prim2(lo_kernel *k, lo_op op, tj_dtype t, uint32_t a, uint32_t b)
{
	return lo_append(k, (lo_ins){ .op = (uint8_t)op, .dtype = (uint8_t)t, .nsrc = 2, .src = { a, b } });
}

static uint32_t negated(lo_kernel *k, tj_dtype t, uint32_t a)
{
	return lo_append(k, (lo_ins){ .op = LO_NEG, .dtype = (uint8_t)t, .nsrc = 1, .src = { a } });
}

static uint32_t fma_of(lo_kernel *k, tj_dtype t, uint32_t a, uint32_t b, uint32_t c)
{
	return lo_append(k, (lo_ins){ .op = LO_FMA, .dtype = (uint8_t)t, .nsrc = 3, .src = { a, b, c } });
}

static bool is_fast(const lo_low *L, ir_ref r)
{
	while (ir_ops[lo_node(L, r)->op].flags & IR_VIEW) r = ir_src(L->g, lo_node(L, r), 0);
	return lo_node(L, r)->mode & IR_FAST;
}

/* The operand, computed by instruction i, is a fast product of the section that is being filled (there is none when memory ran out); *a,
 * *b: its factors. */
static bool product(const lo_low *L, const lo_kernel *k, const ir_node *n, int operand, uint32_t i, uint32_t *a, uint32_t *b)
{
	const lo_ins *x = &k->ins.v[i];
	if (!k->section.n || !is_fast(L, ir_src(L->g, n, operand)) || x->op != LO_MUL || i < k->section.v[k->section.n - 1].first) return false;
	*a = x->src[0];
	*b = x->src[1];
	return true;
}

static uint32_t contracted(const lo_low *L, lo_kernel *k, const ir_node *n, tj_dtype t, const uint32_t *src)
{
	uint32_t a, b;
	bool sub = n->op == IR_sub;
	if (product(L, k, n, 0, src[0], &a, &b)) return fma_of(k, t, a, b, sub ? negated(k, t, src[1]) : src[1]);
	if (product(L, k, n, 1, src[1], &a, &b)) return fma_of(k, t, sub ? negated(k, t, a) : a, b, src[0]);
	return LO_NOREF;
}

/* a or bound, whichever the comparison selects; for NaN either of them. */
static uint32_t beyond(lo_kernel *k, lo_op is, tj_dtype t, uint32_t a, uint32_t bound)
{
	uint32_t hit = prim2(k, is, TJ_BOOL, bound, a);
	return lo_append(k, (lo_ins){ .op = LO_SELECT, .dtype = (uint8_t)t, .nsrc = 3, .src = { hit, bound, a } });
}

uint32_t lo_fast_point(const lo_low *L, lo_kernel *k, const ir_node *n, tj_dtype t, const uint32_t *src)
{
	if (!rt_is_float(t) || rt_is_narrow(t) || n->dtype != t) return LO_NOREF;
	switch (n->op) {
	case IR_add: case IR_sub: return contracted(L, k, n, t, src);
	case IR_maximum: return beyond(k, LO_GT, t, src[0], src[1]);
	case IR_minimum: return beyond(k, LO_LT, t, src[0], src[1]);
	case IR_clamp: return beyond(k, LO_LT, t, beyond(k, LO_GT, t, src[0], src[1]), src[2]);
	default: return LO_NOREF;
	}
}
