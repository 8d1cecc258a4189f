/* SPDX-License-Identifier: MIT */
/* cases: the functions that are timed, written with <tj.h>; names and shapes as in bench/peers.py. */
#include "bench/bench.h"

#include <math.h>

#define BODY(name) static void name(tj_tensor **out, tj_tensor *const *in, void *self)
#define LAST TJ_AXES(-1)

/* ---- shapes ---- */
static void operand(bench_shape *s, int64_t rows, int64_t cols)
{
	s->in[s->nin][0] = rows;
	s->in[s->nin++][1] = cols;
}

static void point(bench_shape *s, const int64_t *p, int nin)
{
	for (int i = 0; i < nin; i++) operand(s, p[0], 0);
	s->out = p[0];
	s->bytes = 4.0 * (double)(nin + 1) * (double)p[0];
	s->limit[0] = p[0];
}

static void unary(bench_shape *s, const int64_t *p) { point(s, p, 1); }
static void binary(bench_shape *s, const int64_t *p) { point(s, p, 2); }
static void tiny10(bench_shape *s, const int64_t *p) { point(s, p, 10); }

/* x [r,c] -> out elements */
static void over_rows(bench_shape *s, const int64_t *p, int64_t out, double bytes)
{
	operand(s, p[0], p[1]);
	s->out = out;
	s->bytes = bytes * (double)p[0] * (double)p[1];
	s->limit[0] = p[0] * p[1];
}

static void rows(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0] * p[1], 8); }
static void to_rows(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0], 4); }
static void to_cols(bench_shape *s, const int64_t *p) { over_rows(s, p, p[1], 4); }
static void to_one(bench_shape *s, const int64_t *p) { over_rows(s, p, 1, 4); }
static void to_index(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0], 4), s->dtype = TJ_I64; }
static void to_order(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0] * p[1], 12), s->dtype = TJ_I64; }
static void to_top32(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0] * 32, 4); }
static void two(bench_shape *s, const int64_t *p) { over_rows(s, p, p[0] * p[1], 12), operand(s, p[0], p[1]); }
static void norm(bench_shape *s, const int64_t *p) { rows(s, p), operand(s, p[1], 0), operand(s, p[1], 0); }
static void norm_res(bench_shape *s, const int64_t *p) { two(s, p), operand(s, p[1], 0); }

static void as_sgemm(bench_shape *s, int weights, int64_t m, int64_t n, int64_t k)
{
	s->weights = weights;
	s->limit[0] = m, s->limit[1] = n, s->limit[2] = k;
}

/* x [M,K], w [K,N], b [N] */
static void linear(bench_shape *s, const int64_t *p)
{
	operand(s, p[0], p[1]), operand(s, p[1], p[2]), operand(s, p[2], 0);
	s->out = p[0] * p[2];
	s->flops = 2.0 * (double)p[0] * (double)p[1] * (double)p[2];
	as_sgemm(s, 1, p[0], p[2], p[1]);
}

static void mlp(bench_shape *s, const int64_t *p)
{
	linear(s, p), operand(s, p[2], 10), operand(s, 10, 0);
	s->out = p[0] * 10;
	s->tmp = p[0] * p[2];
	s->flops += 2.0 * (double)p[0] * (double)p[2] * 10;
}

/* p: T, C, H */
static void attention(bench_shape *s, const int64_t *p)
{
	double T = (double)p[0], C = (double)p[1];
	operand(s, p[0], p[1]);
	for (int i = 0; i < 4; i++) operand(s, p[1], p[1]);
	s->out = p[0] * p[1];
	s->tmp = 4 * p[0] * p[1] + p[2] * p[0] * p[0];
	s->flops = 8 * T * C * C + 4 * T * T * C;
	as_sgemm(s, 1, p[0], p[1], p[1]);
}

