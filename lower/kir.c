/* SPDX-License-Identifier: MIT */
/* kir: small functions on the kernel IR. */
#include "ir/tree.h"
#include "lower/lower.h"

void lo_kernel_free(lo_kernel *k)
{
	rt_vec_free(&k->buf);
	rt_vec_free(&k->section);
	rt_vec_free(&k->ins);
	rt_vec_free(&k->index);
	rt_vec_free(&k->fault_site);
	rt_vec_free(&k->fault_code);
	rt_vec_free(&k->size);
	rt_vec_free(&k->site);
}

uint32_t lo_append(lo_kernel *k, lo_ins i)
{
	if (i.op != LO_LOAD && i.op != LO_STORE) i.dyn = LO_NOREF;
	return rt_push(&k->ins, i) ? k->ins.n - 1 : LO_NOREF;
}

int64_t lo_part_lanes(const lo_ins *in)
{
	bool lanes = rt_is_float((tj_dtype)in->dtype) && (in->tree == LO_TREE_ROW || in->tree == LO_TREE_PARTS);
	return lanes ? ir_tree_lanes((tj_dtype)in->dtype) : 1;
}

static int64_t float_bits(tj_dtype t, double v)
{
	float f = (float)v;
	int64_t bits;
	uint32_t low;
	memcpy(&bits, &v, sizeof bits);
	memcpy(&low, &f, sizeof low);
	return t == TJ_F32 ? (int64_t)low : bits;
}

int64_t lo_identity(lo_red red, tj_dtype t)
{
	bool f = rt_is_float(t);
	switch (red) {
	case LO_RED_ADD: return f ? float_bits(t, -0.0) : 0;
	case LO_RED_MUL: return f ? float_bits(t, 1.0) : 1;
	case LO_RED_MAX: case LO_RED_ARGMAX: case LO_RED_ATMAX: return f ? float_bits(t, -1.0 / 0.0) : rt_dtype_min(t);
	case LO_RED_MIN: case LO_RED_ARGMIN: case LO_RED_ATMIN: return f ? float_bits(t, 1.0 / 0.0) : rt_dtype_max(t);
	case LO_RED_AND: return t == TJ_BOOL ? 1 : -1;
	case LO_RED_OR: case LO_RED_DOT: return 0;
	}
	return 0;
}
