/* SPDX-License-Identifier: MIT */
/* gpucases: what is timed on a GPU, and operands for it. */
#include "bench/gpu.h"

enum { TINY = 80 };

/* ---- bodies ---- */
BODY(relu) { (void)self, out[0] = tj_relu(in[0]); }
BODY(gelu) { (void)self, out[0] = tj_gelu(in[0]); }
BODY(chain30)
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < 15; i++) x = i % 3 ? tj_mul(tj_add(x, tj_f(0.5)), tj_f(0.75)) : tj_maximum(tj_sub(in[0], x), tj_f(-2));
	out[0] = x;
}
BODY(softmax) { (void)self, out[0] = tj_softmax(in[0], -1); }
BODY(rms_norm) { (void)self, out[0] = tj_rms_norm(in[0], in[1], 1e-5); }
BODY(layer_norm) { (void)self, out[0] = tj_layer_norm(in[0], in[1], in[2], 1e-5); }
BODY(add_rms_norm)
{
	(void)self;
	out[0] = tj_add(in[0], in[1]);
	out[1] = tj_rms_norm(out[0], in[2], 1e-5);
}
BODY(swiglu) { (void)self, out[0] = tj_mul(tj_silu(in[0]), in[1]); }
BODY(cross_entropy)
{
	(void)self;
	tj_tensor *picked = tj_gather(in[0], 1, tj_unsqueeze(in[1], 1));
	out[0] = tj_mean(tj_sub(tj_logsumexp(in[0], TJ_AXES(1), false), tj_squeeze(picked, TJ_AXES(1))), TJ_ALL, false);
}
BODY(sum_rows) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(1), false); }
BODY(sum_columns) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(0), false); }
BODY(sum_all) { (void)self, out[0] = tj_sum(in[0], TJ_ALL, false); }
BODY(transpose) { (void)self, out[0] = tj_add(tj_transpose(in[0], 0, 1), tj_f(1)); }
BODY(product) { (void)self, out[0] = tj_matmul(in[0], in[1]); }
BODY(linear_gelu) { (void)self, out[0] = tj_gelu_tanh(tj_add(tj_matmul(in[0], in[1]), in[2])); }
BODY(tiny) /* sums along rows and columns in turn: each is a kernel */
{
	(void)self;
	tj_tensor *x = in[0];
	for (int i = 0; i < TINY; i++) x = tj_sub(x, tj_mul(tj_sum(x, TJ_AXES(i % 2), true), tj_f(1e-3)));
	out[0] = x;
}

/* A block of a transformer: x [T,D]; qkv [D,3D], projection [D,D], up [D,4D], down [4D,D], norm [D]. */
BODY(block)
{
	(void)self;
	const int64_t t = tj_dim(in[0], 0), d = tj_dim(in[0], 1), h = d >= 64 ? d / 64 : 2, w = d / h;
	tj_tensor *qkv = tj_matmul(tj_rms_norm(in[0], in[5], 1e-5), in[1]), *part[3];
	for (int i = 0; i < 3; i++) part[i] = tj_transpose(tj_reshape(tj_slice(qkv, 1, i * d, (i + 1) * d, 1), TJ_SHAPE(t, h, w)), 0, 1);
	tj_tensor *score = tj_softmax(tj_mul(tj_matmul(part[0], tj_transpose(part[1], 1, 2)), tj_f(0.125)), -1);
	tj_tensor *mixed = tj_reshape(tj_transpose(tj_matmul(score, part[2]), 0, 1), TJ_SHAPE(t, d));
	tj_tensor *x = tj_add(in[0], tj_matmul(mixed, in[2]));
	out[0] = tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_rms_norm(x, in[5], 1e-5), in[3])), in[4]));
}