static void block(bench_shape *s, const int64_t *p)
{
	int64_t C = p[1];
	attention(s, p);
	s->nin = 1;
	for (int i = 0; i < 2; i++) operand(s, C, 0);
	for (int i = 0; i < 4; i++) operand(s, C, C);
	for (int i = 0; i < 2; i++) operand(s, C, 0);
	operand(s, C, 4 * C), operand(s, 4 * C, 0), operand(s, 4 * C, C), operand(s, C, 0);
	s->tmp += 6 * p[0] * C;
	s->flops += 16 * (double)p[0] * (double)C * (double)C;
	as_sgemm(s, 9, p[0], 4 * C, C);
}

/* ---- bodies ---- */
BODY(tiny_add) { (void)self, out[0] = tj_add(in[0], tj_i(1)); }
BODY(add) { (void)self, out[0] = tj_add(in[0], in[1]); }
BODY(f_exp) { (void)self, out[0] = tj_exp(in[0]); }
BODY(f_tanh) { (void)self, out[0] = tj_tanh(in[0]); }
BODY(f_log) { (void)self, out[0] = tj_log(tj_abs(in[0])); }
BODY(sigmoid) { (void)self, out[0] = tj_sigmoid(in[0]); }
BODY(silu_mul) { (void)self, out[0] = tj_mul(tj_mul(in[0], tj_sigmoid(in[0])), in[1]); }
BODY(cumsum_rows) { (void)self, out[0] = tj_cumsum(in[0], 1); }
BODY(cumsum_cols) { (void)self, out[0] = tj_cumsum(in[0], 0); }
BODY(sort_rows) { (void)self, out[0] = tj_sort(in[0], 1, false, NULL); }
BODY(argsort_rows) { (void)self, out[0] = tj_argsort(in[0], 1, false); }
BODY(top32) { (void)self, out[0] = tj_topk(in[0], 32, 1, true, NULL); }
BODY(softmax) { (void)self, out[0] = tj_softmax(in[0], -1); }
BODY(layernorm) { (void)self, out[0] = tj_layer_norm(in[0], in[1], in[2], 1e-5); }
BODY(rmsnorm_res) { (void)self, out[0] = tj_rms_norm(tj_add(in[0], in[1]), in[2], 1e-5); }
BODY(sum_rows) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(1), false); }
BODY(sum_cols) { (void)self, out[0] = tj_sum(in[0], TJ_AXES(0), false); }
BODY(sum_all) { (void)self, out[0] = tj_sum(in[0], TJ_ALL, false); }
BODY(argmax_rows) { (void)self, out[0] = tj_argmax(in[0], 1, false); }
BODY(transpose_add) { (void)self, out[0] = tj_add(tj_transpose(in[0], 0, 1), in[1]); }
BODY(linear_gelu) { (void)self, out[0] = tj_gelu(tj_add(tj_matmul(in[0], in[1]), in[2])); }

BODY(tiny_10in)
{
	(void)self;
	out[0] = in[0];
	for (int i = 1; i < 10; i++) out[0] = tj_add(out[0], in[i]);
}

BODY(gelu_erf)
{
	(void)self;
	tj_tensor *e = tj_erf(tj_mul(in[0], tj_f(0.70710678)));
	out[0] = tj_mul(tj_mul(tj_f(0.5), in[0]), tj_add(tj_i(1), e));
}

BODY(chain)
{
	(void)self;
	tj_tensor *x = in[0], *y = in[1];
	for (int i = 0; i < 10; i++) {
		x = tj_add(tj_mul(x, y), tj_f(0.5));
		x = tj_maximum(x, tj_mul(y, tj_f(0.25)));
	}
	out[0] = x;
}

BODY(mlp_body)
{
	(void)self;
	tj_tensor *h = tj_relu(tj_add(tj_matmul(in[0], in[1]), in[2]));
	out[0] = tj_add(tj_matmul(h, in[3]), in[4]);
}

/* x w [T,C] -> [H,T,D] */
static tj_tensor *heads(tj_tensor *x, tj_tensor *w, const int64_t *p)
{
	return tj_permute(tj_reshape(tj_matmul(x, w), TJ_SHAPE(p[0], p[2], p[1] / p[2])), TJ_AXES(1, 0, 2));
}

