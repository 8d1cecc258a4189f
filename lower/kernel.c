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
}

int64_t lo_units(const lo_kernel *k)
{
	int64_t units = 1;
	for (int i = 0; i < k->ndim - 1; i++) units *= k->dim[i];
	int64_t last = k->dim[k->ndim - 1];
	if (k->vec_r) return units * last;
	return last && k->block > 0 ? units * ((last - 1) / k->block + 1) : 0;
}
