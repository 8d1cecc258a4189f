/* SPDX-License-Identifier: MIT */
/* unroll: a last dimension of a few elements becomes instructions, and lanes go along the dimension before it.
 *
 *   dim 1000000, dim 2                            dim 1000000
 *   %0 = load [d0]                      =>        %0 = load [d0]
 *   store [2*d0 + d1] %0                          store [0 + 2*d0] %0; store [1 + 2*d0] %0
 *
 * Otherwise a vector has no more lanes than a row has elements. Only if the stores are whole structures (codegen_llvm/structs.c), and the
 * loads' elements are near each other. Each picture element twice, to 1,024 x 1,024 floats: 361 to 99 us (Zen 3, two threads). */
#include "lower/low.h"

enum { NEAR = 4, LONG = 16, MOST_INS = 96 }; /* NEAR: elements between lanes. LONG: rows */

/* Its elements are few or near, so that vectors along the dimension before the last one can be loaded and stored. */
static bool is_near(const lo_kernel *k, const lo_ins *in)
{
	const int last = k->ndim - 1;
	const int64_t *coef = k->index.v[in->index].coef, step = coef[last - 1];
	if (in->dyn != LO_NOREF) return false;
	return in->op == LO_STORE ? coef[last] == 1 && step == k->dim[last] : step >= -NEAR && step <= NEAR;
}

static bool can_unroll(const lo_kernel *k, int64_t most)
{
	const int last = k->ndim - 1;
	if (k->reduces || k->section.n != 1 || k->section.v[0].loop || last < 1) return false;
	const int64_t n = k->dim[last];
	if (n < 2 || n > most || k->dim[last - 1] < LONG || n * k->ins.n > MOST_INS) return false;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op == LO_FAULT || in->op == LO_REDUCE || in->op == LO_PART) return false;
		if ((in->op == LO_LOAD || in->op == LO_STORE) && !is_near(k, in)) return false;
	}
	return true;
}

/* It differs between the elements of a row. was: by instruction, that of its operands */
static bool differs(const lo_kernel *k, uint32_t i, const bool *was)
{
	const lo_ins *in = &k->ins.v[i];
	bool any = in->op == LO_STORE || (in->op == LO_INDEX && in->imm == k->ndim - 1);
	any |= in->op == LO_LOAD && k->index.v[in->index].coef[k->ndim - 1] != 0;
	for (int s = 0; s < in->nsrc; s++) any |= was[in->src[s]];
	return any;
}

/* Instruction i for element e of the row; to: by instruction, what it has become. */
static bool put(lo_kernel *k, lo_ins in, const lo_index *index, int64_t e, const uint32_t *to, uint32_t *at)
{
	const int last = k->ndim - 1;
	for (int s = 0; s < in.nsrc; s++) in.src[s] = to[in.src[s]];
	if (in.op == LO_INDEX && in.imm == last) in = (lo_ins){ .op = LO_CONST, .dtype = TJ_I64, .imm = e, .dyn = LO_NOREF };
	if (in.op == LO_LOAD || in.op == LO_STORE) {
		lo_index x = index[in.index];
		x.offset += e * x.coef[last];
		x.coef[last] = 0;
		in.index = k->index.n;
		if (!rt_push(&k->index, x)) return false;
	}
	*at = lo_append(k, in);
	return *at != LO_NOREF;
}

static bool unroll(lo_kernel *k, const lo_ins *was, const lo_index *index, bool *many, uint32_t *to)
{
	const int64_t row = k->dim[k->ndim - 1];
	const uint32_t n = k->ins.n;
	for (uint32_t i = 0; i < n; i++) many[i] = differs(k, i, many);
	k->ins.n = k->index.n = 0;
	for (int64_t e = 0; e < row; e++)
		for (uint32_t i = 0; i < n; i++)
			if ((!e || many[i]) && !put(k, was[i], index, e, to, &to[i])) return false;
	k->section.v[0].count = k->ins.n;
	k->ndim--;
	return true;
}

bool lo_unroll_row(lo_kernel *k, int64_t most)
{
	if (!can_unroll(k, most)) return true;
	const uint32_t n = k->ins.n;
	lo_index *index = rt_alloc((k->index.n + 1) * sizeof *index);
	lo_ins *was = rt_alloc((n + 1) * sizeof *was);
	bool *many = rt_calloc((n + 1) * sizeof *many);
	uint32_t *to = rt_calloc((n + 1) * sizeof *to);
	if (was) memcpy(was, k->ins.v, n * sizeof *was);
	if (index && k->index.n) memcpy(index, k->index.v, k->index.n * sizeof *index);
	const bool ok = was && index && many && to && unroll(k, was, index, many, to);
	rt_free(was);
	rt_free(index);
	rt_free(many);
	rt_free(to);
	return ok;
}