/* ---- sizes of operands, and work ---- */
static int64_t matrix(const int64_t *p, int k, int64_t *dim) { return (void)k, dim[0] = p[0], dim[1] = p[1], 2; }
static int64_t with_vectors(const int64_t *p, int k, int64_t *dim) { return k ? (dim[0] = p[1], 1) : matrix(p, k, dim); }
static int64_t two_and_vector(const int64_t *p, int k, int64_t *dim) { return k < 2 ? matrix(p, k, dim) : (dim[0] = p[1], 1); }
static int64_t with_rows(const int64_t *p, int k, int64_t *dim) { return k ? (dim[0] = p[0], 1) : matrix(p, k, dim); }
static int64_t square(const int64_t *p, int k, int64_t *dim) { return dim[0] = dim[1] = p[0], k < 2 ? 2 : 1; }
static int64_t of_block(const int64_t *p, int k, int64_t *dim)
{
	const int64_t d = p[1], size[GPU_IN][2] = { { p[0], d }, { d, 3 * d }, { d, d }, { d, 4 * d }, { 4 * d, d }, { d, 0 } };
	dim[0] = size[k][0], dim[1] = size[k][1];
	return k == 5 ? 1 : 2;
}
static double cube(const int64_t *p) { return 2.0 * (double)p[0] * (double)p[0] * (double)p[0]; }
static double block_flops(const int64_t *p)
{
	return 24.0 * (double)p[0] * (double)p[1] * (double)p[1] + 4.0 * (double)p[0] * (double)p[0] * (double)p[1];
}

/* ---- cases ---- */
#define ROWS(name, body, nin, nout, dtype, n, of) { name, body, nin, nout, dtype, { 4096, n }, { 5, (n) / 64 + 3 }, .shape = of }
/* In TJ_FAST bias and GELU become a part of the library's call. */
#define LINEAR(name, n, few) \
	{ \
		name, linear_gelu, 3, 1, TJ_BF16, { n, n }, { few, few }, square, cube, .numerics = TJ_FAST, .plain = product \
	}
