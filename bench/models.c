/* SPDX-License-Identifier: MIT */
/* models: the table, the networks, AdamW. */
#include "bench/models.h"

#include <math.h>
#include <stdlib.h>

/* ---- numbers for parameters and batches ---- */
/* A number of -1 to 1 for element i of tensor k. */
static double noise(uint32_t i, uint32_t k)
{
	uint32_t h = i * 2654435761u + k * 2246822519u + 374761393u;
	h = (h ^ h >> 15) * 2246822519u;
	h = (h ^ h >> 13) * 3266489917u;
	return (double)(h ^ h >> 16) * 0x1p-31 - 1;
}

static void *noises(int64_t n, tj_dtype dtype, int k, double mean, double scale)
{
	void *data = malloc((size_t)n * 8);
	if (!data) exit(2);
	for (int64_t i = 0; i < n; i++) {
		const double v = mean + scale * noise((uint32_t)i, (uint32_t)k);
		if (dtype == TJ_F64) ((double *)data)[i] = v;
		else ((float *)data)[i] = (float)v;
	}
	return data;
}

/* A cell with such numbers. */
static tj_tensor *cell(const model *m, tj_dims shape, int k, double mean, double scale)
{
	tj_tensor *t = tj_param(m->ctx, m->dtype, shape);
	const int64_t n = tj_numel(t);
	void *data = noises(n, m->dtype, k, mean, scale);
	tj_write(t, data, (size_t)n * (m->dtype == TJ_F64 ? 8 : 4));
	free(data);
	return t;
}

static void param(model *m, tj_dims shape, double mean, double scale)
{
	m->first[m->n] = tj_param(m->ctx, m->dtype, shape);
	m->second[m->n] = tj_param(m->ctx, m->dtype, shape);
	m->param[m->n] = cell(m, shape, m->n, mean, scale);
	m->n++;
}

static void weight(model *m, int64_t rows, int64_t cols) { param(m, TJ_SHAPE(rows, cols), 0, 1 / sqrt((double)rows)); }
static void row(model *m, int64_t n, double value) { param(m, TJ_SHAPE(n), value, 0); }
static void norm(model *m) { row(m, m->size.width, 1), row(m, m->size.width, 0); }

/* ---- the batch ---- */
enum { OF_X = 1000, OF_TARGET }; /* what noise() takes for k */

static tj_tensor *features(model *m, tj_dims shape, int k)
{
	int64_t n = 1;
	for (tj_dims d = shape; *d != TJ_END_DIM; d++) n *= *d;
	void *v = noises(n, m->dtype, k, 0, 1.5);
	tj_tensor *t = tj_from_data(m->ctx, m->dtype, shape, v);
	free(v);
	return t;
}

/* `rows` times `cols` numbers of classes; cols 0: a list. */
static tj_tensor *classes(model *m, int64_t rows, int64_t cols, int k)
{
	int64_t n = rows * (cols ? cols : 1), *v = malloc((size_t)n * sizeof *v);
	if (!v) exit(2);
	for (int64_t i = 0; i < n; i++) v[i] = (int64_t)((noise((uint32_t)i, (uint32_t)k) + 1) / 2 * (double)m->size.classes);
	tj_tensor *t = tj_from_data(m->ctx, TJ_I64, cols ? TJ_SHAPE(rows, cols) : TJ_SHAPE(rows), v);
	free(v);
	return t;
}

static void batch(model *m, tj_tensor *x, int64_t targets)
{
	m->x = x;
	m->target = classes(m, targets, 0, OF_TARGET);
}

/* ---- multilayer perceptron ---- */
static tj_tensor *linear(tj_tensor *x, tj_tensor *const *w) { return tj_add(tj_matmul(x, w[0]), w[1]); }

static void mlp_params(model *m)
{
	for (int i = 0; i <= m->size.depth; i++) {
		const int64_t out = i < m->size.depth ? m->size.width : m->size.classes;
		weight(m, i ? m->size.width : m->size.in, out), row(m, out, 0);
	}
	batch(m, features(m, TJ_SHAPE(m->size.batch, m->size.in), OF_X), m->size.batch);
}

