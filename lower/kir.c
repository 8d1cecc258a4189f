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
}

uint32_t lo_append(lo_kernel *k, lo_ins i)
{
	if (i.op != LO_LOAD && i.op != LO_STORE) i.dyn = LO_NOREF;
	return rt_push(&k->ins, i) ? k->ins.n - 1 : LO_NOREF;
}

int64_t lo_part_lanes(const lo_ins *in)
{
	bool ordered = rt_is_float((tj_dtype)in->dtype) && in->tree != LO_TREE_NONE;
	return ordered ? ir_tree_lanes((tj_dtype)in->dtype) : 1;
}