static tj_tensor *attend(tj_tensor *x, tj_tensor *const *w, const int64_t *p)
{
	double scale = 1 / sqrt((double)(p[1] / p[2]));
	tj_tensor *q = heads(x, w[0], p), *k = heads(x, w[1], p), *v = heads(x, w[2], p);
	tj_tensor *s = tj_softmax(tj_mul(tj_matmul(q, tj_transpose(k, -1, -2)), tj_f(scale)), -1); /* [H,T,T] */
	tj_tensor *y = tj_permute(tj_matmul(s, v), TJ_AXES(1, 0, 2));                              /* [T,H,D] */
	return tj_matmul(tj_reshape(y, TJ_SHAPE(p[0], p[1])), w[3]);
}

BODY(attention_body) { out[0] = attend(in[0], in + 1, self); }

/* in: x g1 c1 wq wk wv wo g2 c2 w1 b1 w2 b2 */
BODY(block_body)
{
	tj_tensor *x = tj_add(in[0], attend(tj_layer_norm(in[0], in[1], in[2], 1e-5), in + 3, self));
	tj_tensor *up = tj_gelu(tj_add(tj_matmul(tj_layer_norm(x, in[7], in[8], 1e-5), in[9]), in[10]));
	out[0] = tj_add(tj_add(x, tj_matmul(up, in[11])), in[12]);
}

