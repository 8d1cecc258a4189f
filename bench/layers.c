/* SPDX-License-Identifier: MIT */
/* layers: times layers of networks, and other ops of which libraries have kernels of their own. bench/layers.py has the same for PyTorch
 * and JAX. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define BODY(name) static void name(tj_tensor **out, tj_tensor *const *in, void *self)
#define EACH(n) TJ_EACH(n)

enum { OPERANDS = 4, RANK = 4, LEAST_ROUNDS = 11 };

/* An operand: sizes, 0 ends them. */
typedef struct operand { int64_t dim[RANK + 1]; } operand;
typedef struct layer {
	const char *name;
	tj_body *body;
	operand full[OPERANDS], small[OPERANDS]; /* small: for tests */
	tj_dtype dtype;           /* of all operands but an index */
	int64_t index;            /* the last operand has integers below it; 0: it is like the others */
	int64_t full_index;
} layer;

/* ---- convolution ---- */
static tj_tensor *conv2d(tj_tensor *const *in, tj_conv_opts o) { return tj_conv2d(in[0], in[1], in[2], &o); }
BODY(conv_7x7) { (void)self, out[0] = tj_relu(conv2d(in, (tj_conv_opts){ .stride = EACH(2), .padding = EACH(3) })); }
BODY(conv_3x3) { (void)self, out[0] = tj_relu(conv2d(in, (tj_conv_opts){ .padding = EACH(1) })); }
BODY(conv_1x1) { (void)self, out[0] = tj_relu(conv2d(in, (tj_conv_opts){ 0 })); }
BODY(conv_by_channel) { (void)self, out[0] = tj_relu(conv2d(in, (tj_conv_opts){ .padding = EACH(1), .groups = tj_dim(in[0], 1) })); }
BODY(conv_by_channel_2)
{
	(void)self, out[0] = tj_relu(conv2d(in, (tj_conv_opts){ .stride = EACH(2), .padding = EACH(1), .groups = tj_dim(in[0], 1) }));
}
BODY(conv_transpose)
{
	(void)self, out[0] = tj_conv_transpose2d(in[0], in[1], in[2],
	                                         TJ_OPTS(tj_conv_opts, .stride = EACH(2), .padding = EACH(1), .output_padding = EACH(1)));
}
BODY(conv_1d) { (void)self, out[0] = tj_relu(tj_conv1d(in[0], in[1], in[2], TJ_OPTS(tj_conv_opts, .same = true))); }

/* ---- pools and norms ---- */
BODY(max_pool) { (void)self, out[0] = tj_max_pool2d(in[0], TJ_SHAPE(3, 3), TJ_OPTS(tj_pool_opts, .stride = EACH(2), .padding = EACH(1))); }
BODY(avg_pool) { (void)self, out[0] = tj_avg_pool2d(in[0], TJ_SHAPE(2, 2), NULL); }
BODY(global_pool) { (void)self, out[0] = tj_adaptive_avg_pool2d(in[0], TJ_SHAPE(1, 1)); }
BODY(adaptive_pool) { (void)self, out[0] = tj_adaptive_avg_pool2d(in[0], TJ_SHAPE(7, 7)); }
BODY(batch_norm_relu)
{
	(void)self, out[0] = tj_relu(tj_batch_norm(in[0], NULL, NULL, in[1], in[2], TJ_OPTS(tj_norm_opts, .training = true)));
}
BODY(group_norm) { (void)self, out[0] = tj_group_norm(in[0], 8, in[1], in[2], 1e-5); }

/* ---- attention ---- */
BODY(attention) { (void)self, out[0] = tj_scaled_dot_product_attention(in[0], in[1], in[2], NULL); }
BODY(attention_causal)
{
	(void)self, out[0] = tj_scaled_dot_product_attention(in[0], in[1], in[2], TJ_OPTS(tj_attention_opts, .causal = true));
}

