/* kernel: the kernel IR's own small change. */
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

/* Units of the last dimension. */
static int64_t blocks(const lo_kernel *k)
{
	int64_t last = lo_size(k, k->dim[k->ndim - 1]), block = lo_size(k, k->block);
	if (k->vec_r) return last;
	return last && block > 0 ? (last - 1) / block + 1 : 0;
}

int64_t lo_units(const lo_kernel *k)
{
	int64_t units = blocks(k);
	for (int i = 0; i < k->ndim - 1; i++) units *= lo_size(k, k->dim[i]);
	return k->vec_r ? units * lo_parts(k) : units;
}

/* Where lanes step from row to row of a buffer, units that follow along its rows read the same cache lines. */
int64_t lo_grain(const lo_kernel *k)
{
	int64_t grain = 1, last = k->ndim - 1;
	for (uint32_t i = 0; !k->vec_r && i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		if (in->op != LO_LOAD || in->dyn != LO_NOREF) continue;
		const int64_t *coef = k->index.v[in->index].coef;
		if (coef[last] == 0 || coef[last] == 1) continue;
		int64_t units = blocks(k);
		for (int64_t d = last - 1; d >= 0; units *= lo_size(k, k->dim[d--]))
			if (coef[d] == 1 && grain < LO_TILE_ROWS * units) grain = LO_TILE_ROWS * units;
	}
	return grain;
}

int64_t lo_parts(const lo_kernel *k)
{
	int64_t red = lo_size(k, k->red);
	return k->part && red ? (red - 1) / k->part + 1 : 1;
}

int64_t lo_part_lanes(const lo_ins *in)
{
	bool ordered = rt_is_float((tj_dtype)in->dtype) && in->tree != LO_TREE_NONE;
	return ordered ? 512 / (int64_t)tj_dtype_size((tj_dtype)in->dtype) : 1;
}