static tj_tensor *mlp_loss(const model *m, tj_tensor *x, tj_tensor *target)
{
	for (int i = 0; i < m->size.depth; i++) x = tj_gelu(linear(x, m->param + 2 * i));
	return tj_cross_entropy(linear(x, m->param + 2 * m->size.depth), target);
}

/* ---- residual perceptron over patches (Touvron et al., "ResMLP", 2021): x [B,T,in] ---- */
enum { RESMLP_BLOCK = 11 };

static void resmlp_params(model *m)
{
	const int64_t C = m->size.width, T = m->size.length;
	weight(m, m->size.in, C), row(m, C, 0);
	for (int i = 0; i < m->size.depth; i++) {
		norm(m), weight(m, T, T), row(m, C, 0.1);
		norm(m), weight(m, C, 4 * C), row(m, 4 * C, 0), weight(m, 4 * C, C), row(m, C, 0), row(m, C, 0.1);
	}
	norm(m), weight(m, C, m->size.classes), row(m, m->size.classes, 0);
	batch(m, features(m, TJ_SHAPE(m->size.batch, T, m->size.in), OF_X), m->size.batch);
}

static tj_tensor *affine(tj_tensor *x, tj_tensor *const *w) { return tj_add(tj_mul(x, w[0]), w[1]); }

static tj_tensor *resmlp_loss(const model *m, tj_tensor *x, tj_tensor *target)
{
	tj_tensor *const *w = m->param + 2;
	x = linear(x, m->param);
	for (int i = 0; i < m->size.depth; i++, w += RESMLP_BLOCK) {
		x = tj_add(x, tj_mul(tj_matmul(w[2], affine(x, w)), w[3])); /* [T,T] x [B,T,C] */
		x = tj_add(x, tj_mul(linear(tj_gelu(linear(affine(x, w + 4), w + 6)), w + 8), w[10]));
	}
	return tj_cross_entropy(linear(tj_mean(affine(x, w), TJ_AXES(1), false), w + 2), target);
}

/* ---- LSTM: x [T,B,in], a class for each place ---- */
static void lstm_params(model *m)
{
	const int64_t H = m->size.width;
	weight(m, m->size.in, 4 * H), row(m, 4 * H, 0), weight(m, H, 4 * H), weight(m, H, m->size.classes);
	batch(m, features(m, TJ_SHAPE(m->size.length, m->size.batch, m->size.in), OF_X), m->size.length * m->size.batch);
}

/* in: h, cell [B,H], what x adds to the gates [B,4H]; out: h, cell, h. */
static void lstm_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	const int64_t H = m->size.width;
	tj_tensor *gate = tj_add(in[2], tj_matmul(in[0], m->param[2])), *part[4];
	for (int i = 0; i < 4; i++) part[i] = tj_slice(gate, 1, i * H, (i + 1) * H, 1);
	out[1] = tj_add(tj_mul(tj_sigmoid(part[1]), in[1]), tj_mul(tj_sigmoid(part[0]), tj_tanh(part[2])));
	out[2] = out[0] = tj_mul(tj_sigmoid(part[3]), tj_tanh(out[1]));
}

static tj_tensor *lstm_loss(const model *m, tj_tensor *x, tj_tensor *target)
{
	tj_tensor *zero = tj_full(m->dtype, TJ_SHAPE(m->size.batch, m->size.width), tj_f(0)), *last[2], *h;
	tj_scan(last, &h, 1, lstm_turn, TJ_LIST(zero, zero), TJ_LIST(linear(x, m->param)), (void *)m, NULL);
	return tj_cross_entropy(tj_reshape(tj_matmul(h, m->param[3]), TJ_SHAPE(-1, m->size.classes)), target);
}

/* ---- transformer ---- */
enum { GPT_BLOCK = 8 };

