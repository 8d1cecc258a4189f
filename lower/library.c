/* SPDX-License-Identifier: MIT */
/* library: the routines of a target, by op. Rows: products.c, scatter.c, cumulate.c, sort.c, search.c, gpuproducts.c; scatter.c,
 * cumulate.c, sort.c and search.c of codegen_cuda/. */
#include "lower/library.h"
#include "runtime/settings.h"

const lo_routine *lo_routine_of(const lo_target *t, ir_op op)
{
	for (const lo_routine *const *x = t ? t->library : NULL; x && *x; x++)
		if ((*x)->op == op) return *x;
	return NULL;
}

const char *lo_lacks(const lo_target *t, ir_op op, tj_dtype dtype)
{
	const lo_routine *x = lo_routine_of(t, op);
	return x && x->lacks ? x->lacks(dtype) : NULL;
}

const char *lo_rather(const lo_target *t, const ir_graph *g, const ir_node *n, uint32_t settings)
{
	const lo_routine *x = lo_routine_of(t, (ir_op)n->op);
	if (!x) return "there is no routine for it";
	if (x->when && !(settings & x->when)) return "the default";
	const char *kernels = x->kernels ? x->kernels(g, n, settings) : NULL;
	return kernels ? kernels : lo_lacks(t, (ir_op)n->op, (tj_dtype)n->dtype);
}

bool lo_takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	const lo_routine *x = L->val[r].how == LO_LIB ? lo_routine_of(lo_target_of(L, r), (ir_op)lo_node(L, r)->op) : NULL;
	return !x || !x->takes || x->takes(L, ir_src(L->g, lo_node(L, r), k), k, a);
}

static bool is_bounded(const lo_target *t, ir_op op, tj_dtype dtype, uint32_t settings)
{
	const lo_routine *x = lo_routine_of(t, op);
	if (!x || (x->when && !(settings & x->when)) || (x->kernels && settings & RT_PRODUCTS_OWN)) return false;
	return !lo_lacks(t, op, dtype) && x->bounded >> rt_dtype_class(dtype) & 1;
}

bool lo_bounded(ir_op op, tj_dtype t, int device, uint32_t settings)
{
	if (lo_becomes_product(op)) op = IR_matmul;
	return is_bounded(&lo_cpu, op, t, settings) || (device != RT_CPU && is_bounded(rt_device_at(device)->target, op, t, settings));
}