const gpu_case gpu_cases[] = {
	{ "relu", relu, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, .shape = matrix },
	{ "gelu", gelu, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, .shape = matrix },
	{ "chain30", chain30, 1, 1, TJ_F32, { 4096, 98304 }, { 3, 1001 }, .shape = matrix },
	ROWS("softmax_1k", softmax, 1, 1, TJ_F32, 1024, matrix), ROWS("softmax_4k", softmax, 1, 1, TJ_F32, 4096, matrix),
	ROWS("softmax_12k", softmax, 1, 1, TJ_F32, 12672, matrix), ROWS("softmax_32k", softmax, 1, 1, TJ_F32, 32768, matrix),
	ROWS("softmax_131k", softmax, 1, 1, TJ_F32, 131072, matrix),
	ROWS("softmax_1k_bf16", softmax, 1, 1, TJ_BF16, 1024, matrix), ROWS("softmax_4k_bf16", softmax, 1, 1, TJ_BF16, 4096, matrix),
	ROWS("softmax_12k_bf16", softmax, 1, 1, TJ_BF16, 12672, matrix), ROWS("softmax_32k_bf16", softmax, 1, 1, TJ_BF16, 32768, matrix),
	ROWS("softmax_131k_bf16", softmax, 1, 1, TJ_BF16, 131072, matrix),
	ROWS("rms_norm_4k", rms_norm, 2, 1, TJ_F32, 4096, with_vectors), ROWS("rms_norm_8k", rms_norm, 2, 1, TJ_F32, 8192, with_vectors),
	ROWS("rms_norm_16k", rms_norm, 2, 1, TJ_F32, 16384, with_vectors),
	ROWS("layer_norm_4k", layer_norm, 3, 1, TJ_F32, 4096, with_vectors), ROWS("layer_norm_8k", layer_norm, 3, 1, TJ_F32, 8192, with_vectors),
	ROWS("layer_norm_16k", layer_norm, 3, 1, TJ_F32, 16384, with_vectors),
	ROWS("add_rms_norm_8k", add_rms_norm, 3, 2, TJ_F32, 8192, two_and_vector),
	{ "swiglu_bf16", swiglu, 2, 1, TJ_BF16, { 8192, 16384 }, { 5, 131 }, .shape = matrix },
	{ "cross_entropy", cross_entropy, 2, 1, TJ_F32, { 32768, 4096 }, { 33, 67 }, .shape = with_rows, .indices = true },
	{ "sum_rows", sum_rows, 1, 1, TJ_F32, { 16384, 16384 }, { 9, 517 }, .shape = matrix },
	{ "sum_columns", sum_columns, 1, 1, TJ_F32, { 16384, 16384 }, { 517, 9 }, .shape = matrix },
	{ "sum_columns_tall", sum_columns, 1, 1, TJ_F32, { 1 << 21, 64 }, { 3300, 5 }, .shape = matrix },
	{ "sum_all", sum_all, 1, 1, TJ_F32, { 16384, 16384 }, { 65, 517 }, .shape = matrix },
	{ "transpose", transpose, 1, 1, TJ_F32, { 8192, 8192 }, { 67, 45 }, .shape = matrix },
	{ "matmul_4096_bf16", product, 2, 1, TJ_BF16, { 4096, 4096 }, { 24, 24 }, square, cube, .plain = product },
	LINEAR("linear_gelu_4096_bf16", 4096, 24), LINEAR("linear_gelu_8192_bf16", 8192, 40),
	{ "tiny_80", tiny, 1, 1, TJ_F32, { 16, 16 }, { 4, 8 }, .shape = matrix, .graphs = true },
	{ "block_bf16", block, 6, 1, TJ_BF16, { 4096, 2048 }, { 12, 16 }, .shape = of_block, .flops = block_flops },
	{ "compile_chain30", chain30, 1, 1, TJ_F32, { 4096, 4096 }, { 3, 1001 }, .shape = matrix, .compile = true },
	{ "compile_softmax", softmax, 1, 1, TJ_F32, { 4096, 4096 }, { 5, 67 }, .shape = matrix, .compile = true },
	{ "compile_layer_norm", layer_norm, 3, 1, TJ_F32, { 4096, 4096 }, { 5, 67 }, .shape = with_vectors, .compile = true },
	{ "compile_block", block, 6, 1, TJ_BF16, { 4096, 2048 }, { 12, 16 }, .shape = of_block, .flops = block_flops, .compile = true },
};
const int gpu_ncases = sizeof gpu_cases / sizeof *gpu_cases;

/* ---- operands ---- */
typedef struct operand { const gpu_case *of; const int64_t *p; int k; tj_device device; } operand;
BODY(make_operand)
{
	const operand *o = self;
	int64_t dim[4];
	(void)in;
	dim[o->of->shape(o->p, o->k, dim)] = TJ_END_DIM;
	tj_tensor *u = tj_uniform(TJ_F32, dim);
	if (o->of->indices && o->k == 1) u = tj_cast(tj_mul(u, tj_f((double)o->p[1])), TJ_I64);
	else u = tj_cast(tj_sub(u, tj_f(0.5)), o->of->dtype);
	out[0] = tj_to(u, o->device);
}

tj_fn *gpu_function(tj_ctx *c, const gpu_case *g, tj_body *body, int nin, void *self)
{
	return tj_compile(
		c, body, self,
		TJ_OPTS(tj_compile_opts, .name = g->name, .nin = nin, .nout = g->nout, .mode = TJ_DIRECT, .numerics = g->numerics));
}

bool gpu_open(gpu_job *j, tj_ctx *c, const gpu_case *g, const int64_t *p, tj_device device)
{
	*j = (gpu_job){ .c = c };
	for (int k = 0; k < g->nin; k++) {
		operand o = { g, p, k, device };
		tj_fn *make = tj_compile(c, make_operand, &o, TJ_OPTS(tj_compile_opts, .name = "operand", .nout = 1));
		j->in[k] = tj_call1(make, TJ_NONE);
		tj_fn_free(make);
	}
	j->in[g->nin] = TJ_END;
	j->f = gpu_function(c, g, g->body, g->nin, NULL);
	tj_sync(c);
	return tj_check(c) == TJ_OK;
}