static void block_params(model *m)
{
	const int64_t C = m->size.width;
	norm(m), weight(m, C, 3 * C), weight(m, C, C);
	norm(m), weight(m, C, 4 * C), weight(m, 4 * C, C);
}

static void attention_params(model *m)
{
	tj_dims shape = TJ_SHAPE(m->size.batch, m->size.length, m->size.width);
	block_params(m);
	m->x = features(m, shape, OF_X);
	m->target = features(m, shape, OF_TARGET);
}

/* x [B,T,C] */
static tj_tensor *attend(const model *m, tj_tensor *const *w, tj_tensor *x)
{
	const int64_t B = m->size.batch, T = m->size.length, C = m->size.width, H = m->size.heads;
	tj_tensor *part[3], *all = tj_matmul(x, w[0]), *at = tj_arange(TJ_I64, 0, T, 1);
	for (int i = 0; i < 3; i++)
		part[i] = tj_permute(tj_reshape(tj_slice(all, 2, i * C, (i + 1) * C, 1), TJ_SHAPE(B, T, H, C / H)), TJ_AXES(0, 2, 1, 3));
	tj_tensor *score = tj_mul(tj_matmul(part[0], tj_transpose(part[1], -1, -2)), tj_f(1 / sqrt((double)(C / H))));
	tj_tensor *earlier = tj_le(at, tj_unsqueeze(at, 1)); /* [T,T]: a place sees those up to itself */
	tj_tensor *y = tj_matmul(tj_softmax(tj_where(earlier, score, tj_f(-INFINITY)), -1), part[2]);
	return tj_matmul(tj_reshape(tj_permute(y, TJ_AXES(0, 2, 1, 3)), TJ_SHAPE(B, T, C)), w[1]);
}

static tj_tensor *block(const model *m, tj_tensor *const *w, tj_tensor *x)
{
	x = tj_add(x, attend(m, w + 2, tj_layer_norm(x, w[0], w[1], 1e-5)));
	return tj_add(x, tj_matmul(tj_gelu(tj_matmul(tj_layer_norm(x, w[4], w[5], 1e-5), w[6])), w[7]));
}

static tj_tensor *attention_loss(const model *m, tj_tensor *x, tj_tensor *target)
{
	return tj_mean(tj_square(tj_sub(block(m, m->param, x), target)), TJ_ALL, false);
}

static void gpt_params(model *m)
{
	const int64_t C = m->size.width, V = m->size.classes;
	param(m, TJ_SHAPE(V, C), 0, 0.04), param(m, TJ_SHAPE(m->size.length, C), 0, 0.04);
	norm(m), weight(m, C, V);
	for (int i = 0; i < m->size.depth; i++) block_params(m);
	batch(m, classes(m, m->size.batch, m->size.length, OF_X), m->size.batch * m->size.length);
}

static tj_tensor *gpt_loss(const model *m, tj_tensor *x, tj_tensor *target)
{
	x = tj_add(tj_embedding(m->param[0], x), m->param[1]);
	for (int i = 0; i < m->size.depth; i++) x = block(m, m->param + 5 + GPT_BLOCK * i, x);
	x = tj_matmul(tj_layer_norm(x, m->param[2], m->param[3], 1e-5), m->param[4]);
	return tj_cross_entropy(tj_reshape(x, TJ_SHAPE(-1, m->size.classes)), target);
}

/* ---- many parameters, no network ---- */
static void many_params(model *m)
{
	for (int i = 0; i < m->size.depth; i++) {
		row(m, m->size.width, 1);
		m->grad[i] = cell(m, TJ_SHAPE(m->size.width), i, 0, 1e-3);
	}
	m->x = m->target = features(m, TJ_SHAPE(1), OF_X);
}

