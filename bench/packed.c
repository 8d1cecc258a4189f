/* packed: the matmul primitive of oneDNN with weights that it rearranged (packed) beforehand, and the bias as a post-op. Uses the C
 * API of oneDNN 2, the version in Debian. */
#include "bench/bench.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#if DNNL_VERSION_MAJOR == 2
struct bench_packed {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	dnnl_primitive_t matmul;
	dnnl_memory_t x, w, bias, out;
};

static dnnl_memory_t memory(bench_packed *p, const dnnl_memory_desc_t *d, const void *data)
{
	dnnl_memory_t m = NULL;
	dnnl_memory_create(&m, d, p->engine, data ? (void *)(uintptr_t)data : DNNL_MEMORY_ALLOCATE);
	return m;
}

static void rearrange(bench_packed *p, dnnl_memory_t from, dnnl_memory_t to)
{
	dnnl_primitive_desc_t d = NULL;
	dnnl_primitive_t r = NULL;
	const dnnl_memory_desc_t *a, *b;
	dnnl_memory_get_memory_desc(from, &a);
	dnnl_memory_get_memory_desc(to, &b);
	dnnl_reorder_primitive_desc_create(&d, a, p->engine, b, p->engine, NULL);
	dnnl_primitive_create(&r, d);
	dnnl_exec_arg_t args[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
	dnnl_primitive_execute(r, p->stream, 2, args);
	dnnl_stream_wait(p->stream);
	dnnl_primitive_destroy(r);
	dnnl_primitive_desc_destroy(d);
}

bench_packed *bench_pack(int64_t m, int64_t n, int64_t k, const float *w, const float *bias)
{
	bench_packed *p = calloc(1, sizeof *p);
	dnnl_memory_desc_t x, any, plain, b, out;
	dnnl_memory_desc_init_by_tag(&x, 2, (dnnl_dims_t){ m, k }, dnnl_f32, dnnl_ab);
	dnnl_memory_desc_init_by_tag(&any, 2, (dnnl_dims_t){ k, n }, dnnl_f32, dnnl_format_tag_any);
	dnnl_memory_desc_init_by_tag(&plain, 2, (dnnl_dims_t){ k, n }, dnnl_f32, dnnl_ab);
	dnnl_memory_desc_init_by_tag(&b, 2, (dnnl_dims_t){ 1, n }, dnnl_f32, dnnl_ab);
	dnnl_memory_desc_init_by_tag(&out, 2, (dnnl_dims_t){ m, n }, dnnl_f32, dnnl_ab);
	dnnl_matmul_desc_t d;
	dnnl_primitive_desc_t pd = NULL;
	if (!p || dnnl_engine_create(&p->engine, dnnl_cpu, 0) || dnnl_stream_create(&p->stream, p->engine, dnnl_stream_in_order) ||
	    dnnl_matmul_desc_init(&d, &x, &any, &b, &out) || dnnl_primitive_desc_create(&pd, &d, NULL, p->engine, NULL) ||
	    dnnl_primitive_create(&p->matmul, pd)) {
		if (p) bench_packed_free(p);
		return NULL;
	}
	dnnl_memory_t from = memory(p, &plain, w);
	p->w = memory(p, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), NULL);
	p->x = memory(p, &x, NULL);
	p->bias = memory(p, &b, bias);
	p->out = memory(p, &out, NULL);
	rearrange(p, from, p->w);
	dnnl_memory_destroy(from);
	dnnl_primitive_desc_destroy(pd);
	return p;
}

void bench_packed_run(bench_packed *p, const float *x, float *out)
{
	dnnl_memory_set_data_handle(p->x, (void *)(uintptr_t)x);
	dnnl_memory_set_data_handle(p->out, out);
	dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, p->x }, { DNNL_ARG_WEIGHTS, p->w }, { DNNL_ARG_BIAS, p->bias }, { DNNL_ARG_DST, p->out } };
	dnnl_primitive_execute(p->matmul, p->stream, 4, args);
	dnnl_stream_wait(p->stream);
}

void bench_packed_free(bench_packed *p)
{
	if (!p) return;
	dnnl_memory_t all[] = { p->x, p->w, p->bias, p->out };
	for (int i = 0; i < 4; i++)
		if (all[i]) dnnl_memory_destroy(all[i]);
	if (p->matmul) dnnl_primitive_destroy(p->matmul);
	if (p->stream) dnnl_stream_destroy(p->stream);
	if (p->engine) dnnl_engine_destroy(p->engine);
	free(p);
}
#else
bench_packed *bench_pack(int64_t m, int64_t n, int64_t k, const float *w, const float *bias)
{
	(void)m, (void)n, (void)k, (void)w, (void)bias;
	return NULL;
}
void bench_packed_run(bench_packed *p, const float *x, float *out) { (void)p, (void)x, (void)out; }
void bench_packed_free(bench_packed *p) { (void)p; }
#endif
