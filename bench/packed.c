/* SPDX-License-Identifier: MIT */
/* packed: the matmul primitive of oneDNN, usually with weights that it rearranged (packed) beforehand, and the bias as a post-op. Uses
 * the C API of oneDNN 2, the version in Debian. */
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

/* Sizes of an operand: [rows,cols], or [batch,rows,cols]. by_columns: the element of row 0, column 1 is `rows` after the first. */
static dnnl_memory_desc_t describe(const bench_pack_opts *o, int64_t batch, int64_t rows, int64_t cols, dnnl_data_type_t type,
                                   bool by_columns)
{
	dnnl_memory_desc_t d;
	const dnnl_format_tag_t two = by_columns ? dnnl_ba : dnnl_ab, three = by_columns ? dnnl_acb : dnnl_abc;
	if (o->batch) dnnl_memory_desc_init_by_tag(&d, 3, (dnnl_dims_t){ batch, rows, cols }, type, three);
	else dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){ rows, cols }, type, two);
	return d;
}

bench_packed *bench_pack(const bench_pack_opts *o)
{
	static const struct { tj_dtype dtype; dnnl_data_type_t in, out; } types[] = {
		{ TJ_F32, dnnl_f32, dnnl_f32 }, { TJ_BF16, dnnl_bf16, dnnl_bf16 }, { TJ_I8, dnnl_s8, dnnl_s32 },
	};
	size_t t = 0;
	while (t < sizeof types / sizeof *types && types[t].dtype != o->dtype) t++;
	if (t == sizeof types / sizeof *types) return NULL;
	const dnnl_memory_desc_t x = describe(o, o->batch, o->m, o->k, types[t].in, false),
				 plain = describe(o, o->batch, o->k, o->n, types[t].in, o->transposed);
	const dnnl_memory_desc_t b = describe(o, 1, 1, o->n, dnnl_f32, false), out = describe(o, o->batch, o->m, o->n, types[t].out, false);
	dnnl_memory_desc_t w = plain;
	if (!o->plain) w.format_kind = dnnl_format_kind_any;
	bench_packed *p = calloc(1, sizeof *p);
	dnnl_matmul_desc_t d;
	dnnl_primitive_desc_t pd = NULL;
	if (!p || dnnl_engine_create(&p->engine, dnnl_cpu, 0) || dnnl_stream_create(&p->stream, p->engine, dnnl_stream_in_order) ||
	    dnnl_matmul_desc_init(&d, &x, &w, o->bias ? &b : NULL, &out) || dnnl_primitive_desc_create(&pd, &d, NULL, p->engine, NULL) ||
	    dnnl_primitive_create(&p->matmul, pd)) {
		if (p) bench_packed_free(p);
		return NULL;
	}
	dnnl_memory_t from = memory(p, &plain, o->w);
	p->w = o->plain ? from : memory(p, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), NULL);
	p->x = memory(p, &x, NULL);
	if (o->bias) p->bias = memory(p, &b, o->bias);
	p->out = memory(p, &out, NULL);
	if (!o->plain) rearrange(p, from, p->w), dnnl_memory_destroy(from);
	dnnl_primitive_desc_destroy(pd);
	return p;
}

void bench_packed_run(bench_packed *p, const void *x, void *out)
{
	dnnl_memory_set_data_handle(p->x, (void *)(uintptr_t)x);
	dnnl_memory_set_data_handle(p->out, out);
	dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, p->x }, { DNNL_ARG_WEIGHTS, p->w }, { DNNL_ARG_DST, p->out }, { DNNL_ARG_BIAS, p->bias } };
	dnnl_primitive_execute(p->matmul, p->stream, p->bias ? 4 : 3, args);
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
bench_packed *bench_pack(const bench_pack_opts *o)
{
	(void)o;
	return NULL;
}
void bench_packed_run(bench_packed *p, const void *x, void *out) { (void)p, (void)x, (void)out; }
void bench_packed_free(bench_packed *p) { (void)p; }
#endif
