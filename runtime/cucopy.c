/* SPDX-License-Identifier: MIT */
/* cucopy: copies of a GPU: from and to the host, zeros, and from strides to strides. */
#include "runtime/bytes.h"
#include "runtime/cudriver.h"
#include "runtime/layout.h"

enum { MOST_BLOCKS = 1 << 30 };

tj_status rt_cucopy_write(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (!bytes) return TJ_OK;
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	q->serial++;
	tj_status st = rt_cu_failed(q->gpu, rt_custage_write(q, (rt_cuptr)(uintptr_t)to, from, bytes), "a copy to the GPU", err);
	rt_cu_leave();
	return st;
}

tj_status rt_cucopy_read(rt_queue *q, void *to, const void *from, size_t bytes, rt_err *err)
{
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	tj_status st = bytes ? rt_cu_failed(q->gpu, rt_custage_read(q, to, (rt_cuptr)(uintptr_t)from, bytes), "a copy from the GPU", err)
	                     : RT_CU_TRY(q->gpu, cuStreamSynchronize, (q->stream), err);
	rt_cu_leave();
	return st;
}

tj_status rt_cucopy_zero(rt_queue *q, void *to, size_t bytes, rt_err *err)
{
	if (!bytes) return TJ_OK;
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	q->serial++;
	tj_status st = RT_CU_TRY(q->gpu, cuMemsetD8Async, ((rt_cuptr)(uintptr_t)to, 0, bytes, q->stream), err);
	rt_cu_leave();
	return st;
}

/* ---- strided copies: a kernel, compiled at the first one ---- */
static const char copy_text[] =
	"struct tj_copy_args { char *to; const char *from; long long n, size, rank, dim[16], to_stride[16], from_stride[16]; };\n"
	"extern \"C\" __global__ void __launch_bounds__(256) tj_copy(const __grid_constant__ tj_copy_args a)\n{\n"
	"\tfor (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < a.n; i += (long long)gridDim.x * 256) {\n"
	"\t\tlong long rest = i, to = 0, from = 0;\n"
	"\t\tfor (int d = (int)a.rank - 1; d >= 0; d--) {\n"
	"\t\t\tconst long long at = rest % a.dim[d];\n\t\t\trest /= a.dim[d];\n\t\t\tto += at * a.to_stride[d];\n"
	"\t\t\tfrom += at * a.from_stride[d];\n\t\t}\n"
	"\t\tchar *const p = a.to + to * a.size;\n\t\tconst char *const q = a.from + from * a.size;\n"
	"\t\tif (a.size == 4) *(int *)p = *(const int *)q;\n\t\telse if (a.size == 8) *(long long *)p = *(const long long *)q;\n"
	"\t\telse if (a.size == 2) *(short *)p = *(const short *)q;\n\t\telse *p = *q;\n\t}\n}\n";
typedef struct copy_args {
	const void *to, *from;
	long long n, size, rank, dim[TJ_MAX_RANK], to_stride[TJ_MAX_RANK], from_stride[TJ_MAX_RANK];
} copy_args;
_Static_assert(TJ_MAX_RANK == 16, "copy_text has arrays of sixteen");

static tj_status copy_kernel(rt_gpu *g, rt_err *err)
{
	void *cubin = NULL, *module = NULL;
	size_t bytes;
	rt_cuda_kernel k = { 0 };
	rt_lock(&g->copy_lock);
	tj_status st = g->copy ? TJ_OK : rt_nvrtc_compile(copy_text, g->arch, &cubin, &bytes, err);
	if (st == TJ_OK && !g->copy) st = rt_cuda_load(g->ordinal, cubin, &module, err);
	if (st == TJ_OK && !g->copy) st = rt_cuda_find(g->ordinal, module, "tj_copy", &k, err);
	if (st == TJ_OK && !g->copy) g->copy = k.function;
	else rt_cuda_unload(g->ordinal, module);
	rt_unlock(&g->copy_lock);
	rt_free(cubin);
	return st;
}

/* Without NVRTC there is no such kernel. `to` is row-major. */
static tj_status copy_on_host(rt_queue *q, int rank, const int64_t *dim, size_t size, const char *from, const int64_t *from_stride,
                              void *to, const int64_t *to_stride, rt_err *err)
{
	int64_t n = 1, low, high;
	for (int i = 0; i < rank; i++) n *= dim[i];
	rt_extent(rank, dim, from_stride, &low, &high);
	const size_t span = (size_t)(high - low + 1) * size;
	char *host = rt_alloc(span + (size_t)n * size), *packed = host + span;
	if (!host) return rt_fail(err, TJ_ERR_NOMEM, "copy", "out of memory");
	tj_status st = rt_cucopy_read(q, host, from + low * (int64_t)size, span, err);
	if (st == TJ_OK) rt_copy_strided(rank, dim, size, host - low * (int64_t)size, from_stride, packed, to_stride);
	if (st == TJ_OK) st = rt_cucopy_write(q, to, packed, (size_t)n * size, err);
	rt_free(host);
	return st;
}

tj_status rt_cucopy_strided(rt_queue *q, int rank, const int64_t *dim, size_t size, const void *from, const int64_t *from_stride, void *to,
                            const int64_t *to_stride, rt_err *err)
{
	copy_args a = { .to = to, .from = from, .n = 1, .size = (long long)size, .rank = rank };
	void *arguments = &a;
	for (int i = 0; i < rank; i++) {
		a.n *= dim[i];
		a.dim[i] = dim[i];
		a.to_stride[i] = to_stride[i];
		a.from_stride[i] = from_stride[i];
	}
	if (!a.n) return TJ_OK;
	const bool plain = rt_is_row_major(rank, dim, from_stride) && rt_is_row_major(rank, dim, to_stride);
	if (!plain && rt_nvrtc_missing() && rt_is_row_major(rank, dim, to_stride))
		return copy_on_host(q, rank, dim, size, from, from_stride, to, to_stride, err);
	if (!plain && copy_kernel(q->gpu, err) != TJ_OK) return err ? err->code : TJ_ERR_DEVICE;
	if (!rt_cu_enter(q->gpu)) return rt_cu_no_entry(q->gpu, err);
	const long long blocks = (a.n - 1) / 256 + 1;
	q->serial++;
	tj_status st = plain ? RT_CU_TRY(q->gpu, cuMemcpyDtoDAsync,
	                                 ((rt_cuptr)(uintptr_t)to, (rt_cuptr)(uintptr_t)from, (size_t)a.n * size, q->stream), err)
	                     : RT_CU_TRY(q->gpu, cuLaunchKernel,
	                                 (q->gpu->copy, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, 256, 1, 1, 0,
	                                  q->stream, &arguments, NULL),
	                                 err);
	rt_cu_leave();
	return st;
}