/* ---- others ---- */
BODY(scatter_add) { (void)self, out[0] = tj_scatter_add(in[0], 0, in[2], in[1]); }
BODY(scatter_max) { (void)self, out[0] = tj_scatter_amax(in[0], 0, in[2], in[1]); }
BODY(einsum_scores) { (void)self, out[0] = tj_einsum("bqhd,bkhd->bhqk", TJ_LIST(in[0], in[1]), NULL); }
BODY(dropout) { (void)self, out[0] = tj_dropout(in[0], 0.1, true); }
BODY(interpolate)
{
	(void)self, out[0] = tj_interpolate(in[0], TJ_SHAPE(2 * tj_dim(in[0], 2), 2 * tj_dim(in[0], 3)),
	                                    TJ_OPTS(tj_interpolate_opts, .mode = TJ_SAMPLE_LINEAR));
}
BODY(cdist) { (void)self, out[0] = tj_cdist(in[0], in[1], 2, TJ_CDIST_EXACT); }
BODY(cdist_product) { (void)self, out[0] = tj_cdist(in[0], in[1], 2, TJ_CDIST_AUTO); }
BODY(median) { (void)self, out[0] = tj_median(in[0], 1, false, NULL); }
BODY(softmax) { (void)self, out[0] = tj_softmax(in[0], -1); }
BODY(gelu) { (void)self, out[0] = tj_gelu(in[0]); }
BODY(silu_mul) { (void)self, out[0] = tj_mul(tj_silu(in[0]), in[1]); }
BODY(rms_norm) { (void)self, out[0] = tj_rms_norm(in[0], in[1], 1e-5); }
BODY(layer_norm) { (void)self, out[0] = tj_layer_norm(in[0], in[1], in[2], 1e-5); }
BODY(lerp_chain) { (void)self, out[0] = tj_lerp(tj_hypot(in[0], in[1]), tj_logaddexp(in[0], in[1]), tj_f(0.3)); }

