/* SPDX-License-Identifier: MIT */
/* onhost: a product of a GPU, computed by the CPU. The operands are copied to the host, and the result back: where cuBLASLt is missing or
 * has no algorithm. */
#include "runtime/bytes.h"
#include "runtime/chain.h"
#include "runtime/cublas.h"

enum { ROWS = 32 };      /* fewer rows at a time waste copies of the other operand */
#define FMA_NS 0.1

/* Copies an operand, row-major with all batches, to the host. NULL: err is set. */
static void *bring(const rt_blas_desc *d, const void *from, int64_t rows, int64_t cols, int64_t row, int64_t col, const int64_t *step,
                   rt_run *r)
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

/* All batches, row-major, one behind the other. */
typedef struct product { rt_chain x; const char *a, *b; char *c; } product;

/* Rows [begin, end) of all batches. */
static void multiply(void *env, int thread, int64_t begin, int64_t end)
{
	const product *p = env;
	const int64_t size = (int64_t)tj_dtype_size(p->x.dtype), m = p->x.m, n = p->x.n, k = p->x.k;
	rt_chain x = p->x;
	(void)thread;
	for (int64_t row = begin; row < end; row += x.m) {
		x.m = m - row % m < end - row ? m - row % m : end - row;
		rt_chain_run(&x, p->a + row * k * size, p->b + row / m * k * n * size, p->c + row * n * size);
	}
}

tj_status rt_blas_on_host(const rt_blas_desc *d, const void *a, const void *b, void *c, rt_run *r)
{
	int64_t batch = 1;
	for (int i = 0; i < d->nbatch; i++) batch *= d->batch[i];
	const size_t bytes = (size_t)(batch * d->m * d->n) * tj_dtype_size(d->dtype);
	void *x = bring(d, a, d->m, d->k, d->a_row, d->a_col, d->a_step, r),
	     *y = x ? bring(d, b, d->k, d->n, d->b_row, d->b_col, d->b_step, r) : NULL;
	void *z = y ? rt_alloc(bytes + RT_LINE) : NULL;
	if (y && !z) rt_fail(r->err, TJ_ERR_NOMEM, "matmul", "out of memory for the result on the host");
	tj_status st = z ? TJ_OK : r->err->code;
	product p = { { .dtype = d->dtype,
		        .m = d->m,
		        .n = d->n,
		        .k = d->k,
		        .a_row = d->k,
		        .a_col = 1,
		        .b_row = d->n,
		        .b_col = 1,
		        .c_row = d->n,
		        .c_col = 1 },
		      x,
		      y,
		      z };
	if (z) rt_team_run(r, batch * d->m, ROWS, (double)(batch * d->m * d->n * d->k) * FMA_NS, multiply, &p);
	if (st == TJ_OK) st = rt_bytes_write(r->pool, d->device, c, z, bytes, r->err);
	rt_free(x);
	rt_free(y);
	rt_free(z);
	return st;
}
