/* onhost: a product of a GPU, computed by the CPU. The operands are copied to the host, and the result back: where cuBLASLt is missing or
 * has no algorithm. */
#include "runtime/bytes.h"
#include "runtime/cublas.h"

/* Copies an operand, row-major with all batches, to the host. NULL: err is set. */
static void *bring(const rt_blas_desc *d, const void *from, int64_t rows, int64_t cols, int64_t row, int64_t col, const int64_t *step, rt_run *r)
{
	int64_t dim[TJ_MAX_RANK + 2], stride[TJ_MAX_RANK + 2], n = rows * cols;
	for (int i = 0; i < d->nbatch; i++) {
		n *= dim[i] = d->batch[i];
		stride[i] = step[i];
	}
	dim[d->nbatch] = rows;
	dim[d->nbatch + 1] = cols;
	stride[d->nbatch] = row;
	stride[d->nbatch + 1] = col;
	const rt_elements e = { d->device, d->nbatch + 2, tj_dtype_size(d->dtype), dim, stride, from };
	void *to = rt_alloc((size_t)n * e.size + RT_LINE);
	if (!to) rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory for an operand on the host");
	else if (rt_bytes_copy(r->pool, &e, RT_CPU, to, r->err) == TJ_OK) return to;
	rt_free(to);
	return NULL;
}

/* Row-major operands with all batches. */
static tj_status multiply(const rt_blas_desc *d, int64_t batch, const void *a, const void *b, void *c, rt_run *r)
{
	int64_t *const at = rt_alloc(sizeof *at * 3 * (size_t)batch);
	if (!at) return rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory");
	for (int64_t i = 0; i < batch; i++) {
		at[i] = i * d->m * d->k;
		at[batch + i] = i * d->k * d->n;
		at[2 * batch + i] = i * d->m * d->n;
	}
	rt_matmul *x = rt_matmul_new(&(rt_matmul_desc){ .dtype = d->dtype, .m = d->m, .n = d->n, .k = d->k, .batch = batch, .a_row = d->k, .a_col = 1, .b_row = d->n, .b_col = 1,
	                                                .c_row = d->n, .a_batch = at, .b_batch = at + batch, .c_batch = at + 2 * batch }, r->err);
	tj_status st = x ? rt_matmul_run(x, a, b, c, r) : r->err->code;
	if (x) rt_matmul_free(x);
	rt_free(at);
	return st;
}

tj_status rt_blas_on_host(const rt_blas_desc *d, const void *a, const void *b, void *c, rt_run *r)
{
	int64_t batch = 1;
	for (int i = 0; i < d->nbatch; i++) batch *= d->batch[i];
	const size_t bytes = (size_t)(batch * d->m * d->n) * tj_dtype_size(d->dtype);
	void *x = bring(d, a, d->m, d->k, d->a_row, d->a_col, d->a_step, r), *y = x ? bring(d, b, d->k, d->n, d->b_row, d->b_col, d->b_step, r) : NULL;
	void *z = y ? rt_alloc(bytes + RT_LINE) : NULL;
	if (y && !z) rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory for the result on the host");
	tj_status st = z ? multiply(d, batch, x, y, z, r) : r->err->code;
	if (st == TJ_OK) st = rt_bytes_write(r->pool, d->device, c, z, bytes, r->err);
	rt_free(x);
	rt_free(y);
	rt_free(z);
	return st;
}
