/* library: the routines of a target, by op. Rows: products.c, scatter.c. */
#include "lower/library.h"

const lo_routine *lo_routine_of(const lo_target *t, ir_op op)
{
	for (const lo_routine *const *x = t ? t->library : NULL; x && *x; x++)
		if ((*x)->op == op) return *x;
	return NULL;
}

bool lo_takes(const lo_low *L, ir_ref r, int k, const lo_access *a)
{
	const lo_routine *x = L->val[r].how == LO_LIB ? lo_routine_of(lo_target_of(L, r), (ir_op)lo_node(L, r)->op) : NULL;
	return !x || !x->takes || x->takes(L, ir_src(L->g, lo_node(L, r), k), k, a);
}

bool lo_bounded(ir_op op, tj_dtype t)
{
	bool is = false;
	for (int d = RT_CPU; d < RT_DEVICES && !is; d++) {
		const rt_device *device = rt_device_at(d);
		const lo_routine *x = lo_routine_of(device ? device->target : d == RT_CPU ? &lo_cpu : NULL, op);
		is = x && x->bounded >> rt_dtype_class(t) & 1;
	}
	return is;
}