/* ---- the table ---- */
enum { M1 = 1 << 20 };
/*   name                      body            hand           shape      limit     sizes              to check          tolerance */
const bench_case bench_cases[] = {
	{ "tiny_add_8",            tiny_add,       hand_tiny_add,      unary,     NO_LIMIT, { 8 },             { 8 },            0 },
	{ "tiny_10in_8",           tiny_10in,      hand_tiny_10in,     tiny10,    NO_LIMIT, { 8 },             { 8 },            1e-6 },
	{ "add_1M",                add,            hand_add,           binary,    ADD,      { M1 },            { 1000 },         0 },
	{ "exp_1M",                f_exp,          hand_exp,           unary,     COPY,     { M1 },            { 1000 },         1e-5 },
	{ "tanh_1M",               f_tanh,         hand_tanh,          unary,     COPY,     { M1 },            { 1000 },         1e-5 },
	{ "log_1M",                f_log,          hand_log,           unary,     COPY,     { M1 },            { 1000 },         1e-5 },
	{ "sigmoid_1M",            sigmoid,        hand_sigmoid,       unary,     COPY,     { M1 },            { 1000 },         1e-5 },
	{ "gelu_erf_1M",           gelu_erf,       hand_gelu_erf,      unary,     COPY,     { M1 },            { 1000 },         1e-5 },
	{ "silu_mul_10M",          silu_mul,       hand_silu_mul,      binary,    ADD,      { 10 * M1 },       { 1000 },         1e-5 },
	{ "chain30_64",            chain,          hand_chain,         binary,    NO_LIMIT, { 64 },            { 64 },           1e-4 },
	{ "chain30_4K",            chain,          hand_chain,         binary,    NO_LIMIT, { 4096 },          { 4096 },         1e-4 },
	{ "chain30_1M",            chain,          hand_chain,         binary,    ADD,      { M1 },            { 1000 },         1e-4 },
	{ "chain30_16M",           chain,          hand_chain,         binary,    ADD,      { 16 * M1 },       { 1000 },         1e-3 },
	{ "softmax_4096x128",      softmax,        hand_softmax,       rows,      COPY,     { 4096, 128 },     { 16, 128 },      1e-5 },
	{ "softmax_4096x1024",     softmax,        hand_softmax,       rows,      COPY,     { 4096, 1024 },    { 4, 1024 },      1e-5 },
	{ "softmax_4096x8192",     softmax,        hand_softmax,       rows,      COPY,     { 4096, 8192 },    { 2, 8192 },      1e-5 },
	{ "softmax_6144x384",      softmax,        hand_softmax,       rows,      COPY,     { 6144, 384 },     { 8, 384 },       1e-5 },
	{ "layernorm_4096x1024",   layernorm,      hand_layernorm,     norm,      COPY,     { 4096, 1024 },    { 4, 1024 },      1e-4 },
	{ "layernorm_4096x4096",   layernorm,      hand_layernorm,     norm,      COPY,     { 4096, 4096 },    { 4, 4096 },      1e-4 },
	{ "rmsnorm_res_4096x1024", rmsnorm_res,    hand_rmsnorm_res,   norm_res,  ADD,      { 4096, 1024 },    { 4, 1024 },      1e-4 },
	{ "sum_rows_4096",         sum_rows,       hand_sum_rows,      to_rows,   READ,     { 4096, 4096 },    { 16, 256 },      1e-3 },
	{ "sum_cols_4096",         sum_cols,       hand_sum_cols,      to_cols,   READ,     { 4096, 4096 },    { 256, 16 },      1e-3 },
	{ "sum_all_4096",          sum_all,        hand_sum_all,       to_one,    READ,     { 4096, 4096 },    { 64, 64 },       1e-3 },
	{ "argmax_rows_4096",      argmax_rows,    hand_argmax_rows,   to_index,  READ,     { 4096, 4096 },    { 16, 256 },      0 },
	{ "cumsum_rows_4096x1024", cumsum_rows,    hand_cumsum_rows,   rows,      COPY,     { 4096, 1024 },    { 16, 256 },      1e-4 },
	{ "cumsum_cols_4096x1024", cumsum_cols,    hand_cumsum_cols,   rows,      COPY,     { 4096, 1024 },    { 256, 16 },      1e-3 },
	{ "cumsum_1x4M",           cumsum_rows,    hand_cumsum_rows,   rows,      COPY,     { 1, 4 * M1 },     { 1, 4096 },      1e-3 },
	{ "sort_1x1M",             sort_rows,      hand_sort_rows,     rows,      COPY,     { 1, M1 },         { 1, 4096 },      0 },
	{ "sort_1024x1024",        sort_rows,      hand_sort_rows,     rows,      COPY,     { 1024, 1024 },    { 16, 100 },      0 },
	{ "argsort_1x1M",          argsort_rows,   hand_argsort_rows,  to_order,  COPY,     { 1, M1 },         { 1, 4096 },      0 },
	{ "argsort_1024x1024",     argsort_rows,   hand_argsort_rows,  to_order,  COPY,     { 1024, 1024 },    { 16, 100 },      0 },
	{ "topk32_64x32000",       top32,          hand_top32,         to_top32,  READ,     { 64, 32000 },     { 4, 1000 },      0 },
	{ "transpose_add_2048",    transpose_add,  hand_transpose_add, two,       ADD,      { 2048, 2048 },    { 64, 64 },       0 },
	{ "linear_gelu_1x768x3072",    linear_gelu, hand_linear_gelu,  linear,    SGEMM,    { 1, 768, 3072 },  { 1, 64, 96 },    1e-4 },
	{ "linear_gelu_32x768x3072",   linear_gelu, hand_linear_gelu,  linear,    SGEMM,    { 32, 768, 3072 }, { 32, 64, 96 },   1e-4 },
	{ "linear_gelu_128x768x3072",  linear_gelu, hand_linear_gelu,  linear,    SGEMM,    { 128, 768, 3072 }, { 40, 64, 96 },  1e-4 },
	{ "linear_gelu_1024x768x3072", linear_gelu, hand_linear_gelu,  linear,    SGEMM,    { 1024, 768, 3072 }, { 72, 64, 96 }, 1e-4 },
	{ "mlp_32x784x256x10",     mlp_body,       hand_mlp,           mlp,       SGEMM,    { 32, 784, 256 },  { 32, 784, 256 }, 1e-3 },
	{ "attention_384x768x12",  attention_body, hand_attention,     attention, SGEMM,    { 384, 768, 12 },  { 24, 48, 3 },    1e-4 },
	{ "block_384x768x12",      block_body,     hand_block,         block,     SGEMM,    { 384, 768, 12 },  { 24, 48, 3 },    1e-3 },
};
const int bench_ncases = sizeof bench_cases / sizeof *bench_cases;