/* ---- the step ---- */
/* Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019; rate 0.001, decay 0.01. */
static void adamw(const model *m, tj_tensor *const *grad)
{
	const double keep1 = 0.9, keep2 = 0.999, rate = 1e-3, decay = 0.01;
	tj_tensor *t = tj_add(m->steps, tj_f(1));
	tj_tensor *by = tj_div(tj_f(rate), tj_sub(tj_f(1), tj_pow(tj_f(keep1), t)));
	tj_tensor *unbias = tj_rsqrt(tj_sub(tj_f(1), tj_pow(tj_f(keep2), t)));
	for (int i = 0; i < m->n; i++) {
		tj_tensor *g = grad[i];
		tj_tensor *first = tj_add(tj_mul(m->first[i], tj_f(keep1)), tj_mul(g, tj_f(1 - keep1)));
		tj_tensor *second = tj_add(tj_mul(m->second[i], tj_f(keep2)), tj_mul(tj_square(g), tj_f(1 - keep2)));
		tj_tensor *size = tj_add(tj_mul(tj_sqrt(second), unbias), tj_f(1e-8));
		tj_assign(m->param[i], tj_sub(tj_mul(m->param[i], tj_f(1 - rate * decay)), tj_div(tj_mul(first, by), size)));
		tj_assign(m->first[i], first);
		tj_assign(m->second[i], second);
	}
	tj_assign(m->steps, t);
}

void model_step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *grad[MODEL_PARAMS];
	if (!m->kind->loss) {
		adamw(m, m->grad);
		out[0] = tj_mul(in[0], tj_f(1));
		return;
	}
	out[0] = m->kind->loss(m, in[0], in[1]);
	if (tj_grad(grad, out[0], m->param, NULL) == TJ_OK) adamw(m, grad);
}

model *model_open(tj_ctx *c, const model_kind *kind, bool small, tj_dtype dtype)
{
	model *m = calloc(1, sizeof *m);
	if (!m) exit(2);
	*m = (model){ .kind = kind, .size = small ? kind->small : kind->full, .ctx = c, .dtype = dtype, .steps = tj_param(c, dtype, TJ_0D) };
	kind->params(m);
	m->param[m->n] = TJ_END;
	m->list[0] = m->x, m->list[1] = m->target, m->list[2] = TJ_END;
	return m;
}

void model_close(model *m)
{
	for (int i = 0; i < m->n; i++) {
		tj_release(m->param[i]), tj_release(m->first[i]), tj_release(m->second[i]);
		if (m->grad[i]) tj_release(m->grad[i]);
	}
	tj_release(m->steps);
	free(m);
}

/* ---- the table: full sizes, then small ones ---- */
const model_kind model_kinds[] = {
	{ "train_mlp", mlp_params, mlp_loss, { .batch = 128, .in = 784, .width = 512, .depth = 2, .classes = 10 },
	  { .batch = 8, .in = 12, .width = 16, .depth = 2, .classes = 5 } },
	{ "train_resmlp", resmlp_params, resmlp_loss, { .batch = 32, .length = 64, .in = 48, .width = 128, .depth = 4, .classes = 10 },
	  { .batch = 3, .length = 4, .in = 6, .width = 8, .depth = 2, .classes = 5 } },
	{ "train_lstm", lstm_params, lstm_loss, { .batch = 32, .length = 64, .in = 64, .width = 128, .classes = 64 },
	  { .batch = 3, .length = 7, .in = 4, .width = 8, .classes = 5 } },
	{ "train_attention", attention_params, attention_loss, { .batch = 8, .length = 128, .width = 256, .heads = 4 },
	  { .batch = 2, .length = 6, .width = 8, .heads = 2 } },
	{ "train_gpt", gpt_params, gpt_loss, { .batch = 32, .length = 64, .width = 128, .depth = 4, .heads = 4, .classes = 96 },
	  { .batch = 2, .length = 6, .width = 8, .depth = 2, .heads = 2, .classes = 11 } },
	{ "adamw_200", many_params, NULL, { .batch = 1, .width = 50000, .depth = 200 }, { .batch = 1, .width = 33, .depth = 20 } },
};
const int model_nkinds = sizeof model_kinds / sizeof *model_kinds;