#define OF(...) { { __VA_ARGS__ } }
#define CONV(n, c, h, o, i, k) { OF(n, c, h, h), OF(o, i, k, k), OF(o) }
static const layer layers[] = {
	{ "conv_7x7_224", conv_7x7, CONV(1, 3, 224, 64, 3, 7), CONV(1, 3, 20, 4, 3, 7), TJ_F32, 0, 0 },
	{ "conv_3x3_56", conv_3x3, CONV(1, 64, 56, 64, 64, 3), CONV(1, 5, 9, 6, 5, 3), TJ_F32, 0, 0 },
	{ "conv_3x3_28", conv_3x3, CONV(1, 128, 28, 128, 128, 3), CONV(1, 6, 8, 7, 6, 3), TJ_F32, 0, 0 },
	{ "conv_3x3_14", conv_3x3, CONV(1, 256, 14, 256, 256, 3), CONV(2, 7, 6, 5, 7, 3), TJ_F32, 0, 0 },
	{ "conv_3x3_7", conv_3x3, CONV(1, 512, 7, 512, 512, 3), CONV(2, 9, 7, 8, 9, 3), TJ_F32, 0, 0 },
	{ "conv_3x3_56_batch", conv_3x3, CONV(8, 64, 56, 64, 64, 3), CONV(3, 5, 9, 6, 5, 3), TJ_F32, 0, 0 },
	{ "conv_1x1_56", conv_1x1, CONV(1, 64, 56, 256, 64, 1), CONV(1, 5, 9, 7, 5, 1), TJ_F32, 0, 0 },
	{ "conv_1x1_7", conv_1x1, CONV(1, 512, 7, 2048, 512, 1), CONV(1, 9, 7, 11, 9, 1), TJ_F32, 0, 0 },
	{ "conv_depthwise_56", conv_by_channel, CONV(1, 96, 56, 96, 1, 3), CONV(1, 6, 9, 6, 1, 3), TJ_F32, 0, 0 },
	{ "conv_depthwise_14", conv_by_channel, CONV(1, 576, 14, 576, 1, 3), CONV(1, 6, 5, 6, 1, 3), TJ_F32, 0, 0 },
	{ "conv_depthwise_112_stride2", conv_by_channel_2, CONV(1, 96, 112, 96, 1, 3), CONV(1, 6, 9, 6, 1, 3), TJ_F32, 0, 0 },
	{ "conv_transpose_3x3_28",
	  conv_transpose,
	  { OF(1, 128, 28, 28), OF(128, 64, 3, 3), OF(64) },
	  { OF(1, 5, 6, 6), OF(5, 4, 3, 3), OF(4) },
	  TJ_F32,
	  0,
	  0 },
	{ "conv1d_5_1000", conv_1d, { OF(8, 80, 1000), OF(256, 80, 5), OF(256) }, { OF(2, 5, 20), OF(6, 5, 5), OF(6) }, TJ_F32, 0, 0 },
	{ "max_pool_112", max_pool, { OF(8, 64, 112, 112) }, { OF(2, 3, 11, 12) }, TJ_F32, 0, 0 },
	{ "avg_pool_56", avg_pool, { OF(8, 64, 56, 56) }, { OF(2, 3, 10, 12) }, TJ_F32, 0, 0 },
	{ "global_pool_7", global_pool, { OF(32, 2048, 7, 7) }, { OF(2, 3, 7, 7) }, TJ_F32, 0, 0 },
	{ "adaptive_pool_30_7", adaptive_pool, { OF(8, 256, 30, 30) }, { OF(2, 3, 9, 10) }, TJ_F32, 0, 0 },
	{ "batch_norm_relu_56", batch_norm_relu, { OF(8, 64, 56, 56), OF(64), OF(64) }, { OF(3, 4, 5, 6), OF(4), OF(4) }, TJ_F32, 0, 0 },
	{ "group_norm_56", group_norm, { OF(8, 64, 56, 56), OF(64), OF(64) }, { OF(2, 16, 5, 6), OF(16), OF(16) }, TJ_F32, 0, 0 },
	{ "attention_128",
	  attention,
	  { OF(8, 12, 128, 64), OF(8, 12, 128, 64), OF(8, 12, 128, 64) },
	  { OF(2, 2, 9, 8), OF(2, 2, 9, 8), OF(2, 2, 9, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_1024",
	  attention,
	  { OF(1, 12, 1024, 64), OF(1, 12, 1024, 64), OF(1, 12, 1024, 64) },
	  { OF(1, 2, 19, 8), OF(1, 2, 19, 8), OF(1, 2, 19, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_causal_128",
	  attention_causal,
	  { OF(8, 12, 128, 64), OF(8, 12, 128, 64), OF(8, 12, 128, 64) },
	  { OF(2, 2, 9, 8), OF(2, 2, 9, 8), OF(2, 2, 9, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_causal_1024",
	  attention_causal,
	  { OF(1, 12, 1024, 64), OF(1, 12, 1024, 64), OF(1, 12, 1024, 64) },
	  { OF(1, 2, 19, 8), OF(1, 2, 19, 8), OF(1, 2, 19, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_causal_4096",
	  attention_causal,
	  { OF(1, 8, 4096, 64), OF(1, 8, 4096, 64), OF(1, 8, 4096, 64) },
	  { OF(1, 2, 35, 8), OF(1, 2, 35, 8), OF(1, 2, 35, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_grouped_1024",
	  attention_causal,
	  { OF(1, 32, 1024, 64), OF(1, 8, 1024, 64), OF(1, 8, 1024, 64) },
	  { OF(1, 4, 9, 8), OF(1, 2, 9, 8), OF(1, 2, 9, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_4096",
	  attention,
	  { OF(1, 8, 4096, 64), OF(1, 8, 4096, 64), OF(1, 8, 4096, 64) },
	  { OF(1, 2, 35, 8), OF(1, 2, 35, 8), OF(1, 2, 35, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_grouped_128",
	  attention_causal,
	  { OF(8, 32, 128, 64), OF(8, 8, 128, 64), OF(8, 8, 128, 64) },
	  { OF(2, 4, 9, 8), OF(2, 2, 9, 8), OF(2, 2, 9, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_grouped_4096",
	  attention_causal,
	  { OF(1, 8, 4096, 64), OF(1, 2, 4096, 64), OF(1, 2, 4096, 64) },
	  { OF(1, 4, 35, 8), OF(1, 2, 35, 8), OF(1, 2, 35, 8) },
	  TJ_F32,
	  0,
	  0 },
	{ "attention_bf16_1024",
	  attention,
	  { OF(1, 12, 1024, 64), OF(1, 12, 1024, 64), OF(1, 12, 1024, 64) },
	  { OF(1, 2, 19, 8), OF(1, 2, 19, 8), OF(1, 2, 19, 8) },
	  TJ_BF16,
	  0,
	  0 },
	{ "scatter_add_1M", scatter_add, { OF(1 << 16), OF(1 << 20), OF(1 << 20) }, { OF(50), OF(300), OF(300) }, TJ_F32, 50, 1 << 16 },
	{ "scatter_max_1M", scatter_max, { OF(1 << 16), OF(1 << 20), OF(1 << 20) }, { OF(50), OF(300), OF(300) }, TJ_F32, 50, 1 << 16 },
	{ "einsum_bqhd_bkhd", einsum_scores, { OF(8, 128, 8, 64), OF(8, 128, 8, 64) }, { OF(2, 5, 3, 4), OF(2, 6, 3, 4) }, TJ_F32, 0, 0 },
	{ "dropout_4M", dropout, { OF(4 << 20) }, { OF(1000) }, TJ_F32, 0, 0 },
	{ "interpolate_bilinear_256", interpolate, { OF(4, 3, 256, 256) }, { OF(2, 3, 7, 5) }, TJ_F32, 0, 0 },
	{ "cdist_1024x1024x64", cdist, { OF(1024, 64), OF(1024, 64) }, { OF(9, 5), OF(8, 5) }, TJ_F32, 0, 0 },
	{ "cdist_product_1024x1024x64", cdist_product, { OF(1024, 64), OF(1024, 64) }, { OF(9, 5), OF(8, 5) }, TJ_F32, 0, 0 },
	{ "median_4096x1024", median, { OF(4096, 1024) }, { OF(5, 33) }, TJ_F32, 0, 0 },
	{ "hypot_logaddexp_lerp_1M", lerp_chain, { OF(1 << 20), OF(1 << 20) }, { OF(100), OF(100) }, TJ_F32, 0, 0 },
	{ "softmax_bf16_4096x1024", softmax, { OF(4096, 1024) }, { OF(5, 70) }, TJ_BF16, 0, 0 },
	{ "softmax_f16_4096x1024", softmax, { OF(4096, 1024) }, { OF(5, 70) }, TJ_F16, 0, 0 },
	{ "gelu_bf16_4M", gelu, { OF(4 << 20) }, { OF(100) }, TJ_BF16, 0, 0 },
	{ "silu_mul_f16_4M", silu_mul, { OF(4 << 20), OF(4 << 20) }, { OF(100), OF(100) }, TJ_F16, 0, 0 },
	{ "layer_norm_bf16_4096x1024", layer_norm, { OF(4096, 1024), OF(1024), OF(1024) }, { OF(5, 70), OF(70), OF(70) }, TJ_BF16, 0, 0 },
	{ "conv_bf16_3x3_56", conv_3x3, CONV(1, 64, 56, 64, 64, 3), CONV(1, 5, 9, 6, 5, 3), TJ_BF16, 0, 0 },
	{ "conv_f16_1x1_56", conv_1x1, CONV(1, 64, 56, 256, 64, 1), CONV(1, 5, 9, 7, 5, 1), TJ_F16, 0, 0 },
	{ "max_pool_bf16_112", max_pool, { OF(8, 64, 112, 112) }, { OF(2, 3, 11, 12) }, TJ_BF16, 0, 0 },
	{ "batch_norm_relu_bf16_56",
	  batch_norm_relu,
	  { OF(8, 64, 56, 56), OF(64), OF(64) },
	  { OF(3, 4, 5, 6), OF(4), OF(4) },
	  TJ_BF16,
	  0,
	  0 },
	{ "rms_norm_bf16_4096x4096", rms_norm, { OF(4096, 4096), OF(4096) }, { OF(5, 70), OF(70) }, TJ_BF16, 0, 0 },
};
enum { LAYERS = sizeof layers / sizeof *layers };

/* ---- operands ---- */
static int rank_of(const operand *o)
{
	int n = 0;
	while (n <= RANK && o->dim[n]) n++;
	return n;
}

static int count(const operand *o)
{
	int n = 0;
	while (n < OPERANDS && rank_of(&o[n])) n++;
	return n;
}

static tj_tensor *make(tj_ctx *c, const layer *l, const operand *o, int64_t index, unsigned seed)
{
	int64_t shape[RANK + 1], n = 1;
	const int rank = rank_of(o);
	for (int i = 0; i < rank; i++) n *= shape[i] = o->dim[i];
	shape[rank] = TJ_END_DIM;
	float *v = bench_room(n * 4);
	int32_t *k = (int32_t *)v;
	for (int64_t i = 0; i < n; i++) {
		const uint32_t r = (seed = seed * 1664525u + 1013904223u) >> 8;
		if (index) k[i] = (int32_t)(r % (uint32_t)index);
		else v[i] = (float)r / (float)(1 << 23) - 1;
	}
	tj_tensor *t = tj_from_data(c, index ? TJ_I32 : TJ_F32, shape, v);
	free(v);
	return index ? tj_cast(t, TJ_I64) : tj_cast(t, l->dtype);
}

typedef struct job {
	const layer *l;
	tj_ctx *ctx;
	tj_scope *scope;
	tj_fn *f;
	tj_tensor *list[OPERANDS + 1];
	double first_ms;
} job;

static void run(void *env)
{
	job *j = env;
	tj_scope *s = tj_push(j->ctx);
	(void)tj_call1(j->f, j->list);
	tj_pop(s);
}

static job *open_job(tj_ctx *c, const layer *l, bool small)
{
	job *j = calloc(1, sizeof *j);
	if (!j) exit(2);
	const operand *o = small ? l->small : l->full;
	const int n = count(o);
	*j = (job){ .l = l, .ctx = c, .scope = tj_push(c) };
	for (int i = 0; i < n; i++) j->list[i] = make(c, l, &o[i], l->index && i == n - 1 ? small ? l->index : l->full_index : 0, (unsigned)i + 1);
	j->list[n] = TJ_END;
	j->f = tj_compile(c, l->body, NULL, TJ_OPTS(tj_compile_opts, .name = l->name, .nin = n, .nout = 1, .mode = TJ_DIRECT));
	const double begin = bench_now();
	run(j);
	j->first_ms = (bench_now() - begin) * 1e3;
	return j;
}

static void close_job(job *j)
{
	tj_fn_free(j->f);
	tj_pop(j->scope);
	free(j);
}

/* ---- the ways to run ---- */
static void put(job *j, double seconds, bool json)
{
	bench_variant v = { .run = run, .env = j };
	tj_stats s = { .size = sizeof s };
	bench_turns(&v, 1, seconds, LEAST_ROUNDS);
	tj_fn_stats(j->f, &s);
	printf(json ? "{\"peer\": \"tjit\", \"case\": \"%s\", \"us\": %.1f, \"median_us\": %.1f, \"first_ms\": %.1f, \"peak_bytes\": %llu, "
	              "\"kernels\": %llu, \"eval_steps\": %llu}\n"
	            : "%-28s %10.1f us (median %.1f), first call %.1f ms; temporaries %llu bytes; %llu kernels, %llu evaluator steps\n",
	       j->l->name, v.quick, v.median, j->first_ms, (unsigned long long)s.peak_bytes, (unsigned long long)s.kernels,
	       (unsigned long long)s.eval_steps);
	fflush(stdout);
}

/* At small sizes: compiled results are the evaluator's bit for bit, and no step runs in the evaluator. */
static bool quick(const layer *l)
{
	void *result[2] = { NULL, NULL };
	size_t bytes[2] = { 0, 1 };
	uint64_t steps = 0;
	bool good = true;
	tj_ctx *was = tj_ctx_current();
	for (int k = 0; k < 2; k++) {
		tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .backend = k ? "eval" : NULL));
		job *j = open_job(c, l, true);
		tj_seed(c, 1);
		tj_tensor *y = tj_call1(j->f, j->list);
		tj_stats s = { .size = sizeof s };
		tj_fn_stats(j->f, &s);
		if (!k) steps = s.eval_steps;
		bytes[k] = (size_t)tj_numel(y) * tj_dtype_size(tj_dtype_of(y));
		result[k] = bench_room((int64_t)bytes[k]);
		if (tj_is_poison(y) || tj_read(y, result[k], bytes[k]) != TJ_OK) good = false;
		close_job(j);
		if (tj_check(c) != TJ_OK) good = false, tj_perror(c, stderr);
		tj_close(c);
	}
	tj_ctx_use(was);
	good = good && bytes[0] == bytes[1] && !memcmp(result[0], result[1], bytes[0]) && !steps;
	if (!good) printf("FAIL %s: not the evaluator's result, or %llu steps in the evaluator\n", l->name, (unsigned long long)steps);
	free(result[0]), free(result[1]);
	return good;
}

/* ---- the suite ---- */
static const char *name_of(int i) { return layers[i].name; }
static void *open_full(tj_ctx *c, int i) { return open_job(c, &layers[i], false); }
static void close_any(void *j) { close_job(j); }
static void put_any(void *j, double seconds, bool json) { put(j, seconds, json); }
static bool quick_of(int i) { return quick(&layers[i]); }
static void list(int n)
{
	const layer *l = &layers[n];
	printf("{\"case\": \"%s\", \"dtype\": \"%s\", \"index\": %lld, \"shapes\": [", l->name, tj_dtype_name(l->dtype), (long long)l->full_index);
	for (int i = 0; i < count(l->full); i++)
		for (int k = 0; k < rank_of(&l->full[i]); k++) printf("%s%lld", k ? ", " : i ? "], [" : "[", (long long)l->full[i].dim[k]);
	printf("]]}\n");
}

int bench_layers(const bench_suite_opts *o)
{
	const bench_suite s = { LAYERS, name_of, open_full, close_any, put_any, quick_of, list, NULL };
	return bench_run_suite(&s, o);
}
