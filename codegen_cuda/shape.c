/* shape: how many threads share a unit of a kernel, and what each of them takes. */
#include "codegen_cuda/cu.h"
#include "ir/tree.h"

int64_t cu_chunk_of(const lo_kernel *k, const lo_ins *in)
{
	const tj_dtype t = (tj_dtype)k->ins.v[in->src[0]].dtype;
	if (!rt_is_float(t) || in->imm >= LO_RED_ARGMAX) return 0;
	switch ((lo_tree)in->tree) {
	case LO_TREE_ROW: return ir_tree_lanes(t) * IR_TREE_ROWS;
	case LO_TREE_PARTS: return ir_tree_lanes(t);
	case LO_TREE_COLUMN: return IR_TREE_COLUMN_ROWS;
	case LO_TREE_NONE: break;
	}
	return 0;
}

/* A warp reads as many elements at a time as the narrowest tree of the kernel has lanes. */
static void rows(const lo_kernel *k, cu_shape *x)
{
	int64_t lanes = IR_TREE_LANES(sizeof(float)), chunk = 0;
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_REDUCE && in->op != LO_PART) continue;
		const int64_t each = cu_chunk_of(k, in), n = ir_tree_lanes((tj_dtype)k->ins.v[in->src[0]].dtype);
		if (each && n < lanes) lanes = n;
		if (each > chunk) chunk = each;
	}
	x->step = lanes;
	x->elems = (int)(lanes / CU_WARP);
	x->chunk = chunk ? chunk : lanes * IR_TREE_ROWS;
}

cu_shape cu_shape_of(const lo_kernel *k, const lo_schedule *s)
{
	cu_shape x = { .rows = s->vec == LO_VEC_R && k->reduces, .threads = CU_THREADS };
	if (!x.rows) {
		x.elems = cu_elems(k);
		x.units = x.threads;
		return x;
	}
	rows(k, &x);
	const int64_t red = s->part ? s->part : k->red;
	x.warps = lo_is_sym(red) ? 8 : 1;
	if (!lo_is_sym(red))
		while (x.warps < CU_MOST_WARPS && x.warps * x.chunk < red) x.warps *= 2;
	if (x.warps > 1) x.threads = x.warps * CU_WARP;
	x.units = x.threads / (x.warps * CU_WARP);
	x.own = x.warps > 1 ? (size_t)x.warps * IR_TREE_BYTES : 0;
	return x;
}
